//! Running reductions.

use super::reduce::{complex_order, log_sum_exp};
use super::tensor::{C64, Data, Tensor};
use crate::aval::Aval;
use crate::op::{Row, ScanKind};
use crate::{Dtype, Result, err};

/// A running reduction along an axis, rounded once at the end; without `inclusive` each element is what
/// comes before it, the first one the identity.
pub(super) fn scan(
    kind: ScanKind,
    axis: usize,
    reverse: bool,
    inclusive: bool,
    x: &Tensor,
    out: &Aval,
) -> Result<Tensor> {
    let (t, len) = x.lines(&[axis]);
    let how = How { len, reverse, inclusive };
    let (row, name) = match kind {
        ScanKind::Sum => (Row::Add, "cumsum"),
        ScanKind::Prod => (Row::Mul, "cumprod"),
        ScanKind::Min => (Row::Min, "cummin"),
        ScanKind::Max => (Row::Max, "cummax"),
        ScanKind::LogAddExp => (Row::LogAddExp, "logcumsumexp"),
    };
    let m = row.meaning();
    let lacks = || err!(Dtype, "[{name}] {} is not accepted", out.dtype);
    let data = match t.as_kind_of(out.dtype) {
        Data::Int(v) => {
            let (lo, hi) = out.dtype.int_range().unwrap_or((0, 0));
            let first = match kind {
                ScanKind::Sum | ScanKind::LogAddExp => 0,
                ScanKind::Prod => 1,
                ScanKind::Min => hi,
                ScanKind::Max => lo,
            };
            let f = m.int.ok_or_else(lacks)?;
            Data::Int(how.run(&v, first, |a, b| f(&[a, b], Dtype::I64)))
        }
        Data::Float(v) => {
            let first = match kind {
                ScanKind::Sum => 0.0,
                ScanKind::Prod => 1.0,
                ScanKind::Min => f64::INFINITY,
                ScanKind::Max | ScanKind::LogAddExp => f64::NEG_INFINITY,
            };
            let f = m.float.ok_or_else(lacks)?;
            Data::Float(how.run(&v, first, |a, b| f(&[a, b])))
        }
        Data::Complex(v) => {
            let inf = C64::new(f64::INFINITY, f64::INFINITY);
            let (first, f): (C64, fn(C64, C64) -> C64) =
                match kind {
                    ScanKind::Sum => (C64::from(0.0), |a, b| a + b),
                    ScanKind::Prod => (C64::from(1.0), |a, b| a * b),
                    ScanKind::Min => {
                        (inf, |a, b| if a.is_nan() || complex_order(&a, &b).is_lt() { a } else { b })
                    }
                    ScanKind::Max => (-inf, |a, b| {
                        if a.is_nan() || (!b.is_nan() && complex_order(&a, &b).is_gt()) { a } else { b }
                    }),
                    ScanKind::LogAddExp => (C64::from(f64::NEG_INFINITY), complex_log_add_exp),
                };
            Data::Complex(how.run(&v, first, f))
        }
    };
    let moved = Aval::new(t.shape, out.dtype);
    Ok(Tensor::new(&moved, data).last_to(axis))
}

fn complex_log_add_exp(a: C64, b: C64) -> C64 {
    let top = log_sum_exp(&[a.re, b.re]);
    if top.is_infinite() { C64::from(top) } else { ((a - top).exp() + (b - top).exp()).ln() + top }
}

struct How {
    len: usize,
    reverse: bool,
    inclusive: bool,
}

impl How {
    fn run<T: Copy>(&self, v: &[T], first: T, f: impl Fn(T, T) -> T) -> Vec<T> {
        let mut out = v.to_vec();
        for line in out.chunks_mut(self.len.max(1)) {
            if self.reverse {
                line.reverse();
            }
            let mut acc = first;
            for (i, x) in line.iter_mut().enumerate() {
                let before = acc;
                // The first element stands for itself: -0.0 stays, and a product need not start at 1.
                acc = if i == 0 { *x } else { f(acc, *x) };
                *x = if self.inclusive { acc } else { before };
            }
            if self.reverse {
                line.reverse();
            }
        }
        out
    }
}

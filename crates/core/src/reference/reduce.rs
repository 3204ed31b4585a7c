//! Reductions.

use super::tensor::{C64, Data, Tensor, sum};
use crate::aval::Aval;
use crate::op::sort::float_order;
use crate::op::{ArgKind, ReduceKind, Row};
use crate::{Dtype, Result, bail, err};
use std::cmp::Ordering;

/// Reduces along axes, which are dropped.
pub(super) fn reduce(kind: ReduceKind, axes: &[u8], x: &Tensor, out: &Aval) -> Result<Tensor> {
    let axes: Vec<usize> = axes.iter().map(|&a| a as usize).collect();
    let (t, len) = x.lines(&axes);
    let lines = out.shape.elems();
    if len == 0 && lines > 0 && !kind.has_identity() {
        bail!(Argument, "[{}] no elements to reduce in shape {:?}", kind.name(), x.shape);
    }
    let data = match kind {
        ReduceKind::Any => {
            let t = t.cast(Dtype::Bool);
            Data::Int(each(t.ints("any")?, lines, len, |l| l.contains(&1) as i128))
        }
        ReduceKind::All => {
            let t = t.cast(Dtype::Bool);
            Data::Int(each(t.ints("all")?, lines, len, |l| !l.contains(&0) as i128))
        }
        ReduceKind::LogSumExp => match t.as_kind_of(out.dtype) {
            Data::Complex(v) => Data::Complex(each(&v, lines, len, complex_log_sum_exp)),
            Data::Float(v) => Data::Float(each(&v, lines, len, log_sum_exp)),
            Data::Int(_) => bail!(Internal, "[logsumexp] gives {}", out.dtype),
        },
        ReduceKind::Sum => match t.as_kind_of(out.dtype) {
            Data::Int(v) => Data::Int(each(&v, lines, len, |l| l.iter().sum())),
            Data::Float(v) => Data::Float(each(&v, lines, len, sum)),
            Data::Complex(v) => Data::Complex(each(&v, lines, len, complex_sum)),
        },
        ReduceKind::Prod => match t.as_kind_of(out.dtype) {
            Data::Int(v) => {
                Data::Int(each(&v, lines, len, |l| l.iter().fold(1i128, |a, &b| a.wrapping_mul(b))))
            }
            Data::Float(v) => Data::Float(each(&v, lines, len, |l| l.iter().product())),
            Data::Complex(v) => Data::Complex(each(&v, lines, len, |l| l.iter().product())),
        },
        ReduceKind::Min => extreme(Row::Min, &t, lines, len)?,
        ReduceKind::Max => extreme(Row::Max, &t, lines, len)?,
    };
    Ok(Tensor::new(out, data))
}

/// Applies a function to each line.
pub(super) fn each<T, R>(v: &[T], lines: usize, len: usize, f: impl Fn(&[T]) -> R) -> Vec<R> {
    (0..lines).map(|i| f(&v[i * len..][..len])).collect()
}

fn complex_sum(line: &[C64]) -> C64 {
    let part = |f: fn(&C64) -> f64| sum(&line.iter().map(f).collect::<Vec<_>>());
    C64::new(part(|z| z.re), part(|z| z.im))
}

/// log(sum(exp(x))); -inf when all are.
pub(super) fn log_sum_exp(line: &[f64]) -> f64 {
    let top = line.iter().copied().fold(f64::NEG_INFINITY, |a, b| if a.is_nan() || a > b { a } else { b });
    if top.is_infinite() {
        return top;
    }
    top + sum(&line.iter().map(|x| (x - top).exp()).collect::<Vec<_>>()).ln()
}

fn complex_log_sum_exp(line: &[C64]) -> C64 {
    let top = line.iter().map(|z| z.re).fold(f64::NEG_INFINITY, f64::max);
    if top.is_infinite() {
        return C64::from(top);
    }
    complex_sum(&line.iter().map(|z| (z - top).exp()).collect::<Vec<_>>()).ln() + top
}

/// Minima and maxima fold the row of the elementwise table, so NaN wins.
fn extreme(row: Row, t: &Tensor, lines: usize, len: usize) -> Result<Data> {
    let m = row.meaning();
    let lacks = || err!(Internal, "[{}] {} has no meaning", row.name(), t.dtype);
    Ok(match &t.data {
        Data::Int(v) => {
            let f = m.int.ok_or_else(lacks)?;
            Data::Int(each(v, lines, len, |l| l[1..].iter().fold(l[0], |a, &b| f(&[a, b], t.dtype))))
        }
        Data::Float(v) => {
            let f = m.float.ok_or_else(lacks)?;
            Data::Float(each(v, lines, len, |l| l[1..].iter().fold(l[0], |a, &b| f(&[a, b]))))
        }
        Data::Complex(v) => {
            let f = m.complex.ok_or_else(lacks)?;
            Data::Complex(each(v, lines, len, |l| l[1..].iter().fold(l[0], |a, &b| f(&[a, b]))))
        }
    })
}

/// Index of the extreme along an axis: the first of equals, NaN winning.
pub(super) fn arg_reduce(kind: ArgKind, axis: usize, x: &Tensor, out: &Aval) -> Result<Tensor> {
    let (t, len) = x.lines(&[axis]);
    let lines = out.shape.elems();
    if len == 0 && lines > 0 {
        bail!(Argument, "[{}] axis {axis} of shape {:?} has no elements", kind.name(), x.shape);
    }
    let data = match &t.data {
        Data::Int(v) => each(v, lines, len, |l| first(l, kind, |a, b| a.cmp(b), |_| false)),
        Data::Float(v) => each(v, lines, len, |l| first(l, kind, |a, b| float_order(*a, *b), |x| x.is_nan())),
        Data::Complex(v) => each(v, lines, len, |l| first(l, kind, complex_order, |z| z.is_nan())),
    };
    Ok(Tensor::new(out, Data::Int(data)))
}

/// Lexicographic order.
pub(super) fn complex_order(a: &C64, b: &C64) -> Ordering {
    float_order(a.re, b.re).then_with(|| float_order(a.im, b.im))
}

fn first<T>(line: &[T], kind: ArgKind, order: impl Fn(&T, &T) -> Ordering, nan: impl Fn(&T) -> bool) -> i128 {
    if let Some(i) = line.iter().position(nan) {
        return i as i128;
    }
    let mut best = 0;
    for i in 1..line.len() {
        let o = order(&line[i], &line[best]);
        if (kind == ArgKind::Min && o.is_lt()) || (kind == ArgKind::Max && o.is_gt()) {
            best = i;
        }
    }
    best as i128
}

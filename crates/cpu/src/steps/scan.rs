//! Running reductions. Half-precision ones accumulate in float32, float32 sums in float64, and each
//! result is rounded once.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::elem::{Elem, by_dtype, by_size};
use crate::pool;
use crate::view::{self, dense};
use half::{bf16, f16};
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::op::ScanKind;
use isopace_core::{Aval, Complex, Dtype, Result, bail};
use std::sync::Arc;

/// How one kind runs over elements of `T`: an accumulator, a step, a result.
struct Rule<T, A, R> {
    start: A,
    step: fn(A, T) -> A,
    finish: fn(A) -> R,
}

fn run<T, A, R>(
    v: &Input<'_>,
    axis: usize,
    reverse: bool,
    inclusive: bool,
    out: &mut [R],
    rule: Rule<T, A, R>,
) -> Result<()>
where
    T: bytemuck::Pod + Send + Sync,
    A: Copy + Sync,
    R: Copy + Send,
{
    let shape = &v.layout.shape;
    let (n, inner) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
    let x = dense::<T>(v)?;
    let plane = n * inner;
    if plane == 0 {
        return Ok(());
    }
    let line = |x: &[T], out: &mut [R], i: usize| {
        let mut a = rule.start;
        for k in 0..n {
            let at = if reverse { n - 1 - k } else { k } * inner + i;
            if inclusive {
                a = (rule.step)(a, x[at]);
                out[at] = (rule.finish)(a);
            } else {
                out[at] = (rule.finish)(a);
                a = (rule.step)(a, x[at]);
            }
        }
    };
    let per = ((1 << 14) / plane).max(1);
    pool::for_chunks(out, per * plane, |c, part| {
        for (j, o) in part.chunks_mut(plane).enumerate() {
            let x = &x[(c * per + j) * plane..][..plane];
            (0..inner).for_each(|i| line(x, o, i));
        }
    });
    Ok(())
}

/// What an exclusive minimum or maximum starts from.
fn extreme<T: Elem>(d: Dtype, max: bool) -> T {
    let bytes = |b: &[u8]| -> T { bytemuck::pod_read_unaligned(b) };
    let inf = if max { f64::NEG_INFINITY } else { f64::INFINITY };
    match d {
        Dtype::F16 => bytes(bytemuck::bytes_of(&f16::from_f64(inf))),
        Dtype::BF16 => bytes(bytemuck::bytes_of(&bf16::from_f64(inf))),
        Dtype::F32 => bytes(bytemuck::bytes_of(&(inf as f32))),
        Dtype::F64 => bytes(bytemuck::bytes_of(&inf)),
        Dtype::C64 => bytes(bytemuck::bytes_of(&Complex::new(inf as f32, inf as f32))),
        d => {
            let (lo, hi) = d.int_range().unwrap_or((0, 0));
            let x = if max { lo } else { hi };
            bytes(&x.to_le_bytes()[..d.size()])
        }
    }
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    isopace_core::op::Row::LogAddExp.meaning().float.map_or(f64::NAN, |f| f(&[a, b]))
}

/// A running reduction.
pub fn scan(
    spec: Spec<'_>,
    kind: ScanKind,
    axis: usize,
    reverse: bool,
    inclusive: bool,
) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    if axis >= avals[0].shape.len() {
        bail!(Internal, "[{}] axis {axis} of {:?}", kind.name(), avals[0].shape);
    }
    let from = avals[0].dtype;
    one(spec, move |ins, _| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        scan_into(&ins[0], from, &out, kind, axis, reverse, inclusive, &mut b)?;
        Ok(view::value(b, &out))
    })
}

fn scan_into(
    v: &Input<'_>,
    from: Dtype,
    out: &Aval,
    kind: ScanKind,
    axis: usize,
    rev: bool,
    inc: bool,
    b: &mut CpuBuffer,
) -> Result<()> {
    use ScanKind::*;
    macro_rules! float {
        ($T:ty, $A:ty, $start:expr, |$a:ident, $x:ident| $step:expr, $from:expr) => {
            run::<$T, $A, $T>(
                v,
                axis,
                rev,
                inc,
                b.slice_mut()?,
                Rule { start: $start, step: |$a, $x| $step, finish: $from },
            )
        };
    }
    match (kind, from) {
        (Sum, Dtype::F32) => float!(f32, f64, 0.0, |a, x| a + x as f64, |a| a as f32),
        (Sum, Dtype::F64) => float!(f64, f64, 0.0, |a, x| a + x, |a| a),
        (Sum, Dtype::F16) => float!(f16, f32, 0.0, |a, x| a + x.to_f32(), f16::from_f32),
        (Sum, Dtype::BF16) => float!(bf16, f32, 0.0, |a, x| a + x.to_f32(), bf16::from_f32),
        (Prod, Dtype::F32) => float!(f32, f64, 1.0, |a, x| a * x as f64, |a| a as f32),
        (Prod, Dtype::F64) => float!(f64, f64, 1.0, |a, x| a * x, |a| a),
        (Prod, Dtype::F16) => float!(f16, f32, 1.0, |a, x| a * x.to_f32(), f16::from_f32),
        (Prod, Dtype::BF16) => float!(bf16, f32, 1.0, |a, x| a * x.to_f32(), bf16::from_f32),
        (LogAddExp, Dtype::F32) => {
            float!(f32, f64, f64::NEG_INFINITY, |a, x| log_add_exp(a, x as f64), |a| a as f32)
        }
        (LogAddExp, Dtype::F64) => float!(f64, f64, f64::NEG_INFINITY, |a, x| log_add_exp(a, x), |a| a),
        (LogAddExp, Dtype::F16) => {
            float!(f16, f64, f64::NEG_INFINITY, |a, x| log_add_exp(a, x.to_f64()), f16::from_f64)
        }
        (LogAddExp, Dtype::BF16) => {
            float!(bf16, f64, f64::NEG_INFINITY, |a, x| log_add_exp(a, x.to_f64()), bf16::from_f64)
        }
        (Sum, Dtype::C64) => float!(Complex, Complex, Complex::new(0.0, 0.0), |a, x| a + x, |a| a),
        (Prod, Dtype::C64) => float!(Complex, Complex, Complex::new(1.0, 0.0), |a, x| a * x, |a| a),
        (LogAddExp, d) => bail!(Dtype, "[{}] {d} is not accepted; accepted: floating dtypes", kind.name()),
        (Sum | Prod, _) => by_dtype!(from, T => by_size!(out.dtype.size(), R => {
            let rule = Rule::<T, i64, R> {
                start: if kind == Sum { 0 } else { 1 },
                step: if kind == Sum { |a, x| a.wrapping_add(x.to_i64()) } else { |a, x| a.wrapping_mul(x.to_i64()) },
                finish: |a| bytemuck::pod_read_unaligned(&a.to_ne_bytes()[..size_of::<R>()]),
            };
            if out.dtype.is_inexact() {
                bail!(Internal, "[{}] {from} into {}", kind.name(), out.dtype);
            }
            run(v, axis, rev, inc, b.slice_mut()?, rule)
        })),
        (Min | Max, _) => by_dtype!(from, T => {
            let rule = Rule::<T, T, T> {
                start: extreme(from, kind == Max),
                step: if kind == Max { Elem::max } else { Elem::min },
                finish: |a| a,
            };
            run(v, axis, rev, inc, b.slice_mut()?, rule)
        }),
    }
}

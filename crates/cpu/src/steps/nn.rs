//! Softmax and norms along the last axis. Statistics are float32 (float64 for float64); a row is read
//! while it is in the cache, and rows are shared out over the pool.

use super::{float, inputs, one};
use crate::buffer::CpuBuffer;
use crate::kernels::nn as kernel;
use crate::pool;
use crate::scratch::Elems;
use crate::view::{self, dense, dense_f32};
use half::{bf16, f16};
use isopace_core::backend::{Kernel, Spec};
use isopace_core::{Aval, Dtype, Result, bail};
use std::sync::Arc;

/// Elements computed by one thread at a time.
const CHUNK: usize = 1 << 15;

/// Sums in 32 lanes by blocks, so that long rows lose nothing.
#[inline(always)]
fn sum(x: &[f32], f: impl Fn(f32) -> f32) -> f64 {
    let mut total = 0f64;
    for block in x.chunks(1024) {
        let mut lanes = [0f32; 32];
        let (whole, tail) = block.as_chunks::<32>();
        for c in whole {
            lanes.iter_mut().zip(c).for_each(|(l, &x)| *l += f(x));
        }
        lanes.iter_mut().zip(tail).for_each(|(l, &x)| *l += f(x));
        let mut n = 32;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                lanes[i] += lanes[i + n];
            }
        }
        total += lanes[0] as f64;
    }
    total
}

/// Calls `f(x row, out row)` for each row of `n`, over the pool.
fn rows<T: Sync, R: Send>(x: &[T], out: &mut [R], n: usize, f: impl Fn(&[T], &mut [R]) + Sync) {
    if n == 0 {
        return;
    }
    let per = (CHUNK / n).max(1);
    let chunk = |c: usize, part: &mut [R]| {
        for (j, o) in part.chunks_mut(n).enumerate() {
            f(&x[(c * per + j) * n..][..n], o);
        }
    };
    if out.len() <= per * n { chunk(0, out) } else { pool::for_chunks(out, per * n, chunk) }
}

/// exp(x - max) / sum.
pub fn softmax(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    let d = avals[0].dtype;
    let n = *out.shape.last().unwrap_or(&1);
    if d != out.dtype || !d.is_float() {
        bail!(Internal, "[softmax] {d} gives {}", out.dtype);
    }
    one(spec, move |ins, _| {
        if d == Dtype::F64 {
            let x = dense::<f64>(&ins[0])?;
            let mut b = CpuBuffer::new(out.nbytes())?;
            rows(&x, b.slice_mut::<f64>()?, n, |x, o| {
                let top = x.iter().fold(f64::NEG_INFINITY, |a, &x| if x > a || x.is_nan() { x } else { a });
                x.iter().zip(o.iter_mut()).for_each(|(&x, o)| *o = (x - top).exp());
                let total: f64 = o.iter().sum();
                o.iter_mut().for_each(|o| *o /= total);
            });
            return Ok(view::value(b, &out));
        }
        let mut b = CpuBuffer::new(out.nbytes())?;
        match d {
            Dtype::F16 => kernel::softmax::<f16>(&dense(&ins[0])?, n, b.slice_mut()?)?,
            Dtype::BF16 => kernel::softmax::<bf16>(&dense(&ins[0])?, n, b.slice_mut()?)?,
            _ => kernel::softmax::<f32>(&dense(&ins[0])?, n, b.slice_mut()?)?,
        }
        Ok(view::value(b, &out))
    })
}

/// Rounds normalized values to the output's dtype before the weight multiplies them.
fn round_to(d: Dtype) -> fn(f32) -> f32 {
    match d {
        Dtype::F16 => |x| half::f16::from_f32(x).to_f32(),
        Dtype::BF16 => |x| half::bf16::from_f32(x).to_f32(),
        _ => |x| x,
    }
}

/// The statistic of a row: what to subtract and what to multiply with.
fn norm(
    spec: Spec<'_>,
    about_mean: bool,
    stats: impl Fn(&[f32], f64) -> (f32, f32) + Send + Sync + 'static,
    wide: impl Fn(&[f64], f64) -> (f64, f64) + Send + Sync + 'static,
) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    let n = *out.shape.last().unwrap_or(&1);
    let round = round_to(out.dtype);
    let bad = |a: &Aval| !a.dtype.is_float();
    if avals.iter().any(bad) || avals[0].shape != out.shape {
        bail!(Internal, "[{}] {avals:?} gives {out:?}", spec.op.name());
    }
    if avals[1..].iter().any(|a| a.shape.elems() != n) {
        bail!(Internal, "[{}] weights {:?} for rows of {n}", spec.op.name(), &avals[1..]);
    }
    one(spec, move |ins, cells| {
        let eps = float(cells, 0)?;
        if out.dtype == Dtype::F64 {
            let to64 = |i: usize| view::dense_f64(&ins[i], avals[i].dtype);
            let x = to64(0)?;
            let w = if ins.len() > 1 { Some(to64(1)?) } else { None };
            let b = if ins.len() > 2 { Some(to64(2)?) } else { None };
            let mut buf = CpuBuffer::new(out.nbytes())?;
            rows(&x, buf.slice_mut::<f64>()?, n, |x, o| {
                let (m, s) = wide(x, eps);
                for (i, (o, &x)) in o.iter_mut().zip(x).enumerate() {
                    let y = (x - m) * s;
                    *o = y * w.as_ref().map_or(1.0, |w| w[i]) + b.as_ref().map_or(0.0, |b| b[i]);
                }
            });
            return Ok(view::value(buf, &out));
        }
        if avals.iter().chain([&out]).all(|a| a.dtype == Dtype::F32) {
            let mut buf = CpuBuffer::new(out.nbytes())?;
            let part = |i: usize| match ins.get(i) {
                Some(v) => dense::<f32>(v),
                None => Ok(Elems::Lent(&[])),
            };
            let (x, w, b) = (dense::<f32>(&ins[0])?, part(1)?, part(2)?);
            match about_mean {
                true => kernel::layer_norm(&x, n, &w, &b, eps as f32, buf.slice_mut()?)?,
                false => kernel::rms_norm(&x, n, &w, eps as f32, buf.slice_mut()?)?,
            }
            return Ok(view::value(buf, &out));
        }
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let w = if ins.len() > 1 { Some(dense_f32(&ins[1], avals[1].dtype)?) } else { None };
        let b = if ins.len() > 2 { Some(dense_f32(&ins[2], avals[2].dtype)?) } else { None };
        let buf = view::write_f32(&out, |o| {
            rows(&x, o, n, |x, o| {
                let (m, s) = stats(x, eps);
                match (&w, &b) {
                    (None, _) => o.iter_mut().zip(x).for_each(|(o, &x)| *o = (x - m) * s),
                    (Some(w), None) => o
                        .iter_mut()
                        .zip(x)
                        .zip(w.iter())
                        .for_each(|((o, &x), &w)| *o = round((x - m) * s) * w),
                    (Some(w), Some(b)) => o
                        .iter_mut()
                        .zip(x)
                        .zip(w.iter().zip(b.iter()))
                        .for_each(|((o, &x), (&w, &b))| *o = round(round((x - m) * s) * w) + b),
                }
            });
            Ok(())
        })?;
        Ok(view::value(buf, &out))
    })
}

/// x / sqrt(mean(x^2) + eps) [* w].
pub fn rms_norm(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    norm(
        spec,
        false,
        |x, eps| (0.0, (1.0 / (sum(x, |x| x * x) / x.len() as f64 + eps).sqrt()) as f32),
        |x, eps| (0.0, 1.0 / (x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64 + eps).sqrt()),
    )
}

/// (x - mean) / sqrt(var + eps) [* w [+ b]], the variance from the deviations.
pub fn layer_norm(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    norm(
        spec,
        true,
        |x, eps| {
            let n = x.len() as f64;
            let m = (sum(x, |x| x) / n) as f32;
            let v = sum(x, |x| (x - m) * (x - m)) / n;
            (m, (1.0 / (v + eps).sqrt()) as f32)
        },
        |x, eps| {
            let n = x.len() as f64;
            let m = x.iter().sum::<f64>() / n;
            let v = x.iter().map(|x| (x - m) * (x - m)).sum::<f64>() / n;
            (m, 1.0 / (v + eps).sqrt())
        },
    )
}

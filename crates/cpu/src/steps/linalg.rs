//! Dense linear algebra.

use super::{Outs, inputs, many, one};
use crate::buffer::CpuBuffer;
use crate::pool;
use crate::scratch::Scratch;
use crate::view;
use isopace_core::backend::{Kernel, Spec, Value};
use isopace_core::reference::linalg::symmetric_eigen;
use isopace_core::{Aval, Dtype, Result, bail};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Inverts by Gauss–Jordan elimination with partial pivoting, in float64; false when singular.
fn invert(a: &mut [f64], n: usize, out: &mut [f64]) -> bool {
    out.fill(0.0);
    (0..n).for_each(|i| out[i * n + i] = 1.0);
    for c in 0..n {
        let at = |a: &[f64], r: usize| a[r * n + c].abs();
        let p = (c..n).fold(c, |p, r| if at(a, r) > at(a, p) { r } else { p });
        for j in 0..n {
            a.swap(c * n + j, p * n + j);
            out.swap(c * n + j, p * n + j);
        }
        let d = a[c * n + c];
        if d == 0.0 {
            return false;
        }
        for j in 0..n {
            a[c * n + j] /= d;
            out[c * n + j] /= d;
        }
        for r in (0..n).filter(|&r| r != c) {
            let f = a[r * n + c];
            if f != 0.0 {
                for j in 0..n {
                    a[r * n + j] -= f * a[c * n + j];
                    out[r * n + j] -= f * out[c * n + j];
                }
            }
        }
    }
    true
}

/// A value from its elements as float64.
fn narrow(x: &[f64], out: &Aval) -> Result<Value> {
    if out.dtype == Dtype::F64 {
        let mut b = CpuBuffer::new(out.nbytes())?;
        b.slice_mut::<f64>()?.copy_from_slice(x);
        return Ok(view::value(b, out));
    }
    let x = Scratch::map(x, |x| x as f32)?;
    Ok(view::value(view::round_f32(&x, out.dtype)?, out))
}

/// Eigenvalues and eigenvectors of symmetric matrices in the last two axes.
pub fn eigh(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let d = inputs(spec, 1)?[0].dtype;
    let (values, vectors) = (spec.outs[0].clone(), spec.outs[1].clone());
    let n = *values.shape.last().unwrap_or(&0);
    many(spec, move |ins, _| {
        let a = view::dense_f64(&ins[0], d)?;
        let (mut w, mut v) = (Scratch::new(values.shape.elems())?, Scratch::new(a.len())?);
        if n > 0 {
            let mut parts: Vec<_> = w.chunks_mut(n).zip(v.chunks_mut(n * n)).collect();
            pool::for_chunks(&mut parts, 1, |i, p| {
                for (w, v) in p {
                    let (values, vectors) = symmetric_eigen(&a[i * n * n..][..n * n], n);
                    w.copy_from_slice(&values);
                    v.copy_from_slice(&vectors);
                }
            });
        }
        let mut made = Outs::new();
        made.push(narrow(&w, &values)?);
        made.push(narrow(&v, &vectors)?);
        Ok(made)
    })
}

/// The inverse of square matrices in the last two axes.
pub fn inverse(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    let d = avals[0].dtype;
    let n = *out.shape.last().unwrap_or(&0);
    if !d.is_float() || out.dtype != d {
        bail!(Unsupported, "[inverse] {d} is not accepted; accepted: floating dtypes");
    }
    one(spec, move |ins, _| {
        let mut a = view::dense_f64(&ins[0], d)?;
        let mut r = Scratch::new(a.len())?;
        if n > 0 {
            let mut pairs: Vec<_> = a.chunks_mut(n * n).zip(r.chunks_mut(n * n)).collect();
            let singular = AtomicUsize::new(usize::MAX);
            pool::for_chunks(&mut pairs, 1, |i, p| {
                if p.iter_mut().any(|(a, r)| !invert(a, n, r)) {
                    singular.fetch_min(i, Ordering::Relaxed);
                }
            });
            let singular = singular.into_inner();
            if singular != usize::MAX {
                bail!(Argument, "[inverse] matrix {singular} is singular");
            }
        }
        narrow(&r, &out)
    })
}

//! Sorting along an axis: stable, ascending, NaN last.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::elem::{Elem, by_dtype};
use crate::pool;
use crate::view::{self, dense};
use isopace_core::backend::{Input, Kernel, Spec, Value};
use isopace_core::{Layout, Result, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// The value with `axis` moved last, and how to bring a contiguous result back.
fn lines<'a>(v: &'a Input<'_>, axis: usize) -> (Input<'a>, usize) {
    let n = v.layout.shape.len();
    let perm: SmallVec<[usize; 4]> = (0..n).filter(|&i| i != axis).chain([axis]).collect();
    (v.under(v.layout.transpose(&perm)), v.layout.shape[axis])
}

/// A view that puts the last axis back at `axis`.
fn back(b: CpuBuffer, shape: &[usize], axis: usize) -> Value {
    let n = shape.len();
    let moved = (0..n).filter(|&i| i != axis).chain([axis]).map(|i| shape[i]).collect();
    let perm: SmallVec<[usize; 4]> =
        (0..n).map(|i| if i == axis { n - 1 } else { i - (i > axis) as usize }).collect();
    Value { buffer: Arc::new(b), layout: Layout::contiguous(moved).transpose(&perm) }
}

fn check(spec: Spec<'_>, axis: usize) -> Result<()> {
    if axis >= spec.ins[0].shape.len() {
        bail!(Internal, "[{}] axis {axis} of {:?}", spec.op.name(), spec.ins[0].shape);
    }
    Ok(())
}

/// A stable sort.
pub fn sort(spec: Spec<'_>, axis: usize) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    check(spec, axis)?;
    let dtype = avals[0].dtype;
    one(spec, move |ins, _| {
        let (v, n) = lines(&ins[0], axis);
        let mut b = CpuBuffer::new(out.nbytes())?;
        by_dtype!(dtype, T => {
            let x = dense::<T>(&v)?;
            let data = b.slice_mut::<T>()?;
            data.copy_from_slice(&x);
            pool::for_chunks(data, n.max(1), |_, line| line.sort_by(|a, b| a.order(*b)));
        });
        Ok(back(b, &out.shape, axis))
    })
}

/// The indices of the stable sort.
pub fn arg_sort(spec: Spec<'_>, axis: usize) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    check(spec, axis)?;
    let dtype = avals[0].dtype;
    one(spec, move |ins, _| {
        let (v, n) = lines(&ins[0], axis);
        let mut b = CpuBuffer::new(out.nbytes())?;
        by_dtype!(dtype, T => {
            let x = dense::<T>(&v)?;
            pool::for_chunks(b.slice_mut::<u32>()?, n.max(1), |c, line| {
                let x = &x[c * n..][..line.len()];
                line.iter_mut().enumerate().for_each(|(i, o)| *o = i as u32);
                line.sort_by(|&a, &b| x[a as usize].order(x[b as usize]));
            });
        });
        Ok(back(b, &out.shape, axis))
    })
}

/// Insertion points into the sorted last axis, one line for all values or one for each row.
pub fn search_sorted(spec: Spec<'_>, right: bool) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 2)?, spec.outs[0].clone());
    let (s, v) = (&avals[0].shape, &avals[1].shape);
    let Some(&n) = s.last() else { bail!(Shape, "[searchsorted] the sorted array has no axis") };
    // Which line each value is looked up in: the leading axes broadcast to those of the values.
    let lines: Option<Vec<usize>> = if s.len() == 1 {
        None
    } else {
        let lead = s[..s.len() - 1].iter().copied().chain([1]).collect();
        Some(Layout::contiguous(lead).broadcast_to(v).offsets().collect())
    };
    let dtype = avals[0].dtype;
    if avals[1].dtype != dtype {
        bail!(Internal, "[searchsorted] {dtype} and {}", avals[1].dtype);
    }
    one(spec, move |ins, _| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        by_dtype!(dtype, T => {
            let (s, v) = (dense::<T>(&ins[0])?, dense::<T>(&ins[1])?);
            pool::for_chunks(b.slice_mut::<u32>()?, 4096, |c, part| {
                for (j, o) in part.iter_mut().enumerate() {
                    let k = c * 4096 + j;
                    let line = &s[lines.as_ref().map_or(0, |l| l[k]) * n..][..n];
                    let x = v[k];
                    *o = line.partition_point(|y| if right { y.order(x).is_le() } else { y.order(x).is_lt() }) as u32;
                }
            });
        });
        Ok(view::value(b, &out))
    })
}

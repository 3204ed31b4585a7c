//! Moving elements: copies, slices, updates in place, joins, padding.

use super::{inputs, kernel, one};
use crate::buffer::CpuBuffer;
use crate::elem::{self, by_dtype, by_size};
use crate::view::{self, Walk, buffer, dense};
use isopace_core::backend::{Input, Kernel, Spec, Value};
use isopace_core::op::index::clamp_start;
use isopace_core::op::view::slice_starts;
use isopace_core::op::{Combine, Op, Region};
use isopace_core::shape::Dims;
use isopace_core::{Aval, Layout, Number, Result, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// A contiguous copy.
pub fn contiguous(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let aval = inputs(spec, 1)?[0].clone();
    one(spec, move |ins, _| {
        if ins[0].layout.is_contiguous() {
            return Ok(view::take(&mut ins[0]).into());
        }
        view::contiguous(&ins[0], &aval)
    })
}

/// Starts from an array on some axes (0 on the others), clamped so that `sizes` fit.
fn dynamic_starts(
    v: &Input<'_>,
    aval: &Aval,
    axes: &[u8],
    from: &[usize],
    sizes: &[usize],
) -> Result<SmallVec<[usize; 4]>> {
    let given = view::indices(v, aval.dtype)?;
    if given.len() != axes.len() || from.len() != sizes.len() {
        bail!(Internal, "[dynamic_slice] {} starts for {} axes", given.len(), axes.len());
    }
    let mut starts: SmallVec<[usize; 4]> = smallvec::smallvec![0; from.len()];
    for (&a, &s) in axes.iter().zip(given.iter()) {
        let a = a as usize;
        if sizes[a] > from[a] {
            bail!(Shape, "[dynamic_slice] axis {a} has {} elements, fewer than {}", from[a], sizes[a]);
        }
        starts[a] = clamp_start(s, from[a], sizes[a]);
    }
    Ok(starts)
}

/// A slice with starts from an array: a view.
pub fn dynamic_slice(spec: Spec<'_>, axes: &Dims<u8>) -> Result<Arc<dyn Kernel>> {
    let (ins_aval, out, axes) = (inputs(spec, 2)?, spec.outs[0].clone(), axes.clone());
    one(spec, move |ins, _| {
        let starts = dynamic_starts(&ins[1], &ins_aval[1], &axes, &ins[0].layout.shape, &out.shape)?;
        let steps: SmallVec<[isize; 4]> = smallvec::smallvec![1; out.shape.len()];
        let mut v = Value::from(view::take(&mut ins[0]));
        v.layout = v.layout.slice(&starts, &steps, &out.shape);
        Ok(v)
    })
}

/// Writes `update` over `region` of the first input, in place when nobody else holds it.
fn update_region(
    x: &mut Input<'_>,
    update: &Input<'_>,
    out: &Aval,
    starts: &[usize],
    steps: &[isize],
    combine: Combine,
) -> Result<Value> {
    let mut v = view::take_or_copy(x, out)?;
    let sizes = &update.layout.shape;
    let region = v.layout.slice(starts, steps, sizes);
    let walk = Walk::new(&region, &region.shape);
    by_dtype!(out.dtype, T => {
        let from = dense::<T>(update)?;
        let Some(b) = view::unique(&mut v) else { bail!(Internal, "[slice_update] the target is shared") };
        let data = b.slice_mut::<T>()?;
        view::check(&region, data.len())?;
        walk.write(data, 0, &from, |old, new| elem::combine(combine, old, new), combine == Combine::Set);
    });
    Ok(v.into())
}

/// Writes into a strided slice.
pub fn slice_update(spec: Spec<'_>, steps: &Dims<i64>, combine: Combine) -> Result<Arc<dyn Kernel>> {
    let (avals, out, steps) = (inputs(spec, 2)?, spec.outs[0].clone(), steps.clone());
    let isteps: SmallVec<[isize; 4]> = steps.iter().map(|&s| s as isize).collect();
    let (from, to) = (&avals[1], Aval::new(avals[1].shape.clone(), out.dtype));
    let region = Op::Fused(Arc::new(Region::cast(from.dtype, to.dtype)));
    let cast = match from.dtype == to.dtype {
        true => None,
        false => Some(kernel(Spec { op: &region, ins: std::slice::from_ref(from), outs: &[to] })?),
    };
    one(spec, move |ins, cells| {
        let full = Layout::contiguous(out.shape.clone());
        let starts = slice_starts(&full, &steps, &avals[1].shape, cells)?;
        let mut made = Vec::new();
        if let Some(cast) = &cast {
            cast.run(&mut ins[1..], &[], &mut made)?;
        }
        let (x, rest) = ins.split_at_mut(1);
        let update = made.first().map_or_else(|| rest[0].lent(), Value::lent);
        update_region(&mut x[0], &update, &out, &starts, &isteps, combine)
    })
}

/// Writes at starts from an array.
pub fn dynamic_slice_update(spec: Spec<'_>, axes: &Dims<u8>) -> Result<Arc<dyn Kernel>> {
    let (avals, out, axes) = (inputs(spec, 3)?, spec.outs[0].clone(), axes.clone());
    one(spec, move |ins, _| {
        let (x, rest) = ins.split_at_mut(1);
        let starts = dynamic_starts(&rest[1], &avals[2], &axes, &out.shape, &avals[1].shape)?;
        let steps: SmallVec<[isize; 4]> = smallvec::smallvec![1; out.shape.len()];
        update_region(&mut x[0], &rest[0], &out, &starts, &steps, Combine::Set)
    })
}

/// Joins along an axis.
pub fn concat(spec: Spec<'_>, axis: usize) -> Result<Arc<dyn Kernel>> {
    let (_, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    if axis >= out.shape.len() {
        bail!(Internal, "[concatenate] axis {axis} of {:?}", out.shape);
    }
    one(spec, move |ins, _| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        let inner: usize = out.shape[axis + 1..].iter().product();
        let outer: usize = out.shape[..axis].iter().product();
        let row = out.shape[axis] * inner;
        by_size!(out.dtype.size(), T => {
            let data = b.slice_mut::<T>()?;
            let mut at = 0;
            for v in ins.iter() {
                let part = v.layout.shape[axis] * inner;
                let src = buffer(v)?.slice::<T>()?;
                view::check(&v.layout, src.len())?;
                if outer == 1 {
                    view::copy(src, &v.layout, &mut data[at..at + part]);
                } else if part > 0 {
                    let walk = Walk::new(&v.layout, &v.layout.shape);
                    for (o, line) in data.chunks_mut(row.max(1)).enumerate() {
                        walk.read(src, o * part, &mut line[at..at + part]);
                    }
                }
                at += part;
            }
        });
        Ok(view::value(b, &out))
    })
}

/// Pads with the second input.
pub fn pad(spec: Spec<'_>, low: &Dims<usize>) -> Result<Arc<dyn Kernel>> {
    let (_, out, low) = (inputs(spec, 2)?, spec.outs[0].clone(), low.clone());
    one(spec, move |ins, _: &[Number]| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        let region = &ins[0].layout.shape;
        let steps: SmallVec<[isize; 4]> = smallvec::smallvec![1; region.len()];
        let target = Layout::contiguous(out.shape.clone()).slice(&low, &steps, region);
        by_size!(out.dtype.size(), T => {
            let fill = dense::<T>(&ins[1])?;
            let Some(&fill) = fill.first() else { bail!(Internal, "[pad] no value") };
            let from = dense::<T>(&ins[0])?;
            let data = b.slice_mut::<T>()?;
            view::check(&target, data.len())?;
            data.fill(fill);
            Walk::new(&target, region).write(data, 0, &from, |_, x| x, true);
        });
        Ok(view::value(b, &out))
    })
}

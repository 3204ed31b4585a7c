//! Gather and scatter. Indices are data: clamped when reading, dropped when outside in a write.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::elem::{by_dtype, by_size, combine};
use crate::pool;
use crate::scratch::Scratch;
use crate::view::{self, Walk, buffer, dense};
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::op::index::{clamp, clamp_start, resolve};
use isopace_core::op::{Combine, Gather, Scatter};
use isopace_core::shape::Dims;
use isopace_core::{Aval, Layout, Result, bail};
use std::sync::Arc;

/// Elements gathered by one thread at a time.
const CHUNK: usize = 1 << 14;

/// Index arrays, each as int64.
fn all_indices(ins: &[Input<'_>], avals: &[Aval]) -> Result<Vec<Scratch<i64>>> {
    ins.iter().zip(avals).map(|(v, a)| view::indices(v, a.dtype)).collect()
}

/// Slices of x at indices.
pub fn gather(spec: Spec<'_>, g: &Gather) -> Result<Arc<dyn Kernel>> {
    let (avals, out, g) = (inputs(spec, 1 + g.axes.len())?, spec.outs[0].clone(), g.clone());
    let k = g.axes.len();
    one(spec, move |ins, _| {
        if out.shape.elems() == 0 {
            return Ok(view::value(CpuBuffer::new(0)?, &out));
        }
        let index = all_indices(&ins[1..=k], &avals[1..=k])?;
        let x = &ins[0].layout;
        if g.sizes.len() != x.shape.len() || g.sizes.iter().zip(x.shape.iter()).any(|(s, d)| s > d) {
            bail!(Internal, "[gather] slices {:?} of {:?}", g.sizes, x.shape);
        }
        let slice: usize = g.sizes.iter().product();
        let mut b = CpuBuffer::new(out.nbytes())?;
        // The slice at index 0 on every axis; each position moves its offset.
        let window =
            Layout { shape: g.sizes.as_slice().into(), strides: x.strides.clone(), offset: x.offset };
        let walk = Walk::new(&window, &g.sizes);
        let count = out.shape.elems() / slice.max(1);
        if index.iter().any(|i| i.len() != count) && slice > 0 {
            bail!(Internal, "[gather] index arrays of different sizes");
        }
        by_size!(out.dtype.size(), T => {
            let data = buffer(&ins[0])?.slice::<T>()?;
            view::check(x, data.len())?;
            let per = (CHUNK / slice.max(1)).max(1);
            pool::for_chunks(b.slice_mut::<T>()?, per * slice.max(1), |c, part| {
                for (j, o) in part.chunks_mut(slice.max(1)).enumerate() {
                    let mut w = walk.clone();
                    for (&a, idx) in g.axes.iter().zip(&index) {
                        let a = a as usize;
                        let start = clamp_start(idx[c * per + j], x.shape[a], g.sizes[a]);
                        w.offset = (w.offset as isize + start as isize * x.strides[a]) as usize;
                    }
                    w.read(data, 0, o);
                }
            });
        });
        Ok(view::value(b, &out))
    })
}

/// Writes slices at indices.
pub fn scatter(spec: Spec<'_>, s: &Scatter) -> Result<Arc<dyn Kernel>> {
    let (avals, out, s) = (inputs(spec, 2 + s.axes.len())?, spec.outs[0].clone(), s.clone());
    let k = s.axes.len();
    one(spec, move |ins, _| {
        let index = all_indices(&ins[1..=k], &avals[1..=k])?;
        let (x, rest) = ins.split_at_mut(1);
        let updates = &rest[k];
        let n = out.shape.len();
        let u = &updates.layout.shape;
        if u.len() < n {
            bail!(Internal, "[scatter] updates {u:?} for {:?}", out.shape);
        }
        let sizes: Dims<usize> = u[u.len() - n..].into();
        let slice: usize = sizes.iter().product();
        let count: usize = u[..u.len() - n].iter().product();
        if index.iter().any(|i| i.len() != count) {
            bail!(Internal, "[scatter] {count} slices for index arrays of other sizes");
        }
        let mut v = view::take_or_copy(&mut x[0], &out)?;
        let layout = v.layout.clone().into_owned();
        let window =
            Layout { shape: sizes.as_slice().into(), strides: layout.strides.clone(), offset: layout.offset };
        let walk = Walk::new(&window, &sizes);
        by_dtype!(out.dtype, T => {
            let from = dense::<T>(updates)?;
            let Some(b) = view::unique(&mut v) else { bail!(Internal, "[scatter] the target is shared") };
            let data = b.slice_mut::<T>()?;
            view::check(&layout, data.len())?;
            'slices: for (j, from) in from.chunks(slice.max(1)).enumerate() {
                let mut w = walk.clone();
                let mut whole = true;
                let mut starts: Dims<usize> = smallvec::smallvec![0; n];
                for (&a, idx) in s.axes.iter().zip(&index) {
                    let a = a as usize;
                    let Some(start) = resolve(idx[j], out.shape[a]) else { continue 'slices };
                    whole &= start + sizes[a] <= out.shape[a];
                    starts[a] += start;
                    w.offset += (start as isize * layout.strides[a]) as usize;
                }
                if whole {
                    w.write(data, 0, from, |old, new| combine(s.combine, old, new), s.combine == Combine::Set);
                    continue;
                }
                // A slice that sticks out: only what is inside is written.
                for (i, &new) in from.iter().enumerate() {
                    let (mut rest, mut at, mut inside) = (i, layout.offset, true);
                    for a in (0..n).rev() {
                        let p = starts[a] + rest % sizes[a];
                        rest /= sizes[a];
                        inside &= p < out.shape[a];
                        at += (p as isize * layout.strides[a]) as usize;
                    }
                    if inside {
                        data[at] = combine(s.combine, data[at], new);
                    }
                }
            }
        });
        Ok(v.into())
    })
}

/// Outer, axis and inner extents around an axis.
fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

/// The value broadcast to a shape, but for one axis, which keeps its extent.
fn broadcast_but<'a>(v: &'a Input<'_>, shape: &[usize], axis: usize) -> Input<'a> {
    let mut to: Dims<usize> = shape.into();
    to[axis] = v.layout.shape[axis];
    v.under(v.layout.broadcast_to(&to.as_slice().into()))
}

/// Elements at indices along an axis.
pub fn take_along(spec: Spec<'_>, axis: usize) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 2)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let x = broadcast_but(&ins[0], &out.shape, axis);
        let idx = view::indices(&broadcast_but(&ins[1], &out.shape, axis), avals[1].dtype)?;
        let (_, d, inner) = around(&x.layout.shape, axis);
        let (_, n, _) = around(&out.shape, axis);
        let mut b = CpuBuffer::new(out.nbytes())?;
        if d == 0 && !idx.is_empty() {
            bail!(Axis, "[take_along_axis] indices into an axis of extent 0");
        }
        by_size!(out.dtype.size(), T => {
            let from = dense::<T>(&x)?;
            let plane = (n * inner).max(1);
            pool::for_chunks(b.slice_mut::<T>()?, plane, |o, part| {
                for (j, y) in part.iter_mut().enumerate() {
                    *y = from[(o * d + clamp(idx[o * plane + j], d)) * inner + j % inner.max(1)];
                }
            });
        });
        Ok(view::value(b, &out))
    })
}

/// Writes at indices along an axis.
pub fn scatter_along(spec: Spec<'_>, axis: usize, c: Combine) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 3)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let both = ins[1].layout.shape.broadcast(&ins[2].layout.shape, "put_along_axis")?;
        let n = both[axis];
        let mut to = out.shape.clone();
        to.as_mut()[axis] = n;
        let index = ins[1].under(ins[1].layout.broadcast_to(&to));
        let idx = view::indices(&index, avals[1].dtype)?;
        let (_, d, inner) = around(&out.shape, axis);
        let (x, rest) = ins.split_at_mut(1);
        let updates = rest[1].under(rest[1].layout.broadcast_to(&to));
        let mut v = view::take_or_copy(&mut x[0], &out)?;
        let offset = v.layout.offset;
        by_dtype!(out.dtype, T => {
            let from = dense::<T>(&updates)?;
            let Some(b) = view::unique(&mut v) else { bail!(Internal, "[put_along_axis] the target is shared") };
            let data = &mut b.slice_mut::<T>()?[offset..];
            let plane = (n * inner).max(1);
            for (j, &new) in from.iter().enumerate() {
                if let Some(i) = resolve(idx[j], d) {
                    let e = &mut data[(j / plane * d + i) * inner + j % inner.max(1)];
                    *e = combine(c, *e, new);
                }
            }
        });
        Ok(v.into())
    })
}

/// Updates in row order where the mask is true.
pub fn masked_scatter(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (_, out) = (inputs(spec, 3)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let (x, rest) = ins.split_at_mut(1);
        let mask = rest[0].under(rest[0].layout.broadcast_to(&out.shape));
        let mask = dense::<u8>(&mask)?;
        let mut v = view::take_or_copy(&mut x[0], &out)?;
        let (offset, n) = (v.layout.offset, out.shape.elems());
        by_size!(out.dtype.size(), T => {
            let from = dense::<T>(&rest[1])?;
            let count = mask.iter().filter(|m| **m != 0).count();
            if count > from.len() {
                bail!(Argument, "[masked_scatter] {} updates for {count} true elements of the mask", from.len());
            }
            let Some(b) = view::unique(&mut v) else { bail!(Internal, "[masked_scatter] the target is shared") };
            let data = &mut b.slice_mut::<T>()?[offset..offset + n];
            let hits = data.iter_mut().zip(mask.iter()).filter(|(_, m)| **m != 0);
            hits.zip(from.iter()).for_each(|((e, _), &new)| *e = new);
        });
        Ok(v.into())
    })
}

//! Reads and writes at indices that are data: a negative one counts from the end once; what is then
//! still outside is clamped when reading and dropped when writing.

use super::tensor::{Data, Tensor, map_data};
use crate::aval::Aval;
use crate::layout::Layout;
use crate::number::Number;
use crate::op::index::{clamp, clamp_start, resolve};
use crate::op::{Combine, Gather, Row, Scatter, view};
use crate::shape::{Dims, Shape};
use crate::{Result, bail, err};

/// Indices as 64-bit integers; unsigned ones past that stay out of range of any array.
pub(super) fn indices(t: &Tensor, name: &str) -> Result<Vec<i64>> {
    Ok(t.ints(name)?.iter().map(|&i| i64::try_from(i).unwrap_or(i64::MAX)).collect())
}

/// The position of row-major element `i` on each axis.
fn unravel(mut i: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (a, &d) in at.iter_mut().zip(shape).rev() {
        *a = i % d;
        i /= d;
    }
    at
}

/// The row-major number of a position.
fn ravel(at: &[usize], shape: &[usize]) -> usize {
    at.iter().zip(shape).fold(0, |n, (&i, &d)| n * d + i)
}

/// Writes element `from` of the update over or into element `to`. Sums and products stay wide until
/// the caller rounds.
fn write(x: &mut Data, to: usize, update: &Data, from: usize, combine: Combine) {
    let row = match combine {
        Combine::Set => None,
        Combine::Add => Some(Row::Add),
        Combine::Mul => Some(Row::Mul),
        Combine::Min => Some(Row::Min),
        Combine::Max => Some(Row::Max),
    };
    let m = row.map(Row::meaning);
    match (x, update) {
        (Data::Int(x), Data::Int(u)) => {
            let f = m.and_then(|m| m.int);
            x[to] = f.map_or(u[from], |f| f(&[x[to], u[from]], crate::Dtype::I64));
        }
        (Data::Float(x), Data::Float(u)) => {
            let f = m.and_then(|m| m.float);
            x[to] = f.map_or(u[from], |f| f(&[x[to], u[from]]));
        }
        (Data::Complex(x), Data::Complex(u)) => {
            let f = m.and_then(|m| m.complex);
            x[to] = f.map_or(u[from], |f| f(&[x[to], u[from]]));
        }
        _ => {}
    }
}

pub(super) fn gather(g: &Gather, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let x = &ins[0];
    let index = ins[1..].iter().map(|t| indices(t, "gather")).collect::<Result<Vec<_>>>()?;
    let slice = g.sizes.iter().product::<usize>();
    let mut places = Vec::with_capacity(out.shape.elems());
    for i in 0..out.shape.elems() {
        let (which, mut at) = (i / slice, unravel(i % slice, &g.sizes));
        for (&axis, index) in g.axes.iter().zip(&index) {
            let axis = axis as usize;
            let (dim, size) = (x.shape[axis], g.sizes[axis]);
            if dim < size {
                bail!(Axis, "[gather] axis {axis} of shape {:?} has no slice of {size}", x.shape);
            }
            at[axis] += clamp_start(index[which], dim, size);
        }
        places.push(ravel(&at, &x.shape));
    }
    Ok(Tensor::new(out, x.data.pick(places.into_iter())))
}

pub(super) fn scatter(s: &Scatter, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let (x, updates) = (&ins[0], &ins[ins.len() - 1]);
    let index = ins[1..ins.len() - 1].iter().map(|t| indices(t, "scatter")).collect::<Result<Vec<_>>>()?;
    let sizes = &updates.shape[updates.shape.len() - x.shape.len()..];
    let slice = sizes.iter().product::<usize>();
    let mut data = x.data.clone();
    'elements: for i in 0..updates.elems() {
        let (which, mut at) = (i / slice, unravel(i % slice, sizes));
        for (&axis, index) in s.axes.iter().zip(&index) {
            let axis = axis as usize;
            match resolve(index[which], x.shape[axis]) {
                Some(start) if start + at[axis] < x.shape[axis] => at[axis] += start,
                _ => continue 'elements,
            }
        }
        write(&mut data, ravel(&at, &x.shape), &updates.data, i, s.combine);
    }
    Ok(Tensor::new(out, data))
}

/// The shape with another extent on one axis.
fn with_dim(shape: &Shape, axis: usize, dim: usize) -> Shape {
    let mut s = shape.clone();
    s.as_mut()[axis] = dim;
    s
}

/// Elements at indices along an axis; the other axes broadcast.
pub(super) fn take_along(axis: usize, x: &Tensor, index: &Tensor, out: &Aval) -> Result<Tensor> {
    let dim = x.shape[axis];
    if dim == 0 && out.shape.elems() > 0 {
        bail!(Axis, "[take_along_axis] axis {axis} of shape {:?} has no elements", x.shape);
    }
    let x = x.broadcast_to(&with_dim(&out.shape, axis, dim));
    let index = indices(&index.broadcast_to(&out.shape), "take_along_axis")?;
    let places = index.iter().enumerate().map(|(i, &index)| {
        let mut at = unravel(i, &out.shape);
        at[axis] = clamp(index, dim);
        ravel(&at, &x.shape)
    });
    Ok(Tensor::new(out, x.data.pick(places)))
}

/// Writes at indices along an axis; indices and updates broadcast to each other and, off the axis, to x.
pub(super) fn scatter_along(axis: usize, combine: Combine, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let (x, index, updates) = (&ins[0], &ins[1], &ins[2]);
    let width = index.shape.broadcast(&updates.shape, "put_along_axis")?[axis];
    let shape = with_dim(&x.shape, axis, width);
    let index = indices(&index.broadcast_to(&shape), "put_along_axis")?;
    let updates = updates.broadcast_to(&shape);
    let mut data = x.data.clone();
    for (i, &index) in index.iter().enumerate() {
        let mut at = unravel(i, &shape);
        if let Some(to) = resolve(index, x.shape[axis]) {
            at[axis] = to;
            write(&mut data, ravel(&at, &x.shape), &updates.data, i, combine);
        }
    }
    Ok(Tensor::new(out, data))
}

/// Updates in row order where the mask is true; those left over are ignored.
pub(super) fn masked_scatter(x: &Tensor, mask: &Tensor, updates: &Tensor, out: &Aval) -> Result<Tensor> {
    let mask = mask.broadcast_to(&x.shape);
    let mut data = x.data.clone();
    let mut next = 0;
    for (i, _) in mask.ints("masked_scatter")?.iter().enumerate().filter(|&(_, &m)| m != 0) {
        if next < updates.elems() {
            write(&mut data, i, &updates.data, next, Combine::Set);
        }
        next += 1;
    }
    if next > updates.elems() {
        bail!(Argument, "[masked_scatter] {} updates for {next} true elements of the mask", updates.elems());
    }
    Ok(Tensor::new(out, data))
}

/// The layout of a slice of fixed size at starts that are data.
fn dynamic(from: &Layout, axes: &[u8], starts: &Tensor, sizes: &[usize], name: &str) -> Result<Layout> {
    let mut at: Dims<usize> = smallvec::smallvec![0; sizes.len()];
    for (&axis, start) in axes.iter().zip(indices(starts, name)?) {
        at[axis as usize] = clamp_start(start, from.shape[axis as usize], sizes[axis as usize]);
    }
    let steps: Dims<isize> = smallvec::smallvec![1; sizes.len()];
    Ok(from.slice(&at, &steps, sizes))
}

pub(super) fn dynamic_slice(axes: &[u8], x: &Tensor, starts: &Tensor, out: &Aval) -> Result<Tensor> {
    Ok(x.view(&dynamic(&x.layout(), axes, starts, &out.shape, "dynamic_slice")?))
}

pub(super) fn dynamic_slice_update(axes: &[u8], ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let (x, update, starts) = (&ins[0], &ins[1], &ins[2]);
    let to = dynamic(&x.layout(), axes, starts, &update.shape, "dynamic_slice_update")?;
    Ok(update_at(x, &to, update, Combine::Set, out))
}

pub(super) fn slice_update(
    steps: &[i64],
    combine: Combine,
    x: &Tensor,
    update: &Tensor,
    starts: &[Number],
    out: &Aval,
) -> Result<Tensor> {
    let from = x.layout();
    let starts = view::slice_starts(&from, steps, &update.shape, starts)?;
    let steps: Dims<isize> = steps.iter().map(|&s| s as isize).collect();
    Ok(update_at(x, &from.slice(&starts, &steps, &update.shape), &update.cast(out.dtype), combine, out))
}

fn update_at(x: &Tensor, to: &Layout, update: &Tensor, combine: Combine, out: &Aval) -> Tensor {
    let mut data = x.data.clone();
    for (from, to) in to.offsets().enumerate() {
        write(&mut data, to, &update.data, from, combine);
    }
    Tensor::new(out, data)
}

/// Joins along an axis.
pub(super) fn concat(axis: usize, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let mut data = empty_like(&ins[0].data, out.shape.elems());
    let mut start = 0;
    for t in ins {
        let mut starts: Dims<usize> = smallvec::smallvec![0; t.shape.len()];
        starts[axis] = start;
        place(&mut data, &out.shape, &starts, t);
        start += t.shape[axis];
    }
    if start != out.shape[axis] {
        bail!(Internal, "[concatenate] {start} of {} along axis {axis}", out.shape[axis]);
    }
    Ok(Tensor::new(out, data))
}

/// Pads with one value.
pub(super) fn pad(low: &[usize], x: &Tensor, value: &Tensor, out: &Aval) -> Result<Tensor> {
    if value.elems() != 1 {
        return Err(err!(Shape, "[pad] the value has shape {:?}; accepted: one element", value.shape));
    }
    let mut data = map_data!(&value.data, v => vec![v[0]; out.shape.elems()]);
    place(&mut data, &out.shape, low, x);
    Ok(Tensor::new(out, data))
}

fn empty_like(data: &Data, n: usize) -> Data {
    map_data!(data, _v => vec![Default::default(); n])
}

/// Writes a whole tensor into a larger one at a position.
fn place(data: &mut Data, shape: &Shape, starts: &[usize], t: &Tensor) {
    let steps: Dims<isize> = smallvec::smallvec![1; starts.len()];
    let to = Layout::contiguous(shape.clone()).slice(starts, &steps, &t.shape);
    for (from, to) in to.offsets().enumerate() {
        write(data, to, &t.data, from, Combine::Set);
    }
}

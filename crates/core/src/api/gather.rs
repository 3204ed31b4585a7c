//! Reading and writing at indices that come as data. They are never trusted: a negative one counts
//! from the end once, and what is then outside is clamped when reading and dropped when writing.

use super::{Operand, node};
use crate::array::{Array, Inputs};
use crate::error::Result;
use crate::op::{Combine, Gather, Op, Scatter};
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape, axis};
use crate::{Dtype, bail};
use smallvec::smallvec;

/// Refuses index arrays that do not hold integers.
pub(crate) fn check_indices(indices: &Array, place: &str) -> Result<()> {
    if !indices.dtype().is_int() {
        bail!(Dtype, "[{place}] indices are {}; accepted: integer dtypes", indices.dtype());
    }
    Ok(())
}

/// Indices broadcast to one shape, after checks of their dtype.
fn same_shape(indices: &[Array], place: &str) -> Result<(Inputs, Shape)> {
    let mut shape = Shape::scalar();
    for i in indices {
        check_indices(i, place)?;
        shape = shape.broadcast(i.shape(), place)?;
    }
    Ok((indices.iter().map(|i| i.broadcast_to(shape.clone())).collect::<Result<_>>()?, shape))
}

fn check_axes(x: &Array, axes: &[usize], count: usize, place: &str) -> Result<()> {
    if axes.len() != count {
        bail!(Argument, "[{place}] {count} index arrays for axes {axes:?}");
    }
    let mut seen: Dims<bool> = smallvec![false; x.ndim()];
    for &a in axes {
        if a >= x.ndim() || std::mem::replace(&mut seen[a], true) {
            bail!(Axis, "[{place}] axes {axes:?} for {} dimensions; accepted: each once", x.ndim());
        }
    }
    Ok(())
}

impl Array {
    /// Slices of extents `sizes` at indices along `axes`, one index array for each.
    ///
    /// # Shapes
    /// The indices' common shape, then `sizes`.
    ///
    /// # Errors
    /// `Shape` when `sizes` do not fit, `Axis` when indices would read an axis without elements.
    pub fn gather(&self, indices: &[Array], axes: &[usize], sizes: &[usize]) -> Result<Array> {
        check_axes(self, axes, indices.len(), "gather")?;
        let (mut inputs, mut shape) = same_shape(indices, "gather")?;
        // No indices read nothing, even of an axis without elements.
        let reads = |a: usize| shape.elems() > 0 || !axes.contains(&a);
        let fits = |a: usize| sizes[a] <= self.shape()[a] || !reads(a);
        if sizes.len() != self.ndim() || !(0..self.ndim()).all(fits) {
            bail!(Shape, "[gather] slices of {sizes:?} do not fit {:?}", self.shape());
        }
        if let Some(&a) = axes.iter().find(|&&a| self.shape()[a] == 0)
            && shape.elems() > 0
        {
            bail!(Axis, "[gather] axis {a} of {:?} has no elements to index", self.shape());
        }
        inputs.insert(0, self.clone());
        sizes.iter().for_each(|&s| shape.push(s));
        let op = Op::Gather(Gather { axes: axes.iter().map(|&a| a as u8).collect(), sizes: sizes.into() });
        node(op, inputs, smallvec![], shape, self.dtype())
    }

    /// The array with slices at indices combined with `updates`, whose shape is the indices' common
    /// shape followed by the slices' extents. Repeated indices all count; of `Set` the last stays.
    ///
    /// # Errors
    /// `Shape` when the updates do not fit.
    pub fn scatter(
        &self,
        indices: &[Array],
        axes: &[usize],
        combine: Combine,
        updates: &Array,
    ) -> Result<Array> {
        check_axes(self, axes, indices.len(), "scatter")?;
        let (idx, shape) = same_shape(indices, "scatter")?;
        let fits = updates.ndim() == shape.len() + self.ndim()
            && updates.shape()[..shape.len()] == shape[..]
            && (0..self.ndim()).all(|a| {
                let n = updates.shape()[shape.len() + a];
                if axes.contains(&a) { n == 1 } else { n <= self.shape()[a] }
            });
        if !fits {
            bail!(
                Shape,
                "[scatter] updates {:?} for indices {shape:?} into {:?}; accepted: indices, then slices",
                updates.shape(),
                self.shape()
            );
        }
        // Into an axis without elements every index is out of range.
        if updates.size() == 0 || self.size() == 0 {
            return Ok(self.clone());
        }
        let mut inputs: Inputs = smallvec![self.clone()];
        inputs.extend(idx);
        inputs.push(updates.astype(self.dtype())?);
        let op = Op::Scatter(Scatter { axes: axes.iter().map(|&a| a as u8).collect(), combine });
        node(op, inputs, smallvec![], self.shape().clone(), self.dtype())
    }

    /// Elements at indices along an axis, which the indices' axes replace; without an axis of the
    /// flattened array.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::{Array, api::arange};
    /// let x = arange(0, 6, 1, None)?.reshape([3, 2])?;
    /// let rows = x.take(&Array::from_slice(&[2i32, 0], [2])?, Some(0))?;
    /// assert_eq!(rows.to_vec::<i32>()?, [4, 5, 0, 1]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn take(&self, indices: &Array, at: Option<i64>) -> Result<Array> {
        let Some(at) = at else { return self.ravel()?.take(indices, Some(0)) };
        let a = axis(at, self.ndim(), "take")?;
        check_indices(indices, "take")?;
        let mut sizes: Dims<usize> = self.shape()[..].into();
        sizes[a] = 1;
        let out = self.gather(std::slice::from_ref(indices), &[a], &sizes)?;
        let k = indices.ndim();
        let out = out.reshape_to(drop_at(out.shape(), &[k + a]))?;
        // The axes before `a` go in front of the indices'.
        let perm: Dims<usize> = (k..k + a).chain(0..k).chain(k + a..out.ndim()).collect();
        out.permute(&perm)
    }

    /// The slice at one index of an axis, which is dropped.
    ///
    /// # Errors
    /// `Axis` when the index is out of range.
    #[track_caller]
    pub fn take_at(&self, index: &Scalar, at: Option<i64>) -> Result<Array> {
        let Some(at) = at else { return self.ravel()?.take_at(index, Some(0)) };
        let a = axis(at, self.ndim(), "take")?;
        let i = super::index::wrap(index, self.shape()[a], a, "take")?;
        let mut starts: Dims<Scalar> = smallvec![Scalar::from(0); self.ndim()];
        let mut sizes: Dims<usize> = self.shape()[..].into();
        starts[a] = i;
        sizes[a] = 1;
        let steps: Dims<i64> = smallvec![1; self.ndim()];
        self.slice_at(&starts, &steps, &sizes)?.squeeze(Some(&[a as i64]))
    }

    /// Both broadcast to each other except along axis `a`, the indices first.
    fn along(&self, indices: &Array, a: usize, place: &str) -> Result<(Array, Array)> {
        check_indices(indices, place)?;
        if indices.ndim() != self.ndim() {
            bail!(
                Shape,
                "[{place}] indices {:?} for {:?}; accepted: as many dimensions",
                indices.shape(),
                self.shape()
            );
        }
        let (mut i, mut x) = (indices.shape().clone(), self.shape().clone());
        let (ni, nx) = (i[a], x[a]);
        (i.as_mut()[a], x.as_mut()[a]) = (1, 1);
        let mut both = i.broadcast(&x, place)?;
        both.as_mut()[a] = nx;
        let x = self.broadcast_to(both.clone())?;
        both.as_mut()[a] = ni;
        Ok((indices.broadcast_to(both)?, x))
    }

    /// Elements at indices along an axis, the other axes matching; without an axis of the flattened
    /// array.
    ///
    /// # Errors
    /// `Shape` unless there are as many dimensions and the other extents broadcast.
    pub fn take_along_axis(&self, indices: &Array, at: Option<i64>) -> Result<Array> {
        let Some(at) = at else { return self.ravel()?.take_along_axis(&indices.ravel()?, Some(0)) };
        let a = axis(at, self.ndim(), "take_along_axis")?;
        let (i, x) = self.along(indices, a, "take_along_axis")?;
        if x.shape()[a] == 0 && i.size() > 0 {
            bail!(Axis, "[take_along_axis] axis {a} of {:?} has no elements to index", self.shape());
        }
        let shape = i.shape().clone();
        node(Op::TakeAlong(a as u8), smallvec![x, i], smallvec![], shape, self.dtype())
    }

    /// The array with elements at indices along an axis replaced by values, which broadcast to the
    /// indices.
    pub fn put_along_axis(
        &self,
        indices: &Array,
        values: impl Into<Operand>,
        at: Option<i64>,
    ) -> Result<Array> {
        self.scatter_along(indices, values, at, Combine::Set)
    }

    /// The array with values added to elements at indices along an axis.
    pub fn scatter_add_axis(
        &self,
        indices: &Array,
        values: impl Into<Operand>,
        at: Option<i64>,
    ) -> Result<Array> {
        self.scatter_along(indices, values, at, Combine::Add)
    }

    fn scatter_along(
        &self,
        indices: &Array,
        values: impl Into<Operand>,
        at: Option<i64>,
        combine: Combine,
    ) -> Result<Array> {
        let Some(at) = at else {
            let flat = self.ravel()?.scatter_along(&indices.ravel()?, values, Some(0), combine)?;
            return flat.reshape_to(self.shape());
        };
        let a = axis(at, self.ndim(), "put_along_axis")?;
        let (i, x) = self.along(indices, a, "put_along_axis")?;
        if x.shape() != self.shape() {
            bail!(Shape, "[put_along_axis] indices {:?} exceed {:?}", indices.shape(), self.shape());
        }
        let v = values.into().cast_value(self.dtype())?.broadcast_to(i.shape())?;
        if i.size() == 0 {
            return Ok(self.clone());
        }
        let op = Op::ScatterAlong(a as u8, combine);
        node(op, smallvec![x, i, v], smallvec![], self.shape().clone(), self.dtype())
    }

    /// The slice of extents `sizes` whose starts on `axes` come as an array, clamped into range.
    ///
    /// # Errors
    /// `Shape` unless there is one start for each axis and the sizes fit.
    pub fn dynamic_slice(&self, starts: &Array, axes: &[i64], sizes: &[usize]) -> Result<Array> {
        if sizes.len() != self.ndim() || sizes.iter().zip(self.shape().iter()).any(|(s, d)| s > d) {
            bail!(Shape, "[slice] sizes {sizes:?} do not fit {:?}", self.shape());
        }
        let (starts, axes) = self.dynamic_starts(starts, axes, "slice")?;
        let inputs = smallvec![self.clone(), starts];
        node(Op::DynamicSlice(axes), inputs, smallvec![], sizes.into(), self.dtype())
    }

    /// The array with such a slice replaced by `update`, which may lack leading axes.
    pub fn dynamic_slice_update(&self, update: &Array, starts: &Array, axes: &[i64]) -> Result<Array> {
        let (starts, axes) = self.dynamic_starts(starts, axes, "slice_update")?;
        let mut shape: Shape = update.shape()[update.ndim().saturating_sub(self.ndim())..].into();
        let extra = update.ndim().saturating_sub(self.ndim());
        while shape.len() < self.ndim() {
            shape.insert(0, 1);
        }
        let fits = shape.iter().zip(self.shape().iter()).all(|(u, d)| u <= d)
            && update.shape()[..extra].iter().all(|&d| d == 1);
        if !fits {
            bail!(Shape, "[slice_update] update {:?} does not fit {:?}", update.shape(), self.shape());
        }
        // Axes that are written whole take the update's broadcast.
        for i in (0..self.ndim()).filter(|&i| !axes.contains(&(i as u8))) {
            if shape[i] == 1 {
                shape.as_mut()[i] = self.shape()[i];
            }
        }
        let update = update.astype(self.dtype())?.squeeze_front(self.ndim())?.broadcast_to(shape)?;
        if update.size() == 0 {
            return Ok(self.clone());
        }
        let inputs = smallvec![self.clone(), update, starts];
        node(Op::DynamicSliceUpdate(axes), inputs, smallvec![], self.shape().clone(), self.dtype())
    }

    /// Starts as a vector with one for each of the axes, in int64.
    fn dynamic_starts(&self, starts: &Array, axes: &[i64], place: &str) -> Result<(Array, Dims<u8>)> {
        check_indices(starts, place)?;
        let mut out: Dims<u8> = Dims::new();
        for &a in axes {
            let a = axis(a, self.ndim(), place)? as u8;
            if out.contains(&a) {
                bail!(Argument, "[{place}] axes {axes:?} name one axis twice");
            }
            out.push(a);
        }
        if starts.size() != axes.len() || starts.ndim() > 1 {
            bail!(Shape, "[{place}] starts {:?} for {} axes", starts.shape(), axes.len());
        }
        Ok((starts.ravel()?.astype(Dtype::I64)?, out))
    }

    /// Drops leading axes of extent 1 until at most `ndim` are left.
    pub(crate) fn squeeze_front(&self, ndim: usize) -> Result<Array> {
        let extra =
            self.shape().iter().take(self.ndim().saturating_sub(ndim)).take_while(|&&d| d == 1).count();
        self.reshape_to(&self.shape()[extra..])
    }

    /// The array with elements where the mask is true replaced. The mask covers the leading axes; a
    /// value of the remaining axes' shape is repeated, one with an axis more is consumed in row order.
    ///
    /// # Errors
    /// `Shape` where mask or value do not fit; when read, if the value has too few rows.
    pub fn masked_scatter(&self, mask: &Array, value: impl Into<Operand>) -> Result<Array> {
        if mask.dtype() != Dtype::Bool {
            bail!(Dtype, "[masked_scatter] the mask is {}; accepted: bool", mask.dtype());
        }
        let m = mask.ndim();
        if m > self.ndim() || mask.shape()[..] != self.shape()[..m] {
            bail!(Shape, "[masked_scatter] mask {:?} for {:?}", mask.shape(), self.shape());
        }
        let tail = &self.shape()[m..];
        let mut wide = mask.shape().clone();
        tail.iter().for_each(|_| wide.push(1));
        let mask = mask.reshape_to(wide)?;
        let value = value.into().cast_value(self.dtype())?;
        if value.ndim() <= tail.len() {
            let value = value.broadcast_to(tail)?;
            return mask.where_(value, self);
        }
        if value.ndim() > tail.len() + 1 {
            bail!(Shape, "[masked_scatter] value {:?} for rows of {tail:?}", value.shape());
        }
        let mut rows = Shape::from([value.shape()[0]]);
        tail.iter().for_each(|&d| rows.push(d));
        let value = value.broadcast_to(rows)?;
        if self.size() == 0 {
            return Ok(self.clone());
        }
        let inputs = smallvec![self.clone(), mask.broadcast_to(self.shape())?, value];
        node(Op::MaskedScatter, inputs, smallvec![], self.shape().clone(), self.dtype())
    }
}

/// A shape without some of its axes.
pub(crate) fn drop_at(shape: &Shape, at: &[usize]) -> Shape {
    (0..shape.len()).filter(|i| !at.contains(i)).map(|i| shape[i]).collect()
}

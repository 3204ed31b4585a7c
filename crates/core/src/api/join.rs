//! Putting arrays together and taking them apart.

use super::{Axes, Operand, node};
use crate::array::Array;
use crate::error::Result;
use crate::op::Op;
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape, axes, axis};
use crate::{Dtype, bail, err};
use smallvec::smallvec;

/// The most arrays that one call takes another apart into: axes of broadcast arrays have no bound.
const MAX_PARTS: usize = 1 << 24;

/// The dtype that all promote to.
fn promoted(arrays: &[Array]) -> Option<Dtype> {
    arrays.iter().map(|a| a.dtype()).reduce(|a, b| a.promote(b))
}

/// Joins arrays along an axis; dtypes promote.
///
/// # Errors
/// `Argument` for no arrays, `Shape` when another axis differs.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::api::{arange, concatenate};
/// let x = arange(0, 3, 1, None)?;
/// assert_eq!(concatenate(&[x.clone(), x], 0)?.size(), 6);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn concatenate(arrays: &[Array], at: i64) -> Result<Array> {
    let (Some(first), Some(dtype)) = (arrays.first(), promoted(arrays)) else {
        bail!(Argument, "[concatenate] no arrays; accepted: at least one");
    };
    let a = axis(at, first.ndim(), "concatenate")?;
    let mut shape = first.aval().shape.clone();
    let mut total = 0usize;
    for (i, x) in arrays.iter().enumerate() {
        let fits =
            x.ndim() == shape.len() && (0..shape.len()).all(|k| k == a || x.aval().shape[k] == shape[k]);
        if !fits {
            bail!(
                Shape,
                "[concatenate] array {i} is {:?} beside {shape:?}, joined along axis {a}",
                x.aval().shape
            );
        }
        total = total.saturating_add(x.aval().shape[a]);
    }
    shape.as_mut()[a] = total;
    if let [one] = arrays {
        return Ok(one.clone());
    }
    let inputs = arrays.iter().map(|x| x.astype(dtype)).collect::<Result<_>>()?;
    node(Op::Concat(a as u8), inputs, smallvec![], shape, dtype)
}

/// Joins arrays of one shape along a new axis.
///
/// # Errors
/// `Argument` for no arrays, `Shape` when shapes differ.
pub fn stack(arrays: &[Array], at: i64) -> Result<Array> {
    let Some(first) = arrays.first() else {
        bail!(Argument, "[stack] no arrays; accepted: at least one");
    };
    let a = axis(at, first.ndim() + 1, "stack")? as i64;
    if let Some(x) = arrays.iter().find(|x| x.aval().shape != first.aval().shape) {
        bail!(Shape, "[stack] shapes {:?} and {:?} differ", first.aval().shape, x.aval().shape);
    }
    let parts = arrays.iter().map(|x| x.expand_dims(&[a])).collect::<Result<Vec<_>>>()?;
    concatenate(&parts, a)
}

impl Array {
    /// Cuts an axis into equal parts.
    ///
    /// # Errors
    /// `Shape` when the extent is not a multiple, `Argument` for no parts.
    pub fn split(&self, parts: usize, at: i64) -> Result<Vec<Array>> {
        let a = axis(at, self.ndim(), "split")?;
        let dim = self.shape()[a];
        if parts == 0 {
            bail!(Argument, "[split] 0 parts; accepted: at least 1");
        }
        if !dim.is_multiple_of(parts) {
            bail!(Shape, "[split] axis {a} of {:?} does not divide into {parts} parts", self.shape());
        }
        let size = dim / parts;
        if parts > MAX_PARTS {
            bail!(Argument, "[split] {parts} parts; accepted: {MAX_PARTS}");
        }
        (0..parts).map(|i| self.slice_axis(a, i * size, (i + 1) * size)).collect()
    }

    /// Cuts an axis at these indices, clipped as slices are.
    pub fn split_at(&self, indices: &[i64], at: i64) -> Result<Vec<Array>> {
        let a = axis(at, self.ndim(), "split")?;
        let dim = self.shape()[a];
        let mut out = Vec::with_capacity(indices.len() + 1);
        for i in 0..=indices.len() {
            let from = if i == 0 { None } else { Some(indices[i - 1]) };
            let (start, n) = super::view::clip_slice(from, indices.get(i).copied(), 1, dim)?;
            out.push(self.slice_axis(a, start as usize, start as usize + n)?);
        }
        Ok(out)
    }

    /// The slices along an axis, which is dropped.
    pub fn unstack(&self, at: i64) -> Result<Vec<Array>> {
        let a = axis(at, self.ndim(), "unstack")?;
        if self.shape()[a] > MAX_PARTS {
            bail!(Argument, "[unstack] axis {a} has {} slices; accepted: {MAX_PARTS}", self.shape()[a]);
        }
        (0..self.shape()[a]).map(|i| self.slice_axis(a, i, i + 1)?.squeeze(Some(&[a as i64]))).collect()
    }

    /// Adds elements of one value before and after each axis; one pair of counts serves all axes.
    ///
    /// # Errors
    /// `Argument` for a negative count, `Shape` unless there is one pair or one for each axis.
    pub fn pad(&self, widths: &[(i64, i64)], value: impl Into<Operand>) -> Result<Array> {
        let (low, _, shape) = self.pad_shape(widths)?;
        let value = value.into().cast_value(self.dtype())?;
        if value.ndim() > 0 {
            bail!(Shape, "[pad] the value has shape {:?}; accepted: ()", value.shape());
        }
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        node(Op::Pad(low), smallvec![self.clone(), value], smallvec![], shape, self.dtype())
    }

    /// Repeats the outermost elements before and after each axis.
    ///
    /// # Errors
    /// As [`Array::pad`]; `Shape` for an axis without elements.
    pub fn pad_edge(&self, widths: &[(i64, i64)]) -> Result<Array> {
        let (low, high, _) = self.pad_shape(widths)?;
        let mut x = self.clone();
        for a in 0..self.ndim() {
            let dim = self.shape()[a];
            if low[a] + high[a] == 0 {
                continue;
            }
            if dim == 0 {
                bail!(Shape, "[pad] axis {a} of {:?} has no edge to repeat", self.shape());
            }
            let edge = |x: &Array, at: usize, n: usize| {
                let mut shape = x.shape().clone();
                shape.as_mut()[a] = n;
                x.slice_axis(a, at, at + 1)?.broadcast_to(shape)
            };
            let parts = [edge(&x, 0, low[a])?, x.clone(), edge(&x, dim - 1, high[a])?];
            x = concatenate(&parts, a as i64)?;
        }
        Ok(x)
    }

    fn pad_shape(&self, widths: &[(i64, i64)]) -> Result<(Dims<usize>, Dims<usize>, Shape)> {
        let nd = self.ndim();
        if widths.len() != nd && widths.len() != 1 {
            bail!(Shape, "[pad] {} pairs of counts for {nd} dimensions; accepted: 1 or {nd}", widths.len());
        }
        let (mut low, mut high, mut shape) = (Dims::new(), Dims::new(), self.shape().clone());
        for a in 0..nd {
            let (l, h) = widths[if widths.len() == 1 { 0 } else { a }];
            if l < 0 || h < 0 {
                bail!(Argument, "[pad] counts ({l}, {h}) of axis {a}; accepted: 0 and more");
            }
            let total = (shape[a] as u128) + l as u128 + h as u128;
            shape.as_mut()[a] =
                usize::try_from(total).map_err(|_| err!(Shape, "[pad] axis {a} grows too large"))?;
            low.push(l as usize);
            high.push(h as usize);
        }
        Ok((low, high, shape.checked("pad")?))
    }

    /// Repeats each element `n` times along an axis; without one, of the flattened array.
    pub fn repeat(&self, n: i64, at: Option<i64>) -> Result<Array> {
        if n < 0 {
            bail!(Argument, "[repeat] {n} times; accepted: 0 and more");
        }
        let Some(at) = at else { return self.ravel()?.repeat(n, Some(0)) };
        let a = axis(at, self.ndim(), "repeat")?;
        let mut shape = self.shape().clone();
        shape.insert(a + 1, n as usize);
        let wide = self.expand_dims(&[a as i64 + 1])?.broadcast_to(shape)?;
        wide.flatten(a as i64, a as i64 + 1)
    }

    /// The array set side by side `reps[i]` times along each axis, with new axes in front as needed.
    pub fn tile(&self, reps: &[i64]) -> Result<Array> {
        if let Some(r) = reps.iter().find(|&&r| r < 0) {
            bail!(Argument, "[tile] {r} times; accepted: 0 and more");
        }
        let nd = self.ndim().max(reps.len());
        let dim = |i: usize| if i + self.ndim() < nd { 1 } else { self.shape()[i + self.ndim() - nd] };
        let rep = |i: usize| if i + reps.len() < nd { 1 } else { reps[i + reps.len() - nd] as usize };
        if (0..nd).all(|i| rep(i) == 1) {
            return self.reshape_to((0..nd).map(dim).collect::<Shape>());
        }
        let (mut thin, mut wide, mut out) = (Shape::scalar(), Shape::scalar(), Shape::scalar());
        for i in 0..nd {
            if rep(i) != 1 {
                thin.push(1);
                wide.push(rep(i));
            }
            thin.push(dim(i));
            wide.push(dim(i));
            out.push(dim(i).saturating_mul(rep(i)));
        }
        self.reshape_to(thin)?.broadcast_to(wide)?.reshape_to(out)
    }

    /// Shifts elements along axes, those that leave coming in at the other end. Without axes the
    /// flattened array by the sum of the shifts. A shift may be symbolic.
    ///
    /// # Errors
    /// `Argument` unless there is one shift or one for each axis.
    #[track_caller]
    pub fn roll(&self, shifts: &[Scalar], at: impl Into<Axes>) -> Result<Array> {
        let Some(list) = at.into().0 else {
            let total = shifts.iter().fold(Scalar::from(0), |a, b| &a + b);
            return self.ravel()?.roll_axis(&total, 0)?.reshape_to(self.shape());
        };
        if shifts.len() != list.len() && shifts.len() != 1 {
            bail!(Argument, "[roll] {} shifts for {} axes", shifts.len(), list.len());
        }
        axes(Some(&[]), self.ndim(), "roll")?;
        let mut x = self.clone();
        for (i, &a) in list.iter().enumerate() {
            let shift = if shifts.len() == 1 { &shifts[0] } else { &shifts[i] };
            x = x.roll_axis(shift, axis(a, self.ndim(), "roll")?)?;
        }
        Ok(x)
    }

    #[track_caller]
    fn roll_axis(&self, shift: &Scalar, a: usize) -> Result<Array> {
        let dim = self.shape()[a];
        if dim < 2 {
            shift.number()?;
            return Ok(self.clone());
        }
        if let Some(n) = shift.number()? {
            let Some(by) = n.as_int() else { bail!(Argument, "[roll] shift {n} is not an integer") };
            let by = by.rem_euclid(dim as i64) as usize;
            if by == 0 {
                return Ok(self.clone());
            }
            let parts = [self.slice_axis(a, dim - by, dim)?, self.slice_axis(a, 0, dim - by)?];
            return concatenate(&parts, a as i64);
        }
        // Twice the array holds every rotation as a slice.
        let twice = concatenate(&[self.clone(), self.clone()], a as i64)?;
        let mut starts: Dims<Scalar> = smallvec![Scalar::from(0); self.ndim()];
        starts[a] = (-shift) % dim;
        let steps: Dims<i64> = smallvec![1; self.ndim()];
        twice.slice_at(&starts, &steps, self.shape())
    }
}

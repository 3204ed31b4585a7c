//! The same elements under another shape, order or extent. Nothing here copies unless it must.

use super::{Operand, extents, no_valid_length, node};
use crate::array::Array;
use crate::aval::Aval;
use crate::error::Result;
use crate::op::{Combine, Op};
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape, axis};
use crate::{Dtype, bail, err};
use smallvec::smallvec;

impl Array {
    /// The elements in row-major order under another shape, where one extent may be -1.
    ///
    /// # Errors
    /// `Shape` when the counts differ or -1 has no answer.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::api::arange;
    /// assert_eq!(arange(0, 6, 1, None)?.reshape([2, -1])?.shape().to_vec(), [2, 3]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn reshape(&self, shape: impl AsRef<[i64]>) -> Result<Array> {
        match shape.as_ref() {
            [-1] => self.ravel(),
            dims => self.reshape_to(infer(dims, self.size(), "reshape", self.shape())?),
        }
    }

    /// [`Array::reshape`] to a shape that is known.
    pub fn reshape_to(&self, shape: impl Into<Shape>) -> Result<Array> {
        let (shape, from) = (shape.into().checked("reshape")?, self.shape());
        if shape.elems() != from.elems() {
            bail!(
                Shape,
                "[reshape] {from:?} has {} elements and {shape:?} has {}",
                from.elems(),
                shape.elems()
            );
        }
        self.regroup(shape)
    }

    /// The elements under a shape that merges axes, or adds or drops ones of extent 1.
    fn regroup(&self, shape: Shape) -> Result<Array> {
        if shape == self.aval().shape {
            return Ok(self.clone());
        }
        node(Op::Reshape, smallvec![self.clone()], smallvec![], shape, self.dtype())
    }

    /// Merges the axes from `start` to `end`, both included, into one. A 0-d array gets one axis.
    ///
    /// # Errors
    /// `Argument` when the range is empty.
    pub fn flatten(&self, start: i64, end: i64) -> Result<Array> {
        let nd = self.ndim() as i64;
        if nd == 0 {
            return self.reshape_to([1]);
        }
        let from = if start < 0 { start.saturating_add(nd).max(0) } else { start };
        let to = if end < 0 { end.saturating_add(nd) } else { end.min(nd - 1) };
        if from > to || from >= nd {
            bail!(Argument, "[flatten] axes {start} to {end} of {:?} are no range", self.shape());
        }
        let (from, to, all) = (from as usize, to as usize, &self.aval().shape);
        let mut shape: Shape = all[..from].into();
        shape.push(all[from..=to].iter().product());
        all[to + 1..].iter().for_each(|&d| shape.push(d));
        self.regroup(shape)
    }

    /// All elements along one axis.
    pub(crate) fn ravel(&self) -> Result<Array> {
        self.regroup([self.aval().shape.elems()].into())
    }

    /// Splits an axis into several, where one extent may be -1.
    pub fn unflatten(&self, at: i64, shape: impl AsRef<[i64]>) -> Result<Array> {
        let a = axis(at, self.ndim(), "unflatten")?;
        let dims = shape.as_ref();
        if dims.is_empty() {
            bail!(Shape, "[unflatten] no extents; accepted: at least one");
        }
        let inner = infer(dims, self.shape()[a], "unflatten", self.shape())?;
        let all = self.shape()[..a].iter().chain(inner.iter()).chain(&self.shape()[a + 1..]);
        self.reshape_to(all.copied().collect::<Shape>())
    }

    /// Drops axes of extent 1: the given ones, or all.
    ///
    /// # Errors
    /// `Shape` when a given axis has another extent.
    pub fn squeeze(&self, axes: Option<&[i64]>) -> Result<Array> {
        let shape = &self.aval().shape;
        let drop: Dims<usize> = match axes {
            None => (0..self.ndim()).filter(|&i| self.shape()[i] == 1).collect(),
            some => crate::shape::axes(some, self.ndim(), "squeeze")?,
        };
        if let Some(&a) = drop.iter().find(|&&a| shape[a] != 1) {
            bail!(Shape, "[squeeze] axis {a} of {shape:?} has extent {}; accepted: 1", shape[a]);
        }
        let kept = (0..self.ndim()).filter(|i| !drop.contains(i)).map(|i| shape[i]);
        self.regroup(kept.collect())
    }

    /// Adds axes of extent 1 at these places of the result.
    pub fn expand_dims(&self, axes: &[i64]) -> Result<Array> {
        let total = self.ndim() + axes.len();
        let at = crate::shape::axes(Some(axes), total, "expand_dims")?;
        let mut old = self.aval().shape.iter();
        let dims = (0..total).map(|i| if at.contains(&i) { 1 } else { old.next().copied().unwrap_or(1) });
        self.regroup(dims.collect::<Shape>().checked("expand_dims")?)
    }

    /// Axes in another order: axis `i` of the result is axis `axes[i]`; reversed when none are given.
    ///
    /// # Errors
    /// `Argument` unless every axis is named once.
    pub fn transpose(&self, axes: &[i64]) -> Result<Array> {
        let nd = self.ndim();
        if !axes.is_empty() && axes.len() != nd {
            bail!(Argument, "[transpose] {} axes for {nd} dimensions; accepted: each one once", axes.len());
        }
        let perm: Dims<usize> = if axes.is_empty() {
            (0..nd).rev().collect()
        } else {
            axes.iter().map(|&a| axis(a, nd, "transpose")).collect::<Result<_>>()?
        };
        let mut seen: Dims<bool> = smallvec![false; nd];
        perm.iter().for_each(|&p| seen[p] = true);
        if seen.contains(&false) {
            bail!(Argument, "[transpose] axes {axes:?} for {nd} dimensions; accepted: each one once");
        }
        self.permute(&perm)
    }

    /// [`Array::transpose`] by a permutation that is known to be one.
    pub(crate) fn permute(&self, perm: &[usize]) -> Result<Array> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return Ok(self.clone());
        }
        let shape = perm.iter().map(|&p| self.aval().shape[p]).collect();
        let op = Op::Transpose(perm.iter().map(|&p| p as u8).collect());
        node(op, smallvec![self.clone()], smallvec![], shape, self.dtype())
    }

    /// The axes reversed.
    pub fn t(&self) -> Result<Array> {
        match self.ndim() {
            2 => self.permute(&[1, 0]),
            _ => self.transpose(&[]),
        }
    }

    /// Exchanges two axes.
    pub fn swapaxes(&self, a: i64, b: i64) -> Result<Array> {
        let nd = self.ndim();
        let (a, b) = (axis(a, nd, "swapaxes")?, axis(b, nd, "swapaxes")?);
        let mut perm: Dims<usize> = (0..nd).collect();
        perm.swap(a, b);
        self.permute(&perm)
    }

    /// Moves an axis to another place, the others keeping their order.
    pub fn moveaxis(&self, source: i64, destination: i64) -> Result<Array> {
        let nd = self.ndim();
        let (from, to) = (axis(source, nd, "moveaxis")?, axis(destination, nd, "moveaxis")?);
        let mut perm: Dims<usize> = (0..nd).filter(|&i| i != from).collect();
        perm.insert(to, from);
        self.permute(&perm)
    }

    /// The last two axes exchanged.
    pub fn matrix_transpose(&self) -> Result<Array> {
        if self.ndim() < 2 {
            bail!(Shape, "[matrix_transpose] shape {:?}; accepted: at least two dimensions", self.shape());
        }
        self.swapaxes(-1, -2)
    }

    /// Repeats axes of extent 1, and along new leading axes.
    ///
    /// # Errors
    /// `Shape` when the array does not broadcast to it.
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Result<Array> {
        let shape = shape.into().checked("broadcast_to")?;
        if shape == *self.shape() {
            return Ok(self.clone());
        }
        if self.shape().broadcast(&shape, "broadcast_to")? != shape {
            bail!(Shape, "[broadcast_to] {:?} does not broadcast to {shape:?}", self.shape());
        }
        node(Op::Broadcast, smallvec![self.clone()], smallvec![], shape, self.dtype())
    }

    /// `sizes[i]` elements of each axis from `starts[i]` on in steps. A start may be symbolic, under
    /// the guards that the slice stays inside.
    ///
    /// # Errors
    /// `Axis` when it leaves the array.
    #[track_caller]
    pub fn slice_at(&self, starts: &[Scalar], steps: &[i64], sizes: &[usize]) -> Result<Array> {
        check_slice(self.shape(), starts, steps, sizes, "slice")?;
        let whole = sizes == &self.shape()[..]
            && steps.iter().all(|&s| s == 1)
            && starts.iter().all(|s| matches!(s.number(), Ok(Some(n)) if n.as_int() == Some(0)));
        if whole {
            return Ok(self.clone());
        }
        let op = Op::Slice(steps.into());
        node(op, smallvec![self.clone()], starts.into(), sizes.into(), self.dtype())
    }

    /// The array with the block from `starts` on replaced by `update`. A start may be symbolic, under the
    /// guards that the block stays inside. In place when nobody else holds the array.
    ///
    /// # Errors
    /// `Shape` unless there is a start for each axis and the update has as many axes; `Axis` when the
    /// block leaves the array.
    #[track_caller]
    pub fn slice_update(&self, update: &Array, starts: &[Scalar]) -> Result<Array> {
        if update.ndim() != self.ndim() || starts.len() != self.ndim() {
            bail!(
                Shape,
                "[slice_update] {} starts and an update {:?} for {:?}",
                starts.len(),
                update.shape(),
                self.shape()
            );
        }
        let steps: Dims<i64> = smallvec![1; self.ndim()];
        self.slice_set(starts, &steps, Combine::Set, update)
    }

    /// The array with such a slice combined with `update`, which has the shape `sizes` or broadcasts.
    #[track_caller]
    pub(crate) fn slice_set(
        &self,
        starts: &[Scalar],
        steps: &[i64],
        combine: Combine,
        update: &Array,
    ) -> Result<Array> {
        check_slice(self.shape(), starts, steps, update.shape(), "slice_update")?;
        if update.size() == 0 {
            return Ok(self.clone());
        }
        let op = Op::SliceUpdate(steps.into(), combine);
        let inputs = smallvec![self.clone(), update.astype(self.dtype())?];
        node(op, inputs, starts.into(), self.shape().clone(), self.dtype())
    }

    /// A slice with Python's bounds on every axis: negative ones count from the end, and what is
    /// outside is clipped.
    ///
    /// # Errors
    /// `Shape` unless there is one bound for each axis, `Argument` for a step of 0.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::api::arange;
    /// let x = arange(0, 5, 1, None)?;
    /// assert_eq!(x.slice(&[-2], &[99], None)?.to_vec::<i32>()?, [3, 4]);
    /// assert_eq!(x.slice(&[4], &[0], Some(&[-2]))?.to_vec::<i32>()?, [4, 2]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn slice(&self, starts: &[i64], stops: &[i64], steps: Option<&[i64]>) -> Result<Array> {
        let nd = self.ndim();
        let counts = [starts.len(), stops.len(), steps.map_or(nd, |s| s.len())];
        if counts.iter().any(|&n| n != nd) {
            bail!(Shape, "[slice] {counts:?} starts, stops and steps for {nd} dimensions");
        }
        let mut at: Dims<Scalar> = Dims::new();
        let mut by: Dims<i64> = Dims::new();
        let mut sizes: Dims<usize> = Dims::new();
        for i in 0..nd {
            let step = steps.map_or(1, |s| s[i]);
            let (start, size) = clip_slice(Some(starts[i]), Some(stops[i]), step, self.shape()[i])?;
            at.push(Scalar::from(start));
            by.push(step);
            sizes.push(size);
        }
        self.slice_at(&at, &by, &sizes)
    }

    /// Elements `from..to` of one axis, which must be inside.
    pub(crate) fn slice_axis(&self, a: usize, from: usize, to: usize) -> Result<Array> {
        let mut starts: Dims<Scalar> = smallvec![Scalar::from(0); self.ndim()];
        let mut sizes: Dims<usize> = self.shape()[..].into();
        starts[a] = Scalar::from(from);
        sizes[a] = to.saturating_sub(from);
        let steps: Dims<i64> = smallvec![1; self.ndim()];
        self.slice_at(&starts, &steps, &sizes)
    }

    /// The first `n` elements along an axis. A symbolic `n` keeps the extent and carries the length,
    /// which attention alone consumes, under the guards `0 <= n <= extent`.
    ///
    /// # Errors
    /// `Axis` when `n` is outside the axis.
    #[track_caller]
    pub fn slice_leading(&self, at: i64, n: &Scalar) -> Result<Array> {
        let a = axis(at, self.ndim(), "slice_leading")?;
        let dim = self.shape()[a];
        if !n.ge(0)? || !n.le(dim)? {
            bail!(Axis, "[slice_leading] length {n} is outside axis {a} of {:?}", self.shape());
        }
        if n.number()?.is_some() {
            return self.slice_axis(a, 0, n.int("slice_leading")? as usize);
        }
        no_valid_length(std::slice::from_ref(self), "slice_leading")?;
        let mut aval = Aval::new(self.shape().clone(), self.dtype());
        aval.valid = Some(a as u8);
        Ok(Array::lazy(Op::SliceValid(a as u8), smallvec![self.clone()], smallvec![n.clone()], aval))
    }

    /// Reverses the given axes.
    pub fn flip(&self, axes: impl Into<super::Axes>) -> Result<Array> {
        let axes = axes.into().resolve(self.ndim(), "flip")?;
        let mut starts: Dims<Scalar> = smallvec![Scalar::from(0); self.ndim()];
        let mut steps: Dims<i64> = smallvec![1; self.ndim()];
        for &a in axes.iter().filter(|&&a| self.shape()[a] > 0) {
            starts[a] = Scalar::from(self.shape()[a] - 1);
            steps[a] = -1;
        }
        self.slice_at(&starts, &steps, self.shape())
    }

    /// A view of the elements in row-major order by strides and offset, counted in elements.
    ///
    /// # Errors
    /// `Axis` when it reaches an element that is not there.
    pub fn as_strided(&self, shape: &[i64], strides: Option<&[i64]>, offset: i64) -> Result<Array> {
        let shape = extents(shape, "as_strided")?.checked("as_strided")?;
        let mut row_major: Dims<i64> = smallvec![1; shape.len()];
        for i in (1..shape.len()).rev() {
            row_major[i - 1] = row_major[i].saturating_mul(shape[i] as i64);
        }
        let strides: Dims<i64> = strides.map_or(row_major, Dims::from);
        if strides.len() != shape.len() {
            bail!(Shape, "[as_strided] {} strides for shape {shape:?}", strides.len());
        }
        let (mut lo, mut hi) = (offset as i128, offset as i128);
        for (&d, &s) in shape.iter().zip(&strides) {
            let reach = (d as i128 - 1) * s as i128;
            if reach < 0 { lo += reach } else { hi += reach }
        }
        if shape.elems() == 0 {
            return super::zeros(shape, self.dtype());
        }
        if lo < 0 || hi >= self.size() as i128 {
            bail!(Axis, "[as_strided] elements {lo} to {hi} are outside an array of {}", self.size());
        }
        let op = Op::AsStrided(strides, offset);
        node(op, smallvec![self.clone()], smallvec![], shape, self.dtype())
    }

    /// The same bytes under another dtype; the last axis shrinks or grows when the sizes differ.
    ///
    /// # Errors
    /// `Shape` when the bytes of the last axis are not a whole number of elements.
    pub fn view(&self, dtype: Dtype) -> Result<Array> {
        let (old, new) = (self.dtype().size(), dtype.size());
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        let mut shape = self.shape().clone();
        if old != new {
            let n = shape.len();
            if n == 0 || !(shape[n - 1] * old).is_multiple_of(new) {
                bail!(
                    Shape,
                    "[view] {:?} of {} as {dtype}: the last axis is not a whole number of {new} bytes",
                    self.shape(),
                    self.dtype()
                );
            }
            shape.as_mut()[n - 1] = shape[n - 1] * old / new;
        }
        node(Op::Bitcast, smallvec![self.clone()], smallvec![], shape, dtype)
    }

    /// The array in row-major memory order.
    pub fn contiguous(&self) -> Result<Array> {
        node(Op::Contiguous, smallvec![self.clone()], smallvec![], self.shape().clone(), self.dtype())
    }

    /// The array, through which no gradient flows.
    pub fn stop_gradient(&self) -> Array {
        self.clone()
    }

    /// At least one dimension.
    pub fn atleast_1d(&self) -> Result<Array> {
        if self.ndim() > 0 { Ok(self.clone()) } else { self.reshape_to([1]) }
    }

    /// At least two dimensions, new ones in front.
    pub fn atleast_2d(&self) -> Result<Array> {
        if self.ndim() > 1 { Ok(self.clone()) } else { self.reshape_to([1, self.size()]) }
    }

    /// At least three dimensions: a vector becomes (1, n, 1), a matrix gets a last axis.
    pub fn atleast_3d(&self) -> Result<Array> {
        match self.shape()[..] {
            [] => self.reshape_to([1, 1, 1]),
            [n] => self.reshape_to([1, n, 1]),
            [n, m] => self.reshape_to([n, m, 1]),
            _ => Ok(self.clone()),
        }
    }
}

/// The shape that all of these broadcast to.
///
/// # Errors
/// `Shape` when they do not.
pub fn broadcast_shapes(shapes: &[Shape]) -> Result<Shape> {
    shapes.iter().try_fold(Shape::scalar(), |a, b| a.broadcast(b, "broadcast_shapes"))
}

/// The arrays, broadcast to one shape.
pub fn broadcast_arrays(arrays: &[Array]) -> Result<Vec<Array>> {
    let shape = arrays.iter().try_fold(Shape::scalar(), |s, a| s.broadcast(a.shape(), "broadcast_arrays"))?;
    arrays.iter().map(|a| a.broadcast_to(shape.clone())).collect()
}

/// Elements of `x` where the condition holds, else of `y`; all three broadcast.
pub fn where_(condition: impl Into<Operand>, x: impl Into<Operand>, y: impl Into<Operand>) -> Result<Array> {
    super::elementwise(crate::op::Row::Select, &[condition.into(), x.into(), y.into()])
}

/// Fills in the -1 of a shape of `elems` elements.
fn infer(dims: &[i64], elems: usize, place: &str, from: &Shape) -> Result<Shape> {
    let fail = || err!(Shape, "[{place}] {from:?} does not take the shape {dims:?}");
    let holes = dims.iter().filter(|&&d| d == -1).count();
    if holes > 1 || dims.iter().any(|&d| d < -1) {
        return Err(fail());
    }
    let known = dims.iter().filter(|&&d| d != -1).try_fold(1usize, |n, &d| n.checked_mul(d as usize));
    let known = known.ok_or_else(fail)?;
    if holes == 1 && (known == 0 || !elems.is_multiple_of(known)) || holes == 0 && known != elems {
        return Err(fail());
    }
    Ok(dims.iter().map(|&d| if d == -1 { elems / known } else { d as usize }).collect())
}

/// First element and count of a Python slice of an axis; the first is inside unless the count is 0.
///
/// # Errors
/// `Argument` for a step of 0.
pub(crate) fn clip_slice(
    start: Option<i64>,
    stop: Option<i64>,
    step: i64,
    dim: usize,
) -> Result<(i64, usize)> {
    if step == 0 {
        bail!(Argument, "[slice] the step is 0; accepted: another integer");
    }
    let d = dim as i64;
    let (lo, hi) = if step > 0 { (0, d) } else { (-1, d - 1) };
    let bound = |x: Option<i64>, default: i64| match x {
        None => default,
        Some(x) if x < 0 => x.saturating_add(d).clamp(lo, hi),
        Some(x) => x.clamp(lo, hi),
    };
    let (start, stop) =
        if step > 0 { (bound(start, lo), bound(stop, hi)) } else { (bound(start, hi), bound(stop, lo)) };
    let (span, by) = if step > 0 { (stop - start, step) } else { (start - stop, step.saturating_neg()) };
    let n = if span <= 0 { 0 } else { 1 + (span - 1) / by };
    Ok((if n == 0 { 0 } else { start }, n as usize))
}

/// Checks a slice of fixed size against the extents, recording guards for symbolic starts.
#[track_caller]
fn check_slice(shape: &Shape, starts: &[Scalar], steps: &[i64], sizes: &[usize], place: &str) -> Result<()> {
    let nd = shape.len();
    if starts.len() != nd || steps.len() != nd || sizes.len() != nd {
        bail!(
            Shape,
            "[{place}] {} starts, {} steps and {} sizes for {nd} dimensions",
            starts.len(),
            steps.len(),
            sizes.len()
        );
    }
    for i in 0..nd {
        let start = starts[i].number()?;
        if let Some(n) = start
            && n.as_int().is_none()
        {
            bail!(Argument, "[{place}] start {n} of axis {i} is not an integer");
        }
        let (dim, size) = (shape[i], sizes[i]);
        let reach = (size.saturating_sub(1) as i128) * steps[i] as i128;
        let (lo, hi) = (0.max(-reach), dim as i128 - reach.max(0) - (size > 0) as i128);
        let bad = || {
            err!(
                Axis,
                "[{place}] {size} elements from {} on in steps of {} leave axis {i} of {shape:?}",
                starts[i],
                steps[i]
            )
        };
        let inside = match (start.and_then(|n| n.as_int()), i64::try_from(lo), i64::try_from(hi)) {
            // A number needs no guard.
            (Some(at), ..) => lo <= at as i128 && at as i128 <= hi,
            (None, Ok(lo), Ok(hi)) => lo <= hi && starts[i].ge(lo)? && starts[i].le(hi)?,
            _ => false,
        };
        if !inside {
            return Err(bad());
        }
    }
    Ok(())
}

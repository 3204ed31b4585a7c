//! Indexing as Python writes it: `x[1, ..., None, 2:5, indices]`, to read and to write.

use super::gather::{check_indices, drop_at};
use super::view::clip_slice;
use super::{Operand, ones};
use crate::array::Array;
use crate::error::Result;
use crate::number::NumberKind;
use crate::op::Combine;
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape};
use crate::{Dtype, bail};
use smallvec::smallvec;

/// One item of an index.
#[derive(Clone, Debug)]
pub enum Index {
    /// One element of an axis, which is dropped. Negative numbers count from the end.
    Int(Scalar),
    /// A slice with Python's meaning.
    Slice { start: Option<Scalar>, stop: Option<Scalar>, step: Option<Scalar> },
    /// A new axis of extent 1.
    NewAxis,
    /// As many whole axes as are left.
    Ellipsis,
    /// Elements at integer indices.
    Array(Array),
    /// Where a mask is true; to write only, and only as the whole index.
    Mask(Array),
}

impl Index {
    /// `:`, the whole axis.
    pub fn all() -> Index {
        Index::Slice { start: None, stop: None, step: None }
    }
}

impl From<i64> for Index {
    fn from(i: i64) -> Index {
        Index::Int(i.into())
    }
}
impl From<&Scalar> for Index {
    fn from(i: &Scalar) -> Index {
        Index::Int(i.clone())
    }
}
impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Index {
        Index::all()
    }
}
impl<T: Into<Scalar>> From<std::ops::Range<T>> for Index {
    fn from(r: std::ops::Range<T>) -> Index {
        Index::Slice { start: Some(r.start.into()), stop: Some(r.end.into()), step: None }
    }
}
impl<T: Into<Scalar>> From<std::ops::RangeFrom<T>> for Index {
    fn from(r: std::ops::RangeFrom<T>) -> Index {
        Index::Slice { start: Some(r.start.into()), stop: None, step: None }
    }
}
impl<T: Into<Scalar>> From<std::ops::RangeTo<T>> for Index {
    fn from(r: std::ops::RangeTo<T>) -> Index {
        Index::Slice { start: None, stop: Some(r.end.into()), step: None }
    }
}
impl From<&Array> for Index {
    fn from(a: &Array) -> Index {
        if a.dtype() == Dtype::Bool { Index::Mask(a.clone()) } else { Index::Array(a.clone()) }
    }
}

/// An integer index as a position; a symbolic one under the guards that it is inside.
///
/// # Errors
/// `Axis` when it is outside, `Argument` unless it is an integer.
#[track_caller]
pub(crate) fn wrap(i: &Scalar, dim: usize, axis: usize, place: &str) -> Result<Scalar> {
    if i.kind() != NumberKind::Int {
        bail!(Argument, "[{place}] {i} is no index; accepted: integers");
    }
    let at = if i.lt(0)? { i + dim } else { i.clone() };
    if at.lt(0)? || !at.lt(dim)? {
        bail!(Axis, "[{place}] index {i} is out of range for axis {axis} of extent {dim}");
    }
    Ok(at)
}

/// What an index does to the array, in the order in which it is done: a slice of fixed extents, a
/// leading part of symbolic length, then index arrays.
struct Parsed {
    starts: Dims<Scalar>,
    steps: Dims<i64>,
    sizes: Dims<usize>,
    /// Axes that integers drop.
    dropped: Dims<usize>,
    /// Axis and length of a slice of symbolic size.
    valid: Option<(usize, Scalar)>,
    arrays: Dims<(usize, Array)>,
    /// The result's axes: `None` for a new axis, else the axis it comes from.
    kept: Dims<Option<usize>>,
    /// How many of `kept` stand before the indexed axes.
    before: usize,
}

/// First position and count of a slice whose bounds may be symbolic. The count is `Err` when it is
/// symbolic itself and the slice starts at a known position.
#[track_caller]
fn bounds(
    start: Option<&Scalar>,
    stop: Option<&Scalar>,
    step: i64,
    dim: usize,
) -> Result<(Scalar, SliceSize)> {
    let known = |s: Option<&Scalar>| match s {
        None => Ok(Some(None)),
        Some(s) if s.kind() != NumberKind::Int => {
            bail!(Argument, "[slice] bound {s} is not an integer")
        }
        Some(s) => Ok(s.number()?.map(|n| n.as_int())),
    };
    if let (Some(a), Some(b)) = (known(start)?, known(stop)?) {
        let (at, n) = clip_slice(a, b, step, dim)?;
        return Ok((Scalar::from(at), SliceSize::Fixed(n)));
    }
    if step < 1 {
        let fixed = |s: Option<&Scalar>| s.map(|s| s.int("slice")).transpose();
        let (at, n) = clip_slice(fixed(start)?, fixed(stop)?, step, dim)?;
        return Ok((Scalar::from(at), SliceSize::Fixed(n)));
    }
    let clip = |s: Option<&Scalar>, default: usize| -> Result<Scalar> {
        let Some(s) = s else { return Ok(Scalar::from(default)) };
        if s.ge(0)? {
            return Ok(if s.le(dim)? { s.clone() } else { Scalar::from(dim) });
        }
        let s = s + dim;
        Ok(if s.ge(0)? { s } else { Scalar::from(0) })
    };
    let (from, to) = (clip(start, 0)?, clip(stop, dim)?);
    let span = &to - &from;
    if let Some(n) = span.number()? {
        let n = n.as_int().unwrap_or(0).max(0) as u64;
        return Ok((from, SliceSize::Fixed(n.div_ceil(step as u64) as usize)));
    }
    if step == 1 && from.number()?.is_some() && span.ge(0)? {
        return Ok((from, SliceSize::Symbolic(span)));
    }
    let (at, n) = clip_slice(Some(from.int("slice")?), Some(to.int("slice")?), step, dim)?;
    Ok((Scalar::from(at), SliceSize::Fixed(n)))
}

enum SliceSize {
    Fixed(usize),
    Symbolic(Scalar),
}

#[track_caller]
fn parse(shape: &Shape, index: &[Index], place: &str) -> Result<Parsed> {
    let takes = |i: &Index| matches!(i, Index::Int(_) | Index::Slice { .. } | Index::Array(_)) as usize;
    let (nd, used) = (shape.len(), index.iter().map(takes).sum::<usize>());
    if index.iter().filter(|i| matches!(i, Index::Ellipsis)).count() > 1 {
        bail!(Argument, "[{place}] an index has more than one ellipsis");
    }
    if used > nd {
        bail!(Argument, "[{place}] {used} indices for {nd} dimensions");
    }
    let mut p = Parsed {
        starts: smallvec![Scalar::from(0); nd],
        steps: smallvec![1; nd],
        sizes: shape[..].into(),
        dropped: Dims::new(),
        valid: None,
        arrays: Dims::new(),
        kept: Dims::new(),
        before: 0,
    };
    let has_arrays = index.iter().any(|i| matches!(i, Index::Array(_)));
    // Indexed axes take their place in the result when nothing stands between them, else they go in
    // front. Integers count among them beside an array.
    let (mut first, mut gap, mut apart) = (None, false, false);
    let mut axis = 0;
    for item in index {
        match item {
            Index::Int(_) | Index::Array(_) if has_arrays => {
                apart |= first.is_some() && gap;
                first.get_or_insert(p.kept.len());
                gap = false;
            }
            _ => gap = true,
        }
        match item {
            Index::Int(i) => {
                p.starts[axis] = wrap(i, shape[axis], axis, place)?;
                p.sizes[axis] = 1;
                p.dropped.push(axis);
            }
            Index::Array(a) => {
                check_indices(a, place)?;
                p.arrays.push((axis, a.clone()));
            }
            Index::Slice { start, stop, step } => {
                let step = step.as_ref().map_or(Ok(1), |s| s.int("slice"))?;
                let (at, size) = bounds(start.as_ref(), stop.as_ref(), step, shape[axis])?;
                match size {
                    SliceSize::Fixed(n) => {
                        // A slice of one element has no step, and an unused one could overflow.
                        p.steps[axis] = if n > 1 { step } else { 1 };
                        p.sizes[axis] = n;
                        p.starts[axis] = if n == 0 { Scalar::from(0) } else { at };
                    }
                    SliceSize::Symbolic(n) if p.valid.is_none() && !has_arrays => {
                        let from = at.int("slice")?;
                        p.sizes[axis] = shape[axis] - from as usize;
                        p.starts[axis] = at;
                        p.valid = Some((axis, n));
                    }
                    SliceSize::Symbolic(n) => {
                        p.sizes[axis] = n.int("slice")? as usize;
                        p.starts[axis] = at;
                    }
                }
                p.kept.push(Some(axis));
            }
            Index::NewAxis => {
                p.kept.push(None);
                continue;
            }
            Index::Ellipsis => {
                for _ in 0..nd - used {
                    p.kept.push(Some(axis));
                    axis += 1;
                }
                continue;
            }
            Index::Mask(_) => bail!(Argument, "[{place}] a mask is not accepted here; write with it alone"),
        }
        axis += 1;
    }
    p.kept.extend((axis..nd).map(Some));
    p.before = if apart { 0 } else { first.unwrap_or(0) };
    Ok(p)
}

impl Parsed {
    /// The result's extents for the kept axes, new ones included.
    fn kept_shape(&self) -> Shape {
        self.kept.iter().map(|k| k.map_or(1, |a| self.sizes[a])).collect()
    }

    fn whole(&self, shape: &Shape) -> bool {
        self.sizes[..] == shape[..]
            && self.steps.iter().all(|&s| s == 1)
            && self.starts.iter().all(|s| matches!(s.number(), Ok(Some(n)) if n.as_int() == Some(0)))
    }

    /// The extents that a value written must broadcast to.
    fn result_shape(&self) -> Result<(Shape, Shape)> {
        let mut idx = Shape::scalar();
        for (_, a) in &self.arrays {
            idx = idx.broadcast(a.shape(), "index")?;
        }
        let kept = self.kept_shape();
        let all = kept[..self.before].iter().chain(idx.iter()).chain(&kept[self.before..]);
        Ok((all.copied().collect(), idx))
    }
}

impl Array {
    /// The elements that an index selects.
    ///
    /// # Shapes
    /// As in NumPy: index arrays broadcast together, and their axes go in front when a slice or a new
    /// axis stands between them. An index array is never trusted: see [`Array::take`].
    ///
    /// # Errors
    /// `Axis` for an integer out of range; `Argument` for too many indices, a second ellipsis, a
    /// step of 0 or a mask; `Dtype` for index arrays that are not integers.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::{Array, api::{Index, arange}};
    /// let x = arange(0, 6, 1, None)?.reshape([2, 3])?;
    /// assert_eq!(x.index(&[Index::all(), Index::from(-1)])?.to_vec::<i32>()?, [2, 5]);
    /// assert_eq!(x.index(&[Index::from(1), Index::from(1..9)])?.to_vec::<i32>()?, [4, 5]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    #[track_caller]
    pub fn index(&self, index: &[Index]) -> Result<Array> {
        if index.iter().any(|i| matches!(i, Index::Mask(_))) {
            bail!(Argument, "[index] reading by a mask has no fixed shape; accepted: where, or indices");
        }
        let p = parse(self.shape(), index, "index")?;
        let x = self.slice_at(&p.starts, &p.steps, &p.sizes)?;
        if p.arrays.is_empty() {
            let out = x.reshape_to(p.kept_shape())?;
            return match &p.valid {
                Some((axis, n)) => {
                    let at = p.kept.iter().position(|k| *k == Some(*axis)).unwrap_or(0);
                    out.slice_leading(at as i64, n)
                }
                None => Ok(out),
            };
        }
        let (axes, arrays): (Dims<usize>, Vec<Array>) = p.arrays.iter().cloned().unzip();
        let mut sizes = p.sizes.clone();
        axes.iter().for_each(|&a| sizes[a] = 1);
        let out = x.gather(&arrays, &axes, &sizes)?;
        let (shape, idx) = p.result_shape()?;
        let k = idx.len();
        // Indices first, then the kept axes in the array's order.
        let gone: Vec<usize> = axes.iter().chain(&p.dropped).map(|&a| a + k).collect();
        let out = out.reshape_to(drop_at(out.shape(), &gone))?;
        let lead = p.kept[..p.before].iter().flatten().count();
        let perm: Dims<usize> = (k..k + lead).chain(0..k).chain(k + lead..out.ndim()).collect();
        out.permute(&perm)?.reshape_to(shape)
    }

    /// The array with the elements that an index selects replaced.
    ///
    /// The value is converted to this array's dtype and broadcast; its leading axes of extent 1 are
    /// dropped. Index arrays out of range are dropped; of equal ones the last stays.
    ///
    /// # Errors
    /// As [`Array::index`]; `Shape` when the value does not broadcast.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::{Dtype, api::{Index, zeros}};
    /// let x = zeros([4], Dtype::I32)?.set(&[Index::from(1..3)], 7)?;
    /// assert_eq!(x.to_vec::<i32>()?, [0, 7, 7, 0]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    #[track_caller]
    pub fn set(&self, index: &[Index], value: impl Into<Operand>) -> Result<Array> {
        let value = value.into();
        if let [Index::Mask(mask)] = index {
            return self.masked_scatter(mask, value);
        }
        self.write(index, Combine::Set, value, "set")
    }

    /// The array with the elements that an index selects combined with a value; repeated indices
    /// all count.
    #[track_caller]
    pub fn at(&self, index: &[Index], combine: Combine, value: impl Into<Operand>) -> Result<Array> {
        let value = value.into();
        let [Index::Mask(mask)] = index else { return self.write(index, combine, value, "at") };
        // Under a mask no element is met twice: combine everywhere, keep where it is false.
        let filled = self.masked_scatter(mask, value)?;
        let all = match combine {
            Combine::Set => return Ok(filled),
            Combine::Add => self.add(filled),
            Combine::Mul => self.multiply(filled),
            Combine::Min => self.minimum(filled),
            Combine::Max => self.maximum(filled),
        }?;
        let mut wide = mask.shape().clone();
        (mask.ndim()..self.ndim()).for_each(|_| wide.push(1));
        mask.reshape_to(wide)?.where_(all, self)
    }

    /// [`Array::at`] that subtracts.
    #[track_caller]
    pub fn at_subtract(&self, index: &[Index], value: impl Into<Operand>) -> Result<Array> {
        let value = value.into().cast_value(self.dtype())?;
        let zero = value.zero()?;
        self.at(index, Combine::Add, zero.subtract(value)?)
    }

    /// [`Array::at`] that divides, in floating point; integers truncate once at the end.
    #[track_caller]
    pub fn at_divide(&self, index: &[Index], value: impl Into<Operand>) -> Result<Array> {
        let work = if self.dtype().is_inexact() { self.dtype() } else { Dtype::F64 };
        let by = value.into().cast_value(self.dtype())?.astype(work)?;
        let by = ones(self.shape(), work)?.at(index, Combine::Mul, by)?;
        let whole = self.astype(work)?.divide(&by)?.astype(self.dtype())?;
        by.equal(1.0)?.where_(self, whole)
    }

    #[track_caller]
    fn write(&self, index: &[Index], combine: Combine, value: Operand, place: &str) -> Result<Array> {
        let mut p = parse(self.shape(), index, place)?;
        if let Some((axis, n)) = p.valid.take() {
            p.sizes[axis] = n.int("set")? as usize;
        }
        let (shape, idx) = p.result_shape()?;
        let value = value.cast_value(self.dtype())?;
        let value = value.squeeze_front(shape.len())?.broadcast_to(shape)?;
        if p.arrays.is_empty() {
            let update = value.reshape_to(&p.sizes[..])?;
            let replaced = p.whole(self.shape()) && combine == Combine::Set;
            return if replaced { Ok(update) } else { self.slice_set(&p.starts, &p.steps, combine, &update) };
        }
        // Back from the result's order to indices first, then the array's axes.
        let k = idx.len();
        let flat_shape: Shape = {
            let kept =
                |part: &[Option<usize>]| part.iter().flatten().map(|&a| p.sizes[a]).collect::<Vec<_>>();
            let (lead, rest) = (kept(&p.kept[..p.before]), kept(&p.kept[p.before..]));
            lead.iter().chain(idx.iter()).chain(&rest).copied().collect()
        };
        let lead = p.kept[..p.before].iter().flatten().count();
        let value = value.reshape_to(flat_shape)?;
        let perm: Dims<usize> = (lead..lead + k).chain(0..lead).chain(lead + k..value.ndim()).collect();
        let (axes, arrays): (Dims<usize>, Vec<Array>) = p.arrays.iter().cloned().unzip();
        let mut full = idx.clone();
        for a in 0..self.ndim() {
            full.push(if axes.contains(&a) { 1 } else { p.sizes[a] });
        }
        let update = value.permute(&perm)?.reshape_to(full)?;
        if p.whole(self.shape()) {
            return self.scatter(&arrays, &axes, combine, &update);
        }
        let part = self.slice_at(&p.starts, &p.steps, &p.sizes)?;
        let part = part.scatter(&arrays, &axes, combine, &update)?;
        self.slice_set(&p.starts, &p.steps, Combine::Set, &part)
    }
}

//! Order: sorting, selecting the largest, searching.

use super::{Operand, common_dtype, concatenate, full, node, ones, zeros};
use crate::array::Array;
use crate::error::Result;
use crate::op::{Combine, Op};
use crate::shape::axis;
use crate::{Dtype, bail};
use smallvec::smallvec;

impl Array {
    /// Sorts along an axis, or the flattened array: ascending, stable, NaN last.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let x = Array::from_slice(&[3i32, 1, 2], [3])?;
    /// assert_eq!(x.sort(Some(-1))?.to_vec::<i32>()?, [1, 2, 3]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn sort(&self, at: Option<i64>) -> Result<Array> {
        self.sorted(at, false, "sort")
    }

    /// Indices (uint32) that sort along an axis, or the flattened array; see [`Array::sort`].
    pub fn argsort(&self, at: Option<i64>) -> Result<Array> {
        self.sorted(at, true, "argsort")
    }

    fn sorted(&self, at: Option<i64>, indices: bool, place: &str) -> Result<Array> {
        let x = if at.is_none() { self.ravel()? } else { self.clone() };
        let a = axis(at.unwrap_or(0), x.ndim(), place)? as u8;
        let (op, dtype) = if indices { (Op::ArgSort(a), Dtype::U32) } else { (Op::Sort(a), x.dtype()) };
        let shape = x.aval().shape.clone();
        node(op, smallvec![x], smallvec![], shape, dtype)
    }

    /// Orders an axis such that element `kth` is where sorting puts it, smaller ones before it.
    ///
    /// # Errors
    /// `Argument` when there is no such element.
    pub fn partition(&self, kth: i64, at: Option<i64>) -> Result<Array> {
        self.check_kth(kth, at, "partition")?;
        self.sort(at)
    }

    /// Indices (uint32) for [`Array::partition`].
    pub fn argpartition(&self, kth: i64, at: Option<i64>) -> Result<Array> {
        self.check_kth(kth, at, "argpartition")?;
        self.argsort(at)
    }

    fn check_kth(&self, kth: i64, at: Option<i64>, place: &str) -> Result<()> {
        let n = match at {
            Some(at) => self.shape()[axis(at, self.ndim(), place)?],
            None => self.size(),
        } as i64;
        if kth < -n || kth >= n {
            bail!(Argument, "[{place}] kth is {kth} of {n} elements; accepted: {}..={}", -n, n - 1);
        }
        Ok(())
    }

    /// The `k` largest elements along an axis, or of the flattened array, in ascending order; NaN
    /// counts as largest.
    ///
    /// # Errors
    /// `Argument` when there are not so many.
    pub fn topk(&self, k: i64, at: Option<i64>) -> Result<Array> {
        let x = if at.is_none() { self.ravel()? } else { self.clone() };
        let a = axis(at.unwrap_or(0), x.ndim(), "topk")?;
        let n = x.shape()[a];
        if k < 0 || k > n as i64 {
            bail!(Argument, "[topk] k is {k} of {n} elements; accepted: 0..={n}");
        }
        x.sort(Some(a as i64))?.slice_axis(a, n - k as usize, n)
    }

    /// Where values would be inserted (uint32) into this sorted vector: before equal elements, or
    /// after them when `right`.
    ///
    /// # Errors
    /// `Shape` unless the array is a vector.
    pub fn searchsorted(&self, values: &Array, right: bool) -> Result<Array> {
        if self.ndim() != 1 {
            bail!(Shape, "[searchsorted] the sorted array has shape {:?}; accepted: (n,)", self.shape());
        }
        let d = common_dtype(&[self.into(), values.into()]);
        let inputs = smallvec![self.astype(d)?, values.astype(d)?];
        node(Op::SearchSorted(right), inputs, smallvec![], values.shape().clone(), Dtype::U32)
    }
}

/// What [`Array::unique`] gives; each vector has the size asked for, `inverse` the array's shape.
#[derive(Clone, Debug)]
pub struct Unique {
    /// The elements, ascending, then the fill value.
    pub values: Array,
    /// Where each stands first in the flattened array (uint32).
    pub index: Array,
    /// For each element of the array its place in `values` (uint32), the last one if there are too few.
    pub inverse: Array,
    /// How often each occurs (int32), 0 for fill values.
    pub counts: Array,
}

impl Array {
    /// The smallest `size` distinct elements of the flattened array, each NaN counting as one. Where there
    /// are fewer, the fill value follows; without one, the smallest element.
    ///
    /// # Errors
    /// `Argument` for an empty array without a fill value, or a negative size.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let u = Array::from_slice(&[3i32, 1, 3], [3])?.unique(3, None)?;
    /// assert_eq!(u.values.to_vec::<i32>()?, [1, 3, 1]);
    /// assert_eq!(u.counts.to_vec::<i32>()?, [1, 2, 0]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn unique(&self, size: i64, fill: Option<Operand>) -> Result<Unique> {
        let Ok(room) = usize::try_from(size) else {
            bail!(Argument, "[unique] the size is {size}; accepted: 0 and more");
        };
        let n = self.size();
        if n == 0 && room > 0 && fill.is_none() {
            bail!(Argument, "[unique] an array without elements needs a fill value for size {size}");
        }
        let flat = self.ravel()?;
        if n == 0 {
            let fill = fill.unwrap_or(Operand::Scalar(0.into())).cast_value(self.dtype())?;
            return Ok(Unique {
                values: fill.broadcast_to([room])?,
                index: zeros([room], Dtype::U32)?,
                inverse: zeros(self.shape(), Dtype::U32)?,
                counts: zeros([room], Dtype::I32)?,
            });
        }
        let order = flat.argsort(Some(0))?;
        let sorted = flat.take(&order, Some(0))?;
        let news = sorted.slice_axis(0, 1, n)?.not_equal(sorted.slice_axis(0, 0, n - 1)?)?;
        let first = concatenate(&[ones([1], Dtype::Bool)?, news], 0)?;
        let rank = first.astype(Dtype::I64)?.cumsum(Some(0), false, true)?.subtract(1)?;
        // Only the first of equals is written: the others are sent out of range, where writes are dropped.
        let place = first.where_(&rank, size)?;
        let least = |x: &Array| x.slice_axis(0, 0, 1)?.reshape_to([]);
        let fill = match fill {
            Some(f) => f.cast_value(self.dtype())?,
            None => least(&sorted)?,
        };
        let put = |to: Array, at: &Array, how: Combine, what: &Array| {
            to.scatter(std::slice::from_ref(at), &[0], how, &what.reshape_to([n, 1])?)
        };
        let one = ones([n], Dtype::I32)?;
        let seen = rank.minimum(size.saturating_sub(1).max(0))?.astype(Dtype::U32)?;
        let inverse = put(zeros([n], Dtype::U32)?, &order, Combine::Set, &seen)?;
        Ok(Unique {
            values: put(full([room], fill, None)?, &place, Combine::Set, &sorted)?,
            index: put(full([room], least(&order)?, None)?, &place, Combine::Set, &order)?,
            inverse: inverse.reshape_to(self.shape())?,
            counts: put(zeros([room], Dtype::I32)?, &rank, Combine::Add, &one)?,
        })
    }
}

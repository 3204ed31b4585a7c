//! Order: sorting, selecting the largest, searching.

use super::{common_dtype, node};
use crate::array::Array;
use crate::error::Result;
use crate::op::Op;
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
        let shape = x.shape().clone();
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

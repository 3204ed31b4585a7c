//! Reductions, softmax and running reductions.

use super::{Axes, node};
use crate::array::Array;
use crate::error::Result;
use crate::op::{ArgKind, Op, ReduceKind, ScanKind};
use crate::shape::{Dims, Shape, axis};
use crate::{Dtype, bail};
use smallvec::smallvec;

macro_rules! reductions {
    ($($(#[$doc:meta])* $f:ident $kind:ident),* $(,)?) => {
        impl Array { $(
            $(#[$doc])*
            pub fn $f(&self, axes: impl Into<Axes>, keepdims: bool) -> Result<Array> {
                self.reduce(ReduceKind::$kind, &axes.into(), keepdims)
            }
        )* }
    };
}
reductions! {
    /// Sum over axes, pairwise or wider, so that small terms are not lost.
    ///
    /// # Dtypes
    /// bool, int8 and int16 give int32, uint8 and uint16 uint32; others keep theirs.
    sum Sum,
    /// Product over axes; dtypes as for [`Array::sum`].
    prod Prod,
    /// Smallest element over axes; NaN wins. An empty axis is an error.
    min Min,
    /// Largest element over axes; NaN wins. An empty axis is an error.
    max Max,
    /// True where an element over axes is not zero.
    any Any,
    /// True where no element over axes is zero.
    all All,
    /// `log(sum(exp(x)))` over axes without overflow.
    logsumexp LogSumExp,
}

macro_rules! scans {
    ($($(#[$doc:meta])* $f:ident $kind:ident),* $(,)?) => {
        impl Array { $(
            $(#[$doc])*
            /// Without an axis the array is flattened. `reverse` runs from the end; without
            /// `inclusive` an element's own value is left out.
            pub fn $f(&self, axis: Option<i64>, reverse: bool, inclusive: bool) -> Result<Array> {
                self.scan(ScanKind::$kind, axis, reverse, inclusive)
            }
        )* }
    };
}
scans! {
    /// Running sum along an axis. Only bool widens, to int32.
    cumsum Sum,
    /// Running product along an axis.
    cumprod Prod,
    /// Running minimum along an axis.
    cummin Min,
    /// Running maximum along an axis.
    cummax Max,
    /// Running `log(sum(exp(x)))` along an axis.
    logcumsumexp LogAddExp,
}

impl Array {
    fn reduce(&self, kind: ReduceKind, axes: &Axes, keepdims: bool) -> Result<Array> {
        let (name, shape) = (kind.name(), &self.aval().shape);
        let axes = axes.resolve(self.ndim(), name)?;
        let dtype = kind.dtype(self.dtype());
        if !kind.has_identity() && axes.iter().any(|&a| shape[a] == 0)
            || kind == ReduceKind::LogSumExp && shape.elems() == 0
        {
            bail!(Shape, "[{name}] axes {axes:?} of {:?} have no elements to reduce", shape);
        }
        if axes.is_empty() {
            // No axes are no reduction: sums and products do not widen.
            let kept = matches!(kind, ReduceKind::Sum | ReduceKind::Prod);
            return if kept { Ok(self.clone()) } else { self.astype(dtype) };
        }
        let x = if kind == ReduceKind::LogSumExp { self.astype(dtype)? } else { self.clone() };
        let kept: Shape = (0..self.ndim()).filter(|i| !axes.contains(i)).map(|i| shape[i]).collect();
        let op = Op::Reduce(kind, axes.iter().map(|&a| a as u8).collect());
        let out = node(op, smallvec![x], smallvec![], kept, dtype)?;
        if keepdims { out.expand_dims(&wide(&axes)) } else { Ok(out) }
    }

    /// How many elements one result of a reduction takes in.
    fn count(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&a| self.shape()[a]).product()
    }

    /// The dtype in which means are taken: float32 for half precision, float64 for integers.
    fn mean_dtype(&self) -> Dtype {
        match self.dtype() {
            Dtype::F16 | Dtype::BF16 => Dtype::F32,
            d if d.is_inexact() => d,
            _ => Dtype::F64,
        }
    }

    /// Mean over axes; NaN over no elements.
    ///
    /// # Dtypes
    /// Integers give float32.
    ///
    /// # Accuracy
    /// Half precision is summed in float32 and integers in float64, then rounded once.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::{Array, api::Axes};
    /// let x = Array::from_slice(&[i32::MAX, i32::MAX], [2])?;
    /// assert_eq!(x.mean(Axes::ALL, false)?.item::<f32>()?, i32::MAX as f32);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn mean(&self, axes: impl Into<Axes>, keepdims: bool) -> Result<Array> {
        let axes = axes.into();
        let n = self.count(&axes.resolve(self.ndim(), "mean")?);
        let sum = self.astype(self.mean_dtype())?.sum(axes, keepdims)?;
        sum.divide(n as f64)?.astype(self.dtype().to_inexact())
    }

    /// Mean squared distance from the mean over axes, with `n - ddof` as divisor, in two passes.
    ///
    /// # Dtypes
    /// Integers and complex numbers give float32.
    pub fn var(&self, axes: impl Into<Axes>, keepdims: bool, ddof: i64) -> Result<Array> {
        let out = if self.dtype() == Dtype::C64 { Dtype::F32 } else { self.dtype().to_inexact() };
        self.wide_var(axes.into(), keepdims, ddof)?.astype(out)
    }

    fn wide_var(&self, axes: Axes, keepdims: bool, ddof: i64) -> Result<Array> {
        let n = self.count(&axes.resolve(self.ndim(), "var")?);
        let x = self.astype(self.mean_dtype())?;
        let far = x.subtract(x.mean(axes.clone(), true)?)?;
        let sum = if far.dtype() == Dtype::C64 { far.abs()? } else { far }.square()?.sum(axes, keepdims)?;
        sum.divide((n as f64 - ddof as f64).max(0.0))
    }

    /// Square root of [`Array::var`].
    pub fn std(&self, axes: impl Into<Axes>, keepdims: bool, ddof: i64) -> Result<Array> {
        let out = if self.dtype() == Dtype::C64 { Dtype::F32 } else { self.dtype().to_inexact() };
        self.wide_var(axes.into(), keepdims, ddof)?.sqrt()?.astype(out)
    }

    /// Middle element over axes, the mean of two for an even count; NaN when one is.
    ///
    /// # Errors
    /// `Shape` over no elements.
    pub fn median(&self, axes: impl Into<Axes>, keepdims: bool) -> Result<Array> {
        let axes = axes.into().resolve(self.ndim(), "median")?;
        let n = self.count(&axes);
        if n == 0 {
            bail!(Shape, "[median] axes {axes:?} of {:?} have no elements", self.shape());
        }
        let out = self.dtype().to_inexact();
        let x = self.lines(&axes)?.sort(Some(-1))?;
        let last = x.ndim() - 1;
        let at = |i: usize| x.slice_axis(last, i, i + 1)?.squeeze(Some(&[-1]));
        let (a, b) = (at((n - 1) / 2)?, at(n / 2)?);
        let work = self.mean_dtype();
        let mid =
            if n % 2 == 1 { a.astype(work)? } else { a.astype(work)?.add(b.astype(work)?)?.multiply(0.5)? };
        let mut mid = mid.astype(out)?;
        if self.dtype().is_inexact() {
            let top = at(n - 1)?.astype(out)?;
            mid = top.isnan()?.where_(&top, &mid)?;
        }
        if keepdims { mid.expand_dims(&wide(&axes)) } else { Ok(mid) }
    }

    /// The array with these axes merged into one last axis.
    pub(crate) fn lines(&self, axes: &[usize]) -> Result<Array> {
        let mut perm: Dims<usize> = (0..self.ndim()).filter(|i| !axes.contains(i)).collect();
        let mut shape: Shape = perm.iter().map(|&i| self.shape()[i]).collect();
        perm.extend(axes.iter().copied());
        shape.push(self.count(axes));
        self.permute(&perm)?.reshape_to(shape)
    }

    /// How many elements over axes are not zero, int32.
    pub fn count_nonzero(&self, axes: impl Into<Axes>, keepdims: bool) -> Result<Array> {
        self.astype(Dtype::Bool)?.astype(Dtype::I32)?.sum(axes, keepdims)
    }

    /// Smallest and largest element over axes.
    pub fn minmax(&self, axes: impl Into<Axes>, keepdims: bool) -> Result<(Array, Array)> {
        let axes = axes.into();
        Ok((self.min(axes.clone(), keepdims)?, self.max(axes, keepdims)?))
    }

    /// Index (uint32) of the largest element along an axis, or of the flattened array: the first of
    /// equals, NaN winning.
    ///
    /// # Errors
    /// `Shape` for an array without elements.
    pub fn argmax(&self, axis: Option<i64>, keepdims: bool) -> Result<Array> {
        self.arg_reduce(ArgKind::Max, axis, keepdims)
    }

    /// Index (uint32) of the smallest element; see [`Array::argmax`].
    pub fn argmin(&self, axis: Option<i64>, keepdims: bool) -> Result<Array> {
        self.arg_reduce(ArgKind::Min, axis, keepdims)
    }

    fn arg_reduce(&self, kind: ArgKind, at: Option<i64>, keepdims: bool) -> Result<Array> {
        if self.aval().shape.elems() == 0 {
            bail!(Shape, "[{}] shape {:?} has no elements", kind.name(), self.shape());
        }
        let (x, a) = match at {
            Some(at) => (self.clone(), axis(at, self.ndim(), kind.name())?),
            None => (self.ravel()?, 0),
        };
        let mut shape = x.aval().shape.clone();
        shape.remove(a);
        let out = node(Op::ArgReduce(kind, a as u8), smallvec![x], smallvec![], shape, Dtype::U32)?;
        match (keepdims, at) {
            (false, _) => Ok(out),
            (true, Some(_)) => out.expand_dims(&[a as i64]),
            (true, None) => out.reshape_to((0..self.ndim()).map(|_| 1).collect::<Shape>()),
        }
    }

    /// `exp(x - max) / sum(exp(x - max))` over axes.
    ///
    /// # Accuracy
    /// Sums are taken in float32 or wider, whatever the dtype and the axis.
    pub fn softmax(&self, axes: impl Into<Axes>) -> Result<Array> {
        let axes = axes.into().resolve(self.ndim(), "softmax")?;
        let x = self.astype(self.dtype().to_inexact())?;
        if x.dtype() == Dtype::C64 {
            let over = wide(&axes);
            let e = x.subtract(x.max(&over[..], true)?)?.exp()?;
            return e.divide(e.sum(&over[..], true)?);
        }
        if axes.is_empty() {
            return x.expand_dims(&[-1])?.softmax(-1)?.squeeze(Some(&[-1]));
        }
        let nd = self.ndim();
        if axes[..] == [nd - 1] {
            let shape = x.aval().shape.clone();
            return node(Op::Softmax, smallvec![x.clone()], smallvec![], shape, x.dtype());
        }
        let mut perm: Dims<usize> = (0..nd).filter(|i| !axes.contains(i)).collect();
        perm.extend(axes.iter().copied());
        let moved = x.permute(&perm)?;
        let flat = x.lines(&axes)?;
        let out = node(Op::Softmax, smallvec![flat.clone()], smallvec![], flat.shape().clone(), x.dtype())?;
        let mut back: Dims<usize> = smallvec![0; nd];
        perm.iter().enumerate().for_each(|(i, &p)| back[p] = i);
        out.reshape_to(moved.shape())?.permute(&back)
    }

    fn scan(&self, kind: ScanKind, at: Option<i64>, reverse: bool, inclusive: bool) -> Result<Array> {
        let x = if at.is_none() { self.ravel()? } else { self.clone() };
        let a = axis(at.unwrap_or(0), x.ndim(), kind.name())?;
        let dtype = match (kind, x.dtype()) {
            (ScanKind::Sum, Dtype::Bool) => Dtype::I32,
            (ScanKind::LogAddExp, Dtype::C64) => {
                let top = x.real()?.max(a as i64, true)?;
                let sums =
                    x.subtract(&top)?.exp()?.scan(ScanKind::Sum, Some(a as i64), reverse, inclusive)?;
                return sums.log()?.add(&top);
            }
            (ScanKind::LogAddExp, d) => d.to_inexact(),
            (_, d) => d,
        };
        let x = x.astype(dtype)?;
        let shape = x.aval().shape.clone();
        node(Op::Scan(kind, a as u8, reverse, inclusive), smallvec![x], smallvec![], shape, dtype)
    }
}

fn wide(axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&a| a as i64).collect()
}

//! Reductions and running reductions.

use super::add;
use super::creation::tuple;
use crate::array::{PyArray, wrap};
use crate::convert::{Arr, Axes, Int};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::OrRaise;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

macro_rules! reductions {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => {
        $(
            #[doc = concat!(
                $doc, "\n\nAxes are dropped, or kept at extent 1 with ``keepdims``; all of them without ``axis``. Sums and products of small\n\
integers widen to 32 bits, means give float32. Raises IndexError for an axis out of range, ValueError for one given\n\
twice or over no elements where there is no answer.\n\n>>> ", $example, "\n", $result
            )]
            #[pyfunction]
            #[pyo3(signature = (a, /, axis = None, keepdims = false, *, stream = None))]
            fn $f(a: Arr, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
                let _ = stream;
                wrap(a.0.$f(axis.unwrap_or_default().get(), keepdims))
            }
        )*
        fn register_reductions(m: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(m: $($f)*);
            Ok(())
        }
    };
}
reductions! {
    all "True where no element over axes is zero." "mx.all(mx.array([[0, 1], [2, 3]]), axis=1)" "array([False, True], dtype=bool)";
    any "True where an element over axes is not zero." "mx.any(mx.array([[0, 1], [0, 0]]), axis=1)" "array([True, False], dtype=bool)";
    logsumexp "log(sum(exp(x))) over axes without overflow." "mx.logsumexp(mx.array([0.0, 1000.0]))" "array(1000, dtype=float32)";
    max "Largest element over axes; NaN wins." "mx.max(mx.array([[1, 5], [3, 2]]), axis=0)" "array([3, 5], dtype=int32)";
    mean "Mean over axes." "mx.mean(mx.array([[1, 2], [3, 4]]), axis=1, keepdims=True)" "array([[1.5],\n       [3.5]], dtype=float32)";
    median "Median over axes." "mx.median(mx.array([3, 1, 2, 10]))" "array(2.5, dtype=float32)";
    min "Smallest element over axes; NaN wins." "mx.min(mx.array([[1, 5], [3, 2]]), axis=0)" "array([1, 2], dtype=int32)";
    prod "Product over axes." "mx.prod(mx.array([2, 3, 4]))" "array(24, dtype=int32)";
    sum "Sum over axes." "mx.sum(mx.array([[1, 2], [3, 4]]), axis=0)" "array([4, 6], dtype=int32)";
}

macro_rules! moments {
    ($($f:ident $method:ident $name:literal $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nDivides by n - ddof; ``correction`` is another name of ``ddof``. Integers give float32. Axes as in mx.sum.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, /, axis = None, keepdims = false, ddof = Int(0), *, correction = None, stream = None))]
        #[pyo3(name = $name)]
        fn $f(
            a: Arr,
            axis: Option<Axes>,
            keepdims: bool,
            ddof: Int,
            correction: Option<Int>,
            stream: Stream,
        ) -> Result1 {
            let _ = stream;
            wrap(a.0.$method(axis.unwrap_or_default().get(), keepdims, correction.unwrap_or(ddof).0))
        }
    )* };
}
moments! {
    variance var "var" "Variance over axes." "mx.var(mx.array([1.0, 3.0]), ddof=1)" "array(2, dtype=float32)";
    deviation std "std" "Standard deviation over axes." "mx.std(mx.array([1.0, 3.0]))" "array(1, dtype=float32)";
}

/// Number of elements over axes that are not zero.
///
/// Axes are dropped, or kept with ``keepdims``. Dtype: int32.
///
/// >>> mx.count_nonzero(mx.array([[0, 1], [2, 3]]), axis=0)
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis = None, keepdims = false, *, stream = None))]
fn count_nonzero(a: Arr, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.count_nonzero(axis.unwrap_or_default().get(), keepdims))
}

/// Smallest and largest element over axes.
///
/// A tuple. Raises ValueError over no elements.
///
/// >>> mx.minmax(mx.array([3, 1, 2]))
/// (array(1, dtype=int32), array(3, dtype=int32))
#[pyfunction]
#[pyo3(signature = (a, /, axis = None, keepdims = false, *, stream = None))]
fn minmax<'py>(
    py: Python<'py>,
    a: Arr,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Stream,
) -> PyResult<Bound<'py, PyTuple>> {
    let _ = stream;
    let (lo, hi) = a.0.minmax(axis.unwrap_or_default().get(), keepdims).or_raise()?;
    tuple(py, vec![lo, hi])
}

macro_rules! arguments {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nWorks on the flattened array without an axis. Dtype: uint32. Raises ValueError over no elements.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, /, axis = None, keepdims = false, *, stream = None))]
        fn $f(a: Arr, axis: Option<Int>, keepdims: bool, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(a.0.$f(axis.map(|a| a.0), keepdims))
        }
    )* };
}
arguments! {
    argmax "Index of the largest element along an axis, the first of equals." "mx.argmax(mx.array([1, 9, 9]))" "array(1, dtype=uint32)";
    argmin "Index of the smallest element along an axis, the first of equals." "mx.argmin(mx.array([[3, 1], [0, 2]]), axis=1)" "array([1, 0], dtype=uint32)";
}

macro_rules! scans {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nFrom the end with ``reverse``; without the element itself unless ``inclusive``. Shape: a's, or (size,) without an axis.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, /, axis = None, *, reverse = false, inclusive = true, dtype = None, stream = None))]
        fn $f(
            a: Arr,
            axis: Option<Int>,
            reverse: bool,
            inclusive: bool,
            dtype: Option<DtypeArg>,
            stream: Stream,
        ) -> Result1 {
            let _ = stream;
            let a = match dtype {
                Some(d) => a.0.astype(d.0).or_raise()?,
                None => a.0,
            };
            wrap(a.$f(axis.map(|a| a.0), reverse, inclusive))
        }
    )* };
}
scans! {
    cummax "Running maximum along an axis; flattened without one." "mx.cummax(mx.array([1, 3, 2]))" "array([1, 3, 3], dtype=int32)";
    cummin "Running minimum along an axis; flattened without one." "mx.cummin(mx.array([3, 1, 2]))" "array([3, 1, 1], dtype=int32)";
    cumprod "Running product along an axis; flattened without one." "mx.cumprod(mx.array([1, 2, 3]), reverse=True)" "array([6, 6, 3], dtype=int32)";
    cumsum "Running sum along an axis; flattened without one." "mx.cumsum(mx.array([1, 2, 3]), inclusive=False)" "array([0, 1, 3], dtype=int32)";
    logcumsumexp "Running log(sum(exp(x))) along an axis; flattened without one." "mx.logcumsumexp(mx.array([0.0, 0.0]))" "array([0, 0.693147], dtype=float32)";
}

/// exp(x) / sum(exp(x)) over axes, over all without any.
///
/// Shape: a's. Dtype: float32 for integers and bool, else a's. Sums in float32 at least, ``precise`` or not.
///
/// >>> mx.softmax(mx.array([0.0, 1.0]))
/// array([0.268941, 0.731059], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, axis = None, *, precise = false, stream = None))]
fn softmax(a: Arr, axis: Option<Axes>, precise: bool, stream: Stream) -> Result1 {
    let _ = (stream, precise);
    wrap(a.0.softmax(axis.unwrap_or_default().get()))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_reductions(m)?;
    add!(m: variance deviation count_nonzero minmax argmax argmin cummax cummin cumprod cumsum logcumsumexp softmax);
    Ok(())
}

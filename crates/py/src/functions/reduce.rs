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
    ($($f:ident $doc:literal;)*) => {
        $(
            #[doc = $doc]
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
    all "True where no element over axes is zero.";
    any "True where an element over axes is not zero.";
    logsumexp "log(sum(exp(x))) over axes without overflow.";
    max "Largest element over axes; NaN wins.";
    mean "Mean over axes.";
    median "Median over axes.";
    min "Smallest element over axes; NaN wins.";
    prod "Product over axes.";
    sum "Sum over axes.";
}

macro_rules! moments {
    ($($f:ident $method:ident $name:literal $doc:literal;)*) => { $(
        #[doc = $doc]
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
    variance var "var" "Variance over axes.";
    deviation std "std" "Standard deviation over axes.";
}

/// Number of elements over axes that are not zero.
#[pyfunction]
#[pyo3(signature = (a, /, *, axis = None, keepdims = false, stream = None))]
fn count_nonzero(a: Arr, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.count_nonzero(axis.unwrap_or_default().get(), keepdims))
}

/// Smallest and largest element over axes.
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
    ($($f:ident $doc:literal;)*) => { $(
        #[doc = $doc]
        #[pyfunction]
        #[pyo3(signature = (a, /, axis = None, keepdims = false, *, stream = None))]
        fn $f(a: Arr, axis: Option<Int>, keepdims: bool, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(a.0.$f(axis.map(|a| a.0), keepdims))
        }
    )* };
}
arguments! {
    argmax "Index of the largest element along an axis, the first of equals.";
    argmin "Index of the smallest element along an axis, the first of equals.";
}

macro_rules! scans {
    ($($f:ident $doc:literal;)*) => { $(
        #[doc = $doc]
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
    cummax "Running maximum along an axis; flattened without one.";
    cummin "Running minimum along an axis; flattened without one.";
    cumprod "Running product along an axis; flattened without one.";
    cumsum "Running sum along an axis; flattened without one.";
    logcumsumexp "Running log(sum(exp(x))) along an axis; flattened without one.";
}

/// exp(x) / sum(exp(x)) over axes, over all without any.
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

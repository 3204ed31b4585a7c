//! Creation.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Int, Num, Opd, ShapeArg};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::{OrRaise, type_error, value_error};
use isopace_core::api::{self, Indexing};
use isopace_core::{Array, Dtype, Number, Scalar};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyTuple};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

const F32: DtypeArg = DtypeArg(Dtype::F32);

/// Zeros.
///
/// Raises ValueError for a negative extent, OverflowError for one of 2**31 or more.
///
/// >>> mx.zeros((2, 2))
/// array([[0, 0],
///        [0, 0]], dtype=float32)
/// >>> mx.zeros(3, mx.int32)
/// array([0, 0, 0], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype = Some(F32), *, stream = None))]
fn zeros(shape: ShapeArg, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::zeros(shape.0, dtype.unwrap_or(F32).0))
}

/// Ones.
///
/// Raises as zeros does.
///
/// >>> mx.ones((2, 2), mx.int32)
/// array([[1, 1],
///        [1, 1]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (shape, dtype = Some(F32), *, stream = None))]
fn ones(shape: ShapeArg, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::ones(shape.0, dtype.unwrap_or(F32).0))
}

/// An array whose elements may be anything; here zeros.
///
/// Raises as zeros does.
///
/// >>> mx.empty((2, 3)).shape
/// (2, 3)
#[pyfunction]
#[pyo3(signature = (shape, dtype = Some(F32), *, stream = None))]
fn empty(shape: ShapeArg, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    zeros(shape, dtype, stream)
}

/// A value in a shape.
///
/// The value broadcasts to the shape; its dtype is kept unless one is given. Raises ValueError for an int that the dtype cannot hold.
///
/// >>> mx.full((2, 2), 7)
/// array([[7, 7],
///        [7, 7]], dtype=int32)
/// >>> mx.full((2, 2), mx.array([1.5, 2.5]))
/// array([[1.5, 2.5],
///        [1.5, 2.5]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape, vals, dtype = None, *, stream = None))]
fn full(shape: ShapeArg, vals: Opd, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::full(shape.0, vals.0, dtype.map(|d| d.0)))
}

/// Zeros in an array's shape and dtype.
///
/// >>> mx.zeros_like(mx.array([[1, 2]]))
/// array([[0, 0]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype = None, *, stream = None))]
fn zeros_like(a: Arr, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::zeros(a.0.shape(), dtype.map_or(a.0.dtype(), |d| d.0)))
}

/// Ones in an array's shape and dtype.
///
/// >>> mx.ones_like(mx.array([[1.5, 2.5]]))
/// array([[1, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype = None, *, stream = None))]
fn ones_like(a: Arr, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::ones(a.0.shape(), dtype.map_or(a.0.dtype(), |d| d.0)))
}

/// An array in another's shape and dtype whose elements may be anything; here zeros.
///
/// >>> mx.empty_like(mx.array([[1, 2]])).shape
/// (1, 2)
#[pyfunction]
#[pyo3(signature = (a, /, dtype = None, *, stream = None))]
fn empty_like(a: Arr, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    zeros_like(a, dtype, stream)
}

/// A value in an array's shape; its dtype too when none is given.
///
/// >>> mx.full_like(mx.array([1.5, 2.5]), 3)
/// array([3, 3], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, vals, dtype = None, *, stream = None))]
fn full_like(a: Arr, vals: Opd, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.full_like(vals.0, dtype.map(|d| d.0)))
}

/// `arange(stop)`, `arange(start, stop)`, `arange(start, stop, step)`: numbers from start to below stop.
///
/// Shape: (n,). Dtype: int32 for ints (int64 where needed), float32 for floats. Raises ValueError for a step of 0 or a bool.
///
/// >>> mx.arange(3)
/// array([0, 1, 2], dtype=int32)
/// >>> mx.arange(1, 2, 0.25)
/// array([1, 1.25, 1.5, 1.75], dtype=float32)
#[pyfunction]
#[pyo3(signature = (*args, start = None, stop = None, step = None, dtype = None, stream = None))]
fn arange(
    args: &Bound<'_, PyTuple>,
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    step: Option<&Bound<'_, PyAny>>,
    dtype: Option<DtypeArg>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let mut numbers = Vec::new();
    let mut kind = dtype.map(|d| d.0);
    for x in args.iter() {
        if let Ok(d) = x.extract::<DtypeArg>() {
            kind = Some(d.0);
        } else if x.is_none() {
            numbers.push(None);
        } else {
            numbers.push(Some(number(&x)?));
        }
    }
    let named = |x: Option<&Bound<'_, PyAny>>| match x {
        Some(x) if !x.is_none() => number(x).map(Some),
        _ => Ok(None),
    };
    let (start, stop, step) = (named(start)?, named(stop)?, named(step)?);
    let mut given = numbers.into_iter();
    let (from, to, by) = match (args.len().min(3), &start, &stop) {
        (0, _, _) => (start, stop, step),
        (1, Some(_), None) => (start, given.next().flatten(), step),
        (1, _, Some(_)) => (given.next().flatten(), stop, step),
        (1, None, None) => (None, given.next().flatten(), step),
        _ => {
            let (a, b, c) = (given.next().flatten(), given.next().flatten(), given.next().flatten());
            if b.is_none() && stop.is_none() { (None, a, c.or(step)) } else { (a, b.or(stop), c.or(step)) }
        }
    };
    let Some(to) = to else { return Err(type_error("[arange] a stop is needed")) };
    let (from, by) = (from.unwrap_or(Scalar::from(0)), by.unwrap_or(Scalar::from(1)));
    wrap(api::arange(from, to, by, kind))
}

fn number(x: &Bound<'_, PyAny>) -> PyResult<Scalar> {
    if x.is_instance_of::<PyBool>() {
        return Err(value_error("[arange] a bool is not a bound; accepted: int and float"));
    }
    x.extract::<Num>().map(|n| n.0)
}

/// Evenly spaced numbers from start to stop.
///
/// Shape: (num,). The stop is left out with ``endpoint=False``. Raises ValueError for a negative num.
///
/// >>> mx.linspace(0, 1, 5)
/// array([0, 0.25, 0.5, 0.75, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (start, stop, num = Some(Int(50)), endpoint = true, dtype = Some(F32), stream = None))]
fn linspace(
    start: Num,
    stop: Num,
    num: Option<Int>,
    endpoint: bool,
    dtype: Option<DtypeArg>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let n = num.unwrap_or(Int(50)).0;
    let n = usize::try_from(n)
        .map_err(|_| value_error(format!("[linspace] {n} numbers; accepted: 0 and more")))?;
    wrap(api::linspace(start.0, stop.0, n, endpoint, dtype.unwrap_or(F32).0))
}

fn extent(n: i64, place: &str) -> PyResult<usize> {
    usize::try_from(n).map_err(|_| value_error(format!("[{place}] extent {n} is negative")))
}

/// Ones on a diagonal, zeros elsewhere.
///
/// Shape: (n, m). Diagonal k is above the main one for k > 0. Raises ValueError for a negative extent.
///
/// >>> mx.eye(2, 3, k=1)
/// array([[0, 1, 0],
///        [0, 0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m = None, k = Int(0), dtype = Some(F32), *, stream = None))]
fn eye(n: Int, m: Option<Int>, k: Int, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    let (n, m) = (extent(n.0, "eye")?, extent(m.unwrap_or(n).0, "eye")?);
    wrap(api::eye(n, m, k.0, dtype.unwrap_or(F32).0))
}

/// The identity matrix.
///
/// Shape: (n, n).
///
/// >>> mx.identity(2, mx.int32)
/// array([[1, 0],
///        [0, 1]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (n, dtype = Some(F32), *, stream = None))]
fn identity(n: Int, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::identity(extent(n.0, "identity")?, dtype.unwrap_or(F32).0))
}

/// Ones at and below a diagonal.
///
/// Shape: (n, m). Diagonal k is above the main one for k > 0.
///
/// >>> mx.tri(3, k=-1)
/// array([[0, 0, 0],
///        [1, 0, 0],
///        [1, 1, 0]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (n, m = None, k = Int(0), dtype = None, *, stream = None))]
fn tri(n: Int, m: Option<Int>, k: Int, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    let (n, m) = (extent(n.0, "tri")?, extent(m.unwrap_or(n).0, "tri")?);
    wrap(api::tri(n, m, k.0, dtype.unwrap_or(F32).0))
}

/// Elements above a diagonal set to zero.
///
/// Works on the last two axes. Raises ValueError for fewer than two.
///
/// >>> mx.tril(mx.ones((2, 2)))
/// array([[1, 0],
///        [1, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, k = Int(0), *, stream = None))]
fn tril(x: Arr, k: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(x.0.tril(k.0))
}

/// Elements below a diagonal set to zero.
///
/// Works on the last two axes. Raises ValueError for fewer than two.
///
/// >>> mx.triu(mx.ones((2, 2)))
/// array([[1, 1],
///        [0, 1]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, k = Int(0), *, stream = None))]
fn triu(x: Arr, k: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(x.0.triu(k.0))
}

/// A diagonal, or a matrix with this vector on its diagonal.
///
/// Raises ValueError unless a has one or two axes.
///
/// >>> mx.diag(mx.array([1, 2]))
/// array([[1, 0],
///        [0, 2]], dtype=int32)
/// >>> mx.diag(mx.array([[1, 2], [3, 4]]))
/// array([1, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, k = Int(0), *, stream = None))]
fn diag(a: Arr, k: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.diag(k.0))
}

/// The diagonal of two axes, as the last axis.
///
/// Shares no memory that can be written. Raises ValueError for equal axes.
///
/// >>> mx.diagonal(mx.array([[1, 2], [3, 4]]), 1)
/// array([2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, offset = Int(0), axis1 = Int(0), axis2 = Int(1), stream = None))]
fn diagonal(a: Arr, offset: Int, axis1: Int, axis2: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.diagonal(offset.0, axis1.0, axis2.0))
}

/// Sum over the diagonal of two axes.
///
/// Sums as sum does: small integers widen.
///
/// >>> mx.trace(mx.array([[1, 2], [3, 4]]))
/// array(5, dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, offset = Int(0), axis1 = Int(0), axis2 = Int(1), dtype = None, *, stream = None))]
fn trace(a: Arr, offset: Int, axis1: Int, axis2: Int, dtype: Option<DtypeArg>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.trace(offset.0, axis1.0, axis2.0, dtype.map(|d| d.0)))
}

/// Coordinate arrays from coordinate vectors.
///
/// A tuple of arrays. ``sparse`` leaves extents of 1; ``indexing="ij"`` keeps the order of the axes.
///
/// >>> mx.meshgrid(mx.array([1, 2]), mx.array([3, 4]))[0]
/// array([[1, 2],
///        [1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (*arrays, sparse = false, indexing = "xy", stream = None))]
fn meshgrid<'py>(
    arrays: &Bound<'py, PyTuple>,
    sparse: bool,
    indexing: &str,
    stream: Stream,
) -> PyResult<Bound<'py, PyTuple>> {
    let _ = stream;
    let order = match indexing {
        "xy" => Indexing::Xy,
        "ij" => Indexing::Ij,
        other => return Err(value_error(format!("[meshgrid] indexing {other:?}; accepted: \"xy\", \"ij\""))),
    };
    let list = arrays.iter().map(|a| a.extract::<Arr>().map(|a| a.0)).collect::<PyResult<Vec<Array>>>()?;
    tuple(arrays.py(), api::meshgrid(&list, sparse, order).or_raise()?)
}

pub(super) fn tuple<'py>(py: Python<'py>, arrays: Vec<Array>) -> PyResult<Bound<'py, PyTuple>> {
    let items = arrays.into_iter().map(|a| Py::new(py, PyArray::new(a))).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(py, items)
}

macro_rules! windows {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nShape: (M,). Dtype: float32. Empty for M < 1.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (M, *, stream = None))]
        #[allow(non_snake_case)]
        fn $f(M: Int, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(api::$f(usize::try_from(M.0).unwrap_or(0)))
        }
    )* };
}
windows! {
    hanning "The Hann window." "mx.hanning(4)" "array([0, 0.75, 0.75, 0], dtype=float32)";
    hamming "The Hamming window." "mx.hamming(4)" "array([0.08, 0.77, 0.77, 0.08], dtype=float32)";
    blackman "The Blackman window." "mx.blackman(4)" "array([-1.38778e-17, 0.63, 0.63, -1.38778e-17], dtype=float32)";
    bartlett "The Bartlett window." "mx.bartlett(4)" "array([0, 0.666667, 0.666667, 0], dtype=float32)";
}

/// An array from anything; `copy=False` is refused where a copy is needed.
///
/// Shape and dtype as array() gives them. Raises ValueError.
///
/// >>> mx.asarray([1, 2.5])
/// array([1, 2.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, dtype = None, *, copy = None))]
fn asarray(a: &Bound<'_, PyAny>, dtype: Option<DtypeArg>, copy: Option<bool>) -> Result1 {
    let is_array = a.cast::<PyArray>().is_ok();
    let made = convert::construct(a, dtype.map(|d| d.0))?;
    if copy == Some(false) && !is_array {
        return Err(value_error("[asarray] a copy is needed; accepted: copy=None or True"));
    }
    Ok(made.into())
}

/// An array from an object with DLPack.
///
/// Dtype: the object's, but float32 for float64, as in ``mx.array``. Raises TypeError for an object without DLPack,
/// BufferError for one on another device.
///
/// >>> mx.from_dlpack(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (x, /, *, copy = None))]
fn from_dlpack(x: &Bound<'_, PyAny>, copy: Option<bool>) -> Result1 {
    if copy == Some(false) {
        return Err(value_error("[from_dlpack] a copy is needed; accepted: copy=None or True"));
    }
    let a = if let Ok(a) = x.cast::<PyArray>() {
        a.get().array(x.py())
    } else if x.hasattr("__dlpack__")? {
        crate::buffer::from_capsule(&x.call_method0("__dlpack__")?)?
    } else {
        return Err(type_error(format!("[from_dlpack] {} has no __dlpack__", x.get_type())));
    };
    wrap(if a.dtype() == Dtype::F64 { a.astype(Dtype::F32) } else { Ok(a) })
}

/// The dtype that arrays and dtypes give together.
///
/// Numbers are weak. Raises ValueError without arguments.
///
/// >>> mx.result_type(mx.int8, mx.array([1.0], mx.float16))
/// mlx.core.float16
#[pyfunction]
#[pyo3(signature = (*arrays_and_dtypes))]
fn result_type(
    py: Python<'_>,
    arrays_and_dtypes: &Bound<'_, PyTuple>,
) -> PyResult<Py<crate::dtype::PyDtype>> {
    let mut out: Option<Dtype> = None;
    let mut weak: Vec<Scalar> = Vec::new();
    for x in arrays_and_dtypes.iter() {
        let d = if let Ok(d) = x.extract::<DtypeArg>() {
            d.0
        } else if let Ok(a) = x.extract::<Arr>() {
            a.0.dtype()
        } else {
            weak.push(
                x.extract::<Num>().map_err(|_| value_error("[result_type] accepted: arrays and dtypes"))?.0,
            );
            continue;
        };
        out = Some(out.map_or(d, |o| o.promote(d)));
    }
    for s in weak {
        let own = s.number().or_raise()?.map_or(Dtype::F32, Number::dtype);
        out = Some(match out {
            Some(d) if own == Dtype::Bool || (own == Dtype::I32 && d != Dtype::Bool) => d,
            Some(d) if own == Dtype::F32 => d.to_inexact(),
            Some(d) => d.promote(own),
            None => own,
        });
    }
    let out = out.ok_or_else(|| value_error("[result_type] needs at least one array or dtype"))?;
    crate::dtype::object(py, out)
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: zeros ones empty full zeros_like ones_like empty_like full_like arange linspace eye identity tri);
    add!(m: tril triu diag diagonal trace meshgrid hanning hamming blackman bartlett asarray from_dlpack);
    add!(m: result_type);
    Ok(())
}

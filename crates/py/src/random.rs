//! Random arrays. One key serves the whole process, whichever thread draws.

use crate::array::{PyArray, wrap};
use crate::convert::{Arr, Int, Opd, ShapeArg};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::{OrRaise, type_error, value_error};
use crate::functions::add;
use isopace_core::api::random::{self, Samples};
use isopace_core::{Array, Dtype};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PyInt;

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

const F32: DtypeArg = DtypeArg(Dtype::F32);

/// The process-wide random state, as a list of one key. Compiled functions that draw take it along
/// whether it is named as their state or not.
#[pyclass(name = "_RandomState", module = "isopace.core.random", frozen)]
pub(crate) struct RandomState;

#[pymethods]
impl RandomState {
    fn __len__(&self) -> usize {
        1
    }
    fn __getitem__(&self, i: i64) -> Result1 {
        if i != 0 && i != -1 {
            return Err(PyIndexError::new_err(format!(
                "[random] the state has one key; there is no key {i}"
            )));
        }
        wrap(random::state())
    }
    fn __setitem__(&self, i: i64, key: Arr) -> PyResult<()> {
        if i != 0 && i != -1 {
            return Err(PyIndexError::new_err(format!(
                "[random] the state has one key; there is no key {i}"
            )));
        }
        random::set_state(&key.0).or_raise()
    }
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(pyo3::types::PyList::new(py, [self.__getitem__(0)?])?.try_iter()?.into_any())
    }
}

fn get(x: &Option<Arr>) -> Option<&Array> {
    x.as_ref().map(|a| &a.0)
}

fn scalar_shape() -> ShapeArg {
    ShapeArg(isopace_core::Shape::scalar())
}

/// A seed, 0 to 2**64 - 1.
struct Seed(u64);

impl<'a, 'py> FromPyObject<'a, 'py> for Seed {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let seed = obj.extract::<u64>();
        seed.map(Seed)
            .map_err(|_| type_error(format!("[random] seed {}; accepted: 0 to 2**64 - 1", obj.as_any())))
    }
}

/// A shape as a sequence; an int is refused.
struct Seq(isopace_core::Shape);

impl<'a, 'py> FromPyObject<'a, 'py> for Seq {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_instance_of::<PyInt>() {
            return Err(type_error("shape: expected a sequence of ints, got an int"));
        }
        Ok(Seq(obj.extract::<ShapeArg>()?.0))
    }
}

fn seq(s: Option<Seq>) -> isopace_core::Shape {
    s.map_or_else(|| scalar_shape().0, |s| s.0)
}

/// Restarts the random state of the process.
///
/// Threads share it. Raises TypeError unless 0 <= seed < 2**64.
///
/// >>> mx.random.seed(1)
/// >>> mx.random.uniform(shape=(2,))
/// array([0.209659, 0.404449], dtype=float32)
#[pyfunction]
fn seed(seed: Seed) {
    random::seed(seed.0);
}

/// The key of a seed.
///
/// Shape: (2,). Dtype: uint32.
///
/// >>> mx.random.key(7)
/// array([0, 7], dtype=uint32)
#[pyfunction]
fn key(seed: Seed) -> Result1 {
    wrap(random::key(seed.0))
}

/// `num` keys derived from a key.
///
/// Shape: (num, 2). Dtype: uint32.
///
/// >>> mx.random.split(mx.random.key(0), 2)
/// array([[4146024105, 967050713],
///        [2718843009, 1272950319]], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (key, num = Int(2), stream = None))]
fn split(key: Arr, num: Int, stream: Stream) -> Result1 {
    let _ = stream;
    let n = usize::try_from(num.0).map_err(|_| value_error(format!("[split] {} keys", num.0)))?;
    wrap(random::split(&key.0, n))
}

/// Uniform numbers, `low <= x < high`.
///
/// The bounds broadcast to the shape. Raises ValueError for integer dtypes.
///
/// >>> mx.random.uniform(shape=(2,), key=mx.random.key(0))
/// array([0.216295, 0.804124], dtype=float32)
#[pyfunction]
#[pyo3(signature = (low = Opd(0.into()), high = Opd(1.into()), shape = None, dtype = Some(F32), key = None, stream = None))]
fn uniform(
    low: Opd,
    high: Opd,
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    wrap(random::uniform(low.0, high.0, seq(shape), dtype.unwrap_or(F32).0, get(&key)))
}

/// Normal numbers.
///
/// Mean ``loc`` and deviation ``scale`` broadcast to the shape.
///
/// >>> mx.random.normal((2,), key=mx.random.key(0))
/// array([-0.784766, 0.856445], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape = None, dtype = Some(F32), loc = None, scale = None, key = None, stream = None))]
fn normal(
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    loc: Option<Opd>,
    scale: Option<Opd>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    wrap(random::normal(seq(shape), dtype.unwrap_or(F32).0, loc.map(|x| x.0), scale.map(|x| x.0), get(&key)))
}

/// Laplace numbers.
///
/// Mean ``loc`` and scale broadcast to the shape.
///
/// >>> mx.random.laplace((2,), key=mx.random.key(0))
/// array([0.837963, -0.937127], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape = None, dtype = Some(F32), loc = None, scale = None, key = None, stream = None))]
fn laplace(
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    loc: Option<Opd>,
    scale: Option<Opd>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    wrap(random::laplace(seq(shape), dtype.unwrap_or(F32).0, loc.map(|x| x.0), scale.map(|x| x.0), get(&key)))
}

/// Normal numbers between two bounds.
///
/// The bounds broadcast to the shape, which is theirs unless given.
///
/// >>> mx.random.truncated_normal(-1, 1, (2,), key=mx.random.key(0))
/// array([-0.506315, 0.546452], dtype=float32)
#[pyfunction]
#[pyo3(signature = (lower, upper, shape = None, dtype = Some(F32), key = None, stream = None))]
fn truncated_normal(
    lower: Opd,
    upper: Opd,
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let (lower, upper) = (lower.array()?, upper.array()?);
    let shape = match shape {
        Some(s) => s.0,
        None => lower.shape().broadcast(upper.shape(), "truncated_normal").or_raise()?,
    };
    wrap(random::truncated_normal(lower, upper, shape, dtype.unwrap_or(F32).0, get(&key)))
}

/// Vectors of jointly normal numbers.
///
/// Shapes: mean (..., n), cov (..., n, n) symmetric and not negative, ``shape`` broadcast with what leads in both; gives
/// (..., n). Dtype: float32, and ValueError for others and for shapes that do not fit.
///
/// >>> mx.random.multivariate_normal(mx.zeros((2,)), mx.eye(2), (3,), key=mx.random.key(0)).shape
/// (3, 2)
#[pyfunction]
#[pyo3(signature = (mean, cov, shape = None, dtype = Some(F32), key = None, stream = None))]
fn multivariate_normal(
    mean: Arr,
    cov: Arr,
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let dtype = dtype.unwrap_or(F32).0;
    if dtype != Dtype::F32 {
        return Err(value_error(format!("[multivariate_normal] dtype {dtype}; accepted: float32")));
    }
    wrap(random::multivariate_normal(&mean.0, &cov.0, &seq(shape), get(&key)))
}

/// Gumbel numbers.
///
/// -log(-log(u)) of uniform numbers.
///
/// >>> mx.random.gumbel((2,), key=mx.random.key(0))
/// array([-0.425993, 1.52325], dtype=float32)
#[pyfunction]
#[pyo3(signature = (shape = None, dtype = Some(F32), key = None, stream = None))]
fn gumbel(shape: Option<Seq>, dtype: Option<DtypeArg>, key: Option<Arr>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(random::gumbel(seq(shape), dtype.unwrap_or(F32).0, get(&key)))
}

/// True with probability p.
///
/// Shape: p's unless given. Dtype: bool. NaN gives False.
///
/// >>> mx.random.bernoulli(0.5, (4,), key=mx.random.key(0))
/// array([False, True, False, True], dtype=bool)
#[pyfunction]
#[pyo3(signature = (p = Opd(0.5.into()), shape = None, key = None, stream = None))]
fn bernoulli(p: Opd, shape: Option<Seq>, key: Option<Arr>, stream: Stream) -> Result1 {
    let _ = stream;
    let shape = shape.map(|s| s.0);
    wrap(random::bernoulli(p.0, shape.as_ref().map(|s| &s[..]), get(&key)))
}

/// Integers, `low <= x < high`.
///
/// The bounds broadcast to the shape. Raises ValueError for floating dtypes.
///
/// >>> mx.random.randint(0, 10, (4,), key=mx.random.key(0))
/// array([9, 2, 6, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (low, high, shape = None, dtype = Some(DtypeArg(Dtype::I32)), key = None, stream = None))]
fn randint(
    low: Opd,
    high: Opd,
    shape: Option<Seq>,
    dtype: Option<DtypeArg>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let dtype = dtype.map_or(Dtype::I32, |d| d.0);
    wrap(random::randint(low.0, high.0, seq(shape), dtype, get(&key)))
}

/// A permutation of 0 .. x, or x with an axis in random order.
///
/// Dtype: uint32 for a number.
///
/// >>> mx.random.permutation(4, key=mx.random.key(0))
/// array([1, 3, 2, 0], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (x, axis = Int(0), key = None, stream = None))]
fn permutation(x: &Bound<'_, PyAny>, axis: Int, key: Option<Arr>, stream: Stream) -> Result1 {
    let _ = stream;
    if let Ok(a) = x.cast::<PyArray>() {
        return wrap(random::permute(&a.get().array(x.py()), axis.0, get(&key)));
    }
    let n = crate::convert::int(x)?;
    let n = usize::try_from(n).map_err(|_| value_error(format!("[permutation] {n} numbers")))?;
    wrap(random::permutation(n, get(&key)))
}

/// Numbers of categories with probabilities proportional to exp(logits).
///
/// Shape: the axis is dropped, ``num_samples`` is appended. Dtype: uint32. Raises ValueError when both shape and
/// num_samples are given.
///
/// >>> mx.random.categorical(mx.array([[0.0, 9.0]]), num_samples=3, key=mx.random.key(0))
/// array([[1, 1, 1]], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (logits, axis = Int(-1), shape = None, num_samples = None, key = None, stream = None))]
fn categorical(
    logits: Arr,
    axis: Int,
    shape: Option<Seq>,
    num_samples: Option<Int>,
    key: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let shape = shape.map(|s| s.0);
    let samples = match (&shape, num_samples) {
        (Some(_), Some(_)) => {
            return Err(value_error("[categorical] shape and num_samples exclude each other"));
        }
        (Some(s), None) => Samples::Shape(s),
        (None, Some(n)) => {
            let n =
                usize::try_from(n.0).map_err(|_| value_error(format!("[categorical] {} samples", n.0)))?;
            Samples::Count(n)
        }
        (None, None) => Samples::One,
    };
    wrap(random::categorical(&logits.0, axis.0, samples, get(&key)))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let r = PyModule::new(m.py(), "random")?;
    let f = &r;
    f.add_class::<RandomState>()?;
    f.add("state", Py::new(m.py(), RandomState)?)?;
    add!(f: seed key split uniform normal laplace truncated_normal gumbel bernoulli randint permutation);
    add!(f: categorical multivariate_normal);
    m.add_submodule(&r)
}

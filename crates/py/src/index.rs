//! `x[...]`, `x[...] = v` and `x.at[...]`: Python's index objects as the core's.

use crate::array::PyArray;
use crate::convert::{self, Opd, too_long};
use crate::errors::{OrRaise, type_error, value_error};
use crate::raw;
use crate::standin::StandIn;
use isopace_core::api::{Index, Operand};
use isopace_core::op::Combine;
use isopace_core::{Array, Dtype, Scalar};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyEllipsis, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple};
use smallvec::SmallVec;

type Indices = SmallVec<[Index; 4]>;

fn refused(obj: &Bound<'_, PyAny>) -> PyErr {
    value_error(format!(
        "[index] {} is no index; accepted: ints, slices, None, ..., integer arrays and lists of ints",
        obj.get_type()
    ))
}

/// An int or stand-in, or `None` for anything else.
fn integer(obj: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if obj.is_instance_of::<PyInt>() && !obj.is_instance_of::<PyBool>() {
        // A stand-in also answers that it is an int.
        if let Ok(s) = obj.cast::<StandIn>() {
            return Ok(Some(s.get().0.clone()));
        }
        return match raw::int_value(obj)? {
            Some(i) if i32::try_from(i).is_ok() => Ok(Some(i.into())),
            // MLX's class.
            Some(i) => Err(value_error(format!("[index] {i} does not fit in 32 bits"))),
            None => Err(PyIndexError::new_err(format!("[index] {}", too_long(obj)))),
        };
    }
    if let Ok(s) = obj.cast::<StandIn>() {
        return Ok(Some(s.get().0.clone()));
    }
    Ok(None)
}

fn bound(obj: Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if obj.is_none() {
        return Ok(None);
    }
    if obj.is_exact_instance_of::<PyInt>() {
        // A bound past any array means its end.
        let far = i64::MAX / 4;
        return Ok(Some(match raw::int_value(&obj)? {
            Some(i) => i.clamp(-far, far).into(),
            None if obj.lt(0)? => (-far).into(),
            None => far.into(),
        }));
    }
    if let Some(s) = integer(&obj)? {
        return Ok(Some(s));
    }
    if obj.cast::<PyArray>().is_err() && obj.hasattr("__index__")? && !obj.is_instance_of::<PyFloat>() {
        return Ok(Some(convert::int(&obj)?.into()));
    }
    Err(value_error(format!("[slice] {} is no slice bound; accepted: ints and None", obj.get_type())))
}

/// A slice of plain numbers. A bound past any array means its end.
fn plain_slice([start, stop, step]: [i64; 3]) -> Index {
    let far = i64::MAX / 4;
    let bound = |i: i64, end: i64| (i != end).then(|| i.clamp(-far, far).into());
    let (first, last) = if step > 0 { (0, i64::MAX) } else { (i64::MAX, i64::MIN) };
    Index::Slice {
        start: bound(start, first),
        stop: bound(stop, last),
        step: (step != 1).then(|| step.into()),
    }
}

fn item(obj: &Bound<'_, PyAny>) -> PyResult<Index> {
    if obj.is_exact_instance_of::<PyInt>()
        && let Some(s) = integer(obj)?
    {
        return Ok(Index::Int(s));
    }
    if let Ok(slice) = obj.cast::<PySlice>() {
        if let Some(bounds) = raw::slice_bounds(slice) {
            return Ok(plain_slice(bounds));
        }
        let py = obj.py();
        let get = |name| bound(obj.getattr(name)?);
        return Ok(Index::Slice {
            start: get(pyo3::intern!(py, "start"))?,
            stop: get(pyo3::intern!(py, "stop"))?,
            step: get(pyo3::intern!(py, "step"))?,
        });
    }
    if obj.is_none() {
        return Ok(Index::NewAxis);
    }
    if obj.cast::<PyEllipsis>().is_ok() {
        return Ok(Index::Ellipsis);
    }
    if let Ok(a) = obj.cast::<PyArray>() {
        return array_index(a.get().array(obj.py()));
    }
    if let Some(s) = integer(obj)? {
        return Ok(Index::Int(s));
    }
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(Index::Mask(Array::scalar(b.is_true(), None).or_raise()?));
    }
    if let Ok(l) = obj.cast::<PyList>() {
        if l.is_empty() {
            return Ok(Index::Array(Array::from_slice::<i32>(&[], [0]).or_raise()?));
        }
        return array_index(convert::construct(obj, None)?);
    }
    if obj.is_instance_of::<PyString>() || obj.is_instance_of::<PyFloat>() {
        return Err(refused(obj));
    }
    if obj.hasattr("__array_interface__")? {
        if obj.getattr("ndim")?.extract::<usize>()? == 0 && obj.hasattr("__index__")? {
            let i = obj.call_method0("item")?;
            if i.is_instance_of::<PyInt>() {
                return item(&i);
            }
        }
        return array_index(convert::construct(obj, None)?);
    }
    if obj.hasattr("__index__")? {
        return Ok(Index::Int(convert::int(obj)?.into()));
    }
    Err(refused(obj))
}

fn array_index(a: Array) -> PyResult<Index> {
    if a.dtype() == Dtype::Bool {
        return Ok(Index::Mask(a));
    }
    if a.size() == 0 && !a.dtype().is_int() {
        return Ok(Index::Array(a.astype(Dtype::I32).or_raise()?));
    }
    if !a.dtype().is_int() {
        return Err(value_error(format!(
            "[index] an array of {} is no index; accepted: integers",
            a.dtype()
        )));
    }
    Ok(Index::Array(a))
}

fn parse(key: &Bound<'_, PyAny>) -> PyResult<Indices> {
    let mut out = Indices::new();
    match key.cast::<PyTuple>() {
        Ok(t) => {
            for x in t.iter_borrowed() {
                out.push(item(&x)?);
            }
        }
        Err(_) => out.push(item(key)?),
    }
    Ok(out)
}

/// `a[key]`.
pub(crate) fn get(a: &Array, key: &Bound<'_, PyAny>) -> PyResult<Array> {
    let index = parse(key)?;
    if key.cast::<PyArray>().is_err()
        && index.iter().any(|i| matches!(i, Index::Array(_)))
        && has_ndarray(key)?
    {
        return Err(value_error("[index] a NumPy array is no index; accepted: mx.array and lists of ints"));
    }
    a.index(&index).or_raise()
}

fn has_ndarray(key: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(t) = key.cast::<PyTuple>() {
        for x in t.iter_borrowed() {
            if has_ndarray(&x)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    Ok(key.cast::<PyArray>().is_err()
        && !key.is_instance_of::<PyList>()
        && key.hasattr("__array_interface__")?
        && key.getattr("ndim")?.extract::<usize>()? > 0)
}

/// The array with `a[key]` replaced.
pub(crate) fn set(a: Array, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Array> {
    let index = parse(key)?;
    let value = convert::operand(value, "setitem")?;
    a.set(&index, value).or_raise()
}

/// `x.at`: indexed updates that count repeated indices.
#[pyclass(module = "isopace.core", frozen)]
pub(crate) struct ArrayAt {
    array: Py<PyArray>,
    index: Option<Indices>,
}

impl ArrayAt {
    pub(crate) fn new(array: Py<PyArray>) -> ArrayAt {
        ArrayAt { array, index: None }
    }

    fn parts(&self, py: Python<'_>) -> PyResult<(Array, &[Index])> {
        match &self.index {
            Some(i) => Ok((self.array.get().array(py), i)),
            None => Err(value_error("[at] an index comes first: x.at[i].add(v)")),
        }
    }

    fn combine(&self, py: Python<'_>, how: Combine, value: Operand) -> PyResult<PyArray> {
        let (a, index) = self.parts(py)?;
        a.at(index, how, value).map(PyArray::new).or_raise()
    }
}

#[pymethods]
impl ArrayAt {
    fn __getitem__(&self, py: Python<'_>, indices: &Bound<'_, PyAny>) -> PyResult<ArrayAt> {
        Ok(ArrayAt { array: self.array.clone_ref(py), index: Some(parse(indices)?) })
    }
    /// Adds, counting repeated indices.
    ///
    /// >>> mx.zeros((3,)).at[mx.array([0, 0, 2])].add(2)
    /// array([4, 0, 2], dtype=float32)
    fn add(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        self.combine(py, Combine::Add, value.0)
    }
    /// Subtracts, counting repeated indices.
    ///
    /// >>> mx.zeros((3,)).at[mx.array([0, 0, 2])].subtract(2)
    /// array([-4, 0, -2], dtype=float32)
    fn subtract(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        let (a, index) = self.parts(py)?;
        a.at_subtract(index, value.0).map(PyArray::new).or_raise()
    }
    /// Multiplies, counting repeated indices.
    ///
    /// >>> mx.ones((3,)).at[mx.array([0, 0, 2])].multiply(2)
    /// array([4, 1, 2], dtype=float32)
    fn multiply(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        self.combine(py, Combine::Mul, value.0)
    }
    /// Divides, counting repeated indices; integers truncate once at the end.
    ///
    /// >>> mx.full((3,), 8).at[mx.array([0, 0, 2])].divide(2)
    /// array([2, 8, 4], dtype=int32)
    fn divide(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        let (a, index) = self.parts(py)?;
        a.at_divide(index, value.0).map(PyArray::new).or_raise()
    }
    /// Takes the larger.
    ///
    /// >>> mx.zeros((3,)).at[mx.array([0, 0, 2])].maximum(2)
    /// array([2, 0, 2], dtype=float32)
    fn maximum(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        self.combine(py, Combine::Max, value.0)
    }
    /// Takes the smaller.
    ///
    /// >>> mx.zeros((3,)).at[mx.array([0, 0, 2])].minimum(-1)
    /// array([-1, 0, -1], dtype=float32)
    fn minimum(&self, py: Python<'_>, value: Opd) -> PyResult<PyArray> {
        self.combine(py, Combine::Min, value.0)
    }
}

/// Iterates over the first axis.
#[pyclass(module = "isopace.core")]
pub(crate) struct ArrayIterator {
    array: Array,
    next: usize,
}

impl ArrayIterator {
    pub(crate) fn new(a: &Bound<'_, PyArray>) -> PyResult<ArrayIterator> {
        let array = a.get().array(a.py());
        if array.ndim() == 0 {
            return Err(type_error("iteration over a 0-d array"));
        }
        Ok(ArrayIterator { array, next: 0 })
    }
}

#[pymethods]
impl ArrayIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __next__(&mut self) -> PyResult<Option<PyArray>> {
        if self.next >= self.array.shape()[0] {
            return Ok(None);
        }
        let i = Index::Int((self.next as i64).into());
        self.next += 1;
        self.array.index(&[i]).map(|a| Some(PyArray::new(a))).or_raise()
    }
}

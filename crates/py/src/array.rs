//! The array class: a handle on a core array. `x[i] = v` and in-place operators put another array into
//! the handle, so that the old buffer can be written in place.

use crate::convert::{self, Axes, Int, Ints};
use crate::device::StreamArg;
use crate::dtype::{self, DtypeArg, PyDtype};
use crate::errors::{OrRaise, type_error, value_error};
use crate::functions as f;
use crate::raw::{self, GilCell};
use crate::{buffer, eval, index, overlay, print};
use isopace_core::api::{self, Operand};
use isopace_core::op::Row;
use isopace_core::{Array, Dtype};
use pyo3::basic::CompareOp;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::ffi::c_int;

type Result1 = PyResult<PyArray>;
type Stream = Option<StreamArg>;

/// An n-dimensional array whose elements are computed when they are first needed.
///
/// `array(val, dtype=None)` makes one from a number, nested lists of numbers, another array, NumPy, or
/// any object with a buffer or DLPack. Without a dtype, Python ints give int32 (int64 where needed),
/// floats float32.
#[pyclass(name = "array", module = "isopace.core", subclass, frozen, weakref)]
pub(crate) struct PyArray(GilCell<Array>);

impl PyArray {
    #[inline]
    pub(crate) fn new(a: Array) -> PyArray {
        PyArray(GilCell::new(a))
    }

    #[inline]
    pub(crate) fn array(&self, py: Python<'_>) -> Array {
        if overlay::active()
            && let Some(a) = overlay::get(self)
        {
            return a;
        }
        self.0.get(py)
    }

    /// Puts another array into the handle.
    #[inline]
    pub(crate) fn rebind(&self, py: Python<'_>, a: Array) {
        if overlay::active() && overlay::set(self, &a) {
            return;
        }
        drop(self.0.replace(py, a));
    }
}

impl From<Array> for PyArray {
    fn from(a: Array) -> PyArray {
        PyArray::new(a)
    }
}

pub(crate) fn wrap(r: isopace_core::Result<Array>) -> Result1 {
    r.map(PyArray::new).or_raise()
}

/// `a row b`, with the operands swapped on request.
#[inline]
fn binary(a: &Bound<'_, PyArray>, row: Row, b: &Bound<'_, PyAny>, swap: bool) -> Result1 {
    let x = a.get().array(a.py());
    if let Ok(y) = b.cast::<PyArray>() {
        let y = y.get().array(a.py());
        return wrap(if swap { api::binary(row, y, x) } else { api::binary(row, x, y) });
    }
    let y = convert::operand(b, row.name())?;
    wrap(f::binary(row, Operand::Array(x), y, swap))
}

#[inline]
fn in_place(a: &Bound<'_, PyArray>, row: Row, b: &Bound<'_, PyAny>) -> PyResult<()> {
    let x = a.get().array(a.py());
    let y = convert::operand(b, row.name())?;
    let new = f::binary(row, Operand::Array(x), y, false).or_raise()?;
    a.get().rebind(a.py(), new);
    Ok(())
}

impl PyArray {
    pub(crate) fn item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        print::item(py, &self.array(py))
    }
}

macro_rules! axes {
    ($a:expr) => {
        $a.unwrap_or_default().get()
    };
}

#[pymethods]
impl PyArray {
    #[new]
    #[pyo3(signature = (val, dtype = None))]
    fn py_new(val: &Bound<'_, PyAny>, dtype: Option<DtypeArg>) -> Result1 {
        convert::construct(val, dtype.map(|d| d.0)).map(PyArray::new)
    }

    /// Extents, outermost first.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).shape
    /// (2, 2)
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array(py).shape().iter())
    }
    /// Element type.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).dtype
    /// mlx.core.int32
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Py<PyDtype>> {
        dtype::object(py, self.array(py).dtype())
    }
    /// Number of axes.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).ndim
    /// 2
    #[getter]
    fn ndim(&self, py: Python<'_>) -> usize {
        self.array(py).ndim()
    }
    /// Number of elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).size
    /// 4
    #[getter]
    fn size(&self, py: Python<'_>) -> usize {
        self.array(py).size()
    }
    /// Bytes of the elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).nbytes
    /// 16
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> usize {
        self.array(py).nbytes()
    }
    /// Bytes of one element.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).itemsize
    /// 4
    #[getter]
    fn itemsize(&self, py: Python<'_>) -> usize {
        self.array(py).dtype().size()
    }
    /// The array with all axes reversed.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).T
    /// array([[1, 3],
    ///        [2, 4]], dtype=int32)
    #[getter(T)]
    fn t(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).t())
    }
    /// The array with its last two axes swapped.
    ///
    /// >>> mx.ones((2, 3, 4)).mT.shape
    /// (2, 4, 3)
    #[getter(mT)]
    fn mt(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).matrix_transpose())
    }
    /// Real part.
    ///
    /// >>> mx.array([1 + 2j]).real
    /// array([1], dtype=float32)
    #[getter]
    fn real(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).real())
    }
    /// Imaginary part.
    ///
    /// >>> mx.array([1 + 2j]).imag
    /// array([2], dtype=float32)
    #[getter]
    fn imag(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).imag())
    }
    /// Indexed updates that count repeated indices: `x.at[i].add(v)`.
    ///
    /// Gives a new array. Methods: add, subtract, multiply, divide, maximum, minimum.
    ///
    /// >>> mx.zeros((3,)).at[mx.array([0, 0, 2])].add(1)
    /// array([2, 0, 1], dtype=float32)
    #[getter]
    fn at(slf: Py<Self>) -> index::ArrayAt {
        index::ArrayAt::new(slf)
    }

    // Operators.

    fn __add__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Add, other, false)
    }
    fn __radd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Add, other, true)
    }
    fn __iadd__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Add, other)
    }
    fn __sub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Sub, other, false)
    }
    fn __rsub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Sub, other, true)
    }
    fn __isub__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Sub, other)
    }
    fn __mul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Mul, other, false)
    }
    fn __rmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Mul, other, true)
    }
    fn __imul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Mul, other)
    }
    fn __truediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Div, other, false)
    }
    fn __rtruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Div, other, true)
    }
    fn __itruediv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let d = slf.get().array(slf.py()).dtype();
        if !d.is_inexact() && !other.is_none() {
            return Err(value_error(format!(
                "[divide] {d} cannot be divided in place; accepted: floating dtypes"
            )));
        }
        in_place(slf, Row::Div, other)
    }
    fn __floordiv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::FloorDiv, other, false)
    }
    fn __rfloordiv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::FloorDiv, other, true)
    }
    fn __ifloordiv__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::FloorDiv, other)
    }
    fn __mod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Rem, other, false)
    }
    fn __rmod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Rem, other, true)
    }
    fn __imod__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Rem, other)
    }
    fn __pow__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, _m: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Pow, other, false)
    }
    fn __rpow__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, _m: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Pow, other, true)
    }
    fn __ipow__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, _m: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Pow, other)
    }
    fn __and__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitAnd, other, false)
    }
    fn __rand__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitAnd, other, true)
    }
    fn __iand__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::BitAnd, other)
    }
    fn __or__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitOr, other, false)
    }
    fn __ror__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitOr, other, true)
    }
    fn __ior__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::BitOr, other)
    }
    fn __xor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitXor, other, false)
    }
    fn __rxor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::BitXor, other, true)
    }
    fn __ixor__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::BitXor, other)
    }
    fn __lshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Shl, other, false)
    }
    fn __rlshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Shl, other, true)
    }
    fn __ilshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Shl, other)
    }
    fn __rshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Shr, other, false)
    }
    fn __rrshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        binary(slf, Row::Shr, other, true)
    }
    fn __irshift__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        in_place(slf, Row::Shr, other)
    }
    fn __matmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        let b = matrix(other)?;
        wrap(slf.get().array(slf.py()).matmul(&b))
    }
    fn __rmatmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> Result1 {
        let b = matrix(other)?;
        wrap(b.matmul(&slf.get().array(slf.py())))
    }
    fn __imatmul__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = slf.get().array(slf.py()).matmul(&matrix(other)?).or_raise()?;
        slf.get().rebind(slf.py(), new);
        Ok(())
    }
    fn __neg__(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).negative())
    }
    fn __pos__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __abs__(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).abs())
    }
    fn __invert__(&self, py: Python<'_>) -> Result1 {
        wrap(self.array(py).bitwise_invert())
    }
    fn __richcmp__(slf: &Bound<'_, Self>, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let row = match op {
            CompareOp::Eq => Row::Eq,
            CompareOp::Ne => Row::Ne,
            CompareOp::Lt => Row::Lt,
            CompareOp::Le => Row::Le,
            CompareOp::Gt => Row::Gt,
            CompareOp::Ge => Row::Ge,
        };
        let y = if let Ok(a) = other.cast::<PyArray>() {
            Operand::Array(a.get().array(py))
        } else if matches!(op, CompareOp::Eq | CompareOp::Ne) {
            match f::comparable(other)? {
                Some(y) => y,
                None => {
                    let answer = matches!(op, CompareOp::Ne);
                    return Ok(pyo3::types::PyBool::new(py, answer).to_owned().into_any().unbind());
                }
            }
        } else {
            convert::operand(other, row.name())?
        };
        let x = Operand::Array(slf.get().array(py));
        let out = f::compare(row, x, y).or_raise()?;
        Ok(Py::new(py, PyArray::new(out))?.into_any())
    }
    fn __hash__(slf: &Bound<'_, Self>) -> isize {
        (slf.as_ptr() as isize) >> 4
    }

    // As a Python value.

    fn __bool__(slf: &Bound<'_, Self>) -> PyResult<bool> {
        slf.get().item(slf.py())?.bind(slf.py()).is_truthy()
    }
    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let x = self.item(py)?;
        Ok(py.get_type::<pyo3::types::PyInt>().call1((x,))?.unbind())
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let x = self.item(py)?;
        Ok(py.get_type::<pyo3::types::PyFloat>().call1((x,))?.unbind())
    }
    fn __complex__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let x = self.item(py)?;
        Ok(py.get_type::<pyo3::types::PyComplex>().call1((x,))?.unbind())
    }
    fn __index__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let a = self.array(py);
        if !a.dtype().is_int() || a.ndim() != 0 || raw::unpacking() {
            return Err(type_error(format!(
                "only 0-d integer arrays can be an index; this one is {} of shape {:?}",
                a.dtype(),
                a.shape()
            )));
        }
        self.item(py)
    }
    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &eval::bytes(py, &self.array(py))?))
    }
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let a = self.array(py);
        a.shape().first().copied().ok_or_else(|| type_error("len() of a 0-d array"))
    }
    fn __iter__(slf: &Bound<'_, Self>) -> PyResult<index::ArrayIterator> {
        index::ArrayIterator::new(slf)
    }
    fn __getitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>) -> Result1 {
        index::get(&slf.get().array(slf.py()), key).map(PyArray::new)
    }
    fn __setitem__(slf: &Bound<'_, Self>, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let new = index::set(slf.get().array(slf.py()), key, value)?;
        slf.get().rebind(slf.py(), new);
        Ok(())
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        print::repr(py, &self.array(py))
    }
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        print::repr(py, &self.array(py))
    }
    fn __format__(&self, py: Python<'_>, spec: &str) -> PyResult<String> {
        if self.array(py).ndim() == 0 {
            return self.item(py)?.call_method1(py, "__format__", (spec,))?.extract(py);
        }
        if !spec.is_empty() {
            return Err(type_error(format!("unsupported format {spec:?} for an array that is not 0-d")));
        }
        self.__repr__(py)
    }
    fn __copy__(&self, py: Python<'_>) -> PyArray {
        PyArray::new(self.array(py))
    }
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> PyArray {
        PyArray::new(self.array(py))
    }
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let a = self.array(py);
        let from = py.import("isopace._isopace")?.getattr("_from_bytes")?;
        let bytes = PyBytes::new(py, &eval::bytes(py, &a)?);
        let shape = PyTuple::new(py, a.shape().iter())?;
        (from, (bytes, shape, a.dtype().name())).into_pyobject(py)
    }
    fn __sizeof__(&self, py: Python<'_>) -> usize {
        64 + self.array(py).nbytes()
    }

    // Other libraries.

    /// # Safety
    /// Called by CPython with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        // SAFETY: CPython passes a view to fill, as this slot's contract says.
        unsafe { buffer::fill(&slf, view, flags) }
    }
    /// # Safety
    /// Called by CPython with a view that `__getbuffer__` filled.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: CPython releases each filled view once, as this slot's contract says.
        unsafe { buffer::release(view) }
    }
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<&Bound<'_, PyAny>>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = (stream, max_version);
        if dl_device.is_some_and(|d| d.0 != 1) {
            return Err(pyo3::exceptions::PyBufferError::new_err("[dlpack] the array is on the CPU"));
        }
        let a = self.array(py);
        if copy == Some(true) {
            let a = Array::from_bytes(&eval::bytes(py, &a)?, a.shape(), a.dtype()).or_raise()?;
            return buffer::capsule(py, &a);
        }
        buffer::capsule(py, &a)
    }
    fn __dlpack_device__(&self) -> (i32, i32) {
        (1, 0)
    }
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = copy;
        let np = slf.py().import("numpy")?;
        let view = slf.py().import("builtins")?.getattr("memoryview")?.call1((slf,))?;
        let out = np.call_method1("asarray", (view,))?;
        match dtype {
            Some(d) => out.call_method1("astype", (d,)),
            None => Ok(out),
        }
    }
    #[pyo3(signature = (*, api_version = None))]
    fn __array_namespace__<'py>(
        &self,
        py: Python<'py>,
        api_version: Option<&str>,
    ) -> PyResult<Bound<'py, PyModule>> {
        let _ = api_version;
        py.import("isopace.core")
    }
    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (PyArray::new(self.array(py)), self.array(py).dtype() as u8).into_pyobject(py)
    }

    /// The one element as a Python number.
    ///
    /// Raises ValueError unless there is exactly one; waits for the computation, and raises what it ran into.
    ///
    /// >>> mx.array([[5]]).item()
    /// 5
    #[pyo3(name = "item")]
    fn py_item(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        print::item(py, &self.array(py))
    }
    /// The elements as nested lists; a number for a 0-d array.
    ///
    /// Waits for the computation, and raises what it ran into.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).tolist()
    /// [[1, 2], [3, 4]]
    fn tolist(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        print::tolist(py, &self.array(py))
    }
    /// The array converted to a dtype.
    ///
    /// Raises TypeError unless the dtype is an mx.Dtype.
    ///
    /// >>> mx.array([1.7]).astype(mx.int32)
    /// array([1], dtype=int32)
    #[pyo3(signature = (dtype, stream = None))]
    fn astype(&self, py: Python<'_>, dtype: DtypeArg, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).astype(dtype.0))
    }
    /// The same bytes under another dtype.
    ///
    /// The last extent changes with the size of the dtype. Raises ValueError where it does not divide.
    ///
    /// >>> mx.array([1.0]).view(mx.int32)
    /// array([1065353216], dtype=int32)
    #[pyo3(signature = (dtype, *, stream = None))]
    fn view(&self, py: Python<'_>, dtype: DtypeArg, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).view(dtype.0))
    }
    /// The same elements under another shape; one extent may be -1.
    ///
    /// Raises ValueError for another number of elements, TypeError without a shape.
    ///
    /// >>> mx.arange(4).reshape(2, -1)
    /// array([[0, 1],
    ///        [2, 3]], dtype=int32)
    #[pyo3(signature = (*shape, stream = None))]
    fn reshape(&self, py: Python<'_>, shape: &Bound<'_, PyTuple>, stream: Stream) -> Result1 {
        let _ = stream;
        if shape.is_empty() {
            return Err(type_error("[reshape] a shape is needed; accepted: ints or a sequence of ints"));
        }
        let dims = f::spread(shape)?;
        wrap(self.array(py).reshape(&dims))
    }
    /// Axes in another order; reversed when none is given.
    ///
    /// Raises ValueError unless every axis is named once.
    ///
    /// >>> mx.ones((2, 3, 4)).transpose(1, 0, 2).shape
    /// (3, 2, 4)
    #[pyo3(signature = (*axes, stream = None))]
    fn transpose(&self, py: Python<'_>, axes: &Bound<'_, PyTuple>, stream: Stream) -> Result1 {
        let _ = stream;
        if axes.is_empty() || (axes.len() == 1 && axes.get_item(0)?.is_none()) {
            return wrap(self.array(py).t());
        }
        wrap(self.array(py).transpose(&f::spread(axes)?))
    }
    /// Axes from `start_axis` to `end_axis` joined into one.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).flatten()
    /// array([1, 2, 3, 4], dtype=int32)
    #[pyo3(signature = (start_axis = Int(0), end_axis = Int(-1), *, stream = None))]
    fn flatten(&self, py: Python<'_>, start_axis: Int, end_axis: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).flatten(start_axis.0, end_axis.0))
    }
    /// Axes of extent 1 dropped.
    ///
    /// Raises ValueError for another extent.
    ///
    /// >>> mx.ones((1, 2)).squeeze().shape
    /// (2,)
    #[pyo3(signature = (axis = None, *, stream = None))]
    fn squeeze(&self, py: Python<'_>, axis: Option<Axes>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).squeeze(axes!(axis)))
    }
    /// Two axes exchanged.
    ///
    /// >>> mx.ones((2, 3)).swapaxes(0, 1).shape
    /// (3, 2)
    #[pyo3(signature = (axis1, axis2, *, stream = None))]
    fn swapaxes(&self, py: Python<'_>, axis1: Int, axis2: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).swapaxes(axis1.0, axis2.0))
    }
    /// One axis moved to another place.
    ///
    /// >>> mx.ones((2, 3, 4)).moveaxis(0, -1).shape
    /// (3, 4, 2)
    #[pyo3(signature = (source, destination, *, stream = None))]
    fn moveaxis(&self, py: Python<'_>, source: Int, destination: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).moveaxis(source.0, destination.0))
    }
    /// Parts along an axis: a number of equal ones, or cut at indices.
    ///
    /// Raises ValueError when equal parts do not come out even.
    ///
    /// >>> mx.arange(4).split(2)
    /// [array([0, 1], dtype=int32), array([2, 3], dtype=int32)]
    #[pyo3(signature = (indices_or_sections, axis = Int(0), *, stream = None))]
    fn split(
        &self,
        py: Python<'_>,
        indices_or_sections: &Bound<'_, PyAny>,
        axis: Int,
        stream: Stream,
    ) -> PyResult<Vec<PyArray>> {
        let _ = stream;
        f::split_parts(&self.array(py), indices_or_sections, axis.0)
    }
    /// A diagonal, or a matrix with this vector on its diagonal.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).diag()
    /// array([1, 4], dtype=int32)
    #[pyo3(signature = (k = Int(0), *, stream = None))]
    fn diag(&self, py: Python<'_>, k: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).diag(k.0))
    }
    /// The diagonal of two axes, as the last axis.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).diagonal()
    /// array([1, 4], dtype=int32)
    #[pyo3(signature = (offset = Int(0), axis1 = Int(0), axis2 = Int(1), stream = None))]
    fn diagonal(&self, py: Python<'_>, offset: Int, axis1: Int, axis2: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).diagonal(offset.0, axis1.0, axis2.0))
    }
    /// Rounds to a number of decimals, halves to even.
    ///
    /// >>> mx.array([1.25]).round(1)
    /// array([1.2], dtype=float32)
    #[pyo3(signature = (decimals = Int(0), *, stream = None))]
    fn round(&self, py: Python<'_>, decimals: Int, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).round_to(decimals.0))
    }
    /// Variance over axes.
    ///
    /// Divides by n - ddof. Axes as in sum.
    ///
    /// >>> mx.array([1.0, 4.0]).var()
    /// array(2.25, dtype=float32)
    #[pyo3(signature = (axis = None, keepdims = false, ddof = Int(0), *, correction = None, stream = None))]
    fn var(
        &self,
        py: Python<'_>,
        axis: Option<Axes>,
        keepdims: bool,
        ddof: Int,
        correction: Option<Int>,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).var(axes!(axis), keepdims, correction.unwrap_or(ddof).0))
    }
    /// Standard deviation over axes.
    ///
    /// Divides by n - ddof. Axes as in sum.
    ///
    /// >>> mx.array([1.0, 4.0]).std()
    /// array(1.5, dtype=float32)
    #[pyo3(signature = (axis = None, keepdims = false, ddof = Int(0), *, correction = None, stream = None))]
    fn std(
        &self,
        py: Python<'_>,
        axis: Option<Axes>,
        keepdims: bool,
        ddof: Int,
        correction: Option<Int>,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).std(axes!(axis), keepdims, correction.unwrap_or(ddof).0))
    }
    /// Absolute value.
    ///
    /// >>> mx.array([-1]).abs()
    /// array([1], dtype=int32)
    #[pyo3(signature = (*, stream = None))]
    fn abs(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).abs())
    }
    /// Cosine of radians.
    ///
    /// >>> mx.array([0.0]).cos()
    /// array([1], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn cos(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).cos())
    }
    /// Exponential.
    ///
    /// >>> mx.array([0.0]).exp()
    /// array([1], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn exp(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).exp())
    }
    /// Natural logarithm.
    ///
    /// >>> mx.array([1.0]).log()
    /// array([0], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn log(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).log())
    }
    /// Logarithm to base 10.
    ///
    /// >>> mx.array([100.0]).log10()
    /// array([2], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn log10(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).log10())
    }
    /// log(1 + x), exact near 0.
    ///
    /// >>> mx.array([0.0]).log1p()
    /// array([0], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn log1p(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).log1p())
    }
    /// Logarithm to base 2.
    ///
    /// >>> mx.array([8.0]).log2()
    /// array([3], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn log2(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).log2())
    }
    /// 1 over x.
    ///
    /// >>> mx.array([1.0, 4.0]).reciprocal()
    /// array([1, 0.25], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn reciprocal(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).reciprocal())
    }
    /// 1 over the square root.
    ///
    /// >>> mx.array([1.0, 4.0]).rsqrt()
    /// array([1, 0.5], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn rsqrt(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).rsqrt())
    }
    /// Sine of radians.
    ///
    /// >>> mx.array([0.0]).sin()
    /// array([0], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn sin(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).sin())
    }
    /// Square root.
    ///
    /// >>> mx.array([1.0, 4.0]).sqrt()
    /// array([1, 2], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn sqrt(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).sqrt())
    }
    /// x times x.
    ///
    /// >>> mx.array([1.0, 4.0]).square()
    /// array([1, 16], dtype=float32)
    #[pyo3(signature = (*, stream = None))]
    fn square(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).square())
    }
    /// Complex conjugate.
    ///
    /// >>> mx.array([1 + 2j]).conj()
    /// array([1-2j], dtype=complex64)
    #[pyo3(signature = (*, stream = None))]
    fn conj(&self, py: Python<'_>, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).conjugate())
    }
    /// Sum over axes.
    ///
    /// The axes are dropped, or kept with ``keepdims``; all without ``axis``. Raises IndexError for an axis out of range,
    /// ValueError for one given twice. Small integers widen to 32 bits.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).sum(axis=0)
    /// array([4, 6], dtype=int32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn sum(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).sum(axes!(axis), keepdims))
    }
    /// Product over axes.
    ///
    /// Axes and dtype as in sum.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).prod()
    /// array(24, dtype=int32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn prod(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).prod(axes!(axis), keepdims))
    }
    /// Smallest element over axes; NaN wins.
    ///
    /// Axes as in sum. Raises ValueError over no elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).min(axis=1)
    /// array([1, 3], dtype=int32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn min(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).min(axes!(axis), keepdims))
    }
    /// Largest element over axes; NaN wins.
    ///
    /// Axes as in sum. Raises ValueError over no elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).max(axis=1, keepdims=True)
    /// array([[2],
    ///        [4]], dtype=int32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn max(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).max(axes!(axis), keepdims))
    }
    /// True where an element over axes is not zero.
    ///
    /// Axes as in sum.
    ///
    /// >>> mx.array([0, 2]).any()
    /// array(True, dtype=bool)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn any(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).any(axes!(axis), keepdims))
    }
    /// True where no element over axes is zero.
    ///
    /// Axes as in sum.
    ///
    /// >>> mx.array([0, 2]).all()
    /// array(False, dtype=bool)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn all(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).all(axes!(axis), keepdims))
    }
    /// Mean over axes.
    ///
    /// Axes as in sum. Integers give float32.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).mean(axis=0)
    /// array([2, 3], dtype=float32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn mean(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).mean(axes!(axis), keepdims))
    }
    /// log(sum(exp(x))) over axes without overflow.
    ///
    /// Axes as in sum.
    ///
    /// >>> mx.array([0.0, 0.0]).logsumexp()
    /// array(0.693147, dtype=float32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn logsumexp(&self, py: Python<'_>, axis: Option<Axes>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).logsumexp(axes!(axis), keepdims))
    }
    /// Running sum along an axis; flattened without one.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).cumsum(axis=1)
    /// array([[1, 3],
    ///        [3, 7]], dtype=int32)
    #[pyo3(signature = (axis = None, *, reverse = false, inclusive = true, stream = None))]
    fn cumsum(
        &self,
        py: Python<'_>,
        axis: Option<Int>,
        reverse: bool,
        inclusive: bool,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).cumsum(axis.map(|a| a.0), reverse, inclusive))
    }
    /// Running product along an axis; flattened without one.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).cumprod()
    /// array([1, 2, 6, 24], dtype=int32)
    #[pyo3(signature = (axis = None, *, reverse = false, inclusive = true, stream = None))]
    fn cumprod(
        &self,
        py: Python<'_>,
        axis: Option<Int>,
        reverse: bool,
        inclusive: bool,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).cumprod(axis.map(|a| a.0), reverse, inclusive))
    }
    /// Running maximum along an axis; flattened without one.
    ///
    /// >>> mx.array([1, 3, 2]).cummax()
    /// array([1, 3, 3], dtype=int32)
    #[pyo3(signature = (axis = None, *, reverse = false, inclusive = true, stream = None))]
    fn cummax(
        &self,
        py: Python<'_>,
        axis: Option<Int>,
        reverse: bool,
        inclusive: bool,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).cummax(axis.map(|a| a.0), reverse, inclusive))
    }
    /// Running minimum along an axis; flattened without one.
    ///
    /// >>> mx.array([3, 1, 2]).cummin()
    /// array([3, 1, 1], dtype=int32)
    #[pyo3(signature = (axis = None, *, reverse = false, inclusive = true, stream = None))]
    fn cummin(
        &self,
        py: Python<'_>,
        axis: Option<Int>,
        reverse: bool,
        inclusive: bool,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).cummin(axis.map(|a| a.0), reverse, inclusive))
    }
    /// Running log(sum(exp(x))) along an axis; flattened without one.
    ///
    /// >>> mx.array([0.0, 0.0]).logcumsumexp()
    /// array([0, 0.693147], dtype=float32)
    #[pyo3(signature = (axis = None, *, reverse = false, inclusive = true, stream = None))]
    fn logcumsumexp(
        &self,
        py: Python<'_>,
        axis: Option<Int>,
        reverse: bool,
        inclusive: bool,
        stream: Stream,
    ) -> Result1 {
        let _ = stream;
        wrap(self.array(py).logcumsumexp(axis.map(|a| a.0), reverse, inclusive))
    }
    /// Index of the largest element along an axis, the first of equals; of all without an axis.
    ///
    /// Dtype: uint32. Raises ValueError over no elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).argmax(axis=1)
    /// array([1, 1], dtype=uint32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn argmax(&self, py: Python<'_>, axis: Option<Int>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).argmax(axis.map(|a| a.0), keepdims))
    }
    /// Index of the smallest element along an axis, the first of equals; of all without an axis.
    ///
    /// Dtype: uint32. Raises ValueError over no elements.
    ///
    /// >>> mx.array([[1, 2], [3, 4]]).argmin()
    /// array(0, dtype=uint32)
    #[pyo3(signature = (axis = None, keepdims = false, *, stream = None))]
    fn argmin(&self, py: Python<'_>, axis: Option<Int>, keepdims: bool, stream: Stream) -> Result1 {
        let _ = stream;
        wrap(self.array(py).argmin(axis.map(|a| a.0), keepdims))
    }
}

/// The right side of `@`.
fn matrix(obj: &Bound<'_, PyAny>) -> PyResult<Array> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(a.get().array(obj.py()));
    }
    if convert::scalar(obj)?.is_some() {
        return Err(type_error("[matmul] a number has no axes; use *"));
    }
    match convert::foreign_array(obj, None)? {
        Some(a) => Ok(a),
        None => Err(type_error(format!("[matmul] {} is not an array", obj.get_type()))),
    }
}

/// An array from the bytes of its elements.
#[pyfunction]
fn _from_bytes(bytes: &[u8], shape: Ints, dtype: &str) -> Result1 {
    let d = Dtype::from_name(dtype).ok_or_else(|| value_error(format!("there is no dtype {dtype}")))?;
    wrap(Array::from_bytes(bytes, convert::shape(&shape.0)?, d))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<PyArray>()?;
    m.add_class::<index::ArrayAt>()?;
    m.add_class::<index::ArrayIterator>()?;
    m.add_function(wrap_pyfunction!(_from_bytes, m)?)?;
    Ok(())
}

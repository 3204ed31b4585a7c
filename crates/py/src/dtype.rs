//! Dtypes and their categories.

use crate::errors::{type_error, value_error};
use isopace_core::Dtype;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;

/// The type of an array's elements.
#[pyclass(name = "Dtype", module = "isopace.core", frozen)]
pub(crate) struct PyDtype(pub(crate) Dtype);

static ALL: PyOnceLock<Vec<Py<PyDtype>>> = PyOnceLock::new();

/// The one object of a dtype.
pub(crate) fn object(py: Python<'_>, d: Dtype) -> PyResult<Py<PyDtype>> {
    let all = ALL.get_or_try_init(py, || {
        Dtype::ALL.into_iter().map(|d| Py::new(py, PyDtype(d))).collect::<PyResult<Vec<_>>>()
    })?;
    Ok(all[d as usize].clone_ref(py))
}

#[pymethods]
impl PyDtype {
    /// Bytes of one element.
    #[getter]
    fn size(&self) -> usize {
        self.0.size()
    }

    fn __repr__(&self) -> String {
        format!("mlx.core.{}", self.0.name())
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyDtype>().is_ok_and(|o| o.get().0 == self.0)
    }

    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }

    fn __hash__(&self) -> u64 {
        self.0 as u64 + 0x6474
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let from = py.import("isopace._isopace")?.getattr("_dtype_named")?;
        (from, (self.0.name(),)).into_pyobject(py)
    }
}

#[pyfunction]
fn _dtype_named(py: Python<'_>, name: &str) -> PyResult<Py<PyDtype>> {
    let d = Dtype::from_name(name).ok_or_else(|| value_error(format!("[dtype] there is no dtype {name}")))?;
    object(py, d)
}

/// A class of dtypes, for issubdtype.
#[pyclass(name = "DtypeCategory", module = "isopace.core", frozen, eq, hash)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub(crate) enum Category {
    complexfloating,
    floating,
    inexact,
    signedinteger,
    unsignedinteger,
    integer,
    number,
    generic,
}

use Category::*;

impl Category {
    const ALL: [(Category, &str); 8] = [
        (complexfloating, "complexfloating"),
        (floating, "floating"),
        (inexact, "inexact"),
        (signedinteger, "signedinteger"),
        (unsignedinteger, "unsignedinteger"),
        (integer, "integer"),
        (number, "number"),
        (generic, "generic"),
    ];

    fn of(d: Dtype) -> Category {
        match d {
            Dtype::C64 => complexfloating,
            d if d.is_float() => floating,
            d if d.is_unsigned() => unsignedinteger,
            d if d.is_int() => signedinteger,
            _ => generic,
        }
    }

    fn parent(self) -> Option<Category> {
        match self {
            complexfloating | floating => Some(inexact),
            signedinteger | unsignedinteger => Some(integer),
            inexact | integer => Some(number),
            number => Some(generic),
            generic => None,
        }
    }

    fn within(self, other: Category) -> bool {
        self == other || self.parent().is_some_and(|p| p.within(other))
    }
}

#[pymethods]
impl Category {
    #[getter]
    fn name(&self) -> &'static str {
        Category::ALL.iter().find(|c| c.0 == *self).map_or("", |c| c.1)
    }
    #[getter]
    fn value(&self) -> isize {
        *self as isize
    }
    #[classattr]
    fn __members__() -> BTreeMap<&'static str, Category> {
        Category::ALL.into_iter().map(|(c, name)| (name, c)).collect()
    }
    fn __repr__(&self) -> String {
        format!("DtypeCategory.{}", self.name())
    }
}

enum Kind {
    Dtype(Dtype),
    Category(Category),
}

fn kind(x: &Bound<'_, PyAny>) -> PyResult<Kind> {
    if let Ok(d) = x.cast::<PyDtype>() {
        return Ok(Kind::Dtype(d.get().0));
    }
    if let Ok(c) = x.cast::<Category>() {
        return Ok(Kind::Category(*c.get()));
    }
    Err(value_error(format!("[issubdtype] expected a Dtype or a DtypeCategory, got {}", x.get_type())))
}

/// True when the first dtype or category is the second or within it.
///
/// Raises TypeError for others.
///
/// >>> mx.issubdtype(mx.float16, mx.floating)
/// True
#[pyfunction]
#[pyo3(signature = (arg1, arg2, /))]
fn issubdtype(arg1: &Bound<'_, PyAny>, arg2: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(match (kind(arg1)?, kind(arg2)?) {
        (Kind::Dtype(a), Kind::Dtype(b)) => a == b,
        (Kind::Dtype(a), Kind::Category(b)) => Category::of(a).within(b),
        (Kind::Category(_), Kind::Dtype(_)) => false,
        (Kind::Category(a), Kind::Category(b)) => a.within(b),
    })
}

/// An optional dtype argument: a Dtype and nothing else.
pub(crate) struct DtypeArg(pub(crate) Dtype);

impl<'a, 'py> FromPyObject<'a, 'py> for DtypeArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match obj.cast::<PyDtype>() {
            Ok(d) => Ok(DtypeArg(d.get().0)),
            Err(_) => {
                Err(type_error(format!("expected an mx dtype such as mx.float32, got {}", obj.get_type())))
            }
        }
    }
}

/// Limits of a floating dtype: `(min, max, eps, smallest_normal, bits, dtype)`.
#[pyfunction]
fn _finfo(py: Python<'_>, d: DtypeArg) -> PyResult<(f64, f64, f64, f64, u32, Py<PyDtype>)> {
    let (d, real) = (d.0, if d.0 == Dtype::C64 { Dtype::F32 } else { d.0 });
    let (max, eps, tiny) = match real {
        Dtype::F16 => (65504.0, 2f64.powi(-10), 2f64.powi(-14)),
        Dtype::BF16 => (half::bf16::MAX.to_f64(), 2f64.powi(-7), 2f64.powi(-126)),
        Dtype::F32 => (f32::MAX as f64, f32::EPSILON as f64, f32::MIN_POSITIVE as f64),
        Dtype::F64 => (f64::MAX, f64::EPSILON, f64::MIN_POSITIVE),
        _ => return Err(value_error(format!("[finfo] {d} is not a floating dtype"))),
    };
    Ok((-max, max, eps, tiny, real.size() as u32 * 8, object(py, if d == Dtype::C64 { real } else { d })?))
}

/// Limits of an integer dtype: `(min, max, dtype)`.
#[pyfunction]
fn _iinfo(py: Python<'_>, d: DtypeArg) -> PyResult<(i128, i128, Py<PyDtype>)> {
    match d.0.int_range() {
        Some((lo, hi)) if d.0 != Dtype::Bool => Ok((lo, hi, object(py, d.0)?)),
        _ => Err(value_error(format!("[iinfo] {} is not an integer dtype", d.0))),
    }
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = m.py();
    m.add_class::<PyDtype>()?;
    m.add_class::<Category>()?;
    for d in Dtype::ALL {
        m.add(if d == Dtype::Bool { "bool_" } else { d.name() }, object(py, d)?)?;
    }
    for (c, name) in Category::ALL {
        m.add(name, c)?;
    }
    m.add_function(wrap_pyfunction!(issubdtype, m)?)?;
    m.add_function(wrap_pyfunction!(_dtype_named, m)?)?;
    m.add_function(wrap_pyfunction!(_finfo, m)?)?;
    m.add_function(wrap_pyfunction!(_iinfo, m)?)?;
    Ok(())
}

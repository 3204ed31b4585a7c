//! What a traced function sees in the place of an int or float whose value changes from call to call.
//!
//! It is not a C int, which would hand out a value that is stale at the next call; its `__class__`
//! says int or float, so that isinstance answers as for the number. What it cannot do symbolically
//! takes the value, which makes the argument static.

use crate::convert;
use crate::errors::{OrRaise, raise};
use crate::raw;
use isopace_core::{Cmp, Number, NumberKind, Scalar, ScalarOp};
use pyo3::basic::CompareOp;
use pyo3::exceptions::PyNotImplementedError;
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

/// A number that is only known when the compiled function is called.
#[pyclass(name = "SymbolicNumber", module = "isopace.core", frozen)]
pub(crate) struct StandIn(pub(crate) Scalar);

/// File and line of the Python code that runs now.
pub(crate) fn place(py: Python<'_>) -> String {
    let find = || -> PyResult<String> {
        let frame = py.import("sys")?.call_method1("_getframe", (0,))?;
        let file: String = frame.getattr("f_code")?.getattr("co_filename")?.extract()?;
        let line: usize = frame.getattr("f_lineno")?.extract()?;
        Ok(format!("{file}:{line}"))
    };
    find().unwrap_or_else(|_| "unknown place".into())
}

/// The other side of an operator, or `None` for what is no number.
fn other(obj: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if obj.cast::<crate::array::PyArray>().is_ok() {
        return Ok(None);
    }
    Ok(convert::scalar(obj)?.filter(|s| s.kind() != NumberKind::Complex))
}

fn not_implemented(py: Python<'_>) -> Py<PyAny> {
    py.NotImplemented()
}

impl StandIn {
    fn number(&self, py: Python<'_>, reason: &str) -> PyResult<Number> {
        self.0.value_at(reason, &place(py)).or_raise()
    }

    /// The value as a Python number; the argument becomes static.
    pub(crate) fn object(&self, py: Python<'_>, reason: &str) -> PyResult<Py<PyAny>> {
        convert::number_object(py, self.number(py, reason)?)
    }

    pub(crate) fn int(&self, py: Python<'_>, reason: &str) -> PyResult<i64> {
        let n = self.number(py, reason)?;
        n.as_int().ok_or_else(|| crate::errors::type_error(format!("expected an int, got the float {n}")))
    }

    fn binary(&self, py: Python<'_>, op: ScalarOp, x: &Bound<'_, PyAny>, swap: bool) -> PyResult<Py<PyAny>> {
        let Some(o) = other(x)? else { return Ok(not_implemented(py)) };
        let s = if swap { o.binary(op, &self.0) } else { self.0.binary(op, &o) };
        convert::scalar_object(py, &s)
    }

    /// What only the value can do.
    fn fall_back(&self, py: Python<'_>, name: &str, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let reason = format!("{name} of a number");
        let mut plain = Vec::new();
        for a in args.iter() {
            plain.push(match a.cast::<StandIn>() {
                Ok(s) => s.get().object(py, &reason)?,
                Err(_) => a.unbind(),
            });
        }
        self.object(py, &reason)?.call_method1(py, name, PyTuple::new(py, plain)?)
    }
}

#[pymethods]
impl StandIn {
    #[getter(__class__)]
    fn class<'py>(&self, py: Python<'py>) -> Bound<'py, pyo3::types::PyType> {
        match self.0.kind() {
            NumberKind::Float => py.get_type::<PyFloat>(),
            _ => py.get_type::<PyInt>(),
        }
    }

    fn __add__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Add, x, false)
    }
    fn __radd__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Add, x, true)
    }
    fn __sub__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Sub, x, false)
    }
    fn __rsub__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Sub, x, true)
    }
    fn __mul__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Mul, x, false)
    }
    fn __rmul__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Mul, x, true)
    }
    fn __truediv__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Div, x, false)
    }
    fn __rtruediv__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Div, x, true)
    }
    fn __floordiv__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::FloorDiv, x, false)
    }
    fn __rfloordiv__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::FloorDiv, x, true)
    }
    fn __mod__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Mod, x, false)
    }
    fn __rmod__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Mod, x, true)
    }
    fn __pow__(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        modulo: &Bound<'_, PyAny>,
    ) -> PyResult<Py<PyAny>> {
        if !modulo.is_none() {
            return self.fall_back(py, "__pow__", &PyTuple::new(py, [x, modulo])?);
        }
        self.binary(py, ScalarOp::Pow, x, false)
    }
    fn __rpow__(&self, py: Python<'_>, x: &Bound<'_, PyAny>, _m: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.binary(py, ScalarOp::Pow, x, true)
    }
    fn __divmod__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let q = self.binary(py, ScalarOp::FloorDiv, x, false)?;
        let r = self.binary(py, ScalarOp::Mod, x, false)?;
        Ok((q, r).into_pyobject(py)?.into_any().unbind())
    }
    fn __rdivmod__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let q = self.binary(py, ScalarOp::FloorDiv, x, true)?;
        let r = self.binary(py, ScalarOp::Mod, x, true)?;
        Ok((q, r).into_pyobject(py)?.into_any().unbind())
    }
    fn __neg__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        convert::scalar_object(py, &-&self.0)
    }
    fn __pos__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __abs__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let (py, s) = (slf.py(), &slf.get().0);
        if s.compare_at(Cmp::Lt, 0, &place(py)).or_raise()? {
            return convert::scalar_object(py, &-s);
        }
        Ok(slf.clone().into_any().unbind())
    }
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.compare_at(Cmp::Ne, 0, &place(py)).or_raise()
    }
    fn __richcmp__(&self, py: Python<'_>, x: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let Some(o) = other(x)? else { return Ok(not_implemented(py)) };
        let cmp = match op {
            CompareOp::Eq => Cmp::Eq,
            CompareOp::Ne => Cmp::Ne,
            CompareOp::Lt => Cmp::Lt,
            CompareOp::Le => Cmp::Le,
            CompareOp::Gt => Cmp::Gt,
            CompareOp::Ge => Cmp::Ge,
        };
        Ok(Py::new(py, Comparison { a: self.0.clone(), cmp, b: o })?.into_any())
    }
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.object(py, "hash of a number")?.bind(py).hash()
    }
    fn __int__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let n = self.object(py, "int() of a number")?;
        Ok(py.get_type::<PyInt>().call1((n,))?.unbind())
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.number(py, "float() of a number")?.as_f64())
    }
    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        if raw::unpacking() {
            return Err(crate::errors::type_error("a symbolic bound is taken as it is"));
        }
        self.int(py, "a loop count, size or index outside of arrays")
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        self.object(py, "repr of a number")?.bind(py).repr()?.extract()
    }
    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        self.object(py, "str of a number")?.bind(py).str()?.extract()
    }
    fn __format__(&self, py: Python<'_>, spec: &str) -> PyResult<String> {
        self.object(py, "formatting a number")?.call_method1(py, "__format__", (spec,))?.extract(py)
    }
    #[pyo3(signature = (*args))]
    fn __round__(&self, py: Python<'_>, args: &Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        self.fall_back(py, "__round__", args)
    }
    fn __trunc__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        whole(slf, "__trunc__")
    }
    fn __floor__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        whole(slf, "__floor__")
    }
    fn __ceil__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        whole(slf, "__ceil__")
    }
    fn __invert__(slf: &Bound<'_, Self>) -> PyResult<Py<PyAny>> {
        let s = &slf.get().0;
        if s.kind() == NumberKind::Float {
            return slf.get().fall_back(slf.py(), "__invert__", &PyTuple::empty(slf.py()));
        }
        convert::scalar_object(slf.py(), &(&-s - 1))
    }
    fn __and__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__and__", x)
    }
    fn __rand__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__rand__", x)
    }
    fn __or__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__or__", x)
    }
    fn __ror__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__ror__", x)
    }
    fn __xor__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__xor__", x)
    }
    fn __rxor__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__rxor__", x)
    }
    fn __lshift__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__lshift__", x)
    }
    fn __rlshift__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__rlshift__", x)
    }
    fn __rshift__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__rshift__", x)
    }
    fn __rrshift__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.bits(py, "__rrshift__", x)
    }
    fn __copy__(slf: Py<Self>) -> Py<Self> {
        slf
    }
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }
    fn __reduce__(&self) -> PyResult<()> {
        Err(PyNotImplementedError::new_err(
            "[compile] a number of a function being compiled cannot be pickled",
        ))
    }
    /// Every other attribute is the number's own.
    fn __getattr__(slf: &Bound<'_, Self>, name: &str) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        match name {
            "real" | "numerator" => Ok(slf.clone().into_any().unbind()),
            // Zero of the same kind.
            "imag" => convert::scalar_object(py, &slf.get().0.binary(ScalarOp::Mul, &Scalar::from(0))),
            n if n.starts_with("__") => {
                Err(pyo3::exceptions::PyAttributeError::new_err(format!("a number has no attribute {n}")))
            }
            n => slf.get().object(py, &format!("attribute {n} of a number"))?.getattr(py, n),
        }
    }
}

impl StandIn {
    fn bits(&self, py: Python<'_>, name: &str, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        if x.cast::<crate::array::PyArray>().is_ok() {
            return Ok(not_implemented(py));
        }
        self.fall_back(py, name, &PyTuple::new(py, [x])?)
    }
}

fn whole(slf: &Bound<'_, StandIn>, name: &str) -> PyResult<Py<PyAny>> {
    if slf.get().0.kind() == NumberKind::Float {
        return slf.get().fall_back(slf.py(), name, &PyTuple::empty(slf.py()));
    }
    Ok(slf.clone().into_any().unbind())
}

/// A comparison of numbers of which one changes from call to call; as a condition it is a guard.
#[pyclass(module = "isopace.core", frozen)]
pub(crate) struct Comparison {
    a: Scalar,
    cmp: Cmp,
    b: Scalar,
}

impl Comparison {
    fn decide(&self, py: Python<'_>) -> PyResult<bool> {
        self.a.compare_at(self.cmp, &self.b, &place(py)).map_err(raise)
    }

    /// An operator of the bool that this is.
    fn as_bool(&self, py: Python<'_>, name: &str, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let me = self.decide(py)?.into_pyobject(py)?.to_owned();
        Ok(me.call_method1(name, (x,))?.unbind())
    }
}

#[pymethods]
impl Comparison {
    #[getter(__class__)]
    fn class<'py>(&self, py: Python<'py>) -> Bound<'py, pyo3::types::PyType> {
        py.get_type::<pyo3::types::PyBool>()
    }
    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        self.decide(py)
    }
    fn __index__(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.decide(py)? as i64)
    }
    fn __int__(&self, py: Python<'_>) -> PyResult<i64> {
        Ok(self.decide(py)? as i64)
    }
    fn __float__(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.decide(py)? as u8 as f64)
    }
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(if self.decide(py)? { "True" } else { "False" }.into())
    }
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        Ok(self.decide(py)? as isize)
    }
    fn __richcmp__(&self, py: Python<'_>, x: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let me = self.decide(py)?.into_pyobject(py)?.to_owned();
        Ok(me.rich_compare(x, op)?.unbind())
    }
    fn __add__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__add__", x)
    }
    fn __radd__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__radd__", x)
    }
    fn __sub__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__sub__", x)
    }
    fn __rsub__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__rsub__", x)
    }
    fn __mul__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__mul__", x)
    }
    fn __rmul__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__rmul__", x)
    }
    fn __and__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__and__", x)
    }
    fn __rand__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__rand__", x)
    }
    fn __or__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__or__", x)
    }
    fn __ror__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__ror__", x)
    }
    fn __xor__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__xor__", x)
    }
    fn __rxor__(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        self.as_bool(py, "__rxor__", x)
    }
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let me = self.decide(py)?.into_pyobject(py)?.to_owned();
        Ok(me.getattr(name)?.unbind())
    }
}

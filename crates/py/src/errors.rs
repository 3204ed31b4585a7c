//! Errors of the core as Python exceptions: MLX's classes, our texts.

use isopace_core::Error;
use pyo3::PyErr;
use pyo3::exceptions::*;

/// The Python exception for an error.
pub(crate) fn raise(e: Error) -> PyErr {
    let text = e.to_string();
    match e {
        Error::Shape(_) | Error::Dtype(_) | Error::Argument(_) | Error::Trace(_) => {
            PyValueError::new_err(text)
        }
        Error::Axis(_) => PyIndexError::new_err(text),
        Error::OutOfMemory(_) => PyMemoryError::new_err(text),
        Error::Unsupported(_) => PyNotImplementedError::new_err(text),
        _ => PyRuntimeError::new_err(text),
    }
}

/// `?` on results of the core.
pub(crate) trait OrRaise<T> {
    fn or_raise(self) -> pyo3::PyResult<T>;
}

impl<T> OrRaise<T> for isopace_core::Result<T> {
    #[inline]
    fn or_raise(self) -> pyo3::PyResult<T> {
        self.map_err(raise)
    }
}

/// A ValueError with this text.
pub(crate) fn value_error(text: impl Into<String>) -> PyErr {
    PyValueError::new_err(text.into())
}

/// A TypeError with this text.
pub(crate) fn type_error(text: impl Into<String>) -> PyErr {
    PyTypeError::new_err(text.into())
}

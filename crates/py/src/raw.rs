//! The few places where PyO3's safe interface costs too much or does not reach.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PySlice;
use std::cell::{Cell, UnsafeCell};

/// A value that is only touched by a thread that holds the GIL, which the `Python` token proves.
///
/// No reference to the value leaves this type, and no Python code runs while one exists, so accesses
/// never overlap.
pub(crate) struct GilCell<T>(UnsafeCell<T>);

// SAFETY: every access takes a `Python` token, so accesses are ordered by the GIL; abi3 builds do not
// load into free-threaded interpreters. Upheld by this module: the field is private.
unsafe impl<T: Send> Sync for GilCell<T> {}

impl<T> GilCell<T> {
    pub(crate) fn new(value: T) -> Self {
        GilCell(UnsafeCell::new(value))
    }

    /// Puts another value in and returns the old one.
    #[inline]
    pub(crate) fn replace(&self, _py: Python<'_>, value: T) -> T {
        // SAFETY: the GIL is held and no reference is alive (upheld by this type).
        unsafe { std::mem::replace(&mut *self.0.get(), value) }
    }
}

impl<T: Clone> GilCell<T> {
    /// A copy of the value. `T::clone` must not run Python code: it is used for arrays and numbers.
    #[inline]
    pub(crate) fn get(&self, _py: Python<'_>) -> T {
        // SAFETY: the GIL is held, and cloning an array runs no Python code, so nothing writes
        // meanwhile (upheld by the users of this type, which are in this crate).
        unsafe { (*self.0.get()).clone() }
    }
}

/// The value of a Python int, `None` when it leaves 64 bits.
#[inline]
pub(crate) fn int_value(obj: &Bound<'_, PyAny>) -> PyResult<Option<i64>> {
    let mut overflow = 0;
    // SAFETY: `obj` is a live object and the GIL is held, both proven by `Bound`.
    let v = unsafe { ffi::PyLong_AsLongLongAndOverflow(obj.as_ptr(), &mut overflow) };
    if overflow != 0 {
        return Ok(None);
    }
    if v == -1
        && let Some(e) = PyErr::take(obj.py())
    {
        return Err(e);
    }
    Ok(Some(v))
}

thread_local! {
    static UNPACKING: Cell<bool> = const { Cell::new(false) };
}

/// Start, stop and step of a slice of ints and None, where absent bounds are as far as the step's sign allows. `None`
/// when a bound is something else.
pub(crate) fn slice_bounds(slice: &Bound<'_, PySlice>) -> Option<[i64; 3]> {
    let (mut start, mut stop, mut step) = (0, 0, 0);
    UNPACKING.set(true);
    // SAFETY: `slice` is a live slice object and the GIL is held, both proven by `Bound`; the places are valid.
    let failed = unsafe { ffi::PySlice_Unpack(slice.as_ptr(), &mut start, &mut stop, &mut step) } != 0;
    UNPACKING.set(false);
    if failed {
        drop(PyErr::take(slice.py()));
        return None;
    }
    Some([start as i64, stop as i64, step as i64])
}

/// True while this thread asks a slice for its bounds: arrays and symbolic numbers are then not to answer.
pub(crate) fn unpacking() -> bool {
    UNPACKING.get()
}

/// Python strings whose text is used as long as this lives.
#[derive(Default)]
pub(crate) struct Texts(std::cell::RefCell<smallvec::SmallVec<[Py<pyo3::types::PyString>; 4]>>);

impl Texts {
    /// The UTF-8 text of a string, which is kept alive with this.
    pub(crate) fn text<'a>(&'a self, s: &Bound<'_, pyo3::types::PyString>) -> PyResult<&'a str> {
        let mut len = 0;
        // SAFETY: `s` is a live str and the GIL is held, both proven by `Bound`.
        let p = unsafe { ffi::PyUnicode_AsUTF8AndSize(s.as_ptr(), &mut len) };
        if p.is_null() {
            return Err(PyErr::fetch(s.py()));
        }
        self.0.borrow_mut().push(s.clone().unbind());
        // SAFETY: CPython keeps the UTF-8 form, which never changes, in the str object, and that is
        // held until `self` drops, after 'a.
        let bytes = unsafe { std::slice::from_raw_parts(p.cast::<u8>(), len as usize) };
        // SAFETY: CPython returns valid UTF-8.
        Ok(unsafe { std::str::from_utf8_unchecked(bytes) })
    }
}

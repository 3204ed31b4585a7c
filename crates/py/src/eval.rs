//! Evaluation: the GIL is released while it runs, and Ctrl-C ends it.

use crate::array::PyArray;
use crate::errors::{OrRaise, raise, value_error};
use isopace_core::backend::Value;
use isopace_core::{Array, Error, runtime};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Evaluations that the main thread waits for.
static MAIN_WAITS: AtomicBool = AtomicBool::new(false);
static MAIN_THREAD: AtomicUsize = AtomicUsize::new(0);
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);

/// Runs without the GIL what may take long.
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    f: impl FnOnce() -> isopace_core::Result<T> + Send,
) -> PyResult<T> {
    let main = MAIN_THREAD.load(Ordering::Relaxed) == thread();
    if main {
        watch();
        MAIN_WAITS.store(true, Ordering::Relaxed);
    }
    let out = py.detach(f);
    if main {
        MAIN_WAITS.store(false, Ordering::Relaxed);
        // Also where Ctrl-C came too late to stop anything: the next evaluation is another one.
        runtime::clear_interrupt();
        if let Err(Error::Device(text) | Error::Kernel(text)) = &out
            && text.contains("interrupted")
        {
            py.check_signals()?;
        }
    }
    // What is only found while computing is a RuntimeError, as in MLX.
    out.map_err(|e| match e {
        Error::Argument(text) | Error::Shape(text) | Error::Dtype(text) => PyRuntimeError::new_err(text),
        e => raise(e),
    })
}

fn thread() -> usize {
    thread_local! { static HERE: u8 = const { 0 }; }
    HERE.with(|h| std::ptr::from_ref(h) as usize)
}

pub(crate) fn eval(py: Python<'_>, arrays: &[Array]) -> PyResult<()> {
    run(py, || runtime::eval(arrays))
}

/// The value of an array.
pub(crate) fn value(py: Python<'_>, a: &Array) -> PyResult<Value> {
    if !a.is_ready() {
        eval(py, std::slice::from_ref(a))?;
    }
    a.value().or_raise()
}

/// The elements in row-major order, as bytes.
pub(crate) fn bytes(py: Python<'_>, a: &Array) -> PyResult<Vec<u8>> {
    if !a.is_ready() {
        eval(py, std::slice::from_ref(a))?;
    }
    a.to_bytes().or_raise()
}

/// Deeper trees than this are refused: a list may hold itself.
const MAX_DEPTH: usize = 500;

/// The arrays of a tree of lists, tuples and dicts, and of their subclasses.
pub(crate) fn arrays(obj: &Bound<'_, PyAny>, out: &mut Vec<Array>, depth: usize) -> PyResult<()> {
    if let Ok(a) = obj.cast::<PyArray>() {
        out.push(a.get().array(obj.py()));
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(value_error(format!("[eval] the tree is nested more than {MAX_DEPTH} deep")));
    }
    if let Ok(l) = obj.cast::<PyList>() {
        for x in l.iter() {
            arrays(&x, out, depth + 1)?;
        }
    } else if let Ok(t) = obj.cast::<PyTuple>() {
        for x in t.iter_borrowed() {
            arrays(&x, out, depth + 1)?;
        }
    } else if let Ok(d) = obj.cast::<PyDict>() {
        for (_, x) in d.iter() {
            arrays(&x, out, depth + 1)?;
        }
    } else if obj.cast::<crate::random::RandomState>().is_ok() {
        out.push(isopace_core::api::random::state().or_raise()?);
    }
    Ok(())
}

/// Computes the arrays in the trees given, and waits.
///
/// Trees are lists, tuples and dicts; what else they hold is passed over. Raises what a computation ran into, and
/// ValueError while a function is traced.
///
/// >>> x = mx.array([1, 2]) + 1
/// >>> mx.eval(x, {"y": [x * 2]})
#[pyfunction]
#[pyo3(name = "eval", signature = (*args))]
fn eval_trees(args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut out = Vec::new();
    for x in args.iter_borrowed() {
        arrays(&x, &mut out, 0)?;
    }
    if out.iter().all(|a| a.is_ready()) {
        return Ok(());
    }
    eval(args.py(), &out)
}

/// Starts computing the arrays in the trees given, and returns.
///
/// Errors show when a result is read.
///
/// >>> y = mx.array([1, 2]) * 2
/// >>> mx.async_eval(y)
/// >>> y
/// array([2, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (*args))]
fn async_eval(args: &Bound<'_, PyTuple>) -> PyResult<()> {
    let mut out = Vec::new();
    for x in args.iter_borrowed() {
        arrays(&x, &mut out, 0)?;
    }
    run(args.py(), || runtime::async_eval(&out))
}

/// Waits for everything that was started.
///
/// >>> mx.synchronize()
#[pyfunction]
#[pyo3(signature = (stream = None))]
fn synchronize(py: Python<'_>, stream: Option<crate::device::StreamArg>) -> PyResult<()> {
    // There is one queue: whatever stream is named, waiting for it is waiting for all.
    let _ = stream;
    run(py, || {
        runtime::synchronize();
        Ok(())
    })
}

extern "C" fn on_interrupt(signal: libc::c_int) {
    if MAIN_WAITS.load(Ordering::Relaxed) {
        runtime::interrupt();
    }
    let previous = PREVIOUS.load(Ordering::Relaxed);
    if previous > 1 {
        // SAFETY: the address of the handler that `watch` found, which takes a signal number.
        let f: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(previous) };
        f(signal);
    }
}

/// Has Ctrl-C end an evaluation that the main thread waits for, before Python's own handler runs.
/// Asked before each wait, as `signal.signal` puts Python's handler in the place of this one.
fn watch() {
    let ours = on_interrupt as *const () as usize;
    // SAFETY: an all-zero sigaction is a valid value of that C struct.
    let mut old: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; `old` is a valid place.
    if unsafe { libc::sigaction(libc::SIGINT, std::ptr::null(), &mut old) } != 0 || old.sa_sigaction == ours {
        return;
    }
    if old.sa_sigaction <= 1 || old.sa_flags & libc::SA_SIGINFO != 0 {
        return;
    }
    PREVIOUS.store(old.sa_sigaction, Ordering::Relaxed);
    let new = libc::sigaction { sa_sigaction: ours, ..old };
    // SAFETY: the handler only touches atomics and calls the handler that was there before.
    unsafe { libc::sigaction(libc::SIGINT, &new, std::ptr::null_mut()) };
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let threading = m.py().import("threading")?;
    let here = threading.call_method0("current_thread")?;
    if here.is(&threading.call_method0("main_thread")?) {
        MAIN_THREAD.store(thread(), Ordering::Relaxed);
    }
    m.add_function(wrap_pyfunction!(eval_trees, m)?)?;
    m.add_function(wrap_pyfunction!(async_eval, m)?)?;
    m.add_function(wrap_pyfunction!(synchronize, m)?)?;
    Ok(())
}

//! `mx.compile`: Python arguments as the core's leaves, and results back.

mod args;
mod results;

use crate::array::PyArray;
use crate::errors::{OrRaise, raise, type_error, value_error};
use crate::overlay::Layer;
use crate::random::RandomState;
use crate::raw::Texts;
use crate::standin::{Comparison, StandIn};
use args::{Flatten, Found, Rebuild, flatten};
use isopace_core::compile::{self, Container, Function, Leaves, Miss, Options, Outputs, ScalarMode, Traced};
use isopace_core::{Array, Error, Scalar};
use pyo3::exceptions::{PyAttributeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use results::{Collect, Fill, Payload, Snapshot, Template};
use std::sync::Arc;

pyo3::create_exception!(
    isopace,
    RecompileWarning,
    PyUserWarning,
    "A compiled function is traced again and again."
);

/// Deeper arguments than this are refused: a list may hold itself.
const MAX_DEPTH: usize = 200;

/// What the trace of one call needs, without a lock of Python's.
struct Tracing<'a> {
    fun: &'a Py<PyAny>,
    args: &'a Py<PyTuple>,
    kwargs: Option<&'a Py<PyDict>>,
    inputs: Option<&'a Py<PyAny>>,
    outputs: Option<&'a Py<PyAny>>,
    found: &'a Found,
    /// What the function raised.
    raised: Option<PyErr>,
}

impl Tracing<'_> {
    fn run(&mut self, arrays: &[Array], scalars: &[Scalar]) -> isopace_core::Result<Traced> {
        self.raised = None;
        Python::attach(|py| self.trace(py, arrays, scalars)).map_err(|e| {
            let text = e.to_string();
            self.raised = Some(e);
            Error::Trace(text)
        })
    }

    fn trace(&self, py: Python<'_>, arrays: &[Array], scalars: &[Scalar]) -> PyResult<Traced> {
        let mut leaves = Rebuild { arrays: arrays.iter(), scalars: scalars.iter() };
        let args = self.args.bind(py).iter().map(|x| leaves.value(&x)).collect::<PyResult<Vec<_>>>()?;
        let args = PyTuple::new(py, args)?;
        let kwargs = match self.kwargs {
            None => None,
            Some(kw) => {
                let out = PyDict::new(py);
                for (k, v) in kw.bind(py).iter() {
                    out.set_item(k, leaves.value(&v)?)?;
                }
                Some(out)
            }
        };
        let mut before = Snapshot::new();
        for state in [self.inputs, self.outputs].into_iter().flatten() {
            before.take(state.bind(py), 0)?;
        }
        let pairs =
            self.found.arrays.iter().map(|h| Ok((h.get(), leaves.array()?))).collect::<PyResult<Vec<_>>>()?;
        let layer = Layer::push(pairs.into_iter());
        let ran = self.body(py, &mut leaves, &args, kwargs.as_ref());
        drop(layer);
        before.restore(py)?;
        ran
    }

    /// Runs the function with captured state replaced, and takes its results.
    fn body(
        &self,
        py: Python<'_>,
        leaves: &mut Rebuild<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Traced> {
        for (container, key) in &self.found.numbers {
            let (container, key) = (container.bind(py), key.bind(py));
            let old = container.get_item(key)?;
            let new = leaves.number(&old)?;
            if let Ok(d) = container.cast::<PyDict>() {
                d.set_item(key, new)?;
            } else {
                container.set_item(key, new)?;
            }
        }
        let result = self.fun.bind(py).call(args, kwargs)?;
        let mut collect = Collect::default();
        let result = collect.value(&result, 0)?;
        let state = self.outputs.map(|o| collect.value(o.bind(py), 0)).transpose()?;
        let payload = Arc::new(Payload { result, state });
        Ok(Traced { arrays: collect.arrays, scalars: collect.scalars, payload })
    }
}

/// A compiled function. Reading an attribute reads the function's own.
#[pyclass(name = "_gc_func", module = "isopace.core", subclass)]
pub(crate) struct Compiled {
    fun: Option<Py<PyAny>>,
    function: Arc<Function>,
    inputs: Option<Py<PyAny>>,
    outputs: Option<Py<PyAny>>,
}

/// Attributes of the wrapper itself.
const OWN: [&str; 4] = ["explain", "cache_info", "clear_cache", "__call__"];

impl Compiled {
    fn fun<'py>(&self, py: Python<'py>) -> PyResult<&Bound<'py, PyAny>> {
        match &self.fun {
            Some(f) => Ok(f.bind(py)),
            None => Err(type_error("[compile] the function has been collected")),
        }
    }
}

#[pymethods]
impl Compiled {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__(
        &self,
        py: Python<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Py<PyAny>> {
        let texts = Texts::default();
        let mut leaves = Leaves::new();
        if self.function.is_transparent() {
            if !compile::is_tracing() {
                // Switched off, arguments are still checked.
                flatten(&texts, &mut leaves, args, kwargs)?;
            }
            return Ok(self.fun(py)?.call(args, kwargs)?.unbind());
        }
        flatten(&texts, &mut leaves, args, kwargs)?;
        let mut found = None;
        if let Some(state) = &self.inputs {
            leaves.open(Container::State, 1);
            let found = found.insert(Found::default());
            Flatten { texts: &texts, leaves: &mut leaves }.state(state.bind(py), found, 0)?;
        }
        let out = match self.function.hit(&mut leaves) {
            Some(out) => out.or_raise()?,
            None => self.miss(py, leaves, args, kwargs, &found.unwrap_or_default())?,
        };
        self.finish(py, out)
    }

    /// What was traced, why, and what is kept, as text.
    fn explain(&self) -> String {
        self.function.explain().to_string()
    }

    /// Counters of the cache.
    fn cache_info(&self) -> CacheInfo {
        let s = self.function.stats();
        CacheInfo {
            calls: s.calls,
            hits: s.hits,
            misses: s.misses,
            traces: s.traces,
            reshaped: s.reshaped,
            failed: s.failed,
            evictions: s.evictions,
            entries: s.entries,
            variants: s.variants,
            nbytes: s.nbytes,
            trace_us: s.trace_us,
        }
    }

    /// Drops every entry.
    fn clear_cache(&self) {
        self.function.clear_cache();
    }

    fn __getattribute__(slf: &Bound<'_, Self>, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let text = name.to_str()?;
        if OWN.contains(&text) {
            let object = slf.py().import("builtins")?.getattr("object")?;
            return Ok(object.call_method1("__getattribute__", (slf, name))?.unbind());
        }
        if text == "__dir__" {
            let py = slf.py();
            let names = py.import("builtins")?.getattr("dir")?.call1((slf.borrow().fun(py)?,))?;
            let names = names.cast_into::<PyList>()?;
            for n in &OWN[..3] {
                names.append(*n)?;
            }
            return Ok(pyo3::types::PyCFunction::new_closure(py, None, None, {
                let names = names.unbind();
                move |args: &Bound<'_, PyTuple>, _kw: Option<&Bound<'_, PyDict>>| names.clone_ref(args.py())
            })?
            .into_any()
            .unbind());
        }
        Ok(slf.borrow().fun(slf.py())?.getattr(name)?.unbind())
    }

    fn __dir__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let names = py.import("builtins")?.getattr("dir")?.call1((self.fun(py)?,))?.cast_into::<PyList>()?;
        for n in &OWN[..3] {
            names.append(*n)?;
        }
        Ok(names)
    }

    fn __setattr__(&self, name: &str, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!("a compiled function takes no attributes: {name}")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.fun)?;
        visit.call(&self.inputs)?;
        visit.call(&self.outputs)
    }

    fn __clear__(&mut self) {
        self.fun = None;
        self.inputs = None;
        self.outputs = None;
    }
}

/// Counters of a compiled function's cache.
#[pyclass(module = "isopace", frozen, get_all)]
#[derive(Debug)]
pub(crate) struct CacheInfo {
    calls: u64,
    hits: u64,
    misses: u64,
    traces: u64,
    reshaped: u64,
    failed: u64,
    evictions: u64,
    entries: usize,
    variants: usize,
    nbytes: usize,
    trace_us: f64,
}

#[pymethods]
impl CacheInfo {
    fn __repr__(&self) -> String {
        format!("{self:?}").replace(" { ", "(").replace(" }", ")").replace(": ", "=")
    }
}

impl Compiled {
    #[cold]
    fn miss(
        &self,
        py: Python<'_>,
        leaves: Leaves<'_>,
        args: &Bound<'_, PyTuple>,
        kwargs: Option<&Bound<'_, PyDict>>,
        found: &Found,
    ) -> PyResult<Outputs> {
        let fun = self.fun(py)?.clone().unbind();
        let args = args.clone().unbind();
        let kwargs = kwargs.map(|k| k.clone().unbind());
        let mut tracing = Tracing {
            fun: &fun,
            args: &args,
            kwargs: kwargs.as_ref(),
            inputs: self.inputs.as_ref(),
            outputs: self.outputs.as_ref(),
            found,
            raised: None,
        };
        let function = &self.function;
        let out = py.detach(|| function.after_miss(leaves, &mut |a, s| tracing.run(a, s)));
        if let Some(text) = self.function.take_warning() {
            let category = py.get_type::<RecompileWarning>();
            py.import("warnings")?.call_method1("warn", (text, category, 2))?;
        }
        match (out, tracing.raised) {
            (Err(Error::Trace(_)), Some(e)) => Err(e),
            (out, _) => out.or_raise(),
        }
    }

    fn finish(&self, py: Python<'_>, out: Outputs) -> PyResult<Py<PyAny>> {
        let Outputs { mut arrays, scalars, payload } = out;
        let payload = payload
            .downcast_ref::<Payload>()
            .ok_or_else(|| raise(isopace_core::err!(Internal, "[compile] the result is of another kind")))?;
        // One array, the usual result, needs no walk over a template.
        if let (Template::Array, None) = (&payload.result, &payload.state)
            && let Some(a) = arrays.pop()
        {
            return Ok(Py::new(py, PyArray::new(a))?.into_any());
        }
        let mut fill = Fill { arrays: arrays.into_iter(), scalars: scalars.into_iter() };
        let result = fill.value(py, &payload.result)?;
        if let (Some(t), Some(place)) = (&payload.state, &self.outputs) {
            fill.write_back(place.bind(py), t)?;
        }
        Ok(result)
    }
}

/// Compiles a function: it is traced at its first call, and later calls of the same form run its plan.
///
/// Arrays are known to the function by shape and dtype. An int or float starts as a constant; when a
/// second value arrives, the function is traced again with it symbolic, and one plan serves every value.
/// bool, str and None are static. `inputs` and `outputs` name captured state: lists, dicts or modules
/// whose arrays and numbers count as arguments, and which are filled after each call.
///
/// Each shape is traced by itself. With `shapeless`, one trace serves all shapes of the same ranks, unless
/// the function reads an extent (`x.shape`, `len(x)`, a slice's bounds) or its ops do not say how theirs follow.
///
/// `scalars`: "auto", "static" (every value is traced by itself) or "symbolic" (from the first call on).
/// `max_variants`, `max_static_entries`, `max_bytes` bound the cache.
///
/// >>> f = mx.compile(lambda x, n: x * n + 1)
/// >>> [f(mx.array([1, 2]), n).tolist() for n in range(3)]
/// [[1, 1], [2, 3], [3, 5]]
/// >>> f.cache_info().traces
/// 2
#[pyfunction]
#[pyo3(name = "compile", signature = (
    fun = None, inputs = None, outputs = None, shapeless = false, *,
    scalars = "auto", max_variants = 8, max_static_entries = 64, max_bytes = 64 << 20
))]
fn compile_(
    py: Python<'_>,
    fun: Option<&Bound<'_, PyAny>>,
    inputs: Option<&Bound<'_, PyAny>>,
    outputs: Option<&Bound<'_, PyAny>>,
    shapeless: bool,
    scalars: &str,
    max_variants: usize,
    max_static_entries: usize,
    max_bytes: usize,
) -> PyResult<Py<PyAny>> {
    let Some(fun) = fun else { return Err(type_error("[compile] a function is needed")) };
    if !fun.is_callable() {
        return Err(type_error(format!("[compile] {} cannot be called", fun.get_type())));
    }
    let mode = match scalars {
        "auto" => ScalarMode::Auto,
        "static" => ScalarMode::Static,
        "symbolic" => ScalarMode::Symbolic,
        other => {
            return Err(value_error(format!(
                "[compile] scalars={other:?}; accepted: \"auto\", \"static\", \"symbolic\""
            )));
        }
    };
    let name = match fun.getattr_opt("__qualname__")? {
        Some(n) => n.to_string(),
        None => fun.get_type().name()?.to_string(),
    };
    let options = Options {
        scalars: mode,
        shapeless,
        max_variants,
        max_static_entries,
        max_bytes,
        ..Options::default()
    };
    let kept = |x: Option<&Bound<'_, PyAny>>| {
        x.filter(|x| !x.is_none() && x.cast::<RandomState>().is_err()).map(|x| x.clone().unbind())
    };
    let c = Compiled {
        fun: Some(fun.clone().unbind()),
        function: Function::new(name, options),
        inputs: kept(inputs),
        outputs: kept(outputs),
    };
    Ok(Py::new(py, c)?.into_any())
}

/// Runs compiled functions as they are written.
///
/// >>> mx.disable_compile()
#[pyfunction]
fn disable_compile() {
    compile::set_enabled(false);
}

/// Takes back `disable_compile`.
///
/// >>> mx.enable_compile()
#[pyfunction]
fn enable_compile() {
    compile::set_enabled(true);
}

/// Accounts of all compiled functions that are alive: name, hits, traces, entries, bytes.
///
/// >>> f = mx.compile(lambda x: x + 1)
/// >>> "<lambda>" in [name for name, *counters in mx.compile_stats()]
/// True
#[pyfunction]
fn compile_stats() -> Vec<(String, u64, u64, usize, usize)> {
    let all = compile::compile_stats().into_iter();
    all.map(|(name, s)| (name, s.hits, s.traces, s.entries, s.nbytes)).collect()
}

#[allow(clippy::print_stderr)]
fn print_miss(name: &str, miss: &Miss) {
    eprintln!("isopace: {name}: {miss} ({:.0} us)", miss.trace_us);
}

fn python_place() -> Option<String> {
    Python::try_attach(crate::standin::place)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    isopace_core::scalar::on_place(python_place);
    if std::env::var_os("ISOPACE_EXPLAIN").is_some_and(|v| !v.is_empty() && v != "0") {
        compile::on_miss(print_miss);
    }
    m.add_class::<Compiled>()?;
    m.add_class::<CacheInfo>()?;
    m.add("RecompileWarning", m.py().get_type::<RecompileWarning>())?;
    m.add_class::<StandIn>()?;
    m.add_class::<Comparison>()?;
    m.add_function(wrap_pyfunction!(compile_, m)?)?;
    m.add_function(wrap_pyfunction!(disable_compile, m)?)?;
    m.add_function(wrap_pyfunction!(enable_compile, m)?)?;
    m.add_function(wrap_pyfunction!(compile_stats, m)?)?;
    Ok(())
}

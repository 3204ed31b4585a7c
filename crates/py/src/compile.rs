//! `mx.compile`: Python arguments as the core's leaves, and results back.

use crate::array::PyArray;
use crate::convert::{self, too_large};
use crate::errors::{OrRaise, raise, type_error, value_error};
use crate::overlay::Layer;
use crate::random::RandomState;
use crate::raw::{self, Texts};
use crate::standin::{Comparison, StandIn};
use isopace_core::compile::{
    self, Container, Function, Leaves, Miss, Options, Outputs, ScalarMode, Token, Traced,
};
use isopace_core::{Array, Error, Number, Scalar};
use pyo3::exceptions::{PyAttributeError, PyUserWarning};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};
use std::sync::Arc;

pyo3::create_exception!(
    isopace,
    RecompileWarning,
    PyUserWarning,
    "A compiled function is traced again and again."
);

/// Deeper arguments than this are refused: a list may hold itself.
const MAX_DEPTH: usize = 200;

/// Flattens arguments into leaves.
struct Flatten<'a, 'b> {
    texts: &'a Texts,
    leaves: &'b mut Leaves<'a>,
}

impl<'a> Flatten<'a, '_> {
    /// One argument or a part of one. `at` says where it stands, for messages.
    fn value(&mut self, x: &Bound<'_, PyAny>, at: &At<'_>) -> PyResult<()> {
        if let Ok(a) = x.cast::<PyArray>() {
            self.leaves.array(a.get().array(x.py()));
        } else if x.is_exact_instance_of::<PyInt>() {
            let i = raw::int_value(x)?.ok_or_else(|| too_large(x))?;
            self.leaves.number(Number::Int(i));
        } else if let Ok(f) = x.cast_exact::<PyFloat>() {
            self.leaves.number(Number::Float(f.value()));
        } else if x.is_none() {
            self.leaves.fixed(Token::None);
        } else if let Ok(b) = x.cast_exact::<PyBool>() {
            self.leaves.fixed(Token::Bool(b.is_true()));
        } else if let Ok(s) = x.cast::<PyString>() {
            self.leaves.fixed(Token::Str(self.texts.text(s)?));
        } else if let Ok(t) = x.cast::<PyTuple>() {
            self.open(x, Container::Tuple, t.len(), at, t.is_exact_instance_of::<PyTuple>())?;
            for (i, x) in t.iter_borrowed().enumerate() {
                self.value(&x, &at.item(i))?;
            }
        } else if let Ok(l) = x.cast::<PyList>() {
            self.open(x, Container::List, l.len(), at, l.is_exact_instance_of::<PyList>())?;
            for (i, x) in l.iter().enumerate() {
                self.value(&x, &at.item(i))?;
            }
        } else if let Ok(d) = x.cast::<PyDict>() {
            self.open(x, Container::Map, d.len(), at, d.is_exact_instance_of::<PyDict>())?;
            for (k, v) in d.iter() {
                let text = self.key(&k, at)?;
                self.value(&v, &At::Key(at, text))?;
            }
        } else if x.is_instance_of::<PyInt>() && x.cast::<StandIn>().is_err() {
            // An enum, say: the function sees the object itself, so its value is static.
            self.leaves.fixed(Token::Int(raw::int_value(x)?.ok_or_else(|| too_large(x))?));
        } else if let Ok(f) = x.cast::<PyFloat>() {
            self.leaves.number(Number::Float(f.value()));
        } else {
            return Err(value_error(format!(
                "[compile] {at} is {}, which cannot be an argument of a compiled function; \
                 accepted: arrays, int, float, bool, str, None, and lists, tuples and dicts of them",
                x.get_type()
            )));
        }
        Ok(())
    }

    fn open(
        &mut self,
        x: &Bound<'_, PyAny>,
        c: Container,
        n: usize,
        at: &At<'_>,
        exact: bool,
    ) -> PyResult<()> {
        if at.depth() > MAX_DEPTH {
            return Err(value_error(format!("[compile] an argument is nested more than {MAX_DEPTH} deep")));
        }
        if exact {
            self.leaves.open(c, n);
        } else {
            // A named tuple, say: its class is part of the key.
            self.leaves.open(c, n + 1);
            self.leaves.fixed(Token::Int(x.get_type_ptr() as i64));
        }
        Ok(())
    }

    fn key(&mut self, k: &Bound<'_, PyAny>, at: &At<'_>) -> PyResult<&'a str> {
        let text = match k.cast::<PyString>() {
            Ok(s) => self.texts.text(s)?,
            Err(_) if k.is_instance_of::<PyInt>() || k.is_instance_of::<PyFloat>() || k.is_none() => {
                // No string starts with this character by chance.
                let name = PyString::new(k.py(), &format!("\u{1}{}{}", k.get_type().name()?, k.repr()?));
                self.texts.text(&name)?
            }
            Err(_) => {
                return Err(value_error(format!(
                    "[compile] a key of {at} is {}; accepted: str, int",
                    k.get_type()
                )));
            }
        };
        self.leaves.key(text);
        Ok(text)
    }

    /// Captured state: arrays and numbers count, whatever is not a value is passed over.
    fn state(&mut self, x: &Bound<'_, PyAny>, found: &mut Found, inside: bool, depth: usize) -> PyResult<()> {
        if depth > MAX_DEPTH {
            return Err(value_error(format!(
                "[compile] captured state is nested more than {MAX_DEPTH} deep"
            )));
        }
        if let Ok(a) = x.cast::<PyArray>() {
            self.leaves.array(a.get().array(x.py()));
            found.arrays.push(a.clone().unbind());
        } else if let Ok(d) = x.cast::<PyDict>() {
            self.leaves.open(Container::Map, d.len());
            found.containers.push(x.clone().unbind());
            for (k, v) in d.iter() {
                match k.cast::<PyString>() {
                    Ok(s) => self.leaves.key(self.texts.text(s)?),
                    Err(_) => drop(self.key(&k, &At::State)?),
                }
                self.slot(&v, found, Some((x, &k)), depth)?;
            }
        } else if let Ok(l) = x.cast::<PyList>() {
            self.leaves.open(Container::List, l.len());
            found.containers.push(x.clone().unbind());
            for (i, v) in l.iter().enumerate() {
                let i = i.into_pyobject(x.py())?.into_any();
                self.slot(&v, found, Some((x, &i)), depth)?;
            }
        } else if let Ok(t) = x.cast::<PyTuple>() {
            self.leaves.open(Container::Tuple, t.len());
            for v in t.iter_borrowed() {
                self.slot(&v, found, None, depth)?;
            }
        } else {
            let _ = inside;
            self.constant(x)?;
        }
        Ok(())
    }

    /// A child of a container of captured state; a number in a list or dict is an argument.
    fn slot(
        &mut self,
        v: &Bound<'_, PyAny>,
        found: &mut Found,
        place: Option<(&Bound<'_, PyAny>, &Bound<'_, PyAny>)>,
        depth: usize,
    ) -> PyResult<()> {
        if let Some((container, key)) = place {
            let number = if v.is_exact_instance_of::<PyInt>() {
                raw::int_value(v)?.map(Number::Int)
            } else {
                v.cast_exact::<PyFloat>().ok().map(|f| Number::Float(f.value()))
            };
            if let Some(n) = number {
                self.leaves.number(n);
                found.numbers.push((container.clone().unbind(), key.clone().unbind()));
                return Ok(());
            }
        }
        self.state(v, found, true, depth + 1)
    }

    fn constant(&mut self, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let token = if let Ok(b) = x.cast::<PyBool>() {
            Token::Bool(b.is_true())
        } else if let Ok(s) = x.cast::<PyString>() {
            Token::Str(self.texts.text(s)?)
        } else if let Ok(f) = x.cast::<PyFloat>() {
            Token::Float(Number::Float(f.value()).bits())
        } else if x.is_instance_of::<PyInt>() {
            raw::int_value(x)?.map_or(Token::None, Token::Int)
        } else {
            Token::None
        };
        self.leaves.fixed(token);
        Ok(())
    }
}

/// What was found in captured state, in the order of its leaves.
#[derive(Default)]
struct Found {
    arrays: Vec<Py<PyArray>>,
    /// Container and key of each number.
    numbers: Vec<(Py<PyAny>, Py<PyAny>)>,
    containers: Vec<Py<PyAny>>,
}

/// Where an argument stands.
enum At<'a> {
    Positional(usize),
    Keyword(&'a str),
    Item(&'a At<'a>, usize),
    Key(&'a At<'a>, &'a str),
    State,
}

impl At<'_> {
    fn item(&self, i: usize) -> At<'_> {
        At::Item(self, i)
    }
    fn depth(&self) -> usize {
        match self {
            At::Item(up, _) | At::Key(up, _) => 1 + up.depth(),
            _ => 0,
        }
    }
}

impl std::fmt::Display for At<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            At::Positional(i) => write!(f, "argument {i}"),
            At::Keyword(k) => write!(f, "argument {k}"),
            At::Item(up, i) => write!(f, "{up}[{i}]"),
            At::Key(up, k) => write!(f, "{up}[{k:?}]"),
            At::State => f.write_str("captured state"),
        }
    }
}

/// Gives placeholders out in the order in which `Flatten` took leaves.
struct Rebuild<'a> {
    arrays: std::slice::Iter<'a, Array>,
    scalars: std::slice::Iter<'a, Scalar>,
}

impl Rebuild<'_> {
    fn array(&mut self) -> PyResult<Array> {
        self.arrays.next().cloned().ok_or_else(|| raise(changed()))
    }

    /// A number: the object itself while it is a constant, else a stand-in.
    fn number<'py>(&mut self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let s = self.scalars.next().ok_or_else(|| raise(changed()))?;
        match s.number().or_raise()? {
            Some(_) => Ok(x.clone()),
            None => Ok(Bound::new(x.py(), StandIn(s.clone()))?.into_any()),
        }
    }

    fn value<'py>(&mut self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = x.py();
        if x.cast::<PyArray>().is_ok() {
            return Ok(Bound::new(py, PyArray::new(self.array()?))?.into_any());
        }
        if x.is_exact_instance_of::<PyInt>()
            || (x.is_instance_of::<PyFloat>() && x.cast::<StandIn>().is_err())
        {
            return self.number(x);
        }
        if let Ok(t) = x.cast::<PyTuple>() {
            let items = t.iter().map(|x| self.value(&x)).collect::<PyResult<Vec<_>>>()?;
            return same_tuple(t, items);
        }
        if let Ok(l) = x.cast::<PyList>() {
            let items = l.iter().map(|x| self.value(&x)).collect::<PyResult<Vec<_>>>()?;
            if l.is_exact_instance_of::<PyList>() {
                return Ok(PyList::new(py, items)?.into_any());
            }
            let copy = py.import("copy")?.call_method1("copy", (x,))?;
            for (i, v) in items.into_iter().enumerate() {
                copy.set_item(i, v)?;
            }
            return Ok(copy);
        }
        if let Ok(d) = x.cast::<PyDict>() {
            let copy = match d.is_exact_instance_of::<PyDict>() {
                true => PyDict::new(py).into_any(),
                false => py.import("copy")?.call_method1("copy", (x,))?,
            };
            for (k, v) in d.iter() {
                let v = self.value(&v)?;
                copy.cast::<PyDict>()?.set_item(k, v)?;
            }
            return Ok(copy);
        }
        Ok(x.clone())
    }
}

fn same_tuple<'py>(like: &Bound<'py, PyTuple>, items: Vec<Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
    let t = PyTuple::new(like.py(), items)?;
    if like.is_exact_instance_of::<PyTuple>() {
        return Ok(t.into_any());
    }
    let class = like.get_type();
    match class.getattr_opt("_make")? {
        Some(make) => make.call1((t,)),
        None => class.call1((t,)),
    }
}

fn changed() -> Error {
    isopace_core::err!(Internal, "[compile] an argument changed while the function was traced")
}

/// A result with its arrays and changing numbers taken out.
enum Template {
    Array,
    Number,
    Object(Py<PyAny>),
    List(Vec<Template>),
    Tuple(Vec<Template>, Option<Py<PyType>>),
    Dict(Vec<(Py<PyAny>, Template)>, Option<Py<PyAny>>),
}

struct Payload {
    result: Template,
    /// What the captured outputs hold after a call.
    state: Option<Template>,
}

/// Takes the leaves out of a result.
#[derive(Default)]
struct Collect {
    arrays: Vec<Array>,
    scalars: Vec<Scalar>,
}

impl Collect {
    fn value(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<Template> {
        if depth > MAX_DEPTH {
            return Err(value_error(format!("[compile] the result is nested more than {MAX_DEPTH} deep")));
        }
        if let Ok(a) = x.cast::<PyArray>() {
            self.arrays.push(a.get().array(x.py()));
            return Ok(Template::Array);
        }
        if let Ok(s) = x.cast::<StandIn>() {
            self.scalars.push(s.get().0.clone());
            return Ok(Template::Number);
        }
        if x.cast::<Comparison>().is_ok() {
            let b = PyBool::new(x.py(), x.is_truthy()?).to_owned();
            return Ok(Template::Object(b.into_any().unbind()));
        }
        if let Ok(t) = x.cast::<PyTuple>() {
            let items = t.iter().map(|x| self.value(&x, depth + 1)).collect::<PyResult<Vec<_>>>()?;
            let class = (!t.is_exact_instance_of::<PyTuple>()).then(|| t.get_type().unbind());
            return Ok(Template::Tuple(items, class));
        }
        if let Ok(l) = x.cast::<PyList>() {
            return l.iter().map(|x| self.value(&x, depth + 1)).collect::<PyResult<_>>().map(Template::List);
        }
        if let Ok(d) = x.cast::<PyDict>() {
            let items = d
                .iter()
                .map(|(k, v)| Ok((k.unbind(), self.value(&v, depth + 1)?)))
                .collect::<PyResult<Vec<_>>>()?;
            let class = (!d.is_exact_instance_of::<PyDict>()).then(|| x.clone().unbind());
            return Ok(Template::Dict(items, class));
        }
        Ok(Template::Object(x.clone().unbind()))
    }
}

/// Puts a call's leaves into a template.
struct Fill {
    arrays: smallvec::IntoIter<[Array; 4]>,
    scalars: smallvec::IntoIter<[Scalar; 2]>,
}

impl Fill {
    fn array(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let a = self.arrays.next().ok_or_else(|| raise(changed()))?;
        Ok(Py::new(py, PyArray::new(a))?.into_any())
    }

    fn value(&mut self, py: Python<'_>, t: &Template) -> PyResult<Py<PyAny>> {
        match t {
            Template::Array => self.array(py),
            Template::Number => {
                let s = self.scalars.next().ok_or_else(|| raise(changed()))?;
                convert::scalar_object(py, &s)
            }
            Template::Object(o) => Ok(o.clone_ref(py)),
            Template::List(items) => {
                let items = items.iter().map(|t| self.value(py, t)).collect::<PyResult<Vec<_>>>()?;
                Ok(PyList::new(py, items)?.into_any().unbind())
            }
            Template::Tuple(items, class) => {
                let items = items.iter().map(|t| self.value(py, t)).collect::<PyResult<Vec<_>>>()?;
                let t = PyTuple::new(py, items)?;
                let Some(class) = class else { return Ok(t.into_any().unbind()) };
                let class = class.bind(py);
                match class.getattr_opt("_make")? {
                    Some(make) => Ok(make.call1((t,))?.unbind()),
                    None => Ok(class.call1((t,))?.unbind()),
                }
            }
            Template::Dict(items, like) => {
                let d = match like {
                    None => PyDict::new(py).into_any(),
                    Some(like) => py.import("copy")?.call_method1("copy", (like,))?,
                };
                for (k, t) in items {
                    let v = self.value(py, t)?;
                    d.cast::<PyDict>()?.set_item(k, v)?;
                }
                Ok(d.unbind())
            }
        }
    }

    /// Writes captured outputs back into their containers.
    fn into_place(&mut self, place: &Bound<'_, PyAny>, t: &Template) -> PyResult<()> {
        let py = place.py();
        match t {
            Template::Array => {
                let a = self.arrays.next().ok_or_else(|| raise(changed()))?;
                if let Ok(h) = place.cast::<PyArray>() {
                    h.get().rebind(py, a);
                }
            }
            Template::List(items) => {
                let Ok(l) = place.cast::<PyList>() else { return Ok(drop(self.value(py, t)?)) };
                for (i, t) in items.iter().enumerate() {
                    if i < l.len() && self.descends(&l.get_item(i)?, t) {
                        self.into_place(&l.get_item(i)?, t)?;
                    } else if i < l.len() {
                        l.set_item(i, self.value(py, t)?)?;
                    } else {
                        l.append(self.value(py, t)?)?;
                    }
                }
                l.del_slice(items.len(), l.len())?;
            }
            Template::Dict(items, _) => {
                let Ok(d) = place.cast::<PyDict>() else { return Ok(drop(self.value(py, t)?)) };
                for (k, t) in items {
                    match d.get_item(k)? {
                        Some(old) if self.descends(&old, t) => self.into_place(&old, t)?,
                        _ => d.set_item(k, self.value(py, t)?)?,
                    }
                }
            }
            Template::Tuple(items, _) => {
                let Ok(tuple) = place.cast::<PyTuple>() else { return Ok(drop(self.value(py, t)?)) };
                for (x, t) in tuple.iter().zip(items) {
                    self.into_place(&x, t)?;
                }
            }
            Template::Number | Template::Object(_) => drop(self.value(py, t)?),
        }
        Ok(())
    }

    /// True when the container there is filled rather than replaced.
    fn descends(&self, old: &Bound<'_, PyAny>, t: &Template) -> bool {
        match t {
            Template::List(_) => old.is_instance_of::<PyList>(),
            Template::Dict(..) => old.is_instance_of::<PyDict>(),
            Template::Tuple(..) => old.is_instance_of::<PyTuple>(),
            _ => false,
        }
    }
}

/// The contents of containers, put back on drop.
struct Snapshot {
    lists: Vec<(Py<PyList>, Py<PyList>)>,
    dicts: Vec<(Py<PyDict>, Py<PyDict>)>,
}

impl Snapshot {
    fn new() -> Snapshot {
        Snapshot { lists: Vec::new(), dicts: Vec::new() }
    }

    fn take(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        if let Ok(l) = x.cast::<PyList>() {
            self.lists.push((l.clone().unbind(), l.get_slice(0, l.len()).unbind()));
            for x in l.iter() {
                self.take(&x, depth + 1)?;
            }
        } else if let Ok(d) = x.cast::<PyDict>() {
            // PyDict.copy of a subclass is a plain dict, which is what is wanted.
            self.dicts.push((d.clone().unbind(), d.copy()?.unbind()));
            for (_, x) in d.iter() {
                self.take(&x, depth + 1)?;
            }
        } else if let Ok(t) = x.cast::<PyTuple>() {
            for x in t.iter() {
                self.take(&x, depth + 1)?;
            }
        }
        Ok(())
    }

    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        for (l, was) in &self.lists {
            let l = l.bind(py);
            l.set_slice(0, l.len(), was.bind(py))?;
        }
        for (d, was) in &self.dicts {
            let (d, was) = (d.bind(py), was.bind(py));
            for k in d.keys().iter() {
                if !was.contains(&k)? {
                    d.del_item(&k)?;
                }
            }
            for (k, v) in was.iter() {
                d.set_item(k, v)?;
            }
        }
        Ok(())
    }
}

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
        let mut found = Found::default();
        if let Some(state) = &self.inputs {
            leaves.open(Container::State, 1);
            Flatten { texts: &texts, leaves: &mut leaves }.state(state.bind(py), &mut found, false, 0)?;
        }
        let out = match self.function.hit(&mut leaves) {
            Some(out) => out.or_raise()?,
            None => self.miss(py, leaves, args, kwargs, &found)?,
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

fn flatten<'a>(
    texts: &'a Texts,
    leaves: &mut Leaves<'a>,
    args: &Bound<'_, PyTuple>,
    kwargs: Option<&Bound<'_, PyDict>>,
) -> PyResult<()> {
    let mut f = Flatten { texts, leaves };
    f.leaves.open(Container::Args, args.len());
    for (i, x) in args.iter_borrowed().enumerate() {
        f.value(&x, &At::Positional(i))?;
    }
    if let Some(kw) = kwargs {
        f.leaves.open(Container::Kwargs, kw.len());
        for (k, v) in kw.iter() {
            let name = texts.text(k.cast::<PyString>()?)?;
            f.leaves.key(name);
            f.value(&v, &At::Keyword(name))?;
        }
    }
    Ok(())
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
        let Outputs { arrays, scalars, payload } = out;
        let payload = payload
            .downcast_ref::<Payload>()
            .ok_or_else(|| raise(isopace_core::err!(Internal, "[compile] the result is of another kind")))?;
        let mut fill = Fill { arrays: arrays.into_iter(), scalars: scalars.into_iter() };
        let result = fill.value(py, &payload.result)?;
        if let (Some(t), Some(place)) = (&payload.state, &self.outputs) {
            fill.into_place(place.bind(py), t)?;
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
/// `scalars`: "auto", "static" (every value is traced by itself) or "symbolic" (from the first call on).
/// `max_variants`, `max_static_entries`, `max_bytes` bound the cache.
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
    let _ = shapeless;
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
    let options =
        Options { scalars: mode, max_variants, max_static_entries, max_bytes, ..Options::default() };
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
#[pyfunction]
fn disable_compile() {
    compile::set_enabled(false);
}

/// Takes back `disable_compile`.
#[pyfunction]
fn enable_compile() {
    compile::set_enabled(true);
}

/// Accounts of all compiled functions that are alive: name and counters.
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

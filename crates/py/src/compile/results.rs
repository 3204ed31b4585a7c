//! Results as templates whose leaves each call fills in.

use super::MAX_DEPTH;
use super::args::changed;
use crate::array::PyArray;
use crate::convert;
use crate::errors::{raise, value_error};
use crate::standin::{Comparison, StandIn};
use isopace_core::{Array, Scalar};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyTuple, PyType};

/// A result with its arrays and changing numbers taken out.
pub(super) enum Template {
    Array,
    Number,
    Object(Py<PyAny>),
    List(Vec<Template>),
    Tuple(Vec<Template>, Option<Py<PyType>>),
    Dict(Vec<(Py<PyAny>, Template)>, Option<Py<PyAny>>),
}

pub(super) struct Payload {
    pub(super) result: Template,
    /// What the captured outputs hold after a call.
    pub(super) state: Option<Template>,
}

/// Takes the leaves out of a result.
#[derive(Default)]
pub(super) struct Collect {
    pub(super) arrays: Vec<Array>,
    pub(super) scalars: Vec<Scalar>,
}

impl Collect {
    pub(super) fn value(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<Template> {
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
pub(super) struct Fill {
    pub(super) arrays: smallvec::IntoIter<[Array; 4]>,
    pub(super) scalars: smallvec::IntoIter<[Scalar; 2]>,
}

impl Fill {
    fn array(&mut self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let a = self.arrays.next().ok_or_else(|| raise(changed()))?;
        Ok(Py::new(py, PyArray::new(a))?.into_any())
    }

    pub(super) fn value(&mut self, py: Python<'_>, t: &Template) -> PyResult<Py<PyAny>> {
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
    pub(super) fn write_back(&mut self, place: &Bound<'_, PyAny>, t: &Template) -> PyResult<()> {
        let py = place.py();
        match t {
            Template::Array => {
                let a = self.arrays.next().ok_or_else(|| raise(changed()))?;
                if let Ok(h) = place.cast::<PyArray>() {
                    h.get().rebind(py, a);
                }
            }
            Template::List(items) => {
                let Ok(l) = place.cast::<PyList>() else { return self.value(py, t).map(drop) };
                for (i, t) in items.iter().enumerate() {
                    if i < l.len() && self.descends(&l.get_item(i)?, t) {
                        self.write_back(&l.get_item(i)?, t)?;
                    } else if i < l.len() {
                        l.set_item(i, self.value(py, t)?)?;
                    } else {
                        l.append(self.value(py, t)?)?;
                    }
                }
                l.del_slice(items.len(), l.len())?;
            }
            Template::Dict(items, _) => {
                let Ok(d) = place.cast::<PyDict>() else { return self.value(py, t).map(drop) };
                for (k, t) in items {
                    match d.get_item(k)? {
                        Some(old) if self.descends(&old, t) => self.write_back(&old, t)?,
                        _ => d.set_item(k, self.value(py, t)?)?,
                    }
                }
            }
            Template::Tuple(items, _) => {
                let Ok(tuple) = place.cast::<PyTuple>() else { return self.value(py, t).map(drop) };
                for (x, t) in tuple.iter().zip(items) {
                    self.write_back(&x, t)?;
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
pub(super) struct Snapshot {
    lists: Vec<(Py<PyList>, Py<PyList>)>,
    dicts: Vec<(Py<PyDict>, Py<PyDict>)>,
}

impl Snapshot {
    pub(super) fn new() -> Snapshot {
        Snapshot { lists: Vec::new(), dicts: Vec::new() }
    }

    pub(super) fn take(&mut self, x: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
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

    pub(super) fn restore(&self, py: Python<'_>) -> PyResult<()> {
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

//! Arguments and captured state as leaves, and placeholders in their place.

use super::MAX_DEPTH;
use crate::array::PyArray;
use crate::convert::too_large;
use crate::errors::{OrRaise, raise, value_error};
use crate::raw::{self, Texts};
use crate::standin::StandIn;
use isopace_core::compile::{Container, Leaves, Token};
use isopace_core::{Array, Error, Number, Scalar};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Flattens arguments into leaves.
pub(super) struct Flatten<'a, 'b> {
    pub(super) texts: &'a Texts,
    pub(super) leaves: &'b mut Leaves<'a>,
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
    pub(super) fn state(&mut self, x: &Bound<'_, PyAny>, found: &mut Found, depth: usize) -> PyResult<()> {
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
            for (k, v) in d.iter() {
                match k.cast::<PyString>() {
                    Ok(s) => self.leaves.key(self.texts.text(s)?),
                    Err(_) => drop(self.key(&k, &At::State)?),
                }
                self.slot(&v, found, Some((x, &k)), depth)?;
            }
        } else if let Ok(l) = x.cast::<PyList>() {
            self.leaves.open(Container::List, l.len());
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
        self.state(v, found, depth + 1)
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
pub(super) struct Found {
    pub(super) arrays: Vec<Py<PyArray>>,
    /// Container and key of each number.
    pub(super) numbers: Vec<(Py<PyAny>, Py<PyAny>)>,
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
pub(super) struct Rebuild<'a> {
    pub(super) arrays: std::slice::Iter<'a, Array>,
    pub(super) scalars: std::slice::Iter<'a, Scalar>,
}

impl Rebuild<'_> {
    pub(super) fn array(&mut self) -> PyResult<Array> {
        self.arrays.next().cloned().ok_or_else(|| raise(changed()))
    }

    /// A number: the object itself while it is a constant, else a stand-in.
    pub(super) fn number<'py>(&mut self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let s = self.scalars.next().ok_or_else(|| raise(changed()))?;
        match s.number().or_raise()? {
            Some(_) => Ok(x.clone()),
            None => Ok(Bound::new(x.py(), StandIn(s.clone()))?.into_any()),
        }
    }

    pub(super) fn value<'py>(&mut self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
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

pub(super) fn changed() -> Error {
    isopace_core::err!(Internal, "[compile] an argument changed while the function was traced")
}

/// The leaves of a call's arguments.
pub(super) fn flatten<'a>(
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

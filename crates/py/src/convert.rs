//! From Python objects to arrays, scalars, shapes and axes.

use crate::array::PyArray;
use crate::buffer;
use crate::errors::{OrRaise, type_error, value_error};
use crate::raw;
use crate::standin::StandIn;
use isopace_core::api::{self, Operand};
use isopace_core::shape::{Dims, Shape};
use isopace_core::{Array, Complex, Dtype, Number, Scalar};
use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyComplex, PyFloat, PyInt, PyList, PyString, PyTuple};

/// Too large for a scalar.
pub(crate) fn too_large(obj: &Bound<'_, PyAny>) -> PyErr {
    PyOverflowError::new_err(format!("[scalar] {}; accepted: -2**63 to 2**63 - 1", too_long(obj)))
}

/// Too large for any integer that arrays hold.
fn too_large_for_arrays(obj: &Bound<'_, PyAny>) -> PyErr {
    PyOverflowError::new_err(format!("[array] {}; accepted: -2**63 to 2**64 - 1", too_long(obj)))
}

/// What is wrong with an int of more than 64 bits, its digits only where they are few.
pub(crate) fn too_long(obj: &Bound<'_, PyAny>) -> String {
    let bits = obj.call_method0("bit_length").and_then(|n| n.extract::<u64>()).unwrap_or(0);
    if bits > 128 {
        format!("an int of {bits} bits does not fit in 64")
    } else {
        format!("{obj} does not fit in 64 bits")
    }
}

/// The scalar that a Python number or stand-in is, or `None` for anything else.
#[inline]
pub(crate) fn scalar(obj: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if let Ok(f) = obj.cast_exact::<PyFloat>() {
        return Ok(Some(f.value().into()));
    }
    if obj.is_exact_instance_of::<PyInt>() {
        return match raw::int_value(obj)? {
            Some(i) => Ok(Some(i.into())),
            None => Err(too_large(obj)),
        };
    }
    if let Ok(b) = obj.cast_exact::<PyBool>() {
        return Ok(Some(b.is_true().into()));
    }
    if let Ok(s) = obj.cast::<StandIn>() {
        return Ok(Some(s.get().0.clone()));
    }
    if obj.is_instance_of::<PyInt>() {
        return match raw::int_value(obj)? {
            Some(i) => Ok(Some(i.into())),
            None => Err(too_large(obj)),
        };
    }
    if let Ok(f) = obj.cast::<PyFloat>() {
        return Ok(Some(f.value().into()));
    }
    if let Ok(c) = obj.cast::<PyComplex>() {
        return Ok(Some(Scalar::from(Complex::new(c.real() as f32, c.imag() as f32))));
    }
    Ok(None)
}

/// A NumPy scalar as the Python number it holds, or `None`.
fn numpy_scalar(obj: &Bound<'_, PyAny>) -> PyResult<Option<Scalar>> {
    if obj.hasattr("__array_interface__")?
        && obj.hasattr("item")?
        && obj.getattr("ndim")?.extract::<usize>()? == 0
    {
        let item = obj.call_method0("item")?;
        if item.get_type().is(obj.get_type()) {
            return Ok(None);
        }
        return scalar(&item);
    }
    Ok(None)
}

/// The array that an object with `__mlx_array__`, a buffer or DLPack is, or `None`.
pub(crate) fn foreign_array(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Option<Array>> {
    if obj.is_instance_of::<PyString>() || obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        return Ok(None);
    }
    if let Some(m) = obj.getattr_opt("__mlx_array__")? {
        let made = m.call0()?;
        let a = made
            .cast::<PyArray>()
            .map_err(|_| type_error("[array] __mlx_array__ did not return an array"))?;
        return Ok(Some(cast(a.get().array(obj.py()), dtype)?));
    }
    if let Some(a) = buffer::import(obj, dtype)? {
        return Ok(Some(a));
    }
    if obj.hasattr("__dlpack__")? {
        let a = buffer::from_capsule(&obj.call_method0("__dlpack__")?)?;
        return Ok(Some(cast(a, dtype)?));
    }
    Ok(None)
}

fn cast(a: Array, dtype: Option<Dtype>) -> PyResult<Array> {
    match dtype {
        Some(d) => a.astype(d).or_raise(),
        None => Ok(a),
    }
}

/// An operand of an elementwise function: an array, a number, or what can become an array.
pub(crate) fn operand(obj: &Bound<'_, PyAny>, place: &str) -> PyResult<Operand> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return Ok(Operand::Array(a.get().array(obj.py())));
    }
    if let Some(s) = scalar(obj)? {
        return Ok(Operand::Scalar(s));
    }
    if obj.is_none() {
        return Err(type_error(format!("[{place}] None is not an array or a number")));
    }
    if let Some(s) = numpy_scalar(obj)? {
        return Ok(Operand::Scalar(s));
    }
    match foreign_array(obj, None)? {
        Some(a) => Ok(Operand::Array(a)),
        None => Err(value_error(format!(
            "[{place}] {} is not an operand; accepted: arrays, numbers and NumPy arrays",
            obj.get_type()
        ))),
    }
}

/// Argument: an array or a number, as elementwise functions take them.
pub(crate) struct Opd(pub(crate) Operand);

impl<'a, 'py> FromPyObject<'a, 'py> for Opd {
    type Error = PyErr;
    #[inline]
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        operand(&obj, "operand").map(Opd)
    }
}

impl Opd {
    /// As an array of the dtype it has alone.
    pub(crate) fn array(self) -> PyResult<Array> {
        as_array(self.0)
    }
}

pub(crate) fn as_array(o: Operand) -> PyResult<Array> {
    match o {
        Operand::Array(a) => Ok(a),
        Operand::Scalar(s) => api::full(Shape::scalar(), s, None).or_raise(),
    }
}

/// Argument: an array and nothing else.
pub(crate) struct Arr(pub(crate) Array);

impl<'a, 'py> FromPyObject<'a, 'py> for Arr {
    type Error = PyErr;
    #[inline]
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match obj.cast::<PyArray>() {
            Ok(a) => Ok(Arr(a.get().array(obj.py()))),
            Err(_) => Err(not_an_array(&obj)),
        }
    }
}

fn not_an_array(obj: &Bound<'_, PyAny>) -> PyErr {
    type_error(format!("expected an mx.array, got {}", obj.get_type()))
}

/// Argument: a list or tuple of arrays, or an array taken apart along its first axis.
pub(crate) struct Arrs(pub(crate) Vec<Array>);

impl<'a, 'py> FromPyObject<'a, 'py> for Arrs {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(a) = obj.cast::<PyArray>() {
            let a = a.get().array(obj.py());
            return a.unstack(0).map(Arrs).or_raise();
        }
        if !obj.is_instance_of::<PyList>() && !obj.is_instance_of::<PyTuple>() {
            return Err(type_error(format!("expected a list of arrays, got {}", obj.get_type())));
        }
        let mut out = Vec::with_capacity(obj.len()?);
        for x in obj.try_iter()? {
            out.push(x?.extract::<Arr>()?.0);
        }
        Ok(Arrs(out))
    }
}

/// Argument: an int, which may be a stand-in, whose value is needed.
#[derive(Clone, Copy)]
pub(crate) struct Int(pub(crate) i64);

pub(crate) fn int(obj: &Bound<'_, PyAny>) -> PyResult<i64> {
    if obj.is_exact_instance_of::<PyInt>() {
        return raw::int_value(obj)?.ok_or_else(|| too_large(obj));
    }
    if let Ok(s) = obj.cast::<StandIn>() {
        return s.get().int(obj.py(), "a size or an axis");
    }
    if obj.is_instance_of::<PyFloat>() || obj.is_instance_of::<PyString>() || obj.is_none() {
        return Err(type_error(format!("expected an int, got {}", obj.get_type())));
    }
    let index = obj
        .call_method0("__index__")
        .map_err(|_| type_error(format!("expected an int, got {}", obj.get_type())))?;
    raw::int_value(&index)?.ok_or_else(|| too_large(obj))
}

impl<'a, 'py> FromPyObject<'a, 'py> for Int {
    type Error = PyErr;
    #[inline]
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        int(&obj).map(Int)
    }
}

/// Several ints: a sequence, or one int.
pub(crate) fn ints(obj: &Bound<'_, PyAny>) -> PyResult<Dims<i64>> {
    let mut out = Dims::new();
    if let Ok(t) = obj.cast::<PyTuple>() {
        for x in t.iter_borrowed() {
            out.push(int(&x)?);
        }
        return Ok(out);
    }
    if let Ok(t) = obj.cast::<PyList>() {
        for x in t.iter() {
            out.push(int(&x)?);
        }
        return Ok(out);
    }
    if obj.is_instance_of::<PyString>() {
        return Err(type_error(format!("expected ints, got {}", obj.get_type())));
    }
    if obj.is_instance_of::<PyInt>() || obj.hasattr("__index__")? {
        return Ok(smallvec::smallvec![int(obj)?]);
    }
    if obj.hasattr("__len__")? {
        return obj.try_iter()?.map(|x| int(&x?)).collect();
    }
    Err(type_error(format!("expected an int or a sequence of ints, got {}", obj.get_type())))
}

/// Argument: an int or a sequence of ints.
pub(crate) struct Ints(pub(crate) Dims<i64>);

impl<'a, 'py> FromPyObject<'a, 'py> for Ints {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        ints(&obj).map(Ints)
    }
}

/// Argument: None, an int, or a sequence of ints.
#[derive(Default)]
pub(crate) struct Axes(pub(crate) Option<Dims<i64>>);

impl<'a, 'py> FromPyObject<'a, 'py> for Axes {
    type Error = PyErr;
    #[inline]
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if obj.is_none() { Ok(Axes(None)) } else { ints(&obj).map(|d| Axes(Some(d))) }
    }
}

impl Axes {
    pub(crate) fn get(&self) -> Option<&[i64]> {
        self.0.as_deref()
    }
}

/// Argument: a shape, which is an int or a sequence of ints, none negative.
pub(crate) struct ShapeArg(pub(crate) Shape);

pub(crate) fn shape(dims: &[i64]) -> PyResult<Shape> {
    let mut out = Shape::scalar();
    for &d in dims {
        if d < 0 {
            return Err(value_error(format!("[shape] {dims:?} has a negative extent")));
        }
        if d > i32::MAX as i64 {
            return Err(PyOverflowError::new_err(format!("[shape] extent {d} is 2**31 or more")));
        }
        out.push(d as usize);
    }
    out.checked("shape").or_raise()
}

impl<'a, 'py> FromPyObject<'a, 'py> for ShapeArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        shape(&ints(&obj)?).map(ShapeArg)
    }
}

/// Argument: a number, which may be a stand-in.
pub(crate) struct Num(pub(crate) Scalar);

impl<'a, 'py> FromPyObject<'a, 'py> for Num {
    type Error = PyErr;
    #[inline]
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(s) = scalar(&obj)? {
            return Ok(Num(s));
        }
        if let Ok(a) = obj.cast::<PyArray>() {
            let item = a.get().item(obj.py())?;
            if let Some(s) = scalar(item.bind(obj.py()))? {
                return Ok(Num(s));
            }
        }
        if let Some(s) = numpy_scalar(&obj)? {
            return Ok(Num(s));
        }
        Err(type_error(format!("expected a number, got {}", obj.get_type())))
    }
}

/// An element of a nested list.
enum Leaf {
    Bool(bool),
    Int(i128),
    Float(f64),
    Complex(Complex),
    Array(Array),
}

/// A nested list as its leaves in row-major order.
#[derive(Default)]
struct Nested {
    shape: Vec<usize>,
    /// How deep the numbers are, once one was seen.
    depth: Option<usize>,
    leaves: Vec<Leaf>,
    arrays: bool,
}

impl Nested {
    fn read(&mut self, obj: &Bound<'_, PyAny>, depth: usize) -> PyResult<()> {
        let n = obj.len()?;
        if depth > 64 {
            return Err(value_error("[array] the list is nested more than 64 deep"));
        }
        match self.shape.get(depth) {
            None => self.shape.push(n),
            Some(&d) if d == n => {}
            Some(&d) => {
                return Err(value_error(format!(
                    "[array] ragged list: {n} elements where {d} stand at the same depth {depth}"
                )));
            }
        }
        for i in 0..n {
            let x = if let Ok(l) = obj.cast::<PyList>() { l.get_item(i)? } else { obj.get_item(i)? };
            let ragged = || value_error("[array] ragged list: lists and numbers at the same depth");
            if x.is_instance_of::<PyList>() || x.is_instance_of::<PyTuple>() {
                if self.depth == Some(depth) {
                    return Err(ragged());
                }
                self.read(&x, depth + 1)?;
            } else {
                self.leaf(&x)?;
                // An array stands for the nested lists that it could be written as.
                let inner: &[usize] = match self.leaves.last() {
                    Some(Leaf::Array(a)) => a.shape(),
                    _ => &[],
                };
                let deepest = depth + inner.len();
                if self.depth.unwrap_or(deepest) != deepest {
                    return Err(ragged());
                }
                if self.shape.len() == depth + 1 {
                    self.shape.extend(inner);
                }
                if self.shape[depth + 1..] != *inner {
                    return Err(value_error(format!(
                        "[array] ragged list: an array of shape {inner:?} where {:?} stands at the same depth {depth}",
                        &self.shape[depth + 1..]
                    )));
                }
                self.depth = Some(deepest);
            }
        }
        Ok(())
    }

    fn leaf(&mut self, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let leaf = if let Ok(f) = x.cast_exact::<PyFloat>() {
            Leaf::Float(f.value())
        } else if x.is_exact_instance_of::<PyInt>() {
            match raw::int_value(x)? {
                Some(i) => Leaf::Int(i as i128),
                None => Leaf::Int(x.extract::<u64>().map_err(|_| too_large_for_arrays(x))? as i128),
            }
        } else if let Ok(b) = x.cast::<PyBool>() {
            Leaf::Bool(b.is_true())
        } else if let Ok(a) = x.cast::<PyArray>() {
            self.arrays = true;
            Leaf::Array(a.get().array(x.py()))
        } else if let Ok(f) = x.cast::<PyFloat>() {
            Leaf::Float(f.value())
        } else if let Ok(c) = x.cast::<PyComplex>() {
            Leaf::Complex(Complex::new(c.real() as f32, c.imag() as f32))
        } else if let Ok(s) = x.cast::<StandIn>() {
            self.arrays = true;
            Leaf::Array(api::full(Shape::scalar(), s.get().0.clone(), None).or_raise()?)
        } else if let Some(m) = x.getattr_opt("__mlx_array__")? {
            self.arrays = true;
            Leaf::Array(m.call0()?.extract::<Arr>()?.0)
        } else {
            return Err(value_error(format!("[array] a list holds {}, which is not a number", x.get_type())));
        };
        self.leaves.push(leaf);
        Ok(())
    }

    /// The dtype of all leaves, of which numbers count as arrays of their usual dtype.
    fn dtype(&self) -> Dtype {
        let mut d = None::<Dtype>;
        for l in &self.leaves {
            let new = match l {
                Leaf::Bool(_) => Dtype::Bool,
                Leaf::Int(i) if i32::try_from(*i).is_ok() => Dtype::I32,
                Leaf::Int(i) if i64::try_from(*i).is_ok() => Dtype::I64,
                Leaf::Int(_) => Dtype::U64,
                Leaf::Float(_) => Dtype::F32,
                Leaf::Complex(_) => Dtype::C64,
                Leaf::Array(a) => a.dtype(),
            };
            d = Some(d.map_or(new, |d| d.promote(new)));
        }
        d.unwrap_or(Dtype::F32)
    }

    fn array(self, dtype: Option<Dtype>) -> PyResult<Array> {
        let dtype = dtype.unwrap_or_else(|| self.dtype());
        if self.arrays {
            let parts = self
                .leaves
                .into_iter()
                .map(|l| match l {
                    Leaf::Array(a) => a.astype(dtype).and_then(|a| a.reshape([-1])).or_raise(),
                    other => {
                        encode(&[other], dtype).and_then(|b| Array::from_bytes(&b, [1], dtype).or_raise())
                    }
                })
                .collect::<PyResult<Vec<_>>>()?;
            let dims: Vec<i64> = self.shape.iter().map(|&d| d as i64).collect();
            return api::concatenate(&parts, 0).and_then(|flat| flat.reshape(&dims)).or_raise();
        }
        Array::from_bytes(&encode(&self.leaves, dtype)?, self.shape, dtype).or_raise()
    }
}

fn encode(leaves: &[Leaf], dtype: Dtype) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(leaves.len() * dtype.size());
    for l in leaves {
        encode_one(l, dtype, &mut out)?;
    }
    Ok(out)
}

fn encode_one(l: &Leaf, dtype: Dtype, out: &mut Vec<u8>) -> PyResult<()> {
    if let Some((lo, hi)) = dtype.int_range() {
        let i = match *l {
            Leaf::Bool(b) => b as i128,
            Leaf::Int(i) if dtype == Dtype::Bool => (i != 0) as i128,
            Leaf::Int(i) if (lo..=hi).contains(&i) => i,
            Leaf::Int(i) => {
                return Err(value_error(format!(
                    "[array] {i} is out of range for {dtype}; accepted: {lo} to {hi}"
                )));
            }
            Leaf::Float(f) if dtype == Dtype::Bool => (f != 0.0) as i128,
            Leaf::Float(f) if f.is_nan() && dtype.size() >= 4 => lo,
            Leaf::Float(f) => f as i128,
            Leaf::Complex(c) if dtype == Dtype::Bool => (c.re != 0.0 || c.im != 0.0) as i128,
            Leaf::Complex(c) => c.re as i128,
            Leaf::Array(_) => 0,
        };
        out.extend_from_slice(&i.to_le_bytes()[..dtype.size()]);
        return Ok(());
    }
    let f = match *l {
        Leaf::Bool(b) => b as u8 as f64,
        Leaf::Int(i) => i as f64,
        Leaf::Float(f) => f,
        Leaf::Complex(c) if dtype == Dtype::C64 => {
            out.extend_from_slice(bytemuck::bytes_of(&c));
            return Ok(());
        }
        Leaf::Complex(c) => c.re as f64,
        Leaf::Array(_) => 0.0,
    };
    match dtype {
        Dtype::F16 => out.extend_from_slice(&half::f16::from_f64(f).to_le_bytes()),
        Dtype::BF16 => out.extend_from_slice(&half::bf16::from_f64(f).to_le_bytes()),
        Dtype::F32 => out.extend_from_slice(&(f as f32).to_le_bytes()),
        Dtype::F64 => out.extend_from_slice(&f.to_le_bytes()),
        _ => out.extend_from_slice(bytemuck::bytes_of(&Complex::new(f as f32, 0.0))),
    }
    Ok(())
}

/// `mx.array(obj, dtype)`.
pub(crate) fn construct(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Array> {
    if let Ok(a) = obj.cast::<PyArray>() {
        return cast(a.get().array(obj.py()), dtype);
    }
    if let Ok(s) = obj.cast::<StandIn>() {
        return api::full(Shape::scalar(), s.get().0.clone(), dtype).or_raise();
    }
    if obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        let mut n = Nested::default();
        n.read(obj, 0)?;
        return n.array(dtype);
    }
    if obj.is_instance_of::<PyInt>()
        || obj.is_instance_of::<PyFloat>()
        || obj.is_instance_of::<PyBool>()
        || obj.is_instance_of::<PyComplex>()
    {
        let mut n = Nested::default();
        n.leaf(obj)?;
        return n.array(dtype);
    }
    if obj.is_none() {
        return Err(type_error("[array] None is not an array"));
    }
    if let Ok(b) = obj.cast::<PyBytes>() {
        let a = Array::from_bytes(b.as_bytes(), [b.as_bytes().len()], Dtype::U8).or_raise()?;
        return cast(a, dtype);
    }
    match foreign_array(obj, dtype)? {
        Some(a) => Ok(a),
        None => Err(value_error(format!(
            "[array] cannot make an array of {}; accepted: numbers, nested lists of them, buffers, DLPack",
            obj.get_type()
        ))),
    }
}

/// A core number as a Python object.
pub(crate) fn number_object(py: Python<'_>, n: Number) -> PyResult<Py<PyAny>> {
    Ok(match n {
        Number::Bool(b) => PyBool::new(py, b).to_owned().into_any().unbind(),
        Number::Int(i) => i.into_pyobject(py)?.into_any().unbind(),
        Number::Float(f) => PyFloat::new(py, f).into_any().unbind(),
        Number::Complex(c) => PyComplex::from_doubles(py, c.re as f64, c.im as f64).into_any().unbind(),
    })
}

/// A scalar as a Python number, or as a stand-in while it is symbolic.
pub(crate) fn scalar_object(py: Python<'_>, s: &Scalar) -> PyResult<Py<PyAny>> {
    match s.number().or_raise()? {
        Some(n) => number_object(py, n),
        None => Ok(Py::new(py, StandIn(s.clone()))?.into_any()),
    }
}

//! Files: npy, npz, safetensors and GGUF. Paths are mapped, so that weights are read when they are used.

use crate::array::PyArray;
use crate::errors::{OrRaise, type_error, value_error};
use crate::eval;
use isopace::io::MappedFile;
use isopace::io::gguf::{self, Gguf, TensorType, Value, Values};
use isopace::io::npy::{Npy, Npz, write_npy, write_npz};
use isopace::io::safetensors::{self, Safetensors, Type};
use isopace_core::{Array, Dtype};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::io::Cursor;
use std::path::PathBuf;

/// The contents of a file: mapped, or read by the caller.
enum Source {
    Mapped(MappedFile),
    Read(Vec<u8>),
}

impl Source {
    fn new(obj: &Bound<'_, PyAny>) -> PyResult<(Source, String)> {
        if let Ok(b) = obj.cast::<PyBytes>() {
            return Ok((Source::Read(b.as_bytes().to_vec()), "file".into()));
        }
        let path: PathBuf = obj.extract()?;
        let name = path.display().to_string();
        let mapped = MappedFile::open(&path).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        Ok((Source::Mapped(mapped), name))
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Source::Mapped(m) => m.bytes(),
            Source::Read(b) => b,
        }
    }

    fn array(
        &self,
        range: std::ops::Range<usize>,
        shape: &[usize],
        dtype: Dtype,
    ) -> isopace_core::Result<Array> {
        match self {
            Source::Mapped(m) => m.array(range, shape, dtype),
            Source::Read(b) => Array::from_bytes(&b[range], shape, dtype),
        }
    }
}

fn wrap(py: Python<'_>, a: Array) -> PyResult<Py<PyArray>> {
    Py::new(py, PyArray::new(a))
}

/// A file that is damaged is a RuntimeError; one whose contents cannot be an array a ValueError.
fn format_error(e: isopace_core::Error) -> PyErr {
    match e {
        isopace_core::Error::Unsupported(t) => value_error(t),
        e => crate::errors::raise(e),
    }
}

#[pyfunction]
fn _load_npy(py: Python<'_>, file: &Bound<'_, PyAny>) -> PyResult<Py<PyArray>> {
    let (source, name) = Source::new(file)?;
    let npy = Npy::parse(source.bytes(), &name).map_err(format_error)?;
    if npy.fortran || npy.big_endian {
        let data = npy.row_major(source.bytes());
        return wrap(py, Array::from_bytes(&data, &npy.shape[..], npy.dtype).or_raise()?);
    }
    wrap(py, source.array(npy.range.clone(), &npy.shape, npy.dtype).or_raise()?)
}

#[pyfunction]
fn _load_npz<'py>(py: Python<'py>, file: &Bound<'_, PyAny>) -> PyResult<Bound<'py, PyDict>> {
    let (source, name) = Source::new(file)?;
    let mut npz = Npz::parse(source.bytes(), &name).map_err(format_error)?;
    let out = PyDict::new(py);
    for member in npz.names().to_vec() {
        let (npy, bytes) = npz.read(&member).map_err(format_error)?;
        let data = npy.row_major(&bytes);
        let a = Array::from_bytes(&data, &npy.shape[..], npy.dtype).or_raise()?;
        out.set_item(member, wrap(py, a)?)?;
    }
    Ok(out)
}

#[pyfunction]
fn _load_safetensors<'py>(
    py: Python<'py>,
    file: &Bound<'_, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (source, name) = Source::new(file)?;
    let st = Safetensors::parse(source.bytes(), &name).or_raise()?;
    let (out, metadata) = (PyDict::new(py), PyDict::new(py));
    for t in &st.tensors {
        let a = source.array(t.range.clone(), &t.shape, t.ty.dtype()).or_raise()?;
        out.set_item(&t.name, wrap(py, a)?)?;
    }
    for (k, v) in &st.metadata {
        metadata.set_item(k, v)?;
    }
    Ok((out, metadata))
}

#[pyfunction]
fn _load_gguf<'py>(
    py: Python<'py>,
    file: &Bound<'_, PyAny>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let (source, name) = Source::new(file)?;
    let g = Gguf::parse(source.bytes(), &name).or_raise()?;
    let (out, metadata) = (PyDict::new(py), PyDict::new(py));
    for t in &g.tensors {
        let a = match t.ty.dtype() {
            Some(d) => source.array(t.range.clone(), &t.shape, d).or_raise()?,
            None => dequantized(&source, t)?,
        };
        out.set_item(&t.name, wrap(py, a)?)?;
    }
    for (k, v) in g.metadata.entries() {
        metadata.set_item(k, value_object(py, v)?)?;
    }
    Ok((out, metadata))
}

/// Block formats become float16, as users of arrays expect.
fn dequantized(source: &Source, t: &gguf::Tensor) -> PyResult<Array> {
    let TensorType::Block(format) = t.ty else { return Err(value_error("[load] not a block format")) };
    let cols = t.shape.last().copied().unwrap_or(0);
    let rows: usize = t.shape[..t.shape.len().saturating_sub(1)].iter().product();
    let bytes = source.array(t.range.clone(), &[rows, t.range.len() / rows.max(1)], Dtype::U8).or_raise()?;
    let w = isopace_core::api::BlockWeight::new(bytes, format, cols).or_raise()?;
    w.dequantize(Dtype::F16).or_raise()?.reshape_to(&t.shape[..]).or_raise()
}

fn value_object(py: Python<'_>, v: &Value) -> PyResult<Py<PyAny>> {
    let number = |a: isopace_core::Result<Array>| Ok(wrap(py, a.or_raise()?)?.into_any());
    match v {
        Value::String(s) => Ok(PyString::new(py, s).into_any().unbind()),
        Value::Array(list) => values_object(py, list),
        Value::U8(x) => number(Array::from_slice(&[*x], [])),
        Value::I8(x) => number(Array::from_slice(&[*x], [])),
        Value::U16(x) => number(Array::from_slice(&[*x], [])),
        Value::I16(x) => number(Array::from_slice(&[*x], [])),
        Value::U32(x) => number(Array::from_slice(&[*x], [])),
        Value::I32(x) => number(Array::from_slice(&[*x], [])),
        Value::U64(x) => number(Array::from_slice(&[*x], [])),
        Value::I64(x) => number(Array::from_slice(&[*x], [])),
        Value::F32(x) => number(Array::from_slice(&[*x], [])),
        Value::F64(x) => number(Array::from_slice(&[*x as f32], [])),
        Value::Bool(b) => number(Array::from_bytes(&[*b as u8], [], Dtype::Bool)),
    }
}

fn values_object(py: Python<'_>, v: &Values) -> PyResult<Py<PyAny>> {
    macro_rules! array {
        ($x:expr) => {
            Ok(wrap(py, Array::from_slice(&$x[..], [$x.len()]).or_raise()?)?.into_any())
        };
    }
    match v {
        Values::String(s) => Ok(PyList::new(py, s)?.into_any().unbind()),
        Values::U8(x) => array!(x),
        Values::I8(x) => array!(x),
        Values::U16(x) => array!(x),
        Values::I16(x) => array!(x),
        Values::U32(x) => array!(x),
        Values::I32(x) => array!(x),
        Values::U64(x) => array!(x),
        Values::I64(x) => array!(x),
        Values::F32(x) => array!(x),
        Values::F64(x) => array!(x.iter().map(|&x| x as f32).collect::<Vec<_>>()),
        Values::Bool(x) => {
            let bytes: Vec<u8> = x.iter().map(|&b| b as u8).collect();
            Ok(wrap(py, Array::from_bytes(&bytes, [bytes.len()], Dtype::Bool).or_raise()?)?.into_any())
        }
        Values::Array(x) => {
            let items = x.iter().map(|v| values_object(py, v)).collect::<PyResult<Vec<_>>>()?;
            Ok(PyList::new(py, items)?.into_any().unbind())
        }
    }
}

/// Names, dtypes, shapes and bytes of arrays, evaluated.
struct Named {
    name: String,
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

fn named(arrays: &Bound<'_, PyDict>, place: &str) -> PyResult<Vec<Named>> {
    let py = arrays.py();
    let mut list = Vec::new();
    for (k, v) in arrays.iter() {
        let name: String =
            k.extract().map_err(|_| type_error(format!("[{place}] a name is {}", k.get_type())))?;
        let a = v
            .cast::<PyArray>()
            .map_err(|_| type_error(format!("[{place}] {name} is {}; accepted: mx.array", v.get_type())))?;
        list.push((name, a.get().array(py)));
    }
    eval::eval(py, &list.iter().map(|x| x.1.clone()).collect::<Vec<_>>())?;
    list.into_iter()
        .map(|(name, a)| {
            let data = a.to_bytes().or_raise()?;
            Ok(Named { name, dtype: a.dtype(), shape: a.shape().to_vec(), data })
        })
        .collect()
}

#[pyfunction]
fn _save_npy<'py>(py: Python<'py>, array: &Bound<'py, PyArray>) -> PyResult<Bound<'py, PyBytes>> {
    let a = array.get().array(py);
    let data = eval::bytes(py, &a)?;
    let mut out = Vec::new();
    write_npy(&mut out, a.dtype(), a.shape(), &data).or_raise()?;
    Ok(PyBytes::new(py, &out))
}

#[pyfunction]
fn _save_npz<'py>(py: Python<'py>, arrays: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyBytes>> {
    let list = named(arrays, "savez")?;
    let refs: Vec<(&str, Dtype, &[usize], &[u8])> =
        list.iter().map(|n| (&n.name[..], n.dtype, &n.shape[..], &n.data[..])).collect();
    let mut out = Cursor::new(Vec::new());
    write_npz(&mut out, &refs).or_raise()?;
    Ok(PyBytes::new(py, &out.into_inner()))
}

#[pyfunction]
fn _save_safetensors<'py>(
    py: Python<'py>,
    arrays: &Bound<'py, PyDict>,
    metadata: Vec<(String, String)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let list = named(arrays, "save_safetensors")?;
    let tensors: Vec<_> = list
        .iter()
        .map(|n| safetensors::NewTensor {
            name: &n.name,
            shape: &n.shape,
            ty: Type::Plain(n.dtype),
            data: &n.data,
        })
        .collect();
    let pairs: Vec<(&str, &str)> = metadata.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    let mut out = Vec::new();
    safetensors::write_safetensors(&mut out, &pairs, &tensors).or_raise()?;
    Ok(PyBytes::new(py, &out))
}

fn metadata_value(v: &Bound<'_, PyAny>) -> PyResult<Value> {
    if let Ok(s) = v.cast::<PyString>() {
        return Ok(Value::String(s.to_str()?.into()));
    }
    if let Ok(l) = v.cast::<PyList>() {
        let strings = l.iter().map(|x| x.extract::<String>()).collect::<PyResult<Vec<_>>>();
        return strings
            .map(|s| Value::Array(Values::String(s)))
            .map_err(|_| value_error("[save_gguf] a metadata list holds something other than str"));
    }
    let Ok(a) = v.cast::<PyArray>() else {
        return Err(value_error(format!(
            "[save_gguf] metadata of {}; accepted: str, list of str, array",
            v.get_type()
        )));
    };
    let a = a.get().array(v.py());
    eval::eval(v.py(), std::slice::from_ref(&a))?;
    macro_rules! value {
        ($T:ty, $V:ident) => {{
            let x = a.to_vec::<$T>().or_raise()?;
            if a.ndim() == 0 { Value::$V(x[0]) } else { Value::Array(Values::$V(x)) }
        }};
    }
    if a.ndim() > 1 {
        return Err(value_error("[save_gguf] a metadata array has more than one dimension"));
    }
    Ok(match a.dtype() {
        Dtype::U8 => value!(u8, U8),
        Dtype::I8 => value!(i8, I8),
        Dtype::U16 => value!(u16, U16),
        Dtype::I16 => value!(i16, I16),
        Dtype::U32 => value!(u32, U32),
        Dtype::I32 => value!(i32, I32),
        Dtype::U64 => value!(u64, U64),
        Dtype::I64 => value!(i64, I64),
        Dtype::F32 => value!(f32, F32),
        Dtype::Bool => {
            let x: Vec<bool> = a.to_bytes().or_raise()?.iter().map(|&b| b != 0).collect();
            if a.ndim() == 0 { Value::Bool(x[0]) } else { Value::Array(Values::Bool(x)) }
        }
        d => return Err(value_error(format!("[save_gguf] metadata of {d} is not accepted"))),
    })
}

#[pyfunction]
fn _save_gguf<'py>(
    py: Python<'py>,
    arrays: &Bound<'py, PyDict>,
    metadata: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyBytes>> {
    let list = named(arrays, "save_gguf")?;
    let tensors = list
        .iter()
        .map(|n| {
            let ty = match n.dtype {
                Dtype::F32 => TensorType::F32,
                Dtype::F16 => TensorType::F16,
                Dtype::BF16 => TensorType::BF16,
                Dtype::F64 => TensorType::F64,
                Dtype::I8 => TensorType::I8,
                Dtype::I16 => TensorType::I16,
                Dtype::I32 => TensorType::I32,
                Dtype::I64 => TensorType::I64,
                d => {
                    return Err(PyRuntimeError::new_err(format!(
                        "[save_gguf] {}: {d} has no type in GGUF",
                        n.name
                    )));
                }
            };
            Ok(gguf::NewTensor { name: &n.name, shape: &n.shape, ty, data: &n.data })
        })
        .collect::<PyResult<Vec<_>>>()?;
    let mut pairs = Vec::new();
    for (k, v) in metadata.iter() {
        pairs.push((k.extract::<String>()?, metadata_value(&v)?));
    }
    let mut out = Vec::new();
    gguf::write_gguf(&mut out, &pairs, &tensors).or_raise()?;
    Ok(PyBytes::new(py, &out))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions::add!(m: _load_npy _load_npz _load_safetensors _load_gguf);
    crate::functions::add!(m: _save_npy _save_npz _save_safetensors _save_gguf);
    Ok(())
}

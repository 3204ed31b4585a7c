//! Quantization.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{Arr, Int};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::OrRaise;
use isopace_core::Array;
use isopace_core::api::{self, Grouping};
use pyo3::prelude::*;

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

fn grouping(group_size: Option<Int>, bits: Option<Int>, mode: &str) -> PyResult<Grouping> {
    Grouping::new(group_size.map(|g| g.0), bits.map(|b| b.0), mode).or_raise()
}

fn get(x: &Option<Arr>) -> Option<&Array> {
    x.as_ref().map(|a| &a.0)
}

/// A weight quantized in groups along its last axis: codes, scales and, for affine, biases.
#[pyfunction]
#[pyo3(signature = (w, /, group_size = None, bits = None, mode = "affine", *, global_scale = None, stream = None))]
fn quantize(
    w: Arr,
    group_size: Option<Int>,
    bits: Option<Int>,
    mode: &str,
    global_scale: Option<Arr>,
    stream: Stream,
) -> PyResult<Vec<PyArray>> {
    let _ = stream;
    let parts = api::quantize(&w.0, grouping(group_size, bits, mode)?, get(&global_scale)).or_raise()?;
    Ok(parts.into_iter().map(PyArray::new).collect())
}

/// The values of a quantized weight.
#[pyfunction]
#[pyo3(signature = (
    w, /, scales, biases = None, group_size = None, bits = None, mode = "affine", global_scale = None,
    dtype = None, *, stream = None
))]
fn dequantize(
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    group_size: Option<Int>,
    bits: Option<Int>,
    mode: &str,
    global_scale: Option<Arr>,
    dtype: Option<DtypeArg>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let g = grouping(group_size, bits, mode)?;
    wrap(api::dequantize(&w.0, &scales.0, get(&biases), g, get(&global_scale), dtype.map(|d| d.0)))
}

/// x @ w^T with a quantized weight; x @ w without `transpose`.
#[pyfunction]
#[pyo3(signature = (
    x, w, /, scales, biases = None, transpose = true, group_size = None, bits = None, mode = "affine", *,
    stream = None
))]
fn quantized_matmul(
    x: Arr,
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    transpose: bool,
    group_size: Option<Int>,
    bits: Option<Int>,
    mode: &str,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let g = grouping(group_size, bits, mode)?;
    wrap(api::quantized_matmul(&x.0, &w.0, &scales.0, get(&biases), transpose, g))
}

/// Products with quantized matrices chosen by indices.
#[pyfunction]
#[pyo3(signature = (
    x, w, /, scales, biases = None, lhs_indices = None, rhs_indices = None, transpose = true, group_size = None,
    bits = None, mode = "affine", global_scale = None, *, sorted_indices = false, stream = None
))]
fn gather_qmm(
    x: Arr,
    w: Arr,
    scales: Arr,
    biases: Option<Arr>,
    lhs_indices: Option<Arr>,
    rhs_indices: Option<Arr>,
    transpose: bool,
    group_size: Option<Int>,
    bits: Option<Int>,
    mode: &str,
    global_scale: Option<Arr>,
    sorted_indices: bool,
    stream: Stream,
) -> Result1 {
    let _ = (stream, sorted_indices);
    if global_scale.is_some() {
        return Err(pyo3::exceptions::PyNotImplementedError::new_err("[gather_qmm] global_scale"));
    }
    let g = grouping(group_size, bits, mode)?;
    wrap(api::gather_qmm(
        &x.0,
        &w.0,
        &scales.0,
        get(&biases),
        get(&lhs_indices),
        get(&rhs_indices),
        transpose,
        g,
    ))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: quantize dequantize quantized_matmul gather_qmm);
    Ok(())
}

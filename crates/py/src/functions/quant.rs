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
///
/// Modes: affine (bits 2, 3, 4, 5, 6, 8; groups of 32, 64, 128), mxfp4, mxfp8 (groups of 32), nvfp4 (groups of 16).
/// Codes are uint32, (..., n * bits / 32). Raises ValueError for fewer than two axes, or a last axis that groups do not divide.
///
/// >>> [p.shape for p in mx.quantize(mx.ones((2, 64)))]
/// [(2, 8), (2, 1), (2, 1)]
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
///
/// Dtype: that of the scales, bfloat16 for the fp modes, unless given. Raises ValueError for sizes that do not fit.
///
/// >>> mx.dequantize(*mx.quantize(mx.ones((1, 32)), 32, 8), 32, 8)[0, :3]
/// array([1, 1, 1], dtype=float32)
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
///
/// Shapes: x (..., n), w (m, n); gives (..., m). Dtype: the common one of x and the scales.
/// Raises ValueError for sizes that do not fit.
///
/// >>> mx.quantized_matmul(mx.ones((1, 64)), *mx.quantize(mx.ones((2, 64))))
/// array([[64, 64]], dtype=float32)
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
///
/// Shapes: x (..., n), w (e, m, n) quantized; indices choose matrices of either side and broadcast.
/// ``global_scale`` (nvfp4): a float for each of the e matrices. Raises as quantized_matmul does.
///
/// >>> mx.gather_qmm(mx.ones((1, 64)), *mx.quantize(mx.ones((3, 2, 64))), rhs_indices=mx.array([2, 0])).shape
/// (2, 1, 2)
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
        get(&global_scale),
    ))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: quantize dequantize quantized_matmul gather_qmm);
    Ok(())
}

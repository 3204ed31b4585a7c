//! Products and linear algebra.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Axes, Int, Ints, Num};
use crate::device::StreamArg;
use crate::errors::{OrRaise, value_error};
use isopace_core::api::{self, ConvOptions, ConvolveMode, NormOrder};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyString, PyTuple};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

/// The matrix product of the last two axes; leading axes broadcast.
///
/// Shapes: (..., m, k) and (..., k, n) give (..., m, n); vectors count as rows and columns. Dtype: the common one.
/// Raises ValueError for integers, 0-d arrays, and inner extents that differ.
///
/// >>> mx.matmul(mx.array([[1.0, 2.0]]), mx.array([[3.0], [4.0]]))
/// array([[11]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream = None))]
fn matmul(a: Arr, b: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.matmul(&b.0))
}

/// beta * c + alpha * (a @ b).
///
/// Shapes as in matmul; c broadcasts to the product.
///
/// >>> mx.addmm(mx.ones((1, 1)), mx.array([[1.0, 2.0]]), mx.array([[3.0], [4.0]]), alpha=2.0)
/// array([[23]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (c, a, b, /, alpha = Num(1.0.into()), beta = Num(1.0.into()), *, stream = None))]
fn addmm(c: Arr, a: Arr, b: Arr, alpha: Num, beta: Num, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::addmm(&c.0, &a.0, &b.0, alpha.0, beta.0))
}

macro_rules! pairs {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nDtype: the common one. Raises ValueError for extents that do not fit.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, b, /, *, stream = None))]
        fn $f(a: Arr, b: Arr, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(a.0.$f(&b.0))
        }
    )* };
}
pairs! {
    inner "Product over the last axes." "mx.inner(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))" "array(11, dtype=float32)";
    outer "Products of all pairs of elements." "mx.outer(mx.array([1, 2]), mx.array([3, 4]))" "array([[3, 4],\n       [6, 8]], dtype=int32)";
}

/// The Kronecker product.
///
/// Extents multiply.
///
/// >>> mx.kron(mx.array([1, 2]), mx.array([1, 10]))
/// array([1, 10, 2, 20], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, b, *, stream = None))]
fn kron(a: Arr, b: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.kron(&b.0))
}

/// Products of vectors along an axis.
///
/// Leading axes broadcast; the axis is dropped.
///
/// >>> mx.vecdot(mx.array([1.0, 2.0]), mx.array([3.0, 4.0]))
/// array(11, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, axis = Int(-1), stream = None))]
fn vecdot(a: Arr, b: Arr, axis: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.vecdot(&b.0, axis.0))
}

/// Contraction over pairs of axes.
///
/// ``axes``: a number of trailing axes of a and leading ones of b, or a pair of lists; 2 without it.
/// Raises ValueError for extents that differ.
///
/// >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 4)), 1).shape
/// (2, 4)
#[pyfunction]
#[pyo3(signature = (a, b, /, axes = None, *, stream = None))]
fn tensordot(a: Arr, b: Arr, axes: Option<&Bound<'_, PyAny>>, stream: Stream) -> Result1 {
    let _ = stream;
    let Some(axes) = axes else { return wrap(api::tensordot_n(&a.0, &b.0, 2)) };
    if axes.is_instance_of::<PyInt>() {
        return wrap(api::tensordot_n(&a.0, &b.0, convert::int(axes)?));
    }
    if axes.len()? != 2 {
        return Err(value_error("[tensordot] axes: expected an int or a pair of lists"));
    }
    let (left, right) = (convert::ints(&axes.get_item(0)?)?, convert::ints(&axes.get_item(1)?)?);
    wrap(api::tensordot(&a.0, &b.0, &left, &right))
}

fn operands(list: &Bound<'_, PyTuple>) -> PyResult<Vec<isopace_core::Array>> {
    list.iter().map(|a| a.extract::<Arr>().map(|a| a.0)).collect()
}

/// Einstein summation.
///
/// Raises ValueError for subscripts that do not fit the operands.
///
/// >>> mx.einsum("ij,jk->ik", mx.ones((2, 3)), mx.ones((3, 2)))
/// array([[3, 3],
///        [3, 3]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (subscripts, *operands, stream = None))]
fn einsum(subscripts: &str, operands: &Bound<'_, PyTuple>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::einsum(subscripts, &self::operands(operands)?))
}

/// The order in which einsum contracts, and a text about it.
///
/// >>> mx.einsum_path("ij,jk,kl->il", mx.ones((2, 3)), mx.ones((3, 4)), mx.ones((4, 2)))[0]
/// [(1, 2), (0, 1)]
#[pyfunction]
#[pyo3(signature = (subscripts, *operands))]
fn einsum_path(subscripts: &str, operands: &Bound<'_, PyTuple>) -> PyResult<(Py<PyAny>, String)> {
    let py = operands.py();
    let (path, text) = api::einsum_path(subscripts, &self::operands(operands)?).or_raise()?;
    let path = path.into_iter().map(|p| PyTuple::new(py, p)).collect::<PyResult<Vec<_>>>()?;
    Ok((pyo3::types::PyList::new(py, path)?.into_any().unbind(), text))
}

/// Products of matrices chosen by indices.
///
/// Shapes: a (..., m, k), b (..., k, n); indices choose among the leading axes and broadcast.
///
/// >>> mx.gather_mm(mx.ones((1, 2)), mx.ones((3, 2, 4)), rhs_indices=mx.array([2, 0])).shape
/// (2, 1, 4)
#[pyfunction]
#[pyo3(signature = (a, b, /, lhs_indices = None, rhs_indices = None, *, sorted_indices = false, stream = None))]
fn gather_mm(
    a: Arr,
    b: Arr,
    lhs_indices: Option<Arr>,
    rhs_indices: Option<Arr>,
    sorted_indices: bool,
    stream: Stream,
) -> Result1 {
    let _ = (stream, sorted_indices);
    wrap(api::gather_mm(&a.0, &b.0, lhs_indices.as_ref().map(|a| &a.0), rhs_indices.as_ref().map(|a| &a.0)))
}

/// A product in which blocks are scaled or left out by masks.
///
/// Blocks of 32 or 64. A mask has an extent for each block of its two axes; bool masks keep or drop.
/// Raises ValueError for another block size or shape of mask.
///
/// >>> mx.block_masked_mm(mx.ones((32, 32)), mx.ones((32, 32)), 32, mask_out=mx.array([[False]])).sum()
/// array(0, dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, b, /, block_size = 64, mask_out = None, mask_lhs = None, mask_rhs = None, *, stream = None))]
fn block_masked_mm(
    a: Arr,
    b: Arr,
    block_size: usize,
    mask_out: Option<Arr>,
    mask_lhs: Option<Arr>,
    mask_rhs: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let get = |m: &Option<Arr>| m.as_ref().map(|a| a.0.clone());
    let (o, l, r) = (get(&mask_out), get(&mask_lhs), get(&mask_rhs));
    wrap(api::block_masked_mm(&a.0, &b.0, block_size, o.as_ref(), l.as_ref(), r.as_ref()))
}

/// Products over segments of the inner axis.
///
/// Shapes: a (m, k), b (k, n), segments (..., 2) of starts and ends; gives (..., m, n).
///
/// >>> mx.segmented_mm(mx.ones((1, 4)), mx.ones((4, 1)), mx.array([[0, 1], [1, 4]])).tolist()
/// [[[1.0]], [[3.0]]]
#[pyfunction]
#[pyo3(signature = (a, b, /, segments, *, stream = None))]
fn segmented_mm(a: Arr, b: Arr, segments: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::segmented_mm(&a.0, &b.0, &segments.0))
}

/// The Hadamard transform of the last axis.
///
/// The last extent is m * 2**k with m of 1, 12, 20 or 28. ``scale`` is 1 / sqrt(n) unless given.
///
/// >>> mx.hadamard_transform(mx.array([1.0, 0.0]), 1.0)
/// array([1, 1], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, scale = None, stream = None))]
fn hadamard_transform(a: Arr, scale: Option<f64>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.hadamard_transform(scale))
}

/// Discrete convolution of two vectors.
///
/// Modes: full, same, valid. Raises ValueError for other ranks than 1.
///
/// >>> mx.convolve(mx.array([1.0, 2.0]), mx.array([1.0, 1.0]))
/// array([1, 3, 2], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, v, /, mode = "full", *, stream = None))]
fn convolve(a: Arr, v: Arr, mode: &str, stream: Stream) -> Result1 {
    let _ = stream;
    let mode = match mode {
        "full" => ConvolveMode::Full,
        "same" => ConvolveMode::Same,
        "valid" => ConvolveMode::Valid,
        other => return Err(value_error(format!("[convolve] mode {other:?}; accepted: full, same, valid"))),
    };
    wrap(api::convolve(&a.0, &v.0, mode))
}

macro_rules! convolutions {
    ($($f:ident $rank:literal $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nOne number for stride, padding and dilation serves all axes. Dtype: the common one. Raises ValueError for sizes\n\
that do not fit.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (
            input, weight, /, stride = None, padding = None, dilation = None, groups = Int(1), *, stream = None
        ))]
        fn $f(
            input: Arr,
            weight: Arr,
            stride: Option<Ints>,
            padding: Option<Ints>,
            dilation: Option<Ints>,
            groups: Int,
            stream: Stream,
        ) -> Result1 {
            let _ = stream;
            if input.0.ndim() != $rank + 2 {
                return Err(value_error(format!(
                    concat!("[", stringify!($f), "] the input has {} dimensions; accepted: {}"),
                    input.0.ndim(), $rank + 2
                )));
            }
            let pad = list(padding, 0);
            wrap(api::conv_general(&input.0, &weight.0, &ConvOptions {
                stride: list(stride, 1),
                pad_low: pad.clone(),
                pad_high: pad,
                dilation: list(dilation, 1),
                groups: groups.0,
                ..ConvOptions::default()
            }))
        }
    )* };
}
convolutions! {
    conv1d 1 "Convolution along one axis of (N, L, C) with (O, K, C / groups)." "mx.conv1d(mx.ones((1, 4, 1)), mx.ones((1, 3, 1))).shape" "(1, 2, 1)";
    conv2d 2 "Convolution along two axes of (N, H, W, C)." "mx.conv2d(mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1))).shape" "(1, 2, 2, 1)";
    conv3d 3 "Convolution along three axes of (N, D, H, W, C)." "mx.conv3d(mx.ones((1, 4, 4, 4, 1)), mx.ones((1, 3, 3, 3, 1))).shape" "(1, 2, 2, 2, 1)";
}

fn list(x: Option<Ints>, default: i64) -> Vec<i64> {
    x.map_or_else(|| vec![default], |x| x.0.to_vec())
}

macro_rules! transposed {
    ($($f:ident $rank:literal $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nThe inverse of a convolution's shape: extents become (n - 1) * stride - 2 * padding + dilation * (k - 1) + 1 +\n\
output_padding. Raises ValueError for sizes that do not fit.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (
            input, weight, /, stride = None, padding = None, dilation = None, output_padding = None,
            groups = Int(1), *, stream = None
        ))]
        fn $f(
            input: Arr,
            weight: Arr,
            stride: Option<Ints>,
            padding: Option<Ints>,
            dilation: Option<Ints>,
            output_padding: Option<Ints>,
            groups: Int,
            stream: Stream,
        ) -> Result1 {
            let _ = stream;
            wrap(api::conv_transpose(
                &input.0,
                &weight.0,
                &list(stride, 1),
                &list(padding, 0),
                &list(dilation, 1),
                &list(output_padding, 0),
                groups.0,
                $rank,
            ))
        }
    )* };
}
transposed! {
    conv_transpose1d 1 "Transposed convolution along one axis." "mx.conv_transpose1d(mx.ones((1, 4, 1)), mx.ones((1, 3, 1))).shape" "(1, 6, 1)";
    conv_transpose2d 2 "Transposed convolution along two axes." "mx.conv_transpose2d(mx.ones((1, 4, 4, 1)), mx.ones((1, 3, 3, 1))).shape" "(1, 6, 6, 1)";
    conv_transpose3d 3 "Transposed convolution along three axes." "mx.conv_transpose3d(mx.ones((1, 4, 4, 4, 1)), mx.ones((1, 3, 3, 3, 1))).shape" "(1, 6, 6, 6, 1)";
}

/// Convolution of any rank.
///
/// Shapes: input (N, ..., C), weight (O, ..., C / groups); gives (N, ..., O). ``flip`` turns the weight around.
/// Raises ValueError for sizes that do not fit.
///
/// >>> mx.conv_general(mx.ones((1, 4, 1)), mx.ones((1, 3, 1)), padding=1).tolist()
/// [[[2.0], [3.0], [3.0], [2.0]]]
#[pyfunction]
#[pyo3(signature = (
    input, weight, /, stride = None, padding = None, kernel_dilation = None, input_dilation = None,
    groups = Int(1), flip = false, *, stream = None
))]
fn conv_general(
    input: Arr,
    weight: Arr,
    stride: Option<Ints>,
    padding: Option<&Bound<'_, PyAny>>,
    kernel_dilation: Option<Ints>,
    input_dilation: Option<Ints>,
    groups: Int,
    flip: bool,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let (low, high) = match padding {
        None => (vec![0], vec![0]),
        Some(p)
            if (p.is_instance_of::<PyTuple>() || p.is_instance_of::<PyList>())
                && p.len()? == 2
                && !p.get_item(0)?.is_instance_of::<PyInt>() =>
        {
            (convert::ints(&p.get_item(0)?)?.to_vec(), convert::ints(&p.get_item(1)?)?.to_vec())
        }
        Some(p) => (convert::ints(p)?.to_vec(), convert::ints(p)?.to_vec()),
    };
    wrap(api::conv_general(
        &input.0,
        &weight.0,
        &ConvOptions {
            stride: list(stride, 1),
            pad_low: low,
            pad_high: high,
            dilation: list(kernel_dilation, 1),
            input_dilation: list(input_dilation, 1),
            groups: groups.0,
            flip,
        },
    ))
}

/// The inverse of square matrices.
///
/// Shapes: (..., n, n). Raises ValueError for others, RuntimeError at evaluation for a singular matrix.
///
/// >>> mx.linalg.inv(mx.array([[2.0, 0.0], [0.0, 4.0]]))
/// array([[0.5, 0],
///        [0, 0.25]], dtype=float32)
#[pyfunction]
#[pyo3(name = "linalg_inv", signature = (a, *, stream = None))]
fn inv(a: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.inverse())
}

fn upper(uplo: &str, place: &str) -> PyResult<bool> {
    match uplo {
        "L" | "l" => Ok(false),
        "U" | "u" => Ok(true),
        other => Err(value_error(format!("[{place}] UPLO {other:?}; accepted: \"L\", \"U\""))),
    }
}

/// Eigenvalues in ascending order and eigenvectors, as columns, of real symmetric matrices.
///
/// Shapes: (..., n, n) gives (..., n) and (..., n, n). Only the lower triangle is read, the upper with UPLO="U". The sign
/// of a vector is arbitrary. Raises ValueError for other shapes and unless float32 or float64.
///
/// >>> mx.linalg.eigh(mx.array([[2.0, 0.0], [0.0, 1.0]]))[0]
/// array([1, 2], dtype=float32)
#[pyfunction]
#[pyo3(name = "linalg_eigh", signature = (a, UPLO = "L", *, stream = None))]
#[allow(non_snake_case)]
fn eigh<'py>(py: Python<'py>, a: Arr, UPLO: &str, stream: Stream) -> PyResult<Bound<'py, PyTuple>> {
    let _ = stream;
    let (values, vectors) = a.0.eigh(upper(UPLO, "eigh")?).or_raise()?;
    super::creation::tuple(py, vec![values, vectors])
}

/// Eigenvalues in ascending order of real symmetric matrices.
///
/// Shapes: (..., n, n) gives (..., n). Reads and raises as eigh does.
///
/// >>> mx.linalg.eigvalsh(mx.array([[0.0, 1.0], [1.0, 0.0]]))
/// array([-1, 1], dtype=float32)
#[pyfunction]
#[pyo3(name = "linalg_eigvalsh", signature = (a, UPLO = "L", *, stream = None))]
#[allow(non_snake_case)]
fn eigvalsh(a: Arr, UPLO: &str, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.eigh(upper(UPLO, "eigvalsh")?).map(|(values, _)| values))
}

/// The cross product of vectors along an axis.
///
/// The extent of the axis is 3, or 2 (0 then stands for the third).
///
/// >>> mx.linalg.cross(mx.array([1, 0, 0]), mx.array([0, 1, 0]))
/// array([0, 0, 1], dtype=int32)
#[pyfunction]
#[pyo3(name = "linalg_cross", signature = (a, b, axis = Int(-1), *, stream = None))]
fn cross(a: Arr, b: Arr, axis: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.cross(&b.0, axis.0))
}

/// Norm of vectors or matrices.
///
/// ``ord``: a number, inf or -inf; for two axes also "fro" and "nuc". All elements without ord and axis.
/// Raises ValueError for another order.
///
/// >>> mx.linalg.norm(mx.array([3.0, 4.0]))
/// array(5, dtype=float32)
#[pyfunction]
#[pyo3(name = "linalg_norm", signature = (a, /, ord = None, axis = None, keepdims = false, *, stream = None))]
fn norm(
    a: Arr,
    ord: Option<&Bound<'_, PyAny>>,
    axis: Option<Axes>,
    keepdims: bool,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let order = match ord {
        None => NormOrder::Default,
        Some(o) if o.is_none() => NormOrder::Default,
        Some(o) => match o.cast::<PyString>() {
            Ok(s) => match s.to_str()? {
                "fro" | "f" => NormOrder::Frobenius,
                "nuc" => NormOrder::Nuclear,
                "inf" => NormOrder::P(f64::INFINITY),
                "-inf" => NormOrder::P(f64::NEG_INFINITY),
                other => {
                    return Err(value_error(format!("[norm] order {other:?}; accepted: \"fro\", \"nuc\"")));
                }
            },
            Err(_) => NormOrder::P(o.extract::<f64>()?),
        },
    };
    wrap(a.0.norm(order, axis.unwrap_or_default().get(), keepdims))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: matmul addmm inner outer kron vecdot tensordot einsum einsum_path gather_mm block_masked_mm);
    add!(m: segmented_mm hadamard_transform convolve conv1d conv2d conv3d conv_transpose1d conv_transpose2d);
    add!(m: conv_transpose3d conv_general inv eigh eigvalsh cross norm);
    Ok(())
}

//! The `fast` functions.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Int, Num};
use crate::device::StreamArg;
use crate::errors::value_error;
use isopace_core::Array;
use isopace_core::api::{self, Mask, Operand, RopeOptions};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyString};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

fn get(x: &Option<Arr>) -> Option<&Array> {
    x.as_ref().map(|a| &a.0)
}

/// x / sqrt(mean(x^2) + eps) [* weight] over the last axis.
///
/// Shape: x's; the weight is (x.shape[-1],). Dtype: the common one. The statistics are float32.
/// Raises ValueError for integers, 0-d arrays and another size of weight.
///
/// >>> mx.fast.rms_norm(mx.array([[3.0, 4.0]]), None, 1e-5)
/// array([[0.848528, 1.13137]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream = None))]
fn rms_norm(x: Arr, weight: Option<Arr>, eps: Num, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::rms_norm(&x.0, get(&weight), eps.0))
}

/// (x - mean) / sqrt(var + eps) [* weight] [+ bias] over the last axis.
///
/// Shape: x's; weight and bias are (x.shape[-1],). Dtype: the common one of x and weight. The statistics are float32.
/// Raises as rms_norm does.
///
/// >>> mx.fast.layer_norm(mx.array([[1.0, 3.0]]), None, None, 1e-5)
/// array([[-0.999995, 0.999995]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (x, weight, bias, eps, *, stream = None))]
fn layer_norm(x: Arr, weight: Option<Arr>, bias: Option<Arr>, eps: Num, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::layer_norm(&x.0, get(&weight), get(&bias), eps.0))
}

/// Rotary position embedding: pairs of features turn by an angle that grows with the position.
///
/// Shape and dtype: a's, with the batch on axis 0 and the position on axis -2. The first ``dims`` features turn:
/// pairs (2i, 2i + 1) if traditional, else (i, i + dims / 2), by (offset + t) * scale * base**(-2i / dims), or
/// (offset + t) * scale / freqs[i]. The offset is an int, an integer array of one element or one for each row of the batch.
/// Raises ValueError for fewer than 3 axes, odd dims, a float offset, and unless one of base and freqs is given.
///
/// >>> mx.fast.rope(mx.ones((1, 2, 2)), 2, traditional=True, base=1e4, scale=1.0, offset=0)
/// array([[[1, 1],
///         [-0.301169, 1.38177]]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, dims, *, traditional, base, scale, offset, freqs = None, stream = None))]
fn rope(
    a: Arr,
    dims: Int,
    traditional: bool,
    base: Option<Num>,
    scale: Num,
    offset: &Bound<'_, PyAny>,
    freqs: Option<Arr>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    if offset.is_instance_of::<PyFloat>() && offset.cast::<crate::standin::StandIn>().is_err() {
        return Err(value_error("[rope] the offset is a float; accepted: an int or an integer array"));
    }
    let offset: Operand = convert::operand(offset, "rope")?;
    let options = RopeOptions {
        dims: dims.0,
        traditional,
        base: base.map(|b| b.0),
        scale: scale.0,
        freqs: freqs.map(|f| f.0),
    };
    wrap(api::rope(&a.0, offset, &options))
}

/// softmax(scale * q @ k^T + mask) @ v.
///
/// Shapes: q (B, Hq, Lq, D), k (B, Hk, Lk, D), v (B, Hk, Lk, Dv), Hq a multiple of Hk; gives (B, Hq, Lq, Dv).
/// The mask is None, "causal" (aligned to the last key), a bool array (True keeps) or one that is added; it broadcasts
/// to (B, Hq, Lq, Lk). ``sinks`` (Hq,) are logits that only count in the sum. Raises ValueError for other shapes, or a
/// mask of a wider dtype.
///
/// >>> mx.fast.scaled_dot_product_attention(mx.ones((1, 1, 1, 2)), mx.ones((1, 1, 3, 2)), mx.ones((1, 1, 3, 2)), scale=1.0)
/// array([[[[1, 1]]]], dtype=float32)
#[pyfunction]
#[pyo3(signature = (q, k, v, *, scale, mask = None, sinks = None, force_fused = false, stream = None))]
fn scaled_dot_product_attention(
    q: Arr,
    k: Arr,
    v: Arr,
    scale: Num,
    mask: Option<&Bound<'_, PyAny>>,
    sinks: Option<Arr>,
    force_fused: bool,
    stream: Stream,
) -> Result1 {
    let _ = (stream, force_fused);
    let mask = match mask {
        None => Mask::None,
        Some(m) if m.is_none() => Mask::None,
        Some(m) => match m.cast::<PyString>() {
            Ok(s) if s.to_str()? == "causal" => Mask::Causal,
            Ok(s) => {
                return Err(value_error(format!(
                    "[scaled_dot_product_attention] mask {s:?}; accepted: \"causal\""
                )));
            }
            Err(_) => Mask::Array(m.extract::<Arr>()?.0),
        },
    };
    wrap(api::scaled_dot_product_attention(&q.0, &k.0, &v.0, scale.0, mask, get(&sinks)))
}

/// `logsumexp(logits) - logits[target]` over the last axis.
///
/// Shapes: logits (..., n), targets (...). Dtype: float32 at least. A target out of range is an error or is clamped as indices are.
///
/// >>> mx.fast.cross_entropy(mx.array([[0.0, 1.0]]), mx.array([1]))
/// array([0.313262], dtype=float32)
#[pyfunction]
#[pyo3(signature = (logits, targets, *, stream = None))]
fn cross_entropy(logits: Arr, targets: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::cross_entropy(&logits.0, &targets.0))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let fast = PyModule::new(m.py(), "fast")?;
    let f = &fast;
    add!(f: rms_norm layer_norm rope scaled_dot_product_attention cross_entropy);
    m.add_submodule(&fast)
}

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
#[pyfunction]
#[pyo3(signature = (x, weight, eps, *, stream = None))]
fn rms_norm(x: Arr, weight: Option<Arr>, eps: Num, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::rms_norm(&x.0, get(&weight), eps.0))
}

/// (x - mean) / sqrt(var + eps) [* weight] [+ bias] over the last axis.
#[pyfunction]
#[pyo3(signature = (x, weight, bias, eps, *, stream = None))]
fn layer_norm(x: Arr, weight: Option<Arr>, bias: Option<Arr>, eps: Num, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::layer_norm(&x.0, get(&weight), get(&bias), eps.0))
}

/// Rotary position embedding: pairs of features turn by an angle that grows with the position.
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

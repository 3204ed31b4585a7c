//! Normalizations, rotary embeddings and attention.

use super::{Operand, node};
use crate::array::{Array, Inputs, Scalars, State};
use crate::error::Result;
use crate::number::NumberKind;
use crate::op::{Op, Rope, Sdpa};
use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::{Dtype, bail};
use smallvec::smallvec;

/// Checks that a weight or bias is a vector as long as the last axis.
fn check_vector(x: &Array, w: &Array, what: &str, place: &str) -> Result<()> {
    if w.ndim() != 1 || w.aval().shape.last() != x.aval().shape.last() {
        bail!(
            Shape,
            "[{place}] {what} of {:?} for x of {:?}; accepted: the last extent",
            w.aval().shape,
            x.aval().shape
        );
    }
    if !w.dtype().is_float() {
        bail!(Dtype, "[{place}] {what} is {}; accepted: floating dtypes", w.dtype());
    }
    Ok(())
}

fn check_normed(x: &Array, dtype: Dtype, place: &str) -> Result<()> {
    if x.ndim() == 0 {
        bail!(Shape, "[{place}] x is 0-d; accepted: at least one dimension");
    }
    if !dtype.is_float() {
        bail!(Dtype, "[{place}] x and its weights are {dtype} together; accepted: floating dtypes");
    }
    Ok(())
}

/// `x / sqrt(mean(x^2) + eps) * weight` over the last axis.
///
/// # Dtypes
/// Statistics are taken in float32; the quotient is rounded to the result's dtype, that of x and
/// weight promoted, before it is multiplied by the weight.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, api::rms_norm};
/// let x = Array::from_slice(&[3.0f32, -3.0], [2])?;
/// assert_eq!(rms_norm(&x, None, 0.0)?.to_vec::<f32>()?, [1.0, -1.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn rms_norm(x: &Array, weight: Option<&Array>, eps: impl Into<Scalar>) -> Result<Array> {
    let dtype = weight.map_or(x.dtype(), |w| x.dtype().promote(w.dtype()));
    check_normed(x, dtype, "rms_norm")?;
    if let Some(w) = weight {
        check_vector(x, w, "weight", "rms_norm")?;
    }
    let inputs = std::iter::once(x).chain(weight).map(|a| a.astype(dtype)).collect::<Result<Inputs>>()?;
    node(Op::RmsNorm, inputs, smallvec![eps.into()], x.aval().shape.clone(), dtype)
}

/// `(x - mean) / sqrt(var + eps) * weight + bias` over the last axis; dtypes as for [`rms_norm`], where
/// a bias counts only beside a weight.
pub fn layer_norm(
    x: &Array,
    weight: Option<&Array>,
    bias: Option<&Array>,
    eps: impl Into<Scalar>,
) -> Result<Array> {
    let parts = || std::iter::once(x).chain(weight).chain(bias.filter(|_| weight.is_some()));
    let dtype = parts().skip(1).fold(x.dtype(), |d, a| d.promote(a.dtype()));
    check_normed(x, dtype, "layer_norm")?;
    for (a, what) in [(weight, "weight"), (bias, "bias")] {
        let Some(a) = a else { continue };
        check_vector(x, a, what, "layer_norm")?;
    }
    let parts = parts();
    let inputs = parts.map(|a| a.astype(dtype)).collect::<Result<Inputs>>()?;
    let out = node(Op::LayerNorm, inputs, smallvec![eps.into()], x.aval().shape.clone(), dtype)?;
    match bias {
        Some(b) if weight.is_none() => out.add(b.astype(dtype)?),
        _ => Ok(out),
    }
}

/// What [`rope`] takes besides the array.
#[derive(Clone, Debug)]
pub struct RopeOptions {
    /// How many leading features rotate.
    pub dims: i64,
    /// Pairs (2i, 2i + 1) when true, else (i, i + dims / 2).
    pub traditional: bool,
    /// Feature pair `i` turns by `base^(-2i / dims)` a position; `None` with `freqs`.
    pub base: Option<Scalar>,
    /// Positions are multiplied by it.
    pub scale: Scalar,
    /// Wavelengths, one for each pair of features.
    pub freqs: Option<Array>,
}

/// Rotary position embedding of x (B, ..., T, D): pairs of features turn by an angle that grows with
/// the position `offset + t`.
///
/// # Dtypes
/// Angles are taken in float32; the result has x's dtype. The offset is an integer, or an integer
/// array with one element or one for each batch row.
///
/// # Errors
/// `Shape`, `Dtype` or `Argument` when anything does not fit.
pub fn rope(x: &Array, offset: impl Into<Operand>, options: &RopeOptions) -> Result<Array> {
    let (n, place) = (x.ndim(), "rope");
    if n < 3 {
        bail!(Shape, "[{place}] x is {:?}; accepted: at least three dimensions", x.shape());
    }
    if !x.dtype().is_float() {
        bail!(Dtype, "[{place}] x is {}; accepted: floating dtypes", x.dtype());
    }
    let width = x.shape()[n - 1] as i64;
    if options.dims < 2 || options.dims % 2 != 0 || options.dims > width {
        bail!(
            Argument,
            "[{place}] {} features of {width}; accepted: an even number, 2 and more",
            options.dims
        );
    }
    let base = match (&options.base, &options.freqs) {
        (Some(b), None) => b.clone(),
        (None, Some(f)) => {
            if f.shape()[..] != [options.dims as usize / 2] {
                bail!(Shape, "[{place}] freqs are {:?}; accepted: ({},)", f.shape(), options.dims / 2);
            }
            Scalar::from(1.0)
        }
        (b, _) => {
            let given = if b.is_some() { "both" } else { "neither" };
            bail!(Argument, "[{place}] {given} of base and freqs are given; accepted: one of them")
        }
    };
    let mut inputs: Inputs = smallvec![x.clone()];
    let mut scalars: Scalars = smallvec![base, options.scale.clone()];
    let offset_array = match offset.into() {
        Operand::Scalar(s) if s.kind() == NumberKind::Int => {
            s.number()?;
            scalars.push(s);
            false
        }
        Operand::Scalar(s) => bail!(Argument, "[{place}] the offset {s} is not an integer"),
        Operand::Array(a) => {
            super::gather::check_indices(&a, place)?;
            if a.ndim() > 1 || (a.size() != 1 && a.size() != x.shape()[0]) {
                bail!(Shape, "[{place}] offsets {:?} for a batch of {}", a.shape(), x.shape()[0]);
            }
            inputs.push(a.astype(Dtype::I32)?);
            true
        }
    };
    if let Some(f) = &options.freqs {
        inputs.push(f.astype(Dtype::F32)?);
    }
    let op = Rope {
        dims: options.dims as u32,
        traditional: options.traditional,
        offset_array,
        freqs: options.freqs.is_some(),
    };
    node(Op::Rope(op), inputs, scalars, x.shape().clone(), x.dtype())
}

/// Which keys a query sees.
#[derive(Clone, Debug, Default)]
pub enum Mask {
    /// All of them.
    #[default]
    None,
    /// Query `i` of `Lq` sees keys up to `i + Lk - Lq`.
    Causal,
    /// True keeps (bool), or numbers are added to the scores; broadcasts to (B, Hq, Lq, Lk).
    Array(Array),
}

impl From<&Array> for Mask {
    fn from(a: &Array) -> Mask {
        Mask::Array(a.clone())
    }
}

/// The buffer behind the leading part of axis 2, and the length of the part. A part of symbolic
/// length has to be looked through; one of known length is, so that an uncompiled decode loop keeps
/// its shapes.
fn leading_part(x: &Array) -> Option<(Array, Scalar)> {
    let State::Lazy(inputs) = &*x.node().state.lock() else { return None };
    match &x.node().op {
        Op::SliceValid(2) => Some((inputs[0].clone(), x.node().scalars[0].clone())),
        Op::Slice(steps) if steps.iter().all(|&s| s == 1) => {
            let zero = |s: &Scalar| matches!(s.number(), Ok(Some(n)) if n.as_int() == Some(0));
            let (from, to) = (inputs[0].shape(), x.shape());
            let rest = [0, 1, 3].iter().all(|&i| from[i] == to[i]);
            (rest && to[2] > 0 && x.node().scalars.iter().all(zero))
                .then(|| (inputs[0].clone(), to[2].into()))
        }
        _ => None,
    }
}

/// `softmax(scale * q @ k^T + mask) @ v`, a query head `h` reading key head `h / (Hq / Hk)`.
///
/// Keys and values may be the leading part of a longer buffer ([`Array::slice_leading`]) of symbolic
/// length. Sinks (one for each query head) add a logit to the denominator.
///
/// # Shapes
/// q (B, Hq, Lq, D), k (B, Hk, Lk, D), v (B, Hk, Lk, Dv) give (B, Hq, Lq, Dv).
///
/// # Errors
/// `Shape` when anything does not fit; `Dtype` when a mask or sinks do not promote to the result's
/// dtype.
pub fn scaled_dot_product_attention(
    q: &Array,
    k: &Array,
    v: &Array,
    scale: impl Into<Scalar>,
    mask: impl Into<Mask>,
    sinks: Option<&Array>,
) -> Result<Array> {
    let place = "scaled_dot_product_attention";
    let (&[b, hq, lq, d], &[bk, hk, lk, dk], &[bv, hv, lv, dv]) =
        (&q.shape()[..], &k.shape()[..], &v.shape()[..])
    else {
        bail!(
            Shape,
            "[{place}] q {:?}, k {:?}, v {:?}; accepted: four dimensions each",
            q.shape(),
            k.shape(),
            v.shape()
        );
    };
    if (b, d, hk, lk) != (bk, dk, hv, lv) || b != bv || hk == 0 || hq % hk.max(1) != 0 {
        bail!(
            Shape,
            "[{place}] q {:?}, k {:?}, v {:?}; accepted: (B, Hq, Lq, D), (B, Hk, Lk, D), (B, Hk, Lk, Dv), Hq a multiple of Hk",
            q.shape(),
            k.shape(),
            v.shape()
        );
    }
    let dtype = q.dtype().promote(k.dtype()).promote(v.dtype());
    if !dtype.is_float() {
        bail!(Dtype, "[{place}] {dtype} is not accepted; accepted: floating dtypes");
    }
    let (mask, scale) = (mask.into(), scale.into());
    let symbolic = k.aval().valid.is_some() || v.aval().valid.is_some();
    let (mut k, mut v, mut length) = (k.clone(), v.clone(), None);
    if symbolic || !matches!(mask, Mask::Array(_)) {
        match (leading_part(&k), leading_part(&v)) {
            (Some((kb, kn)), Some((vb, vn))) if kb.shape()[2] == vb.shape()[2] && kn.equals(&vn)? => {
                (k, v, length) = (kb, vb, Some(kn));
            }
            _ if symbolic => {
                bail!(Trace, "[{place}] keys {:?} and values {:?} have different lengths", k.aval(), v.aval())
            }
            _ => {}
        }
    }
    let room = k.shape()[2];
    let full = Shape::from([b, hq, lq, room]);
    let fits = |a: &Array, what: &str| {
        if a.dtype() != Dtype::Bool && a.dtype().promote(dtype) != dtype {
            bail!(Dtype, "[{place}] {what} is {}, which does not promote to {dtype}", a.dtype());
        }
        Ok(())
    };
    // Keys and values keep a float dtype of their own: a cache in half precision is read as it is.
    let own = |a: &Array| if a.dtype().is_float() { Ok(a.clone()) } else { a.astype(dtype) };
    let mut inputs: Inputs = smallvec![q.astype(dtype)?, own(&k)?, own(&v)?];
    let (mut causal, mut has_mask) = (false, false);
    match &mask {
        Mask::None => {}
        Mask::Causal => causal = true,
        Mask::Array(m) => {
            fits(m, "the mask")?;
            let m = if m.dtype() == Dtype::Bool { m.clone() } else { m.astype(dtype)? };
            if m.ndim() > 4 || m.shape().broadcast(&full, place).ok().as_ref() != Some(&full) {
                bail!(Shape, "[{place}] the mask {:?} does not broadcast to {full:?}", m.shape());
            }
            inputs.push(m.broadcast_to(full)?);
            has_mask = true;
        }
    }
    if let Some(s) = sinks {
        fits(s, "sinks")?;
        if s.shape()[..] != [hq] || s.dtype() == Dtype::Bool {
            bail!(Shape, "[{place}] sinks {:?} for {hq} query heads; accepted: ({hq},)", s.shape());
        }
        inputs.push(s.astype(dtype)?);
    }
    let op = Sdpa { causal, mask: has_mask, sinks: sinks.is_some(), length: length.is_some() };
    let mut scalars: Scalars = smallvec![scale];
    scalars.extend(length);
    node(Op::Sdpa(op), inputs, scalars, [b, hq, lq, dv].into(), dtype)
}

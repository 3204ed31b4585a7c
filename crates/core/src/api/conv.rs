//! Convolutions over channels-last arrays, cross-correlation as is usual.

use super::{linalg::positive, node};
use crate::array::Array;
use crate::error::Result;
use crate::op::{Conv, Op};
use crate::shape::{Dims, Shape};
use crate::{bail, err};
use smallvec::smallvec;

/// How a kernel moves over its input. A list of one number serves all spatial axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    pub stride: Vec<i64>,
    pub pad_low: Vec<i64>,
    pub pad_high: Vec<i64>,
    pub dilation: Vec<i64>,
    pub input_dilation: Vec<i64>,
    pub groups: i64,
    pub flip: bool,
}

impl Default for ConvOptions {
    fn default() -> ConvOptions {
        let one = || vec![1];
        ConvOptions {
            stride: one(),
            pad_low: vec![0],
            pad_high: vec![0],
            dilation: one(),
            input_dilation: one(),
            groups: 1,
            flip: false,
        }
    }
}

fn spread(list: &[i64], rank: usize, what: &str) -> Result<Dims<i64>> {
    match list {
        [one] => Ok(smallvec![*one; rank]),
        many if many.len() == rank => Ok(many.into()),
        _ => bail!(Argument, "[conv] {} numbers for {what}; accepted: 1 or {rank}", list.len()),
    }
}

/// Convolution of any rank. Input (N, spatial..., C), weight (O, kernel..., C / groups).
///
/// # Shapes
/// (N, out..., O) with `out = (dilated input + padding - dilated kernel) / stride + 1`. Padding below zero leaves out
/// as many elements of the input, before it is dilated.
///
/// # Errors
/// `Shape` when channels, groups or extents do not fit, `Argument` for a stride below 1 and the like.
pub fn conv_general(x: &Array, w: &Array, options: &ConvOptions) -> Result<Array> {
    let (n, place) = (x.ndim(), "conv");
    if n < 3 || w.ndim() != n {
        bail!(
            Shape,
            "[{place}] input {:?} and weight {:?}; accepted: (N, ..., C) and (O, ..., C)",
            x.shape(),
            w.shape()
        );
    }
    if [x, w].iter().any(|a| a.dtype() == crate::Dtype::C64) {
        bail!(Dtype, "[{place}] complex64 is not accepted; accepted: real dtypes");
    }
    let rank = n - 2;
    let groups = positive(options.groups, "the number of groups", place)?;
    let (channels, out_channels) = (x.shape()[n - 1], w.shape()[0]);
    if channels != w.shape()[n - 1].saturating_mul(groups) || !out_channels.is_multiple_of(groups) {
        bail!(
            Shape,
            "[{place}] input {:?} and weight {:?} in {groups} groups: {channels} channels, {} x {groups} expected",
            x.shape(),
            w.shape(),
            w.shape()[n - 1]
        );
    }
    let each = |list: &[i64], what: &str| -> Result<Dims<usize>> {
        spread(list, rank, what)?.iter().map(|&v| positive(v, what, place)).collect()
    };
    let (low, high) =
        (spread(&options.pad_low, rank, "padding")?, spread(&options.pad_high, rank, "padding")?);
    let below = |p: i64| usize::try_from(p.min(0).unsigned_abs()).unwrap_or(usize::MAX);
    let mut x = x.clone();
    for d in (0..rank).filter(|&d| low[d] < 0 || high[d] < 0) {
        let size = x.shape()[d + 1];
        let from = below(low[d]).min(size);
        let to = size.saturating_sub(below(high[d])).max(from);
        x = x.slice_axis(d + 1, from, to)?;
    }
    let c = Conv {
        stride: each(&options.stride, "stride")?,
        pad_low: low.iter().map(|&p| p.max(0) as usize).collect(),
        pad_high: high.iter().map(|&p| p.max(0) as usize).collect(),
        dilation: each(&options.dilation, "dilation")?,
        input_dilation: each(&options.input_dilation, "input dilation")?,
        groups,
        flip: options.flip,
    };
    let mut shape = Shape::from([x.shape()[0]]);
    for d in 0..rank {
        let (size, kernel) = (x.shape()[d + 1], w.shape()[d + 1]);
        if kernel == 0 {
            bail!(Shape, "[{place}] the kernel {:?} has no elements", w.shape());
        }
        let spread =
            |n: usize, by: usize| (n as u128).saturating_sub(1).saturating_mul(by as u128) + (n > 0) as u128;
        let padded = spread(size, c.input_dilation[d])
            .saturating_add(c.pad_low[d] as u128)
            .saturating_add(c.pad_high[d] as u128);
        let taps = spread(kernel, c.dilation[d]);
        if taps > padded {
            bail!(
                Shape,
                "[{place}] a kernel of {taps} does not fit axis {} of {padded}, padding included",
                d + 1
            );
        }
        let out = (padded - taps) / c.stride[d] as u128 + 1;
        shape.push(usize::try_from(out).map_err(|_| err!(Shape, "[{place}] the result is too large"))?);
    }
    shape.push(out_channels);
    let dtype = x.dtype().promote(w.dtype());
    if !dtype.is_inexact() {
        bail!(Dtype, "[{place}] {} with {}; accepted: floating and complex dtypes", x.dtype(), w.dtype());
    }
    node(Op::Conv(Box::new(c)), smallvec![x.astype(dtype)?, w.astype(dtype)?], smallvec![], shape, dtype)
}

fn check_rank(x: &Array, w: &Array, rank: usize) -> Result<()> {
    if x.ndim() != rank + 2 || w.ndim() != rank + 2 {
        bail!(
            Shape,
            "[conv{rank}d] input {:?} and weight {:?}; accepted: {} dimensions each",
            x.shape(),
            w.shape(),
            rank + 2
        );
    }
    Ok(())
}

/// Convolution along one axis; see [`conv_general`].
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, api::conv1d};
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [1, 3, 1])?;
/// let w = Array::from_slice(&[1.0f32, 1.0], [1, 2, 1])?;
/// assert_eq!(conv1d(&x, &w, 1, 0, 1, 1)?.to_vec::<f32>()?, [3.0, 5.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn conv1d(x: &Array, w: &Array, stride: i64, padding: i64, dilation: i64, groups: i64) -> Result<Array> {
    conv_nd(x, w, &[stride], &[padding], &[dilation], groups, 1)
}

/// Convolution along two axes; see [`conv_general`].
pub fn conv2d(
    x: &Array,
    w: &Array,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Array> {
    conv_nd(x, w, stride, padding, dilation, groups, 2)
}

/// Convolution along three axes; see [`conv_general`].
pub fn conv3d(
    x: &Array,
    w: &Array,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
) -> Result<Array> {
    conv_nd(x, w, stride, padding, dilation, groups, 3)
}

fn conv_nd(
    x: &Array,
    w: &Array,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    groups: i64,
    rank: usize,
) -> Result<Array> {
    check_rank(x, w, rank)?;
    let options = ConvOptions {
        stride: stride.to_vec(),
        pad_low: padding.to_vec(),
        pad_high: padding.to_vec(),
        dilation: dilation.to_vec(),
        groups,
        ..ConvOptions::default()
    };
    conv_general(x, w, &options)
}

/// Transposed convolution over `rank` axes: the input is spread by the stride and the kernel flipped.
///
/// # Shapes
/// `out = (in - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + output_padding`.
///
/// # Errors
/// As [`conv_general`].
pub fn conv_transpose(
    x: &Array,
    w: &Array,
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    output_padding: &[i64],
    groups: i64,
    rank: usize,
) -> Result<Array> {
    check_rank(x, w, rank)?;
    let (pad, dil) = (spread(padding, rank, "padding")?, spread(dilation, rank, "dilation")?);
    let extra = spread(output_padding, rank, "output padding")?;
    if extra.iter().chain(&pad).any(|&e| e < 0) {
        bail!(Argument, "[conv_transpose] padding {pad:?}, output padding {extra:?}; accepted: 0 and more");
    }
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for d in 0..rank {
        let reach = dil[d].saturating_mul(w.shape()[d + 1] as i64 - 1).saturating_sub(pad[d]);
        low.push(reach);
        high.push(reach.saturating_add(extra[d]));
    }
    let options = ConvOptions {
        pad_low: low.iter().map(|&p| p.max(0)).collect(),
        pad_high: high.iter().map(|&p| p.max(0)).collect(),
        dilation: dil.to_vec(),
        input_dilation: stride.to_vec(),
        groups,
        flip: true,
        ..ConvOptions::default()
    };
    let mut y = conv_general(x, w, &options)?;
    // As the kernel moves by one here, padding below zero is cropping.
    for d in 0..rank {
        let (from, back) = (-low[d].min(0), -high[d].min(0));
        let to = (y.shape()[d + 1] as i64).saturating_sub(back);
        if to < from {
            bail!(Shape, "[conv_transpose] padding {} leaves nothing of axis {}", pad[d], d + 1);
        }
        y = y.slice_axis(d + 1, from as usize, to as usize)?;
    }
    Ok(y)
}

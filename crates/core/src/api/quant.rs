//! Quantized weights: MLX's groups along the last axis, and the block formats of GGUF files.

use super::linalg::gathered;
use super::node;
use crate::array::{Array, Inputs};
use crate::error::Result;
use crate::op::{GatherMatmul, Op, QuantMatmul, QuantMode, WeightFormat};
use crate::shape::Shape;
use crate::{Aval, BlockFormat, Dtype, bail, err};
use smallvec::smallvec;

/// How a weight is quantized in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grouping {
    pub group: usize,
    pub bits: usize,
    pub mode: QuantMode,
}

/// What a global scale of nvfp4 divides by: the largest code times the largest scale.
const NVFP4_RANGE: f64 = 6.0 * 448.0;

impl Grouping {
    /// A grouping with the mode's defaults where nothing is given.
    ///
    /// # Errors
    /// `Argument` for an unknown mode, or a group or a width that it does not have.
    pub fn new(group: Option<i64>, bits: Option<i64>, mode: &str) -> Result<Grouping> {
        let (m, g, b): (_, &[i64], &[i64]) = match mode {
            "affine" => (QuantMode::Affine, &[64, 32, 128], &[4, 1, 2, 3, 5, 6, 8]),
            "mxfp4" => (QuantMode::MxFp4, &[32], &[4]),
            "mxfp8" => (QuantMode::MxFp8, &[32], &[8]),
            "nvfp4" => (QuantMode::NvFp4, &[16], &[4]),
            _ => bail!(Argument, "[quantize] mode {mode:?}; accepted: affine, mxfp4, mxfp8, nvfp4"),
        };
        let (group, bits) = (group.unwrap_or(g[0]), bits.unwrap_or(b[0]));
        if !g.contains(&group) {
            bail!(Argument, "[quantize] groups of {group} in mode {mode}; accepted: {g:?}");
        }
        if !b.contains(&bits) {
            bail!(Argument, "[quantize] {bits} bits in mode {mode}; accepted: {b:?}");
        }
        Ok(Grouping { group: group as usize, bits: bits as usize, mode: m })
    }

    fn format(&self) -> WeightFormat {
        WeightFormat::Grouped { group: self.group as u16, bits: self.bits as u8, mode: self.mode }
    }

    /// Checks the parts of a weight and gives its shape without packing.
    fn check(&self, w: &Array, scales: &Array, biases: Option<&Array>, place: &str) -> Result<Shape> {
        let affine = self.mode == QuantMode::Affine;
        if w.dtype() != Dtype::U32 {
            bail!(Dtype, "[{place}] the codes are {}; accepted: uint32", w.dtype());
        }
        match biases {
            None if affine => bail!(Argument, "[{place}] mode affine needs biases"),
            Some(_) if !affine => bail!(Argument, "[{place}] mode {} takes no biases", self.mode.name()),
            Some(b) if b.shape() != scales.shape() => {
                bail!(Shape, "[{place}] scales {:?} and biases {:?} differ", scales.shape(), b.shape())
            }
            _ => {}
        }
        if affine && !scales.dtype().is_float() || !affine && scales.dtype() != Dtype::U8 {
            let want = if affine { "floating dtypes" } else { "uint8" };
            bail!(Dtype, "[{place}] the scales are {}; accepted: {want}", scales.dtype());
        }
        let n = w.ndim();
        let cols = w.shape().last().map_or(0, |&p| p.saturating_mul(32) / self.bits);
        let fits = n >= 1
            && scales.ndim() == n
            && w.shape()[..n - 1] == scales.shape()[..n - 1]
            && scales.shape()[n - 1].checked_mul(self.group) == Some(cols);
        if !fits {
            bail!(
                Shape,
                "[{place}] codes {:?} and scales {:?} are no weight of groups of {} and {} bits",
                w.shape(),
                scales.shape(),
                self.group,
                self.bits
            );
        }
        let mut shape = w.shape().clone();
        shape.as_mut()[n - 1] = cols;
        Ok(shape)
    }
}

fn parts(w: &Array, scales: &Array, biases: Option<&Array>) -> Inputs {
    [w, scales].into_iter().chain(biases).cloned().collect()
}

/// Quantizes in groups along the last axis: codes (uint32), scales and, for affine, biases.
///
/// With a global scale (nvfp4), scales are relative to it.
///
/// # Errors
/// `Dtype` unless floating, `Shape` unless there are two dimensions and whole groups.
pub fn quantize(w: &Array, grouping: Grouping, global_scale: Option<&Array>) -> Result<Vec<Array>> {
    let Grouping { group, bits, mode } = grouping;
    if !w.dtype().is_float() {
        bail!(Dtype, "[quantize] {} is not accepted; accepted: floating dtypes", w.dtype());
    }
    let n = w.ndim();
    if n < 2 || !w.shape()[n - 1].is_multiple_of(group) {
        bail!(Shape, "[quantize] {:?}: two dimensions and a last axis of whole groups of {group}", w.shape());
    }
    let w = match global_scale {
        None => w.clone(),
        Some(g) => {
            check_global(g, mode)?;
            let factor = g.astype(Dtype::F32)?.reciprocal()?.multiply(NVFP4_RANGE)?;
            w.astype(Dtype::F32)?.multiply(factor)?
        }
    };
    super::no_valid_length(std::slice::from_ref(&w), "quantize")?;
    let mut codes = w.shape().clone();
    codes.as_mut()[n - 1] = w.shape()[n - 1] * bits / 32;
    let mut groups = w.shape().clone();
    groups.as_mut()[n - 1] /= group;
    let mut avals = vec![Aval::new(codes, Dtype::U32)];
    if mode == QuantMode::Affine {
        avals.extend([Aval::new(groups.clone(), w.dtype()), Aval::new(groups, w.dtype())]);
    } else {
        avals.push(Aval::new(groups, Dtype::U8));
    }
    let op = Op::Quantize(group as u16, bits as u8, mode);
    Ok(Array::lazy_many(op, smallvec![w], smallvec![], avals.into()).into_vec())
}

fn check_global(g: &Array, mode: QuantMode) -> Result<()> {
    if mode != QuantMode::NvFp4 || g.size() != 1 || g.ndim() > 0 || !g.dtype().is_float() {
        bail!(
            Argument,
            "[quantize] a global scale of {:?} in mode {}; accepted: a 0-d float in mode nvfp4",
            g.shape(),
            mode.name()
        );
    }
    Ok(())
}

/// The values of a weight quantized in groups, in the scales' dtype, bfloat16 or the one given.
pub fn dequantize(
    w: &Array,
    scales: &Array,
    biases: Option<&Array>,
    grouping: Grouping,
    global_scale: Option<&Array>,
    dtype: Option<Dtype>,
) -> Result<Array> {
    let shape = grouping.check(w, scales, biases, "dequantize")?;
    let affine = grouping.mode == QuantMode::Affine;
    let dtype = dtype.unwrap_or(if affine { scales.dtype() } else { Dtype::BF16 });
    if !dtype.is_float() {
        bail!(Dtype, "[dequantize] {dtype} is not accepted; accepted: floating dtypes");
    }
    let op = Op::Dequantize(grouping.format());
    let made = match (affine, global_scale) {
        (true, _) => scales.dtype(),
        (false, Some(_)) => Dtype::F32,
        (false, None) => dtype,
    };
    let biases = match biases {
        Some(b) => Some(b.astype(scales.dtype())?),
        None => None,
    };
    let mut out = node(op, parts(w, scales, biases.as_ref()), smallvec![], shape, made)?;
    if let Some(g) = global_scale {
        check_global(g, grouping.mode)?;
        out = out.multiply(g.astype(Dtype::F32)?.divide(NVFP4_RANGE)?)?;
    }
    out.astype(dtype)
}

/// The dtype of a product with a quantized weight, and the inputs in the dtypes it reads.
fn product(x: &Array, scales: &Array, biases: Option<&Array>, affine: bool, place: &str) -> Result<Dtype> {
    if x.dtype() == Dtype::C64 {
        bail!(Dtype, "[{place}] complex64 is not accepted; accepted: real dtypes");
    }
    let x = x.dtype().to_inexact();
    Ok(if affine {
        let b = biases.map_or(scales.dtype(), |b| b.dtype());
        x.promote(scales.dtype()).promote(b)
    } else {
        x
    })
}

/// `x @ w^T`, or `x @ w` without `transpose`, with a weight quantized in groups.
///
/// # Errors
/// `Shape`, `Dtype` or `Argument` where parts do not make a weight, or it does not fit `x`.
pub fn quantized_matmul(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: Option<&Array>,
    transpose: bool,
    grouping: Grouping,
) -> Result<Array> {
    let place = "quantized_matmul";
    let weight = grouping.check(w, scales, biases, place)?;
    let dtype = product(x, scales, biases, grouping.mode == QuantMode::Affine, place)?;
    let (inner, cols) = sides(&weight, transpose, place)?;
    let x = x.astype(dtype)?;
    if x.ndim() < 1 || x.shape()[x.ndim() - 1] != inner {
        bail!(Shape, "[{place}] x is {:?}, the weight takes {inner} values a row", x.shape());
    }
    let mut shape = Shape::from(&x.shape()[..x.ndim() - 1]);
    if weight.len() > 2 {
        if x.ndim() < 2 {
            bail!(Shape, "[{place}] x is {:?} and the weight {weight:?}", x.shape());
        }
        let lead = Shape::from(&x.shape()[..x.ndim() - 2]);
        let rows = x.shape()[x.ndim() - 2];
        shape = lead.broadcast(&weight[..weight.len() - 2].into(), place)?;
        shape.push(rows);
    }
    shape.push(cols);
    let mut inputs = parts(w, scales, biases);
    inputs.insert(0, x);
    let op = QuantMatmul { format: grouping.format(), transpose, int8: false };
    node(Op::QuantMatmul(op), inputs, smallvec![], shape, dtype)
}

/// How many values a row of `x` has, and a row of the product.
fn sides(weight: &Shape, transpose: bool, place: &str) -> Result<(usize, usize)> {
    match weight[..] {
        [.., n, k] if transpose => Ok((k, n)),
        [.., k, n] => Ok((k, n)),
        _ => bail!(Shape, "[{place}] the weight is {weight:?}; accepted: two dimensions or more"),
    }
}

/// [`quantized_matmul`] with matrices chosen by flat indices over the leading axes, as in
/// [`super::gather_mm`].
///
/// A global scale (nvfp4) has one float for each matrix of the weight; the product is then made in float32 and
/// rounded once.
///
/// # Errors
/// As [`quantized_matmul`]; `Argument` for a global scale in another mode or of another shape.
pub fn gather_qmm(
    x: &Array,
    w: &Array,
    scales: &Array,
    biases: Option<&Array>,
    lhs: Option<&Array>,
    rhs: Option<&Array>,
    transpose: bool,
    grouping: Grouping,
    global_scale: Option<&Array>,
) -> Result<Array> {
    let place = "gather_qmm";
    let weight = grouping.check(w, scales, biases, place)?;
    let dtype = product(x, scales, biases, grouping.mode == QuantMode::Affine, place)?;
    if let Some(g) = global_scale {
        let lead = &weight[..weight.len() - 2];
        if grouping.mode != QuantMode::NvFp4 || g.shape()[..] != *lead || !g.dtype().is_float() {
            bail!(
                Argument,
                "[{place}] a global scale of {:?} in mode {}; accepted: floats of shape {lead:?} in mode nvfp4",
                g.shape(),
                grouping.mode.name()
            );
        }
        let out = gather_qmm(&x.astype(Dtype::F32)?, w, scales, biases, lhs, rhs, transpose, grouping, None)?;
        let mut factor = g.astype(Dtype::F32)?.divide(NVFP4_RANGE)?;
        if let Some(rhs) = rhs {
            factor = factor.flatten(0, -1)?.take(rhs, Some(0))?;
        }
        return out.multiply(factor.expand_dims(&[-2, -1])?)?.astype(dtype);
    }
    let (inner, cols) = sides(&weight, transpose, place)?;
    let n = x.ndim();
    if n < 2 || x.shape()[n - 1] != inner {
        bail!(Shape, "[{place}] x is {:?}, the weight takes {inner} values a row", x.shape());
    }
    if lhs.is_none() && rhs.is_none() {
        return quantized_matmul(x, w, scales, biases, transpose, grouping);
    }
    let quant = QuantMatmul { format: grouping.format(), transpose, int8: false };
    let op = GatherMatmul { quant: Some(quant), lhs: lhs.is_some(), rhs: rhs.is_some() };
    let x = x.astype(dtype)?;
    let mut inputs = parts(w, scales, biases);
    inputs.insert(0, x.clone());
    gathered(op, inputs, (&x, &weight[..weight.len() - 2], cols), lhs, rhs, dtype)
}

/// A weight in a block format: its bytes as in the file, or in the order the device reads fastest.
#[derive(Clone, Debug)]
pub struct BlockWeight {
    pub bytes: Array,
    pub format: BlockFormat,
    pub rows: usize,
    pub cols: usize,
    packed: bool,
}

impl BlockWeight {
    /// A weight of bytes of shape (rows, bytes of a row).
    ///
    /// # Errors
    /// `Dtype` unless uint8, `Shape` unless a row is `cols` values in whole blocks.
    pub fn new(bytes: Array, format: BlockFormat, cols: usize) -> Result<BlockWeight> {
        if bytes.dtype() != Dtype::U8 {
            bail!(Dtype, "[block_weight] the bytes are {}; accepted: uint8", bytes.dtype());
        }
        let row = format.row_bytes(cols).filter(|_| u32::try_from(cols).is_ok());
        let row = row.ok_or_else(|| {
            err!(Shape, "[block_weight] {cols} values are no whole blocks of {}", format.block_elems())
        })?;
        match bytes.shape()[..] {
            [rows, n] if n == row && u32::try_from(rows).is_ok() => {
                Ok(BlockWeight { bytes, format, rows, cols, packed: false })
            }
            _ => bail!(
                Shape,
                "[block_weight] bytes {:?} for {format} rows of {cols} values; accepted: (rows, {row})",
                bytes.shape()
            ),
        }
    }

    /// The weight in the byte order that the device's products read fastest.
    pub fn pack(&self) -> Result<BlockWeight> {
        if self.packed {
            return Ok(self.clone());
        }
        let op = Op::PackWeight(self.weight_format());
        let nbytes = self.format.packed_bytes(self.rows, self.cols);
        let shape =
            Shape::from(
                [nbytes.ok_or_else(|| err!(Shape, "[pack_weight] {} rows are too many", self.rows))?],
            );
        let bytes = node(op, smallvec![self.bytes.clone()], smallvec![], shape, Dtype::U8)?;
        Ok(BlockWeight { bytes, packed: true, ..self.clone() })
    }

    fn weight_format(&self) -> WeightFormat {
        let (format, rows, cols) = (self.format, self.rows as u32, self.cols as u32);
        if self.packed {
            WeightFormat::Packed { format, rows, cols }
        } else {
            WeightFormat::Block { format, cols }
        }
    }

    /// `x @ w^T`, in x's dtype; with `int8` activations may be rounded to 8 bits, a scale for every 32.
    ///
    /// # Errors
    /// `Shape` unless x has rows of `cols` values, `Dtype` unless it is floating.
    pub fn matmul(&self, x: &Array, int8: bool) -> Result<Array> {
        let n = x.ndim();
        if !x.dtype().is_float() {
            bail!(Dtype, "[block_matmul] x is {}; accepted: floating dtypes", x.dtype());
        }
        if n < 1 || x.shape()[n - 1] != self.cols {
            bail!(Shape, "[block_matmul] x is {:?}, the weight takes {} values a row", x.shape(), self.cols);
        }
        let mut shape = x.shape().clone();
        shape.as_mut()[n - 1] = self.rows;
        let op = QuantMatmul { format: self.weight_format(), transpose: true, int8 };
        node(Op::QuantMatmul(op), smallvec![x.clone(), self.bytes.clone()], smallvec![], shape, x.dtype())
    }

    /// Rows at indices, dequantized; indices follow the rule of [`Array::take`].
    pub fn take(&self, indices: &Array, dtype: Dtype) -> Result<Array> {
        super::gather::check_indices(indices, "quantized_take")?;
        if !dtype.is_float() {
            bail!(Dtype, "[quantized_take] {dtype} is not accepted; accepted: floating dtypes");
        }
        if self.rows == 0 && indices.size() > 0 {
            bail!(Axis, "[quantized_take] the table has no rows");
        }
        let mut shape = indices.shape().clone();
        shape.push(self.cols);
        let op = Op::QuantTake(self.weight_format());
        node(op, smallvec![self.bytes.clone(), indices.clone()], smallvec![], shape, dtype)
    }

    /// All values.
    pub fn dequantize(&self, dtype: Dtype) -> Result<Array> {
        if !dtype.is_float() {
            bail!(Dtype, "[dequantize] {dtype} is not accepted; accepted: floating dtypes");
        }
        let op = Op::Dequantize(self.weight_format());
        node(op, smallvec![self.bytes.clone()], smallvec![], [self.rows, self.cols].into(), dtype)
    }
}

//! Quantized weights as steps: products, rows, conversions both ways.

use super::{Outs, inputs, many, matmul, one};
use crate::buffer::CpuBuffer;
use crate::kernels::codes::{e8m0, fp8, pack, to_e8m0, to_fp4, to_fp8};
use crate::kernels::gemv::{
    QuantX, dequantize_row, pack_into, qmatmul_f32, qmatmul_i8, qmatmul_packed_f32, qmatmul_packed_i8,
};
use crate::kernels::grouped::{self, Code, Grouped, Groups};
use crate::kernels::quant::Spec as BlockSpec;
use crate::kernels::quant::packed::{TILE, packed_bytes, read_block, tile_bytes};
use crate::pool;
use crate::scratch::{Elems, Scratch};
use crate::view::{self, buffer, dense, dense_f32};
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::op::index::clamp;
use isopace_core::op::{QuantMatmul, QuantMode, WeightFormat};
use isopace_core::{Aval, BlockFormat, Dtype, Result, bail, err};
use std::cell::RefCell;
use std::sync::Arc;

/// A weight of any format: a stack of matrices of `rows` x `cols`.
enum Weight<'a> {
    Block { format: BlockFormat, bytes: Elems<'a, u8> },
    Packed { format: BlockFormat, bytes: &'a [u8], rows: usize },
    Grouped(Grouped<'a>),
}

/// A weight with its extents; `lead` matrices stand one after the other.
struct Matrices<'a> {
    weight: Weight<'a>,
    lead: usize,
    rows: usize,
    cols: usize,
}

impl<'a> Matrices<'a> {
    fn new(parts: &'a [Input<'_>], avals: &[Aval], format: WeightFormat) -> Result<Matrices<'a>> {
        if parts.len() != format.parts() || avals.len() != parts.len() {
            bail!(Internal, "[dequantize] {} parts for {format:?}", parts.len());
        }
        let shape = &parts[0].layout.shape;
        let n = shape.len();
        let lead: usize = shape[..n.saturating_sub(2)].iter().product();
        let rows = if n >= 2 { shape[n - 2] } else { 1 };
        let (weight, lead, rows, cols) = match format {
            WeightFormat::Block { format, cols } => {
                (Weight::Block { format, bytes: dense(&parts[0])? }, lead, rows, cols as usize)
            }
            WeightFormat::Packed { format, rows, cols } => {
                let (rows, cols) = (rows as usize, cols as usize);
                let file = format.row_bytes(cols).unwrap_or(0) * rows;
                let lead = shape.elems().checked_div(file).unwrap_or(1);
                let need = packed_bytes(format, rows, cols)?.saturating_mul(lead);
                let bytes = buffer(&parts[0])?.bytes().get(parts[0].layout.offset..).unwrap_or(&[]);
                if bytes.len() < need || !parts[0].layout.is_contiguous() {
                    bail!(Internal, "[dequantize] {} bytes of packed {rows} x {cols} {format}", bytes.len());
                }
                (Weight::Packed { format, bytes: &bytes[..need], rows }, lead, rows, cols)
            }
            WeightFormat::Grouped { group, bits, mode } => {
                let (group, bits) = (group as usize, bits as usize);
                let cols = shape.last().copied().unwrap_or(0) * 32 / bits.max(1);
                let floats = |i: usize| -> Result<Groups<'a>> {
                    Ok(match avals[i].dtype {
                        Dtype::F16 => Groups::F16(dense(&parts[i])?),
                        Dtype::BF16 => Groups::BF16(dense(&parts[i])?),
                        d => Groups::F32(dense_f32(&parts[i], d)?),
                    })
                };
                let (code, scales, biases) = match mode {
                    QuantMode::Affine => (Code::Int, floats(1)?, Some(floats(2)?)),
                    QuantMode::NvFp4 => (Code::Fp4, Groups::Fp8(dense(&parts[1])?), None),
                    QuantMode::MxFp4 => (Code::Fp4, Groups::E8m0(dense(&parts[1])?), None),
                    QuantMode::MxFp8 => (Code::Fp8, Groups::E8m0(dense(&parts[1])?), None),
                };
                let words = dense(&parts[0])?;
                let w = Grouped { rows: lead * rows, cols, group, bits, code, words, scales, biases };
                w.check()?;
                (Weight::Grouped(w), lead, rows, cols)
            }
        };
        let m = Matrices { weight, lead, rows, cols };
        if let Weight::Block { format, bytes } = &m.weight
            && format.row_bytes(m.cols).map(|b| b * m.lead * m.rows) != Some(bytes.len())
        {
            bail!(Shape, "[dequantize] {} bytes for {} x {} {format}", bytes.len(), m.rows, m.cols);
        }
        Ok(m)
    }

    /// Row `r` of the stack as float32, as the peer's dequantize gives it.
    fn row(&self, r: usize, out: &mut [f32]) -> Result<()> {
        match &self.weight {
            Weight::Block { format, bytes } => {
                let n = bytes.len() / (self.lead * self.rows).max(1);
                dequantize_row(*format, &bytes[r * n..][..n], out)?;
            }
            Weight::Packed { format, bytes, rows } => {
                let size = tile_bytes(*format, self.cols);
                let matrix = rows.div_ceil(TILE) * size;
                let at = r / rows * matrix + r % rows / TILE * size;
                let bias = BlockSpec::of(*format).bias as f32;
                for (sb, o) in out.chunks_mut(format.block_elems()).enumerate() {
                    let block = read_block(*format, &bytes[at..][..size], r % rows % TILE, sb);
                    for (i, o) in o.iter_mut().enumerate() {
                        *o = (block.q[i] as f32 - bias) * block.scale[i / 16] - block.min[i / 16];
                    }
                }
            }
            Weight::Grouped(w) => w.row(r, out),
        }
        Ok(())
    }

    /// All rows, on the pool. `rounded`: as the peer's dequantize; a product takes the values as they are.
    fn all(&self, rounded: bool, out: &mut [f32]) -> Result<()> {
        if out.len() != self.lead * self.rows * self.cols {
            bail!(Shape, "[dequantize] {} values of {} x {}", out.len(), self.lead * self.rows, self.cols);
        }
        if let Weight::Grouped(w) = &self.weight
            && !rounded
        {
            return grouped::dequantize(w, out);
        }
        let failed = parking_lot::Mutex::new(Ok(()));
        pool::for_chunks(out, self.cols.max(1) * 8, |c, part| {
            for (j, o) in part.chunks_mut(self.cols.max(1)).enumerate() {
                if let Err(e) = self.row(c * 8 + j, o) {
                    *failed.lock() = Err(e);
                }
            }
        });
        failed.into_inner()
    }
}

thread_local! {
    static QUANT: RefCell<QuantX> = RefCell::default();
}

/// All values of a weight, row by row.
pub fn dense_weight(parts: &[Input<'_>], avals: &[Aval], format: WeightFormat) -> Result<Scratch<f32>> {
    let m = Matrices::new(parts, avals, format)?;
    let mut out = Scratch::new(m.lead * m.rows * m.cols)?;
    m.all(false, &mut out)?;
    Ok(out)
}

/// x @ w^T or x @ w.
pub fn quant_matmul(spec: Spec<'_>, q: QuantMatmul) -> Result<Arc<dyn Kernel>> {
    let n = q.format.parts();
    let (avals, out) = (inputs(spec, 1 + n)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let w = Matrices::new(&ins[1..1 + n], &avals[1..1 + n], q.format)?;
        let k = *ins[0].layout.shape.last().unwrap_or(&0);
        let inner = if q.transpose { w.cols } else { w.rows };
        if inner != k {
            bail!(Shape, "[quantized_matmul] {k} columns against {inner}");
        }
        let m = x.len().checked_div(k).unwrap_or(0);
        let made = view::write_f32(&out, |o| {
            if w.lead != 1 || !q.transpose {
                let mut dense = Scratch::new(w.lead * w.rows * w.cols)?;
                w.all(false, &mut dense)?;
                let wide = if q.transpose { w.rows } else { w.cols };
                return matmul::stacked(
                    &x,
                    &ins[0].layout.shape,
                    &dense,
                    &avals[1].shape,
                    (k, wide),
                    q.transpose,
                    &out,
                    o,
                );
            }
            product(&w, &x, m, q.int8, o)
        })?;
        Ok(view::value(made, &out))
    })
}

/// One matrix with `m` vectors.
fn product(w: &Matrices<'_>, x: &[f32], m: usize, int8: bool, o: &mut [f32]) -> Result<()> {
    let (rows, cols) = (w.rows, w.cols);
    let quantized = |f: &mut dyn FnMut(&QuantX) -> Result<()>| {
        let mut q = QUANT.take();
        q.quantize(x, m, cols);
        let r = f(&q);
        QUANT.set(q);
        r
    };
    match &w.weight {
        Weight::Block { format, bytes } if int8 => {
            quantized(&mut |q| qmatmul_i8(*format, bytes, rows, cols, q, o))
        }
        Weight::Block { format, bytes } => qmatmul_f32(*format, bytes, rows, cols, x, m, o),
        Weight::Packed { format, bytes, .. } if int8 => {
            quantized(&mut |q| qmatmul_packed_i8(*format, bytes, rows, cols, q, o))
        }
        Weight::Packed { format, bytes, .. } => qmatmul_packed_f32(*format, bytes, rows, cols, x, m, o),
        Weight::Grouped(w) => grouped::qmatmul_grouped(w, x, m, o),
    }
}

/// The values of a weight.
pub fn dequantize(spec: Spec<'_>, format: WeightFormat) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, format.parts())?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let w = Matrices::new(ins, &avals, format)?;
        Ok(view::value(view::write_f32(&out, |o| w.all(true, o))?, &out))
    })
}

/// Rows of a table at indices.
pub fn quant_take(spec: Spec<'_>, format: WeightFormat) -> Result<Arc<dyn Kernel>> {
    let n = format.parts();
    let (avals, out) = (inputs(spec, n + 1)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let index = view::indices(&ins[n], avals[n].dtype)?;
        let w = Matrices::new(&ins[..n], &avals[..n], format)?;
        let rows = w.lead * w.rows;
        if index.len() * w.cols != out.shape.elems() || (rows == 0 && !index.is_empty()) {
            bail!(Axis, "[quantized_take] {} indices into {rows} rows for {:?}", index.len(), out.shape);
        }
        let made = view::write_f32(&out, |o| {
            for (&i, o) in index.iter().zip(o.chunks_mut(w.cols.max(1))) {
                w.row(clamp(i, rows), o)?;
            }
            Ok(())
        })?;
        Ok(view::value(made, &out))
    })
}

/// The packed form of block-format matrices. The result's buffer may be a little longer than its
/// aval says: packed tiles are whole.
pub fn pack_weight(spec: Spec<'_>, format: WeightFormat) -> Result<Arc<dyn Kernel>> {
    let (_, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    let (WeightFormat::Block { format, cols } | WeightFormat::Packed { format, cols, .. }) = format else {
        bail!(Unsupported, "[pack_weight] {format:?} has no packed form on the CPU")
    };
    let cols = cols as usize;
    one(spec, move |ins, _| {
        let shape = &ins[0].layout.shape;
        let n = shape.len();
        if n < 2 {
            bail!(Shape, "[pack_weight] {shape:?} has no rows");
        }
        let (lead, rows) = (shape[..n - 2].iter().product::<usize>(), shape[n - 2]);
        let size = packed_bytes(format, rows, cols)?;
        let bytes = dense::<u8>(&ins[0])?;
        let one = bytes.len().checked_div(lead).unwrap_or(0);
        let total =
            size.checked_mul(lead).ok_or_else(|| err!(Shape, "[pack_weight] {shape:?} is too large"))?;
        let mut b = CpuBuffer::new(total.max(out.nbytes()))?;
        let data = b.slice_mut::<u8>()?;
        for i in 0..lead {
            pack_into(format, &bytes[i * one..][..one], rows, cols, &mut data[i * size..][..size])?;
        }
        Ok(view::value(b, &out))
    })
}

/// Quantizes groups of an affine format: codes, scale, bias.
fn affine_group(w: &[f32], bits: usize, codes: &mut [u32]) -> (f32, f32) {
    let top = ((1u32 << bits) - 1) as f32;
    let lo = w.iter().copied().fold(f32::INFINITY, f32::min);
    let hi = w.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut step = ((hi - lo) / top).max(1e-7);
    let mut bias = lo;
    if bits > 1 {
        let mut edge = lo;
        if lo.abs() <= hi.abs() {
            (edge, step) = (hi, -step);
        }
        let n = (edge / step).round_ties_even();
        (step, bias) = if n != 0.0 { (edge / n, edge) } else { (step, 0.0) };
    }
    for (c, x) in codes.iter_mut().zip(w) {
        *c = ((x - bias) / step).round_ties_even().clamp(0.0, top) as u32;
    }
    (step, bias)
}

fn float_group(w: &[f32], mode: QuantMode, codes: &mut [u32]) -> u8 {
    let most = w.iter().fold(0f32, |m, x| m.max(x.abs()));
    let (stored, scale) = match mode {
        QuantMode::NvFp4 => {
            let s = to_fp8(most / 6.0);
            (s, fp8(s))
        }
        _ => {
            let s = to_e8m0(most / if mode == QuantMode::MxFp8 { 448.0 } else { 6.0 });
            (s, e8m0(s))
        }
    };
    for (c, &x) in codes.iter_mut().zip(w) {
        let x = if scale == 0.0 { 0.0 } else { x / scale };
        *c = if mode == QuantMode::MxFp8 { to_fp8(x) as u32 } else { to_fp4(x) };
    }
    stored
}

/// Quantizes in groups along the last axis, in float32.
pub fn quantize(spec: Spec<'_>, group: usize, bits: usize, mode: QuantMode) -> Result<Arc<dyn Kernel>> {
    let avals = inputs(spec, 1)?;
    let outs: Vec<Aval> = spec.outs.to_vec();
    let cols = *avals[0].shape.last().unwrap_or(&0);
    let affine = mode == QuantMode::Affine;
    if group == 0
        || !cols.is_multiple_of(group)
        || !(1..=8).contains(&bits)
        || !(cols * bits).is_multiple_of(32)
    {
        bail!(Shape, "[quantize] {cols} columns in groups of {group} with {bits} bits");
    }
    if outs.len() != if affine { 3 } else { 2 } {
        bail!(Internal, "[quantize] {} outputs", outs.len());
    }
    many(spec, move |ins, _| {
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let mut words = CpuBuffer::new(outs[0].nbytes())?;
        let all = words.slice_mut::<u32>()?;
        all.fill(0);
        let groups = x.len() / group;
        let (mut scales, mut biases) = (Scratch::new(groups)?, Scratch::new(groups)?);
        let mut stored = Scratch::new(groups)?;
        let mut codes = vec![0u32; cols];
        for (r, row) in x.chunks(cols.max(1)).enumerate() {
            for (g, w) in row.chunks(group).enumerate() {
                let at = r * (cols / group) + g;
                let codes = &mut codes[g * group..][..group];
                if affine {
                    (scales[at], biases[at]) = affine_group(w, bits, codes);
                } else {
                    stored[at] = float_group(w, mode, codes);
                }
            }
            let n = cols * bits / 32;
            pack(&codes, bits, &mut all[r * n..][..n]);
        }
        let mut made = Outs::new();
        made.push(view::value(words, &outs[0]));
        if affine {
            made.push(view::value(view::round_f32(&scales, outs[1].dtype)?, &outs[1]));
            made.push(view::value(view::round_f32(&biases, outs[2].dtype)?, &outs[2]));
        } else {
            made.push(view::value(CpuBuffer::copy_of(&stored)?, &outs[1]));
        }
        Ok(made)
    })
}

/// Float32 to fp8 codes.
pub fn to_fp8_step(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let mut b = CpuBuffer::new(out.nbytes())?;
        b.slice_mut::<u8>()?.iter_mut().zip(x.iter()).for_each(|(o, &x)| *o = to_fp8(x));
        Ok(view::value(b, &out))
    })
}

/// fp8 codes to a floating dtype.
pub fn from_fp8_step(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (_, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let x = dense::<u8>(&ins[0])?;
        let made = view::write_f32(&out, |o| {
            o.iter_mut().zip(x.iter()).for_each(|(o, &x)| *o = fp8(x));
            Ok(())
        })?;
        Ok(view::value(made, &out))
    })
}

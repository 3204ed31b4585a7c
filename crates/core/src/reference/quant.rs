//! Quantized weights: MLX's grouped formats and what is done with weights of any format. Codes of a row
//! are a little-endian bit stream over its 32-bit words.

use super::blocks;
use super::codes::{e8m0, fp4, fp8, pack, to_e8m0, to_fp4, to_fp8, unpack};
use super::index::indices;
use super::matmul::{matmul, pair_products, split};
use super::tensor::{Data, Tensor, narrow};
use crate::aval::Aval;
use crate::op::index::clamp;
use crate::op::scalar_ops::round;
use crate::op::{GatherMatmul, QuantMatmul, QuantMode, WeightFormat};
use crate::shape::Shape;
use crate::{Dtype, Layout, Result, bail};

/// A group's codes with its scale and bias.
struct Group {
    codes: Vec<u32>,
    scale: f64,
    bias: f64,
}

fn affine_group(w: &[f32], bits: u8) -> Group {
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
    let code = |x: &f32| ((x - bias) / step).round_ties_even().clamp(0.0, top) as u32;
    Group { codes: w.iter().map(code).collect(), scale: step as f64, bias: bias as f64 }
}

fn float_group(w: &[f32], mode: QuantMode) -> Group {
    let most = w.iter().fold(0f32, |m, x| m.max(x.abs()));
    let (stored, scale) = match mode {
        QuantMode::NvFp4 => {
            let s = to_fp8(most / 6.0);
            (s, fp8(s))
        }
        _ => {
            let s = to_e8m0(most / if mode == QuantMode::MxFp8 { 448.0 } else { 6.0 });
            (s, e8m0(s) as f32)
        }
    };
    let code = |&x: &f32| {
        let x = if scale == 0.0 { 0.0 } else { x / scale };
        if mode == QuantMode::MxFp8 { to_fp8(x) as u32 } else { to_fp4(x) }
    };
    Group { codes: w.iter().map(code).collect(), scale: stored as f64, bias: 0.0 }
}

/// Codes, scales and, for affine, biases of groups along the last axis, computed in float32.
pub(super) fn quantize(
    group: u16,
    bits: u8,
    mode: QuantMode,
    w: &Tensor,
    outs: &[Aval],
) -> Result<Vec<Tensor>> {
    let Some(&cols) = w.shape.last() else { bail!(Shape, "[quantize] a 0-d array has no last axis") };
    if cols % group as usize != 0 {
        bail!(Shape, "[quantize] {cols} columns are not whole groups of {group}");
    }
    let values: Vec<f32> = w.floats().into_iter().map(|x| x as f32).collect();
    let (mut words, mut scales, mut biases) = (Vec::new(), Vec::new(), Vec::new());
    for row in values.chunks(cols.max(1)) {
        let mut codes = Vec::with_capacity(cols);
        for part in row.chunks(group as usize) {
            let g =
                if mode == QuantMode::Affine { affine_group(part, bits) } else { float_group(part, mode) };
            codes.extend(g.codes);
            scales.push(g.scale);
            biases.push(g.bias);
        }
        words.extend(pack(&codes, bits as usize).into_iter().map(i128::from));
    }
    let codes = Tensor::new(&outs[0], Data::Int(words));
    Ok(if mode == QuantMode::Affine {
        vec![codes, Tensor::new(&outs[1], Data::Float(scales)), Tensor::new(&outs[2], Data::Float(biases))]
    } else {
        vec![codes, Tensor::new(&outs[1], Data::Int(scales.into_iter().map(|s| s as i128).collect()))]
    })
}

/// The values of a weight. Affine values are exact, or rounded to the scales' dtype after the product
/// and after the sum, as the peer's `dequantize` does.
fn decode(format: WeightFormat, parts: &[Tensor], rounded: bool) -> Result<Tensor> {
    if parts.len() != format.parts() {
        bail!(Internal, "[dequantize] {} parts for {format:?}", parts.len());
    }
    let (shape, values) = match format {
        WeightFormat::Block { format, cols } => {
            let mut shape = parts[0].shape.clone();
            if let Some(last) = shape.as_mut().last_mut() {
                *last = cols as usize;
            }
            (shape, block_values(format, &parts[0], usize::MAX)?)
        }
        WeightFormat::Packed { format, rows, cols } => {
            let (rows, cols) = (rows as usize, cols as usize);
            let nbytes = format.row_bytes(cols).unwrap_or(0) * rows;
            ([rows, cols].into(), block_values(format, &parts[0], nbytes)?)
        }
        WeightFormat::Grouped { group, bits, mode } => grouped(group, bits, mode, parts, rounded)?,
    };
    if shape.elems() != values.len() {
        bail!(Shape, "[dequantize] {} values in parts for shape {shape:?}", values.len());
    }
    Ok(Tensor { shape, dtype: Dtype::F64, data: Data::Float(values) })
}

/// The values of the first `nbytes` bytes.
fn block_values(format: crate::BlockFormat, part: &Tensor, nbytes: usize) -> Result<Vec<f64>> {
    let bytes: Vec<u8> = part.ints("dequantize")?.iter().take(nbytes).map(|&b| b as u8).collect();
    Ok(blocks::decode(format, &bytes)?.into_iter().map(f64::from).collect())
}

fn grouped(
    group: u16,
    bits: u8,
    mode: QuantMode,
    parts: &[Tensor],
    rounded: bool,
) -> Result<(Shape, Vec<f64>)> {
    let (codes, scales) = (&parts[0], &parts[1]);
    let (group, bits) = (group as usize, bits as usize);
    let Some((&packed, lead)) = codes.shape.split_last() else {
        bail!(Shape, "[dequantize] the codes need an axis")
    };
    let cols = packed * 32 / bits;
    let rows = lead.iter().product::<usize>();
    if scales.elems() * group != rows * cols {
        bail!(Shape, "[dequantize] scales {:?} do not fit codes {:?}", scales.shape, codes.shape);
    }
    let words: Vec<u32> = codes.ints("dequantize")?.iter().map(|&w| w as u32).collect();
    let scale_values = scales.floats();
    let biases = parts.get(2).map(Tensor::floats);
    let mut values = Vec::with_capacity(rows * cols);
    for row in 0..rows {
        for (j, code) in unpack(&words[row * packed..][..packed], bits, cols).into_iter().enumerate() {
            let g = (row * cols + j) / group;
            let s = scale_values[g];
            values.push(match mode {
                QuantMode::Affine => {
                    let bias = biases.as_ref().map_or(0.0, |b| b[g]);
                    let d = if rounded { scales.dtype } else { Dtype::F64 };
                    round(round(code as f64 * s, d) + bias, d)
                }
                QuantMode::MxFp4 => fp4(code) as f64 * e8m0(s as u8),
                QuantMode::MxFp8 => fp8(code as u8) as f64 * e8m0(s as u8),
                QuantMode::NvFp4 => fp4(code) as f64 * fp8(s as u8) as f64,
            });
        }
    }
    let mut shape: Shape = lead.into();
    shape.push(cols);
    Ok((shape, values))
}

pub(super) fn dequantize(format: WeightFormat, parts: &[Tensor], out: &Aval) -> Result<Tensor> {
    let w = decode(format, parts, true)?;
    if w.elems() != out.shape.elems() {
        bail!(Shape, "[dequantize] makes {:?}, not {:?}", w.shape, out.shape);
    }
    Ok(w.cast(out.dtype).reshape(out.shape.clone()))
}

/// Rows at indices, which are clamped into range.
pub(super) fn take(format: WeightFormat, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let (index, parts) = (&ins[ins.len() - 1], &ins[..ins.len() - 1]);
    let w = decode(format, parts, true)?;
    let cols = w.shape.last().copied().unwrap_or(1);
    let rows = w.elems() / cols.max(1);
    let index = indices(index, "quantized_take")?;
    if rows == 0 && !index.is_empty() {
        bail!(Axis, "[quantized_take] the table has no rows");
    }
    let places = index.iter().flat_map(|&i| {
        let row = clamp(i, rows);
        row * cols..(row + 1) * cols
    });
    let data = w.data.pick(places);
    Ok(Tensor { shape: out.shape.clone(), dtype: Dtype::F64, data }.cast(out.dtype))
}

/// The weight as the right operand of a product.
fn right_operand(q: &QuantMatmul, parts: &[Tensor]) -> Result<Tensor> {
    let w = decode(q.format, parts, false)?;
    Ok(if q.transpose { swap_last(&w) } else { w })
}

fn swap_last(t: &Tensor) -> Tensor {
    let mut perm: Vec<usize> = (0..t.shape.len()).collect();
    let n = perm.len();
    if n > 1 {
        perm.swap(n - 1, n - 2);
    }
    t.transpose(&perm)
}

/// x @ w^T or x @ w with exact weight values.
pub(super) fn quant_matmul(q: &QuantMatmul, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let x = &ins[0];
    let w = right_operand(q, &ins[1..])?;
    if x.shape.len() == 1 {
        return matmul(&x.clone().reshape([1, x.elems()]), &w, out);
    }
    matmul(x, &w, out)
}

/// Products of the matrices that index arrays choose, counted over the leading axes and clamped;
/// without an array each is chosen in turn.
pub(super) fn gather_matmul(g: &GatherMatmul, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let parts = g.quant.map_or(1, |q| q.format.parts());
    let x = &ins[0];
    let w = match &g.quant {
        Some(q) => right_operand(q, &ins[1..1 + parts])?,
        None => ins[1].clone(),
    };
    let (out_batch, ..) = split(&out.shape, "gather_mm")?;
    let mut arrays = ins[1 + parts..].iter();
    let mut choose = |given: bool, t: &Tensor| -> Result<Vec<usize>> {
        let (batch, ..) = split(&t.shape, "gather_mm")?;
        let count = batch.elems();
        match given.then(|| arrays.next()).flatten() {
            Some(index) if count == 0 && index.elems() > 0 => {
                bail!(Axis, "[gather_mm] there are no matrices in shape {:?}", t.shape)
            }
            Some(index) => {
                let index = indices(&index.broadcast_to(&out_batch), "gather_mm")?;
                Ok(index.into_iter().map(|i| clamp(i, count)).collect())
            }
            None => Ok(Layout::contiguous(batch).broadcast_to(&out_batch).offsets().collect()),
        }
    };
    let left = choose(g.lhs, x)?;
    let right = choose(g.rhs, &w)?;
    pair_products(x, &w, left.into_iter().zip(right).collect(), out)
}

/// Float32 to fp8 codes.
pub(super) fn encode_fp8(x: &Tensor, out: &Aval) -> Tensor {
    Tensor::new(out, Data::Int(x.floats().iter().map(|&x| to_fp8(x as f32) as i128).collect()))
}

/// fp8 codes to the result's dtype.
pub(super) fn decode_fp8(x: &Tensor, out: &Aval) -> Result<Tensor> {
    let values = x.ints("from_fp8")?.iter().map(|&c| narrow(fp8(c as u8) as f64, out.dtype));
    Ok(Tensor::new(out, Data::Float(values.collect())))
}

/// The reference's packed order is the file's, filled up with zeros.
pub(super) fn pack_weight(bytes: &Tensor, out: &Aval) -> Result<Tensor> {
    let mut data = bytes.ints("pack_weight")?.to_vec();
    data.resize(out.shape.elems(), 0);
    Ok(Tensor::of(out.shape.clone(), out.dtype, Data::Int(data)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Op;
    use crate::reference::compute;

    /// Eight rows of 256 values of growing size from a fixed generator, some groups constant.
    fn weights(dtype: Dtype) -> Tensor {
        let mut x = 12345u32;
        let values = (0..8 * 256).map(|i| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            match (i / 256, i % 256 / 128) {
                (0, 0) => 0.0,
                (1, 1) => 0.75,
                (2, 1) => -0.5,
                (row, _) => ((x >> 8) as f64 / 8388608.0 - 1.0) * (row as f64 - 4.0).exp2(),
            }
        });
        let f32s = Tensor::of([8, 256].into(), Dtype::F32, Data::Float(values.collect()));
        f32s.cast(dtype)
    }

    fn fnv(h: u64, t: &Tensor) -> u64 {
        t.to_bytes().into_iter().fold(h, |h, b| (h ^ b as u64).wrapping_mul(0x100000001b3))
    }

    fn hash(mode: QuantMode, bits: u8, group: u16, dtype: Dtype) -> u64 {
        let w = weights(dtype);
        let groups = [8, 256 / group as usize];
        let mut outs = vec![Aval::new([8, 8 * bits as usize], Dtype::U32)];
        if mode == QuantMode::Affine {
            outs.extend([Aval::new(groups, dtype), Aval::new(groups, dtype)]);
        } else {
            outs.push(Aval::new(groups, Dtype::U8));
        }
        let parts = compute(&Op::Quantize(group, bits, mode), &[w], &[], &outs).unwrap();
        let h = parts.iter().fold(0xcbf29ce484222325, fnv);
        let back = Op::Dequantize(WeightFormat::Grouped { group, bits, mode });
        fnv(h, &compute(&back, &parts, &[], &[Aval::new([8, 256], dtype)]).unwrap()[0])
    }

    /// The hashes are those of what MLX 0.32.4 gives for the same values: codes, scales, biases and the
    /// dequantized weight, over three dtypes and the group sizes.
    #[test]
    fn grouped_formats_agree_with_the_peer() {
        let want: [(QuantMode, u8, &[u16], u64); 10] = [
            (QuantMode::Affine, 1, &[32, 64, 128], 0xad49838a33bd9640),
            (QuantMode::Affine, 2, &[32, 64, 128], 0x4b130a19286082b6),
            (QuantMode::Affine, 3, &[32, 64, 128], 0x69433535cfb27375),
            (QuantMode::Affine, 4, &[32, 64, 128], 0x925abe2553c35ff3),
            (QuantMode::Affine, 5, &[32, 64, 128], 0x4dd9a71dee7b90fd),
            (QuantMode::Affine, 6, &[32, 64, 128], 0xf9ca9ee4542d12cc),
            (QuantMode::Affine, 8, &[32, 64, 128], 0x5ab96d6ea04f1223),
            (QuantMode::MxFp4, 4, &[32], 0xff412f73054c5fb0),
            (QuantMode::MxFp8, 8, &[32], 0x58f7c7c358498e69),
            (QuantMode::NvFp4, 4, &[16], 0x4d7fbc410aa44116),
        ];
        for (mode, bits, sizes, want) in want {
            let mut got = 0u64;
            for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
                for &group in sizes {
                    got = got.wrapping_mul(0x100000001b3) ^ hash(mode, bits, group, dtype);
                }
            }
            assert_eq!(got, want, "{mode:?} {bits}");
        }
    }

    fn floats(shape: impl Into<Shape>, v: &[f64]) -> Tensor {
        Tensor::of(shape.into(), Dtype::F32, Data::Float(v.to_vec()))
    }

    /// A weight of three rows of 32: row r is 1 in column r and 0.5 in the last.
    fn q8(rows: &[usize]) -> Tensor {
        let block = |r: usize| {
            let mut b = vec![0u8; 34];
            b[1] = 0x38; // 0.5
            b[2 + r] = 2;
            b[33] = 1;
            b.into_iter().map(i128::from)
        };
        Tensor::of(
            [rows.len(), 34].into(),
            Dtype::U8,
            Data::Int(rows.iter().flat_map(|&r| block(r)).collect()),
        )
    }

    #[test]
    fn products_and_rows_of_weights() {
        let format = WeightFormat::Block { format: crate::BlockFormat::Q8_0, cols: 32 };
        let w = q8(&[0, 1, 2]);
        let q = QuantMatmul { format, transpose: true, int8: false };
        let x: Vec<f64> = (0..64).map(f64::from).collect();
        let aval = |s: &[usize]| [Aval::new(s, Dtype::F32)];
        let run =
            |op: Op, ins: &[Tensor], out: &[usize]| compute(&op, ins, &[], &aval(out)).unwrap()[0].floats();
        let two = [15.5, 16.5, 17.5, 63.5, 64.5, 65.5];
        assert_eq!(run(Op::QuantMatmul(q), &[floats([2, 32], &x), w.clone()], &[2, 3]), two);
        assert_eq!(run(Op::QuantMatmul(q), &[floats([32], &x[..32]), w.clone()], &[3]), two[..3]);
        let plain = Op::QuantMatmul(QuantMatmul { transpose: false, ..q });
        let y = run(plain, &[floats([1, 3], &[1.0, 2.0, 3.0]), w.clone()], &[1, 32]);
        assert_eq!((y[0], y[1], y[2], y[31], y[5]), (1.0, 2.0, 3.0, 3.0, 0.0));

        // Packing and back.
        let packed = Op::PackWeight(format);
        let p = compute(&packed, std::slice::from_ref(&w), &[], &[Aval::new([102], Dtype::U8)])
            .unwrap()
            .remove(0);
        let as_packed = WeightFormat::Packed { format: crate::BlockFormat::Q8_0, rows: 3, cols: 32 };
        let again = Op::QuantMatmul(QuantMatmul { format: as_packed, ..q });
        assert_eq!(run(again, &[floats([2, 32], &x), p], &[2, 3]), two);

        // Rows: negative counts from the end, what is outside is clamped.
        let index = Tensor::of([4].into(), Dtype::I32, Data::Int(vec![-1, 1, 99, -99]));
        let rows = run(Op::QuantTake(format), &[w.clone(), index], &[4, 32]);
        let ones: Vec<_> = rows.chunks(32).map(|r| r.iter().position(|&x| x == 1.0).unwrap()).collect();
        assert_eq!(ones, [2, 1, 2, 0]);

        // Two experts; the second input row goes to expert 0, the first to expert 1, then to 1 again.
        let experts = q8(&[0, 1, 2, 3]).reshape([2, 2, 34]);
        let ids = |v: &[i128]| Tensor::of([v.len()].into(), Dtype::U32, Data::Int(v.to_vec()));
        let g = GatherMatmul { quant: Some(q), lhs: true, rhs: true };
        let ins = [floats([2, 1, 32], &x), experts.clone(), ids(&[1, 0, 0]), ids(&[0, 1, 9])];
        assert_eq!(run(Op::GatherMatmul(g), &ins, &[3, 1, 2]), [63.5, 64.5, 17.5, 18.5, 17.5, 18.5]);
        let g = GatherMatmul { quant: Some(q), lhs: false, rhs: true };
        let ins = [floats([2, 1, 32], &x), experts, ids(&[1, 0])];
        assert_eq!(run(Op::GatherMatmul(g), &ins, &[2, 1, 2]), [17.5, 18.5, 63.5, 64.5]);
        let g = GatherMatmul { quant: None, lhs: false, rhs: true };
        let ins = [floats([1, 2], &[1.0, 2.0]), floats([2, 2, 1], &[1.0, 2.0, 3.0, 4.0]), ids(&[1, 0, -1])];
        assert_eq!(run(Op::GatherMatmul(g), &ins, &[3, 1, 1]), [11.0, 5.0, 11.0]);
    }

    /// A product with exact weight values differs from one with the dequantized (twice rounded) weight
    /// in half precision by no more than that rounding.
    #[test]
    fn grouped_products_are_near_the_dequantized_one() {
        let w = weights(Dtype::F16);
        let group = [8, 4];
        let outs =
            [Aval::new([8, 32], Dtype::U32), Aval::new(group, Dtype::F16), Aval::new(group, Dtype::F16)];
        let parts = compute(&Op::Quantize(64, 4, QuantMode::Affine), &[w], &[], &outs).unwrap();
        let format = WeightFormat::Grouped { group: 64, bits: 4, mode: QuantMode::Affine };
        let dense =
            compute(&Op::Dequantize(format), &parts, &[], &[Aval::new([8, 256], Dtype::F16)]).unwrap();
        let x = weights(Dtype::F32);
        let aval = Aval::new([8, 8], Dtype::F32);
        let q = QuantMatmul { format, transpose: true, int8: false };
        let ins: Vec<Tensor> = [x.clone()].into_iter().chain(parts).collect();
        let got = quant_matmul(&q, &ins, &aval).unwrap().floats();
        let want = matmul(&x, &swap_last(&dense[0]), &aval).unwrap().floats();
        for (g, w) in got.iter().zip(&want) {
            assert!((g - w).abs() < 0.05 + 0.01 * w.abs(), "{g} {w}");
        }
    }
}

//! Block formats: what their bits mean ([`expand`]), and the interleaved form ([`packed`]).
//!
//! Every format is the same thing seen closely: unsigned quants `q` of up to 8 bits, a constant
//! bias, and for each group of 16 or 32 columns a scale and a minimum:
//! `value = scale · (q − bias) − min`. [`Spec`] says which for each format, and all kernels are
//! written once over it. To add a format, add its `Spec`, its arm in [`expand`], and its arm in
//! `packed::write_tile` if the generic one is too slow.
//!
//! In all ten formats `scale · (q − bias)` is exact in float32 or the only rounding, so a fused
//! multiply–subtract gives the same bits as two operations: dequantized values are bit-equal on
//! every ISA.

pub mod packed;
pub(crate) mod row;
pub mod tile;
#[cfg(target_arch = "x86_64")]
mod tile256;
#[cfg(target_arch = "x86_64")]
mod tile512;

use crate::simd::lanes::f16_to_f32;
use isopace_core::BlockFormat::{self, *};
use isopace_core::{Result, err};

/// What a block format is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Bits of a quant: 8, or 4, 2 and 1 added up from the lowest.
    pub bits: u8,
    /// What is subtracted from a quant.
    pub bias: i32,
    /// Whether groups have a minimum.
    pub min: bool,
    /// Columns that share a scale: 16 or 32.
    pub group: usize,
    /// Whether 256 columns share a float16 scale (and minimum) that integers of each group multiply.
    pub super_block: bool,
}

impl Spec {
    /// The parts of `format`.
    pub const fn of(format: BlockFormat) -> Spec {
        let (bits, bias, min, group, super_block) = match format {
            Q4_0 => (4, 8, false, 32, false),
            Q4_1 => (4, 0, true, 32, false),
            Q5_0 => (5, 16, false, 32, false),
            Q5_1 => (5, 0, true, 32, false),
            Q8_0 => (8, 128, false, 32, false),
            Q2_K => (2, 0, true, 16, true),
            Q3_K => (3, 4, false, 16, true),
            Q4_K => (4, 0, true, 32, true),
            Q5_K => (5, 0, true, 32, true),
            Q6_K => (6, 32, false, 16, true),
        };
        Spec { bits, bias, min, group, super_block }
    }
}

/// One block taken apart. Blocks of 32 columns use the first 32 quants and two groups.
#[derive(Clone, Debug)]
pub struct Block {
    /// Quants, bias not yet subtracted.
    pub q: [u8; 256],
    /// The scale of each 16 columns.
    pub scale: [f32; 16],
    /// The minimum of each 16 columns.
    pub min: [f32; 16],
}

impl Default for Block {
    fn default() -> Self {
        Block { q: [0; 256], scale: [0.0; 16], min: [0.0; 16] }
    }
}

#[inline(always)]
fn half(b: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([b[at], b[at + 1]]))
}

/// Splits 16 bytes into the 32 quants of the formats of 32 columns.
#[inline(always)]
fn nibbles32(b: &[u8; 16], q: &mut [u8; 256]) {
    for j in 0..16 {
        q[j] = b[j] & 15;
        q[16 + j] = b[j] >> 4;
    }
}

/// Adds the fifth bits of 32 quants.
#[inline(always)]
fn fifth32(b: &[u8; 4], q: &mut [u8; 256]) {
    let high = u32::from_le_bytes(*b);
    for j in 0..32 {
        q[j] |= ((high >> j) as u8 & 1) << 4;
    }
}

/// The 6-bit scale and minimum number `j` of Q4_K and Q5_K.
#[inline(always)]
pub(crate) fn scale_min_k4(s: &[u8; 12], j: usize) -> (u8, u8) {
    if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        ((s[j + 4] & 15) | (s[j - 4] >> 6 << 4), (s[j + 4] >> 4) | (s[j] >> 6 << 4))
    }
}

/// The 6-bit scales of Q3_K, less 32.
#[inline(always)]
pub(crate) fn scales_q3(s: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|j| {
        let low = if j < 8 { s[j] & 15 } else { s[j - 8] >> 4 };
        let high = s[8 + j % 4] >> (2 * (j / 4)) & 3;
        (low | high << 4) as i8 - 32
    })
}

/// Takes one block apart; `b` has the block's bytes.
#[inline(always)]
pub fn expand(format: BlockFormat, b: &[u8], out: &mut Block) {
    use crate::simd::lanes::at;
    let set2 = |out: &mut Block, d: f32, m: f32| {
        out.scale[0] = d;
        out.scale[1] = d;
        out.min[0] = m;
        out.min[1] = m;
    };
    match format {
        Q4_0 => {
            nibbles32(at(b, 2), &mut out.q);
            set2(out, half(b, 0), 0.0);
        }
        Q4_1 => {
            nibbles32(at(b, 4), &mut out.q);
            set2(out, half(b, 0), -half(b, 2));
        }
        Q5_0 => {
            nibbles32(at(b, 6), &mut out.q);
            fifth32(at(b, 2), &mut out.q);
            set2(out, half(b, 0), 0.0);
        }
        Q5_1 => {
            nibbles32(at(b, 8), &mut out.q);
            fifth32(at(b, 4), &mut out.q);
            set2(out, half(b, 0), -half(b, 2));
        }
        Q8_0 => {
            let s: &[u8; 32] = at(b, 2);
            for j in 0..32 {
                out.q[j] = s[j] ^ 128;
            }
            set2(out, half(b, 0), 0.0);
        }
        Q2_K => {
            let (s, qs): (&[u8; 16], &[u8; 64]) = (at(b, 0), at(b, 16));
            for i in 0..256 {
                out.q[i] = qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
            }
            let (d, m) = (half(b, 80), half(b, 82));
            for g in 0..16 {
                out.scale[g] = d * (s[g] & 15) as f32;
                out.min[g] = m * (s[g] >> 4) as f32;
            }
        }
        Q3_K => {
            let (high, qs): (&[u8; 32], &[u8; 64]) = (at(b, 0), at(b, 32));
            for i in 0..256 {
                let low = qs[i / 128 * 32 + i % 32] >> (2 * (i % 128 / 32)) & 3;
                out.q[i] = low | (high[i % 32] >> (i / 32) & 1) << 2;
            }
            let d = half(b, 108);
            let s = scales_q3(at(b, 96));
            for g in 0..16 {
                out.scale[g] = d * s[g] as f32;
                out.min[g] = 0.0;
            }
        }
        Q4_K | Q5_K => {
            let qs: &[u8; 128] = at(b, if matches!(format, Q4_K) { 16 } else { 48 });
            for c in 0..4 {
                for j in 0..32 {
                    out.q[64 * c + j] = qs[32 * c + j] & 15;
                    out.q[64 * c + 32 + j] = qs[32 * c + j] >> 4;
                }
            }
            if matches!(format, Q5_K) {
                let high: &[u8; 32] = at(b, 16);
                for c in 0..8 {
                    for j in 0..32 {
                        out.q[32 * c + j] |= (high[j] >> c & 1) << 4;
                    }
                }
            }
            let (d, m) = (half(b, 0), half(b, 2));
            for g in 0..8 {
                let (s, n) = scale_min_k4(at(b, 4), g);
                out.scale[2 * g] = d * s as f32;
                out.scale[2 * g + 1] = out.scale[2 * g];
                out.min[2 * g] = m * n as f32;
                out.min[2 * g + 1] = out.min[2 * g];
            }
        }
        Q6_K => {
            let (low, high, s): (&[u8; 128], &[u8; 64], &[u8; 16]) = (at(b, 0), at(b, 128), at(b, 192));
            for c in 0..2 {
                for j in 0..32 {
                    let (l0, l1, h) = (low[64 * c + j], low[64 * c + 32 + j], high[32 * c + j]);
                    out.q[128 * c + j] = (l0 & 15) | (h & 3) << 4;
                    out.q[128 * c + 32 + j] = (l1 & 15) | (h >> 2 & 3) << 4;
                    out.q[128 * c + 64 + j] = (l0 >> 4) | (h >> 4 & 3) << 4;
                    out.q[128 * c + 96 + j] = (l1 >> 4) | (h >> 6) << 4;
                }
            }
            let d = half(b, 208);
            for g in 0..16 {
                out.scale[g] = d * s[g] as i8 as f32;
                out.min[g] = 0.0;
            }
        }
    }
}

/// Writes the float32 values of one row (or any whole number of blocks), bit-equal to ggml's.
///
/// # Errors
/// `bytes` and `out` do not hold the same whole number of blocks.
pub fn dequantize_row(format: BlockFormat, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    if format.row_bytes(out.len()) != Some(bytes.len()) {
        return Err(err!(
            Shape,
            "[dequantize] {} values of {format} do not fit {} bytes",
            out.len(),
            bytes.len()
        ));
    }
    dequantize_blocks(format, bytes, out);
    Ok(())
}

crate::isa::multiversion! {
    /// [`dequantize_row`] without the check.
    pub(crate) fn dequantize_blocks(format: BlockFormat, bytes: &[u8], out: &mut [f32]) {
        let bias = Spec::of(format).bias as f32;
        let mut block = Block::default();
        for (b, o) in bytes.chunks_exact(format.block_bytes()).zip(out.chunks_exact_mut(format.block_elems())) {
            expand(format, b, &mut block);
            for (g, o) in o.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                for j in 0..16 {
                    let q = block.q[16 * g + j] as f32 - bias;
                    o[j] = crate::simd::lanes::madd::<FMA>(q, block.scale[g], -block.min[g]);
                }
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use isopace_core::BlockFormat;

    /// A small generator; tests need repeatable bytes, not good ones.
    pub(crate) struct Lcg(pub u64);
    impl Lcg {
        pub(crate) fn next(&mut self) -> u32 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) as u32
        }
        /// In [-1, 1).
        pub(crate) fn float(&mut self) -> f32 {
            (self.next() as f32 / (1u64 << 30) as f32) - 1.0
        }
    }

    /// Random blocks with sane scales.
    pub(crate) fn random_blocks(format: BlockFormat, n: usize, r: &mut Lcg) -> Vec<u8> {
        let mut v = Vec::with_capacity(n * format.block_bytes());
        for _ in 0..n {
            let mut b: Vec<u8> = (0..format.block_bytes()).map(|_| r.next() as u8).collect();
            let mut put =
                |at: usize, x: f32| b[at..at + 2].copy_from_slice(&half::f16::from_f32(x).to_le_bytes());
            let (d, m) = (r.float() * 0.1, r.float() * 0.1);
            match format {
                Q4_0 | Q5_0 | Q8_0 => put(0, d),
                Q4_1 | Q5_1 | Q4_K | Q5_K => {
                    put(0, d);
                    put(2, m)
                }
                Q2_K => {
                    put(80, d);
                    put(82, m)
                }
                Q3_K => put(108, d),
                Q6_K => put(208, d),
            }
            v.extend(b);
        }
        v
    }

    /// ggml's loops, transcribed with their pointers and order; the oracle of the formats.
    pub(crate) fn ggml_dequantize(format: BlockFormat, b: &[u8], y: &mut Vec<f32>) {
        let h = |at: usize| half::f16::from_le_bytes([b[at], b[at + 1]]).to_f32();
        match format {
            Q4_0 => {
                let d = h(0);
                y.extend((0..16).map(|j| ((b[2 + j] & 15) as i32 - 8) as f32 * d));
                y.extend((0..16).map(|j| ((b[2 + j] >> 4) as i32 - 8) as f32 * d));
            }
            Q4_1 => {
                y.extend((0..16).map(|j| (b[4 + j] & 15) as f32 * h(0) + h(2)));
                y.extend((0..16).map(|j| (b[4 + j] >> 4) as f32 * h(0) + h(2)));
            }
            Q5_0 | Q5_1 => {
                let o = if format == Q5_0 { 2 } else { 4 };
                let qh = u32::from_le_bytes(b[o..o + 4].try_into().unwrap());
                let value = |x: u32| match format {
                    Q5_0 => (x as i32 - 16) as f32 * h(0),
                    _ => x as f32 * h(0) + h(2),
                };
                y.extend((0..16).map(|j| value((b[o + 4 + j] & 15) as u32 | ((qh >> j) << 4) & 16)));
                y.extend((0..16).map(|j| value((b[o + 4 + j] >> 4) as u32 | (qh >> (j + 12)) & 16)));
            }
            Q8_0 => y.extend((0..32).map(|j| b[2 + j] as i8 as f32 * h(0))),
            Q2_K => {
                let (d, min) = (h(80), h(82));
                let (mut is, mut q) = (0, 16);
                for _ in 0..2 {
                    for shift in [0, 2, 4, 6] {
                        for half in 0..2 {
                            let sc = b[is];
                            is += 1;
                            let (dl, ml) = (d * (sc & 15) as f32, min * (sc >> 4) as f32);
                            y.extend((0..16).map(|l| dl * ((b[q + 16 * half + l] >> shift) & 3) as f32 - ml));
                        }
                    }
                    q += 32;
                }
            }
            Q3_K => {
                let word = |i: usize| u32::from_le_bytes(b[96 + 4 * i..100 + 4 * i].try_into().unwrap());
                let (k1, k2) = (0x03030303u32, 0x0f0f0f0fu32);
                let (a0, a1, t) = (word(0), word(1), word(2));
                let aux = [
                    (a0 & k2) | ((t & k1) << 4),
                    (a1 & k2) | (((t >> 2) & k1) << 4),
                    ((a0 >> 4) & k2) | (((t >> 4) & k1) << 4),
                    ((a1 >> 4) & k2) | (((t >> 6) & k1) << 4),
                ];
                let scales: Vec<i8> = aux.iter().flat_map(|w| w.to_le_bytes()).map(|x| x as i8).collect();
                let (mut is, mut q, mut m) = (0, 32, 1u8);
                for _ in 0..2 {
                    for shift in [0, 2, 4, 6] {
                        for half in 0..2 {
                            let dl = h(108) * (scales[is] - 32) as f32;
                            is += 1;
                            y.extend((0..16).map(|l| {
                                let l = l + 16 * half;
                                let sub = if b[l] & m != 0 { 0 } else { 4 };
                                dl * (((b[q + l] >> shift) & 3) as i8 - sub) as f32
                            }));
                        }
                        m = m.wrapping_shl(1);
                    }
                    q += 32;
                }
            }
            Q4_K | Q5_K => {
                let k5 = format == Q5_K;
                let (d, min) = (h(0), h(2));
                let s: &[u8; 12] = b[4..16].try_into().unwrap();
                let get = |j: usize| {
                    if j < 4 {
                        (s[j] & 63, s[j + 4] & 63)
                    } else {
                        ((s[j + 4] & 0xF) | ((s[j - 4] >> 6) << 4), (s[j + 4] >> 4) | ((s[j] >> 6) << 4))
                    }
                };
                let (mut q, mut is, mut u) = (if k5 { 48 } else { 16 }, 0, 1u8);
                for _ in 0..4 {
                    for high in 0..2 {
                        let (sc, m) = get(is + high);
                        let (d1, m1) = (d * sc as f32, min * m as f32);
                        y.extend((0..32).map(|l| {
                            let x = if high == 0 { b[q + l] & 15 } else { b[q + l] >> 4 };
                            let add = if k5 && b[16 + l] & u != 0 { 16 } else { 0 };
                            d1 * (x + add) as f32 - m1
                        }));
                        u = u.wrapping_shl(1);
                    }
                    q += 32;
                    is += 2;
                }
            }
            Q6_K => {
                let d = h(208);
                let (mut ql, mut qh, mut sc) = (0, 128, 192);
                for _ in 0..2 {
                    let mut part = [[0f32; 32]; 4];
                    for l in 0..32 {
                        let is = l / 16;
                        let h = b[qh + l];
                        let q = [
                            (b[ql + l] & 15) | ((h & 3) << 4),
                            (b[ql + l + 32] & 15) | (((h >> 2) & 3) << 4),
                            (b[ql + l] >> 4) | (((h >> 4) & 3) << 4),
                            (b[ql + l + 32] >> 4) | (((h >> 6) & 3) << 4),
                        ];
                        for k in 0..4 {
                            part[k][l] = d * (b[sc + is + 2 * k] as i8) as f32 * (q[k] as i8 - 32) as f32;
                        }
                    }
                    y.extend(part.iter().flatten());
                    ql += 64;
                    qh += 32;
                    sc += 8;
                }
            }
        }
    }

    #[test]
    fn every_format_is_bit_equal_to_ggml() {
        let mut r = Lcg(1);
        for format in BlockFormat::ALL {
            let n = 100;
            let bytes = random_blocks(format, n, &mut r);
            let mut want = Vec::new();
            bytes.chunks_exact(format.block_bytes()).for_each(|b| ggml_dequantize(format, b, &mut want));
            for isa in crate::isa::Isa::ALL {
                let mut got = vec![0.0; n * format.block_elems()];
                crate::isa::with(isa, || dequantize_row(format, &bytes, &mut got).unwrap());
                if isa > crate::isa::detected() {
                    continue;
                }
                for (i, (a, b)) in got.iter().zip(&want).enumerate() {
                    assert_eq!(a.to_bits(), b.to_bits(), "{format} {isa:?} value {i}: {a} {b}");
                }
            }
            assert!(dequantize_row(format, &bytes[1..], &mut want).is_err());
        }
    }
}

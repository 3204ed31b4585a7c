//! GGUF's block formats, decoded in float32 as ggml does.

use crate::BlockFormat::{self, *};
use crate::{Result, bail};
use half::f16;

/// The values of whole blocks.
pub(super) fn decode(format: BlockFormat, bytes: &[u8]) -> Result<Vec<f32>> {
    let (size, elems) = (format.block_bytes(), format.block_elems());
    if !bytes.len().is_multiple_of(size) {
        bail!(Internal, "[dequantize] {} bytes are not whole blocks of {format}", bytes.len());
    }
    let mut out = vec![0.0; bytes.len() / size * elems];
    for (block, y) in bytes.chunks_exact(size).zip(out.chunks_exact_mut(elems)) {
        match format {
            Q4_0 => q4_0(block, y),
            Q4_1 => q4_1(block, y),
            Q5_0 => q5_0(block, y),
            Q5_1 => q5_1(block, y),
            Q8_0 => q8_0(block, y),
            Q2_K => q2_k(block, y),
            Q3_K => q3_k(block, y),
            Q4_K => q4_k(block, y),
            Q5_K => q5_k(block, y),
            Q6_K => q6_k(block, y),
        }
    }
    Ok(out)
}

/// The float16 at a byte offset.
fn half_at(b: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([b[at], b[at + 1]]).to_f32()
}

/// The low and the high half of a byte.
fn nibbles(b: u8) -> [i32; 2] {
    [(b & 15) as i32, (b >> 4) as i32]
}

/// d, 16 bytes: low nibbles are the first half of the block, high ones the second.
fn q4_0(b: &[u8], y: &mut [f32]) {
    let d = half_at(b, 0);
    for j in 0..16 {
        let [lo, hi] = nibbles(b[2 + j]);
        y[j] = (lo - 8) as f32 * d;
        y[j + 16] = (hi - 8) as f32 * d;
    }
}

/// d, m, 16 bytes.
fn q4_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for j in 0..16 {
        let [lo, hi] = nibbles(b[4 + j]);
        y[j] = lo as f32 * d + m;
        y[j + 16] = hi as f32 * d + m;
    }
}

/// The 5-bit codes of a block whose fifth bits stand in four bytes before the nibbles.
fn five_bits(high: &[u8], nibble_bytes: &[u8]) -> [i32; 32] {
    let high = u32::from_le_bytes([high[0], high[1], high[2], high[3]]);
    std::array::from_fn(|j| nibbles(nibble_bytes[j % 16])[j / 16] | ((high >> j & 1) << 4) as i32)
}

/// d, fifth bits, 16 bytes.
fn q5_0(b: &[u8], y: &mut [f32]) {
    let d = half_at(b, 0);
    for (y, q) in y.iter_mut().zip(five_bits(&b[2..6], &b[6..])) {
        *y = (q - 16) as f32 * d;
    }
}

/// d, m, fifth bits, 16 bytes.
fn q5_1(b: &[u8], y: &mut [f32]) {
    let (d, m) = (half_at(b, 0), half_at(b, 2));
    for (y, q) in y.iter_mut().zip(five_bits(&b[4..8], &b[8..])) {
        *y = q as f32 * d + m;
    }
}

/// d, 32 signed bytes.
fn q8_0(b: &[u8], y: &mut [f32]) {
    let d = half_at(b, 0);
    for (y, &q) in y.iter_mut().zip(&b[2..]) {
        *y = q as i8 as f32 * d;
    }
}

/// 16 bytes of scale and minimum (a nibble each) for every 16 values, 64 bytes of 2-bit codes, d, dmin.
fn q2_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half_at(b, 80), half_at(b, 82));
    for (i, y) in y.iter_mut().enumerate() {
        let [scale, min] = nibbles(b[i / 16]);
        let code = b[16 + i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3;
        *y = d * scale as f32 * code as f32 - dmin * min as f32;
    }
}

/// 32 bytes of third bits (a clear one subtracts 4), 64 bytes of 2-bit codes, 12 bytes of 6-bit scales, d.
fn q3_k(b: &[u8], y: &mut [f32]) {
    let (high, codes, scales, d) = (&b[..32], &b[32..96], &b[96..108], half_at(b, 108));
    for (i, y) in y.iter_mut().enumerate() {
        let s = i / 16;
        let low = nibbles(scales[s % 8])[s / 8];
        let scale = low | ((scales[8 + s % 4] >> (s / 4 * 2) & 3) << 4) as i32;
        let code = (codes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) as i32;
        let less = if high[i % 32] >> (i / 32) & 1 == 1 { 0 } else { 4 };
        *y = d * (scale - 32) as f32 * (code - less) as f32;
    }
}

/// The 6-bit scale and minimum of the `j`-th 32 values of a Q4_K or Q5_K block.
fn scale_min(s: &[u8], j: usize) -> (u8, u8) {
    if j < 4 {
        (s[j] & 63, s[j + 4] & 63)
    } else {
        (s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4)
    }
}

/// d, dmin, 12 bytes of scales and minima, 128 bytes: a low nibble for 32 values, then the high ones.
fn q4_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half_at(b, 0), half_at(b, 2));
    for (i, y) in y.iter_mut().enumerate() {
        let (scale, min) = scale_min(&b[4..16], i / 32);
        let code = nibbles(b[16 + i / 64 * 32 + i % 32])[i / 32 % 2];
        *y = d * scale as f32 * code as f32 - dmin * min as f32;
    }
}

/// As Q4_K with 32 bytes of fifth bits before the nibbles.
fn q5_k(b: &[u8], y: &mut [f32]) {
    let (d, dmin) = (half_at(b, 0), half_at(b, 2));
    for (i, y) in y.iter_mut().enumerate() {
        let (scale, min) = scale_min(&b[4..16], i / 32);
        let high = (b[16 + i % 32] >> (i / 32) & 1) as i32;
        let code = nibbles(b[48 + i / 64 * 32 + i % 32])[i / 32 % 2] | high << 4;
        *y = d * scale as f32 * code as f32 - dmin * min as f32;
    }
}

/// 128 bytes of low nibbles, 64 bytes of high 2-bit parts, 16 signed scales, d.
fn q6_k(b: &[u8], y: &mut [f32]) {
    let (low, high, scales, d) = (&b[..128], &b[128..192], &b[192..208], half_at(b, 208));
    for (i, y) in y.iter_mut().enumerate() {
        let (part, quarter) = (i / 128, i % 128 / 32);
        let lo = nibbles(low[part * 64 + i % 64])[quarter / 2];
        let hi = high[part * 32 + i % 32] >> (quarter * 2) & 3;
        let code = (lo | (hi << 4) as i32) - 32;
        *y = d * scales[i / 16] as i8 as f32 * code as f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the float16 fields of a block are.
    fn half_fields(f: BlockFormat) -> &'static [usize] {
        match f {
            Q4_0 | Q5_0 | Q8_0 => &[0],
            Q4_1 | Q5_1 | Q4_K | Q5_K => &[0, 2],
            Q2_K => &[80, 82],
            Q3_K => &[108],
            Q6_K => &[208],
        }
    }

    /// 64 blocks of bytes of a fixed generator with sane scales.
    fn blocks(f: BlockFormat) -> Vec<u8> {
        let mut x = 12345u32;
        let mut next = || {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            (x >> 24) as u8
        };
        let mut bytes: Vec<u8> = (0..64 * f.block_bytes()).map(|_| next()).collect();
        for block in bytes.chunks_exact_mut(f.block_bytes()) {
            for &at in half_fields(f) {
                // Exponents from 2^-7 to 1, either sign.
                block[at + 1] = block[at + 1] & 0x9f | 0x20;
            }
        }
        bytes
    }

    fn fnv(values: &[f32]) -> u64 {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes());
        bytes.fold(0xcbf29ce484222325, |h, b| (h ^ b as u64).wrapping_mul(0x100000001b3))
    }

    /// The hashes are those of what the Python package gguf 0.19 (the format's own) decodes.
    #[test]
    fn every_format_decodes_as_ggml() {
        let want: [u64; 10] = [
            0x221495a7d02fddeb, // Q4_0
            0xb3b3b07017a4a364, // Q4_1
            0xc32a426307d924c8, // Q5_0
            0xe9cc753c2c26ab39, // Q5_1
            0xf8dc8803135508a7, // Q8_0
            0x6f998874f91057ba, // Q2_K
            0x4911435d0b3a0a68, // Q3_K
            0xd69e4291cf10ea9c, // Q4_K
            0xd00ed7046488cd04, // Q5_K
            0x488b7cec360572a8, // Q6_K
        ];
        let got = BlockFormat::ALL.map(|f| fnv(&decode(f, &blocks(f)).unwrap()));
        assert_eq!(got, want);
    }

    #[test]
    fn small_blocks_by_hand() {
        let mut b = vec![0x00, 0x3c]; // 1.0
        b.extend((0..16).map(|j| j | (15 - j) << 4));
        let y = decode(Q4_0, &b).unwrap();
        assert_eq!((y[0], y[15], y[16], y[31]), (-8.0, 7.0, 7.0, -8.0));

        let mut b = vec![0x00, 0x40]; // 2.0
        b.extend((0..32).map(|j| (j - 16i8) as u8));
        let y = decode(Q8_0, &b).unwrap();
        assert_eq!((y[0], y[16], y[31]), (-32.0, 0.0, 30.0));

        let mut b = vec![0x00, 0x3c, 0x00, 0xc0, 1, 0, 0, 0x80]; // 1.0, -2.0, fifth bits 0 and 31
        b.extend([0x21; 16]);
        let y = decode(Q5_1, &b).unwrap();
        assert_eq!((y[0], y[1], y[16], y[31]), (15.0, -1.0, 0.0, 16.0));
        assert!(decode(Q5_1, &b[1..]).is_err());
    }
}

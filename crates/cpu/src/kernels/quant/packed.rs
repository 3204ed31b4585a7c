//! The packed form of a quantized matrix: sixteen rows interleaved, so that one vector holds four
//! consecutive columns of sixteen rows and nothing is ever summed across lanes.
//!
//! # Layout
//! A matrix of `rows` × `cols` is `ceil(rows / 16)` *tiles*, one after the other; rows past the
//! end have scale 0. A tile is a sequence of *super-blocks* over its columns, 32 columns wide, or
//! 256 for the K formats. With `r` the row in the tile (0..16), a super-block is
//!
//! | bytes | what |
//! |---|---|
//! | 32 | float16 scale `d[r]` |
//! | 32, formats with a minimum | float16 minimum `m[r]`: in the 32-column formats as in the file, added; in the K formats the factor of the sub-minima, subtracted |
//! | 1 or 8 sub-blocks | 32 columns each |
//!
//! and a sub-block is
//!
//! | bytes | what |
//! |---|---|
//! | 16 + 16, Q4_K and Q5_K | scale `u8[r]`, minimum `u8[r]` |
//! | 16 + 16, Q3_K and Q6_K | scale `i8[r]` of columns 0..16, of columns 16..32 |
//! | 16 + 16, Q2_K | scale + 16 · minimum, of columns 0..16, of columns 16..32 |
//! | 512, 8-bit quants | plane 8: byte `64 g + 4 r + j` is column `4 g + j`, g in 0..8 |
//! | 256, 4, 5 and 6 bits | plane 4: byte `64 g + 4 r + j`, g in 0..4: low half is column `4 g + j`, high half column `16 + 4 g + j` |
//! | 128, 2, 3 and 6 bits | plane 2: byte `64 h + 4 r + j`, h in 0..2: bits `2 k, 2 k + 1` are column `16 h + 4 k + j` |
//! | 64, 5 and 3 bits | plane 1: byte `4 r + j`: bit `g` is column `4 g + j` |
//!
//! A quant of 5 bits is plane 4 + 16 · plane 1, of 6 bits plane 4 + 16 · plane 2, of 3 bits
//! plane 2 + 4 · plane 1. The quants of Q8_0 are stored with 128 added. The value is
//! `d · (q − bias) [+ m]`, or `d · scale · (q − bias) [− m · minimum]`; see [`Spec`].
//!
//! # Limits
//! `cols` is a whole number of blocks of the format. The packed bytes are within 4% of the file's
//! for the formats of 32 columns and for Q4_K, Q5_K, Q6_K and Q3_K, and the same for Q2_K.

use super::{Block, Spec, expand, scale_min_k4, scales_q3};
use crate::pool;
use isopace_core::BlockFormat::{self, *};
use isopace_core::{Result, err};

/// Rows in a tile.
pub const TILE: usize = 16;

/// Sizes of the packed form of one format.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Columns of a super-block.
    pub cols: usize,
    /// Bytes before the first sub-block.
    pub head: usize,
    /// Bytes of scales at the start of a sub-block.
    pub sub_head: usize,
    /// Bytes of a sub-block.
    pub sub: usize,
    /// Bytes of a super-block.
    pub total: usize,
}

impl Sizes {
    /// The sizes for `format`.
    pub const fn of(format: BlockFormat) -> Sizes {
        let s = Spec::of(format);
        let cols = format.block_elems();
        let head = if s.min { 64 } else { 32 };
        let sub_head = if s.super_block { 32 } else { 0 };
        let planes = match s.bits {
            8 => 512,
            6 => 256 + 128,
            5 => 256 + 64,
            4 => 256,
            3 => 128 + 64,
            _ => 128,
        };
        let sub = sub_head + planes;
        Sizes { cols, head, sub_head, sub, total: head + cols / 32 * sub }
    }
}

/// Returns the bytes of the packed form of a matrix.
///
/// # Errors
/// `cols` is not a whole number of blocks.
pub fn packed_bytes(format: BlockFormat, rows: usize, cols: usize) -> Result<usize> {
    let s = Sizes::of(format);
    if !cols.is_multiple_of(s.cols) {
        return Err(err!(Shape, "[pack] {cols} columns are not whole blocks of {} for {format}", s.cols));
    }
    rows.div_ceil(TILE)
        .checked_mul(cols / s.cols * s.total)
        .ok_or_else(|| err!(Shape, "[pack] {rows} × {cols} is too large"))
}

/// Returns the bytes of one tile.
pub const fn tile_bytes(format: BlockFormat, cols: usize) -> usize {
    let s = Sizes::of(format);
    cols / s.cols * s.total
}

/// Packs a matrix whose rows stand one after the other in `w`, as in the file.
///
/// # Errors
/// `w` or `out` has the wrong length, or `cols` is not a whole number of blocks.
pub fn pack_into(format: BlockFormat, w: &[u8], rows: usize, cols: usize, out: &mut [u8]) -> Result<()> {
    let want = packed_bytes(format, rows, cols)?;
    let row_bytes = format.row_bytes(cols).unwrap_or(0);
    if Some(w.len()) != row_bytes.checked_mul(rows) || out.len() != want {
        return Err(err!(
            Shape,
            "[pack] {rows} × {cols} of {format} needs {} bytes in and {want} out; got {} and {}",
            row_bytes.saturating_mul(rows),
            w.len(),
            out.len()
        ));
    }
    pool::for_chunks(out, tile_bytes(format, cols), |t, tile| {
        write_tile(format, &w[t * TILE * row_bytes..], rows - t * TILE, row_bytes, tile);
    });
    Ok(())
}

/// Packs a matrix into a new vector; see [`pack_into`].
pub fn pack(format: BlockFormat, w: &[u8], rows: usize, cols: usize) -> Result<Vec<u8>> {
    let mut out = vec![0; packed_bytes(format, rows, cols)?];
    pack_into(format, w, rows, cols, &mut out)?;
    Ok(out)
}

crate::isa::multiversion! {
    /// Packs the first 16 (or `rows`, if fewer) rows of `w` into `tile`.
    pub(crate) fn write_tile(format: BlockFormat, w: &[u8], rows: usize, row_bytes: usize, tile: &mut [u8]) {
        let _ = FMA;
        let (spec, sizes) = (Spec::of(format), Sizes::of(format));
        let mut block = Block::default();
        for r in 0..TILE {
            if r >= rows {
                clear_lane(sizes, r, tile);
                continue;
            }
            let row = &w[r * row_bytes..][..row_bytes];
            for (b, t) in row.chunks_exact(format.block_bytes()).zip(tile.chunks_exact_mut(sizes.total)) {
                expand(format, b, &mut block);
                let (d, m) = match format {
                    Q2_K => (80, 82),
                    Q3_K => (108, 0),
                    Q6_K => (208, 0),
                    _ => (0, 2),
                };
                t[2 * r..][..2].copy_from_slice(&b[d..d + 2]);
                if spec.min {
                    t[32 + 2 * r..][..2].copy_from_slice(&b[m..m + 2]);
                }
                let scales = if spec.super_block { scale_bytes(format, b) } else { [[0; 2]; 8] };
                for (s, t) in t[sizes.head..].chunks_exact_mut(sizes.sub).enumerate() {
                    if spec.super_block {
                        t[r] = scales[s][0];
                        t[16 + r] = scales[s][1];
                    }
                    let q = block.q[32 * s..].first_chunk().expect("32 quants of a sub-block");
                    write_planes(spec.bits, q, r, &mut t[sizes.sub_head..]);
                }
            }
        }
    }
}

/// The two scale bytes of each sub-block of a K block.
#[inline(always)]
fn scale_bytes(format: BlockFormat, b: &[u8]) -> [[u8; 2]; 8] {
    use crate::simd::lanes::at;
    std::array::from_fn(|s| match format {
        Q2_K => [b[2 * s], b[2 * s + 1]],
        Q3_K => {
            let x = scales_q3(at(b, 96));
            [x[2 * s] as u8, x[2 * s + 1] as u8]
        }
        Q6_K => [b[192 + 2 * s], b[193 + 2 * s]],
        _ => {
            let (x, m) = scale_min_k4(at(b, 4), s);
            [x, m]
        }
    })
}

#[inline(always)]
fn write_planes(bits: u8, q: &[u8; 32], r: usize, mut t: &mut [u8]) {
    let word: [u32; 8] =
        std::array::from_fn(|g| u32::from_le_bytes([q[4 * g], q[4 * g + 1], q[4 * g + 2], q[4 * g + 3]]));
    let mut put = |n: usize, words: [u32; 8]| {
        let (plane, rest) = std::mem::take(&mut t).split_at_mut(64 * n);
        for g in 0..n {
            plane[64 * g + 4 * r..][..4].copy_from_slice(&words[g].to_le_bytes());
        }
        t = rest;
    };
    if bits == 8 {
        put(8, word);
        return;
    }
    if bits >= 4 {
        let low = word.map(|w| w & 0x0f0f_0f0f);
        put(4, std::array::from_fn(|g| if g < 4 { low[g] | low[g + 4] << 4 } else { 0 }));
    }
    if bits == 2 || bits == 3 || bits == 6 {
        let two = word.map(|w| (if bits == 6 { w >> 4 } else { w }) & 0x0303_0303);
        let join = |h: usize| (0..4).fold(0, |a, k| a | two[4 * h + k] << (2 * k));
        put(2, [join(0), join(1), 0, 0, 0, 0, 0, 0]);
    }
    if bits == 5 || bits == 3 {
        let one = word.map(|w| w >> (bits - 1) & 0x0101_0101);
        put(1, [(0..8).fold(0, |a, g| a | one[g] << g), 0, 0, 0, 0, 0, 0, 0]);
    }
}

/// Zeroes a lane that has no row.
fn clear_lane(sizes: Sizes, r: usize, tile: &mut [u8]) {
    for t in tile.chunks_exact_mut(sizes.total) {
        for h in t[..sizes.head].chunks_exact_mut(32) {
            h[2 * r..][..2].fill(0);
        }
        for t in t[sizes.head..].chunks_exact_mut(sizes.sub) {
            let (scales, planes) = t.split_at_mut(sizes.sub_head);
            scales.chunks_exact_mut(16).for_each(|s| s[r] = 0);
            planes.chunks_exact_mut(64).for_each(|p| p[4 * r..][..4].fill(0));
        }
    }
}

/// Reads block `b` of row `r` of a tile: the scalar meaning of the layout.
pub fn read_block(format: BlockFormat, tile: &[u8], r: usize, b: usize) -> Block {
    let (spec, sizes) = (Spec::of(format), Sizes::of(format));
    let t = &tile[b * sizes.total..][..sizes.total];
    let half =
        |at: usize| crate::simd::lanes::f16_to_f32(u16::from_le_bytes([t[at + 2 * r], t[at + 2 * r + 1]]));
    let (d, m) = (half(0), if spec.min { half(32) } else { 0.0 });
    let mut out = Block::default();
    for (s, t) in t[sizes.head..].chunks_exact(sizes.sub).enumerate() {
        let (a, b) = if spec.super_block { (t[r], t[16 + r]) } else { (0, 0) };
        let (scale, min) = match format {
            Q2_K => ([d * (a & 15) as f32, d * (b & 15) as f32], [m * (a >> 4) as f32, m * (b >> 4) as f32]),
            Q3_K | Q6_K => ([d * a as i8 as f32, d * b as i8 as f32], [0.0; 2]),
            Q4_K | Q5_K => ([d * a as f32; 2], [m * b as f32; 2]),
            _ => ([d; 2], [if spec.min { -m } else { 0.0 }; 2]),
        };
        out.scale[2 * s..][..2].copy_from_slice(&scale);
        out.min[2 * s..][..2].copy_from_slice(&min);
        let p = &t[sizes.sub_head..];
        let plane2 = if spec.bits == 6 { 256 } else { 0 };
        let plane1 = if spec.bits == 5 { 256 } else { 128 };
        for c in 0..32 {
            let (g, j) = (c / 4, c % 4);
            let lane = 4 * r + j;
            let four = || p[64 * (g % 4) + lane] >> (4 * (g / 4)) & 15;
            let two = || p[plane2 + 64 * (g / 4) + lane] >> (2 * (g % 4)) & 3;
            let one = || p[plane1 + lane] >> g & 1;
            out.q[32 * s + c] = match spec.bits {
                8 => p[64 * g + lane],
                6 => four() | two() << 4,
                5 => four() | one() << 4,
                4 => four(),
                3 => two() | one() << 2,
                _ => two(),
            };
        }
    }
    out
}

/// Writes the float32 values of row `row` of a packed matrix.
pub fn dequantize_packed_row(format: BlockFormat, packed: &[u8], cols: usize, row: usize, out: &mut [f32]) {
    let n = format.block_elems();
    let tile = &packed[row / TILE * tile_bytes(format, cols)..];
    let bias = Spec::of(format).bias;
    for (b, o) in out[..cols].chunks_exact_mut(n).enumerate() {
        let block = read_block(format, tile, row % TILE, b);
        for (i, o) in o.iter_mut().enumerate() {
            *o = block.scale[i / 16] * (block.q[i] as i32 - bias) as f32 - block.min[i / 16];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Lcg, random_blocks};
    use super::*;

    #[test]
    fn packing_loses_nothing() {
        let mut r = Lcg(2);
        for format in BlockFormat::ALL {
            for rows in [1, 15, 16, 17, 40] {
                let cols = 2 * format.block_elems().max(64);
                let w = random_blocks(format, rows * cols / format.block_elems(), &mut r);
                for isa in crate::isa::Isa::ALL {
                    crate::isa::with(isa, || {
                        let packed = pack(format, &w, rows, cols).unwrap();
                        let (mut a, mut b) = (vec![0.0; rows * cols], vec![0.0; cols]);
                        super::super::dequantize_row(format, &w, &mut a).unwrap();
                        for row in 0..rows {
                            dequantize_packed_row(format, &packed, cols, row, &mut b);
                            assert!(a[row * cols..][..cols] == b[..], "{format} {isa:?} row {row} of {rows}");
                        }
                    });
                }
            }
        }
        assert!(pack(Q4_0, &[0; 18], 1, 33).is_err());
        assert!(pack(Q4_0, &[0; 17], 1, 32).is_err());
    }
}

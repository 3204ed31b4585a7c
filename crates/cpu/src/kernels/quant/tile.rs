//! Products of packed tiles with vectors: what the vector looks like ([`QuantX`]), the portable
//! kernels, and the choice of kernel.
//!
//! The integer product of a tile with a vector: for each group of columns, with activations
//! `x ≈ xs · xq`,
//!
//! `out += (scale · xs) · (Σ q xq − bias Σ xq) + add · (xs Σ xq)`, `add` being minus the minimum.
//!
//! The sums in the integer accumulator start at `−bias Σ xq`, so they are exact; the float
//! operations happen in this order for every width and ISA, one rounding each (or one for
//! multiply and add where they fuse). A column's result therefore does not depend on how many
//! other vectors are multiplied with it.

use super::packed::{Sizes, TILE, read_block};
use super::{Block, Spec};
use crate::pool::{self, Shared};
use crate::simd::lanes::madd;
use isopace_core::BlockFormat;

/// Rows dequantized at a time for float32 products with several vectors: two tiles, a panel.
pub const STRIP: usize = crate::kernels::panel::NR;
/// Vectors in the widest panel.
pub const PANEL: usize = 8;

/// Activations quantized to 8 bits in blocks of 32 columns, `x ≈ scale · q`, with
/// `scale = max |x| / 127`.
///
/// Vectors stand in panels of 8 as far as they go, then 4, 2, 1. A panel of `w` vectors holds for
/// each block `b` and vector `i`: quants at `((8 b + g) w + i) · 4 + j` for column `32 b + 4 g + j`,
/// the scale at `b w + i`, and at `(3 b + h) w + i` the sums over columns 0..16 (h = 0), 16..32
/// (h = 1) and 0..32 (h = 2): negated integers, and floats times the scale.
#[derive(Clone, Debug, Default)]
pub struct QuantX {
    pub(crate) cols: usize,
    pub(crate) m: usize,
    q: Vec<i8>,
    scale: Vec<f32>,
    neg_sum: Vec<i32>,
    sum: Vec<f32>,
}

/// A view of one panel of a [`QuantX`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel<'a> {
    pub(crate) q: &'a [i8],
    pub(crate) scale: &'a [f32],
    pub(crate) neg_sum: &'a [i32],
    pub(crate) sum: &'a [f32],
}

/// The width of the panel that starts at vector `at` of `m`.
pub(crate) fn panel_width(at: usize, m: usize) -> usize {
    match m - at {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

impl QuantX {
    /// Quantizes `m` vectors of `cols` values, one after the other in `x`; `cols` is a multiple
    /// of 32. Memory is kept from call to call.
    ///
    /// A block with an infinity or NaN has a NaN scale, so what is computed from it is NaN.
    pub fn quantize(&mut self, x: &[f32], m: usize, cols: usize) {
        assert!(cols.is_multiple_of(32) && x.len() == m * cols, "whole blocks of 32");
        (self.m, self.cols) = (m, cols);
        self.q.resize(m * cols, 0);
        self.scale.resize(m * cols / 32, 0.0);
        self.neg_sum.resize(m * cols / 32 * 3, 0);
        self.sum.resize(m * cols / 32 * 3, 0.0);
        let blocks = cols / 32;
        let q = Shared::new(&mut self.q);
        let scale = Shared::new(&mut self.scale);
        let neg_sum = Shared::new(&mut self.neg_sum);
        let sum = Shared::new(&mut self.sum);
        let one = |at: usize| {
            let w = panel_width(at, m);
            // SAFETY: panel `at / 8` owns vectors at .. at + 8 of all four, and what is left of
            // them falls to the same chunk.
            let (q, scale, neg_sum, sum) = unsafe {
                (
                    q.slice(at * cols, w * cols),
                    scale.slice(at * blocks, w * blocks),
                    neg_sum.slice(3 * at * blocks, 3 * w * blocks),
                    sum.slice(3 * at * blocks, 3 * w * blocks),
                )
            };
            for i in 0..w {
                quantize_vector(&x[(at + i) * cols..][..cols], i, w, q, scale, neg_sum, sum);
            }
            at + w
        };
        // A few panels a chunk: waking a thread costs as much as quantizing some thousand values.
        let per = (16384 / (PANEL * cols.max(1))).max(1) * PANEL;
        pool::parallel_for(m.div_ceil(per), |c| {
            let mut at = c * per;
            while at < m.min((c + 1) * per) {
                at = one(at);
            }
        });
    }

    /// The number of vectors.
    pub fn len(&self) -> usize {
        self.m
    }

    /// True when there is no vector.
    pub fn is_empty(&self) -> bool {
        self.m == 0
    }

    pub(crate) fn panel(&self, at: usize, w: usize) -> Panel<'_> {
        let b = self.cols / 32;
        Panel {
            q: &self.q[at * self.cols..][..w * self.cols],
            scale: &self.scale[at * b..][..w * b],
            neg_sum: &self.neg_sum[3 * at * b..][..3 * w * b],
            sum: &self.sum[3 * at * b..][..3 * w * b],
        }
    }
}

/// The scale for a largest magnitude, and what to multiply with; top is infinite or NaN where a
/// value is.
#[inline(always)]
pub(super) fn scale_of(top: f32) -> (f32, f32) {
    let (s, inverse) = if top.is_finite() { (top / 127.0, 127.0 / top) } else { (f32::NAN, 0.0) };
    // 127 / top overflows below 127 / f32::MAX; such a block is zero to any purpose.
    if inverse.is_finite() { (s, inverse) } else { (0.0, 0.0) }
}

/// Quantizes vector `i` of a panel of `w`.
fn quantize_vector(
    x: &[f32],
    i: usize,
    w: usize,
    q: &mut [i8],
    scale: &mut [f32],
    neg_sum: &mut [i32],
    sum: &mut [f32],
) {
    crate::isa::dispatch!(
        avx512: super::tile512::quantize_vector(x, i, w, q, scale, neg_sum, sum),
        avx2: quantize_vector_portable(x, i, w, q, scale, neg_sum, sum),
        portable: quantize_vector_portable(x, i, w, q, scale, neg_sum, sum),
    )
}

crate::isa::multiversion! {
    fn quantize_vector_portable(x: &[f32], i: usize, w: usize, q: &mut [i8], scale: &mut [f32], neg_sum: &mut [i32], sum: &mut [f32]) {
        let _ = FMA;
        for (b, x) in x.as_chunks::<32>().0.iter().enumerate() {
            // As integers the magnitudes have the same order, with NaN above everything.
            let mut top = [0u32; 16];
            for j in 0..16 {
                top[j] = (x[j].to_bits() & 0x7fff_ffff).max(x[j + 16].to_bits() & 0x7fff_ffff);
            }
            for half in [8, 4, 2, 1] {
                for j in 0..half {
                    top[j] = top[j].max(top[j + half]);
                }
            }
            let top = f32::from_bits(top[0]);
            let (s, inverse) = scale_of(top);
            let x: &[f32; 32] = x;
            let mut r = [0i8; 32];
            for j in 0..32 {
                // Adding and taking away 1.5 · 2^23 rounds to an integer, ties to even.
                let v = (x[j] * inverse + 12582912.0).to_bits() as i32;
                r[j] = (v - 0x4b40_0000) as i8;
            }
            let low: i32 = r[..16].iter().map(|v| *v as i32).sum();
            let high: i32 = r[16..].iter().map(|v| *v as i32).sum();
            for g in 0..8 {
                q[((8 * b + g) * w + i) * 4..][..4].copy_from_slice(&r[4 * g..4 * g + 4]);
            }
            scale[b * w + i] = s;
            for (h, v) in [low, high, low + high].into_iter().enumerate() {
                neg_sum[(3 * b + h) * w + i] = -v;
                sum[(3 * b + h) * w + i] = s * v as f32;
            }
        }
    }
}

/// Calls `$f::<FORMAT, WIDTH>(args)` for the run-time format and width; `one` stands for width 1.
macro_rules! by_format {
    ($format:expr, $w:tt, $f:ident $args:tt) => {
        match $format {
            BlockFormat::Q4_0 => by_format!(@ 0, $w, $f $args),
            BlockFormat::Q4_1 => by_format!(@ 1, $w, $f $args),
            BlockFormat::Q5_0 => by_format!(@ 2, $w, $f $args),
            BlockFormat::Q5_1 => by_format!(@ 3, $w, $f $args),
            BlockFormat::Q8_0 => by_format!(@ 4, $w, $f $args),
            BlockFormat::Q2_K => by_format!(@ 5, $w, $f $args),
            BlockFormat::Q3_K => by_format!(@ 6, $w, $f $args),
            BlockFormat::Q4_K => by_format!(@ 7, $w, $f $args),
            BlockFormat::Q5_K => by_format!(@ 8, $w, $f $args),
            BlockFormat::Q6_K => by_format!(@ 9, $w, $f $args),
        }
    };
    (@ $n:literal, one, $f:ident $args:tt) => { $f::<$n> $args };
    (@ $n:literal, $w:ident, $f:ident $args:tt) => {
        match $w {
            1 => $f::<$n, 1> $args,
            2 => $f::<$n, 2> $args,
            4 => $f::<$n, 4> $args,
            _ => $f::<$n, 8> $args,
        }
    };
}
pub(crate) use by_format;

/// Multiplies a tile with a panel of `w` vectors; `out[i]` gets the 16 rows of vector `i`.
pub(crate) fn tile_i8(
    format: BlockFormat,
    tile: &[u8],
    x: Panel<'_>,
    w: usize,
    out: &mut [[f32; TILE]; PANEL],
) {
    crate::isa::dispatch!(
        avx512: super::tile512::tile_i8(format, tile, x, w, out),
        avx2: super::tile256::tile_i8(format, tile, x, w, out),
        portable: tile_i8_portable(format, tile, x, w, out),
    )
}

/// Multiplies a tile with one float32 vector.
pub(crate) fn tile_f32(format: BlockFormat, tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    crate::isa::dispatch!(
        avx512: super::tile512::tile_f32(format, tile, x, out),
        avx2: super::tile256::tile_f32(format, tile, x, out),
        portable: tile_f32_portable(format, tile, x, out),
    )
}

/// Writes the values of a tile into a strip of columns of 32 rows, as tile number `t`.
pub(crate) fn dequantize_tile(format: BlockFormat, tile: &[u8], t: usize, out: &mut [f32]) {
    crate::isa::dispatch!(
        avx512: super::tile512::dequantize_tile(format, tile, t, out),
        avx2: super::tile256::dequantize_tile(format, tile, t, out),
        portable: dequantize_tile_portable(format, tile, t, out),
    )
}

/// The portable [`tile_i8`]: row by row, by the meaning of the layout.
pub(crate) fn tile_i8_portable(
    format: BlockFormat,
    tile: &[u8],
    x: Panel<'_>,
    w: usize,
    out: &mut [[f32; TILE]; PANEL],
) {
    let (spec, sizes) = (Spec::of(format), Sizes::of(format));
    let groups = 32 / spec.group;
    for r in 0..TILE {
        let mut acc = [0f32; PANEL];
        for sb in 0..tile.len() / sizes.total {
            let block = read_block(format, tile, r, sb);
            for s in 0..sizes.cols / 32 {
                let b = sb * (sizes.cols / 32) + s;
                for h in 0..groups {
                    let which = if groups == 1 { 2 } else { h };
                    let (scale, add) = (block.scale[2 * s + h], -block.min[2 * s + h]);
                    for i in 0..w {
                        let mut int = spec.bias * x.neg_sum[(3 * b + which) * w + i];
                        for c in h * spec.group..(h + 1) * spec.group {
                            let xq = x.q[((8 * b + c / 4) * w + i) * 4 + c % 4];
                            int += block.q[32 * s + c] as i32 * xq as i32;
                        }
                        acc[i] = madd::<false>(int as f32, scale * x.scale[b * w + i], acc[i]);
                        if spec.min {
                            acc[i] = madd::<false>(add, x.sum[(3 * b + which) * w + i], acc[i]);
                        }
                    }
                }
            }
        }
        for i in 0..w {
            out[i][r] = acc[i];
        }
    }
}

/// Calls `f(row, column, value)` for every value of a tile.
fn each_value(format: BlockFormat, tile: &[u8], mut f: impl FnMut(usize, usize, f32)) {
    let (spec, sizes) = (Spec::of(format), Sizes::of(format));
    for r in 0..TILE {
        for sb in 0..tile.len() / sizes.total {
            let Block { q, scale, min } = read_block(format, tile, r, sb);
            for c in 0..sizes.cols {
                let v = scale[c / 16] * (q[c] as i32 - spec.bias) as f32 - min[c / 16];
                f(r, sb * sizes.cols + c, v);
            }
        }
    }
}

pub(crate) fn tile_f32_portable(format: BlockFormat, tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    let mut acc = [[0f32; TILE]; 4];
    each_value(format, tile, |r, c, v| acc[c % 4][r] = madd::<false>(v, x[c], acc[c % 4][r]));
    for r in 0..TILE {
        out[r] = (acc[0][r] + acc[1][r]) + (acc[2][r] + acc[3][r]);
    }
}

pub(crate) fn dequantize_tile_portable(format: BlockFormat, tile: &[u8], t: usize, out: &mut [f32]) {
    each_value(format, tile, |r, c, v| out[c * STRIP + t * TILE + r] = v);
}

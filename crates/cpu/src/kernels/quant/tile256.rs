//! Tile kernels for AVX2: the sixteen rows of a tile as two halves of eight.

use super::Spec;
use super::packed::{Sizes, TILE};
use super::tile::{PANEL, Panel, STRIP, by_format};
use crate::simd::lanes::at as take;
use crate::simd::lanes::x86::*;
use isopace_core::BlockFormat;
use std::arch::x86_64::*;

/// The eight vectors of quants of a sub-block: four columns each, of rows `8 half ..`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn quants<const BITS: u8>(p: &[u8], half: usize) -> [__m256i; 8] {
    let plane = |o: usize| load_u8x32(take(p, o + 32 * half));
    let mut q = [_mm256_setzero_si256(); 8];
    let mut o = 0;
    match BITS {
        8 => {
            for g in 0..8 {
                q[g] = plane(64 * g);
            }
        }
        4.. => {
            let low = _mm256_set1_epi8(15);
            for g in 0..4 {
                let v = plane(64 * g);
                q[g] = _mm256_and_si256(v, low);
                q[g + 4] = _mm256_and_si256(_mm256_srli_epi32::<4>(v), low);
            }
            o = 256;
        }
        _ => {}
    }
    if BITS == 6 {
        let two = _mm256_set1_epi8(0x30);
        for h in 0..2 {
            let v = plane(o + 64 * h);
            let at4 = [_mm256_slli_epi32::<4>(v), _mm256_slli_epi32::<2>(v), v, _mm256_srli_epi32::<2>(v)];
            for k in 0..4 {
                q[4 * h + k] = _mm256_or_si256(q[4 * h + k], _mm256_and_si256(at4[k], two));
            }
        }
    }
    if BITS == 2 || BITS == 3 {
        let two = _mm256_set1_epi8(3);
        for h in 0..2 {
            let v = plane(o + 64 * h);
            let at0 = [v, _mm256_srli_epi32::<2>(v), _mm256_srli_epi32::<4>(v), _mm256_srli_epi32::<6>(v)];
            for k in 0..4 {
                q[4 * h + k] = _mm256_and_si256(at0[k], two);
            }
        }
        o += 128;
    }
    if BITS == 5 || BITS == 3 {
        let mut v = plane(o);
        let one = _mm256_set1_epi8(1);
        for g in 0..8 {
            let bit = _mm256_and_si256(v, one);
            let bit = if BITS == 5 { _mm256_slli_epi32::<4>(bit) } else { _mm256_slli_epi32::<2>(bit) };
            q[g] = _mm256_or_si256(q[g], bit);
            v = _mm256_srli_epi32::<1>(v);
        }
    }
    q
}

/// Eight float16 values of a row of sixteen.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn halves(b: &[u8], half: usize) -> __m256 {
    _mm256_cvtph_ps(load_u8x16(take(b, 16 * half)))
}

/// Eight bytes of a row of sixteen, at the bottom of a vector.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn eight(b: &[u8], half: usize) -> __m128i {
    let v = load_u8x16(take(b, 0));
    if half == 0 { v } else { _mm_srli_si128::<8>(v) }
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes(v: __m128i) -> __m256 {
    _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v))
}

/// The head of a super-block: scale and minimum of each row.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn head<const F: usize>(t: &[u8], half: usize) -> (__m256, __m256) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    (halves(t, half), if spec.min { halves(&t[32..], half) } else { _mm256_setzero_ps() })
}

/// Scales and what is added (minus the minimum) of the two halves of a sub-block's columns.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn scales<const F: usize>(d: __m256, m: __m256, p: &[u8], half: usize) -> ([__m256; 2], [__m256; 2]) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    if !spec.super_block {
        return ([d, d], [m, m]);
    }
    let neg = _mm256_sub_ps(_mm256_set1_ps(-0.0), m);
    let (a, b) = (eight(p, half), eight(&p[16..], half));
    if spec.group == 32 {
        let (s, m) = (_mm256_mul_ps(d, bytes(a)), _mm256_mul_ps(neg, bytes(b)));
        return ([s, s], [m, m]);
    }
    if spec.min {
        let low = _mm_set1_epi8(15);
        let s = [a, b].map(|v| _mm256_mul_ps(d, bytes(_mm_and_si128(v, low))));
        let m = [a, b].map(|v| _mm256_mul_ps(neg, bytes(_mm_and_si128(_mm_srli_epi16::<4>(v), low))));
        return (s, m);
    }
    let s = [a, b].map(|v| _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(v))));
    (s, [m, m])
}

macro_rules! quants_of {
    ($bits:expr, $p:expr, $half:expr) => {
        match $bits {
            8 => quants::<8>($p, $half),
            6 => quants::<6>($p, $half),
            5 => quants::<5>($p, $half),
            4 => quants::<4>($p, $half),
            3 => quants::<3>($p, $half),
            _ => quants::<2>($p, $half),
        }
    };
}

/// Adds the products of four columns. Sums of two products fit 16 bits: quants below 64, or
/// signed ones up to 128, times at most 127.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn dot<const SIGNED: bool>(acc: __m256i, q: __m256i, x: __m256i) -> __m256i {
    let pairs = if SIGNED {
        let w = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
        _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
    } else {
        _mm256_maddubs_epi16(q, x)
    };
    _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn i8_kernel<const F: usize, const W: usize>(tile: &[u8], x: Panel<'_>, out: &mut [[f32; TILE]; PANEL]) {
    for half in 0..2 {
        if W == 8 {
            i8_half::<F, W, 4>(tile, x, half, 0, out);
            i8_half::<F, W, 4>(tile, x, half, 4, out);
        } else {
            i8_half::<F, W, W>(tile, x, half, 0, out);
        }
    }
}

/// Eight rows times vectors `first .. first + N` of a panel of `W`.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn i8_half<const F: usize, const W: usize, const N: usize>(
    tile: &[u8],
    x: Panel<'_>,
    half: usize,
    first: usize,
    out: &mut [[f32; TILE]; PANEL],
) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    let size = const { Sizes::of(BlockFormat::ALL[F]) };
    let subs = size.cols / 32;
    let mut acc = [_mm256_setzero_ps(); N];
    for (sb, t) in tile.chunks_exact(size.total).enumerate() {
        let (d, m) = head::<F>(t, half);
        for s in 0..subs {
            let b = sb * subs + s;
            let p = &t[size.head + s * size.sub..][..size.sub];
            let xq: &[i8] = &x.q[b * W * 32..][..W * 32];
            let (scale, add) = scales::<F>(d, m, p, half);
            let q = quants_of!(spec.bits, &p[size.sub_head..], half);
            let groups = 32 / spec.group;
            for h in 0..groups {
                let which = if groups == 1 { 2 } else { h };
                let neg: &[i32; N] = take(x.neg_sum, (3 * b + which) * W + first);
                let sum: &[f32; N] = take(x.sum, (3 * b + which) * W + first);
                let x_scale: &[f32; N] = take(x.scale, b * W + first);
                let mut int = [_mm256_setzero_si256(); N];
                if spec.bias != 0 && spec.bits != 8 {
                    for i in 0..N {
                        int[i] = _mm256_set1_epi32(neg[i] * spec.bias);
                    }
                }
                for g in h * spec.group / 4..(h + 1) * spec.group / 4 {
                    for i in 0..N {
                        let b: &[i8; 4] = take(xq, (g * W + first + i) * 4);
                        let four = _mm256_set1_epi32(i32::from_le_bytes(b.map(|v| v as u8)));
                        int[i] = if spec.bits == 8 {
                            dot::<true>(int[i], q[g], four)
                        } else {
                            dot::<false>(int[i], q[g], four)
                        };
                    }
                }
                for i in 0..N {
                    let scaled = _mm256_mul_ps(scale[h], _mm256_set1_ps(x_scale[i]));
                    acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(int[i]), scaled, acc[i]);
                    if spec.min {
                        acc[i] = _mm256_fmadd_ps(add[h], _mm256_set1_ps(sum[i]), acc[i]);
                    }
                }
            }
        }
    }
    for i in 0..N {
        let o: &mut [f32; 8] = out[first + i][8 * half..].first_chunk_mut().expect("half of sixteen");
        store_f32x8(o, acc[i]);
    }
}

/// See [`super::tile::tile_i8`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn tile_i8(f: BlockFormat, tile: &[u8], x: Panel<'_>, w: usize, out: &mut [[f32; TILE]; PANEL]) {
    by_format!(f, w, i8_kernel(tile, x, out))
}

/// Runs `$body` for every column of a half of the rows.
macro_rules! each_column {
    ($tile:expr, $half:ident, $c:ident, $v:ident, $body:expr) => {{
        let spec = const { Spec::of(BlockFormat::ALL[F]) };
        let size = const { Sizes::of(BlockFormat::ALL[F]) };
        let bias = _mm256_set1_epi32(spec.bias);
        let byte = _mm256_set1_epi32(255);
        for (sb, t) in $tile.chunks_exact(size.total).enumerate() {
            let (d, m) = head::<F>(t, $half);
            for s in 0..size.cols / 32 {
                let p = &t[size.head + s * size.sub..][..size.sub];
                let (scale, add) = scales::<F>(d, m, p, $half);
                let q = quants_of!(spec.bits, &p[size.sub_head..], $half);
                for g in 0..8 {
                    let v = q[g];
                    let four = [
                        _mm256_and_si256(v, byte),
                        _mm256_and_si256(_mm256_srli_epi32::<8>(v), byte),
                        _mm256_and_si256(_mm256_srli_epi32::<16>(v), byte),
                        _mm256_srli_epi32::<24>(v),
                    ];
                    for j in 0..4 {
                        let q = if spec.bias != 0 { _mm256_sub_epi32(four[j], bias) } else { four[j] };
                        let $c = sb * size.cols + 32 * s + 4 * g + j;
                        let $v = _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), scale[g / 4], add[g / 4]);
                        $body;
                    }
                }
            }
        }
    }};
}

#[target_feature(enable = "avx2,fma,f16c")]
fn f32_kernel<const F: usize>(tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    for half in 0..2 {
        let mut acc = [_mm256_setzero_ps(); 4];
        each_column!(tile, half, c, v, acc[c % 4] = _mm256_fmadd_ps(v, _mm256_set1_ps(x[c]), acc[c % 4]));
        let sum = _mm256_add_ps(_mm256_add_ps(acc[0], acc[1]), _mm256_add_ps(acc[2], acc[3]));
        store_f32x8(out[8 * half..].first_chunk_mut().expect("half of sixteen"), sum);
    }
}

/// See [`super::tile::tile_f32`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn tile_f32(f: BlockFormat, tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    by_format!(f, one, f32_kernel(tile, x, out))
}

#[target_feature(enable = "avx2,fma,f16c")]
fn dequantize_kernel<const F: usize>(tile: &[u8], at: usize, out: &mut [f32]) {
    let out = out.as_chunks_mut::<STRIP>().0;
    for half in 0..2 {
        each_column!(tile, half, c, v, {
            store_f32x8(out[c][16 * at + 8 * half..].first_chunk_mut().expect("half of sixteen"), v)
        });
    }
}

/// See [`super::tile::dequantize_tile`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn dequantize_tile(f: BlockFormat, tile: &[u8], at: usize, out: &mut [f32]) {
    by_format!(f, one, dequantize_kernel(tile, at, out))
}

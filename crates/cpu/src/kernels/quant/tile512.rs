//! Tile kernels for AVX-512 with VNNI: one vector is four columns of sixteen rows.

use super::Spec;
use super::packed::{Sizes, TILE};
use super::tile::{PANEL, Panel, STRIP, by_format, scale_of};
use crate::simd::lanes::at as take;
use crate::simd::lanes::x86::*;
use isopace_core::BlockFormat;
use std::arch::x86_64::*;

/// The eight vectors of quants of a sub-block: four columns each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn quants<const BITS: u8>(p: &[u8]) -> [__m512i; 8] {
    let plane = |o: usize| load_u8x64(take(p, o));
    let mut q = [_mm512_setzero_si512(); 8];
    if BITS == 8 {
        for g in 0..8 {
            q[g] = plane(64 * g);
        }
        return q;
    }
    let mut o = 0;
    if BITS >= 4 {
        let low = _mm512_set1_epi8(15);
        for g in 0..4 {
            let v = plane(64 * g);
            q[g] = _mm512_and_si512(v, low);
            q[g + 4] = _mm512_and_si512(_mm512_srli_epi32::<4>(v), low);
        }
        o = 256;
    }
    if BITS == 6 {
        let two = _mm512_set1_epi8(0x30);
        for h in 0..2 {
            let v = plane(o + 64 * h);
            let at4 = [_mm512_slli_epi32::<4>(v), _mm512_slli_epi32::<2>(v), v, _mm512_srli_epi32::<2>(v)];
            for k in 0..4 {
                q[4 * h + k] = _mm512_or_si512(q[4 * h + k], _mm512_and_si512(at4[k], two));
            }
        }
    }
    if BITS == 2 || BITS == 3 {
        let two = _mm512_set1_epi8(3);
        for h in 0..2 {
            let v = plane(o + 64 * h);
            let at0 = [v, _mm512_srli_epi32::<2>(v), _mm512_srli_epi32::<4>(v), _mm512_srli_epi32::<6>(v)];
            for k in 0..4 {
                q[4 * h + k] = _mm512_and_si512(at0[k], two);
            }
        }
        o += 128;
    }
    if BITS == 5 {
        let v = plane(o);
        let bit = _mm512_set1_epi8(16);
        let s = [
            _mm512_slli_epi32::<4>(v),
            _mm512_slli_epi32::<3>(v),
            _mm512_slli_epi32::<2>(v),
            _mm512_slli_epi32::<1>(v),
            v,
            _mm512_srli_epi32::<1>(v),
            _mm512_srli_epi32::<2>(v),
            _mm512_srli_epi32::<3>(v),
        ];
        for g in 0..8 {
            q[g] = _mm512_or_si512(q[g], _mm512_and_si512(s[g], bit));
        }
    }
    if BITS == 3 {
        let v = plane(o);
        let bit = _mm512_set1_epi8(4);
        let s = [
            _mm512_slli_epi32::<2>(v),
            _mm512_slli_epi32::<1>(v),
            v,
            _mm512_srli_epi32::<1>(v),
            _mm512_srli_epi32::<2>(v),
            _mm512_srli_epi32::<3>(v),
            _mm512_srli_epi32::<4>(v),
            _mm512_srli_epi32::<5>(v),
        ];
        for g in 0..8 {
            q[g] = _mm512_or_si512(q[g], _mm512_and_si512(s[g], bit));
        }
    }
    q
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn halves(b: &[u8; 32]) -> __m512 {
    _mm512_cvtph_ps(load_u8x32(b))
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn bytes(v: __m128i) -> __m512 {
    _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v))
}

/// The head of a super-block: scale and minimum of each row.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn head<const F: usize>(t: &[u8]) -> (__m512, __m512) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    (halves(take(t, 0)), if spec.min { halves(take(t, 32)) } else { _mm512_setzero_ps() })
}

/// Scales and what is added (minus the minimum) of the two halves of a sub-block.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn scales<const F: usize>(d: __m512, m: __m512, p: &[u8]) -> ([__m512; 2], [__m512; 2]) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    if !spec.super_block {
        return ([d, d], [m, m]);
    }
    let neg = _mm512_sub_ps(_mm512_set1_ps(-0.0), m);
    let (a, b) = (load_u8x16(take(p, 0)), load_u8x16(take(p, 16)));
    if spec.group == 32 {
        let (s, m) = (_mm512_mul_ps(d, bytes(a)), _mm512_mul_ps(neg, bytes(b)));
        return ([s, s], [m, m]);
    }
    if spec.min {
        let low = _mm_set1_epi8(15);
        let s = [a, b].map(|v| _mm512_mul_ps(d, bytes(_mm_and_si128(v, low))));
        let m = [a, b].map(|v| _mm512_mul_ps(neg, bytes(_mm_and_si128(_mm_srli_epi16::<4>(v), low))));
        return (s, m);
    }
    let s = [a, b].map(|v| _mm512_mul_ps(d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(v))));
    (s, [m, m])
}

macro_rules! quants_of {
    ($bits:expr, $p:expr) => {
        match $bits {
            8 => quants::<8>($p),
            6 => quants::<6>($p),
            5 => quants::<5>($p),
            4 => quants::<4>($p),
            3 => quants::<3>($p),
            _ => quants::<2>($p),
        }
    };
}

/// Adds the products of a sub-block of 8-bit quants with one vector.
///
/// All loads of weights come from one instruction, 64 bytes after each other: that is what the hardware
/// prefetches. Unrolled, a Zen 4 core read 11 GB/s, and 16 when asked to prefetch; like this, 27 of 30.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn dot_bytes(p: &[u8], x: &[i8], mut sum: __m512i) -> __m512i {
    let planes = std::hint::black_box(8);
    for (p, x) in p.chunks_exact(64).zip(x.as_chunks::<4>().0).take(planes) {
        let four = _mm512_set1_epi32(i32::from_le_bytes(x.map(|v| v as u8)));
        sum = _mm512_dpbusd_epi32(sum, load_u8x64(take(p, 0)), four);
    }
    sum
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn i8_kernel<const F: usize, const W: usize>(tile: &[u8], x: Panel<'_>, out: &mut [[f32; TILE]; PANEL]) {
    let spec = const { Spec::of(BlockFormat::ALL[F]) };
    let size = const { Sizes::of(BlockFormat::ALL[F]) };
    let subs = size.cols / 32;
    let mut acc = [_mm512_setzero_ps(); W];
    let xs =
        x.q.chunks_exact(W * 32 * subs)
            .zip(x.scale.chunks_exact(W * subs))
            .zip(x.neg_sum.chunks_exact(3 * W * subs).zip(x.sum.chunks_exact(3 * W * subs)));
    for (t, ((xq, x_scale), (neg_sum, sum))) in tile.chunks_exact(size.total).zip(xs) {
        let (d, m) = head::<F>(t);
        for s in 0..subs {
            let p = &t[size.head + s * size.sub..][..size.sub];
            let xq: &[i8] = &xq[s * W * 32..][..W * 32];
            let (scale, add) = scales::<F>(d, m, p);
            if W == 1 && spec.bits == 8 {
                let bias = _mm512_slli_epi32::<7>(_mm512_set1_epi32(neg_sum[3 * s + 2]));
                let int = _mm512_cvtepi32_ps(dot_bytes(p, xq, bias));
                acc[0] = _mm512_fmadd_ps(int, _mm512_mul_ps(scale[0], _mm512_set1_ps(x_scale[s])), acc[0]);
                continue;
            }
            let q = quants_of!(spec.bits, &p[size.sub_head..]);
            let groups = 32 / spec.group;
            for h in 0..groups {
                let which = if groups == 1 { 2 } else { h };
                let neg: &[i32; W] = take(neg_sum, (3 * s + which) * W);
                let sum: &[f32; W] = take(sum, (3 * s + which) * W);
                let x_scale: &[f32; W] = take(x_scale, s * W);
                let mut int = [_mm512_setzero_si512(); W];
                if spec.bias != 0 {
                    for i in 0..W {
                        let n = _mm512_set1_epi32(neg[i]);
                        int[i] = match spec.bias {
                            4 => _mm512_slli_epi32::<2>(n),
                            8 => _mm512_slli_epi32::<3>(n),
                            16 => _mm512_slli_epi32::<4>(n),
                            32 => _mm512_slli_epi32::<5>(n),
                            _ => _mm512_slli_epi32::<7>(n),
                        };
                    }
                }
                for g in h * spec.group / 4..(h + 1) * spec.group / 4 {
                    for i in 0..W {
                        let b: &[i8; 4] = take(xq, (g * W + i) * 4);
                        let four = _mm512_set1_epi32(i32::from_le_bytes(b.map(|v| v as u8)));
                        int[i] = _mm512_dpbusd_epi32(int[i], q[g], four);
                    }
                }
                for i in 0..W {
                    let scaled = _mm512_mul_ps(scale[h], _mm512_set1_ps(x_scale[i]));
                    acc[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(int[i]), scaled, acc[i]);
                    if spec.min {
                        acc[i] = _mm512_fmadd_ps(add[h], _mm512_set1_ps(sum[i]), acc[i]);
                    }
                }
            }
        }
    }
    for i in 0..W {
        store_f32x16(&mut out[i], acc[i]);
    }
}

/// See [`super::tile::tile_i8`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn tile_i8(f: BlockFormat, tile: &[u8], x: Panel<'_>, w: usize, out: &mut [[f32; TILE]; PANEL]) {
    by_format!(f, w, i8_kernel(tile, x, out))
}

/// See [`super::tile::QuantX::quantize`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn quantize_vector(
    x: &[f32],
    i: usize,
    w: usize,
    q: &mut [i8],
    scale: &mut [f32],
    neg_sum: &mut [i32],
    sum: &mut [f32],
) {
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    for (b, x) in x.as_chunks::<32>().0.iter().enumerate() {
        let v = [load_f32x16(take(x, 0)), load_f32x16(take(x, 16))];
        let m = v.map(|v| _mm512_and_si512(_mm512_castps_si512(v), magnitude));
        let (s, inverse) = scale_of(f32::from_bits(_mm512_reduce_max_epu32(_mm512_max_epu32(m[0], m[1]))));
        let r = v.map(|v| _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(inverse))));
        // NaN converts to the smallest integer, which as a byte is zero; the scale is NaN then.
        let low = _mm512_reduce_add_epi32(r[0]);
        let high = _mm512_reduce_add_epi32(r[1]);
        let bytes = _mm256_set_m128i(_mm512_cvtepi32_epi8(r[1]), _mm512_cvtepi32_epi8(r[0]));
        let mut four = [0i8; 32];
        store_i8x32(&mut four, bytes);
        if w == 1 {
            q[32 * b..][..32].copy_from_slice(&four);
        } else {
            let q = &mut q[32 * b * w..][..32 * w];
            for g in 0..8 {
                q[(g * w + i) * 4..][..4].copy_from_slice(&four[4 * g..4 * g + 4]);
            }
        }
        scale[b * w + i] = s;
        for (h, v) in [low, high, low.wrapping_add(high)].into_iter().enumerate() {
            neg_sum[(3 * b + h) * w + i] = v.wrapping_neg();
            sum[(3 * b + h) * w + i] = s * v as f32;
        }
    }
}

/// Calls `f(column, values)` for every column of a sub-block.
macro_rules! each_column {
    ($tile:expr, $c:ident, $v:ident, $body:expr) => {{
        let spec = const { Spec::of(BlockFormat::ALL[F]) };
        let size = const { Sizes::of(BlockFormat::ALL[F]) };
        let bias = _mm512_set1_epi32(spec.bias);
        let byte = _mm512_set1_epi32(255);
        for (sb, t) in $tile.chunks_exact(size.total).enumerate() {
            let (d, m) = head::<F>(t);
            for s in 0..size.cols / 32 {
                let p = &t[size.head + s * size.sub..][..size.sub];
                let (scale, add) = scales::<F>(d, m, p);
                let q = quants_of!(spec.bits, &p[size.sub_head..]);
                for g in 0..8 {
                    let v = q[g];
                    let four = [
                        _mm512_and_si512(v, byte),
                        _mm512_and_si512(_mm512_srli_epi32::<8>(v), byte),
                        _mm512_and_si512(_mm512_srli_epi32::<16>(v), byte),
                        _mm512_srli_epi32::<24>(v),
                    ];
                    for j in 0..4 {
                        let q = if spec.bias != 0 { _mm512_sub_epi32(four[j], bias) } else { four[j] };
                        let $c = sb * size.cols + 32 * s + 4 * g + j;
                        let $v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale[g / 4], add[g / 4]);
                        $body;
                    }
                }
            }
        }
    }};
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn f32_kernel<const F: usize>(tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    let mut acc = [_mm512_setzero_ps(); 4];
    each_column!(tile, c, v, acc[c % 4] = _mm512_fmadd_ps(v, _mm512_set1_ps(x[c]), acc[c % 4]));
    store_f32x16(out, _mm512_add_ps(_mm512_add_ps(acc[0], acc[1]), _mm512_add_ps(acc[2], acc[3])));
}

/// See [`super::tile::tile_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn tile_f32(f: BlockFormat, tile: &[u8], x: &[f32], out: &mut [f32; TILE]) {
    by_format!(f, one, f32_kernel(tile, x, out))
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
fn dequantize_kernel<const F: usize>(tile: &[u8], at: usize, out: &mut [f32]) {
    let out = out.as_chunks_mut::<STRIP>().0;
    each_column!(
        tile,
        c,
        v,
        store_f32x16(out[c][16 * at..].first_chunk_mut().expect("a tile of the strip"), v)
    );
}

/// See [`super::tile::dequantize_tile`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) fn dequantize_tile(f: BlockFormat, tile: &[u8], at: usize, out: &mut [f32]) {
    by_format!(f, one, dequantize_kernel(tile, at, out))
}

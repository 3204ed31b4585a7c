//! The two products of one-query attention for AVX-512: up to four query heads of a group at a
//! time, so that a key or value loaded serves them all.

use crate::simd::lanes::at;
use crate::simd::lanes::x86::*;
use std::arch::x86_64::*;

/// Adds up each of four vectors; the sums are the four lanes of the result.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn sums(v: [__m512; 4]) -> __m128 {
    let a = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    let b = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    let s = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xee>(a, b));
    let h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps::<1>(s));
    _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps::<1>(h))
}

/// `s[g, j] = q[g] · k[j]` for four keys at a time; rows of `d`, a multiple of 16; `k` and rows of
/// `s` (of `stride`) hold whole fours.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn scores(q: &[f32], k: &[f32], d: usize, n: usize, s: &mut [f32], stride: usize) {
    for (q, s) in q.chunks(4 * d).zip(s.chunks_mut(4 * stride)) {
        match q.len() / d {
            1 => scores_of::<1>(q, k, d, n, s, stride),
            2 => scores_of::<2>(q, k, d, n, s, stride),
            3 => scores_of::<3>(q, k, d, n, s, stride),
            _ => scores_of::<4>(q, k, d, n, s, stride),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn scores_of<const G: usize>(q: &[f32], k: &[f32], d: usize, n: usize, s: &mut [f32], stride: usize) {
    for (j, k) in k.chunks_exact(4 * d).take(n.div_ceil(4)).enumerate() {
        let mut acc = [[_mm512_setzero_ps(); 4]; G];
        for i in (0..d).step_by(16) {
            let key: [__m512; 4] = [0, 1, 2, 3].map(|a| load_f32x16(at(k, a * d + i)));
            for g in 0..G {
                let q = load_f32x16(at(q, g * d + i));
                for a in 0..4 {
                    acc[g][a] = _mm512_fmadd_ps(q, key[a], acc[g][a]);
                }
            }
        }
        for g in 0..G {
            let four: &mut [f32; 4] =
                s[g * stride + 4 * j..].first_chunk_mut().expect("a whole four of scores");
            store_f32x4(four, sums(acc[g]));
        }
    }
}

/// `o[g] += Σ_j s[g, j] · v[j]`; rows of `dv`, a multiple of 16; rows of `s` and `o` by strides.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn values(
    s: &[f32],
    s_stride: usize,
    n: usize,
    v: &[f32],
    dv: usize,
    o: &mut [f32],
    o_stride: usize,
    heads: usize,
) {
    for g in (0..heads).step_by(4) {
        let (s, o) = (&s[g * s_stride..], &mut o[g * o_stride..]);
        for c in (0..dv).step_by(64) {
            // Width in vectors; narrower only at the end of a row.
            match ((heads - g).min(4), (dv - c).min(64) / 16) {
                (1, 4) => values_of::<1, 4>(s, s_stride, n, v, dv, c, o, o_stride),
                (2, 4) => values_of::<2, 4>(s, s_stride, n, v, dv, c, o, o_stride),
                (3, 4) => values_of::<3, 4>(s, s_stride, n, v, dv, c, o, o_stride),
                (4, 4) => values_of::<4, 4>(s, s_stride, n, v, dv, c, o, o_stride),
                (h, w) => {
                    for (h, w) in (0..h).flat_map(|h| (0..w).map(move |w| (h, w))) {
                        let (s, o) = (&s[h * s_stride..], &mut o[h * o_stride..]);
                        values_of::<1, 1>(s, s_stride, n, v, dv, c + 16 * w, o, o_stride);
                    }
                }
            }
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn values_of<const G: usize, const W: usize>(
    s: &[f32],
    s_stride: usize,
    n: usize,
    v: &[f32],
    dv: usize,
    c: usize,
    o: &mut [f32],
    o_stride: usize,
) {
    let mut acc = [[_mm512_setzero_ps(); W]; G];
    for g in 0..G {
        for w in 0..W {
            acc[g][w] = load_f32x16(at(o, g * o_stride + c + 16 * w));
        }
    }
    let rows: [&[f32]; G] = std::array::from_fn(|g| &s[g * s_stride..][..n]);
    for (j, v) in v.chunks_exact(dv).take(n).enumerate() {
        let mut value = [_mm512_setzero_ps(); W];
        for w in 0..W {
            value[w] = load_f32x16(at(v, c + 16 * w));
        }
        for g in 0..G {
            let p = _mm512_set1_ps(rows[g][j]);
            for w in 0..W {
                acc[g][w] = _mm512_fmadd_ps(p, value[w], acc[g][w]);
            }
        }
    }
    for g in 0..G {
        for w in 0..W {
            let to = o[g * o_stride + c + 16 * w..].first_chunk_mut().expect("a vector of the output");
            store_f32x16(to, acc[g][w]);
        }
    }
}

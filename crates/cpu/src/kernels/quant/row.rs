//! Products of rows in their file form with one vector, for weights that stay mapped.

use super::tile::{QuantX, by_format};
use super::{Block, Spec, expand};
use crate::simd::lanes::madd;
use isopace_core::BlockFormat;

/// The product of one row, in its file form, with a float32 vector: running sums of every
/// sixteenth column, the even and the odd sixteens apart, added up pairwise at the end.
pub(crate) fn row_f32(format: BlockFormat, row: &[u8], x: &[f32]) -> f32 {
    crate::isa::dispatch!(
        avx512: x86::row_f32_avx512(format, row, x),
        avx2: x86::row_f32_avx2(format, row, x),
        portable: by_format!(format, one, row_f32_portable(row, x)),
    )
}

fn row_f32_portable<const F: usize>(row: &[u8], x: &[f32]) -> f32 {
    row_f32_body::<F, { cfg!(target_arch = "aarch64") }>(row, x)
}

#[inline(always)]
fn row_f32_body<const F: usize, const FMA: bool>(row: &[u8], x: &[f32]) -> f32 {
    let format = BlockFormat::ALL[F];
    let bias = Spec::of(format).bias as f32;
    let mut block = Block::default();
    let mut acc = [[0f32; 16]; 2];
    for (b, x) in row.chunks_exact(format.block_bytes()).zip(x.chunks_exact(format.block_elems())) {
        expand(format, b, &mut block);
        for g in 0..format.block_elems() / 16 {
            let x: &[f32; 16] = crate::simd::lanes::at(x, 16 * g);
            let q: &[u8; 16] = crate::simd::lanes::at(&block.q, 16 * g);
            let (s, m) = (block.scale[g], -block.min[g]);
            let acc = &mut acc[g % 2];
            for j in 0..16 {
                acc[j] = madd::<FMA>(madd::<FMA>(q[j] as f32 - bias, s, m), x[j], acc[j]);
            }
        }
    }
    fold(std::array::from_fn(|j| acc[0][j] + acc[1][j]))
}

/// Adds sixteen sums pairwise.
#[inline(always)]
fn fold(mut sum: [f32; 16]) -> f32 {
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            sum[j] += sum[j + half];
        }
    }
    sum[0]
}

/// The product of one row, in its file form, with vector 0 of `x`, which has only that one.
pub(crate) fn row_i8(format: BlockFormat, row: &[u8], x: &QuantX) -> f32 {
    crate::isa::dispatch!(
        avx512: x86::row_avx512(format, row, x),
        avx2: x86::row_avx2(format, row, x),
        portable: row_i8_portable(format, row, x),
    )
}

fn row_i8_portable(format: BlockFormat, row: &[u8], x: &QuantX) -> f32 {
    let spec = Spec::of(format);
    let x = x.panel(0, 1);
    let mut block = Block::default();
    let mut acc = 0f32;
    let blocks = format.block_elems() / 32;
    for (sb, b) in row.chunks_exact(format.block_bytes()).enumerate() {
        expand(format, b, &mut block);
        for s in 0..blocks {
            let b = sb * blocks + s;
            for h in 0..2 {
                let q: &[u8; 16] = crate::simd::lanes::at(&block.q, 32 * s + 16 * h);
                let xq: &[i8; 16] = crate::simd::lanes::at(x.q, 32 * b + 16 * h);
                let mut int = spec.bias * x.neg_sum[3 * b + h];
                for j in 0..16 {
                    int += q[j] as i32 * xq[j] as i32;
                }
                let g = 2 * s + h;
                acc += int as f32 * (block.scale[g] * x.scale[b]) - block.min[g] * x.sum[3 * b + h];
            }
        }
    }
    acc
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::lanes::at;
    use crate::simd::lanes::x86::*;
    use std::arch::x86_64::*;

    macro_rules! row_kernel {
        ($name:ident, $inner:ident, $features:literal, $dot:expr) => {
            /// Eight running sums: lanes 0..4 of each block's first 16 columns, 4..8 of the rest.
            #[target_feature(enable = $features)]
            pub(super) fn $name(format: BlockFormat, row: &[u8], x: &QuantX) -> f32 {
                by_format!(format, one, $inner(row, x))
            }

            #[target_feature(enable = $features)]
            fn $inner<const F: usize>(row: &[u8], x: &QuantX) -> f32 {
                let format = BlockFormat::ALL[F];
                let spec = Spec::of(format);
                let x = x.panel(0, 1);
                let mut block = Block::default();
                let mut acc = _mm256_setzero_ps();
                let mut min = 0f32;
                let blocks = format.block_elems() / 32;
                let signed = spec.bits == 8;
                for (sb, b) in row.chunks_exact(format.block_bytes()).enumerate() {
                    expand(format, b, &mut block);
                    for s in 0..blocks {
                        let b = sb * blocks + s;
                        let n: &[i32; 3] = at(x.neg_sum, 3 * b);
                        let bias = if signed { 0 } else { spec.bias };
                        let start =
                            _mm256_set_m128i(_mm_cvtsi32_si128(bias * n[1]), _mm_cvtsi32_si128(bias * n[0]));
                        let q = load_u8x32(at(&block.q, 32 * s));
                        let xq = load_i8x32(at(x.q, 32 * b));
                        let int = $dot(start, q, xq, signed);
                        let g: &[f32; 2] = at(&block.scale, 2 * s);
                        let scale = _mm256_set_m128(_mm_set1_ps(g[1]), _mm_set1_ps(g[0]));
                        let scale = _mm256_mul_ps(scale, _mm256_set1_ps(x.scale[b]));
                        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(int), scale, acc);
                        if spec.min {
                            let m: &[f32; 2] = at(&block.min, 2 * s);
                            min += m[0] * x.sum[3 * b] + m[1] * x.sum[3 * b + 1];
                        }
                    }
                }
                let mut v = [0f32; 8];
                store_f32x8(&mut v, acc);
                ((v[0] + v[4]) + (v[1] + v[5])) + ((v[2] + v[6]) + (v[3] + v[7])) - min
            }
        };
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn dot_avx2(acc: __m256i, q: __m256i, x: __m256i, signed: bool) -> __m256i {
        let pairs = if signed {
            let w = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
            _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
        } else {
            _mm256_maddubs_epi16(q, x)
        };
        _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512vl,avx512vnni,avx2")]
    fn dot_vnni(acc: __m256i, q: __m256i, x: __m256i, signed: bool) -> __m256i {
        if signed {
            let w = _mm256_xor_si256(q, _mm256_set1_epi8(-128));
            _mm256_dpbusd_epi32(acc, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w))
        } else {
            _mm256_dpbusd_epi32(acc, q, x)
        }
    }

    row_kernel!(row_avx2, i8_avx2, "avx2,fma,f16c", dot_avx2);
    row_kernel!(
        row_avx512,
        i8_avx512,
        "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c",
        dot_vnni
    );

    /// The order of [`row_f32_body`], with whole vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    pub(super) fn row_f32_avx512(format: BlockFormat, row: &[u8], x: &[f32]) -> f32 {
        by_format!(format, one, f32_avx512(row, x))
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")]
    fn f32_avx512<const F: usize>(row: &[u8], x: &[f32]) -> f32 {
        let format = BlockFormat::ALL[F];
        let bias = _mm512_set1_epi32(Spec::of(format).bias);
        let mut block = Block::default();
        let mut acc = [_mm512_setzero_ps(); 2];
        for (b, x) in row.chunks_exact(format.block_bytes()).zip(x.chunks_exact(format.block_elems())) {
            expand(format, b, &mut block);
            for g in 0..format.block_elems() / 16 {
                let q = _mm512_cvtepu8_epi32(load_u8x16(at(&block.q, 16 * g)));
                let (s, m) = (_mm512_set1_ps(block.scale[g]), _mm512_set1_ps(-block.min[g]));
                let v = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(q, bias)), s, m);
                acc[g % 2] = _mm512_fmadd_ps(v, load_f32x16(at(x, 16 * g)), acc[g % 2]);
            }
        }
        let mut sum = [0f32; 16];
        store_f32x16(&mut sum, _mm512_add_ps(acc[0], acc[1]));
        fold(sum)
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn row_f32_avx2(format: BlockFormat, row: &[u8], x: &[f32]) -> f32 {
        by_format!(format, one, f32_avx2(row, x))
    }

    #[target_feature(enable = "avx2,fma,f16c")]
    fn f32_avx2<const F: usize>(row: &[u8], x: &[f32]) -> f32 {
        row_f32_body::<F, true>(row, x)
    }
}

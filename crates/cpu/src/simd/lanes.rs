//! Lanes: loads and stores of whole vectors behind safe functions, and small conversions that
//! vectorise.

/// Returns `a * b + c`, fused where `FMA` says that this is one instruction.
#[inline(always)]
pub fn madd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// Returns the float32 of a float16 by its bits; exact, branch-free but for one select.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let sign = (h as u32 & 0x8000) << 16;
    let body = h as u32 & 0x7fff;
    // The exponent moves from bias 15 to bias 127 by a multiplication, which also makes
    // subnormals right.
    let scaled = (f32::from_bits(body << 13) * f32::from_bits(0x7780_0000)).to_bits();
    let bits = if body >= 0x7c00 { (body << 13) | 0x7f80_0000 } else { scaled };
    f32::from_bits(bits | sign)
}

/// Returns the float16 nearest to `x`, ties to even, by its bits.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) & 0x8000;
    let abs = bits & 0x7fff_ffff;
    // Subnormal results: adding 0.5 lines the mantissa up with float16's smallest step and
    // rounds in the addition.
    let small = (f32::from_bits(abs) + 0.5).to_bits().wrapping_sub(0x3f00_0000);
    let odd = (abs >> 13) & 1;
    let normal = abs.wrapping_add(0xc800_0fff).wrapping_add(odd) >> 13;
    let over = if abs > 0x7f80_0000 { 0x7e00 | ((abs >> 13) & 0x3ff) } else { 0x7c00 };
    let r = if abs < 0x3880_0000 { small } else { normal };
    let r = if abs >= 0x477f_f000 { over } else { r };
    (r | sign) as u16
}

/// Returns the float32 of a bfloat16 by its bits.
#[inline(always)]
pub fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// Returns the bfloat16 nearest to `x`, ties to even, by its bits; NaN stays NaN.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let b = x.to_bits();
    let rounded = b.wrapping_add(0x7fff + ((b >> 16) & 1)) >> 16;
    if b & 0x7fff_ffff > 0x7f80_0000 { ((b >> 16) | 0x40) as u16 } else { rounded as u16 }
}

/// The first `N` elements from `at`, as an array.
#[inline(always)]
pub fn at<T, const N: usize>(s: &[T], at: usize) -> &[T; N] {
    s[at..].first_chunk().expect("a whole vector inside the slice")
}

/// Loads and stores of x86 vectors; arrays carry the bounds, so only the feature matters, and a
/// caller without it cannot call these outside `unsafe`.
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use crate::simd::convert::{Load, Stored};
    use std::arch::x86_64::*;

    /// Loads 16 values as float32.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn widen_x16<T: Load>(a: &[T; 16]) -> __m512 {
        match T::STORED {
            Stored::F32 => load_f32x16(bytemuck::cast_ref(a)),
            Stored::F16 => _mm512_cvtph_ps(load_u16x16(bytemuck::cast_ref(a))),
            Stored::BF16 => {
                let wide = _mm512_cvtepu16_epi32(load_u16x16(bytemuck::cast_ref(a)));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
            }
        }
    }

    /// Loads 8 values as float32.
    #[inline]
    #[target_feature(enable = "avx2,f16c")]
    pub fn widen_x8<T: Load>(a: &[T; 8]) -> __m256 {
        match T::STORED {
            Stored::F32 => load_f32x8(bytemuck::cast_ref(a)),
            Stored::F16 => _mm256_cvtph_ps(load_u16x8(bytemuck::cast_ref(a))),
            Stored::BF16 => {
                let wide = _mm256_cvtepu16_epi32(load_u16x8(bytemuck::cast_ref(a)));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
            }
        }
    }

    /// Adds up each of four vectors; the sums are the four lanes of the result.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub fn sums_x16(v: [__m512; 4]) -> __m128 {
        let a = _mm512_add_ps(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
        let b = _mm512_add_ps(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
        let s = _mm512_add_ps(_mm512_shuffle_ps::<0x44>(a, b), _mm512_shuffle_ps::<0xee>(a, b));
        let h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps::<1>(s));
        _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps::<1>(h))
    }

    /// Adds up each of four vectors; the sums are the four lanes of the result.
    #[inline]
    #[target_feature(enable = "avx")]
    pub fn sums_x8(v: [__m256; 4]) -> __m128 {
        let s = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
        _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps::<1>(s))
    }

    /// Exchanges rows and columns of a square.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub fn transpose_x16(v: &mut [__m512; 16]) {
        // Quarter q of `s[4 i + c]` is column 4 q + c of rows 4 i to 4 i + 3.
        let mut s = [_mm512_setzero_pd(); 16];
        for i in (0..16).step_by(4) {
            let pairs = |a, b| (_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
            let ((a, b), (c, d)) = (pairs(v[i], v[i + 1]), pairs(v[i + 2], v[i + 3]));
            let [a, b, c, d] = [a, b, c, d].map(|x| _mm512_castps_pd(x));
            s[i] = _mm512_unpacklo_pd(a, c);
            s[i + 1] = _mm512_unpackhi_pd(a, c);
            s[i + 2] = _mm512_unpacklo_pd(b, d);
            s[i + 3] = _mm512_unpackhi_pd(b, d);
        }
        for c in 0..4 {
            let low = _mm512_shuffle_f64x2::<0x44>(s[c], s[4 + c]);
            let high = _mm512_shuffle_f64x2::<0xee>(s[c], s[4 + c]);
            let low2 = _mm512_shuffle_f64x2::<0x44>(s[8 + c], s[12 + c]);
            let high2 = _mm512_shuffle_f64x2::<0xee>(s[8 + c], s[12 + c]);
            v[c] = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(low, low2));
            v[4 + c] = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(low, low2));
            v[8 + c] = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0x88>(high, high2));
            v[12 + c] = _mm512_castpd_ps(_mm512_shuffle_f64x2::<0xdd>(high, high2));
        }
    }

    /// Asks for the cache lines of `s`, which are read once and leave the other levels as they are.
    #[inline(always)]
    pub fn prefetch_once(s: &[u8]) {
        for line in s.chunks(64) {
            // SAFETY: SSE is part of x86-64, and a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_NTA>(line.as_ptr().cast()) };
        }
    }

    macro_rules! moves {
        ($($feature:literal: $load:ident, $store:ident, $t:ty, $n:literal, $v:ty, $l:ident, $s:ident;)*) => { $(
            /// Loads one vector.
            #[inline]
            #[allow(dead_code, reason = "loads and stores come in pairs")]
            #[target_feature(enable = $feature)]
            pub fn $load(a: &[$t; $n]) -> $v {
                // SAFETY: the array has exactly the bytes of the vector; the load is unaligned.
                unsafe { $l(a.as_ptr().cast()) }
            }
            /// Stores one vector.
            #[inline]
            #[allow(dead_code, reason = "loads and stores come in pairs")]
            #[target_feature(enable = $feature)]
            pub fn $store(a: &mut [$t; $n], v: $v) {
                // SAFETY: the array has exactly the bytes of the vector; the store is unaligned.
                unsafe { $s(a.as_mut_ptr().cast(), v) }
            }
        )* };
    }
    moves! {
        "avx512f": load_f32x16, store_f32x16, f32, 16, __m512, _mm512_loadu_ps, _mm512_storeu_ps;
        "avx512f": load_i32x16, store_i32x16, i32, 16, __m512i, _mm512_loadu_si512, _mm512_storeu_si512;
        "avx512f": load_u8x64, store_u8x64, u8, 64, __m512i, _mm512_loadu_si512, _mm512_storeu_si512;
        "avx": load_f32x8, store_f32x8, f32, 8, __m256, _mm256_loadu_ps, _mm256_storeu_ps;
        "avx": load_u8x32, store_u8x32, u8, 32, __m256i, _mm256_loadu_si256, _mm256_storeu_si256;
        "avx": load_i8x32, store_i8x32, i8, 32, __m256i, _mm256_loadu_si256, _mm256_storeu_si256;
        "avx": load_u16x16, store_u16x16, u16, 16, __m256i, _mm256_loadu_si256, _mm256_storeu_si256;
        "sse": load_f32x4, store_f32x4, f32, 4, __m128, _mm_loadu_ps, _mm_storeu_ps;
        "sse2": load_u16x8, store_u16x8, u16, 8, __m128i, _mm_loadu_si128, _mm_storeu_si128;
        "sse2": load_u8x16, store_u8x16, u8, 16, __m128i, _mm_loadu_si128, _mm_storeu_si128;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::{bf16, f16};

    #[test]
    fn sixteen_bit_floats_both_ways() {
        for h in 0..=u16::MAX {
            let want = f16::from_bits(h).to_f32();
            let got = f16_to_f32(h);
            assert!(got == want || got.is_nan() && want.is_nan(), "{h:#x}");
            if !want.is_nan() {
                assert_eq!(got.to_bits(), want.to_bits(), "{h:#x}");
                assert_eq!(f32_to_f16(got), h);
            }
        }
        let mut bits = 0u32;
        for _ in 0..4_000_000 {
            bits = bits.wrapping_mul(1664525).wrapping_add(1013904223);
            for b in [bits, (bits & 0x9fff_ffff) | 0x2000_0000, (bits & 0x87ff_e000) | 0x3800_1000] {
                let x = f32::from_bits(b);
                if x.is_nan() {
                    assert!(
                        f16::from_bits(f32_to_f16(x)).is_nan() && bf16::from_bits(f32_to_bf16(x)).is_nan()
                    );
                } else {
                    assert_eq!(f32_to_f16(x), f16::from_f32(x).to_bits(), "{x:e} {b:#x}");
                    assert_eq!(f32_to_bf16(x), bf16::from_f32(x).to_bits(), "{x:e}");
                }
            }
        }
    }
}

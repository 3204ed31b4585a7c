//! Between the stored types of float arrays and the float32 that kernels compute in.

use super::lanes::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use half::{bf16, f16};

/// How a [`Load`] type stands in memory, for code that widens it in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// float32.
    F32,
    /// float16.
    F16,
    /// bfloat16.
    BF16,
}

/// A type that is computed in float32: float32 itself, float16 and bfloat16. Values are rounded
/// once, to nearest, ties to even.
pub trait Load: bytemuck::Pod + Default + Send + Sync {
    /// How it is stored.
    const STORED: Stored;
    /// Writes the values of `src` as float32.
    fn widen(src: &[Self], dst: &mut [f32]);
    /// Writes the values of `src` rounded.
    fn narrow(src: &[f32], dst: &mut [Self]);
    /// Runs `f` on the values of `src` as float32 and writes what it leaves, rounded, to `dst`;
    /// `scratch` has the length of both.
    fn map(src: &[Self], dst: &mut [Self], scratch: &mut [f32], f: impl FnOnce(&mut [f32])) {
        Self::widen(src, scratch);
        f(scratch);
        Self::narrow(scratch, dst);
    }
    /// Runs `f` on the values as float32, copied only if they are stored otherwise.
    fn with_f32<R>(src: &[Self], scratch: &mut Vec<f32>, f: impl FnOnce(&[f32]) -> R) -> R {
        scratch.resize(src.len(), 0.0);
        Self::widen(src, scratch);
        f(scratch)
    }
}

impl Load for f32 {
    const STORED: Stored = Stored::F32;
    fn widen(src: &[f32], dst: &mut [f32]) {
        dst[..src.len()].copy_from_slice(src);
    }
    fn narrow(src: &[f32], dst: &mut [f32]) {
        dst[..src.len()].copy_from_slice(src);
    }
    fn map(src: &[f32], dst: &mut [f32], _: &mut [f32], f: impl FnOnce(&mut [f32])) {
        dst.copy_from_slice(src);
        f(dst);
    }
    fn with_f32<R>(src: &[f32], _: &mut Vec<f32>, f: impl FnOnce(&[f32]) -> R) -> R {
        f(src)
    }
}

impl Load for f16 {
    const STORED: Stored = Stored::F16;
    fn widen(src: &[f16], dst: &mut [f32]) {
        widen_f16(bytemuck::cast_slice(src), &mut dst[..src.len()]);
    }
    fn narrow(src: &[f32], dst: &mut [f16]) {
        narrow_f16(src, bytemuck::cast_slice_mut(&mut dst[..src.len()]));
    }
}

impl Load for bf16 {
    const STORED: Stored = Stored::BF16;
    fn widen(src: &[bf16], dst: &mut [f32]) {
        widen_bf16(bytemuck::cast_slice(src), &mut dst[..src.len()]);
    }
    fn narrow(src: &[f32], dst: &mut [bf16]) {
        narrow_bf16(src, bytemuck::cast_slice_mut(&mut dst[..src.len()]));
    }
}

crate::isa::multiversion! {
    fn widen_bf16(src: &[u16], dst: &mut [f32]) {
        let _ = FMA;
        for (s, d) in src.iter().zip(dst) {
            *d = bf16_to_f32(*s);
        }
    }
}
crate::isa::multiversion! {
    fn narrow_bf16(src: &[f32], dst: &mut [u16]) {
        let _ = FMA;
        for (s, d) in src.iter().zip(dst) {
            *d = f32_to_bf16(*s);
        }
    }
}

fn widen_f16(src: &[u16], dst: &mut [f32]) {
    crate::isa::dispatch!(
        avx512: x86::widen512(src, dst),
        avx2: x86::widen256(src, dst),
        portable: src.iter().zip(dst).for_each(|(s, d)| *d = f16_to_f32(*s)),
    )
}

fn narrow_f16(src: &[f32], dst: &mut [u16]) {
    crate::isa::dispatch!(
        avx512: x86::narrow512(src, dst),
        avx2: x86::narrow256(src, dst),
        portable: src.iter().zip(dst).for_each(|(s, d)| *d = f32_to_f16(*s)),
    )
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::lanes::x86::*;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(super) fn widen512(src: &[u16], dst: &mut [f32]) {
        let ((s, s1), (d, d1)) = (src.as_chunks::<16>(), dst.as_chunks_mut::<16>());
        for (s, d) in s.iter().zip(d) {
            store_f32x16(d, _mm512_cvtph_ps(load_u16x16(s)));
        }
        s1.iter().zip(d1).for_each(|(s, d)| *d = f16_to_f32(*s));
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn widen256(src: &[u16], dst: &mut [f32]) {
        let ((s, s1), (d, d1)) = (src.as_chunks::<8>(), dst.as_chunks_mut::<8>());
        for (s, d) in s.iter().zip(d) {
            store_f32x8(d, _mm256_cvtph_ps(load_u16x8(s)));
        }
        s1.iter().zip(d1).for_each(|(s, d)| *d = f16_to_f32(*s));
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn narrow512(src: &[f32], dst: &mut [u16]) {
        let ((s, s1), (d, d1)) = (src.as_chunks::<16>(), dst.as_chunks_mut::<16>());
        for (s, d) in s.iter().zip(d) {
            store_u16x16(d, _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(load_f32x16(s)));
        }
        s1.iter().zip(d1).for_each(|(s, d)| *d = f32_to_f16(*s));
    }

    #[target_feature(enable = "avx2,f16c")]
    pub(super) fn narrow256(src: &[f32], dst: &mut [u16]) {
        let ((s, s1), (d, d1)) = (src.as_chunks::<8>(), dst.as_chunks_mut::<8>());
        for (s, d) in s.iter().zip(d) {
            store_u16x8(d, _mm256_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(load_f32x8(s)));
        }
        s1.iter().zip(d1).for_each(|(s, d)| *d = f32_to_f16(*s));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{Isa, with};

    #[test]
    fn both_ways_on_every_isa() {
        let halves: Vec<u16> = (0..=u16::MAX).chain(0..7).collect();
        let floats: Vec<f32> = (0..=u32::MAX).step_by(65_521).map(f32::from_bits).collect();
        for isa in Isa::ALL {
            with(isa, || {
                let mut wide = vec![0.0; halves.len()];
                let h: Vec<f16> = halves.iter().map(|b| f16::from_bits(*b)).collect();
                f16::widen(&h, &mut wide);
                assert!(h.iter().zip(&wide).all(|(h, w)| h.to_f32() == *w || h.is_nan() && w.is_nan()));
                let b: Vec<bf16> = halves.iter().map(|b| bf16::from_bits(*b)).collect();
                bf16::widen(&b, &mut wide);
                assert!(b.iter().zip(&wide).all(|(h, w)| h.to_f32() == *w || h.is_nan() && w.is_nan()));
                let mut n = vec![f16::ZERO; floats.len()];
                f16::narrow(&floats, &mut n);
                assert!(
                    floats.iter().zip(&n).all(|(f, n)| f16::from_f32(*f) == *n || f.is_nan() && n.is_nan())
                );
                let mut n = vec![bf16::ZERO; floats.len()];
                bf16::narrow(&floats, &mut n);
                assert!(
                    floats.iter().zip(&n).all(|(f, n)| bf16::from_f32(*f) == *n || f.is_nan() && n.is_nan())
                );
            });
        }
    }
}

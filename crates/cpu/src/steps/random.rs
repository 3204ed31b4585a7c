//! Values from nothing but scalars or a key.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::elem::by_size;
use crate::pool;
use crate::view::{self, dense};
use crate::vm::scalar_bytes;
use half::{bf16, f16};
use isopace_core::backend::{Kernel, Spec};
use isopace_core::op::random::threefry;
use isopace_core::{Complex, Dtype, Number, Result, bail};
use std::sync::Arc;

/// Elements made by one thread at a time.
const CHUNK: usize = 1 << 15;

/// start + i * step.
pub fn arange(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    inputs(spec, 0)?;
    let out = spec.outs[0].clone();
    one(spec, move |_, cells| {
        let (Some(&start), Some(&step)) = (cells.first(), cells.get(1)) else {
            bail!(Internal, "[arange] start and step are missing")
        };
        let mut b = CpuBuffer::new(out.nbytes())?;
        macro_rules! fill {
            ($t:ty, $f:expr) => {{
                let f = $f;
                pool::for_chunks(b.slice_mut::<$t>()?, CHUNK, |c, part| {
                    for (j, o) in part.iter_mut().enumerate() {
                        *o = f(c * CHUNK + j);
                    }
                })
            }};
        }
        let float = |i: usize| start.as_f64() + i as f64 * step.as_f64();
        let exact = start.as_int().zip(step.as_int());
        // Of floats for an integer dtype: computed as floats, then converted.
        if exact.is_none() && !out.dtype.is_inexact() {
            by_size!(out.dtype.size(), T => fill!(T, |i| {
                let bytes = scalar_bytes(Number::Float(float(i)), out.dtype);
                bytemuck::pod_read_unaligned::<T>(&bytes[..size_of::<T>()])
            }));
            return Ok(view::value(b, &out));
        }
        let (s, d) = exact.unwrap_or((0, 0));
        let int = |i: usize| s.wrapping_add((i as i64).wrapping_mul(d));
        match out.dtype {
            Dtype::Bool => fill!(u8, |i| (int(i) != 0) as u8),
            Dtype::U8 | Dtype::I8 => fill!(u8, |i| int(i) as u8),
            Dtype::U16 | Dtype::I16 => fill!(u16, |i| int(i) as u16),
            Dtype::U32 | Dtype::I32 => fill!(u32, |i| int(i) as u32),
            Dtype::U64 | Dtype::I64 => fill!(i64, int),
            Dtype::F16 => fill!(f16, |i| f16::from_f64(float(i))),
            Dtype::BF16 => fill!(bf16, |i| bf16::from_f64(float(i))),
            Dtype::F32 => fill!(f32, |i| float(i) as f32),
            Dtype::F64 => fill!(f64, float),
            Dtype::C64 => fill!(Complex, |i| Complex::new(float(i) as f32, 0.0)),
        }
        Ok(view::value(b, &out))
    })
}

crate::isa::multiversion! {
    /// Words for counters (i, i + shift) from i = first on, the first word of each in `a`.
    fn words(key: [u32; 2], first: u32, shift: u32, a: &mut [u32], b: &mut [u32]) {
        let _ = FMA;
        for (i, (a, b)) in a.iter_mut().zip(b).enumerate() {
            let c = first.wrapping_add(i as u32);
            let [x, y] = threefry(key, [c, c.wrapping_add(shift)]);
            *a = x;
            *b = y;
        }
    }
}

/// Threefry words: words i and h + o + i are the outputs for counter (i, h + o + i), with h the half
/// and o the odd one.
pub fn random_bits(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    if avals[0].dtype != Dtype::U32 || out.dtype != Dtype::U32 || avals[0].shape.elems() != 2 {
        bail!(Internal, "[random_bits] key {:?} for {:?}", avals[0], out);
    }
    one(spec, move |ins, _| {
        let key = dense::<u32>(&ins[0])?;
        let key = [key[0], key[1]];
        let mut b = CpuBuffer::new(out.nbytes())?;
        let data = b.slice_mut::<u32>()?;
        let (h, odd) = (data.len() / 2, data.len() % 2);
        let shift = (h + odd) as u32;
        let (first, second) = data.split_at_mut(h + odd);
        let mut pairs: Vec<_> = first[..h].chunks_mut(CHUNK).zip(second.chunks_mut(CHUNK)).collect();
        pool::for_chunks(&mut pairs, 1, |c, p| {
            p.iter_mut().for_each(|(a, b)| words(key, (c * CHUNK) as u32, shift, a, b));
        });
        drop(pairs);
        if odd == 1 {
            first[h] = threefry(key, [h as u32, 0])[0];
        }
        Ok(view::value(b, &out))
    })
}

//! Fourier transforms, by the `rustfft` crate.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::pool;
use crate::view::{self, dense};
use isopace_core::backend::{Kernel, Spec};
use isopace_core::{Complex, Dtype, Result, bail};
use rustfft::FftPlanner;
use std::sync::Arc;

/// Elements that are worth a thread.
const CHUNK: usize = 1 << 14;

/// Transforms along the last axis.
pub fn fft(spec: Spec<'_>, inverse: bool) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    if avals[0].dtype != Dtype::C64 || out.dtype != Dtype::C64 {
        bail!(Unsupported, "[fft] {} is not accepted; accepted: complex64", avals[0].dtype);
    }
    let n = out.shape.last().copied().unwrap_or(1).max(1);
    let mut planner = FftPlanner::new();
    let plan = if inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) };
    one(spec, move |ins, _| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        let data = b.slice_mut::<Complex>()?;
        data.copy_from_slice(&dense::<Complex>(&ins[0])?);
        pool::for_chunks(data, n * (CHUNK / n).max(1), |_, rows| plan.process(rows));
        Ok(view::value(b, &out))
    })
}

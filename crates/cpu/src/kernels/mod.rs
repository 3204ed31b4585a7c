//! Kernels: pure functions over slices, parallel over the pool.

pub mod attention;
#[cfg(target_arch = "x86_64")]
mod attention512;
pub mod gemv;
pub mod matmul;
pub mod nn;
pub(crate) mod panel;
pub mod quant;
pub mod reduce;

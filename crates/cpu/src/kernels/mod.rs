//! Kernels: pure functions over slices, parallel over the pool.

pub mod gemv;
pub mod quant;

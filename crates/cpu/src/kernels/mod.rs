//! Kernels: pure functions over slices, parallel over the pool.

pub mod attention;
pub mod gemv;
pub mod matmul;
pub mod quant;

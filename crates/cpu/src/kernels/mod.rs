//! Kernels: pure functions over slices, parallel over the pool.

pub mod attention;
pub(crate) mod codes;
pub mod gemv;
pub mod grouped;
pub mod matmul;
pub mod nn;
pub(crate) mod panel;
pub mod quant;
pub mod reduce;
pub(crate) mod vecmat;

//! The CPU backend: memory, threads, SIMD and kernels.

pub mod isa;
pub mod kernels;
pub mod pool;
pub mod simd;

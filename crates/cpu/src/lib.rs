//! The CPU backend: memory, threads, SIMD and kernels.

pub mod backend;
pub mod buffer;
pub mod custom;
mod elem;
pub mod isa;
pub mod kernels;
pub mod pool;
pub mod scratch;
pub mod simd;
mod steps;
mod view;
mod vm;

pub use backend::{CpuBackend, init};

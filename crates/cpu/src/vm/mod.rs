//! The block VM: fused elementwise regions as bytecode over blocks that stay in the L1 cache.
//!
//! A region is compiled once into a [`Program`](compile::Program) when its step is prepared. A run
//! binds the inputs, then executes the program for each block of 1,024 elements: every opcode is one
//! vector loop over the block. 16-bit floats are float32 lanes that are rounded after every opcode, so
//! a fused region equals its ops one by one, bit for bit.

mod cast;
mod chain;
mod compile;
mod exec;
mod float;
mod generic;
mod int;
pub mod ops;

pub use cast::scalar as scalar_bytes;
pub use exec::Fused;

/// Elements of a block.
pub const BLOCK: usize = 1024;

//! isopace: lazy arrays that run MLX-style programs on Linux, with a decode step that costs the host
//! the same at token 100,000 as at token 1.
//!
//! ```
//! use isopace::{Array, Result, Scalar, compile::compile};
//!
//! fn main() -> Result<()> {
//!     isopace::init();
//!     let step = compile(|(x, offset): (Array, Scalar)| x.multiply(2.0)?.add(&offset));
//!     let x = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
//!     for offset in 0..1000 {
//!         step.call((x.clone(), Scalar::from(offset)))?.eval()?;
//!     }
//!     assert_eq!(step.stats().traces, 2); // 0 as a constant, then one plan for every value
//!     Ok(())
//! }
//! ```
#![forbid(unsafe_code)]

pub mod io;

/// The `fast` functions: norms, rotary embeddings, attention.
pub mod fast {
    pub use isopace_core::api::nn::*;
}

pub use isopace_core::api::{self, *};
pub use isopace_core::{
    Array, Aval, BlockFormat, Cmp, Complex, Dtype, Element, Error, Layout, Number, NumberKind, Result,
    Scalar, ScalarOp, Shape, api::random, backend, bail, compile, err, kernel, runtime, tree,
};

use isopace_cpu as cpu;

/// Makes the CPU the device that arrays live on. Call it once at the start; more calls change nothing.
pub fn init() {
    cpu::init();
}

/// Sets how many threads kernels use. Results do not depend on it.
///
/// # Errors
/// `Argument` for 0 and for more than a pool can have.
pub fn set_threads(n: usize) -> Result<()> {
    let most = cpu::pool::MAX_THREADS;
    if !(1..=most).contains(&n) {
        bail!(Argument, "[threads] {n} threads; accepted: 1 to {most}");
    }
    cpu::pool::set_threads(n);
    Ok(())
}

/// How many threads kernels use.
pub fn threads() -> usize {
    cpu::pool::threads()
}

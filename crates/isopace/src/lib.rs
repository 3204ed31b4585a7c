//! isopace: the public Rust API.
#![forbid(unsafe_code)]

pub mod io;

pub use isopace_core::compile::{Compiled, compile};
pub use isopace_core::{
    Array, BlockFormat, Complex, Dtype, Element, Error, Result, Scalar, Shape, bail, err,
};

/// Sets the device that arrays live on. Call it once, before the first array is made; later calls
/// change nothing.
pub fn init() {
    // The CPU backend takes this place when it is wired in.
    isopace_core::reference::init();
}

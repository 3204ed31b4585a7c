//! isopace: the public Rust API.
#![forbid(unsafe_code)]

pub mod io;

pub use isopace_core::{BlockFormat, Complex, Dtype, Element, Error, Result, bail, err};

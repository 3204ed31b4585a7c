//! The core of isopace: lazy arrays, graphs, plans, `compile`, and the reference interpreter.
#![forbid(unsafe_code)]

pub mod dtype;
pub mod error;
pub mod kernel;
pub mod quant;

pub use dtype::{Complex, Dtype, Element};
pub use error::{Error, Result};
pub use quant::BlockFormat;

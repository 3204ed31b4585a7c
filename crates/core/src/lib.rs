//! The core of isopace: lazy arrays, graphs, plans, `compile`, and the reference interpreter.
#![forbid(unsafe_code)]

// F0
pub mod aval;
pub mod dtype;
pub mod error;
pub mod layout;
pub mod number;
pub mod quant;
pub mod scalar;
pub mod shape;
mod sync;
// F1
pub mod api;
pub mod array;
pub mod kernel;
pub mod op;
// F2
pub mod graph;
pub mod pass;
pub mod reference;
pub mod verify;
// F3
pub mod backend;
pub mod compile;
pub mod lower;
pub mod plan;
pub mod runtime;

pub use array::Array;
pub use aval::Aval;
pub use dtype::{Complex, Dtype, Element};
pub use error::{Error, Result};
pub use layout::Layout;
pub use number::{Cmp, Number, NumberKind, ScalarOp};
pub use quant::BlockFormat;
pub use scalar::Scalar;
pub use shape::Shape;

//! Vector loops.

pub mod convert;
pub mod lanes;
pub mod math;

//! Vector loops.

pub mod lanes;

//! isopace: the public Rust API.
#![forbid(unsafe_code)]

//! Language models on isopace.
#![forbid(unsafe_code)]

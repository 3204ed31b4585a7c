//! File formats: GGUF, safetensors, npy and npz.
//!
//! Readers take the bytes of a file and its name. They describe what is there and where, as byte
//! ranges into the file, and copy no tensor. Nothing a header says is trusted: a count is compared
//! with the bytes left before anything is allocated, and every range lies inside the file.

pub mod gguf;
mod mapped;
pub mod npy;
pub mod safetensors;
mod text;

pub use mapped::MappedFile;

pub(crate) use text::{commas, shown};

#[cfg(test)]
mod mutation_tests;

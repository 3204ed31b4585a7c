//! Language models on isopace.
#![forbid(unsafe_code)]

pub mod tokenizer;

#[cfg(test)]
mod testing;

//! Language models on isopace.
#![forbid(unsafe_code)]

pub mod chat;
pub mod hub;
pub mod sample;
pub mod tokenizer;

#[cfg(test)]
mod testing;

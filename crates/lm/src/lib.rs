//! Language models on isopace: files, tokenizers, chat templates, models, generation, and the
//! `isopace` command.
#![forbid(unsafe_code)]

pub mod chat;
// The command is the one part of this crate that talks to a terminal.
#[allow(clippy::print_stdout, clippy::print_stderr)]
pub mod cli;
pub mod engine;
pub mod hub;
pub mod kv;
pub mod models;
pub mod sample;
pub mod tokenizer;
pub mod weights;

#[cfg(test)]
mod testing;

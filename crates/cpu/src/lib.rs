//! The CPU backend.

pub mod custom;

//! Custom kernels on the CPU: the Metal dialect, built by the system's C++ compiler.
//!
//! [`Modules::get`] turns a [`Specialization`](isopace_core::kernel::Specialization) into a loaded
//! module, from memory, from disk or by compiling it once; [`run()`] runs it over a grid.
//! `docs/metal_dialect.md` says what of the dialect is supported.

mod compiler;
mod disk;
mod module;
mod run;

pub use compiler::Compiler;
pub use module::{Fetched, Module, Modules, ModulesOptions, ModulesStats, PRELUDE, unit_text};
pub use run::{Arg, INTERRUPT, Interrupt, MAX_THREADS_PER_THREADGROUP, Parallel, run};

//! Custom kernels, as text and data: what determines a kernel's source, and the cache of it.
//!
//! A [`KernelFunction`] is made once; [`KernelFunction::specialize`] gives the source, its hash
//! and the order of arguments for one combination of template values, dtypes and ways of passing.
//! Nothing here knows an array or a device: a backend turns the source into a module.

mod lexer;
mod signature;
mod source;
mod specialization;

pub use signature::{ATTRIBUTES, Attribute, Dialect, KernelFunction, KernelText, Mode};
pub use source::ArgSlot;
pub use specialization::{InputKind, KernelStats, Passing, Specialization, TemplateValue};

/// Inputs with fewer elements than this are passed in the constant address space.
pub const SMALL_INPUT_ELEMS: usize = 8;

/// Specializations a kernel function keeps when nothing else is asked for.
pub const DEFAULT_SPECIALIZATIONS: usize = 256;

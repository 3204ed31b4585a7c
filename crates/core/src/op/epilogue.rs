//! Epilogues: two ops that run as one step.

use super::Op;
use crate::Aval;

/// Two ops as one. The result of `first` is the first input of `second`, is read by nothing else, and need not
/// be whole in memory. The step's inputs and scalars are those of `first`, then the others of `second`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Epilogue {
    pub first: Op,
    /// How many inputs and scalars `first` has.
    pub ins: usize,
    pub cells: usize,
    /// What `first` makes.
    pub made: Aval,
    /// How `second` reads it: the same elements in row-major order.
    pub between: Aval,
    pub second: Op,
}

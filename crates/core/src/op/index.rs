//! Gather and scatter. Indices are data and never trusted: a negative one counts from the end once,
//! and what is then still outside is clamped when reading and dropped when writing.

use crate::shape::Dims;

/// How a write meets what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Combine {
    Set,
    Add,
    Mul,
    Min,
    Max,
}

/// Slices of `x` at indices. Inputs: x, then one index array for each of `axes` (all of one shape).
/// Result shape: the indices' shape, then `sizes` (1 at indexed axes is kept).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    pub axes: Dims<u8>,
    pub sizes: Dims<usize>,
}

/// Writes slices at indices. Inputs: x, index arrays as in [`Gather`], updates of shape
/// `indices.shape + slice sizes`; of equal indices the last one stays when setting.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scatter {
    pub axes: Dims<u8>,
    pub combine: Combine,
}

/// Turns an index that may count from the end into a position, or `None` when it is outside.
pub fn resolve(index: i64, dim: usize) -> Option<usize> {
    let i = if index < 0 { index + dim as i64 } else { index };
    (i >= 0 && i < dim as i64).then_some(i as usize)
}

/// As [`resolve`], clamped into range instead; `dim` must not be 0.
pub fn clamp(index: i64, dim: usize) -> usize {
    let i = if index < 0 { index.saturating_add(dim as i64) } else { index };
    i.clamp(0, dim as i64 - 1) as usize
}

/// The start of `size` elements in `dim`: counted from the end once if negative, then clamped so that
/// the whole slice lies inside; `size` must not exceed `dim`.
pub fn clamp_start(index: i64, dim: usize, size: usize) -> usize {
    let i = if index < 0 { index.saturating_add(dim as i64) } else { index };
    i.clamp(0, dim as i64 - size as i64) as usize
}

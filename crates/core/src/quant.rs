//! Block formats of quantized weights: how many bytes hold how many values.

use std::fmt;

/// A block format of the GGUF family. A row of a weight is a whole number of blocks; the bytes
/// of a block are little-endian and stand exactly as in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(non_camel_case_types)]
pub enum BlockFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2_K,
    Q3_K,
    Q4_K,
    Q5_K,
    Q6_K,
}

use BlockFormat::*;

impl BlockFormat {
    /// Every format.
    pub const ALL: [BlockFormat; 10] = [Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K];

    /// Values in one block: 32, or 256 for the K formats.
    pub const fn block_elems(self) -> usize {
        match self {
            Q4_0 | Q4_1 | Q5_0 | Q5_1 | Q8_0 => 32,
            Q2_K | Q3_K | Q4_K | Q5_K | Q6_K => 256,
        }
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Q4_0 => 18,
            Q4_1 => 20,
            Q5_0 => 22,
            Q5_1 => 24,
            Q8_0 => 34,
            Q2_K => 84,
            Q3_K => 110,
            Q4_K => 144,
            Q5_K => 176,
            Q6_K => 210,
        }
    }

    /// Bytes of a weight in the order that a device reads fastest: 16 rows of a block are one super-block,
    /// and a number of rows that is no multiple of 16 is filled up. At least the bytes in the file.
    /// `None` if a row is not a whole number of blocks or the size does not fit.
    pub const fn packed_bytes(self, rows: usize, cols: usize) -> Option<usize> {
        let super_block = match self {
            Q4_0 => 288,
            Q4_1 => 320,
            Q5_0 => 352,
            Q5_1 => 384,
            Q8_0 => 544,
            Q2_K => 1344,
            Q3_K => 1824,
            Q4_K => 2368,
            Q5_K => 2880,
            Q6_K => 3360,
        };
        if !cols.is_multiple_of(self.block_elems()) {
            return None;
        }
        match rows.div_ceil(16).checked_mul(cols / self.block_elems()) {
            Some(n) => n.checked_mul(super_block),
            None => None,
        }
    }

    /// Bytes of a row of `elems` values, or `None` if that is not a whole number of blocks.
    pub const fn row_bytes(self, elems: usize) -> Option<usize> {
        if elems.is_multiple_of(self.block_elems()) {
            Some(elems / self.block_elems() * self.block_bytes())
        } else {
            None
        }
    }
}

impl fmt::Display for BlockFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

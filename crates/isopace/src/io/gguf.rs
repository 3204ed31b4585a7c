//! GGUF files, versions 2 and 3: typed metadata, then tensors, then their bytes.
//!
//! ```
//! use isopace::io::gguf::{Gguf, NewTensor, TensorType, Value, write_gguf};
//! let metadata = vec![("general.architecture".to_string(), Value::from("llama"))];
//! let tensor = NewTensor { name: "w", shape: &[2, 3], ty: TensorType::F32, data: &[0; 24] };
//! let mut file = Vec::new();
//! write_gguf(&mut file, &metadata, &[tensor])?;
//!
//! let gguf = Gguf::parse(&file, "tiny.gguf")?;
//! assert_eq!(gguf.metadata.str("general.architecture")?, "llama");
//! let w = gguf.tensor("w")?;
//! assert_eq!((w.shape.as_slice(), w.range.len()), ([2, 3].as_slice(), 24));
//! # Ok::<(), isopace::Error>(())
//! ```

mod read;
mod value;
mod write;

pub use value::{Metadata, Value, Values};
pub use write::{NewTensor, write_gguf};

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

use isopace_core::{BlockFormat, Dtype, Result, err};

use super::shown;

/// How the values of a tensor stand in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum TensorType {
    F32,
    F16,
    BF16,
    F64,
    I8,
    I16,
    I32,
    I64,
    /// Quantized blocks along the last axis.
    Block(BlockFormat),
}

use TensorType::*;

/// Every supported type with its number in the file.
const CODES: [(TensorType, u32); 18] = [
    (F32, 0),
    (F16, 1),
    (Block(BlockFormat::Q4_0), 2),
    (Block(BlockFormat::Q4_1), 3),
    (Block(BlockFormat::Q5_0), 6),
    (Block(BlockFormat::Q5_1), 7),
    (Block(BlockFormat::Q8_0), 8),
    (Block(BlockFormat::Q2_K), 10),
    (Block(BlockFormat::Q3_K), 11),
    (Block(BlockFormat::Q4_K), 12),
    (Block(BlockFormat::Q5_K), 13),
    (Block(BlockFormat::Q6_K), 14),
    (I8, 24),
    (I16, 25),
    (I32, 26),
    (I64, 27),
    (F64, 28),
    (BF16, 30),
];

/// Names of types that exist in other programs' files, for the error that says so.
const UNSUPPORTED: [(u32, &str); 17] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (20, "IQ4_NL"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (23, "IQ4_XS"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
];

impl TensorType {
    /// The type with this number in the file, if it is supported.
    pub fn from_code(code: u32) -> Option<TensorType> {
        CODES.iter().find(|(_, c)| *c == code).map(|(t, _)| *t)
    }

    /// The number of this type in the file.
    pub fn code(self) -> u32 {
        CODES.iter().find(|(t, _)| *t == self).map_or(u32::MAX, |(_, c)| *c)
    }

    /// The dtype of plain values; `None` for blocks.
    pub fn dtype(self) -> Option<Dtype> {
        Some(match self {
            F32 => Dtype::F32,
            F16 => Dtype::F16,
            BF16 => Dtype::BF16,
            F64 => Dtype::F64,
            I8 => Dtype::I8,
            I16 => Dtype::I16,
            I32 => Dtype::I32,
            I64 => Dtype::I64,
            Block(_) => return None,
        })
    }

    /// Values and bytes of the smallest unit: one value, or one block.
    pub fn unit(self) -> (usize, usize) {
        match self {
            Block(b) => (b.block_elems(), b.block_bytes()),
            F32 | I32 => (1, 4),
            F16 | BF16 | I16 => (1, 2),
            F64 | I64 => (1, 8),
            I8 => (1, 1),
        }
    }

    /// Bytes of a tensor of this shape (row-major order). The error is the reason alone, without
    /// the tensor's name.
    pub fn byte_len(self, shape: &[usize]) -> std::result::Result<usize, String> {
        let (elems, bytes) = self.unit();
        let row = shape.last().copied().unwrap_or(1);
        if !row.is_multiple_of(elems) {
            return Err(format!("rows of {row} values are not a whole number of {self} blocks of {elems}"));
        }
        // Zeros are left out of the first product, so that strides computed from the shape cannot
        // overflow either.
        let all = shape.iter().filter(|d| **d != 0).try_fold(1usize, |n, d| n.checked_mul(*d));
        match all.filter(|n| *n <= isize::MAX as usize / bytes) {
            None => Err(format!("shape {shape:?} has more values than can be addressed")),
            Some(_) if shape.contains(&0) => Ok(0),
            Some(n) => Ok(n / elems * bytes),
        }
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Block(b) => write!(f, "{b}"),
            plain => write!(f, "{plain:?}"),
        }
    }
}

/// One tensor of a file: what it is and where its bytes are.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, such as `blk.0.attn_q.weight`.
    pub name: String,
    /// Its shape in row-major order, the reverse of the order in the file.
    pub shape: Vec<usize>,
    /// How its values stand in the file.
    pub ty: TensorType,
    /// Its bytes in the file.
    pub range: Range<usize>,
}

/// The contents of a GGUF file, without the tensors' bytes.
#[derive(Clone, Debug)]
pub struct Gguf {
    /// The name the file was parsed under; errors start with it.
    pub name: String,
    /// The format's version, 2 or 3.
    pub version: u32,
    /// The metadata in file order.
    pub metadata: Metadata,
    /// The tensors in file order.
    pub tensors: Vec<Tensor>,
    pub(super) by_name: HashMap<String, usize>,
}

impl Gguf {
    /// Reads the header of a file whose whole contents are `bytes`; `name` stands in errors.
    ///
    /// # Errors
    /// `Format` for anything that does not follow the format or points outside the file,
    /// `Unsupported` for a version or tensor type that isopace does not read.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Gguf> {
        read::parse(bytes, name)
    }

    /// The tensor of this name.
    ///
    /// # Errors
    /// `Format` when the file has no such tensor.
    pub fn tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(name)
            .ok_or_else(|| err!(Format, "[gguf] {}: there is no tensor {}", shown(&self.name), shown(name)))
    }

    /// The tensor of this name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.by_name.get(name).map(|i| &self.tensors[*i])
    }
}

#[cfg(test)]
mod tests;

//! Quantized weights: GGUF's block formats and MLX's grouped formats.

use crate::BlockFormat;

/// MLX's ways to quantize in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QuantMode {
    Affine,
    MxFp4,
    MxFp8,
    NvFp4,
}

impl QuantMode {
    pub fn name(self) -> &'static str {
        match self {
            QuantMode::Affine => "affine",
            QuantMode::MxFp4 => "mxfp4",
            QuantMode::MxFp8 => "mxfp8",
            QuantMode::NvFp4 => "nvfp4",
        }
    }
}

/// How the bytes of a weight of `cols` values a row stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightFormat {
    /// One uint8 array of shape (rows, bytes of a row), as in the file.
    Block { format: BlockFormat, cols: u32 },
    /// The device's own order of a block format's bytes, made by `PackWeight`.
    Packed { format: BlockFormat, rows: u32, cols: u32 },
    /// Codes (uint32), scales and, for affine, biases.
    Grouped { group: u16, bits: u8, mode: QuantMode },
}

impl WeightFormat {
    /// How many arrays hold one weight.
    pub fn parts(self) -> usize {
        match self {
            WeightFormat::Block { .. } | WeightFormat::Packed { .. } => 1,
            WeightFormat::Grouped { mode: QuantMode::Affine, .. } => 3,
            WeightFormat::Grouped { .. } => 2,
        }
    }
}

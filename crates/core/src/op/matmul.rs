//! Products with quantized or indexed matrices.

use super::quant::WeightFormat;

/// Inputs: x, then the weight's parts. Result: x @ w^T when `transpose`, else x @ w.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QuantMatmul {
    pub format: WeightFormat,
    pub transpose: bool,
    /// Activations may be rounded to 8 bits, a scale for every 32.
    pub int8: bool,
}

/// Inputs: x, then w or its parts (when quantized), then index arrays: left if `lhs`, right if `rhs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GatherMatmul {
    pub quant: Option<QuantMatmul>,
    pub lhs: bool,
    pub rhs: bool,
}

//! Convolution.

use crate::shape::Dims;

/// Inputs: x (N, spatial..., C), w (O, kernel..., C / groups). Cross-correlation, as is usual.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    pub stride: Dims<usize>,
    pub pad_low: Dims<usize>,
    pub pad_high: Dims<usize>,
    pub dilation: Dims<usize>,
    pub input_dilation: Dims<usize>,
    pub groups: usize,
    pub flip: bool,
}

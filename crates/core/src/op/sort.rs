//! Order of elements: ascending, NaN last, complex numbers lexicographic; stable.

use crate::Complex;
use std::cmp::Ordering;

/// Order of floats with NaN last and -0.0 equal to 0.0.
pub fn float_order(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Lexicographic order of complex numbers with NaN last.
pub fn complex_order(a: Complex, b: Complex) -> Ordering {
    float_order(a.re as f64, b.re as f64).then_with(|| float_order(a.im as f64, b.im as f64))
}

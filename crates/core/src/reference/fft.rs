//! Fourier transforms.

use super::tensor::{C64, Data, Tensor};
use crate::aval::Aval;
use crate::{Result, bail};

/// The sums along the last axis as they are defined.
pub(super) fn fft(x: &Tensor, inverse: bool, out: &Aval) -> Result<Tensor> {
    let Data::Complex(data) = x.as_kind_of(out.dtype) else {
        bail!(Dtype, "[fft] {} is not accepted; accepted: complex64", out.dtype);
    };
    let n = x.shape.last().copied().unwrap_or(1).max(1);
    let turn = if inverse { std::f64::consts::TAU } else { -std::f64::consts::TAU };
    let roots: Vec<C64> = (0..n).map(|j| C64::from_polar(1.0, turn * j as f64 / n as f64)).collect();
    let sum = |row: &[C64], k: usize| row.iter().enumerate().map(|(j, v)| v * roots[j * k % n]).sum::<C64>();
    let data =
        data.chunks(n).flat_map(|row| (0..n).map(move |k| (row, k))).map(|(row, k)| sum(row, k)).collect();
    Ok(Tensor::new(out, Data::Complex(data)))
}

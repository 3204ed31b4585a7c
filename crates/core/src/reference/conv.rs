//! Convolution in any number of dimensions.

use super::tensor::{Data, Tensor};
use crate::aval::Aval;
use crate::op::Conv;
use crate::{Dtype, Result, bail};
use std::ops::{Add, Mul};

/// Cross-correlation of x (N, spatial..., C) with w (O, kernel..., C / groups).
pub(super) fn conv(c: &Conv, x: &Tensor, w: &Tensor, out: &Aval) -> Result<Tensor> {
    let rank = c.stride.len();
    if x.shape.len() != rank + 2 || w.shape.len() != rank + 2 || out.shape.len() != rank + 2 {
        bail!(Shape, "[conv] {:?} with {:?} in {rank} dimensions", x.shape, w.shape);
    }
    let data = match (x.as_kind_of(out.dtype), w.as_kind_of(out.dtype)) {
        (Data::Float(a), Data::Float(b)) => {
            Data::Float(correlate(c, (&a, &x.shape), (&b, &w.shape), &out.shape))
        }
        (Data::Complex(a), Data::Complex(b)) => {
            Data::Complex(correlate(c, (&a, &x.shape), (&b, &w.shape), &out.shape))
        }
        (Data::Int(a), Data::Int(b)) if out.dtype != Dtype::Bool => {
            Data::Int(correlate(c, (&a, &x.shape), (&b, &w.shape), &out.shape))
        }
        _ => bail!(Dtype, "[conv] {} is not accepted", out.dtype),
    };
    Ok(Tensor::new(out, data))
}

fn correlate<T>(c: &Conv, x: (&[T], &[usize]), w: (&[T], &[usize]), out: &[usize]) -> Vec<T>
where
    T: Copy + Default + Add<Output = T> + Mul<Output = T>,
{
    let ((x, x_shape), (w, w_shape)) = (x, w);
    let rank = c.stride.len();
    let (channels, made) = (x_shape[rank + 1], w_shape[0]);
    let (in_group, out_group) = (w_shape[rank + 1], (made / c.groups).max(1));
    let kernel = &w_shape[1..=rank];
    let taps: usize = kernel.iter().product();
    let mut y = Vec::with_capacity(out.iter().product());
    for number in 0..out[..=rank].iter().product::<usize>() {
        // Where the window of this output position reads, tap by tap.
        let (n, at) = position(number, &out[1..=rank]);
        let reads: Vec<Option<usize>> = (0..taps)
            .map(|tap| {
                let (_, k) = position(tap, kernel);
                (0..rank).try_fold(n, |offset, d| {
                    let wide = (at[d] * c.stride[d] + k[d] * c.dilation[d]).checked_sub(c.pad_low[d])?;
                    let place = wide / c.input_dilation[d];
                    let there = wide % c.input_dilation[d] == 0 && place < x_shape[d + 1];
                    there.then_some(offset * x_shape[d + 1] + place)
                })
            })
            .collect();
        for o in 0..made {
            let first = o / out_group * in_group;
            let mut sum = T::default();
            for (tap, read) in reads.iter().enumerate() {
                let Some(read) = read else { continue };
                let tap = if c.flip { taps - 1 - tap } else { tap };
                for i in 0..in_group {
                    sum = sum + x[read * channels + first + i] * w[(o * taps + tap) * in_group + i];
                }
            }
            y.push(sum);
        }
    }
    y
}

/// Splits a row-major number over the leading rest and these extents.
fn position(mut number: usize, shape: &[usize]) -> (usize, Vec<usize>) {
    let mut at = vec![0; shape.len()];
    for (a, &d) in at.iter_mut().zip(shape).rev() {
        *a = number % d;
        number /= d;
    }
    (number, at)
}

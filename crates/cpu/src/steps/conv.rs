//! Convolution: patches side by side, then one product for each group.

use super::{inputs, matmul, one};
use crate::buffer::CpuBuffer;
use crate::kernels::matmul::{Mat, matmul as kernel};
use crate::view::{self, dense, dense_f32};
use isopace_core::backend::{Kernel, Spec};
use isopace_core::op::Conv;
use isopace_core::{Dtype, Result, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// Elements of the patch matrix made at a time, about.
const PATCHES: usize = 1 << 20;

/// N-dimensional convolution over channels-last arrays.
pub fn conv(spec: Spec<'_>, c: &Conv) -> Result<Arc<dyn Kernel>> {
    let (avals, out, c) = (inputs(spec, 2)?, spec.outs[0].clone(), c.clone());
    let (x, w) = (&avals[0].shape, &avals[1].shape);
    let rank = c.stride.len();
    let lists = [&c.pad_low, &c.pad_high, &c.dilation, &c.input_dilation];
    if x.len() != rank + 2 || w.len() != rank + 2 || out.shape.len() != rank + 2 {
        bail!(Internal, "[conv] {x:?} with {w:?} over {rank} axes");
    }
    let groups = c.groups.max(1);
    if lists.iter().any(|l| l.len() != rank)
        || !w[0].is_multiple_of(groups)
        || w[rank + 1] * groups != x[rank + 1]
        || !out.dtype.is_float()
    {
        bail!(Internal, "[conv] {x:?} with {w:?} in {groups} groups gives {out:?}");
    }
    one(spec, move |ins, _| {
        if out.dtype == Dtype::F64 {
            let (x, w) = (dense::<f64>(&ins[0])?, dense::<f64>(&ins[1])?);
            let mut b = CpuBuffer::new(out.nbytes())?;
            let shapes = [&avals[0].shape[..], &avals[1].shape[..], &out.shape[..]];
            run(&c, shapes, &x, &w, b.slice_mut::<f64>()?, 0.0, |a, b, m, k, n, o| {
                kernel(Mat::dense(a, m, k)?, Mat::dense(b, n, k)?.transposed(), o)
            })?;
            return Ok(view::value(b, &out));
        }
        let (x, w) = (dense_f32(&ins[0], avals[0].dtype)?, dense_f32(&ins[1], avals[1].dtype)?);
        let shapes = [&avals[0].shape[..], &avals[1].shape[..], &out.shape[..]];
        let b = view::write_f32(&out, |o| run(&c, shapes, &x, &w, o, 0.0, matmul::dense_product))?;
        Ok(view::value(b, &out))
    })
}

/// For strips of output positions and each group: patches (m, k), weights (n, k), result (m, n).
fn run<T: Copy>(
    c: &Conv,
    [xs, ws, os]: [&[usize]; 3],
    x: &[T],
    w: &[T],
    out: &mut [T],
    zero: T,
    product: impl Fn(&[T], &[T], usize, usize, usize, &mut [T]) -> Result<()>,
) -> Result<()> {
    let rank = c.stride.len();
    let groups = c.groups.max(1);
    let (channels, outs) = (xs[rank + 1], ws[0]);
    let (cg, og) = (channels / groups, outs / groups);
    let taps: usize = ws[1..=rank].iter().product();
    let k = taps * cg;
    let places: usize = os[..=rank].iter().product();
    if out.is_empty() {
        return Ok(());
    }
    if k == 0 {
        out.fill(zero);
        return Ok(());
    }
    let strip = (PATCHES / k).clamp(1, places);
    let mut patches = vec![zero; strip * k];
    let mut result = vec![zero; strip * og];
    for p0 in (0..places).step_by(strip) {
        let m = strip.min(places - p0);
        for g in 0..groups {
            for (i, patch) in patches[..m * k].chunks_mut(k).enumerate() {
                fill(c, xs, ws, os, x, zero, p0 + i, g * cg, cg, patch);
            }
            let weights = &w[g * og * k..][..og * k];
            product(&patches[..m * k], weights, m, k, og, &mut result[..m * og])?;
            for (i, r) in result[..m * og].chunks(og).enumerate() {
                out[(p0 + i) * outs + g * og..][..og].copy_from_slice(r);
            }
        }
    }
    Ok(())
}

/// The inputs that one output position sees, in the weight's order.
fn fill<T: Copy>(
    c: &Conv,
    xs: &[usize],
    ws: &[usize],
    os: &[usize],
    x: &[T],
    zero: T,
    place: usize,
    c0: usize,
    cg: usize,
    patch: &mut [T],
) {
    let rank = c.stride.len();
    let mut at: SmallVec<[usize; 4]> = smallvec::smallvec![0; rank];
    let mut rest = place;
    for i in (0..rank).rev() {
        at[i] = rest % os[i + 1];
        rest /= os[i + 1];
    }
    let batch = rest;
    for (tap, o) in patch.chunks_mut(cg).enumerate() {
        let mut t = tap;
        let mut index = Some(0usize);
        let mut step = 1;
        for i in (0..rank).rev() {
            let n = ws[i + 1];
            let j = if c.flip { n - 1 - t % n } else { t % n };
            t /= n;
            let pos = (at[i] * c.stride[i] + j * c.dilation[i]).checked_sub(c.pad_low[i]);
            let dil = c.input_dilation[i].max(1);
            let inside = pos.filter(|p| p % dil == 0).map(|p| p / dil).filter(|&p| p < xs[i + 1]);
            index = index.zip(inside).map(|(sum, p)| sum + p * step);
            step *= xs[i + 1];
        }
        match index {
            Some(sum) => o.copy_from_slice(&x[(batch * step + sum) * xs[rank + 1] + c0..][..cg]),
            None => o.fill(zero),
        }
    }
}

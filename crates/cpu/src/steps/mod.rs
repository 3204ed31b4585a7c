//! Kernels for steps: from a [`Spec`] to something that runs. One file for each family of ops.

mod conv;
mod copy;
mod custom;
mod epilogue;
mod fft;
mod index;
mod linalg;
mod matmul;
mod nn;
mod quant;
mod random;
mod reduce;
mod rope;
mod scan;
mod sdpa;
mod sort;

use crate::vm::Fused;
use isopace_core::backend::{Input, Kernel, Spec, Value};
use isopace_core::op::Op;
use isopace_core::{Aval, Number, Result, bail};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// What a step gives back, one value for each output.
pub(crate) type Outs = SmallVec<[Value; 1]>;

/// A kernel from a function that holds what it knows of its step.
struct Step<F> {
    run: F,
    name: String,
}

impl<F> fmt::Debug for Step<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Step({})", self.name)
    }
}

impl<F: Fn(&mut [Input<'_>], &[Number], &mut Vec<Value>) -> Result<()> + Send + Sync> Kernel for Step<F> {
    fn run(&self, ins: &mut [Input<'_>], cells: &[Number], outs: &mut Vec<Value>) -> Result<()> {
        (self.run)(ins, cells, outs)
    }
}

/// A kernel whose one output comes from `run`.
pub(crate) fn one(
    spec: Spec<'_>,
    run: impl Fn(&mut [Input<'_>], &[Number]) -> Result<Value> + Send + Sync + 'static,
) -> Result<Arc<dyn Kernel>> {
    step(spec, move |ins, cells, outs| {
        outs.push(run(ins, cells)?);
        Ok(())
    })
}

/// A kernel with any number of outputs.
pub(crate) fn many(
    spec: Spec<'_>,
    run: impl Fn(&mut [Input<'_>], &[Number]) -> Result<Outs> + Send + Sync + 'static,
) -> Result<Arc<dyn Kernel>> {
    step(spec, move |ins, cells, outs| {
        outs.extend(run(ins, cells)?);
        Ok(())
    })
}

fn step(
    spec: Spec<'_>,
    run: impl Fn(&mut [Input<'_>], &[Number], &mut Vec<Value>) -> Result<()> + Send + Sync + 'static,
) -> Result<Arc<dyn Kernel>> {
    Ok(Arc::new(Step { name: spec.op.name().into(), run }))
}

/// A scalar of the step as a float.
pub(crate) fn float(cells: &[Number], i: usize) -> Result<f64> {
    match cells.get(i) {
        Some(n) => Ok(n.as_f64()),
        None => bail!(Internal, "[cpu] cell {i} is missing"),
    }
}

/// Input avals, checked to be at least `n`.
pub(crate) fn inputs(spec: Spec<'_>, n: usize) -> Result<SmallVec<[Aval; 4]>> {
    if spec.ins.len() < n || spec.outs.is_empty() {
        bail!(Internal, "[{}] {} inputs; {n} are needed", spec.op.name(), spec.ins.len());
    }
    Ok(spec.ins.into())
}

/// Prepares a step.
///
/// # Errors
/// `Unsupported` naming the op and what it lacks.
pub fn kernel(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    match spec.op {
        Op::Fused(region) => Ok(Arc::new(Fused::new(region, spec)?)),
        Op::Epilogue(e) => epilogue::epilogue(spec, e),
        Op::Elementwise(_) | Op::Cast | Op::Full | Op::Param(_) | Op::Call(_) => {
            bail!(Internal, "[{}] is lowered before it reaches a device", spec.op.name())
        }
        Op::Reshape
        | Op::Transpose(_)
        | Op::Broadcast
        | Op::Slice(_)
        | Op::SliceValid(_)
        | Op::Bitcast
        | Op::AsStrided(..)
        | Op::Contiguous => copy::contiguous(spec),
        Op::DynamicSlice(axes) => copy::dynamic_slice(spec, axes),
        Op::SliceUpdate(steps, combine) => copy::slice_update(spec, steps, *combine),
        Op::DynamicSliceUpdate(axes) => copy::dynamic_slice_update(spec, axes),
        Op::Concat(axis) => copy::concat(spec, *axis as usize),
        Op::Pad(low) => copy::pad(spec, low),
        Op::Gather(g) => index::gather(spec, g),
        Op::Scatter(s) => index::scatter(spec, s),
        Op::TakeAlong(axis) => index::take_along(spec, *axis as usize),
        Op::ScatterAlong(axis, combine) => index::scatter_along(spec, *axis as usize, *combine),
        Op::MaskedScatter => index::masked_scatter(spec),
        Op::Reduce(kind, axes) => reduce::reduce(spec, *kind, axes),
        Op::ArgReduce(kind, axis) => reduce::arg_reduce(spec, *kind, *axis as usize),
        Op::Scan(kind, axis, reverse, inclusive) => {
            scan::scan(spec, *kind, *axis as usize, *reverse, *inclusive)
        }
        Op::Sort(axis) => sort::sort(spec, *axis as usize),
        Op::ArgSort(axis) => sort::arg_sort(spec, *axis as usize),
        Op::SearchSorted(right) => sort::search_sorted(spec, *right),
        Op::Matmul => matmul::matmul(spec),
        Op::QuantMatmul(q) => quant::quant_matmul(spec, *q),
        Op::GatherMatmul(g) => matmul::gather_matmul(spec, *g),
        Op::Quantize(group, bits, mode) => quant::quantize(spec, *group as usize, *bits as usize, *mode),
        Op::Dequantize(format) => quant::dequantize(spec, *format),
        Op::PackWeight(format) => quant::pack_weight(spec, *format),
        Op::QuantTake(format) => quant::quant_take(spec, *format),
        Op::ToFp8 => quant::to_fp8_step(spec),
        Op::FromFp8 => quant::from_fp8_step(spec),
        Op::Softmax => nn::softmax(spec),
        Op::RmsNorm => nn::rms_norm(spec),
        Op::LayerNorm => nn::layer_norm(spec),
        Op::Rope(r) => rope::rope(spec, *r),
        Op::Sdpa(s) => sdpa::sdpa(spec, *s),
        Op::Arange => random::arange(spec),
        Op::RandomBits => random::random_bits(spec),
        Op::Conv(c) => conv::conv(spec, c),
        Op::Inverse => linalg::inverse(spec),
        Op::Eigh => linalg::eigh(spec),
        Op::Fft { inverse } => fft::fft(spec, *inverse),
        Op::Custom(c) => custom::custom(spec, c),
    }
}

//! The reference interpreter: what every op means, written for clarity. Other backends are tested
//! against it. A step reads its inputs, through whatever layout they have, into row-major
//! tensors of wide numbers, computes, and rounds or wraps once to the dtype of the result.

mod blocks;
mod codes;
mod conv;
mod elementwise;
mod fft;
mod index;
pub mod linalg;
mod matmul;
mod memory;
mod nn;
mod quant;
mod random;
mod reduce;
mod scan;
mod sort;
mod tensor;

use crate::aval::Aval;
use crate::backend::{Backend, Buffer, Input, Kernel, Memory, MemorySetting, Spec, Value};
use crate::number::Number;
use crate::op::Op;
use crate::{Dtype, Result, bail, runtime};
use memory::{Bytes, Counters};
use std::sync::Arc;
use tensor::Tensor;

/// Makes the reference interpreter the device of this process, unless there is one.
pub fn init() {
    runtime::init(backend());
}

/// The reference interpreter as a device of its own, to be asked beside another one.
pub fn backend() -> Arc<dyn Backend> {
    Arc::new(Reference { counters: Arc::default() })
}

#[derive(Debug)]
struct Reference {
    counters: Arc<Counters>,
}

/// One step: the op with the avals of its results.
#[derive(Debug)]
struct Step {
    op: Op,
    ins: Vec<Aval>,
    outs: Vec<Aval>,
    counters: Arc<Counters>,
}

impl Backend for Reference {
    fn name(&self) -> &'static str {
        "reference"
    }

    fn kernel(&self, spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
        if let Op::Custom(c) = spec.op {
            bail!(Unsupported, "[{}] the reference interpreter does not run custom kernels", c.name());
        }
        Ok(Arc::new(Step {
            op: spec.op.clone(),
            ins: spec.ins.to_vec(),
            outs: spec.outs.to_vec(),
            counters: self.counters.clone(),
        }))
    }

    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(Bytes::new(bytes.to_vec(), &self.counters)?))
    }

    fn lend(&self, value: &Value, dtype: Dtype, to: &mut dyn FnMut(&[u8])) -> Result<()> {
        value.check(dtype)?;
        let bytes = memory::bytes(&*value.buffer)?;
        let size = dtype.size();
        let mut out = Vec::with_capacity(value.layout.elems() * size);
        value.layout.offsets().for_each(|at| out.extend_from_slice(&bytes[at * size..][..size]));
        to(&out);
        Ok(())
    }

    fn memory(&self) -> Memory {
        self.counters.memory()
    }

    fn set_memory(&self, setting: MemorySetting) -> usize {
        self.counters.set(setting)
    }
}

impl Kernel for Step {
    fn run(&self, ins: &mut [Input<'_>], cells: &[Number], outs: &mut Vec<Value>) -> Result<()> {
        let read = ins
            .iter()
            .zip(&self.ins)
            .map(|(value, aval)| {
                value.check(aval.dtype)?;
                Tensor::read(memory::bytes(&**value.buffer)?, &value.layout, aval.dtype)
            })
            .collect::<Result<Vec<_>>>()?;
        let made = compute(&self.op, &read, cells, &self.outs)?;
        if made.len() != self.outs.len() {
            bail!(Internal, "[{}] made {} results of {}", self.op.name(), made.len(), self.outs.len());
        }
        for (tensor, aval) in made.into_iter().zip(&self.outs) {
            if tensor.elems() != aval.shape.elems() || tensor.dtype != aval.dtype {
                bail!(Internal, "[{}] made {tensor:?} for {aval:?}", self.op.name());
            }
            let buffer = Arc::new(Bytes::new(tensor.to_bytes(), &self.counters)?);
            outs.push(Value::contiguous(buffer, aval));
        }
        Ok(())
    }
}

/// What an op makes of its inputs and scalars.
fn compute(op: &Op, ins: &[Tensor], cells: &[Number], outs: &[Aval]) -> Result<Vec<Tensor>> {
    let out = &outs[0];
    Ok(vec![match op {
        Op::Fused(region) => return elementwise::region(region, ins, cells, outs),
        Op::Epilogue(e) => {
            let (first, rest) = ins.split_at(e.ins);
            let made = compute(&e.first, first, &cells[..e.cells], std::slice::from_ref(&e.made))?;
            let mut joined: Vec<Tensor> =
                made.into_iter().map(|t| Tensor { shape: e.between.shape.clone(), ..t }).collect();
            joined.extend_from_slice(rest);
            return compute(&e.second, &joined, &cells[e.cells..], outs);
        }
        Op::Elementwise(row) => elementwise::row(*row, ins, out)?,
        Op::Cast => ins[0].cast(out.dtype),
        Op::Full => elementwise::full(cells[0], out),
        Op::Arange => elementwise::arange(cells[0], cells[1], out),
        Op::Contiguous => ins[0].clone(),
        Op::Reduce(kind, axes) => reduce::reduce(*kind, axes, &ins[0], out)?,
        Op::ArgReduce(kind, axis) => reduce::arg_reduce(*kind, *axis as usize, &ins[0], out)?,
        Op::DynamicSlice(axes) => index::dynamic_slice(axes, &ins[0], &ins[1], out)?,
        Op::SliceUpdate(steps, combine) => {
            index::slice_update(steps, *combine, &ins[0], &ins[1], cells, out)?
        }
        Op::DynamicSliceUpdate(axes) => index::dynamic_slice_update(axes, ins, out)?,
        Op::Gather(g) => index::gather(g, ins, out)?,
        Op::Scatter(s) => index::scatter(s, ins, out)?,
        Op::TakeAlong(axis) => index::take_along(*axis as usize, &ins[0], &ins[1], out)?,
        Op::ScatterAlong(axis, combine) => index::scatter_along(*axis as usize, *combine, ins, out)?,
        Op::MaskedScatter => index::masked_scatter(&ins[0], &ins[1], &ins[2], out)?,
        Op::Concat(axis) => index::concat(*axis as usize, ins, out)?,
        Op::Pad(low) => index::pad(low, &ins[0], &ins[1], out)?,
        Op::Scan(kind, axis, reverse, inclusive) => {
            scan::scan(*kind, *axis as usize, *reverse, *inclusive, &ins[0], out)?
        }
        Op::Sort(axis) => sort::sort(*axis as usize, &ins[0]),
        Op::ArgSort(axis) => sort::arg_sort(*axis as usize, &ins[0], out),
        Op::SearchSorted(right) => sort::search_sorted(*right, &ins[0], &ins[1], out)?,
        Op::Matmul => matmul::matmul(&ins[0], &ins[1], out)?,
        Op::QuantMatmul(q) => quant::quant_matmul(q, ins, out)?,
        Op::GatherMatmul(g) => quant::gather_matmul(g, ins, out)?,
        Op::Quantize(group, bits, mode) => return quant::quantize(*group, *bits, *mode, &ins[0], outs),
        Op::Dequantize(format) => quant::dequantize(*format, ins, out)?,
        // Packed weights stand here as in the file.
        Op::PackWeight(_) => quant::pack_weight(&ins[0], out)?,
        Op::QuantTake(format) => quant::take(*format, ins, out)?,
        Op::ToFp8 => quant::encode_fp8(&ins[0], out),
        Op::FromFp8 => quant::decode_fp8(&ins[0], out)?,
        Op::Softmax => nn::softmax(&ins[0], out)?,
        Op::RmsNorm => nn::rms_norm(ins, cells[0], out)?,
        Op::LayerNorm => nn::layer_norm(ins, cells[0], out)?,
        Op::Rope(r) => nn::rope(r, ins, cells, out)?,
        Op::Sdpa(s) => nn::sdpa(s, ins, cells, out)?,
        Op::RandomBits => random::bits(&ins[0], out)?,
        Op::Conv(c) => conv::conv(c, &ins[0], &ins[1], out)?,
        Op::Inverse => linalg::inverse(&ins[0], out)?,
        Op::Fft { inverse } => fft::fft(&ins[0], *inverse, out)?,
        Op::Eigh => return linalg::eigh(&ins[0], outs),
        Op::Param(_)
        | Op::Reshape
        | Op::Transpose(_)
        | Op::Broadcast
        | Op::Slice(_)
        | Op::SliceValid(_)
        | Op::Bitcast
        | Op::AsStrided(..)
        | Op::Custom(_)
        | Op::Call(_) => bail!(Internal, "[{}] is not a step of a device", op.name()),
    }])
}

#[cfg(test)]
mod tests;

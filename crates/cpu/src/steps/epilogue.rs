//! Two ops as one step.

use super::{inputs, kernel, one, reduce};
use crate::view;
use crate::vm::Fused;
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::op::{Epilogue, Op};
use isopace_core::{Aval, Layout, Result, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// Prepares both. A reduction takes what a region computes block by block; else the second kernel runs
/// right after the first, over a result that is still in the cache, and in its memory where it can.
pub fn epilogue(spec: Spec<'_>, e: &Epilogue) -> Result<Arc<dyn Kernel>> {
    let avals = inputs(spec, e.ins)?;
    let (firsts, others) = avals.split_at(e.ins);
    let first = Spec { op: &e.first, ins: firsts, outs: std::slice::from_ref(&e.made) };
    let seconds: SmallVec<[Aval; 4]> = std::iter::once(&e.between).chain(others).cloned().collect();
    let second = Spec { op: &e.second, ins: &seconds, outs: spec.outs };
    if let (Op::Fused(region), Op::Reduce(kind, axes)) = (&e.first, &e.second)
        && let Some(kernel) = reduce::of_region(second, *kind, axes, Fused::new(region, first)?)
    {
        return kernel;
    }
    let (first, second, ins_of_first, cells_of_first) = (kernel(first)?, kernel(second)?, e.ins, e.cells);
    let between = (e.made.shape != e.between.shape).then(|| Layout::contiguous(e.between.shape.clone()));
    one(spec, move |ins, cells| {
        let (firsts, others) = ins.split_at_mut(ins_of_first);
        let mut made = Vec::with_capacity(1);
        first.run(firsts, &cells[..cells_of_first], &mut made)?;
        let Some(mut value) = made.pop() else { bail!(Internal, "[epilogue] the first op made nothing") };
        if let Some(layout) = &between {
            value.layout = layout.clone();
        }
        let mut seconds: SmallVec<[Input<'_>; 4]> = SmallVec::new();
        seconds.push(value.into());
        seconds.extend(others.iter_mut().map(view::take));
        second.run(&mut seconds, &cells[cells_of_first..], &mut made)?;
        match made.pop() {
            Some(value) => Ok(value),
            None => bail!(Internal, "[epilogue] the second op made nothing"),
        }
    })
}

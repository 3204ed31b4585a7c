//! Lowering: from a graph to a plan.

use crate::backend::{Backend, Spec, Value};
use crate::error::Result;
use crate::graph::{Graph, Ref};
use crate::op::{Op, Region, RegionNode};
use crate::pass;
use crate::plan::{Plan, Read, Step, Work};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Runs the passes and turns the graph into steps. The last `constants.len()` inputs of the graph
/// are held by the plan itself.
///
/// # Errors
/// `Unsupported` for an op that the device lacks.
pub fn lower(graph: Graph, constants: Vec<Value>, backend: &dyn Backend, name: &str) -> Result<Plan> {
    let graph = pass::run(graph)?;
    let mut slots = Slots::default();
    let n_inputs = graph.inputs.len();
    let mut last_use: Vec<SmallVec<[usize; 1]>> =
        graph.nodes.iter().map(|n| smallvec![usize::MAX; n.avals.len()]).collect();
    let mut input_last = vec![usize::MAX; n_inputs];
    for (i, n) in graph.nodes.iter().enumerate() {
        for &r in &n.ins {
            match r {
                Ref::Input(k) => input_last[k as usize] = i,
                Ref::Node(k, o) => last_use[k as usize][o as usize] = i,
            }
        }
    }
    let end = graph.nodes.len();
    for &r in &graph.outputs {
        match r {
            Ref::Input(k) => input_last[k as usize] = end,
            Ref::Node(k, o) => last_use[k as usize][o as usize] = end,
        }
    }
    slots.next = n_inputs as u32;
    let mut at: Vec<SmallVec<[u32; 1]>> = Vec::with_capacity(end);
    let mut steps = Vec::with_capacity(end);
    let read = |at: &[SmallVec<[u32; 1]>], r: Ref, i: usize, later: bool| {
        let (slot, last) = match r {
            Ref::Input(k) => (k, input_last[k as usize]),
            Ref::Node(k, o) => (at[k as usize][o as usize], last_use[k as usize][o as usize]),
        };
        Read { slot, last: last == i && !later }
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        let op = as_region(&n.op, n, &graph);
        let ins: SmallVec<[Read; 3]> =
            (0..n.ins.len()).map(|k| read(&at, n.ins[k], i, n.ins[k + 1..].contains(&n.ins[k]))).collect();
        let in_avals: SmallVec<[_; 3]> = n.ins.iter().map(|&r| graph.aval(r).clone()).collect();
        let work = if op.is_view() {
            let spec = Spec { op: &Op::Contiguous, ins: &in_avals[..1], outs: &in_avals[..1] };
            Work::View { copy: backend.kernel(spec)? }
        } else if let Op::Call(c) = &op {
            Work::Call(c.0.clone())
        } else {
            Work::Kernel(backend.kernel(Spec { op: &op, ins: &in_avals, outs: &n.avals })?)
        };
        // Outputs get slots before the inputs' are given back: a step never writes a slot it reads.
        let outs: SmallVec<[u32; 1]> = n.avals.iter().map(|_| slots.take()).collect();
        for (k, r) in ins.iter().enumerate() {
            if r.last && matches!(n.ins[k], Ref::Node(..)) {
                slots.free.push(r.slot);
            }
        }
        for (o, &slot) in outs.iter().enumerate() {
            if last_use[i][o] == usize::MAX {
                slots.free.push(slot);
            }
        }
        at.push(outs.clone());
        steps.push(Step {
            op,
            ins,
            cells: n.cells.clone(),
            outs,
            avals: n.avals.clone(),
            dtype: in_avals.first().map(|a| a.dtype),
            work,
        });
    }
    let outputs = (0..graph.outputs.len())
        .map(|k| {
            let r = graph.outputs[k];
            (read(&at, r, end, graph.outputs[k + 1..].contains(&r)), graph.aval(r).clone())
        })
        .collect();
    let nbytes = graph.nbytes() + steps.len() * size_of::<Step>() + name.len();
    let mut inputs = graph.inputs;
    inputs.truncate(n_inputs - constants.len());
    Ok(Plan {
        name: name.into(),
        inputs,
        constants,
        steps,
        outputs,
        slots: slots.next,
        cells: graph.cells,
        nbytes,
    })
}

/// Elementwise ops that the fusion pass left alone become regions of one op, so that backends
/// have one way to run them.
fn as_region(op: &Op, n: &crate::graph::GraphNode, g: &Graph) -> Op {
    let dtype = n.avals[0].dtype;
    let mut nodes: Vec<RegionNode> = Vec::new();
    match op {
        Op::Elementwise(row) => {
            nodes.extend(
                n.ins
                    .iter()
                    .enumerate()
                    .map(|(i, &r)| RegionNode::Input { index: i as u32, dtype: g.aval(r).dtype }),
            );
            nodes.push(RegionNode::Row { row: *row, args: (0..n.ins.len() as u32).collect(), dtype });
        }
        Op::Cast => {
            nodes.push(RegionNode::Input { index: 0, dtype: g.aval(n.ins[0]).dtype });
            nodes.push(RegionNode::Cast { arg: 0, dtype });
        }
        Op::Full => nodes.push(RegionNode::Cell { index: 0, dtype }),
        _ => return op.clone(),
    }
    let outputs = smallvec![nodes.len() as u32 - 1];
    Op::Fused(Arc::new(Region { nodes, outputs }))
}

/// Slot numbers, given again when their last reader is done.
#[derive(Default)]
struct Slots {
    free: Vec<u32>,
    next: u32,
}

impl Slots {
    fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }
}

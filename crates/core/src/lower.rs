//! Lowering: from a graph to a plan.

use crate::backend::{Backend, Spec, Value};
use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::layout::Layout;
use crate::number::Number;
use crate::op::{Op, Region, RegionNode, view};
use crate::pass;
use crate::plan::{Plan, Read, Step, Work};
use hashbrown::HashMap;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Runs the passes and turns the graph into steps. The last `constants.len()` inputs of the graph
/// are held by the plan itself.
///
/// # Errors
/// `Unsupported` for an op that the device lacks.
pub fn lower(graph: Graph, constants: Vec<Value>, backend: &dyn Backend, name: &str) -> Result<Plan> {
    let graph = pass::run(graph)?;
    let n_inputs = graph.inputs.len();
    let (places, views) = Places::new(&graph, &constants);
    let end = graph.nodes.len();
    let is_step = |i: usize| places.nodes[i][0].base == Ref::Node(i as u32, 0);
    let mut last_use: HashMap<Ref, usize> = HashMap::new();
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, _)| is_step(*i)) {
        last_use.extend(n.ins.iter().map(|&r| (places.of(r).base, i)));
    }
    last_use.extend(graph.outputs.iter().map(|&r| (places.of(r).base, end)));

    let mut slots = Slots { next: n_inputs as u32, ..Slots::default() };
    let mut at: Vec<SmallVec<[u32; 1]>> = Vec::with_capacity(end);
    let mut steps = Vec::with_capacity(end);
    let read = |at: &[SmallVec<[u32; 1]>], refs: &[Ref], k: usize, i: usize| {
        let &Place { base, view, .. } = places.of(refs[k]);
        let slot = match base {
            Ref::Input(k) => k,
            Ref::Node(n, o) => at[n as usize][o as usize],
        };
        let again = refs[k + 1..].iter().any(|&r| places.of(r).base == base);
        Read { slot, last: last_use.get(&base) == Some(&i) && !again, view }
    };
    for (i, n) in graph.nodes.iter().enumerate() {
        if !is_step(i) {
            at.push(SmallVec::new());
            continue;
        }
        let op = as_region(&n.op, n, &graph);
        let ins: SmallVec<[Read; 3]> = (0..n.ins.len()).map(|k| read(&at, &n.ins, k, i)).collect();
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
            if r.last && matches!(places.of(n.ins[k]).base, Ref::Node(..)) {
                slots.free.push(r.slot);
            }
        }
        for (o, &slot) in outs.iter().enumerate() {
            if !last_use.contains_key(&Ref::Node(i as u32, o as u32)) {
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
        .map(|k| (read(&at, &graph.outputs, k, end), graph.aval(graph.outputs[k]).clone()))
        .collect();
    let nbytes =
        graph.nbytes() + steps.len() * size_of::<Step>() + views.len() * size_of::<Layout>() + name.len();
    let mut inputs = graph.inputs;
    inputs.truncate(n_inputs - constants.len());
    Ok(Plan {
        name: name.into(),
        inputs,
        constants,
        views,
        steps,
        outputs,
        slots: slots.next,
        cells: graph.cells.len() as u32,
        nbytes,
    })
}

/// Where a value is read: from the slot that `base` fills, under a layout of its own when views that
/// are the same in every run lead there.
struct Place {
    base: Ref,
    /// The layout, where it is known before the run.
    layout: Option<Layout>,
    /// Its number among the plan's views.
    view: Option<u32>,
}

/// Places of all values of a graph.
struct Places {
    inputs: Vec<Place>,
    nodes: Vec<SmallVec<[Place; 1]>>,
}

impl Places {
    /// Folds the views whose layout is known; their layouts come beside the places.
    fn new(g: &Graph, constants: &[Value]) -> (Places, Vec<Layout>) {
        let given = g.inputs.len() - constants.len();
        let inputs = (0..g.inputs.len()).map(|i| Place {
            base: Ref::Input(i as u32),
            layout: i.checked_sub(given).map(|c| constants[c].layout.clone()),
            view: None,
        });
        let mut p = Places { inputs: inputs.collect(), nodes: Vec::with_capacity(g.nodes.len()) };
        let mut views = Vec::new();
        let mut numbers: HashMap<Layout, u32> = HashMap::new();
        for (i, n) in g.nodes.iter().enumerate() {
            let outs = match p.folded(g, n) {
                Some(layout) => {
                    let view = *numbers.entry(layout.clone()).or_insert_with(|| {
                        views.push(layout.clone());
                        views.len() as u32 - 1
                    });
                    smallvec![Place { base: p.of(n.ins[0]).base, layout: Some(layout), view: Some(view) }]
                }
                None => (0..n.avals.len())
                    .map(|o| Place {
                        base: Ref::Node(i as u32, o as u32),
                        layout: n.op.is_compact().then(|| Layout::contiguous(n.avals[o].shape.clone())),
                        view: None,
                    })
                    .collect(),
            };
            p.nodes.push(outs);
        }
        (p, views)
    }

    fn of(&self, r: Ref) -> &Place {
        match r {
            Ref::Input(i) => &self.inputs[i as usize],
            Ref::Node(n, o) => &self.nodes[n as usize][o as usize],
        }
    }

    /// The layout of a view of something whose layout is known. `None` also where the view is wrong
    /// (a start past the end): it stays a step, and fails when it runs.
    fn folded(&self, g: &Graph, n: &GraphNode) -> Option<Layout> {
        // What `as_strided` reaches is checked against the buffer, which only the run has.
        if !n.op.is_view() || matches!(n.op, Op::AsStrided(..)) {
            return None;
        }
        let from = self.of(n.ins[0]).layout.as_ref()?;
        // A valid length leaves the layout as it is.
        let read = if let Op::SliceValid(_) = n.op { &[] } else { &n.cells[..] };
        let cells: Option<SmallVec<[Number; 4]>> = read.iter().map(|&c| g.cells[c as usize]).collect();
        view::view(&n.op, from, g.aval(n.ins[0]).dtype, &n.avals[0], &cells?).ok().flatten()
    }
}

/// Elementwise ops that the fusion pass left alone become regions of one op, so that backends
/// have one way to run them.
fn as_region(op: &Op, n: &GraphNode, g: &Graph) -> Op {
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

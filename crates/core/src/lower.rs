//! Lowering: from a graph to a plan.

use crate::aval::Aval;
use crate::backend::{Backend, Kernel, Spec, Value};
use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::layout::Layout;
use crate::number::Number;
use crate::op::{Op, Region, RegionNode, view};
use crate::pass;
use crate::plan::{Plan, Read, Source, Step, StepText, Then, View, Work};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
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

    let given = n_inputs - constants.len();
    // Steps that are alike share a kernel: what a layer's steps need is there when the next layer comes.
    let mut kernels: HashMap<Spelled, Arc<dyn Kernel>> = HashMap::new();
    let mut kernel = |op: &Op, ins: &[Aval], outs: &[Aval]| -> Result<Arc<dyn Kernel>> {
        match kernels.entry((op.clone(), ins.into(), outs.into())) {
            Entry::Occupied(e) => Ok(e.get().clone()),
            Entry::Vacant(e) => Ok(e.insert(backend.kernel(Spec { op, ins, outs })?).clone()),
        }
    };
    let mut slots = Slots { next: given as u32, ..Slots::default() };
    let mut at: Vec<SmallVec<[u32; 1]>> = Vec::with_capacity(end);
    let (mut steps, mut texts) = (Vec::with_capacity(end), Vec::with_capacity(end));
    let read = |at: &[SmallVec<[u32; 1]>], refs: &[Ref], k: usize, i: usize| {
        let &Place { base, view, .. } = places.of(refs[k]);
        let from = match base {
            Ref::Input(k) => {
                (k as usize).checked_sub(given).map_or(Source::Slot(k), |c| Source::Constant(c as u32))
            }
            Ref::Node(n, o) => Source::Slot(at[n as usize][o as usize]),
        };
        let ends = last_use.get(&base) == Some(&i) && matches!(from, Source::Slot(_));
        let same = |r: &&Ref| places.of(**r).base == base;
        // A step borrows what it reads more than once; the plan's outputs are moved out in order.
        let then = match (ends, refs.iter().filter(same).count(), i == end) {
            (false, ..) => Then::Keep,
            (true, 1, _) => Then::Give,
            (true, _, false) => Then::Drop,
            (true, _, true) if refs[k + 1..].iter().any(|r| same(&r)) => Then::Keep,
            (true, _, true) => Then::Give,
        };
        Read { from, then, view }
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
            let copy = kernel(&Op::Contiguous, &in_avals[..1], &in_avals[..1])?;
            let (dtype, out) = (in_avals[0].dtype, n.avals[0].clone());
            Work::View(Box::new(View { op: op.clone(), dtype, out, copy }))
        } else if let Op::Call(c) = &op {
            Work::Call(c.0.clone())
        } else {
            Work::Kernel(kernel(&op, &in_avals, &n.avals)?)
        };
        // Outputs get slots before the inputs' are given back: a step never writes a slot it reads.
        let outs: SmallVec<[u32; 1]> = n.avals.iter().map(|_| slots.take()).collect();
        for (k, r) in ins.iter().enumerate() {
            let base = places.of(n.ins[k]).base;
            let again = n.ins[k + 1..].iter().any(|&r| places.of(r).base == base);
            if let (true, Ref::Node(..), Source::Slot(s)) = (r.then != Then::Keep && !again, base, r.from) {
                slots.free.push(s);
            }
        }
        for (o, &slot) in outs.iter().enumerate() {
            if !last_use.contains_key(&Ref::Node(i as u32, o as u32)) {
                slots.free.push(slot);
            }
        }
        at.push(outs.clone());
        steps.push(Step { work, ins, cells: n.cells.clone(), outs });
        texts.push(StepText { op, avals: n.avals.clone() });
    }
    let outputs = (0..graph.outputs.len())
        .map(|k| (read(&at, &graph.outputs, k, end), graph.aval(graph.outputs[k]).clone()))
        .collect();
    let nbytes = graph.nbytes()
        + steps.len() * (size_of::<Step>() + size_of::<StepText>())
        + views.len() * size_of::<Layout>()
        + name.len();
    let mut inputs = graph.inputs;
    inputs.truncate(given);
    Ok(Plan {
        name: name.into(),
        inputs,
        constants,
        views,
        steps,
        texts,
        outputs,
        slots: slots.next,
        cells: graph.cells.len() as u32,
        nbytes,
    })
}

/// What tells one kernel from another: the op, the avals that it reads, and those that it makes.
type Spelled = (Op, SmallVec<[Aval; 3]>, SmallVec<[Aval; 1]>);

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
                // It is what it is a view of: a valid length says nothing of where elements stand.
                Some(layout) if p.of(n.ins[0]).layout.as_ref() == Some(&layout) => {
                    let &Place { base, view, .. } = p.of(n.ins[0]);
                    smallvec![Place { base, layout: Some(layout), view }]
                }
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
        Op::Cast => return Op::Fused(Arc::new(Region::cast(g.aval(n.ins[0]).dtype, dtype))),
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

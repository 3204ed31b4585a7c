//! Lowering: from a graph to a plan.

use crate::aval::Aval;
use crate::backend::{Backend, Spec, Value};
use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::layout::Layout;
use crate::number::Number;
use crate::op::{Op, Region, RegionNode, view};
use crate::pass;
use crate::plan::{Constant, Plan, Read, Source, Step, StepText, Then, View, WHOLE, Work};
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
    let mut places = Places::new(&graph, &constants);
    let end = graph.nodes.len();
    let is_step = |i: usize| places.nodes[i][0].base == Ref::Node(i as u32, 0);
    let mut last_uses: HashMap<Ref, LastUse> = HashMap::new();
    let mut used = |refs: &[Ref], step: usize| {
        for (k, &r) in refs.iter().enumerate() {
            let last = last_uses.entry(places.of(r).base).or_default();
            *last = LastUse { step, times: if last.step == step { last.times + 1 } else { 1 }, read: k };
        }
    };
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, _)| is_step(*i)) {
        used(&n.ins, i);
    }
    used(&graph.outputs, end);

    let given = n_inputs - constants.len();
    // Steps that are alike share their work: what a layer's steps need is there when the next layer comes.
    let mut numbers: HashMap<Spelled, u32> = HashMap::new();
    let mut works = Vec::new();
    let mut slots = Slots { next: given as u32, ..Slots::default() };
    let mut at: Vec<SmallVec<[u32; 1]>> = Vec::with_capacity(end);
    let (mut steps, mut texts) = (Vec::with_capacity(end), Vec::with_capacity(end));
    let (mut reads, mut read_cells, mut writes) = (Vec::new(), Vec::new(), Vec::new());
    let read = |at: &[SmallVec<[u32; 1]>], refs: &[Ref], k: usize, i: usize| {
        let &Place { base, view, .. } = places.of(refs[k]);
        let from = match base {
            Ref::Input(k) => {
                (k as usize).checked_sub(given).map_or(Source::Slot(k), |c| Source::Constant(c as u32))
            }
            Ref::Node(n, o) => Source::Slot(at[n as usize][o as usize]),
        };
        let last = last_uses.get(&base).filter(|last| last.step == i && matches!(from, Source::Slot(_)));
        // A step borrows what it reads more than once; the plan's outputs are moved out in order.
        let then = match last {
            None => Then::Keep,
            Some(last) if last.times == 1 => Then::Give,
            Some(_) if i < end => Then::Drop,
            Some(last) if last.read != k => Then::Keep,
            Some(_) => Then::Give,
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
        let work = match numbers.entry((op.clone(), in_avals, n.avals.clone())) {
            Entry::Occupied(e) => *e.get(),
            Entry::Vacant(e) => {
                let (op, ins, outs) = e.key();
                works.push(work(op, ins, outs, backend)?);
                *e.insert(works.len() as u32 - 1)
            }
        };
        // Outputs get slots before the inputs' are given back: a step never writes a slot it reads.
        let outs: SmallVec<[u32; 1]> = n.avals.iter().map(|_| slots.take()).collect();
        for (k, r) in ins.iter().enumerate() {
            let base = places.of(n.ins[k]).base;
            let ends = r.then != Then::Keep && last_uses.get(&base).is_some_and(|last| last.read == k);
            if let (true, Ref::Node(..), Source::Slot(s)) = (ends, base, r.from) {
                slots.free.push(s);
            }
        }
        for (o, &slot) in outs.iter().enumerate() {
            if !last_uses.contains_key(&Ref::Node(i as u32, o as u32)) {
                slots.free.push(slot);
            }
        }
        at.push(outs.clone());
        reads.extend(ins);
        read_cells.extend(&n.cells);
        writes.extend(outs);
        steps.push(Step {
            work,
            reads: reads.len() as u32,
            cells: read_cells.len() as u32,
            writes: writes.len() as u32,
        });
        texts.push(StepText { op, avals: n.avals.clone() });
    }
    let outputs = (0..graph.outputs.len())
        .map(|k| (read(&at, &graph.outputs, k, end), graph.aval(graph.outputs[k]).clone()))
        .collect();
    let nbytes = graph.nbytes()
        + steps.len() * (size_of::<Step>() + size_of::<StepText>())
        + reads.len() * size_of::<Read>()
        + (read_cells.len() + writes.len()) * size_of::<u32>()
        + works.len() * size_of::<Work>()
        + places.layouts.len() * size_of::<Layout>()
        + name.len();
    let constants = constants.into_iter().map(|value| {
        let layout = places.number(&value.layout);
        Constant { buffer: value.buffer, layout }
    });
    let constants = constants.collect();
    let mut inputs = graph.inputs;
    inputs.truncate(given);
    Ok(Plan {
        name: name.into(),
        inputs,
        constants,
        layouts: places.layouts,
        works,
        steps,
        reads,
        read_cells,
        writes,
        texts,
        outputs,
        slots: slots.next,
        cells: graph.cells.len() as u32,
        nbytes,
    })
}

/// Where a value is read last: the step, how often that step reads it, and which of its reads is the last.
#[derive(Clone, Copy, Debug, Default)]
struct LastUse {
    step: usize,
    times: u32,
    read: usize,
}

/// What tells the work of one step from another's: the op, the avals that it reads, and those that it makes.
type Spelled = (Op, SmallVec<[Aval; 3]>, SmallVec<[Aval; 1]>);

fn work(op: &Op, ins: &[Aval], outs: &[Aval], backend: &dyn Backend) -> Result<Work> {
    if op.is_view() {
        let spec = Spec { op: &Op::Contiguous, ins: &ins[..1], outs: &ins[..1] };
        let (dtype, out) = (ins[0].dtype, outs[0].clone());
        return Ok(Work::View(Box::new(View { op: op.clone(), dtype, out, copy: backend.kernel(spec)? })));
    }
    Ok(match op {
        Op::Call(c) => Work::Call(c.0.clone()),
        _ => Work::Kernel(backend.kernel(Spec { op, ins, outs })?),
    })
}

/// Where a value is read: from the slot that `base` fills, under a layout of its own when views that
/// are the same in every run lead there.
struct Place {
    base: Ref,
    /// The layout, where it is known before the run.
    layout: Option<Layout>,
    /// Its number among the layouts, or [`WHOLE`] for the value's own.
    view: u32,
}

/// Places of all values of a graph.
struct Places {
    inputs: Vec<Place>,
    nodes: Vec<SmallVec<[Place; 1]>>,
    layouts: Vec<Layout>,
    numbers: HashMap<Layout, u32>,
}

impl Places {
    /// Folds the views whose layout is known.
    fn new(g: &Graph, constants: &[Value]) -> Places {
        let given = g.inputs.len() - constants.len();
        let inputs = (0..g.inputs.len()).map(|i| Place {
            base: Ref::Input(i as u32),
            layout: i.checked_sub(given).map(|c| constants[c].layout.clone()),
            view: WHOLE,
        });
        let mut p = Places {
            inputs: inputs.collect(),
            nodes: Vec::with_capacity(g.nodes.len()),
            layouts: Vec::new(),
            numbers: HashMap::new(),
        };
        for (i, n) in g.nodes.iter().enumerate() {
            let outs = match p.folded(g, n) {
                // It is what it is a view of: a valid length says nothing of where elements stand.
                Some(layout) if p.of(n.ins[0]).layout.as_ref() == Some(&layout) => {
                    let &Place { base, view, .. } = p.of(n.ins[0]);
                    smallvec![Place { base, layout: Some(layout), view }]
                }
                Some(layout) => {
                    let view = p.number(&layout);
                    smallvec![Place { base: p.of(n.ins[0]).base, layout: Some(layout), view }]
                }
                None => (0..n.avals.len())
                    .map(|o| Place {
                        base: Ref::Node(i as u32, o as u32),
                        layout: n.op.is_compact().then(|| Layout::contiguous(n.avals[o].shape.clone())),
                        view: WHOLE,
                    })
                    .collect(),
            };
            p.nodes.push(outs);
        }
        p
    }

    /// The number of a layout among the plan's.
    fn number(&mut self, layout: &Layout) -> u32 {
        *self.numbers.entry_ref(layout).or_insert_with(|| {
            self.layouts.push(layout.clone());
            self.layouts.len() as u32 - 1
        })
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

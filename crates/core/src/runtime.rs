//! The runtime: the device, the stream, and evaluation.
//!
//! `eval` walks the pending graph from its roots, claims the lazy nodes it finds under one short
//! lock, finds or lowers the plan for the graph's structure, binds it and runs it. Invariants:
//!
//! - A node goes from Lazy to Scheduled only under the claim lock, and its inputs move into the run.
//! - No lock is held while a plan runs or is lowered.
//! - Results that someone outside the claimed graph holds become outputs of the plan.

use crate::array::{Array, Inputs, Node, State};
use crate::backend::{Backend, Interrupted, Memory, MemorySetting};
use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::lower::lower;
use crate::number::Number;
use crate::op::Op;
use crate::plan::{Outcome, Outcomes, Plan};
use crate::{bail, err};
use hashbrown::HashTable;
use parking_lot::{Condvar, Mutex};
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

static BACKEND: OnceLock<Arc<dyn Backend>> = OnceLock::new();
static CLAIM: Mutex<u32> = Mutex::new(0);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static TIMING: AtomicBool = AtomicBool::new(false);

thread_local! {
    static KERNEL_NS: Cell<u64> = const { Cell::new(0) };
}

/// Sets the device that arrays live on. The first call wins; later ones change nothing.
pub fn init(backend: Arc<dyn Backend>) {
    let _ = BACKEND.set(backend);
}

/// The device.
///
/// # Errors
/// `Device` before [`init`].
pub fn backend() -> Result<&'static Arc<dyn Backend>> {
    BACKEND
        .get()
        .ok_or_else(|| err!(Device, "[runtime] no device is set; call isopace::init() once at the start"))
}

/// Memory counters of the device.
pub fn memory() -> Result<Memory> {
    Ok(backend()?.memory())
}

/// Changes a memory setting and returns what it was.
pub fn set_memory(setting: MemorySetting) -> Result<usize> {
    Ok(backend()?.set_memory(setting))
}

/// Makes evaluations under way stop with an error: before their next step, between the chunks of a
/// kernel, or inside a custom kernel (Ctrl-C). May be called from a signal handler.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::Relaxed);
    if let Some(b) = BACKEND.get() {
        b.interrupt(true);
    }
}

/// Takes back [`interrupt`].
pub fn clear_interrupt() {
    if INTERRUPTED.load(Ordering::Relaxed) {
        INTERRUPTED.store(false, Ordering::Relaxed);
        if let Some(b) = BACKEND.get() {
            b.interrupt(false);
        }
    }
}

/// Whether this thread runs a plan.
pub(crate) fn is_running() -> bool {
    RUNNING.get()
}

/// Switches the clock around kernels on or off; see [`kernel_ns`].
pub fn time_kernels(on: bool) {
    TIMING.store(on, Ordering::Relaxed);
}

/// Nanoseconds this thread has spent in kernels while [`time_kernels`] was on.
pub fn kernel_ns() -> u64 {
    KERNEL_NS.get()
}

/// Runs a kernel, unless interrupted, on the clock if that is on.
pub(crate) fn timed(f: impl FnOnce() -> Result<()>) -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        return Err(Interrupted::error());
    }
    if !TIMING.load(Ordering::Relaxed) {
        return f();
    }
    let start = Instant::now();
    let r = f();
    KERNEL_NS.set(KERNEL_NS.get() + start.elapsed().as_nanos() as u64);
    r
}

/// One evaluation that claimed nodes; others wait on it.
#[derive(Debug, Default)]
pub(crate) struct Run {
    done: Mutex<bool>,
    wake: Condvar,
}

impl Run {
    fn wait(&self) {
        let mut done = self.done.lock();
        while !*done {
            self.wake.wait(&mut done);
        }
    }

    fn finish(&self) {
        *self.done.lock() = true;
        self.wake.notify_all();
    }
}

/// A claimed graph with its plan, waiting for its turn.
struct Task {
    run: Arc<Run>,
    plan: Result<Arc<Plan>>,
    leaves: Leaves,
    cells: SmallVec<[Number; 4]>,
    /// Nodes with the results that somebody can ask for.
    held: SmallVec<[(Arc<Node>, Outs); 2]>,
    turn: Turn,
}

/// Computes the arrays and whatever pending arrays they depend on, and waits.
///
/// # Errors
/// `Trace` inside a function being compiled; the error of the step that failed, for the first of the
/// arrays that depends on one.
pub fn eval(arrays: &[Array]) -> Result<()> {
    if let Some(task) = claim(arrays)? {
        stream().run(task);
    }
    for a in arrays {
        settle(a)?;
    }
    Ok(())
}

/// Starts computing the arrays on the stream's thread and returns. Errors show when one is read.
///
/// # Errors
/// `Trace` inside a function being compiled.
pub fn async_eval(arrays: &[Array]) -> Result<()> {
    if let Some(task) = claim(arrays)? {
        stream().enqueue(task);
    }
    Ok(())
}

/// Waits for everything enqueued.
pub fn synchronize() {
    stream().drain();
}

/// Waits until the array is computed by whoever claimed it.
fn settle(a: &Array) -> Result<()> {
    let run = match &*a.node().state.lock() {
        State::Ready(_) => return Ok(()),
        State::Failed(e) => return Err(e.clone()),
        State::Scheduled(run) => run.clone(),
        State::Lazy(_) => bail!(Internal, "[eval] {} was not claimed", a.node().op.name()),
    };
    run.wait();
    match &*a.node().state.lock() {
        State::Failed(e) => Err(e.clone()),
        _ => Ok(()),
    }
}

/// Numbers of results of a node.
type Outs = SmallVec<[u32; 2]>;
/// Arrays that are computed already, or by an earlier task.
type Leaves = SmallVec<[Array; 4]>;
/// Nodes on the way down, each with its inputs and how many of them are done.
type Entered = SmallVec<[(Arc<Node>, Inputs, usize); 4]>;

/// A pending node while its graph is claimed.
struct Pending {
    node: Arc<Node>,
    inputs: Inputs,
    refs: SmallVec<[Ref; 3]>,
    /// References to each result from inside the claimed graph.
    inner: SmallVec<[u32; 1]>,
}

impl Pending {
    /// Whether somebody outside the claimed graph can ask for each result.
    fn held(&self) -> impl Iterator<Item = bool> {
        let results = self.inner.iter().enumerate();
        results.map(|(out, &inner)| self.node.handles(out as u32) > inner as usize)
    }

    fn outs(&self) -> Range<u32> {
        0..self.inner.len() as u32
    }
}

#[derive(Default)]
struct Walk {
    pending: SmallVec<[Pending; 2]>,
    leaves: Leaves,
    epoch: u32,
}

fn claim(arrays: &[Array]) -> Result<Option<Task>> {
    if arrays.iter().all(|a| !matches!(*a.node().state.lock(), State::Lazy(_))) {
        return Ok(None);
    }
    let backend = backend()?;
    let run = Arc::new(Run::default());
    let mut epoch = CLAIM.lock();
    *epoch = epoch.wrapping_add(1).max(1);
    let mut walk = Walk { epoch: *epoch, ..Walk::default() };
    if let Err(e) = walk.visit(arrays, &run) {
        walk.give_back();
        return Err(e);
    }
    if walk.pending.is_empty() {
        return Ok(None);
    }
    let cells = match walk.cells() {
        Ok(cells) => cells,
        Err(e) => {
            walk.give_back();
            return Err(e);
        }
    };
    let held: SmallVec<[bool; 16]> = walk.pending.iter().flat_map(Pending::held).collect();
    let turn = Turn::take();
    drop(epoch);

    let plan = plans().find(&walk, &held, &**backend);
    let mut task = Task { run, plan, leaves: walk.leaves, cells, held: SmallVec::new(), turn };
    let mut held = held.into_iter();
    for p in walk.pending {
        let outs: Outs = p.outs().zip(held.by_ref()).filter_map(|(out, held)| held.then_some(out)).collect();
        if !outs.is_empty() {
            task.held.push((p.node, outs));
        }
    }
    Ok(Some(task))
}

/// Tells an array's place in the walk that marked it.
fn mark_of(node: &Node) -> (u32, u32) {
    let m = node.mark.load(Ordering::Relaxed);
    ((m >> 32) as u32, m as u32)
}

const LEAF: u32 = 1 << 31;

impl Walk {
    /// Claims every lazy node the arrays depend on, inputs first.
    fn visit(&mut self, arrays: &[Array], run: &Arc<Run>) -> Result<()> {
        let mut stack = Entered::new();
        for root in arrays {
            if let Some(entered) = self.enter(root, run)? {
                stack.push(entered);
            }
            while let Some((_, inputs, next)) = stack.last_mut() {
                if *next < inputs.len() {
                    *next += 1;
                    match self.enter(&inputs[*next - 1], run) {
                        Ok(Some(entered)) => stack.push(entered),
                        Ok(None) => (),
                        Err(e) => {
                            for (node, inputs, _) in stack {
                                *node.state.lock() = State::Lazy(inputs);
                            }
                            return Err(e);
                        }
                    }
                } else if let Some((node, inputs, _)) = stack.pop() {
                    self.leave(node, inputs);
                }
            }
        }
        Ok(())
    }

    /// Where the walk has put an array: a result that is a leaf by itself, or its pending node.
    fn place(&self, a: &Array) -> Option<u32> {
        let marks = [mark_of(a.own()), mark_of(a.node())];
        marks.into_iter().find_map(|(epoch, index)| (epoch == self.epoch).then_some(index))
    }

    /// Puts an array in its place, or claims its node, whose inputs come first.
    fn enter(&mut self, a: &Array, run: &Arc<Run>) -> Result<Option<(Arc<Node>, Inputs, usize)>> {
        if self.place(a).is_some() {
            return Ok(None);
        }
        let mut state = a.node().state.lock();
        match &mut *state {
            State::Lazy(inputs) => {
                if let Op::Param(_) = a.node().op {
                    bail!(
                        Trace,
                        "[eval] an array was evaluated (item, print, bool, NumPy...) inside a function being compiled; \
                         its value is not known while compile traces; move the read outside, or branch with where"
                    );
                }
                let inputs = std::mem::take(inputs);
                *state = State::Scheduled(run.clone());
                drop(state);
                // The final mark is set when the node is left; this one ends repeated entry.
                a.node().mark.store((self.epoch as u64) << 32, Ordering::Relaxed);
                Ok(Some((a.node().clone(), inputs, 0)))
            }
            _ => {
                let mark = (self.epoch as u64) << 32 | (LEAF | self.leaves.len() as u32) as u64;
                a.own().mark.store(mark, Ordering::Relaxed);
                drop(state);
                self.leaves.push(a.clone());
                Ok(None)
            }
        }
    }

    fn leave(&mut self, node: Arc<Node>, inputs: Inputs) {
        let mut refs = SmallVec::new();
        for a in &inputs {
            let index = self.place(a).unwrap_or_default();
            if index & LEAF != 0 {
                refs.push(Ref::Input(index & !LEAF));
            } else {
                refs.push(Ref::Node(index, a.out()));
                self.pending[index as usize].inner[a.out() as usize] += 1;
            }
        }
        node.mark.store((self.epoch as u64) << 32 | self.pending.len() as u64, Ordering::Relaxed);
        let inner = smallvec![0; node.avals().len()];
        self.pending.push(Pending { node, inputs, refs, inner });
    }

    /// The scalars of all nodes. A symbolic one that is needed here and now becomes static.
    fn cells(&self) -> Result<SmallVec<[Number; 4]>> {
        let mut cells = SmallVec::new();
        for s in self.pending.iter().flat_map(|p| &p.node.scalars) {
            cells.push(s.value("eval")?);
        }
        Ok(cells)
    }

    fn give_back(self) {
        for p in self.pending {
            *p.node.state.lock() = State::Lazy(p.inputs);
        }
    }

    fn hash(&self, held: &[bool]) -> u64 {
        let mut h = hasher().build_hasher();
        held.hash(&mut h);
        for p in &self.pending {
            p.node.op.hash(&mut h);
            p.refs.hash(&mut h);
            p.node.avals().hash(&mut h);
            h.write_u8(p.node.scalars.len() as u8);
        }
        for l in &self.leaves {
            l.aval().hash(&mut h);
        }
        h.finish()
    }

    fn matches(&self, held: &[bool], e: &Eager) -> bool {
        e.graph.nodes.len() == self.pending.len()
            && e.graph.inputs.len() == self.leaves.len()
            && e.held == held
            && self.pending.iter().zip(&e.graph.nodes).all(|(p, g)| {
                p.node.op == g.op
                    && p.refs == g.ins
                    && *p.node.avals() == g.avals[..]
                    && p.node.scalars.len() == g.cells.len()
            })
            && self.leaves.iter().zip(&e.graph.inputs).all(|(l, i)| l.aval() == i)
    }

    fn graph(&self, held: &[bool]) -> Graph {
        let mut g =
            Graph { inputs: self.leaves.iter().map(|l| l.aval().clone()).collect(), ..Graph::default() };
        let mut held = held.iter();
        for (i, p) in self.pending.iter().enumerate() {
            let n = p.node.scalars.len();
            g.nodes.push(GraphNode {
                op: p.node.op.clone(),
                ins: p.refs.clone(),
                cells: (g.cells.len() as u32..).take(n).collect(),
                avals: p.node.avals().iter().cloned().collect(),
            });
            // The plan serves every value of them.
            g.cells.resize(g.cells.len() + n, None);
            let outs = p.outs().zip(held.by_ref()).filter(|(_, held)| **held);
            g.outputs.extend(outs.map(|(out, _)| Ref::Node(i as u32, out)));
        }
        g
    }
}

/// Plans of evaluated graphs, by structure.
struct EagerPlans {
    table: Mutex<EagerTable>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct EagerTable {
    entries: HashTable<Eager>,
    clock: u64,
    /// Hash of the entry found last: the next graph is likely its, and then needs no hashing.
    last: u64,
    nbytes: usize,
}

struct Eager {
    hash: u64,
    used: u64,
    graph: Graph,
    held: Vec<bool>,
    plan: Arc<Plan>,
}

/// Bounds of the eager plans.
const EAGER_ENTRIES: usize = 512;
const EAGER_BYTES: usize = 32 << 20;

/// Counters of the plans kept for evaluated graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EagerStats {
    pub hits: u64,
    pub misses: u64,
    pub entries: usize,
    pub nbytes: usize,
}

/// Counters of the plans kept for evaluated graphs: at most 512 and 32 MiB, least recently used first.
pub fn eager_stats() -> EagerStats {
    let p = plans();
    let t = p.table.lock();
    EagerStats {
        hits: p.hits.load(Ordering::Relaxed),
        misses: p.misses.load(Ordering::Relaxed),
        entries: t.entries.len(),
        nbytes: t.nbytes,
    }
}

/// Drops the plans kept for evaluated graphs.
pub fn clear_eager() {
    let old = std::mem::take(&mut *plans().table.lock());
    drop(old);
}

pub(crate) fn hasher() -> &'static hashbrown::DefaultHashBuilder {
    static H: OnceLock<hashbrown::DefaultHashBuilder> = OnceLock::new();
    H.get_or_init(hashbrown::DefaultHashBuilder::default)
}

fn plans() -> &'static EagerPlans {
    static P: OnceLock<EagerPlans> = OnceLock::new();
    P.get_or_init(|| EagerPlans {
        table: Mutex::default(),
        hits: AtomicU64::new(0),
        misses: AtomicU64::new(0),
    })
}

impl EagerTable {
    fn find(&mut self, hash: u64, fits: impl Fn(&Eager) -> bool) -> Option<Arc<Plan>> {
        let e = self.entries.find_mut(hash, |e| e.hash == hash && fits(e))?;
        self.clock += 1;
        e.used = self.clock;
        self.last = hash;
        Some(e.plan.clone())
    }
}

impl EagerPlans {
    fn find(&self, walk: &Walk, held: &[bool], backend: &dyn Backend) -> Result<Arc<Plan>> {
        let hash = {
            let t = &mut *self.table.lock();
            let fits = |e: &Eager| walk.matches(held, e);
            let (found, hash) = match t.find(t.last, fits) {
                Some(plan) => (Some(plan), t.last),
                None => {
                    let hash = walk.hash(held);
                    (t.find(hash, fits), hash)
                }
            };
            if let Some(plan) = found {
                self.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(plan);
            }
            hash
        };
        self.misses.fetch_add(1, Ordering::Relaxed);
        let graph = walk.graph(held);
        let plan = Arc::new(lower(graph.clone(), Vec::new(), backend, "")?);
        let size = graph.nbytes() + plan.nbytes();
        let mut evicted = Vec::new();
        let t = &mut *self.table.lock();
        while !t.entries.is_empty() && (t.entries.len() >= EAGER_ENTRIES || t.nbytes + size > EAGER_BYTES) {
            let (oldest, at) = t.entries.iter().map(|e| (e.used, e.hash)).min().unwrap_or_default();
            let Ok(e) = t.entries.find_entry(at, |e| e.used == oldest) else { break };
            let e = e.remove().0;
            t.nbytes -= e.graph.nbytes() + e.plan.nbytes();
            evicted.push(e);
        }
        t.nbytes += size;
        t.clock += 1;
        let entry = Eager { hash, used: t.clock, graph, held: held.to_vec(), plan: plan.clone() };
        t.entries.insert_unique(hash, entry, |e| e.hash);
        Ok(plan)
    }
}

/// The stream: tasks run one at a time, in the order in which they were claimed. A task's leaves are
/// thus never still to be computed behind it. `eval` runs its task on its own thread.
struct Stream {
    state: Mutex<StreamState>,
    wake: Condvar,
}

#[derive(Default)]
struct StreamState {
    /// The turn that runs now or next.
    turn: u64,
    /// Turns that ended before they came up.
    ended: BTreeSet<u64>,
    /// Tasks for the worker, by turn.
    queue: BTreeMap<u64, Task>,
    worker: bool,
}

fn stream() -> &'static Stream {
    static S: OnceLock<Stream> = OnceLock::new();
    S.get_or_init(|| Stream { state: Mutex::default(), wake: Condvar::new() })
}

thread_local! {
    /// Set while this thread runs a plan: evaluating from inside a plan must not wait for itself.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// A place in the stream's order, taken while the claim lock is held. It ends when dropped, run or not.
#[derive(Debug)]
struct Turn(u64);

static TURNS: AtomicU64 = AtomicU64::new(0);

impl Turn {
    fn take() -> Turn {
        Turn(TURNS.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let stream = stream();
        let s = &mut *stream.state.lock();
        if s.turn == self.0 {
            s.turn += 1;
        } else {
            s.ended.insert(self.0);
        }
        while s.ended.remove(&s.turn) {
            s.turn += 1;
        }
        stream.wake.notify_all();
    }
}

impl Stream {
    fn run(&self, task: Task) {
        if RUNNING.get() {
            return task.execute();
        }
        let mut s = self.state.lock();
        while s.turn != task.turn.0 {
            self.wake.wait(&mut s);
        }
        drop(s);
        RUNNING.set(true);
        task.execute();
        RUNNING.set(false);
    }

    fn enqueue(&'static self, task: Task) {
        let mut s = self.state.lock();
        if !s.worker {
            let spawned = std::thread::Builder::new().name("isopace-stream".into()).spawn(|| self.work());
            s.worker = spawned.is_ok();
        }
        if !s.worker {
            // No thread to be had: run it here.
            drop(s);
            return self.run(task);
        }
        s.queue.insert(task.turn.0, task);
        drop(s);
        self.wake.notify_all();
    }

    fn work(&self) {
        RUNNING.set(true);
        let mut s = self.state.lock();
        loop {
            let turn = s.turn;
            match s.queue.remove(&turn) {
                Some(task) => {
                    drop(s);
                    task.execute();
                    s = self.state.lock();
                }
                None => self.wake.wait(&mut s),
            }
        }
    }

    /// Waits for every turn taken so far.
    fn drain(&self) {
        let all = TURNS.load(Ordering::Relaxed);
        let mut s = self.state.lock();
        while !RUNNING.get() && s.turn < all {
            self.wake.wait(&mut s);
        }
    }
}

impl Task {
    fn execute(self) {
        let Task { run, plan, leaves, cells, held, turn } = self;
        // From here on a buffer that only this run holds is free to be written in place.
        let outcomes = match &plan {
            Ok(plan) => run_guarded(plan, leaves, &cells),
            Err(e) => Err(e.clone()),
        };
        match outcomes {
            Ok(outcomes) => {
                let mut outcomes = outcomes.into_iter();
                held.into_iter().for_each(|(node, outs)| node.finish(&outs, &mut outcomes));
            }
            Err(e) => {
                let mut errors = std::iter::repeat_with(|| Err(e.clone()));
                held.into_iter().for_each(|(node, outs)| node.finish(&outs, &mut errors));
            }
        }
        run.finish();
        drop(turn);
    }
}

/// A panic in a kernel is a bug, but must not leave other threads waiting for ever.
fn run_guarded(plan: &Plan, leaves: Leaves, cells: &[Number]) -> Result<Outcomes> {
    let run = std::panic::AssertUnwindSafe(|| plan.run(leaves.into_iter().map(value), cells));
    std::panic::catch_unwind(run).unwrap_or_else(|p| {
        if p.is::<Interrupted>() {
            return Err(Interrupted::error());
        }
        let text = p.downcast_ref::<String>().map(|s| s.as_str()).or(p.downcast_ref::<&str>().copied());
        Err(err!(Internal, "[eval] a kernel panicked: {}", text.unwrap_or("no message")))
    })
}

/// A leaf's value, waiting for the run that makes it. The leaf's own hold on it ends here.
fn value(leaf: Array) -> Outcome {
    if let Some(outcome) = leaf.outcome() {
        return outcome;
    }
    let run = match &*leaf.node().state.lock() {
        State::Scheduled(run) => Some(run.clone()),
        _ => None,
    };
    run.inspect(|run| run.wait());
    leaf.outcome().unwrap_or_else(|| Err(err!(Internal, "[eval] a leaf did not become ready")))
}

/// The pending graph of these arrays before any pass, as text. For explaining; nothing is computed.
///
/// # Errors
/// As [`eval`].
pub fn explain_graph(arrays: &[Array]) -> Result<String> {
    Ok(crate::compile::trace::capture(arrays, &[], u64::MAX)?.graph.to_string())
}

/// The plan that evaluating these arrays would run, as text. For explaining; nothing is computed.
///
/// # Errors
/// As [`eval`].
pub fn explain_plan(arrays: &[Array]) -> Result<String> {
    let mut captured = crate::compile::trace::capture(arrays, &[], u64::MAX)?;
    captured.graph.cells.fill(None);
    Ok(lower(captured.graph, Vec::new(), &**backend()?, "")?.to_string())
}

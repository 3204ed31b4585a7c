//! Tracing: what a function built, as a graph.

use crate::array::{Array, Inputs, Node, State};
use crate::aval::Aval;
use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::op::Op;
use crate::scalar::Scalar;
use crate::{Dtype, bail};
use hashbrown::HashMap;
use smallvec::smallvec;
use std::cell::RefCell;
use std::sync::Arc;

/// A captured computation.
pub(crate) struct Captured {
    /// Inputs: the parameters, then the leaves.
    pub graph: Graph,
    /// Arrays from outside, held as constants.
    pub leaves: Vec<Array>,
    /// What each cell is, with the dtype whose range an integer must fit.
    pub cells: Vec<(Scalar, Option<Dtype>)>,
    /// What each node of the graph was.
    pub nodes: Vec<Arc<Node>>,
}

/// Flattens what `roots` depend on, down to `params`, computed arrays, and lazy ones older than
/// node id `since` that no parameter reaches. Claims nothing and recurses nowhere.
pub(crate) fn capture(roots: &[Array], params: &[Aval], since: u64) -> Result<Captured> {
    let mut c = Captured {
        graph: Graph { inputs: params.to_vec(), ..Graph::default() },
        leaves: Vec::new(),
        cells: Vec::new(),
        nodes: Vec::new(),
    };
    let mut at: HashMap<*const Node, Place> = HashMap::new();
    let mut cell_ids: HashMap<(CellKey, Option<Dtype>), u32> = HashMap::new();
    let mut stack: Vec<(Array, Inputs, usize)> = Vec::new();
    for root in roots {
        enter(root, &mut stack, &mut at, &mut c, since)?;
        while let Some((_, inputs, next)) = stack.last_mut() {
            if *next < inputs.len() {
                let a = inputs[*next].clone();
                *next += 1;
                enter(&a, &mut stack, &mut at, &mut c, since)?;
                continue;
            }
            let Some((a, inputs, _)) = stack.pop() else { break };
            let node = a.node();
            let mut g = GraphNode {
                op: node.op.clone(),
                ins: inputs.iter().map(|i| place(&at, i)).collect(),
                cells: smallvec![],
                avals: node.avals().iter().cloned().collect(),
            };
            for s in &node.scalars {
                let check = (node.op == Op::Full).then(|| node.avals()[0].dtype);
                let key = match s.symbol() {
                    Some(sym) => CellKey::Symbol(sym.expr.0),
                    None => s
                        .number()?
                        .map_or(CellKey::Symbol(u32::MAX), |n| CellKey::Number(n.kind() as u8, n.bits())),
                };
                let next = c.cells.len() as u32;
                let id = *cell_ids.entry((key, check)).or_insert(next);
                if id == next {
                    c.cells.push((s.clone(), check));
                }
                g.cells.push(id);
            }
            at.insert(Arc::as_ptr(node), Place::Node(c.graph.nodes.len() as u32));
            c.graph.nodes.push(g);
            c.nodes.push(a.node().clone());
        }
    }
    c.graph.outputs = roots.iter().map(|r| place(&at, r)).collect();
    c.graph.cells = c.cells.iter().map(|(s, _)| s.number()).collect::<Result<_>>()?;
    Ok(c)
}

#[derive(PartialEq, Eq, Hash)]
enum CellKey {
    Symbol(u32),
    Number(u8, u64),
}

#[derive(Clone, Copy)]
enum Place {
    Input(u32),
    Node(u32),
    Open,
}

fn place(at: &HashMap<*const Node, Place>, a: &Array) -> Ref {
    match at.get(&Arc::as_ptr(a.own())).or_else(|| at.get(&Arc::as_ptr(a.node()))) {
        Some(Place::Node(n)) => Ref::Node(*n, a.out()),
        Some(Place::Input(i)) => Ref::Input(*i),
        _ => Ref::Input(u32::MAX),
    }
}

fn enter(
    a: &Array,
    stack: &mut Vec<(Array, Inputs, usize)>,
    at: &mut HashMap<*const Node, Place>,
    c: &mut Captured,
    since: u64,
) -> Result<()> {
    let key = Arc::as_ptr(a.node());
    if at.contains_key(&key) || at.contains_key(&Arc::as_ptr(a.own())) {
        return Ok(());
    }
    let params = c.graph.inputs.len() - c.leaves.len();
    let lazy = match &*a.node().state.lock() {
        State::Lazy(inputs) => Some(inputs.clone()),
        _ => None,
    };
    match (lazy, &a.node().op) {
        (Some(_), Op::Param(i)) => {
            // The hidden random key is the last parameter.
            let i = &if *i == KEY_PARAM { (params as u32).saturating_sub(1) } else { *i };
            if *i as usize >= params || c.graph.inputs[*i as usize] != a.node().avals()[0] {
                bail!(
                    Trace,
                    "[compile] an array of another function's trace was used; it has no value outside of it"
                );
            }
            at.insert(key, Place::Input(*i));
        }
        (Some(inputs), _) if a.node().id >= since || since == u64::MAX => {
            at.insert(key, Place::Open);
            stack.push((a.clone(), inputs, 0));
        }
        // Computed already, or built before the trace began: a constant of the plan.
        _ => {
            at.insert(Arc::as_ptr(a.own()), Place::Input(c.graph.inputs.len() as u32));
            c.graph.inputs.push(a.aval().clone());
            c.leaves.push(a.clone());
        }
    }
    Ok(())
}

/// What a thread knows of the function it is tracing.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    /// The random key: the hidden input at first, then what draws have made of it.
    pub key: Option<Array>,
}

crate::sync::thread_local! {
    static TRACING: RefCell<Vec<Tracing>> = const { RefCell::new(Vec::new()) };
}

/// True while this thread traces a function: compiled functions called meanwhile are inlined.
pub fn is_tracing() -> bool {
    TRACING.with(|t| !t.borrow().is_empty())
}

/// Runs `f` as the body of a trace; the frame is removed on unwinding too.
pub(crate) fn with_trace<T>(f: impl FnOnce() -> T) -> (T, Tracing) {
    struct Pop(usize);
    impl Drop for Pop {
        fn drop(&mut self) {
            TRACING.with(|t| t.borrow_mut().truncate(self.0));
        }
    }
    let depth = TRACING.with(|t| {
        let mut t = t.borrow_mut();
        t.push(Tracing::default());
        t.len() - 1
    });
    let pop = Pop(depth);
    let out = f();
    let frame = TRACING.with(|t| t.borrow_mut().pop()).unwrap_or_default();
    drop(pop);
    (out, frame)
}

/// Replaces the random key of the innermost trace, if there is one: `next` gets the current key
/// (the hidden input at the first draw) and gives the new one beside its result.
pub(crate) fn traced_key<T>(next: impl FnOnce(Array) -> Result<(Array, T)>) -> Option<Result<T>> {
    let current = TRACING.with(|t| t.borrow().last().map(|f| f.key.clone()))?;
    let key = current.unwrap_or_else(|| param(KEY_PARAM, Aval::new([2], Dtype::U32)));
    Some(next(key).map(|(key, out)| {
        TRACING.with(|t| {
            if let Some(f) = t.borrow_mut().last_mut() {
                f.key = Some(key);
            }
        });
        out
    }))
}

/// The parameter number of the hidden random key until the trace ends.
pub(crate) const KEY_PARAM: u32 = u32::MAX;

/// A placeholder for argument `i`.
pub(crate) fn param(i: u32, aval: Aval) -> Array {
    Array::lazy(Op::Param(i), smallvec![], smallvec![], aval)
}

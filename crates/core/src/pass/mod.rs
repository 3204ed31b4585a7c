//! Passes: rewrites of a graph, in the order in which they run. Each takes linear time.

mod cse;
mod epilogue;
mod fuse;
mod simplify;

use crate::error::Result;
use crate::graph::{Graph, GraphNode, Ref};
use crate::op::Op;
use crate::verify;

type Pass = (&'static str, fn(Graph) -> Graph);

const PASSES: &[Pass] = &[
    ("dead code", Graph::without_dead),
    ("simplify", simplify::run),
    ("common subexpressions", cse::run),
    ("fusion", fuse::run),
    ("dead code", Graph::without_dead),
    ("epilogues", epilogue::run),
    ("dead code", Graph::without_dead),
];

/// Runs every pass; in debug builds the graph is verified after each.
///
/// # Errors
/// `Internal` when a pass broke the graph.
pub fn run(mut graph: Graph) -> Result<Graph> {
    verify::check(&graph, "capture")?;
    for (name, pass) in PASSES {
        graph = pass(graph);
        verify::check(&graph, name)?;
    }
    Ok(graph)
}

/// Rebuilds a graph node by node. `step` gets each node with its inputs already moved, and the graph so
/// far; it answers with the values that replace the node's results.
fn rebuild(g: Graph, mut step: impl FnMut(&mut Graph, GraphNode) -> Vec<Ref>) -> Graph {
    let mut out = Graph { inputs: g.inputs, cells: g.cells, ..Graph::default() };
    let mut at: Vec<Vec<Ref>> = Vec::with_capacity(g.nodes.len());
    let moved = |at: &[Vec<Ref>], r: Ref| match r {
        Ref::Node(n, o) => at[n as usize][o as usize],
        r => r,
    };
    for mut node in g.nodes {
        node.ins.iter_mut().for_each(|r| *r = moved(&at, *r));
        let refs = step(&mut out, node);
        at.push(refs);
    }
    out.outputs = g.outputs.iter().map(|&r| moved(&at, r)).collect();
    out
}

/// Appends a node and names its results.
fn push(g: &mut Graph, node: GraphNode) -> Vec<Ref> {
    let n = g.nodes.len() as u32;
    let outs = node.avals.len() as u32;
    g.nodes.push(node);
    (0..outs).map(|o| Ref::Node(n, o)).collect()
}

/// Which nodes make the memory that a kernel writes in place, or views of it. Empty without such kernels.
pub(crate) fn written(g: &Graph) -> Vec<bool> {
    let mut own = Vec::new();
    for (i, node) in g.nodes.iter().enumerate().rev() {
        let sources: &[Ref] = if node.op.is_view() { &node.ins[..1] } else { &node.ins };
        for (k, &r) in sources.iter().enumerate() {
            let writes = match &node.op {
                Op::Custom(c) => c.0.spec.is_mutable(k),
                op => op.is_view() && own.get(i) == Some(&true),
            };
            if let (true, Ref::Node(n, _)) = (writes, r) {
                own.resize(g.nodes.len(), false);
                own[n as usize] = true;
            }
        }
    }
    own
}

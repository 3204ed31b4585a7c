//! The grammar of graphs, checked between passes in debug builds.

use crate::bail;
use crate::error::Result;
use crate::graph::{Graph, Ref};
use crate::op::Op;

/// Checks the graph after a pass; does nothing in release builds.
///
/// # Errors
/// `Internal` naming the pass and the first node that breaks a rule.
pub fn check(g: &Graph, pass: &str) -> Result<()> {
    if cfg!(debug_assertions) { verify(g, pass) } else { Ok(()) }
}

fn verify(g: &Graph, pass: &str) -> Result<()> {
    let known = |r: Ref, before: usize| match r {
        Ref::Input(i) => (i as usize) < g.inputs.len(),
        Ref::Node(n, o) => (n as usize) < before && (o as usize) < g.nodes[n as usize].avals.len(),
    };
    for (i, n) in g.nodes.iter().enumerate() {
        let name = n.op.name();
        if let Some(r) = n.ins.iter().find(|&&r| !known(r, i)) {
            bail!(Internal, "[{pass}] %{i} = {name} reads {r}, which is not there yet");
        }
        if let Some(c) = n.cells.iter().find(|&&c| c as usize >= g.cells.len()) {
            bail!(Internal, "[{pass}] %{i} = {name} reads cell s{c} of {}", g.cells.len());
        }
        let (ins, cells) = match &n.op {
            Op::Param(_) => bail!(Internal, "[{pass}] %{i} is a parameter inside a graph"),
            Op::Elementwise(row) => (row.arity(), 0),
            Op::Full => (0, 1),
            Op::Arange => (0, 2),
            Op::Cast | Op::Reshape | Op::Transpose(_) | Op::Broadcast | Op::Bitcast => (1, 0),
            Op::Contiguous | Op::AsStrided(..) | Op::Reduce(..) | Op::ArgReduce(..) | Op::Scan(..) => (1, 0),
            Op::Slice(steps) => (1, steps.len()),
            Op::SliceUpdate(steps, _) => (2, steps.len()),
            Op::Matmul => (2, 0),
            _ => (n.ins.len(), n.cells.len()),
        };
        if n.ins.len() != ins || n.cells.len() != cells {
            bail!(
                Internal,
                "[{pass}] %{i} = {name} has {} inputs and {} cells; accepted: {ins} and {cells}",
                n.ins.len(),
                n.cells.len()
            );
        }
        if n.avals.is_empty() {
            bail!(Internal, "[{pass}] %{i} = {name} has no result");
        }
        let elems = |r: Ref| g.aval(r).shape.elems();
        if matches!(n.op, Op::Reshape | Op::Contiguous | Op::Transpose(_))
            && elems(n.ins[0]) != n.avals[0].shape.elems()
        {
            bail!(Internal, "[{pass}] %{i} = {name} changes the number of elements");
        }
        if let Op::Epilogue(e) = &n.op
            && (e.ins > n.ins.len() || e.cells > n.cells.len() || n.avals.len() != 1)
        {
            bail!(Internal, "[{pass}] %{i} = {name} has fewer inputs or cells than its first op");
        }
        if let Op::Fused(r) = &n.op {
            let wide = r.nodes.iter().enumerate().all(|(k, node)| match node {
                crate::op::RegionNode::Input { index, dtype } => {
                    n.ins.get(*index as usize).is_some_and(|&x| g.aval(x).dtype == *dtype)
                }
                crate::op::RegionNode::Cell { index, .. } => (*index as usize) < n.cells.len(),
                crate::op::RegionNode::Row { args, row, .. } => {
                    args.len() == row.arity() && args.iter().all(|&a| (a as usize) < k)
                }
                crate::op::RegionNode::Cast { arg, .. } => (*arg as usize) < k,
            });
            if !wide || r.outputs.len() != n.avals.len() {
                bail!(Internal, "[{pass}] %{i} = fused region is not well formed");
            }
        }
    }
    if let Some(r) = g.outputs.iter().find(|&&r| !known(r, g.nodes.len())) {
        bail!(Internal, "[{pass}] the output {r} is not there");
    }
    Ok(())
}

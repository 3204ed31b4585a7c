//! Common subexpressions: a node equal to an earlier one is that one. Scalars are equal when they
//! are the same cell, so nothing depends on their values.

use super::{push, rebuild, written};
use crate::graph::{Graph, GraphNode, Ref};
use crate::op::Op;
use hashbrown::HashMap;

pub(super) fn run(g: Graph) -> Graph {
    let own = written(&g);
    let mut seen: HashMap<GraphNode, Vec<Ref>> = HashMap::new();
    let mut index = 0;
    rebuild(g, |out, node| {
        index += 1;
        // A user's kernel that writes to what it is given, or adds to what is there, runs each time,
        // and what it writes to must be nobody else's.
        let runs_each_time = matches!(&node.op, Op::Custom(c) if !c.0.spec.is_pure());
        if runs_each_time || own.get(index - 1) == Some(&true) {
            return push(out, node);
        }
        if let Some(refs) = seen.get(&node) {
            return refs.clone();
        }
        let refs = push(out, node.clone());
        seen.insert(node, refs.clone());
        refs
    })
}

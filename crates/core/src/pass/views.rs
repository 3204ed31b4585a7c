//! Views: chains of layout ops shorten, those that change nothing vanish, and broadcasts vanish into
//! elementwise ops, which broadcast by themselves.

use super::{push, rebuild};
use crate::graph::{Graph, GraphNode};
use crate::op::Op;

pub(super) fn run(g: Graph) -> Graph {
    rebuild(g, |out, mut node| {
        if let Op::Elementwise(_) = node.op {
            for r in &mut node.ins {
                while let Some(GraphNode { op: Op::Broadcast, ins, .. }) = out.node(*r) {
                    *r = ins[0];
                }
            }
            return push(out, node);
        }
        match (&node.op, node.ins.first().and_then(|&r| out.node(r))) {
            (Op::Reshape, Some(GraphNode { op: Op::Reshape, ins, .. })) => node.ins[0] = ins[0],
            (Op::Broadcast, Some(GraphNode { op: Op::Broadcast, ins, .. })) => node.ins[0] = ins[0],
            (Op::Transpose(outer), Some(GraphNode { op: Op::Transpose(inner), ins, .. })) => {
                let both = outer.iter().map(|&i| inner[i as usize]).collect();
                node.ins[0] = ins[0];
                node.op = Op::Transpose(both);
            }
            _ => {}
        }
        let idle = match &node.op {
            Op::Reshape | Op::Broadcast => *out.aval(node.ins[0]) == node.avals[0],
            Op::Transpose(perm) => perm.iter().enumerate().all(|(i, &p)| i == p as usize),
            _ => false,
        };
        if idle { vec![node.ins[0]] } else { push(out, node) }
    })
}

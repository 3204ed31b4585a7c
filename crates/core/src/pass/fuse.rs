//! Fusion: elementwise ops of one shape become regions that run as one loop over blocks. A producer
//! joins its readers' region when it has no other reader; a scalar fill becomes a cell of the region.

use crate::graph::{Graph, GraphNode, Ref};
use crate::op::{Op, Region, RegionNode};
use hashbrown::{HashMap, HashSet};
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// A region's bounds: what a backend's registers and launch arguments are made for.
const MAX_INPUTS: usize = 12;
const MAX_OPS: usize = 64;

#[derive(Default)]
struct Group {
    /// Nodes from last to first; the first entry is the root.
    members: Vec<u32>,
    /// Values read from outside.
    inputs: HashSet<Ref>,
}

pub(super) fn run(g: Graph) -> Graph {
    let fusible = |n: &GraphNode| matches!(n.op, Op::Elementwise(_) | Op::Cast);
    let is_fill = |r: Ref| matches!(g.node(r), Some(GraphNode { op: Op::Full, .. }));
    let n = g.nodes.len();
    let mut users: Vec<SmallVec<[u32; 4]>> = vec![smallvec![]; n];
    let mut leaves = vec![false; n];
    for (i, node) in g.nodes.iter().enumerate() {
        for &r in &node.ins {
            if let Ref::Node(k, _) = r {
                users[k as usize].push(i as u32);
            }
        }
    }
    for &r in &g.outputs {
        if let Ref::Node(k, _) = r {
            leaves[k as usize] = true;
        }
    }
    let mut group_of = vec![u32::MAX; n];
    let mut groups: Vec<Group> = Vec::new();
    for i in (0..n).rev() {
        let node = &g.nodes[i];
        if !fusible(node) {
            continue;
        }
        let own: HashSet<Ref> = node.ins.iter().copied().filter(|&r| !is_fill(r)).collect();
        let target = users[i].first().map(|&u| group_of[u as usize]).filter(|&t| {
            t != u32::MAX && !leaves[i] && users[i].iter().all(|&u| group_of[u as usize] == t) && {
                let group = &groups[t as usize];
                let root = &g.nodes[group.members[0] as usize];
                let inputs = group.inputs.union(&own).filter(|&&r| r != Ref::Node(i as u32, 0)).count();
                root.avals[0].shape == node.avals[0].shape
                    && inputs <= MAX_INPUTS
                    && group.members.len() < MAX_OPS
            }
        });
        let t = target.unwrap_or_else(|| {
            groups.push(Group::default());
            groups.len() as u32 - 1
        });
        group_of[i] = t;
        let group = &mut groups[t as usize];
        group.members.push(i as u32);
        group.inputs.remove(&Ref::Node(i as u32, 0));
        group.inputs.extend(own);
    }

    let mut out = Graph { inputs: g.inputs.clone(), cells: g.cells.clone(), ..Graph::default() };
    let mut at: Vec<u32> = vec![u32::MAX; n];
    let moved = |at: &[u32], r: Ref| match r {
        Ref::Node(k, o) => Ref::Node(at[k as usize], o),
        r => r,
    };
    for (i, node) in g.nodes.iter().enumerate() {
        let new = match groups.get(group_of[i] as usize) {
            None => GraphNode { ins: node.ins.iter().map(|&r| moved(&at, r)).collect(), ..node.clone() },
            Some(group) if group.members[0] == i as u32 => region(&g, group, |r| moved(&at, r)),
            Some(_) => continue,
        };
        at[i] = out.nodes.len() as u32;
        out.nodes.push(new);
    }
    out.outputs = g.outputs.iter().map(|&r| moved(&at, r)).collect();
    out
}

fn region(g: &Graph, group: &Group, moved: impl Fn(Ref) -> Ref) -> GraphNode {
    let mut nodes: Vec<RegionNode> = Vec::new();
    let mut ids: HashMap<Ref, u32> = HashMap::new();
    let mut ins: SmallVec<[Ref; 3]> = SmallVec::new();
    let mut cells: SmallVec<[u32; 2]> = SmallVec::new();
    let mut fills: HashMap<(u32, crate::Dtype), u32> = HashMap::new();
    for &m in group.members.iter().rev() {
        let node = &g.nodes[m as usize];
        let mut args: SmallVec<[u32; 3]> = SmallVec::new();
        for &r in &node.ins {
            let id = match (ids.get(&r), g.node(r)) {
                (Some(&id), _) => id,
                (None, Some(GraphNode { op: Op::Full, cells: fill, avals, .. })) => {
                    let dtype = avals[0].dtype;
                    *fills.entry((fill[0], dtype)).or_insert_with(|| {
                        nodes.push(RegionNode::Cell { index: cells.len() as u32, dtype });
                        cells.push(fill[0]);
                        nodes.len() as u32 - 1
                    })
                }
                (None, _) => {
                    nodes.push(RegionNode::Input { index: ins.len() as u32, dtype: g.aval(r).dtype });
                    ins.push(moved(r));
                    ids.insert(r, nodes.len() as u32 - 1);
                    nodes.len() as u32 - 1
                }
            };
            args.push(id);
        }
        let dtype = node.avals[0].dtype;
        nodes.push(match &node.op {
            Op::Elementwise(row) => RegionNode::Row { row: *row, args, dtype },
            _ => RegionNode::Cast { arg: args[0], dtype },
        });
        ids.insert(Ref::Node(m, 0), nodes.len() as u32 - 1);
    }
    let root = &g.nodes[group.members[0] as usize];
    let outputs = smallvec![nodes.len() as u32 - 1];
    GraphNode { op: Op::Fused(Arc::new(Region { nodes, outputs })), ins, cells, avals: root.avals.clone() }
}

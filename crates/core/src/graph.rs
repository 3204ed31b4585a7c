//! Graphs: the flat form in which passes see a computation.

use crate::aval::Aval;
use crate::number::Number;
use crate::op::{Op, RegionNode};
use smallvec::SmallVec;
use std::fmt;

/// A value in a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ref {
    /// Input `i`.
    Input(u32),
    /// Output `.1` of node `.0`.
    Node(u32, u32),
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub op: Op,
    pub ins: SmallVec<[Ref; 3]>,
    /// Which of the graph's scalar cells the op reads, in the order of the node's scalars.
    pub cells: SmallVec<[u32; 2]>,
    pub avals: SmallVec<[Aval; 1]>,
}

/// A computation: nodes in an order in which each stands after what it reads.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    pub inputs: Vec<Aval>,
    pub nodes: Vec<GraphNode>,
    pub outputs: Vec<Ref>,
    /// The scalar cells: a number where it is the same in every run, else `None`.
    pub cells: Vec<Option<Number>>,
}

impl Graph {
    pub fn aval(&self, r: Ref) -> &Aval {
        match r {
            Ref::Input(i) => &self.inputs[i as usize],
            Ref::Node(n, o) => &self.nodes[n as usize].avals[o as usize],
        }
    }

    /// The node behind a reference, unless it is an input.
    pub fn node(&self, r: Ref) -> Option<&GraphNode> {
        if let Ref::Node(n, _) = r { Some(&self.nodes[n as usize]) } else { None }
    }

    /// How often each node's results are read, outputs of the graph included.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.nodes.len()];
        let reads = self.nodes.iter().flat_map(|n| &n.ins).chain(&self.outputs);
        for r in reads {
            if let Ref::Node(n, _) = r {
                uses[*n as usize] += 1;
            }
        }
        uses
    }

    /// The graph without the nodes that no output needs.
    pub fn without_dead(self) -> Graph {
        let mut live = vec![false; self.nodes.len()];
        let mark = |live: &mut Vec<bool>, r: Ref| {
            if let Ref::Node(n, _) = r {
                live[n as usize] = true;
            }
        };
        self.outputs.iter().for_each(|&r| mark(&mut live, r));
        for i in (0..self.nodes.len()).rev() {
            if live[i] {
                self.nodes[i].ins.iter().for_each(|&r| mark(&mut live, r));
            }
        }
        if live.iter().all(|&l| l) {
            return self;
        }
        let mut at = vec![0; live.len()];
        let mut nodes = Vec::new();
        let moved = |at: &[u32], r: Ref| match r {
            Ref::Node(n, o) => Ref::Node(at[n as usize], o),
            r => r,
        };
        for (i, mut node) in self.nodes.into_iter().enumerate() {
            if live[i] {
                at[i] = nodes.len() as u32;
                node.ins.iter_mut().for_each(|r| *r = moved(&at, *r));
                nodes.push(node);
            }
        }
        let outputs = self.outputs.iter().map(|&r| moved(&at, r)).collect();
        Graph { inputs: self.inputs, nodes, outputs, cells: self.cells }
    }

    /// Bytes it takes in memory, about.
    pub fn nbytes(&self) -> usize {
        self.nodes.len() * size_of::<GraphNode>()
            + self.inputs.len() * size_of::<Aval>()
            + self.outputs.len() * 12
            + self.cells.len() * size_of::<Option<Number>>()
    }
}

impl fmt::Display for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ref::Input(i) => write!(f, "in{i}"),
            Ref::Node(n, 0) => write!(f, "%{n}"),
            Ref::Node(n, o) => write!(f, "%{n}.{o}"),
        }
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, a) in self.inputs.iter().enumerate() {
            writeln!(f, "in{i}: {a:?}")?;
        }
        for (i, n) in self.nodes.iter().enumerate() {
            write!(f, "%{i} = {}", OpText(&n.op))?;
            let args = n.ins.iter().map(|r| r.to_string()).chain(n.cells.iter().map(|c| format!("s{c}")));
            writeln!(f, "({}) : {:?}", args.collect::<Vec<_>>().join(", "), n.avals)?;
        }
        let outs = self.outputs.iter().map(|r| r.to_string()).collect::<Vec<_>>();
        writeln!(f, "return {}", outs.join(", "))
    }
}

/// An op as plans show it: the name, then what is static in it, where there is something.
pub(crate) struct OpText<'a>(pub(crate) &'a Op);

impl fmt::Display for OpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        match self.0 {
            Op::Fused(r) => {
                let mut text: Vec<String> = Vec::new();
                for n in &r.nodes {
                    text.push(match n {
                        RegionNode::Input { index, .. } => format!("i{index}"),
                        RegionNode::Cell { index, dtype } => format!("c{index}:{dtype}"),
                        RegionNode::Cast { arg, dtype } => format!("{dtype}({})", text[*arg as usize]),
                        RegionNode::Row { row, args, .. } => {
                            let args = args.iter().map(|&a| text[a as usize].clone()).collect::<Vec<_>>();
                            let line = format!("{}({})", row.name(), args.join(", "));
                            if line.len() > 160 { format!("{}(..)", row.name()) } else { line }
                        }
                    });
                }
                let outs: Vec<_> = r.outputs.iter().map(|&o| text[o as usize].clone()).collect();
                write!(f, "fused[{}]", outs.join("; "))
            }
            Op::Epilogue(e) => write!(f, "{} then {}", OpText(&e.first), OpText(&e.second)),
            Op::Transpose(p) => write!(f, "{name}{p:?}"),
            Op::Slice(s) | Op::SliceUpdate(s, _) => write!(f, "{name}[step {s:?}]"),
            Op::Reduce(_, axes) => write!(f, "{name}{axes:?}"),
            Op::ArgReduce(_, a) | Op::Concat(a) | Op::Sort(a) | Op::ArgSort(a) => write!(f, "{name}[{a}]"),
            Op::Rope(r) => write!(f, "{name}{r:?}"),
            Op::Sdpa(s) => write!(f, "{name}{s:?}"),
            Op::Custom(c) => write!(f, "{c:?}"),
            Op::QuantMatmul(q) => write!(f, "{name}[{:?}]", q.format),
            _ => f.write_str(name),
        }
    }
}

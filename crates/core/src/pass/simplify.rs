//! Simplifying: a table of rules. What a rule puts in a node's place has the same bits for every value:
//! NaN, infinities and the sign of zero included.

use super::{push, rebuild, written};
use crate::Dtype;
use crate::graph::{Graph, GraphNode, Ref};
use crate::number::Number;
use crate::op::{Op, Row};

pub(super) fn run(g: Graph) -> Graph {
    let own = written(&g);
    let mut index = 0;
    rebuild(g, |out, mut node| {
        index += 1;
        if own.get(index - 1) == Some(&true) {
            return push(out, node);
        }
        // Inputs are simple already, and each rule shortens the chain behind the node: few rounds.
        'again: loop {
            let site = Site { graph: out, node: &node };
            for (_, rule) in RULES {
                match rule(&site) {
                    None => {}
                    Some(To::Value(r)) => return vec![r],
                    Some(To::Node(n)) => {
                        node = *n;
                        continue 'again;
                    }
                }
            }
            return push(out, node);
        }
    })
}

/// What stands in a node's place.
enum To {
    Value(Ref),
    Node(Box<GraphNode>),
}

type Rule = fn(&Site<'_>) -> Option<To>;

const RULES: &[(&str, Rule)] = &[
    ("x + 0 of integers, x + -0.0 of floats", |s| {
        s.row(Row::Add)?;
        let idle = |r| s.number(r).is_some_and(|n| if s.float() { s.is(n, -0.0) } else { s.is(n, 0.0) });
        s.beside(idle)
    }),
    ("x - 0", |s| {
        s.row(Row::Sub)?;
        s.number(s.node.ins[1]).filter(|&n| s.is(n, 0.0))?;
        s.same(s.node.ins[0])
    }),
    ("x * 1", |s| {
        s.row(Row::Mul)?;
        s.beside(|r| s.number(r).is_some_and(|n| s.is(n, 1.0)))
    }),
    ("x / 1", |s| {
        s.row(Row::Div)?;
        s.number(s.node.ins[1]).filter(|&n| s.is(n, 1.0))?;
        s.same(s.node.ins[0])
    }),
    ("f(f(x)) = x", |s| match s.node.op {
        Op::Elementwise(row @ (Row::Neg | Row::BitNot | Row::LogicalNot | Row::Conjugate)) => {
            s.same(s.inner(Op::Elementwise(row))?.ins[0])
        }
        _ => None,
    }),
    ("f(f(x)) = f(x)", |s| match s.node.op {
        Op::Elementwise(row @ (Row::Abs | Row::Floor | Row::Ceil | Row::Round | Row::Sign)) if s.real() => {
            s.inner(Op::Elementwise(row))?;
            s.same(s.node.ins[0])
        }
        _ => None,
    }),
    ("f(x, x) = x", |s| match s.node.op {
        Op::Elementwise(Row::Max | Row::Min | Row::BitAnd | Row::BitOr) if s.node.ins[0] == s.node.ins[1] => {
            s.same(s.node.ins[0])
        }
        _ => None,
    }),
    ("where(c, x, x) = x", |s| {
        s.row(Row::Select)?;
        if s.node.ins[1] == s.node.ins[2] { s.same(s.node.ins[1]) } else { None }
    }),
    ("a cast through a dtype that holds every value", |s| {
        if s.node.op != Op::Cast {
            return None;
        }
        let inner = s.inner(Op::Cast)?;
        let (from, by, to) = (s.graph.aval(inner.ins[0]).dtype, inner.avals[0].dtype, s.node.avals[0].dtype);
        let alike = to == from || (to.is_float() && from.is_float()) || (whole(to) && whole(from));
        (alike && holds(by, from)).then(|| s.over(inner.ins[0], Op::Cast))
    }),
    ("a cast that changes nothing", |s| if s.node.op == Op::Cast { s.same(s.node.ins[0]) } else { None }),
    ("a transpose that moves axes of extent 1 alone", |s| {
        let Op::Transpose(perm) = &s.node.op else { return None };
        let from = &s.graph.aval(s.node.ins[0]).shape;
        let stays = perm.iter().filter(|&&p| from[p as usize] != 1).is_sorted();
        stays.then(|| s.over(s.node.ins[0], Op::Reshape))
    }),
    ("a view of a view of its kind", |s| {
        let inner = s.graph.node(*s.node.ins.first()?)?;
        let op = match (&s.node.op, &inner.op) {
            (Op::Reshape, Op::Reshape) => Op::Reshape,
            (Op::Broadcast, Op::Broadcast) => Op::Broadcast,
            (Op::Transpose(outer), Op::Transpose(inner)) => {
                Op::Transpose(outer.iter().map(|&i| inner[i as usize]).collect())
            }
            _ => return None,
        };
        Some(s.over(inner.ins[0], op))
    }),
    ("a view that changes nothing", |s| match &s.node.op {
        Op::Reshape | Op::Broadcast => s.same(s.node.ins[0]),
        Op::Transpose(perm) if perm.iter().enumerate().all(|(i, &p)| i == p as usize) => {
            Some(To::Value(s.node.ins[0]))
        }
        _ => None,
    }),
    ("a write converts by itself", |s| match (&s.node.op, s.graph.node(*s.node.ins.get(1)?)) {
        (Op::SliceUpdate(..), Some(GraphNode { op: Op::Cast, ins, .. })) => {
            let ins = smallvec::smallvec![s.node.ins[0], ins[0]];
            Some(To::Node(Box::new(GraphNode { ins, ..s.node.clone() })))
        }
        _ => None,
    }),
    // The last of the table: the rules above compare shapes with the broadcasts in place.
    ("elementwise ops broadcast by themselves", |s| {
        let Op::Elementwise(_) = s.node.op else { return None };
        let source = |r: Ref| match s.graph.node(r) {
            Some(GraphNode { op: Op::Broadcast, ins, .. }) => ins[0],
            _ => r,
        };
        let ins = s.node.ins.iter().map(|&r| source(r)).collect();
        (ins != s.node.ins).then(|| To::Node(Box::new(GraphNode { ins, ..s.node.clone() })))
    }),
];

/// A node to simplify, and the graph before it.
struct Site<'a> {
    graph: &'a Graph,
    node: &'a GraphNode,
}

impl Site<'_> {
    fn dtype(&self) -> Dtype {
        self.node.avals[0].dtype
    }

    fn float(&self) -> bool {
        self.dtype().is_float()
    }

    fn real(&self) -> bool {
        self.dtype() != Dtype::C64
    }

    /// Goes on if the node is this row over real numbers.
    fn row(&self, row: Row) -> Option<()> {
        (self.node.op == Op::Elementwise(row) && self.real()).then_some(())
    }

    /// The node's first input, if it is this op.
    fn inner(&self, op: Op) -> Option<&GraphNode> {
        self.graph.node(self.node.ins[0]).filter(|n| n.op == op)
    }

    /// The number that an array is filled with, if it is the same in every run.
    fn number(&self, r: Ref) -> Option<Number> {
        let mut node = self.graph.node(r)?;
        while let Op::Broadcast | Op::Reshape = node.op {
            node = self.graph.node(node.ins[0])?;
        }
        if node.op == Op::Full { self.graph.cells[node.cells[0] as usize] } else { None }
    }

    /// True when the number is `x`, zeros told apart by their sign.
    fn is(&self, n: Number, x: f64) -> bool {
        n.as_f64().to_bits() == x.to_bits() && !matches!(n, Number::Complex(_))
    }

    /// The value, if it is of the node's shape and dtype.
    fn same(&self, r: Ref) -> Option<To> {
        (*self.graph.aval(r) == self.node.avals[0]).then_some(To::Value(r))
    }

    /// The one of two operands that stands beside an idle one.
    fn beside(&self, idle: impl Fn(Ref) -> bool) -> Option<To> {
        let (a, b) = (self.node.ins[0], self.node.ins[1]);
        let right = if idle(b) { self.same(a) } else { None };
        right.or_else(|| if idle(a) { self.same(b) } else { None })
    }

    /// The node with another op over another input.
    fn over(&self, input: Ref, op: Op) -> To {
        To::Node(Box::new(GraphNode { op, ins: smallvec::smallvec![input], ..self.node.clone() }))
    }
}

fn whole(d: Dtype) -> bool {
    d.int_range().is_some()
}

/// Whether every value of one dtype is a value of the other.
fn holds(wide: Dtype, narrow: Dtype) -> bool {
    match (wide.int_range(), narrow.int_range()) {
        (Some(w), Some(n)) => w.0 <= n.0 && n.1 <= w.1,
        (None, Some(n)) => n == (0, 1),
        (None, None) => wide.is_float() && narrow.is_float() && wide.promote(narrow) == wide,
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Operand;
    use crate::array::next_id;
    use crate::compile::trace::{capture, param};
    use crate::op::scalar_ops::Rule as Takes;
    use crate::{Array, Aval, Result, api, compile};

    fn input(dtype: Dtype) -> Array {
        param(0, Aval::new([2, 3], dtype))
    }

    /// The simplified graph of `f` over a (2, 3) input, and how many nodes it had.
    fn simplified(dtype: Dtype, f: impl Fn(Array) -> Result<Array>) -> (usize, Graph) {
        crate::reference::init();
        let since = next_id();
        let root = f(input(dtype)).unwrap();
        let c = capture(&[root], &[Aval::new([2, 3], dtype)], since).unwrap();
        (c.graph.nodes.len(), run(c.graph).without_dead())
    }

    /// Says that `f` gives its input back.
    fn vanishes(dtype: Dtype, f: impl Fn(Array) -> Result<Array>) {
        let (before, g) = simplified(dtype, f);
        assert!(before > 0 && g.nodes.is_empty() && g.outputs == [Ref::Input(0)], "{dtype}:\n{g}");
    }

    fn stays(dtype: Dtype, f: impl Fn(Array) -> Result<Array>) {
        let (before, g) = simplified(dtype, f);
        assert_eq!(g.nodes.len(), before, "{dtype}:\n{g}");
    }

    #[test]
    fn what_changes_nothing_vanishes() {
        for d in [Dtype::F16, Dtype::F32, Dtype::I32, Dtype::U8] {
            vanishes(d, |x| x.multiply(1));
            vanishes(d, |x| Operand::from(1).cast(x.dtype())?.multiply(&x));
            vanishes(d, |x| x.subtract(0));
            vanishes(d, |x| x.maximum(&x)?.minimum(&x));
            vanishes(d, |x| x.reshape([3, 2])?.reshape([6])?.reshape([2, 3]));
            vanishes(d, |x| x.transpose(&[1, 0])?.transpose(&[1, 0]));
            vanishes(d, |x| x.greater(&x)?.where_(&x, &x));
        }
        vanishes(Dtype::I32, |x| x.add(0));
        vanishes(Dtype::F32, |x| x.add(-0.0));
        vanishes(Dtype::F32, |x| x.divide(1));
        vanishes(Dtype::F32, |x| x.negative()?.negative());
        vanishes(Dtype::Bool, |x| x.logical_not()?.logical_not());
        vanishes(Dtype::F16, |x| x.astype(Dtype::F32)?.astype(Dtype::F64)?.astype(Dtype::F16));
        vanishes(Dtype::U8, |x| x.astype(Dtype::I16)?.astype(Dtype::U8));
        vanishes(Dtype::Bool, |x| x.astype(Dtype::F16)?.astype(Dtype::Bool));
        let (before, g) = simplified(Dtype::F32, |x| x.abs()?.abs()?.floor()?.floor());
        assert_eq!((before, g.nodes.len()), (4, 2));
    }

    #[test]
    fn what_changes_something_stays() {
        // 0.0 would turn -0.0 into 0.0.
        stays(Dtype::F32, |x| x.add(0.0));
        stays(Dtype::F32, |x| x.subtract(-0.0));
        stays(Dtype::F32, |x| x.astype(Dtype::F16)?.astype(Dtype::F32));
        stays(Dtype::F16, |x| x.astype(Dtype::BF16)?.astype(Dtype::F16));
        stays(Dtype::I32, |x| x.astype(Dtype::U32)?.astype(Dtype::I64));
        stays(Dtype::I32, |x| x.astype(Dtype::F32)?.astype(Dtype::I32));
        stays(Dtype::C64, |x| x.multiply(1));
        // Of another shape than x.
        stays(Dtype::F32, |x| x.multiply(api::ones([4, 1, 1], Dtype::F32)?.reshape([4, 1, 1])?));
    }

    fn special(d: Dtype) -> Array {
        let floats = [0.0, -0.0, 1.0, -1.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e-42, 3.4e38, 0.3];
        let ints = [0, 1, -1, 127, -128, 255, 256, 65_535, i32::MAX, i32::MIN];
        let (f, i) = (Array::from_slice(&floats, [10]).unwrap(), Array::from_slice(&ints, [10]).unwrap());
        if d.is_inexact() { f.astype(d) } else { i.astype(d) }.unwrap()
    }

    /// Bytes of the elements, every NaN the same.
    fn bits(a: &Array) -> Vec<u8> {
        let nan = a.isnan().unwrap().to_bytes().unwrap();
        let mut bytes = a.to_bytes().unwrap();
        let size = a.dtype().size();
        nan.iter().enumerate().filter(|(_, n)| **n == 1).for_each(|(i, _)| bytes[i * size..][..size].fill(0));
        bytes
    }

    #[test]
    fn every_row_keeps_its_bits_beside_special_numbers() {
        crate::reference::init();
        let numbers = [0.0f64, -0.0, 1.0, -1.0];
        for dtype in Dtype::ALL {
            let x = special(dtype);
            x.eval().unwrap();
            for &row in Row::ALL {
                let whole_numbers = !dtype.is_inexact() || row.rule() == Takes::Bits;
                for c in numbers {
                    if whole_numbers && c.to_bits() == (-0.0f64).to_bits() {
                        continue;
                    }
                    let number = move |d: Dtype| {
                        let d = if row.rule() == Takes::Bits && d.is_inexact() { Dtype::I32 } else { d };
                        api::full([], c, Some(d))
                    };
                    // One op, and the same op on its own result.
                    let once = move |a: Array, b: Array| match row.arity() {
                        1 => api::elementwise(row, &[a.into()]),
                        2 => api::elementwise(row, &[a.into(), b.into()]),
                        _ => api::elementwise(row, &[a.greater(0)?.into(), a.into(), b.into()]),
                    };
                    for left in [false, true] {
                        let f = move |x: Array| {
                            let n = number(x.dtype())?;
                            let y = if left { once(n.clone(), x) } else { once(x, n.clone()) }?;
                            if left { once(n, y) } else { once(y, n) }
                        };
                        // Uncompiled and one op at a time: nothing to simplify.
                        let step = |x: Array| -> Result<Array> {
                            let n = number(x.dtype())?;
                            n.eval()?;
                            let y = if left { once(n.clone(), x) } else { once(x, n.clone()) }?;
                            y.eval()?;
                            if left { once(n, y) } else { once(y, n) }
                        };
                        let Ok(want) = step(x.clone()) else { continue };
                        let got = compile::compile(f).call(x.clone()).unwrap();
                        assert_eq!(got.dtype(), want.dtype());
                        assert_eq!(bits(&got), bits(&want), "{} {dtype} {c} left: {left}", row.name());
                    }
                }
            }
        }
    }

    #[test]
    fn chains_of_casts_keep_their_bits() {
        crate::reference::init();
        let real = Dtype::ALL.into_iter().filter(|d| *d != Dtype::C64);
        for from in real.clone() {
            let x = special(from);
            x.eval().unwrap();
            for by in real.clone() {
                for to in real.clone() {
                    let y = x.astype(by).unwrap();
                    y.eval().unwrap();
                    let want = y.astype(to).unwrap();
                    let got =
                        compile::compile(move |x: Array| x.astype(by)?.astype(to)).call(x.clone()).unwrap();
                    assert_eq!(bits(&got), bits(&want), "{from} {by} {to}");
                }
            }
        }
    }
}

//! Every row and cast, on every dtype it takes, in every layout.

use crate::*;
use isopace_core::op::scalar_ops::{Rule, dtypes};
use isopace_core::op::{Region, RegionNode, Row};
use std::sync::Arc;

fn region(nodes: Vec<RegionNode>, outputs: &[u32]) -> Op {
    Op::Fused(Arc::new(Region { nodes, outputs: outputs.into() }))
}

fn input(index: u32, dtype: Dtype) -> RegionNode {
    RegionNode::Input { index, dtype }
}

fn row_node(row: Row, args: &[u32], dtype: Dtype) -> RegionNode {
    RegionNode::Row { row, args: args.into(), dtype }
}

const SHAPES: [&[usize]; 6] = [&[7, 13], &[3, 5, 4], &[], &[0, 3], &[1, 1], &[2500]];

/// What each row may differ by from the reference in each dtype.
fn tolerance(row: Row, d: Dtype) -> Tolerance {
    match d {
        Dtype::F16 | Dtype::BF16 => within(if row.ulp() == 0.0 { 0.0 } else { 1.0 }, 0.0),
        // The reference's own functions.
        Dtype::F64 | Dtype::C64 => within(if row == Row::Rsqrt { 1.0 } else { 0.0 }, 0.0),
        _ => within(row.ulp().max(if row == Row::Tanh { 6.0 } else { 0.0 }), 0.0),
    }
}

#[test]
fn every_row_dtype_and_layout() {
    let mut r = Lcg(1);
    for &row in Row::ALL {
        for d in Dtype::ALL {
            let Ok((takes, gives)) = dtypes(row, d) else { continue };
            if takes != d {
                continue;
            }
            for &shape in SHAPES.iter() {
                for layout in LAYOUTS {
                    let (mut lo, hi) = row.domain();
                    if takes.is_unsigned() || takes == Dtype::Bool {
                        lo = lo.max(0.0);
                    }
                    let ins: Vec<Input> = (0..row.arity())
                        .map(|i| {
                            let d = if row.rule() == Rule::Select && i == 0 { Dtype::Bool } else { takes };
                            let range = if d == Dtype::Bool { (-1.0, 1.0) } else { (lo, hi) };
                            let l = if i == 1 { "contiguous" } else { layout };
                            let mut x = Input::random(&mut r, shape, d, range, l);
                            if d == Dtype::Bool {
                                let n = x.bytes.len();
                                x.bytes = (0..n).map(|_| (r.next() & 1) as u8).collect();
                            }
                            x
                        })
                        .collect();
                    let mut nodes: Vec<_> =
                        ins.iter().enumerate().map(|(i, x)| input(i as u32, x.dtype)).collect();
                    nodes.push(row_node(row, &(0..row.arity() as u32).collect::<Vec<_>>(), gives));
                    let op = region(nodes, &[row.arity() as u32]);
                    let out = Aval::new(shape, gives);
                    let name = format!("{} {d} {shape:?} {layout}", row.name());
                    check(&name, &op, &ins, &[], &[out], tolerance(row, gives.promote(takes)));
                }
            }
        }
    }
}

/// Values at which rows have special answers.
#[test]
fn edges() {
    let specials = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-42,
        -1e-42,
        3.4e38,
        -3.4e38,
        65504.0,
        65519.9,
        65520.0,
        1e-8,
        88.0,
        89.0,
        -104.0,
        127.0,
        255.0,
        256.0,
        2147483648.0,
    ];
    let n = specials.len();
    for &row in Row::ALL {
        for d in [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64] {
            let Ok((takes, gives)) = dtypes(row, d) else { continue };
            if takes != d || row == Row::Erfinv {
                continue;
            }
            let a = Input::of(&[n, 1], d, specials);
            let b = Input::of(&[n], d, specials);
            let c = Input::of(&[n], Dtype::Bool, (0..n).map(|i| (i % 3 == 0) as u8 as f64));
            let (ins, shape): (Vec<Input>, Vec<usize>) = match row.arity() {
                1 => (vec![b], vec![n]),
                2 => (vec![a, b], vec![n, n]),
                _ => (vec![c, a, b], vec![n, n]),
            };
            let mut nodes: Vec<_> = ins.iter().enumerate().map(|(i, x)| input(i as u32, x.dtype)).collect();
            nodes.push(row_node(row, &(0..row.arity() as u32).collect::<Vec<_>>(), gives));
            let op = region(nodes, &[row.arity() as u32]);
            let t = tolerance(row, gives.promote(takes));
            check(&format!("{} {d} edges", row.name()), &op, &ins, &[], &[Aval::new(shape, gives)], t);
        }
    }
}

#[test]
fn integer_edges() {
    for d in Dtype::ALL.into_iter().filter(|d| d.is_int()) {
        let (lo, hi) = d.int_range().unwrap();
        let values: Vec<i128> = vec![lo, lo + 1, 0, 1, 2, 7, 31, 33, hi - 1, hi, if lo < 0 { -1 } else { 3 }];
        let n = values.len();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()[..d.size()].to_vec()).collect();
        let a = Input { bytes: bytes.clone(), layout: Layout::contiguous([n, 1].into()), dtype: d };
        let b = Input { bytes, layout: Layout::contiguous([n].into()), dtype: d };
        for &row in Row::ALL {
            let Ok((takes, gives)) = dtypes(row, d) else { continue };
            if takes != d || row.arity() == 3 {
                continue;
            }
            let mut nodes = vec![input(0, d)];
            let (ins, shape) = if row.arity() == 1 {
                (vec![b.clone()], vec![n])
            } else {
                nodes.push(input(1, d));
                (vec![a.clone(), b.clone()], vec![n, n])
            };
            nodes.push(row_node(row, &(0..row.arity() as u32).collect::<Vec<_>>(), gives));
            let op = region(nodes, &[row.arity() as u32]);
            check(&format!("{} {d} edges", row.name()), &op, &ins, &[], &[Aval::new(shape, gives)], EXACT);
        }
    }
}

#[test]
fn every_cast() {
    let mut r = Lcg(2);
    let special = [
        0.0,
        1.0,
        -1.0,
        0.4,
        300.7,
        -1.7,
        2147483648.0,
        -2147483649.5,
        1e19,
        -1e19,
        f64::NAN,
        f64::INFINITY,
        70000.0,
    ];
    for from in Dtype::ALL {
        for to in Dtype::ALL.into_iter().filter(|&t| t != from) {
            let op = region(vec![input(0, from), RegionNode::Cast { arg: 0, dtype: to }], &[1]);
            let name = format!("{from} as {to}");
            for layout in LAYOUTS {
                let x = Input::random(&mut r, &[5, 7], from, (-300.0, 300.0), layout);
                check(&name, &op, &[x], &[], &[Aval::new([5, 7], to)], EXACT);
            }
            if from.is_inexact() {
                let x = Input::of(&[special.len()], from, special);
                check(&name, &op, &[x], &[], &[Aval::new([special.len()], to)], EXACT);
            }
        }
    }
}

#[test]
fn scalars_of_every_kind_in_every_dtype() {
    let numbers = [
        Number::Bool(true),
        Number::Int(-3),
        Number::Int(77),
        Number::Int(1 << 40),
        Number::Float(2.75),
        Number::Float(-0.1),
        Number::Float(1e300),
        Number::Float(f64::NAN),
        Number::Complex(isopace_core::Complex::new(1.5, -2.0)),
    ];
    for d in Dtype::ALL {
        let op = region(vec![RegionNode::Cell { index: 0, dtype: d }], &[0]);
        for n in numbers {
            check(&format!("full {n:?} {d}"), &op, &[], &[n], &[Aval::new([3, 2], d)], EXACT);
        }
    }
}

/// Random regions: fused equals one op at a time, and equals the reference.
#[test]
fn random_regions() {
    let mut r = Lcg(3);
    let rows =
        [Row::Add, Row::Sub, Row::Mul, Row::Max, Row::Min, Row::Neg, Row::Abs, Row::Square, Row::Floor];
    for round in 0..300 {
        let d = [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::I32, Dtype::F64, Dtype::U8][round % 6];
        let shape: &[usize] = [&[4, 9][..], &[3000], &[2, 3, 40000 / 6 + 1], &[]][r.below(4)];
        let ins: Vec<Input> = (0..3)
            .map(|_| {
                let l = LAYOUTS[r.below(5)];
                Input::random(&mut r, shape, d, (0.0, 3.0), l)
            })
            .collect();
        let mut nodes: Vec<RegionNode> = (0..3).map(|i| input(i, d)).collect();
        nodes.push(RegionNode::Cell { index: 0, dtype: d });
        for _ in 0..1 + r.below(9) {
            let row = rows[r.below(if d == Dtype::U8 { 5 } else { rows.len() })];
            let n = nodes.len();
            let args: Vec<u32> = (0..row.arity()).map(|_| r.below(n) as u32).collect();
            nodes.push(row_node(row, &args, d));
        }
        let last = nodes.len() as u32 - 1;
        let outputs = if round % 4 == 0 { vec![last, r.below(last as usize) as u32] } else { vec![last] };
        let outs: Vec<Aval> = outputs.iter().map(|_| Aval::new(shape, d)).collect();
        let op = region(nodes, &outputs);
        check(&format!("region {round} {d} {op:?}"), &op, &ins, &[Number::Float(1.25)], &outs, EXACT);
    }
}

/// Reductions of regions give the bits of the region followed by the reduction, however long the rows,
/// whatever the layout, and agree with the reference.
#[test]
fn reductions_of_regions() {
    use isopace_core::op::{Epilogue, ReduceKind};
    let mut r = Lcg(6);
    for d in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16] {
        let nodes = vec![
            input(0, d),
            input(1, d),
            row_node(Row::Mul, &[0, 1], d),
            RegionNode::Cell { index: 0, dtype: d },
            row_node(Row::Add, &[2, 3], d),
        ];
        let square = region(nodes, &[4]);
        for (shape, axes) in [
            (vec![3, 5], vec![1]),
            (vec![2, 3, 1000], vec![1, 2]),
            (vec![700, 3], vec![1]),
            (vec![5, 4099], vec![1]),
            (vec![2, 300_000], vec![1]),
            (vec![9, 70], vec![0, 1]),
            (vec![4, 0], vec![1]),
            (vec![0, 4], vec![1]),
        ] {
            for layout in LAYOUTS {
                let x = Input::random(&mut r, &shape, d, (0.5, 1.5), layout);
                let w = Input::random(&mut r, &shape[shape.len() - 1..], d, (-1.0, 1.0), "contiguous");
                let out: Vec<usize> = shape[..shape.len() - axes.len()].to_vec();
                for kind in [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max] {
                    if kind == ReduceKind::Max && shape.contains(&0) {
                        continue;
                    }
                    let reduce = Op::Reduce(kind, axes.as_slice().into());
                    let between = Aval::new(shape.as_slice(), d);
                    let (one, outs) = ([Number::Float(0.25)], [Aval::new(out.as_slice(), d)]);
                    let ins = [x.clone(), w.clone()];
                    let made = on_cpu(&square, &ins, &one, std::slice::from_ref(&between));
                    let whole =
                        Input { bytes: made, ..Input::of(&shape, d, vec![0.0; between.shape.elems()]) };
                    let want = on_cpu(&reduce, &[whole], &[], &outs);
                    let joined = Op::Epilogue(Arc::new(Epilogue {
                        first: square.clone(),
                        ins: 2,
                        cells: 1,
                        made: between.clone(),
                        between,
                        second: reduce,
                    }));
                    let got = on_cpu(&joined, &ins, &one, &outs);
                    assert!(got == want, "{kind:?} of {d} {shape:?} {layout}");
                    if d != Dtype::F16 && d != Dtype::BF16 && kind == ReduceKind::Max {
                        check("maximum of a region", &joined, &ins, &one, &outs, EXACT);
                    }
                }
            }
        }
    }
}

use super::*;
use crate::op::{Region, RegionNode, Row};
use smallvec::smallvec;
use std::sync::Arc;

fn row(row: Row, ins: &[Tensor], shape: &[usize], dtype: Dtype) -> Tensor {
    run(Op::Elementwise(row), ins, &[], shape, dtype)
}

#[test]
fn rows_broadcast_and_round() {
    let sum = row(Row::Add, &[range([2, 1]), range([3])], &[2, 3], Dtype::F32);
    same(&sum, &[0.0, 1.0, 2.0, 1.0, 2.0, 3.0]);
    let one = floats([], Dtype::BF16, &[1.0]);
    same(&row(Row::Add, &[one.clone(), floats([], Dtype::BF16, &[0.001])], &[], Dtype::BF16), &[1.0]);
    same(&row(Row::Add, &[range([0, 3]), range([3])], &[0, 3], Dtype::F32), &[]);
    let u8s = |v: &[i128]| ints([v.len()], Dtype::U8, v);
    assert_eq!(row(Row::Add, &[u8s(&[200]), u8s(&[100])], &[1], Dtype::U8), u8s(&[44]));
    assert_eq!(row(Row::BitNot, &[u8s(&[1])], &[1], Dtype::U8), u8s(&[254]));
}

#[test]
fn rows_change_kind() {
    let z = complexes(&[(3.0, 4.0), (NAN, 0.0)]);
    same(&row(Row::Abs, from_ref(&z), &[2], Dtype::F32), &[5.0, NAN]);
    assert_eq!(row(Row::IsNan, from_ref(&z), &[2], Dtype::Bool), ints([2], Dtype::Bool, &[0, 1]));
    let less = row(Row::Lt, &[f32s([2], &[1.0, NAN]), f32s([2], &[2.0, 2.0])], &[2], Dtype::Bool);
    assert_eq!(less, ints([2], Dtype::Bool, &[1, 0]));
    let mask = ints([2, 1], Dtype::Bool, &[1, 0]);
    let picked =
        row(Row::Select, &[mask.clone(), f32s([2], &[1.0, 2.0]), f32s([], &[9.0])], &[2, 2], Dtype::F32);
    same(&picked, &[1.0, 2.0, 9.0, 9.0]);
    let picked =
        row(Row::Select, &[mask, complexes(&[(1.0, 1.0)]), complexes(&[(0.0, 2.0)])], &[2, 1], Dtype::C64);
    assert_eq!(picked.complexes(), [C64::new(1.0, 1.0), C64::new(0.0, 2.0)]);
    assert!(try_run(Op::Elementwise(Row::Erf), &[z], &[], &[2], Dtype::C64).is_err());
}

/// Every row runs on every dtype it takes, and on an empty array.
#[test]
fn every_row_takes_its_dtypes() {
    for &r in Row::ALL {
        for d in Dtype::ALL {
            let Ok((takes, gives)) = crate::op::scalar_ops::dtypes(r, d) else { continue };
            for n in [0, 2] {
                let operand = ints([n], Dtype::I32, &[1, 2][..n]).cast(takes);
                let mut ins = vec![operand; r.arity()];
                if r == Row::Select {
                    ins[0] = ins[0].cast(Dtype::Bool);
                }
                row(r, &ins, &[n], gives);
            }
        }
    }
}

#[test]
fn casts_follow_the_rule() {
    let cast = |t: &Tensor, to| t.cast(to).floats();
    let x = floats([7], Dtype::F64, &[300.7, -1.7, NAN, INF, 3e9, -0.5, 1e19]);
    let lowest = i32::MIN as f64;
    let lowest64 = i64::MIN as f64;
    assert_eq!(cast(&x, Dtype::I32), [300.0, -1.0, lowest, lowest, lowest, 0.0, lowest]);
    assert_eq!(cast(&x, Dtype::U8), [44.0, 255.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(cast(&x, Dtype::I64), [300.0, -1.0, lowest64, lowest64, 3e9, 0.0, lowest64]);
    assert_eq!(cast(&x, Dtype::U32), [300.0, 4294967295.0, 0.0, 0.0, 3e9, 0.0, 0.0]);
    assert_eq!(cast(&x, Dtype::Bool), [1.0; 7]);
    assert_eq!(cast(&f32s([2], &[0.0, -0.0]), Dtype::Bool), [0.0, 0.0]);
    let big = ints([2], Dtype::I64, &[(1 << 24) + 1, i64::MAX as i128]);
    assert_eq!(cast(&big, Dtype::F32), [16777216.0, 9223372036854775808.0]);
    assert_eq!(cast(&big, Dtype::I8), [1.0, -1.0]);
    let z = complexes(&[(2.5, 9.0), (0.0, 1.0)]);
    assert_eq!(cast(&z, Dtype::F16), [2.5, 0.0]);
    assert_eq!(cast(&z, Dtype::I32), [2.0, 0.0]);
    assert_eq!(cast(&z, Dtype::Bool), [1.0, 1.0]);
    // To 16 bits through float32: a float64 just above a halfway point ties there.
    let halfway = floats([1], Dtype::F64, &[1.0 + 1.0 / 256.0 + 1e-12]);
    assert_eq!(cast(&halfway, Dtype::BF16), [1.0]);
}

#[test]
fn fills_and_ranges() {
    let full = |n: Number, d| run(Op::Full, &[], &[n], &[2], d).floats();
    assert_eq!(full(Number::Float(0.1), Dtype::F32), [0.1f32 as f64; 2]);
    assert_eq!(full(Number::Float(0.1), Dtype::F64), [0.1; 2]);
    assert_eq!(full(Number::Int(-1), Dtype::U64), [u64::MAX as f64; 2]);
    assert_eq!(full(Number::Bool(true), Dtype::F16), [1.0; 2]);
    let z = run(Op::Full, &[], &[Number::Complex(Complex::new(1.0, 2.0))], &[1], Dtype::C64);
    assert_eq!(z.complexes(), [C64::new(1.0, 2.0)]);
    let arange = |a: Number, b: Number, n: usize, d| run(Op::Arange, &[], &[a, b], &[n], d).floats();
    assert_eq!(arange(5.into(), (-2).into(), 3, Dtype::I32), [5.0, 3.0, 1.0]);
    assert_eq!(arange(250.into(), 5.into(), 3, Dtype::U8), [250.0, 255.0, 4.0]);
    let tenths = arange(0.0.into(), 0.1.into(), 1001, Dtype::F32);
    assert_eq!(tenths[1000], 100.0);
    assert_eq!(arange(0.0.into(), 0.5.into(), 4, Dtype::I32), [0.0, 0.0, 1.0, 1.0]);
    assert!(arange(0.into(), 1.into(), 0, Dtype::I64).is_empty());
}

/// (x + s) * s in half precision rounds after each op, and one region may give several outputs.
#[test]
fn regions_round_after_every_node() {
    let d = Dtype::F16;
    let region = Region {
        nodes: vec![
            RegionNode::Input { index: 0, dtype: d },
            RegionNode::Cell { index: 0, dtype: d },
            RegionNode::Row { row: Row::Add, args: smallvec![0, 1], dtype: d },
            RegionNode::Row { row: Row::Mul, args: smallvec![2, 1], dtype: d },
            RegionNode::Cast { arg: 3, dtype: Dtype::I32 },
        ],
        outputs: smallvec![4, 2],
    };
    let outs = [Aval::new([2, 2], Dtype::I32), Aval::new([2, 2], d)];
    let x = floats([2], d, &[2048.0, 1.0]);
    let made = compute(&Op::Fused(Arc::new(region)), &[x], &[Number::Int(1)], &outs).unwrap();
    assert_eq!(made[0], ints([2, 2], Dtype::I32, &[2048, 2, 2048, 2]));
    same(&made[1], &[2048.0, 2.0, 2048.0, 2.0]);
}

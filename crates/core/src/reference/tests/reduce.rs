use super::*;
use crate::op::{ArgKind, ReduceKind, ScanKind};
use smallvec::smallvec;

fn reduce(kind: ReduceKind, axes: &[u8], x: &Tensor, shape: &[usize]) -> Tensor {
    run(Op::Reduce(kind, axes.into()), from_ref(x), &[], shape, kind.dtype(x.dtype))
}

#[test]
fn reductions_by_hand() {
    let x = range([2, 3]);
    same(&reduce(ReduceKind::Sum, &[0], &x, &[3]), &[3.0, 5.0, 7.0]);
    same(&reduce(ReduceKind::Sum, &[1], &x, &[2]), &[3.0, 12.0]);
    same(&reduce(ReduceKind::Sum, &[0, 1], &x, &[]), &[15.0]);
    same(&reduce(ReduceKind::Sum, &[], &x, &[2, 3]), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    same(&reduce(ReduceKind::Prod, &[1], &x, &[2]), &[0.0, 60.0]);
    same(&reduce(ReduceKind::Max, &[0], &x, &[3]), &[3.0, 4.0, 5.0]);
    let cube = range([2, 3, 2]);
    same(&reduce(ReduceKind::Sum, &[0, 2], &cube, &[3]), &[14.0, 22.0, 30.0]);
}

#[test]
fn integers_widen_and_wrap() {
    let bytes = ints([2], Dtype::U8, &[200, 200]);
    assert_eq!(reduce(ReduceKind::Sum, &[0], &bytes, &[]), ints([], Dtype::U32, &[400]));
    let flags = ints([3], Dtype::Bool, &[1, 1, 0]);
    assert_eq!(reduce(ReduceKind::Sum, &[0], &flags, &[]), ints([], Dtype::I32, &[2]));
    let big = ints([2], Dtype::I32, &[i32::MAX as i128, 1]);
    assert_eq!(reduce(ReduceKind::Sum, &[0], &big, &[]), ints([], Dtype::I32, &[i32::MIN as i128]));
    let threes = ints([200], Dtype::I64, &[3; 200]);
    let want = (0..200).fold(1i64, |a, _| a.wrapping_mul(3));
    assert_eq!(reduce(ReduceKind::Prod, &[0], &threes, &[]), ints([], Dtype::I64, &[want as i128]));
}

#[test]
fn sums_keep_small_terms() {
    let ones = floats([4096], Dtype::BF16, &[1.0; 4096]);
    same(&reduce(ReduceKind::Sum, &[0], &ones, &[]), &[4096.0]);
    let tenths = floats([1 << 16], Dtype::F64, &[0.1; 1 << 16]);
    near(&reduce(ReduceKind::Sum, &[0], &tenths, &[]), &[6553.6], 1e-15);
}

#[test]
fn nan_wins_and_any_counts_it() {
    let x = f32s([2, 3], &[1.0, NAN, 3.0, 2.0, -INF, 0.0]);
    same(&reduce(ReduceKind::Max, &[1], &x, &[2]), &[NAN, 2.0]);
    same(&reduce(ReduceKind::Min, &[1], &x, &[2]), &[NAN, -INF]);
    same(&reduce(ReduceKind::Any, &[1], &f32s([2, 1], &[NAN, -0.0]), &[2]), &[1.0, 0.0]);
    same(&reduce(ReduceKind::All, &[0], &x, &[3]), &[1.0, 1.0, 0.0]);
    let arg = |kind, axis, x: &Tensor, shape: &[usize]| {
        run(Op::ArgReduce(kind, axis), from_ref(x), &[], shape, Dtype::U32).floats()
    };
    assert_eq!(arg(ArgKind::Max, 1, &x, &[2]), [1.0, 0.0]);
    assert_eq!(arg(ArgKind::Min, 1, &x, &[2]), [1.0, 1.0]);
    assert_eq!(arg(ArgKind::Max, 0, &ints([3, 2], Dtype::U8, &[5, 1, 5, 2, 0, 2]), &[2]), [0.0, 1.0]);
    assert_eq!(arg(ArgKind::Min, 0, &complexes(&[(1.0, 2.0), (1.0, -1.0), (2.0, -9.0)]), &[]), [1.0]);
}

#[test]
fn log_sum_exp_does_not_overflow() {
    let x = f32s([4, 2], &[1000.0, 1000.0, -INF, -INF, INF, 0.0, NAN, 1.0]);
    let want = [1000.0 + 2f64.ln(), -INF, INF, NAN];
    near(&reduce(ReduceKind::LogSumExp, &[1], &x, &[4]), &want, 1e-7);
    near(&reduce(ReduceKind::LogSumExp, &[0], &ints([2], Dtype::I32, &[0, 0]), &[]), &[2f64.ln()], 1e-7);
    let z = reduce(ReduceKind::LogSumExp, &[0], &complexes(&[(0.0, 1.0), (0.0, -1.0)]), &[]).complexes()[0];
    assert!((z.re - (2.0 * 1f64.cos()).ln()).abs() < 1e-6 && z.im.abs() < 1e-6);
}

#[test]
fn nothing_reduces_to_the_identity() {
    let none = range([2, 0]);
    same(&reduce(ReduceKind::Sum, &[1], &none, &[2]), &[0.0, 0.0]);
    same(&reduce(ReduceKind::Prod, &[1], &none, &[2]), &[1.0, 1.0]);
    same(&reduce(ReduceKind::Any, &[1], &none, &[2]), &[0.0, 0.0]);
    same(&reduce(ReduceKind::All, &[1], &none, &[2]), &[1.0, 1.0]);
    same(&reduce(ReduceKind::Max, &[0], &none, &[0]), &[]);
    for kind in [ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp] {
        assert!(try_run(Op::Reduce(kind, smallvec![1]), from_ref(&none), &[], &[2], Dtype::F32).is_err());
    }
    assert!(try_run(Op::ArgReduce(ArgKind::Max, 1), &[none], &[], &[2], Dtype::U32).is_err());
}

#[test]
fn scans_by_hand() {
    let scan = |kind, axis, reverse, inclusive, x: &Tensor| {
        let d = if kind == ScanKind::LogAddExp { x.dtype.to_inexact() } else { x.dtype };
        run(Op::Scan(kind, axis, reverse, inclusive), from_ref(x), &[], &x.shape.clone(), d)
    };
    let x = f32s([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    same(&scan(ScanKind::Sum, 1, false, true, &x), &[1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    same(&scan(ScanKind::Sum, 0, false, true, &x), &[1.0, 2.0, 3.0, 5.0, 7.0, 9.0]);
    same(&scan(ScanKind::Sum, 1, true, true, &x), &[6.0, 5.0, 3.0, 15.0, 11.0, 6.0]);
    same(&scan(ScanKind::Sum, 1, false, false, &x), &[0.0, 1.0, 3.0, 0.0, 4.0, 9.0]);
    same(&scan(ScanKind::Sum, 1, true, false, &x), &[5.0, 3.0, 0.0, 11.0, 6.0, 0.0]);
    same(&scan(ScanKind::Prod, 1, false, false, &x), &[1.0, 1.0, 2.0, 1.0, 4.0, 20.0]);
    same(&scan(ScanKind::Max, 1, false, false, &x), &[-INF, 1.0, 2.0, -INF, 4.0, 5.0]);
    same(&scan(ScanKind::Min, 1, true, true, &x), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    same(&scan(ScanKind::Max, 0, false, true, &f32s([4], &[1.0, NAN, 3.0, 0.0])), &[1.0, NAN, NAN, NAN]);
    let bytes = ints([2], Dtype::U8, &[200, 200]);
    assert_eq!(scan(ScanKind::Sum, 0, false, true, &bytes), ints([2], Dtype::U8, &[200, 144]));
    assert_eq!(scan(ScanKind::Min, 0, false, false, &bytes), ints([2], Dtype::U8, &[255, 200]));
    assert_eq!(
        scan(ScanKind::Max, 0, false, false, &ints([1], Dtype::I8, &[3])),
        ints([1], Dtype::I8, &[-128])
    );
    let l = scan(ScanKind::LogAddExp, 0, false, true, &f32s([3], &[-INF, 0.0, 0.0]));
    near(&l, &[-INF, 0.0, 2f64.ln()], 1e-7);
    same(&scan(ScanKind::LogAddExp, 0, false, false, &f32s([2], &[1.0, 0.0])), &[-INF, 1.0]);
    same(&scan(ScanKind::Sum, 1, false, true, &range([2, 0])), &[]);
    // 16-bit sums do not stall.
    let ones = floats([4096], Dtype::BF16, &[1.0; 4096]);
    assert_eq!(scan(ScanKind::Sum, 0, false, true, &ones).floats()[4095], 4096.0);
    let z = complexes(&[(1.0, 1.0), (1.0, 0.0), (2.0, 0.0)]);
    let z = scan(ScanKind::Max, 0, false, true, &z).complexes();
    assert_eq!(z, [C64::new(1.0, 1.0), C64::new(1.0, 1.0), C64::new(2.0, 0.0)]);
}

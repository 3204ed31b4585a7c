use super::*;
use crate::op::{Combine, Gather, Scatter};
use smallvec::smallvec;

fn i32s(v: &[i128]) -> Tensor {
    ints([v.len()], Dtype::I32, v)
}

#[test]
fn gathers_clamp() {
    let x = range([3, 2]);
    let rows = Gather { axes: smallvec![0], sizes: smallvec![1, 2] };
    let got = run(Op::Gather(rows.clone()), &[x.clone(), i32s(&[-1, 0, 9, -9])], &[], &[4, 1, 2], Dtype::F32);
    same(&got, &[4.0, 5.0, 0.0, 1.0, 4.0, 5.0, 0.0, 1.0]);
    let points = Gather { axes: smallvec![0, 1], sizes: smallvec![1, 1] };
    let ins = [x.clone(), i32s(&[0, 2]), ints([2], Dtype::U64, &[1, u64::MAX as i128])];
    same(&run(Op::Gather(points), &ins, &[], &[2, 1, 1], Dtype::F32), &[1.0, 5.0]);
    let pairs = Gather { axes: smallvec![0], sizes: smallvec![2, 1] };
    same(
        &run(Op::Gather(pairs), &[x.clone(), i32s(&[2, 1])], &[], &[2, 2, 1], Dtype::F32),
        &[2.0, 4.0, 2.0, 4.0],
    );
    same(&run(Op::Gather(rows.clone()), &[x.clone(), i32s(&[])], &[], &[0, 1, 2], Dtype::F32), &[]);
    assert!(
        try_run(Op::Gather(rows.clone()), &[range([0, 2]), i32s(&[0])], &[], &[1, 1, 2], Dtype::F32).is_err()
    );
    assert!(try_run(Op::Gather(rows), &[x, f32s([1], &[0.0])], &[], &[1, 1, 2], Dtype::F32).is_err());
}

#[test]
fn scatters_drop_and_combine() {
    let x = range([3, 2]);
    let put = |combine, index: &[i128], updates: &[f64]| {
        let op = Op::Scatter(Scatter { axes: smallvec![0], combine });
        let ins = [x.clone(), i32s(index), f32s([index.len(), 1, 2], updates)];
        run(op, &ins, &[], &[3, 2], Dtype::F32).floats()
    };
    let u = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0];
    assert_eq!(put(Combine::Set, &[0, 0, -1], &u), [30.0, 40.0, 2.0, 3.0, 50.0, 60.0]);
    assert_eq!(put(Combine::Set, &[3, -4, 1], &u), [0.0, 1.0, 50.0, 60.0, 4.0, 5.0]);
    assert_eq!(put(Combine::Add, &[1, 1, 1], &u), [0.0, 1.0, 92.0, 123.0, 4.0, 5.0]);
    assert_eq!(put(Combine::Mul, &[1, 2], &u[..4]), [0.0, 1.0, 20.0, 60.0, 120.0, 200.0]);
    assert_eq!(put(Combine::Min, &[1], &[0.0, NAN])[2], 0.0);
    assert!(put(Combine::Max, &[1], &[0.0, NAN])[3].is_nan());
    assert_eq!(put(Combine::Set, &[], &[]), x.floats());
    let op = Op::Scatter(Scatter { axes: smallvec![0], combine: Combine::Add });
    let halves = [
        floats([1], Dtype::F16, &[0.0]),
        ints([4096], Dtype::I32, &[0; 4096]),
        floats([4096, 1], Dtype::F16, &[1.0; 4096]),
    ];
    same(&run(op, &halves, &[], &[1], Dtype::F16), &[4096.0]);
}

#[test]
fn along_an_axis() {
    let x = range([2, 3]);
    let take = |axis, index: &Tensor, shape: &[usize]| {
        run(Op::TakeAlong(axis), &[x.clone(), index.clone()], &[], shape, Dtype::F32)
    };
    same(&take(1, &ints([2, 2], Dtype::I32, &[2, -3, 0, 9]), &[2, 2]), &[2.0, 0.0, 3.0, 5.0]);
    same(&take(1, &ints([1, 2], Dtype::U8, &[2, 0]), &[2, 2]), &[2.0, 0.0, 5.0, 3.0]);
    same(&take(0, &ints([1, 3], Dtype::I64, &[1, 0, -1]), &[1, 3]), &[3.0, 1.0, 5.0]);
    same(&take(1, &ints([2, 0], Dtype::I32, &[]), &[2, 0]), &[]);
    let put = |combine, index: Tensor, updates: Tensor| {
        run(Op::ScatterAlong(1, combine), &[x.clone(), index, updates], &[], &[2, 3], Dtype::F32)
    };
    let index = ints([2, 2], Dtype::I32, &[0, -1, 5, 1]);
    let updates = f32s([2, 2], &[10.0, 20.0, 30.0, 40.0]);
    same(&put(Combine::Set, index.clone(), updates), &[10.0, 1.0, 20.0, 3.0, 40.0, 5.0]);
    same(&put(Combine::Add, index, f32s([], &[1.0])), &[1.0, 1.0, 3.0, 3.0, 5.0, 5.0]);
    same(
        &put(Combine::Add, ints([2, 2], Dtype::I32, &[0, 0, 1, 1]), f32s([2, 1], &[1.0, 2.0])),
        &[2.0, 1.0, 2.0, 3.0, 8.0, 5.0],
    );
    assert!(try_run(Op::TakeAlong(0), &[range([0]), i32s(&[0])], &[], &[1], Dtype::F32).is_err());
}

#[test]
fn masks_consume_updates_in_order() {
    let x = range([2, 2]);
    let mask = ints([2, 2], Dtype::Bool, &[0, 1, 1, 0]);
    let put = |mask: &Tensor, updates: &[f64]| {
        let ins = [x.clone(), mask.clone(), f32s([updates.len()], updates)];
        try_run(Op::MaskedScatter, &ins, &[], &[2, 2], Dtype::F32)
    };
    same(&put(&mask, &[8.0, 9.0, 10.0]).unwrap(), &[0.0, 8.0, 9.0, 3.0]);
    assert!(matches!(put(&mask, &[8.0]), Err(Error::Argument(_))));
    same(&put(&ints([2, 2], Dtype::Bool, &[0; 4]), &[]).unwrap(), &x.floats());
    same(&put(&ints([2, 1], Dtype::Bool, &[0, 1]), &[8.0, 9.0]).unwrap(), &[0.0, 1.0, 8.0, 9.0]);
}

#[test]
fn slices_at_data_are_clamped() {
    let x = range([3, 4]);
    let slice = |starts: &[i128], axes: &[u8]| {
        run(Op::DynamicSlice(axes.into()), &[x.clone(), i32s(starts)], &[], &[2, 2], Dtype::F32).floats()
    };
    assert_eq!(slice(&[0, 1], &[0, 1]), [1.0, 2.0, 5.0, 6.0]);
    assert_eq!(slice(&[1, 0], &[1, 0]), [1.0, 2.0, 5.0, 6.0]);
    assert_eq!(slice(&[99], &[1]), [2.0, 3.0, 6.0, 7.0]);
    assert_eq!(slice(&[-2, -99], &[0, 1]), [4.0, 5.0, 8.0, 9.0]);
    let put = |starts: &[i128]| {
        let ins = [x.clone(), f32s([1, 2], &[50.0, 60.0]), i32s(starts)];
        run(Op::DynamicSliceUpdate(smallvec![0, 1]), &ins, &[], &[3, 4], Dtype::F32).floats()
    };
    assert_eq!(put(&[1, 1])[5..7], [50.0, 60.0]);
    assert_eq!(put(&[9, 9])[10..], [50.0, 60.0]);
}

#[test]
fn slice_updates_step_and_combine() {
    let x = range([6]);
    let put = |step: i64, start: i64, combine, u: &[f64]| {
        let op = Op::SliceUpdate(smallvec![step], combine);
        try_run(op, &[x.clone(), f32s([u.len()], u)], &[start.into()], &[6], Dtype::F32)
    };
    same(&put(1, 2, Combine::Set, &[8.0, 9.0]).unwrap(), &[0.0, 1.0, 8.0, 9.0, 4.0, 5.0]);
    same(&put(-2, 5, Combine::Set, &[7.0, 8.0, 9.0]).unwrap(), &[0.0, 9.0, 2.0, 8.0, 4.0, 7.0]);
    same(&put(2, 0, Combine::Add, &[1.0, 1.0]).unwrap(), &[1.0, 1.0, 3.0, 3.0, 4.0, 5.0]);
    same(&put(1, 6, Combine::Set, &[]).unwrap(), &x.floats());
    assert!(matches!(put(1, 5, Combine::Set, &[1.0, 2.0]), Err(Error::Axis(_))));
    assert!(matches!(put(1, -1, Combine::Set, &[1.0]), Err(Error::Axis(_))));
}

#[test]
fn joins_and_pads() {
    let a = range([2, 1]);
    let b = range([2, 2]);
    let joined = run(Op::Concat(1), &[a.clone(), b, range([2, 0])], &[], &[2, 3], Dtype::F32);
    same(&joined, &[0.0, 0.0, 1.0, 1.0, 2.0, 3.0]);
    same(&run(Op::Concat(0), &[a.clone(), a.clone()], &[], &[4, 1], Dtype::F32), &[0.0, 1.0, 0.0, 1.0]);
    let pad = Op::Pad(smallvec![1, 0]);
    same(
        &run(pad, &[a, f32s([], &[9.0])], &[], &[3, 3], Dtype::F32),
        &[9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 1.0, 9.0, 9.0],
    );
    let pad = Op::Pad(smallvec![1]);
    same(&run(pad, &[range([0]), f32s([], &[NAN])], &[], &[2], Dtype::F32), &[NAN, NAN]);
}

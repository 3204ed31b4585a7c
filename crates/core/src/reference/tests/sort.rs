use super::*;

#[test]
fn sorts_are_stable_with_nan_last() {
    let x = f32s([2, 4], &[3.0, NAN, -1.0, 2.0, 0.0, -0.0, -INF, INF]);
    same(
        &run(Op::Sort(1), from_ref(&x), &[], &[2, 4], Dtype::F32),
        &[-1.0, 2.0, 3.0, NAN, -INF, 0.0, 0.0, INF],
    );
    same(
        &run(Op::ArgSort(1), from_ref(&x), &[], &[2, 4], Dtype::U32),
        &[2.0, 3.0, 0.0, 1.0, 2.0, 0.0, 1.0, 3.0],
    );
    same(
        &run(Op::Sort(0), from_ref(&x), &[], &[2, 4], Dtype::F32),
        &[0.0, -0.0, -INF, 2.0, 3.0, NAN, -1.0, INF],
    );
    same(&run(Op::ArgSort(0), &[x], &[], &[2, 4], Dtype::U32), &[1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let equal = ints([3000], Dtype::I8, &[7; 3000]);
    let places = run(Op::ArgSort(0), &[equal], &[], &[3000], Dtype::U32).floats();
    assert!(places.iter().enumerate().all(|(i, &p)| i as f64 == p));
    let z = complexes(&[(1.0, 2.0), (NAN, 0.0), (1.0, -1.0), (0.0, 9.0)]);
    same(&run(Op::ArgSort(0), &[z], &[], &[4], Dtype::U32), &[3.0, 2.0, 0.0, 1.0]);
    same(&run(Op::Sort(1), &[range([2, 0])], &[], &[2, 0], Dtype::F32), &[]);
    let big = ints([2], Dtype::U64, &[u64::MAX as i128, u64::MAX as i128 - 1]);
    same(&run(Op::ArgSort(0), &[big], &[], &[2], Dtype::U32), &[1.0, 0.0]);
}

#[test]
fn searches_from_both_sides() {
    let sorted = f32s([4], &[1.0, 2.0, 2.0, 4.0]);
    let values = f32s([2, 3], &[0.0, 2.0, 3.0, 4.0, 9.0, NAN]);
    let search = |right, s: &Tensor, v: &Tensor| {
        run(Op::SearchSorted(right), &[s.clone(), v.clone()], &[], &v.shape.clone(), Dtype::U32)
    };
    same(&search(false, &sorted, &values), &[0.0, 1.0, 3.0, 3.0, 4.0, 4.0]);
    same(&search(true, &sorted, &values), &[0.0, 3.0, 3.0, 4.0, 4.0, 4.0]);
    let with_nan = f32s([3], &[1.0, NAN, NAN]);
    same(&search(false, &with_nan, &f32s([2], &[NAN, 5.0])), &[1.0, 1.0]);
    same(&search(true, &with_nan, &f32s([1], &[NAN])), &[3.0]);
    same(&search(false, &range([0]), &f32s([2], &[1.0, 2.0])), &[0.0, 0.0]);
    let rows = f32s([2, 2], &[0.0, 10.0, 5.0, 6.0]);
    same(&search(false, &rows, &f32s([2, 2], &[1.0, 11.0, 1.0, 5.5])), &[1.0, 2.0, 0.0, 1.0]);
    let mixed = [sorted, ints([1], Dtype::I32, &[1])];
    assert!(try_run(Op::SearchSorted(false), &mixed, &[], &[1], Dtype::U32).is_err());
}

use super::*;
use crate::api::*;
use crate::number::Number;
use crate::scalar::{Scalar, ScalarTrace};

#[test]
fn creation() {
    crate::reference::init();
    is(full([2], 1.5, None), Dtype::F32, &[2], &[1.5, 1.5]);
    is(full([2, 3], count([3]), Some(Dtype::F32)), Dtype::F32, &[2, 3], &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
    refused!(Argument, full([2], 300, Some(Dtype::U8)));
    is(arange(0.0, 1.0, 0.3, None), Dtype::F32, &[4], &[0.0, 0.3, 0.6, 0.9]);
    is(arange(1i64 << 31, (1i64 << 31) + 2, 1, None), Dtype::I64, &[2], &[2147483648.0, 2147483649.0]);
    is(arange(3, 0, 1, None), Dtype::I32, &[0], &[]);
    refused!(Argument, arange(0, 5, 0, None), arange(0.0, f64::INFINITY, 1, None), arange(0, true, 1, None));
    refused!(Shape, arange(0, i64::MAX, 1, None));
    let t = ScalarTrace::new();
    let n = t.arg(0, Number::Int(3));
    assert_eq!(arange(&n, &n + 4, 1, None).unwrap().shape().to_vec(), [4]);
    assert!(t.concretized().is_empty());
    is(linspace(0, 10, 3, true, Dtype::I32), Dtype::I32, &[3], &[0.0, 5.0, 10.0]);
    is(linspace(0, 1, 1, true, Dtype::F32), Dtype::F32, &[1], &[0.0]);
    is(linspace(0, 1, 4, false, Dtype::F32), Dtype::F32, &[4], &[0.0, 0.25, 0.5, 0.75]);
    is(eye(3, 2, -1, Dtype::I32), Dtype::I32, &[3, 2], &[0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    is(eye(2, 2, i64::MIN, Dtype::I32), Dtype::I32, &[2, 2], &[0.0; 4]);
    is(eye(0, 2, 0, Dtype::I32), Dtype::I32, &[0, 2], &[]);
    is(tri(2, 3, 1, Dtype::F32), Dtype::F32, &[2, 3], &[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]);
    let m = count([3, 3]);
    is(m.tril(-1), Dtype::I32, &[3, 3], &[0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 6.0, 7.0, 0.0]);
    is(m.triu(1), Dtype::I32, &[3, 3], &[0.0, 1.0, 2.0, 0.0, 0.0, 5.0, 0.0, 0.0, 0.0]);
    is(m.diag(-1), Dtype::I32, &[2], &[3.0, 7.0]);
    is(i([2], &[1, 2]).diag(1), Dtype::I32, &[3, 3], &[0.0, 1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]);
    is(i([1], &[4]).diag(-1), Dtype::I32, &[2, 2], &[0.0, 0.0, 4.0, 0.0]);
    is(count([2, 3, 4]).diagonal(1, 0, 2), Dtype::I32, &[3, 2], &[1.0, 14.0, 5.0, 18.0, 9.0, 22.0]);
    is(m.diagonal(i64::MAX, 0, 1), Dtype::I32, &[0], &[]);
    refused!(Shape, i([1], &[1]).diag(i64::MAX), count([2, 2, 2]).diag(0));
    is(m.astype(Dtype::U8).unwrap().trace(0, 0, 1, None), Dtype::U32, &[], &[12.0]);
    let grid = meshgrid(&[count([2]), count([3])], false, Indexing::Xy).unwrap();
    is(Ok(grid[0].clone()), Dtype::I32, &[3, 2], &[0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    is(hanning(5), Dtype::F32, &[5], &[0.0, 0.5, 1.0, 0.5, 0.0]);
    is(hamming(5), Dtype::F32, &[5], &[0.08, 0.54, 1.0, 0.54, 0.08]);
    is(blackman(4), Dtype::F32, &[4], &[0.0, 0.63, 0.63, 0.0]);
    is(bartlett(5), Dtype::F32, &[5], &[0.0, 0.5, 1.0, 0.5, 0.0]);
}

#[test]
fn views() {
    let x = count([2, 3]);
    is(x.reshape([-1, 2]), Dtype::I32, &[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let empty = zeros([0, 2], Dtype::F32).unwrap();
    is(empty.reshape([-1]), Dtype::F32, &[0], &[]);
    refused!(Shape, empty.reshape([0, -1]), x.reshape([-1, -1]), x.reshape([-2, -3]), x.reshape([4]));
    refused!(Shape, x.reshape([i64::MAX, i64::MAX]), x.reshape([1 << 40, 1 << 40]));
    is(i([], &[3]).flatten(0, -1), Dtype::I32, &[1], &[3.0]);
    assert_eq!(count([2, 3, 4]).flatten(1, -1).unwrap().shape().to_vec(), [2, 12]);
    refused!(Argument, count([2, 3, 4]).flatten(1, 0), x.flatten(5, -1));
    assert_eq!(count([2, 6]).unflatten(1, [2, -1]).unwrap().shape().to_vec(), [2, 2, 3]);
    let thin = count([1, 2, 1]);
    assert_eq!(thin.squeeze(None).unwrap().shape().to_vec(), [2]);
    refused!(Argument, thin.squeeze(Some(&[0, 0])), x.expand_dims(&[0, 0]));
    refused!(Shape, x.squeeze(Some(&[0])));
    assert_eq!(i([1], &[1]).expand_dims(&[0, -1]).unwrap().shape().to_vec(), [1, 1, 1]);
    is(x.t(), Dtype::I32, &[3, 2], &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    refused!(Argument, x.transpose(&[0]), x.transpose(&[0, 0]));
    refused!(Axis, x.transpose(&[0, 5]), x.swapaxes(0, i64::MIN), x.moveaxis(2, 0));
    assert_eq!(count([2, 3, 4]).moveaxis(0, -1).unwrap().shape().to_vec(), [3, 4, 2]);
    refused!(Shape, x.broadcast_to([3]), x.broadcast_to([4, 3]));
    is(x.flip(Axes::ALL), Dtype::I32, &[2, 3], &[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
    is(empty.flip(Axes::ALL), Dtype::F32, &[0, 2], &[]);
    is(x.as_strided(&[2, 2], Some(&[1, 1]), 1), Dtype::I32, &[2, 2], &[1.0, 2.0, 2.0, 3.0]);
    is(x.t().unwrap().as_strided(&[3], Some(&[-1]), 2), Dtype::I32, &[3], &[1.0, 3.0, 0.0]);
    refused!(Axis, x.as_strided(&[7], None, 0), x.as_strided(&[2], Some(&[i64::MIN]), 0));
    is(f([1], &[1.0]).view(Dtype::I8), Dtype::I8, &[4], &[0.0, 0.0, -128.0, 63.0]);
    is(
        x.t().unwrap().view(Dtype::U16),
        Dtype::U16,
        &[3, 4],
        &[0.0, 0.0, 3.0, 0.0, 1.0, 0.0, 4.0, 0.0, 2.0, 0.0, 5.0, 0.0],
    );
    refused!(Shape, i([3], &[1, 2, 3]).view(Dtype::I64), i([], &[1]).view(Dtype::I8));
    assert_eq!(count([2]).atleast_3d().unwrap().shape().to_vec(), [1, 2, 1]);
    is(x.slice(&[0, -1], &[99, 99], None), Dtype::I32, &[2, 1], &[2.0, 5.0]);
    is(x.slice_leading(1, &Scalar::from(2)), Dtype::I32, &[2, 2], &[0.0, 1.0, 3.0, 4.0]);
    refused!(Axis, x.slice_leading(1, &Scalar::from(4)), x.slice_at(&[2.into(), 0.into()], &[1, 1], &[1, 3]));
}

#[test]
fn joins() {
    let x = count([2, 3]);
    is(concatenate(&[i([1], &[1]), f([1], &[2.5])], 0), Dtype::F32, &[2], &[1.0, 2.5]);
    refused!(Shape, concatenate(&[x.clone(), i([1], &[1])], 0), stack(&[x.clone(), i([1], &[1])], 0));
    refused!(Argument, concatenate(&[], 0), stack(&[], 0));
    is(stack(&[i([1], &[1]), i([1], &[2])], -1), Dtype::I32, &[1, 2], &[1.0, 2.0]);
    let parts = count([5]).split_at(&[3, 1], 0).unwrap();
    assert_eq!(parts.iter().map(|p| p.size()).collect::<Vec<_>>(), [3, 0, 4]);
    assert_eq!(count([4]).split(2, 0).unwrap().len(), 2);
    refused!(Argument, x.split(0, 0));
    refused!(Shape, x.split(2, 1));
    assert_eq!(x.unstack(1).unwrap().len(), 3);
    is(i([2], &[1, 2]).pad(&[(1, 1)], 5), Dtype::I32, &[4], &[5.0, 1.0, 2.0, 5.0]);
    is(i([2], &[1, 2]).pad(&[(1, 1)], 1.5), Dtype::I32, &[4], &[1.0, 1.0, 2.0, 1.0]);
    is(
        i([1, 2], &[1, 2]).pad(&[(1, 0), (0, 2)], 0),
        Dtype::I32,
        &[2, 4],
        &[0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0],
    );
    is(i([2], &[1, 2]).pad_edge(&[(1, 2)]), Dtype::I32, &[5], &[1.0, 1.0, 2.0, 2.0, 2.0]);
    refused!(Argument, x.pad(&[(-1, 0)], 0));
    refused!(Shape, x.pad(&[(i64::MAX, i64::MAX)], 0), x.pad(&[(0, 0); 3], 0));
    is(i([2], &[1, 2]).repeat(2, None), Dtype::I32, &[4], &[1.0, 1.0, 2.0, 2.0]);
    is(
        x.repeat(2, Some(0)),
        Dtype::I32,
        &[4, 3],
        &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 3.0, 4.0, 5.0],
    );
    refused!(Argument, x.repeat(-1, None), x.tile(&[-1]));
    refused!(Shape, x.repeat(i64::MAX, None), x.tile(&[i64::MAX, i64::MAX]));
    is(i([2], &[1, 2]).tile(&[2, 2]), Dtype::I32, &[2, 4], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    is(i([], &[3]).tile(&[2]), Dtype::I32, &[2], &[3.0, 3.0]);
    let s = |n: i64| Scalar::from(n);
    is(count([5]).roll(&[s(2)], Axes::ALL), Dtype::I32, &[5], &[3.0, 4.0, 0.0, 1.0, 2.0]);
    is(x.roll(&[s(1), s(2)], Axes::ALL), Dtype::I32, &[2, 3], &[3.0, 4.0, 5.0, 0.0, 1.0, 2.0]);
    is(x.roll(&[s(1)], [0, 1]), Dtype::I32, &[2, 3], &[5.0, 3.0, 4.0, 2.0, 0.0, 1.0]);
    is(x.roll(&[s(i64::MIN)], 1), Dtype::I32, &[2, 3], &[2.0, 0.0, 1.0, 5.0, 3.0, 4.0]);
    let t = ScalarTrace::new();
    assert_eq!(x.roll(&[t.arg(0, Number::Int(7))], 1).unwrap().shape().to_vec(), [2, 3]);
    assert!(t.concretized().is_empty());
}

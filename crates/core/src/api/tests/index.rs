use super::*;
use crate::api::{Index, zeros};
use crate::number::Number;
use crate::op::Combine;
use crate::scalar::{Scalar, ScalarTrace};

fn parse(text: &str) -> Vec<Index> {
    let item = |t: &str| {
        let p: Vec<&str> = t.split(':').collect();
        let bound = |s: &str| (!s.is_empty()).then(|| Scalar::from(s.parse::<i64>().unwrap()));
        match p[0] {
            "i" => Index::Int(bound(p[1]).unwrap()),
            "s" => Index::Slice { start: bound(p[1]), stop: bound(p[2]), step: bound(p[3]) },
            "n" => Index::NewAxis,
            "e" => Index::Ellipsis,
            _ => {
                let nums = |s: &str, by| {
                    s.split(by)
                        .filter(|s| !s.is_empty())
                        .map(|s| s.parse::<i32>().unwrap())
                        .collect::<Vec<_>>()
                };
                let shape: Vec<usize> = nums(p[1], 'x').into_iter().map(|d| d as usize).collect();
                Index::Array(i(shape, &nums(p[2], ',')))
            }
        }
    };
    text.split_whitespace().map(item).collect()
}

fn hash(a: &Array) -> i64 {
    a.to_vec::<i32>().unwrap().iter().enumerate().map(|(i, &v)| (i as i64 + 1) * v as i64).sum()
}

/// Random indices of every kind: shape and elements read, what a write leaves, what an addition leaves,
/// as NumPy does it.
#[test]
fn indices_as_in_numpy() {
    let x = count([2, 3, 4, 5]);
    for line in include_str!("index_cases.txt").lines() {
        let p: Vec<&str> = line.split('|').map(str::trim).collect();
        let index = parse(p[0]);
        let shape: Vec<usize> =
            p[1].split('x').filter(|s| !s.is_empty()).map(|s| s.parse().unwrap()).collect();
        let want: Vec<i64> = p[2].split(' ').map(|s| s.parse().unwrap()).collect();
        let got = x.index(&index).unwrap();
        assert_eq!(got.shape()[..], shape, "{line}");
        let value = count(shape).add(100).unwrap();
        let set = x.set(&index, value).unwrap();
        let added = x.at(&index, Combine::Add, 7).unwrap();
        assert_eq!(vec![hash(&got), hash(&set), hash(&added)], want, "{line}");
    }
}

#[test]
fn bad_indices() {
    let v = count([5]);
    let int = |n: i64| [Index::from(n)];
    refused!(Axis, v.index(&int(5)), v.index(&int(-6)), v.index(&int(i64::MIN)), v.set(&int(5), 1));
    refused!(Axis, v.at(&int(i64::MAX), Combine::Add, 1), zeros([0], Dtype::I32).unwrap().index(&int(0)));
    let step = |s: i64| [Index::Slice { start: None, stop: None, step: Some(s.into()) }];
    refused!(Argument, v.index(&step(0)), v.set(&step(0), 1));
    is(v.index(&step(i64::MIN)), Dtype::I32, &[1], &[4.0]);
    is(v.index(&step(i64::MAX)), Dtype::I32, &[1], &[0.0]);
    let two = [Index::Ellipsis, Index::Ellipsis];
    refused!(Argument, v.index(&two), v.index(&[int(0)[0].clone(), int(0)[0].clone()]));
    refused!(Argument, v.index(&[Index::Int(Scalar::from(1.0))]));
    let mask = v.greater(2).unwrap();
    refused!(Argument, v.index(&[Index::from(&mask)]));
    refused!(Dtype, v.index(&[Index::Array(f([1], &[0.0]))]));
    // Data is clamped when read, dropped when written.
    let far = Index::Array(i([3], &[100, -100, 1]));
    is(v.index(std::slice::from_ref(&far)), Dtype::I32, &[3], &[4.0, 0.0, 1.0]);
    is(v.set(&[far], 9), Dtype::I32, &[5], &[0.0, 9.0, 2.0, 3.0, 4.0]);
    refused!(Shape, count([3, 3]).set(&[Index::all(), Index::from(0)], f([3, 1], &[1.0; 3])));
    refused!(Argument, Array::scalar(7, None).unwrap().index(&int(0)));
}

#[test]
fn values_convert_when_written() {
    let v = count([5]);
    is(v.set(&[Index::from(0..2)], 1.9), Dtype::I32, &[5], &[1.0, 1.0, 2.0, 3.0, 4.0]);
    is(v.set(&[Index::Ellipsis], 9), Dtype::I32, &[5], &[9.0; 5]);
    is(v.set(&[], f([1, 1, 5], &[1.5; 5])), Dtype::I32, &[5], &[1.0; 5]);
    let byte = v.astype(Dtype::U8).unwrap();
    refused!(Argument, byte.set(&[Index::from(0)], 300));
    let same = Index::Array(i([3], &[0, 0, 0]));
    let one = || std::slice::from_ref(&same);
    is(v.set(one(), i([3], &[1, 2, 3])), Dtype::I32, &[5], &[3.0, 1.0, 2.0, 3.0, 4.0]);
    is(v.at(one(), Combine::Add, 1), Dtype::I32, &[5], &[3.0, 1.0, 2.0, 3.0, 4.0]);
    is(v.at_subtract(one(), 1), Dtype::I32, &[5], &[-3.0, 1.0, 2.0, 3.0, 4.0]);
    is(v.at_divide(&[Index::from(4)], 2), Dtype::I32, &[5], &[0.0, 1.0, 2.0, 3.0, 2.0]);
}

#[test]
fn masks() {
    let x = zeros([3, 2], Dtype::F32).unwrap();
    let m = [Index::from(&i([3], &[1, 0, 1]).astype(Dtype::Bool).unwrap())];
    is(x.set(&m, f([2], &[1.0, 2.0])), Dtype::F32, &[3, 2], &[1.0, 2.0, 0.0, 0.0, 1.0, 2.0]);
    is(x.set(&m, count([3, 2])), Dtype::F32, &[3, 2], &[0.0, 1.0, 0.0, 0.0, 2.0, 3.0]);
    is(x.set(&m, f([2, 1], &[5.0, 6.0])), Dtype::F32, &[3, 2], &[5.0, 5.0, 0.0, 0.0, 6.0, 6.0]);
    is(x.at(&m, Combine::Add, 4), Dtype::F32, &[3, 2], &[4.0, 4.0, 0.0, 0.0, 4.0, 4.0]);
    failure(x.set(&m, f([1, 2], &[1.0, 2.0])));
    let none = [Index::from(&x.greater(1).unwrap())];
    is(x.set(&none, zeros([0], Dtype::F32).unwrap()), Dtype::F32, &[3, 2], &[0.0; 6]);
    let all = [Index::from(&Array::scalar(true, None).unwrap())];
    is(x.set(&all, 5), Dtype::F32, &[3, 2], &[5.0; 6]);
    let wrong = [Index::from(&count([2]).astype(Dtype::Bool).unwrap())];
    refused!(Shape, x.set(&wrong, 1), x.set(&m, count([1, 3, 2])));
}

#[test]
fn symbolic_bounds() {
    let x = count([8, 2]);
    let t = ScalarTrace::new();
    let n = t.arg(0, Number::Int(3));
    let one = x.index(&[Index::from(n.clone()..&n + 1)]).unwrap();
    assert_eq!((one.shape().to_vec(), one.aval().valid), (vec![1, 2], None));
    let part = x.index(&[Index::from(..n.clone())]).unwrap();
    assert_eq!((part.shape().to_vec(), part.aval().valid), (vec![8, 2], Some(0)));
    let later = x.index(&[Index::from(2..5)]).unwrap();
    assert_eq!(later.shape().to_vec(), [3, 2]);
    let tail = x.index(&[Index::Slice { start: Some(2.into()), stop: Some(n.clone()), step: None }]).unwrap();
    assert_eq!((tail.shape().to_vec(), tail.aval().valid), (vec![6, 2], Some(0)));
    assert_eq!(x.index(&[Index::from(&n)]).unwrap().shape().to_vec(), [2]);
    x.set(&[Index::from(n.clone()..&n + 2)], 1).unwrap();
    assert!(t.concretized().is_empty());
    refused!(Trace, part.add(1), part.reshape([16]));
    // A slice from a symbolic start to the end has a size that nothing carries.
    assert_eq!(x.index(&[Index::from(n.clone()..)]).unwrap().shape().to_vec(), [5, 2]);
    assert!(!t.concretized().is_empty());
    let past = t.arg(1, Number::Int(9));
    refused!(Axis, x.index(&[Index::from(&past)]));
    assert_eq!(x.index(&[Index::from(..past)]).unwrap().shape().to_vec(), [8, 2]);
}

#[test]
fn takes_and_puts() {
    let x = count([2, 3]);
    is(x.take(&i([2], &[1, 4]), None), Dtype::I32, &[2], &[1.0, 4.0]);
    is(x.take(&i([1, 2], &[1, 0]), Some(1)), Dtype::I32, &[2, 1, 2], &[1.0, 0.0, 4.0, 3.0]);
    is(x.take_at(&Scalar::from(-1), Some(1)), Dtype::I32, &[2], &[2.0, 5.0]);
    refused!(Axis, x.take_at(&Scalar::from(9), None), x.take(&i([1], &[0]), Some(2)));
    is(x.take_along_axis(&i([1, 1], &[1]), Some(1)), Dtype::I32, &[2, 1], &[1.0, 4.0]);
    is(x.take_along_axis(&i([2], &[1, 9]), None), Dtype::I32, &[2], &[1.0, 5.0]);
    refused!(Shape, x.take_along_axis(&i([2], &[1, 2]), Some(1)));
    is(
        x.put_along_axis(&i([2, 1], &[1, 0]), 9, Some(1)),
        Dtype::I32,
        &[2, 3],
        &[0.0, 9.0, 2.0, 9.0, 4.0, 5.0],
    );
    is(x.put_along_axis(&i([1], &[1]), 9, None), Dtype::I32, &[2, 3], &[0.0, 9.0, 2.0, 3.0, 4.0, 5.0]);
    is(
        x.scatter_add_axis(&i([2, 2], &[0, 0, 1, 1]), 1, Some(1)),
        Dtype::I32,
        &[2, 3],
        &[2.0, 1.0, 2.0, 3.0, 6.0, 5.0],
    );
    let y = count([3, 4]);
    is(y.dynamic_slice(&i([2], &[1, 2]), &[0, 1], &[2, 2]), Dtype::I32, &[2, 2], &[6.0, 7.0, 10.0, 11.0]);
    is(y.dynamic_slice(&i([], &[9]), &[0], &[1, 4]), Dtype::I32, &[1, 4], &[8.0, 9.0, 10.0, 11.0]);
    let z = zeros([3], Dtype::F32).unwrap();
    is(z.dynamic_slice_update(&f([1], &[1.0]), &i([1], &[5]), &[0]), Dtype::F32, &[3], &[0.0, 0.0, 1.0]);
    refused!(
        Shape,
        y.dynamic_slice(&i([2], &[0, 0]), &[0], &[1, 4]),
        y.dynamic_slice(&i([1], &[0]), &[0], &[4, 4])
    );
    refused!(Dtype, y.dynamic_slice(&f([1], &[0.0]), &[0], &[1, 4]));
}

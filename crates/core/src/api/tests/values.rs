use super::*;
use crate::api::*;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
fn composites() {
    let x = f([3], &[f32::NAN, f32::INFINITY, -1.5]);
    is(x.nan_to_num(0.0, None, None), Dtype::F32, &[3], &[0.0, f32::MAX as f64, -1.5]);
    is(x.isfinite(), Dtype::Bool, &[3], &[0.0, 0.0, 1.0]);
    is(x.isposinf(), Dtype::Bool, &[3], &[0.0, 1.0, 0.0]);
    is(x.trunc(), Dtype::F32, &[3], &[NAN, INF, -1.0]);
    is(x.clip(Some(0.into()), None), Dtype::F32, &[3], &[NAN, INF, 0.0]);
    is(f([1], &[5.0]).clip(Some(3.into()), Some(1.into())), Dtype::F32, &[1], &[1.0]);
    refused!(Argument, x.clip(None, None));
    is(i([2], &[1, 5]).clip(Some(0.into()), Some(2.5.into())), Dtype::F32, &[2], &[1.0, 2.5]);
    is(i([2], &[125, 135]).round_to(-1), Dtype::I32, &[2], &[120.0, 140.0]);
    is(f([1], &[1.256]).round_to(2), Dtype::F32, &[1], &[1.26]);
    is(f([1], &[1e38]).round_to(9), Dtype::F32, &[1], &[1e38f32 as f64]);
    is(f([1], &[1.5]).round_to(i64::MIN), Dtype::F32, &[1], &[0.0]);
    is(x.isclose(&x, 1e-5, 1e-8, true), Dtype::Bool, &[3], &[1.0, 1.0, 1.0]);
    is(x.isclose(&x, 1e-5, 1e-8, false), Dtype::Bool, &[3], &[0.0, 1.0, 1.0]);
    is(i([1], &[1]).array_equal(f([1], &[1.0]), false), Dtype::Bool, &[], &[1.0]);
    is(i([1], &[1]).array_equal(f([2], &[1.0, 1.0]), false), Dtype::Bool, &[], &[0.0]);
    is(i([1], &[1]).degrees(), Dtype::F32, &[1], &[57.29578]);
    let (q, r) = f([1], &[7.5]).divmod(2).unwrap();
    is(stack(&[q, r], 0), Dtype::F32, &[2, 1], &[3.0, 1.5]);
    is(i([2], &[1, 0]).logical_xor(i([2], &[2, 2])), Dtype::Bool, &[2], &[0.0, 1.0]);
    is(i([4], &[1, 4, 9, 16]).diff(2, 0), Dtype::I32, &[2], &[2.0, 2.0]);
    is(i([2], &[1, 4]).diff(i64::MAX, 0), Dtype::I32, &[0], &[]);
    is(
        f([3], &[0.3, 1000.0, -2.0]).to_fp8().unwrap().from_fp8(Dtype::BF16),
        Dtype::BF16,
        &[3],
        &[0.3125, 448.0, -2.0],
    );
    refused!(Dtype, i([1], &[1]).to_fp8(), i([1], &[1]).from_fp8(Dtype::F32));
}

#[test]
fn reductions() {
    let x = i([2, 2], &[1, 2, 3, 4]);
    is(x.sum(Axes::ALL, false), Dtype::I32, &[], &[10.0]);
    is(x.sum(-1, true), Dtype::I32, &[2, 1], &[3.0, 7.0]);
    is(x.sum(&[][..], false), Dtype::I32, &[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    is(x.astype(Dtype::U8).unwrap().prod(0, false), Dtype::U32, &[2], &[3.0, 8.0]);
    refused!(Argument, x.sum([0, 0], false));
    refused!(Axis, x.sum(2, false), x.argmax(Some(-3), false), x.cumsum(Some(i64::MIN), false, true));
    let none = zeros([0, 2], Dtype::F32).unwrap();
    is(none.sum(0, false), Dtype::F32, &[2], &[0.0, 0.0]);
    is(none.mean(0, false), Dtype::F32, &[2], &[NAN, NAN]);
    is(none.max(1, false), Dtype::F32, &[0], &[]);
    refused!(
        Shape,
        none.max(0, false),
        none.median(0, false),
        none.argmax(None, false),
        none.logsumexp(1, false)
    );
    is(i([2], &[i32::MAX, i32::MAX]).mean(Axes::ALL, false), Dtype::F32, &[], &[i32::MAX as f32 as f64]);
    is(full([70000], 1, Some(Dtype::F16)).unwrap().mean(0, false), Dtype::F16, &[], &[1.0]);
    is(i([3], &[1, 2, 3]).var(0, false, 0), Dtype::F32, &[], &[2.0 / 3.0]);
    is(i([3], &[1, 2, 3]).var(0, false, 3), Dtype::F32, &[], &[INF]);
    is(f([2], &[1.0, 2.0]).std(&[][..], false, 0), Dtype::F32, &[2], &[0.0, 0.0]);
    is(i([2, 2], &[4, 2, 3, 1]).median(Axes::ALL, false), Dtype::F32, &[], &[2.5]);
    is(f([2, 2], &[1.0, 2.0, 3.0, f32::NAN]).median(0, true), Dtype::F32, &[1, 2], &[2.0, NAN]);
    is(x.argmax(None, true), Dtype::U32, &[1, 1], &[3.0]);
    is(f([3], &[1.0, f32::NAN, 3.0]).argmin(Some(0), false), Dtype::U32, &[], &[1.0]);
    is(i([3], &[1, 0, 2]).count_nonzero(Axes::ALL, false), Dtype::I32, &[], &[2.0]);
    is(i([2], &[1, 2]).logsumexp(0, false), Dtype::F32, &[], &[2.3132617]);
    is(f([2, 2], &[0.0; 4]).softmax(0), Dtype::F32, &[2, 2], &[0.5; 4]);
    is(f([2, 1, 2], &[0.0; 4]).softmax([0, 2]), Dtype::F32, &[2, 1, 2], &[0.25; 4]);
    is(
        f([3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).softmax(0).unwrap().sum(0, false),
        Dtype::F32,
        &[2],
        &[1.0, 1.0],
    );
    is(f([1, 2], &[1.0, 2.0]).softmax(&[][..]), Dtype::F32, &[1, 2], &[1.0, 1.0]);
    is(i([], &[3]).softmax(Axes::ALL), Dtype::F32, &[], &[1.0]);
    is(x.cumsum(None, true, true), Dtype::I32, &[4], &[10.0, 9.0, 7.0, 4.0]);
    is(x.cumsum(Some(1), false, false), Dtype::I32, &[2, 2], &[0.0, 1.0, 0.0, 3.0]);
    is(x.astype(Dtype::Bool).unwrap().cumsum(None, false, true), Dtype::I32, &[4], &[1.0, 2.0, 3.0, 4.0]);
    is(x.astype(Dtype::Bool).unwrap().cumprod(None, false, true), Dtype::Bool, &[4], &[1.0; 4]);
    let ones = full([4096, 2], 1, Some(Dtype::BF16)).unwrap();
    is(ones.sum(0, false), Dtype::BF16, &[2], &[4096.0, 4096.0]);
}

#[test]
fn order() {
    let x = i([1, 3], &[3, 1, 2]);
    is(x.sort(None), Dtype::I32, &[3], &[1.0, 2.0, 3.0]);
    is(x.argsort(Some(-1)), Dtype::U32, &[1, 3], &[1.0, 2.0, 0.0]);
    is(x.topk(2, Some(-1)), Dtype::I32, &[1, 2], &[2.0, 3.0]);
    is(x.topk(0, Some(-1)), Dtype::I32, &[1, 0], &[]);
    refused!(
        Argument,
        x.topk(4, Some(-1)),
        x.topk(-1, None),
        x.partition(3, None),
        x.argpartition(i64::MIN, None)
    );
    refused!(Axis, i([], &[3]).sort(Some(-1)));
    is(i([4], &[1, 2, 2, 3]).searchsorted(&i([2], &[2, 5]), false), Dtype::U32, &[2], &[1.0, 4.0]);
    is(i([4], &[1, 2, 2, 3]).searchsorted(&f([1], &[2.0]), true), Dtype::U32, &[1], &[3.0]);
    refused!(Shape, x.searchsorted(&x, false));
}

#[test]
fn distinct() {
    let u = i([2, 2], &[3, 1, 3, 2]).unique(5, None).unwrap();
    is(Ok(u.values), Dtype::I32, &[5], &[1.0, 2.0, 3.0, 1.0, 1.0]);
    is(Ok(u.index), Dtype::U32, &[5], &[1.0, 3.0, 0.0, 1.0, 1.0]);
    is(Ok(u.inverse), Dtype::U32, &[2, 2], &[2.0, 0.0, 2.0, 1.0]);
    is(Ok(u.counts), Dtype::I32, &[5], &[1.0, 1.0, 2.0, 0.0, 0.0]);
    let u = i([4], &[3, 1, 3, 2]).unique(2, Some(9.into())).unwrap();
    is(Ok(u.values), Dtype::I32, &[2], &[1.0, 2.0]);
    is(Ok(u.inverse), Dtype::U32, &[4], &[1.0, 0.0, 1.0, 1.0]);
    let u = f([3], &[f32::NAN, 1.0, f32::NAN]).unique(3, None).unwrap();
    is(Ok(u.counts), Dtype::I32, &[3], &[1.0, 1.0, 1.0]);
    is(Ok(i([2], &[1, 2]).unique(0, None).unwrap().values), Dtype::I32, &[0], &[]);
    refused!(Argument, i([1], &[1]).unique(-1, None), i([0], &[]).unique(2, None));
    refused!(Shape, i([1], &[1]).unique(i64::MAX, None));
}

/// Whatever numbers a caller passes, functions answer or refuse; debug builds trap overflow.
#[test]
fn extremes_do_not_panic() {
    use crate::Scalar;
    let arrays = [i([], &[1]), count([0]), count([3]), count([2, 3]), count([2, 0, 2])];
    let nums = [i64::MIN, -(1 << 40), -2, -1, 0, 1, 2, 1 << 31, i64::MAX];
    for x in &arrays {
        let y = x.astype(Dtype::F32).unwrap();
        for a in nums {
            let s = Scalar::from(a);
            let _ = (x.squeeze(Some(&[a])), x.expand_dims(&[a]), x.sort(Some(a)), x.topk(a, Some(a)));
            let _ = (x.sum(a, true), x.argmax(Some(a), true), x.cumsum(Some(a), true, true), x.softmax(a));
            let _ = (
                x.take_at(&s, Some(0)),
                x.take_at(&s, None),
                x.slice_leading(0, &s),
                x.diag(a),
                x.tril(a),
                x.triu(a),
            );
            let _ = (
                x.index(&[Index::Int(s.clone())]),
                x.set(&[Index::from(a..)], a),
                x.roll(std::slice::from_ref(&s), 0),
            );
            let _ = (
                eye(2, 3, a, Dtype::I8),
                tri(0, 3, a, Dtype::I8),
                x.round_to(a),
                y.round_to(a),
                x.unique(a, None),
            );
            let _ = (
                x.split_at(&[a], 0),
                x.repeat(a, None),
                x.tile(&[a]),
                x.pad_edge(&[(a, a)]),
                y.var(0, true, a),
            );
            let _ = (x.partition(a, None), tensordot_n(&y, &y, a), y.norm(NormOrder::P(a as f64), 0, false));
            let _ = (conv1d(&y, &y, a, a, a, a), x.unflatten(a, [a]), x.add(a), x.power(a), x.left_shift(a));
            for b in nums {
                let _ = (
                    x.flatten(a, b),
                    x.swapaxes(a, b),
                    x.moveaxis(a, b),
                    x.reshape([a, b]),
                    x.diagonal(a, 0, b),
                );
                let _ =
                    (x.slice(&[a], &[b], Some(&[a])), x.as_strided(&[a], Some(&[b]), b), x.pad(&[(a, b)], 0));
                let _ = (
                    arange(a, b, 3, None),
                    arange(0, a, b, None),
                    arange(a as f64, b as f64, 0.5, Some(Dtype::I8)),
                );
                let step = Index::Slice { start: Some(a.into()), stop: Some(b.into()), step: Some(a.into()) };
                let _ = (x.index(&[Index::from(a..b)]), x.index(&[step]), extents(&[a, b], "test"));
                let _ = x.as_strided(&[2, b], Some(&[a, b]), a);
            }
        }
    }
    let wide = ones([1 << 29, 1 << 29], Dtype::F32).unwrap();
    refused!(
        Shape,
        wide.kron(&wide),
        wide.outer(&wide),
        wide.tile(&[2, 4]),
        wide.expand_dims(&[0]).unwrap().repeat(9, Some(0))
    );
    refused!(
        Shape,
        concatenate(&[wide.clone(), wide.clone(), wide], 0),
        count([1]).tile(&[1; 70]),
        zeros(vec![1; 65], Dtype::I8)
    );
    let g = Grouping::new(None, None, "affine").unwrap();
    let _ = quantize(&ones([2, 1 << 57], Dtype::F32).unwrap(), g, None);
}

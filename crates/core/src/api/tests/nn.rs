use super::*;
use crate::api::*;
use crate::number::Number;
use crate::scalar::{Scalar, ScalarTrace};

fn waves(shape: impl Into<crate::Shape>) -> Array {
    let shape = shape.into();
    count(shape).astype(Dtype::F32).unwrap().sin().unwrap()
}

#[test]
fn norms_round_before_the_weight() {
    let x = full([1, 4], 300, Some(Dtype::F16)).unwrap();
    is(rms_norm(&x, None, 1e-5), Dtype::F16, &[1, 4], &[1.0; 4]);
    is(rms_norm(&x, Some(&f([4], &[1.0, 2.0, 3.0, 4.0])), 1e-5), Dtype::F32, &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let y = f([2], &[1.0, 3.0]);
    is(layer_norm(&y, None, Some(&f([2], &[1.0, 1.0])), 0.0), Dtype::F32, &[2], &[0.0, 2.0]);
    assert_eq!(layer_norm(&x, None, Some(&f([4], &[1.0; 4])), 0.0).unwrap().dtype(), Dtype::F16);
    refused!(Shape, rms_norm(&x, Some(&y), 0.0), rms_norm(&f([], &[1.0]), None, 0.0));
    refused!(Dtype, rms_norm(&count([2]), None, 0.0), layer_norm(&y, Some(&count([2])), None, 0.0));
}

#[test]
fn ropes() {
    let x = waves([2, 1, 3, 4]);
    let opts = |base: Option<f64>, freqs: Option<Array>, traditional| RopeOptions {
        dims: 4,
        traditional,
        base: base.map(Scalar::from),
        scale: 1.0.into(),
        freqs,
    };
    let plain = rope(&x, 5, &opts(Some(100.0), None, false)).unwrap();
    let by_array = rope(&x, i([2], &[5, 5]), &opts(Some(100.0), None, false)).unwrap();
    let by_freqs = rope(&x, 5, &opts(None, Some(f([2], &[1.0, 10.0])), false)).unwrap();
    is(Ok(by_array), Dtype::F32, &[2, 1, 3, 4], &read(&plain));
    is(Ok(by_freqs), Dtype::F32, &[2, 1, 3, 4], &read(&plain));
    // One feature pair at position 5.
    let (a, b) = (read(&x)[0], read(&x)[2]);
    let want = a * 5f64.cos() - b * 5f64.sin();
    assert!((read(&plain)[0] - want).abs() < 1e-6);
    let t = ScalarTrace::new();
    rope(&x, t.arg(0, Number::Int(1)), &opts(Some(100.0), None, true)).unwrap();
    assert!(t.concretized().is_empty());
    refused!(Argument, rope(&x, 1.5, &opts(Some(1e4), None, false)), rope(&x, 1, &opts(None, None, false)));
    refused!(Argument, rope(&x, 1, &RopeOptions { dims: 3, ..opts(Some(1e4), None, false) }));
    refused!(Argument, rope(&x, 1, &RopeOptions { dims: i64::MIN, ..opts(Some(1e4), None, false) }));
    refused!(
        Shape,
        rope(&x, i([3], &[0; 3]), &opts(Some(1e4), None, false)),
        rope(&waves([2, 4]), 1, &opts(Some(1.0), None, false))
    );
    refused!(Dtype, rope(&x, f([1], &[0.0]), &opts(Some(1e4), None, false)));
}

#[test]
fn attention() {
    let (q, k, v) =
        (waves([1, 2, 2, 4]), waves([1, 1, 3, 4]), count([1, 1, 3, 2]).astype(Dtype::F32).unwrap());
    let plain = scaled_dot_product_attention(&q, &k, &v, 0.5, Mask::None, None).unwrap();
    // By hand: the second query head reads the only key head.
    let kt = k.squeeze(Some(&[0, 1])).unwrap().t().unwrap();
    let hand = q.matmul(&kt).unwrap().multiply(0.5).unwrap().softmax(-1).unwrap().matmul(&v).unwrap();
    is(Ok(plain.clone()), Dtype::F32, &[1, 2, 2, 2], &read(&hand));
    let causal = scaled_dot_product_attention(&q, &k, &v, 0.5, Mask::Causal, None).unwrap();
    let mask = tri(2, 3, 1, Dtype::Bool).unwrap();
    let masked = scaled_dot_product_attention(&q, &k, &v, 0.5, &mask, None).unwrap();
    is(Ok(causal), Dtype::F32, &[1, 2, 2, 2], &read(&masked));
    let sinks = f([2], &[0.0, 50.0]);
    let sunk = read(&scaled_dot_product_attention(&q, &k, &v, 0.5, Mask::None, Some(&sinks)).unwrap());
    assert!(sunk[4].abs() < 1e-6 && sunk[0] < read(&plain)[0].max(1.0));
    // The leading part of a buffer, of known and of symbolic length.
    let wide = |a: &Array| a.pad(&[(0, 0), (0, 0), (0, 5), (0, 0)], 9).unwrap();
    let (kb, vb) = (wide(&k), wide(&v));
    let three = Scalar::from(3);
    let (ks, vs) = (kb.slice_leading(2, &three).unwrap(), vb.slice_leading(2, &three).unwrap());
    let part = scaled_dot_product_attention(&q, &ks, &vs, 0.5, Mask::Causal, None).unwrap();
    is(Ok(part), Dtype::F32, &[1, 2, 2, 2], &read(&masked));
    let t = ScalarTrace::new();
    let n = t.arg(0, Number::Int(3));
    let (ks, vs) = (kb.slice_leading(2, &n).unwrap(), vb.slice_leading(2, &n).unwrap());
    scaled_dot_product_attention(&q, &ks, &vs, 0.5, Mask::None, None).unwrap();
    refused!(Trace, scaled_dot_product_attention(&q, &ks, &vb, 0.5, Mask::None, None));
    refused!(Shape, scaled_dot_product_attention(&q, &k, &vb, 0.5, Mask::None, None));
    refused!(Shape, scaled_dot_product_attention(&q, &k, &v, 0.5, &mask.t().unwrap(), None));
    let half = |a: &Array| a.astype(Dtype::F16).unwrap();
    refused!(Dtype, scaled_dot_product_attention(&half(&q), &half(&k), &half(&v), 0.5, &f([], &[0.0]), None));
}

#[test]
fn convolutions() {
    let x = count([1, 4, 1]).astype(Dtype::F32).unwrap();
    let w = f([1, 2, 1], &[1.0, 10.0]);
    is(conv1d(&x, &w, 1, 0, 1, 1), Dtype::F32, &[1, 3, 1], &[10.0, 21.0, 32.0]);
    is(conv1d(&x, &w, 2, 1, 1, 1), Dtype::F32, &[1, 3, 1], &[0.0, 21.0, 3.0]);
    is(conv1d(&x, &w, 1, -1, 1, 1), Dtype::F32, &[1, 1, 1], &[21.0]);
    refused!(Shape, conv1d(&x, &w, 1, -2, 1, 1), conv1d(&x, &w, 1, i64::MIN, 1, 1));
    is(
        conv_transpose(&x, &w, &[1], &[0], &[1], &[0], 1, 1),
        Dtype::F32,
        &[1, 5, 1],
        &[0.0, 1.0, 12.0, 23.0, 30.0],
    );
    is(
        conv_transpose(&x, &w, &[2], &[0], &[1], &[0], 1, 1),
        Dtype::F32,
        &[1, 8, 1],
        &[0.0, 0.0, 1.0, 10.0, 2.0, 20.0, 3.0, 30.0],
    );
    is(
        conv_transpose(&x, &w, &[2], &[2], &[1], &[1], 1, 1),
        Dtype::F32,
        &[1, 5, 1],
        &[1.0, 10.0, 2.0, 20.0, 3.0],
    );
    let grouped =
        conv1d(&count([1, 2, 2]).astype(Dtype::F32).unwrap(), &f([2, 1, 1], &[1.0, 10.0]), 1, 0, 1, 2);
    is(grouped, Dtype::F32, &[1, 2, 2], &[0.0, 10.0, 2.0, 30.0]);
    let (x2, w2) = (count([1, 2, 2, 1]).astype(Dtype::F32).unwrap(), ones([1, 2, 2, 1], Dtype::F32).unwrap());
    is(conv2d(&x2, &w2, &[1], &[0], &[1], 1), Dtype::F32, &[1, 1, 1, 1], &[6.0]);
    refused!(
        Shape,
        conv1d(&x, &w, 1, 0, 9, 1),
        conv1d(&x, &w, 1, 0, 1, 2),
        conv2d(&x, &w, &[1], &[0], &[1], 1)
    );
    refused!(Argument, conv1d(&x, &w, 0, 0, 1, 1), conv2d(&x2, &w2, &[1, 1, 1], &[0], &[1], 1));
    refused!(Shape, conv1d(&x, &w, 1, i64::MAX, 1, 1), conv1d(&x, &w, 1, 0, i64::MAX, 1));
    let (a, b) = (f([3], &[1.0, 2.0, 3.0]), f([3], &[0.0, 1.0, 0.5]));
    is(convolve(&a, &b, ConvolveMode::Full), Dtype::F32, &[5], &[0.0, 1.0, 2.5, 4.0, 1.5]);
    is(convolve(&a, &b, ConvolveMode::Same), Dtype::F32, &[3], &[1.0, 2.5, 4.0]);
    is(convolve(&b, &a, ConvolveMode::Valid), Dtype::F32, &[1], &[2.5]);
    is(cross_entropy(&f([1, 2], &[0.0, 0.0]), &i([1], &[1])), Dtype::F32, &[1], &[std::f64::consts::LN_2]);
}

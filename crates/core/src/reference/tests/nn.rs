use super::*;
use crate::op::{Rope, Sdpa};

#[test]
fn softmax_rows() {
    let x = f32s([4, 2], &[0.0, 2f64.ln(), -INF, -INF, INF, 0.0, 1000.0, 1000.0]);
    let got = run(Op::Softmax, &[x], &[], &[4, 2], Dtype::F32);
    near(&got, &[1.0 / 3.0, 2.0 / 3.0, NAN, NAN, NAN, NAN, 0.5, 0.5], 1e-7);
    let wide = floats([4096], Dtype::BF16, &[0.0; 4096]);
    same(&run(Op::Softmax, &[wide], &[], &[4096], Dtype::BF16), &[1.0 / 4096.0; 4096]);
    same(&run(Op::Softmax, &[range([3, 0])], &[], &[3, 0], Dtype::F32), &[]);
}

#[test]
fn norms_by_hand() {
    let x = f32s([2, 2], &[3.0, 4.0, 0.0, 0.0]);
    let w = f32s([2], &[1.0, 10.0]);
    let root = 12.5f64.sqrt();
    let rms = run(Op::RmsNorm, &[x.clone(), w.clone()], &[0.0f64.into()], &[2, 2], Dtype::F32).floats();
    assert!((rms[0] - 3.0 / root).abs() < 1e-6 && (rms[1] - 40.0 / root).abs() < 1e-5);
    assert!(rms[2].is_nan());
    same(&run(Op::RmsNorm, &[f32s([1], &[0.0])], &[1e-5.into()], &[1], Dtype::F32), &[0.0]);
    let ln = run(Op::LayerNorm, from_ref(&x), &[0.0.into()], &[2, 2], Dtype::F32);
    near(&ln, &[-1.0, 1.0, NAN, NAN], 1e-6);
    let b = f32s([2], &[5.0, 6.0]);
    let ln = run(Op::LayerNorm, &[x, w, b], &[1.0.into()], &[2, 2], Dtype::F32);
    let r = 0.5 / 1.25f64.sqrt();
    near(&ln, &[5.0 - r, 6.0 + 10.0 * r, 5.0, 6.0], 1e-6);
    // No overflow in half precision, no cancellation beside a large mean.
    let big = floats([2], Dtype::F16, &[300.0, 300.0]);
    same(&run(Op::RmsNorm, &[big], &[0.0.into()], &[2], Dtype::F16), &[1.0, 1.0]);
    let far = f32s([2], &[10000.0, 10001.0]);
    near(&run(Op::LayerNorm, &[far], &[0.0.into()], &[2], Dtype::F32), &[-1.0, 1.0], 1e-6);
}

/// The normalized value is rounded to the result's dtype before the weight, and the product before the bias.
#[test]
fn norms_round_in_the_peers_order() {
    let d = Dtype::BF16;
    let x = floats([3], d, &[1.0, 2.0, 4.0]);
    let w = floats([3], d, &[1.1015625; 3]);
    let plain = run(Op::RmsNorm, from_ref(&x), &[1e-5.into()], &[3], d);
    let weighted = run(Op::RmsNorm, &[x.clone(), w.clone()], &[1e-5.into()], &[3], d);
    let want = run(Op::Elementwise(crate::op::Row::Mul), &[plain, w.clone()], &[], &[3], d);
    assert_eq!(weighted, want);
    let b = floats([3], d, &[0.0078125; 3]);
    let without = run(Op::LayerNorm, &[x.clone(), w.clone()], &[1e-5.into()], &[3], d);
    let with = run(Op::LayerNorm, &[x, w, b.clone()], &[1e-5.into()], &[3], d);
    assert_eq!(with, run(Op::Elementwise(crate::op::Row::Add), &[without, b], &[], &[3], d));
}

#[test]
fn rope_rotates_pairs() {
    let r = Rope { dims: 4, traditional: false, offset_array: false, freqs: false };
    let x = f32s([1, 2, 5], &[1.0, 2.0, 3.0, 4.0, 9.0, 1.0, 2.0, 3.0, 4.0, 9.0]);
    let cells: [Number; 3] = [10000.0.into(), 1.0.into(), 0.into()];
    let got = run(Op::Rope(r), from_ref(&x), &cells, &[1, 2, 5], Dtype::F32);
    let (a, b) = (1f64, 0.01f64);
    let turned = [
        a.cos() - 3.0 * a.sin(),
        2.0 * b.cos() - 4.0 * b.sin(),
        a.sin() + 3.0 * a.cos(),
        2.0 * b.sin() + 4.0 * b.cos(),
        9.0,
    ];
    near(&got, &[&[1.0, 2.0, 3.0, 4.0, 9.0], &turned[..]].concat(), 1e-6);
    // Traditional pairs are neighbours.
    let t = Rope { traditional: true, ..r };
    let got = run(Op::Rope(t), from_ref(&x), &[10000.0.into(), 1.0.into(), 1.into()], &[1, 2, 5], Dtype::F32)
        .floats();
    assert!(
        (got[0] - (a.cos() - 2.0 * a.sin())).abs() < 1e-6
            && (got[3] - (3.0 * b.sin() + 4.0 * b.cos())).abs() < 1e-6
    );
    // Wavelengths, a scale, an offset array with one entry a batch row, more axes than three.
    let f = Rope { freqs: true, offset_array: true, ..r };
    let two = Tensor { data: x.data.pick((0..20).map(|i| i % 10)), ..x.clone() };
    let two = Tensor { shape: [2, 1, 2, 5].into(), ..two };
    let ins = [two, ints([2], Dtype::I32, &[0, -1]), f32s([2], &[1.0, 100.0])];
    let got = run(Op::Rope(f), &ins, &[0.0.into(), 1.0.into()], &[2, 1, 2, 5], Dtype::F32).floats();
    assert!((got[5] - turned[0]).abs() < 1e-6);
    assert_eq!(got[15..], [1.0, 2.0, 3.0, 4.0, 9.0]);
    // One step back undoes one step forward.
    let back =
        run(Op::Rope(r), from_ref(&x), &[10000.0.into(), 0.5.into(), (-7).into()], &[1, 2, 5], Dtype::F32);
    let one = back.view(&back.layout().slice(&[0, 0, 0], &[1, 1, 1], &[1, 1, 5]));
    let forth = run(Op::Rope(r), &[one], &[10000.0.into(), 0.5.into(), 7.into()], &[1, 1, 5], Dtype::F32);
    near(&forth, &[1.0, 2.0, 3.0, 4.0, 9.0], 1e-6);
    let bad = [x, ints([3], Dtype::I32, &[0; 3])];
    assert!(
        try_run(Op::Rope(Rope { offset_array: true, ..r }), &bad, &cells[..2], &[1, 2, 5], Dtype::F32)
            .is_err()
    );
    same(&run(Op::Rope(r), &[range([0, 2, 5])], &cells, &[0, 2, 5], Dtype::F32), &[]);
    same(&run(Op::Rope(r), &[range([1, 0, 5])], &cells, &[1, 0, 5], Dtype::F32), &[]);
}

const PLAIN: Sdpa = Sdpa { causal: false, mask: false, sinks: false, length: false };

/// One head, queries and keys of one feature, values counting 1, 2, 3...
fn attend(s: Sdpa, q: &[f64], k: &[f64], more: &[Tensor], length: Option<i64>) -> Tensor {
    let line = |v: &[f64]| f32s([1, 1, v.len(), 1], v);
    let values: Vec<f64> = (1..=k.len()).map(|i| i as f64).collect();
    let ins: Vec<Tensor> =
        [line(q), line(k), line(&values)].into_iter().chain(more.iter().cloned()).collect();
    let cells: Vec<Number> = [1.0.into()].into_iter().chain(length.map(Number::Int)).collect();
    run(Op::Sdpa(s), &ins, &cells, &[1, 1, q.len(), 1], Dtype::F32)
}

#[test]
fn attention_weighs_values() {
    let k = [0.0, 2f64.ln(), 0.0];
    near(&attend(PLAIN, &[1.0, 0.0], &k, &[], None), &[(1.0 + 4.0 + 3.0) / 4.0, 2.0], 1e-6);
    // Causal, aligned to the bottom right.
    let causal = Sdpa { causal: true, ..PLAIN };
    near(&attend(causal, &[0.0, 0.0], &k, &[], None), &[1.5, 2.0], 1e-6);
    near(&attend(causal, &[0.0; 4], &k, &[], None), &[2.0, 1.0, 1.5, 2.0], 1e-6);
    // A length hides the rest of the buffer, and moves the diagonal.
    let length = Sdpa { length: true, ..causal };
    near(&attend(length, &[0.0, 0.0], &[0.0, 0.0, NAN], &[], Some(2)), &[1.0, 1.5], 1e-6);
    same(&attend(length, &[0.0], &[0.0], &[], Some(0)), &[0.0]);
    same(&attend(PLAIN, &[0.0, 0.0], &[], &[], None), &[0.0, 0.0]);
}

#[test]
fn attention_masks_and_sinks() {
    let masked = Sdpa { mask: true, ..PLAIN };
    let keep = ints([3], Dtype::Bool, &[1, 0, 1]);
    near(&attend(masked, &[0.0], &[0.0; 3], &[keep], None), &[2.0], 1e-6);
    let add = f32s([2, 3], &[0.0, -INF, 2f64.ln(), 0.0, 0.0, 0.0]);
    near(&attend(masked, &[0.0, 0.0], &[0.0; 3], &[add], None), &[7.0 / 3.0, 2.0], 1e-6);
    // Nothing left to see: the mean of the values, or nothing with sinks.
    for nothing in [ints([1, 3], Dtype::Bool, &[0; 3]), f32s([3], &[-INF; 3])] {
        near(&attend(masked, &[0.0], &[0.0; 3], from_ref(&nothing), None), &[2.0], 1e-6);
        let both = Sdpa { sinks: true, ..masked };
        same(&attend(both, &[0.0], &[0.0; 3], &[nothing, f32s([1], &[0.0])], None), &[0.0]);
    }
    // A sink takes its share of the weight and gives nothing.
    let sinks = Sdpa { sinks: true, ..PLAIN };
    near(&attend(sinks, &[0.0], &[0.0; 3], &[f32s([1], &[0.0])], None), &[1.5], 1e-6);
    near(&attend(sinks, &[0.0], &[0.0; 3], &[f32s([1], &[500.0])], None), &[0.0], 1e-6);
    let wrong =
        [range([1, 1, 1, 1]), range([1, 1, 3, 1]), range([1, 1, 3, 1]), ints([2], Dtype::Bool, &[1, 1])];
    assert!(try_run(Op::Sdpa(masked), &wrong, &[1.0.into()], &[1, 1, 1, 1], Dtype::F32).is_err());
}

/// Query heads 0, 1 read key head 0 and heads 2, 3 key head 1; values may be wider than keys.
#[test]
fn attention_groups_heads() {
    let q = range([2, 4, 1, 2]);
    let k = range([2, 2, 1, 2]);
    let v = range([2, 2, 1, 3]);
    let got = run(Op::Sdpa(PLAIN), &[q, k, v], &[0.5.into()], &[2, 4, 1, 3], Dtype::F32);
    let head = |h: usize| [0.0, 1.0, 2.0].map(|d| (h * 3) as f64 + d);
    let want: Vec<f64> = [0, 0, 1, 1, 2, 2, 3, 3].into_iter().flat_map(head).collect();
    same(&got, &want);
}

#[test]
fn random_words_depend_on_their_number() {
    let key = ints([2], Dtype::U32, &[0, 7]);
    let bits = |shape: &[usize]| run(Op::RandomBits, from_ref(&key), &[], shape, Dtype::U32);
    assert_eq!(bits(&[4]).data, bits(&[2, 2]).data);
    assert_ne!(bits(&[4]).floats()[..3], bits(&[3]).floats()[..]);
    assert_eq!(bits(&[0]).elems(), 0);
    let one = crate::op::random::threefry([0, 7], [0, 0])[0];
    assert_eq!(bits(&[1]).floats(), [one as f64]);
    assert!(try_run(Op::RandomBits, &[range([3])], &[], &[1], Dtype::U32).is_err());
}

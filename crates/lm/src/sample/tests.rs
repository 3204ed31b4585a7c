use proptest::prelude::*;

use super::*;

fn options(f: impl FnOnce(&mut SampleOptions)) -> SampleOptions {
    let mut o = SampleOptions { temperature: 1.0, ..SampleOptions::default() };
    f(&mut o);
    o
}

fn draws(o: SampleOptions, logits: &[f32], n: usize) -> Vec<u32> {
    let mut s = Sampler::new(o, logits.len()).unwrap();
    (0..n).map(|_| s.sample(logits, &[]).unwrap()).collect()
}

fn seen(o: SampleOptions, logits: &[f32]) -> Vec<u32> {
    let mut ids = draws(o, logits, 4000);
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn greedy_takes_the_first_of_equals_and_skips_nan() {
    let greedy = |l: &mut [f32]| Sampler::new(SampleOptions::default(), l.len()).unwrap().sample(l, &[]);
    assert_eq!(greedy(&mut [1.0, 3.0, 3.0]).unwrap(), 1);
    let mut many = vec![f32::NAN; 100];
    many[77] = -5.0;
    assert_eq!(greedy(&mut many).unwrap(), 77);
    assert_eq!(greedy(&mut [0.0, f32::INFINITY, f32::INFINITY]).unwrap(), 1);
    insta::assert_snapshot!(greedy(&mut [f32::NEG_INFINITY; 2]).unwrap_err(), @"[sample] no token is left to choose: all 2 logits are -inf or banned");
    let e = greedy(&mut [f32::NAN, f32::NEG_INFINITY]).unwrap_err();
    assert!(matches!(e, isopace::Error::Format(_)));
    insta::assert_snapshot!(e, @"[sample] all 2 logits are NaN or -inf: the model's weights hold no sensible numbers");
    assert!(greedy(&mut []).is_err());
}

#[test]
fn bad_options() {
    let e = |f: fn(&mut SampleOptions)| Sampler::new(options(f), 10).unwrap_err().to_string();
    insta::assert_snapshot!(e(|o| o.temperature = f32::NAN), @"[sample] temperature is NaN; it must be a finite number, 0 or more");
    insta::assert_snapshot!(e(|o| o.temperature = -1.0), @"[sample] temperature is -1; it must be a finite number, 0 or more");
    insta::assert_snapshot!(e(|o| o.temperature = f32::INFINITY), @"[sample] temperature is inf; it must be a finite number, 0 or more");
    insta::assert_snapshot!(e(|o| o.top_p = 0.0), @"[sample] top_p is 0; it must be above 0 and at most 1");
    insta::assert_snapshot!(e(|o| o.top_p = f32::NAN), @"[sample] top_p is NaN; it must be above 0 and at most 1");
    insta::assert_snapshot!(e(|o| o.min_p = 1.5), @"[sample] min_p is 1.5; it must be from 0 to 1");
    insta::assert_snapshot!(e(|o| o.repetition_penalty = 0.0), @"[sample] repetition_penalty is 0; it must be a finite number above 0");
    insta::assert_snapshot!(e(|o| o.logit_bias = vec![(3, f32::NAN)]), @"[sample] logit_bias of token 3 is NaN; it must be a finite number or -inf");
    insta::assert_snapshot!(e(|o| o.logit_bias = vec![(10, 1.0)]), @"[sample] logit_bias names token 10, but the vocabulary has 10 tokens");
}

/// Probabilities 0.5, 0.25, 0.15, 0.1.
fn four() -> [f32; 4] {
    [0.5f32, 0.25, 0.15, 0.1].map(f32::ln)
}

#[test]
fn filters_keep_what_they_say() {
    assert_eq!(seen(options(|_| ()), &four()), [0, 1, 2, 3]);
    assert_eq!(seen(options(|o| o.top_k = 2), &four()), [0, 1]);
    assert_eq!(seen(options(|o| o.top_k = 99), &four()), [0, 1, 2, 3]);
    assert_eq!(seen(options(|o| o.top_p = 0.7), &four()), [0, 1]);
    assert_eq!(seen(options(|o| o.top_p = 0.8), &four()), [0, 1, 2]);
    assert_eq!(seen(options(|o| o.min_p = 0.28), &four()), [0, 1, 2]);
    assert_eq!(seen(options(|o| o.min_p = 1.0), &four()), [0]);
    // Among the two that top-k leaves, the best has two thirds.
    assert_eq!(seen(options(|o| (o.top_k, o.top_p) = (2, 0.6)), &four()), [0]);
    assert_eq!(seen(options(|o| o.logit_bias = vec![(0, f32::NEG_INFINITY), (3, -100.0)]), &four()), [1, 2]);
}

#[test]
fn frequencies_follow_probabilities_and_temperature() {
    let n = 40_000;
    let share = |o, id| draws(o, &four(), n).iter().filter(|i| **i == id).count() as f64 / n as f64;
    assert!((share(options(|_| ()), 0) - 0.5).abs() < 0.01);
    assert!((share(options(|o| o.top_p = 0.7), 1) - 1.0 / 3.0).abs() < 0.01);
    let sharp = 0.25 / (0.25 + 0.0625 + 0.0225 + 0.01);
    assert!((share(options(|o| o.temperature = 0.5), 0) - sharp).abs() < 0.01);
    assert!((share(options(|o| o.temperature = 1e30), 3) - 0.25).abs() < 0.01);
    assert_eq!(seen(options(|o| o.temperature = f32::MIN_POSITIVE / 4.0), &four()), [0]);
}

#[test]
fn seeds_repeat_and_differ() {
    let flat = [0.0; 1000];
    let run = |seed| draws(options(|o| o.seed = seed), &flat, 50);
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert_ne!(run(0), run(1 << 63));
}

#[test]
fn penalty_looks_at_recent_tokens_once() {
    let o = SampleOptions { repetition_penalty: 2.0, repetition_context: 3, ..SampleOptions::default() };
    let mut s = Sampler::new(o, 4).unwrap();
    assert_eq!(s.sample(&[4.0, 3.0, -1.0, 2.5], &[1, 0, 0, 2]).unwrap(), 1);
    assert_eq!(s.changed, [2.0, 3.0, -2.0, 2.5]);
    assert_eq!(s.sample(&[2.0, 3.0, -2.0, 2.5], &[1, 99, 1]).unwrap(), 3);
}

#[test]
fn weights_are_exponentials() {
    for i in 0..=100_000 {
        let x = -87.0 * i as f32 / 100_000.0;
        let exact = f64::from(x).exp();
        let error = (f64::from(weight(x)) - exact).abs() / exact;
        // The argument's own rounding grows with its size.
        assert!(error < 2e-7 + f64::from(-x) * 1.2e-7, "{x}: {error}");
    }
    assert_eq!(weight(0.0), 1.0);
    assert!(weight(f32::NEG_INFINITY) < 1e-37 && weight(f32::NAN) < 1e-37);
}

proptest! {
    /// Top-k in one pass equals top-k by sorting, ties included.
    #[test]
    fn top_k_is_the_plain_one(values in prop::collection::vec(-4i8..4, 1..600), k in 1usize..300) {
        let logits: Vec<f32> = values.iter().map(|v| f32::from(*v)).collect();
        let mut s = Sampler::new(options(|_| ()), logits.len()).unwrap();
        s.collect_best(&logits, k);
        s.kept.sort_unstable_by(better);
        let mut all: Vec<(f32, u32)> = logits.iter().copied().zip(0..).collect();
        all.sort_unstable_by(better);
        all.truncate(k);
        prop_assert_eq!(&s.kept, &all);
    }

    /// Top-p in portions equals top-p by sorting everything, and something is always chosen.
    #[test]
    fn top_p_is_the_plain_one(seed in 0u64..1000, n in 1usize..2000, p in 0.01f32..1.0, spread in 0.0f32..8.0) {
        let mut random = Counter { seed, count: 0 };
        let logits: Vec<f32> = (0..n).map(|_| random.uniform() as f32 * spread).collect();
        let mut s = Sampler::new(options(|o| o.top_p = p), n).unwrap();
        let max = best(&logits).unwrap().1;
        s.collect(&logits, max);
        let mut all: Vec<(f32, u32)> = logits.iter().copied().zip(0..).collect();
        all.sort_unstable_by(better);
        let total: f64 = all.iter().map(|(l, _)| f64::from((l - max).exp())).sum();
        let before = |k: usize| all[..k].iter().map(|(l, _)| f64::from((l - max).exp())).sum::<f64>() / total;
        let k = s.kept.len();
        prop_assert!(before(k) >= f64::from(p) - 1e-6 && before(k - 1) < f64::from(p) + 1e-6);
        prop_assert_eq!(&s.kept[..], &all[..k]);
    }

    #[test]
    fn odd_logits_and_options_choose_or_say_why(
        logits in prop::collection::vec(prop_oneof![any::<f32>(), Just(f32::NAN), Just(f32::INFINITY), Just(f32::NEG_INFINITY), -5f32..5.0], 0..40),
        temperature in prop_oneof![Just(0f32), 0f32..3.0, Just(f32::MAX), Just(f32::MIN_POSITIVE)],
        top_k in 0usize..50, top_p in 0.001f32..=1.0, min_p in 0f32..=1.0, penalty in 0.001f32..1000.0,
    ) {
        let o = SampleOptions { temperature, top_k, top_p, min_p, repetition_penalty: penalty, ..SampleOptions::default() };
        let mut s = Sampler::new(o, logits.len()).unwrap();
        let chosen = s.sample(&logits, &[0, 3, 5]);
        let after = if penalty == 1.0 { &logits } else { &s.changed };
        match chosen {
            Ok(id) => prop_assert!(after[id as usize] > f32::NEG_INFINITY),
            Err(_) => prop_assert!(after.iter().all(|l| l.is_nan() || *l == f32::NEG_INFINITY)),
        }
    }
}

use super::*;
use crate::api::{eye, zeros};
use crate::reference;
use serde_json::Value as Json;

/// The state is one for the process: tests that use it take turns.
static TURN: Mutex<()> = Mutex::new(());

fn flat(v: &Json, out: &mut Vec<f64>) {
    match v {
        Json::Array(items) => items.iter().for_each(|i| flat(i, out)),
        Json::Bool(b) => out.push(*b as u8 as f64),
        Json::Number(n) if n.is_i64() || n.is_u64() => out.push(n.as_i64().unwrap() as f64),
        // Every float in the file is a float32; the parser may miss its float64 by one ulp.
        v => out.push(v.as_f64().unwrap() as f32 as f64),
    }
}

fn values(a: &Array) -> Vec<f64> {
    a.astype(Dtype::F64).unwrap().to_vec().unwrap()
}

/// 0, 1, 2... in a shape.
fn range(shape: impl Into<Shape>, dtype: Dtype) -> Array {
    let shape = shape.into();
    let v: Vec<f32> = (0..shape.elems()).map(|i| i as f32).collect();
    Array::from_slice(&v, shape).unwrap().astype(dtype).unwrap()
}

/// Runs the expression of a case.
fn run(expr: &str, dtype: Dtype, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    let has = |text: &str| expr.contains(text);
    let name = expr.trim_start_matches("mx.random.").split('(').next().unwrap();
    match name {
        "uniform" if has("(-2,3,") => uniform(-2.0, 3.0, shape, dtype, key),
        "uniform" => uniform(0.0, 1.0, shape, dtype, key),
        "normal" if has("loc=1,scale=2") => normal(shape, dtype, Some(1.0.into()), Some(2.0.into()), key),
        "normal" => normal(shape, dtype, None, None, key),
        // Of the identity: MLX's square root of it is the identity.
        "multivariate_normal" => {
            let (mean, cov) = (zeros([2], Dtype::F32)?, eye(2, 2, 0, Dtype::F32)?);
            multivariate_normal(&mean, &cov, &shape[..shape.len() - 1], key)
        }
        "gumbel" => gumbel(shape, dtype, key),
        "laplace" => laplace(shape, dtype, None, None, key),
        "truncated_normal" => truncated_normal(-1.0, 1.0, shape, dtype, key),
        "randint" if has("(0,2**40,") => randint(
            Operand::Scalar((1i64 << 40).into()).cast(Dtype::I64)?.subtract(1i64 << 40)?,
            Operand::Scalar((1i64 << 40).into()).cast(Dtype::I64)?,
            shape,
            dtype,
            key,
        ),
        "randint" if has("(-5,5,") => randint(-5, 5, shape, dtype, key),
        "randint" => randint(0, 100, shape, dtype, key),
        "bernoulli" if has("()") => bernoulli(0.5, None, key),
        "bernoulli" => {
            let p = Array::from_slice(&[0.3f32], []).unwrap();
            let d = [Dtype::F16, Dtype::BF16].into_iter().find(|d| has(&format!("mx.{}", d.name())));
            bernoulli(p.astype(d.unwrap_or(Dtype::F32))?, Some(shape), key)
        }
        "permutation" if has("reshape(3,4)") => permute(&range([3, 4], dtype), 1, key),
        "permutation" if has("(7)") => permutation(7, key),
        "permutation" => permute(&range([5], dtype).multiply(10.0)?, 0, key),
        "categorical" => {
            let d = [Dtype::F16, Dtype::BF16].into_iter().find(|d| has(&format!("mx.{}", d.name())));
            let d = d.unwrap_or(Dtype::F32);
            let logits = if has("broadcast_to") {
                range([1, 4], d).add(range([3, 1], d).multiply(0.0)?)?
            } else {
                range([4], d)
            };
            let samples = match () {
                _ if has("num_samples=8") => Samples::Count(8),
                _ if has("num_samples=4") => Samples::Count(4),
                _ => Samples::One,
            };
            categorical(&logits, -1, samples, key)
        }
        name => panic!("{name}: {expr}"),
    }
}

/// Every value that MLX 0.32.4 drew, bit for bit.
#[test]
fn draws_what_the_peer_draws() {
    reference::init();
    let _turn = TURN.lock();
    let text = include_str!("../../../tests/golden/mlx_random.json");
    let golden: Json = serde_json::from_str(text).unwrap();
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 135);
    let mut wrong = Vec::new();
    for case in cases {
        let seed_of = case["seed"].as_u64().unwrap();
        let name = case["fn"].as_str().unwrap();
        let dtype = Dtype::from_name(case["dtype"].as_str().unwrap()).unwrap();
        let expr = case["expr"].as_str().unwrap_or(name);
        let mut compare = |form: &str, got: Vec<f64>| {
            let mut want = Vec::new();
            flat(&case[form], &mut want);
            if got != want {
                wrong.push(format!("{expr} of {seed_of}, {form}: {got:?} for {want:?}"));
            }
        };
        let start = key(seed_of).unwrap();
        match name {
            "uniform_scalar_sequence" => {
                let n = case["seeded"].as_array().unwrap().len();
                seed(seed_of);
                let drawn = (0..n).map(|_| values(&uniform(0.0, 1.0, [], dtype, None).unwrap())[0]);
                compare("seeded", drawn.collect());
            }
            "split" => {
                let n = case["keyed"].as_array().unwrap().len();
                compare("keyed", values(&split(&start, n).unwrap()));
                compare("key", values(&start));
            }
            "state_after_calls" => {
                seed(seed_of);
                let n = case["seeded"].as_array().unwrap().len();
                let states = (0..n).flat_map(|_| {
                    uniform(0.0, 1.0, [], Dtype::F32, None).unwrap();
                    values(&state().unwrap())
                });
                compare("seeded", states.collect());
            }
            _ => {
                let mut shape = Vec::new();
                flat(&case["shape"], &mut shape);
                let shape: Vec<usize> = shape.into_iter().map(|d| d as usize).collect();
                seed(seed_of);
                let implicit = run(expr, dtype, &shape, None).unwrap();
                assert_eq!((implicit.dtype(), &implicit.shape()[..]), (dtype, &shape[..]), "{expr}");
                compare("seeded", values(&implicit));
                compare("keyed", values(&run(expr, dtype, &shape, Some(&start)).unwrap()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

fn spread(lo: f32, hi: f32) -> Vec<f32> {
    (0..5000).map(|i| lo + (hi - lo) * (i as f32 / 4999.0)).collect()
}

#[test]
fn the_peers_functions_are_near_the_true_ones() {
    reference::init();
    type Case = (fn(&Array) -> Result<Array>, fn(f64) -> f64, f32, f32, f64);
    let cases: [Case; 3] = [
        (peer::log, f64::ln, 1e-30, 2.0, 1e-7),
        (peer::log1p, f64::ln_1p, -0.999, 0.0, 2e-7),
        (peer::erf, libm::erf, -9.0, 9.0, 4e-7),
    ];
    for (f, truth, lo, hi, tolerance) in cases {
        let x = spread(lo, hi);
        let y = f(&Array::from_slice(&x, [5000]).unwrap()).unwrap().to_vec::<f32>().unwrap();
        for (x, y) in x.iter().zip(y) {
            let want = truth(*x as f64);
            assert!((y as f64 - want).abs() <= tolerance * want.abs().max(1.0), "{x}: {y} for {want}");
        }
    }
    // The composite and the function are one.
    let x = spread(1e-30, 3.0);
    let y = peer::log(&Array::from_slice(&x, [5000]).unwrap()).unwrap().to_vec::<f32>().unwrap();
    assert!(x.iter().zip(&y).all(|(&x, &y)| crate::op::scalar_ops::log_f32(x) == y));
    let ends = Array::from_slice(&[0.0f32, f32::INFINITY], [2]).unwrap();
    assert_eq!(peer::log(&ends).unwrap().to_vec::<f32>().unwrap(), [f32::NEG_INFINITY, f32::INFINITY]);
}

#[test]
fn draws_have_their_distributions() {
    reference::init();
    let k = key(7).unwrap();
    let n = 20000.0;
    let mean = |a: &Array| values(a).iter().sum::<f64>() / n;
    let m = |a: Array| mean(&a);
    let count = [20000];
    assert!((m(uniform(2.0, 4.0, count, Dtype::F32, Some(&k)).unwrap()) - 3.0).abs() < 0.02);
    let x = normal(count, Dtype::F32, Some(5.0.into()), Some(2.0.into()), Some(&k)).unwrap();
    assert!((mean(&x) - 5.0).abs() < 0.06);
    assert!((m(x.subtract(5.0).unwrap().square().unwrap()) - 4.0).abs() < 0.15);
    assert!((m(gumbel(count, Dtype::F32, Some(&k)).unwrap()) - 0.5772).abs() < 0.04);
    let x = laplace(count, Dtype::F32, Some(1.0.into()), Some(3.0.into()), Some(&k)).unwrap();
    assert!((mean(&x) - 1.0).abs() < 0.1);
    assert!((m(x.subtract(1.0).unwrap().abs().unwrap()) - 3.0).abs() < 0.1);
    let x = truncated_normal(0.5, 1.5, count, Dtype::F32, Some(&k)).unwrap();
    assert!(values(&x).iter().all(|x| (0.5..=1.5).contains(x)));
    assert!((m(bernoulli(0.25, Some(&count), Some(&k)).unwrap()) - 0.25).abs() < 0.02);
    let x = values(&randint(-3, 4, count, Dtype::I32, Some(&k)).unwrap());
    assert!((-3..4).all(|i| (x.iter().filter(|&&x| x == i as f64).count() as f64 - n / 7.0).abs() < 300.0));
    let logits = Array::from_slice(&[1f32.ln(), 2f32.ln(), 5f32.ln()], [3]).unwrap();
    let rows = logits.add(Array::from_slice(&[0f32, 0.0], [2, 1]).unwrap()).unwrap();
    for (x, each) in [
        (categorical(&logits, 0, Samples::Count(20000), Some(&k)).unwrap(), n),
        (categorical(&rows, -1, Samples::Count(10000), Some(&k)).unwrap(), n),
    ] {
        let x = values(&x);
        for (i, p) in [0.125, 0.25, 0.625].into_iter().enumerate() {
            let got = x.iter().filter(|&&x| x == i as f64).count() as f64 / each;
            assert!((got - p).abs() < 0.02, "{got} {p}");
        }
    }
}

#[test]
fn shapes_and_bad_arguments() {
    reference::init();
    let k = key(1).unwrap();
    let with = Some(&k);
    let shape = |a: Array| a.shape().to_vec();
    assert_eq!(shape(bits([0, 3], with).unwrap()), [0, 3]);
    assert!(values(&bits([0, 3], with).unwrap()).is_empty());
    assert_eq!(values(&bits([2, 2], with).unwrap()), values(&bits([4], with).unwrap()));
    let p = values(&permutation(50, with).unwrap());
    let mut sorted = p.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, (0..50).map(f64::from).collect::<Vec<_>>());
    assert_ne!(p, sorted);
    let logits = range([2, 3, 4], Dtype::F32);
    assert_eq!(shape(categorical(&logits, 1, Samples::One, with).unwrap()), [2, 4]);
    assert_eq!(shape(categorical(&logits, 0, Samples::Count(5), with).unwrap()), [3, 4, 5]);
    assert_eq!(shape(categorical(&logits, 2, Samples::Shape(&[7, 2, 3]), with).unwrap()), [7, 2, 3]);
    assert_eq!(shape(categorical(&range([1, 4], Dtype::F32), -1, Samples::One, with).unwrap()), [1]);
    assert!(categorical(&logits, 2, Samples::Shape(&[7, 3, 3]), with).is_err());
    assert!(categorical(&logits, 2, Samples::Shape(&[]), with).is_err());
    assert!(categorical(&range([], Dtype::F32), 0, Samples::One, with).is_err());
    assert!(uniform(0.0, 1.0, [2], Dtype::I32, with).is_err());
    assert!(uniform(range([3], Dtype::F32), 1.0, [2], Dtype::F32, with).is_err());
    assert!(bernoulli(1, None, with).is_err());
    assert!(values(&bernoulli(f64::NAN, Some(&[9]), with).unwrap()).iter().all(|&x| x == 0.0));
    assert!(values(&bernoulli(1.0, Some(&[99]), with).unwrap()).iter().all(|&x| x == 1.0));
    assert_eq!(values(&randint(3, 3, [2], Dtype::I32, with).unwrap()), [3.0, 3.0]);
    assert!(randint(0, 3, [2], Dtype::F32, with).is_err());
    for bad in [range([3], Dtype::U32), range([2], Dtype::I32), range([2, 1], Dtype::U32)] {
        assert!(bits([2], Some(&bad)).is_err());
        assert!(set_state(&bad).is_err());
    }
}

#[test]
fn the_state_is_split_the_same_way_in_every_form() {
    reference::init();
    let _turn = TURN.lock();
    let drawn = || values(&uniform(0.0, 1.0, [3], Dtype::F32, None).unwrap());
    seed(3);
    let by_words = [drawn(), drawn()];
    set_state(&key(3).unwrap()).unwrap();
    assert_eq!([drawn(), drawn()], by_words);
    seed(3);
    let before = with_state(|k| {
        let (next, used) = halves(k.clone())?;
        Ok((next, (k, used)))
    });
    let (start, used) = before.unwrap();
    assert_eq!(values(&start), [0.0, 3.0]);
    assert_eq!(values(&uniform(0.0, 1.0, [3], Dtype::F32, Some(&used)).unwrap()), by_words[0]);
    assert_eq!(drawn(), by_words[1]);
    // A failure leaves the state as it was.
    seed(3);
    assert!(with_state(|_| -> Result<(Array, ())> { bail!(Internal, "no") }).is_err());
    assert_eq!(drawn(), by_words[0]);
    // Inside a trace the key is the trace's own.
    let ((), traced) = crate::compile::trace::with_trace(|| {
        uniform(0.0, 1.0, [3], Dtype::F32, None).unwrap();
    });
    assert!(traced.key.is_some());
    assert_eq!(drawn(), by_words[1]);
    assert_eq!(words(0x0123_4567_89ab_cdef), [0x0123_4567, 0x89ab_cdef]);
}

fn fnv(a: &Array) -> u64 {
    let bytes = a.to_bytes().unwrap();
    bytes.into_iter().fold(0xcbf29ce484222325, |h, b| (h ^ b as u64).wrapping_mul(0x100000001b3))
}

/// Hashes of 4,001 numbers a function, as MLX 0.32.4 draws them with key 5.
#[test]
fn long_draws_are_the_peers_too() {
    reference::init();
    let k = key(5).unwrap();
    let (n, with) = ([4001], Some(&k));
    let want = [
        (
            Dtype::F32,
            [
                0x184f4a9178b44b67,
                0x0bded474310cf708,
                0x1c35095fc49abe6a,
                0x81d76c22f528e01f,
                0x4f31b550eba3154c,
            ],
        ),
        (
            Dtype::F16,
            [
                0x7b93ea6ecec51059,
                0x1ca351b2a0db65ff,
                0x58e06e63559358b7,
                0x968420ddec70292b,
                0x13ec47affa657911,
            ],
        ),
        (
            Dtype::BF16,
            [
                0x784dd5378bca4c8f,
                0x5b40bad25580e4b9,
                0x7f966b79332d7592,
                0xa59f2873461992c4,
                0xc0c46737bc80da0a,
            ],
        ),
    ];
    for (d, want) in want {
        let (loc, scale) = (|| Some(0.3.into()), || Some(1.7.into()));
        let got = [
            uniform(-1.5, 2.5, n, d, with),
            normal(n, d, loc(), scale(), with),
            gumbel(n, d, with),
            laplace(n, d, loc(), scale(), with),
            truncated_normal(-0.7, 2.1, n, d, with),
        ];
        assert_eq!(got.map(|a| fnv(&a.unwrap())), want, "{d}");
    }
    let logits = range([5, 100], Dtype::F32).multiply(0.01).unwrap();
    let first = range([100], Dtype::F32).multiply(0.01).unwrap();
    let half = logits.astype(Dtype::BF16).unwrap();
    let got = [
        bernoulli(0.37, Some(&n), with),
        randint(-1000, 100000, n, Dtype::I32, with),
        permutation(4001, with),
        categorical(&logits, -1, Samples::Count(801), with),
        categorical(&first, -1, Samples::Count(4001), with),
        categorical(&half, 0, Samples::One, with),
        split(&k, 2001),
    ];
    let want = [
        0x390808a5fcdedf17,
        0x4d34d5e68dd82b5e,
        0xc7c3836fb4696b20,
        0xd02209d0a3f3cb78,
        0x1b2d1b1aca0a5a11,
        0x94cf9fe4dec86a70,
        0x04bea186d5d1b99e,
    ];
    assert_eq!(got.map(|a| fnv(&a.unwrap())), want);
}

//! What compiled functions get wrong elsewhere, each on the CPU with the value that is right.

use isopace::compile::{Compiled, Container, Leaf, Leaves, Options, Token, Tree, compile, compile_with};
use isopace::{Array, Axes, Dtype, Error, Index, Operand, Result, Scalar, arange, bail, ones, random, zeros};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

fn f32s(values: &[f32]) -> Array {
    isopace::init();
    Array::from_slice(values, [values.len()]).expect("an array")
}

fn i32s(values: &[i32]) -> Array {
    isopace::init();
    Array::from_slice(values, [values.len()]).expect("an array")
}

fn floats(a: &Array) -> Vec<f32> {
    a.to_vec().expect("float32 values")
}

fn ints(a: &Array) -> Vec<i32> {
    a.to_vec().expect("int32 values")
}

/// A number, a text or a list, as a program in a dynamic language passes them.
#[derive(Clone, Debug)]
enum Value {
    Number(Scalar),
    Text(String),
    List(Vec<Value>),
    None,
}

fn number(n: impl Into<Scalar>) -> Value {
    Value::Number(n.into())
}

fn text(s: &str) -> Value {
    Value::Text(s.into())
}

impl Tree for Value {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        match self {
            Value::Number(n) => out.scalar(n),
            Value::Text(s) => out.fixed(Token::Str(s)),
            Value::List(l) => l.flatten(out),
            Value::None => out.fixed(Token::None),
        }
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        Ok(match self {
            Value::Number(n) => Value::Number(n.map(with)?),
            Value::List(l) => Value::List(l.map(with)?),
            v => v.clone(),
        })
    }
}

/// A function that counts how often it is traced.
fn counted<A: Tree, R: Tree + Send + Sync + 'static>(
    body: impl Fn(A) -> Result<R> + Send + Sync + 'static,
) -> (Compiled<A, R>, Arc<AtomicUsize>) {
    isopace::init();
    let traces = Arc::new(AtomicUsize::new(0));
    let count = traces.clone();
    let f = compile(move |args: A| {
        count.fetch_add(1, Ordering::Relaxed);
        body(args)
    });
    (f, traces)
}

#[test]
fn a_call_costs_the_same_after_thousands_of_values() -> Result<()> {
    let f = compile(|(x, n): (Array, Scalar)| x.multiply(2.0)?.add(n));
    let x = f32s(&[1.0; 64]);
    let time = |from: i64| -> Result<f64> {
        let start = Instant::now();
        for n in from..from + 500 {
            f.call((x.clone(), n.into()))?;
        }
        Ok(start.elapsed().as_secs_f64())
    };
    time(-500)?;
    // The quickest of a few runs on each side, as the machine may be busy.
    let early = (0..6).map(|i| time(i * 500)).collect::<Result<Vec<_>>>()?;
    for n in 3_000..20_000i64 {
        f.call((x.clone(), n.into()))?;
    }
    let late = (40..46).map(|i| time(i * 500)).collect::<Result<Vec<_>>>()?;
    let quickest = |v: &[f64]| v.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(quickest(&late) < 2.0 * quickest(&early), "{early:?} {late:?}");
    assert_eq!(floats(&f.call((f32s(&[3.0]), 7.into()))?), [13.0]);
    assert_eq!(f.stats().entries, 3, "a constant, every value, and the new shape");
    Ok(())
}

#[test]
fn four_first_calls_are_one_trace_and_a_new_thread_needs_none() -> Result<()> {
    let (f, traces) = counted(|x: Array| x.add(1));
    let four = || -> Result<()> {
        for i in 0..4 {
            assert_eq!(ints(&f.call(i32s(&[i]))?), [i + 1]);
        }
        Ok(())
    };
    four()?;
    std::thread::scope(|s| s.spawn(four).join().expect("a thread"))?;
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn offsets_as_arrays_share_one_trace() -> Result<()> {
    let (f, traces) = counted(|(x, offset): (Array, Array)| x.add(&offset));
    for i in 0..1000 {
        assert_eq!(ints(&f.call((i32s(&[1]), i32s(&[i])))?), [i + 1]);
    }
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn shapes_without_end_keep_bounded_memory() -> Result<()> {
    let f = compile(|x: Array| x.abs()?.add(1)?.sum(Axes::ALL, false));
    isopace::init();
    let mut bytes = 0;
    for n in 1..1500usize {
        let y = f.call(ones([n], Dtype::F32)?)?;
        if n % 100 == 0 {
            assert_eq!(y.item::<f32>()?, 2.0 * n as f32);
        }
        if n == 500 {
            bytes = f.stats().nbytes;
        }
    }
    assert!(f.stats().entries <= 256 && f.stats().nbytes < bytes + bytes / 8, "{:?}", f.stats());
    Ok(())
}

#[test]
fn zero_as_int_float_and_empty_text_are_three_keys() -> Result<()> {
    let add = compile(|(x, n): (Array, Scalar)| x.add(n));
    assert_eq!(add.call((i32s(&[1]), 0.into()))?.dtype(), Dtype::I32);
    assert_eq!(add.call((i32s(&[1]), 0.0.into()))?.dtype(), Dtype::F32);
    let pick = compile(|(x, mode): (Array, Value)| match mode {
        Value::Text(t) if t.is_empty() => x.multiply(2),
        _ => x.multiply(3),
    });
    assert_eq!(ints(&pick.call((i32s(&[1]), number(0)))?), [3]);
    assert_eq!(ints(&pick.call((i32s(&[1]), text("")))?), [2]);
    assert_eq!(ints(&pick.call((i32s(&[1]), Value::None))?), [3]);
    Ok(())
}

#[test]
fn true_and_one_are_two_keys_in_both_orders() -> Result<()> {
    isopace::init();
    let b = Array::from_bytes(&[1], [1], Dtype::Bool)?;
    let cases = [(Scalar::from(true), Dtype::Bool), (Scalar::from(1), Dtype::I32)];
    for order in [[0, 1], [1, 0]] {
        let f = compile(|(x, n): (Array, Scalar)| x.add(n));
        for i in order {
            assert_eq!(f.call((b.clone(), cases[i].0.clone()))?.dtype(), cases[i].1, "{order:?}");
        }
    }
    Ok(())
}

#[test]
fn nesting_is_part_of_the_key() -> Result<()> {
    let f = compile(|(x, list): (Array, Vec<Value>)| {
        let mut y = x;
        for v in list {
            y = match v {
                Value::Number(n) => y.add(n)?,
                Value::List(l) => l.into_iter().try_fold(y, |y, v| match v {
                    Value::Number(n) => y.add(n * 10),
                    _ => Ok(y),
                })?,
                _ => y,
            };
        }
        Ok(y)
    });
    let one = || number(1);
    let two = || number(2);
    let zero = i32s(&[0]);
    assert_eq!(ints(&f.call((zero.clone(), vec![Value::List(vec![one()]), two()]))?), [12]);
    assert_eq!(ints(&f.call((zero.clone(), vec![Value::List(vec![one(), two()])]))?), [30]);
    assert_eq!(ints(&f.call((zero.clone(), vec![Value::List(vec![]), one(), two()]))?), [3]);
    assert_eq!(ints(&f.call((zero, vec![]))?), [0]);
    Ok(())
}

#[test]
fn equal_texts_are_one_key() -> Result<()> {
    let (f, traces) = counted(|(x, tag): (Array, String)| x.add(tag.len() as i64));
    for _ in 0..5 {
        assert_eq!(ints(&f.call((i32s(&[0]), ["gel", "u"].concat()))?), [4]);
    }
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    assert_eq!(ints(&f.call((i32s(&[0]), "silu2".into()))?), [5]);
    assert_eq!(traces.load(Ordering::Relaxed), 2);
    Ok(())
}

#[test]
fn a_fused_minus_zero_keeps_its_sign() -> Result<()> {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        let body = move |x: Array| x.greater(0.0)?.where_(x.abs()?, isopace::full([], -0.0, Some(dtype))?);
        let x = f32s(&[1.0, -1.0]).astype(dtype)?;
        let f = compile(body);
        for y in [body(x.clone())?, f.call(x.clone())?, f.call(x.clone())?] {
            let y = floats(&y.astype(Dtype::F32)?);
            assert_eq!(y[1].to_bits(), (-0.0f32).to_bits(), "{dtype}");
        }
    }
    Ok(())
}

#[test]
fn nan_and_infinities_are_constants_like_others() -> Result<()> {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for c in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let body = move |x: Array| x.greater(0.0)?.where_(&x, c)?.multiply(2.0);
            let x = f32s(&[1.0, -1.0]).astype(dtype)?;
            let want = floats(&body(x.clone())?.astype(Dtype::F32)?);
            let got = floats(&compile(body).call(x)?.astype(Dtype::F32)?);
            assert_eq!(got[0], 2.0);
            assert_eq!((got[1].is_nan(), got[1] > 0.0), (c.is_nan(), c > 0.0), "{dtype} {c}: {got:?}");
            assert_eq!(got[1].is_nan(), want[1].is_nan());
        }
    }
    Ok(())
}

#[test]
fn fused_constants_have_all_their_digits() -> Result<()> {
    isopace::init();
    let key = random::key(1)?;
    let x = random::normal([4096], Dtype::F32, None, None, Some(&key))?;
    let r = x.multiply(1.37)?.add(0.11)?;
    for s in [1.0 / 3.0, 128f64.powf(-0.5), std::f64::consts::FRAC_1_SQRT_2] {
        // Each product evaluated by itself, so that nothing is fused.
        let product = x.multiply(&r)?;
        product.eval()?;
        let want = floats(&product.multiply(s)?);
        let f = compile(move |(x, r): (Array, Array)| x.multiply(&r)?.multiply(s));
        assert_eq!(floats(&f.call((x.clone(), r.clone()))?), want, "{s}");
    }
    Ok(())
}

#[test]
fn a_first_trace_that_fails_is_not_remembered() -> Result<()> {
    static BAD: AtomicBool = AtomicBool::new(true);
    isopace::init();
    let f = compile(|(): ()| {
        if BAD.load(Ordering::Relaxed) {
            bail!(Argument, "[mine] no");
        }
        isopace::full([], 1.0, None)?.add(2.0)
    });
    for _ in 0..2 {
        assert_eq!(f.call(()).map(|_| ()), Err(Error::Argument("[mine] no".into())));
    }
    BAD.store(false, Ordering::Relaxed);
    assert_eq!(f.call(())?.item::<f32>()?, 3.0);
    Ok(())
}

#[test]
fn a_trace_that_fails_leaves_what_it_saw_usable() -> Result<()> {
    static BAD: AtomicBool = AtomicBool::new(true);
    tree_state();
    let f = compile(|(state, x): (State, Array)| {
        let w = state.w.add(&x)?;
        if BAD.load(Ordering::Relaxed) {
            bail!(Argument, "[mine] boom");
        }
        Ok((State { w: w.clone(), offset: state.offset + 1 }, w))
    });
    let state = || State { w: f32s(&[1.0]), offset: 4.into() };
    let before = state();
    let copy = State { w: before.w.clone(), offset: before.offset.clone() };
    assert!(f.call((before, f32s(&[1.0]))).is_err());
    assert_eq!(floats(&copy.w), [1.0]);
    BAD.store(false, Ordering::Relaxed);
    let (after, y) = f.call((copy, f32s(&[1.0])))?;
    assert_eq!((floats(&y), floats(&after.w), after.offset.int("test")?), (vec![2.0], vec![2.0], 5));
    Ok(())
}

struct State {
    w: Array,
    offset: Scalar,
}
isopace::tree!(State { w, offset });

fn tree_state() {
    isopace::init();
}

#[test]
fn a_function_calls_itself_while_it_is_traced() -> Result<()> {
    type F = Compiled<(Array, i64), Array>;
    static SELF: OnceLock<F> = OnceLock::new();
    let f = SELF.get_or_init(|| {
        compile(|(x, n): (Array, i64)| match (n, SELF.get()) {
            (0, _) => x.multiply(2.0),
            (n, Some(f)) => x.add(f.call((f32s(&[1.0]), n - 1))?),
            _ => bail!(Internal, "[test] the function is not set"),
        })
    });
    for (n, want) in [(3, 14.0), (0, 20.0), (12, 23.0), (2, 13.0)] {
        assert_eq!(floats(&f.call((f32s(&[10.0]), n))?), [want]);
    }
    Ok(())
}

#[test]
fn compiled_functions_inside_others_and_over_one_lazy_array() -> Result<()> {
    let inner = Arc::new(compile(|x: Array| x.multiply(2.0)?.add(1.0)));
    let used = inner.clone();
    let outer = compile(move |x: Array| used.call(used.call(x)?));
    assert_eq!(floats(&outer.call(f32s(&[1.0]))?), [7.0]);
    assert_eq!(floats(&outer.call(f32s(&[2.0]))?), [11.0]);
    assert_eq!(floats(&inner.call(f32s(&[1.0]))?), [3.0]);

    let s = arange(0, 4, 1, Some(Dtype::F32))?.multiply(0.5)?.add(1.0)?.cumsum(Some(0), false, true)?;
    let r = s.flip([0i64])?.multiply(ones([4], Dtype::F32)?)?;
    let (s2, r2, s3) = (s.clone(), r.clone(), s.clone());
    let first = compile(move |v: Array| v.add(&s2));
    let second = compile(move |v: Array| v.multiply(&r2)?.subtract(&s3));
    let got = second.call(first.call(zeros([4], Dtype::F32)?)?)?;
    let want = zeros([4], Dtype::F32)?.add(&s)?.multiply(&r)?.subtract(&s)?;
    assert_eq!(floats(&got), floats(&want));
    // s = 1, 2.5, 4.5, 7 and r is s from its end.
    assert_eq!(floats(&got), [6.0, 8.75, 6.75, 0.0]);
    Ok(())
}

#[test]
fn functions_traced_on_one_thread_and_dropped_on_another_keep_apart() -> Result<()> {
    for i in 0..100 {
        let worker = std::thread::spawn(move || -> Result<_> {
            let g = compile(move |x: Array| x.subtract(i));
            let y = g.call(i32s(&[10]))?;
            Ok((g, y))
        });
        let (g, y) = worker.join().expect("a thread")?;
        assert_eq!(ints(&y), [10 - i]);
        drop(g);
    }
    Ok(())
}

#[test]
fn short_threads_share_the_traces() -> Result<()> {
    let (f, traces) = counted(|x: Array| x.abs()?.multiply(2.0)?.add(1.0));
    for i in 0..20 {
        let got = std::thread::scope(|s| s.spawn(|| f.call(f32s(&[i as f32]))).join().expect("a thread"))?;
        assert_eq!(floats(&got), [2.0 * i as f32 + 1.0]);
    }
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn compiled_draws_differ_and_follow_the_seed() -> Result<()> {
    let (f, traces) = counted(|x: Array| x.add(random::uniform(0.0, 1.0, [4], Dtype::F32, None)?));
    let zeros = f32s(&[0.0; 4]);
    let draws = std::thread::scope(|s| {
        s.spawn(|| -> Result<_> {
            let draws = (0..4).map(|_| Ok(floats(&f.call(zeros.clone())?))).collect::<Result<Vec<_>>>()?;
            random::seed(42);
            let a = floats(&f.call(zeros.clone())?);
            random::seed(42);
            assert_eq!(a, floats(&f.call(zeros.clone())?), "the same seed");
            random::seed(42);
            assert_eq!(a, floats(&random::uniform(0.0, 1.0, [4], Dtype::F32, None)?), "as uncompiled");
            Ok(draws)
        })
        .join()
        .expect("a thread")
    })?;
    for (i, a) in draws.iter().enumerate() {
        assert!(draws[i + 1..].iter().all(|b| a != b), "{draws:?}");
    }
    assert_eq!(traces.load(Ordering::Relaxed), 1);
    Ok(())
}

#[test]
fn a_number_in_captured_state_is_not_frozen() -> Result<()> {
    tree_state();
    let f = compile(|(state, x): (State, Array)| x.multiply(&state.w)?.multiply(&state.offset));
    for offset in [2, 3, 5] {
        let state = State { w: f32s(&[1.0]), offset: offset.into() };
        assert_eq!(floats(&f.call((state, f32s(&[1.0])))?), [offset as f32]);
    }
    Ok(())
}

#[test]
fn a_closure_that_keeps_what_it_traced_gets_an_error() -> Result<()> {
    let kept: Arc<Mutex<Vec<Array>>> = Arc::default();
    let base = f32s(&[1.0, 1.0]).multiply(2.0)?;
    kept.lock().expect("a lock").push(base.clone());
    let inside = kept.clone();
    let f = compile(move |x: Array| {
        let mut kept = inside.lock().expect("a lock");
        let next = kept.last().map_or(Ok(x.clone()), |last| last.add(&x))?;
        kept.push(next.clone());
        Ok(next)
    });
    assert_eq!(floats(&f.call(base)?), [4.0, 4.0]);
    // What the trace left in the list has no value outside of it.
    let leaked = kept.lock().expect("a lock").pop().expect("two arrays");
    let e = leaked.eval().expect_err("no value").to_string();
    assert!(e.contains("compile"), "{e}");
    Ok(())
}

#[test]
fn results_of_another_structure_come_from_another_trace() -> Result<()> {
    for order in [[true, false], [false, true]] {
        let f = compile(|(x, n): (Array, Option<i64>)| match n {
            None => Ok((x.multiply(3)?, None)),
            Some(n) => Ok((x.slice(&[0], &[n], None)?, Some(x.slice(&[n], &[5], None)?))),
        });
        for cut in order {
            let v = i32s(&[0, 1, 2, 3, 4]);
            let (a, b) = f.call((v, cut.then_some(2)))?;
            match cut {
                true => assert_eq!((ints(&a), b.as_ref().map(ints)), (vec![0, 1], Some(vec![2, 3, 4]))),
                false => assert_eq!((ints(&a), b.is_none()), (vec![0, 3, 6, 9, 12], true)),
            }
        }
    }
    Ok(())
}

#[test]
fn a_reversed_slice_is_assigned_in_every_place() -> Result<()> {
    let back = || Index::Slice { start: None, stop: None, step: Some((-1).into()) };
    let f = compile(move |v: Array| {
        let r = v.index(&[back()])?;
        v.ones_like()?.set(&[back()], r.multiply(&r)?.subtract(0.5)?)
    });
    let v = f32s(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    for _ in 0..2 {
        assert_eq!(floats(&f.call(v.clone())?), [-0.5, 0.5, 3.5, 8.5, 15.5, 24.5]);
    }
    let by = |n: i64| Index::Slice { start: None, stop: None, step: Some(n.into()) };
    let w = arange(0, 210, 1, Some(Dtype::F32))?.reshape([2, 3, 5, 7])?.index(&[
        by(-1),
        Index::all(),
        by(-2),
        by(3),
    ])?;
    let body = |v: Array| v.abs()?.multiply(2.0)?.add(1.0);
    let got = compile(body).call(w.clone())?;
    assert_eq!(got.shape().to_vec(), [2, 3, 3, 3]);
    assert_eq!(floats(&got)[..4], [2.0 * 133.0 + 1.0, 273.0, 279.0, 2.0 * 119.0 + 1.0]);
    assert_eq!(floats(&got), floats(&body(w)?));
    Ok(())
}

#[test]
fn a_hundred_ops_over_broadcast_scalars_are_right_twice() -> Result<()> {
    isopace::init();
    let pairs: Vec<(Array, Array)> = (0..30)
        .map(|i| Ok((isopace::full([], 0.1 * i as f64, None)?, isopace::full([], 1.0 + i as f64, None)?)))
        .collect::<Result<_>>()?;
    let body = move |x: Array| {
        let column = x.slice(&[0, 0], &[2, 1], None)?;
        let mut y = zeros([3], Dtype::F32)?;
        for (c, w) in &pairs {
            y = y.multiply(0.9)?.add(column.subtract(c)?.divide(w)?.square()?)?;
        }
        y.add(&x)
    };
    let x = f32s(&[0.3, -1.0, 2.0, 0.7, 0.1, -0.4]).reshape([2, 3])?;
    let want = floats(&body(x.clone())?);
    let f = compile(body);
    for _ in 0..2 {
        assert_eq!(floats(&f.call(x.clone())?), want);
    }
    Ok(())
}

#[test]
fn fused_integers_wrap_and_floor_as_uncompiled_ones() -> Result<()> {
    for dtype in [Dtype::U8, Dtype::U16, Dtype::U32, Dtype::U64] {
        let x = i32s(&[1, 2, 250]).astype(dtype)?;
        let got = compile(|x: Array| x.abs()?.add(1)).call(x)?;
        assert_eq!(got.dtype(), dtype);
        assert_eq!(ints(&got.astype(Dtype::I32)?), [2, 3, 251], "{dtype}");
    }
    let (a, b) = (i32s(&[-7, -3, 0, 7, i32::MIN]), i32s(&[2, 2, 2, -2, 2]));
    let f = compile(|(a, b): (Array, Array)| {
        a.floor_divide(&b)?.multiply(3)?.add(a.remainder(&b)?)?.subtract(a.abs()?)
    });
    let want: Vec<i32> = [(-4, 1, 7), (-2, 1, 3), (0, 0, 0), (-4, -1, 7), (i32::MIN / 2, 0, i32::MIN)]
        .iter()
        .map(|&(q, r, abs): &(i32, i32, i32)| q.wrapping_mul(3).wrapping_add(r).wrapping_sub(abs))
        .collect();
    assert_eq!(ints(&f.call((a, b))?), want);
    Ok(())
}

#[test]
fn two_hundred_inputs_and_sixty_three_outputs() -> Result<()> {
    let sum = compile(|all: Vec<Array>| {
        let mut all = all.into_iter();
        let first = all.next().ok_or_else(|| Error::Argument("[sum] nothing".into()))?;
        all.try_fold(first, |a, b| a.add(&b))
    });
    let inputs: Vec<Array> = (0..200).map(|i| f32s(&[i as f32])).collect();
    assert_eq!(floats(&sum.call(inputs)?), [19900.0]);
    let many = compile(|x: Array| {
        let mut out = vec![x.clone()];
        for i in 0..62 {
            out.push(out[i].add(&x)?);
        }
        Ok(out)
    });
    for (i, y) in many.call(f32s(&[1.0]))?.iter().enumerate() {
        assert_eq!(floats(y), [i as f32 + 1.0]);
    }
    Ok(())
}

#[test]
fn tracing_is_linear_in_the_uses_of_a_scalar() -> Result<()> {
    let time = |n: usize| -> Result<f64> {
        let f = compile(move |x: Array| (0..n / 2).try_fold(x, |x, _| x.multiply(0.5)?.add(0.25)));
        let start = Instant::now();
        let y = f.call(f32s(&[0.5]))?;
        let took = start.elapsed().as_secs_f64();
        assert_eq!(floats(&y), [0.5]);
        Ok(took)
    };
    time(500)?;
    let quickest =
        |n| (0..3).map(|_| time(n)).collect::<Result<Vec<_>>>().map(|v| v.into_iter().fold(9.0, f64::min));
    let (short, long) = (quickest(2000)?, quickest(8000)?);
    assert!(long < 8.0 * short + 0.05, "{short} s for 2,000 ops, {long} s for 8,000");
    Ok(())
}

#[test]
fn rows_taken_and_summed_for_any_count() -> Result<()> {
    let table = f32s(&[3.0, 9.0, 4.0, 1.0, 8.0, 2.0]).reshape([3, 2])?;
    let f = compile(|(t, i): (Array, Array)| t.take(&i, Some(0))?.sum(0, false));
    for (n, want) in [(1, [3.0, 9.0]), (3, [15.0, 12.0]), (2, [7.0, 10.0]), (1, [3.0, 9.0])] {
        let i = arange(0, n, 1, Some(Dtype::I32))?;
        assert_eq!(floats(&f.call((table.clone(), i))?), want, "{n} rows");
    }
    Ok(())
}

#[test]
fn a_new_value_of_a_float_compiles_nothing() -> Result<()> {
    let f = compile(|(x, c): (Array, Scalar)| x.abs()?.multiply(c)?.add(1));
    let x = f32s(&[1.0, -2.0]);
    for i in 0..40 {
        let c = 0.1 + i as f64 * 0.0173;
        assert_eq!(floats(&f.call((x.clone(), c.into()))?), [c as f32 + 1.0, 2.0 * c as f32 + 1.0]);
    }
    assert_eq!(f.stats().traces, 2, "{}", f.explain());
    Ok(())
}

#[test]
fn an_extent_read_by_the_function_follows_the_input() -> Result<()> {
    let mean = compile(|x: Array| x.sum(Axes::ALL, false)?.divide(x.size() as i64));
    let merge = compile(|x: Array| x.reshape([(x.dim(0)? * x.dim(1)?) as i64, -1])?.add(1));
    isopace::init();
    for n in [4, 8] {
        assert_eq!(mean.call(ones([n], Dtype::F32)?)?.item::<f32>()?, 1.0);
    }
    for n in [2, 5] {
        let y = merge.call(ones([n, 3, 4], Dtype::F32)?)?;
        assert_eq!(y.shape().to_vec(), [n * 3, 4]);
        assert_eq!(floats(&y), vec![2.0; n * 12]);
    }
    Ok(())
}

#[test]
fn memory_given_away_keeps_its_views() -> Result<()> {
    isopace::init();
    let f = compile(|x: Array| x.sin()?.add(1.0));
    let a = arange(0, 8, 1, Some(Dtype::F32))?.add(0.0)?;
    a.eval()?;
    let kept = a.slice(&[2], &[4], None)?;
    let y = f.call(a)?;
    y.eval()?;
    assert_eq!(floats(&kept), [2.0, 3.0]);
    let body = |x: Array| x.exp()?.multiply(2.0)?.flip([0i64])?.add(&x);
    let b = || -> Result<Array> {
        let b = arange(0, 4, 1, Some(Dtype::F32))?.add(0.0)?;
        b.eval()?;
        Ok(b)
    };
    let want = floats(&body(b()?)?);
    assert_eq!(floats(&compile(body).call(b()?)?), want);
    // Two results of one array that is given away.
    let two = compile(|x: Array| Ok((x.add(1.0)?, x.multiply(2.0)?)));
    let (p, q) = two.call(b()?)?;
    assert_eq!((floats(&p), floats(&q)), (vec![1.0, 2.0, 3.0, 4.0], vec![0.0, 2.0, 4.0, 6.0]));
    Ok(())
}

#[test]
fn arrays_in_every_container_reach_the_function_in_order() -> Result<()> {
    isopace::init();
    let f = compile(|(a, b, c, d): (Vec<Array>, Option<Array>, Box<(Array, Scalar)>, State)| {
        let mut y = a[0].multiply(1000)?.add(a[1].multiply(100)?)?;
        if let Some(b) = b {
            y = y.add(b.multiply(10)?)?;
        }
        y.add(c.0)?.add(&c.1)?.add(d.w.multiply(&d.offset)?)
    });
    for n in 0..4 {
        let args = |b| {
            let state = State { w: f32s(&[0.25]), offset: n.into() };
            (vec![f32s(&[1.0]), f32s(&[2.0])], b, Box::new((f32s(&[4.0]), Scalar::from(n))), state)
        };
        let extra = n as f32 * 1.25;
        assert_eq!(floats(&f.call(args(Some(f32s(&[3.0]))))?), [1234.0 + extra]);
        assert_eq!(floats(&f.call(args(None))?), [1204.0 + extra]);
    }
    let maps = compile(
        |m: (std::collections::HashMap<String, Array>, std::collections::BTreeMap<String, Array>)| {
            m.0["b"].multiply(100)?.add(m.0["a"].multiply(10)?)?.add(&m.1["z"])
        },
    );
    for _ in 0..3 {
        let m = [("b", 1.0), ("a", 2.0)].map(|(k, v)| (k.to_string(), f32s(&[v])));
        let args = (m.into_iter().collect(), [("z".to_string(), f32s(&[3.0]))].into_iter().collect());
        assert_eq!(floats(&maps.call(args)?), [123.0]);
    }
    Ok(())
}

/// A tree that leaves `take_arrays` to the trait.
struct Plain(Array, Array);

impl Tree for Plain {
    fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
        out.open(Container::Struct, 2);
        Tree::flatten(&self.0, out);
        out.array(self.1.clone());
    }
    fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
        Ok(Plain(with.array(&self.0)?, with.array(&self.1)?))
    }
}

#[test]
fn a_tree_of_the_users_own() -> Result<()> {
    let o = Options { name: Some("own".into()), ..Options::default() };
    let f = compile_with(o, |p: Plain| Ok(Plain(p.1.clone(), p.0.subtract(Operand::from(&p.1))?)));
    for _ in 0..3 {
        let Plain(a, b) = f.call(Plain(f32s(&[5.0]), f32s(&[3.0])))?;
        assert_eq!((floats(&a), floats(&b)), (vec![3.0], vec![2.0]));
    }
    assert_eq!(f.stats().traces, 1);
    Ok(())
}

/// A step gives logits and a cache. Whoever keeps the logits of every step does not keep the caches: each is
/// written in place by the next step.
#[test]
fn kept_logits_do_not_keep_the_cache() -> Result<()> {
    isopace::init();
    let address = |a: &Array| a.value().map(|v| Arc::as_ptr(&v.buffer).cast::<()>() as usize);
    let step = compile(|(cache, x, at): (Array, Array, Scalar)| {
        let zero = Scalar::from(0);
        let cache = cache.slice_update(&x, &[at, zero])?;
        Ok((cache.sum(0, false)?, cache))
    });
    let (mut cache, mut kept) = (zeros([64, 4], Dtype::F32)?, Vec::new());
    cache.eval()?;
    let first = address(&cache)?;
    for i in 0..64 {
        let (logits, next) = step.call((cache, ones([1, 4], Dtype::F32)?, Scalar::from(i)))?;
        logits.eval()?;
        assert_eq!(address(&next)?, first, "step {i}");
        kept.push(logits);
        cache = next;
    }
    for (i, logits) in kept.iter().enumerate() {
        assert_eq!(floats(logits), [(i + 1) as f32; 4]);
    }
    Ok(())
}

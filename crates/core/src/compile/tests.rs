use super::*;
use crate::{Array, Error, Scalar, ScalarOp, bail};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

fn array(values: &[f32]) -> Array {
    crate::reference::init();
    Array::from_slice(values, [values.len()]).unwrap()
}

fn floats(a: &Array) -> Vec<f32> {
    a.to_vec().unwrap()
}

#[test]
fn one_plan_for_every_value() {
    let f = compile(|(x, n): (Array, Scalar)| x.multiply(2.0)?.add(n));
    let x = array(&[1.0, 2.0]);
    for n in 0..1000i64 {
        assert_eq!(floats(&f.call((x.clone(), n.into())).unwrap()), [2.0 + n as f32, 4.0 + n as f32]);
    }
    let s = f.stats();
    assert_eq!((s.calls, s.traces, s.hits), (1000, 2, 998));
    // A new shape is symbolic at once.
    let y = array(&[1.0, 2.0, 3.0]);
    for n in 0..10 {
        f.call((y.clone(), n.into())).unwrap();
    }
    assert_eq!(f.stats().traces, 3);
}

#[test]
fn keys_tell_types_and_structure_apart() {
    #[derive(Clone)]
    enum V {
        S(Scalar),
        T(&'static str),
        F(f64),
        I(i64),
        B(bool),
        L(Vec<V>),
        M(BTreeMap<String, V>),
        O(Option<Box<V>>),
        U((Box<V>, Box<V>)),
        N,
    }
    impl Tree for V {
        fn flatten<'a>(&'a self, out: &mut Leaves<'a>) {
            match self {
                V::S(s) => out.scalar(s),
                V::T(t) => out.fixed(Token::Str(t)),
                V::F(f) => f.flatten(out),
                V::I(i) => i.flatten(out),
                V::B(b) => b.flatten(out),
                V::L(l) => l.flatten(out),
                V::M(m) => m.flatten(out),
                V::O(o) => o.flatten(out),
                V::U(t) => t.flatten(out),
                V::N => out.fixed(Token::None),
            }
        }
        fn map(&self, with: &mut dyn Leaf) -> Result<Self> {
            Ok(match self {
                V::S(s) => V::S(s.map(with)?),
                V::L(l) => V::L(l.map(with)?),
                V::M(m) => V::M(m.map(with)?),
                V::O(o) => V::O(o.map(with)?),
                V::U(t) => V::U(t.map(with)?),
                v => v.clone(),
            })
        }
    }
    let s = |x: Scalar| V::S(x);
    let map = |names: &[&str]| V::M(names.iter().map(|k| (k.to_string(), V::I(1))).collect());
    let values = [
        s(1.into()),
        s(1.0.into()),
        s(true.into()),
        V::T("1"),
        s(0.0.into()),
        s((-0.0).into()),
        s(f64::NAN.into()),
        V::N,
        V::L(vec![]),
        V::L(vec![V::L(vec![])]),
        V::L(vec![s(1.into())]),
        V::L(vec![V::L(vec![s(1.into())]), s(2.into())]),
        V::L(vec![V::L(vec![s(1.into()), s(2.into())])]),
        V::T(""),
        s(false.into()),
        s(0.into()),
        // Static values of the same look.
        V::I(1),
        V::I(0),
        V::F(1.0),
        V::F(0.0),
        V::F(-0.0),
        V::F(f64::NAN),
        V::F(f64::from_bits(1)),
        V::T("1.0"),
        V::T("12345678"),
        V::T("123456789"),
        V::T("12345678\0"),
        V::L(vec![V::T("ab"), V::T("c")]),
        V::L(vec![V::T("a"), V::T("bc")]),
        V::L(vec![V::L(vec![]), V::L(vec![])]),
        V::L(vec![V::N]),
        V::L(vec![V::B(true)]),
        map(&[]),
        map(&["a"]),
        map(&["b"]),
        map(&["a", "b"]),
        map(&["ab"]),
        V::O(Some(V::N.into())),
        V::O(Some(V::I(1).into())),
        V::U((V::N.into(), V::N.into())),
        V::U((V::I(1).into(), V::L(vec![]).into())),
    ];
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate() {
            let traces = std::sync::Arc::new(AtomicUsize::new(0));
            let count = traces.clone();
            let f =
                compile_with(Options { scalars: ScalarMode::Static, ..Options::default() }, move |_: V| {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                });
            crate::reference::init();
            f.call(a.clone()).unwrap();
            f.call(b.clone()).unwrap();
            let want = if i == j { 1 } else { 2 };
            assert_eq!(traces.load(Ordering::Relaxed), want, "values {i} and {j}");
        }
    }
}

#[test]
fn comparisons_are_guards() {
    let f = compile(|(x, n): (Array, Scalar)| if n.gt(3)? { x.add(&n) } else { x.subtract(&n) });
    let x = array(&[10.0]);
    for n in [0, 1, 5, 2, 9, 3, 4, 100, -7] {
        let want = if n > 3 { 10.0 + n as f32 } else { 10.0 - n as f32 };
        assert_eq!(floats(&f.call((x.clone(), n.into())).unwrap()), [want]);
    }
    assert_eq!(f.stats().traces, 3, "{}", f.explain());
    assert_eq!(f.stats().variants, 3);
}

#[test]
fn too_many_ways_make_it_static() {
    let f = compile_with(Options { max_variants: 2, ..Options::default() }, |(x, n): (Array, Scalar)| {
        for i in 0..100 {
            if n.equals(i)? {
                return x.add(i);
            }
        }
        x.add(&n)
    });
    let x = array(&[1.0]);
    for n in 0..20 {
        assert_eq!(floats(&f.call((x.clone(), n.into())).unwrap()), [1.0 + n as f32]);
    }
    assert!(f.explain().to_string().contains("static"), "{}", f.explain());
    assert!(f.stats().entries <= 66);
}

#[test]
fn values_taken_make_it_static_with_place() {
    let f = compile(|(x, n): (Array, Scalar)| {
        let k = n.int("loop count")?;
        (0..k).try_fold(x.clone(), |y, _| y.add(&x))
    });
    let x = array(&[1.0]);
    for n in [1, 2, 3, 2, 1, 3] {
        assert_eq!(floats(&f.call((x.clone(), n.into())).unwrap()), [1.0 + n as f32]);
    }
    let text = f.explain().to_string();
    assert!(text.contains("loop count") && text.contains("compile/tests.rs"), "{text}");
    // The entry of the first constant still serves its value.
    assert_eq!(f.stats().traces, 3, "{text}");
}

#[test]
fn arithmetic_that_fails_is_a_miss_with_the_constant() {
    let f = compile(|(x, n): (Array, Scalar)| {
        let k = (Scalar::from(12)).binary(crate::ScalarOp::FloorDiv, &n);
        x.add(k)
    });
    let x = array(&[1.0]);
    for n in [3, 4, 0, 5, 0, 6] {
        let got = f.call((x.clone(), n.into()));
        match n {
            0 => assert!(got.unwrap_err().to_string().contains("division by zero")),
            n => assert_eq!(floats(&got.unwrap()), [1.0 + (12 / n) as f32]),
        }
    }
    // Range: an int that does not fit the array's dtype is that call's own error.
    let g = compile(|(x, n): (Array, Scalar)| x.add(n));
    let b = Array::from_slice(&[1u8, 2], [2]).unwrap();
    for n in [3, 4, 300, 5] {
        let got = g.call((b.clone(), n.into()));
        match n {
            300 => assert!(got.unwrap_err().to_string().contains("uint8")),
            n => assert_eq!(got.unwrap().to_vec::<u8>().unwrap(), [1 + n as u8, 2 + n as u8]),
        }
    }
}

#[test]
fn bounds_hold_under_static_scalars() {
    let o = Options { scalars: ScalarMode::Static, max_static_entries: 8, ..Options::default() };
    let f = compile_with(o, |(x, n): (Array, Scalar)| x.add(n));
    let x = array(&[1.0]);
    for n in 0..200 {
        assert_eq!(floats(&f.call((x.clone(), n.into())).unwrap()), [1.0 + n as f32]);
    }
    let s = f.stats();
    assert_eq!((s.entries, s.traces, s.evictions), (8, 200, 192));
    let bytes = s.nbytes;
    f.clear_cache();
    assert!(bytes > 0 && f.stats().nbytes == 0 && f.stats().entries == 0);
}

#[test]
fn shapes_are_bounded_and_outlive_constants() {
    let o = Options { max_entries: 4, ..Options::default() };
    let f = compile_with(o, |x: Array| x.add(1.0));
    for n in 1..20 {
        let x = array(&vec![1.0; n]);
        assert_eq!(floats(&f.call(x).unwrap()), vec![2.0; n]);
    }
    assert_eq!(f.stats().entries, 4);
}

#[test]
fn errors_leave_nothing_behind() {
    static FAIL: AtomicUsize = AtomicUsize::new(1);
    let f = compile(|x: Array| {
        if FAIL.load(Ordering::Relaxed) == 1 {
            bail!(Argument, "[mine] not today");
        }
        x.add(1.0)
    });
    let x = array(&[2.0]);
    for _ in 0..2 {
        assert_eq!(f.call(x.clone()).unwrap_err(), Error::Argument("[mine] not today".into()));
    }
    assert_eq!((f.stats().entries, f.stats().failed), (0, 2));
    FAIL.store(0, Ordering::Relaxed);
    assert_eq!(floats(&f.call(x).unwrap()), [3.0]);
}

#[test]
fn panics_unwind_cleanly() {
    static FAIL: AtomicUsize = AtomicUsize::new(1);
    let f = compile(|x: Array| {
        assert!(FAIL.load(Ordering::Relaxed) == 0, "on purpose");
        x.add(1.0)
    });
    let x = array(&[2.0]);
    let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call(x.clone())));
    assert!(r.is_err());
    FAIL.store(0, Ordering::Relaxed);
    assert!(!is_tracing());
    assert_eq!(floats(&f.call(x).unwrap()), [3.0]);
}

#[test]
fn outputs_of_every_kind() {
    let c = array(&[7.0]);
    let captured = c.clone();
    let f = compile(move |(x, n): (Array, Scalar)| {
        let y = x.add(1.0)?;
        let mut map = BTreeMap::new();
        map.insert("y".to_string(), y.clone());
        Ok((x, y.clone(), y, captured.clone(), (n + 1, "text", map, None::<Array>)))
    });
    let x = array(&[1.0, 2.0]);
    for n in 0..4 {
        let (same, y, again, seven, (m, text, map, none)) = f.call((x.clone(), n.into())).unwrap();
        assert_eq!(floats(&same), [1.0, 2.0]);
        assert_eq!(floats(&y), [2.0, 3.0]);
        assert_eq!(floats(&again), [2.0, 3.0]);
        assert_eq!(floats(&seven), [7.0]);
        assert_eq!(floats(&map["y"]), [2.0, 3.0]);
        assert_eq!(m.value("test").unwrap().as_int(), Some(n + 1));
        assert!(text == "text" && none.is_none());
    }
}

#[test]
fn lazy_captures_are_constants() {
    let base = array(&[1.0, 2.0]).add(1.0).unwrap();
    let inside = base.clone();
    let f = compile(move |x: Array| x.add(&inside));
    let g = base.multiply(2.0).unwrap();
    assert_eq!(floats(&f.call(array(&[1.0, 1.0])).unwrap()), [3.0, 4.0]);
    assert_eq!(floats(&g), [4.0, 6.0]);
}

#[test]
fn nested_and_recursive_functions_inline() {
    let inner = std::sync::Arc::new(compile(|x: Array| x.multiply(3.0)));
    let used = inner.clone();
    let outer = compile(move |x: Array| used.call(x.add(1.0)?)?.add(1.0));
    assert_eq!(floats(&outer.call(array(&[1.0])).unwrap()), [7.0]);
    assert_eq!(floats(&inner.call(array(&[1.0])).unwrap()), [3.0]);
    assert_eq!(inner.stats().calls, 1, "the inner call was inlined");

    type F = Compiled<(Array, i64), Array>;
    static SELF: std::sync::OnceLock<F> = std::sync::OnceLock::new();
    let f = SELF.get_or_init(|| {
        compile(|(x, n): (Array, i64)| match n {
            0 => Ok(x),
            n => SELF.get().ok_or(Error::Internal("unset".into()))?.call((x.add(1.0)?, n - 1)),
        })
    });
    for n in [3, 0, 12, 2] {
        assert_eq!(floats(&f.call((array(&[10.0]), n)).unwrap()), [10.0 + n as f32]);
    }
}

#[test]
fn evaluation_inside_a_trace_is_refused() {
    let f = compile(|x: Array| {
        let v = x.add(1.0)?.item::<f32>()?;
        x.add(v as f64)
    });
    let e = f.call(array(&[1.0])).unwrap_err().to_string();
    assert!(e.contains("compile"), "{e}");
    assert_eq!(floats(&array(&[1.0]).add(1.0).unwrap()), [2.0]);
}

#[test]
fn threads_share_one_trace() {
    let traces = std::sync::Arc::new(AtomicUsize::new(0));
    let count = traces.clone();
    let f = compile(move |x: Array| {
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(std::time::Duration::from_millis(20));
        x.add(1.0)
    });
    array(&[0.0]);
    std::thread::scope(|s| {
        for i in 0..8 {
            let f = &f;
            s.spawn(move || assert_eq!(floats(&f.call(array(&[i as f32])).unwrap()), [i as f32 + 1.0]));
        }
    });
    assert_eq!(traces.load(Ordering::Relaxed), 1);
}

#[test]
fn a_warning_comes_once_with_path_and_remedy() {
    let f = compile_with(
        Options { name: Some("step".into()), ..Options::default() },
        |(x, n): (Array, Scalar)| {
            let k = n.int("a dimension")?;
            x.add(k)
        },
    );
    let x = array(&[1.0]);
    let mut warnings = Vec::new();
    for n in 0..30 {
        f.call((x.clone(), n.into())).unwrap();
        warnings.extend(f.function.take_warning());
    }
    assert_eq!(warnings.len(), 1);
    for part in ["`step`", "args[1]", "last values", "a dimension", "pass it as an array"] {
        assert!(warnings[0].contains(part), "{part} is not in {}", warnings[0]);
    }
}

#[test]
fn nonfinite_and_signed_zero_constants() {
    let f = compile(|(x, s): (Array, Scalar)| x.greater(0.0)?.where_(x.abs()?, s));
    let x = array(&[1.0, -1.0]);
    for v in [-0.0, 0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let got = floats(&f.call((x.clone(), v.into())).unwrap());
        assert_eq!(got[1].to_bits(), (v as f32).to_bits(), "{v}");
    }
}

#[test]
fn many_uses_of_one_constant_compile_in_linear_time() {
    let f = compile(|x: Array| (0..40_000).try_fold(x, |y, _| y.add(1.0)));
    let start = std::time::Instant::now();
    f.call(array(&[0.0])).unwrap();
    assert!(start.elapsed().as_secs_f64() < 4.0, "{:?}", start.elapsed());
}

/// As in Python, whose integers have no bound; step by step, 64 bits would not do.
#[test]
fn what_cancels_does_not_overflow_on_the_way() {
    let o = Options { scalars: ScalarMode::Symbolic, ..Options::default() };
    let f = compile_with(o, |(x, n): (Array, Scalar)| {
        x.add(n.binary(ScalarOp::Add, &Scalar::from(-1)).binary(ScalarOp::Sub, &n))
    });
    for n in [0, 7, i64::MIN, i64::MAX] {
        assert_eq!(floats(&f.call((array(&[3.0]), n.into())).unwrap()), [2.0], "{n}");
    }
    assert_eq!(f.stats().traces, 1);
}

#[test]
fn what_stands_side_by_side_is_evaluated_in_linear_time() {
    let many = || -> Vec<Array> { (0..20_000).map(|i| array(&[i as f32]).add(1.0).unwrap()).collect() };
    let start = std::time::Instant::now();
    let joined = crate::api::concatenate(&many(), 0).unwrap();
    assert_eq!(joined.to_vec::<f32>().unwrap()[19_999], 20_000.0);
    let apart = many();
    crate::runtime::eval(&apart).unwrap();
    assert_eq!(floats(&apart[19_999]), [20_000.0]);
    assert!(start.elapsed().as_secs_f64() < 8.0, "{:?}", start.elapsed());
}

#[test]
fn dropped_on_another_thread() {
    for i in 0..50 {
        let f = compile(move |x: Array| x.add(i as f64));
        let f = std::thread::spawn(move || {
            assert_eq!(floats(&f.call(array(&[0.0])).unwrap()), [i as f32]);
            f
        });
        drop(f.join().unwrap());
    }
}

/// Every text of `explain`, as users read it.
#[test]
fn explain_texts() {
    let o = || Options { name: Some("f".into()), ..Options::default() };
    let f = compile_with(o(), |(x, n, m): (Array, Scalar, Scalar)| {
        if n.gt(10)? {
            return x.add(&n);
        }
        let k = m.int("a repeat count")?;
        x.multiply(k)?.add(Scalar::from(100).binary(crate::ScalarOp::FloorDiv, &n))
    });
    let x = array(&[1.0, 2.0]);
    for (n, m) in [(1, 5), (2, 5), (3, 6), (0, 6), (11, 6), (12, 6)] {
        let _ = f.call((x.clone(), n.into(), m.into()));
    }
    let _ = f.call((array(&[1.0]), 11.into(), 6.into()));
    let text = f.explain().to_string();
    assert!(text.starts_with("f: 7 calls, "), "{text}");
    insta::assert_snapshot!(without_places(&text));
}

/// The lines of an account after the first, which counts bytes, with places in this file as PLACE.
fn without_places(text: &str) -> String {
    let line = |line: &str| match line.find("crates") {
        None => line.to_string(),
        Some(at) => {
            let end = line[at..].find([' ', ')']).map_or(line.len(), |i| at + i);
            format!("{}PLACE{}", &line[..at], &line[end..])
        }
    };
    text.lines().skip(1).map(line).collect::<Vec<_>>().join("\n")
}

/// How each reason to be static reads, and the warning.
#[test]
fn explain_texts_of_static_arguments() {
    let x = array(&[1.0]);
    let mut out = String::new();
    let mut section = |title: &str, f: &Compiled<(Array, Scalar), Array>, values: std::ops::Range<i64>| {
        for n in values {
            f.call((x.clone(), n.into())).unwrap();
        }
        out += &format!("{title}:\n{}\n", without_places(&f.explain().to_string()));
        if let Some(w) = f.function.take_warning() {
            let at = w.find("crates").map_or(w.len(), |i| i);
            let end = w[at..].find(' ').map_or(w.len(), |i| at + i);
            out += &format!("  warning: {}PLACE{}\n", &w[..at], &w[end..]);
        }
    };
    let named = |o: Options| Options { name: Some("f".into()), ..o };
    let o = named(Options { scalars: ScalarMode::Static, ..Options::default() });
    section("an option", &compile_with(o, |(x, n): (Array, Scalar)| x.add(n)), 0..3);
    let o = || named(Options { warn_after: 3, ..Options::default() });
    let value = compile_with(o(), |(x, n): (Array, Scalar)| x.add(n.int("a loop count")?));
    section("its value is taken", &value, 0..5);
    let fails = compile_with(o(), |(x, n): (Array, Scalar)| match n.number()? {
        None => bail!(Argument, "[mine] no symbols, please"),
        Some(_) => x.add(n),
    });
    section("symbolic, it cannot be traced", &fails, 0..3);
    let o = named(Options { max_variants: 1, ..Options::default() });
    let ways = compile_with(o, |(x, n): (Array, Scalar)| {
        let bit = (0..16).find(|&i| n.equals(i).unwrap_or(false));
        x.add(bit.unwrap_or(-1))
    });
    section("its comparisons go too many ways", &ways, 0..6);
    insta::assert_snapshot!(out);
}

/// How each cause of a miss reads.
#[test]
fn texts_of_causes() {
    let aval = |n: usize| crate::Aval::new([n, 3], crate::Dtype::F32);
    let miss = |cause: Cause, argument: Option<&str>| {
        Miss { call: 7, cause, argument: argument.map(Into::into), trace_us: 1.0 }.to_string()
    };
    let two = crate::Number::Int(2);
    let lines = [
        miss(Cause::First, None),
        miss(Cause::New, None),
        miss(Cause::Tree, None),
        miss(Cause::Aval { array: 1, from: aval(2), to: aval(4) }, None),
        miss(Cause::Varies { arg: 0, from: two, to: crate::Number::Int(-5) }, Some("args[1].offset")),
        miss(Cause::Static { arg: 0, value: crate::Number::Float(0.5) }, Some("scale")),
        miss(Cause::Guard { place: "model.py:12".into() }, None),
        miss(Cause::Program { text: "[scalar] division by zero".into() }, None),
    ];
    insta::assert_snapshot!(lines.join("\n"));
}

/// The other results may be gone: a leaf is one result.
#[test]
fn one_of_several_results_is_captured_and_read_alone() -> Result<()> {
    let f = compile(|x: Array| Ok((x.add(1.0)?, x.add(2.0)?)));
    for computed in [false, true] {
        let (_, kept) = f.call(array(&[1.0]))?;
        if computed {
            kept.eval()?;
        }
        assert_eq!(floats(&kept.add(1.0)?), [4.0]);
        let g = compile(move |x: Array| kept.multiply(x));
        assert_eq!(floats(&g.call(array(&[2.0]))?), [6.0]);
    }
    Ok(())
}

#[test]
fn several_results_that_fail_leave_the_rest_alone() -> Result<()> {
    crate::reference::init();
    let f = compile(|x: Array| {
        let y = x.inverse()?;
        Ok((y.clone(), y.add(1.0)?))
    });
    let singular = Array::from_slice(&[0.0f32; 4], [2, 2])?;
    let (a, b) = f.call(singular.clone())?;
    let y = singular.add(1.0)?;
    crate::runtime::async_eval(&[a.clone(), b.clone(), y.clone()])?;
    assert!(a.value().is_err() && b.value().is_err());
    assert_eq!(y.to_vec::<f32>()?, [1.0; 4]);
    Ok(())
}

//! The compile cache under threads: shuttle runs each test in hundreds of schedules, switching threads
//! wherever one takes the cache's lock, waits, or yields inside the function being traced. Run it with
//! one test at a time: functions are listed for the whole process.

use isopace_core::compile::{self, Compiled, Options, ScalarMode, compile, compile_with};
use isopace_core::{Array, Result, Scalar, bail};
use shuttle::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SCHEDULES: usize = 300;

/// Random schedules, and as many that delay threads at a few chosen points.
fn check(test: impl Fn() + Send + Sync + Clone + 'static) {
    isopace_core::reference::init();
    shuttle::check_random(test.clone(), SCHEDULES);
    shuttle::check_pct(test, SCHEDULES, 3);
}

fn array(n: usize) -> Array {
    Array::from_slice(&vec![1.0f32; n], [n]).expect("an array")
}

fn floats(a: Array) -> Vec<f32> {
    a.to_vec().expect("its values")
}

/// Threads that each run `body` with their number, joined.
fn threads(n: usize, body: impl Fn(usize) + Send + Sync + 'static) {
    let body = Arc::new(body);
    let all: Vec<_> = (0..n)
        .map(|i| {
            let body = body.clone();
            thread::spawn(move || body(i))
        })
        .collect();
    for t in all {
        t.join().expect("a thread");
    }
}

/// `x + 1`, with other threads let in while it is traced; counts its traces.
fn plus_one(options: Options, traces: &Arc<AtomicUsize>) -> Arc<Compiled<Array, Array>> {
    let traces = traces.clone();
    Arc::new(compile_with(options, move |x: Array| {
        traces.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        let y = x.add(1.0);
        thread::yield_now();
        y
    }))
}

#[test]
fn concurrent_misses_trace_once() {
    check(|| {
        let traces = Arc::new(AtomicUsize::new(0));
        let f = plus_one(Options::default(), &traces);
        let g = f.clone();
        threads(3, move |i| assert_eq!(floats(f.call(array(2)).expect("a call")), [2.0; 2], "thread {i}"));
        assert_eq!(traces.load(Ordering::Relaxed), 1);
        let s = g.stats();
        assert_eq!((s.calls, s.hits, s.misses, s.traces, s.entries), (3, 2, 1, 1, 1));
    });
}

#[test]
fn different_keys_do_not_wait_for_each_other() {
    check(|| {
        let traces = Arc::new(AtomicUsize::new(0));
        let f = plus_one(Options::default(), &traces);
        threads(3, move |i| assert_eq!(floats(f.call(array(i + 1)).expect("a call")), vec![2.0; i + 1]));
        assert_eq!(traces.load(Ordering::Relaxed), 3);
    });
}

#[test]
fn entries_go_while_other_threads_hit_them() {
    check(|| {
        let f = plus_one(Options { max_entries: 1, ..Options::default() }, &Arc::default());
        let g = f.clone();
        threads(3, move |i| {
            for k in 0..3 {
                let n = 1 + (i + k) % 2;
                assert_eq!(floats(f.call(array(n)).expect("a call")), vec![2.0; n]);
                assert!(f.stats().entries <= 1);
            }
        });
        assert_eq!(g.stats().entries, 1);
        g.clear_cache();
        assert_eq!((g.stats().entries, g.stats().nbytes), (0, 0), "bytes of what went are given back");
    });
}

#[test]
fn scalars_become_symbolic_under_threads() {
    for scalars in [ScalarMode::Auto, ScalarMode::Static, ScalarMode::Symbolic] {
        check(move || {
            let o = Options { scalars, max_static_entries: 2, max_variants: 1, ..Options::default() };
            let f = Arc::new(compile_with(o, |(x, n): (Array, Scalar)| {
                thread::yield_now();
                if n.gt(1)? { x.add(&n) } else { x.subtract(&n) }
            }));
            let g = f.clone();
            threads(3, move |i| {
                for n in [i as i64, 2 - i as i64] {
                    let want = if n > 1 { 1.0 + n as f32 } else { 1.0 - n as f32 };
                    let got = f.call((array(1), n.into())).expect("a call");
                    assert_eq!(floats(got), [want], "{n}: {}", f.explain());
                }
            });
            let s = g.stats();
            assert_eq!(s.hits + s.misses, s.calls, "every call is a hit or a miss");
        });
    }
}

#[test]
fn whoever_drops_it_last_frees_it() {
    check(|| {
        let named = || compile::compile_stats().iter().filter(|(name, _)| name == "shared").count();
        let f = plus_one(Options { name: Some("shared".into()), ..Options::default() }, &Arc::default());
        assert_eq!(named(), 1);
        let g = f.clone();
        let other = thread::spawn(move || {
            let y = g.call(array(2)).expect("a call");
            drop(g);
            // The call holds what it needs.
            assert_eq!(floats(y), [2.0; 2]);
        });
        let y = f.call(array(3)).expect("a call");
        drop(f);
        assert_eq!(floats(y), [2.0; 3]);
        other.join().expect("a thread");
        assert_eq!(named(), 0);
    });
}

#[test]
fn clearing_meets_misses() {
    check(|| {
        let f = plus_one(Options::default(), &Arc::default());
        let g = f.clone();
        threads(3, move |i| match i {
            0 => f.clear_cache(),
            1 => {
                assert_eq!(floats(f.call(array(2)).expect("a call")), [2.0; 2]);
                compile::clear_cache();
            }
            _ => {
                for n in [1, 2] {
                    assert_eq!(floats(f.call(array(n)).expect("a call")), vec![2.0; n]);
                }
            }
        });
        g.clear_cache();
        assert_eq!((g.stats().entries, g.stats().nbytes), (0, 0));
        assert_eq!(floats(g.call(array(2)).expect("a call")), [2.0; 2]);
    });
}

#[test]
fn an_error_wakes_those_who_wait_and_is_not_kept() {
    check(|| {
        let first = AtomicUsize::new(0);
        let f = Arc::new(compile(move |x: Array| {
            let failing = first.fetch_add(1, Ordering::Relaxed) == 0;
            thread::yield_now();
            if failing {
                bail!(Argument, "[mine] the first trace fails");
            }
            x.add(1.0)
        }));
        let errors = Arc::new(AtomicUsize::new(0));
        let (g, seen) = (f.clone(), errors.clone());
        threads(3, move |_| match f.call(array(2)) {
            Ok(y) => assert_eq!(floats(y), [2.0; 2]),
            Err(e) => {
                assert!(e.to_string().contains("[mine]"), "{e}");
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(errors.load(Ordering::Relaxed), 1, "only the thread that traced sees its error");
        assert_eq!((g.stats().traces, g.stats().failed, g.stats().entries), (2, 1, 1));
    });
}

#[test]
fn a_panic_wakes_those_who_wait() {
    // Messages of panics that are on purpose are not wanted.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload().downcast_ref::<&str>().is_some_and(|s| s.contains("on purpose")) {
            hook(info);
        }
    }));
    check(|| {
        let first = AtomicUsize::new(0);
        let f = Arc::new(compile(move |x: Array| -> Result<Array> {
            let failing = first.fetch_add(1, Ordering::Relaxed) == 0;
            thread::yield_now();
            assert!(!failing, "on purpose");
            x.add(1.0)
        }));
        let panics = Arc::new(AtomicUsize::new(0));
        let (g, seen) = (f.clone(), panics.clone());
        threads(3, move |_| match catch_unwind(AssertUnwindSafe(|| f.call(array(2)))) {
            Ok(y) => assert_eq!(floats(y.expect("a call")), [2.0; 2]),
            Err(_) => {
                assert!(!compile::is_tracing(), "the trace ends on unwinding");
                seen.fetch_add(1, Ordering::Relaxed);
            }
        });
        assert_eq!(panics.load(Ordering::Relaxed), 1);
        assert_eq!(g.stats().entries, 1);
    });
}

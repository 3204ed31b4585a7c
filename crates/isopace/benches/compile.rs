//! What compiled functions and small evaluations cost the host.

use criterion::{Criterion, criterion_group, criterion_main};
use isopace::compile::{Options, ScalarMode, compile, compile_with};
use isopace::{Array, Scalar};

fn input() -> Array {
    isopace::init();
    Array::from_slice(&[1.0f32; 64], [64]).expect("an array")
}

fn calls(c: &mut Criterion) {
    let x = input();
    let f = compile(|(x, y, n): (Array, Array, Scalar)| x.multiply(&y)?.add(n));
    for n in 0..3i64 {
        f.call((x.clone(), x.clone(), n.into())).expect("a call");
    }
    c.bench_function("hit: 2 arrays, 1 scalar", |b| {
        b.iter(|| f.call((x.clone(), x.clone(), Scalar::from(7))).expect("a call"))
    });
    let mut n = 10i64;
    c.bench_function("fresh scalar", |b| {
        b.iter(|| {
            n += 1;
            f.call((x.clone(), x.clone(), n.into())).expect("a call")
        })
    });
    let fixed = Options { scalars: ScalarMode::Static, ..Options::default() };
    let g = compile_with(fixed, |(x, n): (Array, Scalar)| x.add(n));
    c.bench_function("static scalar, every value new", |b| {
        b.iter(|| {
            n += 1;
            g.call((x.clone(), n.into())).expect("a call")
        })
    });
    let ten = compile(|x: Array| {
        let y = x.multiply(2.0)?.add(1.0)?.exp()?.tanh()?;
        y.multiply(&x)?.subtract(3.0)?.abs()?.sqrt()?.maximum(0.5)?.negative()
    });
    c.bench_function("retrace of 10 ops", |b| {
        b.iter(|| {
            ten.clear_cache();
            ten.call(x.clone()).expect("a call")
        })
    });
}

fn eager(c: &mut Criterion) {
    let x = input();
    c.bench_function("lazy add", |b| b.iter(|| x.add(&x).expect("a node")));
    c.bench_function("eval x + 1, 64 elements", |b| {
        b.iter(|| x.add(1.0).and_then(|y| y.eval().map(|()| y)).expect("a value"))
    });
}

criterion_group!(benches, calls, eager);
criterion_main!(benches);

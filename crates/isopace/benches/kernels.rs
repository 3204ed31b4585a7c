//! What calls of custom kernels cost the host, and what one of them takes over a million floats beside
//! the block VM. Counters prove that a repeated call generates no text.

use criterion::{Criterion, criterion_group, criterion_main};
use isopace::kernel::TemplateValue;
use isopace::{Array, Dtype, KernelCall, MetalKernel, Operand, Shape};

const NAMES: [&str; 7] = ["state", "x", "dt", "a", "b", "c", "d"];

/// A kernel with the inputs and template arguments of a state-space scan.
fn scan(name: &str) -> MetalKernel {
    let source = "uint i = thread_position_in_grid.x;
        T decay = exp(a[i] * dt[i]) * (T)(N + H + G);
        out_state[i] = S ? state[i] * decay + b[i] * x[i] : state[i];
        y[i] = (U)out_state[i] * c[i] + d[i] * x[i];";
    MetalKernel::new(name, &NAMES, &["y", "out_state"], source).expect("a kernel")
}

fn template(n: i64) -> [(&'static str, TemplateValue); 6] {
    let (t, u) = (Dtype::F32.into(), Dtype::F32.into());
    [("T", t), ("U", u), ("N", n.into()), ("H", 8.into()), ("G", 2.into()), ("S", true.into())]
}

fn calls(c: &mut Criterion) {
    isopace::init();
    let x = Array::from_slice(&[0.5f32; 64], [64]).expect("an array");
    let inputs: [Operand; 7] = std::array::from_fn(|_| (&x).into());
    let (shapes, dtypes) = ([Shape::from([64]), Shape::from([64])], [Dtype::F32; 2]);
    let call = |k: &MetalKernel, n: i64| {
        k.call(&KernelCall {
            inputs: &inputs,
            template: &template(n),
            grid: [64, 1, 1],
            threadgroup: [64, 1, 1],
            output_shapes: &shapes,
            output_dtypes: &dtypes,
            ..Default::default()
        })
        .expect("a call")
    };
    let one = scan("scan");
    call(&one, 1);
    c.bench_function("repeated call: 7 inputs, 6 template arguments (at most 1 us)", |b| {
        b.iter(|| call(&one, 1))
    });
    assert_eq!(one.stats().sources_generated, 1, "a repeated call generated its source again");

    let five: Vec<MetalKernel> = (0..5).map(|i| scan(&format!("scan_{i}"))).collect();
    c.bench_function("700 calls of 5 functions, 3 specializations each (at most 0.7 ms)", |b| {
        b.iter(|| (0..700).map(|i| call(&five[i % 5], (i / 5 % 3) as i64)).collect::<Vec<_>>())
    });
    for k in &five {
        assert_eq!(k.stats().sources_generated, 3, "a source for each specialization, no more");
    }
}

fn elementwise(c: &mut Criterion) {
    isopace::init();
    let n = 1 << 20;
    let x = Array::from_slice(&vec![0.5f32; n], [n]).expect("an array");
    let axpy = MetalKernel::new(
        "axpy",
        &["x"],
        &["y"],
        "uint i = thread_position_in_grid.x; y[i] = x[i] * 3.0f + 1.0f;",
    )
    .expect("a kernel");
    let run = || {
        axpy.call(&KernelCall {
            inputs: &[(&x).into()],
            grid: [n as i64, 1, 1],
            threadgroup: [256, 1, 1],
            output_shapes: &[Shape::from([n])],
            output_dtypes: &[Dtype::F32],
            ..Default::default()
        })
        .expect("a call")
        .remove(0)
    };
    let vm = || x.multiply(3.0f32).and_then(|y| y.add(1.0f32)).expect("an array");
    for (name, y) in [("kernel", run()), ("block VM", vm())] {
        assert_eq!(y.to_vec::<f32>().expect(name), vec![2.5; n], "{name}");
    }
    c.bench_function("x * 3 + 1 over 1,048,576 floats, kernel (half the VM's speed at least)", |b| {
        b.iter(|| run().eval())
    });
    c.bench_function("the same, block VM", |b| b.iter(|| vm().eval()));
}

criterion_group!(benches, calls, elementwise);
criterion_main!(benches);

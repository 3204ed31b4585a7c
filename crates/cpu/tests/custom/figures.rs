//! Figures, on request: `cargo test --release -p isopace-cpu --test custom -- --ignored --nocapture figures`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use super::*;

/// Seconds that this thread has computed: what others do on the machine counts less.
fn cpu_time() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn best(mut f: impl FnMut(), calls: usize) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..25 {
        let start = cpu_time();
        for _ in 0..calls {
            f();
        }
        least = least.min((cpu_time() - start) / calls as f64);
    }
    least
}

#[test]
#[ignore = "prints figures; run it by name on a quiet machine"]
fn figures() {
    let names = ["X", "A_log", "B", "C", "D", "dt", "state_in"];
    let k = function("hot", &names, &["out", "state_out"], "out[0] = T(Dh + Ds + H + G);");
    let f32s = InputKind::of(Dtype::F32, 3, 4096, false);
    let template = [
        ("T", dt(Dtype::F32)),
        ("U", dt(Dtype::F32)),
        ("Dh", int(64)),
        ("Ds", int(128)),
        ("H", int(32)),
        ("G", int(4)),
    ];
    let outs = [Dtype::F32, Dtype::F32];
    let once = || {
        std::hint::black_box(k.specialize(std::hint::black_box(&template), &[f32s; 7], &outs).unwrap());
    };
    println!("lookup, 7 inputs, 6 template arguments: {:.0} ns", best(once, 10_000) * 1e9);
    assert_eq!(k.stats().sources_generated, 1);

    let dir = fresh_dir("figures");
    let m = Modules::new(ModulesOptions { dir: Some(dir), ..Default::default() });
    let k = function("trivial", &["a"], &["out"], "out[thread_position_in_grid.x] = a[0];");
    let s = specialize(&k, &[], &[Data::of(&[0f32; 9])], &[Data::zeros(Dtype::F32, 9)]).unwrap();
    let start = Instant::now();
    m.get(&s).unwrap();
    println!("build of a trivial kernel: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    println!("module from memory: {:.0} ns", best(|| drop(m.get(&s).unwrap()), 10_000) * 1e9);

    let n = 1 << 20;
    let x: Vec<f32> = (0..n).map(|i| (i % 1000) as f32 * 0.01 - 5.0).collect();
    let one_thread = |c: usize, f: &(dyn Fn(usize) + Sync)| (0..c).for_each(f);
    for (name, source) in [
        ("copy", "out[i] = a[i];"),
        ("multiply-add", "out[i] = a[i] * 1.5 + 2.0;"),
        ("exp", "out[i] = metal::exp(a[i]);"),
        (
            "tanh-GELU",
            "float x = a[i]; out[i] = 0.5 * x * (1.0 + metal::tanh(0.7978845608 * (x + 0.044715 * x * x * x)));",
        ),
        (
            "silu, guarded",
            "if (i >= a_shape[0]) return; float x = a[i]; out[i] = x / (1.0 + metal::exp(-x));",
        ),
        ("sin (libm)", "out[i] = sin(a[i]);"),
        ("half in and out", "half h = half(a[i]); out[i] = float(h * h);"),
        ("bfloat in and out", "bfloat h = bfloat(a[i]); out[i] = float(h * h);"),
    ] {
        let k = function(
            "elementwise",
            &["a"],
            &["out"],
            &format!("uint i = thread_position_in_grid.x; {source}"),
        );
        let (mut inputs, mut out) = ([Data::of(&x)], [Data::zeros(Dtype::F32, n)]);
        let spec = specialize(&k, &[], &inputs, &out).unwrap();
        let module = m.get(&spec).unwrap().module;
        let shape = inputs[0].shape.clone();
        let (a, o) = (inputs[0].bytes.as_mut_ptr().cast::<u8>(), out[0].bytes.as_mut_ptr().cast::<u8>());
        let args: Vec<Arg> = spec
            .args
            .iter()
            .map(|s| match s {
                ArgSlot::Input(_) => Arg::Input(a),
                ArgSlot::Shape(_) => Arg::Shape(&shape),
                _ => Arg::Output(o),
            })
            .collect();
        let t = best(
            // SAFETY: the kernel stays within its arrays.
            || unsafe {
                run(&module, &args, [n as u32, 1, 1], [256, 1, 1], &one_thread, &Interrupt::new()).unwrap()
            },
            2,
        );
        println!(
            "{name:18} 1M floats, one thread: {:5.0} us, {:4.1} GB/s",
            t * 1e6,
            8.0 * n as f64 / t / 1e9
        );
    }
    for (name, source) in [
        ("simd_sum", "out[thread_position_in_grid.x] = simd_sum(a[thread_position_in_grid.x]);"),
        (
            "barrier",
            "threadgroup_barrier(mem_flags::mem_threadgroup); out[thread_position_in_grid.x] = a[thread_position_in_grid.x];",
        ),
        (
            "nothing, fibers",
            "threadgroup float s[1]; out[thread_position_in_grid.x] = a[thread_position_in_grid.x];",
        ),
    ] {
        let k = function("cooperative", &["a"], &["out"], source);
        let (mut inputs, mut out) = ([Data::of(&x)], [Data::zeros(Dtype::F32, n)]);
        let spec = specialize(&k, &[], &inputs, &out).unwrap();
        let module = m.get(&spec).unwrap().module;
        let args =
            [Arg::Input(inputs[0].bytes.as_mut_ptr().cast()), Arg::Output(out[0].bytes.as_mut_ptr().cast())];
        for tg in [32, 256, 1024] {
            let t = best(
                // SAFETY: the kernel stays within its arrays.
                || unsafe {
                    run(&module, &args, [n as u32, 1, 1], [tg, 1, 1], &one_thread, &Interrupt::new()).unwrap()
                },
                1,
            );
            println!("{name:18} threadgroups of {tg:4}, one core: {:5.1} ns a thread", t * 1e9 / n as f64);
        }
    }
    let tiny = function("tiny", &["a"], &["out"], "out[0] = a[0];");
    let (mut inputs, mut out) = ([Data::of(&x[..8])], [Data::zeros(Dtype::F32, 1)]);
    let spec = specialize(&tiny, &[], &inputs, &out).unwrap();
    let module = m.get(&spec).unwrap().module;
    let args =
        [Arg::Input(inputs[0].bytes.as_mut_ptr().cast()), Arg::Output(out[0].bytes.as_mut_ptr().cast())];
    let i = Interrupt::new();
    // SAFETY: the kernel stays within its arrays.
    let t = best(|| unsafe { run(&module, &args, [1, 1, 1], [1, 1, 1], &one_thread, &i).unwrap() }, 1000);
    println!("run of one thread: {:.0} ns", t * 1e9);
}

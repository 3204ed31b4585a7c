//! Kernels called on arrays: results, specializations, plans, errors.

use isopace_core::api::{KernelCall, MetalKernel, Operand};
use isopace_core::compile::compile;
use isopace_core::kernel::{KernelText, TemplateValue};
use isopace_core::{Array, Dtype, Error, Result, Scalar, Shape, runtime};

const INDEX: &str = "uint i = thread_position_in_grid.x;\n";

fn kernel(name: &str, inputs: &[&str], outputs: &[&str], body: &str) -> MetalKernel {
    isopace_cpu::init();
    MetalKernel::new(name, inputs, outputs, &format!("{INDEX}{body}")).unwrap()
}

fn kernel_with(text: KernelText<'_>) -> MetalKernel {
    isopace_cpu::init();
    let source = format!("{INDEX}{}", text.source);
    MetalKernel::from_text(&KernelText { source: &source, ..text }).unwrap()
}

/// One output, one thread for each of its elements.
fn run(
    k: &MetalKernel,
    inputs: &[Operand],
    template: &[(&str, TemplateValue)],
    shape: impl Into<Shape>,
    dtype: Dtype,
) -> Result<Array> {
    let shape = shape.into();
    let call = KernelCall {
        inputs,
        template,
        grid: [shape.elems() as i64, 1, 1],
        threadgroup: [32, 1, 1],
        output_shapes: &[shape],
        output_dtypes: &[dtype],
        ..Default::default()
    };
    Ok(k.call(&call)?.swap_remove(0))
}

fn floats(n: usize) -> Array {
    isopace_cpu::init();
    Array::from_slice(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), [n]).unwrap()
}

fn text(e: Result<impl std::fmt::Debug>) -> String {
    e.unwrap_err().to_string()
}

#[test]
fn two_kernels_of_one_name_in_one_eval() {
    let v = floats(40);
    let a = kernel("one_name", &["v"], &["out"], "out[i] = v[i] * 3;");
    let b = kernel("one_name", &["v"], &["out"], "out[i] = 7 - v[i];");
    let (x, y) = (
        run(&a, &[(&v).into()], &[], [40], Dtype::F32).unwrap(),
        run(&b, &[(&v).into()], &[], [40], Dtype::F32).unwrap(),
    );
    runtime::eval(&[x.clone(), y.clone()]).unwrap();
    assert_eq!(x.to_vec::<f32>().unwrap()[39], 117.0);
    assert_eq!(y.to_vec::<f32>().unwrap()[39], -32.0);
}

#[test]
fn six_specializations_interleaved() {
    let k = kernel("scale", &["a"], &["out"], "out[i] = a[i] * T(N);");
    let x = floats(16);
    for round in 0..3 {
        for dtype in [Dtype::F32, Dtype::I32, Dtype::F16] {
            for n in [3i64, -2] {
                let a = x.astype(dtype).unwrap();
                let template = [("T", dtype.into()), ("N", n.into())];
                let out = run(&k, &[(&a).into()], &template, [16], dtype).unwrap();
                let want: Vec<f32> = (0..16).map(|i| (i * n) as f32).collect();
                assert_eq!(
                    out.astype(Dtype::F32).unwrap().to_vec::<f32>().unwrap(),
                    want,
                    "{round} {dtype} {n}"
                );
            }
        }
    }
    let s = k.stats();
    assert_eq!((s.sources_generated, s.specializations, s.misses, s.hits), (6, 6, 6, 12));
    assert!(s.modules_built <= 6, "{s:?}");
}

#[test]
fn equal_calls_share_a_plan() {
    let x = floats(23);
    let call = || {
        let k = kernel("shared_plan", &["a"], &["out"], "out[i] = a[i] + 23;");
        run(&k, &[(&x).into()], &[], [23], Dtype::F32).unwrap().to_vec::<f32>().unwrap()
    };
    let first = call();
    let before = runtime::eager_stats();
    assert_eq!(call(), first); // another function of the same content
    assert!(runtime::eager_stats().hits > before.hits);
}

#[test]
fn strides_and_broadcast_inputs() {
    let body = "uint r = i / a_shape[1], c = i % a_shape[1];
        out[i] = 2 * a[r * a_strides[0] + c * a_strides[1]] + float(a_ndim - 2);";
    let strided = kernel_with(KernelText {
        name: "strided",
        input_names: &["a"],
        output_names: &["out"],
        source: body,
        ensure_row_contiguous: false,
        ..Default::default()
    });
    let copied = kernel("copied", &["a"], &["out"], "out[i] = 2 * a[i];");
    let b = floats(24).reshape([4, 6]).unwrap();
    let row = floats(3);
    let views = [
        b.clone(),
        b.t().unwrap(),
        row.broadcast_to([4, 3]).unwrap(),
        b.reshape([2, 12]).unwrap().t().unwrap(),
    ];
    for v in views {
        let want = v.multiply(2.0).unwrap().to_vec::<f32>().unwrap();
        for k in [&strided, &copied] {
            let out = run(k, &[(&v).into()], &[], v.shape(), Dtype::F32).unwrap();
            assert_eq!(out.to_vec::<f32>().unwrap(), want, "{:?}", v.shape());
        }
    }
}

#[test]
fn scalars_small_inputs_and_initial_values() {
    let k = kernel("mixed", &["a", "s", "n", "f"], &["out"], "out[i] = (f ? a[i % 3] : 0) * s + n;");
    let a = floats(3);
    let inputs = [(&a).into(), 0.5.into(), 7.into(), true.into()];
    let out = run(&k, &inputs, &[], [4], Dtype::F32).unwrap();
    assert_eq!(out.to_vec::<f32>().unwrap(), [7.0, 7.5, 8.0, 7.0]);

    let touch = kernel("touch", &["a"], &["out"], "if (i == 0) out[0] = 0;");
    for (dtype, init) in [
        (Dtype::F32, Scalar::from(2.5)),
        (Dtype::I32, Scalar::from(-1)),
        (Dtype::Bool, Scalar::from(1)),
        (Dtype::BF16, Scalar::from(2.5)),
        (Dtype::F16, Scalar::from(-3)),
        (Dtype::U64, Scalar::from(9)),
    ] {
        let call = KernelCall {
            inputs: &[(&a).into()],
            grid: [13, 1, 1],
            output_shapes: &[[13].into()],
            output_dtypes: &[dtype],
            init_value: Some(init.clone()),
            ..Default::default()
        };
        let out = touch.call(&call).unwrap()[0].astype(Dtype::F32).unwrap().to_vec::<f32>().unwrap();
        let value = init.number().unwrap().unwrap().as_f64() as f32;
        assert_eq!(out, [&[0.0][..], &[value; 12]].concat(), "{dtype}");
    }
}

#[test]
fn empty_outputs_and_grids_run_nothing() {
    let k = kernel("empty", &["a"], &["out"], "out[i] = a[i];");
    for shape in [vec![0], vec![0, 4]] {
        let zeros = Array::from_slice::<f32>(&[], shape.clone()).unwrap();
        let out = run(&k, &[(&zeros).into()], &[], shape.clone(), Dtype::F32).unwrap();
        assert_eq!((out.shape().to_vec(), out.to_vec::<f32>().unwrap().len()), (shape, 0));
    }
    let out = run(&k, &[(&floats(3)).into()], &[], [3], Dtype::F32).unwrap();
    assert_eq!(out.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn inside_compile_a_kernel_is_one_step() {
    let k = kernel("in_compile", &["a", "n"], &["out"], "out[i] = a[i] + n;");
    let f = compile(move |(x, n): (Array, Scalar)| {
        let out = run(&k, &[(&x).into(), Operand::Scalar(n)], &[], [8], Dtype::F32)?;
        out.multiply(2.0)
    });
    let x = floats(8);
    for n in 0..20 {
        let out = f.call((x.clone(), Scalar::from(n))).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap()[3], 2.0 * (3.0 + n as f32));
    }
    assert_eq!(f.stats().traces, 2, "the scalar input became symbolic");
    // From short-lived threads, as a compiled function with several kernel outputs.
    for _ in 0..3 {
        let work = || f.call((x.clone(), Scalar::from(1))).unwrap().eval().unwrap();
        std::thread::scope(|s| s.spawn(work).join().unwrap());
    }
}

#[test]
fn evicted_specializations_come_back() {
    let k = kernel_with(KernelText {
        name: "evicted",
        input_names: &["a"],
        output_names: &["out"],
        source: "out[i] = a[i] + N;",
        max_specializations: 2,
        ..Default::default()
    });
    let x = floats(9);
    for n in [1, 2, 3, 1] {
        let out = run(&k, &[(&x).into()], &[("N", n.into())], [9], Dtype::F32).unwrap();
        assert_eq!(out.to_vec::<f32>().unwrap()[8], 8.0 + n as f32);
    }
    let s = k.stats();
    assert_eq!((s.specializations, s.evictions, s.sources_generated), (2, 2, 4));
    assert!(s.modules_built <= 3, "the module of the first is still loaded: {s:?}");
}

fn counter() -> MetalKernel {
    kernel_with(KernelText {
        name: "counter",
        input_names: &["state", "x"],
        output_names: &["seen"],
        source: "seen[i] = state[i]; state[i] += x[i];",
        mutable_inputs: &["state"],
        ..Default::default()
    })
}

fn advance(k: &MetalKernel, state: Array, x: &Array) -> Result<(Array, Array)> {
    let n = state.size();
    let mut outs = k.call(&KernelCall {
        inputs: &[state.into(), x.into()],
        grid: [n as i64, 1, 1],
        threadgroup: [8, 1, 1],
        output_shapes: &[[n].into()],
        output_dtypes: &[Dtype::F32],
        ..Default::default()
    })?;
    let state = outs.remove(1);
    Ok((outs.remove(0), state))
}

#[test]
fn mutable_inputs_are_written_in_place() {
    let (k, x) = (counter(), floats(12));
    let mut state = Array::from_slice(&[1.0f32; 12], [12]).unwrap();
    let address = |a: &Array| {
        let v = a.value().unwrap();
        v.buffer.as_any().downcast_ref::<isopace_cpu::buffer::CpuBuffer>().unwrap().bytes().as_ptr() as usize
    };
    let at = address(&state);
    let mut kept = Vec::new();
    for step in 0..5 {
        // The outputs of earlier steps stay alive, and do not keep the state from being written.
        let (seen, next) = advance(&k, state, &x).unwrap();
        runtime::eval(&[seen.clone(), next.clone()]).unwrap();
        assert_eq!(seen.to_vec::<f32>().unwrap()[11], 1.0 + 11.0 * step as f32);
        assert_eq!(address(&next), at, "step {step}");
        (state, _) = (next, kept.push(seen));
    }
    assert_eq!(state.to_vec::<f32>().unwrap()[2], 11.0);
    // Several steps pending at once.
    for _ in 0..3 {
        let (seen, next) = advance(&k, state, &x).unwrap();
        (state, _) = (next, kept.push(seen));
    }
    assert_eq!(state.to_vec::<f32>().unwrap()[2], 17.0);
    assert_eq!(address(&state), at);
    let seen: Vec<f32> = kept.iter().map(|a| a.to_vec::<f32>().unwrap()[2]).collect();
    assert_eq!(seen, [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0]);
}

#[test]
fn a_mutable_input_is_not_merged_with_an_equal_expression() {
    let (k, x) = (counter(), floats(12));
    let mut ends = Vec::new();
    for _ in 0..3 {
        ends.push(advance(&k, x.add(1.0).unwrap(), &x).unwrap().1);
    }
    let same = x.add(1.0).unwrap();
    let last =
        advance(&k, x.add(1.0).unwrap().reshape([3, 4]).unwrap().reshape([12]).unwrap(), &same).unwrap().1;
    ends.push(same);
    ends.push(last);
    runtime::eval(&ends).unwrap();
    let eleventh: Vec<f32> = ends.iter().map(|a| a.to_vec::<f32>().unwrap()[11]).collect();
    assert_eq!(eleventh, [23.0, 23.0, 23.0, 12.0, 24.0]);
}

#[test]
fn a_shared_or_strided_mutable_input_is_refused() {
    let (k, x) = (counter(), floats(12));
    let state = floats(12);
    let (seen, next) = advance(&k, state.clone(), &x).unwrap();
    let e = next.eval().unwrap_err();
    assert!(matches!(e, Error::Argument(_)), "{e:?}");
    assert_eq!(
        e.to_string(),
        "[metal_kernel counter] mutable input \"state\" is shared: another array, view or pending operation still uses its memory; drop those first, or pass a copy"
    );
    assert!(seen.eval().is_err());
    assert_eq!(state.to_vec::<f32>().unwrap()[5], 5.0, "the given array is as it was");

    let strided = floats(1).broadcast_to([12]).unwrap();
    let e = text(advance(&k, strided, &x).unwrap().1.eval());
    assert!(e.contains("mutable input \"state\" is not row-contiguous (strides [0] of shape (12,))"), "{e}");
    let e = text(k.call(&KernelCall {
        inputs: &[1.0.into(), (&x).into()],
        output_shapes: &[[12].into()],
        output_dtypes: &[Dtype::F32],
        ..Default::default()
    }));
    assert_eq!(e, "[metal_kernel counter] mutable input \"state\" is a scalar; accepted: an array");
}

#[test]
fn wrong_calls_are_refused_at_once() {
    let k = kernel("chk", &["a", "b"], &["out"], "out[i] = a[i] + b[i];");
    let x = floats(4);
    let (two, one): (&[Operand], &[Operand]) = (&[(&x).into(), (&x).into()], &[(&x).into()]);
    let (shapes, four) = (&[Shape::from([4])][..], &[Dtype::F32][..]);
    let good = KernelCall {
        inputs: two,
        grid: [4, 1, 1],
        output_shapes: shapes,
        output_dtypes: four,
        ..Default::default()
    };
    k.call(&good).unwrap();
    let huge = [Shape::from([1 << 40, 1 << 40])];
    let wrong = [
        KernelCall { inputs: one, ..good.clone() },
        KernelCall { output_dtypes: &[], ..good.clone() },
        KernelCall { output_shapes: &[Shape::from([4]), Shape::from([4])], ..good.clone() },
        KernelCall { grid: [-1, 1, 1], ..good.clone() },
        KernelCall { grid: [1, 1 << 32, 1], ..good.clone() },
        KernelCall { threadgroup: [0, 1, 1], ..good.clone() },
        KernelCall { threadgroup: [32, 32, 2], ..good.clone() },
        KernelCall { output_shapes: &huge, ..good.clone() },
        KernelCall { template: &[("a", TemplateValue::Int(1))], ..good.clone() },
        KernelCall { template: &[("half", TemplateValue::Int(1))], ..good.clone() },
        KernelCall { output_dtypes: &[Dtype::U8], init_value: Some(Scalar::from(300)), ..good.clone() },
    ];
    let texts: Vec<String> = wrong.iter().map(|c| text(k.call(c))).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn a_broken_body_fails_alone_and_names_the_line() {
    let b = floats(64).add(1.0).unwrap();
    let k = kernel("broken_one", &["a"], &["out"], "out[i] = no_such_word;");
    let y = run(&k, &[(&b).into()], &[], [64], Dtype::F32).unwrap();
    assert!(runtime::eval(&[y.clone(), b.clone()]).is_err());
    let e = text(y.to_vec::<f32>());
    assert!(e.contains("[metal_kernel broken_one]") && e.contains("no_such_word"), "{e}");
    assert!(e.contains("    2 | out[i] = no_such_word;"), "{e}");
    assert_eq!(b.to_vec::<f32>().unwrap()[63], 64.0);
    let fixed = kernel("broken_one", &["a"], &["out"], "out[i] = a[i];");
    assert_eq!(run(&fixed, &[(&b).into()], &[], [64], Dtype::F32).unwrap().to_vec::<f32>().unwrap()[0], 1.0);
}

/// In a process of its own: an interrupt stops every kernel of the process.
#[test]
fn an_endless_body_can_be_interrupted() {
    let me = std::env::current_exe().unwrap();
    let args = ["--exact", "arrays::endless", "--ignored", "--nocapture"];
    let out = std::process::Command::new(me).args(args).output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

#[test]
#[ignore = "run by an_endless_body_can_be_interrupted"]
fn endless() {
    let k = kernel("endless", &["a"], &["out"], "while (a[0] == 0) {} out[i] = 1;");
    let run = |a: &Array| run(&k, &[a.into()], &[], [8], Dtype::F32).unwrap();
    run(&floats(8).add(1.0).unwrap()).eval().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    let e = std::thread::scope(|s| {
        s.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(std::time::Duration::from_millis(300));
                runtime::interrupt();
            }
        });
        let e = text(run(&floats(8)).eval());
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        e
    });
    runtime::clear_interrupt();
    assert!(e.contains("[metal_kernel endless] was interrupted"), "{e}");
    run(&floats(8).add(1.0).unwrap()).eval().unwrap();
}

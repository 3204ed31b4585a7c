use super::*;

const CASES: [i64; 4] = [-3, 3, 0, -2_147_483_647];

#[test]
fn negative_template_integers() {
    let k = function(
        "shift",
        &["a"],
        &["out"],
        "uint idx = thread_position_in_grid.x; out[idx] = a[idx] + (T)N;",
    );
    for n in CASES.into_iter().chain([i64::from(i32::MIN), i64::MIN, i64::MAX, 1 << 40]) {
        let mut out = [Data::zeros(Dtype::F32, 9)];
        let a: Vec<f32> = (0..9).map(|i| i as f32).collect();
        call(
            &k,
            &[("T", dt(Dtype::F32)), ("N", int(n))],
            &mut [Data::of(&a)],
            &mut out,
            [9, 1, 1],
            [9, 1, 1],
        )
        .unwrap();
        assert_eq!(out[0].to::<f32>(), a.iter().map(|v| v + n as f32).collect::<Vec<_>>());
    }
}

#[test]
fn interleaved_specializations_make_one_source_each() {
    let k = function(
        "scale",
        &["a"],
        &["out"],
        "uint i = thread_position_in_grid.x; out[i] = T(a[i] * T(N)) + T(FLAG ? 1 : 0);",
    );
    for round in 0..3 {
        for n in [2i64, -2] {
            let template = |d| [("T", dt(d)), ("N", int(n)), ("FLAG", TemplateValue::Bool(n > 0))];
            let want: Vec<f32> = (0..16).map(|i| (i * n + i64::from(n > 0)) as f32).collect();
            let g = [16, 1, 1];
            let f: Vec<f32> = (0..16).map(|i| i as f32).collect();
            let mut out = [Data::zeros(Dtype::F32, 16)];
            call(&k, &template(Dtype::F32), &mut [Data::of(&f)], &mut out, g, g).unwrap();
            assert_eq!(out[0].to::<f32>(), want, "round {round}");
            let h: Vec<half::f16> = f.iter().map(|&v| half::f16::from_f32(v)).collect();
            let mut out = [Data::zeros(Dtype::F16, 16)];
            call(&k, &template(Dtype::F16), &mut [Data::of(&h)], &mut out, g, g).unwrap();
            assert_eq!(out[0].to::<half::f16>().iter().map(|v| v.to_f32()).collect::<Vec<_>>(), want);
            let j: Vec<i32> = (0..16).collect();
            let mut out = [Data::zeros(Dtype::I32, 16)];
            call(&k, &template(Dtype::I32), &mut [Data::of(&j)], &mut out, g, g).unwrap();
            assert_eq!(out[0].to::<i32>().iter().map(|&v| v as f32).collect::<Vec<_>>(), want);
        }
    }
    let s = k.stats();
    assert_eq!((s.sources_generated, s.misses, s.hits, s.specializations, s.evictions), (6, 6, 12, 6, 0));
}

#[test]
fn bool_int_and_dtype_are_distinct() {
    let k = function("tpl", &["a"], &["out"], "out[0] = (T)(FLAG ? 7 : 8) + (T)(A * 100 + B);");
    let r = |flag, a, b| {
        let mut out = [Data::zeros(Dtype::F32, 1)];
        let t = [("T", dt(Dtype::F32)), ("FLAG", flag), ("A", int(a)), ("B", int(b))];
        call(&k, &t, &mut [Data::of(&[0f32; 4])], &mut out, [1, 1, 1], [1, 1, 1]).unwrap();
        out[0].to::<f32>()[0]
    };
    assert_eq!(r(TemplateValue::Bool(true), 1, 11), 118.0);
    assert_eq!(r(int(1), 1, 11), 118.0);
    assert_eq!(r(TemplateValue::Bool(false), 1, 11), 119.0);
    assert_eq!(r(TemplateValue::Bool(true), 11, 1), 1108.0);
    assert_eq!(k.stats().specializations, 4);
}

#[test]
fn one_name_two_sources() {
    let a =
        function("one_name", &["v"], &["out"], "uint i = thread_position_in_grid.x; out[i] = v[i] * 3.0f;");
    let b =
        function("one_name", &["v"], &["out"], "uint i = thread_position_in_grid.x; out[i] = 7.0f - v[i];");
    for (k, want) in [(&a, [0.0, 3.0, 6.0]), (&b, [7.0, 6.0, 5.0]), (&a, [0.0, 3.0, 6.0])] {
        let mut out = [Data::zeros(Dtype::F32, 3)];
        call(k, &[], &mut [Data::of(&[0f32, 1.0, 2.0])], &mut out, [3, 1, 1], [3, 1, 1]).unwrap();
        assert_eq!(out[0].to::<f32>(), want);
    }
}

#[test]
fn eviction_at_the_bound_and_back() {
    let source = "out[0] = N;";
    let k = function_with(KernelText {
        name: "bounded",
        output_names: &["out"],
        source,
        max_specializations: 4,
        ..Default::default()
    });
    let spec = |n| specialize(&k, &[("N", int(n))], &[], &[Data::zeros(Dtype::I32, 1)]).unwrap();
    let first = spec(0);
    for n in 1..4 {
        spec(n);
    }
    spec(0); // used again: 1 is now the oldest
    spec(4);
    let s = k.stats();
    assert_eq!((s.specializations, s.evictions, s.sources_generated), (4, 1, 5));
    spec(0);
    assert_eq!(k.stats().sources_generated, 5);
    let back = spec(1);
    assert_eq!(k.stats().sources_generated, 6);
    assert_ne!(back.hash, first.hash);
    assert_eq!(spec(1).hash, back.hash);
    // An evicted specialization stays usable by who holds it.
    assert!(first.source.contains("<(0)>"));
}

#[test]
fn shape_strides_and_ndim_follow_mention() {
    let source = "uint idx = thread_position_in_grid.x; // other_shape\n\
        auto r = idx / inp_shape[1]; auto c = idx % inp_shape[1];\n\
        out[idx] = 2.0f * inp[r * inp_strides[0] + c * inp_strides[1]] + (float)(inp_ndim - 2) + other[0];";
    let k = function("strided", &["inp", "other"], &["out"], source);
    let base: Vec<f32> = (0..24).map(|i| i as f32).collect();
    let mut view = Data::shaped(&base, &[4, 6]);
    (view.shape, view.strides) = (vec![6, 4], vec![1, 6]); // transposed
    let other = Data::of(&[0f32]);
    let mut out = [Data::zeros(Dtype::F32, 24)];
    let spec = specialize(&k, &[], &[view.clone(), other.clone()], &out).unwrap();
    use ArgSlot::*;
    assert_eq!(*spec.args, [Input(0), Shape(0), Strides(0), Ndim(0), Input(1), Output(0)]);
    call(&k, &[], &mut [view, other], &mut out, [24, 1, 1], [24, 1, 1]).unwrap();
    let want: Vec<f32> = (0..24).map(|i| 2.0 * base[i % 4 * 6 + i / 4]).collect();
    assert_eq!(out[0].to::<f32>(), want);
}

#[test]
fn passing_follows_size() {
    let source = "out[0] = a + b[0] + c[7];";
    let k = function("pass", &["a", "b", "c"], &["out"], source);
    let mut inputs = [Data::scalar(1f32), Data::of(&[2f32; 7]), Data::of(&[3f32; 8])];
    let mut out = [Data::zeros(Dtype::F32, 1)];
    let spec = specialize(&k, &[], &inputs, &out).unwrap();
    assert!(spec.source.contains("const constant float& a,"), "{}", spec.source);
    assert!(spec.source.contains("const constant float* ISOPACE_RESTRICT b,"));
    assert!(spec.source.contains("const device float* ISOPACE_RESTRICT c,"));
    call(&k, &[], &mut inputs, &mut out, [1, 1, 1], [1, 1, 1]).unwrap();
    assert_eq!(out[0].to::<f32>(), [6.0]);
}

#[test]
fn mutable_inputs_are_written_in_place() {
    let source = "uint i = thread_position_in_grid.x; cache[pos * 4 + i] = x[i]; out[i] = cache[i];";
    let text = KernelText {
        name: "write_row",
        input_names: &["cache", "x", "pos"],
        output_names: &["out"],
        mutable_inputs: &["cache"],
        source,
        ..Default::default()
    };
    let k = function_with(text);
    let mut inputs =
        [Data::shaped(&[0f32; 8], &[2, 4]), Data::of(&[1f32, 2.0, 3.0, 4.0]), Data::scalar(1i32)];
    let mut out = [Data::zeros(Dtype::F32, 4)];
    call(&k, &[], &mut inputs, &mut out, [4, 1, 1], [4, 1, 1]).unwrap();
    assert_eq!(inputs[0].to::<f32>(), [0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
}

#[test]
fn names_and_counts_are_checked() {
    let make = |name: &str, inputs: &[&str], outputs: &[&str], mutable: &[&str]| {
        let text = KernelText {
            name,
            input_names: inputs,
            output_names: outputs,
            mutable_inputs: mutable,
            ..Default::default()
        };
        KernelFunction::new(&text).map(|_| ()).unwrap_err().to_string()
    };
    insta::assert_snapshot!(
        [
            make("", &[], &["o"], &[]),
            make("my-kernel", &[], &["o"], &[]),
            make("k", &["a b"], &["o"], &[]),
            make("k", &["1a"], &["o"], &[]),
            make("k", &["a"], &["thread_position_in_grid"], &[]),
            make("k", &["float"], &["o"], &[]),
            make("k", &["isopace_x"], &["o"], &[]),
            make("k", &["a", "b"], &["a"], &[]),
            make("k", &["a"], &["o"], &["b"]),
            make("k", &["a"], &[], &[]),
        ]
        .join("\n"),
        @r#"
    [metal_kernel ""] the name must be 1 to 256 letters, digits and '_'
    [metal_kernel "my-kernel"] the name must be 1 to 256 letters, digits and '_'
    [metal_kernel k] input name "a b" is not an identifier (letters, digits and '_', no digit first)
    [metal_kernel k] input name "1a" is not an identifier (letters, digits and '_', no digit first)
    [metal_kernel k] output name "thread_position_in_grid" is a word of the dialect; choose another
    [metal_kernel k] input name "float" is a word of the dialect; choose another
    [metal_kernel k] input name "isopace_x" is a word of the dialect; choose another
    [metal_kernel k] the name "a" is used twice among ["a", "b", "a"]
    [metal_kernel k] mutable input "b" must be one of the inputs ["a"], once
    [metal_kernel k] has no outputs: give output_names or mutable_inputs
    "#
    );
    let k = function("chk", &["a", "b"], &["out"], "out[0] = a[0] + b[0];");
    let f = InputKind::of(Dtype::F32, 1, 4, false);
    let no = |t: &[(&str, TemplateValue)], i: &[InputKind], o: &[Dtype]| {
        k.specialize(t, i, o).unwrap_err().to_string()
    };
    let (f2, o) = ([f, f], [Dtype::F32]);
    insta::assert_snapshot!(
        [
            no(&[], &[f], &o),
            no(&[], &f2, &[]),
            no(&[("N", int(1)), ("N", int(2))], &f2, &o),
            no(&[("a", int(1))], &f2, &o),
            no(&[("N-1", int(1))], &f2, &o),
            no(&[("device", int(1))], &f2, &o),
        ]
        .join("\n"),
        @r#"
    [metal_kernel chk] got 1 inputs; the kernel has 2: ["a", "b"]
    [metal_kernel chk] got 0 output dtypes; the kernel has 1 outputs: ["out"]
    [metal_kernel chk] template name "N" is given twice
    [metal_kernel chk] template name "a" is also an input or an output; choose another
    [metal_kernel chk] template name "N-1" is not an identifier (letters, digits and '_', no digit first)
    [metal_kernel chk] template name "device" is a word of the dialect; choose another
    "#
    );
    assert_eq!(k.stats().sources_generated, 0);
}

#[test]
fn grid_counts_threads_and_limits_hold() {
    let source = "uint idx = thread_position_in_grid.x; if ((int)idx < n[0]) out[idx] = out[idx] + 1.0f; else out[n[0]] = 99.0f;";
    let k = function("cover", &["n"], &["out"], source);
    for n in [24u32, 257, 1000, 70_001] {
        let mut out = [Data::zeros(Dtype::F32, n as usize + 1)];
        call(&k, &[], &mut [Data::of(&[n as i32; 8])], &mut out, [n, 1, 1], [256, 1, 1]).unwrap();
        let mut want = vec![1f32; n as usize];
        want.push(0.0);
        assert_eq!(out[0].to::<f32>(), want);
    }
    let go = |grid, threadgroup| {
        let r =
            call(&k, &[], &mut [Data::of(&[4i32; 8])], &mut [Data::zeros(Dtype::F32, 5)], grid, threadgroup);
        r.map_err(|e| e.to_string())
    };
    assert_eq!(go([0, 1, 1], [1, 1, 1]), Ok(()));
    insta::assert_snapshot!(
        [go([4, 1, 1], [0, 1, 1]), go([4, 1, 1], [32, 33, 1]), go([u32::MAX, u32::MAX, 3], [1, 1, 1])]
            .map(|r| r.unwrap_err()).join("\n"),
        @r"
    [metal_kernel cover] threadgroup [0, 1, 1] has a zero; each size must be at least 1
    [metal_kernel cover] threadgroup [32, 33, 1] has 1056 threads; at most 1024 are possible
    [metal_kernel cover] grid [4294967295, 4294967295, 3] has more than 2^64 threads
    "
    );
}

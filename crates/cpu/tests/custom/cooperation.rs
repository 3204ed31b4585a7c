use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;

fn grid(n: u32) -> [u32; 3] {
    [n, 1, 1]
}

/// The order of a simdgroup's sum: neighbours first, lanes that are not there skipped.
fn tree<T: Copy>(lanes: &[T], op: impl Fn(T, T) -> T) -> T {
    let mut v: Vec<Option<T>> = lanes.iter().copied().map(Some).collect();
    v.resize(32, None);
    while v.len() > 1 {
        v = v
            .chunks(2)
            .map(|p| match (p[0], p[1]) {
                (Some(a), Some(b)) => Some(op(a, b)),
                (a, b) => a.or(b),
            })
            .collect();
    }
    v[0].unwrap()
}

#[test]
fn reductions_over_odd_sizes() {
    let source = "uint i = thread_index_in_threadgroup; uint at = thread_position_in_grid.x;
        sums[at] = simd_sum(x[at]); maxs[at] = simd_max(x[at]); mins[at] = simd_min(x[at]);
        prods[at] = simd_product(x[at]);
        incl[at] = simd_prefix_inclusive_sum(x[at]); excl[at] = simd_prefix_exclusive_sum(x[at]);
        quads[at] = quad_sum(x[at]);";
    let k =
        function("reductions", &["x"], &["sums", "maxs", "mins", "prods", "incl", "excl", "quads"], source);
    for (n, tg) in [(1u32, 1u32), (5, 5), (33, 33), (100, 64), (1000, 256), (1025, 1024), (70, 7)] {
        let x: Vec<f32> = (0..n).map(|i| 0.5 + ((i * 7919) % 101) as f32 * 0.01).collect();
        let mut out = vec![Data::zeros(Dtype::F32, n as usize); 7];
        call(&k, &[], &mut [Data::of(&x)], &mut out, grid(n), grid(tg)).unwrap();
        let got: Vec<Vec<f32>> = out.iter().map(|o| o.to()).collect();
        for group in x.chunks(tg as usize).enumerate() {
            for (s, lanes) in group.1.chunks(32).enumerate() {
                let at = group.0 * tg as usize + s * 32;
                let (mut run, sum) = (0f32, tree(lanes, |a, b| a + b));
                for (l, &v) in lanes.iter().enumerate() {
                    let quad = &lanes[l / 4 * 4..lanes.len().min(l / 4 * 4 + 4)];
                    let want = [
                        sum,
                        tree(lanes, f32::max),
                        tree(lanes, f32::min),
                        tree(lanes, |a, b| a * b),
                        run + v,
                        run,
                        tree(quad, |a, b| a + b),
                    ];
                    let have: Vec<f32> = got.iter().map(|g| g[at + l]).collect();
                    assert_eq!(have, want, "n {n}, threadgroup {tg}, lane {l} at {at}");
                    run += v;
                }
            }
        }
    }
}

#[test]
fn shuffles_votes_and_bits() {
    let source = "uint l = thread_index_in_simdgroup; int v = x[l];
        device int* o = out + l * 20;
        o[0] = simd_shuffle(v, 31 - l); o[1] = simd_shuffle_up(v, 3); o[2] = simd_shuffle_down(v, 3);
        o[3] = simd_shuffle_xor(v, 5); o[4] = simd_shuffle_rotate_up(v, 2); o[5] = simd_shuffle_rotate_down(v, 2);
        o[6] = simd_broadcast(v, 9); o[7] = simd_broadcast_first(v);
        o[8] = (int)(uint)(uint64_t)simd_ballot(v % 3 == 0); o[9] = simd_all(v >= 0) * 2 + simd_any(v == 12);
        o[10] = simd_and(v | 4); o[11] = simd_or(v); o[12] = simd_xor(v);
        o[13] = quad_shuffle(v, 3 - l % 4); o[14] = quad_shuffle_xor(v, 1); o[15] = quad_broadcast(v, 2);
        o[16] = simd_shuffle_and_fill_up(v, 100 + v, 2); o[17] = simd_shuffle_and_fill_down(v, 100 + v, 2);
        o[18] = simd_is_first(); o[19] = quad_all(l < 30);";
    let k = function("shuffles", &["x"], &["out"], source);
    let x: Vec<i32> = (0..32).map(|i| (i * 37) % 53).collect();
    let mut out = [Data::zeros(Dtype::I32, 640)];
    call(&k, &[], &mut [Data::of(&x)], &mut out, grid(32), grid(32)).unwrap();
    let got: Vec<i32> = out[0].to();
    let ballot = (0..32).fold(0u32, |m, i| m | u32::from(x[i] % 3 == 0) << i) as i32;
    for l in 0..32usize {
        let (q, and) = (l / 4 * 4, x.iter().fold(-1, |a, &v| a & (v | 4)));
        let want = [
            x[31 - l],
            x[if l >= 3 { l - 3 } else { l }],
            x[if l + 3 < 32 { l + 3 } else { l }],
            x[l ^ 5],
            x[(l + 30) % 32],
            x[(l + 2) % 32],
            x[9],
            x[0],
            ballot,
            2 + i32::from(x.contains(&12)),
            and,
            x.iter().fold(0, |a, &v| a | v),
            x.iter().fold(0, |a, &v| a ^ v),
            x[q + 3 - l % 4],
            x[l ^ 1],
            x[q + 2],
            if l >= 2 { x[l - 2] } else { 100 + x[30 + l] },
            if l < 30 { x[l + 2] } else { 100 + x[l - 30] },
            i32::from(l == 0),
            i32::from(l < 28),
        ];
        assert_eq!(got[l * 20..l * 20 + 20], want, "lane {l}");
    }
}

#[test]
fn simdgroup_types() {
    let source = "uint l = thread_index_in_simdgroup;
        h[l] = simd_sum(half(l)); b[l] = simd_max(bfloat(l)); u[l] = simd_sum(ulong(l) << 40);
        float4 v = simd_sum(float4(l, 2 * l, 1, -1.0f * l)); f[l] = v.x + v.y * 10 + v.z * 10000 + v.w;
        c[l] = simd_shuffle_xor(uchar(l), 1);";
    let k = function("simd_types", &[], &["h", "b", "u", "f", "c"], source);
    let mut out = [Dtype::F16, Dtype::BF16, Dtype::U64, Dtype::F32, Dtype::U8].map(|d| Data::zeros(d, 32));
    call(&k, &[], &mut [], &mut out, grid(32), grid(32)).unwrap();
    assert_eq!(out[0].to::<half::f16>(), [half::f16::from_f32(496.0); 32]);
    assert_eq!(out[1].to::<half::bf16>(), [half::bf16::from_f32(31.0); 32]);
    assert_eq!(out[2].to::<u64>(), [496u64 << 40; 32]);
    assert_eq!(out[3].to::<f32>(), [496.0 + 9920.0 + 320_000.0 - 496.0; 32]);
    assert_eq!(out[4].to::<u8>(), (0..32).map(|i| i ^ 1).collect::<Vec<u8>>());
}

#[test]
fn divergent_lanes_count_only_the_active() {
    let source = "uint l = thread_index_in_simdgroup; uint at = thread_position_in_grid.x; int r = -1;
        if (l % 2 == 0) {
          r = simd_sum(1);
        }
        out[at] = r * 1000 + simd_sum(1);
        if (l >= 20) return;
        out[at] += simd_sum(1) * 100000;
        for (uint i = 0; i < l; i++) {
          more[at] += simd_sum(1);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        more[at] += simd_sum(1) * 1000;";
    let k = function("divergent", &[], &["out", "more"], source);
    let mut out = [Data::zeros(Dtype::I32, 64), Data::zeros(Dtype::I32, 64)];
    call(&k, &[], &mut [], &mut out, grid(64), grid(64)).unwrap();
    let (a, b): (Vec<i32>, Vec<i32>) = (out[0].to(), out[1].to());
    for i in 0..64 {
        let l = i % 32;
        let first = if l % 2 == 0 { 16 } else { -1 };
        assert_eq!(a[i], first * 1000 + 32 + if l < 20 { 20 * 100_000 } else { 0 }, "{i}");
        // Round i of the loop has the lanes above i.
        let rounds: i32 = (0..l as i32).map(|i| 19 - i).sum();
        assert_eq!(b[i], if l < 20 { rounds + 20_000 } else { 0 }, "{i}");
    }
}

#[test]
fn threadgroup_memory_and_barriers() {
    let source = "threadgroup float shared[TG]; threadgroup float total;
        uint t = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x;
        shared[t] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        // Each thread reads another's value.
        float other = shared[n - 1 - t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 1; s < n; s *= 2) {
          float add = t >= s ? shared[t - s] : 0.0;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          shared[t] += add;
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (t == 0) total = shared[n - 1];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        out[thread_position_in_grid.x] = shared[t] * 1000 + other + total * 1000000;";
    let k = function("scan", &["x"], &["out"], source);
    for (n, tg) in [(7u32, 7u32), (300, 100), (2100, 1000), (4096, 256), (61, 32)] {
        let x: Vec<f32> = (0..n).map(|i| (i % 3) as f32).collect();
        let mut out = [Data::zeros(Dtype::F32, n as usize)];
        call(&k, &[("TG", int(i64::from(tg)))], &mut [Data::of(&x)], &mut out, grid(n), grid(tg)).unwrap();
        let mut want = Vec::new();
        for g in x.chunks(tg as usize) {
            let total: f32 = g.iter().sum();
            let mut run = 0.0;
            for (i, &v) in g.iter().enumerate() {
                run += v;
                want.push(run * 1000.0 + g[g.len() - 1 - i] + total * 1_000_000.0);
            }
        }
        assert_eq!(out[0].to::<f32>(), want, "{n} in {tg}");
    }
}

#[test]
fn attributes_in_three_dimensions() {
    let source = "uint3 p = thread_position_in_grid, t = thread_position_in_threadgroup, g = threadgroup_position_in_grid;
        uint3 n = threads_per_grid; uint at = p.x + n.x * (p.y + n.y * p.z);
        device uint* o = out + at * 20;
        o[0] = t.x + 100 * t.y + 10000 * t.z; o[1] = g.x + 100 * g.y + 10000 * g.z;
        o[2] = threads_per_threadgroup.x * threads_per_threadgroup.y * threads_per_threadgroup.z;
        o[3] = dispatch_threads_per_threadgroup.x * 10000 + dispatch_threads_per_threadgroup.y * 100 + dispatch_threads_per_threadgroup.z;
        o[4] = threadgroups_per_grid.x + 100 * threadgroups_per_grid.y + 10000 * threadgroups_per_grid.z;
        o[5] = thread_index_in_threadgroup; o[6] = thread_index_in_simdgroup; o[7] = simdgroup_index_in_threadgroup;
        o[8] = simdgroups_per_threadgroup; o[9] = dispatch_simdgroups_per_threadgroup; o[10] = threads_per_simdgroup;
        o[11] = thread_execution_width; o[12] = thread_index_in_quadgroup; o[13] = quadgroup_index_in_threadgroup;
        o[14] = quadgroups_per_threadgroup; o[15] = dispatch_quadgroups_per_threadgroup;
        o[16] = grid_size.x + 100 * grid_size.y + 10000 * grid_size.z; o[17] = grid_origin.x + grid_origin.y + grid_origin.z;";
    for body in [source.to_string(), format!("{source} o[18] = 7; threadgroup_barrier(mem_flags::mem_none);")]
    {
        let k = function("attributes", &[], &["out"], &body);
        let (n, tg) = ([10u32, 7, 3], [4u32, 3, 2]);
        let mut out = [Data::zeros(Dtype::U32, 10 * 7 * 3 * 20)];
        call(&k, &[], &mut [], &mut out, n, tg).unwrap();
        let got: Vec<u32> = out[0].to();
        for i in 0..210u32 {
            let p = [i % 10, i / 10 % 7, i / 70];
            let g = [p[0] / 4, p[1] / 3, p[2] / 2];
            let t = [p[0] % 4, p[1] % 3, p[2] % 2];
            let s = [(10 - g[0] * 4).min(4), (7 - g[1] * 3).min(3), (3 - g[2] * 2).min(2)];
            let (index, count) = (t[0] + s[0] * (t[1] + s[1] * t[2]), s[0] * s[1] * s[2]);
            let want = [
                t[0] + 100 * t[1] + 10000 * t[2],
                g[0] + 100 * g[1] + 10000 * g[2],
                count,
                40302,
                3 + 300 + 20000,
                index,
                index % 32,
                index / 32,
                count.div_ceil(32),
                1,
                32,
                32,
                index % 4,
                index / 4,
                count.div_ceil(4),
                6,
                10 + 700 + 30000,
                0,
            ];
            assert_eq!(got[i as usize * 20..i as usize * 20 + 18], want, "thread {p:?}");
        }
    }
}

#[test]
fn atomics() {
    let text = KernelText {
        name: "counts",
        input_names: &["x"],
        output_names: &["f", "i"],
        source: "uint at = thread_position_in_grid.x;
            atomic_fetch_add_explicit(&f[x[at] % 3], 0.5f, memory_order_relaxed);
            atomic_fetch_add_explicit(&i[0], 1, memory_order_relaxed);
            atomic_fetch_max_explicit(&i[1], x[at], memory_order_relaxed);
            atomic_fetch_min_explicit(&i[2], -x[at], memory_order_relaxed);
            atomic_fetch_or_explicit(&i[3], 1 << (x[at] % 5), memory_order_relaxed);
            atomic_fetch_xor_explicit(&i[4], x[at], memory_order_relaxed);
            atomic_fetch_sub_explicit(&i[5], 2, memory_order_relaxed);
            if (at == 3) atomic_store_explicit(&i[6], 77, memory_order_relaxed);
            int expected = 0;
            while (!atomic_compare_exchange_weak_explicit(&i[7], &expected, expected + 1, memory_order_relaxed, memory_order_relaxed)) {}
            atomic_fetch_and_explicit(&i[8], x[at], memory_order_relaxed);
            atomic_exchange_explicit(&i[9], 5, memory_order_relaxed);",
        atomic_outputs: true,
        ..Default::default()
    };
    let k = function_with(text);
    let n = 40_000;
    let x: Vec<i32> = (0..n).map(|i| (i * 31) % 1000).collect();
    let mut out = [Data::zeros(Dtype::F32, 3), Data::zeros(Dtype::I32, 10)];
    call(&k, &[], &mut [Data::of(&x)], &mut out, grid(n as u32), grid(128)).unwrap();
    let count = |r| x.iter().filter(|&&v| v % 3 == r).count() as f32 * 0.5;
    assert_eq!(out[0].to::<f32>(), [count(0), count(1), count(2)]);
    let xor = x.iter().fold(0, |a, &v| a ^ v);
    assert_eq!(out[1].to::<i32>(), [n, 999, -999, 31, xor, -2 * n, 77, n, 0, 5]);
}

#[test]
fn threadgroup_atomics_and_pointers() {
    let source = "threadgroup atomic_uint n[2]; threadgroup uint seen[64];
        uint t = thread_index_in_threadgroup;
        if (t < 2) atomic_store_explicit(&n[t], 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint at = atomic_fetch_add_explicit(&n[t & 1], 1u, memory_order_relaxed);
        threadgroup uint* mine = seen + (t & 1) * 32;
        mine[at] = t;
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        out[thread_position_in_grid.x] = pick(seen, (t + 1) % 64) + 100 * atomic_load_explicit(&n[0], memory_order_relaxed);";
    let text = KernelText {
        name: "lists",
        output_names: &["out"],
        source,
        header: "#include <metal_stdlib>\nusing namespace metal;\ninline uint pick(const threadgroup uint* from, uint i) { return from[i]; }",
        ..Default::default()
    };
    let k = function_with(text);
    let mut out = [Data::zeros(Dtype::U32, 192)];
    call(&k, &[], &mut [], &mut out, grid(192), grid(64)).unwrap();
    let mut got: Vec<u32> = out[0].to::<u32>();
    for g in got.chunks_mut(64) {
        assert!(g.iter().all(|v| v / 100 == 32));
        g.iter_mut().for_each(|v| *v %= 100);
        g[..].sort_unstable();
        assert_eq!(g, (0..64).collect::<Vec<u32>>());
    }
}

/// A state-space scan of mlx-lm's kind: 32 lanes share a row of state, summed once a step.
#[test]
fn state_space_step() {
    let source = "auto n = thread_position_in_grid.z; auto h = n % H; constexpr int per = S / 32;
        auto x = X + n * P; y += n * P;
        auto from = state + n * P * S; auto to = next + n * P * S;
        auto lane = thread_position_in_threadgroup.x; auto p = thread_position_in_grid.y;
        auto decay = fast::exp(-fast::exp(static_cast<float>(A[h])) * static_cast<float>(dt[n]));
        float acc = 0.0;
        for (int i = 0; i < per; ++i) {
          auto s = per * lane + i; auto at = p * S + s;
          auto v = decay * from[at] + static_cast<float>(x[p]) * static_cast<float>(dt[n]) * static_cast<float>(B[s]);
          to[at] = static_cast<U>(v);
          acc += v * C[s];
        }
        acc = simd_sum(acc);
        if (thread_index_in_simdgroup == 0) y[p] = static_cast<T>(acc);";
    let k = function("state_space", &["X", "A", "B", "C", "dt", "state"], &["y", "next"], source);
    let (heads, p, s) = (3usize, 5usize, 64usize);
    let v = |n: usize, m: usize| -> Vec<f32> { (0..n).map(|i| ((i * m) % 17) as f32 / 17.0 - 0.3).collect() };
    let (x, a, b, c, step, state) =
        (v(heads * p, 5), v(heads, 3), v(s, 7), v(s, 11), v(heads, 2), v(heads * p * s, 13));
    let half_of = |v: &[f32]| Data::of(&v.iter().map(|&f| half::f16::from_f32(f)).collect::<Vec<_>>());
    let round = |f: f32| half::f16::from_f32(f).to_f32();
    let mut inputs = [half_of(&x), half_of(&a), half_of(&b), half_of(&c), half_of(&step), Data::of(&state)];
    let mut out = [Data::zeros(Dtype::F16, heads * p), Data::zeros(Dtype::F32, heads * p * s)];
    let t = [
        ("T", dt(Dtype::F16)),
        ("U", dt(Dtype::F32)),
        ("P", int(p as i64)),
        ("S", int(s as i64)),
        ("H", int(heads as i64)),
    ];
    call(&k, &t, &mut inputs, &mut out, [32, p as u32, heads as u32], [32, 8, 1]).unwrap();
    let (y, next): (Vec<half::f16>, Vec<f32>) = (out[0].to(), out[1].to());
    for h in 0..heads {
        let decay = (-(round(a[h]).exp()) * round(step[h])).exp();
        for i in 0..p {
            let mut acc = 0f64;
            for j in 0..s {
                let at = (h * p + i) * s + j;
                let w = decay * state[at] + round(x[h * p + i]) * round(step[h]) * round(b[j]);
                assert!((next[at] - w).abs() < 2e-6, "{} {w}", next[at]);
                acc += f64::from(w) * f64::from(round(c[j]));
            }
            assert!((f64::from(y[h * p + i].to_f32()) - acc).abs() < 4e-3 * acc.abs().max(1.0));
        }
    }
}

fn interrupt_ends(source: &str, n: u32) {
    let k = function("endless", &[], &["out"], source);
    let interrupt = Arc::new(Interrupt::new());
    let other = interrupt.clone();
    let started = Instant::now();
    let raiser = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(1500)); // the build included
        other.raise();
    });
    let mut out = [Data::zeros(Dtype::I32, 4096)];
    let go = |out: &mut [Data], i: &Interrupt, n| {
        call_with(modules(), i, &k, &[("N", int(1))], &mut [], out, grid(n), grid(64))
    };
    let e = go(&mut out, &interrupt, n).unwrap_err().to_string();
    raiser.join().unwrap();
    assert_eq!(e, "[metal_kernel endless] was interrupted; its outputs are incomplete");
    assert!(started.elapsed() < Duration::from_secs(20));
    // The next run is refused until cleared, and then as good as new.
    assert!(go(&mut out, &interrupt, n).is_err());
    interrupt.clear();
    let k = function("after", &[], &["out"], "out[thread_position_in_grid.x] = simd_sum(1);");
    call_with(modules(), &interrupt, &k, &[], &mut [], &mut out, grid(4096), grid(64)).unwrap();
    assert_eq!(out[0].to::<i32>(), [32; 4096]);
}

#[test]
fn endless_loop_is_left() {
    interrupt_ends("uint i = thread_position_in_grid.x; while (true) { out[i] = out[i] + 1; }", 64);
}

#[test]
fn endless_loop_is_left_in_every_thread() {
    interrupt_ends(
        "uint i = thread_position_in_grid.x; volatile device int* o = out; while (N) { o[i % 4096] = 1; }",
        4096 * 16,
    );
}

#[test]
fn endless_fiber_is_left() {
    interrupt_ends(
        "uint i = thread_position_in_grid.x; volatile device int* o = out; int s = simd_sum(1); while (s) { o[i % 4096] = 1; }",
        4096,
    );
}

#[test]
fn endless_barriers_are_left() {
    interrupt_ends(
        "volatile device int* o = out; while (o[0] < 1) { threadgroup_barrier(mem_flags::mem_threadgroup); }",
        4096,
    );
}

#[test]
fn many_threads_at_once() {
    let k = function(
        "busy",
        &["x"],
        &["out"],
        "threadgroup int s[64]; uint t = thread_index_in_threadgroup;
        s[t] = x[thread_position_in_grid.x]; threadgroup_barrier(mem_flags::mem_threadgroup);
        out[thread_position_in_grid.x] = simd_sum(s[63 - t]);",
    );
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let x: Vec<i32> = (0..640).collect();
                    let mut out = [Data::zeros(Dtype::I32, 640)];
                    call(&k, &[], &mut [Data::of(&x)], &mut out, grid(640), grid(64)).unwrap();
                    let got: Vec<i32> = out[0].to();
                    for (i, &v) in got.iter().enumerate() {
                        let half = (i / 32) ^ 1; // the other half of the threadgroup
                        assert_eq!(v, (half * 32..half * 32 + 32).sum::<usize>() as i32);
                    }
                }
            });
        }
    });
}

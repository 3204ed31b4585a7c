//! Kernel timings: `cargo bench -p isopace-cpu --bench kernels [-- FILTER...]`.
//!
//! Prints the best and the median of some runs, with bytes or operations per second. Numbers in
//! brackets are the threads used.
#![allow(clippy::print_stdout)]

use half::f16;
use isopace_core::backend::{Backend, Spec, Value};
use isopace_core::op::{Op, Region, RegionNode, Row};
use isopace_core::{Aval, BlockFormat, Dtype, Number};
use isopace_cpu::CpuBackend;
use isopace_cpu::kernels::attention::{Sdpa, sdpa};
use isopace_cpu::kernels::gemv::*;
use isopace_cpu::kernels::grouped::{Code, Grouped, Groups, qmatmul_grouped};
use isopace_cpu::kernels::matmul::{Mat, matmul};
use isopace_cpu::kernels::nn;
use isopace_cpu::kernels::reduce::{self, Reduction};
use isopace_cpu::pool;
use isopace_cpu::scratch::Elems;
use isopace_cpu::simd::convert::Load;
use isopace_cpu::simd::math;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

/// Seconds on the wall for several threads; the CPU time of the process for one, so that other
/// work on the machine disturbs less.
fn now() -> f64 {
    // SAFETY: the signature is that of the C library on 64-bit Linux.
    unsafe extern "C" {
        fn clock_gettime(clock: i32, t: *mut [i64; 2]) -> i32;
    }
    let mut t = [0i64; 2];
    let clock = if pool::threads() == 1 { 2 } else { 1 };
    // SAFETY: the C library writes the two words of a timespec; 1 is the monotonic clock and 2
    // the process's CPU time, on 64-bit Linux.
    unsafe { clock_gettime(clock, &mut t) };
    t[0] as f64 + t[1] as f64 * 1e-9
}

/// Best and median seconds of `runs` calls after a warm-up.
fn time(runs: usize, mut f: impl FnMut()) -> (f64, f64) {
    f();
    let mut t: Vec<f64> = (0..runs)
        .map(|_| {
            let s = now();
            f();
            now() - s
        })
        .collect();
    t.sort_by(f64::total_cmp);
    (t[0], t[runs / 2])
}

fn line(name: &str, threads: usize, (best, median): (f64, f64), amount: f64, unit: &str) {
    let (b, m) = (best * 1e3, median * 1e3);
    println!("{name:<44} [{threads}] best {b:9.4} ms  median {m:9.4} ms  {:8.1} {unit}", amount / best / 1e9);
}

fn floats(n: usize, seed: u32) -> Vec<f32> {
    let mut s = seed;
    (0..n)
        .map(|_| {
            s = s.wrapping_mul(1664525).wrapping_add(1013904223);
            (s >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect()
}

fn on_threads(mut f: impl FnMut(usize)) {
    for t in [1, 2] {
        pool::set_threads(t);
        f(t);
    }
    pool::set_threads(0);
}

/// All matrix products of one token of a 135M llama: (rows, cols), one layer.
const LAYER: [(usize, usize); 7] =
    [(576, 576), (192, 576), (192, 576), (576, 576), (1536, 576), (1536, 576), (576, 1536)];
const HEAD: (usize, usize) = (49152, 576);

fn token(format: BlockFormat) {
    if 576 % format.block_elems() != 0 {
        // K formats: the nearest shapes in whole blocks.
        return token_of(format, 512);
    }
    token_of(format, 576);
}

fn token_of(format: BlockFormat, d: usize) {
    let shapes: Vec<(usize, usize)> =
        (0..30).flat_map(|_| LAYER).chain([HEAD]).map(|(r, c)| (r, if c == 576 { d } else { c })).collect();
    let weights: Vec<Vec<u8>> = shapes
        .iter()
        .map(|(r, c)| {
            let n = format.row_bytes(*c).unwrap() * r;
            (0..n).map(|i| (i as u32).wrapping_mul(2654435761).to_le_bytes()[3] & 0x3b).collect()
        })
        .collect();
    let bytes: usize = weights.iter().map(Vec::len).sum();
    let s = Instant::now();
    let packed: Vec<Vec<u8>> =
        weights.iter().zip(&shapes).map(|(w, (r, c))| pack(format, w, *r, *c).unwrap()).collect();
    println!("{format}: {:.1} MB, packed in {:.3} s", bytes as f64 / 1e6, s.elapsed().as_secs_f64());
    let x = floats(256 * 1536, 1);
    let mut out = vec![0f32; 256 * 49152];
    on_threads(|t| {
        let mut q = QuantX::default();
        let r = time(11, || {
            for (w, (r, c)) in packed.iter().zip(&shapes) {
                q.quantize(&x[..*c], 1, *c);
                qmatmul_packed_i8(format, w, *r, *c, &q, &mut out[..*r]).unwrap();
            }
        });
        line(&format!("token {format} packed i8"), t, r, bytes as f64, "GB/s");
        let r = time(11, || {
            for (w, (r, c)) in packed.iter().zip(&shapes) {
                qmatmul_packed_f32(format, w, *r, *c, &x[..*c], 1, &mut out[..*r]).unwrap();
            }
        });
        line(&format!("token {format} packed f32"), t, r, bytes as f64, "GB/s");
        let r = time(11, || {
            for (w, (r, c)) in weights.iter().zip(&shapes) {
                q.quantize(&x[..*c], 1, *c);
                qmatmul_i8(format, w, *r, *c, &q, &mut out[..*r]).unwrap();
            }
        });
        line(&format!("token {format} file i8"), t, r, bytes as f64, "GB/s");
        let r = time(11, || {
            for (w, (r, c)) in weights.iter().zip(&shapes) {
                qmatmul_f32(format, w, *r, *c, &x[..*c], 1, &mut out[..*r]).unwrap();
            }
        });
        line(&format!("token {format} file f32"), t, r, bytes as f64, "GB/s");
        let m = 256;
        let body = shapes.len() - 1;
        let ops: f64 = shapes[..body].iter().map(|(r, c)| 2.0 * (r * c * m) as f64).sum();
        let r = time(3, || {
            for (w, (r, c)) in packed.iter().zip(&shapes).take(body) {
                q.quantize(&x[..m * c], m, *c);
                qmatmul_packed_i8(format, w, *r, *c, &q, &mut out[..m * r]).unwrap();
            }
        });
        line(&format!("prefill 256 {format} packed i8"), t, r, ops, "GOP/s");
        let r = time(3, || {
            for (w, (r, c)) in weights.iter().zip(&shapes).take(body) {
                q.quantize(&x[..m * c], m, *c);
                qmatmul_i8(format, w, *r, *c, &q, &mut out[..m * r]).unwrap();
            }
        });
        line(&format!("prefill 256 {format} file i8"), t, r, ops, "GOP/s");
        let r = time(3, || {
            for (w, (r, c)) in packed.iter().zip(&shapes).take(body) {
                qmatmul_packed_f32(format, w, *r, *c, &x[..m * c], m, &mut out[..m * r]).unwrap();
            }
        });
        line(&format!("prefill 256 {format} packed f32"), t, r, ops, "GOP/s");
        let r = time(3, || {
            for (w, (r, c)) in weights.iter().zip(&shapes).take(body) {
                qmatmul_f32(format, w, *r, *c, &x[..m * c], m, &mut out[..m * r]).unwrap();
            }
        });
        line(&format!("prefill 256 {format} file f32"), t, r, ops, "GOP/s");
        black_box(&out);
    });
}

/// The same in groups of 64 with float16 scales and biases.
fn token_grouped(bits: usize) {
    let shapes: Vec<(usize, usize)> = (0..30).flat_map(|_| LAYER).chain([HEAD]).collect();
    let weights: Vec<Grouped<'static>> = shapes
        .iter()
        .map(|&(rows, cols)| {
            let (n, groups) = (rows * cols * bits / 32, rows * cols / 64);
            Grouped {
                rows,
                cols,
                group: 64,
                bits,
                code: Code::Int,
                words: Elems::Lent(
                    Vec::from_iter((0..n).map(|i| (i as u32).wrapping_mul(2654435761))).leak(),
                ),
                scales: Groups::F16(Elems::Lent(vec![f16::from_f32(0.01); groups].leak())),
                biases: Some(Groups::F16(Elems::Lent(vec![f16::from_f32(-0.1); groups].leak()))),
            }
        })
        .collect();
    let bytes: f64 = shapes.iter().map(|(r, c)| (r * c * bits / 8 + r * c / 16) as f64).sum();
    let x = floats(256 * 1536, 1);
    let mut out = vec![0f32; 256 * 1536];
    let mut logits = vec![0f32; 49152];
    let ops: f64 = shapes[..210].iter().map(|(r, c)| 2.0 * (r * c * 256) as f64).sum();
    on_threads(|t| {
        let r = time(11, || {
            for w in &weights {
                qmatmul_grouped(w, &x[..w.cols], 1, &mut logits[..w.rows]).unwrap();
            }
        });
        line(&format!("token {bits} bits in groups of 64"), t, r, bytes, "GB/s");
        let r = time(3, || {
            for w in &weights[..210] {
                qmatmul_grouped(w, &x[..256 * w.cols], 256, &mut out[..256 * w.rows]).unwrap();
            }
        });
        line(&format!("prefill 256, {bits} bits in groups of 64"), t, r, ops, "GOP/s");
    });
}

/// What the memory gives: the sum of a large array.
fn memory() {
    let v = vec![1u64; 32 << 20];
    on_threads(|t| {
        let r = time(5, || {
            let sums: Vec<_> = (0..16).map(|_| std::sync::atomic::AtomicU64::new(0)).collect();
            pool::parallel_for(16, |i| {
                let n = v.len() / 16;
                let s: u64 = v[i * n..][..n].iter().sum();
                sums[i].store(s, std::sync::atomic::Ordering::Relaxed);
            });
            black_box(sums);
        });
        line("read 256 MB", t, r, v.len() as f64 * 8.0, "GB/s");
    });
}

fn products() {
    for (m, n, k) in
        [(512, 512, 512), (1024, 1024, 1024), (256, 1536, 576), (256, 576, 1536), (1, 49152, 576)]
    {
        let (a, b) = (floats(m * k, 1), floats(k * n, 2));
        let mut out = vec![0.0; m * n];
        let ops = 2.0 * (m * n * k) as f64;
        on_threads(|t| {
            // b transposed, as a weight is.
            let (x, w) = (Mat::dense(&a, m, k).unwrap(), Mat::dense(&b, n, k).unwrap().transposed());
            let r = time(15, || matmul(x, w, &mut out).unwrap());
            line(&format!("matmul f32 {m}x{n}x{k}"), t, r, ops, "GFLOP/s");
            let w = Mat::dense(&b, k, n).unwrap();
            let r = time(15, || matmul(x, w, &mut out).unwrap());
            line(&format!("matmul f32 {m}x{n}x{k}, by rows"), t, r, ops, "GFLOP/s");
            let (mut ah, mut bh) = (vec![f16::ZERO; m * k], vec![f16::ZERO; n * k]);
            let mut oh = vec![f16::ZERO; m * n];
            f16::narrow(&a, &mut ah);
            f16::narrow(&b, &mut bh);
            let (x, w) = (Mat::dense(&ah, m, k).unwrap(), Mat::dense(&bh, n, k).unwrap().transposed());
            let r = time(15, || matmul(x, w, &mut oh).unwrap());
            line(&format!("matmul f16 {m}x{n}x{k}"), t, r, ops, "GFLOP/s");
        });
    }
}

fn attention() {
    for (queries, keys) in [(1, 256), (1, 3800), (256, 256), (256, 2048)] {
        let (h, g, d) = (9, 3, 64);
        let q = floats(h * queries * d, 1);
        // Thirty layers, so that nothing stays in a cache that would not in a model.
        let layers: Vec<(Vec<f16>, Vec<f16>)> = (0..30)
            .map(|i| {
                let mut kv = (vec![f16::ZERO; g * keys * d], vec![f16::ZERO; g * keys * d]);
                f16::narrow(&floats(g * keys * d, i), &mut kv.0);
                f16::narrow(&floats(g * keys * d, i + 30), &mut kv.1);
                kv
            })
            .collect();
        let mut out = vec![0.0; h * queries * d];
        on_threads(|t| {
            let r = time(9, || {
                for (k, v) in &layers {
                    let p = Sdpa {
                        batch: 1,
                        heads: h,
                        kv_heads: g,
                        queries,
                        keys,
                        dim: d,
                        value_dim: d,
                        q: (&q[..], [0, queries * d, d]),
                        k: (&k[..], [0, keys * d, d]),
                        v: (&v[..], [0, keys * d, d]),
                        scale: 0.125,
                        causal: true,
                        mask: None,
                        sinks: None,
                        out_strides: [0, queries * d, d],
                    };
                    sdpa(&p, &mut out).unwrap();
                }
            });
            let bytes = (30 * 2 * g * keys * d * 2) as f64;
            line(&format!("attention f16 {queries} x {keys}, 30 layers"), t, r, bytes, "GB/s");
        });
    }
}

fn functions() {
    let x = floats(1 << 14, 3);
    let mut o = vec![0.0; x.len()];
    let y: Vec<f32> = x.iter().map(|v| v.abs() + 0.1).collect();
    pool::set_threads(1);
    let rows: [(&str, fn(&[f32], &mut [f32])); 12] = [
        ("exp", math::exp),
        ("expm1", math::expm1),
        ("log", math::log),
        ("log1p", math::log1p),
        ("tanh", math::tanh),
        ("erf", math::erf),
        ("sigmoid", math::sigmoid),
        ("silu", math::silu),
        ("rsqrt", math::rsqrt),
        ("sin", math::sin),
        ("cos", math::cos),
        ("pow", |x, o| math::pow(x, x, o)),
    ];
    for (name, f) in rows {
        let r = time(50, || (0..16).for_each(|_| f(&y, &mut o)));
        line(&format!("{name} of 16384 floats, 16 times"), 1, r, 16.0 * x.len() as f64, "G/s");
    }
    pool::set_threads(0);
}

fn rows() {
    let (n, count) = (4096, 4096);
    let (x, w) = (floats(n * count, 1), floats(n, 2));
    let mut out = vec![0f32; n * count];
    let bytes = 8.0 * x.len() as f64;
    on_threads(|t| {
        let r = time(5, || nn::softmax(&x, n, &mut out).unwrap());
        line("softmax 4096 x 4096", t, r, bytes, "GB/s");
        let r = time(5, || nn::rms_norm(&x, n, &w, 1e-5, &mut out).unwrap());
        line("rms_norm 4096 x 4096", t, r, bytes, "GB/s");
        let r = time(5, || nn::layer_norm(&x, n, &w, &w, 1e-5, &mut out).unwrap());
        line("layer_norm 4096 x 4096", t, r, bytes, "GB/s");
        let r = time(5, || reduce::reduce(Reduction::Sum, &x, count, n, 1, &mut out[..count]).unwrap());
        line("sum of rows 4096 x 4096", t, r, bytes / 2.0, "GB/s");
        let r = time(5, || reduce::reduce(Reduction::Sum, &x, 1, count, n, &mut out[..n]).unwrap());
        line("sum of columns 4096 x 4096", t, r, bytes / 2.0, "GB/s");
        let r = time(5, || reduce::reduce(Reduction::Max, &x, count, n, 1, &mut out[..count]).unwrap());
        line("max of rows 4096 x 4096", t, r, bytes / 2.0, "GB/s");
    });
}

/// tanh-GELU as the block VM runs it: x · 0.5 · (1 + tanh((x³ · 0.044715 + x) · 0.7978845608)).
fn gelu() {
    let f = Dtype::F32;
    let row = |row, args: &[u32]| RegionNode::Row { row, args: args.into(), dtype: f };
    let mut nodes = vec![RegionNode::Input { index: 0, dtype: f }];
    nodes.extend((0..4).map(|index| RegionNode::Cell { index, dtype: f }));
    nodes.extend([
        row(Row::Mul, &[0, 0]),
        row(Row::Mul, &[5, 0]),
        row(Row::Mul, &[6, 4]),
        row(Row::Add, &[7, 0]),
        row(Row::Mul, &[8, 3]),
        row(Row::Tanh, &[9]),
        row(Row::Add, &[10, 2]),
        row(Row::Mul, &[0, 1]),
        row(Row::Mul, &[12, 11]),
    ]);
    let op = Op::Fused(Arc::new(Region { nodes, outputs: [13].as_slice().into() }));
    let cells = [0.5, 1.0, 0.7978845608, 0.044715].map(Number::Float);
    for n in [576, 1 << 16, 1 << 20, 1 << 24] {
        let aval = Aval::new([n], f);
        let x = Value::contiguous(CpuBackend.upload(bytemuck::cast_slice(&floats(n, 1))).unwrap(), &aval);
        let spec = Spec { op: &op, ins: std::slice::from_ref(&aval), outs: std::slice::from_ref(&aval) };
        let k = CpuBackend.kernel(spec).unwrap();
        let times = (10_000_000 / n).max(1);
        on_threads(|t| {
            let mut made = Vec::new();
            let r = time(9, || {
                for _ in 0..times {
                    k.run(&mut [x.clone().into()], &cells, &mut made).unwrap();
                    made.clear();
                }
            });
            let one = |s: f64| s / times as f64;
            line(&format!("gelu of {n}"), t, (one(r.0), one(r.1)), n as f64, "G/s");
        });
    }
}

/// What waking and joining the pool costs.
fn empty_jobs() {
    on_threads(|t| {
        let r = time(9, || (0..1000).for_each(|_| pool::parallel_for(2, |i| _ = black_box(i))));
        line("1000 empty jobs", t, r, 1000.0, "G/s");
    });
}

fn main() {
    let want: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let on = |name: &str| want.is_empty() || want.iter().any(|w| name.contains(w.as_str()));
    println!("{:?}, {} threads", isopace_cpu::isa::isa(), pool::threads());
    if on("memory") {
        memory();
    }
    if on("matmul") {
        products();
    }
    if on("attention") {
        attention();
    }
    for bits in [2, 3, 4, 5, 6, 8] {
        if on(&format!("grouped {bits}")) {
            token_grouped(bits);
        }
    }
    if on("rows") {
        rows();
    }
    if on("gelu") {
        gelu();
    }
    if on("pool") {
        empty_jobs();
    }
    if on("math") {
        functions();
    }
    for format in BlockFormat::ALL {
        if on(&format!("quant {format}")) {
            token(format);
        }
    }
}

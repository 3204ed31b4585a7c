//! Structural ops against the reference, on random shapes, dtypes and layouts.

use crate::*;
use isopace_core::op::*;
use smallvec::smallvec;

fn some(r: &mut Lcg, shape: &[usize], d: Dtype, range: (f64, f64)) -> Input {
    let l = LAYOUTS[r.below(5)];
    Input::random(r, shape, d, range, l)
}

const SOME: [Dtype; 8] =
    [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64, Dtype::I32, Dtype::U8, Dtype::I64, Dtype::C64];

#[test]
fn copies() {
    let mut r = Lcg(21);
    for d in Dtype::ALL {
        for layout in LAYOUTS {
            for shape in [&[5, 6][..], &[2, 3, 4], &[0], &[], &[70, 90], &[3, 40, 50]] {
                let x = Input::random(&mut r, shape, d, (0.0, 9.0), layout);
                check("contiguous", &Op::Contiguous, &[x], &[], &[Aval::new(shape, d)], EXACT);
            }
        }
    }
}

#[test]
fn reductions() {
    let mut r = Lcg(22);
    for kind in ReduceKind::ALL {
        for d in Dtype::ALL {
            for (shape, axes) in [
                (&[6, 7, 5][..], &[2u8][..]),
                (&[6, 7, 5], &[0]),
                (&[6, 7, 5], &[1]),
                (&[6, 7, 5], &[0, 2]),
                (&[6, 7, 5], &[0, 1, 2]),
                (&[3000], &[0]),
                (&[2, 700, 33], &[1]),
                (&[0, 3], &[1]),
            ] {
                let range = if kind == ReduceKind::Prod { (0.7, 1.4) } else { (-1.0, 3.0) };
                let range = if d.is_unsigned() { (0.0, range.1) } else { range };
                let mut x = some(&mut r, shape, d, range);
                if d == Dtype::Bool {
                    x.bytes.iter_mut().for_each(|b| *b = !r.next().is_multiple_of(5) as u8);
                }
                let kept =
                    (0..shape.len()).filter(|i| !axes.contains(&(*i as u8))).map(|i| shape[i]).collect();
                let out = Aval { shape: kept, dtype: kind.dtype(d), valid: None };
                let n: usize = axes.iter().map(|&a| shape[a as usize]).product();
                let t = within(4.0, if kind == ReduceKind::Sum { n as f64 / 4.0 } else { 1.0 });
                let t = if d == Dtype::F64 { within(n as f64, t.scale) } else { t };
                let t = if kind == ReduceKind::Prod { within(n as f64, 1.0) } else { t };
                check(
                    &format!("{} {d} {shape:?} {axes:?}", kind.name()),
                    &Op::Reduce(kind, axes.into()),
                    &[x],
                    &[],
                    &[out],
                    t,
                );
            }
        }
    }
}

#[test]
fn sums_keep_small_terms() {
    let n = 1 << 22;
    for (shape, axis) in [([n, 1], 0u8), ([1, n], 1), ([n / 2, 2], 0)] {
        let x = Input::of(&shape, Dtype::F32, std::iter::repeat_n(1.0, n));
        let kept = shape[1 - axis as usize];
        let out = [Aval::new([kept], Dtype::F32)];
        let got =
            on(&CpuBackend, &Op::Reduce(ReduceKind::Sum, smallvec![axis]), &[x], &[], &out, false).unwrap();
        let want = (n / kept) as f64;
        assert!(floats(&got[0], Dtype::F32).iter().all(|x| x[0] == want));
    }
}

#[test]
fn arg_reductions_and_sorts() {
    let mut r = Lcg(23);
    for d in Dtype::ALL {
        for shape in [&[6, 7, 5][..], &[40, 3], &[1000]] {
            for axis in 0..shape.len() as u8 {
                let mut x = some(&mut r, shape, d, if d.is_unsigned() { (0.0, 9.0) } else { (-9.0, 9.0) });
                if d == Dtype::F32 {
                    for b in x.bytes.chunks_exact_mut(4).step_by(11) {
                        b.copy_from_slice(&f32::NAN.to_le_bytes());
                    }
                }
                let mut kept: Vec<usize> = shape.to_vec();
                kept.remove(axis as usize);
                for kind in [ArgKind::Min, ArgKind::Max] {
                    let out = Aval::new(kept.clone(), Dtype::U32);
                    check(kind.name(), &Op::ArgReduce(kind, axis), &[x.clone()], &[], &[out], EXACT);
                }
                check(
                    &format!("sort {d}"),
                    &Op::Sort(axis),
                    &[x.clone()],
                    &[],
                    &[Aval::new(shape, d)],
                    EXACT,
                );
                check("argsort", &Op::ArgSort(axis), &[x], &[], &[Aval::new(shape, Dtype::U32)], EXACT);
            }
        }
        for right in [false, true] {
            let range = if d.is_unsigned() { (0.0, 9.0) } else { (-9.0, 9.0) };
            let sorted = |r: &mut Lcg, n: usize| {
                let mut v: Vec<f64> = (0..n).map(|_| r.float(range.0, range.1)).collect();
                v.sort_by(f64::total_cmp);
                v
            };
            let line = Input::of(&[20], d, sorted(&mut r, 20));
            let v = some(&mut r, &[3, 4], d, range);
            let out = [Aval::new([3, 4], Dtype::U32)];
            if d != Dtype::C64 {
                check("searchsorted", &Op::SearchSorted(right), &[line, v.clone()], &[], &out, EXACT);
                let rows: Vec<f64> = (0..3).flat_map(|_| sorted(&mut r, 9)).collect();
                check(
                    "searchsorted",
                    &Op::SearchSorted(right),
                    &[Input::of(&[3, 9], d, rows), v],
                    &[],
                    &out,
                    EXACT,
                );
            }
        }
    }
}

#[test]
fn scans() {
    let mut r = Lcg(24);
    for kind in [ScanKind::Sum, ScanKind::Prod, ScanKind::Min, ScanKind::Max, ScanKind::LogAddExp] {
        for d in SOME {
            if kind == ScanKind::LogAddExp && !d.is_float() {
                continue;
            }
            for axis in 0..3u8 {
                for (reverse, inclusive) in [(false, true), (true, true), (false, false), (true, false)] {
                    let x = some(&mut r, &[4, 9, 3], d, (0.5, 1.9));
                    let op = Op::Scan(kind, axis, reverse, inclusive);
                    let t = within(8.0, 1.0);
                    check(&format!("{} {d}", kind.name()), &op, &[x], &[], &[Aval::new([4, 9, 3], d)], t);
                }
            }
        }
    }
}

#[test]
fn slices_and_joins() {
    let mut r = Lcg(25);
    let int = |v: &[i64]| v.iter().map(|&i| Number::Int(i)).collect::<Vec<_>>();
    for d in SOME {
        let x = some(&mut r, &[6, 8], d, (0.0, 9.0));
        for combine in [Combine::Set, Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
            for (steps, starts, size) in [
                ([1, 1], [2, 3], [3, 4]),
                ([2, -2], [0, 7], [3, 4]),
                ([1, 1], [5, 7], [2, 1]),
                ([1, 1], [0, 0], [0, 4]),
            ] {
                let u = some(&mut r, &size, d, (0.0, 9.0));
                let op = Op::SliceUpdate(steps.as_slice().into(), combine);
                let name = format!("slice_update {combine:?} {d} {steps:?} {starts:?}");
                check(&name, &op, &[x.clone(), u], &int(&starts), &[Aval::new([6, 8], d)], within(1.0, 0.0));
                // Converted on the way.
                let u =
                    some(&mut r, &size, if d == Dtype::F32 { Dtype::F16 } else { Dtype::F32 }, (0.0, 9.0));
                let name = format!("{name} of {}", u.dtype);
                check(&name, &op, &[x.clone(), u], &int(&starts), &[Aval::new([6, 8], d)], within(1.0, 0.0));
            }
        }
        for start in [-1.0, 0.0, 3.0, 99.0] {
            let s = Input::of(&[1], Dtype::I32, [start]);
            let op = Op::DynamicSlice(smallvec![1]);
            check("dynamic_slice", &op, &[x.clone(), s.clone()], &[], &[Aval::new([6, 3], d)], EXACT);
            let u = some(&mut r, &[6, 3], d, (0.0, 9.0));
            let op = Op::DynamicSliceUpdate(smallvec![1]);
            check("dynamic_slice_update", &op, &[x.clone(), u, s], &[], &[Aval::new([6, 8], d)], EXACT);
        }
        for axis in 0..2u8 {
            let mut shapes = [[6, 8], [6, 8], [6, 8]];
            shapes[1][axis as usize] = 3;
            shapes[2][axis as usize] = 0;
            let ins: Vec<Input> = shapes.iter().map(|s| some(&mut r, s, d, (0.0, 9.0))).collect();
            let mut out = [6, 8];
            out[axis as usize] = shapes.iter().map(|s| s[axis as usize]).sum();
            check("concatenate", &Op::Concat(axis), &ins, &[], &[Aval::new(out, d)], EXACT);
        }
        let one = Input::of(&[], d, [3.0]);
        let op = Op::Pad(smallvec![2, 0]);
        check("pad", &op, &[x, one], &[], &[Aval::new([9, 11], d)], EXACT);
    }
}

fn index(r: &mut Lcg, shape: &[usize], dim: usize, wild: bool) -> Input {
    let n: usize = shape.iter().product();
    let d = dim as f64 * if wild { 1.6 } else { 1.0 };
    Input::of(shape, [Dtype::I32, Dtype::I64][r.below(2)], (0..n).map(|_| r.float(-d, d).floor()))
}

#[test]
fn gathers_and_scatters() {
    let mut r = Lcg(26);
    for d in SOME {
        for wild in [false, true] {
            let x = some(&mut r, &[5, 6, 7], d, (0.0, 9.0));
            let (i, j) = (index(&mut r, &[2, 3], 5, wild), index(&mut r, &[2, 3], 7, wild));
            let g =
                |axes: &[u8], sizes: &[usize]| Op::Gather(Gather { axes: axes.into(), sizes: sizes.into() });
            let out = |s: &[usize]| [Aval::new(s, d)];
            check(
                "gather",
                &g(&[0], &[1, 6, 7]),
                &[x.clone(), i.clone()],
                &[],
                &out(&[2, 3, 1, 6, 7]),
                EXACT,
            );
            check(
                "gather",
                &g(&[0, 2], &[1, 4, 2]),
                &[x.clone(), i.clone(), j.clone()],
                &[],
                &out(&[2, 3, 1, 4, 2]),
                EXACT,
            );
            for combine in [Combine::Set, Combine::Add, Combine::Mul, Combine::Min, Combine::Max] {
                let s = |axes: &[u8]| Op::Scatter(Scatter { axes: axes.into(), combine });
                let t = within(16.0, 20.0);
                // Products of half floats: the reference rounds once, at the end.
                let ok = combine != Combine::Mul && combine != Combine::Add
                    || !matches!(d, Dtype::F16 | Dtype::BF16);
                if ok {
                    let u = some(&mut r, &[2, 3, 1, 6, 7], d, (0.5, 2.0));
                    check("scatter", &s(&[0]), &[x.clone(), i.clone(), u], &[], &out(&[5, 6, 7]), t);
                    let u = some(&mut r, &[2, 3, 1, 4, 2], d, (0.5, 2.0));
                    check(
                        "scatter",
                        &s(&[0, 2]),
                        &[x.clone(), i.clone(), j.clone(), u],
                        &[],
                        &out(&[5, 6, 7]),
                        t,
                    );
                    let k = index(&mut r, &[5, 4, 7], 6, wild);
                    let u = some(&mut r, &[5, 4, 7], d, (0.5, 2.0));
                    check(
                        "put_along",
                        &Op::ScatterAlong(1, combine),
                        &[x.clone(), k, u],
                        &[],
                        &out(&[5, 6, 7]),
                        t,
                    );
                }
            }
            let k = index(&mut r, &[5, 4, 7], 6, wild);
            check("take_along", &Op::TakeAlong(1), &[x.clone(), k], &[], &out(&[5, 4, 7]), EXACT);
            let k = index(&mut r, &[1, 4, 1], 6, wild);
            check("take_along", &Op::TakeAlong(1), &[x.clone(), k], &[], &out(&[5, 4, 7]), EXACT);
            let mask = Input::of(&[5, 6, 7], Dtype::Bool, (0..210).map(|_| (r.next() & 1) as f64));
            for n in [210, 20] {
                let u = some(&mut r, &[n], d, (0.0, 9.0));
                check(
                    "masked_scatter",
                    &Op::MaskedScatter,
                    &[x.clone(), mask.clone(), u],
                    &[],
                    &out(&[5, 6, 7]),
                    EXACT,
                );
            }
        }
    }
}

#[test]
fn products() {
    let mut r = Lcg(27);
    for d in [Dtype::F32, Dtype::F64, Dtype::F16, Dtype::BF16, Dtype::C64] {
        for (a, b, out) in [
            (&[3, 4][..], &[4, 5][..], &[3, 5][..]),
            (&[1, 70], &[70, 33], &[1, 33]),
            (&[1, 150], &[150, 203], &[1, 203]),
            (&[65, 70], &[70, 1], &[65, 1]),
            (&[2, 1, 9, 8], &[3, 8, 7], &[2, 3, 9, 7]),
            (&[5, 0], &[0, 6], &[5, 6]),
            (&[130, 90], &[90, 150], &[130, 150]),
        ] {
            let (x, y) = (some(&mut r, a, d, (-1.0, 1.0)), some(&mut r, b, d, (-1.0, 1.0)));
            // The real part of a complex product is two real ones.
            let n = a[a.len() - 1] * if d == Dtype::C64 { 2 } else { 1 };
            let sums = exact_product(&sizes(&x), &sizes(&y), out);
            let name = format!("matmul {d} {a:?} {b:?}");
            check_sums(&name, &Op::Matmul, &[x, y], &[], &[Aval::new(out, d)], n, &sums);
        }
    }
    let (x, w) = (
        some(&mut r, &[2, 3, 4], Dtype::F32, (-1.0, 1.0)),
        some(&mut r, &[5, 4, 6], Dtype::F32, (-1.0, 1.0)),
    );
    let i = Input::of(&[2, 2], Dtype::U32, [0.0, 4.0, 2.0, 1.0]);
    let l = Input::of(&[2, 2], Dtype::U32, [0.0, 1.0, 1.0, 0.0]);
    let out = [Aval::new([2, 2, 3, 6], Dtype::F32)];
    let g = |lhs, rhs| Op::GatherMatmul(GatherMatmul { quant: None, lhs, rhs });
    check("gather_mm", &g(true, true), &[x.clone(), w.clone(), l, i.clone()], &[], &out, within(4.0, 4.0));
    check("gather_mm", &g(false, true), &[x, w, i], &[], &out, within(4.0, 4.0));
}

#[test]
fn norms() {
    let mut r = Lcg(28);
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16, Dtype::F64] {
        for shape in [&[4, 9][..], &[2, 3, 100], &[3, 2000], &[0, 5], &[70, 600]] {
            let n = *shape.last().unwrap();
            let x = some(&mut r, shape, d, (-3.0, 3.0));
            let (w, b) = (some(&mut r, &[n], d, (-2.0, 2.0)), some(&mut r, &[n], d, (-2.0, 2.0)));
            let out = [Aval::new(shape, d)];
            let eps = [Number::Float(1e-5)];
            let t = within(if d == Dtype::F64 { 30.0 } else { 4.0 }, 1.0);
            check("softmax", &Op::Softmax, &[x.clone()], &[], &out, within(8.0, 0.1));
            check("rms_norm", &Op::RmsNorm, &[x.clone()], &eps, &out, t);
            check("rms_norm", &Op::RmsNorm, &[x.clone(), w.clone()], &eps, &out, t);
            check("layer_norm", &Op::LayerNorm, &[x.clone()], &eps, &out, t);
            check("layer_norm", &Op::LayerNorm, &[x.clone(), w.clone()], &eps, &out, t);
            check("layer_norm", &Op::LayerNorm, &[x, w, b], &eps, &out, t);
        }
    }
    let inf = f64::INFINITY;
    let x = Input::of(&[3, 2], Dtype::F32, [-inf, -inf, inf, 1.0, -inf, 0.0]);
    check("softmax", &Op::Softmax, &[x], &[], &[Aval::new([3, 2], Dtype::F32)], EXACT);
}

#[test]
fn ropes() {
    let mut r = Lcg(29);
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for (traditional, offset_array, freqs) in [
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (false, false, true),
            (true, true, true),
        ] {
            let mut ins = vec![some(&mut r, &[2, 3, 5, 16], d, (-2.0, 2.0))];
            let mut cells = vec![Number::Float(10000.0), Number::Float(0.5)];
            match offset_array {
                true => ins.push(Input::of(&[2], Dtype::I32, [4.0, 100.0])),
                false => cells.push(Number::Int(77)),
            }
            if freqs {
                ins.push(some(&mut r, &[4], Dtype::F32, (1.0, 50.0)));
            }
            let op = Op::Rope(Rope { dims: 8, traditional, offset_array, freqs });
            check(
                &format!("rope {op:?}"),
                &op,
                &ins,
                &cells,
                &[Aval::new([2, 3, 5, 16], d)],
                within(2.0, 2.0),
            );
        }
    }
}

#[test]
fn attention() {
    let mut r = Lcg(30);
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        for (lq, lk, length) in
            [(1, 40, None), (1, 600, Some(333)), (7, 20, None), (33, 150, Some(100)), (5, 0, None)]
        {
            for (causal, mask, sinks) in [
                (false, None, false),
                (true, None, false),
                (false, Some(Dtype::Bool), true),
                (true, Some(d), false),
            ] {
                let mut ins = vec![
                    some(&mut r, &[2, 6, lq, 16], Dtype::F32, (-1.0, 1.0)),
                    some(&mut r, &[2, 3, lk, 16], d, (-1.0, 1.0)),
                    some(&mut r, &[2, 3, lk, 8], d, (-1.0, 1.0)),
                ];
                if let Some(m) = mask {
                    let mut x = some(&mut r, &[2, 1, lq, lk], m, (-1.0, 1.0));
                    if m == Dtype::Bool {
                        x.bytes.iter_mut().for_each(|b| *b = !r.next().is_multiple_of(3) as u8);
                    }
                    ins.push(x);
                }
                if sinks {
                    ins.push(some(&mut r, &[6], Dtype::F32, (-1.0, 1.0)));
                }
                let mut cells = vec![Number::Float(0.25)];
                cells.extend(length.map(Number::Int));
                let op = Op::Sdpa(Sdpa { causal, mask: mask.is_some(), sinks, length: length.is_some() });
                let out = [Aval::new([2, 6, lq, 8], Dtype::F32)];
                check(&format!("{op:?} {d} {lq} {lk}"), &op, &ins, &cells, &out, within(16.0, 1.0));
            }
        }
    }
}

#[test]
fn from_nothing() {
    for d in Dtype::ALL.into_iter().filter(|&d| d != Dtype::C64) {
        let out = [Aval::new([50], d)];
        check("arange", &Op::Arange, &[], &[Number::Int(3), Number::Int(2)], &out, EXACT);
        check("arange", &Op::Arange, &[], &[Number::Float(0.5), Number::Float(0.3)], &out, EXACT);
    }
    for n in [0, 1, 2, 7, 1000, 100_001] {
        let key = Input::of(&[2], Dtype::U32, [17.0, 4e9]);
        check("random_bits", &Op::RandomBits, &[key], &[], &[Aval::new([n], Dtype::U32)], EXACT);
    }
}

#[test]
fn convolutions() {
    let mut r = Lcg(31);
    for d in [Dtype::F32, Dtype::F16, Dtype::F64] {
        for (groups, flip) in [(1, false), (2, true)] {
            let x = some(&mut r, &[2, 9, 8, 4], d, (-1.0, 1.0));
            let w = some(&mut r, &[6, 3, 2, 4 / groups], d, (-1.0, 1.0));
            let c = Conv {
                stride: smallvec![2, 1],
                pad_low: smallvec![1, 0],
                pad_high: smallvec![2, 1],
                dilation: smallvec![2, 1],
                input_dilation: smallvec![1, 2],
                groups,
                flip,
            };
            // (9 + 3 - 5) / 2 + 1 and (15 + 1 - 2) + 1
            let out = [Aval::new([2, 4, 15, 6], d)];
            check("conv", &Op::Conv(Box::new(c)), &[x, w], &[], &out, within(8.0, 4.0));
        }
    }
}

#[test]
fn inverses() {
    let mut r = Lcg(32);
    for d in [Dtype::F32, Dtype::F64] {
        for n in [1, 2, 5, 12] {
            let x = some(&mut r, &[3, n, n], d, (-1.0, 1.0));
            let t = within(if d == Dtype::F64 { 1e6 } else { 1e3 }, 10.0);
            check("inverse", &Op::Inverse, &[x], &[], &[Aval::new([3, n, n], d)], t);
        }
    }
    let x = Input::of(&[2, 2], Dtype::F32, [1.0, 2.0, 2.0, 4.0]);
    for (d, batch, n) in [(Dtype::F32, 3, 5), (Dtype::F64, 1, 12), (Dtype::F32, 2, 1), (Dtype::F32, 0, 4)] {
        let at = |k: usize| (k / n % n, k % n, k / (n * n));
        let x: Vec<f64> =
            (0..batch * n * n).map(at).map(|(i, j, b)| ((i + j) * 7 + i * j + b) as f64).collect();
        let x = Input::of(&[batch, n, n], d, x);
        let outs = [Aval::new([batch, n], d), Aval::new([batch, n, n], d)];
        check("eigh", &Op::Eigh, &[x], &[], &outs, EXACT);
    }
    check("singular", &Op::Inverse, &[x], &[], &[Aval::new([2, 2], Dtype::F32)], EXACT);
}

#[test]
fn fourier_transforms() {
    let mut r = Lcg(33);
    // Powers of small primes, a large prime, and rows that several threads share.
    for (rows, n) in [(3, 1), (3, 2), (5, 3), (2, 8), (4, 30), (3, 97), (2, 243), (40, 1000)] {
        for inverse in [false, true] {
            let x = some(&mut r, &[rows, n], Dtype::C64, (-1.0, 1.0));
            let out = [Aval::new([rows, n], Dtype::C64)];
            // Each of log2(n) stages adds an error of some 6.7 unit roundoffs of the norm, and results are about as
            // large as the root of n (N. Higham, Accuracy and Stability of Numerical Algorithms, theorem 24.2).
            let t = within(6.7 / 2.0 * (n as f64).log2().max(1.0), (n as f64).sqrt());
            check("fft", &Op::Fft { inverse }, &[x], &[], &out, t);
        }
    }
    let none = [Aval::new([0, 4], Dtype::C64)];
    check(
        "fft of no rows",
        &Op::Fft { inverse: false },
        &[Input::of(&[0, 4], Dtype::C64, [])],
        &[],
        &none,
        EXACT,
    );
}

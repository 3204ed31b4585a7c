//! Quantized weights against the reference.

use crate::*;
use isopace_core::BlockFormat;
use isopace_core::op::{QuantMatmul, QuantMode, WeightFormat};

fn blocks(r: &mut Lcg, format: BlockFormat, rows: usize, cols: usize) -> Input {
    let n = format.row_bytes(cols).unwrap();
    let mut bytes: Vec<u8> = (0..rows * n).map(|_| r.next() as u8).collect();
    // Every 16-bit scale becomes a small number: where they stand differs, so clear the top exponent bits.
    use BlockFormat::*;
    let at: &[usize] = match format {
        Q4_0 | Q5_0 | Q8_0 => &[0],
        Q4_1 | Q5_1 | Q4_K | Q5_K => &[0, 2],
        Q2_K => &[80, 82],
        Q3_K => &[108],
        Q6_K => &[208],
    };
    for b in bytes.chunks_mut(format.block_bytes()) {
        for &i in at {
            let x = half::f16::from_f64(r.float(-0.1, 0.1)).to_le_bytes();
            b[i..i + 2].copy_from_slice(&x);
        }
    }
    Input { bytes, layout: Layout::contiguous([rows, n].into()), dtype: Dtype::U8 }
}

/// The sizes of a weight's values, in float64.
fn value_sizes(wf: WeightFormat, parts: &[Input], rows: usize, cols: usize) -> Input {
    let out = Aval::new([rows, cols], Dtype::F32);
    let reference = isopace_core::reference::backend();
    let made = on(&*reference, &Op::Dequantize(wf), parts, &[], &[out.clone()], true);
    let bytes = made.expect("the reference dequantizes").remove(0);
    sizes(&Input { bytes, layout: Layout::contiguous(out.shape), dtype: Dtype::F32 })
}

/// The same matrix with rows as columns.
fn transposed(x: &Input) -> Input {
    Input { layout: x.layout.transpose(&[1, 0]), ..x.clone() }
}

#[test]
fn block_formats() {
    let mut r = Lcg(11);
    for format in BlockFormat::ALL {
        let (rows, cols) = (37, 2 * format.block_elems());
        let w = blocks(&mut r, format, rows, cols);
        let wf = WeightFormat::Block { format, cols: cols as u32 };
        let values = value_sizes(wf, std::slice::from_ref(&w), rows, cols);
        for d in [Dtype::F32, Dtype::F16] {
            let out = Aval::new([rows, cols], d);
            check(
                &format!("dequantize {format}"),
                &Op::Dequantize(wf),
                &[w.clone()],
                &[],
                &[out],
                within(1.0, 0.0),
            );
            let idx = Input::of(&[3], Dtype::I32, [0.0, 36.0, -2.0]);
            let out = Aval::new([3, cols], d);
            check(
                &format!("take {format}"),
                &Op::QuantTake(wf),
                &[w.clone(), idx],
                &[],
                &[out],
                within(1.0, 0.0),
            );
            for m in [1, 3, 20] {
                let x = Input::random(&mut r, &[m, cols], d, (-1.0, 1.0), "contiguous");
                let q = QuantMatmul { format: wf, transpose: true, int8: false };
                let out = Aval::new([m, rows], d);
                let name = format!("quantized_matmul {format} {d} {m}");
                let sums = exact_product(&sizes(&x), &transposed(&values), &[m, rows]);
                // A value is a product and a difference: two roundings more.
                check_sums(&name, &Op::QuantMatmul(q), &[x, w.clone()], &[], &[out], cols + 2, &sums);
            }
            let x = Input::random(&mut r, &[2, rows], d, (-1.0, 1.0), "sliced");
            let q = QuantMatmul { format: wf, transpose: false, int8: false };
            let out = Aval::new([2, cols], d);
            let sums = exact_product(&sizes(&x), &values, &[2, cols]);
            check_sums("not transposed", &Op::QuantMatmul(q), &[x, w.clone()], &[], &[out], rows + 2, &sums);
        }
    }
}

/// Packing and then using gives what the file's form gives.
#[test]
fn packed_weights() {
    let mut r = Lcg(12);
    for format in BlockFormat::ALL {
        for rows in [16, 37] {
            let cols = format.block_elems();
            let w = blocks(&mut r, format, rows, cols);
            let file = WeightFormat::Block { format, cols: cols as u32 };
            let packed = WeightFormat::Packed { format, rows: rows as u32, cols: cols as u32 };
            let avals = [w.aval()];
            let op = Op::PackWeight(file);
            let kernel = CpuBackend.kernel(Spec { op: &op, ins: &avals, outs: &avals }).unwrap();
            let mut ins =
                [Value { buffer: CpuBackend.upload(&w.bytes).unwrap(), layout: w.layout.clone() }.into()];
            let mut made = Vec::new();
            kernel.run(&mut ins, &[], &mut made).unwrap();
            let p = made.remove(0);
            let x = Input::random(&mut r, &[5, cols], Dtype::F32, (-1.0, 1.0), "contiguous");
            let run = |op: Op, values: [Value; 2], avals: &[Aval], out: Aval| {
                let k = CpuBackend
                    .kernel(Spec { op: &op, ins: avals, outs: std::slice::from_ref(&out) })
                    .unwrap();
                let mut made = Vec::new();
                k.run(&mut values.map(Into::into), &[], &mut made).unwrap();
                read(&CpuBackend, &made[0], out.dtype).unwrap()
            };
            let xv = || Value { buffer: CpuBackend.upload(&x.bytes).unwrap(), layout: x.layout.clone() };
            let wv = || Value { buffer: CpuBackend.upload(&w.bytes).unwrap(), layout: w.layout.clone() };
            for int8 in [false, true] {
                let a = [x.aval(), w.aval()];
                let q = |format| Op::QuantMatmul(QuantMatmul { format, transpose: true, int8 });
                let out = || Aval::new([5, rows], Dtype::F32);
                let got = run(q(packed), [xv(), p.clone()], &a, out());
                let want = run(q(file), [xv(), wv()], &a, out());
                compare(&format!("packed {format} {int8}"), &got, &want, Dtype::F32, within(256.0, 40.0));
            }
            let idx = Input::of(&[2], Dtype::I32, [1.0, rows as f64 - 1.0]);
            let iv = || Value { buffer: CpuBackend.upload(&idx.bytes).unwrap(), layout: idx.layout.clone() };
            let a = [w.aval(), idx.aval()];
            let out = || Aval::new([2, cols], Dtype::F32);
            let got = run(Op::QuantTake(packed), [p.clone(), iv()], &a, out());
            let want = run(Op::QuantTake(file), [wv(), iv()], &a, out());
            compare(&format!("packed take {format}"), &got, &want, Dtype::F32, within(2.0, 0.0));
        }
    }
}

#[test]
fn grouped_formats() {
    let mut r = Lcg(13);
    let modes = [
        (QuantMode::Affine, 32),
        (QuantMode::Affine, 64),
        (QuantMode::Affine, 128),
        (QuantMode::MxFp4, 32),
        (QuantMode::MxFp8, 32),
        (QuantMode::NvFp4, 16),
    ];
    for (mode, group) in modes {
        let all: &[u8] = match mode {
            QuantMode::Affine => &[1, 2, 3, 4, 5, 6, 8],
            QuantMode::MxFp8 => &[8],
            _ => &[4],
        };
        for &bits in all {
            for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
                // Strips of rows, whole fours and not; blocks of words, whole ones and not.
                let (rows, cols) = ([1, 10, 35, 67][r.below(4)], [1, 3, 8, 9][r.below(4)] * group as usize);
                let w = Input::random(&mut r, &[rows, cols], d, (-3.0, 2.0), "contiguous");
                let scales = if mode == QuantMode::Affine { d } else { Dtype::U8 };
                let g = cols / group as usize;
                let mut outs = vec![
                    Aval::new([rows, cols * bits as usize / 32], Dtype::U32),
                    Aval::new([rows, g], scales),
                ];
                if mode == QuantMode::Affine {
                    outs.push(Aval::new([rows, g], d));
                }
                let name = format!("{} {bits} {d}", mode.name());
                check(&name, &Op::Quantize(group, bits, mode), &[w.clone()], &[], &outs, EXACT);
                let avals = [w.aval()];
                let spec = Op::Quantize(group, bits, mode);
                let parts = on(&CpuBackend, &spec, &[w], &[], &outs, false).unwrap();
                assert_eq!(avals.len(), 1);
                let parts: Vec<Input> = parts
                    .into_iter()
                    .zip(&outs)
                    .map(|(bytes, a)| Input {
                        bytes,
                        layout: Layout::contiguous(a.shape.clone()),
                        dtype: a.dtype,
                    })
                    .collect();
                let format = WeightFormat::Grouped { group, bits, mode };
                let out = Aval::new([rows, cols], d);
                check(&name, &Op::Dequantize(format), &parts, &[], &[out], within(1.0, 0.0));
                // A product may take the sums of codes and of biases apart: |scale · code| + |bias|.
                let mut values = vec![0.0; rows * cols];
                let wide = |p: &Input| {
                    Input::of(&p.layout.shape, Dtype::F32, floats(&p.bytes, p.dtype).iter().map(|v| v[0]))
                };
                let zero = |p: &Input| Input::of(&p.layout.shape, Dtype::F32, vec![0.0; p.layout.elems()]);
                let mut alone = vec![parts.clone()];
                if mode == QuantMode::Affine {
                    alone = vec![
                        vec![parts[0].clone(), wide(&parts[1]), zero(&parts[2])],
                        vec![parts[0].clone(), zero(&parts[1]), wide(&parts[2])],
                    ];
                }
                for parts in alone {
                    let some = value_sizes(format, &parts, rows, cols);
                    floats(&some.bytes, Dtype::F64).iter().zip(&mut values).for_each(|(v, o)| *o += v[0]);
                }
                let values = Input::of(&[rows, cols], Dtype::F64, values);
                for (m, transpose) in [(1, true), (4, true), (2, false)] {
                    let k = if transpose { cols } else { rows };
                    let x = Input::random(&mut r, &[m, k], d, (-1.0, 1.0), "transposed");
                    let out = [m, if transpose { rows } else { cols }];
                    let w = if transpose { transposed(&values) } else { values.clone() };
                    let sums = exact_product(&sizes(&x), &w, &out);
                    let ins: Vec<Input> = [x].into_iter().chain(parts.clone()).collect();
                    let q = QuantMatmul { format, transpose, int8: false };
                    let out = Aval::new(out, d);
                    // A product with the scale and one of the biases with the group's sum: two roundings more.
                    check_sums(&name, &Op::QuantMatmul(q), &ins, &[], &[out], k + 2, &sums);
                }
            }
        }
    }
}

#[test]
fn fp8() {
    let codes = Input::of(&[256], Dtype::U8, (0..256).map(f64::from));
    for d in [Dtype::F32, Dtype::F16, Dtype::BF16] {
        check("from_fp8", &Op::FromFp8, &[codes.clone()], &[], &[Aval::new([256], d)], EXACT);
    }
    let mut r = Lcg(14);
    let x = Input::random(&mut r, &[999], Dtype::F32, (-500.0, 500.0), "contiguous");
    check("to_fp8", &Op::ToFp8, &[x], &[], &[Aval::new([999], Dtype::U8)], EXACT);
    let x = Input::random(&mut r, &[999], Dtype::F32, (-0.05, 0.05), "contiguous");
    check("to_fp8", &Op::ToFp8, &[x], &[], &[Aval::new([999], Dtype::U8)], EXACT);
}

//! Every op on the CPU backend against the reference interpreter: the same spec, the same inputs in
//! every layout, on every instruction set that the machine has, and the same bits for 1 and 2 threads.

// Lists of operands read better alike, cloned or not.
#![allow(clippy::cloned_ref_to_slice_refs)]

mod elementwise;
mod ops;
mod quant;
mod runtime;

use isopace_core::backend::{Backend, Spec, Value};
use isopace_core::op::Op;
use isopace_core::{Aval, Dtype, Error, Layout, Number, Result};
use isopace_cpu::CpuBackend;
use isopace_cpu::isa::Isa;
use std::sync::{Arc, Mutex, OnceLock};

/// A small generator: tests need repeatable numbers, not good ones.
pub struct Lcg(pub u64);

impl Lcg {
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }
    /// In lo .. hi.
    pub fn float(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.next() as f64 / (1u64 << 31) as f64)
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}

/// An operand: bytes, and how the array stands in them.
#[derive(Clone, Debug)]
pub struct Input {
    pub bytes: Vec<u8>,
    pub layout: Layout,
    pub dtype: Dtype,
}

/// One element of a dtype from a float.
pub fn element(x: f64, d: Dtype) -> Vec<u8> {
    use half::{bf16, f16};
    match d {
        Dtype::Bool => vec![(x != 0.0) as u8],
        Dtype::U8 => vec![x as i64 as u8],
        Dtype::I8 => vec![x as i64 as i8 as u8],
        Dtype::U16 | Dtype::I16 => (x as i64 as u16).to_le_bytes().into(),
        Dtype::U32 | Dtype::I32 => (x as i64 as u32).to_le_bytes().into(),
        Dtype::U64 | Dtype::I64 => (x as i64).to_le_bytes().into(),
        Dtype::F16 => f16::from_f64(x).to_le_bytes().into(),
        Dtype::BF16 => bf16::from_f64(x).to_le_bytes().into(),
        Dtype::F32 => (x as f32).to_le_bytes().into(),
        Dtype::F64 => x.to_le_bytes().into(),
        Dtype::C64 => [(x as f32).to_le_bytes(), ((x * 1.7 + 0.3).sin() as f32 * 3.0).to_le_bytes()].concat(),
    }
}

impl Input {
    /// A contiguous operand of these values.
    pub fn of(shape: &[usize], dtype: Dtype, values: impl IntoIterator<Item = f64>) -> Input {
        let bytes: Vec<u8> = values.into_iter().flat_map(|x| element(x, dtype)).collect();
        let layout = Layout::contiguous(shape.into());
        assert_eq!(bytes.len(), layout.elems() * dtype.size());
        Input { bytes, layout, dtype }
    }

    /// Random values in lo .. hi under one of the layouts of [`LAYOUTS`].
    pub fn random(r: &mut Lcg, shape: &[usize], dtype: Dtype, (lo, hi): (f64, f64), layout: &str) -> Input {
        let n = shape.len();
        let mut stored: Vec<usize> = shape.to_vec();
        let steps: Vec<isize>;
        match layout {
            "transposed" => stored.reverse(),
            "broadcast" if n > 0 => stored[0] = 1,
            "sliced" | "reversed" => stored.iter_mut().for_each(|d| *d = *d * 2 + 1),
            _ => {}
        }
        let full = Layout::contiguous(stored.as_slice().into());
        let out = match layout {
            "transposed" => full.transpose(&(0..n).rev().collect::<Vec<_>>()),
            "broadcast" => full.broadcast_to(&shape.into()),
            "sliced" => {
                steps = vec![2; n];
                full.slice(&vec![1; n], &steps, shape)
            }
            "reversed" => {
                steps = vec![-2; n];
                full.slice(&stored.iter().map(|d| d - 1).collect::<Vec<_>>(), &steps, shape)
            }
            _ => full,
        };
        let count = stored.iter().product::<usize>();
        let bytes = (0..count).flat_map(|_| element(r.float(lo, hi), dtype)).collect();
        Input { bytes, layout: out, dtype }
    }

    pub fn aval(&self) -> Aval {
        Aval::new(self.layout.shape.clone(), self.dtype)
    }
}

pub const LAYOUTS: [&str; 5] = ["contiguous", "transposed", "broadcast", "sliced", "reversed"];

fn on(
    b: &dyn Backend,
    op: &Op,
    ins: &[Input],
    cells: &[Number],
    outs: &[Aval],
    shared: bool,
) -> Result<Vec<Vec<u8>>> {
    let avals: Vec<Aval> = ins.iter().map(Input::aval).collect();
    let kernel = b.kernel(Spec { op, ins: &avals, outs })?;
    let mut values = Vec::new();
    for i in ins {
        values.push(Value { buffer: b.upload(&i.bytes)?, layout: i.layout.clone() });
    }
    let held: Vec<_> = if shared { values.iter().map(|v| v.buffer.clone()).collect() } else { Vec::new() };
    let mut made = Vec::new();
    let mut given: Vec<_> = values.into_iter().map(Into::into).collect();
    kernel.run(&mut given, cells, &mut made)?;
    drop(given);
    if shared {
        for (buffer, i) in held.into_iter().zip(ins) {
            let whole = Layout::contiguous([i.bytes.len()].into());
            let now = read(b, &Value { buffer, layout: whole }, Dtype::U8)?;
            assert!(now == i.bytes, "{} wrote into an input that others hold", op.name());
        }
    }
    assert_eq!(made.len(), outs.len(), "{}", op.name());
    made.iter()
        .zip(outs)
        .map(|(v, a)| {
            assert_eq!(v.layout.shape, a.shape, "{}", op.name());
            read(b, v, a.dtype)
        })
        .collect()
}

/// The bytes of a value's elements in row-major order.
pub fn read(b: &dyn Backend, v: &Value, dtype: Dtype) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    b.lend(v, dtype, &mut |bytes| out.extend_from_slice(bytes))?;
    Ok(out)
}

/// The elements as pairs of floats (the second for complex numbers), exact for up to 53 bits.
pub fn floats(bytes: &[u8], d: Dtype) -> Vec<[f64; 2]> {
    use half::{bf16, f16};
    bytes
        .chunks_exact(d.size())
        .map(|b| {
            let w = |n: usize| u64::from_le_bytes(std::array::from_fn(|i| if i < n { b[i] } else { 0 }));
            let one = match d {
                Dtype::Bool | Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => w(d.size()) as f64,
                Dtype::I8 => b[0] as i8 as f64,
                Dtype::I16 => w(2) as i16 as f64,
                Dtype::I32 => w(4) as i32 as f64,
                Dtype::I64 => w(8) as i64 as f64,
                Dtype::F16 => f16::from_bits(w(2) as u16).to_f64(),
                Dtype::BF16 => bf16::from_bits(w(2) as u16).to_f64(),
                Dtype::F32 => f32::from_bits(w(4) as u32) as f64,
                Dtype::F64 => f64::from_bits(w(8)),
                Dtype::C64 => {
                    let im = f32::from_bits((w(8) >> 32) as u32) as f64;
                    return [f32::from_bits(w(8) as u32) as f64, im];
                }
            };
            [one, 0.0]
        })
        .collect()
}

/// Relative size of the last place.
pub fn epsilon(d: Dtype) -> f64 {
    match d {
        Dtype::F16 => (-10f64).exp2(),
        Dtype::BF16 => (-7f64).exp2(),
        Dtype::F64 => f64::EPSILON,
        _ => f32::EPSILON as f64,
    }
}

fn tiny(d: Dtype) -> f64 {
    match d {
        Dtype::F16 => (-24f64).exp2(),
        Dtype::F64 => f64::MIN_POSITIVE,
        Dtype::BF16 => (-133f64).exp2(),
        _ => f32::MIN_POSITIVE as f64,
    }
}

/// How far a result may be from the reference's: `ulp` last places of its size or of `scale`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    pub ulp: f64,
    pub scale: f64,
}

pub const EXACT: Tolerance = Tolerance { ulp: 0.0, scale: 0.0 };

pub fn within(ulp: f64, scale: f64) -> Tolerance {
    Tolerance { ulp, scale }
}

pub fn compare(name: &str, got: &[u8], want: &[u8], d: Dtype, t: Tolerance) {
    if got == want {
        return;
    }
    for (i, (g, w)) in floats(got, d).into_iter().zip(floats(want, d)).enumerate() {
        let size = w[0].abs().max(w[1].abs()).max(t.scale);
        for k in 0..2 {
            let same = g[k] == w[k] || (g[k].is_nan() && w[k].is_nan());
            let slack = if d.is_inexact() { t.ulp * (size * epsilon(d) + tiny(d)) } else { 0.0 };
            assert!(
                same || (g[k] - w[k]).abs() <= slack,
                "{name}: element {i} is {:e}, should be {:e} (off by {:e}, allowed {slack:e})",
                g[k],
                w[k],
                (g[k] - w[k]).abs()
            );
        }
    }
}

static THREADS: Mutex<()> = Mutex::new(());

/// Runs a step on both and compares; inputs shared and unique, with 1 and 2 threads, on each ISA.
pub fn check(name: &str, op: &Op, ins: &[Input], cells: &[Number], outs: &[Aval], t: Tolerance) {
    check_by(name, op, ins, cells, outs, |got, want, d| compare(name, got, want, d, t));
}

/// What a step's one result is on the CPU.
pub fn on_cpu(op: &Op, ins: &[Input], cells: &[Number], outs: &[Aval]) -> Vec<u8> {
    let one = THREADS.lock().unwrap_or_else(|e| e.into_inner());
    let mut made =
        on(&CpuBackend, op, ins, cells, outs, false).unwrap_or_else(|e| panic!("{}: {e}", op.name()));
    drop(one);
    made.remove(0)
}

/// The sizes of an operand's elements, as float64 in the same layout.
pub fn sizes(x: &Input) -> Input {
    let sizes = floats(&x.bytes, x.dtype).into_iter().map(|[re, im]| re.hypot(im));
    let bytes = sizes.flat_map(|v| v.to_le_bytes()).collect();
    Input { bytes, layout: x.layout.clone(), dtype: Dtype::F64 }
}

/// Products of float64 operands by the reference, as floats.
pub fn exact_product(a: &Input, b: &Input, out: &[usize]) -> Vec<f64> {
    let out = Aval::new(out, Dtype::F64);
    let reference = isopace_core::reference::backend();
    let made = on(&*reference, &Op::Matmul, &[a.clone(), b.clone()], &[], &[out], false);
    floats(&made.expect("the reference multiplies")[0], Dtype::F64).iter().map(|v| v[0]).collect()
}

/// Checks a step whose results are sums of `n` products, `sums[i]` = Σ |a||b| for result i.
///
/// Added in any order, with or without fused multiply–adds, each product passes through at most n
/// roundings, so the sum is off by at most γ(n) Σ |a||b| with γ(n) = n u / (1 − n u) and u the unit
/// roundoff of what is added in: 2⁻⁵³ for float64 and for the reference, else 2⁻²⁴ (N. Higham,
/// Accuracy and Stability of Numerical Algorithms, section 3.1). Then both sides round to the dtype:
/// one last place of the result.
pub fn check_sums(
    name: &str,
    op: &Op,
    ins: &[Input],
    cells: &[Number],
    outs: &[Aval],
    n: usize,
    sums: &[f64],
) {
    let gamma = |u: f64| n as f64 * u / (1.0 - n as f64 * u);
    check_by(name, op, ins, cells, outs, |got, want, d| {
        let u = if d == Dtype::F64 { (-53f64).exp2() } else { (-24f64).exp2() };
        let (got, want) = (floats(got, d), floats(want, d));
        assert_eq!(want.len(), sums.len(), "{name}");
        for (i, ((g, w), sum)) in got.into_iter().zip(want).zip(sums).enumerate() {
            let off = (gamma(u) + gamma((-53f64).exp2())) * sum;
            for k in 0..2 {
                let allowed = off + (w[k].abs() + off) * epsilon(d) + tiny(d);
                assert!(
                    (g[k] - w[k]).abs() <= allowed,
                    "{name}: element {i} is {:e}, should be {:e} (off by {:e}, allowed {allowed:e})",
                    g[k],
                    w[k],
                    (g[k] - w[k]).abs()
                );
            }
        }
    });
}

/// Runs a step on both and compares by `compare(got, want, dtype)`.
fn check_by(
    name: &str,
    op: &Op,
    ins: &[Input],
    cells: &[Number],
    outs: &[Aval],
    compare: impl Fn(&[u8], &[u8], Dtype),
) {
    static REFERENCE: OnceLock<Arc<dyn Backend>> = OnceLock::new();
    let reference = REFERENCE.get_or_init(isopace_core::reference::backend);
    let want = on(&**reference, op, ins, cells, outs, false);
    let one = THREADS.lock().unwrap_or_else(|e| e.into_inner());
    for isa in Isa::ALL {
        let results = isopace_cpu::isa::with(isa, || {
            [(1, true), (2, true), (2, false)].map(|(threads, shared)| {
                isopace_cpu::pool::set_threads(threads);
                on(&CpuBackend, op, ins, cells, outs, shared)
            })
        });
        if let Some(results) = results {
            agree(&format!("{name} {}", isa.name()), &want, &results, outs, &compare);
        }
    }
    isopace_cpu::pool::set_threads(0);
    drop(one);
}

/// Holds every result against the reference's, and against the first one bit for bit.
fn agree(
    name: &str,
    want: &Result<Vec<Vec<u8>>>,
    results: &[Result<Vec<Vec<u8>>>],
    outs: &[Aval],
    compare: impl Fn(&[u8], &[u8], Dtype),
) {
    let kind = |e: &Error| std::mem::discriminant(e);
    match want {
        Ok(want) => {
            for got in results {
                let got = got.as_ref().unwrap_or_else(|e| panic!("{name}: {e}"));
                for ((g, w), a) in got.iter().zip(want).zip(outs) {
                    compare(g, w, a.dtype);
                }
                assert!(got == results[0].as_ref().unwrap(), "{name}: threads or donation change bits");
            }
        }
        Err(e) => {
            for got in results {
                let g = got.as_ref().err().unwrap_or_else(|| panic!("{name}: no error"));
                assert!(kind(g) == kind(e), "{name}: {g}, should be {e}");
            }
        }
    }
}

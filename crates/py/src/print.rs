//! Arrays as text, by MLX's rules.

use crate::errors::OrRaise;
use crate::eval;
use isopace_core::{Array, Complex, Dtype};
use pyo3::prelude::*;
use std::fmt::Write;
use std::sync::atomic::{AtomicI32, Ordering};

/// Decimals of floats in fixed notation; -1 for six significant digits.
static PRECISION: AtomicI32 = AtomicI32::new(-1);

/// An axis longer than this shows its first and last three elements.
const EDGE: usize = 3;

/// A float as C's `%g` writes it: six significant digits.
fn general(x: f64, out: &mut String) {
    if x.is_nan() {
        // The sign of a NaN says where it was made, not what it is.
        out.push_str("nan");
        return;
    }
    if x.is_infinite() {
        out.push_str(if x > 0.0 { "inf" } else { "-inf" });
        return;
    }
    if x == 0.0 {
        out.push_str(if x.is_sign_negative() { "-0" } else { "0" });
        return;
    }
    let sci = format!("{x:.5e}");
    let (mantissa, exp) = sci.split_once('e').unwrap_or((&sci, "0"));
    let exp: i32 = exp.parse().unwrap_or(0);
    let trim = |s: &str| match s.contains('.') {
        true => s.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => s.to_string(),
    };
    if (-4..6).contains(&exp) {
        let fixed = format!("{x:.*}", (5 - exp).max(0) as usize);
        out.push_str(&trim(&fixed));
    } else {
        let sign = if exp < 0 { '-' } else { '+' };
        let _ = write!(out, "{}e{sign}{:02}", trim(mantissa), exp.abs());
    }
}

fn float(x: f64, out: &mut String) {
    let p = PRECISION.load(Ordering::Relaxed);
    if p < 0 || !x.is_finite() {
        return general(x, out);
    }
    let _ = write!(out, "{x:.*}", p as usize);
}

/// The element that stands in these bytes.
pub(crate) fn element(b: &[u8], d: Dtype, out: &mut String) {
    fn word<const N: usize>(b: &[u8]) -> [u8; N] {
        let mut w = [0; N];
        w.copy_from_slice(&b[..N]);
        w
    }
    let _ = match d {
        Dtype::Bool => write!(out, "{}", if b[0] != 0 { "True" } else { "False" }),
        Dtype::U8 => write!(out, "{}", b[0]),
        Dtype::U16 => write!(out, "{}", u16::from_le_bytes(word(b))),
        Dtype::U32 => write!(out, "{}", u32::from_le_bytes(word(b))),
        Dtype::U64 => write!(out, "{}", u64::from_le_bytes(word(b))),
        Dtype::I8 => write!(out, "{}", b[0] as i8),
        Dtype::I16 => write!(out, "{}", i16::from_le_bytes(word(b))),
        Dtype::I32 => write!(out, "{}", i32::from_le_bytes(word(b))),
        Dtype::I64 => write!(out, "{}", i64::from_le_bytes(word(b))),
        Dtype::F16 => {
            float(half::f16::from_le_bytes(word(b)).to_f64(), out);
            Ok(())
        }
        Dtype::BF16 => {
            float(half::bf16::from_le_bytes(word(b)).to_f64(), out);
            Ok(())
        }
        Dtype::F32 => {
            float(f32::from_le_bytes(word(b)) as f64, out);
            Ok(())
        }
        Dtype::F64 => {
            float(f64::from_le_bytes(word(b)), out);
            Ok(())
        }
        Dtype::C64 => {
            let c: Complex = bytemuck::pod_read_unaligned(&b[..8]);
            float(c.re as f64, out);
            if c.im.is_nan() || c.im.is_sign_positive() {
                out.push('+');
            }
            float(c.im as f64, out);
            out.push('j');
            Ok(())
        }
    };
}

struct Printer<'a> {
    bytes: &'a [u8],
    dtype: Dtype,
    shape: &'a [usize],
    out: String,
}

impl Printer<'_> {
    fn rows(&mut self, depth: usize, at: usize) {
        if depth == self.shape.len() {
            let size = self.dtype.size();
            return element(&self.bytes[at * size..], self.dtype, &mut self.out);
        }
        let n = self.shape[depth];
        let step: usize = self.shape[depth + 1..].iter().product();
        let last = depth + 1 == self.shape.len();
        self.out.push('[');
        let mut i = 0;
        while i < n {
            if i > 0 {
                self.out.push(',');
                if last {
                    self.out.push(' ');
                } else {
                    self.out.push('\n');
                    (0..7 + depth).for_each(|_| self.out.push(' '));
                }
            }
            if n > 2 * EDGE && i == EDGE {
                self.out.push_str("...");
                i = n - EDGE;
                continue;
            }
            self.rows(depth + 1, at + i * step);
            i += 1;
        }
        self.out.push(']');
    }
}

/// `array([1, 2], dtype=int32)`.
pub(crate) fn repr(py: Python<'_>, a: &Array) -> PyResult<String> {
    let bytes = eval::bytes(py, a)?;
    let shape: Vec<usize> = a.shape().to_vec();
    let mut p = Printer { bytes: &bytes, dtype: a.dtype(), shape: &shape, out: String::from("array(") };
    p.rows(0, 0);
    let _ = write!(p.out, ", dtype={})", a.dtype());
    Ok(p.out)
}

#[pyfunction]
#[pyo3(signature = (precision = -1))]
fn _set_precision(precision: i32) -> PyResult<i32> {
    if !(-1..=u16::MAX as i32).contains(&precision) {
        return Err(crate::errors::value_error(format!(
            "[printoptions] precision {precision}; accepted: -1 to {}",
            u16::MAX
        )));
    }
    Ok(PRECISION.swap(precision, Ordering::Relaxed))
}

#[pyfunction]
fn _precision() -> i32 {
    PRECISION.load(Ordering::Relaxed)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_set_precision, m)?)?;
    m.add_function(wrap_pyfunction!(_precision, m)?)?;
    Ok(())
}

/// The elements as nested Python lists; a number for a 0-d array.
pub(crate) fn tolist(py: Python<'_>, a: &Array) -> PyResult<Py<PyAny>> {
    let bytes = eval::bytes(py, a)?;
    let shape: Vec<usize> = a.shape().to_vec();
    level(py, &bytes, a.dtype(), &shape)
}

fn level(py: Python<'_>, bytes: &[u8], d: Dtype, shape: &[usize]) -> PyResult<Py<PyAny>> {
    let Some((&n, rest)) = shape.split_first() else { return number(py, bytes, d) };
    let step = rest.iter().product::<usize>() * d.size();
    let items = (0..n).map(|i| level(py, &bytes[i * step..], d, rest)).collect::<PyResult<Vec<_>>>()?;
    Ok(pyo3::types::PyList::new(py, items)?.into_any().unbind())
}

/// The element at the front of these bytes as a Python number.
pub(crate) fn number(py: Python<'_>, b: &[u8], d: Dtype) -> PyResult<Py<PyAny>> {
    fn word<const N: usize>(b: &[u8]) -> [u8; N] {
        let mut w = [0; N];
        w.copy_from_slice(&b[..N]);
        w
    }
    let int = |i: i64| -> PyResult<Py<PyAny>> { Ok(i.into_pyobject(py)?.into_any().unbind()) };
    let float = |f: f64| Ok(pyo3::types::PyFloat::new(py, f).into_any().unbind());
    match d {
        Dtype::Bool => Ok(pyo3::types::PyBool::new(py, b[0] != 0).to_owned().into_any().unbind()),
        Dtype::U8 => int(b[0] as i64),
        Dtype::U16 => int(u16::from_le_bytes(word(b)) as i64),
        Dtype::U32 => int(u32::from_le_bytes(word(b)) as i64),
        Dtype::U64 => Ok(u64::from_le_bytes(word(b)).into_pyobject(py)?.into_any().unbind()),
        Dtype::I8 => int(b[0] as i8 as i64),
        Dtype::I16 => int(i16::from_le_bytes(word(b)) as i64),
        Dtype::I32 => int(i32::from_le_bytes(word(b)) as i64),
        Dtype::I64 => int(i64::from_le_bytes(word(b))),
        Dtype::F16 => float(half::f16::from_le_bytes(word(b)).to_f64()),
        Dtype::BF16 => float(half::bf16::from_le_bytes(word(b)).to_f64()),
        Dtype::F32 => float(f32::from_le_bytes(word(b)) as f64),
        Dtype::F64 => float(f64::from_le_bytes(word(b))),
        Dtype::C64 => {
            let c: Complex = bytemuck::pod_read_unaligned(&b[..8]);
            Ok(pyo3::types::PyComplex::from_doubles(py, c.re as f64, c.im as f64).into_any().unbind())
        }
    }
}

/// The one element as a Python number.
pub(crate) fn item(py: Python<'_>, a: &Array) -> PyResult<Py<PyAny>> {
    if a.size() != 1 {
        return Err(crate::errors::value_error(format!(
            "[item] shape {:?} has {} elements; accepted: one",
            a.shape(),
            a.size()
        )));
    }
    if !a.is_ready() {
        eval::eval(py, std::slice::from_ref(a))?;
    }
    number(py, &a.to_bytes().or_raise()?, a.dtype())
}

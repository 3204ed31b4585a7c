//! Elementwise functions.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Int, Opd};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::OrRaise;
use crate::raw;
use isopace_core::api::{self, Operand};
use isopace_core::op::Row;
use isopace_core::{Array, Cmp, Number, Result, Scalar};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList, PyTuple};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

/// `a row b`, or `b row a` when swapped.
#[inline]
pub(crate) fn binary(row: Row, a: Operand, b: Operand, swap: bool) -> Result<Array> {
    if swap { api::elementwise(row, &[b, a]) } else { api::elementwise(row, &[a, b]) }
}

/// A comparison, in which an integer that the array's dtype cannot hold is compared by its value.
pub(crate) fn compare(row: Row, a: Operand, b: Operand) -> Result<Array> {
    if let (Operand::Array(x), Operand::Scalar(s)) = (&a, &b) {
        if let Some(answer) = beyond(row, x, s)? {
            return api::full(x.shape(), answer, None);
        }
    } else if let (Operand::Scalar(s), Operand::Array(x)) = (&a, &b) {
        let mirrored = match row {
            Row::Lt => Row::Gt,
            Row::Le => Row::Ge,
            Row::Gt => Row::Lt,
            Row::Ge => Row::Le,
            row => row,
        };
        if let Some(answer) = beyond(mirrored, x, s)? {
            return api::full(x.shape(), answer, None);
        }
    }
    api::elementwise(row, &[a, b])
}

fn beyond(row: Row, x: &Array, s: &Scalar) -> Result<Option<bool>> {
    let (Some((lo, hi)), Some(n @ Number::Int(i))) = (x.dtype().int_range(), s.number()?) else {
        return Ok(None);
    };
    if x.dtype() == isopace_core::Dtype::Bool || (lo..=hi).contains(&(i as i128)) {
        return Ok(None);
    }
    let cmp = match row {
        Row::Eq => Cmp::Eq,
        Row::Ne => Cmp::Ne,
        Row::Lt => Cmp::Lt,
        Row::Le => Cmp::Le,
        Row::Gt => Cmp::Gt,
        _ => Cmp::Ge,
    };
    // Every element is on the same side of it.
    Ok(Some(Number::Int(lo.max(i64::MIN as i128) as i64).compare(cmp, n)))
}

/// The other side of `==`: an operand, or `None` for what is never equal.
pub(crate) fn comparable(obj: &Bound<'_, PyAny>) -> PyResult<Option<Operand>> {
    if obj.is_exact_instance_of::<PyInt>() && raw::int_value(obj)?.is_none() {
        return Ok(Some(Operand::Scalar(obj.extract::<f64>().unwrap_or(f64::INFINITY).into())));
    }
    if let Some(s) = convert::scalar(obj)? {
        return Ok(Some(Operand::Scalar(s)));
    }
    if obj.is_none() || obj.is_instance_of::<PyList>() || obj.is_instance_of::<PyTuple>() {
        return Ok(None);
    }
    if obj.hasattr("__array_interface__")? || obj.hasattr("__mlx_array__")? {
        return convert::operand(obj, "equal").map(Some);
    }
    Ok(None)
}

macro_rules! unary {
    ($($f:ident $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (a, /, *, stream = None))]
            fn $f(a: Opd, stream: Stream) -> Result1 {
                let _ = stream;
                wrap(a.array()?.$f())
            }
        )*
        fn register_unary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(m: $($f)*);
            Ok(())
        }
    };
}
unary! {
    abs "Absolute value.";
    arccos "Inverse cosine.";
    arccosh "Inverse hyperbolic cosine.";
    arcsin "Inverse sine.";
    arcsinh "Inverse hyperbolic sine.";
    arctan "Inverse tangent.";
    arctanh "Inverse hyperbolic tangent.";
    ceil "Smallest integer not below x.";
    cos "Cosine of radians.";
    cosh "Hyperbolic cosine.";
    degrees "Radians as degrees.";
    erf "Error function.";
    erfinv "Inverse error function.";
    exp "Exponential.";
    expm1 "exp(x) - 1, exact near 0.";
    floor "Largest integer not above x.";
    imag "Imaginary part.";
    isfinite "True where x is neither infinite nor NaN.";
    isinf "True where x is infinite.";
    isnan "True where x is NaN.";
    isneginf "True where x is negative infinity.";
    isposinf "True where x is positive infinity.";
    log "Natural logarithm.";
    log10 "Logarithm to base 10.";
    log1p "log(1 + x), exact near 0.";
    log2 "Logarithm to base 2.";
    logical_not "True where x is zero.";
    negative "Negation.";
    radians "Degrees as radians.";
    real "Real part.";
    reciprocal "1 over x.";
    rsqrt "1 over the square root.";
    sigmoid "1 / (1 + exp(-x)).";
    sign "Sign: -1, 0 or 1; z / |z| for complex numbers.";
    sin "Sine of radians.";
    sinh "Hyperbolic sine.";
    sqrt "Square root.";
    square "x times x.";
    tan "Tangent of radians.";
    tanh "Hyperbolic tangent.";
    trunc "The integer part.";
    conjugate "Complex conjugate.";
    bitwise_invert "Every bit inverted; logical for bool.";
}

macro_rules! binary {
    ($($f:ident $how:ident $Row:ident $doc:literal;)*) => {
        $(
            #[doc = $doc]
            #[pyfunction]
            #[pyo3(signature = (a, b, stream = None))]
            fn $f(a: Opd, b: Opd, stream: Stream) -> Result1 {
                let _ = stream;
                wrap($how(Row::$Row, a.0, b.0))
            }
        )*
        fn register_binary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(m: $($f)*);
            Ok(())
        }
    };
}

#[inline]
fn plain(row: Row, a: Operand, b: Operand) -> Result<Array> {
    if let (Operand::Array(a), Operand::Array(b)) = (&a, &b) {
        return api::binary(row, a.clone(), b.clone());
    }
    api::elementwise(row, &[a, b])
}

binary! {
    add plain Add "Sum.";
    arctan2 plain Arctan2 "Angle of the point (b, a) in radians.";
    bitwise_and plain BitAnd "Bits set in both.";
    bitwise_or plain BitOr "Bits set in either.";
    bitwise_xor plain BitXor "Bits set in one of the two.";
    divide plain Div "True quotient.";
    equal compare Eq "True where equal.";
    floor_divide plain FloorDiv "Quotient rounded down; 0 for an integer divided by 0.";
    greater compare Gt "True where a is above b.";
    greater_equal compare Ge "True where a is not below b.";
    left_shift plain Shl "Bits shifted up.";
    less compare Lt "True where a is below b.";
    less_equal compare Le "True where a is not above b.";
    logaddexp plain LogAddExp "log(exp(a) + exp(b)) without overflow.";
    logical_and plain LogicalAnd "True where both are not zero.";
    logical_or plain LogicalOr "True where either is not zero.";
    maximum plain Max "The larger; NaN from either side wins.";
    minimum plain Min "The smaller; NaN from either side wins.";
    multiply plain Mul "Product.";
    not_equal compare Ne "True where different.";
    power plain Pow "a to the b; integers stay integers.";
    remainder plain Rem "Remainder with the divisor's sign.";
    right_shift plain Shr "Bits shifted down, keeping the sign.";
    subtract plain Sub "Difference.";
}

/// True where exactly one of both is not zero.
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream = None))]
fn logical_xor(a: Opd, b: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.logical_xor(b.0))
}

/// Quotient rounded down and remainder.
#[pyfunction]
#[pyo3(signature = (a, b, stream = None))]
fn divmod(a: Opd, b: Opd, stream: Stream) -> PyResult<Vec<PyArray>> {
    let _ = stream;
    let q = api::elementwise(Row::FloorDiv, &[a.0.clone(), b.0.clone()]).or_raise()?;
    let r = api::elementwise(Row::Rem, &[a.0, b.0]).or_raise()?;
    Ok(vec![q.into(), r.into()])
}

/// x itself.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream = None))]
fn positive(a: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    Ok(a.array()?.into())
}

/// Elements of x where the condition is true, else of y.
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x, y, /, *, stream = None))]
fn where_(condition: Opd, x: Opd, y: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::elementwise(Row::Select, &[condition.0, x.0, y.0]))
}

/// Elements limited to a range; either bound may be None.
#[pyfunction]
#[pyo3(signature = (a, /, a_min, a_max, *, stream = None))]
fn clip(a: Opd, a_min: Option<Opd>, a_max: Option<Opd>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.clip(a_min.map(|x| x.0), a_max.map(|x| x.0)))
}

/// NaN and infinities replaced by numbers.
#[pyfunction]
#[pyo3(signature = (a, nan = 0.0, posinf = None, neginf = None, *, stream = None))]
fn nan_to_num(a: Opd, nan: f64, posinf: Option<f64>, neginf: Option<f64>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.nan_to_num(nan, posinf, neginf))
}

/// True where |a - b| <= atol + rtol * |b|.
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol = 1e-5, atol = 1e-8, *, equal_nan = false, stream = None))]
fn isclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.isclose(&b.0, rtol, atol, equal_nan))
}

/// True when all elements are close.
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol = 1e-5, atol = 1e-8, *, equal_nan = false, stream = None))]
fn allclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.allclose(&b.0, rtol, atol, equal_nan))
}

/// True when shapes and all elements are equal.
#[pyfunction]
#[pyo3(signature = (a, b, equal_nan = false, stream = None))]
fn array_equal(a: Opd, b: Opd, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.array_equal(b.array()?, equal_nan))
}

/// Rounds to a number of decimals, halves to even.
#[pyfunction]
#[pyo3(signature = (a, /, decimals = Int(0), stream = None))]
fn round(a: Opd, decimals: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.round_to(decimals.0))
}

/// The array converted to a dtype.
#[pyfunction]
#[pyo3(signature = (a, dtype, /, *, stream = None))]
fn astype(a: Arr, dtype: DtypeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.astype(dtype.0))
}

/// The array; gradients do not pass.
#[pyfunction]
#[pyo3(signature = (a, /, *, stream = None))]
fn stop_gradient(a: Arr, stream: Stream) -> PyArray {
    let _ = stream;
    a.0.stop_gradient().into()
}

/// Fp8 (E4M3) codes of the numbers.
#[pyfunction]
#[pyo3(signature = (x, *, stream = None))]
fn to_fp8(x: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(x.0.to_fp8())
}

/// Numbers of fp8 (E4M3) codes.
#[pyfunction]
#[pyo3(signature = (x, dtype = DtypeArg(isopace_core::Dtype::BF16), *, stream = None))]
fn from_fp8(x: Arr, dtype: DtypeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(x.0.from_fp8(dtype.0))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    register_unary(m)?;
    register_binary(m)?;
    add!(m: logical_xor divmod positive where_ clip nan_to_num isclose allclose array_equal round astype);
    add!(m: stop_gradient to_fp8 from_fp8);
    Ok(())
}

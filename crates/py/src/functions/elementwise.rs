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
use isopace_core::{Array, Cmp, Dtype, Error, Number, Result, Scalar};
use pyo3::exceptions::PyRuntimeError;
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
    // Bool meets an int as int32.
    let dtype = if x.dtype() == Dtype::Bool { Dtype::I32 } else { x.dtype() };
    let (Some((lo, hi)), Some(n @ Number::Int(i))) = (dtype.int_range(), s.number()?) else {
        return Ok(None);
    };
    if (lo..=hi).contains(&(i as i128)) {
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

/// What the docstrings say of the result's dtype.
macro_rules! dtype {
    (float) => {
        "Shape: a's. Dtype: float32 for integers and bool, else a's."
    };
    (kept) => {
        "Shape and dtype: a's."
    };
    (numbers) => {
        "Shape and dtype: a's. Raises ValueError for bool."
    };
    (bits) => {
        "Shape and dtype: a's. Raises ValueError for floating dtypes."
    };
    (real) => {
        "Shape: a's. Dtype: float32 for complex64, else a's."
    };
    (bool) => {
        "Shape: a's. Dtype: bool."
    };
    (common) => {
        "Shapes broadcast. Dtype: the common one; a Python number takes the array's."
    };
    (quotient) => {
        "Shapes broadcast. Dtype: the common one, float32 for integers and bool."
    };
    (common_bits) => {
        "Shapes broadcast. Dtype: the common one. Raises RuntimeError for floating dtypes."
    };
    (compared) => {
        "Shapes broadcast. Dtype: bool. An int that the array's dtype cannot hold is compared by its value."
    };
    (truth) => {
        "Shapes broadcast. Dtype: bool."
    };
}

macro_rules! unary {
    ($($f:ident $doc:literal $dtype:ident $example:literal $result:literal;)*) => {
        $(
            #[doc = concat!(
                $doc, "\n\n", dtype!($dtype), "\n\n>>> mx.", stringify!($f), "(mx.array(", $example, "))\n", $result
            )]
            #[pyfunction]
            #[pyo3(signature = (a, stream = None))]
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
    abs "Absolute value." real "[-1.5, 2]" "array([1.5, 2], dtype=float32)";
    arccos "Inverse cosine." float "[1, 0]" "array([0, 1.5708], dtype=float32)";
    arccosh "Inverse hyperbolic cosine." float "[1, 2]" "array([0, 1.31696], dtype=float32)";
    arcsin "Inverse sine." float "[0, 1]" "array([0, 1.5708], dtype=float32)";
    arcsinh "Inverse hyperbolic sine." float "[0, 1]" "array([0, 0.881374], dtype=float32)";
    arctan "Inverse tangent." float "[0, 1]" "array([0, 0.785398], dtype=float32)";
    arctanh "Inverse hyperbolic tangent." float "[0, 0.5]" "array([0, 0.549306], dtype=float32)";
    ceil "Smallest integer not below x." kept "[1.2, -1.2]" "array([2, -1], dtype=float32)";
    cos "Cosine of radians." float "[0, 1]" "array([1, 0.540302], dtype=float32)";
    cosh "Hyperbolic cosine." float "[0, 1]" "array([1, 1.54308], dtype=float32)";
    degrees "Radians as degrees." float "[0, 1]" "array([0, 57.2958], dtype=float32)";
    erf "Error function." float "[0, 1]" "array([0, 0.842701], dtype=float32)";
    erfinv "Inverse error function." float "[0, 0.5]" "array([0, 0.476936], dtype=float32)";
    exp "Exponential." float "[0, 1]" "array([1, 2.71828], dtype=float32)";
    expm1 "exp(x) - 1, exact near 0." float "[0, 1e-6]" "array([0, 1e-06], dtype=float32)";
    floor "Largest integer not above x." kept "[1.2, -1.2]" "array([1, -2], dtype=float32)";
    imag "Imaginary part." real "[1 + 2j, 3]" "array([2, 0], dtype=float32)";
    isfinite "True where x is neither infinite nor NaN." bool "[1, mx.inf, mx.nan]" "array([True, False, False], dtype=bool)";
    isinf "True where x is infinite." bool "[1, mx.inf, mx.nan]" "array([False, True, False], dtype=bool)";
    isnan "True where x is NaN." bool "[1, mx.inf, mx.nan]" "array([False, False, True], dtype=bool)";
    isneginf "True where x is negative infinity." bool "[mx.inf, -mx.inf]" "array([False, True], dtype=bool)";
    isposinf "True where x is positive infinity." bool "[mx.inf, -mx.inf]" "array([True, False], dtype=bool)";
    log "Natural logarithm." float "[1, 2]" "array([0, 0.693147], dtype=float32)";
    log10 "Logarithm to base 10." float "[1, 1000]" "array([0, 3], dtype=float32)";
    log1p "log(1 + x), exact near 0." float "[0, 1e-6]" "array([0, 1e-06], dtype=float32)";
    log2 "Logarithm to base 2." float "[1, 8]" "array([0, 3], dtype=float32)";
    logical_not "True where x is zero." bool "[0, 2]" "array([True, False], dtype=bool)";
    negative "Negation." numbers "[1, -2]" "array([-1, 2], dtype=int32)";
    radians "Degrees as radians." float "[0, 180]" "array([0, 3.14159], dtype=float32)";
    real "Real part." real "[1 + 2j, 3]" "array([1, 3], dtype=float32)";
    reciprocal "1 over x." float "[2, 4]" "array([0.5, 0.25], dtype=float32)";
    rsqrt "1 over the square root." float "[4, 16]" "array([0.5, 0.25], dtype=float32)";
    sigmoid "1 / (1 + exp(-x))." float "[0, 1]" "array([0.5, 0.731059], dtype=float32)";
    sign "Sign: -1, 0 or 1; z / |z| for complex numbers." kept "[-3, 0, 3]" "array([-1, 0, 1], dtype=int32)";
    sin "Sine of radians." float "[0, 1]" "array([0, 0.841471], dtype=float32)";
    sinh "Hyperbolic sine." float "[0, 1]" "array([0, 1.1752], dtype=float32)";
    sqrt "Square root." float "[4, 2]" "array([2, 1.41421], dtype=float32)";
    square "x times x." kept "[3, -4]" "array([9, 16], dtype=int32)";
    tan "Tangent of radians." float "[0, 1]" "array([0, 1.55741], dtype=float32)";
    tanh "Hyperbolic tangent." float "[0, 1]" "array([0, 0.761594], dtype=float32)";
    trunc "The integer part." kept "[1.7, -1.7]" "array([1, -1], dtype=float32)";
    conjugate "Complex conjugate." kept "[1 + 2j, 3]" "array([1-2j, 3-0j], dtype=complex64)";
    bitwise_invert "Every bit inverted; logical for bool." bits "[0, 5]" "array([-1, -6], dtype=int32)";
}

macro_rules! binary {
    ($($f:ident $how:ident $Row:ident $doc:literal $dtype:ident $example:literal $result:literal;)*) => {
        $(
            #[doc = concat!(
                $doc, "\n\n", dtype!($dtype), "\n\n>>> mx.", stringify!($f), "(", $example, ")\n", $result
            )]
            #[pyfunction]
            #[pyo3(signature = (a, b, stream = None))]
            fn $f(a: Opd, b: Opd, stream: Stream) -> Result1 {
                let _ = stream;
                $how(Row::$Row, a.0, b.0)
            }
        )*
        fn register_binary(m: &Bound<'_, PyModule>) -> PyResult<()> {
            add!(m: $($f)*);
            Ok(())
        }
    };
}

#[inline]
fn plain(row: Row, a: Operand, b: Operand) -> Result1 {
    wrap(match (a, b) {
        (Operand::Array(a), Operand::Array(b)) => api::binary(row, a, b),
        (a, b) => api::elementwise(row, &[a, b]),
    })
}

fn compared(row: Row, a: Operand, b: Operand) -> Result1 {
    wrap(compare(row, a, b))
}

/// The operators raise ValueError for floating dtypes, the functions RuntimeError, as in MLX.
fn bits(row: Row, a: Operand, b: Operand) -> Result1 {
    match api::elementwise(row, &[a, b]) {
        Err(Error::Dtype(text)) => Err(PyRuntimeError::new_err(text)),
        r => wrap(r),
    }
}

binary! {
    add plain Add "Sum." common "mx.array([1, 2]), 0.5" "array([1.5, 2.5], dtype=float32)";
    arctan2 plain Arctan2 "Angle of the point (b, a) in radians." quotient "mx.array([0.0, 1.0]), 1" "array([0, 0.785398], dtype=float32)";
    bitwise_and bits BitAnd "Bits set in both." common_bits "mx.array([12, 10]), 6" "array([4, 2], dtype=int32)";
    bitwise_or bits BitOr "Bits set in either." common_bits "mx.array([12, 10]), 6" "array([14, 14], dtype=int32)";
    bitwise_xor bits BitXor "Bits set in one of the two." common_bits "mx.array([12, 10]), 6" "array([10, 12], dtype=int32)";
    divide plain Div "True quotient." quotient "mx.array([1, 3]), 2" "array([0.5, 1.5], dtype=float32)";
    equal compared Eq "True where equal." compared "mx.array([1, 2]), 2" "array([False, True], dtype=bool)";
    floor_divide plain FloorDiv "Quotient rounded down; 0 for an integer divided by 0." common "mx.array([7, -7]), 2" "array([3, -4], dtype=int32)";
    greater compared Gt "True where a is above b." compared "mx.array([1, 2]), 1" "array([False, True], dtype=bool)";
    greater_equal compared Ge "True where a is not below b." compared "mx.array([1, 2]), 2" "array([False, True], dtype=bool)";
    left_shift bits Shl "Bits shifted up." common_bits "mx.array([1, 3]), 2" "array([4, 12], dtype=int32)";
    less compared Lt "True where a is below b." compared "mx.array([1, 2]), 2" "array([True, False], dtype=bool)";
    less_equal compared Le "True where a is not above b." compared "mx.array([1, 2]), 1" "array([True, False], dtype=bool)";
    logaddexp plain LogAddExp "log(exp(a) + exp(b)) without overflow." quotient "mx.array([0.0, 1000.0]), 0" "array([0.693147, 1000], dtype=float32)";
    logical_and plain LogicalAnd "True where both are not zero." truth "mx.array([0, 2]), True" "array([False, True], dtype=bool)";
    logical_or plain LogicalOr "True where either is not zero." truth "mx.array([0, 2]), False" "array([False, True], dtype=bool)";
    maximum plain Max "The larger; NaN from either side wins." common "mx.array([1, 5]), 3" "array([3, 5], dtype=int32)";
    minimum plain Min "The smaller; NaN from either side wins." common "mx.array([1, 5]), 3" "array([1, 3], dtype=int32)";
    multiply plain Mul "Product." common "mx.array([1, 2]), mx.array([[3], [4]])" "array([[3, 6],\n       [4, 8]], dtype=int32)";
    not_equal compared Ne "True where different." compared "mx.array([1, 2]), 2" "array([True, False], dtype=bool)";
    power plain Pow "a to the b; integers stay integers." common "mx.array([2, 3]), 3" "array([8, 27], dtype=int32)";
    remainder plain Rem "Remainder with the divisor's sign." common "mx.array([7, -7]), 3" "array([1, 2], dtype=int32)";
    right_shift bits Shr "Bits shifted down, keeping the sign." common_bits "mx.array([8, -8]), 1" "array([4, -4], dtype=int32)";
    subtract plain Sub "Difference." common "mx.array([1, 2]), 3" "array([-2, -1], dtype=int32)";
}

/// True where exactly one of both is not zero.
///
/// Shapes broadcast. Dtype: bool.
///
/// >>> mx.logical_xor(mx.array([0, 2]), mx.array([True, True]))
/// array([True, False], dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, *, stream = None))]
fn logical_xor(a: Opd, b: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.logical_xor(b.0))
}

/// Quotient rounded down and remainder.
///
/// Shapes broadcast. Dtype: the common one. A list of both.
///
/// >>> mx.divmod(mx.array([7, -7]), 2)
/// [array([3, -4], dtype=int32), array([1, 1], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (a, b, stream = None))]
fn divmod(a: Opd, b: Opd, stream: Stream) -> PyResult<Vec<PyArray>> {
    let _ = stream;
    let q = api::elementwise(Row::FloorDiv, &[a.0.clone(), b.0.clone()]).or_raise()?;
    let r = api::elementwise(Row::Rem, &[a.0, b.0]).or_raise()?;
    Ok(vec![q.into(), r.into()])
}

/// x itself.
///
/// Shape and dtype: a's.
///
/// >>> mx.positive(mx.array([1, -2]))
/// array([1, -2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream = None))]
fn positive(a: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    Ok(a.array()?.into())
}

/// Elements of x where the condition is true, else of y.
///
/// Shapes broadcast. Dtype: the common one of x and y.
///
/// >>> mx.where(mx.array([True, False]), mx.array([1, 2]), 0)
/// array([1, 0], dtype=int32)
#[pyfunction]
#[pyo3(name = "where", signature = (condition, x, y, /, *, stream = None))]
fn where_(condition: Opd, x: Opd, y: Opd, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(api::elementwise(Row::Select, &[condition.0, x.0, y.0]))
}

/// Elements limited to a range; either bound may be None.
///
/// Shapes broadcast. Dtype: the common one. Raises ValueError when both bounds are None.
///
/// >>> mx.clip(mx.array([1, 5, 9]), 2, 6)
/// array([2, 5, 6], dtype=int32)
/// >>> mx.clip(mx.array([1, 5, 9]), None, 6)
/// array([1, 5, 6], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, a_min, a_max, *, stream = None))]
fn clip(a: Opd, a_min: Option<Opd>, a_max: Option<Opd>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.clip(a_min.map(|x| x.0), a_max.map(|x| x.0)))
}

/// NaN and infinities replaced by numbers.
///
/// Shape and dtype: a's. Infinities become the largest finite numbers unless given.
///
/// >>> mx.nan_to_num(mx.array([mx.nan, mx.inf]), posinf=9)
/// array([0, 9], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, nan = 0.0, posinf = None, neginf = None, *, stream = None))]
fn nan_to_num(a: Opd, nan: f64, posinf: Option<f64>, neginf: Option<f64>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.nan_to_num(nan, posinf, neginf))
}

/// True where |a - b| <= atol + rtol * |b|.
///
/// Shapes broadcast. Dtype: bool. NaN is close to NaN with ``equal_nan``. Raises TypeError for numbers.
///
/// >>> mx.isclose(mx.array([1.0, 2.0]), mx.array([1.000001, 2.1]))
/// array([True, False], dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol = 1e-5, atol = 1e-8, *, equal_nan = false, stream = None))]
fn isclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.isclose(&b.0, rtol, atol, equal_nan))
}

/// True when all elements are close.
///
/// Shapes broadcast. Gives one bool. Raises TypeError for numbers.
///
/// >>> mx.allclose(mx.array([1.0, 2.0]), mx.array([1.000001, 2.0]))
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, /, rtol = 1e-5, atol = 1e-8, *, equal_nan = false, stream = None))]
fn allclose(a: Arr, b: Arr, rtol: f64, atol: f64, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.allclose(&b.0, rtol, atol, equal_nan))
}

/// True when shapes and all elements are equal.
///
/// Different shapes are unequal. Gives one bool. NaN equals NaN with ``equal_nan``.
///
/// >>> mx.array_equal(mx.array([1, 2]), mx.array([1, 2]))
/// array(True, dtype=bool)
#[pyfunction]
#[pyo3(signature = (a, b, equal_nan = false, stream = None))]
fn array_equal(a: Opd, b: Opd, equal_nan: bool, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.array_equal(b.array()?, equal_nan))
}

/// Rounds to a number of decimals, halves to even.
///
/// Shape and dtype: a's. Negative decimals round before the point.
///
/// >>> mx.round(mx.array([0.5, 1.5, 2.345]), 2)
/// array([0.5, 1.5, 2.34], dtype=float32)
/// >>> mx.round(mx.array([125, 135]), -1)
/// array([120, 140], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, decimals = Int(0), stream = None))]
fn round(a: Opd, decimals: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.round_to(decimals.0))
}

/// The array converted to a dtype.
///
/// Shape: a's. Floats lose their fraction on the way to integers, complex numbers their imaginary part.
///
/// >>> mx.astype(mx.array([1.7, -1.7]), mx.int32)
/// array([1, -1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, dtype, *, stream = None))]
fn astype(a: Arr, dtype: DtypeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.astype(dtype.0))
}

/// The array; gradients do not pass.
///
/// Shape and dtype: a's.
///
/// >>> mx.stop_gradient(mx.array([1, 2]))
/// array([1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream = None))]
fn stop_gradient(a: Arr, stream: Stream) -> PyArray {
    let _ = stream;
    a.0.stop_gradient().into()
}

/// Fp8 (E4M3) codes of the numbers.
///
/// Shape: x's. Dtype: uint8. Rounds to nearest even and saturates at 448; NaN stays NaN.
///
/// >>> mx.to_fp8(mx.array([1.0, 1000.0]))
/// array([56, 126], dtype=uint8)
#[pyfunction]
#[pyo3(signature = (x, *, stream = None))]
fn to_fp8(x: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(x.0.to_fp8())
}

/// Numbers of fp8 (E4M3) codes.
///
/// Shape: x's. Raises ValueError unless x is uint8.
///
/// >>> mx.from_fp8(mx.array([56, 126], mx.uint8), mx.float32)
/// array([1, 448], dtype=float32)
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

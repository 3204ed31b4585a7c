//! Elementwise functions made of rows of the table.

use super::{Operand, common_dtype, elementwise};
use crate::array::Array;
use crate::error::Result;
use crate::number::NumberKind;
use crate::op::{Op, Row};
use crate::{Dtype, bail};
use smallvec::smallvec;

/// The largest finite number of a floating dtype.
fn largest(d: Dtype) -> f64 {
    match d {
        Dtype::F16 => 65504.0,
        Dtype::BF16 => 3.3895313892515355e38,
        Dtype::F64 => f64::MAX,
        _ => f32::MAX as f64,
    }
}

impl Operand {
    /// As an array of this dtype, converted as elements are: a float scalar truncates to an integer.
    pub(crate) fn cast_value(&self, dtype: Dtype) -> Result<Array> {
        match self {
            Operand::Scalar(s) if s.kind() > NumberKind::Int && dtype.int_range().is_some() => {
                Array::scalar(s, None)?.astype(dtype)
            }
            _ => self.cast(dtype),
        }
    }
}

impl Array {
    /// Limits elements to an interval, either end of which may be open; NaN stays.
    ///
    /// # Errors
    /// `Argument` when neither end is given.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::api::arange;
    /// let x = arange(0, 4, 1, None)?.clip(Some(1.into()), Some(2.into()))?;
    /// assert_eq!(x.to_vec::<i32>()?, [1, 1, 2, 2]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn clip(&self, low: Option<Operand>, high: Option<Operand>) -> Result<Array> {
        match (low, high) {
            (None, None) => bail!(Argument, "[clip] neither a lower nor an upper end is given"),
            (Some(l), None) => self.maximum(l),
            (None, Some(h)) => self.minimum(h),
            (Some(l), Some(h)) => self.maximum(l)?.minimum(h),
        }
    }

    /// Quotient rounded down, and remainder with the divisor's sign.
    pub fn divmod(&self, other: impl Into<Operand>) -> Result<(Array, Array)> {
        let other = other.into();
        Ok((self.floor_divide(other.clone())?, self.remainder(other)?))
    }

    /// Replaces NaN and the infinities; without a value the dtype's largest and smallest number.
    pub fn nan_to_num(&self, nan: f64, posinf: Option<f64>, neginf: Option<f64>) -> Result<Array> {
        if !self.dtype().is_inexact() {
            return Ok(self.clone());
        }
        let top = largest(self.dtype());
        let x = self.isnan()?.where_(nan, self)?;
        let x = self.isposinf()?.where_(posinf.unwrap_or(top), x)?;
        self.isneginf()?.where_(neginf.unwrap_or(-top), x)
    }

    /// True where x is neither infinite nor NaN.
    pub fn isfinite(&self) -> Result<Array> {
        self.isnan()?.logical_or(self.isinf()?)?.logical_not()
    }

    /// True where x is positive infinity.
    pub fn isposinf(&self) -> Result<Array> {
        if self.dtype().is_float() { self.equal(f64::INFINITY) } else { self.never() }
    }

    /// True where x is negative infinity.
    pub fn isneginf(&self) -> Result<Array> {
        if self.dtype().is_float() { self.equal(f64::NEG_INFINITY) } else { self.never() }
    }

    fn never(&self) -> Result<Array> {
        super::zeros(self.shape(), Dtype::Bool)
    }

    /// True where `|x - y| <= atol + rtol * |y|`, or both are the same infinity.
    pub fn isclose(&self, other: impl Into<Operand>, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
        let other = other.into();
        let d = common_dtype(&[self.into(), other.clone()]).to_inexact();
        let (a, b) = (self.astype(d)?, other.cast(d)?);
        let near = a.subtract(&b)?.abs()?.less_equal(b.abs()?.multiply(rtol)?.add(atol)?)?;
        let finite = a.isinf()?.logical_or(b.isinf()?)?.logical_not()?;
        let close = near.logical_and(finite)?.logical_or(a.equal(&b)?)?;
        if equal_nan { close.logical_or(a.isnan()?.logical_and(b.isnan()?)?) } else { Ok(close) }
    }

    /// True when [`Array::isclose`] holds everywhere.
    pub fn allclose(
        &self,
        other: impl Into<Operand>,
        rtol: f64,
        atol: f64,
        equal_nan: bool,
    ) -> Result<Array> {
        self.isclose(other, rtol, atol, equal_nan)?.all(super::Axes::ALL, false)
    }

    /// True when shapes agree and all elements are equal.
    pub fn array_equal(&self, other: impl Into<Operand>, equal_nan: bool) -> Result<Array> {
        let other = other.into();
        if other.shape() != *self.shape() {
            return super::zeros([], Dtype::Bool);
        }
        let d = common_dtype(&[self.into(), other.clone()]);
        let (a, b) = (self.astype(d)?, other.cast(d)?);
        let same = a.equal(&b)?;
        let same = if equal_nan && d.is_inexact() {
            same.logical_or(a.isnan()?.logical_and(b.isnan()?)?)?
        } else {
            same
        };
        same.all(super::Axes::ALL, false)
    }

    /// Radians to degrees.
    pub fn degrees(&self) -> Result<Array> {
        self.multiply(180.0 / std::f64::consts::PI)
    }

    /// Degrees to radians.
    pub fn radians(&self) -> Result<Array> {
        self.multiply(std::f64::consts::PI / 180.0)
    }

    /// Rounds to a number of decimals, halves to even; a negative number counts before the point.
    ///
    /// # Accuracy
    /// Half-precision floats are scaled in float32, integers in float64.
    pub fn round_to(&self, decimals: i64) -> Result<Array> {
        let d = self.dtype();
        if decimals == 0 {
            return self.round();
        }
        let digits = decimals.unsigned_abs().min(400) as i32;
        if d.int_range().is_some() {
            return match decimals {
                0.. => Ok(self.clone()),
                _ if digits > 19 => self.zeros_like(),
                _ => {
                    let scale = 10f64.powi(digits);
                    self.astype(Dtype::F64)?.divide(scale)?.round()?.multiply(scale)?.astype(d)
                }
            };
        }
        let work = if matches!(d, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { d };
        let most = if d == Dtype::F64 { 300 } else { 38 };
        if digits > most {
            return if decimals > 0 { Ok(self.clone()) } else { self.multiply(0.0) };
        }
        let (x, scale) = (self.astype(work)?, 10f64.powi(digits));
        let x = if decimals > 0 {
            let scaled = x.multiply(scale)?;
            let rounded = scaled.round()?.divide(scale)?;
            // What overflows when scaled has no decimals to lose.
            scaled.abs()?.isinf()?.where_(&x, rounded)?
        } else {
            x.divide(scale)?.round()?.multiply(scale)?
        };
        x.astype(d)
    }

    /// The part before the point.
    pub fn trunc(&self) -> Result<Array> {
        if self.dtype() == Dtype::C64 {
            bail!(Dtype, "[trunc] complex64 is not accepted; accepted: real dtypes");
        }
        if !self.dtype().is_float() {
            return Ok(self.clone());
        }
        self.less(0.0)?.where_(self.ceil()?, self.floor()?)
    }

    /// True where exactly one of the two is not zero.
    pub fn logical_xor(&self, other: impl Into<Operand>) -> Result<Array> {
        let other = other.into().cast_bool()?;
        self.astype(Dtype::Bool)?.not_equal(other)
    }

    /// The array itself.
    pub fn positive(&self) -> Array {
        self.clone()
    }

    /// Differences of neighbours along an axis, taken `n` times.
    pub fn diff(&self, n: i64, at: i64) -> Result<Array> {
        let a = crate::shape::axis(at, self.ndim(), "diff")?;
        if n < 0 {
            bail!(Argument, "[diff] {n} times; accepted: 0 and more");
        }
        let mut x = self.clone();
        for _ in 0..(n as u64).min(self.shape()[a] as u64) {
            let dim = x.shape()[a];
            if dim == 0 {
                break;
            }
            let (next, here) = (x.slice_axis(a, 1, dim)?, x.slice_axis(a, 0, dim - 1)?);
            x = if x.dtype() == Dtype::Bool { next.not_equal(here)? } else { next.subtract(here)? };
        }
        Ok(x)
    }

    /// Float elements as fp8 (E4M3) codes, uint8: rounded half to even, saturating at 448.
    pub fn to_fp8(&self) -> Result<Array> {
        if !self.dtype().is_float() {
            bail!(Dtype, "[to_fp8] {} is not accepted; accepted: floating dtypes", self.dtype());
        }
        let x = self.astype(Dtype::F32)?;
        super::node(Op::ToFp8, smallvec![x], smallvec![], self.shape().clone(), Dtype::U8)
    }

    /// The numbers of fp8 (E4M3) codes, in a floating dtype.
    pub fn from_fp8(&self, dtype: Dtype) -> Result<Array> {
        if self.dtype() != Dtype::U8 || !dtype.is_float() {
            bail!(Dtype, "[from_fp8] {} to {dtype}; accepted: uint8 to a floating dtype", self.dtype());
        }
        let op = Op::FromFp8;
        super::node(op, smallvec![self.clone()], smallvec![], self.shape().clone(), Dtype::F32)?.astype(dtype)
    }
}

impl Operand {
    fn cast_bool(&self) -> Result<Array> {
        match self {
            Operand::Array(a) => a.astype(Dtype::Bool),
            Operand::Scalar(s) => Array::scalar(s, None)?.astype(Dtype::Bool),
        }
    }
}

/// Applies a row to operands that may all be scalars.
pub fn apply(row: Row, operands: &[Operand]) -> Result<Array> {
    if operands.len() != row.arity() {
        bail!(Argument, "[{}] {} operands; accepted: {}", row.name(), operands.len(), row.arity());
    }
    elementwise(row, operands)
}

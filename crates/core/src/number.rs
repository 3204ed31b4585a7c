//! Concrete numbers with Python's arithmetic.

use crate::{Complex, Dtype, Result, bail, err};
use std::fmt;

/// A concrete number, weakly typed beside an array. Arithmetic has Python's integer and float
/// meaning; whatever leaves 64 bits, divides by zero or would turn complex is an error.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    Bool(bool),
    Int(i64),
    Float(f64),
    Complex(Complex),
}

/// The kinds of number, in the order in which they promote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NumberKind {
    Bool,
    Int,
    Float,
    Complex,
}

/// Arithmetic between two scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    Add,
    Sub,
    Mul,
    /// True division.
    Div,
    FloorDiv,
    Mod,
    Pow,
    Min,
    Max,
}

/// Comparison between two scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

use Number::*;

const EXACT_IN_F64: u64 = 1 << 53;

impl Number {
    pub fn kind(self) -> NumberKind {
        match self {
            Bool(_) => NumberKind::Bool,
            Int(_) => NumberKind::Int,
            Float(_) => NumberKind::Float,
            Complex(_) => NumberKind::Complex,
        }
    }

    /// The dtype it takes alone, as MLX's rule: int32 unless it needs 64 bits, float32.
    pub fn dtype(self) -> Dtype {
        match self {
            Bool(_) => Dtype::Bool,
            Int(i) if i32::try_from(i).is_ok() => Dtype::I32,
            Int(_) => Dtype::I64,
            Float(_) => Dtype::F32,
            Complex(_) => Dtype::C64,
        }
    }

    /// As a float; complex numbers lose their imaginary part.
    pub fn as_f64(self) -> f64 {
        match self {
            Bool(b) => b as u8 as f64,
            Int(i) => i as f64,
            Float(f) => f,
            Complex(c) => c.re as f64,
        }
    }

    /// As an integer when it is one (bools count as 0 and 1).
    pub fn as_int(self) -> Option<i64> {
        match self {
            Bool(b) => Some(b as i64),
            Int(i) => Some(i),
            _ => None,
        }
    }

    pub fn as_complex(self) -> Complex {
        match self {
            Complex(c) => c,
            n => Complex::new(n.as_f64() as f32, 0.0),
        }
    }

    pub fn as_bool(self) -> bool {
        match self {
            Bool(b) => b,
            Int(i) => i != 0,
            Float(f) => f != 0.0,
            Complex(c) => c.re != 0.0 || c.im != 0.0,
        }
    }

    /// Same kind and same bits; NaNs of equal bits are the same, 0.0 and -0.0 are not.
    pub fn same(self, other: Number) -> bool {
        match (self, other) {
            (Bool(a), Bool(b)) => a == b,
            (Int(a), Int(b)) => a == b,
            (Float(a), Float(b)) => a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()),
            (Complex(a), Complex(b)) => a.re.to_bits() == b.re.to_bits() && a.im.to_bits() == b.im.to_bits(),
            _ => false,
        }
    }

    /// The bits that [`Number::same`] compares, for hashing.
    pub fn bits(self) -> u64 {
        match self {
            Bool(b) => b as u64,
            Int(i) => i as u64,
            Float(f) if f.is_nan() => f64::NAN.to_bits(),
            Float(f) => f.to_bits(),
            Complex(c) => (c.re.to_bits() as u64) << 32 | c.im.to_bits() as u64,
        }
    }

    /// Checks that an integer fits the dtype of the array it meets. 64-bit unsigned wraps.
    ///
    /// # Errors
    /// `Argument` naming the value, the dtype and its range.
    pub fn check_range(self, dtype: Dtype) -> Result<()> {
        if let (Some(i), Some((lo, hi))) = (self.as_int(), dtype.int_range())
            && dtype != Dtype::Bool
            && dtype != Dtype::U64
            && !(lo..=hi).contains(&(i as i128))
        {
            bail!(Argument, "[scalar] {i} is out of range for {dtype}; accepted: {lo}..={hi}");
        }
        Ok(())
    }

    /// `self op other`.
    ///
    /// # Errors
    /// `Argument` on division by zero, on an integer that leaves 64 bits, and where Python would
    /// answer with a complex number or raise.
    pub fn binary(self, op: ScalarOp, other: Number) -> Result<Number> {
        use ScalarOp::*;
        let kind = self.kind().max(other.kind());
        if kind == NumberKind::Complex {
            let (a, b) = (self.as_complex(), other.as_complex());
            return Ok(Complex(match op {
                Add => a + b,
                Sub => a - b,
                Mul => a * b,
                Div => a / b,
                Pow => a.powc(b),
                _ => bail!(Argument, "[scalar] {op:?} is not defined for complex numbers"),
            }));
        }
        if kind <= NumberKind::Int {
            let (a, b) = (self.as_int().unwrap_or(0), other.as_int().unwrap_or(0));
            let left = || err!(Argument, "[scalar] {a} {} {b} leaves the range of int64", op.symbol());
            let zero = || err!(Argument, "[scalar] {a} {} 0: division by zero", op.symbol());
            return Ok(Int(match op {
                Add => a.checked_add(b).ok_or_else(left)?,
                Sub => a.checked_sub(b).ok_or_else(left)?,
                Mul => a.checked_mul(b).ok_or_else(left)?,
                Min => a.min(b),
                Max => a.max(b),
                FloorDiv | Mod | Div if b == 0 => return Err(zero()),
                FloorDiv => {
                    let q = a.checked_div(b).ok_or_else(left)?;
                    q - ((a % b != 0) && ((a < 0) != (b < 0))) as i64
                }
                Mod => {
                    let r = a.checked_rem(b).ok_or_else(left)?;
                    if r != 0 && ((r < 0) != (b < 0)) { r + b } else { r }
                }
                Div => {
                    if a.unsigned_abs() > EXACT_IN_F64 || b.unsigned_abs() > EXACT_IN_F64 {
                        bail!(Argument, "[scalar] {a} / {b}: an operand is not exact in float64");
                    }
                    return Ok(Float(a as f64 / b as f64));
                }
                Pow if b < 0 => return Float(a as f64).binary(Pow, Float(b as f64)),
                Pow => u32::try_from(b).ok().and_then(|e| a.checked_pow(e)).ok_or_else(left)?,
            }));
        }
        for n in [self, other] {
            if let Int(i) = n
                && i.unsigned_abs() > EXACT_IN_F64
                && (i as f64) as i128 != i as i128
            {
                bail!(Argument, "[scalar] {i} is not exact in float64");
            }
        }
        let (a, b) = (self.as_f64(), other.as_f64());
        Ok(Float(match op {
            Add => a + b,
            Sub => a - b,
            Mul => a * b,
            Div | FloorDiv | Mod if b == 0.0 => {
                bail!(Argument, "[scalar] {a} {} {b}: division by zero", op.symbol())
            }
            Div => a / b,
            FloorDiv => floor_div_mod(a, b).0,
            Mod => floor_div_mod(a, b).1,
            Pow => {
                if a == 0.0 && b < 0.0 {
                    bail!(Argument, "[scalar] 0.0 ** {b}: division by zero");
                }
                if a < 0.0 && a.is_finite() && b.is_finite() && b.fract() != 0.0 {
                    bail!(Argument, "[scalar] {a} ** {b} is complex");
                }
                let p = a.powf(b);
                if p.is_infinite() && a.is_finite() && b.is_finite() {
                    bail!(Argument, "[scalar] {a} ** {b} overflows");
                }
                p
            }
            // Python keeps the first operand unless the second is strictly smaller or larger.
            Min => return Ok(if b < a { other } else { self }),
            Max => return Ok(if b > a { other } else { self }),
        }))
    }

    /// `self cmp other`, exact between integers and floats.
    pub fn compare(self, cmp: Cmp, other: Number) -> bool {
        use std::cmp::Ordering::*;
        let order = match (self, other) {
            (Complex(_), _) | (_, Complex(_)) => {
                let equal = self.as_complex() == other.as_complex();
                return if cmp == Cmp::Ne { !equal } else { equal && cmp == Cmp::Eq };
            }
            (Float(a), Float(b)) => a.partial_cmp(&b),
            (Float(a), b) => compare_int_float(b.as_int().unwrap_or(0), a).map(|o| o.reverse()),
            (a, Float(b)) => compare_int_float(a.as_int().unwrap_or(0), b),
            (a, b) => a.as_int().partial_cmp(&b.as_int()),
        };
        match cmp {
            Cmp::Eq => order == Some(Equal),
            Cmp::Ne => order != Some(Equal),
            Cmp::Lt => order == Some(Less),
            Cmp::Le => matches!(order, Some(Less | Equal)),
            Cmp::Gt => order == Some(Greater),
            Cmp::Ge => matches!(order, Some(Greater | Equal)),
        }
    }
}

/// Python's float `divmod`: the quotient floors and the remainder has the divisor's sign.
fn floor_div_mod(a: f64, b: f64) -> (f64, f64) {
    let mut rem = a % b;
    let mut div = (a - rem) / b;
    if rem != 0.0 {
        if (b < 0.0) != (rem < 0.0) {
            rem += b;
            div -= 1.0;
        }
    } else {
        rem = 0.0f64.copysign(b);
    }
    let floor = if div != 0.0 {
        let f = div.floor();
        if div - f > 0.5 { f + 1.0 } else { f }
    } else {
        0.0f64.copysign(a / b)
    };
    (floor, rem)
}

/// Exact in float64, and beyond every int64.
const TWO_POW_63: f64 = (1u64 << 63) as f64;

fn compare_int_float(i: i64, f: f64) -> Option<std::cmp::Ordering> {
    if f.is_nan() {
        return None;
    }
    if f >= TWO_POW_63 {
        return Some(std::cmp::Ordering::Less);
    }
    if f < -TWO_POW_63 {
        return Some(std::cmp::Ordering::Greater);
    }
    let whole = f.trunc();
    Some(i.cmp(&(whole as i64)).then_with(|| 0.0f64.total_cmp(&(f - whole + 0.0))))
}

impl ScalarOp {
    pub fn symbol(self) -> &'static str {
        match self {
            ScalarOp::Add => "+",
            ScalarOp::Sub => "-",
            ScalarOp::Mul => "*",
            ScalarOp::Div => "/",
            ScalarOp::FloorDiv => "//",
            ScalarOp::Mod => "%",
            ScalarOp::Pow => "**",
            ScalarOp::Min => "min",
            ScalarOp::Max => "max",
        }
    }
}

impl Cmp {
    pub fn symbol(self) -> &'static str {
        match self {
            Cmp::Eq => "==",
            Cmp::Ne => "!=",
            Cmp::Lt => "<",
            Cmp::Le => "<=",
            Cmp::Gt => ">",
            Cmp::Ge => ">=",
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bool(b) => write!(f, "{b}"),
            Int(i) => write!(f, "{i}"),
            Float(x) => write!(f, "{x:?}"),
            Complex(c) => write!(f, "{}{:+}j", c.re, c.im),
        }
    }
}

impl From<bool> for Number {
    fn from(b: bool) -> Self {
        Bool(b)
    }
}
impl From<i64> for Number {
    fn from(i: i64) -> Self {
        Int(i)
    }
}
impl From<i32> for Number {
    fn from(i: i32) -> Self {
        Int(i as i64)
    }
}
impl From<f64> for Number {
    fn from(x: f64) -> Self {
        Float(x)
    }
}
impl From<f32> for Number {
    fn from(x: f32) -> Self {
        Float(x as f64)
    }
}
impl From<Complex> for Number {
    fn from(c: Complex) -> Self {
        Complex(c)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_divide_as_in_python() {
        for (a, b, q, r) in [(7, 2, 3, 1), (-7, 2, -4, 1), (7, -2, -4, -1), (-7, -2, 3, -1), (6, -3, -2, 0)] {
            let (a, b) = (Int(a), Int(b));
            assert!(a.binary(ScalarOp::FloorDiv, b).unwrap().same(Int(q)));
            assert!(a.binary(ScalarOp::Mod, b).unwrap().same(Int(r)));
        }
        assert!(Int(i64::MIN).binary(ScalarOp::FloorDiv, Int(-1)).is_err());
        assert!(Int(i64::MIN).binary(ScalarOp::Mod, Int(-1)).is_err());
        assert!(Int(1).binary(ScalarOp::Mod, Int(0)).is_err());
        assert!(Int(2).binary(ScalarOp::Pow, Int(-1)).unwrap().same(Float(0.5)));
        assert!(Float(-5.0).binary(ScalarOp::Mod, Float(f64::INFINITY)).unwrap().same(Float(f64::INFINITY)));
    }

    #[test]
    fn ints_and_floats_compare_exactly() {
        let big = (1i64 << 53) + 1;
        assert!(!Int(big).compare(Cmp::Eq, Float(big as f64)));
        assert!(Int(big).compare(Cmp::Gt, Float((1i64 << 53) as f64)));
        assert!(Int(2).compare(Cmp::Lt, Float(2.5)));
        assert!(Int(-2).compare(Cmp::Gt, Float(-2.5)));
        assert!(Int(i64::MAX).compare(Cmp::Lt, Float(9.3e18)));
        assert!(!Int(0).compare(Cmp::Eq, Float(f64::NAN)));
    }
}

//! The table of elementwise ops: one row makes an op right everywhere. A row gives the variant, the
//! name, the dtype rule, the domain on which tests draw values, the accuracy promised for float32
//! in ulp, one sentence, and what it computes on integers, floats and complex numbers: the reference.

use crate::{Complex, Dtype, Result, bail};

/// Which dtypes a row takes and which it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// Any dtype, unchanged.
    Same,
    /// Any dtype; integers and bool become float32 first.
    Inexact,
    /// Any dtype, compared: gives bool.
    Compare,
    /// Converted to bool first, gives bool.
    Logical,
    /// Integers and bool, unchanged.
    Bits,
    /// Any dtype, complex gives its real type.
    Real,
    /// Bool condition, then two of one dtype.
    Select,
}

type IntFn = fn(&[i128], Dtype) -> i128;
type FloatFn = fn(&[f64]) -> f64;
type ComplexFn = fn(&[num_complex::Complex<f64>]) -> num_complex::Complex<f64>;

/// What a row computes. Integers come as i128 and are wrapped to the dtype afterwards; floats and
/// complex numbers are computed in float64 and rounded to the dtype afterwards.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub int: Option<IntFn>,
    pub float: Option<FloatFn>,
    pub complex: Option<ComplexFn>,
}

macro_rules! optional {
    (_) => {
        None
    };
    ($f:expr) => {
        Some($f)
    };
}

macro_rules! rows {
    ($($Row:ident $name:literal $arity:literal $rule:ident [$lo:expr, $hi:expr] $ulp:literal $doc:literal
        int $i:tt float $f:tt complex $c:tt;)*) => {
        /// An elementwise op.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Row { $(#[doc = $doc] $Row,)* }

        impl Row {
            /// Every row of the table.
            pub const ALL: &'static [Row] = &[$(Row::$Row),*];

            /// The name users write.
            pub const fn name(self) -> &'static str { match self { $(Row::$Row => $name,)* } }
            /// Number of operands.
            pub const fn arity(self) -> usize { match self { $(Row::$Row => $arity,)* } }
            /// The dtype rule.
            pub const fn rule(self) -> Rule { match self { $(Row::$Row => Rule::$rule,)* } }
            /// The interval from which tests draw operands.
            pub const fn domain(self) -> (f64, f64) { match self { $(Row::$Row => ($lo, $hi),)* } }
            /// Promised accuracy for float32, in ulp of the correctly rounded result.
            pub const fn ulp(self) -> f64 { match self { $(Row::$Row => $ulp,)* } }
            /// What it is, in one sentence.
            pub const fn doc(self) -> &'static str { match self { $(Row::$Row => $doc,)* } }
            /// What it computes.
            pub const fn meaning(self) -> Meaning {
                match self { $(Row::$Row => Meaning { int: optional!($i), float: optional!($f), complex: optional!($c) },)* }
            }
        }
    };
}

rows! {
    Neg "negative" 1 Same [-9.0, 9.0] 0.0 "Negation." int (|x, _| -x[0]) float (|x| -x[0]) complex (|x| -x[0]);
    Abs "abs" 1 Real [-9.0, 9.0] 0.0 "Absolute value." int (|x, _| x[0].abs()) float (|x| x[0].abs()) complex (|x| re(x[0].norm()));
    Sign "sign" 1 Same [-9.0, 9.0] 0.0 "Sign: -1, 0 or 1, NaN for NaN; z / |z| for complex numbers." int (|x, _| x[0].signum()) float (|x| if x[0] == 0.0 || x[0].is_nan() { x[0] } else { x[0].signum() }) complex (|x| if x[0].norm() == 0.0 { x[0] } else { x[0] / x[0].norm() });
    Square "square" 1 Same [-9.0, 9.0] 0.0 "x times x." int (|x, _| x[0].wrapping_mul(x[0])) float (|x| x[0] * x[0]) complex (|x| x[0] * x[0]);
    Sqrt "sqrt" 1 Inexact [0.0, 99.0] 0.0 "Square root." int _ float (|x| x[0].sqrt()) complex (|x| x[0].sqrt());
    Rsqrt "rsqrt" 1 Inexact [0.01, 99.0] 1.0 "1 over the square root." int _ float (|x| 1.0 / x[0].sqrt()) complex (|x| complex_quotient(re(1.0), x[0].sqrt()));
    Reciprocal "reciprocal" 1 Inexact [0.1, 9.0] 0.0 "1 over x." int _ float (|x| 1.0 / x[0]) complex (|x| complex_quotient(re(1.0), x[0]));
    Exp "exp" 1 Inexact [-80.0, 80.0] 2.0 "Exponential." int _ float (|x| x[0].exp()) complex (|x| x[0].exp());
    Expm1 "expm1" 1 Inexact [-10.0, 80.0] 3.0 "exp(x) - 1, exact near 0." int _ float (|x| x[0].exp_m1()) complex (|x| x[0].exp() - 1.0);
    Log "log" 1 Inexact [0.001, 999.0] 2.0 "Natural logarithm." int _ float (|x| x[0].ln()) complex (|x| x[0].ln());
    Log2 "log2" 1 Inexact [0.001, 999.0] 2.0 "Logarithm to base 2." int _ float (|x| x[0].log2()) complex (|x| x[0].ln() / std::f64::consts::LN_2);
    Log10 "log10" 1 Inexact [0.001, 999.0] 2.0 "Logarithm to base 10." int _ float (|x| x[0].log10()) complex (|x| x[0].ln() / std::f64::consts::LN_10);
    Log1p "log1p" 1 Inexact [-0.99, 99.0] 3.0 "log(1 + x), exact near 0." int _ float (|x| x[0].ln_1p()) complex (|x| (x[0] + 1.0).ln());
    Sin "sin" 1 Inexact [-99.0, 99.0] 2.0 "Sine of radians." int _ float (|x| x[0].sin()) complex (|x| x[0].sin());
    Cos "cos" 1 Inexact [-99.0, 99.0] 2.0 "Cosine of radians." int _ float (|x| x[0].cos()) complex (|x| x[0].cos());
    Tan "tan" 1 Inexact [-1.5, 1.5] 4.0 "Tangent of radians." int _ float (|x| x[0].tan()) complex (|x| x[0].tan());
    Arcsin "arcsin" 1 Inexact [-1.0, 1.0] 4.0 "Inverse sine." int _ float (|x| x[0].asin()) complex (|x| complex_asin(x[0]));
    Arccos "arccos" 1 Inexact [-1.0, 1.0] 4.0 "Inverse cosine." int _ float (|x| x[0].acos()) complex (|x| complex_acos(x[0]));
    Arctan "arctan" 1 Inexact [-9.0, 9.0] 4.0 "Inverse tangent." int _ float (|x| x[0].atan()) complex (|x| turned(complex_atanh, x[0]));
    Sinh "sinh" 1 Inexact [-9.0, 9.0] 4.0 "Hyperbolic sine." int _ float (|x| x[0].sinh()) complex (|x| x[0].sinh());
    Cosh "cosh" 1 Inexact [-9.0, 9.0] 4.0 "Hyperbolic cosine." int _ float (|x| x[0].cosh()) complex (|x| x[0].cosh());
    Tanh "tanh" 1 Inexact [-9.0, 9.0] 3.0 "Hyperbolic tangent." int _ float (|x| x[0].tanh()) complex (|x| x[0].tanh());
    Arcsinh "arcsinh" 1 Inexact [-9.0, 9.0] 4.0 "Inverse hyperbolic sine." int _ float (|x| x[0].asinh()) complex (|x| turned(complex_asin, x[0]));
    Arccosh "arccosh" 1 Inexact [1.0, 9.0] 4.0 "Inverse hyperbolic cosine." int _ float (|x| x[0].acosh()) complex (|x| x[0].acosh());
    Arctanh "arctanh" 1 Inexact [-0.99, 0.99] 4.0 "Inverse hyperbolic tangent." int _ float (|x| x[0].atanh()) complex (|x| complex_atanh(x[0]));
    Sigmoid "sigmoid" 1 Inexact [-80.0, 80.0] 3.0 "1 / (1 + exp(-x))." int _ float (|x| 1.0 / (1.0 + (-x[0]).exp())) complex (|x| (re(1.0) + (-x[0]).exp()).inv());
    Erf "erf" 1 Inexact [-4.0, 4.0] 4.0 "Error function." int _ float (|x| libm::erf(x[0])) complex _;
    Erfinv "erfinv" 1 Inexact [-0.99, 0.99] 4.0 "Inverse error function (float32 accuracy)." int _ float (|x| erfinv(x[0] as f32) as f64) complex _;
    Floor "floor" 1 Same [-9.0, 9.0] 0.0 "Largest integer not above x." int (|x, _| x[0]) float (|x| x[0].floor()) complex _;
    Ceil "ceil" 1 Same [-9.0, 9.0] 0.0 "Smallest integer not below x." int (|x, _| x[0]) float (|x| x[0].ceil()) complex _;
    Round "round" 1 Same [-9.0, 9.0] 0.0 "Nearest integer, halves to even." int (|x, _| x[0]) float (|x| x[0].round_ties_even()) complex (|x| num_complex::Complex::new(x[0].re.round_ties_even(), x[0].im.round_ties_even()));
    Conjugate "conjugate" 1 Same [-9.0, 9.0] 0.0 "Complex conjugate." int (|x, _| x[0]) float (|x| x[0]) complex (|x| x[0].conj());
    RealPart "real" 1 Real [-9.0, 9.0] 0.0 "Real part." int (|x, _| x[0]) float (|x| x[0]) complex (|x| re(x[0].re));
    ImagPart "imag" 1 Real [-9.0, 9.0] 0.0 "Imaginary part." int (|_, _| 0) float (|_| 0.0) complex (|x| re(x[0].im));
    IsNan "isnan" 1 Compare [-9.0, 9.0] 0.0 "True where x is not a number." int (|_, _| 0) float (|x| flag(x[0].is_nan())) complex (|x| re(flag(x[0].is_nan())));
    IsInf "isinf" 1 Compare [-9.0, 9.0] 0.0 "True where x is infinite." int (|_, _| 0) float (|x| flag(x[0].is_infinite())) complex (|x| re(flag(x[0].is_infinite())));
    LogicalNot "logical_not" 1 Logical [0.0, 1.0] 0.0 "True where x is zero." int (|x, _| (x[0] == 0) as i128) float _ complex _;
    BitNot "bitwise_invert" 1 Bits [-9.0, 9.0] 0.0 "Every bit inverted; logical for bool." int (|x, d| if d == Dtype::Bool { 1 - x[0] } else { !x[0] }) float _ complex _;

    Add "add" 2 Same [-9.0, 9.0] 0.0 "Sum." int (|x, _| x[0] + x[1]) float (|x| x[0] + x[1]) complex (|x| x[0] + x[1]);
    Sub "subtract" 2 Same [-9.0, 9.0] 0.0 "Difference." int (|x, _| x[0] - x[1]) float (|x| x[0] - x[1]) complex (|x| x[0] - x[1]);
    Mul "multiply" 2 Same [-9.0, 9.0] 0.0 "Product." int (|x, _| x[0].wrapping_mul(x[1])) float (|x| x[0] * x[1]) complex (|x| x[0] * x[1]);
    Div "divide" 2 Inexact [-9.0, 9.0] 0.0 "True quotient." int _ float (|x| x[0] / x[1]) complex (|x| complex_quotient(x[0], x[1]));
    FloorDiv "floor_divide" 2 Same [-9.0, 9.0] 0.0 "Quotient rounded down; 0 for an integer divided by 0." int (|x, _| if x[1] == 0 { 0 } else { floor_div(x[0], x[1]) }) float (|x| (x[0] / x[1]).floor()) complex (|x| complex_quotient(x[0], x[1]));
    Rem "remainder" 2 Same [-9.0, 9.0] 0.0 "Remainder with the divisor's sign; x itself for an integer and divisor 0." int (|x, _| if x[1] == 0 { x[0] } else { x[0] - floor_div(x[0], x[1]) * x[1] }) float (|x| remainder(x[0], x[1])) complex _;
    Pow "power" 2 Same [0.1, 4.0] 16.0 "x to the y; an integer to a negative power is 0, except for 1 and -1." int (|x, _| int_pow(x[0], x[1])) float (|x| x[0].powf(x[1])) complex (|x| if x[1] == re(0.0) { re(1.0) } else { x[0].powc(x[1]) });
    Max "maximum" 2 Same [-9.0, 9.0] 0.0 "The larger; NaN from either side wins." int (|x, _| x[0].max(x[1])) float (|x| if x[0].is_nan() || x[0] > x[1] { x[0] } else { x[1] }) complex (|x| if x[0].is_nan() || above(x[0], x[1]) { x[0] } else { x[1] });
    Min "minimum" 2 Same [-9.0, 9.0] 0.0 "The smaller; NaN from either side wins." int (|x, _| x[0].min(x[1])) float (|x| if x[0].is_nan() || x[0] < x[1] { x[0] } else { x[1] }) complex (|x| if x[0].is_nan() || above(x[1], x[0]) { x[0] } else { x[1] });
    LogAddExp "logaddexp" 2 Inexact [-9.0, 9.0] 4.0 "log(exp(x) + exp(y)) without overflow." int _ float (|x| log_add_exp(x[0], x[1])) complex (|x| (x[0].exp() + x[1].exp()).ln());
    Arctan2 "arctan2" 2 Inexact [-9.0, 9.0] 4.0 "Angle of the point (y, x) in radians; operands in that order." int _ float (|x| x[0].atan2(x[1])) complex _;
    Eq "equal" 2 Compare [-9.0, 9.0] 0.0 "True where equal." int (|x, _| (x[0] == x[1]) as i128) float (|x| flag(x[0] == x[1])) complex (|x| re(flag(x[0] == x[1])));
    Ne "not_equal" 2 Compare [-9.0, 9.0] 0.0 "True where different." int (|x, _| (x[0] != x[1]) as i128) float (|x| flag(x[0] != x[1])) complex (|x| re(flag(x[0] != x[1])));
    Lt "less" 2 Compare [-9.0, 9.0] 0.0 "True where x is below y." int (|x, _| (x[0] < x[1]) as i128) float (|x| flag(x[0] < x[1])) complex (|x| re(flag(above(x[1], x[0]))));
    Le "less_equal" 2 Compare [-9.0, 9.0] 0.0 "True where x is not above y." int (|x, _| (x[0] <= x[1]) as i128) float (|x| flag(x[0] <= x[1])) complex (|x| re(flag(above(x[1], x[0]) || x[0] == x[1])));
    Gt "greater" 2 Compare [-9.0, 9.0] 0.0 "True where x is above y." int (|x, _| (x[0] > x[1]) as i128) float (|x| flag(x[0] > x[1])) complex (|x| re(flag(above(x[0], x[1]))));
    Ge "greater_equal" 2 Compare [-9.0, 9.0] 0.0 "True where x is not below y." int (|x, _| (x[0] >= x[1]) as i128) float (|x| flag(x[0] >= x[1])) complex (|x| re(flag(above(x[0], x[1]) || x[0] == x[1])));
    LogicalAnd "logical_and" 2 Logical [0.0, 1.0] 0.0 "True where both are not zero." int (|x, _| (x[0] != 0 && x[1] != 0) as i128) float _ complex _;
    LogicalOr "logical_or" 2 Logical [0.0, 1.0] 0.0 "True where either is not zero." int (|x, _| (x[0] != 0 || x[1] != 0) as i128) float _ complex _;
    BitAnd "bitwise_and" 2 Bits [0.0, 99.0] 0.0 "Bits set in both." int (|x, _| x[0] & x[1]) float _ complex _;
    BitOr "bitwise_or" 2 Bits [0.0, 99.0] 0.0 "Bits set in either." int (|x, _| x[0] | x[1]) float _ complex _;
    BitXor "bitwise_xor" 2 Bits [0.0, 99.0] 0.0 "Bits set in one of the two." int (|x, _| x[0] ^ x[1]) float _ complex _;
    Shl "left_shift" 2 Bits [0.0, 7.0] 0.0 "Shift up; the count is taken modulo 32 (64 for 64-bit types), narrower types shift out." int (|x, d| x[0] << shift_count(x[1], d)) float _ complex _;
    Shr "right_shift" 2 Bits [0.0, 7.0] 0.0 "Shift down, keeping the sign; the count as in left_shift." int (|x, d| x[0] >> shift_count(x[1], d)) float _ complex _;

    Select "where" 3 Select [-9.0, 9.0] 0.0 "The second operand where the first is true, else the third." int (|x, _| if x[0] != 0 { x[1] } else { x[2] }) float (|x| if x[0] != 0.0 { x[1] } else { x[2] }) complex (|x| if x[0].re != 0.0 { x[1] } else { x[2] });
}

fn re(x: f64) -> num_complex::Complex<f64> {
    num_complex::Complex::new(x, 0.0)
}

fn flag(b: bool) -> f64 {
    b as u8 as f64
}

/// By real parts, then by imaginary ones. NaN is neither above nor below anything.
fn above(a: num_complex::Complex<f64>, b: num_complex::Complex<f64>) -> bool {
    a.re > b.re || a.re == b.re && a.im > b.im
}

fn floor_div(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

/// Remainder of floats with the divisor's sign, as Python's `%`.
pub fn remainder(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) { r + b } else { r }
}

fn int_pow(base: i128, exp: i128) -> i128 {
    if exp < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exp % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    // Exact modulo 2^64, which is all that a 64-bit type keeps.
    let (mut b, mut e, mut out) = (base as u64, exp as u128, 1u64);
    while e > 0 {
        if e & 1 == 1 {
            out = out.wrapping_mul(b);
        }
        b = b.wrapping_mul(b);
        e >>= 1;
    }
    out as i128
}

fn shift_count(n: i128, d: Dtype) -> u32 {
    (n & if d.size() == 8 { 63 } else { 31 }) as u32
}

fn log_add_exp(a: f64, b: f64) -> f64 {
    let (hi, lo) = if a > b || a.is_nan() { (a, b) } else { (b, a) };
    if hi.is_infinite() && (lo == hi || hi > 0.0) { hi } else { hi + (lo - hi).exp().ln_1p() }
}

type C = num_complex::Complex<f64>;

/// A quotient as C99 (annex G) has it: zero where a finite number is divided by an infinite one; by zero, infinity times
/// each part of the number.
fn complex_quotient(a: C, b: C) -> C {
    if b.re == 0.0 && b.im == 0.0 {
        return a * f64::INFINITY.copysign(b.re);
    }
    if a.is_finite() && (b.re.is_infinite() || b.im.is_infinite()) {
        let unit = |x: f64| (x.is_infinite() as u8 as f64).copysign(x);
        let (re, im) = (unit(b.re), unit(b.im));
        return C::new(0.0 * (a.re * re + a.im * im), 0.0 * (a.im * re - a.re * im));
    }
    a / b
}

// On a branch cut the sign of a zero part says from which side it is approached, as in C99.
// Source: W. Kahan, Branch cuts for complex elementary functions, 1987.

fn complex_asin(z: C) -> C {
    let (less, more) = (C::new(1.0 - z.re, -z.im).sqrt(), C::new(1.0 + z.re, z.im).sqrt());
    C::new(z.re.atan2((less * more).re), (less.conj() * more).im.asinh())
}

/// `f(iz) / i`: arcsinh from arcsin, arctan from arctanh.
fn turned(f: fn(C) -> C, z: C) -> C {
    let w = f(C::new(-z.im, z.re));
    C::new(w.im, -w.re)
}

fn complex_acos(z: C) -> C {
    let (less, more) = (C::new(1.0 - z.re, -z.im).sqrt(), C::new(1.0 + z.re, z.im).sqrt());
    C::new(2.0 * less.re.atan2(more.re), (more.conj() * less).im.asinh())
}

fn complex_atanh(z: C) -> C {
    let (x, y) = (z.re, z.im);
    let wide = (1.0 - x) * (1.0 + x) - y * y;
    C::new(0.25 * (4.0 * x / ((1.0 - x) * (1.0 - x) + y * y)).ln_1p(), 0.5 * (2.0 * y).atan2(wide))
}

/// Inverse error function in float32.
///
/// # Source
/// N. Juffa's minimax polynomials in log(1 - x^2) (about 2.4 ulp), as the peer uses, so that normal
/// random numbers agree with it.
#[allow(clippy::excessive_precision)] // digits as in the source
pub fn erfinv(a: f32) -> f32 {
    let t = log_f32(a.mul_add(-a, 1.0));
    let p: &[f32] = if t.abs() > 6.125 {
        &[
            3.03697567e-10,
            2.93243101e-8,
            1.22150334e-6,
            2.84108955e-5,
            3.93552968e-4,
            3.02698812e-3,
            4.83185798e-3,
            -2.64646143e-1,
            8.40016484e-1,
        ]
    } else {
        &[
            5.43877832e-9,
            1.43285448e-7,
            1.22774793e-6,
            1.12963626e-7,
            -5.61530760e-5,
            -1.47697632e-4,
            2.31468678e-3,
            1.15392581e-2,
            -2.32015476e-1,
            8.86226892e-1,
        ]
    };
    a * p[1..].iter().fold(p[0], |acc, &c| acc.mul_add(t, c))
}

/// Centres of sixteen parts of an octave: 1 / c and log(c), for [`log_f32`].
#[rustfmt::skip]
pub(crate) const LOG_TABLE: [(f64, f64); 16] = [
    (1.398907162146528, -0.33569133332882284),
    (1.3403141896637998, -0.2929040563774074),
    (1.286432210124115, -0.2518726580937369),
    (1.2367150214269895, -0.21245868807117255),
    (1.1906977166711752, -0.17453945183745634),
    (1.1479821020556429, -0.1380057072319758),
    (1.1082251448272158, -0.10275976698545139),
    (1.0711297413057381, -0.06871392447020525),
    (1.036437278977283, -0.0357891387398228),
    (1.0, 0.0),
    (0.9492859795739057, 0.05204517742929496),
    (0.8951049428609004, 0.11081431298787942),
    (0.8476821620351103, 0.1652495223695143),
    (0.8050314851692001, 0.21687389031699977),
    (0.7664671008843108, 0.2659635028121397),
    (0.731428603316328, 0.3127556664073557),
];
/// Coefficients of log(1 + r) beyond r, for [`log_f32`], and log(2).
pub(crate) const LOG_POLYNOMIAL: [f64; 3] = [-0.25089342214237154, 0.333456765744066, -0.4999997485802103];
/// The bits at which the octave of [`log_f32`] begins, a little below 0.7.
pub(crate) const LOG_START: i32 = 0x3f33_0000;

/// Natural logarithm in float32, not always correctly rounded (0.82 ulp): bit for bit what the peer
/// computes, for functions of random numbers that must agree with its.
///
/// # Source
/// Arm's optimized routines, logf, which the C library of Linux has.
pub fn log_f32(x: f32) -> f32 {
    if x.is_nan() || x < 0.0 {
        return f32::NAN;
    }
    if x == 0.0 {
        return f32::NEG_INFINITY;
    }
    if x == f32::INFINITY {
        return x;
    }
    // Subnormals are scaled by 2^23.
    let bits = if x < f32::MIN_POSITIVE {
        (x * 8388608.0).to_bits() as i32 - (23 << 23)
    } else {
        x.to_bits() as i32
    };
    let above = bits - LOG_START;
    let (inverse, log) = LOG_TABLE[(above >> 19 & 15) as usize];
    let k = (above >> 23) as f64;
    let z = f32::from_bits((bits - (above >> 23 << 23)) as u32) as f64;
    let r = z * inverse - 1.0;
    let start = log + k * std::f64::consts::LN_2;
    let [a, b, c] = LOG_POLYNOMIAL;
    let r2 = r * r;
    ((a * r2 + (b * r + c)) * r2 + (start + r)) as f32
}

/// The dtype operands are converted to, and the dtype of the result.
///
/// # Errors
/// `Dtype` where the row does not take it.
pub fn dtypes(row: Row, promoted: Dtype) -> Result<(Dtype, Dtype)> {
    let name = row.name();
    let takes = match row.rule() {
        Rule::Inexact => promoted.to_inexact(),
        Rule::Logical => Dtype::Bool,
        _ if matches!(row, Row::Shl | Row::Shr) && promoted == Dtype::Bool => Dtype::U8,
        _ => promoted,
    };
    if row == Row::Neg && promoted == Dtype::Bool {
        bail!(Dtype, "[{name}] bool cannot be negated; use logical_not");
    }
    let m = row.meaning();
    let (has, kind) = match takes {
        Dtype::C64 => (m.complex.is_some(), "real"),
        d if d.is_float() => (m.float.is_some(), "integer and bool"),
        _ => (m.int.is_some(), "floating"),
    };
    if !has {
        bail!(Dtype, "[{name}] {takes} is not accepted; accepted: {kind} dtypes");
    }
    let gives = match row.rule() {
        Rule::Compare | Rule::Logical => Dtype::Bool,
        Rule::Real if takes == Dtype::C64 => Dtype::F32,
        _ => takes,
    };
    Ok((takes, gives))
}

/// Wraps an integer to a dtype, two's complement; bool is "not zero".
pub fn wrap(x: i128, d: Dtype) -> i128 {
    match d {
        Dtype::Bool => (x != 0) as i128,
        Dtype::U8 => x as u8 as i128,
        Dtype::U16 => x as u16 as i128,
        Dtype::U32 => x as u32 as i128,
        Dtype::U64 => x as u64 as i128,
        Dtype::I8 => x as i8 as i128,
        Dtype::I16 => x as i16 as i128,
        Dtype::I32 => x as i32 as i128,
        _ => x as i64 as i128,
    }
}

/// Rounds to a floating dtype, ties to even.
pub fn round(x: f64, d: Dtype) -> f64 {
    match d {
        Dtype::F16 => to_f16(x).to_f64(),
        Dtype::BF16 => to_bf16(x).to_f64(),
        Dtype::F32 => x as f32 as f64,
        _ => x,
    }
}

/// Rounds to float16. (`half::f16::from_f64` looks at the upper 32 bits alone, so it takes what is just past a tie for one.)
pub fn to_f16(x: f64) -> half::f16 {
    half::f16::from_f32(to_odd(x))
}

/// Rounds to bfloat16; see [`to_f16`].
pub fn to_bf16(x: f64) -> half::bf16 {
    half::bf16::from_f32(to_odd(x))
}

/// A float32 from which rounding to 16 bits gives what rounding `x` itself gives: truncated, with the
/// last bit set where that lost something.
fn to_odd(x: f64) -> f32 {
    let f = x as f32;
    if f as f64 == x || x.is_nan() {
        return f;
    }
    let outward = (f as f64).abs() > x.abs();
    f32::from_bits((f.to_bits() - outward as u32) | 1)
}

/// Rounds both parts to float32.
pub fn round_complex(z: num_complex::Complex<f64>) -> Complex {
    Complex::new(z.re as f32, z.im as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_means_something() {
        for &row in Row::ALL {
            let m = row.meaning();
            assert!(m.int.is_some() || m.float.is_some() || m.complex.is_some(), "{row:?}");
            assert!(row.doc().ends_with('.'), "{row:?}");
        }
    }

    /// Values that MLX 0.32.4 gives, among them some that are not correctly rounded.
    #[test]
    fn logarithms_are_the_peers() {
        let cases: [(f32, f32); 6] = [
            (0.99036705, -0.0096796425),
            (0.8868231, -0.12010974),
            (0.5775603, -0.54894245),
            (0.9816873, -0.018482447),
            (0.97727853, -0.022983579),
            (0.95287913, -0.048267215),
        ];
        for (x, want) in cases {
            assert_eq!(log_f32(x), want, "{x:?}");
        }
        for x in [1e-45f32, 1e-40, 0.5, 1.0, 2.0, 3e38] {
            let want = (x as f64).ln();
            assert!((log_f32(x) as f64 - want).abs() <= want.abs() * 1e-7, "{x:?}");
        }
        assert_eq!(log_f32(0.0), f32::NEG_INFINITY);
        assert_eq!(log_f32(f32::INFINITY), f32::INFINITY);
        assert!(log_f32(-1.0).is_nan() && log_f32(f32::NAN).is_nan());
    }

    #[test]
    fn sixteen_bits_are_rounded_once() {
        let bf16 = |x| round(x, Dtype::BF16);
        let (up, step) = (1.0 + 1.0 / 128.0, 1.0 / 128.0);
        for tiny in [2f64.powi(-23), 2f64.powi(-30), 2f64.powi(-45)] {
            assert_eq!(bf16(1.0 + step / 2.0 + tiny), up);
            assert_eq!(bf16(1.0 + step / 2.0 - tiny), 1.0);
            assert_eq!(bf16(-1.0 - step / 2.0 - tiny), -up);
            assert_eq!(round(1.0 + 2f64.powi(-11) + tiny, Dtype::F16), 1.0 + 2f64.powi(-10));
            assert_eq!(round(1.0 + 2f64.powi(-11) - tiny, Dtype::F16), 1.0);
        }
        assert_eq!(bf16(1.0 + step / 2.0), 1.0);
        assert_eq!(bf16(1.0 + step * 1.5), 1.0 + step * 2.0);
        for d in [Dtype::F16, Dtype::BF16] {
            assert_eq!(
                [1e300, -1e300, 1e-300, 0.0].map(|x| round(x, d)),
                [f64::INFINITY, f64::NEG_INFINITY, 0.0, 0.0]
            );
            assert!(round(-1e-300, d).is_sign_negative() && round(f64::NAN, d).is_nan());
        }
        assert_eq!(round(65519.999, Dtype::F16), 65504.0);
        assert_eq!(round(65520.0, Dtype::F16), f64::INFINITY);
        assert_eq!(round(2f64.powi(-25) * 1.0000001, Dtype::F16), 2f64.powi(-24));
        assert_eq!(round(2f64.powi(-25), Dtype::F16), 0.0);
    }

    #[test]
    fn integer_corners() {
        let int = |row: Row, a: i128, b: i128, d| wrap(row.meaning().int.unwrap()(&[a, b], d), d);
        assert_eq!(int(Row::FloorDiv, -7, 2, Dtype::I32), -4);
        assert_eq!(int(Row::FloorDiv, i32::MIN as i128, -1, Dtype::I32), i32::MIN as i128);
        assert_eq!(int(Row::Rem, i64::MIN as i128, -1, Dtype::I64), 0);
        assert_eq!(int(Row::Rem, 5, 0, Dtype::I32), 5);
        assert_eq!(int(Row::Pow, 10, 3, Dtype::U8), 232);
        assert_eq!(int(Row::Pow, -1, -3, Dtype::I32), -1);
        assert_eq!(int(Row::Shl, 1, 33, Dtype::I32), 2);
        assert_eq!(int(Row::Shl, 1, 8, Dtype::U8), 0);
    }
}

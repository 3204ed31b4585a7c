//! Opcodes on float32 lanes, and the roundings that keep 16-bit floats in them.
//!
//! Rows not listed here take the generic path, which evaluates [`Row::meaning`] in float64.

use super::ops::{
    Args, OpFn, binary, binary_narrow, lane, opcodes, rows, select, target, unary, unary_narrow,
};
use crate::simd::lanes::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::simd::math;
use isopace_core::op::Row;
use isopace_core::op::scalar_ops::remainder;

opcodes! {
    Neg(f32 => f32) _F |x| -x;
    Abs(f32 => f32) _F |x| x.abs();
    Sign(f32 => f32) _F |x| if x == 0.0 || x.is_nan() { x } else { 1f32.copysign(x) };
    Square(f32 => f32) _F |x| x * x;
    Sqrt(f32 => f32) _F |x| x.sqrt();
    Rsqrt(f32 => f32) _F |x| 1.0 / x.sqrt();
    Reciprocal(f32 => f32) _F |x| 1.0 / x;
    Floor(f32 => f32) _F |x| x.floor();
    Ceil(f32 => f32) _F |x| x.ceil();
    Round(f32 => f32) _F |x| x.round_ties_even();
    Same(f32 => f32) _F |x| x;
    IsNan(f32 => u8) _F |x| x.is_nan() as u8;
    IsInf(f32 => u8) _F |x| (x.abs() == f32::INFINITY) as u8;

    Add(f32 => f32) _F |x, y| x + y;
    Sub(f32 => f32) _F |x, y| x - y;
    Mul(f32 => f32) _F |x, y| x * y;
    Div(f32 => f32) _F |x, y| x / y;
    // The quotient must not be rounded before it is rounded down.
    FloorDiv(f32 => f32) _F |x, y| (x as f64 / y as f64).floor() as f32;
    Max(f32 => f32) _F |x, y| if x > y || x.is_nan() { x } else { y };
    Min(f32 => f32) _F |x, y| if x < y || x.is_nan() { x } else { y };
    Eq(f32 => u8) _F |x, y| (x == y) as u8;
    Ne(f32 => u8) _F |x, y| (x != y) as u8;
    Lt(f32 => u8) _F |x, y| (x < y) as u8;
    Le(f32 => u8) _F |x, y| (x <= y) as u8;
    Gt(f32 => u8) _F |x, y| (x > y) as u8;
    Ge(f32 => u8) _F |x, y| (x >= y) as u8;

    Exp(f32 => f32) F |x| math::exp1::<F>(x);
    Expm1(f32 => f32) F |x| math::expm1_1::<F>(x);
    Log(f32 => f32) F |x| math::log1::<F>(x);
    Log2(f32 => f32) F |x| math::log2_1::<F>(x);
    Log10(f32 => f32) F |x| math::log10_1::<F>(x);
    Log1p(f32 => f32) F |x| math::log1p_1::<F>(x);
    Tanh(f32 => f32) F |x| math::tanh1::<F>(x);
    Erf(f32 => f32) F |x| math::erf1::<F>(x);
    Sigmoid(f32 => f32) F |x| math::sigmoid1::<F>(x);

    // In float64, lane by lane: right to the last place, not fast.
    Tan(f32 => f32) _F |x| (x as f64).tan() as f32;
    Arcsin(f32 => f32) _F |x| (x as f64).asin() as f32;
    Arccos(f32 => f32) _F |x| (x as f64).acos() as f32;
    Arctan(f32 => f32) _F |x| (x as f64).atan() as f32;
    Sinh(f32 => f32) _F |x| (x as f64).sinh() as f32;
    Cosh(f32 => f32) _F |x| (x as f64).cosh() as f32;
    Arctan2(f32 => f32) _F |x, y| (x as f64).atan2(y as f64) as f32;
    Rem(f32 => f32) _F |x, y| remainder(x as f64, y as f64) as f32;

    RoundF16(f32 => f32) _F |x| f16_to_f32(f32_to_f16(x));
    RoundBF16(f32 => f32) _F |x| bf16_to_f32(f32_to_bf16(x));
    LoadF16(u16 => f32) _F |x| f16_to_f32(x);
    LoadBF16(u16 => f32) _F |x| bf16_to_f32(x);
    StoreF16(f32 => u16) _F |x| f32_to_f16(x);
    StoreBF16(f32 => u16) _F |x| f32_to_bf16(x);
}

/// # Safety
/// As [`OpFn`].
unsafe fn whole(f: fn(&[f32], &mut [f32]), dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe {
        let out = target::<f32>(dst, n);
        if args[0].scalar {
            f(&[lane(args[0])], &mut out[..n.min(1)]);
            let first = out[0];
            out.fill(first);
        } else {
            f(rows(args[0], n), out);
        }
    }
}

/// # Safety
/// As [`OpFn`].
unsafe fn sin(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe { whole(math::sin, dst, n, args) }
}

/// # Safety
/// As [`OpFn`].
unsafe fn cos(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller.
    unsafe { whole(math::cos, dst, n, args) }
}

/// # Safety
/// As [`OpFn`].
unsafe fn pow(dst: *mut u8, n: usize, args: &Args) {
    // SAFETY: passed on from the caller; a chunk of the output is filled from chunks of the operands.
    unsafe {
        let out = target::<f32>(dst, n);
        let mut wide = [[0f32; 64]; 2];
        for (at, o) in out.chunks_mut(64).enumerate() {
            for (w, &a) in wide.iter_mut().zip(&args[..2]) {
                match a.scalar {
                    true => w.fill(lane(a)),
                    false => w[..o.len()].copy_from_slice(&rows::<f32>(a, n)[at * 64..][..o.len()]),
                }
            }
            math::pow(&wide[0][..o.len()], &wide[1][..o.len()], o);
        }
    }
}

/// The loop of a row on float32 lanes, if it has one of its own.
pub fn lookup(row: Row) -> Option<OpFn> {
    Some(match row {
        Row::Neg => unary::<Neg>(),
        Row::Abs => unary::<Abs>(),
        Row::Sign => unary::<Sign>(),
        Row::Square => unary::<Square>(),
        Row::Sqrt => unary::<Sqrt>(),
        Row::Rsqrt => unary::<Rsqrt>(),
        Row::Reciprocal => unary::<Reciprocal>(),
        Row::Exp => unary::<Exp>(),
        Row::Expm1 => unary::<Expm1>(),
        Row::Log => unary::<Log>(),
        Row::Log2 => unary::<Log2>(),
        Row::Log10 => unary::<Log10>(),
        Row::Log1p => unary::<Log1p>(),
        Row::Tanh => unary::<Tanh>(),
        Row::Erf => unary::<Erf>(),
        Row::Sigmoid => unary::<Sigmoid>(),
        Row::Tan => unary_narrow::<Tan>(),
        Row::Arcsin => unary_narrow::<Arcsin>(),
        Row::Arccos => unary_narrow::<Arccos>(),
        Row::Arctan => unary_narrow::<Arctan>(),
        Row::Sinh => unary_narrow::<Sinh>(),
        Row::Cosh => unary_narrow::<Cosh>(),
        Row::Arctan2 => binary_narrow::<Arctan2>(),
        Row::Rem => binary_narrow::<Rem>(),
        Row::Sin => sin,
        Row::Cos => cos,
        Row::Pow => pow,
        Row::Floor => unary::<Floor>(),
        Row::Ceil => unary::<Ceil>(),
        Row::Round => unary::<Round>(),
        Row::Conjugate | Row::RealPart => unary::<Same>(),
        Row::IsNan => unary::<IsNan>(),
        Row::IsInf => unary::<IsInf>(),
        Row::Add => binary::<Add>(),
        Row::Sub => binary::<Sub>(),
        Row::Mul => binary::<Mul>(),
        Row::Div => binary::<Div>(),
        Row::FloorDiv => binary::<FloorDiv>(),
        Row::Max => binary::<Max>(),
        Row::Min => binary::<Min>(),
        Row::Eq => binary::<Eq>(),
        Row::Ne => binary::<Ne>(),
        Row::Lt => binary::<Lt>(),
        Row::Le => binary::<Le>(),
        Row::Gt => binary::<Gt>(),
        Row::Ge => binary::<Ge>(),
        Row::Select => select::<f32>(),
        _ => return None,
    })
}

/// True for rows whose result on 16-bit floats is a 16-bit float without rounding.
pub fn exact_on_halves(row: Row) -> bool {
    use Row::*;
    matches!(
        row,
        Neg | Abs | Sign | Floor | Ceil | Round | Conjugate | RealPart | ImagPart | Max | Min | Select
    )
}

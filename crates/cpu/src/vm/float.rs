//! Opcodes on float32 lanes, and the roundings that keep 16-bit floats in them.
//!
//! Rows not listed here take the generic path, which evaluates [`Row::meaning`] in float64.

use super::ops::{OpFn, binary, opcodes, select, unary};
use crate::simd::lanes::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use isopace_core::op::Row;

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
    IsNan(f32 => u8) _F |x| (x != x) as u8;
    IsInf(f32 => u8) _F |x| (x.abs() == f32::INFINITY) as u8;

    Add(f32 => f32) _F |x, y| x + y;
    Sub(f32 => f32) _F |x, y| x - y;
    Mul(f32 => f32) _F |x, y| x * y;
    Div(f32 => f32) _F |x, y| x / y;
    // The quotient must not be rounded before it is rounded down.
    FloorDiv(f32 => f32) _F |x, y| (x as f64 / y as f64).floor() as f32;
    Max(f32 => f32) _F |x, y| if x > y || x != x { x } else { y };
    Min(f32 => f32) _F |x, y| if x < y || x != x { x } else { y };
    Eq(f32 => u8) _F |x, y| (x == y) as u8;
    Ne(f32 => u8) _F |x, y| (x != y) as u8;
    Lt(f32 => u8) _F |x, y| (x < y) as u8;
    Le(f32 => u8) _F |x, y| (x <= y) as u8;
    Gt(f32 => u8) _F |x, y| (x > y) as u8;
    Ge(f32 => u8) _F |x, y| (x >= y) as u8;

    RoundF16(f32 => f32) _F |x| f16_to_f32(f32_to_f16(x));
    RoundBF16(f32 => f32) _F |x| bf16_to_f32(f32_to_bf16(x));
    LoadF16(u16 => f32) _F |x| f16_to_f32(x);
    LoadBF16(u16 => f32) _F |x| bf16_to_f32(x);
    StoreF16(f32 => u16) _F |x| f32_to_f16(x);
    StoreBF16(f32 => u16) _F |x| f32_to_bf16(x);
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
    matches!(row, Neg | Abs | Sign | Floor | Ceil | Round | Conjugate | RealPart | ImagPart | Max | Min | Select)
}

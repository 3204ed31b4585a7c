//! Opcodes on integer, bool and float64 lanes at their own width.

use super::ops::{Bin, Lane, OpFn, Un, binary_narrow, select, unary_narrow};
use isopace_core::Dtype;
use isopace_core::op::Row;
use std::marker::PhantomData;

/// An integer lane. All arithmetic wraps.
pub trait Int: Lane + Ord {
    const ZERO: Self;
    const ONE: Self;
    const NEG: Self;
    /// Shift counts are taken modulo this.
    const SHIFTS: u32;
    fn add(self, y: Self) -> Self;
    fn sub(self, y: Self) -> Self;
    fn mul(self, y: Self) -> Self;
    /// Quotient and remainder rounded down; 0 and x for y = 0.
    fn div_mod(self, y: Self) -> (Self, Self);
    fn and(self, y: Self) -> Self;
    fn or(self, y: Self) -> Self;
    fn xor(self, y: Self) -> Self;
    fn not(self) -> Self;
    fn shl(self, y: Self) -> Self;
    fn shr(self, y: Self) -> Self;
}

macro_rules! ints {
    ($($t:ty, $signed:literal;)*) => { $(impl Int for $t {
        const ZERO: Self = 0;
        const ONE: Self = 1;
        const NEG: Self = (0 as $t).wrapping_sub(1);
        const SHIFTS: u32 = if <$t>::BITS == 64 { 64 } else { 32 };
        #[inline(always)]
        fn add(self, y: Self) -> Self { self.wrapping_add(y) }
        #[inline(always)]
        fn sub(self, y: Self) -> Self { self.wrapping_sub(y) }
        #[inline(always)]
        fn mul(self, y: Self) -> Self { self.wrapping_mul(y) }
        #[inline(always)]
        fn div_mod(self, y: Self) -> (Self, Self) {
            if y == 0 {
                return (0, self);
            }
            let (q, r) = (self.wrapping_div(y), self.wrapping_rem(y));
            if $signed && r != 0 && (r < Self::ZERO) != (y < Self::ZERO) {
                (q.wrapping_sub(1), r.wrapping_add(y))
            } else {
                (q, r)
            }
        }
        #[inline(always)]
        fn and(self, y: Self) -> Self { self & y }
        #[inline(always)]
        fn or(self, y: Self) -> Self { self | y }
        #[inline(always)]
        fn xor(self, y: Self) -> Self { self ^ y }
        #[inline(always)]
        fn not(self) -> Self { !self }
        #[inline(always)]
        fn shl(self, y: Self) -> Self {
            let n = y as u32 % Self::SHIFTS;
            if n >= <$t>::BITS { 0 } else { self << n }
        }
        #[inline(always)]
        fn shr(self, y: Self) -> Self {
            let n = (y as u32 % Self::SHIFTS).min(<$t>::BITS - 1);
            let out = self >> n;
            if !$signed && y as u32 % Self::SHIFTS >= <$t>::BITS { 0 } else { out }
        }
    })* };
}
ints!(u8, false; u16, false; u32, false; u64, false; i8, true; i16, true; i32, true; i64, true;);

/// Opcodes generic over the lane: `Name: Trait |x, y| -> R expr`.
macro_rules! generic {
    ($($Name:ident: $Bound:ident |$x:ident $(, $y:ident)?| -> $R:ty { $e:expr })*) => { $(
        struct $Name<T>(PhantomData<T>);
        generic!(@one $Name, $Bound, ($x $(, $y)?), $R, $e);
    )* };
    (@one $Name:ident, $Bound:ident, ($x:ident), $R:ty, $e:expr) => {
        impl<T: $Bound> Un for $Name<T> {
            type T = T;
            type R = $R;
            #[inline(always)]
            fn f<const FMA: bool>($x: T) -> $R { $e }
        }
    };
    (@one $Name:ident, $Bound:ident, ($x:ident, $y:ident), $R:ty, $e:expr) => {
        impl<T: $Bound> Bin for $Name<T> {
            type T = T;
            type R = $R;
            #[inline(always)]
            fn f<const FMA: bool>($x: T, $y: T) -> $R { $e }
        }
    };
}

/// A lane with an order.
trait Compared: Lane + PartialOrd {}
impl<T: Lane + PartialOrd> Compared for T {}

generic! {
    Neg: Int |x| -> T { T::ZERO.sub(x) }
    Abs: Int |x| -> T { if x < T::ZERO { T::ZERO.sub(x) } else { x } }
    Sign: Int |x| -> T { if x > T::ZERO { T::ONE } else if x < T::ZERO { T::NEG } else { T::ZERO } }
    Square: Int |x| -> T { x.mul(x) }
    Not: Int |x| -> T { x.not() }
    Add: Int |x, y| -> T { x.add(y) }
    Sub: Int |x, y| -> T { x.sub(y) }
    Mul: Int |x, y| -> T { x.mul(y) }
    FloorDiv: Int |x, y| -> T { x.div_mod(y).0 }
    Rem: Int |x, y| -> T { x.div_mod(y).1 }
    Max: Int |x, y| -> T { Ord::max(x, y) }
    Min: Int |x, y| -> T { Ord::min(x, y) }
    And: Int |x, y| -> T { x.and(y) }
    Or: Int |x, y| -> T { x.or(y) }
    Xor: Int |x, y| -> T { x.xor(y) }
    Shl: Int |x, y| -> T { x.shl(y) }
    Shr: Int |x, y| -> T { x.shr(y) }
    Same: Lane |x| -> T { x }
    Eq: Compared |x, y| -> u8 { (x == y) as u8 }
    Ne: Compared |x, y| -> u8 { (x != y) as u8 }
    Lt: Compared |x, y| -> u8 { (x < y) as u8 }
    Le: Compared |x, y| -> u8 { (x <= y) as u8 }
    Gt: Compared |x, y| -> u8 { (x > y) as u8 }
    Ge: Compared |x, y| -> u8 { (x >= y) as u8 }
}

super::ops::opcodes! {
    BoolNot(u8 => u8) _F |x| x ^ 1;
    F64Neg(f64 => f64) _F |x| -x;
    F64Abs(f64 => f64) _F |x| x.abs();
    F64Square(f64 => f64) _F |x| x * x;
    F64Sqrt(f64 => f64) _F |x| x.sqrt();
    F64Rsqrt(f64 => f64) _F |x| 1.0 / x.sqrt();
    F64Reciprocal(f64 => f64) _F |x| 1.0 / x;
    F64Floor(f64 => f64) _F |x| x.floor();
    F64Ceil(f64 => f64) _F |x| x.ceil();
    F64Round(f64 => f64) _F |x| x.round_ties_even();
    F64Add(f64 => f64) _F |x, y| x + y;
    F64Sub(f64 => f64) _F |x, y| x - y;
    F64Mul(f64 => f64) _F |x, y| x * y;
    F64Div(f64 => f64) _F |x, y| x / y;
    F64FloorDiv(f64 => f64) _F |x, y| (x / y).floor();
    F64Max(f64 => f64) _F |x, y| if x > y || x.is_nan() { x } else { y };
    F64Min(f64 => f64) _F |x, y| if x < y || x.is_nan() { x } else { y };
}

fn compare<T: Compared>(row: Row) -> Option<OpFn> {
    Some(match row {
        Row::Eq => binary_narrow::<Eq<T>>(),
        Row::Ne => binary_narrow::<Ne<T>>(),
        Row::Lt => binary_narrow::<Lt<T>>(),
        Row::Le => binary_narrow::<Le<T>>(),
        Row::Gt => binary_narrow::<Gt<T>>(),
        Row::Ge => binary_narrow::<Ge<T>>(),
        Row::Select => select::<T>(),
        _ => return None,
    })
}

fn int<T: Int>(row: Row) -> Option<OpFn> {
    Some(match row {
        Row::Neg => unary_narrow::<Neg<T>>(),
        Row::Abs => unary_narrow::<Abs<T>>(),
        Row::Sign => unary_narrow::<Sign<T>>(),
        Row::Square => unary_narrow::<Square<T>>(),
        Row::BitNot => unary_narrow::<Not<T>>(),
        Row::Floor | Row::Ceil | Row::Round | Row::Conjugate | Row::RealPart => unary_narrow::<Same<T>>(),
        Row::Add => binary_narrow::<Add<T>>(),
        Row::Sub => binary_narrow::<Sub<T>>(),
        Row::Mul => binary_narrow::<Mul<T>>(),
        Row::FloorDiv => binary_narrow::<FloorDiv<T>>(),
        Row::Rem => binary_narrow::<Rem<T>>(),
        Row::Max => binary_narrow::<Max<T>>(),
        Row::Min => binary_narrow::<Min<T>>(),
        Row::BitAnd => binary_narrow::<And<T>>(),
        Row::BitOr => binary_narrow::<Or<T>>(),
        Row::BitXor => binary_narrow::<Xor<T>>(),
        Row::Shl => binary_narrow::<Shl<T>>(),
        Row::Shr => binary_narrow::<Shr<T>>(),
        _ => return compare::<T>(row),
    })
}

fn bool(row: Row) -> Option<OpFn> {
    Some(match row {
        Row::LogicalNot | Row::BitNot => unary_narrow::<BoolNot>(),
        Row::LogicalAnd | Row::BitAnd | Row::Mul | Row::Min => binary_narrow::<And<u8>>(),
        Row::LogicalOr | Row::BitOr | Row::Add | Row::Max => binary_narrow::<Or<u8>>(),
        Row::BitXor | Row::Sub => binary_narrow::<Xor<u8>>(),
        _ => return compare::<u8>(row),
    })
}

fn f64(row: Row) -> Option<OpFn> {
    Some(match row {
        Row::Neg => unary_narrow::<F64Neg>(),
        Row::Abs => unary_narrow::<F64Abs>(),
        Row::Square => unary_narrow::<F64Square>(),
        Row::Sqrt => unary_narrow::<F64Sqrt>(),
        Row::Rsqrt => unary_narrow::<F64Rsqrt>(),
        Row::Reciprocal => unary_narrow::<F64Reciprocal>(),
        Row::Floor => unary_narrow::<F64Floor>(),
        Row::Ceil => unary_narrow::<F64Ceil>(),
        Row::Round => unary_narrow::<F64Round>(),
        Row::Conjugate | Row::RealPart => unary_narrow::<Same<f64>>(),
        Row::Add => binary_narrow::<F64Add>(),
        Row::Sub => binary_narrow::<F64Sub>(),
        Row::Mul => binary_narrow::<F64Mul>(),
        Row::Div => binary_narrow::<F64Div>(),
        Row::FloorDiv => binary_narrow::<F64FloorDiv>(),
        Row::Max => binary_narrow::<F64Max>(),
        Row::Min => binary_narrow::<F64Min>(),
        _ => return compare::<f64>(row),
    })
}

/// The loop of a row on lanes of an integer dtype, bool or float64, if it has one of its own.
pub fn lookup(row: Row, lane: Dtype) -> Option<OpFn> {
    match lane {
        Dtype::Bool => bool(row),
        Dtype::U8 => int::<u8>(row),
        Dtype::U16 => int::<u16>(row),
        Dtype::U32 => int::<u32>(row),
        Dtype::U64 => int::<u64>(row),
        Dtype::I8 => int::<i8>(row),
        Dtype::I16 => int::<i16>(row),
        Dtype::I32 => int::<i32>(row),
        Dtype::I64 => int::<i64>(row),
        Dtype::F64 => f64(row),
        Dtype::C64 if row == Row::Select => Some(select::<u64>()),
        _ => None,
    }
}

//! Elements as kernels see them: one Rust type for each dtype, with order and arithmetic.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};
use isopace_core::Complex;
use isopace_core::op::Combine;
use isopace_core::op::sort::{complex_order, float_order};
use std::cmp::Ordering;

/// A bool element: a byte that is 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(transparent)]
pub struct Flag(pub u8);

/// An element type. Arithmetic of integers wraps; that of 16-bit floats is float32's, rounded.
pub trait Elem: Pod + Send + Sync + PartialEq + std::fmt::Debug {
    const ZERO: Self;
    /// Ascending, NaN last, complex numbers lexicographic.
    fn order(self, other: Self) -> Ordering;
    fn is_nan(self) -> bool;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// As an integer; floats truncate and saturate.
    fn to_i64(self) -> i64;

    fn is_zero(self) -> bool {
        self == Self::ZERO
    }
    /// The larger, NaN winning.
    #[inline(always)]
    fn max(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && self.order(other).is_gt()) { self } else { other }
    }
    /// The smaller, NaN winning.
    #[inline(always)]
    fn min(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && self.order(other).is_lt()) { self } else { other }
    }
}

macro_rules! ints {
    ($($t:ty),*) => { $(impl Elem for $t {
        const ZERO: Self = 0;
        #[inline(always)]
        fn order(self, other: Self) -> Ordering { self.cmp(&other) }
        #[inline(always)]
        fn is_nan(self) -> bool { false }
        #[inline(always)]
        fn add(self, other: Self) -> Self { self.wrapping_add(other) }
        #[inline(always)]
        fn mul(self, other: Self) -> Self { self.wrapping_mul(other) }
        #[inline(always)]
        fn to_i64(self) -> i64 { self as i64 }
        #[inline(always)]
        fn max(self, other: Self) -> Self { Ord::max(self, other) }
        #[inline(always)]
        fn min(self, other: Self) -> Self { Ord::min(self, other) }
    })* };
}
ints!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Elem for Flag {
    const ZERO: Self = Flag(0);
    fn order(self, other: Self) -> Ordering {
        self.0.cmp(&other.0)
    }
    fn is_nan(self) -> bool {
        false
    }
    fn add(self, other: Self) -> Self {
        Flag(self.0 | other.0)
    }
    fn mul(self, other: Self) -> Self {
        Flag(self.0 & other.0)
    }
    fn to_i64(self) -> i64 {
        self.0 as i64
    }
}

macro_rules! floats {
    ($($t:ty),*) => { $(impl Elem for $t {
        const ZERO: Self = 0.0;
        #[inline(always)]
        fn order(self, other: Self) -> Ordering {
            self.partial_cmp(&other).unwrap_or_else(|| <$t>::is_nan(self).cmp(&<$t>::is_nan(other)))
        }
        #[inline(always)]
        fn is_nan(self) -> bool { <$t>::is_nan(self) }
        #[inline(always)]
        fn add(self, other: Self) -> Self { self + other }
        #[inline(always)]
        fn mul(self, other: Self) -> Self { self * other }
        fn to_i64(self) -> i64 { self as i64 }
        #[inline(always)]
        fn max(self, other: Self) -> Self { if self > other || <$t>::is_nan(self) { self } else { other } }
        #[inline(always)]
        fn min(self, other: Self) -> Self { if self < other || <$t>::is_nan(self) { self } else { other } }
    })* };
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => { $(impl Elem for $t {
        const ZERO: Self = <$t>::ZERO;
        fn order(self, other: Self) -> Ordering { float_order(self.to_f64(), other.to_f64()) }
        fn is_nan(self) -> bool { <$t>::is_nan(self) }
        fn add(self, other: Self) -> Self { <$t>::from_f32(self.to_f32() + other.to_f32()) }
        fn mul(self, other: Self) -> Self { <$t>::from_f32(self.to_f32() * other.to_f32()) }
        fn to_i64(self) -> i64 { self.to_f32() as i64 }
    })* };
}
halves!(f16, bf16);

impl Elem for Complex {
    const ZERO: Self = Complex::new(0.0, 0.0);
    fn order(self, other: Self) -> Ordering {
        complex_order(self, other)
    }
    fn is_nan(self) -> bool {
        self.re.is_nan() || self.im.is_nan()
    }
    fn add(self, other: Self) -> Self {
        self + other
    }
    fn mul(self, other: Self) -> Self {
        self * other
    }
    fn to_i64(self) -> i64 {
        self.re as i64
    }
}

/// How a write meets what is there.
#[inline(always)]
pub fn combine<T: Elem>(c: Combine, old: T, new: T) -> T {
    match c {
        Combine::Set => new,
        Combine::Add => old.add(new),
        Combine::Mul => old.mul(new),
        Combine::Min => Elem::min(old, new),
        Combine::Max => Elem::max(old, new),
    }
}

/// Evaluates `$body` with `$T` as an unsigned integer of `$size` bytes: enough to move elements.
macro_rules! by_size {
    ($size:expr, $T:ident => $body:expr) => {
        match $size {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            _ => {
                type $T = u64;
                $body
            }
        }
    };
}
pub(crate) use by_size;

/// Evaluates `$body` with `$T` as the element type of a dtype.
macro_rules! by_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            isopace_core::Dtype::Bool => {
                type $T = $crate::elem::Flag;
                $body
            }
            isopace_core::Dtype::U8 => {
                type $T = u8;
                $body
            }
            isopace_core::Dtype::U16 => {
                type $T = u16;
                $body
            }
            isopace_core::Dtype::U32 => {
                type $T = u32;
                $body
            }
            isopace_core::Dtype::U64 => {
                type $T = u64;
                $body
            }
            isopace_core::Dtype::I8 => {
                type $T = i8;
                $body
            }
            isopace_core::Dtype::I16 => {
                type $T = i16;
                $body
            }
            isopace_core::Dtype::I32 => {
                type $T = i32;
                $body
            }
            isopace_core::Dtype::I64 => {
                type $T = i64;
                $body
            }
            isopace_core::Dtype::F16 => {
                type $T = half::f16;
                $body
            }
            isopace_core::Dtype::BF16 => {
                type $T = half::bf16;
                $body
            }
            isopace_core::Dtype::F32 => {
                type $T = f32;
                $body
            }
            isopace_core::Dtype::F64 => {
                type $T = f64;
                $body
            }
            isopace_core::Dtype::C64 => {
                type $T = isopace_core::Complex;
                $body
            }
        }
    };
}
pub(crate) use by_dtype;

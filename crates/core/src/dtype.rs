//! Element types and how they combine.

use std::fmt;

/// The type of an array's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dtype {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    BF16,
    F32,
    F64,
    C64,
}

use Dtype::*;

/// A single-precision complex number, the element of [`Dtype::C64`].
pub type Complex = num_complex::Complex<f32>;

impl Dtype {
    /// Every dtype, in the order of the promotion table.
    pub const ALL: [Dtype; 14] = [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, BF16, F32, F64, C64];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            Bool | U8 | I8 => 1,
            U16 | I16 | F16 | BF16 => 2,
            U32 | I32 | F32 => 4,
            U64 | I64 | F64 | C64 => 8,
        }
    }

    /// The name users write, as in MLX: `float32`, `bool`, `complex64`.
    pub const fn name(self) -> &'static str {
        match self {
            Bool => "bool",
            U8 => "uint8",
            U16 => "uint16",
            U32 => "uint32",
            U64 => "uint64",
            I8 => "int8",
            I16 => "int16",
            I32 => "int32",
            I64 => "int64",
            F16 => "float16",
            BF16 => "bfloat16",
            F32 => "float32",
            F64 => "float64",
            C64 => "complex64",
        }
    }

    /// True for the four real floating types.
    pub const fn is_float(self) -> bool {
        matches!(self, F16 | BF16 | F32 | F64)
    }

    /// True for real and complex floating types.
    pub const fn is_inexact(self) -> bool {
        self.is_float() || matches!(self, C64)
    }

    /// True for signed and unsigned integers; false for bool.
    pub const fn is_int(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64)
    }

    /// True for unsigned integers; false for bool.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64)
    }

    /// The smallest and largest integer an integer dtype holds, bool counting as 0 and 1.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        Some(match self {
            Bool => (0, 1),
            U8 => (0, u8::MAX as i128),
            U16 => (0, u16::MAX as i128),
            U32 => (0, u32::MAX as i128),
            U64 => (0, u64::MAX as i128),
            I8 => (i8::MIN as i128, i8::MAX as i128),
            I16 => (i16::MIN as i128, i16::MAX as i128),
            I32 => (i32::MIN as i128, i32::MAX as i128),
            I64 => (i64::MIN as i128, i64::MAX as i128),
            _ => return None,
        })
    }

    /// The dtype of a combination of two arrays, by MLX's table: symmetric, and an unsigned
    /// 64-bit integer beside a signed one gives float32.
    ///
    /// ```
    /// use isopace_core::Dtype;
    /// assert_eq!(Dtype::I32.promote(Dtype::F16), Dtype::F16);
    /// assert_eq!(Dtype::U32.promote(Dtype::I8), Dtype::I64);
    /// assert_eq!(Dtype::F16.promote(Dtype::BF16), Dtype::F32);
    /// ```
    pub const fn promote(self, other: Dtype) -> Dtype {
        let (a, b) = if (self as u8) <= (other as u8) { (self, other) } else { (other, self) };
        match (a, b) {
            _ if a as u8 == b as u8 => a,
            (Bool, x) => x,
            (_, C64) => C64,
            (_, F64) => F64,
            (F16, BF16) => F32,
            (_, F16 | BF16 | F32) => b,
            (U8 | U16 | U32 | U64, U8 | U16 | U32 | U64) => b,
            (I8 | I16 | I32 | I64, _) => b,
            // unsigned with signed: the next wider signed type, float32 past 64 bits
            (U8, I8) => I16,
            (U8, x) => x,
            (U16, I8 | I16) => I32,
            (U16, x) => x,
            (U32, _) => I64,
            (U64, _) => F32,
            _ => b,
        }
    }

    /// The dtype for results that are floating whatever the input: ints and bool become float32.
    pub const fn to_inexact(self) -> Dtype {
        if self.is_inexact() { self } else { F32 }
    }

    /// The dtype named by [`Dtype::name`].
    pub fn from_name(name: &str) -> Option<Dtype> {
        Dtype::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that is the element of exactly one [`Dtype`].
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The dtype whose element this is.
    const DTYPE: Dtype;
}

macro_rules! elements {
    ($($t:ty => $d:ident),*) => { $(impl Element for $t { const DTYPE: Dtype = $d; })* };
}
elements!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    half::f16 => F16, half::bf16 => BF16, f32 => F32, f64 => F64, Complex => C64);

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the peer, row by row (verified by running its wheel).
    #[test]
    fn promotion_table() {
        let table = "
            bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64 c64
            u8 u8 u16 u32 u64 i16 i16 i32 i64 f16 bf16 f32 f64 c64
            u16 u16 u16 u32 u64 i32 i32 i32 i64 f16 bf16 f32 f64 c64
            u32 u32 u32 u32 u64 i64 i64 i64 i64 f16 bf16 f32 f64 c64
            u64 u64 u64 u64 u64 f32 f32 f32 f32 f16 bf16 f32 f64 c64
            i8 i16 i32 i64 f32 i8 i16 i32 i64 f16 bf16 f32 f64 c64
            i16 i16 i32 i64 f32 i16 i16 i32 i64 f16 bf16 f32 f64 c64
            i32 i32 i32 i64 f32 i32 i32 i32 i64 f16 bf16 f32 f64 c64
            i64 i64 i64 i64 f32 i64 i64 i64 i64 f16 bf16 f32 f64 c64
            f16 f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64
            bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64
            f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64
            f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c64
            c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64";
        let short = |d: Dtype| format!("{d:?}").to_lowercase();
        for (a, row) in Dtype::ALL.iter().zip(table.lines().filter(|l| !l.trim().is_empty())) {
            for (b, want) in Dtype::ALL.iter().zip(row.split_whitespace()) {
                assert_eq!(short(a.promote(*b)), want, "{a} with {b}");
            }
        }
    }
}

//! Conversions between lanes, by the rule of `Op::Cast`, and of scalars into lanes.

use super::ops::{Lane, OpFn, Un, unary_narrow};
use crate::simd::lanes::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use half::{bf16, f16};
use isopace_core::{Complex, Dtype, Number};
use std::marker::PhantomData;

/// A lane as conversions see it. Bool is a `u8` on both sides and handled apart.
pub trait Cast: Lane {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_i32(self) -> i32;
    fn to_i64(self) -> i64;
    fn to_complex(self) -> Complex;
    fn to_bool(self) -> u8;
}

macro_rules! ints {
    ($($t:ty),*) => { $(impl Cast for $t {
        #[inline(always)]
        fn to_f32(self) -> f32 { self as f32 }
        #[inline(always)]
        fn to_f64(self) -> f64 { self as f64 }
        #[inline(always)]
        fn to_i32(self) -> i32 { self as i32 }
        #[inline(always)]
        fn to_i64(self) -> i64 { self as i64 }
        #[inline(always)]
        fn to_complex(self) -> Complex { Complex::new(self as f32, 0.0) }
        #[inline(always)]
        fn to_bool(self) -> u8 { (self != 0) as u8 }
    })* };
}
ints!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! floats {
    ($($t:ty),*) => { $(impl Cast for $t {
        #[inline(always)]
        fn to_f32(self) -> f32 { self as f32 }
        #[inline(always)]
        fn to_f64(self) -> f64 { self as f64 }
        #[inline(always)]
        fn to_i32(self) -> i32 {
            // In float64 every bound is exact; -2147483648.9 truncates into the range.
            let x = self as f64;
            if x > -2147483649.0 && x < 2147483648.0 { x as i32 } else { i32::MIN }
        }
        #[inline(always)]
        fn to_i64(self) -> i64 {
            let x = self as f64;
            if (-9223372036854775808.0..9223372036854775808.0).contains(&x) { x as i64 } else { i64::MIN }
        }
        #[inline(always)]
        fn to_complex(self) -> Complex { Complex::new(self as f32, 0.0) }
        #[inline(always)]
        fn to_bool(self) -> u8 { (self != 0.0) as u8 }
    })* };
}
floats!(f32, f64);

impl Cast for Complex {
    fn to_f32(self) -> f32 {
        self.re
    }
    fn to_f64(self) -> f64 {
        self.re as f64
    }
    fn to_i32(self) -> i32 {
        Cast::to_i32(self.re)
    }
    fn to_i64(self) -> i64 {
        Cast::to_i64(self.re)
    }
    fn to_complex(self) -> Complex {
        self
    }
    fn to_bool(self) -> u8 {
        (self.re != 0.0 || self.im != 0.0) as u8
    }
}

/// Types a lane is converted to.
macro_rules! into {
    ($($Name:ident $R:ty |$x:ident| $e:expr;)*) => { $(
        struct $Name<T>(PhantomData<T>);
        impl<T: Cast> Un for $Name<T> {
            type T = T;
            type R = $R;
            #[inline(always)]
            fn f<const FMA: bool>($x: T) -> $R { $e }
        }
    )* };
}
into! {
    ToBool u8 |x| x.to_bool();
    ToU8 u8 |x| x.to_i32() as u8;
    ToU16 u16 |x| x.to_i32() as u16;
    ToU32 u32 |x| x.to_i64() as u32;
    ToU64 u64 |x| x.to_i64() as u64;
    ToI64 i64 |x| x.to_i64();
    ToI32 i32 |x| x.to_i32();
    ToI16 i16 |x| x.to_i32() as i16;
    ToI8 i8 |x| x.to_i32() as i8;
    ToF32 f32 |x| x.to_f32();
    ToF64 f64 |x| x.to_f64();
    ToC64 Complex |x| x.to_complex();
    ToF16 f32 |x| f16_to_f32(f32_to_f16(x.to_f32()));
    ToBF16 f32 |x| bf16_to_f32(f32_to_bf16(x.to_f32()));
}

fn from<T: Cast>(to: Dtype) -> OpFn {
    match to {
        Dtype::Bool => unary_narrow::<ToBool<T>>(),
        Dtype::U8 => unary_narrow::<ToU8<T>>(),
        Dtype::U16 => unary_narrow::<ToU16<T>>(),
        Dtype::U32 => unary_narrow::<ToU32<T>>(),
        Dtype::U64 => unary_narrow::<ToU64<T>>(),
        Dtype::I8 => unary_narrow::<ToI8<T>>(),
        Dtype::I16 => unary_narrow::<ToI16<T>>(),
        Dtype::I32 => unary_narrow::<ToI32<T>>(),
        Dtype::I64 => unary_narrow::<ToI64<T>>(),
        Dtype::F16 => unary_narrow::<ToF16<T>>(),
        Dtype::BF16 => unary_narrow::<ToBF16<T>>(),
        Dtype::F32 => unary_narrow::<ToF32<T>>(),
        Dtype::F64 => unary_narrow::<ToF64<T>>(),
        Dtype::C64 => unary_narrow::<ToC64<T>>(),
    }
}

/// The loop that converts lanes of one dtype to another; 16-bit floats are float32 lanes on both
/// sides, already rounded.
pub fn lookup(from_dtype: Dtype, to: Dtype) -> OpFn {
    use super::float::{RoundBF16, RoundF16};
    match (from_dtype, to) {
        (Dtype::F32 | Dtype::BF16, Dtype::F16) => super::ops::unary::<RoundF16>(),
        (Dtype::F32 | Dtype::F16, Dtype::BF16) => super::ops::unary::<RoundBF16>(),
        (Dtype::Bool | Dtype::U8, _) => from::<u8>(to),
        (Dtype::U16, _) => from::<u16>(to),
        (Dtype::U32, _) => from::<u32>(to),
        (Dtype::U64, _) => from::<u64>(to),
        (Dtype::I8, _) => from::<i8>(to),
        (Dtype::I16, _) => from::<i16>(to),
        (Dtype::I32, _) => from::<i32>(to),
        (Dtype::I64, _) => from::<i64>(to),
        (Dtype::F16 | Dtype::BF16 | Dtype::F32, _) => from::<f32>(to),
        (Dtype::F64, _) => from::<f64>(to),
        (Dtype::C64, _) => from::<Complex>(to),
    }
}

/// A scalar as the bytes of one lane: a float goes through float32 into anything narrower.
pub fn scalar(n: Number, dtype: Dtype) -> [u8; 8] {
    let mut out = [0; 8];
    let mut put = |b: &[u8]| out[..b.len()].copy_from_slice(b);
    let float = match n {
        Number::Int(i) => i as f32,
        n => n.as_f64() as f32,
    };
    // What a float or complex scalar truncates to.
    let whole = match n {
        Number::Bool(_) | Number::Int(_) => None,
        n => Some(n.as_f64()),
    };
    let int = n.as_int().unwrap_or(0);
    let i32 = whole.map_or(int as i32, Cast::to_i32);
    let i64 = whole.map_or(int, Cast::to_i64);
    match dtype {
        Dtype::Bool => put(&[n.as_bool() as u8]),
        Dtype::U8 | Dtype::I8 => put(&[i32 as u8]),
        Dtype::U16 | Dtype::I16 => put(&(i32 as u16).to_ne_bytes()),
        Dtype::I32 => put(&i32.to_ne_bytes()),
        Dtype::U32 => put(&(i64 as u32).to_ne_bytes()),
        Dtype::U64 | Dtype::I64 => put(&i64.to_ne_bytes()),
        Dtype::F16 => put(&f16::from_f32(float).to_f32().to_ne_bytes()),
        Dtype::BF16 => put(&bf16::from_f32(float).to_f32().to_ne_bytes()),
        Dtype::F32 => put(&float.to_ne_bytes()),
        Dtype::F64 => put(&n.as_f64().to_ne_bytes()),
        Dtype::C64 => put(bytemuck::bytes_of(&n.as_complex())),
    }
    out
}

//! Opcodes without a loop of their own: lane by lane through the table's meaning.

use super::ops::Arg;
use crate::elem::{Elem, by_dtype};
use isopace_core::op::Row;
use isopace_core::op::scalar_ops::{round, round_complex, wrap};
use isopace_core::{Complex, Dtype};

/// The dtype whose Rust type is the lane of this dtype.
pub fn lane(d: Dtype) -> Dtype {
    if matches!(d, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { d }
}

/// # Safety
/// As for [`super::ops::OpFn`], operands holding lanes of `takes`, `dst` lanes of `gives`.
pub unsafe fn run(row: Row, takes: Dtype, gives: Dtype, dst: *mut u8, n: usize, args: &[Arg; 3]) {
    let m = row.meaning();
    let arity = row.arity();
    by_dtype!(lane(takes), T => by_dtype!(lane(gives), R => {
        let out = dst.cast::<R>();
        for i in 0..n {
            let get = |k: usize| {
                let a = args[k.min(arity - 1)];
                // SAFETY: the caller promises n lanes of T, or one for a scalar.
                unsafe { *a.ptr.cast::<T>().add(if a.scalar { 0 } else { i }) }
            };
            let x = [get(0), get(1), get(2)];
            let y = match takes {
                Dtype::C64 => {
                    let x = x.map(|x| { let c = T::to_complex(x); num_complex::Complex::new(c.re as f64, c.im as f64) });
                    m.complex.map(|f| f(&x[..arity])).map(|z| R::of_complex(z, gives))
                }
                d if d.is_float() => m.float.map(|f| f(&x.map(T::to_f64)[..arity])).map(|v| R::of_f64(v, gives)),
                _ => m.int.map(|f| f(&x.map(T::to_i128)[..arity], takes)).map(|v| R::of_i128(v, gives)),
            };
            // SAFETY: the caller promises n lanes of R.
            unsafe { *out.add(i) = y.unwrap_or(R::ZERO) };
        }
    }));
}

/// Lanes to and from what [`Row::meaning`] computes with.
trait Wide: Elem {
    fn to_f64(self) -> f64;
    fn to_i128(self) -> i128;
    fn to_complex(self) -> Complex;
    fn of_f64(x: f64, d: Dtype) -> Self;
    fn of_i128(x: i128, d: Dtype) -> Self;
    fn of_complex(z: num_complex::Complex<f64>, d: Dtype) -> Self {
        Self::of_f64(z.re, d)
    }
}

macro_rules! ints {
    ($($t:ty),*) => { $(impl Wide for $t {
        fn to_f64(self) -> f64 { self as f64 }
        fn to_i128(self) -> i128 { self as i128 }
        fn to_complex(self) -> Complex { Complex::new(self as f32, 0.0) }
        fn of_f64(x: f64, _: Dtype) -> Self { x as $t }
        fn of_i128(x: i128, d: Dtype) -> Self { wrap(x, d) as $t }
    })* };
}
ints!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Wide for crate::elem::Flag {
    fn to_f64(self) -> f64 {
        self.0 as f64
    }
    fn to_i128(self) -> i128 {
        self.0 as i128
    }
    fn to_complex(self) -> Complex {
        Complex::new(self.0 as f32, 0.0)
    }
    fn of_f64(x: f64, _: Dtype) -> Self {
        Self((x != 0.0) as u8)
    }
    fn of_i128(x: i128, _: Dtype) -> Self {
        Self((x != 0) as u8)
    }
}

macro_rules! floats {
    ($($t:ty),*) => { $(impl Wide for $t {
        fn to_f64(self) -> f64 { self as f64 }
        fn to_i128(self) -> i128 { self as i128 }
        fn to_complex(self) -> Complex { Complex::new(self as f32, 0.0) }
        fn of_f64(x: f64, d: Dtype) -> Self { round(x, d) as $t }
        fn of_i128(x: i128, _: Dtype) -> Self { x as $t }
    })* };
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => { $(impl Wide for $t {
        fn to_f64(self) -> f64 { <$t>::to_f64(self) }
        fn to_i128(self) -> i128 { <$t>::to_f64(self) as i128 }
        fn to_complex(self) -> Complex { Complex::new(self.to_f32(), 0.0) }
        fn of_f64(x: f64, _: Dtype) -> Self { <$t>::from_f64(x) }
        fn of_i128(x: i128, _: Dtype) -> Self { <$t>::from_f64(x as f64) }
    })* };
}
halves!(half::f16, half::bf16);

impl Wide for Complex {
    fn to_f64(self) -> f64 {
        self.re as f64
    }
    fn to_i128(self) -> i128 {
        self.re as i128
    }
    fn to_complex(self) -> Complex {
        self
    }
    fn of_f64(x: f64, _: Dtype) -> Self {
        Complex::new(x as f32, 0.0)
    }
    fn of_i128(x: i128, _: Dtype) -> Self {
        Complex::new(x as f32, 0.0)
    }
    fn of_complex(z: num_complex::Complex<f64>, _: Dtype) -> Self {
        round_complex(z)
    }
}

//! Opcodes without a loop of their own: lane by lane through the table's meaning.

use super::ops::Args;
use crate::elem::by_dtype;
use isopace_core::op::Row;
use isopace_core::op::scalar_ops::{round, round_complex, wrap};
use isopace_core::{Complex, Dtype};

/// The dtype whose Rust type is the lane of this dtype.
pub fn lane(d: Dtype) -> Dtype {
    if matches!(d, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { d }
}

/// Lanes widened to what [`Row::meaning`] computes with, a few at a time.
const STRIP: usize = 64;

/// # Safety
/// As for [`super::ops::OpFn`], operands holding lanes of `takes`, `dst` lanes of `gives`.
pub unsafe fn run(row: Row, takes: Dtype, gives: Dtype, dst: *mut u8, n: usize, args: &Args) {
    let m = row.meaning();
    for at in (0..n).step_by(STRIP) {
        let len = STRIP.min(n - at);
        // SAFETY: passed on from the caller; the strip is inside the n lanes.
        unsafe {
            match takes {
                Dtype::C64 => {
                    let x = read(row, takes, at, len, args, |x| {
                        let c = x.complex();
                        num_complex::Complex::new(c.re as f64, c.im as f64)
                    });
                    let Some(f) = m.complex else { return };
                    write(gives, dst, at, len, |i| Value::Complex(f(&column(&x, i)[..row.arity()])));
                }
                d if d.is_float() => {
                    let x = read(row, takes, at, len, args, |x| x.float());
                    let Some(f) = m.float else { return };
                    write(gives, dst, at, len, |i| Value::Float(f(&column(&x, i)[..row.arity()])));
                }
                _ => {
                    let x = read(row, takes, at, len, args, |x| x.int());
                    let Some(f) = m.int else { return };
                    write(gives, dst, at, len, |i| Value::Int(f(&column(&x, i)[..row.arity()], takes)));
                }
            }
        }
    }
}

fn column<T: Copy>(x: &[[T; STRIP]; 3], i: usize) -> [T; 3] {
    [x[0][i], x[1][i], x[2][i]]
}

/// What a row computed for one lane.
enum Value {
    Int(i128),
    Float(f64),
    Complex(num_complex::Complex<f64>),
}

/// # Safety
/// As [`run`].
unsafe fn read<T: Copy + Default>(
    row: Row,
    takes: Dtype,
    at: usize,
    len: usize,
    args: &Args,
    widen: impl Fn(&dyn Wide) -> T,
) -> [[T; STRIP]; 3] {
    let mut out = [[T::default(); STRIP]; 3];
    for (o, a) in out.iter_mut().zip(&args[..row.arity()]) {
        by_dtype!(lane(takes), L => {
            for (i, o) in o[..len].iter_mut().enumerate() {
                // SAFETY: the caller promises n lanes of L, or one for a scalar.
                let x = unsafe { *a.ptr.cast::<L>().add(if a.scalar { 0 } else { at + i }) };
                *o = widen(&x);
            }
        });
    }
    out
}

/// # Safety
/// As [`run`].
unsafe fn write(gives: Dtype, dst: *mut u8, at: usize, len: usize, f: impl Fn(usize) -> Value) {
    by_dtype!(lane(gives), R => {
        for i in 0..len {
            let y = match f(i) {
                Value::Int(x) => R::of_i128(x, gives),
                Value::Float(x) => R::of_f64(x, gives),
                Value::Complex(z) => R::of_complex(z, gives),
            };
            // SAFETY: the caller promises n lanes of R.
            unsafe { *dst.cast::<R>().add(at + i) = y };
        }
    });
}

/// Lanes to and from what [`Row::meaning`] computes with.
trait Wide {
    fn float(&self) -> f64;
    fn int(&self) -> i128;
    fn complex(&self) -> Complex;
    fn of_f64(x: f64, d: Dtype) -> Self
    where
        Self: Sized;
    fn of_i128(x: i128, d: Dtype) -> Self
    where
        Self: Sized;
    fn of_complex(z: num_complex::Complex<f64>, d: Dtype) -> Self
    where
        Self: Sized,
    {
        Self::of_f64(z.re, d)
    }
}

macro_rules! ints {
    ($($t:ty),*) => { $(impl Wide for $t {
        fn float(&self) -> f64 { *self as f64 }
        fn int(&self) -> i128 { *self as i128 }
        fn complex(&self) -> Complex { Complex::new(*self as f32, 0.0) }
        fn of_f64(x: f64, _: Dtype) -> Self { x as $t }
        fn of_i128(x: i128, d: Dtype) -> Self { wrap(x, d) as $t }
    })* };
}
ints!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Wide for crate::elem::Flag {
    fn float(&self) -> f64 {
        self.0 as f64
    }
    fn int(&self) -> i128 {
        self.0 as i128
    }
    fn complex(&self) -> Complex {
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
        fn float(&self) -> f64 { *self as f64 }
        fn int(&self) -> i128 { *self as i128 }
        fn complex(&self) -> Complex { Complex::new(*self as f32, 0.0) }
        fn of_f64(x: f64, d: Dtype) -> Self { round(x, d) as $t }
        fn of_i128(x: i128, _: Dtype) -> Self { x as $t }
    })* };
}
floats!(f32, f64);

macro_rules! halves {
    ($($t:ty),*) => { $(impl Wide for $t {
        fn float(&self) -> f64 { self.to_f64() }
        fn int(&self) -> i128 { self.to_f64() as i128 }
        fn complex(&self) -> Complex { Complex::new(self.to_f32(), 0.0) }
        fn of_f64(x: f64, _: Dtype) -> Self { <$t>::from_f64(x) }
        fn of_i128(x: i128, _: Dtype) -> Self { <$t>::from_f64(x as f64) }
    })* };
}
halves!(half::f16, half::bf16);

impl Wide for Complex {
    fn float(&self) -> f64 {
        self.re as f64
    }
    fn int(&self) -> i128 {
        self.re as i128
    }
    fn complex(&self) -> Complex {
        *self
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

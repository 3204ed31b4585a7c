//! Functions as the peer's CPU build computes them in float32, where its accuracy is less than ours and
//! its random numbers show it: the same bits, not better ones.

use super::{reshape, view_as};
use crate::array::Array;
use crate::aval::Aval;
use crate::op::scalar_ops::{LOG_POLYNOMIAL, LOG_START, LOG_TABLE};
use crate::op::{Gather, Op};
use crate::{Dtype, Result};
use smallvec::smallvec;

/// `a b + c` rounded once to float32: the product is exact in float64.
fn fma(a: &Array, b: &Array, c: f32) -> Result<Array> {
    a.astype(Dtype::F64)?.multiply(b.astype(Dtype::F64)?)?.add(c as f64)?.astype(Dtype::F32)
}

/// A polynomial in x, the highest coefficient first.
fn polynomial(x: &Array, first: f32, rest: &[f32]) -> Result<Array> {
    let (&second, rest) = rest.split_first().unwrap_or((&0.0, &[]));
    let start = x.astype(Dtype::F64)?.multiply(first as f64)?.add(second as f64)?.astype(Dtype::F32)?;
    rest.iter().try_fold(start, |p, &c| fma(&p, x, c))
}

/// exp(x) for x in -80..=0: a polynomial times a power of two.
fn exp(x: &Array) -> Result<Array> {
    let y = x.multiply(std::f32::consts::LOG2_E)?;
    let whole = y.add(0.5)?.floor()?;
    let p = polynomial(
        &y.subtract(&whole)?,
        1.535_336_2e-4,
        &[1.339_887_4e-3, 9.618_437e-3, 5.550_332_5e-2, 2.402_264_8e-1, 6.931_472e-1, 1.0],
    )?;
    let power = whole.astype(Dtype::I32)?.add(127)?.left_shift(23)?;
    view_as(&power, Dtype::F32).multiply(p)
}

/// The error function with an absolute error of 1.5e-7.
///
/// # Source
/// Abramowitz and Stegun, Handbook of mathematical functions, 7.1.26.
pub(super) fn erf(x: &Array) -> Result<Array> {
    let v = x.astype(Dtype::F32)?;
    // exp underflows past the clip, where erf is 1 in float32.
    let v = v.minimum(8.0)?.maximum(-8.0)?;
    let t = polynomial(&v.abs()?, 0.3275911, &[1.0])?.reciprocal()?;
    let r = polynomial(&t, 1.061_405_4, &[-1.453_152_1, 1.421_413_8, -0.284_496_72, 0.254_829_6])?;
    let e = exp(&v.negative()?.multiply(&v)?)?.negative()?.multiply(&t)?;
    let y = fma(&e, &r, 1.0)?;
    v.greater(0.0)?.where_(&y, y.negative()?)?.astype(x.dtype())
}

/// [`log_f32`](crate::op::scalar_ops::log_f32) of zero, normal numbers and infinity.
pub(super) fn log(x: &Array) -> Result<Array> {
    let v = x.astype(Dtype::F32)?;
    let bits = view_as(&v, Dtype::I32);
    let above = bits.subtract(LOG_START)?;
    let k = above.right_shift(23)?;
    let z = view_as(&bits.subtract(k.left_shift(23)?)?, Dtype::F32).astype(Dtype::F64)?;
    let part = above.right_shift(19)?.bitwise_and(15)?;
    let inverse = take(&LOG_TABLE.map(|row| row.0), &part)?;
    let log = take(&LOG_TABLE.map(|row| row.1), &part)?;
    let r = z.multiply(inverse)?.subtract(1.0)?;
    let start = k.astype(Dtype::F64)?.multiply(std::f64::consts::LN_2)?.add(log)?;
    let r2 = r.square()?;
    let [a, b, c] = LOG_POLYNOMIAL;
    let tail = r2.multiply(a)?.add(r.multiply(b)?.add(c)?)?.multiply(&r2)?;
    let y = tail.add(start.add(&r)?)?.astype(Dtype::F32)?;
    let y = v.equal(0.0)?.where_(f32::NEG_INFINITY, y)?;
    v.isinf()?.where_(&v, y)?.astype(x.dtype())
}

/// Entries of a table.
fn take(table: &[f64], index: &Array) -> Result<Array> {
    let gather = Op::Gather(Gather { axes: smallvec![0], sizes: smallvec![1] });
    let mut whole = index.shape().clone();
    whole.push(1);
    let table = Array::from_slice(table, [table.len()])?;
    let inputs = smallvec![table, index.clone()];
    let entries = Array::lazy(gather, inputs, smallvec![], Aval::new(whole, Dtype::F64));
    Ok(reshape(&entries, index.shape().clone()))
}

/// log(1 + x) for x in (-1, 0], as the C library of that build's machine has it.
///
/// # Source
/// Sun's fdlibm, s_log1p.c, in its float32 form.
#[allow(clippy::excessive_precision)] // digits as in the source
pub(super) fn log1p(x: &Array) -> Result<Array> {
    let near = x.abs()?.less_equal(f32::from_bits(0x3e95_f61f))?;
    // 1 + x is 2^k (1 + f) with 1 + f about 1, and c what rounding 1 + x lost.
    let u = x.add(1.0)?;
    let bits = view_as(&u, Dtype::I32);
    let fraction = bits.bitwise_and(0x007f_ffff)?;
    let low = fraction.less(0x0035_04f7)?;
    let k = bits.right_shift(23)?.subtract(127)?.add(low.where_(0, 1)?)?.astype(Dtype::F32)?;
    let c = x.subtract(u.subtract(1.0)?)?.divide(&u)?;
    let f =
        view_as(&fraction.bitwise_or(low.where_(0x3f80_0000, 0x3f00_0000)?)?, Dtype::F32).subtract(1.0)?;
    let f = near.where_(x, f)?;

    let half = f.multiply(0.5)?.multiply(&f)?;
    let s = f.divide(f.add(2.0)?)?;
    let z = s.square()?;
    let mut r = z.multiply(1.479_819_9e-1f32)?;
    for c in [1.531_383_8e-1f32, 1.818_357_2e-1, 2.222_219_8e-1, 2.857_143e-1, 4e-1, 6.666_667e-1] {
        r = r.add(c)?.multiply(&z)?;
    }
    let tail = s.multiply(half.add(&r)?)?;
    let near_value = f.subtract(half.subtract(&tail)?)?;
    let small = k.multiply(9.058_000_6e-6f32)?.add(c)?;
    let far_value =
        k.multiply(6.931_381_2e-1f32)?.subtract(half.subtract(tail.add(small)?)?.subtract(&f)?)?;
    near.where_(near_value, far_value)
}

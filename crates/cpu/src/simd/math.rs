//! Elementary functions over float32 slices, branch-free so that the compiler vectorises them,
//! compiled once for each [`Isa`](crate::isa::Isa).
//!
//! The bound in ulp stated at each function is tested over the whole range of float32, with
//! signed zeros, subnormals, infinities and NaN, on every ISA. `f64` slices go through the
//! standard library (correct to about one ulp, not vectorised).

#![allow(clippy::excessive_precision, reason = "coefficients as they are published")]

use super::lanes::madd;

/// Adding and subtracting this rounds a float32 below 2^22 to an integer, ties to even.
const ROUND: f32 = 12582912.0;
const LN2_HI: f32 = 0.693_359_4;
const LN2_LO: f32 = -2.121_944_4e-4;

/// 2^n for n in -126..=127.
#[inline(always)]
fn two_to(n: i32) -> f32 {
    f32::from_bits(((n + 127) << 23) as u32)
}

/// `v · 2^n` for n in -252..=254, rounded once where the result is subnormal.
#[inline(always)]
fn scale_by(v: f32, n: i32) -> f32 {
    let half = n >> 1;
    v * two_to(half) * two_to(n - half)
}

/// exp(x) for one lane; 1.1 ulp.
#[inline(always)]
pub fn exp1<const FMA: bool>(x: f32) -> f32 {
    // Past these the result is infinity or zero; comparisons leave NaN alone.
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let t = madd::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = t - ROUND;
    let r = madd::<FMA>(n, -LN2_HI, x);
    let r = madd::<FMA>(n, -LN2_LO, r);
    let mut p = 1.987_569_1e-4;
    p = madd::<FMA>(p, r, 1.398_199_9e-3);
    p = madd::<FMA>(p, r, 8.333_452e-3);
    p = madd::<FMA>(p, r, 4.166_579_6e-2);
    p = madd::<FMA>(p, r, 1.666_666_5e-1);
    p = madd::<FMA>(p, r, 0.5);
    let y = madd::<FMA>(p, r * r, r) + 1.0;
    scale_by(y, (t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32).clamp(-252, 254))
}

/// exp(x) - 1 for one lane; 1.6 ulp.
#[inline(always)]
pub fn expm1_1<const FMA: bool>(a: f32) -> f32 {
    let x = if a > 89.0 { 89.0 } else { a };
    let x = if x < -18.0 { -18.0 } else { x };
    let t = madd::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = t - ROUND;
    let r = madd::<FMA>(n, -LN2_HI, x);
    let r = madd::<FMA>(n, -LN2_LO, r);
    let mut p = 1.987_569_1e-4;
    p = madd::<FMA>(p, r, 1.398_199_9e-3);
    p = madd::<FMA>(p, r, 8.333_452e-3);
    p = madd::<FMA>(p, r, 4.166_579_6e-2);
    p = madd::<FMA>(p, r, 1.666_666_5e-1);
    p = madd::<FMA>(p, r, 0.5);
    let p = madd::<FMA>(p, r * r, r);
    // 2^n p + (2^n - 1) over 2^(n - 1), so that n = 128 does not overflow before the end.
    let s =
        two_to((t.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32).wrapping_sub(1).clamp(-126, 127));
    let y = 2.0 * madd::<FMA>(s, p, s - 0.5);
    if a.abs() < 1e-4 { a * madd::<FMA>(a, 0.5, 1.0) } else { y }
}

/// ln of the mantissa of positive `x` in [√½, √2), and the exponent.
#[inline(always)]
fn log_parts<const FMA: bool>(x: f32) -> (f32, f32) {
    let small = x < f32::MIN_POSITIVE;
    let x = if small { x * 8388608.0 } else { x };
    let bits = x.to_bits() as i32;
    // The exponent such that the mantissa is at least √½.
    let e = bits.wrapping_sub(0x3f35_04f3) >> 23;
    let m = f32::from_bits(bits.wrapping_sub(e << 23) as u32);
    let e = e as f32 - if small { 23.0 } else { 0.0 };
    let f = m - 1.0;
    let z = f * f;
    let mut p = 7.037_683_6e-2;
    p = madd::<FMA>(p, f, -1.151_461e-1);
    p = madd::<FMA>(p, f, 1.167_699_9e-1);
    p = madd::<FMA>(p, f, -1.242_014_1e-1);
    p = madd::<FMA>(p, f, 1.424_932_3e-1);
    p = madd::<FMA>(p, f, -1.666_805_8e-1);
    p = madd::<FMA>(p, f, 2.000_071_5e-1);
    p = madd::<FMA>(p, f, -2.499_999_4e-1);
    p = madd::<FMA>(p, f, 3.333_333_1e-1);
    let y = madd::<FMA>(f * z, p, -0.5 * z);
    (f + y, e)
}

/// What a logarithm is where the formula does not hold.
#[inline(always)]
fn log_edges(x: f32, y: f32) -> f32 {
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    let y = if x < 0.0 { f32::NAN } else { y };
    if x < f32::INFINITY || x.is_nan() { if x.is_nan() { x } else { y } } else { x }
}

/// ln(x) for one lane; 1.5 ulp.
#[inline(always)]
pub fn log1<const FMA: bool>(x: f32) -> f32 {
    let (m, e) = log_parts::<FMA>(x);
    let y = madd::<FMA>(e, LN2_HI, madd::<FMA>(e, LN2_LO, m));
    log_edges(x, y)
}

#[inline(always)]
pub fn log2_1<const FMA: bool>(x: f32) -> f32 {
    let (m, e) = log_parts::<FMA>(x);
    // log2(e) = 1 + 0.44…: the product with the 1 is exact.
    log_edges(x, e + madd::<FMA>(m, 0.442_695_04, m))
}

#[inline(always)]
pub fn log10_1<const FMA: bool>(x: f32) -> f32 {
    let (m, e) = log_parts::<FMA>(x);
    let low = madd::<FMA>(e, -4.605_038_9e-6, m * std::f32::consts::LOG10_E);
    log_edges(x, madd::<FMA>(e, 0.301_034_6, low))
}

/// ln(1 + x) for one lane; 2 ulp.
#[inline(always)]
pub fn log1p_1<const FMA: bool>(x: f32) -> f32 {
    let u = 1.0 + x;
    // What the rounding of 1 + x lost: exact, from the larger of the two.
    let c = if x < 1.0 { x - (u - 1.0) } else { 1.0 - (u - x) };
    let y = log1::<FMA>(u) + c / u;
    let y = if x == -1.0 { f32::NEG_INFINITY } else { y };
    let y = if x < f32::INFINITY || x.is_nan() { y } else { x };
    if u == 1.0 { x } else { y }
}

/// tanh(x) for one lane; 5.5 ulp.
#[inline(always)]
pub fn tanh1<const FMA: bool>(a: f32) -> f32 {
    let x = if a > 7.998_811_7 { 7.998_811_7 } else { a };
    let x = if x < -7.998_811_7 { -7.998_811_7 } else { x };
    let s = x * x;
    let mut p = -2.760_768_5e-16;
    p = madd::<FMA>(p, s, 2.000_188e-13);
    p = madd::<FMA>(p, s, -8.604_672e-11);
    p = madd::<FMA>(p, s, 5.122_297e-8);
    p = madd::<FMA>(p, s, 1.485_722_4e-5);
    p = madd::<FMA>(p, s, 6.372_619e-4);
    p = madd::<FMA>(p, s, 4.893_524_6e-3);
    let mut q = 1.198_258_4e-6;
    q = madd::<FMA>(q, s, 1.185_347_1e-4);
    q = madd::<FMA>(q, s, 2.268_434_6e-3);
    q = madd::<FMA>(q, s, 4.893_525e-3);
    let y = x * p / q;
    if a.abs() < 4e-4 { a } else { y }
}

/// erf(x) for one lane; 2 ulp.
#[inline(always)]
pub fn erf1<const FMA: bool>(a: f32) -> f32 {
    let (t, s) = (a.abs(), a * a);
    let mut r = madd::<FMA>(-1.728_534_7e-5, t, 3.831_971_3e-4);
    let u = madd::<FMA>(-3.883_964_4e-3, t, 2.425_462_2e-2);
    r = madd::<FMA>(r, s, u);
    r = madd::<FMA>(r, t, -1.067_778_8e-1);
    r = madd::<FMA>(r, t, -6.348_466_9e-1);
    r = madd::<FMA>(r, t, -1.287_175_1e-1);
    r = madd::<FMA>(r, t, -t);
    // From 4 on the result is 1; the polynomial is only good to there.
    let r = if t > 4.0 { -20.0 } else { r };
    let far = (1.0 - exp1::<FMA>(r)).copysign(a);
    let mut p = -5.967_617e-4;
    p = madd::<FMA>(p, s, 4.991_194_2e-3);
    p = madd::<FMA>(p, s, -2.676_813_5e-2);
    p = madd::<FMA>(p, s, 1.128_199_3e-1);
    p = madd::<FMA>(p, s, -3.761_253_4e-1);
    p = madd::<FMA>(p, s, 1.283_791_7e-1);
    let near = madd::<FMA>(p, a, a);
    if t > 0.927_734_4 { far } else { near }
}

/// 1 / (1 + exp(-x)) for one lane; 2.5 ulp.
#[inline(always)]
pub fn sigmoid1<const FMA: bool>(x: f32) -> f32 {
    let e = exp1::<FMA>(-x.abs());
    let top = if x >= 0.0 { 1.0 } else { e };
    top / (1.0 + e)
}

/// x · sigmoid(x) for one lane; see [`silu`].
#[inline(always)]
pub fn silu1<const FMA: bool>(x: f32) -> f32 {
    x * sigmoid1::<FMA>(x)
}

/// 1 / sqrt(x) for one lane; 1 ulp.
#[inline(always)]
pub fn rsqrt1<const FMA: bool>(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// Magnitudes from here on are reduced by the standard library.
const TRIG_MAX: f32 = 1.0e6;

/// sin(x + turn · π/2) in float64, for |x| < 1e6.
#[inline(always)]
fn trig1(x: f32, turn: i32) -> f32 {
    const ROUND: f64 = 6755399441055744.0;
    let x = x as f64;
    let t = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = t - ROUND;
    let r = x - n * 1.570_796_326_734_125_6;
    let r = r - n * 6.077_100_506_506_192e-11;
    let q = (t.to_bits() as i32).wrapping_add(turn);
    let z = r * r;
    let s = r + r
        * z
        * (-1.666_666_666_666_4e-1
            + z * (8.333_333_330_95e-3 + z * (-1.984_126_98e-4 + z * (2.755_7e-6 - z * 2.5e-8))));
    let c = 1.0
        + z * (-0.5
            + z * (4.166_666_666_666e-2
                + z * (-1.388_888_888_8e-3 + z * (2.480_158e-5 - z * (2.755e-7 - z * 2.06e-9)))));
    let y = if q & 1 == 0 { s } else { c };
    (if q & 2 == 0 { y } else { -y }) as f32
}

#[inline(always)]
fn sin_lane<const FMA: bool>(x: f32) -> f32 {
    let y = trig1(x, 0);
    if x == 0.0 { x } else { y }
}

#[inline(always)]
fn cos_lane<const FMA: bool>(x: f32) -> f32 {
    trig1(x, 1)
}

/// x^y in float64, for positive finite normal x and finite y.
#[inline(always)]
fn pow_lane(x: f32, y: f32) -> f32 {
    let bits = (x as f64).to_bits() as i64;
    let e = (bits - 0x3fe6_a09e_667f_3bcd) >> 52;
    let m = f64::from_bits((bits - (e << 52)) as u64);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let p = 1.0 / 3.0
        + z * (0.2 + z * (1.0 / 7.0 + z * (1.0 / 9.0 + z * (1.0 / 11.0 + z * (1.0 / 13.0 + z / 15.0)))));
    let ln = 2.0 * s + 2.0 * s * z * p;
    // The exponent as a float, by the magic number: e is small.
    let e = f64::from_bits((e as u64).wrapping_add(0x4338_0000_0000_0000)) - 6755399441055744.0;
    let t = (e + ln * std::f64::consts::LOG2_E) * y as f64;
    let t = if t > 200.0 { 200.0 } else { t };
    let t = if t < -200.0 { -200.0 } else { t };
    let k = t + 6755399441055744.0;
    let n = k - 6755399441055744.0;
    let r = (t - n) * std::f64::consts::LN_2;
    let p = 1.0
        + r * (1.0
            + r * (0.5
                + r * (1.0 / 6.0
                    + r * (1.0 / 24.0
                        + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0 + r / 40320.0)))))));
    let two_n = f64::from_bits((k.to_bits() << 52).wrapping_add(1023 << 52));
    (p * two_n) as f32
}

macro_rules! unary {
    ($($(#[$m:meta])* $name:ident, $in_place:ident = $lane:ident;)*) => { $(
        crate::isa::multiversion! {
            $(#[$m])*
            pub fn $name(x: &[f32], out: &mut [f32]) {
                let (x, out) = (&x[..out.len()], out);
                for i in 0..out.len() {
                    out[i] = $lane::<FMA>(x[i]);
                }
            }
        }
        crate::isa::multiversion! {
            /// The same in place.
            pub fn $in_place(x: &mut [f32]) {
                for v in x.iter_mut() {
                    *v = $lane::<FMA>(*v);
                }
            }
        }
    )* };
}
unary! {
    /// exp(x); 1.1 ulp.
    exp, exp_in_place = exp1;
    /// exp(x) − 1; 1.6 ulp.
    expm1, expm1_in_place = expm1_1;
    /// ln(x); 1.5 ulp.
    log, log_in_place = log1;
    /// log2(x); 2 ulp.
    log2, log2_in_place = log2_1;
    /// log10(x); 2.5 ulp.
    log10, log10_in_place = log10_1;
    /// ln(1 + x); 2 ulp.
    log1p, log1p_in_place = log1p_1;
    /// tanh(x); 5.5 ulp.
    tanh, tanh_in_place = tanh1;
    /// erf(x); 2 ulp.
    erf, erf_in_place = erf1;
    /// 1 / (1 + exp(−x)); 2.5 ulp.
    sigmoid, sigmoid_in_place = sigmoid1;
    /// x / (1 + exp(−x)); 3.5 ulp, but 104 of the smallest steps below −87, where the result is
    /// under 2e-36.
    silu, silu_in_place = silu1;
    /// 1 / √x; 1.5 ulp.
    rsqrt, rsqrt_in_place = rsqrt1;
    /// Lanes of [`sin`] below 1e6.
    sin_small, sin_small_in_place = sin_lane;
    /// Lanes of [`cos`] below 1e6.
    cos_small, cos_small_in_place = cos_lane;
}

/// Values handled together where some may need the slow way.
const BLOCK: usize = 64;

/// sin(x); 0.6 ulp below 1e6, the standard library's above.
pub fn sin(x: &[f32], out: &mut [f32]) {
    for (x, o) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        sin_small(x, o);
        fix_large(x, o, f64::sin);
    }
}

/// cos(x); 0.6 ulp below 1e6, the standard library's above.
pub fn cos(x: &[f32], out: &mut [f32]) {
    for (x, o) in x.chunks(BLOCK).zip(out.chunks_mut(BLOCK)) {
        cos_small(x, o);
        fix_large(x, o, f64::cos);
    }
}

fn fix_large(x: &[f32], out: &mut [f32], f: fn(f64) -> f64) {
    let top = x.iter().fold(0, |a, v| a.max(v.to_bits() & 0x7fff_ffff));
    if top >= TRIG_MAX.to_bits() {
        for (x, o) in x.iter().zip(out).filter(|(x, _)| x.to_bits() & 0x7fff_ffff >= TRIG_MAX.to_bits()) {
            *o = f(*x as f64) as f32;
        }
    }
}

crate::isa::multiversion! {
    fn pow_usual(x: &[f32], y: &[f32], out: &mut [f32]) {
        let _ = FMA;
        let (x, y) = (&x[..out.len()], &y[..out.len()]);
        for i in 0..out.len() {
            out[i] = pow_lane(x[i], y[i]);
        }
    }
}

/// x^y; 0.6 ulp. Blocks of 64 with a zero, negative, subnormal or non-finite operand go through
/// the standard library.
pub fn pow(x: &[f32], y: &[f32], out: &mut [f32]) {
    for ((x, y), o) in x.chunks(BLOCK).zip(y.chunks(BLOCK)).zip(out.chunks_mut(BLOCK)) {
        let usual = x.iter().fold(true, |u, x| u & (x.to_bits().wrapping_sub(0x80_0000) < 0x7f00_0000))
            && y.iter().fold(true, |u, y| u & (y.to_bits() & 0x7fff_ffff < 0x7f80_0000));
        if usual {
            pow_usual(x, y, o);
        } else {
            for i in 0..o.len() {
                o[i] = x[i].powf(y[i]);
            }
        }
    }
}

/// Applies a function to every value of a float64 slice.
pub fn map_f64(x: &[f64], out: &mut [f64], f: impl Fn(f64) -> f64) {
    for (x, o) in x.iter().zip(out) {
        *o = f(*x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{self, Isa};

    /// erf in float64 by its series and continued fraction.
    fn erf64(x: f64) -> f64 {
        let a = x.abs();
        let y = if a < 2.5 {
            let (mut t, mut s) = (a, a);
            for n in 1..80 {
                t *= -a * a / n as f64;
                s += t / (2 * n + 1) as f64;
            }
            s * std::f64::consts::FRAC_2_SQRT_PI
        } else if a < 6.0 {
            let mut f = a;
            for k in (1..120).rev() {
                f = a + k as f64 / 2.0 / f;
            }
            1.0 - (-a * a).exp() / f / std::f64::consts::PI.sqrt()
        } else {
            1.0
        };
        if x.is_nan() { x } else { y.copysign(x) }
    }

    /// The distance in units of the last place of the float32 nearest to `want`.
    fn ulps(got: f32, want: f64) -> f64 {
        let near = want as f32;
        if got.to_bits() == near.to_bits() || got.is_nan() && want.is_nan() {
            return 0.0;
        }
        if got.is_nan() || want.is_nan() || got.is_infinite() != near.is_infinite() {
            // One step past the largest finite value is a rounding.
            let edge = |v: f64| v.abs() > f32::MAX as f64 * (1.0 - 1e-6);
            return if edge(got as f64) && edge(want) { 1.0 } else { f64::INFINITY };
        }
        let e = near.abs().max(f32::MIN_POSITIVE);
        let ulp = (f32::from_bits(e.to_bits() + 1) - e) as f64;
        (got as f64 - want).abs() / ulp
    }

    /// Every 4001st bit pattern, the neighbourhood of 0 and 1, and the edges.
    fn range() -> Vec<f32> {
        let mut v: Vec<f32> = (0..=u32::MAX).step_by(4001).map(f32::from_bits).collect();
        v.extend((0..200_000).map(|i| (i as f32 - 100_000.0) * 1.1e-3));
        v.extend((0..200_000).map(|i| (i as f32 - 100_000.0) * 1.3e-5));
        v.extend((0..40_000).map(|i| 1.0 + (i as f32 - 20_000.0) * 6e-8));
        v.extend([0.0, -0.0, 1.0, -1.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        v.extend([f32::MIN_POSITIVE, -f32::MIN_POSITIVE, f32::from_bits(1), -f32::from_bits(1)]);
        v
    }

    #[test]
    fn errors_over_the_whole_range() {
        type F = fn(&[f32], &mut [f32]);
        let rows: [(&str, F, fn(f64) -> f64, f64); 13] = [
            ("exp", exp, f64::exp, 1.1),
            ("expm1", expm1, f64::exp_m1, 1.6),
            ("log", log, f64::ln, 1.5),
            ("log2", log2, f64::log2, 2.0),
            ("log10", log10, f64::log10, 2.5),
            ("log1p", log1p, f64::ln_1p, 2.0),
            ("tanh", tanh, f64::tanh, 5.5),
            ("erf", erf, erf64, 2.0),
            ("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()), 2.5),
            ("silu", silu, |x| if x == f64::NEG_INFINITY { f64::NAN } else { x / (1.0 + (-x).exp()) }, 3.5),
            ("rsqrt", rsqrt, |x| 1.0 / x.sqrt(), 1.5),
            ("sin", sin, f64::sin, 0.6),
            ("cos", cos, f64::cos, 0.6),
        ];
        let x = range();
        let mut bad = String::new();
        for isa in Isa::ALL {
            for (name, f, model, bound) in rows {
                let mut out = vec![0.0; x.len()];
                if isa::with(isa, || f(&x, &mut out)).is_none() {
                    continue;
                }
                let mut worst = (0.0, 0.0, 0.0);
                for (x, y) in x.iter().zip(&out) {
                    if name == "silu" && (-110.0..-87.0).contains(x) {
                        assert!((*y as f64 - model(*x as f64)).abs() < 104.0 * 1.5e-45);
                        continue;
                    }
                    let u = ulps(*y, model(*x as f64));
                    if u > worst.0 {
                        worst = (u, *x, *y);
                    }
                }
                if worst.0 > bound {
                    bad += &format!("{name} {isa:?}: {} ulp at {:e}: {:e}\n", worst.0, worst.1, worst.2);
                }
                for zero in [0.0f32, -0.0] {
                    let mut o = [1.0];
                    f(&[zero], &mut o);
                    let want = model(zero as f64) as f32;
                    if o[0].to_bits() != want.to_bits() {
                        bad += &format!("{name} of {zero:?} is {:?}\n", o[0]);
                    }
                }
            }
        }
        assert!(bad.is_empty(), "{bad}");
    }

    #[test]
    fn powers() {
        let xs: Vec<f32> = (0..=0x7f80_0000u32).step_by(100_003).map(f32::from_bits).collect();
        let ys = [
            0.0,
            1.0,
            2.0,
            0.5,
            -1.0,
            3.7,
            -2.3,
            10.0,
            0.01,
            1e-3,
            33.0,
            -33.3,
            1e10,
            f32::INFINITY,
            f32::NAN,
        ];
        for isa in Isa::ALL {
            isa::with(isa, || {
                let mut out = vec![0.0; xs.len()];
                for y in ys {
                    pow(&xs, &vec![y; xs.len()], &mut out);
                    for (x, o) in xs.iter().zip(&out) {
                        let want = (*x as f64).powf(y as f64);
                        assert!(ulps(*o, want) <= 0.6, "{isa:?}: {x:e} ^ {y}: {o:e}, want {want:e}");
                    }
                }
                let mut o = [0.0; 4];
                pow(&[-2.0, -2.0, 0.0, -0.0], &[3.0, 0.5, -1.0, 3.0], &mut o);
                assert!(o[0] == -8.0 && o[1].is_nan() && o[2] == f32::INFINITY && o[3] == 0.0);
            });
        }
    }
}

//! Every function of the dialect against a straightforward model in Rust.

use half::{bf16, f16};

use super::*;

/// Distance of `got` from `want` in units of the last place of an f32 with `bits` of significand.
fn ulps(got: f64, want: f64, bits: i32, min_exp: i32) -> f64 {
    if got.is_nan() || want.is_nan() {
        return if got.is_nan() && want.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got == want {
        return 0.0;
    }
    if got.is_infinite() || want.is_infinite() {
        return f64::INFINITY;
    }
    let e = (want.abs().log2().floor() as i32).max(min_exp);
    (got - want).abs() / 2f64.powi(e - bits + 1)
}

struct One {
    name: &'static str,
    model: fn(f64) -> f64,
    low: f64,
    high: f64,
    ulp: f64,
}

const fn one(name: &'static str, model: fn(f64) -> f64, low: f64, high: f64, ulp: f64) -> One {
    One { name, model, low, high, ulp }
}

fn sign(x: f64) -> f64 {
    if x > 0.0 {
        1.0
    } else if x < 0.0 {
        -1.0
    } else {
        0.0
    }
}

use std::f64::consts::{LN_10, PI};

const ONES: &[One] = &[
    one("acos", f64::acos, -1.0, 1.0, 1.0),
    one("acosh", f64::acosh, 1.0, 1e6, 2.0),
    one("asin", f64::asin, -1.0, 1.0, 1.0),
    one("asinh", f64::asinh, -1e6, 1e6, 2.0),
    one("atan", f64::atan, -1e3, 1e3, 1.0),
    one("atanh", f64::atanh, -0.999, 0.999, 2.0),
    one("ceil", f64::ceil, -1e3, 1e3, 0.0),
    one("cos", f64::cos, -100.0, 100.0, 1.0),
    one("cosh", f64::cosh, -80.0, 80.0, 2.0),
    one("cospi", |x| if (x - 0.5).fract() == 0.0 { 0.0 } else { (x * PI).cos() }, -2.0, 2.0, 1.0),
    one("exp", f64::exp, -110.0, 90.0, 1.5),
    one("exp2", f64::exp2, -155.0, 130.0, 1.5),
    one("exp10", |x| (x * LN_10).exp(), -46.0, 39.0, 1.0),
    one("fabs", f64::abs, -1e3, 1e3, 0.0),
    one("abs", f64::abs, -1e3, 1e3, 0.0),
    one("floor", f64::floor, -1e3, 1e3, 0.0),
    one("fract", |x| x - x.floor(), -1e3, 1e3, 0.5),
    one("log", f64::ln, 0.0, 1e6, 1.5),
    one("log2", f64::log2, 0.0, 1e6, 2.0),
    one("log10", f64::log10, 0.0, 1e6, 2.0),
    one("rint", f64::round_ties_even, -1e3, 1e3, 0.0),
    one("round", f64::round, -1e3, 1e3, 0.0),
    one("rsqrt", |x| 1.0 / x.sqrt(), 1e-6, 1e6, 1.5),
    one("saturate", |x| x.clamp(0.0, 1.0), -2.0, 2.0, 0.0),
    one("sign", sign, -3.0, 3.0, 0.0),
    one("sin", f64::sin, -100.0, 100.0, 1.0),
    one("sinh", f64::sinh, -80.0, 80.0, 2.0),
    one("sinpi", |x| (x * PI).sin(), -0.9, 0.9, 1.0),
    one("sqrt", f64::sqrt, 0.0, 1e6, 0.5),
    one("tan", f64::tan, -1.5, 1.5, 1.0),
    one("tanh", f64::tanh, -10.0, 10.0, 2.5),
    one("tanpi", |x| (x * PI).tan(), -0.4, 0.4, 2.0),
    one("trunc", f64::trunc, -1e3, 1e3, 0.0),
    one("log1p", f64::ln_1p, -0.9, 1e3, 1.0),
    one("expm1", f64::exp_m1, -20.0, 20.0, 1.0),
    one("fast::exp", f64::exp, -80.0, 80.0, 1.5),
    one("metal::precise::sin", f64::sin, -3.0, 3.0, 1.0),
    one("metal::fast::tanh", f64::tanh, -3.0, 3.0, 2.5),
];

const PER: usize = 500;

fn samples(f: &One) -> Vec<f64> {
    (0..PER).map(|i| f.low + (f.high - f.low) * (i as f64 + 0.37) / PER as f64).collect()
}

/// Runs the table for one type; `value` must be exact.
fn check_ones<T: Elem>(
    dtype: Dtype,
    make: fn(f64) -> T,
    value: fn(T) -> f64,
    bits: i32,
    min_exp: i32,
    limit: f64,
) {
    let mut body = String::from("uint i = thread_position_in_grid.x;\n");
    for (k, f) in ONES.iter().enumerate() {
        body += &format!("out[{k} * P + i] = {}(x[{k} * P + i]);\n", f.name);
        body += &format!(
            "{{ vec<T, 4> v = {}(vec<T, 4>(x[{k} * P + i], 0.5, 0.25, x[{k} * P + i])); same[{k} * P + i] = as_type<I>(v.w) == as_type<I>(out[{k} * P + i]); }}\n",
            f.name
        );
    }
    let k = function("math_functions", &["x"], &["out", "same"], &body);
    let n = ONES.len() * PER;
    let x: Vec<T> = ONES.iter().flat_map(samples).map(make).collect();
    let mut out = [Data::zeros(dtype, n), Data::zeros(Dtype::Bool, n)];
    let bits_type = if dtype.size() == 2 {
        Dtype::U16
    } else if dtype.size() == 4 {
        Dtype::U32
    } else {
        Dtype::U64
    };
    let t = [("T", dt(dtype)), ("I", dt(bits_type)), ("P", int(PER as i64))];
    call(&k, &t, &mut [Data::of(&x)], &mut out, [PER as u32, 1, 1], [64, 1, 1]).unwrap();
    let (got, same): (Vec<T>, Vec<bool>) = (out[0].to(), out[1].to());
    for (f, (xs, gots)) in ONES.iter().zip(x.chunks(PER).zip(got.chunks(PER))) {
        let mut worst = (0.0, 0.0, 0.0);
        for (&x, &g) in xs.iter().zip(gots) {
            let want = value(make((f.model)(value(x))));
            let exact = (f.model)(value(x));
            // Overflow and rounding of the model itself happen in the type.
            let d = if want.is_infinite() {
                ulps(value(g), want, bits, min_exp)
            } else {
                ulps(value(g), exact, bits, min_exp)
            };
            if d > worst.0 {
                worst = (d, value(x), value(g));
            }
        }
        let allowed = (f.ulp + 0.01).max(0.5001).min(limit);
        assert!(
            worst.0 <= allowed,
            "{} of {dtype}: {} ulp at {} (got {}), allowed {allowed}",
            f.name,
            worst.0,
            worst.1,
            worst.2
        );
    }
    let bad = same.iter().position(|s| !s);
    assert!(
        bad.is_none_or(|i| value(got[i]).is_nan()),
        "vector form differs for {:?}",
        bad.map(|i| ONES[i / PER].name)
    );
}

#[test]
fn math_float() {
    check_ones::<f32>(Dtype::F32, |v| v as f32, f64::from, 24, -126, 9.0);
}
#[test]
fn math_half() {
    check_ones::<f16>(Dtype::F16, f16::from_f64, |v| v.to_f64(), 11, -14, 0.5101);
}
#[test]
fn math_bfloat() {
    check_ones::<bf16>(Dtype::BF16, bf16::from_f64, |v| v.to_f64(), 8, -126, 0.5101);
}

#[test]
fn special_values() {
    let x = [
        0.0f32,
        -0.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE / 2.0,
        1e-45,
        f32::MAX,
        -1.0,
        1.0,
    ];
    let names = [
        "exp", "exp2", "log", "log2", "log10", "tanh", "sqrt", "rsqrt", "isnan", "isinf", "isfinite",
        "isnormal", "signbit", "sign", "sinpi",
    ];
    let models: [fn(f32) -> f32; 15] = [
        f32::exp,
        f32::exp2,
        f32::ln,
        f32::log2,
        f32::log10,
        f32::tanh,
        f32::sqrt,
        |v| 1.0 / v.sqrt(),
        |v| f32::from(v.is_nan()),
        |v| f32::from(v.is_infinite()),
        |v| f32::from(v.is_finite()),
        |v| f32::from(v.is_normal()),
        |v| f32::from(v.is_sign_negative() as u8),
        |v| if v.is_nan() { 0.0 } else { sign(v.into()) as f32 },
        |v| if v.is_infinite() { f32::NAN } else { (f64::from(v) * PI).sin() as f32 },
    ];
    let mut body = String::from("uint i = thread_position_in_grid.x;\n");
    for (k, n) in names.iter().enumerate() {
        body += &format!("out[{k} * 10 + i] = {n}(x[i]);\n");
    }
    let k = function("special", &["x"], &["out"], &body);
    let mut out = [Data::zeros(Dtype::F32, 150)];
    call(&k, &[], &mut [Data::of(&x)], &mut out, [10, 1, 1], [10, 1, 1]).unwrap();
    let got: Vec<f32> = out[0].to();
    for (k, n) in names.iter().enumerate() {
        for (i, &v) in x.iter().enumerate() {
            // The sign of a NaN says nothing.
            if *n == "signbit" && v.is_nan() || *n == "sinpi" && v.abs() >= 1.0 && v.is_finite() {
                continue;
            }
            let (g, w) = (got[k * 10 + i], models[k](v));
            assert!(ulps(g.into(), w.into(), 24, -126) <= 2.5, "{n}({v}) = {g}, not {w}");
        }
    }
}

#[test]
fn two_and_three_arguments() {
    let rows: &[(&str, fn(f32, f32, f32) -> f32)] = &[
        ("atan2(a, b)", |a, b, _| a.atan2(b)),
        ("copysign(a, b)", |a, b, _| a.copysign(b)),
        ("fdim(a, b)", |a, b, _| if a > b { a - b } else { 0.0 }),
        ("fmax(a, b)", |a, b, _| a.max(b)),
        ("fmin(a, b)", |a, b, _| a.min(b)),
        ("max(a, 0)", |a, _, _| a.max(0.0)),
        ("min(half(a), 1.0f)", |a, _, _| half::f16::from_f32(a).to_f32().min(1.0)),
        ("fmod(a, b)", |a, b, _| a % b),
        ("pow(abs(a), b)", |a, b, _| (a.abs() as f64).powf(b as f64) as f32),
        ("powr(abs(a), b)", |a, b, _| (a.abs() as f64).powf(b as f64) as f32),
        ("nextafter(a, b)", |a, b, _| {
            if a < b {
                a.next_up()
            } else if a > b {
                a.next_down()
            } else {
                b
            }
        }),
        ("step(a, b)", |a, b, _| if b < a { 0.0 } else { 1.0 }),
        ("fma(a, b, c)", |a, b, c| a.mul_add(b, c)),
        ("a * b + c", |a, b, c| a * b + c),
        ("mix(a, b, c)", |a, b, c| a + (b - a) * c),
        ("clamp(a, -1.0, 1)", |a, _, _| a.clamp(-1.0, 1.0)),
        ("smoothstep(-2.0, 2.0, a)", |a, _, _| {
            let t = ((a + 2.0) / 4.0).clamp(0.0, 1.0);
            t * t * (3.0 - 2.0 * t)
        }),
        ("select(a, b, c > 0)", |a, b, c| if c > 0.0 { b } else { a }),
        ("max3(a, b, c)", |a, b, c| a.max(b).max(c)),
        ("min3(a, b, c)", |a, b, c| a.min(b).min(c)),
        ("median3(a, b, c)", |a, b, c| {
            let mut v = [a, b, c];
            v.sort_by(f32::total_cmp);
            v[1]
        }),
        ("ldexp(a, 3)", |a, _, _| a * 8.0),
        ("divide(a, b)", |a, b, _| a / b),
        ("as_type<float>(as_type<uint>(a) ^ 0x80000000u)", |a, _, _| -a),
        ("float(isordered(a, b)) + float(isunordered(a, NAN))", |_, _, _| 2.0),
        ("length(float2(a, b))", |a, b, _| (a * a + b * b).sqrt()),
        ("distance(float3(a, b, c), float3(1))", |a, b, c| {
            ((a - 1.0) * (a - 1.0) + (b - 1.0) * (b - 1.0) + (c - 1.0) * (c - 1.0)).sqrt()
        }),
        ("dot(float3(a, b, c), float3(c, a, b))", |a, b, c| a * c + b * a + c * b),
        ("cross(float3(a, b, c), float3(c, a, b)).y", |a, b, c| c * c - a * b),
        ("reflect(float2(a, b), float2(0, 1)).y", |_, b, _| b - (2.0 * b)),
        ("faceforward(float2(a, b), float2(1, 0), float2(c, 0)).x", |a, _, c| if c < 0.0 { a } else { -a }),
        ("modf(a, whole) + 0 * whole", |a, _, _| a.fract()),
        ("frexp(a, e) * (1 << (e + 10))", |a, _, _| a * 1024.0),
        ("sincos(a, whole) + 10 * whole", |a, _, _| a.sin() + 10.0 * a.cos()),
        ("M_PI_F + INFINITY * 0 == 0 ? 1 : MAXFLOAT", |_, _, _| f32::MAX),
        (
            "numeric_limits<float>::max() * 0 + numeric_limits<half>::max() + numeric_limits<short>::lowest() + Limits<uchar>::max",
            |_, _, _| 65504.0 - 32768.0 + 255.0,
        ),
        (
            "numeric_limits<bfloat>::epsilon() + numeric_limits<half>::epsilon() + numeric_limits<float>::epsilon()",
            |_, _, _| 2f32.powi(-7) + 2f32.powi(-10) + f32::EPSILON,
        ),
        ("a > 0 ? half(a) : 0", |a, _, _| if a > 0.0 { half::f16::from_f32(a).to_f32() } else { 0.0 }),
        ("a > 0 ? bfloat(a) : 0", |a, _, _| if a > 0.0 { half::bf16::from_f32(a).to_f32() } else { 0.0 }),
        ("half(a) * half(b) + half(c)", |a, b, c| {
            let h = half::f16::from_f32;
            (h(a) * h(b) + h(c)).to_f32()
        }),
        ("bfloat(a) * bfloat(b) + bfloat(c)", |a, b, c| {
            let h = half::bf16::from_f32;
            (h(a) * h(b) + h(c)).to_f32()
        }),
        ("half(a) * b", |a, b, _| half::f16::from_f32(a).to_f32() * b),
        ("bfloat(a) * b", |a, b, _| half::bf16::from_f32(a).to_f32() * b),
        ("bfloat(a) * 3", |a, _, _| half::bf16::from_f32(half::bf16::from_f32(a).to_f32() * 3.0).to_f32()),
        ("1.5h + half(a)", |a, _, _| (half::f16::from_f32(1.5) + half::f16::from_f32(a)).to_f32()),
        ("sign(a) * 0.1", |a, _, _| if a == 0.0 { 0.0 } else { a.signum() * 0.1 }),
        ("ceildiv(int(abs(a)) + 7, 3)", |a, _, _| ((a.abs() as i32 + 7 + 2) / 3) as f32),
    ];
    let mut body = String::from(
        "uint i = thread_position_in_grid.x; float a = x[i], b = y[i], c = z[i]; float whole = 0; int e = 0;\n",
    );
    for (k, r) in rows.iter().enumerate() {
        body += &format!("out[{k} * 97 + i] = {};\n", r.0);
    }
    let k = function("two_and_three", &["x", "y", "z"], &["out"], &body);
    let v = |m: usize, s: f32| -> Vec<f32> { (0..97).map(|i| (((i * m) % 97) as f32 - 48.0) * s).collect() };
    let (x, y, z) = (v(1, 0.071), v(17, 0.053), v(31, 0.037));
    let mut out = [Data::zeros(Dtype::F32, 97 * rows.len())];
    call(&k, &[], &mut [Data::of(&x), Data::of(&y), Data::of(&z)], &mut out, [97, 1, 1], [97, 1, 1]).unwrap();
    let got: Vec<f32> = out[0].to();
    for (k, r) in rows.iter().enumerate() {
        for i in 0..97 {
            let (g, w) = (got[k * 97 + i], (r.1)(x[i], y[i], z[i]));
            assert!(
                ulps(g.into(), w.into(), 24, -126) <= 1.0,
                "{} of {}, {}, {} = {g}, not {w}",
                r.0,
                x[i],
                y[i],
                z[i]
            );
        }
    }
}

macro_rules! integer_model {
    ($t:ty, $u:ty, $wide:ty, $x:expr, $y:expr) => {{
        let (x, y): ($t, $t) = ($x, $y);
        let bits = <$t>::BITS;
        vec![
            x.count_ones() as $t,
            x.leading_zeros() as $t,
            x.trailing_zeros() as $t,
            x.reverse_bits(),
            x.abs_diff(y) as $t,
            x.saturating_add(y),
            x.saturating_sub(y),
            ((x as $wide + y as $wide) >> 1) as $t,
            ((x as $wide + y as $wide + 1) >> 1) as $t,
            ((x as $wide * y as $wide) >> bits) as $t,
            x.rotate_left(y as u32 & (bits - 1)),
            x.max(y),
            x.min(y),
            if <$t>::MIN == 0 { x } else { (x as i128).unsigned_abs() as $t },
            ((x as $u as u128 >> 2) & 7) as $t,
            x.clamp(1, 7),
            ((x as $u & !(7 << 1)) | ((y as $u & 7) << 1)) as $t,
        ]
    }};
}

fn check_integers<T: Elem + PartialEq + std::fmt::Debug>(x: &[T], y: &[T], model: fn(T, T) -> Vec<T>) {
    let items = [
        "popcount(a)",
        "clz(a)",
        "ctz(a)",
        "reverse_bits(a)",
        "T(absdiff(a, b))",
        "addsat(a, b)",
        "subsat(a, b)",
        "hadd(a, b)",
        "rhadd(a, b)",
        "mulhi(a, b)",
        "rotate(a, b)",
        "max(a, b)",
        "min(a, b)",
        "abs(a)",
        "T(extract_bits(U(a), 2, 3))",
        "clamp(a, T(1), T(7))",
        "insert_bits(a, b, 1, 3)",
    ];
    let mut body = String::from(
        "uint i = thread_position_in_grid.x; T a = x[i], b = y[i]; constexpr uint n = 256;\nusing U = make_unsigned_t<T>;\n",
    );
    for (k, e) in items.iter().enumerate() {
        body += &format!("out[i * {} + {k}] = {e};\n", items.len());
    }
    let k = function("integers", &["x", "y"], &["out"], &body);
    let mut out = [Data::zeros(T::DTYPE, x.len() * items.len())];
    let n = x.len() as u32;
    call(&k, &[("T", dt(T::DTYPE))], &mut [Data::of(x), Data::of(y)], &mut out, [n, 1, 1], [n, 1, 1])
        .unwrap();
    let got: Vec<T> = out[0].to();
    for i in 0..x.len() {
        for (k, w) in model(x[i], y[i]).into_iter().enumerate() {
            assert_eq!(got[i * items.len() + k], w, "{} of {:?}, {:?} ({})", items[k], x[i], y[i], T::DTYPE);
        }
    }
}

#[test]
fn integer_functions() {
    let seeds: Vec<u64> = (0..60u64)
        .map(|i| (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (i % 50))
        .chain([0, 1, u64::MAX, 1 << 63, 0x8080_8080_8080_8080])
        .collect();
    macro_rules! go { ($($t:ty, $u:ty, $w:ty);*) => { $({
        let x: Vec<$t> = seeds.iter().map(|&v| v as $t).chain([<$t>::MIN, <$t>::MAX]).collect();
        let y: Vec<$t> = x.iter().rev().map(|&v| v.wrapping_mul(3)).collect();
        check_integers(&x, &y, |a, b| integer_model!($t, $u, $w, a, b));
    })* } }
    go!(u8, u8, u128; i8, u8, i128; u16, u16, u128; i16, u16, i128; u32, u32, u128; i32, u32, i128; u64, u64, u128; i64, u64, i128);
}

#[test]
fn vectors_and_swizzles() {
    let source = "float4 v(1, 2, 3, 4); float3 w(v.xy, 9.0); float2 u = v.zw; float4 z = 0.5f;
        out[0] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w; out[1] = w.z + float4(v.wzyx).x * 10 + v.a * 100;
        v.xy = v.yx; out[2] = v.x * 10 + v.y; v.zw += float2(5, 6); out[3] = v.z + 100 * v.w; u *= 2; out[4] = u.x + u[1] * 100;
        float4 s = v * 2 + z - float4(w, 1.0) / 2.0f; out[5] = s.x; out[6] = s.y; out[7] = s.z; out[8] = s.w;
        out[9] = all(v > 0) + 2 * any(v == 1) + 4 * any(v < float4(-1)); out[10] = dot(v, float4(1)); out[11] = select(v, z, v > 2.0f).x;
        int3 i(7, -8, 9); i = i % 4; out[12] = i.x + 10 * i.y + 100 * i.z; uchar4 c = uchar4(250, 1, 2, 3); c += uchar4(10); out[13] = c.x;
        out[14] = max(v, 2.5f).y; out[15] = clamp(v, 1.5f, 4.0f).z; half4 h = half4(v); out[16] = float(h.w) + float4(h).z;
        out[17] = sizeof(float3) + 100 * sizeof(packed_float3) + 10000 * sizeof(half2) + 1000000 * sizeof(uchar4);
        const device float4* p = (const device float4*)x; out[18] = p[1].y; const device packed_float3* q = (const device packed_float3*)x;
        out[19] = float3(q[1]).z; uint4 bits = as_type<uint4>(float4(1.0)); out[20] = bits.z == 0x3f800000u; bool3 b = !bool3(true, false, true);
        out[21] = b.x + 2 * b.y + 4 * b.z; out[22] = v.rgb[2] + v.rg[0]; out[23] = as_type<float>(as_type<uint>(half2(1.0h, 2.0h)));
        ulong l = 1ul << 40; out[24] = l >> 38; thread float* t = &v.y; *t = 42; out[25] = v.y; float3x(out);
        out[27] = exp2(float2(3, 4)).y + abs(int2(-3, 4)).x + fma(u, u, u).x; uint3 g = uint3(5); out[28] = g.z << 2; out[29] = (-w).x;
        out[30] = vec<short, 2>(3, 4).y; float m[2][3] = {{1, 2, 3}, {4, 5, 6}}; out[31] = m[1][2];";
    let text = KernelText {
        name: "vectors",
        input_names: &["x"],
        output_names: &["out"],
        source,
        header: "constant float table[3] = {1.5, 2.5, 3.5};\nconstant constexpr int three = 3;\nfloat pick(constant float* t, int i) { return t[i]; }\nvoid float3x(device float* o) { o[26] = pick(table, three - 1); }",
        ..Default::default()
    };
    let x: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let mut out = [Data::zeros(Dtype::F32, 32)];
    call(&function_with(text), &[], &mut [Data::of(&x)], &mut out, [1, 1, 1], [1, 1, 1]).unwrap();
    let h = f32::from_bits(0x4000_3c00);
    let want = [
        4321.0,
        9.0 + 40.0 + 400.0,
        21.0,
        8.0 + 1000.0,
        6.0 + 800.0,
        4.0,
        1.5,
        12.0,
        20.0,
        3.0,
        2.0 + 1.0 + 8.0 + 10.0,
        2.0,
        3.0 + 0.0 + 100.0,
        4.0,
        2.5,
        4.0,
        18.0,
        16.0 + 1200.0 + 40000.0 + 4_000_000.0,
        5.0,
        5.0,
        1.0,
        2.0,
        8.0 + 2.0,
        h,
        4.0,
        42.0,
        3.5,
        16.0 + 3.0 + 42.0,
        20.0,
        -1.0,
        4.0,
        6.0,
    ];
    assert_eq!(out[0].to::<f32>(), want);
}

#[test]
fn conversions_round_to_nearest_even() {
    let source = "uint i = thread_position_in_grid.x; h[i] = half(x[i]); b[i] = bfloat(x[i]); back[i] = float(h[i]) ; bback[i] = b[i]; hi[i] = half(int(i)); bi[i] = int(i);";
    let k = function("conversions", &["x"], &["h", "b", "back", "bback", "hi", "bi"], source);
    let mut x: Vec<f32> = (0..4000u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9))).collect();
    x.extend([
        0.0,
        -0.0,
        65504.0,
        65519.9,
        65520.0,
        6e-8,
        2.98e-8,
        2.99e-8,
        f32::MAX,
        f32::NAN,
        f32::INFINITY,
        1.0 + 1.0 / 2048.0,
        1.0 + 3.0 / 2048.0,
    ]);
    let n = x.len();
    let mut out =
        [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F32, Dtype::F16, Dtype::BF16].map(|d| Data::zeros(d, n));
    call(&k, &[], &mut [Data::of(&x)], &mut out, [n as u32, 1, 1], [256, 1, 1]).unwrap();
    let (h, b): (Vec<f16>, Vec<bf16>) = (out[0].to(), out[1].to());
    let (back, bback): (Vec<f32>, Vec<f32>) = (out[2].to(), out[3].to());
    let (hi, bi): (Vec<f16>, Vec<bf16>) = (out[4].to(), out[5].to());
    for i in 0..n {
        let (wh, wb) = (f16::from_f32(x[i]), bf16::from_f32(x[i]));
        if x[i].is_nan() {
            assert!(h[i].is_nan() && b[i].is_nan());
            continue;
        }
        assert_eq!((h[i].to_bits(), b[i].to_bits()), (wh.to_bits(), wb.to_bits()), "{:e}", x[i]);
        assert_eq!((back[i].to_bits(), bback[i].to_bits()), (wh.to_f32().to_bits(), wb.to_f32().to_bits()));
        assert_eq!((hi[i], bi[i]), (f16::from_f64(i as f64), bf16::from_f64(i as f64)));
    }
}

#[test]
fn every_dtype_passes_through() {
    let k = function("pass_all", &["a"], &["out"], "uint i = thread_position_in_grid.x; out[i] = a[i];");
    for d in Dtype::ALL {
        let mut input = Data::zeros(d, 64);
        for (i, w) in input.bytes.iter_mut().enumerate() {
            *w = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                & if d == Dtype::Bool { 0x0101_0101_0101_0101 } else { 0x3fff_3fff_3fff_3fff };
        }
        let mut out = [Data::zeros(d, 64)];
        call(&k, &[], &mut [input.clone()], &mut out, [64, 1, 1], [64, 1, 1]).unwrap();
        assert_eq!(out[0].bytes, input.bytes, "{d}");
    }
}

#[test]
fn elem_to_loc_finds_places_in_views() {
    let source = "uint i = thread_position_in_grid.x; out[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)] + 0 * x_shape[0];
        uint3 e(i % 3, i / 3 % 4, i / 12); also[i] = x[elem_to_loc(e, x_shape, x_strides, x_ndim)];";
    let k = function("places", &["x"], &["out", "also"], source);
    let base: Vec<i32> = (0..24).collect();
    let mut view = Data::of(&base);
    (view.shape, view.strides) = (vec![2, 4, 3], vec![1, 6, 2]);
    let mut out = [Data::zeros(Dtype::I32, 24), Data::zeros(Dtype::I32, 24)];
    call(&k, &[], &mut [view], &mut out, [24, 1, 1], [8, 1, 1]).unwrap();
    let want: Vec<i32> = (0..24).map(|i| i / 12 + i / 3 % 4 * 6 + i % 3 * 2).collect();
    assert_eq!((out[0].to::<i32>(), out[1].to::<i32>()), (want.clone(), want));
}

//! Codes of quantized values: floats of four and eight bits, and how codes stand in words.

/// Magnitudes of the 4-bit float (E2M1); bit 3 of a code is the sign.
const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

pub(super) fn fp4(code: u32) -> f32 {
    let x = FP4[(code & 7) as usize];
    if code & 8 == 0 { x } else { -x }
}

/// The nearest 4-bit float, the smaller magnitude of two equally near; zero has no sign.
pub(super) fn to_fp4(x: f32) -> u32 {
    let magnitude = FP4.windows(2).filter(|w| (w[0] + w[1]) / 2.0 < x.abs()).count() as u32;
    if x < 0.0 && magnitude > 0 { magnitude | 8 } else { magnitude }
}

/// The value of an fp8 (E4M3) byte: no infinities, 0x7f and 0xff are NaN.
pub(super) fn fp8(code: u8) -> f32 {
    let (exponent, fraction) = ((code >> 3 & 15) as i32, (code & 7) as f32);
    let x = match (exponent, code & 7) {
        (15, 7) => f32::NAN,
        (0, _) => fraction * (-9f32).exp2(),
        _ => (8.0 + fraction) * (exponent as f32 - 10.0).exp2(),
    };
    if code & 0x80 == 0 { x } else { -x }
}

/// The nearest fp8 byte, halves to even; what is too large gives 448, NaN stays NaN.
pub(super) fn to_fp8(x: f32) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let a = x.abs();
    if a.is_nan() {
        return sign | 0x7f;
    }
    if a >= 448.0 {
        return sign | 0x7e;
    }
    // Steps of 2^-9 below 2^-6, and 8 steps an octave above.
    let exponent = if a < (-6f32).exp2() { -6 } else { (a.to_bits() >> 23) as i32 - 127 };
    let steps = (a as f64 * (3.0 - exponent as f64).exp2()).round_ties_even() as i32;
    // A carry into the next octave carries into the exponent's bits.
    sign | ((exponent + 6) * 8 + steps) as u8
}

/// The exponent byte of the smallest power of two not below x, by 127; clamped, zero for nothing.
pub(super) fn to_e8m0(x: f32) -> u8 {
    if x == 0.0 {
        return 127;
    }
    // Float32's subnormals are normal in float64.
    let bits = (x as f64).to_bits();
    let ceil = (bits >> 52) as i32 - 1023 + i32::from(bits << 12 != 0);
    (ceil + 127).clamp(0, 254) as u8
}

pub(super) fn e8m0(code: u8) -> f64 {
    if code == 255 { f64::NAN } else { (code as f64 - 127.0).exp2() }
}

/// Reads `bits`-wide codes of a row of 32-bit words.
pub(super) fn unpack(words: &[u32], bits: usize, count: usize) -> Vec<u32> {
    (0..count).map(|j| (0..bits).map(|b| bit(words, j * bits + b) << b).sum()).collect()
}

fn bit(words: &[u32], at: usize) -> u32 {
    words[at / 32] >> (at % 32) & 1
}

pub(super) fn pack(codes: &[u32], bits: usize) -> Vec<u32> {
    let mut words = vec![0; codes.len() * bits / 32];
    for (j, code) in codes.iter().enumerate() {
        for b in 0..bits {
            let at = j * bits + b;
            words[at / 32] |= (code >> b & 1) << (at % 32);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_a_bit_stream() {
        let codes = [7, 6, 5, 4, 3, 2, 1, 0].repeat(4);
        let words = pack(&codes, 3);
        assert_eq!(words[0].to_le_bytes()[..3], [0x77, 0x39, 0x05]);
        for bits in [1, 2, 3, 4, 5, 6, 8] {
            let codes: Vec<u32> = (0..64).map(|i| i * 37 % (1 << bits)).collect();
            assert_eq!(unpack(&pack(&codes, bits), bits, 64), codes);
        }
    }

    #[test]
    fn small_floats_by_hand() {
        let nearest =
            [(0.25, 0), (0.26, 1), (-0.1, 0), (-0.3, 9), (2.5, 4), (3.5, 5), (5.0, 6), (5.1, 7), (1e9, 7)];
        for (x, code) in nearest {
            assert_eq!(to_fp4(x), code, "{x}");
        }
        for code in 0..=255u8 {
            let x = fp8(code);
            assert!(x.is_nan() || to_fp8(x) == code, "{code:#x} is {x}");
        }
        assert_eq!([fp8(0x38), fp8(0x7e), fp8(0x01), fp8(0x08)], [1.0, 448.0, 0.001953125, 0.015625]);
        // Halves go to even, also across an octave and out of the subnormals.
        let rounded =
            [1.0625, 1.1875, 1.9375, 0.0146484375, 500.0, f32::INFINITY, -0.0, 0.0009765625].map(to_fp8);
        assert_eq!(rounded, [0x38, 0x3a, 0x40, 0x08, 0x7e, 0x7e, 0x80, 0x00]);
        assert_eq!(to_fp8(f32::NAN), 0x7f);
        assert_eq!(
            [0.0, 1.0, 1.01, 0.5, 1e-45, 3e38, f32::INFINITY].map(to_e8m0),
            [127, 127, 128, 126, 0, 254, 254]
        );
    }
}

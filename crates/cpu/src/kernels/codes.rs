//! Codes of quantized values: small floats, and codes in a row's bit stream.

/// Magnitudes of the 4-bit float (E2M1); bit 3 of a code is the sign.
const FP4: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

pub fn fp4(code: u32) -> f32 {
    FP4[(code & 15) as usize]
}

/// The nearest 4-bit float, the smaller magnitude of two equally near; zero has no sign.
pub fn to_fp4(x: f32) -> u32 {
    const BETWEEN: [f32; 7] = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0];
    let magnitude = BETWEEN.iter().filter(|b| x.abs() > **b).count() as u32;
    magnitude | if x < 0.0 && magnitude > 0 { 8 } else { 0 }
}

/// The values of fp8 (E4M3) bytes: no infinities, 0x7f and 0xff are NaN.
static FP8: [f32; 256] = {
    let mut t = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        let magnitude = code as u32 & 0x7f;
        let x = match magnitude {
            0x7f => f32::NAN,
            0..8 => magnitude as f32 / 512.0,
            // The exponent's bias goes from 7 to 127.
            m => f32::from_bits((m << 20) + (120 << 23)),
        };
        t[code] = if code < 128 { x } else { -x };
        code += 1;
    }
    t
};

/// The value of an fp8 (E4M3) byte.
pub fn fp8(code: u8) -> f32 {
    FP8[code as usize]
}

/// The nearest fp8 byte, halves to even; what is too large gives 448, NaN stays NaN.
pub fn to_fp8(x: f32) -> u8 {
    let sign = ((x.to_bits() >> 24) & 0x80) as u8;
    let a = x.abs();
    let magnitude = if a.is_nan() {
        0x7f
    } else if a >= 448.0 {
        0x7e
    } else if a < 1.0 / 64.0 {
        (a * 512.0).round_ties_even() as u8
    } else {
        let bits = a.to_bits();
        let rounded = bits + 0x7ffff + ((bits >> 20) & 1);
        (((rounded >> 20) - (120 << 3)).min(0x7e)) as u8
    };
    sign | magnitude
}

/// The power of two of an exponent byte; 255 is NaN.
pub fn e8m0(code: u8) -> f32 {
    match code {
        255 => f32::NAN,
        0 => f32::from_bits(1 << 22),
        c => f32::from_bits((c as u32) << 23),
    }
}

/// The exponent byte of the smallest power of two not below x, clamped; 127 for zero.
pub fn to_e8m0(x: f32) -> u8 {
    if x == 0.0 {
        return 127;
    }
    let bits = (x as f64).to_bits();
    let ceil = (bits >> 52) as i32 - 1023 + (bits << 12 != 0) as i32;
    (ceil + 127).clamp(0, 254) as u8
}

/// Code `j` of `bits` in a row's little-endian bit stream of 32-bit words.
#[inline(always)]
pub fn code(words: &[u32], j: usize, bits: usize) -> u32 {
    let at = j * bits;
    let low = words[at / 32] >> (at % 32);
    let have = 32 - at % 32;
    let all = if have < bits { low | words[at / 32 + 1] << have } else { low };
    all & ((1u64 << bits) - 1) as u32
}

/// Writes codes into a row's words, which hold zeros.
pub fn pack(codes: &[u32], bits: usize, words: &mut [u32]) {
    for (j, &c) in codes.iter().enumerate() {
        let at = j * bits;
        words[at / 32] |= c << (at % 32);
        if at % 32 + bits > 32 {
            words[at / 32 + 1] |= c >> (32 - at % 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_floats_and_bit_streams() {
        for c in 0..=255u8 {
            let x = fp8(c);
            assert!(x.is_nan() || to_fp8(x) == c, "{c:#x} is {x}");
        }
        assert_eq!([fp8(0x38), fp8(0x7e), fp8(0x01), fp8(0x08)], [1.0, 448.0, 0.001953125, 0.015625]);
        assert_eq!([e8m0(0), e8m0(127), e8m0(1)], [(-127f32).exp2(), 1.0, (-126f32).exp2()]);
        for bits in [1, 2, 3, 4, 5, 6, 8] {
            let codes: Vec<u32> = (0..64).map(|i| i * 37 % (1 << bits)).collect();
            let mut words = vec![0; 2 * bits];
            pack(&codes, bits, &mut words);
            assert!(codes.iter().enumerate().all(|(j, &c)| code(&words, j, bits) == c));
        }
    }
}

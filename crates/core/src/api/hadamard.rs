//! Hadamard matrices of the orders 12, 20 and 28: a bit for each sign, lowest column first, set
//! where the entry is -1. The peer uses the same ones, so transforms agree.

use crate::array::Array;
use crate::error::Result;
use crate::{Dtype, bail};

const ORDER_12: [u32; 12] =
    [0x2, 0xaab, 0x3c8, 0x96e, 0xf20, 0x5ba, 0xc8c, 0x6e6, 0x23c, 0xb96, 0x8f0, 0xe5a];
const ORDER_20: [u32; 20] = [
    0x933de, 0x2e3bd, 0x5477b, 0xa0ef7, 0x499ef, 0x637c1, 0xc6ba2, 0x8d764, 0x1aee8, 0x359f0, 0xfa53,
    0x174a7, 0x26d4e, 0x45e9c, 0x83d39, 0xf7a6d, 0xef4fa, 0xdedd5, 0xbdf8b, 0x7bf36,
];
const ORDER_28: [u32; 28] = [
    0xcd69e7e, 0x9ad7c7d, 0x37ab8fb, 0x6d571f7, 0xd8ae3ef, 0xb3587df, 0x66b4f3f, 0xb467f43, 0x6acbe87,
    0xd593d8e, 0xab27b9c, 0x564f7b8, 0xac9aff0, 0x5b31fe1, 0x87fb325, 0xff66ca, 0x1decd95, 0x39ddb2a,
    0x71bf654, 0xe17eca9, 0xc2fd9d2, 0xfcf1299, 0xfbe2532, 0xf7c4ae4, 0xef8d549, 0xdf1ea13, 0xbe3d4a6,
    0x7e7a94c,
];

/// The Hadamard matrix of order `m`.
pub(crate) fn matrix(m: usize, dtype: Dtype) -> Result<Array> {
    let rows: &[u32] = match m {
        12 => &ORDER_12,
        20 => &ORDER_20,
        28 => &ORDER_28,
        _ => bail!(Internal, "[hadamard_transform] there is no matrix of order {m}"),
    };
    let signs = rows.iter().flat_map(|r| (0..m).map(move |j| if r >> j & 1 == 1 { -1.0f32 } else { 1.0 }));
    Array::from_slice(&signs.collect::<Vec<_>>(), [m, m])?.astype(dtype)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_orthogonal() {
        for rows in [&ORDER_12[..], &ORDER_20, &ORDER_28] {
            for (i, a) in rows.iter().enumerate() {
                for b in &rows[i + 1..] {
                    assert_eq!((a ^ b).count_ones() as usize, rows.len() / 2);
                }
            }
        }
    }
}

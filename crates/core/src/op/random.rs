//! Counter-based random words.

/// Threefry-2x32 with 20 rounds: two random words for a key and a counter.
///
/// # Source
/// Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011).
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let keys = [key[0], key[1], key[0] ^ key[1] ^ 0x1BD1_1BDA];
    let (mut a, mut b) = (counter[0].wrapping_add(keys[0]), counter[1].wrapping_add(keys[1]));
    for i in 0..5 {
        for r in ROTATIONS[i % 2] {
            a = a.wrapping_add(b);
            b = b.rotate_left(r) ^ a;
        }
        a = a.wrapping_add(keys[(i + 1) % 3]);
        b = b.wrapping_add(keys[(i + 2) % 3]).wrapping_add(i as u32 + 1);
    }
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of Random123.
    #[test]
    fn known_answers() {
        assert_eq!(threefry([0, 0], [0, 0]), [0x6b20_0159, 0x99ba_4efe]);
        assert_eq!(threefry([!0, !0], [!0, !0]), [0x1cb9_96fc, 0xbb00_2be7]);
        assert_eq!(threefry([0x13198a2e, 0x03707344], [0x243f6a88, 0x85a308d3]), [0xc492_3a9c, 0x483d_f7a0]);
    }
}

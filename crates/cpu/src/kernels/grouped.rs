//! Products with weights quantized in groups along their rows: MLX's affine format and the small
//! floats (mxfp4, mxfp8, nvfp4).
//!
//! A weight is `scale · value(code) + bias`, with a scale (and a bias, for integers) for each group.
//! Activations stay float32. With one vector the scale is taken out of the group's sum, and the
//! biases meet the sums of the vector's groups, which are taken once: a code costs one conversion
//! and one multiply–add. With several vectors, strips of rows are dequantized into panels and go
//! through the tiles of a dense product.
//!
//! For AVX-512, codes of 1, 2 and 4 bits are looked up: a vector holds 16 words of a row, a
//! permutation takes the low four bits of each lane as the index of a value, and a shift brings the
//! next code down. The vector is laid out to match once (`Vector`). Other widths are cut out of
//! their bit stream 16 codes at a time.

use super::codes::{code, e8m0, fp4, fp8};
use super::matmul::Mat;
use super::panel::{self, MR, NR};
use super::vecmat;
use crate::pool::{self, Shared};
use crate::scratch::Elems;
use crate::simd::convert::Load;

use half::{bf16, f16};
use isopace_core::{Result, err};
use std::cell::RefCell;

/// Scales or biases as they are stored, one for each group.
#[derive(Debug)]
pub enum Groups<'a> {
    /// float32.
    F32(Elems<'a, f32>),
    /// float16.
    F16(Elems<'a, f16>),
    /// bfloat16.
    BF16(Elems<'a, bf16>),
    /// 8-bit floats (E4M3).
    Fp8(Elems<'a, u8>),
    /// Powers of two by their exponent's byte.
    E8m0(Elems<'a, u8>),
}

impl Groups<'_> {
    fn len(&self) -> usize {
        match self {
            Groups::F32(x) => x.len(),
            Groups::F16(x) => x.len(),
            Groups::BF16(x) => x.len(),
            Groups::Fp8(x) | Groups::E8m0(x) => x.len(),
        }
    }

    /// Rounds to the type, where it is that of the weights' values.
    fn round(&self, x: f32) -> f32 {
        match self {
            Groups::F16(_) => f16::from_f32(x).to_f32(),
            Groups::BF16(_) => bf16::from_f32(x).to_f32(),
            Groups::F32(_) | Groups::Fp8(_) | Groups::E8m0(_) => x,
        }
    }

    /// The values from `at` on.
    fn read(&self, at: usize, out: &mut [f32]) {
        let n = out.len();
        match self {
            Groups::F32(x) => out.copy_from_slice(&x[at..at + n]),
            Groups::F16(x) => f16::widen(&x[at..at + n], out),
            Groups::BF16(x) => bf16::widen(&x[at..at + n], out),
            Groups::Fp8(x) => out.iter_mut().zip(&x[at..]).for_each(|(o, x)| *o = fp8(*x)),
            Groups::E8m0(x) => out.iter_mut().zip(&x[at..]).for_each(|(o, x)| *o = e8m0(*x)),
        }
    }
}

/// What a code stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// An unsigned integer.
    Int,
    /// A 4-bit float (E2M1).
    Fp4,
    /// An 8-bit float (E4M3).
    Fp8,
}

impl Code {
    fn value(self, c: u32) -> f32 {
        match self {
            Code::Int => c as f32,
            Code::Fp4 => fp4(c),
            Code::Fp8 => fp8(c as u8),
        }
    }
}

/// A matrix quantized in groups.
#[derive(Debug)]
pub struct Grouped<'a> {
    /// Rows, each `cols · bits / 32` words of codes.
    pub rows: usize,
    /// Columns, a multiple of `group`.
    pub cols: usize,
    /// Columns that share a scale.
    pub group: usize,
    /// Bits of a code, 1 to 8; code j of a row starts at bit `j · bits` of its words.
    pub bits: usize,
    /// What a code stands for.
    pub code: Code,
    /// The codes of all rows.
    pub words: Elems<'a, u32>,
    /// `rows · cols / group` scales.
    pub scales: Groups<'a>,
    /// As many biases, where there are any.
    pub biases: Option<Groups<'a>>,
}

/// Rows of a strip: one chunk of work, and a panel of a product with several vectors.
const STRIP: usize = NR;

/// A cache line of values: what is loaded whole does not straddle two.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Line([f32; 16]);

/// A vector laid out for the kernel in use, with the sums of its groups.
#[derive(Default)]
struct Vector {
    x: Vec<Line>,
    sums: Vec<f32>,
}

#[derive(Default)]
struct Scratch {
    scales: Vec<f32>,
    biases: Vec<f32>,
    rows: Vec<f32>,
    panel: Vec<f32>,
}

thread_local! {
    static VECTOR: RefCell<Vector> = RefCell::default();
    static VECTORS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Grouped<'_> {
    pub(crate) fn check(&self) -> Result<()> {
        let (rows, cols, group, bits) = (self.rows, self.cols, self.group, self.bits);
        let whole = group != 0 && cols.is_multiple_of(group) && (1..=8).contains(&bits);
        let words = cols.checked_mul(bits).filter(|b| b.is_multiple_of(32)).map(|b| b / 32 * rows);
        let groups = rows * cols.checked_div(group).unwrap_or(0);
        let counts = self.scales.len() == groups && self.biases.as_ref().is_none_or(|b| b.len() == groups);
        if !whole || words != Some(self.words.len()) || !counts {
            return Err(err!(
                Shape,
                "[quantized_matmul] {} words and {} scales for {rows} × {cols} codes of {bits} bits in groups of {group}",
                self.words.len(),
                self.scales.len()
            ));
        }
        Ok(())
    }

    /// Row `r` as MLX's dequantize gives it: in the affine format the product with the scale and the
    /// sum with the bias are each rounded to their type.
    pub fn row(&self, r: usize, out: &mut [f32]) {
        let words = &self.words[r * self.words()..][..self.words()];
        let groups = self.cols / self.group;
        for (g, o) in out.chunks_mut(self.group).enumerate() {
            let (mut s, mut b) = ([0.0], [0.0]);
            self.scales.read(r * groups + g, &mut s);
            for (k, o) in o.iter_mut().enumerate() {
                *o = self.scales.round(self.code.value(code(words, g * self.group + k, self.bits)) * s[0]);
            }
            if let Some(biases) = &self.biases {
                biases.read(r * groups + g, &mut b);
                o.iter_mut().for_each(|o| *o = self.scales.round(*o + b[0]));
            }
        }
    }

    /// Words of a row.
    fn words(&self) -> usize {
        self.cols * self.bits / 32
    }

    /// Scales, or biases, of `n` rows from `first` on, and 16 zeros, so that a vector may start at any.
    fn groups_of(&self, of: &Groups<'_>, first: usize, n: usize, out: &mut Vec<f32>) {
        let groups = self.cols / self.group;
        out.resize(n * groups, 0.0);
        of.read(first * groups, out);
        out.resize(n * groups + 16, 0.0);
    }

    /// Dequantizes `n` rows from `first` on.
    fn values(&self, first: usize, n: usize, t: &mut Scratch) {
        let groups = self.cols / self.group;
        self.groups_of(&self.scales, first, n, &mut t.scales);
        t.biases.clear();
        match &self.biases {
            Some(b) => self.groups_of(b, first, n, &mut t.biases),
            None => t.biases.resize(n * groups, 0.0),
        }
        t.rows.resize(n * self.cols, 0.0);
        let words = &self.words[first * self.words()..][..n * self.words()];
        let (bits, code) = (self.bits, self.code);
        crate::isa::dispatch!(
            avx512: avx512::values(words, bits, code, self.group, &t.scales, &t.biases, &mut t.rows),
            avx2: values(words, bits, code, self.cols, self.group, &t.scales, &t.biases, &mut t.rows),
            portable: values(words, bits, code, self.cols, self.group, &t.scales, &t.biases, &mut t.rows),
        )
    }
}

/// Dequantizes all rows to `out`, row after row.
///
/// # Errors
/// A length that does not fit.
pub fn dequantize(w: &Grouped<'_>, out: &mut [f32]) -> Result<()> {
    w.check()?;
    if w.rows.checked_mul(w.cols) != Some(out.len()) {
        return Err(err!(Shape, "[dequantize] {} × {} values into {}", w.rows, w.cols, out.len()));
    }
    let per = (16384 / w.cols.max(1)).max(1);
    pool::for_chunks(out, per * w.cols, |i, out| {
        SCRATCH.with_borrow_mut(|t| {
            w.values(i * per, out.len() / w.cols, t);
            out.copy_from_slice(&t.rows[..out.len()]);
        });
    });
    Ok(())
}

/// Multiplies with `m` float32 vectors: `out[i] = W x[i]`, both dense.
///
/// # Errors
/// A length that does not fit.
pub fn qmatmul_grouped(w: &Grouped<'_>, x: &[f32], m: usize, out: &mut [f32]) -> Result<()> {
    w.check()?;
    if m.checked_mul(w.cols) != Some(x.len()) || m.checked_mul(w.rows) != Some(out.len()) {
        return Err(err!(
            Shape,
            "[quantized_matmul] {m} vectors of {} in and {} out; got {} and {} elements",
            w.cols,
            w.rows,
            x.len(),
            out.len()
        ));
    }
    if w.cols == 0 || out.is_empty() {
        out.fill(0.0);
        return Ok(());
    }
    if m == 1 {
        one(w, x, out);
    } else {
        several(w, x, m, out);
    }
    Ok(())
}

fn one(w: &Grouped<'_>, x: &[f32], out: &mut [f32]) {
    // About 16 KiB of codes a chunk.
    let per = (4096 / w.words()).max(1).next_multiple_of(4);
    #[cfg(target_arch = "x86_64")]
    if crate::isa::isa() == crate::isa::Isa::Avx512 && w.group.is_multiple_of(16) {
        VECTOR.with_borrow_mut(|v| {
            v.set(w, x);
            let v = &*v;
            pool::for_chunks(out, per, |i, out| {
                SCRATCH.with_borrow_mut(|t| {
                    w.groups_of(&w.scales, i * per, out.len(), &mut t.scales);
                    t.biases.clear();
                    if let Some(b) = &w.biases {
                        w.groups_of(b, i * per, out.len(), &mut t.biases);
                    }
                    let words = &w.words[i * per * w.words()..][..out.len() * w.words()];
                    crate::isa::dispatch!(
                        avx512: avx512::rows(w, v, words, &t.scales, &t.biases, out),
                        avx2: unreachable!("chosen for AVX-512 alone"),
                        portable: unreachable!("chosen for AVX-512 alone"),
                    )
                })
            });
        });
        return;
    }
    pool::for_chunks(out, per, |i, out| {
        SCRATCH.with_borrow_mut(|t| {
            w.values(i * per, out.len(), t);
            let rows = Mat::dense(&t.rows, out.len(), w.cols).expect("rows of values");
            vecmat::dots(x, rows, &[], out, out.len());
        })
    });
}

fn several(w: &Grouped<'_>, x: &[f32], m: usize, out: &mut [f32]) {
    let shared = Shared::new(out);
    VECTORS.with_borrow_mut(|packed| {
        packed.resize(panel::packed_len(m, w.cols, MR), 0.0);
        panel::pack_parallel::<f32, MR>(Mat::dense(x, m, w.cols).expect("checked vectors"), packed);
        let packed = &packed[..];
        pool::parallel_for(w.rows.div_ceil(STRIP), |s| {
            let (first, n) = (s * STRIP, STRIP.min(w.rows - s * STRIP));
            SCRATCH.with_borrow_mut(|t| {
                w.values(first, n, t);
                t.panel.resize(panel::packed_len(n, w.cols, NR), 0.0);
                panel::pack::<f32, NR>(
                    Mat::dense(&t.rows, n, w.cols).expect("a strip of rows"),
                    &mut t.panel,
                );
                super::gemv::strip_product(packed, &t.panel, w.cols, m, &shared, w.rows, first);
            });
        });
    });
}

crate::isa::multiversion! {
    /// Dequantizes rows of `cols` codes.
    fn values(words: &[u32], bits: usize, code_: Code, cols: usize, group: usize, scales: &[f32], biases: &[f32], out: &mut [f32]) {
        let _ = FMA;
        let table: [f32; 256] = std::array::from_fn(|c| code_.value(c as u32));
        for (words, row) in words.chunks_exact(cols * bits / 32).zip(out.chunks_exact_mut(cols)) {
            for (j, o) in row.iter_mut().enumerate() {
                *o = table[code(words, j, bits) as usize];
            }
        }
        for ((o, s), b) in out.chunks_exact_mut(group).zip(scales).zip(biases) {
            for o in o {
                *o = *o * s + b;
            }
        }
    }
}

impl Vector {
    /// Lays `x` out for [`avx512::rows`].
    fn set(&mut self, w: &Grouped<'_>, x: &[f32]) {
        let per = lookup(w);
        let n = per.unwrap_or(1);
        self.x.clear();
        self.x.resize(x.len().next_multiple_of(16 * n) / 16, Line::default());
        for (o, x) in self.x.chunks_exact_mut(n).zip(x.chunks(16 * n)) {
            for (lane, x) in x.chunks(n).enumerate() {
                for (o, x) in o.iter_mut().zip(x) {
                    o.0[lane] = *x;
                }
            }
        }
        self.sums.clear();
        if w.biases.is_some() {
            self.sums.extend(x.chunks(w.group).map(|x| x.iter().sum::<f32>()));
            self.sums.resize((w.cols / w.group).next_multiple_of(16), 0.0);
        }
    }
}

/// Codes in a word, where they are looked up word by word.
fn lookup(w: &Grouped<'_>) -> Option<usize> {
    let per = 32 / w.bits;
    let fits =
        matches!(w.bits, 1 | 2 | 4) && w.group.is_multiple_of(per) && (16 * per).is_multiple_of(w.group);
    fits.then_some(per)
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use crate::kernels::vecmat::padded;
    use crate::simd::lanes::at;
    use crate::simd::lanes::x86::*;
    use std::arch::x86_64::*;

    /// Products of `out.len()` rows with the vector; `biases` is empty where there are none.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn rows(
        w: &Grouped<'_>,
        v: &Vector,
        words: &[u32],
        scales: &[f32],
        biases: &[f32],
        out: &mut [f32],
    ) {
        match (lookup(w), w.bits) {
            (Some(_), 1) => rows_of::<1>(w, v, words, scales, biases, out),
            (Some(_), 2) => rows_of::<2>(w, v, words, scales, biases, out),
            (Some(_), _) => rows_of::<4>(w, v, words, scales, biases, out),
            (None, _) => rows_of::<0>(w, v, words, scales, biases, out),
        }
    }

    /// [`rows`] for codes of `BITS` bits that are looked up, or, for 0, for codes that are cut.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn rows_of<const BITS: u32>(
        w: &Grouped<'_>,
        v: &Vector,
        words: &[u32],
        scales: &[f32],
        biases: &[f32],
        out: &mut [f32],
    ) {
        let (n, groups) = (w.words(), w.cols / w.group);
        let (look, cut) = (Look::new(w), Cut::new(w.bits, w.code));
        for (c, out) in out.chunks_mut(4).enumerate() {
            let mut total = [_mm512_setzero_ps(); 4];
            // One row after the other: few loads that walk on without a jump are what the hardware
            // prefetches.
            for a in 0..out.len() {
                let row = c * 4 + a;
                let (words, scales) = (&words[row * n..], &scales[row * groups..]);
                let mut sum = if BITS == 0 {
                    cut.row(&v.x[..w.cols / 16], bytemuck::cast_slice(words), w.group, scales)
                } else {
                    look.row::<BITS>(&v.x, words, n, scales)
                };
                for (i, sums) in v.sums.as_chunks::<16>().0.iter().enumerate() {
                    // What follows a row's biases is the next row's.
                    let bias = load_f32x16(at(biases, row * groups + 16 * i));
                    let own = first_lanes(groups - 16 * i);
                    sum = _mm512_mask3_fmadd_ps(bias, load_f32x16(sums), sum, own);
                }
                total[a] = sum;
            }
            match out.first_chunk_mut() {
                Some(four) => store_f32x4(four, sums_x16(total)),
                None => {
                    let mut four = [0f32; 4];
                    store_f32x4(&mut four, sums_x16(total));
                    out.copy_from_slice(&four[..out.len()]);
                }
            }
        }
    }

    /// The first `n` lanes of 16, or all.
    fn first_lanes(n: usize) -> __mmask16 {
        ((1u32 << n.min(16)) - 1) as __mmask16
    }

    /// Looks codes up, 16 words at a time.
    struct Look {
        table: __m512,
        /// The group, counted from the first word's, that each of 16 words belongs to.
        group_of: __m512i,
        /// Groups in 16 words.
        groups: usize,
    }

    impl Look {
        #[target_feature(enable = "avx512f")]
        fn new(w: &Grouped<'_>) -> Look {
            let (per, mask) = (32 / w.bits, (1u32 << w.bits) - 1);
            Look {
                table: load_f32x16(&std::array::from_fn(|i| w.code.value(i as u32 & mask))),
                group_of: load_i32x16(&std::array::from_fn(|i| (i * per / w.group) as i32)),
                groups: 16 * per / w.group,
            }
        }

        /// Sums of the scaled codes of a row of `n` words; others may follow.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn row<const BITS: u32>(&self, x: &[Line], words: &[u32], n: usize, scales: &[f32]) -> __m512 {
            let mut total = _mm512_setzero_ps();
            let blocks = x.chunks_exact(32 / BITS as usize).zip(words.chunks(16));
            for (b, (x, words)) in blocks.enumerate() {
                let mut v = match words.first_chunk() {
                    Some(whole) => load_i32x16(bytemuck::cast_ref::<[u32; 16], _>(whole)),
                    None => load_i32x16(bytemuck::cast_ref(&padded::<u32, 16>(words))),
                };
                let mut acc = _mm512_setzero_ps();
                for x in x {
                    acc = _mm512_fmadd_ps(_mm512_permutexvar_ps(v, self.table), load_f32x16(&x.0), acc);
                    v = _mm512_srli_epi32::<BITS>(v);
                }
                let s = _mm512_permutexvar_ps(self.group_of, load_f32x16(at(scales, b * self.groups)));
                // Lanes past the end of the row hold what follows it.
                total = _mm512_mask3_fmadd_ps(acc, s, total, first_lanes(n - b * 16));
            }
            total
        }
    }

    /// Cuts 16 codes out of a row's bytes.
    struct Cut {
        bits: usize,
        code: Code,
        /// For each lane the four bytes that hold its code, and where in them it starts.
        bytes: __m512i,
        shift: __m512i,
        mask: __m512i,
        table: __m512,
    }

    impl Cut {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn new(bits: usize, code: Code) -> Cut {
            let bytes: [u8; 64] = std::array::from_fn(|i| (i / 4 * bits / 8 + i % 4) as u8);
            Cut {
                bits,
                code,
                // Past the sixteenth byte there is nothing to take: the high bit gives zero.
                bytes: load_u8x64(&bytes.map(|b| if b < 16 { b } else { 0x80 })),
                shift: load_i32x16(&std::array::from_fn(|i| (i * bits % 8) as i32)),
                mask: _mm512_set1_epi32((1 << bits) - 1),
                table: load_f32x16(&std::array::from_fn(|i| fp4(i as u32))),
            }
        }

        /// Sums of the scaled codes of a row in their order, a group at a time.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn row(&self, x: &[Line], bytes: &[u8], group: usize, scales: &[f32]) -> __m512 {
            let mut total = _mm512_setzero_ps();
            for (g, (x, s)) in x.chunks_exact(group / 16).zip(scales).enumerate() {
                let mut acc = _mm512_setzero_ps();
                for (c, x) in x.iter().enumerate() {
                    acc = _mm512_fmadd_ps(self.values(bytes, g * group / 16 + c), load_f32x16(&x.0), acc);
                }
                total = _mm512_fmadd_ps(acc, _mm512_set1_ps(*s), total);
            }
            total
        }

        /// The values of codes 16 `c` to 16 `c` + 15.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        fn values(&self, row: &[u8], c: usize) -> __m512 {
            let from = &row[2 * self.bits * c..];
            let some = match from.first_chunk() {
                Some(all) => load_u8x16(all),
                None => load_u8x16(&padded(from)),
            };
            let codes = if self.bits == 8 {
                _mm512_cvtepu8_epi32(some)
            } else {
                let four = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(some), self.bytes);
                _mm512_and_si512(_mm512_srlv_epi32(four, self.shift), self.mask)
            };
            match self.code {
                Code::Int => _mm512_cvtepi32_ps(codes),
                Code::Fp4 => _mm512_permutexvar_ps(codes, self.table),
                Code::Fp8 => {
                    // The exponent's bias goes from 7 to 127 by a product, which makes subnormals right.
                    let magnitude = _mm512_and_si512(codes, _mm512_set1_epi32(0x7f));
                    let bits = _mm512_castsi512_ps(_mm512_slli_epi32::<20>(magnitude));
                    let value = _mm512_mul_ps(bits, _mm512_set1_ps(f32::from_bits(247 << 23)));
                    let nan = _mm512_cmpeq_epi32_mask(magnitude, _mm512_set1_epi32(0x7f));
                    let value = _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(f32::NAN));
                    let sign = _mm512_slli_epi32::<24>(_mm512_and_si512(codes, _mm512_set1_epi32(0x80)));
                    _mm512_or_ps(value, _mm512_castsi512_ps(sign))
                }
            }
        }
    }

    /// Dequantizes whole rows, whose groups stand one after the other.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) fn values(
        words: &[u32],
        bits: usize,
        code: Code,
        group: usize,
        scales: &[f32],
        biases: &[f32],
        out: &mut [f32],
    ) {
        if !group.is_multiple_of(16) {
            let cols = words.len() * 32 / bits;
            return super::values(words, bits, code, cols, group, scales, biases, out);
        }
        // Rows are whole words, so the codes of all rows are one stream.
        let (cut, bytes) = (Cut::new(bits, code), bytemuck::cast_slice(words));
        for (g, ((o, s), b)) in out.chunks_exact_mut(group).zip(scales).zip(biases).enumerate() {
            let (s, b) = (_mm512_set1_ps(*s), _mm512_set1_ps(*b));
            for (c, o) in o.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let v = cut.values(bytes, g * group / 16 + c);
                store_f32x16(o, _mm512_fmadd_ps(v, s, b));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::Lcg;
    use super::*;
    use crate::isa::{Isa, with};

    /// A row's result depends on no other row, not even on one that is not finite.
    #[test]
    fn a_row_gets_the_same_bits_in_any_company() {
        let mut r = Lcg(6);
        for (bits, code) in [
            (1, Code::Int),
            (2, Code::Int),
            (3, Code::Int),
            (4, Code::Int),
            (4, Code::Fp4),
            (5, Code::Int),
            (6, Code::Int),
            (8, Code::Int),
            (8, Code::Fp8),
        ] {
            let (rows, cols, group) = (9, 96, 32);
            let groups = cols / group;
            let words: Vec<u32> = (0..rows * cols * bits / 32).map(|_| r.next()).collect();
            let mut scales: Vec<f32> = (0..rows * groups).map(|_| r.float()).collect();
            let mut biases: Vec<f32> = (0..rows * groups).map(|_| r.float()).collect();
            for bad in [1, 4, 6] {
                scales[bad * groups..][..groups].fill(f32::NAN);
                biases[bad * groups..][..groups].fill(f32::INFINITY);
            }
            let part = |from: usize, n: usize| Grouped {
                rows: n,
                cols,
                group,
                bits,
                code,
                words: words[from * cols * bits / 32..][..n * cols * bits / 32].into(),
                scales: Groups::F32(scales[from * groups..][..n * groups].into()),
                biases: Some(Groups::F32(biases[from * groups..][..n * groups].into())),
            };
            let x: Vec<f32> = (0..3 * cols).map(|_| r.float()).collect();
            for (isa, m) in Isa::ALL.into_iter().flat_map(|isa| [(isa, 1), (isa, 3)]) {
                with(isa, || {
                    let (mut all, mut one) = (vec![0.0; m * rows], vec![0.0; m]);
                    qmatmul_grouped(&part(0, rows), &x[..m * cols], m, &mut all).unwrap();
                    for row in 0..rows {
                        qmatmul_grouped(&part(row, 1), &x[..m * cols], m, &mut one).unwrap();
                        for i in 0..m {
                            let (a, b) = (all[i * rows + row], one[i]);
                            let same = a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                            assert!(same, "{isa:?} {bits} {code:?} row {row}: {a} alone {b}");
                            let nan = [1, 4, 6].contains(&row) || code == Code::Fp8 && a.is_nan();
                            assert_eq!(a.is_nan(), nan, "{isa:?} {bits} {code:?} row {row}");
                        }
                    }
                });
            }
        }
    }

    #[test]
    fn wrong_lengths_are_errors_and_empty_is_fine() {
        let w = |rows: usize, words: &'static [u32], scales: &'static [f32]| Grouped {
            rows,
            cols: 32,
            group: 32,
            bits: 4,
            code: Code::Int,
            words: words.into(),
            scales: Groups::F32(scales.into()),
            biases: None,
        };
        let x = [1.0; 32];
        assert!(qmatmul_grouped(&w(1, &[0; 4], &[1.0]), &x, 1, &mut [0.0]).is_ok());
        assert!(qmatmul_grouped(&w(1, &[0; 3], &[1.0]), &x, 1, &mut [0.0]).is_err());
        assert!(qmatmul_grouped(&w(1, &[0; 4], &[]), &x, 1, &mut [0.0]).is_err());
        assert!(qmatmul_grouped(&w(1, &[0; 4], &[1.0]), &x[1..], 1, &mut [0.0]).is_err());
        assert!(qmatmul_grouped(&w(1, &[0; 4], &[1.0]), &x, 1, &mut [0.0; 2]).is_err());
        assert!(qmatmul_grouped(&w(0, &[], &[]), &x, 1, &mut []).is_ok());
        assert!(qmatmul_grouped(&w(1, &[0; 4], &[1.0]), &[], 0, &mut []).is_ok());
        assert!(dequantize(&w(1, &[0; 4], &[1.0]), &mut [0.0; 31]).is_err());
        assert!(dequantize(&w(0, &[], &[]), &mut []).is_ok());
    }
}

//! Float32 products of packed panels: the inner loop of matmul, prefill and attention.
//!
//! The left operand is packed into panels of [`MR`] rows, the right one into panels of [`NR`]
//! columns, both with k outermost, padded with zeros. A tile of the output, MR × NR, is one sum
//! over all of k per element, in order, held in registers; what it is does not depend on the
//! shape around it.

use super::matmul::Mat;
use crate::pool;
use crate::simd::convert::Load;
use crate::simd::lanes::madd;

/// Rows of a tile.
pub(crate) const MR: usize = 12;
/// Columns of a tile.
pub(crate) const NR: usize = 32;
/// A tile of the output.
pub(crate) type Tile = [[f32; NR]; MR];

/// Values of a line widened at a time while packing.
const RUN: usize = 64;

/// Floats of the packed form of `rows` × `k` in panels of `w` rows.
pub(crate) const fn packed_len(rows: usize, k: usize, w: usize) -> usize {
    rows.div_ceil(w) * w * k
}

/// Packs the rows of `a` in panels of `W`: element (r, c) goes to panel r / W at `c · W + r % W`.
/// The right operand of a product is packed as its transpose.
pub(crate) fn pack<T: Load, const W: usize>(a: Mat<'_, T>, dst: &mut [f32]) {
    let k = a.cols();
    for (p, dst) in dst[..packed_len(a.rows(), k, W)].chunks_exact_mut((W * k).max(1)).enumerate() {
        pack_panel::<T, W>(a, p * W, dst);
    }
}

/// [`pack`] on the pool.
pub(crate) fn pack_parallel<T: Load, const W: usize>(a: Mat<'_, T>, dst: &mut [f32]) {
    let panel = (W * a.cols()).max(1);
    let per = (16384 / panel).max(1);
    pool::for_chunks(&mut dst[..packed_len(a.rows(), a.cols(), W)], panel * per, |i, dst| {
        for (p, dst) in dst.chunks_exact_mut(panel).enumerate() {
            pack_panel::<T, W>(a, (i * per + p) * W, dst);
        }
    });
}

fn pack_panel<T: Load, const W: usize>(a: Mat<'_, T>, first: usize, dst: &mut [f32]) {
    let (k, n) = (a.cols(), W.min(a.rows() - first));
    let columns = dst.as_chunks_mut::<W>().0;
    if a.unit_rows() && n == W {
        for (c, o) in columns.iter_mut().enumerate() {
            T::widen(a.column(c, first, W), o);
        }
    } else if a.unit_columns() {
        let mut lines = [[0f32; RUN]; W];
        for (c, o) in columns.chunks_mut(RUN).enumerate() {
            for (r, line) in lines.iter_mut().enumerate().take(n) {
                T::widen(&a.slice(first + r)[c * RUN..][..o.len()], line);
            }
            transpose(&lines, o);
        }
    } else {
        for (c, o) in columns.iter_mut().enumerate().take(k) {
            for (r, o) in o.iter_mut().enumerate() {
                if r < n {
                    T::widen(std::slice::from_ref(a.at(first + r, c)), std::slice::from_mut(o));
                } else {
                    *o = 0.0;
                }
            }
        }
    }
}

#[inline]
fn transpose<const W: usize>(lines: &[[f32; RUN]; W], out: &mut [[f32; W]]) {
    for (c, o) in out.iter_mut().enumerate().take(RUN) {
        for r in 0..W {
            o[r] = lines[r][c];
        }
    }
}

/// One tile: `out[i, j] = Σ_c a[c · MR + i] · b[c · NR + j]`.
pub(crate) fn tile(a: &[f32], b: &[f32], out: &mut Tile) {
    crate::isa::dispatch!(
        avx512: x86::tile512(a, b, out),
        avx2: x86::tile256(a, b, out),
        portable: tile_portable(a, b, out),
    )
}

fn tile_portable(a: &[f32], b: &[f32], out: &mut Tile) {
    *out = [[0.0; NR]; MR];
    for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
        for i in 0..MR {
            for j in 0..NR {
                out[i][j] = madd::<{ cfg!(target_arch = "aarch64") }>(a[i], b[j], out[i][j]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::lanes::at;
    use crate::simd::lanes::x86::*;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx512f")]
    pub(super) fn tile512(a: &[f32], b: &[f32], out: &mut Tile) {
        let mut acc = [[_mm512_setzero_ps(); 2]; MR];
        for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
            let b = [load_f32x16(at(b, 0)), load_f32x16(at(b, 16))];
            for i in 0..MR {
                let x = _mm512_set1_ps(a[i]);
                acc[i][0] = _mm512_fmadd_ps(x, b[0], acc[i][0]);
                acc[i][1] = _mm512_fmadd_ps(x, b[1], acc[i][1]);
            }
        }
        for i in 0..MR {
            let (low, high) = out[i].split_at_mut(16);
            store_f32x16(low.first_chunk_mut().expect("16 columns"), acc[i][0]);
            store_f32x16(high.first_chunk_mut().expect("16 columns"), acc[i][1]);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn tile256(a: &[f32], b: &[f32], out: &mut Tile) {
        for i0 in [0, 6] {
            for j0 in [0, 16] {
                let mut acc = [[_mm256_setzero_ps(); 2]; 6];
                for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
                    let b = [load_f32x8(at(b, j0)), load_f32x8(at(b, j0 + 8))];
                    for i in 0..6 {
                        let x = _mm256_set1_ps(a[i0 + i]);
                        acc[i][0] = _mm256_fmadd_ps(x, b[0], acc[i][0]);
                        acc[i][1] = _mm256_fmadd_ps(x, b[1], acc[i][1]);
                    }
                }
                for i in 0..6 {
                    for h in 0..2 {
                        let to = out[i0 + i][j0 + 8 * h..].first_chunk_mut().expect("8 columns");
                        store_f32x8(to, acc[i][h]);
                    }
                }
            }
        }
    }
}

/// All tiles of a product of packed operands, by one thread: `store(first row, first column, tile)`.
pub(crate) fn tiles(a: &[f32], b: &[f32], k: usize, mut store: impl FnMut(usize, usize, &Tile)) {
    let mut t = [[0f32; NR]; MR];
    for (j, b) in b.chunks_exact(NR * k).enumerate() {
        for (i, a) in a.chunks_exact(MR * k).enumerate() {
            tile(a, b, &mut t);
            store(i * MR, j * NR, &t);
        }
    }
}

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
    let (rows, k) = (a.rows(), a.cols());
    let dst = &mut dst[..packed_len(rows, k, W)];
    for (p, dst) in dst.chunks_exact_mut((W * k).max(1)).enumerate() {
        let a = a.rows_from(p * W, W.min(rows - p * W));
        if a.unit_columns() {
            crate::isa::dispatch!(
                avx512: x86::pack_rows::<T, W>(a, dst),
                avx2: pack_rows::<T, W>(a, dst),
                portable: pack_rows::<T, W>(a, dst),
            );
            continue;
        }
        let whole = a.unit_rows() && a.rows() == W;
        for (c, o) in dst.as_chunks_mut::<W>().0.iter_mut().enumerate() {
            if whole {
                T::widen(a.column(c, 0, W), o);
                continue;
            }
            o.fill(0.0);
            for (r, o) in o.iter_mut().enumerate().take(a.rows()) {
                T::widen(std::slice::from_ref(a.at(r, c)), std::slice::from_mut(o));
            }
        }
    }
}

/// [`pack`] on the pool.
pub(crate) fn pack_parallel<T: Load, const W: usize>(a: Mat<'_, T>, dst: &mut [f32]) {
    let (rows, k) = (a.rows(), a.cols());
    let per = (16384 / (W * k).max(1)).max(1) * W;
    pool::for_chunks(&mut dst[..packed_len(rows, k, W)], per * k, |i, dst| {
        pack::<T, W>(a.rows_from(i * per, per.min(rows - i * per)), dst);
    });
}

/// Packs at most `W` rows, each contiguous.
fn pack_rows<T: Load, const W: usize>(a: Mat<'_, T>, dst: &mut [f32]) {
    let mut lines = [[0f32; RUN]; W];
    for (c, o) in dst.as_chunks_mut::<W>().0.chunks_mut(RUN).enumerate() {
        for (r, line) in lines.iter_mut().enumerate().take(a.rows()) {
            T::widen(&a.slice(r)[c * RUN..][..o.len()], line);
        }
        for (c, o) in o.iter_mut().enumerate() {
            for r in 0..W {
                o[r] = lines[r][c];
            }
        }
    }
}

/// One tile: `out[i, j] = Σ_c a[c · MR + i] · b[c · NR + j]` for i below `rows`; other rows are not defined.
fn tile(a: &[f32], b: &[f32], rows: usize, out: &mut Tile) {
    crate::isa::dispatch!(
        avx512: match rows {
            ..=4 => x86::tile512::<4>(a, b, out),
            5..=8 => x86::tile512::<8>(a, b, out),
            _ => x86::tile512::<MR>(a, b, out),
        },
        avx2: x86::tile256(a, b, rows, out),
        portable: tile_portable(a, b, rows, out),
    )
}

fn tile_portable(a: &[f32], b: &[f32], rows: usize, out: &mut Tile) {
    *out = [[0.0; NR]; MR];
    for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
        for (a, out) in a.iter().zip(out.iter_mut()).take(rows) {
            for (b, out) in b.iter().zip(out) {
                *out = madd::<{ cfg!(target_arch = "aarch64") }>(*a, *b, *out);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::kernels::vecmat::padded;
    use crate::simd::lanes::at;
    use crate::simd::lanes::x86::*;
    use std::arch::x86_64::*;

    /// Packs at most `W` rows, each contiguous, in squares of 16.
    #[target_feature(enable = "avx512f")]
    pub(super) fn pack_rows<T: Load, const W: usize>(a: Mat<'_, T>, dst: &mut [f32]) {
        let k = a.cols();
        for r in (0..W).step_by(16) {
            let n = a.rows().saturating_sub(r).min(16);
            let rows: [&[T]; 16] = std::array::from_fn(|i| if i < n { a.slice(r + i) } else { &[] });
            for c in (0..k).step_by(16) {
                let mut v = [_mm512_setzero_ps(); 16];
                for i in 0..16 {
                    if W > i
                        && let Some(from) = rows[i].get(c..)
                    {
                        v[i] = match from.first_chunk() {
                            Some(whole) => widen_x16(whole),
                            None => widen_x16(&padded(from)),
                        };
                    }
                }
                transpose_x16(&mut v);
                let to = &mut dst[c * W + r..];
                for j in 0..16.min(k - c) {
                    // A column of 12 is written with four values of the next, which comes after it.
                    match to[j * W..].first_chunk_mut() {
                        Some(whole) => store_f32x16(whole, v[j]),
                        None => {
                            let mut last = [0f32; 16];
                            store_f32x16(&mut last, v[j]);
                            to[j * W..].copy_from_slice(&last[..W]);
                        }
                    }
                }
            }
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn tile512<const ROWS: usize>(a: &[f32], b: &[f32], out: &mut Tile) {
        let mut acc = [[_mm512_setzero_ps(); 2]; ROWS];
        for (a, b) in a.as_chunks::<MR>().0.iter().zip(b.as_chunks::<NR>().0) {
            let b = [load_f32x16(at(b, 0)), load_f32x16(at(b, 16))];
            for i in 0..ROWS {
                let x = _mm512_set1_ps(a[i]);
                acc[i][0] = _mm512_fmadd_ps(x, b[0], acc[i][0]);
                acc[i][1] = _mm512_fmadd_ps(x, b[1], acc[i][1]);
            }
        }
        for i in 0..ROWS {
            let (low, high) = out[i].split_at_mut(16);
            store_f32x16(low.first_chunk_mut().expect("16 columns"), acc[i][0]);
            store_f32x16(high.first_chunk_mut().expect("16 columns"), acc[i][1]);
        }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn tile256(a: &[f32], b: &[f32], rows: usize, out: &mut Tile) {
        for i0 in (0..rows.min(MR)).step_by(6) {
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

/// All tiles of a product of packed operands, by one thread: `store(first row, first column, rows of
/// the tile)`. `a` holds at least `rows` rows; what `b` is padded with is computed too.
pub(crate) fn tiles(
    a: &[f32],
    rows: usize,
    b: &[f32],
    k: usize,
    mut store: impl FnMut(usize, usize, &[[f32; NR]]),
) {
    let mut t = [[0f32; NR]; MR];
    for (i, a) in a.chunks_exact(MR * k).enumerate().take(rows.div_ceil(MR)) {
        let n = MR.min(rows - i * MR);
        for (j, b) in b.chunks_exact(NR * k).enumerate() {
            tile(a, b, n, &mut t);
            store(i * MR, j * NR, &t[..n]);
        }
    }
}

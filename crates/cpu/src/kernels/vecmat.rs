//! A few float32 vectors with a matrix whose rows are read where they stand: products with each
//! row ([`dots`]) and weighted sums of the rows ([`combine`]).
//!
//! These are the products of one-query attention and of one vector with a weight, bound by memory:
//! a row is widened in registers and serves all vectors at once. What a result is does not depend
//! on the vectors and rows beside it.

use super::matmul::Mat;
use crate::simd::convert::Load;
#[cfg(target_arch = "x86_64")]
use std::ops::Range;

/// `out[g · stride + j] = x[g] · row j of m`, where `x` holds vectors of `m.cols()` values, at
/// least one each; columns of `m` have stride 1. `then` is what is read after `m`.
pub(crate) fn dots<T: Load>(x: &[f32], m: Mat<'_, T>, then: &[u8], out: &mut [f32], stride: usize) {
    crate::isa::dispatch!(
        avx512: avx512::dots(x, m, then, out, stride),
        avx2: avx2::dots(x, m, then, out, stride),
        portable: portable::dots(x, m, out, stride),
    )
}

/// `out[g · out_stride ..] += Σ_j w[g · w_stride + j] · row j of m`, for `count` vectors `g`;
/// columns of `m` have stride 1. `then` is what is read after `m`.
pub(crate) fn combine<T: Load>(
    w: &[f32],
    w_stride: usize,
    m: Mat<'_, T>,
    then: &[u8],
    out: &mut [f32],
    out_stride: usize,
    count: usize,
) {
    crate::isa::dispatch!(
        avx512: avx512::combine(w, w_stride, m, then, out, out_stride, count),
        avx2: avx2::combine(w, w_stride, m, then, out, out_stride, count),
        portable: portable::combine(w, w_stride, m, out, out_stride, count),
    )
}

/// At most `N` values, with zeros behind them.
#[inline(always)]
pub(crate) fn padded<T: Copy + Default, const N: usize>(s: &[T]) -> [T; N] {
    let mut a = [T::default(); N];
    a[..s.len()].copy_from_slice(s);
    a
}

/// What is to be asked for while row `j` is read, in these columns: there is more work on a row than a core
/// looks ahead, so rows, and what comes after them, are asked for 8 KiB before their turn.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ahead<'a, T: Load>(m: Mat<'a, T>, j: usize, columns: Range<usize>, then: &'a [u8]) -> &'a [u8] {
    let row_bytes = m.cols() * size_of::<T>();
    let at = j + (8 << 10) / row_bytes;
    match at.checked_sub(m.rows()) {
        None => bytemuck::cast_slice(&m.slice(at)[columns]),
        Some(past) => {
            let part = past * row_bytes + columns.start * size_of::<T>()
                ..past * row_bytes + columns.end * size_of::<T>();
            then.get(part).unwrap_or(&[])
        }
    }
}

mod portable {
    use super::*;
    use crate::kernels::matmul::fold;
    use crate::simd::lanes::madd;

    const FMA: bool = cfg!(target_arch = "aarch64");

    /// Calls `f` with each piece of a row as float32, and where it stands.
    #[inline(always)]
    fn pieces<T: Load>(row: &[T], mut f: impl FnMut(usize, &[f32])) {
        let mut wide = [0f32; 64];
        for (c, piece) in row.chunks(64).enumerate() {
            T::widen(piece, &mut wide);
            f(c * 64, &wide[..piece.len()]);
        }
    }

    pub(super) fn dots<T: Load>(x: &[f32], m: Mat<'_, T>, out: &mut [f32], stride: usize) {
        for (x, out) in x.chunks_exact(m.cols()).zip(out.chunks_mut(stride)) {
            for (j, o) in out.iter_mut().enumerate().take(m.rows()) {
                let mut acc = [0f32; 64];
                pieces(m.slice(j), |at, row| {
                    for ((a, x), r) in acc.iter_mut().zip(&x[at..]).zip(row) {
                        *a = madd::<FMA>(*x, *r, *a);
                    }
                });
                *o = fold(acc);
            }
        }
    }

    pub(super) fn combine<T: Load>(
        w: &[f32],
        w_stride: usize,
        m: Mat<'_, T>,
        out: &mut [f32],
        out_stride: usize,
        count: usize,
    ) {
        for j in 0..m.rows() {
            pieces(m.slice(j), |at, row| {
                for g in 0..count {
                    let w = w[g * w_stride + j];
                    for (o, r) in out[g * out_stride + at..].iter_mut().zip(row) {
                        *o = madd::<FMA>(w, *r, *o);
                    }
                }
            });
        }
    }
}

/// The two products over the vectors of one instruction set; `$most` vectors share a row, as many
/// as there are registers for.
#[cfg(target_arch = "x86_64")]
macro_rules! over_vectors {
    ($name:ident, $features:literal, $n:literal, most $most:literal, $widen:ident, $load:ident,
     $store:ident, $zero:ident, $splat:ident, $fma:ident, $sums:ident) => {
        mod $name {
            use super::*;
            use crate::simd::lanes::x86::*;
            use std::arch::x86_64::*;

            #[target_feature(enable = $features)]
            pub(super) fn dots<T: Load>(
                x: &[f32],
                m: Mat<'_, T>,
                then: &[u8],
                out: &mut [f32],
                stride: usize,
            ) {
                let k = m.cols();
                for (x, out) in x.chunks($most * k).zip(out.chunks_mut($most * stride)) {
                    match x.len() / k {
                        1 => dots_of::<T, 1>(x, m, then, out, stride),
                        2 => dots_of::<T, 2>(x, m, then, out, stride),
                        3 => dots_of::<T, 3>(x, m, then, out, stride),
                        _ => dots_of::<T, 4>(x, m, then, out, stride),
                    }
                }
            }

            #[target_feature(enable = $features)]
            fn dots_of<T: Load, const G: usize>(
                x: &[f32],
                m: Mat<'_, T>,
                then: &[u8],
                out: &mut [f32],
                stride: usize,
            ) {
                // Whole vectors as arrays, all of one length: the loop below checks no bounds.
                let k = m.cols();
                let (count, whole) = (k / $n, k / $n * $n);
                let xs: [&[[f32; $n]]; G] =
                    std::array::from_fn(|g| &x[g * k..(g + 1) * k].as_chunks().0[..count]);
                let tail: [[f32; $n]; G] = std::array::from_fn(|g| padded(&x[g * k + whole..(g + 1) * k]));
                for j in (0..m.rows()).step_by(4) {
                    let n = 4.min(m.rows() - j);
                    let mut sums = [[$zero(); 4]; G];
                    // One row after the other: few loads that walk on without a jump are what the
                    // hardware prefetches.
                    for a in 0..n {
                        let row = m.slice(j + a);
                        prefetch_once(ahead(m, j + a, 0..k, then));
                        let mut acc = [$zero(); G];
                        for (i, r) in row.as_chunks().0[..count].iter().enumerate() {
                            let r = $widen(r);
                            for g in 0..G {
                                acc[g] = $fma($load(&xs[g][i]), r, acc[g]);
                            }
                        }
                        if whole < k {
                            let r = $widen(&padded(&row[whole..]));
                            for g in 0..G {
                                acc[g] = $fma($load(&tail[g]), r, acc[g]);
                            }
                        }
                        for g in 0..G {
                            sums[g][a] = acc[g];
                        }
                    }
                    for g in 0..G {
                        // A copy of a length that varies is a call, which no vector survives.
                        let to = &mut out[g * stride + j..];
                        if n == 4 {
                            store_f32x4(to.first_chunk_mut().expect("four results"), $sums(sums[g]));
                        } else {
                            let mut four = [0f32; 4];
                            store_f32x4(&mut four, $sums(sums[g]));
                            to[..n].copy_from_slice(&four[..n]);
                        }
                    }
                }
            }

            #[target_feature(enable = $features)]
            pub(super) fn combine<T: Load>(
                w: &[f32],
                w_stride: usize,
                m: Mat<'_, T>,
                then: &[u8],
                out: &mut [f32],
                out_stride: usize,
                count: usize,
            ) {
                for g in (0..count).step_by($most) {
                    let (w, out) = (&w[g * w_stride..], &mut out[g * out_stride..]);
                    let some = $most.min(count - g);
                    let mut c = 0;
                    while c + 4 * $n <= m.cols() {
                        match some {
                            1 => combine_of::<T, 1, 4, false>(w, w_stride, m, then, c, out, out_stride),
                            2 => combine_of::<T, 2, 4, false>(w, w_stride, m, then, c, out, out_stride),
                            3 => combine_of::<T, 3, 4, false>(w, w_stride, m, then, c, out, out_stride),
                            _ => combine_of::<T, 4, 4, false>(w, w_stride, m, then, c, out, out_stride),
                        }
                        c += 4 * $n;
                    }
                    for c in (c..m.cols()).step_by($n) {
                        for g in 0..some {
                            let (w, out) = (&w[g * w_stride..], &mut out[g * out_stride..]);
                            combine_of::<T, 1, 1, true>(w, w_stride, m, then, c, out, out_stride);
                        }
                    }
                }
            }

            /// For `G` vectors and `W` vectors of columns from `c` on; the one of `PART` may be shorter.
            #[target_feature(enable = $features)]
            fn combine_of<T: Load, const G: usize, const W: usize, const PART: bool>(
                w: &[f32],
                w_stride: usize,
                m: Mat<'_, T>,
                then: &[u8],
                c: usize,
                out: &mut [f32],
                out_stride: usize,
            ) {
                let width = (W * $n).min(m.cols() - c);
                let mut acc = [[$zero(); W]; G];
                for g in 0..G {
                    for i in 0..W {
                        let o = &out[g * out_stride + c + i * $n..];
                        acc[g][i] = if PART {
                            $load(&padded(&o[..width]))
                        } else {
                            $load(o.first_chunk().expect("a whole vector"))
                        };
                    }
                }
                let w: [&[f32]; G] = std::array::from_fn(|g| &w[g * w_stride..][..m.rows()]);
                for j in 0..m.rows() {
                    let row = &m.slice(j)[c..][..if PART { width } else { W * $n }];
                    prefetch_once(ahead(m, j, c..c + row.len(), then));
                    let mut wide = [$zero(); W];
                    for i in 0..W {
                        wide[i] = if PART { $widen(&padded(row)) } else { $widen(&row.as_chunks().0[i]) };
                    }
                    for g in 0..G {
                        let w = $splat(w[g][j]);
                        for i in 0..W {
                            acc[g][i] = $fma(w, wide[i], acc[g][i]);
                        }
                    }
                }
                for g in 0..G {
                    for i in 0..W {
                        let o = &mut out[g * out_stride + c + i * $n..];
                        if PART {
                            let mut part = [0f32; $n];
                            $store(&mut part, acc[g][i]);
                            o[..width].copy_from_slice(&part[..width]);
                        } else {
                            $store(o.first_chunk_mut().expect("a whole vector"), acc[g][i]);
                        }
                    }
                }
            }
        }
    };
}
#[cfg(target_arch = "x86_64")]
over_vectors!(
    avx512, "avx512f,avx512bw,avx512dq,avx512vl", 16, most 4, widen_x16, load_f32x16, store_f32x16,
    _mm512_setzero_ps, _mm512_set1_ps, _mm512_fmadd_ps, sums_x16
);
#[cfg(target_arch = "x86_64")]
over_vectors!(
    avx2, "avx2,fma,f16c", 8, most 2, widen_x8, load_f32x8, store_f32x8,
    _mm256_setzero_ps, _mm256_set1_ps, _mm256_fmadd_ps, sums_x8
);

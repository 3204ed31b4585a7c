//! Dense matrix products.
//!
//! Float32, float16 and bfloat16 go through packed panels (`panel.rs`): operands are packed
//! (and widened) once by all threads, then tiles of the output are computed in blocks whose size
//! depends on the shape alone; accumulation is in float32, in the order of k, and rounded once.
//! Products with one row or column are bound by memory and take loops of their own. Float64 and
//! complex64 use the `gemm` crate, single-threaded on pieces of the output (its own threading
//! loses here), and `ISOPACE_ISA` does not reach into it.

use super::panel::{self, MR, NR};
use super::vecmat;
use crate::pool::{self, Shared};
use crate::simd::convert::Load;
use crate::simd::lanes::madd;
use half::{bf16, f16};
use isopace_core::{Complex, Result, err};
use std::cell::RefCell;

/// A matrix operand: a view of `data` by strides in elements, which may be 0 or negative.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    offset: usize,
    rows: usize,
    cols: usize,
    row: isize,
    col: isize,
}

impl<'a, T> Mat<'a, T> {
    /// Views element (i, j) at `offset + i · row + j · col`.
    ///
    /// # Errors
    /// An element lies outside `data`.
    pub fn new(
        data: &'a [T],
        offset: usize,
        rows: usize,
        cols: usize,
        row: isize,
        col: isize,
    ) -> Result<Self> {
        if rows != 0 && cols != 0 {
            let reach = |n: usize, s: isize| (n - 1) as i128 * s as i128;
            let (r, c) = (reach(rows, row), reach(cols, col));
            let low = offset as i128 + r.min(0) + c.min(0);
            let high = offset as i128 + r.max(0) + c.max(0);
            if low < 0 || high >= data.len() as i128 {
                return Err(err!(
                    Internal,
                    "[matmul] a view of {rows} × {cols} reaches {low}..={high} of {}",
                    data.len()
                ));
            }
        }
        Ok(Mat { data, offset, rows, cols, row, col })
    }

    /// Views `rows` × `cols` elements, row after row.
    ///
    /// # Errors
    /// `data` is shorter.
    pub fn dense(data: &'a [T], rows: usize, cols: usize) -> Result<Self> {
        Mat::new(data, 0, rows, cols, cols as isize, 1)
    }

    /// The same elements with rows and columns exchanged.
    pub fn transposed(self) -> Self {
        Mat { rows: self.cols, cols: self.rows, row: self.col, col: self.row, ..self }
    }

    /// Rows `r .. r + n`.
    pub(crate) fn rows_from(self, r: usize, n: usize) -> Self {
        debug_assert!(r + n <= self.rows);
        Mat { offset: (self.offset as isize + r as isize * self.row) as usize, rows: n, ..self }
    }

    /// Columns `c .. c + n`.
    fn cols_from(self, c: usize, n: usize) -> Self {
        self.transposed().rows_from(c, n).transposed()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Whether a row is contiguous.
    pub(crate) fn unit_columns(&self) -> bool {
        self.col == 1
    }

    /// Whether a column is contiguous.
    pub(crate) fn unit_rows(&self) -> bool {
        self.row == 1
    }

    /// Rows `r .. r + n` of column `c`, where columns are contiguous.
    pub(crate) fn column(&self, c: usize, r: usize, n: usize) -> &'a [T] {
        debug_assert!(self.row == 1);
        &self.data[(self.offset as isize + c as isize * self.col) as usize + r..][..n]
    }

    /// Row `r` as a slice; the columns have stride 1.
    pub(crate) fn slice(&self, r: usize) -> &'a [T] {
        debug_assert!(self.col == 1);
        &self.data[(self.offset as isize + r as isize * self.row) as usize..][..self.cols]
    }

    pub(crate) fn at(&self, r: usize, c: usize) -> &'a T {
        &self.data[(self.offset as isize + r as isize * self.row + c as isize * self.col) as usize]
    }
}

/// An element type that has a matrix product.
pub trait MatElem: Copy + Send + Sync + 'static {
    /// Writes `a · b`, row after row, to `out`; shapes have been checked.
    #[doc(hidden)]
    fn product(a: Mat<'_, Self>, b: Mat<'_, Self>, out: &mut [Self]);
}

/// Multiplies two matrices; `out` is dense, row after row.
///
/// Float16 and bfloat16 are accumulated in float32. A product over no columns is zero.
///
/// # Errors
/// Inner dimensions differ, or `out` has the wrong length.
pub fn matmul<T: MatElem>(a: Mat<'_, T>, b: Mat<'_, T>, out: &mut [T]) -> Result<()> {
    if a.cols != b.rows || a.rows.checked_mul(b.cols) != Some(out.len()) {
        return Err(err!(
            Shape,
            "[matmul] ({}, {}) @ ({}, {}) into {} elements",
            a.rows,
            a.cols,
            b.rows,
            b.cols,
            out.len()
        ));
    }
    if !out.is_empty() {
        T::product(a, b, out);
    }
    Ok(())
}

thread_local! {
    static PACKED_LEFT: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static PACKED_STRIP: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
    static SCRATCH: RefCell<[Vec<f32>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// How an output of `m` × `n` is cut: along its rows or not, and the length of a piece.
fn cut(m: usize, n: usize, k: usize) -> (bool, usize) {
    let by_rows = m >= n;
    let long = m.max(n);
    // Below about 2 million operations a second thread does not pay for its waking.
    if m * n * k < 1 << 20 {
        return (by_rows, long);
    }
    (by_rows, long.div_ceil(16).max(64).next_multiple_of(16))
}

/// Multiplies with `gemm`, by pieces; `zero` and `one` are the type's.
fn pieces<T: Copy + Send + Sync + 'static>(a: Mat<'_, T>, b: Mat<'_, T>, out: &mut [T], zero: T, one: T) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if k == 0 {
        out.fill(zero);
        return;
    }
    let (by_rows, len) = cut(m, n, k);
    let shared = Shared::new(out);
    pool::parallel_for(if by_rows { m } else { n }.div_ceil(len), |i| {
        let at = i * len;
        let (a, b, first) = if by_rows {
            (a.rows_from(at, len.min(m - at)), b, at * n)
        } else {
            (a, b.cols_from(at, len.min(n - at)), at)
        };
        // SAFETY: `Mat::new` has checked that both views lie inside their slices, and parts of a
        // view lie inside it, so `wrapping_add` does too. The piece of `out`, rows × columns at
        // `first` with n elements from row to row, is inside m × n (checked by `matmul`) and
        // written by this chunk alone.
        unsafe {
            gemm::gemm(
                a.rows,
                b.cols,
                k,
                shared.as_mut_ptr().wrapping_add(first),
                1,
                n as isize,
                false,
                a.data.as_ptr().wrapping_add(a.offset),
                a.col,
                a.row,
                b.data.as_ptr().wrapping_add(b.offset),
                b.col,
                b.row,
                zero,
                one,
                false,
                false,
                false,
                gemm::Parallelism::None,
            );
        }
    });
}

impl MatElem for f64 {
    fn product(a: Mat<'_, f64>, b: Mat<'_, f64>, out: &mut [f64]) {
        pieces(a, b, out, 0.0, 1.0);
    }
}

impl MatElem for Complex {
    fn product(a: Mat<'_, Complex>, b: Mat<'_, Complex>, out: &mut [Complex]) {
        pieces(a, b, out, Complex::new(0.0, 0.0), Complex::new(1.0, 0.0));
    }
}

impl MatElem for f32 {
    fn product(a: Mat<'_, f32>, b: Mat<'_, f32>, out: &mut [f32]) {
        panels(a, b, out);
    }
}

impl MatElem for f16 {
    fn product(a: Mat<'_, f16>, b: Mat<'_, f16>, out: &mut [f16]) {
        panels(a, b, out);
    }
}

impl MatElem for bf16 {
    fn product(a: Mat<'_, bf16>, b: Mat<'_, bf16>, out: &mut [bf16]) {
        panels(a, b, out);
    }
}

/// Floats of a packed left operand at a time: 8 MiB.
const PACKED: usize = 2 << 20;
/// Floats of a packed strip of the right operand: 512 KiB, half of a usual second-level cache.
const STRIP: usize = 128 << 10;
/// Rows that a strip meets in a chunk of work, at most: so many hide what its packing costs.
const HIGH: usize = 43 * MR;

/// Multiplies by packed panels: the left operand is packed by all threads, a strip of the right one by
/// the thread that multiplies with it, in whose cache it stays.
fn panels<T: Load>(a: Mat<'_, T>, b: Mat<'_, T>, out: &mut [T]) {
    if thin(a, b, out) {
        return;
    }
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if k == 0 {
        out.fill(T::default());
        return;
    }
    let shared = Shared::new(out);
    let rows = (PACKED / k / MR).max(1) * MR;
    let cols = (STRIP / k / NR).clamp(1, 2) * NR;
    PACKED_LEFT.with_borrow_mut(|left| {
        for i0 in (0..m).step_by(rows) {
            let a = a.rows_from(i0, rows.min(m - i0));
            left.resize(panel::packed_len(a.rows, k, MR), 0.0);
            panel::pack_parallel::<T, MR>(a, left);
            let high = a.rows.div_ceil(a.rows.div_ceil(HIGH)).next_multiple_of(MR);
            let (left, down) = (&left[..], a.rows.div_ceil(high));
            pool::parallel_for(down * n.div_ceil(cols), |c| {
                let (i1, j1) = (c % down * high, c / down * cols);
                let b = b.cols_from(j1, cols.min(n - j1)).transposed();
                PACKED_STRIP.with_borrow_mut(|strip| {
                    strip.resize(panel::packed_len(b.rows, k, NR), 0.0);
                    panel::pack::<T, NR>(b, strip);
                    panel::tiles(&left[i1 * k..], high.min(a.rows - i1), strip, k, |i, j, tile| {
                        let w = NR.min(b.rows - j);
                        for (r, t) in tile.iter().enumerate() {
                            // SAFETY: a tile of the output is computed by one chunk, once.
                            let out = unsafe { shared.slice((i0 + i1 + i + r) * n + j1 + j, w) };
                            // A copy of a length that varies is a call.
                            if w == NR { T::narrow(t, out) } else { T::narrow(&t[..w], out) }
                        }
                    });
                });
            });
        }
    });
}

/// The values of a view as dense float32, in whichever order is contiguous.
fn widen<'s, T: Load>(a: Mat<'_, T>, scratch: &'s mut Vec<f32>) -> Mat<'s, f32> {
    scratch.resize(a.rows * a.cols, 0.0);
    let flip = a.col != 1 && a.row == 1;
    let v = if flip { a.transposed() } else { a };
    for (r, o) in scratch.chunks_exact_mut(v.cols.max(1)).enumerate() {
        if v.col == 1 {
            T::widen(v.slice(r), o);
        } else {
            for (c, o) in o.iter_mut().enumerate() {
                T::widen(std::slice::from_ref(v.at(r, c)), std::slice::from_mut(o));
            }
        }
    }
    let out = Mat { data: &scratch[..], offset: 0, rows: v.rows, cols: v.cols, row: v.cols as isize, col: 1 };
    if flip { out.transposed() } else { out }
}

/// Columns of a chunk of a vector–matrix product by rows.
const ROW_STRIP: usize = 256;

/// Products with one row or one column; false where the other operand has no unit stride.
fn thin<T: Load>(a: Mat<'_, T>, b: Mat<'_, T>, out: &mut [T]) -> bool {
    let (a, b) = match (a.rows, b.cols) {
        (1, _) => (a, b),
        (_, 1) => (b.transposed(), a.transposed()),
        _ => return false,
    };
    let (k, n) = (b.rows, b.cols);
    let columns = b.row == 1;
    if k == 0 || !(columns || b.col == 1) {
        return false;
    }
    let mut x = Vec::new();
    let x = widen(a, &mut x);
    // A row or a column of one line of values: dense either way.
    let x = &x.data[..k];
    if columns {
        let b = b.transposed();
        let per = (16384 / k).max(1);
        pool::for_chunks(out, per, |i, out| {
            SCRATCH.with_borrow_mut(|[_, sums]| {
                sums.resize(out.len(), 0.0);
                vecmat::dots(x, b.rows_from(i * per, out.len()), &[], sums, out.len());
                T::narrow(sums, out);
            })
        });
    } else {
        // Short sums are left to one thread by making the strips longer.
        let strip = ROW_STRIP.max(16384 / k);
        pool::for_chunks(out, strip, |i, out| {
            SCRATCH.with_borrow_mut(|[line, sums]| {
                let b = b.cols_from(i * strip, out.len());
                sums.clear();
                sums.resize(out.len(), 0.0);
                for (r, x) in x.iter().enumerate() {
                    T::with_f32(b.slice(r), line, |y| add_scaled(*x, y, sums));
                }
                T::narrow(sums, out);
            })
        });
    }
    debug_assert_eq!(n, out.len());
    true
}

/// Adds 64 sums pairwise.
#[inline(always)]
pub(crate) fn fold(mut s: [f32; 64]) -> f32 {
    for half in [32, 16, 8, 4, 2, 1] {
        for j in 0..half {
            s[j] += s[j + half];
        }
    }
    s[0]
}

crate::isa::multiversion! {
    /// `sums += x · y`.
    pub(crate) fn add_scaled(x: f32, y: &[f32], sums: &mut [f32]) {
        for (s, y) in sums.iter_mut().zip(y) {
            *s = madd::<FMA>(x, *y, *s);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::Lcg;
    use super::*;
    use crate::isa::{Isa, with};

    fn check<T: MatElem + Load>(eps: f64, r: &mut Lcg) {
        for (m, n, k) in [
            (1, 1, 1),
            (1, 70, 33),
            (70, 1, 65),
            (1, 300, 200),
            (3, 5, 7),
            (17, 33, 64),
            (200, 130, 90),
            (64, 300, 70),
            (1100, 40, 9),
            (5, 70, 2100),
            (5, 4, 0),
        ] {
            let mut data = |n: usize| {
                let f: Vec<f32> = (0..n).map(|_| r.float()).collect();
                let mut t = vec![T::default(); n];
                T::narrow(&f, &mut t);
                T::widen(&t, &mut f.clone());
                t
            };
            let (a, b) = (data(2 * m * k + 1), data(2 * k * n + 1));
            // dense, transposed, every second row backwards, broadcast rows
            for layout in 0..4 {
                let view = |d, rows: usize, cols: usize| {
                    let (r, c) = (rows as isize, cols as isize);
                    match layout {
                        0 => Mat::new(d, 1, rows, cols, c, 1),
                        1 => Mat::new(d, 0, rows, cols, 1, r),
                        2 => Mat::new(d, (rows.saturating_sub(1)) * 2 * cols, rows, cols, -2 * c, 1),
                        _ => Mat::new(d, 0, rows, cols, 0, 1),
                    }
                    .unwrap()
                };
                let (a, b) = (view(&a[..], m, k), view(&b[..], k, n));
                let get = |v: &Mat<'_, T>, i, j| {
                    let mut o = [0.0];
                    T::widen(std::slice::from_ref(v.at(i, j)), &mut o);
                    o[0] as f64
                };
                for isa in Isa::ALL {
                    with(isa, || {
                        let mut outs = Vec::new();
                        for threads in [1, 2] {
                            pool::set_threads(threads);
                            let mut out = vec![T::default(); m * n];
                            matmul(a, b, &mut out).unwrap();
                            let mut f = vec![0.0; m * n];
                            T::widen(&out, &mut f);
                            outs.push(f);
                        }
                        assert!(outs[0] == outs[1]);
                        for i in 0..m {
                            for j in 0..n {
                                let terms = (0..k).map(|p| get(&a, i, p) * get(&b, p, j));
                                let (s, mag) = terms.fold((0.0, 1e-30), |(s, g), t| (s + t, g + t.abs()));
                                let got = outs[0][i * n + j] as f64;
                                let bound = mag * 8.0 * f32::EPSILON as f64 + s.abs() * eps;
                                assert!((got - s).abs() <= bound, "{m} {n} {k} {layout} {isa:?}: {got} {s}");
                            }
                        }
                    });
                }
            }
        }
        pool::set_threads(0);
    }

    #[test]
    fn products_by_the_definition() {
        let mut r = Lcg(9);
        check::<f32>(0.0, &mut r);
        check::<f16>(0.6e-3, &mut r);
        check::<bf16>(4.5e-3, &mut r);
    }

    #[test]
    fn doubles_and_complex() {
        let a: Vec<f64> = (0..12).map(f64::from).collect();
        let mut o = [0.0; 9];
        matmul(Mat::dense(&a, 3, 4).unwrap(), Mat::dense(&a, 4, 3).unwrap(), &mut o).unwrap();
        assert_eq!(o, [42.0, 48.0, 54.0, 114.0, 136.0, 158.0, 186.0, 224.0, 262.0]);
        let i = [Complex::new(0.0, 1.0)];
        let mut o = [Complex::default()];
        matmul(Mat::dense(&i, 1, 1).unwrap(), Mat::dense(&i, 1, 1).unwrap(), &mut o).unwrap();
        assert_eq!(o[0], Complex::new(-1.0, 0.0));
    }

    #[test]
    fn views_outside_are_errors() {
        assert!(Mat::new(&[0f32; 6], 0, 2, 3, 3, 1).is_ok());
        assert!(Mat::new(&[0f32; 6], 1, 2, 3, 3, 1).is_err());
        assert!(Mat::new(&[0f32; 6], 0, 2, 3, -3, 1).is_err());
        assert!(Mat::new(&[0f32; 0], 0, 0, 3, 3, 1).is_ok());
        let m = Mat::dense(&[0f32; 6], 2, 3).unwrap();
        assert!(matmul(m, m, &mut [0.0; 4]).is_err());
    }
}

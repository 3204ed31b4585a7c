//! Reductions over one axis: the input is `outer` × `n` × `inner`, dense, and the middle axis goes.
//!
//! Sums of floats do not lose small terms: within a block of 4,096 there are 64 (or, over strided
//! axes, 1) running sums, and blocks are added up pairwise, so the error grows with log2 of the
//! length; a sum of 2^25 ones is exact. 16-bit floats are summed in float32 and rounded once,
//! float32 in float32, float64 in float64, integers wrap in their own width. Minimum and maximum
//! propagate NaN. The order depends on the shape alone.

use crate::pool::{self, Shared};
use crate::scratch::Scratch;
use half::{bf16, f16};
use isopace_core::{Complex, Result, err};

/// A reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// The sum; 0 of nothing.
    Sum,
    /// The product; 1 of nothing.
    Prod,
    /// The least; an error of nothing.
    Min,
    /// The greatest; an error of nothing.
    Max,
}

/// An element that can be reduced, in the type it is accumulated in.
pub trait Reduce: Copy + Send + Sync + 'static {
    /// What sums and products are held in.
    type Acc: Copy + Send + Sync + Default;
    /// The neutral element of a product.
    const ONE: Self::Acc;
    /// Into the accumulator's type.
    fn up(self) -> Self::Acc;
    /// Out of it, rounded.
    fn down(acc: Self::Acc) -> Self;
    /// Sum.
    fn add(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// Product.
    fn mul(a: Self::Acc, b: Self::Acc) -> Self::Acc;
    /// True if `b` should replace `a` as the minimum: less, or NaN where `a` is not.
    fn below(a: Self::Acc, b: Self::Acc) -> bool;
    /// True if `b` should replace `a` as the maximum.
    fn above(a: Self::Acc, b: Self::Acc) -> bool;
}

macro_rules! reduce {
    (float $($t:ty => $acc:ty, $up:expr, $down:expr;)*) => { $(
        impl Reduce for $t {
            type Acc = $acc;
            const ONE: $acc = 1.0;
            #[inline(always)] fn up(self) -> $acc { $up(self) }
            #[inline(always)] fn down(a: $acc) -> Self { $down(a) }
            #[inline(always)] fn add(a: $acc, b: $acc) -> $acc { a + b }
            #[inline(always)] fn mul(a: $acc, b: $acc) -> $acc { a * b }
            #[inline(always)] fn below(a: $acc, b: $acc) -> bool { b < a || b.is_nan() }
            #[inline(always)] fn above(a: $acc, b: $acc) -> bool { b > a || b.is_nan() }
        }
    )* };
    (int $($t:ty)*) => { $(
        impl Reduce for $t {
            type Acc = $t;
            const ONE: $t = 1;
            #[inline(always)] fn up(self) -> $t { self }
            #[inline(always)] fn down(a: $t) -> Self { a }
            #[inline(always)] fn add(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            #[inline(always)] fn mul(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
            #[inline(always)] fn below(a: $t, b: $t) -> bool { b < a }
            #[inline(always)] fn above(a: $t, b: $t) -> bool { b > a }
        }
    )* };
}
reduce! { float
    f32 => f32, |v| v, |v| v;
    f64 => f64, |v| v, |v| v;
    f16 => f32, |v: f16| crate::simd::lanes::f16_to_f32(v.to_bits()), |v| f16::from_bits(crate::simd::lanes::f32_to_f16(v));
    bf16 => f32, |v: bf16| crate::simd::lanes::bf16_to_f32(v.to_bits()), |v| bf16::from_bits(crate::simd::lanes::f32_to_bf16(v));
}
reduce! { int u8 u16 u32 u64 i8 i16 i32 i64 }

/// Complex numbers are ordered by real, then imaginary part; a NaN part counts as NaN.
impl Reduce for Complex {
    type Acc = Complex;
    const ONE: Complex = Complex::new(1.0, 0.0);
    #[inline(always)]
    fn up(self) -> Complex {
        self
    }
    #[inline(always)]
    fn down(a: Complex) -> Complex {
        a
    }
    #[inline(always)]
    fn add(a: Complex, b: Complex) -> Complex {
        a + b
    }
    #[inline(always)]
    fn mul(a: Complex, b: Complex) -> Complex {
        a * b
    }
    fn below(a: Complex, b: Complex) -> bool {
        b.re.is_nan() || b.im.is_nan() || b.re < a.re || b.re == a.re && b.im < a.im
    }
    fn above(a: Complex, b: Complex) -> bool {
        b.re.is_nan() || b.im.is_nan() || b.re > a.re || b.re == a.re && b.im > a.im
    }
}

/// Elements of a block, in which running sums are kept.
const BLOCK: usize = 4096;
/// Running values of a block.
const LANES: usize = 64;

macro_rules! folds {
    ($($name:ident, $start:expr, $join:expr;)*) => { $(
        crate::isa::multiversion! {
            /// Folds one block.
            fn $name<T: Reduce>(x: &[T]) -> T::Acc {
                let _ = FMA;
                let (chunks, rest) = x.as_chunks::<LANES>();
                // Minima and maxima start from an element that is there.
                let mut acc = [$start(x[0]); LANES];
                for c in chunks {
                    for j in 0..LANES {
                        acc[j] = $join(acc[j], c[j].up());
                    }
                }
                for (j, v) in rest.iter().enumerate() {
                    acc[j] = $join(acc[j], v.up());
                }
                let mut half = LANES / 2;
                while half > 0 {
                    for j in 0..half {
                        acc[j] = $join(acc[j], acc[j + half]);
                    }
                    half /= 2;
                }
                acc[0]
            }
        }
    )* };
}
folds! {
    sum_block, |_: T| T::Acc::default(), |a, b| T::add(a, b);
    prod_block, |_: T| T::ONE, |a, b| T::mul(a, b);
    min_block, |v: T| v.up(), |a, b| if T::below(a, b) && !T::below(a, a) { b } else { a };
    max_block, |v: T| v.up(), |a, b| if T::above(a, b) && !T::above(a, a) { b } else { a };
}

fn join<T: Reduce>(op: Reduction, a: T::Acc, b: T::Acc) -> T::Acc {
    match op {
        Reduction::Sum => T::add(a, b),
        Reduction::Prod => T::mul(a, b),
        // NaN is "below" itself and stays.
        Reduction::Min => {
            if T::below(a, b) && !T::below(a, a) {
                b
            } else {
                a
            }
        }
        Reduction::Max => {
            if T::above(a, b) && !T::above(a, a) {
                b
            } else {
                a
            }
        }
    }
}

fn block<T: Reduce>(op: Reduction, x: &[T]) -> T::Acc {
    match op {
        Reduction::Sum => sum_block(x),
        Reduction::Prod => prod_block(x),
        Reduction::Min => min_block(x),
        Reduction::Max => max_block(x),
    }
}

/// Folds a row: blocks joined as a balanced tree over their numbers.
fn row<T: Reduce>(op: Reduction, x: &[T]) -> T::Acc {
    row_of::<T>(op, 0, x.len(), &mut |at, n| block(op, &x[at..][..n]))
}

/// Folds the `n` elements from `at` on; `leaf` folds those of a block.
fn row_of<T: Reduce>(
    op: Reduction,
    at: usize,
    n: usize,
    leaf: &mut impl FnMut(usize, usize) -> T::Acc,
) -> T::Acc {
    if n <= BLOCK {
        return leaf(at, n);
    }
    let half = n.div_ceil(BLOCK).next_power_of_two() / 2 * BLOCK;
    let first = row_of::<T>(op, at, half, leaf);
    join::<T>(op, first, row_of::<T>(op, at + half, n - half, leaf))
}

/// The sum of a row.
pub(crate) fn sum_f32(x: &[f32]) -> f32 {
    if x.is_empty() { 0.0 } else { row(Reduction::Sum, x) }
}

/// Elements of a row that one chunk of work takes, where a row is longer.
const LONG: usize = 64 * BLOCK;

/// Reduces the middle axis of `outer` × `n` × `inner`; `out` is `outer` × `inner`.
///
/// # Errors
/// A length that does not fit; a minimum or maximum over nothing.
pub fn reduce<T: Reduce>(
    op: Reduction,
    x: &[T],
    outer: usize,
    n: usize,
    inner: usize,
    out: &mut [T],
) -> Result<()> {
    if x.len() != outer * n * inner || out.len() != outer * inner {
        return Err(err!(
            Internal,
            "[reduce] {outer} × {n} × {inner} from {} to {} elements",
            x.len(),
            out.len()
        ));
    }
    if out.is_empty() {
        return Ok(());
    }
    if n == 0 {
        out.fill(T::down(of_nothing::<T>(op)?));
        return Ok(());
    }
    if inner == 1 {
        rows::<T>(op, n, out, |at, n, folds| {
            for (r, f) in folds.iter_mut().enumerate() {
                *f = row(op, &x[at + r * n..][..n]);
            }
        });
        return Ok(());
    }
    // Strips of columns, so that the running values stay in the first cache.
    const STRIP: usize = 1024;
    let strips = inner.div_ceil(STRIP);
    let shared = Shared::new(out);
    pool::parallel_for(outer * strips, |c| {
        let (o, first) = (c / strips, c % strips * STRIP);
        let w = STRIP.min(inner - first);
        let x = &x[o * n * inner..][..n * inner];
        // SAFETY: strip `first` of row `o` belongs to this chunk alone.
        let out = unsafe { shared.slice(o * inner + first, w) };
        let sums = columns(op, x, inner, first, w, 0, n);
        for (o, s) in out.iter_mut().zip(sums) {
            *o = T::down(s);
        }
    });
    Ok(())
}

fn of_nothing<T: Reduce>(op: Reduction) -> Result<T::Acc> {
    match op {
        Reduction::Sum => Ok(T::Acc::default()),
        Reduction::Prod => Ok(T::ONE),
        _ => Err(err!(Argument, "[{op:?}] of an axis of length 0 has no value")),
    }
}

/// Reduces rows of `n` elements, one for each of `out`, that are not in memory: `make` writes those
/// from a position on. They exist a few blocks at a time, and the results are those of [`reduce()`], bit by bit.
///
/// # Errors
/// A minimum or maximum over nothing.
pub fn reduce_made<T: Reduce + bytemuck::Pod>(
    op: Reduction,
    n: usize,
    out: &mut [T],
    make: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<()> {
    if n == 0 {
        out.fill(T::down(of_nothing::<T>(op)?));
        return Ok(());
    }
    rows::<T>(op, n, out, |at, n, folds| {
        let mut made = [T::zeroed(); BLOCK];
        if n > BLOCK / 2 {
            for (r, f) in folds.iter_mut().enumerate() {
                *f = row_of::<T>(op, at + r * n, n, &mut |at, n| {
                    make(at, &mut made[..n]);
                    block(op, &made[..n])
                });
            }
            return;
        }
        // Several short rows in one go.
        let many = BLOCK / n;
        for (i, folds) in folds.chunks_mut(many).enumerate() {
            let made = &mut made[..folds.len() * n];
            make(at + i * many * n, made);
            folds.iter_mut().zip(made.chunks_exact(n)).for_each(|(f, x)| *f = block(op, x));
        }
    });
    Ok(())
}

/// Reduces rows of `n` elements, one for each of `out`, over the pool. `fold(at, n, folds)` folds as many
/// runs of `n` elements as `folds` has, from element `at` on.
///
/// Rows so long that several threads share one are cut into pieces of a power of two of blocks, joined
/// as the tree of [`row`] joins them.
fn rows<T: Reduce>(
    op: Reduction,
    n: usize,
    out: &mut [T],
    fold: impl Fn(usize, usize, &mut [T::Acc]) + Sync,
) {
    if n <= LONG {
        let per = (16384 / n).max(1);
        return pool::for_chunks(out, per, |i, out| {
            const FEW: usize = 64;
            for (j, out) in out.chunks_mut(FEW).enumerate() {
                let mut folds = [T::Acc::default(); FEW];
                let folds = &mut folds[..out.len()];
                fold((i * per + j * FEW) * n, n, folds);
                out.iter_mut().zip(folds).for_each(|(o, f)| *o = T::down(*f));
            }
        });
    }
    let mut parts = vec![T::Acc::default(); n.div_ceil(LONG)];
    for (r, o) in out.iter_mut().enumerate() {
        pool::for_chunks(&mut parts, 1, |i, part| {
            fold(r * n + i * LONG, LONG.min(n - i * LONG), part);
        });
        *o = T::down(tree::<T>(op, &parts));
    }
}

/// Folds rows `from .. to` of columns `first .. first + w`, as a balanced tree over runs of rows.
fn columns<T: Reduce>(
    op: Reduction,
    x: &[T],
    inner: usize,
    first: usize,
    w: usize,
    from: usize,
    to: usize,
) -> Vec<T::Acc> {
    const RUN: usize = 64;
    let line = |r: usize| &x[r * inner + first..][..w];
    if to - from <= RUN {
        let mut acc: Vec<T::Acc> = line(from).iter().map(|v| v.up()).collect();
        for r in from + 1..to {
            match op {
                Reduction::Sum => add_line(line(r), &mut acc),
                _ => acc.iter_mut().zip(line(r)).for_each(|(a, v)| *a = join::<T>(op, *a, v.up())),
            }
        }
        return acc;
    }
    let half = (to - from).div_ceil(RUN).next_power_of_two() / 2 * RUN;
    let mut a = columns(op, x, inner, first, w, from, from + half);
    let b = columns(op, x, inner, first, w, from + half, to);
    a.iter_mut().zip(b).for_each(|(a, b)| *a = join::<T>(op, *a, b));
    a
}

crate::isa::multiversion! {
    fn add_line<T: Reduce>(x: &[T], acc: &mut [T::Acc]) {
        let _ = FMA;
        for (a, v) in acc.iter_mut().zip(x) {
            *a = T::add(*a, v.up());
        }
    }
}

fn tree<T: Reduce>(op: Reduction, parts: &[T::Acc]) -> T::Acc {
    if let [one] = parts {
        return *one;
    }
    let half = parts.len().next_power_of_two() / 2;
    join::<T>(op, tree::<T>(op, &parts[..half]), tree::<T>(op, &parts[half..]))
}

/// The mean over the middle axis: the sum, divided in float32 (float64 for float64), rounded once.
///
/// # Errors
/// A length that does not fit.
pub fn mean<T: crate::simd::convert::Load + Reduce<Acc = f32>>(
    x: &[T],
    outer: usize,
    n: usize,
    inner: usize,
    out: &mut [T],
) -> Result<()> {
    if std::mem::size_of::<T>() == 4 {
        reduce(Reduction::Sum, x, outer, n, inner, out)?;
        out.iter_mut().for_each(|o| *o = T::down(o.up() / n as f32));
        return Ok(());
    }
    // The sum of 16-bit floats must not be rounded before it is divided.
    let mut wide = Scratch::new(x.len())?;
    T::widen(x, &mut wide);
    let mut sums = Scratch::<f32>::new(out.len())?;
    reduce(Reduction::Sum, &wide, outer, n, inner, &mut sums)?;
    sums.iter_mut().for_each(|s| *s /= n as f32);
    T::narrow(&sums, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::Lcg;
    use super::*;
    use crate::isa::{Isa, with};

    #[test]
    fn floats_by_the_definition() {
        let mut r = Lcg(31);
        for (outer, n, inner) in
            [(1, 1, 1), (3, 7, 1), (2, 100_003, 1), (4, 5, 6), (2, 300, 1500), (1, 600_000, 1)]
        {
            let x: Vec<f32> = (0..outer * n * inner).map(|_| r.float()).collect();
            for isa in Isa::ALL {
                with(isa, || {
                    for op in [Reduction::Sum, Reduction::Min, Reduction::Max, Reduction::Prod] {
                        let mut results = Vec::new();
                        for threads in [1, 2] {
                            pool::set_threads(threads);
                            let mut out = vec![0f32; outer * inner];
                            reduce(op, &x, outer, n, inner, &mut out).unwrap();
                            results.push(out);
                        }
                        assert!(results[0] == results[1]);
                        for (i, got) in results[0].iter().enumerate() {
                            let (o, c) = (i / inner, i % inner);
                            let v = (0..n).map(|k| x[(o * n + k) * inner + c] as f64);
                            let (want, eps) = match op {
                                Reduction::Sum => (v.sum::<f64>(), 2e-5 * (n as f64).sqrt()),
                                Reduction::Prod => (v.product(), 1e-5),
                                Reduction::Min => (v.fold(f64::MAX, f64::min), 0.0),
                                Reduction::Max => (v.fold(f64::MIN, f64::max), 0.0),
                            };
                            assert!(
                                (*got as f64 - want).abs() <= eps,
                                "{op:?} {outer} {n} {inner}: {got} {want}"
                            );
                        }
                    }
                });
            }
        }
        pool::set_threads(0);
    }

    #[test]
    fn ones_and_nan_and_nothing() {
        let n = 1 << 25;
        let ones = vec![1f32; n];
        let mut o = [0f32];
        reduce(Reduction::Sum, &ones, 1, n, 1, &mut o).unwrap();
        assert_eq!(o[0], n as f32);
        let halves = vec![f16::from_f32(0.125); 1 << 16];
        let mut o = [f16::ZERO];
        reduce(Reduction::Sum, &halves, 1, 1 << 16, 1, &mut o).unwrap();
        assert_eq!(o[0].to_f32(), 8192.0);
        mean(&vec![f16::from_f32(8.0); 1 << 16], 1, 1 << 16, 1, &mut o).unwrap();
        assert_eq!(o[0].to_f32(), 8.0);
        for at in [0, 1, 63, 64, 200] {
            let mut x = vec![1f32; 201];
            x[at] = f32::NAN;
            for op in [Reduction::Min, Reduction::Max, Reduction::Sum] {
                for isa in Isa::ALL {
                    with(isa, || {
                        let mut o = [0f32];
                        reduce(op, &x, 1, 201, 1, &mut o).unwrap();
                        assert!(o[0].is_nan(), "{op:?} with NaN at {at}");
                        let mut o = [0f32; 3];
                        reduce(op, &x, 1, 67, 3, &mut o).unwrap();
                        assert!(o[at % 3].is_nan() && !o[(at + 1) % 3].is_nan());
                    });
                }
            }
        }
        let mut o = [5i32; 2];
        reduce(Reduction::Prod, &[], 1, 0, 2, &mut o).unwrap();
        assert_eq!(o, [1, 1]);
        assert!(reduce(Reduction::Max, &[], 1, 0, 2, &mut o).is_err());
        let mut o = [0i8];
        reduce(Reduction::Sum, &[100i8, 100], 1, 2, 1, &mut o).unwrap();
        assert_eq!(o, [-56]);
    }
}

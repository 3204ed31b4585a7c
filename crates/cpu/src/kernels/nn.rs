//! Row kernels: softmax, logsumexp, norms and rotary positions. Values of 16 bits are widened,
//! computed in float32 and rounded once. Rows are spread over the pool.

use super::matmul::fold;
use crate::pool;
use crate::simd::convert::Load;
use crate::simd::lanes::madd;
use crate::simd::math::exp1;
use isopace_core::{Result, err};
use std::cell::RefCell;

/// Elements in a chunk of work, about.
const GRAIN: usize = 16384;

thread_local! {
    static LINE: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

fn check(name: &str, x: usize, n: usize, out: usize) -> Result<()> {
    if n == 0 && x != 0 || n != 0 && !x.is_multiple_of(n) || x != out {
        return Err(err!(Internal, "[{name}] {x} elements in rows of {n} into {out}"));
    }
    Ok(())
}

/// Calls `f(row number, row as float32 in place)` for every row, and rounds the results to `out`.
fn rows<T: Load>(x: &[T], n: usize, out: &mut [T], f: impl Fn(usize, &mut [f32]) + Sync) {
    let per = (GRAIN / n.max(1)).max(1);
    pool::for_chunks(out, per * n, |i, out| {
        LINE.with_borrow_mut(|line| {
            line.resize(n, 0.0);
            for (r, o) in out.chunks_exact_mut(n).enumerate() {
                let r = i * per + r;
                T::map(&x[r * n..][..n], o, line, |row| f(r, row));
            }
        })
    });
}

crate::isa::multiversion! {
    /// The largest value, or NaN if there is one.
    fn top(x: &[f32]) -> f32 {
        let _ = FMA;
        let mut top = [f32::NEG_INFINITY; 64];
        let (chunks, rest) = x.as_chunks::<64>();
        for c in chunks {
            for j in 0..64 {
                let keep = top[j] > c[j] || top[j].is_nan();
                top[j] = if keep { top[j] } else { c[j] };
            }
        }
        let pick = |a: f32, v: f32| if a > v || a.is_nan() { a } else { v };
        rest.iter().chain(&top).fold(f32::NEG_INFINITY, |a, v| pick(a, *v))
    }
}

crate::isa::multiversion! {
    /// Replaces x by exp(x - shift) and returns the sum.
    fn exp_sum(x: &mut [f32], shift: f32) -> f32 {
        let mut acc = [0f32; 64];
        let (chunks, rest) = x.as_chunks_mut::<64>();
        for c in chunks {
            for j in 0..64 {
                c[j] = exp1::<FMA>(c[j] - shift);
                acc[j] += c[j];
            }
        }
        for (i, v) in rest.iter_mut().enumerate() {
            *v = exp1::<FMA>(*v - shift);
            acc[i] += *v;
        }
        fold(acc)
    }
}

crate::isa::multiversion! {
    fn scale(x: &mut [f32], by: f32) {
        let _ = FMA;
        for v in x.iter_mut() {
            *v *= by;
        }
    }
}

crate::isa::multiversion! {
    /// The sum of (x - mean)².
    fn square_sum(x: &[f32], mean: f32) -> f32 {
        let mut acc = [0f32; 64];
        let (chunks, rest) = x.as_chunks::<64>();
        for c in chunks {
            for j in 0..64 {
                let d = c[j] - mean;
                acc[j] = madd::<FMA>(d, d, acc[j]);
            }
        }
        for (i, v) in rest.iter().enumerate() {
            let d = *v - mean;
            acc[i] = madd::<FMA>(d, d, acc[i]);
        }
        fold(acc)
    }
}

crate::isa::multiversion! {
    /// x = (x - mean) · by · weight + bias, either of the last left out where it is empty.
    fn normalise(x: &mut [f32], mean: f32, by: f32, weight: &[f32], bias: &[f32]) {
        let n = x.len();
        match (weight.len() == n, bias.len() == n) {
            (true, true) => {
                for i in 0..n {
                    x[i] = madd::<FMA>((x[i] - mean) * by, weight[i], bias[i]);
                }
            }
            (true, false) => {
                for i in 0..n {
                    x[i] = (x[i] - mean) * by * weight[i];
                }
            }
            (false, true) => {
                for i in 0..n {
                    x[i] = madd::<FMA>(x[i] - mean, by, bias[i]);
                }
            }
            (false, false) => {
                for i in 0..n {
                    x[i] = (x[i] - mean) * by;
                }
            }
        }
    }
}

/// Softmax of rows of `n`: exp(x − max) / Σ exp(x − max).
///
/// A row of −∞ alone is NaN, as the formula says.
pub fn softmax<T: Load>(x: &[T], n: usize, out: &mut [T]) -> Result<()> {
    check("softmax", x.len(), n, out.len())?;
    rows(x, n, out, |_, x| {
        let sum = exp_sum(x, top(x));
        scale(x, 1.0 / sum);
    });
    Ok(())
}

/// ln Σ exp(x) of rows of `n`, one float32 each; −∞ for a row of −∞, and for no column.
pub fn logsumexp<T: Load>(x: &[T], n: usize, out: &mut [f32]) -> Result<()> {
    if x.len() != n * out.len() {
        return Err(err!(Internal, "[logsumexp] {} elements in rows of {n} into {}", x.len(), out.len()));
    }
    let per = (GRAIN / n.max(1)).max(1);
    pool::for_chunks(out, per, |i, out| {
        LINE.with_borrow_mut(|line| {
            line.resize(n, 0.0);
            for (r, o) in out.iter_mut().enumerate() {
                T::widen(&x[(i * per + r) * n..][..n], line);
                let t = top(line);
                *o = if t.is_infinite() || n == 0 { t } else { t + exp_sum(line, t).ln() };
            }
        })
    });
    Ok(())
}

/// x / √(mean x² + eps) · weight, for rows of `n`; `weight` may be empty.
pub fn rms_norm<T: Load>(x: &[T], n: usize, weight: &[T], eps: f32, out: &mut [T]) -> Result<()> {
    check("rms_norm", x.len(), n, out.len())?;
    let w = wide("rms_norm", weight, n)?;
    rows(x, n, out, |_, x| {
        let mean = square_sum(x, 0.0) / n as f32;
        normalise(x, 0.0, 1.0 / (mean + eps).sqrt(), &w, &[]);
    });
    Ok(())
}

/// (x − mean) / √(var + eps) · weight + bias, for rows of `n`; `weight` and `bias` may be empty.
pub fn layer_norm<T: Load>(
    x: &[T],
    n: usize,
    weight: &[T],
    bias: &[T],
    eps: f32,
    out: &mut [T],
) -> Result<()> {
    check("layer_norm", x.len(), n, out.len())?;
    let (w, b) = (wide("layer_norm", weight, n)?, wide("layer_norm", bias, n)?);
    rows(x, n, out, |_, x| {
        let mean = super::reduce::sum_f32(x) / n as f32;
        let var = square_sum(x, mean) / n as f32;
        normalise(x, mean, 1.0 / (var + eps).sqrt(), &w, &b);
    });
    Ok(())
}

fn wide<T: Load>(name: &str, w: &[T], n: usize) -> Result<Vec<f32>> {
    if !w.is_empty() && w.len() != n {
        return Err(err!(Shape, "[{name}] a weight or bias of {} for rows of {n}", w.len()));
    }
    let mut v = vec![0.0; w.len()];
    T::widen(w, &mut v);
    Ok(v)
}

/// What [`rope`] turns: rows of `dim` in `batch` × `heads` × `length`, dense.
#[derive(Clone, Copy, Debug)]
pub struct Rope<'a> {
    /// Sequences.
    pub batch: usize,
    /// Heads of a sequence.
    pub heads: usize,
    /// Positions of a head.
    pub length: usize,
    /// Length of a row.
    pub dim: usize,
    /// How many of a row's elements are turned, an even number; the rest is copied.
    pub dims: usize,
    /// Pairs (2 i, 2 i + 1) if true, (i, i + dims / 2) if not.
    pub traditional: bool,
    /// Angle of pair i at position 1, dims / 2 of them.
    pub angles: &'a [f64],
    /// What positions are multiplied with.
    pub scale: f64,
    /// The position of the first row: one for all, or one for each sequence.
    pub offsets: &'a [i64],
}

impl Rope<'_> {
    /// The angles of a base: base^(−2 i / dims).
    pub fn angles_of(base: f64, dims: usize) -> Vec<f64> {
        (0..dims / 2).map(|i| base.powf(-2.0 * i as f64 / dims as f64)).collect()
    }
}

/// Turns pairs of each row by (offset + position) · scale · angle.
///
/// The angle is computed in float64 and its sine and cosine are rounded once, so that long
/// contexts lose nothing.
pub fn rope<T: Load>(p: &Rope<'_>, x: &[T], out: &mut [T]) -> Result<()> {
    let half = p.dims / 2;
    let count = p.batch * p.heads * p.length * p.dim;
    if x.len() != count || out.len() != count || p.dims > p.dim || !p.dims.is_multiple_of(2) {
        return Err(err!(
            Shape,
            "[rope] {} of {} elements a row, {} and {} in all",
            p.dims,
            p.dim,
            x.len(),
            out.len()
        ));
    }
    if p.angles.len() != half || p.offsets.len() != 1 && p.offsets.len() != p.batch {
        return Err(err!(
            Shape,
            "[rope] {} angles for {half} pairs, {} offsets for {} sequences",
            p.angles.len(),
            p.offsets.len(),
            p.batch
        ));
    }
    if count == 0 {
        return Ok(());
    }
    // One table for all heads: (cos, sin) of each position and pair.
    let places = p.offsets.len() * p.length;
    let mut table = vec![0f32; 2 * half * places];
    let per = (2048 / half.max(1)).max(1);
    pool::for_chunks(&mut table, 2 * half * per, |c, t| {
        for (i, t) in t.chunks_exact_mut(2 * half).enumerate() {
            let place = c * per + i;
            let at = p.offsets[place / p.length] as f64 + (place % p.length) as f64;
            let (cos, sin) = t.split_at_mut(half);
            for j in 0..half {
                let (s, c) = (at * p.scale * p.angles[j]).sin_cos();
                (cos[j], sin[j]) = (c as f32, s as f32);
            }
        }
    });
    rows(x, p.dim, out, |r, x| {
        let (b, l) = (r / p.length / p.heads, r % p.length);
        let place = if p.offsets.len() == 1 { l } else { b * p.length + l };
        if half == 0 {
            return;
        }
        let (cos, sin) = table[2 * half * place..][..2 * half].split_at(half);
        if p.traditional {
            for (i, v) in x[..p.dims].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                *v = [v[0] * cos[i] - v[1] * sin[i], v[0] * sin[i] + v[1] * cos[i]];
            }
        } else {
            let (a, b) = x[..p.dims].split_at_mut(half);
            turn(a, b, cos, sin);
        }
    });
    Ok(())
}

crate::isa::multiversion! {
    fn turn(a: &mut [f32], b: &mut [f32], cos: &[f32], sin: &[f32]) {
        let _ = FMA;
        let n = a.len();
        let (b, cos, sin) = (&mut b[..n], &cos[..n], &sin[..n]);
        for i in 0..n {
            (a[i], b[i]) = (a[i] * cos[i] - b[i] * sin[i], a[i] * sin[i] + b[i] * cos[i]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::Lcg;
    use super::*;
    use crate::isa::{Isa, with};
    use half::{bf16, f16};

    fn each<T: Load>(
        eps: f64,
        floor: f64,
        r: &mut Lcg,
        f: impl Fn(&[T], usize, &mut [T]),
        model: impl Fn(&[f64]) -> Vec<f64>,
    ) {
        for (rows, n) in [(1, 1), (3, 7), (5, 64), (40, 577), (2, 4099)] {
            let x: Vec<f32> = (0..rows * n).map(|_| r.float() * 4.0).collect();
            let mut t = vec![T::default(); x.len()];
            T::narrow(&x, &mut t);
            let mut wide = vec![0.0; x.len()];
            T::widen(&t, &mut wide);
            for isa in Isa::ALL {
                with(isa, || {
                    let mut results = Vec::new();
                    for threads in [1, 2] {
                        pool::set_threads(threads);
                        let mut out = vec![T::default(); x.len()];
                        f(&t, n, &mut out);
                        let mut o = vec![0.0; x.len()];
                        T::widen(&out, &mut o);
                        results.push(o);
                    }
                    assert!(results[0] == results[1]);
                    for (x, o) in wide.chunks(n).zip(results[0].chunks(n)) {
                        let want = model(&x.iter().map(|v| *v as f64).collect::<Vec<_>>());
                        for (a, b) in o.iter().zip(want) {
                            assert!(
                                (*a as f64 - b).abs() <= eps * (b.abs() + floor),
                                "{isa:?} {rows}x{n}: {a} {b}"
                            );
                        }
                    }
                });
            }
        }
        pool::set_threads(0);
    }

    fn mean(x: &[f64]) -> f64 {
        x.iter().sum::<f64>() / x.len() as f64
    }

    fn all<T: Load>(eps: f64) {
        let r = &mut Lcg(21);
        each::<T>(
            eps,
            1e-3,
            r,
            |x, n, o| softmax(x, n, o).unwrap(),
            |x| {
                let top = x.iter().copied().fold(f64::MIN, f64::max);
                let sum: f64 = x.iter().map(|v| (v - top).exp()).sum();
                x.iter().map(|v| (v - top).exp() / sum).collect()
            },
        );
        let weights = |n: usize| {
            let mut w = vec![T::default(); n];
            T::narrow(&(0..n).map(|i| 1.0 + (i % 3) as f32 * 0.5).collect::<Vec<_>>(), &mut w);
            w
        };
        let weight = |i: usize| 1.0 + (i % 3) as f64 * 0.5;
        each::<T>(
            eps,
            1e-2,
            r,
            |x, n, o| rms_norm(x, n, &weights(n), 1e-5, o).unwrap(),
            |x| {
                let s = (mean(&x.iter().map(|v| v * v).collect::<Vec<_>>()) + 1e-5).sqrt();
                x.iter().enumerate().map(|(i, v)| v / s * weight(i)).collect()
            },
        );
        each::<T>(
            eps * 4.0,
            1.0,
            r,
            |x, n, o| layer_norm(x, n, &weights(n), &weights(n), 1e-2, o).unwrap(),
            |x| {
                let m = mean(x);
                let s = (mean(&x.iter().map(|v| (v - m) * (v - m)).collect::<Vec<_>>()) + 1e-2).sqrt();
                x.iter().enumerate().map(|(i, v)| ((v - m) / s + 1.0) * weight(i)).collect()
            },
        );
    }

    #[test]
    fn rows_by_the_definition() {
        all::<f32>(4e-6);
        all::<f16>(0.7e-3);
        all::<bf16>(5e-3);
    }

    #[test]
    fn edges_of_softmax() {
        let inf = f32::INFINITY;
        let mut o = [0.0; 3];
        softmax(&[1.0, -inf, 1.0], 3, &mut o).unwrap();
        assert_eq!(o, [0.5, 0.0, 0.5]);
        softmax(&[-inf, -inf, -inf], 3, &mut o).unwrap();
        assert!(o.iter().all(|v| v.is_nan()));
        softmax(&[1.0, f32::NAN, 1.0], 3, &mut o).unwrap();
        assert!(o.iter().all(|v| v.is_nan()));
        let mut o = [0.0; 4];
        logsumexp(&[-inf, -inf, inf, 1.0, 1e4, 1e4, 0.0, f32::NAN], 2, &mut o).unwrap();
        assert!(o[0] == -inf && o[1] == inf && (o[2] - 10000.693).abs() < 1e-2 && o[3].is_nan());
        let mut none = [0.0; 2];
        logsumexp::<f32>(&[], 0, &mut none).unwrap();
        assert_eq!(none, [-inf; 2]);
        assert!(softmax(&[1.0; 4], 3, &mut o).is_err());
    }

    #[test]
    fn rope_turns_pairs() {
        let (batch, heads, length, dim, dims) = (2, 3, 5, 10, 8);
        let mut r = Lcg(5);
        let x: Vec<f32> = (0..batch * heads * length * dim).map(|_| r.float()).collect();
        let angles = Rope::angles_of(10000.0, dims);
        for traditional in [false, true] {
            for offsets in [&[100_000i64][..], &[3, 70][..]] {
                let p = Rope {
                    batch,
                    heads,
                    length,
                    dim,
                    dims,
                    traditional,
                    angles: &angles,
                    scale: 0.5,
                    offsets,
                };
                let mut out = vec![0.0; x.len()];
                rope(&p, &x, &mut out).unwrap();
                for (row, (a, o)) in x.chunks(dim).zip(out.chunks(dim)).enumerate() {
                    let (b, l) = (row / length / heads, row % length);
                    let at = offsets[if offsets.len() == 1 { 0 } else { b }] as f64 + l as f64;
                    for i in 0..dims / 2 {
                        let (i0, i1) = if traditional { (2 * i, 2 * i + 1) } else { (i, i + dims / 2) };
                        let (s, c) = (at * 0.5 * 10000f64.powf(-2.0 * i as f64 / dims as f64)).sin_cos();
                        let (u, v) = (a[i0] as f64, a[i1] as f64);
                        assert!((o[i0] as f64 - (u * c - v * s)).abs() < 1e-6);
                        assert!((o[i1] as f64 - (u * s + v * c)).abs() < 1e-6);
                    }
                    assert_eq!(o[dims..], a[dims..]);
                }
            }
        }
    }
}

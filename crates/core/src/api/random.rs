//! Random arrays, equal bit for bit to MLX's for the same key.
//!
//! A key is a uint32 array of shape (2,). Every function takes one, or `None` for the process-wide state,
//! which each such draw splits: the first half is the new state, the second makes the numbers.
//!
//! ```
//! # isopace_core::reference::init();
//! use isopace_core::{Dtype, api::random};
//! let key = random::key(0)?;
//! let x = random::uniform(0.0, 1.0, [2], Dtype::F32, Some(&key))?;
//! assert_eq!(x.to_vec::<f32>()?, random::uniform(0.0, 1.0, [2], Dtype::F32, Some(&key))?.to_vec()?);
//! # Ok::<(), isopace_core::Error>(())
//! ```
//!
//! Equality rests on exact float32 and float64 arithmetic and on [`erfinv`](crate::op::scalar_ops::erfinv)
//! and [`log_f32`](crate::op::scalar_ops::log_f32), which every backend must take as they stand there.
//! Only `laplace` has a part that differs from machine to machine in the peer: it takes log1p from the C
//! library, and `peer.rs` has that of glibc 2.36, with which it was compared.

mod peer;

use super::Operand;
use crate::array::Array;
use crate::aval::Aval;
use crate::compile::trace::traced_key;
use crate::op::random::threefry;
use crate::op::{ArgKind, Gather, Op, ReduceKind, ScanKind};
use crate::shape::{Dims, Shape, axis};
use crate::{Dtype, Error, Result, bail};
use parking_lot::Mutex;
use smallvec::smallvec;
use std::time::{SystemTime, UNIX_EPOCH};

/// The process-wide state, as words where the host knows them.
enum State {
    Words([u32; 2]),
    /// What a compiled function that draws left.
    Array(Array),
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The words of [`key`].
fn words(seed: u64) -> [u32; 2] {
    [(seed >> 32) as u32, seed as u32]
}

/// A seed for a process that sets none.
fn entropy() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    now ^ (std::process::id() as u64).rotate_left(32)
}

/// The key of a seed: its high and its low 32 bits.
pub fn key(seed: u64) -> Result<Array> {
    Array::from_slice(&words(seed), [2])
}

/// Sets the process-wide state to the key of a seed.
pub fn seed(seed: u64) {
    *STATE.lock() = Some(State::Words(words(seed)));
}

/// The process-wide state: the key that the next draw splits.
pub fn state() -> Result<Array> {
    match STATE.lock().get_or_insert_with(|| State::Words(words(entropy()))) {
        State::Words(w) => Array::from_slice(w, [2]),
        State::Array(a) => Ok(a.clone()),
    }
}

/// Sets the process-wide state.
///
/// # Errors
/// `Argument` unless it is a key.
pub fn set_state(key: &Array) -> Result<()> {
    check(key)?;
    *STATE.lock() = Some(State::Array(key.clone()));
    Ok(())
}

/// Replaces the process-wide state under its lock: `next` gets it and gives the new one beside its result.
pub(crate) fn with_state<T>(next: impl FnOnce(Array) -> Result<(Array, T)>) -> Result<T> {
    let mut state = STATE.lock();
    let current = match state.get_or_insert_with(|| State::Words(words(entropy()))) {
        State::Words(w) => Array::from_slice(w, [2])?,
        State::Array(a) => a.clone(),
    };
    let (new, out) = next(current)?;
    *state = Some(State::Array(new));
    Ok(out)
}

fn check(key: &Array) -> Result<()> {
    if key.dtype() != Dtype::U32 || key.shape()[..] != [2] {
        bail!(Argument, "[random] a key is uint32 of shape (2,), not {} {:?}", key.dtype(), key.shape());
    }
    Ok(())
}

/// The key to draw with: the one given, or a fresh half of the state.
fn draw(key: Option<&Array>) -> Result<Array> {
    if let Some(key) = key {
        check(key)?;
        return Ok(key.clone());
    }
    if let Some(traced) = traced_key(halves) {
        return traced;
    }
    let mut state = STATE.lock();
    match state.get_or_insert_with(|| State::Words(words(entropy()))) {
        State::Words(w) => {
            // As `split` by two: counters (0, 2) and (1, 3).
            let (a, b) = (threefry(*w, [0, 2]), threefry(*w, [1, 3]));
            *w = [a[0], b[0]];
            Array::from_slice(&[a[1], b[1]], [2])
        }
        State::Array(a) => {
            let (next, used) = halves(a.clone())?;
            *a = next;
            Ok(used)
        }
    }
}

fn halves(key: Array) -> Result<(Array, Array)> {
    let pair = split(&key, 2)?;
    let row = |i: i64| {
        let row = Aval::new([1, 2], Dtype::U32);
        let start = smallvec![i.into(), 0i64.into()];
        reshape(&Array::lazy(Op::Slice(smallvec![1, 1]), smallvec![pair.clone()], start, row), [2].into())
    };
    Ok((row(0), row(1)))
}

/// Derives `num` keys, the rows of an array of shape (num, 2).
pub fn split(key: &Array, num: usize) -> Result<Array> {
    bits([num, 2], Some(key))
}

/// Random 32-bit words. They depend on the number of elements but not on their shape.
pub fn bits(shape: impl Into<Shape>, key: Option<&Array>) -> Result<Array> {
    let aval = Aval::new(shape.into().checked("random")?, Dtype::U32);
    Ok(Array::lazy(Op::RandomBits, smallvec![draw(key)?], smallvec![], aval))
}

/// Refuses dtypes other than real floating ones.
fn floating(dtype: Dtype, name: &str) -> Result<()> {
    if !dtype.is_float() {
        bail!(Dtype, "[{name}] {dtype} is not accepted; accepted: real floating dtypes");
    }
    Ok(())
}

/// Numbers from [low, high), which broadcast to the shape: `low + (high - low) u` computed in the dtype
/// from a u of 24 bits.
pub fn uniform(
    low: impl Into<Operand>,
    high: impl Into<Operand>,
    shape: impl Into<Shape>,
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    floating(dtype, "uniform")?;
    let (low, high) = (low.into().cast(dtype)?, high.into().cast(dtype)?);
    let range = high.subtract(&low)?;
    let shape = shape.into();
    fits(&range, &shape, "uniform")?;
    // The largest number below 1 in the dtype, but no closer to it than float32's.
    let below_one = match dtype {
        Dtype::F16 => 1.0 - 1.0 / 2048.0,
        Dtype::BF16 => 1.0 - 1.0 / 256.0,
        _ => 1.0 - 1.0 / 16777216.0,
    };
    let u = bits(shape, key)?.astype(Dtype::F32)?.divide(u32::MAX as f32)?.minimum(below_one)?;
    range.multiply(u.astype(dtype)?)?.add(&low)
}

fn fits(x: &Array, shape: &Shape, name: &str) -> Result<()> {
    if x.shape().broadcast(shape, name)? != *shape {
        bail!(Shape, "[{name}] bounds of shape {:?} do not broadcast to {shape:?}", x.shape());
    }
    Ok(())
}

/// The smallest float32 above -1: the ends of [-1, 1) that erfinv maps to finite numbers.
const ABOVE_MINUS_ONE: f32 = -1.0 + 1.0 / 16777216.0;

/// Normal numbers, times `scale`, plus `loc`, each where given. Those of complex64 have variance 1 too.
pub fn normal(
    shape: impl Into<Shape>,
    dtype: Dtype,
    loc: Option<Operand>,
    scale: Option<Operand>,
    key: Option<&Array>,
) -> Result<Array> {
    if dtype == Dtype::C64 {
        // Real and imaginary parts are independent, each with half of the variance.
        let mut pairs: Shape = shape.into();
        pairs.push(2);
        let half = Some(std::f32::consts::FRAC_1_SQRT_2.into());
        let x = normal(pairs, Dtype::F32, None, half, key)?.view(dtype)?.squeeze(Some(&[-1]))?;
        return affine(x, loc, scale, dtype);
    }
    floating(dtype, "normal")?;
    let u = uniform(ABOVE_MINUS_ONE, 1.0, shape, Dtype::F32, key)?;
    let mut factor = Operand::from(std::f32::consts::SQRT_2).cast(dtype)?;
    if let Some(scale) = scale {
        factor = factor.multiply(scale.cast(dtype)?)?;
    }
    affine(u.erfinv()?.astype(dtype)?.multiply(factor)?, loc, None, dtype)
}

/// `x scale + loc` in the dtype.
fn affine(mut x: Array, loc: Option<Operand>, scale: Option<Operand>, dtype: Dtype) -> Result<Array> {
    if let Some(scale) = scale {
        x = x.multiply(scale.cast(dtype)?)?;
    }
    if let Some(loc) = loc {
        x = x.add(loc.cast(dtype)?)?;
    }
    Ok(x)
}

/// Vectors of jointly normal float32 numbers with the given mean (..., n) and covariance (..., n, n).
///
/// A shape, unless empty, broadcasts with the leading extents of both; the result has `n` after it.
///
/// # Errors
/// `Shape` for shapes that do not fit; as [`normal`].
///
/// # Source
/// Standard normal vectors times the symmetric square root of the covariance. Eigenvalues that rounding made negative
/// count as zero.
pub fn multivariate_normal(mean: &Array, cov: &Array, shape: &[usize], key: Option<&Array>) -> Result<Array> {
    let place = "multivariate_normal";
    let (mean, cov) = (mean.astype(Dtype::F32)?, cov.astype(Dtype::F32)?);
    let (lead, n) = match (&mean.shape()[..], &cov.shape()[..]) {
        ([rows @ .., n], [mats @ .., a, b]) if n == a && n == b => {
            (Shape::from(rows).broadcast(&mats.into(), place)?, *n)
        }
        (mean, cov) => {
            bail!(Shape, "[{place}] mean {mean:?} and cov {cov:?}; accepted: (..., n) and (..., n, n)")
        }
    };
    let mut shape = lead.broadcast(&shape.into(), place)?;
    shape.push(n);
    let z = normal(shape, Dtype::F32, None, None, key)?;
    let (values, vectors) = cov.astype(Dtype::F64)?.eigh(false)?;
    let scaled = vectors.multiply(values.maximum(0.0)?.sqrt()?.expand_dims(&[-2])?)?;
    let root = scaled.matmul(&vectors.matrix_transpose()?)?.astype(Dtype::F32)?;
    mean.add(z.expand_dims(&[-2])?.matmul(&root)?.squeeze(Some(&[-2]))?)
}

/// Normal numbers between two bounds, which broadcast to the shape.
pub fn truncated_normal(
    lower: impl Into<Operand>,
    upper: impl Into<Operand>,
    shape: impl Into<Shape>,
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    floating(dtype, "truncated_normal")?;
    let (lower, upper) = (lower.into().cast(dtype)?, upper.into().cast(dtype)?);
    let root = std::f32::consts::SQRT_2;
    let (a, b) = (peer::erf(&lower.divide(root)?)?, peer::erf(&upper.divide(root)?)?);
    let x = uniform(a, b, shape, dtype, key)?.erfinv()?.multiply(root)?;
    x.minimum(&upper)?.maximum(&lower)
}

/// Numbers of the standard Gumbel distribution, -log(-log(u)).
pub fn gumbel(shape: impl Into<Shape>, dtype: Dtype, key: Option<&Array>) -> Result<Array> {
    let u = uniform(0.0, 1.0, shape, dtype, key)?;
    peer::log(&peer::log(&u)?.negative()?)?.negative()
}

/// Numbers of the Laplace distribution, times `scale`, plus `loc`, each where given.
pub fn laplace(
    shape: impl Into<Shape>,
    dtype: Dtype,
    loc: Option<Operand>,
    scale: Option<Operand>,
    key: Option<&Array>,
) -> Result<Array> {
    floating(dtype, "laplace")?;
    let u = uniform(ABOVE_MINUS_ONE, 1.0, shape, Dtype::F32, key)?;
    let x = u.sign()?.multiply(peer::log1p(&u.abs()?.negative()?)?)?;
    affine(x.astype(dtype)?, loc, scale, dtype)
}

/// True with probability `p`, which broadcasts to the shape (its own when `None`). NaN gives false.
///
/// # Errors
/// `Dtype` when `p` is not floating.
pub fn bernoulli(p: impl Into<Operand>, shape: Option<&[usize]>, key: Option<&Array>) -> Result<Array> {
    let p = p.into();
    let p = p.cast(p.dtype())?;
    floating(p.dtype(), "bernoulli")?;
    let shape = shape.map_or_else(|| p.shape().clone(), Shape::from);
    fits(&p, &shape, "bernoulli")?;
    // The float32 above 2^32, so that p = 1 is always true.
    let bound = p.astype(Dtype::F32)?.multiply(4294967808.0f32)?;
    bits(shape, key)?.astype(Dtype::F32)?.less(bound)
}

/// Integers from [low, high), which broadcast to the shape; from a float32 uniform, so a range wider
/// than 2^24 is not covered in full. `low` where the range is empty.
pub fn randint(
    low: impl Into<Operand>,
    high: impl Into<Operand>,
    shape: impl Into<Shape>,
    dtype: Dtype,
    key: Option<&Array>,
) -> Result<Array> {
    if !dtype.is_int() && dtype != Dtype::Bool {
        bail!(Dtype, "[randint] {dtype} is not accepted; accepted: integer dtypes");
    }
    let (low, high) = (low.into().cast(Dtype::F32)?, high.into().cast(Dtype::F32)?);
    let x = uniform(&low, &high, shape, Dtype::F32, key)?;
    x.floor()?.minimum(high.subtract(1.0)?)?.maximum(&low)?.astype(dtype)
}

/// A random order of 0..n (uint32).
pub fn permutation(n: usize, key: Option<&Array>) -> Result<Array> {
    let aval = Aval::new([n], Dtype::U32);
    Ok(Array::lazy(Op::ArgSort(0), smallvec![bits([n], key)?], smallvec![], aval))
}

/// The slices of `x` along an axis in a random order.
pub fn permute(x: &Array, along: i64, key: Option<&Array>) -> Result<Array> {
    let along = axis(along, x.ndim(), "permutation")?;
    let n = x.shape()[along];
    let order = permutation(n, key)?;
    // Gathered slices come with their number as first axis, which moves to its place.
    let mut sizes: Dims<usize> = x.shape()[..].into();
    sizes[along] = 1;
    let whole: Shape = [n].iter().chain(&sizes).copied().collect();
    let dtype = x.dtype();
    let gather = Op::Gather(Gather { axes: smallvec![along as u8], sizes });
    let slices =
        Array::lazy(gather, smallvec![x.clone(), order], smallvec![], Aval::new(whole.clone(), dtype));
    let mut perm: Dims<u8> = (1..=x.ndim() as u8).collect();
    perm[along] = 0;
    perm.push(along as u8 + 1);
    let moved: Shape = perm.iter().map(|&p| whole[p as usize]).collect();
    let moved = Array::lazy(Op::Transpose(perm), smallvec![slices], smallvec![], Aval::new(moved, dtype));
    Ok(reshape(&moved, x.shape().clone()))
}

/// How many numbers [`categorical`] draws.
#[derive(Clone, Copy, Debug)]
pub enum Samples<'a> {
    /// One for each row of logits.
    One,
    /// As many for each row, along a new last axis.
    Count(usize),
    /// An array to whose shape the rows broadcast.
    Shape(&'a [usize]),
}

/// Numbers (uint32) of categories along an axis, with probabilities proportional to exp(logits): the
/// largest of logits + Gumbel noise, or, of a single row, by the inverse of the summed probabilities.
pub fn categorical(logits: &Array, along: i64, samples: Samples<'_>, key: Option<&Array>) -> Result<Array> {
    let along = axis(along, logits.ndim(), "categorical")?;
    let n = logits.shape()[along];
    let mut rows = logits.shape().clone();
    rows.remove(along);
    let after = rows.len() - along;
    let shape: Shape = match samples {
        Samples::One => rows.clone(),
        Samples::Count(count) => rows.iter().copied().chain([count]).collect(),
        Samples::Shape(s) => s.into(),
    };
    if n == 0 && shape.elems() > 0 {
        bail!(Argument, "[categorical] logits of shape {:?} have no categories", logits.shape());
    }
    if logits.size() == n && !shape.is_empty() {
        return inverse_cdf(logits, shape, key);
    }
    let x = match samples {
        Samples::Count(_) => {
            let mut wide = logits.shape().clone();
            wide.push(1);
            reshape(logits, wide)
        }
        _ => logits.clone(),
    };
    let after = after + usize::from(matches!(samples, Samples::Count(_)));
    let Some(at) = shape.len().checked_sub(after) else { return Err(too_small(logits, &shape)) };
    let mut noise = shape.clone();
    noise.insert(at, n);
    fits(&x, &noise, "categorical")?;
    let noise = gumbel(noise, Dtype::F32, key)?;
    let scores = x.add(noise)?;
    Ok(Array::lazy(
        Op::ArgReduce(ArgKind::Max, at as u8),
        smallvec![scores],
        smallvec![],
        Aval::new(shape, Dtype::U32),
    ))
}

fn too_small(logits: &Array, shape: &Shape) -> Error {
    crate::err!(Shape, "[categorical] logits of shape {:?} do not broadcast to {shape:?}", logits.shape())
}

fn inverse_cdf(logits: &Array, shape: Shape, key: Option<&Array>) -> Result<Array> {
    let n = logits.size();
    let row = reshape(logits, [n].into()).astype(Dtype::F32)?;
    let reduce = |kind, x: Array| {
        let aval = Aval::new(Shape::scalar(), Dtype::F32);
        Array::lazy(Op::Reduce(kind, smallvec![0]), smallvec![x], smallvec![], aval)
    };
    let weights = row.subtract(reduce(ReduceKind::Max, row.clone()))?.exp()?;
    let total = reduce(ReduceKind::Sum, weights.clone());
    let below = Array::lazy(
        Op::Scan(ScanKind::Sum, 0, false, false),
        smallvec![weights],
        smallvec![],
        Aval::new([n], Dtype::F32),
    );
    let u = uniform(0.0, 1.0, shape.clone(), Dtype::F32, key)?.multiply(total)?;
    let place =
        Array::lazy(Op::SearchSorted(true), smallvec![below, u], smallvec![], Aval::new(shape, Dtype::U32));
    place.subtract(1)
}

fn view_as(x: &Array, dtype: Dtype) -> Array {
    Array::lazy(Op::Bitcast, smallvec![x.clone()], smallvec![], Aval::new(x.shape().clone(), dtype))
}

fn reshape(x: &Array, shape: Shape) -> Array {
    Array::lazy(Op::Reshape, smallvec![x.clone()], smallvec![], Aval::new(shape, x.dtype()))
}

#[cfg(test)]
mod tests;

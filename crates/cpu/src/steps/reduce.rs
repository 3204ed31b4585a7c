//! Reductions: over rows in blocks, over columns in strips. Sums are kept in blocks whose totals
//! add in float64, so that small terms are not lost, and the split depends on shapes alone.

use super::{inputs, one};
use crate::buffer::CpuBuffer;
use crate::elem::{Elem, by_dtype};
use crate::kernels::reduce::{Reduce, Reduction, reduce as reduce_kernel, reduce_made};
use crate::pool;
use crate::scratch::Scratch;
use crate::view::{self, dense};
use crate::vm::Fused;
use half::{bf16, f16};
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::op::{ArgKind, ReduceKind};
use isopace_core::{Aval, Complex, Dtype, Result, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// Elements whose sum is kept in the element's own accumulator before it is widened.
const BLOCK: usize = 1024;
/// Elements reduced by one thread at a time.
const CHUNK: usize = 1 << 15;

/// The input as (outer, reduced, inner), copied only when the reduced axes are not neighbours.
fn arranged<'a>(v: &'a Input<'_>, axes: &[u8]) -> (Input<'a>, usize, usize, usize) {
    let shape = &v.layout.shape;
    let is = |i: usize| axes.contains(&(i as u8));
    let reduced: SmallVec<[usize; 4]> = (0..shape.len()).filter(|&i| is(i) && shape[i] != 1).collect();
    let count: usize = reduced.iter().map(|&i| shape[i]).product();
    let together = reduced.windows(2).all(|w| (w[0] + 1..w[1]).all(|i| shape[i] == 1));
    let (Some(&first), Some(&last)) = (reduced.first(), reduced.last()) else {
        return (v.lent(), shape.elems(), 1, 1);
    };
    if together {
        let outer = shape[..first].iter().product();
        return (v.lent(), outer, count, shape[last + 1..].iter().product());
    }
    let perm: SmallVec<[usize; 8]> =
        (0..shape.len()).filter(|&i| !is(i)).chain((0..shape.len()).filter(|&i| is(i))).collect();
    let outer = (0..shape.len()).filter(|&i| !is(i)).map(|i| shape[i]).product();
    (v.under(v.layout.transpose(&perm)), outer, count, 1)
}

/// An accumulation: from elements to a wide total, merged in order.
trait Acc<T>: Copy + Send + Sync {
    type Wide: Copy + Send + Sync;
    const EMPTY: Self;
    fn push(self, x: T) -> Self;
    fn merge(self, other: Self) -> Self;
    fn widen(self) -> Self::Wide;
    fn empty() -> Self::Wide;
    fn total(a: Self::Wide, b: Self::Wide) -> Self::Wide;
}

/// Integers: 64 wrapping bits hold every narrower sum and product.
#[derive(Clone, Copy)]
struct IntAcc<const PROD: bool>(i64);
impl<T: Elem, const PROD: bool> Acc<T> for IntAcc<PROD> {
    type Wide = i64;
    const EMPTY: Self = IntAcc(PROD as i64);
    #[inline(always)]
    fn push(self, x: T) -> Self {
        IntAcc(if PROD { self.0.wrapping_mul(x.to_i64()) } else { self.0.wrapping_add(x.to_i64()) })
    }
    #[inline(always)]
    fn merge(self, o: Self) -> Self {
        IntAcc(if PROD { self.0.wrapping_mul(o.0) } else { self.0.wrapping_add(o.0) })
    }
    fn widen(self) -> i64 {
        self.0
    }
    fn empty() -> i64 {
        PROD as i64
    }
    fn total(a: i64, b: i64) -> i64 {
        if PROD { a.wrapping_mul(b) } else { a.wrapping_add(b) }
    }
}

#[derive(Clone, Copy)]
struct ComplexAcc<const PROD: bool>(num_complex::Complex<f64>);
impl<const PROD: bool> Acc<Complex> for ComplexAcc<PROD> {
    type Wide = num_complex::Complex<f64>;
    const EMPTY: Self = ComplexAcc(num_complex::Complex::new(PROD as u8 as f64, 0.0));
    fn push(self, x: Complex) -> Self {
        self.merge(ComplexAcc(num_complex::Complex::new(x.re as f64, x.im as f64)))
    }
    fn merge(self, o: Self) -> Self {
        ComplexAcc(if PROD { self.0 * o.0 } else { self.0 + o.0 })
    }
    fn widen(self) -> Self::Wide {
        self.0
    }
    fn empty() -> Self::Wide {
        Self::EMPTY.0
    }
    fn total(a: Self::Wide, b: Self::Wide) -> Self::Wide {
        if PROD { a * b } else { a + b }
    }
}

/// The extreme, NaN winning; `None` before the first element.
#[derive(Clone, Copy)]
struct Extreme<T, const MAX: bool>(T, bool);
impl<T: Elem, const MAX: bool> Acc<T> for Extreme<T, MAX> {
    type Wide = Self;
    const EMPTY: Self = Extreme(T::ZERO, false);
    #[inline(always)]
    fn push(self, x: T) -> Self {
        let best = if MAX { Elem::max(self.0, x) } else { Elem::min(self.0, x) };
        Extreme(if self.1 { best } else { x }, true)
    }
    #[inline(always)]
    fn merge(self, o: Self) -> Self {
        if o.1 { self.push(o.0) } else { self }
    }
    fn widen(self) -> Self {
        self
    }
    fn empty() -> Self {
        Self::EMPTY
    }
    fn total(a: Self, b: Self) -> Self {
        a.merge(b)
    }
}

/// True when all, or any, are not zero.
#[derive(Clone, Copy)]
struct Truth<const ALL: bool>(bool);
impl<T: Elem, const ALL: bool> Acc<T> for Truth<ALL> {
    type Wide = bool;
    const EMPTY: Self = Truth(ALL);
    #[inline(always)]
    fn push(self, x: T) -> Self {
        Truth(if ALL { self.0 & !x.is_zero() } else { self.0 | !x.is_zero() })
    }
    #[inline(always)]
    fn merge(self, o: Self) -> Self {
        Truth(if ALL { self.0 & o.0 } else { self.0 | o.0 })
    }
    fn widen(self) -> bool {
        self.0
    }
    fn empty() -> bool {
        ALL
    }
    fn total(a: bool, b: bool) -> bool {
        if ALL { a & b } else { a | b }
    }
}

/// Reduces elements that stand together: 32 lanes over a block, blocks in order.
#[inline(always)]
fn row<T: Copy, A: Acc<T>>(x: &[T]) -> A::Wide {
    const LANES: usize = 32;
    let mut total = A::empty();
    for block in x.chunks(BLOCK) {
        let mut lanes = [A::EMPTY; LANES];
        let (whole, tail) = block.as_chunks::<LANES>();
        for c in whole {
            for (l, &x) in lanes.iter_mut().zip(c) {
                *l = l.push(x);
            }
        }
        for (l, &x) in lanes.iter_mut().zip(tail) {
            *l = l.push(x);
        }
        let mut n = LANES;
        while n > 1 {
            n /= 2;
            for i in 0..n {
                lanes[i] = lanes[i].merge(lanes[i + n]);
            }
        }
        total = A::total(total, lanes[0].widen());
    }
    total
}

fn run<T: bytemuck::Pod + Send + Sync, A: Acc<T>, R: bytemuck::Pod + Send>(
    v: &Input<'_>,
    axes: &[u8],
    out: &mut [R],
    finish: impl Fn(A::Wide) -> R + Sync,
) -> Result<()> {
    let (v, outer, n, inner) = arranged(v, axes);
    let x = dense::<T>(&v)?;
    if out.len() != outer * inner {
        bail!(Internal, "[reduce] {} results for {outer} x {inner}", out.len());
    }
    if n == 0 {
        out.fill(finish(A::empty()));
    } else if inner == 1 && n <= 4 * CHUNK {
        let per = (CHUNK / n).max(1);
        pool::for_chunks(out, per, |c, out| {
            for (j, o) in out.iter_mut().enumerate() {
                *o = finish(row::<T, A>(&x[(c * per + j) * n..][..n]));
            }
        });
    } else if inner == 1 {
        let parts = n.div_ceil(CHUNK);
        let mut partial = vec![A::empty(); parts];
        for (o, x) in out.iter_mut().zip(x.chunks(n)) {
            pool::for_chunks(&mut partial, 1, |c, p| {
                p[0] = row::<T, A>(&x[c * CHUNK..n.min((c + 1) * CHUNK)]);
            });
            *o = finish(partial.iter().fold(A::empty(), |a, &b| A::total(a, b)));
        }
    } else {
        columns::<T, A, R>(&x, n, inner, out, &finish);
    }
    Ok(())
}

/// Reduces the middle axis: strips of neighbouring columns, rows in blocks of 256.
fn columns<T: Copy + Send + Sync, A: Acc<T>, R: Copy + Send>(
    x: &[T],
    n: usize,
    inner: usize,
    out: &mut [R],
    finish: &(impl Fn(A::Wide) -> R + Sync),
) {
    const STRIP: usize = 128;
    let strips = inner.div_ceil(STRIP);
    let outer = out.len() / inner.max(1);
    let out = pool::Shared::new(out);
    let job = |i: usize| {
        let (o, c0) = (i / strips, i % strips * STRIP);
        let w = STRIP.min(inner - c0);
        let mut total = [A::empty(); STRIP];
        for r0 in (0..n).step_by(256) {
            let mut acc = [A::EMPTY; STRIP];
            for r in r0..n.min(r0 + 256) {
                let line = &x[(o * n + r) * inner + c0..][..w];
                for (a, &x) in acc.iter_mut().zip(line) {
                    *a = a.push(x);
                }
            }
            for (t, a) in total.iter_mut().zip(&acc) {
                *t = A::total(*t, a.widen());
            }
        }
        // SAFETY: strip i is its own range of the results, and each i runs once.
        let part = unsafe { out.slice(o * inner + c0, w) };
        part.iter_mut().zip(&total).for_each(|(o, &t)| *o = finish(t));
    };
    if outer * inner * n <= CHUNK {
        (0..outer * strips).for_each(job);
    } else {
        pool::parallel_for(outer * strips, job);
    }
}

/// A reduction.
pub fn reduce(spec: Spec<'_>, kind: ReduceKind, axes: &[u8]) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    let axes: SmallVec<[u8; 4]> = axes.into();
    if axes.iter().any(|&a| a as usize >= avals[0].shape.len()) {
        bail!(Internal, "[{}] axes {axes:?} of {:?}", kind.name(), avals[0].shape);
    }
    let dtype = avals[0].dtype;
    one(spec, move |ins, _| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        reduce_into(&ins[0], dtype, kind, &axes, &out, &mut b)?;
        Ok(view::value(b, &out))
    })
}

/// The kernel of reductions that fold floats in their own dtype.
fn plain(kind: ReduceKind) -> Option<Reduction> {
    match kind {
        ReduceKind::Sum => Some(Reduction::Sum),
        ReduceKind::Prod => Some(Reduction::Prod),
        ReduceKind::Min => Some(Reduction::Min),
        ReduceKind::Max => Some(Reduction::Max),
        _ => None,
    }
}

/// A reduction over trailing axes of what a region computes, which is never whole in memory. `None` for
/// reductions that need it whole.
pub fn of_region(
    spec: Spec<'_>,
    kind: ReduceKind,
    axes: &[u8],
    region: Fused,
) -> Option<Result<Arc<dyn Kernel>>> {
    let (x, out) = (spec.ins[0].clone(), spec.outs[0].clone());
    let reduction = plain(kind).filter(|_| x.dtype.is_float() && x.dtype == out.dtype)?;
    let n = axes.iter().map(|&a| x.shape[a as usize]).product();
    Some(one(spec, move |ins, cells| {
        let mut b = CpuBuffer::new(out.nbytes())?;
        macro_rules! run {
            ($t:ty) => {{
                let out = b.slice_mut::<$t>()?;
                region.pieces::<$t, _>(ins, cells, |make| reduce_made(reduction, n, out, make))??
            }};
        }
        match x.dtype {
            Dtype::F64 => run!(f64),
            Dtype::F16 => run!(f16),
            Dtype::BF16 => run!(bf16),
            _ => run!(f32),
        }
        Ok(view::value(b, &out))
    }))
}

fn reduce_into(
    v: &Input<'_>,
    d: Dtype,
    kind: ReduceKind,
    axes: &[u8],
    out: &Aval,
    b: &mut CpuBuffer,
) -> Result<()> {
    use ReduceKind::*;
    if out.dtype != kind.dtype(d) {
        bail!(Internal, "[{}] {d} gives {}", kind.name(), out.dtype);
    }
    if let Some(r) = plain(kind) {
        match d {
            Dtype::F32 => return float::<f32>(r, v, axes, b),
            Dtype::F16 => return float::<f16>(r, v, axes, b),
            Dtype::BF16 => return float::<bf16>(r, v, axes, b),
            Dtype::F64 => return float::<f64>(r, v, axes, b),
            _ => {}
        }
    }
    match (kind, d) {
        (Sum, Dtype::C64) => run::<Complex, ComplexAcc<false>, Complex>(v, axes, b.slice_mut()?, narrow),
        (Prod, Dtype::C64) => run::<Complex, ComplexAcc<true>, Complex>(v, axes, b.slice_mut()?, narrow),
        (Sum, _) => by_dtype!(d, T => match out.dtype.size() {
            8 => run::<T, IntAcc<false>, i64>(v, axes, b.slice_mut()?, |x| x),
            _ => run::<T, IntAcc<false>, i32>(v, axes, b.slice_mut()?, |x| x as i32),
        }),
        (Prod, _) => by_dtype!(d, T => match out.dtype.size() {
            8 => run::<T, IntAcc<true>, i64>(v, axes, b.slice_mut()?, |x| x),
            _ => run::<T, IntAcc<true>, i32>(v, axes, b.slice_mut()?, |x| x as i32),
        }),
        (Max, _) => by_dtype!(d, T => run::<T, Extreme<T, true>, T>(v, axes, b.slice_mut()?, |x| x.0)),
        (Min, _) => by_dtype!(d, T => run::<T, Extreme<T, false>, T>(v, axes, b.slice_mut()?, |x| x.0)),
        (Any, _) => by_dtype!(d, T => run::<T, Truth<false>, u8>(v, axes, b.slice_mut()?, |x| x as u8)),
        (All, _) => by_dtype!(d, T => run::<T, Truth<true>, u8>(v, axes, b.slice_mut()?, |x| x as u8)),
        (LogSumExp, _) => log_sum_exp(v, d, axes, out, b),
    }
}

/// Floats take the vectorised kernel.
fn float<T: Reduce + bytemuck::Pod>(
    r: Reduction,
    v: &Input<'_>,
    axes: &[u8],
    b: &mut CpuBuffer,
) -> Result<()> {
    let (v, outer, n, inner) = arranged(v, axes);
    reduce_kernel::<T>(r, &dense(&v)?, outer, n, inner, b.slice_mut()?)
}

fn narrow(z: num_complex::Complex<f64>) -> Complex {
    Complex::new(z.re as f32, z.im as f32)
}

/// log(sum(exp(x))), shifted by the maximum; float64 for float64, else float32 terms.
fn log_sum_exp(v: &Input<'_>, d: Dtype, axes: &[u8], out: &Aval, b: &mut CpuBuffer) -> Result<()> {
    let (v, outer, n, inner) = arranged(v, axes);
    if d == Dtype::F32 && inner == 1 && n > 0 {
        return crate::kernels::nn::logsumexp::<f32>(&dense(&v)?, n, b.slice_mut()?);
    }
    let line = |get: &dyn Fn(usize) -> f64| {
        let top = (0..n).fold(f64::NEG_INFINITY, |a, i| Elem::max(a, get(i)));
        if top.is_infinite() || top.is_nan() {
            return top;
        }
        top + (0..n).map(|i| (get(i) - top).exp()).sum::<f64>().ln()
    };
    let mut all = Scratch::<f64>::new(outer * inner)?;
    let each = |x: &(dyn Fn(usize) -> f64 + Sync), all: &mut [f64]| {
        pool::for_chunks(all, (CHUNK / 8 / n.max(1)).max(1), |c, part| {
            for (j, o) in part.iter_mut().enumerate() {
                let k = c * (CHUNK / 8 / n.max(1)).max(1) + j;
                let (a, i) = (k / inner, k % inner);
                *o = line(&|r| x((a * n + r) * inner + i));
            }
        });
    };
    match d {
        Dtype::C64 => {
            let x = dense::<Complex>(&v)?;
            let wide = |i: usize| num_complex::Complex::new(x[i].re as f64, x[i].im as f64);
            for (k, o) in b.slice_mut::<Complex>()?.iter_mut().enumerate() {
                let (a, i) = (k / inner, k % inner);
                let terms = || (0..n).map(|r| wide((a * n + r) * inner + i));
                let top = terms().fold(f64::NEG_INFINITY, |t, z| t.max(z.re));
                let shift = if top.is_finite() { top } else { 0.0 };
                *o = narrow(
                    terms().map(|z| (z - shift).exp()).sum::<num_complex::Complex<f64>>().ln() + shift,
                );
            }
            return Ok(());
        }
        Dtype::F64 => {
            let x = dense::<f64>(&v)?;
            each(&|i| x[i], &mut all);
        }
        d if d.is_float() => {
            let x = view::dense_f32(&v, d)?;
            each(&|i| x[i] as f64, &mut all);
        }
        d => by_dtype!(d, T => {
            let x = dense::<T>(&v)?;
            each(&|i| x[i].to_i64() as f64, &mut all);
        }),
    }
    match out.dtype {
        Dtype::F64 => b.slice_mut::<f64>()?.copy_from_slice(&all),
        Dtype::F32 => b.slice_mut::<f32>()?.iter_mut().zip(all.iter()).for_each(|(o, &x)| *o = x as f32),
        Dtype::F16 => {
            b.slice_mut::<f16>()?.iter_mut().zip(all.iter()).for_each(|(o, &x)| *o = f16::from_f64(x))
        }
        _ => b.slice_mut::<bf16>()?.iter_mut().zip(all.iter()).for_each(|(o, &x)| *o = bf16::from_f64(x)),
    }
    Ok(())
}

/// The index of the extreme along an axis.
pub fn arg_reduce(spec: Spec<'_>, kind: ArgKind, axis: usize) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1)?, spec.outs[0].clone());
    if axis >= avals[0].shape.len() || avals[0].shape[axis] == 0 {
        bail!(Argument, "[{}] axis {axis} of {:?} has no element", kind.name(), avals[0].shape);
    }
    let dtype = avals[0].dtype;
    one(spec, move |ins, _| {
        let (v, _, n, inner) = arranged(&ins[0], &[axis as u8]);
        let mut b = CpuBuffer::new(out.nbytes())?;
        by_dtype!(dtype, T => {
            let x = dense::<T>(&v)?;
            let per = (CHUNK / 4 / n).max(1);
            pool::for_chunks(b.slice_mut::<u32>()?, per, |c, part| {
                for (j, o) in part.iter_mut().enumerate() {
                    let k = c * per + j;
                    let at = |r: usize| x[(k / inner * n + r) * inner + k % inner];
                    let mut best = 0;
                    for r in 1..n {
                        let (a, b) = (at(best), at(r));
                        let better = match kind {
                            ArgKind::Max => b.order(a).is_gt(),
                            ArgKind::Min => b.order(a).is_lt() || b.is_nan(),
                        };
                        if better && !a.is_nan() {
                            best = r;
                        }
                    }
                    *o = best as u32;
                }
            });
        });
        Ok(view::value(b, &out))
    })
}

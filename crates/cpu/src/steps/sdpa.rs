//! Attention. Scores of a query are never all in memory: keys come in blocks, with a running maximum
//! and sum. A key that is masked out is not there; a query without keys gives zeros.

use super::{float, inputs, one};
use crate::pool::{self, Shared};
use crate::view::{self, buffer, dense, dense_f32};
use half::{bf16, f16};
use isopace_core::backend::{Kernel, Spec, Value};
use isopace_core::op::Sdpa;
use isopace_core::{Dtype, Layout, Result, bail};
use std::borrow::Cow;
use std::sync::Arc;

/// Keys taken at a time.
const KEYS: usize = 64;
/// Query rows (of one key head) taken at a time.
const QUERIES: usize = 16;

/// Rows of features by their strides, whatever the dtype.
struct Rows<'a> {
    data: Data<'a>,
    layout: Layout,
}

enum Data<'a> {
    F32(&'a [f32]),
    F16(&'a [f16]),
    BF16(&'a [bf16]),
    /// Converted to float32 and dense.
    Copy(Cow<'a, [f32]>),
}

impl<'a> Rows<'a> {
    fn new(v: &'a Value, dtype: Dtype) -> Result<Rows<'a>> {
        let unit = v.layout.strides.last() == Some(&1) || v.layout.shape.last() == Some(&1);
        let layout = v.layout.clone();
        if !unit || !matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16) {
            let layout = Layout::contiguous(layout.shape);
            return Ok(Rows { data: Data::Copy(dense_f32(v, dtype)?), layout });
        }
        view::check(&layout, v.buffer.nbytes() / dtype.size())?;
        let b = buffer(v)?;
        let data = match dtype {
            Dtype::F32 => Data::F32(b.slice()?),
            Dtype::F16 => Data::F16(b.slice()?),
            _ => Data::BF16(b.slice()?),
        };
        Ok(Rows { data, layout })
    }

    /// Row `i` of head `h` in batch `b`, as float32.
    fn row<'b>(&'b self, b: usize, h: usize, i: usize, scratch: &'b mut [f32]) -> &'b [f32] {
        let l = &self.layout;
        let step = |axis: usize, at: usize| at as isize * l.strides[axis];
        let at = (l.offset as isize + step(0, b) + step(1, h) + step(2, i)) as usize;
        let n = l.shape[3];
        match &self.data {
            Data::F32(d) => &d[at..at + n],
            Data::Copy(d) => &d[at..at + n],
            Data::F16(d) => {
                let from = bytemuck::cast_slice(&d[at..at + n]);
                widen(from, &mut scratch[..n], crate::simd::lanes::f16_to_f32);
                &scratch[..n]
            }
            Data::BF16(d) => {
                let from = bytemuck::cast_slice(&d[at..at + n]);
                widen(from, &mut scratch[..n], crate::simd::lanes::bf16_to_f32);
                &scratch[..n]
            }
        }
    }
}

#[inline(always)]
fn widen(from: &[u16], to: &mut [f32], f: impl Fn(u16) -> f32) {
    to.iter_mut().zip(from).for_each(|(o, &x)| *o = f(x));
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    let ((a, ta), (b, tb)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    for (a, b) in a.iter().zip(b) {
        for i in 0..16 {
            lanes[i] += a[i] * b[i];
        }
    }
    let tail: f32 = ta.iter().zip(tb).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f32>() + tail
}

/// What is added to a score, or that the key is not there.
enum Mask<'a> {
    None,
    Bool(Cow<'a, [u8]>, Layout),
    Add(Cow<'a, [f32]>, Layout),
}

impl Mask<'_> {
    /// The score with the mask applied; -inf when the key is not there.
    #[inline]
    fn apply(&self, s: f32, b: usize, h: usize, q: usize, k: usize) -> f32 {
        let at = |l: &Layout| {
            [b, h, q, k].iter().zip(&l.strides).map(|(&i, &s)| i as isize * s).sum::<isize>() as usize
        };
        match self {
            Mask::None => s,
            Mask::Bool(m, l) => {
                if m[at(l)] != 0 {
                    s
                } else {
                    f32::NEG_INFINITY
                }
            }
            Mask::Add(m, l) => s + m[at(l)],
        }
    }
}

/// Scaled dot-product attention.
pub fn sdpa(spec: Spec<'_>, s: Sdpa) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 3 + s.mask as usize + s.sinks as usize)?, spec.outs[0].clone());
    if avals[..3].iter().any(|a| a.shape.len() != 4) || !out.dtype.is_float() {
        bail!(Internal, "[scaled_dot_product_attention] {avals:?}");
    }
    let heads = (avals[0].shape[1], avals[1].shape[1]);
    if heads.1 == 0 || !heads.0.is_multiple_of(heads.1) {
        bail!(Shape, "[scaled_dot_product_attention] {} query heads over {} key heads", heads.0, heads.1);
    }
    one(spec, move |ins, cells| {
        let scale = float(cells, 0)? as f32;
        let [batch, hq, lq, d] = *avals[0].shape.as_ref() else { unreachable_rank()? };
        let (hk, dv) = (avals[1].shape[1], avals[2].shape[3]);
        let full = avals[1].shape[2].min(avals[2].shape[2]);
        let len = if s.length { (float(cells, 1)?.max(0.0) as usize).min(full) } else { full };
        let (q, k, v) = (
            Rows::new(&ins[0], avals[0].dtype)?,
            Rows::new(&ins[1], avals[1].dtype)?,
            Rows::new(&ins[2], avals[2].dtype)?,
        );
        let mask = if s.mask {
            let m = &ins[3];
            let to = [batch, hq, lq, full];
            let layout = Layout::contiguous(m.layout.shape.clone()).broadcast_to(&to.into());
            match avals[3].dtype {
                Dtype::Bool => Mask::Bool(dense::<u8>(m)?, layout),
                d => Mask::Add(dense_f32(m, d)?, layout),
            }
        } else {
            Mask::None
        };
        let sinks = match s.sinks {
            true => Some(dense_f32(&ins[3 + s.mask as usize], avals[3 + s.mask as usize].dtype)?),
            false => None,
        };
        let group = hq / hk;
        let rows = group * lq;
        let blocks = rows.div_ceil(QUERIES);
        let buf = view::write_f32(&out, |o| {
            let shared = Shared::new(o);
            let job = |i: usize| {
                let (b, h, r0) = (i / (blocks * hk), i / blocks % hk, i % blocks * QUERIES);
                let n = QUERIES.min(rows - r0);
                let place = |r: usize| (h * group + (r0 + r) / lq, (r0 + r) % lq);
                let mut queries = vec![0f32; n * d];
                let mut row = vec![0f32; d.max(dv)];
                for r in 0..n {
                    let (head, at) = place(r);
                    let x = q.row(b, head, at, &mut row);
                    queries[r * d..][..d].iter_mut().zip(x).for_each(|(o, x)| *o = x * scale);
                }
                let mut top = vec![f32::NEG_INFINITY; n];
                let mut total = vec![0f32; n];
                let mut acc = vec![0f32; n * dv];
                if let Some(s) = &sinks {
                    for r in 0..n {
                        top[r] = s[place(r).0];
                        total[r] = 1.0;
                    }
                }
                // The last key that a query may see, plus one.
                let limit = |r: usize| match s.causal {
                    true => (place(r).1 + len + 1).saturating_sub(lq).min(len),
                    false => len,
                };
                let end = (0..n).map(limit).max().unwrap_or(0);
                let mut scores = [[f32::NEG_INFINITY; KEYS]; QUERIES];
                for k0 in (0..end).step_by(KEYS) {
                    let kn = KEYS.min(end - k0);
                    for j in 0..kn {
                        let key = k.row(b, h, k0 + j, &mut row);
                        for r in 0..n {
                            let (head, at) = place(r);
                            scores[r][j] = if k0 + j < limit(r) {
                                mask.apply(dot(&queries[r * d..][..d], key), b, head, at, k0 + j)
                            } else {
                                f32::NEG_INFINITY
                            };
                        }
                    }
                    for r in 0..n {
                        let line = &mut scores[r][..kn];
                        let best = line.iter().fold(top[r], |a, &x| if x > a || x.is_nan() { x } else { a });
                        if best == f32::NEG_INFINITY {
                            line.fill(0.0);
                            continue;
                        }
                        let shrink = (top[r] - best).exp();
                        line.iter_mut().for_each(|x| *x = (*x - best).exp());
                        total[r] = total[r] * shrink + line.iter().sum::<f32>();
                        if shrink != 1.0 {
                            acc[r * dv..][..dv].iter_mut().for_each(|x| *x *= shrink);
                        }
                        top[r] = best;
                    }
                    for j in 0..kn {
                        let x = v.row(b, h, k0 + j, &mut row);
                        for r in 0..n {
                            let w = scores[r][j];
                            if w != 0.0 {
                                acc[r * dv..][..dv].iter_mut().zip(x).for_each(|(o, &x)| *o += w * x);
                            }
                        }
                    }
                }
                for r in 0..n {
                    let (head, at) = place(r);
                    // SAFETY: each query row of each head belongs to one job.
                    let o = unsafe { shared.slice(((b * hq + head) * lq + at) * dv, dv) };
                    let inv = if total[r] == 0.0 { 0.0 } else { 1.0 / total[r] };
                    o.iter_mut().zip(&acc[r * dv..][..dv]).for_each(|(o, &x)| *o = x * inv);
                }
            };
            let jobs = batch * hk * blocks;
            if jobs * QUERIES.min(rows) * len * (d + dv) < 1 << 16 {
                (0..jobs).for_each(job);
            } else {
                pool::parallel_for(jobs, job);
            }
            Ok(())
        })?;
        Ok(view::value(buf, &out))
    })
}

fn unreachable_rank<T>() -> Result<T> {
    bail!(Internal, "[scaled_dot_product_attention] operands have four axes")
}

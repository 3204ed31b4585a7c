//! Scaled dot product attention: `softmax(scale · q kᵀ + mask) v`, never holding all scores.
//!
//! Scores come in blocks of keys, and a running maximum and sum (the online softmax) let each
//! block be folded in and forgotten. Query heads that share a key head are handled together, so
//! keys and values are read once for the group. Blocks that the causal rule masks are skipped.
//! With one query, the keys are cut into chunks of [`CHUNK`], one task each, and merged in their
//! order: the cut depends on the length alone, so results do not depend on the number of threads.
//!
//! # Rows that see no key
//! A masked score counts as a very negative finite number, as in MLX: where every key of a row is
//! masked, by a boolean mask, by the causal rule or by −∞ in an additive mask, the result is the
//! plain mean of all valid values; with a sink it is 0. Without any key the result is 0.

use super::matmul::Mat;
use super::panel::{self, MR, NR};
use super::vecmat;
use crate::pool::{self, Shared};
use crate::simd::convert::Load;
use crate::simd::math::exp1;
use isopace_core::{Result, err};
use std::cell::RefCell;

/// Keys in a task of one-query attention.
pub const CHUNK: usize = 256;
/// Keys in a block of attention with several queries.
const BLOCK: usize = 128;

/// What is added to the scores or hides them.
#[derive(Clone, Copy, Debug)]
pub enum Mask<'a> {
    /// Nonzero where a key is seen.
    Bool(&'a [u8]),
    /// Added to the scaled scores.
    Add(&'a [f32]),
}

/// The operands of [`sdpa`]. Strides are in elements; the last axis of q, k, v and out has stride 1.
#[derive(Clone, Copy, Debug)]
pub struct Sdpa<'a, K, V> {
    /// Batch, query heads, key heads (a divisor of the query heads).
    pub batch: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Queries.
    pub queries: usize,
    /// Valid keys; the buffers may hold more.
    pub keys: usize,
    /// Length of a query and of a key.
    pub dim: usize,
    /// Length of a value.
    pub value_dim: usize,
    /// Queries and the strides of batch, head, position.
    pub q: (&'a [f32], [usize; 3]),
    /// Keys and the strides of batch, head, position.
    pub k: (&'a [K], [usize; 3]),
    /// Values and the strides of batch, head, position.
    pub v: (&'a [V], [usize; 3]),
    /// What multiplies the scores.
    pub scale: f32,
    /// Hides key j from query i where j > i + keys − queries.
    pub causal: bool,
    /// A mask and its strides of batch, head, query, key; 0 where it is broadcast.
    pub mask: Option<(Mask<'a>, [usize; 4])>,
    /// A score for each query head that takes its share of the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
    /// Strides of batch, head, position of the output.
    pub out_strides: [usize; 3],
}

#[derive(Default)]
struct Scratch {
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    s: Vec<f32>,
    o: Vec<f32>,
    queries: Vec<f32>,
    weights: Vec<f32>,
    top: Vec<f32>,
    sum: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
    static PARTS: RefCell<Vec<f32>> = const { RefCell::new(Vec::new()) };
}

impl<K: Load, V: Load> Sdpa<'_, K, V> {
    fn check(&self, out: usize) -> Result<()> {
        let reach = |what: &str, len: usize, dims: &[usize], strides: &[usize], last: usize| {
            if dims.contains(&0) || last == 0 {
                return Ok(());
            }
            let end: u128 = dims.iter().zip(strides).map(|(d, s)| (d - 1) as u128 * *s as u128).sum();
            if end + last as u128 > len as u128 {
                return Err(err!(
                    Internal,
                    "[scaled_dot_product_attention] {what} reaches past its {len} elements"
                ));
            }
            Ok(())
        };
        let (b, h, g) = (self.batch, self.heads, self.kv_heads);
        if g == 0 && h != 0 || g != 0 && h % g != 0 {
            return Err(err!(
                Shape,
                "[scaled_dot_product_attention] {h} query heads are not a multiple of {g} key heads"
            ));
        }
        reach("q", self.q.0.len(), &[b, h, self.queries], &self.q.1, self.dim)?;
        reach("k", self.k.0.len(), &[b, g, self.keys], &self.k.1, self.dim)?;
        reach("v", self.v.0.len(), &[b, g, self.keys], &self.v.1, self.value_dim)?;
        reach("the output", out, &[b, h, self.queries], &self.out_strides, self.value_dim)?;
        if let Some((m, s)) = &self.mask {
            let len = match m {
                Mask::Bool(m) => m.len(),
                Mask::Add(m) => m.len(),
            };
            reach("the mask", len, &[b, h, self.queries, self.keys], s, 1)?;
        }
        if self.sinks.is_some_and(|s| s.len() != h) {
            return Err(err!(Shape, "[scaled_dot_product_attention] one sink for each of {h} query heads"));
        }
        Ok(())
    }

    /// Keys that query `i` may see by the causal rule.
    fn seen(&self, i: usize) -> usize {
        if self.causal { (i + 1 + self.keys).saturating_sub(self.queries).min(self.keys) } else { self.keys }
    }

    /// Masks a row of scores for keys `first ..`, query `i` of head `h`: −∞ where hidden.
    fn mask_row(&self, b: usize, h: usize, i: usize, first: usize, s: &mut [f32]) {
        if let Some((mask, st)) = self.mask {
            let at = b * st[0] + h * st[1] + i * st[2] + first * st[3];
            match mask {
                Mask::Bool(m) => {
                    for (j, s) in s.iter_mut().enumerate() {
                        if m[at + j * st[3]] == 0 {
                            *s = f32::NEG_INFINITY;
                        }
                    }
                }
                Mask::Add(m) => {
                    for (j, s) in s.iter_mut().enumerate() {
                        *s += m[at + j * st[3]];
                    }
                }
            }
        }
        let seen = self.seen(i).saturating_sub(first);
        if seen < s.len() {
            s[seen..].fill(f32::NEG_INFINITY);
        }
    }

    /// Copies rows `first .. first + n` of one head as float32, rows padded with zeros to `width`.
    fn rows<T: Load>(
        t: (&[T], [usize; 3]),
        b: usize,
        h: usize,
        first: usize,
        n: usize,
        d: usize,
        width: usize,
        to: &mut [f32],
    ) {
        if t.1[2] == d && d == width {
            let at = b * t.1[0] + h * t.1[1] + first * d;
            T::widen(&t.0[at..at + n * d], to);
            return;
        }
        for (r, o) in to.chunks_exact_mut(width).take(n).enumerate() {
            let at = b * t.1[0] + h * t.1[1] + (first + r) * t.1[2];
            T::widen(&t.0[at..at + d], o);
            o[d..].fill(0.0);
        }
    }

    /// The mean of all valid values.
    fn mean(&self, b: usize, h: usize, line: &mut Vec<f32>, out: &mut [f32]) {
        out.fill(0.0);
        line.resize(self.value_dim, 0.0);
        for j in 0..self.keys {
            Self::rows(self.v, b, h, j, 1, self.value_dim, self.value_dim, line);
            out.iter_mut().zip(&*line).for_each(|(o, v)| *o += v);
        }
        out.iter_mut().for_each(|o| *o /= self.keys as f32);
    }
}

/// Computes attention into `out`.
///
/// # Errors
/// A view that reaches past its slice, or head counts that do not divide.
pub fn sdpa<K: Load, V: Load>(p: &Sdpa<'_, K, V>, out: &mut [f32]) -> Result<()> {
    p.check(out.len())?;
    if p.batch * p.heads * p.queries * p.value_dim == 0 {
        return Ok(());
    }
    let shared = Shared::new(out);
    let row =
        |b: usize, h: usize, i: usize| b * p.out_strides[0] + h * p.out_strides[1] + i * p.out_strides[2];
    if p.keys == 0 {
        for (b, h, i) in
            (0..p.batch).flat_map(|b| (0..p.heads).flat_map(move |h| (0..p.queries).map(move |i| (b, h, i))))
        {
            // SAFETY: this thread alone holds `out`, one row at a time.
            unsafe { shared.slice(row(b, h, i), p.value_dim) }.fill(0.0);
        }
        return Ok(());
    }
    if p.queries == 1 {
        decode(p, &shared, row);
    } else {
        prefill(p, &shared, row);
    }
    Ok(())
}

/// Several queries: one task for each batch, key head and block of queries.
fn prefill<K: Load, V: Load>(
    p: &Sdpa<'_, K, V>,
    out: &Shared<'_, f32>,
    row: impl Fn(usize, usize, usize) -> usize + Sync,
) {
    let group = p.heads / p.kv_heads;
    let per = (96 / group).clamp(8, 64).min(p.queries);
    let blocks = p.queries.div_ceil(per);
    let (d, dv) = (p.dim, p.value_dim);
    pool::parallel_for(p.batch * p.kv_heads * blocks, |task| {
        // Causal blocks at the end have the most keys: they start first.
        let (head, block) = (task % (p.batch * p.kv_heads), blocks - 1 - task / (p.batch * p.kv_heads));
        let (b, g) = (head / p.kv_heads, head % p.kv_heads);
        let (i0, n) = (block * per, per.min(p.queries - block * per));
        let rows = group * n;
        SCRATCH.with_borrow_mut(|t| {
            t.q.resize(rows * d, 0.0);
            t.o.clear();
            t.o.resize(rows * dv, 0.0);
            t.s.resize(rows * BLOCK, 0.0);
            t.k.resize(panel::packed_len(BLOCK, d, NR), 0.0);
            t.v.resize(panel::packed_len(dv, BLOCK, NR), 0.0);
            t.queries.resize(panel::packed_len(rows, d, MR), 0.0);
            t.weights.resize(panel::packed_len(rows, BLOCK, MR), 0.0);
            t.sum.clear();
            t.top.clear();
            for r in 0..rows {
                let h = g * group + r / n;
                t.top.push(p.sinks.map_or(f32::NEG_INFINITY, |s| s[h]));
                t.sum.push(if p.sinks.is_some() { 1.0 } else { 0.0 });
                let at = b * p.q.1[0] + h * p.q.1[1] + (i0 + r % n) * p.q.1[2];
                for (o, q) in t.q[r * d..][..d].iter_mut().zip(&p.q.0[at..at + d]) {
                    *o = q * p.scale;
                }
            }
            panel::pack::<f32, MR>(Mat::dense(&t.q, rows, d).expect("rows of queries"), &mut t.queries);
            let end = p.seen(i0 + n - 1);
            for first in (0..end).step_by(BLOCK) {
                let len = BLOCK.min(end - first);
                let at = |st: [usize; 3]| b * st[0] + g * st[1] + first * st[2];
                let keys = Mat::new(p.k.0, at(p.k.1), len, d, p.k.1[2] as isize, 1).expect("checked keys");
                panel::pack::<K, NR>(keys, &mut t.k);
                let values =
                    Mat::new(p.v.0, at(p.v.1), dv, len, 1, p.v.1[2] as isize).expect("checked values");
                panel::pack::<V, NR>(values, &mut t.v);
                if d == 0 {
                    t.s.fill(0.0);
                } else {
                    let k = &t.k[..panel::packed_len(len, d, NR)];
                    panel::tiles(&t.queries, rows, k, d, |i, j, tile| {
                        let w = NR.min(len - j);
                        for (r, tile) in tile.iter().enumerate() {
                            t.s[(i + r) * BLOCK + j..][..w].copy_from_slice(&tile[..w]);
                        }
                    });
                }
                for r in 0..rows {
                    let s = &mut t.s[r * BLOCK..][..len];
                    p.mask_row(b, g * group + r / n, i0 + r % n, first, s);
                    fold_in(s, &mut t.top[r], &mut t.sum[r], &mut t.o[r * dv..][..dv]);
                }
                let s = Mat::new(&t.s, 0, rows, len, BLOCK as isize, 1).expect("rows of scores");
                panel::pack::<f32, MR>(s, &mut t.weights);
                let weights = &t.weights[..panel::packed_len(rows, len, MR)];
                panel::tiles(weights, rows, &t.v[..panel::packed_len(dv, len, NR)], len, |i, j, tile| {
                    let w = NR.min(dv - j);
                    for (r, tile) in tile.iter().enumerate() {
                        for (o, v) in t.o[(i + r) * dv + j..][..w].iter_mut().zip(tile) {
                            *o += v;
                        }
                    }
                });
            }
            for r in 0..rows {
                let h = g * group + r / n;
                // SAFETY: row (b, h, i) of the output is of this task alone.
                let o = unsafe { out.slice(row(b, h, i0 + r % n), dv) };
                finish(&t.o[r * dv..][..dv], t.sum[r], o);
                if t.top[r] == f32::NEG_INFINITY && p.sinks.is_none() {
                    p.mean(b, g, &mut t.v, o);
                }
            }
        });
    });
}

crate::isa::multiversion! {
    /// Turns scores into weights relative to the running maximum, and rescales what has been
    /// summed so far.
    fn fold_in(s: &mut [f32], top: &mut f32, sum: &mut f32, o: &mut [f32]) {
        let mut max = [f32::NEG_INFINITY; 16];
        let (chunks, rest) = s.as_chunks::<16>();
        for c in chunks {
            for j in 0..16 {
                max[j] = if c[j] > max[j] { c[j] } else { max[j] };
            }
        }
        for (j, v) in rest.iter().enumerate() {
            max[j] = if *v > max[j] { *v } else { max[j] };
        }
        for half in [8, 4, 2, 1] {
            for j in 0..half {
                max[j] = if max[j + half] > max[j] { max[j + half] } else { max[j] };
            }
        }
        let new = if max[0] > *top { max[0] } else { *top };
        // Nothing seen yet: any finite number keeps −∞ − new from being NaN.
        let shift = if new == f32::NEG_INFINITY { 0.0 } else { new };
        let old = if *top == f32::NEG_INFINITY { 0.0 } else { exp1::<FMA>(*top - shift) };
        let mut acc = [0f32; 16];
        let (chunks, rest) = s.as_chunks_mut::<16>();
        for c in chunks {
            for j in 0..16 {
                c[j] = exp1::<FMA>(c[j] - shift);
                acc[j] += c[j];
            }
        }
        for (j, v) in rest.iter_mut().enumerate() {
            *v = exp1::<FMA>(*v - shift);
            acc[j] += *v;
        }
        for half in [8, 4, 2, 1] {
            for j in 0..half {
                acc[j] += acc[j + half];
            }
        }
        *sum = *sum * old + acc[0];
        *top = new;
        if old != 1.0 {
            for v in o.iter_mut() {
                *v *= old;
            }
        }
    }
}

/// The bytes from element `at` on, to be asked for: none where rows have no elements.
fn bytes_from<T: Load>(x: &[T], at: usize) -> &[u8] {
    bytemuck::cast_slice(x.get(at..).unwrap_or(&[]))
}

fn finish(o: &[f32], sum: f32, out: &mut [f32]) {
    let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
    for (o, v) in out.iter_mut().zip(o) {
        *o = v * inverse;
    }
}

/// One query: the keys of each key head in chunks, each a task, merged in order.
fn decode<K: Load, V: Load>(
    p: &Sdpa<'_, K, V>,
    out: &Shared<'_, f32>,
    row: impl Fn(usize, usize, usize) -> usize + Sync,
) {
    let group = p.heads / p.kv_heads;
    let (d, dv) = (p.dim, p.value_dim);
    let chunks = p.keys.div_ceil(CHUNK);
    // One part for each head and chunk: the maximum, the sum, the weighted values.
    let part = dv.next_multiple_of(16) + 16;
    PARTS.with_borrow_mut(|parts| {
        parts.resize(p.batch * p.heads * chunks * part, 0.0);
        let len = group * part;
        let threads = pool::threads();
        pool::for_chunks(&mut parts[..], len, |task, parts| {
            let (head, chunk) = (task / chunks, task % chunks);
            let (b, g) = (head / p.kv_heads, head % p.kv_heads);
            let (start, n) = (chunk * CHUNK, CHUNK.min(p.keys - chunk * CHUNK));
            let at = |st: [usize; 3]| b * st[0] + g * st[1] + start * st[2];
            let keys = Mat::new(p.k.0, at(p.k.1), n, d, p.k.1[2] as isize, 1).expect("checked keys");
            let values = Mat::new(p.v.0, at(p.v.1), n, dv, p.v.1[2] as isize, 1).expect("checked values");
            // The chunk that this thread is likely to take next.
            let away = threads * CHUNK;
            let next = match start + away < p.keys {
                true => bytes_from(p.k.0, at(p.k.1) + away * p.k.1[2]),
                false => &[],
            };
            SCRATCH.with_borrow_mut(|t| {
                t.q.clear();
                for h in g * group..(g + 1) * group {
                    let at = b * p.q.1[0] + h * p.q.1[1];
                    t.q.extend(p.q.0[at..at + d].iter().map(|q| q * p.scale));
                }
                t.s.resize(group * CHUNK, 0.0);
                if d == 0 {
                    t.s.fill(0.0);
                } else {
                    vecmat::dots(&t.q, keys, bytes_from(p.v.0, at(p.v.1)), &mut t.s, CHUNK);
                }
                for (r, part) in parts.chunks_exact_mut(part).enumerate() {
                    part.fill(0.0);
                    part[0] = f32::NEG_INFINITY;
                    let s = &mut t.s[r * CHUNK..][..n];
                    p.mask_row(b, g * group + r, 0, start, s);
                    let (top, sum) = part[..2].split_at_mut(1);
                    fold_in(s, &mut top[0], &mut sum[0], &mut []);
                }
                vecmat::combine(&t.s, CHUNK, values, next, &mut parts[16..], part, group);
            });
        });
        let mut line = Vec::new();
        for (b, h) in (0..p.batch).flat_map(|b| (0..p.heads).map(move |h| (b, h))) {
            let (g, r) = (h / group, h % group);
            let at = |c: usize| (((b * p.kv_heads + g) * chunks + c) * group + r) * part;
            let sink = p.sinks.map(|s| s[h]);
            let top = (0..chunks).fold(sink.unwrap_or(f32::NEG_INFINITY), |a, c| {
                let t = parts[at(c)];
                if t > a { t } else { a }
            });
            // SAFETY: this thread alone holds `out` now.
            let o = unsafe { out.slice(row(b, h, 0), p.value_dim) };
            if top == f32::NEG_INFINITY && sink.is_none() && (0..chunks).all(|c| parts[at(c) + 1] == 0.0) {
                p.mean(b, g, &mut line, o);
                continue;
            }
            let mut sum = sink.map_or(0.0, |s| (s - top).exp());
            o.fill(0.0);
            for c in 0..chunks {
                let part = &parts[at(c)..][..part];
                let w = if part[0] == f32::NEG_INFINITY { 1.0 } else { (part[0] - top).exp() };
                sum += w * part[1];
                for (o, v) in o.iter_mut().zip(&part[16..]) {
                    *o += w * v;
                }
            }
            let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
            o.iter_mut().for_each(|o| *o *= inverse);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::quant::tests::Lcg;
    use super::*;
    use crate::isa::{Isa, with};
    use half::{bf16, f16};

    /// The definition, in float64, all scores at once.
    fn model<K: Load, V: Load>(p: &Sdpa<'_, K, V>) -> Vec<f64> {
        let one = |t: &[f32]| t.iter().map(|v| *v as f64).collect::<Vec<f64>>();
        let mut out = Vec::new();
        let group = p.heads / p.kv_heads;
        for b in 0..p.batch {
            for h in 0..p.heads {
                for i in 0..p.queries {
                    let at = b * p.q.1[0] + h * p.q.1[1] + i * p.q.1[2];
                    let q = one(&p.q.0[at..at + p.dim]);
                    let mut s = Vec::new();
                    for j in 0..p.keys {
                        let mut k = vec![0.0; p.dim];
                        let at = b * p.k.1[0] + h / group * p.k.1[1] + j * p.k.1[2];
                        K::widen(&p.k.0[at..at + p.dim], &mut k);
                        let mut x =
                            q.iter().zip(&k).map(|(a, b)| a * *b as f64).sum::<f64>() * p.scale as f64;
                        if let Some((m, st)) = p.mask {
                            let at = b * st[0] + h * st[1] + i * st[2] + j * st[3];
                            match m {
                                Mask::Bool(m) if m[at] == 0 => x = -1e300,
                                Mask::Add(m) => {
                                    x += m[at].max(-1e37) as f64 * if m[at] < -1e30 { 1e250 } else { 1.0 }
                                }
                                _ => {}
                            }
                        }
                        if p.causal && j + p.queries > i + p.keys {
                            x = -1e300;
                        }
                        s.push(x.max(-1e300));
                    }
                    let sink = p.sinks.map(|s| s[h] as f64);
                    let top = s.iter().copied().chain(sink).fold(f64::MIN, f64::max);
                    let e: Vec<f64> = s
                        .iter()
                        .map(|s| if *s <= -1e280 && top <= -1e280 { 1.0 } else { (s - top).exp() })
                        .collect();
                    let sum = e.iter().sum::<f64>() + sink.map_or(0.0, |s| (s - top).exp());
                    let mut o = vec![0.0; p.value_dim];
                    for j in 0..p.keys {
                        let mut v = vec![0.0; p.value_dim];
                        let at = b * p.v.1[0] + h / group * p.v.1[1] + j * p.v.1[2];
                        V::widen(&p.v.0[at..at + p.value_dim], &mut v);
                        o.iter_mut().zip(&v).for_each(|(o, v)| *o += e[j] / sum * *v as f64);
                    }
                    out.extend(o);
                }
            }
        }
        out
    }

    fn check<K: Load, V: Load>(r: &mut Lcg) {
        for (batch, heads, kv_heads, queries, keys, dim, value_dim) in [
            (1, 1, 1, 1, 1, 1, 1),
            (2, 6, 2, 1, 700, 64, 64),
            (1, 9, 3, 1, 257, 40, 80),
            (1, 4, 4, 5, 37, 16, 24),
            (2, 6, 3, 150, 300, 33, 17),
            (1, 2, 1, 70, 20, 8, 8),
            (1, 2, 2, 3, 0, 8, 8),
        ] {
            let cap = keys + 3;
            let mut floats = |n: usize| (0..n).map(|_| r.float() * 2.0).collect::<Vec<f32>>();
            // Positions outermost for q and out (as a model writes them), heads outermost for k.
            let q = floats(batch * heads * queries * dim);
            let (kf, vf) = (floats(batch * kv_heads * cap * dim), floats(batch * kv_heads * cap * value_dim));
            let mut k = vec![K::default(); kf.len()];
            let mut v = vec![V::default(); vf.len()];
            K::narrow(&kf, &mut k);
            V::narrow(&vf, &mut v);
            let add: Vec<f32> =
                (0..queries * keys).map(|i| if i % 3 == 0 { f32::NEG_INFINITY } else { 0.5 }).collect();
            let hidden: Vec<u8> = (0..heads * keys).map(|i| (i % 2) as u8 & (i >= keys) as u8).collect();
            let masks = [
                None,
                Some((Mask::Bool(&hidden[..]), [0, keys, 0, 1])),
                Some((Mask::Add(&add[..]), [0, 0, keys, 1])),
                Some((Mask::Add(&[f32::NEG_INFINITY][..]), [0, 0, 0, 0])),
            ];
            for (causal, mask, sinks) in [false, true]
                .into_iter()
                .flat_map(|c| masks.into_iter().flat_map(move |m| [(c, m, false), (c, m, true)]))
            {
                let p = Sdpa {
                    batch,
                    heads,
                    kv_heads,
                    queries,
                    keys,
                    dim,
                    value_dim,
                    q: (&q[..], [queries * heads * dim, dim, heads * dim]),
                    k: (&k[..], [kv_heads * cap * dim, cap * dim, dim]),
                    v: (&v[..], [kv_heads * cap * value_dim, cap * value_dim, value_dim]),
                    scale: 0.3,
                    causal,
                    mask,
                    sinks: sinks.then_some(&SINKS[..heads]),
                    out_strides: [heads * queries * value_dim, queries * value_dim, value_dim],
                };
                let want = model(&p);
                for isa in Isa::ALL {
                    with(isa, || {
                        let mut results = Vec::new();
                        for threads in [1, 2] {
                            pool::set_threads(threads);
                            let mut out = vec![f32::NAN; want.len()];
                            sdpa(&p, &mut out).unwrap();
                            results.push(out);
                        }
                        assert!(results[0] == results[1], "threads change bits");
                        for (i, (a, b)) in results[0].iter().zip(&want).enumerate() {
                            let ok = (*a as f64 - b).abs() <= 3e-6 * (1.0 + b.abs());
                            assert!(
                                ok,
                                "{isa:?} {heads} {queries}x{keys} causal {causal} mask {mask:?} at {i}: {a} {b}"
                            );
                        }
                    });
                }
            }
        }
        pool::set_threads(0);
    }

    const SINKS: [f32; 9] = [0.5, -1.0, 2.0, 0.0, -3.0, 1.5, 0.25, 0.75, 4.0];

    /// Keys without elements, whose strides lead past the end of what there is, are in more than one chunk.
    #[test]
    fn keys_without_elements() {
        let n = 3 * CHUNK;
        let v: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let p = Sdpa::<f32, f32> {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            queries: 1,
            keys: n,
            dim: 0,
            value_dim: 1,
            q: (&[], [1; 3]),
            k: (&[], [n, n, 1]),
            v: (&v, [n, n, 1]),
            scale: 1.0,
            causal: false,
            mask: None,
            sinks: None,
            out_strides: [1; 3],
        };
        pool::set_threads(1);
        let mut out = [f32::NAN];
        sdpa(&p, &mut out).unwrap();
        pool::set_threads(0);
        // Every score is 0, so the result is the mean.
        assert!((out[0] - (n - 1) as f32 / 2.0).abs() < 1e-3, "{out:?}");
    }

    #[test]
    fn attention_by_the_definition() {
        let mut r = Lcg(11);
        check::<f32, f32>(&mut r);
        check::<f16, f16>(&mut r);
        check::<bf16, f16>(&mut r);
    }
}

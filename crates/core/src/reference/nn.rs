//! Normalizations, rotary embeddings and attention.

use super::index::indices;
use super::reduce::each;
use super::tensor::{Data, Tensor, sum};
use crate::aval::Aval;
use crate::number::Number;
use crate::op::scalar_ops::round;
use crate::op::{Rope, Sdpa};
use crate::{Result, bail, err};

/// Extent of the last axis, and how many lines it has.
fn last(t: &Tensor, name: &str) -> Result<(usize, usize)> {
    match t.shape.split_last() {
        Some((&len, lead)) => Ok((lead.iter().product(), len)),
        None => bail!(Shape, "[{name}] a 0-d array has no last axis"),
    }
}

/// exp(x - max) / sum of them along the last axis. A line that is all -inf, or holds +inf, is NaN.
pub(super) fn softmax(x: &Tensor, out: &Aval) -> Result<Tensor> {
    let (lines, len) = last(x, "softmax")?;
    let made = each(&x.floats(), lines, len, |line| weights(line, None));
    Ok(Tensor::new(out, Data::Float(made.concat())))
}

/// Softmax of a line, with one more logit in the denominator if there is one.
fn weights(line: &[f64], sink: Option<f64>) -> Vec<f64> {
    let top = line.iter().chain(&sink).copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = line.iter().map(|x| (x - top).exp()).collect();
    let total = sum(&e) + sink.map_or(0.0, |s| (s - top).exp());
    e.into_iter().map(|e| e / total).collect()
}

/// Multiplies by the weight and adds the bias, rounding to the result's dtype before and between.
fn affine(lines: Vec<Vec<f64>>, ins: &[Tensor], out: &Aval) -> Tensor {
    let d = out.dtype;
    let mut v: Vec<f64> = lines.concat().into_iter().map(|x| round(x, d)).collect();
    if let Some(w) = ins.get(1).map(Tensor::floats) {
        v.iter_mut().enumerate().for_each(|(i, x)| *x = round(*x * w[i % w.len()], d));
    }
    if let Some(b) = ins.get(2).map(Tensor::floats) {
        v.iter_mut().enumerate().for_each(|(i, x)| *x += b[i % b.len()]);
    }
    Tensor::new(out, Data::Float(v))
}

/// x / sqrt(mean(x^2) + eps) [* w].
pub(super) fn rms_norm(ins: &[Tensor], eps: Number, out: &Aval) -> Result<Tensor> {
    let (lines, len) = last(&ins[0], "rms_norm")?;
    let made = each(&ins[0].floats(), lines, len, |line| {
        let squares: Vec<f64> = line.iter().map(|x| x * x).collect();
        let scale = 1.0 / (sum(&squares) / len as f64 + eps.as_f64()).sqrt();
        line.iter().map(|x| x * scale).collect()
    });
    Ok(affine(made, ins, out))
}

/// (x - mean) / sqrt(var + eps) [* w [+ b]], the variance taken about the mean.
pub(super) fn layer_norm(ins: &[Tensor], eps: Number, out: &Aval) -> Result<Tensor> {
    let (lines, len) = last(&ins[0], "layer_norm")?;
    let made = each(&ins[0].floats(), lines, len, |line| {
        let mean = sum(line) / len as f64;
        let squares: Vec<f64> = line.iter().map(|x| (x - mean) * (x - mean)).collect();
        let scale = 1.0 / (sum(&squares) / len as f64 + eps.as_f64()).sqrt();
        line.iter().map(|x| (x - mean) * scale).collect()
    });
    Ok(affine(made, ins, out))
}

/// Rotates pairs of features by `(offset + t) * scale * base^(-2i / dims)`, or times `1 / freqs[i]`. The
/// position, the factor and the angle are each rounded to float32.
pub(super) fn rope(r: &Rope, ins: &[Tensor], cells: &[Number], out: &Aval) -> Result<Tensor> {
    let x = &ins[0];
    let [batch, .., len, width] = x.shape[..] else {
        bail!(Shape, "[rope] shape {:?} has too few axes; accepted: 3 or more", x.shape);
    };
    let (dims, half) = (r.dims as usize, r.dims as usize / 2);
    let [base, scale] = [cells[0].as_f64(), cells[1].as_f64()].map(|x| x as f32);
    let offsets: Vec<i64> = if r.offset_array {
        indices(&ins[1], "rope")?
    } else {
        let offset = cells.get(2).and_then(|n| n.as_int());
        vec![offset.ok_or_else(|| err!(Argument, "[rope] the offset is not an integer"))?]
    };
    if dims > width || (offsets.len() != 1 && offsets.len() != batch) {
        bail!(Shape, "[rope] {dims} features and {} offsets for shape {:?}", offsets.len(), x.shape);
    }
    let factors: Vec<f32> = if r.freqs {
        ins[ins.len() - 1].floats().iter().map(|&f| (1.0 / f) as f32).collect()
    } else {
        (0..half).map(|i| (base as f64).powf(-2.0 * i as f64 / dims as f64) as f32).collect()
    };
    let mut v = x.floats();
    let per_batch = v.len() / batch.max(1);
    for (line, features) in v.chunks_mut(width.max(1)).enumerate() {
        let start = line * width;
        let offset = offsets[if offsets.len() == 1 { 0 } else { start / per_batch }];
        let position = (offset + (line % len) as i64) as f32 * scale;
        for (i, &factor) in factors.iter().enumerate() {
            let (a, b) = if r.traditional { (2 * i, 2 * i + 1) } else { (i, i + half) };
            let (sin, cos) = ((position * factor) as f64).sin_cos();
            let (x, y) = (features[a], features[b]);
            features[a] = x * cos - y * sin;
            features[b] = x * sin + y * cos;
        }
    }
    Ok(Tensor::new(out, Data::Float(v)))
}

/// softmax(q k^T scale + mask) v, query head `h` reading key head `h / (Hq / Hk)`. A row that sees no
/// key gets the mean of the values, zeros with sinks; without keys everything is zero.
pub(super) fn sdpa(s: &Sdpa, ins: &[Tensor], cells: &[Number], out: &Aval) -> Result<Tensor> {
    let dims = |t: &Tensor| -> Result<[usize; 4]> {
        let place = "scaled_dot_product_attention";
        t.shape[..].try_into().map_err(|_| err!(Shape, "[{place}] shape {:?} is not 4-d", t.shape))
    };
    let ([batch, heads, queries, depth], [_, key_heads, room, _]) = (dims(&ins[0])?, dims(&ins[1])?);
    let [.., value_depth] = dims(&ins[2])?;
    let (q, k, v) = (ins[0].floats(), ins[1].floats(), ins[2].floats());
    let scale = cells[0].as_f64();
    let keys = if s.length {
        let n = cells.get(1).and_then(|n| n.as_int());
        n.ok_or_else(|| err!(Argument, "[attention] the length is not an integer"))?.clamp(0, room as i64)
            as usize
    } else {
        room
    };
    let mask = if s.mask { Some(Mask::new(&ins[3], &[batch, heads, queries, room])?) } else { None };
    let sinks = s.sinks.then(|| ins[ins.len() - 1].floats());
    let group = (heads / key_heads.max(1)).max(1);
    let mut made = Vec::with_capacity(out.shape.elems());
    for row in 0..batch * heads * queries {
        let (b, h, i) = (row / (heads * queries), row / queries % heads, row % queries);
        let kv = (b * key_heads + h / group) * room;
        let scores: Vec<f64> = (0..keys)
            .map(|j| {
                let (q, k) = (&q[row * depth..][..depth], &k[(kv + j) * depth..][..depth]);
                let seen = !s.causal || j + queries <= i + keys;
                let score = q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() * scale;
                let score = if seen { score } else { f64::NEG_INFINITY };
                mask.as_ref().map_or(score, |m| m.apply(score, [b, h, i, j]))
            })
            .collect();
        let sink = sinks.as_ref().map(|s| s[h % s.len()]);
        let w = if scores.iter().all(|&x| x == f64::NEG_INFINITY) {
            vec![if sink.is_some() { 0.0 } else { 1.0 / keys as f64 }; keys]
        } else {
            weights(&scores, sink)
        };
        made.extend((0..value_depth).map(|d| {
            let terms: Vec<f64> =
                w.iter().enumerate().map(|(j, w)| w * v[(kv + j) * value_depth + d]).collect();
            sum(&terms)
        }));
    }
    Ok(Tensor::new(out, Data::Float(made)))
}

/// A mask that broadcasts to (batch, heads, queries, keys): true keeps, or numbers are added.
struct Mask {
    values: Vec<f64>,
    keeps: bool,
    strides: [usize; 4],
}

impl Mask {
    fn new(t: &Tensor, full: &[usize; 4]) -> Result<Mask> {
        let shape = crate::Shape::from(full);
        if t.shape.broadcast(&shape, "attention mask")? != shape {
            bail!(Shape, "[attention mask] shape {:?} does not broadcast to {shape:?}", t.shape);
        }
        let wide = t.layout().broadcast_to(&shape);
        let mut strides = [0; 4];
        strides.iter_mut().zip(&wide.strides).for_each(|(to, &s)| *to = s as usize);
        Ok(Mask { values: t.floats(), keeps: t.dtype == crate::Dtype::Bool, strides })
    }

    fn apply(&self, score: f64, at: [usize; 4]) -> f64 {
        let m = self.values[at.iter().zip(self.strides).map(|(i, s)| i * s).sum::<usize>()];
        match (self.keeps, m != 0.0) {
            (true, true) => score,
            (true, false) => f64::NEG_INFINITY,
            (false, _) => score + m,
        }
    }
}

//! Rotary position embeddings.

use super::{float, inputs, one};
use crate::pool;
use crate::view::{self, dense_f32};
use isopace_core::backend::{Kernel, Spec};
use isopace_core::op::Rope;
use isopace_core::{Result, bail};
use std::sync::Arc;

/// Rotates pairs of the leading features by position times frequency; angles are float32.
pub fn rope(spec: Spec<'_>, r: Rope) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 1 + r.offset_array as usize + r.freqs as usize)?, spec.outs[0].clone());
    let rank = out.shape.len();
    let (dims, half) = (r.dims as usize, r.dims as usize / 2);
    if rank < 2 || dims % 2 != 0 || dims > out.shape[rank - 1] || !out.dtype.is_float() {
        bail!(Internal, "[rope] {dims} dimensions of {:?}", out);
    }
    let (t, d) = (out.shape[rank - 2], out.shape[rank - 1]);
    let batch = if rank > 2 { out.shape[0] } else { 1 };
    one(spec, move |ins, cells| {
        let (base, scale) = (float(cells, 0)? as f32 as f64, float(cells, 1)?);
        let offsets: Vec<i64> = if r.offset_array {
            view::indices(&ins[1], avals[1].dtype)?.to_vec()
        } else {
            vec![float(cells, 2)? as i64]
        };
        if offsets.is_empty() || (offsets.len() != 1 && offsets.len() != batch) {
            bail!(Shape, "[rope] {} offsets for a batch of {batch}", offsets.len());
        }
        let mut freqs: Vec<f32> =
            (0..half).map(|i| base.powf(-2.0 * i as f64 / dims as f64) as f32).collect();
        if r.freqs {
            let at = ins.len() - 1;
            let waves = dense_f32(&ins[at], avals[at].dtype)?;
            if waves.len() != half {
                bail!(Shape, "[rope] {} wavelengths for {dims} dimensions", waves.len());
            }
            freqs.iter_mut().zip(waves.iter()).for_each(|(f, &w)| *f = 1.0 / w);
        }
        // (cos, sin) for each offset, position and pair.
        let mut table = Vec::with_capacity(offsets.len() * t * half);
        for &o in &offsets {
            for p in 0..t {
                let at = (o + p as i64) as f32 * scale as f32;
                table.extend(freqs.iter().map(|&f| {
                    let (s, c) = ((at * f) as f64).sin_cos();
                    (c as f32, s as f32)
                }));
            }
        }
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let rows_per_batch = (x.len() / d.max(1)).checked_div(batch).unwrap_or(0);
        let buf = view::write_f32(&out, |o| {
            if o.is_empty() {
                return Ok(());
            }
            let per = ((1 << 14) / d).max(1);
            pool::for_chunks(o, per * d, |c, part| {
                for (j, o) in part.chunks_mut(d).enumerate() {
                    let row = c * per + j;
                    let which = if offsets.len() == 1 { 0 } else { row / rows_per_batch };
                    let cs = &table[(which * t + row % t) * half..][..half];
                    let x = &x[row * d..][..d];
                    for (i, &(c, s)) in cs.iter().enumerate() {
                        let (p, q) = if r.traditional { (2 * i, 2 * i + 1) } else { (i, i + half) };
                        o[p] = x[p] * c - x[q] * s;
                        o[q] = x[p] * s + x[q] * c;
                    }
                    o[dims..].copy_from_slice(&x[dims..]);
                }
            });
            Ok(())
        })?;
        Ok(view::value(buf, &out))
    })
}

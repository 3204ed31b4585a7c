//! Attention as a step: operands by their strides into the kernel.

use super::{float, inputs, one};
use crate::kernels::attention::{self, Mask};
use crate::scratch::Elems;
use crate::simd::convert::Load;
use crate::view::{self, buffer, dense, dense_f32};
use half::{bf16, f16};
use isopace_core::backend::{Input, Kernel, Spec, Value};
use isopace_core::op::Sdpa;
use isopace_core::shape::Dims;
use isopace_core::{Aval, Dtype, Layout, Result, bail};
use std::sync::Arc;

/// Rows of features: where they start and the strides of batch, head, position.
struct Rows<'a, T> {
    data: Elems<'a, T>,
    offset: usize,
    strides: [usize; 3],
}

impl<'a, T: bytemuck::Pod + Send + Sync> Rows<'a, T> {
    fn new(v: &'a Input<'_>) -> Result<Rows<'a, T>> {
        let l = &v.layout;
        let unit = l.shape.last() == Some(&1) || l.strides.last() == Some(&1);
        if unit && l.strides[..3].iter().all(|&s| s >= 0) {
            let all = buffer(v)?.slice::<T>()?;
            view::check(l, all.len())?;
            return Ok(Rows { data: Elems::Lent(all), offset: l.offset, strides: three(&l.strides) });
        }
        let strides = three(&Layout::contiguous(l.shape.clone()).strides);
        Ok(Rows { data: dense::<T>(v)?, offset: 0, strides })
    }

    fn part(&self) -> (&[T], [usize; 3]) {
        (self.data.get(self.offset..).unwrap_or(&[]), self.strides)
    }
}

fn three(s: &Dims<isize>) -> [usize; 3] {
    std::array::from_fn(|i| s[i] as usize)
}

/// Scaled dot-product attention.
pub fn sdpa(spec: Spec<'_>, s: Sdpa) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 3 + s.mask as usize + s.sinks as usize)?, spec.outs[0].clone());
    if avals[..3].iter().any(|a| a.shape.len() != 4) || out.shape.len() != 4 || !out.dtype.is_float() {
        bail!(Internal, "[scaled_dot_product_attention] {avals:?}");
    }
    let fits = |i: usize, j: usize, axis: usize| avals[i].shape[axis] == avals[j].shape[axis];
    if !fits(0, 1, 3) || !fits(1, 2, 1) || !fits(1, 2, 2) || !fits(0, 1, 0) || !fits(1, 2, 0) {
        bail!(Shape, "[scaled_dot_product_attention] {avals:?}");
    }
    one(spec, move |ins, cells| {
        // Half-precision caches are read as they are; whatever else differs is widened first.
        let (dk, dv) = (avals[1].dtype, avals[2].dtype);
        let same = dk == dv && matches!(dk, Dtype::F32 | Dtype::F16 | Dtype::BF16);
        if !same {
            for (i, d) in [(1, dk), (2, dv)] {
                let wide = view::round_f32(&dense_f32(&ins[i], d)?, Dtype::F32)?;
                ins[i] = view::value(wide, &Aval::new(avals[i].shape.clone(), Dtype::F32)).into();
            }
        }
        let q = dense_f32(&ins[0], avals[0].dtype)?;
        match dk {
            Dtype::F16 if same => typed::<f16>(&s, &avals, &out, &q, ins, cells),
            Dtype::BF16 if same => typed::<bf16>(&s, &avals, &out, &q, ins, cells),
            _ => typed::<f32>(&s, &avals, &out, &q, ins, cells),
        }
    })
}

fn typed<T: Load + bytemuck::Pod>(
    s: &Sdpa,
    avals: &[Aval],
    out: &Aval,
    q: &[f32],
    ins: &[Input<'_>],
    cells: &[isopace_core::Number],
) -> Result<Value> {
    let (qs, ks, vs) = (&avals[0].shape, &avals[1].shape, &avals[2].shape);
    let (k, v) = (Rows::<T>::new(&ins[1])?, Rows::<T>::new(&ins[2])?);
    let keys = if s.length { (float(cells, 1)?.max(0.0) as usize).min(ks[2]) } else { ks[2] };
    let mask = match s.mask {
        false => None,
        true => {
            let m = &ins[3];
            let to = [qs[0], qs[1], qs[2], ks[2]].into();
            let l = Layout::contiguous(m.layout.shape.clone()).broadcast_to(&to);
            let strides: [usize; 4] = std::array::from_fn(|i| l.strides[i] as usize);
            let data = match avals[3].dtype {
                Dtype::Bool => MaskData::Bool(dense::<u8>(m)?),
                d => MaskData::Add(dense_f32(m, d)?),
            };
            Some((data, strides))
        }
    };
    let sinks = match s.sinks {
        false => None,
        true => Some(dense_f32(&ins[3 + s.mask as usize], avals[3 + s.mask as usize].dtype)?),
    };
    let contiguous = |shape: &[usize]| three(&Layout::contiguous(shape.into()).strides);
    let call = attention::Sdpa::<T, T> {
        batch: qs[0],
        heads: qs[1],
        kv_heads: ks[1],
        queries: qs[2],
        keys,
        dim: qs[3],
        value_dim: vs[3],
        q: (q, contiguous(qs)),
        k: k.part(),
        v: v.part(),
        scale: float(cells, 0)? as f32,
        causal: s.causal,
        mask: mask.as_ref().map(|(m, strides)| match m {
            MaskData::Bool(m) => (Mask::Bool(m), *strides),
            MaskData::Add(m) => (Mask::Add(m), *strides),
        }),
        sinks: sinks.as_deref(),
        out_strides: contiguous(&out.shape),
    };
    let made = view::write_f32(out, |o| attention::sdpa(&call, o))?;
    Ok(view::value(made, out))
}

enum MaskData<'a> {
    Bool(Elems<'a, u8>),
    Add(Elems<'a, f32>),
}

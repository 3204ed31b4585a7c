//! Matrix products as steps: batches over strided operands.

use super::{inputs, one, quant};
use crate::buffer::CpuBuffer;
use crate::kernels::matmul::{Mat, MatElem, matmul as kernel};
use crate::pool;
use crate::scratch::Elems;
use crate::view::{self, Walk, buffer, dense_f32};
use half::{bf16, f16};
use isopace_core::backend::{Input, Kernel, Spec, Value};
use isopace_core::op::GatherMatmul;
use isopace_core::{Aval, Complex, Dtype, Layout, Result, Shape, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// A batch of products: where each pair of matrices starts, and their shape.
struct Batch {
    starts: Vec<(usize, usize)>,
    m: usize,
    n: usize,
    k: usize,
    a: (isize, isize),
    b: (isize, isize),
}

impl Batch {
    fn new(a: &Layout, b: &Layout, out: &[usize]) -> Result<Batch> {
        let (ra, rb) = (a.shape.len(), b.shape.len());
        if ra < 2 || rb < 2 || out.len() < 2 {
            bail!(Internal, "[matmul] {:?} @ {:?}", a.shape, b.shape);
        }
        let (m, k, n) = (a.shape[ra - 2], a.shape[ra - 1], b.shape[rb - 1]);
        if b.shape[rb - 2] != k || out[out.len() - 2..] != [m, n] {
            bail!(Internal, "[matmul] {:?} @ {:?} gives {out:?}", a.shape, b.shape);
        }
        let lead = &out[..out.len() - 2];
        let outer = |l: &Layout| {
            let r = l.shape.len() - 2;
            let part =
                Layout { shape: l.shape[..r].into(), strides: l.strides[..r].into(), offset: l.offset };
            let mut starts = Vec::new();
            Walk::new(&part, lead).runs(0, lead.iter().product(), |at, s, _, n| {
                starts.extend((0..n).map(|i| (at as isize + i as isize * s) as usize));
            });
            starts
        };
        let starts = outer(a).into_iter().zip(outer(b)).collect();
        let strides = |l: &Layout, r: usize| (l.strides[r - 2], l.strides[r - 1]);
        Ok(Batch { starts, m, n, k, a: strides(a, ra), b: strides(b, rb) })
    }

    /// Runs the batch: one product after the other where they are large, side by side where not.
    fn run<T: MatElem>(&self, a: &[T], b: &[T], out: &mut [T]) -> Result<()> {
        let plane = self.m * self.n;
        if plane == 0 {
            return Ok(());
        }
        let each = |i: usize, out: &mut [T]| {
            let (sa, sb) = self.starts[i];
            let ma = Mat::new(a, sa, self.m, self.k, self.a.0, self.a.1)?;
            let mb = Mat::new(b, sb, self.k, self.n, self.b.0, self.b.1)?;
            kernel(ma, mb, out)
        };
        if self.starts.len() == 1 || plane * self.k >= 1 << 18 {
            return out.chunks_mut(plane).enumerate().try_for_each(|(i, o)| each(i, o));
        }
        let per = ((1 << 16) / (plane * self.k).max(1)).max(1);
        let failed = parking_lot::Mutex::new(Ok(()));
        pool::for_chunks(out, per * plane, |c, part| {
            for (j, o) in part.chunks_mut(plane).enumerate() {
                if let Err(e) = each(c * per + j, o) {
                    *failed.lock() = Err(e);
                }
            }
        });
        failed.into_inner()
    }
}

/// Products of a stack with dense matrices (`k` x `n`, or `n` x `k` when transposed); leading axes
/// broadcast.
pub fn stacked(
    x: &[f32],
    x_shape: &Shape,
    w: &[f32],
    w_shape: &Shape,
    (k, n): (usize, usize),
    transposed: bool,
    out: &Aval,
    o: &mut [f32],
) -> Result<()> {
    let lead = &w_shape[..w_shape.len().saturating_sub(2)];
    let full =
        |rows: usize, cols: usize| Layout::contiguous(lead.iter().copied().chain([rows, cols]).collect());
    let b = if transposed {
        let mut perm: SmallVec<[usize; 4]> = (0..lead.len() + 2).collect();
        perm.swap(lead.len(), lead.len() + 1);
        full(n, k).transpose(&perm)
    } else {
        full(k, n)
    };
    let (mut a, mut to) = (x_shape.clone(), out.shape.clone());
    if a.len() == 1 {
        a.insert(0, 1);
        to.insert(out.shape.len() - 1, 1);
    }
    Batch::new(&Layout::contiguous(a), &b, &to)?.run(x, w, o)
}

/// `a @ b` of float32 matrices over dense data, for other steps.
pub fn dense_product(a: &[f32], b: &[f32], m: usize, k: usize, n: usize, out: &mut [f32]) -> Result<()> {
    kernel(Mat::dense(a, m, k)?, Mat::dense(b, n, k)?.transposed(), out)
}

/// A matrix product over the last two axes.
pub fn matmul(spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
    let (avals, out) = (inputs(spec, 2)?, spec.outs[0].clone());
    let d = avals[0].dtype;
    if avals[1].dtype != d || out.dtype != d {
        bail!(Internal, "[matmul] {d} @ {} gives {}", avals[1].dtype, out.dtype);
    }
    one(spec, move |ins, _| multiply(&ins[0], &ins[1], &out))
}

fn multiply(a: &Input<'_>, b: &Input<'_>, out: &Aval) -> Result<Value> {
    let batch = Batch::new(&a.layout, &b.layout, &out.shape)?;
    let mut buf = CpuBuffer::new(out.nbytes())?;
    let (x, y) = (buffer(a)?, buffer(b)?);
    match out.dtype {
        Dtype::F32 => batch.run::<f32>(x.slice()?, y.slice()?, buf.slice_mut()?)?,
        Dtype::F64 => batch.run::<f64>(x.slice()?, y.slice()?, buf.slice_mut()?)?,
        Dtype::F16 => batch.run::<f16>(x.slice()?, y.slice()?, buf.slice_mut()?)?,
        Dtype::BF16 => batch.run::<bf16>(x.slice()?, y.slice()?, buf.slice_mut()?)?,
        Dtype::C64 => batch.run::<Complex>(x.slice()?, y.slice()?, buf.slice_mut()?)?,
        d => bail!(Unsupported, "[matmul] {d} is not accepted; accepted: floating and complex dtypes"),
    }
    Ok(view::value(buf, out))
}

/// Products with matrices chosen by index arrays.
pub fn gather_matmul(spec: Spec<'_>, g: GatherMatmul) -> Result<Arc<dyn Kernel>> {
    let parts = g.quant.map_or(1, |q| q.format.parts());
    let count = 1 + parts + g.lhs as usize + g.rhs as usize;
    let (avals, out) = (inputs(spec, count)?, spec.outs[0].clone());
    one(spec, move |ins, _| {
        let r = out.shape.len();
        if r < 2 || ins[0].layout.shape.len() < 2 {
            bail!(Internal, "[gather_mm] {:?} gives {:?}", ins[0].layout.shape, out.shape);
        }
        let (m, n) = (out.shape[r - 2], out.shape[r - 1]);
        let lead = &out.shape[..r - 2];
        let batches: usize = lead.iter().product();
        let x = dense_f32(&ins[0], avals[0].dtype)?;
        let k = *ins[0].layout.shape.last().unwrap_or(&0);
        let lhs_count = x.len().checked_div(m * k).unwrap_or(0);
        let (transposed, w): (bool, Elems<'_, f32>) = match g.quant {
            None => (false, dense_f32(&ins[1], avals[1].dtype)?),
            Some(q) => {
                (q.transpose, quant::dense_weight(&ins[1..1 + parts], &avals[1..1 + parts], q.format)?.into())
            }
        };
        let rhs_count = w.len().checked_div(n * k).unwrap_or(0);
        // Which matrix each product takes; without indices the operand's own batch, broadcast.
        let chosen = |at: usize, given: bool, of: usize, own: &[usize]| -> Result<Vec<usize>> {
            if batches > 0 && of == 0 {
                bail!(Shape, "[gather_mm] there are no matrices to choose from");
            }
            if !given {
                return Ok(Layout::contiguous(own.into()).broadcast_to(&lead.into()).offsets().collect());
            }
            let v = &ins[at];
            let full = v.under(v.layout.broadcast_to(&lead.into()));
            let idx = view::indices(&full, avals[at].dtype)?;
            Ok(idx.iter().map(|&i| isopace_core::op::index::clamp(i, of)).collect())
        };
        let own = |i: usize| &avals[i].shape[..avals[i].shape.len().saturating_sub(2)];
        let left = chosen(1 + parts, g.lhs, lhs_count, own(0))?;
        let right = chosen(1 + parts + g.lhs as usize, g.rhs, rhs_count, own(1))?;
        let batch = Batch {
            starts: left.iter().zip(&right).map(|(&a, &b)| (a * m * k, b * n * k)).collect(),
            m,
            n,
            k,
            a: (k as isize, 1),
            b: if transposed { (1, k as isize) } else { (n as isize, 1) },
        };
        let buf = view::write_f32(&out, |o| batch.run::<f32>(&x, &w, o))?;
        Ok(view::value(buf, &out))
    })
}

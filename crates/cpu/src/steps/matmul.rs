//! Matrix products. Operands keep their strides; work is split by rows of the result, so sums
//! never depend on the number of threads.

use super::{inputs, one, quant};
use crate::buffer::CpuBuffer;
use crate::pool::{self, Shared};
use crate::view::{self, Walk, buffer, dense_f32};
use isopace_core::backend::{Kernel, Spec, Value};
use isopace_core::op::GatherMatmul;
use isopace_core::{Aval, Complex, Dtype, Layout, Result, bail};
use std::borrow::Cow;
use std::sync::Arc;

/// A matrix by its strides: rows, columns, and the step along each.
#[derive(Clone, Copy)]
struct Matrix<'a, T> {
    data: &'a [T],
    offset: usize,
    rows: usize,
    cols: usize,
    rs: isize,
    cs: isize,
}

impl<T> Matrix<'_, T> {
    /// True when every element is inside the data.
    fn fits(&self) -> bool {
        let reach = |n: usize, s: isize| (n as isize - 1) * s;
        let (a, b) = (reach(self.rows, self.rs), reach(self.cols, self.cs));
        let at = self.offset as isize;
        at + a.min(0) + b.min(0) >= 0 && ((at + a.max(0) + b.max(0)) as usize) < self.data.len()
    }
}

/// `out = a b`, row-major, rows `r0 ..` of it; overwrites.
fn product<T: Copy + 'static>(a: Matrix<'_, T>, b: Matrix<'_, T>, out: &mut [T], zero: T, one: T) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 {
        return out.fill(zero);
    }
    assert!(a.fits() && b.fits() && b.rows == k && out.len() == m * n, "matrices inside their buffers");
    // SAFETY: checked above: every element that the strides reach is inside the slices, and the
    // result has m rows of n elements, which `out` alone borrows.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.data.as_ptr().add(a.offset),
            a.cs,
            a.rs,
            b.data.as_ptr().add(b.offset),
            b.cs,
            b.rs,
            zero,
            one,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

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
        let lead = &out[..out.len() - 2];
        let outer = |l: &Layout| {
            let r = l.shape.len() - 2;
            let part =
                Layout { shape: l.shape[..r].into(), strides: l.strides[..r].into(), offset: l.offset };
            let w = Walk::new(&part, lead);
            let mut starts = Vec::new();
            w.runs(0, lead.iter().product(), |at, s, _, n| {
                starts.extend((0..n).map(|i| (at as isize + i as isize * s) as usize));
            });
            starts
        };
        let starts = outer(a).into_iter().zip(outer(b)).collect();
        Ok(Batch {
            starts,
            m,
            n,
            k,
            a: (a.strides[ra - 2], a.strides[ra - 1]),
            b: (b.strides[rb - 2], b.strides[rb - 1]),
        })
    }

    /// Runs the batch over data; small products inline, others split into bands of rows or columns.
    fn run<T: Copy + Send + Sync + 'static>(&self, a: &[T], b: &[T], out: &mut [T], zero: T, unit: T) {
        let (m, n, k) = (self.m, self.n, self.k);
        let work = m * n * k;
        // Bands depend on the shape alone.
        let (bm, bn) = if work < 1 << 18 {
            (m.max(1), n.max(1))
        } else if m >= 32 {
            (m.div_ceil(4).next_multiple_of(16).min(256).min(m), n)
        } else {
            (m, n.div_ceil(8).next_multiple_of(64).min(n))
        };
        let (rows, cols) = (m.div_ceil(bm.max(1)), n.div_ceil(bn.max(1)));
        let plane = m * n;
        let shared = Shared::new(out);
        let job = |i: usize| {
            let (batch, i) = (i / (rows * cols), i % (rows * cols));
            let (r0, c0) = (i / cols * bm, i % cols * bn);
            let (h, w) = (bm.min(m - r0), bn.min(n - c0));
            let (sa, sb) = self.starts[batch];
            let ma = Matrix {
                data: a,
                offset: (sa as isize + r0 as isize * self.a.0) as usize,
                rows: h,
                cols: k,
                rs: self.a.0,
                cs: self.a.1,
            };
            let mb = Matrix {
                data: b,
                offset: (sb as isize + c0 as isize * self.b.1) as usize,
                rows: k,
                cols: w,
                rs: self.b.0,
                cs: self.b.1,
            };
            if cols == 1 {
                // SAFETY: bands of rows are disjoint ranges, each computed by one job.
                let part = unsafe { shared.slice(batch * plane + r0 * n, h * n) };
                product(ma, mb, part, zero, unit);
            } else {
                let mut part = vec![zero; h * w];
                product(ma, mb, &mut part, zero, unit);
                for (r, line) in part.chunks(w).enumerate() {
                    // SAFETY: this job's columns of this row, which no other job writes.
                    unsafe { shared.slice(batch * plane + (r0 + r) * n + c0, w) }.copy_from_slice(line);
                }
            }
        };
        let jobs = self.starts.len() * rows * cols;
        if plane == 0 {
            return;
        }
        if work * self.starts.len() < 1 << 18 {
            (0..jobs).for_each(job);
        } else {
            pool::parallel_for(jobs, job);
        }
    }
}

/// `a @ b` of float32 matrices over dense data, for other steps.
pub fn dense_product(a: &[f32], b: &[f32], m: usize, k: usize, n: usize, b_transposed: bool, out: &mut [f32]) {
    let (sb, tb) = if b_transposed { (1, k as isize) } else { (n as isize, 1) };
    Batch { starts: vec![(0, 0)], m, n, k, a: (k as isize, 1), b: (sb, tb) }.run(a, b, out, 0.0, 1.0);
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

/// The product of two values of one dtype.
pub fn multiply(a: &Value, b: &Value, out: &Aval) -> Result<Value> {
    let d = out.dtype;
    let strided = |v: &Value, size: usize| view::check(&v.layout, v.buffer.nbytes() / size);
    strided(a, d.size())?;
    strided(b, d.size())?;
    let batch = Batch::new(&a.layout, &b.layout, &out.shape)?;
    let mut buf = CpuBuffer::new(out.nbytes())?;
    match d {
        Dtype::F32 => batch.run(buffer(a)?.slice()?, buffer(b)?.slice()?, buf.slice_mut()?, 0f32, 1.0),
        Dtype::F64 => batch.run(buffer(a)?.slice()?, buffer(b)?.slice()?, buf.slice_mut()?, 0f64, 1.0),
        Dtype::C64 => batch.run(
            buffer(a)?.slice()?,
            buffer(b)?.slice()?,
            buf.slice_mut()?,
            Complex::new(0.0, 0.0),
            Complex::new(1.0, 0.0),
        ),
        Dtype::F16 | Dtype::BF16 => {
            let (x, y) = (dense_f32(a, d)?, dense_f32(b, d)?);
            let (la, lb) =
                (Layout::contiguous(a.layout.shape.clone()), Layout::contiguous(b.layout.shape.clone()));
            let wide = Batch::new(&la, &lb, &out.shape)?;
            buf = view::write_f32(out, |o| {
                wide.run(&x, &y, o, 0f32, 1.0);
                Ok(())
            })?;
        }
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
        let (transposed, w): (bool, Cow<'_, [f32]>) = match g.quant {
            None => (false, dense_f32(&ins[1], avals[1].dtype)?),
            Some(q) => (q.transpose, quant::dense_weight(&ins[1..1 + parts], &avals[1..1 + parts], q.format)?.into()),
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
            let full = Value { buffer: v.buffer.clone(), layout: v.layout.broadcast_to(&lead.into()) };
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
        let buf = view::write_f32(&out, |o| {
            batch.run(&x, &w, o, 0f32, 1.0);
            Ok(())
        })?;
        Ok(view::value(buf, &out))
    })
}

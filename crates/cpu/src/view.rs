//! Typed, strided reads: how a kernel sees an [`Input`].
//!
//! Bounds are checked once, when a view is made; row-major order is walked in runs of the
//! innermost axis after axes that stand next to each other have been merged.

use crate::buffer::CpuBuffer;
use crate::elem::by_size;
use crate::pool;
use crate::scratch::{Elems, Scratch};
use half::{bf16, f16};
use isopace_core::backend::{Buffer, Held, Input, Value};
use isopace_core::{Aval, Dtype, Layout, Result, bail, err};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::sync::Arc;

/// Elements copied by one thread at a time.
const CHUNK: usize = 1 << 15;

/// The buffer of an input on this device.
#[inline]
pub fn buffer<'a>(v: &'a Input<'_>) -> Result<&'a CpuBuffer> {
    let buffer: &'a Arc<dyn Buffer> = &v.buffer;
    buffer.as_any().downcast_ref().ok_or_else(|| err!(Internal, "[cpu] {buffer:?} is not on the CPU"))
}

/// The buffer for writing, when nobody else holds it and it may be written.
#[inline]
pub fn unique<'a>(v: &'a mut Input<'_>) -> Option<&'a mut CpuBuffer> {
    let b: &mut CpuBuffer = v.unique()?.as_any_mut().downcast_mut()?;
    b.is_owned().then_some(b)
}

/// A value over the whole of a new buffer.
pub fn value(buffer: CpuBuffer, aval: &Aval) -> Value {
    Value::contiguous(Arc::new(buffer), aval)
}

/// Checks that a layout stays inside `len` elements.
#[inline]
pub fn check(layout: &Layout, len: usize) -> Result<()> {
    let (_, end) = layout.extent();
    if end > len {
        bail!(Internal, "[cpu] {layout:?} ends past its buffer of {len} elements");
    }
    Ok(())
}

/// The order in which a layout's elements stand: merged axes with their strides.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Extent and stride, outermost first; no axis of extent 1. Empty for one element.
    pub axes: SmallVec<[(usize, isize); 4]>,
    pub offset: usize,
}

impl Walk {
    /// The walk over a layout; `shape` is what it is broadcast to, by stride 0.
    pub fn new(layout: &Layout, shape: &[usize]) -> Walk {
        let lead = shape.len() - layout.shape.len();
        let mut axes: SmallVec<[(usize, isize); 4]> = SmallVec::new();
        for (i, &d) in shape.iter().enumerate() {
            if d == 1 {
                continue;
            }
            let s = if i < lead || layout.shape[i - lead] == 1 { 0 } else { layout.strides[i - lead] };
            match axes.last_mut() {
                Some((n, step)) if *step == s * d as isize => {
                    *n *= d;
                    *step = s;
                }
                _ => axes.push((d, s)),
            }
        }
        Walk { axes, offset: layout.offset }
    }

    /// True when the elements stand in row-major order without gaps.
    pub fn is_dense(&self) -> bool {
        match self.axes.as_slice() {
            [] => true,
            [(_, s)] => *s == 1,
            _ => false,
        }
    }

    /// True when it is one element everywhere.
    pub fn is_scalar(&self) -> bool {
        match self.axes.as_slice() {
            [] => true,
            [(_, s)] => *s == 0,
            _ => false,
        }
    }

    /// Calls `f(offset, stride, position, n)` for every run of the elements `start .. start + n`.
    #[inline(always)]
    pub fn runs(&self, start: usize, n: usize, mut f: impl FnMut(usize, isize, usize, usize)) {
        let Some((&(inner, stride), outer)) = self.axes.split_last() else {
            if n > 0 {
                f(self.offset, 0, 0, n);
            }
            return;
        };
        if n == 0 {
            return;
        }
        let mut index: SmallVec<[usize; 4]> = smallvec::smallvec![0; outer.len()];
        let mut at = self.offset as isize;
        let mut rest = start / inner;
        for (i, &(d, s)) in outer.iter().enumerate().rev() {
            index[i] = rest % d;
            at += index[i] as isize * s;
            rest /= d;
        }
        let mut skip = start % inner;
        let mut done = 0;
        while done < n {
            let len = (inner - skip).min(n - done);
            f((at + skip as isize * stride) as usize, stride, done, len);
            done += len;
            skip = 0;
            for (i, &(d, s)) in outer.iter().enumerate().rev() {
                index[i] += 1;
                at += s;
                if index[i] < d {
                    break;
                }
                at -= s * d as isize;
                index[i] = 0;
            }
        }
    }

    /// Copies the elements from `start` on into `out`.
    #[inline]
    pub fn read<T: Copy>(&self, data: &[T], start: usize, out: &mut [T]) {
        let n = out.len();
        self.runs(start, n, |at, stride, pos, len| {
            let out = &mut out[pos..pos + len];
            match stride {
                1 => out.copy_from_slice(&data[at..at + len]),
                0 => out.fill(data[at]),
                s if s > 0 => {
                    for (o, x) in out.iter_mut().zip(data[at..].iter().step_by(s as usize)) {
                        *o = *x;
                    }
                }
                s => {
                    for (k, o) in out.iter_mut().enumerate() {
                        *o = data[(at as isize + k as isize * s) as usize];
                    }
                }
            }
        });
    }

    /// Calls `f(&mut element, x)` for the elements from `start` on and each x of `from`.
    #[inline]
    pub fn write<T: Copy>(&self, data: &mut [T], start: usize, from: &[T], f: impl Fn(T, T) -> T, set: bool) {
        self.runs(start, from.len(), |at, stride, pos, len| {
            let from = &from[pos..pos + len];
            if stride == 1 && set {
                data[at..at + len].copy_from_slice(from);
            } else {
                for (k, &x) in from.iter().enumerate() {
                    let e = &mut data[(at as isize + k as isize * stride) as usize];
                    *e = f(*e, x);
                }
            }
        });
    }
}

/// All elements in row-major order: borrowed when they stand so, else copied.
pub fn dense<'a, T: bytemuck::Pod + Send + Sync>(v: &'a Input<'_>) -> Result<Elems<'a, T>> {
    let data = buffer(v)?.slice::<T>()?;
    check(&v.layout, data.len())?;
    let n = v.layout.elems();
    if v.layout.is_contiguous() {
        return Ok(Elems::Lent(if n == 0 { &[] } else { &data[v.layout.offset..][..n] }));
    }
    let mut out = Scratch::new(n)?;
    copy(data, &v.layout, &mut out);
    Ok(out.into())
}

/// Copies a layout's elements in row-major order; the layout has been checked.
pub fn copy<T: bytemuck::Pod + Send + Sync>(data: &[T], layout: &Layout, out: &mut [T]) {
    let walk = Walk::new(layout, &layout.shape);
    if let [.., (rows, 1), (cols, s)] = walk.axes.as_slice()
        && *s != 0
        && *cols >= 8
        && *rows >= 8
    {
        return transpose(data, &walk, (*rows, *cols, *s), out);
    }
    pool::for_chunks(out, CHUNK, |i, out| walk.read(data, i * CHUNK, out));
}

/// Rows of `out` have stride 1 in `data`: tiles of 16 x 16, so that every line read is used whole.
fn transpose<T: bytemuck::Pod + Send + Sync>(
    data: &[T],
    walk: &Walk,
    (rows, cols, s): (usize, usize, isize),
    out: &mut [T],
) {
    const TILE: usize = 16;
    let planes = Walk { axes: walk.axes[..walk.axes.len() - 2].into(), offset: walk.offset };
    let mut bases: SmallVec<[usize; 8]> = SmallVec::new();
    planes.runs(0, out.len() / (rows * cols), |at, stride, _, n| {
        bases.extend((0..n).map(|k| (at as isize + k as isize * stride) as usize));
    });
    let bands = rows.div_ceil(TILE);
    for (&base, plane) in bases.iter().zip(out.chunks_mut(rows * cols)) {
        let group = (CHUNK / (TILE * cols)).clamp(1, bands);
        pool::for_chunks(plane, group * TILE * cols, |g, part| {
            for (b, band) in part.chunks_mut(TILE * cols).enumerate() {
                let r0 = (g * group + b) * TILE;
                let n = band.len() / cols;
                for c0 in (0..cols).step_by(TILE) {
                    for c in c0..cols.min(c0 + TILE) {
                        let at = (base as isize + c as isize * s) as usize + r0;
                        for (r, x) in data[at..at + n].iter().enumerate() {
                            band[r * cols + c] = *x;
                        }
                    }
                }
            }
        });
    }
}

/// The elements as float32 in row-major order; borrowed when they are that already.
pub fn dense_f32<'a>(v: &'a Input<'_>, dtype: Dtype) -> Result<Elems<'a, f32>> {
    Ok(match dtype {
        Dtype::F32 => dense(v)?,
        Dtype::F16 => Scratch::map(&dense::<f16>(v)?, f16::to_f32)?.into(),
        Dtype::BF16 => Scratch::map(&dense::<bf16>(v)?, bf16::to_f32)?.into(),
        Dtype::F64 => Scratch::map(&dense::<f64>(v)?, |x| x as f32)?.into(),
        d => bail!(Internal, "[cpu] {d} where floats were expected"),
    })
}

/// A buffer with float32 values rounded to a real floating dtype.
pub fn round_f32(x: &[f32], dtype: Dtype) -> Result<CpuBuffer> {
    let mut out = CpuBuffer::new(x.len() * dtype.size())?;
    fn each<T>(out: &mut [T], x: &[f32], f: impl Fn(f32) -> T) {
        out.iter_mut().zip(x).for_each(|(o, &x)| *o = f(x));
    }
    match dtype {
        Dtype::F32 => out.slice_mut::<f32>()?.copy_from_slice(x),
        Dtype::F16 => each(out.slice_mut()?, x, f16::from_f32),
        Dtype::BF16 => each(out.slice_mut()?, x, bf16::from_f32),
        Dtype::F64 => each(out.slice_mut()?, x, |x| x as f64),
        d => bail!(Internal, "[cpu] {d} where a floating dtype was expected"),
    }
    Ok(out)
}

/// Computes `out` of `n` float32 values in place where the dtype is float32, else through a copy.
pub fn write_f32(aval: &Aval, f: impl FnOnce(&mut [f32]) -> Result<()>) -> Result<CpuBuffer> {
    let n = aval.shape.elems();
    if aval.dtype == Dtype::F32 {
        let mut out = CpuBuffer::new(n * 4)?;
        f(out.slice_mut()?)?;
        return Ok(out);
    }
    let mut wide = CpuBuffer::new(n * 4)?;
    f(wide.slice_mut()?)?;
    round_f32(wide.slice()?, aval.dtype)
}

/// The elements as float64 in row-major order, to write to.
pub fn dense_f64(v: &Input<'_>, dtype: Dtype) -> Result<Scratch<f64>> {
    match dtype {
        Dtype::F64 => Scratch::map(&dense::<f64>(v)?, |x| x),
        d => Scratch::map(&dense_f32(v, d)?, |x| x as f64),
    }
}

/// Integers of any dtype as int64 (uint64 past the range stays far outside any axis).
pub fn indices(v: &Input<'_>, dtype: Dtype) -> Result<Scratch<i64>> {
    if !dtype.is_int() && dtype != Dtype::Bool {
        bail!(Dtype, "[index] indices are {dtype}; accepted: integer dtypes");
    }
    crate::elem::by_dtype!(dtype, T => {
        use crate::elem::Elem;
        let far = |x: i64| if dtype == Dtype::U64 && x < 0 { i64::MAX } else { x };
        Scratch::map(&dense::<T>(v)?, |x: T| far(x.to_i64()))
    })
}

/// A contiguous copy.
pub fn contiguous(v: &Input<'_>, aval: &Aval) -> Result<Value> {
    let mut out = CpuBuffer::new(v.layout.elems() * aval.dtype.size())?;
    by_size!(aval.dtype.size(), T => {
        let data = buffer(v)?.slice::<T>()?;
        check(&v.layout, data.len())?;
        copy(data, &v.layout, out.slice_mut()?);
    });
    let aval = Aval::new(v.layout.shape.clone(), aval.dtype);
    Ok(value(out, &aval))
}

/// Takes the first input over for writing when nobody else holds it, else copies it.
/// The result is compact and has the aval's shape.
pub fn take_or_copy<'a>(v: &mut Input<'a>, aval: &Aval) -> Result<Input<'a>> {
    let compact =
        v.layout.is_contiguous() && v.layout.offset == 0 && v.buffer.nbytes() <= 2 * aval.nbytes() + 4096;
    if compact && unique(v).is_some() {
        return Ok(take(v));
    }
    let mut out = CpuBuffer::new(aval.nbytes())?;
    by_size!(aval.dtype.size(), T => {
        let data = buffer(v)?.slice::<T>()?;
        check(&v.layout, data.len())?;
        copy(data, &v.layout, out.slice_mut()?);
    });
    Ok(value(out, aval).into())
}

/// The input, moved out with an empty one left behind, so that its buffer stays unique.
pub fn take<'a>(v: &mut Input<'a>) -> Input<'a> {
    let layout = Cow::Owned(Layout::contiguous([0].into()));
    std::mem::replace(v, Input { buffer: Held::Lent(nothing()), layout })
}

/// A shared buffer of no bytes.
fn nothing() -> &'static Arc<dyn Buffer> {
    use std::sync::OnceLock;
    #[derive(Debug)]
    struct Nothing;
    impl Buffer for Nothing {
        fn nbytes(&self) -> usize {
            0
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    }
    static N: OnceLock<Arc<dyn Buffer>> = OnceLock::new();
    N.get_or_init(|| Arc::new(Nothing))
}

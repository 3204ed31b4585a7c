//! Making arrays from numbers.

use super::{Operand, full_scalar, node};
use crate::array::Array;
use crate::error::Result;
use crate::number::{Number, NumberKind};
use crate::op::Op;
use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::{Dtype, bail};
use smallvec::smallvec;

/// Fills an array with a value, which broadcasts when it is an array.
///
/// # Errors
/// `Argument` for an integer out of the dtype's range, `Shape` where the value does not broadcast.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Dtype, api::full};
/// assert_eq!(full([2], 7, None)?.to_vec::<i32>()?, [7, 7]);
/// assert_eq!(full([2], 7, Some(Dtype::F32))?.to_vec::<f32>()?, [7.0, 7.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn full(shape: impl Into<Shape>, value: impl Into<Operand>, dtype: Option<Dtype>) -> Result<Array> {
    let (shape, value) = (shape.into().checked("full")?, value.into());
    let dtype = dtype.unwrap_or(value.dtype());
    match &value {
        Operand::Scalar(s) => full_scalar(s, shape, dtype),
        Operand::Array(a) => a.astype(dtype)?.broadcast_to(shape),
    }
}

/// Fills an array with 0.
pub fn zeros(shape: impl Into<Shape>, dtype: Dtype) -> Result<Array> {
    full(shape, 0, Some(dtype))
}

/// Fills an array with 1.
pub fn ones(shape: impl Into<Shape>, dtype: Dtype) -> Result<Array> {
    full(shape, 1, Some(dtype))
}

impl Array {
    /// A 0-d array of a number; without a dtype the number's own.
    pub fn scalar(value: impl Into<Scalar>, dtype: Option<Dtype>) -> Result<Array> {
        full(Shape::scalar(), value.into(), dtype)
    }

    /// Zeros of this array's shape and dtype.
    pub fn zeros_like(&self) -> Result<Array> {
        zeros(self.shape(), self.dtype())
    }

    /// Ones of this array's shape and dtype.
    pub fn ones_like(&self) -> Result<Array> {
        ones(self.shape(), self.dtype())
    }

    /// The value in this array's shape; its dtype too when none is given.
    pub fn full_like(&self, value: impl Into<Operand>, dtype: Option<Dtype>) -> Result<Array> {
        full(self.shape(), value, Some(dtype.unwrap_or(self.dtype())))
    }
}

/// Counts from `start` to below `stop` in steps. Start may be symbolic where the length is not.
///
/// # Dtypes
/// Without a dtype: float32 when a number is a float, int64 when one needs it, else int32.
///
/// # Errors
/// `Argument` for a step of 0 or bounds that are not finite, `Shape` for too many elements.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::api::arange;
/// assert_eq!(arange(5, 0, -2, None)?.to_vec::<i32>()?, [5, 3, 1]);
/// assert_eq!(arange(0.0, 1.0, 0.4, None)?.size(), 3);
/// # Ok::<(), isopace_core::Error>(())
/// ```
#[track_caller]
pub fn arange(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    step: impl Into<Scalar>,
    dtype: Option<Dtype>,
) -> Result<Array> {
    let (mut start, stop, mut step) = (start.into(), stop.into(), step.into());
    let all = [&start, &stop, &step];
    let kind = all.iter().map(|s| s.kind()).max().unwrap_or(NumberKind::Int);
    if kind == NumberKind::Complex || all.iter().any(|s| s.kind() == NumberKind::Bool) {
        bail!(Argument, "[arange] {start}, {stop}, {step} are not all real numbers; accepted: int and float");
    }
    let dtype = match dtype {
        Some(d) => d,
        None => {
            all.iter().try_fold(Dtype::I32, |d, s| Ok::<_, crate::Error>(d.promote(s.hint()?.dtype())))?
        }
    };
    if dtype == Dtype::C64 {
        return arange(start, stop, step, Some(Dtype::F32))?.astype(dtype);
    }
    if dtype == Dtype::Bool {
        bail!(Dtype, "[arange] bool is not accepted; accepted: the other dtypes");
    }
    let by = step.value("arange")?;
    if by.as_f64() == 0.0 {
        bail!(Argument, "[arange] the step is 0; accepted: another number");
    }
    let span = (&stop - &start).value("arange")?;
    let n = match (span, by) {
        (Number::Int(span), Number::Int(by)) => {
            let (span, by) = (span as i128, by as i128);
            ((span + by - by.signum()) / by).max(0) as f64
        }
        _ => (span.as_f64() / by.as_f64()).ceil().max(0.0),
    };
    if !n.is_finite() || span.as_f64().is_nan() || by.as_f64().is_nan() {
        bail!(Argument, "[arange] {start} to {stop} in steps of {step} has no length");
    }
    if n > i32::MAX as f64 {
        bail!(Shape, "[arange] {start} to {stop} in steps of {step} has {n} elements; accepted: below 2**31");
    }
    if dtype.int_range().is_some() && kind == NumberKind::Float {
        // As the elements are integers, so are the first and the step between the first two.
        let first = start.value("arange")?.as_f64();
        let next = first + by.as_f64();
        start = Scalar::from(first as i64);
        step = Scalar::from((next as i64).saturating_sub(first as i64));
    }
    node(Op::Arange, smallvec![], smallvec![start, step], Shape::from([n as usize]), dtype)
}

/// `0, 1, ..., n - 1`, in int32 where that suffices.
pub(crate) fn iota(n: usize) -> Result<Array> {
    let dtype = if i32::try_from(n).is_ok() { Dtype::I32 } else { Dtype::I64 };
    arange(0, n, 1, Some(dtype))
}

/// Evenly spaced numbers from `start` to `stop`, which is the last one if `endpoint`.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Dtype, api::linspace};
/// assert_eq!(linspace(0.0, 1.0, 3, true, Dtype::F32)?.to_vec::<f32>()?, [0.0, 0.5, 1.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn linspace(
    start: impl Into<Scalar>,
    stop: impl Into<Scalar>,
    num: usize,
    endpoint: bool,
    dtype: Dtype,
) -> Result<Array> {
    let (start, stop) = (start.into(), stop.into());
    let work = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let steps = if endpoint { num.saturating_sub(1) } else { num }.max(1);
    let t = iota(num)?.astype(work)?.divide(steps as f64)?;
    let back = full_scalar(&Scalar::from(1.0), Shape::scalar(), work)?.subtract(&t)?;
    back.multiply(start)?.add(t.multiply(stop)?)?.astype(dtype)
}

/// Row numbers plus `k` as a column, and column numbers as a row.
fn row_and_column(n: usize, m: usize, k: i64) -> Result<(Array, Array)> {
    let k = k.clamp(-(n.min(1 << 40) as i64), m.min(1 << 40) as i64);
    let (rows, cols) = (iota(n)?, iota(m)?);
    let wide = |a: Array| if n.max(m) > 1 << 30 { a.astype(Dtype::I64) } else { Ok(a) };
    let rows = wide(rows)?.add(k)?.reshape([-1, 1]);
    // An empty axis has no -1 to infer.
    let rows = if n == 0 { zeros([0, 1], Dtype::I32) } else { rows };
    Ok((rows?, wide(cols)?))
}

/// Ones on the `k`-th diagonal of an `n` by `m` matrix, zeros elsewhere.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Dtype, api::eye};
/// assert_eq!(eye(2, 3, 1, Dtype::I32)?.to_vec::<i32>()?, [0, 1, 0, 0, 0, 1]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
pub fn eye(n: usize, m: usize, k: i64, dtype: Dtype) -> Result<Array> {
    let (rows, cols) = row_and_column(n, m, k)?;
    rows.equal(&cols)?.astype(dtype)
}

/// The identity matrix.
pub fn identity(n: usize, dtype: Dtype) -> Result<Array> {
    eye(n, n, 0, dtype)
}

/// Ones at and below the `k`-th diagonal, zeros above.
pub fn tri(n: usize, m: usize, k: i64, dtype: Dtype) -> Result<Array> {
    let (rows, cols) = row_and_column(n, m, k)?;
    rows.greater_equal(&cols)?.astype(dtype)
}

impl Array {
    fn triangle(&self, k: i64, name: &str) -> Result<Array> {
        let [.., n, m] = self.shape()[..] else {
            bail!(
                Shape,
                "[{name}] shape {:?} has {} dimensions; accepted: at least 2",
                self.shape(),
                self.ndim()
            );
        };
        tri(n, m, k, Dtype::Bool)
    }

    /// Keeps what is at and below the `k`-th diagonal of the last two axes, zeros elsewhere.
    pub fn tril(&self, k: i64) -> Result<Array> {
        self.triangle(k, "tril")?.where_(self, self.zero()?)
    }

    /// Keeps what is at and above the `k`-th diagonal of the last two axes, zeros elsewhere.
    pub fn triu(&self, k: i64) -> Result<Array> {
        self.triangle(k.saturating_sub(1), "triu")?.where_(self.zero()?, self)
    }

    /// A 0-d zero of this array's dtype.
    pub(crate) fn zero(&self) -> Result<Array> {
        zeros(Shape::scalar(), self.dtype())
    }

    /// The `k`-th diagonal of a matrix, or the matrix with a vector on that diagonal.
    ///
    /// # Errors
    /// `Shape` unless there are one or two dimensions.
    pub fn diag(&self, k: i64) -> Result<Array> {
        match self.shape()[..] {
            [n] => {
                let side = usize::try_from(k.unsigned_abs()).ok().and_then(|k| n.checked_add(k));
                let Some(side) = side.filter(|&s| s < 1 << 30) else {
                    bail!(Shape, "[diag] offset {k} makes the matrix too large");
                };
                let flat = zeros([side * side], self.dtype())?;
                let start = if k >= 0 { k } else { -k * side as i64 };
                let at = [Scalar::from(start)];
                if n == 0 {
                    return flat.reshape_to([side, side]);
                }
                let step = [side as i64 + 1];
                flat.slice_set(&at, &step, crate::op::Combine::Set, self)?.reshape_to([side, side])
            }
            [_, _] => self.diagonal(k, 0, 1),
            _ => bail!(Shape, "[diag] shape {:?}; accepted: one or two dimensions", self.shape()),
        }
    }

    /// The diagonals of the matrices in two axes, `offset` above the main one, as a new last axis.
    pub fn diagonal(&self, offset: i64, axis1: i64, axis2: i64) -> Result<Array> {
        let nd = self.ndim();
        if nd < 2 {
            bail!(Shape, "[diagonal] shape {:?}; accepted: at least two dimensions", self.shape());
        }
        let a = crate::shape::axis(axis1, nd, "diagonal")?;
        let b = crate::shape::axis(axis2, nd, "diagonal")?;
        if a == b {
            bail!(Argument, "[diagonal] axes {axis1} and {axis2} are the same one");
        }
        let mut perm: Vec<i64> = (0..nd).filter(|&i| i != a && i != b).map(|i| i as i64).collect();
        perm.extend([a as i64, b as i64]);
        let x = self.transpose(&perm)?;
        let (r, c) = (self.shape()[a] as i64, self.shape()[b] as i64);
        let k = offset.clamp(-r, c);
        let n = if k >= 0 { r.min(c - k) } else { c.min(r + k) }.max(0);
        let mut shape: Shape = x.shape()[..nd - 2].into();
        shape.push((r * c) as usize);
        let flat = x.reshape_to(shape)?;
        let mut sizes = flat.shape().to_vec();
        sizes[nd - 2] = n as usize;
        let mut starts = vec![Scalar::from(0); nd - 1];
        // An empty diagonal starts nowhere.
        starts[nd - 2] = Scalar::from(if n == 0 {
            0
        } else if k >= 0 {
            k
        } else {
            -k * c
        });
        let mut steps = vec![1; nd - 1];
        steps[nd - 2] = c + 1;
        flat.slice_at(&starts, &steps, &sizes)
    }

    /// The sum of the diagonals of the matrices in two axes.
    ///
    /// # Dtypes
    /// As for sum: small integers widen to 32 bits.
    pub fn trace(&self, offset: i64, axis1: i64, axis2: i64, dtype: Option<Dtype>) -> Result<Array> {
        let d = self.diagonal(offset, axis1, axis2)?;
        match dtype {
            Some(t) => d.astype(t)?.sum(-1, false)?.astype(t),
            None => d.sum(-1, false),
        }
    }
}

/// How [`meshgrid`] orders its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// Cartesian: the first array runs along the second axis.
    Xy,
    /// Matrix: array `i` runs along axis `i`.
    Ij,
}

/// Coordinate arrays from coordinate vectors; without repeats when `sparse`.
///
/// # Errors
/// `Shape` for an array of more than one dimension.
pub fn meshgrid(arrays: &[Array], sparse: bool, indexing: Indexing) -> Result<Vec<Array>> {
    let n = arrays.len();
    let swap = |i: usize| if indexing == Indexing::Xy && n > 1 && i < 2 { 1 - i } else { i };
    let mut full: Shape = smallvec::SmallVec::<[usize; 4]>::from_elem(1, n).into_iter().collect();
    for (i, a) in arrays.iter().enumerate() {
        if a.ndim() > 1 {
            bail!(Shape, "[meshgrid] array {i} has shape {:?}; accepted: one dimension", a.shape());
        }
        full.as_mut()[swap(i)] = a.size();
    }
    let mut out = Vec::with_capacity(n);
    for (i, a) in arrays.iter().enumerate() {
        let own: Shape = (0..n).map(|j| if j == swap(i) { a.size() } else { 1 }).collect();
        let a = a.reshape_to(own)?;
        out.push(if sparse { a } else { a.broadcast_to(full.clone())? });
    }
    Ok(out)
}

/// A sum of cosines over a window: `a0 - a1 cos(2 pi i / (n - 1)) + a2 cos(4 pi i / (n - 1))`.
fn cosine_window(n: usize, a: [f64; 3]) -> Result<Array> {
    if n <= 1 {
        return ones([n], Dtype::F32);
    }
    let turn = iota(n)?.astype(Dtype::F64)?.multiply(std::f64::consts::TAU)?.divide((n - 1) as f64)?;
    let w = turn.cos()?.multiply(-a[1])?.add(a[0])?;
    let w = if a[2] == 0.0 { w } else { w.add(turn.multiply(2.0)?.cos()?.multiply(a[2])?)? };
    w.astype(Dtype::F32)
}

/// The Hann window of `n` points, float32.
pub fn hanning(n: usize) -> Result<Array> {
    cosine_window(n, [0.5, 0.5, 0.0])
}

/// The Hamming window of `n` points, float32.
pub fn hamming(n: usize) -> Result<Array> {
    cosine_window(n, [0.54, 0.46, 0.0])
}

/// The Blackman window of `n` points, float32.
pub fn blackman(n: usize) -> Result<Array> {
    cosine_window(n, [0.42, 0.5, 0.08])
}

/// The triangular window of `n` points that ends in zeros, float32.
pub fn bartlett(n: usize) -> Result<Array> {
    if n <= 1 {
        return ones([n], Dtype::F32);
    }
    let t = iota(n)?.astype(Dtype::F64)?.multiply(2.0)?.divide((n - 1) as f64)?;
    t.minimum(t.negative()?.add(2.0)?)?.astype(Dtype::F32)
}

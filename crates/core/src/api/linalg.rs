//! Products of matrices and what is built on them.

use super::gather::check_indices;
use super::{Axes, Operand, node};
use crate::array::{Array, Inputs};
use crate::error::Result;
use crate::op::{GatherMatmul, Op};
use crate::scalar::Scalar;
use crate::shape::{Shape, axes, axis};
use crate::{Aval, Dtype, bail, err};
use smallvec::smallvec;

/// The dtype of a product.
///
/// # Errors
/// `Dtype` unless it is floating or complex.
pub(crate) fn product_dtype(a: &Array, b: &Array, place: &str) -> Result<Dtype> {
    let d = a.dtype().promote(b.dtype());
    if !d.is_inexact() {
        bail!(
            Dtype,
            "[{place}] {} with {} gives {d}; accepted: floating and complex dtypes",
            a.dtype(),
            b.dtype()
        );
    }
    Ok(d)
}

/// A product in which a vector is a matrix, one row on the left and one column on the right, whose axis the
/// result does not have.
fn as_matrices(a: &Array, b: &Array, product: impl FnOnce(&Array, &Array) -> Result<Array>) -> Result<Array> {
    match (a.ndim(), b.ndim()) {
        (1, 1) => product(&a.expand_dims(&[0])?, &b.expand_dims(&[1])?)?.squeeze(Some(&[-2, -1])),
        (1, _) => product(&a.expand_dims(&[0])?, b)?.squeeze(Some(&[-2])),
        (_, 1) => product(a, &b.expand_dims(&[1])?)?.squeeze(Some(&[-1])),
        _ => product(a, b),
    }
}

impl Array {
    /// Matrix product over the last two axes, the others broadcasting. A vector on the left is a row
    /// and on the right a column, and its axis is dropped from the result.
    ///
    /// # Errors
    /// `Shape` when inner extents differ, `Dtype` for integers on both sides.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// let v = Array::from_slice(&[1.0f32, 10.0], [2])?;
    /// assert_eq!(a.matmul(&v)?.to_vec::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn matmul(&self, other: &Array) -> Result<Array> {
        if self.ndim() == 0 || other.ndim() == 0 {
            bail!(
                Shape,
                "[matmul] {:?} @ {:?}; accepted: at least one dimension each",
                self.shape(),
                other.shape()
            );
        }
        let dtype = product_dtype(self, other, "matmul")?;
        as_matrices(self, other, |a, b| {
            let (na, nb) = (a.ndim(), b.ndim());
            let (x, y) = (&a.aval().shape, &b.aval().shape);
            if x[na - 1] != y[nb - 2] {
                bail!(
                    Shape,
                    "[matmul] inner dimensions differ: {:?} @ {:?}; a.shape[-1] is {}, b.shape[{}] is {}",
                    self.shape(),
                    other.shape(),
                    x[na - 1],
                    if other.ndim() == 1 { -1 } else { -2 },
                    y[nb - 2]
                );
            }
            let lead = Shape::from(&x[..na - 2]).broadcast(&y[..nb - 2].into(), "matmul")?;
            let mut shape = lead;
            shape.push(x[na - 2]);
            shape.push(y[nb - 1]);
            let inputs = smallvec![a.astype(dtype)?, b.astype(dtype)?];
            node(Op::Matmul, inputs, smallvec![], shape, dtype)
        })
    }

    /// Products of the rows of two arrays: contraction over both last axes.
    pub fn inner(&self, other: &Array) -> Result<Array> {
        if self.ndim() == 0 || other.ndim() == 0 {
            return self.multiply(other);
        }
        tensordot(self, other, &[-1], &[-1])
    }

    /// All products of an element of one and an element of the other, both flattened.
    pub fn outer(&self, other: &Array) -> Result<Array> {
        self.reshape_to([self.size(), 1])?.multiply(other.ravel()?)
    }

    /// Sum of products along an axis, the left side conjugated; dtypes as for [`Array::sum`].
    pub fn vecdot(&self, other: &Array, at: i64) -> Result<Array> {
        let a = if self.dtype() == Dtype::C64 { self.conjugate()? } else { self.clone() };
        if self.ndim() == 0 || other.ndim() == 0 {
            bail!(
                Shape,
                "[vecdot] {:?} and {:?}; accepted: at least one axis each",
                self.shape(),
                other.shape()
            );
        }
        a.multiply(other)?.sum(at, false)
    }

    /// Kronecker product: each element of this array times the whole other one.
    pub fn kron(&self, other: &Array) -> Result<Array> {
        let nd = self.ndim().max(other.ndim());
        let wide = |x: &Array| -> Shape {
            let lead = std::iter::repeat_n(1, nd - x.ndim());
            lead.chain(x.shape().iter().copied()).collect()
        };
        let (a, b) = (wide(self), wide(other));
        let left: Shape = a.iter().flat_map(|&d| [d, 1]).collect();
        let right: Shape = b.iter().flat_map(|&d| [1, d]).collect();
        let shape: Shape = a.iter().zip(b.iter()).map(|(&x, &y)| x.saturating_mul(y)).collect();
        self.reshape_to(left)?.multiply(other.reshape_to(right)?)?.reshape_to(shape.checked("kron")?)
    }

    /// Inverse of the square matrices in the last two axes.
    ///
    /// # Errors
    /// `Shape` unless square, `Dtype` unless float32 or float64; when read, for a singular matrix.
    pub fn inverse(&self) -> Result<Array> {
        if !matches!(self.dtype(), Dtype::F32 | Dtype::F64) {
            bail!(Dtype, "[inv] {} is not accepted; accepted: float32, float64", self.dtype());
        }
        match self.shape()[..] {
            [.., n, m] if n == m => {}
            _ => bail!(Shape, "[inv] {:?} is not square in its last two axes", self.shape()),
        }
        node(Op::Inverse, smallvec![self.clone()], smallvec![], self.shape().clone(), self.dtype())
    }

    /// Eigenvalues in ascending order, and eigenvectors as columns, of real symmetric matrices in the last two axes,
    /// of which only the lower or the upper triangle is read. The sign of a vector is arbitrary.
    ///
    /// # Errors
    /// `Shape` for matrices that are not square, `Dtype` unless float32 or float64.
    pub fn eigh(&self, upper: bool) -> Result<(Array, Array)> {
        if !matches!(self.dtype(), Dtype::F32 | Dtype::F64) {
            bail!(Dtype, "[eigh] {} is not accepted; accepted: float32, float64", self.dtype());
        }
        let lead = match self.shape()[..] {
            [.., n, m] if n == m => &self.shape()[..self.ndim() - 1],
            _ => bail!(Shape, "[eigh] {:?} is not square in its last two axes", self.shape()),
        };
        let (near, far) =
            if upper { (self.triu(0)?, self.triu(1)?) } else { (self.tril(0)?, self.tril(-1)?) };
        let avals = [Aval::new(lead, self.dtype()), Aval::new(self.shape().clone(), self.dtype())];
        let inputs = smallvec![near.add(far.matrix_transpose()?)?];
        let outs = Array::lazy_many(Op::Eigh, inputs, smallvec![], avals.into());
        Ok((outs[0].clone(), outs[1].clone()))
    }

    /// Vector product along an axis of extent 3, or 2 with a third component of zero.
    pub fn cross(&self, other: &Array, at: i64) -> Result<Array> {
        let (a, b) = (axis(at, self.ndim(), "cross")?, axis(at, other.ndim(), "cross")?);
        let (na, nb) = (self.shape()[a], other.shape()[b]);
        if !matches!((na, nb), (2 | 3, 2 | 3)) {
            bail!(Shape, "[cross] extents {na} and {nb} along axis {at}; accepted: 2 or 3");
        }
        let (mut rest_a, mut rest_b) = (self.shape().clone(), other.shape().clone());
        rest_a.remove(a);
        rest_b.remove(b);
        rest_a.broadcast(&rest_b, "cross")?;
        let part = |x: &Array, axis: usize, i: usize| {
            if i < x.shape()[axis] {
                x.slice_axis(axis, i, i + 1)?.squeeze(Some(&[axis as i64]))
            } else {
                x.slice_axis(axis, 0, 1)?.squeeze(Some(&[axis as i64]))?.zeros_like()
            }
        };
        let term = |i: usize, j: usize| {
            let up = part(self, a, i)?.multiply(part(other, b, j)?)?;
            up.subtract(part(self, a, j)?.multiply(part(other, b, i)?)?)
        };
        let at = if at < 0 { at } else { a as i64 };
        super::stack(&[term(1, 2)?, term(2, 0)?, term(0, 1)?], at)
    }

    /// Multiplies the last axis by a Hadamard matrix and by `scale` (1 / sqrt(n) without one).
    ///
    /// # Errors
    /// `Shape` unless its extent is m times a power of two, m being 1, 12, 20 or 28.
    pub fn hadamard_transform(&self, scale: Option<f64>) -> Result<Array> {
        let n = self.shape().last().copied().unwrap_or(0);
        let odd = [1usize, 12, 20, 28].into_iter().find(|m| n % m == 0 && (n / m).is_power_of_two());
        let Some(m) = odd.filter(|_| n > 0) else {
            bail!(
                Shape,
                "[hadamard_transform] last axis of {:?}; accepted: 1, 12, 20 or 28 times 2^k",
                self.shape()
            );
        };
        let dtype = self.dtype().to_inexact();
        let work = if matches!(dtype, Dtype::F16 | Dtype::BF16) { Dtype::F32 } else { dtype };
        let rows = self.size() / n;
        let (mut x, mut h) = (self.astype(work)?, 1);
        while h < n / m {
            let pairs = x.reshape_to([rows, n / (2 * h), 2, h])?;
            let (a, b) = (pairs.slice_axis(2, 0, 1)?, pairs.slice_axis(2, 1, 2)?);
            x = super::concatenate(&[a.add(&b)?, a.subtract(&b)?], 2)?;
            h *= 2;
        }
        if m > 1 {
            x = super::hadamard::matrix(m, work)?.matmul(&x.reshape_to([rows, m, n / m])?)?;
        }
        let scale = scale.unwrap_or(1.0 / (n as f64).sqrt());
        x.multiply(scale)?.reshape_to(self.shape())?.astype(dtype)
    }
}

/// `beta * c + alpha * (a @ b)`.
pub fn addmm(
    c: &Array,
    a: &Array,
    b: &Array,
    alpha: impl Into<Scalar>,
    beta: impl Into<Scalar>,
) -> Result<Array> {
    let (alpha, beta) = (alpha.into(), beta.into());
    let one = |s: &Scalar| matches!(s.number(), Ok(Some(n)) if n.as_f64() == 1.0);
    let d = c.dtype().promote(product_dtype(a, b, "addmm")?);
    let ab = a.astype(d)?.matmul(&b.astype(d)?)?;
    let ab = if one(&alpha) { ab } else { ab.multiply(alpha)? };
    let c = c.astype(d)?;
    let c = if one(&beta) { c } else { c.multiply(beta)? };
    if c.shape().broadcast(ab.shape(), "addmm")? != *ab.shape() {
        bail!(Shape, "[addmm] c of {:?} does not broadcast to {:?}", c.shape(), ab.shape());
    }
    ab.add(c)
}

/// Contraction over pairs of axes: the other axes of `a`, then those of `b`.
///
/// # Errors
/// `Shape` when extents differ, `Argument` for lists of different length.
pub fn tensordot(a: &Array, b: &Array, axes_a: &[i64], axes_b: &[i64]) -> Result<Array> {
    if axes_a.len() != axes_b.len() {
        bail!(Argument, "[tensordot] axes {axes_a:?} and {axes_b:?} are not pairs");
    }
    axes(Some(axes_a), a.ndim(), "tensordot")?;
    axes(Some(axes_b), b.ndim(), "tensordot")?;
    let of = |x: &Array, list: &[i64]| {
        list.iter().map(|&i| axis(i, x.ndim(), "tensordot")).collect::<Result<Vec<_>>>()
    };
    let (ca, cb) = (of(a, axes_a)?, of(b, axes_b)?);
    if let Some((&i, &j)) = ca.iter().zip(&cb).find(|&(&i, &j)| a.shape()[i] != b.shape()[j]) {
        bail!(Shape, "[tensordot] axis {i} of {:?} and axis {j} of {:?} differ", a.shape(), b.shape());
    }
    let free = |x: &Array, c: &[usize]| (0..x.ndim()).filter(|i| !c.contains(i)).collect::<Vec<_>>();
    let (fa, fb) = (free(a, &ca), free(b, &cb));
    let shape: Shape = fa.iter().map(|&i| a.shape()[i]).chain(fb.iter().map(|&i| b.shape()[i])).collect();
    let k: usize = ca.iter().map(|&i| a.shape()[i]).product();
    let (m, n) = (fa.iter().map(|&i| a.shape()[i]).product(), fb.iter().map(|&i| b.shape()[i]).product());
    let left = a.permute(&[&fa[..], &ca[..]].concat())?.reshape_to([m, k])?;
    let right = b.permute(&[&cb[..], &fb[..]].concat())?.reshape_to([k, n])?;
    left.matmul(&right)?.reshape_to(shape)
}

/// [`tensordot`] over the last `n` axes of `a` and the first `n` of `b`.
pub fn tensordot_n(a: &Array, b: &Array, n: i64) -> Result<Array> {
    let most = a.ndim().min(b.ndim()) as i64;
    if n < 0 || n > most {
        bail!(Argument, "[tensordot] {n} axes of {:?} and {:?}; accepted: 0..={most}", a.shape(), b.shape());
    }
    let left: Vec<i64> = (a.ndim() as i64 - n..a.ndim() as i64).collect();
    let right: Vec<i64> = (0..n).collect();
    tensordot(a, b, &left, &right)
}

/// Which norm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NormOrder {
    /// The 2-norm of a vector, or of all elements.
    Default,
    /// The square root of the sum of squares of a matrix.
    Frobenius,
    /// The sum of singular values.
    Nuclear,
    /// The p-norm of a vector; the norm of that order of a matrix.
    P(f64),
}

impl Array {
    /// Norm of vectors (one axis) or matrices (two axes).
    ///
    /// # Errors
    /// `Argument` for an order that is not defined there.
    ///
    /// # Accuracy
    /// Singular values are the square roots of the eigenvalues of the Gram matrix, in float64: one below 1e-8
    /// of the largest has no exact digits.
    pub fn norm(&self, order: NormOrder, axes: impl Into<Axes>, keepdims: bool) -> Result<Array> {
        let list = axes.into();
        let all = list.0.is_none();
        let x = self.astype(self.dtype().to_inexact())?.abs()?;
        if all && order == NormOrder::Default {
            return x.square()?.sum(Axes::ALL, keepdims)?.sqrt();
        }
        let given: Vec<i64> = match list.0.as_deref() {
            Some(a) => a.to_vec(),
            None => (0..self.ndim() as i64).collect(),
        };
        crate::shape::axes(Some(&given), self.ndim(), "norm")?;
        match (given[..].len(), order) {
            (1, NormOrder::Frobenius | NormOrder::Nuclear) => {
                bail!(Argument, "[norm] {order:?} of a vector; accepted: a number")
            }
            (1 | 2, NormOrder::Default) | (2, NormOrder::Frobenius) => {
                x.square()?.sum(&given[..], keepdims)?.sqrt()
            }
            (1, NormOrder::P(p)) => x.vector_norm(p, given[0], keepdims),
            (2, NormOrder::P(p)) if p.abs() == 1.0 || p.is_infinite() => {
                let (sums, over) = if p.is_infinite() { (given[1], given[0]) } else { (given[0], given[1]) };
                let x = x.sum(sums, true)?;
                let x = if p > 0.0 { x.max(over, true)? } else { x.min(over, true)? };
                if keepdims { Ok(x) } else { x.squeeze(Some(&given)) }
            }
            (2, NormOrder::Nuclear) => {
                self.singular_values([given[0], given[1]], keepdims, |s| s.sum(-1, false))
            }
            (2, NormOrder::P(p)) if p.abs() == 2.0 => {
                self.singular_values([given[0], given[1]], keepdims, |s| {
                    if p > 0.0 { s.max(-1, false) } else { s.min(-1, false) }
                })
            }
            (n, _) => bail!(Argument, "[norm] {order:?} over {n} axes is not defined"),
        }
    }

    /// What `f` makes of the singular values, along the last axis, of the matrices over two axes.
    fn singular_values(
        &self,
        axes: [i64; 2],
        keepdims: bool,
        f: impl FnOnce(Array) -> Result<Array>,
    ) -> Result<Array> {
        if !matches!(self.dtype(), Dtype::F32 | Dtype::F64) {
            bail!(Dtype, "[norm] singular values of {}; accepted: float32, float64", self.dtype());
        }
        let nd = self.ndim();
        let [rows, cols] =
            [crate::shape::axis(axes[0], nd, "norm")?, crate::shape::axis(axes[1], nd, "norm")?];
        let perm: Vec<usize> = (0..nd).filter(|&i| i != rows && i != cols).chain([rows, cols]).collect();
        let x = self.astype(Dtype::F64)?.permute(&perm)?;
        let t = x.matrix_transpose()?;
        // The smaller of the two products has as many eigenvalues as there are singular values.
        let gram = if self.shape()[rows] < self.shape()[cols] { x.matmul(&t)? } else { t.matmul(&x)? };
        let made = f(gram.eigh(false)?.0.maximum(0.0)?.sqrt()?)?.astype(self.dtype())?;
        if keepdims { made.expand_dims(&[rows as i64, cols as i64]) } else { Ok(made) }
    }

    fn vector_norm(&self, p: f64, at: i64, keepdims: bool) -> Result<Array> {
        if p == 0.0 {
            return self.count_nonzero(at, keepdims)?.astype(self.dtype());
        }
        if p.is_infinite() {
            return if p > 0.0 { self.max(at, keepdims) } else { self.min(at, keepdims) };
        }
        if p == 1.0 {
            return self.sum(at, keepdims);
        }
        if p == 2.0 {
            return self.square()?.sum(at, keepdims)?.sqrt();
        }
        self.power(p)?.sum(at, keepdims)?.power(1.0 / p)
    }
}

/// Products of matrices chosen by flat indices over the leading axes. Without indices for a side its
/// leading axes broadcast. A vector is one row on the left, one column on the right.
///
/// # Errors
/// `Shape` when inner extents differ, `Dtype` for integer products or indices that are not integers.
pub fn gather_mm(a: &Array, b: &Array, lhs: Option<&Array>, rhs: Option<&Array>) -> Result<Array> {
    as_matrices(a, b, |a, b| gather_matrices(a, b, lhs, rhs))
}

fn gather_matrices(a: &Array, b: &Array, lhs: Option<&Array>, rhs: Option<&Array>) -> Result<Array> {
    let (na, nb) = (a.ndim(), b.ndim());
    if na < 2 || nb < 2 || a.shape()[na - 1] != b.shape()[nb - 2] {
        bail!(Shape, "[gather_mm] {:?} @ {:?}; accepted: (..., M, K) @ (..., K, N)", a.shape(), b.shape());
    }
    if lhs.is_none() && rhs.is_none() {
        return a.matmul(b);
    }
    let d = product_dtype(a, b, "gather_mm")?;
    let op = GatherMatmul { quant: None, lhs: lhs.is_some(), rhs: rhs.is_some() };
    let parts = smallvec![a.astype(d)?, b.astype(d)?];
    gathered(op, parts, (a, &b.shape()[..nb - 2], b.shape()[nb - 1]), lhs, rhs, d)
}

/// The node of a gathered product of `x` with matrices of `batch` and `cols`.
pub(crate) fn gathered(
    op: GatherMatmul,
    mut inputs: Inputs,
    (x, batch, cols): (&Array, &[usize], usize),
    lhs: Option<&Array>,
    rhs: Option<&Array>,
    dtype: Dtype,
) -> Result<Array> {
    let place = "gather_mm";
    let n = x.ndim();
    for (i, count) in [(lhs, x.shape()[..n - 2].iter().product::<usize>()), (rhs, batch.iter().product())] {
        let Some(i) = i else { continue };
        check_indices(i, place)?;
        if count == 0 && i.size() > 0 {
            bail!(Axis, "[{place}] there is no matrix to choose from");
        }
    }
    let own: Shape = x.shape()[..n - 2].into();
    let left = lhs.map_or(&own, |i| i.shape());
    let theirs = Shape::from(batch);
    let mut shape = left.broadcast(rhs.map_or(&theirs, |i| i.shape()), place)?;
    for i in [lhs, rhs].into_iter().flatten() {
        inputs.push(i.broadcast_to(shape.clone())?);
    }
    shape.push(x.shape()[n - 2]);
    shape.push(cols);
    node(Op::GatherMatmul(op), inputs, smallvec![], shape, dtype)
}

/// A matrix product in which blocks of operands or result are scaled or left out by masks with one
/// element for each block.
///
/// # Errors
/// `Argument` unless blocks have 32 or 64 rows, `Shape` when a mask does not fit.
pub fn block_masked_mm(
    a: &Array,
    b: &Array,
    block: usize,
    out_mask: Option<&Array>,
    lhs_mask: Option<&Array>,
    rhs_mask: Option<&Array>,
) -> Result<Array> {
    if block != 32 && block != 64 {
        bail!(Argument, "[block_masked_mm] blocks of {block}; accepted: 32, 64");
    }
    if a.ndim() < 2 || b.ndim() < 2 {
        bail!(Shape, "[block_masked_mm] {:?} @ {:?}; accepted: two dimensions or more", a.shape(), b.shape());
    }
    let masked = |x: &Array, mask: Option<&Array>| -> Result<Array> {
        let Some(mask) = mask else { return Ok(x.clone()) };
        let (n, k) = (x.ndim(), mask.ndim());
        let (rows, cols) = (x.shape()[n - 2], x.shape()[n - 1]);
        let blocks = [rows.div_ceil(block), cols.div_ceil(block)];
        if k < 2 || mask.shape()[k - 2..] != blocks {
            bail!(
                Shape,
                "[block_masked_mm] mask {:?} for {:?} in blocks of {block}",
                mask.shape(),
                x.shape()
            );
        }
        let m = mask.repeat(block as i64, Some(-1))?.slice_axis(k - 1, 0, cols)?;
        let m = m.repeat(block as i64, Some(-2))?.slice_axis(k - 2, 0, rows)?;
        if mask.dtype() == Dtype::Bool { m.where_(x, x.zero()?) } else { x.multiply(m.astype(x.dtype())?) }
    };
    let d = product_dtype(a, b, "block_masked_mm")?;
    let out = masked(&a.astype(d)?, lhs_mask)?.matmul(&masked(&b.astype(d)?, rhs_mask)?)?;
    masked(&out, out_mask)
}

/// Products over segments of the inner axis, one result for each pair (from, to) in `segments`.
///
/// # Errors
/// `Shape` unless `a` is (M, K), `b` (K, N) and segments (..., 2).
pub fn segmented_mm(a: &Array, b: &Array, segments: &Array) -> Result<Array> {
    let fits = a.ndim() == 2 && b.ndim() == 2 && segments.shape().last() == Some(&2);
    if !fits {
        bail!(
            Shape,
            "[segmented_mm] {:?} @ {:?} in {:?}; accepted: (M, K) @ (K, N) in (..., 2)",
            a.shape(),
            b.shape(),
            segments.shape()
        );
    }
    check_indices(segments, "segmented_mm")?;
    let last = segments.ndim() - 1;
    let bound = |i: usize| segments.slice_axis(last, i, i + 1)?.astype(Dtype::I64)?.expand_dims(&[-1]);
    let k = super::arange(0, a.shape()[1], 1, Some(Dtype::I64))?;
    let inside = k.greater_equal(bound(0)?)?.logical_and(k.less(bound(1)?)?)?;
    inside.where_(a, a.zero()?)?.matmul(b)
}

/// The discrete convolution of two vectors: all of it, as long as the longer one, or where both lie
/// fully over each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvolveMode {
    Full,
    Same,
    Valid,
}

/// Discrete convolution of two vectors.
///
/// # Errors
/// `Shape` unless both are vectors with elements.
pub fn convolve(a: &Array, v: &Array, mode: ConvolveMode) -> Result<Array> {
    if a.ndim() != 1 || v.ndim() != 1 || a.size() == 0 || v.size() == 0 {
        bail!(Shape, "[convolve] {:?} with {:?}; accepted: vectors with elements", a.shape(), v.shape());
    }
    let (long, short) = if a.size() >= v.size() { (a, v) } else { (v, a) };
    let (n, k) = (long.size(), short.size());
    let x = long.reshape_to([1, n, 1])?;
    let w = short.flip(0)?.reshape_to([1, k, 1])?;
    let dtype = x.dtype().promote(w.dtype()).to_inexact();
    let full = super::conv1d(&x.astype(dtype)?, &w, 1, k as i64 - 1, 1, 1)?.ravel()?;
    match mode {
        ConvolveMode::Full => Ok(full),
        ConvolveMode::Same => full.slice_axis(0, (k - 1) / 2, (k - 1) / 2 + n),
        ConvolveMode::Valid => full.slice_axis(0, k - 1, n),
    }
}

/// `logsumexp(logits) - logits[target]` along the last axis, in float32.
pub fn cross_entropy(logits: &Array, targets: &Array) -> Result<Array> {
    let n = logits.ndim();
    if n == 0 || targets.shape()[..] != logits.shape()[..n - 1] {
        bail!(Shape, "[cross_entropy] targets {:?} for logits {:?}", targets.shape(), logits.shape());
    }
    let x = logits.astype(Dtype::F32)?;
    let chosen = x.take_along_axis(&targets.expand_dims(&[-1])?, Some(-1))?.squeeze(Some(&[-1]))?;
    x.logsumexp(-1, false)?.subtract(chosen)
}

/// An operand as an array, for functions that take arrays only.
pub fn as_array(x: impl Into<Operand>) -> Result<Array> {
    let x = x.into();
    x.cast(x.dtype())
}

pub(crate) fn positive(n: i64, what: &str, place: &str) -> Result<usize> {
    usize::try_from(n)
        .ok()
        .filter(|&n| n > 0)
        .ok_or_else(|| err!(Argument, "[{place}] {what} is {n}; accepted: 1 and more"))
}

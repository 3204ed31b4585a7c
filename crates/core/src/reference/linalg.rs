//! Linear algebra.

use super::matmul::split;
use super::tensor::{Data, Tensor};
use crate::aval::Aval;
use crate::{Result, bail};
use num_complex::ComplexFloat;

/// Inverses of the square matrices in the last two axes.
pub(super) fn inverse(x: &Tensor, out: &Aval) -> Result<Tensor> {
    let (_, n, cols) = split(&x.shape, "inverse")?;
    if n != cols {
        bail!(Shape, "[inverse] shape {:?} is not square in its last two axes", x.shape);
    }
    let data = match x.as_kind_of(out.dtype) {
        Data::Float(v) => Data::Float(each(&v, n)?),
        Data::Complex(v) => Data::Complex(each(&v, n)?),
        Data::Int(_) => bail!(Dtype, "[inverse] {} is not accepted; accepted: floating dtypes", out.dtype),
    };
    Ok(Tensor::new(out, data))
}

/// Eigenvalues and eigenvectors of the symmetric matrices in the last two axes.
pub(super) fn eigh(x: &Tensor, outs: &[Aval]) -> Result<Vec<Tensor>> {
    let (_, n, cols) = split(&x.shape, "eigh")?;
    let Data::Float(data) = x.as_kind_of(outs[0].dtype) else {
        bail!(Dtype, "[eigh] {} is not accepted; accepted: float32, float64", x.dtype);
    };
    if n != cols {
        bail!(Shape, "[eigh] shape {:?} is not square in its last two axes", x.shape);
    }
    let (mut values, mut vectors) = (Vec::new(), Vec::new());
    for m in data.chunks(n * n + usize::from(n == 0)) {
        let (w, v) = symmetric_eigen(m, n);
        values.extend(w);
        vectors.extend(v);
    }
    Ok(vec![Tensor::new(&outs[0], Data::Float(values)), Tensor::new(&outs[1], Data::Float(vectors))])
}

/// Eigenvalues in ascending order, and eigenvectors as the columns of a row-major matrix, of a symmetric one.
///
/// # Accuracy
/// `|a v - w v|` and `|v^T v - 1|` stay near `n` times the rounding of float64, relative to the largest element.
///
/// # Source
/// Cyclic Jacobi rotations: Golub and Van Loan, Matrix Computations, 8.5.
pub fn symmetric_eigen(matrix: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    const MOST_SWEEPS: usize = 60;
    let mut a = matrix.to_vec();
    let mut v = vec![0.0; n * n];
    (0..n).for_each(|i| v[i * n + i] = 1.0);
    for _ in 0..MOST_SWEEPS {
        let mut turned = false;
        for p in 0..n {
            for q in p + 1..n {
                let (app, aqq, apq) = (a[p * n + p], a[q * n + q], a[p * n + q]);
                // What is lost in the rounding of the diagonal is as good as zero.
                if apq.abs() <= f64::EPSILON * (app * aqq).abs().sqrt().max(f64::MIN_POSITIVE) {
                    continue;
                }
                turned = true;
                let theta = (aqq - app) / (2.0 * apq);
                let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
                let c = 1.0 / t.hypot(1.0);
                let s = t * c;
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (v[k * n + p], v[k * n + q]);
                    (v[k * n + p], v[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
        if !turned {
            break;
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let vectors =
        (0..n).flat_map(|k| order.iter().map(move |&i| (k, i))).map(|(k, i)| v[k * n + i]).collect();
    (values, vectors)
}

fn each<T: ComplexFloat<Real = f64>>(v: &[T], n: usize) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(v.len());
    for (i, m) in v.chunks(n * n + usize::from(n == 0)).enumerate() {
        match gauss_jordan(m, n) {
            Some(m) => out.extend(m),
            None => bail!(Argument, "[inverse] matrix {i} is singular"),
        }
    }
    Ok(out)
}

/// Reduces (m | 1) to (1 | inverse), pivoting on the largest element of the column; `None` when
/// there is none but zero.
fn gauss_jordan<T: ComplexFloat<Real = f64>>(m: &[T], n: usize) -> Option<Vec<T>> {
    let mut a: Vec<Vec<T>> = m.chunks(n).map(|row| row.to_vec()).collect();
    for (i, row) in a.iter_mut().enumerate() {
        row.extend((0..n).map(|j| if i == j { T::one() } else { T::zero() }));
    }
    for col in 0..n {
        let pivot = (col..n).max_by(|&i, &j| a[i][col].abs().total_cmp(&a[j][col].abs()))?;
        a.swap(col, pivot);
        let top = a[col][col];
        if top == T::zero() {
            return None;
        }
        a[col].iter_mut().for_each(|x| *x = *x / top);
        let pivot = a[col].clone();
        for (_, row) in a.iter_mut().enumerate().filter(|(i, _)| *i != col) {
            let factor = row[col];
            row.iter_mut().zip(&pivot).for_each(|(x, &p)| *x = *x - factor * p);
        }
    }
    Some(a.into_iter().flat_map(|row| row.into_iter().skip(n)).collect())
}

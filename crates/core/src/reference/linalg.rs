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

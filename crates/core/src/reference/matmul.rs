//! Products of matrices.

use super::tensor::{Data, Tensor};
use crate::aval::Aval;
use crate::shape::Shape;
use crate::{Result, bail};
use std::ops::{Add, Mul};

/// A stack of matrices: rows, columns, and which matrix of each operand makes which of the result.
struct Stack {
    m: usize,
    k: usize,
    n: usize,
    pairs: Vec<(usize, usize)>,
}

/// `a @ b` over the last two axes; the leading ones broadcast.
pub(super) fn matmul(a: &Tensor, b: &Tensor, out: &Aval) -> Result<Tensor> {
    let (batch_a, m, k) = split(&a.shape, "matmul")?;
    let (batch_b, k2, n) = split(&b.shape, "matmul")?;
    if k != k2 {
        bail!(Shape, "[matmul] inner dimensions differ: {:?} @ {:?}", a.shape, b.shape);
    }
    let batch = batch_a.broadcast(&batch_b, "matmul")?;
    let pairs = numbers(&batch_a, &batch).into_iter().zip(numbers(&batch_b, &batch)).collect();
    product(a, b, &Stack { m, k, n, pairs }, out)
}

/// Leading axes, rows and columns.
pub(super) fn split(shape: &Shape, name: &str) -> Result<(Shape, usize, usize)> {
    match &shape[..] {
        [batch @ .., rows, cols] => Ok((batch.into(), *rows, *cols)),
        _ => bail!(Shape, "[{name}] shape {shape:?} has no matrices; accepted: two dimensions or more"),
    }
}

/// For each matrix of a batch, the number of the matrix of `from` that broadcasts to it.
fn numbers(from: &Shape, batch: &Shape) -> Vec<usize> {
    crate::Layout::contiguous(from.clone()).broadcast_to(batch).offsets().collect()
}

/// The products of the given pairs of matrices.
pub(super) fn pair_products(
    a: &Tensor,
    b: &Tensor,
    pairs: Vec<(usize, usize)>,
    out: &Aval,
) -> Result<Tensor> {
    let (_, m, k) = split(&a.shape, "matmul")?;
    let (_, k2, n) = split(&b.shape, "matmul")?;
    if k != k2 {
        bail!(Shape, "[matmul] inner dimensions differ: {:?} @ {:?}", a.shape, b.shape);
    }
    product(a, b, &Stack { m, k, n, pairs }, out)
}

fn product(a: &Tensor, b: &Tensor, s: &Stack, out: &Aval) -> Result<Tensor> {
    let data = match (a.as_kind_of(out.dtype), b.as_kind_of(out.dtype)) {
        (Data::Int(a), Data::Int(b)) => Data::Int(matrices(&a, &b, s)),
        (Data::Float(a), Data::Float(b)) => Data::Float(matrices(&a, &b, s)),
        (Data::Complex(a), Data::Complex(b)) => Data::Complex(matrices(&a, &b, s)),
        _ => bail!(Internal, "[matmul] operands of different kinds"),
    };
    Ok(Tensor::new(out, data))
}

fn matrices<T: Copy + Default + Add<Output = T> + Mul<Output = T>>(a: &[T], b: &[T], s: &Stack) -> Vec<T> {
    let &Stack { m, k, n, .. } = s;
    let mut out = Vec::with_capacity(s.pairs.len() * m * n);
    for &(pa, pb) in &s.pairs {
        let (a, b) = (&a[pa * m * k..][..m * k], &b[pb * k * n..][..k * n]);
        for i in 0..m {
            let mut row = vec![T::default(); n];
            for l in 0..k {
                let x = a[i * k + l];
                for (sum, &y) in row.iter_mut().zip(&b[l * n..][..n]) {
                    *sum = *sum + x * y;
                }
            }
            out.extend(row);
        }
    }
    out
}

//! Elementwise ops and regions of them.

use super::tensor::{Data, Tensor, element, map_data};
use crate::aval::Aval;
use crate::number::Number;
use crate::op::scalar_ops::Meaning;
use crate::op::{Region, RegionNode, Row};
use crate::shape::Shape;
use crate::{Dtype, Result, err};

/// Evaluates a region one node at a time, rounding after each.
pub(super) fn region(
    region: &Region,
    ins: &[Tensor],
    cells: &[Number],
    outs: &[Aval],
) -> Result<Vec<Tensor>> {
    let shape = &outs[0].shape;
    let mut values: Vec<Tensor> = Vec::with_capacity(region.nodes.len());
    for node in &region.nodes {
        let value = match node {
            RegionNode::Input { index, .. } => ins[*index as usize].broadcast_to(shape),
            RegionNode::Cell { index, dtype } => {
                full(cells[*index as usize], &Aval::new(shape.clone(), *dtype))
            }
            RegionNode::Cast { arg, dtype } => values[*arg as usize].cast(*dtype),
            RegionNode::Row { row, args, dtype } => {
                let args: Vec<&Tensor> = args.iter().map(|&a| &values[a as usize]).collect();
                apply(*row, &args, shape, *dtype)?
            }
        };
        values.push(value);
    }
    Ok(region.outputs.iter().map(|&o| values[o as usize].clone()).collect())
}

/// One row of the table with broadcasting.
pub(super) fn row(row: Row, ins: &[Tensor], out: &Aval) -> Result<Tensor> {
    let wide: Vec<Tensor> = ins.iter().map(|t| t.broadcast_to(&out.shape)).collect();
    apply(row, &wide.iter().collect::<Vec<_>>(), &out.shape, out.dtype)
}

/// One row on operands of one shape. The last operand's dtype is the one the row takes.
fn apply(row: Row, args: &[&Tensor], shape: &Shape, gives: Dtype) -> Result<Tensor> {
    let takes = args.last().ok_or_else(|| err!(Internal, "[{}] has no operand", row.name()))?.dtype;
    let Meaning { int, float, complex } = row.meaning();
    let lacks = || err!(Dtype, "[{}] {takes} is not accepted", row.name());
    let n = shape.elems();
    let made = match takes {
        Dtype::C64 => {
            let args: Vec<_> = args.iter().map(|t| t.complexes()).collect();
            let f = complex.ok_or_else(lacks)?;
            Data::Complex((0..n).map(|i| f(&column(&args, i)[..args.len()])).collect())
        }
        d if d.is_float() => {
            let args: Vec<_> = args.iter().map(|t| t.floats()).collect();
            let f = float.ok_or_else(lacks)?;
            Data::Float((0..n).map(|i| f(&column(&args, i)[..args.len()])).collect())
        }
        d => {
            let args = args.iter().map(|t| t.ints(row.name())).collect::<Result<Vec<_>>>()?;
            let f = int.ok_or_else(lacks)?;
            Data::Int((0..n).map(|i| f(&column(&args, i)[..args.len()], d)).collect())
        }
    };
    // A comparison of floats gives 0.0 or 1.0, |z| a complex number without imaginary part.
    let data = match (made, gives) {
        (Data::Complex(v), d) if d != Dtype::C64 => {
            let re = v.into_iter().map(|z| z.re);
            if d.is_float() { Data::Float(re.collect()) } else { Data::Int(re.map(|x| x as i128).collect()) }
        }
        (Data::Float(v), d) if !d.is_float() => Data::Int(v.into_iter().map(|x| x as i128).collect()),
        (data, _) => data,
    };
    Ok(Tensor::of(shape.clone(), gives, data))
}

/// Element `i` of each operand; no row has more than three.
fn column<T: Copy + Default>(args: &[impl AsRef<[T]>], i: usize) -> [T; 3] {
    let mut out = [T::default(); 3];
    for (to, a) in out.iter_mut().zip(args) {
        *to = a.as_ref()[i];
    }
    out
}

/// The number everywhere.
pub(super) fn full(n: Number, out: &Aval) -> Tensor {
    let one = element(n, out.dtype);
    Tensor::new(out, map_data!(one.data, v => vec![v[0]; out.shape.elems()]))
}

/// `start + i * step`, rounded once; of floats for an integer dtype, then truncated.
pub(super) fn arange(start: Number, step: Number, out: &Aval) -> Tensor {
    let n = out.shape.elems();
    match (start.as_int(), step.as_int()) {
        (Some(a), Some(b)) if !out.dtype.is_inexact() => {
            Tensor::new(out, Data::Int((0..n as i128).map(|i| a as i128 + i * b as i128).collect()))
        }
        _ => {
            let (a, b) = (start.as_f64(), step.as_f64());
            let values = Data::Float((0..n).map(|i| a + i as f64 * b).collect());
            Tensor::of(out.shape.clone(), Dtype::F64, values).cast(out.dtype)
        }
    }
}

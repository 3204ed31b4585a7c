//! Public functions on arrays, a chapter a file.

mod elementwise;
pub mod random;

use crate::array::Array;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::number::NumberKind;
use crate::op::Op;
use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::{Aval, bail};
use smallvec::smallvec;

/// An operand of an elementwise function: an array, or a scalar that takes the array's dtype.
#[derive(Clone, Debug)]
pub enum Operand {
    Array(Array),
    Scalar(Scalar),
}

impl From<&Array> for Operand {
    fn from(a: &Array) -> Operand {
        Operand::Array(a.clone())
    }
}
impl From<Array> for Operand {
    fn from(a: Array) -> Operand {
        Operand::Array(a)
    }
}
impl From<&Scalar> for Operand {
    fn from(s: &Scalar) -> Operand {
        Operand::Scalar(s.clone())
    }
}
macro_rules! scalar_operands {
    ($($t:ty),*) => { $(impl From<$t> for Operand { fn from(x: $t) -> Operand { Operand::Scalar(x.into()) } })* };
}
scalar_operands!(Scalar, bool, i32, i64, f32, f64);

impl Operand {
    pub fn dtype(&self) -> Dtype {
        match self {
            Operand::Array(a) => a.dtype(),
            Operand::Scalar(s) => weak_dtype(s),
        }
    }

    /// As an array of this dtype.
    pub(crate) fn cast(&self, dtype: Dtype) -> Result<Array> {
        match self {
            Operand::Array(a) => a.astype(dtype),
            Operand::Scalar(s) => full_scalar(s, Shape::scalar(), dtype),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Operand::Array(a) => a.shape().clone(),
            Operand::Scalar(_) => Shape::scalar(),
        }
    }
}

/// The dtype of a scalar on its own. An integer that needs 64 bits makes a symbolic one static.
fn weak_dtype(s: &Scalar) -> Dtype {
    match s.kind() {
        NumberKind::Bool => Dtype::Bool,
        NumberKind::Int => match s.hint() {
            Ok(n) => n.dtype(),
            Err(_) => Dtype::I32,
        },
        NumberKind::Float => Dtype::F32,
        NumberKind::Complex => Dtype::C64,
    }
}

/// The dtype in which a scalar meets an array of dtype `d`.
pub(crate) fn meet(d: Dtype, s: &Scalar) -> Dtype {
    match s.kind() {
        NumberKind::Bool => d,
        NumberKind::Int if d == Dtype::Bool => Dtype::I32,
        NumberKind::Int => d,
        NumberKind::Float => d.to_inexact(),
        NumberKind::Complex => Dtype::C64,
    }
}

/// The common dtype of operands: arrays promote among themselves, scalars are weak beside them.
pub(crate) fn common_dtype(operands: &[Operand]) -> Dtype {
    let arrays =
        operands.iter().filter_map(|o| if let Operand::Array(a) = o { Some(a.dtype()) } else { None });
    match arrays.reduce(|a, b| a.promote(b)) {
        Some(d) => operands.iter().fold(d, |d, o| if let Operand::Scalar(s) = o { meet(d, s) } else { d }),
        None => operands.iter().map(|o| o.dtype()).reduce(|a, b| a.promote(b)).unwrap_or(Dtype::F32),
    }
}

/// A lazy array filled with a scalar.
pub(crate) fn full_scalar(value: &Scalar, shape: Shape, dtype: Dtype) -> Result<Array> {
    value.hint()?.check_range(dtype)?;
    Ok(Array::lazy(Op::Full, smallvec![], smallvec![value.clone()], Aval::new(shape, dtype)))
}

/// Refuses arrays with a symbolic valid length, which only attention reads.
pub(crate) fn no_valid_length(inputs: &[Array], name: &str) -> Result<()> {
    if let Some(a) = inputs.iter().find(|a| a.aval().valid.is_some()) {
        bail!(
            Trace,
            "[{name}] {:?} has a length that changes from call to call, which only attention accepts",
            a.aval()
        );
    }
    Ok(())
}

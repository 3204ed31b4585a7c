//! Public functions on arrays, a chapter a file.

pub mod composite;
pub mod conv;
pub mod creation;
pub mod einsum;
mod elementwise;
pub mod fft;
mod gather;
mod hadamard;
pub mod index;
pub mod join;
pub mod kernel;
pub mod linalg;
pub mod nn;
pub mod quant;
pub mod random;
mod reduce;
pub mod sort;
#[cfg(test)]
mod tests;
pub mod view;

pub use composite::*;
pub use conv::*;
pub use creation::*;
pub use einsum::{einsum, einsum_path};
pub use elementwise::{binary, elementwise};
pub use fft::{Fft, FftNorm, fftfreq};
pub use index::Index;
pub use join::*;
pub use kernel::{KernelCall, MetalKernel};
pub use linalg::*;
pub use nn::*;
pub use quant::*;
pub use sort::Unique;
pub use view::*;

use crate::array::{Array, Inputs, Scalars};
use crate::dtype::Dtype;
use crate::error::Result;
use crate::number::NumberKind;
use crate::op::Op;
use crate::scalar::Scalar;
use crate::shape::{Dims, Shape};
use crate::{Aval, bail, err};
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
scalar_operands!(Scalar, crate::Number, crate::Complex, bool, i32, i64, f32, f64);

impl Operand {
    /// The array's dtype, or the one that the scalar takes alone.
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

/// Which axes a reduction runs over: one, several, or all of them.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, api::Axes};
/// let x = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
/// assert_eq!(x.sum(-1, false)?.to_vec::<f32>()?, [3.0, 7.0]);
/// assert_eq!(x.sum([0, 1], false)?.item::<f32>()?, 10.0);
/// assert_eq!(x.sum(Axes::ALL, false)?.item::<f32>()?, 10.0);
/// # Ok::<(), isopace_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Axes(pub(crate) Option<Dims<i64>>);

impl Axes {
    /// Every axis.
    pub const ALL: Axes = Axes(None);

    pub(crate) fn resolve(&self, ndim: usize, place: &str) -> Result<Dims<usize>> {
        crate::shape::axes(self.0.as_deref(), ndim, place)
    }
}

impl From<i64> for Axes {
    fn from(a: i64) -> Axes {
        Axes(Some(smallvec![a]))
    }
}
impl From<i32> for Axes {
    fn from(a: i32) -> Axes {
        Axes(Some(smallvec![a as i64]))
    }
}
impl From<&[i64]> for Axes {
    fn from(a: &[i64]) -> Axes {
        Axes(Some(a.into()))
    }
}
impl<const N: usize> From<[i64; N]> for Axes {
    fn from(a: [i64; N]) -> Axes {
        Axes(Some(a.as_slice().into()))
    }
}
impl From<Option<&[i64]>> for Axes {
    fn from(a: Option<&[i64]>) -> Axes {
        Axes(a.map(Dims::from))
    }
}
impl From<Option<i64>> for Axes {
    fn from(a: Option<i64>) -> Axes {
        Axes(a.map(|a| smallvec![a]))
    }
}

/// A lazy node with one result, after the checks that all ops share.
pub(crate) fn node(op: Op, inputs: Inputs, scalars: Scalars, shape: Shape, dtype: Dtype) -> Result<Array> {
    no_valid_length(&inputs, op.name())?;
    let shape = shape.checked(op.name())?;
    Ok(Array::lazy(op, inputs, scalars, Aval::new(shape, dtype)))
}

/// A shape from numbers as users give them.
///
/// # Errors
/// `Shape` for a negative extent.
pub fn extents(dims: &[i64], place: &str) -> Result<Shape> {
    dims.iter()
        .map(|&d| usize::try_from(d).map_err(|_| err!(Shape, "[{place}] extent {d} is negative in {dims:?}")))
        .collect()
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

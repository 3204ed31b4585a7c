//! Elementwise functions: one method for each row of the table.

use super::{Operand, common_dtype, no_valid_length, node};
use crate::array::Array;
use crate::aval::Aval;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::op::scalar_ops::{Rule, dtypes};
use crate::op::{Op, Row};
use crate::shape::Shape;
use smallvec::{SmallVec, smallvec};

/// Applies a row of the table to operands that broadcast.
///
/// # Errors
/// `Dtype` for a dtype that the row does not take, `Shape` when shapes do not broadcast, `Argument`
/// for an integer scalar out of the array's range.
pub fn elementwise(row: Row, operands: &[Operand]) -> Result<Array> {
    let select = row.rule() == Rule::Select;
    let values = if select { &operands[1..] } else { operands };
    let (takes, gives) = dtypes(row, common_dtype(values))?;
    let mut inputs: SmallVec<[Array; 3]> = SmallVec::new();
    let mut shape = Shape::scalar();
    for (i, o) in operands.iter().enumerate() {
        inputs.push(o.cast(if select && i == 0 { Dtype::Bool } else { takes })?);
        shape = shape.broadcast(&inputs[i].aval().shape, row.name())?;
    }
    node(Op::Elementwise(row), inputs, smallvec![], shape, gives)
}

/// Applies a row to two arrays. Quick where dtype and shape agree, which is the usual case.
///
/// # Errors
/// As [`elementwise`].
pub fn binary(row: Row, a: Array, b: Array) -> Result<Array> {
    let (x, y) = (a.aval(), b.aval());
    if x == y && x.valid.is_none() {
        let (takes, gives) = dtypes(row, x.dtype)?;
        if takes == x.dtype {
            let aval = Aval::new(x.shape.clone(), gives);
            return Ok(Array::lazy(Op::Elementwise(row), smallvec![a, b], smallvec![], aval));
        }
    }
    elementwise(row, &[Operand::Array(a), Operand::Array(b)])
}

macro_rules! unary {
    ($($f:ident $Row:ident),* $(,)?) => {
        impl Array { $(
            #[doc = concat!("Row [`Row::", stringify!($Row), "`], elementwise.")]
            pub fn $f(&self) -> Result<Array> { elementwise(Row::$Row, &[self.into()]) }
        )* }
    };
}
macro_rules! binary {
    ($($f:ident $Row:ident),* $(,)?) => {
        impl Array { $(
            #[doc = concat!("Row [`Row::", stringify!($Row), "`], elementwise with broadcasting.")]
            pub fn $f(&self, other: impl Into<Operand>) -> Result<Array> {
                elementwise(Row::$Row, &[self.into(), other.into()])
            }
        )* }
    };
}

unary! {
    negative Neg, abs Abs, sign Sign, square Square, sqrt Sqrt, rsqrt Rsqrt, reciprocal Reciprocal, exp Exp,
    expm1 Expm1, log Log, log2 Log2, log10 Log10, log1p Log1p, sin Sin, cos Cos, tan Tan, arcsin Arcsin,
    arccos Arccos, arctan Arctan, sinh Sinh, cosh Cosh, tanh Tanh, arcsinh Arcsinh, arccosh Arccosh,
    arctanh Arctanh, sigmoid Sigmoid, erf Erf, erfinv Erfinv, floor Floor, ceil Ceil, round Round,
    conjugate Conjugate, real RealPart, imag ImagPart, isnan IsNan, isinf IsInf, logical_not LogicalNot,
    bitwise_invert BitNot,
}
binary! {
    add Add, subtract Sub, multiply Mul, divide Div, floor_divide FloorDiv, remainder Rem, power Pow,
    maximum Max, minimum Min, logaddexp LogAddExp, arctan2 Arctan2, equal Eq, not_equal Ne, less Lt,
    less_equal Le, greater Gt, greater_equal Ge, logical_and LogicalAnd, logical_or LogicalOr,
    bitwise_and BitAnd, bitwise_or BitOr, bitwise_xor BitXor, left_shift Shl, right_shift Shr,
}

impl Array {
    /// Converts the elements by the rule of [`Op::Cast`]; the array itself when nothing changes.
    pub fn astype(&self, dtype: Dtype) -> Result<Array> {
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        no_valid_length(std::slice::from_ref(self), "astype")?;
        let aval = Aval::new(self.aval().shape.clone(), dtype);
        Ok(Array::lazy(Op::Cast, smallvec![self.clone()], smallvec![], aval))
    }

    /// Elements of `x` where this array is true, else of `y`; all three broadcast.
    pub fn where_(&self, x: impl Into<Operand>, y: impl Into<Operand>) -> Result<Array> {
        elementwise(Row::Select, &[self.into(), x.into(), y.into()])
    }
}

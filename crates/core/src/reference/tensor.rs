//! The interpreter's working form of an array.

use crate::aval::Aval;
use crate::layout::Layout;
use crate::number::Number;
use crate::op::scalar_ops::{round, round_complex, to_bf16, to_f16, wrap};
use crate::shape::Shape;
use crate::{Complex, Dtype, Result, bail};
use half::{bf16, f16};

/// Complex numbers while they are computed with.
pub(super) type C64 = num_complex::Complex<f64>;

/// Elements in row-major order; bool counts as an integer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Int(Vec<i128>),
    Float(Vec<f64>),
    Complex(Vec<C64>),
}

/// An array in row-major order whose elements are exact in its dtype.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tensor {
    pub shape: Shape,
    pub dtype: Dtype,
    pub data: Data,
}

/// Evaluates an expression with the elements of any kind as `$v`, wrapped as [`Data`] again.
macro_rules! map_data {
    ($data:expr, $v:ident => $e:expr) => {
        match $data {
            $crate::reference::tensor::Data::Int($v) => $crate::reference::tensor::Data::Int($e),
            $crate::reference::tensor::Data::Float($v) => $crate::reference::tensor::Data::Float($e),
            $crate::reference::tensor::Data::Complex($v) => $crate::reference::tensor::Data::Complex($e),
        }
    };
}
pub(super) use map_data;

impl Data {
    pub(super) fn len(&self) -> usize {
        match self {
            Data::Int(v) => v.len(),
            Data::Float(v) => v.len(),
            Data::Complex(v) => v.len(),
        }
    }

    /// The elements at these places, in this order.
    pub(super) fn pick(&self, places: impl Iterator<Item = usize>) -> Data {
        map_data!(self, v => places.map(|i| v[i]).collect())
    }
}

impl Tensor {
    /// Rounds or wraps elements of the right kind to the aval's dtype.
    pub(super) fn new(aval: &Aval, data: Data) -> Tensor {
        Tensor::of(aval.shape.clone(), aval.dtype, data)
    }

    /// As [`Tensor::new`].
    pub(super) fn of(shape: Shape, dtype: Dtype, data: Data) -> Tensor {
        debug_assert_eq!(shape.elems(), data.len());
        let data = match data {
            Data::Int(v) => Data::Int(v.into_iter().map(|x| wrap(x, dtype)).collect()),
            Data::Float(v) => Data::Float(v.into_iter().map(|x| round(x, dtype)).collect()),
            Data::Complex(v) => Data::Complex(v.into_iter().map(|z| widen(round_complex(z))).collect()),
        };
        Tensor { shape, dtype, data }
    }

    pub(super) fn elems(&self) -> usize {
        self.data.len()
    }

    /// Reads elements of a buffer.
    pub(super) fn read(bytes: &[u8], layout: &Layout, dtype: Dtype) -> Result<Tensor> {
        let size = dtype.size();
        let at = layout.offsets().map(|o| &bytes[o * size..][..size]);
        macro_rules! ints {
            ($t:ty) => {
                Data::Int(at.map(|b| bytemuck::pod_read_unaligned::<$t>(b) as i128).collect())
            };
        }
        macro_rules! floats {
            ($t:ty) => {
                Data::Float(at.map(|b| f64::from(bytemuck::pod_read_unaligned::<$t>(b))).collect())
            };
        }
        let data = match dtype {
            Dtype::Bool => Data::Int(at.map(|b| (b[0] != 0) as i128).collect()),
            Dtype::U8 => ints!(u8),
            Dtype::U16 => ints!(u16),
            Dtype::U32 => ints!(u32),
            Dtype::U64 => ints!(u64),
            Dtype::I8 => ints!(i8),
            Dtype::I16 => ints!(i16),
            Dtype::I32 => ints!(i32),
            Dtype::I64 => ints!(i64),
            Dtype::F16 => floats!(f16),
            Dtype::BF16 => floats!(bf16),
            Dtype::F32 => floats!(f32),
            Dtype::F64 => floats!(f64),
            Dtype::C64 => Data::Complex(at.map(|b| widen(bytemuck::pod_read_unaligned(b))).collect()),
        };
        Ok(Tensor { shape: layout.shape.clone(), dtype, data })
    }

    /// The bytes of the elements, row-major.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        macro_rules! put {
            ($v:expr, $x:ident => $e:expr) => {
                $v.iter().flat_map(|&$x| ($e).to_le_bytes()).collect()
            };
        }
        match (&self.data, self.dtype) {
            (Data::Int(v), Dtype::Bool | Dtype::U8) => put!(v, x => x as u8),
            (Data::Int(v), Dtype::I8) => put!(v, x => x as i8),
            (Data::Int(v), Dtype::U16) => put!(v, x => x as u16),
            (Data::Int(v), Dtype::I16) => put!(v, x => x as i16),
            (Data::Int(v), Dtype::U32) => put!(v, x => x as u32),
            (Data::Int(v), Dtype::I32) => put!(v, x => x as i32),
            (Data::Int(v), Dtype::U64) => put!(v, x => x as u64),
            (Data::Int(v), _) => put!(v, x => x as i64),
            (Data::Float(v), Dtype::F16) => put!(v, x => to_f16(x)),
            (Data::Float(v), Dtype::BF16) => put!(v, x => to_bf16(x)),
            (Data::Float(v), Dtype::F32) => put!(v, x => x as f32),
            (Data::Float(v), _) => put!(v, x => x),
            (Data::Complex(v), _) => v
                .iter()
                .map(|&z| round_complex(z))
                .flat_map(|z| [z.re, z.im])
                .flat_map(f32::to_le_bytes)
                .collect(),
        }
    }

    /// The elements as floats; complex numbers lose their imaginary part.
    pub(super) fn floats(&self) -> Vec<f64> {
        match &self.data {
            Data::Int(v) => v.iter().map(|&x| x as f64).collect(),
            Data::Float(v) => v.clone(),
            Data::Complex(v) => v.iter().map(|z| z.re).collect(),
        }
    }

    /// The elements as complex numbers.
    pub(super) fn complexes(&self) -> Vec<C64> {
        match &self.data {
            Data::Complex(v) => v.clone(),
            _ => self.floats().into_iter().map(C64::from).collect(),
        }
    }

    /// The elements of an integer array.
    ///
    /// # Errors
    /// `Dtype` when they are not integers.
    pub(super) fn ints(&self, name: &str) -> Result<&[i128]> {
        match &self.data {
            Data::Int(v) => Ok(v),
            _ => bail!(Dtype, "[{name}] {} where integers are needed", self.dtype),
        }
    }

    /// The elements in the kind of `dtype`, converted by value: for results that are wider than
    /// their operands.
    pub(super) fn as_kind_of(&self, dtype: Dtype) -> Data {
        match dtype {
            Dtype::C64 => Data::Complex(self.complexes()),
            d if d.is_float() => Data::Float(self.floats()),
            d => self.cast(d).data,
        }
    }

    /// Converts the elements by the rule of [`crate::op::Op::Cast`].
    pub(super) fn cast(&self, to: Dtype) -> Tensor {
        let data = match (&self.data, to) {
            (_, to) if to == self.dtype => self.data.clone(),
            (Data::Int(v), Dtype::C64) => {
                Data::Complex(v.iter().map(|&x| C64::from(x as f32 as f64)).collect())
            }
            (Data::Int(v), to) if to.is_float() => {
                Data::Float(v.iter().map(|&x| int_to_float(x, to)).collect())
            }
            (Data::Int(v), _) => Data::Int(v.clone()),
            (Data::Float(v), Dtype::C64) => Data::Complex(v.iter().map(|&x| C64::from(x)).collect()),
            (Data::Float(v), to) if to.is_float() => Data::Float(v.iter().map(|&x| narrow(x, to)).collect()),
            (Data::Float(v), to) => Data::Int(v.iter().map(|&x| float_to_int(x, to)).collect()),
            (Data::Complex(v), Dtype::Bool) => {
                Data::Int(v.iter().map(|z| (z.re != 0.0 || z.im != 0.0) as i128).collect())
            }
            (Data::Complex(v), to) if to.is_float() => {
                Data::Float(v.iter().map(|z| narrow(z.re, to)).collect())
            }
            (Data::Complex(v), to) => Data::Int(v.iter().map(|z| float_to_int(z.re, to)).collect()),
        };
        Tensor::of(self.shape.clone(), to, data)
    }

    /// The tensor under another layout of its row-major elements.
    pub(super) fn view(&self, layout: &Layout) -> Tensor {
        Tensor { shape: layout.shape.clone(), dtype: self.dtype, data: self.data.pick(layout.offsets()) }
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::contiguous(self.shape.clone())
    }

    pub(super) fn broadcast_to(&self, shape: &Shape) -> Tensor {
        if self.shape == *shape { self.clone() } else { self.view(&self.layout().broadcast_to(shape)) }
    }

    pub(super) fn transpose(&self, perm: &[usize]) -> Tensor {
        self.view(&self.layout().transpose(perm))
    }

    pub(super) fn reshape(mut self, shape: impl Into<Shape>) -> Tensor {
        self.shape = shape.into();
        debug_assert_eq!(self.shape.elems(), self.elems());
        self
    }

    /// The tensor with these axes last, in order, and the number of elements along them: each run
    /// of that many elements is one line.
    pub(super) fn lines(&self, axes: &[usize]) -> (Tensor, usize) {
        let mut perm: Vec<usize> = (0..self.shape.len()).filter(|i| !axes.contains(i)).collect();
        perm.extend(axes);
        (self.transpose(&perm), axes.iter().map(|&a| self.shape[a]).product())
    }

    /// Undoes [`Tensor::lines`] for one axis: moves the last axis to `axis`.
    pub(super) fn last_to(&self, axis: usize) -> Tensor {
        let mut perm: Vec<usize> = (0..self.shape.len() - 1).collect();
        perm.insert(axis, self.shape.len() - 1);
        self.transpose(&perm)
    }
}

pub(super) fn widen(z: Complex) -> C64 {
    C64::new(z.re as f64, z.im as f64)
}

/// A float in a narrower dtype; 16-bit ones are reached through float32.
pub(super) fn narrow(x: f64, to: Dtype) -> f64 {
    if to == Dtype::F64 { x } else { round(x as f32 as f64, to) }
}

fn int_to_float(x: i128, to: Dtype) -> f64 {
    if to == Dtype::F64 { x as f64 } else { round(x as f32 as f64, to) }
}

/// A float as an integer: truncated through int32 or, for uint32 and 64-bit types, int64; NaN and
/// what is out of range give the minimum of that type.
fn float_to_int(x: f64, to: Dtype) -> i128 {
    let t = x.trunc();
    match to {
        Dtype::Bool => (x != 0.0) as i128,
        Dtype::U32 | Dtype::U64 | Dtype::I64 => {
            if t >= i64::MIN as f64 && t < -(i64::MIN as f64) {
                t as i128
            } else {
                i64::MIN as i128
            }
        }
        _ => {
            if t >= i32::MIN as f64 && t <= i32::MAX as f64 {
                t as i128
            } else {
                i32::MIN as i128
            }
        }
    }
}

/// A number as an element of `dtype`: a float goes through float32 into anything narrower.
pub(super) fn element(n: Number, dtype: Dtype) -> Tensor {
    let (kind, data) = match n {
        Number::Bool(b) => (Dtype::Bool, Data::Int(vec![b as i128])),
        Number::Int(i) => (Dtype::I64, Data::Int(vec![i as i128])),
        Number::Float(x) => (Dtype::F64, Data::Float(vec![x])),
        Number::Complex(z) => (Dtype::C64, Data::Complex(vec![widen(z)])),
    };
    Tensor { shape: Shape::scalar(), dtype: kind, data }.cast(dtype)
}

/// Sum by halves, which keeps small terms.
pub(super) fn sum(v: &[f64]) -> f64 {
    if v.len() <= 16 {
        return v.iter().sum();
    }
    let (a, b) = v.split_at(v.len() / 2);
    sum(a) + sum(b)
}

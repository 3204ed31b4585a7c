//! Hand-worked values and properties for each family of ops.

mod elementwise;
mod index;
mod nn;
mod products;
mod reduce;
mod sort;

use super::tensor::{C64, Data, Tensor};
use super::{backend, compute};
use crate::aval::Aval;
use crate::backend::{MemorySetting, Spec, Value};
use crate::layout::Layout;
use crate::number::Number;
use crate::op::Op;
use crate::shape::Shape;
use crate::{Complex, Dtype, Error, Result};
use std::slice::from_ref;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

fn floats(shape: impl Into<Shape>, dtype: Dtype, v: &[f64]) -> Tensor {
    Tensor::of(shape.into(), dtype, Data::Float(v.to_vec()))
}

fn f32s(shape: impl Into<Shape>, v: &[f64]) -> Tensor {
    floats(shape, Dtype::F32, v)
}

fn ints(shape: impl Into<Shape>, dtype: Dtype, v: &[i128]) -> Tensor {
    Tensor::of(shape.into(), dtype, Data::Int(v.to_vec()))
}

fn complexes(v: &[(f64, f64)]) -> Tensor {
    let v: Vec<C64> = v.iter().map(|&(re, im)| C64::new(re, im)).collect();
    Tensor::of([v.len()].into(), Dtype::C64, Data::Complex(v))
}

/// 0, 1, 2...
fn range(shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    let v: Vec<f64> = (0..shape.elems()).map(|i| i as f64).collect();
    f32s(shape, &v)
}

fn try_run(op: Op, ins: &[Tensor], cells: &[Number], shape: &[usize], dtype: Dtype) -> Result<Tensor> {
    Ok(compute(&op, ins, cells, &[Aval::new(shape, dtype)])?.remove(0))
}

fn run(op: Op, ins: &[Tensor], cells: &[Number], shape: &[usize], dtype: Dtype) -> Tensor {
    let made = try_run(op, ins, cells, shape, dtype).unwrap();
    assert_eq!((&made.shape[..], made.dtype), (shape, dtype));
    made
}

/// Floats by value, NaN equal to NaN.
#[track_caller]
fn same(got: &Tensor, want: &[f64]) {
    let got = got.floats();
    let equal =
        got.len() == want.len() && got.iter().zip(want).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()));
    assert!(equal, "{got:?} for {want:?}");
}

#[track_caller]
fn near(got: &Tensor, want: &[f64], tolerance: f64) {
    let got = got.floats();
    assert_eq!(got.len(), want.len());
    let close =
        |a: f64, b: f64| (a - b).abs() <= tolerance * (1.0 + b.abs()) || a == b || (a.is_nan() && b.is_nan());
    assert!(got.iter().zip(want).all(|(&a, &b)| close(a, b)), "{got:?} for {want:?}");
}

#[test]
fn bytes_of_every_dtype_go_round() {
    for d in Dtype::ALL {
        let t = match d {
            Dtype::C64 => complexes(&[(1.5, -2.0), (0.0, INF), (-0.0, 3.0)]),
            d if d.is_float() => floats([3], d, &[1.5, -0.0, -INF]),
            d => ints([3], d, &[1, 0, d.int_range().unwrap().0]),
        };
        let bytes = t.to_bytes();
        assert_eq!(bytes.len(), 3 * d.size());
        assert_eq!(Tensor::read(&bytes, &t.layout(), d).unwrap(), t);
    }
}

/// Steps read through any layout: transposed, broadcast, sliced with negative strides, empty, 0-d.
#[test]
fn steps_read_any_layout() {
    let device = backend();
    let v: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let buffer = device.upload(bytemuck::cast_slice(&v)).unwrap();
    let whole = Layout::contiguous([3, 4].into());
    let cases: [(Layout, Vec<f32>); 6] = [
        (whole.transpose(&[1, 0]), vec![0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]),
        (whole.slice(&[2, 3], &[-1, -2], &[3, 2]), vec![11., 9., 7., 5., 3., 1.]),
        (
            whole.slice(&[1, 0], &[1, 1], &[1, 4]).broadcast_to(&[2, 4].into()),
            vec![4., 5., 6., 7., 4., 5., 6., 7.],
        ),
        (whole.slice(&[0, 1], &[2, 3], &[2, 1]), vec![1., 9.]),
        (whole.slice(&[0, 2], &[1, 1], &[3, 0]), vec![]),
        (Layout { shape: Shape::scalar(), strides: Default::default(), offset: 7 }, vec![7.]),
    ];
    for (layout, want) in cases {
        let aval = Aval::new(layout.shape.clone(), Dtype::F32);
        let spec = Spec { op: &Op::Contiguous, ins: from_ref(&aval), outs: from_ref(&aval) };
        let kernel = device.kernel(spec).unwrap();
        let mut made = Vec::new();
        kernel
            .run(&mut [Value { buffer: buffer.clone(), layout: layout.clone() }.into()], &[], &mut made)
            .unwrap();
        let read = |value: &Value| {
            let mut out = vec![0f32; want.len()];
            let floats = |b: &[u8]| b.chunks_exact(4).map(bytemuck::pod_read_unaligned).collect();
            device.lend(value, Dtype::F32, &mut |b| out = floats(b)).unwrap();
            out
        };
        assert_eq!(read(&made[0]), want);
        assert_eq!(read(&Value { buffer: buffer.clone(), layout }), want);
    }
    let outside = Value { buffer, layout: Layout::contiguous([13].into()) };
    assert!(matches!(device.lend(&outside, Dtype::F32, &mut |_| ()), Err(Error::Internal(_))));
}

#[test]
fn memory_is_counted_and_limited() {
    let device = backend();
    let a = device.upload(&[0; 100]).unwrap();
    let b = device.upload(&[0; 50]).unwrap();
    assert_eq!((device.memory().active_bytes, device.memory().peak_bytes), (150, 150));
    drop(b);
    assert_eq!((device.memory().active_bytes, device.memory().peak_bytes), (100, 150));
    assert_eq!(device.set_memory(MemorySetting::ResetPeak), 150);
    assert_eq!(device.set_memory(MemorySetting::Limit(120)), usize::MAX);
    assert!(matches!(device.upload(&[0; 21]), Err(Error::OutOfMemory(_))));
    assert!(device.upload(&[0; 20]).is_ok());
    drop(a);
    assert_eq!(device.memory().active_bytes, 0);
}

#[test]
fn buffers_of_another_device_are_refused() {
    #[derive(Debug)]
    struct Foreign;
    impl crate::backend::Buffer for Foreign {
        fn nbytes(&self) -> usize {
            8
        }
        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
        fn as_any_mut(&mut self) -> &mut dyn std::any::Any {
            self
        }
    }
    let value = Value { buffer: std::sync::Arc::new(Foreign), layout: Layout::contiguous([2].into()) };
    assert!(matches!(backend().lend(&value, Dtype::F32, &mut |_| ()), Err(Error::Device(_))));
}

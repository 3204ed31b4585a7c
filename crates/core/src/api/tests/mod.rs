//! Tests of the public functions on the reference interpreter. Expected values come from NumPy and from
//! running the peer.

mod index;
mod nn;
mod products;
mod shapes;
mod values;

use crate::array::Array;
use crate::{Dtype, Error, Result};

/// An array of float32 from numbers.
fn f(shape: impl Into<crate::Shape>, v: &[f32]) -> Array {
    crate::reference::init();
    Array::from_slice(v, shape).unwrap()
}

/// An array of int32 from numbers.
fn i(shape: impl Into<crate::Shape>, v: &[i32]) -> Array {
    crate::reference::init();
    Array::from_slice(v, shape).unwrap()
}

/// `0, 1, ...` in a shape, int32.
fn count(shape: impl Into<crate::Shape>) -> Array {
    let shape = shape.into();
    i(shape.clone(), &(0..shape.elems() as i32).collect::<Vec<_>>())
}

/// Elements as float64.
fn read(a: &Array) -> Vec<f64> {
    crate::reference::init();
    a.astype(Dtype::F64).unwrap().to_vec().unwrap()
}

/// Checks dtype, shape and elements (to 1e-6).
#[track_caller]
fn is(a: Result<Array>, dtype: Dtype, shape: &[usize], want: &[f64]) {
    let a = a.unwrap();
    assert_eq!((a.dtype(), &a.shape()[..]), (dtype, shape));
    let got = read(&a);
    let near =
        |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    assert!(
        got.len() == want.len() && got.iter().zip(want).all(|(&a, &b)| near(a, b)),
        "{got:?} is not {want:?}"
    );
}

/// Checks that it is an error of a kind, and that its text starts with a place.
macro_rules! refused {
    ($kind:ident, $($e:expr),+ $(,)?) => { $( match $e.map(|_| ()) {
        Err(crate::Error::$kind(text)) => assert!(text.starts_with('['), "{text}"),
        other => panic!("{} gave {other:?}", stringify!($e)),
    } )+ };
}
use refused;

/// The error of evaluating.
fn failure(a: Result<Array>) -> Error {
    a.unwrap().eval().unwrap_err()
}

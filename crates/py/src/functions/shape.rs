//! Shapes, views and taking elements.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Axes, Int, Ints, Num, Opd, ShapeArg};
use crate::device::StreamArg;
use crate::dtype::DtypeArg;
use crate::errors::{OrRaise, type_error, value_error};
use isopace_core::Array;
use isopace_core::shape::{Dims, Shape};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

/// `f(1, 2)` or `f((1, 2))`: the ints.
pub(crate) fn spread(args: &Bound<'_, PyTuple>) -> PyResult<Dims<i64>> {
    if args.len() == 1 {
        return convert::ints(&args.get_item(0)?);
    }
    convert::ints(args)
}

/// The parts that `split` makes.
pub(crate) fn split_parts(a: &Array, how: &Bound<'_, PyAny>, axis: i64) -> PyResult<Vec<PyArray>> {
    let parts = if how.is_instance_of::<PyInt>() {
        let n = convert::int(how)?;
        let n = usize::try_from(n)
            .map_err(|_| value_error(format!("[split] {n} parts; accepted: 1 and more")))?;
        a.split(n, axis)
    } else {
        let how = if how.hasattr("tolist")? { &how.call_method0("tolist")? } else { how };
        a.split_at(&convert::ints(how)?, axis)
    };
    Ok(parts.or_raise()?.into_iter().map(PyArray::new).collect())
}

/// The same elements under another shape; one extent may be -1.
///
/// Raises ValueError for another number of elements.
///
/// >>> mx.reshape(mx.arange(4), (2, -1))
/// array([[0, 1],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream = None))]
fn reshape(a: Opd, shape: Ints, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.reshape(&shape.0))
}

/// Axes from start to end joined into one.
///
/// Raises IndexError for an axis out of range, ValueError for axes in the wrong order.
///
/// >>> mx.flatten(mx.array([[1, 2], [3, 4]]))
/// array([1, 2, 3, 4], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, start_axis = Int(0), end_axis = Int(-1), *, stream = None))]
fn flatten(a: Arr, start_axis: Int, end_axis: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.flatten(start_axis.0, end_axis.0))
}

/// One axis split into several.
///
/// Raises ValueError for another number of elements.
///
/// >>> mx.unflatten(mx.arange(4), 0, (2, -1))
/// array([[0, 1],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis, shape, *, stream = None))]
fn unflatten(a: Arr, axis: Int, shape: Ints, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.unflatten(axis.0, &shape.0))
}

/// Axes of extent 1 dropped.
///
/// Raises ValueError for another extent, IndexError for an axis out of range.
///
/// >>> mx.squeeze(mx.ones((1, 2, 1))).shape
/// (2,)
#[pyfunction]
#[pyo3(signature = (a, /, axis = None, *, stream = None))]
fn squeeze(a: Arr, axis: Option<Axes>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.squeeze(axis.unwrap_or_default().get()))
}

/// New axes of extent 1.
///
/// Axes count in the result. Raises ValueError for one given twice, IndexError for one out of range.
///
/// >>> mx.expand_dims(mx.ones((2,)), (0, 2)).shape
/// (1, 2, 1)
#[pyfunction]
#[pyo3(signature = (a, /, axis, *, stream = None))]
fn expand_dims(a: Arr, axis: Ints, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.expand_dims(&axis.0))
}

/// Axes in another order; reversed when none is given.
///
/// Raises ValueError unless every axis is named once.
///
/// >>> mx.transpose(mx.ones((2, 3, 4)), (1, 0, 2)).shape
/// (3, 2, 4)
#[pyfunction]
#[pyo3(signature = (a, /, axes = None, *, stream = None))]
fn transpose(a: Arr, axes: Option<Axes>, stream: Stream) -> Result1 {
    let _ = stream;
    match axes.unwrap_or_default().get() {
        None => wrap(a.0.t()),
        Some(axes) => wrap(a.0.transpose(axes)),
    }
}

/// The last two axes swapped.
///
/// Raises ValueError for fewer than two axes.
///
/// >>> mx.matrix_transpose(mx.ones((2, 3, 4))).shape
/// (2, 4, 3)
#[pyfunction]
#[pyo3(signature = (a, /, *, stream = None))]
fn matrix_transpose(a: Arr, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.matrix_transpose())
}

/// Two axes exchanged.
///
/// Raises IndexError for an axis out of range.
///
/// >>> mx.swapaxes(mx.ones((2, 3, 4)), 0, 2).shape
/// (4, 3, 2)
#[pyfunction]
#[pyo3(signature = (a, /, axis1, axis2, *, stream = None))]
fn swapaxes(a: Arr, axis1: Int, axis2: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.swapaxes(axis1.0, axis2.0))
}

/// One axis moved to another place.
///
/// Raises IndexError for an axis out of range.
///
/// >>> mx.moveaxis(mx.ones((2, 3, 4)), 0, -1).shape
/// (3, 4, 2)
#[pyfunction]
#[pyo3(signature = (a, /, source, destination, *, stream = None))]
fn moveaxis(a: Arr, source: Int, destination: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.moveaxis(source.0, destination.0))
}

/// Repeats along axes of extent 1 and new leading axes.
///
/// Raises ValueError where an extent is neither 1 nor the wanted one.
///
/// >>> mx.broadcast_to(mx.array([1, 2]), (2, 2))
/// array([[1, 2],
///        [1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape, *, stream = None))]
fn broadcast_to(a: Opd, shape: ShapeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.broadcast_to(shape.0))
}

fn common(shapes: &[Shape], place: &str) -> PyResult<Shape> {
    let mut out = Shape::scalar();
    for s in shapes {
        out = out.broadcast(s, place).or_raise()?;
    }
    Ok(out)
}

/// The arrays broadcast to one shape.
///
/// A list. Raises ValueError for shapes that do not broadcast.
///
/// >>> [a.shape for a in mx.broadcast_arrays(mx.ones((2, 1)), mx.ones((3,)))]
/// [(2, 3), (2, 3)]
#[pyfunction]
#[pyo3(signature = (*arrays, stream = None))]
fn broadcast_arrays(arrays: &Bound<'_, PyTuple>, stream: Stream) -> PyResult<Vec<PyArray>> {
    let _ = stream;
    let list = arrays.iter().map(|a| a.extract::<Arr>().map(|a| a.0)).collect::<PyResult<Vec<Array>>>()?;
    let shapes: Vec<Shape> = list.iter().map(|a| a.shape().clone()).collect();
    let shape = common(&shapes, "broadcast_arrays")?;
    list.iter().map(|a| wrap(a.broadcast_to(shape.clone()))).collect()
}

/// The shape that shapes broadcast to.
///
/// A tuple of ints. Raises ValueError for shapes that do not broadcast.
///
/// >>> mx.broadcast_shapes((2, 1), (3,))
/// (2, 3)
#[pyfunction]
#[pyo3(signature = (*shapes))]
fn broadcast_shapes<'py>(shapes: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyTuple>> {
    if shapes.is_empty() {
        return Err(value_error("[broadcast_shapes] needs at least one shape"));
    }
    let list = shapes.iter().map(|s| s.extract::<ShapeArg>().map(|s| s.0)).collect::<PyResult<Vec<_>>>()?;
    PyTuple::new(shapes.py(), common(&list, "broadcast_shapes")?.iter())
}

/// Elements in reverse order along axes; along all without any.
///
/// Raises IndexError for an axis out of range.
///
/// >>> mx.flip(mx.array([1, 2, 3]))
/// array([3, 2, 1], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, axis = None, *, stream = None))]
fn flip(a: Arr, axis: Option<Axes>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.flip(axis.unwrap_or_default().get()))
}

/// Elements shifted along axes, those that leave coming in at the other end.
///
/// Works on the flattened array without axes. Raises ValueError for unequal counts of shifts and axes.
///
/// >>> mx.roll(mx.array([1, 2, 3]), 1)
/// array([3, 1, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shift, axis = None, *, stream = None))]
fn roll(a: Arr, shift: &Bound<'_, PyAny>, axis: Option<Axes>, stream: Stream) -> Result1 {
    let _ = stream;
    let shifts = match shift.extract::<Num>() {
        Ok(n) => vec![n.0],
        Err(_) => convert::ints(shift)?.iter().map(|&i| i.into()).collect(),
    };
    wrap(a.0.roll(&shifts, axis.unwrap_or_default().get()))
}

/// A view with explicit strides, checked against the array's size.
///
/// Strides and offset count elements. Raises ValueError where an element would lie outside.
///
/// >>> mx.as_strided(mx.arange(4), (3, 2), (1, 1))
/// array([[0, 1],
///        [1, 2],
///        [2, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, shape = None, strides = None, offset = Int(0), *, stream = None))]
fn as_strided(a: Arr, shape: Option<Ints>, strides: Option<Ints>, offset: Int, stream: Stream) -> Result1 {
    let _ = stream;
    let shape: Dims<i64> = match shape {
        Some(s) => s.0,
        None => a.0.shape().iter().map(|&d| d as i64).collect(),
    };
    wrap(a.0.as_strided(&shape, strides.as_ref().map(|s| &s.0[..]), offset.0))
}

/// The same bytes under another dtype.
///
/// The last extent changes with the size of the dtype. Raises ValueError where it does not divide.
///
/// >>> mx.view(mx.array([1.0]), mx.int32)
/// array([1065353216], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, dtype, stream = None))]
fn view(a: Opd, dtype: DtypeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.array()?.view(dtype.0))
}

/// A row-major copy where the elements are not in row-major order.
///
/// Shape and dtype: a's.
///
/// >>> mx.contiguous(mx.array([[1, 2], [3, 4]]).T)
/// array([[1, 3],
///        [2, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, allow_col_major = false, *, stream = None))]
fn contiguous(a: Arr, allow_col_major: bool, stream: Stream) -> Result1 {
    let _ = (stream, allow_col_major);
    wrap(a.0.contiguous())
}

macro_rules! atleast {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nOne array gives an array, several give a list.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (*arys, stream = None))]
        fn $f(arys: &Bound<'_, PyTuple>, stream: Stream) -> PyResult<Py<PyAny>> {
            let _ = stream;
            let py = arys.py();
            let out = arys
                .iter()
                .map(|a| Py::new(py, PyArray::new(a.extract::<Arr>()?.0.$f().or_raise()?)))
                .collect::<PyResult<Vec<_>>>()?;
            if out.len() == 1 {
                return Ok(out[0].clone_ref(py).into_any());
            }
            Ok(pyo3::types::PyList::new(py, out)?.into_any().unbind())
        }
    )* };
}
atleast! {
    atleast_1d "At least one dimension." "mx.atleast_1d(mx.array(5)).shape" "(1,)";
    atleast_2d "At least two dimensions." "mx.atleast_2d(mx.array(5)).shape" "(1, 1)";
    atleast_3d "At least three dimensions." "mx.atleast_3d(mx.array(5)).shape" "(1, 1, 1)";
}

/// Elements at indices along an axis, of the flattened array without one.
///
/// Shape: the axis is replaced by the shape of the indices. Indices count from the end when negative. An int out of
/// range raises IndexError; in an array it is clamped.
///
/// >>> mx.take(mx.array([[1, 2], [3, 4]]), mx.array([1, 0]), axis=1)
/// array([[2, 1],
///        [4, 3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis = None, *, stream = None))]
fn take(a: Arr, indices: &Bound<'_, PyAny>, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    let axis = axis.map(|a| a.0);
    if let Ok(i) = indices.cast::<PyArray>() {
        return wrap(a.0.take(&i.get().array(indices.py()), axis));
    }
    match convert::scalar(indices)? {
        Some(i) => wrap(a.0.take_at(&i, axis)),
        None => Err(type_error(format!(
            "[take] indices: expected an int or an array, got {}",
            indices.get_type()
        ))),
    }
}

/// Elements at indices along an axis, index by index.
///
/// Shapes broadcast except on the axis, whose extent is the indices'.
///
/// >>> mx.take_along_axis(mx.array([[1, 2], [3, 4]]), mx.array([[1], [0]]), axis=1)
/// array([[2],
///        [3]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, axis = Some(Int(-1)), *, stream = None))]
fn take_along_axis(a: Arr, indices: Arr, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.take_along_axis(&indices.0, axis.map(|a| a.0)))
}

/// The array with elements at indices along an axis replaced.
///
/// Indices out of range are dropped.
///
/// >>> mx.put_along_axis(mx.zeros((2, 2), mx.int32), mx.array([[1], [0]]), 9, axis=1)
/// array([[0, 9],
///        [9, 0]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, indices, values, axis = None, *, stream = None))]
fn put_along_axis(a: Arr, indices: Arr, values: Opd, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.put_along_axis(&indices.0, values.0, axis.map(|a| a.0)))
}

/// A slice of fixed size whose starts are in an array, clamped into range.
///
/// ``start_indices`` has a start for each of ``axes``.
///
/// >>> mx.slice(mx.arange(5), mx.array([1]), (0,), (3,))
/// array([1, 2, 3], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, start_indices, axes, slice_size, *, stream = None))]
fn slice(a: Arr, start_indices: Arr, axes: Ints, slice_size: ShapeArg, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.dynamic_slice(&start_indices.0, &axes.0, &slice_size.0))
}

/// The array with such a slice replaced.
///
/// ``start_indices`` has a start for each of ``axes``.
///
/// >>> mx.slice_update(mx.zeros((4,)), mx.ones((2,)), mx.array([1]), (0,))
/// array([0, 1, 1, 0], dtype=float32)
#[pyfunction]
#[pyo3(signature = (a, update, start_indices, axes, *, stream = None))]
fn slice_update(a: Arr, update: Arr, start_indices: Arr, axes: Ints, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.dynamic_slice_update(&update.0, &start_indices.0, &axes.0))
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: reshape flatten unflatten squeeze expand_dims transpose matrix_transpose swapaxes moveaxis);
    add!(m: broadcast_to broadcast_arrays broadcast_shapes flip roll as_strided view contiguous);
    add!(m: atleast_1d atleast_2d atleast_3d take take_along_axis put_along_axis slice slice_update);
    Ok(())
}

//! Joining, splitting, repeating, padding, sorting.

use super::add;
use super::creation::tuple;
use crate::array::{PyArray, wrap};
use crate::convert::{self, Arr, Arrs, Int, Ints, Opd};
use crate::device::StreamArg;
use crate::errors::{OrRaise, type_error, value_error};
use isopace_core::{Array, api};
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyTuple};

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

/// Arrays joined along an axis; flattened first without one.
///
/// Other extents agree. Dtype: the common one. Raises ValueError without arrays or for other extents, IndexError for the axis.
///
/// >>> mx.concatenate([mx.array([1, 2]), mx.array([3.5])])
/// array([1, 2, 3.5], dtype=float32)
#[pyfunction]
#[pyo3(signature = (arrays, axis = Some(Int(0)), *, stream = None))]
fn concatenate(arrays: Arrs, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    match axis {
        Some(axis) => wrap(api::concatenate(&arrays.0, axis.0)),
        None => {
            let flat = arrays.0.iter().map(|a| a.flatten(0, -1).or_raise()).collect::<PyResult<Vec<_>>>()?;
            wrap(api::concatenate(&flat, 0))
        }
    }
}

/// Arrays joined along a new axis.
///
/// Shapes agree. Dtype: the common one. Raises ValueError without arrays or for other shapes.
///
/// >>> mx.stack([mx.array([1, 2]), mx.array([3, 4])], axis=1)
/// array([[1, 3],
///        [2, 4]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (arrays, axis = Some(Int(0)), *, stream = None))]
fn stack(arrays: Arrs, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    match axis {
        Some(axis) => wrap(api::stack(&arrays.0, axis.0)),
        None => {
            let flat = arrays.0.iter().map(|a| a.flatten(0, -1).or_raise()).collect::<PyResult<Vec<_>>>()?;
            wrap(api::stack(&flat, 0))
        }
    }
}

/// Parts along an axis: a number of equal ones, or cut at indices.
///
/// Indices are clipped as in slices. Raises ValueError when equal parts do not come out even.
///
/// >>> mx.split(mx.arange(6), 3)
/// [array([0, 1], dtype=int32), array([2, 3], dtype=int32), array([4, 5], dtype=int32)]
/// >>> mx.split(mx.arange(6), [1, 4])
/// [array([0], dtype=int32), array([1, 2, 3], dtype=int32), array([4, 5], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (a, /, indices_or_sections, axis = Int(0), *, stream = None))]
fn split(
    a: Arr,
    indices_or_sections: &Bound<'_, PyAny>,
    axis: Int,
    stream: Stream,
) -> PyResult<Vec<PyArray>> {
    let _ = stream;
    super::split_parts(&a.0, indices_or_sections, axis.0)
}

/// The slices along an axis, which is dropped.
///
/// A tuple.
///
/// >>> mx.unstack(mx.array([[1, 2], [3, 4]]))
/// (array([1, 2], dtype=int32), array([3, 4], dtype=int32))
#[pyfunction]
#[pyo3(signature = (x, /, *, axis = Int(0), stream = None))]
fn unstack<'py>(py: Python<'py>, x: Arr, axis: Int, stream: Stream) -> PyResult<Bound<'py, PyTuple>> {
    let _ = stream;
    tuple(py, x.0.unstack(axis.0).or_raise()?)
}

/// Every element repeated.
///
/// Works on the flattened array without an axis. Raises ValueError for a negative count.
///
/// >>> mx.repeat(mx.array([1, 2]), 2)
/// array([1, 1, 2, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (array, repeats, axis = None, *, stream = None))]
fn repeat(array: Arr, repeats: Int, axis: Option<Int>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(array.0.repeat(repeats.0, axis.map(|a| a.0)))
}

/// The whole array repeated along axes.
///
/// >>> mx.tile(mx.array([1, 2]), (2, 2))
/// array([[1, 2, 1, 2],
///        [1, 2, 1, 2]], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, reps, /, *, stream = None))]
fn tile(a: Arr, reps: Ints, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.tile(&reps.0))
}

fn widths(a: &Array, x: &Bound<'_, PyAny>) -> PyResult<Vec<(i64, i64)>> {
    let n = a.ndim().max(1);
    if x.is_instance_of::<PyInt>() {
        let w = convert::int(x)?;
        return Ok(vec![(w, w); n]);
    }
    let items = x.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    if items.iter().all(|i| i.is_instance_of::<PyInt>()) {
        return match &items[..] {
            [w] => Ok(vec![(convert::int(w)?, convert::int(w)?); n]),
            [lo, hi] => Ok(vec![(convert::int(lo)?, convert::int(hi)?); n]),
            _ => Err(value_error(format!(
                "[pad] {} widths; accepted: one, two, or a pair for each axis",
                items.len()
            ))),
        };
    }
    let pairs = items
        .iter()
        .map(|i| match convert::ints(i)?[..] {
            [w] => Ok((w, w)),
            [lo, hi] => Ok((lo, hi)),
            _ => Err(value_error("[pad] a pair of widths for each axis is needed")),
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(if pairs.len() == 1 { vec![pairs[0]; n] } else { pairs })
}

/// Elements added before and after each axis: of one value, or the outermost ones repeated or mirrored.
///
/// >>> mx.pad(mx.array([1, 2]), (1, 2), constant_values=9)
/// array([9, 1, 2, 9, 9], dtype=int32)
/// >>> mx.pad(mx.array([1, 2]), 2, mode="edge")
/// array([1, 1, 1, 2, 2, 2], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, pad_width, mode = "constant", constant_values = None, *, stream = None))]
fn pad(
    a: Opd,
    pad_width: &Bound<'_, PyAny>,
    mode: &str,
    constant_values: Option<Opd>,
    stream: Stream,
) -> Result1 {
    let _ = stream;
    let a = a.array()?;
    let w = widths(&a, pad_width)?;
    match mode {
        "constant" => match constant_values {
            Some(v) => wrap(a.pad(&w, v.0)),
            None => wrap(a.pad(&w, 0)),
        },
        "edge" => wrap(a.pad_edge(&w)),
        "reflect" | "symmetric" => mirror(a, &w, mode == "symmetric").map(PyArray::new),
        other => Err(value_error(format!(
            "[pad] mode {other:?}; accepted: \"constant\", \"edge\", \"reflect\", \"symmetric\""
        ))),
    }
}

/// Padding by mirrored elements, the outermost one repeated or not.
fn mirror(mut a: Array, widths: &[(i64, i64)], edge: bool) -> PyResult<Array> {
    for (axis, &(lo, hi)) in widths.iter().enumerate() {
        if lo < 0 || hi < 0 {
            return Err(value_error(format!("[pad] widths {widths:?}; accepted: 0 and more")));
        }
        if lo + hi == 0 {
            continue;
        }
        let n = a.dim(axis as i64).or_raise()? as i64;
        let period = if edge { 2 * n } else { (2 * n - 2).max(1) };
        if n == 0 {
            return Err(value_error("[pad] an axis without elements cannot be mirrored"));
        }
        let index: Vec<i32> = (-lo..n + hi)
            .map(|i| {
                let m = i.rem_euclid(period);
                let last = if edge { 2 * n - 1 } else { 2 * n - 2 };
                (if m < n { m } else { last - m }) as i32
            })
            .collect();
        let index = Array::from_slice(&index, [index.len()]).or_raise()?;
        a = a.take(&index, Some(axis as i64)).or_raise()?;
    }
    Ok(a)
}

macro_rules! sorts {
    ($($f:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nRaises IndexError for an axis out of range and for a 0-d array.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, /, axis = Some(Int(-1)), *, stream = None))]
        fn $f(a: Arr, axis: Option<Int>, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(a.0.$f(axis.map(|a| a.0)))
        }
    )* };
}
sorts! {
    sort "Elements in ascending order along an axis, NaN last; flattened without one." "mx.sort(mx.array([3, 1, 2]))" "array([1, 2, 3], dtype=int32)";
    argsort "Indices of the stable ascending order along an axis." "mx.argsort(mx.array([3, 1, 2]))" "array([1, 2, 0], dtype=uint32)";
}

macro_rules! partitions {
    ($($f:ident $k:ident $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\nWorks on the flattened array with axis=None. Raises ValueError for a number out of range.\n\n>>> ", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(signature = (a, /, $k, axis = Some(Int(-1)), *, stream = None))]
        fn $f(a: Arr, $k: Int, axis: Option<Int>, stream: Stream) -> Result1 {
            let _ = stream;
            wrap(a.0.$f($k.0, axis.map(|a| a.0)))
        }
    )* };
}
partitions! {
    partition kth "Elements with the kth in its place, smaller ones before it." "mx.partition(mx.array([3, 1, 2]), 1)[1]" "array(2, dtype=int32)";
    argpartition kth "Indices of such an order." "mx.argpartition(mx.array([3, 1, 2]), 1)[1]" "array(2, dtype=uint32)";
    topk k "The k largest along an axis." "mx.sort(mx.topk(mx.array([3, 1, 2]), 2))" "array([2, 3], dtype=int32)";
}

/// Insertion points into a sorted array.
///
/// Shape: that of the values. Dtype: uint32. Raises ValueError unless the sequence has one axis.
///
/// >>> mx.searchsorted(mx.array([1, 3, 5]), mx.array([3, 4]))
/// array([1, 2], dtype=uint32)
#[pyfunction]
#[pyo3(signature = (sorted_sequence, values, /, side = "left", *, stream = None))]
fn searchsorted(sorted_sequence: Arr, values: Opd, side: &str, stream: Stream) -> Result1 {
    let _ = stream;
    if side != "left" && side != "right" {
        return Err(value_error(format!("[searchsorted] side {side:?}; accepted: \"left\", \"right\"")));
    }
    wrap(sorted_sequence.0.searchsorted(&values.array()?, side == "right"))
}

/// Differences of neighbours, `n` times.
///
/// Raises ValueError for a negative n.
///
/// >>> mx.diff(mx.array([1, 4, 9]))
/// array([3, 5], dtype=int32)
#[pyfunction]
#[pyo3(signature = (a, /, n = Int(1), axis = Int(-1), *, stream = None))]
fn diff(a: Arr, n: Int, axis: Int, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.diff(n.0, axis.0))
}

/// The smallest distinct elements of the flattened array, `size` of them; a fill value follows where there are
/// fewer. On request also where each stands first, the place of each element among them, and how often each occurs.
///
/// >>> mx.unique(mx.array([3, 1, 3]), 2, return_counts=True)
/// (array([1, 3], dtype=int32), array([1, 2], dtype=int32))
#[pyfunction]
#[pyo3(signature = (
    a, /, size, return_index = false, return_inverse = false, return_counts = false, fill_value = None, *,
    stream = None
))]
fn unique(
    py: Python<'_>,
    a: Arr,
    size: Int,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    fill_value: Option<Opd>,
    stream: Stream,
) -> PyResult<Py<PyAny>> {
    let _ = stream;
    let u = a.0.unique(size.0, fill_value.map(|f| f.0)).or_raise()?;
    let mut out = vec![u.values];
    for (wanted, x) in [(return_index, u.index), (return_inverse, u.inverse), (return_counts, u.counts)] {
        if wanted {
            out.push(x);
        }
    }
    if out.len() == 1 {
        return Ok(Py::new(py, PyArray::new(out.remove(0)))?.into_any());
    }
    Ok(tuple(py, out)?.into_any().unbind())
}

/// The inputs, computed after the dependencies.
///
/// Raises TypeError for what is no array or list of arrays.
///
/// >>> mx.depends(mx.array([1]), mx.array([2]))
/// array([1], dtype=int32)
#[pyfunction]
fn depends(inputs: &Bound<'_, PyAny>, dependencies: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let mut list = Vec::new();
    crate::eval::arrays(dependencies, &mut list, 0)?;
    if inputs.cast::<PyArray>().is_err() && !inputs.is_instance_of::<pyo3::types::PyList>() {
        return Err(type_error("[depends] inputs: expected an array or a list of arrays"));
    }
    Ok(inputs.clone().unbind())
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: concatenate stack split unstack repeat tile pad sort argsort partition argpartition topk);
    add!(m: searchsorted diff depends unique);
    Ok(())
}

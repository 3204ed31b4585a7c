//! Sorting and searching: ascending, stable, NaN last.

use super::reduce::complex_order;
use super::tensor::{Data, Tensor};
use crate::aval::Aval;
use crate::op::sort::float_order;
use crate::{Result, bail};
use std::cmp::Ordering;

/// The order of element `i` of one tensor and element `j` of another of the same kind.
fn order(a: &Data, i: usize, b: &Data, j: usize) -> Ordering {
    match (a, b) {
        (Data::Int(a), Data::Int(b)) => a[i].cmp(&b[j]),
        (Data::Float(a), Data::Float(b)) => float_order(a[i], b[j]),
        (Data::Complex(a), Data::Complex(b)) => complex_order(&a[i], &b[j]),
        _ => Ordering::Equal,
    }
}

/// For each line along the axis (moved last), the places of its elements in ascending order.
fn places(x: &Tensor, axis: usize) -> (Tensor, usize, Vec<usize>) {
    let (t, len) = x.lines(&[axis]);
    let mut places: Vec<usize> = (0..t.elems()).collect();
    for line in places.chunks_mut(len.max(1)) {
        line.sort_by(|&i, &j| order(&t.data, i, &t.data, j));
    }
    (t, len, places)
}

pub(super) fn sort(axis: usize, x: &Tensor) -> Tensor {
    let (t, _, places) = places(x, axis);
    let sorted = Tensor { data: t.data.pick(places.into_iter()), ..t };
    sorted.last_to(axis)
}

pub(super) fn arg_sort(axis: usize, x: &Tensor, out: &Aval) -> Tensor {
    let (t, len, places) = places(x, axis);
    let numbers = places.into_iter().map(|i| (i % len) as i128).collect();
    Tensor::of(t.shape, out.dtype, Data::Int(numbers)).last_to(axis)
}

/// How many elements of a sorted line are below each value (with `right`: not above it). The line is
/// the whole of a 1-D array; with more axes, the leading ones broadcast to those of the values.
pub(super) fn search_sorted(right: bool, sorted: &Tensor, values: &Tensor, out: &Aval) -> Result<Tensor> {
    let Some((&len, batch)) = sorted.shape.split_last() else {
        bail!(Shape, "[searchsorted] the sorted array needs an axis");
    };
    if std::mem::discriminant(&sorted.data) != std::mem::discriminant(&values.data) {
        bail!(Dtype, "[searchsorted] {} and {} do not agree", sorted.dtype, values.dtype);
    }
    let lines: Vec<usize> = if batch.is_empty() {
        vec![0; values.elems()]
    } else {
        let mut whole = batch.to_vec();
        whole.push(1);
        crate::Layout::contiguous(whole.into()).broadcast_to(&values.shape).offsets().collect()
    };
    let found = lines.iter().enumerate().map(|(i, line)| {
        let before = |&j: &usize| {
            let o = order(&sorted.data, line * len + j, &values.data, i);
            o.is_lt() || (right && o.is_eq())
        };
        (0..len).collect::<Vec<_>>().partition_point(before) as i128
    });
    Ok(Tensor::new(out, Data::Int(found.collect())))
}

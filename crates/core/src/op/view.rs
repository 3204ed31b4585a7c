//! Views: how each layout op maps a layout, shared by every backend and the reference.

use super::Op;
use crate::aval::Aval;
use crate::layout::Layout;
use crate::number::Number;
use crate::{Dtype, Result, bail, err};
use smallvec::SmallVec;

/// The layout of a view op's result over the same buffer, or `None` when the elements must be copied.
///
/// # Errors
/// `Axis` when run-time starts leave the array.
pub fn view(op: &Op, from: &Layout, dtype: Dtype, out: &Aval, cells: &[Number]) -> Result<Option<Layout>> {
    Ok(match op {
        Op::Reshape => from.reshape(&out.shape),
        Op::Transpose(perm) => {
            let perm: SmallVec<[usize; 4]> = perm.iter().map(|&p| p as usize).collect();
            Some(from.transpose(&perm))
        }
        Op::Broadcast => Some(from.broadcast_to(&out.shape)),
        Op::Slice(steps) => {
            let starts = slice_starts(from, steps, &out.shape, cells)?;
            let steps: SmallVec<[isize; 4]> = steps.iter().map(|&s| s as isize).collect();
            Some(from.slice(&starts, &steps, &out.shape))
        }
        Op::SliceValid(_) => Some(from.clone()),
        Op::Bitcast => bitcast(from, dtype, out),
        Op::AsStrided(strides, offset) => from.is_contiguous().then(|| Layout {
            shape: out.shape.clone(),
            strides: strides.iter().map(|&s| s as isize).collect(),
            offset: (from.offset as i64 + offset) as usize,
        }),
        Op::Contiguous => from.is_contiguous().then(|| from.clone()),
        _ => bail!(Internal, "[{}] is not a view", op.name()),
    })
}

/// Checks the run-time starts of a slice of fixed size against the extents.
///
/// # Errors
/// `Axis` naming the axis, both ends and the extent.
pub fn slice_starts(
    from: &Layout,
    steps: &[i64],
    sizes: &[usize],
    cells: &[Number],
) -> Result<SmallVec<[usize; 4]>> {
    let mut starts = SmallVec::new();
    for (i, (&step, &size)) in steps.iter().zip(sizes).enumerate() {
        let start = cells
            .get(i)
            .and_then(|n| n.as_int())
            .ok_or_else(|| err!(Internal, "[slice] start {i} is missing"))?;
        let dim = from.shape[i] as i64;
        let last =
            if size == 0 { start } else { start.saturating_add((size as i64 - 1).saturating_mul(step)) };
        let bad = if size == 0 {
            start < 0 || start > dim
        } else {
            start < 0 || last < 0 || start >= dim || last >= dim
        };
        if bad {
            bail!(Axis, "[slice] axis {i}: elements {start} to {last} are outside 0..{dim}");
        }
        starts.push(start as usize);
    }
    Ok(starts)
}

fn bitcast(from: &Layout, dtype: Dtype, out: &Aval) -> Option<Layout> {
    let (a, b) = (dtype.size(), out.dtype.size());
    if a == b {
        return Some(from.clone());
    }
    if !from.is_contiguous() || !(from.offset * a).is_multiple_of(b) {
        return None;
    }
    let mut l = Layout::contiguous(out.shape.clone());
    l.offset = from.offset * a / b;
    Some(l)
}

//! Layouts: where the elements of an array stand in its buffer.

use crate::shape::{Dims, Shape};

/// A strided view: shape, strides and offset, all in elements. Strides may be zero (broadcast) or
/// negative (reversed); every address they reach lies inside the buffer (upheld by the op rules,
/// which check indices when a node is built or a plan is bound).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    pub shape: Shape,
    pub strides: Dims<isize>,
    pub offset: usize,
}

impl Clone for Layout {
    /// By memcpy, which the derived form does not reach.
    #[inline]
    fn clone(&self) -> Layout {
        Layout { shape: self.shape.clone(), strides: Dims::from_slice(&self.strides), offset: self.offset }
    }
}

impl Layout {
    /// Row-major layout of `shape` at offset 0.
    pub fn contiguous(shape: Shape) -> Layout {
        let mut strides: Dims<isize> = smallvec::smallvec![0; shape.len()];
        let mut step = 1isize;
        for i in (0..shape.len()).rev() {
            strides[i] = step;
            step *= shape[i].max(1) as isize;
        }
        Layout { shape, strides, offset: 0 }
    }

    /// Number of elements.
    pub fn elems(&self) -> usize {
        self.shape.elems()
    }

    /// True when the elements stand in row-major order without gaps (from `offset` on).
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1isize;
        for i in (0..self.shape.len()).rev() {
            let d = self.shape[i];
            if d == 0 {
                return true;
            }
            if d != 1 {
                if self.strides[i] != step {
                    return false;
                }
                step *= d as isize;
            }
        }
        true
    }

    /// The same elements with axes in another order; `perm[i]` is the source of axis `i`.
    pub fn transpose(&self, perm: &[usize]) -> Layout {
        Layout {
            shape: perm.iter().map(|&p| self.shape[p]).collect(),
            strides: perm.iter().map(|&p| self.strides[p]).collect(),
            offset: self.offset,
        }
    }

    /// Repeats axes of extent 1 and adds leading ones, with stride 0. The shapes must broadcast.
    pub fn broadcast_to(&self, shape: &Shape) -> Layout {
        let lead = shape.len() - self.shape.len();
        let strides = (0..shape.len())
            .map(|i| {
                if i < lead || (self.shape[i - lead] == 1 && shape[i] != 1) {
                    0
                } else {
                    self.strides[i - lead]
                }
            })
            .collect();
        Layout { shape: shape.clone(), strides, offset: self.offset }
    }

    /// Takes `sizes[i]` elements from `starts[i]` on in steps of `steps[i]` (negative ones walk back).
    pub fn slice(&self, starts: &[usize], steps: &[isize], sizes: &[usize]) -> Layout {
        let mut out = self.clone();
        let mut offset = self.offset as isize;
        for i in 0..self.shape.len() {
            if sizes[i] > 0 {
                offset += starts[i] as isize * self.strides[i];
            }
            out.strides[i] = self.strides[i] * steps[i];
        }
        out.shape = sizes.into();
        if out.elems() > 0 {
            out.offset = offset as usize;
        }
        out
    }

    /// A view with another shape of as many elements, or `None` when the elements would have to move.
    pub fn reshape(&self, shape: &Shape) -> Option<Layout> {
        if self.elems() == 0 || self.is_contiguous() {
            let mut out = Layout::contiguous(shape.clone());
            out.offset = self.offset;
            return Some(out);
        }
        // Merge old axes into runs of constant step, then cut the runs into the new axes.
        let mut runs: Dims<(usize, isize)> = Dims::new();
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            if d == 1 {
                continue;
            }
            match runs.last_mut() {
                Some((n, step)) if *step == s * d as isize => {
                    *n *= d;
                    *step = s;
                }
                _ => runs.push((d, s)),
            }
        }
        let mut strides: Dims<isize> = smallvec::smallvec![0; shape.len()];
        let mut i = shape.len();
        for &(n, step) in runs.iter().rev() {
            let (mut left, mut s) = (n, step);
            while left > 1 {
                i = i.checked_sub(1)?;
                if left % shape[i] != 0 {
                    return None;
                }
                strides[i] = s;
                s *= shape[i] as isize;
                left /= shape[i];
            }
        }
        Some(Layout { shape: shape.clone(), strides, offset: self.offset })
    }

    /// The smallest and one past the largest element offset that the layout reaches.
    pub fn extent(&self) -> (usize, usize) {
        if self.elems() == 0 {
            return (self.offset, self.offset);
        }
        let (mut lo, mut hi) = (self.offset as isize, self.offset as isize);
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            let reach = (d as isize - 1) * s;
            if s < 0 { lo += reach } else { hi += reach }
        }
        (lo as usize, hi as usize + 1)
    }

    /// Offsets of all elements in row-major order.
    pub fn offsets(&self) -> Offsets<'_> {
        Offsets {
            layout: self,
            index: smallvec::smallvec![0; self.shape.len()],
            at: self.offset as isize,
            left: self.elems(),
        }
    }
}

/// Iterator over element offsets, see [`Layout::offsets`].
#[derive(Debug)]
pub struct Offsets<'a> {
    layout: &'a Layout,
    index: Dims<usize>,
    at: isize,
    left: usize,
}

impl Iterator for Offsets<'_> {
    type Item = usize;
    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let here = self.at as usize;
        for i in (0..self.index.len()).rev() {
            self.index[i] += 1;
            self.at += self.layout.strides[i];
            if self.index[i] < self.layout.shape[i] {
                break;
            }
            self.at -= self.layout.strides[i] * self.layout.shape[i] as isize;
            self.index[i] = 0;
        }
        Some(here)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Offsets<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reshape_is_a_view_where_it_can_be() {
        let l = Layout::contiguous([2, 3, 4].into());
        let t = l.transpose(&[1, 0, 2]);
        assert_eq!(t.reshape(&[6, 4].into()), None);
        let split = t.reshape(&[3, 2, 2, 2].into()).unwrap();
        assert_eq!(split.offsets().collect::<Vec<_>>(), t.offsets().collect::<Vec<_>>());
        let b = Layout::contiguous([1, 4].into()).broadcast_to(&[3, 4].into());
        assert_eq!(b.reshape(&[12].into()), None);
        assert_eq!(b.reshape(&[3, 2, 2].into()).unwrap().strides.as_slice(), [0, 2, 1]);
    }

    #[test]
    fn slices_walk_back() {
        let l = Layout::contiguous([5].into()).slice(&[4], &[-2], &[3]);
        assert_eq!(l.offsets().collect::<Vec<_>>(), [4, 2, 0]);
        assert_eq!(l.extent(), (0, 5));
    }
}

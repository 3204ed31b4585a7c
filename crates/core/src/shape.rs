//! Shapes: the extents of an array, and how two of them broadcast.

use crate::{Result, bail};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

/// The extents of an array, outermost first. A scalar has none.
#[derive(Eq, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl PartialEq for Shape {
    /// By a loop: most shapes are too short for memcmp to pay.
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }
}

impl Hash for Shape {
    /// By words: a hasher takes a slice as bytes, which costs a call.
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_usize(self.0.len());
        self.0.iter().for_each(|&extent| h.write_usize(extent));
    }
}

impl Clone for Shape {
    /// By memcpy, which the derived form does not reach.
    #[inline]
    fn clone(&self) -> Shape {
        Shape(SmallVec::from_slice(&self.0))
    }
}

/// Up to a handful of axes or strides without allocation.
pub type Dims<T> = SmallVec<[T; 4]>;

/// The most elements an array may have: keeps every byte offset inside `isize`.
const MAX_ELEMS: usize = isize::MAX as usize / 16;

/// The most axes an array may have; ops hold an axis in a byte.
const MAX_NDIM: usize = 64;

impl Shape {
    /// The shape of a 0-d array.
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// Number of elements. Shapes made by [`Shape::checked`] never overflow.
    pub fn elems(&self) -> usize {
        self.0.iter().product()
    }

    /// Checks that the element count fits in memory arithmetic.
    ///
    /// # Errors
    /// `Shape` when the product of the extents is too large, or for more than 64 axes.
    #[inline]
    pub fn checked(self, place: &str) -> Result<Self> {
        // An extent of 0 does not excuse the others.
        let n = self.0.iter().try_fold(1usize, |n, &d| n.checked_mul(d.max(1)));
        if self.len() <= MAX_NDIM && n.is_some_and(|n| n <= MAX_ELEMS) {
            Ok(self)
        } else {
            self.refuse(place)
        }
    }

    #[cold]
    fn refuse(self, place: &str) -> Result<Self> {
        if self.len() > MAX_NDIM {
            bail!(Shape, "[{place}] {} dimensions; accepted: at most {MAX_NDIM}", self.len());
        }
        bail!(Shape, "[{place}] shape {self:?} has too many elements")
    }

    pub fn push(&mut self, dim: usize) {
        self.0.push(dim);
    }

    pub fn insert(&mut self, at: usize, dim: usize) {
        self.0.insert(at, dim);
    }

    pub fn remove(&mut self, at: usize) -> usize {
        self.0.remove(at)
    }

    pub fn as_mut(&mut self) -> &mut [usize] {
        &mut self.0
    }

    /// The shape two operands broadcast to, by NumPy's rule.
    ///
    /// # Errors
    /// `Shape` naming both when an axis differs and neither extent is 1.
    pub fn broadcast(&self, other: &Shape, place: &str) -> Result<Shape> {
        if self == other {
            return Ok(self.clone());
        }
        let (long, short) = if self.len() >= other.len() { (self, other) } else { (other, self) };
        let mut out = long.clone();
        let lead = long.len() - short.len();
        for (i, &d) in short.iter().enumerate() {
            let o = &mut out.0[lead + i];
            if *o == 1 {
                *o = d;
            } else if d != 1 && d != *o {
                bail!(
                    Shape,
                    "[{place}] shapes {self:?} and {other:?} do not broadcast: axis {} is {} against {d}",
                    lead + i,
                    *o
                );
            }
        }
        Ok(out)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Shape(SmallVec::from_slice(dims))
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Shape(SmallVec::from_vec(dims))
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Shape(SmallVec::from_slice(&dims))
    }
}

impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(dims: &[usize; N]) -> Self {
        Shape(SmallVec::from_slice(dims))
    }
}

impl From<&Shape> for Shape {
    fn from(s: &Shape) -> Self {
        s.clone()
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        Shape(iter.into_iter().collect())
    }
}

impl fmt::Debug for Shape {
    /// As Python writes a tuple: `(2, 3)`, `(2,)`, `()`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Turns an axis that may count from the end into one that counts from the start.
///
/// # Errors
/// `Axis` when it is outside `-ndim .. ndim`.
pub fn axis(axis: i64, ndim: usize, place: &str) -> Result<usize> {
    let a = if axis < 0 { axis.saturating_add(ndim as i64) } else { axis };
    if a < 0 || a >= ndim as i64 {
        bail!(
            Axis,
            "[{place}] axis {axis} is out of range for {ndim} dimensions; accepted: {}..={}",
            -(ndim as i64),
            ndim as i64 - 1
        );
    }
    Ok(a as usize)
}

/// Turns several axes into sorted ones without repeats; all axes when `None`.
///
/// # Errors
/// `Axis` when one is out of range, `Argument` when one is given twice.
pub fn axes(axes: Option<&[i64]>, ndim: usize, place: &str) -> Result<Dims<usize>> {
    let Some(list) = axes else { return Ok((0..ndim).collect()) };
    let mut out = list.iter().map(|&a| axis(a, ndim, place)).collect::<Result<Dims<usize>>>()?;
    out.sort_unstable();
    if out.windows(2).any(|w| w[0] == w[1]) {
        bail!(Argument, "[{place}] axes {list:?} name one axis twice");
    }
    Ok(out)
}

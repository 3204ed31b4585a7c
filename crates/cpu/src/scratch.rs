//! Elements that a kernel reads where they stand, or has copied for itself.
//!
//! What a kernel needs beside its results, and grows with its operands, is taken like any buffer: it counts
//! as memory in use, and where there is none it is an error, not the end of the process.

use crate::buffer::CpuBuffer;
use bytemuck::Pod;
use isopace_core::Result;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Elements of a kernel's own.
pub struct Scratch<T> {
    buffer: CpuBuffer,
    elems: PhantomData<T>,
}

impl<T: Pod> Scratch<T> {
    /// Room for `n` elements, which are arbitrary.
    ///
    /// # Errors
    /// `OutOfMemory`, as [`CpuBuffer::new`].
    pub fn new(n: usize) -> Result<Scratch<T>> {
        let mut buffer = CpuBuffer::new(n.saturating_mul(size_of::<T>()))?;
        // What dereferencing relies on.
        buffer.slice_mut::<T>()?;
        Ok(Scratch { buffer, elems: PhantomData })
    }

    /// What `f` makes of each element.
    ///
    /// # Errors
    /// As [`Scratch::new`].
    pub fn map<S: Copy>(from: &[S], f: impl Fn(S) -> T) -> Result<Scratch<T>> {
        let mut s = Scratch::new(from.len())?;
        s.iter_mut().zip(from).for_each(|(to, &x)| *to = f(x));
        Ok(s)
    }
}

impl<T: Pod> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.buffer.slice().expect("an owned block is aligned for every element")
    }
}

impl<T: Pod> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.buffer.slice_mut().expect("an owned block is aligned for every element")
    }
}

/// Elements in row-major order.
pub enum Elems<'a, T> {
    /// Where they stand.
    Lent(&'a [T]),
    /// Copied.
    Own(Scratch<T>),
}

impl<T: Pod> Deref for Elems<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Elems::Lent(x) => x,
            Elems::Own(x) => x,
        }
    }
}

impl<'a, T> From<&'a [T]> for Elems<'a, T> {
    fn from(x: &'a [T]) -> Self {
        Elems::Lent(x)
    }
}

impl<T: Pod> From<Scratch<T>> for Elems<'_, T> {
    fn from(x: Scratch<T>) -> Self {
        Elems::Own(x)
    }
}

impl<T: Pod> fmt::Debug for Elems<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if matches!(self, Elems::Own(_)) { "copied" } else { "lent" };
        write!(f, "{} elements, {kind}", self.len())
    }
}

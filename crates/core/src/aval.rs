//! Abstract values: what is known of an array before it is computed.

use crate::{Dtype, shape::Shape};
use std::fmt;

/// Shape and dtype of an array, and along which axis, if any, only a leading part of the buffer is
/// valid (the result of a slice whose size is a symbolic scalar; only attention consumes it).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Aval {
    pub shape: Shape,
    pub dtype: Dtype,
    pub valid: Option<u8>,
}

impl Aval {
    pub fn new(shape: impl Into<Shape>, dtype: Dtype) -> Aval {
        Aval { shape: shape.into(), dtype, valid: None }
    }

    /// Bytes of a contiguous buffer for it.
    pub fn nbytes(&self) -> usize {
        self.shape.elems() * self.dtype.size()
    }
}

impl fmt::Debug for Aval {
    /// `float32(2, 3)`, `int32()`; `float16(1, 8, n<=4096, 64)` with a valid length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.valid {
            None => write!(f, "{}{:?}", self.dtype, self.shape),
            Some(axis) => {
                write!(f, "{}(", self.dtype)?;
                for (i, d) in self.shape.iter().enumerate() {
                    let mark = if i == axis as usize { "n<=" } else { "" };
                    write!(f, "{}{mark}{d}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}

//! NumPy's npy files, and npz archives of them.
//!
//! ```
//! use isopace::{Dtype, io::npy::{Npy, write_npy}};
//! let mut file = Vec::new();
//! write_npy(&mut file, Dtype::F32, &[2], &[0, 0, 128, 63, 0, 0, 0, 64])?;
//! let npy = Npy::parse(&file, "x.npy")?;
//! assert_eq!((npy.dtype, npy.shape.as_slice()), (Dtype::F32, [2].as_slice()));
//! assert_eq!(&*npy.row_major(&file), &[0, 0, 128, 63, 0, 0, 0, 64]);
//! # Ok::<(), isopace::Error>(())
//! ```

mod header;
mod npz;

pub use npz::{Npz, write_npz};

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;

use isopace_core::{Dtype, Result, bail, err};

use super::{commas, shown};

/// An npy file: what its array is and where its bytes are.
#[derive(Clone, Debug, PartialEq)]
pub struct Npy {
    /// The array's dtype. bfloat16, which NumPy does not have, stands in files as `<V2`.
    pub dtype: Dtype,
    /// The array's shape.
    pub shape: Vec<usize>,
    /// True when the first axis varies fastest.
    pub fortran: bool,
    /// True when each value's most significant byte comes first.
    pub big_endian: bool,
    /// The array's bytes in the file.
    pub range: Range<usize>,
}

impl Npy {
    /// Reads the header of a file whose whole contents are `bytes`; `name` stands in errors.
    ///
    /// # Errors
    /// `Format` for anything that does not follow the format or points outside the file,
    /// `Unsupported` for an element type that isopace does not have.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Npy> {
        let file = shown(name);
        let bad = |why: String| err!(Format, "[npy] {file}: {why}");
        if !bytes.starts_with(b"\x93NUMPY") {
            return Err(bad("not an npy file: it does not start with \\x93NUMPY".into()));
        }
        let short =
            || bad(format!("the file ends at byte {}, inside the header", commas(bytes.len() as u64)));
        let version = *bytes.get(6).ok_or_else(short)?;
        let rest = bytes.get(8..).ok_or_else(short)?;
        let (len, at) = match version {
            1 => {
                let (n, _) = rest.split_first_chunk::<2>().ok_or_else(short)?;
                (u16::from_le_bytes(*n) as usize, 10)
            }
            2 | 3 => {
                let (n, _) = rest.split_first_chunk::<4>().ok_or_else(short)?;
                (u32::from_le_bytes(*n) as usize, 12)
            }
            v => return Err(bad(format!("version {v} is not supported; versions 1 to 3 are"))),
        };
        let text = bytes.get(at..).and_then(|b| b.get(..len)).ok_or_else(short)?;
        let text = std::str::from_utf8(text).map_err(|_| bad("the header is not valid text".into()))?;
        let header = header::parse(text).map_err(|why| bad(format!("the header is broken: {why}")))?;
        let (dtype, big_endian) = header::dtype(&header.descr).ok_or_else(|| {
            let descr = shown(&header.descr);
            err!(Unsupported, "[npy] {file}: element type '{descr}' is not supported; {}", header::SUPPORTED)
        })?;
        let want = byte_len(dtype, &header.shape)
            .ok_or_else(|| bad(format!("shape {:?} has more values than can be addressed", header.shape)))?;
        let start = at + len;
        if want > bytes.len() - start {
            return Err(bad(format!(
                "data ends at byte {}, past the end of the file ({})",
                commas(start as u128 + want as u128),
                commas(bytes.len() as u64)
            )));
        }
        Ok(Npy {
            dtype,
            shape: header.shape,
            fortran: header.fortran,
            big_endian,
            range: start..start + want,
        })
    }

    /// The array's bytes in row-major order, little-endian; `file` is what was parsed. Copies only
    /// where the file has another order.
    pub fn row_major<'a>(&self, file: &'a [u8]) -> Cow<'a, [u8]> {
        let bytes = &file[self.range.clone()];
        let size = self.dtype.size();
        let turn = self.fortran && self.shape.iter().filter(|d| **d > 1).count() > 1;
        let swap = self.big_endian && size > 1;
        if bytes.is_empty() || !(turn || swap) {
            return Cow::Borrowed(bytes);
        }
        let mut out = if turn { from_fortran(bytes, &self.shape, size) } else { bytes.to_vec() };
        if swap {
            // A complex value is two numbers, each with its own byte order.
            let unit = if self.dtype == Dtype::C64 { 4 } else { size };
            out.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        Cow::Owned(out)
    }
}

fn from_fortran(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut strides = Vec::with_capacity(shape.len());
    let mut step = size;
    for d in shape {
        strides.push(step);
        step *= d;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    let mut at = 0;
    while out.len() < bytes.len() {
        out.extend_from_slice(&bytes[at..at + size]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis];
            index[axis] = 0;
        }
    }
    out
}

fn byte_len(dtype: Dtype, shape: &[usize]) -> Option<usize> {
    let all = shape.iter().filter(|d| **d != 0).try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let bytes = all.checked_mul(dtype.size()).filter(|n| *n <= isize::MAX as usize)?;
    Some(if shape.contains(&0) { 0 } else { bytes })
}

/// Writes an npy file (version 1) of an array in row-major order, little-endian.
///
/// # Errors
/// `Argument` when the data does not fit the shape or the shape has too many axes for the header,
/// `Io` when `out` fails.
pub fn write_npy(out: &mut impl Write, dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<()> {
    if byte_len(dtype, shape) != Some(data.len()) {
        bail!(Argument, "[save] {} bytes of data do not fit shape {shape:?} of {dtype}", data.len());
    }
    let head = header::write(dtype, shape)?;
    let io = |e: std::io::Error| err!(Io, "[save] cannot write: {e}");
    out.write_all(&head).map_err(io)?;
    out.write_all(data).map_err(io)
}

#[cfg(test)]
mod tests;

//! Files mapped into memory, whose parts are arrays without a copy.

use isopace_core::backend::{Buffer, Value};
use isopace_core::{Array, Aval, Dtype, Layout, Result, Shape, bail};
use isopace_cpu::buffer::{self, CpuBuffer};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A file mapped for reading. One that is truncated meanwhile kills the process at the next read.
#[derive(Clone, Debug)]
pub struct MappedFile(buffer::MappedFile);

impl MappedFile {
    /// Maps a whole file.
    ///
    /// # Errors
    /// `Io` naming the file.
    pub fn open(path: &Path) -> Result<MappedFile> {
        buffer::MappedFile::open(path).map(MappedFile)
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Part of the file as an array, copied only where the bytes are not aligned for the dtype.
    ///
    /// # Errors
    /// `Shape` when the range has another size than the shape; `Format` past the end of the file.
    pub fn array(&self, range: Range<usize>, shape: impl Into<Shape>, dtype: Dtype) -> Result<Array> {
        let aval = Aval::new(shape.into().checked("mapped file")?, dtype);
        if aval.nbytes() != range.len() {
            bail!(Shape, "[mapped file] {} bytes for {aval:?}, which takes {}", range.len(), aval.nbytes());
        }
        let buffer: Arc<dyn Buffer> = Arc::new(CpuBuffer::map(&self.0, range, dtype.size())?);
        Ok(Array::ready(Value { buffer, layout: Layout::contiguous(aval.shape) }, dtype))
    }

    /// Gives the pages read so far back to the system; what is read again comes from the file.
    pub fn release_pages(&self) {
        self.0.release_pages();
    }
}

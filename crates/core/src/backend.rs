//! What a device must offer. Core never sees bytes: they move through these methods only.

use crate::aval::Aval;
use crate::error::Result;
use crate::layout::Layout;
use crate::number::Number;
use crate::op::Op;
use crate::{Dtype, bail};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Memory on a device, opaque to core. Shared by reference; whoever holds the only reference may
/// write into it (backends prove that with `Arc::get_mut`).
pub trait Buffer: Any + Send + Sync + fmt::Debug {
    fn nbytes(&self) -> usize;
    fn as_any(&self) -> &dyn Any;
    fn as_any_mut(&mut self) -> &mut dyn Any;
}

/// Where the elements of a computed array are.
#[derive(Clone, Debug)]
pub struct Value {
    pub buffer: Arc<dyn Buffer>,
    pub layout: Layout,
}

/// What a backend is told about a step when it prepares a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a> {
    pub op: &'a Op,
    pub ins: &'a [Aval],
    pub outs: &'a [Aval],
}

/// A step made ready. Inputs come with whatever layout they have at run time. An input whose buffer
/// reference is unique may be overwritten: nobody else can read it again.
pub trait Kernel: Send + Sync + fmt::Debug {
    /// Computes the outputs, one value for each output aval: in row-major order from the start of its
    /// buffer, where [`Op::is_compact`] says so.
    fn run(&self, ins: &mut [Value], cells: &[Number], outs: &mut Vec<Value>) -> Result<()>;
}

/// Memory counters of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub active_bytes: usize,
    pub peak_bytes: usize,
    pub cached_bytes: usize,
    pub limit_bytes: usize,
}

/// A device.
pub trait Backend: Send + Sync + fmt::Debug {
    fn name(&self) -> &'static str;

    /// Prepares a step.
    ///
    /// # Errors
    /// `Unsupported` naming the op and the device for what it lacks.
    fn kernel(&self, spec: Spec<'_>) -> Result<Arc<dyn Kernel>>;

    /// A buffer holding a copy of these bytes.
    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn Buffer>>;

    /// Copies the elements in row-major order into `out`, which has exactly their size.
    fn download(&self, value: &Value, dtype: Dtype, out: &mut [u8]) -> Result<()>;

    /// Memory counters.
    fn memory(&self) -> Memory;

    /// Changes a memory setting and returns what it was.
    fn set_memory(&self, setting: MemorySetting) -> usize;

    /// Makes kernels under way that may not end by themselves stop with an error (true), or lets
    /// them run again (false). Called from signal handlers: it must take no lock for long.
    fn interrupt(&self, _on: bool) {}
}

/// A memory setting, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySetting {
    /// Allocations past it fail with `OutOfMemory`.
    Limit(usize),
    /// Freed buffers kept for reuse, at most.
    CacheLimit(usize),
    /// Frees the kept buffers.
    ClearCache,
    /// Starts the peak anew.
    ResetPeak,
}

impl Value {
    /// A contiguous value over a whole buffer.
    pub fn contiguous(buffer: Arc<dyn Buffer>, aval: &Aval) -> Value {
        Value { buffer, layout: Layout::contiguous(aval.shape.clone()) }
    }

    /// Checks that the layout stays inside the buffer.
    ///
    /// # Errors
    /// `Internal`: a layout rule is wrong.
    pub fn check(&self, dtype: Dtype) -> Result<()> {
        let (_, end) = self.layout.extent();
        if end * dtype.size() > self.buffer.nbytes() {
            bail!(
                Internal,
                "[value] {:?} of {dtype} ends past its buffer of {} bytes",
                self.layout,
                self.buffer.nbytes()
            );
        }
        Ok(())
    }
}

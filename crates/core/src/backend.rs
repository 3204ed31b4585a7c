//! What a device must offer. Core never sees bytes: they move through these methods only.

use crate::aval::Aval;
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::number::Number;
use crate::op::Op;
use crate::{Dtype, bail, err};
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
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

/// An input of a step, with whatever layout it has at run time.
#[derive(Debug)]
pub struct Input<'a> {
    pub buffer: Held<'a>,
    pub layout: Cow<'a, Layout>,
}

/// How a step holds the buffer of an input.
#[derive(Debug)]
pub enum Held<'a> {
    /// To read.
    Lent(&'a Arc<dyn Buffer>),
    /// To keep. If the reference is unique, nobody else can read the buffer again, and it may be overwritten.
    Given(Arc<dyn Buffer>),
}

/// A step made ready.
pub trait Kernel: Send + Sync + fmt::Debug {
    /// Computes the outputs, one value for each output aval: in row-major order from the start of its
    /// buffer, where [`Op::is_compact`] says so.
    fn run(&self, ins: &mut [Input<'_>], cells: &[Number], outs: &mut Vec<Value>) -> Result<()>;
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

    /// Lends the bytes of the elements in row-major order to `to`, which is called once.
    fn lend(&self, value: &Value, dtype: Dtype, to: &mut dyn FnMut(&[u8])) -> Result<()>;

    /// Memory counters.
    fn memory(&self) -> Memory;

    /// Changes a memory setting and returns what it was.
    fn set_memory(&self, setting: MemorySetting) -> usize;

    /// Makes kernels under way stop, with an error or by unwinding with [`Interrupted`] (true), or
    /// lets them run again (false). Called from signal handlers: it must take no lock for long.
    fn interrupt(&self, _on: bool) {}
}

/// What a kernel that was interrupted may unwind with, by `resume_unwind`, on a thread that
/// [`is_running`] a plan: the evaluation catches it, so nothing reads what is half written.
#[derive(Debug)]
pub struct Interrupted;

impl Interrupted {
    pub(crate) fn error() -> Error {
        err!(Device, "[eval] interrupted: what was being computed must be built again")
    }
}

/// Whether this thread runs a plan.
pub fn is_running() -> bool {
    crate::runtime::is_running()
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
    /// Starts the peak anew: it is 0 until the next allocation.
    ResetPeak,
}

impl Deref for Held<'_> {
    type Target = Arc<dyn Buffer>;

    fn deref(&self) -> &Arc<dyn Buffer> {
        match self {
            Held::Lent(b) => b,
            Held::Given(b) => b,
        }
    }
}

impl<'a> Input<'a> {
    /// The same, to read.
    pub fn lent(&self) -> Input<'_> {
        Input { buffer: Held::Lent(&self.buffer), layout: Cow::Borrowed(&self.layout) }
    }

    /// The same buffer under another layout, to read.
    pub fn under(&self, layout: Layout) -> Input<'_> {
        Input { buffer: Held::Lent(&self.buffer), layout: Cow::Owned(layout) }
    }

    /// The buffer for writing, where it was given and nobody else holds it.
    pub fn unique(&mut self) -> Option<&mut dyn Buffer> {
        match &mut self.buffer {
            Held::Lent(_) => None,
            Held::Given(b) => Arc::get_mut(b),
        }
    }

    /// See [`Value::check`].
    pub fn check(&self, dtype: Dtype) -> Result<()> {
        check(&self.buffer, &self.layout, dtype)
    }
}

impl From<Value> for Input<'_> {
    fn from(v: Value) -> Self {
        Input { buffer: Held::Given(v.buffer), layout: Cow::Owned(v.layout) }
    }
}

impl From<Input<'_>> for Value {
    fn from(input: Input<'_>) -> Value {
        let buffer = match input.buffer {
            Held::Lent(b) => b.clone(),
            Held::Given(b) => b,
        };
        Value { buffer, layout: input.layout.into_owned() }
    }
}

impl Value {
    /// The value as an input that is only read.
    pub fn lent(&self) -> Input<'_> {
        Input { buffer: Held::Lent(&self.buffer), layout: Cow::Borrowed(&self.layout) }
    }

    /// A contiguous value over a whole buffer.
    pub fn contiguous(buffer: Arc<dyn Buffer>, aval: &Aval) -> Value {
        Value { buffer, layout: Layout::contiguous(aval.shape.clone()) }
    }

    /// Checks that the layout stays inside the buffer.
    ///
    /// # Errors
    /// `Internal`: a layout rule is wrong.
    pub fn check(&self, dtype: Dtype) -> Result<()> {
        check(&self.buffer, &self.layout, dtype)
    }
}

fn check(buffer: &Arc<dyn Buffer>, layout: &Layout, dtype: Dtype) -> Result<()> {
    let (_, end) = layout.extent();
    if end * dtype.size() > buffer.nbytes() {
        bail!(Internal, "[value] {layout:?} of {dtype} ends past its buffer of {} bytes", buffer.nbytes());
    }
    Ok(())
}

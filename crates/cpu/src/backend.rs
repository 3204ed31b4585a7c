//! The device: kernels for steps, bytes in and out, memory.

use crate::buffer::{self, CpuBuffer};
use crate::elem::by_size;
use crate::{custom, pool, steps, view};
use isopace_core::backend::{Backend, Buffer, Kernel, Memory, MemorySetting, Spec, Value};
use isopace_core::{Dtype, Result, runtime};
use std::sync::Arc;

/// The CPU.
#[derive(Debug, Default)]
pub struct CpuBackend;

/// Makes the CPU the device of this process, unless there is one. Starts no thread.
pub fn init() {
    runtime::init(Arc::new(CpuBackend));
}

impl Backend for CpuBackend {
    fn name(&self) -> &'static str {
        "cpu"
    }

    fn kernel(&self, spec: Spec<'_>) -> Result<Arc<dyn Kernel>> {
        steps::kernel(spec)
    }

    fn upload(&self, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(CpuBuffer::copy_of(bytes)?))
    }

    fn lend(&self, value: &Value, dtype: Dtype, to: &mut dyn FnMut(&[u8])) -> Result<()> {
        by_size!(dtype.size(), T => {
            let value = value.lent();
            to(bytemuck::cast_slice(&view::dense::<T>(&value)?));
        });
        Ok(())
    }

    fn memory(&self) -> Memory {
        buffer::memory()
    }

    fn set_memory(&self, setting: MemorySetting) -> usize {
        buffer::set_memory(setting)
    }

    fn interrupt(&self, on: bool) {
        pool::interrupt(on);
        if on { custom::INTERRUPT.raise() } else { custom::INTERRUPT.clear() }
    }
}

//! Where the elements of a computed array stand in the process's memory.

use isopace_core::backend::Value;
use isopace_cpu::buffer::CpuBuffer;

/// The bytes of the buffer behind a value on the CPU, unless they are read-only.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    let b = value.buffer.as_any().downcast_ref::<CpuBuffer>()?;
    b.is_owned().then(|| b.bytes())
}

/// Sets the device up; the first call counts.
pub(crate) fn init() {
    isopace::init();
}

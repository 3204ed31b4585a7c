//! The Python extension. It is thin: one class over a handle, arguments read straight from the call.

// Doc comments of what Python sees are its docstrings, in which brackets are lists.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags)]

mod array;
mod buffer;
mod compile;
mod convert;
mod device;
mod dtype;
mod errors;
mod eval;
mod functions;
mod host;
mod index;
mod io;
mod memory;
mod metal_kernel;
mod overlay;
mod print;
mod random;
mod raw;
mod standin;

use pyo3::prelude::*;

#[pymodule]
fn _isopace(m: &Bound<'_, PyModule>) -> PyResult<()> {
    host::init();
    dtype::register(m)?;
    device::register(m)?;
    array::register(m)?;
    print::register(m)?;
    eval::register(m)?;
    functions::register(m)?;
    metal_kernel::register(m)?;
    random::register(m)?;
    compile::register(m)?;
    memory::register(m)?;
    io::register(m)?;
    Ok(())
}

//! Memory counters and limits, in bytes.

use crate::errors::OrRaise;
use isopace_core::backend::MemorySetting;
use isopace_core::runtime;
use pyo3::prelude::*;

/// Bytes of live arrays.
#[pyfunction]
fn get_active_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.active_bytes)
}

/// The most bytes of live arrays since the start or the last reset.
#[pyfunction]
fn get_peak_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.peak_bytes)
}

/// Bytes of freed buffers kept for reuse.
#[pyfunction]
fn get_cache_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.cached_bytes)
}

/// Bytes past which allocations fail.
#[pyfunction]
fn get_memory_limit() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.limit_bytes)
}

/// Starts the peak anew.
#[pyfunction]
fn reset_peak_memory() -> PyResult<()> {
    runtime::set_memory(MemorySetting::ResetPeak).map(drop).or_raise()
}

/// Frees the kept buffers.
#[pyfunction]
fn clear_cache() -> PyResult<()> {
    runtime::set_memory(MemorySetting::ClearCache).map(drop).or_raise()
}

/// Sets the limit and returns what it was.
#[pyfunction]
fn set_memory_limit(limit: usize) -> PyResult<usize> {
    runtime::set_memory(MemorySetting::Limit(limit)).or_raise()
}

/// Sets how many bytes of freed buffers are kept and returns what it was.
#[pyfunction]
fn set_cache_limit(limit: usize) -> PyResult<usize> {
    runtime::set_memory(MemorySetting::CacheLimit(limit)).or_raise()
}

/// Does nothing here; returns 0.
#[pyfunction]
fn set_wired_limit(limit: usize) -> usize {
    let _ = limit;
    0
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions::add!(m: get_active_memory get_peak_memory get_cache_memory get_memory_limit);
    crate::functions::add!(m: reset_peak_memory clear_cache set_memory_limit set_cache_limit set_wired_limit);
    Ok(())
}

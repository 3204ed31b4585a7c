//! Memory counters and limits, in bytes.

use crate::errors::OrRaise;
use isopace_core::backend::MemorySetting;
use isopace_core::runtime;
use pyo3::prelude::*;

/// Bytes of live arrays.
///
/// >>> mx.get_active_memory() >= 0
/// True
#[pyfunction]
fn get_active_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.active_bytes)
}

/// The most bytes of live arrays since the start or the last reset.
///
/// >>> mx.get_peak_memory() >= 0
/// True
#[pyfunction]
fn get_peak_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.peak_bytes)
}

/// Bytes of freed buffers kept for reuse.
///
/// >>> mx.get_cache_memory() >= 0
/// True
#[pyfunction]
fn get_cache_memory() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.cached_bytes)
}

/// Bytes past which allocations fail.
///
/// >>> mx.get_memory_limit() > 0
/// True
#[pyfunction]
fn get_memory_limit() -> PyResult<usize> {
    Ok(runtime::memory().or_raise()?.limit_bytes)
}

/// Starts the peak anew.
///
/// >>> mx.reset_peak_memory()
#[pyfunction]
fn reset_peak_memory() -> PyResult<()> {
    runtime::set_memory(MemorySetting::ResetPeak).map(drop).or_raise()
}

/// Frees the kept buffers.
///
/// >>> mx.clear_cache(); mx.get_cache_memory()
/// 0
#[pyfunction]
fn clear_cache() -> PyResult<()> {
    runtime::set_memory(MemorySetting::ClearCache).map(drop).or_raise()
}

/// Sets the limit and returns what it was.
///
/// In bytes. Raises OverflowError for a negative one.
///
/// >>> mx.set_memory_limit(mx.get_memory_limit()) > 0
/// True
#[pyfunction]
fn set_memory_limit(limit: usize) -> PyResult<usize> {
    runtime::set_memory(MemorySetting::Limit(limit)).or_raise()
}

/// Sets how many bytes of freed buffers are kept and returns what it was.
///
/// In bytes. Raises OverflowError for a negative one.
///
/// >>> before = mx.set_cache_limit(1 << 20)
/// >>> mx.set_cache_limit(before)
/// 1048576
#[pyfunction]
fn set_cache_limit(limit: usize) -> PyResult<usize> {
    runtime::set_memory(MemorySetting::CacheLimit(limit)).or_raise()
}

/// Does nothing here; returns 0.
///
/// >>> mx.set_wired_limit(0)
/// 0
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

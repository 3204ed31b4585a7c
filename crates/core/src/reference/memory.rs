//! Buffers of plain bytes, and their count.

use crate::backend::{Buffer, Memory, MemorySetting};
use crate::{Result, bail, err};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// How many bytes live buffers hold.
#[derive(Debug)]
pub(super) struct Counters {
    active: AtomicUsize,
    peak: AtomicUsize,
    limit: AtomicUsize,
}

impl Default for Counters {
    fn default() -> Self {
        Counters { active: 0.into(), peak: 0.into(), limit: usize::MAX.into() }
    }
}

impl Counters {
    pub(super) fn memory(&self) -> Memory {
        Memory {
            active_bytes: self.active.load(Relaxed),
            peak_bytes: self.peak.load(Relaxed),
            cached_bytes: 0,
            limit_bytes: self.limit.load(Relaxed),
        }
    }

    /// Nothing is cached here, so the settings of the cache change nothing.
    pub(super) fn set(&self, setting: MemorySetting) -> usize {
        match setting {
            MemorySetting::Limit(n) => self.limit.swap(n, Relaxed),
            MemorySetting::CacheLimit(_) | MemorySetting::ClearCache => 0,
            MemorySetting::ResetPeak => self.peak.swap(0, Relaxed),
        }
    }

    fn claim(&self, n: usize) -> Result<()> {
        let limit = self.limit.load(Relaxed);
        let fits = |active: usize| active.checked_add(n).filter(|&total| total <= limit);
        match self.active.fetch_update(Relaxed, Relaxed, fits) {
            Ok(before) => {
                self.peak.fetch_max(before + n, Relaxed);
                Ok(())
            }
            Err(active) => {
                bail!(OutOfMemory, "[memory] {n} bytes beside {active} active ones pass the limit of {limit}")
            }
        }
    }
}

/// A buffer of the reference interpreter.
#[derive(Debug)]
pub(super) struct Bytes {
    data: Vec<u8>,
    counters: Arc<Counters>,
}

impl Bytes {
    pub(super) fn new(data: Vec<u8>, counters: &Arc<Counters>) -> Result<Bytes> {
        counters.claim(data.len())?;
        Ok(Bytes { data, counters: counters.clone() })
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.counters.active.fetch_sub(self.data.len(), Relaxed);
    }
}

impl Buffer for Bytes {
    fn nbytes(&self) -> usize {
        self.data.len()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// The bytes of a buffer that this interpreter made.
pub(super) fn bytes(buffer: &dyn Buffer) -> Result<&[u8]> {
    buffer
        .as_any()
        .downcast_ref::<Bytes>()
        .map(|b| &*b.data)
        .ok_or_else(|| err!(Device, "[reference] the buffer belongs to another device"))
}

//! Memory: aligned bytes from a cache of freed ones, counted and limited; and mapped files.
//!
//! Sizes are rounded up to classes (four to each power of two), freed blocks of a class are kept
//! for the next request of the class, and the cache is trimmed to its limit, the largest blocks
//! first. Every block starts on a 64-byte boundary; blocks from 4 MiB on ask for huge pages.

use isopace_core::{Result, err};
use parking_lot::Mutex;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::BTreeMap;
use std::path::Path;
use std::ptr::NonNull;

/// Alignment of every buffer, in bytes.
pub const ALIGN: usize = 64;
/// Blocks from here on are aligned to, and ask for, huge pages.
const HUGE: usize = 4 << 20;
const HUGE_PAGE: usize = 2 << 20;

/// What the allocator holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// In live buffers.
    pub active_bytes: usize,
    /// The most that `active_bytes` has been since [`reset_peak`].
    pub peak_bytes: usize,
    /// In freed blocks kept for reuse.
    pub cached_bytes: usize,
    /// The limit on `active_bytes`.
    pub limit_bytes: usize,
    /// The limit on `cached_bytes`.
    pub cache_limit_bytes: usize,
}

struct Heap {
    stats: MemoryStats,
    free: BTreeMap<usize, Vec<Block>>,
}

/// An owned block; its class is its layout's size.
struct Block(NonNull<u8>);

// SAFETY: a block is plain memory with one owner, who may be on any thread.
unsafe impl Send for Block {}

static HEAP: Mutex<Heap> = Mutex::new(Heap {
    stats: MemoryStats {
        active_bytes: 0,
        peak_bytes: 0,
        cached_bytes: 0,
        limit_bytes: usize::MAX,
        cache_limit_bytes: 1 << 30,
    },
    free: BTreeMap::new(),
});

/// Returns the counters.
pub fn memory_stats() -> MemoryStats {
    HEAP.lock().stats
}

/// Makes the peak start again from what is active now.
pub fn reset_peak() {
    let mut h = HEAP.lock();
    h.stats.peak_bytes = h.stats.active_bytes;
}

/// Sets the most bytes that live buffers may hold; returns the limit before.
pub fn set_memory_limit(bytes: usize) -> usize {
    std::mem::replace(&mut HEAP.lock().stats.limit_bytes, bytes)
}

/// Sets the most bytes kept for reuse, and frees what is over; returns the limit before.
pub fn set_cache_limit(bytes: usize) -> usize {
    let mut h = HEAP.lock();
    let old = std::mem::replace(&mut h.stats.cache_limit_bytes, bytes);
    h.trim(bytes);
    old
}

/// Frees all blocks kept for reuse.
pub fn clear_cache() {
    HEAP.lock().trim(0);
}

/// The size class of a request: the next of four steps to each power of two, at least 64.
fn class_of(bytes: usize) -> Option<usize> {
    let n = bytes.max(ALIGN);
    let step = (n.checked_next_power_of_two()? / 8).max(ALIGN);
    n.checked_next_multiple_of(step)
}

fn layout(class: usize) -> Option<Layout> {
    Layout::from_size_align(class, if class >= HUGE { HUGE_PAGE } else { ALIGN }).ok()
}

impl Heap {
    /// Frees kept blocks, the largest first, until at most `bytes` are kept.
    fn trim(&mut self, bytes: usize) {
        while self.stats.cached_bytes > bytes {
            let Some(mut entry) = self.free.last_entry() else { break };
            let class = *entry.key();
            match entry.get_mut().pop() {
                Some(block) => {
                    self.stats.cached_bytes -= class;
                    release(block, class);
                }
                None => {
                    entry.remove();
                }
            }
        }
    }
}

/// Gives a block back to the system.
fn release(block: Block, class: usize) {
    if let Some(layout) = layout(class) {
        // SAFETY: the block came from `obtain` with the layout of the same class, and its one
        // owner gives it up here.
        unsafe { dealloc(block.0.as_ptr(), layout) };
    }
}

/// Takes a block from the system, zeroed if asked.
fn obtain(class: usize, zeroed: bool) -> Option<Block> {
    let layout = layout(class)?;
    // SAFETY: the size is not zero: classes start at 64.
    let p = unsafe { if zeroed { alloc_zeroed(layout) } else { alloc(layout) } };
    let p = NonNull::new(p)?;
    #[cfg(target_os = "linux")]
    if class >= HUGE {
        advise_huge(p, class);
    }
    Some(Block(p))
}

/// Asks for huge pages under a block; a refusal changes nothing.
#[cfg(target_os = "linux")]
fn advise_huge(p: NonNull<u8>, bytes: usize) {
    unsafe extern "C" {
        fn madvise(addr: *mut u8, length: usize, advice: i32) -> i32;
    }
    const MADV_HUGEPAGE: i32 = 14;
    // SAFETY: the range is a block of this allocator, aligned to huge pages by its layout; the
    // advice changes how it is backed, not what it holds.
    unsafe { madvise(p.as_ptr(), bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE) };
}

/// An owned, 64-byte aligned run of bytes. Its memory goes back to the cache when it is dropped.
pub struct Bytes {
    block: NonNull<u8>,
    len: usize,
    class: usize,
}

// SAFETY: the bytes are plain memory; shared access is by `&self`, changes by `&mut self`.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Returns `len` bytes of unspecified (initialised) content: what a block held before, or zero.
    ///
    /// # Errors
    /// The memory limit would be passed, or the system has no memory.
    pub fn new(len: usize) -> Result<Bytes> {
        Bytes::take(len, false)
    }

    /// Returns `len` zero bytes.
    ///
    /// # Errors
    /// As [`Bytes::new`].
    pub fn zeroed(len: usize) -> Result<Bytes> {
        Bytes::take(len, true)
    }

    fn take(len: usize, zeroed: bool) -> Result<Bytes> {
        let class = class_of(len)
            .filter(|c| *c <= isize::MAX as usize)
            .ok_or_else(|| err!(OutOfMemory, "[memory] {len} bytes are more than can be addressed"))?;
        let kept = {
            let mut h = HEAP.lock();
            let active = h.stats.active_bytes.saturating_add(class);
            if active > h.stats.limit_bytes {
                return Err(err!(
                    OutOfMemory,
                    "[memory] {len} bytes do not fit: {} are in use and the limit is {}",
                    h.stats.active_bytes,
                    h.stats.limit_bytes
                ));
            }
            h.stats.active_bytes = active;
            h.stats.peak_bytes = h.stats.peak_bytes.max(active);
            let kept = h.free.get_mut(&class).and_then(Vec::pop);
            if kept.is_some() {
                h.stats.cached_bytes -= class;
            }
            kept
        };
        let fresh = kept.is_none();
        // A new block is always zeroed: the system gives large ones so anyway, and bytes must be
        // initialised before anybody may see them.
        let block = kept.or_else(|| obtain(class, true)).or_else(|| {
            clear_cache();
            obtain(class, true)
        });
        let Some(Block(block)) = block else {
            HEAP.lock().stats.active_bytes -= class;
            return Err(err!(OutOfMemory, "[memory] the system has no {len} bytes"));
        };
        let mut bytes = Bytes { block, len, class };
        if zeroed && !fresh {
            bytes.fill(0);
        }
        Ok(bytes)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let mut h = HEAP.lock();
        h.stats.active_bytes -= self.class;
        if self.class > h.stats.cache_limit_bytes {
            drop(h);
            release(Block(self.block), self.class);
            return;
        }
        h.free.entry(self.class).or_default().push(Block(self.block));
        h.stats.cached_bytes += self.class;
        let limit = h.stats.cache_limit_bytes;
        h.trim(limit);
    }
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: the block has at least `len` bytes, all initialised by `take`, and lives as
        // long as `self`.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.len) }
    }
}

impl std::ops::DerefMut for Bytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` makes the access the only one.
        unsafe { std::slice::from_raw_parts_mut(self.block.as_ptr(), self.len) }
    }
}

/// Maps a file for reading.
///
/// With `populate`, its pages are read in now rather than at first use. **A file that is truncated
/// while it is mapped kills the process** (SIGBUS) when a page past its new end is read; writing
/// to it changes what is read. Nothing can be done about either short of copying the file.
///
/// # Errors
/// The file cannot be opened or mapped.
pub fn map_file(path: &Path, populate: bool) -> Result<memmap2::Mmap> {
    let io = |e: std::io::Error| err!(Io, "[map] {}: {e}", path.display());
    let file = std::fs::File::open(path).map_err(io)?;
    let mut options = memmap2::MmapOptions::new();
    if populate {
        options.populate();
    }
    // SAFETY: the map is read-only and private to us as far as Rust is concerned; that nobody
    // truncates or writes the file meanwhile is left to the user, as documented above.
    unsafe { options.map(&file) }.map_err(io)
}

/// Tells the system that the pages of a map are not needed any more (they stay in the file), for
/// weights that have been copied into another layout.
pub fn forget_pages(map: &memmap2::Mmap) {
    #[cfg(target_os = "linux")]
    // SAFETY: the map is a read-only file map: dropped pages are read again from the file.
    unsafe {
        let _ = map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = map;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The heap is the process's: tests of its counters take turns.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn classes() {
        for n in [0, 1, 63, 64, 65, 1000, 4096, 5000, 1 << 20, (1 << 20) + 1] {
            let c = class_of(n).unwrap();
            assert!(c >= n && c.is_multiple_of(ALIGN) && c <= n.max(64) + n / 4 + 64, "{n}: {c}");
            assert_eq!(class_of(c), Some(c));
        }
        assert_eq!(class_of(usize::MAX), None);
    }

    #[test]
    fn reuse_counters_and_limits() {
        let _turn = TURN.lock();
        clear_cache();
        let before = memory_stats();
        assert_eq!(before.cached_bytes, 0);
        let mut a = Bytes::new(1000).unwrap();
        assert!(a.as_ptr().addr().is_multiple_of(ALIGN) && a.len() == 1000);
        a.fill(7);
        let p = a.as_ptr();
        assert_eq!(memory_stats().active_bytes, before.active_bytes + 1024);
        drop(a);
        assert_eq!(memory_stats().cached_bytes, 1024);
        let b = Bytes::zeroed(999).unwrap();
        assert!(b.as_ptr() == p && b.iter().all(|v| *v == 0));
        drop(b);
        let old = set_cache_limit(0);
        assert_eq!(memory_stats().cached_bytes, 0);
        drop(Bytes::new(64).unwrap());
        assert_eq!(memory_stats().cached_bytes, 0);
        set_cache_limit(old);
        let old = set_memory_limit(memory_stats().active_bytes + 2048);
        let a = Bytes::new(2000).unwrap();
        let e = Bytes::new(64).err().unwrap();
        assert!(matches!(e, isopace_core::Error::OutOfMemory(_)), "{e}");
        drop(a);
        set_memory_limit(old);
        assert!(Bytes::new(usize::MAX - 10).is_err());
        assert!(Bytes::new(1 << 60).is_err());
        assert_eq!(memory_stats().active_bytes, before.active_bytes);
        assert!(memory_stats().peak_bytes >= before.active_bytes + 2048);
        let huge = Bytes::new(5 << 20).unwrap();
        assert!(huge.as_ptr().addr().is_multiple_of(HUGE_PAGE) && huge.iter().all(|v| *v == 0));
        assert_eq!(Bytes::new(0).unwrap().len(), 0);
        clear_cache();
    }

    #[test]
    fn maps() {
        let path = std::env::temp_dir().join(format!("isopace-map-{}", std::process::id()));
        std::fs::write(&path, b"weights").unwrap();
        let m = map_file(&path, true).unwrap();
        assert_eq!(&m[..], b"weights");
        forget_pages(&m);
        assert_eq!(&m[..], b"weights");
        std::fs::remove_file(&path).unwrap();
        let e = map_file(&path, false).unwrap_err().to_string();
        assert!(e.contains("isopace-map"), "{e}");
    }
}

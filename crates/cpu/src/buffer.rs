//! Memory: aligned buffers from free lists by size class, and read-only mapped files.
//!
//! Every byte that a buffer hands out has been written at least once (blocks start zeroed), so
//! reading one before a kernel has filled it gives old values, never undefined behaviour.

use isopace_core::backend::{Buffer, Memory, MemorySetting};
use isopace_core::{Result, bail, err};
use memmap2::{Advice, Mmap, MmapMut, MmapOptions, UncheckedAdvice};
use parking_lot::Mutex;
use std::alloc;
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every allocated buffer, in bytes: a cache line, and the widest vector.
pub const ALIGN: usize = 64;
/// Blocks from this size on are cut from regions.
const CUT_BYTES: usize = 64 << 10;
/// A region's size, and the largest block that shares one.
const REGION_BYTES: usize = 32 << 20;
const SHARED_BYTES: usize = 4 << 20;
/// A huge page, to which regions are aligned, and a page, to which blocks in them are.
const HUGE_PAGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// Freed bytes kept for reuse, unless set otherwise.
const CACHE_BYTES: usize = 128 << 20;
/// Eight classes for each power of two, from 64 bytes on.
const CLASSES: usize = 8 * 58;

/// Bytes on the CPU: owned and writable, or part of a mapped file.
pub struct CpuBuffer {
    bytes: Bytes,
    len: usize,
}

enum Bytes {
    Owned { block: Block, class: usize },
    File { map: Arc<Mmap>, start: usize },
}

/// One piece of memory of exactly its class's size.
enum Block {
    Empty,
    Heap(NonNull<u8>, usize),
    Cut(Arc<Region>, usize, usize),
}

/// Address space on huge pages, from which blocks are cut one after the other and never twice. It
/// lives as long as its blocks do. Weights in pages of 4 KiB are read at half the speed: address
/// translation misses at each page, and the hardware prefetches up to its end.
struct Region {
    map: MmapMut,
    base: NonNull<u8>,
    end: usize,
}

/// The region from which blocks are cut now, and how much of it is given out.
struct Open {
    region: Arc<Region>,
    used: usize,
}

static OPEN: Mutex<Option<Open>> = Mutex::new(None);

// SAFETY: a block owns its memory alone, like a Box<[u8]>; sharing a buffer shares only reads, and
// writing needs `&mut`.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}
// SAFETY: a region only holds addresses; its memory is reached through the blocks, each of which
// owns a range of its own.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    fn new(bytes: usize) -> Option<Region> {
        let end = bytes.checked_next_multiple_of(HUGE_PAGE)?;
        let mut map = MmapMut::map_anon(end.checked_add(HUGE_PAGE)?).ok()?;
        // Refused where the kernel has no huge pages, which changes nothing but speed.
        let _ = map.advise(Advice::HugePage);
        let skip = map.as_ptr().align_offset(HUGE_PAGE);
        let base = NonNull::new(map[skip..].as_mut_ptr())?;
        Some(Region { map, base, end })
    }
}

impl Block {
    fn new(size: usize) -> Option<Block> {
        if size > SHARED_BYTES {
            return Some(Block::Cut(Arc::new(Region::new(size)?), 0, size));
        }
        if size >= CUT_BYTES {
            let mut open = OPEN.lock();
            let (region, start) = match open.take() {
                Some(o) if o.used + size <= o.region.end => (o.region, o.used),
                _ => (Arc::new(Region::new(REGION_BYTES)?), 0),
            };
            let used = (start + size).next_multiple_of(PAGE);
            *open = Some(Open { region: region.clone(), used });
            return Some(Block::Cut(region, start, size));
        }
        let layout = alloc::Layout::from_size_align(size, ALIGN).ok()?;
        // SAFETY: the size is not zero: classes start at 64 bytes (upheld by `class_size`).
        let p = unsafe { alloc::alloc_zeroed(layout) };
        NonNull::new(p).map(|p| Block::Heap(p, size))
    }

    fn as_ptr(&self) -> *mut u8 {
        match self {
            Block::Empty => std::ptr::without_provenance_mut(ALIGN),
            Block::Heap(p, _) => p.as_ptr(),
            // SAFETY: the start is inside the region (upheld by `new`).
            Block::Cut(region, start, _) => unsafe { region.base.as_ptr().add(*start) },
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match self {
            Block::Empty => {}
            Block::Heap(p, size) => {
                if let Ok(layout) = alloc::Layout::from_size_align(*size, ALIGN) {
                    // SAFETY: allocated by `new` with this very layout, and freed once, here.
                    unsafe { alloc::dealloc(p.as_ptr(), layout) }
                }
            }
            Block::Cut(region, start, size) => {
                // What shares the region may live on, so the pages go back to the system one by one.
                let skip = region.base.as_ptr().addr() - region.map.as_ptr().addr();
                let len = size.next_multiple_of(PAGE);
                // SAFETY: these pages hold this block alone (blocks start on pages), and nobody can
                // reach it any more. A refusal keeps them until the region ends.
                let _ = unsafe {
                    region.map.unchecked_advise_range(UncheckedAdvice::DontNeed, skip + *start, len)
                };
            }
        }
    }
}

/// The smallest class that holds `n` bytes (n > 0): sizes are (8 + k) << s, at least 64.
fn class_of(n: usize) -> usize {
    let n = n.max(64) - 1;
    // n in [64·2^e − 1 ...): position of the top bit, then the next three bits.
    let top = usize::BITS as usize - 1 - n.leading_zeros() as usize;
    let eighth = (n >> (top - 3)) & 7;
    (top * 8 + eighth + 1) - (5 * 8 + 8)
}

fn class_size(class: usize) -> usize {
    let (s, k) = (class / 8, class % 8);
    (8 + k) << (s + 3)
}

struct Pool {
    free: Vec<Vec<Block>>,
    memory: Memory,
    cache_limit: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    free: Vec::new(),
    memory: Memory { active_bytes: 0, peak_bytes: 0, cached_bytes: 0, limit_bytes: 0 },
    cache_limit: CACHE_BYTES,
});

impl Pool {
    /// Sets the default limit, the machine's memory, at the first use.
    fn ready(&mut self) {
        if self.free.is_empty() {
            self.free.resize_with(CLASSES, Vec::new);
            self.memory.limit_bytes = machine_bytes().unwrap_or(usize::MAX);
        }
    }

    fn count(&mut self, size: usize) {
        let m = &mut self.memory;
        m.active_bytes += size;
        m.peak_bytes = m.peak_bytes.max(m.active_bytes);
    }

    /// Takes cached blocks out, largest first, until at most `limit` bytes are cached.
    fn trim(&mut self, limit: usize, out: &mut Vec<Block>) {
        for class in (0..self.free.len()).rev() {
            while self.memory.cached_bytes > limit {
                let Some(b) = self.free[class].pop() else { break };
                self.memory.cached_bytes -= class_size(class);
                out.push(b);
            }
        }
    }
}

fn machine_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    kib.trim().split(' ').next()?.parse::<usize>().ok()?.checked_mul(1024)
}

/// Memory counters of this process.
pub fn memory() -> Memory {
    let mut p = POOL.lock();
    p.ready();
    p.memory
}

/// Changes a memory setting and returns what it was.
pub fn set_memory(setting: MemorySetting) -> usize {
    let mut freed = Vec::new();
    let mut p = POOL.lock();
    p.ready();
    let old = match setting {
        MemorySetting::Limit(n) => std::mem::replace(&mut p.memory.limit_bytes, n),
        MemorySetting::CacheLimit(n) => {
            p.trim(n, &mut freed);
            std::mem::replace(&mut p.cache_limit, n)
        }
        MemorySetting::ClearCache => {
            let was = p.memory.cached_bytes;
            p.trim(0, &mut freed);
            was
        }
        MemorySetting::ResetPeak => {
            let was = p.memory.peak_bytes;
            p.memory.peak_bytes = 0;
            was
        }
    };
    drop(p);
    drop(freed);
    old
}

impl CpuBuffer {
    /// A writable buffer of `len` bytes, aligned to 64; what it holds is arbitrary.
    ///
    /// # Errors
    /// `OutOfMemory` past the limit or when the system has no memory.
    pub fn new(len: usize) -> Result<CpuBuffer> {
        if len == 0 {
            return Ok(CpuBuffer { bytes: Bytes::Owned { block: Block::Empty, class: 0 }, len });
        }
        if len > isize::MAX as usize / 2 {
            bail!(OutOfMemory, "[alloc] {len} bytes are more than any machine has");
        }
        let class = class_of(len);
        let size = class_size(class);
        let mut freed = Vec::new();
        {
            let mut p = POOL.lock();
            p.ready();
            if let Some(block) = p.free[class].pop() {
                p.memory.cached_bytes -= size;
                p.count(size);
                return Ok(CpuBuffer { bytes: Bytes::Owned { block, class }, len });
            }
            let m = p.memory;
            if m.active_bytes.saturating_add(size) > m.limit_bytes {
                bail!(
                    OutOfMemory,
                    "[alloc] {len} bytes on top of {} in use pass the memory limit of {}",
                    m.active_bytes,
                    m.limit_bytes
                );
            }
            // Cached blocks of other sizes count towards the machine's memory too.
            let room = m.limit_bytes - m.active_bytes - size;
            p.trim(room, &mut freed);
            p.count(size);
        }
        drop(freed);
        match Block::new(size) {
            Some(block) => Ok(CpuBuffer { bytes: Bytes::Owned { block, class }, len }),
            None => {
                let mut p = POOL.lock();
                p.memory.active_bytes -= size;
                let (active, limit) = (p.memory.active_bytes, p.memory.limit_bytes);
                drop(p);
                Err(err!(
                    OutOfMemory,
                    "[alloc] the system refused {len} bytes; {active} are in use, the limit is {limit}"
                ))
            }
        }
    }

    /// A buffer with a copy of these bytes.
    ///
    /// # Errors
    /// As [`CpuBuffer::new`].
    pub fn copy_of(bytes: &[u8]) -> Result<CpuBuffer> {
        let mut b = CpuBuffer::new(bytes.len())?;
        b.slice_mut::<u8>()?.copy_from_slice(bytes);
        Ok(b)
    }

    /// Part of a file, mapped read-only; copied instead where `align` does not divide its start.
    ///
    /// A file that is truncated while it is mapped kills the process (SIGBUS) at the next read of
    /// what is gone; a file that is overwritten changes under the readers' eyes.
    ///
    /// # Errors
    /// `Io` when the file cannot be opened or mapped, `Format` when it ends before the range does.
    pub fn map(file: &MappedFile, range: Range<usize>, align: usize) -> Result<CpuBuffer> {
        if range.start > range.end || range.end > file.map.len() {
            bail!(
                Format,
                "[map] {}: bytes {} to {} are past the end of the file ({})",
                file.name,
                range.start,
                range.end,
                file.map.len()
            );
        }
        if !range.start.is_multiple_of(align.max(1)) {
            return CpuBuffer::copy_of(&file.map[range]);
        }
        let len = range.len();
        Ok(CpuBuffer { bytes: Bytes::File { map: file.map.clone(), start: range.start }, len })
    }

    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            // SAFETY: the block has at least `len` bytes (upheld by `new`), all written once
            // (blocks start zeroed), and is not written while `self` is borrowed.
            Bytes::Owned { block, .. } => unsafe { std::slice::from_raw_parts(block.as_ptr(), self.len) },
            Bytes::File { map, start } => &map[*start..*start + self.len],
        }
    }

    /// All elements. The buffer's length must be whole elements up to a tail that is left out.
    ///
    /// # Errors
    /// `Internal` when a mapped file's bytes are not aligned for the type.
    #[inline]
    pub fn slice<T: bytemuck::Pod>(&self) -> Result<&[T]> {
        let b = self.bytes();
        let b = &b[..b.len() / size_of::<T>() * size_of::<T>()];
        bytemuck::try_cast_slice(b).map_err(|e| err!(Internal, "[buffer] {} bytes: {e}", self.len))
    }

    /// All elements, for writing.
    ///
    /// # Errors
    /// `Internal` for a mapped file.
    #[inline]
    pub fn slice_mut<T: bytemuck::Pod>(&mut self) -> Result<&mut [T]> {
        let len = self.len / size_of::<T>() * size_of::<T>();
        match &mut self.bytes {
            Bytes::Owned { block, .. } => {
                // SAFETY: as in `bytes`; `&mut self` makes the access exclusive.
                let b = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), len) };
                bytemuck::try_cast_slice_mut(b).map_err(|e| err!(Internal, "[buffer] {e}"))
            }
            Bytes::File { .. } => Err(err!(Internal, "[buffer] a mapped file is read-only")),
        }
    }

    /// True when it may be written.
    pub fn is_owned(&self) -> bool {
        matches!(self.bytes, Bytes::Owned { .. })
    }
}

impl Drop for CpuBuffer {
    fn drop(&mut self) {
        let Bytes::Owned { block, class } = &mut self.bytes else { return };
        if self.len == 0 {
            return;
        }
        let (block, class) = (std::mem::replace(block, Block::Empty), *class);
        let size = class_size(class);
        let mut p = POOL.lock();
        p.memory.active_bytes -= size;
        if p.memory.cached_bytes + size <= p.cache_limit {
            p.memory.cached_bytes += size;
            p.free[class].push(block);
        } else {
            drop(p);
            drop(block);
        }
    }
}

impl fmt::Debug for CpuBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_owned() { "owned" } else { "mapped" };
        write!(f, "CpuBuffer({} bytes, {kind})", self.len)
    }
}

impl Buffer for CpuBuffer {
    fn nbytes(&self) -> usize {
        self.len
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

/// A file mapped for reading, from which buffers are cut.
#[derive(Clone, Debug)]
pub struct MappedFile {
    map: Arc<Mmap>,
    name: String,
}

impl MappedFile {
    /// Maps a whole file.
    ///
    /// # Errors
    /// `Io` naming the file; one that is no regular file too, since opening a pipe waits for its writer.
    pub fn open(path: &Path) -> Result<MappedFile> {
        let name = path.display().to_string();
        if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
            bail!(Io, "[map] {name}: is no regular file");
        }
        let file = std::fs::File::open(path).map_err(|e| err!(Io, "[map] {name}: {e}"))?;
        // SAFETY: the map is read-only and private to readers of `&[u8]`. That nobody truncates or
        // rewrites the file meanwhile is the user's to uphold, as the docs of `CpuBuffer::map` say.
        let map = unsafe { MmapOptions::new().map(&file) }.map_err(|e| err!(Io, "[map] {name}: {e}"))?;
        Ok(MappedFile { map: Arc::new(map), name })
    }

    /// The file's bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }

    /// Gives the pages read so far back to the system; what is read again comes from the file.
    pub fn release_pages(&self) {
        // SAFETY: the map is read-only and backed by the file, so pages dropped here come back with
        // the same bytes at the next read.
        let _ = unsafe { self.map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
    }

    /// Reads the file ahead, so that the first use does not wait for the disk page by page.
    pub fn populate(&self) {
        let _ = self.map.advise(Advice::WillNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_and_do_not_waste() {
        let mut last = 0;
        for class in 0..120 {
            assert!(class_size(class) > last);
            last = class_size(class);
        }
        for n in (1..5000).chain([1 << 20, (1 << 20) + 1, 3 << 30, (1 << 40) + 7]) {
            let s = class_size(class_of(n));
            assert!(s >= n && (s <= 64 || s * 8 <= n * 9 + 512), "{n} -> {s}");
            assert!(class_of(n) == 0 || class_size(class_of(n) - 1) < n, "{n}");
        }
    }

    #[test]
    fn aligned_reused_and_limited() {
        for n in [1, 64, 100, 5000, 1 << 20, 3 << 20] {
            let mut b = CpuBuffer::new(n).unwrap();
            assert_eq!(b.bytes().as_ptr() as usize % ALIGN, 0);
            b.slice_mut::<u8>().unwrap().fill(7);
        }
        let e = CpuBuffer::new(1 << 60).unwrap_err();
        assert!(matches!(e, isopace_core::Error::OutOfMemory(_)), "{e}");
        assert_eq!(CpuBuffer::new(0).unwrap().slice::<f32>().unwrap().len(), 0);
    }
}

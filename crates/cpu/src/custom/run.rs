//! Runs a module over a grid: checks, chunks of threadgroups, stacks for fibers, interrupts.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

use isopace_core::{Result, bail, err};
use parking_lot::{Condvar, Mutex};

use super::module::{Code, Module, RawArgs};

/// The most threads a threadgroup may have.
pub const MAX_THREADS_PER_THREADGROUP: u32 = 1024;

/// Room for the scheduler's state in front of the stacks.
pub(super) const STATE_ROOM_BYTES: usize = 2 << 20;
/// Address space of a stack, its guard included; the prelude's kStackStride and kStackGuard.
const STACK_STRIDE_BYTES: usize = 64 << 10;
const STACK_GUARD_BYTES: usize = 8 << 10;
/// Stacks in the process: two mappings each, of the 65,530 that Linux allows.
const MAX_STACKS: usize = 16 << 10;
/// Threads that are worth a task of their own where they are loops.
const THREADS_PER_CHUNK: u64 = 16 << 10;
const MAX_CHUNKS: u64 = 256;

/// What the prelude calls `frame`.
#[repr(C)]
struct Frame {
    armed: AtomicI32,
    leave: AtomicPtr<c_void>,
    jump: [u64; 64],
    /// The flag of the interrupt that this run was given.
    stop: *const AtomicI32,
}

/// What the prelude calls `grid_info`.
#[repr(C)]
pub(super) struct GridInfo {
    grid: [u32; 3],
    group: [u32; 3],
    groups: [u32; 3],
    stacks: u32,
    stop: *const AtomicI32,
    place: *mut Frame,
    memory: *mut u8,
    state: *mut u8,
}

/// The entry point of a module: runs threadgroups `first..last`.
pub(super) type Entry = unsafe extern "C" fn(RawArgs, *const GridInfo, u64, u64) -> Code;

/// Calls its second argument once for each number below its first, on any threads, and returns
/// when all calls have.
pub type Parallel<'a> = &'a dyn Fn(usize, &(dyn Fn(usize) + Sync));

/// One argument, in the order of `Specialization::args`.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// The first element of an input that is only read.
    Input(*const u8),
    /// The first element of an output or of a mutable input.
    Output(*mut u8),
    Shape(&'a [i32]),
    Strides(&'a [i64]),
    Ndim(&'a i32),
}

impl Arg<'_> {
    fn pointer(&self) -> *mut c_void {
        match *self {
            Arg::Input(p) => p.cast_mut().cast(),
            Arg::Output(p) => p.cast(),
            Arg::Shape(s) => s.as_ptr().cast_mut().cast(),
            Arg::Strides(s) => s.as_ptr().cast_mut().cast(),
            Arg::Ndim(n) => std::ptr::from_ref(n).cast_mut().cast(),
        }
    }
}

/// Stops the kernels that the device runs for arrays.
pub static INTERRUPT: Interrupt = Interrupt::new();

/// A way to stop kernels that run, from any thread.
///
/// Raising it makes every run that was given it return an error soon: between threadgroups by a
/// flag, and inside a body that does not end by a signal (`SIGURG`) to the threads that run it,
/// whose handler continues them at a jump out of the entry point. What the kernel wrote until then
/// stays written. The handler is installed at the first run, and passes on signals not its own.
#[derive(Debug, Default)]
pub struct Interrupt {
    stop: AtomicI32,
    running: Mutex<Vec<libc::pthread_t>>,
}

impl Interrupt {
    pub const fn new() -> Interrupt {
        Interrupt { stop: AtomicI32::new(0), running: Mutex::new(Vec::new()) }
    }

    /// Stops the runs that hold this interrupt, and those to come until [`Interrupt::clear`].
    ///
    /// May be called from a signal handler: it waits for no lock. Where a thread holds the list of
    /// runs all the time, the flag alone stops them, and a body that does not end needs another call.
    pub fn raise(&self) {
        install_handler();
        self.stop.store(1, Ordering::SeqCst);
        if !PLACE.get().is_null() {
            // This thread runs a kernel, so this is a signal handler on top of it. Our own signal must
            // wait until that handler has returned, which also takes the mask back.
            // SAFETY: all-zero bytes are a valid sigset_t to initialise.
            let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
            // SAFETY: `set` is a live local.
            unsafe { libc::sigemptyset(&mut set) };
            // SAFETY: as above; the signal exists.
            unsafe { libc::sigaddset(&mut set, libc::SIGURG) };
            // SAFETY: as above; the old mask is not asked for.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, null_mut()) };
        }
        let Some(running) = (0..1000).find_map(|_| self.running.try_lock()) else { return };
        for &thread in running.iter() {
            // SAFETY: a thread in the list is alive: it takes itself out, under this lock, before
            // it goes on (Presence::drop).
            unsafe { libc::pthread_kill(thread, libc::SIGURG) };
        }
    }

    /// Lets runs start again.
    pub fn clear(&self) {
        self.stop.store(0, Ordering::SeqCst);
    }

    pub fn is_raised(&self) -> bool {
        self.stop.load(Ordering::SeqCst) != 0
    }
}

thread_local! {
    /// The frame that an interrupt of this thread leaves to. A plain cell without a destructor:
    /// reading it in a signal handler is one load.
    static PLACE: Cell<*mut Frame> = const { Cell::new(null_mut()) };
}

/// This thread's entry in an interrupt's list, and its frame.
struct Presence<'a>(&'a Interrupt, libc::pthread_t);

impl<'a> Presence<'a> {
    fn new(interrupt: &'a Interrupt, frame: *mut Frame) -> Presence<'a> {
        install_handler();
        PLACE.set(frame);
        // SAFETY: pthread_self takes nothing and cannot fail.
        let me = unsafe { libc::pthread_self() };
        interrupt.running.lock().push(me);
        Presence(interrupt, me)
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        let mut running = self.0.running.lock();
        if let Some(i) = running.iter().position(|&t| t == self.1) {
            running.swap_remove(i);
        }
        PLACE.set(null_mut());
    }
}

/// The handler of `SIGURG` that was there before ours, as a number (0 and 1: none).
static BEFORE: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

fn install_handler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all-zero bytes are a valid sigaction (no handler, empty mask, no flags).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: as above.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live locals; `on_signal` has the type SA_SIGINFO asks for.
        unsafe { libc::sigaction(libc::SIGURG, &action, &mut before) };
        if before.sa_flags & libc::SA_SIGINFO != 0 {
            BEFORE.store(before.sa_sigaction as *mut c_void, Ordering::SeqCst);
        }
    });
}

/// Continues an armed thread at its way out; otherwise passes the signal on.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let place = PLACE.get();
    if place.is_null() {
        let before = BEFORE.load(Ordering::SeqCst);
        if !before.is_null() {
            // SAFETY: install_handler stored it only if it was a handler of this very type.
            let before: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(before) };
            before(signal, info, context);
        }
        return;
    }
    // SAFETY: PLACE is set only while its frame lives on this thread's stack (run_chunk), and a
    // handler runs on the thread it interrupts.
    let frame = unsafe { &*place };
    // SAFETY: `run` borrows the interrupt for as long as the frame lives.
    if unsafe { &*frame.stop }.load(Ordering::SeqCst) == 0 {
        return; // late: meant for a run that has ended
    }
    if frame.armed.swap(0, Ordering::SeqCst) == 0 {
        return; // in Rust, not in the kernel: the flag will be seen
    }
    let (leave, place) = (frame.leave.load(Ordering::SeqCst) as usize, place as usize);
    let context: *mut libc::ucontext_t = context.cast();
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: with SA_SIGINFO the kernel passes a valid, writable ucontext.
        let registers = unsafe { &mut (*context).uc_mcontext.gregs };
        // Below the interrupted function's red zone, aligned as at a function's first instruction.
        let stack = ((registers[libc::REG_RSP as usize] - 256) & !15) - 8;
        registers[libc::REG_RSP as usize] = stack;
        registers[libc::REG_RDI as usize] = place as i64;
        registers[libc::REG_RIP as usize] = leave as i64;
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: with SA_SIGINFO the kernel passes a valid, writable ucontext.
        let registers = unsafe { &mut (*context).uc_mcontext };
        registers.sp = (registers.sp - 256) & !15;
        registers.regs[0] = place as u64;
        registers.pc = leave as u64;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = (context, leave, place);
}

/// Stacks for the fibers of one threadgroup, and the scheduler's state before them.
struct Stacks {
    mapping: *mut u8,
    bytes: usize,
    first: *mut u8,
    count: usize,
}

// SAFETY: the mapping belongs to this value alone and is used by one thread at a time.
unsafe impl Send for Stacks {}

impl Stacks {
    fn new(count: usize) -> std::io::Result<Stacks> {
        let bytes = STATE_ROOM_BYTES + (count + 1) * STACK_STRIDE_BYTES;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let mapping = unsafe { libc::mmap(null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let mapping: *mut u8 = mapping.cast();
        let skip =
            (mapping as usize + STATE_ROOM_BYTES).next_multiple_of(STACK_STRIDE_BYTES) - mapping as usize;
        let stacks = Stacks { mapping, bytes, first: mapping.wrapping_add(skip), count };
        let open = |at: *mut u8, bytes: usize| {
            // SAFETY: `at..at + bytes` lies in the mapping made above, on page boundaries.
            match unsafe { libc::mprotect(at.cast(), bytes, libc::PROT_READ | libc::PROT_WRITE) } {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        open(mapping, STATE_ROOM_BYTES)?;
        for i in 0..count {
            let base = stacks.first.wrapping_add(i * STACK_STRIDE_BYTES);
            open(base.wrapping_add(STACK_GUARD_BYTES), STACK_STRIDE_BYTES - STACK_GUARD_BYTES)?;
        }
        Ok(stacks)
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; no fiber runs on it (Lent returned it).
        unsafe { libc::munmap(self.mapping.cast(), self.bytes) };
    }
}

/// The process's stacks that nobody uses now, and how many exist.
struct Shelf {
    free: Vec<Stacks>,
    live: usize,
}

static SHELF: Mutex<Shelf> = Mutex::new(Shelf { free: Vec::new(), live: 0 });
static RETURNED: Condvar = Condvar::new();

/// Stacks out of the shelf, put back when dropped.
struct Lent(Option<Stacks>);

impl Lent {
    /// Takes stacks for `threads` fibers; waits for others' where the process has too many.
    fn take(threads: usize) -> std::io::Result<Lent> {
        let count = threads.next_power_of_two().max(32);
        let mut shelf = SHELF.lock();
        loop {
            let fits =
                shelf.free.iter().enumerate().filter(|(_, s)| s.count >= count).min_by_key(|(_, s)| s.count);
            if let Some((i, _)) = fits {
                return Ok(Lent(Some(shelf.free.swap_remove(i))));
            }
            if shelf.live + count > MAX_STACKS {
                let small = std::mem::take(&mut shelf.free);
                shelf.live -= small.iter().map(|s| s.count).sum::<usize>();
                drop(small);
            }
            if shelf.live + count <= MAX_STACKS {
                shelf.live += count;
                drop(shelf);
                return Stacks::new(count).map(|s| Lent(Some(s))).inspect_err(|_| {
                    SHELF.lock().live -= count;
                    RETURNED.notify_all();
                });
            }
            RETURNED.wait(&mut shelf);
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        SHELF.lock().free.extend(self.0.take());
        RETURNED.notify_one();
    }
}

/// The pointers of a call, shared by the threads that run it.
struct Pointers(Vec<*mut c_void>);

// SAFETY: `run`'s caller promises that the pointers are valid until it returns and that the
// kernel's threads may use them at once.
unsafe impl Sync for Pointers {}

/// Runs a module over `grid` threads in threadgroups of `threadgroup` (cut to the grid; the last
/// ones may be partial), in chunks of threadgroups over `parallel`. An empty grid runs nothing.
///
/// # Errors
/// `Argument` for a threadgroup that is zero or too large, or a grid too large to count;
/// `OutOfMemory` without room for stacks; `Kernel` when interrupted.
///
/// # Safety
/// `args` must be those that the module's `Specialization::args` lists, in that order: valid for
/// the dtypes it was made with, shapes and strides of as many dimensions as the body uses, outputs
/// and mutable inputs not used by anyone else until this returns. The body must stay within them:
/// a kernel is code of the program, and as unsafe as any C++.
pub unsafe fn run(
    module: &Module,
    args: &[Arg<'_>],
    grid: [u32; 3],
    threadgroup: [u32; 3],
    parallel: Parallel<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let place = format_args!("[metal_kernel {}]", module.name).to_string();
    if args.len() != module.args {
        bail!(Internal, "{place} {} arguments bound, the module takes {}", args.len(), module.args);
    }
    let threads: u64 = threadgroup.iter().map(|&t| u64::from(t.min(65536))).product();
    if threads == 0 {
        bail!(Argument, "{place} threadgroup {threadgroup:?} has a zero; each size must be at least 1");
    }
    if threads > u64::from(MAX_THREADS_PER_THREADGROUP) {
        bail!(
            Argument,
            "{place} threadgroup {threadgroup:?} has {threads} threads; at most {MAX_THREADS_PER_THREADGROUP} are possible"
        );
    }
    if grid.contains(&0) {
        return Ok(());
    }
    let group: [u32; 3] = std::array::from_fn(|i| threadgroup[i].min(grid[i]));
    let groups: [u32; 3] = std::array::from_fn(|i| grid[i].div_ceil(group[i]));
    let product = |v: [u32; 3]| v.iter().try_fold(1u64, |p, &x| p.checked_mul(u64::from(x)));
    let (Some(total), Some(all_threads)) = (product(groups), product(grid)) else {
        bail!(Argument, "{place} grid {grid:?} has more than 2^64 threads");
    };
    let chunks = if module.cooperative { total } else { (all_threads / THREADS_PER_CHUNK).min(total) }
        .clamp(1, MAX_CHUNKS);
    let team = (group[0] * group[1] * group[2]) as usize;
    let pointers = Pointers(args.iter().map(Arg::pointer).collect());
    let pointers = &pointers;
    let (interrupted, failed) = (AtomicBool::new(false), Mutex::new(None));
    let chunk = |i: usize| {
        let at = |i: u64| (u128::from(total) * u128::from(i) / u128::from(chunks)) as u64;
        let info = GridInfo {
            grid,
            group,
            groups,
            stacks: 0,
            stop: &interrupt.stop,
            place: null_mut(),
            memory: null_mut(),
            state: null_mut(),
        };
        if interrupt.is_raised() {
            interrupted.store(true, Ordering::Relaxed);
            return;
        }
        let range = at(i as u64)..at(i as u64 + 1);
        match run_chunk(module, pointers, info, range, if module.cooperative { team } else { 0 }, interrupt) {
            Ok(0) => {}
            Ok(_) => interrupted.store(true, Ordering::Relaxed),
            Err(e) => *failed.lock() = Some(e),
        }
    };
    if chunks == 1 {
        chunk(0);
    } else {
        parallel(chunks as usize, &chunk);
    }
    if let Some(e) = failed.into_inner() {
        return Err(err!(OutOfMemory, "{place} no memory for the stacks of {team} threads: {e}"));
    }
    if interrupted.into_inner() {
        bail!(Kernel, "{place} was interrupted; its outputs are incomplete");
    }
    Ok(())
}

fn run_chunk(
    module: &Module,
    pointers: &Pointers,
    mut info: GridInfo,
    groups: std::ops::Range<u64>,
    fibers: usize,
    interrupt: &Interrupt,
) -> std::io::Result<Code> {
    let lent = if fibers > 0 { Some(Lent::take(fibers)?) } else { None };
    if let Some(Lent(Some(stacks))) = &lent {
        info.stacks = fibers as u32;
        info.memory = stacks.first;
        info.state = stacks.mapping;
    }
    let mut frame = Frame {
        armed: AtomicI32::new(0),
        leave: AtomicPtr::new(null_mut()),
        jump: [0; 64],
        stop: &interrupt.stop,
    };
    info.place = &mut frame;
    let _presence = Presence::new(interrupt, info.place);
    // SAFETY: `load` checked that the module follows this version of the ABI; `run`'s caller
    // vouches for the pointers; `info`, its frame and its stacks outlive the call; the entry point
    // neither unwinds nor jumps past itself.
    Ok(unsafe { (module.entry)(pointers.0.as_ptr(), &info, groups.start, groups.end) })
}

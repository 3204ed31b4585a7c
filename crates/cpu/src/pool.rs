//! One pool of threads and one way to use it: [`parallel_for`].
//!
//! The caller takes part; the other threads spin for at most 20 µs after their last job, then
//! park, so an idle process uses no CPU. Chunks are claimed from a counter, and what a chunk
//! computes depends on its number alone, so results never depend on the number of threads.
//!
//! A job lives on its caller's stack. The *gate* is what makes that sound: one atomic word with
//! the job's number, an open bit and the count of workers inside. A worker enters by a
//! compare-and-swap that fails once the gate is closed; the caller closes the gate and waits for
//! the count to reach zero before it returns.

use isopace_core::backend::{self, Interrupted};
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// How long a thread spins for work, or for the others to finish, before it parks.
const SPIN: Duration = Duration::from_micros(20);
/// Threads a pool can ever have, which bounds the count in the gate.
pub const MAX_THREADS: usize = 1024;

const OPEN: u64 = 1 << 15;
const COUNT: u64 = OPEN - 1;
const EPOCH: u64 = 1 << 16;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

struct Job {
    /// The body, its lifetime erased; alive until the caller has seen the gate closed and empty.
    body: *const (dyn Fn(usize) + Sync),
    next: AtomicUsize,
    chunks: usize,
    /// Whether an interrupt ends it: a plan's run waits for it, and is there to catch the unwinding.
    stoppable: bool,
    caller: Thread,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

struct Worker {
    thread: Thread,
    asleep: Arc<AtomicBool>,
}

struct Pool {
    /// job number << 16 | open bit | workers inside
    gate: AtomicU64,
    job: AtomicPtr<Job>,
    /// Held by the thread whose job is running.
    busy: AtomicBool,
    /// Threads that take part, the caller included.
    limit: AtomicUsize,
    workers: Mutex<Vec<Worker>>,
}

thread_local! {
    /// True inside a chunk: nested calls run inline.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn pool() -> &'static Pool {
    static POOL: OnceLock<Pool> = OnceLock::new();
    POOL.get_or_init(|| {
        let wanted = std::env::var("ISOPACE_THREADS").ok().and_then(|v| v.trim().parse().ok()).unwrap_or(0);
        Pool {
            gate: AtomicU64::new(0),
            job: AtomicPtr::new(std::ptr::null_mut()),
            busy: AtomicBool::new(false),
            limit: AtomicUsize::new(resolve(wanted)),
            workers: Mutex::new(Vec::new()),
        }
    })
}

fn resolve(n: usize) -> usize {
    let n = if n == 0 { thread::available_parallelism().map_or(1, |n| n.get()) } else { n };
    n.min(MAX_THREADS)
}

/// Returns how many threads a job may use, the caller included.
pub fn threads() -> usize {
    pool().limit.load(Relaxed)
}

/// Sets how many threads a job may use, the caller included; 0 asks the system (affinity and
/// cgroup quota counted). Jobs already running are not affected.
pub fn set_threads(n: usize) {
    pool().limit.store(resolve(n), Relaxed);
}

/// Calls `f` with every number below `chunks`, on the pool.
///
/// Returns when all calls have returned. A panic in a chunk stops the claiming of further chunks
/// and is raised again here; so does an interrupt of the plan that the calling thread runs, as
/// [`Interrupted`]. Called from inside a chunk, with one chunk, with one thread, or while
/// another thread's job holds the pool, it runs inline and wakes nobody.
pub fn parallel_for(chunks: usize, f: impl Fn(usize) + Sync) {
    let pool = pool();
    let threads = pool.limit.load(Relaxed).min(chunks);
    let inline = threads <= 1 || INSIDE.get() || pool.busy.swap(true, Acquire);
    let stoppable = backend::is_running();
    if inline {
        (0..chunks).for_each(|i| {
            leave_if_interrupted(stoppable);
            f(i);
        });
        return;
    }
    let body: &(dyn Fn(usize) + Sync) = &f;
    let job = Job {
        // SAFETY: only the lifetime is erased; `run` does not return before the gate is closed
        // and empty, and workers touch the job only while they are counted in the gate.
        body: unsafe {
            std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(body)
        },
        next: AtomicUsize::new(0),
        chunks,
        stoppable,
        caller: thread::current(),
        panic: Mutex::new(None),
    };
    pool.run(&job, threads);
    pool.busy.store(false, Release);
    if let Some(p) = job.panic.into_inner().unwrap_or_else(|e| e.into_inner()) {
        resume_unwind(p);
    }
}

/// Ends the jobs of running plans at their next chunk, those to come too, until taken back.
pub fn interrupt(on: bool) {
    INTERRUPTED.store(on, Relaxed);
}

fn leave_if_interrupted(stoppable: bool) {
    if stoppable && INTERRUPTED.load(Relaxed) {
        // Without the panic hook, which would print.
        resume_unwind(Box::new(Interrupted));
    }
}

/// Calls `f(i, chunk)` for every `len`-sized chunk of `out` (the last may be shorter), on the pool.
pub fn for_chunks<T: Send>(out: &mut [T], len: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() {
        return;
    }
    let len = len.max(1);
    let total = out.len();
    let shared = Shared::new(out);
    parallel_for(total.div_ceil(len), |i| {
        let start = i * len;
        // SAFETY: chunk i is [i * len, (i + 1) * len), disjoint from every other chunk's range,
        // and `parallel_for` calls each i once.
        f(i, unsafe { shared.slice(start, len.min(total - start)) });
    });
}

/// A mutable slice that several chunks of a job write at once, each its own part.
pub struct Shared<'a, T> {
    start: *mut T,
    len: usize,
    slice: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through `slice`, whose caller promises disjoint ranges, so sharing the
// handle moves at most a `&mut T` of each element to another thread, which T: Send allows.
unsafe impl<T: Send> Sync for Shared<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    /// Borrows `slice` for the job.
    pub fn new(slice: &'a mut [T]) -> Self {
        Shared { start: slice.as_mut_ptr(), len: slice.len(), slice: std::marker::PhantomData }
    }

    /// The address of the first element; writing through it is under the promise of [`slice`](Self::slice).
    pub fn as_mut_ptr(&self) -> *mut T {
        self.start
    }

    /// Returns the part `[start, start + len)`.
    ///
    /// # Safety
    /// While the returned slice lives, no other call may return a range that overlaps it.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start <= self.len && len <= self.len - start, "range past the end of a shared slice");
        // SAFETY: in bounds by the assertion; the caller promises that ranges do not overlap.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(start), len) }
    }
}

impl Pool {
    fn run(&'static self, job: &Job, threads: usize) {
        self.job.store(std::ptr::from_ref(job).cast_mut(), Relaxed);
        // The holder of `busy` is the only one to open and close; the count is 0 here.
        let epoch = (self.gate.load(Relaxed) / EPOCH + 1) * EPOCH;
        self.gate.store(epoch | OPEN, SeqCst);
        self.wake(threads - 1);
        job.work();
        let mut gate = self.gate.fetch_and(!OPEN, AcqRel) & !OPEN;
        let mut spin = Spin::new();
        while gate & COUNT != 0 {
            if !spin.again() {
                // The last worker to leave unparks us; a stale token only makes the loop go round.
                thread::park();
            }
            gate = self.gate.load(Acquire);
        }
    }

    /// Wakes up to `n` workers, starting those that do not exist yet.
    fn wake(&'static self, n: usize) {
        let mut workers = self.workers.lock().unwrap_or_else(|e| e.into_inner());
        while workers.len() < n {
            let asleep = Arc::new(AtomicBool::new(false));
            let (index, flag) = (workers.len(), asleep.clone());
            let start = move || self.serve(index, &flag);
            let Ok(handle) = thread::Builder::new().name(format!("isopace-{index}")).spawn(start) else {
                break;
            };
            workers.push(Worker { thread: handle.thread().clone(), asleep });
        }
        for w in workers.iter().take(n) {
            if w.asleep.swap(false, SeqCst) {
                w.thread.unpark();
            }
        }
    }

    /// The life of worker `index`.
    fn serve(&self, index: usize, asleep: &AtomicBool) {
        INSIDE.set(true);
        let mut seen = 0;
        let mut spin = Spin::new();
        loop {
            let gate = self.gate.load(SeqCst);
            let fresh = gate & OPEN != 0 && gate / EPOCH != seen && index + 1 < self.limit.load(Relaxed);
            if fresh {
                if self.gate.compare_exchange_weak(gate, gate + 1, AcqRel, Relaxed).is_ok() {
                    seen = gate / EPOCH;
                    // SAFETY: this worker is counted in the gate, so the caller has not returned
                    // and its job is alive until the subtraction below.
                    let job = unsafe { &*self.job.load(Relaxed) };
                    job.work();
                    let caller = job.caller.clone();
                    if self.gate.fetch_sub(1, AcqRel) & (OPEN | COUNT) == 1 {
                        caller.unpark();
                    }
                    spin = Spin::new();
                }
            } else if !spin.again() {
                asleep.store(true, SeqCst);
                let gate = self.gate.load(SeqCst);
                let missed = gate & OPEN != 0 && gate / EPOCH != seen && index + 1 < self.limit.load(Relaxed);
                // `asleep` turns false before an unpark; the token makes an early one count.
                while !missed && asleep.load(SeqCst) {
                    thread::park();
                }
                asleep.store(false, SeqCst);
                spin = Spin::new();
            }
        }
    }
}

impl Job {
    /// Claims and runs chunks until none are left.
    fn work(&self) {
        let was = INSIDE.replace(true);
        // SAFETY: the body is alive while the job is; see `Pool::run`.
        let body = unsafe { &*self.body };
        let result = catch_unwind(AssertUnwindSafe(|| {
            loop {
                let i = self.next.fetch_add(1, Relaxed);
                if i >= self.chunks {
                    break;
                }
                leave_if_interrupted(self.stoppable);
                body(i);
            }
        }));
        if let Err(p) = result {
            self.next.store(self.chunks, Relaxed);
            self.panic.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(p);
        }
        INSIDE.set(was);
    }
}

/// A bounded spin: `again` is false once the time is over.
struct Spin {
    turns: u32,
    until: Option<Instant>,
}

impl Spin {
    fn new() -> Self {
        Spin { turns: 0, until: None }
    }

    fn again(&mut self) -> bool {
        std::hint::spin_loop();
        self.turns += 1;
        if !self.turns.is_multiple_of(16) {
            return true;
        }
        let now = Instant::now();
        now < *self.until.get_or_insert(now + SPIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that change the number of threads hold this.
    static SETTING: Mutex<()> = Mutex::new(());

    #[test]
    fn every_chunk_once() {
        let _hold = SETTING.lock().unwrap();
        for t in [1, 2, 3, 8] {
            set_threads(t);
            for n in [0, 1, 2, 7, 100, 1000] {
                for _ in 0..50 {
                    let hits: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                    parallel_for(n, |i| {
                        hits[i].fetch_add(1, Relaxed);
                    });
                    assert!(hits.iter().all(|h| h.load(Relaxed) == 1), "{t} threads, {n} chunks");
                }
            }
        }
        set_threads(0);
    }

    #[test]
    fn chunks_of_a_slice() {
        let mut v = vec![0usize; 1003];
        for_chunks(&mut v, 10, |i, c| c.iter_mut().enumerate().for_each(|(j, x)| *x = i * 10 + j));
        assert!(v.iter().enumerate().all(|(i, x)| i == *x));
    }

    #[test]
    fn nested_and_from_many_threads() {
        let total = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..200 {
                        parallel_for(8, |_| {
                            parallel_for(4, |_| {
                                total.fetch_add(1, Relaxed);
                            })
                        });
                    }
                });
            }
        });
        assert_eq!(total.load(Relaxed), 4 * 200 * 8 * 4);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives() {
        let _hold = SETTING.lock().unwrap();
        set_threads(3);
        for at in 0..16 {
            let r = catch_unwind(|| parallel_for(16, |i| assert!(i != at, "chunk {i}")));
            let text = *r.unwrap_err().downcast::<String>().unwrap();
            assert!(text.contains(&format!("chunk {at}")), "{text}");
        }
        let n = AtomicUsize::new(0);
        parallel_for(100, |_| {
            n.fetch_add(1, Relaxed);
        });
        assert_eq!(n.load(Relaxed), 100);
        set_threads(0);
    }

    /// Names what a process started by [`alone`] is to do.
    const PART: &str = "ISOPACE_TEST_PART";

    /// Starts the test `name` of this binary in a process of its own, where [`PART`] is set.
    fn alone(name: &str) -> std::process::Child {
        let mut c = std::process::Command::new(std::env::current_exe().unwrap());
        c.args(["--exact", &format!("pool::tests::{name}"), "--test-threads", "1", "--quiet"]);
        c.stdout(std::process::Stdio::null());
        c.env(PART, name).env_remove("ISOPACE_THREADS").spawn().unwrap()
    }

    fn is_alone(name: &str) -> bool {
        std::env::var(PART).is_ok_and(|v| v == name)
    }

    /// Runs jobs of many sizes and checks every one.
    fn jobs(count: usize) {
        for n in (0..count).map(|i| i % 70) {
            let total = AtomicUsize::new(0);
            parallel_for(n, |i| {
                total.fetch_add(i + 1, Relaxed);
            });
            assert_eq!(total.load(Relaxed), n * (n + 1) / 2);
        }
    }

    /// An idle pool uses less than 0.5% of one CPU, once its workers have parked.
    #[test]
    fn idle() {
        if !is_alone("idle") {
            assert!(alone("idle").wait().unwrap().success());
            return;
        }
        let used = || {
            let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the call writes one timespec, and `t` is one.
            assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) }, 0);
            Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
        };
        set_threads(4);
        jobs(1000);
        let start = used();
        thread::sleep(Duration::from_secs(1));
        let spent = used() - start;
        assert!(spent < Duration::from_millis(5), "{spent:?} of CPU time in an idle second");
    }

    /// A process that may use one CPU has a pool of one thread, and more threads than CPUs work too.
    #[test]
    fn one_cpu() {
        if !is_alone("one_cpu") {
            assert!(alone("one_cpu").wait().unwrap().success());
            return;
        }
        // SAFETY: a CPU set is plain bits, for which zeros are a value; the calls read and write this one.
        unsafe {
            let mut all: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&all), &mut all), 0);
            let first = (0..libc::CPU_SETSIZE as usize).find(|&c| libc::CPU_ISSET(c, &all)).unwrap();
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(first, &mut one);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&one), &one), 0);
        }
        assert_eq!(threads(), 1);
        jobs(200);
        set_threads(3);
        jobs(200);
    }

    /// Two processes whose pools want every CPU both finish.
    #[test]
    fn two_processes() {
        if !is_alone("two_processes") {
            let both = [alone("two_processes"), alone("two_processes")];
            assert!(both.into_iter().all(|mut c| c.wait().unwrap().success()));
            return;
        }
        set_threads(thread::available_parallelism().map_or(2, |n| n.get()).max(2));
        jobs(3000);
    }

    /// Workers that parked wake again, many times over.
    #[test]
    fn parked_workers_wake() {
        let _hold = SETTING.lock().unwrap();
        set_threads(2);
        for round in 0..200 {
            if round % 4 == 0 {
                thread::sleep(Duration::from_micros(60));
            }
            let n = AtomicUsize::new(0);
            parallel_for(64, |_| {
                n.fetch_add(1, Relaxed);
            });
            assert_eq!(n.load(Relaxed), 64);
        }
        set_threads(0);
    }
}

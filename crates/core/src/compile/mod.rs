//! `compile`: one plan for every value, a cache that is bounded, and an account of each miss.

mod cache;
mod explain;
mod fold;
mod function;
mod shapeless;
pub(crate) mod trace;
mod tree;

pub use crate::array::Inputs;
use cache::Variant;
pub use explain::{ArgReport, Cause, Explanation, Miss, Stats};
pub use function::{Function, Outputs, Payload, Traced};
pub use trace::is_tracing;
pub use tree::{Container, Leaf, Leaves, Token, Tree};

use crate::array::Array;
use crate::error::Result;
use crate::number::Number;
use crate::scalar::{Cells, Scalar};
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

/// Bytes that the entries of all functions may take together.
pub const MAX_TOTAL_BYTES: usize = 64 << 20;

/// How scalar arguments are treated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScalarMode {
    /// Constant until a second value arrives, symbolic from then on.
    #[default]
    Auto,
    /// Every value is traced by itself.
    Static,
    /// Symbolic from the first call on.
    Symbolic,
}

/// Options of a compiled function.
#[derive(Clone, Debug)]
pub struct Options {
    pub scalars: ScalarMode,
    /// Whether one trace serves other shapes of the same ranks, by extents that follow the arguments'.
    /// It does unless the function read an extent as a number ([`Array::shape`], a slice's bounds, a
    /// mean's count), or an op's inputs do not decide its extents; then each shape is traced by itself.
    pub shapeless: bool,
    /// Guard variants kept for one key.
    pub max_variants: usize,
    /// Entries kept that differ from others in constants alone.
    pub max_static_entries: usize,
    /// Entries kept in all.
    pub max_entries: usize,
    /// Bytes of this function's entries; all functions together have [`MAX_TOTAL_BYTES`].
    pub max_bytes: usize,
    /// The name in plans, messages and statistics.
    pub name: Option<String>,
    /// Retraces caused by one argument before the warning.
    pub warn_after: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            scalars: ScalarMode::Auto,
            shapeless: false,
            max_variants: 8,
            max_static_entries: 64,
            max_entries: 256,
            max_bytes: MAX_TOTAL_BYTES,
            name: None,
            warn_after: 8,
        }
    }
}

/// A compiled function of a tree of arguments.
pub struct Compiled<A, R> {
    function: Arc<Function>,
    body: Box<dyn Fn(A) -> Result<R> + Send + Sync>,
}

/// Compiles a function: it is traced at the first call, and later calls of the same form add one node
/// to the graph and run its plan.
///
/// # The model
/// The **key** of a call is the tree of its arguments, the dtype and shape of each array, and each
/// static value with its type (1, 1.0, true and "1" are four). A [`Scalar`] starts as a constant. When a
/// second value arrives at its place, the function is traced again with it *symbolic*, and one plan
/// serves every value from then on: arithmetic on it runs at each call, and meeting an array it becomes
/// a run-time operand. A comparison ([`Scalar::gt`] and its relatives) records a *guard*; calls that go the other way get a
/// variant of their own. Where the value itself is needed ([`Scalar::value`]), the argument becomes
/// *static*: each value is traced by itself, and [`Compiled::explain`] says where and why.
///
/// A call of a compiled function inside another, or of itself, becomes part of the outer trace.
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, Scalar, compile::compile};
/// let step = compile(|(x, n): (Array, Scalar)| x.multiply(2.0)?.add(&n));
/// let x = Array::from_slice(&[1.0f32, 2.0], [2])?;
/// for n in 0..100 {
///     let y = step.call((x.clone(), Scalar::from(n)))?;
///     assert_eq!(y.to_vec::<f32>()?, [2.0 + n as f32, 4.0 + n as f32]);
/// }
/// assert_eq!(step.stats().traces, 2); // with 0 as a constant, then for every value
/// # Ok::<(), isopace_core::Error>(())
/// ```
///
/// # Guards
/// A comparison is a guard; each way it goes is a variant of the same key, at most
/// [`Options::max_variants`] of them:
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, Scalar, compile::compile};
/// let f = compile(|(x, n): (Array, Scalar)| if n.gt(100)? { x.add(&n) } else { x.subtract(&n) });
/// let x = Array::from_slice(&[1.0f32], [1])?;
/// for n in 0..200 {
///     let want = if n > 100 { 1.0 + n as f32 } else { 1.0 - n as f32 };
///     assert_eq!(f.call((x.clone(), Scalar::from(n)))?.item::<f32>()?, want);
/// }
/// assert_eq!(f.stats().traces, 3); // the constant 0, then one for each side of 100
/// # Ok::<(), isopace_core::Error>(())
/// ```
///
/// # When a scalar becomes static, and how to see it
/// - Its value is taken: [`Scalar::value`] and [`Scalar::int`], which a dimension or a loop count needs.
/// - Tracing with it symbolic fails: the call is traced with the constant, and only that error counts.
/// - Its comparisons go more ways than `max_variants` allows, again and again.
/// - [`Options::scalars`] is [`ScalarMode::Static`].
///
/// [`Compiled::explain`] says which it was, with the place in the program, as data and as text:
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, Scalar, compile::compile};
/// let repeat = compile(|(x, n): (Array, Scalar)| {
///     let mut y = x.clone();
///     for _ in 0..n.int("loop count")? {
///         y = y.add(&x)?;
///     }
///     Ok(y)
/// });
/// let x = Array::from_slice(&[1.0f32], [1])?;
/// for n in 1..4 {
///     assert_eq!(repeat.call((x.clone(), Scalar::from(n)))?.item::<f32>()?, 1.0 + n as f32);
/// }
/// let seen = repeat.explain();
/// assert_eq!((seen.arguments[0].path.as_str(), seen.arguments[0].mode), ("args[1]", "static"));
/// assert!(seen.arguments[0].reason.as_ref().is_some_and(|r| r.contains("loop count")));
/// println!("{seen}");
/// # Ok::<(), isopace_core::Error>(())
/// ```
///
/// After [`Options::warn_after`] retraces that one argument caused, a warning through `tracing` says so,
/// once. The cure is an array: it is known by shape and dtype alone.
///
/// # Shapes
/// Each shape is traced by itself, unless [`Options::shapeless`] asks for one trace:
///
/// ```
/// # isopace_core::reference::init();
/// use isopace_core::{Array, compile::{Options, compile_with}};
/// let f = compile_with(Options { shapeless: true, ..Options::default() }, |x: Array| x.add(1.0)?.sum(0, false));
/// for n in 1..50 {
///     assert_eq!(f.call(Array::from_slice(&vec![1.0f32; n], [n])?)?.item::<f32>()?, 2.0 * n as f32);
/// }
/// assert_eq!((f.stats().traces, f.stats().reshaped), (1, 48));
/// # Ok::<(), isopace_core::Error>(())
/// ```
///
/// # What is kept
/// The `Compiled` owns its cache: it is bounded by [`Options`], and dropping the function, on any
/// thread, frees it. Entries that differ in constants go first, then those used least recently. Threads
/// that miss on one key at one time share a trace; one that fails is not kept. What the function
/// computes from captured arrays alone is computed once, while it is traced.
pub fn compile<A: Tree, R: Tree + Send + Sync + 'static>(
    body: impl Fn(A) -> Result<R> + Send + Sync + 'static,
) -> Compiled<A, R> {
    compile_with(Options::default(), body)
}

/// [`compile`] with options.
pub fn compile_with<A: Tree, R: Tree + Send + Sync + 'static>(
    options: Options,
    body: impl Fn(A) -> Result<R> + Send + Sync + 'static,
) -> Compiled<A, R> {
    Compiled { function: Function::new(std::any::type_name_of_val(&body), options), body: Box::new(body) }
}

impl<A: Tree, R: Tree + Send + Sync + 'static> Compiled<A, R> {
    /// Calls the function: one lazy node for all array results.
    ///
    /// # Errors
    /// What the function returns, and what lowering runs into. An error leaves nothing behind.
    pub fn call(&self, args: A) -> Result<R> {
        if self.function.is_transparent() {
            return (self.body)(args);
        }
        let mut leaves = Leaves::new();
        args.flatten(&mut leaves);
        let mut cells = Cells::new();
        let variant = match self.function.find(&leaves, &mut cells) {
            Some(variant) => variant,
            None => self.trace(&args, &leaves, &mut cells)?,
        };
        drop(leaves);
        let mut arrays = SmallVec::new();
        variant.call(&cells, |inputs| args.take_arrays(inputs), &mut arrays)?;
        arrays.reverse();
        let template = variant
            .payload
            .downcast_ref::<R>()
            .ok_or_else(|| crate::err!(Internal, "[compile] the result has another type than traced"))?;
        template.map(&mut Fill { arrays: &mut arrays, scalars: variant.scalars(&cells).iter() })
    }

    #[cold]
    fn trace(&self, args: &A, leaves: &Leaves<'_>, cells: &mut Cells) -> Result<Arc<Variant>> {
        let mut trace = |arrays: &[Array], scalars: &[Scalar]| {
            let traced =
                (self.body)(args.map(&mut Replace { arrays: arrays.iter(), scalars: scalars.iter() })?)?;
            let mut collect = Collect::default();
            // Kept as a template: its leaves are replaced by each call's.
            let template = traced.map(&mut collect)?;
            Ok(Traced { arrays: collect.arrays, scalars: collect.scalars, payload: Arc::new(template) })
        };
        self.function.find_or_trace(leaves, &mut trace, cells)
    }

    /// The account of hits, misses and their causes.
    pub fn explain(&self) -> Explanation {
        self.function.explain()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        self.function.stats()
    }

    /// Drops every entry.
    pub fn clear_cache(&self) {
        self.function.clear_cache();
    }
}

struct Replace<'a> {
    arrays: std::slice::Iter<'a, Array>,
    scalars: std::slice::Iter<'a, Scalar>,
}

fn missing() -> crate::Error {
    crate::err!(Internal, "[compile] a tree has more leaves when mapped than when flattened")
}

impl Leaf for Replace<'_> {
    fn array(&mut self, _: &Array) -> Result<Array> {
        self.arrays.next().cloned().ok_or_else(missing)
    }
    fn scalar(&mut self, s: &Scalar) -> Result<Scalar> {
        if let Some(b @ crate::Number::Bool(_)) = s.number()? {
            return Ok(b.into());
        }
        self.scalars.next().cloned().ok_or_else(missing)
    }
}

/// Takes the leaves of a result out, leaving placeholders that hold nothing alive.
#[derive(Default)]
struct Collect {
    arrays: Vec<Array>,
    scalars: Vec<Scalar>,
}

impl Leaf for Collect {
    fn array(&mut self, a: &Array) -> Result<Array> {
        self.arrays.push(a.clone());
        Ok(trace::param(u32::MAX - 1, a.aval().clone()))
    }
    fn scalar(&mut self, s: &Scalar) -> Result<Scalar> {
        self.scalars.push(s.clone());
        Ok(Scalar::from(0))
    }
}

/// Puts the leaves of a call in, the arrays from the last one on.
struct Fill<'a> {
    arrays: &'a mut SmallVec<[Array; 4]>,
    scalars: std::slice::Iter<'a, Number>,
}

impl Leaf for Fill<'_> {
    fn array(&mut self, _: &Array) -> Result<Array> {
        self.arrays.pop().ok_or_else(missing)
    }
    fn scalar(&mut self, _: &Scalar) -> Result<Scalar> {
        self.scalars.next().map(|&n| n.into()).ok_or_else(missing)
    }
}

static REGISTRY: Mutex<Vec<Weak<Function>>> = Mutex::new(Vec::new());
static MISS_HOOK: RwLock<Option<fn(&str, &Miss)>> = RwLock::new(None);
/// 0: not read yet; 1: on; 2: off.
static ENABLED: AtomicU8 = AtomicU8::new(0);

fn register(f: &Arc<Function>) {
    let mut r = REGISTRY.lock();
    if r.len() == r.capacity() {
        r.retain(|w| w.strong_count() > 0);
    }
    r.push(Arc::downgrade(f));
}

fn functions() -> Vec<Arc<Function>> {
    REGISTRY.lock().iter().filter_map(Weak::upgrade).collect()
}

/// Accounts of all compiled functions that are alive.
pub fn compile_stats() -> Vec<(String, Stats)> {
    functions().iter().map(|f| (f.name().to_string(), f.stats())).collect()
}

/// Drops every entry of every compiled function.
pub fn clear_cache() {
    functions().iter().for_each(|f| f.clear_cache());
}

/// Switches compiling on or off; off, compiled functions run as they are written. The environment
/// variable ISOPACE_DISABLE_COMPILE switches it off at the start.
pub fn set_enabled(on: bool) {
    ENABLED.store(if on { 1 } else { 2 }, Ordering::Relaxed);
}

/// True unless compiling is switched off.
pub fn enabled() -> bool {
    match ENABLED.load(Ordering::Relaxed) {
        0 => {
            let off = std::env::var_os("ISOPACE_DISABLE_COMPILE").is_some_and(|v| !v.is_empty() && v != "0");
            set_enabled(!off);
            !off
        }
        v => v == 1,
    }
}

/// Has `hook` told of every miss with the function's name. The binary and the Python package print
/// them when ISOPACE_EXPLAIN is set.
pub fn on_miss(hook: fn(&str, &Miss)) {
    *MISS_HOOK.write() = Some(hook);
}

fn announce(name: &str, miss: &Miss) {
    tracing::debug!(target: "isopace::compile", name, %miss, trace_us = miss.trace_us);
    let hook = *MISS_HOOK.read();
    if let Some(hook) = hook {
        hook(name, miss);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod prop_tests;

//! A compiled function: lookup, trace, and the call node.

use super::cache::{Cache, CallHash, Fixed, Mode, Variant};
use super::explain::{Cause, Explanation, Miss, Stats};
use super::fold;
use super::shapeless::Kept;
use super::trace::{capture, is_tracing, with_trace};
use super::tree::Leaves;
use super::{Options, ScalarMode, enabled};
use crate::api::random;
use crate::array::{Array, Inputs, Scalars, next_id, watch_extents};
use crate::aval::Aval;
use crate::error::Result;
use crate::lower::lower;
use crate::number::Number;
use crate::op::{CallOp, Op};
use crate::scalar::{Cells, Scalar, ScalarTrace};
use crate::sync::{Condvar, Mutex};
use crate::{Dtype, err, runtime};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

/// What a traced function gave back: its array and scalar leaves, and whatever the caller needs to
/// put them together again.
pub struct Traced {
    pub arrays: Vec<Array>,
    pub scalars: Vec<Scalar>,
    pub payload: Arc<dyn Any + Send + Sync>,
}

/// The leaves of a call's result.
pub struct Outputs {
    pub arrays: SmallVec<[Array; 4]>,
    pub scalars: SmallVec<[Scalar; 2]>,
    pub payload: Payload,
}

/// What the trace kept to put results together again.
pub struct Payload(Arc<Variant>);

impl Payload {
    /// The payload that the trace gave, if it is of this type.
    #[inline]
    pub fn downcast_ref<T: Any>(&self) -> Option<&T> {
        self.0.payload.downcast_ref()
    }
}

/// The untyped part of a compiled function, which language bindings build on.
pub struct Function {
    name: String,
    options: Options,
    state: Mutex<FunctionState>,
    traced: Condvar,
}

#[derive(Default)]
struct FunctionState {
    cache: Cache,
    /// Calls being traced, so that concurrent misses on one key trace once.
    flights: Vec<u64>,
    warned: bool,
    warning: Option<String>,
}

/// Misses kept for `explain`.
const KEPT_MISSES: usize = 32;

impl Function {
    /// A function with an empty cache. It is listed in [`super::compile_stats`] while it lives.
    pub fn new(name: impl Into<String>, options: Options) -> Arc<Function> {
        let f = Arc::new(Function {
            name: options.name.clone().unwrap_or_else(|| name.into()),
            options,
            state: Mutex::default(),
            traced: Condvar::new(),
        });
        super::register(&f);
        f
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// True when a call now would run the function itself: compiling is off, or this thread is
    /// tracing another function, into which this one is inlined.
    pub fn is_transparent(&self) -> bool {
        is_tracing() || !enabled()
    }

    /// Answers a call, tracing it first if need be. `trace` gets placeholders for the array and
    /// scalar leaves, in order; it may run twice.
    ///
    /// # Errors
    /// What `trace` returns, and what lowering runs into.
    pub fn call(
        &self,
        mut leaves: Leaves<'_>,
        trace: &mut dyn FnMut(&[Array], &[Scalar]) -> Result<Traced>,
    ) -> Result<Outputs> {
        match self.hit(&mut leaves) {
            Some(out) => out,
            None => self.after_miss(leaves, trace),
        }
    }

    /// The plan for a call and its cells, if it is there. Runs none of the user's code and waits for
    /// nobody. After `None`, [`Function::after_miss`] must follow.
    #[inline]
    pub(super) fn find(&self, leaves: &Leaves<'_>, cells: &mut Cells) -> Option<Arc<Variant>> {
        if leaves.failed.is_some() {
            return None;
        }
        let mut s = self.state.lock();
        s.cache.stats.calls += 1;
        let variant = match s.cache.find_last(leaves, cells) {
            Some(v) => v,
            None => s.cache.find(leaves, &CallHash::new(leaves), cells).ok()?,
        };
        s.cache.stats.hits += 1;
        Some(variant)
    }

    /// Answers a call whose plan is there, taking the arrays out of `leaves`. Runs none of the user's
    /// code and waits for nobody. After `None`, [`Function::after_miss`] must follow.
    pub fn hit(&self, leaves: &mut Leaves<'_>) -> Option<Result<Outputs>> {
        let mut cells = Cells::new();
        let variant = self.find(leaves, &mut cells)?;
        Some(variant.outputs(&cells, leaves))
    }

    /// Traces a call that [`Function::hit`] had no plan for. It may wait for another thread's trace:
    /// a binding calls it without its interpreter's lock and takes that inside `trace`.
    ///
    /// # Errors
    /// As [`Function::call`].
    pub fn after_miss(
        &self,
        mut leaves: Leaves<'_>,
        trace: &mut dyn FnMut(&[Array], &[Scalar]) -> Result<Traced>,
    ) -> Result<Outputs> {
        let mut cells = Cells::new();
        let variant = self.find_or_trace(&leaves, trace, &mut cells)?;
        variant.outputs(&cells, &mut leaves)
    }

    pub(super) fn find_or_trace(
        &self,
        leaves: &Leaves<'_>,
        trace: &mut dyn FnMut(&[Array], &[Scalar]) -> Result<Traced>,
        cells: &mut Cells,
    ) -> Result<Arc<Variant>> {
        if let Some(e) = &leaves.failed {
            return Err(e.clone());
        }
        let call = &CallHash::new(leaves);
        let flight = call.flight();
        let mut s = self.state.lock();
        // Looked up and taken off under one lock, or a trace that lands in between would be repeated.
        let cause = loop {
            match s.cache.find(leaves, call, cells) {
                Ok(variant) => {
                    s.cache.stats.hits += 1;
                    return Ok(variant);
                }
                Err(cause) if !s.flights.contains(&flight) => break cause,
                Err(_) => self.traced.wait(&mut s),
            }
        };
        s.flights.push(flight);
        s.cache.stats.misses += 1;
        let armed = s.cache.arm(leaves, call, &cause, &self.options);
        let forced = matches!(cause, Cause::Program { .. });
        let symbolic: SmallVec<[bool; 4]> =
            armed.iter().map(|a| !forced && matches!(a.mode, Mode::Symbolic)).collect();
        let fixed = |pins: &[(usize, String)]| -> Fixed {
            let numbers = leaves.scalars.iter().enumerate();
            let key = |i: usize| !symbolic[i] || pins.iter().any(|(p, _)| *p == i);
            numbers.map(|(i, n)| key(i).then_some(*n)).collect()
        };
        let like =
            if self.options.shapeless { s.cache.other_shapes(leaves, &fixed(&[])) } else { Vec::new() };
        drop(s);
        // The flight must end on unwinding too.
        struct Land<'a>(&'a Function, u64);
        impl Drop for Land<'_> {
            fn drop(&mut self) {
                self.0.state.lock().flights.retain(|f| *f != self.1);
                self.0.traced.notify_all();
            }
        }
        let land = Land(self, flight);

        let start = Instant::now();
        let mut pins: Vec<(usize, String)> = Vec::new();
        let reshaped = self.reshape(&like, leaves);
        drop(like);
        let traces = reshaped.is_none() as u64;
        let mut made = match reshaped {
            Some(variant) => Ok(variant),
            None => self.trace(leaves, &symbolic, trace, &mut pins),
        };
        if let Err(e) = &made
            && symbolic.contains(&true)
        {
            // A program that works uncompiled works compiled: once more with the constants.
            let text = format!("tracing it as symbolic failed: {e}");
            let constants: SmallVec<[bool; 4]> = symbolic.iter().map(|_| false).collect();
            pins.clear();
            made = self.trace(leaves, &constants, trace, &mut pins);
            if made.is_ok() {
                pins = symbolic
                    .iter()
                    .enumerate()
                    .filter(|(_, s)| **s)
                    .map(|(i, _)| (i, text.clone()))
                    .collect();
            }
        }
        let trace_us = start.elapsed().as_secs_f64() * 1e6;
        let mut s = self.state.lock();
        let cache = &mut s.cache;
        cache.stats.traces += traces;
        cache.stats.reshaped += 1 - traces;
        cache.stats.trace_us += trace_us;
        let variant = match made {
            Ok(v) => v,
            Err(e) => {
                cache.stats.failed += 1;
                return Err(e);
            }
        };
        for (arg, reason) in &pins {
            cache.pin(call, *arg, reason);
        }
        let (variant, gone) = cache.insert(leaves, call, &fixed(&pins), variant, &self.options);
        let ran = variant.program.run(&leaves.scalars, cells);
        let miss = self.record(&mut s, call, cause, trace_us);
        drop(s);
        drop(land);
        drop(gone);
        super::announce(&self.name, &miss);
        match ran {
            Ok(()) => Ok(variant),
            Err(m) => Err(err!(Internal, "[compile] a fresh trace of {} does not hold: {m:?}", self.name)),
        }
    }

    fn record(&self, s: &mut FunctionState, call: &CallHash, cause: Cause, trace_us: f64) -> Miss {
        let cache = &mut s.cache;
        let arg = match &cause {
            Cause::Varies { arg, .. } | Cause::Static { arg, .. } => Some(*arg),
            _ => None,
        };
        let miss =
            Miss { call: cache.stats.calls, argument: arg.map(|a| cache.path(call, a)), cause, trace_us };
        if cache.misses.len() == KEPT_MISSES {
            cache.misses.pop_front();
        }
        cache.misses.push_back(miss.clone());
        let retraced =
            arg.and_then(|a| cache.retraces(call, a)).filter(|a| a.retraces >= self.options.warn_after);
        if let (Some(a), false) = (retraced, s.warned) {
            let seen: Vec<_> = a.seen.iter().map(|n| n.to_string()).collect();
            let reason = match &a.mode {
                Mode::Static { reason } => reason.as_str(),
                _ => "it is treated as a constant",
            };
            let text = format!(
                "compiled function `{}` was traced {} times because {} changes (last values {}): {reason}; \
                 pass it as an array, or leave its value to the arrays it meets, so that one trace serves all values",
                self.name,
                a.retraces,
                miss.argument.as_deref().unwrap_or("an argument"),
                seen.join(", "),
            );
            tracing::warn!(target: "isopace::compile", "{text}");
            s.warned = true;
            s.warning = Some(text);
        }
        miss
    }

    /// The warning about repeated traces, once.
    pub fn take_warning(&self) -> Option<String> {
        self.state.lock().warning.take()
    }

    fn trace(
        &self,
        leaves: &Leaves<'_>,
        symbolic: &[bool],
        trace: &mut dyn FnMut(&[Array], &[Scalar]) -> Result<Traced>,
        pins: &mut Vec<(usize, String)>,
    ) -> Result<Variant> {
        let since = next_id();
        let scalars = ScalarTrace::new();
        let args: Vec<Scalar> = leaves
            .scalars
            .iter()
            .enumerate()
            .map(|(i, &n)| if symbolic[i] { scalars.arg(i as u32, n) } else { n.into() })
            .collect();
        let mut avals: Vec<Aval> = leaves.arrays.iter().map(|a| a.aval().clone()).collect();
        let params: Vec<Array> =
            avals.iter().enumerate().map(|(i, a)| super::trace::param(i as u32, a.clone())).collect();
        let ((traced, frame), read) = watch_extents(|| with_trace(|| trace(&params, &args)));
        let Traced { arrays: mut roots, scalars: scalar_outs, payload } = traced?;
        let random = frame.key.is_some();
        if let Some(key) = frame.key {
            avals.push(Aval::new([2], Dtype::U32));
            roots.push(key);
        }
        if let Some(a) = roots.iter().find(|a| a.aval().valid.is_some()) {
            return Err(err!(
                Trace,
                "[compile] the result {:?} has a length that changes from call to call",
                a.aval()
            ));
        }
        let mut captured = capture(&roots, &avals, since)?;
        let folded_bytes = fold::run(&mut captured);
        runtime::eval(&captured.leaves)?;
        let constants = captured.leaves.iter().map(|l| l.value()).collect::<Result<Vec<_>>>()?;
        for c in scalars.concretized() {
            for &arg in &c.args {
                pins.push((arg as usize, format!("its value was needed at {} ({})", c.place, c.reason)));
            }
        }
        let n_cells = captured.cells.len();
        let mut outs = captured.cells;
        outs.extend(scalar_outs.iter().map(|s| (s.clone(), None)));
        let program = scalars.program(&outs)?;
        let kept = (self.options.shapeless && !read)
            .then(|| Arc::new(Kept::new(captured.graph.clone(), constants.clone())));
        let plan = lower(captured.graph, constants, &**runtime::backend()?, &self.name)?;
        debug_assert_eq!(program.cells(), n_cells + scalar_outs.len());
        Ok(Variant {
            plan: Arc::new(plan),
            program,
            avals: roots.iter().map(|r| r.aval().clone()).collect(),
            scalars: scalar_outs.len(),
            random,
            payload,
            kept,
            nbytes: folded_bytes,
        }
        .counted())
    }

    /// A variant that differs in extents alone from the call, made to fit it. Where none can be, a trace
    /// gives the plan or the error.
    fn reshape(&self, like: &[Arc<Variant>], leaves: &Leaves<'_>) -> Option<Variant> {
        let args: SmallVec<[Aval; 4]> = leaves.arrays.iter().map(|a| a.aval().clone()).collect();
        let mut cells = Cells::new();
        like.iter().find_map(|v| {
            cells.clear();
            v.program.run(&leaves.scalars, &mut cells).ok()?;
            let kept = v.kept.clone()?;
            let graph = kept.follow(&args)?;
            let avals = graph.outputs.iter().map(|&r| graph.aval(r).clone()).collect();
            let plan = lower(graph, kept.constants.clone(), &**runtime::backend().ok()?, &self.name).ok()?;
            let (program, payload) = (v.program.clone(), v.payload.clone());
            let (scalars, random) = (v.scalars, v.random);
            let (plan, kept) = (Arc::new(plan), Some(kept));
            Some(Variant { plan, program, avals, scalars, random, payload, kept, nbytes: 0 }.counted())
        })
    }

    /// The account of this function.
    pub fn explain(&self) -> Explanation {
        let s = self.state.lock();
        Explanation {
            name: self.name.clone(),
            stats: stats(&s.cache),
            arguments: s.cache.reports(),
            misses: s.cache.misses.iter().cloned().collect(),
        }
    }

    /// Counters of this function.
    pub fn stats(&self) -> Stats {
        stats(&self.state.lock().cache)
    }

    /// The plan used last.
    #[cfg(test)]
    pub(super) fn last_plan(&self) -> Option<Arc<crate::plan::Plan>> {
        self.state.lock().cache.last_plan()
    }

    /// Drops every entry and what is remembered of the arguments; counters stay.
    pub fn clear_cache(&self) {
        let gone = self.state.lock().cache.clear();
        drop(gone);
    }
}

fn stats(c: &Cache) -> Stats {
    Stats { entries: c.entries(), variants: c.variants(), nbytes: c.nbytes, ..c.stats }
}

impl Variant {
    /// A call as one lazy node, its results appended to `outs`. `fill` gives its arrays, `cells` are
    /// what its scalar program gave.
    #[inline]
    pub(super) fn call(
        &self,
        cells: &[Number],
        fill: impl FnOnce(&mut Inputs),
        outs: &mut SmallVec<[Array; 4]>,
    ) -> Result<()> {
        if self.avals.is_empty() {
            return Ok(());
        }
        let node = |key: Option<Array>, outs: &mut _| {
            let op = Op::Call(CallOp(self.plan.clone()));
            let fill = |inputs: &mut Inputs, scalars: &mut Scalars| {
                fill(inputs);
                inputs.extend(key);
                for &n in &cells[..cells.len() - self.scalars] {
                    scalars.push(n.into());
                }
            };
            Array::lazy_filled(op, self.avals.clone(), fill, outs);
        };
        if !self.random {
            node(None, outs);
            return Ok(());
        }
        random::with_state(|key| {
            node(Some(key), outs);
            let key = outs.pop().ok_or_else(|| err!(Internal, "[compile] the random key is missing"))?;
            Ok((key, ()))
        })
    }

    /// The scalars among a call's results.
    #[inline]
    pub(super) fn scalars<'a>(&self, cells: &'a [Number]) -> &'a [Number] {
        &cells[cells.len() - self.scalars..]
    }

    fn outputs(self: Arc<Variant>, cells: &[Number], leaves: &mut Leaves<'_>) -> Result<Outputs> {
        let mut arrays = SmallVec::new();
        self.call(cells, |inputs| leaves.take_arrays(inputs), &mut arrays)?;
        let scalars = self.scalars(cells).iter().map(|&n| n.into()).collect();
        Ok(Outputs { arrays, scalars, payload: Payload(self) })
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "compiled {}", self.name)
    }
}

impl ScalarMode {
    pub(crate) fn first(self, n: Number) -> Mode {
        match self {
            ScalarMode::Auto => Mode::First(n),
            ScalarMode::Symbolic => Mode::Symbolic,
            ScalarMode::Static => {
                Mode::Static { reason: "the function was compiled with scalars = Static".into() }
            }
        }
    }
}

//! Arrays: handles on lazy nodes.
//!
//! A node is Lazy, Scheduled, Ready or Failed and only moves forward. A Ready node has dropped its
//! inputs. Lazy nodes move on under the runtime's claim lock alone (`runtime.rs` upholds this).

use crate::aval::Aval;
use crate::backend::Value;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::runtime::Run;
use crate::scalar::Scalar;
use crate::shape::Shape;
use crate::{Dtype, Element, bail, err, runtime};
use parking_lot::Mutex;
use smallvec::{SmallVec, smallvec};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Arrays that a node reads.
pub type Inputs = SmallVec<[Array; 3]>;
pub(crate) type Scalars = SmallVec<[Scalar; 2]>;

/// An n-dimensional array whose elements are computed when they are first needed.
///
/// Cloning is cheap and shares the array. Operations build new arrays and return `Result`; nothing is
/// computed before [`Array::eval`] or a method that reads elements. Arrays may be used from any thread.
#[derive(Clone)]
pub struct Array(Arc<Node>);

pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) scalars: Scalars,
    results: Results,
    /// Order of creation; tells what existed before a trace began.
    pub(crate) id: u64,
    /// Epoch (high half) and index (low half) of the last walk; guarded by the claim lock.
    pub(crate) mark: AtomicU64,
    pub(crate) state: Mutex<State>,
}

/// A node's place among results.
enum Results {
    /// It makes one, which its state holds.
    One(Aval),
    /// Likewise; the aval is shared with every call of a compiled function.
    Shared(Arc<[Aval]>),
    /// It makes several. Each has a node of its own, owned by its handles alone, so that a result goes with
    /// its last handle, whatever becomes of the others.
    Several(Arc<[Aval]>, Box<[Mutex<Weak<Node>>]>),
    /// It is one of several results of another node; its state becomes ready, or stays lazy.
    Part(Arc<Node>, u32),
    /// It is being dropped.
    None,
}

pub(crate) enum State {
    Lazy(Inputs),
    Scheduled(Arc<Run>),
    /// With the value of a node's one result; several are in their parts.
    Ready(Option<Value>),
    Failed(Error),
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The id that the next node gets, at least.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.load(Ordering::Relaxed)
}

impl Node {
    fn new(op: Op, scalars: Scalars, results: Results, state: State) -> Node {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Node { op, scalars, results, id, mark: AtomicU64::new(0), state: Mutex::new(state) }
    }

    /// What its results have to show.
    #[inline]
    pub(crate) fn avals(&self) -> &[Aval] {
        match &self.results {
            Results::One(aval) => std::slice::from_ref(aval),
            Results::Shared(avals) | Results::Several(avals, _) => avals,
            Results::Part(node, out) => std::slice::from_ref(&node.avals()[*out as usize]),
            Results::None => &[],
        }
    }

    /// How many handles there are on a result, apart from the one through which this is asked.
    pub(crate) fn handles(self: &Arc<Node>, out: u32) -> usize {
        match &self.results {
            Results::Several(_, parts) => parts[out as usize].lock().strong_count(),
            _ => Arc::strong_count(self) - 1,
        }
    }

    /// Ends the node's computation with the next outcomes, one for each of these results. Those that nobody
    /// can ask for any more go at once.
    pub(crate) fn finish(&self, outs: &[u32], outcomes: &mut impl Iterator<Item = Result<Value>>) {
        let mut next = || outcomes.next().unwrap_or_else(|| Err(err!(Internal, "[eval] too few results")));
        let new = match &self.results {
            Results::Several(_, parts) => {
                let mut state = State::Ready(None);
                for &out in outs {
                    let part = parts[out as usize].lock().upgrade();
                    match (next(), part) {
                        (Ok(value), Some(part)) => *part.state.lock() = State::Ready(Some(value)),
                        (Ok(_), None) => (),
                        (Err(e), _) => state = State::Failed(e),
                    }
                }
                state
            }
            _ => next().map_or_else(State::Failed, |value| State::Ready(Some(value))),
        };
        let old = std::mem::replace(&mut *self.state.lock(), new);
        drop(old);
    }

    /// Hands over, one by one, what the node keeps alive.
    #[inline]
    fn release(&mut self, mut to: impl FnMut(Array)) {
        if let Results::Part(..) = self.results {
            if let Results::Part(node, _) = std::mem::replace(&mut self.results, Results::None) {
                to(Array(node));
            }
        } else if let State::Lazy(inputs) = self.state.get_mut() {
            while let Some(a) = inputs.pop() {
                to(a);
            }
        }
    }
}

impl Drop for Node {
    /// Drops chains of lazy nodes without recursion, whoever else drops parts of them meanwhile: of those
    /// who hold a node, `Arc::into_inner` gives it to exactly one.
    fn drop(&mut self) {
        // Nothing is allocated unless an input that nobody else holds keeps others alive.
        let mut rest: Vec<Array> = Vec::new();
        let free = |Array(node), rest: &mut Vec<Array>| {
            if let Some(mut node) = Arc::into_inner(node) {
                node.release(|a| rest.push(a));
            }
        };
        self.release(|a| free(a, &mut rest));
        while let Some(a) = rest.pop() {
            free(a, &mut rest);
        }
    }
}

crate::sync::thread_local! {
    /// Whether extents of a lazy array have been read, while somebody asks.
    static EXTENTS_READ: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Runs `f` and tells whether it read, as numbers, the extents of an array without a value. Functions
/// whose results' extents follow from their op look at [`Array::aval`] and are not counted.
pub(crate) fn watch_extents<T>(f: impl FnOnce() -> T) -> (T, bool) {
    struct Restore(Option<bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            EXTENTS_READ.with(|read| read.set(self.0));
        }
    }
    let restore = Restore(EXTENTS_READ.with(|read| read.replace(Some(false))));
    let out = f();
    let read = EXTENTS_READ.with(Cell::get) == Some(true);
    drop(restore);
    (out, read)
}

impl Array {
    /// A lazy node with one result.
    #[inline]
    pub(crate) fn lazy(op: Op, inputs: Inputs, scalars: Scalars, aval: Aval) -> Array {
        Array(Arc::new(Node::new(op, scalars, Results::One(aval), State::Lazy(inputs))))
    }

    /// A lazy node with several results.
    pub(crate) fn lazy_many(
        op: Op,
        inputs: Inputs,
        scalars: Scalars,
        avals: Arc<[Aval]>,
    ) -> SmallVec<[Array; 4]> {
        let mut outs = SmallVec::new();
        let fill = |to: &mut Inputs, s: &mut Scalars| {
            *to = inputs;
            *s = scalars;
        };
        Array::lazy_filled(op, avals, fill, &mut outs);
        outs
    }

    /// [`Array::lazy_many`] with what `fill` puts in as inputs and scalars, appended to `outs`. They are
    /// written where they stay: moving them around costs more than all else in a call of a compiled function.
    #[inline]
    pub(crate) fn lazy_filled(
        op: Op,
        avals: Arc<[Aval]>,
        fill: impl FnOnce(&mut Inputs, &mut Scalars),
        outs: &mut SmallVec<[Array; 4]>,
    ) {
        let n = avals.len() as u32;
        let results = match n {
            1 => Results::Shared(avals),
            _ => Results::Several(avals, (0..n).map(|_| Mutex::default()).collect()),
        };
        let mut node = Arc::new(Node::new(op, Scalars::new(), results, State::Lazy(Inputs::new())));
        if let Some(Node { scalars, state, .. }) = Arc::get_mut(&mut node)
            && let State::Lazy(inputs) = state.get_mut()
        {
            fill(inputs, scalars);
        }
        outs.extend((1..n).map(|out| Array::of(node.clone(), out - 1)));
        if n > 0 {
            outs.push(Array::of(node, n - 1));
        }
    }

    /// A handle on a result of a node.
    #[inline]
    pub(crate) fn of(node: Arc<Node>, out: u32) -> Array {
        let Results::Several(_, parts) = &node.results else { return Array(node) };
        let mut part = parts[out as usize].lock();
        if let Some(part) = part.upgrade() {
            return Array(part);
        }
        let results = Results::Part(node.clone(), out);
        let new = Arc::new(Node::new(node.op.clone(), Scalars::new(), results, State::Lazy(Inputs::new())));
        *part = Arc::downgrade(&new);
        Array(new)
    }

    /// The node that computes it.
    #[inline]
    pub(crate) fn node(&self) -> &Arc<Node> {
        match &self.0.results {
            Results::Part(node, _) => node,
            _ => &self.0,
        }
    }

    /// The node of this result alone: the one that computes it, or its part.
    #[inline]
    pub(crate) fn own(&self) -> &Arc<Node> {
        &self.0
    }

    /// Which result of the node it is.
    #[inline]
    pub(crate) fn out(&self) -> u32 {
        match self.0.results {
            Results::Part(_, out) => out,
            _ => 0,
        }
    }

    /// A computed array.
    pub fn ready(value: Value, dtype: Dtype) -> Array {
        let aval = Aval::new(value.layout.shape.clone(), dtype);
        let state = State::Ready(Some(value));
        Array(Arc::new(Node::new(Op::Contiguous, smallvec![], Results::One(aval), state)))
    }

    /// An array of these elements in row-major order.
    ///
    /// # Errors
    /// `Shape` when the count does not fit the shape, `OutOfMemory`, or `Device` before a device is set.
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let a = Array::from_slice(&[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(a.shape().to_vec(), [2, 2]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>) -> Result<Array> {
        Array::from_bytes(bytemuck::cast_slice(data), shape, T::DTYPE)
    }

    /// An array of elements given as their bytes, in row-major order. A bool is one byte, 0 or 1.
    ///
    /// # Errors
    /// As [`Array::from_slice`].
    pub fn from_bytes(bytes: &[u8], shape: impl Into<Shape>, dtype: Dtype) -> Result<Array> {
        let aval = Aval::new(shape.into().checked("array")?, dtype);
        if aval.nbytes() != bytes.len() {
            bail!(
                Shape,
                "[array] {} bytes do not fill shape {:?} of {dtype}, which takes {}",
                bytes.len(),
                aval.shape,
                aval.nbytes()
            );
        }
        let buffer = runtime::backend()?.upload(bytes)?;
        Ok(Array::ready(Value::contiguous(buffer, &aval), dtype))
    }

    #[inline]
    pub(crate) fn aval(&self) -> &Aval {
        match &self.0.results {
            Results::One(aval) => aval,
            _ => &self.0.avals()[0],
        }
    }

    /// Extents, outermost first.
    ///
    /// Read inside of a compiled function, they bind its trace to these extents
    /// ([`crate::compile::Options::shapeless`]).
    #[inline]
    pub fn shape(&self) -> &Shape {
        if EXTENTS_READ.with(Cell::get).is_some() {
            self.note_extents_read();
        }
        &self.aval().shape
    }

    /// Extents of an array that has its value are the same in every call. A state that is locked, by this
    /// thread or another, counts as without one: waiting here could wait for oneself.
    #[cold]
    fn note_extents_read(&self) {
        let state = self.node().state.try_lock();
        if !state.is_some_and(|state| matches!(*state, State::Ready(_))) {
            EXTENTS_READ.with(|read| read.set(Some(true)));
        }
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.aval().dtype
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.aval().shape.len()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape().elems()
    }

    /// Bytes of the elements.
    pub fn nbytes(&self) -> usize {
        self.size() * self.dtype().size()
    }

    /// Extent of an axis, which may count from the end.
    ///
    /// # Errors
    /// `Axis` when there is no such axis.
    pub fn dim(&self, axis: i64) -> Result<usize> {
        Ok(self.shape()[crate::shape::axis(axis, self.ndim(), "dim")?])
    }

    /// True when the elements are computed.
    pub fn is_ready(&self) -> bool {
        matches!(*self.node().state.lock(), State::Ready(_))
    }

    /// True when both are the same array, not only equal.
    pub fn same(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Computes the elements.
    ///
    /// # Errors
    /// Whatever a step that it depends on ran into, every time it is asked.
    pub fn eval(&self) -> Result<()> {
        runtime::eval(std::slice::from_ref(self))
    }

    /// The value, after evaluating.
    ///
    /// # Errors
    /// As [`Array::eval`].
    pub fn value(&self) -> Result<Value> {
        if let Some(outcome) = self.outcome() {
            return outcome;
        }
        self.eval()?;
        self.outcome()
            .unwrap_or_else(|| Err(err!(Internal, "[eval] the array is not ready after evaluation")))
    }

    /// The value or why there is none, once the node's computation has ended.
    pub(crate) fn outcome(&self) -> Option<Result<Value>> {
        match &*self.node().state.lock() {
            State::Ready(value) => {
                let gone = || err!(Internal, "[eval] result {} of {} is gone", self.out(), self.0.op.name());
                let value = match (&self.0.results, value) {
                    (Results::Part(..), _) => self.part_value(),
                    (_, value) => value.clone(),
                };
                Some(value.ok_or_else(gone))
            }
            State::Failed(e) => Some(Err(e.clone())),
            _ => None,
        }
    }

    fn part_value(&self) -> Option<Value> {
        match &*self.0.state.lock() {
            State::Ready(value) => value.clone(),
            _ => None,
        }
    }

    /// The bytes of the elements in row-major order, after evaluating.
    ///
    /// # Errors
    /// As [`Array::eval`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.with_bytes(<[u8]>::to_vec)
    }

    /// The elements in row-major order, after evaluating.
    ///
    /// # Errors
    /// `Dtype` when `T` is not the element type; as [`Array::eval`].
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let a = Array::from_slice(&[1i32, 2, 3], [3])?;
    /// assert_eq!(a.add(&a)?.to_vec::<i32>()?, [2, 4, 6]);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.with_slice(<[T]>::to_vec)
    }

    /// Lends the elements in row-major order, after evaluating: without a copy where the device's memory
    /// is the host's and holds them so.
    ///
    /// # Errors
    /// As [`Array::to_vec`].
    ///
    /// ```
    /// # isopace_core::reference::init();
    /// use isopace_core::Array;
    /// let a = Array::from_slice(&[1i32, 2, 3], [3])?;
    /// assert_eq!(a.with_slice(|x: &[i32]| x.iter().sum::<i32>())?, 6);
    /// # Ok::<(), isopace_core::Error>(())
    /// ```
    pub fn with_slice<T: Element, R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        if T::DTYPE != self.dtype() {
            bail!(Dtype, "[to_vec] the array is {}, asked for {}", self.dtype(), T::DTYPE);
        }
        self.with_bytes(|bytes| match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => f(elements),
            // The device gave bytes that are not aligned.
            Err(_) => {
                f(&Vec::from_iter(bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)))
            }
        })
    }

    fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let value = self.value()?;
        let (mut f, mut result) = (Some(f), None);
        runtime::backend()?.lend(&value, self.dtype(), &mut |bytes| result = f.take().map(|f| f(bytes)))?;
        result.ok_or_else(|| err!(Internal, "[eval] the device lent no bytes"))
    }

    /// The one element.
    ///
    /// # Errors
    /// `Shape` unless there is exactly one element; as [`Array::to_vec`].
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.size() != 1 {
            bail!(Shape, "[item] shape {:?} has {} elements; accepted: one", self.shape(), self.size());
        }
        Ok(self.to_vec::<T>()?[0])
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.node().state.lock() {
            State::Lazy(_) => "lazy ",
            State::Scheduled(_) => "scheduled ",
            State::Ready(_) => "",
            State::Failed(_) => "failed ",
        };
        write!(f, "{state}{} {:?}", self.0.op.name(), self.aval())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Grouping, arange, quantize};
    use crate::op::QuantMode;

    /// Codes, scales and biases: one node with three results.
    fn three() -> Vec<Array> {
        crate::reference::init();
        let w = arange(0, 64, 1, Some(Dtype::F32)).unwrap().reshape([2, 32]).unwrap();
        quantize(&w, Grouping { group: 32, bits: 4, mode: QuantMode::Affine }, None).unwrap()
    }

    #[test]
    fn a_result_goes_with_its_last_handle() {
        let mut outs = three();
        outs[0].eval().unwrap();
        let codes = outs.remove(0);
        let buffer = Arc::downgrade(&codes.value().unwrap().buffer);
        let again = codes.clone();
        drop(codes);
        assert!(buffer.upgrade().is_some() && !again.to_bytes().unwrap().is_empty());
        drop(again);
        assert!(buffer.upgrade().is_none());
        assert!(outs.iter().all(|a| a.to_bytes().is_ok()));
    }

    #[test]
    fn a_result_that_nobody_can_ask_for_is_not_kept() {
        let mut outs = three();
        let node = outs[0].node().clone();
        let biases = outs.pop().unwrap();
        drop(outs);
        biases.eval().unwrap();
        let kept = |out| Array::of(node.clone(), out).part_value().is_some();
        assert_eq!([kept(0), kept(1), kept(2)], [false, false, true]);
    }

    #[test]
    fn threads_that_drop_a_long_chain_do_not_recurse() {
        crate::reference::init();
        for _ in 0..20 {
            let mut chain = vec![Array::from_slice(&[1.0f32], [1]).unwrap()];
            for _ in 0..100_000 {
                chain.push(chain[chain.len() - 1].add(1.0).unwrap());
            }
            // Both hold the whole chain; whichever comes second to a node goes on with its inputs.
            let (a, b) = (chain.last().cloned(), chain.last().cloned());
            drop(chain);
            std::thread::scope(|s| {
                s.spawn(|| drop(a));
                s.spawn(|| drop(b));
            });
        }
    }
}

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
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Arrays that a node reads.
pub type Inputs = SmallVec<[Array; 3]>;
pub(crate) type Scalars = SmallVec<[Scalar; 2]>;

/// What a node's results are: one of its own, or shared with every call of a compiled function.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Avals {
    One(Aval),
    Shared(Arc<[Aval]>),
}

impl std::ops::Deref for Avals {
    type Target = [Aval];
    #[inline]
    fn deref(&self) -> &[Aval] {
        match self {
            Avals::One(a) => std::slice::from_ref(a),
            Avals::Shared(a) => a,
        }
    }
}
/// Results of a node; one that nobody can ask for any more is gone.
pub(crate) type Values = SmallVec<[Option<Value>; 1]>;

/// An n-dimensional array whose elements are computed when they are first needed.
///
/// Cloning is cheap and shares the array. Operations build new arrays and return `Result`; nothing is
/// computed before [`Array::eval`] or a method that reads elements. Arrays may be used from any thread.
pub struct Array {
    pub(crate) node: Arc<Node>,
    /// Which result of the node, and [`COUNTED`] for one of several.
    out: u32,
}

/// Marks a handle on one of several results: the node counts those handles, so that a result goes with
/// its last one, whatever becomes of the others.
const COUNTED: u32 = 1 << 31;

pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) scalars: Scalars,
    pub(crate) avals: Avals,
    /// Order of creation; tells what existed before a trace began.
    pub(crate) id: u64,
    /// Epoch (high half) and index (low half) of the last walk; guarded by the claim lock.
    pub(crate) mark: AtomicU64,
    /// Handles of each result, where there are several.
    handles: SmallVec<[AtomicU32; 4]>,
    pub(crate) state: Mutex<State>,
}

pub(crate) enum State {
    Lazy(Inputs),
    Scheduled(Arc<Run>),
    Ready(Values),
    Failed(Error),
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// The id that the next node gets, at least.
pub(crate) fn next_id() -> u64 {
    NEXT_ID.load(Ordering::Relaxed)
}

impl Node {
    fn new(op: Op, scalars: Scalars, avals: Avals, state: State) -> Arc<Node> {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let several = if avals.len() > 1 { avals.len() } else { 0 };
        let handles = (0..several).map(|_| AtomicU32::new(0)).collect();
        Arc::new(Node { op, scalars, avals, id, mark: AtomicU64::new(0), handles, state: Mutex::new(state) })
    }

    /// Ends the node's computation. Results that nobody can ask for go at once.
    pub(crate) fn finish(&self, result: Result<Values>) {
        let mut unwanted = Values::new();
        let mut state = self.state.lock();
        let new = match result {
            Ok(mut values) => {
                for (value, handles) in values.iter_mut().zip(&self.handles) {
                    if handles.load(Ordering::Acquire) == 0 {
                        unwanted.push(value.take());
                    }
                }
                State::Ready(values)
            }
            Err(e) => State::Failed(e),
        };
        let old = std::mem::replace(&mut *state, new);
        drop(state);
        drop((old, unwanted));
    }

    /// Takes a result out, if it is there.
    fn take(&self, out: u32) -> Option<Value> {
        match &mut *self.state.lock() {
            State::Ready(values) => values.get_mut(out as usize)?.take(),
            _ => None,
        }
    }
}

impl Clone for Array {
    #[inline]
    fn clone(&self) -> Array {
        if self.out & COUNTED != 0 {
            self.node.handles[self.out() as usize].fetch_add(1, Ordering::Relaxed);
        }
        Array { node: self.node.clone(), out: self.out }
    }
}

impl Drop for Array {
    #[inline]
    fn drop(&mut self) {
        if self.out & COUNTED != 0
            && self.node.handles[self.out() as usize].fetch_sub(1, Ordering::AcqRel) == 1
        {
            drop(self.node.take(self.out()));
        }
    }
}

impl Drop for Node {
    /// Drops chains of lazy nodes without recursion.
    fn drop(&mut self) {
        let State::Lazy(inputs) = self.state.get_mut() else { return };
        // Nothing is allocated unless an input that nobody else holds is lazy itself.
        let mut stack: Vec<Inputs> = Vec::new();
        let mut current = std::mem::take(inputs);
        loop {
            while let Some(mut a) = current.pop() {
                if let Some(node) = Arc::get_mut(&mut a.node)
                    && let State::Lazy(inputs) = node.state.get_mut()
                    && !inputs.is_empty()
                {
                    stack.push(std::mem::take(inputs));
                }
            }
            match stack.pop() {
                Some(next) => current = next,
                None => return,
            }
        }
    }
}

impl Array {
    /// A lazy node with one result.
    pub(crate) fn lazy(op: Op, inputs: Inputs, scalars: Scalars, aval: Aval) -> Array {
        Array::of(Node::new(op, scalars, Avals::One(aval), State::Lazy(inputs)), 0)
    }

    /// A lazy node with several results.
    pub(crate) fn lazy_many(op: Op, inputs: Inputs, scalars: Scalars, avals: Avals) -> SmallVec<[Array; 4]> {
        let mut outs = SmallVec::new();
        Array::results(Node::new(op, scalars, avals, State::Lazy(inputs)), &mut outs);
        outs
    }

    /// [`Array::lazy_many`] with what `fill` puts in as inputs and scalars. They are written where they
    /// stay: moving them around costs more than all else in a call of a compiled function.
    #[inline]
    pub(crate) fn lazy_filled(
        op: Op,
        avals: Avals,
        fill: impl FnOnce(&mut Inputs, &mut Scalars),
        outs: &mut SmallVec<[Array; 4]>,
    ) {
        let mut node = Node::new(op, Scalars::new(), avals, State::Lazy(Inputs::new()));
        if let Some(Node { scalars, state, .. }) = Arc::get_mut(&mut node)
            && let State::Lazy(inputs) = state.get_mut()
        {
            fill(inputs, scalars);
        }
        Array::results(node, outs);
    }

    /// Appends the results of a node. The last one takes the node itself: one result counts one reference.
    #[inline]
    fn results(node: Arc<Node>, outs: &mut SmallVec<[Array; 4]>) {
        let n = node.avals.len() as u32;
        for out in 1..n {
            outs.push(Array::of(node.clone(), out - 1));
        }
        if n > 0 {
            outs.push(Array::of(node, n - 1));
        }
    }

    /// A handle on a result of a node.
    #[inline]
    pub(crate) fn of(node: Arc<Node>, out: u32) -> Array {
        match node.handles.get(out as usize) {
            None => Array { node, out },
            Some(handles) => {
                handles.fetch_add(1, Ordering::Relaxed);
                Array { node, out: out | COUNTED }
            }
        }
    }

    /// Which result of the node it is.
    #[inline]
    pub(crate) fn out(&self) -> u32 {
        self.out & !COUNTED
    }

    /// The computed value, moved out of one of several results if this is the last handle on it.
    pub(crate) fn take_last(&self) -> Option<Value> {
        let last =
            self.out & COUNTED != 0 && self.node.handles[self.out() as usize].load(Ordering::Acquire) == 1;
        if last { self.node.take(self.out()) } else { None }
    }

    /// A computed array.
    pub fn ready(value: Value, dtype: Dtype) -> Array {
        let aval = Aval::new(value.layout.shape.clone(), dtype);
        Array::of(
            Node::new(Op::Contiguous, smallvec![], Avals::One(aval), State::Ready(smallvec![Some(value)])),
            0,
        )
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

    pub(crate) fn aval(&self) -> &Aval {
        &self.node.avals[self.out() as usize]
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &Shape {
        &self.aval().shape
    }

    /// Element type.
    pub fn dtype(&self) -> Dtype {
        self.aval().dtype
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.shape().len()
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.shape().elems()
    }

    /// Bytes of the elements.
    pub fn nbytes(&self) -> usize {
        self.aval().nbytes()
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
        matches!(*self.node.state.lock(), State::Ready(_))
    }

    /// True when both are the same array, not only equal.
    pub fn same(&self, other: &Array) -> bool {
        Arc::ptr_eq(&self.node, &other.node) && self.out == other.out
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
        match &*self.node.state.lock() {
            State::Ready(values) => {
                Some(values.get(self.out() as usize).cloned().flatten().ok_or_else(|| {
                    err!(Internal, "[eval] result {} of {} is gone", self.out(), self.node.op.name())
                }))
            }
            State::Failed(e) => Some(Err(e.clone())),
            _ => None,
        }
    }

    /// The bytes of the elements in row-major order, after evaluating.
    ///
    /// # Errors
    /// As [`Array::eval`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let value = self.value()?;
        let mut out = vec![0; self.nbytes()];
        runtime::backend()?.download(&value, self.dtype(), &mut out)?;
        Ok(out)
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
        let mut out = Vec::new();
        self.read_into(&mut out)?;
        Ok(out)
    }

    /// [`Array::to_vec`] into a vector that is used again and again, whatever it held.
    ///
    /// # Errors
    /// As [`Array::to_vec`].
    pub fn read_into<T: Element>(&self, out: &mut Vec<T>) -> Result<()> {
        if T::DTYPE != self.dtype() {
            bail!(Dtype, "[to_vec] the array is {}, asked for {}", self.dtype(), T::DTYPE);
        }
        let value = self.value()?;
        out.resize(self.size(), T::zeroed());
        runtime::backend()?.download(&value, self.dtype(), cast_bytes_mut(out))
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

/// `Element` types have no padding and accept any bytes, which is what the two bounds say.
fn cast_bytes_mut<T: Element>(s: &mut [T]) -> &mut [u8] {
    bytemuck::cast_slice_mut::<T, u8>(s)
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.node.state.lock() {
            State::Lazy(_) => "lazy ",
            State::Scheduled(_) => "scheduled ",
            State::Ready(_) => "",
            State::Failed(_) => "failed ",
        };
        write!(f, "{state}{} {:?}", self.node.op.name(), self.aval())
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
        let biases = three().pop().unwrap();
        biases.eval().unwrap();
        match &*biases.node.state.lock() {
            State::Ready(values) => {
                assert_eq!(values.iter().map(Option::is_some).collect::<Vec<_>>(), [false, false, true]);
            }
            _ => panic!("not ready"),
        };
    }
}

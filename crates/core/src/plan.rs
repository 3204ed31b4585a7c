//! Plans: flat lists of steps over numbered slots. The one way in which anything is computed.

use crate::aval::Aval;
use crate::backend::{Kernel, Value};
use crate::error::Result;
use crate::graph::OpText;
use crate::layout::Layout;
use crate::number::Number;
use crate::op::{Callee, Op, view};
use crate::{bail, err, runtime};
use smallvec::SmallVec;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What a slot holds after a run: a value, or the error of the step that should have made it.
pub type Outcome = Result<Value>;

/// A lowered computation, ready to run any number of times from any thread.
#[derive(Debug)]
pub struct Plan {
    pub(crate) name: String,
    /// Inputs that callers give; they take the first slots.
    pub(crate) inputs: Vec<Aval>,
    /// Arrays that the plan holds itself; they take the next slots.
    pub(crate) constants: Vec<Value>,
    /// Layouts of views that are the same in every run; reads name them, and no step makes them.
    pub(crate) views: Vec<Layout>,
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Vec<(Read, Aval)>,
    pub(crate) slots: u32,
    pub(crate) cells: u32,
    pub(crate) nbytes: usize,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step {
    pub op: Op,
    pub ins: SmallVec<[Read; 3]>,
    pub cells: SmallVec<[u32; 2]>,
    pub outs: SmallVec<[u32; 1]>,
    pub avals: SmallVec<[Aval; 1]>,
    /// Dtype of the first input, which layouts need.
    pub dtype: Option<crate::Dtype>,
    pub work: Work,
}

/// A read of a slot. The last one moves the value out, so that a buffer nobody else holds can be
/// written in place: donation follows from uniqueness, not from a separate analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub slot: u32,
    pub last: bool,
    /// The view of the slot's value that is read, if not all of it.
    pub view: Option<u32>,
}

/// How a step is carried out.
#[derive(Debug)]
pub(crate) enum Work {
    /// By arithmetic on the layout; by the copy first, where the layout does not allow it.
    View {
        copy: Arc<dyn Kernel>,
    },
    Kernel(Arc<dyn Kernel>),
    /// A compiled function's plan, with slots of its own.
    Call(Arc<dyn Callee>),
}

impl Callee for Plan {
    fn name(&self) -> &str {
        &self.name
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Plan {
    /// Runs all steps. A step that fails fails what depends on it and nothing else.
    ///
    /// # Errors
    /// `Internal` when inputs or cells do not fit the plan.
    pub fn run(&self, inputs: impl IntoIterator<Item = Outcome>, cells: &[Number]) -> Result<Vec<Outcome>> {
        let mut slots: Vec<Option<Outcome>> = Vec::with_capacity(self.slots as usize);
        slots.extend(inputs.into_iter().map(Some));
        if slots.len() != self.inputs.len() || cells.len() != self.cells as usize {
            bail!(
                Internal,
                "[{}] {} inputs and {} cells for {} and {}",
                self.name,
                slots.len(),
                cells.len(),
                self.inputs.len(),
                self.cells
            );
        }
        slots.extend(self.constants.iter().map(|v| Some(Ok(v.clone()))));
        slots.resize_with(self.slots as usize, || None);
        let mut made = Vec::new();
        for step in &self.steps {
            match step.run(&mut slots, &self.views, cells, &mut made) {
                Ok(()) => {
                    for (&slot, value) in step.outs.iter().zip(made.drain(..)) {
                        slots[slot as usize] = Some(Ok(value));
                    }
                }
                Err(e) => {
                    made.clear();
                    for &slot in &step.outs {
                        slots[slot as usize] = Some(Err(e.clone()));
                    }
                }
            }
        }
        self.outputs.iter().map(|(read, _)| take(&mut slots, &self.views, *read)).collect()
    }

    /// Number of steps, those of called plans not counted.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// True when the outputs are inputs or constants.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Bytes the plan takes in memory, about; captured arrays are shared and not counted.
    pub fn nbytes(&self) -> usize {
        self.nbytes
    }
}

fn take(slots: &mut [Option<Outcome>], views: &[Layout], read: Read) -> Result<Outcome> {
    let slot = &mut slots[read.slot as usize];
    let missing = || err!(Internal, "[plan] slot {} is read before it is written", read.slot);
    let Some(view) = read.view else {
        let whole = if read.last { slot.take() } else { slot.clone() };
        return whole.ok_or_else(missing);
    };
    let buffer = if read.last {
        slot.take().ok_or_else(missing)?.map(|v| v.buffer)
    } else {
        slot.as_ref().ok_or_else(missing)?.as_ref().map(|v| v.buffer.clone()).map_err(Clone::clone)
    };
    Ok(buffer.map(|buffer| Value { buffer, layout: views[view as usize].clone() }))
}

impl Step {
    fn run(
        &self,
        slots: &mut [Option<Outcome>],
        views: &[Layout],
        all_cells: &[Number],
        made: &mut Vec<Value>,
    ) -> Result<()> {
        let mut ins: SmallVec<[Value; 4]> = SmallVec::new();
        let mut failed = None;
        for &read in &self.ins {
            match take(slots, views, read)? {
                Ok(v) => ins.push(v),
                Err(e) => failed = Some(e),
            }
        }
        if let Some(e) = failed {
            return Err(e);
        }
        let cells: SmallVec<[Number; 4]> = self.cells.iter().map(|&c| all_cells[c as usize]).collect();
        match &self.work {
            Work::View { copy } => {
                let dtype = self.dtype.ok_or_else(|| err!(Internal, "[{}] has no input", self.op.name()))?;
                let out = &self.avals[0];
                let mut layout = view::view(&self.op, &ins[0].layout, dtype, out, &cells)?;
                let mut buffer = None;
                if layout.is_none() {
                    runtime::timed(|| copy.run(&mut ins, &[], made))?;
                    let copied = made.pop().ok_or_else(|| err!(Internal, "[contiguous] made nothing"))?;
                    layout = view::view(&self.op, &copied.layout, dtype, out, &cells)?;
                    buffer = Some(copied.buffer);
                }
                let layout = layout
                    .ok_or_else(|| err!(Internal, "[{}] no view of a contiguous copy", self.op.name()))?;
                let buffer = buffer.unwrap_or_else(|| ins.swap_remove(0).buffer);
                let value = Value { buffer, layout };
                if matches!(self.op, Op::AsStrided(..)) {
                    value.check(out.dtype)?;
                }
                made.push(value);
                Ok(())
            }
            Work::Kernel(k) => {
                runtime::timed(|| k.run(&mut ins, &cells, made))?;
                if cfg!(debug_assertions) && self.op.is_compact() {
                    let loose = |v: &&Value| v.layout.offset != 0 || !v.layout.is_contiguous();
                    if let Some(v) = made.iter().find(loose) {
                        bail!(Internal, "[{}] its result is not compact: {:?}", self.op.name(), v.layout);
                    }
                }
                Ok(())
            }
            Work::Call(callee) => {
                let plan = callee
                    .as_any()
                    .downcast_ref::<Plan>()
                    .ok_or_else(|| err!(Internal, "[call] {} is not a plan", callee.name()))?;
                let outs = plan.run(ins.into_iter().map(Ok), &cells)?;
                for o in outs {
                    made.push(o?);
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Plan {
    /// Slots are `%n`; a read with `!` is the last, so the step may write in place. A view is written
    /// as its shape, strides and offset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<_> = self.inputs.iter().enumerate().map(|(i, a)| format!("%{i}: {a:?}")).collect();
        writeln!(f, "plan {}({})", if self.name.is_empty() { "eval" } else { &self.name }, args.join(", "))?;
        for (i, c) in self.constants.iter().enumerate() {
            writeln!(f, "  %{} = constant {:?}", self.inputs.len() + i, c.layout.shape)?;
        }
        let read = |r: &Read| {
            let slot = format!("%{}{}", r.slot, if r.last { "!" } else { "" });
            match r.view {
                None => slot,
                Some(v) => {
                    let Layout { shape, strides, offset } = &self.views[v as usize];
                    format!("{slot} as {shape:?} by {strides:?} from {offset}")
                }
            }
        };
        for s in &self.steps {
            let outs: Vec<_> = s.outs.iter().zip(&s.avals).map(|(o, a)| format!("%{o}: {a:?}")).collect();
            let args: Vec<_> =
                s.ins.iter().map(read).chain(s.cells.iter().map(|c| format!("s{c}"))).collect();
            writeln!(f, "  {} = {}({})", outs.join(", "), OpText(&s.op), args.join(", "))?;
        }
        let outs: Vec<_> = self.outputs.iter().map(|(r, _)| read(r)).collect();
        writeln!(f, "  return {}", outs.join(", "))
    }
}

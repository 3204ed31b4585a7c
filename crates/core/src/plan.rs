//! Plans: flat lists of steps over numbered slots. The one way in which anything is computed.

use crate::aval::Aval;
use crate::backend::{Buffer, Held, Input, Kernel, Value};
use crate::error::{Error, Result};
use crate::graph::OpText;
use crate::layout::Layout;
use crate::number::Number;
use crate::op::{Callee, Op, view};
use crate::{Dtype, bail, err, runtime};
use smallvec::SmallVec;
use std::any::Any;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// What a slot holds after a run: a value, or the error of the step that should have made it.
pub type Outcome = Result<Value>;
/// What a plan gives back, in the order of its outputs.
pub type Outcomes = SmallVec<[Outcome; 1]>;
/// The slots of a run; those of small plans need no allocation.
type Slots = SmallVec<[Option<Outcome>; 4]>;

/// A lowered computation, ready to run any number of times from any thread.
#[derive(Debug)]
pub struct Plan {
    pub(crate) name: String,
    /// Inputs that callers give; they take the first slots.
    pub(crate) inputs: Vec<Aval>,
    /// Arrays that the plan holds itself.
    pub(crate) constants: Vec<Constant>,
    /// Layouts of constants, and of views that are the same in every run; reads name those, and no step
    /// makes them.
    pub(crate) layouts: Vec<Layout>,
    /// How steps are carried out; steps that are alike share one.
    pub(crate) works: Vec<Work>,
    pub(crate) steps: Vec<Step>,
    /// What the steps read and write, one step after the other.
    pub(crate) reads: Vec<Read>,
    pub(crate) read_cells: Vec<u32>,
    pub(crate) writes: Vec<u32>,
    /// What each step computes, for showing; running needs none of it.
    pub(crate) texts: Vec<StepText>,
    pub(crate) outputs: Vec<(Read, Aval)>,
    pub(crate) slots: u32,
    pub(crate) cells: u32,
    pub(crate) nbytes: usize,
}

/// An array that a plan holds.
#[derive(Debug)]
pub(crate) struct Constant {
    pub buffer: Arc<dyn Buffer>,
    /// Its number among the plan's layouts.
    pub layout: u32,
}

/// One step: its work, and where its parts of the plan's lists end; they begin where those of the step before
/// end. A plan that streams more through the caches than they hold finds nothing of itself there in the next
/// run, so what a run reads is small, and stands in the order in which it is read.
#[derive(Debug)]
pub(crate) struct Step {
    pub work: u32,
    pub reads: u32,
    pub cells: u32,
    pub writes: u32,
}

/// What a [`Step`] stands for.
struct Parts<'a> {
    work: &'a Work,
    reads: &'a [Read],
    cells: &'a [u32],
    writes: &'a [u32],
}

/// A step's op and the avals of its results.
#[derive(Debug)]
pub(crate) struct StepText {
    pub op: Op,
    pub avals: SmallVec<[Aval; 1]>,
}

/// A read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub from: Source,
    pub then: Then,
    /// The number of the view's layout, or [`WHOLE`].
    pub view: u32,
}

/// All of a value is read, under its own layout.
pub(crate) const WHOLE: u32 = u32::MAX;

/// What becomes of the value that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It is read again.
    Keep,
    /// It moves to the reader, which may write in place if nobody else holds the buffer: donation
    /// follows from uniqueness, not from a separate analysis.
    Give,
    /// It goes when the step is done, which reads it more than once.
    Drop,
}

/// Where a read finds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Slot(u32),
    Constant(u32),
}

/// How a step is carried out.
#[derive(Debug)]
pub(crate) enum Work {
    View(Box<View>),
    Kernel(Arc<dyn Kernel>),
    /// A compiled function's plan, with slots of its own.
    Call(Arc<dyn Callee>),
}

/// A view whose layout is known when the step runs: by arithmetic on the input's layout, or by the
/// copy first, where that layout does not allow it.
#[derive(Debug)]
pub(crate) struct View {
    pub op: Op,
    /// Dtype of the input.
    pub dtype: Dtype,
    pub out: Aval,
    pub copy: Arc<dyn Kernel>,
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
    pub fn run(&self, inputs: impl IntoIterator<Item = Outcome>, cells: &[Number]) -> Result<Outcomes> {
        self.start(inputs.into_iter().map(Ok), cells)
    }

    fn start(&self, inputs: impl Iterator<Item = Result<Outcome>>, cells: &[Number]) -> Result<Outcomes> {
        let mut slots = Slots::with_capacity(self.slots as usize);
        for i in inputs {
            slots.push(Some(i?));
        }
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
        slots.resize_with(self.slots as usize, || None);
        let mut made = Vec::new();
        for i in 0..self.steps.len() {
            let step = self.parts(i);
            let mut own = SmallVec::<[Number; 4]>::new();
            for &c in step.cells {
                own.push(cells[c as usize]);
            }
            let cells = &own;
            let ran = match step.work {
                Work::Call(callee) => self.call(&**callee, &step, &mut slots, cells),
                Work::View(view) => {
                    self.bind(step.reads, &mut slots).and_then(|ins| view.run(ins, cells, &mut made))
                }
                Work::Kernel(k) => self
                    .bind(step.reads, &mut slots)
                    .and_then(|mut ins| runtime::timed(|| k.run(&mut ins, cells, &mut made))),
            };
            if cfg!(debug_assertions) && ran.is_ok() {
                self.texts[i].check(&made)?;
            }
            if let Err(e) = ran {
                made.clear();
                step.writes.iter().for_each(|&slot| slots[slot as usize] = Some(Err(e.clone())));
            }
            for (&slot, value) in step.writes.iter().zip(made.drain(..)) {
                slots[slot as usize] = Some(Ok(value));
            }
            for read in step.reads.iter().filter(|read| read.then == Then::Drop) {
                if let Source::Slot(s) = read.from {
                    slots[s as usize] = None;
                }
            }
        }
        let mut outs = Outcomes::with_capacity(self.outputs.len());
        for (read, _) in &self.outputs {
            outs.push(self.take(&mut slots, *read)?);
        }
        Ok(outs)
    }

    fn parts(&self, i: usize) -> Parts<'_> {
        let Step { work, reads, cells, writes } = self.steps[i];
        let (r, c, w) = match i.checked_sub(1).map(|before| &self.steps[before]) {
            Some(before) => (before.reads, before.cells, before.writes),
            None => (0, 0, 0),
        };
        Parts {
            work: &self.works[work as usize],
            reads: &self.reads[r as usize..reads as usize],
            cells: &self.read_cells[c as usize..cells as usize],
            writes: &self.writes[w as usize..writes as usize],
        }
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

impl Plan {
    /// What a read is of, to keep.
    fn take(&self, slots: &mut [Option<Outcome>], read: Read) -> Result<Outcome> {
        let value = match read.from {
            Source::Constant(c) => {
                let Constant { buffer, layout } = &self.constants[c as usize];
                let layout = self.layouts[*layout as usize].clone();
                Some(Ok(Value { buffer: buffer.clone(), layout }))
            }
            Source::Slot(s) if read.then == Then::Give => slots[s as usize].take(),
            Source::Slot(s) => slots[s as usize].clone(),
        };
        let value = value.ok_or_else(|| self.too_early(read))?;
        Ok(match self.layouts.get(read.view as usize) {
            Some(view) => value.map(|value| Value { layout: view.clone(), ..value }),
            None => value,
        })
    }

    fn too_early(&self, read: Read) -> Error {
        err!(Internal, "[{}] {read:?} comes before it is written", self.name)
    }

    /// What a step reads: lent where it stays, given where this is the end of it.
    fn bind<'a>(
        &'a self,
        reads: &[Read],
        slots: &'a mut [Option<Outcome>],
    ) -> Result<SmallVec<[Input<'a>; 4]>> {
        let mut ins = SmallVec::new();
        if reads.iter().all(|read| read.then == Then::Give) {
            for read in reads {
                ins.push(self.take(slots, *read)??.into());
            }
            return Ok(ins);
        }
        // Those that move come first: the others borrow the slots.
        let mut given: SmallVec<[Outcome; 3]> = SmallVec::new();
        for read in reads.iter().filter(|read| read.then == Then::Give) {
            given.push(self.take(slots, Read { view: WHOLE, ..*read })?);
        }
        let slots: &'a [Option<Outcome>] = slots;
        let mut given = given.into_iter();
        for read in reads {
            let mut input = match (read.then, read.from) {
                (Then::Give, _) => given.next().ok_or_else(|| self.too_early(*read))??.into(),
                (_, Source::Constant(c)) => {
                    let Constant { buffer, layout } = &self.constants[c as usize];
                    let layout = Cow::Borrowed(&self.layouts[*layout as usize]);
                    Input { buffer: Held::Lent(buffer), layout }
                }
                (_, Source::Slot(s)) => match &slots[s as usize] {
                    Some(Ok(value)) => value.lent(),
                    Some(Err(e)) => return Err(e.clone()),
                    None => return Err(self.too_early(*read)),
                },
            };
            if let Some(view) = self.layouts.get(read.view as usize) {
                input.layout = Cow::Borrowed(view);
            }
            ins.push(input);
        }
        Ok(ins)
    }

    /// Runs a called plan. Its values move from slots to slots, however many there are.
    fn call(
        &self,
        callee: &dyn Callee,
        step: &Parts<'_>,
        slots: &mut [Option<Outcome>],
        cells: &[Number],
    ) -> Result<()> {
        let plan = callee
            .as_any()
            .downcast_ref::<Plan>()
            .ok_or_else(|| err!(Internal, "[call] {} is not a plan", callee.name()))?;
        let made = plan.start(step.reads.iter().map(|&read| self.take(slots, read)), cells)?;
        for (&slot, outcome) in step.writes.iter().zip(made) {
            slots[slot as usize] = Some(outcome);
        }
        Ok(())
    }
}

impl View {
    fn run(&self, mut ins: SmallVec<[Input<'_>; 4]>, cells: &[Number], made: &mut Vec<Value>) -> Result<()> {
        let View { op, dtype, out, copy } = self;
        let mut layout = view::view(op, &ins[0].layout, *dtype, out, cells)?;
        let mut buffer = None;
        if layout.is_none() {
            runtime::timed(|| copy.run(&mut ins, &[], made))?;
            let copied = made.pop().ok_or_else(|| err!(Internal, "[contiguous] made nothing"))?;
            layout = view::view(op, &copied.layout, *dtype, out, cells)?;
            buffer = Some(copied.buffer);
        }
        let layout = layout.ok_or_else(|| err!(Internal, "[{}] no view of a contiguous copy", op.name()))?;
        let buffer = buffer.unwrap_or_else(|| Value::from(ins.swap_remove(0)).buffer);
        let value = Value { buffer, layout };
        if matches!(op, Op::AsStrided(..)) {
            value.check(out.dtype)?;
        }
        made.push(value);
        Ok(())
    }
}

impl StepText {
    /// Lowering knows the layouts of compact results before the run.
    fn check(&self, made: &[Value]) -> Result<()> {
        let loose = |v: &&Value| v.layout.offset != 0 || !v.layout.is_contiguous();
        match made.iter().find(loose) {
            Some(v) if self.op.is_compact() => {
                bail!(Internal, "[{}] its result is not compact: {:?}", self.op.name(), v.layout)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Source::Slot(s) => write!(f, "%{s}")?,
            Source::Constant(c) => write!(f, "c{c}")?,
        }
        f.write_str(if self.then == Then::Keep { "" } else { "!" })
    }
}

impl fmt::Display for Plan {
    /// Slots are `%n`, constants `cn`; a slot's read with `!` is the last, so the step may write in
    /// place. A view is written as its shape, strides and offset.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let args: Vec<_> = self.inputs.iter().enumerate().map(|(i, a)| format!("%{i}: {a:?}")).collect();
        writeln!(f, "plan {}({})", if self.name.is_empty() { "eval" } else { &self.name }, args.join(", "))?;
        for (i, c) in self.constants.iter().enumerate() {
            writeln!(f, "  c{i} = constant {:?}", self.layouts[c.layout as usize].shape)?;
        }
        let read = |r: &Read| match self.layouts.get(r.view as usize) {
            None => r.to_string(),
            Some(Layout { shape, strides, offset }) => {
                format!("{r} as {shape:?} by {strides:?} from {offset}")
            }
        };
        for (i, text) in self.texts.iter().enumerate() {
            let s = self.parts(i);
            let outs: Vec<_> =
                s.writes.iter().zip(&text.avals).map(|(o, a)| format!("%{o}: {a:?}")).collect();
            let args: Vec<_> =
                s.reads.iter().map(read).chain(s.cells.iter().map(|c| format!("s{c}"))).collect();
            writeln!(f, "  {} = {}({})", outs.join(", "), OpText(&text.op), args.join(", "))?;
        }
        let outs: Vec<_> = self.outputs.iter().map(|(r, _)| read(r)).collect();
        writeln!(f, "  return {}", outs.join(", "))
    }
}

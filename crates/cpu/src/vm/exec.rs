//! Running a program: binding the inputs, then block after block.

use super::BLOCK;
use super::compile::{Loop, Place, Program, compile};
use super::generic;
use super::ops::Arg;
use crate::buffer::CpuBuffer;
use crate::elem::by_size;
use crate::pool;
use crate::view::{self, Walk};
use isopace_core::backend::{Buffer, Input, Kernel, Spec, Value};
use isopace_core::op::Region;
use isopace_core::{Aval, Dtype, Number, Result, bail, err};
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;

/// From this size on a region is split over the pool.
const PARALLEL: usize = 32 * BLOCK;
/// Blocks that a thread claims at a time, at most.
const GROUP: usize = 16;
/// Bytes between registers: a block of the widest lanes.
const REG_BYTES: usize = BLOCK * 8;

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [u8; 64]);

thread_local! {
    static SCRATCH: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

/// The kernel of a fused region.
#[derive(Debug)]
pub struct Fused {
    program: Program,
    outs: SmallVec<[Aval; 2]>,
    elems: usize,
}

/// An input as this run sees it.
enum Operand {
    /// Stands in the output's order from this address on.
    Direct(*const u8),
    Scalar(*const u8),
    /// Taken over as an output: each block is copied into a register before anything is written.
    Taken(*const u8),
    /// Anything else: each block is copied into a register first.
    Strided {
        walk: Walk,
        data: *const u8,
        elems: usize,
    },
}

/// Everything a block needs. Addresses stay valid while the run holds the buffers.
struct Bound<'a> {
    program: &'a Program,
    inputs: SmallVec<[Operand; 4]>,
    cells: SmallVec<[u64; 4]>,
    /// Where the outputs start; none where pieces go to memory of their caller.
    outs: Addresses,
}

/// Where an output's memory comes from.
enum Made {
    Fresh(CpuBuffer),
    /// From this input, which nobody else can read.
    Taken(usize),
}

impl Made {
    fn is_from(&self, input: usize) -> bool {
        matches!(self, Made::Taken(i) if *i == input)
    }
}

type Addresses = SmallVec<[*mut u8; 2]>;

// SAFETY: input memory is only read; each block writes its own range of the outputs (and of inputs
// taken over as outputs, which no other block reads); registers belong to the thread.
unsafe impl Sync for Bound<'_> {}

impl Fused {
    /// Compiles a region.
    ///
    /// # Errors
    /// `Internal` for a region that is not well formed.
    pub fn new(region: &Region, spec: Spec<'_>) -> Result<Fused> {
        let dtypes: SmallVec<[_; 4]> = spec.ins.iter().map(|a| a.dtype).collect();
        let program = compile(region, &dtypes)?;
        let elems = spec.outs.first().map_or(0, |a| a.shape.elems());
        let same = spec
            .outs
            .iter()
            .zip(&program.outputs)
            .all(|(a, d)| a.dtype == *d && a.shape == spec.outs[0].shape);
        if !same || program.outputs.len() != spec.outs.len() {
            bail!(Internal, "[fused] outputs {:?} do not fit the region", spec.outs);
        }
        Ok(Fused { program, outs: spec.outs.into(), elems })
    }
}

impl Kernel for Fused {
    fn run(&self, ins: &mut [Input<'_>], cells: &[Number], outs: &mut Vec<Value>) -> Result<()> {
        let n = self.elems;
        let mut bound = self.start(cells)?;
        // Outputs first: an input taken over as one is read through the output's address.
        let mut made: SmallVec<[Made; 2]> = SmallVec::new();
        for aval in &self.outs {
            let donor = (0..ins.len()).find(|&i| {
                let v = &ins[i];
                self.program.inputs[i].size() == aval.dtype.size()
                    && !made.iter().any(|m| m.is_from(i))
                    && v.layout.elems() == n
                    && v.layout.is_contiguous()
                    && v.layout.offset == 0
                    && v.buffer.nbytes() <= 2 * aval.nbytes() + 4096
                    && n * aval.dtype.size() <= v.buffer.nbytes()
                    && view::unique(&mut ins[i]).is_some()
            });
            let at = match donor {
                Some(i) => match view::unique(&mut ins[i]) {
                    Some(b) => {
                        made.push(Made::Taken(i));
                        b.slice_mut::<u8>()?.as_mut_ptr()
                    }
                    None => bail!(Internal, "[fused] input {i} is shared"),
                },
                None => {
                    let mut b = CpuBuffer::new(aval.nbytes())?;
                    let at = b.slice_mut::<u8>()?.as_mut_ptr();
                    made.push(Made::Fresh(b));
                    at
                }
            };
            bound.outs.push(at);
        }
        for (i, v) in ins.iter().enumerate() {
            bound.inputs.push(match made.iter().position(|m| m.is_from(i)) {
                Some(k) => Operand::Taken(bound.outs[k].cast_const()),
                None => self.operand(i, v)?,
            });
        }
        bound.run(n);
        drop(bound);
        for (made, aval) in made.into_iter().zip(&self.outs) {
            let buffer: Arc<dyn Buffer> = match made {
                Made::Taken(i) => Value::from(view::take(&mut ins[i])).buffer,
                Made::Fresh(b) => Arc::new(b),
            };
            outs.push(Value::contiguous(buffer, aval));
        }
        Ok(())
    }
}

impl Fused {
    fn start(&self, cells: &[Number]) -> Result<Bound<'_>> {
        let cell = |&(i, dtype): &(u32, Dtype)| match cells.get(i as usize) {
            Some(&c) => Ok(u64::from_ne_bytes(super::scalar_bytes(c, dtype))),
            None => Err(err!(Internal, "[fused] cell {i} is missing")),
        };
        let cells = self.program.cells.iter().map(cell).collect::<Result<_>>()?;
        Ok(Bound { program: &self.program, inputs: SmallVec::new(), cells, outs: SmallVec::new() })
    }

    fn operand(&self, i: usize, v: &Input<'_>) -> Result<Operand> {
        let (shape, size) = (&self.outs[0].shape, self.program.inputs[i].size());
        if v.layout.shape.len() > shape.len() {
            bail!(Internal, "[fused] input {i} of shape {:?} in {shape:?}", v.layout.shape);
        }
        let data = view::buffer(v)?.bytes();
        view::check(&v.layout, data.len() / size)?;
        if data.as_ptr().align_offset(size) != 0 {
            bail!(Internal, "[fused] input {i} is not aligned");
        }
        let walk = Walk::new(&v.layout, shape);
        let at = data.as_ptr().wrapping_add(walk.offset * size);
        Ok(if self.elems == 0 || walk.is_scalar() {
            Operand::Scalar(at)
        } else if walk.is_dense() {
            Operand::Direct(at)
        } else {
            Operand::Strided { walk, data: data.as_ptr(), elems: data.len() / size }
        })
    }

    /// Runs `f` with a function that writes the only output's elements from a position on.
    ///
    /// # Errors
    /// `Internal` for another dtype, more outputs, or inputs that do not fit.
    pub fn pieces<T: bytemuck::Pod, R>(
        &self,
        ins: &[Input<'_>],
        cells: &[Number],
        f: impl FnOnce(&(dyn Fn(usize, &mut [T]) + Sync)) -> R,
    ) -> Result<R> {
        if self.outs.len() != 1 || self.outs[0].dtype.size() != size_of::<T>() {
            bail!(Internal, "[fused] pieces of {:?}", self.outs);
        }
        let mut bound = self.start(cells)?;
        for (i, v) in ins.iter().enumerate() {
            bound.inputs.push(self.operand(i, v)?);
        }
        let bound = &bound;
        Ok(f(&move |at, out| {
            assert!(at <= self.elems && out.len() <= self.elems - at, "a piece past the end of a region");
            bound.blocks(at, at + out.len(), &[out.as_mut_ptr().cast()]);
        }))
    }
}

impl Bound<'_> {
    fn run(&self, n: usize) {
        let part = |start: usize, end: usize| {
            let sizes = self.program.outputs.iter().map(|d| d.size());
            let outs: Addresses =
                self.outs.iter().zip(sizes).map(|(p, size)| p.wrapping_add(start * size)).collect();
            self.blocks(start, end, &outs);
        };
        if n < PARALLEL {
            return part(0, n);
        }
        let group = (GROUP * BLOCK).min(n / 16 / BLOCK * BLOCK).max(BLOCK);
        pool::parallel_for(n.div_ceil(group), |g| part(g * group, ((g + 1) * group).min(n)));
    }

    /// Elements `start .. end`, which go to `outs`.
    fn blocks(&self, start: usize, end: usize, outs: &[*mut u8]) {
        let lines = (self.program.regs as usize + self.inputs.len()) * REG_BYTES / 64;
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < lines {
                scratch.resize(lines, Line([0; 64]));
            }
            let regs = scratch.as_mut_ptr().cast::<u8>();
            let mut at = start;
            while at < end {
                let n = BLOCK.min(end - at);
                let sizes = self.program.outputs.iter().map(|d| d.size());
                let outs: Addresses =
                    outs.iter().zip(sizes).map(|(p, size)| p.wrapping_add((at - start) * size)).collect();
                // SAFETY: `regs` has the program's registers and one for each input; the range is
                // inside the outputs, whose sizes `Fused::run` made or checked and `pieces` was given.
                unsafe { self.block(regs, at, n, &outs) };
                at += n;
            }
        });
    }

    /// # Safety
    /// `regs` holds `regs + inputs` registers; `at + n` is at most the number of elements, `outs` have
    /// room for `n`, and no other thread writes there.
    unsafe fn block(&self, regs: *mut u8, at: usize, n: usize, outs: &[*mut u8]) {
        let p = self.program;
        for (i, input) in self.inputs.iter().enumerate() {
            let reg = regs.wrapping_add((p.regs as usize + i) * REG_BYTES);
            let size = p.inputs[i].size();
            let (walk, data, elems) = match input {
                Operand::Strided { walk, data, elems } => (walk, data, elems),
                Operand::Taken(data) => {
                    // SAFETY: n elements from `at` on are inside the output's memory, which only
                    // this block touches; the register has room for a block of any lane.
                    unsafe { std::ptr::copy_nonoverlapping(data.add(at * size), reg, n * size) };
                    continue;
                }
                _ => continue,
            };
            by_size!(size, T => {
                // SAFETY: `Fused::run` checked that the walk stays inside `elems` elements at `data`,
                // aligned for them; the register has room for a block of any lane, and is no input.
                let (data, out) = unsafe {
                    (std::slice::from_raw_parts(data.cast::<T>(), *elems), std::slice::from_raw_parts_mut(reg.cast::<T>(), n))
                };
                walk.read(data, at, out);
            });
        }
        for inst in &p.insts {
            let arg = |place: Place| match place {
                Place::Reg(r) => Arg { ptr: regs.wrapping_add(r as usize * REG_BYTES), scalar: false },
                Place::Cell(c) => Arg {
                    ptr: self
                        .cells
                        .get(c as usize)
                        .map_or(std::ptr::null(), |c| std::ptr::from_ref(c).cast()),
                    scalar: true,
                },
                Place::Output(k) => Arg { ptr: outs[k as usize], scalar: false },
                Place::Input(i) => match &self.inputs[i as usize] {
                    Operand::Scalar(s) => Arg { ptr: *s, scalar: true },
                    Operand::Direct(s) => {
                        Arg { ptr: s.wrapping_add(at * p.inputs[i as usize].size()), scalar: false }
                    }
                    Operand::Strided { .. } | Operand::Taken(_) => Arg {
                        ptr: regs.wrapping_add((p.regs as usize + i as usize) * REG_BYTES),
                        scalar: false,
                    },
                },
            };
            let dst = arg(inst.dst).ptr.cast_mut();
            let args = inst.args.map(arg);
            match inst.work {
                // SAFETY: operands are registers, cells, input or output memory with n lanes of the
                // dtype the compiler looked the loop up for; `dst` is never one of them: a fresh
                // register, or an output that no input aliases (taken inputs are copied first).
                Loop::Own(f) => unsafe { f(dst, n, &args) },
                // SAFETY: as above.
                Loop::Generic { row, takes, gives } => unsafe {
                    generic::run(row, takes, gives, dst, n, &args)
                },
            }
        }
    }
}

//! Running a program: binding the inputs, then block after block.

use super::BLOCK;
use super::compile::{Loop, Place, Program, compile};
use super::generic;
use super::ops::Arg;
use crate::buffer::CpuBuffer;
use crate::elem::by_size;
use crate::pool;
use crate::view::{self, Walk};
use isopace_core::backend::{Buffer, Kernel, Spec, Value};
use isopace_core::op::Region;
use isopace_core::{Aval, Number, Result, bail};
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
enum Input {
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
    inputs: SmallVec<[Input; 4]>,
    cells: SmallVec<[u64; 4]>,
    outs: SmallVec<[*mut u8; 2]>,
}

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
    fn run(&self, ins: &mut [Value], cells: &[Number], outs: &mut Vec<Value>) -> Result<()> {
        let shape = &self.outs[0].shape;
        let n = self.elems;
        let mut bound = Bound {
            program: &self.program,
            inputs: SmallVec::new(),
            cells: SmallVec::new(),
            outs: SmallVec::new(),
        };
        for &(i, dtype) in &self.program.cells {
            let Some(&c) = cells.get(i as usize) else { bail!(Internal, "[fused] cell {i} is missing") };
            bound.cells.push(u64::from_ne_bytes(super::scalar_bytes(c, dtype)));
        }
        // Outputs first: an input taken over as one is read through the output's address.
        let mut taken: SmallVec<[Option<usize>; 2]> = SmallVec::new();
        let mut made: SmallVec<[(CpuBuffer, usize); 2]> = SmallVec::new();
        for (k, aval) in self.outs.iter().enumerate() {
            let donor = (0..ins.len()).find(|&i| {
                let v = &ins[i];
                self.program.inputs[i].size() == aval.dtype.size()
                    && !taken.contains(&Some(i))
                    && v.layout.elems() == n
                    && v.layout.is_contiguous()
                    && v.layout.offset == 0
                    && v.buffer.nbytes() <= 2 * aval.nbytes() + 4096
                    && n * aval.dtype.size() <= v.buffer.nbytes()
                    && view::unique(&mut ins[i]).is_some()
            });
            taken.push(donor);
            if donor.is_none() {
                made.push((CpuBuffer::new(aval.nbytes())?, k));
            }
        }
        let mut fresh = made.iter_mut();
        for (k, donor) in taken.iter().enumerate() {
            let p = match donor {
                None => match fresh.next() {
                    Some((b, _)) => b.slice_mut::<u8>()?.as_mut_ptr(),
                    None => bail!(Internal, "[fused] output {k} has no memory"),
                },
                Some(i) => match view::unique(&mut ins[*i]) {
                    Some(b) => b.slice_mut::<u8>()?.as_mut_ptr(),
                    None => bail!(Internal, "[fused] input {i} is shared"),
                },
            };
            bound.outs.push(p);
        }
        for (i, v) in ins.iter().enumerate() {
            let size = self.program.inputs[i].size();
            if let Some(k) = taken.iter().position(|t| *t == Some(i)) {
                bound.inputs.push(Input::Taken(bound.outs[k].cast_const()));
                continue;
            }
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
            bound.inputs.push(if n == 0 || walk.is_scalar() {
                Input::Scalar(at)
            } else if walk.is_dense() {
                Input::Direct(at)
            } else {
                Input::Strided { walk, data: data.as_ptr(), elems: data.len() / size }
            });
        }
        bound.run(n);
        drop(bound.outs);
        let mut made = made.into_iter();
        for (k, donor) in taken.iter().enumerate() {
            let aval = &self.outs[k];
            let buffer: Arc<dyn Buffer> = match donor {
                Some(i) => view::take(&mut ins[*i]).buffer,
                None => match made.next() {
                    Some((b, _)) => Arc::new(b),
                    None => bail!(Internal, "[fused] output {k} has no memory"),
                },
            };
            outs.push(Value::contiguous(buffer, aval));
        }
        Ok(())
    }
}

impl Bound<'_> {
    fn run(&self, n: usize) {
        if n < PARALLEL {
            return self.blocks(0, n);
        }
        let group = (GROUP * BLOCK).min(n / 16 / BLOCK * BLOCK).max(BLOCK);
        pool::parallel_for(n.div_ceil(group), |g| self.blocks(g * group, ((g + 1) * group).min(n)));
    }

    fn blocks(&self, start: usize, end: usize) {
        let lines = (self.program.regs as usize + self.inputs.len()) * REG_BYTES / 64;
        SCRATCH.with_borrow_mut(|scratch| {
            if scratch.len() < lines {
                scratch.resize(lines, Line([0; 64]));
            }
            let regs = scratch.as_mut_ptr().cast::<u8>();
            let mut at = start;
            while at < end {
                let n = BLOCK.min(end - at);
                // SAFETY: `regs` has the program's registers and one for each input; the range is
                // inside the outputs, whose sizes `Fused::run` made or checked.
                unsafe { self.block(regs, at, n) };
                at += n;
            }
        });
    }

    /// # Safety
    /// `regs` holds `regs + inputs` registers; `at + n` is at most the number of elements, and no
    /// other thread runs an overlapping range.
    unsafe fn block(&self, regs: *mut u8, at: usize, n: usize) {
        let p = self.program;
        for (i, input) in self.inputs.iter().enumerate() {
            let reg = regs.wrapping_add((p.regs as usize + i) * REG_BYTES);
            let size = p.inputs[i].size();
            let (walk, data, elems) = match input {
                Input::Strided { walk, data, elems } => (walk, data, elems),
                Input::Taken(data) => {
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
                Place::Output(k) => Arg {
                    ptr: self.outs[k as usize].wrapping_add(at * p.outputs[k as usize].size()),
                    scalar: false,
                },
                Place::Input(i) => match &self.inputs[i as usize] {
                    Input::Scalar(s) => Arg { ptr: *s, scalar: true },
                    Input::Direct(s) => {
                        Arg { ptr: s.wrapping_add(at * p.inputs[i as usize].size()), scalar: false }
                    }
                    Input::Strided { .. } | Input::Taken(_) => Arg {
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

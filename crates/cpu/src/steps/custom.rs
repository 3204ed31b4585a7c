//! A user's kernel: its arguments as pointers, its outputs allocated, its module run over the grid.

use super::{Outs, inputs, many};
use crate::buffer::CpuBuffer;
use crate::custom::{Arg, INTERRUPT, Module, Modules, run};
use crate::view::{self, buffer};
use crate::{pool, vm};
use half::{bf16, f16};
use isopace_core::backend::{Input, Kernel, Spec};
use isopace_core::kernel::{ArgSlot, Specialization};
use isopace_core::op::{CustomOp, KernelLaunch};
use isopace_core::{Aval, Dtype, Number, Result, bail, err};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// Prepares a kernel. The module is built or found when it first runs, so a kernel that nobody
/// evaluates needs no compiler.
pub fn custom(spec: Spec<'_>, op: &CustomOp) -> Result<Arc<dyn Kernel>> {
    let (launch, ins, outs) = (op.0.clone(), inputs(spec, 0)?, SmallVec::from(spec.outs));
    let mutable =
        (0..ins.len()).filter(|&i| i < launch.spec.input_count() && launch.spec.is_mutable(i)).count();
    if ins.len() != launch.spec.input_count() || mutable > outs.len() {
        bail!(Internal, "[metal_kernel {}] {} inputs and {} outputs", op.name(), ins.len(), outs.len());
    }
    let declared = outs.len() - mutable;
    let prepared = Prepared { launch, ins, outs, declared, module: OnceLock::new() };
    many(spec, move |ins, cells| prepared.run(ins, cells))
}

/// A scalar as the bytes of an element in memory.
fn element(n: Number, dtype: Dtype) -> [u8; 8] {
    let mut word = vm::scalar_bytes(n, dtype);
    // 16-bit floats are float32 lanes, rounded already.
    let lane = f32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
    match dtype {
        Dtype::F16 => word[..2].copy_from_slice(&f16::from_f32(lane).to_ne_bytes()),
        Dtype::BF16 => word[..2].copy_from_slice(&bf16::from_f32(lane).to_ne_bytes()),
        _ => {}
    }
    word
}

struct Prepared {
    launch: Arc<KernelLaunch>,
    ins: SmallVec<[Aval; 4]>,
    /// Declared outputs, then the mutable inputs.
    outs: SmallVec<[Aval; 2]>,
    declared: usize,
    module: OnceLock<Arc<Module>>,
}

impl Prepared {
    fn spec(&self) -> &Specialization {
        &self.launch.spec
    }

    /// The module. A failure is not kept: a compiler may be installed meanwhile.
    fn module(&self) -> Result<&Module> {
        if let Some(m) = self.module.get() {
            return Ok(m);
        }
        let fetched = Modules::global().get(self.spec())?;
        if fetched.built {
            self.spec().note_module_built();
        }
        Ok(self.module.get_or_init(|| fetched.module))
    }

    fn run(&self, ins: &mut [Input<'_>], cells: &[Number]) -> Result<Outs> {
        let spec = self.spec();
        for (i, aval) in self.ins.iter().enumerate() {
            if spec.is_mutable(i) {
                self.check_mutable(&mut ins[i], i)?;
            } else if spec.ensure_row_contiguous && !ins[i].layout.is_contiguous() {
                ins[i] = view::contiguous(&ins[i], aval)?.into();
            }
            ins[i].check(aval.dtype)?;
        }
        let mut made = self.allocate(cells)?;
        if !self.launch.grid.contains(&0) {
            self.launch(ins, &mut made)?;
        }
        let mut outs: Outs = made.into_iter().zip(&self.outs).map(|(b, aval)| view::value(b, aval)).collect();
        outs.extend((0..ins.len()).filter(|&i| spec.is_mutable(i)).map(|i| view::take(&mut ins[i]).into()));
        Ok(outs)
    }

    fn check_mutable(&self, v: &mut Input<'_>, i: usize) -> Result<()> {
        let (name, input) = (&self.spec().name, self.spec().input_name(i));
        if !v.layout.is_contiguous() {
            bail!(
                Argument,
                "[metal_kernel {name}] mutable input {input:?} is not row-contiguous (strides {:?} of shape {:?}); pass a contiguous array",
                v.layout.strides.as_slice(),
                v.layout.shape
            );
        }
        if !buffer(v)?.is_owned() {
            bail!(
                Argument,
                "[metal_kernel {name}] mutable input {input:?} is part of a file mapped read-only; pass a copy"
            );
        }
        if view::unique(v).is_none() {
            bail!(
                Argument,
                "[metal_kernel {name}] mutable input {input:?} is shared: another array, view or pending operation still uses its memory; drop those first, or pass a copy"
            );
        }
        Ok(())
    }

    /// Declared outputs, filled with the initial value if there is one.
    fn allocate(&self, cells: &[Number]) -> Result<SmallVec<[CpuBuffer; 2]>> {
        let mut made = SmallVec::new();
        for aval in &self.outs[..self.declared] {
            let mut b = CpuBuffer::new(aval.nbytes())?;
            if let Some(&init) = cells.first() {
                let word = element(init, aval.dtype);
                let size = aval.dtype.size();
                let out = b.slice_mut::<u8>()?;
                pool::for_chunks(out, (64 << 10) / size * size, |_, part| {
                    for e in part.chunks_exact_mut(size) {
                        e.copy_from_slice(&word[..size]);
                    }
                });
            }
            made.push(b);
        }
        Ok(made)
    }

    fn launch(&self, ins: &mut [Input<'_>], made: &mut [CpuBuffer]) -> Result<()> {
        let module = self.module()?;
        let shapes: SmallVec<[SmallVec<[i32; 8]>; 8]> =
            ins.iter().map(|v| v.layout.shape.iter().map(|&d| d as i32).collect()).collect();
        let strides: SmallVec<[SmallVec<[i64; 8]>; 8]> =
            ins.iter().map(|v| v.layout.strides.iter().map(|&s| s as i64).collect()).collect();
        let ndims: SmallVec<[i32; 8]> = ins.iter().map(|v| v.layout.shape.len() as i32).collect();
        let spec = self.spec();
        let mut first: SmallVec<[Arg<'_>; 8]> = SmallVec::new();
        for (i, v) in ins.iter_mut().enumerate() {
            let at = v.layout.offset * self.ins[i].dtype.size();
            first.push(if spec.is_mutable(i) {
                let b =
                    view::unique(v).ok_or_else(|| err!(Internal, "[metal_kernel] an input became shared"))?;
                Arg::Output(b.slice_mut::<u8>()?.as_mut_ptr().wrapping_add(at))
            } else {
                Arg::Input(buffer(v)?.bytes().as_ptr().wrapping_add(at))
            });
        }
        let outs = made.iter_mut().map(|b| Ok(Arg::Output(b.slice_mut::<u8>()?.as_mut_ptr())));
        let outs = outs.collect::<Result<SmallVec<[Arg<'_>; 4]>>>()?;
        let args = spec.args.iter().map(|slot| match *slot {
            ArgSlot::Input(i) => first[i as usize],
            ArgSlot::Shape(i) => Arg::Shape(&shapes[i as usize]),
            ArgSlot::Strides(i) => Arg::Strides(&strides[i as usize]),
            ArgSlot::Ndim(i) => Arg::Ndim(&ndims[i as usize]),
            ArgSlot::Output(i) => outs[i as usize],
        });
        let args: SmallVec<[Arg<'_>; 16]> = args.collect();
        let KernelLaunch { grid, threadgroup, .. } = *self.launch;
        let parallel = |n: usize, f: &(dyn Fn(usize) + Sync)| pool::parallel_for(n, f);
        // SAFETY: `args` follows the specialization's own list, with the dtypes, shapes and strides it
        // was made for (`Step` gives each input its aval's dtype; `check` above kept layouts inside
        // their buffers). Outputs are fresh and mutable inputs unique, both borrowed mutably until this
        // returns. That the body stays within them is its author's to uphold, as for any code of the
        // program.
        unsafe { run(module, &args, grid, threadgroup, &parallel, &INTERRUPT) }
    }
}

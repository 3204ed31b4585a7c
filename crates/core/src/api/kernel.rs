//! Custom kernels on arrays.

use super::{Operand, no_valid_length};
use crate::array::{Array, Inputs, Scalars};
use crate::kernel::{InputKind, KernelFunction, KernelStats, KernelText, Specialization, TemplateValue};
use crate::op::{CustomOp, KernelLaunch, Op};
use crate::{Aval, Dtype, Result, Scalar, Shape, bail};
use smallvec::SmallVec;
use std::sync::Arc;

/// The most threads that a threadgroup may have.
pub const MAX_THREADGROUP: i64 = 1024;

/// A kernel that a program brings along: the body of a function in the Metal shading language, which
/// every device runs (`docs/metal_dialect.md` says what of the language is there).
///
/// It is made once and called any number of times. Its source is generated once for each
/// combination of template values, dtypes and ways in which inputs are passed; a repeated call
/// generates and hashes no text. Cloning shares the kernel.
///
/// ```no_run
/// use isopace_core::{Array, Dtype, api::{KernelCall, MetalKernel}};
/// let double = MetalKernel::new(
///     "double",
///     &["a"],
///     &["out"],
///     "uint i = thread_position_in_grid.x; out[i] = a[i] * T(N);",
/// )?;
/// let a = Array::from_slice(&[1.0f32, 2.0, 3.0], [3])?;
/// let out = double.call(&KernelCall {
///     inputs: &[(&a).into()],
///     template: &[("T", Dtype::F32.into()), ("N", 2.into())],
///     grid: [3, 1, 1],
///     threadgroup: [3, 1, 1],
///     output_shapes: &[[3].into()],
///     output_dtypes: &[Dtype::F32],
///     ..Default::default()
/// })?;
/// assert_eq!(out[0].to_vec::<f32>()?, [2.0, 4.0, 6.0]);
/// # Ok::<(), isopace_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetalKernel(Arc<KernelFunction>);

/// What a call of a [`MetalKernel`] is given.
#[derive(Clone, Debug)]
pub struct KernelCall<'a> {
    /// One for each input name. A scalar becomes a 0-d array: int32 (int64 where needed), float32,
    /// bool or complex64.
    pub inputs: &'a [Operand],
    /// Names of the body that stand for a number, a bool or a type.
    pub template: &'a [(&'a str, TemplateValue)],
    /// Threads in each direction. Where one is 0 nothing runs.
    pub grid: [i64; 3],
    /// Threads of a threadgroup in each direction, at most 1,024 in all.
    pub threadgroup: [i64; 3],
    pub output_shapes: &'a [Shape],
    pub output_dtypes: &'a [Dtype],
    /// What outputs hold before the kernel runs; without it that is arbitrary.
    pub init_value: Option<Scalar>,
}

impl Default for KernelCall<'_> {
    fn default() -> Self {
        KernelCall {
            inputs: &[],
            template: &[],
            grid: [1; 3],
            threadgroup: [1; 3],
            output_shapes: &[],
            output_dtypes: &[],
            init_value: None,
        }
    }
}

impl From<i64> for TemplateValue {
    fn from(v: i64) -> TemplateValue {
        TemplateValue::Int(v)
    }
}
impl From<i32> for TemplateValue {
    fn from(v: i32) -> TemplateValue {
        TemplateValue::Int(v.into())
    }
}
impl From<bool> for TemplateValue {
    fn from(v: bool) -> TemplateValue {
        TemplateValue::Bool(v)
    }
}
impl From<Dtype> for TemplateValue {
    fn from(v: Dtype) -> TemplateValue {
        TemplateValue::Dtype(v)
    }
}

type Arrays = SmallVec<[Array; 8]>;

impl MetalKernel {
    /// A kernel with the usual options: inputs made row-contiguous, none of them written.
    ///
    /// # Errors
    /// `Kernel` for names that are no identifiers, are reserved or used twice, and without outputs.
    pub fn new(name: &str, inputs: &[&str], outputs: &[&str], source: &str) -> Result<MetalKernel> {
        MetalKernel::from_text(&KernelText {
            name,
            input_names: inputs,
            output_names: outputs,
            source,
            ..Default::default()
        })
    }

    /// A kernel with a header, strided, atomic or mutable arguments, or in another dialect.
    ///
    /// # Errors
    /// As [`MetalKernel::new`].
    pub fn from_text(text: &KernelText<'_>) -> Result<MetalKernel> {
        Ok(MetalKernel(Arc::new(KernelFunction::new(text)?)))
    }

    /// The kernel's text and its cache.
    pub fn function(&self) -> &KernelFunction {
        &self.0
    }

    /// What the kernel's cache has done so far.
    pub fn stats(&self) -> KernelStats {
        self.0.stats()
    }

    /// The source that a call runs, for reading.
    ///
    /// # Errors
    /// As [`MetalKernel::call`].
    pub fn source(&self, call: &KernelCall<'_>) -> Result<Arc<str>> {
        let inputs = self.inputs(call)?;
        self.check_outputs(call)?;
        Ok(self.specialize(call, &inputs)?.source.clone())
    }

    /// The outputs, then the updated arrays of the mutable inputs, in the order of their names. Nothing
    /// runs before one of them is evaluated.
    ///
    /// A **mutable input** is given up to the kernel, which writes into its memory; the result is the
    /// array returned for it. Whoever else holds the given array, or a view of its memory, when the
    /// kernel runs makes the call fail, and so does an array that is not row-contiguous: nothing is
    /// copied silently. So `state = kernel.call(.. state ..)?.pop()` updates in place.
    ///
    /// # Errors
    /// `Argument` for wrong counts, grids, threadgroups; `Shape` for outputs with too many elements;
    /// `Kernel` for bad template names. Building and running report their errors when a result is read.
    pub fn call(&self, call: &KernelCall<'_>) -> Result<Vec<Array>> {
        let inputs = self.inputs(call)?;
        self.check_outputs(call)?;
        let spec = self.specialize(call, &inputs)?;
        let grid = self.extents(call.grid, "grid")?;
        let threadgroup = self.extents(call.threadgroup, "threadgroup")?;
        let threads: u64 = threadgroup.iter().map(|&t| u64::from(t.min(1 << 16))).product();
        if threads == 0 || threads > MAX_THREADGROUP as u64 {
            bail!(
                Argument,
                "[{} {}] threadgroup {:?} has {} threads; accepted: 1 to {MAX_THREADGROUP}",
                self.maker(),
                self.0.name(),
                call.threadgroup,
                call.threadgroup.iter().map(|&t| t as i128).product::<i128>()
            );
        }
        if grid.iter().try_fold(1u64, |p, &x| p.checked_mul(x.into())).is_none() {
            bail!(
                Argument,
                "[{} {}] grid {:?} has more than 2^64 threads",
                self.maker(),
                self.0.name(),
                call.grid
            );
        }
        let mut scalars = Scalars::new();
        if let Some(init) = &call.init_value {
            let value = init.hint()?;
            call.output_dtypes.iter().try_for_each(|&d| value.check_range(d))?;
            scalars.push(init.clone());
        }
        let mut avals = SmallVec::<[Aval; 4]>::new();
        for (shape, &dtype) in call.output_shapes.iter().zip(call.output_dtypes) {
            avals.push(Aval::new(shape.clone(), dtype));
        }
        for (i, a) in inputs.iter().enumerate() {
            if self.0.is_mutable(i) {
                avals.push(a.aval().clone());
            }
        }
        let op = Op::Custom(CustomOp(Arc::new(KernelLaunch { spec, grid, threadgroup })));
        let inputs = Inputs::from_iter(inputs);
        if avals.len() == 1 {
            return Ok(vec![Array::lazy(op, inputs, scalars, avals.swap_remove(0))]);
        }
        Ok(Array::lazy_many(op, inputs, scalars, Arc::from_iter(avals)).into_vec())
    }

    fn maker(&self) -> &'static str {
        self.0.dialect().maker()
    }

    fn inputs(&self, call: &KernelCall<'_>) -> Result<Arrays> {
        let f = &*self.0;
        f.check_counts(call.inputs.len(), call.output_dtypes.len())?;
        let array = |o: &Operand| match o {
            Operand::Array(a) => Ok(a.clone()),
            Operand::Scalar(_) => o.cast(o.dtype()),
        };
        let inputs = call.inputs.iter().map(array).collect::<Result<Arrays>>()?;
        no_valid_length(&inputs, f.name())?;
        for (i, o) in call.inputs.iter().enumerate() {
            if f.is_mutable(i) && matches!(o, Operand::Scalar(_)) {
                bail!(
                    Argument,
                    "[{} {}] mutable input {:?} is a scalar; accepted: an array",
                    self.maker(),
                    f.name(),
                    f.input_name(i)
                );
            }
        }
        Ok(inputs)
    }

    fn check_outputs(&self, call: &KernelCall<'_>) -> Result<()> {
        let (shapes, dtypes) = (call.output_shapes, call.output_dtypes);
        if shapes.len() != dtypes.len() {
            bail!(
                Argument,
                "[{} {}] got {} output shapes and {} output dtypes; the kernel has {} outputs",
                self.maker(),
                self.0.name(),
                shapes.len(),
                dtypes.len(),
                self.0.output_count()
            );
        }
        for shape in shapes {
            // Cheap for what fits; only a shape that may not is looked at again.
            let small = shape.len() <= 8
                && shape
                    .iter()
                    .try_fold(1usize, |n, &d| n.checked_mul(d.max(1)))
                    .is_some_and(|n| n < 1 << 48);
            if !small {
                shape.clone().checked(&format!("{} {}", self.maker(), self.0.name()))?;
            }
        }
        Ok(())
    }

    fn specialize(&self, call: &KernelCall<'_>, inputs: &Arrays) -> Result<Arc<Specialization>> {
        let kinds: SmallVec<[InputKind; 16]> = inputs
            .iter()
            .enumerate()
            .map(|(i, a)| InputKind::of(a.dtype(), a.ndim(), a.size(), self.0.is_mutable(i)))
            .collect();
        self.0.specialize(call.template, &kinds, call.output_dtypes)
    }

    fn extents(&self, given: [i64; 3], what: &str) -> Result<[u32; 3]> {
        let mut out = [0; 3];
        for (o, g) in out.iter_mut().zip(given) {
            let Ok(g) = u32::try_from(g) else {
                bail!(
                    Argument,
                    "[{} {}] {what} {given:?} has a size of {g}; accepted: 0 to {}",
                    self.maker(),
                    self.0.name(),
                    u32::MAX
                );
            };
            *o = g;
        }
        Ok(out)
    }
}

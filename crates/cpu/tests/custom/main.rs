//! Custom kernels on the CPU: vocabulary, cooperation, specializations, modules.

mod arrays;
mod cooperation;
mod dump;
mod figures;
mod modules;
mod specializations;
mod vocabulary;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use isopace_core::kernel::{ArgSlot, InputKind, KernelFunction, KernelText, Specialization, TemplateValue};
use isopace_core::{Dtype, Result};
use isopace_cpu::custom::{Arg, Interrupt, Modules, ModulesOptions, run};

/// Modules of these tests, kept apart from the user's.
pub fn modules() -> &'static Modules {
    static M: OnceLock<Modules> = OnceLock::new();
    M.get_or_init(|| {
        let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("kernels");
        Modules::new(ModulesOptions { dir: Some(dir), ..Default::default() })
    })
}

/// A folder of its own for one test.
pub fn fresh_dir(name: &str) -> std::path::PathBuf {
    let dir =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

/// Two threads claiming from a counter.
pub fn two_threads(n: usize, f: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            if i >= n {
                break;
            }
            f(i);
        }
    };
    std::thread::scope(|s| {
        s.spawn(work);
        work();
    });
}

/// An element of a test array.
pub trait Elem: Copy + 'static {
    const DTYPE: Dtype;
}
macro_rules! elems { ($($t:ty => $d:ident),*) => { $(impl Elem for $t { const DTYPE: Dtype = Dtype::$d; })* } }
elems!(u8 => U8, u16 => U16, u32 => U32, u64 => U64, i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool, half::f16 => F16, half::bf16 => BF16);

/// An array: its bytes, and how they are viewed.
#[derive(Clone)]
pub struct Data {
    pub dtype: Dtype,
    pub shape: Vec<i32>,
    pub strides: Vec<i64>,
    pub bytes: Vec<u64>,
    pub elems: usize,
}

impl Data {
    pub fn of<T: Elem>(values: &[T]) -> Data {
        Data::shaped(values, &[values.len() as i32])
    }

    pub fn shaped<T: Elem>(values: &[T], shape: &[i32]) -> Data {
        let mut bytes = vec![0u64; std::mem::size_of_val(values).div_ceil(8)];
        // SAFETY: the target has at least as many bytes; every Elem is plain bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(
                values.as_ptr().cast::<u8>(),
                bytes.as_mut_ptr().cast(),
                std::mem::size_of_val(values),
            )
        };
        let mut strides = vec![1i64; shape.len()];
        for i in (1..shape.len()).rev() {
            strides[i - 1] = strides[i] * i64::from(shape[i]);
        }
        Data { dtype: T::DTYPE, shape: shape.to_vec(), strides, bytes, elems: values.len() }
    }

    pub fn scalar<T: Elem>(value: T) -> Data {
        Data::shaped(&[value], &[])
    }

    pub fn zeros(dtype: Dtype, elems: usize) -> Data {
        let bytes = vec![0; (elems * dtype.size()).div_ceil(8)];
        Data { dtype, shape: vec![elems as i32], strides: vec![1], bytes, elems }
    }

    pub fn to<T: Elem>(&self) -> Vec<T> {
        assert_eq!(T::DTYPE, self.dtype);
        // SAFETY: the bytes were written as elements of this dtype.
        (0..self.elems).map(|i| unsafe { self.bytes.as_ptr().cast::<T>().add(i).read() }).collect()
    }
}

pub fn function(name: &str, inputs: &[&str], outputs: &[&str], source: &str) -> KernelFunction {
    function_with(KernelText {
        name,
        input_names: inputs,
        output_names: outputs,
        source,
        ..Default::default()
    })
}

pub fn function_with(text: KernelText<'_>) -> KernelFunction {
    KernelFunction::new(&text).unwrap()
}

pub fn specialize(
    k: &KernelFunction,
    template: &[(&str, TemplateValue)],
    inputs: &[Data],
    outputs: &[Data],
) -> Result<Arc<Specialization>> {
    let kinds: Vec<_> = inputs
        .iter()
        .enumerate()
        .map(|(i, d)| InputKind::of(d.dtype, d.shape.len(), d.elems, k.is_mutable(i)))
        .collect();
    let dtypes: Vec<_> = outputs.iter().map(|o| o.dtype).collect();
    k.specialize(template, &kinds, &dtypes)
}

/// Calls a kernel; inputs and outputs are written in place.
pub fn call(
    k: &KernelFunction,
    template: &[(&str, TemplateValue)],
    inputs: &mut [Data],
    outputs: &mut [Data],
    grid: [u32; 3],
    threadgroup: [u32; 3],
) -> Result<()> {
    call_with(modules(), &Interrupt::new(), k, template, inputs, outputs, grid, threadgroup)
}

pub fn call_with(
    modules: &Modules,
    interrupt: &Interrupt,
    k: &KernelFunction,
    template: &[(&str, TemplateValue)],
    inputs: &mut [Data],
    outputs: &mut [Data],
    grid: [u32; 3],
    threadgroup: [u32; 3],
) -> Result<()> {
    let spec = specialize(k, template, inputs, outputs)?;
    let fetched = modules.get(&spec)?;
    let ndims: Vec<i32> = inputs.iter().map(|d| d.shape.len() as i32).collect();
    let pointers: Vec<*mut u8> = inputs.iter_mut().map(|d| d.bytes.as_mut_ptr().cast()).collect();
    let args: Vec<Arg> = spec
        .args
        .iter()
        .map(|slot| match *slot {
            ArgSlot::Input(i) if k.is_mutable(i as usize) => Arg::Output(pointers[i as usize]),
            ArgSlot::Input(i) => Arg::Input(pointers[i as usize]),
            ArgSlot::Shape(i) => Arg::Shape(&inputs[i as usize].shape),
            ArgSlot::Strides(i) => Arg::Strides(&inputs[i as usize].strides),
            ArgSlot::Ndim(i) => Arg::Ndim(&ndims[i as usize]),
            ArgSlot::Output(i) => Arg::Output(outputs[i as usize].bytes.as_mut_ptr().cast()),
        })
        .collect();
    // SAFETY: every test's kernel stays within the arrays it is given.
    unsafe { run(&fetched.module, &args, grid, threadgroup, &two_threads, interrupt) }
}

pub fn dt(d: Dtype) -> TemplateValue {
    TemplateValue::Dtype(d)
}
pub fn int(v: i64) -> TemplateValue {
    TemplateValue::Int(v)
}

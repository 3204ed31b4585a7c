//! Custom kernels: `fast.metal_kernel` and the object that it makes.

use crate::array::PyArray;
use crate::convert::{self, Num, Opd, ShapeArg};
use crate::device::StreamArg;
use crate::dtype::{DtypeArg, PyDtype};
use crate::errors::{OrRaise, type_error};
use crate::raw::Texts;
use isopace_core::api::{KernelCall, MetalKernel, Operand};
use isopace_core::kernel::{KernelText, TemplateValue};
use isopace_core::{Array, Dtype, Shape};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyList, PyString, PyTuple};
use smallvec::SmallVec;

/// A kernel made by `metal_kernel`. Calling it returns the outputs.
#[pyclass(module = "isopace.core.fast", frozen)]
struct CustomKernel(MetalKernel);

/// The value of a template argument: a bool, an int or a dtype.
fn template_value(name: &str, obj: &Bound<'_, PyAny>) -> PyResult<TemplateValue> {
    if let Ok(d) = obj.cast::<PyDtype>() {
        return Ok(d.get().0.into());
    }
    if let Ok(b) = obj.cast::<PyBool>() {
        return Ok(b.is_true().into());
    }
    convert::int(obj).map(Into::into).map_err(|_| {
        let ty = obj.get_type();
        type_error(format!(
            "[metal_kernel] template argument {name:?} is {ty}; accepted: an int, a bool or a dtype"
        ))
    })
}

/// Three sizes.
fn sizes(obj: &Bound<'_, PyAny>, what: &str) -> PyResult<[i64; 3]> {
    let given = convert::ints(obj)?;
    let n = given.len();
    <[i64; 3]>::try_from(&given[..])
        .map_err(|_| type_error(format!("[metal_kernel] {what} has {n} sizes; accepted: a tuple of 3")))
}

/// Calls `f` for every item of a list, a tuple, or whatever else can be iterated.
fn each<'py>(obj: &Bound<'py, PyAny>, mut f: impl FnMut(&Bound<'py, PyAny>) -> PyResult<()>) -> PyResult<()> {
    if let Ok(l) = obj.cast::<PyList>() {
        return l.iter().try_for_each(|x| f(&x));
    }
    if let Ok(t) = obj.cast::<PyTuple>() {
        return t.iter().try_for_each(|x| f(&x));
    }
    obj.try_iter()?.try_for_each(|x| f(&x?))
}

#[pymethods]
impl CustomKernel {
    /// Runs the kernel over `grid` threads and returns its outputs.
    ///
    /// `inputs` are arrays or numbers, one for each input name. `template` is a list of pairs of a name
    /// and an int, a bool or a dtype. `init_value` is what outputs hold before the kernel runs.
    /// `verbose` prints the generated source. Arrays given as mutable inputs are updated in place.
    #[pyo3(signature = (*, inputs, output_shapes, output_dtypes, grid, threadgroup, template = None,
        init_value = None, verbose = false, stream = None))]
    #[allow(clippy::too_many_arguments)]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        output_shapes: &Bound<'py, PyAny>,
        output_dtypes: &Bound<'py, PyAny>,
        grid: &Bound<'py, PyAny>,
        threadgroup: &Bound<'py, PyAny>,
        template: Option<&Bound<'py, PyAny>>,
        init_value: Option<Num>,
        verbose: bool,
        stream: Option<StreamArg>,
    ) -> PyResult<Bound<'py, PyList>> {
        let _ = stream;
        let function = self.0.function();
        let texts = Texts::default();
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        let mut mutable: SmallVec<[Bound<'py, PyArray>; 2]> = SmallVec::new();
        each(inputs, |x| {
            let i = operands.len();
            if i < function.input_count() && function.is_mutable(i) {
                let handle = x.cast::<PyArray>().map_err(|_| {
                    let (kernel, name, ty) = (function.name(), function.input_name(i), x.get_type());
                    type_error(format!(
                        "[metal_kernel {kernel}] mutable input {name:?} is {ty}; accepted: an mx.array"
                    ))
                })?;
                mutable.push(handle.clone());
            }
            operands.push(x.extract::<Opd>()?.0);
            Ok(())
        })?;
        let mut shapes: SmallVec<[Shape; 4]> = SmallVec::new();
        each(output_shapes, |x| {
            shapes.push(x.extract::<ShapeArg>()?.0);
            Ok(())
        })?;
        let mut dtypes: SmallVec<[Dtype; 4]> = SmallVec::new();
        each(output_dtypes, |x| {
            dtypes.push(x.extract::<DtypeArg>()?.0);
            Ok(())
        })?;
        let mut values: SmallVec<[(&str, TemplateValue); 8]> = SmallVec::new();
        if let Some(template) = template {
            each(template, |pair| {
                let wrong = || type_error("[metal_kernel] a template argument must be a pair (name, value)");
                let (name, value) = match pair.cast::<PyTuple>() {
                    Ok(t) if t.len() == 2 => (t.get_item(0)?, t.get_item(1)?),
                    Ok(_) => return Err(wrong()),
                    Err(_) => pair.extract().map_err(|_| wrong())?,
                };
                let name = texts.text(name.cast::<PyString>().map_err(|_| wrong())?)?;
                values.push((name, template_value(name, &value)?));
                Ok(())
            })?;
        }
        let call = KernelCall {
            inputs: &operands,
            template: &values,
            grid: sizes(grid, "grid")?,
            threadgroup: sizes(threadgroup, "threadgroup")?,
            output_shapes: &shapes,
            output_dtypes: &dtypes,
            init_value: init_value.map(|n| n.0),
        };
        if verbose {
            let source = self.0.source(&call).or_raise()?;
            let text = format!("Generated source code for `{}`:\n```\n{source}\n```", function.name());
            py.import("builtins")?.call_method1("print", (text,))?;
        }
        let mut outs: Vec<Array> = self.0.call(&call).or_raise()?;
        let updated = outs.split_off(function.output_count());
        // From here on the handle holds the updated array, so that the old one is nobody's but the kernel's.
        for (handle, new) in mutable.iter().zip(updated) {
            handle.get().rebind(py, new);
        }
        PyList::new(py, outs.into_iter().map(PyArray::new))
    }

    /// What the cache of this kernel has done: specializations, hits, misses, evictions, sources generated,
    /// modules built.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (s, d) = (self.0.stats(), PyDict::new(py));
        d.set_item("specializations", s.specializations)?;
        d.set_item("hits", s.hits)?;
        d.set_item("misses", s.misses)?;
        d.set_item("evictions", s.evictions)?;
        d.set_item("sources_generated", s.sources_generated)?;
        d.set_item("modules_built", s.modules_built)?;
        Ok(d)
    }

    fn __repr__(&self) -> String {
        format!("<metal_kernel {}>", self.0.function().name())
    }
}

fn strs(v: &[String]) -> Vec<&str> {
    v.iter().map(String::as_str).collect()
}

/// Makes a custom kernel from the body of a function in the Metal shading language.
///
/// The signature is generated: each input by its name; its `NAME_shape`, `NAME_strides`, `NAME_ndim` where
/// the body names them; each output; and thread attributes that the body names, such as
/// `thread_position_in_grid`. With `ensure_row_contiguous` inputs are copied where they are not;
/// `atomic_outputs` declares outputs as `device atomic<T>*`. Inputs in `mutable_inputs` are `device T*` and
/// written in place: after a call the given array is the updated one; an array whose memory someone
/// else uses, or that is not contiguous, is refused when the kernel runs. Raises ValueError for names that are no
/// identifiers or that collide with the vocabulary.
///
/// >>> twice = mx.fast.metal_kernel("twice", ["a"], ["out"], "uint i = thread_position_in_grid.x; out[i] = 2 * a[i];")
/// >>> twice(inputs=[mx.array([1, 2])], grid=(2, 1, 1), threadgroup=(2, 1, 1),
/// ...       output_shapes=[(2,)], output_dtypes=[mx.int32])
/// [array([2, 4], dtype=int32)]
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header = "", ensure_row_contiguous = true,
    atomic_outputs = false, compile_options = None, *, mutable_inputs = Vec::new()))]
#[allow(clippy::too_many_arguments)]
fn metal_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    atomic_outputs: bool,
    compile_options: Option<&Bound<'_, PyAny>>,
    mutable_inputs: Vec<String>,
) -> PyResult<CustomKernel> {
    // Options of Apple's compiler.
    let _ = compile_options;
    let kernel = MetalKernel::from_text(&KernelText {
        name,
        input_names: &strs(&input_names),
        output_names: &strs(&output_names),
        source,
        header,
        ensure_row_contiguous,
        atomic_outputs,
        mutable_inputs: &strs(&mutable_inputs),
        ..Default::default()
    });
    kernel.map(CustomKernel).or_raise()
}

/// Raises RuntimeError: kernels in CUDA C++ need an NVIDIA GPU.
///
/// >>> mx.fast.cuda_kernel("k", ["a"], ["out"], "")
/// Traceback (most recent call last):
///     ...
/// RuntimeError: [cuda_kernel k] CUDA C++ needs an NVIDIA GPU ...
#[pyfunction]
#[pyo3(signature = (name, input_names, output_names, source, header = "", ensure_row_contiguous = true,
    shared_memory = 0, *, mutable_inputs = Vec::new()))]
#[allow(clippy::too_many_arguments)]
fn cuda_kernel(
    name: &str,
    input_names: Vec<String>,
    output_names: Vec<String>,
    source: &str,
    header: &str,
    ensure_row_contiguous: bool,
    shared_memory: i64,
    mutable_inputs: Vec<String>,
) -> PyResult<CustomKernel> {
    let _ = (input_names, output_names, source, header, ensure_row_contiguous, shared_memory, mutable_inputs);
    Err(PyRuntimeError::new_err(format!(
        "[cuda_kernel {name}] CUDA C++ needs an NVIDIA GPU and the CUDA back-end, and there is none here; \
         write the kernel in the Metal dialect (mx.fast.metal_kernel), which every device runs"
    )))
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<CustomKernel>()?;
    let fast = m.getattr("fast")?;
    let fast = fast.cast::<PyModule>()?;
    fast.add_function(wrap_pyfunction!(metal_kernel, fast)?)?;
    fast.add_function(wrap_pyfunction!(cuda_kernel, fast)?)
}

//! Bytes in and out: the buffer protocol and DLPack.
//!
//! Exports hold the array's buffer, so nothing writes it in place while a NumPy view lives. A view may
//! be written by Python; whoever does that while another thread evaluates an array over the same
//! buffer gets old or new elements, as with NumPy itself.

use crate::array::PyArray;
use crate::errors::{OrRaise, type_error, value_error};
use isopace_core::backend::Value;
use isopace_core::{Array, Dtype, Layout};
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::MaybeUninit;

/// The struct-module code of a dtype.
fn format_of(d: Dtype) -> &'static CStr {
    match d {
        Dtype::Bool => c"?",
        Dtype::U8 => c"B",
        Dtype::U16 => c"H",
        Dtype::U32 => c"I",
        Dtype::U64 => c"Q",
        Dtype::I8 => c"b",
        Dtype::I16 => c"h",
        Dtype::I32 => c"i",
        Dtype::I64 => c"q",
        Dtype::F16 => c"e",
        Dtype::BF16 => c"bfloat16",
        Dtype::F32 => c"f",
        Dtype::F64 => c"d",
        Dtype::C64 => c"Zf",
    }
}

/// What the elements of a foreign buffer are.
#[derive(Clone, Copy, PartialEq)]
enum Foreign {
    Known(Dtype),
    /// Two doubles, which become complex64.
    ComplexDouble,
}

fn foreign(format: &str, size: usize) -> Option<Foreign> {
    let code = format.trim_start_matches(['@', '=', '<']);
    let d = match (code, size) {
        ("?", 1) => Dtype::Bool,
        ("B" | "c", 1) => Dtype::U8,
        ("b", 1) => Dtype::I8,
        ("h", 2) => Dtype::I16,
        ("H", 2) => Dtype::U16,
        ("i" | "l" | "q" | "n", 4) => Dtype::I32,
        ("i" | "l" | "q" | "n", 8) => Dtype::I64,
        ("I" | "L" | "Q" | "N", 4) => Dtype::U32,
        ("I" | "L" | "Q" | "N", 8) => Dtype::U64,
        ("e", 2) => Dtype::F16,
        ("f", 4) => Dtype::F32,
        ("d", 8) => Dtype::F64,
        ("bfloat16" | "E", 2) => Dtype::BF16,
        ("Zf", 8) => Dtype::C64,
        ("Zd", 16) => return Some(Foreign::ComplexDouble),
        _ => return None,
    };
    Some(Foreign::Known(d))
}

/// A view that this process got from an exporter; released on drop.
struct View(Box<MaybeUninit<ffi::Py_buffer>>);

impl View {
    fn get(&self) -> &ffi::Py_buffer {
        // SAFETY: `import` makes a View only after PyObject_GetBuffer has filled it.
        unsafe { self.0.assume_init_ref() }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer, released once, here; the GIL is held because Views
        // live inside `import` only.
        unsafe { ffi::PyBuffer_Release(self.0.as_mut_ptr()) }
    }
}

/// An array with a copy of what an object shows through the buffer protocol, or `None` if it has none.
/// Without a dtype, float64 becomes float32 and complex128 complex64.
pub(crate) fn import(obj: &Bound<'_, PyAny>, dtype: Option<Dtype>) -> PyResult<Option<Array>> {
    // SAFETY: `obj` is live and the GIL is held, both proven by `Bound`.
    if unsafe { ffi::PyObject_CheckBuffer(obj.as_ptr()) } == 0 {
        return Ok(None);
    }
    let mut view = Box::new(MaybeUninit::uninit());
    // SAFETY: as above; `view` has room for the struct.
    if unsafe { ffi::PyObject_GetBuffer(obj.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_FULL_RO) } != 0 {
        let e = PyErr::fetch(obj.py());
        return Err(value_error(format!("[array] {} does not show its elements: {e}", obj.get_type())));
    }
    let view = View(view);
    let b = view.get();
    let ndim = b.ndim as usize;
    let format = match b.format.is_null() {
        true => "B",
        // SAFETY: a null-terminated text, by the buffer protocol, alive as long as the view.
        false => unsafe { CStr::from_ptr(b.format) }.to_str().unwrap_or("?!"),
    };
    let size = b.itemsize as usize;
    let big = format.starts_with(['>', '!']);
    let Some(kind) = foreign(format.trim_start_matches(['>', '!']), size) else {
        return Err(value_error(format!(
            "[array] elements of format {format:?} are not accepted; accepted: bool, integers, floats and complex"
        )));
    };
    let (shape, strides) = dims(b, ndim);
    let mut bytes = Vec::new();
    if shape.iter().product::<usize>() > 0 {
        // SAFETY: by the buffer protocol, shape, strides and itemsize describe memory that stays valid
        // until the view is released, after this.
        unsafe { gather(b.buf.cast(), &shape, &strides, size, &mut bytes) };
    }
    if big {
        let word =
            if matches!(kind, Foreign::ComplexDouble | Foreign::Known(Dtype::C64)) { size / 2 } else { size };
        bytes.chunks_exact_mut(word).for_each(|c| c.reverse());
    }
    let a = match kind {
        Foreign::Known(d) => Array::from_bytes(&bytes, shape, d).or_raise()?,
        Foreign::ComplexDouble => {
            let halves: Vec<f32> = bytes
                .chunks_exact(8)
                .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)
                .collect();
            Array::from_bytes(bytemuck::cast_slice(&halves), shape, Dtype::C64).or_raise()?
        }
    };
    let default = if a.dtype() == Dtype::F64 { Dtype::F32 } else { a.dtype() };
    Ok(Some(a.astype(dtype.unwrap_or(default)).or_raise()?))
}

fn dims(b: &ffi::Py_buffer, ndim: usize) -> (Vec<usize>, Vec<isize>) {
    let read = |p: *const isize| match p.is_null() || ndim == 0 {
        true => None,
        // SAFETY: by the buffer protocol the pointer shows `ndim` numbers while the view lives.
        false => Some(unsafe { std::slice::from_raw_parts(p, ndim) }.to_vec()),
    };
    let shape: Vec<usize> = match read(b.shape) {
        Some(s) => s.into_iter().map(|d| d as usize).collect(),
        None if ndim == 1 => vec![(b.len / b.itemsize.max(1)) as usize],
        None => Vec::new(),
    };
    let strides = read(b.strides).unwrap_or_else(|| contiguous(&shape, b.itemsize));
    (shape, strides)
}

fn contiguous(shape: &[usize], item: isize) -> Vec<isize> {
    let mut out = vec![item; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        out[i] = out[i + 1] * shape[i + 1] as isize;
    }
    out
}

/// Appends the elements in row-major order.
///
/// # Safety
/// Every element that shape and strides (in bytes) reach from `p` must be readable.
unsafe fn gather(p: *const u8, shape: &[usize], strides: &[isize], size: usize, out: &mut Vec<u8>) {
    if contiguous(shape, size as isize) == strides || shape.is_empty() {
        let n = shape.iter().product::<usize>() * size;
        // SAFETY: the elements are contiguous and readable (upheld by the caller).
        out.extend_from_slice(unsafe { std::slice::from_raw_parts(p, n) });
        return;
    }
    for i in 0..shape[0] {
        let q = p.wrapping_offset(i as isize * strides[0]);
        // SAFETY: a part of the same elements (upheld by the caller).
        unsafe { gather(q, &shape[1..], &strides[1..], size, out) };
    }
}

/// What an export keeps alive: the value, or a copy where the device's memory cannot be shown.
struct Export {
    value: Option<Value>,
    copy: Vec<u8>,
    shape: Vec<isize>,
    /// In bytes.
    strides: Vec<isize>,
    data: *mut u8,
}

impl Export {
    fn new(py: Python<'_>, a: &Array) -> PyResult<Box<Export>> {
        let value = crate::eval::value(py, a)?;
        let item = a.dtype().size() as isize;
        let shape = a.shape().iter().map(|&d| d as isize).collect();
        let host = crate::host::bytes(&value);
        let mut e = match host {
            Some(bytes) => Export {
                copy: Vec::new(),
                shape,
                strides: value.layout.strides.iter().map(|&s| s * item).collect(),
                data: bytes.as_ptr().cast_mut().wrapping_add(value.layout.offset * item as usize),
                value: Some(value),
            },
            None => {
                let copy = a.to_bytes().or_raise()?;
                let layout = Layout::contiguous(a.shape().clone());
                let strides = layout.strides.iter().map(|&s| s * item).collect();
                Export { value: None, copy, shape, strides, data: std::ptr::null_mut() }
            }
        };
        if e.value.is_none() {
            e.data = e.copy.as_mut_ptr();
        }
        Ok(Box::new(e))
    }

    fn is_contiguous(&self, item: isize) -> bool {
        let shape: Vec<usize> = self.shape.iter().map(|&d| d as usize).collect();
        let want = contiguous(&shape, item);
        shape.contains(&0) || (0..shape.len()).all(|i| shape[i] == 1 || self.strides[i] == want[i])
    }
}

/// Fills a buffer view of an array (`__getbuffer__`).
///
/// # Safety
/// `view` must point at a Py_buffer that the caller lets be filled.
pub(crate) unsafe fn fill(slf: &Bound<'_, PyArray>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("[array] no view to fill"));
    }
    let a = slf.get().array(slf.py());
    let item = a.dtype().size() as isize;
    let mut e = Export::new(slf.py(), &a)?;
    let strided = flags & ffi::PyBUF_STRIDES == ffi::PyBUF_STRIDES;
    if !strided && !e.is_contiguous(item) {
        return Err(PyBufferError::new_err("[array] the elements are not contiguous"));
    }
    let filled = ffi::Py_buffer {
        buf: e.data.cast::<c_void>(),
        obj: slf.clone().into_any().into_ptr(),
        len: a.nbytes() as isize,
        itemsize: item,
        readonly: 0,
        ndim: e.shape.len() as c_int,
        format: if flags & ffi::PyBUF_FORMAT == 0 {
            std::ptr::null_mut()
        } else {
            format_of(a.dtype()).as_ptr().cast_mut().cast::<c_char>()
        },
        shape: if flags & ffi::PyBUF_ND == ffi::PyBUF_ND {
            e.shape.as_mut_ptr()
        } else {
            std::ptr::null_mut()
        },
        strides: if strided { e.strides.as_mut_ptr() } else { std::ptr::null_mut() },
        suboffsets: std::ptr::null_mut(),
        internal: Box::into_raw(e).cast::<c_void>(),
    };
    // SAFETY: `view` points at a Py_buffer (upheld by the caller).
    unsafe { view.write(filled) };
    Ok(())
}

/// Frees what [`fill`] kept (`__releasebuffer__`).
///
/// # Safety
/// `view` must have been filled by [`fill`] and not released yet.
pub(crate) unsafe fn release(view: *mut ffi::Py_buffer) {
    // SAFETY: upheld by the caller.
    let internal = unsafe { (*view).internal };
    // SAFETY: the box that `fill` leaked, taken back once.
    drop(unsafe { Box::from_raw(internal.cast::<Export>()) });
}

// DLPack's C structs: https://dmlc.github.io/dlpack/latest/c_api.html

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DlManaged {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlManaged)>,
}

#[repr(C)]
struct DlVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DlVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

fn dl_code(d: Dtype) -> u8 {
    match d {
        Dtype::Bool => 6,
        Dtype::BF16 => 4,
        Dtype::C64 => 5,
        d if d.is_float() => 2,
        d if d.is_unsigned() => 1,
        _ => 0,
    }
}

struct Owned {
    managed: DlManaged,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _export: Box<Export>,
}

// SAFETY: the memory behind the pointers belongs to the Export and the vectors, which move along.
unsafe impl Send for Owned {}

// SAFETY: called by whoever took the tensor, once, with what `capsule` made.
unsafe extern "C" fn delete(m: *mut DlManaged) {
    // SAFETY: `context` is the Owned that `capsule` leaked; DLPack calls the deleter once.
    drop(unsafe { Box::from_raw((*m).context.cast::<Owned>()) });
}

// SAFETY: called by CPython alone, with a capsule that `capsule` made.
unsafe extern "C" fn delete_capsule(c: *mut ffi::PyObject) {
    // SAFETY: CPython calls this with the capsule that dies; a consumer has renamed it by then.
    let p = unsafe {
        match ffi::PyCapsule_IsValid(c, PLAIN.as_ptr()) {
            0 => return,
            _ => ffi::PyCapsule_GetPointer(c, PLAIN.as_ptr()),
        }
    };
    // SAFETY: the DlManaged inside the Owned that `capsule` leaked, which nobody has taken.
    unsafe { delete(p.cast::<DlManaged>()) }
}

/// A DLPack capsule over the array's own memory.
pub(crate) fn capsule<'py>(py: Python<'py>, a: &Array) -> PyResult<Bound<'py, PyAny>> {
    let export = Export::new(py, a)?;
    let item = a.dtype().size() as i64;
    let mut owned = Box::new(Owned {
        managed: DlManaged {
            tensor: DlTensor {
                data: export.data.cast::<c_void>(),
                device_type: 1,
                device_id: 0,
                ndim: export.shape.len() as i32,
                code: dl_code(a.dtype()),
                bits: (item * 8) as u8,
                lanes: 1,
                shape: std::ptr::null_mut(),
                strides: std::ptr::null_mut(),
                byte_offset: 0,
            },
            context: std::ptr::null_mut(),
            deleter: Some(delete),
        },
        shape: export.shape.iter().map(|&d| d as i64).collect(),
        strides: export.strides.iter().map(|&s| s as i64 / item).collect(),
        _export: export,
    });
    owned.managed.tensor.shape = owned.shape.as_mut_ptr();
    owned.managed.tensor.strides = owned.strides.as_mut_ptr();
    let owned = Box::into_raw(owned);
    // SAFETY: just leaked, nobody else has it.
    let managed = unsafe {
        (*owned).managed.context = owned.cast::<c_void>();
        &raw mut (*owned).managed
    };
    // SAFETY: a live pointer, a static name and a destructor of the right type.
    let c = unsafe { ffi::PyCapsule_New(managed.cast::<c_void>(), PLAIN.as_ptr(), Some(delete_capsule)) };
    // SAFETY: a new reference or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, c) }
}

/// An array with a copy of the tensor in a DLPack capsule.
pub(crate) fn from_capsule(c: &Bound<'_, PyAny>) -> PyResult<Array> {
    if c.cast::<PyCapsule>().is_err() {
        return Err(type_error("[from_dlpack] __dlpack__ did not return a capsule"));
    }
    // SAFETY: `c` is a live capsule and the GIL is held; the name is compared by CPython.
    let plain = unsafe { ffi::PyCapsule_IsValid(c.as_ptr(), PLAIN.as_ptr()) } == 1;
    let name = if plain { PLAIN } else { VERSIONED };
    // SAFETY: as above; null with an exception set for a capsule of another name.
    let p = unsafe { ffi::PyCapsule_GetPointer(c.as_ptr(), name.as_ptr()) };
    if p.is_null() {
        return Err(PyErr::fetch(c.py()));
    }
    // SAFETY: a capsule of this name holds this struct, by DLPack's rules.
    let t = unsafe {
        match plain {
            true => &(*p.cast::<DlManaged>()).tensor,
            false => &(*p.cast::<DlVersioned>()).tensor,
        }
    };
    let made = read_tensor(t);
    // SAFETY: taking the tensor over, by DLPack's rules: rename the capsule, then call the deleter.
    unsafe {
        let used = if plain { c"used_dltensor" } else { c"used_dltensor_versioned" };
        ffi::PyCapsule_SetName(c.as_ptr(), used.as_ptr());
        match plain {
            true => {
                let m = p.cast::<DlManaged>();
                if let Some(f) = (*m).deleter {
                    f(m);
                }
            }
            false => {
                let m = p.cast::<DlVersioned>();
                if let Some(f) = (*m).deleter {
                    f(m);
                }
            }
        }
    }
    made
}

fn read_tensor(t: &DlTensor) -> PyResult<Array> {
    if t.device_type != 1 {
        return Err(PyBufferError::new_err(format!(
            "[from_dlpack] device type {} is not the CPU",
            t.device_type
        )));
    }
    let dtype = Dtype::ALL
        .into_iter()
        .find(|d| dl_code(*d) == t.code && d.size() * 8 == t.bits as usize && t.lanes == 1);
    let ndim = t.ndim as usize;
    let list = |p: *const i64| match p.is_null() || ndim == 0 {
        true => None,
        // SAFETY: by DLPack's rules the pointer shows `ndim` numbers while the tensor lives.
        false => Some(unsafe { std::slice::from_raw_parts(p, ndim) }),
    };
    let shape: Vec<usize> = list(t.shape).unwrap_or_default().iter().map(|&d| d as usize).collect();
    let size = (t.bits as usize).div_ceil(8);
    let strides = match list(t.strides) {
        Some(s) => s.iter().map(|&s| s as isize * size as isize).collect(),
        None => contiguous(&shape, size as isize),
    };
    let mut bytes = Vec::new();
    if shape.iter().product::<usize>() > 0 {
        let p = t.data.cast::<u8>().wrapping_add(t.byte_offset as usize);
        // SAFETY: by DLPack's rules these elements are readable while the tensor lives.
        unsafe { gather(p, &shape, &strides, size, &mut bytes) };
    }
    match dtype {
        Some(d) => Array::from_bytes(&bytes, shape, d).or_raise(),
        None if (t.code, t.bits) == (5, 128) => {
            let halves: Vec<f32> = bytes
                .chunks_exact(8)
                .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]) as f32)
                .collect();
            Array::from_bytes(bytemuck::cast_slice(&halves), shape, Dtype::C64).or_raise()
        }
        None => Err(value_error(format!(
            "[from_dlpack] elements of code {} and {} bits are not accepted",
            t.code, t.bits
        ))),
    }
}

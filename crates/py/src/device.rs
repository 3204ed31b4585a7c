//! Devices and streams: one CPU device; streams order nothing that the runtime does not order anyway.

use crate::errors::{type_error, value_error};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The kinds of device.
#[pyclass(name = "DeviceType", module = "isopace.core", frozen)]
#[derive(Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub(crate) enum DeviceType {
    cpu,
    gpu,
}

fn name(t: DeviceType) -> &'static str {
    match t {
        DeviceType::cpu => "cpu",
        DeviceType::gpu => "gpu",
    }
}

#[pymethods]
impl DeviceType {
    fn __repr__(&self) -> String {
        format!("DeviceType.{}", name(*self))
    }
    fn __hash__(&self) -> isize {
        (*self as isize) << 16
    }
    #[getter(name)]
    fn its_name(&self) -> &'static str {
        name(*self)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(Device { kind: *self, index: 0 }, other)
    }
    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }
}

/// A device.
#[pyclass(module = "isopace.core", frozen)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Device {
    kind: DeviceType,
    index: i64,
}

fn same(d: Device, other: &Bound<'_, PyAny>) -> bool {
    if let Ok(t) = other.cast::<DeviceType>() {
        return *t.get() == d.kind && d.index == 0;
    }
    other.cast::<Device>().is_ok_and(|o| *o.get() == d)
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (r#type, index = 0))]
    fn new(r#type: &Bound<'_, DeviceType>, index: i64) -> Device {
        Device { kind: *r#type.get(), index }
    }
    #[getter]
    fn r#type(&self) -> DeviceType {
        self.kind
    }
    fn __repr__(&self) -> String {
        format!("Device({}, {})", name(self.kind), self.index)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        same(*self, other)
    }
    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }
    fn __hash__(&self) -> isize {
        (self.kind as isize) << 16 | self.index as isize
    }
}

/// A stream: work put on it is computed in order. It may be used from any thread.
#[pyclass(module = "isopace.core", frozen)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stream {
    device: Device,
    index: u32,
}

#[pymethods]
impl Stream {
    #[getter]
    fn device(&self) -> Device {
        self.device
    }
    fn __repr__(&self) -> String {
        format!("Stream({}, {})", self.device.__repr__(), self.index)
    }
    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<Stream>().is_ok_and(|o| o.get() == self)
    }
    fn __ne__(&self, other: &Bound<'_, PyAny>) -> bool {
        !self.__eq__(other)
    }
    fn __hash__(&self) -> isize {
        self.index as isize
    }
}

/// A stream as every thread has its own in MLX; here it is any stream.
#[pyclass(module = "isopace.core", frozen)]
pub(crate) struct ThreadLocalStream(Stream);

#[pymethods]
impl ThreadLocalStream {
    #[getter]
    fn device(&self) -> Device {
        self.0.device
    }
    fn __repr__(&self) -> String {
        format!("ThreadLocalStream({})", self.0.device.__repr__())
    }
}

const CPU: Device = Device { kind: DeviceType::cpu, index: 0 };

static NEXT: AtomicU32 = AtomicU32::new(1);
static DEFAULT: PyOnceLock<crate::raw::GilCell<Stream>> = PyOnceLock::new();

fn default_cell(py: Python<'_>) -> &'static crate::raw::GilCell<Stream> {
    DEFAULT.get_or_init(py, || crate::raw::GilCell::new(Stream { device: CPU, index: 0 }))
}

fn no_gpu() -> PyErr {
    value_error("[device] no gpu is present; accepted: mx.cpu")
}

fn device(obj: &Bound<'_, PyAny>) -> PyResult<Device> {
    let d = if let Ok(t) = obj.cast::<DeviceType>() {
        Device { kind: *t.get(), index: 0 }
    } else if let Ok(d) = obj.cast::<Device>() {
        *d.get()
    } else {
        return Err(type_error(format!("expected a Device or DeviceType, got {}", obj.get_type())));
    };
    Ok(d)
}

fn usable(d: Device) -> PyResult<Device> {
    match d {
        Device { kind: DeviceType::gpu, .. } => Err(no_gpu()),
        Device { index: 0, .. } => Ok(d),
        d => Err(PyIndexError::new_err(format!("[device] {} is not there; accepted: index 0", d.__repr__()))),
    }
}

/// Argument `stream=`: a Stream, Device or DeviceType that is there.
pub(crate) struct StreamArg(pub(crate) Stream);

impl<'a, 'py> FromPyObject<'a, 'py> for StreamArg {
    type Error = PyErr;
    fn extract(obj: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(s) = obj.cast::<Stream>() {
            return Ok(StreamArg(*s.get()));
        }
        if let Ok(s) = obj.cast::<ThreadLocalStream>() {
            return Ok(StreamArg(s.get().0));
        }
        let d = device(&obj).map_err(|_| {
            type_error(format!("stream: expected a Stream or Device, got {}", obj.get_type()))
        })?;
        Ok(StreamArg(Stream { device: usable(d)?, index: 0 }))
    }
}

#[pyfunction]
fn default_device() -> Device {
    CPU
}

#[pyfunction]
fn set_default_device(device: &Bound<'_, PyAny>) -> PyResult<()> {
    usable(self::device(device)?).map(|_| ())
}

#[pyfunction]
fn default_stream(py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    usable(self::device(device)?)?;
    Ok(default_cell(py).get(py))
}

#[pyfunction]
fn set_default_stream(py: Python<'_>, stream: &Bound<'_, Stream>) {
    default_cell(py).replace(py, *stream.get());
}

#[pyfunction]
fn new_stream(device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let device = usable(self::device(device)?)?;
    Ok(Stream { device, index: NEXT.fetch_add(1, Ordering::Relaxed) })
}

#[pyfunction]
fn new_thread_local_stream(device: &Bound<'_, PyAny>) -> PyResult<ThreadLocalStream> {
    new_stream(device).map(ThreadLocalStream)
}

#[pyfunction]
fn new_thread_unsafe_stream(device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    new_stream(device)
}

/// Nothing to clear: streams hold nothing.
#[pyfunction]
fn clear_streams() {}

#[pyfunction]
fn is_available(device: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(usable(self::device(device)?).is_ok())
}

#[pyfunction]
fn device_count(device_type: &Bound<'_, DeviceType>) -> usize {
    (*device_type.get() == DeviceType::cpu) as usize
}

/// `with mx.stream(s)`.
#[pyclass(module = "isopace.core", frozen)]
pub(crate) struct StreamContext {
    stream: Stream,
    before: crate::raw::GilCell<Vec<Stream>>,
}

#[pymethods]
impl StreamContext {
    #[new]
    fn new(s: StreamArg) -> StreamContext {
        StreamContext { stream: s.0, before: crate::raw::GilCell::new(Vec::new()) }
    }
    fn __enter__(&self, py: Python<'_>) {
        let mut before = self.before.get(py);
        before.push(default_cell(py).replace(py, self.stream));
        self.before.replace(py, before);
    }
    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, pyo3::types::PyTuple>) {
        let mut before = self.before.get(py);
        if let Some(s) = before.pop() {
            default_cell(py).replace(py, s);
        }
        self.before.replace(py, before);
    }
}

#[pyfunction]
fn stream(s: StreamArg) -> StreamContext {
    StreamContext::new(s)
}

pub(crate) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<DeviceType>()?;
    m.add_class::<Device>()?;
    m.add_class::<Stream>()?;
    m.add_class::<ThreadLocalStream>()?;
    m.add_class::<StreamContext>()?;
    m.add("cpu", DeviceType::cpu)?;
    m.add("gpu", DeviceType::gpu)?;
    macro_rules! add { ($($f:ident)*) => { $( m.add_function(wrap_pyfunction!($f, m)?)?; )* } }
    add!(default_device set_default_device default_stream set_default_stream new_stream new_thread_local_stream);
    // The macro's generated name loses the word that the lint sees in `unsafe_stream`.
    #[allow(clippy::unsafe_removed_from_name)]
    {
        add!(new_thread_unsafe_stream);
    }
    add!(clear_streams is_available device_count stream);
    Ok(())
}

//! Devices and streams: one CPU device; streams order nothing that the runtime does not order anyway.
//!
//! Under `ISOPACE_METAL_DIALECT=1` that device also answers to the name gpu, and is the default one, so that
//! programs take their custom kernels. Nothing else changes: both names are one device.

use crate::errors::{type_error, value_error};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::collections::BTreeMap;
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
    #[new]
    fn of(value: isize) -> PyResult<DeviceType> {
        let found = [DeviceType::cpu, DeviceType::gpu].into_iter().find(|t| *t as isize == value);
        found.ok_or_else(|| value_error(format!("[DeviceType] {value}; accepted: 0 (cpu), 1 (gpu)")))
    }
    #[getter(name)]
    fn its_name(&self) -> &'static str {
        name(*self)
    }
    #[getter]
    fn value(&self) -> isize {
        *self as isize
    }
    #[classattr]
    fn __members__() -> BTreeMap<&'static str, DeviceType> {
        [DeviceType::cpu, DeviceType::gpu].into_iter().map(|t| (name(t), t)).collect()
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

/// True where `ISOPACE_METAL_DIALECT=1` asks programs to take their Metal kernels.
#[pyfunction]
#[pyo3(name = "_metal_dialect")]
fn dialect() -> bool {
    std::env::var_os("ISOPACE_METAL_DIALECT").is_some_and(|v| v == "1")
}

static NEXT: AtomicU32 = AtomicU32::new(1);
/// The stream that was chosen, by itself or as a device's first.
static CHOSEN: PyOnceLock<crate::raw::GilCell<Option<Stream>>> = PyOnceLock::new();

fn chosen(py: Python<'_>) -> &'static crate::raw::GilCell<Option<Stream>> {
    CHOSEN.get_or_init(py, || crate::raw::GilCell::new(None))
}

fn first_stream(device: Device) -> Stream {
    Stream { device, index: 0 }
}

fn current_stream(py: Python<'_>) -> Stream {
    let kind = if dialect() { DeviceType::gpu } else { DeviceType::cpu };
    chosen(py).get(py).unwrap_or(first_stream(Device { kind, index: 0 }))
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
        Device { kind: DeviceType::gpu, .. } if !dialect() => Err(no_gpu()),
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
        Ok(StreamArg(first_stream(usable(d)?)))
    }
}

/// The device on which arrays are computed unless another is named.
///
/// >>> mx.default_device()
/// Device(cpu, 0)
#[pyfunction]
fn default_device(py: Python<'_>) -> Device {
    current_stream(py).device
}

/// Makes a device the default one.
///
/// Raises ValueError for a gpu, IndexError for another index, TypeError for what is no device.
///
/// >>> mx.set_default_device(mx.cpu)
#[pyfunction]
fn set_default_device(py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<()> {
    let device = usable(self::device(device)?)?;
    if current_stream(py).device != device {
        chosen(py).replace(py, Some(first_stream(device)));
    }
    Ok(())
}

/// The stream that a device's work is put on unless another is named.
///
/// Raises as set_default_device does.
///
/// >>> mx.default_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn default_stream(py: Python<'_>, device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let device = usable(self::device(device)?)?;
    let current = current_stream(py);
    Ok(if current.device == device { current } else { first_stream(device) })
}

/// Makes a stream, and its device, the default one.
///
/// >>> mx.set_default_stream(mx.default_stream(mx.cpu))
#[pyfunction]
fn set_default_stream(py: Python<'_>, stream: &Bound<'_, Stream>) {
    chosen(py).replace(py, Some(*stream.get()));
}

/// A new stream of a device.
///
/// Raises as set_default_device does.
///
/// >>> mx.new_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn new_stream(device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    let device = usable(self::device(device)?)?;
    Ok(Stream { device, index: NEXT.fetch_add(1, Ordering::Relaxed) })
}

/// A new stream of a device; any thread may use it.
///
/// >>> mx.new_thread_local_stream(mx.cpu)
/// ThreadLocalStream(Device(cpu, 0))
#[pyfunction]
fn new_thread_local_stream(device: &Bound<'_, PyAny>) -> PyResult<ThreadLocalStream> {
    new_stream(device).map(ThreadLocalStream)
}

/// A new stream of a device; any thread may use it.
///
/// >>> mx.new_thread_unsafe_stream(mx.cpu).device
/// Device(cpu, 0)
#[pyfunction]
fn new_thread_unsafe_stream(device: &Bound<'_, PyAny>) -> PyResult<Stream> {
    new_stream(device)
}

/// Nothing to clear: streams hold nothing.
///
/// >>> mx.clear_streams()
#[pyfunction]
fn clear_streams() {}

/// True when the device is there.
///
/// >>> mx.is_available(mx.cpu)
/// True
#[pyfunction]
fn is_available(device: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(usable(self::device(device)?).is_ok())
}

/// How many devices of a kind there are.
///
/// >>> mx.device_count(mx.cpu)
/// 1
#[pyfunction]
fn device_count(device_type: &Bound<'_, DeviceType>) -> usize {
    (*device_type.get() == DeviceType::cpu || dialect()) as usize
}

/// `with mx.stream(s)`.
#[pyclass(module = "isopace.core", frozen)]
pub(crate) struct StreamContext {
    stream: Stream,
    before: crate::raw::GilCell<Vec<Option<Stream>>>,
}

#[pymethods]
impl StreamContext {
    #[new]
    fn new(s: StreamArg) -> StreamContext {
        StreamContext { stream: s.0, before: crate::raw::GilCell::new(Vec::new()) }
    }
    fn __enter__(&self, py: Python<'_>) {
        let mut before = self.before.get(py);
        before.push(chosen(py).replace(py, Some(self.stream)));
        self.before.replace(py, before);
    }
    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, pyo3::types::PyTuple>) {
        let mut before = self.before.get(py);
        if let Some(s) = before.pop() {
            chosen(py).replace(py, s);
        }
        self.before.replace(py, before);
    }
}

/// A context in which a stream is the default one.
///
/// >>> with mx.stream(mx.cpu):
/// ...     mx.default_device()
/// Device(cpu, 0)
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
    add!(clear_streams is_available device_count stream dialect);
    Ok(())
}

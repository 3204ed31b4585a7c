//! Fourier transforms.

use super::add;
use crate::array::{PyArray, wrap};
use crate::convert::{Arr, Int, Ints, Num};
use crate::device::StreamArg;
use crate::errors::{OrRaise, value_error};
use isopace_core::api::{self, Fft, FftNorm};
use pyo3::prelude::*;

type Stream = Option<StreamArg>;
type Result1 = PyResult<PyArray>;

fn scale(norm: &str) -> PyResult<FftNorm> {
    match norm {
        "backward" => Ok(FftNorm::Backward),
        "ortho" => Ok(FftNorm::Ortho),
        "forward" => Ok(FftNorm::Forward),
        other => {
            Err(value_error(format!("[fft] norm {other:?}; accepted: \"backward\", \"ortho\", \"forward\"")))
        }
    }
}

fn transform(
    a: &Arr,
    [inverse, real]: [bool; 2],
    sizes: Option<&[i64]>,
    axes: Option<&[i64]>,
    norm: &str,
) -> Result1 {
    wrap(a.0.fft(&Fft { inverse, real, sizes, axes, norm: scale(norm)? }))
}

macro_rules! along_one {
    ($($f:ident $name:literal $kind:expr, $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\n``n`` elements along the axis, cut off or zeros where there are others; with half the frequencies, of the\n\
real side. The inverse divides by n, with norm=\"forward\" the other one, with \"ortho\" both by its root. Raises\n\
ValueError for n below 1 and another norm, IndexError for an axis out of range.\n\n>>> mx.fft.", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(name = $name, signature = (a, n = None, axis = Int(-1), norm = "backward", stream = None))]
        fn $f(a: Arr, n: Option<Int>, axis: Int, norm: &str, stream: Stream) -> Result1 {
            let _ = stream;
            let sizes = n.map(|n| [n.0]);
            transform(&a, $kind, sizes.as_ref().map(|s| &s[..]), Some(&[axis.0]), norm)
        }
    )* };
}
macro_rules! along_many {
    ($($f:ident $name:literal $kind:expr, $axes:expr, $doc:literal $example:literal $result:literal;)*) => { $(
        #[doc = concat!(
            $doc, "\n\n``s``: elements along each of the axes, as n of fft, only with axes. Half the frequencies are those of the\n\
last axis. Raises ValueError for an axis named twice and as fft does.\n\n>>> mx.fft.", $example, "\n", $result
        )]
        #[pyfunction]
        #[pyo3(name = $name, signature = (a, s = None, axes = $axes, norm = "backward", stream = None))]
        fn $f(a: Arr, s: Option<Ints>, axes: Option<Ints>, norm: &str, stream: Stream) -> Result1 {
            let _ = stream;
            transform(&a, $kind, s.as_ref().map(|s| &s.0[..]), axes.as_ref().map(|a| &a.0[..]), norm)
        }
    )* };
}

fn last_two() -> Option<Ints> {
    Some(Ints([-2, -1].into_iter().collect()))
}

along_one! {
    fft "fft_fft" [false, false], "Discrete Fourier transform along an axis." "fft(mx.array([1.0, 2.0, 3.0]))"
        "array([6+0j, -1.5+0.866025j, -1.5-0.866025j], dtype=complex64)";
    ifft "fft_ifft" [true, false], "Inverse Fourier transform along an axis." "ifft(mx.array([6.0, 0.0, 0.0]))"
        "array([2+0j, 2+0j, 2+0j], dtype=complex64)";
    rfft "fft_rfft" [false, true], "Frequencies of real elements up to half of them, since the others are conjugates."
        "rfft(mx.array([1.0, 2.0, 3.0]))" "array([6+0j, -1.5+0.866025j], dtype=complex64)";
    irfft "fft_irfft" [true, true], "Real elements from half their frequencies; an even number unless n says so."
        "irfft(mx.array([6.0, 0.0, 0.0]))" "array([1.5, 1.5, 1.5, 1.5], dtype=float32)";
}
along_many! {
    fft2 "fft_fft2" [false, false], last_two(), "Fourier transform over two axes." "fft2(mx.ones((2, 2)))"
        "array([[4+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    ifft2 "fft_ifft2" [true, false], last_two(), "Inverse Fourier transform over two axes." "ifft2(mx.ones((2, 2)))"
        "array([[1+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    rfft2 "fft_rfft2" [false, true], last_two(), "Half the frequencies of real elements over two axes."
        "rfft2(mx.ones((2, 2)))" "array([[4+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    irfft2 "fft_irfft2" [true, true], last_two(), "Real elements from half their frequencies over two axes."
        "irfft2(mx.ones((2, 2)))" "array([[1, 0],\n       [0, 0]], dtype=float32)";
    fftn "fft_fftn" [false, false], None, "Fourier transform over axes, all by default." "fftn(mx.ones((2, 2)))"
        "array([[4+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    ifftn "fft_ifftn" [true, false], None, "Inverse Fourier transform over axes, all by default."
        "ifftn(mx.ones((2, 2)))" "array([[1+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    rfftn "fft_rfftn" [false, true], None, "Half the frequencies of real elements over axes, all by default."
        "rfftn(mx.ones((2, 2)))" "array([[4+0j, 0+0j],\n       [0+0j, 0+0j]], dtype=complex64)";
    irfftn "fft_irfftn" [true, true], None, "Real elements from half their frequencies over axes, all by default."
        "irfftn(mx.ones((2, 2)))" "array([[1, 0],\n       [0, 0]], dtype=float32)";
}

/// Moves the frequency 0 to the middle of axes, all by default.
///
/// >>> mx.fft.fftshift(mx.fft.fftfreq(4))
/// array([-0.5, -0.25, 0, 0.25], dtype=float32)
#[pyfunction]
#[pyo3(name = "fft_fftshift", signature = (a, axes = None, stream = None))]
fn fftshift(a: Arr, axes: Option<Ints>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.fftshift(axes.as_ref().map(|a| &a.0[..]), false))
}

/// Moves the frequency 0 from the middle of axes, all by default, back to their start.
///
/// >>> mx.fft.ifftshift(mx.array([-1, 0, 1]))
/// array([0, 1, -1], dtype=int32)
#[pyfunction]
#[pyo3(name = "fft_ifftshift", signature = (a, axes = None, stream = None))]
fn ifftshift(a: Arr, axes: Option<Ints>, stream: Stream) -> Result1 {
    let _ = stream;
    wrap(a.0.fftshift(axes.as_ref().map(|a| &a.0[..]), true))
}

fn frequencies(n: Int, d: Num, real: bool) -> Result1 {
    let d = d.0.value("fftfreq").or_raise()?.as_f64();
    wrap(api::fftfreq(n.0, d, real))
}

/// The frequencies of fft for n elements that lie d apart, in cycles; float32.
///
/// Raises ValueError unless n is positive and d not 0.
///
/// >>> mx.fft.fftfreq(4, 0.5)
/// array([0, 0.5, -1, -0.5], dtype=float32)
#[pyfunction]
#[pyo3(name = "fft_fftfreq", signature = (n, d = Num(1.0.into()), stream = None))]
fn fftfreq(n: Int, d: Num, stream: Stream) -> Result1 {
    let _ = stream;
    frequencies(n, d, false)
}

/// The frequencies of rfft for n elements that lie d apart, in cycles; float32.
///
/// Raises ValueError unless n is positive and d not 0.
///
/// >>> mx.fft.rfftfreq(4, 0.5)
/// array([0, 0.5, 1], dtype=float32)
#[pyfunction]
#[pyo3(name = "fft_rfftfreq", signature = (n, d = Num(1.0.into()), stream = None))]
fn rfftfreq(n: Int, d: Num, stream: Stream) -> Result1 {
    let _ = stream;
    frequencies(n, d, true)
}

pub(super) fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    add!(m: fft ifft rfft irfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn fftshift ifftshift fftfreq rfftfreq);
    Ok(())
}

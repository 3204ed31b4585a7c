//! Fourier transforms: one op over the last axis; sizes, axes, norms and real numbers around it.

use super::{concatenate, node};
use crate::array::Array;
use crate::bail;
use crate::dtype::Dtype;
use crate::error::Result;
use crate::op::Op;
use crate::shape::axis;
use smallvec::smallvec;

/// Which way a transform divides by the number of elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FftNorm {
    /// The inverse divides.
    #[default]
    Backward,
    /// Both divide by its root.
    Ortho,
    /// The forward transform divides.
    Forward,
}

/// A discrete Fourier transform.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fft<'a> {
    pub inverse: bool,
    /// Whether the side that is not frequencies is real: of the last of the axes only the frequencies up to half of
    /// it are then given or taken, since the others are their conjugates.
    pub real: bool,
    /// Elements along each of the axes, on the side that is not frequencies if that is real; the input is cut or
    /// filled up with zeros.
    pub sizes: Option<&'a [i64]>,
    /// All of them by default.
    pub axes: Option<&'a [i64]>,
    pub norm: FftNorm,
}

impl Fft<'_> {
    fn place(&self) -> &'static str {
        match (self.real, self.inverse) {
            (false, false) => "fft",
            (false, true) => "ifft",
            (true, false) => "rfft",
            (true, true) => "irfft",
        }
    }

    /// The axes in order, each with its number of elements.
    fn sized_axes(&self, x: &Array) -> Result<Vec<(usize, usize)>> {
        let place = self.place();
        let axes: Vec<usize> = match self.axes {
            Some(axes) => axes.iter().map(|&a| axis(a, x.ndim(), place)).collect::<Result<_>>()?,
            None => (0..x.ndim()).collect(),
        };
        if (1..axes.len()).any(|i| axes[..i].contains(&axes[i])) {
            bail!(Argument, "[{place}] axes {axes:?} name one axis twice");
        }
        if self.axes.is_none() && (self.sizes.is_some() || axes.is_empty()) {
            bail!(Argument, "[{place}] which axes of {:?}? axes must be given with sizes", x.shape());
        }
        if let Some(sizes) = self.sizes
            && sizes.len() != axes.len()
        {
            bail!(Argument, "[{place}] sizes {sizes:?} for axes {axes:?}; accepted: one for each");
        }
        let size = |(i, &a): (usize, &usize)| {
            let dim = x.shape()[a] as i64;
            let whole = self.real && self.inverse && i + 1 == axes.len();
            let n = self.sizes.map_or(if whole { 2 * (dim - 1) } else { dim }, |s| s[i]);
            match usize::try_from(n) {
                Ok(n) if n > 0 && i32::try_from(n).is_ok() => Ok((a, n)),
                _ => bail!(Argument, "[{place}] {n} elements along axis {a}; accepted: 1 to 2**31 - 1"),
            }
        };
        axes.iter().enumerate().map(size).collect()
    }
}

impl Array {
    /// Discrete Fourier transform `sum_j x[j] exp(-2 pi i j k / n)` over axes, or its inverse.
    ///
    /// # Dtypes
    /// complex64 from any; float32 from the real inverse.
    ///
    /// # Errors
    /// `Axis`; `Argument` for an axis named twice, for sizes without axes or of another number, for a size below 1.
    pub fn fft(&self, options: &Fft<'_>) -> Result<Array> {
        let mut axes = options.sized_axes(self)?;
        let Some(&(last, n)) = axes.last() else { return Ok(self.clone()) };
        let elems: f64 = axes.iter().map(|a| a.1 as f64).product();
        // The forward transform halves its axis before the others; the inverse doubles it after them.
        if !options.inverse {
            axes.reverse();
        }
        let mut x = if options.real && !options.inverse { self.astype(Dtype::F32)? } else { self.clone() };
        x = x.astype(Dtype::C64)?;
        for (a, n) in axes {
            x = match (a == last && options.real, options.inverse) {
                (true, false) => x.resized(a, n)?.fft_axis(a, false)?.slice_axis(a, 0, n / 2 + 1)?,
                (true, true) => x.resized(a, n / 2 + 1)?.mirrored(a, n)?.fft_axis(a, true)?,
                (false, inverse) => x.resized(a, n)?.fft_axis(a, inverse)?,
            };
        }
        if options.real && options.inverse {
            x = x.slice_axis(last, 0, n)?.real()?;
        }
        match (options.norm, options.inverse) {
            (FftNorm::Ortho, _) => x.multiply(1.0 / elems.sqrt()),
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => x.multiply(1.0 / elems),
            _ => Ok(x),
        }
    }

    fn fft_axis(&self, a: usize, inverse: bool) -> Result<Array> {
        let (a, last) = (a as i64, self.ndim() as i64 - 1);
        let x = self.swapaxes(a, last)?;
        let shape = x.shape().clone();
        node(Op::Fft { inverse }, smallvec![x], smallvec![], shape, Dtype::C64)?.swapaxes(a, last)
    }

    /// The first `n` elements along an axis, zeros where there are fewer.
    fn resized(&self, a: usize, n: usize) -> Result<Array> {
        let dim = self.shape()[a];
        if n <= dim {
            return self.slice_axis(a, 0, n);
        }
        let widths: Vec<_> =
            (0..self.ndim()).map(|i| (0, if i == a { (n - dim) as i64 } else { 0 })).collect();
        self.pad(&widths, 0.0)
    }

    /// All `n` frequencies of a real signal from the first half of them.
    fn mirrored(&self, a: usize, n: usize) -> Result<Array> {
        let rest = self.slice_axis(a, 1, n.div_ceil(2))?.flip(a as i64)?.conjugate()?;
        concatenate(&[self.clone(), rest], a as i64)
    }

    /// Moves the frequency 0 to the middle of axes, all of them by default; or back.
    ///
    /// # Errors
    /// `Axis`.
    pub fn fftshift(&self, axes: Option<&[i64]>, back: bool) -> Result<Array> {
        let all: Vec<i64> = (0..self.ndim() as i64).collect();
        let mut x = self.clone();
        for &a in axes.unwrap_or(&all) {
            let dim = self.shape()[axis(a, self.ndim(), "fftshift")?];
            let by = if back { dim.div_ceil(2) } else { dim / 2 };
            x = x.roll(&[by.into()], a)?;
        }
        Ok(x)
    }
}

/// The frequencies of a transform of `n` elements that lie `d` apart; of a real one, up to half of them.
///
/// # Errors
/// `Argument` unless `n` is positive and `d` not 0.
pub fn fftfreq(n: i64, d: f64, real: bool) -> Result<Array> {
    if n <= 0 || d == 0.0 {
        bail!(Argument, "[fftfreq] {n} elements {d} apart; accepted: 1 and more, not 0 apart");
    }
    let all: Vec<i64> =
        if real { (0..=n / 2).collect() } else { (0..(n + 1) / 2).chain(-(n / 2)..0).collect() };
    let values: Vec<f32> = all.iter().map(|&k| (k as f64 / (n as f64 * d)) as f32).collect();
    Array::from_slice(&values, [values.len()])
}

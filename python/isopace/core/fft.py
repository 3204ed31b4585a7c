"""Fourier transforms: not there yet."""

from ._later import FFT as _LATER, fill as _fill

_fill(globals(), _LATER, "mlx.core.fft")

"""Fourier transforms: not there yet."""

from ._later import FFT, fill as _fill

_fill(globals(), FFT, "mlx.core.fft")

"""Fourier transforms."""

from .. import _isopace as _x
from ._later import FFT as _LATER, fill as _fill

for _n in dir(_x):
    if _n.startswith("fft_"):
        globals()[_n.removeprefix("fft_")] = getattr(_x, _n)
del _n
_fill(globals(), _LATER, "mlx.core.fft")

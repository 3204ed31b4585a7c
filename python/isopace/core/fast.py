"""Fused functions of models: norms, rotary embeddings, attention."""

from .._isopace import fast as _f
from ._later import FAST as _LATER, fill as _fill

for _n in _f.__all__:
    globals()[_n] = getattr(_f, _n)
_fill(globals(), _LATER, "mlx.core.fast")
del _n

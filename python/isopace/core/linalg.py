"""Linear algebra."""

from .. import _isopace as _x
from ._later import LINALG as _LATER, fill as _fill

inv = _x.linalg_inv
eigh = _x.linalg_eigh
eigvalsh = _x.linalg_eigvalsh
cross = _x.linalg_cross
norm = _x.linalg_norm
_fill(globals(), _LATER, "mlx.core.linalg")

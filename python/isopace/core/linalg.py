"""Linear algebra."""

from .. import _isopace as _x
from ._later import LINALG, fill as _fill

inv = _x.linalg_inv
cross = _x.linalg_cross
norm = _x.linalg_norm
_fill(globals(), LINALG, "mlx.core.linalg")

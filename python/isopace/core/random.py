"""Random arrays from keys (threefry), equal bit for bit to MLX's for the same key.

One key serves the whole process: threads draw from it in turn and never repeat each other's numbers, and ``seed`` restarts
it for all of them.
"""

from .._isopace import random as _r

_RandomState = _r._RandomState
state = _r.state
for _n in _r.__all__:
    globals()[_n] = getattr(_r, _n)
del _n

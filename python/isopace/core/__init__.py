"""Arrays, functions on them, and ``compile``: the interface of ``mlx.core``."""

import math as _math

from .. import _isopace
from .._isopace import *  # noqa: F401,F403
from .._isopace import array

_gc_func = _isopace._gc_func

__version__ = "0.32.4"

pi = _math.pi
e = _math.e
euler_gamma = 0.5772156649015329
inf = _math.inf
nan = _math.nan
newaxis = None

from ._more import (  # noqa: E402,F401
    ArrayLike,
    PrintOptions,
    _PrintOptionsContext,
    __array_namespace_info__,
    can_cast,
    device_info,
    finfo,
    get_array_buffer_size,
    get_printoptions,
    iinfo,
    isdtype,
    printoptions,
    set_printoptions,
)
from ._files import load, save, save_gguf, save_safetensors, savez, savez_compressed  # noqa: E402,F401
from . import cuda, distributed, fast, fft, linalg, metal, random  # noqa: E402,F401
from ._later import fill as _fill  # noqa: E402

_fill(globals())
del _fill

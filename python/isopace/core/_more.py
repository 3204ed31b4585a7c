"""Types and small functions beside the arrays."""

import os
import platform

from .. import _isopace as _x
from .._isopace import Device, DeviceType, Dtype, array


class finfo:
    """Limits of a floating dtype.

    ``finfo(float16).eps`` is the distance from 1 to the next number.
    """

    def __init__(self, dtype):
        self.min, self.max, self.eps, self.smallest_normal, self.bits, self.dtype = _x._finfo(dtype)

    def __repr__(self):
        return f"finfo(min={_plain(self.min)}, max={_plain(self.max)}, dtype={_name(self.dtype)})"


class iinfo:
    """Limits of an integer dtype."""

    def __init__(self, dtype):
        self.min, self.max, self.dtype = _x._iinfo(dtype)

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={_name(self.dtype)})"


def _name(dtype):
    return repr(dtype).rpartition(".")[2]


def _plain(x):
    return f"{x:g}"


class ArrayLike:
    """Any object with ``__mlx_array__``, which returns an array."""

    def __init__(self, value):
        self._value = value

    def __mlx_array__(self):
        return array(self._value)


class PrintOptions:
    """How arrays are printed: ``precision`` decimals, -1 for six significant digits."""

    def __init__(self, precision=-1):
        self.precision = precision


class _PrintOptionsContext:
    def __init__(self, precision):
        self._precision, self._before = precision, []

    def __enter__(self):
        self._before.append(_x._set_precision(self._precision))
        return PrintOptions(self._precision)

    def __exit__(self, *error):
        _x._set_precision(self._before.pop())


def set_printoptions(precision=-1):
    """Sets how many decimals floats show; -1 shows six significant digits.

    >>> mx.set_printoptions(precision=2)
    >>> mx.array([0.126])
    array([0.13], dtype=float32)
    >>> mx.set_printoptions()
    """
    _x._set_precision(precision)


def get_printoptions():
    """The print options.

    >>> mx.get_printoptions().precision
    -1
    """
    return PrintOptions(_x._precision())


def printoptions(precision=-1):
    """Print options inside a ``with`` block.

    >>> with mx.printoptions(precision=1):
    ...     mx.array([0.26])
    array([0.3], dtype=float32)
    """
    return _PrintOptionsContext(precision)


_KINDS = {
    "bool": ("bool_",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float16", "bfloat16", "float32", "float64"),
    "complex floating": ("complex64",),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def isdtype(dtype, kind):
    """True when the dtype is of a kind: a dtype, the name of a kind, or a tuple of them.

    Raises TypeError for what is no dtype, ValueError for an unknown kind.

    >>> mx.isdtype(mx.int8, ("bool", "integral"))
    True
    """
    if not isinstance(dtype, Dtype):
        raise TypeError(f"[isdtype] expected a Dtype, got {type(dtype)}")
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, Dtype):
        return dtype == kind
    if kind not in _KINDS:
        raise ValueError(f"[isdtype] kind {kind!r}; accepted: {', '.join(_KINDS)}")
    return any(dtype == getattr(_x, n) for n in _KINDS[kind])


def can_cast(from_, to):
    """True when the promotion of both is ``to``.

    Raises TypeError for others.

    >>> mx.can_cast(mx.int8, mx.int32)
    True
    """
    if not isinstance(from_, (Dtype, array)) or not isinstance(to, Dtype):
        raise TypeError("[can_cast] expected an array or Dtype, and a Dtype")
    return _x.result_type(from_, to) == to


def get_array_buffer_size(*args):
    """Bytes of the buffers behind arrays.

    >>> mx.get_array_buffer_size(mx.zeros((4,)))
    16
    """
    return sum(a.nbytes for a in args)


def device_info(d=None):
    """What is known of a device.

    A dict, empty for a device that is not there. Raises TypeError for what is no device.

    >>> sorted(mx.device_info(mx.cpu))[:2]
    ['architecture', 'device_name']
    """
    if isinstance(d, Device):
        d = d.type
    if d is not None and not isinstance(d, DeviceType):
        raise TypeError(f"[device_info] expected a Device or DeviceType, got {type(d)}")
    if d == _x.gpu and not _x._metal_dialect():
        return {}
    info = {"architecture": platform.machine(), "device_name": platform.processor() or platform.machine()}
    try:
        with open("/proc/cpuinfo") as f:
            names = (line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
            info["device_name"] = next(names, info["device_name"])
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        info["memory_size"] = size
        info["max_recommended_working_set_size"] = size
        info["max_buffer_length"] = size
    except (OSError, ValueError):
        pass
    return info


class _NamespaceInfo:
    def capabilities(self):
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self):
        return _x.default_device()

    def default_dtypes(self, *, device=None):
        return {
            "real floating": _x.float32,
            "complex floating": _x.complex64,
            "integral": _x.int32,
            "indexing": _x.int32,
        }

    def devices(self):
        return (Device(_x.cpu, 0),)

    def dtypes(self, *, device=None, kind=None):
        every = {_name(getattr(_x, n)): getattr(_x, n) for names in _KINDS.values() for n in names}
        return {n: d for n, d in every.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__():
    """What the array API standard asks a namespace to tell about itself."""
    return _NamespaceInfo()

"""What matters on Apple devices alone: accepted, and does nothing."""

from .._isopace import (  # noqa: F401
    _metal_dialect,
    clear_cache,
    get_active_memory,
    get_cache_memory,
    get_peak_memory,
    reset_peak_memory,
    set_cache_limit,
    set_memory_limit,
    set_wired_limit,
)


def is_available():
    """True where ``ISOPACE_METAL_DIALECT=1`` asks programs to take their Metal kernels; else False.

    The default device is then called ``gpu``, which is the same CPU.

    >>> mx.metal.is_available()
    False
    """
    return _metal_dialect()


def device_info():
    """Empty: there is no Metal device.

    >>> mx.metal.device_info()
    {}
    """
    return {}


def start_capture(path):
    """Does nothing.

    >>> mx.metal.start_capture("trace")
    """


def stop_capture():
    """Does nothing.

    >>> mx.metal.stop_capture()
    """

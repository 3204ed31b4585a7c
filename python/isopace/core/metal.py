"""What matters on Apple devices alone: accepted, and does nothing."""

import os as _os

from .._isopace import (  # noqa: F401
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
    """True where ``ISOPACE_METAL_DIALECT=1`` asks programs to take their Metal kernels; else False."""
    return _os.environ.get("ISOPACE_METAL_DIALECT") == "1"


def device_info():
    """Empty: there is no Metal device."""
    return {}


def start_capture(path):
    """Does nothing."""


def stop_capture():
    """Does nothing."""

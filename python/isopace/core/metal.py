"""What matters on Apple devices alone: accepted, and does nothing."""

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
    """False: there is no Metal on Linux."""
    return False


def device_info():
    """Empty: there is no Metal device."""
    return {}


def start_capture(path):
    """Does nothing."""


def stop_capture():
    """Does nothing."""

"""isopace: an array runtime that runs MLX programs on Linux.

``import isopace.core as mx`` offers the interface of ``mlx.core``; ``python -m isopace.mlx PROGRAM`` runs a program
that imports ``mlx.core`` on it, unchanged.
"""

from ._isopace import CacheInfo, RecompileWarning, compile_stats

__version__ = "0.1.0"
__all__ = ["CacheInfo", "RecompileWarning", "compile_stats"]

"""Saving and loading: npy, npz, safetensors, gguf."""

import os
import pathlib
import shutil
import tempfile

from .. import _isopace as _x
from .._isopace import array

_SUFFIXES = {"npy": ".npy", "npz": ".npz", "safetensors": ".safetensors", "gguf": ".gguf"}


def _is_path(file):
    return isinstance(file, (str, pathlib.PurePath))


def _write(file, data, suffix, place):
    if _is_path(file):
        path = os.fspath(file)
        if not path.endswith(suffix):
            path += suffix
        try:
            _replace(os.path.realpath(path), data)
        except OSError as e:
            raise RuntimeError(f"[{place}] {path}: {e}") from e
    elif hasattr(file, "write") and not _is_text(file):
        file.write(data)
    else:
        raise ValueError(f"[{place}] expected a path or a binary file, got {type(file)}")


def _replace(path, data):
    """Puts a new file in the place of what is there: arrays loaded from the old one keep its bytes, and a failure keeps it."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as f:
            f.write(data)
        return
    with tempfile.TemporaryDirectory(prefix=".saving-", dir=os.path.dirname(path)) as folder:
        new = os.path.join(folder, os.path.basename(path))
        with open(new, "wb") as f:
            f.write(data)
        if os.path.exists(path):
            shutil.copymode(path, new)
        os.replace(new, path)


def _is_text(file):
    return hasattr(file, "encoding") and not hasattr(file, "readinto")


def _array(x, place):
    if not isinstance(x, array):
        raise TypeError(f"[{place}] expected an mx.array, got {type(x)}")
    return x


def save(file, arr):
    """Saves an array as npy; ``.npy`` is added to a path that lacks it.

    Raises TypeError for what is no array, ValueError for what is no path or binary file, RuntimeError where it cannot write.

    >>> mx.save("a", mx.array([1, 2]))
    >>> mx.load("a.npy")
    array([1, 2], dtype=int32)
    """
    _write(file, _x._save_npy(_array(arr, "save")), ".npy", "save")


def _savez(file, args, kwargs, place):
    arrays = {}
    for i, a in enumerate(args):
        arrays[f"arr_{i}"] = _array(a, place)
    for k, a in kwargs.items():
        if k in arrays:
            raise ValueError(f"[{place}] two arrays are named {k}")
        arrays[k] = _array(a, place)
    return arrays


def savez(file, *args, **kwargs):
    """Saves arrays in one npz file: positional ones as arr_0, arr_1, ..., others by their names.

    Raises ValueError for two arrays of one name, else as save does.

    >>> mx.savez("b", mx.array(1), x=mx.array(2))
    >>> sorted(mx.load("b.npz"))
    ['arr_0', 'x']
    """
    _write(file, _x._save_npz(_savez(file, args, kwargs, "savez")), ".npz", "savez")


def savez_compressed(file, *args, **kwargs):
    """Saves arrays in one compressed npz file.

    Raises as savez does.

    >>> mx.savez_compressed("c", x=mx.zeros((2,)))
    >>> mx.load("c.npz")["x"]
    array([0, 0], dtype=float32)
    """
    import io
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name, a in _savez(file, args, kwargs, "savez_compressed").items():
            z.writestr(f"{name}.npy", _x._save_npy(a))
    _write(file, out.getvalue(), ".npz", "savez_compressed")


def save_safetensors(file, arrays, metadata=None):
    """Saves a dict of arrays as safetensors, with a dict of strings beside them.

    Raises TypeError for what is no dict, ValueError for metadata other than str; float64 is refused.

    >>> mx.save_safetensors("d", {"w": mx.array([1.5])}, {"kind": "test"})
    >>> mx.load("d.safetensors", return_metadata=True)
    ({'w': array([1.5], dtype=float32)}, {'kind': 'test'})
    """
    if not isinstance(arrays, dict):
        raise TypeError(f"[save_safetensors] expected a dict of arrays, got {type(arrays)}")
    pairs = list((metadata or {}).items())
    for k, v in pairs:
        if not isinstance(k, str) or not isinstance(v, str):
            raise ValueError("[save_safetensors] metadata holds something other than str")
    _write(file, _x._save_safetensors(arrays, pairs), ".safetensors", "save_safetensors")


def save_gguf(file, arrays, metadata=None):
    """Saves a dict of arrays as GGUF; metadata values are str, lists of str, or arrays.

    Raises TypeError for what is no dict, RuntimeError for a dtype that the format lacks.

    >>> mx.save_gguf("e", {"w": mx.array([1.5])})
    >>> mx.load("e.gguf")
    {'w': array([1.5], dtype=float32)}
    """
    if not isinstance(arrays, dict):
        raise TypeError(f"[save_gguf] expected a dict of arrays, got {type(arrays)}")
    _write(file, _x._save_gguf(arrays, metadata or {}), ".gguf", "save_gguf")


def load(file, /, format=None, return_metadata=False, *, stream=None):
    """Loads a file: an array from npy, a dict of arrays from npz, safetensors or gguf.

    The format follows from the name's extension unless it is given. With ``return_metadata`` (safetensors and gguf)
    the result is a pair of dicts. A path is mapped: a program that writes into the file while arrays of it live changes
    them, and one that cuts it ends the process at the next read. Saving here puts a new file in its place and does neither.

    Raises ValueError for an unknown format, RuntimeError for a file that is not there or is broken.

    >>> mx.save("f", mx.array([[1, 2]]))
    >>> mx.load("f.npy").shape
    (1, 2)
    """
    if _is_path(file):
        source = os.fspath(file)
        name = source
    else:
        if not hasattr(file, "read") or not hasattr(file, "seek") or _is_text(file):
            raise ValueError(f"[load] expected a path or a binary file, got {type(file)}")
        name = "" if format is not None else file.name
        source = None
    if format is None:
        format = os.path.splitext(str(name))[1][1:]
    if format not in _SUFFIXES:
        raise ValueError(f"[load] format {format!r} of {name!r}; accepted: {', '.join(_SUFFIXES)}")
    if return_metadata and format in ("npy", "npz"):
        raise ValueError(f"[load] {format} has no metadata")
    if source is not None and not os.path.exists(source):
        kind = ValueError if format == "npz" else RuntimeError
        raise kind(f"[load] {source}: there is no such file")
    if source is None:
        source = file.read()
    out = getattr(_x, f"_load_{format}")(source)
    if format in ("npy", "npz"):
        return out
    return out if return_metadata else out[0]

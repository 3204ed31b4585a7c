#!/usr/bin/env python3
"""Writes docs/interface.md (what of mlx.core is there) and the stub files of isopace.core.

usage: python_interface.py [--check]     needs the built package and the peer's wheel; --check only compares
"""
import importlib
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "python"))
import isopace.core as ip  # noqa: E402

MODULES = ["", "random", "linalg", "fast", "fft", "metal", "cuda", "distributed"]

# Types of parameters, by name; what is not listed is an array.
TYPES = {
    "stream": "StreamOrDevice", "dtype": "Dtype | None", "axis": "int | Sequence[int] | None",
    "keepdims": "bool", "shape": "int | Sequence[int]", "axes": "int | Sequence[int] | None", "k": "int", "n": "int",
    "s": "Sequence[int] | None", "norm": "str",
    "m": "int | None", "ddof": "int", "correction": "int | None", "offset": "int", "axis1": "int", "axis2": "int",
    "start_axis": "int", "end_axis": "int", "source": "int", "destination": "int", "decimals": "int",
    "reverse": "bool", "inclusive": "bool", "precise": "bool", "mode": "str", "group_size": "int | None",
    "bits": "int | None", "transpose": "bool", "equal_nan": "bool", "rtol": "float", "atol": "float",
    "num": "int", "endpoint": "bool", "repeats": "int", "reps": "int | Sequence[int]", "kth": "int", "side": "str",
    "strides": "Sequence[int] | None", "groups": "int", "stride": "int | Sequence[int]", "eps": "float",
    "padding": "int | Sequence[int]", "dilation": "int | Sequence[int]", "scale": "float", "base": "float | None",
    "dims": "int", "traditional": "bool", "sorted_indices": "bool", "seed": "int", "num_samples": "int | None",
    "subscripts": "str", "indices_or_sections": "int | Sequence[int]", "size": "int", "M": "int",
    "fun": "Callable | None", "inputs": "object", "outputs": "object", "shapeless": "bool", "scalars": "str",
    "max_variants": "int", "max_static_entries": "int", "max_bytes": "int", "limit": "int", "format": "str | None",
    "file": "object", "return_metadata": "bool", "metadata": "dict | None", "arrays": "Sequence[array]",
    "args": "object", "kwargs": "object", "precision": "int", "nan": "float", "mask": "array | str | None",
    "weight": "array | None", "bias": "array | None", "freqs": "array | None", "sinks": "array | None",
    "biases": "array | None", "key": "array | None", "mask_out": "array | None", "mask_lhs": "array | None",
    "mask_rhs": "array | None", "lhs_indices": "array | None", "rhs_indices": "array | None",
    "global_scale": "array | None", "UPLO": "str", "indexing": "str", "sparse": "bool", "return_index": "bool",
    "return_inverse": "bool", "return_counts": "bool", "ord": "int | float | str | None", "device": "Device | DeviceType",
    "block_size": "int", "force_fused": "bool", "allow_col_major": "bool", "flip": "bool", "copy": "bool | None",
}
SCALAR = set("a b d x y condition a_min a_max vals low high loc p lower upper value val constant_values "
             "fill_value start stop step alpha beta".split())
RETURNS = {
    "split": "list[array]", "meshgrid": "tuple[array, ...]", "unstack": "tuple[array, ...]", "divmod": "list[array]",
    "broadcast_arrays": "list[array]", "broadcast_shapes": "tuple[int, ...]", "minmax": "tuple[array, array]",
    "quantize": "list[array]", "eval": "None", "async_eval": "None", "synchronize": "None", "compile": "Callable",
    "issubdtype": "bool", "isdtype": "bool", "can_cast": "bool", "result_type": "Dtype", "tolist": "object",
    "item": "bool | int | float | complex", "load": "array | dict[str, array] | tuple[dict, dict]", "save": "None",
    "savez": "None", "savez_compressed": "None", "save_safetensors": "None", "save_gguf": "None", "seed": "None",
    "default_device": "Device", "set_default_device": "None", "default_stream": "Stream", "is_available": "bool",
    "set_default_stream": "None", "new_stream": "Stream", "stream": "StreamContext", "device_count": "int",
    "device_info": "dict[str, str | int]", "set_printoptions": "None", "get_printoptions": "PrintOptions",
    "einsum_path": "tuple[list, str]", "disable_compile": "None", "enable_compile": "None", "clear_streams": "None",
    "unique": "array | tuple[array, ...]", "eigh": "tuple[array, array]",
}


def text_of(name, f):
    """A stub line of a function."""
    try:
        s = inspect.signature(f)
    except (ValueError, TypeError):
        return f"def {name}(*args, **kwargs): ..."
    parts, star, slash = [], False, False
    for p in s.parameters.values():
        if p.kind is not p.POSITIONAL_ONLY and slash is None:
            parts.append("/")
            slash = False
        if p.kind is p.POSITIONAL_ONLY:
            slash = None
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        t = TYPES.get(p.name, "scalar | array" if p.name in SCALAR else "array")
        if p.kind is p.VAR_POSITIONAL:
            star = True
            parts.append(f"*{p.name}: object")
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: object")
        elif p.name == "self":
            parts.append("self")
        else:
            parts.append(f"{p.name}: {t}" + (" = ..." if p.default is not p.empty else ""))
    if slash is None:
        parts.append("/")
    returns = RETURNS.get(name, "int" if "memory" in name or "limit" in name else "array")
    doc = (inspect.getdoc(f) or "").split("\n\n")[0].replace("\n", " ").replace('"""', "'''")
    return f'def {name}({", ".join(parts)}) -> {returns}:\n    """{doc}"""'


HEAD = '''"""Types of isopace.core. Generated by scripts/python_interface.py."""

from collections.abc import Callable, Sequence

scalar = bool | int | float | complex
'''


def stub(module, name):
    lines = [HEAD if not name else HEAD + "\nfrom . import Dtype, StreamOrDevice, array\n"]
    for n in sorted(vars(module)):
        x = getattr(module, n)
        if n.startswith("_") or inspect.ismodule(x):
            continue
        if inspect.isclass(x):
            lines.append(f"class {n}:")
            doc = (inspect.getdoc(x) or "").split("\n\n")[0].replace("\n", " ")
            lines.append(f'    """{doc}"""')
            for k in sorted(vars(x)):
                v = vars(x)[k]
                if k.startswith("_"):
                    continue
                if callable(v):
                    lines.append("    " + text_of(k, v).replace("\n", "\n    "))
                else:
                    lines.append(f"    {k}: object")
            if n == "array":
                lines.append("    def __getattr__(self, name: str) -> object: ...")
        elif callable(x):
            lines.append(text_of(n, x))
        else:
            lines.append(f"{n}: {type(x).__name__ if type(x).__module__ == 'builtins' else type(x).__name__}")
    if not name:
        lines.append("StreamOrDevice = Stream | Device | DeviceType | None")
        lines += [f"from . import {m} as {m}" for m in MODULES[1:]]
    return "\n".join(lines) + "\n"


def state(module, name):
    x = getattr(module, name, None)
    if x is None and not hasattr(module, name):
        return "absent"
    return "later" if getattr(x, "_isopace_later", False) else "present"


def table():
    peer = importlib.import_module("mlx.core")
    out = ["# What of `mlx.core` 0.32.4 is there", "",
           "Generated by scripts/python_interface.py. *later* raises NotImplementedError with its name.", ""]
    total = there = 0
    for m in [*MODULES, "array"]:
        theirs = getattr(peer, m) if m else peer
        ours = getattr(ip, m) if m else ip
        names = [n for n in dir(theirs) if not n.startswith("__") and not (not m and n in MODULES)]
        marks = {n: state(ours, n) for n in names}
        good = sum(v == "present" for v in marks.values())
        total, there = total + len(names), there + good
        out += [f"## mlx.core{'.' + m if m else ''}: {good} of {len(names)}", ""]
        for kind in ("present", "later", "absent"):
            listed = [f"`{n}`" for n in names if marks[n] == kind]
            if listed:
                out += [f"{kind}: " + " ".join(listed), ""]
    out.insert(4, f"{there} of {total} names are present.\n")
    return "\n".join(out)


def main():
    files = {ROOT / "docs/interface.md": table()}
    for m in MODULES:
        module = getattr(ip, m) if m else ip
        files[ROOT / "python/isopace/core" / f"{m or '__init__'}.pyi"] = stub(module, m)
    bad = [p for p, t in files.items() if not p.exists() or p.read_text() != t]
    if "--check" in sys.argv:
        for p in bad:
            print(f"{p.relative_to(ROOT)} is not what python_interface.py writes")
        return len(bad) > 0
    for p, t in files.items():
        p.write_text(t)
    return 0


if __name__ == "__main__":
    sys.exit(main())

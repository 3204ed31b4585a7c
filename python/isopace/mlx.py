"""Runs programs that import ``mlx.core`` on isopace.

``python -m isopace.mlx SCRIPT ARGS`` or ``python -m isopace.mlx -m MODULE ARGS`` runs an unchanged program;
``isopace.mlx.install()`` does the same for the process that calls it, before its first import of mlx.
"""

import importlib.machinery
import importlib.util
import os
import sys
import types

SUBMODULES = ("random", "linalg", "fast", "fft", "metal", "cuda", "distributed")


def install():
    """Makes ``mlx.core`` and its submodules isopace's in this process.

    The pure-Python parts of an installed mlx (mlx.nn, mlx.utils, mlx.optimizers) then run on isopace. Without mlx
    installed there is ``mlx.core`` alone.
    """
    import isopace.core as core

    if sys.modules.get("mlx.core") is core:
        return
    if "mlx.core" in sys.modules:
        raise RuntimeError("[isopace.mlx] mlx.core is imported already; install isopace before")
    parent = sys.modules.get("mlx")
    if parent is None:
        parent = _parent()
        sys.modules["mlx"] = parent
    sys.modules["mlx.core"] = core
    parent.core = core
    for name in SUBMODULES:
        sys.modules[f"mlx.core.{name}"] = getattr(core, name)


def _parent():
    """The package ``mlx``: the installed one's folders, or none."""
    # mlx is a namespace package, so finding it runs no code of it.
    spec = importlib.machinery.PathFinder.find_spec("mlx")
    module = types.ModuleType("mlx")
    module.__path__ = list(spec.submodule_search_locations) if spec and spec.submodule_search_locations else []
    module.__spec__ = spec or importlib.machinery.ModuleSpec("mlx", None, is_package=True)
    module.__package__ = "mlx"
    return module


def main():
    """The command line."""
    args = sys.argv[1:]
    if not args or args[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if args else 2
    wrong = _refusal(args)
    if wrong:
        print(f"isopace.mlx: {wrong}", file=sys.stderr)
        return 2
    install()
    import runpy

    if args[0] == "-m":
        sys.argv = args[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c":
        sys.argv = ["-c"] + args[2:]
        exec(compile(args[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = args
        sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
        runpy.run_path(args[0], run_name="__main__")
    return 0


def _refusal(args):
    """Why the command line names nothing that could run, or None."""
    what = {"-m": "a module", "-c": "a program"}.get(args[0])
    if what and len(args) < 2:
        return f"{args[0]} needs {what}"
    if args[0] == "-m":
        # Finding a module inside a package would run the package, so the package alone is looked for.
        return None if importlib.util.find_spec(args[1].partition(".")[0]) else f"there is no module {args[1]}"
    if args[0] == "-c":
        return None
    if args[0].startswith("-"):
        return f"{args[0]} is not known; accepted: a script, -m MODULE, -c PROGRAM"
    return None if os.path.exists(args[0]) else f"{args[0]}: there is no such file"


if __name__ == "__main__":
    # Under -m this file is __main__; the module that programs import must be the same one.
    sys.modules.setdefault("isopace.mlx", sys.modules["__main__"])
    sys.exit(main())

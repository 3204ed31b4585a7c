#!/usr/bin/env python3
"""Runs isopace and the systems a user would pick instead, side by side, and prints ratios.

The engines of a row run in turn, A B A B, because machines are noisy; each figure is the best of its
rounds, and a ratio is how many times better isopace is (above 1: faster, or smaller). A row whose tool
is missing says so. Nothing is compared with numbers from another run.

    bench/compare.py --setup [NAME ...]      make the environments (mlx jax llama isopace; torch on request)
    bench/compare.py [ROW ...]               run all rows, or these
        --rounds N      rounds of A B (default 3)
        --json FILE     write everything measured, with versions and the machine
        --model FILE    the GGUF file (default: what scripts/fetch_model.sh gives)

Environments live under PEERS_DIR (default ~/.cache/isopace-peers), one virtual environment an engine.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKERS = ROOT / "bench" / "workers"
PEERS = pathlib.Path(os.environ.get("PEERS_DIR") or pathlib.Path.home() / ".cache" / "isopace-peers")
BINARY = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release" / "isopace"

PACKAGES = {
    "mlx": ["mlx[cpu]==0.32.4", "mlx-lm==0.32.2", "numpy"],
    "jax": ["jax", "numpy"],
    "torch": ["torch", "numpy"],
    "llama": ["llama-cpp-python==0.3.36"],
    # mlx gives mlx-lm its pure-Python parts (mlx.nn); its core is not loaded.
    "isopace": ["mlx[cpu]==0.32.4", "mlx-lm==0.32.2", "numpy"],
}
BY_DEFAULT = ["mlx", "jax", "llama", "isopace"]


class Missing(Exception):
    """A tool that is not installed; the text says how to get it."""


def python(engine):
    path = PEERS / engine / "bin" / "python"
    if not path.exists():
        raise Missing(f"no {engine}: bench/compare.py --setup {engine}")
    return str(path)


def worker(engine, script, *args, wrap=()):
    return lambda _: [python(engine), *wrap, str(WORKERS / script), *map(str, args)]


def llama(threads, prompt, tokens):
    return lambda model: [
        python("llama"), str(WORKERS / "llama_cpp_decode.py"), model(), str(threads), str(prompt), str(tokens),
    ]


def isopace_decode(threads, prompt, tokens):
    def command(model):
        if not BINARY.exists():
            raise Missing("no isopace binary: cargo build --release -p isopace-lm")
        counts = ["--threads", threads, "--prompt-tokens", prompt, "--tokens", tokens]
        return [str(BINARY), "bench", "decode", "--model", model(), *map(str, counts), "--json"]

    return command


def huggingface(kind):
    """The model as a Hugging Face folder, made once from the GGUF file: float16, or 4-bit as mlx-lm converts it."""

    def folder(model):
        made = PEERS / f"smollm2-{kind}"
        if (made / "config.json").exists():
            return made
        if kind == "float16":
            command = [str(ROOT / "bench" / "smollm2_hf.py"), model(), str(made)]
        else:
            source = huggingface("float16")(model)
            convert = ["-m", "isopace.mlx", "-m", "mlx_lm", "convert", "--hf-path", str(source)]
            command = [*convert, "--mlx-path", str(made), "-q", "--q-bits", "4", "--q-group-size", "64"]
        done = subprocess.run([python("isopace"), *command], capture_output=True, text=True, env=environment())
        if done.returncode != 0:
            raise Missing(f"no {kind} folder: {(done.stderr.strip() or 'no message').splitlines()[-1]}")
        return made

    return folder


def mlx_lm_row(title, kind, tokens, goals):
    folder, script = huggingface(kind), str(WORKERS / "mlx_lm_decode.py")
    ours = lambda model: [python("isopace"), "-m", "isopace.mlx", script, str(folder(model)), str(tokens)]  # noqa: E731
    theirs = lambda model: [python("mlx"), script, str(folder(model)), str(tokens)]  # noqa: E731
    return {"title": title, "engines": {"isopace": ours, "mlx": theirs}, "goals": goals}


def decode_row(title, threads, prompt, tokens, goals):
    engines = {"isopace": isopace_decode(threads, prompt, tokens), "llama.cpp": llama(threads, prompt, tokens)}
    return {"title": title, "engines": engines, "goals": goals}


def python_row(title, script, goals, peers=("mlx",), args=(), own_args=(), wrap=(), limits=None):
    modules = {"isopace": "isopace.core", "mlx": "mlx.core", "jax": "jax", "torch": "torch"}
    engines = {}
    for engine in ("isopace", *peers):
        # A script that imports mlx by name runs on isopace through its stand-in, and takes no module.
        named = () if wrap else (modules[engine],)
        given, start = (own_args or args, wrap) if engine == "isopace" else (args, ())
        engines[engine] = worker(engine, script, *named, *given, wrap=start)
    return {"title": title, "engines": engines, "goals": goals, "limits": limits or {}}


# Goals: figure -> (least ratio, the peers whose better one counts; none: all of the row's).
# Limits: figure -> what our own figure must reach.
ROWS = {
    "decode-1": decode_row("SmolLM2-135M Q4_1, 1 thread", 1, 256, 128, {"decode_tok_s": (2.0, ()), "prefill_tok_s": (3.0, ())}),
    "decode-2": decode_row("SmolLM2-135M Q4_1, 2 threads", 2, 256, 128, {"decode_tok_s": (2.0, ()), "prefill_tok_s": (3.0, ())}),
    "context": decode_row("the same at 3,800 tokens of context, 2 threads", 2, 3800, 64, {"decode_tok_s": (2.0, ())}),
    "calls": python_row(
        "a small compiled function, called from Python", "calls.py",
        {"hit_us": (1 / 0.3, ()), "lazy_add_us": (1 / 0.4, ()), "eval_us": (2.0, ())},
        limits={"hit_over_fresh_int_speed": 1 / 1.5, "fresh_int_growth_kib": 256},
    ),
    "long-decode": python_row(
        "43 layers x 3 compiled functions a token, position as an int", "long_decode.py", {"best_tenth_tok_s": (2.0, ())},
        args=(300,), own_args=(6000,), limits={"last_over_first_speed": 0.95, "growth_kib": 1024},
    ),
    "graph-build": python_row(
        "graph of a token of an 88-layer hybrid, mlx-lm's model file", "graph_build.py", {"build_ms": (2.0, ())},
        wrap=("-m", "isopace.mlx"),
    ),
    "mlx-lm": mlx_lm_row("mlx-lm generates with SmolLM2-135M, float16", "float16", 64, {"decode_tok_s": (10.0, ())}),
    "mlx-lm-4bit": mlx_lm_row("the same, 4-bit", "4bit", 16, {"decode_tok_s": (10.0, ())}),
    "kernels": python_row(
        "custom kernels from Python", "kernel_calls.py", {}, peers=(),
        limits={"kernel_call_us": 3.0, "axpy_kernel_over_vm_speed": 0.5, "gelu_kernel_over_vm_speed": 0.5},
    ),
    "ops": python_row(
        "elementwise, products and norms, float32", "ops.py",
        {
            "gelu_576_us": (1.1, ("jax", "torch")),
            "gelu_65536_us": (1.1, ("jax", "torch")),
            "gelu_1048576_us": (1.1, ("jax", "torch")),
            "gelu_16777216_us": (1.1, ("jax", "torch")),
            "matmul_512x512x512_gflops": (0.9, ("jax",)),
            "matmul_1024x1024x1024_gflops": (0.9, ("jax",)),
            "matmul_256x1536x576_gflops": (0.9, ("jax",)),
            "softmax_us": (1.0, ("jax", "torch")),
            "rms_norm_us": (1.0, ("jax", "torch")),
            "layer_norm_us": (1.0, ("jax", "torch")),
        },
        peers=("jax", "torch", "mlx"),
    ),
}


def higher_is_better(figure):
    return figure.endswith(("_tok_s", "_gflops", "_speed"))


def environment():
    env = dict(os.environ)
    # Where set, these slow NumPy and MLX.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        env.pop(name, None)
    # Workers find their shared module; peers find nothing of ours.
    env["PYTHONPATH"] = str(WORKERS)
    return env


def run(command):
    """Runs a worker and gives its figures, or raises Missing with what it said last."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=900, cwd=WORKERS)
    except subprocess.TimeoutExpired:
        raise Missing("ran longer than 900 s") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        raise Missing(f"failed: {said}")
    try:
        got = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        try:
            got = json.loads(done.stdout)
        except ValueError:
            raise Missing("printed no JSON") from None
    figures = got.get("figures", got)
    return {k: float(v) for k, v in figures.items() if isinstance(v, (int, float)) and k.endswith(SUFFIXES)}


SUFFIXES = ("_tok_s", "_gflops", "_speed", "_us", "_ms", "_kib")


def measure(row, rounds, model):
    """Runs the engines in turn. Gives the figures of every round, and why an engine has none."""
    seen, missing = {name: [] for name in row["engines"]}, {}
    for _ in range(rounds):
        for name, command in row["engines"].items():
            if name in missing:
                continue
            try:
                seen[name].append(run(command(model)))
            except Missing as why:
                missing[name] = str(why)
    return seen, missing


def best(rounds):
    figures = {}
    for one in rounds:
        for figure, value in one.items():
            pick = max if higher_is_better(figure) else min
            figures[figure] = pick(figures.get(figure, value), value)
    return figures


def ratio(figure, ours, theirs):
    """How many times better ours is; None where a figure is zero or less."""
    if ours <= 0 or theirs <= 0:
        return None
    return ours / theirs if higher_is_better(figure) else theirs / ours


def number(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def table(row, figures, missing):
    """The lines of one row's table, and its ratios."""
    names = list(row["engines"])
    peers = [n for n in names if n != "isopace"]
    order = []
    for name in names:
        order += [f for f in figures.get(name, {}) if f not in order]
    lines = [f"## {row['title']}", ""]
    lines += [f"{name}: {why}" for name, why in missing.items()]
    ratios = {}
    if not order:
        return lines + [""], ratios
    lines += ["| figure | " + " | ".join(names) + " | ratio | goal |", "|---" * (len(names) + 3) + "|"]
    for figure in order:
        values = {n: figures.get(n, {}).get(figure) for n in names}
        goal, against = row["goals"].get(figure, (None, ()))
        rivals = [values[p] for p in (against or peers) if values.get(p) is not None]
        shown, told = "-", "-"
        if values["isopace"] is not None and rivals:
            rival = max(rivals) if higher_is_better(figure) else min(rivals)
            r = ratio(figure, values["isopace"], rival)
            ratios[figure] = r
            shown = f"{r:.2f}" if r is not None else "-"
            if goal is not None and r is not None:
                told = f"{goal:.2g} {'met' if r >= goal else 'missed'}"
        elif goal is not None:
            told = f"{goal:.2g}"
        limit, ours = row.get("limits", {}).get(figure), values["isopace"]
        if limit is not None:
            sign = "≥" if higher_is_better(figure) else "≤"
            told = f"{sign} {number(limit)}"
            if ours is not None:
                told += " met" if (ours >= limit if sign == "≥" else ours <= limit) else " missed"
        cells = [figure, *(number(values[n]) for n in names), shown, told]
        lines.append("| " + " | ".join(cells) + " |")
    return lines + [""], ratios


def machine():
    cpu = platform.processor() or "unknown"
    try:
        with open("/proc/cpuinfo") as f:
            cpu = next(line.split(":", 1)[1].strip() for line in f if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"cpu": cpu, "cpus": len(os.sched_getaffinity(0)), "system": platform.platform()}


def versions():
    out = {}
    script = "import importlib.metadata as m, json; print(json.dumps({d.metadata['Name']: d.version for d in m.distributions()}))"
    for engine, packages in PACKAGES.items():
        try:
            listed = json.loads(subprocess.check_output([python(engine), "-c", script], text=True))
        except (Missing, subprocess.CalledProcessError, ValueError):
            continue
        wanted = {p.split("==")[0].split("[")[0] for p in packages} | {engine}
        out[engine] = {n: v for n, v in listed.items() if n in wanted}
    return out


def setup(names):
    for name in names or BY_DEFAULT:
        if name not in PACKAGES:
            sys.exit(f"compare.py: unknown environment {name}; known: {', '.join(PACKAGES)}")
        if name == "isopace" and not (ROOT / "pyproject.toml").exists():
            print("isopace: there is no Python package in this tree yet", file=sys.stderr)
            continue
        where = PEERS / name
        if not (where / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(where)], check=True)
        pip = [str(where / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *PACKAGES[name]], check=True)
        if name == "isopace":
            # Without --force-reinstall, the same version would stand for another build.
            subprocess.run([*pip, "--force-reinstall", "--no-deps", str(ROOT)], check=True)
        print(f"{name}: {where}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"one of {', '.join(ROWS)}")
    parser.add_argument("--setup", action="store_true", help="make the environments named, or the usual ones")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--model", metavar="FILE")
    options = parser.parse_args()
    if options.setup:
        return setup(options.rows)
    unknown = [r for r in options.rows if r not in ROWS]
    if unknown or options.rounds < 1:
        parser.error(f"unknown row {unknown[0]}" if unknown else "--rounds must be at least 1")

    fetched = []

    def model():
        if options.model:
            return options.model
        if not fetched:
            script = ROOT / "scripts" / "fetch_model.sh"
            got = subprocess.run([str(script)], stdout=subprocess.PIPE, text=True) if script.exists() else None
            if got is None or got.returncode != 0:
                raise Missing("no model: scripts/fetch_model.sh failed; give one with --model")
            fetched.append(got.stdout.strip().splitlines()[-1])
        return fetched[0]

    report = {"machine": machine(), "date": time.strftime("%Y-%m-%d"), "rounds": options.rounds, "rows": {}}
    report["versions"] = versions()
    print(f"{report['machine']['cpu']}, {report['machine']['cpus']} CPUs; {report['date']}; best of {options.rounds} rounds\n")
    for name in options.rows or ROWS:
        row = ROWS[name]
        seen, missing = measure(row, options.rounds, model)
        figures = {engine: best(rounds) for engine, rounds in seen.items()}
        lines, ratios = table(row, figures, missing)
        print("\n".join(lines), flush=True)
        report["rows"][name] = {
            "title": row["title"], "best": figures, "rounds": seen, "missing": missing, "ratios": ratios,
        }
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""`mlx.core` as isopace: installed pure-Python parts of mlx, and without mlx."""

import pathlib
import subprocess
import sys

import pytest


def run(code, *flags):
    r = subprocess.run([sys.executable, *flags, "-c", code], capture_output=True, text=True, timeout=300)
    assert r.returncode == 0, r.stderr[-2000:]
    return r.stdout


PATH = f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}\n"


def test_mlx_nn_runs_on_it():
    pytest.importorskip("mlx.nn")
    code = PATH + """
import isopace.mlx; isopace.mlx.install()
import isopace.core, mlx.core as mx, mlx.nn as nn, mlx.utils, mlx
assert mx is isopace.core and mlx.core is mx and sys.modules["mlx.core.random"] is mx.random
m = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.RMSNorm(2))
nn.quantize(nn.Linear(64, 64), bits=4)
y = m(mx.ones((3, 4)))
assert y.shape == (3, 2) and mx.isfinite(y).all().item()
f = mx.compile(m, inputs=m.state)
assert mx.allclose(f(mx.ones((3, 4))), y).item()
print("ok")
"""
    assert run(code).strip() == "ok"


def test_without_mlx():
    import isopace

    root = isopace.__path__[0].rpartition("/")[0]
    code = f"import sys; sys.path.insert(0, {root!r})\nimport isopace.mlx; isopace.mlx.install()\n" \
        "import mlx.core as mx; from mlx.core import random; print((mx.ones(2) + 1).tolist())"
    assert run(code, "-S", "-E").strip() == "[2.0, 2.0]"


def test_command_line(tmp_path):
    script = tmp_path / "prog.py"
    script.write_text("import sys, mlx.core as mx\nprint(mx.array(3).item(), sys.argv[1:])\n")
    for args in ([str(script), "a"],):
        r = subprocess.run([sys.executable, "-c", PATH + "import sys; sys.argv[1:] = " + repr(args)
                            + "\nimport isopace.mlx; sys.exit(isopace.mlx.main())"], capture_output=True, text=True)
        assert r.stdout.strip() == "3 ['a']", r.stderr


def test_command_line_that_is_wrong():
    for args, part in (
        (["nope.py"], "nope.py: there is no such file"),
        (["-m", "nope.nope"], "no module nope.nope"),
        (["-m"], "-m needs a module"),
        (["-c"], "-c needs a program"),
        (["-x"], "-x is not known"),
    ):
        r = subprocess.run([sys.executable, "-m", "isopace.mlx", *args], capture_output=True, text=True)
        assert r.returncode == 2 and r.stderr.count("\n") == 1 and part in r.stderr, r.stderr


MODELS = ["qwen3_moe", "gemma3_text", "mamba", "deepseek_v2", "nemotron_h"]


@pytest.mark.parametrize("name", MODELS)
def test_models_decode_as_on_the_peer(name, tmp_path):
    import numpy as np

    pytest.importorskip("mlx_lm")
    script = pathlib.Path(__file__).with_name("decode_models.py")
    logits = []
    for who, start in (("ours", ["-c", PATH + "import isopace.mlx; isopace.mlx.main()"]), ("peer", [])):
        out = tmp_path / f"{who}.npz"
        args = [sys.executable, *start, str(script), str(out), name]
        r = subprocess.run(args, capture_output=True, text=True, timeout=300)
        assert r.returncode == 0, r.stderr[-2000:]
        logits.append(np.load(out)[name])
    np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-4)

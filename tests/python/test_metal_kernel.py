"""Custom kernels from Python, and mlx-lm's own, unmodified, against its op-by-op path."""

import os
import subprocess
import sys
import textwrap

import isopace.core as mx
import pytest

INDEX = "uint i = thread_position_in_grid.x;\n"


def run(k, inputs, n, dtype=mx.float32, **kw):
    return k(inputs=inputs, output_shapes=[(n,)], output_dtypes=[dtype], grid=(n, 1, 1), threadgroup=(8, 1, 1), **kw)


def test_specializations_are_generated_once():
    k = mx.fast.metal_kernel("scale", ["a"], ["out"], INDEX + "out[i] = a[i] * T(N);")
    for _ in range(3):
        for dtype in (mx.float32, mx.int32, mx.float16):
            for n in (3, -2):
                a = mx.arange(16).astype(dtype)
                out = run(k, [a], 16, dtype, template=[("T", dtype), ("N", n)])[0]
                assert out.astype(mx.int32).tolist() == [n * i for i in range(16)]
    s = k.stats()
    assert (s["sources_generated"], s["hits"], s["misses"]) == (6, 12, 6)


def test_a_mutable_input_is_updated():
    k = mx.fast.metal_kernel(
        "count", ["state", "x"], ["seen"], INDEX + "seen[i] = state[i]; state[i] += x[i];", mutable_inputs=["state"]
    )
    state, x = mx.ones((8,)), mx.arange(8).astype(mx.float32)
    kept = []
    for step in range(4):
        kept += run(k, [state, x], 8)
        if step % 2:
            mx.eval(kept)
    assert kept[2].tolist() == [1 + 2 * i for i in range(8)]
    assert state.tolist() == [1 + 4 * i for i in range(8)]
    view = state[2:]
    mx.eval(view)
    (y,) = run(k, [state, x], 8)
    with pytest.raises(RuntimeError, match='mutable input "state" is shared'):
        mx.eval(y)
    assert view[0].item() == 9
    with pytest.raises(TypeError, match="accepted: an mx.array"):
        run(k, [1.0, x], 8)


def test_wrong_calls_and_verbose(capsys):
    k = mx.fast.metal_kernel("chk", ["a"], ["out"], INDEX + "out[i] = a[i];")
    for wrong in ({"grid": (1, 1)}, {"template": [("N", 1.5)]}, {"template": ["N"]}):
        with pytest.raises(TypeError):
            k(**{**dict(inputs=[1], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1),
                        threadgroup=(1, 1, 1)), **wrong})
    with pytest.raises(ValueError, match="accepted: 1 to 1024"):
        k(inputs=[1], output_shapes=[(1,)], output_dtypes=[mx.float32], grid=(1, 1, 1), threadgroup=(2000, 1, 1))
    run(k, [mx.ones((9,))], 9, verbose=True)
    text = capsys.readouterr().out
    assert "Generated source code for `chk`:" in text and "out[i] = a[i];" in text
    with pytest.raises(RuntimeError, match="NVIDIA GPU"):
        mx.fast.cuda_kernel("c", ["a"], ["out"], "")


MLX_LM = """
    import isopace.mlx
    isopace.mlx.install()
    import mlx.core as mx
    from mlx_lm.models import gated_delta as gd, ssm
    assert mx.metal.is_available()

    def r(*shape): return mx.random.normal(shape)
    def close(a, b, tol): assert mx.max(mx.abs(a - b)).item() < tol * (1 + mx.max(mx.abs(b)).item())

    mx.random.seed(1)
    h, d, ds, g = 8, 16, 64, 1
    args = (r(1, 1, h, d), r(h), r(1, 1, g, ds), r(1, 1, g, ds), r(h), r(1, 1, h), r(h), r(1, h, d, ds), (0.001, 100.0))
    for a, b in zip(ssm.ssm_update_kernel(*args), ssm.ssm_attn(*args[:7], state=args[7], time_step_limit=args[8])):
        close(a, b, 1e-5)
    for dk in (32, 128):
        B, T, hk, hv, dv = 2, 5, 2, 4, 16
        q, k, v = r(B, T, hk, dk) / dk, r(B, T, hk, dk) / dk, r(B, T, hv, dv)
        decay, beta, state = mx.sigmoid(r(B, T, hv)), mx.sigmoid(r(B, T, hv)), r(B, hv, dv, dk)
        ops = gd.gated_delta_ops(q, k, v, decay, beta, state)
        for a, b in zip(gd.gated_delta_kernel(q, k, v, decay, beta, state), ops): close(a, b, 1e-5)
        mask = mx.arange(T)[None] < mx.array([[3], [5]])
        ours = gd.gated_delta_kernel(q, k, v, decay, beta, state, mask)
        theirs = gd.gated_delta_ops(q, k, v, decay, beta, state, mask)
        close(ours[1], theirs[1], 1e-5)
        vec = mx.sigmoid(r(B, T, hv, dk))
        theirs = gd.gated_delta_ops(q, k, v, vec, beta, state)
        for a, b in zip(gd.gated_delta_kernel(q, k, v, vec, beta, state), theirs): close(a, b, 1e-5)
        if dk == 128 and hasattr(gd, "gated_delta_kernel_xtree"):
            tree = gd.gated_delta_kernel_xtree(q, k, v, decay, beta, state)
            packed = gd.gated_delta_kernel(q, k, v, decay, beta, state)
            for a, b in zip(tree, packed): assert mx.array_equal(a, b).item()

    # Through mlx-lm's own choice: its kernels on the device called gpu, its ops on the one called cpu.
    assert mx.default_device() == mx.gpu and mx.is_available(mx.gpu)
    q, k, v = r(2, 5, 2, 64) / 8, r(2, 5, 2, 64) / 8, r(2, 5, 4, 16)
    cases = [
        (ssm._ssm_kernel, lambda: ssm.ssm_update(*args)),
        (gd._gated_delta_kernel, lambda: gd.gated_delta_update(
            q, k, v, r1, r2, r3, r3, mx.zeros((2, 4, 16, 64)))),
    ]
    r1, r2, r3 = r(2, 5, 4), r(2, 5, 4), r(4)
    calls = lambda kernel: kernel.stats()["hits"] + kernel.stats()["misses"]
    for kernel, update in cases:
        results = []
        for device, more in ((mx.gpu, 1), (mx.cpu, 0)):
            mx.set_default_device(device)
            before = calls(kernel)
            results.append(update())
            assert calls(kernel) == before + more, (device, before)
        for a, b in zip(*results): close(a, b, 1e-5)
    mx.set_default_device(mx.gpu)
    print("equal")
"""


def test_mlx_lm_kernels_equal_its_ops():
    pytest.importorskip("mlx_lm")
    env = {**os.environ, "ISOPACE_METAL_DIALECT": "1"}
    r = subprocess.run([sys.executable, "-c", textwrap.dedent(MLX_LM)], env=env, capture_output=True, text=True)
    assert r.returncode == 0 and r.stdout.strip().endswith("equal"), r.stderr[-3000:]

"""Fused tanh-GELU by size, float32 matrix products by shape, and row-wise norms.

usage: ops.py mlx.core | isopace.core | jax | torch
"""

import importlib
import sys

from timing import answer, best_us

GELU = (576, 65_536, 1 << 20, 1 << 24)
PRODUCTS = ((512, 512, 512), (1024, 1024, 1024), (256, 1536, 576))
ROWS = (4096, 4096)


def gelu(tanh):
    return lambda x: 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def norm(rsqrt, mean):
    return lambda x, w: x * rsqrt(mean(x * x) + 1e-5) * w


def centred(rsqrt, mean):
    def f(x, w, b):
        d = x - mean(x)
        return d * rsqrt(mean(d * d) + 1e-5) * w + b

    return f


def with_jax():
    import jax
    import jax.numpy as jnp

    mean = lambda x: jnp.mean(x, axis=-1, keepdims=True)
    return {
        "random": lambda *shape: jax.random.normal(jax.random.PRNGKey(len(shape)), shape, dtype=jnp.float32),
        "wait": lambda y: y.block_until_ready(),
        "gelu": jax.jit(gelu(jnp.tanh)),
        "product": jax.jit(jnp.matmul),
        "softmax": jax.jit(lambda x: jax.nn.softmax(x, axis=-1)),
        "rms_norm": jax.jit(norm(jax.lax.rsqrt, mean)),
        "layer_norm": jax.jit(centred(jax.lax.rsqrt, mean)),
    }


def with_torch():
    import torch
    import torch.nn.functional as F

    torch.set_grad_enabled(False)
    return {
        "random": lambda *shape: torch.randn(*shape),
        "wait": lambda y: y,
        "gelu": torch.compile(gelu(torch.tanh)),
        "product": torch.matmul,
        "softmax": torch.compile(lambda x: torch.softmax(x, -1)),
        "rms_norm": torch.compile(lambda x, w: F.rms_norm(x, w.shape, w, 1e-5)),
        "layer_norm": torch.compile(lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5)),
    }


def with_mlx(name):
    mx = importlib.import_module(name)
    return {
        "random": lambda *shape: mx.random.normal(shape),
        "wait": mx.eval,
        "gelu": mx.compile(gelu(mx.tanh)),
        "product": lambda a, b: a @ b,
        "softmax": lambda x: mx.softmax(x, axis=-1),
        "rms_norm": lambda x, w: mx.fast.rms_norm(x, w, 1e-5),
        "layer_norm": lambda x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
    }


name = sys.argv[1]
peer = {"jax": with_jax, "torch": with_torch}.get(name, lambda: with_mlx(name))()
random, wait = peer["random"], peer["wait"]
figures = {}


def timed(f, *operands):
    for a in operands:
        wait(a)
    for _ in range(3):
        wait(f(*operands))
    return best_us(lambda: wait(f(*operands)))


for n in GELU:
    figures[f"gelu_{n}_us"] = timed(peer["gelu"], random(n))
for m, n, k in PRODUCTS:
    us = timed(peer["product"], random(m, k), random(k, n))
    figures[f"matmul_{m}x{n}x{k}_gflops"] = 2 * m * n * k / us / 1e3
x, w, b = random(*ROWS), random(ROWS[1]), random(ROWS[1])
figures["softmax_us"] = timed(peer["softmax"], x)
figures["rms_norm_us"] = timed(peer["rms_norm"], x, w)
figures["layer_norm_us"] = timed(peer["layer_norm"], x, w, b)
answer(figures)

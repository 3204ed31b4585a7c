"""Builds the graph of one decode token of an 88-layer hybrid (40 state-space, 40 mixture-of-experts and
8 attention layers) with mlx-lm's own model file; weights stay lazy and nothing is evaluated.

usage: graph_build.py       run under `python -m isopace.mlx` for isopace
"""

import statistics
import time

import mlx.core as mx
from mlx_lm.models import nemotron_h
from mlx_lm.models.cache import make_prompt_cache

from timing import answer

# Only the structure matters for building; the widths are small.
args = nemotron_h.ModelArgs.from_dict({
    "model_type": "nemotron_h",
    "hybrid_override_pattern": list(8 * "MEMEMEMEME*"),
    "num_hidden_layers": 88,
    "vocab_size": 32768,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "max_position_embeddings": 65536,
    "layer_norm_epsilon": 1e-5,
    "use_bias": False,
    "mlp_bias": False,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "attention_bias": False,
    "mamba_num_heads": 32,
    "mamba_head_dim": 64,
    "mamba_proj_bias": False,
    "ssm_state_size": 64,
    "conv_kernel": 4,
    "use_conv_bias": True,
    "n_groups": 4,
    "n_routed_experts": 64,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "moe_shared_expert_intermediate_size": 1024,
    "moe_latent_size": 256,
    "n_group": 1,
    "topk_group": 1,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
})
model = nemotron_h.Model(args)
cache = make_prompt_cache(model)
token, times = mx.array([[1]]), []
for _ in range(50):
    start = time.perf_counter()
    token = mx.argmax(model(token, cache=cache)[:, -1:], axis=-1)
    times.append((time.perf_counter() - start) * 1e3)
answer({"build_ms": statistics.median(times[10:])})

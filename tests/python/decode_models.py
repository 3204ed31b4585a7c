"""Small random models of several of mlx-lm's model files: prefill, then decode; prints the logits of each step.

usage: decode_models.py OUT.npz [NAME ...]     (imports mlx.core; run under `python -m isopace.mlx` for isopace)
"""
import importlib
import sys

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten
from mlx_lm.models.cache import make_prompt_cache

COMMON = dict(vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, rms_norm_eps=1e-5)
MODELS = {
    "qwen3_moe": dict(
        COMMON, model_type="qwen3_moe", intermediate_size=48, num_key_value_heads=2, num_experts=4,
        num_experts_per_tok=2, decoder_sparse_step=1, mlp_only_layers=[], moe_intermediate_size=24, head_dim=8,
        rope_theta=1e4, tie_word_embeddings=False, max_position_embeddings=256, norm_topk_prob=True),
    "gemma3_text": dict(
        model_type="gemma3_text", vocab_size=64, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
        head_dim=8, intermediate_size=48, num_key_value_heads=2, sliding_window=8, sliding_window_pattern=3,
        query_pre_attn_scalar=8, rms_norm_eps=1e-5),
    "mamba": dict(
        model_type="mamba", vocab_size=64, hidden_size=32, intermediate_size=64, state_size=8, num_hidden_layers=2,
        conv_kernel=4, use_bias=False, use_conv_bias=True, time_step_rank=4, tie_word_embeddings=True),
    "deepseek_v2": dict(
        COMMON, model_type="deepseek_v2", intermediate_size=48, moe_intermediate_size=24, num_key_value_heads=4,
        n_shared_experts=1, n_routed_experts=4, routed_scaling_factor=1.0, kv_lora_rank=16, q_lora_rank=None,
        qk_rope_head_dim=8, v_head_dim=8, qk_nope_head_dim=8, topk_method="greedy", n_group=1, topk_group=1,
        num_experts_per_tok=2, moe_layer_freq=1, first_k_dense_replace=1, max_position_embeddings=256,
        rope_theta=1e4, attention_bias=False,
        rope_scaling={"type": "yarn", "factor": 2.0, "mscale": 1.0, "mscale_all_dim": 1.0,
                      "original_max_position_embeddings": 128, "beta_fast": 32, "beta_slow": 1}),
    "nemotron_h": dict(
        model_type="nemotron_h", vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        max_position_embeddings=256, num_attention_heads=4, num_key_value_heads=2, attention_bias=False,
        mamba_num_heads=8, mamba_head_dim=8, mamba_proj_bias=False, ssm_state_size=16, conv_kernel=4, n_groups=2,
        mlp_bias=False, layer_norm_epsilon=1e-5, use_bias=False, use_conv_bias=True,
        hybrid_override_pattern=["M", "*", "-"], head_dim=8),
}


def decode(name):
    module = importlib.import_module(f"mlx_lm.models.{name}")
    model = module.Model(module.ModelArgs.from_dict(MODELS[name]))
    rng = np.random.default_rng(0)
    weights = [(k, mx.array((rng.standard_normal(v.shape) * 0.1).astype(np.float32)))
               for k, v in sorted(tree_flatten(model.parameters()), key=lambda kv: kv[0])]
    model.update(tree_unflatten(weights))
    cache = make_prompt_cache(model)
    y, out = mx.array([[1, 5, 9, 3]]), []
    for t in range(64):
        logits = model(y, cache=cache)[:, -1]
        out.append(np.array(logits.astype(mx.float32)))
        y = mx.array([[(7 * t + 3) % 64]])
    return np.concatenate(out)


if __name__ == "__main__":
    names = sys.argv[2:] or list(MODELS)
    np.savez(sys.argv[1], **{n: decode(n) for n in names})

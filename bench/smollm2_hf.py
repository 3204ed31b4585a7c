#!/usr/bin/env python3
"""Makes a Hugging Face folder, as mlx-lm reads it, from a GGUF file of SmolLM2.

usage: smollm2_hf.py MODEL.gguf FOLDER [--dtype float16|float32]     (needs isopace, tokenizers, transformers)
"""
import argparse
import json
import pathlib

import isopace.core as mx

NAMES = {
    "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
}


def split_halves(w, heads):
    """Rows of each head from pairs (2i, 2i + 1), GGUF's order, to halves (i, i + d / 2)."""
    rows, cols = w.shape
    d = rows // heads
    return w.reshape(heads, d // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def tokenizer(meta, folder):
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = meta["tokenizer.ggml.tokens"]
    kinds = meta["tokenizer.ggml.token_type"].tolist()
    merges = [tuple(m.split(" ")) for m in meta["tokenizer.ggml.merges"]]
    t = Tokenizer(models.BPE(vocab={w: i for i, w in enumerate(words)}, merges=merges))
    t.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(w, special=True) for w, k in zip(words, kinds) if k == 3])
    word = lambda key: words[int(meta[f"tokenizer.ggml.{key}_token_id"].item())]  # noqa: E731
    fast = PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token=word("eos"), bos_token=word("bos"), clean_up_tokenization_spaces=False)
    fast.chat_template = meta["tokenizer.chat_template"]
    fast.save_pretrained(folder)


def main():
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument("gguf")
    a.add_argument("folder", type=pathlib.Path)
    a.add_argument("--dtype", default="float16", choices=("float16", "float32"))
    a = a.parse_args()
    weights, meta = mx.load(a.gguf, return_metadata=True)
    n = lambda key: int(meta[f"llama.{key}"].item())  # noqa: E731
    heads, kv = n("attention.head_count"), n("attention.head_count_kv")
    out = {}
    for name, w in weights.items():
        w = w.astype(getattr(mx, a.dtype))
        if name == "token_embd.weight":
            out["model.embed_tokens.weight"] = w
        elif name == "output_norm.weight":
            out["model.norm.weight"] = w
        elif name.startswith("blk."):
            _, layer, part, _ = name.split(".")
            if part in ("attn_q", "attn_k"):
                w = split_halves(w, heads if part == "attn_q" else kv)
            out[f"model.layers.{layer}.{NAMES[part]}.weight"] = w
    a.folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(a.folder / "model.safetensors"), out, metadata={"format": "mlx"})
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": n("embedding_length"),
        "num_hidden_layers": n("block_count"), "intermediate_size": n("feed_forward_length"),
        "num_attention_heads": heads, "num_key_value_heads": kv,
        "rms_norm_eps": float(meta["llama.attention.layer_norm_rms_epsilon"].item()),
        "vocab_size": len(meta["tokenizer.ggml.tokens"]), "max_position_embeddings": n("context_length"),
        "rope_theta": float(meta["llama.rope.freq_base"].item()), "tie_word_embeddings": True,
        "bos_token_id": int(meta["tokenizer.ggml.bos_token_id"].item()),
        "eos_token_id": int(meta["tokenizer.ggml.eos_token_id"].item()),
    }
    (a.folder / "config.json").write_text(json.dumps(config, indent=1))
    tokenizer(meta, a.folder)


if __name__ == "__main__":
    main()

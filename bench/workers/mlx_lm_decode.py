"""Greedy decode of a Hugging Face folder with mlx-lm's own generator.

usage: mlx_lm_decode.py FOLDER TOKENS       run under `python -m isopace.mlx` for isopace
"""

import sys

from mlx_lm import load, stream_generate

from timing import answer

folder, tokens = sys.argv[1], int(sys.argv[2])
model, tokenizer = load(folder)
prompt = tokenizer.encode("Long ago, on an island in the north, three brothers built a lighthouse. The eldest")
speeds = []
for _ in range(3):
    *_, last = stream_generate(model, tokenizer, prompt, max_tokens=tokens)
    speeds.append(last.generation_tps)
answer({"decode_tok_s": max(speeds)})

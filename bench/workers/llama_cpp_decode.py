"""Prefill and decode of a GGUF file with llama.cpp.

usage: llama_cpp_decode.py MODEL THREADS PROMPT_TOKENS TOKENS
"""

import sys
import time

from llama_cpp import Llama

from timing import answer

model, (threads, prompt_tokens, tokens) = sys.argv[1], (int(a) for a in sys.argv[2:5])
llama = Llama(
    model_path=model,
    n_ctx=prompt_tokens + tokens + 8,
    n_threads=threads,
    n_threads_batch=threads,
    verbose=False,
)
# Any ids do: the work does not depend on the text.
prompt = [100 + 7 * i % 40_000 for i in range(prompt_tokens)]
prefill = decode = 0.0
for _ in range(3):
    llama.reset()
    start = time.perf_counter()
    llama.eval(prompt)
    prefill = max(prefill, prompt_tokens / (time.perf_counter() - start))
    start = time.perf_counter()
    for i in range(tokens):
        llama.eval([200 + i])
    decode = max(decode, tokens / (time.perf_counter() - start))
answer({"prefill_tok_s": prefill, "decode_tok_s": decode})

"""A decode loop as programs write it: 43 layers, each calling three compiled functions that are handed
the position as an int. Speed of the first and the last tenth, and memory growth.

usage: long_decode.py MODULE [TOKENS]
"""

import importlib
import sys
import time

from timing import answer, resident_kib

mx = importlib.import_module(sys.argv[1])
tokens = int(sys.argv[2]) if len(sys.argv) > 2 else 300
layers, heads, width = 43, 4, 64


def rotated(x, position, traditional):
    return mx.fast.rope(x, width, traditional=traditional, base=1e4, scale=1.0, offset=position)


@mx.compile
def attend(x, w, position):
    return x + rotated(mx.fast.rms_norm(x, w, 1e-6), position, True)


@mx.compile
def turn_back(x, position):
    return rotated(x, -position, True) * 0.5


@mx.compile
def compress(x, w, position):
    return rotated(mx.fast.rms_norm(x, w, 1e-6), position, False)


start_x, w = mx.ones((1, heads, 1, width)), mx.ones((width,))


def token(position):
    x = start_x
    for _ in range(layers):
        x = compress(turn_back(attend(x, w, position), position), w, position)
    mx.eval(x)


for position in range(20):
    token(position)
before_kib, times = resident_kib(), []
for position in range(20, 20 + tokens):
    start = time.perf_counter()
    token(position)
    times.append(time.perf_counter() - start)
tenth = max(1, tokens // 10)
speed = [tenth / sum(times[i : i + tenth]) for i in range(0, tenth * (tokens // tenth), tenth)]
answer({
    "first_tenth_tok_s": speed[0],
    "last_tenth_tok_s": speed[-1],
    "last_over_first_speed": speed[-1] / speed[0],
    "best_tenth_tok_s": max(speed),
    "growth_kib": resident_kib() - before_kib,
})

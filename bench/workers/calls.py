"""Calls of a small compiled function from Python: what a hit costs, and what a scalar costs that is
new at every call, after a thousand values and after sixteen thousand.

usage: calls.py MODULE      an mlx.core-compatible module
"""

import importlib
import sys
import time

from timing import answer, best_us, resident_kib

mx = importlib.import_module(sys.argv[1])


def compiled():
    """A function of its own, with a cache of its own."""
    return mx.compile(lambda x, n: x * 3 + n)


figures = {}
x, offset = mx.ones((64,)), mx.array(5)
scaled, by_array = compiled(), compiled()
for n in (9, 10, 11):
    mx.eval(scaled(x, n), by_array(x, offset))
figures["hit_us"] = best_us(lambda: scaled(x, 11))
figures["array_argument_us"] = best_us(lambda: by_array(x, offset))
figures["lazy_add_us"] = best_us(lambda: x + x)
figures["eval_us"] = best_us(lambda: mx.eval(scaled(x, 11)))

scaled = compiled()
for n in range(-4, 0):
    mx.eval(scaled(x, n))
start_kib, value = resident_kib(), 0
for until in (1_000, 16_000):
    # The best of the last hundreds before the mark is the figure.
    best_s = float("inf")
    while value < until:
        start = time.perf_counter()
        for _ in range(100):
            y = scaled(x, value)
            value += 1
        if value > until - 500:
            best_s = min(best_s, time.perf_counter() - start)
    figures[f"fresh_int_{until}_us"] = best_s / 100 * 1e6
    if y.tolist() != [float(value + 2)] * 64:
        sys.exit(f"calls.py: wrong result after {value} values")
figures["hit_over_fresh_int_speed"] = figures["hit_us"] / figures["fresh_int_16000_us"]
figures["fresh_int_growth_kib"] = resident_kib() - start_kib
answer(figures)

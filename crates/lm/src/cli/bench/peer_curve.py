"""The peer's cost of a compiled function given a fresh int each time: [[values, microseconds], ...]."""
import json
import time

import mlx.core as mx

step = mx.compile(lambda x, y, n: x * y + n)
x = mx.ones((64,))
for warm in (-1, -2, -3):
    mx.eval(step(x, x, warm))
seen, goal, points = 0, 1000, []
while goal <= 16000:
    first, start = seen, time.perf_counter()
    while seen < goal:
        seen += 1
        step(x, x, seen)
    points.append([seen, (time.perf_counter() - start) / (seen - first) * 1e6])
    goal *= 2
print(json.dumps(points))

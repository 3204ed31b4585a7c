"""What the workers share: timing, memory, and the form of their answer."""

import json
import resource
import time


def best_us(call, at_least_s=0.02, samples=7):
    """Returns microseconds a call: the best of several samples, each long enough for the clock."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            call()
        took = time.perf_counter() - start
        if took >= at_least_s:
            break
        count = max(count + 1, int(count * min(100.0, 1.3 * at_least_s / max(took, 1e-9))))
    best = took / count
    for _ in range(samples - 1):
        start = time.perf_counter()
        for _ in range(count):
            call()
        best = min(best, (time.perf_counter() - start) / count)
    return best * 1e6


def resident_kib():
    with open("/proc/self/statm") as f:
        pages = int(f.read().split()[1])
    return pages * resource.getpagesize() // 1024


def answer(figures):
    """Prints the figures, by name, as the last line of the output."""
    print(json.dumps({"figures": figures}))

"""What happens where there is no memory: an error that a program can catch, never the end of the process."""

import subprocess
import sys

import pytest

# Each takes, beside its result, memory of its own as large as its operands: a dense copy of a view, float32 or
# float64 values of another dtype, sums before they are rounded.
HUNGRY = {
    "softmax of a view": "mx.softmax(f16.T, axis=-1)",
    "sum of a view": "mx.sum(f32[:, ::2].T, axis=0)",
    "logsumexp of halves": "mx.logsumexp(f16, axis=0)",
    "argmax of a view": "mx.argmax(f32.T[::2], axis=1)",
    "inverse": "mx.linalg.inv(f32, stream=mx.cpu)",
    "cumsum of a view": "mx.cumsum(f32.T, axis=1)",
    "quantized weights": "mx.quantized_matmul(f16, *weights, transpose=False)",
    "indices": "mx.take_along_axis(f16, mx.zeros((N, N), mx.uint8), axis=1)",
    "tolist": "f32.T.tolist()",
}


@pytest.mark.parametrize("what", HUNGRY)
def test_what_kernels_need_for_themselves_is_an_error_too(what):
    program = f"""
import resource
import isopace.core as mx
N = 2048
f16, f32 = mx.zeros((N, N), mx.float16), mx.zeros((N, N))
weights = mx.quantize(f16)
mx.eval(f16, f32, weights)
mx.sum(f32[:2]).item()
mx.set_cache_limit(0)
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 20), now + (1 << 20)))
try:
    r = {HUNGRY[what]}
    mx.eval(r) if isinstance(r, mx.array) else None
    print("no error")
except MemoryError as e:
    print("caught", e)
print(mx.sum(f32[0]).item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("caught [alloc] the system refused"), done.stdout
    assert done.stdout.endswith("0.0\n")

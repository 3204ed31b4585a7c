"""Custom kernels from Python: a repeated call up to its lazy outputs, with the arguments that a state-space
scan takes, and elementwise kernels over 1M floats beside the same functions compiled.

usage: kernel_calls.py MODULE
"""

import importlib
import sys

from timing import answer, best_us

mx = importlib.import_module(sys.argv[1])
figures = {}

names = ["x", "a", "b", "c", "d", "dt", "state"]
scan = mx.fast.metal_kernel(
    "scan", names, ["y", "next_state"],
    "uint i = thread_position_in_grid.x; next_state[i] = state[i] * a[0] + x[i] * b[0]; "
    "y[i] = T(next_state[i] * c[0] + d[0] * dt[0] + H + G + N + P + F);",
)
inputs = [mx.ones((64,)) for _ in names]
template = [("T", mx.float32), ("H", 64), ("G", 8), ("N", 128), ("P", 64), ("F", False)]


def call():
    return scan(
        inputs=inputs, template=template, grid=(64, 1, 1), threadgroup=(32, 1, 1),
        output_shapes=[(1, 64), (64,)], output_dtypes=[mx.float32, mx.float32],
    )


mx.eval(call())
figures["kernel_call_us"] = best_us(call)
if scan.stats()["sources_generated"] != 1:
    sys.exit("kernel_calls.py: repeated calls generated text")

x = mx.random.normal((1 << 20,))
bodies = {
    "axpy": ("2.0f * v + 1.0f", lambda x: 2.0 * x + 1.0),
    "gelu": (
        "0.5f * v * (1.0f + metal::tanh(0.7978845608f * (v + 0.044715f * v * v * v)))",
        lambda x: 0.5 * x * (1.0 + mx.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
    ),
}
for name, (body, function) in bodies.items():
    made = mx.fast.metal_kernel(
        name, ["x"], ["y"], f"uint i = thread_position_in_grid.x; float v = x[i]; y[i] = {body};")
    run = lambda: made(  # noqa: E731
        inputs=[x], grid=(1 << 20, 1, 1), threadgroup=(256, 1, 1), output_shapes=[(1 << 20,)],
        output_dtypes=[mx.float32])[0]
    compiled = mx.compile(function)
    if not mx.allclose(run(), compiled(x), rtol=1e-5, atol=1e-6).item():
        sys.exit(f"kernel_calls.py: {name} differs from the compiled function")
    kernel_us = best_us(lambda: mx.eval(run()))
    vm_us = best_us(lambda: mx.eval(compiled(x)))
    figures |= {f"{name}_kernel_us": kernel_us, f"{name}_vm_us": vm_us, f"{name}_kernel_over_vm_speed": vm_us / kernel_us}
answer(figures)

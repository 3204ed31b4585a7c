"""Names of the interface that come later: each raises NotImplementedError with its name."""

CORE = """
FunctionExporter checkpoint custom_function export_function export_to_dot exporter gather_qqmm grad import_function
jvp qqmm value_and_grad vjp vmap
""".split()
LINALG = """
cholesky cholesky_inv det eig eigvals lu lu_factor pinv qr slogdet solve solve_triangular svd tri_inv
""".split()
FAST = "gated_delta_update precompiled_cuda_kernel".split()
FFT = "istft stft".split()


def later(name):
    """A function that says that it is not there yet."""

    def f(*args, **kwargs):
        raise NotImplementedError(f"{name} is not implemented in isopace yet")

    f.__name__ = f.__qualname__ = name.rpartition(".")[2]
    f.__doc__ = "Raises NotImplementedError: not there yet."
    f._isopace_later = True
    return f


def fill(names, wanted=CORE, prefix="mlx.core"):
    """Adds to a module's names those that come later."""
    for n in wanted:
        if n not in names:
            names[n] = later(f"{prefix}.{n}")

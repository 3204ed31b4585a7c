"""Arrays in every dtype and layout, made alike in both packages."""

import numpy as np

INTS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"]
FLOATS = ["float16", "bfloat16", "float32"]
DTYPES = ["bool_", *INTS, *FLOATS, "complex64"]
LAYOUTS = ["contiguous", "transposed", "broadcast", "sliced", "reversed", "empty", "scalar"]


def values(shape, dtype, seed, lo=-4, hi=5):
    """NumPy values that the dtype holds exactly."""
    r = np.random.default_rng(seed)
    if dtype == "bool_":
        return r.integers(0, 2, shape).astype(bool)
    if dtype.startswith("u"):
        return r.integers(max(lo, 0), hi, shape)
    if dtype.startswith("int"):
        return r.integers(lo, hi, shape)
    x = r.integers(lo * 8, hi * 8, shape) / 8
    if dtype == "complex64":
        return x + 1j * r.integers(-16, 16, shape) / 8
    return x


def plain(x, dtype):
    """As nested lists whose dtype is given beside them."""
    return np.asarray(x).tolist()


def make(mx, shape, dtype, layout, seed, lo=-4, hi=5):
    """The array of this dtype and layout; equal values in whichever package `mx` is."""
    d = getattr(mx, dtype)

    def array(s):
        v = values(s, dtype, seed, lo, hi)
        if 0 in s:
            return mx.zeros(s, d)
        return mx.array(v.tolist(), d)

    if layout == "contiguous":
        return array(shape)
    if layout == "transposed":
        return array(shape[::-1]).T
    if layout == "broadcast":
        return mx.broadcast_to(array((1, *shape[1:])), shape)
    if layout == "sliced":
        wide = tuple(2 * n for n in shape)
        return array(wide)[tuple(slice(0, None, 2) for _ in shape)]
    if layout == "reversed":
        return array(shape)[tuple(slice(None, None, -1) for _ in shape)]
    if layout == "empty":
        return array((0, *shape[1:]))
    return array(())


def numpy(x):
    """The elements as NumPy, bfloat16 as float32."""
    name = str(x.dtype).rpartition(".")[2]
    if name == "bfloat16":
        return name, x.shape, np.array(x.tolist(), np.float32).reshape(x.shape)
    return name, x.shape, np.array(x.tolist(), dtype={"bool": bool}.get(name, name)).reshape(x.shape)


TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-5, "complex64": 1e-4}


def same(ours, theirs, scale=1.0, what=""):
    """Checks dtype, shape and values."""
    a, b = numpy(ours), numpy(theirs)
    assert a[0] == b[0], f"{what}: dtype {a[0]}, peer {b[0]}"
    assert tuple(a[1]) == tuple(b[1]), f"{what}: shape {a[1]}, peer {b[1]}"
    if a[0] in TOLERANCE:
        t = TOLERANCE[a[0]] * scale
        np.testing.assert_allclose(a[2], b[2], rtol=t, atol=t, equal_nan=True, err_msg=what)
    else:
        np.testing.assert_array_equal(a[2], b[2], err_msg=what)

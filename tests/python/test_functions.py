"""Every function of the regular tables against the peer, in every dtype and layout."""

import cmath

import isopace.core as ip
import pytest
from layouts import DTYPES, FLOATS, LAYOUTS, make, same

UNARY = """abs arccos arccosh arcsin arcsinh arctan arctanh ceil cos cosh degrees erf exp expm1 floor imag isfinite
isinf isnan isneginf isposinf log log10 log1p log2 logical_not negative radians real reciprocal round rsqrt sigmoid
sign sin sinh sqrt square tan tanh conjugate bitwise_invert positive stop_gradient trunc erfinv""".split()
BINARY = """add arctan2 bitwise_and bitwise_or bitwise_xor divide equal floor_divide greater greater_equal left_shift
less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply not_equal power remainder
right_shift subtract""".split()
REDUCE = "all any logsumexp max mean min prod sum var std median".split()
SCAN = "cumsum cumprod cummax cummin logcumsumexp".split()
SORT = "sort argsort argmax argmin softmax".split()

def both(peer, name, args, kwargs=None, scale=1.0):
    """Calls both; both raise, or both give the same."""
    out, raised = [], []
    for mx, a in ((ip, args[0]), (peer, args[1])):
        try:
            r = getattr(mx, name)(*a, **(kwargs or {}))
            mx.eval(r)
            out.append(r)
        except (ValueError, TypeError, IndexError, RuntimeError, NotImplementedError) as e:
            raised.append((mx is ip, e))
    if len(raised) == 2:
        return
    assert not raised, f"{name}: {'isopace' if raised[0][0] else 'peer'} raised {raised[0][1]!r}"
    a, b = out
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y, scale, name)
    else:
        same(a, b, scale, name)


def pair(peer, shape, dtype, layout, seed, **kw):
    return make(ip, shape, dtype, layout, seed, **kw), make(peer, shape, dtype, layout, seed, **kw)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_unary(peer, name, layout):
    for dtype in DTYPES:
        if name == "sign" and dtype == "uint8":
            continue
        if dtype == "complex64" and name in ("arccosh", "arctanh", "log1p", "arcsin", "arccos", "arctan", "arcsinh"):
            continue  # branch cuts; tested in the core against NumPy
        if dtype == "complex64" and name in ("sigmoid", "expm1"):
            continue  # the peer has none
        a, b = pair(peer, (3, 4), dtype, layout, 1)
        both(peer, name, ([a], [b]), scale=4 if dtype == "complex64" else 1)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", BINARY)
def test_binary(peer, name, layout):
    for dtype in DTYPES:
        low = 0 if name in ("power", "left_shift", "right_shift") else -4
        if name in ("power", "logaddexp") and dtype in ("complex64", "bool_"):
            continue
        if name in ("floor_divide", "remainder") and dtype in FLOATS + ["complex64"]:
            continue  # zero divisors: below with divisors that are not
        a, b = pair(peer, (3, 4), dtype, layout, 1, lo=low)
        c, d = pair(peer, (3, 4), dtype, "contiguous" if layout != "empty" else "empty", 2, lo=low)
        both(peer, name, ([a, c], [b, d]))


@pytest.mark.parametrize("left", DTYPES)
@pytest.mark.parametrize("right", DTYPES)
def test_promotion(peer, left, right):
    for name in ("add", "multiply", "where", "concatenate", "divide", "equal"):
        a, b = pair(peer, (3,), left, "contiguous", 1)
        c, d = pair(peer, (3,), right, "contiguous", 2, lo=1)
        if name == "divide" and "complex64" in (left, right):
            continue  # zero divisors
        if name == "concatenate":
            both(peer, name, ([[a, c]], [[b, d]]))
        elif name == "where":
            both(peer, name, ([ip.array([True, False, True]), a, c], [peer.array([True, False, True]), b, d]))
        else:
            both(peer, name, ([a, c], [b, d]))


@pytest.mark.parametrize("scalar", [True, 2, -3, 2.5, 1j, 0])
@pytest.mark.parametrize("name", "add subtract multiply divide maximum equal less power".split())
def test_weak_scalars(peer, name, scalar):
    for dtype in DTYPES:
        if isinstance(scalar, complex) and name in ("maximum", "less", "power"):
            continue
        if name == "power" and (scalar == -3 or dtype == "complex64" or scalar == 0):
            continue
        if scalar == 0 and name == "divide":
            continue
        a, b = pair(peer, (4,), dtype, "contiguous", 1, lo=1)
        if dtype.startswith("u") and scalar == -3:
            continue  # the peer refuses comparisons, too
        both(peer, name, ([a, scalar], [b, scalar]))
        if name != "power":
            both(peer, name, ([scalar, a], [scalar, b]))


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in ("empty", "scalar")])
@pytest.mark.parametrize("name", REDUCE)
def test_reductions(peer, name, layout):
    for dtype in DTYPES:
        if dtype == "complex64" and name in ("median", "logsumexp", "max", "min"):
            continue
        if name == "mean" and dtype.startswith("uint"):
            continue
        if name == "logsumexp" and (dtype == "bool_" or dtype.startswith("uint")):
            continue  # the peer subtracts the maximum in the array's dtype, which wraps
        a, b = pair(peer, (3, 4), dtype, layout, 1)
        for kw in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}, {"axis": ()}, {"axis": 5}):
            if name in ("median",) and kw.get("axis") == ():
                continue
            both(peer, name, ([a], [b]), kw, scale=4)


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in ("empty", "scalar")])
@pytest.mark.parametrize("name", SCAN)
def test_scans(peer, name, layout):
    for dtype in DTYPES:
        if dtype == "complex64" or (name == "logcumsumexp" and dtype not in FLOATS):
            continue
        if name == "cumprod" and dtype in ("float16", "bfloat16"):
            continue  # the peer rounds after each product
        if name == "cumsum" and dtype in ("float16", "bfloat16"):
            continue
        if dtype == "bool_" and name in ("cumprod", "cummax", "cummin"):
            continue
        a, b = pair(peer, (3, 4), dtype, layout, 1)
        for kw in ({}, {"axis": 0}, {"axis": -1, "reverse": True}, {"axis": 1, "inclusive": False}):
            both(peer, name, ([a], [b]), kw, scale=4)


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in ("empty", "scalar")])
@pytest.mark.parametrize("name", SORT)
def test_sorts(peer, name, layout):
    for dtype in DTYPES:
        if dtype == "complex64":
            continue
        a, b = pair(peer, (5, 6), dtype, layout, 1)
        for axis in (0, -1, None):
            if name == "softmax" and dtype in ("float16", "bfloat16"):
                continue  # the peer accumulates in half
            if name == "softmax" and (dtype == "bool_" or "int" in dtype):
                continue  # the peer keeps such dtypes where we give float32
            both(peer, name, ([a], [b]), {"axis": axis})


SHAPES = [
    ("reshape", ((2, 6),), {}),
    ("reshape", ((-1,),), {}),
    ("flatten", (), {}),
    ("flatten", (), {"start_axis": 1}),
    ("expand_dims", (1,), {}),
    ("expand_dims", ((0, 2),), {}),
    ("transpose", (), {}),
    ("transpose", ((1, 0),), {}),
    ("swapaxes", (0, 1), {}),
    ("moveaxis", (0, 1), {}),
    ("broadcast_to", ((2, 3, 4),), {}),
    ("tile", ((2, 1),), {}),
    ("repeat", (2,), {}),
    ("repeat", (2,), {"axis": 1}),
    ("roll", (1,), {}),
    ("roll", (1, 0), {}),
    ("roll", ((1, 2), (0, 1)), {}),
    ("flip", (), {}),
    ("pad", (1,), {}),
    ("pad", (((1, 0), (0, 2)),), {"constant_values": 1}),
    ("pad", (1,), {"mode": "edge"}),
    ("split", (2,), {"axis": 1}),
    ("split", ([1, 3],), {"axis": 1}),
    ("unflatten", (1, (2, 2)), {}),
    ("tril", (), {}),
    ("triu", (1,), {}),
    ("diag", (), {}),
    ("diagonal", (), {}),
    ("trace", (), {}),
    ("diff", (), {}),
    ("topk", (4,), {}),
    ("zeros_like", (), {}),
    ("ones_like", (), {}),
    ("squeeze", (), {}),
    ("atleast_3d", (), {}),
    ("as_strided", ((2, 2), (1, 2)), {}),
    ("unstack", (), {}),
    ("contiguous", (), {}),
    ("count_nonzero", (), {"axis": 0}),
    ("nan_to_num", (), {}),
]


@pytest.mark.parametrize("layout", [x for x in LAYOUTS if x not in ("empty", "scalar")])
@pytest.mark.parametrize("case", range(len(SHAPES)))
def test_shapes(peer, case, layout):
    name, args, kw = SHAPES[case]
    for dtype in DTYPES:
        if name == "topk":
            continue  # no promised order; below
        if name == "nan_to_num" and dtype == "complex64":
            continue  # the peer has none
        if name == "diff" and dtype == "bool_":
            continue
        a, b = pair(peer, (3, 4), dtype, layout, 1)
        if name == "as_strided" and layout in ("broadcast", "reversed"):
            continue
        both(peer, name, ([a, *args], [b, *args]), kw)


def test_topk(peer):
    for dtype in DTYPES[1:-1]:
        a, b = pair(peer, (3, 9), dtype, "contiguous", 1)
        for axis in (0, -1):
            same(ip.sort(ip.topk(a, 2, axis=axis), axis=axis), peer.sort(peer.topk(b, 2, axis=axis), axis=axis))


INDICES = [
    "0", "-1", "(1, 2)", "slice(None)", "slice(1, None)", "slice(None, None, 2)", "slice(None, None, -1)",
    "slice(3, 0, -2)", "slice(10, 20)", "None", "...", "(..., 0)", "(None, 1)", "(slice(None), None, 2)",
    "A([0, 2])", "A([-1, 0])", "(A([0, 1]), A([1, 2]))", "(slice(None), A([0, 1, 3]))", "(A([[0], [2]]), A([1, 3]))",
    "[0, 1]", "(0, slice(1, 3))", "(1, A([0, 1]))", "A(1)", "()", "(..., None)", "(A([0, 1]), slice(None))",
    "(A([0, 2]), None, 1)", "(slice(0, 2), A([0, 1]))", "(None, A([0, 1]), ..., None)",
]


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_indexing(peer, index, layout):
    for dtype in ("int32", "float16", "bool_", "complex64"):
        a, b = pair(peer, (3, 4), dtype, layout, 1)
        i, j = (eval(index, {"A": mx.array, "slice": slice}) for mx in (ip, peer))
        same(a[i], b[j], what=f"x[{index}]")
        if dtype == "bool_" and index in ("...", "None"):
            continue  # the peer changes the dtype
        a[i], b[j] = 1, 1
        same(a, b, what=f"x[{index}] = 1")
        v, w = a[i] * 2, b[j] * 2
        try:
            b[j] = w
        except ValueError:
            continue  # with new axes the peer refuses some values
        a[i] = v
        same(a, b, what=f"x[{index}] = v")
        if dtype in ("int32", "float16"):
            for op in ("add", "subtract", "multiply", "maximum", "minimum"):
                same(getattr(a.at[i], op)(2), getattr(b.at[j], op)(2), what=f"at[{index}].{op}")


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_products(peer, shape, dtype):
    a, b = pair(peer, shape, dtype, "contiguous", 1)
    c, d = pair(peer, (4, 5), dtype, "transposed", 2)
    both(peer, "matmul", ([a, c], [b, d]), scale=4)
    both(peer, "tensordot", ([a, c, 1], [b, d, 1]), scale=4)
    both(peer, "inner", ([a, c.T], [b, d.T]), scale=4)
    both(peer, "einsum", (["...ij,jk->...ik", a, c], ["...ij,jk->...ik", b, d]), scale=4)
    both(peer, "kron", ([a, c], [b, d]))
    both(peer, "outer", ([a, c], [b, d]))
    both(peer, "addmm", ([ip.ones((5,)), a, c, 0.5, 2.0], [peer.ones((5,)), b, d, 0.5, 2.0]), scale=4)


@pytest.mark.parametrize("mode,group,bits", [
    ("affine", 32, 2), ("affine", 32, 3), ("affine", 64, 4), ("affine", 64, 5), ("affine", 32, 6), ("affine", 128, 8),
    ("mxfp4", 32, 4), ("mxfp8", 32, 8), ("nvfp4", 16, 4),
])
def test_quantization(peer, mode, group, bits):
    kw = {"group_size": group, "bits": bits, "mode": mode}
    for dtype in FLOATS:
        a, b = pair(peer, (8, 128), dtype, "contiguous", 1)
        p, q = ip.quantize(a, **kw), peer.quantize(b, **kw)
        assert len(p) == len(q)
        for x, y in zip(p, q):
            same(x, y)
        p, q = ip.quantize(a, **kw), peer.quantize(b, **kw)
        same(ip.dequantize(*p, **kw), peer.dequantize(*q, **kw))
        x, y = pair(peer, (3, 128), dtype, "contiguous", 2)
        same(ip.quantized_matmul(x, *p, **kw), peer.quantized_matmul(y, *q, **kw), scale=64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fast(peer, dtype):
    x, y = pair(peer, (2, 4, 3, 8), dtype, "contiguous", 1)
    w, v = pair(peer, (8,), dtype, "contiguous", 2)
    same(ip.fast.rms_norm(x, w, 1e-5), peer.fast.rms_norm(y, v, 1e-5), 4)
    same(ip.fast.layer_norm(x, w, w, 1e-5), peer.fast.layer_norm(y, v, v, 1e-5), 4)
    for traditional in (True, False):
        for offset in (0, 7):
            kw = {"traditional": traditional, "base": 10000.0, "scale": 1.0, "offset": offset}
            same(ip.fast.rope(x, 8, **kw), peer.fast.rope(y, 8, **kw), 4)
    for mask in (None, "causal"):
        same(
            ip.fast.scaled_dot_product_attention(x, x[:, :2], x[:, :2], scale=0.3, mask=mask),
            peer.fast.scaled_dot_product_attention(y, y[:, :2], y[:, :2], scale=0.3, mask=mask), 4)


def test_conv(peer):
    for groups in (1, 2):
        x, y = pair(peer, (2, 9, 4), "float32", "contiguous", 1)
        w, v = pair(peer, (6, 3, 4 // groups), "float32", "contiguous", 2)
        for kw in ({}, {"stride": 2}, {"padding": 1}, {"dilation": 2}):
            both(peer, "conv1d", ([x, w], [y, v]), {**kw, "groups": groups}, scale=4)


def test_random(peer):
    for mx in (ip, peer):
        mx.random.seed(7)
    for name, args in [("uniform", ()), ("normal", ()), ("gumbel", ()), ("laplace", ())]:
        same(getattr(ip.random, name)(shape=(3, 5)), getattr(peer.random, name)(shape=(3, 5)), what=name)
    same(ip.random.randint(0, 10, (7,)), peer.random.randint(0, 10, (7,)))
    same(ip.random.bernoulli(0.3, (9,)), peer.random.bernoulli(0.3, (9,)))
    same(ip.random.permutation(9), peer.random.permutation(9))
    same(ip.random.categorical(ip.zeros((3, 5))), peer.random.categorical(peer.zeros((3, 5))))
    same(ip.random.split(ip.random.key(3), 4), peer.random.split(peer.random.key(3), 4))
    same(ip.random.state[0], peer.random.state[0])


def test_multivariate_normal(peer):
    """The square root of a covariance is unique, so draws are the peer's; for a singular one too."""
    for cov in ([[2.0, 0.5], [0.5, 1.0]], [[2.0, 2.0], [2.0, 2.0]], [[0.0, 0.0], [0.0, 3.0]]):
        for shape in ((), (3,), (2, 3)):
            a, b = (
                mx.random.multivariate_normal(
                    mx.array([1.0, 2.0]), mx.array(cov), shape, key=mx.random.key(3)) for mx in (ip, peer))
            same(a, b, 64, f"{cov} {shape}")
    for wrong in ((ip.zeros((3,)), ip.eye(2)), (ip.zeros(()), ip.eye(2)), (ip.zeros((2,)), ip.zeros((2,)))):
        with pytest.raises(ValueError):
            ip.random.multivariate_normal(*wrong)


def test_eigh(peer):
    a, b = pair(peer, (3, 6, 6), "float32", "contiguous", 5)
    for uplo in "LU":
        w, v = ip.linalg.eigh(a, uplo)
        same(w, peer.linalg.eigh(b, uplo, stream=peer.cpu)[0], 64)
        same(ip.linalg.eigvalsh(a, uplo), w)
        near, far = (ip.tril(a), ip.tril(a, -1)) if uplo == "L" else (ip.triu(a), ip.triu(a, 1))
        symmetric = near + far.swapaxes(-1, -2)
        assert ip.allclose(symmetric @ v, v * w[:, None], atol=1e-4).item()
        assert ip.allclose(v.swapaxes(-1, -2) @ v, ip.broadcast_to(ip.eye(6), (3, 6, 6)), atol=1e-5).item()
    with pytest.raises(ValueError):
        ip.linalg.eigh(a, "X")


def test_gather_qmm_with_a_scale_for_each_matrix(peer):
    w, x = ip.random.normal((3, 8, 64)), ip.random.normal((2, 1, 64))
    scales = ip.abs(w).max(axis=(1, 2))
    parts = [ip.quantize(w[i], mode="nvfp4", global_scale=scales[i]) for i in range(3)]
    q, s = (ip.stack([p[k] for p in parts]) for k in (0, 1))
    got = ip.gather_qmm(x, q, s, rhs_indices=ip.array([2, 0]), mode="nvfp4", global_scale=scales)
    dense = [ip.dequantize(*parts[i], mode="nvfp4", global_scale=scales[i], dtype=ip.float32) for i in (2, 0)]
    assert ip.allclose(got, x @ ip.stack(dense).swapaxes(-1, -2), rtol=1e-4, atol=1e-4).item()
    with pytest.raises(ValueError):
        ip.gather_qmm(x, q, s, rhs_indices=ip.array([2, 0]), mode="nvfp4", global_scale=scales[0])


def test_complex_nan_is_neither_above_nor_below(peer):
    nan = float("nan")
    values = [complex(nan, nan), complex(nan, 1), complex(1, nan), 0j, 1 + 2j, 1 - 2j]
    for name in ("greater", "greater_equal", "less", "less_equal", "equal", "maximum", "minimum"):
        for a in values:
            for b in values:
                got, want = (getattr(m, name)(m.array(a), m.array(b)).item() for m in (ip, peer))
                assert repr(got) == repr(want), (name, a, b)


def test_complex_branch_cuts_and_quotients(peer):
    """On a cut the sign of a zero says from which side it is approached."""
    parts = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0]
    values = [complex(re, im) for re in parts for im in parts]
    for name in ("arcsin", "arccos", "arctanh", "arcsinh", "arctan", "sqrt", "log"):
        a, b = getattr(ip, name)(ip.array(values)), getattr(peer, name)(peer.array(values))
        for x, y, z in zip(a.tolist(), b.tolist(), values):
            finite = cmath.isfinite(y)
            assert finite == cmath.isfinite(x) and (not finite or abs(x - y) < 1e-5), f"{name}({z}): {x} for {y}"
    inf = float("inf")
    for top in (1 + 1j, 0j, -2 + 0j, 3j):
        for bottom in (complex(inf, 0), complex(0, -inf), complex(inf, inf), 0j, complex(-0.0, 0.0)):
            a = (ip.array([top]) / ip.array([bottom])).tolist()[0]
            b = (peer.array([top]) / peer.array([bottom])).tolist()[0]
            for x, y in ((a.real, b.real), (a.imag, b.imag)):
                assert x == y or (x != x and y != y), f"{top} / {bottom}: {a} for {b}"


def test_bounds_of_slices():
    import numpy as np

    class Two:
        def __index__(self):
            return 2

    x, y = ip.arange(9), list(range(9))
    far = 2**70
    for s in (slice(Two(), None), slice(None, np.int64(5)), slice(-far, far), slice(far, -far, -1), slice(None, None, -3),
              slice(5, None, -2), slice(None, 3, -1), slice(True, 4), slice(-3, None), slice(None, -far, -1)):
        assert x[s].tolist() == y[s], str(s)
    for s in (slice(None, ip.array(3)), slice(1.0, None), slice("a", None), slice(None, None, 0), slice(ip.array(1), 4)):
        with pytest.raises(ValueError):
            x[s]
    f = ip.compile(lambda x, n: x[n : n + 2], scalars="symbolic")
    assert [f(x, n).tolist() for n in (1, 2, 5)] == [[1, 2], [2, 3], [5, 6]] and f.cache_info().traces == 1

"""compile from Python: scalars, guards, captured state, life and death, warnings."""

import enum
import gc
import threading
import warnings
import weakref
from collections import namedtuple

import isopace
import isopace.core as mx
import pytest


def traced(f, **options):
    """The function compiled, and how often it was traced."""
    count = []

    def body(*args, **kwargs):
        count.append(1)
        return f(*args, **kwargs)

    return mx.compile(body, **options), count


def test_every_value_after_two_traces():
    f, n = traced(lambda x, k: x * 2 + k)
    x = mx.arange(3)
    for k in range(100):
        assert f(x, k).tolist() == [k, k + 2, k + 4]
    assert len(n) == 2
    for k in (0.5, 1.5, -0.0):
        assert f(x, k).dtype == mx.float32
    assert len(n) == 4


@pytest.mark.parametrize("body", [
    lambda x, n: x * (n // 2) + n % 3 - (-n) + abs(n - 5),
    lambda x, n: x + n / 4,
    lambda x, n: x + n**2,
    lambda x, n: x + max(n, 3) * min(n, 7),
    lambda x, n: x * 2 if n > 4 else x + n,
    lambda x, n: x if n == 3 else x * n,
    lambda x, n: x[n % 4],
    lambda x, n: x[n % 3 : n % 3 + 2],
    lambda x, n: mx.roll(x, n),
    lambda x, n: mx.full((3,), n),
    lambda x, n: mx.array(n) + x,
    lambda x, n: x + sum(range(n)),
    lambda x, n: x + int(n) + float(n) + hash(n),
    lambda x, n: x + len(f"{n}"),
    lambda x, n: x + (n & 3) + (n << 1) + (n ^ 5),
    lambda x, n: x + divmod(n, 3)[0] + divmod(n, 3)[1],
    lambda x, n: x + round(n / 3, 1),
    lambda x, n: x + n.bit_length(),
    lambda x, n: x + [5, 6, 7][n % 3],
    lambda x, n: x + {True: 1, False: 2}[n > 3],
    lambda x, n: x + (1 if isinstance(n, int) else 2),
    lambda x, n: x + (n if n else 9),
    lambda x, n: mx.where(mx.arange(4) < n, x, 0),
    lambda x, n: x - n,
    lambda x, n: n - x,
    lambda x, n: mx.add(n, x),
    lambda x, n: x.reshape(2, 2) * n if n != 2 else x,
    lambda x, n: x + ~n,
    lambda x, n: (x * n, n + 1),
    lambda x, n: x + (n > 2) + (n == 3),
    lambda x, n: x[: n % 4 + 1].sum(),
])
def test_symbolic_equals_plain(body):
    f, g = mx.compile(body), mx.compile(body, scalars="static")
    x = mx.array([1, 2, 3, 4])
    for n in [0, 1, 2, 3, 4, 5, 6, 7, 3, 11, 2]:
        want = body(x, n)
        for h in (f, g):
            got = h(x, n)
            if isinstance(want, tuple):
                assert got[0].tolist() == want[0].tolist() and got[1] == want[1] and type(got[1]) is int
            else:
                assert got.dtype == want.dtype and got.tolist() == want.tolist(), n


def test_floats():
    body = lambda x, s: (x * s, x / s, x + s * 3, x if s > 1.5 else -x, x + int(s))  # noqa: E731
    f, x = mx.compile(body), mx.array([1.0, 2.0])
    for s in (0.5, 1.5, 2.5, 1 / 3, 1e-3):
        assert [a.tolist() for a in f(x, s)] == [a.tolist() for a in body(x, s)]


def test_errors_are_the_functions_own():
    def f(x, n):
        if n == 3:
            raise KeyError("three")
        return x / (n // n)

    g = mx.compile(f)
    x = mx.array(1.0)
    assert g(x, 1).item() == 1.0 and g(x, 2).item() == 1.0
    with pytest.raises(KeyError):
        g(x, 3)
    with pytest.raises(ZeroDivisionError):
        g(x, 0)
    assert g(x, 4).item() == 1.0


def test_arguments():
    f = mx.compile(lambda *a, **k: mx.array(len(a) + len(k)))
    Point = namedtuple("Point", "x y")
    for ok in (1, 1.0, True, None, "s", [mx.array(1), [2]], (1,), {"a": 1, "b": [mx.array(2)]}, Point(1, mx.array(2))):
        f(ok)
        f(k=ok)
    for bad in (object(), {1, 2}, b"x", 1j, mx.float32, slice(0, 1), lambda: 0):
        with pytest.raises(ValueError, match="argument 1"):
            f(1, bad)
        with pytest.raises(ValueError, match="argument mode"):
            f(1, mode=bad)
    with pytest.raises(OverflowError):
        f(2**70)
    g = mx.compile(lambda p: p.x + p.y)
    assert g(Point(1, mx.array(2))).item() == 3


def test_enums_and_modes():
    class Mode(enum.IntEnum):
        A = 1
        B = 2

    f = mx.compile(lambda x, m: x + 1 if m is Mode.A else x + 2)
    assert f(mx.array(0), Mode.A).item() == 1 and f(mx.array(0), Mode.B).item() == 2


def test_structure_is_in_the_key():
    f = mx.compile(lambda t: t[0][0] * 10 if isinstance(t[0], list) and len(t) == 2 else mx.array(1))
    assert f([[mx.array(1)], mx.array(2)]).item() == 10
    assert f([[mx.array(1), mx.array(2)]]).item() == 1
    g = mx.compile(lambda x, n: x + n)
    assert g(mx.array(1), 0).dtype == mx.int32
    assert g(mx.array(1), 0.0).dtype == mx.float32
    assert g(mx.array(True), True).dtype == mx.bool_
    assert g(mx.array(True), 1).dtype == mx.int32


def test_results():
    f = mx.compile(lambda x: {"a": x, "b": [x + 1, "text", None, 3], "c": (x,)})
    r = f(mx.array(1))
    assert r["a"].item() == 1 and r["b"][0].item() == 2 and r["b"][1:] == ["text", None, 3] and r["c"][0].item() == 1
    assert f(mx.array(2))["b"] is not r["b"]


def test_captured_state():
    state = {"w": mx.array(1.0), "n": 2, "log": []}

    def step(x):
        state["w"] = state["w"] + x * state["n"]
        return state["w"] * 10

    f = mx.compile(step, inputs=state, outputs=state)
    assert f(mx.array(1.0)).item() == 30 and state["w"].item() == 3
    assert f(mx.array(1.0)).item() == 50 and state["w"].item() == 5
    state["n"] = 0
    assert f(mx.array(1.0)).item() == 50
    state["w"] = mx.array(100.0)
    assert f(mx.array(1.0)).item() == 1000


def test_state_without_outputs_is_as_it_was():
    state = [mx.array(1.0)]

    def step(x):
        state[0] += x
        state.append(x)
        return state[0]

    f = mx.compile(step, inputs=state)
    assert f(mx.array(2.0)).item() == 3 and state[0].item() == 1 and len(state) == 1
    assert f(mx.array(3.0)).item() == 4 and state[0].item() == 1


def test_state_after_an_error():
    state = {"w": mx.array(1.0)}

    def step(x):
        state["w"] = x + 1
        state["new"] = x
        raise KeyError("boom")

    f = mx.compile(step, inputs=state, outputs=state)
    with pytest.raises(KeyError):
        f(mx.array(5.0))
    assert state.keys() == {"w"} and state["w"].item() == 1


def test_random_state():
    f = mx.compile(lambda: mx.random.uniform(), inputs=mx.random.state, outputs=mx.random.state)
    g = mx.compile(lambda: mx.random.uniform())
    assert len({f().item() for _ in range(5)}) == 5 and len({g().item() for _ in range(5)}) == 5
    mx.random.seed(42)
    a = f().item()
    mx.random.seed(42)
    assert f().item() == a


def test_bound_methods_are_collected():
    class M:
        def __init__(self):
            self.w = mx.array(2.0)
            self.step = mx.compile(self._step)

        def _step(self, x):
            return x * self.w

    m = M()
    assert m.step(mx.array(3.0)).item() == 6
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_values_inside_a_trace():
    for read in (lambda x: x.item(), bool, int, repr, lambda x: x.tolist(), mx.eval):
        with pytest.raises(ValueError, match="compile"):
            mx.compile(lambda x, read=read: read(x))(mx.array(1))


def test_accounts():
    f = mx.compile(lambda x, n: x + len("a" * n))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in range(40):
            f(mx.array(1), n)
    assert len(told) == 1 and told[0].category is isopace.RecompileWarning and "args[1]" in str(told[0].message)
    text = f.explain()
    assert "args[1]" in text and "test_compile.py:" in text and "static" in text
    info = f.cache_info()
    assert info.traces >= 40 and info.hits == 0 and info.entries <= 64
    f.clear_cache()
    assert f.cache_info().entries == 0


@pytest.mark.parametrize("body, traces", [
    (lambda x: mx.exp(x) * 2 + 1, 1),
    (lambda x: x - x.max(axis=-1, keepdims=True), 1),
    (lambda x: mx.softmax(x, axis=-1).sum(), 1),
    (lambda x: mx.matmul(x, x.T), 1),
    (lambda x: x.swapaxes(0, 1) @ x, 1),
    (lambda x: mx.concatenate([x, x], axis=1), 1),
    (lambda x: mx.stack([x, -x]), 1),
    (lambda x: mx.sort(x, axis=0), 1),
    (lambda x: x.reshape(-1) + 1, 1),
    (lambda x: mx.flatten(x).cumsum(), 1),
    (lambda x: mx.fast.rms_norm(x, None, 1e-5), 1),
    (lambda x: mx.expand_dims(x, 1).squeeze(1), 1),
    (lambda x: x.argmax(axis=1) if x.ndim == 2 else x, 1),
    (lambda x: mx.where(x > 1, x.astype(mx.float16), 0), 1),
    (lambda x: x * x.shape[0], 4),
    (lambda x: x + x.size, 4),
    (lambda x: x + len(x), 4),
    (lambda x: x.mean(axis=0), 4),
    (lambda x: mx.ones(x.shape) + x, 4),
    (lambda x: x[1:], 4),
    (lambda x: mx.arange(x.shape[0]).sum() * x, 4),
    (lambda x: sum(row for row in x), 4),
])
def test_shapeless_follows_extents_or_traces_again(body, traces):
    f, n = traced(body, shapeless=True)
    for shape in [(2, 3), (5, 3), (4, 4), (2, 7)] * 2:
        x = mx.arange(shape[0] * shape[1], dtype=mx.float32).reshape(shape) * 0.5
        want, got = body(x), f(x)
        assert got.shape == want.shape and got.dtype == want.dtype and mx.array_equal(got, want).item()
    assert len(n) == f.cache_info().traces == traces
    assert f.cache_info().reshaped == 4 - traces


def test_shapeless_traces_anew_for_another_rank_or_dtype():
    y = mx.array(1)
    f, n = traced(lambda x: x + y, shapeless=True)
    f(mx.array([1, 2]))
    y = mx.array(2)
    assert f(mx.array([1, 2, 3])).tolist() == [2, 3, 4] and len(n) == 1
    assert f(mx.array([1.0, 2.0])).tolist() == [3.0, 4.0] and len(n) == 2
    assert f(mx.array([[1, 2]])).tolist() == [[3, 4]] and len(n) == 3


def test_wrapper():
    def body(x):
        """Doc."""
        return x

    body.mark = 7
    f = mx.compile(body)
    assert f.__name__ == "body" and f.__doc__ == "Doc." and f.mark == 7
    with pytest.raises(AttributeError):
        f.x = 1
    for bad in (3, "f"):
        with pytest.raises(TypeError):
            mx.compile(bad)
    with pytest.raises(TypeError):
        mx.compile(shapeless=True)


def test_nested_and_reentrant():
    inner = mx.compile(lambda x, n: x * n + 1)
    outer = mx.compile(lambda x, n: inner(x, n) + inner(x, n + 1))
    for n in range(6):
        assert outer(mx.array(2), n).item() == 2 * n + 1 + 2 * (n + 1) + 1

    def fact(x, n):
        return x if n <= 1 else f(x * n, n - 1)

    f = mx.compile(fact)
    for n in (3, 5, 4, 1):
        assert f(mx.array(1), n).item() == [1, 1, 2, 6, 24, 120][n]


def test_threads_share_traces():
    f, n = traced(lambda x: mx.exp(x) + 1)
    threads = [threading.Thread(target=lambda: f(mx.ones(4)).tolist()) for _ in range(20)]
    [t.start() for t in threads]
    [t.join(30) for t in threads]
    assert not any(t.is_alive() for t in threads) and len(n) == 1


def test_disable():
    f, n = traced(lambda x: x + 1)
    mx.disable_compile()
    try:
        f(mx.array(1)), f(mx.array(1))
        assert len(n) == 2
        with pytest.raises(ValueError):
            f(object())
    finally:
        mx.enable_compile()
    f(mx.array(1)), f(mx.array(1))
    assert len(n) == 3


def test_kv_cache_decode_is_one_trace():
    def step(keys, values, q, n):
        keys = mx.concatenate([keys], axis=2)
        keys[..., n : n + 1, :] = q
        values[..., n : n + 1, :] = q * 2
        return mx.fast.scaled_dot_product_attention(q, keys[..., : n + 1, :], values[..., : n + 1, :], scale=0.5)

    f, count = traced(step)
    k = v = mx.zeros((1, 2, 16, 4))
    for n in range(10):
        q = mx.ones((1, 2, 1, 4)) * n
        assert mx.allclose(f(k, v, q, n), step(k * 1, v * 1, q, n)).item()
    assert len(count) == 2

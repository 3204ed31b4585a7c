"""Fourier transforms against the peer's and NumPy's."""

import itertools

import isopace.core as mx
import numpy as np
import pytest

ONE = ["fft", "ifft", "rfft", "irfft"]
SIZES = [1, 2, 3, 4, 5, 8, 13, 30, 97, 128, 1000]


def numbers(shape, dtype="complex64", seed=0):
    r = np.random.default_rng(seed)
    x = r.standard_normal(shape) + (1j * r.standard_normal(shape) if dtype == "complex64" else 0)
    return (x * 4).astype(dtype)


def close(a, b, what):
    b = np.array(b)
    assert a.shape == b.shape and str(a.dtype).split(".")[-1] == str(b.dtype), what
    scale = max(1.0, float(np.abs(b).max(initial=0)))
    np.testing.assert_allclose(np.array(a), b, atol=3e-6 * scale, rtol=0, err_msg=what)


@pytest.mark.parametrize("name", ONE)
def test_every_size(name):
    for n in SIZES:
        x = numbers((3, n), "float32" if name == "rfft" else "complex64")
        for norm in ("backward", "ortho", "forward"):
            if n > 1 or name != "irfft":
                want = getattr(np.fft, name)(x.astype(x.dtype.str.replace("f4", "f8").replace("c8", "c16")), norm=norm)
                want = want.astype("float32" if name == "irfft" else "complex64")
                close(getattr(mx.fft, name)(mx.array(x), norm=norm), want, f"{name} of {n}, {norm}")


@pytest.mark.parametrize("name", ONE)
def test_layouts_lengths_and_dtypes_as_on_the_peer(name, peer):
    ours, theirs = getattr(mx.fft, name), getattr(peer.fft, name)
    views = [lambda a: a, lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1], lambda a: a[0]]
    for dtype, view, n in itertools.product(
        ["bool", "int32", "float16", "float32", "complex64"], views, [None, 1, 3, 6, 11]
    ):
        x = np.abs(numbers((4, 6), "float32")).astype(dtype)
        close(ours(view(mx.array(x)), n), theirs(view(peer.array(x)), n), f"{name} of {dtype}, n={n}")
    x = numbers((3, 4, 5))
    for axis in (0, 1, 2, -1, -3):
        close(ours(mx.array(x), axis=axis), theirs(peer.array(x), axis=axis), f"{name}, axis {axis}")
    broadcast = mx.broadcast_to(mx.array([1.0, 2.0, 3.0]), (2, 3))
    close(ours(broadcast), theirs(peer.broadcast_to(peer.array([1.0, 2.0, 3.0]), (2, 3))), name)
    close(ours(mx.zeros((0, 4))), theirs(peer.zeros((0, 4))), f"{name} of no rows")


@pytest.mark.parametrize("name", ONE)
def test_several_axes_as_on_the_peer(name, peer):
    x = numbers((4, 5, 6), "float32" if name == "rfft" else "complex64")
    calls = [(name + "n", None, None), (name + "2", None, "default")]
    for axes in ([0], [1, 2], [2, 0], [-1, 0, 1], []):
        calls.append((name + "n", None, axes))
        if axes:
            calls.append((name + "n", [3, 7, 2][: len(axes)], axes))
    for (f, s, axes), norm in itertools.product(calls, ("backward", "ortho", "forward")):
        keywords = {"norm": norm} | ({} if axes == "default" else {"s": s, "axes": axes})
        got, want = (getattr(m.fft, f)(m.array(x), **keywords) for m in (mx, peer))
        close(got, want, f"{f}, {keywords}")


def test_there_and_back():
    x = mx.array(numbers((7, 9), "float32"))
    assert mx.allclose(mx.real(mx.fft.ifft(mx.fft.fft(x))), x, atol=1e-5)
    assert mx.allclose(mx.fft.irfft(mx.fft.rfft(x), 9), x, atol=1e-5)
    assert mx.allclose(mx.fft.irfftn(mx.fft.rfftn(x), [7, 9], [0, 1]), x, atol=1e-5)
    f = mx.compile(lambda a: mx.fft.fft(a * 2))
    assert mx.allclose(mx.abs(f(x) - mx.fft.fft(x * 2)), mx.zeros(x.shape), atol=1e-5)


def test_shifts_and_frequencies_as_on_the_peer(peer):
    for n, d in itertools.product([1, 2, 5, 8], [1.0, 0.5, 3]):
        for f in ("fftfreq", "rfftfreq"):
            close(getattr(mx.fft, f)(n, d), getattr(peer.fft, f)(n, d), f"{f}({n}, {d})")
    for f, axes in itertools.product(("fftshift", "ifftshift"), (None, [0], [1], [0, -1])):
        got, want = (getattr(m.fft, f)(m.arange(30).reshape(5, 6), axes) for m in (mx, peer))
        assert np.array_equal(np.array(got), np.array(want)), (f, axes)


def test_refusals():
    x = mx.ones((2, 3))
    for bad in (
        lambda: mx.fft.fft(x, 0), lambda: mx.fft.fft(x, -1), lambda: mx.fft.fft(x, norm="x"),
        lambda: mx.fft.irfft(mx.ones((1,))), lambda: mx.fft.fftn(x, [2]), lambda: mx.fft.fftn(x, [2], [0, 1]),
        lambda: mx.fft.fftn(x, axes=[0, 0]), lambda: mx.fft.fftn(mx.array(1.0)), lambda: mx.fft.fft(mx.array([])),
        lambda: mx.fft.fftfreq(0),
    ):
        with pytest.raises(ValueError, match=r"\[(i?r?fft|fftfreq)\]"):
            bad()
    for bad in (lambda: mx.fft.fft(x, axis=2), lambda: mx.fft.fft2(mx.ones(3)), lambda: mx.fft.fftshift(x, [2])):
        with pytest.raises(IndexError):
            bad()

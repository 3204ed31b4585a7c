"""The array class: construction, printing, protocols, aliasing, errors."""

import copy
import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import isopace.core as mx
import numpy as np
import pytest


def test_construction():
    assert mx.array(1).dtype == mx.int32 and mx.array(1.0).dtype == mx.float32 and mx.array(True).dtype == mx.bool_
    assert mx.array(2**31).dtype == mx.int64 and mx.array(1j).dtype == mx.complex64
    assert mx.array([[1, 2], [3, 4.5]]).tolist() == [[1.0, 2.0], [3.0, 4.5]]
    assert mx.array([]).dtype == mx.float32 and mx.array([[], []]).shape == (2, 0)
    assert mx.array(2**64 - 1, mx.uint64).item() == 2**64 - 1
    for bad in ([[1], [1, 2]], [1, [2]], [[1], 2], "a", [None], range(3), {1}):
        with pytest.raises(ValueError):
            mx.array(bad)
    for too_large, dtype in ((300, mx.uint8), (-1, mx.uint32), (2**31, mx.int32)):
        with pytest.raises((ValueError, OverflowError)):
            mx.array(too_large, dtype)
    with pytest.raises((ValueError, OverflowError), match="64 bits"):
        mx.array(2**70)
    with pytest.raises(OverflowError, match="an int of 1329 bits"):
        mx.array(10**400)
    assert mx.array([mx.array([1, 2]), mx.array([3, 4])]).shape == (2, 2)


def test_a_nan_has_no_sign():
    for x in (mx.mean(mx.array([])), mx.array(0.0) / 0, mx.array(float("nan")), -mx.array(float("nan"))):
        assert repr(x) == "array(nan, dtype=float32)"


def test_an_index_past_any_array():
    for i in (10**30, -(10**30), 10**5000):
        with pytest.raises(IndexError, match="64"):
            mx.arange(3)[i]


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "complex64"])
def test_numpy_both_ways(dtype):
    n = np.arange(24).reshape(2, 3, 4).astype(dtype)
    for view in (n, n.T, n[:, ::2], n[::-1], np.broadcast_to(n[:1], n.shape)):
        a = mx.array(view)
        assert a.shape == view.shape and np.array_equal(np.array(a), view)
        assert np.array_equal(np.asarray(a.T), view.T)
        assert np.array_equal(np.from_dlpack(a), view)
        assert np.array_equal(np.array(mx.from_dlpack(np.ascontiguousarray(view))), view)
    assert mx.array(np.zeros(2)).dtype == mx.float32 and mx.array(np.zeros(2), mx.float64).dtype == mx.float64
    assert mx.array(np.arange(3, dtype=">i4")).tolist() == [0, 1, 2]


def test_a_view_keeps_its_buffer():
    a = mx.arange(8.0)
    n = np.asarray(a)
    assert n.flags.writeable
    for i in range(20):
        a += 1
        mx.eval(a)
    assert n.tolist() == list(range(8))
    m = memoryview(mx.array([[1, 2], [3, 4]]))
    assert m.shape == (2, 2) and m.tolist() == [[1, 2], [3, 4]]


def test_aliasing():
    x = mx.array([1, 2])
    y = x
    z = x[:]
    x += 1.5
    assert y is x and y.dtype == mx.float32 and z.tolist() == [1, 2]
    x[0] = 9
    assert y.tolist() == [9.0, 3.5]
    d = {x: 1}
    x += 1
    assert d[x] == 1
    a = mx.arange(6)
    a[1:] = a[:-1]
    assert a.tolist() == [0, 0, 1, 2, 3, 4]


def test_copies_and_pickles():
    for dtype in (mx.bfloat16, mx.float64, mx.complex64, mx.uint8):
        a = mx.array([1, 2, 3], dtype)
        b = pickle.loads(pickle.dumps(a))
        assert b.dtype == dtype and b.tolist() == a.tolist()
        c = copy.deepcopy(a)
        a[0] = 7
        assert c.tolist() == b.tolist()
    assert pickle.loads(pickle.dumps(mx.float16)) == mx.float16


def test_equality_and_truth():
    a = mx.array([1, 2])
    assert (a == None) is False and (a != None) is True and (a == [1, 2]) is False and (a != "a") is True  # noqa: E711
    with pytest.raises(TypeError):
        a + None
    for bad in (lambda: a + "x", lambda: a + [1], lambda: a < "x", lambda: bool(a), lambda: a.item()):
        with pytest.raises(ValueError):
            bad()
    assert (mx.array([1], mx.uint8) > -1).tolist() == [True] and (mx.array([1], mx.uint8) == 300).tolist() == [False]
    assert [1, 2, 3][mx.array(1)] == 2
    with pytest.raises(TypeError):
        [1, 2][mx.array(1.0)]


def test_out_of_range_is_an_error_or_defined():
    v = mx.arange(5)
    for bad in (lambda: v[5], lambda: v[-6], lambda: mx.arange(12).reshape(3, 4)[0, 4]):
        with pytest.raises(IndexError):
            bad()
    with pytest.raises(IndexError):
        v[7] = 1
    with pytest.raises(ValueError):
        v[::0]
    mx.eval(v[mx.array([100])], mx.take(v, mx.array([99])))
    v[mx.array([100])] = 3
    assert v.tolist() == [0, 1, 2, 3, 4]


def test_printing():
    assert repr(mx.array(1.0)) == "array(1, dtype=float32)"
    assert repr(mx.array([1 / 3, 1e10, 1e6, 100000.0])) == "array([0.333333, 1e+10, 1e+06, 100000], dtype=float32)"
    assert repr(mx.arange(7)) == "array([0, 1, 2, ..., 4, 5, 6], dtype=int32)"
    assert repr(mx.array([[1, 20], [3, 4]])) == "array([[1, 20],\n       [3, 4]], dtype=int32)"
    assert f"{mx.array(1.234):.2f}" == "1.23"
    with mx.printoptions(precision=2):
        assert repr(mx.array([1e4])) == "array([10000.00], dtype=float32)"


def test_failed_arrays_stay_failed():
    bad = mx.linalg.inv(mx.zeros((2, 2)))
    for _ in range(2):
        with pytest.raises(RuntimeError):
            bad.tolist()
    assert (mx.ones(2) + 1).tolist() == [2.0, 2.0]


def test_threads():
    a = mx.arange(1000.0)
    out = []

    def work(i):
        b = a * i + 1
        out.append((i, b.sum().item()))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert sorted(out) == [(i, i * 499500.0 + 1000) for i in range(8)]


def test_threads_draw_different_numbers():
    seen = []
    threads = [threading.Thread(target=lambda: seen.append(mx.random.uniform().item())) for _ in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(set(seen)) == 6


def test_self_holding_lists_are_refused():
    x = []
    x.append(x)
    with pytest.raises(ValueError):
        mx.eval(x)
    gc.collect()


def test_saving_over_a_loaded_file_leaves_its_arrays_alone(tmp_path):
    for suffix, save in (("safetensors", mx.save_safetensors), ("gguf", mx.save_gguf)):
        path = tmp_path / f"w.{suffix}"
        save(str(path), {"a": mx.arange(100_000), "b": mx.ones((100_000,))})
        path.chmod(0o640)
        w = mx.load(str(path))
        save(str(path), {"a": w["a"][:10] + 1})
        assert w["a"][-1].item() == 99_999 and mx.sum(w["b"]).item() == 100_000
        assert mx.load(str(path))["a"].tolist() == list(range(1, 11))
        assert path.stat().st_mode & 0o777 == 0o640 and [p.name for p in tmp_path.glob("*" + suffix)] == [path.name]
    x = mx.arange(1000)
    mx.save(str(tmp_path / "x.npy"), x)
    y = mx.load(str(tmp_path / "x.npy"))
    (tmp_path / "link.npy").symlink_to("x.npy")
    mx.save(str(tmp_path / "link.npy"), y + 1)
    assert y[0].item() == 0 and mx.load(str(tmp_path / "x.npy"))[0].item() == 1 and (tmp_path / "link.npy").is_symlink()
    with pytest.raises(RuntimeError):
        mx.save(str(tmp_path / "none" / "x.npy"), x)
    assert not list(tmp_path.glob(".saving*"))


def test_files(tmp_path):
    arrays = {"a": mx.arange(6).reshape(2, 3), "b": mx.array([1.5], mx.bfloat16), "c": mx.array([True]),
              "d": mx.array([1.0], mx.float64)}
    mx.save(str(tmp_path / "x"), arrays["a"].T)
    assert mx.load(str(tmp_path / "x.npy")).tolist() == arrays["a"].T.tolist()
    mx.savez(tmp_path / "z", arrays["a"], d=arrays["d"])
    z = mx.load(tmp_path / "z.npz")
    assert z.keys() == {"arr_0", "d"} and z["d"].dtype == mx.float64
    mx.savez_compressed(tmp_path / "y", e=arrays["a"])
    assert mx.load(tmp_path / "y.npz")["e"].shape == (2, 3)
    mx.save_safetensors(str(tmp_path / "s"), arrays, {"k": "v"})
    got, meta = mx.load(str(tmp_path / "s.safetensors"), return_metadata=True)
    assert meta == {"k": "v"} and all(mx.array_equal(got[k], arrays[k]).item() for k in arrays)
    with open(tmp_path / "s.safetensors", "rb") as f:
        assert mx.load(f)["b"].dtype == mx.bfloat16
    mx.save_gguf(str(tmp_path / "g"), {"w": mx.ones((2, 2))}, {"name": "n", "list": ["a", "b"], "n": mx.array(3)})
    got, meta = mx.load(str(tmp_path / "g.gguf"), return_metadata=True)
    assert got["w"].tolist() == [[1.0, 1.0]] * 2 and meta["list"] == ["a", "b"] and meta["n"].item() == 3
    for bad in ([1], np.zeros(2)):
        with pytest.raises(TypeError):
            mx.save(str(tmp_path / "bad"), bad)
    with pytest.raises(RuntimeError):
        mx.load(str(tmp_path / "missing.npy"))
    with pytest.raises(ValueError):
        mx.load(str(tmp_path / "x.txt"))


def test_the_rest_says_its_name():
    for f in (mx.grad, mx.linalg.svd, mx.fft.stft, mx.vmap):
        with pytest.raises(NotImplementedError, match=f.__name__):
            f(lambda x: x)
    assert mx.distributed.init().size() == 1 and not mx.metal.is_available() and not mx.is_available(mx.gpu)
    assert mx.cpu == mx.Device(mx.cpu) and mx.Device(mx.cpu) == mx.cpu and {mx.cpu: 1}[mx.Device(mx.cpu)] == 1
    with mx.stream(mx.new_stream(mx.cpu)):
        assert (mx.ones(2) + 1).tolist() == [2, 2]
    with pytest.raises(ValueError):
        mx.add(1, 2, stream=mx.gpu)


def many_steps(n):
    x = mx.ones((512, 512))
    for _ in range(500 * n):
        x = (x @ x) * 1e-3
    return x


def one_step(n):
    x = mx.ones((2000 * n, 2000))
    mx.eval(x)
    return x @ mx.ones((2000, 2000))


@pytest.mark.parametrize("work", [many_steps, one_step])
def test_ctrl_c_ends_an_evaluation(work):
    # A job started with & by a script inherits an ignored SIGINT. And this handler comes after the import.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def seconds(x, interrupt_at=None):
        start = time.perf_counter()
        if interrupt_at:
            threading.Timer(interrupt_at, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            mx.eval(x)
        except KeyboardInterrupt:
            return time.perf_counter() - start, True
        return time.perf_counter() - start, False

    try:
        seconds(work(1))
        whole, _ = seconds(work(2))
        part, interrupted = seconds(work(20), interrupt_at=whole / 2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert interrupted and part < 5 * whole, (part, whole)
    assert (mx.ones(2) + 1).tolist() == [2, 2]


def test_ctrl_c_in_the_last_step_leaves_the_next_evaluation_alone():
    program = """
import os, signal, threading
import isopace.core as mx
signal.signal(signal.SIGINT, signal.default_int_handler)
a = mx.ones((3000, 3000))
mx.eval(a)
threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    mx.eval(a @ a)
    while True:
        pass
except KeyboardInterrupt:
    print((mx.ones((3,)) + 1).sum().item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "6.0\n"), done.stderr
    with pytest.raises(ValueError, match="accepted: -1 to 65535"):
        mx.set_printoptions(precision=70000)

"""A group of one process."""

from .._isopace import array as _array


class Group:
    """A group of processes; here of one."""

    def rank(self):
        return 0

    def size(self):
        return 1

    def split(self, color, key=-1):
        raise RuntimeError("[distributed] a group of one process cannot be split")


_WORLD = Group()


def is_available(backend="any"):
    """False: no backend for several processes is there.

    >>> mx.distributed.is_available()
    False
    """
    return False


def init(strict=False, backend="any", *, all_gather_factory=None):
    """The group of all processes: this one.

    Raises RuntimeError when ``strict``, ValueError for an unknown backend.

    >>> mx.distributed.init().size()
    1
    """
    if backend not in ("any", "ring", "mpi", "nccl", "jaccl"):
        raise ValueError(f"[distributed] backend {backend!r}; accepted: any, ring, mpi, nccl, jaccl")
    if strict:
        raise RuntimeError("[distributed] no backend for several processes is there")
    return _WORLD


def _same(x):
    if not isinstance(x, _array):
        raise TypeError(f"[distributed] expected an mx.array, got {type(x)}")
    return x


def all_sum(x, *, group=None, stream=None):
    """The sum over processes: x.

    Raises TypeError for what is no array.

    >>> mx.distributed.all_sum(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    return _same(x)


def all_max(x, *, group=None, stream=None):
    """The largest over processes: x.

    Raises TypeError for what is no array.

    >>> mx.distributed.all_max(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    return _same(x)


def all_min(x, *, group=None, stream=None):
    """The smallest over processes: x.

    Raises TypeError for what is no array.

    >>> mx.distributed.all_min(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    return _same(x)


def all_gather(x, *, group=None, stream=None):
    """All processes' arrays joined along the first axis: x.

    Raises TypeError for what is no array.

    >>> mx.distributed.all_gather(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    return _same(x)


def sum_scatter(x, *, group=None, stream=None):
    """This process's part of the sum over processes: x.

    Raises TypeError for what is no array.

    >>> mx.distributed.sum_scatter(mx.array([1, 2]))
    array([1, 2], dtype=int32)
    """
    return _same(x)


def send(x, dst, *, group=None, stream=None):
    """There is nobody to send to.

    Raises ValueError.

    >>> mx.distributed.send(mx.array([1]), 1)
    Traceback (most recent call last):
        ...
    ValueError: [distributed] a group of one process cannot send
    """
    raise ValueError("[distributed] a group of one process cannot send")


def recv(shape, dtype, src, *, group=None, stream=None):
    """There is nobody to receive from.

    Raises ValueError.

    >>> mx.distributed.recv((1,), mx.int32, 1)
    Traceback (most recent call last):
        ...
    ValueError: [distributed] a group of one process cannot receive
    """
    raise ValueError("[distributed] a group of one process cannot receive")


def recv_like(x, src, *, group=None, stream=None):
    """There is nobody to receive from.

    Raises ValueError.

    >>> mx.distributed.recv_like(mx.array([1]), 1)
    Traceback (most recent call last):
        ...
    ValueError: [distributed] a group of one process cannot receive
    """
    raise ValueError("[distributed] a group of one process cannot receive")

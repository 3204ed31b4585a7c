"""Thousands of expressions have the peer's outcome, except where `DIFFERENT` says why not."""

import copy
import math
import pickle
import re

import numpy as np
from expressions import EXPRESSIONS

import isopace.core as ip

# What is different on purpose: a pattern of "statements :: expression -> ours for theirs", and why.
DIFFERENT = [
    (r"-> [a-z].* for \('raises', 'RuntimeError', 'std::bad_cast'", "the peer's casts fail without saying what is accepted"),
    (r"-> (?!raises).* for \('raises', 'TypeError', ['\"]\w+\(\): incompatible", "numbers and NumPy arrays serve where the peer takes arrays"),
    (r"-> (array|Dtype) for .*(result_type|conv)\]", "numbers are weak in result_type, integers are convolved as float32"),
    (r"uint64\) (&|<<) mx.array\(2, mx.int8", "operators refuse dtypes, also two integer ones without a common one, by ValueError"),
    (r"softmax.*(bool_|int\d+|\[\[3, 1\])", "integers give float32 whatever the axis; the peer rounds the result to integers"),
    (r"logsumexp.*bool_", "bool counts as 0 and 1; the peer's sum overflows bool"),
    (r"(bool_|int\d+)\) \*\* -1", "1 ** -1 is 1"),
    (r"mean.*2\*\*31", "the mean of large integers does not overflow"),
    (r"median.*axis=\(\)", "no axes is no reduction"),
    (r"searchsorted\(.*(side=|ones)|mx.take\(mx.arange\(5\),7\)", "the error says what is wrong"),
    (r"roll\(.*\(1,2", "as many shifts as axes, or one, are accepted"),
    (r"concatenate\(\[mx.ones\(\(2,\)\)\],1\)", "an axis out of range is an IndexError, of one array too"),
    (r"full\(\(2,\),3.7,mx.int32\)", "full gives the dtype that was asked for"),
    (r"__module__|(deepcopy|pickle).*mx.float32", "the class is isopace's; dtypes can be pickled"),
    (r"2\*\*31, mx.int32|\[2\*\*31\], mx.int32", "an int must fit"),
    (r"take\(mx.arange\(5\),-1\)", "a negative index counts from the end"),
    (r"uint\d+\) (/|==|<) -1 ->|:: -1 (/|==|<) .*uint", "an int that the dtype cannot hold is compared, and divided, by its value"),
    (r"[!=]= ?None|None [!=]=", "comparing with None gives a bool"),
    (r"(expm1|sigmoid|nan_to_num).*(complex64|float64)", "the peer has none for this dtype"),
    (r"\[\[\]\]|x\[\[\]\]", "an empty list is an empty index"),
    (r"at\[(mx.array\(\[True|\[True|True)", "masks may stand in .at"),
    (r"\[mx.array\(\[True, False, True, False, True\]\), 0\]", "a mask in a tuple is a ValueError, not a SystemError"),
    (r"x\[(None|\.\.\.)\] \+?= ", "a value is cast to the array's dtype however the whole is written"),
    (r"2\*\*63|2\*\*64", "uint64 holds what int64 does not; larger ints are an OverflowError"),
    (r"(300|-1).*mx\.uint8\)", "an int that the dtype cannot hold is a ValueError"),
    (r"\[::-1\]\) ->", "negative strides are read"),
]


def outcome(mx, before, expression):
    names = {"mx": mx, "np": np, "pickle": pickle, "copy": copy}
    try:
        exec(before, names)
        return plain(mx, eval(expression, names))
    except Exception as e:
        return ("raises", type(e).__name__, str(e))


def plain(mx, x):
    if isinstance(x, mx.array):
        return ("array", str(x.dtype), x.shape, x.tolist())
    if isinstance(x, np.ndarray):
        return ("ndarray", str(x.dtype), x.shape, x.tolist())
    if isinstance(x, (list, tuple)):
        return (type(x).__name__, [plain(mx, i) for i in x])
    return (type(x).__name__, x if isinstance(x, (bool, int, float, complex)) else repr(x))


# Half a unit in the last place of the dtype, with room for two roundings.
CLOSE = {"mlx.core.bfloat16": 2**-7, "mlx.core.float16": 2**-10}


def close(a, b, tolerance):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(close(x, y, tolerance) for x, y in zip(a, b))
    if isinstance(a, complex) and isinstance(b, complex):
        if abs(a - b) <= tolerance * abs(b):  # a part may be far smaller than the number
            return True
        return close(a.real, b.real, tolerance) and close(a.imag, b.imag, tolerance)
    if type(a) is float and type(b) is float:
        if math.isnan(a) or math.isnan(b):
            return math.isnan(a) and math.isnan(b)
        return a == b or abs(a - b) <= tolerance * max(abs(a), abs(b), 1e-2)
    return type(a) is type(b) and a == b


def same(ours, theirs):
    if ours[0] != theirs[0]:
        return False
    if ours[0] == "raises":
        return ours[1] == theirs[1]
    if ours[0] in ("array", "ndarray"):
        return ours[1:3] == theirs[1:3] and close(ours[3], theirs[3], CLOSE.get(ours[1], 4e-6))
    if ours[0] in ("list", "tuple"):
        return len(ours[1]) == len(theirs[1]) and all(map(same, ours[1], theirs[1]))
    return close(ours[1], theirs[1], 4e-6)


def test_outcomes(peer):
    wrong = []
    for before, expression in EXPRESSIONS:
        ours, theirs = outcome(ip, before, expression), outcome(peer, before, expression)
        text = f"{before} :: {expression} -> {ours[0]} for {theirs}"
        if not same(ours, theirs) and not any(re.search(pattern, text) for pattern, _ in DIFFERENT):
            wrong.append(f"{text}\n  ours {str(ours)[:150]}\n  peer {str(theirs)[:150]}")
    assert not wrong, f"{len(wrong)} of {len(EXPRESSIONS)} differ:\n" + "\n".join(wrong[:60])
    assert len(EXPRESSIONS) > 10_000

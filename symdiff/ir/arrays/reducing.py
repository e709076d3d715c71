"""NumPy's reductions and running sums on traced arrays: sums, extremes, means, norms, sorting.

Assumes one traced array among the operands. Guarantees NumPy's `axis` and `keepdims`, and formulas whose derivatives are
finite wherever the function has one: a norm is a root of a sum of squares, a log-sum-exp has the softmax as its derivative.
Refuses, with `TraceError`, orders of norms that have no formula here.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays, kept_shape
from symdiff.ir.arrays.moving import ravel, size
from symdiff.ir.node import Atom, Constant
from symdiff.vocabulary.ops import is_complex

Function = Callable[..., Atom]


def axes_of(x: Atom, axis: Any) -> tuple[int, ...]:
    """The axes of a reduction, sorted."""
    rank = len(x.shape)
    return tuple(range(rank)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, rank)))


def reduced(a: Arrays, head: str, x: Atom, axis: Any, keepdims: bool) -> Atom:
    """A reduction by its head."""
    axes = axes_of(x, axis)
    if not axes:
        return x
    if head not in ("prod", "any", "all") and math.prod(x.shape[n] for n in axes) == 0:
        raise ValueError(f"zero-size array to {head}, which has no identity")
    found = a.bind(head, x, axes=axes)
    return a.reshape(found, kept_shape(x.shape, axes)) if keepdims else found


def sum(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return a.sum(x, axes_of(x, axis), keepdims)


def prod(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "prod", x, axis, keepdims)


def amax(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "amax", x, axis, keepdims)


def amin(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "amin", x, axis, keepdims)


def ptp(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return a.emit("sub", amax(a, x, axis, keepdims), amin(a, x, axis, keepdims))


def any(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "any", truth(a, x), axis, keepdims)


def all(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "all", truth(a, x), axis, keepdims)


def truth(a: Arrays, x: Atom) -> Atom:
    """Numbers as truth values: zero is false, NaN is true."""
    return x if x.dtype == "?" else a.emit("ne", x, Constant(0))


def logsumexp(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return reduced(a, "logsumexp", x, axis, keepdims)


def log_softmax(a: Arrays, x: Atom, axis: Any = None) -> Atom:
    return a.emit("sub", x, logsumexp(a, x, axis, True))


def softmax(a: Arrays, x: Atom, axis: Any = None) -> Atom:
    return a.emit("exp", log_softmax(a, x, axis))


def cumsum(a: Arrays, x: Atom, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = ravel(a, x), 0
    return a.bind("cumsum", x, axis=normalize_axis_index(axis, len(x.shape)))


def cumprod(a: Arrays, x: Atom, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = ravel(a, x), 0
    return a.bind("cumprod", x, axis=normalize_axis_index(axis, len(x.shape)))


def mean(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    total = sum(a, x, axis, keepdims)
    return a.emit("div", total, Constant(size(x) // max(size(total), 1)))


def average(a: Arrays, x: Atom, axis: Any = None, weights: Atom | None = None, keepdims: bool = False) -> Atom:
    if weights is None:
        return mean(a, x, axis, keepdims)
    if weights.shape != x.shape and isinstance(axis, (tuple, list)) and tuple(axis) != axes_of(x, axis):
        raise TraceError(f"{a.origin}: np.average with weights over axes {axis}; give them in increasing order")
    if weights.shape != x.shape:
        place = axes_of(x, axis)
        weights = a.reshape(weights, tuple(n if i in place else 1 for i, n in enumerate(x.shape)))
    total = sum(a, a.broadcast_to(weights, x.shape), axis, keepdims)
    return a.emit("div", sum(a, a.emit("mul", x, weights), axis, keepdims), total)


def squared(a: Arrays, x: Atom) -> Atom:
    """|x|**2, real for complex x."""
    if not is_complex(x.dtype or "d"):
        return a.emit("mul", x, x)
    real, imag = a.emit("real", x), a.emit("imag", x)
    return a.emit("add", a.emit("mul", real, real), a.emit("mul", imag, imag))


def var(a: Arrays, x: Atom, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, correction: int | None = None) -> Atom:
    away = a.emit("sub", x, mean(a, x, axis, True))
    total = sum(a, squared(a, away), axis, keepdims)
    count = size(x) // max(size(total), 1) - (ddof if correction is None else correction)
    return a.emit("div", total, Constant(max(count, 0)))


def std(a: Arrays, x: Atom, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, correction: int | None = None) -> Atom:
    return a.emit("sqrt", var(a, x, axis, ddof, keepdims, correction=correction))


def norm(a: Arrays, x: Atom, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Atom:
    if axis is None and ord is None:
        x, axis = (ravel(a, x), 0) if not keepdims else (x, tuple(range(len(x.shape))))
    axes = axes_of(x, axis)
    if len(axes) == 2 and ord not in (None, "fro"):
        if ord not in (1, -1, np.inf, -np.inf):
            raise TraceError(f"{a.origin}: the matrix norm with ord={ord!r}; 'fro', 1, -1, inf and -inf are possible")
        first, second = normalize_axis_tuple(axis, len(x.shape)) if axis is not None else axes
        inner, outer = (first, second) if abs(ord) == 1 else (second, first)
        sums = sum(a, a.emit("abs", x), inner, True)
        found = (amax if ord > 0 else amin)(a, sums, outer, True)
        return found if keepdims else a.reshape(found, tuple(n for i, n in enumerate(x.shape) if i not in axes))
    if len(axes) > 2:
        raise TraceError(f"{a.origin}: a norm over {len(axes)} axes; one or two are possible")
    if ord in (None, 2, "fro"):
        return a.emit("sqrt", sum(a, squared(a, x), axes, keepdims))
    if ord == 1:
        return sum(a, a.emit("abs", x), axes, keepdims)
    if ord in (np.inf, -np.inf):
        return (amax if ord > 0 else amin)(a, a.emit("abs", x), axes, keepdims)
    if ord == 0:
        return sum(a, a.emit("select", a.emit("ne", x, Constant(0.0)), Constant(1.0), Constant(0.0)), axes, keepdims)
    if isinstance(ord, (int, float)) and np.isfinite(ord):
        total = sum(a, a.emit("pow", a.emit("abs", x), Constant(ord)), axes, keepdims)
        return a.emit("pow", total, Constant(1.0 / ord))
    raise TraceError(f"{a.origin}: norm with ord={ord!r} is not supported; numbers, inf and -inf are")


def vector_norm(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Atom:
    if axis is None and not keepdims:
        x, axis = ravel(a, x), 0
    axes = axes_of(x, axis)
    if len(axes) > 1:
        if ord != 2:
            raise TraceError(f"{a.origin}: vector_norm over several axes with ord={ord!r}; 2 is possible")
        return a.emit("sqrt", sum(a, squared(a, x), axes, keepdims))
    return norm(a, x, ord, axes, keepdims)


def sort(a: Arrays, x: Atom, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Atom:
    if axis is None:
        x, axis = ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    return a.bind("take_along", x, a.bind("argsort", x, axis=axis), axis=axis)


def partition(a: Arrays, x: Atom, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Atom:
    if axis is None:
        x, axis = ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    places = tuple(int(k) for k in np.atleast_1d(kth))
    return a.bind("take_along", x, a.bind("argpartition", x, kth=places, axis=axis), axis=axis)


REDUCING: dict[str, Function] = {
    function.__name__: function
    for function in (
        sum, prod, amax, amin, any, all, ptp, logsumexp, log_softmax, softmax, cumsum, cumprod, mean, average, var, std, norm,
        vector_norm, sort, partition,
    )
} | {"max": amax, "min": amin}  # fmt: skip

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
from symdiff.ir.arrays.moving import atom_size, bind_ravel
from symdiff.ir.node import Atom, Constant
from symdiff.vocabulary.ops import is_complex

Function = Callable[..., Atom]


def axes_of(x: Atom, axis: Any) -> tuple[int, ...]:
    """The axes of a reduction, sorted."""
    rank = len(x.shape)
    return tuple(range(rank)) if axis is None else tuple(sorted(normalize_axis_tuple(axis, rank)))


def bind_reduction(a: Arrays, head: str, x: Atom, axis: Any, keepdims: bool) -> Atom:
    """A reduction by its head."""
    axes = axes_of(x, axis)
    if not axes:
        return x
    if head not in ("prod", "any", "all") and math.prod(x.shape[n] for n in axes) == 0:
        raise ValueError(f"zero-size array to {head}, which has no identity")
    found = a.bind(head, x, axes=axes)
    return a.reshape(found, kept_shape(x.shape, axes)) if keepdims else found


def bind_sum(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return a.sum(x, axes_of(x, axis), keepdims)


def bind_prod(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "prod", x, axis, keepdims)


def bind_amax(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "amax", x, axis, keepdims)


def bind_amin(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "amin", x, axis, keepdims)


def bind_ptp(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return a.emit("sub", bind_amax(a, x, axis, keepdims), bind_amin(a, x, axis, keepdims))


def bind_any(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "any", bind_truth(a, x), axis, keepdims)


def bind_all(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "all", bind_truth(a, x), axis, keepdims)


def bind_truth(a: Arrays, x: Atom) -> Atom:
    """Numbers as truth values: zero is false, NaN is true."""
    return x if x.dtype == "?" else a.emit("ne", x, Constant(0))


def bind_logsumexp(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    return bind_reduction(a, "logsumexp", x, axis, keepdims)


def bind_log_softmax(a: Arrays, x: Atom, axis: Any = None) -> Atom:
    return _over(a, "log_softmax", x, axis)


def bind_softmax(a: Arrays, x: Atom, axis: Any = None) -> Atom:
    return _over(a, "softmax", x, axis)


def _over(a: Arrays, head: str, x: Atom, axis: Any) -> Atom:
    axes = axes_of(x, axis)
    x = x if x.dtype in ("f", "d") else a.emit("add", x, Constant(0.0))
    if axes:
        return a.bind(head, x, axes=axes)
    away = a.emit("sub", x, x)
    return a.emit("exp", away) if head == "softmax" else away


def bind_cumsum(a: Arrays, x: Atom, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    return a.bind("cumsum", x, axis=normalize_axis_index(axis, len(x.shape)))


def bind_cumprod(a: Arrays, x: Atom, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    return a.bind("cumprod", x, axis=normalize_axis_index(axis, len(x.shape)))


def bind_mean(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False) -> Atom:
    total = bind_sum(a, x, axis, keepdims)
    return a.emit("div", total, Constant(atom_size(x) // max(atom_size(total), 1)))


def bind_average(a: Arrays, x: Atom, axis: Any = None, weights: Atom | None = None, keepdims: bool = False) -> Atom:
    if weights is None:
        return bind_mean(a, x, axis, keepdims)
    if weights.shape != x.shape and isinstance(axis, (tuple, list)) and tuple(axis) != axes_of(x, axis):
        raise TraceError(f"{a.origin}: np.average with weights over axes {axis}; give them in increasing order")
    if weights.shape != x.shape:
        place = axes_of(x, axis)
        weights = a.reshape(weights, tuple(n if i in place else 1 for i, n in enumerate(x.shape)))
    total = bind_sum(a, a.broadcast_to(weights, x.shape), axis, keepdims)
    return a.emit("div", bind_sum(a, a.emit("mul", x, weights), axis, keepdims), total)


def bind_abs_square(a: Arrays, x: Atom) -> Atom:
    """|x|**2, real for complex x."""
    if not is_complex(x.dtype or "d"):
        return a.emit("mul", x, x)
    real, imag = a.emit("real", x), a.emit("imag", x)
    return a.emit("add", a.emit("mul", real, real), a.emit("mul", imag, imag))


def bind_var(
    a: Arrays, x: Atom, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, correction: int | None = None
) -> Atom:
    away = a.emit("sub", x, bind_mean(a, x, axis, True))
    total = bind_sum(a, bind_abs_square(a, away), axis, keepdims)
    count = atom_size(x) // max(atom_size(total), 1) - (ddof if correction is None else correction)
    return a.emit("div", total, Constant(max(count, 0)))


def bind_std(
    a: Arrays, x: Atom, axis: Any = None, ddof: int = 0, keepdims: bool = False, *, correction: int | None = None
) -> Atom:
    return a.emit("sqrt", bind_var(a, x, axis, ddof, keepdims, correction=correction))


def bind_norm(a: Arrays, x: Atom, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Atom:
    if axis is None and ord is None:
        x, axis = (bind_ravel(a, x), 0) if not keepdims else (x, tuple(range(len(x.shape))))
    axes = axes_of(x, axis)
    if len(axes) == 2 and ord not in (None, "fro"):
        if ord not in (1, -1, np.inf, -np.inf):
            raise TraceError(f"{a.origin}: the matrix norm with ord={ord!r}; 'fro', 1, -1, inf and -inf are possible")
        first, second = normalize_axis_tuple(axis, len(x.shape)) if axis is not None else axes
        inner, outer = (first, second) if abs(ord) == 1 else (second, first)
        sums = bind_sum(a, a.emit("abs", x), inner, True)
        found = (bind_amax if ord > 0 else bind_amin)(a, sums, outer, True)
        return found if keepdims else a.reshape(found, tuple(n for i, n in enumerate(x.shape) if i not in axes))
    if len(axes) > 2:
        raise TraceError(f"{a.origin}: a norm over {len(axes)} axes; one or two are possible")
    if ord in (None, 2, "fro"):
        return a.emit("sqrt", bind_sum(a, bind_abs_square(a, x), axes, keepdims))
    if ord == 1:
        return bind_sum(a, a.emit("abs", x), axes, keepdims)
    if ord in (np.inf, -np.inf):
        return (bind_amax if ord > 0 else bind_amin)(a, a.emit("abs", x), axes, keepdims)
    if ord == 0:
        return bind_sum(a, a.emit("select", a.emit("ne", x, Constant(0.0)), Constant(1.0), Constant(0.0)), axes, keepdims)
    if isinstance(ord, (int, float)) and np.isfinite(ord):
        total = bind_sum(a, a.emit("pow", a.emit("abs", x), Constant(ord)), axes, keepdims)
        return a.emit("pow", total, Constant(1.0 / ord))
    raise TraceError(f"{a.origin}: norm with ord={ord!r} is not supported; numbers, inf and -inf are")


def bind_vector_norm(a: Arrays, x: Atom, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Atom:
    if axis is None and not keepdims:
        x, axis = bind_ravel(a, x), 0
    axes = axes_of(x, axis)
    if len(axes) > 1:
        if ord != 2:
            raise TraceError(f"{a.origin}: vector_norm over several axes with ord={ord!r}; 2 is possible")
        return a.emit("sqrt", bind_sum(a, bind_abs_square(a, x), axes, keepdims))
    return bind_norm(a, x, ord, axes, keepdims)


def bind_sort(a: Arrays, x: Atom, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    return a.bind("take_along", x, a.bind("argsort", x, axis=axis), axis=axis)


def bind_partition(a: Arrays, x: Atom, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    places = tuple(int(k) for k in np.atleast_1d(kth))
    return a.bind("take_along", x, a.bind("argpartition", x, kth=places, axis=axis), axis=axis)


REDUCING: dict[str, Function] = {
    function.__name__.removeprefix("bind_"): function
    for function in (
        bind_sum, bind_prod, bind_amax, bind_amin, bind_any, bind_all, bind_ptp, bind_logsumexp, bind_log_softmax, bind_softmax,
        bind_cumsum, bind_cumprod, bind_mean, bind_average, bind_var, bind_std, bind_norm, bind_vector_norm, bind_sort,
        bind_partition,
    )
} | {"max": bind_amax, "min": bind_amin}  # fmt: skip

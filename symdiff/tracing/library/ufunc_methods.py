"""`reduce`, `accumulate`, `outer` and `reduceat` of ufuncs on traced arrays, written with the ufunc itself.

Assumes ufuncs with two operands. Guarantees NumPy's values. Refuses other ufuncs, with `TraceError`.
"""

import functools
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import holds_traced, part_of
from symdiff.tracing.values.standing import Array, stands_for
from symdiff.vocabulary.libraries import user_line

_RUNNING = {np.add: np.cumsum, np.multiply: np.cumprod}
_EXACT = frozenset({np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or})  # in any order of the operands
_EXPONENTIAL = frozenset({np.logaddexp, np.logaddexp2})


@stands_for("ufunc.accumulate")
def accumulate(ufunc: Any, array: Array, axis: int = 0, dtype: Any = None) -> Any:
    x = _first(ufunc, array, dtype)
    axis = normalize_axis_index(axis, x.ndim)
    if ufunc in _RUNNING:
        return _RUNNING[ufunc](array, axis=axis, dtype=dtype)
    n = x.shape[axis]
    if not n:
        return x
    if ufunc in _EXACT:  # by doubling (Hillis and Steele's scan)
        step = 1
        while step < n:
            later = ufunc(part_of(x, axis, slice(step, None)), part_of(x, axis, slice(None, n - step)))
            x = np.concatenate([part_of(x, axis, slice(None, step)), later], axis=axis)
            step *= 2
        return x
    lines = np.moveaxis(x, axis, 0)
    if ufunc in _EXPONENTIAL:
        return _shifted(lambda away: np.moveaxis(_running(ufunc, away), 0, axis), lines, axis)
    return np.moveaxis(_running(ufunc, lines), 0, axis)


def _running(ufunc: Any, lines: Any) -> Any:
    found = [lines[0]]
    for k in range(1, len(lines)):
        found.append(ufunc(found[-1], lines[k]))
    return np.stack(found)


def _shifted(function: Any, lines: Any, axis: int | None) -> Any:
    """A function that moves with its lines, of what they are below the largest one: their differences lose no digits."""
    top = np.max(lines, axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    return function(lines - shift) + (shift if axis is None else np.expand_dims(shift, axis))


@stands_for("ufunc.outer")
def outer(ufunc: Any, a: Array, b: Array) -> Any:
    return ufunc(np.reshape(a, a.shape + (1,) * b.ndim), b)


@stands_for("ufunc.reduceat")
def reduceat(ufunc: Any, array: Array, indices: Any, axis: int = 0, dtype: Any = None) -> Any:
    if holds_traced(indices):
        raise TraceError(f"{user_line()}: np.{ufunc.__name__}.reduceat at traced places; pass them as integers")
    x = _first(ufunc, array, dtype)
    axis = normalize_axis_index(axis, x.ndim)
    n = x.shape[axis]
    starts = [int(i) for i in np.atleast_1d(indices)]
    if not all(0 <= i < n for i in starts):
        raise ValueError(f"indices {starts} for an axis of size {n}")
    found = []
    for start, stop in zip(starts, [*starts[1:], n], strict=True):
        part = part_of(x, axis, slice(start, stop if stop > start else start + 1))
        found.append(ufunc.reduce(part, axis=axis) if part.shape[axis] > 1 else part_of(part, axis, 0))
    return np.stack(found, axis=axis)


@stands_for("ufunc.reduce")
def reduce(ufunc: Any, array: Array, axis: Any = 0, dtype: Any = None, *, keepdims: bool = False, initial: Array = None) -> Any:
    """Along one axis that has cells, one operand after the other."""
    x = _first(ufunc, array, dtype)
    if not isinstance(axis, int) or not x.ndim or not x.shape[axis]:
        raise ValueError("of traced values it is taken along one axis with cells")
    cells = np.moveaxis(x, axis, 0)
    if initial is not None:
        own = ufunc.resolve_dtypes((x.own_dtype(), x.own_dtype(), None))[0]
        kind = int if own.kind in "iu" else x.dtype
        first = np.broadcast_to(initial.astype(kind), (1, *cells.shape[1:]))
        cells = np.concatenate([first, cells])
    if ufunc in _EXPONENTIAL and len(cells) > 1:
        found = _shifted(lambda away: functools.reduce(ufunc, away), cells, None)
        return np.expand_dims(found, axis) if keepdims else found
    begins = ufunc.identity is not None and len(cells) == 1 and _is_changed(ufunc, x.dtype)
    found = ufunc(ufunc.identity, cells[0]) if begins else functools.reduce(ufunc, cells)
    return np.expand_dims(found, axis) if keepdims else found


@functools.cache
def _is_changed(ufunc: np.ufunc, dtype: np.dtype) -> bool:
    """Whether NumPy's `reduce` gives another number than the one it is given: it begins with the identity."""
    one = np.array([-1]).astype(dtype)
    return bool(ufunc.reduce(one) != one[0])


def _first(ufunc: Any, x: Any, dtype: Any) -> Any:
    """The operands, of the dtype in which the ufunc computes: a single one is a result as it is."""
    found = ufunc.resolve_dtypes((x.dtype, x.dtype, None))[2] if dtype is None else np.dtype(dtype)
    return x if found == x.dtype else x != 0 if found == np.bool_ else x.astype(found)

"""NumPy's functions that give places, or take traced ones: argmax, argsort, searchsorted, nonzero, take, choose, place.

Assumes traced numbers among the arguments. Guarantees NumPy's places as traced integers, the first of equal cells, NaN as the
largest; cells whose number is not known as `selecting` has them. Refuses `sorter=`, and numbers that are not whole as places,
with `TraceError`.
"""

import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.tracing.state.attempt import note_stuck
from symdiff.tracing.values.assigning import array_dtype
from symdiff.tracing.values.integers import Integer, integer
from symdiff.tracing.values.operands import traced_operands
from symdiff.tracing.values.selecting import count_mask, pattern, truths_of
from symdiff.tracing.values.standing import Array, gives_new, stands_for
from symdiff.tracing.values.traced_keys import read, traced_key_parts, written_where
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function


def _check_ordered(name: str, dtype: Any) -> None:
    if dtype.kind == "c":
        raise TraceError(f"{user_line()}: np.{name} of complex numbers, which have no order; take np.abs(z) or z.real")


def _along(name: str, x: Any, axis: int) -> Any:
    """A head that gives places along an axis."""
    _check_ordered(name, x.dtype)
    x = x.astype(float) if x.dtype.kind == "b" else x
    return integer(x.builder, Arrays(x.builder, user_line()).bind(name, x.atom, axis=normalize_axis_index(axis, x.ndim)))


def _extreme(name: str) -> Function:
    def place(a: Array, axis: int | None = None, *, keepdims: bool = False) -> Any:
        x = np.atleast_1d(a)
        if math.prod(x.shape if axis is None else (x.shape[axis],)) == 0:
            raise ValueError(f"{user_line()}: attempt to get {name} of an empty sequence")
        found = _along(name, np.ravel(x) if axis is None else x, 0 if axis is None else axis)
        if not keepdims or not a.ndim:
            return found
        return np.reshape(found, (1,) * x.ndim) if axis is None else np.expand_dims(found, axis)

    return place


for _function in (np.argmax, np.argmin):
    gives_new(_function)(_extreme(_function.__name__))


def _extreme_without_nan(name: str, nothing: float) -> Function:
    def place(a: Array, axis: int | None = None, *, keepdims: bool = False) -> Any:
        missing = np.isnan(a)
        if np.any(np.all(missing, axis=axis)):
            raise ValueError("All-NaN slice encountered")
        return getattr(np, name)(np.where(missing, nothing, a), axis=axis, keepdims=keepdims)

    return place


gives_new(np.nanargmax)(_extreme_without_nan("argmax", -np.inf))
gives_new(np.nanargmin)(_extreme_without_nan("argmin", np.inf))


@gives_new(np.argsort)
def argsort(x: Array, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The places in sorted order; equal cells keep theirs."""
    x = np.atleast_1d(x)
    return _along("order", np.ravel(x), 0) if axis is None else _along("order", x, axis)


@gives_new(np.argpartition)
def argpartition(x: Array, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The places in sorted order, in which every part is in its place."""
    return argsort(x, axis)


@gives_new(np.searchsorted)
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The places before which `v` keeps `a` sorted; `side` tells whether before or after equal ones."""
    if sorter is not None:
        raise TraceError(f"{user_line()}: np.searchsorted(sorter=...) of a traced value; sort the array first: a[sorter]")
    if side not in ("left", "right"):
        raise ValueError(f"side={side!r}; 'left' or 'right'")
    for given in (a, v):
        _check_ordered("searchsorted", array_dtype(given))
    arrays, (edges, points) = traced_operands(a, v)
    return integer(arrays.builder, arrays.bind("searchsorted", edges, points, side=side))


@gives_new(np.digitize)
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """The bins of `x`, whose edges rise or fall."""
    if isinstance(bins, Tracer):
        raise TraceError(f"{user_line()}: np.digitize with traced edges; use np.searchsorted for edges that rise")
    edges = np.asarray(bins)
    side = "left" if right else "right"
    if edges.size and edges[-1] < edges[0]:
        return edges.size - searchsorted(edges[::-1], x, side)
    return searchsorted(edges, x, side)


# -- masks


@gives_new(np.nonzero)
def nonzero(x: Any) -> Any:
    """The places of the cells that are not zero: which they are becomes a condition."""
    return np.nonzero(pattern(truths_of(x)))


@gives_new(np.flatnonzero)
def flatnonzero(a: Array) -> Any:
    """The places in the flattened array."""
    return np.nonzero(np.ravel(a))[0]


@gives_new(np.argwhere)
def argwhere(a: Array) -> Any:
    """The places, one a row."""
    return np.transpose(np.nonzero(a))


@gives_new(np.count_nonzero)
def count_nonzero(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many cells are not zero."""
    if axis is None and not keepdims:
        return count_mask(truths_of(x))
    return Integer.of(np.sum(np.where(truths_of(x), 1.0, 0.0), axis=axis, keepdims=keepdims))


@gives_new(np.compress)
def compress(condition: Any, a: Any, axis: int | None = None) -> Any:
    """The rows of `a` where the condition holds."""
    if not isinstance(condition, Tracer):
        return np.take(a, np.flatnonzero(condition), axis)
    rows = np.ravel(a) if axis is None else np.moveaxis(np.atleast_1d(a), axis, 0)
    found = read(rows[: len(condition)], truths_of(condition), user_line())
    return found if not axis else np.moveaxis(found, 0, axis)


@gives_new(np.extract)
def extract(condition: Any, arr: Any) -> Any:
    """The cells where the condition holds."""
    return compress(np.ravel(condition), np.ravel(arr), 0)


@stands_for(np.putmask, memory="itself")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """`a[mask] = values[mask]`, values repeated as often as needed."""
    check_own(a, "putmask")
    array = values.asked(lambda v: isinstance(v, np.ndarray)) if isinstance(values, Tracer) else isinstance(values, np.ndarray)
    if array and not np.can_cast(array_dtype(values), array_dtype(a), "safe"):
        raise TypeError(f"{user_line()}: {array_dtype(values)} is not cast to {array_dtype(a)} by the rule 'safe'")
    if not np.size(values):
        return
    values = values if np.ndim(values) == 0 or np.shape(values) == a.shape else np.resize(values, a.shape)
    a[...] = written_where(mask, values, a)


@stands_for(np.place, memory="itself")
def place(arr: Any, mask: Any, vals: Any) -> None:
    """`arr[mask] = vals`, the values one after the other."""
    check_own(arr, "place")
    if np.size(vals) == 1:
        cells = np.array(vals, dtype=object) if isinstance(vals, (list, tuple)) else vals
        arr[...] = written_where(mask, np.ravel(cells)[0] if np.ndim(cells) else cells, arr)
        return
    if isinstance(vals, Tracer) and arr.shared().overlaps(vals.shared()):
        raise TraceError(f"{user_line()}: np.place reads values from the array while it changes it; give a copy: vals.copy()")
    known = pattern(truths_of(mask)) if isinstance(mask, Tracer) else np.asarray(mask, bool)
    if not np.size(vals) and known.any():
        raise ValueError(f"{user_line()}: Cannot insert from an empty array!")
    arr[known] = np.resize(vals, int(known.sum()))


def check_own(array: Any, name: str) -> None:
    """Refuse an array of another place than the trace to be written to."""
    if not isinstance(array, Tracer):
        note_stuck()
        raise TraceError(f"{user_line()}: np.{name} writes a traced value into an array made elsewhere; copy it first")
    if array.held is not None and array.held.repeats():
        raise TraceError(f"{user_line()}: np.{name} of a view that shows a cell more than once; write to the array itself")


# -- traced places


@gives_new(np.take)
def take(a: Any, indices: Any, axis: int | None = None, mode: str = "raise") -> Any:
    """The cells at places along an axis."""
    if axis is None or not np.ndim(a):
        a, axis = np.ravel(a), axis or 0
    n = np.shape(a)[axis]
    (indices,) = traced_key_parts(list(indices) if isinstance(indices, tuple) else indices)
    indices = indices if isinstance(indices, Tracer) else np.asarray(indices)
    indices = indices.astype(int) if indices.dtype.kind == "b" else indices
    if mode != "raise":
        indices = indices % n if mode == "wrap" else np.clip(indices, 0, n - 1)
    return read(a, (slice(None),) * normalize_axis_index(axis, np.ndim(a)) + (indices,), user_line())


@gives_new(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """The cells at places of their own along an axis."""
    arr, axis = (np.ravel(arr), 0) if axis is None else (arr, axis)
    return read(arr, _own_places(np.shape(arr), indices, axis), user_line())


@stands_for(np.put_along_axis, memory="itself")
def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    """Assign to the cells at places of their own along an axis."""
    arr, axis = (arr.reshape(-1), 0) if axis is None else (arr, axis)
    arr[_own_places(np.shape(arr), indices, axis)] = values


def _own_places(sizes: Shape, indices: Any, axis: int) -> tuple[Any, ...]:
    """The index of one place along an axis for each place of the others."""
    axis = normalize_axis_index(axis, len(sizes))
    shape = tuple(max(n, m) for n, m in zip(sizes, np.shape(indices), strict=True))
    grid = [
        np.arange(n).reshape(tuple(-1 if k == place else 1 for k in range(len(shape)))) if sizes[place] != 1 else 0
        for place, n in enumerate(shape)
    ]
    return tuple(indices if place == axis else part for place, part in enumerate(grid))


@gives_new(np.choose)
def choose(a: Any, choices: Any, mode: str = "raise") -> Any:
    """The choice that each place names."""
    choices = list(choices)
    a = a if isinstance(a, Tracer) else np.asarray(a)
    if isinstance(a, Tracer) and not isinstance(a, Integer) and a.dtype.kind != "b":
        raise TraceError(f"{user_line()}: np.choose by numbers that are no integers; write x.astype(int)")
    n = len(choices)
    if mode == "raise":
        if not np.all(np.logical_and(a >= 0, a < n)):
            raise ValueError(f"{user_line()}: invalid entry in choice array")
    else:
        a = a % n if mode == "wrap" else np.clip(a, 0, n - 1)
    found = choices[-1]
    for k in range(n - 2, -1, -1):
        found = np.where(np.equal(a, k), choices[k], found)
    return found


@gives_new(np.unravel_index)
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """A place in the flattened array as one along each axis."""
    if order != "C":
        raise TraceError(f"{user_line()}: np.unravel_index(order={order!r}) of a traced place; C is possible")
    found = []
    for n in reversed(tuple(np.atleast_1d(shape).tolist())):
        found.append(indices % n)
        indices = indices // n
    return tuple(reversed(found))

"""NumPy's functions that give places, or take traced ones: argmax, argsort, searchsorted, nonzero, take, choose, place.

Assumes traced numbers among the arguments. Guarantees NumPy's places as traced integers, the first of equal cells, NaN as the
largest; cells whose number is not known as `selecting` has them. Refuses `sorter=`, and numbers that are not whole as places,
with `TraceError`.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.tracing.state.attempt import note_stuck
from symdiff.tracing.values.integers import Integer, integer
from symdiff.tracing.values.selecting import count_mask, pattern
from symdiff.tracing.values.traced_keys import read, traced_key_parts
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder


def _along(name: str, x: Any, axis: int, origin: str) -> Any:
    """A head that gives places along an axis."""
    if x.dtype.kind == "c":
        raise TraceError(f"{origin}: np.{name} of complex numbers, which have no order; take np.abs(z) or z.real")
    x = x.astype(float) if x.dtype.kind == "b" else x
    return integer(x.builder, Arrays(x.builder, origin).bind(name, x.atom, axis=normalize_axis_index(axis, x.ndim)))


def _extreme(name: str) -> Callable[..., Any]:
    def place(origin: str, x: Any, axis: int | None = None, out: None = None, *, keepdims: bool = False) -> Any:
        if math.prod(x.shape if axis is None else (x.shape[axis],)) == 0:
            raise ValueError(f"attempt to get {name} of an empty sequence")
        found = _along(name, np.ravel(x) if axis is None else x, 0 if axis is None else axis, origin)
        if not keepdims:
            return found
        return np.reshape(found, (1,) * x.ndim) if axis is None else np.expand_dims(found, axis)

    return place


def argsort(origin: str, x: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    """The places in sorted order; equal cells keep theirs."""
    return _along("order", np.ravel(x), 0, origin) if axis is None else _along("order", x, axis, origin)


def argpartition(origin: str, x: Any, kth: Any, axis: int | None = -1, kind: Any = None, order: Any = None) -> Any:
    """The places in sorted order, in which every part is in its place."""
    return argsort(origin, x, axis)


def searchsorted(origin: str, a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """The places before which `v` keeps `a` sorted; `side` tells whether before or after equal ones."""
    if sorter is not None:
        raise TraceError(f"{origin}: np.searchsorted(sorter=...) of a traced value; sort the array first: a[sorter]")
    if side not in ("left", "right"):
        raise ValueError(f"{origin}: np.searchsorted(side={side!r}); 'left' or 'right'")
    builder = traced_builder((a, v))
    found = Arrays(builder, origin).bind(
        "searchsorted", traced_atom(a, builder, origin), traced_atom(v, builder, origin), side=side
    )
    return integer(builder, found)


def digitize(origin: str, x: Any, bins: Any, right: bool = False) -> Any:
    """The bins of `x`, whose edges rise or fall."""
    if isinstance(bins, Tracer):
        raise TraceError(f"{origin}: np.digitize with traced edges; use np.searchsorted for edges that rise")
    edges = np.asarray(bins)
    side = "left" if right else "right"
    if edges.size and edges[-1] < edges[0]:
        return edges.size - searchsorted(origin, edges[::-1], x, side)
    return searchsorted(origin, edges, x, side)


# -- masks


def _truth(x: Any) -> Any:
    return x if x.dtype.kind == "b" else x != 0


def nonzero(origin: str, x: Any) -> Any:
    """The places of the cells that are not zero: which they are becomes a condition."""
    return np.nonzero(pattern(_truth(x)))


def count_nonzero(origin: str, x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """How many cells are not zero."""
    if axis is None and not keepdims:
        return count_mask(_truth(x))
    return Integer.of(np.sum(np.where(_truth(x), 1.0, 0.0), axis=axis, keepdims=keepdims))


def compress(origin: str, condition: Any, a: Any, axis: int | None = None, out: None = None) -> Any:
    """The rows of `a` where the condition holds."""
    if not isinstance(condition, Tracer):
        return np.take(a, np.flatnonzero(condition), axis)
    rows = np.ravel(a) if axis is None else np.moveaxis(a, axis, 0)
    found = read(rows, _truth(condition), origin)
    return found if not axis else np.moveaxis(found, 0, axis)


def extract(origin: str, condition: Any, arr: Any) -> Any:
    """The cells where the condition holds."""
    if not isinstance(condition, Tracer):
        return np.ravel(arr)[np.flatnonzero(condition)]
    return read(np.ravel(arr), np.ravel(_truth(condition)), origin)


def putmask(origin: str, a: Any, mask: Any, values: Any) -> None:
    """`a[mask] = values[mask]`, values repeated as often as needed."""
    _check_own(origin, a, "putmask")
    if not np.size(values):
        return
    values = values if np.ndim(values) == 0 or np.shape(values) == a.shape else np.resize(values, a.shape)
    a[...] = np.where(mask, values, a)


def place(origin: str, arr: Any, mask: Any, vals: Any) -> None:
    """`arr[mask] = vals`, the values one after the other."""
    _check_own(origin, arr, "place")
    if np.size(vals) == 1:
        cells = np.array(vals, dtype=object) if isinstance(vals, (list, tuple)) else vals
        arr[...] = np.where(mask, np.ravel(cells)[0] if np.ndim(cells) else cells, arr)
        return
    if isinstance(vals, Tracer) and arr.shared().overlaps(vals.shared()):
        raise TraceError(f"{origin}: np.place reads values from the array while it changes it; give a copy: vals.copy()")
    known = pattern(_truth(mask)) if isinstance(mask, Tracer) else np.asarray(mask, bool)
    if not np.size(vals) and known.any():
        raise ValueError(f"{origin}: Cannot insert from an empty array!")
    arr[known] = np.resize(vals, int(known.sum()))


def _check_own(origin: str, array: Any, name: str) -> None:
    if not isinstance(array, Tracer):
        note_stuck()
        raise TraceError(f"{origin}: np.{name} writes a traced value into an array made elsewhere; copy it first")


# -- traced places


def take(origin: str, a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    """The cells at places along an axis."""
    if axis is None:
        a, axis = np.ravel(a), 0
    n = np.shape(a)[axis]
    (indices,) = traced_key_parts(list(indices) if isinstance(indices, tuple) else indices)
    indices = indices if isinstance(indices, Tracer) else np.asarray(indices)
    indices = indices.astype(int) if indices.dtype.kind == "b" else indices
    if mode != "raise":
        indices = indices % n if mode == "wrap" else np.clip(indices, 0, n - 1)
    return read(a, (slice(None),) * normalize_axis_index(axis, np.ndim(a)) + (indices,), origin)


def take_along_axis(origin: str, arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """The cells at places of their own along an axis."""
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = normalize_axis_index(axis, np.ndim(arr))
    shape = tuple(max(n, m) for n, m in zip(np.shape(arr), np.shape(indices), strict=True))
    grid = [
        np.arange(n).reshape(tuple(-1 if k == place else 1 for k in range(len(shape)))) if np.shape(arr)[place] > 1 else 0
        for place, n in enumerate(shape)
    ]
    return read(arr, tuple(indices if place == axis else part for place, part in enumerate(grid)), origin)


def choose(origin: str, a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """The choice that each place names."""
    choices = list(choices)
    a = a if isinstance(a, Tracer) else np.asarray(a)
    if isinstance(a, Tracer) and not isinstance(a, Integer) and a.dtype.kind != "b":
        raise TraceError(f"{origin}: np.choose by numbers that are no integers; write x.astype(int)")
    n = len(choices)
    if mode == "raise":
        if not np.all(np.logical_and(a >= 0, a < n)):
            raise ValueError("invalid entry in choice array")
    else:
        a = a % n if mode == "wrap" else np.clip(a, 0, n - 1)
    found = choices[-1]
    for k in range(n - 2, -1, -1):
        found = np.where(np.equal(a, k), choices[k], found)
    return found


def unravel_index(origin: str, indices: Any, shape: Any, order: str = "C") -> Any:
    """A place in the flattened array as one along each axis."""
    if order != "C":
        raise TraceError(f"{origin}: np.unravel_index(order={order!r}) of a traced place; C is possible")
    found = []
    for n in reversed(tuple(np.atleast_1d(shape).tolist())):
        found.append(indices % n)
        indices = indices // n
    return tuple(reversed(found))


SEARCHING: dict[str, Callable[..., Any]] = {
    "argmax": _extreme("argmax"), "argmin": _extreme("argmin"), "argsort": argsort, "argpartition": argpartition,
    "searchsorted": searchsorted, "digitize": digitize, "nonzero": nonzero, "count_nonzero": count_nonzero,
    "flatnonzero": lambda origin, x: np.nonzero(np.ravel(x))[0],
    "argwhere": lambda origin, x: np.transpose(np.nonzero(x)),
    "compress": compress, "extract": extract, "putmask": putmask, "place": place, "take": take,
    "take_along_axis": take_along_axis, "choose": choose, "unravel_index": unravel_index,
}  # fmt: skip

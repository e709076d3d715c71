"""NumPy's functions that arrange traced arrays, written with simpler ones: grids, blocks, windows, paddings.

Assumes an array with a traced cell among the arguments. Guarantees NumPy's shapes and cells. Refuses, with `TraceError`, traced
values where integers or masks must be static.
"""

import itertools
import math
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from symdiff.errors import TraceError
from symdiff.ir.arrays import moving
from symdiff.tracing.library.atoms import of_atoms
from symdiff.tracing.library.searching import check_own
from symdiff.tracing.values.assigning import array_dtype, check_integers
from symdiff.tracing.values.integers import Integer, is_integer_value
from symdiff.tracing.values.layouts import in_traced_order
from symdiff.tracing.values.operands import as_array, holds_traced, part_of, traced_operands, traced_result
from symdiff.tracing.values.standing import Array, gives_new, stands_for
from symdiff.tracing.values.traced_keys import written_where
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords


def _static(value: Any, what: str) -> np.ndarray:
    """Integers or a mask that decide which cells are meant."""
    if holds_traced(value):
        raise TraceError(f"{user_line()}: {what} must not depend on traced values; np.where(mask, a, b) may")
    return np.asarray(value)


# -- grids


@stands_for(np.meshgrid, memory="view")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing={indexing!r}; 'xy' or 'ij'")
    rank = len(xi)
    lines = [np.reshape(as_array(x), (1,) * i + (-1,) + (1,) * (rank - i - 1)) for i, x in enumerate(xi)]
    if indexing == "xy" and rank > 1:
        lines = [np.swapaxes(x, 0, 1) for x in lines]
    if sparse:
        return tuple(lines)
    shape = np.broadcast_shapes(*(x.shape for x in lines))
    return tuple(np.broadcast_to(x, shape).copy() for x in lines)


@stands_for(np.broadcast_arrays, memory="view")
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    arrays = [as_array(x) for x in args]
    shape = np.broadcast_shapes(*(x.shape for x in arrays))
    return tuple(np.broadcast_to(x, shape) for x in arrays)


@gives_new(np.linspace)
def linspace(start: Array, stop: Array, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0) -> Any:  # fmt: skip
    count = max(num - 1 if endpoint else num, 1)
    steps = np.arange(num, dtype=float).reshape((num,) + (1,) * max(start.ndim, stop.ndim)) / count
    found = start + steps * (stop - start)
    found = _ending(found, stop) if endpoint and num > 1 else found
    found = found if axis == 0 else np.moveaxis(found, 0, axis)
    if dtype is not None:
        found = (np.floor(found) if np.issubdtype(dtype, np.integer) else found).astype(dtype)
    return (found, (stop - start) / count) if retstep else found


def _ending(found: Any, stop: Any) -> Any:
    """Steps of which the last is the end itself, without its rounding."""
    return np.concatenate([found[:-1], np.broadcast_to(stop, (1, *found.shape[1:]))])


@gives_new(np.logspace)
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: Any = 10.0, dtype: Any = None, *,
             axis: int = 0) -> Any:  # fmt: skip
    if np.ndim(base):
        shape = np.broadcast_shapes(*map(np.shape, (start, stop, base)))
        start, base = np.broadcast_to(start, shape), np.expand_dims(np.broadcast_to(base, shape), axis)
    found = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return found if dtype is None else found.astype(dtype)


@gives_new(np.geomspace)
def geomspace(start: Array, stop: Array, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    exponents = np.linspace(0.0, 1.0, num, endpoint).reshape((num,) + (1,) * max(start.ndim, stop.ndim))
    found = start * (stop / start) ** exponents
    found = np.moveaxis(_ending(found, stop) if endpoint and num > 1 else found, 0, axis)
    return found if dtype is None else found.astype(dtype)


# -- blocks and pieces


@stands_for(np.block)
def block(arrays: Any) -> Any:
    depth = _depth(arrays)
    rank = max(depth, max(np.ndim(x) if not isinstance(x, Tracer) else x.ndim for x in _inside(arrays)))
    return _joined(arrays, 0, depth, rank)


def _depth(nested: Any) -> int:
    return 1 + _depth(nested[0]) if isinstance(nested, list) and nested else 0


def _inside(nested: Any) -> list[Any]:
    return [x for part in nested for x in _inside(part)] if isinstance(nested, list) else [nested]


def _joined(nested: Any, level: int, depth: int, rank: int) -> Any:
    """Nested lists, the innermost of which lie along the last axis."""
    if not isinstance(nested, list):
        x = as_array(nested)
        return np.reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return np.concatenate([_joined(part, level + 1, depth, rank) for part in nested], axis=rank - depth + level)


@stands_for(np.split, memory="view")
def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> Any:
    count = ary.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)) and count % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@stands_for(np.array_split, memory="view")
def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> Any:
    axis = normalize_axis_index(axis, ary.ndim)
    pieces = np.array_split(np.arange(ary.shape[axis]), indices_or_sections)
    return [part_of(ary, axis, slice(int(p[0]), int(p[-1]) + 1) if len(p) else slice(0, 0)) for p in pieces]


def _splitting(axis: int) -> Function:
    def split_along(ary: Array, indices_or_sections: Any) -> Any:
        return split(ary, indices_or_sections, axis if axis != 1 or ary.ndim > 1 else 0)

    return split_along


for _function, _axis in ((np.vsplit, 0), (np.hsplit, 1), (np.dsplit, 2)):
    stands_for(_function, memory="view")(_splitting(_axis))


@stands_for(np.unstack, memory="view")
def unstack(x: Any, *, axis: int = 0) -> Any:
    return tuple(np.moveaxis(x, axis, 0)[i] for i in range(x.shape[axis]))


@stands_for(np.resize)
def resize(a: Array, new_shape: Any) -> Any:
    shape = tuple(int(n) for n in np.atleast_1d(new_shape))
    count = int(np.prod(shape, dtype=int))
    if count == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    return np.reshape(np.take(np.ravel(a), np.arange(count) % a.size), shape)


@stands_for(np.lib.stride_tricks.sliding_window_view, memory="view")
def sliding_window_view(x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Any:
    sizes = tuple(int(n) for n in np.atleast_1d(window_shape))
    axes = tuple(range(x.ndim)) if axis is None else tuple(int(i) for i in np.atleast_1d(axis))
    if len(axes) != len(sizes):
        raise ValueError(f"window sizes {sizes} for axes {axes}")
    rank = x.ndim
    for size, place in zip(sizes, axes, strict=True):
        i = normalize_axis_index(place, rank)
        count = x.shape[i] - size + 1
        if size < 0 or count < 1:
            raise ValueError(f"a window of {size} does not fit {x.shape[i]} cells")
        x = np.moveaxis(np.take(x, np.arange(count)[:, None] + np.arange(size), axis=i), i + 1, -1)
    return x


# -- cells chosen by constant integers and masks


@stands_for(np.put, memory="itself")
def put(a: Any, ind: Any, v: Array, mode: str = "raise") -> None:
    check_own(a, "put")
    places = np.atleast_1d(_static(ind, "the places of np.put"))
    if mode != "raise":
        places = places % a.size if mode == "wrap" else np.clip(places, 0, a.size - 1)
    if np.size(v):
        a[np.unravel_index(np.where(places < 0, places + a.size, places), a.shape)] = np.resize(v, places.shape)


@stands_for(np.fill_diagonal, memory="itself")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    if a.ndim < 2 or (a.ndim > 2 and len(set(a.shape)) > 1):
        raise ValueError("an array of two axes, or of several that are equally long, is needed")
    end = None if wrap or a.ndim > 2 else a.shape[1] ** 2
    a.flat[: end : 1 + sum(math.prod(a.shape[k:]) for k in range(1, a.ndim))] = val


# -- paddings with values that are computed


def along(matrix: np.ndarray, x: Any, axis: int) -> Any:
    """The product of a matrix with the lines of x along an axis."""
    return np.moveaxis(np.tensordot(matrix, x, axes=(1, axis)), 0, axis)


@stands_for(np.pad)
def pad(array: Array, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    x = array
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(i, pad_width.get(i - x.ndim, (0, 0))) for i in range(x.ndim)]
        pad_width = [(w, w) if np.ndim(w) == 0 else w for w in pad_width]
    widths = np.broadcast_to(pad_width, (x.ndim, 2))
    if np.any(widths < 0):
        raise ValueError("a padding has a negative width")
    if isinstance(x, Tracer) and x.is_of_integers():
        check_integers(0.5 if mode in ("linear_ramp", "mean", "median") else options.get("constant_values", 0))
    if mode in ("reflect", "symmetric") and options.get("reflect_type") == "odd":
        for axis, width in enumerate(widths):
            rows = np.pad(np.eye(x.shape[axis], dtype=x.dtype), (tuple(width), (0, 0)), mode=mode, reflect_type="odd")
            x = along(rows, x, axis) if any(width) else x
        return x
    if mode in _PICKED or (mode == "constant" and not holds_traced(options.get("constant_values", 0))):
        a, (atom,) = traced_operands(x)
        return traced_result(a, moving.bind_pad(a, atom, pad_width, mode, **options))
    edges = _EDGES.get(mode)
    if edges is None:
        raise TraceError(f"{user_line()}: np.pad with mode={mode!r} of a traced array; one of {', '.join((*_EDGES, *_PICKED))}")
    named = {"constant": "constant_values", "linear_ramp": "end_values"}.get(mode, "stat_length")
    values = options.pop(named, 0 if named != "stat_length" else None)
    if options:
        raise ValueError(f"unsupported keyword arguments for mode {mode!r}: {', '.join(options)}")
    for axis, width in enumerate(widths):
        before, behind = (
            [edges(x, axis, int(count), last, _of_side(values, axis, last, x.ndim))] if count else []
            for last, count in enumerate(width)
        )
        x = np.concatenate([*before, x, *behind], axis=axis) if before or behind else x
    return x


def _of_side(given: Any, axis: int, last: int, rank: int) -> Any:
    """The value for one side of an axis, from one, a pair, or a pair for each axis."""
    if given is None or (np.ndim(given) == 0 and not isinstance(given, (tuple, list))):
        return given
    rows = given if any(isinstance(g, (tuple, list)) for g in given) or np.ndim(given) == 2 else [given] * rank
    row = rows[axis if len(rows) > 1 else 0]
    return row[last if len(row) > 1 else 0]


def _constant_edge(x: Any, axis: int, count: int, last: int, given: Any) -> Any:
    dtype = int if is_integer_value(x) else x.dtype
    return np.broadcast_to(as_array(given).astype(dtype), _slab(x, axis, count))


def _ramp_edge(x: Any, axis: int, count: int, last: int, given: Any) -> Any:
    whole = is_integer_value(x)
    line = (np.arange(count) / count)[:: -1 if last else 1].reshape((-1,) + (1,) * (x.ndim - axis - 1))
    edge = part_of(x, axis, slice(-1, None) if last else slice(0, 1))
    found = given + (edge - given) * (line if whole else line.astype(x.dtype))
    return np.floor(found).astype(int) if whole else found


def _of_cells(reduced: Function) -> Function:
    def edge(x: Any, axis: int, count: int, last: int, given: Any) -> Any:
        n = x.shape[axis] if given is None else min(int(given), x.shape[axis])
        cells = part_of(x, axis, slice(x.shape[axis] - n, None) if last else slice(0, n))
        value = reduced(cells, axis=axis, keepdims=True)
        return np.broadcast_to(np.rint(value).astype(int) if is_integer_value(x) else value, _slab(x, axis, count))

    return edge


def _slab(x: Any, axis: int, count: int) -> Shape:
    return (*x.shape[:axis], count, *x.shape[axis + 1 :])


_PICKED = ("edge", "reflect", "symmetric", "wrap")
_EDGES: dict[Any, Function] = {
    "constant": _constant_edge,
    "linear_ramp": _ramp_edge,
    "mean": _of_cells(np.mean),
    "median": _of_cells(np.median),
    "maximum": _of_cells(np.max),
    "minimum": _of_cells(np.min),
}


# -- functions of slices


@gives_new(np.apply_along_axis, calls=True)
def apply_along_axis(func1d: Function, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    arr = as_array(arr)
    axis = normalize_axis_index(axis, arr.ndim)
    moved = np.moveaxis(arr, axis, -1)
    lead = moved.shape[:-1]
    found = [as_array(func1d(moved[place], *args, **kwargs)) for place in np.ndindex(lead)]
    if not found:
        raise ValueError("cannot apply_along_axis when any iteration dimensions are 0")
    inner = found[0].shape
    whole = np.reshape(np.stack(found), (*lead, *inner))
    order = (*range(axis), *range(len(lead), len(lead) + len(inner)), *range(axis, len(lead)))
    return np.transpose(whole, order)


@stands_for(np.apply_over_axes, memory="itself", calls=True)
def apply_over_axes(func: Function, a: Any, axes: Any) -> Any:
    for axis in np.atleast_1d(axes):
        found = func(a, int(axis))
        a = found if found.ndim == a.ndim else np.expand_dims(found, int(axis))
    return a


def instead_of_vectorize(f: np.vectorize, g: Function, args: Arguments, kwargs: Keywords) -> Any:
    """`np.vectorize(g)(...)`: g of each cell, or of each array of core axes where there is a signature."""
    open_places = [i for i in range(len(args)) if i not in f.excluded]
    named = [k for k in kwargs if k not in f.excluded]
    arrays = [as_array(args[i]) for i in open_places] + [as_array(kwargs[k]) for k in named]
    ranks = [0] * len(arrays) if f.signature is None else _core_ranks(f.signature)
    lead = np.broadcast_shapes(*(x.shape[: x.ndim - rank] for x, rank in zip(arrays, ranks, strict=True)))
    wide = [np.broadcast_to(x, (*lead, *x.shape[x.ndim - rank :])) for x, rank in zip(arrays, ranks, strict=True)]
    found = []
    for place in itertools.product(*map(range, lead)):
        point = [x[place] if place else x for x in wide]
        given = list(args)
        for i, value in zip(open_places, point, strict=False):
            given[i] = value
        found.append(g(*given, **kwargs | dict(zip(named, point[len(open_places) :], strict=True))))
    if not found:
        raise ValueError("cannot call `vectorize` on size 0 inputs")
    ordered = [x.copy("K") for x in arrays] if f.signature is None else []  # as of a ufunc, of arrays of objects

    def arranged(parts: list[Any]) -> Any:
        whole = _arranged(parts, lead)
        return in_traced_order(whole, tuple(ordered)) if isinstance(whole, Tracer) else whole

    return tuple(map(arranged, map(list, zip(*found, strict=True)))) if isinstance(found[0], tuple) else arranged(found)


def _arranged(found: list[Any], lead: Shape) -> Any:
    whole = np.stack([as_array(x) for x in found])
    return np.reshape(whole, (*lead, *whole.shape[1:]))


def _core_ranks(signature: str) -> list[int]:
    """The number of core axes of each operand: "(m,n),(n)->(m)" gives 2 and 1."""
    operands = signature.replace(" ", "").partition("->")[0]
    return [len([c for c in part.split(",") if c]) for part in operands.strip("()").split("),(")]


# -- assignments


_inserted = of_atoms(moving.bind_insert)


@stands_for(np.insert)
def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    x = as_array(arr)
    dtype = array_dtype(x if isinstance(arr, (list, tuple)) else arr)
    if isinstance(x, Tracer) and x.is_of_integers():
        check_integers(values)
    cells = as_array(values).astype(dtype)
    while cells.ndim > (1 if axis is None else x.ndim) and len(cells) == 1:
        cells = cells[0]
    if np.size(obj) == 1 and not isinstance(obj, slice) and axis is not None:
        cells = np.reshape(cells, (1,) * (x.ndim - cells.ndim) + cells.shape)
        cells = cells if np.ndim(obj) else np.moveaxis(cells, 0, axis)  # as NumPy has it at a single place
    whole = dtype.kind in "iu"
    found = _inserted(x.astype(float) if whole else x, obj, cells, axis)
    return Integer.of(found) if whole else found


@stands_for(np.copyto, memory="itself")
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    check_own(dst, "copyto")
    if not np.can_cast(array_dtype(as_array(src)), array_dtype(dst), casting):  # type: ignore[arg-type]
        raise TypeError(f"{array_dtype(src)} is not cast to {array_dtype(dst)} by the rule {casting!r}")
    dst[...] = src if where is True else written_where(where, src, dst)

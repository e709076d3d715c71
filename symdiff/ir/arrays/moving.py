"""NumPy's functions that move cells, on traced arrays: shapes, orders, joins, copies of cells.

Assumes one traced array among the operands. Guarantees NumPy's shapes and cells. Refuses, with `TraceError`, modes of
padding that compute new values.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import bind_along, region_key
from symdiff.ir.building import array_atom
from symdiff.ir.node import Atom, Constant
from symdiff.vocabulary.heads import Shape

Function = Callable[..., Atom]


def atom_size(x: Atom) -> int:
    """The number of cells."""
    return math.prod(x.shape)


def shape_to_bind(shape: Any, total: int) -> Shape:
    """A new shape, its -1 worked out."""
    found = [int(n) for n in np.atleast_1d(shape)] if not isinstance(shape, tuple) or shape else []
    if -1 in found:
        known = math.prod(n for n in found if n != -1)
        found[found.index(-1)] = total // known if known else 0
    if math.prod(found) != total:
        raise ValueError(f"cannot reshape {total} cells into shape {tuple(found)}")
    return tuple(found)


def bind_reshape(a: Arrays, x: Atom, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Atom:
    wanted = shape_to_bind(newshape if shape is None else shape, atom_size(x))
    if order not in ("C", "F"):
        raise TraceError(f"{a.origin}: order={order!r} of a traced array; C and F are possible")
    if order == "F":
        backwards = a.reshape(a.transpose(x, tuple(reversed(range(len(x.shape))))), tuple(reversed(wanted)))
        return a.transpose(backwards, tuple(reversed(range(len(wanted)))))
    return a.reshape(x, wanted)


def bind_ravel(a: Arrays, x: Atom, order: str = "C") -> Atom:
    return bind_reshape(a, x, (atom_size(x),), order)


def bind_transpose(a: Arrays, x: Atom, axes: Any = None) -> Atom:
    rank = len(x.shape)
    return a.transpose(x, tuple(reversed(range(rank))) if axes is None else normalize_axis_tuple(axes, rank))


def bind_matrix_transpose(a: Arrays, x: Atom) -> Atom:
    return a.swapped(x)


def bind_swapaxes(a: Arrays, x: Atom, axis1: int, axis2: int) -> Atom:
    order = list(range(len(x.shape)))
    first, second = normalize_axis_index(axis1, len(order)), normalize_axis_index(axis2, len(order))
    order[first], order[second] = order[second], order[first]
    return a.transpose(x, tuple(order))


def bind_moveaxis(a: Arrays, x: Atom, source: Any, destination: Any) -> Atom:
    rank = len(x.shape)
    sources, places = normalize_axis_tuple(source, rank), normalize_axis_tuple(destination, rank)
    order = [n for n in range(rank) if n not in sources]
    for place, axis in sorted(zip(places, sources, strict=True)):
        order.insert(place, axis)
    return a.transpose(x, tuple(order))


def bind_rollaxis(a: Arrays, x: Atom, axis: int, start: int = 0) -> Atom:
    axis = normalize_axis_index(axis, len(x.shape))
    start = start + len(x.shape) if start < 0 else start
    return bind_moveaxis(a, x, axis, start - 1 if axis < start else start)


def bind_squeeze(a: Arrays, x: Atom, axis: Any = None) -> Atom:
    axis = None if not x.shape and axis in (0, -1) else axis  # as NumPy takes a number
    axes = tuple(i for i, n in enumerate(x.shape) if n == 1) if axis is None else normalize_axis_tuple(axis, len(x.shape))
    if any(x.shape[i] != 1 for i in axes):
        raise ValueError(f"cannot squeeze axes {axes} of shape {x.shape}: not all of size 1")
    return a.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def bind_expand_dims(a: Arrays, x: Atom, axis: Any) -> Atom:
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    places = normalize_axis_tuple(axes, len(x.shape) + len(axes))
    rest = iter(x.shape)
    return a.reshape(x, tuple(1 if i in places else next(rest) for i in range(len(x.shape) + len(places))))


def bind_broadcast_to(a: Arrays, x: Atom, shape: Any, subok: bool = False) -> Atom:
    wanted = shape_to_bind(shape, math.prod(np.atleast_1d(shape))) if not isinstance(shape, tuple) else shape
    return a.broadcast_to(x, tuple(int(n) for n in wanted))


def bind_rot90(a: Arrays, x: Atom, k: int = 1, axes: Any = (0, 1)) -> Atom:
    first, second = normalize_axis_tuple(axes, len(x.shape))
    for _ in range(k % 4):
        x = a.flip(bind_swapaxes(a, x, first, second), first)
    return x


def bind_roll(a: Arrays, x: Atom, shift: Any, axis: Any = None) -> Atom:
    if axis is None:
        return a.reshape(bind_roll(a, bind_ravel(a, x), shift, 0), x.shape)
    for step, place in np.broadcast(shift, axis):
        i = normalize_axis_index(int(place), len(x.shape))
        n = x.shape[i]
        cut = -int(step) % n if n else 0
        if cut:
            parts = [a.getitem(x, region_key(x.shape, i, s)) for s in (slice(cut, None), slice(None, cut))]
            x = a.concatenate(parts, i)
    return x


def bind_tile(a: Arrays, x: Atom, reps: Any) -> Atom:
    counts = tuple(int(n) for n in np.atleast_1d(reps))
    rank = max(len(counts), len(x.shape))
    counts = (1,) * (rank - len(counts)) + counts
    shape = (1,) * (rank - len(x.shape)) + x.shape
    pairs = tuple(n for pair in zip((1,) * rank, shape, strict=True) for n in pair)
    spread = tuple(n for pair in zip(counts, shape, strict=True) for n in pair)
    return a.reshape(a.broadcast_to(a.reshape(x, pairs), spread), tuple(r * n for r, n in zip(counts, shape, strict=True)))


def bind_repeat(a: Arrays, x: Atom, repeats: Any, axis: int | None = None) -> Atom:
    if axis is None or not x.shape:
        x, axis = bind_ravel(a, x), 0 if axis is None else axis
    axis = normalize_axis_index(axis, len(x.shape))
    n = x.shape[axis]
    if np.ndim(repeats) == 0:
        inner = a.reshape(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]))
        wide = a.broadcast_to(inner, (*x.shape[: axis + 1], int(repeats), *x.shape[axis + 1 :]))
        return a.reshape(wide, (*x.shape[:axis], n * int(repeats), *x.shape[axis + 1 :]))
    return bind_along(a, x, np.repeat(np.arange(n), repeats), axis)


def bind_concatenate(a: Arrays, parts: Any, axis: int | None = 0) -> Atom:
    atoms = list(parts)
    if axis is None:
        return a.concatenate([bind_ravel(a, x) for x in atoms], 0)
    axis = normalize_axis_index(axis, len(atoms[0].shape))
    for x in atoms[1:]:
        if len(x.shape) != len(atoms[0].shape) or any(
            m != n for i, (m, n) in enumerate(zip(x.shape, atoms[0].shape, strict=True)) if i != axis
        ):
            raise ValueError(f"shapes {', '.join(str(o.shape) for o in atoms)} do not fit along axis {axis}")
    return a.concatenate(atoms, axis)


def bind_stack(a: Arrays, parts: Any, axis: int = 0) -> Atom:
    atoms = list(parts)
    if len({x.shape for x in atoms}) != 1:
        raise ValueError(f"all arrays must have the same shape, not {', '.join(str(x.shape) for x in atoms)}")
    return bind_concatenate(a, [bind_expand_dims(a, x, axis) for x in atoms], axis)


def bind_atleast(a: Arrays, x: Atom, rank: int) -> Atom:
    """x with at least 1 or 2 axes, new ones in front; with 3, NumPy's own places."""
    n = len(x.shape)
    if n >= rank:
        return x
    if rank == 3 and n:
        return a.reshape(x, (1, *x.shape, 1) if n == 1 else (*x.shape, 1))
    return a.reshape(x, (1,) * (rank - n) + x.shape)


def bind_vstack(a: Arrays, parts: Any) -> Atom:
    return bind_concatenate(a, [bind_atleast(a, x, 2) for x in parts], 0)


def bind_hstack(a: Arrays, parts: Any) -> Atom:
    atoms = [bind_atleast(a, x, 1) for x in parts]
    return bind_concatenate(a, atoms, 0 if len(atoms[0].shape) == 1 else 1)


def bind_dstack(a: Arrays, parts: Any) -> Atom:
    return bind_concatenate(a, [bind_atleast(a, x, 3) for x in parts], 2)


def bind_column_stack(a: Arrays, parts: Any) -> Atom:
    return bind_concatenate(a, [x if len(x.shape) > 1 else a.reshape(x, (atom_size(x), 1)) for x in parts], 1)


def bind_append(a: Arrays, x: Atom, values: Atom, axis: int | None = None) -> Atom:
    return bind_concatenate(a, [x, values], axis)


def bind_delete(a: Arrays, x: Atom, obj: Any, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    return bind_along(a, x, np.delete(np.arange(x.shape[axis]), obj), axis)


def bind_insert(a: Arrays, x: Atom, obj: Any, values: Atom, axis: int | None = None) -> Atom:
    if axis is None:
        x, axis = bind_ravel(a, x), 0
    axis = normalize_axis_index(axis, len(x.shape))
    n = x.shape[axis]
    places = np.atleast_1d(obj) if not isinstance(obj, slice) else np.arange(n)[obj]
    count = len(places) if len(places) > 1 else (values.shape[0] if len(values.shape) == len(x.shape) and values.shape else 1)
    if len(values.shape) == len(x.shape) and axis and len(places) == 1:
        count = values.shape[axis]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    joined = a.concatenate([x, a.broadcast_to(a.builder.cast(values, x.dtype or "d"), shape)], axis)
    marks = np.insert(np.arange(n), obj, np.arange(n, n + count))
    return bind_along(a, joined, marks, axis)


def bind_diagonal(a: Arrays, x: Atom, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Atom:
    rank = len(x.shape)
    if rank < 2:
        raise ValueError("an array with two axes or more is needed")
    last = tuple(normalize_axis_tuple((axis1, axis2), rank))
    x = a.transpose(x, (*(n for n in range(rank) if n not in last), *last))
    if offset:
        x = a.getitem(x, region_key(x.shape, rank - (1 if offset > 0 else 2), slice(min(abs(offset), max(x.shape)), None)))
    return a.diagonal(x)


def bind_diag(a: Arrays, x: Atom, k: int = 0) -> Atom:
    if len(x.shape) == 2:
        return bind_diagonal(a, x, k)
    if len(x.shape) != 1:
        raise ValueError("an array with one or two axes is needed")
    return bind_diagflat(a, x, k)


def bind_diagflat(a: Arrays, x: Atom, k: int = 0) -> Atom:
    square = a.embed(bind_ravel(a, x))
    n, away = atom_size(x), abs(k)
    if not k:
        return square
    key = ((0, n, 1), (away, n + away, 1)) if k > 0 else ((away, n + away, 1), (0, n, 1))
    return a.put(square, key, (n + away, n + away))


def _masked(a: Arrays, x: Atom, keep: np.ndarray) -> Atom:
    return a.emit("select", array_atom(keep), x, Constant(0.0))


def bind_triu(a: Arrays, x: Atom, k: int = 0) -> Atom:
    return _masked(a, x, ~np.tri(*x.shape[-2:], k=k - 1, dtype=bool))


def bind_tril(a: Arrays, x: Atom, k: int = 0) -> Atom:
    return _masked(a, x, np.tri(*x.shape[-2:], k=k, dtype=bool))


def bind_pad(a: Arrays, x: Atom, pad_width: Any, mode: str = "constant", *, constant_values: Any = 0, **options: Any) -> Atom:
    rank = len(x.shape)
    widths = np.broadcast_to(pad_width, (rank, 2))
    if mode == "constant":
        shape = tuple(int(n + p + q) for n, (p, q) in zip(x.shape, widths, strict=True))
        key = tuple((int(p), int(p) + n, 1) for n, (p, _) in zip(x.shape, widths, strict=True))
        if np.ndim(constant_values) == 0 and constant_values == 0:
            return a.put(x, key, shape)
        around = np.pad(np.zeros(x.shape, dtype=x.dtype), pad_width, constant_values=constant_values)
        return a.bind("set", array_atom(around), x, key=key) if around.shape != x.shape else x
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise TraceError(f"{a.origin}: np.pad with mode={mode!r}; constant, edge, reflect, symmetric and wrap are possible")
    for axis, width in enumerate(widths):
        if any(width):
            x = bind_along(a, x, np.pad(np.arange(x.shape[axis]), tuple(width), mode=mode, **options), axis)
    return x


MOVING: dict[str, Function] = {
    function.__name__.removeprefix("bind_"): function
    for function in (
        bind_reshape, bind_ravel, bind_transpose, bind_matrix_transpose, bind_swapaxes, bind_moveaxis, bind_rollaxis,
        bind_squeeze, bind_expand_dims, bind_broadcast_to, Arrays.flip, bind_rot90, bind_roll, bind_tile, bind_repeat,
        bind_concatenate, bind_stack, bind_vstack, bind_hstack, bind_dstack, bind_column_stack, bind_append, bind_delete,
        bind_insert, bind_diagonal, bind_diag, bind_diagflat, bind_triu, bind_tril,
    )
} | {
    "permute_dims": bind_transpose, "concat": bind_concatenate,
    "fliplr": lambda a, x: a.flip(x, 1), "flipud": lambda a, x: a.flip(x, 0),
    "atleast_1d": lambda a, x: bind_atleast(a, x, 1), "atleast_2d": lambda a, x: bind_atleast(a, x, 2),
    "atleast_3d": lambda a, x: bind_atleast(a, x, 3),
}  # fmt: skip

"""`x[key]` on traced arrays: slices, integers, None, ellipsis, constant integer arrays and masks.

Assumes static indices, or symbols of places that are in bounds (see `traced_keys`). Guarantees NumPy's result, shape and order
of axes. Refuses indices out of bounds with `IndexError`, and other kinds with `TraceError`, at the user's line.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import array_atom
from symdiff.ir.node import Atom, Constant, Node
from symdiff.vocabulary.extents import Extent, written_out
from symdiff.vocabulary.heads import Shape, Slice


def is_basic(key: Any) -> bool:
    """Whether NumPy gives a view for this index."""
    parts = key if isinstance(key, tuple) else (key,)
    return all(p is None or p is Ellipsis or (isinstance(p, (int, np.integer, slice)) and p is not True and p is not False)
               for p in parts)  # fmt: skip


def view_key(key: Any) -> tuple[Any, ...]:
    """A basic index with an ellipsis, for which NumPy gives a view even of a single cell."""
    parts = key if isinstance(key, tuple) else (key,)
    return parts if any(p is Ellipsis for p in parts) else (*parts, Ellipsis)


def normal_slice(part: slice, n: int) -> Slice:
    """A slice with its ends written out; one that runs down to the first cell has no stop."""
    if any(isinstance(end, Extent) for end in (n, part.start, part.stop)):
        return written_out(part, n)
    start, stop, step = part.indices(n)
    count = len(range(start, stop, step))
    if count == 0:
        return (0, 0, 1)
    if step < 0:
        return (start, stop if stop >= 0 else None, step)
    return (start, min(stop, start + (count - 1) * step + 1), step)


def normal_key(key: Any, rank: int, origin: str) -> list[Any]:
    """The parts of an index, one for each axis (and each None), the ellipsis and trailing slices written out."""
    parts = list(key) if isinstance(key, tuple) else [key]
    parts = [np.asarray(p) if isinstance(p, (list, np.ndarray)) else p for p in parts]
    used = sum(
        p.ndim if isinstance(p, np.ndarray) and p.dtype == bool else 1 for p in parts if p is not None and p is not Ellipsis
    )
    if used > rank:
        raise IndexError(f"{origin}: too many indices: {used} for an array with {rank} axes")
    dots = [i for i, p in enumerate(parts) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError(f"{origin}: an index can only have a single ellipsis")
    place = dots[0] if dots else len(parts)
    return [*parts[:place], *[slice(None)] * (rank - used), *parts[place + 1 :]]


def bind_item(arrays: Arrays, x: Atom, key: Any) -> Atom:
    """`x[key]`."""
    origin = arrays.origin
    parts = normal_key(key, len(x.shape), origin)
    taken: list[Any] = []  # for each axis, the integers it is indexed by, traced ones as a symbol
    slices: list[Slice] = []
    widened: list[int] = []
    axis = 0
    for part in parts:
        if part is None:
            slices.append((0, 1, 1))
            taken.append(None)
            widened.append(1)
            continue
        if isinstance(part, np.ndarray) and part.dtype == bool:
            if part.shape != x.shape[axis : axis + part.ndim]:
                raise IndexError(f"{origin}: a mask of shape {part.shape} for axes {x.shape[axis : axis + part.ndim]}")
            for found in np.nonzero(part):
                slices.append((0, x.shape[axis], 1))
                taken.append(found)
                widened.append(x.shape[axis])
                axis += 1
            continue
        n = x.shape[axis]
        if isinstance(part, slice):
            slices.append(normal_slice(part, n))
            taken.append(None)
        else:
            slices.append((0, n, 1))
            taken.append(part if isinstance(part, Node) else _checked(part, n, axis, origin))
        widened.append(n)
        axis += 1
    x = arrays.reshape(x, tuple(widened))
    integers = [t for t in taken if t is not None]
    if not any(isinstance(t, Node) for t in integers) and all(t.ndim == 0 for t in integers):
        key_of_region = tuple(s if t is None else (t.item(), t.item() + 1, 1) for s, t in zip(slices, taken, strict=True))
        if integers and len(integers) == len(taken) and (len(taken) == 1 or all(isinstance(n, int) for n in x.shape)):
            flat = integers[0].item() if len(taken) == 1 else int(np.ravel_multi_index([int(t) for t in integers], x.shape))
            return arrays.builder.bind("item", (x,), (), x.dtype or "d", flat, origin)
        found = arrays.getitem(x, key_of_region)
        return arrays.reshape(found, tuple(n for n, t in zip(found.shape, taken, strict=True) if t is None))
    found = arrays.getitem(x, tuple(slices))
    return _gathered(arrays, found, taken, _is_apart(key))


def _checked(part: Any, n: int, axis: int, origin: str) -> np.ndarray:
    found = np.asarray(part)
    if found.size == 0:
        found = found.astype(np.intp)
    if found.dtype.kind not in "iu":
        raise TraceError(f"{origin}: an index of type {found.dtype}; integers, slices and masks are possible")
    if isinstance(n, Extent) and found.ndim == 0:
        place = int(found) if found >= 0 else n + int(found)
        if not (place >= 0 and place < n):
            raise IndexError(f"{origin}: index {found} is out of bounds for axis {axis} with size {n}")
        return np.asarray(place)
    if found.size and (found.min() < -n or found.max() >= n):
        worst = int(found.min() if found.min() < -n else found.max())
        raise IndexError(f"{origin}: index {worst} is out of bounds for axis {axis} with size {n}")
    return np.where(found < 0, found + n, found).astype(np.intp)


def _is_apart(key: Any) -> bool:
    """Whether an ellipsis, even one that stands for no axis, lies between integer indices."""
    parts = list(key) if isinstance(key, tuple) else [key]
    if not any(p is Ellipsis for p in parts):
        return False
    place = next(i for i, p in enumerate(parts) if p is Ellipsis)
    integers = [not isinstance(p, slice) and p is not None and p is not Ellipsis for p in parts]
    return any(integers[:place]) and any(integers[place:])


def _gathered(arrays: Arrays, x: Atom, taken: list[Any], apart: bool = False) -> Atom:
    """Integer arrays on some axes: these axes are merged into one, from which rows are taken."""
    places = [axis for axis, t in enumerate(taken) if t is not None]
    others = [axis for axis, t in enumerate(taken) if t is None]
    integers = [t for t in taken if t is not None]
    sizes = tuple(x.shape[a] for a in places)
    rest = tuple(x.shape[a] for a in others)
    rows = arrays.reshape(arrays.transpose(x, (*places, *others)), (int(np.prod(sizes)), *rest))
    if any(isinstance(t, Node) for t in integers):
        flat = flat_places(arrays, integers, sizes)
        found = arrays.bind("gather", rows, flat)
    else:
        together = np.broadcast_arrays(*integers)
        flat = np.ravel_multi_index(tuple(together), sizes) if together[0].size else np.zeros(together[0].shape, np.intp)
        found = bind_take(arrays, rows, flat)
    adjacent = places[-1] - places[0] == len(places) - 1
    if apart or not adjacent or places[0] == 0:
        return found
    k, before = len(flat.shape), places[0]
    order = (*range(k, k + before), *range(k), *range(k + before, k + len(rest)))
    return arrays.transpose(found, order)


def flat_places(arrays: Arrays, integers: list[Any], sizes: Shape) -> Any:
    """Places along several axes as places in the merged one."""
    total: Any = None
    known: Any = None  # what constants add
    for part, n in zip(integers, sizes, strict=True):
        if known is not None:
            known = known * n
        if total is not None:
            total = arrays.emit("mul", total, Constant(n))
        if isinstance(part, Node):
            total = part if total is None else arrays.emit("add", total, part)
        else:
            known = part.astype(float) if known is None else known + part
    if known is None or total is None:
        return array_atom(known) if total is None else total
    return total if not known.shape and known == 0 else arrays.emit("add", total, array_atom(known))


def bind_take(arrays: Arrays, x: Atom, indices: np.ndarray) -> Atom:
    """Rows of x, by an integer array that is not negative."""
    indices = np.array(indices, dtype=np.intp)
    indices.flags.writeable = False
    return arrays.bind("take", x, indices=indices)


def bind_along(arrays: Arrays, x: Atom, indices: Any, axis: int) -> Atom:
    """x with the cells of one axis picked by constant integers."""
    n = x.shape[axis]
    found = _checked(indices, n, axis, arrays.origin)
    parts: list[np.ndarray | None] = [None] * len(x.shape)
    parts[axis] = found
    return _gathered(arrays, x, parts)


def region_key(shape: Shape, axis: int, part: slice) -> tuple[Slice, ...]:
    """The index of a slice along one axis."""
    return tuple(normal_slice(part if a == axis else slice(None), n) for a, n in enumerate(shape))

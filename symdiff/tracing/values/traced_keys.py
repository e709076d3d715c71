"""`x[key]` and `x[key] = value` where the key holds traced integers or a traced mask.

Assumes NumPy's indices: integers and arrays of them, slices, None, masks. Guarantees the cells that NumPy picks or assigns to,
negative places counted from the end, and `IndexError` at the arguments where NumPy raises it. Ends of slices must be known,
and become conditions. Refuses, with `TraceError`, floating numbers as an index.
"""

import itertools
import math
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import bind_item, flat_places, is_basic, normal_key
from symdiff.ir.building import active_builders
from symdiff.tracing.values.integers import Integer, is_integer_value, traced_range
from symdiff.tracing.values.kinds import kind_of_several, traced_form
from symdiff.tracing.values.selecting import Selected, is_same_mask, pattern
from symdiff.tracing.values.storage import Lens, Storage, View, same_key, storage_memory
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary.libraries import user_line


def traced_key_parts(key: Any) -> list[Any]:
    """The parts of an index; lists of traced integers become arrays."""
    parts = list(key) if isinstance(key, tuple) else [key]
    return [_gathered_list(p) if isinstance(p, list) and any(isinstance(c, Tracer) for c in p) else p for p in parts]


def is_traced_key(key: Any) -> bool:
    """Whether a part of an index, or the end of a slice, is traced."""
    for part in key if type(key) is tuple else (key,):
        if isinstance(part, Tracer):
            return True
        inside = part if type(part) is list else (part.start, part.stop, part.step) if type(part) is slice else ()
        if any(isinstance(c, Tracer) for c in inside):
            return True
    return False


def item_of(cells: Any, key: Integer) -> Any:
    """`cells[key]` of a list or tuple: of numbers a traced one, of anything else the item at the key, which must be known."""
    if not cells or not all(isinstance(c, (int, float, complex, np.number)) or _is_number(c) for c in cells):
        return cells[key.decided()]
    objects = np.empty(len(cells), dtype=object)
    objects[:] = cells
    found = read(objects, key, user_line()).of_kind(kind_of_several([traced_form(c) for c in cells], key.decided))
    return Integer.of(found) if all(map(is_integer_value, cells)) else found


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Tracer) and cell.shape == () and cell.dtype.kind != "b"


def _gathered_list(cells: list[Any]) -> Any:
    whole = all(map(is_integer_value, cells))
    found = np.stack([np.asarray(c, dtype=float) if not isinstance(c, Tracer) else c for c in cells])
    return Integer.of(found) if whole else found


def _checked_parts(key: Any) -> list[Any]:
    """The parts of an index, slices with known ends; masks among other parts are taken as they are."""
    parts = traced_key_parts(key)
    alone = _first_mask(parts) is not None
    found: list[Any] = []
    for part in parts:
        if isinstance(part, slice):
            part = slice(*(end.decided() if isinstance(end, Integer) else end for end in (part.start, part.stop, part.step)))
        elif isinstance(part, Tracer) and part.dtype.kind == "b" and part.ndim and not alone:
            part = pattern(part)
        elif isinstance(part, Tracer) and not isinstance(part, Integer) and not (part.dtype.kind == "b" and part.ndim):
            raise part._refuse("an index", "write int(x), or x.astype(int) for an array of them; np.where takes a condition")
        found.append(part)
    return found


def _first_mask(parts: list[Any]) -> Any:
    """A traced mask of the first axes, with at most integers and slices behind it; None for other indices."""
    first = parts[0] if parts else None
    masks = isinstance(first, Tracer) and first.dtype.kind == "b" and first.ndim > 0
    return first if masks and is_basic(tuple(parts[1:])) and None not in parts[1:] and Ellipsis not in parts[1:] else None


def _behind(mask: Any, parts: list[Any]) -> tuple[Any, ...]:
    """The parts behind a mask, as an index of the array before the mask is applied."""
    return (slice(None),) * mask.ndim + tuple(parts[1:])


def read(x: Any, key: Any, origin: str) -> Any:
    """`x[key]`."""
    store = _given_in_rounds(x, key)
    if store is not None:
        return store.read(*store.loop.cell(key, x))
    parts = _checked_parts(key)
    if not any(isinstance(p, Tracer) for p in parts):
        return x[tuple(parts)]
    builder = traced_builder([x, *parts])
    mask = _first_mask(parts)
    if mask is not None:
        return _selected(x[_behind(mask, parts)] if len(parts) > 1 else x, mask, origin)
    outer = _outermost(x, parts) if isinstance(x, Tracer) and len(parts) == x.ndim else None
    if outer is not None:
        rest = tuple(p for k, p in enumerate(parts) if k != outer)
        return (np.moveaxis(x, outer, 0) if outer else x)[parts[outer]][rest]
    shape = np.shape(x)
    atoms = tuple(traced_atom(p, builder, origin) if isinstance(p, Tracer) else p for p in _bounded(parts, shape, origin))
    atom = bind_item(Arrays(builder, origin), traced_atom(x, builder, origin), atoms)
    found = Tracer(builder, atom)  # type: ignore[arg-type]
    if isinstance(x, Integer) or (isinstance(x, np.ndarray) and x.dtype.kind in "iu"):
        found = Integer.of(found)
    single = all(not isinstance(p, (Tracer, np.ndarray)) or p.ndim == 0 for p in parts)
    if not single or not (found.shape or any(p is Ellipsis for p in parts)):
        return found
    if not isinstance(x, Tracer):
        storage: Any = Storage(
            builder, atom, found.dtype.char, "a row of an array made elsewhere is assigned to; copy it first"
        )
    else:
        storage = _row(x, parts, atoms, found)
    return found.like(View.over(storage))


def _outermost(x: Tracer, parts: list[Any]) -> int | None:
    """Of single places, the axis of one that an outer run has, whose row is the same in all rounds of the inner one."""
    levels = [p.builder.level for p in parts if isinstance(p, Integer) and not p.ndim]
    if len(levels) < len(parts) or min(levels) == max(levels) or x.builder.level > min(levels):
        return None
    return levels.index(min(levels))


def _row(x: Tracer, parts: list[Any], atoms: tuple[Any, ...], found: Tracer) -> Lens:
    """The storage of `x[parts]` at traced places."""

    def load() -> Any:
        return bind_item(Arrays(found.builder, user_line()), traced_atom(x, found.builder, user_line()), atoms)

    def save(atom: Any) -> None:
        value = found.like(atom)
        if None in parts:
            value = np.reshape(value, _without_new_axes(tuple(parts), found.shape))
        write(x, tuple(p for p in parts if p is not None), value, user_line())

    of = x._place()[tuple(0 if isinstance(p, Tracer) else p for p in parts)]
    return Lens(x.shared(), tuple(parts), found.shape, found.dtype.char, load, save, storage_memory(of.shape, of.strides))


def _given_in_rounds(x: Any, key: Any, writes: bool = False) -> Any:
    """Where the cells of an array are that rounds of a loop that is kept give one by one; None for other arrays."""
    builders = active_builders()
    path = builders[-1].path if builders else None
    return path.loop.store_of(x, writes) if path is not None and path.is_round and isinstance(x, Tracer) else None


def _selected(x: Any, mask: Tracer, origin: str) -> Any:
    if np.shape(x)[: mask.ndim] != mask.shape:
        raise IndexError(f"{origin}: a mask of shape {mask.shape} for an array of shape {np.shape(x)}")
    if isinstance(x, Tracer):
        return Selected.of(x.like(x.atom), mask.like(mask.atom))
    wide = mask.reshape((*mask.shape, *(1,) * (np.ndim(x) - mask.ndim)))
    return Selected.of(np.where(wide, x, 0.0), mask)  # type: ignore[call-overload]


def _bounded(parts: list[Any], shape: tuple[int, ...], origin: str) -> list[Any]:
    """The parts, one for each axis, with traced places checked and counted from the front."""
    found: list[Any] = []
    axis = 0
    for part in normal_key(tuple(parts), len(shape), origin):
        if isinstance(part, Integer):
            part = _from_front(part, shape[axis], axis)
        found.append(part)
        axis += 0 if part is None else part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1
    return found


def _from_front(place: Integer, n: int, axis: int) -> Any:
    """Places among n cells, negative ones counted from the end."""
    known = traced_range(place)
    safe = not known.nan and -n <= known.low and known.high < n
    outside = None if safe else np.logical_or(place < -n, np.logical_not(place < n))
    if outside is not None and np.any(outside):
        raise IndexError(f"index is out of bounds for axis {axis} with size {n}")
    return place if known.low >= 0 else Integer.of(np.where(place < 0, place + n, place))  # type: ignore[call-overload]


# -- assignment


def write(target: Any, key: Any, value: Any, origin: str) -> None:
    """`target[key] = value`."""
    store = _given_in_rounds(target, key, True)
    if store is not None:
        store.write(*store.loop.cell(key, target), value, active_builders()[-1])
        return
    parts = _checked_parts(key)
    held = value.held if isinstance(value, Tracer) else None
    lens = None if held is None or held.place is not held.storage.memory else held.storage
    if isinstance(lens, Lens) and lens.of.is_at(target.shared()) and same_key(lens.key, tuple(parts)):
        return  # where `A[k] *= 2` ends by assigning the row to itself
    if not any(isinstance(p, Tracer) for p in parts):
        target[tuple(parts)] = value
    elif _first_mask(parts) is not None:
        mask = parts[0]
        _write_selected(target[_behind(mask, parts)] if len(parts) > 1 else target, mask, value, origin)
    elif any(isinstance(p, Tracer) and p.ndim for p in parts):
        _write_each(target, parts, value, origin)
    else:
        _write_place(target, parts, value, origin)


def _write_selected(target: Any, mask: Tracer, value: Any, origin: str) -> None:
    rest = target.ndim - mask.ndim
    if target.shape[: mask.ndim] != mask.shape:
        raise IndexError(f"{origin}: a mask of shape {mask.shape} for an array of shape {target.shape}")
    if (
        isinstance(value, Selected)
        and value.parts.values is not None
        and is_same_mask(value.parts.mask, mask)
        and value.parts.values.ndim == target.ndim
    ):
        value = value.parts.values
    elif isinstance(value, Selected) or np.ndim(value) > rest:
        target[pattern(mask)] = value
        return
    target[...] = np.where(mask.reshape((*mask.shape, *(1,) * rest)), value, target)  # type: ignore[call-overload]


def _write_each(target: Any, parts: list[Any], value: Any, origin: str) -> None:
    """Arrays of places, one after the other, so that of equal ones the last wins; places and values as they were before."""
    parts, value = [_as_they_are(p) for p in parts], _as_they_are(value)
    places = [p for p in parts if isinstance(p, (Tracer, np.ndarray, list, int, np.integer)) and not isinstance(p, slice)]
    if len(places) != len(parts):
        raise TraceError(f"{origin}: traced places beside slices, None or an ellipsis are assigned to; assign row by row")
    shape = np.broadcast_shapes(*(np.shape(p) for p in places))
    rest = target.shape[len(places) :]
    values = np.broadcast_to(value, (*shape, *rest))
    spread = [np.broadcast_to(p, shape) for p in places]
    for at in np.ndindex(shape):
        cell = values[at] if shape else values
        target[tuple(p[at] if isinstance(p, Tracer) else int(p[at]) for p in spread)] = cell


def _as_they_are(value: Any) -> Any:
    """A value that sees no later change of an array that it shows."""
    return value.like(value.atom) if isinstance(value, Tracer) else value


def _write_place(target: Any, parts: list[Any], value: Any, origin: str) -> None:
    """Single places, beside slices."""
    written = normal_key(tuple(parts), target.ndim, origin)
    if any(p is None for p in written):
        raise TraceError(f"{origin}: traced places beside None are assigned to; leave the new axis away")
    bounded = _bounded(parts, target.shape, origin)
    leading = list(itertools.takewhile(lambda p: not isinstance(p, slice), bounded))
    whole = all(_is_all(p, n) for p, n in zip(bounded[len(leading) :], target.shape[len(leading) :], strict=True))
    if whole and target.dtype.char in "fdFD" and not (np.iscomplexobj(value) and target.dtype.kind == "f"):
        _write_rows(target, leading, value, origin)
    else:
        _write_where(target, written, bounded, value)


def _is_all(part: Any, n: int) -> bool:
    return isinstance(part, slice) and part.indices(n) == (0, n, 1)


def _write_rows(target: Any, places: list[Any], value: Any, origin: str) -> None:
    """The row at places of the first axes."""
    builder = traced_builder([target, value, *places])
    arrays, sizes, rest = Arrays(builder, origin), target.shape[: len(places)], target.shape[len(places) :]
    known = [traced_atom(p, builder, origin) if isinstance(p, Tracer) else np.asarray(p) for p in places]
    at = flat_places(arrays, known, sizes)
    value = np.broadcast_to(value, rest) if np.ndim(value) else value
    row = builder.cast(traced_atom(value, builder, origin), target.dtype.char)
    rows = arrays.reshape(traced_atom(target, builder, origin), (math.prod(sizes), *rest))
    found = arrays.bind("assign_at", rows, at, arrays.broadcast_to(row, rest))
    target[...] = Tracer(builder, arrays.reshape(found, target.shape))  # type: ignore[arg-type]


def _write_where(target: Any, written: list[Any], bounded: list[Any], value: Any) -> None:
    """Single places beside slices: every cell that may be meant becomes a selection between the value and what it was."""
    whole = tuple(slice(None) if isinstance(p, Integer) else p for p in written)
    region = target if all(p == slice(None) for p in whole) else target[whole]
    here: Any = None
    axes = []
    axis = 0
    for part in bounded:
        if isinstance(part, Integer):
            shape = tuple(-1 if k == axis else 1 for k in range(region.ndim))
            hit = np.equal(part, np.arange(region.shape[axis]).reshape(shape))
            here = hit if here is None else np.logical_and(here, hit)
            axes.append(axis)
        axis += isinstance(part, (Integer, slice))
    if np.ndim(value):
        rest = tuple(n for k, n in enumerate(region.shape) if k not in axes)
        value = np.expand_dims(np.broadcast_to(value, rest), tuple(axes))
    region[...] = np.where(here, value, region)


def _without_new_axes(key: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a view without the axes that None made in it."""
    kept = [p for p in key if p is None or p is Ellipsis or isinstance(p, slice)]
    dots = kept.index(Ellipsis) if Ellipsis in kept else len(kept)
    behind = len(kept) - dots - 1
    new = {k for k, p in enumerate(kept[:dots]) if p is None}
    new |= {len(shape) - behind + k for k, p in enumerate(kept[dots + 1 :]) if p is None}
    return tuple(n for k, n in enumerate(shape) if k not in new)

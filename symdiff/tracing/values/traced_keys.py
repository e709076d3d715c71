"""`x[key]` and `x[key] = value` where the key holds traced integers or a traced mask.

Assumes NumPy's indices: integers and arrays of them, slices, None, masks. Guarantees the cells that NumPy picks or assigns to,
negative places counted from the end, and `IndexError` at the arguments where NumPy raises it. Ends of slices that a round of a
loop tells are traced as well (`spans`, `stretches`); others must be known, and become conditions. Refuses, with `TraceError`,
floating numbers as an index.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import bind_item, flat_places, is_basic, normal_key
from symdiff.ir.building import active_builders
from symdiff.tracing.values.integers import (
    Integer,
    dtype_of_integer,
    integers_among,
    integers_of,
    is_integer_value,
    traced_range,
)
from symdiff.tracing.values.kinds import kind_of_several, traced_form
from symdiff.tracing.values.layouts import lying_as
from symdiff.tracing.values.selecting import Selected, is_same_mask, pattern
from symdiff.tracing.values.spans import Span, backward_span, is_span, span_of
from symdiff.tracing.values.storage import Lens, Storage, View, read_late, same_key, storage_memory
from symdiff.tracing.values.stretches import Stretch, as_it_is, indexed, stretched_key
from symdiff.tracing.values.tracer import PLAIN_NUMBERS, Tracer, raises_behind, traced_atom, traced_builder
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.plain import loses_digits


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
    numbers = all(type(c) in PLAIN_NUMBERS or isinstance(c, (np.number, np.bool_)) or _is_number(c) for c in cells)
    truths = all(type(c) is bool or (isinstance(c, Tracer) and c.dtype.kind == "b" and not c.shape) for c in cells)
    if not cells or not (numbers or truths):
        return cells[key.decided()]
    objects = np.empty(len(cells), dtype=object)
    objects[:] = cells
    found = read(objects, key, user_line()).of_kind(kind_of_several([traced_form(c) for c in cells], key.decided))
    one = integers_among(found, cells)
    return cells[key.decided()] if one is None else one


def value_of(table: dict[Any, Any], key: Integer) -> Any:
    """`table[key]` where the keys are integers that lie close together; None for other tables."""
    if key.shape or not table or not all(type(k) is int for k in table):
        return None
    least, most = min(table), max(table)
    if most - least >= _SPARSE * len(table):
        return None
    places = [-1] * (most - least + 1)
    for place, k in enumerate(table):
        places[k - least] = place
    missing = KeyError(f"{user_line()}: a traced key")
    at, known = Integer.of(Tracer._binary(key, "sub", key, least)), traced_range(key)
    if known.nan or known.low < least or known.high > most:
        outside = np.logical_not(np.logical_and(at >= 0, at < len(places)))
        if raises_behind(outside, missing):
            at = Integer.of(np.where(outside, 0.0, at))
    place = item_of(places, at)
    if -1 in places and raises_behind(place < 0, missing):
        place = Integer.of(np.where(place < 0, 0.0, place))
    return item_of([*table.values()], place)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, Tracer) and cell.shape == () and cell.dtype.kind != "b"


def _gathered_list(cells: list[Any]) -> Any:
    whole = all(map(is_integer_value, cells))
    found = np.stack([np.asarray(c, dtype=float) if not isinstance(c, Tracer) else c for c in cells])
    return Integer.of(found) if whole else found


def _checked_parts(key: Any, x: Any) -> list[Any]:
    """The parts of an index, slices with ends that are known or that rounds tell, these forwards; masks among other parts are
    taken as they are.
    """
    parts = traced_key_parts(key)
    alone = _first_mask(parts) is not None
    if any(map(is_span, parts)) and _may_stretch(x, parts):
        shape = iter(np.shape(x))
        parts = normal_key(tuple(parts), np.ndim(x), user_line())
        return [p if p is None else _forward(p, next(shape)) for p in parts]
    found = []
    for part in parts:
        if isinstance(part, slice):
            part = slice(*(end.decided() if isinstance(end, Integer) else end for end in (part.start, part.stop, part.step)))
        elif isinstance(part, Tracer) and part.dtype.kind == "b" and part.ndim and not alone:
            part = pattern(part)
        elif isinstance(part, Tracer) and not isinstance(part, Integer) and not (part.dtype.kind == "b" and part.ndim):
            raise part._refuse("an index", "write int(x), or x.astype(int) for an array of them; np.where takes a condition")
        found.append(part)
    return found


def _may_stretch(x: Any, parts: list[Any]) -> bool:
    """Whether slices of which rounds tell the ends may stay as they are, beside single places and other slices."""
    array = isinstance(x, Tracer) or (isinstance(x, np.ndarray) and x.dtype.kind in "fciu")
    places = (p for p in parts if not isinstance(p, slice) and p is not None and p is not Ellipsis)
    return array and all(isinstance(p, (int, np.integer, Integer)) and not np.ndim(p) for p in places)


def _forward(part: Any, n: int) -> Any:
    """A part of an index; of a slice backwards, the same cells forwards."""
    if not is_span(part) or part.step != -1:
        return part
    span = backward_span(part, n)
    return slice(span.start, span.start + span.length)


def _turned(key: Any, x: Any) -> tuple[Any, ...] | None:
    """The index that turns the axes of `x[key]` of which rounds tell slices backwards; None where there are none."""
    parts = normal_key(key, np.ndim(x), user_line()) if isinstance(key, (slice, tuple)) else []
    if not any(is_span(p) and p.step == -1 for p in parts):
        return None
    kept = [p for p in parts if p is None or isinstance(p, slice)]
    return tuple(slice(None, None, -1) if p is not None and is_span(p) and p.step == -1 else slice(None) for p in kept)


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
    if isinstance(key, Stretch):
        return indexed(x, key)
    parts = _checked_parts(key, x)
    if any(map(is_span, parts)):
        own, parts_of_own = _of_row(x, tuple(parts))
        if own is not x:
            return read(own, parts_of_own, origin)
    turned = _turned(key, x) if any(map(is_span, parts)) else None
    if turned is not None:
        return read(x, tuple(parts), origin)[turned]
    if not any(isinstance(p, Tracer) or is_span(p) for p in parts):
        return x[tuple(parts)]
    found = _stretch(x, parts, origin)
    if found is not None:
        return found
    builder = traced_builder([x, *parts, *(end for p in parts if is_span(p) for end in (p.start, p.stop))])
    mask = _first_mask(parts)
    if mask is not None:
        return _selected(x[_behind(mask, parts)] if len(parts) > 1 else x, mask, origin)
    outer = _outermost(x, parts) if isinstance(x, Tracer) and len(parts) == x.ndim else None
    if outer is not None:
        rest = tuple(p for k, p in enumerate(parts) if k != outer)
        return (np.moveaxis(x, outer, 0) if outer else x)[parts[outer]][rest]
    bounded = _bounded(parts, np.shape(x), origin)

    def load() -> Any:
        active_builders().append(builder)  # also where a round within asks
        try:
            return _loaded(x, bounded, builder, origin)
        finally:
            active_builders().pop()

    found = Tracer(builder, load())
    if isinstance(x, Integer) or (isinstance(x, np.ndarray) and x.dtype.kind in "iu"):
        found = integers_of(found, dtype_of_integer(x), "")
    if found.ndim > 1 and not any(map(is_span, parts)):
        lying_as(found, (x._place() if isinstance(x, Tracer) else x)[tuple(map(_first_place, parts))])
    single = all(not isinstance(p, (Tracer, np.ndarray)) or p.ndim == 0 for p in parts)
    if not single or not (found.shape or any(p is Ellipsis for p in parts)):
        return found
    if not isinstance(x, Tracer):
        storage = Storage(
            builder, found.atom, found.dtype.char, "a row of an array made elsewhere is assigned to; copy it first"
        )
    else:
        storage = _row(x, parts, bounded, load, found)
    return found.like(View.over(storage))


def _stretch(x: Any, parts: list[Any], origin: str) -> Any:
    """`x[parts]`, of which slices have other numbers of cells in other rounds; None for other parts."""
    found = stretched_key(parts, np.shape(x)) if any(map(is_span, parts)) else None
    if found is None:
        return None
    key, spans = found
    values = read(x, key, origin) if is_traced_key(key) else x[key]
    return Stretch.of(values, spans, x if isinstance(x, Tracer) and None not in key else None, key)


def _loaded(x: Any, bounded: list[Any], builder: Any, origin: str) -> Any:
    """The cells at places that are within bounds."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iu" and not loses_digits(x):
        x = x.astype(float)  # as traced integers are
    arrays, atom = Arrays(builder, origin), traced_atom(x, builder, origin)
    grid = _grid(arrays, bounded, np.shape(x))
    if grid is None:
        atoms = tuple(traced_atom(p, builder, origin) if isinstance(p, Tracer) else p for p in bounded)
        return bind_item(arrays, atom, atoms)
    found = arrays.bind("gather", arrays.reshape(atom, (grid.size, *atom.shape[grid.axes :])), grid.at)
    return bind_item(arrays, found, grid.rest) if any(p != slice(None) for p in grid.rest) else found


_SPARSE = 8  # integers among which one is a key


class Grid(NamedTuple):
    """Places along the first axes of an array as places in the merged one; what is left of the index, of what is there."""

    at: Any
    axes: int
    size: int
    rest: tuple[Any, ...]


def _grid(arrays: Arrays, bounded: list[Any], shape: Shape, axes: int = 0) -> Grid | None:
    """The places that an index with traced ones tells, of `axes` at least; None where these come first, and are single, and
    where it has arrays beside slices.
    """
    parts = [p for p in bounded if p is not None]
    traced = [k for k, p in enumerate(parts) if isinstance(p, (Tracer, Span))]
    ahead = parts[: traced[-1] + 1]
    if any(isinstance(p, np.ndarray) or np.ndim(p) for p in parts if not isinstance(p, (Span, slice))):
        if not axes or any(isinstance(p, (Span, slice)) for p in parts[:axes]):
            return None
        own = [_places(p, n) for p, n in zip(parts, shape[:axes], strict=False)]
        atoms = [traced_atom(p, arrays.builder, arrays.origin) if isinstance(p, Tracer) else p for p in own]
        return Grid(flat_places(arrays, atoms, shape[:axes]), axes, math.prod(shape[:axes]), ())
    if not axes and all(isinstance(p, (Tracer, int, np.integer)) for p in ahead):
        return None
    axes = axes or len(ahead)
    own = [_places(p, n) for p, n in zip(parts[:axes], shape[:axes], strict=True)]
    rank = sum(bool(np.ndim(p)) for p in own)
    places, k = [], 0
    for p in own:
        if np.ndim(p):
            k += 1
            p = p.reshape((-1,) + (1,) * (rank - k))
        places.append(traced_atom(p, arrays.builder, arrays.origin) if isinstance(p, Tracer) else p)
    rest = [slice(None) if isinstance(p, Span) else p for p in bounded]
    seen = 0
    for place, part in enumerate(bounded):
        if part is not None:
            rest[place] = part if seen >= axes else slice(None) if isinstance(part, (Span, slice)) else Ellipsis
            seen += 1
    kept = tuple(p for p in rest if p is not Ellipsis)
    return Grid(flat_places(arrays, places, shape[:axes]), axes, math.prod(shape[:axes]), kept)


def _outermost(x: Tracer, parts: list[Any]) -> int | None:
    """Of single places, the axis of one that an outer run has, whose row is the same in all rounds of the inner one."""
    levels = [p.builder.level for p in parts if isinstance(p, Integer) and not p.ndim]
    if len(levels) < len(parts) or max(min(levels), x.builder.level) >= max(levels):
        return None
    return levels.index(min(levels))


def _first_place(part: Any) -> Any:
    """A part of an index as NumPy takes it, the first places for traced ones."""
    return np.zeros_like(part._place(), int)[... if part.shape else ()] if isinstance(part, Tracer) else part


def _places(part: Any, n: int) -> Any:
    """The places among n cells that a part of an index tells, counted from the front."""
    if isinstance(part, Tracer):
        return part
    if isinstance(part, Span):
        return part.start + np.arange(part.length)
    return np.arange(n)[part]


def _row(x: Tracer, parts: list[Any], bounded: list[Any], load: Callable[[], Any], found: Tracer) -> Lens:
    """The storage of `x[parts]` at traced places."""

    def save(atom: Any) -> None:
        value = found.like(atom)
        if None in parts:
            value = np.reshape(value, _without_new_axes(tuple(parts), found.shape))
        write(x, tuple(p for p in parts if p is not None), value, user_line())

    of = x._place()[tuple(0 if isinstance(p, Tracer) else slice(p.length) if isinstance(p, Span) else p for p in bounded)]
    layout = storage_memory(of.shape, of.strides)
    return Lens(x.shared(), tuple(parts), found.shape, found.dtype.char, load, save, layout, found.builder, x)


def _of_row(x: Any, key: Any) -> tuple[Any, Any]:
    """For `x`, a row `y[i]` at traced places, and what it is indexed by, `y` and both indices."""
    held = x.held if isinstance(x, Tracer) else None
    lens = None if held is None or held.place is not held.storage.memory else held.storage
    parts = key if type(key) is tuple else (key,)
    if not isinstance(lens, Lens) or lens.array is None or not all(map(_is_place, lens.key)):
        return x, key
    if not all(_is_place(p) or isinstance(p, slice) or is_span(p) for p in parts):
        return x, key
    return _of_row(lens.array, (*lens.key, *parts))


def _is_place(part: Any) -> bool:
    """Whether a part of an index is a single place."""
    return isinstance(part, (int, np.integer)) or (isinstance(part, Integer) and not part.shape)


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


def _bounded(parts: list[Any], shape: Shape, origin: str) -> list[Any]:
    """The parts, one for each axis, with traced places checked and counted from the front."""
    found = []
    axis = 0
    for part in normal_key(tuple(parts), len(shape), origin):
        if isinstance(part, Integer):
            part = _from_front(part, shape[axis], axis)
        elif is_span(part):
            part = span_of(part, shape[axis], shape[axis])
        found.append(part)
        axis += 0 if part is None else part.ndim if isinstance(part, np.ndarray) and part.dtype == bool else 1
    return found


def _from_front(place: Integer, n: int, axis: int) -> Any:
    """Places among n cells, negative ones counted from the end."""
    known = traced_range(place)
    safe = not known.nan and -n <= known.low and known.high < n
    beyond = None if safe else np.logical_not(place < n) if known.nan else place >= n
    outside = None if safe else beyond if known.low >= -n else np.logical_or(place < -n, beyond)
    if outside is not None and raises_behind(outside, IndexError(f"index is out of bounds for axis {axis} with size {n}")):
        place = Integer.of(np.where(outside, 0.0, place))
        known = traced_range(place)
    from_front = Tracer._binary(place, "add", place, n)  # which fits, as the places do
    return place if known.low >= 0 else Integer.of(np.where(place < 0, from_front, place))


# -- assignment


def write(target: Any, key: Any, value: Any, origin: str) -> None:
    """`target[key] = value`."""
    target, key = _of_row(target, key)
    store = _given_in_rounds(target, key, True)
    if store is not None:
        store.write(*store.loop.cell(key, target), value, active_builders()[-1])
        return
    parts = _checked_parts(key, target)
    if any(map(is_span, parts)):
        turned = _turned(key, target)
        if turned is not None and np.ndim(value):
            value = value[turned[len(turned) - np.ndim(value) :]]
        found = _stretch(target, parts, origin)
        if found is not None:
            if not (isinstance(value, Stretch) and value.is_of(target, found)):
                found.assign(value)
            return
    if isinstance(value, Stretch):
        value._unknown()
    held = value.held if isinstance(value, Tracer) else None
    lens = None if held is None or held.place is not held.storage.memory else held.storage
    if isinstance(lens, Lens) and lens.of.is_at(target.shared()) and same_key(lens.key, tuple(parts)):
        return  # where `A[k] *= 2` ends by assigning the row to itself
    if held is not None and held.place.size > 1 and held.overlaps(target.shared()):
        found = target[key]
        if isinstance(found, Tracer) and found.held is not None and found.held.reads_written(held):
            raise read_late(origin)
    if not any(isinstance(p, Tracer) or is_span(p) for p in parts):
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
    target[...] = written_where(mask.reshape((*mask.shape, *(1,) * rest)), value, target)


def written_where(condition: Any, value: Any, target: Any) -> Any:
    """What an array becomes of which cells are written where a condition holds."""
    _check_shown_once(target)
    return np.where(condition, value, target)  # type: ignore[call-overload]


def _check_shown_once(target: Any) -> None:
    """Refuse views that show cells more than once: written as a whole, what they showed before stays of some."""
    if isinstance(target, Tracer) and target.held is not None and target.held.repeats():
        raise TraceError(f"{user_line()}: cells of an array that shows some more than once are assigned to; take a copy first")


def _write_each(target: Any, parts: list[Any], value: Any, origin: str) -> None:
    """Arrays of places, one after the other, so that of equal ones the last wins; places and values as they were before."""
    parts, value = [as_it_is(p) for p in parts], as_it_is(value)
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


def _write_place(target: Any, parts: list[Any], value: Any, origin: str) -> None:
    """Single places, beside slices."""
    written = normal_key(tuple(parts), target.ndim, origin)
    if any(p is None for p in written):
        raise TraceError(f"{origin}: traced places beside None are assigned to; leave the new axis away")
    bounded = _bounded(parts, target.shape, origin)
    if target.dtype.char not in "fdFD" or (np.iscomplexobj(value) and target.dtype.kind == "f"):
        _write_where(target, written, bounded, value)
        return
    leading = 1 + max(k for k, p in enumerate(bounded) if isinstance(p, (Tracer, Span)))
    whole = all(_is_all(p, n) for p, n in zip(bounded[leading:], target.shape[leading:], strict=True))
    _write_rows(target, bounded, leading if whole else target.ndim, value, origin)


def _is_all(part: Any, n: int) -> bool:
    return isinstance(part, slice) and part.indices(n) == (0, n, 1)


def _write_rows(target: Any, places: list[Any], axes: int, value: Any, origin: str) -> None:
    """The rows at places of the first axes."""
    builder = traced_builder([target, value, *places, *(p.start for p in places if isinstance(p, Span))])
    arrays, rest = Arrays(builder, origin), target.shape[axes:]
    grid = _grid(arrays, places, target.shape, axes)
    if grid is None:
        raise TraceError(f"{origin}: arrays of places beside slices and traced places are assigned to; assign row by row")
    _check_shown_once(target)
    cells = (*grid.at.shape, *rest)
    whole = isinstance(target, Integer) and is_integer_value(value)
    value = np.broadcast_to(value, cells) if np.ndim(value) else value
    row = builder.cast(traced_atom(value, builder, origin), target.dtype.char)
    rows = arrays.reshape(traced_atom(target, builder, origin), (grid.size, *rest))
    found = arrays.bind("assign_at", rows, grid.at, arrays.broadcast_to(row, cells))
    written = Tracer(builder, arrays.reshape(found, target.shape))  # type: ignore[arg-type]
    target[...] = Integer.of(written) if whole else written


def _write_where(target: Any, written: list[Any], bounded: list[Any], value: Any) -> None:
    """Single places beside slices: every cell that may be meant becomes a selection between the value and what it was."""
    for part in (p for p in written if is_span(p)):
        part.start.decided() if isinstance(part.start, Integer) else part.stop.decided()
    whole = tuple(slice(None) if isinstance(p, Integer) else p for p in written)
    region = target if all(p == slice(None) for p in whole) else target[whole]
    here = None
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
    region[...] = written_where(here, value, region)


def _without_new_axes(key: tuple[Any, ...], shape: Shape) -> Shape:
    """The shape of a view without the axes that None made in it."""
    kept = [p for p in key if p is None or p is Ellipsis or isinstance(p, slice)]
    dots = kept.index(Ellipsis) if Ellipsis in kept else len(kept)
    behind = len(kept) - dots - 1
    new = {k for k, p in enumerate(kept[:dots]) if p is None}
    new |= {len(shape) - behind + k for k, p in enumerate(kept[dots + 1 :]) if p is None}
    return tuple(n for k, n in enumerate(shape) if k not in new)

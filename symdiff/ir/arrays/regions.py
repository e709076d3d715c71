"""Regions of arrays: boxes of slices without steps, larger ones that they make up side by side, and places that are one.

Assumes keys as `heads` has them, all of one array. Guarantees that cells are covered as before. Boxes whose ends along an axis
are sizes known at a call only stay as they are along it.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.node import ArrayConstant, Atom, Constant
from symdiff.vocabulary.heads import Shape, Slice
from symdiff.vocabulary.steps import Steps, steps_of_table, steps_through

Key = tuple[Slice, ...]
Box = tuple[Key, Atom]  # where it is, and what it holds


def within(outer: Key, inner: Key) -> Key | None:
    """The region of a region; None where one of them has steps."""
    if any(step != 1 for *_, step in (*outer, *inner)):
        return None
    return tuple((start + first, start + last, 1) for (start, *_), (first, last, _) in zip(outer, inner, strict=True))


def overlap(region: Key, key: Key) -> tuple[Key, Key] | None:
    """What two regions have in common, as a region of each; None where one has steps, or an end known at a call only."""
    if any(step != 1 or not isinstance(start, int) or not isinstance(stop, int) for start, stop, step in (*region, *key)):
        return None
    ends = [(max(start, first), min(stop, last)) for (start, stop, _), (first, last, _) in zip(region, key, strict=True)]
    one, other = (
        tuple((low - start, max(low, high) - start, 1) for (low, high), (start, *_) in zip(ends, whole, strict=True))
        for whole in (region, key)
    )
    return one, other


def merged(boxes: Iterable[Box], axes: int, join: Callable[[list[Atom], int], Atom], overlapping: bool = False) -> list[Box]:
    """Boxes with those side by side along an axis, alike along the others, as one; `join(parts, axis)` tells what that holds.

    `overlapping`: boxes that have cells in common are joined, too.
    """
    found, count = list(boxes), 0
    while count != len(found):  # rows first may make up columns
        count = len(found)
        for axis in range(axes):
            rows: dict[Any, list[Box]] = {}
            for place, (key, value) in enumerate(found):
                start, stop, step = key[axis]
                known = step == 1 and isinstance(start, int) and isinstance(stop, int)
                rows.setdefault((*key[:axis], *key[axis + 1 :], value.dtype) if known else place, []).append((key, value))
            found = [box for row in rows.values() for box in _joined(row, axis, join, overlapping)]
    return found


def _joined(row: list[Box], axis: int, join: Callable[[list[Atom], int], Atom], overlapping: bool) -> list[Box]:
    """The boxes of one row, runs of them as one."""
    runs: list[tuple[int, int, list[Box]]] = []
    for box in sorted(row, key=lambda box: box[0][axis][0]):
        start, stop, _ = box[0][axis]
        if runs and (start == runs[-1][1] or (overlapping and start < runs[-1][1])):
            first, last, parts = runs.pop()
            runs.append((first, max(last, stop), [*parts, box]))
        else:
            runs.append((start, stop, [box]))
    if len(runs) == len(row):
        return row
    return [
        parts[0] if len(parts) == 1 else ((*key[:axis], (first, last, 1), *key[axis + 1 :]), join([v for _, v in parts], axis))
        for first, last, parts in runs
        for key in [parts[0][0]]
    ]


class Lattice(NamedTuple):
    """Places among rows as a region of the rows in another `shape`, whose axes come in another `order`."""

    shape: Shape
    key: Key
    order: tuple[int, ...]


def lattice_of(places: Atom, size: Any) -> Lattice | None:
    """Places that go up along axes by steps, each of which is a multiple of the next one; None for others."""
    found = _steps(places) if isinstance(size, int) else None
    if found is None:
        return None
    start, steps = found
    axes = sorted((a for a, n in enumerate(places.shape) if n > 1), key=lambda a: -steps[a])
    shape, key, over = [], [], size
    for axis in axes:
        step, many = steps[axis], places.shape[axis]
        if step < 1 or over % step:
            return None
        shape.append(over // step)
        key.append((start // step, start // step + many, 1))
        over, start = step, start % step
    shape, key = [*shape, over], [*key, (start, start + 1, 1)]
    if any(first < 0 or stop > n for (first, stop, _), n in zip(key, shape, strict=True)):
        return None
    return Lattice(tuple(shape), tuple(key), tuple(sorted(range(len(axes)), key=lambda k: axes[k])))


def _steps(x: Atom) -> Steps | None:
    """Whole numbers that go up along axes by steps; None for others."""
    if isinstance(x, (Constant, ArrayConstant)):
        return steps_of_table(np.asarray(x.value))
    return steps_through(x.op, x.shape, ((_steps(o), o.shape) for o in x.operands))

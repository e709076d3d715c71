"""Regions of arrays: boxes of slices without steps, and larger ones that they make up side by side.

Assumes keys as `heads` has them, all of one array. Guarantees that cells are covered as before. Boxes whose ends along an axis
are sizes known at a call only stay as they are along it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from symdiff.ir.node import Atom
from symdiff.vocabulary.heads import Slice

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

"""Places among cells of traced numbers: which is the largest, where a number falls among sorted ones, the cell at a place.

Assumes arrays of cells, some of them traced. Guarantees what NumPy's functions on whole arrays give: NaN is the largest, the
first of equal cells is found. A place out of bounds stands for the last one.
"""

import functools
from typing import Any

import numpy as np

from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.signatures import Function, Lookup


def _extreme_place(name: str) -> Function:
    """The head `argmax` or `argmin` over arrays of cells."""
    behind = np.less_equal if name == "argmax" else np.greater_equal

    def place(cells: np.ndarray) -> Any:
        best, found = cells[0], 0.0
        for k, cell in enumerate(cells[1:], 1):
            better = np.logical_and(np.logical_not(behind(cell, best)), np.equal(best, best))
            best, found = np.where(better, cell, best), np.where(better, float(k), found)
        return found

    def placed(x: Any, axis: int) -> Any:
        rows = np.moveaxis(x, axis, -1)
        found = np.empty(rows.shape[:-1], dtype=object)
        for lead in np.ndindex(found.shape):
            found[lead] = place(rows[lead])
        return found[()]

    return placed


def _searchsorted(a: Any, v: Any, side: str) -> Any:
    before = np.less_equal if side == "left" else np.less

    def is_last(cell: Any, x: Any) -> Any:
        """Whether a cell comes behind x as NaN, the largest one."""
        missing = np.isnan(cell)
        return missing if side == "left" else np.logical_and(missing, np.equal(x, x))

    def place(x: Any) -> Any:
        held = [before(x, c) if not is_traced(c) and c == c else np.logical_or(before(x, c), is_last(c, x)) for c in a]
        return functools.reduce(np.add, [np.where(h, 0.0, 1.0) for h in held], 0.0)

    return _each(place, v)


def _gather(x: Any, i: Any) -> Any:
    def row(place: Any) -> Any:
        return _chosen(list(x), 0, place)

    return _each(row, i, x.shape[1:])


def _chosen(rows: list[Any], first: int, place: Any) -> Any:
    """The row at a place, by halves: n - 1 comparisons and selections for n rows."""
    if len(rows) == 1:
        return rows[0]
    half = len(rows) // 2
    low, high = _chosen(rows[:half], first, place), _chosen(rows[half:], first + half, place)
    condition = place < float(first + half)
    found = np.empty(np.shape(low), dtype=object)
    for at in np.ndindex(found.shape):
        cells = (low[at], high[at]) if found.shape else (low, high)
        found[at] = cells[0] if _is_one(*cells) else np.where(condition, *cells)
    return found[()]


def _is_one(a: Any, b: Any) -> bool:
    """Whether two cells are one value, or numbers of the same type and bits."""
    return a is b or (type(a) is type(b) and isinstance(a, (float, complex)) and repr(a) == repr(b))


def _scatter_at(x: Any, i: Any, size: int) -> Any:
    rest = np.shape(x)[np.ndim(i) :]
    made = np.full((size, *rest), 0.0, dtype=object)
    for at in np.ndindex(np.shape(i)):
        place, row = (i[at], x[at]) if np.ndim(i) else (np.asarray(i, dtype=object)[()], np.asarray(x, dtype=object)[()])
        for k in range(size):
            here = place == float(k)
            for cell in np.ndindex(rest):
                part = np.where(here, row[cell] if rest else row, 0.0)
                old = made[(k, *cell)]
                made[(k, *cell)] = part if type(old) is float else old + part
    return made


def _assign_at(x: Any, i: Any, y: Any) -> Any:
    made, rest = np.array(x, dtype=object), np.shape(x)[1:]
    rows = np.broadcast_to(np.asarray(y, dtype=object), (*np.shape(i), *rest))
    for at in np.ndindex(np.shape(i)):
        place = np.asarray(i, dtype=object)[at]
        for k in range(len(made)):
            here = _is_there(place, k, len(made))
            for cell in np.ndindex(rest):
                made[(k, *cell)] = np.where(here, rows[(*at, *cell)], made[(k, *cell)])
    return made


def _is_there(place: Any, k: int, n: int) -> Any:
    """Whether a row is at a place; the first and last ones are the nearest of those beside them, too."""
    return True if n == 1 else place < 1.0 if k == 0 else place >= float(k) if k == n - 1 else place == float(k)


def _each(function: Lookup, places: Any, rest: Shape = ()) -> Any:
    """A function of every place, its results in the shape of the places."""
    places = np.asarray(places, dtype=object)
    found = np.empty((*places.shape, *rest), dtype=object)
    for at in np.ndindex(places.shape):
        found[at] = function(places[at])
    return found[()]


CELLS: dict[str, Function] = {
    "argmax": _extreme_place("argmax"),
    "argmin": _extreme_place("argmin"),
    "searchsorted": _searchsorted,
    "gather": _gather,
    "scatter_at": _scatter_at,
    "assign_at": _assign_at,
    "sum_of": lambda x, m, axes, along: np.sum(x, axis=axes),
}

"""Many numbers or arrays, one after the other, as few parts of the arrays that they are cells or rows of.

Assumes values of one dtype and shape. Guarantees the same cells; what lies at equal distances in an array, as what rounds of a
loop have given, or the cells of `x.tolist()`, is one part of it.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.moving import bind_stack
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom
from symdiff.vocabulary.heads import Shape

_LONG = 16  # cells or rows from which on a part of an array is worth it


class _Run(NamedTuple):
    """Rows of an array, or of nothing, from a value on."""

    whole: Any
    begin: int
    first: int
    last: int
    step: int = 0  # not known of a single row


def array_of_cells(builder: Builder, cells: Sequence[Atom], shape: Shape, code: str, origin: str) -> Atom:
    """Numbers as an array; its columns may lie in others."""
    arrays, columns = Arrays(builder, origin), shape[1] if len(shape) == 2 else 1
    if columns >= _LONG and (whole := _line(arrays, cells, code)) is not None:
        return arrays.reshape(whole, shape)
    lines = [_line(arrays, cells[k::columns], code) for k in range(columns)] if len(cells) >= _LONG and len(shape) <= 2 else []
    if not lines or None in lines:
        return builder.bind("array", tuple(cells), shape, code, None, origin)
    parts = [arrays.reshape(line, (shape[0], 1)) for line in lines]  # type: ignore[arg-type]
    return arrays.reshape(arrays.concatenate(parts, 1), shape)


def _line(arrays: Arrays, cells: Sequence[Atom], code: str) -> Atom | None:
    places = [(a.operands[0], a.params) if a.op == "item" else (None, 0) for a in cells]
    return _joined(arrays, places, lambda a, b: arrays.builder.bind("array", tuple(cells[a:b]), (b - a,), code), code)


def stack_of_rows(arrays: Arrays, rows: Sequence[Any], atom: Callable[[Any], Atom]) -> Atom | None:
    """Arrays, of which some are traced, as rows of one; None where no part of one has many of them."""
    places = [_row(x, arrays.builder) for x in rows]
    return _joined(arrays, places, lambda a, b: bind_stack(arrays, [atom(x) for x in rows[a:b]]))


def _row(x: Any, builder: Builder) -> tuple[Any, int]:
    """The array of which another one is a row, and the row's number."""
    view = x.held if getattr(x, "builder", None) is builder else None
    memory = None if view is None else getattr(view.storage, "memory", None)
    place = None if view is None else view.place
    if memory is None or place.shape != memory.shape[1:] or not (memory.ndim and place.size and place.flags.c_contiguous):
        return None, 0
    away = place.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    return view.storage, away // place.size


def _joined(arrays: Arrays, places: list[tuple[Any, int]], alone: Any, code: str = "") -> Atom | None:
    runs: list[_Run] = []
    for n, (whole, row) in enumerate(places):
        last = runs[-1] if runs else None
        step = 0 if last is None else last.step or row - last.begin
        if (
            last is not None
            and last.whole is whole
            and (whole is None or (step > 0 and row == last.begin + step * (n - last.first)))
        ):
            runs[-1] = last._replace(last=n + 1, step=step)
        else:
            runs.append(_Run(whole, row, n, n + 1))
    if not any(run.whole is not None and run.last - run.first >= _LONG for run in runs):
        return None
    parts, begun = [], 0
    for run in runs:
        if run.whole is not None and run.last - run.first >= _LONG:
            parts += [alone(begun, run.first)] if begun < run.first else []
            atom = run.whole if isinstance(run.whole, Atom) else run.whole.whole(arrays.builder.origin)
            atom = arrays.reshape(atom, (math.prod(atom.shape),)) if atom is run.whole else atom  # of cells
            stop = run.begin + run.step * (run.last - run.first - 1) + 1
            part = arrays.getitem(atom, ((run.begin, stop, run.step), *((0, n, 1) for n in atom.shape[1:])))
            parts.append(arrays.builder.cast(part, code) if code and part.dtype != code else part)
            begun = run.last
    parts += [alone(begun, len(places))] if begun < len(places) else []
    if any(part.shape[1:] != parts[0].shape[1:] or part.dtype != parts[0].dtype for part in parts):
        return None
    return arrays.concatenate(parts, 0)

"""Whole numbers in an array that go up along each axis by a step: those of constants, and of operations on others."""

from collections.abc import Iterable

import numpy as np

from symdiff.vocabulary.extents import Count, Shape

Steps = tuple[Count, tuple[int, ...]]  # the first number, and the steps along the axes


def steps_of_table(table: np.ndarray) -> Steps | None:
    """The steps of a constant; None where it has none."""
    if table.dtype.kind not in "fiu" or not table.size or not np.isfinite(table).all() or (table != np.trunc(table)).any():
        return None
    first = int(table.flat[0])
    steps = tuple(int(np.take(table, 1, axis).flat[0]) - first if n > 1 else 0 for axis, n in enumerate(table.shape))
    grid = sum((s * i for s, i in zip(steps, np.indices(table.shape, sparse=True), strict=True)), first)  # type: ignore[var-annotated]
    return (first, steps) if np.array_equal(table, np.broadcast_to(grid, table.shape)) else None


def steps_through(op: str, shape: Shape, operands: Iterable[tuple[Steps | None, Shape]]) -> Steps | None:
    """The steps of what an operation makes, from those of its operands with their shapes; None where it has none."""
    if op not in ("add", "sub", "mul", "reshape", "broadcast_to"):
        return None
    spread = []
    for steps, own in operands:
        if steps is None:
            return None
        start, along = steps
        if op == "reshape":
            long = [(n, s) for n, s in zip(own, along, strict=True) if n != 1]
            left = iter(s for _, s in long)
            same = [n for n, _ in long] == [n for n in shape if n != 1]
            return (start, tuple(0 if n == 1 else next(left) for n in shape)) if same else None
        along = tuple(0 if n == 1 else s for n, s in zip(own, along, strict=True))
        spread.append((start, (0,) * (len(shape) - len(own)) + along))
    (start, along), (other, more) = spread[0], spread[-1]
    if op == "broadcast_to":
        return start, along
    if op == "mul":
        if any(more) or not isinstance(other, int):
            (start, along), (other, more) = spread[::-1]
        return None if any(more) or not isinstance(other, int) else (start * other, tuple(s * other for s in along))
    sign = -1 if op == "sub" else 1
    return start + sign * other, tuple(a + sign * b for a, b in zip(along, more, strict=True))

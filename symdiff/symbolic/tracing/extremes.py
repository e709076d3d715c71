"""Maximum and minimum of cells, with equal shares of the derivative where several cells tie.

Assumes arrays of traced numbers and plain ones. Guarantees NumPy's result, NaN included, and 1/n to each of n tied cells.
Refuses empty arrays, as NumPy does.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.symbolic.building import Builder, result_code
from symdiff.symbolic.calls import CallSite
from symdiff.symbolic.graph import Atom, Graph, GraphOutput
from symdiff.symbolic.rulebook import Rule
from symdiff.symbolic.tracing.tracer import Tracer, atom_of, builder_of, user_line


def extreme(op: str) -> Callable[..., Any]:
    """`np.max` or `np.min` (operation "max" or "min") over arrays of cells."""

    def reduced(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = np.asarray(x)
        if x.dtype != object:
            return getattr(np, op)(x, axis=axis, keepdims=keepdims)
        axes = range(x.ndim) if axis is None else [a % x.ndim for a in np.atleast_1d(axis)]
        kept = [a for a in range(x.ndim) if a not in axes]
        rows = x.transpose([*kept, *axes]).reshape([*(x.shape[a] for a in kept), -1])
        if rows.shape[-1] == 0:
            raise ValueError(f"zero-size array to reduction operation {op}imum which has no identity")
        flat = [_of_cells(op, row) for row in rows.reshape(-1, rows.shape[-1])]
        result = np.empty(len(flat), dtype=object)
        result[:] = flat
        shape = [1 if a in axes else x.shape[a] for a in range(x.ndim)] if keepdims else [x.shape[a] for a in kept]
        return result.reshape(shape)[()]

    return reduced


def _of_cells(op: str, cells: np.ndarray) -> Any:
    if not any(isinstance(c, Tracer) for c in cells):
        return getattr(np, op)(cells.astype(float))
    if len(cells) == 1:
        return cells[0]
    origin = user_line()
    builder = builder_of(cells)
    operands = tuple(atom_of(c, builder, origin) for c in cells)
    code = result_code(operands)
    site = CallSite(lambda *values: getattr(np, op)(values, axis=0), _rule(op, len(cells)), _chain(op, len(cells), code))
    outer, builder.origin = builder.origin, builder.origin or origin
    try:
        return Tracer(builder, builder.bind("call", operands, (), code, site))
    finally:
        builder.origin = outer


@functools.lru_cache(maxsize=256)
def _rule(op: str, count: int) -> Rule:
    def shares(out: Any, *cells: Any) -> Any:
        hits = [np.where(c == out, 1.0, 0.0) for c in cells]
        ties = sum(hits[1:], start=hits[0])
        return tuple(hit / ties for hit in hits)

    names = tuple(f"x{k}" for k in range(count))
    bodies = {"all": ((("",) * count, shares),)}
    return Rule("numpy", op, names, (None,) * count, body=bodies, source=f"{op} of {count} cells")


@functools.lru_cache(maxsize=256)
def _chain(op: str, count: int, code: str) -> Graph:
    builder = Builder()
    inputs = [builder.input(f"x{k}", (), code) for k in range(count)]
    result: Atom = inputs[0]
    for other in inputs[1:]:
        result = builder.emit(op, (result, other))
    return builder.graph(op, (GraphOutput(op, result),))

"""Reductions of cells to one number with a rule of their own, maximum, minimum, log-sum-exp, and of truth values.

Assumes arrays of traced numbers and plain ones. Guarantees NumPy's result, NaN included; 1/n to each of n tied cells of an
extreme, and no overflow in a log-sum-exp or its derivative. Refuses empty arrays, as NumPy does.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Constant
from symdiff.rulebooks.calls import CallSite, Counts
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary.heads import Shape, head_log_softmax, head_logsumexp, head_softmax
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function, Lookup

PLAIN: dict[str, Function] = {"amax": np.max, "amin": np.min, "logsumexp": head_logsumexp}


def _reducing(function: Lookup) -> Function:
    """A head that reduces arrays of cells along axes, row by row."""

    def reduced(x: Any, axes: Shape) -> Any:
        kept = [a for a in range(x.ndim) if a not in axes]
        of, count = (math.prod(x.shape[a] for a in part) for part in (kept, axes))
        result = np.empty(of, dtype=object)
        result[:] = [function(row) for row in x.transpose([*kept, *axes]).reshape(of, count)]
        return result.reshape([x.shape[a] for a in kept])[()]

    return reduced


def _unrolled_softmax(name: str) -> Function:
    """The head `softmax` or `log_softmax` over arrays of cells."""

    def mapped(x: Any, axes: Shape) -> Any:
        order = [*(a for a in range(x.ndim) if a not in axes), *axes]
        rows = x.transpose(order).reshape(-1, math.prod(x.shape[a] for a in axes))
        result = np.empty(rows.shape, dtype=object)
        for row, found in zip(rows, result, strict=True):
            found[:] = _softmax_cells(name, row)
        return result.reshape([x.shape[a] for a in order]).transpose(np.argsort(order))

    return mapped


def _softmax_cells(name: str, cells: Sequence[Any]) -> list[Any]:
    if not any(isinstance(c, Tracer) for c in cells):
        return list((head_softmax if name == "softmax" else head_log_softmax)(np.asarray(cells, float), None))
    top = _of_cells("amax", cells)
    shift = np.where(np.isfinite(top), top, 0.0)
    away = [c - shift for c in cells]
    terms = [np.exp(c) for c in away]
    total = functools.reduce(operator.add, terms)
    if name == "softmax":
        total = np.where(np.isfinite(top), total, math.nan)
        return [c / total for c in terms]
    return [c - np.log(total) for c in away]


def _of_cells(name: str, cells: Sequence[Any]) -> Any:
    if not any(isinstance(c, Tracer) for c in cells):
        plain = np.asarray([*cells])
        return PLAIN[name](plain.astype(np.result_type(plain, float)))
    if len(cells) == 1:
        return cells[0]
    count = len(cells)
    return called(cells, PLAIN[name], _rule(name, count), lambda code: _body(name, count, code))


def called(
    cells: Sequence[Any], function: Lookup, rule: Rule, body: Callable[[str], Graph], counts: Counts | None = None
) -> Tracer:
    """A function of an array as the call of a function of its cells; `body` is its graph for their common dtype."""
    origin = user_line()
    builder = traced_builder(cells)
    operands = tuple(traced_atom(c, builder, origin) for c in cells)
    code = dtype_of_atoms(operands)
    site = CallSite(lambda *values: function(np.asarray(values)), rule, body(code), counts)
    return Tracer(builder, builder.bind("call", operands, (), code, site, builder.origin or origin))


@functools.lru_cache(maxsize=256)
def _rule(name: str, count: int) -> Rule:
    def equal_shares(out: Any, *cells: Any) -> Any:
        hits = [np.where(c == out, 1.0, 0.0) for c in cells]
        ties = sum(hits[1:], start=hits[0])
        return tuple(hit / ties for hit in hits)

    def exponential_shares(out: Any, *cells: Any) -> Any:
        tied = equal_shares(out, *cells)
        weights = _softmax_cells("softmax", cells)
        return tuple(np.where(np.isfinite(out), w, share) for w, share in zip(weights, tied, strict=True))

    shares = exponential_shares if name == "logsumexp" else equal_shares
    return rule_of_numbers("numpy", name.removeprefix("a"), count, shares, f"{name} of {count} cells")


def rule_of_numbers(module: str, name: str, count: int, partials: Function, source: str) -> Rule:
    """The rule of a function of so many numbers, of which one function gives all partials."""
    bodies = {"all": ((("",) * count, partials),)}
    return Rule(module, name, tuple(f"x{k}" for k in range(count)), (None,) * count, body=bodies, source=source)


@functools.lru_cache(maxsize=256)
def _body(name: str, count: int, code: str) -> Graph:
    builder = Builder()
    inputs = [builder.input(f"x{k}", (), code) for k in range(count)]
    op = "min" if name == "amin" else "max"
    result = inputs[0]
    for other in inputs[1:]:
        result = builder.emit(op, (result, other))
    if name == "logsumexp":
        shift = builder.select(builder.emit("isfinite", (result,)), result, Constant(0.0))
        terms = [builder.emit("exp", (builder.emit("sub", (x, shift)),)) for x in inputs]
        total = terms[0]
        for term in terms[1:]:
            total = builder.emit("add", (total, term))
        result = builder.emit("add", (builder.emit("log", (total,)), shift))
    return builder.graph(name.removeprefix("a"), (GraphOutput(name, result),))


CELLS = {name: _reducing(functools.partial(_of_cells, name)) for name in PLAIN}
CELLS |= {name: _unrolled_softmax(name) for name in ("softmax", "log_softmax")}
CELLS["any"] = _reducing(lambda row: functools.reduce(np.logical_or, row) if len(row) else False)
CELLS["all"] = _reducing(lambda row: functools.reduce(np.logical_and, row) if len(row) else True)

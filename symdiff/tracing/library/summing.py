"""`math.fsum` and the builtin `sum` of traced numbers: compensated sums with rules of their own.

Assumes numbers, some of them traced; real ones for `fsum`. Guarantees a sum that loses a few units in the last place at most,
however its terms cancel, and partials of exactly 1.
"""

import functools
import math
from typing import Any

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Constant
from symdiff.rulebooks.calls import CallSite
from symdiff.rulebooks.rule import Rule
from symdiff.tracing.unrolling.reductions import rule_of_numbers
from symdiff.tracing.values.kinds import PYTHON
from symdiff.tracing.values.tracer import Tracer, traced_atom, traced_builder
from symdiff.vocabulary.libraries import user_line


def traced_fsum(cells: list[Any], lost: tuple[bool, ...] = ()) -> Any:
    """The sum of traced and plain numbers, as nearly exact as `math.fsum`; its partials are 1.

    With `lost`, as the builtin `sum` of the first cell and the others: it keeps what rounding loses of those of them.
    """
    if len(cells) == 1:
        return cells[0]
    origin = user_line()
    builder = traced_builder(cells)
    operands = tuple(traced_atom(c, builder, origin) for c in cells)
    codes = tuple(o.dtype or ("D" if isinstance(o, Constant) and isinstance(o.value, complex) else "d") for o in operands)
    body = _body(codes, lost or (True,) * (len(cells) - 1))
    site = CallSite(body if lost else _fsum, _rule(len(cells), bool(lost)), body)
    return Tracer(builder, builder.bind("call", operands, (), "D" if "D" in codes else "d", site, origin), PYTHON)


def _fsum(*values: float) -> float:
    """IEEE's sum where `math.fsum` raises."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return float(np.sum(values))


@functools.lru_cache(maxsize=256)
def _rule(count: int, builtin: bool) -> Rule:
    module, name = ("builtins", "sum") if builtin else ("math", "fsum")
    return rule_of_numbers(module, name, count, lambda out, *cells: (1.0,) * count, f"{name} of {count}")


@functools.lru_cache(maxsize=256)
def _body(codes: tuple[str, ...], lost: tuple[bool, ...]) -> Graph:
    """Two sums, of the terms and of what rounding loses. D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B."""
    builder = Builder()
    emit = builder.emit
    total, *rest = (builder.input(f"x{k}", (), "d" if code == "?" else code) for k, code in enumerate(codes))
    small = Constant(0.0)
    for x, kept in zip(rest, lost, strict=True):
        grown = emit("add", (total, x))
        if kept:
            taken = emit("sub", (grown, total))
            error = emit("add", (emit("sub", (total, emit("sub", (grown, taken)))), emit("sub", (x, taken))))
            small = builder.add(small, error)
        total = grown
    exact = emit("add", (total, small))
    whole = builder.select(emit("eq", (small, small)), exact, total)  # what is lost of an infinity is NaN
    return builder.graph("fsum", (GraphOutput("fsum", builder.select(emit("eq", (exact, total)), total, whole)),))  # -0.0 stays

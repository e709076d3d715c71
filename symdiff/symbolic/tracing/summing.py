"""`math.fsum` of traced numbers: a compensated sum with a rule of its own.

Assumes real numbers, some of them traced. Guarantees a sum that loses a few units in the last place at most, however its terms
cancel, and partials of exactly 1. Refuses nothing.
"""

import functools
import math
from typing import Any

from symdiff.symbolic.building import Builder
from symdiff.symbolic.calls import CallSite
from symdiff.symbolic.graph import Atom, Constant, Graph, GraphOutput
from symdiff.symbolic.rule import Rule
from symdiff.symbolic.tracing.libraries import user_line
from symdiff.symbolic.tracing.tracer import Tracer, atom_of, builder_of


def compensated_sum(cells: list[Any]) -> Any:
    """The sum of traced and plain numbers, as nearly exact as `math.fsum`; its partials are 1."""
    if len(cells) == 1:
        return cells[0]
    origin = user_line()
    builder = builder_of(cells)
    operands = tuple(atom_of(c, builder, origin) for c in cells)
    site = CallSite(lambda *values: math.fsum(values), _fsum_rule(len(cells)), _fsum_body(len(cells)))
    return Tracer(builder, builder.bind("call", operands, (), "d", site, origin))


@functools.lru_cache(maxsize=256)
def _fsum_rule(count: int) -> Rule:
    bodies = {"all": ((("",) * count, lambda out, *cells: (1.0,) * count),)}
    return Rule("math", "fsum", tuple(f"x{k}" for k in range(count)), (None,) * count, body=bodies, source=f"fsum of {count}")


@functools.lru_cache(maxsize=256)
def _fsum_body(count: int) -> Graph:
    """Two sums, of the terms and of what rounding loses. D. E. Knuth, The Art of Computer Programming 2, 4.2.2, theorem B."""
    builder = Builder()
    emit = builder.emit
    total, *rest = (builder.input(f"x{k}", (), "d") for k in range(count))
    lost: Atom = Constant(0.0)
    for x in rest:
        grown = emit("add", (total, x))
        taken = emit("sub", (grown, total))
        error = emit("add", (emit("sub", (total, emit("sub", (grown, taken)))), emit("sub", (x, taken))))
        total, lost = grown, builder.add(lost, error)
    exact = emit("add", (total, lost))
    return builder.graph("fsum", (GraphOutput("fsum", builder.select(emit("isfinite", (exact,)), exact, total)),))

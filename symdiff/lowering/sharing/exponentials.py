"""Exponentials of opposite numbers: exp(-x) is 1/exp(x) where both are computed.

Assumes a Program that passes `check_program`. Guarantees the same values up to rounding: where exp(x) is so small that it has
lost bits, its reciprocal is infinite, as exp(-x) is. Of complex numbers each exponential stays.
"""

from collections.abc import Set

from symdiff.lowering.program import Program
from symdiff.lowering.table import Table
from symdiff.lowering.walks import live_only
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_EXPONENTIALS = operations("reciprocal")


def with_reciprocals(program: Program, fixed: Set[int] = frozenset()) -> Program:
    """The program with one exponential of each pair of opposite numbers, apart from values that are `fixed`."""
    nodes = program.nodes
    own = {(n.op, n.operands[0]): place for place, n in enumerate(nodes) if n.op in _EXPONENTIALS and not is_complex(n.dtype)}
    opposite: dict[int, int] = {}
    for (op, operand), place in own.items():
        partner = own.get((op, nodes[operand].operands[0])) if nodes[operand].op == "neg" else None
        if partner is not None and not {place, partner} & fixed:
            opposite[place] = partner
    if not opposite:
        return program
    table = Table()
    at: dict[int, int] = {}

    def below(place: int) -> tuple[int, ...]:
        return (opposite[place],) if place in opposite else nodes[place].operands

    def put(place: int) -> int:
        n, operands = nodes[place], tuple([at[o] for o in below(place)])
        if place in opposite:
            return table.put("div", (table.constant(1.0, n.dtype), *operands), n.dtype, None, n.origin, n.primal)
        return table.put(n.op, operands, n.dtype, n.params, n.origin, n.primal, n.shape)

    return live_only(program.over(table.nodes, [worked_out(place, at, below, put) for place in range(len(nodes))]))

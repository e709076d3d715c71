"""Which calls of elementary functions are made together: sin and cos of one number, and one function of independent numbers.

Assumes a Program. Guarantees an order in which the operands of calls that are made together come before any of them.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from symdiff.codegen.math.lines import LIBM, VECTORS
from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.lowering.sharing.sharing import integer_power

# The calls from which on one of a vector takes less time than those of libm; two of any other function of our own.
_WORTH = dict.fromkeys(LIBM, 3) | {"sincos": 1, "pow": 4}


class Group(NamedTuple):
    """Calls of one function: the operands of each, and each instruction's number among them and among the results."""

    function: str
    dtype: str
    operands: list[tuple[int, ...]]
    members: dict[int, tuple[int, int]]


class Calls:
    """The groups of some instructions of a Program, or of all, by their members: vectors of at most `most` calls."""

    def __init__(self, program: Program, most: int, positions: Collection[int] | None = None) -> None:
        self._nodes = program.nodes
        self._inside = range(len(program.nodes)) if positions is None else set(positions)
        self.groups: dict[int, Group] = {}
        alike: dict[tuple[int, str, str], dict[tuple[int, ...], dict[int, int]]] = {}
        level: dict[int, int] = {}  # the calls that an instruction waits for, one after another
        for position in sorted(self._inside):
            node = self._nodes[position]
            level[position] = max([level.get(o, 0) for o in node.operands], default=0)
            if self._is_real(node):
                function, place = VECTORS[node.op]
                same = alike.setdefault((level[position], function, node.dtype), {})
                same.setdefault(node.operands, {})[position] = place
                level[position] += 1
        for (_, function, dtype), calls in alike.items():
            listed = list(calls.items())
            for first in range(0, len(listed), max(most, 1)):
                part = listed[first : first + most]
                members = {m: (k, place) for k, (_, places) in enumerate(part) for m, place in places.items()}
                if len(part) >= _WORTH.get(function, 2):
                    group = Group(function, dtype, [operands for operands, _ in part], members)
                    self.groups.update(dict.fromkeys(members, group))

    def _is_real(self, node: Node) -> bool:
        codes = {node.dtype, *(self._nodes[o].dtype for o in node.operands)}
        whole = node.op == "pow" and integer_power(self._nodes, node) is not None
        return node.op in VECTORS and not node.shape and codes <= {"d", "f"} and not whole

    def needed(self, position: int) -> list[int]:
        """The operands of an instruction and of those that are made together with it."""
        group = self.groups.get(position)
        return list(self._nodes[position].operands) if group is None else [o for one in group.operands for o in one]

    def before(self, position: int, known: Collection[int]) -> Iterator[int]:
        """What is to be computed for an instruction, itself the last: one member of each group, none of the `known`."""
        stack = [position]
        while stack:
            here = stack[-1]
            missing = [o for o in self.needed(here) if o in self._inside and o not in known]
            if here in known:
                stack.pop()
            elif missing:
                stack += reversed(missing)
            else:
                yield stack.pop()

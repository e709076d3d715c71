"""The Table: nodes of a Program under construction, each found again by its operation, operands and parameters.

Assumes operands that are positions in the table. Guarantees that equal operations on equal operands are one node, that
commuting operands stand in one order, and that constants keep their bits.
"""

from typing import Any

from symdiff.ir.node import Node, Number
from symdiff.lowering.program import static_key
from symdiff.vocabulary.heads import Shape
from symdiff.vocabulary.ops import OPS, check_dtype_cast, real_counterpart

_COMMUTING = frozenset(op for op, row in OPS.items() if row.commutes)


class Table:
    """The `nodes` so far."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._places: dict[tuple[Any, ...], int] = {}

    def put(
        self,
        op: str,
        operands: tuple[int, ...],
        dtype: str,
        params: Any = None,
        origin: str = "",
        primal: bool = False,
        shape: Shape = (),
    ) -> int:
        """The position of a node; that of its equal, where there is one, which the user wrote if he wrote one of them."""
        if op in _COMMUTING and operands[0] > operands[1]:
            operands = (operands[1], operands[0])
        key = (op, operands, shape, dtype, None if params is None else static_key(op, params))
        nodes = self.nodes
        found = self._places.setdefault(key, len(nodes))
        if found == len(nodes):
            nodes.append(Node(op, operands, shape, dtype, params, origin, primal))
        elif primal:
            nodes[found].primal = True
        return found

    def constant(self, value: Number, code: str) -> int:
        """A number beside values of a dtype: a real one stays real."""
        if code in "FD" and not isinstance(value, complex):
            code = real_counterpart(code)
        if code not in "?FD":
            value = float(value)  # type: ignore[arg-type]
        return self.put("const", (), code, value)

    def as_dtype(self, value: int, code: str, origin: str = "") -> int:
        """A value as one of this dtype: constants are restated, others cast."""
        node = self.nodes[value]
        if node.dtype == code:
            return value
        check_dtype_cast(node.dtype, code)
        if node.op == "const" and node.shape == ():
            return self.put("const", (), code, complex(node.params) if code in "FD" else node.params)
        return self.put("cast", (value,), code, None, origin, node.primal, node.shape)

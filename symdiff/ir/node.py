"""The node: one operation on earlier values, at every level from the traced function down to what is printed as code.

Assumes operations of `ops.OPS`, heads of `heads.HEADS`, and `input`, `const`, `item` and `array`. Guarantees that a node is known
by its identity: two of them are equal only when they are the same object. Holds nothing of SymPy's: `ir.graph` shows nodes as
its symbols.
"""

from typing import Any

Number = bool | int | float | complex


class Node:
    """`op` applied to `operands`, with a shape and a dtype code.

    In a graph the operands are nodes, in a flat program positions of earlier nodes. `params` holds what is static: the
    parameters of a head, the function of a call, the number of a "const", the place of an "input", the flat cell of an "item".
    `primal` tells that the user wrote the operation (derivatives and helpers of ours have it False), `origin` at which
    "file.py:line". A dtype code is one of "?", "f", "d", "F", "D"; None for Python's weak numbers.
    """

    __slots__ = ("dtype", "name", "op", "operands", "origin", "params", "primal", "shape")

    def __init__(
        self,
        op: str,
        operands: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: str | None,
        params: Any = None,
        origin: str = "",
        primal: bool = False,
        name: str = "",
    ) -> None:
        self.op = op
        self.operands = operands
        self.shape = shape
        self.dtype = dtype
        self.params = params
        self.origin = origin
        self.primal = primal
        self.name = name

    def on(self, operands: tuple[Any, ...]) -> "Node":
        """The same operation on other operands."""
        return Node(self.op, operands, self.shape, self.dtype, self.params, self.origin, self.primal, self.name)

    def __repr__(self) -> str:
        return self.name or f"{self.op}{self.operands}"

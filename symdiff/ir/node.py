"""The node: one operation on earlier values, at every level from the traced function down to what is printed as code.

Assumes operations of `ops.OPS`, heads of `heads.HEADS`, and `input`, `const`, `item` and `array`. Guarantees that a node is
known by its identity: two of them are equal only when they are the same object.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from symdiff.vocabulary.seams import Seam

Number = bool | int | float | complex

sympy_symbol = Seam("a node as a SymPy symbol")
sympy_expression = Seam("a binding as a SymPy expression")


class Node:
    """`op` applied to `operands`, with a shape and a dtype code.

    In a graph the operands are nodes, in a flat program positions of earlier nodes. `params` holds what is static: the
    parameters of a head, the function of a call, the number of a "const", the place of an "input", the flat cell of an "item",
    the body of a "loop", the place of a "part" among the results of such a binding of several.
    `primal` tells that the user wrote the operation (derivatives and helpers of ours have it False), `origin` at which
    "file.py:line". A dtype code is one of "?", "f", "d", "F", "D", or "*" for several results; None for Python's weak numbers.
    In a shape an extent may stand for a number (`vocabulary/extents.py`).
    """

    __slots__ = ("dtype", "name", "op", "operands", "origin", "params", "primal", "shape")
    dtype: Any

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

    @property
    def result(self) -> "Node":
        """The node whose value this is: itself, but for what a rewrite sees in another's place."""
        return self

    @property
    def symbol(self) -> Any:
        """The value as a SymPy symbol; those of one node are equal."""
        return sympy_symbol(self)

    @property
    def expr(self) -> Any:
        """The operation as an unevaluated SymPy expression over symbols."""
        return sympy_expression(self)

    def on(self, operands: tuple[Any, ...]) -> "Node":
        """The same operation on other operands."""
        return Node(self.op, operands, self.shape, self.dtype, self.params, self.origin, self.primal, self.name)

    def __str__(self) -> str:
        return self.told({})

    def __repr__(self) -> str:
        return self.name or f"{self.op}{self.operands}"

    def told(self, names: Mapping["Node", str]) -> str:
        """The binding as text, with other `names` of nodes than their own."""
        name = names.get(self.result, self.result.name)
        if self.op == "input":
            return name
        inside = [names.get(o) or o.name for o in self.operands]
        if self.op == "item":
            shape = self.operands[0].shape
            cell = (self.params,) if len(shape) == 1 else np.unravel_index(self.params, shape)
            index = ", ".join(map(str, cell))
            return f"{name} = {inside[0]}[{index}]"
        if self.op == "call":
            return f"{name} = {self.params.__name__} {' '.join(inside)}"
        if self.op == "part":
            return f"{name} = {inside[0]}.{self.operands[0].params.results[self.params].name}"
        if self.op == "loop":
            return f"{name} = loop {self.params.told(inside)}"
        if self.op == "size":
            return f"{name} = {self.params}"
        if self.params is not None and self.op != "array":
            inside += [f"{key}={value}" for key, value in self.params.items()]
        return f"{name} = {self.op} {' '.join(inside)}"


class Seen(Node):
    """An operation as a rewrite sees it, in place of the one that computes the value."""

    __slots__ = ("result",)
    result: Node  # type: ignore[assignment]

    def __init__(self, result: Node, op: str, operands: tuple[Node, ...], params: Any = None) -> None:
        super().__init__(op, operands, result.shape, result.dtype, params, result.origin, result.primal, result.name)
        self.result = result


class Known(Node):
    """A value that is known before anything runs."""

    __slots__ = ()
    value: Any = Node.params  # type: ignore[misc]  # the number or array

    @property
    def name(self) -> str:  # type: ignore[override]
        """The value as it is printed."""
        return f"array{list(self.shape)}" if self.shape else repr(self.params)

    @name.setter
    def name(self, name: str) -> None:
        """What is known has no name of its own."""

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


class Constant(Known):
    """A number with its bits. `dtype` is None for Python's weak numbers, else the code of a NumPy scalar's dtype."""

    __slots__ = ()

    def __init__(self, value: Number, dtype: str | None = None) -> None:
        super().__init__("const", (), (), dtype, value)


class ArrayConstant(Known):
    """A read-only array that the user's function holds."""

    __slots__ = ()

    def __init__(self, value: np.ndarray) -> None:
        own = np.array(value)
        own.flags.writeable = False
        super().__init__("const", (), own.shape, own.dtype.char, own)


Atom = Node  # what an operation is done to: an input, another operation, or a constant


def has_loops(nodes: Iterable[Node]) -> bool:
    """Whether there are loops among bindings or nodes of a program."""
    return any(node.op == "loop" for node in nodes)

"""Graph to Program: value numbering, exact constant folding, dead code. The only stage that knows both wings.

Guarantees that equal operations on equal operands become one node, with commuting operands in one order, and that only exactly
rounded operations on constants are folded. Refuses, with `InvariantError`, arrays in the unrolled regime.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.building import atom_dtype, dtype_of_atoms
from symdiff.ir.evaluating import applied
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.loops import with_leaves
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.ir.zeros import signed_zero_bindings
from symdiff.lowering.cuts import CUTS
from symdiff.lowering.program import Input, Output, Program
from symdiff.lowering.table import Table
from symdiff.lowering.walks import live_only
from symdiff.vocabulary.extents import has_extents
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.ops import OPS, real_counterpart
from symdiff.vocabulary.traits import operations

# Exactly rounded in IEEE 754, for real operands.
_FOLDED: dict[str, Callable[..., float]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "neg": operator.neg,
}
_WIDENED = operations("widened")
_VIEWS = frozenset(name for name, head in HEADS.items() if head.view)


def number(
    graph: Graph, *, fold: bool = True, name: str | None = None, whole: bool = False,
    lower: Callable[[Graph], Program] | None = None,
) -> Program:  # fmt: skip
    """The Program of a Graph: of numbers, or of `whole` arrays. `fold` folds numbers' constants (not with `exact=True`).

    `lower` gives the programs of loops' bodies.
    """
    numbering = _Numbering(graph, fold, whole, lower)
    for binding in graph.bindings:
        numbering.bind(binding)
    inputs = tuple(Input(leaf.name, leaf.node.shape, leaf.node.dtype) for leaf in graph.inputs)
    outputs = tuple(map(numbering.output, graph.outputs))
    return live_only(Program(name or graph.name, inputs, outputs, numbering.nodes))


def with_numbers(program: Program, known: dict[int, Any]) -> Program:
    """The program of whole arrays in which some values are numbers, and what follows from that: of derivatives zeros that
    terms left which cancel, as these would in one expression."""
    table = _Folding(True, True, True)
    place: list[int] = []
    for position, node in enumerate(program.nodes):
        operands = [place[o] for o in node.operands]
        factors = operands[: {"mul": 2, "div": 1}.get(node.op, 0)] if not node.primal else []
        if position in known:
            found = table.repeated(table.constant(known[position], node.dtype), node.shape)
        elif any(n >= 0 and table.nodes[n].params == 0 for n in map(table.number_in, factors)):
            found = table.repeated(table.constant(0.0, node.dtype), node.shape)
        else:
            found = table.apply(node.op, operands, node.dtype, node.params, node.origin, node.primal, node.shape, node.primal)
        place.append(found)
    return live_only(program.over(table.nodes, place))


def _real(number: Any) -> float:
    return number.real if isinstance(number, complex) else float(number)


class _Folding(Table):
    """Operations on values, or what is known to be their result."""

    def __init__(self, fold: bool, whole: bool, cuts: bool) -> None:
        """`cuts`: a function has branch cuts, beside which z + 0 and z*1 are not z where -0.0 is a part of it."""
        super().__init__()
        self.fold = fold
        self.whole = whole
        self.cuts = cuts

    def apply(
        self, op: str, operands: list[int], code: str, params: Any, origin: str, primal: bool, shape: Shape = (),
        signed: bool = False,
    ) -> int:  # fmt: skip
        """An operation on values, or what is known to be its result."""
        nodes = self.nodes
        if op == "edge":
            return self.constant(0.0, code)
        if op == "cast" and nodes[operands[0]].dtype == code:
            return operands[0]
        if op in ("and", "or") and operands[0] == operands[1]:
            return operands[0]
        numbers = [self.number_in(o) for o in operands] if self.fold and (op in _FOLDED or op in _VIEWS) else []
        spread = nodes[operands[0]] if op in ("gather", "take") else None
        if spread is not None and spread.op == "broadcast_to" and nodes[spread.operands[0]].shape == ():
            return self.repeated(spread.operands[0], shape)
        if op in _VIEWS and numbers and numbers[0] >= 0 and nodes[numbers[0]].dtype == code:
            return self.repeated(numbers[0], shape)
        if not self.whole and op in _WIDENED:
            operands = [o if nodes[o].dtype == code else self._widened(o, code) for o in operands]
        elif shape == () and op in OPS and len(operands) == 2 and any(nodes[o].dtype in ("d", "D") for o in operands):
            operands = [self._widened(o, "D") if nodes[o].dtype in ("f", "F") else o for o in operands]
        if op in _FOLDED and max(numbers, default=-1) >= 0:
            folded = self._folded(op, numbers, code) if min(numbers) >= 0 else None
            if folded is not None:
                return self.repeated(self.constant(folded, code), shape)
            if any(n < 0 and nodes[o].shape == shape for n, o in zip(numbers, operands, strict=True)):
                operands = [o if n < 0 else n for n, o in zip(numbers, operands, strict=True)]
            same = None if primal and code in "FD" and self.cuts else self._neutral(op, operands, code, signed)
            if same is not None and nodes[same].shape == shape:
                return same
        if op == "select":
            either = nodes[operands[1]] if operands[1] == operands[2] else None
            if either is not None and (either.shape, either.dtype) == (shape, code):
                return operands[1]
        if op == "select" and nodes[operands[0]].op == "not":
            opposite = nodes[operands[0]].operands[0]
            operands = [opposite, operands[2], operands[1]] if nodes[opposite].dtype == "?" else operands
        if self.fold and op == "abs" and (power := self._real_power(operands[0])) is not None:
            product = self.apply("mul", power, code, None, origin, primal, shape)
            return self.apply("exp", [product], code, None, origin, primal, shape)
        return self.put(op, tuple(operands), code, params, origin, primal, shape)

    def number_in(self, value: int) -> int:
        """The number that all cells of an array are, or a number itself; -1 for other values."""
        node = self.nodes[value]
        value = node.operands[0] if node.op == "broadcast_to" else value
        return value if self.nodes[value].op == "const" and self.nodes[value].shape == () else -1

    def repeated(self, number: int, shape: Shape) -> int:
        """An array whose cells are all one number."""
        if shape == ():
            return number
        return self.put("broadcast_to", (number,), self.nodes[number].dtype, {"shape": shape}, "", False, shape)

    def _widened(self, value: int, code: str) -> int:
        """A float32 value in a float64 operation, restated as float64; real operands of complex ones stay real."""
        own = self.nodes[value].dtype
        wide = code if own in "FD" else real_counterpart(code)
        return (
            value
            if own in (wide, "?") or (own in "fd" and own == wide)
            else self.as_dtype(value, wide, self.nodes[value].origin)
        )

    def _neutral(self, op: str, operands: list[int], code: str, signed: bool) -> int | None:
        """The other operand where one is a constant that leaves it as it is: x + 0, x - 0, x*1, x/1.

        -0.0 + 0.0 is 0.0: where the sign of a zero is `signed`, only the zero that leaves this as it is counts.
        """
        neutral = 0.0 if op in ("add", "sub") else 1.0
        for kept, dropped in ((0, -1), (-1, 0)) if OPS[op].commutes else ((0, -1),):
            constant = self.nodes[operands[dropped]]
            other = self.nodes[operands[kept]]
            number = op != "neg" and constant.op == "const" and constant.shape == ()
            if number and constant.params == neutral and other.op != "const":
                if signed and op in ("add", "sub") and (math.copysign(1, _real(constant.params)) > 0) == (op == "add"):
                    return None
                return operands[kept] if other.dtype == code else None
        return None

    def _real_power(self, value: int) -> list[int] | None:
        """Re(c) and t where a value is exp(c*t) with a complex constant and a real t: |exp(c*t)| is exp(Re(c)*t).

        That holds for infinite t, too, which cannot be said of exp(w) for any w.
        """
        power = self.nodes[value]
        product = self.nodes[power.operands[0]] if power.op == "exp" and power.dtype in "FD" else None
        if product is None or product.op != "mul":
            return None
        for c, t in (product.operands, product.operands[::-1]):
            constant = self.nodes[c]
            if constant.op == "const" and isinstance(constant.params, complex) and self.nodes[t].dtype in "fd":
                return [self.constant(constant.params.real, self.nodes[t].dtype), t]
        return None

    def _folded(self, op: str, operands: list[int], code: str) -> float | None:
        """The result of an operation on numbers, which that in double precision, rounded to single, is in single, too."""
        numbers = [self.nodes[o].params for o in operands]
        if code not in "fd" or not all(isinstance(n, float) for n in numbers):
            return None
        rounded = (lambda n: float(np.float32(n))) if code == "f" else float
        try:
            result = rounded(_FOLDED[op](*map(rounded, numbers)))
        except (ZeroDivisionError, OverflowError):
            return None
        return result if math.isfinite(result) or not all(map(math.isfinite, numbers)) else None


class _Numbering(_Folding):
    """The values of a graph's atoms: numbers, or `whole` arrays."""

    def __init__(self, graph: Graph, fold: bool, whole: bool, lower: Callable[[Graph], Program] | None) -> None:
        super().__init__(fold, whole, fold and any(binding.op in CUTS for binding in graph.bindings))
        self.lower = lower
        self.signed = signed_zero_bindings(graph.bindings) if fold else set()
        self.values: dict[Atom, int] = {}
        self.cells: dict[Atom, tuple[Atom, ...]] = {}  # arrays of numbers, which are results
        self.place = {leaf.node: i for i, leaf in enumerate(graph.inputs)}
        for leaf, place in self.place.items():
            if whole or leaf.shape == ():
                params = (place, None if leaf.shape else 0)
                self.values[leaf] = self.put("input", (), leaf.dtype, params, graph.origin, True, leaf.shape)

    def value_of(self, atom: Atom, code: str) -> int:
        """The value of an atom; a weak number takes the dtype `code`."""
        found = self.values.get(atom)
        if found is not None:
            return found
        if isinstance(atom, ArrayConstant):
            value = atom.value.astype(atom_dtype(atom.value.dtype), copy=False)  # integers count as float64
            return self.put("const", (), value.dtype.char, value, "", True, atom.shape)
        assert isinstance(atom, Constant)
        return self.constant(atom.value, code)

    def output(self, output: GraphOutput) -> Output:
        """A result and its cells, in its own dtype."""
        cells = []
        for atom in self.cells.get(output.atom, (output.atom,)):
            value = self.value_of(atom, output.dtype)
            cells.append(self.as_dtype(value, output.dtype, self.nodes[value].origin))
        return Output(output.name, output.shape, output.dtype, tuple(cells))

    def bind(self, binding: Node) -> None:
        """Number what a binding computes."""
        op, code, row = binding.op, binding.dtype, OPS.get(binding.op)
        if op == "array" and not self.whole:
            self.cells[binding] = binding.operands
        elif op == "item":
            self.values[binding] = self.item(binding)
        elif op == "loop" and self.lower is not None:
            self.values[binding] = self.loop(binding, self.lower)
        elif op in ("part", "size") and self.whole:
            several = tuple(self.values[o] for o in binding.operands)
            self.values[binding] = self.put(op, several, code, binding.params, binding.origin, binding.primal, binding.shape)
        elif row is None and not self.whole:
            raise InvariantError(f"{binding}: not unrolled")
        else:
            around = dtype_of_atoms(binding.operands) if row is not None and row.result in ("bool", "real") else code
            operands = [self.value_of(o, "?" if i == 0 and op == "select" else around) for i, o in enumerate(binding.operands)]
            if around in ("f", "F") and all(self._is_real(o) for o in operands):  # numbers alone
                operands = [self.constant(float(np.float32(self.nodes[o].params)), self.nodes[o].dtype) for o in operands]
            if op == "broadcast_to" and code in "FD":  # whose cells are read as they are
                operands = [self.as_dtype(o, code) for o in operands]
            if (known := self._known_array(binding, operands)) is not None:
                self.values[binding] = self.put("const", (), code, known, binding.origin, True, binding.shape)
                return
            first = self.nodes[operands[0]] if op == "array" and len(set(operands)) == 1 else None
            if first is not None and first.op != "const" and first.dtype == code:
                self.values[binding] = self.repeated(operands[0], binding.shape)
                return
            params: Any = None
            if op == "array":
                op, params = "cells", {"shape": binding.shape}
            elif binding.params is not None:
                params = binding.params.function if op == "call" else binding.params.params
            signed = binding in self.signed
            value = self.apply(op, operands, code, params, binding.origin, binding.primal, binding.shape, signed)
            self.values[binding] = value

    def _known_array(self, binding: Node, operands: list[int]) -> np.ndarray | None:
        """An array of constants, and what an exactly rounded operation makes of such."""
        values = [self.nodes[o].params for o in operands if self.nodes[o].op == "const"]
        if len(values) < len(operands) or not binding.shape or has_extents(binding.shape):
            return None
        if binding.op == "array":
            return np.array(values, binding.dtype).reshape(binding.shape) if len(set(map(repr, values))) > 1 else None
        if not self.fold or binding.op not in _FOLDED or binding.dtype in "FD" or not any(map(np.ndim, values)):
            return None
        with np.errstate(all="ignore"):
            return np.asarray(applied(binding, values))

    def _is_real(self, value: int) -> bool:
        return self.nodes[value].op == "const" and isinstance(self.nodes[value].params, float)

    def item(self, binding: Node) -> int:
        """One cell of an array: of an input, a number of its own; of another array, a region without axes."""
        source, code, origin = binding.operands[0], binding.dtype, binding.origin
        if not self.whole:
            if source not in self.place:
                raise InvariantError(f"{binding}: item of an array that is not an input")
            return self.put("input", (), code, (self.place[source], binding.params), origin, True)
        cells = (binding.params,) if len(source.shape) == 1 else map(int, np.unravel_index(binding.params, source.shape))
        at = tuple((i, i + 1, 1) for i in cells)
        cell = self.put("getitem", (self.value_of(source, code),), code, {"key": at}, origin, True, (1,) * len(source.shape))
        return self.put("reshape", (cell,), code, {"shape": ()}, origin, binding.primal)

    def spread(self, value: int, shape: Shape) -> int:
        """An array of this shape, also where its cells are known to be one number."""
        node = self.nodes[value]
        if node.shape == shape:
            return value
        return self.put("broadcast_to", (value,), node.dtype, {"shape": shape}, node.origin, False, shape)

    def loop(self, binding: Node, lower: Callable[[Graph], Program]) -> int:
        """A loop, whose body is a program of its own; what it is given twice it takes once."""
        loop, operands = binding.params, list[int]()
        taken: dict[Any, Node] = {}
        same: dict[Node, Atom] = {}
        for n, (o, leaf, row) in enumerate(zip(binding.operands, loop.body.inputs[1:], loop.places(), strict=True)):
            value = self.spread(self.as_dtype(self.value_of(o, leaf.dtype), leaf.dtype), o.shape)
            first = taken.setdefault(n if n < loop.carried else (value, row), leaf.node)
            if first is leaf.node:
                operands.append(value)
            else:
                same[leaf.node] = first
        rows = [
            row for leaf, row in zip(loop.body.inputs[1 + loop.carried :], loop.rows, strict=False) if leaf.node not in same
        ]
        body = with_leaves(loop.body, same) if same else loop.body
        body = replace(body, inputs=tuple(leaf for leaf in body.inputs if leaf.node not in same))
        params = replace(loop, body=lower(body), rows=tuple(rows))
        return self.put("loop", tuple(operands), binding.dtype, params, binding.origin, binding.primal)

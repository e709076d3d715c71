"""A graph opened for extension: what sweeps start from and end at, whole arrays or, in a graph of numbers, their cells.

Assumes that a graph of numbers has arrays as inputs, read by `item`, and in `array` bindings of outputs only. Guarantees
one symbol for each part of an input, those that the function never reads included.
"""

import math
from collections.abc import Sequence

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.lowering.expanding import lower_products
from symdiff.tracing.unrolling.scalarizing import is_unrolled
from symdiff.vocabulary.extents import Shape
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import is_complex

ZERO = Constant(0.0)


def typed(b: Builder, atom: Atom | None, shape: Shape, code: str) -> Atom:
    """A derivative with exactly this shape and dtype; zeros where there is none."""
    atom = ZERO if atom is None else atom
    return Arrays(b).broadcast_to(b.cast(atom if is_complex(code) else b.real(atom), code), shape)


class Opened:
    """A graph's builder, its bindings so far, and the parts of its inputs and outputs."""

    def __init__(self, graph: Graph, wrt: list[int], unrolled: bool | None = None, builder: Builder | None = None) -> None:
        self.wrt = [graph.inputs[p].node for p in wrt]
        self.unrolled = is_unrolled(graph) if unrolled is None else unrolled
        self.graph = graph if self.unrolled else lower_products(graph, self.wrt)
        self.builder = b = Builder() if builder is None else builder
        b.inputs = list(self.graph.inputs)
        b.bindings = list(self.graph.bindings)
        b.structural = {b.result: b for b in self.graph.bindings if b.op in HEADS}
        b.sums = {(b.operands[0], b.params.params["axes"]): b.result for b in self.graph.bindings if b.op == "sum"}
        b.origin = graph.origin
        b._count = 2 * len(self.graph.bindings) + len(graph.bindings)
        b.after(self.graph.bindings)
        b.primal = False
        self.arrays = Arrays(b)
        self._cells: dict[tuple[Atom, int], Node] = {}
        self._first: dict[Atom, Atom] = {}  # of the symbols that read one cell
        self.bindings = self._read_once() if self.unrolled else b.bindings[:]
        self.inputs = [self._parts(leaf) for leaf in self.wrt]

    def _read_once(self) -> list[Node]:
        """A function of numbers by itself, each cell of its arrays one symbol."""
        for binding in self.graph.bindings:
            if binding.op == "item":
                self._first[binding] = self._cells.setdefault((binding.operands[0], binding.params), binding)
        repeated = {symbol: first for symbol, first in self._first.items() if first is not symbol}
        own = (b for b in self.graph.bindings if b.op not in ("item", "array"))
        if not repeated:
            return list(own)
        return [Seen(b, b.op, tuple(repeated.get(o, o) for o in b.operands), b.params) for b in own]

    def _parts(self, symbol: Node) -> list[Node]:
        """What an input is differentiated by."""
        if symbol.shape == () or not self.unrolled:
            return [symbol]
        found = []
        for k in range(math.prod(symbol.shape)):
            if (symbol, k) not in self._cells:
                self._cells[symbol, k] = self.builder.bind("item", (symbol,), (), symbol.dtype, k)
            found.append(self._cells[symbol, k])
        return found

    @property
    def leaves(self) -> list[Node]:
        """What the inputs are differentiated by, one after the other."""
        return [part for parts in self.inputs for part in parts]

    def outputs(self, output: GraphOutput) -> list[Atom]:
        """What is differentiated of an output: the array, or its cells in C order."""
        atom = output.atom
        cells = atom.operands if self.unrolled and atom.op == "array" else (atom,)
        return [self._first.get(cell, cell) for cell in cells]

    def input(self, name: str, shape: tuple[int, ...], code: str) -> list[Node]:
        """The parts of one input more."""
        return self._parts(self.builder.input(name, shape, code))

    def output(self, name: str, parts: Sequence[Atom | None], shape: tuple[int, ...], code: str) -> GraphOutput:
        """An output of these parts with exactly this dtype; zeros where there are none."""
        b = self.builder
        whole = len(parts) == 1 and not (shape and self.unrolled)
        if whole:
            return GraphOutput(name, typed(b, parts[0], shape, code))
        cells = [ZERO if part is None else part for part in parts]
        return GraphOutput(name, b.array(cells if is_complex(code) else [b.real(c) for c in cells], shape, code))

    def finished(self, outputs: list[GraphOutput], name: str) -> Graph:
        """The extended graph with new outputs."""
        old = self.graph
        return self.builder.graph(name, tuple(outputs), None, origin=old.origin, doc=old.doc, notes=dict(old.notes))

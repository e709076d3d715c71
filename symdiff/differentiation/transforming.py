"""Graph to Graph: the derivative transforms, each from a traced function to the Graph of its derivative.

Assumes scalar Graphs (see `scalarizing`); whole arrays go to `arrays.transforming`. Guarantees outputs in the structures
of DESIGN: a gradient has its argument's shape, a Jacobian the output's axes and then the input's, a Hessian the input's
twice. Refuses outputs that are not one scalar where a gradient is asked for, and derivatives by complex inputs that do
not exist.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.differentiation import array_transforming as whole
from symdiff.differentiation.forward import Forward
from symdiff.differentiation.naming import derivative_dtype, derivative_name
from symdiff.differentiation.partials import ZERO
from symdiff.differentiation.reverse import Reverse
from symdiff.errors import ShapeError
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.tracing.unrolling.scalarizing import is_unrolled, scalarize
from symdiff.vocabulary.ops import is_complex

ONE = Constant(1.0)


class Unrolled:
    """A scalar Graph opened for extension: its builder, the cells of inputs and outputs, and its bindings so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = scalarize(graph)
        self.builder = Builder()
        self.builder.inputs = list(self.graph.inputs)
        self.builder.bindings = list(self.graph.bindings)
        self.builder.origin = graph.origin
        self.builder._count = len(self.graph.bindings)
        self._cells: dict[tuple[Atom, int], Node] = {}
        self._repeated: dict[Atom, Node] = {}
        for binding in self.graph.bindings:
            if binding.op == "item":
                first = self._cells.setdefault((binding.operands[0], binding.params), binding.result)
                if first is not binding.result:
                    self._repeated[binding.result] = first
        self._arrays = {b.result: b.operands for b in self.graph.bindings if b.op == "array"}

    def input_cells(self, place: int) -> list[Node]:
        """One symbol for each cell of an input, those the function never reads included."""
        symbol = self.graph.inputs[place].node
        if symbol.shape == ():
            return [symbol]
        found = []
        for k in range(math.prod(symbol.shape)):
            cell = self._cells.get((symbol, k))
            if cell is None:
                cell = self._cells[symbol, k] = self.builder.bind("item", (symbol,), (), symbol.dtype, k)
            found.append(cell)
        return found

    def output_cells(self, place: int) -> list[Atom]:
        """The cells of an output in C order."""
        atom = self.graph.outputs[place].atom
        return list(self._arrays.get(atom, (atom,)))  # type: ignore[arg-type]

    def root(self, atom: Atom) -> Atom:
        """The symbol that stands for an atom: a repeated read of a cell counts as the first."""
        return self._repeated.get(atom, atom)

    def once(self) -> list[Node]:
        """The function's own bindings, repeated reads of a cell bound to one symbol."""
        repeated = self._repeated
        if not repeated:
            return [b for b in self.graph.bindings if b.op not in ("item", "array")]
        return [
            Seen(b, b.op, tuple(repeated.get(o, o) for o in b.operands), b.params)
            for b in self.graph.bindings
            if b.op not in ("item", "array")
        ]

    def packed(self, name: str, cells: list[Atom], shape: tuple[int, ...], code: str) -> GraphOutput:
        """An output of these cells with exactly this dtype."""
        b = self.builder
        if not is_complex(code):
            cells = [b.real(c) for c in cells]
        if shape == ():
            atom = cells[0]
            if isinstance(atom, Constant) or atom.dtype != code:
                atom = b.cast(atom, code)
            return GraphOutput(name, atom)
        return GraphOutput(name, b.array(cells, shape, code))

    def finished(self, outputs: list[GraphOutput], out_tree: Any, name: str) -> Graph:
        """The extended Graph with new outputs."""
        old = self.graph
        return self.builder.graph(name, tuple(outputs), out_tree, origin=old.origin, doc=old.doc, notes=dict(old.notes))


def differentiated_scalar(graph: Graph, what: str) -> GraphOutput:
    """The only output, which must be a scalar."""
    if len(graph.outputs) != 1 or graph.outputs[0].shape != ():
        shapes = ", ".join(str(o.shape) for o in graph.outputs)
        raise ShapeError(
            f"{graph.origin}: {what} needs a function with one scalar result; {graph.name} returns shapes {shapes}. "
            "sd.jacobian takes any shape"
        )
    return graph.outputs[0]


def gradient(graph: Graph, wrt: list[int], rules: Any, with_value: bool) -> tuple[Graph, list[int]]:
    """The Graph of (value and) gradient by the inputs `wrt`; outputs: value if asked for, then one for each input."""
    output = differentiated_scalar(graph, "grad")
    if not is_unrolled(graph):
        return whole.gradient(graph, wrt, rules, with_value), wrt
    open_ = Unrolled(graph)
    atom = open_.output_cells(0)[0]
    cells = [open_.input_cells(place) for place in wrt]
    reverse = Reverse(open_.builder, open_.once(), [c for group in cells for c in group], rules)
    seeds = {open_.root(atom): ONE}
    mirrored = not is_complex(output.dtype)
    bars, conjugates = reverse.sweep(seeds, mirrored)
    reverse.refuse(conjugates)
    outputs = [GraphOutput("f", atom)] if with_value else []
    for place, group in zip(wrt, cells, strict=True):
        leaf = graph.inputs[place].node
        code = derivative_dtype(output.dtype, leaf.dtype)
        name = derivative_name("f", [leaf.name], False)
        outputs.append(open_.packed(name, [bars.get(c, ZERO) for c in group], leaf.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_grad"), wrt


def jacobian(graph: Graph, wrt: list[int], rules: Any, mode: str, count: Callable[[Graph], int]) -> Graph:
    """The Graph of all partials: for each output, one array for each input in `wrt`; `count` decides between modes."""
    if not is_unrolled(graph):
        return whole.jacobian(graph, wrt, rules, mode)
    rows = sum(math.prod(o.shape) for o in graph.outputs)
    columns = sum(math.prod(graph.inputs[p].node.shape) for p in wrt)
    if mode == "auto" and (rows == 1 or columns == 1):
        mode = "reverse" if rows <= columns else "forward"
    if mode == "auto":
        candidates = [_jacobian(graph, wrt, rules, m) for m in ("reverse", "forward")]
        return min(candidates, key=count)
    return _jacobian(graph, wrt, rules, mode)


def _jacobian(graph: Graph, wrt: list[int], rules: Any, mode: str) -> Graph:
    open_ = Unrolled(graph)
    cells = [open_.input_cells(place) for place in wrt]
    bindings = open_.once()
    flat = [c for group in cells for c in group]
    reverse = Reverse(open_.builder, bindings, flat, rules)
    complex_inputs = any(is_complex(c.dtype) for c in flat)
    outputs: list[GraphOutput] = []
    if mode == "forward" and not complex_inputs:
        forward = Forward(open_.builder, bindings, flat, rules)
        results = [open_.root(a) for place in range(len(graph.outputs)) for a in open_.output_cells(place)]
        dots = [forward.sweep({c: ONE}, results) for c in flat]
        column = dict(zip(flat, dots, strict=True))

        def row(atom: Atom, mirrored: bool) -> dict[Node, Atom]:
            return {c: column[c][atom] for c in flat if atom in column[c]}
    else:

        def row(atom: Atom, mirrored: bool) -> dict[Node, Atom]:
            bars, conjugates = reverse.sweep({atom: ONE}, mirrored)
            reverse.refuse(conjugates)
            return bars

    for place, output in enumerate(open_.graph.outputs):
        found = [row(open_.root(a), not is_complex(output.dtype)) for a in open_.output_cells(place)]
        for input_place, group in zip(wrt, cells, strict=True):
            leaf = graph.inputs[input_place].node
            code = derivative_dtype(output.dtype, leaf.dtype)
            values = [bars.get(c, ZERO) for bars in found for c in group]
            name = derivative_name(output.name, [leaf.name], len(graph.outputs) > 1)
            outputs.append(open_.packed(name, values, output.shape + leaf.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_jacobian")


def hessian(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """The Graph of second partials, one array for each pair of inputs; each symmetric pair is swept once."""
    output = differentiated_scalar(graph, "hessian")
    if not is_unrolled(graph):
        return whole.hessian(graph, wrt, rules)
    first, _ = gradient(graph, wrt, rules, False)
    open_ = Unrolled(first)
    cells = [open_.input_cells(place) for place in wrt]
    flat = [c for group in cells for c in group]
    gradient_cells = [a for place in range(len(wrt)) for a in open_.output_cells(place)]
    bindings = open_.once()
    matrix: dict[tuple[int, int], Atom] = {}
    reverse = Reverse(open_.builder, bindings, flat, rules)
    for i, atom in enumerate(gradient_cells):
        reverse = Reverse(open_.builder, bindings, flat[: i + 1], rules, reverse)
        atom = open_.root(atom)
        bars, conjugates = reverse.sweep({atom: ONE}, not is_complex(atom.dtype or "d"))
        reverse.refuse(conjugates)
        for j in range(i + 1):
            matrix[i, j] = matrix[j, i] = bars.get(flat[j], ZERO)
    outputs = []
    starts = np.cumsum([0] + [len(g) for g in cells])
    for a, first_place in enumerate(wrt):
        for b, second_place in enumerate(wrt):
            one, two = graph.inputs[first_place].node, graph.inputs[second_place].node
            code = derivative_dtype(derivative_dtype(output.dtype, one.dtype), two.dtype)
            values = [matrix[i, j] for i in range(starts[a], starts[a + 1]) for j in range(starts[b], starts[b + 1])]
            name = f"d2f_d{one.name}2" if a == b else f"d2f_d{one.name}_d{two.name}"
            outputs.append(open_.packed(name, values, one.shape + two.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_hessian")


def push_tangents(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a tangent for each of `wrt`; outputs, then their tangents."""
    if not is_unrolled(graph):
        return whole.push_tangents(graph, wrt, rules)
    open_ = Unrolled(graph)
    b = open_.builder
    seeds: dict[Atom, Atom] = {}
    for place in wrt:
        leaf = graph.inputs[place].node
        tangent = b.input(f"{leaf.name}_dot", leaf.shape, leaf.dtype)
        for k, cell in enumerate(open_.input_cells(place)):
            seeds[cell] = tangent if leaf.shape == () else b.bind("item", (tangent,), (), leaf.dtype, k)
    bindings = open_.once()
    results = [open_.root(a) for place in range(len(graph.outputs)) for a in open_.output_cells(place)]
    dots = Forward(b, bindings, seeds, rules).sweep(seeds, results)
    outputs = list(open_.graph.outputs)
    for place, output in enumerate(open_.graph.outputs):
        code = output.dtype
        for p in wrt:
            code = derivative_dtype(code, graph.inputs[p].node.dtype)
        values = [dots.get(open_.root(a), ZERO) for a in open_.output_cells(place)]
        outputs.append(open_.packed(f"{output.name}_dot", values, output.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_jvp")


def pull_cotangents(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a cotangent for each output; outputs, then the cotangents of `wrt`."""
    if not is_unrolled(graph):
        return whole.pull_cotangents(graph, wrt, rules)
    open_ = Unrolled(graph)
    b = open_.builder
    seeds: dict[Atom, Atom] = {}
    mirrored = True
    for place, output in enumerate(open_.graph.outputs):
        cotangent = b.input(f"{output.name}_bar", output.shape, output.dtype)
        mirrored = mirrored and not is_complex(output.dtype)
        for k, atom in enumerate(open_.output_cells(place)):
            seed = cotangent if output.shape == () else b.bind("item", (cotangent,), (), output.dtype, k)
            root = open_.root(atom)
            seeds[root] = b.add(seeds[root], seed) if root in seeds else seed
    cells = [open_.input_cells(place) for place in wrt]
    reverse = Reverse(b, open_.once(), [c for group in cells for c in group], rules)
    bars, conjugates = reverse.sweep(seeds, mirrored)
    reverse.refuse(conjugates)
    outputs = list(open_.graph.outputs)
    for place, group in zip(wrt, cells, strict=True):
        leaf = graph.inputs[place].node
        code = leaf.dtype
        for output in graph.outputs:
            code = derivative_dtype(code, output.dtype)
        outputs.append(open_.packed(f"{leaf.name}_bar", [bars.get(c, ZERO) for c in group], leaf.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_vjp")


def hessian_product(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a vector for each of `wrt`; outputs H v, one for each of `wrt`: forward over reverse."""
    differentiated_scalar(graph, "hvp")
    first, _ = gradient(graph, wrt, rules, False)
    both = push_tangents(first, wrt, rules)
    names = [f"h_{graph.inputs[p].name}" for p in wrt]
    outputs = tuple(GraphOutput(n, o.atom) for n, o in zip(names, both.outputs[len(wrt) :], strict=True))
    both.outputs = outputs
    both.name = f"{graph.name}_hvp"
    return both


def wirtinger(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """For each output the partials by each input in `wrt`; then those by the inputs' conjugates."""
    if not is_unrolled(graph):
        return whole.wirtinger(graph, wrt, rules)
    open_ = Unrolled(graph)
    cells = [open_.input_cells(place) for place in wrt]
    reverse = Reverse(open_.builder, open_.once(), [c for group in cells for c in group], rules)
    rows = [
        [reverse.sweep({open_.root(a): ONE}, not is_complex(output.dtype)) for a in open_.output_cells(place)]
        for place, output in enumerate(open_.graph.outputs)
    ]
    outputs = []
    for half, suffix in enumerate(("", "bar")):
        for output, found in zip(open_.graph.outputs, rows, strict=True):
            for place, group in zip(wrt, cells, strict=True):
                leaf = graph.inputs[place].node
                values = [pair[half].get(c, ZERO) for pair in found for c in group]
                name = derivative_name(output.name, [leaf.name], len(graph.outputs) > 1) + suffix
                code = derivative_dtype(output.dtype, leaf.dtype)
                outputs.append(open_.packed(name, values, output.shape + leaf.shape, code))
    return open_.finished(outputs, None, f"{graph.name}_wirtinger")

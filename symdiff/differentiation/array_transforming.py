"""Graph to Graph in the array regime: gradients, Jacobians, Hessians, products with tangents and cotangents.

Assumes graphs of whole arrays. Guarantees the outputs of `transforming`, by the same sweeps, with as many bindings
for long arrays as for short ones; a Jacobian is one sweep over a batch of unit vectors. Refuses complex derivatives that
do not exist, with `NonHolomorphicError`.
"""

import math
from collections.abc import Callable
from typing import Any

from symdiff.differentiation.deltas import Sparse, unit_seeds
from symdiff.differentiation.forward import Forward
from symdiff.differentiation.naming import derivative_dtype, derivative_name
from symdiff.differentiation.reverse import Reverse
from symdiff.differentiation.vectorizing import append_batched
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.lowering.expanding import lower_products
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import is_complex

ONE, ZERO = Constant(1.0), Constant(0.0)


class Whole:
    """A graph opened for extension: its builder and its bindings so far."""

    def __init__(self, graph: Graph, wrt: list[int]) -> None:
        self.wrt = [graph.inputs[p].node for p in wrt]
        self.graph = lower_products(graph, self.wrt)
        self.bindings = list(self.graph.bindings)
        self.builder = Builder()
        self.builder.inputs = list(self.graph.inputs)
        self.builder.bindings = list(self.graph.bindings)
        self.builder.structural = {b.result: b for b in self.graph.bindings if b.op in HEADS}
        self.builder.sums = {(b.operands[0], b.params.params["axes"]): b.result for b in self.graph.bindings if b.op == "sum"}
        self.builder.origin = graph.origin
        self.builder._count = 2 * len(self.graph.bindings) + len(graph.bindings)
        self.builder.primal = False
        self.arrays = Arrays(self.builder)

    def typed(self, atom: Atom | None, shape: tuple[int, ...], code: str) -> Atom:
        """A result with exactly this shape and dtype; zeros where there is none."""
        b = self.builder
        atom = ZERO if atom is None else atom
        if not is_complex(code):
            atom = b.real(atom)
        if isinstance(atom, Constant) or atom.dtype != code:
            atom = b.cast(atom, code)
        return self.arrays.broadcast_to(atom, shape)

    def finished(self, outputs: list[GraphOutput], name: str) -> Graph:
        """The extended graph with new outputs."""
        old = self.graph
        return self.builder.graph(name, tuple(outputs), None, origin=old.origin, doc=old.doc, notes=dict(old.notes))


def gradient(graph: Graph, wrt: list[int], rules: Any, with_value: bool) -> Graph:
    """(Value and) gradient of the only output, a scalar."""
    open_ = Whole(graph, wrt)
    output = open_.graph.outputs[0]
    reverse = Reverse(open_.builder, open_.bindings, open_.wrt, rules)
    bars, conjugates = reverse.sweep({output.atom: ONE}, not is_complex(output.dtype))
    reverse.refuse(conjugates)
    outputs = [GraphOutput("f", output.atom)] if with_value else []
    for leaf in open_.wrt:
        code = derivative_dtype(output.dtype, leaf.dtype)
        outputs.append(GraphOutput(derivative_name("f", [leaf.name], False), open_.typed(bars.get(leaf), leaf.shape, code)))
    return open_.finished(outputs, f"{graph.name}_grad")


def push_tangents(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a tangent for each of `wrt`; outputs, then their tangents."""
    open_ = Whole(graph, wrt)
    seeds: dict[Atom, Atom] = {leaf: open_.builder.input(f"{leaf.name}_dot", leaf.shape, leaf.dtype) for leaf in open_.wrt}
    dots = Forward(open_.builder, open_.bindings, seeds, rules).sweep(seeds, [o.atom for o in open_.graph.outputs])
    outputs = list(open_.graph.outputs)
    for output in open_.graph.outputs:
        code = output.dtype
        for leaf in open_.wrt:
            code = derivative_dtype(code, leaf.dtype)
        outputs.append(GraphOutput(f"{output.name}_dot", open_.typed(dots.get(output.atom), output.shape, code)))
    return open_.finished(outputs, f"{graph.name}_jvp")


def pull_cotangents(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a cotangent for each output; outputs, then the cotangents of `wrt`."""
    open_, (bars, conjugates), reverse = _swept(graph, wrt, rules)
    reverse.refuse(conjugates)
    outputs = list(open_.graph.outputs)
    outputs += [GraphOutput(f"{v.name}_bar", open_.typed(bars.get(v), v.shape, _common(v, graph))) for v in open_.wrt]
    return open_.finished(outputs, f"{graph.name}_vjp")


def _pullback_pair(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """As `pull_cotangents`, with the cotangents by the conjugates of `wrt` at the end, and any of them allowed."""
    open_, pair, _ = _swept(graph, wrt, rules)
    outputs = list(open_.graph.outputs)
    for found in pair:
        outputs += [GraphOutput(v.name, open_.typed(found.get(v), v.shape, _common(v, graph))) for v in open_.wrt]
    return open_.finished(outputs, graph.name)


def _swept(graph: Graph, wrt: list[int], rules: Any) -> tuple[Whole, tuple[dict[Node, Atom], dict[Node, Atom]], Reverse]:
    """A reverse sweep from an input for each output's cotangent."""
    open_ = Whole(graph, wrt)
    b = open_.builder
    seeds: dict[Atom, Atom] = {}
    for output in open_.graph.outputs:
        cotangent = b.input(f"{output.name}_bar", output.shape, output.dtype)
        seeds[output.atom] = b.add(seeds[output.atom], cotangent) if output.atom in seeds else cotangent
    mirrored = not any(is_complex(o.dtype) for o in graph.outputs)
    reverse = Reverse(b, open_.bindings, open_.wrt, rules)
    return open_, reverse.sweep(seeds, mirrored), reverse


def _common(leaf: Node, graph: Graph) -> str:
    """The dtype of a cotangent of an input."""
    code = leaf.dtype
    for output in graph.outputs:
        code = derivative_dtype(code, output.dtype)
    return code


def wirtinger(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """For each output the partials by each input in `wrt`; then those by the inputs' conjugates."""
    open_ = Whole(graph, wrt)
    found = [_partial_pair(open_, output, wrt, rules) for output in open_.graph.outputs]
    outputs = []
    for half, suffix in enumerate(("", "bar")):
        for output, pair in zip(open_.graph.outputs, found, strict=True):
            for leaf in open_.wrt:
                name = derivative_name(output.name, [leaf.name], len(graph.outputs) > 1) + suffix
                code = derivative_dtype(output.dtype, leaf.dtype)
                outputs.append(GraphOutput(name, open_.typed(pair[half].get(leaf), output.shape + leaf.shape, code)))
    return open_.finished(outputs, f"{graph.name}_wirtinger")


def _partial_pair(open_: Whole, output: GraphOutput, wrt: list[int], rules: Any) -> tuple[dict[Node, Atom], dict[Node, Atom]]:
    """The partials of an output by inputs and by their conjugates: a sweep, over a batch of unit arrays for an array."""
    if output.shape == ():
        reverse = Reverse(open_.builder, open_.bindings, open_.wrt, rules)
        return reverse.sweep({output.atom: ONE}, not is_complex(output.dtype))
    results = _over_units(open_, output, lambda single: _pullback_pair(single, wrt, rules))
    half = len(wrt)
    return dict(zip(open_.wrt, results[:half], strict=True)), dict(zip(open_.wrt, results[half:], strict=True))


def jacobian(graph: Graph, wrt: list[int], rules: Any, mode: str) -> Graph:
    """All partials, one array for each output and input: a sweep over unit cotangents, or over unit tangents."""
    rows = sum(math.prod(o.shape) for o in graph.outputs)
    columns = sum(math.prod(graph.inputs[p].node.shape) for p in wrt)
    if mode == "auto":
        mode = "reverse" if rows <= columns or any(is_complex(graph.inputs[p].node.dtype) for p in wrt) else "forward"
    open_ = Whole(graph, wrt)
    blocks = _rows(open_, wrt, rules) if mode == "reverse" else _columns(open_, wrt, rules)
    outputs = []
    for output in graph.outputs:
        for leaf in open_.wrt:
            code = derivative_dtype(output.dtype, leaf.dtype)
            name = derivative_name(output.name, [leaf.name], len(graph.outputs) > 1)
            atom = open_.typed(blocks.get((output.name, leaf)), output.shape + leaf.shape, code)
            outputs.append(GraphOutput(name, atom))
    return open_.finished(outputs, f"{graph.name}_jacobian")


def _unit(arrays: Arrays, shape: tuple[int, ...], code: str) -> Atom | Sparse:
    """All unit arrays of a shape, one after the other along a leading axis."""
    if len(shape) > 1:
        return unit_seeds(arrays, shape, code)
    count = math.prod(shape)
    one = arrays.broadcast_to(Constant(1.0, code), (count,))
    return arrays.reshape(arrays.embed(one), (count, *shape))


def _rows(open_: Whole, wrt: list[int], rules: Any) -> dict[tuple[str, Node], Atom]:
    found: dict[tuple[str, Node], Atom] = {}
    for output in open_.graph.outputs:
        if output.atom.op != "const":
            results = _over_units(open_, output, lambda single: pull_cotangents(single, wrt, rules))
            found |= {(output.name, leaf): atom for leaf, atom in zip(open_.wrt, results, strict=True)}
    return found


def _over_units(open_: Whole, output: GraphOutput, pulled_by: Callable[[Graph], Graph]) -> list[Atom]:
    """What a pullback makes of each unit cotangent of an output: the output's axes, then the input's."""
    single = Graph(open_.graph.name, open_.graph.inputs, (output,), open_.graph.bindings, None, open_.graph.origin)
    pulled = pulled_by(single)
    seed = _unit(open_.arrays, output.shape, output.dtype)
    results = append_batched(pulled, open_.builder, {pulled.inputs[-1].node: seed}, math.prod(output.shape))
    return [open_.arrays.reshape(atom, output.shape + o.shape) for atom, o in zip(results[1:], pulled.outputs[1:], strict=True)]


def _columns(open_: Whole, wrt: list[int], rules: Any) -> dict[tuple[str, Node], Atom]:
    found: dict[tuple[str, Node], Atom] = {}
    arrays = open_.arrays
    for place, leaf in zip(wrt, open_.wrt, strict=True):
        pushed = push_tangents(open_.graph, [place], rules)
        count = math.prod(leaf.shape)
        results = append_batched(pushed, open_.builder, {pushed.inputs[-1].node: _unit(arrays, leaf.shape, leaf.dtype)}, count)
        for output, atom in zip(open_.graph.outputs, results[len(open_.graph.outputs) :], strict=True):
            last = arrays.transpose(atom, (*range(1, len(atom.shape)), 0))
            found[output.name, leaf] = arrays.reshape(last, output.shape + leaf.shape)
    return found


def hessian(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Second partials, one array for each pair of inputs: unit tangents pushed through the gradient."""
    first = gradient(graph, wrt, rules, False)
    complex_inputs = any(is_complex(graph.inputs[p].node.dtype) for p in wrt)
    both = jacobian(first, wrt, rules, "reverse" if complex_inputs else "forward")
    leaves = [graph.inputs[p].name for p in wrt]
    names = [f"d2f_d{a}2" if a == b else f"d2f_d{a}_d{b}" for a in leaves for b in leaves]
    both.outputs = tuple(GraphOutput(n, o.atom) for n, o in zip(names, both.outputs, strict=True))
    both.name = f"{graph.name}_hessian"
    return both

"""Graph to Graph: the derivative transforms, each from a traced function to the Graph of its derivative.

Written once for graphs of numbers and of whole arrays (`opening`): where a number takes one sweep for each cell, an array
takes one over a batch of unit arrays. Guarantees outputs in the structures of DESIGN: a gradient has its argument's shape, a
Jacobian the output's axes and then the input's, a Hessian the input's twice. Refuses outputs that are not one scalar where a
gradient is asked for, with `ShapeError`, and derivatives by complex inputs that do not exist, with `NonHolomorphicError`.
"""

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from symdiff.differentiation.deltas import Sparse, unit_seeds
from symdiff.differentiation.forward import Forward
from symdiff.differentiation.naming import derivative_dtype, derivative_name
from symdiff.differentiation.opening import Opened
from symdiff.differentiation.reverse import Reverse
from symdiff.differentiation.vectorizing import append_batched
from symdiff.errors import ShapeError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom, Constant, Node
from symdiff.tracing.unrolling.scalarizing import is_unrolled
from symdiff.vocabulary.ops import is_complex

ONE = Constant(1.0)


def differentiated_scalar(graph: Graph, what: str) -> GraphOutput:
    """The only output, which must be a scalar."""
    if len(graph.outputs) != 1 or graph.outputs[0].shape != ():
        shapes = ", ".join(str(o.shape) for o in graph.outputs)
        raise ShapeError(
            f"{graph.origin}: {what} needs a function with one scalar result; {graph.name} returns shapes {shapes}. "
            "sd.jacobian takes any shape"
        )
    return graph.outputs[0]


def gradient(graph: Graph, wrt: list[int], rules: Any, with_value: bool) -> Graph:
    """The Graph of (value and) gradient by the inputs `wrt`; outputs: value if asked for, then one for each input."""
    differentiated_scalar(graph, "grad")
    open_ = Opened(graph, wrt)
    output = open_.graph.outputs[0]
    reverse = Reverse(open_.builder, open_.bindings, open_.leaves, rules)
    bars, conjugates = reverse.sweep({open_.outputs(output)[0]: ONE}, not is_complex(output.dtype))
    reverse.refuse(conjugates)
    outputs = [GraphOutput("f", output.atom)] if with_value else []
    for leaf, parts in zip(open_.wrt, open_.inputs, strict=True):
        code = derivative_dtype(output.dtype, leaf.dtype)
        outputs.append(open_.output(derivative_name("f", [leaf.name], False), [bars.get(p) for p in parts], leaf.shape, code))
    return open_.finished(outputs, f"{graph.name}_grad")


def push_tangents(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a tangent for each of `wrt`; outputs, then their tangents."""
    open_ = Opened(graph, wrt)
    seeds: dict[Atom, Atom] = {}
    for leaf, parts in zip(open_.wrt, open_.inputs, strict=True):
        seeds.update(zip(parts, open_.input(f"{leaf.name}_dot", leaf.shape, leaf.dtype), strict=True))
    results = [open_.outputs(o) for o in open_.graph.outputs]
    dots = Forward(open_.builder, open_.bindings, seeds, rules).sweep(seeds, [a for parts in results for a in parts])
    outputs = list(open_.graph.outputs)
    for output, parts in zip(open_.graph.outputs, results, strict=True):
        code = reduce(derivative_dtype, [leaf.dtype for leaf in open_.wrt], output.dtype)
        outputs.append(open_.output(f"{output.name}_dot", [dots.get(a) for a in parts], output.shape, code))
    return open_.finished(outputs, f"{graph.name}_jvp")


def pull_cotangents(graph: Graph, wrt: list[int], rules: Any, both: bool = False) -> Graph:
    """Inputs, then a cotangent for each output; outputs, then the cotangents of `wrt`.

    Those by the conjugates of `wrt` come after them where they are asked for, and must be zero otherwise.
    """
    open_ = Opened(graph, wrt)
    seeds: dict[Atom, Atom] = {}
    for output in open_.graph.outputs:
        cotangent = open_.input(f"{output.name}_bar", output.shape, "d" if output.dtype == "?" else output.dtype)
        for atom, seed in zip(open_.outputs(output), cotangent, strict=True):
            seeds[atom] = open_.builder.add(seeds[atom], seed) if atom in seeds else seed
    reverse = Reverse(open_.builder, open_.bindings, open_.leaves, rules)
    pair = reverse.sweep(seeds, not any(is_complex(o.dtype) for o in graph.outputs))
    if not both:
        reverse.refuse(pair[1])
    outputs = list(open_.graph.outputs)
    for bars in pair[: 1 + both]:
        for leaf, parts in zip(open_.wrt, open_.inputs, strict=True):
            code = reduce(derivative_dtype, [o.dtype for o in graph.outputs], leaf.dtype)
            outputs.append(open_.output(f"{leaf.name}_bar", [bars.get(p) for p in parts], leaf.shape, code))
    return open_.finished(outputs, f"{graph.name}_vjp")


def hessian_product(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """Inputs, then a vector for each of `wrt`; outputs H v, one for each of `wrt`: forward over reverse."""
    differentiated_scalar(graph, "hvp")
    both = push_tangents(gradient(graph, wrt, rules, False), wrt, rules)
    names = [f"h_{graph.inputs[p].name}" for p in wrt]
    both.outputs = tuple(GraphOutput(n, o.atom) for n, o in zip(names, both.outputs[len(wrt) :], strict=True))
    both.name = f"{graph.name}_hvp"
    return both


def jacobian(graph: Graph, wrt: list[int], rules: Any, mode: str, count: Callable[[Graph], int]) -> Graph:
    """The Graph of all partials: for each output, one array for each input in `wrt`; `count` decides between modes."""
    rows = sum(math.prod(o.shape) for o in graph.outputs)
    columns = sum(math.prod(graph.inputs[p].node.shape) for p in wrt)
    if any(is_complex(graph.inputs[p].node.dtype) for p in wrt):
        mode = "reverse"
    if mode == "auto" and is_unrolled(graph) and rows > 1 and columns > 1:
        return min((jacobian(graph, wrt, rules, m, count) for m in ("reverse", "forward")), key=count)
    if mode == "auto":
        mode = "reverse" if rows <= columns else "forward"
    open_ = Opened(graph, wrt)
    blocks = _columns(open_, wrt, rules) if mode == "forward" else [half[0] for half in _rows(open_, wrt, rules, False)]
    return open_.finished(_partials(open_, blocks), f"{graph.name}_jacobian")


def wirtinger(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """For each output the partials by each input in `wrt`; then those by the inputs' conjugates."""
    open_ = Opened(graph, wrt)
    rows = _rows(open_, wrt, rules, True)
    outputs = [*_partials(open_, [half[0] for half in rows]), *_partials(open_, [half[1] for half in rows], "bar")]
    return open_.finished(outputs, f"{graph.name}_wirtinger")


def hessian(graph: Graph, wrt: list[int], rules: Any) -> Graph:
    """The Graph of second partials, one array for each pair of inputs; of numbers each symmetric pair is swept once."""
    differentiated_scalar(graph, "hessian")
    first = gradient(graph, wrt, rules, False)
    open_ = Opened(first, wrt)
    if not open_.unrolled:
        both = jacobian(first, wrt, rules, "forward", lambda g: 0)
    else:
        both = open_.finished(_partials(open_, _symmetric(open_, rules)), "")
    leaves = [leaf.name for leaf in open_.wrt]
    names = [f"d2f_d{a}2" if a == b else f"d2f_d{a}_d{b}" for a in leaves for b in leaves]
    both.outputs = tuple(GraphOutput(n, o.atom) for n, o in zip(names, both.outputs, strict=True))
    both.name = f"{graph.name}_hessian"
    return both


Block = list[list[Atom | None]]  # the partials of an output by each input, an array or cells


def _partials(open_: Opened, blocks: list[Block], suffix: str = "") -> list[GraphOutput]:
    """An output for each one and each input: the partials in `blocks`."""
    outputs, old = [], open_.graph.outputs
    for output, block in zip(old, blocks, strict=True):
        for leaf, parts in zip(open_.wrt, block, strict=True):
            name = derivative_name(output.name, [leaf.name], len(old) > 1) + suffix
            code = derivative_dtype(output.dtype, leaf.dtype)
            outputs.append(open_.output(name, parts, output.shape + leaf.shape, code))
    return outputs


def _rows(open_: Opened, wrt: list[int], rules: Any, both: bool) -> list[tuple[Block, Block]]:
    """For each output its partials by inputs, and by their conjugates where `both` are asked for, by backward sweeps."""
    reverse = Reverse(open_.builder, open_.bindings, open_.leaves, rules)
    found = []
    for output in open_.graph.outputs:
        if output.shape and not open_.unrolled:
            found.append(_over_units(open_, output, wrt, rules, both))
            continue
        pairs = [reverse.sweep({a: ONE}, not is_complex(output.dtype)) for a in open_.outputs(output)]
        for _, conjugates in () if both else pairs:
            reverse.refuse(conjugates)
        blocks = [[[pair[half].get(p) for pair in pairs for p in parts] for parts in open_.inputs] for half in (0, 1)]
        found.append((blocks[0], blocks[1]))
    return found


def _symmetric(open_: Opened, rules: Any) -> list[Block]:
    """The partials of a gradient's cells: those by an earlier cell are those of the earlier one by this."""
    leaves = open_.leaves
    matrix: dict[tuple[Node, Node], Atom | None] = {}
    reverse = Reverse(open_.builder, open_.bindings, leaves, rules)
    cells = [a for output in open_.graph.outputs for a in open_.outputs(output)]
    for i, (leaf, atom) in enumerate(zip(leaves, cells, strict=True)):
        reverse = Reverse(open_.builder, open_.bindings, leaves[: i + 1], rules, reverse)
        bars, conjugates = reverse.sweep({atom: ONE}, not is_complex(atom.dtype or "d"))
        reverse.refuse(conjugates)
        for other in leaves[: i + 1]:
            matrix[leaf, other] = matrix[other, leaf] = bars.get(other)
    return [[[matrix[p, q] for p in first for q in second] for second in open_.inputs] for first in open_.inputs]


def _over_units(open_: Opened, output: GraphOutput, wrt: list[int], rules: Any, both: bool) -> tuple[Block, Block]:
    """What the pullback makes of each unit cotangent of an array: the output's axes, then the input's."""
    old, arrays = open_.graph, open_.arrays
    single = Graph(old.name, old.inputs, (output,), old.bindings, None, old.origin)
    pulled = pull_cotangents(single, wrt, rules, both)
    seed = _unit(arrays, output.shape, output.dtype)
    results = append_batched(pulled, open_.builder, {pulled.inputs[-1].node: seed}, math.prod(output.shape))
    found: Block = [
        [arrays.reshape(atom, output.shape + o.shape)] for atom, o in zip(results[1:], pulled.outputs[1:], strict=True)
    ]
    return found[: len(wrt)], found[len(wrt) :]


def _columns(open_: Opened, wrt: list[int], rules: Any) -> list[Block]:
    """For each output its partials by forward sweeps, from each cell of the inputs or from a batch of unit arrays."""
    outputs = open_.graph.outputs
    if open_.unrolled:
        results = [open_.outputs(o) for o in outputs]
        forward = Forward(open_.builder, open_.bindings, open_.leaves, rules)
        flat = [a for parts in results for a in parts]
        dots = {leaf: forward.sweep({leaf: ONE}, flat) for leaf in open_.leaves}
        return [[[dots[p].get(a) for a in cells for p in parts] for parts in open_.inputs] for cells in results]
    arrays = open_.arrays
    blocks: list[Block] = [[] for _ in outputs]
    for place, leaf in zip(wrt, open_.wrt, strict=True):
        pushed = push_tangents(open_.graph, [place], rules)
        seed = _unit(arrays, leaf.shape, leaf.dtype)
        results_ = append_batched(pushed, open_.builder, {pushed.inputs[-1].node: seed}, math.prod(leaf.shape), True)
        for output, block, last in zip(outputs, blocks, results_[len(outputs) :], strict=True):
            block.append([arrays.reshape(last, output.shape + leaf.shape)])
    return blocks


def _unit(arrays: Arrays, shape: tuple[int, ...], code: str) -> Atom | Sparse:
    """All unit arrays of a shape, one after the other along a leading axis."""
    return unit_seeds(shape, code) if shape else arrays.broadcast_to(Constant(1.0, code), (1,))

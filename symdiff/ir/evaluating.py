"""Evaluates a Graph binding by binding with NumPy: the second opinion for everything that is generated.

Assumes arguments of the inputs' shapes. Guarantees NumPy's own results, in IEEE arithmetic without warnings, each
binding computed once. Refuses a wrong number of arguments with `ShapeError`.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from symdiff.errors import ShapeError
from symdiff.ir.branches import branches_of
from symdiff.ir.building import active_builders
from symdiff.ir.graph import Graph, evaluated, spliced
from symdiff.ir.hidden import hidden_of, visible_input_count
from symdiff.ir.loops import Loop
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary import structures
from symdiff.vocabulary.extents import numbers, solved
from symdiff.vocabulary.heads import Static
from symdiff.vocabulary.ops import OPS


@evaluated.written
def evaluate(graph: Graph, args: tuple[Any, ...]) -> Any:
    """The graph's result at `args`, one for each input but captured arrays, in the function's own result structure; traced
    where an argument is.
    """
    found = spliced(graph, args) if active_builders() else NotImplemented
    if found is not NotImplemented:
        return found
    values = binding_values(graph, args)
    results = [np.asarray(value_of(o.atom, values), dtype=np.dtype(o.dtype))[()] for o in graph.outputs]
    if graph.out_tree is not None:
        return structures.unflatten(graph.out_tree, results)
    return results[0] if len(results) == 1 else tuple(results)


def binding_values(graph: Graph, args: tuple[Any, ...]) -> dict[Atom, Any]:
    """The values of the graph's inputs and of all its bindings at `args`."""
    args = tuple(hidden_of(graph).fill(args, len(graph.inputs)))
    if len(args) != len(graph.inputs):
        raise ShapeError(f"{graph.name} takes {visible_input_count(graph)} arguments ({len(args)} given)")
    branches = branches_of(graph)
    if branches is not None:
        branches.check(graph.name, args)
    values: dict[Atom, Any] = {}
    try:
        given = [np.asarray(arg, dtype=np.dtype(leaf.node.dtype)) for leaf, arg in zip(graph.inputs, args, strict=True)]
    except (TypeError, ValueError) as error:
        raise ShapeError(f"{graph.name} takes a number or an array for each of {graph.inputs}: {error}") from None
    try:
        sizes = solved([(leaf.name, leaf.node.shape, value.shape) for leaf, value in zip(graph.inputs, given, strict=True)])
    except ValueError as error:
        raise ShapeError(f"{graph.name}: {error}") from None
    for leaf, value in zip(graph.inputs, given, strict=True):
        shape = leaf.node.shape
        if len(value.shape) != len(shape) or value.shape != numbers(shape, sizes):
            raise ShapeError(f"{graph.name}: {leaf.name} has shape {value.shape}, {shape} expected")
        values[leaf.node] = value[()]
    with np.errstate(all="ignore"):
        _compute(graph.bindings, values, sizes, Steps())
    return values


def value_of(atom: Atom, values: dict[Atom, Any]) -> Any:
    """The value of an atom, be it a constant; arrays of integers are floating-point numbers, as everywhere in a graph."""
    if atom.op != "const":
        return values[atom]
    return atom.params.astype(float) if isinstance(atom.params, np.ndarray) and atom.params.dtype.kind in "iu" else atom.params


def _compute(bindings: list[Node], values: dict[Atom, Any], sizes: dict[str, int], steps: "Steps") -> None:
    """Add the values of bindings, and the sizes that loops among them count."""
    steps.take(len(bindings))
    for binding in bindings:
        values[binding] = applied(binding, [value_of(o, values) for o in binding.operands], sizes, steps)
        if binding.op == "loop" and binding.params.tested:
            sizes[binding.params.counted] = int(values[binding][-1])


class Steps:
    """How many bindings may be evaluated."""

    class Spent(Exception):
        """There are more."""

    def __init__(self, left: float = math.inf) -> None:
        self.left = left

    def take(self, count: int) -> None:
        """Count bindings. Raises `Spent` where they are too many."""
        self.left -= count
        if self.left < 0:
            raise self.Spent


def applied(
    binding: Node, operands: list[Any], sizes: Mapping[str, int] = MappingProxyType({}), steps: Steps | None = None
) -> Any:  # fmt: skip
    """The value of a binding at the values of its operands; a tuple of several. Loops raise `Steps.Spent` beyond `steps`."""
    if binding.op == "loop":
        return _run(binding.params, operands, dict(sizes), Steps() if steps is None else steps)
    if binding.op == "part":
        return operands[0][binding.params]
    dtype = np.dtype(binding.dtype)
    if binding.op == "size":
        return np.asarray(numbers(binding.params, sizes), dtype)[()]
    if binding.op == "item":
        return operands[0].ravel()[numbers(binding.params, sizes)]
    if binding.op == "array":
        return np.array(operands, dtype=dtype).reshape(binding.shape)
    if binding.op == "cast":
        return np.asarray(operands[0]).astype(dtype)[()]
    if binding.op == "call":
        return binding.params.function(*operands)
    if binding.op in OPS:
        return np.asarray(OPS[binding.op].function()(*operands)).astype(dtype)[()]
    static = binding.params
    if sizes:
        static = Static(static.head, numbers(static.params, sizes))
    return np.asarray(static.function(*operands)).astype(dtype)[()]


def _run(loop: Loop, operands: list[Any], sizes: dict[str, int], steps: Steps) -> tuple[Any, ...]:
    """The results of a loop, round by round."""
    results = loop.results
    sums = [np.zeros(numbers(o.shape, sizes), o.dtype)[()] for o in loop.terms]
    carried = [
        np.asarray(v, leaf.node.dtype)[()] for v, leaf in zip(operands[: loop.carried], loop.body.inputs[1:], strict=False)
    ]
    kept: list[tuple[int, list[Any]]] = []
    for k, _, outputs in rounds_of(loop, operands, sizes, steps):
        carried, rest = outputs[: loop.carried], outputs[loop.carried :]
        kept.append((k, rest))
        sums = [total + term for total, term in zip(sums, rest[len(loop.stacks) :], strict=False)]
    if loop.counted is not None:
        sizes[loop.counted] = len(kept)
    stacks = []
    for place, (stack, result) in enumerate(zip(loop.stacks, results[loop.carried :], strict=False)):
        stacks.append(np.zeros(numbers(result.shape, sizes), result.dtype))
        for k, rest in kept:
            stacks[-1][numbers(stack.place.at(k), sizes)] = rest[place]
    return (*carried, *stacks, *sums, *([float(len(kept))] if loop.tested else []))


def rounds_of(
    loop: Loop, operands: list[Any], sizes: Mapping[str, int], steps: Steps | None = None
) -> Iterator[tuple[int, dict[Atom, Any], list[Any]]]:
    """The rounds of a loop at the values of its operands: which one, the values of the body's symbols, and what it gives."""
    body, steps = loop.body, Steps() if steps is None else steps
    carried = [np.asarray(v, leaf.node.dtype)[()] for v, leaf in zip(operands[: loop.carried], body.inputs[1:], strict=False)]
    rounds = numbers(loop.limit if loop.tested else loop.rounds, sizes)
    for k in itertools.count() if rounds is None else reversed(range(rounds)) if loop.backward else range(rounds):
        whole = [*carried, *operands[loop.carried :]]
        given = [v if p is None else v[numbers(p.at(k), sizes)] for v, p in zip(whole, loop.places(), strict=True)]
        values: dict[Atom, Any] = {leaf.node: v for leaf, v in zip(body.inputs, [float(k), *given], strict=True)}
        _compute(body.bindings, values, dict(sizes), steps)
        outputs = [np.asarray(value_of(o.atom, values), o.dtype)[()] for o in body.outputs]
        if loop.tested and not outputs[-1]:
            return
        yield k, values, outputs
        carried = outputs[: loop.carried]

"""Evaluates a Graph binding by binding with NumPy: the second opinion for everything that is generated.

Assumes arguments of the inputs' shapes. Guarantees NumPy's own results, in IEEE arithmetic without warnings, each
binding computed once. Refuses a wrong number of arguments with `ShapeError`.
"""

from typing import Any

import numpy as np

from symdiff.errors import ShapeError
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Graph, evaluated
from symdiff.ir.hidden import hidden_of, visible
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary import structures
from symdiff.vocabulary.ops import OPS


@evaluated.written
def evaluate(graph: Graph, args: tuple[Any, ...]) -> Any:
    """The graph's result at `args`, one for each input but captured arrays, in the function's own result structure."""
    values = values_of(graph, args)
    results = [
        np.asarray(values[o.atom] if o.atom.op != "const" else o.atom.value, dtype=np.dtype(o.dtype))[()] for o in graph.outputs
    ]
    if graph.out_tree is not None:
        return structures.unflatten(graph.out_tree, results)
    return results[0] if len(results) == 1 else tuple(results)


def values_of(graph: Graph, args: tuple[Any, ...]) -> dict[Atom, Any]:
    """The values of the graph's inputs and of all its bindings at `args`."""
    args = tuple(hidden_of(graph).fill(args, len(graph.inputs)))
    if len(args) != len(graph.inputs):
        raise ShapeError(f"{graph.name} takes {visible(graph)} arguments ({len(args)} given)")
    branches = branches_of(graph)
    if branches is not None:
        branches.check(graph.name, args)
    values: dict[Atom, Any] = {}
    for leaf, arg in zip(graph.inputs, args, strict=True):
        value = np.asarray(arg, dtype=np.dtype(leaf.node.dtype))
        if value.shape != leaf.node.shape:
            raise ShapeError(f"{graph.name}: {leaf.name} has shape {value.shape}, {leaf.node.shape} expected")
        values[leaf.node] = value[()]

    def of(atom: Atom) -> Any:
        return values[atom] if atom.op != "const" else atom.value

    with np.errstate(all="ignore"):
        for binding in graph.bindings:
            operands = [of(o) for o in binding.operands]
            values[binding] = applied(binding, operands)
    return values


def applied(binding: Node, operands: list[Any]) -> Any:
    """The value of a binding at the values of its operands."""
    dtype = np.dtype(binding.dtype)
    if binding.op == "item":
        return operands[0].ravel()[binding.params]
    if binding.op == "array":
        return np.array(operands, dtype=dtype).reshape(binding.shape)
    if binding.op == "cast":
        return np.asarray(operands[0]).astype(dtype)[()]
    if binding.op == "call":
        return binding.params.function(*operands)
    if binding.op in OPS:
        return np.asarray(OPS[binding.op].function()(*operands)).astype(dtype)[()]
    return np.asarray(binding.params.function(*operands)).astype(dtype)[()]

"""Puts two Graphs over the same inputs side by side, so that what they share can be computed once.

Assumes equal input names, shapes and dtypes. Guarantees the outputs of the first, then those of the second. Refuses
nothing: inputs that only the second has are appended.
"""

from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput
from symdiff.ir.node import Atom


def join_graphs(first: Graph, second: Graph) -> Graph:
    """One Graph with the outputs of both."""
    builder = Builder()
    inputs = {}
    outputs: list[GraphOutput] = []
    for graph in (first, second):
        atoms: dict[Atom, Atom] = {}
        for leaf in graph.inputs:
            if leaf.name not in inputs:
                inputs[leaf.name] = builder.input(leaf.name, leaf.node.shape, leaf.node.dtype, leaf.path)
            atoms[leaf.node] = inputs[leaf.name]
        for b in graph.bindings:
            builder.primal = b.primal
            operands = tuple(atoms.get(o, o) for o in b.operands)
            atoms[b] = builder.bind(b.op, operands, b.shape, b.dtype, b.params, b.origin)
        outputs += [GraphOutput(o.name, atoms.get(o.atom, o.atom)) for o in graph.outputs]
    return builder.graph(first.name, tuple(outputs), origin=first.origin)

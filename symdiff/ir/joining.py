"""Puts two Graphs over the same inputs side by side, so that what they share can be computed once; a Graph beside others.

Assumes equal input names, shapes and dtypes. Guarantees the outputs of the first, then those of the second. Refuses
nothing: inputs that only the second has are appended.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, GraphOutput, outputs_at
from symdiff.ir.loops import Loop
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.extents import renamed_sizes
from symdiff.vocabulary.heads import Static


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
        outputs += outputs_at(graph.outputs, _append(builder, graph, atoms))
    return builder.graph(first.name, tuple(outputs), origin=first.origin)


def truths_as_numbers(graph: Graph) -> Graph:
    """The Graph with 1.0 and 0.0 for the truth values that it gives."""
    builder = Builder()
    inputs = {i.node: builder.input(i.name, i.node.shape, i.node.dtype, i.path) for i in graph.inputs}
    atoms = _append(builder, graph, dict(inputs))
    numbers = {o.atom: builder.cast(atoms.get(o.atom, o.atom), "d") for o in graph.outputs}
    return builder.graph(graph.name, outputs_at(graph.outputs, numbers), origin=graph.origin)


def _append(builder: Builder, graph: Graph, atoms: dict[Atom, Atom]) -> dict[Atom, Atom]:
    """Bind what a graph binds, from what its inputs are; what all its symbols are."""
    for b in graph.bindings:
        builder.primal = b.primal
        operands = tuple(atoms.get(o, o) for o in b.operands)
        atoms[b] = builder.bind(b.op, operands, b.shape, b.dtype, b.params, b.origin)
    return atoms


def counted_apart(graph: Graph, others: Iterable[Node]) -> Graph:
    """The Graph, whose loops count their rounds under names that no loop among other bindings has."""
    taken = {b.params.counted for b in others if b.op == "loop" and b.params.tested}
    own = {b.params.counted for b in graph.bindings if b.op == "loop" and b.params.tested}
    names: dict[str, str] = {}
    for name in sorted(own & taken):
        fresh = (f"{name}_{k}" for k in itertools.count(2))
        names[name] = next(f for f in fresh if f not in taken | own and f not in names.values())
    return renamed_graph(graph, names)


def renamed_graph(graph: Graph, names: Mapping[str, str]) -> Graph:
    """The Graph with other names of sizes."""
    if not names:
        return graph
    builder = Builder()
    atoms: dict[Atom, Atom] = {}
    for leaf in graph.inputs:
        atoms[leaf.node] = builder.input(leaf.name, renamed_sizes(leaf.node.shape, names), leaf.node.dtype, leaf.path)
    for b in graph.bindings:
        builder.primal = b.primal
        operands = tuple(atoms.get(o, o) for o in b.operands)
        params = _renamed_params(b.params, names)
        atoms[b] = builder.bind(b.op, operands, renamed_sizes(b.shape, names), b.dtype, params, b.origin)
    outputs = outputs_at(graph.outputs, atoms)
    return builder.graph(graph.name, outputs, graph.out_tree, origin=graph.origin, doc=graph.doc, notes=graph.notes)


def _renamed_params(params: Any, names: Mapping[str, str]) -> Any:
    if isinstance(params, Static):
        return Static(params.head, renamed_sizes(params.params, names))
    if not isinstance(params, Loop):
        return renamed_sizes(params, names)
    more = {key: renamed_sizes(getattr(params, key), names) for key in ("rounds", "rows", "stacks", "limit")}
    return replace(params, body=renamed_graph(params.body, names), **more)

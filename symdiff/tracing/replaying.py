"""Appends a finished Graph to an enclosing trace: how transforms nest.

Assumes a Graph from a transform that was called inside a trace. Guarantees the same bindings on the enclosing trace's
builder, inputs bound to the traced values or numbers that the user passed. Refuses values of unrelated traces.
"""

from typing import Any

from symdiff.ir.branches import branches_of
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph
from symdiff.ir.joining import counted_apart
from symdiff.ir.node import ArrayConstant, Atom, Constant
from symdiff.tracing.values.tracer import Tracer, traced_atom


def innermost(values: list[Any]) -> Builder | None:
    """The innermost builder among traced values, None where there is none."""
    builders = [v.builder for v in values if isinstance(v, Tracer)]
    return max(builders, key=lambda b: b.level) if builders else None


def decide_again(graph: Graph, sources: list[Any], builder: Builder, origin: str) -> None:
    """Ask the conditions of a branching graph in the enclosing trace: what raises or was kept in it is a path there, too."""
    branches = branches_of(graph)
    if branches is None or branches.conditions is None:
        return
    flags = replay(branches.conditions, sources[: len(branches.conditions.inputs)], builder, origin)
    if branches.guarded:
        assert not flags[0]  # kept at the values that the enclosing trace is made at
        return
    error = branches.exception(flags)
    if error is not None:
        raise error


def replay(graph: Graph, sources: list[Any], builder: Builder, origin: str) -> list[Any]:
    """Append a Graph to an enclosing trace, its inputs bound to `sources`; returns its outputs as traced values."""
    atoms: dict[Atom, Atom] = {}
    graph = counted_apart(graph, builder.bindings)
    for leaf, source in zip(graph.inputs, sources, strict=True):
        atom = traced_atom(source, builder, origin)
        if leaf.node.shape == () and isinstance(atom, Constant):
            atom = Constant(complex(atom.value) if leaf.node.dtype in "FD" else float(atom.value), leaf.node.dtype)
        atoms[leaf.node] = atom
    for binding in graph.bindings:
        if binding.op == "item" and isinstance(atoms[binding.operands[0]], ArrayConstant):
            value = atoms[binding.operands[0]].value.ravel()[binding.params]
            atoms[binding] = Constant(value.item(), binding.dtype)
            continue
        operands = tuple(atoms.get(o, o) for o in binding.operands)
        atoms[binding] = builder.bind(
            binding.op, operands, binding.shape, binding.dtype, binding.params, binding.origin or origin
        )
        builder.bindings[-1].primal = binding.primal
    results = []
    for output in graph.outputs:
        atom = atoms.get(output.atom, output.atom)
        results.append(Tracer(builder, atom) if atom.op != "const" else atom.value)
    return results

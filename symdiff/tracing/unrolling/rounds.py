"""Loops written out, round by round: for those who want cells, formulas or programs without loops.

Assumes rounds whose number is known. Guarantees the operations of the rounds in their order. Refuses, with `TraceError`,
loops whose rounds an argument tells.
"""

from collections.abc import Callable, Sequence

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph, outputs_at
from symdiff.ir.loops import Loop
from symdiff.ir.node import Atom, Constant, Node, has_loops
from symdiff.vocabulary.heads import HEADS, Shape

Results = Callable[[Loop, tuple[Atom, ...], Builder], Sequence[Atom] | None]


def unrolled(graph: Graph) -> Graph:
    """The graph without loops."""
    return unroll_loops(graph, _results)


def unroll_loops(graph: Graph, results: Results) -> Graph:
    """The graph with the `results` of loops, appended to a builder, in their place; a loop of which there are none stays."""
    return rewritten(graph, lambda *given: _append(*given, results)) if has_loops(graph.bindings) else graph


def rewritten(graph: Graph, append: Callable[[list[Node], Builder, dict[Atom, Atom]], None]) -> Graph:
    """The graph of what is appended for its bindings."""
    builder, atoms = Builder(), dict[Atom, Atom]()
    builder.inputs = list(graph.inputs)
    append(graph.bindings, builder, atoms)
    outputs = outputs_at(graph.outputs, atoms)
    return builder.graph(graph.name, outputs, graph.out_tree, origin=graph.origin, doc=graph.doc, notes=dict(graph.notes))


def _append(bindings: list[Node], builder: Builder, atoms: dict[Atom, Atom], results: Results) -> None:
    for b in bindings:
        builder.origin, builder.primal = b.origin, b.primal
        operands = tuple(atoms.get(o, o) for o in b.operands)
        found = results(b.params, operands, builder) if b.op == "loop" else None
        if found is not None:
            atoms[b] = builder.bundle(tuple(found))
        elif b.op == "part":
            atoms[b] = builder.part(operands[0], b.params)  # type: ignore[arg-type]
        else:
            atoms[b] = made = builder.bind(b.op, operands, b.shape, b.dtype, b.params)
            if b.op in HEADS:
                builder.structural[made] = made


def _results(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> list[Atom]:
    """The results of a loop, its rounds appended."""
    if loop.tested or not isinstance(loop.rounds, int):
        raise TraceError(f"{builder.origin}: a loop of {loop.rounds} rounds is not written out; its number must be known")
    body, arrays = loop.body, Arrays(builder, builder.origin)
    values = list(operands)
    stacks = [{} for _ in loop.stacks]
    sums = [Constant(0.0)] * loop.sums
    for k in reversed(range(loop.rounds)) if loop.backward else range(loop.rounds):
        given = [v if p is None else _row(arrays, v, p.at(k)) for v, p in zip(values, loop.places(), strict=True)]
        atoms = {leaf.node: v for leaf, v in zip(body.inputs, [Constant(float(k)), *given], strict=True)}
        _append(body.bindings, builder, atoms, _results)
        found = [atoms.get(o.atom, o.atom) for o in body.outputs]
        values[: loop.carried] = found[: loop.carried]
        for rows, stack, row in zip(stacks, loop.stacks, found[loop.carried :], strict=False):
            rows[stack.place.at(k)] = row  # type: ignore[index]
        sums = [builder.add(total, term) for total, term in zip(sums, found[loop.carried + len(stacks) :], strict=True)]
    results = list(loop.results)
    whole = [_stacked(arrays, rows, r.shape, r.dtype) for rows, r in zip(stacks, results[loop.carried :], strict=False)]
    sums = [arrays.broadcast_to(s, r.shape) for s, r in zip(sums, results[loop.carried + len(whole) :], strict=True)]
    return [*values[: loop.carried], *whole, *sums]


def _row(arrays: Arrays, x: Atom, row: int) -> Atom:
    if len(x.shape) == 1:
        return arrays.builder.bind("item", (x,), (), x.dtype or "d", row)
    key = ((row, row + 1, 1), *((0, n, 1) for n in x.shape[1:]))
    return arrays.reshape(arrays.getitem(x, key), x.shape[1:])


def _stacked(arrays: Arrays, rows: dict[int, Atom], shape: Shape, code: str) -> Atom:
    """An array of rows, zero where there is none."""
    found = [arrays.broadcast_to(arrays.builder.cast(rows.get(k, Constant(0.0)), code), shape[1:]) for k in range(shape[0])]
    if len(shape) == 1:
        return arrays.builder.array(found, shape, code)
    return arrays.concatenate([arrays.reshape(row, (1, *shape[1:])) for row in found], 0)

"""What is the same in all rounds of a loop is computed before it.

Guarantees the same results. Inside stay cells that rounds pick, which may be few, and views and cheap operations that only
spread what they are given, which take no memory there.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from symdiff.ir.building import Builder
from symdiff.ir.graph import Graph
from symdiff.ir.loops import Loop, sizes_of_binding, with_leaves
from symdiff.ir.node import Atom, Node
from symdiff.tracing.unrolling.rounds import unroll_loops
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

_STAYING = frozenset({"loop", "part", "call", "site"})
_VIEWS = frozenset(name for name, head in HEADS.items() if head.view and name != "transpose")
_PICKING = operations("picks", "gathers") | {"item"}
_CHEAP = OPS.keys() - operations("libm", "slow") | operations("cheap")


def lift_invariants(graph: Graph) -> Graph:
    """The graph with what is the same in all rounds of its loops, and of loops in these, before them."""
    return unroll_loops(graph, _lifted)


def _lifted(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> Sequence[Atom] | None:
    """The results of a loop that has been given what is the same in all its rounds."""
    body = lift_invariants(loop.body)
    first = 1 + loop.carried + len(loop.rows)
    outside: dict[Atom, Atom] = {
        leaf.node: operand for leaf, operand in zip(body.inputs[first:], operands[first - 1 :], strict=True)
    }
    inside = Builder()
    inside.inputs = [*body.inputs]
    leaves: dict[Node, Atom] = {}

    def lift(b: Atom) -> Atom:
        if b not in outside and b.op != "const":
            made = builder.bind(b.op, tuple(map(lift, b.operands)), b.shape, b.dtype, b.params, b.origin)  # type: ignore[arg-type]
            outside[b] = made
        return outside.get(b, b)

    given = []
    for n, b in enumerate(_chosen(body, outside)):
        leaves[b] = inside.fresh_input(f"same{n}", b.shape, b.dtype).node
        given.append(lift(b))
    if given:
        body = replace(with_leaves(body, leaves), inputs=tuple(inside.inputs))
    made = builder.loop(replace(loop, body=body), (*operands, *given))
    return [builder.part(made, k) for k in range(len(loop.results))]


def _chosen(body: Graph, outside: dict[Atom, Atom]) -> list[Node]:
    """What is computed before a loop, of what depends on nothing but its operands that are the same in all rounds."""
    counted = {b.params.counted for b in body.bindings if b.op == "loop"}
    same: dict[Atom, bool] = dict.fromkeys(outside, False)  # and whether it is worth its memory
    for b in body.bindings:
        depends = not b.operands or b.op in _STAYING or any(o not in same and o.op != "const" for o in b.operands)
        if not depends and not sizes_of_binding(b) & counted:
            same[b] = b.op not in _VIEWS and not _spreads(b)
    whole: set[Atom] = {o.atom for o in body.outputs}  # of which rounds read more than single cells
    chosen: set[Atom] = set()
    for b in reversed(body.bindings):
        if b not in same:
            whole.update(b.operands[1:] if b.op in _PICKING else b.operands)
        elif b in whole:
            if same[b]:
                chosen.add(b)
            else:
                whole.update(b.operands)
    return [b for b in body.bindings if b in chosen]


def _spreads(b: Node) -> bool:
    """Whether an operation on cells is no more work than reading what it gives."""
    if b.op not in _CHEAP or any(isinstance(n, Extent) for x in (b, *b.operands) for n in x.shape):
        return False
    return math.prod(b.shape) > sum(math.prod(o.shape) for o in b.operands)

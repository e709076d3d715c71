"""Which values of a list of bindings move with its inputs.

Assumes bindings in order. Guarantees that conditions, and places such as those that `argmax` gives, count as constant.
"""

import math
from collections.abc import Iterable

from symdiff.ir.graph import Graph
from symdiff.ir.loops import Loop
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.traits import operations

_LINEAR = operations("linear")
_SECOND = 6  # operations of a second derivative for one of the function
_ZEROS = 100  # cells of a result that are as much as an operation
_PLACES = frozenset(head.name for head in HEADS.values() if head.result == "count")


class Activity:
    """The symbols that depend on the seeds differentiably, as far as bindings are known."""

    def __init__(self, seeds: Iterable[Atom]) -> None:
        self.symbols = set(seeds)

    def include(self, binding: Node) -> None:
        """The binding that comes after those known."""
        if binding.dtype not in "?l" and binding.op not in _PLACES:
            places = binding.operands[1:] if binding.op == "select" else binding.operands
            if not self.symbols.isdisjoint(places):
                self.symbols.add(binding.result)

    def has(self, atom: Atom) -> bool:
        """Whether a value depends on the seeds."""
        return atom in self.symbols


def active_symbols(bindings: Iterable[Node], seeds: Iterable[Atom]) -> set[Atom]:
    """The symbols that depend on the seeds differentiably."""
    activity = Activity(seeds)
    for binding in bindings:
        activity.include(binding)
    return activity.symbols


def moving_in_rounds(loop: Loop, places: Iterable[int]) -> tuple[list[int], set[Atom]]:
    """The places of operands of which the rounds depend on some of them, and what in the body does."""
    inputs, outputs = loop.body.inputs, loop.body.outputs
    moving = {p for p in places if inputs[p + 1].node.dtype not in "?l"}
    while True:
        active = active_symbols(loop.body.bindings, {inputs[p + 1].node for p in moving})
        more = {k for k in range(loop.carried) if outputs[k].atom in active} - moving
        if not more:
            return sorted(moving), active
        moving |= more


def work_of_columns(graph: Graph, wrt: list[Node], second: bool) -> float:
    """About how many operations the derivative by each cell of some inputs has, written out; `second`: the second one, in
    which what is linear has no part. What does not depend on a cell is no operation.
    """
    reached: dict[Atom, int] = {}  # the cells that a value depends on, as the bits of an integer
    first: dict[Atom, int] = {}
    count, work = 0, 0.0
    results = sum(math.prod(o.shape) for o in graph.outputs)
    for leaf in wrt:
        first[leaf], size = count, math.prod(leaf.shape)
        reached[leaf], count = ((1 << size) - 1) << count, count + size
    most = count if second else results  # cotangents of so many results do, too
    for b in graph.bindings:
        if b.op == "item" and b.operands[0] in first:
            reached[b] = 1 << (first[b.operands[0]] + b.params)
            continue
        found = 0
        for o in b.operands:
            found |= reached.get(o, 0)
        if found:
            reached[b] = found
            if not (second and b.op in _LINEAR) and b.dtype not in "?l":
                work += min(found.bit_count(), most) * (_SECOND if second else 1)  # of an array each cell is of one column
    return work + count * most / _ZEROS

"""Which values of a list of bindings move with its inputs.

Assumes bindings in order. Guarantees that conditions, and places such as those that `argmax` gives, count as constant.
"""

from collections.abc import Iterable

from symdiff.ir.loops import Loop
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.heads import HEADS

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

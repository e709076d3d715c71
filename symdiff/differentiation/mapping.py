"""Loops whose rounds know nothing of each other as operations on whole arrays, with an axis of rounds.

Assumes a known number of rounds. Guarantees the same results up to the order of sums. A loop that carries values, or has one
inside that does, or holds what has no form with one axis more, stays a loop.
"""

import math
from collections.abc import Sequence

import numpy as np

from symdiff.differentiation.vectorizing import append_batched
from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays, full_key
from symdiff.ir.building import Builder, array_atom
from symdiff.ir.graph import Graph, outputs_at
from symdiff.ir.loops import Loop, Place, repeated_bindings, work_of
from symdiff.ir.node import Atom, Node, has_loops
from symdiff.tracing.unrolling.rounds import unroll_loops
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.heads import Slice

CELLS = 10**7  # of an array up to which a loop becomes one: 80 MB
_FEW = 640  # operations on an array up to which elementary functions are no matter


def loops_as_arrays(graph: Graph) -> Graph:
    """The graph with such loops as operations on whole arrays."""
    return unroll_loops(graph, _spread)


def loops_pay(graph: Graph, in_files: bool = False) -> bool:
    """Whether loops are as good as what is written out: those that become arrays are, unless others are in them, and where
    rounds are more work than the arrays around, as far as they are known.

    Elementary functions of arrays take a quarter of their time in machine code of their own, which computes several cells at
    once, and which there is none of `in_files`.
    """
    around = inside = 0.0
    nested = any(b.op == "loop" and has_loops(b.params.body.bindings) for b in graph.bindings)
    for binding in (graph if nested else loops_as_arrays(graph)).bindings:
        if binding.op == "loop":
            loop: Loop = binding.params
            if not isinstance(loop.rounds, int):
                return True
            slow = sum(work_of(b) * _cells(b) for b in loop.body.bindings if b.shape and work_of(b) > 1)
            known = loop.body.operations()
            if not in_files and isinstance(known, int) and slow > max(known, _FEW):
                return False
            inside += repeated_bindings((binding,), _cells)
        elif binding.op != "part":
            around += _cells(binding)
    return not inside or around <= 4 * inside


def _cells(binding: Node) -> int:
    """How many numbers a binding makes, as far as sizes are known."""
    return 0 if any(isinstance(n, Extent) for n in binding.shape) else math.prod(binding.shape)


def _spread(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> Sequence[Atom] | None:
    """The results of a loop with all rounds at once; None where one needs another."""
    body, rounds = loops_as_arrays(loop.body), loop.rounds
    if loop.carried or loop.tested or not isinstance(rounds, int) or rounds < 1 or has_loops(body.bindings):
        return None
    arrays = Arrays(builder, builder.origin)
    bindings = []  # with what each round is given whole as it stands outside
    given: dict[Atom, Atom] = {}
    seeds: dict[Atom, Atom] = {body.inputs[0].node: array_atom(np.arange(float(rounds)))}
    for leaf, operand, place in zip(body.inputs[1:], operands, loop.places(), strict=True):
        if place is None:
            given[leaf.node] = operand
        else:
            seeds[leaf.node] = arrays.getitem(operand, (_rows(place, rounds), *full_key(operand.shape[1:])))
    for b in body.bindings:
        given[b] = made = b.on(tuple(given.get(o, o) for o in b.operands))
        bindings.append(made)
    outputs = outputs_at(body.outputs, given)
    whole = Graph(body.name, body.inputs, outputs, bindings, None, body.origin)
    start = len(builder.bindings)
    try:
        found = append_batched(whole, builder, seeds, rounds)
    except TraceError:
        found = None
    if found is None or any(math.prod(b.shape) > CELLS for b in builder.bindings[start:]):
        del builder.bindings[start:]
        return None
    stacks = []
    for stack, output, rows in zip(loop.stacks, outputs, found, strict=False):
        key = (_rows(stack.place, rounds), *full_key(output.shape))
        stacks.append(arrays.put(rows, key, (stack.size, *output.shape)))  # type: ignore[arg-type]
    return (*stacks, *(arrays.sum(terms, (0,)) for terms in found[len(stacks) :]))


def _rows(place: Place, rounds: int) -> Slice:
    """The rows of all rounds, as a region."""
    first, last = place.at(0), place.at(rounds - 1)
    stop = last + (1 if place.step > 0 else -1)
    return first, stop if stop >= 0 else None, place.step  # type: ignore[return-value]

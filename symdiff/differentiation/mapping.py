"""Loops whose rounds know nothing of each other as operations on whole arrays, with an axis of rounds.

Assumes a known number of rounds. Guarantees the same results up to the order of sums. A loop that carries values stays one, but
for what no round needs of the others, where that makes products of matrices. A loop that has such a one inside, or holds what
has no form with one axis more, stays a loop.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from symdiff.differentiation.vectorizing import append_batched
from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays, full_key
from symdiff.ir.building import Builder, array_atom
from symdiff.ir.graph import Graph, GraphInput, GraphOutput, live_bindings, outputs_at
from symdiff.ir.loops import Loop, Place, Stack, needed_bindings, repeated_bindings, with_leaves
from symdiff.ir.node import Atom, Node, has_loops
from symdiff.tracing.unrolling.rounds import unroll_loops
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.heads import Slice
from symdiff.vocabulary.traits import operations

CELLS = 10**7  # of an array up to which a loop becomes one: 80 MB
_WORTH = 4  # multiplications for each number of the arrays around, from which on products of matrices pay
_MOVING = operations("rearranges")
_CHOOSING = operations("picks", "gathers", "rearranges") | {"part"}
Made = TypeVar("Made")


def loops_as_arrays(graph: Graph) -> Graph:
    """The graph with such loops as operations on whole arrays."""
    return unroll_loops(graph, _spread)


def loops_pay(graph: Graph) -> bool:
    """Whether loops are as good as what is written out: those that become arrays are, unless others are in them, and where
    rounds are more work than the arrays around, as far as they are known.
    """
    around = inside = 0.0
    nested = any(b.op == "loop" and has_loops(b.params.body.bindings) for b in graph.bindings)
    for binding in (graph if nested else loops_as_arrays(graph)).bindings:
        if binding.op == "loop":
            loop: Loop = binding.params
            if not isinstance(loop.rounds, int):
                return True
            inside += repeated_bindings((binding,), _cells)
        elif binding.op != "part":
            around += _cells(binding)
    return not inside or around <= 4 * inside


def _cells(binding: Node) -> int:
    """How many numbers a binding makes, as far as sizes are known."""
    return 0 if any(isinstance(n, Extent) for n in binding.shape) else math.prod(binding.shape)


def _spread(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> Sequence[Atom] | None:
    """The results of a loop with all rounds at once, as far as none needs another; None where it stays as it is."""
    if loop.tested or not isinstance(loop.rounds, int) or loop.rounds < 1:
        return None
    if not loop.carried:
        return _tried(builder, lambda: _at_once(loop, operands, builder))
    early = _tried(builder, lambda: _early(loop, operands, builder))
    late = _tried(builder, lambda: _late(*early or (loop, operands), builder))
    if late is not None or early is None:
        return late
    made = builder.loop(*early)
    return [builder.part(made, k) for k in range(len(loop.results))]


def _tried(builder: Builder, form: Callable[[], Made | None]) -> Made | None:
    """What is appended to a builder; nothing is where that is None."""
    start = len(builder.bindings)
    found = form()
    if found is None:
        del builder.bindings[start:]
    return found


def _depending(body: Graph, leaves: Sequence[GraphInput]) -> set[Atom]:
    """What depends on some inputs."""
    found: set[Atom] = {leaf.node for leaf in leaves}
    for b in body.bindings:
        if not found.isdisjoint(b.operands):
            found.add(b)
    return found


def _early(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> tuple[Loop, tuple[Atom, ...]] | None:
    """A loop that is given as rows the products of matrices for which no round waits for another, with its operands."""
    body, carried, rows = loop.body, loop.carried, loop.carried + len(loop.rows)
    waiting = _depending(body, body.inputs[1 : 1 + carried])
    varying = _depending(body, (body.inputs[0], *body.inputs[1 + carried : 1 + rows]))
    known: set[Atom] = set()
    for b in body.bindings:
        if b not in waiting and b in varying and (b.op == "matmul" or (b.op in _MOVING and known.issuperset(b.operands))):
            known.add(b)
    needed: list[Atom] = [o for b in body.bindings if b not in known for o in b.operands] + [o.atom for o in body.outputs]
    crossing = [b for b in dict.fromkeys(needed) if b in known]
    inputs = (body.inputs[0], *body.inputs[1 + carried :])
    outputs = tuple(GraphOutput(b.name, b) for b in crossing)
    before = Graph(body.name, inputs, outputs, live_bindings(body.bindings, outputs), None, body.origin)
    stacks = tuple(Stack(Place(), loop.rounds) for _ in crossing)
    made = _made_products(replace(loop, body=before, carried=0, stacks=stacks, sums=0), operands[carried:], crossing, builder)
    if made is None:
        return None
    given = _leaves_of(body, crossing)
    found = with_leaves(body, dict(zip(crossing, (leaf.node for leaf in given), strict=True)))
    found = replace(found, inputs=(*body.inputs[: 1 + rows], *given, *body.inputs[1 + rows :]))
    places = (*loop.rows, *[Place()] * len(crossing))
    return replace(loop, body=found, rows=places), (*operands[:rows], *made, *operands[rows:])


def _late(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> Sequence[Atom] | None:
    """The results of a loop whose rounds hand on values: what they need for these in a loop of its own, the rest at once; None
    where the rest makes no products of matrices of what it is given.
    """
    body, carried, rows = loop.body, loop.carried, loop.carried + len(loop.rows)
    waiting = _depending(body, body.inputs[1 : 1 + carried])
    own: set[Atom] = {leaf.node for leaf in body.inputs} | set(live_bindings(body.bindings, body.outputs[:carried]))
    for b in body.bindings:
        if b in waiting and b.op in _CHOOSING and own.issuperset(waiting.intersection(b.operands)):
            own.add(b)  # it is no more than what it is of
    late = [k for k, o in enumerate(body.outputs) if o.atom not in own and o.atom.op != "const"]
    given_on = own & waiting - {b for b in body.bindings if b.op in _MOVING}  # a move may be had of what it moves
    rest = live_bindings([b for b in body.bindings if b not in given_on], tuple(body.outputs[k] for k in late))
    crossing = list(dict.fromkeys(o for b in rest for o in b.operands if o in given_on))
    given, end = _leaves_of(body, crossing), carried + len(loop.stacks)
    early = [k for k in range(len(body.outputs)) if k not in late]
    ends = [body.outputs[k] for k in early if k < end] + [
        GraphOutput(leaf.name, o) for leaf, o in zip(given, crossing, strict=True)
    ]
    outputs = (*ends, *(body.outputs[k] for k in early if k >= end))
    stacks = [loop.stacks[k - carried] for k in early if carried <= k < end] + [Stack(Place(), loop.rounds)] * len(crossing)
    first = Graph(body.name, body.inputs, outputs, needed_bindings(body.bindings, outputs), None, body.origin)
    made = builder.loop(replace(loop, body=first, stacks=tuple(stacks), sums=len(outputs) - len(ends)), operands)
    parts = [builder.part(made, k) for k in range(len(outputs))]
    passed = parts[len(ends) - len(crossing) : len(ends)]
    del parts[len(ends) - len(crossing) : len(ends)]
    then = replace(body, outputs=tuple(body.outputs[k] for k in late))
    then = with_leaves(then, dict(zip(crossing, (leaf.node for leaf in given), strict=True)))
    inputs = (body.inputs[0], *body.inputs[1 + carried : 1 + rows], *given, *body.inputs[1 + rows :])
    apart = replace(
        loop, body=replace(then, inputs=inputs), carried=0, backward=False, rows=(*loop.rows, *[Place()] * len(crossing)),
        stacks=tuple(loop.stacks[k - carried] for k in late if k < end), sums=sum(k >= end for k in late),
    )  # fmt: skip
    found = _made_products(apart, (*operands[carried:rows], *passed, *operands[rows:]), crossing, builder)
    if found is None:
        return None
    each = {True: iter(found), False: iter(parts)}
    return [next(each[k in late]) for k in range(len(body.outputs))]


def _leaves_of(body: Graph, atoms: Sequence[Atom]) -> list[GraphInput]:
    """Inputs for some values of a body."""
    inside = Builder()
    inside.inputs = [*body.inputs]
    return [inside.fresh_input(f"each{n}", atom.shape, atom.dtype or "d") for n, atom in enumerate(atoms)]


def _made_products(loop: Loop, operands: tuple[Atom, ...], crossing: Sequence[Atom], builder: Builder) -> Sequence[Atom] | None:
    """The results of rounds at once, where products of matrices are worth what is written and read for them."""
    cells = loop.rounds * sum(math.prod(o.shape) for o in crossing)
    if not loop.body.outputs or cells > CELLS:
        return None
    start = len(builder.bindings)
    found = _at_once(loop, operands, builder)
    if found is None:
        return None
    made = live_bindings(builder.bindings[start:], _ends(found))
    cells += sum(_cells(b) for b in made if b.op not in _CHOOSING)
    return found if _WORTH * cells <= sum(map(_multiplications, made)) else None


def _ends(atoms: Iterable[Atom]) -> tuple[GraphOutput, ...]:
    return tuple(GraphOutput("", atom) for atom in atoms)


def _multiplications(binding: Node) -> int:
    """Those of a product of matrices."""
    return math.prod(binding.shape) * binding.operands[0].shape[-1] if binding.op == "matmul" else 0


def _at_once(loop: Loop, operands: tuple[Atom, ...], builder: Builder) -> Sequence[Atom] | None:
    """The results of a loop that carries nothing; None where its rounds have no form as arrays."""
    body, rounds = loops_as_arrays(loop.body), loop.rounds
    assert isinstance(rounds, int)
    if has_loops(body.bindings):
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
        found = append_batched(whole, builder, seeds, rounds, sums=loop.sums)
    except TraceError:
        found = []
    if not found or any(math.prod(b.shape) > CELLS for b in live_bindings(builder.bindings[start:], _ends(found))):
        return None
    stacks = []
    for stack, output, rows in zip(loop.stacks, outputs, found, strict=False):
        key = (_rows(stack.place, rounds), *full_key(output.shape))
        stacks.append(arrays.put(rows, key, (stack.size, *output.shape)))  # type: ignore[arg-type]
    return (*stacks, *found[len(stacks) :])


def _rows(place: Place, rounds: int) -> Slice:
    """The rows of all rounds, as a region."""
    first, last = place.at(0), place.at(rounds - 1)
    stop = last + (1 if place.step > 0 else -1)
    return first, stop if stop >= 0 else None, place.step  # type: ignore[return-value]

"""The derivative of a loop is a loop: the tangents' has its carried values doubled, the cotangents' goes the rounds backwards.

Assumes bodies with rules for what is in them. The cotangents' loop runs the body's own sweep over carried values that the loop,
in a wider form that takes its place, has stacked; what the sweep does not read is not stacked (`ir.loops.trimmed`). So sums
need no stack; loops in loops, derivatives of derivatives and loops with a condition are no cases of their own. Refuses complex
derivatives that do not exist, with `NonHolomorphicError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 12, with a checkpoint in every round.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import Any

from symdiff.differentiation.cotangents import Masked, Soft, sparse_terms
from symdiff.differentiation.forward import Forward
from symdiff.differentiation.opening import Opened, typed
from symdiff.differentiation.partials import ZERO
from symdiff.differentiation.reverse import Reverse
from symdiff.errors import NonHolomorphicError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.graph import Graph, GraphInput, GraphOutput
from symdiff.ir.loops import Loop, Place, Rounds, Stack, pulled_through, pushed_through, trimmed_bindings, with_leaves
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.activity import moving_in_rounds
from symdiff.vocabulary.extents import Extent, Shape, has_extents, names_in_extents
from symdiff.vocabulary.heads import HEADS, Head
from symdiff.vocabulary.ops import is_complex, join_dtype_codes

_AGAIN = 8  # operations for each cell read or made, from which on an array is stacked rather than computed again
_LARGER = 4  # times the cells of what is read of an array, from which on the array is not stacked itself
_MANY = 100  # cells along an axis whose length a call tells


@pushed_through.written
def tangents(builder: Builder, binding: Node, dots: dict[int, Atom], rules: Any) -> Atom:
    """The tangents of a loop's results, from those of operands by their places: a loop over values and tangents."""
    moving, _ = moving_in_rounds(binding.params, dots)
    opened = Opened(binding.params.body, [place + 1 for place in moving], False)
    opened.builder.in_round = True
    outputs = opened.graph.outputs
    seeds: dict[Atom, GraphInput] = {
        leaf: opened.builder.fresh_input(f"{leaf.name}_dot", leaf.shape, leaf.dtype) for leaf in opened.wrt
    }
    given: dict[Atom, Atom] = {leaf: seed.node for leaf, seed in seeds.items()}
    found = Forward(opened.builder, opened.bindings, given, rules).sweep(given, [o.atom for o in outputs])

    def dot(output: GraphOutput) -> GraphOutput:
        return GraphOutput(f"{output.name}_dot", typed(opened.builder, found.get(output.atom), output.shape, output.dtype))

    old, rounds = (Rounds.of(binding, opened.graph) for _ in range(2))
    for place, (leaf, operand, *rest) in enumerate((*old.carried, *old.rows, *old.others)):
        if leaf.node in seeds:
            pair = seeds[leaf.node], typed(builder, dots.get(place), operand.shape, leaf.node.dtype)
            if place < len(old.carried):
                rounds.carried.append((*pair, dot(rest[0])))
            elif rest:
                rounds.rows.append((*pair, rest[0]))
            else:
                rounds.others.append(pair)
    ends = [p for p in moving if p < len(old.carried)]
    stacked = {k: rounds.stack(dot(o), s) for k, (o, s) in enumerate(old.stacks) if o.atom in found}
    summed = {k: len(old.sums) + i for i, k in enumerate(k for k, o in enumerate(old.sums) if o.atom in found)}
    rounds.sums += [dot(old.sums[k]) for k in summed]
    made = _bound(builder, rounds, binding, opened.builder)
    places = rounds.places(old)
    builder.wider[binding] = made, places
    results: list[Atom] = [ZERO] * len(places)
    first, last = len(old.carried), len(old.carried) + len(old.stacks)
    for k, place in enumerate(ends):
        results[place] = builder.part(made, first + k)
    for k, place in stacked.items():
        results[first + k] = builder.part(made, len(rounds.carried) + place)
    for k, place in summed.items():
        results[last + k] = builder.part(made, len(rounds.carried) + len(rounds.stacks) + place)
    return builder.bundle(tuple(results))


@pulled_through.written
def cotangents(reverse: Reverse, binding: Node, whole_bar: Masked, soft: bool = False) -> dict[int, Masked]:
    """The cotangents of a loop's active operands, by their places, from a bundle of those of its results.

    `soft`: a later round makes those of carried values zero where a partial may be infinite, as what follows the loop can.
    """
    loop, builder, mirrored, bars = binding.params, reverse.builder, reverse.mirrored, whole_bar.value
    soft = soft or whole_bar.mask is not None or bool(whole_bar.soft)
    moving, inside = moving_in_rounds(loop, [p for p, o in enumerate(binding.operands) if o in reverse.active])
    given = {k: bar for k, bar in enumerate(bars.operands[: len(loop.body.outputs) - loop.tested]) if not is_constant(bar, 0)}
    carried = _asked(loop, given, inside).intersection(moving)
    asked = [k for k in sorted({*given, *carried}) if k in carried or loop.body.outputs[k].atom in inside]
    whole = Opened(loop.body, [place + 1 for place in moving], False)
    whole.builder.in_round = True
    body, rounds = Rounds.of(binding, whole.graph), Rounds()
    codes = [leaf.dtype for leaf in whole.wrt] + [bar.dtype or "d" for bar in given.values()]
    wide = "" if mirrored else next((c for c in [reduce(join_dtype_codes, codes, "?")] if is_complex(c)), "")
    seeds: dict[Atom, Atom] = {}
    begins: dict[int, GraphInput] = {}
    ends = loop.carried + len(loop.stacks)
    for k in asked:
        output, bar = whole.graph.outputs[k], given.get(k, ZERO)
        source, _ = Arrays(builder, binding.origin).repeated(bar)
        if k >= loop.carried and isinstance(source, Constant):
            seed: Atom = whole.arrays.broadcast_to(source, output.shape)
        else:
            named = body.carried[k][0] if k < loop.carried else output
            leaf = whole.builder.fresh_input(f"{named.name}_bar", output.shape, wide or output.dtype)
            seed = leaf.node
            if k < loop.carried:
                begins[k] = leaf
            elif k < ends and source.shape:
                stack = loop.stacks[k - loop.carried]
                rounds.rows.append((leaf, typed(builder, bar, (stack.size, *output.shape), leaf.dtype), stack.place))
            else:
                rounds.others.append((leaf, typed(builder, source if k < ends else bar, output.shape, leaf.dtype)))
        seeds[output.atom] = whole.builder.add(seeds[output.atom], seed) if output.atom in seeds else seed
    sweep = Reverse(whole.builder, whole.bindings, whole.wrt, reverse.slopes.partials.rules)
    found, conjugates = sweep.sweep(seeds, mirrored, seeds if soft else ())
    masked = {leaf for leaf in found if any(part.mask is not None or part.soft for part in sweep.bars[leaf])}
    steep = (k for k in begins if sweep.slopes.steepness.is_behind(loop.body.outputs[k].atom))
    masked.update(body.carried[k][0].node for k in steep if body.carried[k][0].node not in found)  # no round reads it
    if not soft and any(body.carried[k][0].node in masked for k in begins):
        return cotangents(reverse, binding, whole_bar, True)
    if not mirrored and any(is_complex(leaf.dtype) for leaf in conjugates):
        raise NonHolomorphicError(
            f"{sweep.mixing}: a loop's complex result depends on the conjugate of what a round takes; forward derivatives "
            "(sd.jvp), and those of real results, take this"
        )

    def bar_of(place: int, value: Atom | None) -> GraphOutput:
        leaf = whole.graph.inputs[place + 1]
        if mirrored and value is not None and is_complex(leaf.dtype):  # twice the derivative by z, as sweeps carry it
            value = whole.builder.mul(Constant(2.0), value)
        return GraphOutput(f"{leaf.name}_bar", typed(whole.builder, value, leaf.shape, wide or leaf.dtype))

    results: dict[int, tuple[list[Any], range]] = {}
    for k, leaf in begins.items():
        results[k] = rounds.carried, range(len(rounds.carried), len(rounds.carried) + 1)
        bar = bar_of(k, found.get(body.carried[k][0].node))
        rounds.carried.append((leaf, typed(builder, given.get(k), leaf.shape, leaf.dtype), bar))
    for place in moving:
        value = found.get(whole.graph.inputs[place + 1].node)
        if value is not None and place >= loop.carried:
            row = loop.places()[place]
            kind: list[Any] = rounds.sums if row is None else rounds.stacks
            terms = [value] if row is not None else sparse_terms(value) or [value]
            results[place] = kind, range(len(kind), len(kind) + len(terms))
            bars = [bar_of(place, term) for term in terms]
            kind += bars if row is None else [(b, Stack(row, binding.operands[place].shape[0])) for b in bars]
    both = whole.builder.graph("", (*rounds.outputs(), *body.outputs()))
    count = len(rounds.outputs())
    inside, forward = (
        replace(both, inputs=whole.graph.inputs, outputs=o) for o in (both.outputs[:count], both.outputs[count:])
    )
    reads = []
    if binding not in builder.wider:
        bars = _bars(inside, {leaf.node for leaf in whole.graph.inputs})
        reads = _reads(inside, [leaf.node for leaf, *_ in body.carried], bars)
        reads += _costly(inside, bars, reads)
    leaves = [whole.builder.fresh_input(f"{b.name}_read", b.shape, b.dtype) for b in reads]
    taped, tapes = _taped(builder, binding, forward, reads)
    kept = [leaf for leaf, *_ in body.carried] + leaves
    rounds.rows += [(leaf, tape, Place()) for leaf, tape in zip(kept, tapes, strict=True)] + body.rows
    rounds.others += body.others
    backward = loop.backward != bool(rounds.carried)
    inside = with_leaves(inside, {b: leaf.node for b, leaf in zip(reads, leaves, strict=True)})
    made = _put(builder, rounds.bound(taped, inside, tested=False, limit=None, backward=backward))
    starts = (rounds.carried, 0), (rounds.stacks, len(rounds.carried)), (rounds.sums, len(rounds.carried) + len(rounds.stacks))
    first = {id(kind): start for kind, start in starts}
    bars_of = {
        place: reduce(builder.add, [builder.part(made, first[id(kind)] + k) for k in places])
        for place, (kind, places) in results.items()
    }
    ending = reverse.cotangents.anywhere(whole_bar.mask)
    clean = ending is not None
    ending = ending or _chosen(builder, [Arrays(builder).repeated(bar)[0] for bar in given.values()])
    if isinstance(loop.rounds, int) and loop.rounds:  # what the first round does not read has no cotangent
        bars_of = {place: bar for place, bar in bars_of.items() if whole.graph.inputs[place + 1].node in found}
    return {
        place: Masked(bar, ending, clean, (Soft(bar, bar),) if whole.graph.inputs[place + 1].node in masked else ())
        for place, bar in bars_of.items()
    }


def _chosen(builder: Builder, bars: list[Atom]) -> Atom | None:
    """The condition without which all cotangents of results are zero; those of operands then are, too, whatever rounds gave."""
    found: set[tuple[Atom, bool]] = set()
    for bar in bars:
        zeros = [place for place, arm in enumerate(bar.operands[1:]) if is_constant(arm, 0)] if bar.op == "select" else []
        if len(zeros) != 1 or bar.operands[0].shape:
            return None
        found.add((bar.operands[0], zeros == [1]))
    if len(found) != 1:
        return None
    ((condition, holds),) = found
    return condition if holds else builder.emit("not", (condition,))


def _asked(loop: Loop, results: Iterable[int], active: set[Atom]) -> set[int]:
    """The carried values whose cotangents are not zero in all rounds, where those of some results are not."""
    inputs, outputs = loop.body.inputs, loop.body.outputs
    carried = {k for k in results if k < loop.carried}
    while True:
        reached = {outputs[k].atom for k in (*results, *carried)} & active
        for b in reversed(loop.body.bindings):
            if b in reached:
                reached.update(o for o in b.operands if o in active)
        more = {k for k in range(loop.carried) if inputs[k + 1].node in reached} - carried
        if not more:
            return carried
        carried |= more


def _bars(inside: Graph, primal: set[Node]) -> set[Node]:
    """What depends on more than rounds took."""
    bars: set[Node] = set()
    for b in inside.bindings:
        if any(o in bars or (o.op == "input" and o not in primal) for o in b.operands):
            bars.add(b)
    return bars


def _reads(inside: Graph, carried: list[Node], bars: set[Node]) -> list[Node]:
    """What rounds read of arrays that are handed on, where they need no more of them: it is stacked in place of the arrays."""
    large = {leaf: _size(leaf.shape) for leaf in carried if leaf.shape}  # and what is as large, by the cells
    sources: dict[Node, set[Node]] = {leaf: {leaf} for leaf in large}
    reads: dict[Node, int] = {}
    told = {b.params.counted for b in inside.bindings if b.op == "loop"}  # sizes that each round has its own of
    needed = {o.atom for o in inside.outputs}
    for b in inside.bindings:
        if b in bars:
            needed.update(b.operands)
            continue
        cells = max((large[o] for o in b.operands if o in large), default=0)
        if not cells:
            continue
        if b.op == "loop" or _size(b.shape) * _LARGER > cells or names_in_extents(b.shape) & told:
            large[b] = cells
        else:
            reads[b] = _size(b.shape)
        sources[b] = set().union(*(sources[o] for o in b.operands if o in sources))
    whole = set().union(*(sources[o] for o in needed if o in large))
    found = [b for b in reads if sources[b].isdisjoint(whole)]
    gone = {leaf for b in found for leaf in sources[b]}
    return found if sum(reads[b] for b in found) * _LARGER <= sum(large[leaf] for leaf in gone) else []


def _costly(inside: Graph, bars: set[Node], reads: list[Node]) -> list[Node]:
    """What takes longer to compute again, of what rounds made, than to stack."""
    needed = {o.atom for o in inside.outputs}
    found = []
    for b in reversed(inside.bindings):
        if b not in needed or b in reads:
            continue
        if b not in bars and b.op in HEADS and _is_costly(b, HEADS[b.op]):
            found.append(b)
        else:
            needed.update(b.operands)
    return found[::-1]


def _is_costly(binding: Node, head: Head) -> bool:
    shapes = [o.shape for o in binding.operands]
    if any(map(has_extents, (binding.shape, *shapes))) or head.result == "index":  # places stay in their round
        return False
    cost = head.cost(*shapes, **(binding.params.params if binding.params else {}))
    return not head.cells or cost > _AGAIN * sum(map(_size, (binding.shape, *shapes)))


def _size(shape: Shape) -> int:
    return math.prod(_MANY if isinstance(n, Extent) else n for n in shape)


def _taped(builder: Builder, binding: Node, body: Graph, reads: list[Node]) -> tuple[Node, list[Atom]]:
    """A loop that stacks its carried values, and `reads` of another `body`, in place of one that does not; the stacks."""
    made, _ = builder.wider.get(binding, (binding, ()))
    old, rounds = Rounds.of(binding), Rounds.of(made, body if reads else None)
    known, count, most = len(rounds.stacks), binding.params.rounds, binding.params.limit
    tapes = [rounds.stack(GraphOutput(f"{leaf.name}_was", leaf.node), Stack(Place(), count)) for leaf, *_ in old.carried]
    for b in reads:  # an outer loop may stack these, where they are as many in all of its rounds
        tapes.append(rounds.stack(GraphOutput(f"{b.name}_read", b), Stack(Place(), count if most is None else most)))
    if len(rounds.stacks) > known:
        live, outputs = trimmed_bindings(body.bindings if reads else made.params.body.bindings, rounds.outputs(), {})
        made = _put(builder, rounds.bound(made, Graph("", (), outputs, live)))
        builder.wider[binding] = made, rounds.places(old)
    return made, [builder.part(made, len(rounds.carried) + k) for k in tapes]


def _bound(builder: Builder, rounds: Rounds, like: Node, inside: Builder, **changes: Any) -> Node:
    return _put(builder, rounds.bound(like, inside.graph("", rounds.outputs()), **changes))


def _put(builder: Builder, made: Node) -> Node:
    return builder.loop(made.params, made.operands, made.origin)

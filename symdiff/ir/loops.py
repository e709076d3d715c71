"""Loops: bindings with a body graph, run once a round, and bindings of several results with their parts.

A `loop` has several results; a `part` is one of them. What goes in and out of a round, in this order:

    operands   carried values as they begin; arrays of which a round reads a row; what is the same in all rounds
    body       k, the carried values, the rows, the others -> the carried values for the next round, rows to stack, terms to
               sum, and, where rounds are not counted before, whether there is this round at all
    results    carried values as they end, stacks, sums, and the number of rounds where only the loop tells it

There are no buffers: a stack is a new array, zero in the rows that no round gives. Guarantees (checked by `check_loop`) that
rows are within their arrays, that no two rounds give the same row, and that carried values keep shape and dtype. Refuses, with
`InvariantError` or `TraceError`, loops that break this, and what cannot be told for all sizes.

Source of the form: `scan` and `while_loop` of JAX's jaxprs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from symdiff.ir.graph import Graph, GraphOutput, live_bindings, typed
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.extents import Count, Extent, Size, names_in
from symdiff.vocabulary.seams import Seam

SEVERAL = "*"  # the dtype code of a binding with several results
pushed_through = Seam("the tangents of a loop")
pulled_through = Seam("the cotangents of a loop")


class Place(NamedTuple):
    """The row `step*k + start` of an array, in round k."""

    step: int = 1
    start: Count = 0

    def at(self, k: Count) -> Count:
        """The row in a round."""
        return self.step * k + self.start

    def __str__(self) -> str:
        step = {1: "k", -1: "-k"}.get(self.step, f"{self.step}*k")
        start = str(self.start) if self.start else ""
        return step + ("+" if start and start[0] != "-" else "") + start


class Stack(NamedTuple):
    """A result of `size` rows, of which round k gives that at `place`."""

    place: Place
    size: Count


class Result(NamedTuple):
    """One of several results of a binding."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True, eq=False)
class Loop:
    """The static part of a `loop` binding.

    `rounds` are a number, an expression of sizes, or, where the loop is `tested`, a size of its own that it counts: it then
    goes on while the body's last output holds, up to `limit` rounds where there is one. `backward`: the last round comes first.
    """

    body: Graph
    rounds: Count
    carried: int = 0
    rows: tuple[Place, ...] = ()
    stacks: tuple[Stack, ...] = ()
    sums: int = 0
    tested: bool = False
    limit: Count | None = None
    backward: bool = False

    @property
    def results(self) -> tuple[Result, ...]:
        """The names, shapes and dtypes of the results."""
        outputs, carried = self.body.outputs, self.carried
        found = [Result(leaf.name, leaf.node.shape, leaf.node.dtype) for leaf in self.body.inputs[1 : carried + 1]]
        for stack, output in zip(self.stacks, outputs[carried:], strict=False):
            found.append(Result(output.name, (stack.size, *output.shape), output.dtype))  # type: ignore[arg-type]
        found += [Result(o.name, o.shape, o.dtype) for o in self.terms]
        return (*found, Result("rounds", (), "d")) if self.tested else tuple(found)

    @property
    def terms(self) -> tuple[GraphOutput, ...]:
        """The body's outputs that are summed."""
        start = self.carried + len(self.stacks)
        return self.body.outputs[start : start + self.sums]

    @property
    def counted(self) -> str | None:
        """The name of the size that the loop counts, None where rounds are known before."""
        return self.rounds.terms[0][0].name if self.tested and isinstance(self.rounds, Extent) else None

    def sizes(self) -> set[str]:
        """The names of the sizes that must be known before."""
        inside: set[str] = set().union(*(sizes_of(b) for b in self.body.bindings)) if self.body.bindings else set()
        inside -= {b.params.counted for b in self.body.bindings if b.op == "loop"}
        leaves = [leaf.node.shape for leaf in self.body.inputs]
        found = names_in((self.limit, self.rounds, tuple(self.rows), tuple(self.stacks), tuple(leaves)))
        return (found | inside) - {self.counted}  # type: ignore[return-value]

    def operations(self) -> Any:
        """The elementwise operations of all rounds, as far as sizes tell."""
        return self.body.operations() * self.rounds

    def fingerprint(self) -> str:
        """The digests of the body and of what a round gives."""
        return self.body.fingerprint() + self.end({b: f"v{k}" for k, b in enumerate(self.body.bindings)})

    def told(self, operands: list[str]) -> str:
        """The head of the loop as text, with the names of its operands."""
        shown = []
        for leaf, operand, place in zip(self.body.inputs[1:], operands, self.places(), strict=True):
            what = operand if place is None else f"{operand}[{place}]"
            shown.append(leaf.name if leaf.name == what else f"{leaf.name} = {what}")
        limit = "" if self.limit is None else f" <= {self.limit}"
        return f"k < {self.rounds}{limit}{', backward' if self.backward else ''}{': ' if shown else ''}{', '.join(shown)}"

    def places(self) -> tuple[Place | None, ...]:
        """The row that each operand gives to a round, None where it is given whole."""
        count = len(self.body.inputs) - 1
        return ((None,) * self.carried + self.rows + (None,) * count)[:count]

    def end(self, names: Mapping[Node, str]) -> str:
        """What a round gives, as text."""
        outputs = [names.get(o.atom) or o.atom.name for o in self.body.outputs]
        results = self.results
        parts = [f"next {r.name} = {o}" for r, o in zip(results[: self.carried], outputs, strict=False)]
        for stack, output, result in zip(self.stacks, outputs[self.carried :], results[self.carried :], strict=False):
            parts.append(f"{result.name}[{stack.place}] = {output}")
        start = self.carried + len(self.stacks)
        parts += [f"{r.name} += {o}" for r, o in zip(results[start : start + self.sums], outputs[start:], strict=False)]
        return "; ".join([*parts, f"while {outputs[-1]}"] if self.tested else parts)

    def lines(self, names: Mapping[Node, str]) -> Iterator[str]:
        """The body, below the head."""
        plain = replace_outputs(self.body, ())
        yield from (f"    {line}" for line in plain._lines(names))
        yield f"      {self.end(names)}"


def replace_outputs(body: Graph, outputs: tuple[GraphOutput, ...]) -> Graph:
    """A body with all its bindings and other outputs."""
    return Graph(body.name, body.inputs, outputs, body.bindings, None, body.origin)


def sizes_of(binding: Node) -> set[str]:
    """The names of the sizes that a binding speaks of."""
    if binding.op == "loop":
        return binding.params.sizes()  # type: ignore[no-any-return]
    return names_in((binding.shape, binding.params if binding.op in ("size", "item") else getattr(binding.params, "params", ())))


def counted(name: str) -> Extent:
    """The number of rounds that a loop tells, as an extent; it may be none at all."""
    return Extent(0, ((Size(name, 0), 1),))


# -- checks


def check_loop(binding: Node) -> None:
    """Raise `ValueError` where the operands do not fit the body, or the body's outputs the rounds."""
    loop: Loop = binding.params
    inputs, outputs = loop.body.inputs, loop.body.outputs
    if (binding.shape, binding.dtype) != ((), SEVERAL):
        raise ValueError("a loop has several results")
    if len(inputs) != len(binding.operands) + 1 or (inputs[0].node.shape, inputs[0].node.dtype) != ((), "d"):
        raise ValueError(f"the body takes k and {len(inputs) - 1} more; {len(binding.operands)} operands are given")
    if len(outputs) != loop.carried + len(loop.stacks) + loop.sums + loop.tested:
        raise ValueError(f"the body has {len(outputs)} outputs")
    for leaf, operand, place in zip(inputs[1:], binding.operands, loop.places(), strict=True):
        if place is not None:
            check_rows(place, loop.rounds, operand.shape[0] if operand.shape else 0, leaf.name)
        shape = operand.shape if place is None else operand.shape[1:]
        if shape != leaf.node.shape or operand.dtype not in (None, leaf.node.dtype):
            given = f"{operand.name}, of shape {operand.shape}"
            raise ValueError(f"{leaf.name} is {typed(leaf.node)}; {given}, is given{' by rows' if place else ''}")
    for leaf, output in zip(inputs[1 : loop.carried + 1], outputs, strict=False):
        if (output.shape, output.dtype) != (leaf.node.shape, leaf.node.dtype):
            raise ValueError(f"{leaf.name} is {typed(leaf.node)}, and {output.dtype}{output.shape} in the next round")
    for stack, output in zip(loop.stacks, outputs[loop.carried :], strict=False):
        check_rows(stack.place, loop.rounds, stack.size, output.name)
    if loop.tested and (loop.backward or loop.counted is None or (outputs[-1].shape, outputs[-1].dtype) != ((), "?")):
        raise ValueError("a loop with a condition counts its rounds, forwards, while one truth value holds")


def check_rows(place: Place, rounds: Count, size: Count, name: str) -> None:
    """Raise `ValueError` where a round's row is not within an array, or two rounds have the same."""
    first, last = place.at(0), place.at(rounds - 1)
    low, high = (first, last) if place.step > 0 else (last, first)
    if not (place.step and low >= 0 and high < size):
        raise ValueError(f"{name}: rows {place}, k < {rounds}, of {size}")


# -- dead code


def trimmed(
    bindings: list[Node], outputs: tuple[GraphOutput, ...], wider: Mapping[Atom, tuple[Node, tuple[int, ...]]]
) -> tuple[list[Node], tuple[GraphOutput, ...]]:
    """The bindings that outputs need, loops without what nobody reads; `wider` loops stand for those whose results they have.

    `wider` has, by loop, the other one and the places of the results there.
    """
    placed, atoms = _placed(bindings, wider)
    outputs = tuple(GraphOutput(o.name, atoms.get(o.atom, o.atom)) for o in outputs)
    counting = {b.params.counted: b for b in placed if b.op == "loop" and b.params.tested}
    needed: set[Atom] = {o.atom for o in outputs}
    wanted: dict[Atom, set[int]] = {}
    smaller: dict[Atom, tuple[Node, tuple[int, ...]]] = {}
    for binding in reversed(placed):
        if binding not in needed:
            continue
        operands = binding.operands
        if binding.op == "part":
            wanted.setdefault(operands[0], set()).add(binding.params)
        elif binding.op == "loop":
            loop, kept, places = narrowed(binding.params, wanted.get(binding, set()))
            operands = tuple(operands[p] for p in kept)
            if loop is not binding.params:
                made = binding.on(operands)
                made.params = loop
                smaller[binding] = made, places
        needed.update(operands)
        if counting:
            needed.update(counting[name] for name in sizes_of(smaller.get(binding, (binding,))[0]) if name in counting)
    live = [b for b in placed if b in needed]
    if smaller:
        live = [smaller[b][0] if b in smaller else b for b in live]
        live, atoms = _placed(live, smaller)
        outputs = tuple(GraphOutput(o.name, atoms.get(o.atom, o.atom)) for o in outputs)
    return live, outputs


def _placed(
    bindings: list[Node], wider: Mapping[Atom, tuple[Node, tuple[int, ...]]]
) -> tuple[list[Node], dict[Atom, Atom]]:
    """The bindings with parts of the other loops, each after what it needs, and by the old nodes the new ones."""
    counting = {b.params.counted: b for b in bindings if b.op == "loop" and b.params.tested and b not in wider}
    made: dict[Atom, Atom] = {}
    order: list[Node] = []
    own = set(bindings)
    stack = [b for b in reversed(bindings) if b not in wider]
    while stack:
        binding = stack[-1]
        if binding in made:
            stack.pop()
            continue
        operands, params = binding.operands, binding.params
        while binding.op == "part" and operands[0] in wider:
            loop, places = wider[operands[0]]
            operands, params = (loop,), places[params]
        needs = [o for o in operands if o in own and o not in made]
        if counting:
            needs += [c for name in sizes_of(binding) if (c := counting.get(name)) is not None and c not in made]
        if needs:
            stack += needs
            continue
        operands = tuple(made.get(o, o) for o in operands)
        found = binding
        if operands != binding.operands:
            found = binding.on(operands)
            found.params = params
        made[binding] = found
        order.append(found)
        stack.pop()
    return order, made


def narrowed(loop: Loop, wanted: set[int]) -> tuple[Loop, tuple[int, ...], tuple[int, ...]]:
    """A loop with the `wanted` results and what they need: the loop, its operands and, by the old places of results, the new."""
    inputs, outputs, carried = loop.body.inputs, loop.body.outputs, loop.carried
    ends = len(outputs) - loop.tested
    keep = {k for k in wanted if k < ends}
    place = {leaf.node: i for i, leaf in enumerate(inputs)}
    while True:
        kept = [o for k, o in enumerate(outputs) if k in keep or k >= ends]
        live = live_bindings(loop.body.bindings, tuple(kept))
        read = {place[a] for a in (*(o for b in live for o in b.operands), *(o.atom for o in kept)) if a in place}
        more = {i - 1 for i in read if 0 < i <= carried} - keep
        if not more:
            break
        keep |= more
    used = [i for i in range(1, len(inputs)) if i in read or (i <= carried and i - 1 in keep)]
    places, count = [], 0
    for k in range(len(loop.results)):
        places.append(count)
        count += k in keep or k >= ends
    if len(kept) == len(outputs) and len(used) == len(inputs) - 1:
        return loop, tuple(range(len(inputs) - 1)), tuple(places)
    stacks = tuple(s for k, s in enumerate(loop.stacks, carried) if k in keep)
    body = Graph(loop.body.name, tuple(inputs[i] for i in (0, *used)), tuple(kept), live, None, loop.body.origin)
    small = replace(
        loop, body=body, carried=sum(k < carried for k in keep), stacks=stacks,
        rows=tuple(p for i, p in enumerate(loop.rows, carried + 1) if i in read),
        sums=sum(carried + len(loop.stacks) <= k < ends for k in keep),
    )  # fmt: skip
    return small, tuple(i - 1 for i in used), tuple(places)


def widened(binding: Node, stacks: tuple[tuple[Stack, GraphOutput], ...]) -> tuple[Loop, tuple[int, ...], list[int]]:
    """A loop that stacks more of what a round computes: it, the places of the old results there, and those of the new."""
    loop: Loop = binding.params
    start = loop.carried + len(loop.stacks)
    outputs = loop.body.outputs
    known = {(s, o.atom): k for k, (s, o) in enumerate(zip(loop.stacks, outputs[loop.carried :], strict=False), loop.carried)}
    more: list[tuple[Stack, GraphOutput]] = []
    found = []
    for stack, output in stacks:
        if (stack, output.atom) not in known:
            known[stack, output.atom] = start + len(more)
            more.append((stack, output))
        found.append(known[stack, output.atom])
    body = replace_outputs(loop.body, (*outputs[:start], *(o for _, o in more), *outputs[start:]))
    wide = replace(loop, body=body, stacks=(*loop.stacks, *(s for s, _ in more)))
    return wide, tuple(k if k < start else k + len(more) for k in range(len(loop.results))), found

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

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from symdiff.ir.graph import Graph, GraphInput, GraphOutput, live_bindings, node_type, outputs_at
from symdiff.ir.node import Atom, Node
from symdiff.vocabulary.extents import Count, Extent, Size, counted, names_in_extents
from symdiff.vocabulary.seams import Seam
from symdiff.vocabulary.traits import operations

MOST = 2.0**50  # rounds that a loop with a condition does not reach
_SLOW = operations("libm") - operations("cheap")
_FUNCTION = 10  # operations that an elementary function takes
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

    body: Any  # a Graph; in a program a Program
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
        found = [Result(leaf.name, leaf.shape, leaf.dtype) for leaf in self.body.inputs[1 : carried + 1]]
        for stack, output in zip(self.stacks, outputs[carried:], strict=False):
            found.append(Result(output.name, (stack.size, *output.shape), output.dtype))  # type: ignore[arg-type]
        found += [Result(o.name, o.shape, o.dtype) for o in self.terms]
        return (*found, Result("rounds", (), "d")) if self.tested else tuple(found)

    @property
    def terms(self) -> tuple[Any, ...]:
        """The body's outputs that are summed."""
        start = self.carried + len(self.stacks)
        return tuple(self.body.outputs[start : start + self.sums])

    @property
    def counted(self) -> str | None:
        """The name of the size that the loop counts, None where rounds are known before."""
        return self.rounds.terms[0][0].name if self.tested and isinstance(self.rounds, Extent) else None

    def sizes(self) -> set[str]:
        """The names of the sizes that must be known before."""
        inside: set[str] = set().union(*(sizes_of_binding(b) for b in self.body.bindings)) if self.body.bindings else set()
        inside -= {b.params.counted for b in self.body.bindings if b.op == "loop"}
        leaves = [leaf.node.shape for leaf in self.body.inputs]
        found = names_in_extents((self.limit, self.rounds, tuple(self.rows), tuple(self.stacks), tuple(leaves)))
        return (found | inside) - {self.counted}  # type: ignore[return-value]

    def operations(self) -> Any:
        """The elementwise operations of all rounds, as far as sizes tell."""
        return counted(self.body.operations(), self.rounds)

    def fingerprint(self) -> str:
        """The digests of the body and of what a round gives."""
        return str(self.body.fingerprint() + self.end(self.given(self.body.numbered_names())))

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

    def given(self, names: Mapping[Node, str]) -> list[str]:
        """The names of the body's outputs."""
        return [names.get(o.atom) or o.atom.name for o in self.body.outputs]

    def end(self, outputs: list[str]) -> str:
        """What a round gives, as text."""
        results = self.results
        parts = [f"next {r.name} = {o}" for r, o in zip(results[: self.carried], outputs, strict=False)]
        for stack, output, result in zip(self.stacks, outputs[self.carried :], results[self.carried :], strict=False):
            parts.append(f"{result.name}[{stack.place}] = {output}")
        start = self.carried + len(self.stacks)
        parts += [f"{r.name} += {o}" for r, o in zip(results[start : start + self.sums], outputs[start:], strict=False)]
        return "; ".join([*parts, f"while {outputs[-1]}"] if self.tested else parts)

    def lines(self, names: Mapping[Node, str]) -> Iterator[str]:
        """The body, below the head."""
        plain = Graph(self.body.name, self.body.inputs, (), self.body.bindings)
        names = {**plain.step_names(), **names}
        yield from (f"    {line}" for line in plain._lines(names))
        yield f"      {self.end(self.given(names))}"


def sizes_of_binding(binding: Node) -> set[str]:
    """The names of the sizes that a binding speaks of."""
    if binding.op == "loop":
        return binding.params.sizes()  # type: ignore[no-any-return]
    return names_in_extents(
        (binding.shape, binding.params if binding.op in ("size", "item") else getattr(binding.params, "params", ()))
    )


def counted_rounds(name: str, most: Count | None = None) -> Extent:
    """The number of rounds that a loop tells, as an extent; it may be none at all."""
    return Extent(0, ((Size(name, 0, most if isinstance(most, int) else None), 1),))


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
            raise ValueError(f"{leaf.name} is {node_type(leaf.node)}; {given}, is given{' by rows' if place else ''}")
    for leaf, output in zip(inputs[1 : loop.carried + 1], outputs, strict=False):
        if (output.shape, output.dtype) != (leaf.node.shape, leaf.node.dtype):
            raise ValueError(f"{leaf.name} is {node_type(leaf.node)}, and {output.dtype}{output.shape} in the next round")
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


def trimmed_bindings(
    bindings: list[Node], outputs: tuple[GraphOutput, ...], wider: Mapping[Atom, tuple[Node, tuple[int, ...]]]
) -> tuple[list[Node], tuple[GraphOutput, ...]]:
    """The bindings that outputs need, loops without what nobody reads; `wider` loops stand for those whose results they have.

    `wider` has, by loop, the other one and the places of the results there.
    """
    placed, atoms = _placed(bindings, wider)
    outputs = outputs_at(outputs, atoms)
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
            found, places = narrowed_binding(binding, wanted.get(binding, set()))
            operands = found.operands
            if found is not binding:
                smaller[binding] = found, places
        needed.update(operands)
        if counting:
            needed.update(counting[name] for name in sizes_of_binding(smaller.get(binding, (binding,))[0]) if name in counting)
    live = [b for b in placed if b in needed]
    if smaller:
        live = [smaller[b][0] if b in smaller else b for b in live]
        live, atoms = _placed(live, smaller)
        outputs = outputs_at(outputs, atoms)
    return live, outputs


def _placed(bindings: list[Node], wider: Mapping[Atom, tuple[Node, tuple[int, ...]]]) -> tuple[list[Node], dict[Atom, Atom]]:
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
            needs += [c for name in sizes_of_binding(binding) if (c := counting.get(name)) is not None and c not in made]
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


def needed_bindings(bindings: list[Node], outputs: tuple[GraphOutput, ...]) -> list[Node]:
    """The bindings that some output needs, loops that only count rounds among them, in order."""
    counting = {b.params.counted: b for b in bindings if b.op == "loop" and b.params.tested}
    counts: dict[Node, GraphOutput] = {}
    while True:
        live = live_bindings(bindings, (*outputs, *counts.values()))
        found = [counting[name] for b in live for name in sizes_of_binding(b) if name in counting] if counting else []
        more = {b: GraphOutput("", b) for b in found if b not in counts}
        if not more:
            return live
        counts |= more


def narrowed_binding(binding: Node, wanted: set[int]) -> tuple[Node, tuple[int, ...]]:
    """A loop with the `wanted` results and what they need, and, by the old places of results, the new."""
    whole = Rounds.of(binding)
    bindings = binding.params.body.bindings
    inside = {leaf.node: k for k, (leaf, _, _) in enumerate(whole.carried)}
    kept = [k in wanted for k in range(len(binding.params.results))]
    while True:
        outputs = whole.outputs([k for k, is_kept in enumerate(kept) if is_kept])
        live = needed_bindings(bindings, outputs)
        read = {*(o.atom for o in outputs), *(o for b in live for o in b.operands)}
        more = [k for node, k in inside.items() if node in read and not kept[k]]
        if not more:
            break
        for k in more:
            kept[k] = True
    if all(kept[: whole.ends]) and read.issuperset(leaf.node for leaf, *_ in (*whole.rows, *whole.others)):
        return binding, tuple(range(len(kept)))
    live, outputs = trimmed_bindings(bindings, outputs, {})
    body = Graph("", (), outputs, live)
    stacks = len(whole.carried) + len(whole.stacks)
    small = Rounds(
        [c for c, is_kept in zip(whole.carried, kept, strict=False) if is_kept],
        [row for row in whole.rows if row[0].node in read],
        [other for other in whole.others if other[0].node in read],
        [s for s, is_kept in zip(whole.stacks, kept[len(whole.carried) :], strict=False) if is_kept],
        [o for o, is_kept in zip(whole.sums, kept[stacks:], strict=False) if is_kept],
        whole.test,
    )  # fmt: skip
    kept[whole.ends :] = [True] * (len(kept) - whole.ends)
    return small.bound(binding, body), tuple(sum(kept[:k]) for k in range(len(kept)))


def with_leaves(graph: Graph, leaves: Mapping[Node, Atom]) -> Graph:
    """The outputs of a graph from other symbols in place of some bindings, and what they need."""
    made: dict[Atom, Atom] = dict(leaves)
    kept: list[Node] = []
    for b in graph.bindings:
        if b not in leaves:
            if any(o in made for o in b.operands):
                made[b] = b.on(tuple(made.get(o, o) for o in b.operands))
            kept.append(made.get(b, b))  # type: ignore[arg-type]
    live, outputs = trimmed_bindings(kept, outputs_at(graph.outputs, made), {})
    return Graph(graph.name, graph.inputs, outputs, live, None, graph.origin)


@dataclass(slots=True)
class Rounds:
    """A loop taken apart, or put together: each carried value as it begins, in a round and in the next; and so on."""

    carried: list[tuple[GraphInput, Atom, GraphOutput]] = field(default_factory=list)
    rows: list[tuple[GraphInput, Atom, Place]] = field(default_factory=list)
    others: list[tuple[GraphInput, Atom]] = field(default_factory=list)
    stacks: list[tuple[GraphOutput, Stack]] = field(default_factory=list)
    sums: list[GraphOutput] = field(default_factory=list)
    test: GraphOutput | None = None

    @classmethod
    def of(cls, binding: Node, body: Graph | None = None) -> "Rounds":
        """The parts of a loop, or of one with another `body` of the same form."""
        loop: Loop = binding.params
        body = loop.body if body is None else body
        c, r, s = loop.carried, len(loop.rows), len(loop.stacks)
        given = list(zip(body.inputs[1:], binding.operands, strict=True))
        outputs = body.outputs
        return cls(
            [(*pair, output) for pair, output in zip(given[:c], outputs, strict=False)],
            [(*pair, place) for pair, place in zip(given[c:], loop.rows, strict=False)],
            given[c + r :],
            list(zip(outputs[c:], loop.stacks, strict=False)),
            list(outputs[c + s : c + s + loop.sums]),
            outputs[-1] if loop.tested else None,
        )

    @property
    def ends(self) -> int:
        """How many results come of values."""
        return len(self.carried) + len(self.stacks) + len(self.sums)

    def outputs(self, which: Iterable[int] | None = None) -> tuple[GraphOutput, ...]:
        """The body's outputs, all or those of some results."""
        found = [*(o for *_, o in self.carried), *(o for o, _ in self.stacks), *self.sums]
        chosen = found if which is None else [found[k] for k in which if k < len(found)]
        return (*chosen, *([] if self.test is None else [self.test]))

    def stack(self, output: GraphOutput, stack: Stack) -> int:
        """The place among the stacks of one of such values, which is added where it is missing."""
        known = [k for k, (o, s) in enumerate(self.stacks) if o.atom is output.atom and s == stack]
        if not known:
            self.stacks.append((output, stack))
        return known[0] if known else len(self.stacks) - 1

    def places(self, old: "Rounds") -> tuple[int, ...]:
        """The places here of the results of another one, of which this has more of each kind."""
        stacks = len(self.carried)
        sums = stacks + len(self.stacks)
        found = [*range(len(old.carried)), *range(stacks, stacks + len(old.stacks)), *range(sums, sums + len(old.sums))]
        return (*found, *([] if self.test is None else [self.ends]))

    def bound(self, like: Node, body: Graph, **changes: Any) -> Node:
        """The loop whose `body` has these outputs and its bindings, the rest as in another one but for `changes`."""
        loop: Loop = like.params
        given = [*self.carried, *self.rows, *self.others]
        inputs = (loop.body.inputs[0], *(leaf for leaf, *_ in given))
        made = like.on(tuple(operand for _, operand, *_ in given))
        made.params = replace(
            loop, body=Graph(loop.body.name, inputs, body.outputs, body.bindings, None, loop.body.origin),
            carried=len(self.carried), rows=tuple(place for *_, place in self.rows),
            stacks=tuple(stack for _, stack in self.stacks), sums=len(self.sums), **changes,
        )  # fmt: skip
        return made


def repeated_bindings(bindings: Iterable[Node], weight: Callable[[Node], float] = lambda _: 1) -> float:
    """How many bindings run, those of rounds once a round, each by its weight; infinite where rounds are not known."""
    total = 0.0
    for binding in bindings:
        total += weight(binding)
        if binding.op == "loop":
            rounds = binding.params.limit if binding.params.tested else binding.params.rounds
            inside = repeated_bindings(binding.params.body.bindings, weight)
            total += rounds * inside if isinstance(rounds, int) else math.inf
    return total


def work_of(binding: Node) -> int:
    """About how many operations a binding is in machine code, that on an array being one."""
    return _FUNCTION if binding.op in _SLOW else 1

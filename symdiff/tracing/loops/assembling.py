"""A symbolic round to a loop binding: what is the same in all rounds is computed before the loop, cells at places that move on
by steps are rows, carried values that are only added to are sums.

Assumes a round whose carried values keep shape and dtype. Guarantees what the rounds compute one after the other, sums of
terms regrouped (what the sum begins with is added behind the loop).
"""

from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.graph import Graph, GraphInput, GraphOutput
from symdiff.ir.loops import Loop, Place, Rounds, Stack, counted_rounds, needed_bindings
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.tracing.values.tracer import traced_atom

_STAYING = frozenset({"call", "site"})  # functions of the user's, which are called where he calls them


class Carried(NamedTuple):
    """A value that a round hands on: its symbol, the value before the loop, and the one after the round."""

    name: str
    symbol: Node
    begin: Atom
    end: Atom


class Stacked(NamedTuple):
    """Rows that rounds give: the value, its place in a round, and how many rows there are."""

    name: str
    value: Atom
    place: Place
    size: int


class Round(NamedTuple):
    """One round in symbols: the builder that it filled, the index, and the values of what depends on the index alone."""

    builder: Builder
    k: Node
    count: int | None
    in_rounds: Any
    origin: str
    test: Atom | None = None  # whether there is this round, where rounds are counted as `name`
    name: str = ""


def bound_loop(outer: Builder, found: Round, carried: list[Carried], stacked: list[Stacked]) -> tuple[list[Atom], list[Atom]]:
    """The carried values behind the loop; the stacks, and the number of rounds where they are counted."""
    maker = _Maker(outer, found, carried, stacked)
    return maker.results()


class _Maker:
    def __init__(self, outer: Builder, found: Round, carried: list[Carried], stacked: list[Stacked]) -> None:
        self.outer = outer
        self.found = found
        self.carried = carried
        self.stacked = stacked
        self.inside = Builder()
        ends = tuple(GraphOutput("", a) for a in (*(c.end for c in carried), *(s.value for s in stacked),
                     *([] if found.test is None else [found.test])))  # fmt: skip
        self.live = needed_bindings(found.builder.bindings, ends)
        self.uses: dict[Atom, int] = {}
        self.users: dict[Atom, Node] = {o: b for b in self.live for o in b.operands}
        for atom in (*(o for b in self.live for o in b.operands), *(o.atom for o in ends)):
            self.uses[atom] = self.uses.get(atom, 0) + 1
        self.outside: dict[Atom, Atom] = {}
        for symbol, tracer in zip(found.builder.captures.values(), found.builder.captured, strict=True):
            self.outside[symbol] = traced_atom(tracer, outer, found.origin)
        self.made: dict[Atom, Atom] = {}
        self.others: dict[Atom, GraphInput] = {}
        self.rows: dict[tuple[Atom, Place], GraphInput] = {}
        self.names: set[str] = {"k"}
        self.tables: dict[Atom, Atom] = {}  # of integers, as numbers

    def results(self) -> tuple[list[Atom], list[Atom]]:
        """The loop is bound outside."""
        chains = {c.symbol: added for c in self.carried if (added := self._added(c))}
        sums = {c.symbol: self._term(c, chains[c.symbol]) for c in self.carried if c.symbol in chains}
        kept = [c for c in self.carried if c.symbol not in sums]
        self.names.update(c.name for c in self.carried)
        k = self.inside.input("k", (), "d")
        self.made[self.found.k] = k
        begun = []
        for c in kept:
            self.made[c.symbol] = self.inside.input(c.name, c.symbol.shape, c.symbol.dtype or "d")
            begun.append(self.inside.inputs[-1])
        added = {b for chain in chains.values() for b in chain}
        for binding in self.live:
            if binding not in added:
                self._put(binding)
        rounds = Rounds(
            [(leaf, self._begin(c), self._output(c.name, c.end, c.symbol)) for leaf, c in zip(begun, kept, strict=True)],
            [(leaf, source, place) for (source, place), leaf in self.rows.items()],
            [],
            [(GraphOutput(s.name, self._inner(s.value)), Stack(s.place, s.size)) for s in self.stacked],
            [self._output(c.name, sums[c.symbol], c.symbol) for c in self.carried if c.symbol in sums],
        )
        rounds.rows = [(leaf, source, place) for (source, place), leaf in self.rows.items()]
        rounds.others = [(leaf, source) for source, leaf in self.others.items()]
        inputs = (self.inside.inputs[0], *(leaf for leaf, *_ in (*rounds.carried, *rounds.rows, *rounds.others)))
        test = self.found.test
        rounds.test = None if test is None else GraphOutput("goes_on", self._inner(test))
        rounds.others = [(leaf, source) for source, leaf in self.others.items()]
        inputs = (self.inside.inputs[0], *(leaf for leaf, *_ in (*rounds.carried, *rounds.rows, *rounds.others)))
        outputs = rounds.outputs()
        body = Graph("", inputs, outputs, needed_bindings(self.inside.bindings, outputs), None, self.found.origin)
        tested = test is not None
        count: Any = counted_rounds(self.found.name, self.found.count) if tested else self.found.count
        loop = Loop(
            body, count, len(rounds.carried), tuple(p for *_, p in rounds.rows), tuple(s for _, s in rounds.stacks),
            len(rounds.sums), tested, self.found.count if tested else None,
        )  # fmt: skip
        operands = tuple(o for _, o, *_ in (*rounds.carried, *rounds.rows, *rounds.others))
        bound = self.outer.loop(loop, operands, self.found.origin)
        return self._behind(bound, kept, sums)

    def _behind(self, bound: Node, kept: list[Carried], sums: dict[Node, Atom]) -> tuple[list[Atom], list[Atom]]:
        ends: dict[Node, Atom] = {c.symbol: self.outer.part(bound, n) for n, c in enumerate(kept)}
        first = len(kept) + len(self.stacked)
        for n, c in enumerate(c for c in self.carried if c.symbol in sums):
            total = self.outer.part(bound, first + n)
            ends[c.symbol] = total if is_constant(c.begin, 0) else self.outer.emit("add", (c.begin, total), None, bound.origin)
        stacks = [self.outer.part(bound, len(kept) + n) for n in range(len(self.stacked))]
        if self.found.test is not None:
            stacks.append(self.outer.part(bound, first + len(sums)))
        return [ends[c.symbol] for c in self.carried], stacks

    # -- sums

    def _added(self, c: Carried) -> list[Node]:
        """The sums, and differences, through which a carried value goes, where it has no other use; none where it has."""
        found: list[Node] = []
        atom: Atom = c.symbol
        while self.uses.get(atom) == 1 and atom is not c.end:
            user = self.users.get(atom)
            if user is None or user.op not in ("add", "sub") or (user.op == "sub" and user.operands[0] is not atom):
                return []
            other = user.operands[1] if user.operands[0] is atom else user.operands[0]
            if {user.shape, other.shape} != {c.symbol.shape} or (other.dtype or "d") != c.symbol.dtype:
                return []
            found.append(user)
            atom = user
        return found if atom is c.end and self.uses.get(atom) == 1 and c.symbol.dtype in ("d", "D") else []

    def _term(self, c: Carried, added: list[Node]) -> Atom:
        """What a round adds to a carried value."""
        builder, atom, term = self.found.builder, c.symbol, None
        for b in added:
            other = b.operands[1] if b.operands[0] is atom else b.operands[0]
            start = len(builder.bindings)
            if term is not None:
                term = builder.emit(b.op, (term, other), None, b.origin)
            else:
                term = other if b.op == "add" else builder.emit("neg", (other,), None, b.origin)
            self.live += builder.bindings[start:]
            atom = b
        assert term is not None
        return term

    # -- inside and outside

    def _begin(self, c: Carried) -> Atom:
        begin = c.begin
        if begin.shape != c.symbol.shape or begin.dtype not in (None, c.symbol.dtype):
            return Arrays(self.outer, self.found.origin).broadcast_to(self.outer.cast(begin, c.symbol.dtype), c.symbol.shape)
        return begin

    def _output(self, name: str, atom: Atom, like: Node) -> GraphOutput:
        """What a round gives, with exactly this shape and dtype."""
        found = self._inner(atom)
        if found.dtype is not None or like.dtype != GraphOutput(name, found).dtype:
            found = self.inside.cast(found, like.dtype or "d")
        if found.shape != like.shape:
            found = Arrays(self.inside, self.found.origin).broadcast_to(found, like.shape)
        return GraphOutput(name, found)

    def _put(self, b: Node) -> None:
        builder = self.inside
        if b.op not in _STAYING and all(o.op == "const" or o in self.outside for o in b.operands) and b.operands:
            operands = tuple(self.outside.get(o, o) for o in b.operands)
            self.outside[b] = self.outer.bind(b.op, operands, b.shape, b.dtype, b.params, b.origin)
            return
        row = self._row(b) if b.op == "gather" else None
        if row is not None:
            self.made[b] = row
            return
        builder.origin, builder.primal = b.origin, b.primal
        self.made[b] = builder.bind(b.op, tuple(map(self._inner, b.operands)), b.shape, b.dtype, b.params)

    def _inner(self, atom: Atom) -> Atom:
        """A value of the round in the body; from outside, as an operand that is the same in all rounds."""
        if atom in self.made:
            return self.made[atom]
        if atom.op == "const" and atom not in self.outside:
            return atom
        source = self.outside[atom]
        if source.op == "const" and source.shape == ():
            return source
        if source not in self.others:
            self.others[source] = self._leaf(source, source.shape)
        return self.others[source].node

    def _leaf(self, source: Atom, shape: tuple[int, ...], row: bool = False) -> GraphInput:
        base = source.name if source.op == "input" else "c"
        base = f"{base}_" if row else base
        name, n = base, 0
        while name in self.names:
            n += 1
            name = f"{base}{n}"
        self.names.add(name)
        self.inside.input(name, shape, source.dtype or "d")
        return self.inside.inputs[-1]

    def _row(self, b: Node) -> Atom | None:
        """A row of what is the same in all rounds, at a place that moves on by steps."""
        x, index = b.operands
        source = self.outside.get(x, x if x.op == "const" else None)
        known = source is not None and not index.shape and self.found.test is None
        places = self.found.in_rounds(index) if known else None
        if source is None or places is None:
            return None
        if isinstance(source, ArrayConstant) and source.value.dtype.kind in "iu":
            source = self.tables.setdefault(source, ArrayConstant(source.value.astype(float)))
        step = int(places[1] - places[0])
        if not step or not np.array_equal(places, places[0] + step * np.arange(float(self.found.count))):
            return None
        place = Place(step, int(places[0]))
        if not 0 <= min(places[0], places[-1]) <= max(places[0], places[-1]) < source.shape[0]:
            return None
        if (source, place) not in self.rows:
            self.rows[source, place] = self._leaf(source, source.shape[1:], True)
        return self.rows[source, place].node


def zero_of(code: str) -> Atom:
    """What a value that is only known behind a loop begins with."""
    return Constant(0j if code in "FD" else False if code == "?" else 0.0, code)

"""A symbolic round to a loop binding: what is the same in all rounds is computed before the loop, cells at places that move on
by steps are rows, carried values that are only added to are sums.

Assumes a round whose carried values keep shape and dtype. Guarantees what the rounds compute one after the other, sums of
terms regrouped (what the sum begins with is added behind the loop).
"""

from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, array_atom, is_constant
from symdiff.ir.graph import Graph, GraphInput, GraphOutput
from symdiff.ir.loops import Loop, Place, Rounds, Stack, counted_rounds, needed_bindings
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.tracing.values.tracer import traced_atom

STAYING = frozenset({"call", "site"})  # functions of the user's, which are called where he calls them


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
    data: Any = None  # what data alone tell of it, see `of_data.OfData`


def bound_loop(outer: Builder, found: Round, carried: list[Carried], stacked: list[Stacked]) -> tuple[list[Atom], list[Atom]]:
    """The carried values behind the loop; the stacks, and the number of rounds where they are counted."""
    tested = found.test is not None
    if tested and found.data.rounds is not None:
        found = found._replace(test=None, count=found.data.rounds)
    ends, stacks = _Maker(outer, found, carried, stacked).results()
    return ends, [*stacks, Constant(found.count)] if tested and found.test is None else stacks


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
        for atom in (*(o for b in self.live for o in b.operands), *(o.atom for o in ends)):
            self.uses[atom] = self.uses.get(atom, 0) + 1
        self.outside: dict[Atom, Atom] = {}
        for symbol, tracer in zip(found.builder.captures.values(), found.builder.captured, strict=True):
            self.outside[symbol] = traced_atom(tracer, outer, found.origin)
        self.made: dict[Atom, Atom] = {}
        self.others: dict[Atom, GraphInput] = {}
        self.rows: dict[tuple[Atom, Place], GraphInput] = {}
        self.names: set[str] = {"k"}
        self.tables: dict[Atom, Atom] = {}  # of integers, as numbers; of what data tell in all rounds

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
        stacked = [s for s in self.stacked if not self._is_told(s.value)]
        test = self.found.test
        rounds = Rounds(
            [(leaf, self._begin(c), self._output(c.name, c.end, c.symbol)) for leaf, c in zip(begun, kept, strict=True)],
            stacks=[(GraphOutput(s.name, self._inner(s.value)), Stack(s.place, s.size)) for s in stacked],
            sums=[self._output(c.name, sums[c.symbol], c.symbol) for c in self.carried if c.symbol in sums],
            test=None if test is None else GraphOutput("goes_on", self._inner(test)),
        )
        rounds.rows = [(leaf, source, place) for (source, place), leaf in self.rows.items()]
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
        first = len(kept) + len(bound.params.stacks)
        for n, c in enumerate(c for c in self.carried if c.symbol in sums):
            total = self.outer.part(bound, first + n)
            ends[c.symbol] = total if is_constant(c.begin, 0) else self.outer.emit("add", (c.begin, total), None, bound.origin)
        rows = (self.outer.part(bound, n) for n in range(len(kept), first))
        stacks = [self._told_stack(s) if self._is_told(s.value) else next(rows) for s in self.stacked]
        if self.found.test is not None:
            stacks.append(self.outer.part(bound, first + len(sums)))
        told = {symbol: array_atom(value) for symbol, value in self.found.data.ends.items()}
        return [told.get(c.symbol, ends[c.symbol]) for c in self.carried], stacks

    # -- what data tell

    def _is_told(self, atom: Atom) -> bool:
        return atom in self.found.data.columns

    def _told_stack(self, s: Stacked) -> Atom:
        """The rows of a value that data tell."""
        column = self.found.data.columns[s.value]
        whole = np.zeros((s.size, *column.shape[1:]), column.dtype)
        whole[[s.place.at(k) for k in range(len(column))]] = column
        return ArrayConstant(whole)

    # -- sums

    def _added(self, c: Carried) -> list[Node]:
        """The sums, differences and choices through which a carried value goes to its end, where it has no other use; none
        where it has.
        """
        found: dict[Atom, None] = {c.symbol: None}
        inside = 0  # uses of these by others of them
        for b in self.live if c.symbol.dtype in ("d", "D") else ():
            own = [o in found for o in b.operands]
            if not any(own):
                continue
            as_wanted = {"add": ([True, False], [False, True]), "sub": ([True, False],), "select": ([False, True, True],)}
            terms = [o for o in b.operands[b.op == "select" :] if o not in found]
            if own not in as_wanted.get(b.op, ()) or b.shape != c.symbol.shape or b.dtype != c.symbol.dtype:
                return []
            if any(o.shape != c.symbol.shape or (o.dtype or "d") != c.symbol.dtype for o in terms):
                return []
            found[b] = None
            inside += sum(own)
        alone = c.end in found and c.end is not c.symbol and sum(self.uses.get(a, 0) for a in found) == inside + 1
        return [*found][1:] if alone else []  # type: ignore[list-item]

    def _term(self, c: Carried, added: list[Node]) -> Atom:
        """What a round adds to a carried value."""
        builder, start = self.found.builder, len(self.found.builder.bindings)
        terms: dict[Atom, Atom | None] = {c.symbol: None}
        for b in added:
            given = [terms.get(o, o) for o in b.operands]
            if b.op == "select":
                ways = tuple(Constant(0.0) if term is None else term for term in given[1:])
                terms[b] = None if given[1:] == [None, None] else builder.emit("select", (b.operands[0], *ways), None, b.origin)
            elif None not in given:
                terms[b] = builder.emit(b.op, (given[0], given[1]), None, b.origin)  # type: ignore[arg-type]
            else:
                (term,) = (term for term in given if term is not None)
                terms[b] = term if b.op == "add" else builder.emit("neg", (term,), None, b.origin)
        self.live += builder.bindings[start:]
        found = terms[c.end]
        return Constant(0.0) if found is None else found

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
        if self._is_told(b):
            return
        if b.op not in STAYING and all(o.op == "const" or o in self.outside for o in b.operands) and b.operands:
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
        if self._is_told(atom):
            column = self.found.data.columns[atom]
            if (column == column[0]).all():
                return array_atom(column[0])
            return self._at(self.tables.setdefault(atom, ArrayConstant(column)), Place())
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
        places = places[: self.found.count]
        step = int(places[1] - places[0]) if len(places) > 1 else 0
        if not step or not np.array_equal(places, places[0] + step * np.arange(float(self.found.count))):
            return None
        place = Place(step, int(places[0]))
        if not 0 <= min(places[0], places[-1]) <= max(places[0], places[-1]) < source.shape[0]:
            return None
        return self._at(source, place)

    def _at(self, source: Atom, place: Place) -> Atom:
        """The row of an array at a place that the round's number tells."""
        if (source, place) not in self.rows:
            self.rows[source, place] = self._leaf(source, source.shape[1:], True)
        return self.rows[source, place].node


def zero_of(code: str) -> Atom:
    """What a value that is only known behind a loop begins with."""
    return Constant(0j if code in "FD" else False if code == "?" else 0.0, code)

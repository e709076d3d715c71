"""Loops as recurrences: what a round makes of the values of the one before, of loops that were kept and of unrolled ones.

Assumes a graph of numbers, and loops over numbers, which read cells of arrays of one axis beside their index. Guarantees of an
unrolled loop that its rounds from the second on are one term. Raises `Unreadable` for other graphs.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product
from typing import Any, NamedTuple

from symdiff.inspection.exact import ONCE
from symdiff.inspection.reading.equations import ROWS
from symdiff.inspection.reading.naming import input_names, own_names
from symdiff.inspection.reading.patterns import SERIES, Patterns, cell_beside
from symdiff.inspection.reading.slopes import Slopes
from symdiff.inspection.reading.sources import Sources, assigned_values
from symdiff.inspection.reading.terms import ONE, ZERO, Term
from symdiff.inspection.reading.written import Writer, cell_name, read_graph, result_terms, term_of
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Graph
from symdiff.ir.loops import Loop, Rounds
from symdiff.ir.node import Atom, Node
from symdiff.tracing.unrolling.scalarizing import in_unrolled_regime
from symdiff.vocabulary.ops import is_complex

FEWEST = 3  # rounds of an unrolled `while`
WIDEST = 200  # printed width of a round of one
MOST = 3  # values of it whose beginning is looked for


class Unreadable(Exception):
    """A graph that is none of those that are read here."""


class Cell(NamedTuple):
    """A cell of an input that a round reads: the input's place, and how far beside the index; and the symbol."""

    array: int
    shift: int
    symbol: Term


class Carried(NamedTuple):
    """A value that goes from round to round: its name, its symbols in a round and at the end, its first term, and the next."""

    name: str
    now: Term
    end: Term
    first: Term
    next: Term


@dataclass(slots=True)
class Rows:
    """What is read of a loop of rounds `start` to `stop` - 1: carried values, sums with the symbols that stand for them, cells.

    `stop` is 0 where only a condition tells it.
    """

    start: int
    stop: int
    carried: list[Carried] = field(default_factory=list)
    sums: list[tuple[Term, Term]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)


class Reader:
    """The terms of a graph with loops."""

    def __init__(self, graph: Graph, rules: Any) -> None:
        self.graph = graph
        self.writer = t = Writer()
        self.names = input_names(graph.inputs)
        self.known: dict[Atom, Term] = {}
        self.arrays: dict[Atom, int] = {}
        self.own: dict[Term, tuple[str, Fraction]] = {}
        self.sources = Sources()
        for place, (leaf, name) in enumerate(zip(graph.inputs, self.names, strict=True)):
            if leaf.shape == ():
                self.known[leaf.node] = t.symbol(name, is_complex(leaf.dtype))
            else:
                self.arrays[leaf.node] = place
        self.inputs = [self.known.get(leaf.node) for leaf in graph.inputs]
        self.cells: dict[Term, tuple[int, int]] = {}  # those that are read outside of loops: the input's place, and the number
        for binding in graph.bindings:
            if binding.op == "item" and (place := self.arrays.get(binding.operands[0])) is not None:
                leaf = graph.inputs[place]
                symbol = t.symbol(cell_name(self.names[place], leaf.shape, binding.params), is_complex(leaf.dtype))
                self.known[binding] = symbol
                self.cells[symbol] = place, binding.params
        self.loops = self._loops()
        self.results = self._results()
        self.slopes = Slopes(t, rules)
        self.series = {symbol: (term, rows) for rows in self.loops for symbol, term in rows.sums}
        used = [term for rows in self.loops for v in rows.carried for term in (v.first, v.next)]
        used += [term for rows in self.loops for _, term in rows.sums]
        self.lines = [s for s in self.series if any(term.needs & s.needs for term in used)]  # sums that rounds read

    def _loops(self) -> list[Rows]:
        """The loops; all other values are known afterwards."""
        raise NotImplementedError

    def _results(self) -> list[list[Term]]:
        """The cells of each result."""
        return result_terms(self.graph, self.writer, self.known)

    def _choose_letters(self, indices: str, taken: Container[str]) -> None:
        """Take letters that nothing else has for indices, and for the number of rounds."""
        self.index, self.bound = [letter for letter in (*indices, "index_1", "index_2") if letter not in taken][:2]
        self.count = next(letter for letter in ("n", "N", "rounds") if letter not in taken)

    def free_name(self, name: str) -> str:
        """A name that no other value has."""
        while name in self.writer.bits:
            name += "_"
        return name

    # -- terms

    def summed(self, term: Term, rows: Rows, free: bool = False) -> Term:
        """The sum of a term of a round; where the index is `free` for other rows, over another letter."""
        t = self.writer
        if term is ZERO:
            return ZERO
        last = t.number(rows.stop - 1) if rows.stop else t.plus(t.symbol(self.count), t.number(-1))
        index = self.bound if free else self.index
        inner, times = term.multiple
        return t.scaled(t.call(SERIES, self.at(inner, 0, index), t.symbol(index), t.number(rows.start), last), times)

    def with_series(self, term: Term, free: bool = False) -> Term:
        """A term with sums in the places of the symbols for them, but for those that have lines of their own."""

        def change(part: Term) -> Term | None:
            return self.summed(*self.series[part], free) if part in self.series and part not in self.lines else None

        return self.writer.rewritten(term, change)

    def at(self, term: Term, shift: int, index: str = "") -> Term:
        """A term of a round as one of so many rounds before, by another index."""
        index = index or self.index
        t = self.writer

        def moved(part: Term) -> Term | None:
            if part.kind != "symbol":
                return None
            if part.parts[0] == self.index:
                return t.plus(t.symbol(index), t.number(-shift))
            beside = self.beside(part)
            return None if beside is None else t.symbol(cell_beside(beside[0], beside[1] - shift, index), part.is_complex)

        return t.rewritten(term, moved) if shift or index != self.index else term

    def beside(self, symbol: Term) -> tuple[str, int] | None:
        """The array of a symbol of a cell beside the index, and how far beside it is."""
        array, found, rest = symbol.parts[0].partition(f"[{self.index}")
        return (array, int(rest[:-1] or 0)) if found else None

    def within(self, term: Term, low: int, high: int, size: int) -> Term:
        """A term where the index is from one place to another of `size`, else zero, with Iverson's bracket."""
        t, k = self.writer, self.writer.symbol(self.index)
        bounds = ("eq", low, low == high), ("ge", low, 0 < low < high), ("le", high, low < high < size - 1)
        brackets = (t.brace([(t.call(op, k, t.number(place)), ONE)], ZERO) for op, place, needed in bounds if needed)
        return t.mul([term, *brackets])


class Kept(Reader):
    """The terms of a graph whose loops were kept."""

    def _loops(self) -> list[Rows]:
        loops = [b for b in self.graph.bindings if b.op == "loop"]
        carried = [leaf.name for b in loops for leaf, *_ in Rounds.of(b).carried]
        if len(set(carried)) < len(carried) or set(carried) & {self.names[p] for p in self.arrays.values()}:
            raise Unreadable
        taken = {*self.names, *(leaf.name for b in loops for leaf in b.params.body.inputs[1:])}
        self._choose_letters("kijlm" if carried else "ijklm", taken)
        self.ends: dict[tuple[Atom, int], Term] = {}
        for binding in self.graph.bindings:
            self._enter(binding)
        read_graph(self.graph, self.writer, self.known)
        return [self._loop(b) for b in loops]

    def _enter(self, binding: Node) -> None:
        """A value that is no operation on numbers."""
        t = self.writer
        if binding.op == "loop":
            self.known[binding] = ZERO
        elif binding.op == "part":
            loop, place = binding.operands[0], binding.params
            rounds = loop.params.rounds if isinstance(loop.params.rounds, int) else self.count
            if binding.shape != () or loop.op != "loop":
                raise Unreadable
            name = loop.params.results[place].name
            name = f"{name}[{rounds}]" if place < loop.params.carried else self.free_name(name)
            self.known[binding] = self.ends[loop, place] = t.symbol(name)
        elif binding not in self.known and (binding.op == "size" or any(x.shape for x in (binding, *binding.operands))):
            raise Unreadable

    def _loop(self, binding: Node) -> Rows:
        loop: Loop = binding.params
        t, rounds, k = self.writer, Rounds.of(binding), self.index
        if loop.backward or loop.limit is not None or loop.stacks or not (loop.tested or isinstance(loop.rounds, int)):
            raise Unreadable
        found = Rows(0, loop.rounds if isinstance(loop.rounds, int) else 0)
        known: dict[Atom, Term] = {loop.body.inputs[0].node: t.symbol(k)}
        for leaf, operand, place in rounds.rows:
            if operand not in self.arrays or leaf.shape or place.step != 1 or not isinstance(place.start, int):
                raise Unreadable
            array = self.arrays[operand]
            known[leaf.node] = t.symbol(cell_beside(self.names[array], place.start, k))
            found.cells.append(Cell(array, place.start, known[leaf.node]))
        for leaf, operand in rounds.others:
            known[leaf.node] = self._number(operand, leaf.shape)
        for leaf, *_ in rounds.carried:
            if leaf.shape:
                raise Unreadable
            known[leaf.node] = t.symbol(f"{leaf.name}[{k}]")
        if any(b.op in ("loop", "part", "size") or any(x.shape for x in (b, *b.operands)) for b in loop.body.bindings):
            raise Unreadable
        read_graph(loop.body, t, known)
        changing = {leaf.name for leaf, *_ in rounds.carried}
        own = own_names(loop.body, known, self.sources)
        self.own |= {term: named for term, named in own.items() if named[0] not in changing}
        for place, (leaf, operand, output) in enumerate(rounds.carried):
            end = self.ends.get((binding, place), t.symbol(f"{leaf.name}[{found.stop or self.count}]"))
            first, next_ = self._number(operand, ()), term_of(output.atom, t, known)
            found.carried.append(Carried(leaf.name, known[leaf.node], end, first, next_))
        for place, output in enumerate(rounds.sums, len(rounds.carried)):
            if (binding, place) in self.ends:
                found.sums.append((self.ends[binding, place], term_of(output.atom, t, known)))
        return found

    def _number(self, operand: Atom, shape: tuple[int, ...]) -> Term:
        if shape or operand.shape:
            raise Unreadable
        return term_of(operand, self.writer, self.known)


class Unrolled(Reader):
    """The terms of a graph of numbers with one loop that was run round by round. Its recurrence begins with a number or an
    input of which a round makes the first values, else with these."""

    def _loops(self) -> list[Rows]:
        t, states = self.writer, self._states()
        self._choose_letters("kijlm", {name.partition("[")[0] for name in t.bits})
        symbols: dict[Atom, Term] = {}
        for name, rounds in states.items():
            symbols |= {b: t.symbol(f"{name}[{k + 1}]", is_complex(b.dtype)) for k, b in enumerate(rounds)}
        terms = read_graph(self.graph, t, self.known, symbols)
        self._patterns = Patterns(t)
        inside: dict[Term, Term] = {}  # what stands for values of the same round
        found: list[Carried] = []
        for name, rounds in states.items():
            made = {self._patterns.at_index(terms[b], k, self.index) for k, b in enumerate(rounds) if k}
            if len(made) > 1 or max(terms[b].width for b in rounds) > WIDEST:
                raise Unreadable
            start, end = symbols[rounds[0]], symbols[rounds[-1]]
            now, after = (t.symbol(cell_beside(name, shift, self.index), start.is_complex) for shift in (0, 1))
            first, next_ = (t.rewritten(term, inside.get) for term in (terms[rounds[0]], made.pop()))
            inside |= {start: first, after: next_}
            found.append(Carried(name, now, end, first, next_))
        return [self._rows(found, max(map(len, states.values())))]

    def _states(self) -> dict[str, list[Node]]:
        """The values of each variable that a loop assigns once a round."""
        states: dict[str, list[Node]] = {}
        if not in_unrolled_regime(self.graph):
            raise Unreadable
        for values in assigned_values(self.graph, self.sources, set(self.graph.bindings)).values():
            for name, bindings in values.items():
                if len(bindings) > 1 and self.sources.is_in_loop(bindings[0].origin):  # one is of the last round
                    if name in states:
                        raise Unreadable
                    states[name] = bindings
        counts = [*map(len, states.values())] or [0]
        branches, arrays = branches_of(self.graph), {self.names[p] for p in self.arrays.values()}
        fewest = FEWEST if branches is not None and branches.guarded else ROWS + 1
        if max(counts) < fewest or max(counts) > min(counts) + 1 or arrays & set(states):
            raise Unreadable
        return states

    def _rows(self, found: list[Carried], stop: int) -> Rows:
        """The loop over those values that other rounds and results need. What is a sum or a product only is no recurrence."""
        t, rows, self._ends = self.writer, Rows(0, stop), dict[Term, Term]()
        results = [term for cells in super()._results() for term in cells]
        kept = [v for v in found if _needs(results, v.end) or _needs([u.next for u in found if u is not v], v.now)]
        nexts, states = [v.next for v in kept], {v.name for v in found}
        for symbol in [t.symbol(name) for name in t.bits if name.partition("[")[0] in states]:
            is_end = symbol.parts[0].endswith(f"[{stop}]")
            if (_needs(nexts, symbol) and all(symbol is not v.now for v in kept)) or (_needs(results, symbol) and not is_end):
                raise Unreadable
        rows.start, kept = self._begun(kept)
        for v in kept:
            end, added = t.symbol(f"{v.name}[{stop}]", v.end.is_complex), t.plus(v.next, t.neg(v.now))
            t.indices |= v.now.needs
            if _needs([added, *(n for n in nexts if n is not v.next)], v.now):
                rows.carried.append(v._replace(end=end))
            else:
                rows.sums.append((t.symbol(self.free_name(v.name)), added))
                self._ends[end] = t.plus(v.first, rows.sums[-1][0])
        shares = [t.mul([v.next, t.power(v.now, -ONCE)]) for v in rows.carried]
        if not (rows.carried and (rows.sums or any(_needs(shares, v.now) for v in rows.carried))):
            raise Unreadable
        places = {self.names[place]: place for place in self.arrays.values()}
        for symbol in map(t.symbol, list(t.bits)):
            array, shift = self.beside(symbol) or ("", 0)
            if array in places and _needs([*nexts], symbol):
                rows.cells.append(Cell(places[array], shift, symbol))
        return rows

    def _begun(self, carried: list[Carried]) -> tuple[int, list[Carried]]:
        """The place of the first values, and the values with these."""
        numbers = [*(term for term in self.inputs if term is not None), ZERO, ONE]
        made = [self._patterns.at_index(v.first, 0, self.index) for v in carried]
        for firsts in product(numbers, repeat=len(carried)) if len(carried) <= MOST else ():
            given = dict(zip((v.now for v in carried), firsts, strict=True))
            if all(self.writer.rewritten(v.next, given.get) is term for v, term in zip(carried, made, strict=True)):
                return 0, [v._replace(first=first) for v, first in zip(carried, firsts, strict=True)]
        return 1, carried

    def _results(self) -> list[list[Term]]:
        return [[self.writer.rewritten(term, self._ends.get) for term in cells] for cells in super()._results()]


def _needs(terms: Iterable[Term], symbol: Term) -> bool:
    """Whether one of some terms depends on a symbol."""
    return any(term.needs & symbol.needs for term in terms)

"""Loops that were kept, for readers: sums over an index, recurrences, and what the chain rule makes of both.

Assumes a graph of numbers and loops over numbers, which read cells of arrays of one axis beside their index. Guarantees the
values of the function and of its derivative by the multipliers of Lagrange: those of a carried value go the rounds backwards;
of a function of one number its derivative goes with it. None stands for other graphs and other kinds of derivatives.

Source of the method: Bryson and Ho, Applied Optimal Control, 1975, section 2.2.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import sympy as sp

from symdiff.inspection.reading.equations import Slope, TotalSlope
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.lines import Line, composed_lines
from symdiff.inspection.reading.naming import input_names, numbered_names, own_names
from symdiff.inspection.reading.patterns import SERIES, cell_beside
from symdiff.inspection.reading.slopes import Slopes
from symdiff.inspection.reading.sources import Sources
from symdiff.inspection.reading.terms import ONE, ZERO, Term
from symdiff.inspection.reading.written import Writer, cell_name, read_graph, term_of
from symdiff.ir.graph import Derivation, Graph
from symdiff.ir.loops import Loop, Rounds
from symdiff.ir.node import Atom, Node, has_loops
from symdiff.vocabulary.ops import is_complex

SLOPES = {"": (False,), "grad": (True,), "jacobian": (True,), "value_and_grad": (False, True)}


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
    """What is read of a loop of `rounds` rounds: carried values, sums with the symbols that stand for them, cells."""

    rounds: int
    carried: list[Carried] = field(default_factory=list)
    sums: list[tuple[Term, Term]] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    tested: bool = False


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
            elif len(leaf.shape) == 1 and isinstance(leaf.shape[0], int):
                self.arrays[leaf.node] = place
            else:
                raise Unreadable
        self.inputs = [self.known.get(leaf.node) for leaf in graph.inputs]
        self.ends: dict[tuple[Atom, int], Term] = {}
        self.cells: dict[Term, tuple[int, int]] = {}  # those that are read outside of loops: the input's place, and the number
        loops = [b for b in graph.bindings if b.op == "loop"]
        taken = {*self.names, *(leaf.name for b in loops for leaf in b.params.body.inputs[1:])}
        letters = "kijlm" if any(b.params.carried for b in loops) else "ijklm"
        self.index, self.bound = [letter for letter in (*letters, "index_1", "index_2") if letter not in taken][:2]
        self.count = next(letter for letter in ("n", "N", "rounds") if letter not in taken)
        carried = [leaf.name for b in loops for leaf, *_ in Rounds.of(b).carried]
        if not loops or len(set(carried)) < len(carried) or set(carried) & {self.names[p] for p in self.arrays.values()}:
            raise Unreadable
        for binding in graph.bindings:
            self._enter(binding)
        read_graph(graph, t, self.known)
        self.loops = [self._loop(b) for b in loops]
        self.results = [term_of(output.atom, t, self.known) for output in graph.outputs]
        self.slopes = Slopes(t, rules)
        self.series = {symbol: (term, rows) for rows in self.loops for symbol, term in rows.sums}
        used = [term for rows in self.loops for v in rows.carried for term in (v.first, v.next)]
        used += [term for rows in self.loops for _, term in rows.sums]
        self.lines = [s for s in self.series if any(term.needs & s.needs for term in used)]  # sums that rounds read

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
        elif binding.op == "item" and binding.operands[0] in self.arrays:
            place = self.arrays[binding.operands[0]]
            symbol = t.symbol(cell_name(self.names[place], binding.operands[0].shape, binding.params))
            self.known[binding] = symbol
            self.cells[symbol] = place, binding.params
        elif binding.shape != () or binding.op in ("item", "size"):
            raise Unreadable

    def _loop(self, binding: Node) -> Rows:
        loop: Loop = binding.params
        t, rounds, k = self.writer, Rounds.of(binding), self.index
        if loop.backward or loop.limit is not None or loop.stacks or not (loop.tested or isinstance(loop.rounds, int)):
            raise Unreadable
        found = Rows(loop.rounds if isinstance(loop.rounds, int) else 0)
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
        if any(b.shape != () or b.op in ("loop", "part", "item", "size", "array") for b in loop.body.bindings):
            raise Unreadable
        read_graph(loop.body, t, known)
        changing = {leaf.name for leaf, *_ in rounds.carried}
        own = own_names(loop.body, known, self.sources)
        self.own |= {term: named for term, named in own.items() if named[0] not in changing}
        for place, (leaf, operand, output) in enumerate(rounds.carried):
            end = self.ends.get((binding, place), t.symbol(f"{leaf.name}[{found.rounds or self.count}]"))
            first, next_ = self._number(operand, ()), term_of(output.atom, t, known)
            found.carried.append(Carried(leaf.name, known[leaf.node], end, first, next_))
        for place, output in enumerate(rounds.sums, len(rounds.carried)):
            if (binding, place) in self.ends:
                found.sums.append((self.ends[binding, place], term_of(output.atom, t, known)))
        found.tested = loop.tested
        return found

    def _number(self, operand: Atom, shape: tuple[int, ...]) -> Term:
        if shape or operand.shape:
            raise Unreadable
        return term_of(operand, self.writer, self.known)

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
        last = t.number(rows.rounds - 1) if rows.rounds else t.plus(t.symbol(self.count), t.number(-1))
        index = self.bound if free else self.index
        return t.call(SERIES, self.at(term, 0, index), t.symbol(index), ZERO, last)

    def with_series(self, term: Term, free: bool = False) -> Term:
        """A term with sums in the places of the symbols for them, but for those that have lines of their own."""

        def change(part: Term) -> Term | None:
            return self.summed(*self.series[part], free) if part in self.series and part not in self.lines else None

        return self.writer.rewritten(term, change)

    def at(self, term: Term, shift: int, index: str = "") -> Term:
        """A term of a round as one of so many rounds before, by another index."""
        index = index or self.index
        head, t = f"[{self.index}", self.writer

        def moved(part: Term) -> Term | None:
            if part.kind != "symbol":
                return None
            if part.parts[0] == self.index:
                return t.plus(t.symbol(index), t.number(-shift))
            array, found, rest = part.parts[0].partition(head)
            return t.symbol(cell_beside(array, int(rest[:-1] or 0) - shift, index), part.is_complex) if found else None

        return t.rewritten(term, moved) if shift or index != self.index else term

    def within(self, term: Term, low: int, high: int, size: int) -> Term:
        """A term where the index is from one place to another of `size`, else zero, with Iverson's bracket."""
        t, k = self.writer, self.writer.symbol(self.index)
        bounds = ("eq", low, low == high), ("ge", low, 0 < low < high), ("le", high, low < high < size - 1)
        brackets = (t.brace([(t.call(op, k, t.number(place)), ONE)], ZERO) for op, place, needed in bounds if needed)
        return t.mul([term, *brackets])


def looped_formula(graph: Graph, tops: list[str], derivation: Derivation, rules: Any, notes: tuple[str, ...]) -> Formula | None:
    """The reading form of a function with loops, and of its derivative; None where it is not read here."""
    if derivation.kind not in SLOPES or not has_loops(graph.bindings):
        return None
    try:
        reader = Reader(graph, rules)
        return _formula(reader, tops, derivation, notes)
    except Unreadable:
        return None


def _formula(reader: Reader, tops: list[str], derivation: Derivation, notes: tuple[str, ...]) -> Formula:
    slopes = SLOPES[derivation.kind]
    results = list(zip(map(sp.Symbol, tops), reader.results, strict=True))
    rows: list[Line] = []
    where = [*_recurrences(reader)]
    if False in slopes:
        rows += [Line(left, reader.with_series(term)) for left, term in results]
    if True in slopes:
        if len(results) > 1:
            raise Unreadable
        single = len(reader.inputs) == 1 and reader.inputs[0] is not None
        (left, term), wrt = results[0], derivation.wrt
        if len(wrt) == 1 and reader.inputs[wrt[0]] is not None:
            by = reader.inputs[wrt[0]]
            found, more = _tangent(reader, term, by)
            rows.append(Line((TotalSlope if single else Slope)(left, sp.Symbol(by.parts[0])), found))
        else:
            multipliers = Multipliers(reader, term)
            more = [*multipliers.steps()]
            for place in wrt:
                rows.append(multipliers.row(left, place))
        where += more
    where.sort(key=lambda row: row.at is not None)
    return _composed(reader, rows, where, (*notes, *_rounds(reader)))


def _recurrences(reader: Reader) -> Iterator[Line]:
    for rows in reader.loops:
        for symbol, term in rows.sums:
            if symbol in reader.lines:
                yield Line(sp.Symbol(symbol.parts[0]), reader.summed(term, rows))
        for value in rows.carried:
            yield Line(sp.Symbol(f"{value.name}[0]"), reader.with_series(value.first))
            yield Line(sp.Symbol(cell_beside(value.name, 1, reader.index)), value.next, _range(reader, rows))


def _range(reader: Reader, rows: Rows) -> tuple[str, Any, Any]:
    return reader.index, 0, rows.rounds - 1 if rows.rounds else sp.Symbol(reader.count) - 1


def _rounds(reader: Reader) -> Iterator[str]:
    """For loops with a condition how many rounds there are."""
    if any(rows.tested for rows in reader.loops):
        yield f"{reader.count} is the number of rounds"


def _tangent(reader: Reader, result: Term, by: Term) -> tuple[Term, list[Line]]:
    """The derivative of a result by a number, and those of carried values."""
    t, where = reader.writer, []
    ends: list[tuple[Term, Term]] = []  # symbols, with what they change by
    for rows in reader.loops:
        moving = _moving(reader, rows, [v for v in rows.carried if _total(reader, v.first, by, ends) is not ZERO], by, ends)
        own = [*ends, *((v.now, t.primed(v.now)) for v in moving)]
        for v in moving:
            where.append(Line(sp.Symbol(f"{v.name}'[0]"), _total(reader, v.first, by, ends)))
            next_ = sp.Symbol(cell_beside(f"{v.name}'", 1, reader.index))
            where.append(Line(next_, _total(reader, v.next, by, own), _range(reader, rows)))
        ends += [(symbol, reader.summed(_total(reader, term, by, own), rows, True)) for symbol, term in rows.sums]
        ends += [(v.end, t.primed(v.end)) for v in moving]
    return reader.with_series(_total(reader, result, by, ends)), where


def _total(reader: Reader, term: Term, by: Term, through: list[tuple[Term, Term]]) -> Term:
    """The derivative of a term by a symbol, and through others."""
    return reader.slopes.along(term, [(by, ONE), *through])


def _moving(reader: Reader, rows: Rows, first: list[Carried], by: Term, ends: list[tuple[Term, Term]]) -> list[Carried]:
    """The carried values that depend on a symbol, some by what they begin with."""
    found = {v.name for v in first} | {v.name for v in rows.carried if _total(reader, v.next, by, ends) is not ZERO}
    return _reached(found, rows.carried, lambda u, v: reader.slopes.of(u.next, v.now) is not ZERO)


def _reached(found: set[str], carried: list[Carried], goes: Callable[[Carried, Carried], bool]) -> list[Carried]:
    """The carried values among some, and what goes from others into these."""
    while more := {u.name for u in carried for v in carried if v.name in found and goes(u, v)} - found:
        found |= more
    return [v for v in carried if v.name in found]


class Multipliers:
    """The derivatives of a result by the values of each round: those of carried values from the last round on."""

    def __init__(self, reader: Reader, result: Term) -> None:
        self.reader = reader
        self.read: list[tuple[Rows, list[Carried], dict[Term, Term]]] = []
        uses = [(result, ONE)]
        for rows in reversed(reader.loops):
            given = *(symbol for symbol, _ in rows.sums), *(v.end for v in rows.carried)
            weights = {symbol: self._whole(symbol, uses) for symbol in given}
            carried = self._carried(rows, weights)
            self.read.append((rows, carried, weights))
            uses += [(v.first, self._bar(v, "0")) for v in carried]
        self.uses = uses

    def _whole(self, symbol: Term, uses: list[tuple[Term, Term]], free: bool = True) -> Term:
        """The derivative by a symbol of no round, through these terms and all rounds of the loops that were read."""
        rounds = (self.reader.summed(self._round(*read, symbol), read[0], free) for read in self.read)
        return self.reader.writer.plus(self.reader.slopes.back(symbol, uses), *rounds)

    def _bar(self, value: Carried, place: str) -> Term:
        return self.reader.writer.symbol(f"{value.name}_bar[{place}]")

    def _carried(self, rows: Rows, weights: dict[Term, Term]) -> list[Carried]:
        """The carried values on which the result depends."""
        slope = self.reader.slopes.of
        summed = [term for symbol, term in rows.sums if weights[symbol] is not ZERO]
        found = {v.name for v in rows.carried if weights[v.end] is not ZERO or any(slope(s, v.now) is not ZERO for s in summed)}
        return _reached(found, rows.carried, lambda u, v: slope(v.next, u.now) is not ZERO)

    def _round(self, rows: Rows, carried: list[Carried], weights: dict[Term, Term], symbol: Term) -> Term:
        """The derivative by a symbol of a round, through that round."""
        after = cell_beside("", 1, self.reader.index)[1:-1]
        uses = [(v.next, self._bar(v, after)) for v in carried]
        return self.reader.slopes.back(symbol, uses + [(term, weights[s]) for s, term in rows.sums])

    def steps(self) -> Iterator[Line]:
        """The multipliers of carried values: the last one, and each from the one of the round after."""
        reader = self.reader
        for rows, carried, weights in self.read:
            for v in carried:
                last = v.end.parts[0].partition("[")[2][:-1]
                yield Line(sp.Symbol(f"{v.name}_bar[{last}]"), reader.with_series(weights[v.end]))
                found = self._round(rows, carried, weights, v.now)
                yield Line(sp.Symbol(f"{v.name}_bar[{reader.index}]"), reader.with_series(found, True), _range(reader, rows))

    def row(self, left: Any, place: int) -> Line:
        """The derivative by an input."""
        reader = self.reader
        t, name, by = reader.writer, reader.names[place], reader.inputs[place]
        if by is not None:
            return Line(Slope(left, sp.Symbol(name)), reader.with_series(self._whole(by, self.uses, False), True))
        size, parts = reader.graph.inputs[place].shape[0], []
        for rows, carried, weights in self.read:
            for cell in rows.cells:
                if cell.array == place:
                    found = self._round(rows, carried, weights, cell.symbol)
                    moved = reader.at(found, cell.shift)
                    parts.append(reader.within(moved, cell.shift, cell.shift + rows.rounds - 1, size))
                    if not rows.rounds:
                        raise Unreadable
        for symbol, (array, number) in reader.cells.items():
            if array == place:
                parts.append(reader.within(self._whole(symbol, self.uses), number, number, size))
        term = reader.with_series(t.plus(*parts), True)
        return Line(Slope(left, sp.Symbol(cell_beside(name, 0, reader.index))), term, (reader.index, 0, size - 1))


def _composed(reader: Reader, rows: list[Line], where: list[Line], notes: tuple[str, ...]) -> Formula:
    """Rows and recurrences as equations, with their shared pieces."""
    taken = [*reader.writer.bits, *(str(row.left) for row in rows)]
    if reader.slopes.has_kinks:
        notes = (*notes, "away from kinks")
    return Formula(*composed_lines(reader.writer, rows, where, numbered_names(reader.own), taken), notes)

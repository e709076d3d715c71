"""Recurrences for readers: a function with loops, kept or unrolled, and what the chain rule makes of it.

Guarantees the values of the function and of its derivative by the multipliers of Lagrange: those of a carried value go the
rounds backwards; of a function of one number its derivative goes with it. None stands for other graphs and other kinds of
derivatives.

Source of the method: Bryson and Ho, Applied Optimal Control, 1975, section 2.2.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import sympy as sp

from symdiff.inspection.reading.equations import Slope, TotalSlope
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.lines import Line, composed_lines, result_rows
from symdiff.inspection.reading.naming import numbered_names
from symdiff.inspection.reading.patterns import cell_beside
from symdiff.inspection.reading.recurring import Carried, Kept, Reader, Rows, Unreadable, Unrolled
from symdiff.inspection.reading.terms import ONE, ZERO, Term
from symdiff.inspection.reading.written import cell_name
from symdiff.ir.graph import Derivation, Graph
from symdiff.ir.node import has_loops

SLOPES = {"": (False,), "grad": (True,), "jacobian": (True,), "derivative": (True,), "value_and_grad": (False, True)}


def looped_formula(graph: Graph, tops: list[str], derivation: Derivation, rules: Any, notes: tuple[str, ...]) -> Formula | None:
    """The reading form of a function with loops, and of its derivative; None where it is not read here."""
    if derivation.kind not in SLOPES or derivation.order > 1:
        return None
    try:
        return _formula((Kept if has_loops(graph.bindings) else Unrolled)(graph, rules), tops, derivation, notes)
    except Unreadable:
        return None


def _formula(reader: Reader, tops: list[str], derivation: Derivation, notes: tuple[str, ...]) -> Formula:
    slopes = SLOPES[derivation.kind]
    results = [*result_rows(reader.graph, tops, reader.results)]
    rows: list[Line] = []
    where = sorted(_recurrences(reader), key=lambda row: row.at is not None)
    if False in slopes:
        rows += [Line(left, reader.with_series(term)) for left, term, _ in results]
    if True in slopes:
        wrt, by = derivation.wrt, reader.inputs[derivation.wrt[0]]
        if len(wrt) == 1 and by is not None:
            ends, more = _tangents(reader, by)
            where = sorted([*where, *more], key=lambda row: row.at is not None)  # both go forwards
            slope, below = Slope if len(reader.inputs) > 1 else TotalSlope, sp.Symbol(by.parts[0])
            rows += [Line(slope(left, below), reader.with_series(_total(reader, term, by, ends))) for left, term, _ in results]
        elif len(results) == 1:
            multipliers = Multipliers(reader, results[0].term)
            where += sorted(multipliers.steps(), key=lambda row: row.at is not None)
            rows += [row for place in wrt for row in multipliers.rows(results[0].left, place)]
        else:
            raise Unreadable
    return _composed(reader, rows, where, (*notes, *_rounds(reader)))


def _recurrences(reader: Reader) -> Iterator[Line]:
    for rows in reader.loops:
        for symbol, term in rows.sums:
            if symbol in reader.lines:
                yield Line(sp.Symbol(symbol.parts[0]), reader.summed(term, rows))
        for value in rows.carried:
            yield Line(sp.Symbol(f"{value.name}[{rows.start}]"), reader.with_series(value.first))
            yield Line(sp.Symbol(cell_beside(value.name, 1, reader.index)), value.next, _range(reader, rows))


def _range(reader: Reader, rows: Rows) -> tuple[str, Any, Any]:
    return reader.index, rows.start, rows.stop - 1 if rows.stop else sp.Symbol(reader.count) - 1


def _rounds(reader: Reader) -> Iterator[str]:
    """For loops with a condition how many rounds there are."""
    if not all(rows.stop for rows in reader.loops):
        yield f"{reader.count} is the number of rounds"


def _tangents(reader: Reader, by: Term) -> tuple[list[tuple[Term, Term]], list[Line]]:
    """What loops make, with its derivatives by a number; and the lines of those of carried values."""
    t, where = reader.writer, []
    ends: list[tuple[Term, Term]] = []
    for rows in reader.loops:
        moving = _moving(reader, rows, [v for v in rows.carried if _total(reader, v.first, by, ends) is not ZERO], by, ends)
        own = [*ends, *((v.now, t.primed(v.now)) for v in moving)]
        for v in moving:
            where.append(Line(sp.Symbol(f"{v.name}'[{rows.start}]"), _total(reader, v.first, by, ends)))
            next_ = sp.Symbol(cell_beside(f"{v.name}'", 1, reader.index))
            where.append(Line(next_, _total(reader, v.next, by, own), _range(reader, rows)))
        ends += [(symbol, reader.summed(_total(reader, term, by, own), rows, True)) for symbol, term in rows.sums]
        ends += [(v.end, t.primed(v.end)) for v in moving]
    return ends, where


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
            uses += [(v.first, self._bar(v, str(rows.start))) for v in carried]
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

    def rows(self, left: Any, place: int) -> Iterator[Line]:
        """The derivatives by an input: by an array of which rounds read cells as one line."""
        reader = self.reader
        t, name, shape = reader.writer, reader.names[place], reader.graph.inputs[place].shape
        own = [(*read, cell) for read in self.read for cell in read[0].cells if cell.array == place]
        if not own:
            for k in range(math.prod(shape)):
                cell = t.symbol(cell_name(name, shape, k))
                yield Line(Slope(left, sp.Symbol(cell.parts[0])), reader.with_series(self._whole(cell, self.uses, False), True))
            return
        size, parts = shape[0], []
        for rows, carried, weights, cell in own:
            if not rows.stop:
                raise Unreadable
            moved = reader.at(self._round(rows, carried, weights, cell.symbol), cell.shift)
            parts.append(reader.within(moved, cell.shift + rows.start, cell.shift + rows.stop - 1, size))
        for symbol, (array, number) in reader.cells.items():
            if array == place:
                parts.append(reader.within(self._whole(symbol, self.uses), number, number, size))
        term = reader.with_series(t.plus(*parts), True)
        yield Line(Slope(left, sp.Symbol(cell_beside(name, 0, reader.index))), term, (reader.index, 0, size - 1))


def _composed(reader: Reader, rows: list[Line], where: list[Line], notes: tuple[str, ...]) -> Formula:
    """Rows and recurrences as equations, with their shared pieces."""
    taken = [*reader.writer.bits, *(str(row.left) for row in rows)]
    if reader.slopes.has_kinks:
        notes = (*notes, "away from kinks")
    return Formula(*composed_lines(reader.writer, rows, where, numbered_names(reader.own), taken), notes)

"""Lines over terms as the equations that are printed: arranged, over names of their shared pieces.

Assumes terms of one writer. Guarantees that each piece has its equation, before those that use it.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import sympy as sp

from symdiff.inspection.reading.arranging import Arranger
from symdiff.inspection.reading.composing import Composer
from symdiff.inspection.reading.equations import Equation
from symdiff.inspection.reading.naming import Naming
from symdiff.inspection.reading.terms import Term
from symdiff.inspection.reading.written import Writer, cell_name
from symdiff.ir.graph import Graph

Own = Mapping[Term, tuple[str | None, Fraction]]


class Line(NamedTuple):
    """An equation before it is arranged: its left side, and the term on its right."""

    left: Any
    term: Term
    at: tuple[str, Any, Any] | None = None  # the places of an index for which it stands


def result_rows(graph: Graph, tops: Sequence[str], cells: Sequence[Sequence[Term]], suffix: str = "") -> Iterator[Line]:
    """The cells of the results of a graph with their left sides."""
    for output, top, terms in zip(graph.outputs, tops, cells, strict=True):
        for k, term in enumerate(terms):
            yield Line(sp.Symbol(cell_name(top + suffix, output.shape, k)), term)


def composed_lines(
    writer: Writer,
    rows: Sequence[Line],
    where: Iterable[Line],
    own: Own,
    taken: Iterable[str],
    kept: Collection[Term] = (),
    composer: Any = Composer,
) -> tuple[tuple[Equation, ...], tuple[Equation, ...]]:
    """The equations of rows; and those of lines below them, and of the pieces of all; terms in `kept` are not arranged."""
    arranger, lines = Arranger(writer, kept), [*rows, *where]
    naming = Naming(writer, own, taken)
    terms = naming.named([arranger.arranged(line.term) for line in lines])
    made = composer(writer, naming.constants)
    found = [Equation(line.left, made.expression(term), line.at) for line, term in zip(lines, terms, strict=True)]
    found += (Equation(made.expression(p.symbol), made.expression(p.term)) for p in naming.pieces)
    return tuple(found[: len(rows)]), tuple(found[len(rows) :])

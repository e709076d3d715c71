"""The reading form of graphs: what a textbook would print for a function and its derivatives.

It starts from what the user wrote and the plain chain rule, not from the program that runs: no guards, no shared reciprocals,
exact numbers. Assumes graphs of numbers, or of arrays that are few enough cells. Guarantees that every equation has the values
of the derivative where it is defined, and that a longer derivation is worked out only as far as it is shown.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain, islice
from typing import Any

import sympy as sp

from symdiff.inspection.reading.arrays import array_formula
from symdiff.inspection.reading.equations import ROWS, Slope, TotalSlope
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.lines import Line, composed_lines, result_rows
from symdiff.inspection.reading.looped import looped_formula
from symdiff.inspection.reading.matrices import matrix_formula, names_places
from symdiff.inspection.reading.naming import input_names, numbered_names, own_names
from symdiff.inspection.reading.patterns import Patterns, Placed, cell_beside, placed_cell
from symdiff.inspection.reading.slopes import Slopes
from symdiff.inspection.reading.sources import Sources
from symdiff.inspection.reading.terms import ZERO, Term
from symdiff.inspection.reading.written import Writer, cell_name, read_graph, result_terms
from symdiff.ir.branches import branches_of
from symdiff.ir.graph import Derivation, Graph, derivation_of, written_graph
from symdiff.ir.node import Atom, has_loops
from symdiff.rulebooks.declared import rules_in_force
from symdiff.tracing.unrolling.scalarizing import WHOLE, in_unrolled_regime, settled
from symdiff.vocabulary.extents import Extent
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

EVERY = 10**9  # rows
FEW = 8  # rows up to which each is shown as it is
DERIVED = 4  # orders up to which coefficients of a series are derived by the chain rule
CELLS = 5_000  # operations on cells up to which arrays without words of matrices are read cell by cell
FOLDED = 2_000  # rows up to which patterns are looked for


class Primal:
    """What the user wrote: terms of the cells of inputs and outputs, and his names for values."""

    def __init__(self, graph: Graph, rules: Any) -> None:
        self.graph = graph
        whole = not in_unrolled_regime(graph)
        self.writer = writer = Writer()
        self.names = input_names(graph.inputs)
        known: dict[Atom, Term] = {}
        self.cells: list[list[Term]] = []
        for leaf, name in zip(graph.inputs, self.names, strict=True):
            complex_ = is_complex(leaf.dtype)
            shape = () if whole else leaf.shape
            self.cells.append([writer.symbol(cell_name(name, shape, k), complex_) for k in range(math.prod(shape))])
            if not shape:
                known[leaf.node] = self.cells[-1][0]
        places = {leaf.node: place for place, leaf in enumerate(graph.inputs)}
        for binding in graph.bindings:
            if binding.op == "item":
                known[binding] = self.cells[places[binding.operands[0]]][binding.params]
        read_graph(graph, writer, known)
        self.outputs = result_terms(graph, writer, known)
        self.kept = set(known.values())
        self.slopes = Slopes(writer, rules)
        self.sources = Sources()
        self.tops = output_names(graph, self.sources)
        self._known = known

    def taken(self) -> list[str]:
        """The names that pieces cannot have; a result's own is for the value of the result."""
        return [*self.writer.bits, *(name for name, cells in zip(self.tops, self.outputs, strict=True) if len(cells) > 1)]

    def own_names(self) -> dict[Term, tuple[str, Fraction]]:
        """The values that the user has given a name, by the last operation of each assignment: terms with coefficients."""
        return numbered_names(own_names(self.graph, self._known, self.sources))


def output_names(graph: Graph, sources: Sources) -> list[str]:
    """The names of the results: the variables that are returned, else the function's own name."""
    found = sources.returned_names(graph.origin)
    taken = {leaf.name for leaf in graph.inputs}
    if len(found) == len(graph.outputs) and all(found) and not taken & set(found) and len(set(found)) == len(found):
        return list(found)
    name = graph.name if graph.name.isidentifier() else "f"
    while (base := name.removesuffix("'" * name.count("'"))).endswith(("_grad", "_derivative")):
        name = base.rpartition("_")[0] + "'" * (name.count("'") + 1)
    return [name] if len(graph.outputs) == 1 else [f"{name}_{k}" for k in range(len(graph.outputs))]


def formula_of(graph: Graph, rows: int = ROWS) -> Formula:
    """The reading form of a graph.

    A derivative is derived anew by the plain chain rule. A graph of a kind that has no rows of its own is read as it stands.
    """
    derivation = derivation_of(graph)
    if derivation is None or derivation.kind not in _KINDS or _recurs(derivation):
        derivation = Derivation("", written_graph(graph) if derivation is None else graph, ())
    sources = Sources()
    words = matrix_formula(graph, output_names(derivation.primal, sources), sources)
    if words is not None and not names_places(words):
        return words
    rules, notes = rules_in_force(derivation.rules), notes_of(derivation, sources)
    primal = readable_cells(derivation.primal, derivation.kind in ("", "jvp"))
    with_rounds = derivation.primal if primal is None or has_loops(derivation.primal.bindings) else primal
    looped = looped_formula(with_rounds, output_names(derivation.primal, sources), derivation, rules, notes)
    if looped is not None:
        return looped
    if primal is None:
        return words or array_formula(graph)
    read = Primal(primal, rules)
    found = _KINDS[derivation.kind](read, derivation)
    return composed(read, found, rows, notes, lambda: formula_of(graph, EVERY))


def _recurs(derivation: Derivation) -> bool:
    """Whether coefficients of a series are read as they follow from each other, and not derived by the chain rule."""
    has_arrays = any(leaf.shape for leaf in derivation.primal.inputs)
    return derivation.kind == "taylor" and (derivation.order > DERIVED or has_arrays)


def readable_cells(graph: Graph, arrays: bool) -> Graph | None:
    """The graph as one of numbers, or with `arrays` one that works on whole arrays cell by cell; None for another."""
    if any(isinstance(n, Extent) for atom in (*(i.node for i in graph.inputs), *graph.bindings) for n in atom.shape):
        return None  # of any size
    graph = settled(replace(graph, notes={k: v for k, v in graph.notes.items() if k != WHOLE}), most=CELLS)
    return graph if in_unrolled_regime(graph) or (arrays and is_elementwise(graph)) else None


def is_elementwise(graph: Graph) -> bool:
    """Whether all operations work cell by cell."""
    return all(b.op in OPS and not any(o.op == "const" and o.shape for o in b.operands) for b in graph.bindings)


def composed(primal: Primal, rows: Iterator[Line], limit: int, notes: tuple[str, ...], whole: Callable[[], Formula]) -> Formula:
    """Rows as equations with their shared pieces, the first of them where there are more than `limit`."""
    patterns = Patterns(primal.writer)
    found: list[Line] = []
    zeros: list[Line] = []
    more = 0
    for row in folded_rows(rows, patterns, limit):
        if row.term is ZERO:
            zeros.append(row)
        elif len(found) < limit:
            found.append(row._replace(term=patterns.with_series(row.term, patterns.indices[row.at is not None])))
        else:
            more += 1
    if primal.slopes.has_kinks:
        notes = (*notes, "away from kinks")
    if not found:
        found, zeros = zeros[:limit], zeros[limit:]
    if not found:
        notes = ("there is no number to show", *notes)
    if zeros:
        notes = (f"{len(zeros)} that are zero are left out" if len(zeros) > 1 else "one that is zero is left out", *notes)
    own: dict[Term, tuple[str | None, Fraction]] = {**primal.own_names()}
    for slope in primal.slopes.found(list(own)):
        own.setdefault(slope, (None, Fraction(1)))
    equations, pieces = composed_lines(primal.writer, found, (), own, primal.taken(), primal.kept)
    return Formula(equations, pieces[:limit], notes, more, len(pieces[limit:]), whole=whole)


def folded_rows(rows: Iterator[Line], patterns: Patterns, limit: int) -> Iterator[Line]:
    """Rows, runs of one pattern as one where there are more than a few and not too many to look at."""
    first = [row._replace(term=patterns.with_products(row.term, patterns.indices[1])) for row in islice(rows, FOLDED + 1)]
    if not FEW < len(first) <= FOLDED:
        yield from chain(first, rows)
        return
    for found in patterns.runs(first, _placed_row, lambda row: row.term):
        if isinstance(found, Line):
            yield found
        else:
            start, end, term = found
            array, place = _placed_row(start)  # type: ignore[misc]
            left = start.left.subs(start.left.below[-1], sp.Symbol(cell_beside(array, 0, patterns.indices[0])))
            yield Line(left, term, (patterns.indices[0], place, _placed_row(end).place))  # type: ignore[union-attr]


def _placed_row(row: Line) -> Placed | None:
    """The cell by which a row is derived, where it is by one."""
    below = row.left.below if isinstance(row.left, Slope) else ()
    return placed_cell(below[0].name) if len(below) == 1 and below[0].is_Symbol else None


def notes_of(derivation: Derivation, sources: Sources) -> tuple[str, ...]:
    """What else must be known: the path that was taken."""
    branches = branches_of(derivation.primal)
    if branches is None or not branches.guarded:
        return ()
    at = ", ".join(f"{name} = {value:g}" for name, value in derivation.at)
    return (f"on the path taken{f' at {at}' if at else ''}{_rounds(branches, sources)}",)


def _rounds(branches: Any, sources: Sources) -> str:
    if branches.conditions is None:
        return ""
    compared = [b.origin for b in branches.conditions.bindings if b.op in operations("compares")]
    loops = [origin for origin in compared if sources.loop_line(origin) is not None]
    if loops and len(set(loops)) == 1:
        rounds = len(loops) - 1
        return f" ({rounds} round{'s' if rounds != 1 else ''})"
    return f" ({branches.paths} conditions)" if branches.paths > 1 else ""


# -- the rows of each kind of derivative


def _tops(primal: Primal, suffix: str = "", results: Any = None) -> Iterator[Line]:
    """The cells of the results, or of others like them, with their left sides."""
    return result_rows(primal.graph, primal.tops, results or primal.outputs, suffix)


def _symbols(primal: Primal, derivation: Derivation) -> list[Term]:
    return [cell for place in derivation.wrt for cell in primal.cells[place]]


def _slope(primal: Primal, top: Any, *below: Term) -> Any:
    single = len(primal.cells) == 1 and len(primal.cells[0]) == 1 and not primal.graph.inputs[0].shape
    return (TotalSlope if single else Slope)(top, *(sp.Symbol(b.parts[0]) for b in below))


def _value_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    return _tops(primal)


def _slope_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    for left, term, _ in _tops(primal):
        for symbol in _symbols(primal, derivation):
            slope = term
            for _ in range(derivation.order):
                slope = primal.slopes.of(slope, symbol)
            yield Line(_slope(primal, left, *[symbol] * derivation.order) if derivation.order else left, slope)


def _hessian_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    symbols = _symbols(primal, derivation)
    for left, term, _ in _tops(primal):
        for k, first in enumerate(symbols):
            slope = primal.slopes.of(term, first)
            for second in symbols[k:]:
                yield Line(_slope(primal, left, first, second), primal.slopes.of(slope, second))


def _moved(primal: Primal, derivation: Derivation, suffix: str) -> list[tuple[Term, Term]]:
    """Each cell of the differentiated inputs with the cell of a direction."""
    found = []
    for place in derivation.wrt:
        name, leaf = primal.names[place], primal.graph.inputs[place]
        for k, cell in enumerate(primal.cells[place]):
            found.append((cell, primal.writer.symbol(cell_name(name + suffix, leaf.shape, k), cell.is_complex)))
    return found


def _jvp_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    yield from _value_rows(primal, derivation)
    moved = _moved(primal, derivation, "_dot")
    for left, term, _ in _tops(primal, "_dot"):
        yield Line(left, primal.slopes.along(term, moved))


def _taylor_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    moved = _moved(primal, derivation, "_dot")
    terms = list(primal.outputs)
    for order in range(derivation.order + 1):
        if order:
            share = Fraction(1, order)
            terms = [[primal.writer.scaled(primal.slopes.along(term, moved), share) for term in cells] for cells in terms]
        yield from _tops(primal, f"_{order}", terms)


def _vjp_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    yield from _value_rows(primal, derivation)
    bars = [(term, primal.writer.symbol(left.name, term.is_complex)) for left, term, _ in _tops(primal, "_bar")]
    for cell, bar in _moved(primal, derivation, "_bar"):
        yield Line(sp.Symbol(bar.parts[0]), primal.slopes.back(cell, bars))


def _hvp_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    moved = _moved(primal, derivation, "_dot")
    for _, term, _ in _tops(primal):
        for place in derivation.wrt:
            name = "Hv" if len(derivation.wrt) == 1 else f"Hv_{primal.names[place]}"
            for k, cell in enumerate(primal.cells[place]):
                left = sp.Symbol(cell_name(name, primal.graph.inputs[place].shape, k))
                yield Line(left, primal.slopes.along(primal.slopes.of(term, cell), moved))


def _wirtinger_rows(primal: Primal, derivation: Derivation) -> Iterator[Line]:
    for conjugate in (False, True):
        for left, term, _ in _tops(primal):
            for symbol in _symbols(primal, derivation):
                by = sp.Symbol(symbol.parts[0])
                found = primal.slopes.of(term, symbol, conjugate)
                below = sp.conjugate(by, evaluate=False) if conjugate else by
                yield Line(Slope(left, below), found)


_KINDS: dict[str, Callable[[Primal, Derivation], Iterator[Line]]] = {
    "": _value_rows, "grad": _slope_rows, "jacobian": _slope_rows,
    "value_and_grad": lambda primal, derivation: chain(_value_rows(primal, derivation), _slope_rows(primal, derivation)),
    "derivative": _slope_rows, "hessian": _hessian_rows, "jvp": _jvp_rows, "vjp": _vjp_rows, "hvp": _hvp_rows,
    "wirtinger": _wirtinger_rows, "taylor": _taylor_rows,
}  # fmt: skip

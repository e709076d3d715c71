"""Formulas of whole arrays as they are printed: vectors and matrices, their products and functions, indices where need be.

Assumes a graph whose inputs are used as whole arrays. Guarantees the words of `graph.expr`, whatever the size of the arrays:
only numbers of cells, and constant arrays, have names here. A long piece that stands twice gets a name, the user's where he
gave it one.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.tensor.array.array_comprehension import ArrayComprehension

from symdiff.inspection.matrix_expressions import array_graph
from symdiff.inspection.matrix_terms import Wordless
from symdiff.inspection.matrix_values import Values
from symdiff.inspection.matrix_words import Words
from symdiff.inspection.reading.equations import Equation, Nabla, Slope
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.lines import Line, Own, composed_lines
from symdiff.inspection.reading.matrix_heads import Bracketed, CellOf, Softmax, SumOver
from symdiff.inspection.reading.naming import input_names
from symdiff.inspection.reading.sources import Sources, assigned_values
from symdiff.inspection.reading.worded import MatrixComposer, MatrixWriter, Worded
from symdiff.ir.graph import Graph, derivation_of, written_graph

WIDE = 3_000  # printed width of a formula, beyond which the program is shorter
SMALL = 16  # cells of a constant array that are shown


def matrix_formula(graph: Graph, tops: list[str], sources: Sources) -> Formula | None:
    """The reading form of a graph over whole arrays; None where there is none, or where it is too long."""
    whole = array_graph(graph)
    if whole is None:
        return None
    derivation = derivation_of(graph)
    written = written_graph(graph) if derivation is None else derivation.primal
    writer = MatrixWriter()
    try:
        inputs = input_names(whole.inputs)
        values = Values(whole, inputs, written)
        writer.counts = values.counts
        for name in inputs:
            writer.symbol(name)
        taken = {*inputs, *values.arrays}
        words = Words(values.algebra, taken, {}, values.extent, lambda what: f" {what.serial}")
        worded = Worded(writer, words)
        lines = [_line(worded, value, left) for value, left in zip(values.outputs, _lefts(graph, tops), strict=True)]
    except Wordless:
        return None
    own = _own_names(written, values, sources, worded)
    turned = {writer.turned_inside(t): writer.turned(t) for t in own if t.kind == "sum" and writer.is_array(t)}
    lines = [line._replace(term=writer.rewritten(line.term, turned.get)) for line in lines]
    shown = [*taken, *values.counts, *(f"{name}[]" for name in writer.arrays)]
    equations, pieces = composed_lines(writer, lines, (), own, shown, set(own), MatrixComposer)
    rights = [e.right for e in (*equations, *pieces)]
    if sum(1 for right in rights for _ in sp.preorder_traversal(right)) > WIDE:
        return None
    used = {s.name.partition("[")[0] for right in rights for s in right.free_symbols}
    where = [*pieces, *_definitions(rights)]
    where += [Equation(sp.Symbol(n), sp.Integer(count)) for n, count in values.counts.items() if n in used]
    notes = list(values.notes)
    for name, array in values.arrays.items():
        if name in used and array.size <= SMALL:
            where.append(Equation(sp.Symbol(name), sp.ImmutableDenseMatrix(array.reshape(len(array), -1).tolist())))
        elif name in used:
            notes.append(f"{name} is an array of constants of shape {array.shape}")
    return Formula(equations, tuple(where), tuple(notes))


def names_places(formula: Formula) -> bool:
    """Whether it says of an index that it is a certain number, so that it has no pattern of its own."""
    brackets = {b for e in (*formula.equations, *formula.where) for b in e.right.atoms(Bracketed)}
    return any(s.is_Integer for b in brackets for relation in b.atoms(sp.Eq, sp.Ne) for s in relation.args)


def _lefts(graph: Graph, tops: list[str]) -> list[Any]:
    """The left sides: what is derived, and by which array."""
    derivation = derivation_of(graph)
    results = [sp.Symbol(top) for top in tops]
    if derivation is None:
        return results
    inputs = derivation.primal.inputs
    names = input_names(inputs)
    below = [sp.Symbol(names[place]) for place in derivation.wrt]
    kind = derivation.kind
    if kind in ("grad", "value_and_grad"):
        slopes = [(Nabla if inputs[k].shape else Slope)(results[0], b) for k, b in zip(derivation.wrt, below, strict=True)]
        return results * (kind == "value_and_grad") + slopes
    if kind == "jacobian":
        return [Slope(top, b) for top in results for b in below]
    if kind == "hessian":
        return [Slope(results[0], a, b) for a in below for b in below]
    if kind == "jvp":
        return results + [sp.Symbol(f"{top}_dot") for top in tops]
    if kind == "vjp":
        return results + [sp.Symbol(f"{b.name}_bar") for b in below]
    return [sp.Symbol(f"H v[{b.name}]") for b in below]


def _line(worded: Worded, value: Any, left: Any) -> Line:
    """A line of a value; of one over indices both sides have them."""
    found = worded.words.of(value)
    if isinstance(found, sp.FunctionMatrix):
        indices, cell = list(found.lamda.variables), found.lamda.expr
    elif isinstance(found, ArrayComprehension):
        indices, cell = list(found.variables), found.function
    else:
        return Line(left, worded.whole(found))
    shape = [n for n in value.shape if n != 1]
    at = ", ".join(str(i) for i, n in zip(indices, found.shape, strict=True) if n != 1)
    if isinstance(left, Nabla):
        left = Slope(left.args[0], sp.Symbol(f"{left.args[1].name}[{at}]"))
    elif isinstance(left, Slope):
        below = [sp.Symbol(f"{b.name}[{i}]") for b, i in zip(left.below[-len(indices) :], indices, strict=False)]
        left = Slope(left.top, *below) if len(left.below) == len(shape) else left
    else:
        left = sp.Symbol(f"{left.name}[{at}]")
    return Line(left, worded.term(cell))


def _own_names(graph: Graph, values: Values, sources: Sources, worded: Worded) -> Own:
    """The user's names of values, by their terms without a coefficient, which stands with the name."""
    found: dict[Any, tuple[str | None, Fraction]] = {}
    for assigned in assigned_values(graph, sources, values.known).values():
        for name, bindings in assigned.items():
            if len(bindings) != 1:
                continue
            try:
                term = worded.term(worded.words.word(values.known[bindings[0]]))
            except Wordless:
                continue
            term, times = term.multiple
            if term.kind not in ("symbol", "number"):
                found.setdefault(term, (name, times))
    return found


def _definitions(rows: list[Any]) -> Iterator[Equation]:
    """What softmax is, where it stands; of a matrix, that its rows are meant."""
    taken = {s.name.partition("[")[0] for row in rows for s in row.free_symbols}
    found = sorted(
        {part.args for row in rows for part in row.atoms(Softmax)}, key=lambda args: (not args[0].is_Symbol, str(args))
    )
    for kind, letters, indices in ((0, "zy", "i"), (1, "ZY", "ij")):
        z = next((z for z, rows_ in found if rows_ == kind), None)
        if z is not None:
            z = z if z.is_Symbol else sp.Symbol(next(n for n in (*letters, "z_1") if n not in taken), commutative=False)
            own = [n for n in "ijklm" if n != z.name][: len(indices) + 1]
            cells = [sp.exp(sp.Symbol(f"{z.name}[{', '.join(at)}]"), evaluate=False) for at in (own[:-1], [*own[:-2], own[-1]])]
            total = sp.Pow(SumOver(cells[1], sp.Symbol(own[-1])), -1, evaluate=False)
            yield Equation(CellOf(Softmax(z, kind), *map(sp.Symbol, own[:-1])), sp.Mul(cells[0], total, evaluate=False))

"""Formulas of whole arrays as they are printed: vectors and matrices, their products and functions, indices where need be.

Assumes a graph whose inputs are used as whole arrays. Guarantees the words of `graph.expr`, whatever the size of the arrays:
only numbers of cells, and constant arrays, have names here. A long piece that stands twice gets a name, the user's where he
gave it one.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import sympy as sp
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.diagonal import DiagMatrix, DiagonalOf
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.matrices.expressions.slice import MatrixSlice
from sympy.tensor.array.array_comprehension import ArrayComprehension

from symdiff.inspection.matrix_expressions import array_graph
from symdiff.inspection.matrix_terms import What, Wordless
from symdiff.inspection.matrix_values import Values
from symdiff.inspection.matrix_words import Words, sum_as_it_stands
from symdiff.inspection.reading.composing import number_expression
from symdiff.inspection.reading.equations import Equation, Nabla, Slope
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.matrix_heads import (
    BOTH,
    INVERSE,
    TRANSPOSED,
    Bracketed,
    CellOf,
    CellPower,
    CellQuotient,
    Cellwise,
    Grouped,
    Marked,
    Norm,
    Scalar,
    Shown,
    Softmax,
    SumOver,
    Unit,
)
from symdiff.inspection.reading.naming import Names, input_names
from symdiff.inspection.reading.sources import Sources, assigned_values
from symdiff.ir.graph import Graph, derivation_of, written_graph

WIDE = 3_000  # parts of a formula, beyond which the program is shorter
LONG = 6  # parts of a piece that is named where it stands twice
OWN = 2  # the same where the user has named it
SMALL = 16  # cells of a constant array that are shown
_ONES = Unit()


def matrix_formula(graph: Graph, tops: list[str], sources: Sources) -> Formula | None:
    """The reading form of a graph over whole arrays; None where there is none, or where it is too long."""
    whole = array_graph(graph)
    if whole is None:
        return None
    derivation = derivation_of(graph)
    written = written_graph(graph) if derivation is None else derivation.primal
    try:
        inputs = input_names(whole.inputs)
        values = Values(whole, inputs, written)
        own = _own_names(written, values, sources)
        names = Names({*inputs, *values.arrays, *values.counts})
        taken = {*inputs, *values.arrays}
        words = Words(values.algebra, taken, {}, values.count, False, lambda what: names.next(own.get(what) or _letter(what)))
        rows = [_row(words, value, left) for value, left in zip(values.outputs, _lefts(graph, tops), strict=True)]
    except Wordless:
        return None
    pieces = [Equation(shown_words(symbol), shown_words(word)) for symbol, word in words.pieces]
    if sum(_size(right) for right in [right for _, right in rows] + [e.right for e in pieces]) > WIDE:
        return None
    named = _Pieces(own, words, names, pieces)
    rights = named.over([right for _, right in rows])
    used = {s.name.partition("[")[0] for right in rights + [e.right for e in named.where] for s in right.free_symbols}
    where = [*named.where, *_definitions(rights + [e.right for e in named.where])]
    where += [Equation(sp.Symbol(n), sp.Integer(count)) for n, count in values.counts.items() if n in used]
    notes = list(values.notes)
    for name, array in values.arrays.items():
        if name in used and array.size <= SMALL:
            where.append(Equation(sp.Symbol(name), sp.ImmutableDenseMatrix(array.reshape(len(array), -1).tolist())))
        elif name in used:
            notes.append(f"{name} is an array of constants of shape {array.shape}")
    equations = tuple(Equation(left, right) for (left, _), right in zip(rows, rights, strict=True))
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


def _row(words: Words, value: Any, left: Any) -> tuple[Any, Any]:
    """The two sides of an equation; of one over indices both sides have them."""
    found = words.of(value)
    if isinstance(found, sp.FunctionMatrix):
        indices, cell = list(found.lamda.variables), found.lamda.expr
    elif isinstance(found, ArrayComprehension):
        indices, cell = list(found.variables), found.function
    else:
        return left, shown_words(found)
    shape = [n for n in value.shape if n != 1]
    at = ", ".join(str(i) for i, n in zip(indices, found.shape, strict=True) if n != 1)
    if isinstance(left, Nabla):
        left = Slope(left.args[0], sp.Symbol(f"{left.args[1].name}[{at}]"))
    elif isinstance(left, Slope):
        below = [sp.Symbol(f"{b.name}[{i}]") for b, i in zip(left.below[-len(indices) :], indices, strict=False)]
        left = Slope(left.top, *below) if len(left.below) == len(shape) else left
    else:
        left = sp.Symbol(f"{left.name}[{at}]")
    return left, shown_words(cell)


# -- words as they are printed


def shown_words(expr: Any) -> Any:
    """An expression of matrices over the heads that are printed."""
    for kind, show in _SHOWN.items():
        if isinstance(expr, kind):
            return show(expr)
    if not expr.args:
        return _number(expr) if expr.is_Rational else expr
    return _rebuilt(expr, [shown_words(a) for a in expr.args])


def _number(value: Any) -> Any:
    """A rational number as it is printed."""
    return number_expression(Fraction(int(value.p), int(value.q)))


def _rebuilt(expr: Any, args: list[Any]) -> Any:
    """An expression with other parts, as it stands."""
    if isinstance(expr, (sp.Add, sp.Mul, sp.Pow, sp.Function)):
        return expr.func(*args, evaluate=False)
    if isinstance(expr, Grouped) and args[0].is_Symbol:
        return args[0]
    if isinstance(expr, Shown):
        return type(expr)(*args)
    if isinstance(expr, sp.Sum):
        return sum_as_it_stands(*args)
    if isinstance(expr, (sp.Piecewise, sp.Tuple, sp.Max, sp.Min)):  # whose constructors compare
        made = sp.Basic.__new__(type(expr), *args)
        if isinstance(expr, (sp.Max, sp.Min)):
            made.is_commutative = all(a.is_commutative for a in args)
        return made
    return expr.func(*args, evaluate=False) if isinstance(expr, (sp.Rel, sp.And, sp.Or, sp.Not)) else expr.func(*args)


def _size(expr: Any) -> int:
    return sum(1 for _ in sp.preorder_traversal(expr))


def _element(expr: Any) -> Any:
    array, row, column = expr.args
    if not isinstance(array, sp.MatrixSymbol):
        return CellOf(Grouped(shown_words(array)), row, column)
    at = str(row) if array.shape[1] == 1 else f"{row}, {column}"
    return sp.Symbol(f"{array.name}[{at}]")


def _indexed(expr: Any) -> Any:
    return sp.Symbol(f"{expr.base.label}[{', '.join(map(str, expr.indices))}]")


def _sum(expr: Any) -> Any:
    """The terms, one that is added first, a number of all before them; a matrix of equal cells is the number in them."""
    common, rest = _taken_out(expr)
    if common is not None:
        return _times([shown_words(common), _sum(rest)])
    terms = []
    for term in expr.args:
        numbers = [a for a in term.args if not isinstance(a, sp.MatrixExpr)] if isinstance(term, sp.MatMul) else []
        matrices = [a for a in term.args if isinstance(a, sp.MatrixExpr)] if isinstance(term, sp.MatMul) else [term]
        constant = (
            len(matrices) == 1 and isinstance(matrices[0], sp.OneMatrix) and not any(n.has(sp.MatrixExpr) for n in numbers)
        )
        terms.append(_times([shown_words(n) for n in numbers]) if constant else shown_words(term))
    first = next((k for k, t in enumerate(terms) if not _is_negative(t)), 0)
    return sp.Add(terms[first], *terms[:first], *terms[first + 1 :], evaluate=False)


def _taken_out(expr: Any) -> tuple[Any, Any]:
    """The number that all terms of a sum have, but for their signs, and the sum without it; None where there is none."""
    split = [term.as_coeff_mmul() if isinstance(term, sp.MatMul) else (sp.S.One, term) for term in expr.args]
    common = split[0][0] if not split[0][0].could_extract_minus_sign() else -split[0][0]
    if common in (1, 0) or common.has(sp.MatrixExpr) or any(c not in (common, -common) for c, _ in split):
        return None, expr
    return common, sp.MatAdd(*(word if c == common else sp.MatMul(-1, word) for c, word in split))


def _is_negative(expr: Any) -> bool:
    head = expr.args[0] if isinstance(expr, sp.Mul) else expr
    return bool(head.is_Number and head.is_negative)


def _times(parts: list[Any]) -> Any:
    """A product: its number first, inverses of numbers last of the numbers' quotient."""
    if len(parts) == 1:
        return parts[0]
    if sum(not p.is_commutative for p in parts) > 1:
        parts = [Grouped(p) if isinstance(p, Cellwise) else p for p in parts]
    numbers = [p for part in parts if isinstance(part, sp.Mul) and not part.is_commutative for p in _leading(part)]
    parts = [*numbers, *(_without(part, len(_leading(part))) for part in parts)] if numbers else parts
    single = sum(not p.is_commutative for p in parts) == 1  # else a product of vectors in it is a number by itself
    flat = [
        p for part in parts for p in (part.args if isinstance(part, sp.Mul) and (part.is_commutative or single) else [part])
    ]
    numbers = sp.Mul(*(sp.Rational(str(p)) if p.is_Float else p for p in flat if p.is_Rational or p.is_Float))
    rest = [p for p in flat if not (p.is_Rational or p.is_Float)]
    below = [p.base if p.exp == -1 else sp.Pow(p.base, -p.exp, evaluate=False) for p in rest if _is_inverse(p)]
    over = [p for p in rest if not _is_inverse(p)]
    numbers = _number(numbers)
    if not below:
        return sp.Mul(*([numbers] if numbers != 1 else []), *over, evaluate=False) if over else numbers
    under = below[0] if len(below) == 1 else sp.Mul(*below, evaluate=False)
    counts = all(b.is_Symbol and b.is_integer for b in below)
    if counts:  # a mean's: 2/n before all others
        return sp.Mul(numbers, sp.Pow(under, -1, evaluate=False), *over, evaluate=False)
    head = [numbers] if numbers != 1 or not over else []
    return sp.Mul(*head, *over, sp.Pow(under, -1, evaluate=False), evaluate=False)


def _leading(part: Any) -> list[Any]:
    """The numbers with which a product of matrices begins."""
    args = part.args if isinstance(part, sp.Mul) and not part.is_commutative else ()
    return list(itertools.takewhile(lambda a: a.is_Rational or _is_inverse(a), args))


def _without(part: Any, count: int) -> Any:
    """A product without its first factors."""
    rest = part.args[count:] if count else (part,)
    return rest[0] if len(rest) == 1 else sp.Mul(*rest, evaluate=False)


def _is_inverse(expr: Any) -> bool:
    return isinstance(expr, sp.Pow) and bool(expr.exp.is_number and expr.exp.is_negative) and expr.is_commutative is not False


def _product(expr: Any) -> Any:
    return _times([shown_words(p) for p in expr.args])


def _cellwise(expr: Any) -> Any:
    over: list[Any] = []
    under: list[Any] = []
    for part in expr.args:
        if isinstance(part, sp.HadamardPower) and part.exp.is_negative:
            under.append(_power(part.base, -part.exp))
        else:
            over.append(shown_words(part))
    return _quotient(over, under)


def _quotient(over: list[Any], under: list[Any]) -> Any:
    over = [p for part in over for p in (part.args if type(part) is Cellwise else [part])]
    top = over[0] if len(over) == 1 else Cellwise(*over) if over else sp.S.One
    bottom = None if not under else under[0] if len(under) == 1 else Cellwise(*under)
    return top if bottom is None else CellQuotient(top, bottom)


def _power(base: Any, power: Any) -> Any:
    word = shown_words(base)
    if power == 1:
        return word
    if power == sp.Rational(1, 2):
        return sp.Pow(word, power, evaluate=False)
    return Cellwise(word, word) if power == 2 else CellPower(word, power)


def _powered(expr: Any) -> Any:
    return _quotient([], [_power(expr.base, -expr.exp)]) if expr.exp.is_negative else _power(expr.base, expr.exp)


def _transposed(expr: Any) -> Any:
    (word,) = expr.args
    if isinstance(word, sp.Inverse):
        return _inverse(word, BOTH)
    if isinstance(word, sp.OneMatrix):
        return Marked(_ONES, TRANSPOSED)
    return Marked(shown_words(word), TRANSPOSED)


def _inverse(expr: Any, mark: int = INVERSE) -> Any:
    """An inverse; of a sum of transposes the inverse of the sum's transpose, as are those of matrices beside it."""
    arg = expr.arg
    terms = [(t.args[0], t.args[1]) if isinstance(t, sp.MatMul) and len(t.args) == 2 else (sp.S.One, t) for t in arg.args]
    turned = [(c, t.arg if isinstance(t, sp.Transpose) else t) for c, t in terms]
    is_turned = all(isinstance(t, (sp.Transpose, sp.Identity)) for _, t in terms) and turned != terms
    if isinstance(arg, sp.MatAdd) and is_turned:
        arg, mark = sp.MatAdd(*(t if c == 1 else sp.MatMul(c, t) for c, t in turned)), BOTH if mark == INVERSE else INVERSE
    return Marked(shown_words(arg), mark)


def _ones(expr: Any) -> Any:
    if expr.shape[1] == 1:
        return _ONES
    return Marked(_ONES, TRANSPOSED) if expr.shape[0] == 1 else sp.Mul(_ONES, Marked(_ONES, TRANSPOSED), evaluate=False)


def _trace(expr: Any) -> Any:
    """The trace; that of a product of a row and a column is the product."""
    word = expr.arg
    if isinstance(word, sp.MatMul) and len(word.args) == 2 and word.args[0] == sp.Transpose(word.args[1]):
        return sp.Pow(Norm(shown_words(word.args[1]), 0 if word.args[1].shape[1] == 1 else 1), 2, evaluate=False)
    return shown_words(word) if word.shape == (1, 1) else sp.Function("tr", commutative=True)(shown_words(word))


def _number_power(expr: Any) -> Any:
    """A power of a number; a root of a square is a norm."""
    base, power = shown_words(expr.base), expr.exp
    if isinstance(base, sp.Pow) and isinstance(base.base, Norm):
        base, power = base.base, base.exp * power
    if not base.is_commutative:  # a product of a row and a column
        base = Scalar(base if abs(power) in (1, sp.Rational(1, 2)) else Grouped(base))
    return base if power == 1 else sp.Pow(base, power if power.is_number else shown_words(power), evaluate=False)


def _applied(expr: Any) -> Any:
    """A function of the cells of a matrix, as it is written of a number."""
    (d,) = expr.function.variables
    inner = shown_words(expr.expr)
    if type(expr.function.expr).__name__ == "softmax":
        return Softmax(inner, 0 if expr.shape[1] == 1 else 1)

    def over(part: Any) -> Any:
        if part == d:
            return inner
        return _rebuilt(part, [over(a) for a in part.args]) if part.has(d) else shown_words(part)

    found = over(expr.function.expr)
    return _brace(found) if isinstance(found, sp.Piecewise) else found


def _unit(expr: Any) -> Any:
    if not isinstance(expr.parent, sp.Identity):
        raise Wordless("a region")
    return Unit(expr.colslice[0])


def _brace(expr: Any) -> Any:
    """A brace; of one case and zero the case, with a bracket."""
    if len(expr.args) == 2 and expr.args[1][0] == 0:
        (value, condition), _ = expr.args
        bracket = Bracketed(_condition(condition))
        shown = shown_words(value)
        return bracket if shown == 1 else sp.Mul(*_sign_first(shown), bracket, evaluate=False)
    rows = [sp.Tuple.__new__(type(row), shown_words(row[0]), _condition(row[1])) for row in expr.args]
    return sp.Basic.__new__(sp.Piecewise, *rows)


def _sign_first(expr: Any) -> list[Any]:
    """The factors of a product; of a sum that begins with a minus, -1 and its negative."""
    if isinstance(expr, sp.Add) and _is_negative(expr.args[0]) and sum(map(_is_negative, expr.args)) > len(expr.args) / 2:
        return [sp.S.NegativeOne, sp.Add(*(_negated(a) for a in expr.args), evaluate=False)]
    return list(expr.args) if isinstance(expr, sp.Mul) else [expr]


def _negated(expr: Any) -> Any:
    if expr.is_Number:
        return -expr
    parts = list(expr.args) if isinstance(expr, sp.Mul) else [expr]
    number = -parts[0] if parts[0].is_Number else sp.S.NegativeOne
    rest = parts[1:] if parts[0].is_Number else parts
    return rest[0] if number == 1 and len(rest) == 1 else sp.Mul(*([number] if number != 1 else []), *rest, evaluate=False)


def _condition(condition: Any) -> Any:
    if condition in (sp.true, sp.false):
        return condition
    if not condition.has(sp.MatrixExpr):
        return condition
    if isinstance(condition, (sp.And, sp.Or, sp.Not)):
        return condition.func(*map(_condition, condition.args), evaluate=False)
    return condition.func(*map(shown_words, condition.args), evaluate=False)


def _total(expr: Any) -> Any:
    """A sum over indices, from 0 to the last."""
    return sum_as_it_stands(shown_words(expr.function), *expr.limits)


def _numbers(expr: Any) -> Any:
    parts = [shown_words(a) for a in expr.args]
    if isinstance(expr, sp.Mul):
        return _times(parts)
    first = next((k for k, t in enumerate(parts) if not _is_negative(t)), 0)
    return sp.Add(parts[first], *parts[:first], *parts[first + 1 :], evaluate=False)


_SHOWN: dict[Any, Any] = {
    sp.MatrixSymbol: lambda expr: sp.Symbol(expr.name, commutative=False),
    MatrixElement: _element, sp.Indexed: _indexed, sp.MatAdd: _sum, sp.MatMul: _product, sp.HadamardProduct: _cellwise,
    sp.HadamardPower: _powered, sp.Transpose: _transposed, sp.Inverse: _inverse,
    sp.OneMatrix: _ones, sp.ZeroMatrix: lambda expr: sp.S.Zero, sp.Identity: lambda expr: sp.Symbol("I", commutative=False),
    MatrixSlice: _unit, DiagMatrix: lambda expr: sp.Function("diag", commutative=False)(shown_words(expr.args[0])),
    DiagonalOf: lambda expr: sp.Function("diag", commutative=False)(shown_words(expr.arg)),
    sp.Trace: _trace, sp.Determinant: lambda expr: sp.Function("det", commutative=True)(shown_words(expr.arg)),
    ElementwiseApplyFunction: _applied, sp.Piecewise: _brace, sp.Sum: _total, sp.Pow: _number_power,
    sp.MatrixBase: lambda expr: sp.ImmutableDenseMatrix(*expr.shape, [shown_words(c) for c in expr.flat()]),
    (sp.Add, sp.Mul): _numbers,
}  # fmt: skip


# -- names of pieces


def _own_names(graph: Graph, values: Values, sources: Sources) -> dict[What, str]:
    """The user's names of what the values of bindings are made of, where that is one factor."""
    found = assigned_values(graph, sources, values.known)
    single = {
        name: values.algebra.one_term(values.known[bindings[0]])
        for assigned in found.values()
        for name, bindings in assigned.items()
        if len(bindings) == 1
    }
    return {term.factors[0].what: name for name, term in single.items() if _is_single(term)}


def _is_single(term: Any) -> bool:
    return len(term.factors) == 1 and not term.bound and term.coefficient == 1 and term.factors[0].power == 1


class _Pieces:
    """Long pieces that stand twice, as equations of their own, after those of `where`."""

    def __init__(self, own: Mapping[What, str], words: Words, names: Names, where: list[Equation]) -> None:
        self.own = {shown: name for what, name in own.items() if (shown := _shown_of(words, what)) is not None}
        self.names = names
        self.where = where

    def over(self, rows: list[Any]) -> list[Any]:
        """The rows over names of their pieces."""
        while True:
            piece = self._next([*rows, *(e.right for e in self.where)])
            if piece is None:
                return self._without_short(rows)
            symbol = sp.Symbol(self.names.next(self.own.get(piece) or _letter(piece)), commutative=piece.is_commutative)
            rows = [_swapped(row, piece, symbol) for row in rows]
            place = next((k for k, e in enumerate(self.where) if e.right.has(piece)), len(self.where))
            self.where = [Equation(e.left, _swapped(e.right, piece, symbol)) for e in self.where]
            self.where.insert(place, Equation(symbol, piece))

    def _without_short(self, rows: list[Any]) -> list[Any]:
        """The rows with pieces in their places that, over the names of others, are short."""
        known = {sp.Symbol(name) for name in self.own.values()}
        while True:
            short = next((e for e in self.where if sp.Symbol(e.left.name) not in known and _size(e.right) < LONG), None)
            if short is None:
                return rows
            rows = [_swapped(row, short.left, short.right) for row in rows]
            self.where = [Equation(e.left, _swapped(e.right, short.left, short.right)) for e in self.where if e is not short]

    def _next(self, rows: list[Any]) -> Any:
        """The longest piece that stands twice."""
        uses = Counter(part for row in rows for part in sp.preorder_traversal(row))
        found = [p for p, count in uses.items() if count > 1 and self._is_piece(p) and p not in rows]
        return max(found, key=lambda p: (_size(p), str(p)), default=None)

    def _is_piece(self, part: Any) -> bool:
        if not isinstance(part, (sp.Add, sp.Function, Cellwise)) or part.atoms(sp.Dummy):
            return False
        if any(s.is_Symbol and s.is_integer for s in part.free_symbols):
            return False
        return _size(part) >= (OWN if part in self.own else LONG)


def _shown_of(words: Words, what: What) -> Any:
    """What is printed for a sum or a call that the formula has; None for others."""
    if what.kind == "call":
        word = words.calls.get(what)
    else:
        word = words.words.get(what.parts[0]) if what.kind == "sum" else None
    return None if word is None or isinstance(word, sp.MatrixSymbol) else shown_words(word)


def _letter(piece: Any) -> str | None:
    """The letter of a function's name, for one of its own: T for tanh of a matrix."""
    if isinstance(piece, What):
        return str(piece.parts[0])[0].upper()
    name = type(piece).__name__ if isinstance(piece, sp.Function) else "diag"
    return None if name in ("diag", "tr", "det") else name[0].upper()


def _swapped(expr: Any, old: Any, new: Any) -> Any:
    if expr == old:
        return new
    if not expr.has(old):
        return expr
    if isinstance(expr, sp.MatrixBase):
        return sp.ImmutableDenseMatrix(*expr.shape, [_swapped(c, old, new) for c in expr.flat()])
    return _rebuilt(expr, [_swapped(a, old, new) for a in expr.args])


def _definitions(rows: list[Any]) -> Iterator[Equation]:
    """What softmax is, where it stands; of a matrix, that its rows are meant."""
    found = {part for row in rows for part in row.atoms(Softmax)}
    for part in sorted(found, key=str):
        z, rows_ = part.args
        names = [n for n in "ijklm" if n not in {str(s) for s in z.free_symbols}]
        own, last = (names[:1], names[1:2]) if rows_ == 0 else (names[:2], [names[0], names[2]])
        cells = [sp.exp(_cell_of(z, at), evaluate=False) for at in (own, last)]
        total = sp.Pow(SumOver(cells[1], sp.Symbol(last[-1])), -1, evaluate=False)
        yield Equation(CellOf(part, *map(sp.Symbol, own)), sp.Mul(cells[0], total, evaluate=False))


def _cell_of(word: Any, at: list[str]) -> Any:
    return sp.Symbol(f"{word.name}[{', '.join(at)}]") if word.is_Symbol else CellOf(word, *map(sp.Symbol, at))

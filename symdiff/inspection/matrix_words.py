"""Values in normal form as SymPy: products, transposes, inverses, traces of matrices; sums over indices where there is no word.

Assumes values of `matrix_values`. A vector is a column; labels are taken away one by one, a summed one between two matrices
by their product, a vector's there by a diagonal matrix. Guarantees expressions of SymPy's own classes with the value's cells: a
scalar's, a matrix's, or a `FunctionMatrix` over indices. Raises `Wordless` for values of three axes and more.
"""

import contextlib
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy as sp
from sympy.matrices.expressions.applyfunc import ElementwiseApplyFunction
from sympy.matrices.expressions.diagonal import DiagMatrix, DiagonalOf
from sympy.matrices.expressions.matexpr import MatrixElement
from sympy.matrices.expressions.slice import MatrixSlice
from sympy.tensor.array.array_comprehension import ArrayComprehension

from symdiff.inspection.expressions import build_sympy
from symdiff.inspection.matrix_terms import BOUND, Algebra, Factor, Place, Shape, Term, Value, What, Wordless, extents_of
from symdiff.vocabulary.traits import CONDITIONS

LONGEST = 2_000  # parts of a value that is written out
FEW, MANY = 3, 12  # cells of which readers see each where the largest is meant, and of which an expression is made
_D = sp.Symbol("d")
_INDEX_NAMES = "ijklpqrstuvwabcdefgh"
DEEP = 12  # layers of a matrix expression, whose shape SymPy asks of each layer twice
Piece = tuple[int, int, Any]  # a matrix between two labels


class CellsOf(sp.MatrixExpr):  # type: ignore[misc]
    """An operation at each cell of arrays, for readers: its name, its shape, words."""

    shape = property(lambda self: self.args[1])


class ExtremeOf(sp.Expr):  # type: ignore[misc]
    """The largest or smallest ("max", "min") of what a formula is for all values of its indices, for readers."""


@dataclass(slots=True)
class Pieces:
    """The factors of a term whose labels have these extents: scalars, vectors by their labels, and matrices between two labels;
    `bound` are the labels over which it is summed."""

    extents: dict[int, int]
    bound: list[int]
    scalars: list[Any] = field(default_factory=list)
    vectors: defaultdict[int, list[Any]] = field(default_factory=lambda: defaultdict(list))
    matrices: list[Piece] = field(default_factory=list)

    def contract(self, label: int) -> None:
        """Sum over a label, or over two where all that has them are matrices between these."""
        touched = [m for m in self.matrices if label in m[:2]]
        self.matrices = [m for m in self.matrices if label not in m[:2]]
        self.bound.remove(label)
        own = self.vectors.pop(label, [])
        others = dict.fromkeys(a + b - label for a, b, _ in touched)
        if len(touched) > len(others) > 1:  # those between the same labels are one, cell by cell
            between = {o: [_oriented(m, label) for m in touched if o in m[:2]] for o in others}
            touched = [(label, o, _hadamard(words)) for o, words in between.items()]
        squared = len(touched) == 1 and isinstance(touched[0][2], sp.HadamardPower) and touched[0][2].exp == 2
        if len(others) == 1 and (len(touched) > 1 or squared):
            (other,) = others
            words = [_oriented((*m[:2], m[2].base) if squared else m, label) for m in touched * (1 + squared)]
            alone = not own and not self.vectors.get(other) and not any(other in m[:2] for m in self.matrices)
            if other in self.bound and alone:
                self.bound.remove(other)
                self.scalars.append(_trace(*words))
                return
            touched = [(label, other, _hadamard(words))]
        if not touched:
            self.scalars.append(_inner(own, self.extents[label]))
        elif len(touched) == 1:
            (other,) = others
            vector = _hadamard(own) if own else sp.OneMatrix(self.extents[label], 1)
            self.vectors[other].append(_product(_oriented(touched[0], other), vector))
        elif len(touched) == 2:
            (a, b), (first, second) = (m[0] + m[1] - label for m in touched), touched
            middle = [DiagMatrix(_hadamard(own))] if own else []
            self.matrices.append((a, b, _product(_oriented(first, a), *middle, _oriented(second, label))))
        else:
            raise Wordless("an index of three matrices")

    def whole(self, shape: Shape) -> Any:
        """What is left as one matrix of this shape."""
        return _product(*self.scalars, *self._matrices(shape)) if shape else _times(self.scalars)

    def _matrices(self, shape: Shape) -> list[Any]:
        """The factors of a matrix."""
        rows, columns = _extents(shape)
        one, two = (
            _hadamard(self.vectors[k]) if self.vectors[k] else sp.OneMatrix(n, 1) for k, n in enumerate((rows, columns))
        )
        left, right = self.vectors[0], self.vectors[1]
        if len(shape) == 1 or (not self.matrices and columns == 1 and left):
            return [one]
        if self.matrices:
            inner = _hadamard([_oriented(m, 0) for m in self.matrices])
            return [*([DiagMatrix(one)] if left else []), inner, *([DiagMatrix(two)] if right else [])]
        if rows == 1 and right:
            return [_transposed(two)]
        return [one, _transposed(two)] if left or right else [sp.OneMatrix(rows, columns)]


class Words:
    """SymPy's expressions of values. `names` are those of inputs, which no index has; `known` symbols are expressions;
    `count` is how a number of cells is written. For readers `named` gives deep calls symbols, of which `pieces` tells the
    expressions; for others no index is out of bounds, not even where a bracket is 0."""

    def __init__(
        self,
        algebra: Algebra,
        names: set[str],
        known: Mapping[str, Any],
        count: Callable[[int], Any] = sp.Integer,
        named: Callable[[What], str] | None = None,
    ) -> None:
        self.algebra = algebra
        self.count = count
        self.named = named
        self.pieces: list[tuple[Any, Any]] = []
        self.calls: dict[What, Any] = {}
        self.words: dict[Any, Any] = {}
        self.symbols: dict[str, Any] = dict(known)
        self._free_names = [n for n in _INDEX_NAMES if n not in names]

    def of(self, value: Value) -> Any:
        """A value as a number, or as a matrix; by its cells where it has no words."""
        if value.size > LONGEST:
            raise Wordless("a long formula")
        try:
            return self.word(value)
        except Wordless:
            return self.by_cells(value)

    # -- words of matrices

    def word(self, value: Value) -> Any:
        """A value as a scalar expression or as a matrix expression."""
        if value not in self.words:
            if len(value.shape) > 2:
                raise Wordless("three axes")
            if value.depth > DEEP and self.named is None:
                raise Wordless("many layers")
            self.words[value] = self._sum(value)
        return self.words[value]

    def _sum(self, value: Value) -> Any:
        if not value.terms:
            return sp.ZeroMatrix(*_extents(value.shape)) if value.shape else sp.S.Zero
        parts = [self._term(term, value.shape) for term in value.terms]
        if len(parts) == 1:
            return parts[0]
        return sp.MatAdd(*parts) if value.shape else sp.Add(*parts, evaluate=False)

    def _term(self, term: Term, shape: Shape) -> Any:
        bound = {BOUND + k: n for k, n in enumerate(term.bound)}
        pieces = Pieces(dict(enumerate(shape)) | bound, [*bound])
        for factor in term.factors:
            self._add(factor, pieces)
        while pieces.bound:
            pieces.contract(min(pieces.bound, key=lambda k: (len({id(m) for m in pieces.matrices if k in m[:2]}), k)))
        pieces.scalars[:0] = [term.coefficient] if term.coefficient != 1 else []
        return pieces.whole(shape)

    def _add(self, factor: Factor, pieces: "Pieces") -> None:
        """Add a factor: a scalar, a vector by its label, or a matrix between two labels."""
        labels, kind = factor.labels, factor.what.kind
        if kind in ("symbol", "head") and any(
            p.label is not None and pieces.extents.get(p.label, n) != n
            for p, n in zip(factor.at, extents_of(factor.what), strict=True)
        ):
            raise Wordless("a region")
        if factor.what.calls("softmax") and len(labels) < len(factor.at):
            raise Wordless("a cell")
        if len(labels) > 2 or any(p.label is not None and (p.step, p.start) != (1, 0) for p in factor.at):
            raise Wordless("shifted labels")
        if any(p.label is None and p.start for p in factor.at) and kind not in ("symbol", "delta"):
            raise Wordless("a cell")
        word = _unit(factor, pieces.extents[labels[0]]) if kind == "delta" else self._factor(factor)
        if factor.power != 1:
            word = sp.HadamardPower(word, factor.power) if labels else sp.Pow(word, factor.power, evaluate=False)
        if not labels:
            pieces.scalars.append(word)
        elif len(labels) == 1:
            twice = len([p for p in factor.at if p.label is not None]) == 2
            pieces.vectors[labels[0]].append(_diagonal(word) if twice else word)
        else:
            pieces.matrices.append((labels[0], labels[1], word))

    # -- words of factors

    def _factor(self, factor: Factor) -> Any:
        """A factor without its power: a scalar, a column over its label, a matrix from its first label to its second."""
        what, at = factor.what, factor.at
        if what.kind == "symbol":
            return self._symbol(what, at)
        if what.kind == "sum":
            return self.word(what.parts[0])
        if what.kind == "call":
            return self._amount(what, self._call(what))
        if what.kind == "head":
            name, x, shape = what.parts
            if any(p.label is None for p in at) and shape:
                raise Wordless("a matrix of one row")
            if name == "inv":
                return sp.Inverse(self.word(x))
            if name == "det":
                return sp.Determinant(self.word(x))
            raise Wordless(name)
        if what.kind == "cells":
            *values, shape = what.parts
            return sp.ImmutableDenseMatrix(*_extents(shape), [self.word(v) for v in values])
        raise Wordless(what.kind)

    def array(self, name: str, shape: Shape) -> Any:
        """The symbol of an input."""
        if name not in self.symbols:
            if len(shape) > 2:
                self.symbols[name] = sp.IndexedBase(name, shape=shape)
            else:
                self.symbols[name] = sp.MatrixSymbol(name, *_extents(shape)) if shape else sp.Symbol(name)
        return self.symbols[name]

    def _symbol(self, what: What, at: tuple[Place, ...]) -> Any:
        name, shape = what.parts
        symbol = self.array(name, shape)
        if not shape:
            return symbol
        cells = [p.label is None for p in at]
        if all(cells):
            return self._cell(symbol, [sp.Integer(p.start) for p in at], shape)
        if len(at) > 2:
            raise Wordless("three axes")
        if len(at) == 2 and any(cells):
            if shape[cells.index(True)] != 1:
                raise Wordless("a row")
            return _transposed(symbol) if cells[0] else symbol
        return symbol

    def _cell(self, symbol: Any, at: list[Any], shape: Shape) -> Any:
        if any(i.is_Integer and not 0 <= i < n for i, n in zip(at, shape, strict=True)):
            raise Wordless("a cell out of bounds, where a bracket is 0")
        if len(shape) > 2:
            return symbol[tuple(at)]
        return symbol[at[0], at[1] if len(shape) == 2 else sp.S.Zero]

    def _call(self, what: What) -> Any:
        if what not in self.calls:
            word = self._called(what)
            if self.named is not None and what.depth % 4 == 0 and word.is_Matrix:
                symbol = sp.MatrixSymbol(self.named(what), *word.shape)
                self.pieces.append((symbol, word))
                word = symbol
            self.calls[what] = word
        return self.calls[what]

    def _amount(self, what: What, word: Any) -> Any:
        """A condition among the factors of a term as a number."""
        is_condition = what.calls(*CONDITIONS) and not isinstance(word, sp.MatrixExpr)
        return build_sympy("select", [word, sp.S.One, sp.S.Zero]) if is_condition else word

    def _called(self, what: What) -> Any:
        op, *args = what.parts
        shape = args[0].shape
        if not shape:
            return build_sympy(op, [self.word(a) for a in args])
        if self.named is not None:
            words = (self.word(a if a.labels else self.algebra.moved(a, {}, ())) for a in args)
            return CellsOf(sp.Symbol(op), sp.Tuple(*_extents(shape)), *words)
        body, inner = self._over_cell(op, args)
        return ElementwiseApplyFunction(sp.Lambda(_D, body), inner)

    def _over_cell(self, op: str, args: list[Value]) -> tuple[Any, Any]:
        """An operation over one cell, and the matrix of that cell; conditions among the operands are over the same cell."""
        inner: Any = None
        given = []
        for a in args:
            if not a.labels:
                given.append(self.word(self.algebra.moved(a, {}, ())))
                continue
            term = self.algebra.one_term(a)
            call = term.factors[0] if len(term.factors) == 1 and not term.bound and term.coefficient == 1 else None
            if call is not None and call.what.calls(*CONDITIONS) and call.at == tuple(map(Place, range(len(a.shape)))):
                body, word = self._over_cell(call.what.parts[0], list(call.what.parts[1:]))
            else:
                body, word = _D, self.word(a)
            if inner is not None and word != inner:
                raise Wordless("a function of two arrays")
            inner = word
            given.append(body)
        return build_sympy(op, given), inner

    # -- cells over indices

    def by_cells(self, value: Value) -> Any:
        """A value as the matrix of the cells that its formula over indices has."""
        if not value.shape:
            return self.cell(value, [])
        if len(value.shape) > 2:
            indices = self.indices(len(value.shape))
            ranges = [(index, 0, n - 1) for index, n in zip(indices, value.shape, strict=True)]
            return ArrayComprehension(self.cell(value, indices, len(indices)), *ranges)
        indices = self.indices(2)
        at = [Place(None, 1, 0) if n == 1 else Place(k) for k, n in enumerate(value.shape)]
        body = self.cell(value, [indices[p.label] if p.label is not None else sp.S.Zero for p in at])
        return sp.FunctionMatrix(*_extents(value.shape), sp.Lambda(tuple(indices), body))

    def indices(self, count: int, after: int = 0) -> list[Any]:
        """Indices, by the letters that no input has."""
        if after + count > len(self._free_names):
            raise Wordless("more indices than letters")
        return [sp.Symbol(n, integer=True) for n in self._free_names[after : after + count]]

    def cell(self, value: Value, at: list[Any], depth: int = 2) -> Any:
        """The formula of a cell at indices."""
        groups: dict[tuple[Any, ...], list[Any]] = {}
        for term in value.terms:
            conditions = self._conditions_of(term, at, depth)
            if sp.false not in conditions:
                groups.setdefault(conditions, []).append(self._cell_of_term(term, at, depth))
        parts = []
        for conditions, found in groups.items():
            total = found[0] if len(found) == 1 else sp.Add(*found, evaluate=False)
            if self.named is None and conditions:
                total = _bounded(total, set().union(*(c.free_symbols for c in conditions)))
            parts.append(build_sympy("select", [sp.And(*conditions), total, sp.S.Zero]) if conditions else total)
        if not parts:
            return sp.S.Zero
        return parts[0] if len(parts) == 1 else sp.Add(*parts, evaluate=False)

    def _places(self, term: Term, at: list[Any], depth: int) -> dict[int, Any]:
        """What stands for the labels of a term: the indices of the cell, new ones for those that are summed over."""
        bound = self.indices(len(term.bound), depth)
        return dict(enumerate(at)) | {BOUND + k: index for k, index in enumerate(bound)}

    def _conditions_of(self, term: Term, at: list[Any], depth: int) -> tuple[Any, ...]:
        """Where a term is not zero."""
        places = self._places(term, at, depth)
        found = [c for f in term.factors if f.what.kind in ("delta", "inside") for c in self._conditions(f, places)]
        decided = [c if c.free_symbols else c.doit() for c in found]
        if any(places[BOUND + k] in c.free_symbols for k in range(len(term.bound)) for c in decided):
            raise Wordless("a condition on a summed index")
        return tuple(dict.fromkeys(c for c in decided if c != sp.true))

    def _cell_of_term(self, term: Term, at: list[Any], depth: int) -> Any:
        """What a term is where it is not zero."""
        places, deeper = self._places(term, at, depth), depth + len(term.bound)
        inner: list[Any] = []
        outer: list[Any] = []
        for factor in term.factors:
            if factor.what.kind in ("delta", "inside"):
                continue
            found = self._cell_of_factor(factor, places, deeper)
            if factor.power != 1:
                found = sp.Pow(found, factor.power, evaluate=False)
            (inner if any(k >= BOUND for k in factor.labels) else outer).append(found)
        if term.bound:
            ranges = [(places[BOUND + k], 0, _less_by(self.count(n), 1)) for k, n in enumerate(term.bound)]
            inner = [sum_as_it_stands(_times(inner), *ranges)]
        coefficient = [term.coefficient] if term.coefficient != 1 else []
        return _times([*coefficient, *outer, *inner])

    def _conditions(self, factor: Factor, places: Mapping[int, Any]) -> list[Any]:
        if factor.what.kind == "delta":
            one, two = (_index(p, places) for p in factor.at)
            return [sp.Eq(one, two, evaluate=False)]
        start, stop, extent = factor.what.parts
        at = _index(factor.at[0], places)
        last = _less_by(self.count(extent), extent - stop + 1) if extent - stop < stop else sp.Integer(stop - 1)
        above = [sp.Ge(at, start, evaluate=False)] if start > 0 else []
        return above + ([sp.Le(at, last, evaluate=False)] if stop < extent else [])

    def _cell_of_factor(self, factor: Factor, places: Mapping[int, Any], depth: int) -> Any:
        what, at = factor.what, [_index(p, places) for p in factor.at]
        if what.kind == "symbol":
            name, shape = what.parts
            symbol = self.array(name, shape)
            return self._cell(symbol, at, shape) if shape else symbol
        if what.kind == "sum":
            value: Value = what.parts[0]
            if not value.shape:
                with contextlib.suppress(Wordless):
                    return self.word(value)
            return self.cell(value, at, depth)
        if what.kind == "call":
            op, *args = what.parts
            if op == "softmax":
                (index,) = self.indices(1, depth)
                terms = [sp.exp(self.cell(args[0], [*at[:-1], k], depth + 1)) for k in (at[-1], index)]
                last = _less_by(self.count(extents_of(what)[-1]), 1)
                return _times([terms[0], sp.Pow(sum_as_it_stands(terms[1], (index, 0, last)), -1, evaluate=False)])
            return self._amount(what, build_sympy(op, [self.cell(a, at, depth) for a in args]))
        if what.kind == "head":
            name, x, shape = what.parts
            if name in ("amax", "amin"):
                return self._extreme(name, x, at, depth)
            word = self._factor(factor)
            return MatrixElement(word, *at) if shape else word  # subscripts would have SymPy invert it, symbol by symbol
        if what.kind == "cells" and all(i.is_Integer for i in at):
            *values, shape = what.parts
            return self.word(values[int(at[0]) if len(at) == 1 else int(at[0]) * shape[1] + int(at[1])])
        raise Wordless(what.kind)

    def _extreme(self, name: str, x: Value, at: list[Any], depth: int) -> Any:
        """The largest or smallest of a few cells, for readers of any number."""
        own = x.shape[len(at) :]
        if self.named is not None and math.prod(own) > FEW:
            indices = self.indices(len(own), depth)
            return ExtremeOf(sp.Symbol(name[1:]), self.cell(x, [*at, *indices], depth + len(own)), *indices)
        if math.prod(own) > MANY:
            raise Wordless("the largest of many")
        cells = itertools.product(*([sp.Integer(k) for k in range(n)] for n in own))
        head = sp.Max if name == "amax" else sp.Min
        return head(*(self.cell(x, [*at, *c], depth) for c in cells), evaluate=False)


# -- small words


def _extents(shape: Shape) -> tuple[int, int]:
    """The rows and columns of an array: a vector is a column."""
    return (shape[0], shape[1]) if len(shape) == 2 else (shape[0] if shape else 1, 1)


def _diagonal(word: Any) -> Any:
    """The diagonal of a matrix as a column; SymPy's has no shape for explicit cells."""
    if isinstance(word, sp.MatrixBase):
        return sp.ImmutableDenseMatrix(word.shape[0], 1, list(word.diagonal()))
    if isinstance(word.shape[0], int):
        raise Wordless("a function of explicit cells")
    return DiagonalOf(word)


def _unit(factor: Factor, extent: int) -> Any:
    """An identity, or one of its columns."""
    cells = [p.start for p in factor.at if p.label is None]
    one = sp.Identity(extent)
    return MatrixSlice(one, (0, extent, 1), (cells[0], cells[0] + 1, 1)) if cells else one


def _bounded(expr: Any, indices: set[Any]) -> Any:
    """An expression whose cells stay within their arrays, where they are shifted by some indices."""
    if isinstance(expr, MatrixElement):
        array, *at = expr.args
        return MatrixElement(array, *(sp.Mod(i, n, evaluate=False) if not i.is_Symbol and i.free_symbols & indices else i
                                      for i, n in zip(at, array.shape, strict=True)))  # fmt: skip
    if not expr.free_symbols & indices:
        return expr
    args = [_bounded(a, indices) for a in expr.args]
    if isinstance(expr, sp.Sum):
        return sum_as_it_stands(*args)
    if isinstance(expr, (sp.Piecewise, sp.Tuple)):
        return sp.Basic.__new__(type(expr), *args)
    return expr.func(*args, evaluate=False) if expr.args else expr


def _less_by(count: Any, number: int) -> Any:
    return sp.Add(count, -number, evaluate=count.is_Integer)


def _index(place: Place, places: Mapping[int, Any]) -> Any:
    return sp.Integer(place.start) if place.label is None else place.step * places[place.label] + place.start


def sum_as_it_stands(cell: Any, *ranges: Any) -> Any:
    """A sum; SymPy's constructor folds braces inside, which takes long."""
    made = sp.Expr.__new__(sp.Sum, cell, *(sp.Tuple(*r) for r in ranges))
    made.is_commutative = True
    return made


def _times(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return sp.Mul(*parts, evaluate=False) if parts else sp.S.One


def _oriented(piece: Piece, row: int) -> Any:
    """A matrix from the label `row`."""
    return piece[2] if piece[0] == row else _transposed(piece[2])


def _transposed(word: Any) -> Any:
    """A transpose, of a product that of its factors, of a transpose what it transposes."""
    if isinstance(word, sp.Transpose):
        return word.arg
    if isinstance(word, sp.MatMul):
        numbers = [a for a in word.args if not a.is_Matrix]
        return sp.MatMul(*numbers, *(_transposed(a) for a in reversed([a for a in word.args if a.is_Matrix])))
    if isinstance(word, sp.OneMatrix):
        return sp.OneMatrix(word.shape[1], word.shape[0])
    return word if isinstance(word, (DiagMatrix, sp.Identity)) else sp.Transpose(word)


def _product(*words: Any) -> Any:
    """A product of matrices, without parentheses inside."""
    flat: list[Any] = []
    for word in words:
        flat += word.args if isinstance(word, sp.MatMul) else [word]
    numbers = [w for w in flat if not w.is_Matrix]
    matrices = [w for w in flat if w.is_Matrix]
    matrices = [w for w in matrices if not isinstance(w, sp.Identity)] or matrices[:1]
    return sp.MatMul(*numbers, *matrices) if numbers or len(matrices) > 1 else matrices[0]


def _hadamard(words: list[Any]) -> Any:
    return words[0] if len(words) == 1 else sp.HadamardProduct(*words)


def _inner(vectors: list[Any], extent: int) -> Any:
    """The sum of a product of vectors."""
    if len(vectors) == 1 and isinstance(vectors[0], sp.HadamardPower) and vectors[0].exp == 2:
        return _trace(vectors[0].base, vectors[0].base)
    if len(vectors) == 1 and isinstance(vectors[0], DiagonalOf):
        return sp.Trace(vectors[0].arg)
    if len(vectors) == 1:
        return _trace(sp.OneMatrix(extent, 1), vectors[0])
    return _trace(vectors[0], _hadamard(vectors[1:]))


def _trace(*words: Any) -> Any:
    """The sum of all cells of a product, cell by cell: the trace of one, transposed, times the others."""
    product = _product(_transposed(words[0]), _hadamard(list(words[1:])))
    return sp.Trace(min(product, _transposed(product), key=_transposes))


def _transposes(word: Any) -> int:
    return sum(isinstance(part, sp.Transpose) for part in sp.preorder_traversal(word))

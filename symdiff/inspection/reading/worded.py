"""Words of matrices as terms: what is done cell by cell is arithmetic of terms, a product of matrices a call.

Assumes the expressions that `matrix_words` makes. Guarantees that a number in a sum, or in a product, stands for each cell; the
order of factors of `matmul` stays. Raises `Wordless` for what has no words.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import reduce
from typing import Any, ClassVar

import sympy as sp

from symdiff.inspection.exact import HALF, ONCE
from symdiff.inspection.expressions import operation_of_sympy
from symdiff.inspection.matrix_terms import Wordless
from symdiff.inspection.matrix_words import Words
from symdiff.inspection.reading.composing import CONSTANTS, Composer
from symdiff.inspection.reading.matrix_heads import (
    BOTH,
    INVERSE,
    TRANSPOSED,
    CellOf,
    CellPower,
    CellQuotient,
    Cellwise,
    ExtremeOver,
    Grouped,
    Marked,
    Norm,
    Scalar,
    Softmax,
    Unit,
)
from symdiff.inspection.reading.patterns import SERIES
from symdiff.inspection.reading.terms import ONE, ZERO, Term, inside_first
from symdiff.inspection.reading.written import Writer
from symdiff.vocabulary.ops import OPS

SCALARS = frozenset({"dot", "tr", "det", "norm", "norm_F", "cell", SERIES})
_MARKS = {"T": TRANSPOSED, "inv": INVERSE, "inv_T": BOTH}
_TURNED = {"T": None, "inv": "inv_T", "inv_T": "inv"}  # the transposes


class MatrixWriter(Writer):
    """Makes terms of matrices; `arrays` are the symbols that have cells, `indices` the bits of those that are places."""

    ONE_BRACE, OWN = False, 3

    def __init__(self) -> None:
        super().__init__()
        self.arrays: set[str] = set()
        self._array_bits = 0
        self._have_cells: dict[Term, bool] = {}
        self.ones = self.call("ones")
        self.identity = self.call("eye")

    def is_array(self, term: Term) -> bool:
        """Whether a term has cells."""
        known = self._have_cells
        for found in inside_first(term, known):
            cells = any(known[t] for t in found.below()) or (found.kind == "symbol" and found.parts[0] in self.arrays)
            known[found] = (cells and found.op not in SCALARS) or found.op.partition(" ")[0] in _NULLARY
        return known[term]

    def apart(self, term: Term) -> tuple[Term, Term]:
        """A term as a number times what has cells."""
        inner, times = term.multiple
        numbers = [f for f in inner.factors if not self.is_array(f[0])]
        return self.scaled(self.powers(numbers), times), self.powers([f for f in inner.factors if f not in numbers])

    def emit(self, op: str, args: tuple[Term, ...]) -> Term:
        """One operation on terms, be it of matrices."""
        if op in ("matmul", "dot"):
            return self._product(op, args)
        if op not in _LINEAR:
            return super().emit(op, args)
        number, array = self.apart(args[0])
        if array is ONE:
            raise Wordless("the cells of a number")
        if op in ("inv", "inv_T"):
            number = self.power(number, -ONCE)
        if op in ("norm", "norm_F"):
            number = self.call("abs", number)
        return self.mul([number, self._of_array(op, array)])

    def standing(self, name: str, term: Term) -> Term:
        """A symbol that stands for a term."""
        return self.array(name) if self.is_array(term) else super().standing(name, term)

    def array(self, name: str) -> Term:
        """The symbol of what has cells."""
        self.arrays.add(name)
        symbol = self.symbol(name)
        self._array_bits |= symbol.needs
        return symbol

    def long(self, term: Term, often: bool) -> int:
        """The printed width from which on a piece is named."""
        return 6 if term.needs & self._array_bits else super().long(term, often)

    def letter(self, term: Term) -> str | None:
        """The letter of a function's name, for one of its own: T for tanh of a matrix."""
        inner = term.factors[0][0] if len(term.factors) == 1 else term
        return inner.op[0].upper() if inner.op in OPS and self.is_array(inner) else None

    def turned(self, term: Term) -> Term:
        """The transpose."""
        return self.emit("T", (term,))

    def turned_inside(self, term: Term) -> Term:
        """The transpose of what is made cell by cell, of transposed parts."""
        return self.rebuilt(term, {t: self.turned(t) if self.is_array(t) else t for t in term.below()})

    def _of_array(self, op: str, array: Term) -> Term:
        head = array.op
        if (op in _TURNED and array is self.identity) or (op == "T" and head == "diag"):
            return array
        if op == "inv_T" and self.turned(array) is array:
            op = "inv"
        if op == "T" and head in _TURNED:
            return array.parts[1] if head == "T" else self.call(_TURNED[head] or "", array.parts[1])
        if op == "T" and head == "matmul":
            return self.emit("matmul", tuple(map(self.turned, array.operands[::-1])))
        if op == "T" and (array.kind in ("sum", "product") or head in OPS):
            turned = self.turned_inside(array)
            if turned is array or turned.width < array.width:
                return turned
        if op in ("inv", "inv_T") and array.kind == "sum":  # of a sum of transposes, as are those of matrices beside it
            turned = self.turned_inside(array)
            marked = [any(t.op == "T" for t in whole.below()) for whole in (array, turned)]
            if marked == [True, False]:
                return self.call(_TURNED[op] or "", turned)
        return self.call(op, array)

    def _product(self, op: str, args: tuple[Term, ...]) -> Term:
        """A product of matrices, without numbers and identities inside; of a row and a column a number."""
        numbers, factors = [], list[Term]()
        for number, array in map(self.apart, args):
            if array is ONE:
                raise Wordless("the cells of a number")
            numbers.append(number)
            factors += _matmul_factors(array)
        factors = [f for f in factors if f is not self.identity] or [self.identity]
        if op == "dot" and len(factors) == 2 and self.turned(factors[0]) is factors[1]:
            return self.mul([*numbers, self.power(self.call("norm", factors[1]), Fraction(2))])
        return self.mul([*numbers, factors[0] if len(factors) == 1 else self.call(op, *factors)])


def _matmul_factors(term: Term) -> list[Term]:
    """The matrices whose product it is."""
    return list(term.operands) if term.op == "matmul" else [term]


_NULLARY = frozenset({"ones", "eye", "unit", "matrix"})
_LINEAR = frozenset({"T", "inv", "inv_T", "diag", "main", "tr", "norm", "norm_F"})  # main: the diagonal of a matrix


class Worded:
    """Terms of the expressions that `words` makes."""

    def __init__(self, writer: MatrixWriter, words: Words) -> None:
        self.writer = writer
        self.words = words
        self._known: dict[Any, Term] = {value: writer.constant(name) for name, value in {**CONSTANTS, "e": sp.E}.items()}

    def whole(self, expr: Any) -> Term:
        """The term of a result: equal cells are a number times ones."""
        found = self.term(expr)
        shape = getattr(expr, "shape", (1, 1))
        if shape == (1, 1) or found is ZERO or self.writer.is_array(found):
            return found
        return self.writer.mul([found, self._filled(*shape)])

    def term(self, expr: Any) -> Term:
        """The term of an expression."""
        if expr not in self._known:
            read = next((self._READ[k.__name__] for k in type(expr).__mro__ if k.__name__ in self._READ), None)
            self._known[expr] = self._called(expr) if read is None else read(self, expr)
        return self._known[expr]

    def _terms(self, exprs: Any) -> tuple[Term, ...]:
        return tuple(map(self.term, exprs))

    def _numbers(self, exprs: Any) -> tuple[Term, ...]:
        """Terms, conditions as numbers."""
        return tuple(self.writer.amount(self.term(e)) for e in exprs)

    def _called(self, expr: Any) -> Term:
        op = operation_of_sympy(type(expr))
        if op is None:
            raise Wordless(type(expr).__name__)
        args = self._terms(expr.args)
        if op in ("and", "or", "max", "min"):
            return reduce(lambda a, b: self.writer.emit(op, (a, b)), args)
        return self.writer.emit(op, args)

    def _symbol(self, expr: Any) -> Term:
        term = self.writer.symbol(expr.name)
        if expr.is_integer and expr.name not in self.writer.counts:
            self.writer.indices |= term.needs
        return term

    def _array(self, expr: Any) -> Term:
        piece = next((word for symbol, word in self.words.pieces if symbol is expr), None)
        if piece is not None:
            return self.term(piece)
        return self.writer.array(expr.name)

    def _cell(self, name: str, at: Any) -> Term:
        term = self.writer.symbol(f"{name}[{', '.join(map(str, at))}]")
        if not all(i.is_Integer for i in at):
            self.writer.indices |= term.needs
        return term

    def _element(self, expr: Any) -> Term:
        array, row, column = expr.args
        if isinstance(array, sp.MatrixSymbol) and not array.name.startswith(" "):
            return self._cell(array.name, (row,) if array.shape[1] == 1 else (row, column))
        return self.writer.call("cell", *self._terms(expr.args))

    def _number(self, expr: Any) -> Term:
        return self.writer.number(Fraction(int(expr.p), int(expr.q)) if expr.is_Rational else float(expr))

    def _filled(self, rows: int, columns: int) -> Term:
        """Ones of a shape."""
        t = self.writer
        row = t.turned(t.ones)
        return t.ones if columns == 1 else row if rows == 1 else t.emit("matmul", (t.ones, row))

    def _matrix_product(self, expr: Any) -> Term:
        t = self.writer
        numbers = [a for a in expr.args if not a.is_Matrix]
        matrices = [a for a in expr.args if a.is_Matrix]
        if len(matrices) == 1 and isinstance(matrices[0], sp.OneMatrix):
            ones = [self._filled(*matrices[0].shape)] if any(n.has(sp.MatrixExpr) for n in numbers) else []
            return t.mul([*self._numbers(numbers), *ones])
        return t.mul([*self._numbers(numbers), t.emit("matmul", tuple(map(self._factor, matrices)))])

    def _factor(self, expr: Any) -> Term:
        return self._filled(*expr.shape) if isinstance(expr, sp.OneMatrix) else self._numbers([expr])[0]

    def _transposed(self, expr: Any) -> Term:
        return self.writer.turned(self._factor(expr.arg))

    def _trace(self, expr: Any) -> Term:
        """The trace; that of a product of a row and a column is the product."""
        t, word = self.writer, expr.arg
        if isinstance(word, sp.MatMul) and len(word.args) == 2 and word.args[0] == sp.Transpose(word.args[1]):
            norm = t.emit("norm" if word.args[1].shape[1] == 1 else "norm_F", (self.term(word.args[1]),))
            return t.power(norm, Fraction(2))
        if word.shape != (1, 1):
            return t.emit("tr", (self._factor(word),))
        return t.emit("dot", tuple(map(self._factor, word.args))) if isinstance(word, sp.MatMul) else self._factor(word)

    def _cellwise(self, expr: Any) -> Term:
        """A function of the cells of arrays."""
        op, (_, columns), *words = expr.args
        args = self._terms(words)
        if op.name == "softmax":
            return self.writer.call("softmax" if columns == 1 else "softmax rows", *args)
        if op.name != "select":
            return self.writer.emit(op.name, args)
        return self._cases([(args[0], args[1])], args[2])

    def _unit(self, expr: Any) -> Term:
        if not isinstance(expr.parent, sp.Identity):
            raise Wordless("a region")
        return self.writer.call(f"unit {expr.colslice[0]}")

    def _brace(self, expr: Any) -> Term:
        """A brace; of one case and zero the case, with a bracket."""
        t = self.writer
        rows = [(self.term(condition), self.term(value)) for value, condition in expr.args if condition != sp.true]
        otherwise = self.term(expr.args[-1][0]) if expr.args[-1][1] == sp.true else t.call("nan")
        return self._cases(rows, otherwise)

    def _cases(self, rows: list[tuple[Term, Term]], otherwise: Term) -> Term:
        t = self.writer
        if len(rows) == 1 and otherwise is ZERO:
            return t.mul([rows[0][1], t.brace([(rows[0][0], ONE)], ZERO)])
        return t.brace(rows, otherwise)

    def _total(self, expr: Any) -> Term:
        t, found = self.writer, self.term(expr.function)
        for index, *ends in expr.limits:
            found = t.call(SERIES, found, self.term(index), *self._terms(ends))
        return found

    def _extreme(self, expr: Any) -> Term:
        return self.writer.call(f"{expr.args[0]} over", *self._terms(expr.args[1:]))

    def _cells(self, expr: Any) -> Term:
        return self.writer.call("matrix {} {}".format(*expr.shape), *self._terms(expr.flat()))

    _READ: ClassVar[dict[str, Callable[["Worded", Any], Term]]] = {
        "Symbol": _symbol, "MatrixSymbol": _array, "Indexed": lambda self, e: self._cell(e.base.label, e.indices),
        "MatrixElement": _element, "Number": _number, "ImaginaryUnit": lambda self, e: self.writer.unit,
        **dict.fromkeys(("Add", "MatAdd"), lambda self, e: self.writer.plus(*self._numbers(e.args))),
        **dict.fromkeys(("Mul", "HadamardProduct"), lambda self, e: self.writer.mul(self._numbers(e.args))),
        **dict.fromkeys(("Pow", "HadamardPower"), lambda self, e: self.writer.emit("pow", self._terms(e.args))),
        "MatMul": _matrix_product, "ZeroMatrix": lambda self, e: ZERO, "OneMatrix": lambda self, e: ONE,
        "Identity": lambda self, e: self.writer.identity, "Transpose": _transposed, "MatrixSlice": _unit, "Trace": _trace,
        "Inverse": lambda self, e: self.writer.emit("inv", (self._factor(e.arg),)),
        "Determinant": lambda self, e: self.writer.call("det", self._factor(e.arg)),
        "DiagMatrix": lambda self, e: self.writer.emit("diag", (self._factor(e.args[0]),)),
        "DiagonalOf": lambda self, e: self.writer.emit("main", (self._factor(e.arg),)),
        "CellsOf": _cellwise, "Piecewise": _brace, "Sum": _total, "ExtremeOf": _extreme, "MatrixBase": _cells,
    }  # fmt: skip


# -- as they are printed


class MatrixComposer(Composer):
    """Makes expressions of terms of matrices over the heads that are printed."""

    writer: MatrixWriter
    _beside = False  # whether something with cells stands beside the numbers of a product

    def _spelled(self, term: Term) -> Any:
        if term.kind == "symbol" and term.parts[0] in self.writer.arrays:
            return sp.Symbol(term.parts[0], commutative=False)
        if term.kind == "brace" and self.writer.is_array(term) and (found := self._bracket(term)) is not None:
            return found[1] if found[0] == 1 else sp.Mul(-1, found[1], evaluate=False)
        return super()._spelled(term)

    def _called(self, op: str, made: list[Any], term: Term) -> Any:
        if op in ("matmul", "dot"):
            product = sp.Mul(*(Grouped(m) if isinstance(m, Cellwise) else m for m in made), evaluate=False)
            return product if op == "matmul" else Scalar(product)
        if op in _MARKS:
            return Marked(made[0], _MARKS[op])
        if op in ("norm", "norm_F"):
            return Norm(made[0], int(op == "norm_F"))
        if op in ("diag", "main", "tr", "det"):
            return sp.Function(op.replace("main", "diag"), commutative=op in SCALARS)(made[0])
        if op.startswith("softmax"):
            return Softmax(made[0], int(op == "softmax rows"))
        if op == "cell":
            return CellOf(made[0] if made[0].is_Symbol else Grouped(made[0]), *made[1:])
        if op.partition(" ")[0] in _NULLARY:
            name, *sizes = op.split()
            if name == "matrix":
                return sp.ImmutableDenseMatrix(*map(int, sizes), made)
            return sp.Symbol("I", commutative=False) if name == "eye" else Unit(*map(int, sizes))
        if op.endswith(" over"):
            return ExtremeOver(sp.Symbol(op.removesuffix(" over")), *made)
        return super()._called(op, made, term)

    def _product(self, powers: dict[Term, Fraction], coefficient: Fraction) -> Any:
        """A number times what has cells, which is a product or quotient cell by cell."""
        arrays = [(b, e) for b, e in sorted(powers.items(), key=self._rank) if self.writer.is_array(b)]
        numbers = {b: e for b, e in powers.items() if not self.writer.is_array(b)}
        self._beside = bool(arrays)
        scale = super()._product(numbers, coefficient)
        if not arrays:
            return scale
        over = [self._cellwise(b, e) for b, e in arrays if e > 0 or b.op == "exp"]
        under = [self._cellwise(b, -e) for b, e in arrays if e < 0 and b.op != "exp"]
        cells = _joined(over) if over else sp.S.One
        cells = CellQuotient(cells, _joined(under)) if under else cells
        if scale == 1:
            return cells
        factors = list(scale.args) if isinstance(scale, sp.Mul) else [scale]
        bar = next((k for k, f in enumerate(factors) if isinstance(f, sp.Pow) and f.exp == -1), len(factors))
        counted = all(b.kind == "symbol" and b.parts[0] in self.writer.counts for b in numbers)
        place = len(factors) if counted else bar
        if isinstance(cells, Cellwise) and any(not f.is_commutative for f in factors):
            cells = Grouped(cells)
        parts = cells.args if isinstance(cells, sp.Mul) else (cells,)
        return sp.Mul(*factors[:place], *parts, *factors[place:], evaluate=False)

    def _factor(self, base: Term, exponent: Fraction, powers: Mapping[Term, Fraction]) -> Any:
        made = self._made[base]
        sole = sum((e > 0) == (exponent > 0) for e in powers.values()) == 1 and (exponent < 0 or not self._beside)
        bare = abs(exponent) == HALF or (abs(exponent) == 1 and sole)
        return Scalar(Grouped(made.args[0])) if isinstance(made, Scalar) and not bare else made

    def _cellwise(self, base: Term, exponent: Fraction) -> Any:
        """A power, cell by cell."""
        made = self._made[base]
        if base.op == "exp":
            return self._exp(base.parts[1], exponent)
        if exponent == 1:
            return made
        if exponent == 2 and base.op and isinstance(made, sp.Function):
            return sp.Pow(made, 2, evaluate=False)
        return Cellwise(made, made) if exponent == 2 else CellPower(made, sp.Rational(exponent.numerator, exponent.denominator))


def _joined(parts: list[Any]) -> Any:
    flat = [p for part in parts for p in (part.args if type(part) is Cellwise else [part])]
    return flat[0] if len(flat) == 1 else Cellwise(*flat)

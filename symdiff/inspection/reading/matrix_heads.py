"""Heads of matrix notation: marks above, products cell by cell, norms, vectors of ones, Iverson's brackets.

Assumes SymPy expressions as parts. Guarantees that SymPy's printers for LaTeX and text are told how each is printed.
"""

from collections.abc import Sequence
from typing import Any

import sympy as sp
from sympy.core.expr import Expr
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.inspection.reading.names import SPELLED
from symdiff.vocabulary.literals import printable

TRANSPOSED, INVERSE, BOTH = 0, 1, 2
_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_MARKS = ((r"\top", "ᵀ"), ("-1", "⁻¹"), (r"-\top", "⁻ᵀ"))


class Shown(Expr):
    """A head that prints itself: its `parts` in order, expressions and signs, which are pairs of LaTeX and of text."""

    is_commutative = True
    is_closed = True  # conditions in it are not those around it: it may be of all cells
    binding = prettyForm.ATOM

    def __new__(cls, *args: Any) -> Any:
        return Expr.__new__(cls, *map(sp.sympify, args))

    def parts(self) -> Sequence[Any]:
        """What stands after each other."""
        return self.args

    def latex_text(self, printer: Any) -> str:
        """The LaTeX."""
        return row_latex(self.parts(), printer)

    def text_form(self, printer: Any) -> Any:
        """The form in a terminal."""
        return row_text(self.parts(), printer, self.binding)

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = self.latex_text(printer)
        return text if exp is None else rf"{{{text}}}^{{{exp}}}"

    def _pretty(self, printer: Any) -> Any:
        return self.text_form(printer)


def row_latex(parts: Sequence[Any], printer: Any) -> str:
    """Expressions and signs after each other in LaTeX."""
    return "".join(part[0] if type(part) is tuple else printer._print(part) for part in parts)


def row_text(parts: Sequence[Any], printer: Any, binding: int = prettyForm.ATOM) -> Any:
    """Expressions and signs after each other as text."""
    forms = (part[1] if type(part) is tuple else printer._print(part) for part in parts)
    return prettyForm(*stringPict.next(*forms), binding=binding)


def _loose(expr: Any) -> Any:
    """A part of a product, in parentheses where it needs some."""
    if isinstance(expr, CellQuotient) and expr.args[0].is_Integer:
        return expr
    loose = isinstance(expr, (sp.Add, sp.Mul, Cellwise, sp.Piecewise)) or bool(expr.is_Number and expr.is_negative)
    return Grouped(expr) if loose else expr


def _between(parts: Sequence[Any], sign: tuple[str, str]) -> list[Any]:
    """Parts with a sign between."""
    return [part for k, own in enumerate(parts) for part in ([sign] * bool(k) + [own])]


class Matrix(Shown):
    """A head whose value is a matrix, so that the order of factors counts."""

    is_commutative = False


class Fenced(Shown):
    """A part in brackets, which are as high as it is."""

    left, right = "[", "]"

    def latex_text(self, printer: Any) -> str:
        return rf"\left{self.left}{printer._print(self.args[0])}\right{self.right}"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*printer._print(self.args[0]).parens(self.left, self.right))


class Grouped(Fenced, Matrix):
    """A part in parentheses."""

    left, right = "(", ")"


class Bracketed(Fenced):
    """Iverson's bracket: 1 where a condition holds, else 0."""

    def __new__(cls, condition: Any) -> Any:
        return Expr.__new__(cls, condition)


class Scalar(Shown):
    """A number that is a product of vectors."""

    def text_form(self, printer: Any) -> Any:
        return printer._print(self.args[0])


class Marked(Matrix):
    """A matrix with a mark above: `TRANSPOSED`, `INVERSE` or `BOTH`."""

    def parts(self) -> Sequence[Any]:
        base, (above, mark) = self.args[0], _MARKS[int(self.args[1])]
        return Grouped(base) if isinstance(base, (sp.Pow, sp.exp, CellPower, Marked)) else _loose(base), (f"^{{{above}}}", mark)


class Cellwise(Matrix):
    """A product or, of two, a quotient cell by cell."""

    sign = (r" \circ ", " ∘ ")
    binding = prettyForm.MUL

    def parts(self) -> Sequence[Any]:
        return _between([_loose(a) for a in self.args], self.sign)


class CellQuotient(Cellwise):
    """A quotient cell by cell; of a number as a fraction."""

    sign = (r" \oslash ", " ⊘ ")

    def latex_text(self, printer: Any) -> str:
        over, under = self.args
        return rf"\frac{{{over}}}{{{printer._print(under)}}}" if over.is_Integer else super().latex_text(printer)

    def text_form(self, printer: Any) -> Any:
        over, under = map(printer._print, self.args)
        return over / under if self.args[0].is_Integer else super().text_form(printer)


class CellPower(Matrix):
    """A power cell by cell."""

    def latex_text(self, printer: Any) -> str:
        base, power = map(printer._print, (_loose(self.args[0]), self.args[1]))
        return rf"\sqrt{{{printer._print(self.args[0])}}}" if self.args[1] == sp.S.Half else rf"{base}^{{\circ {power}}}"

    def text_form(self, printer: Any) -> Any:
        if self.args[1] == sp.S.Half:
            return printer._print_nth_root(self.args[0], 2)
        above = prettyForm(*stringPict.next("∘", printer._print(self.args[1])))
        return prettyForm(*printer._print(_loose(self.args[0])).right(""), binding=prettyForm.ATOM) ** above


class Norm(Shown):
    """The Euclidean norm of a vector, or Frobenius' of a matrix (second argument: 1)."""

    def parts(self) -> Sequence[Any]:
        kind = "_F" * (self.args[1] == 1)
        return (r"\left\lVert ", "‖"), self.args[0], (rf" \right\rVert{kind}", f"‖{kind}")


class Unit(Matrix):
    """A vector of ones; with a place, of zeros but for one there."""

    def parts(self) -> Sequence[Any]:
        letter, bold = ("e", "𝐞") if self.args else ("1", "𝟏")
        below = "".join(map(str, self.args))
        return ((rf"\mathbf{{{letter}}}" + f"_{{{below}}}" * bool(below), bold + below.translate(_BELOW)),)


class Softmax(Matrix):
    """Exponentials over their sum, of a vector, or of each row of a matrix (second argument: 1)."""

    def parts(self) -> Sequence[Any]:
        return (r"\operatorname{softmax}", "softmax"), Grouped(self.args[0])


class CellOf(Shown):
    """A cell of an array that is an expression, at indices."""

    def parts(self) -> Sequence[Any]:
        return _loose(self.args[0]), Below(*self.args[1:])


class Below(Shown):
    """Indices of a cell."""

    def latex_text(self, printer: Any) -> str:
        return f"_{{{','.join(map(printer._print, self.args))}}}"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(f"_{''.join(map(str, self.args)).translate(_BELOW)}")


class Verbatim(Shown):
    """Text of a program: the name of a symbol."""

    upright = "mathrm"

    def parts(self) -> Sequence[Any]:
        name = printable(self.args[0].name)
        return ((rf"\{self.upright}{{{''.join(SPELLED.get(c, c) for c in name)}}}", name),)


class _Name(Verbatim):
    """The name of a function in a program."""

    upright = "operatorname"


class Listed(Shown):
    """Parts with commas between."""

    def parts(self) -> Sequence[Any]:
        return _between(self.args, (", ", ", "))


class CallOf(Shown):
    """A call of a function by its name, the first argument."""

    def parts(self) -> Sequence[Any]:
        return _Name(self.args[0]), Grouped(Listed(*self.args[1:]))


class PartOf(Shown):
    """Some cells of an array, or another part of a value, as programs write it."""

    def parts(self) -> Sequence[Any]:
        whole, part = self.args
        return whole if whole.is_Symbol or isinstance(whole, CallOf) else Grouped(whole), Verbatim(part)


class Over(Shown):
    """A body under an operator."""

    sign = (r"\sum", "∑")
    binding = prettyForm.MUL

    def body(self) -> Any:
        """What the operator is applied to."""
        return self.args[0]

    def below(self) -> Sequence[Any]:
        """What stands below the operator."""
        return self.args[1:]

    def above(self) -> Sequence[Any]:
        """What stands above it."""
        return ()

    def latex_text(self, printer: Any) -> str:
        above = f"^{{{row_latex(self.above(), printer)}}}" if self.above() else ""
        return f"{self.sign[0]}_{{{row_latex(self.below(), printer)}}}{above} {printer._print(_loose(self.body()))}"

    def text_form(self, printer: Any) -> Any:
        above = [row_text(self.above(), printer)] if self.above() else []
        sign = prettyForm(*stringPict.stack(*above, self.sign[1], row_text(self.below(), printer)))
        sign.baseline = sum(part.height() for part in above)
        return prettyForm(*stringPict.next(sign, " ", printer._print(_loose(self.body()))), binding=self.binding)


class SumOver(Over):
    """A sum over all values of an index."""


class ExtremeOver(Over):
    """The largest or smallest ("max", "min": the first argument) over all values of indices."""

    @property
    def sign(self) -> tuple[str, str]:  # type: ignore[override]
        """The name of the operator."""
        return rf"\{self.args[0]}", str(self.args[0])

    def body(self) -> Any:
        return self.args[1]

    def below(self) -> Sequence[Any]:
        return _between(self.args[2:], (",", ","))


class ProductOver(Over):
    """A product over an index from the second argument's first place to its last, but for one place where there is a fifth."""

    sign = (r"\prod", "∏")

    def below(self) -> Sequence[Any]:
        _, index, first, _, *left_out = self.args
        return index, ("=", "="), first, *(part for s in left_out for part in ((r",\, ", ", "), index, (r" \neq ", "≠"), s))

    def above(self) -> Sequence[Any]:
        return self.args[3:4]

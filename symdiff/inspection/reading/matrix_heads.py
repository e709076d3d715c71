"""Heads of matrix notation: marks above, products cell by cell, norms, vectors of ones, Iverson's brackets.

Assumes SymPy expressions as parts. Guarantees that SymPy's printers for LaTeX and text are told how each is printed.
"""

from typing import Any

import sympy as sp
from sympy.core.expr import Expr
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.inspection.reading.names import SPELLED
from symdiff.vocabulary.literals import printable

TRANSPOSED, INVERSE, BOTH = 0, 1, 2
_BELOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_MARKS = ((r"\top", "ᵀ", "⊤"), ("-1", "⁻¹", "-1"), (r"-\top", "⁻ᵀ", "-⊤"))


class Shown(Expr):
    """A head that prints itself."""

    is_commutative = True

    def __new__(cls, *args: Any) -> Any:
        return Expr.__new__(cls, *map(sp.sympify, args))

    def _latex(self, printer: Any, exp: Any = None) -> str:
        text = self.latex_text(printer)
        return text if exp is None else rf"{{{text}}}^{{{exp}}}"

    def _pretty(self, printer: Any) -> Any:
        return self.text_form(printer)

    def latex_text(self, printer: Any) -> str:
        """The LaTeX."""
        raise NotImplementedError

    def text_form(self, printer: Any) -> Any:
        """The form in a terminal."""
        raise NotImplementedError


def _is_loose(expr: Any) -> bool:
    """Whether a part needs parentheses in a product."""
    if isinstance(expr, CellQuotient) and expr.args[0].is_Integer:
        return False
    return isinstance(expr, (sp.Add, sp.Mul, Cellwise, sp.Piecewise)) or bool(expr.is_Number and expr.is_negative)


def _in_latex(printer: Any, part: Any) -> str:
    text = printer._print(part)
    return rf"\left({text}\right)" if _is_loose(part) else str(text)


def _in_text(printer: Any, part: Any) -> Any:
    form = printer._print(part)
    return prettyForm(*form.parens()) if _is_loose(part) else form


class Matrix(Shown):
    """A head whose value is a matrix, so that the order of factors counts."""

    is_commutative = False


class Grouped(Matrix):
    """A part in parentheses."""

    def latex_text(self, printer: Any) -> str:
        return rf"\left({printer._print(self.args[0])}\right)"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*printer._print(self.args[0]).parens())


class Scalar(Shown):
    """A number that is a product of vectors."""

    def latex_text(self, printer: Any) -> str:
        return str(printer._print(self.args[0]))

    def text_form(self, printer: Any) -> Any:
        return printer._print(self.args[0])


class Marked(Matrix):
    """A matrix with a mark above: `TRANSPOSED`, `INVERSE` or `BOTH`."""

    def _base(self) -> Any:
        raised = isinstance(self.args[0], (sp.Pow, sp.exp, CellPower, Marked))
        return Grouped(self.args[0]) if raised else self.args[0]

    def _mark(self, kind: int) -> str:
        return _MARKS[int(self.args[1])][kind]

    def latex_text(self, printer: Any) -> str:
        return f"{_in_latex(printer, self._base())}^{{{self._mark(0)}}}"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next(_in_text(printer, self._base()), self._mark(1)))


class Cellwise(Matrix):
    """A product or, of two, a quotient cell by cell."""

    latex_sign, sign = r"\circ", "∘"

    def latex_text(self, printer: Any) -> str:
        return f" {self.latex_sign} ".join(_in_latex(printer, a) for a in self.args)

    def text_form(self, printer: Any) -> Any:
        forms: list[Any] = []
        for part in self.args:
            forms += [f" {self.sign} "] * bool(forms) + [_in_text(printer, part)]
        return prettyForm(*stringPict.next(*forms), binding=prettyForm.MUL)


class CellQuotient(Cellwise):
    """A quotient cell by cell; of a number as a fraction."""

    latex_sign, sign = r"\oslash", "⊘"

    def latex_text(self, printer: Any) -> str:
        over, under = self.args
        return rf"\frac{{{over}}}{{{printer._print(under)}}}" if over.is_Integer else super().latex_text(printer)

    def text_form(self, printer: Any) -> Any:
        over, under = map(printer._print, self.args)
        return over / under if self.args[0].is_Integer else super().text_form(printer)


class CellPower(Matrix):
    """A power cell by cell."""

    def latex_text(self, printer: Any) -> str:
        if self.args[1] == sp.S.Half:
            return rf"\sqrt{{{printer._print(self.args[0])}}}"
        return rf"{_in_latex(printer, self.args[0])}^{{\circ {printer._print(self.args[1])}}}"

    def text_form(self, printer: Any) -> Any:
        if self.args[1] == sp.S.Half:
            return printer._print_nth_root(self.args[0], 2)
        above = prettyForm(*stringPict.next("∘", printer._print(self.args[1])))
        below = _in_text(printer, self.args[0])
        return prettyForm(*below.right(""), binding=prettyForm.ATOM) ** above


class Norm(Shown):
    """The Euclidean norm of a vector, or Frobenius' of a matrix (second argument: 1)."""

    def latex_text(self, printer: Any) -> str:
        return rf"\left\lVert {printer._print(self.args[0])} \right\rVert" + ("_F" if self.args[1] == 1 else "")

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next("‖", printer._print(self.args[0]), "‖" + ("_F" if self.args[1] == 1 else "")))


class Unit(Matrix):
    """A vector of ones; with a place, of zeros but for one there."""

    @property
    def _letter(self) -> str:
        return "e" if self.args else "1"

    def latex_text(self, printer: Any) -> str:
        return rf"\mathbf{{{self._letter}}}" + "".join(f"_{{{printer._print(a)}}}" for a in self.args)

    def text_form(self, printer: Any) -> Any:
        return prettyForm({"1": "𝟏", "e": "𝐞"}[self._letter] + "".join(str(a).translate(_BELOW) for a in self.args))


class Softmax(Matrix):
    """Exponentials over their sum, of a vector, or of each row of a matrix (second argument: 1)."""

    def latex_text(self, printer: Any) -> str:
        return rf"\operatorname{{softmax}}\left({printer._print(self.args[0])}\right)"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next("softmax", prettyForm(*printer._print(self.args[0]).parens())))


class CellOf(Shown):
    """A cell of an array that is an expression, at indices."""

    def latex_text(self, printer: Any) -> str:
        return f"{_in_latex(printer, self.args[0])}_{{{','.join(printer._print(a) for a in self.args[1:])}}}"

    def text_form(self, printer: Any) -> Any:
        below = "".join(str(a) for a in self.args[1:]).translate(_BELOW)
        return prettyForm(*stringPict.next(_in_text(printer, self.args[0]), f"_{below}"))


class Verbatim(Shown):
    """Text of a program: the name of a symbol."""

    def latex_text(self, printer: Any) -> str:
        return rf"\mathrm{{{''.join(SPELLED.get(c, c) for c in printable(self.args[0].name))}}}"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(printable(self.args[0].name))


class CallOf(Shown):
    """A call of a function by its name, the first argument."""

    def latex_text(self, printer: Any) -> str:
        name = Verbatim(self.args[0]).latex_text(printer).replace(r"\mathrm", r"\operatorname", 1)
        return rf"{name}\left({', '.join(map(printer._print, self.args[1:]))}\right)"

    def text_form(self, printer: Any) -> Any:
        inside = printer._print_seq(self.args[1:], delimiter=", ").parens()
        return prettyForm(*stringPict.next(printable(self.args[0].name), prettyForm(*inside)))


class PartOf(Shown):
    """Some cells of an array, or another part of a value, as programs write it."""

    def _parts(self) -> tuple[Any, Any]:
        whole, part = self.args
        return whole if whole.is_Symbol or isinstance(whole, CallOf) else Grouped(whole), Verbatim(part)

    def latex_text(self, printer: Any) -> str:
        return "".join(printer._print(part) for part in self._parts())

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next(*(printer._print(part) for part in self._parts())))


class SumOver(Shown):
    """A sum over all values of an index."""

    def latex_text(self, printer: Any) -> str:
        return rf"\sum_{{{printer._print(self.args[1])}}} {_in_latex(printer, self.args[0])}"

    def text_form(self, printer: Any) -> Any:
        head = prettyForm("∑").below(printer._print(self.args[1]))
        sign = prettyForm(*head)
        sign.baseline = 0
        return prettyForm(*stringPict.next(sign, " ", _in_text(printer, self.args[0])), binding=prettyForm.MUL)


class ExtremeOver(Shown):
    """The largest or smallest ("max", "min") over all values of indices."""

    def latex_text(self, printer: Any) -> str:
        name, body, *indices = self.args
        return rf"\{name}_{{{','.join(printer._print(i) for i in indices)}}} {_in_latex(printer, body)}"

    def text_form(self, printer: Any) -> Any:
        name, body, *indices = self.args
        sign = prettyForm(*prettyForm(str(name)).below(prettyForm(",".join(map(str, indices)))))
        sign.baseline = 0
        return prettyForm(*stringPict.next(sign, " ", _in_text(printer, body)), binding=prettyForm.MUL)


class ProductOver(Shown):
    """A product over an index from the second argument's first place to its last, but for one place where there is a fifth."""

    def latex_text(self, printer: Any) -> str:
        index, first, last, *left_out = (printer._print(a) for a in self.args[1:])
        but = "".join(rf",\, {index} \neq {s}" for s in left_out)
        return rf"\prod_{{{index}={first}{but}}}^{{{last}}} {_in_latex(printer, self.args[0])}"

    def text_form(self, printer: Any) -> Any:
        index, first, last, *left_out = (printer._print(a) for a in self.args[1:])
        below = prettyForm(*stringPict.next(index, "=", first, *(part for s in left_out for part in (", ", index, "≠", s))))
        sign = prettyForm(*prettyForm(*prettyForm("∏").above(last)).below(below))
        sign.baseline = last.height()
        return prettyForm(*stringPict.next(sign, " ", _in_text(printer, self.args[0])), binding=prettyForm.MUL)


class Bracketed(Shown):
    """Iverson's bracket: 1 where a condition holds, else 0."""

    def __new__(cls, condition: Any) -> Any:
        return Expr.__new__(cls, condition)

    def latex_text(self, printer: Any) -> str:
        return rf"\left[{printer._print(self.args[0])}\right]"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*printer._print(self.args[0]).parens("[", "]"))

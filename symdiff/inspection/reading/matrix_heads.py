"""Heads of matrix notation: marks above, products cell by cell, norms, vectors of ones, Iverson's brackets.

Assumes SymPy expressions as parts. Guarantees that SymPy's printers for LaTeX, text and MathML are told how each is printed.
"""

from typing import Any

import sympy as sp
from sympy.core.expr import Expr
from sympy.printing.pretty.stringpict import prettyForm, stringPict

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

    def _mathml_presentation(self, printer: Any) -> Any:
        row = printer.dom.createElement("mrow")
        for part in self.mathml_parts(printer):
            row.appendChild(part)
        return row

    def latex_text(self, printer: Any) -> str:
        """The LaTeX."""
        raise NotImplementedError

    def text_form(self, printer: Any) -> Any:
        """The form in a terminal."""
        raise NotImplementedError

    def mathml_parts(self, printer: Any) -> list[Any]:
        """The elements of a row."""
        raise NotImplementedError


def _element(printer: Any, tag: str, text: str) -> Any:
    found = printer.dom.createElement(tag)
    found.appendChild(printer.dom.createTextNode(text))
    return found


def _is_loose(expr: Any) -> bool:
    """Whether a part needs parentheses in a product."""
    return isinstance(expr, (sp.Add, sp.Mul, Cellwise, sp.Piecewise)) or bool(expr.is_Number and expr.is_negative)


def _in_latex(printer: Any, part: Any) -> str:
    text = printer._print(part)
    return rf"\left({text}\right)" if _is_loose(part) else str(text)


def _in_text(printer: Any, part: Any) -> Any:
    form = printer._print(part)
    return prettyForm(*form.parens()) if _is_loose(part) else form


def _in_mathml(printer: Any, part: Any) -> Any:
    printed = printer._print(part)
    if not _is_loose(part):
        return printed
    row = printer.dom.createElement("mrow")
    for piece in (_element(printer, "mo", "("), printed, _element(printer, "mo", ")")):
        row.appendChild(piece)
    return row


class Matrix(Shown):
    """A head whose value is a matrix, so that the order of factors counts."""

    is_commutative = False


class Grouped(Matrix):
    """A part in parentheses."""

    def latex_text(self, printer: Any) -> str:
        return rf"\left({printer._print(self.args[0])}\right)"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*printer._print(self.args[0]).parens())

    def mathml_parts(self, printer: Any) -> list[Any]:
        return [_element(printer, "mo", "("), printer._print(self.args[0]), _element(printer, "mo", ")")]


class Scalar(Shown):
    """A number that is a product of vectors."""

    def latex_text(self, printer: Any) -> str:
        return str(printer._print(self.args[0]))

    def text_form(self, printer: Any) -> Any:
        return printer._print(self.args[0])

    def mathml_parts(self, printer: Any) -> list[Any]:
        return [printer._print(self.args[0])]


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

    def mathml_parts(self, printer: Any) -> list[Any]:
        above = printer.dom.createElement("msup")
        above.appendChild(_in_mathml(printer, self._base()))
        above.appendChild(_element(printer, "mo", self._mark(2)))
        return [above]


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

    def mathml_parts(self, printer: Any) -> list[Any]:
        found: list[Any] = []
        for part in self.args:
            found += [_element(printer, "mo", self.sign)] * bool(found) + [_in_mathml(printer, part)]
        return found


class CellQuotient(Cellwise):
    """A quotient cell by cell."""

    latex_sign, sign = r"\oslash", "⊘"


class CellPower(Matrix):
    """A power cell by cell."""

    def latex_text(self, printer: Any) -> str:
        return rf"{_in_latex(printer, self.args[0])}^{{\circ {printer._print(self.args[1])}}}"

    def text_form(self, printer: Any) -> Any:
        above = prettyForm(*stringPict.next("∘", printer._print(self.args[1])))
        return prettyForm(_in_text(printer, self.args[0]), binding=prettyForm.ATOM) ** above

    def mathml_parts(self, printer: Any) -> list[Any]:
        above = printer.dom.createElement("msup")
        power = printer.dom.createElement("mrow")
        power.appendChild(_element(printer, "mo", "∘"))
        power.appendChild(printer._print(self.args[1]))
        above.appendChild(_in_mathml(printer, self.args[0]))
        above.appendChild(power)
        return [above]


class Norm(Shown):
    """The Euclidean norm of a vector, or Frobenius' of a matrix (second argument: 1)."""

    def latex_text(self, printer: Any) -> str:
        return rf"\left\lVert {printer._print(self.args[0])} \right\rVert" + ("_F" if self.args[1] == 1 else "")

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next("‖", printer._print(self.args[0]), "‖" + ("_F" if self.args[1] == 1 else "")))

    def mathml_parts(self, printer: Any) -> list[Any]:
        parts = [_element(printer, "mo", "‖"), printer._print(self.args[0])]
        if self.args[1] != 1:
            return [*parts, _element(printer, "mo", "‖")]
        below = printer.dom.createElement("msub")
        below.appendChild(_element(printer, "mo", "‖"))
        below.appendChild(_element(printer, "mi", "F"))
        return [*parts, below]


class Unit(Matrix):
    """A vector of ones; with a place, of zeros but for one there."""

    @property
    def _letter(self) -> str:
        return "e" if self.args else "1"

    def latex_text(self, printer: Any) -> str:
        return rf"\mathbf{{{self._letter}}}" + "".join(f"_{{{printer._print(a)}}}" for a in self.args)

    def text_form(self, printer: Any) -> Any:
        return prettyForm({"1": "𝟏", "e": "𝐞"}[self._letter] + "".join(str(a).translate(_BELOW) for a in self.args))

    def mathml_parts(self, printer: Any) -> list[Any]:
        letter = _element(printer, "mi", self._letter)
        letter.setAttribute("mathvariant", "bold")
        if not self.args:
            return [letter]
        below = printer.dom.createElement("msub")
        below.appendChild(letter)
        below.appendChild(printer._print(self.args[0]))
        return [below]


class Softmax(Matrix):
    """Exponentials over their sum, of a vector, or of each row of a matrix (second argument: 1)."""

    def latex_text(self, printer: Any) -> str:
        return rf"\operatorname{{softmax}}\left({printer._print(self.args[0])}\right)"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*stringPict.next("softmax", prettyForm(*printer._print(self.args[0]).parens())))

    def mathml_parts(self, printer: Any) -> list[Any]:
        return [
            _element(printer, "mi", "softmax"), _element(printer, "mo", "("), printer._print(self.args[0]),
            _element(printer, "mo", ")"),
        ]  # fmt: skip


class CellOf(Shown):
    """A cell of an array that is an expression, at indices."""

    def latex_text(self, printer: Any) -> str:
        return f"{_in_latex(printer, self.args[0])}_{{{','.join(printer._print(a) for a in self.args[1:])}}}"

    def text_form(self, printer: Any) -> Any:
        below = "".join(str(a) for a in self.args[1:]).translate(_BELOW)
        return prettyForm(*stringPict.next(_in_text(printer, self.args[0]), f"_{below}"))

    def mathml_parts(self, printer: Any) -> list[Any]:
        below = printer.dom.createElement("msub")
        places = printer.dom.createElement("mrow")
        for place in self.args[1:]:
            places.appendChild(printer._print(place))
        below.appendChild(_in_mathml(printer, self.args[0]))
        below.appendChild(places)
        return [below]


class SumOver(Shown):
    """A sum over all values of an index."""

    def latex_text(self, printer: Any) -> str:
        return rf"\sum_{{{printer._print(self.args[1])}}} {_in_latex(printer, self.args[0])}"

    def text_form(self, printer: Any) -> Any:
        head = prettyForm("∑").below(printer._print(self.args[1]))
        sign = prettyForm(*head)
        sign.baseline = 0
        return prettyForm(*stringPict.next(sign, " ", _in_text(printer, self.args[0])), binding=prettyForm.MUL)

    def mathml_parts(self, printer: Any) -> list[Any]:
        below = printer.dom.createElement("munder")
        below.appendChild(_element(printer, "mo", "∑"))
        below.appendChild(printer._print(self.args[1]))
        return [below, _in_mathml(printer, self.args[0])]


class Bracketed(Shown):
    """Iverson's bracket: 1 where a condition holds, else 0."""

    def __new__(cls, condition: Any) -> Any:
        return Expr.__new__(cls, condition)

    def latex_text(self, printer: Any) -> str:
        return rf"\left[{printer._print(self.args[0])}\right]"

    def text_form(self, printer: Any) -> Any:
        return prettyForm(*printer._print(self.args[0]).parens("[", "]"))

    def mathml_parts(self, printer: Any) -> list[Any]:
        return [_element(printer, "mo", "["), printer._print(self.args[0]), _element(printer, "mo", "]")]

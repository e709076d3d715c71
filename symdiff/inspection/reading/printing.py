"""Formulas as LaTeX, Unicode text, Markdown and MathML: SymPy's printers with the few heads that are spelled otherwise.

Assumes expressions in the order in which they are to be read. Guarantees that this order stays.
"""

from typing import Any

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.mathml import MathMLPresentationPrinter
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.inspection.reading.formula import Equation, Formula, Slope, TotalSlope
from symdiff.inspection.reading.names import latex_name, unicode_name
from symdiff.vocabulary.literals import printable

_TEXT = {c: rf"\{c}" for c in "{}$&#_%"} | {"\\": r"\backslash ", "^": r"\^{}", "~": r"\~{}", "<": r"\lt ", ">": r"\gt "}


class Latex(LatexPrinter):  # type: ignore[misc]
    """LaTeX in the order of the expressions."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__({"order": "none", "ln_notation": False} | (settings or {}))

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:
        return latex_name(expr.name)

    _print_RandomSymbol = _print_Symbol
    _print_Dummy = _print_Symbol

    def _print_Slope(self, expr: Any) -> str:
        d = "d" if isinstance(expr, TotalSlope) else r"\partial"
        order = len(expr.below)
        below = " ".join(f"{d} {self._print(b)}" for b in expr.below)
        if order > 1 and len(set(expr.below)) == 1:
            below = f"{d} {self.parenthesize_super(self._print(expr.below[0]))}^{{{order}}}"
        power = f"^{{{order}}}" if order > 1 else ""
        return rf"\frac{{{d}{power} {self._print(expr.top)}}}{{{below}}}"

    _print_TotalSlope = _print_Slope

    def _print_Nabla(self, expr: Any) -> str:
        return rf"\nabla_{{{self._print(expr.args[1])}}} {self._print(expr.args[0])}"

    def _print_Piecewise(self, expr: Any, exp: Any = None) -> str:
        rows = [rf"{self._print(e)} & {self._condition(c)}" for e, c in expr.args]
        text = r"\begin{cases} " + r" \\ ".join(rows) + r" \end{cases}"
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _condition(self, condition: Any) -> str:
        return r"\text{otherwise}" if condition == sp.true else rf"\text{{if}}\: {self._print(condition)}"


class Unicode(PrettyPrinter):  # type: ignore[misc]
    """Text in two dimensions in the order of the expressions."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__({"order": "none", "use_unicode": True, "wrap_line": False} | (settings or {}))

    def _print_Symbol(self, expr: Any, bold_name: bool = False) -> Any:
        return prettyForm(unicode_name(expr.name))

    _print_Dummy = _print_Symbol

    def _print_Slope(self, expr: Any) -> Any:
        d = "d" if isinstance(expr, TotalSlope) else "∂"
        order = len(expr.below)
        power = {1: "", 2: "²", 3: "³"}.get(order, f"^{order}")
        below = [self._print(b) for b in expr.below]
        if order > 1 and len(set(expr.below)) == 1:
            under = prettyForm(*stringPict.next(d, below[0], power))
        else:
            under = prettyForm(*stringPict.next(*(part for b in below for part in (d, b))))
        over = prettyForm(*stringPict.next(d + power, self._print(expr.top)))
        return over / under

    _print_TotalSlope = _print_Slope

    def _print_Nabla(self, expr: Any) -> Any:
        top, array = self._print(expr.args[0]), self._print(expr.args[1])
        return prettyForm(*stringPict.next("∇_", array, " ", top))


class MathML(MathMLPresentationPrinter):  # type: ignore[misc]
    """Presentation MathML in the order of the expressions."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__({"order": "none"} | (settings or {}))

    def _print_Symbol(self, sym: Any, style: str = "plain") -> Any:
        element = self.dom.createElement("mi")
        element.appendChild(self.dom.createTextNode(unicode_name(sym.name)))
        return element

    def _print_Slope(self, expr: Any) -> Any:
        d = "d" if isinstance(expr, TotalSlope) else "∂"
        order = len(expr.below)
        fraction, over, under = (self.dom.createElement(tag) for tag in ("mfrac", "mrow", "mrow"))
        over.appendChild(self._sign(d + {1: "", 2: "²", 3: "³"}.get(order, f"^{order}")))
        over.appendChild(self._print(expr.top))
        for below in expr.below:
            under.appendChild(self._sign(d))
            under.appendChild(self._print(below))
        fraction.appendChild(over)
        fraction.appendChild(under)
        return fraction

    _print_TotalSlope = _print_Slope

    def _print_Nabla(self, expr: Any) -> Any:
        row, below = self.dom.createElement("mrow"), self.dom.createElement("msub")
        below.appendChild(self._sign("∇"))
        below.appendChild(self._print(expr.args[1]))
        row.appendChild(below)
        row.appendChild(self._print(expr.args[0]))
        return row

    def _sign(self, text: str) -> Any:
        element = self.dom.createElement("mo")
        element.appendChild(self.dom.createTextNode(text))
        return element


def latex_of(expr: Any) -> str:
    """One expression as LaTeX."""
    return str(Latex().doprint(expr))


def _folded(formula: Formula) -> tuple[list[Equation], int, list[Equation], int]:
    """The rows that are shown of results and of pieces, and how many are not."""
    results, pieces = formula.equations[: formula.rows], formula.where[: formula.rows]
    return (
        list(results), len(formula.equations) - len(results) + formula.more, list(pieces), len(formula.where) - len(pieces),
    )  # fmt: skip


def formula_latex(formula: Formula) -> str:
    """A formula as display LaTeX."""
    printer = Latex()
    results, more, pieces, others = _folded(formula)

    def lines(equations: list[Equation], left_out: int) -> list[str]:
        found = [rf"{printer.doprint(e.left)} &= {printer.doprint(e.right)}" for e in equations]
        return found + ([rf"&\;\;\vdots\quad \text{{{left_out} more}}"] if left_out else [])

    rows = lines(results, more)
    if pieces:
        first, *rest = lines(pieces, others)
        rows += [rf"\text{{with}}\quad {first}", *rest]
    rows += [rf"&\text{{{_latex_text(note)}}}" for note in formula.notes]
    return "$$\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}$$"


def _latex_text(text: str) -> str:
    return "".join(_TEXT.get(c, c) for c in printable(text))


def formula_unicode(formula: Formula) -> str:
    """A formula as text for a terminal."""
    results, more, pieces, others = _folded(formula)
    found = [_unicode_row(e) for e in results] + ([f"... {more} more"] if more else [])
    if pieces:
        found += ["with", *(_unicode_row(e) for e in pieces)] + ([f"... {others} more"] if others else [])
    texts = found + [f"({printable(note)})" for note in formula.notes]
    tall = any("\n" in text for text in texts)
    return ("\n\n" if tall else "\n").join(texts)


def _unicode_row(equation: Equation) -> str:
    printer = Unicode()
    left, right = printer._print(equation.left), printer._print(equation.right)
    row = prettyForm(*stringPict.next(left, " = ", right))
    return "\n".join(line.rstrip() for line in row.render(wrap_line=False).split("\n"))


def formula_markdown(formula: Formula) -> str:
    """A formula as Markdown."""
    from dataclasses import replace

    notes = [f"*{_markdown_text(note)}*" for note in formula.notes]
    return "\n\n".join([formula_latex(replace(formula, notes=())), *notes])


def _markdown_text(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>()#+-.!|$" else c for c in printable(text))


def formula_mathml(formula: Formula) -> str:
    """A formula as presentation MathML: a table of three columns."""
    results, more, pieces, others = _folded(formula)
    rows = [_mathml_row(e) for e in results] + ([_mathml_text(f"⋮ {more} more")] if more else [])
    if pieces:
        rows += [_mathml_text("with"), *(_mathml_row(e) for e in pieces)] + ([_mathml_text(f"⋮ {others} more")] if others else [])
    rows += [_mathml_text(note) for note in formula.notes]
    table = '<mtable columnalign="right center left" displaystyle="true">' + "".join(rows) + "</mtable>"
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{table}</math>'


def _mathml_row(equation: Equation) -> str:
    cells = (_mathml_of(equation.left), "<mo>=</mo>", _mathml_of(equation.right))
    return "<mtr>" + "".join(f"<mtd>{cell}</mtd>" for cell in cells) + "</mtr>"


def _mathml_of(expr: Any) -> str:
    printer = MathML()
    return str(printer._print(sp.sympify(expr)).toxml())


def _mathml_text(text: str) -> str:
    spelled = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f'<mtr><mtd></mtd><mtd></mtd><mtd columnalign="left"><mtext>{spelled}</mtext></mtd></mtr>'

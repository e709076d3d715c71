"""Expressions as LaTeX and Unicode text: SymPy's printers with the few heads that are spelled otherwise.

Assumes expressions in the order in which they are to be read. Guarantees that this order stays.
"""

import re
from typing import Any, NamedTuple

import sympy as sp
from sympy.printing.latex import LatexPrinter
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.inspection.expressions import signed_latex, signed_text
from symdiff.inspection.reading.names import latex_name, unicode_name

_WORD = re.compile(r"(\\\w+\{)?\\mathrm\{")
_SPREAD = (sp.Add, sp.Piecewise, sp.Mod, sp.Rel, sp.Mul)


class Factors(NamedTuple):
    """A product as it is printed: its sign, what stands above and below a fraction bar, and what beside it."""

    negative: bool
    over: list[Any]
    under: Any
    beside: list[Any]


def factors_of(expr: Any) -> Factors:
    """A product, or an inverse, as it is printed: what follows the inverse stands beside the fraction."""
    args = list(expr.args) if isinstance(expr, sp.Mul) else [expr]
    negative = bool(args[0].is_Number and args[0].is_negative)
    if negative:
        args[0] = -args[0]
    bar = next((k for k, a in enumerate(args) if a.is_commutative and isinstance(a, sp.Pow) and a.exp == -1), None)
    over, beside = (args, []) if bar is None else (args[:bar], args[bar + 1 :])
    over = [a for a in over if a != 1] or [sp.S.One]
    return Factors(negative, over, None if bar is None else args[bar].base, beside)


class Latex(LatexPrinter):  # type: ignore[misc]
    """LaTeX in the order of the expressions."""

    def __init__(self, settings: Any = None) -> None:
        super().__init__({"order": "none", "inv_trig_style": "full", "fold_frac_powers": True} | (settings or {}))

    def _print_Symbol(self, expr: Any, style: str = "plain") -> str:
        return latex_name(expr.name)

    _print_RandomSymbol = _print_Symbol
    _print_Dummy = _print_Symbol

    def _print_Add(self, expr: Any, order: Any = None) -> str:
        text = ""
        for term in expr.args:
            found = self._print(term)
            found = rf"\left({found}\right)" if isinstance(term, (sp.Add, sp.Piecewise)) else found
            text += found if not text else f" - {found[1:].lstrip()}" if found.startswith("-") else f" + {found}"
        return text

    def _print_Mul(self, expr: Any) -> str:
        sign, over, under, beside = factors_of(expr)
        bare = len(over) == 1 and not (sign and under is None)
        text = self._print(over[0]) if bare else self._times(over)
        if under is not None:
            text = rf"\frac{{{text}}}{{{self._print(under)}}}"
        return ("- " if sign else "") + " ".join([text, *([self._times(beside)] if beside else [])])

    def _times(self, factors: list[Any]) -> str:
        texts = [self._factor(f) for f in factors]
        return "".join(self._gap(a, b) + b for a, b in zip(["", *texts], texts, strict=False))

    def _factor(self, factor: Any) -> str:
        text = self._print(factor)
        loose = isinstance(factor, _SPREAD) or text.startswith("-")
        return rf"\left({text}\right)" if loose else str(text)

    def _gap(self, before: str, after: str) -> str:
        if before and after[0].isdigit():
            return r" \cdot "
        wide = _WORD.match(after) or (_WORD.match(before) and not before.endswith(")"))
        return r"\, " if before and wide else " " if before else ""

    def _print_Float(self, expr: Any) -> str:
        return re.sub(r"^(-?)1\.0 \\cdot |\.0(?= \\cdot)", r"\1", str(super()._print_Float(expr)))

    def _hprint_BesselBase(self, expr: Any, exp: Any, sym: str) -> str:
        return signed_latex(f"{sym}_{{#}}", expr.args, self, exp)

    def _print_conjugate(self, expr: Any, exp: Any = None) -> str:
        bar = "bar" if expr.args[0].is_Symbol else "overline"
        text = rf"\{bar}{{{self._print(expr.args[0])}}}"
        return text if exp is None else f"{text}^{{{exp}}}"

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

    def _print_Mul(self, expr: Any) -> Any:
        sign, over, under, beside = factors_of(expr)
        bare = len(over) == 1 and not (sign and under is None)
        text = self._print(over[0]) if bare else prettyForm.__mul__(*map(self._factor, over))
        if under is not None:
            text = text / self._print(under)
        if beside:
            text = prettyForm.__mul__(text, *map(self._factor, beside))
        return prettyForm(*stringPict.next("-", text), binding=prettyForm.NEG) if sign else text

    def _factor(self, factor: Any) -> Any:
        text = self._print(factor)
        return prettyForm(*text.parens()) if isinstance(factor, _SPREAD) else text

    def _signed(self, expr: Any, head: str) -> Any:
        """A call of a function by its sign, in which # stands for the first argument."""
        args = expr.args
        if "#" in head:
            order, *args = args
            plain = order.is_Symbol or (order.is_Integer and order >= 0)
            head = unicode_name(head.replace("#", str(order))) if plain else head.replace("#", f"({order})")
        return signed_text(head, args, self)


_SIGNS = {  # in LaTeX and in text, "" for SymPy's own
    "digamma": (r"\psi", "ψ"), "polygamma": (r"\psi_{#}", "ψ_#"), "loggamma": (r"\log \Gamma", "log Γ"),
    "log2": (r"\log_{2}", ""), "log10": (r"\log_{10}", ""), "Max": ("", "max"), "Min": ("", "min"),
    "airyai": (r"\operatorname{Ai}", ""), "airyaiprime": (r"\operatorname{Ai}'", ""),
    "airybi": (r"\operatorname{Bi}", ""), "airybiprime": (r"\operatorname{Bi}'", ""),
    **{f"bessel{letter}": ("", f"{letter.upper()}_#") for letter in "jyik"},
}  # fmt: skip
for _name, (_latex, _text) in _SIGNS.items():
    if _latex:
        setattr(Latex, f"_print_{_name}", lambda self, e, exp=None, head=_latex: signed_latex(head, e.args, self, exp))
    if _text:
        setattr(Unicode, f"_print_{_name}", lambda self, expr, head=_text: self._signed(expr, head))


def latex_of(expr: Any) -> str:
    """One expression as LaTeX."""
    return str(Latex().doprint(expr))

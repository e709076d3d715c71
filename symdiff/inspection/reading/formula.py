"""A derivation as a person reads it: equations, the shared pieces that they name, and footnotes.

Assumes SymPy expressions on both sides. Guarantees that the same `Formula` is LaTeX, Unicode text, Markdown and MathML, each
made when it is asked for.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import sympy as sp
from sympy.core.expr import Expr

ROWS = 12  # rows shown of a longer derivation


class Slope(Expr):
    """The left side of a derivative: what is derived, and by what; for a second derivative by both."""

    def __new__(cls, top: Any, *below: Any) -> "Slope":
        return Expr.__new__(cls, top, *below)  # type: ignore[return-value]

    @property
    def top(self) -> Any:
        """What is derived."""
        return self.args[0]

    @property
    def below(self) -> tuple[Any, ...]:
        """What it is derived by."""
        return self.args[1:]


class TotalSlope(Slope):
    """The derivative of a function of one number."""


class Nabla(Expr):
    """The left side of a gradient by a whole array: what is derived, and the array."""

    def __new__(cls, top: Any, array: Any) -> "Nabla":
        return Expr.__new__(cls, top, array)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Equation:
    """One line: two SymPy expressions."""

    left: Any
    right: Any


@dataclass(frozen=True, slots=True)
class Formula:
    """What a graph computes, for readers.

    `equations` are the results, `where` the shared pieces, each before those that use it, and `notes` what else must be known,
    in words. `more` are results that were not worked out, since so many are not shown. `print` gives Unicode; `latex`,
    `unicode`, `markdown` and `mathml` are texts of at most `ROWS` rows each of results and pieces; `full` is the same formula
    with all rows.

    >>> print(Formula((Equation(sp.Symbol("y"), sp.Symbol("x")**2),)))
         2
    y = x
    """

    equations: tuple[Equation, ...]
    where: tuple[Equation, ...] = ()
    notes: tuple[str, ...] = ()
    more: int = 0
    rows: int = ROWS
    whole: Any = field(default=None, compare=False, repr=False)

    @property
    def full(self) -> "Formula":
        """The formula with all rows."""
        found = self if self.whole is None else self.whole()
        return replace(found, rows=10**9)

    @property
    def latex(self) -> str:
        """Display LaTeX: equations aligned at their signs, notes below."""
        from symdiff.inspection.reading.printing import formula_latex

        return formula_latex(self)

    @property
    def unicode(self) -> str:
        """Text for a terminal, fractions and powers set in two dimensions."""
        from symdiff.inspection.reading.printing import formula_unicode

        return formula_unicode(self)

    @property
    def markdown(self) -> str:
        """Markdown with LaTeX between dollar signs."""
        from symdiff.inspection.reading.printing import formula_markdown

        return formula_markdown(self)

    @property
    def mathml(self) -> str:
        """Presentation MathML, which browsers show by themselves."""
        from symdiff.inspection.reading.printing import formula_mathml

        return formula_mathml(self)

    def _repr_latex_(self) -> str:
        return self.latex

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __str__(self) -> str:
        return self.unicode

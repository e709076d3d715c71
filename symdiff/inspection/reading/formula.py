"""A derivation as a person reads it: equations, the shared pieces that they name, and footnotes.

Assumes SymPy expressions on both sides. Guarantees that the same `Formula` is LaTeX, Unicode text, Markdown and MathML, each
made when it is asked for.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from symdiff.inspection.reading import printing
from symdiff.inspection.reading.equations import Lines


@dataclass(frozen=True, slots=True)
class Formula(Lines):
    """What a graph computes, for readers.

    `print` gives Unicode; `latex`, `unicode`, `markdown` and `mathml` are texts of the first rows of its results and of the
    pieces that these share; `full` is the same formula with all rows.

    >>> import sympy as sp
    >>> from symdiff.inspection.reading.equations import Equation
    >>> print(Formula((Equation(sp.Symbol("y"), sp.Symbol("x")**2),)))
         2
    y = x
    """

    whole: Any = field(default=None, compare=False, repr=False)

    @property
    def full(self) -> "Formula":
        """The formula with all rows."""
        found = self if self.whole is None else self.whole()
        return replace(found, rows=10**9)

    @property
    def latex(self) -> str:
        """Display LaTeX: equations aligned at their signs, notes below."""
        return printing.formula_latex(self)

    @property
    def unicode(self) -> str:
        """Text for a terminal, fractions and powers set in two dimensions."""
        return printing.formula_unicode(self)

    @property
    def markdown(self) -> str:
        """Markdown with LaTeX between dollar signs."""
        return printing.formula_markdown(self)

    @property
    def mathml(self) -> str:
        """Presentation MathML, which browsers show by themselves."""
        return printing.formula_mathml(self)

    def _repr_latex_(self) -> str:
        return self.latex

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __str__(self) -> str:
        return self.unicode

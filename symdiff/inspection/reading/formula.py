"""A derivation as a person reads it: equations, the shared pieces that they name, and footnotes.

Assumes SymPy expressions on both sides. Guarantees that the same `Formula` is LaTeX, Unicode text, Markdown and MathML, each
made when it is asked for.
"""

from dataclasses import dataclass, field, replace
from typing import Any

from sympy.printing.pretty.stringpict import prettyForm, stringPict

from symdiff.inspection.reading.equations import ROWS, Equation
from symdiff.inspection.reading.mathml import mathml_of
from symdiff.inspection.reading.names import SPELLED, latex_name
from symdiff.inspection.reading.printing import Unicode, latex_of
from symdiff.vocabulary.literals import printable

_TEXT = SPELLED | {"^": r"\^{}", "~": r"\~{}"}


@dataclass(frozen=True, slots=True)
class Formula:
    """What a graph computes, for readers.

    `equations` are the results, `where` the shared pieces, each before those that use it, and `notes` what else must be known,
    in words. `more` results and `others` of the pieces were not worked out.

    `print` gives Unicode; `latex`, `unicode`, `markdown` and `mathml` are texts of the first `rows` of its results and of the
    pieces that these share; `full` is the same formula with all rows.

    >>> import sympy as sp
    >>> from symdiff.inspection.reading.equations import Equation
    >>> print(Formula((Equation(sp.Symbol("y"), sp.Symbol("x")**2),)))
         2
    y = x
    """

    equations: tuple[Equation, ...]
    where: tuple[Equation, ...] = ()
    notes: tuple[str, ...] = ()
    more: int = 0
    others: int = 0
    rows: int = ROWS
    whole: Any = field(default=None, compare=False, repr=False)

    @property
    def full(self) -> "Formula":
        """The formula with all rows."""
        found = self if self.whole is None else self.whole()
        return replace(found, rows=10**9)

    def _folded(self) -> tuple[tuple[tuple[Equation, ...], int], ...]:
        """The rows that are shown of results and of pieces, and how many are not."""
        parts = (self.equations, self.more), (self.where, self.others)
        return tuple((rows[: self.rows], len(rows[self.rows :]) + more) for rows, more in parts)

    @property
    def latex(self) -> str:
        """Display LaTeX: equations aligned at their signs, notes below."""
        rows, where = (
            [rf"{latex_of(e.left)} &= {latex_of(e.right)}{_latex_places(e)}" for e in equations]
            + [rf"&\;\;\vdots\quad \text{{{more} more}}"] * (more > 0)
            for equations, more in self._folded()
        )
        rows += [*(rf"\text{{with}}\quad {row}" for row in where[:1]), *where[1:]]
        rows += [rf"&\text{{{_latex_text(note)}}}" for note in self.notes]
        return "$$\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}$$"

    @property
    def unicode(self) -> str:
        """Text for a terminal, fractions and powers set in two dimensions."""
        rows, where = (
            [_unicode_row(e) for e in equations] + [f"... {more} more"] * (more > 0) for equations, more in self._folded()
        )
        texts = [*rows, *(["with", *where] if where else []), *(f"({printable(note)})" for note in self.notes)]
        tall = any("\n" in text for text in texts)
        return ("\n\n" if tall else "\n").join(texts)

    @property
    def markdown(self) -> str:
        """Markdown with LaTeX between dollar signs."""
        return "\n\n".join([replace(self, notes=()).latex, *(f"*{_markdown_text(note)}*" for note in self.notes)])

    @property
    def mathml(self) -> str:
        """Presentation MathML, which browsers show by themselves."""
        return mathml_of(self.latex)

    def _repr_latex_(self) -> str:
        return self.latex

    def _repr_markdown_(self) -> str:
        return self.markdown

    def __str__(self) -> str:
        return self.unicode


def _latex_places(equation: Equation) -> str:
    if equation.at is None:
        return ""
    index, first, last = equation.at
    return rf", \quad {latex_name(index)} = {first}, \ldots, {last}"


def _latex_text(text: str) -> str:
    return "".join(_TEXT.get(c, c) for c in printable(text))


def _unicode_row(equation: Equation) -> str:
    printer = Unicode()
    left, right = printer._print(equation.left), printer._print(equation.right)
    places = "" if equation.at is None else "   ({} = {}, ..., {})".format(*equation.at)
    row = prettyForm(*stringPict.next(left, " = ", right, places))
    return "\n".join(line.rstrip() for line in row.render(wrap_line=False).split("\n"))


def _markdown_text(text: str) -> str:
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>()#+-.!|$" else c for c in printable(text))

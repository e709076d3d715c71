"""The parts of reading forms: equations, and the left sides that SymPy has no head for.

Assumes SymPy expressions on both sides.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from symdiff.inspection.reading.matrix_heads import Shown, row_latex, row_text

ROWS = 12  # rows shown of a longer derivation
_GAP = (" ", "")  # in LaTeX


class Slope(Shown):
    """The left side of a derivative: what is derived, and by what; for a second derivative by both."""

    sign = (r"\partial", "∂")

    @property
    def top(self) -> Any:
        """What is derived."""
        return self.args[0]

    @property
    def below(self) -> tuple[Any, ...]:
        """What it is derived by."""
        return self.args[1:]

    def halves(self) -> tuple[list[Any], list[Any]]:
        """What stands above and below the fraction bar."""
        order, same = len(self.below), len(set(self.below)) == 1
        power = (f"^{{{order}}}" * (order > 1), ("", "²", "³", f"^{order}")[min(order, 4) - 1])
        below = [part for b in (self.below[:1] if same else self.below) for part in (_GAP, self.sign, _GAP, b)]
        return [self.sign, power, _GAP, self.top], below[1:] + [power] * same

    def latex_text(self, printer: Any) -> str:
        over, under = (row_latex(half, printer) for half in self.halves())
        return rf"\frac{{{over}}}{{{under}}}"

    def text_form(self, printer: Any) -> Any:
        over, under = (row_text(half, printer) for half in self.halves())
        return over / under


class TotalSlope(Slope):
    """The derivative of a function of one number."""

    sign = ("d", "d")


class Nabla(Shown):
    """The left side of a gradient by a whole array: what is derived, and the array."""

    def parts(self) -> Sequence[Any]:
        return (r"\nabla_{", "∇_"), self.args[1], ("} ", " "), self.args[0]


@dataclass(frozen=True, slots=True)
class Equation:
    """One line: two SymPy expressions; `at` are the first and last place of an index for which it holds."""

    left: Any
    right: Any
    at: tuple[str, int, int] | None = None

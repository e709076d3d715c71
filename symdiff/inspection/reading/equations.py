"""The parts of reading forms: equations, and the left sides that SymPy has no head for.

Assumes SymPy expressions on both sides.
"""

from dataclasses import dataclass
from typing import Any

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
    """One line: two SymPy expressions; `at` are the first and last place of an index for which it holds."""

    left: Any
    right: Any
    at: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Lines:
    """The rows of a formula: `equations` are the results, `where` the shared pieces, each before those that use it, and `notes`
    what else must be known, in words. `more` results and `others` of the pieces were not worked out.

    Of results and pieces `rows` are shown.
    """

    equations: tuple[Equation, ...]
    where: tuple[Equation, ...] = ()
    notes: tuple[str, ...] = ()
    more: int = 0
    others: int = 0
    rows: int = ROWS

"""Numbers that a trace cannot hold: decimal ones, fractions, texts of numbers, matrices of the old class.

Assumes calls of the types themselves. Guarantees Python's own results for values that are not traced. Refuses traced ones, with
`TraceError`.
"""

import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import holds_traced
from symdiff.vocabulary.libraries import user_line

Standing = Callable[..., Any]
_MARK = "<traced "


def _refusing(kind: Any, name: str, instead: str) -> Standing:
    def made(*args: Any, **kwargs: Any) -> Any:
        if any(holds_traced(a) or (isinstance(a, str) and _MARK in a) for a in args):
            raise TraceError(f"{user_line()}: {name} of a traced value; {instead}")
        return kind(*args, **kwargs)

    return made


def of_number(name: str, otherwise: Standing) -> Standing:
    """`float` or `int`, which refuse the text that shows a traced value."""

    def made(*args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str) and _MARK in args[0]:
            raise TraceError(f"{user_line()}: {name}() of a text that shows a traced value; use the value itself")
        return otherwise(*args, **kwargs)

    return made


_BINARY = "derivatives are computed with floating numbers, so leave it as it is"
EXACT_NUMBERS: dict[tuple[str, str], Standing] = {
    ("decimal", "Decimal"): _refusing(decimal.Decimal, "decimal.Decimal", _BINARY),
    ("fractions", "Fraction"): _refusing(fractions.Fraction, "fractions.Fraction", _BINARY),
    ("numpy", "matrix"): _refusing(np.matrix, "np.matrix", "use np.array and @ for the product of matrices"),
}

"""Numbers that a trace cannot hold: decimal ones, fractions, texts of numbers.

Assumes calls of the types themselves. Guarantees Python's own results for values that are not traced. Refuses traced ones, with
`TraceError`.
"""

import decimal
import fractions
from typing import Any

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import holds_traced
from symdiff.tracing.values.standing import stands_for
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Function

_MARK = "<traced "


def _refusing(kind: Any, name: str, instead: str) -> Function:
    def made(*args: Any, **kwargs: Any) -> Any:
        if any(holds_traced(a) or (isinstance(a, str) and _MARK in a) for a in args):
            raise TraceError(f"{user_line()}: {name} of a traced value; {instead}")
        return kind(*args, **kwargs)

    return made


_BINARY = "derivatives are computed with floating numbers, so leave it as it is"
for _kind in (decimal.Decimal, fractions.Fraction):
    stands_for(_kind, always=True)(_refusing(_kind, f"{_kind.__module__}.{_kind.__name__}", _BINARY))


def check_number(name: str, value: Any) -> None:
    """Refuse the text that shows a traced value, which is no text of a number."""
    if isinstance(value, str) and _MARK in value:
        raise TraceError(f"{user_line()}: {name}() of a text that shows a traced value; use the value itself")

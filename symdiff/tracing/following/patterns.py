"""What stands for a class, or for True and False, in a `match` statement of a clone.

Assumes the class of a pattern, looked up. Guarantees that a traced value matches where the number that it stands for would,
and that other subjects match as they do.
"""

from typing import Any

import numpy as np

from symdiff.tracing.library.builtin_functions import is_instance
from symdiff.tracing.values.truths import traced_is

_SAMPLES = (
    0,
    0.0,
    0j,
    False,
    np.float64(0),
    np.float32(0),
    np.complex128(0),
    np.complex64(0),
    np.bool_(0),
    np.int64(0),
    np.empty(0),
)
_made: dict[Any, Any] = {}


def pattern(cls: Any) -> Any:
    """The class to match in place of one: itself where no number is of it."""
    if not isinstance(cls, (bool, type)) or (type(cls) is not bool and not any(isinstance(v, cls) for v in _SAMPLES)):
        return cls
    key = (type(cls), cls)
    if key not in _made:
        _made[key] = _stand_in(cls)
    return _made[key]


def _stand_in(cls: Any) -> Any:
    def matches(_: Any, subject: Any) -> bool:
        if type(cls) is bool:
            return bool(traced_is(subject, cls))
        return is_instance(subject, cls)

    base = int if cls is bool else cls if cls in (int, float) else object  # `case float(x)` names the subject itself
    return type("Matching", (type,), {"__instancecheck__": matches})(getattr(cls, "__name__", str(cls)), (base,), {})

"""What stands for NumPy's functions that are written with simpler ones, by function.

Assumes the functions' own arguments, one of them with a traced cell. Guarantees NumPy's results. Refuses arguments that have no
meaning for traced values, with `TraceError` at the user's line.
"""

from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.library.calculus import CALCULUS
from symdiff.tracing.library.comparing import COMPARING
from symdiff.tracing.library.fourier import FOURIER
from symdiff.tracing.library.linear_algebra import LINEAR_ALGEBRA, einsum
from symdiff.tracing.library.polynomials import POLYNOMIALS
from symdiff.tracing.library.shaping import SHAPING, apply_along_axis, apply_over_axes, sliding_window_view
from symdiff.tracing.library.statistics import STATISTICS
from symdiff.tracing.values.answers import check_read, signature_of

_CALLING_BACK = (apply_along_axis, apply_over_axes)  # errors of the user's own function stay as they are


def called(implementation: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], origin: str) -> Any:
    """The implementation of the function `name`, its own errors told at the user's line."""
    kwargs = {k: v for k, v in kwargs.items() if not (k in ("out", "dtype", "where", "initial") and _is_default(v))}
    try:
        bound = signature_of(implementation).bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(f"{origin}: {name} of a traced value: {error}; leave these arguments away") from None
    check_read(implementation, bound, name, origin)
    if implementation in _CALLING_BACK:
        return implementation(*args, **kwargs)
    try:
        return implementation(*args, **kwargs)
    except (ValueError, IndexError, TypeError) as error:
        text = str(error)
        own = isinstance(error, np.linalg.LinAlgError) or text.startswith(origin)
        raise (error if own else TraceError(f"{origin}: {name}: {text}")) from None


def _is_default(value: Any) -> bool:
    return value is None or value is np._NoValue or value is True


def _composed() -> dict[Any, Any]:
    of_numpy = CALCULUS + COMPARING + POLYNOMIALS + SHAPING + STATISTICS
    found = {
        getattr(module, f.__name__): f
        for module, functions in ((np.fft, FOURIER), (np.linalg, LINEAR_ALGEBRA), (np, of_numpy))
        for f in functions
        if hasattr(module, f.__name__)  # older versions of NumPy have fewer
    }
    return found | {np.einsum: einsum, np.lib.stride_tricks.sliding_window_view: sliding_window_view}


COMPOSED = _composed()

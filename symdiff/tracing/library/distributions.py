"""Methods of SciPy's distributions at traced values: those of the normal one, written with functions that have rules.

Assumes methods of the objects of `scipy.stats`. Guarantees SciPy's values up to rounding. Refuses other distributions, with
`TraceError` that says what to write.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.tracing.values.operands import as_array, takes_traced
from symdiff.vocabulary.libraries import user_line

_LOG_ROOT = 0.5 * math.log(2 * math.pi)


def _special() -> Any:
    from scipy import special  # type: ignore[import-untyped]

    return special


_NORMAL: dict[str, Callable[[Any, Any], Any]] = {
    "pdf": lambda z, scale: np.exp(-0.5 * z * z - _LOG_ROOT) / scale,
    "logpdf": lambda z, scale: -0.5 * z * z - _LOG_ROOT - np.log(scale),
    "cdf": lambda z, scale: _special().ndtr(z),
    "logcdf": lambda z, scale: _special().log_ndtr(z),
    "sf": lambda z, scale: _special().ndtr(-z),
    "logsf": lambda z, scale: _special().log_ndtr(-z),
}


def of_distribution(f: Any, otherwise: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a distribution; `otherwise` is called where no value is traced."""
    kind, name = type(f.__self__).__name__, f.__name__

    def method(*args: Any, **kwargs: Any) -> Any:
        if not takes_traced(args, kwargs):
            return otherwise(*args, **kwargs)
        if kind == "norm_gen" and name in _NORMAL:
            return _normal(name, *args, **kwargs)
        if kind == "norm_gen" and name in ("ppf", "isf"):
            return _quantile(name, *args, **kwargs)
        raise TraceError(
            f"{user_line()}: {kind.removesuffix('_gen')}.{name} of scipy.stats at a traced value; write its formula: "
            "np.exp, np.log and scipy.special's gammaln, gammainc, betainc, ndtr, ... are followed"
        )

    return method


def _normal(name: str, x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    x, loc, scale = as_array(x), as_array(loc), as_array(scale)
    return _NORMAL[name]((x - loc) / scale, scale)


def _quantile(name: str, q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    z = _special().ndtri(as_array(q))
    return as_array(loc) + as_array(scale) * (z if name == "ppf" else -z)

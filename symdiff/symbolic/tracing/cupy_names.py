"""CuPy's functions in a traced function: `cp.sin(x)` of a traced value is `np.sin(x)`, a special function its rule.

Assumes functions of CuPy's that have NumPy's or SciPy's names. Guarantees that CuPy is never imported here and that calls
without traced values go where they were meant to, but for the makers of arrays, which make NumPy's. Refuses, with
`TraceError`, functions that have no counterpart.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff import structures
from symdiff.errors import TraceError
from symdiff.symbolic.rulebook import default_rules
from symdiff.symbolic.tracing.functions import call_rule, on_arrays
from symdiff.symbolic.tracing.reducing import REDUCING
from symdiff.symbolic.tracing.tracer import is_traced, user_line

_SPECIAL = "cupyx.scipy.special"
_SAME = frozenset({"asarray", "ascontiguousarray", "asfortranarray", "asanyarray", "array"})  # what is traced is an array
_MAKERS = frozenset(
    "zeros ones empty full eye identity arange linspace array zeros_like ones_like empty_like full_like".split()
)
_OF_SPECIAL = frozenset({"logsumexp", "softmax", "log_softmax"})


def of_cupy(value: Any) -> bool:
    """Whether a value is a function of CuPy's."""
    if isinstance(value, type) or not callable(value):
        return False
    return _root(getattr(value, "__module__", None) or "") or _root(type(value).__module__)


def _root(name: str) -> bool:
    return name.partition(".")[0] in ("cupy", "cupyx")


def spelled(function: Callable[..., Any], call: Callable[[Any], Any]) -> Callable[..., Any]:
    """What stands for a function of CuPy's in a trace; `call` says what stands for NumPy's."""
    module, name = getattr(function, "__module__", None) or "cupy", function.__name__
    for prefix, home in (("cupyx_scipy_special_", _SPECIAL), ("cupy_", "cupy")):  # CuPy's ufuncs
        if name.startswith(prefix):
            module, name = home, name.removeprefix(prefix)
            break
    twin = getattr(np.linalg if module.startswith("cupy.linalg") else np, name, None)

    @functools.wraps(function, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_traced, structures.leaves((args, kwargs), none_is_leaf=True))):
            return call(twin)(*args, **kwargs) if name in _MAKERS else function(*args, **kwargs)
        if name in _SAME and is_traced(args[0]):
            return _array(*args, copied=name == "array", **kwargs)
        if module.startswith(_SPECIAL):
            return _special(name, args, kwargs)
        if not callable(twin):
            raise TraceError(f"{user_line()}: {module}.{name} of a traced value has no counterpart in NumPy")
        return call(twin)(*args, **kwargs)

    return called


def _array(x: Any, dtype: Any = None, copy: bool | None = None, copied: bool = False, **_: Any) -> Any:
    """A traced value as an array of its own, or as it is."""
    if dtype is not None and np.dtype(dtype) != x.dtype:
        return x.astype(dtype)
    return x.copy() if copied and copy is not False else x


def _special(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A special function on traced values, by its rule."""
    if name in _OF_SPECIAL:
        return on_arrays(REDUCING[name], args, kwargs, user_line(), name)
    rules = (default_rules().lookup(home, name, len(args)) for home in ("scipy.special", "symdiff.special"))
    rule = next((r for r in rules if r is not None), None)
    if rule is None or kwargs:
        raise TraceError(f"{user_line()}: cupyx.scipy.special.{name} of a traced value has no rule; sd.diffrule adds one")
    return call_rule(rule, args, user_line())

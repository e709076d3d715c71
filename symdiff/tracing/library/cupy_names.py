"""CuPy's functions in a traced function: `cp.sin(x)` of a traced value is `np.sin(x)`, a special function its rule.

Assumes functions of CuPy's that have NumPy's or SciPy's names. Guarantees that CuPy is never imported here and that calls
without traced values go where they were meant to, but for the makers of arrays, which make NumPy's. Refuses, with
`TraceError`, functions that have no counterpart.
"""

import functools
import itertools
import sys
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.rulebooks.book import default_rules, functions_without_rule
from symdiff.tracing.library.atoms import trace_rule_call
from symdiff.tracing.values.standing import STANDING, call_standing
from symdiff.tracing.values.tracer import is_traced
from symdiff.vocabulary import structures
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.signatures import Arguments, Function, Keywords, Lookup

_SPECIAL = "cupyx.scipy.special"
_SAME = frozenset({"asarray", "ascontiguousarray", "asfortranarray", "asanyarray", "array"})  # what is traced is an array
_MAKERS = frozenset(
    "zeros ones empty full eye identity arange linspace array zeros_like ones_like empty_like full_like".split()
)


def instead_of_cupy(function: Function, call: Lookup) -> Function:
    """What stands for a function of CuPy's in a trace; `call` says what stands for NumPy's."""
    module, name = getattr(function, "__module__", None) or "cupy", function.__name__.removeprefix("cupy_")
    special = _special_names(function)
    # CuPy defines dot, kron and others in cupy.linalg.
    twin = getattr(np.linalg, name, None) if module.startswith("cupy.linalg") else None
    twin = twin or getattr(np, name, None)

    @functools.wraps(function, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_traced, structures.all_leaves((args, kwargs)))):
            return call(twin)(*args, **kwargs) if name in _MAKERS else function(*args, **kwargs)
        if name in _SAME and is_traced(args[0]):
            return _array(*args, copied=name == "array", **kwargs)
        if special:
            return _special(special, args, kwargs)
        if not callable(twin):
            raise TraceError(f"{user_line()}: {module}.{name} of a traced value has no counterpart in NumPy")
        return call(twin)(*args, **kwargs)

    return called


def _array(x: Any, dtype: Any = None, copy: bool | None = None, copied: bool = False, **_: Any) -> Any:
    """A traced value as an array of its own, or as it is."""
    if dtype is not None and np.dtype(dtype) != x.dtype:
        return x.astype(dtype)
    return x.copy() if copied and copy is not False else x


def _special_names(function: Any) -> list[str]:
    """The names of a function in `cupyx.scipy.special`; those that its ufuncs bear are of many kinds."""
    module = sys.modules.get(_SPECIAL)  # where there is such a function, somebody has imported it
    return [name for name, value in vars(module).items() if value is function] if module else []


def _special(names: list[str], args: Arguments, kwargs: Keywords) -> Any:
    """A special function on traced values, by its rule or its rules."""
    book = default_rules()
    for name in names:
        row = STANDING.get(f"symdiff.special.{name}")
        if row is not None:
            return call_standing(row.name, row, args, kwargs)
        for home in () if kwargs else ("scipy.special", "symdiff.special", "numpy"):
            rule = book.lookup(home, name, len(args))
            if rule is not None:
                return trace_rule_call(rule, args)
            parts = (book.lookup(home, f"{name}[{k}]", len(args)) for k in itertools.count())
            several = tuple(itertools.takewhile(lambda part: part is not None, parts))
            if several:
                return tuple(trace_rule_call(part, args) for part in several)
    reasons = [reason for name in names if (reason := functions_without_rule().get(("scipy.special", name)))]
    reason = reasons[0] if reasons else "no rule; sd.diffrule adds one"
    raise TraceError(f"{user_line()}: cupyx.scipy.special.{names[0]} has no derivative: {reason}")

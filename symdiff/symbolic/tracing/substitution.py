"""Replaces, for one trace, the user's functions that have a derivative rule by calls that are recorded.

Assumes plain Python functions reached through globals and closures. Guarantees that nothing is patched: the function and
those it calls are copied with their own globals and cells, and only when a rule for a Python function is in force.
Refuses nothing; what is reached in another way runs as it stands.
"""

import types
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.symbolic.tracing.tracer import Tracer

_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree", "math", "cmath", "builtins")


def substituted(f: Callable[..., Any], rules: Any) -> Callable[..., Any]:
    """f itself, or a copy in which functions with a rule in `rules` are recorded instead of run."""
    functions = {} if rules is None else rules.functions()
    if not functions:
        return f
    return _copy(f, functions, {})


def _copy(value: Any, functions: dict[Any, Any], copies: dict[int, Any]) -> Any:
    if not isinstance(value, types.FunctionType):
        return value
    if id(value) in copies:
        return copies[id(value)]
    rule = functions.get((value.__module__, value.__name__))
    if rule is not None:
        copies[id(value)] = recorded = _recording(value, rule)
        return recorded
    if (value.__module__ or "").split(".")[0] in _SKIPPED:
        return value
    namespace = dict(value.__globals__)
    cells = tuple(types.CellType() for _ in value.__closure__ or ())
    copy = types.FunctionType(value.__code__, namespace, value.__name__, value.__defaults__, cells or None)
    copy.__kwdefaults__ = value.__kwdefaults__
    copies[id(value)] = copy
    for name in _names(value.__code__):
        if name in namespace:
            namespace[name] = _copy(namespace[name], functions, copies)
    for cell, old in zip(cells, value.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copy(old.cell_contents, functions, copies)
        except ValueError:
            pass  # an empty cell stays empty
    return copy


def _names(code: types.CodeType) -> list[str]:
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += _names(constant)
    return names


def _recording(function: Callable[..., Any], rule: Any) -> Callable[..., Any]:
    def recorded(*args: Any) -> Any:
        if not any(isinstance(a, Tracer) or (isinstance(a, np.ndarray) and a.dtype == object) for a in args):
            return function(*args)
        from symdiff.symbolic.declaring import record_call

        return record_call(function, rule, args)

    recorded.__name__ = function.__name__
    return recorded

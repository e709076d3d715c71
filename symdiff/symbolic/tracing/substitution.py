"""Replaces, for one trace, what the user's functions reach: functions with a rule, and NumPy's makers of arrays.

Assumes plain Python functions reached through globals and closures. Guarantees that nothing is patched: the function and
those it calls are copied with their own globals and cells, and only when a function with a rule is reached, or one that
makes an array and assigns into it. Refuses nothing; what is reached in another way runs as it stands.
"""

import dis
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.symbolic.tracing.mutable import filled
from symdiff.symbolic.tracing.tracer import Tracer, is_traced

_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree", "math", "cmath", "builtins")
_MAKERS = frozenset({"zeros", "ones", "empty", "full", "eye", "identity", "arange", "linspace", "array"})
_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType, type(np.ones))
_IN_PLACE = 13  # BINARY_OP arguments from here on are the in-place operators


def substituted(f: Callable[..., Any], rules: Any, builder: Any) -> Callable[..., Any]:
    """f itself, or a copy in which functions with a rule in `rules` are recorded and arrays made can take traced values."""
    functions = {} if rules is None else rules.functions()
    if not functions and not _makes_arrays(f, set()):
        return f
    return _copy(f, functions, {}, _makers(builder))


def _makes_arrays(value: Any, seen: set[int]) -> bool:
    """Whether a function, or one that it reaches, makes an array and assigns into one."""
    if not isinstance(value, types.FunctionType) or id(value) in seen:
        return False
    seen.add(id(value))
    if (value.__module__ or "").split(".")[0] in _SKIPPED:
        return False
    if _assigns(value.__code__) and not _MAKERS.isdisjoint(_names(value.__code__)):
        return True
    reached = [value.__globals__.get(name) for name in _names(value.__code__)]
    for cell in value.__closure__ or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:
            pass  # an empty cell
    return any(_makes_arrays(r, seen) for r in reached)


@functools.lru_cache(maxsize=4096)
def _assigns(code: types.CodeType) -> bool:
    """Whether a function assigns to items or uses in-place operators."""
    for instruction in dis.get_instructions(code):
        if instruction.opname == "STORE_SUBSCR" or (instruction.opname == "BINARY_OP" and (instruction.arg or 0) >= _IN_PLACE):
            return True
    return any(_assigns(c) for c in code.co_consts if isinstance(c, types.CodeType))


def _makers(builder: Any) -> dict[Any, Callable[..., Any]]:
    """NumPy's makers of arrays, and what stands for them in a trace."""

    def maker(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            if any(is_traced(a) or isinstance(a, (list, tuple)) for a in args):
                result = function(*args, **kwargs)
                return filled(builder, result) if isinstance(result, np.ndarray) else result
            return filled(builder, function(*args, **kwargs))

        return made

    return {getattr(np, name): maker(getattr(np, name)) for name in _MAKERS}


class _Numpy:
    """The module numpy with other makers of arrays."""

    def __init__(self, makers: dict[Any, Callable[..., Any]]) -> None:
        self._makers = {function.__name__: made for function, made in makers.items()}

    def __getattr__(self, name: str) -> Any:
        return self._makers.get(name) or getattr(np, name)


def _copy(value: Any, functions: dict[Any, Any], copies: dict[int, Any], makers: dict[Any, Callable[..., Any]]) -> Any:
    if value is np:
        return _Numpy(makers)
    if isinstance(value, _FUNCTIONS) and value in makers:
        return makers[value]
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
            namespace[name] = _copy(namespace[name], functions, copies, makers)
    for cell, old in zip(cells, value.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copy(old.cell_contents, functions, copies, makers)
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

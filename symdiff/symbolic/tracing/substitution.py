"""Replaces, for one trace, what the user's functions reach: functions with a rule, and NumPy's makers of arrays.

Assumes plain Python functions reached through globals and closures. Guarantees that nothing is patched: the function and
those it calls are copied with their own globals and cells, and only when a function with a rule is reached, or one that
makes an array and assigns into it, or calls what SciPy writes in Python. Refuses nothing; what is reached in another way
runs as it stands.
"""

import dis
import functools
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.symbolic.building import active_builders
from symdiff.symbolic.rulebook import default_rules
from symdiff.symbolic.tracing.captures import global_names
from symdiff.symbolic.tracing.cupy_names import of_cupy, spelled
from symdiff.symbolic.tracing.functions import call_rule, on_arrays
from symdiff.symbolic.tracing.mutable import filled
from symdiff.symbolic.tracing.reducing import REDUCING
from symdiff.symbolic.tracing.tracer import is_traced, user_line

_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree", "math", "cmath", "builtins")
_MAKERS = frozenset({"zeros", "ones", "empty", "full", "eye", "identity", "arange", "linspace", "array"})
_FUNCTIONS = (types.BuiltinFunctionType, types.FunctionType, type(np.linspace))
_IN_PLACE = 13  # BINARY_OP arguments from here on are the in-place operators
_OF_SCIPY = {
    "polygamma": 2,
    "zeta": 2,
    "logsumexp": None,
    "softmax": None,
    "log_softmax": None,
}  # Python functions there: what stands for them, by arguments


def substituted(f: Callable[..., Any], rules: Any) -> Callable[..., Any]:
    """f itself, or a copy in which functions with a rule in `rules` are recorded and arrays made can take traced values."""
    functions = {} if rules is None else rules.functions()
    found: set[str] = set()
    _reach(f, found, set())
    if not functions and not {"makes", "assigns"} <= found and found.isdisjoint({"scipy", "cupy"}):
        return f
    return _copied(f, functions, {}, _makers())


def _copied(f: Any, functions: dict[Any, Any], copies: dict[int, Any], makers: dict[Any, Callable[..., Any]]) -> Any:
    """The copy of a function, a bound method or a partial function."""
    if isinstance(f, types.MethodType):
        return types.MethodType(_copy(f.__func__, functions, copies, makers), f.__self__)
    if isinstance(f, functools.partial):
        return functools.partial(_copied(f.func, functions, copies, makers), *f.args, **f.keywords)
    return _copy(f, functions, copies, makers)


def _reach(value: Any, found: set[str], seen: set[int]) -> None:
    """What a function, or one that it reaches, does: "makes" arrays, "assigns" into something, calls what "scipy" writes in
    Python, calls "cupy"."""
    if of_cupy(value):
        found.add("cupy")
    if isinstance(value, types.MethodType):
        value = value.__func__
    if isinstance(value, functools.partial):
        _reach(value.func, found, seen)
        return
    if not isinstance(value, types.FunctionType) or id(value) in seen:
        return
    seen.add(id(value))
    if (value.__module__ or "").split(".")[0] in _SKIPPED:
        if value.__name__ in _OF_SCIPY and value.__module__.startswith("scipy.special"):
            found.add("scipy")
        return
    names = global_names(value.__code__)
    found |= {"makes"} if not _MAKERS.isdisjoint(names) else set()
    found |= {"assigns"} if _assigns(value.__code__) else set()
    found |= {"scipy"} if not _OF_SCIPY.keys().isdisjoint(names) else set()
    reached = [value.__globals__.get(name) for name in names]
    for cell in value.__closure__ or ():
        try:
            reached.append(cell.cell_contents)
        except ValueError:
            pass  # an empty cell
    for other in reached:
        _reach(other, found, seen)


@functools.lru_cache(maxsize=4096)
def _assigns(code: types.CodeType) -> bool:
    """Whether a function assigns to items or uses in-place operators."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("STORE_SUBSCR", "STORE_SLICE") or (
            instruction.opname == "BINARY_OP" and (instruction.arg or 0) >= _IN_PLACE
        ):
            return True
    return any(_assigns(c) for c in code.co_consts if isinstance(c, types.CodeType))


def _makers() -> dict[Any, Callable[..., Any]]:
    """NumPy's makers of arrays, and what stands for them in a trace."""

    def maker(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def made(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            builders = active_builders()
            return filled(builders[-1], result) if builders and isinstance(result, np.ndarray) else result

        return made

    found = {getattr(np, name): maker(getattr(np, name)) for name in _MAKERS}
    special = sys.modules.get("scipy.special")
    if special is not None:
        found |= {getattr(special, name): _of_scipy(getattr(special, name), count) for name, count in _OF_SCIPY.items()}
    return found


def _of_scipy(function: Callable[..., Any], count: int | None) -> Callable[..., Any]:
    """A Python function of SciPy's: by its rule on traced values, else as it stands."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(map(is_traced, args)):
            return function(*args, **kwargs)
        if count is None:
            return on_arrays(REDUCING[function.__name__], args, kwargs, user_line(), function.__name__)
        rule = default_rules().lookup("symdiff.special", function.__name__, len(args))
        if rule is None or kwargs:
            raise TraceError(f"{user_line()}: special.{function.__name__} of a traced value takes {count} arguments")
        return call_rule(rule, args, user_line())

    return called


class _Module:
    """A module in which some functions are others."""

    def __init__(self, module: types.ModuleType, makers: dict[Any, Callable[..., Any]]) -> None:
        self._module = module
        self._originals = makers
        self._makers = {function.__name__: made for function, made in makers.items()}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType) and found.__name__ == "scipy.special":
            return _Module(found, self._originals)
        return self._makers[name] if isinstance(found, _FUNCTIONS) and name in self._makers else found


def _copy(value: Any, functions: dict[Any, Any], copies: dict[int, Any], makers: dict[Any, Callable[..., Any]]) -> Any:
    if of_cupy(value):
        return spelled(value, makers)
    if isinstance(value, types.ModuleType) and value.__name__ in ("numpy", "scipy", "scipy.special"):
        return _Module(value, makers)
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
    for name in global_names(value.__code__):
        if name in namespace:
            namespace[name] = _copy(namespace[name], functions, copies, makers)
    for cell, old in zip(cells, value.__closure__ or (), strict=True):
        try:
            cell.cell_contents = _copy(old.cell_contents, functions, copies, makers)
        except ValueError:
            pass  # an empty cell stays empty
    return copy


def _recording(function: Callable[..., Any], rule: Any) -> Callable[..., Any]:
    def recorded(*args: Any) -> Any:
        if not any(map(is_traced, args)):
            return function(*args)
        from symdiff.symbolic.declaring import record_call

        return record_call(function, rule, args)

    recorded.__name__ = function.__name__
    return recorded

"""Functions without source: a copy whose globals and cells hold what is to be called instead.

Assumes functions made by `exec`, lambdas that cannot be found, and files changed since they were imported. Guarantees that
nothing is patched: the copy has globals of its own, so what it assigns to globals stays in the copy. Refuses nothing; calls
of methods, and of functions that it receives or makes, are not followed.
"""

import builtins
import opcode
import types
from collections.abc import Callable
from typing import Any

from symdiff.symbolic.tracing.captures import global_names

_LOAD = opcode.opmap["LOAD_GLOBAL"]


def substituted(f: types.FunctionType, call: Callable[[Any], Any]) -> types.FunctionType:
    """The copy of a function; `call` says what to call in place of a function."""
    namespace = dict(f.__globals__)
    names = [n for n in global_names(f.__code__) if f.__globals__.get(n) is not f]
    own = vars(builtins)
    kept = _kept_names(f.__code__)
    for name in names:
        value = namespace.get(name, own.get(name))
        if callable(value) and not (name in kept and isinstance(value, type)):
            namespace[name] = _Late(value, call) if isinstance(value, types.FunctionType) else call(value)
        elif isinstance(value, types.ModuleType):
            namespace[name] = _Module(value, call)
    cells = tuple(_cell(cell, call) for cell in f.__closure__ or ())
    copy = types.FunctionType(f.__code__, namespace, f.__name__, f.__defaults__, cells or None)
    copy.__kwdefaults__ = f.__kwdefaults__
    namespace.update({n: copy for n in f.__code__.co_names if f.__globals__.get(n) is f})
    return copy


def _kept_names(code: types.CodeType) -> set[str]:
    """The globals that are used in another way than being called, such as `float` in `isinstance(x, float)`."""
    found = set()
    more = 0
    for op, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if op == _LOAD and not arg & 1:
            found.add(code.co_names[(more | arg) >> 1])
        more = (more | arg) << 8 if op == opcode.opmap["EXTENDED_ARG"] else 0
    return found.union(*(_kept_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


class _Late:
    """A function that is looked up when it is called: functions may call each other."""

    def __init__(self, function: Any, call: Callable[[Any], Any]) -> None:
        self._function = function
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(self._function)(*args, **kwargs)


def _cell(cell: types.CellType, call: Callable[[Any], Any]) -> types.CellType:
    try:
        value = cell.cell_contents
    except ValueError:
        return cell  # an empty cell
    if isinstance(value, types.FunctionType):
        return types.CellType(_Late(value, call))
    if isinstance(value, types.ModuleType):
        return types.CellType(_Module(value, call))
    return cell


class _Module:
    """A module whose functions are looked up."""

    def __init__(self, module: types.ModuleType, call: Callable[[Any], Any]) -> None:
        self._module = module
        self._call = call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return _Module(found, self._call)
        return self._call(found) if callable(found) and not isinstance(found, type) else found

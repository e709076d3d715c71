"""Notices when a value that a traced function captures has changed, so that its trace is stale.

Assumes plain Python functions, methods and callable objects. Guarantees that numbers, strings and arrays reached through
closures, globals, defaults and attributes of a callable object, of the function and of the functions it names, also inside
dicts, lists, tuples, objects with attributes and the user's modules, are compared before each call: numbers by identity,
arrays by content. Functions that were followed in a trace are included. Refuses nothing; what lies behind more than
`LARGEST` values is not followed.
"""

import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from symdiff.symbolic.tracing.libraries import is_library

_FOREIGN = (types.ModuleType, type)
_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic)
LARGEST = 1000  # values of one function that are watched
_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree")


class Watch:
    """The captured values of a function as they were when the watch was made."""

    __slots__ = ("_arrays", "_functions", "_seen", "_sizes", "_values")

    def __init__(self, f: Callable[..., Any]) -> None:
        self._sizes: list[tuple[Any, int]] = []
        self._seen: set[int] = set()
        self._values: list[tuple[Any, Any, Any]] = []
        self._arrays: list[tuple[Any, Any, Any, np.ndarray]] = []
        self._functions: set[int] = set()
        self.include((f,))

    def include(self, functions: Iterable[Any]) -> None:
        """Watch what these functions capture, too."""
        for f in functions:
            _collect(f, self, self._functions)

    def __bool__(self) -> bool:
        return bool(self._values or self._arrays or self._sizes)

    def changed(self) -> bool:
        """Whether a captured value is another object now, or a captured array holds other numbers."""
        for read, key, value in self._values:
            if read(key) is not value:
                return True
        for container, size in self._sizes:
            if len(container) != size:
                return True
        for read, key, value, copy in self._arrays:
            now = read(key)
            if now is not value or now.shape != copy.shape or now.tobytes() != copy.tobytes():
                return True
        return False

    def add(self, read: Callable[[Any], Any], key: Any, value: Any) -> None:
        """Watch what `read(key)` returns."""
        if isinstance(value, np.ndarray) and value.dtype != object:
            self._arrays.append((read, key, value, value.copy()))
        elif isinstance(value, _VALUES):
            self._values.append((read, key, value))
        else:
            self.inside(value)

    def inside(self, value: Any) -> None:
        """Watch what a container, or an object of a class of the user's, holds."""
        if id(value) in self._seen or len(self._values) + len(self._arrays) > LARGEST:
            return
        self._seen.add(id(value))
        if isinstance(value, dict):
            self._sizes.append((value, len(value)))
            for key, item in value.items():
                self.add(value.get, key, item)
        elif isinstance(value, (list, tuple)):
            self._sizes.append((value, len(value)))
            for place, item in enumerate(value):
                self.add(value.__getitem__, place, item)
        elif not isinstance(value, _FOREIGN) and not callable(value):
            _attributes(value, self)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _collect(f: Any, watch: Watch, seen: set[int]) -> None:
    if id(f) in seen:
        return
    seen.add(id(f))
    if isinstance(f, types.MethodType):
        _attributes(f.__self__, watch)
        f = f.__func__
    if not isinstance(f, types.FunctionType):
        inner = getattr(f, "__wrapped__", None) or getattr(f, "func", None)
        if inner is not None:
            _collect(inner, watch, seen)
        elif not isinstance(f, (type, np.ufunc)) and isinstance(vars(type(f)).get("__call__"), types.FunctionType):
            _attributes(f, watch)
            _collect(vars(type(f))["__call__"], watch, seen)
        return
    if is_library(f.__code__.co_filename):
        return
    for cell in f.__closure__ or ():
        value = _contents(cell)
        watch.add(_contents, cell, value)
        if callable(value):
            _collect(value, watch, seen)
    defaults = f.__defaults__ or ()
    for place, value in enumerate(defaults):
        watch.add(lambda k, f=f: (f.__defaults__ or ())[k], place, value)
    for name in global_names(f.__code__):
        if name in f.__globals__:
            value = f.__globals__[name]
            watch.add(f.__globals__.get, name, value)
            if isinstance(value, types.FunctionType):
                _collect(value, watch, seen)
            elif isinstance(value, types.ModuleType) and not is_library(getattr(value, "__file__", None) or "<string>"):
                _of_module(value, f.__code__, watch)


def _of_module(module: types.ModuleType, code: types.CodeType, watch: Watch) -> None:
    """The constants that a function reads as `module.name`."""
    for name in global_names(code):
        value = vars(module).get(name)
        if name in vars(module) and not callable(value) and not isinstance(value, types.ModuleType):
            watch.add(vars(module).get, name, value)


def _attributes(owner: Any, watch: Watch) -> None:
    attributes = getattr(owner, "__dict__", None)
    if isinstance(attributes, dict) and (type(owner).__module__ or "").split(".")[0] not in _SKIPPED:
        for name, value in attributes.items():
            watch.add(attributes.get, name, value)


def global_names(code: types.CodeType) -> list[str]:
    """The names that a function and those nested in it look up outside themselves."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += global_names(constant)
    return names

"""Puts back what a function that is run, once or several times, for a trace changes outside itself.

Assumes plain Python functions, methods and partial functions. Guarantees that lists, dictionaries, sets and attributes that it
reaches through closures, globals and its own object hold before each run what they held before the first, and after the last.
What lies deeper than `DEEP` containers, or behind more than `LARGEST`, stays as the runs leave it.
"""

import functools
import types
from typing import Any

from symdiff.errors import TraceError
from symdiff.tracing.captures.watching import global_names
from symdiff.vocabulary.libraries import module_of

LARGEST = 1000
DEEP = 4
_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree", "builtins")
_LEAVES = (bool, int, float, complex, str, bytes, type(None), types.ModuleType, type, types.BuiltinFunctionType)


class Outside:
    """What a function reaches outside itself: containers with copies of what they held, and the cells of closures."""

    def __init__(self, f: Any, where: str) -> None:
        self._where = where
        self._held: list[tuple[Any, Any]] = []
        self._cells: list[tuple[types.CellType, Any]] = []
        self._seen: set[int] = set()
        self._reach(f, 0)

    def restore(self) -> None:
        """Put everything back where a run changed it."""
        for cell, value in self._cells:
            if cell.cell_contents is not value:
                cell.cell_contents = value
        for container, copy in self._held:
            if _same(container, copy):
                continue
            if isinstance(container, list):
                container[:] = copy
            else:
                container.clear()
                container.update(copy)

    def _reach(self, value: Any, depth: int) -> None:
        if self._is_leaf(value) or id(value) in self._seen or depth > DEEP or len(self._held) > LARGEST:
            return
        if isinstance(value, types.FunctionType):
            self._seen.add(id(value))
            self._reach_function(value, depth)
        elif isinstance(value, types.MethodType):
            self._reach(value.__func__, depth)
            self._reach(value.__self__, depth)
        elif isinstance(value, functools.partial):
            self._reach(value.func, depth)
        elif isinstance(value, (dict, list, set)):
            self._seen.add(id(value))
            self._held.append((value, value.copy()))
            for item in list(value.values()) if isinstance(value, dict) else list(value):
                self._reach(item, depth + 1)
        elif isinstance(value, tuple):
            for item in value:
                self._reach(item, depth + 1)
        else:
            attributes = getattr(value, "__dict__", None)
            if isinstance(attributes, dict) and _is_users(type(value)):
                self._reach(attributes, depth)
                self._reach(vars(type(value)).get("__call__"), depth)

    def _is_leaf(self, value: Any) -> bool:
        try:
            return isinstance(value, _LEAVES)
        except Exception as error:
            raise TraceError(
                f"{self._where}: an object of class {type(value).__name__}, which the function finds outside itself, does not "
                f"tell its __class__ ({type(error).__name__}: {error}); let its __getattribute__ give it"
            ) from error

    def _reach_function(self, f: types.FunctionType, depth: int) -> None:
        if not _is_users(f):
            return
        for cell in f.__closure__ or ():
            try:
                value = cell.cell_contents
            except ValueError:
                continue  # an empty cell
            self._cells.append((cell, value))
            self._reach(value, depth)
        for value in f.__defaults__ or ():
            self._reach(value, depth)
        for name in _names(f.__code__):
            self._reach(f.__globals__.get(name), depth)


def _same(container: Any, copy: Any) -> bool:
    """Whether a container holds the objects that its copy holds."""
    if len(container) != len(copy):
        return False
    if isinstance(container, set):
        return {id(item) for item in container} == {id(item) for item in copy}
    if isinstance(container, dict) and any(a is not b for a, b in zip(container.values(), copy.values(), strict=True)):
        return False
    return all(a is b for a, b in zip(container, copy, strict=True))


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[str, ...]:
    return tuple(set(global_names(code)))


def _is_users(thing: Any) -> bool:
    return module_of(thing).partition(".")[0] not in _SKIPPED

"""Functions that a module calls and one above it writes: imports go down only, calls go both ways. A number that one module
counts and machine code of another one reads.

Assumes that `symdiff/__init__`, which stands above all, says which module writes each seam. Guarantees that this module is
imported when the seam is first called, if it was not before. Refuses seams that nobody writes.
"""

import ctypes
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from symdiff.errors import InvariantError

Anything = TypeVar("Anything", bound=Callable[..., Any])
_writers: dict[str, str] = {}
TRACES = ctypes.c_int64()  # that are under way in this process


class Seam:
    """A function that a module above writes: `latex = Seam("latex")` below, `@latex.written` over the function there."""

    __slots__ = ("_function", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._function: Callable[..., Any] | None = None

    def written(self, function: Anything) -> Anything:
        """Say that `function` is what is called."""
        self._function = function
        return function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._function is None:
            import_module(_writers[self._name])
            if self._function is None:
                raise InvariantError(f"{_writers[self._name]} does not write {self._name}")
        return self._function(*args, **kwargs)


def wire_seams(writers: dict[str, str]) -> None:
    """Say which module of the package writes each seam that is not written when the package has been imported."""
    _writers.update((name, f"symdiff.{module}") for name, module in writers.items())

"""Hidden inputs: larger arrays that a function captures, read anew at each call.

Assumes arrays reached through closures, globals, defaults, attributes and containers. Guarantees that the array found there
at a call is the one that is computed with, whatever it holds. Refuses, with `TraceError`, an array of another shape or
dtype than the function was traced with.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.graph import Graph

KEY = "hidden"  # where a Graph's notes have them
# Cells up to which a captured array is a constant, which folds with others and is printed in files. Comparing so many before
# a call takes no longer than reading them in it: 180 ns a call either way at 64 cells, 289 against 244 at 128.
SMALL = 64
_KINDS = (np.ndarray, np.memmap)


def may_be_hidden(value: Any) -> bool:
    """Whether a captured value can be a hidden input: a floating or complex array of more than `SMALL` cells."""
    return type(value) in _KINDS and value.dtype.char in "fdFD" and value.size > SMALL


class Replaced(TraceError):
    """A captured array is of another type than the one that the function was traced with."""


class Captured:
    """An array that a function captures: its name in the user's code, the ways to it, and what was found there last."""

    __slots__ = ("array", "dtype", "name", "shape", "ways")

    def __init__(self, name: str, array: np.ndarray) -> None:
        self.name = name
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype
        self.ways: list[tuple[Callable[[Any], Any], Any]] = []

    def now(self) -> np.ndarray | None:
        """The array that is found there now; None where it is another kind of thing, or not the same one on all ways."""
        found = self.array
        for k, (read, key) in enumerate(self.ways):
            value = read(key)
            if k and value is not found:
                return None
            found = value
        if type(found) is not type(self.array) or found.shape != self.shape or found.dtype != self.dtype:
            return None
        self.array = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Captured, (self.name, self.array)


@dataclass(frozen=True, slots=True)
class Hidden:
    """The captured arrays among a Graph's inputs, which begin at `place`."""

    place: int
    arrays: tuple[Captured, ...]

    def fill(self, leaves: Sequence[Any], count: int) -> list[Any]:
        """`leaves` with the arrays as they are now at their place, where these are missing among `count` inputs."""
        if len(leaves) + len(self.arrays) != count:
            return list(leaves)
        return [*leaves[: self.place], *map(_read, self.arrays), *leaves[self.place :]]

    def pad(self, axes: Sequence[Any]) -> list[Any]:
        """`axes` of the leaves, with None for each of the arrays."""
        return [*axes[: self.place], *[None] * len(self.arrays), *axes[self.place :]]


def _read(captured: Captured) -> np.ndarray:
    found = captured.now()
    if found is None:
        raise Replaced(
            f"{captured.name}, which the function captures, is no {captured.dtype} array of shape {captured.shape} any more; "
            "compile the function anew"
        )
    return found


NONE = Hidden(0, ())


def hidden_of(graph: Graph) -> Hidden:
    """The captured arrays among a Graph's inputs."""
    return graph.notes.get(KEY, NONE)  # type: ignore[no-any-return]


def visible_input_count(graph: Graph) -> int:
    """How many inputs a Graph has apart from captured arrays."""
    return len(graph.inputs) - len(hidden_of(graph).arrays)


def hidden_arrays_of(compiled: Any) -> tuple[Captured, ...]:
    """The captured arrays that a graph or a compiled function of ours reads; none for anything else."""
    hidden = hidden_of(compiled) if isinstance(compiled, Graph) else getattr(compiled, "hidden", None)
    return hidden.arrays if isinstance(hidden, Hidden) else ()

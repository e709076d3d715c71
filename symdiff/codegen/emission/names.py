"""Names for generated code: the user's arguments, their cells, and dense names for values.

Assumes valid Python identifiers as argument names. Guarantees that no two meanings share a name and that keywords,
builtins and the emitter's own names stay free. Refuses nothing.
"""

import builtins
import keyword
import math

from symdiff.codegen.program import Input

_RESERVED = frozenset(keyword.kwlist) | frozenset(dir(builtins)) | {"np", "math", "cmath", "out", "self"}


class Names:
    """Hands out names that are still free."""

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self.taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """`name`, with underscores appended while it is taken."""
        while name in self.taken or name in _RESERVED:
            name += "_"
        self.taken.add(name)
        return name

    def numbered(self, stem: str) -> str:
        """`stem` with the first number that is free: x0, x1, ..."""
        k = self._next.get(stem, 0)
        while f"{stem}{k}" in self.taken:
            k += 1
        self._next[stem] = k + 1
        self.taken.add(f"{stem}{k}")
        return f"{stem}{k}"


def cell_suffix(shape: tuple[int, ...], cell: int) -> str:
    """The suffix of a cell: 3 for x[3], 1_2 for W[1, 2]."""
    indices = []
    for n in reversed(shape):
        cell, index = divmod(cell, n)
        indices.append(str(index))
    return "_".join(reversed(indices))


def cell_names(leaf: Input, argument: str, names: Names) -> list[str]:
    """One name for each cell of an input, in C order; the argument itself for a scalar."""
    if leaf.shape == ():
        return [argument]
    return [names.fresh(argument + cell_suffix(leaf.shape, k)) for k in range(math.prod(leaf.shape))]


def argument_names(inputs: tuple[Input, ...], names: Names) -> list[str]:
    """One name for each input."""
    return [names.fresh(leaf.name) for leaf in inputs]

"""Names for generated code: the user's arguments, their cells, and dense names for values.

Assumes nothing of the names it is given. Guarantees identifiers of the language that no two meanings share; keywords, what
the files call, and the emitter's own names stay free.
"""

import builtins
import keyword
import math
from collections.abc import Iterable

from symdiff.lowering.program import Input
from symdiff.vocabulary.literals import identifier

_CALLED = """
    abs all any bool complex dict dir enumerate float getattr hasattr hex id int isinstance len list map max min object range
    repr round set str sum super tuple type vars zip
""".split()
# Those that no function for arguments and `out` of a file calls itself, unless it has checks.
UNCALLED = frozenset([*_CALLED, "self"]) - {"complex", "float", "list", "min", "range"}
_ERRORS = [name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)]
# What Python's files cannot name otherwise; `_` counts rounds, and modules give `__names__` a meaning.
_RESERVED = frozenset([*keyword.kwlist, *_CALLED, *_ERRORS, "np", "math", "cmath", "out", "self", "_"])


def keeps_name(name: str, target: str, checked: bool) -> bool:
    """Whether a file's function of numbers and arrays, one with checks or not, can have an argument of this name; names of what
    it calls begin with an underscore, or are reserved. `out`, which is its own argument, none can have.
    """
    called = _RESERVED if checked else _RESERVED - UNCALLED
    return name == "out" or not (name in called or name.startswith("_") or (target == "cupy" and name == "cp"))


class Names:
    """Hands out names that are still free; with `plain`, names of C's languages, of which `taken` has all reserved ones."""

    def __init__(self, taken: Iterable[str] = (), plain: bool = False, reserved: Iterable[str] = _RESERVED) -> None:
        self.taken = set(taken)
        self.plain = plain
        self.reserved = frozenset(reserved)
        self._next: dict[str, int] = {}

    def is_free(self, name: str) -> bool:
        """Whether nothing has a name."""
        reserved = not self.plain and (name in self.reserved or (name.startswith("__") and name.endswith("__")))
        return name not in self.taken and not reserved

    def fresh(self, name: str) -> str:
        """`name` as an identifier, with underscores appended while it is taken; an x ends what underscores make special."""
        name = identifier(name, self.plain)
        while not self.is_free(name):
            name += "x" if name.startswith("__") or name == "_" else "_"
        self.taken.add(name)
        return name

    def numbered(self, stem: str) -> str:
        """`stem` with the first number that is free: x0, x1, ..."""
        k = self._next.get(stem, 0)
        while not self.is_free(f"{stem}{k}"):
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


def emitted_cell_names(leaf: Input, argument: str, names: Names) -> list[str]:
    """One name for each cell of an input, in C order; the argument itself for a scalar."""
    if leaf.shape == ():
        return [argument]
    return [names.fresh(cell_name(argument, leaf.shape, k)) for k in range(math.prod(leaf.shape))]


def cell_name(name: str, shape: tuple[int, ...], cell: int) -> str:
    """The name of a cell of an array: x3 for x[3], W1_2 for W[1, 2], y2_0 for y2[0]."""
    return f"{name}{'_' if name[-1].isdigit() else ''}{cell_suffix(shape, cell)}"


def emitted_argument_names(inputs: tuple[Input, ...], names: Names) -> list[str]:
    """One name for each input."""
    return [names.fresh(leaf.name) for leaf in inputs]

"""Arrays made inside a traced function, which can be assigned to: `y = np.zeros(n); y[i] = ...; y[1:-1] += ...`.

Assumes floating or complex arrays. Guarantees NumPy's own meaning of assignments, slices that are views included, because
the cells live in an array of objects (larger arrays stay whole, see `whole`); the array becomes one binding when it is
used. Refuses assignments to the caller's arrays, to arrays of which a view was taken before, and complex values in real
arrays, with `TraceError`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff import structures
from symdiff.errors import ItemError, TraceError
from symdiff.ops import OPS
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Var
from symdiff.symbolic.tracing.kinds import ARRAY
from symdiff.symbolic.tracing.traced_keys import is_traced_key, read, write
from symdiff.symbolic.tracing.tracer import Tracer, atom_of, builder_of, user_line
from symdiff.symbolic.tracing.whole import CELLS, WholeMutable, assigned, held


class Backing:
    """The cells of a mutable array; views share the memory of `cells` and the list `version`."""

    __slots__ = ("atom", "cells", "seen", "version")

    def __init__(self, cells: np.ndarray, version: list[int]) -> None:
        self.cells = cells
        self.version = version
        self.seen = -1
        self.atom: Var | None = None


class Mutable(Tracer):
    """A traced array with cells of its own; its symbol is bound anew when it is read after a change."""

    __slots__ = ()
    kind = ARRAY

    @classmethod
    def of(cls, builder: Builder, cells: np.ndarray, dtype: Any, version: list[int] | None = None) -> "Mutable":
        """A mutable array over an array of numbers and traced numbers."""
        self = object.__new__(cls)
        self.builder = builder
        self.shape = cells.shape
        self.dtype = np.dtype(dtype)
        _SLOT.__set__(self, Backing(cells, [0] if version is None else version))
        return self

    @property
    def backing(self) -> Backing:
        """The cells and their version."""
        return _SLOT.__get__(self)  # type: ignore[no-any-return]

    @property
    def atom(self) -> Var:  # type: ignore[override]
        """The array as a symbol, as it is now."""
        backing = self.backing
        if backing.atom is None or backing.seen != backing.version[0]:
            origin = user_line()
            operands = tuple(atom_of(c, self.builder, origin) for c in backing.cells.ravel().tolist())
            backing.atom = self.builder.bind("array", operands, self.shape, self.dtype.char, None, origin)
            backing.seen = backing.version[0]
        return backing.atom

    def __getitem__(self, key: Any) -> Any:
        if is_traced_key(key):
            return read(self, key, user_line())
        return self.view(lambda cells: cells[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        origin = user_line()
        if is_traced_key(key):
            write(self, key, value, origin)
            return
        cells = value.backing.cells if isinstance(value, Mutable) else np.asarray(value, dtype=object)
        cast = np.empty(cells.shape, dtype=object)
        cast.ravel()[...] = [self._cell(c, origin) for c in cells.ravel()]
        try:
            self.backing.cells[key] = cast[()] if cast.shape == () else cast
        except (ValueError, IndexError) as error:
            raise TraceError(f"{origin}: {error}") from None
        self.backing.version[0] += 1
        if key is Ellipsis and type(value) is Tracer and self._can_be(value.atom):
            self.backing.atom, self.backing.seen = value.atom, self.backing.version[0]

    def _can_be(self, atom: Any) -> bool:
        """Whether a computed array has this one's shape and dtype, so that its symbol stands for the cells copied from it."""
        b = self.builder
        shared = atom in b.views or atom in b.viewed or any(leaf.symbol is atom for leaf in b.inputs)
        return type(atom) is Var and not shared and (atom.shape, atom.dtype) == (self.shape, self.dtype.char)

    def _binary(self, op: str, left: Any, right: Any) -> Any:
        if plain(left) is None or plain(right) is None:
            return super()._binary(op, left, right)
        return computed(OPS[op].function(), (left, right), {})

    def _cell(self, value: Any, origin: str) -> Any:
        """A value with the array's dtype, as NumPy's assignment gives it."""
        if isinstance(value, Tracer):
            if value.dtype.kind == "c" and self.dtype.kind != "c":
                raise TraceError(f"{origin}: a complex value in an array of {self.dtype}; make the array with dtype=complex")
            atom = atom_of(value, self.builder, origin)
            cast = self.builder.cast(atom, self.dtype.char)
            return Tracer(self.builder, cast) if isinstance(cast, Var) else cast.value  # type: ignore[union-attr]
        if isinstance(value, complex) and self.dtype.kind != "c":
            raise TraceError(f"{origin}: a complex value in an array of {self.dtype}; make the array with dtype=complex")
        return self.dtype.type(value).item()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        if dtype is not None and np.dtype(dtype).char != "O":
            return super().__array__(dtype, copy)
        cells = self.backing.cells.copy()
        cells.flags.writeable = copy is True
        return cells

    def view(self, moved: Callable[[np.ndarray], Any]) -> Any:
        """Cells picked or moved, a view of the same ones where NumPy gives one; a single cell is given itself."""
        found = moved(self.backing.cells)
        if not isinstance(found, np.ndarray):
            return found
        if found.ndim == 0:
            return found[()]
        shared = np.may_share_memory(found, self.backing.cells)
        return Mutable.of(self.builder, found, self.dtype, self.backing.version if shared else None)

    def tolist(self) -> Any:
        """Nested lists of numbers and traced numbers."""
        return self.backing.cells.tolist()

    def copy(self) -> Any:
        """The cells in memory of their own."""
        return Mutable.of(self.builder, self.backing.cells.copy(), self.dtype)


_SLOT: Any = Tracer.__dict__["atom"]


def plain(value: Any) -> Any:
    """A value without traced cells as NumPy's own; None where there are some."""
    if isinstance(value, Mutable):
        cells = value.backing.cells
        return None if any(isinstance(c, Tracer) for c in cells.flat) else cells.astype(value.dtype)
    return None if isinstance(value, Tracer) or (isinstance(value, np.ndarray) and value.dtype == object) else value


def computed(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function of arrays without traced cells, computed by NumPy; arrays come back as mutable ones."""
    builder = next(v.builder for v in structures.leaves((args, kwargs), none_is_leaf=True) if isinstance(v, Mutable))
    args, kwargs = structures.mapped(lambda v: plain(v) if isinstance(v, Mutable) else v, (args, kwargs))
    with np.errstate(all="ignore"):
        result = function(*args, **kwargs)
    return structures.mapped(lambda v: filled(builder, v) if isinstance(v, np.ndarray) else v, result)


def copied(value: Tracer) -> Tracer:
    """A traced array in memory of its own."""
    if value.size > CELLS:
        return WholeMutable.of(value.builder, value.atom, value.dtype)
    return Mutable.of(value.builder, np.array(value, dtype=object), value.dtype)


def assign(target: Tracer, key: Any, value: Any) -> None:
    """`target[key] = value` on a traced array: a computed one gets cells of its own; an argument is refused."""
    origin = user_line()
    if target.shape == ():
        raise ItemError(f"{origin}: assignment into a traced number")
    if any(leaf.symbol is target.atom for leaf in target.builder.inputs):
        raise TraceError(f"{origin}: the caller's own array is assigned to; take a copy first: x = x.copy()")
    if target.atom in target.builder.views or target.atom in target.builder.viewed:
        raise TraceError(f"{origin}: an array that shares its cells with a reshaped view is assigned to; copy it first")
    if target.size > CELLS:
        assigned(target)
        target[key] = value
        return
    cells = np.array(target, dtype=object)
    target.__class__ = Mutable
    _SLOT.__set__(target, Backing(cells, [0]))
    target[key] = value


def filled(builder: Builder, plain: np.ndarray) -> Any:
    """An array that NumPy made, of numbers or traced numbers, as a mutable one; integers and Booleans stay as they are."""
    if plain.ndim == 0:
        return plain[()]
    if plain.dtype == object:
        return _of_objects(builder, plain)
    if plain.dtype.char not in "fdFD":
        return plain
    if plain.size > CELLS:
        return WholeMutable.of(builder, held(builder, plain), plain.dtype)
    cells = np.empty(plain.shape, dtype=object)
    cells.ravel()[...] = plain.ravel().tolist()
    return Mutable.of(builder, cells, plain.dtype)


def array_of(values: list[Any]) -> Any:
    """Traced and plain numbers as a traced array."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return filled(builder_of(values), cells)


def _of_objects(builder: Builder, cells: np.ndarray) -> Any:
    """An array of traced and plain numbers; one of anything else stays as it is."""
    kinds: list[Any] = []
    for cell in cells.flat:
        if isinstance(cell, (Tracer, np.generic)) and cell.shape == ():
            kinds.append(cell.dtype)
        elif isinstance(cell, (float, int, complex)):
            kinds.append(type(cell))
        else:
            return cells
    joined = np.result_type(*kinds) if kinds else np.dtype(float)
    return Mutable.of(builder, cells, joined if joined.kind in "fc" else float)

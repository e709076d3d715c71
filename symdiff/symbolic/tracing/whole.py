"""Larger arrays that can be assigned to: whole arrays stay whole, single cells wait until the array is read.

Assumes floating or complex arrays of more than `CELLS` cells. Guarantees NumPy's own meaning of assignments and of slices,
which are views of the array as it is when they are read. Refuses assignments through other views, and to arrays of which
such a view was taken before, with `TraceError`.
"""

import math
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.heads import Shape, Slice
from symdiff.symbolic.arrays.algebra import Arrays, full_key
from symdiff.symbolic.building import Builder, array_atom
from symdiff.symbolic.graph import ArrayConstant, Atom, Constant, Var
from symdiff.symbolic.tracing.indexing import expanded_key, flat_indices, is_basic, normal_slice
from symdiff.symbolic.tracing.kinds import ARRAY
from symdiff.symbolic.tracing.traced_keys import Row, is_traced_key, write
from symdiff.symbolic.tracing.tracer import Tracer, user_line

CELLS = 64  # arrays up to this size are kept as cells, see `mutable`


class State:
    """An array as it was last computed, and cells assigned to since, by their flat index."""

    __slots__ = ("base", "pending")

    def __init__(self, base: Atom) -> None:
        self.base = base
        self.pending: dict[int, Atom] = {}


class WholeMutable(Tracer):
    """A traced array that can be assigned to; its symbol is bound anew when it is read after a change."""

    __slots__ = ()
    kind = ARRAY

    @classmethod
    def of(cls, builder: Builder, atom: Atom, dtype: Any) -> "WholeMutable":
        """A mutable array that holds the cells of an atom."""
        self = object.__new__(cls)
        self.builder = builder
        self.shape = tuple(atom.shape)
        self.dtype = np.dtype(dtype)
        _SLOT.__set__(self, State(atom))
        return self

    @property
    def state(self) -> State:
        """The array and its pending cells."""
        return _SLOT.__get__(self)  # type: ignore[no-any-return]

    @property
    def atom(self) -> Any:  # type: ignore[override]
        """The array as a symbol (or a constant), as it is now."""
        state = self.state
        if state.pending:
            state.base = _flushed(self.builder, state, self.dtype.char, user_line())
            state.pending = {}
        return state.base

    def __getitem__(self, key: Any) -> Any:
        origin = user_line()
        if not is_basic(key) or is_traced_key(key):
            return super().__getitem__(key)
        if any(part is None for part in (key if isinstance(key, tuple) else (key,))):
            return super().__getitem__(key)
        slices, dropped = parsed(key, self.shape, origin)
        if len(dropped) == len(self.shape):
            flat = int(np.ravel_multi_index([k[0] for k in slices], self.shape))
            waiting = self.state.pending.get(flat)
            if waiting is not None:
                return Tracer(self.builder, waiting) if isinstance(waiting, Var) else waiting.value
            known = constant_cells(self.builder, self.state.base)
            if known is not None:
                return known.ravel()[flat]
            return Tracer(self.builder, self.builder.bind("item", (self.state.base,), (), self.dtype.char, flat, origin))
        return View.over(self, slices, dropped)

    def __setitem__(self, key: Any, value: Any) -> None:
        origin = user_line()
        if is_traced_key(key):
            write(self, key, value, origin)
            return
        self.check_assignable(origin)
        if only_slices(key):
            slices, dropped = parsed(key, self.shape, origin)
            if not isinstance(value, View) or value.region.base is not self or (slices, dropped) != value.region.place:
                self.assign(slices, dropped, value, origin)
            return  # without assigning where `y[1:] += 1` ends by assigning the slice to itself
        if isinstance(value, Row) and value.shows(self, list(key) if isinstance(key, tuple) else [key]):
            return
        chosen = flat_indices(key, self.shape, origin)
        flat, last = np.unique(chosen.ravel()[::-1], return_index=True)
        atom = Arrays(self.builder, origin).broadcast_to(self.converted(value, origin), chosen.shape)
        arrays = Arrays(self.builder, origin)
        rows = arrays.reshape(atom, (chosen.size,))
        order = chosen.size - 1 - last
        picked = rows if np.array_equal(order, np.arange(chosen.size)) else arrays.bind("take", rows, indices=order)
        self.state.base = arrays.bind("set_at", self.atom, picked, indices=flat)

    def check_assignable(self, origin: str) -> None:
        """Raise `TraceError` where another view of the array would not see an assignment."""
        if self.state.base in self.builder.viewed:
            raise TraceError(f"{origin}: an array of which a reshaped view was taken before is assigned to; copy it first")

    def assign(self, slices: tuple[Slice, ...], dropped: tuple[int, ...], value: Any, origin: str) -> None:
        """A region, of which integers dropped some axes, gets new cells."""
        atom = self.converted(value, origin)
        if len(dropped) == len(self.shape):
            if atom.shape != ():
                raise TraceError(f"{origin}: an array of shape {atom.shape} for one cell")
            self.state.pending[int(np.ravel_multi_index([k[0] for k in slices], self.shape))] = atom
            return
        arrays = Arrays(self.builder, origin)
        region = tuple(len(range(n)[slice(*k)]) for n, k in zip(self.shape, slices, strict=True))
        target = tuple(n for axis, n in enumerate(region) if axis not in dropped)
        if atom.shape != ():
            while len(atom.shape) > len(target) and atom.shape[0] == 1:
                atom = arrays.reshape(atom, atom.shape[1:])
            try:
                fits = np.broadcast_shapes(atom.shape, target) == target
            except ValueError:
                fits = False
            if not fits:
                raise TraceError(f"{origin}: an array of shape {atom.shape} for a region of shape {target}")
            if target != region:
                atom = arrays.reshape(arrays.broadcast_to(atom, target), region)
        if slices == full_key(self.shape):
            self.state.base, self.state.pending = arrays.broadcast_to(atom, self.shape), {}
            return
        before = self.atom
        zero = constant_cells(self.builder, before)
        if zero is not None and zero.strides == (0,) * zero.ndim and zero.size and zero.flat[0] == 0:
            self.state.base = arrays.put(arrays.broadcast_to(atom, region), slices, self.shape)
        else:
            self.state.base = arrays.bind("set", before, atom, key=slices)

    def converted(self, value: Any, origin: str) -> Atom:
        """A value with the array's dtype, as NumPy's assignment gives it."""
        from symdiff.symbolic.tracing.operands import as_atom

        atom = as_atom(value, self.builder, origin)
        if self.dtype.kind != "c" and (atom.dtype or ("D" if isinstance(atom.value, complex) else "d")) in "FD":
            raise TraceError(f"{origin}: a complex value in an array of {self.dtype}; make the array with dtype=complex")
        if isinstance(atom, ArrayConstant):
            return array_atom(atom.value.astype(self.dtype))
        return self.builder.cast(atom, self.dtype.char)

    def copy(self) -> Any:
        """The cells in memory of their own."""
        return WholeMutable.of(self.builder, self.atom, self.dtype)


class Region:
    """What a view looks at: an array, the slices, the axes that integers dropped, and the symbol as last read."""

    __slots__ = ("atom", "base", "dropped", "of", "slices")

    def __init__(self, base: Tracer, slices: tuple[Slice, ...], dropped: tuple[int, ...]) -> None:
        self.base = base
        self.slices = slices
        self.dropped = dropped
        self.of: Any = None
        self.atom: Any = None

    @property
    def place(self) -> tuple[tuple[Slice, ...], tuple[int, ...]]:
        """The slices and the axes that integers dropped, as `parsed` gives them."""
        return self.slices, self.dropped

    def key(self) -> tuple[Any, ...]:
        """The region as an index of the array."""
        return tuple(k[0] if axis in self.dropped else slice(*k) for axis, k in enumerate(self.slices))


class View(Tracer):
    """A slice of an array: it reads the array as it is, and assignments go to the array."""

    __slots__ = ()
    kind = ARRAY

    @classmethod
    def over(cls, base: Tracer, slices: tuple[Slice, ...], dropped: tuple[int, ...]) -> "View":
        """The view of a region, of which integers dropped some axes."""
        self = object.__new__(cls)
        self.builder = base.builder
        region = tuple(len(range(n)[slice(*k)]) for n, k in zip(base.shape, slices, strict=True))
        self.shape = tuple(n for axis, n in enumerate(region) if axis not in dropped)
        self.dtype = base.dtype
        _SLOT.__set__(self, Region(base, slices, dropped))
        return self

    @property
    def region(self) -> Region:
        """What the view looks at."""
        return _SLOT.__get__(self)  # type: ignore[no-any-return]

    @property
    def atom(self) -> Any:  # type: ignore[override]
        """The region as a symbol, as it is now."""
        region = self.region
        now = region.base.atom
        if region.of is not now:
            arrays = Arrays(self.builder, user_line())
            region.of, region.atom = now, arrays.reshape(arrays.getitem(now, region.slices), self.shape)
        return region.atom

    def _inside(self, key: Any, origin: str) -> tuple[tuple[Slice, ...], tuple[int, ...]]:
        """An index of the view as one of the array."""
        region = self.region
        shape = region.base.shape
        own, own_dropped = parsed(key, self.shape, origin)
        kept = [axis for axis in range(len(shape)) if axis not in region.dropped]
        joined = list(region.slices)
        for place, axis in enumerate(kept):
            cells = range(shape[axis])[slice(*region.slices[axis])][slice(*own[place])]
            joined[axis] = normal_slice(_as_slice(cells), shape[axis])
        return tuple(joined), tuple(sorted({*region.dropped, *(kept[p] for p in own_dropped)}))

    def __getitem__(self, key: Any) -> Any:
        if not only_slices(key) or is_traced_key(key):
            return super().__getitem__(key)
        slices, dropped = self._inside(key, user_line())
        base = self.region.base
        if len(dropped) == len(base.shape):
            return base[tuple(k[0] for k in slices)]
        return View.over(base, slices, dropped)

    def __setitem__(self, key: Any, value: Any) -> None:
        origin = user_line()
        if is_traced_key(key):
            write(self, key, value, origin)
            return
        base = self.region.base
        if not only_slices(key):
            cells = self.copy()
            cells[key] = value
            key, value = Ellipsis, cells
        base[Region(base, *self._inside(key, origin)).key()] = value


_SLOT: Any = Tracer.__dict__["atom"]


def _as_slice(cells: range) -> slice:
    if not cells:
        return slice(0, 0)
    return slice(cells.start, cells.stop if cells.stop >= 0 else None, cells.step)


def only_slices(key: Any) -> bool:
    """Whether an index is one of slices and integers, which neither picks cells nor adds axes."""
    return is_basic(key) and not any(part is None for part in (key if isinstance(key, tuple) else (key,)))


def parsed(key: Any, shape: Shape, origin: str) -> tuple[tuple[Slice, ...], tuple[int, ...]]:
    """A basic index as one slice for each axis, and the axes that integers drop."""
    slices: list[Slice] = []
    dropped: list[int] = []
    for axis, part in enumerate(expanded_key(key, len(shape), origin)):
        n = shape[axis]
        if isinstance(part, slice):
            slices.append(normal_slice(part, n))
            continue
        k = int(part)
        if not -n <= k < n:
            raise IndexError(f"{origin}: index {k} is out of bounds for axis {axis} with size {n}")
        slices.append((k % n, k % n + 1, 1))
        dropped.append(axis)
    return tuple(slices), tuple(dropped)


def held(builder: Builder, plain: np.ndarray) -> Atom:
    """A plain array as an atom; one number repeated where all its cells are alike."""
    first = plain.flat[0]
    if (plain == first).all() and (plain.dtype.kind == "c" or (np.signbit(plain) == np.signbit(first)).all()):
        return Arrays(builder, user_line()).broadcast_to(Constant(first.item(), plain.dtype.char), plain.shape)
    return array_atom(plain)


def constant_cells(builder: Builder, atom: Atom) -> np.ndarray | None:
    """The cells of a constant array, None where it is computed."""
    if isinstance(atom, ArrayConstant):
        return atom.value
    binding = builder.structural.get(atom)
    if binding is None or binding.op != "broadcast_to" or not isinstance(binding.operands[0], Constant):
        return None
    return np.broadcast_to(np.asarray(binding.operands[0].value, dtype=atom.dtype), atom.shape)


def _flushed(builder: Builder, state: State, code: str, origin: str) -> Atom:
    """The array with its pending cells."""
    base, pending = state.base, state.pending
    cells = math.prod(base.shape)
    arrays = Arrays(builder, origin)
    known = constant_cells(builder, base)
    if known is not None and 4 * len(pending) >= cells:
        flat = known.ravel()
        atoms = tuple(pending.get(k) or Constant(flat[k].item(), code) for k in range(cells))
        return builder.bind("array", atoms, base.shape, code, None, origin)
    places = sorted(pending)
    values = builder.bind("array", tuple(pending[k] for k in places), (len(places),), code, None, origin)
    return arrays.bind("set_at", base, values, indices=np.array(places))


def assigned(target: Tracer) -> None:
    """A computed array becomes one that can be assigned to."""
    state = State(target.atom)
    target.__class__ = WholeMutable
    _SLOT.__set__(target, state)

"""Where the cells of traced arrays are kept, and which of them a value shows.

A `Storage` holds cells and changes; a `View` names some of them, reads them as they are now and writes through. Which cells a
view names is never worked out here: NumPy's own indexing and functions are asked for the same view of `Storage.memory`, a
byte for each cell. Assumes values that have the storage's dtype. Guarantees that all views of a storage see every change.
Refuses, with `TraceError`, changes of the caller's own arrays, and what NumPy has as read-only.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.arrays.indexing import bind_take, normal_slice
from symdiff.ir.building import Builder, active_builders, array_atom
from symdiff.ir.node import ArrayConstant, Atom, Constant, Node
from symdiff.tracing.values.kinds import integers_held, note_integers
from symdiff.tracing.values.runs import array_of_cells
from symdiff.vocabulary.heads import Shape, Slice

_IMAGED = (
    "an array that code not followed here has made of this one still stands, and would not see the change; "
    "give that code a copy: y.copy()"
)
CELLS = 64  # arrays up to this size are kept as cells once single ones are assigned to


class Storage:
    """The cells of an array: a symbol, up to `CELLS` of them also one by one, and those assigned to since by number."""

    __slots__ = (
        "builder", "cells", "code", "copied", "counted", "guard", "images", "layout", "memory", "pending", "refusal", "symbol",
        "version", "watch",
    )  # fmt: skip

    def __init__(self, builder: Builder, held: Atom | np.ndarray, code: str, refusal: str = "") -> None:
        self.builder = builder
        self.code = code
        self.symbol = None if isinstance(held, np.ndarray) else held
        self.cells = held if isinstance(held, np.ndarray) else None
        self.pending: dict[int, Atom] = {}
        self.memory = self.layout = np.zeros(held.shape, np.int8)  # cells of an argument's layout may lie in one place
        self.refusal = refusal
        self.images: list[Any] = []  # arrays of objects, made for code that is not followed, which do not see changes
        self.version: Any = object()
        self.counted: Any = integers_held(held)  # their dtype in NumPy, where they are integers
        self.guard: Callable[[], None] | None = None  # what refuses to read cells, which rounds of a loop are giving
        self.watch: Callable[[], None] | None = None  # what refuses changes, which another array may have to see
        self.copied: Callable[[Any], Any] | None = None  # what gives, for a view of it, that of the copy of a round

    def become(self, atom: Atom) -> None:
        """All cells are those of an atom, and open again."""
        self.guard = None
        self.symbol, self.cells, self.pending = atom, None, {}
        self.version = object()

    def given(self, guard: Callable[[], None]) -> None:
        """From now on rounds of a loop give the cells."""
        if self.watch is not None:
            self.watch()
        self.guard, self.version = guard, object()

    def stamp(self) -> Any:
        """What is another object after a change."""
        return self.version

    def whole(self, origin: str) -> Atom:
        """All cells as they are now."""
        if self.guard is not None:
            self.guard()
        if self.symbol is None and self.memory.shape == ():
            self.symbol = self.cells[()]  # type: ignore[index]
        elif self.symbol is None:
            self.symbol = array_of_cells(self.builder, [*self.cells.flat], self.memory.shape, self.code, origin)  # type: ignore[union-attr]
        if self.pending:
            self.symbol, self.pending = _with_cells(self.builder, self.symbol, self.pending, self.code, origin), {}
        return self.symbol

    def shown(self, place: np.ndarray) -> np.ndarray | None:
        """Cells one by one, where they are kept so."""
        if self.guard is not None:
            self.guard()
        return None if self.cells is None else self.cells.ravel()[numbers(place, self.memory).ravel()].reshape(place.shape)

    def cell(self, number: int, origin: str) -> Atom:
        """A single cell."""
        if self.guard is not None:
            self.guard()
        if self.cells is not None:
            return self.cells.flat[number]  # type: ignore[no-any-return]
        waiting = self.pending.get(number)
        if waiting is not None:
            return waiting
        base = self.symbol  # type: ignore[assignment]
        known = constant_storage_cells(self.builder, base)
        if known is not None:
            return Constant(known.flat[number].item(), self.code)
        return base if base.shape == () else self.builder.bind("item", (base,), (), self.code, number, origin)

    def write(self, place: np.ndarray, value: Atom | np.ndarray, origin: str) -> None:
        """Cells get the value, an atom or an array of atoms that broadcasts to their shape."""
        self.check_open(origin)
        if not place.flags.writeable:
            raise TraceError(f"{origin}: NumPy has this view as read-only, it is assigned to; take a copy first: y = y.copy()")
        value = self._fitting(value, place, f"a region of shape {place.shape}", origin)
        if not place.size:
            return
        if self.memory.size <= CELLS and not (isinstance(value, Node) and value.op != "const" and _is_all(place, self.memory)):
            self._write_cells(numbers(place, self.memory), value, origin)
        else:
            self._close_cells(origin)
            self._write_region(place, value, origin)
        self.version = object()

    def _close_cells(self, origin: str) -> None:
        """Many cells that were kept one by one are those of a symbol from now on."""
        if self.cells is not None:
            self.symbol, self.cells = self.whole(origin), None

    def _fitting(self, value: Atom | np.ndarray, cells: np.ndarray, what: str, origin: str) -> Any:
        """A value that broadcasts to cells, without leading axes of one cell."""
        shape = value.shape
        while len(shape) > cells.ndim and shape[0] == 1:
            shape = shape[1:]
        if len(shape) > cells.ndim or any(n not in (1, m) for n, m in zip(shape[::-1], cells.shape[::-1], strict=False)):
            raise TraceError(f"{origin}: an array of shape {value.shape} for {what} does not broadcast")
        if value.shape == shape:
            return value
        return value.reshape(shape) if isinstance(value, np.ndarray) else Arrays(self.builder, origin).reshape(value, shape)

    def check_open(self, origin: str) -> None:
        """Raise where the cells must not be changed."""
        for refuses in (self.guard, self.watch):
            if refuses is not None:
                refuses()
        inner, own = active_builders()[-1] if active_builders() else self.builder, self.builder.path
        if self.refusal and own is not None and own.is_round:
            raise own.changed_inside(self, f"{origin}: {self.refusal}")
        if inner is not self.builder and inner.path is not None and inner.path.is_round:
            raise inner.path.changed(self, f"{origin}: a round assigns to cells of an array")
        if self.refusal:
            raise TraceError(f"{origin}: {self.refusal}")
        if any(image() is not None for image in self.images):
            raise TraceError(f"{origin}: {_IMAGED}")

    def _write_cells(self, chosen: np.ndarray, value: Atom | np.ndarray, origin: str) -> None:
        cells = cells_of(self.builder, self.whole(origin), origin) if self.cells is None else self.cells.copy()
        new = value if isinstance(value, np.ndarray) else cells_of(self.builder, value, origin)
        cells.reshape(-1)[chosen.ravel()] = np.broadcast_to(new, chosen.shape).ravel()
        self.cells, self.symbol = cells, None

    def _write_region(self, place: np.ndarray, value: Any, origin: str) -> None:
        arrays, value = Arrays(self.builder, origin), self._own_value(value, origin)
        if _is_all(place, self.memory):
            wide = arrays.broadcast_to(value, place.shape)
            self.symbol, self.pending, self.cells = arrays.reshape(wide, self.memory.shape), {}, None
            return
        if place.size == 1:
            number = int(numbers(place, self.memory).ravel()[0])
            self.pending[number] = value if value.shape == () else self.builder.bind("item", (value,), (), self.code, 0, origin)
            return
        before = self.whole(origin)
        found = region(place, self.memory)
        if found is None:
            self.symbol = self._scattered(arrays, before, place, value)
            return
        key, axes = found
        sizes = tuple(len(range(n)[slice(*k)]) for n, k in zip(self.memory.shape, key, strict=True))
        if value.shape != () and (list(axes) != sorted(axes) or place.shape != sizes):
            kept = tuple(n for n in place.shape if n != 1)
            long = arrays.reshape(arrays.broadcast_to(value, place.shape), kept)
            value = arrays.reshape(arrays.transpose(long, tuple(int(k) for k in np.argsort(axes))), sizes)
        known = constant_storage_cells(self.builder, before)
        if known is not None and known.strides == (0,) * known.ndim and known.size and known.flat[0] == 0:
            self.symbol = arrays.put(arrays.broadcast_to(value, sizes), key, self.memory.shape)
        else:
            self.symbol = arrays.bind("set", before, value, key=key)

    def _own_value(self, value: Any, origin: str) -> Atom:
        """A value to be written, of the dtype of the cells."""
        if isinstance(value, np.ndarray):
            return self.builder.bind("array", tuple(value.flat), value.shape, self.code, None, origin)
        return self.builder.cast(value, self.code)

    def _scattered(self, arrays: Arrays, before: Atom, place: np.ndarray, value: Atom) -> Atom:
        return assigned_at(arrays, before, numbers(place, self.memory), arrays.broadcast_to(value, place.shape))

    def write_at(self, chosen: np.ndarray, value: Atom | np.ndarray, origin: str) -> None:
        """Cells with these numbers get the value; of equal numbers the last counts."""
        self.check_open(origin)
        value = self._fitting(value, chosen, f"{chosen.shape} cells", origin)
        if not chosen.size:
            return
        if self.memory.size <= CELLS:
            self._write_cells(chosen, value, origin)
        else:
            self._close_cells(origin)
            arrays = Arrays(self.builder, origin)
            value = arrays.broadcast_to(self._own_value(value, origin), chosen.shape)
            self.symbol = assigned_at(arrays, self.whole(origin), chosen, value)
        self.version = object()


class Lens:
    """The storage of a view that no cells of another storage make up: it is read and written by two functions.

    `layout` is memory in which the cells lie as those of NumPy's view do, with gaps; `array` the one that it is a view of at
    `key`, where that is an index.
    """

    __slots__ = ("_read", "_write", "array", "builder", "code", "key", "layout", "memory", "of")

    def __init__(
        self, of: "View", key: Any, shape: Shape, code: str, read: Callable[[], Atom], write: Callable[[Atom], None],
        layout: np.ndarray | None = None, builder: Builder | None = None, array: Any = None,
    ) -> None:  # fmt: skip
        self.array = array
        self.builder: Builder = builder or of.storage.builder  # the innermost that what is read is of
        self.of = of
        self.key = key
        self.code = code
        self.memory = np.zeros(shape, np.int8)
        self.memory.flags.writeable = bool(of.place.flags.writeable)
        self.layout = self.memory if layout is None else layout
        self._read = read
        self._write = write

    def stamp(self) -> Any:
        """What is another object after a change."""
        return self.of.storage.stamp()

    def check_open(self, origin: str) -> None:
        """Raise where the cells must not be changed."""
        root_of(self).check_open(origin)

    def whole(self, origin: str) -> Atom:
        """All cells as they are now."""
        return self._read()

    def shown(self, place: np.ndarray) -> None:
        """Cells are not kept one by one."""
        return

    def cell(self, number: int, origin: str) -> Atom:
        """A single cell."""
        return self._own(origin).cell(number, origin)

    def write(self, place: np.ndarray, value: Atom | np.ndarray, origin: str) -> None:
        """Cells get the value, an atom or an array of atoms that broadcasts to their shape."""
        own = self._own(origin)
        own.write(place, value, origin)
        self._write(own.whole(origin))

    def write_at(self, chosen: np.ndarray, value: Atom | np.ndarray, origin: str) -> None:
        """Cells with these numbers get the value."""
        own = self._own(origin)
        own.write_at(chosen, value, origin)
        self._write(own.whole(origin))

    def _own(self, origin: str) -> Storage:
        """The cells as they are now, in a storage over the same memory."""
        own = Storage(self.builder, self.whole(origin), self.code)
        own.memory = self.memory
        return own


@dataclass(eq=False, slots=True)
class View:
    """Cells of a storage: `place` is the view of its memory that shows them.

    Slices are read from what they are slices of, `source`, in which they are `local`; other views by `how`, from `source`,
    or cell by cell where there is none.
    """

    storage: Any
    place: np.ndarray
    source: "View | None" = None
    local: Any = None  # a view of the other's memory, and this memory
    how: Any = None
    _first: int | None = None
    _layout: np.ndarray | None = None
    _seen: Any = None
    _value: Any = None

    @classmethod
    def over(cls, storage: Any) -> "View":
        """All cells of a storage."""
        return cls(storage, storage.memory)

    def atom(self, line: Callable[[], str]) -> Any:
        """The cells as they are now."""
        stamp = self.storage.stamp()
        if self._seen is not stamp:
            self._value, self._seen = self._read(line()), stamp
            if (counted := root_of(self.storage).counted) is not None:
                note_integers(self._value, counted)
        return self._value

    def _read(self, origin: str) -> Atom:
        storage = self.storage
        if self.place.shape == ():
            cell = storage.cell(self.first(), origin)
            return Constant(cell.value, storage.code) if isinstance(cell, Constant) and storage.code in "fdFD" else cell
        if self.place is storage.memory:
            return storage.whole(origin)  # type: ignore[no-any-return]
        cells = storage.shown(self.place)
        if cells is not None:
            return storage.builder.bind("array", tuple(cells.flat), cells.shape, storage.code, None, origin)  # type: ignore[no-any-return]
        arrays = Arrays(storage.builder, origin)
        if self.source is None:
            return look(arrays, storage.whole(origin), self.place, storage.memory)
        of = self.source.atom(lambda: origin)
        return look(arrays, of, *self.local) if self.how is None else self.how(arrays, of)  # type: ignore[no-any-return]

    def layout(self) -> np.ndarray:
        """Memory in which the cells lie as NumPy has them: `place`, but where the storage's own layout has gaps or overlaps."""
        if self._layout is None:
            self._layout = self._laid_out()
        return self._layout

    def _laid_out(self) -> np.ndarray:
        whole = self.storage.layout
        if whole is self.storage.memory or not self.place.size:
            return self.place
        chosen = self.numbers()
        places = numbers(whole, whole).ravel()[chosen]
        first = whole[(..., *(slice(int(k), int(k) + 1) for k in np.unravel_index(chosen.flat[0], whole.shape)))]
        steps = [int(np.take(places, 1, axis).flat[0] - places.flat[0]) if n > 1 else 1 for axis, n in enumerate(places.shape)]
        found = np.lib.stride_tricks.as_strided(first, places.shape, steps)
        if not self.place.flags.writeable:
            found.flags.writeable = False
        return found

    def overlaps(self, other: "View") -> bool:
        """Whether cells of two views may be the same."""
        x, y = self.storage, other.storage
        if x is y:
            return np.shares_memory(self.place, other.place)
        if isinstance(x, Lens) and isinstance(y, Lens) and x.of.is_at(y.of) and {x.key, y.key} == {("real",), ("imag",)}:
            return False
        return root_of(x) is root_of(y)

    def is_callers(self) -> bool:
        """Whether the cells are the caller's own."""
        return bool(root_of(self.storage).refusal)

    def known_as(self, value: Atom) -> "View":
        """Itself; the value is what it shows now."""
        self._seen, self._value = self.storage.stamp(), value
        return self

    def sliced(self, key: Any) -> "View":
        """The view that a basic index gives of this one."""
        source, local = (self.source, self.local) if self.local is not None else (self, None)
        if local is None:
            memory = np.empty(self.place.shape, np.int8)
            local = (memory, memory)
        return View(self.storage, self.place[key], source, (local[0][key], local[1]))

    def first(self) -> int:
        """The number of the first cell; from there the strides of `place` count."""
        if self._first is None:
            self._first = _address(self.place) - _address(self.storage.memory)
        return self._first

    def numbers(self) -> np.ndarray:
        """The numbers of the cells in the storage."""
        return numbers(self.place, self.storage.memory)

    def repeats(self) -> bool:
        """Whether a cell is shown more than once."""
        place = self.place
        return not (place.flags.c_contiguous or place.flags.f_contiguous) and np.unique(self.numbers()).size < place.size

    def is_at(self, other: "View") -> bool:
        """Whether two views show the same cells in the same order."""
        a, b = self.place, other.place
        if self.storage is not other.storage:
            x, y = self.storage, other.storage
            if not isinstance(x, Lens) or not isinstance(y, Lens) or not x.of.is_at(y.of) or not same_key(x.key, y.key):
                return False
            return np.array_equal(self.numbers(), other.numbers())
        return a.shape == b.shape and a.strides == b.strides and _address(a) == _address(b)

    def reads_written(self, given: "View") -> bool:
        """Whether NumPy, which copies cells of one axis one after the other, reads some of `given` that it has written."""
        if self.place.ndim != 1 or not 1 < self.place.size == given.place.size or self.storage.code != given.storage.code:
            return False
        if self.storage is not given.storage:  # at places that are not known
            one, other = self.layout().strides, given.layout().strides
            return one[0] != other[-1] and one[0] * other[-1] > 0 and self.overlaps(given)
        written, read = self.numbers(), given.numbers().ravel()
        step, by = written[1] - written[0], read[1] - read[0]
        if step * by < 0 or step == by:  # it takes a copy, or goes from the end that is not read later
            return False
        first, start = (written[0], read[0]) if step > 0 else (written[-1], read[-1])
        forward = not start < first < start + read.size * abs(by)
        return is_read_late(written, read) if forward == (step > 0) else is_read_late(written[::-1], read[::-1])

    def write(self, value: Atom | np.ndarray, origin: str) -> None:
        """The cells get the value, an atom or an array of atoms."""
        self.storage.write(self.place, value, origin)


def storage_memory(shape: Shape, strides: Any, dtype: Any = np.int8) -> np.ndarray:
    """New memory in which cells lie with these strides, counted in cells."""
    reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)] if 0 not in shape else []
    before = -sum(r for r in reach if r < 0)
    size = before + sum(r for r in reach if r > 0) + 1
    return np.lib.stride_tricks.as_strided(
        np.zeros(size, dtype)[before:], shape, [n * np.dtype(dtype).itemsize for n in strides]
    )


def memory_order(place: np.ndarray) -> tuple[int, ...]:
    """The axes by how far apart their cells lie in memory."""
    return tuple(int(k) for k in np.argsort([-abs(step) for step in place.strides], kind="stable"))


def root_of(storage: Any) -> Storage:
    """The storage that a view's cells are in, at last."""
    while isinstance(storage, Lens):
        storage = storage.of.storage
    return storage  # type: ignore[no-any-return]


def same_key(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    """Whether two indices are the same by their parts."""
    static = (int, np.integer, slice, str)
    return len(a) == len(b) and all(
        x is y or (isinstance(x, static) and isinstance(y, static) and x == y) for x, y in zip(a, b, strict=True)
    )


def storage_cells(
    builder: Builder, held: Atom | np.ndarray, code: str, like: np.ndarray, origin: str, refusal: str = ""
) -> View:
    """All cells of a new storage, whose axes lie in memory as those of another array."""
    if like.flags.c_contiguous:
        return View.over(Storage(builder, held, code, refusal))
    axes = memory_order(like)
    back = tuple(int(k) for k in np.argsort(axes))
    inner = held.transpose(axes).copy() if isinstance(held, np.ndarray) else Arrays(builder, origin).transpose(held, axes)
    storage = Storage(builder, inner, code, refusal)
    own = np.zeros_like(like, np.int8)
    storage.memory = own.transpose(axes)
    steps = tuple(step // like.itemsize for step in like.strides)
    storage.layout = storage.memory if steps == own.strides else storage_memory(like.shape, steps).transpose(axes)
    view = View(storage, own, View.over(storage), None, lambda a, x: a.transpose(x, back))
    return view if isinstance(held, np.ndarray) else view.known_as(held)


# -- places


def _address(place: np.ndarray) -> int:
    return place.__array_interface__["data"][0]  # type: ignore[no-any-return]


def numbers(place: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """The numbers of the cells that a view of the memory shows."""
    found = np.full(place.shape, _address(place) - _address(memory), np.intp)
    for axis, (n, step) in enumerate(zip(place.shape, place.strides, strict=True)):
        found += (np.arange(n) * step).reshape((-1,) + (1,) * (place.ndim - axis - 1))
    return found


def is_read_late(written: np.ndarray, read: np.ndarray) -> bool:
    """Whether a cell is read after it was written, where one after the other is copied."""
    _, when, late = np.intersect1d(written, read, return_indices=True)
    return bool((when < late).any())


def read_late(origin: str) -> BaseException:
    """What is to be raised for an assignment that reads cells it has written: a loop with symbols is written out."""
    path = active_builders()[-1].path if active_builders() else None
    reason = f"{origin}: NumPy reads values from the array while it changes it; assign a copy: y[...] = y[...].copy()"
    return path.unmergeable(reason) if path is not None and path.is_round else TraceError(reason)


def region(place: np.ndarray, memory: np.ndarray) -> tuple[tuple[Slice, ...], Shape] | None:
    """Slices of the memory's axes that show the same cells, and the axes in the view's order; None where there are none."""
    shape, strides = memory.shape, memory.strides
    if not place.size:
        return None
    start = [int(i) for i in np.unravel_index(_address(place) - _address(memory), shape)] if shape else []
    key = [(k, k + 1, 1) for k in start]
    axes: list[int] = []
    for n, step in zip(place.shape, place.strides, strict=True):
        if n == 1:
            continue
        for axis, (m, stride) in enumerate(zip(shape, strides, strict=True)):
            by = step // stride
            if m > 1 and axis not in axes and by and by * stride == step and 0 <= start[axis] + by * (n - 1) < m:
                last = start[axis] + by * (n - 1)
                stop = last + (1 if by > 0 else -1)
                key[axis] = normal_slice(slice(start[axis], None if stop < 0 else stop, by), m)
                axes.append(axis)
                break
        else:
            return None
    return tuple(key), tuple(axes)


def look(arrays: Arrays, x: Atom, place: np.ndarray, memory: np.ndarray) -> Atom:
    """The cells of x that a view of the memory shows."""
    if not place.size:
        return arrays.reshape(arrays.getitem(arrays.reshape(x, (memory.size,)), ((0, 0, 1),)), place.shape)
    once = place[tuple(slice(0, 1) if step == 0 else slice(None) for step in place.strides)]
    found = region(once, memory)
    if found is None:
        return arrays.broadcast_to(bind_take(arrays, arrays.reshape(x, (memory.size,)), numbers(once, memory)), place.shape)
    key, axes = found
    part = arrays.getitem(x, key)
    if list(axes) != sorted(axes):
        part = arrays.reshape(part, tuple(part.shape[a] for a in sorted(axes)))
        part = arrays.transpose(part, tuple(int(k) for k in np.argsort(np.argsort(axes))))
    return arrays.broadcast_to(arrays.reshape(part, once.shape), place.shape)


def _is_all(place: np.ndarray, memory: np.ndarray) -> bool:
    """Whether a view shows all cells in their order."""
    return place.size == memory.size and place.flags.c_contiguous and _address(place) == _address(memory)


# -- cells


def cells_of(builder: Builder, atom: Atom, origin: str) -> np.ndarray:
    """The cells of an atom as an array of atoms."""
    found = np.empty(math.prod(atom.shape), dtype=object)
    if isinstance(atom, ArrayConstant):
        code = atom.value.dtype.char
        found[:] = [Constant(v, None if code == "d" else code) for v in atom.value.ravel().tolist()]
    elif atom.shape == ():
        found[0] = atom
    else:
        known = constant_storage_cells(builder, atom)
        if known is not None:
            found[:] = [Constant(v, "D" if atom.dtype == "D" else None) for v in known.ravel().tolist()]
        else:
            found[:] = [builder.bind("item", (atom,), (), atom.dtype or "d", k, origin) for k in range(found.size)]
    return found.reshape(atom.shape)


def constant_storage_cells(builder: Builder, atom: Atom) -> np.ndarray | None:
    """The cells of a constant array, None where it is computed."""
    if isinstance(atom, ArrayConstant):
        return atom.value
    binding = builder.structural.get(atom)
    if binding is None or binding.op != "broadcast_to" or not isinstance(binding.operands[0], Constant):
        return None
    return np.broadcast_to(np.asarray(binding.operands[0].value, dtype=atom.dtype), atom.shape)


def assigned_at(arrays: Arrays, x: Atom, chosen: np.ndarray, value: Atom) -> Atom:
    """x with the cells of these numbers replaced by those of `value`; of equal numbers the last counts."""
    flat, last = np.unique(chosen.ravel()[::-1], return_index=True)
    rows = arrays.reshape(value, (chosen.size,))
    order = chosen.size - 1 - last
    picked = rows if np.array_equal(order, np.arange(chosen.size)) else arrays.bind("take", rows, indices=order)
    return arrays.bind("set_at", x, picked, indices=flat)


def storage_constant(builder: Builder, plain: np.ndarray, origin: str) -> Atom:
    """A plain array as an atom; one number repeated where all its cells are alike."""
    first = plain.flat[0]
    if (plain == first).all() and (plain.dtype.kind == "c" or (np.signbit(plain) == np.signbit(first)).all()):
        return Arrays(builder, origin).broadcast_to(Constant(first.item(), plain.dtype.char), plain.shape)
    return array_atom(plain)


def _with_cells(builder: Builder, base: Atom, pending: dict[int, Atom], code: str, origin: str) -> Atom:
    """An array with some cells replaced, by their numbers."""
    cells = math.prod(base.shape)
    known = constant_storage_cells(builder, base)
    if known is not None and 4 * len(pending) >= cells:
        flat = known.ravel()
        atoms = tuple(pending.get(k) or Constant(flat[k].item(), code) for k in range(cells))
        return builder.bind("array", atoms, base.shape, code, None, origin)
    places = sorted(pending)
    values = builder.bind("array", tuple(pending[k] for k in places), (len(places),), code, None, origin)
    return Arrays(builder, origin).bind("set_at", base, values, indices=np.array(places))

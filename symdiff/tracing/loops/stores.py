"""Cells that rounds give one after the other, of an array that is assigned to at `y[i]`.

Assumes that each round gives one cell (or row), at a place that moves on by steps. Guarantees that what a round reads is what
Python has there: its own cell, that of some rounds before, which are carried, or what was there before the loop. Refuses, by
`Again`, places of which this cannot be told.
"""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, dtype_of_atoms
from symdiff.ir.loops import Place
from symdiff.ir.node import Atom
from symdiff.tracing.loops.keeping import FEW, Again
from symdiff.tracing.loops.parts import at_way, replaced_in
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import NUMPY, Form, kind_of_several, traced_form
from symdiff.tracing.values.operands import as_atom
from symdiff.tracing.values.storage import Lens, Storage, View, constant_storage_cells, root_of
from symdiff.tracing.values.tracer import Tracer, array_of_objects
from symdiff.vocabulary.libraries import user_line
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.seams import Seam

in_order = Seam("numbers in order")
_NOTHING = object()
DEPTH = 8  # rounds before, of which a round reads cells


class ArrayStore:
    """An array with a storage of its own, to which rounds write; its rows are given."""

    def __init__(self, loop: Any, target: Tracer, outer: Builder) -> None:
        self.loop = loop
        self.place: Place | None = None
        self.depth = 0  # how far back rounds read
        self.stale = True  # what a round read was not known to be written then
        self.value: Any = _NOTHING
        self.before: list[Any] = []  # the cells of rounds before, that of the last one first
        self.storage: Storage = target.shared().storage
        self.atom: Atom = self.storage.whole(loop.origin)
        self.outer = outer
        self.code = self.storage.code
        self.storage.given(self.met)

    def asked_places(self) -> Iterable[int]:
        """How far back, from 0 on, the cells are that rounds read."""
        return range(self.depth)

    def anew(self) -> None:
        """Begin the ways through a round."""
        self.stale = False

    def begin(self, before: dict[int, Any]) -> None:
        """Begin a round."""
        self.value, self.before = _NOTHING, [*before.values()]

    def unknown(self, reason: str) -> BaseException:
        """What is to be raised: the loop hands on the whole array, or is not kept."""
        return self.loop.carry(self.storage, reason)  # type: ignore[no-any-return]

    def met(self) -> None:
        """Other cells than that of a known place are asked for."""
        raise self.unknown(f"{user_line()}: a round needs more than single cells of an array that it assigns to")

    def original(self, key: Any) -> Any:
        """A cell as it was before the loop."""
        return Tracer(self.outer, self.atom)[key]

    def first(self, rounds: int) -> Any:
        """The cell so many places before that of the first round."""
        assert self.place is not None
        return self.original(int(self.place.start) - rounds * self.place.step)  # type: ignore[call-overload]

    def read(self, key: Any, places: np.ndarray) -> Any:
        """The cell at a place, which has these values in the rounds."""
        if self.place is None:
            self.stale = True
            return self.original(key)
        own = self.place.start + self.place.step * np.arange(float(len(places)))
        behind = own - places
        rounds = behind[0] / self.place.step
        if (behind == behind[0]).all() and rounds == int(rounds):
            if rounds == 0:
                return self.original(key) if self.value is _NOTHING else self.value
            return self.earlier(int(rounds)) if rounds > 0 else self.original(key)
        if np.isin(places, own).any():
            raise self.unknown(f"{user_line()}: a round may read a cell that any other one gives")
        return self.original(key)

    def earlier(self, rounds: int) -> Any:
        """The cell that some rounds before gave."""
        if rounds > DEPTH:
            raise self.unknown(f"{user_line()}: a round reads a cell that one long before gave")
        if rounds > len(self.before):
            self.depth, self.stale = max(self.depth, rounds), True
            return self.first(rounds)
        return self.before[rounds - 1]

    def write(self, key: Any, places: np.ndarray, value: Any, builder: Builder) -> None:
        """The row of this round."""
        steps = np.diff(places)
        place = Place(int(steps[0]), int(places[0]))
        if not place.step or not (steps == place.step).all():
            raise self.unknown(f"{user_line()}: rounds assign to places that do not move on by steps")
        if self.place not in (None, place):
            raise self.unknown(f"{user_line()}: a round assigns to several cells of an array")
        origin, shape = user_line(), self.atom.shape[1:]
        atom = as_atom(value, builder, origin)
        if is_complex(dtype_of_atoms((atom,))) and not is_complex(self.code):
            raise self.loop.keeping.refuse(f"{origin}: a complex value in an array of real numbers")
        atom = Arrays(builder, origin).broadcast_to(builder.cast(atom, self.code), shape)
        self.place = place
        self.value = Tracer.argument(builder, atom, NUMPY) if shape else Tracer(builder, atom)  # type: ignore[arg-type]

    def given(self, _: Any = None) -> list[Any]:
        """The cell of this round."""
        if self.value is not _NOTHING:
            return [self.value]
        assert self.place is not None
        return [self.original(self.place.at(self.loop.index))]

    def learn(self, *_: Any) -> None:
        """Cells are alike."""

    def windows(self) -> dict[int, Any]:
        """The cells that the next round finds before its own."""
        return dict(enumerate([*self.given(), *self.before][: len(self.before)]))

    def agrees(self) -> bool:
        """Whether a round has read what it was known to read."""
        return not self.stale

    def rows(self, count: Any) -> tuple[Place, Any]:
        """The place of a round's row, and how many rows there are."""
        assert self.place is not None
        return self.place, self.atom.shape[0]

    def close(self, stack: Atom, count: int) -> None:
        """The array behind the loop."""
        assert self.place is not None
        arrays, atom, size = Arrays(self.outer, self.loop.origin), stack, self.atom.shape[0]
        known = constant_storage_cells(self.outer, self.atom)
        if count < size and not (known is not None and not known.any()):
            first, last = sorted((int(self.place.at(0)), int(self.place.at(count - 1))))
            key = ((first, last + 1, abs(self.place.step)), *((0, n, 1) for n in self.atom.shape[1:]))
            atom = arrays.bind("set", self.atom, arrays.getitem(stack, key), key=key)
        self.storage.become(atom)


class CarriedStore:
    """An array that rounds change wherever they like: what its names hold, and the objects, dicts and lists that have it or
    views of it, is a copy in a round, handed on as a whole, or another array that a round puts in its place.

    Who reads or changes the array by other names meanwhile, or later where there is another one, ends the attempt.
    """

    def __init__(self, loop: Any, originals: dict[Any, Any], holders: dict[Any, Any]) -> None:
        self.originals = originals  # the array by names, and by the ways to it or to views of it
        self.holders = holders  # what has it, by these ways
        target = self.target = bare(next(iter(originals.values())))
        self.value: Any = None
        self.storage: Storage = root_of(target.shared().storage)
        self.begin = self._over(self.storage.builder, self.storage.whole(loop.origin))
        self.loop = loop
        self.storage.given(self.met)
        self.copy: Any = None
        self.shown: dict[Any, Any] = {}  # what stands for the originals in a round
        self.given: Any = None  # the array behind a round
        self.is_another = False  # whether that may be another one than before

    def _over(self, builder: Builder, atom: Atom) -> Tracer:
        storage = Storage(builder, atom, self.storage.code)
        storage.counted = self.storage.counted
        return self._showing(builder, View.over(storage))

    def _showing(self, builder: Builder, view: View) -> Tracer:
        kind = Integer if self.target.whole else Tracer
        return kind.showing(builder, view, self.target.dtype)  # type: ignore[no-any-return]

    def met(self) -> None:
        """The array itself is asked for."""
        raise self.loop.carry(self.storage, f"{user_line()}: a round knows an array that it changes by several names")

    def _left(self) -> None:
        """The array of before is asked for behind the loop, which has another one in its place."""
        self.loop.keeping.open.append(self.loop)
        raise self.loop.keeping.refuse(f"{user_line()}: an array is read that a loop has changed and named anew")

    def copied(self, builder: Builder, symbol: Atom) -> dict[str, Any]:
        """What the names hold in a round."""
        self.copy = self._over(builder, symbol)
        self.storage.copied = functools.partial(self._in_place_of, array=self.copy)
        return self._held_by_all(self.copy)

    def _held_by_all(self, array: Tracer) -> dict[str, Any]:
        self.shown = {name: self._in_place_of(value, array) for name, value in self.originals.items()}
        for way, holder in self.holders.items():
            replaced_in(holder, self.originals[way], self.shown[way])
        return {name: value for name, value in self.shown.items() if name not in self.holders}

    def _in_place_of(self, value: Any, array: Tracer) -> Any:
        """What stands for the array, for a list of its cells, or for a view of it."""
        if isinstance(value, Listed):
            return value.over(array)
        view = value.shared()
        memory = view.storage.memory
        if isinstance(view.storage, Lens):
            array = self._in_place_of(view.storage.array, array)[view.storage.key]
        if view.place is memory:
            return array
        storage = array.shared().storage
        begun = view.place.ctypes.data - memory.ctypes.data
        place = np.ndarray(view.place.shape, np.int8, storage.memory, begun, view.place.strides)
        place.flags.writeable = view.place.flags.writeable
        return self._showing(array.builder, View(storage, place))

    def settle(self, held: dict[str, Any]) -> None:
        """What is there behind a round; those who hold it have the array itself again."""
        self.storage.copied = None
        found = {n: at_way(self.holders, (n, n[-1])) if n in self.holders else held.get(n) for n in self.originals}
        self.given = self.copy
        if any(bare(v) is not bare(self.shown[n]) for n, v in found.items()):
            self.given = next(iter(found.values()))
            one = all(v is self.given and self.shown[n] is self.copy for n, v in found.items())
            if not self.loop.states.found and not (one and self._can_be_followed(self.given)):
                raise self.loop.keeping.refuse("an array that a round changes is named anew")
            self.is_another = True
        for way, holder in self.holders.items():
            replaced_in(holder, found[way], self.originals[way])

    def _can_be_followed(self, array: Any) -> bool:
        """Whether an array that a round has made, or another one that is handed on, is like the one before."""
        copy = self.copy
        if type(array) is not type(copy) or array.shape != copy.shape or array.dtype != copy.dtype:
            return False
        held = array.shared()
        storage = held.storage
        return isinstance(storage, Storage) and storage.builder is copy.builder and held.place is storage.memory

    def close(self, atom: Atom) -> dict[str, Any]:
        """The array behind the loop, as what the names hold."""
        if not self.is_another:
            self.storage.become(atom)
            return {name: value for name, value in self.originals.items() if name not in self.holders}
        self.storage.given(self._left)
        return self._held_by_all(self._over(self.storage.builder, atom))


@Sequence.register
class Listed:
    """Stands for a list of floating numbers, of integers or of truths whose items rounds assign to: the cells of an array."""

    __contains__ = None
    __hash__ = None  # type: ignore[assignment]
    __class__ = property(lambda self: list)  # type: ignore[assignment]

    def __init__(self, name: str, loop: Any, cells: Tracer, kinds: tuple[Any, ...], row: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.loop = loop
        self.cells = cells
        self.row = row  # the places of the list among those around it
        self.kinds = kinds  # of which its items may be
        self.holds = "whole" if cells.whole else {"?": "truths"}.get(cells.dtype.char, "floating")

    @classmethod
    def of(cls, name: str, loop: Any, items: list[Any]) -> "Listed | None":
        """For a list, or one of lists of one length, which nothing else holds; None for one of other things than numbers, and
        for few integers or truths, which are handed on one by one.
        """
        found = numbers_of(items, _are_alone)
        if found is None or (found.sort != "floating" and len(found.values) <= FEW):
            return None
        kinds = loop.keeping.kinds.get((loop.place, name), ())
        return cls(name, loop, found.cells(loop.outer), found.kinds(kinds))

    @classmethod
    def read(cls, loop: Any, builder: Builder, items: Sequence[Any]) -> "Listed | None":
        """For a list of lists of one length, which rounds only read; None for one of other things than numbers."""
        found = numbers_of(items, lambda _: True)
        if found is None or len(found.shape) < 2:
            return None
        return cls("", loop, found.cells(builder, "a list of lists that rounds read by number is changed"), found.kinds(()))

    def over(self, cells: Tracer) -> "Listed":
        """The same for other cells."""
        return Listed(self.name, self.loop, cells, self.kinds, self.row)

    def into(self, owner: list[Any]) -> None:
        """The list has these items."""
        for k, part in enumerate(owner):
            if self.holds_lists:
                self[k].into(part)
            else:
                owner[k] = self[k]

    @property
    def holds_lists(self) -> bool:
        """Whether its items are lists."""
        return self.cells.ndim > len(self.row) + 1

    def __len__(self) -> int:
        return self.cells.shape[len(self.row)]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return [self[k] for k in self._places(key)]
        if not isinstance(key, (int, Integer)):
            self._unknown()
        if self.holds_lists:
            return Listed(self.name, self.loop, self.cells, self.kinds, (*self.row, key))
        found, kind = self.cells[(*self.row, key)], self.kinds[0]
        if not isinstance(found, Tracer):
            return found.item() if kind.python else found
        forms = [Form(found.dtype.char, found.form.whole, k, ()) for k in self.kinds]
        return found.of_kind(kind if len(forms) == 1 else kind_of_several(forms, self.loop._undecided))

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, slice):
            places, values = self._places(key), [*value]
            if len(values) != len(places):
                self._unknown()
            for k, item in zip(places, values, strict=True):
                self[k] = item
            return
        if not isinstance(key, (int, Integer)) or _sort(value) != self.holds or self.holds_lists:
            self._unknown()
        if others := traced_form(value).kind.each.difference(self.kinds):
            raise self.loop.also_of(self, others)
        self.cells[(*self.row, key)] = value

    def _places(self, key: slice) -> range:
        if not all(end is None or type(end) is int for end in (key.start, key.stop, key.step)):
            self._unknown()
        return range(*key.indices(len(self)))

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other] if isinstance(other, list) else NotImplemented

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self] if type(other) is list else NotImplemented

    def copy(self) -> list[Any]:
        """The items, in a list."""
        return self[:]  # type: ignore[no-any-return]

    def sort(self, *, key: Any = None, reverse: bool = False) -> None:
        """The items in order."""
        self[:] = in_order(self[:], key=key, reverse=reverse)

    def reverse(self) -> None:
        """The items in the other order."""
        self[:] = self[::-1]

    def _unknown(self, *_: Any) -> Any:
        if self.holds != "floating":  # it is handed on item by item
            self.loop.keeping.unlisted.add((self.loop.place, self.name))
            raise Again
        raise self.loop.keeping.refuse(f"{user_line()}: a round does more with a list than take and assign floating numbers")

    def __getattr__(self, name: str) -> Any:
        if not hasattr(list, name):
            raise AttributeError(name)
        return self._unknown()

    __bool__ = __eq__ = __iadd__ = __mul__ = __imul__ = __array__ = _unknown  # type: ignore[assignment]


class _Numbers(NamedTuple):
    """The numbers of a list, or of lists of one length in it, of one sort."""

    values: Sequence[Any]
    shape: tuple[int, ...]
    sort: str

    def cells(self, builder: Builder, refusal: str = "") -> Tracer:
        """The array of them."""
        atom = array_of_objects(np.array([*self.values, None], dtype=object)[:-1].reshape(self.shape), builder, user_line())
        whole = self.sort == "whole"
        code = "d" if whole else dtype_of_atoms((atom,))
        view = View.over(Storage(builder, builder.cast(atom, code) if whole else atom, code, refusal))
        return (Integer if whole else Tracer).showing(builder, view, np.dtype(code))  # type: ignore[no-any-return]

    def kinds(self, others: Iterable[Any]) -> tuple[Any, ...]:
        """What they are for Python, and what others are."""
        return tuple(dict.fromkeys([*(kind for v in self.values for kind in traced_form(v).kind.each), *others]))


def numbers_of(items: Sequence[Any], admits: Callable[[Sequence[Any]], bool]) -> _Numbers | None:
    values, shape = items, (len(items),)
    while values and all(type(v) is list for v in values) and admits(values) and len(set(map(len, values))) == 1:
        shape, values = (*shape, len(values[0])), [v for row in values for v in row]
    (sort, *others) = {_sort(v) for v in values} or {None}
    return None if others or sort is None else _Numbers(values, shape, sort)


def _are_alone(values: list[Any]) -> bool:
    """Whether a list alone holds its items."""
    return all(sys.getrefcount(v) <= _ALONE for v in values)


(_ALONE,) = [sys.getrefcount(v) for v in [[]]]


def bare(value: Any) -> Any:
    """A value, or the array that stands for it."""
    return value.cells if isinstance(value, Listed) else value


def _sort(value: Any) -> str | None:
    """What a list holds of which a value is an item: floating numbers, integers or truths; None for others."""
    if isinstance(value, Tracer):
        if value.shape:
            return None
        return "whole" if value.whole else {"d": "floating", "D": "floating", "?": "truths"}.get(value.dtype.char)
    if type(value) in (float, complex, np.float64, np.complex128):
        return "floating"
    return {int: "whole", np.int64: "whole", bool: "truths", np.bool_: "truths"}.get(type(value))

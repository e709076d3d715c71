"""Lists of objects or dicts of which rounds change numbers or arrays: each attribute, or key, of all of them is one array.

Assumes a list of different objects of one class, or of dicts of the same keys, as it is before a loop. Guarantees that what a
round reads of one of them, by a number or by a symbol of it, is what was last written to that one, by whatever name: all that
stand for one of them are given their numbers anew after each change. Arrays are values here: who changes cells of one ends the
attempt, and so does who has one by another name that changes as a whole.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from types import CellType
from typing import Any

from symdiff.ir.building import Builder, active_builders
from symdiff.tracing.loops.keeping import Again
from symdiff.tracing.loops.parts import Parts, at_way, is_cell, parts_of
from symdiff.tracing.loops.stores import Listed, numbers_of
from symdiff.tracing.values.operands import as_atom
from symdiff.tracing.values.storage import Lens, Storage, View, root_of
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

_MOST = 64  # changes in one round, of which a loop in it that is written out makes many


class Columns:
    """The numbers and arrays of the items of a list, in `cells`, by the names that items have them under."""

    def __init__(self, keeping: Any, owner: Sequence[Any], place: Any) -> None:
        self.keeping = keeping
        self.owner = owner
        self.place = place  # of the loop
        self.like: Parts = parts_of(owner[0])  # type: ignore[assignment]
        self.cells: dict[Any, Any] = {}
        self.kinds: dict[Any, Any] = {}  # of numbers, for Python
        self.first: dict[Any, Sequence[Any]] = {}  # the arrays that items have before the loop
        self.given: dict[Any, list[Any]] = {}  # where the cells are of those that they have had in it
        self.in_place: set[Any] = set()  # under which names rounds change arrays, or give items others
        self.renamed: set[Any] = set()
        self.shared = False  # whether others may have the arrays of items
        self.others: dict[Any, Any] = {}  # what gives the other parts of an item
        self.standing: list[tuple[Any, Any]] = []  # what stands for items, with their symbols
        self.way: Any = None  # to the list
        self.changes: list[Any] = []  # the rounds in which items have changed
        self.stamps: dict[Any, Any] = {}  # what is another object after a change of cells that items have not been given

    @classmethod
    def of(cls, keeping: Any, owner: Any, place: Any, builder: Builder, by_number: Any) -> "Columns | None":
        """For a list whose items are alike, of whose other parts `by_number` tells what gives them; None for others."""
        found = [parts_of(v) for v in owner] if type(owner) is list and owner else [None]
        first = found[0]
        if first is None or is_cell(owner[0]) or (first.kind is not dict and not _assigns_plainly(first.kind)):
            return None
        if any(f is None or f[:2] != first[:2] for f in found) or len(set(map(id, owner))) < len(owner):
            return None
        made = cls(keeping, owner, place)
        for name, column in zip(first.names, zip(*(f.parts for f in found if f is not None), strict=True), strict=True):
            known = place, _called(name)
            numbers = None if known in keeping.unlisted else numbers_of(column, lambda _: False)
            if numbers is not None:
                made.cells[name] = numbers.cells(builder)
                made.kinds[name] = numbers.kinds(keeping.kinds.get(known, ()))
            elif all(isinstance(v, Tracer) and v.shape and v.dtype.char in "dD" for v in column) and _are_alike(column):
                atom = as_atom([*column], builder, user_line())
                view = View.over(Storage(builder, atom, column[0].dtype.char))
                made.cells[name] = Tracer.showing(builder, view, column[0].dtype)
                made.given[name], made.first[name] = [root_of(v.shared().storage) for v in column], column
            else:
                made.others[name] = by_number(column, builder)
        if not made.cells or None in made.others.values():
            return None
        made.shared = _overlap([v.shared() for column in made.first.values() for v in column])
        made.refresh()
        return made

    # -- reading

    def item(self, k: Any) -> Any:
        """What stands for the item of a symbol."""
        found = self.like.together([self.others[n](k) if n in self.others else self._part(n, k) for n in self.like.names])
        self.standing.append((found, k))
        return found

    def _part(self, name: Any, k: Any) -> Any:
        """A number or an array of an item, as it is now."""
        if name in self.kinds:
            return self._numbers(name)[k]
        found = self.cells[name][k]
        storage = Storage(found.builder, found.atom, found.dtype.char)
        storage.watch = self._met
        self.given[name].append(storage)
        return Tracer.showing(found.builder, View.over(storage), found.dtype)

    def _numbers(self, name: Any) -> Listed:
        return Listed(_called(name), self, self.cells[name], self.kinds[name])

    def parts(self) -> Iterator[tuple[Any, Any, Any]]:
        """The items, and what stands for them, with the names of their numbers and arrays, and these."""
        for item in (*self.owner, *(item for item, _ in self.standing)):
            found = parts_of(item)
            own = dict(zip(found.names, found.parts, strict=True))  # type: ignore[union-attr]
            yield from ((item, name, own[name]) for name in self.cells)

    def refresh(self) -> None:
        """All items, and what stands for them, have what is there now."""
        active = active_builders()
        self.standing = [(item, k) for item, k in self.standing if k.builder in active]
        stamps = {name: self.stamp(name) for name in self.cells}
        changed = [name for name, stamp in stamps.items() if self.stamps.get(name) is not stamp]
        for item, k in (*((item, k) for k, item in enumerate(self.owner)), *self.standing):
            for name in changed:
                assign(item, name, self._part(name, k))
        self.stamps = stamps

    # -- changing

    def place_of(self, item: Any) -> Any:
        """The number of an item, or the symbol of that; None for what is none."""
        known = (k for other, k in (*self.standing, *((v, k) for k, v in enumerate(self.owner))) if other is item)
        return next(known, None)

    def stamp(self, name: Any) -> Any:
        """What is another object after a change of what items have under a name."""
        return self.cells[name].shared().storage.stamp() if name in self.cells else None

    def write(self, item: Any, name: Any, value: Any, in_place: bool) -> None:
        """An item gets another number or array."""
        self.changes = [r for r in self.changes if r is active_builders()[-1]] + [active_builders()[-1]]
        if len(self.changes) > _MOST:
            raise self.refuse()
        k = self.place_of(item)
        if name not in self.cells:
            raise self.refuse()
        if name in self.kinds:
            self._numbers(name)[k] = value
        else:
            cells = self.cells[name]
            if not isinstance(value, Tracer) or value.shape != cells.shape[1:] or value.dtype != cells.dtype:
                raise self.refuse()
            (self.in_place if in_place else self.renamed).add(name)
            self.shared |= not in_place and value.has_memory()
            if self.in_place and self.shared:
                self._met()
            if in_place:
                self._close(name)
            elif value.has_memory():
                root = root_of(value.shared().storage)
                root.watch = root.watch or self._met
            cells[k] = value
        self.refresh()

    def _close(self, name: Any) -> None:
        """Who has an array from before a change in place must not read it any more."""
        for storage in self.given[name]:
            if storage.refusal:
                raise self.refuse()
            if storage.watch == self._met:
                storage.watch = None
            storage.given(self._met)
        self.given[name].clear()

    def end(self) -> None:
        """The items have arrays of their own again: those from before, or others, which others may have, too."""
        for name, first in self.first.items():
            for k, (item, array) in enumerate(zip(self.owner, first, strict=True)):
                if name in self.in_place | self.renamed:
                    found = self.cells[name][k]
                    storage = Storage(found.builder, found.atom, found.dtype.char)
                    storage.watch = self._met if self.shared or name in self.renamed else None
                    root = root_of(array.shared().storage)
                    root.watch = root.watch or (self._met if name in self.renamed else None)
                    array = Tracer.showing(found.builder, View.over(storage), found.dtype)
                assign(item, name, array)

    def _met(self) -> None:
        raise self.refuse()

    def refuse(self) -> BaseException:
        """Note that the list has no columns in this loop; what is to be raised."""
        self.keeping.not_columns.add((self.place, self.way))
        return Again()

    def also_of(self, cells: Listed, kinds: set[Any]) -> BaseException:
        """A number is of another kind than those that are known: what is to be raised."""
        known = kinds <= self.keeping.kinds.get((self.place, cells.name), set())
        return self.refuse() if known else self.keeping.also_of((self.place, cells.name), kinds)

    def _undecided(self) -> int:
        raise self.refuse()


class _Change:
    """An item that code assigns to attributes or keys of, and those that it has read there, which it changes in place."""

    def __init__(self, columns: Columns, item: Any) -> None:
        self.columns = columns
        self.item = item
        self.read: dict[Any, Any] = {}

    def now(self, name: Any, value: Any) -> Any:
        self.read[name] = self.columns.stamp(name)
        return value.copy() if isinstance(value, Tracer) and value.shape else value

    def write(self, name: Any, value: Any) -> None:
        if name in self.read and self.read[name] is not self.columns.stamp(name):
            raise self.columns.refuse()
        self.columns.write(self.item, name, value, name in self.read)

    def check_dict(self) -> None:
        if type(self.item) is not dict:
            raise self.columns.refuse()


class Changing:
    """Stands for an item of such a list where code assigns to its attributes or keys; all names are the item's."""

    __slots__ = ("change",)

    def __init__(self, columns: Columns, item: Any) -> None:
        object.__setattr__(self, "change", _Change(columns, item))

    def __getattribute__(self, name: str) -> Any:
        change = _change_of(self)
        return change.now(name, getattr(change.item, name))

    def __setattr__(self, name: str, value: Any) -> None:
        _change_of(self).write(name, value)

    def __delattr__(self, name: str) -> None:
        raise _change_of(self).columns.refuse()

    def __getitem__(self, key: Any) -> Any:
        change = _change_of(self)
        change.check_dict()
        return change.now(key, change.item[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        change = _change_of(self)
        change.check_dict()
        change.write(key, value)

    def __delitem__(self, key: Any) -> None:
        raise _change_of(self).columns.refuse()


def _change_of(changing: Changing) -> _Change:
    return object.__getattribute__(changing, "change")  # type: ignore[no-any-return]


def _assigns_plainly(kind: type) -> bool:
    """Whether objects of a class have no code of their own for all of their attributes."""
    return (
        not issubclass(kind, (list, tuple, deque, CellType))
        and (kind.__setattr__, kind.__getattribute__) == (object.__setattr__, object.__getattribute__)
        and not hasattr(kind, "__getattr__")
    )


def _overlap(views: Sequence[View]) -> bool:
    """Whether cells of some arrays may be those of others."""
    numbers: dict[Any, list[Any]] = {}
    for view in views:
        if isinstance(view.storage, Lens):
            return True
        numbers.setdefault(view.storage, []).extend(view.numbers().ravel())
    return any(len(set(found)) < len(found) for found in numbers.values())


def _called(name: Any) -> str:
    """By what it is noted which numbers items have under a name."""
    return f"{name} of items"


def _are_alike(column: Sequence[Any]) -> bool:
    return len({(v.shape, v.dtype, type(v)) for v in column}) == 1


def assign(item: Any, name: Any, value: Any) -> None:
    """An item has another part."""
    if isinstance(item, dict):
        item[name] = value
    elif name in getattr(item, "__dict__", ()):
        vars(item)[name] = value
    else:
        object.__setattr__(item, name, value)


def begin_columns(keeping: Any, place: Any, held: dict[str, Any], by_number: Any) -> None:
    """Lists of which rounds of a loop change items are columns from now on."""
    ways = [way for way in keeping.in_columns.get(place, ()) if (place, way) not in keeping.not_columns]
    for way, owner in [(way, at_way(held, way)) for way in ways]:
        made = None if id(owner) in keeping.columns else Columns.of(keeping, owner, place, active_builders()[-1], by_number)
        if made is not None:
            made.way = way
            keeping.columns[id(owner)] = made

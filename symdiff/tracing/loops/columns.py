"""Lists of objects or dicts of which rounds change numbers or arrays: each attribute, or key, of all of them is one array; and
lists of arrays, which are the rows of one.

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
from symdiff.tracing.loops.items import within
from symdiff.tracing.loops.keeping import Again
from symdiff.tracing.loops.parts import Parts, are_arrays, at_way, is_cell, is_list_of_arrays, parts_of
from symdiff.tracing.loops.stores import Listed, numbers_of
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.operands import as_atom
from symdiff.tracing.values.storage import Lens, Storage, View, root_of
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

_ROW = "row"  # the name under which lists of arrays have these
_MOST = 64  # changes in one round, of which a loop in it that is written out makes many


class Columns:
    """The numbers and arrays of the items of a list, in `cells`, by the names that items have them under."""

    def __init__(self, keeping: Any, owner: Sequence[Any], place: Any, way: Any) -> None:
        self.keeping = keeping
        self.owner: Any = owner
        self.place = place  # of the loop
        self.way = way  # to the list
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
        self.changes: list[Any] = []  # the rounds in which items have changed
        self.stamps: dict[Any, Any] = {}  # what is another object after a change of cells that items have not been given

    @classmethod
    def of(cls, keeping: Any, owner: Any, place: Any, way: Any, builder: Builder, by_number: Any) -> "Columns | None":
        """For a list whose items are alike, of whose other parts `by_number` tells what gives them; None for others."""
        if is_list_of_arrays(owner) and _are_apart(owner):
            return Rows(keeping, owner, place, way, builder)
        found = [parts_of(v) for v in owner] if type(owner) is list and owner else [None]
        first = found[0]
        if first is None or is_cell(owner[0]) or (first.kind is not dict and not _assigns_plainly(first.kind)):
            return None
        if any(f is None or f[:2] != first[:2] for f in found) or not _are_apart(owner):
            return None
        made = cls(keeping, owner, place, way)
        for name, column in zip(first.names, zip(*(f.parts for f in found if f is not None), strict=True), strict=True):
            known = place, _called(name)
            numbers = None if known in keeping.unlisted else numbers_of(column, lambda _: False)
            if numbers is not None:
                made.cells[name] = numbers.cells(builder)
                made.kinds[name] = numbers.kinds(keeping.kinds.get(known, ()))
            elif are_arrays(column):
                made._take(name, column, builder)
            else:
                made.others[name] = by_number(column, builder)
        if not made.cells or None in made.others.values():
            return None
        made.shared = _overlap([v.shared() for column in made.first.values() for v in column])
        made.refresh()
        return made

    def _take(self, name: Any, column: Sequence[Any], builder: Builder) -> None:
        """The arrays that items have under a name are one."""
        atom = as_atom([*column], builder, user_line())
        view = View.over(Storage(builder, atom, column[0].dtype.char))
        self.cells[name] = Tracer.showing(builder, view, column[0].dtype)
        self.given[name], self.first[name] = [root_of(v.shared().storage) for v in column], column

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
        found = self._own(name, k, True)
        self.given[name].append(found.shared().storage)
        return found

    def _own(self, name: Any, k: Any, watched: bool) -> Tracer:
        """An array of an item in memory of its own; `watched`: it is not changed by others."""
        found = self.cells[name][k]
        storage = Storage(found.builder, found.atom, found.dtype.char)
        storage.watch = self._met if watched else None
        return Tracer.showing(found.builder, View.over(storage), found.dtype)  # type: ignore[no-any-return]

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
        for name, stamp in stamps.items():
            for item, own, k in self._places(name) if self.stamps.get(name) is not stamp else ():
                assign(item, own, self._part(name, k))
        self.stamps = stamps

    def _places(self, name: Any) -> Iterator[tuple[Any, Any, Any]]:
        """What has the numbers or arrays of a name, under which name, with their numbers or the symbols of these."""
        return ((item, name, k) for item, k in (*((item, k) for k, item in enumerate(self.owner)), *self.standing))

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
        if name not in self.cells:
            raise self.refuse()
        self._write(self.place_of(item), name, value, in_place)

    def _write(self, k: Any, name: Any, value: Any, in_place: bool) -> None:
        self.changes = [r for r in self.changes if r is active_builders()[-1]] + [active_builders()[-1]]
        if len(self.changes) > _MOST:
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
            for (item, own, k), array in zip(self._places(name), first, strict=False):
                if name in self.in_place | self.renamed:
                    root = root_of(array.shared().storage)
                    root.watch = root.watch or (self._met if name in self.renamed else None)
                    array = self._own(name, k, self.shared or name in self.renamed)
                assign(item, own, array)

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


class Rows(Columns):
    """The arrays of a list, which are the rows of one: copies of these, or views, where rounds change cells of them."""

    def __init__(self, keeping: Any, owner: Sequence[Any], place: Any, way: Any, builder: Builder) -> None:
        super().__init__(keeping, owner, place, way)
        self._take(_ROW, [*owner], builder)
        self.shared = _overlap([v.shared() for v in owner])
        self.are_views = (place, way) in keeping.viewed
        self.refresh()
        if self.are_views:
            self.in_place.add(_ROW)
            if self.shared:
                raise self.refuse()
            self._close(_ROW)

    def item(self, k: Any) -> Any:
        return self._part(_ROW, k)

    def refresh(self) -> None:
        if not (self.are_views and self.stamps):  # which show what is there
            super().refresh()

    def _part(self, name: Any, k: Any) -> Any:
        return self.cells[name][k] if self.are_views else super()._part(name, k)

    def parts(self) -> Iterator[tuple[Any, Any, Any]]:
        return ((self.owner, k, array) for k, array in enumerate([*self.owner]))

    def place_of(self, item: Any) -> Any:
        return None

    def _places(self, name: Any) -> Iterator[tuple[Any, Any, Any]]:
        return ((self.owner, k, k) for k in range(len(self.owner)))

    def written(self, k: Any, value: Any, in_place: bool) -> None:
        """An item of the list is another array, or has other cells."""
        if self.are_views and not in_place:
            raise self.refuse()
        self._write(k, _ROW, value, in_place)

    def _met(self) -> None:
        if self.are_views or (self.place, self.way) in self.keeping.viewed:
            raise self.refuse()
        self.keeping.viewed.add((self.place, self.way))
        raise Again


class Placing:
    """Stands for a list of arrays where code assigns to its items, by numbers that rounds may tell."""

    __slots__ = ("keeping", "owner", "read")

    def __init__(self, keeping: Any, owner: list[Any]) -> None:
        self.keeping = keeping
        self.owner = owner
        self.read: Any = None  # what the item is not to change after it was read

    def __getitem__(self, key: Any) -> Any:
        rows = self._rows(key)
        if rows is None:
            return self.owner[key]
        self.read = rows.stamp(_ROW)
        return rows.cells[_ROW][_from_front(key, self.owner)].copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        rows = self._rows(key)
        if rows is None:
            self.keeping.check_change(self.owner)
            self.owner[key] = value
        elif self.read is not None and self.read is not rows.stamp(_ROW):
            raise rows.refuse()
        else:
            rows.written(_from_front(key, self.owner), value, self.read is not None)

    def __delitem__(self, key: Any) -> None:
        self.keeping.check_change(self.owner)
        del self.owner[key]

    def _rows(self, key: Any) -> Any:
        """The rows of which the list is; None for a list as it was."""
        found = self.keeping.columns.get(id(self.owner))
        if found is None and isinstance(key, Integer):
            self.keeping.note_rows(self.owner)
        if found is not None and type(key) not in (int, Integer):
            raise found.refuse()
        return found


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


def _are_apart(items: Sequence[Any]) -> bool:
    return len(set(map(id, items))) == len(items)


def _from_front(key: Any, owner: Sequence[Any]) -> Any:
    """A place in a list, counted from the front; `IndexError` where there is none."""
    return range(len(owner))[key] if type(key) is int else within(key, len(owner))


def _called(name: Any) -> str:
    """By what it is noted which numbers items have under a name."""
    return f"{name} of items"


def assign(item: Any, name: Any, value: Any) -> None:
    """An item has another part."""
    if isinstance(item, (dict, list)):
        item[name] = value
    elif name in getattr(item, "__dict__", ()):
        vars(item)[name] = value
    else:
        object.__setattr__(item, name, value)


def begin_columns(keeping: Any, place: Any, held: dict[str, Any], by_number: Any) -> None:
    """Lists of which rounds of a loop change items are columns from now on."""
    ways = [way for way in keeping.in_columns.get(place, ()) if (place, way) not in keeping.not_columns]
    for way, owner in [(way, at_way(held, way)) for way in ways]:
        taken = id(owner) in keeping.columns
        made = None if taken else Columns.of(keeping, owner, place, way, active_builders()[-1], by_number)
        if made is not None:
            keeping.columns[id(owner)] = made

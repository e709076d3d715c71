"""Lists that rounds append to: what stands for such a list in a round, and the list behind the loop.

Assumes that a round tells what it appends to before it does. Guarantees that whoever holds the list (names, objects, lists,
dicts, variables of functions) has a `Growing` in the rounds, and the list itself, with the items of all rounds, behind them;
that each round gives as many items, of one structure; and that what cannot be found to hold it meets an item that refuses.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from symdiff.ir.loops import Place
from symdiff.tracing.loops.collected import Collected, Rows
from symdiff.tracing.loops.keeping import Again
from symdiff.tracing.loops.parts import replaced_in
from symdiff.tracing.loops.tables import Table
from symdiff.tracing.values.integers import Integer
from symdiff.tracing.values.kinds import Form, traced_form
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import user_line

DEPTH = 8  # items before those of a round, which it reads
MOST = 64  # items of a round


class Slot(NamedTuple):
    """What the rounds that give an item have in common: its structure, and the forms of its numbers and arrays."""

    structure: Any
    forms: list[Form]


class Growing:
    """Stands for a list in a round; `owner` is the list, or what stands for it in a round of an enclosing loop."""

    __slots__ = (
        "_cells", "_counts", "_holders", "_length", "alone", "before", "behind", "collects", "counted", "depth", "items",
        "key", "loop", "owner", "rate", "slots", "stale", "table",
    )  # fmt: skip
    __iter__ = None
    __contains__ = None
    __hash__ = object.__hash__

    def __init__(self, loop: Any, owner: Any, key: Any, alone: bool) -> None:
        self.loop = loop
        self.owner = owner
        self.alone = alone  # whether a name of the loop's frame holds it, and nothing else
        self.depth = 0  # how far back a round reads
        self.stale = False  # what a round read was not known to be so then
        self.rate: int | None = 1  # items of a round; None where conditions tell it
        self.counted = False  # whether a round asks how many items there are
        self.slots: list[Slot] = []  # the items that a round may give, one behind the other
        self.items: list[Any] = []  # of this round
        self.before: list[Any] = []  # those before this round, the last one first
        self.behind = owner  # who held the list has it behind the loop
        self.key = key
        self._counts: set[int] = set()  # items of the ways through a round
        self._length: Any = None  # before this round
        self._cells = [*self._told]
        self._holders: list[Any] | None = None
        ends = self._cells or getattr(loop.outer.path, "is_needed", False)  # else it may have none, which points cannot tell
        self.collects = loop.tested and type(owner) is list and bool(ends) and key not in loop.keeping.asked
        self.table = Table(loop, self._cells, loop.keeping.tables[key]) if key in loop.keeping.tables else None

    @property
    def _told(self) -> list[Any]:
        """Where the items are, as far as they are known: all of them, or those of the enclosing loop's round."""
        kind = type(self.owner)
        return self.owner.items if kind is Growing else self.owner.whole() if kind is Collected else self.owner  # type: ignore[no-any-return]

    def asked_places(self) -> Iterable[int]:
        """How far back, from 0 on, the items are that rounds read; -1 for the length, -2 for all of them."""
        first = -1 if self.collects or (self.counted and self.rate is None) else 0
        ends = bool(self.collects and (self._cells or self.slots))
        return [*([] if self.table is None else [-2]), *range(first, max(self.depth, ends))]

    def anew(self) -> None:
        """Begin the ways through a round."""
        self._counts, self.stale = set(), False

    def begin(self, before: dict[int, Any]) -> None:
        """Begin a round."""
        if self._holders is None:
            found = () if self.alone else gc.get_referrers(self.owner)  # which looks at all objects that there are
            self._holders = [holder for holder in found if replaced_in(holder, self.owner, self)]
            self.loop.keeping.standing[id(self)] = self
            self._told[:] = [Unknown(self)]
        self._length = before.pop(-1, None)
        if self.table is not None:
            self.table.begin(before.pop(-2))
        self.items, self.before = [], [*before.values()]

    def end(self, items: Iterator[Any] | None = None, behind: Any = None) -> None:
        """All have the list again, or what stands for it `behind` the loop: with these items more, or as it was."""
        if self._holders is not None:
            del self.loop.keeping.standing[id(self)]
            for holder in self._holders:
                replaced_in(holder, self, self.owner if behind is None else behind)
            self._holders = None
        self._told[:] = self._cells
        if items is not None:
            self._told.extend(items)
            if type(self.owner) is Growing:
                self.owner.check_length()

    def prepare(self, collects: bool) -> None:
        """Conditions may tell the items."""
        if collects and type(self.owner) is list:
            self.behind = Collected(self.owner)

    def collect(self, whole: Callable[[], Any], rows: Rows | None, ends: list[Any], length: Any) -> None:
        """All have what stands for the list, of which conditions tell the items."""
        head = [*self._cells]
        self.end(None, self.behind)
        self.behind.become(self.loop, head, whole, rows, length, ends)
        self.loop.keeping.collected[id(self.behind)] = self.behind

    def first(self, behind: int) -> Any:
        """The item so far behind those of the first round; the length before it; all items."""
        if behind < 0:
            return self.table.first()  # type: ignore[union-attr]
        if not behind:
            return self._start()
        if behind <= len(self._cells):
            return self._cells[-behind]
        if self.collects and self.slots:
            return self.loop.nothing(self.slots[-1], self.loop.outer)
        if type(self.owner) is Growing:
            return self.owner.earlier(behind - len(self._cells))
        raise self.loop.keeping.peel(1, 0, f"{user_line()}: a round reads an item of a list that is not there yet")

    def earlier(self, behind: int) -> Any:
        """The item so far behind those of this round."""
        if behind > DEPTH:
            raise self.tabled(f"{user_line()}: a round reads an item of a list that one long before gave")
        if behind > len(self._cells) and self.collects and not np.greater_equal(self._begun(), behind):
            raise IndexError("list index out of range")
        if behind > len(self.before):
            self.depth, self.stale = max(self.depth, behind), True
            return self.first(behind)
        return self.before[behind - 1]

    def windows(self) -> dict[int, Any]:
        """The items that the next round finds before its own, and their number."""
        length = {} if self._length is None else {-1: self._length + len(self.items)}
        if self.table is not None:
            length[-2] = tuple(self.table.arrays)
        return length | dict(enumerate([*reversed(self.items), *self.before][: len(self.before)]))

    def given(self, nothing: Callable[[Slot], Any]) -> list[Any]:
        """The items of a round, each with whether there is one."""
        self._counts.add(len(self.items))
        return [*((True, x) for x in self.items), *((False, nothing(slot)) for slot in self.slots[len(self.items) :])]

    def learn(self, place: int, structure: Any, leaves: list[Any]) -> None:
        """What an item is."""
        if self.table is not None:
            self.stale |= self.table.learn([*map(traced_form, leaves[1:])])
        if place >= len(self.slots):
            self.stale |= self.collects and not self._cells and not self.slots
            self.slots.append(Slot(structure.parts[1], [*map(traced_form, leaves[1:])]))

    def agrees(self) -> bool:
        """Whether a round has read what it was known to read."""
        rate = min(self._counts) if len(self._counts) == 1 else None
        agrees = not self.stale and (self.rate == rate or not self.counted)
        self.rate = rate
        return agrees

    def rows(self, count: Any) -> tuple[Place, Any]:
        """The place of a round's item in an array of these, and the number of rows."""
        return Place(1, 0), count

    def check_length(self) -> None:
        """A round gives no more items than are handed on one by one."""
        if len(self.items) > MOST:
            raise self.loop.keeping.refuse(f"a round gives more than {MOST} items of a list")

    def refuse(self) -> None:
        """The list itself is changed."""
        if self._holders is not None:
            raise self.other("a round knows a list that it appends to by what is not followed")

    def unknown(self, reason: str) -> BaseException:
        """What is to be raised where more must be known."""
        return self.loop.keeping.refuse(reason)  # type: ignore[no-any-return]

    def other(self, reason: str) -> BaseException:
        """What is to be raised where rounds do more than append: the list is one of what they change."""
        if self.key in self.loop.keeping.growing:
            return self.loop.keeping.refuse(reason)  # type: ignore[no-any-return]
        self.loop.keeping.growing.add(self.key)
        return Again()

    def tabled(self, reason: str) -> BaseException:
        """What is to be raised where rounds read any items: they are in arrays, or the loop is not kept."""
        keeping = self.loop.keeping
        del keeping.open[keeping.open.index(self.loop) + 1 :]
        if self.key in keeping.tables or type(self.owner) is Growing or self.loop.count is None or self.loop.tested:
            return keeping.refuse(reason)  # type: ignore[no-any-return]
        if not self._cells:
            return keeping.peel(1, 0, reason)  # type: ignore[no-any-return]
        keeping.tables[self.key] = 1
        return Again()

    def reaches(self) -> tuple[int, Any]:
        """How many items there are at most, and how many there are."""
        if self.table is None:
            raise self.tabled(f"{user_line()}: a round runs over a list that it appends to")
        return self.table.size, self.count()

    # -- as a list

    def append(self, value: Any) -> None:
        """One item of this round."""
        if self.loop is not self.loop.keeping.open[-1]:
            self.loop.keeping.check_change(self, True)
        if self.table is not None:
            if len(self.items) >= self.table.most:
                self.loop.keeping.tables[self.key] = len(self.items) + 1
                raise Again
            self.table.write(self.count(), value)
        self.items.append(value)
        self.check_length()

    def extend(self, values: Any) -> None:
        """Several items of this round."""
        if type(values) not in (list, tuple) and not (isinstance(values, Tracer) and values.shape):
            self._unknown()
        for value in values:
            self.append(value)

    def __iadd__(self, values: Any) -> "Growing":
        self.extend(values)
        return self

    def count(self) -> Any:
        """The length."""
        return self._begun() + len(self.items)

    def _begun(self) -> Any:
        """The length before this round."""
        self.counted = True
        if self.rate is not None and self._length is None:
            return (self.loop.index if self.rate == 1 else self.loop.index * self.rate if self.rate else 0) + self._start()
        self.stale |= self._length is None
        return self._start() if self._length is None else self._length

    def _start(self) -> Any:
        """The length before the loop."""
        return (self.owner._begun() if type(self.owner) is Growing else 0) + len(self._cells)

    def __bool__(self) -> bool:
        return bool(self._cells or self.items or self.count() > 0)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and 0 <= key < len(self._cells) and type(self.owner) is not Growing:
            return self._cells[key]
        behind = -key if type(key) is int and key < 0 else self._behind(key)
        if self.table is not None and (behind is None or not 0 < behind <= len(self.items) + DEPTH):
            if not isinstance(key, (int, Integer)) or np.shape(key):
                self._unknown()
            return self.table.read(key, self.count(), [end for loop in self.loop.keeping.open for end in loop.below])
        if behind is None or behind < 1:
            raise self.tabled(f"{user_line()}: a round reads an item of a list that is not known")
        return self.items[-behind] if behind <= len(self.items) else self.earlier(behind - len(self.items))

    def _behind(self, key: Any) -> int | None:
        """How far behind the end of the list a place is in all rounds."""
        behind = self.count() - key if isinstance(key, Integer) else None
        return behind if behind is None or type(behind) is int else self.loop.same_in_rounds(behind)

    def _unknown(self, *_: Any) -> Any:
        raise self.other(f"{user_line()}: a round does more with a list than to append and to take items")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(list, name):
            raise AttributeError(name)
        return self._unknown()

    __eq__ = __add__ = __radd__ = __mul__ = __imul__ = __array__ = __setitem__ = __delitem__ = _unknown  # type: ignore[assignment]


class Unknown:
    """The item of a list that a round has from what nobody knows to hold it."""

    __slots__ = ("_list",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, grown: Growing) -> None:
        self._list = grown

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._asked()

    def _asked(self, *_: Any) -> Any:
        self._list.refuse()

    __bool__ = __float__ = __array__ = __eq__ = __neg__ = __iter__ = __getitem__ = __call__ = __lt__ = __gt__ = _asked  # type: ignore[assignment]
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _asked

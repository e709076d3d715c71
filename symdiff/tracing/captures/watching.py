"""Notices when anything that a traced function can read outside its arguments has changed, so that its trace is stale.

Assumes that what `reaching` finds is all that the function can read. Guarantees that each holder found there (a cell, a
dictionary, an object, a class, a list, memory) is compared before each call with what it held when the function was traced:
objects by identity, memory by content. What a library's function gave of the state of the process is compared with what it
gives now. Larger floating arrays (see `hidden`) count by type alone, until a trace says that it needs their contents.
Constant are the subclasses of a class. Refuses, with `TraceError`, functions
that move on an iterator or a random generator that they capture, or ask an object whose state cannot be compared.
"""

import operator
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.hidden import Captured
from symdiff.tracing.captures.reaching import Reach
from symdiff.tracing.captures.telling import ABSENT
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.signatures import Function, Lookup, Namespace

Row = tuple[str, Any, Collection[Any], Collection[Any]]


class Check(Protocol):
    """What a holder held. `rows` say it to machine code: the kind, the holder, and keys and values as they should be."""

    def holds(self) -> bool: ...

    def rows(self) -> Iterator[Row]: ...


class Names(NamedTuple):
    """Some names of a namespace; what is missing there stands as `ABSENT`."""

    holder: Namespace
    values: Namespace

    def holds(self) -> bool:
        now = self.holder.get
        return all(_is(now(key, ABSENT), value) for key, value in self.values.items())

    def rows(self) -> Iterator[Row]:
        there = {key: value for key, value in self.values.items() if value is not ABSENT}
        yield "names", self.holder, there.keys(), there.values()
        if len(there) < len(self.values):
            yield "absent", self.holder, self.values.keys() - there.keys(), ()


class Entries(NamedTuple):
    """The keys and values of a dictionary, in their order."""

    holder: dict[Any, Any]
    keys: list[Any]
    values: list[Any]

    def holds(self) -> bool:
        if not self.values:
            return not dict.__len__(self.holder)
        return _are(dict.values(self.holder), self.values) and _are(dict.keys(self.holder), self.keys)

    def rows(self) -> Iterator[Row]:
        yield "entries", self.holder, self.keys, self.values


class Items(NamedTuple):
    """The items of a list."""

    holder: list[Any]
    values: list[Any]

    def holds(self) -> bool:
        return _are(self.holder, self.values)

    def rows(self) -> Iterator[Row]:
        yield "items", self.holder, (), self.values


class Word(NamedTuple):
    """The one object that `read(holder)` gives; `kind` and `at` are what machine code calls the place."""

    kind: str
    read: Lookup
    holder: Any
    value: Any
    at: tuple[Any, ...] = ()

    def holds(self) -> bool:
        return _is(self.read(self.holder), self.value)

    def rows(self) -> Iterator[Row]:
        yield self.kind, self.holder, self.at, () if self.value is ABSENT else (self.value,)


class State(NamedTuple):
    """The objects that `read(holder)` lists."""

    kind: str
    read: Callable[[Any], Iterable[Any]]
    holder: Any
    values: list[Any]

    def holds(self) -> bool:
        now = [*self.read(self.holder)]
        return (len(now) == len(self.values) and all(map(operator.is_, now, self.values))) or _alike(now, self.values)

    def rows(self) -> Iterator[Row]:
        yield self.kind, self.holder, (), self.values


class Body(NamedTuple):
    """What stands in the body of a class, and the classes that it inherits from."""

    holder: type
    order: tuple[type, ...]
    entries: Entries

    def holds(self) -> bool:
        return self.holder.__mro__ is self.order and self.entries.holds()

    def rows(self) -> Iterator[Row]:
        yield "class", self.holder, (), ()


class Contents(NamedTuple):
    """What an array held: its shape, dtype and a copy of its memory."""

    holder: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype
    kept: np.ndarray

    @classmethod
    def of(cls, array: np.ndarray) -> "Contents":
        return cls(array, array.shape, array.dtype, _words(array.copy()))

    def holds(self) -> bool:
        array = self.holder
        return array.shape == self.shape and array.dtype == self.dtype and _agree(_words(array), self.kept)

    def rows(self) -> Iterator[Row]:
        yield "contents", self.holder, (), (self,)


def same_cells(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape and dtype hold the same bits, or the same objects."""
    if array.dtype.hasobject:
        return array.tobytes() == other.tobytes()
    return _agree(_words(array), _words(other))


def _agree(words: np.ndarray, others: np.ndarray) -> bool:
    parts = range(0, len(words), _BLOCK)
    return len(words) == len(others) and all(np.array_equal(words[k : k + _BLOCK], others[k : k + _BLOCK]) for k in parts)


def _words(array: np.ndarray) -> np.ndarray:
    """The memory of an array in C order, as integers."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat


def _is(now: Any, value: Any) -> bool:
    return now is value or (type(value) is Captured and now is value.array)


def _are(now: Collection[Any], values: list[Any]) -> bool:
    if len(now) != len(values):
        return False
    try:
        return all(map(operator.is_, now, values)) or all(map(_is, now, values))
    except RuntimeError:  # another thread changes it
        return False


_BLOCK = 1 << 16  # words that are compared at a time: what is made of them stays in the cache
_EQUAL = frozenset({int, float, str, bytes, bool})


def _alike(now: list[Any], values: list[Any]) -> bool:
    """The same objects, or the same numbers and texts."""
    return len(now) == len(values) and all(
        _is(a, b) or (type(a) is type(b) and type(a) in _EQUAL and repr(a) == repr(b)) for a, b in zip(now, values, strict=True)
    )


_walking = threading.RLock()
free_in_children(_walking)
_OF_THREADS = frozenset(("local", "variable", "asked"))  # kinds of states that each thread may have its own of
_NONE = -1  # no thread's, where two have told of their own


class Moved(TraceError):
    """A trace has moved on what it found outside itself, so that another one would find it elsewhere."""


class Watch:
    """What a function can read, as it was when it was first traced.

    `large` are the arrays whose contents no trace has needed so far, `compared` the identities of those that are compared
    by content, `needed` the names of the large ones among these. It is `incomplete` where a trace found that a name is
    missing which nothing watches, and where a rule was declared or anything changed meanwhile. `version` is another one
    after more is watched. An `earlier` watch of the same function tells its own.
    """

    __slots__ = ("_checks", "_f", "_reach", "_thread", "compared", "incomplete", "large", "needed", "version")

    def __init__(self, f: Function, earlier: "Watch | None" = None) -> None:
        self._f = f
        self._checks: list[Check] = []
        self._reach: Reach | None = None
        self._thread = 0
        self.incomplete = False
        self.large: list[Captured] = []
        self.compared: set[int] = set()
        self.needed: set[str] = set() if earlier is None else set(earlier.needed)
        self.version = 0

    def begin(self) -> None:
        """Remember what the function can read, unless that is done."""
        with _walking:
            if self._reach is None:
                self._reach = Reach()
                self.include((self._f,))

    def include(self, found: Iterable[Any]) -> None:
        """Watch what these functions can read, too, and what else a trace came across."""
        with _walking:
            if self._reach is not None:
                self._reach.walk(self, found)
                self.version += 1

    def __bool__(self) -> bool:
        return bool(self._checks or self.large or self.incomplete)

    @property
    def holders(self) -> set[int]:
        """The identities of what the larger arrays were found in."""
        with _walking:
            return set() if self._reach is None else self._reach.holders()

    @property
    def asks(self) -> bool:
        """Whether Python may enter code of the user's by itself that asks what a value is, finds something outside, uses a
        library that may, or reads larger arrays.
        """
        with _walking:
            reach = self._reach
            return reach is not None and (
                (reach.entered and bool(reach.asking or self.large or reach.strange)) or reach.outside
            )

    @property
    def outside(self) -> bool:
        """Whether some of the code may call what finds something outside its arguments, or starts threads."""
        with _walking:
            return self._reach is not None and self._reach.outside

    @property
    def personal(self) -> bool:
        """Whether it is of what each thread has its own of."""
        return self._thread != 0

    @property
    def elsewhere(self) -> bool:
        """Whether it is of what each thread has its own of, as another thread has it, or as two have it."""
        return self._thread not in (0, threading.get_ident())

    def changed(self) -> bool:
        """Whether something is another object now, or memory that is compared by content holds something else.

        A large array may be replaced by another one of its type, shape and dtype. An incomplete watch counts as changed.
        """
        return self.incomplete or not self._holds()

    def _holds(self) -> bool:
        return all(captured.now() is not None for captured in self.large) and all(check.holds() for check in self._checks)

    def rows(self) -> Iterator[tuple[str, Any, Collection[Any], Collection[Any], Callable[[], bool]]]:
        """What `changed` looks at, for machine code, and what to ask where it cannot. A `Captured` may be replaced."""
        for check in self._checks:
            for row in check.rows():
                yield *row, check.holds

    def compare(self, needed: Iterable[Captured]) -> None:
        """Compare these arrays by content from now on."""
        for captured in needed:
            self.needed.add(captured.name)
            if captured in self.large:
                self.large.remove(captured)
            self.contents(captured.array)
            self.version += 1

    def contents(self, array: np.ndarray) -> None:
        """Compare an array by content."""
        if id(array) not in self.compared:
            self.compared.add(id(array))
            if self._reach is not None:
                self._reach.meet(array)
            self._checks.append(Contents.of(array))

    def require_unmoved(self, where: str) -> None:
        """Raise `TraceError` where a trace has moved on an iterator, a file or a random generator that was there before. What
        else has changed since it began, by another thread, it may have read either way.
        """
        self.incomplete = self.incomplete or not self._holds()
        for name, read, holder, values in () if self._reach is None else self._reach.moving:
            if not _alike(list(read(holder)), values):
                raise Moved(
                    f"{where}: the function moves on {name}, a {type(holder).__name__} that it finds outside itself, so that "
                    "every call has another value; draw what it needs outside and pass it as an argument, or capture a list"
                )

    # -- what `reaching` finds

    def names(self, holder: Namespace) -> Namespace:
        """The watched names of a namespace."""
        made = Names(holder, {})
        self._checks.append(made)
        return made.values

    def entries(self, holder: dict[Any, Any], values: list[Any]) -> None:
        """Compare a dictionary."""
        self._checks.append(Entries(holder, [*dict.keys(holder)], values))

    def items(self, holder: list[Any], values: list[Any]) -> None:
        """Compare a list."""
        self._checks.append(Items(holder, values))

    def word(self, kind: str, read: Lookup, holder: Any, value: Any, *at: Any) -> None:
        """Compare one object."""
        self._checks.append(Word(kind, read, holder, value, at))

    def state(self, kind: str, read: Callable[[Any], Iterable[Any]], holder: Any, values: list[Any]) -> None:
        """Compare several objects."""
        if kind in _OF_THREADS:
            own = threading.get_ident()
            self._thread = own if self._thread in (0, own) else _NONE
        self._checks.append(State(kind, read, holder, values))

    def body(self, kind: type, holder: Namespace, values: list[Any]) -> None:
        """Compare a class."""
        self._checks.append(Body(kind, kind.__mro__, Entries(holder, [*holder], values)))

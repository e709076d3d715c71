"""Puts back what a function that is run, once or several times, for a trace changes outside itself.

Assumes that what `reaching` finds is all that the function can reach, and that names of its code say which globals and which
attributes of classes, modules and functions it sets, and whether it writes into arrays, or may change anything at all: where
it does not, other threads may meanwhile. Guarantees that what containers, objects, cells and namespaces found so hold after a
run what they held before the first one, so that no traced value stays there. (Context variables are put back by running in a
context of its own.) Refuses, with `TraceError`, functions that change objects whose contents only their own methods can set.
"""

import array
import collections
import ctypes
import dis
import functools
import inspect
import logging
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import SymdiffError, TraceError
from symdiff.tracing.captures.mentioning import nested_codes
from symdiff.tracing.captures.reaching import COMPUTED, Reach
from symdiff.tracing.captures.telling import ABSENT, BUFFERS, slots_of
from symdiff.tracing.captures.watching import same_cells
from symdiff.vocabulary.signatures import Function, Namespace

_INTO = frozenset(
    """out fill put sort partition resize itemset setfield byteswap copyto place putmask put_along_axis fill_diagonal shuffle at
    __setitem__ overwrite_a overwrite_b overwrite_x""".split()
)  # by whose names a function writes into an array, beside assignments to its cells
_SETTING = frozenset("setattr delattr __setattr__ __delattr__ __dict__ vars exec eval update".split())
_INPLACE = frozenset("+= -= *= /= //= **= %= @= &= |= ^= <<= >>=".split())


class Part(NamedTuple):
    """What a holder held: `read` lists it, and `put` puts it back."""

    holder: Any
    read: Callable[[Any], Sequence[Any]]
    put: Callable[[Any, Any], None]
    kept: Sequence[Any]

    def restore(self) -> None:
        """Put it back where it has changed."""
        now = self.read(self.holder)
        if len(now) != len(self.kept) or not all(map(operator.is_, now, self.kept)):
            self.put(self.holder, self.kept)


class Cells(NamedTuple):
    """What an array held."""

    holder: np.ndarray
    kept: np.ndarray

    def restore(self) -> None:
        """Put it back where it has changed."""
        if self.holder.shape == self.kept.shape and not same_cells(self.holder, self.kept):
            self.holder[...] = self.kept


class Memory(NamedTuple):
    """What a buffer held."""

    holder: Any
    kept: bytes

    def restore(self) -> None:
        """Put it back where it has changed."""
        value = self.holder
        if bytes(memoryview(value)) == self.kept:
            return
        if isinstance(value, array.array):
            value[:] = array.array(value.typecode, self.kept)
        elif isinstance(value, (ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData)):
            ctypes.memmove(ctypes.addressof(value), self.kept, len(self.kept))
        elif isinstance(value, memoryview):
            value.cast("B")[:] = self.kept
        else:
            value[:] = self.kept


class _Writes:
    """What some code sets: names of globals, attributes, and whether it may write into arrays."""

    def __init__(self, codes: Iterable[tuple[types.CodeType, Namespace]]) -> None:
        self.attributes: set[str] = set()
        self.arrays = self.cells = False
        self.globals: dict[int, tuple[Namespace, set[str]]] = {}
        for code, namespace in codes:
            stored, attributes, into, cells = _writes(code)
            self.attributes |= attributes
            self.arrays = self.arrays or into
            self.cells = self.cells or cells
            if stored:
                self.globals.setdefault(id(namespace), (namespace, set()))[1].update(stored)


@functools.lru_cache(maxsize=4096)
def _writes(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], bool, bool]:
    """The globals and the attributes that a function and those nested in it set, and whether they write into arrays, and into
    variables of functions around them.
    """
    stored: set[str] = set()
    attributes: set[str] = set()
    words = {*code.co_names, *(c for c in code.co_consts if type(c) is str), *_keywords(code)}
    into, cells = not _INTO.isdisjoint(words), False
    for step in dis.get_instructions(code):
        if step.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            stored.add(step.argval)
        elif step.opname in ("STORE_ATTR", "DELETE_ATTR"):
            attributes.add(step.argval)
        elif step.opname in ("STORE_DEREF", "DELETE_DEREF"):
            cells = cells or step.argval in code.co_freevars
        elif step.opname in ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE") or step.argrepr in _INPLACE:
            into = True
    if not _SETTING.isdisjoint(words):
        attributes |= words
    if not COMPUTED.isdisjoint(words):
        attributes |= words
    for inner in map(_writes, nested_codes(code)):
        stored |= inner[0]
        attributes |= inner[1]
        into, cells = into or inner[2], cells or inner[3]
    return frozenset(stored), frozenset(attributes), into, cells


def _keywords(code: types.CodeType) -> Iterator[str]:
    for constant in code.co_consts:
        if type(constant) is tuple:
            yield from (name for name in constant if type(name) is str)


class _Everything:
    """Holds whatever is asked for."""

    def __contains__(self, _: Any) -> bool:
        return True


class _Seen:
    """Is told of holders in place of a `Watch`; what it needs of them is taken from all that a walk has seen."""

    needed = compared = _Everything()

    def __init__(self) -> None:
        self.large: list[Any] = []
        self.opaque: list[tuple[Callable[[Any], Iterable[Any]], Any, list[Any]]] = []

    def names(self, _: Any) -> Namespace:
        return {}

    def state(self, kind: str, read: Callable[[Any], Iterable[Any]], holder: Any, values: list[Any]) -> None:
        if kind == "referents":
            self.opaque.append((read, holder, values))

    def entries(self, *_: Any) -> None: ...

    items = word = body = contents = entries


class Outside:
    """What functions and other objects reach outside themselves, and what that held."""

    def __init__(self, found: Iterable[Any], where: str) -> None:
        self._where = where
        seen, reach = _Seen(), Reach(apart=[sys.modules])  # which holds all that there is
        try:
            reach.walk(seen, found)
        except (SymdiffError, RecursionError):
            raise
        except Exception as error:
            raise TraceError(
                f"{where}: an object of class {type(reach.last).__name__}, which the function finds outside itself, does not "
                f"tell its __class__ ({type(error).__name__}: {error}); let its __getattribute__ give it"
            ) from error
        self._opaque = seen.opaque
        writes = _Writes(reach.codes)
        still = not (writes.attributes or writes.arrays or writes.cells or writes.globals or reach.changing)
        self._parts = [part for value in ([] if still else reach.seen()) for part in _parts(value, writes)]
        self._parts += [_part(space, _entries, _put_names) for space in reach.namespaces()]
        self._parts += [_named(namespace, _get, *_OF_NAMES, sorted(names)) for namespace, names in writes.globals.values()]

    def restore(self) -> None:
        """Put everything back where a run changed it."""
        for part in self._parts:
            part.restore()

    def require_restored(self) -> None:
        """Raise `TraceError` where a run has changed what cannot be put back."""
        for read, holder, values in self._opaque:
            now = [*read(holder)]
            if len(now) != len(values) or not all(map(operator.is_, now, values)):
                raise TraceError(
                    f"{self._where}: the function changes a {type(holder).__name__} that it finds outside itself, which cannot "
                    "be put back after tracing; return what it stores there, or store it in a list"
                )


def _parts(value: Any, writes: _Writes) -> Iterator[Part | Cells | Memory]:
    if isinstance(value, dict):
        if value is not sys.modules:
            yield _part(value, _entries, _put_entries)
    elif isinstance(value, list):
        yield _part(value, list.copy, _put_items)
    elif isinstance(value, set):
        yield _part(value, _members, _put_members)
    elif isinstance(value, collections.deque):
        yield _part(value, list, _put_queued)
    elif isinstance(value, np.ndarray):
        plain = value.view(np.ndarray)
        if (writes.arrays or plain.dtype.hasobject) and plain.flags.writeable:
            yield Cells(plain, plain.copy())
        return
    elif isinstance(value, BUFFERS):
        if not memoryview(value).readonly:
            yield Memory(value, bytes(memoryview(value)))
        return
    elif isinstance(value, logging.Logger):
        yield _part(value, _entries_of_logger, _put_logger)
    elif isinstance(value, types.CellType):
        yield _part(value, _contents, _put_contents)
    elif isinstance(value, threading.local):
        yield _part(value.__dict__, _entries, _put_entries)
    elif isinstance(value, types.ModuleType):
        names = writes.attributes
        yield _named(vars(value), _get, *_OF_NAMES, sorted(names))
        return
    elif isinstance(value, type):
        yield _named(value, _get_of_class, type.__setattr__, type.__delattr__, sorted(writes.attributes - _OF_CLASSES))
        return
    kind = type(value)
    names = sorted({*slots_of(kind), *(name for name in writes.attributes if _is_field(kind, name))})
    names = [name for name in names if _get_of_object(value, name) is _get_of_object(value, name)]  # stored, not computed
    if names:
        yield _named(value, _get_of_object, object.__setattr__, object.__delattr__, names)


_OF_NAMES = dict.__setitem__, dict.__delitem__
_OF_CLASSES = frozenset(("__dict__", "__weakref__"))


@functools.lru_cache(maxsize=4096)
def _is_field(cls: Any, name: str) -> bool:
    """Whether a class written in C keeps something under a name that can be set: the code of a function, a factory."""
    found = inspect.getattr_static(cls, name, None)
    return isinstance(found, (types.GetSetDescriptorType, types.MemberDescriptorType)) and name != "__weakref__"


def _part(holder: Any, read: Callable[[Any], Sequence[Any]], put: Callable[[Any, Any], None]) -> Part:
    return Part(holder, read, put, read(holder))


def _named(holder: Any, get: Function, put: Function, delete: Function, names: Sequence[str]) -> Part:
    """What stands under some names."""

    def read(holder: Any) -> list[Any]:
        return [get(holder, name) for name in names]

    def put_all(holder: Any, kept: Sequence[Any]) -> None:
        for name, value in zip(names, kept, strict=True):
            if get(holder, name) is not value:
                delete(holder, name) if value is ABSENT else put(holder, name, value)

    return _part(holder, read, put_all)


def _get(namespace: Namespace, name: str) -> Any:
    return namespace.get(name, ABSENT)


def _get_of_class(cls: type, name: str) -> Any:
    return vars(cls).get(name, ABSENT)


def _get_of_object(value: Any, name: str) -> Any:
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return ABSENT


def _entries(value: dict[Any, Any]) -> list[Any]:
    kind = _kind_of_dict(value)
    return [*kind.keys(value), *kind.values(value)]


def _kind_of_dict(value: dict[Any, Any]) -> Any:
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def _put_entries(holder: dict[Any, Any], kept: Sequence[Any]) -> None:
    kind = _kind_of_dict(holder)
    keys, values = kept[: len(kept) // 2], kept[len(kept) // 2 :]
    now = [*kind.keys(holder)]
    if len(now) != len(keys) or not all(map(operator.is_, now, keys)):
        kind.clear(holder)
    for key, value in zip(keys, values, strict=True):
        if dict.get(holder, key, ABSENT) is not value:
            kind.__setitem__(holder, key, value)


def _put_names(namespace: Namespace, kept: Sequence[Any]) -> None:
    """Without a moment in which other threads would miss a name."""
    held = dict(zip(kept[: len(kept) // 2], kept[len(kept) // 2 :], strict=True))
    for name in [name for name in namespace if name not in held]:
        del namespace[name]
    for name, value in held.items():
        if namespace.get(name, ABSENT) is not value:
            namespace[name] = value


def _entries_of_logger(logger: logging.Logger) -> list[Any]:
    return _entries(vars(logger))


def _put_logger(logger: logging.Logger, kept: Sequence[Any]) -> None:
    _put_names(vars(logger), kept)
    logger.manager._clear_cache()  # type: ignore[attr-defined]


def _put_items(holder: list[Any], kept: Sequence[Any]) -> None:
    list.__setitem__(holder, slice(None), kept)


def _members(value: set[Any]) -> list[Any]:
    return sorted(set.__iter__(value), key=id)


def _put_members(holder: set[Any], kept: Sequence[Any]) -> None:
    set.clear(holder)
    set.update(holder, kept)


def _put_queued(holder: collections.deque[Any], kept: Sequence[Any]) -> None:
    holder.clear()
    holder.extend(kept)


def _contents(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []  # an empty cell


def _put_contents(cell: types.CellType, kept: Sequence[Any]) -> None:
    if kept:
        cell.cell_contents = kept[0]
    else:
        del cell.cell_contents

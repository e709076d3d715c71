"""What a trace comes across outside the function, and what objects tell of themselves: `ROWS` says for each kind what it
lists, `LEADING` where the walk goes on.

Assumes that reading changes nothing. Guarantees that the lists of a kind whose state no attribute, slot or item says are
compared before each call.
"""

import abc
import array
import collections
import contextvars
import ctypes
import datetime
import decimal
import functools
import gc
import inspect
import io
import itertools
import logging
import mmap
import operator
import os
import random
import re
import struct
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.vocabulary.libraries import IMMUTABLE, MADE, is_users, root_of_class
from symdiff.vocabulary.signatures import Arguments, Function, Keywords, Namespace

ABSENT: Any = object()
ATOMS = (
    bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ufunc, range, type(...), type(NotImplemented),
    types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, re.Pattern, type(collections.namedtuple("_", "of").of),
)  # fmt: skip
FIXED = (
    tuple, frozenset, types.MethodType, types.BuiltinMethodType, types.MethodWrapperType, types.MappingProxyType, property,
    staticmethod, classmethod, slice, functools.partial, functools._lru_cache_wrapper, type({}.keys()), type({}.values()),
    type({}.items()), types.GenericAlias, types.UnionType, super, operator.attrgetter, operator.methodcaller,
    operator.itemgetter,
)  # fmt: skip  # what these hold cannot be replaced
BUFFERS = (bytearray, array.array, memoryview, mmap.mmap, ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData)
RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)
_TELLING = (
    *ATOMS, *(k for k in FIXED if k is not functools._lru_cache_wrapper), *BUFFERS, random.Random, io.IOBase, dict, list,
    set, collections.deque, collections.abc.Iterator, contextvars.ContextVar, decimal.Context, decimal.Decimal, weakref.ref,
    types.ModuleType,
    types.FunctionType, types.CellType, types.BuiltinFunctionType, type, BaseException, struct.Struct, datetime.date,
    datetime.time, datetime.timedelta, datetime.tzinfo, threading.local, re.Match,
)  # fmt: skip  # whose whole state is compared, or cannot change
LISTED = (set, collections.deque)
PLAIN = frozenset({dict, list, tuple, set, frozenset, collections.deque, bytearray, np.ndarray, collections.OrderedDict})
NUMBERS = frozenset({bool, int, float, complex, str, bytes, type(None)})
_WHOLE = PLAIN | NUMBERS | {object, type, types.SimpleNamespace}


def is_opaque_capture(value: Any) -> bool:
    """Whether nothing but the methods of an object tell what it holds: those of Python's own extension types."""
    kind = type(value)
    root = root_of_class(kind)
    written = root in sys.builtin_module_names or root in sys.stdlib_module_names
    return written and not is_users(kind) and not is_known(kind) and not issubclass(kind, _TELLING)


@functools.lru_cache(maxsize=1024)
def slots_of(kind: Any) -> Namespace:
    """The slots of objects of a class, by name."""
    made = (c for c in kind.__mro__ if c.__flags__ & MADE and "__slots__" in vars(c))
    found = (v for c in made for v in vars(c).values() if type(v) is types.MemberDescriptorType)
    return {slot.__name__: slot for slot in found}


def is_known(cls: type) -> bool:
    """Whether the attributes, slots and items of an object say all that it holds: it has no memory for anything else."""
    while cls not in _WHOLE:
        if not cls.__flags__ & MADE or cls.__flags__ & IMMUTABLE:
            return False
        base = cls.__base__
        slots = sum(type(v) is types.MemberDescriptorType for v in vars(cls).values())
        if cls.__basicsize__ - base.__basicsize__ > 8 * slots + 16:  # the last for a dictionary and weak references
            return False
        cls = base
    return True


def parts(value: Any) -> Iterator[Any]:
    """What a value shows of itself, as numbers and texts."""
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, (list, tuple, set, frozenset, types.GeneratorType)):
        value = list(value)
        yield len(value)
        for item in value:
            yield from parts(item)
    elif isinstance(value, np.ndarray):
        yield from (str(value.dtype), repr(value.shape), value.tobytes())
    else:
        yield repr(value)


@dataclass(eq=False)
class File:
    """A file that a trace has read."""

    path: Any


class Asked:
    """A function of a library that a trace has asked for the state of the process, and what it gave."""

    def __init__(self, function: Function, args: Arguments, kwargs: Keywords, result: Any) -> None:
        self.call = functools.partial(function, *args, **kwargs)
        self.result = result

    def parts(self) -> list[Any]:
        """What it gives now, as numbers and texts; an exception where it raises now."""
        try:
            return list(parts(self.call()))
        except Exception as error:  # the next trace raises it where the user's code does
            return [repr(error)]

    @property
    def is_settled(self) -> bool:
        """Whether it gives the same when it is asked twice."""
        return self.parts() == self.parts()


PRINTING = Asked(np.get_printoptions, (), {}, None)  # when arrays are written


@dataclass(eq=False)
class Used:
    """An object of one of Python's own classes that a trace has asked for what only its methods tell."""

    owner: Any
    method: str
    line: str


@dataclass(eq=False)
class Unfollowed:
    """A function of the user's whose calls of methods a trace does not see."""

    function: types.FunctionType


@dataclass(frozen=True)
class Cache:
    """A function behind `lru_cache` whose results a trace has taken."""

    function: Any


@dataclass(eq=False)
class Imported:
    """A module that a trace has imported by a name."""

    name: str


@dataclass(eq=False)
class Standing:
    """Where an iterator or a random generator stands."""

    value: Any


def attributes(value: Any) -> Namespace | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def slot(value: Any, slot: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return ABSENT


def contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def memory(value: Any) -> list[Any]:
    view = memoryview(value)
    return [view.format, view.tobytes()]


def cells(value: np.ndarray) -> list[Any]:
    fields = [value] if value.dtype.names is None else [value[name] for name in value.dtype.names]
    return [str(value.dtype), *value.shape, value.tobytes(), *(cell for field in fields for cell in field.ravel().tolist())]


def variable(value: contextvars.ContextVar[Any]) -> list[Any]:
    try:
        return [value.get()]  # its default, where it has one
    except LookupError:
        return [ABSENT]


def stamp(path: Any) -> list[Any]:
    try:
        found = os.stat(path)
    except OSError:
        return []
    return [
        path if isinstance(path, int) else os.path.abspath(path),
        found.st_mtime_ns,
        found.st_ctime_ns,
        found.st_size,
        found.st_ino,
        found.st_dev,
    ]


def has_metadata(value: Any, name: str) -> bool:
    if name == "flags":
        return type(value) is np.ndarray
    return type(value) is types.FunctionType or (isinstance(value, type) and is_users(value))


def metadata(name: str, holders: list[Any]) -> Iterable[Any]:
    if name == "__annotations__":  # a class that has none would be given some by `getattr`
        return parts([inspect.get_annotations(holder) for holder in holders])
    found = [getattr(holder, name, None) for holder in holders]
    return found if name.endswith(("name__", "doc__", "module__")) else parts(found)


def registrations(_: Any) -> list[Any]:
    return [abc.get_cache_token()]


def settings_of_logger(value: logging.Logger) -> list[Any]:
    """What a logger shows, without what its handlers hold and what it remembers of its levels."""
    found = [value.getEffectiveLevel(), value.manager.disable]
    for name, held in vars(value).items():
        if name not in ("_cache", "manager"):
            found += [name, type(held), *map(id, held)] if name in ("handlers", "filters") else [name, held]
    return found


def text(value: Any) -> list[Any]:
    return [value.getvalue(), value.tell()] if not value.closed else []


def entry(name: str, space: Namespace) -> Any:
    return space.get(name)


def entries_of_cache(f: Any) -> list[Any]:
    held = gc.get_referents(f)  # keys and results are among these, or in a dictionary
    return sorted([*held, *(v for d in held if type(d) is dict for v in d.values())], key=id)


def position(value: Any) -> Iterator[Any]:
    """Where an iterator or a random generator stands."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        yield from () if frame is None else (frame.f_lasti, *frame.f_locals.values())
    elif isinstance(value, (np.flatiter, np.broadcast, np.nditer)):
        yield value.iterindex if isinstance(value, np.nditer) else value.index
    elif isinstance(value, RANDOM):
        yield repr(_random_state(value))
    elif isinstance(value, io.IOBase):
        yield value.closed or (value.tell() if value.seekable() else 0)
    elif isinstance(value, itertools.count):
        yield repr(value)
    else:
        try:
            with warnings.catch_warnings(action="ignore"):  # Python 3.14 has none of itertools' any more
                reduced = value.__reduce__()
        except Exception:  # it does not tell
            reduced = ()
        yield from _leaves(reduced)


def operands(value: Any) -> Iterable[Any]:
    """The arrays that an iterator of NumPy's goes along."""
    if isinstance(value, np.broadcast):
        return [each.base for each in value.iters]
    return value.operands if isinstance(value, np.nditer) else [value.base]


def _random_state(value: Any) -> Any:
    if isinstance(value, random.Random):
        return value.getstate()
    if isinstance(value, np.random.RandomState):
        return value.get_state(legacy=False)
    return (value.bit_generator if isinstance(value, np.random.Generator) else value).state


def _leaves(value: Any) -> Iterator[Any]:
    for part in value if isinstance(value, tuple) else ():
        if isinstance(part, tuple):
            yield from _leaves(part)
        elif hasattr(type(part), "__next__"):
            yield from position(part)
        else:
            yield part


TEXTS = (io.StringIO, io.BytesIO)
WALKING = (np.flatiter, np.broadcast, np.nditer)  # iterators of NumPy's
ROWS: tuple[tuple[Any, str, Callable[[Any], Iterable[Any]], bool], ...] = (
    (LISTED, "set", list, True),
    (collections.defaultdict, "factory", lambda value: [value.default_factory], True),
    (collections.OrderedDict, "order", list, False),
    (BUFFERS, "buffer", memory, False),
    (TEXTS, "text", text, False),
    (np.void, "row", lambda value: [str(value.dtype), value.tobytes()], False),
    (np.dtype, "fields", lambda value: [str(value)], False),
    (weakref.ref, "reference", lambda value: [value()], True),
    (weakref.finalize, "alive", lambda value: [value.alive], False),
    (contextvars.ContextVar, "variable", variable, True),
    (threading.local, "local", lambda value: [part for item in value.__dict__.items() for part in item], True),
    (decimal.Context, "context", lambda context: [repr(context)], False),
    (logging.Logger, "logger", settings_of_logger, True),
    (File, "file", lambda file: stamp(file.path), False),
    (Asked, "asked", Asked.parts, False),
    (Cache, "cache", lambda cache: entries_of_cache(cache.function), False),
    (Standing, "position", lambda standing: position(standing.value), False),
)  # of which kinds, what a check of it is called, what an object lists, and whether the walk goes on from that
LEADING: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (np.void, lambda value: [value.base]),
    ((datetime.datetime, datetime.time), lambda value: [value.tzinfo]),
    (weakref.ProxyTypes, lambda value: [value.__str__.__self__]),
    (functools._lru_cache_wrapper, lambda value: [value.__wrapped__]),
    (WALKING, operands),
    (FIXED, gc.get_referents),
)  # where the walk goes on besides


def led_to(value: Any) -> Iterable[Any]:
    """What else an object leads to."""
    return next((lead(value) for kinds, lead in LEADING if isinstance(value, kinds)), ())


def is_told(value: Any) -> bool:
    """Whether a row says what objects of a kind tell, or where they lead."""
    return any(isinstance(value, kinds) for kinds, *_ in (*ROWS, *LEADING))

"""Finds what a function can read outside its arguments: the state of the user's objects, however deep and however read.

Assumes that code reads what it can reach: its cells and defaults, the globals that it names, and from any object all that
the object holds. Guarantees that every holder of the user's state found so is told to a `captures.Watch`. Functions in classes
and modules are walked through once some code mentions their names, or Python calls them of itself. Modules, functions and
classes of libraries are constants (see `libraries`), what their instances, closures and containers hold is not.
"""

import abc
import array
import builtins
import collections
import contextvars
import copy
import copyreg
import ctypes
import dataclasses
import datetime
import decimal
import functools
import gc
import inspect
import io
import itertools
import logging
import mmap
import opcode
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
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.hidden import Captured, hidden_arrays_of, may_be_hidden
from symdiff.rulebooks.book import functions_outside, outside_word
from symdiff.rulebooks.declared import is_opaque_function
from symdiff.tracing.captures.questions import asks
from symdiff.vocabulary.libraries import Line, is_library, module_of

ABSENT: Any = object()
Keep = Callable[[Any], Any]
_SKIPPED = frozenset("sympy optree matplotlib IPython ipykernel pytest _pytest pluggy hypothesis llvmlite".split())
_ATOMS = (
    bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, np.ufunc, range, type(...), type(NotImplemented),
    types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, re.Pattern, type(collections.namedtuple("_", "of").of),
)  # fmt: skip
_FIXED = (
    tuple, frozenset, types.MethodType, types.BuiltinMethodType, types.MethodWrapperType, types.MappingProxyType, property,
    staticmethod, classmethod, slice, functools.partial, functools._lru_cache_wrapper, type({}.keys()), type({}.values()),
    type({}.items()), types.GenericAlias, types.UnionType, super, operator.attrgetter, operator.methodcaller,
    operator.itemgetter,
)  # fmt: skip  # what these hold cannot be replaced
BUFFERS = (bytearray, array.array, memoryview, mmap.mmap, ctypes.Array, ctypes.Structure, ctypes.Union, ctypes._SimpleCData)
_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator, np.random.SeedSequence)
_TELLING = (
    *_ATOMS, *(k for k in _FIXED if k is not functools._lru_cache_wrapper), *BUFFERS, random.Random, io.IOBase, dict, list,
    set, collections.deque, collections.abc.Iterator, contextvars.ContextVar, decimal.Context, decimal.Decimal, weakref.ref,
    types.ModuleType,
    types.FunctionType, types.CellType, types.BuiltinFunctionType, type, BaseException, struct.Struct, datetime.date,
    datetime.time, datetime.timedelta, datetime.tzinfo, threading.local, re.Match,
)  # fmt: skip  # whose whole state is compared, or cannot change
_MOVABLE = (os._Environ, contextvars.ContextVar, decimal.Context, types.ModuleType, *BUFFERS)  # of libraries' modules
_LISTED = (set, collections.deque)
_PLAIN = frozenset({dict, list, tuple, set, frozenset, collections.deque, bytearray, np.ndarray, collections.OrderedDict})
_SETTINGS: dict[Any, Callable[[], Any]] = {
    decimal.Decimal: decimal.getcontext,
    np.errstate: np.geterr,
    warnings.warn: lambda: warnings.filters,
    **dict.fromkeys((copy.copy, copy.deepcopy), lambda: copyreg.dispatch_table),
}  # what says how the setting stands that these and objects of these classes read, beside what they give
_UNREAD = frozenset(
    """__dict__ __weakref__ __doc__ __module__ __annotations__ __dataclass_fields__ __dataclass_params__ __slots__
    __abstractmethods__ _abc_impl __orig_bases__ __parameters__ __match_args__ __qualname__""".split()
)  # of classes
_READ_BY = {
    **dict.fromkeys(("get_type_hints", "get_annotations", "signature"), "__annotations__"),
    **dict.fromkeys(("fields", "asdict", "astuple", "replace"), "__dataclass_fields__"),
}  # what functions of Python's read
_PURE = frozenset(
    """numpy scipy symdiff math cmath builtins operator itertools functools collections dataclasses enum typing types abc copy
    contextlib contextvars fractions decimal statistics numbers string re sre bisect heapq array struct ctypes weakref
    """.split()
)  # libraries that look at nothing outside but by functions of `outside.table`
_WRITING = frozenset("str repr format ascii print join".split())
_METADATA = frozenset("__annotations__ __doc__ __module__ __name__ __qualname__ flags".split())
HOLDING = frozenset(("acquire", "release", "__enter__", "__exit__"))  # methods of locks, which tell nothing
_SPECIAL = frozenset("__getitem__ __len__ __iter__ __next__ __call__ __contains__ __float__ __int__ __bool__".split())
_STATES = ("state", "__getstate__", "n_children_spawned", "dumps")  # by which the state of a random generator is read
_CONSTRUCTORS = frozenset("__init__ __new__ __post_init__ __init_subclass__ __set_name__".split())
COMPUTED = frozenset("getattr hasattr vars dir __dict__ attrgetter methodcaller".split())  # read names made at run time
_TRAPPING = frozenset(("FloatingPointError", "ArithmeticError"))  # what NumPy raises where it is told to
_CALLED = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
_NAMESPACES = frozenset("globals eval exec __globals__".split())
_BUILTINS = frozenset(vars(builtins))
_ENTERING = frozenset("eval exec __call__ Thread Timer ThreadPoolExecutor start_new_thread".split())  # what enters code


class File:
    """A file that a trace has read."""

    def __init__(self, path: Any) -> None:
        self.path = path


def is_opaque_capture(value: Any) -> bool:
    """Whether nothing but the methods of an object tell what it holds: those of Python's own extension types."""
    kind = type(value)
    root = _root(kind)
    written = root in sys.builtin_module_names or root in sys.stdlib_module_names
    return written and not is_users(kind) and not _known(kind) and not issubclass(kind, _TELLING)


class Asked:
    """A function of a library that a trace has asked for the state of the process, and what it gave."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        self.call = functools.partial(function, *args, **kwargs)
        self.result = result

    def parts(self) -> list[Any]:
        """What it gives now, as numbers and texts; an exception where it raises now."""
        try:
            return list(_parts(self.call()))
        except Exception as error:  # the next trace raises it where the user's code does
            return [repr(error)]

    @property
    def is_settled(self) -> bool:
        """Whether it gives the same when it is asked twice."""
        return self.parts() == self.parts()


PRINTING = Asked(np.get_printoptions, (), {}, None)  # when arrays are written


class Used:
    """An object of one of Python's own classes that a trace has asked for what only its methods tell."""

    def __init__(self, owner: Any, method: str, line: str) -> None:
        self.owner = owner
        self.method = method
        self.line = line


class Unfollowed:
    """A function of the user's whose calls of methods a trace does not see."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function


class Cache:
    """A function behind `lru_cache` whose results a trace has taken."""

    def __init__(self, function: Any) -> None:
        self.function = function


class Imported:
    """A module that a trace has imported by a name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Found:
    """What a trace has come across beside the functions that it calls, such as the bodies of a rule."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Standing:
    """Where an iterator or a random generator stands."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Reach:
    """What some functions can read. `moving` are iterators and random generators, `asking` says that some code of the user's
    asks what a value is, `entered` that Python may enter code of his by itself, `codes` is his code with its globals, `last`
    what was looked at last. What is `apart` is not looked at.
    """

    def __init__(self, apart: Iterable[Any] = ()) -> None:
        self._watch: Any = None  # during a walk
        self._seen: dict[int, Any] = {id(value): value for value in apart}
        self._waiting: list[tuple[Any, str]] = []
        self._above: dict[int, list[int]] = {}
        self._bearing: list[int] = []
        self._arrays: dict[int, Captured] = {}
        self._spaces: dict[int, dict[str, Any]] = {}
        self._mentioned = {""}
        self._unmentioned: dict[str, list[tuple[Any, str]]] = {}
        self._modules: list[tuple[types.ModuleType, set[str]]] = []
        self._unfollowed: frozenset[str] | None = None  # what code mentions whose calls of methods are not seen
        self._asked = (frozenset[str](), 0)  # for what of this, and for how many objects, that is done
        self.asking = self.entered = False
        self.codes: list[tuple[types.CodeType, dict[str, Any]]] = []
        self.last: Any = None
        self.where = ""  # of the latest of that code
        self.moving: list[tuple[str, Callable[[Any], Iterable[Any]], Any, list[Any]]] = []

    def walk(self, watch: Any, found: Iterable[Any]) -> None:
        """Go on from here; `watch` is told."""
        self._watch = watch
        self._waiting += [(value, "self") for value in found]
        while self._waiting:
            while self._waiting:
                self._look(*self._waiting.pop())
            for module, names in self._modules:
                new = self._mentioned - names
                names |= new
                self._of_module(module, new)
            self._of_metadata()
            if self._unfollowed is not None:
                self._of_unfollowed(self._unfollowed)
        self._watch = None

    def holders(self) -> set[int]:
        """The identities of what holds larger arrays, directly or not."""
        found: set[int] = set()
        waiting = list(self._bearing)
        while waiting:
            holder = waiting.pop()
            if holder not in found:
                found.add(holder)
                waiting += self._above.get(holder, ())
        return found

    def seen(self) -> list[Any]:
        """All that it has come across."""
        return [value for key, value in self._seen.items() if type(key) is int]

    def namespaces(self) -> list[dict[str, Any]]:
        """The globals of which code may read and set any."""
        return [value for key, value in self._seen.items() if isinstance(key, tuple) and key[1] == "all"]

    def meet(self, array: np.ndarray) -> None:
        """An array that is compared by content from now on."""
        self._seen[id(array)] = array

    @property
    def outside(self) -> bool:
        """Whether some of the code may call what finds something outside its arguments, or draws numbers."""
        names = self._mentioned
        own = (vars(builtins)[name] for name in names & _BUILTINS)
        return (
            "__subclasses__" in names
            or any(map(calls_outside, own))
            or any(_finds(v, names) for v in _with_modules(self.seen(), names))
        )

    @property
    def strange(self) -> bool:
        """Whether some of the code may use a library that reads files by itself, objects that only their methods tell of, or
        the texts of arrays.
        """
        names, found = self._mentioned, _with_modules(self.seen(), self._mentioned)
        roots = {_root_of(value) for value in found}
        return not _WRITING.isdisjoint(names) or any(root.lstrip("_") not in _PURE for root in roots)

    # -- what is kept of a value, and where it leads

    def _kept(self, value: Any, name: str, read: Keep, key: Any, holder: Any = None) -> Any:
        """What is compared with `read(key)`: the value, or a `Captured` that may be replaced. The walk goes on from there."""
        if may_be_hidden(value) and name not in self._watch.needed and id(value) not in self._watch.compared:
            found = self._arrays.get(id(value))
            if found is None:
                found = self._arrays[id(value)] = Captured(name, value)
                self._watch.large.append(found)
            found.ways.append((read, key))
            if holder is not None:
                self._bearing.append(id(holder))
            return found
        self._reach(value, name, holder)
        return value

    def _reach(self, value: Any, name: str, holder: Any = None) -> None:
        self.last = value
        if _is_atom(value):
            return
        if holder is not None:
            self._above.setdefault(id(value), []).append(id(holder))
        if id(value) not in self._seen:
            self._waiting.append((value, name))

    def _look(self, value: Any, name: str) -> None:
        self.last = value
        if _is_atom(value) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        kind = type(value)
        if isinstance(value, types.FunctionType):
            if not is_opaque_function(value):  # what it reads it reads in every call
                self._of_function(value, name)
        elif isinstance(value, File):
            self._watch.state("file", _stamp, value.path, _stamp(value.path))
        elif isinstance(value, Asked):
            self._watch.state("asked", Asked.parts, value, value.parts())
            self._reach(value.result, name)
        elif isinstance(value, Used):
            self._of_used(value)
        elif isinstance(value, Unfollowed):
            code = value.function.__code__
            self._unfollowed = (self._unfollowed or frozenset()) | _names(code)[1]
            self.where = _line(code)
        elif isinstance(value, Cache):
            self._watch.state("cache", _entries_of_cache, value.function, _entries_of_cache(value.function))
        elif isinstance(value, Imported):
            self._of_names(sys.modules, (value.name, value.name.partition(".")[0]), "")
        elif isinstance(value, Found):
            self._reach(value.value, name)
        elif isinstance(value, Standing):
            self._watch.state("position", _position, value.value, list(_position(value.value)))
        elif isinstance(value, types.ModuleType):
            self._modules.append((value, set()))
            self._of_class(kind, name)
        elif isinstance(value, type):
            self._mention(_CONSTRUCTORS)
            self._of_class(value, name)
            self._of_abstract(value)
        elif kind in _PLAIN:
            self._of_container(value, name)
        elif _root(kind) == "symdiff":
            self._of_ours(value, name)
        elif _root(kind) not in _SKIPPED:
            self._of_container(value, name)
            self._of_object(value, name)
        self._of_settings(value)

    def _of_ours(self, value: Any, name: str) -> None:
        """A derivative or another callable of symdiff's."""
        for captured in hidden_arrays_of(value):
            for read, key in captured.ways:
                self._watch.word("way", read, key, self._kept(captured.array, captured.name, read, key))
        for inner in ("f", "function", "func", "graph", "__wrapped__"):
            self._reach(getattr(value, inner, None), name)

    def _of_metadata(self) -> None:
        """Names, texts and annotations of functions and classes, and flags of arrays, as far as code mentions such."""
        for name in _METADATA & self._mentioned:
            found = [v for v in list(self._seen.values()) if _has_metadata(v, name) and (id(v), name) not in self._seen]
            self._seen |= {(id(value), name): value for value in found}  # type: ignore[misc]
            if found:
                read = functools.partial(_metadata, name)
                self._watch.state("metadata", read, found, list(read(found)))

    def _of_settings(self, value: Any) -> None:
        """Settings that a function of a library reads, a class, or the operators of an object."""
        asked = value if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, type)) else type(value)
        for reader in asked.__mro__ if isinstance(asked, type) else (asked,):
            ask = None if is_users(type(reader)) else _SETTINGS.get(reader)
            if ask is not None:
                self._reach(Asked(ask, (), {}, ask()), "")

    def _of_used(self, used: Used) -> None:
        if id(used.owner) in self._seen:
            raise TraceError(
                f"{used.line}: {used.method} asks a {type(used.owner).__name__} that the function finds outside itself, whose "
                "state cannot be compared before each call; pass what it gives as an argument, or use frozen=True"
            )

    def _of_unfollowed(self, mentioned: frozenset[str]) -> None:
        """What only the methods of an object tell, and where things stand that a copy moves on, as far as code may ask it."""
        found = self.seen()
        known, self._asked = self._asked, (mentioned, len(found))
        for value in found[known[1] if known[0] == mentioned else 0 :]:
            if is_opaque_capture(value):
                methods = {name for name in dir(type(value)) if name in mentioned or name in _SPECIAL} - HOLDING
                for method in sorted(methods, key=lambda name: (name in _SPECIAL, name))[:1]:
                    self._of_used(Used(value, method, self.where))
        for _, read, holder, values in self.moving:
            if (id(holder), "position") not in self._seen:
                self._seen[id(holder), "position"] = holder  # type: ignore[index]
                self._watch.state("position", read, holder, values)

    # -- containers

    def _of_container(self, value: Any, name: str) -> None:
        if isinstance(value, dict):
            self._of_dict(value, name)
        elif isinstance(value, list):
            get = value.__getitem__
            self._watch.items(value, [self._kept(v, f"{name}[{k}]", get, k, value) for k, v in enumerate(list(value))])
        elif isinstance(value, (tuple, frozenset)):
            self._of_tuple(value, name)
        elif isinstance(value, _LISTED):
            self._state("set", list, value, name)
        elif isinstance(value, np.ndarray):
            self._of_array(value, name)
        elif isinstance(value, BUFFERS):
            self._watch.state("buffer", _memory, value, _memory(value))

    def _of_dict(self, value: dict[Any, Any], name: str) -> None:
        get = functools.partial(dict.get, value) if type(value).get is not dict.get else value.get
        items = list(dict.items(value))
        for key, _ in items:
            self._reach(key, f"a key of {name}")
        self._watch.entries(value, [self._kept(v, f"{name}[{k!r}]" if type(k) in (str, int) else f"{name}[...]", get, k, value)
                                    for k, v in items])  # fmt: skip
        if isinstance(value, collections.defaultdict):
            self._state("factory", _factory, value, name)
            self._of_called(value, value.default_factory, name)
        if isinstance(value, collections.OrderedDict):
            self._watch.state("order", list, value, list(value))

    def _of_tuple(self, value: Any, name: str) -> None:
        for k, item in enumerate(value):
            if isinstance(value, tuple):
                self._kept(item, f"{name}[{k}]", functools.partial(tuple.__getitem__, value), k, value)
            else:
                self._reach(item, name, value)

    def _of_array(self, value: np.ndarray, name: str) -> None:
        if value.dtype.hasobject:
            self._state("objects", _cells, value, name)
        else:
            self._watch.contents(value)
        self._reach(value.dtype, name)

    def _state(self, kind: str, read: Callable[[Any], Iterable[Any]], holder: Any, name: str) -> None:
        """What a holder lists, compared in Python."""
        values = list(read(holder))
        self._watch.state(kind, read, holder, values)
        for value in values:
            self._reach(value, f"an item of {name}", holder)

    # -- objects

    def _of_object(self, value: Any, name: str) -> None:
        """An object of any class: its class, its attributes, its slots, and what else it leads to."""
        kind = type(value)
        if isinstance(value, threading.local):
            self._state("local", _entries_of_thread, value, name)
            self._of_class(kind, name)
            return
        attributes = None if isinstance(value, logging.Logger) else _attributes(value)
        if attributes is not None:
            self._watch.word("type", type, value, kind)
            self._watch.word("attributes", _attributes, value, attributes)
            self._above.setdefault(id(attributes), []).append(id(value))
            self._of_attributes(attributes, name)
        slots = () if isinstance(value, _FIXED) else slots_of(kind).values()
        if slots:
            if attributes is None:
                self._watch.word("type", type, value, kind)
            read = functools.partial(_slot, value)
            for s in slots:
                kept = self._kept(read(s), f"{name}.{s.__name__}", read, s, value)
                self._watch.word("slot", functools.partial(_slot, slot=s), value, kept, s)
        self._of_class(kind, name)
        self._of_memory(value, name)
        if any(inspect.getattr_static(value, key, None) is not None for key in _INTERFACES):
            self._reach(np.asarray(value), name, value)

    def _of_attributes(self, attributes: dict[str, Any], name: str) -> None:
        if id(attributes) not in self._seen:
            self._seen[id(attributes)] = attributes
            get = attributes.get
            kept = [self._kept(v, f"{name}.{k}", get, k, attributes) for k, v in list(attributes.items())]
            self._watch.entries(attributes, kept)

    def _of_memory(self, value: Any, name: str) -> None:
        """What an object of a class written in C holds besides."""
        if isinstance(value, (dict, list, tuple, frozenset, np.ndarray, *_LISTED, *BUFFERS)):
            return
        if isinstance(value, weakref.ref):
            self._state("reference", _referent, value, name)
        elif isinstance(value, weakref.finalize):
            self._watch.state("alive", _alive, value, _alive(value))
        elif isinstance(value, np.void):
            self._watch.state("row", _row, value, _row(value))
            self._reach(value.base, name, value)
        elif isinstance(value, np.dtype):
            self._watch.state("fields", _fields, value, _fields(value))
        elif isinstance(value, (datetime.datetime, datetime.time)):
            self._reach(value.tzinfo, name, value)
        elif isinstance(value, logging.Logger):
            self._state("logger", _settings_of_logger, value, name)
        elif isinstance(value, weakref.ProxyTypes):
            self._reach(value.__str__.__self__, name)  # type: ignore[attr-defined]
        elif isinstance(value, contextvars.ContextVar):
            self._state("variable", _variable, value, name)
        elif isinstance(value, types.CellType):
            self._of_cell(value, name)
        elif isinstance(value, (io.StringIO, io.BytesIO)):
            self._watch.state("text", _text, value, _text(value))
            self.moving.append((name, _text, value, _text(value)))
        elif isinstance(value, functools._lru_cache_wrapper):
            self._reach(value.__wrapped__, name)
        elif isinstance(value, (types.FrameType, types.TracebackType)):  # with each call that raises, a longer chain of them
            for word in (name for name in dir(type(value)) if name.startswith(("f_", "tb_"))):
                self._await(word, self._use(value, word, name), name)
        elif isinstance(value, (np.flatiter, np.broadcast, np.nditer)):
            for operand in _operands(value):
                self._reach(operand, name)
            self._of_moving(value, name)
        elif isinstance(value, _FIXED):
            for item in gc.get_referents(value):
                self._reach(item, name, value)
        elif isinstance(value, _RANDOM) or hasattr(type(value), "__next__") or isinstance(value, types.GeneratorType):
            self._of_moving(value, name)
        elif not _known(type(value)) and any(held is not type(value) for held in gc.get_referents(value)):
            self._state("referents", gc.get_referents, value, name)
        elif isinstance(value, decimal.Context):
            self._watch.state("context", lambda c: [repr(c)], value, [repr(value)])

    def _of_moving(self, value: Any, name: str) -> None:
        """An iterator or a random generator: a trace must not move it."""
        if _known(type(value)) and not isinstance(value, (*_RANDOM, io.IOBase)):
            return  # a class of the user's: its attributes say where it is
        self.moving.append((name, _position, value, list(_position(value))))
        for word in _STATES if isinstance(value, _RANDOM) else _words(name):
            self._await(word, Standing(value), name)
        if isinstance(value, io.IOBase) and not value.closed and isinstance(getattr(value, "name", None), (str, bytes, int)):
            self._reach(File(value.name), name)  # type: ignore[attr-defined]
        if not isinstance(value, _RANDOM):
            for item in gc.get_referents(value):
                self._of_called(value, item, name)
                own = item.f_locals.values() if isinstance(item, types.FrameType) else (item,)  # what a generator goes on with
                for held in own:
                    self._reach(held, name, value)

    def _of_called(self, value: Any, function: Any, name: str) -> None:
        """A function that an object written in C calls: where it finds something outside, nothing tells what it gives."""
        for word in _words(name) if calls_outside(function) else ():
            self._await(word, self._use(value, type(value).__name__, name), name)

    def _use(self, value: Any, method: str, name: str) -> Used:
        return Used(value, method, _line(self.codes[-1][0]) if self.codes else name)

    def _of_cell(self, cell: types.CellType, name: str) -> None:
        self._seen[id(cell)] = cell
        self._watch.word("cell", _contents, cell, self._kept(_contents(cell), name, _contents, cell))

    # -- classes

    def _of_class(self, kind: type, name: str) -> None:
        """The bodies of a class of the user's and of those it inherits from; of one of a library's the arrays in them."""
        for cls in kind.__mro__:
            if (id(cls), "body") in self._seen:
                continue
            self._seen[id(cls), "body"] = cls  # type: ignore[index]
            if not is_users(cls):
                for key, item in vars(cls).items() if cls.__flags__ & _HEAP else ():
                    if isinstance(item, np.ndarray):
                        self._kept(item, f"{name}.{key}", vars(cls).get, key)
                continue
            self.entered = True
            self._seen[id(cls)] = cls
            get, kept = vars(cls).get, []
            for key, item in list(vars(cls).items()):
                special = key.startswith("__")
                if special or isinstance(item, property):
                    self._of_called(cls, getattr(item, "fget", item), key if special else f"{name}.{key}")
                if key in _UNREAD or isinstance(item, type):
                    kept.append(item)
                    self._await(key, item, name)
                elif _is_generated(item, cls) and key != "__init__":
                    kept.append(item)
                elif _is_function(item) and (key in _CONSTRUCTORS or not (special or _is_called_back(cls, key))):
                    kept.append(item)
                    self._await(key, item, f"{name}.{key}")
                else:
                    kept.append(self._kept(item, f"{name}.{key}", get, key))
            self._watch.body(cls, gc.get_referents(vars(cls))[0], kept)
            if is_users(type(cls)):
                self._of_class(type(cls), name)

    def _of_abstract(self, kind: type) -> None:
        """Which classes are registered as others' subclasses."""
        if isinstance(kind, abc.ABCMeta) and id(abc.get_cache_token) not in self._seen:
            self._seen[id(abc.get_cache_token)] = abc.get_cache_token
            self._watch.state("abstract", _registrations, None, _registrations(None))

    def _await(self, key: str, value: Any, name: str) -> None:
        """Walk through a value once its name is mentioned."""
        if key in self._mentioned:
            self._reach(value, name)
        else:
            self._unmentioned.setdefault(key, []).append((value, name))

    # -- functions and modules

    def _of_function(self, f: types.FunctionType, name: str) -> None:
        users = not is_library(f.__code__.co_filename)
        for free, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
            if id(cell) not in self._seen:
                self._of_cell(cell, free)
            if users and isinstance(_contents(cell), types.FunctionType) and free in _names(f.__code__)[3]:
                self.entered = True
        if users:
            self._watch.state("function", _function, f, list(_function(f)))
            self._of_code(f.__code__, f.__globals__)
            self.asking = self.asking or asks(f.__code__, f.__globals__)
            if f.__defaults__:
                self._of_tuple(f.__defaults__, "defaults")
            if f.__kwdefaults__:
                self._seen[id(f.__kwdefaults__)] = f.__kwdefaults__
                self._of_dict(f.__kwdefaults__, "defaults")
        if users or f.__dict__:
            self._of_attributes(f.__dict__, name)

    def _of_code(self, code: types.CodeType, namespace: dict[str, Any]) -> None:
        self.codes.append((code, namespace))
        loaded, mentioned, imported, read = _names(code)
        self._mention(mentioned)
        given = any(isinstance(namespace.get(name), types.FunctionType) for name in read)  # which others may call
        self.entered = self.entered or given or not _ENTERING.isdisjoint(mentioned) or _builds_class(code)
        if not _TRAPPING.isdisjoint(mentioned):
            self._of_settings(np.errstate)
        if not _NAMESPACES.isdisjoint(mentioned):
            self._of_namespace(namespace, "globals")
        self._of_names(namespace, loaded, "")
        if type(namespace) is not dict:  # where a class of the user's finds names
            self._reach(namespace, "globals")
        for level, module in imported:
            if level:
                parts = str(namespace.get("__package__") or "").split(".")
                module = ".".join([*parts[: len(parts) - level + 1], *([module] if module else [])])
            self._of_names(sys.modules, (module, module.partition(".")[0]), "")

    def _mention(self, names: frozenset[str]) -> None:
        names |= {_READ_BY[name] for name in names & _READ_BY.keys()}
        for name in names - self._mentioned:
            for value, place in self._unmentioned.pop(name, ()):
                self._reach(value, place)
        self._mentioned |= names

    def _of_names(self, namespace: dict[str, Any], names: Iterable[str], prefix: str) -> None:
        """Some names of a namespace, and of its builtins."""
        beyond = namespace.get("__builtins__", builtins)
        beyond = vars(beyond) if isinstance(beyond, types.ModuleType) else beyond
        space = self._spaces.get(id(namespace))
        if space is None:
            space = self._spaces[id(namespace)] = self._watch.names(namespace)
        for name in names:
            if name not in space:
                value = namespace.get(name, ABSENT)
                if value is ABSENT and namespace is not beyond and (beyond is not vars(builtins) or name not in _BUILTINS):
                    self._of_names(beyond, (name,), prefix)
                space[name] = value if value is ABSENT else self._kept(value, prefix + name, namespace.get, name)

    def _of_namespace(self, namespace: dict[str, Any], name: str) -> None:
        """All names of a namespace; functions and classes wait until they are mentioned."""
        if (id(namespace), "all") in self._seen:
            return
        self._seen[id(namespace), "all"] = namespace  # type: ignore[index]
        kept = []
        for key, value in list(namespace.items()):
            if isinstance(value, (types.FunctionType, type, types.ModuleType)) or key.startswith("__"):
                self._await(key, value, key)
                kept.append(value)
            else:
                kept.append(self._kept(value, key, namespace.get, key))
        self._watch.entries(namespace, kept)

    def _of_module(self, module: types.ModuleType, names: set[str]) -> None:
        """What code that mentions these names may read of a module."""
        space = vars(module)
        prefix = f"{module.__name__.rpartition('.')[2]}."
        if not _is_constant(module):
            self.entered = self.entered or "__getattr__" in space
            self._of_names(space, [*names, "__getattr__"], prefix)
            if not COMPUTED.isdisjoint(self._mentioned):
                self._of_namespace(space, module.__name__)
            return
        absent = () if COMPUTED.isdisjoint(self._mentioned) else (name for name in self._mentioned if name not in space)
        self._of_names(space, [*absent, *(name for name in names if _is_put(module, space.get(name)))], prefix)
        for name in names:
            value = space.get(name)
            if isinstance(value, io.IOBase):  # `sys.stdout`; what it holds is not read
                self._watch.word("stream", functools.partial(_entry, name), space, value)
            elif isinstance(value, types.MethodType) and not isinstance(value.__self__, _RANDOM):  # `calendar.firstweekday`
                self._reach(value.__self__, prefix + name)
            elif value is not None:
                if isinstance(value, type):
                    self._of_class(value, prefix + name)
                    self._of_abstract(value)
                self._of_settings(value)


@functools.lru_cache(maxsize=1024)
def slots_of(kind: Any) -> dict[str, Any]:
    """The slots of objects of a class, by name."""
    made = (c for c in kind.__mro__ if c.__flags__ & _HEAP and "__slots__" in vars(c))
    found = (v for c in made for v in vars(c).values() if type(v) is types.MemberDescriptorType)
    return {slot.__name__: slot for slot in found}


def _root(kind: type) -> str:
    return module_of(kind).partition(".")[0]


def _root_of(value: Any) -> str:
    """The library that a module, a class or an object belongs to; Python's own for the user's."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] if _is_constant(value) else "builtins"
    kind = value if isinstance(value, type) else type(value)
    return "builtins" if is_users(kind) else _root(kind)


def _is_constant(module: types.ModuleType) -> bool:
    file = vars(module).get("__file__")
    root = module.__name__.partition(".")[0]
    return is_library(file) if isinstance(file, str) else root in sys.builtin_module_names or root in sys.stdlib_module_names


def _is_put(module: types.ModuleType, value: Any) -> bool:
    """Whether a value in a library's module may be one that the user has put there, or may put another one in the place of."""
    if module is sys and callable(value):  # `sys.excepthook`
        return True
    if isinstance(value, types.FunctionType):
        return not is_library(value.__code__.co_filename)
    return type(value) in _NUMBERS or type(value) in _PLAIN or isinstance(value, _MOVABLE)


def is_users(cls: type) -> bool:
    """Whether the user wrote a class, in Python."""
    if not cls.__flags__ & _HEAP or cls in (type, object):
        return False
    module = sys.modules.get(module_of(cls))
    if module in (None, builtins) or not _is_constant(module):  # a class made where no module is named has that of `object`
        return True
    return not cls.__flags__ & _IMMUTABLE and cls.__qualname__.partition(".")[0] not in vars(module)  # made by a function there


_HEAP = 1 << 9  # in a type's flags: made at run time


def _is_atom(value: Any) -> bool:
    """Whether a value holds nothing that can change."""
    kind = type(value)
    if kind is np.ufunc:
        return not value.__name__.endswith(" (vectorized)")  # what np.frompyfunc makes of a function
    if isinstance(value, np.void) or (isinstance(value, np.dtype) and value.names is not None):
        return False  # a row of an array; fields, whose names can be set
    return kind in _NUMBERS or value is ABSENT or (isinstance(value, _ATOMS) and not is_users(kind))


_NUMBERS = frozenset({bool, int, float, complex, str, bytes, type(None)})


def _known(cls: type) -> bool:
    """Whether the attributes, slots and items of an object say all that it holds: it has no memory for anything else."""
    while cls not in _WHOLE:
        if not cls.__flags__ & _HEAP or cls.__flags__ & _IMMUTABLE:
            return False
        base: Any = cls.__base__
        slots = sum(type(v) is types.MemberDescriptorType for v in vars(cls).values())
        if cls.__basicsize__ - base.__basicsize__ > 8 * slots + 16:  # the last for a dictionary and weak references
            return False
        cls = base
    return True


_IMMUTABLE = 1 << 8
_WHOLE = _PLAIN | _NUMBERS | {object, type, types.SimpleNamespace}


def _is_generated(value: Any, cls: type) -> bool:
    """Whether `dataclass` wrote a method."""
    if "__dataclass_fields__" not in vars(cls) or not isinstance(value, types.FunctionType):
        return False
    return value.__code__.co_filename in ("<string>", dataclasses.__file__)


def _is_called_back(cls: type, name: str) -> bool:
    """Whether a method stands in place of one that a library calls itself, as `_missing_` of an `Enum`."""
    return any(name in vars(base) for base in cls.__mro__[1:] if base is not object and not is_users(base))


def _is_function(value: Any) -> bool:
    return isinstance(value.__func__ if isinstance(value, (staticmethod, classmethod)) else value, types.FunctionType)


def _attributes(value: Any) -> dict[str, Any] | None:
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None
    return found if isinstance(found, dict) else None


def _slot(value: Any, slot: Any) -> Any:
    try:
        return slot.__get__(value)
    except AttributeError:
        return ABSENT


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT


def _words(name: str) -> tuple[str, ...]:
    """By which words code reads what stands in an attribute of this name; what stands elsewhere it reads in any case."""
    _, attribute, word = name.partition("[")[0].rpartition(".")
    return (*COMPUTED, word) if attribute else ("",)


def _function(f: types.FunctionType) -> tuple[Any, ...]:
    return f.__code__, f.__defaults__, f.__kwdefaults__, f.__dict__


def _memory(value: Any) -> list[Any]:
    view = memoryview(value)
    return [view.format, view.tobytes()]


def _cells(value: np.ndarray) -> list[Any]:
    fields = [value] if value.dtype.names is None else [value[name] for name in value.dtype.names]
    return [str(value.dtype), *value.shape, value.tobytes(), *(cell for field in fields for cell in field.ravel().tolist())]


def _entries_of_thread(value: Any) -> list[Any]:
    return [part for item in value.__dict__.items() for part in item]


def _referent(value: Any) -> list[Any]:
    return [value()]


def _variable(value: contextvars.ContextVar[Any]) -> list[Any]:
    try:
        return [value.get()]  # its default, where it has one
    except LookupError:
        return [ABSENT]


def _stamp(path: Any) -> list[Any]:
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


def _line(code: types.CodeType) -> str:
    return Line.of(code.co_filename, code.co_firstlineno)


def _has_metadata(value: Any, name: str) -> bool:
    if name == "flags":
        return type(value) is np.ndarray
    return type(value) is types.FunctionType or (isinstance(value, type) and is_users(value))


def _metadata(name: str, holders: list[Any]) -> Iterable[Any]:
    found = [getattr(holder, name, None) for holder in holders]
    return found if name.endswith(("name__", "doc__", "module__")) else _parts(found)


def _fields(value: np.dtype) -> list[Any]:
    return [str(value)]


def _registrations(_: Any) -> list[Any]:
    return [abc.get_cache_token()]


def _factory(value: Any) -> list[Any]:
    return [value.default_factory]


_INTERFACES = ("__array_interface__", "__array_struct__")  # of what is an array without being one


def _alive(value: Any) -> list[Any]:
    return [value.alive]


def _row(value: Any) -> list[Any]:
    return [str(value.dtype), value.tobytes()]


def _settings_of_logger(value: logging.Logger) -> list[Any]:
    """What a logger shows, without what its handlers hold and what it remembers of its levels."""
    found: list[Any] = [value.getEffectiveLevel(), value.manager.disable]
    for name, held in vars(value).items():
        if name not in ("_cache", "manager"):
            found += [name, type(held), *map(id, held)] if name in ("handlers", "filters") else [name, held]
    return found


def _text(value: Any) -> list[Any]:
    return [value.getvalue(), value.tell()] if not value.closed else []


def _parts(value: Any) -> Iterator[Any]:
    """What a value shows of itself, as numbers and texts."""
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, (list, tuple, set, frozenset, types.GeneratorType)):
        value = list(value)
        yield len(value)
        for item in value:
            yield from _parts(item)
    elif isinstance(value, np.ndarray):
        yield from (str(value.dtype), repr(value.shape), value.tobytes())
    else:
        yield repr(value)


def _entry(name: str, space: dict[str, Any]) -> Any:
    return space.get(name)


def _entries_of_cache(f: Any) -> list[Any]:
    held = gc.get_referents(f)  # keys and results are among these, or in a dictionary
    return sorted([*held, *(v for d in held if type(d) is dict for v in d.values())], key=id)


def _position(value: Any) -> Iterator[Any]:
    """Where an iterator or a random generator stands."""
    if isinstance(value, types.GeneratorType):
        frame = value.gi_frame
        yield from () if frame is None else (frame.f_lasti, *frame.f_locals.values())
    elif isinstance(value, (np.flatiter, np.broadcast, np.nditer)):
        yield value.iterindex if isinstance(value, np.nditer) else value.index
    elif isinstance(value, _RANDOM):
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


def _operands(value: Any) -> Iterable[Any]:
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
            yield from _position(part)
        else:
            yield part


def _finds(value: Any, names: Collection[str]) -> bool:
    """Whether a function, or of a module or a class something of these names, finds something outside its arguments."""
    if isinstance(value, types.ModuleType):
        own = {name: vars(value)[name] for name in names if name in vars(value)}
        kinds = (v for v in own.values() if isinstance(v, type))
        return value in _DRAWING or any(outside_word(value.__name__, n) for n in own) or any(_finds(v, names) for v in kinds)
    if isinstance(value, _CALLED):
        return bool(word_of(value))
    kind = value if isinstance(value, type) else type(value)
    return _root(kind) in functions_outside() and any(outside_word(_root(kind), n) for n in names if hasattr(kind, n))


def home_of(function: Any) -> str:
    """The module of a function, or of the class whose method it is."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(function, types.MethodType) or isinstance(owner, types.ModuleType):
        return module_of(function)
    return module_of(owner if isinstance(owner, type) else type(owner))


def word_of(function: Any) -> str:
    """What a trace does with a function for what it finds outside its arguments, a word of `outside.table`."""
    if isinstance(getattr(function, "__self__", None), _RANDOM):
        return "random"
    return "state" if function.__name__ == "__subclasses__" else outside_word(home_of(function), function.__name__)


def calls_outside(value: Any) -> bool:
    """Whether a value is a function that finds something outside its arguments, whoever calls it: code in C, too."""
    if isinstance(value, functools.partial):
        given = (value.func, *value.args, *value.keywords.values())
        return any(isinstance(v, _RANDOM) or calls_outside(v) for v in given)
    if isinstance(value, (staticmethod, classmethod)):
        return calls_outside(value.__func__)
    return isinstance(value, _CALLED) and bool(word_of(value))


def handed_outside(code: types.CodeType, namespace: dict[str, Any], cells: dict[str, Any]) -> Any:
    """A function that finds something outside and that code hands to others, or by which it draws numbers of NumPy's shared
    generator, of which a profiler is not told; None where there is none.
    """
    _, mentioned, _, read = _names(code)
    modules = _with_modules((namespace.get(name) for name in mentioned), mentioned)
    spaces = (vars(builtins), namespace, *(vars(m) for m in modules if isinstance(m, types.ModuleType)))
    found = [*cells.items(), *((name, space[name]) for space in spaces for name in mentioned if name in space)]
    kinds = {v for _, v in found if isinstance(v, type) and not is_users(v)}
    found += [(name, getattr(kind, name)) for kind in kinds for name in mentioned if hasattr(kind, name)]
    return next((v for name, v in found if (name in read or _is_of_numpy(v)) and calls_outside(v)), None)


def _is_of_numpy(value: Any) -> bool:
    return isinstance(getattr(value, "__self__", None), np.random.RandomState)


def _with_modules(values: Iterable[Any], names: Collection[str]) -> Iterable[Any]:
    """These values, and the modules of these names that are found in modules."""
    found = {id(value): value for value in values}
    waiting = [value for value in found.values() if isinstance(value, types.ModuleType)]
    while waiting:
        space = vars(waiting.pop())
        held = (space.get(name) for name in names)
        new = {id(v): v for v in held if isinstance(v, types.ModuleType) and id(v) not in found}
        found |= new
        waiting += new.values()
    return found.values()


_DRAWING = (random, np.random)


@functools.lru_cache(maxsize=4096)
def _builds_class(code: types.CodeType) -> bool:
    """Whether a function, or one nested in it, makes a class."""
    return opcode.opmap["LOAD_BUILD_CLASS"] in code.co_code[::2] or any(
        isinstance(c, types.CodeType) and _builds_class(c) for c in code.co_consts
    )


@functools.lru_cache(maxsize=4096)
def _names(code: types.CodeType) -> tuple[frozenset[str], frozenset[str], tuple[tuple[int, str], ...], frozenset[str]]:
    """The globals that code reads, all names and words that it mentions, the modules that it imports, with their levels, and
    the globals, attributes and names of cells that it does more with than call them.
    """
    loaded: set[str] = set()
    read: set[str] = set()
    mentioned = {*code.co_names, *(c for c in code.co_consts if type(c) is str and c.isidentifier())}
    imported: list[tuple[int, str]] = []
    constants: list[Any] = []
    more = last = 0
    held = ""  # the name of a cell that the last step loaded, unless it is called
    for op, arg in zip(code.co_code[::2], code.co_code[1::2], strict=True):
        if op == opcode.opmap["CACHE"]:
            continue
        if held and op != _NULL:
            read.add(held)
        held = code._varname_from_oparg(more | arg) if op == _CELL and last != _NULL else ""  # type: ignore[attr-defined]
        last = last if op == opcode.EXTENDED_ARG else op
        full, more = more | arg, 0
        if op == opcode.EXTENDED_ARG:
            more = full << 8
        elif op == _GLOBAL:
            loaded.add(code.co_names[full >> 1])
            if not full & 1:
                read.add(code.co_names[full >> 1])
        elif op == _NAME:
            loaded.add(code.co_names[full])
        elif op == _ATTRIBUTE and not (_PAIRED and full & 1):
            read.add(code.co_names[full >> _PAIRED])
        elif op == _CONSTANT:
            constants.append(code.co_consts[full])
        elif op == _INTEGER:
            constants.append(full)
        elif op in _FORMATS:
            mentioned.add("format")
        elif op == _IMPORT:
            level = constants[-2] if len(constants) > 1 and isinstance(constants[-2], int) else 0
            imported.append((level, code.co_names[full]))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            inner = _names(constant)
            loaded |= inner[0]
            mentioned |= inner[1]
            imported += inner[2]
            read |= inner[3]
    return frozenset(loaded), frozenset(mentioned), tuple(imported), frozenset(read)


_GLOBAL, _NAME, _CONSTANT, _IMPORT, _CELL, _NULL, _ATTRIBUTE = (
    opcode.opmap[n] for n in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_CONST", "IMPORT_NAME", "LOAD_DEREF", "PUSH_NULL", "LOAD_ATTR")
)
_PAIRED = sys.version_info >= (3, 12)  # whether an attribute that is called right there is read by this, too
_FORMATS = {opcode.opmap.get(n) for n in ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")}
_INTEGER = opcode.opmap.get("LOAD_SMALL_INT")  # from Python 3.14 on

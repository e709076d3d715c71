"""Finds what a function can read outside its arguments: the state of the user's objects, however deep and however read.

Assumes that code reads what it can reach: its cells and defaults, the globals that it names, and from any object all that
the object holds. Guarantees that every holder of the user's state found so is told to a `captures.Watch`. Functions in classes
and modules are walked through once some code mentions their names, or Python calls them of itself. Modules, functions and
classes of libraries are constants (see `libraries`), what their instances, closures and containers hold is not.
"""

import abc
import builtins
import collections
import contextvars
import copy
import copyreg
import dataclasses
import decimal
import functools
import gc
import inspect
import io
import logging
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from symdiff.errors import TraceError
from symdiff.ir.hidden import Captured, hidden_arrays_of, may_be_hidden
from symdiff.rulebooks.declared import is_opaque_function
from symdiff.tracing.captures import telling
from symdiff.tracing.captures.mentioning import (
    BUILTINS,
    asks,
    builds_class,
    calls_outside,
    libraries_of,
    names_of_code,
    reads_outside,
    with_modules,
)
from symdiff.tracing.captures.telling import (
    ABSENT,
    ATOMS,
    BUFFERS,
    FIXED,
    LISTED,
    NUMBERS,
    PLAIN,
    RANDOM,
    Asked,
    Cache,
    File,
    Imported,
    Standing,
    Unfollowed,
    Used,
    is_known,
    is_opaque_capture,
    slots_of,
)
from symdiff.vocabulary.libraries import MADE, Line, is_library, is_librarys, is_users, root_of, root_of_class
from symdiff.vocabulary.signatures import Lookup, Namespace

Keep = Lookup


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


_CHANGING = frozenset(
    """append appendleft extend extendleft insert remove pop popleft popitem clear sort reverse rotate update setdefault add
    discard difference_update intersection_update symmetric_difference_update move_to_end""".split()
)  # methods by which containers change


_STILL = frozenset("numpy math cmath builtins types symdiff".split())  # libraries that change no containers


_WRITING = frozenset("str repr format ascii print join".split())


_METADATA = frozenset("__annotations__ __doc__ __module__ __name__ __qualname__ flags".split())


HOLDING = frozenset(("acquire", "release", "__enter__", "__exit__"))  # methods of locks, which tell nothing


_SPECIAL = frozenset("__getitem__ __len__ __iter__ __next__ __call__ __contains__ __float__ __int__ __bool__".split())


_STATES = ("state", "__getstate__", "n_children_spawned", "dumps")  # by which the state of a random generator is read


_CONSTRUCTORS = frozenset("__init__ __new__ __post_init__ __init_subclass__ __set_name__".split())


COMPUTED = frozenset("getattr hasattr vars dir __dict__ attrgetter methodcaller".split())  # read names made at run time


_TRAPPING = frozenset(("FloatingPointError", "ArithmeticError"))  # what NumPy raises where it is told to


_NAMESPACES = frozenset("globals eval exec __globals__".split())


_ENTERING = frozenset("eval exec __call__ Thread Timer ThreadPoolExecutor start_new_thread".split())  # what enters code


@dataclasses.dataclass(eq=False)
class Found:
    """What a trace has come across beside the functions that it calls, such as the bodies of a rule."""

    value: Any


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
        self._spaces: dict[int, Namespace] = {}
        self._mentioned = {""}
        self._unmentioned: dict[str, list[tuple[Any, str]]] = {}
        self._modules: list[tuple[types.ModuleType, set[str]]] = []
        self._unfollowed: frozenset[str] | None = None  # what code mentions whose calls of methods are not seen
        self._asked = (frozenset[str](), 0)  # for what of this, and for how many objects, that is done
        self.asking = self.entered = False
        self.codes: list[tuple[types.CodeType, Namespace]] = []
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

    def namespaces(self) -> list[Namespace]:
        """The globals of which code may read and set any."""
        return [value for key, value in self._seen.items() if isinstance(key, tuple) and key[1] == "all"]

    def meet(self, array: np.ndarray) -> None:
        """An array that is compared by content from now on."""
        self._seen[id(array)] = array

    @property
    def outside(self) -> bool:
        """Whether some of the code may call what finds something outside its arguments, or draws numbers."""
        return reads_outside(self.seen(), self._mentioned)

    @property
    def strange(self) -> bool:
        """Whether some of the code may use a library that reads files by itself, objects that only their methods tell of, or
        the texts of arrays.
        """
        names, found = self._mentioned, with_modules(self.seen(), self._mentioned)
        roots = {root_of(value) for value in found}
        return not _WRITING.isdisjoint(names) or any(root.lstrip("_") not in _PURE for root in roots)

    @property
    def changing(self) -> bool:
        """Whether some of the code may have containers or objects changed by what it calls."""
        return not (_CHANGING.isdisjoint(self._mentioned) and libraries_of(self.seen(), self._mentioned) <= _STILL)

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
        elif isinstance(value, (File, Asked, Cache, Standing)):
            self._tell(value, name)
            self._reach(getattr(value, "result", None), name)
        elif isinstance(value, Used):
            self._of_used(value)
        elif isinstance(value, Unfollowed):
            code = value.function.__code__
            self._unfollowed = (self._unfollowed or frozenset()) | names_of_code(code)[1]
            self.where = _line(code)
        elif isinstance(value, Imported):
            self._of_names(sys.modules, (value.name, value.name.partition(".")[0]), "")
        elif isinstance(value, Found):
            self._reach(value.value, name)
        elif isinstance(value, types.ModuleType):
            self._modules.append((value, set()))
            self._of_class(kind, name)
        elif isinstance(value, type):
            self._mention(_CONSTRUCTORS)
            self._of_class(value, name)
            self._of_abstract(value)
        elif kind in PLAIN:
            self._of_container(value, name)
        elif root_of_class(kind) == "symdiff":
            self._of_ours(value, name)
        elif root_of_class(kind) not in _SKIPPED:
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
            found = [v for v in list(self._seen.values()) if telling.has_metadata(v, name) and (id(v), name) not in self._seen]
            self._seen |= {(id(value), name): value for value in found}  # type: ignore[misc]
            if found:
                read = functools.partial(telling.metadata, name)
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
        self._tell(value, name)
        if isinstance(value, dict):
            self._of_dict(value, name)
        elif isinstance(value, list):
            get = value.__getitem__
            self._watch.items(value, [self._kept(v, f"{name}[{k}]", get, k, value) for k, v in enumerate(list(value))])
        elif isinstance(value, (tuple, frozenset)):
            self._of_tuple(value, name)
        elif isinstance(value, np.ndarray):
            self._of_array(value, name)

    def _of_dict(self, value: dict[Any, Any], name: str) -> None:
        get = functools.partial(dict.get, value) if type(value).get is not dict.get else value.get
        items = list(dict.items(value))
        for key, _ in items:
            self._reach(key, f"a key of {name}")
        constant = {k for k, v in items if isinstance(v, types.ModuleType) and is_librarys(v)} if value is sys.modules else ()
        self._watch.entries(value, [v if k in constant else
                                    self._kept(v, f"{name}[{k!r}]" if type(k) in (str, int) else f"{name}[...]", get, k, value)
                                    for k, v in items])  # fmt: skip
        if isinstance(value, collections.defaultdict):
            self._of_called(value, value.default_factory, name)

    def _of_tuple(self, value: Any, name: str) -> None:
        for k, item in enumerate(value):
            if isinstance(value, tuple):
                self._kept(item, f"{name}[{k}]", functools.partial(tuple.__getitem__, value), k, value)
            else:
                self._reach(item, name, value)

    def _of_array(self, value: np.ndarray, name: str) -> None:
        if value.dtype.hasobject:
            self._state("objects", telling.cells, value, name)
        else:
            self._watch.contents(value)
        self._reach(value.dtype, name)

    def _state(self, kind: str, read: Callable[[Any], Iterable[Any]], holder: Any, name: str, goes_on: bool = True) -> None:
        """What a holder lists, compared in Python; `goes_on`: so does the walk from there."""
        values = list(read(holder))
        self._watch.state(kind, read, holder, values)
        for value in values if goes_on else ():
            self._reach(value, f"an item of {name}", holder)

    def _tell(self, value: Any, name: str) -> None:
        """What the rows of an object's kinds say of it."""
        for kinds, word, read, goes_on in telling.ROWS:
            if isinstance(value, kinds):
                self._state(word, read, value, name, goes_on)

    # -- objects

    def _of_object(self, value: Any, name: str) -> None:
        """An object of any class: its class, its attributes, its slots, and what else it leads to."""
        kind = type(value)
        if isinstance(value, threading.local):
            self._of_class(kind, name)
            return
        attributes = None if isinstance(value, logging.Logger) else telling.attributes(value)
        if attributes is not None:
            self._watch.word("type", type, value, kind)
            self._watch.word("attributes", telling.attributes, value, attributes)
            self._above.setdefault(id(attributes), []).append(id(value))
            self._of_attributes(attributes, name)
        slots = () if isinstance(value, FIXED) else slots_of(kind).values()
        if slots:
            if attributes is None:
                self._watch.word("type", type, value, kind)
            read = functools.partial(telling.slot, value)
            for s in slots:
                kept = self._kept(read(s), f"{name}.{s.__name__}", read, s, value)
                self._watch.word("slot", functools.partial(telling.slot, slot=s), value, kept, s)
        self._of_class(kind, name)
        self._of_memory(value, name)
        if any(inspect.getattr_static(value, key, None) is not None for key in _INTERFACES):
            self._reach(np.asarray(value), name, value)

    def _of_attributes(self, attributes: Namespace, name: str) -> None:
        if id(attributes) not in self._seen:
            self._seen[id(attributes)] = attributes
            get = attributes.get
            kept = [self._kept(v, f"{name}.{k}", get, k, attributes) for k, v in list(attributes.items())]
            self._watch.entries(attributes, kept)

    def _of_memory(self, value: Any, name: str) -> None:
        """What an object of a class written in C holds besides."""
        if isinstance(value, (dict, list, tuple, frozenset, np.ndarray, *LISTED, *BUFFERS)):
            return
        told = telling.is_told(value)
        for item in telling.led_to(value):
            self._reach(item, name, value)
        if isinstance(value, types.CellType):
            self._of_cell(value, name)
        elif isinstance(value, telling.TEXTS):
            self.moving.append((name, telling.text, value, telling.text(value)))
        elif isinstance(value, (types.FrameType, types.TracebackType)):  # with each call that raises, a longer chain of them
            for word in (name for name in dir(type(value)) if name.startswith(("f_", "tb_"))):
                self._await(word, self._use(value, word, name), name)
        elif isinstance(value, (*telling.WALKING, *RANDOM)) or (hasattr(type(value), "__next__") and not told):
            self._of_moving(value, name)
        elif not told and not is_known(type(value)) and any(held is not type(value) for held in gc.get_referents(value)):
            self._state("referents", gc.get_referents, value, name)

    def _of_moving(self, value: Any, name: str) -> None:
        """An iterator or a random generator: a trace must not move it."""
        if is_known(type(value)) and not isinstance(value, (*RANDOM, io.IOBase)):
            return  # a class of the user's: its attributes say where it is
        self.moving.append((name, telling.position, value, list(telling.position(value))))
        for word in _STATES if isinstance(value, RANDOM) else _words(name):
            self._await(word, Standing(value), name)
        if isinstance(value, io.IOBase) and not value.closed and isinstance(getattr(value, "name", None), (str, bytes, int)):
            self._reach(File(value.name), name)  # type: ignore[attr-defined]
        if not isinstance(value, RANDOM):
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
        self._watch.word("cell", telling.contents, cell, self._kept(telling.contents(cell), name, telling.contents, cell))

    # -- classes

    def _of_class(self, kind: type, name: str) -> None:
        """The bodies of a class of the user's and of those it inherits from; of one of a library's the arrays in them."""
        for cls in kind.__mro__:
            if (id(cls), "body") in self._seen:
                continue
            self._seen[id(cls), "body"] = cls  # type: ignore[index]
            if not is_users(cls):
                for key, item in vars(cls).items() if cls.__flags__ & MADE else ():
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
            self._watch.state("abstract", telling.registrations, None, telling.registrations(None))

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
            if users and isinstance(telling.contents(cell), types.FunctionType) and free in names_of_code(f.__code__)[3]:
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

    def _of_code(self, code: types.CodeType, namespace: Namespace) -> None:
        self.codes.append((code, namespace))
        loaded, mentioned, imported, read = names_of_code(code)
        self._mention(mentioned)
        given = any(isinstance(namespace.get(name), types.FunctionType) for name in read)  # which others may call
        self.entered = self.entered or given or not _ENTERING.isdisjoint(mentioned) or builds_class(code)
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

    def _of_names(self, namespace: Namespace, names: Iterable[str], prefix: str) -> None:
        """Some names of a namespace, and of its builtins."""
        beyond = namespace.get("__builtins__", builtins)
        beyond = vars(beyond) if isinstance(beyond, types.ModuleType) else beyond
        space = self._spaces.get(id(namespace))
        if space is None:
            space = self._spaces[id(namespace)] = self._watch.names(namespace)
        new = [name for name in names if name not in space]
        if namespace is not beyond:
            known = BUILTINS if beyond is vars(builtins) else ()
            missing = [name for name in new if name not in namespace and name not in known]
            if missing:
                self._of_names(beyond, missing, prefix)
        for name in new:
            value = namespace.get(name, ABSENT)
            space[name] = value if value is ABSENT else self._kept(value, prefix + name, namespace.get, name)

    def _of_namespace(self, namespace: Namespace, name: str) -> None:
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
        if not is_librarys(module):
            self.entered = self.entered or "__getattr__" in space
            self._of_names(space, [*names, "__getattr__"], prefix)
            if not COMPUTED.isdisjoint(self._mentioned):
                self._of_namespace(space, module.__name__)
            return
        asked = self._mentioned if not COMPUTED.isdisjoint(names) else () if COMPUTED.isdisjoint(self._mentioned) else names
        absent = (name for name in asked if name not in space)
        self._of_names(space, [*absent, *(name for name in names if _is_put(module, space.get(name)))], prefix)
        for name in names:
            value = space.get(name)
            if isinstance(value, io.IOBase):  # `sys.stdout`; what it holds is not read
                self._watch.word("stream", functools.partial(telling.entry, name), space, value)
            elif isinstance(value, types.MethodType) and not isinstance(value.__self__, RANDOM):  # `calendar.firstweekday`
                self._reach(value.__self__, prefix + name)
            elif value is not None:
                if isinstance(value, type):
                    self._of_class(value, prefix + name)
                    self._of_abstract(value)
                self._of_settings(value)


def _words(name: str) -> tuple[str, ...]:
    """By which words code reads what stands in an attribute of this name; what stands elsewhere it reads in any case."""
    _, attribute, word = name.partition("[")[0].rpartition(".")
    return (*COMPUTED, word) if attribute else ("",)


def _line(code: types.CodeType) -> str:
    return Line.of(code.co_filename, code.co_firstlineno)


_INTERFACES = ("__array_interface__", "__array_struct__")  # of what is an array without being one


_MOVABLE = (os._Environ, contextvars.ContextVar, decimal.Context, types.ModuleType, *BUFFERS)  # of libraries' modules


_SKIPPED = frozenset("sympy optree matplotlib IPython ipykernel pytest _pytest pluggy hypothesis llvmlite".split())


def _is_put(module: types.ModuleType, value: Any) -> bool:
    """Whether a value in a library's module may be one that the user has put there, or may put another one in the place of."""
    if module is sys and callable(value):  # `sys.excepthook`
        return True
    if isinstance(value, types.FunctionType):
        return not is_library(value.__code__.co_filename)
    return type(value) in NUMBERS or type(value) in PLAIN or isinstance(value, _MOVABLE)


def _is_atom(value: Any) -> bool:
    """Whether a value holds nothing that can change."""
    kind = type(value)
    if kind is np.ufunc:
        return not value.__name__.endswith(" (vectorized)")  # what np.frompyfunc makes of a function
    if isinstance(value, np.void) or (isinstance(value, np.dtype) and value.names is not None):
        return False  # a row of an array; fields, whose names can be set
    return kind in NUMBERS or value is ABSENT or (isinstance(value, ATOMS) and not is_users(kind))


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


def _function(f: types.FunctionType) -> tuple[Any, ...]:
    return f.__code__, f.__defaults__, f.__kwdefaults__, f.__dict__

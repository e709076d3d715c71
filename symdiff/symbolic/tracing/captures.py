"""Notices when a value that a traced function captures has changed, so that its trace is stale.

Assumes plain Python functions, methods, partial functions and callable objects. Guarantees that numbers, strings and arrays
reached through closures, globals, defaults and attributes of a callable object, of the function and of the functions it
names, also inside dicts, lists, tuples, objects with attributes and the user's modules, are compared before each call:
numbers, and what holds them, by identity, arrays by content. Larger floating arrays (see `hidden`) by identity and type
alone, until a trace says that it needs their contents. Functions that were followed in a trace are included. Refuses
nothing; what lies behind more than `LARGEST` values is not followed.
"""

import enum
import functools
import gc
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from symdiff.symbolic.hidden import Captured, arrays_of, is_large
from symdiff.symbolic.tracing.libraries import is_library

_FOREIGN = (types.ModuleType, type)
_VALUES = (bool, int, float, complex, str, bytes, type(None), np.generic)
LARGEST = 1000  # values of one function that are watched
_SKIPPED = ("numpy", "scipy", "sympy", "symdiff", "optree")
Read = Callable[[Any], Any]


class Watch:
    """The captured values of a function as they were when the watch was made.

    `large` are the arrays whose contents no trace has needed so far, `holders` the identities of what they were found in,
    `compared` those of the arrays that are compared by content, `needed` the names of the large ones among these. It
    is `incomplete` where a trace found that a name is missing, since what will stand there is not watched. An `earlier` watch
    of the same function tells its own.
    """

    __slots__ = ("_arrays", "_functions", "_known", "_reached", "_seen", "_sizes", "_values", "compared", "holders",
                 "incomplete", "large", "needed")  # fmt: skip

    def __init__(self, f: Callable[..., Any], earlier: "Watch | None" = None) -> None:
        self._sizes: list[tuple[Any, int]] = []
        self._seen: dict[int, Any] = {}
        self._values: list[tuple[Read, Any, Any]] = []
        self._arrays: list[tuple[Read, Any, np.ndarray, _Bits]] = []
        self._functions: dict[int, Any] = {}
        self._known: dict[int, Captured] = {}
        self._reached = 0
        self.incomplete = False
        self.large: list[Captured] = []
        self.holders: set[int] = set()
        self.compared: set[int] = set()
        self.needed: set[str] = set() if earlier is None else set(earlier.needed)
        self.include((f,))

    def include(self, functions: Iterable[Any]) -> None:
        """Watch what these functions capture, too."""
        for f in functions:
            _collect(f, self)

    def __bool__(self) -> bool:
        return bool(self._values or self._arrays or self._sizes or self.large or self.incomplete)

    def changed(self) -> bool:
        """Whether a captured value is another object now, or an array that is compared by content holds other numbers.

        A large array may be replaced by another one of its type, shape and dtype. An incomplete watch counts as changed.
        """
        if self.incomplete:
            return True
        for container, size in self._sizes:
            if len(container) != size:
                return True
        for read, key, value in self._values:
            if read(key) is not value:
                return True
        for read, key, value, bits in self._arrays:
            if read(key) is not value or bits.differ(value):
                return True
        return any(captured.now() is None for captured in self.large)

    @property
    def version(self) -> tuple[int, ...]:
        """Another one after more is watched."""
        return len(self._values), len(self._sizes), len(self._arrays), sum(len(c.ways) for c in self.large)

    def checks(self) -> Iterator[tuple[str, Any, Any, Any, bool]]:
        """What `changed` looks at, as `(kind, holder, key, value, moving)`.

        Kinds are "cell", "item", "defaults" and "named defaults", where the value is found; "size"; and "contents" of an array.
        A `moving` value is a `Captured`, whose array may be replaced. Sizes come first: a list without items has no memory.
        """
        for container, size in self._sizes:
            if not isinstance(container, tuple):
                yield "size", container, None, size, False
        found: list[tuple[Read, Any, Any]] = [*self._values, *((read, key, value) for read, key, value, _ in self._arrays)]
        found += [(read, key, captured) for captured in self.large for read, key in captured.ways]
        for read, key, value in found:
            kind = _KINDS.get(read)
            holder = key if kind else getattr(read, "__self__", None)
            if type(holder) is types.MappingProxyType:
                holder = gc.get_referents(holder)[0]  # the dictionary of a class
            if type(holder) is not tuple:
                yield kind or "item", holder, key, value, isinstance(value, Captured)
        for _, _, value, bits in self._arrays:
            yield "contents", value, None, bits, False

    def compare(self, needed: Iterable[Captured]) -> None:
        """Compare these arrays by content from now on."""
        for captured in needed:
            self.needed.add(captured.name)
            if captured in self.large:
                self.large.remove(captured)
            for read, key in captured.ways:
                self._compare(read, key, captured.array)

    def _compare(self, read: Read, key: Any, value: np.ndarray) -> None:
        self.compared.add(id(value))
        self._arrays.append((read, key, value, _Bits(value)))

    def add(self, read: Read, key: Any, value: Any, name: str) -> None:
        """Watch what `read(key)` returns; `name` is how the user's code says it."""
        if is_large(value) and name not in self.needed and id(value) not in self.compared:
            self._reached += 1
            known = self._known.get(id(value))
            if known is None:
                known = self._known[id(value)] = Captured(name, value)
                self.large.append(known)
            known.ways.append((read, key))
        elif isinstance(value, np.ndarray) and value.dtype != object:
            self._compare(read, key, value)
        elif isinstance(value, _VALUES):
            self._values.append((read, key, value))
        elif isinstance(value, type):
            self.of_class(value, name)
        elif callable(value):
            _collect(value, self)
        elif not isinstance(value, _FOREIGN):
            self._values.append((read, key, value))
            self.inside(value, name)

    def inside(self, value: Any, name: str) -> None:
        """Watch what a container, or an object of a class of the user's, holds."""
        if id(value) in self.holders:
            self._reached += 1
        if id(value) in self._seen or len(self._values) + len(self._arrays) > LARGEST:
            return
        self._seen[id(value)] = value
        before = self._reached
        if isinstance(value, dict):
            self._sizes.append((value, len(value)))
            for key, item in value.items():
                self.add(value.get, key, item, f"{name}[{key!r}]")
        elif isinstance(value, (list, tuple, deque)):
            self._sizes.append((value, len(value)))
            for place, item in enumerate(value):
                self.add(value.__getitem__, place, item, f"{name}[{place}]")
        else:
            self.attributes(value, name)
        if self._reached > before:
            self.holders.add(id(value))

    def attributes(self, owner: Any, name: str) -> None:
        """Watch the attributes of an object of the user's."""
        attributes = getattr(owner, "__dict__", None)
        if (type(owner).__module__ or "").split(".")[0] in _SKIPPED:
            return
        before = self._reached
        if isinstance(attributes, dict):
            for key, value in attributes.items():
                self.add(attributes.get, key, value, f"{name}.{key}")
        for key in dict.fromkeys(key for cls in type(owner).__mro__ if _is_users(cls) for key in _slots(cls)):
            self.add(lambda key: getattr(owner, key, None), key, getattr(owner, key, None), f"{name}.{key}")
        self.of_class(type(owner), name)
        if self._reached > before:
            self.holders |= {id(owner), id(attributes)}

    def of_class(self, kind: type, name: str) -> None:
        """Watch the constants in the body of a class of the user's, and of those it inherits from."""
        for cls in kind.__mro__:
            if id(cls) in self._seen or not _is_users(cls):
                continue
            self._seen[id(cls)] = cls
            for key, value in vars(cls).items():
                if not (key.startswith("__") or callable(value) or hasattr(type(value), "__get__")):
                    self.add(vars(cls).get, key, value, f"{name}.{key}")


class _Bits:
    """What an array held: its shape, dtype and a copy of its memory."""

    __slots__ = ("dtype", "kept", "shape")

    def __init__(self, array: np.ndarray) -> None:
        self.shape = array.shape
        self.dtype = array.dtype
        self.kept = _words(array.copy())

    def differ(self, array: np.ndarray) -> bool:
        """Whether the array holds something else now."""
        if array.shape != self.shape or array.dtype != self.dtype:
            return True
        return not np.array_equal(_words(array), self.kept)


def _words(array: np.ndarray) -> np.ndarray:
    """The memory of an array in C order, as integers."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.view(np.uint64) if flat.size % 8 == 0 else flat


def _is_users(cls: type) -> bool:
    """Whether the user wrote a class, and what stands in its body are constants."""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or "<string>"
    return cls.__module__ != "builtins" and not is_library(file) and not issubclass(cls, (enum.Enum, BaseException))


def _slots(cls: type) -> Iterable[str]:
    found = vars(cls).get("__slots__", ())
    names = (found,) if isinstance(found, str) else found
    return [n for n in names if n not in ("__dict__", "__weakref__")]


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _defaults(f: Any) -> Any:
    return f.__defaults__


def _named_defaults(f: Any) -> Any:
    return f.__kwdefaults__


_KINDS = {_contents: "cell", _defaults: "defaults", _named_defaults: "named defaults"}


def _collect(f: Any, watch: Watch) -> None:
    if id(f) in watch._functions or isinstance(f, type):
        return
    watch._functions[id(f)] = f
    if isinstance(f, types.MethodType):
        watch.attributes(f.__self__, "self")
        f = f.__func__
    for captured in arrays_of(f):
        for read, key in captured.ways:
            watch.add(read, key, captured.array, captured.name)
    if isinstance(f, functools.partial):
        watch.inside(f.args, "args")
        watch.inside(f.keywords, "keywords")
    if not isinstance(f, types.FunctionType):
        inner = getattr(f, "__wrapped__", None) or getattr(f, "func", None)
        if inner is not None and (isinstance(inner, (types.FunctionType, types.MethodType)) or _is_wrapper(f)):
            _collect(inner, watch)
        elif not isinstance(f, (type, np.ufunc)) and isinstance(vars(type(f)).get("__call__"), types.FunctionType):
            watch.attributes(f, "self")
            _collect(vars(type(f))["__call__"], watch)
        return
    if not is_library(f.__code__.co_filename):
        _of_function(f, watch)


def _is_wrapper(f: Any) -> bool:
    """Whether a callable is one of Python's wrappers or of symdiff's, which tell truly what they call."""
    return (type(f).__module__ or "").partition(".")[0] in ("functools", "symdiff", "contextlib")


def _of_function(f: types.FunctionType, watch: Watch) -> None:
    """What a function of the user's reads through its cells, defaults and globals."""
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        watch.add(_contents, cell, _contents(cell), name)
        _of_module(_contents(cell), f.__code__, watch)
    if f.__defaults__:
        watch.add(_defaults, f, f.__defaults__, "defaults")
    if f.__kwdefaults__:
        watch.add(_named_defaults, f, f.__kwdefaults__, "defaults")
    for name in global_names(f.__code__):
        if name in f.__globals__:
            value = f.__globals__[name]
            watch.add(f.__globals__.get, name, value, name)
            _of_module(value, f.__code__, watch)


def _of_module(module: Any, code: types.CodeType, watch: Watch) -> None:
    """The constants that a function reads as `module.name`, where that is a module of the user's."""
    if not isinstance(module, types.ModuleType) or is_library(getattr(module, "__file__", None) or "<string>"):
        return
    for name in global_names(code):
        value = vars(module).get(name)
        if name in vars(module) and not callable(value) and not isinstance(value, types.ModuleType):
            watch.add(vars(module).get, name, value, f"{module.__name__.rpartition('.')[2]}.{name}")


def global_names(code: types.CodeType) -> list[str]:
    """The names that a function and those nested in it look up outside themselves."""
    names = list(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names += global_names(constant)
    return names

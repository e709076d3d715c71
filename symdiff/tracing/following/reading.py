"""Captured arrays as inputs of a trace: each stands as a tracer wherever the user's code gets hold of it.

Assumes clones made by `loads`, in the thread that traces. Guarantees that an array whose contents decide anything else than
the values of traced operations is found out: a condition, an index or a number asked for, code that is not followed, an
assignment. Such a run ends with `Contents`, and is repeated with the array as a constant that is compared before each call.
"""

import functools
import operator
import types
from collections import namedtuple
from typing import Any

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.graph import GraphInput
from symdiff.ir.hidden import Captured, hidden_arrays_of
from symdiff.ir.node import Atom
from symdiff.tracing.captures.watching import Watch
from symdiff.tracing.following.implicit import PLAIN, written
from symdiff.tracing.state.attempt import Contents, current, current_reading
from symdiff.tracing.values.tracer import Tracer
from symdiff.vocabulary.libraries import is_library
from symdiff.vocabulary.signatures import Lookup

LARGEST = 5_000  # operations on captured arrays alone, after which they are constants: a loop over their cells
_NESTED = 1_000  # things in a container that are looked at
FRAMES = frozenset({super, locals, globals, vars, dir, __import__})  # builtins that look at the frame they are called from
RUNNING = frozenset({eval, exec, compile})
_MOVING = frozenset({len, isinstance, issubclass, type, id, zip, enumerate, list, tuple, dict, iter, next, reversed, getattr,
                     hasattr, callable, range, slice, print, setattr, object})  # fmt: skip
_ASKING = frozenset({isinstance, issubclass, type, id, hasattr, callable, getattr, setattr, object, dict})
_OF_CONTAINERS = frozenset("get items values keys append copy pop setdefault update extend insert".split())
_NUMBERS = frozenset({float, int, complex, bool, str, bytes, type(None)})
_MOVED = (types.FunctionType, staticmethod, classmethod, types.MemberDescriptorType, types.GetSetDescriptorType,
          type(namedtuple("Pair", "first").first))  # fmt: skip


class Reading:
    """The large arrays that a function captures, in one trace; `needed` are those whose contents the trace needs."""

    def __init__(self, watch: Watch) -> None:
        self.captured = list(watch.large)
        self.arrays = [c.array for c in self.captured]
        self.needed: list[Captured] = []
        self.holders = watch.holders
        self._compared = watch.compared
        self._stand_ins: dict[int, Tracer] = {}
        self._inputs: dict[Atom, Captured] = {}
        self._builder: Builder | None = None

    def begin(self, builder: Builder, names: list[str]) -> None:
        """Make the arrays inputs of a run's builder."""
        self._builder = builder
        self._stand_ins.clear()
        for captured, array, name in zip(self.captured, self.arrays, names, strict=True):
            symbol = builder.input(name, captured.shape, captured.dtype.char, captured.name)
            builder.fixed.add(symbol)
            self._inputs[symbol] = captured
            self._stand_ins[id(array)] = Tracer.argument(builder, symbol)

    def used(self, inputs: tuple[GraphInput, ...], symbols: set[Atom]) -> tuple[tuple[GraphInput, ...], tuple[Captured, ...]]:
        """The inputs without the arrays that are not among the symbols, and the arrays that are."""
        kept = tuple(i for i in inputs if i.node not in self._inputs or i.node in symbols)
        return kept, tuple(self._inputs[i.node] for i in kept if i.node in self._inputs)

    def need_all(self) -> None:
        """The trace needs the contents of every array."""
        self.needed = list(self.captured)
        raise Contents

    def need(self, value: Tracer) -> None:
        """The trace needs a value: it can go on where this depends on arguments only by an error, else it is a constant."""
        attempt = current()
        if value.atom not in value.builder.fixed or (attempt is not None and attempt.stuck and not attempt.thorough):
            return  # or the run is repeated, and follows what asks here
        if value.builder is not self._builder:
            self.need_all()
        by = {b: b for b in self._builder.bindings}
        waiting, seen = [value.atom], set()
        while waiting:
            atom = waiting.pop()
            if atom in self._inputs and self._inputs[atom] not in self.needed:
                self.needed.append(self._inputs[atom])
            if atom in by and atom not in seen:
                seen.add(atom)
                waiting += by[atom].operands
        raise Contents

    def meet(self, array: np.ndarray) -> None:
        """A plain array takes part in a traced operation: it must not be one that should have been read."""
        if id(array) in self._stand_ins or (id(array.base) in self._stand_ins and id(array) not in self._compared):
            self.need_all()

    # -- what the code gets hold of

    def read(self, value: Any) -> Any:
        """A value, or the tracer that stands for it."""
        return self._stand_ins.get(id(value), value)

    def check(self) -> None:
        """Give up where too much is computed of the arrays alone."""
        if self._builder is not None and len(self._builder.fixed) > LARGEST:
            self.need_all()

    def show(self, value: Any) -> None:
        """Look at what code that is not followed is given."""
        self._show(value, [_NESTED])

    def _show(self, value: Any, room: list[int]) -> None:
        kind = type(value)
        if kind in _NUMBERS or isinstance(value, (Tracer, types.ModuleType, type)):
            return
        room[0] -= 1
        if room[0] < 0 or id(value) in self._stand_ins or id(value) in self.holders:
            self.need_all()
        if kind in (list, tuple, set, frozenset):
            for item in value:
                self._show(item, room)
        elif kind is dict:
            for item in value.values():
                self._show(item, room)
        elif isinstance(value, np.ndarray):
            self.meet(value)
        elif _is_open(value):
            self.need_all()


def _is_open(value: Any) -> bool:
    """Whether a value runs code of the user's that is not cloned, or gives what it was made of."""
    if isinstance(value, types.FunctionType):
        return not is_cloned(value) and not is_library(value.__code__.co_filename)
    if isinstance(value, types.MethodType):
        return _is_open(value.__func__) or _is_open(value.__self__)
    if isinstance(value, functools.partial):
        return True
    if isinstance(value, (types.GeneratorType, map, filter)):  # what the last two were given was looked at
        return False
    return hasattr(value, "__next__") or isinstance(value, _VIEWS) or hasattr(value, "_long_way") or written(type(value))


_VIEWS = (type({}.keys()), type({}.values()), type({}.items()))


def is_cloned(f: Any) -> bool:
    """Whether a function is a clone, or was made inside one."""
    while isinstance(f, functools.partial):
        f = f.func
    f = f.__func__ if isinstance(f, types.MethodType) else f
    return isinstance(f, types.FunctionType) and any(name.startswith(".") for name in f.__code__.co_freevars)


# -- what clones find in their cells


def cells(call: Lookup, calling: frozenset[Any]) -> dict[str, types.CellType]:
    """The functions for `loads.NAMES` and for calls; `calling` are functions that follow their arguments."""
    found = {
        ".call": functools.partial(_call, call, calling), ".read": _read, ".reached": _reached,
        ".operand": _operand, ".stored": _stored, ".changed": _changed,
    }  # fmt: skip
    return {name: types.CellType(function) for name, function in found.items()}


def _read(value: Any) -> Any:
    reading = current_reading()
    return value if reading is None else reading.read(value)


def _operand(value: Any) -> Any:
    """A value whose special methods may be asked: those of the user's classes are not followed."""
    reading = current_reading()
    if reading is not None and type(value) not in PLAIN and written(type(value)) and not isinstance(value, Tracer):
        reading.need_all()
    return value


def _stored(value: Any, name: str | None) -> Any:
    """What is assigned to: the attribute `name` of it, or by an operator; `...` stands for a global."""
    reading = current_reading()
    if reading is None or isinstance(value, Tracer):
        return value
    if value is ...:
        reading.need_all()
    if id(value) in reading.holders if name is None else written(type(value)) and _is_set(type(value), name):
        reading.need_all()
    return value


def _is_set(kind: type, name: str) -> bool:
    """Whether assigning to an attribute runs code of the user's."""
    return isinstance(getattr(kind, name, None), property) or kind.__setattr__ is not object.__setattr__


def _changed(name: str, target: Any, value: Any) -> Any:
    return getattr(operator, name)(target, value)


def _reached(owner: Any, name: str, *default: Any) -> Any:
    """`owner.name`."""
    reading = current_reading()
    kind = type(owner)
    if reading is None or kind in PLAIN or not written(kind):
        return _read(getattr(owner, name, *default))
    found = next((vars(c)[name] for c in kind.__mro__ if name in vars(c)), None)
    held = name in getattr(owner, "__dict__", ())
    computed = found is not None and not isinstance(found, _MOVED) and hasattr(type(found), "__get__")
    if kind.__getattribute__ is not object.__getattribute__ or (found is None and not held and hasattr(kind, "__getattr__")):
        reading.need_all()
    if computed and not (held and isinstance(found, functools.cached_property)):
        reading.need_all()
    return reading.read(getattr(owner, name, *default))


def _call(call: Lookup, calling: frozenset[Any], f: Any) -> Any:
    """What to call in place of f; code that is not followed is shown its arguments first."""
    found = call(f)
    reading = current_reading()
    if reading is None or is_cloned(found):
        return found
    reading.check()
    if hidden_arrays_of(f):
        reading.need_all()
    if hasattr(f, "_long_way"):
        return f._long_way  # derivatives of symdiff's: not through the door, which computes with plain numbers
    kind = type(f)
    builtin = kind is type or kind is types.BuiltinFunctionType
    if builtin and f in RUNNING:
        reading.need_all()
    if builtin and f in FRAMES:
        return found
    if builtin and f is getattr:
        return _reached
    return functools.partial(_shown, reading, f, found, calling)


def _shown(reading: Reading, f: Any, found: Any, calling: frozenset[Any], /, *args: Any, **kwargs: Any) -> Any:
    kind = type(f)
    owner = getattr(f, "__self__", None)
    moving = (kind is type or kind is types.BuiltinFunctionType) and f in _MOVING
    args = tuple(map(reading.read, args))
    if moving:
        for value in args if f not in _ASKING else ():
            _operand(value)
    elif not (type(owner) in (list, dict, tuple) and f.__name__ in _OF_CONTAINERS):
        follows = (getattr(f, "__module__", None), getattr(f, "__name__", None)) in calling
        for value in (owner, *args, *kwargs.values()):
            if not (follows and callable(value)):
                reading.show(value)
    return found(*args, **kwargs)

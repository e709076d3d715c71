"""Calls that first look whether captured values are what they were: a vectorcall function before that of a `Machine`, or
before a Python function.

Assumes an object with the two fields of `vectorcall`, a `_long_way`, another one for what machine code has `_declined`, and the
interpreter's lock held during a call.
Guarantees that machine code runs only where every check holds and no trace is under way, which must be told what a call in it
reads, with the captured arrays found there, and that all other calls go the long way. `machine_guards_fit` tells whether this
interpreter's objects are those that it knows.
"""

import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from symdiff.codegen.source import MISS
from symdiff.runtime.engine import DATA, DESCR, FLAGS, NDIM, SHAPE, Code, python_api_address
from symdiff.runtime.fastcall import Machine, machine_object_name, with_python_functions
from symdiff.vocabulary.locks import free_in_children
from symdiff.vocabulary.plain import CONTIGUOUS

# What is looked at: a word of memory, half a word, several words, the items of a list, a dictionary, the cells of an array,
# what a Python function says of anything else, and an argument.
_WORD, _HALF, _WORDS, _ITEMS, _PAIRS, _CELLS, _ASKED, _GIVEN = range(8)
# Offsets in objects: the type; what a cell holds; the size of a list or a dictionary, and a list's items.
_TYPE, _CELL, _SIZE, _FIRST = 8, 16, 16, 24
_VERSION, _TAG = 24, 384  # a dictionary's version (to Python 3.12), a class's version
_MEMBER, _OFFSET = 40, 16  # what a slot's descriptor tells of it, and where in that its place in objects stands
_CODE, _FIELDS = 48, 6  # a function's code, followed by its defaults, named defaults, closure, docstring and attributes
_MANAGED, _BEFORE = 1 << 4, -24  # in a type's flags: its objects' dictionaries stand before them, there


def _fields(names: str) -> tuple[tuple[str, Any], ...]:
    """The fields of a structure: whole numbers, and addresses where a name ends in a star."""
    return tuple((name.rstrip("*"), ctypes.c_void_p if "*" in name else ctypes.c_int64) for name in names.split())


class _Check(ctypes.Structure):
    _fields_ = _fields("kind where* key* wanted*")


class _Cells(ctypes.Structure):
    """What an array held: its dtype and axes, and a copy of its memory."""

    _fields_ = _fields("dtype* ndim axes* bytes kept*")


class _Pairs(ctypes.Structure):
    """Keys and values in turn that a dictionary held; `whole`: all of them, in their order."""

    _fields_ = _fields("version count kept* whole")


class _Table(ctypes.Structure):
    _fields_ = _fields("count checks* function* bound* place arrays items* running sources* expected inputs names* named")


class Given(NamedTuple):
    """Arguments of which some are `fixed`, objects by their positions, and what machine code takes of them.

    `expected` are given by position, those of the `names` behind them. `sources` are positions of these, or objects that take
    the place of fixed ones.
    """

    expected: int
    names: tuple[str, ...]
    fixed: dict[int, Any]
    sources: tuple[tuple[int, Any], ...]


class Door:
    """A Python function in the place of machine code: it takes any arguments, and declines with `MISS`. Those that stand for
    the same `door` are equal.
    """

    running = False  # what it runs lives as long as its call

    def __init__(self, function: Any, door: Any) -> None:
        self.function = function
        self.door = door
        self.vectorcall = python_api_address("PyObject_Vectorcall")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Door) and other.door is self.door

    def __hash__(self) -> int:
        return id(self.door)


class Guard:
    """The checks before a machine's calls. `address` is that of the table that an object's second field points to.

    `machine` takes the captured `arrays`, objects with an attribute `array`, between the arguments, from `place` on. `given`
    tells which arguments it takes, where these are not all; the others must be the same objects.
    """

    def __init__(
        self,
        machine: Machine | Door,
        checks: Iterable[tuple[Any, ...]],
        place: int,
        arrays: Sequence[Any],
        moving: type,
        owner: int = 0,
        given: Given | None = None,
    ) -> None:
        """A check is `(kind, holder, keys, values, holds)`, as `captures.Watch.rows` gives them."""
        self._kept: list[Any] = [machine, *arrays]
        self._arrays = arrays
        self._kind = moving
        self._bound = machine.function if isinstance(machine, Door) else (machine, None, MISS)
        self._moving: list[tuple[Any, int, Any]] = []  # memory, the place in it, and the captured array whose address is there
        self._classes: list[tuple[int, type]] = []
        self._dictionaries: list[_Pairs] = []
        self._refreshing = threading.RLock()
        free_in_children(self._refreshing)
        fixed = [] if given is None else [_Check(_GIVEN, 0, at, id(value)) for at, value in given.fixed.items()]
        rows = [*fixed, *(_Check(*self._check(k, *check)) for k, check in enumerate(checks, len(fixed)))]
        self._checks = (_Check * len(rows))(*rows)
        objects = [] if given is None else [value for at, value in given.sources if at < 0]
        self._kept += [given, *objects]
        self._items = (ctypes.c_void_p * max(len(arrays) + len(objects), 1))(*[0] * len(arrays), *map(id, objects))
        order = None if given is None else _order(given, place, len(arrays))
        names = () if given is None else tuple(map(sys.intern, given.names))
        self._names = names, (ctypes.c_void_p * max(len(names), 1))(*map(id, names))
        self._sources = (ctypes.c_int64 * max(len(order or ()), 1))(*order or ())
        self._table = _Table(
            len(rows), ctypes.addressof(self._checks), machine.vectorcall, owner or id(self._bound), place, len(arrays),
            ctypes.addressof(self._items), 0, ctypes.addressof(self._sources) if order is not None else None,
            -1 if given is None else given.expected, len(order or ()), ctypes.addressof(self._names[1]), len(names),
        )  # fmt: skip
        self.address = ctypes.addressof(self._table)
        self.refresh(self.versions())

    @property
    def running(self) -> bool:
        """Whether a call, in another thread, is between these checks and its end."""
        return bool(self._table.running)

    def versions(self) -> list[int]:
        """The versions of the classes as they are now, for `refresh` once these are known to hold what they held."""
        return [_version(cls) for _, cls in self._classes]

    def refresh(self, versions: list[int]) -> None:
        """Take the arrays as they were found last, others may stand in their places, and the classes in these versions."""
        with self._refreshing:
            arrays = {id(captured): captured.array for captured in (*self._arrays, *(c for *_, c in self._moving))}
            for memory, place, _ in self._moving:
                memory[place] = None  # no call takes some arrays for others meanwhile
            for pairs in self._dictionaries if self._moving else ():
                pairs.version = -1
            for k, captured in enumerate(self._arrays):
                self._items[k] = id(arrays[id(captured)])
            for memory, place, captured in self._moving:
                memory[place] = id(arrays[id(captured)])
            for (k, _), version in zip(self._classes, versions, strict=True):
                self._checks[k].wanted = version or -1
            self._held = arrays

    def _check(self, k: int, kind: str, holder: Any, keys: Any, values: Any, holds: Any) -> tuple[int, int, int, int]:
        self._kept += [holder, *keys, *values, holds]
        return self._native(k, kind, holder, keys, values) or (_ASKED, id(holds), 0, id(True))

    def _native(self, k: int, kind: str, holder: Any, keys: Any, values: Any) -> tuple[int, int, int, int] | None:
        if kind in ("cell", "slot"):
            kept = self._addresses(list(values), range(len(values)), 1)
            return _WORDS, id(holder) + (_CELL if kind == "cell" else _place_of_slot(*keys)), 8, ctypes.addressof(kept)
        if kind == "type":
            return _WORD, id(holder) + _TYPE, 0, id(*values)
        if kind == "attributes":
            place = _place_of_attributes(holder)
            return (_WORD, place, 0, id(*values)) if place else None
        if kind == "class":
            self._classes.append((k, holder))
            return _HALF, id(holder) + _TAG, 0, -1
        if kind == "function":
            words = (ctypes.c_int64 * _FIELDS).from_address(id(holder) + _CODE)
            kept = (ctypes.c_int64 * _FIELDS)(*words)
            self._kept.append(kept)
            return _WORDS, id(holder) + _CODE, 8 * _FIELDS, ctypes.addressof(kept)
        if kind == "items":
            kept = self._addresses(list(values), range(len(values)), len(values))
            return _ITEMS, id(holder), len(values), ctypes.addressof(kept)
        if kind in ("names", "absent", "entries"):
            return _PAIRS, id(holder), self._pairs(list(keys), list(values), kind == "entries"), 0
        if kind == "contents" and holder.flags.c_contiguous:
            (value,) = values
            axes = (ctypes.c_int64 * max(len(value.shape), 1))(*value.shape)
            memory = value.kept.nbytes, value.kept.ctypes.data
            cells = _Cells(id(value.dtype), len(value.shape), ctypes.addressof(axes), *memory)
            self._kept += [axes, cells]
            return _CELLS, id(holder), ctypes.addressof(cells), 0
        return None

    def _addresses(self, values: list[Any], places: Iterable[int], size: int) -> Any:
        """Memory with the addresses of values; those of captured arrays move."""
        kept = (ctypes.c_void_p * max(size, 1))()
        self._kept.append(kept)
        for place, value in zip(places, values, strict=True):
            if type(value) is self._kind:
                self._moving.append((kept, place, value))
            else:
                kept[place] = id(value)
        return kept

    def _pairs(self, keys: list[Any], values: list[Any], whole: bool) -> int:
        kept = self._addresses(values, range(1, 2 * len(values), 2), 2 * len(keys))
        for place, key in enumerate(keys):
            kept[2 * place] = id(key)
        pairs = _Pairs(-1, len(keys), ctypes.addressof(kept), whole)
        self._kept.append(pairs)
        self._dictionaries.append(pairs)
        return ctypes.addressof(pairs)


def _order(given: Given, place: int, arrays: int) -> list[int]:
    """Where machine code's arguments come from: arguments by their positions, items by -1, -2, ..."""
    objects = itertools.count(arrays)
    own = [at if at >= 0 else -1 - next(objects) for at, _ in given.sources]
    return [*own[:place], *(-1 - k for k in range(arrays)), *own[place:]]


def _version(cls: type) -> int:
    """The version of a class, another one whenever it or one that it inherits from changes; 0 where Python has no more."""
    type.__getattribute__(cls, "mro")  # Python gives it one when something is looked up in it
    return ctypes.c_uint32.from_address(id(cls) + _TAG).value


def _place_of_attributes(holder: Any) -> int:
    """Where an object has the address of its dictionary; 0 where that is not known."""
    kind = type(holder)
    offset = _BEFORE if kind.__flags__ & _MANAGED else kind.__dictoffset__
    where = id(holder) + offset
    known = offset == _BEFORE or offset > 0
    return where if known and ctypes.c_int64.from_address(where).value == id(object.__getattribute__(holder, "__dict__")) else 0


def _place_of_slot(slot: Any) -> int:
    """Where in an object a slot of its class has its value."""
    member = ctypes.c_ssize_t.from_address(id(slot) + _MEMBER).value
    return int(ctypes.c_ssize_t.from_address(member + _OFFSET).value)


@functools.cache
def guarded(offset: int) -> int:
    """The address of the vectorcall function of objects whose pointer to a table lies at an offset."""
    text = _TEXT.replace("OFFSET", str(offset)).replace("VERSIONED", str(_versioned()).lower())
    code = Code(with_python_functions(text), 1, "none")
    _codes.append(code)
    return code.address("guarded")


_codes: list[Code] = []


@functools.cache
def machine_guards_fit() -> bool:
    """Whether this interpreter's objects have the layout that the checks know."""
    if sys.implementation.name != "cpython" or getattr(sys, "_is_gil_enabled", lambda: True)() is False:
        return False
    sample, table = [object(), object()], {"a": 1}

    def function(a: int = 1, *, b: int = 2) -> Any:
        """Sample."""
        return sample, a, b

    class Class:
        pass

    class Slotted:
        __slots__ = ("first", "second")

    slotted = Slotted()
    slotted.second = sample  # type: ignore[attr-defined]

    def word(where: int) -> int:
        return int(ctypes.c_ssize_t.from_address(where).value)

    cell = function.__closure__[0]  # type: ignore[index]
    names = "code defaults kwdefaults closure doc dict".split()
    fields = [getattr(function, f"__{name}__") for name in names]
    first = _version(Class)
    Class.a = 1  # type: ignore[attr-defined]
    return (
        word(id(cell) + _CELL) == id(sample)
        and word(id(cell) + _TYPE) == id(type(cell))
        and word(id(sample) + _SIZE) == 2
        and word(word(id(sample) + _FIRST) + 8) == id(sample[1])
        and word(id(table) + _SIZE) == 1
        and [word(id(function) + _CODE + 8 * k) for k in range(_FIELDS)] == [*map(id, fields)]
        and 0 != first != _version(Class) != 0
        and word(id(slotted) + _place_of_slot(Slotted.second)) == id(sample)  # type: ignore[attr-defined]
    )


def _versioned() -> bool:
    """Whether dictionaries have versions."""

    def version() -> int:
        return int(ctypes.c_int64.from_address(id(table) + _VERSION).value)

    table = {"a": object(), "b": object()}
    seen = [version()]
    table["b"] = object()
    seen.append(version())
    del table["a"]
    seen.append(version())
    return sys.version_info < (3, 13) and len(set(seen)) == 3


_TEXT = f"""
@symdiff.long_way = external global i8
@symdiff.declined = external global i8
@symdiff.miss = external global i8
@symdiff.traces = external global i64
declare i32 @memcmp(ptr, ptr, i64)

define ptr @guarded(ptr %self, ptr %args, i64 %counted, ptr %names) nounwind {{
entry:
  %wayat = alloca ptr
  store ptr @symdiff.long_way, ptr %wayat
  %position = alloca i64
  %keyfound = alloca ptr
  %valuefound = alloca ptr
  %field = getelementptr i8, ptr %self, i64 OFFSET
  %table = load ptr, ptr %field
  %count = load i64, ptr %table
  %checksat = getelementptr i8, ptr %table, i64 8
  %checks = load ptr, ptr %checksat
  %nargs = and i64 %counted, 9223372036854775807
  %runningat = getelementptr i8, ptr %table, i64 56
  %others = load i64, ptr %runningat
  %running = add i64 %others, 1
  store i64 %running, ptr %runningat
  %traces = load i64, ptr @symdiff.traces
  %alone = icmp eq i64 %traces, 0
  br i1 %alone, label %begin, label %slow
begin:
  %sourcesat = getelementptr i8, ptr %table, i64 64
  %sources = load ptr, ptr %sourcesat
  %expectedat = getelementptr i8, ptr %table, i64 72
  %expected = load i64, ptr %expectedat
  %free = icmp slt i64 %expected, 0
  %fitting = icmp eq i64 %nargs, %expected
  br i1 %free, label %first, label %counts
counts:
  br i1 %fitting, label %arguments, label %slow
arguments:
  %bypositions = icmp eq ptr %names, null
  br i1 %bypositions, label %counted_names, label %byname
byname:
  %sizeofnames = getelementptr i8, ptr %names, i64 {_SIZE}
  %bynames = load i64, ptr %sizeofnames
  br label %counted_names
counted_names:
  %byname_count = phi i64 [0, %arguments], [%bynames, %byname]
  %wantednamesat = getelementptr i8, ptr %table, i64 88
  %wantednames = load ptr, ptr %wantednamesat
  %namedat = getelementptr i8, ptr %table, i64 96
  %wantedcount = load i64, ptr %namedat
  %asmany = icmp eq i64 %byname_count, %wantedcount
  br i1 %asmany, label %next_keyword, label %slow
next_keyword:
  %q = phi i64 [0, %counted_names], [%qnext, %same_keyword]
  %morenames = icmp slt i64 %q, %wantedcount
  br i1 %morenames, label %keyword, label %first
keyword:
  %namesat = getelementptr i8, ptr %names, i64 {tuple.__basicsize__}
  %ownnameat = getelementptr ptr, ptr %namesat, i64 %q
  %givenname = load ptr, ptr %ownnameat
  %wantednameat = getelementptr ptr, ptr %wantednames, i64 %q
  %wantedname = load ptr, ptr %wantednameat
  %isaswanted = icmp eq ptr %givenname, %wantedname
  br i1 %isaswanted, label %same_keyword, label %slow
same_keyword:
  %qnext = add i64 %q, 1
  br label %next_keyword
first:
  br label %next
next:
  %k = phi i64 [0, %first], [%after, %good]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %check, label %passed
check:
  %row = getelementptr [4 x i64], ptr %checks, i64 %k
  %kind = load i64, ptr %row
  %whereat = getelementptr i8, ptr %row, i64 8
  %where = load ptr, ptr %whereat
  %keyat = getelementptr i8, ptr %row, i64 16
  %key = load ptr, ptr %keyat
  %keynumber = ptrtoint ptr %key to i64
  %wantedat = getelementptr i8, ptr %row, i64 24
  %wanted = load ptr, ptr %wantedat
  switch i64 %kind, label %slow [i64 {_WORD}, label %word i64 {_HALF}, label %half i64 {_WORDS}, label %words
    i64 {_ITEMS}, label %items i64 {_PAIRS}, label %pairs i64 {_CELLS}, label %cells i64 {_ASKED}, label %asking
    i64 {_GIVEN}, label %giving]
giving:
  %givenat = getelementptr ptr, ptr %args, i64 %keynumber
  %giventhing = load ptr, ptr %givenat
  %samething = icmp eq ptr %giventhing, %wanted
  br i1 %samething, label %good, label %slow
word:
  %found = load ptr, ptr %where
  %same = icmp eq ptr %found, %wanted
  br i1 %same, label %good, label %slow
asking:
  %said = call ptr @PyObject_CallNoArgs(ptr %where)
  %failed = icmp eq ptr %said, null
  br i1 %failed, label %error, label %answered
error:
  call void @PyErr_Clear()
  br label %slow
answered:
  call void @Py_DecRef(ptr %said)
  %yes = icmp eq ptr %said, %wanted
  br i1 %yes, label %good, label %slow
half:
  %halffound = load i32, ptr %where
  %wantednumber = ptrtoint ptr %wanted to i64
  %halfwanted = trunc i64 %wantednumber to i32
  %samehalf = icmp eq i32 %halffound, %halfwanted
  br i1 %samehalf, label %good, label %slow
items:
  %sizeat = getelementptr i8, ptr %where, i64 {_SIZE}
  %size = load i64, ptr %sizeat
  %samesize = icmp eq i64 %size, %keynumber
  br i1 %samesize, label %listed, label %slow
listed:
  %itemsat = getelementptr i8, ptr %where, i64 {_FIRST}
  %items0 = load ptr, ptr %itemsat
  br label %compare
words:
  %wordcount = lshr i64 %keynumber, 3
  br label %compare
compare:
  %place0 = phi ptr [%items0, %listed], [%where, %words]
  %ofplace = phi i64 [%size, %listed], [%wordcount, %words]
  br label %each
each:
  %e = phi i64 [0, %compare], [%enext, %alike]
  %emore = icmp slt i64 %e, %ofplace
  br i1 %emore, label %one, label %good
one:
  %nowat = getelementptr ptr, ptr %place0, i64 %e
  %now = load ptr, ptr %nowat
  %keptat0 = getelementptr ptr, ptr %wanted, i64 %e
  %kept0 = load ptr, ptr %keptat0
  %alikeones = icmp eq ptr %now, %kept0
  br i1 %alikeones, label %alike, label %slow
alike:
  %enext = add i64 %e, 1
  br label %each
pairs:
  %versionat = getelementptr i8, ptr %where, i64 {_VERSION}
  %version = load i64, ptr %versionat
  %wantedversion = load i64, ptr %key
  %sameversion = icmp eq i64 %version, %wantedversion
  %unchanged = and i1 %sameversion, VERSIONED
  br i1 %unchanged, label %good, label %looked
looked:
  %paircountat = getelementptr i8, ptr %key, i64 8
  %paircount = load i64, ptr %paircountat
  %pairsat = getelementptr i8, ptr %key, i64 16
  %pairs0 = load ptr, ptr %pairsat
  %wholeat = getelementptr i8, ptr %key, i64 24
  %whole = load i64, ptr %wholeat
  %iswhole = icmp ne i64 %whole, 0
  br i1 %iswhole, label %entries, label %named
entries:
  %usedat = getelementptr i8, ptr %where, i64 {_SIZE}
  %used = load i64, ptr %usedat
  store i64 0, ptr %position
  %sameused = icmp eq i64 %used, %paircount
  br i1 %sameused, label %entry0, label %slow
entry0:
  %n = phi i64 [0, %entries], [%nnext, %samevalue]
  %nmore = icmp slt i64 %n, %paircount
  br i1 %nmore, label %advance, label %renewed
advance:
  %there = call i32 @PyDict_Next(ptr %where, ptr %position, ptr %keyfound, ptr %valuefound)
  %isthere = icmp ne i32 %there, 0
  br i1 %isthere, label %paired, label %slow
paired:
  %n2 = shl i64 %n, 1
  %n21 = add i64 %n2, 1
  %pairkeyat = getelementptr ptr, ptr %pairs0, i64 %n2
  %pairkey = load ptr, ptr %pairkeyat
  %nowkey = load ptr, ptr %keyfound
  %samekey = icmp eq ptr %nowkey, %pairkey
  br i1 %samekey, label %valued, label %slow
valued:
  %pairvalueat = getelementptr ptr, ptr %pairs0, i64 %n21
  %pairvalue = load ptr, ptr %pairvalueat
  %nowvalue = load ptr, ptr %valuefound
  %issamevalue = icmp eq ptr %nowvalue, %pairvalue
  br i1 %issamevalue, label %samevalue, label %slow
samevalue:
  %nnext = add i64 %n, 1
  br label %entry0
named:
  %m = phi i64 [0, %looked], [%mnext, %samename]
  %mmore = icmp slt i64 %m, %paircount
  br i1 %mmore, label %name, label %renewed
name:
  %m2 = shl i64 %m, 1
  %m21 = add i64 %m2, 1
  %nameat = getelementptr ptr, ptr %pairs0, i64 %m2
  %thename = load ptr, ptr %nameat
  %namevalueat = getelementptr ptr, ptr %pairs0, i64 %m21
  %namevalue = load ptr, ptr %namevalueat
  %nowname = call ptr @PyDict_GetItemWithError(ptr %where, ptr %thename)
  %isnoname = icmp eq ptr %nowname, null
  br i1 %isnoname, label %unknown, label %known
unknown:
  call void @PyErr_Clear()
  br label %known
known:
  %issamename = icmp eq ptr %nowname, %namevalue
  br i1 %issamename, label %samename, label %slow
samename:
  %mnext = add i64 %m, 1
  br label %named
renewed:
  store i64 %version, ptr %key
  br label %good
cells:
  %descrat = getelementptr i8, ptr %where, i64 {DESCR}
  %descr = load ptr, ptr %descrat
  %wanteddescr = load ptr, ptr %key
  %samedescr = icmp eq ptr %descr, %wanteddescr
  br i1 %samedescr, label %rank, label %slow
rank:
  %ndimat = getelementptr i8, ptr %where, i64 {NDIM}
  %ndimshort = load i32, ptr %ndimat
  %ndim = zext i32 %ndimshort to i64
  %wantedndimat = getelementptr i8, ptr %key, i64 8
  %wantedndim = load i64, ptr %wantedndimat
  %samendim = icmp eq i64 %ndim, %wantedndim
  br i1 %samendim, label %layout, label %slow
layout:
  %flagsat = getelementptr i8, ptr %where, i64 {FLAGS}
  %flags = load i32, ptr %flagsat
  %contiguous = and i32 %flags, {CONTIGUOUS}
  %iscontiguous = icmp ne i32 %contiguous, 0
  br i1 %iscontiguous, label %shape, label %slow
shape:
  %shapeat = getelementptr i8, ptr %where, i64 {SHAPE}
  %shapes = load ptr, ptr %shapeat
  %wantedshapesat = getelementptr i8, ptr %key, i64 16
  %wantedshapes = load ptr, ptr %wantedshapesat
  %shapebytes = mul i64 %ndim, 8
  %shapediff = call i32 @memcmp(ptr %shapes, ptr %wantedshapes, i64 %shapebytes)
  %sameshape = icmp eq i32 %shapediff, 0
  br i1 %sameshape, label %memory, label %slow
memory:
  %dataat = getelementptr i8, ptr %where, i64 {DATA}
  %data = load ptr, ptr %dataat
  %bytesat = getelementptr i8, ptr %key, i64 24
  %bytes = load i64, ptr %bytesat
  %keptat = getelementptr i8, ptr %key, i64 32
  %kept = load ptr, ptr %keptat
  %diff = call i32 @memcmp(ptr %data, ptr %kept, i64 %bytes)
  %samedata = icmp eq i32 %diff, 0
  br i1 %samedata, label %good, label %slow
good:
  %after = add i64 %k, 1
  br label %next
passed:
  %functionat = getelementptr i8, ptr %table, i64 16
  %function = load ptr, ptr %functionat
  %boundat = getelementptr i8, ptr %table, i64 24
  %bound = load ptr, ptr %boundat
  %placeat = getelementptr i8, ptr %table, i64 32
  %place = load i64, ptr %placeat
  %arraysat = getelementptr i8, ptr %table, i64 40
  %arrays = load i64, ptr %arraysat
  %hiddenat = getelementptr i8, ptr %table, i64 48
  %hidden = load ptr, ptr %hiddenat
  %inputsat = getelementptr i8, ptr %table, i64 80
  %inputs = load i64, ptr %inputsat
  %without = icmp eq i64 %arrays, 0
  %asgiven = and i1 %without, %free
  br i1 %asgiven, label %straight, label %filled
straight:
  %result0 = call ptr %function(ptr %bound, ptr %args, i64 %nargs, ptr %names)
  br label %done
filled:
  %few = icmp slt i64 %nargs, %place
  %toofew = and i1 %few, %free
  br i1 %toofew, label %slow, label %roomy
roomy:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %plain, label %counting
counting:
  %namedcountat = getelementptr i8, ptr %names, i64 16
  %namedcount = load i64, ptr %namedcountat
  br label %plain
plain:
  %extra = phi i64 [0, %roomy], [%namedcount, %counting]
  %given = add i64 %nargs, %extra
  %together = add i64 %given, %arrays
  %all = select i1 %free, i64 %together, i64 %inputs
  %many = icmp sgt i64 %all, 1000
  br i1 %many, label %slow, label %copying
copying:
  %buffer = alloca ptr, i64 %all
  br label %copy
copy:
  %c = phi i64 [0, %copying], [%cnext, %copied]
  %cmore = icmp slt i64 %c, %all
  br i1 %cmore, label %pick, label %calling
pick:
  br i1 %free, label %inserting, label %ordered
ordered:
  %whenceat = getelementptr i64, ptr %sources, i64 %c
  %whence = load i64, ptr %whenceat
  %isargument = icmp sge i64 %whence, 0
  %itemnumber = sub i64 -1, %whence
  %argumentat = getelementptr ptr, ptr %args, i64 %whence
  %itemat = getelementptr ptr, ptr %hidden, i64 %itemnumber
  %orderedsource = select i1 %isargument, ptr %argumentat, ptr %itemat
  br label %picked
inserting:
  %offset = sub i64 %c, %place
  %isbefore = icmp slt i64 %offset, 0
  %isbehind = icmp sge i64 %offset, %arrays
  %isgiven = or i1 %isbefore, %isbehind
  %shift = select i1 %isbehind, i64 %arrays, i64 0
  %from = sub i64 %c, %shift
  %argat = getelementptr ptr, ptr %args, i64 %from
  %hiddenitemat = getelementptr ptr, ptr %hidden, i64 %offset
  %insertedsource = select i1 %isgiven, ptr %argat, ptr %hiddenitemat
  br label %picked
picked:
  %source = phi ptr [%orderedsource, %ordered], [%insertedsource, %inserting]
  %thing = load ptr, ptr %source
  call void @Py_IncRef(ptr %thing)
  %target = getelementptr ptr, ptr %buffer, i64 %c
  store ptr %thing, ptr %target
  br label %copied
copied:
  %cnext = add i64 %c, 1
  br label %copy
calling:
  %lengthened = add i64 %nargs, %arrays
  %total = select i1 %free, i64 %lengthened, i64 %inputs
  %handedon = select i1 %free, ptr %names, ptr null
  %result1 = call ptr %function(ptr %bound, ptr %buffer, i64 %total, ptr %handedon)
  br label %release
release:
  %d = phi i64 [0, %calling], [%dnext, %releasing]
  %dmore = icmp slt i64 %d, %all
  br i1 %dmore, label %releasing, label %done
releasing:
  %dat = getelementptr ptr, ptr %buffer, i64 %d
  %old = load ptr, ptr %dat
  call void @Py_DecRef(ptr %old)
  %dnext = add i64 %d, 1
  br label %release
done:
  %result = phi ptr [%result0, %straight], [%result1, %release]
  %missed = icmp eq ptr %result, {machine_object_name("miss")}
  br i1 %missed, label %declined, label %finished
finished:
  %before = load i64, ptr %runningat
  %fewer = sub i64 %before, 1
  store i64 %fewer, ptr %runningat
  ret ptr %result
declined:
  call void @Py_DecRef(ptr %result)
  store ptr @symdiff.declined, ptr %wayat
  br label %slow
slow:
  %before1 = load i64, ptr %runningat
  %fewer1 = sub i64 %before1, 1
  store i64 %fewer1, ptr %runningat
  %way = load ptr, ptr %wayat
  %method = call ptr @PyObject_GetAttr(ptr %self, ptr %way)
  %ismethod = icmp ne ptr %method, null
  br i1 %ismethod, label %asked, label %nothing
asked:
  %answer = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 %nargs, ptr %names)
  call void @Py_DecRef(ptr %method)
  ret ptr %answer
nothing:
  ret ptr null
}}
"""

"""Calls that first look whether captured values are what they were: a vectorcall function before that of a `Machine`.

Assumes an object with the two fields of `vectorcall` and a `_long_way`, and the interpreter's lock held during a call.
Guarantees that machine code runs only where every check holds, with the captured arrays found there, and that all other calls
go the long way. Refuses, with `BackendError`, kinds of containers whose memory it does not know.
"""

import ctypes
import functools
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from symdiff.codegen.native.engine import DATA, DESCR, FLAGS, NDIM, SHAPE, Code, add_symbol, python_function
from symdiff.codegen.native.fastcall import FUNCTIONS, Machine, bind_names, object_name
from symdiff.codegen.source import MISS
from symdiff.errors import BackendError
from symdiff.plain import CONTIGUOUS

# What is looked at: a word of memory, an item of a list or of a dictionary, a function's defaults, the cells of an array.
_WORD, _ITEM, _KEY, _DEFAULTS, _NAMED, _CELLS = range(6)
_CELL, _SIZE, _ITEMS = 16, 16, 24  # offsets in objects: what a cell holds; the size of a list or a dictionary; a list's items
_MORE = ("PyDict_GetItemWithError", "PyFunction_GetDefaults", "PyFunction_GetKwDefaults", "PyErr_Clear")


class _Check(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int64), ("where", ctypes.c_void_p), ("key", ctypes.c_void_p), ("wanted", ctypes.c_void_p))


class _Cells(ctypes.Structure):
    """What an array held: its dtype and axes, and a copy of its memory."""

    _fields_ = (("dtype", ctypes.c_void_p), ("ndim", ctypes.c_int64), ("axes", ctypes.c_void_p),
                ("bytes", ctypes.c_int64), ("kept", ctypes.c_void_p))  # fmt: skip


class _Table(ctypes.Structure):
    _fields_ = (
        ("count", ctypes.c_int64),
        ("checks", ctypes.c_void_p),
        ("function", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("place", ctypes.c_int64),
        ("arrays", ctypes.c_int64),
        ("items", ctypes.c_void_p),
        ("running", ctypes.c_int64),
    )


class Guard:
    """The checks before a machine's calls. `address` is that of the table that an object's second field points to.

    `machine` takes the captured `arrays`, objects with an attribute `array`, between the arguments, from `place` on.
    """

    def __init__(self, machine: Machine, checks: Iterable[tuple[Any, ...]], place: int, arrays: Sequence[Any]) -> None:
        """A check is `(kind, holder, key, value, moving)`, as `captures.Watch.checks` gives them."""
        self._kept: list[Any] = [machine, *arrays]
        self._arrays = arrays
        self._bound = (machine, None, MISS)
        listed = list(checks)
        self._moving = [(k, check[3]) for k, check in enumerate(listed) if check[4]]
        rows = [_Check(*self._check(*check[:4])) for check in listed]
        self._checks = (_Check * len(rows))(*rows)
        self._items = (ctypes.c_void_p * max(len(arrays), 1))()
        self._table = _Table(
            len(rows), ctypes.addressof(self._checks), machine.vectorcall, id(self._bound), place, len(arrays),
            ctypes.addressof(self._items), 0,
        )  # fmt: skip
        self.address = ctypes.addressof(self._table)
        self.refresh()

    @property
    def running(self) -> bool:
        """Whether a call, in another thread, is between these checks and its end."""
        return bool(self._table.running)

    def refresh(self) -> None:
        """Take the arrays as they were found last: others may stand in their places."""
        held = [captured.array for captured in self._arrays]
        for k, array in enumerate(held):
            self._items[k] = id(array)
        for k, captured in self._moving:
            self._checks[k].wanted = id(captured.array)
        self._held = held, [captured.array for _, captured in self._moving]

    def _check(self, kind: str, holder: Any, key: Any, value: Any) -> tuple[int, int, int, int]:
        self._kept += [holder, key, value]
        if kind == "cell":
            return _WORD, id(holder) + _CELL, 0, id(value)
        if kind == "size" and type(holder) in (list, dict):
            return _WORD, id(holder) + _SIZE, 0, value
        if kind == "item" and type(holder) is list:
            return _ITEM, id(holder), 8 * key, id(value)
        if kind == "item" and type(holder) is dict and type(key) is str:
            return _KEY, id(holder), id(key), id(value)
        if kind == "defaults":
            return _DEFAULTS, id(holder), 0, id(value)
        if kind == "named defaults":
            return _NAMED, id(holder), 0, id(value)
        if kind == "contents" and holder.flags.c_contiguous:
            axes = (ctypes.c_int64 * max(len(value.shape), 1))(*value.shape)
            memory = value.kept.nbytes, value.kept.ctypes.data
            cells = _Cells(id(value.dtype), len(value.shape), ctypes.addressof(axes), *memory)
            self._kept += [axes, cells]
            return _CELLS, id(holder), ctypes.addressof(cells), 0
        raise BackendError(f"{type(holder).__name__}: calls with captured values in it are checked in Python")


@functools.cache
def guarded(offset: int) -> int:
    """The address of the vectorcall function of objects whose pointer to a table lies at an offset."""
    if not _known():
        raise BackendError("this interpreter's containers have another layout than machine code knows")
    bind_names()
    for name in _MORE:
        add_symbol(name, python_function(name))
    code = Code(_TEXT.replace("OFFSET", str(offset)).replace("NAMES", "\n".join(FUNCTIONS)), 2)
    _codes.append(code)
    return code.address("guarded")


_codes: list[Code] = []


def _known() -> bool:
    """Whether this interpreter's containers have the layout that the checks know."""
    if sys.implementation.name != "cpython" or getattr(sys, "_is_gil_enabled", lambda: True)() is False:
        return False
    sample, table = [object(), object()], {"a": 1}
    cell = (lambda: sample).__closure__[0]  # type: ignore[index]

    def word(where: int) -> int:
        return int(ctypes.c_ssize_t.from_address(where).value)

    return (
        word(id(cell) + _CELL) == id(sample)
        and word(id(sample) + _SIZE) == 2
        and word(word(id(sample) + _ITEMS) + 8) == id(sample[1])
        and word(id(table) + _SIZE) == 1
    )


_TEXT = f"""
NAMES
@symdiff.long_way = external global i8
@symdiff.miss = external global i8
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare void @PyErr_Clear()
declare i32 @memcmp(ptr, ptr, i64)

define ptr @guarded(ptr %self, ptr %args, i64 %counted, ptr %names) nounwind {{
entry:
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
  br label %next
next:
  %k = phi i64 [0, %entry], [%after, %good]
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
  switch i64 %kind, label %slow [i64 {_WORD}, label %word i64 {_ITEM}, label %item i64 {_KEY}, label %keyed
    i64 {_DEFAULTS}, label %defaults i64 {_NAMED}, label %named i64 {_CELLS}, label %cells]
word:
  %v0 = load ptr, ptr %where
  br label %compare
item:
  %itemsat = getelementptr i8, ptr %where, i64 {_ITEMS}
  %items = load ptr, ptr %itemsat
  %itemat = getelementptr i8, ptr %items, i64 %keynumber
  %v1 = load ptr, ptr %itemat
  br label %compare
keyed:
  %v2 = call ptr @PyDict_GetItemWithError(ptr %where, ptr %key)
  %nokey = icmp eq ptr %v2, null
  br i1 %nokey, label %unknown, label %compare
unknown:
  call void @PyErr_Clear()
  br label %slow
defaults:
  %v3 = call ptr @PyFunction_GetDefaults(ptr %where)
  br label %compare
named:
  %v4 = call ptr @PyFunction_GetKwDefaults(ptr %where)
  br label %compare
compare:
  %found = phi ptr [%v0, %word], [%v1, %item], [%v2, %keyed], [%v3, %defaults], [%v4, %named]
  %same = icmp eq ptr %found, %wanted
  br i1 %same, label %good, label %slow
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
  %without = icmp eq i64 %arrays, 0
  br i1 %without, label %straight, label %filled
straight:
  %result0 = call ptr %function(ptr %bound, ptr %args, i64 %nargs, ptr %names)
  br label %done
filled:
  %few = icmp slt i64 %nargs, %place
  br i1 %few, label %slow, label %roomy
roomy:
  %unnamed = icmp eq ptr %names, null
  br i1 %unnamed, label %plain, label %counting
counting:
  %namedat = getelementptr i8, ptr %names, i64 16
  %namedcount = load i64, ptr %namedat
  br label %plain
plain:
  %extra = phi i64 [0, %roomy], [%namedcount, %counting]
  %given = add i64 %nargs, %extra
  %all = add i64 %given, %arrays
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
  %offset = sub i64 %c, %place
  %isbefore = icmp slt i64 %offset, 0
  %isbehind = icmp sge i64 %offset, %arrays
  %isgiven = or i1 %isbefore, %isbehind
  %shift = select i1 %isbehind, i64 %arrays, i64 0
  %from = sub i64 %c, %shift
  %argat = getelementptr ptr, ptr %args, i64 %from
  %hiddenitemat = getelementptr ptr, ptr %hidden, i64 %offset
  %source = select i1 %isgiven, ptr %argat, ptr %hiddenitemat
  %thing = load ptr, ptr %source
  call void @Py_IncRef(ptr %thing)
  %target = getelementptr ptr, ptr %buffer, i64 %c
  store ptr %thing, ptr %target
  br label %copied
copied:
  %cnext = add i64 %c, 1
  br label %copy
calling:
  %total = add i64 %nargs, %arrays
  %result1 = call ptr %function(ptr %bound, ptr %buffer, i64 %total, ptr %names)
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
  %missed = icmp eq ptr %result, {object_name("miss")}
  br i1 %missed, label %declined, label %finished
finished:
  %before = load i64, ptr %runningat
  %fewer = sub i64 %before, 1
  store i64 %fewer, ptr %runningat
  ret ptr %result
declined:
  call void @Py_DecRef(ptr %result)
  br label %slow
slow:
  %before1 = load i64, ptr %runningat
  %fewer1 = sub i64 %before1, 1
  store i64 %fewer1, ptr %runningat
  %method = call ptr @PyObject_GetAttr(ptr %self, ptr {object_name("long_way")})
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

"""A Python builtin over compiled code: it checks its arguments as the interpreter hands them over, and runs.

Assumes a kernel over pointers to contiguous inputs and outputs. Guarantees that arguments which are not exactly what the
kernel was compiled for are passed on or declined, that nothing is written then, and that the code lives as long as the
builtin.
"""

import ctypes
import functools
import math
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from symdiff.codegen.llvm.head_calls import ARRAY_TYPE, HeadCall
from symdiff.codegen.source import MISS
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.program import Input, Output, Program
from symdiff.runtime.engine import (
    COUNTED,
    DATA,
    DESCR,
    FLAGS,
    NDIM,
    SHAPE,
    Code,
    Passes,
    add_machine_symbol,
    numpy_api_address,
    python_api_address,
)
from symdiff.runtime.working import GIVE, KEPT_FROM, TAKE, name_memory
from symdiff.vocabulary.numpy_kernels import gufunc_addresses
from symdiff.vocabulary.ops import bytes_of_code, dtype_of_code
from symdiff.vocabulary.plain import READABLE, WRITTEN
from symdiff.vocabulary.seams import TRACES

_METH_FASTCALL_KEYWORDS = 0x0082
_ARRAY_FUNCTIONS = {"array_empty": 184, "array_return": 76, "array_new": 93}  # slots of NumPy's C interface
Leaf = Input | Output
Nested = int | tuple["Nested", ...] | list["Nested"] | dict[str, "Nested"]
Place = tuple[str, str | int]  # memory and an offset in it, or a dictionary and its key
Sizes = list[int | str]  # of an array, numbers or what holds them; "" for any
Memory = tuple[str, int | str]  # where an array begins, and its bytes
FUNCTIONS = (
    "declare void @Py_IncRef(ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare ptr @PyTuple_New(i64)",
    "declare ptr @PyList_New(i64)",
    "declare ptr @PyDict_New()",
    "declare i32 @PyDict_SetItem(ptr, ptr, ptr)",
    "declare ptr @PyDict_GetItemWithError(ptr, ptr)",
    "declare ptr @PyObject_GetAttr(ptr, ptr)",
    "declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)",
    "declare ptr @PyMem_RawMalloc(i64)",
    "declare ptr @PyMem_RawRealloc(ptr, i64)",
    "declare void @PyMem_RawFree(ptr)",
    f"declare ptr @{TAKE}(i64)",
    f"declare void @{GIVE}(ptr)",
    "declare ptr @PyErr_NoMemory()",
    "declare void @PyErr_Clear()",
    "declare ptr @PyObject_CallNoArgs(ptr)",
    "declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @array_empty(i32, ptr, ptr, i32)",
    "declare ptr @array_return(ptr)",
    "declare ptr @array_new(ptr, i32, ptr, i32, ptr, ptr, i32, i32, ptr)",
    "declare ptr @PyErr_Occurred()",
    "declare i32 @PyGILState_Ensure()",
    "declare void @PyGILState_Release(i32)",
)
# Offsets in objects: the type; the length of a tuple, a list or a dictionary; a tuple's items, a list's; a number's value.
_TYPE, _SIZE, _ITEMS, _LISTED, _VALUE = 8, 16, tuple.__basicsize__, 24, 16
_LETTERS = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128"}
_NUMBERS = {"d": ("float", "float64"), "f": ("float32",), "D": ("complex", "complex128"), "F": ("complex64",)}
PAIRED = 20  # pairs of arrays up to which each is compared in code of its own
OFTEN = 100_000  # times a text's lines are run in which about as much is lost by quickly made code as better code takes LLVM
FEW = 10  # calls that are not worth quickly made code
ARGUMENTS = 1000  # arrays and numbers that a call may have: each takes some stack

_SYMBOL, _WORD = re.compile(r"@[\w.]+"), re.compile(r"ptrtoint \(ptr (@[\w.]+) to i64\)")
_DECLARED = re.compile(r"^declare [^@\n]*@(vec\d+_\w+)\(", re.MULTILINE)


class Points(NamedTuple):
    """Arrays over points: their axis in each, inputs first, None where all points share it, and the most that a call has."""

    axes: list[int | None]
    most: int


class MethodDef(ctypes.Structure):
    """What Python keeps of a builtin."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Machine:
    """A compiled kernel and the function that Python calls; it hands out builtins over the same code."""

    def __init__(
        self,
        program: Program | Fused,
        kernel: str,
        effort: int,
        workspace: int = 0,
        apart: bool = False,
        result: Nested | None = None,
        passes: Passes = "all",
        grows: bool = False,
        work: float = math.inf,
        points: Points | None = None,
        called: Sequence[HeadCall] = (),
    ) -> None:
        """Compile the function "kernel" of the IR text `kernel`, which computes `program`; `effort` and `passes` as in `Code`.

        It takes pointers to the inputs and outputs, and one to memory of `workspace` bytes where that is not zero. `apart`:
        it reads inputs after it has begun to write, so that results which overlap arguments are declined. `result`: the
        places of the outputs in nested tuples, lists and dictionaries, where they are not in a single tuple. `grows`: it
        returns true where it found no more memory. `work`: about how many instructions a call takes; where they are few it
        is compiled with no effort at first, and again once it has been called often. Over `points` it takes their number,
        too. `called`: what it calls for heads; it returns true where that raises.
        """
        for key in keys_of(result):
            _keys.setdefault(key, sys.intern(key))
            add_machine_symbol(f"symdiff.key.{key}", id(_keys[key]))
        self.called = called
        self._objects = _named_heads(called)
        text = with_python_functions(
            f"{kernel}\n{_entry(program, workspace, apart, result, grows, points, bool(called))}\n{COUNTED}"
        )
        lines = text.count("\n")
        often = int(OFTEN * lines / max(work, lines)) if effort else 0
        first = 0 if often > FEW else effort
        for symbol in _DECLARED.findall(kernel):
            _elementary(symbol, first)
        self._code = self._better = Code(text, first, passes)
        if first != effort:
            self._again = functools.partial(_compile_again, weakref.ref(self), text, effort, passes)
            self._code.improve(often, self._again, len(text))
        self.vectorcall = self._code.address("call")  # also for objects with a way for what is `_declined`
        self._definition = MethodDef(program.name.encode(), self.vectorcall, _METH_FASTCALL_KEYWORDS, None)

    @property
    def running(self) -> bool:
        """Whether a call is inside the code."""
        return self._code.running

    def builtin(self, otherwise: Any = None) -> Any:
        """The builtin `name(*inputs, out=None)`; with `otherwise`, also `name(*inputs, *outputs)`.

        Other arguments than the kernel was compiled for go to the callable `otherwise`; without one the builtin returns
        `MISS`.
        """
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), (self, otherwise, MISS), None)


_heads = weakref.WeakValueDictionary[str, Any]()
_naming = threading.Lock()


def _named_heads(called: Iterable[HeadCall]) -> list[Any]:
    """The objects that machine code calls for heads, which have to live as long as it; LLVM knows them by their names then."""
    found = []
    with _naming:
        for call in called:
            function = _heads.get(call.name)
            if function is None:
                function = _heads[call.name] = call.function()
                add_machine_symbol(call.name, id(function))
                if (gufunc := call.gufunc) is not None:
                    function_at, data_at = gufunc_addresses(gufunc.name)
                    add_machine_symbol(gufunc.name, function_at)
                    if gufunc.data:
                        add_machine_symbol(gufunc.data, data_at)
            found.append(function)
    return found


def _compile_again(whose: "weakref.ref[Machine]", text: str, effort: int, passes: Passes) -> None:
    """Give a machine better code."""
    machine = whose()
    if machine is not None:
        for symbol in _DECLARED.findall(text):
            _elementary(symbol, effort)
        machine._better = Code(text, effort, passes)
        machine._code.become(machine._better)


@functools.cache
def _elementary(symbol: str, effort: int) -> Code:
    """The code of an elementary function of vectors, which the kernels that are compiled from now on call by its name."""
    from symdiff.codegen.llvm.functions import llvm_vector_functions

    texts, declared = llvm_vector_functions([symbol])
    text = "\n".join([*declared.values(), *texts])
    code = Code(re.sub(rf"define private ([^\n]*@{symbol}\()", r"define \1", text), effort, "none")
    add_machine_symbol(symbol, code.address(symbol))
    return code


def with_python_functions(text: str) -> str:
    """IR text with declarations of the functions of Python and NumPy that it calls; their addresses are known from now on."""
    name_addresses()
    used = set(_SYMBOL.findall(text))
    if f"@{TAKE}" in used:
        name_memory()
    return "\n".join([*(line for line in FUNCTIONS if _SYMBOL.findall(line)[0] in used), text])


_keys: dict[str, str] = {}  # which live as long as the process


def keys_of(result: Nested | None) -> list[str]:
    """The keys of dictionaries in a structure."""
    if not isinstance(result, (tuple, list, dict)):
        return []
    parts = result.values() if isinstance(result, dict) else result
    return [*(result if isinstance(result, dict) else ()), *(key for part in parts for key in keys_of(part))]


class Text:
    """IR under construction that works on Python objects. Addresses of what lies elsewhere are read from the table `known`:
    LLVM is slow with whole addresses as operands.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.known: dict[str, int] = {}  # symbols, and their places in the table

    def put(self, text: str) -> str:
        text = self._told(text)
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def run(self, *lines: str) -> None:
        """Instructions without a value, and labels."""
        for line in lines:
            text = self._told(line)
            self.lines.append(text if text.endswith(":") else f"  {text}")

    def _told(self, text: str) -> str:
        """An instruction with values in the place of symbols."""
        if "@" not in text:
            return text
        text = _WORD.sub(lambda found: self.address(found[1], "i64"), text)
        return _SYMBOL.sub(lambda found: self.address(found[0]), text)

    def address(self, symbol: str, kind: str = "ptr") -> str:
        """The address of what lies elsewhere."""
        return self.field("%known", 8 * self.known.setdefault(symbol, len(self.known)), kind)

    def field(self, pointer: str, offset: int, kind: str) -> str:
        """A field of an object."""
        place = self.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.put(f"load {kind}, ptr {place}")

    def require(self, condition: str, otherwise: str = "miss") -> None:
        """Go on where a condition holds."""
        self.count += 1
        self.run(f"br i1 {condition}, label %ok{self.count}, label %{otherwise}", f"ok{self.count}:")

    def require_equal(self, *pairs: tuple[str, str | int]) -> None:
        """Go on where the two i64 of each pair are equal: one branch for all, which is compiled faster than many."""
        apart = [self.put(f"xor i64 {a}, {b}") for a, b in pairs]
        self.require(self.put(f"icmp eq i64 {functools.reduce(lambda a, b: self.put(f'or i64 {a}, {b}'), apart)}, 0"))


def _array(t: Text, item: str, code: str, sizes: Sizes, writeable: bool) -> str:
    """The data of an array of exactly these sizes and this dtype, contiguous and aligned."""
    t.require_equal((t.field(item, _TYPE, "i64"), _whole("ndarray")))
    wanted = WRITTEN if writeable else READABLE
    flags = t.put(f"and i32 {t.field(item, FLAGS, 'i32')}, {wanted}")
    t.require_equal(
        (t.field(item, DESCR, "i64"), _whole(f"dtype_{_LETTERS[code]}")),
        (t.put(f"zext i32 {t.field(item, NDIM, 'i32')} to i64"), len(sizes)),
        (t.put(f"zext i32 {flags} to i64"), wanted),
    )
    if any(n != "" for n in sizes):
        found = t.field(item, SHAPE, "ptr")
        t.require_equal(*[(t.field(found, 8 * axis, "i64"), n) for axis, n in enumerate(sizes) if n != ""])
    return t.field(item, DATA, "ptr")


def _sizes(leaf: Leaf, axis: int | None, count: str) -> Sizes:
    """The sizes of an array over so many points."""
    points = [] if axis is None else [count]
    return [*points, *leaf.shape] if axis == 0 else [*leaf.shape, *points]


def _bytes(t: Text, leaf: Leaf, axis: int | None, count: str) -> int | str:
    size = bytes_of_code(leaf.dtype) * math.prod(leaf.shape)
    return size if axis is None else t.put(f"mul i64 {size}, {count}")


def _number(t: Text, item: str, leaf: Input) -> str:
    """The address of a Python or NumPy number's value."""
    found = t.field(item, _TYPE, "i64")
    tests = [t.put(f"icmp eq i64 {found}, {_whole(kind)}") for kind in _NUMBERS[leaf.dtype]]
    t.require(tests[0] if len(tests) == 1 else t.put(f"or i1 {tests[0]}, {tests[1]}"))
    return t.put(f"getelementptr i8, ptr {item}, i64 {_VALUE}")


def _argument(t: Text, place: int) -> str:
    return t.put(f"load ptr, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {place}')}")


def _entry(
    program: Program | Fused, workspace: int, apart: bool, result: Nested | None, grows: bool, points: Points | None,
    calls: bool,
) -> str:  # fmt: skip
    """The IR of the function that Python calls.

    Its blocks: arguments are checked; `listed` and `given` find the arrays for results, after the arguments or in `out`,
    `into` checks and fills them; `fresh` makes new ones; `miss` goes to the other callable. Only a bare kernel, a builtin
    that has another callable, finds results among its arguments: all others take them for arguments of the function.
    """
    t = Text()
    inputs, outputs = program.inputs, list[Leaf](program.outputs)
    n, several = len(inputs), len(outputs) > 1
    t.run("%nargs = and i64 %counted, 9223372036854775807")  # without the flag that a vectorcall may set
    bare = t.put(f"icmp eq i64 %nargs, {n}")
    full = t.put(f"icmp eq i64 %nargs, {n + len(outputs)}")
    t.require(t.put(f"or i1 {bare}, {full}"))
    axes = [None] * (n + len(outputs)) if points is None else points.axes
    taken: list[Memory] = []
    count = ""
    for item, leaf, axis in zip([_argument(t, place) for place in range(n)], inputs, axes, strict=False):
        if leaf.shape == () and axis is None:
            taken.append((_number(t, item, leaf), 0))
            continue
        pointer = _array(t, item, leaf.dtype, _sizes(leaf, axis, count), False)
        if axis is not None and not count:
            count = t.field(t.field(item, SHAPE, "ptr"), 0 if axis == 0 else 8 * len(leaf.shape), "i64")
        taken.append((pointer, _bytes(t, leaf, axis, count) if apart else 0))
    if points is not None:
        t.require(t.put(f"icmp sle i64 {count}, {points.most}"))
    unnamed = t.put("icmp eq ptr %names, null")
    t.run(f"br i1 {unnamed}, label %unnamed, label %named", "unnamed:", f"br i1 {bare}, label %fresh, label %listed")
    t.run("listed:")
    t.require_equal((t.field("%self", _TYPE, "i64"), _whole("tuple")))
    t.require(t.put(f"icmp ne ptr {t.field('%self', _ITEMS + 8, 'ptr')}, {machine_object_name('none')}"))
    listed = [_argument(t, n + k) for k in range(len(outputs))]
    none = t.address(machine_object_name("none")) if several else ""
    t.run("br label %sorted", "sorted:", "br label %into", "named:")
    t.require(bare)
    t.require_equal((t.field("%names", _SIZE, "i64"), 1), (t.field("%names", _ITEMS, "i64"), _whole("out")))
    out = _argument(t, n)
    missing = t.put(f"icmp eq ptr {out}, {machine_object_name('none')}")
    t.run(f"br i1 {missing}, label %fresh, label %keyword", "keyword:")
    shape = result or (tuple(range(len(outputs))) if several else 0)
    parts = _unpacked(t, out, shape)
    given = [parts[k] for k in range(len(outputs))]
    t.run("br label %given", "given:", "br label %into", "into:")
    filled = t.put(f"phi ptr [{none or listed[0]}, %sorted], [{out}, %given]")
    items = [t.put(f"phi ptr [{a}, %sorted], [{b}, %given]") for a, b in zip(listed, given, strict=True)]
    shapes = [_sizes(o, axis, count) for o, axis in zip(outputs, axes[n:], strict=True)]
    places = [_array(t, i, o.dtype, sizes, True) for i, o, sizes in zip(items, outputs, shapes, strict=True)]
    made = [(p, _bytes(t, o, axis, count)) for p, o, axis in zip(places, outputs, axes[n:], strict=True)]
    held = [own for own in taken if own[1]]
    many = len(made) * (len(made) - 1) // 2 + len(made) * len(held) > PAIRED
    if many:
        _require_all_apart(t, held, made)
    else:
        for k, memory in enumerate(made):
            for other in (*made[:k], *held):
                _require_apart(t, memory, other)
    checked = bool(machine_checks(program))
    ended = "miss" if checked else "memory" if grows else ""
    stopped = "stopped" if calls else ended
    pointers = [f"ptr {pointer}" for pointer, _ in taken]
    last = [f"i64 {count}"] if points is not None else []
    given_to = [*pointers, *(f"ptr {place}" for place in places), *last]
    _compute(t, given_to, workspace, "memory", stopped)
    t.run(f"call void @Py_IncRef(ptr {filled})", f"ret ptr {filled}", "fresh:")
    dropped = "dropped" if checked or calls else "exhausted" if grows else ""
    whole = _compute_fresh(t, pointers, outputs, shapes, last, workspace, shape, dropped)
    if checked or calls:
        t.run("dropped:", f"call void @Py_DecRef(ptr {whole})", f"br label %{stopped}")
    if calls:
        t.run("stopped:")
        raised = t.put(f"icmp ne ptr {t.put('call ptr @PyErr_Occurred()')}, null")
        t.run(f"br i1 {raised}, label %nothing, label %{ended}")
    t.run("miss:")
    bound = t.put(f"icmp eq i64 {t.field('%self', _TYPE, 'i64')}, {_whole('tuple')}")
    t.run(f"br i1 {bound}, label %builtin, label %object", "builtin:")
    otherwise = t.field("%self", _ITEMS + 8, "ptr")
    alone = t.put(f"icmp eq ptr {otherwise}, {machine_object_name('none')}")
    t.run(f"br i1 {alone}, label %declined, label %passed", "passed:")
    passed = t.put(f"call ptr @PyObject_Vectorcall(ptr {otherwise}, ptr %args, i64 %counted, ptr %names)")
    t.run(f"ret ptr {passed}", "declined:")
    declined = t.field("%self", _ITEMS + 16, "ptr")
    t.run(f"call void @Py_IncRef(ptr {declined})", f"ret ptr {declined}", "object:")
    method = t.put(f"call ptr @PyObject_GetAttr(ptr %self, ptr {machine_object_name('declined')})")
    t.require(t.put(f"icmp ne ptr {method}, null"), "nothing")
    found = t.put(f"call ptr @PyObject_Vectorcall(ptr {method}, ptr %args, i64 %nargs, ptr %names)")
    t.run(f"call void @Py_DecRef(ptr {method})", f"ret ptr {found}")
    # Optimised it takes LLVM five times as long, for no shorter calls.
    head = "define ptr @called(ptr %self, ptr %args, i64 %counted, ptr %names, ptr %known) noinline optnone nounwind {"
    return "\n".join([*_declarations(t, shapes), *([_APART] if many else []), head, *t.lines, "}"])


def machine_checks(program: Program | Fused) -> tuple[int, ...]:
    """The checks of a program."""
    return program.program.checks if isinstance(program, Fused) else program.checks


def _ends(t: Text, memory: Memory) -> tuple[str, str]:
    """The addresses where an array begins and ends."""
    start = t.put(f"ptrtoint ptr {memory[0]} to i64")
    return start, t.put(f"add i64 {start}, {memory[1]}")


def _require_apart(t: Text, *arrays: Memory) -> None:
    """Go on where two contiguous arrays share no memory."""
    (start, end), (other, last) = (_ends(t, memory) for memory in arrays)
    t.require(t.put(f"or i1 {t.put(f'icmp ule i64 {end}, {other}')}, {t.put(f'icmp ule i64 {last}, {start}')}"))


def _require_all_apart(t: Text, held: list[Memory], made: list[Memory]) -> None:
    """Go on where no array of `made` shares memory with another one, by a loop over pairs of them."""
    table = _table(t, [end for memory in (*held, *made) for end in _ends(t, memory)])
    t.require(t.put(f"call i1 @apart(ptr {table}, i64 {len(held)}, i64 {len(held) + len(made)})"))


def _table(t: Text, words: Sequence[int | str]) -> str:
    """Memory with some words."""
    table = t.put(f"alloca [{len(words)} x i64]")
    for k, word in enumerate(words):
        t.run(f"store i64 {word}, ptr {t.put(f'getelementptr i64, ptr {table}, i64 {k}')}")
    return table


_APART = """
define private i1 @apart(ptr %table, i64 %from, i64 %n) nounwind {
entry:
  br label %outer
outer:
  %k = phi i64 [%from, %entry], [%k1, %after]
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k, %n
  br i1 %more, label %first, label %apart
first:
  %at = getelementptr [2 x i64], ptr %table, i64 %k
  %start = load i64, ptr %at
  %endat = getelementptr i64, ptr %at, i64 1
  %end = load i64, ptr %endat
  br label %inner
inner:
  %j = phi i64 [0, %first], [%j1, %clear]
  %j1 = add i64 %j, 1
  %less = icmp slt i64 %j, %k
  br i1 %less, label %pair, label %after
pair:
  %bt = getelementptr [2 x i64], ptr %table, i64 %j
  %begin = load i64, ptr %bt
  %stopat = getelementptr i64, ptr %bt, i64 1
  %stop = load i64, ptr %stopat
  %before = icmp ule i64 %end, %begin
  %behind = icmp ule i64 %stop, %start
  %ok = or i1 %before, %behind
  br i1 %ok, label %clear, label %meet
clear:
  br label %inner
after:
  br label %outer
meet:
  ret i1 false
apart:
  ret i1 true
}
"""


def _compute(t: Text, called: list[str], workspace: int, failed: str, declined: str = "") -> None:
    """The kernel's call, between getting and giving back its workspace; without memory on to the block `failed`, where it
    returns true to the block `declined`, "" for a kernel that returns nothing.
    """
    memory = ""
    take, give = ("PyMem_RawMalloc", "PyMem_RawFree") if workspace < KEPT_FROM else (TAKE, GIVE)
    if workspace:
        memory = t.put(f"call ptr @{take}(i64 {workspace})")
        t.require(t.put(f"icmp ne ptr {memory}, null"), failed)
        called = [*called, f"ptr {memory}"]
    call = f"call {'i1' if declined else 'void'} @kernel({', '.join(called)})"
    holds = t.put(call) if declined else ""
    t.run(*([] if declined else [call]), *([f"call void @{give}(ptr {memory})"] if workspace else []))
    if declined:
        t.require(t.put(f"xor i1 {holds}, true"), declined)


def _unpacked(t: Text, item: str, shape: Nested) -> dict[int, str]:
    """The arrays in a structure."""
    if isinstance(shape, int):
        return {shape: item}
    t.require_equal((t.field(item, _TYPE, "i64"), _whole(type(shape).__name__)))
    t.require_equal((t.field(item, _SIZE, "i64"), len(shape)))
    found: dict[int, str] = {}
    for part, (base, at) in zip(_parts_of(shape), _places(t, item, shape), strict=True):
        if isinstance(at, int):
            inner = t.field(base, at, "ptr")
        else:
            inner = t.put(f"call ptr @PyDict_GetItemWithError(ptr {base}, ptr {_key(at)})")
            t.require(t.put(f"icmp ne ptr {inner}, null"))
        found |= _unpacked(t, inner, part)
    return found


def _parts_of(shape: Nested) -> list[Nested]:
    return [*shape.values()] if isinstance(shape, dict) else [*shape]  # type: ignore[misc]


def _places(t: Text, whole: str, shape: Nested) -> list[Place]:
    """Where the parts of a tuple, a list or a dictionary are."""
    if isinstance(shape, dict):
        return [(whole, key) for key in shape]
    base, first = (t.field(whole, _LISTED, "ptr"), 0) if isinstance(shape, list) else (whole, _ITEMS)
    return [(base, first + 8 * k) for k in range(len(shape))]  # type: ignore[arg-type]


_NEW = {tuple: "call ptr @PyTuple_New(i64 {0})", list: "call ptr @PyList_New(i64 {0})", dict: "call ptr @PyDict_New()"}


def _containers(t: Text, shape: Nested, failed: str) -> tuple[str, dict[int, Place]]:
    """A new tuple, list or dictionary with new ones in it, and where each output goes."""
    whole = t.put(_NEW[type(shape)].format(len(shape)))  # type: ignore[index, arg-type]
    t.require(t.put(f"icmp ne ptr {whole}, null"), failed)
    places: dict[int, Place] = {}
    for part, place in zip(_parts_of(shape), _places(t, whole, shape), strict=True):
        if isinstance(part, int):
            places[part] = place
            if isinstance(place[1], str):  # in its order
                _put_item(t, place, machine_object_name("none"), own=False)
        else:
            inner, own = _containers(t, part, "undo")
            _put_item(t, place, inner)
            places |= own
    return whole, places


def _compute_fresh(
    t: Text, pointers: list[str], outputs: Sequence[Leaf], shapes: list[Sizes], last: list[str], workspace: int, shape: Nested,
    declined: str,
) -> str:  # fmt: skip
    """Results in new arrays, which their structure holds from the start where there is one; the array or the structure."""
    whole, places = ("", {}) if isinstance(shape, int) else _containers(t, shape, "nothing")
    made: list[str] = []
    for k, output in enumerate(outputs):
        dtype = machine_object_name(f"dtype_{_LETTERS[output.dtype]}")
        t.run(f"call void @Py_IncRef(ptr {dtype})")
        sizes = f"@shape{k}" if _is_known(shapes[k]) else _table(t, shapes[k])
        made.append(t.put(f"call ptr @array_empty(i32 {len(shapes[k])}, ptr {sizes}, ptr {dtype}, i32 0)"))
        t.require(t.put(f"icmp ne ptr {made[-1]}, null"), "undo" if places else "nothing")
        if places:
            _put_item(t, places[k], made[-1])
    whole = whole or made[0]  # what is given back where memory runs out
    filled = [f"ptr {t.field(m, DATA, 'ptr')}" for m in made]
    _compute(t, [*pointers, *filled, *last], workspace, "exhausted", declined)
    found = whole
    for k, sizes_of in enumerate(shapes):
        if sizes_of:
            continue
        if places and isinstance(places[k][1], str):  # the dictionary has the array, too
            t.run(f"call void @Py_IncRef(ptr {made[k]})")
        number = t.put(f"call ptr @array_return(ptr {made[k]})")  # which takes the array over
        if not places:
            found = number
        elif isinstance(places[k][1], int):
            _put_item(t, places[k], number)
            t.require(t.put(f"icmp ne ptr {number}, null"), "undo")
        else:
            t.require(t.put(f"icmp ne ptr {number}, null"), "undo")
            _put_item(t, places[k], number)
    t.run(f"ret ptr {found}")
    t.run("memory:", "call ptr @PyErr_NoMemory()", "br label %nothing", "nothing:", "ret ptr null")
    t.run("exhausted:", "call ptr @PyErr_NoMemory()", "br label %undo")
    t.run("undo:", f"call void @Py_DecRef(ptr {whole})", "ret ptr null")
    return whole


def _put_item(t: Text, place: Place, item: str, own: bool = True) -> None:
    """Hand an object over to a container; `own`: this function's own reference."""
    base, at = place
    if isinstance(at, int):
        t.run(f"store ptr {item}, ptr {t.put(f'getelementptr i8, ptr {base}, i64 {at}')}")
        return
    kept = t.put(f"call i32 @PyDict_SetItem(ptr {base}, ptr {_key(at)}, ptr {item})")
    t.run(*([f"call void @Py_DecRef(ptr {item})"] if own else []))
    t.require(t.put(f"icmp eq i32 {kept}, 0"), "undo")


def _key(key: str) -> str:
    return machine_object_name(f"key.{key}")


def _is_known(sizes: Sizes) -> bool:
    return not any(isinstance(n, str) for n in sizes)


def _declarations(t: Text, shapes: list[Sizes]) -> list[str]:
    """The shapes of new arrays, and the table of what the code finds there."""
    known = {k: ", ".join(f"i64 {n}" for n in sizes) or "i64 0" for k, sizes in enumerate(shapes) if _is_known(sizes)}
    constants = [f"@shape{k} = private constant [{text.count(',') + 1} x i64] [{text}]" for k, text in known.items()]
    objects = [f"{symbol} = external global i8" for symbol in t.known if symbol.startswith("@symdiff.")]
    return [*constants, *objects, known_table(t.known)]


def known_table(symbols: Iterable[str]) -> str:
    """The addresses that a `COUNTED` function is given."""
    listed = [f"ptr {symbol}" for symbol in symbols]
    return f"@symdiff_known = private constant [{len(listed)} x ptr] [{', '.join(listed)}]"


def machine_object_name(name: str) -> str:
    """The name under which IR refers to an object of this process."""
    return f"@symdiff.{name}"


def _whole(name: str) -> str:
    """An object's address as an i64."""
    return f"ptrtoint (ptr {machine_object_name(name)} to i64)"


@functools.cache
def _objects() -> dict[str, Any]:
    """The objects that the code knows by their addresses; they live as long as the process."""
    dtypes = {f"dtype_{letter}": dtype_of_code(code) for code, letter in _LETTERS.items()}
    numbers = {"float": float, "complex": complex}
    numbers |= {kind.__name__: kind for kind in (np.float32, np.float64, np.complex64, np.complex128)}
    names = {"out": sys.intern("out"), "long_way": sys.intern("_long_way"), "declined": sys.intern("_declined")}
    return {
        "ndarray": np.ndarray,
        "tuple": tuple,
        "list": list,
        "dict": dict,
        "none": None,
        "miss": MISS,
        **names,
        **dtypes,
        **numbers,
    }


@functools.cache
def name_addresses() -> None:
    """Tell LLVM the addresses behind the names, so that compiled objects hold none and serve other processes."""
    for name, thing in _objects().items():
        add_machine_symbol(f"symdiff.{name}", id(thing))
    add_machine_symbol(ARRAY_TYPE, id(np.ndarray))
    add_machine_symbol("symdiff.traces", ctypes.addressof(TRACES))
    for line in FUNCTIONS:
        name = _SYMBOL.findall(line)[0].lstrip("@")
        if name in (TAKE, GIVE):
            continue
        slot = _ARRAY_FUNCTIONS.get(name)
        add_machine_symbol(name, python_api_address(name) if slot is None else numpy_api_address(slot))


def is_native(program: Program | Fused) -> bool:
    """Whether the builtin takes arguments and results of these dtypes, and so many."""
    return len(program.inputs) + len(program.outputs) <= ARGUMENTS and all(
        i.dtype in _LETTERS and i.dtype != "?" for i in program.inputs
    )

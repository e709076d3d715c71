"""A Python builtin over compiled code: it checks its arguments as the interpreter hands them over, and runs.

Assumes a kernel over pointers to contiguous inputs and outputs. Guarantees that arguments which are not exactly what the
kernel was compiled for are passed on or declined, that nothing is written then, and that the code lives as long as the
builtin.
Refuses nothing.
"""

import ctypes
import sys
from typing import Any

import numpy as np

from symdiff.codegen.native.engine import (
    ALIGNED,
    CONTIGUOUS,
    DATA,
    DESCR,
    FLAGS,
    NDIM,
    SHAPE,
    WRITEABLE,
    Code,
    array_function,
    python_function,
)
from symdiff.codegen.program import Input, Output, Program
from symdiff.codegen.source import MISS
from symdiff.ops import dtype_of, is_complex

_METH_FASTCALL_KEYWORDS = 0x0082
_PYARRAY_EMPTY, _PYARRAY_RETURN = 184, 76  # slots of NumPy's C interface
_NUMBERS = {
    "d": ((float, 16), (np.float64, 16)),
    "f": ((np.float32, 16),),
    "D": ((complex, 16), (np.complex128, 16)),
    "F": ((np.complex64, 16),),
}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Machine:
    """A compiled kernel and the function that Python calls; it hands out builtins over the same code."""

    def __init__(self, program: Program, kernel: str, effort: int) -> None:
        """Compile the function "kernel" of the IR text `kernel`, which computes `program`."""
        text, self._kept = _trampoline(program)
        self._code = Code(f"{kernel}\n{text}", effort)
        self.vectorcall = self._code.address("call")  # also for objects with a `_long_way`
        self._definition = _MethodDef(program.name.encode(), self.vectorcall, _METH_FASTCALL_KEYWORDS, None)

    def builtin(self, otherwise: Any = None) -> Any:
        """The builtin `name(*inputs, out=None)`, also `name(*inputs, *outputs)`.

        Other arguments than the kernel was compiled for go to the callable `otherwise`; without one the builtin returns
        `MISS`.
        """
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(ctypes.addressof(self._definition), (self, otherwise), None)


class _Text:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def put(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def field(self, pointer: str, offset: int, kind: str) -> str:
        """A field of an object."""
        place = self.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")
        return self.put(f"load {kind}, ptr {place}")

    def require(self, condition: str) -> None:
        """Decline unless a condition holds."""
        self.count += 1
        label = f"ok{self.count}"
        self.lines.append(f"  br i1 {condition}, label %{label}, label %miss")
        self.lines.append(f"{label}:")

    def same(self, kind: str, a: str, b: Any) -> str:
        return self.put(f"icmp eq {kind} {a}, {b}")


def _array(t: _Text, item: str, shape: tuple[int, ...], code: str, writeable: bool) -> str:
    """The data of an array of exactly this shape and dtype, contiguous and aligned."""
    t.require(t.same("i64", t.field(item, 8, "i64"), id(np.ndarray)))
    t.require(t.same("i64", t.field(item, DESCR, "i64"), id(dtype_of(code))))
    t.require(t.same("i32", t.field(item, NDIM, "i32"), len(shape)))
    wanted = CONTIGUOUS | ALIGNED | (WRITEABLE if writeable else 0)
    flags = t.put(f"and i32 {t.field(item, FLAGS, 'i32')}, {wanted}")
    t.require(t.same("i32", flags, wanted))
    if shape:
        sizes = t.field(item, SHAPE, "ptr")
        for axis, n in enumerate(shape):
            t.require(t.same("i64", t.field(sizes, 8 * axis, "i64"), n))
    return t.field(item, DATA, "ptr")


def _number(t: _Text, item: str, code: str) -> str:
    """The address of a Python or NumPy number's value."""
    kinds = _NUMBERS[code]
    found = t.field(item, 8, "i64")
    tests = [t.same("i64", found, id(kind)) for kind, _ in kinds]
    test = tests[0]
    for other in tests[1:]:
        test = t.put(f"or i1 {test}, {other}")
    t.require(test)
    return t.put(f"getelementptr i8, ptr {item}, i64 {kinds[0][1]}")


def _trampoline(program: Program) -> tuple[str, Any]:
    """The IR of the builtin's function, and what must live as long as it."""
    t = _Text()
    out_name, long_way = sys.intern("out"), sys.intern("_long_way")
    inputs: tuple[Input, ...] = program.inputs
    outputs: tuple[Output, ...] = program.outputs
    n, several = len(inputs), len(outputs) > 1
    t.lines.append("  %nargs = and i64 %flagged, 9223372036854775807")  # without vectorcall's flag
    bare = t.same("i64", "%nargs", n)
    full = t.same("i64", "%nargs", n + len(outputs))
    t.require(t.put(f"or i1 {bare}, {full}"))
    arguments = []
    for i in range(n):
        place = t.put(f"getelementptr ptr, ptr %args, i64 {i}")
        arguments.append(t.put(f"load ptr, ptr {place}"))
    pointers = [
        _number(t, item, leaf.dtype) if leaf.shape == () else _array(t, item, leaf.shape, leaf.dtype, False)
        for item, leaf in zip(arguments, inputs, strict=True)
    ]
    unnamed = t.put("icmp eq ptr %names, null")
    t.lines.append(f"  br i1 {unnamed}, label %unnamed, label %named")
    t.lines.append("unnamed:")
    t.lines.append(f"  br i1 {bare}, label %fresh, label %listed")
    t.lines.append("listed:")
    items = [t.put(f"load ptr, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {n + k}')}") for k in range(len(outputs))]
    t.lines += _into(t, pointers, items, outputs)
    none = f"inttoptr (i64 {id(None)} to ptr)"
    t.lines += (
        [f"  call void @Py_IncRef(ptr {none})", f"  ret ptr {none}"]
        if several
        else [f"  call void @Py_IncRef(ptr {items[0]})", f"  ret ptr {items[0]}"]
    )
    t.lines.append("named:")
    t.require(bare)
    t.require(t.same("i64", t.field("%names", 16, "i64"), 1))
    t.require(t.same("i64", t.field("%names", 24, "i64"), id(out_name)))
    place = t.put(f"getelementptr ptr, ptr %args, i64 {n}")
    out = t.put(f"load ptr, ptr {place}")
    missing = t.same("ptr", out, f"inttoptr (i64 {id(None)} to ptr)")
    t.lines.append(f"  br i1 {missing}, label %fresh, label %given")
    t.lines.append("given:")
    if several:
        t.require(t.same("i64", t.field(out, 8, "i64"), id(tuple)))
        t.require(t.same("i64", t.field(out, 16, "i64"), len(outputs)))
        items = [t.field(out, 24 + 8 * k, "ptr") for k in range(len(outputs))]
    else:
        items = [out]
    t.lines += _into(t, pointers, items, outputs)
    t.lines += [f"  call void @Py_IncRef(ptr {out})", f"  ret ptr {out}"]
    t.lines.append("fresh:")
    made: list[str] = []
    constants: list[str] = []
    for k, output in enumerate(outputs):
        sizes = ", ".join(f"i64 {size}" for size in output.shape) or "i64 0"
        constants.append(f"@shape{k} = private constant [{max(len(output.shape), 1)} x i64] [{sizes}]")
        descr = f"inttoptr (i64 {id(dtype_of(output.dtype))} to ptr)"
        t.lines.append(f"  call void @Py_IncRef(ptr {descr})")
        made.append(t.put(f"call ptr @array_empty(i32 {len(output.shape)}, ptr @shape{k}, ptr {descr}, i32 0)"))
        bad = t.put(f"icmp eq ptr {made[-1]}, null")
        t.count += 1
        t.lines.append(f"  br i1 {bad}, label %failed{k}, label %made{t.count}")
        t.lines.append(f"failed{k}:")
        t.lines += [f"  call void @Py_DecRef(ptr {m})" for m in made[:-1]]
        t.lines += ["  ret ptr null", f"made{t.count}:"]
    places = [t.field(m, DATA, "ptr") for m in made]
    called = ", ".join(f"ptr {p}" for p in [*pointers, *places])
    t.lines.append(f"  call void @kernel({called})")
    results = [m if o.shape else t.put(f"call ptr @array_return(ptr {m})") for m, o in zip(made, outputs, strict=True)]
    if several:
        whole = t.put(f"call ptr @PyTuple_New(i64 {len(outputs)})")
        for k, item in enumerate(results):
            place = t.put(f"getelementptr i8, ptr {whole}, i64 {24 + 8 * k}")
            t.lines.append(f"  store ptr {item}, ptr {place}")
        t.lines.append(f"  ret ptr {whole}")
    else:
        t.lines.append(f"  ret ptr {results[0]}")
    miss = f"inttoptr (i64 {id(MISS)} to ptr)"
    t.lines.append("miss:")
    bound = t.same("i64", t.field("%self", 8, "i64"), id(tuple))
    t.lines += [f"  br i1 {bound}, label %builtin, label %object", "builtin:"]
    otherwise = t.field("%self", 24 + 8, "ptr")  # the second item of the tuple that the builtin is bound to
    alone = t.same("ptr", otherwise, f"inttoptr (i64 {id(None)} to ptr)")
    t.lines += [f"  br i1 {alone}, label %declined, label %passed", "passed:"]
    passed = t.put(f"call ptr @PyObject_Vectorcall(ptr {otherwise}, ptr %args, i64 %nargs, ptr %names)")
    t.lines += [f"  ret ptr {passed}", "declined:", f"  call void @Py_IncRef(ptr {miss})", f"  ret ptr {miss}", "object:"]
    method = t.put(f"call ptr @PyObject_GetAttr(ptr %self, ptr inttoptr (i64 {id(long_way)} to ptr))")
    bad = t.same("ptr", method, "null")
    t.lines += [f"  br i1 {bad}, label %unbound, label %bound", "unbound:", "  ret ptr null", "bound:"]
    found = t.put(f"call ptr @PyObject_Vectorcall(ptr {method}, ptr %args, i64 %nargs, ptr %names)")
    t.lines += [f"  call void @Py_DecRef(ptr {method})", f"  ret ptr {found}"]
    addresses = {
        "Py_IncRef": ("void", "ptr", python_function("Py_IncRef")),
        "Py_DecRef": ("void", "ptr", python_function("Py_DecRef")),
        "PyTuple_New": ("ptr", "i64", python_function("PyTuple_New")),
        "PyObject_GetAttr": ("ptr", "ptr, ptr", python_function("PyObject_GetAttr")),
        "PyObject_Vectorcall": ("ptr", "ptr, ptr, i64, ptr", python_function("PyObject_Vectorcall")),
        "array_empty": ("ptr", "i32, ptr, ptr, i32", array_function(_PYARRAY_EMPTY)),
        "array_return": ("ptr", "ptr", array_function(_PYARRAY_RETURN)),
    }
    shims = [_shim(name, *parts) for name, parts in addresses.items()]
    head = "define ptr @call(ptr %self, ptr %args, i64 %flagged, ptr %names) {\nentry:"
    text = "\n".join([*constants, *shims, head, *t.lines, "}"])
    kept = (out_name, long_way, MISS, [dtype_of(i.dtype) for i in inputs], [dtype_of(o.dtype) for o in outputs])
    return text, kept


def _into(t: _Text, pointers: list[str], items: list[str], outputs: tuple[Output, ...]) -> list[str]:
    """The kernel's call with given outputs, after their checks."""
    given = [_array(t, item, o.shape, o.dtype, True) for item, o in zip(items, outputs, strict=True)]
    called = ", ".join(f"ptr {p}" for p in [*pointers, *given])
    return [f"  call void @kernel({called})"]


def _shim(name: str, result: str, kinds: str, address: int) -> str:
    """A function of another library under a name of ours."""
    named = ", ".join(f"{kind.strip()} %a{k}" for k, kind in enumerate(kinds.split(",")))
    pointer = f"inttoptr (i64 {address} to ptr)"
    if result == "void":
        return f"define private void @{name}({named}) alwaysinline {{\n  call void {pointer}({named})\n  ret void\n}}"
    body = f"  %r = call {result} {pointer}({named})\n  ret {result} %r"
    return f"define private {result} @{name}({named}) alwaysinline {{\n{body}\n}}"


def is_native(program: Program) -> bool:
    """Whether all arguments and results are of dtypes that the builtin takes."""
    return all(o.dtype in "dfDF?" for o in program.outputs) and all(
        i.dtype in _NUMBERS and not (is_complex(i.dtype) and i.dtype == "F" and i.shape == ()) for i in program.inputs
    )

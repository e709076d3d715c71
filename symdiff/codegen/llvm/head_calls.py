"""Calls from machine code of what has no formula for a cell: decompositions, solutions, transforms, the user's own operations.

Each is a loop of NumPy's, where it has one that takes such arrays, and where there is none, or that finds an invalid operation,
a Python object by NumPy's function for the head, which is given arrays over memory of the machine code: the result's first.
Assumes contiguous, aligned memory that does not overlap. Guarantees NumPy's numbers and errors: the function returns true where
an exception is set, with the interpreter's lock as it was.
"""

import functools
import hashlib
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symdiff.codegen.llvm.scalar import emitted_constant
from symdiff.codegen.math.lines import TYPES
from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.vocabulary.heads import HEADS, Shape
from symdiff.vocabulary.numpy_kernels import Gufunc, numpy_gufunc
from symdiff.vocabulary.ops import dtype_of_code

PREFIX, ARRAY_TYPE = "symdiff.head.", "symdiff.array_type"  # the names of the objects
_INVALID = 1  # the flag of invalid operations, FE_INVALID of C, on all processors that there is machine code for
_PLAIN = int, float, str, tuple, type(None)  # what is the same in other processes
_READ, _WRITTEN = 0x101, 0x501  # NumPy's flags of arrays in C order, aligned, that may be read, and written


@dataclass(frozen=True)
class HeadCall:
    """A head on operands, with the shapes and dtypes of its result and of these."""

    head: str
    params: dict[str, Any] | None
    arrays: tuple[tuple[Shape, str], ...]

    @functools.cached_property
    def name(self) -> str:
        """The name of the object that is called."""
        known = [(k, v if isinstance(v, _PLAIN) else (v.shape, v.tobytes()) if isinstance(v, np.ndarray) else id(v))
                 for k, v in (self.params or {}).items()]  # fmt: skip
        key = repr((self.head, known, self.arrays))
        return PREFIX + hashlib.sha256(key.encode()).hexdigest()[:24]

    @property
    def symbol(self) -> str:
        """The name of the function that calls it."""
        return f"call.{self.name}"

    @functools.cached_property
    def gufunc(self) -> Gufunc | None:
        """NumPy's loop for it."""
        return numpy_gufunc(self.head, self.arrays[0], [*self.arrays[1:]], (self.params or {}).get("axis"))

    @property
    def own(self) -> list[tuple[Shape, str]]:
        """The arrays besides result and operands that it is given."""
        operands = () if self.gufunc is None else self.gufunc.operands
        return [(o.shape, o.code) for o in operands if o.given is None and o.start is None and o.number is None]

    def function(self) -> Callable[..., None]:
        """The object that is called."""
        compute, params = HEADS[self.head].function, self.params or {}

        def called(result: Any, *operands: Any) -> None:
            with np.errstate(all="ignore"):
                result[...] = compute(*(a if a.shape else a[()] for a in operands), **params)

        return called


def head_call(program: Program, node: Node) -> HeadCall:
    """What a node calls."""
    arrays = [node, *(program.nodes[o] for o in node.operands)]
    return HeadCall(node.op, node.params, tuple((a.shape, a.dtype) for a in arrays))


def head_function(call: HeadCall) -> list[str]:
    """The IR of a function over pointers to the result, the operands, and arrays of its own."""
    count, symbol = len(call.arrays), call.symbol
    outside, inside = ([], ["  br label %object"]) if call.gufunc is None else _loop(call.gufunc, symbol, count)
    lines = [
        f"@{call.name} = external global i8",
        f"@{symbol}.known = private constant [2 x ptr] [ptr @{call.name}, ptr @{ARRAY_TYPE}]",
        *(_words(f"{symbol}.shape{k}", shape) for k, (shape, _) in enumerate(call.arrays)), *outside,
        f"define private i1 @{symbol}({', '.join(f'ptr %a{k}' for k in range(count + len(call.own)))}) noinline nounwind {{",
        "entry:", *inside, "object:", "  %state = call i32 @PyGILState_Ensure()",
        f"  %callee = load ptr, ptr @{symbol}.known", f"  %typeat = getelementptr ptr, ptr @{symbol}.known, i64 1",
        "  %type = load ptr, ptr %typeat", f"  %given = alloca [{count} x ptr]",
    ]  # fmt: skip
    there = "true"
    for k, (shape, code) in enumerate(call.arrays):
        kind, flags = dtype_of_code(code).num, _READ if k else _WRITTEN
        made = f"i32 {len(shape)}, ptr @{symbol}.shape{k}, i32 {kind}, ptr null, ptr %a{k}, i32 0, i32 {flags}, ptr null"
        lines += [
            f"  %array{k} = call ptr @array_new(ptr %type, {made})", f"  %at{k} = getelementptr ptr, ptr %given, i64 {k}",
            f"  store ptr %array{k}, ptr %at{k}", f"  %made{k} = icmp ne ptr %array{k}, null",
            f"  %there{k} = and i1 {there}, %made{k}",
        ]  # fmt: skip
        there = f"%there{k}"
    lines += [
        f"  br i1 {there}, label %all, label %end", "all:",
        f"  %called = call ptr @PyObject_Vectorcall(ptr %callee, ptr %given, i64 {count}, ptr null)", "  br label %end", "end:",
        "  %found = phi ptr [null, %object], [%called, %all]", "  %failed = icmp eq ptr %found, null",
        *(f"  call void @Py_DecRef(ptr %array{k})" for k in range(count)), "  call void @Py_DecRef(ptr %found)",
        "  call void @PyGILState_Release(i32 %state)", "  ret i1 %failed", "}",
    ]  # fmt: skip
    return lines


def _words(name: str, words: Sequence[int]) -> str:
    """Whole numbers in memory."""
    return emitted_constant(f"@{name}", np.array(words, np.int64))


def _loop(gufunc: Gufunc, symbol: str, count: int) -> tuple[list[str], list[str]]:
    """The IR of a call of NumPy's loop, from which the function returns where no operation was invalid: what stands outside,
    and inside. The first `count` pointers are those of result and operands.
    """
    outside = [_words(f"{symbol}.sizes", gufunc.sizes), _words(f"{symbol}.steps", gufunc.steps)]
    outside += [f"@{symbol}.data = private constant ptr @{gufunc.data}"] * bool(gufunc.data)
    inside = [f"  %loop = alloca [{len(gufunc.operands)} x ptr]"]
    own = itertools.count(count)
    for k, operand in enumerate(gufunc.operands):
        if operand.given is not None:
            pointer = f"%a{operand.given + 1}"
        elif operand.start is not None:
            pointer = f"%part{k}"
            inside.append(f"  {pointer} = getelementptr i8, ptr %a0, i64 {operand.start}")
        elif operand.number is not None:
            pointer = f"@{symbol}.number{k}"
            outside.append(f"{pointer} = private constant {TYPES[operand.code]} {operand.number}")
        else:
            pointer = f"%a{next(own)}"
        inside += [f"  %loop{k} = getelementptr ptr, ptr %loop, i64 {k}", f"  store ptr {pointer}, ptr %loop{k}"]
    inside += [f"  %data = load ptr, ptr @{symbol}.data"] * bool(gufunc.data)
    data = "%data" if gufunc.data else "null"
    inside += [
        f"  call i32 @feclearexcept(i32 {_INVALID})",
        f"  call void @{gufunc.name}(ptr %loop, ptr @{symbol}.sizes, ptr @{symbol}.steps, ptr {data})",
        f"  %flags = call i32 @fetestexcept(i32 {_INVALID})", "  %valid = icmp eq i32 %flags, 0",
        "  br i1 %valid, label %done, label %object", "done:", "  ret i1 false",
    ]  # fmt: skip
    return outside, inside


def declared_loops(calls: Iterable[HeadCall]) -> list[str]:
    """The declarations of all that is called."""
    found = [gufunc for call in calls if (gufunc := call.gufunc) is not None]
    data = {f"@{gufunc.data} = external global i8" for gufunc in found if gufunc.data}
    functions = {f"declare void @{gufunc.name}(ptr, ptr, ptr, ptr)" for gufunc in found}
    flags = [f"declare i32 @{name}(i32)" for name in ("feclearexcept", "fetestexcept") if found]
    return [f"@{ARRAY_TYPE} = external global i8", *flags, *sorted(data | functions)]

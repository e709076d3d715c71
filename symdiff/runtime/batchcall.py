"""Calls of an object over points straight to a batch kernel: what Python does for a call costs more than some hundred points.

Assumes an object with vectorcall and a `_long_way`, a kernel over contiguous arrays. Guarantees that other arguments than
those, large batches and outputs that overlap an input go the long way, with nothing written; that other threads run while
the kernel takes longer than a switch between them. Numbers that all points share go the long way.
"""

import math
import sys
from typing import Any

import numpy as np

from symdiff.lowering.program import Program
from symdiff.runtime.engine import (
    COUNTED,
    DATA,
    DESCR,
    FLAGS,
    NDIM,
    SHAPE,
    Code,
    numpy_api_address,
    python_api_address,
)
from symdiff.runtime.fastcall import Text, known_table, with_python_functions
from symdiff.vocabulary.ops import dtype_of_code
from symdiff.vocabulary.plain import READABLE, WRITTEN

_TYPE, _SIZE, _ITEMS = 8, 16, tuple.__basicsize__  # offsets in objects: the type; a tuple's length and items
_PYARRAY_EMPTY = 184  # slot of NumPy's C interface
_SWITCHED = 10_000  # nanoseconds of work from which on other threads may run


class BatchCall:
    """The function `vectorcall(object, args, nargs, names)` over a kernel; both live as long as this."""

    def __init__(self, program: Program, axes: list[int | None], kernel: Any, most: int, cost: float) -> None:
        """`kernel.address` is that of a function of `llvm_batch`; batches of more points than `most` go the long way."""
        self.program = program
        self.leaves = program.leaves
        self.axes = axes
        self.kernel = kernel
        self.most = most
        self.switched = int(_SWITCHED / cost)
        self.names = (sys.intern("out"), sys.intern("_long_way"))
        self.dtypes = [dtype_of_code(leaf.dtype) for leaf in self.leaves]
        self._code = Code(with_python_functions(self.text()), 1, "none")
        self.vectorcall = self._code.address("call")

    @property
    def running(self) -> bool:
        """Whether a call is inside the code."""
        return self._code.running

    def text(self) -> str:
        """The IR. Its blocks: arguments are checked; `given` checks the arrays for results, `fresh` makes them; `miss`."""
        t = Text()
        inputs, several = len(self.program.inputs), len(self.program.outputs) > 1
        t.lines.append("  %nargs = and i64 %flagged, 9223372036854775807")  # without vectorcall's flag
        t.require(t.put(f"icmp eq i64 %nargs, {inputs}"))
        items = [self._argument(t, k) for k in range(inputs)]
        count = ""
        for k, item in enumerate(items):
            count = self._checked(t, item, k, count)
        t.require(t.put(f"icmp sle i64 {count}, {self.most}"))
        sizes = [self._bytes(t, k, count) for k in range(len(self.leaves))]
        places = [t.field(item, DATA, "ptr") for item in items]
        unnamed = t.put("icmp eq ptr %names, null")
        t.lines += [f"  br i1 {unnamed}, label %fresh, label %named", "named:"]
        t.require(t.put(f"icmp eq i64 {t.field('%names', _SIZE, 'i64')}, 1"))
        t.require(t.put(f"icmp eq i64 {t.field('%names', _ITEMS, 'i64')}, {id(self.names[0])}"))
        out = self._argument(t, inputs)
        missing = t.put(f"icmp eq ptr {out}, {_pointer(id(None))}")
        t.lines += [f"  br i1 {missing}, label %fresh, label %given", "given:"]
        targets = [out]
        if several:
            t.require(t.put(f"icmp eq i64 {t.field(out, _TYPE, 'i64')}, {id(tuple)}"))
            t.require(t.put(f"icmp eq i64 {t.field(out, _SIZE, 'i64')}, {len(self.program.outputs)}"))
            targets = [t.field(out, _ITEMS + 8 * k, "ptr") for k in range(len(self.program.outputs))]
        for k, target in enumerate(targets):
            self._checked(t, target, inputs + k, count)
        results = [t.field(target, DATA, "ptr") for target in targets]
        for k, result in enumerate(results):
            for j, place in enumerate([*places, *results[:k]]):
                self._apart(t, result, sizes[inputs + k], place, sizes[j])
        t.lines += [f"  call void @run({_listed([*places, *results])}, i64 {count})", *_returned(out), "fresh:"]
        self._fresh(t, places, count)
        t.lines.append("miss:")
        method = t.put(f"call ptr {_python('PyObject_GetAttr')}(ptr %self, ptr {_pointer(id(self.names[1]))})")
        t.lines += [f"  %lost = icmp eq ptr {method}, null", "  br i1 %lost, label %unbound, label %bound"]
        t.lines += ["unbound:", "  ret ptr null", "bound:"]
        found = t.put(f"call ptr {_python('PyObject_Vectorcall')}(ptr {method}, ptr %args, i64 %nargs, ptr %names)")
        t.lines += [f"  call void {_python('Py_DecRef')}(ptr {method})", f"  ret ptr {found}"]
        head = "define ptr @called(ptr %self, ptr %args, i64 %flagged, ptr %names, ptr %known) nounwind {\nentry:"
        return "\n".join([known_table(t.known), self._run(), head, *t.lines, "}", COUNTED])

    def _argument(self, t: Text, place: int) -> str:
        return t.put(f"load ptr, ptr {t.put(f'getelementptr ptr, ptr %args, i64 {place}')}")

    def _checked(self, t: Text, item: str, k: int, count: str) -> str:
        """Go on with a contiguous array of the k-th dtype and shape over `count` points, any number where that is ""."""
        leaf, axis = self.leaves[k], self.axes[k]
        t.require(t.put(f"icmp eq i64 {t.field(item, _TYPE, 'i64')}, {id(np.ndarray)}"))
        t.require(t.put(f"icmp eq i64 {t.field(item, DESCR, 'i64')}, {id(self.dtypes[k])}"))
        rank = len(leaf.shape) + (axis is not None)
        t.require(t.put(f"icmp eq i32 {t.field(item, NDIM, 'i32')}, {rank}"))
        wanted = WRITTEN if k >= len(self.program.inputs) else READABLE
        flags = t.put(f"and i32 {t.field(item, FLAGS, 'i32')}, {wanted}")
        t.require(t.put(f"icmp eq i32 {flags}, {wanted}"))
        shape = t.field(item, SHAPE, "ptr")
        for place, size in enumerate(leaf.shape):
            found = t.field(shape, 8 * (place + (axis == 0)), "i64")
            t.require(t.put(f"icmp eq i64 {found}, {size}"))
        if axis is not None:
            found = t.field(shape, 0 if axis == 0 else 8 * len(leaf.shape), "i64")
            if not count:
                return found
            t.require(t.put(f"icmp eq i64 {found}, {count}"))
        return count

    def _bytes(self, t: Text, k: int, count: str) -> str:
        size = math.prod(self.leaves[k].shape) * self.dtypes[k].itemsize
        return t.put(f"mul i64 {size}, {count if self.axes[k] is not None else 1}")

    def _apart(self, t: Text, first: str, size: str, second: str, other: str) -> None:
        """Go on where two pieces of memory have nothing in common."""
        ends = [t.put(f"getelementptr i8, ptr {place}, i64 {n}") for place, n in ((first, size), (second, other))]
        before, after = t.put(f"icmp ule ptr {ends[0]}, {second}"), t.put(f"icmp ule ptr {ends[1]}, {first}")
        t.require(t.put(f"or i1 {before}, {after}"))

    def _fresh(self, t: Text, places: list[str], count: str) -> None:
        """New arrays, filled and returned."""
        made: list[str] = []
        for k in range(len(self.program.inputs), len(self.leaves)):
            sizes = [str(size) for size in self.leaves[k].shape]
            sizes.insert(0 if self.axes[k] == 0 else len(sizes), count)
            shape = t.put(f"alloca [{len(sizes)} x i64]")
            for axis, size in enumerate(sizes):
                t.lines.append(f"  store i64 {size}, ptr {t.put(f'getelementptr i64, ptr {shape}, i64 {axis}')}")
            dtype = _pointer(id(self.dtypes[k]))
            t.lines.append(f"  call void {_python('Py_IncRef')}(ptr {dtype})")
            empty = _pointer(numpy_api_address(_PYARRAY_EMPTY))
            made.append(t.put(f"call ptr {empty}(i32 {len(sizes)}, ptr {shape}, ptr {dtype}, i32 0)"))
            t.lines.append(f"  %bad{k} = icmp eq ptr {made[-1]}, null")
            t.lines += [f"  br i1 %bad{k}, label %failed{k}, label %made{k}", f"failed{k}:"]
            t.lines += [f"  call void {_python('Py_DecRef')}(ptr {m})" for m in made[:-1]]
            t.lines += ["  ret ptr null", f"made{k}:"]
        results = [t.field(m, DATA, "ptr") for m in made]
        t.lines.append(f"  call void @run({_listed([*places, *results])}, i64 {count})")
        if len(made) == 1:
            t.lines.append(f"  ret ptr {made[0]}")
            return
        whole = t.put(f"call ptr {_python('PyTuple_New')}(i64 {len(made)})")
        t.lines += [f"  %full = icmp ne ptr {whole}, null", "  br i1 %full, label %filled, label %unfilled", "unfilled:"]
        t.lines += [f"  call void {_python('Py_DecRef')}(ptr {m})" for m in made]
        t.lines += ["  ret ptr null", "filled:"]
        for k, m in enumerate(made):
            t.lines.append(f"  store ptr {m}, ptr {t.put(f'getelementptr i8, ptr {whole}, i64 {_ITEMS + 8 * k}')}")
        t.lines.append(f"  ret ptr {whole}")

    def _run(self) -> str:
        """`run(addresses, count)`: the kernel's call, steps packed; without Python's lock where it takes longer."""
        t = Text()
        axes = sum(len(leaf.shape) for leaf in self.leaves)
        data, steps = t.put(f"alloca [{len(self.leaves)} x ptr]"), t.put(f"alloca [{len(self.leaves) + axes} x i64]")
        points, cores = [], []
        for k, (leaf, axis) in enumerate(zip(self.leaves, self.axes, strict=True)):
            t.lines.append(f"  store ptr %a{k}, ptr {t.put(f'getelementptr ptr, ptr {data}, i64 {k}')}")
            item = self.dtypes[k].itemsize
            cells = math.prod(leaf.shape)
            points.append("0" if axis is None else str(item if axis == -1 else item * cells))
            for place in range(len(leaf.shape)):
                step = item * math.prod(leaf.shape[place + 1 :])
                cores.append(t.put(f"mul i64 %count, {step}") if axis == -1 else str(step))
        for k, every in enumerate([*points, *cores]):
            t.lines.append(f"  store i64 {every}, ptr {t.put(f'getelementptr i64, ptr {steps}, i64 {k}')}")
        long = t.put(f"icmp sgt i64 %count, {self.switched}")
        call = f"  call void {_pointer(self.kernel.address)}(ptr {data}, ptr {steps}, i64 0, i64 %count)"
        t.lines += [f"  br i1 {long}, label %long, label %short", "short:", call, "  ret void", "long:"]
        state = t.put(f"call ptr {_python('PyEval_SaveThread')}()")
        t.lines += [call, f"  call void {_python('PyEval_RestoreThread')}(ptr {state})", "  ret void"]
        parameters = ", ".join(f"ptr %a{k}" for k in range(len(self.leaves)))
        return "\n".join([f"define private void @run({parameters}, i64 %count) {{", "entry:", *t.lines, "}"])


def _pointer(address: int) -> str:
    return f"inttoptr (i64 {address} to ptr)"


def _python(name: str) -> str:
    return _pointer(python_api_address(name))


def _listed(places: list[str]) -> str:
    return ", ".join(f"ptr {place}" for place in places)


def _returned(item: str) -> list[str]:
    return [f"  call void {_python('Py_IncRef')}(ptr {item})", f"  ret ptr {item}"]

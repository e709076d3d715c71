"""A batch kernel as machine code: many points in one call, in vectors of the widest unit the machine has.

Assumes arrays of the Program's dtypes. Guarantees right results for any strides and overlaps, the same for any number of
threads, outputs that own their memory, and that other threads run meanwhile. `batch_problem` tells beforehand of programs that
have no such kernel.
"""

import ctypes
import functools
import math
import platform
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.codegen.llvm.batch import BatchModule, Layout
from symdiff.codegen.llvm.point_nests import looped_points_module
from symdiff.codegen.llvm.scalar import LINE, lacking_in_llvm
from symdiff.codegen.math.lines import lanes_of
from symdiff.ir.node import has_loops
from symdiff.lowering.program import Input, Output, Program
from symdiff.lowering.walks import nodes_with_bodies
from symdiff.runtime import pool
from symdiff.runtime.batchcall import BatchCall
from symdiff.runtime.engine import LARGEST, Code, machine_fuses, machine_lanes
from symdiff.runtime.fastcall import Points
from symdiff.runtime.memory import last_cache
from symdiff.vocabulary.ops import OPS, bytes_of_code, dtype_of_code, is_complex
from symdiff.vocabulary.traits import operations

# What costs more as scalar calls of libm, where there are no vectors of our own, than in NumPy's vectors.
_IN_VECTORS = operations("numpy_vectors")
_GRAIN = 1024  # points that a thread takes at least, and a multiple of all blocks and vectors
_WORTH = 500_000  # nanoseconds of work that a thread is worth: handing it over takes some 30_000
_ROUNDS = 20  # that a loop is thought to have which counts them
_LAYOUTS = 16  # combinations of layouts that get code of their own; all others share one


_KINDS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t)


class _Kernel:
    """Compiled code, and its function `kernel` as something to call."""

    def __init__(self, text: str, effort: int) -> None:
        self._code = Code(text, effort)
        self.address = self._code.address("kernel")
        self.function: Callable[..., Any] = ctypes.CFUNCTYPE(None, *_KINDS)(self.address)


class _LoopedKernel(_Kernel):
    """The same of a program with loops, whose function tells whether it found no more memory."""

    def __init__(self, text: str, effort: int) -> None:
        super().__init__(text, effort)
        function = ctypes.CFUNCTYPE(ctypes.c_bool, *_KINDS)(self.address)

        def checked(*given: Any) -> None:
            if function(*given):
                raise MemoryError("a loop over many points found no more memory")

        self.function = checked


class NativeBatch:
    """The function `kernel(*arrays, out=None)` of a Program over points. `threads`: how many, None for what pays."""

    def __init__(
        self, program: Program, in_axes: tuple[int | None, ...], out_axes: tuple[int, ...], threads: int | None = None
    ) -> None:
        self.program = program
        self.in_axes = in_axes
        self.out_axes = out_axes
        self.threads = threads
        self.leaves = program.leaves
        self.axes = [*in_axes, *out_axes]
        self._looped = has_loops(program.nodes)
        self._cost = _cost(program)
        self._compiled: dict[tuple[Layout, ...], _Kernel] = {}
        self._kernel(tuple((_usual_layout(*k), 0) for k in zip(self.leaves, self.axes, strict=True)))

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Results at all points, in `out` where it is given."""
        several = len(self.program.outputs) > 1
        arrays = [a if a.flags.aligned else a.copy() for a in args]
        count = next(a.shape[axis] for a, axis in zip(args, self.in_axes, strict=True) if axis is not None)
        given = None if out is None else (list(out) if several else [out])
        direct = given is not None and not any(_collides(g, arrays) for g in given)
        targets = given if direct and given is not None else [self._made(k, count) for k in range(len(self.program.outputs))]
        self._run([*arrays, *targets], count)
        if given is not None and not direct:
            for target, value in zip(given, targets, strict=True):
                target[...] = value
        if out is not None:
            return out
        return tuple(targets) if several else targets[0]

    def call(self) -> BatchCall | None:
        """The way for calls with few points, contiguous; None where there are loops."""
        if self._looped:
            return None
        layouts = tuple((_usual_layout(*k), 0) for k in zip(self.leaves, self.axes, strict=True))
        kernel = self._kernel(layouts)
        point = sum(bytes_of_code(leaf.dtype) * math.prod(leaf.shape) for leaf in self.leaves)
        alone = 2 * _WORTH / self._cost if self.threads is None else math.inf if self.threads == 1 else _GRAIN
        most = int(min(alone, last_cache() / max(point, 1)))
        return BatchCall(self.program, Points(self.axes, most), kernel, self._cost)

    def _run(self, arrays: list[np.ndarray], count: int) -> None:
        layouts = [(_layout(*k), 0) for k in zip(arrays, self.leaves, self.axes, strict=True)]
        head = 0
        if sum(a.nbytes for a in arrays) > last_cache() and not self._looped:
            head = min(self._stream(arrays, layouts), count)
        function = self._kernel(tuple(layouts)).function
        points: list[int] = []
        cores: list[int] = []
        for array, axis in zip(arrays, self.axes, strict=True):
            points.append(0 if axis is None else array.strides[axis])
            cores += array.strides if axis is None else _core(array, axis)
        steps = (ctypes.c_ssize_t * (len(points) + len(cores)))(*points, *cores)
        data = (ctypes.c_void_p * len(arrays))(*map(_address, arrays))
        parts = pool.split(head, count, self._threads(count), _GRAIN)
        for point in range(head):  # fewer than fill a vector, so that nothing is stored as one
            function(data, steps, point, point + 1)
        if len(parts) == 1:
            function(data, steps, head, count)
        else:
            pool.run_in_threads(functools.partial(function, data, steps), parts)

    def _stream(self, arrays: list[np.ndarray], layouts: list[Layout]) -> int:
        """Mark the outputs that can be written past the caches; how many points come before the aligned ones.

        Only whole cache lines at a time: lines that waited half full for the next vector took ten times as long whenever the
        core was shared. Rows that begin elsewhere are packed: NumPy's large arrays begin 16 bytes past a line.
        """
        heads: dict[int, int] = {}
        for k in range(len(self.in_axes), len(arrays)):
            array, kind = arrays[k], layouts[k][0]
            if kind == "first" and not (_address(array) | array.strides[0]) % LINE:
                layouts[k] = kind, LINE
            elif kind == "last" and not any(step % LINE for step in _core(array, self.axes[k])):
                heads[k] = -_address(array) % LINE // array.itemsize
        head = statistics.mode(heads.values()) if heads else 0
        for k, own in heads.items():
            layouts[k] = "last", LINE if own == head else 0
        for k in range(len(self.in_axes), len(arrays)):
            if layouts[k] == ("first", 0) and self._fills_lines(arrays[k], self.leaves[k]):
                layouts[k] = "packed", (_address(arrays[k]) + head * arrays[k].strides[0]) % LINE
        return head

    def _fills_lines(self, array: np.ndarray, leaf: Input | Output) -> bool:
        """Whether points lie one after another, a vector of them in whole cache lines, in pieces of two numbers or more."""
        cells, row = math.prod(leaf.shape), array.strides[0]
        paired = cells % 2 == 0 or is_complex(leaf.dtype)
        return paired and row == array.itemsize * cells and row * lanes_of(self.program, machine_lanes()) % LINE == 0

    def _threads(self, count: int) -> int:
        """As many threads as were asked for, or as have enough to do each."""
        if self.threads is not None:
            return self.threads
        return max(min(pool.processors(), int(count * self._cost // _WORTH)), 1)

    def _kernel(self, layouts: tuple[Layout, ...]) -> _Kernel:
        """The compiled function for arrays in these layouts; one for all where there are loops."""
        if self._looped:
            layouts = ()
        if layouts not in self._compiled and len(self._compiled) >= _LAYOUTS:
            layouts = tuple(("one" if axis is None else "any", 0) for axis in self.axes)
        found = self._compiled.get(layouts)
        if found is None and self._looped:
            shared = [axis is None for axis in self.in_axes]
            text = looped_points_module(self.program, shared, max(machine_lanes(), 2), machine_fuses())
            found = self._compiled[layouts] = _LoopedKernel(text, 2 if len(nodes_with_bodies(self.program)) <= 2000 else 1)
        if found is None:
            streamed = [leaf for leaf, kind in zip(self.leaves, layouts, strict=True) if kind == ("last", LINE)]
            lines = [LINE // bytes_of_code(leaf.dtype) for leaf in streamed]  # points that fill a cache line
            module = BatchModule(self.program, max([lanes_of(self.program, machine_lanes()), *lines]), machine_fuses())
            module.add("kernel", module.arrays(layouts), fence=platform.machine().lower() in ("x86_64", "amd64"))
            found = self._compiled[layouts] = _Kernel(module.text(), compile_effort(self.program))
        return found

    def _made(self, place: int, count: int) -> np.ndarray:
        output, axis = self.program.outputs[place], self.out_axes[place]
        shape = (count, *output.shape) if axis == 0 else (*output.shape, count)
        return np.empty(shape, dtype_of_code(output.dtype))


def compile_effort(program: Program) -> int:
    """How hard LLVM tries: over long straight code with many stores it takes more than linear time."""
    cells = sum(len(output.cells) for output in program.outputs)
    return 0 if cells > 500 else 2 if len(program.nodes) <= 2000 else 1


def batch_problem(program: Program) -> str:
    """Why a Program has no batch kernel, or NumPy computes it faster; "" where machine code is the way."""
    nodes = nodes_with_bodies(program)
    slow = [] if machine_fuses() and machine_lanes() > 1 else sorted({i.op for i in nodes} & _IN_VECTORS)
    if slow and len(nodes) == len(program.nodes):
        return f"{program.name}: {', '.join(slow)} over many points runs with NumPy"
    if len(nodes) > LARGEST:
        return f"{program.name}: {len(nodes)} instructions; machine code takes up to {LARGEST}"
    if any(leaf.dtype == "?" for leaf in program.leaves):
        return "truth values of many points run with NumPy only"
    return lacking_in_llvm(program)


def _cost(program: Program) -> float:
    """About how many nanoseconds a point takes."""
    numbers = sum(math.prod(leaf.shape) for leaf in program.leaves)
    return _work(program) + 0.1 * max(numbers, 1)


def _work(program: Program) -> float:
    total = 0.0
    for node in program.nodes:
        if node.op == "loop":
            rounds = node.params.rounds
            total += _work(node.params.body) * (rounds if isinstance(rounds, int) else _ROUNDS)
        elif node.op in OPS:
            total += math.prod(node.shape) * (0.05 * OPS[node.op].cost + 3.0 * (OPS[node.op].c is not None))
    return total


def _layout(array: np.ndarray, leaf: Input | Output, axis: int | None) -> str:
    """The layout of an array of points, in the words of `llvm_layouts`."""
    if axis is None:
        return "one"
    if array.strides[axis] == array.itemsize:
        return "last"
    step = array.itemsize
    for size, stride in zip(reversed(leaf.shape), reversed(_core(array, axis)), strict=True):
        if size != 1 and stride != step:
            return "any"
        step *= size
    return "first" if array.size and (step > array.itemsize or is_complex(leaf.dtype)) else "any"


def _core(array: np.ndarray, axis: int | None) -> tuple[int, ...]:
    """The steps along the axes of a point."""
    return array.strides[1:] if axis == 0 else array.strides[:-1]


def _address(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _usual_layout(leaf: Input | Output, axis: int | None) -> str:
    """The layout of a contiguous array of many points."""
    shape = leaf.shape if axis is None else (2, *leaf.shape) if axis == 0 else (*leaf.shape, 2)
    return _layout(np.empty(shape, dtype_of_code(leaf.dtype)), leaf, axis)


def _collides(target: np.ndarray, arrays: Sequence[np.ndarray]) -> bool:
    """Whether an output cannot be written while the inputs are read."""
    return not target.flags.aligned or any(np.may_share_memory(target, a) for a in arrays)

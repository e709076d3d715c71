"""A batch kernel as machine code: many points in one call, in vectors of the widest unit the machine has.

Assumes arrays of the Program's dtypes. Guarantees right results for any strides and overlaps, outputs that own their memory,
and that other threads run meanwhile. Refuses, with `BackendError`, programs whose elementary functions NumPy computes faster.
"""

import ctypes
from typing import Any

import numpy as np

from symdiff.codegen.emission.llvm_batch import batch_function
from symdiff.codegen.native.engine import LARGEST, Code, fused, lanes
from symdiff.codegen.program import Program
from symdiff.errors import BackendError
from symdiff.ops import dtype_of

# What costs more as scalar calls of libm, where there are no vectors of our own, than in NumPy's vectors.
_IN_VECTORS = frozenset({"exp", "log", "exp2", "expm1", "log2", "log10", "log1p", "pow", "logaddexp", "logaddexp2"})


class NativeBatch:
    """The function `kernel(*arrays, out=None)` of a Program over points."""

    def __init__(self, program: Program, in_axes: tuple[int | None, ...], out_axes: tuple[int, ...]) -> None:
        slow = [] if fused() and lanes() > 1 else sorted({i.op for i in program.instrs} & _IN_VECTORS)
        if slow:
            raise BackendError(f"{program.name}: {', '.join(slow)} over many points runs with NumPy")
        if len(program.instrs) > LARGEST:
            raise BackendError(f"{program.name}: {len(program.instrs)} instructions; machine code takes up to {LARGEST}")
        self.program = program
        self.in_axes = in_axes
        self.out_axes = out_axes
        text = batch_function(program, "batch", in_axes, out_axes, lanes(), fused())
        self.code = Code(text, 2 if len(program.instrs) <= 2000 else 1)
        count = len(program.inputs) + len(program.outputs)
        kinds = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_ssize_t] * count
        self.function = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_ssize_t, ctypes.c_ssize_t)(self.code.address("batch"))

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Results at all points, in `out` where it is given."""
        several = len(self.program.outputs) > 1
        arrays = [np.ascontiguousarray(a) if a.ndim else np.atleast_1d(a) for a in args]
        count = next(a.shape[axis] for a, axis in zip(args, self.in_axes, strict=True) if axis is not None)
        given = None if out is None else (list(out) if several else [out])
        direct = given is not None and all(g.flags.carray and not any(np.may_share_memory(g, a) for a in arrays) for g in given)
        targets = given if direct and given is not None else [self._made(k, count) for k in range(len(self.program.outputs))]
        parts: list[int] = []
        for array, axis in zip([*arrays, *targets], [*self.in_axes, *self.out_axes], strict=True):
            cells = array.size // max(count, 1) if axis is not None else array.size
            item = array.itemsize
            steps = (0, item) if axis is None else (cells * item, item) if axis == 0 else (item, count * item)
            parts += [array.ctypes.data, *steps]
        self.function(*parts, 0, count)
        if given is not None and not direct:
            for target, value in zip(given, targets, strict=True):
                target[...] = value
        if out is not None:
            return out
        return tuple(targets) if several else targets[0]

    def _made(self, place: int, count: int) -> np.ndarray:
        output, axis = self.program.outputs[place], self.out_axes[place]
        shape = (count, *output.shape) if axis == 0 else (*output.shape, count)
        return np.empty(shape, dtype_of(output.dtype))

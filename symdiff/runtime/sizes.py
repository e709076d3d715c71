"""Machine code for any size: a kernel that is told the sizes which its arguments have.

Assumes a program with loops, arguments of the program's dtypes and numbers of axes, and contiguous arrays. Guarantees new
arrays for the results, and that other threads run meanwhile. Refuses, with `ValueError`, sizes beyond the program's bounds and
shapes that do not fit each other, and with `MemoryError` where there is too little.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.codegen.llvm.nests import Looped
from symdiff.lowering.program import Program
from symdiff.runtime.engine import Code, Passes
from symdiff.runtime.fastcall import with_python_functions
from symdiff.vocabulary.extents import names_in_extents, numbers, solved
from symdiff.vocabulary.ops import dtype_of_code


class SizedMachine:
    """A compiled kernel for any size; call it with the inputs, it returns the list of results."""

    def __init__(self, program: Program, looped: Looped, effort: int, passes: Passes) -> None:
        self.program = program
        self._code = Code(with_python_functions(looped.text), effort, passes)
        self._names = sorted(names_in_extents(tuple(leaf.shape for leaf in program.inputs)))
        self._memory = looped.memory
        pointers = len(program.inputs) + len(program.outputs) + bool(looped.memory)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_uint8 if looped.grows else None, *[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * len(self._names)
        )
        self._kernel: Any = kind(self._code.address("kernel"))
        self._grows = looped.grows

    def __call__(self, *args: Any) -> list[Any]:
        """The results at arrays and numbers."""
        sizes = sizes_of_arguments(self.program.inputs, args)
        given = [np.asarray(v, dtype_of_code(leaf.dtype)) for v, leaf in zip(args, self.program.inputs, strict=True)]
        made = [np.empty(numbers(o.shape, sizes), dtype_of_code(o.dtype)) for o in self.program.outputs]
        room = [np.empty(self._memory, np.uint8)] if self._memory else []
        short = self._kernel(*(a.ctypes.data for a in (*given, *made, *room)), *(sizes[name] for name in self._names))
        if self._grows and short & 1:
            raise MemoryError(f"{self.program.name}: too little memory for {sizes}")
        return [a[()] for a in made]


def sizes_of_arguments(inputs: Sequence[Any], args: Sequence[Any]) -> dict[str, int]:
    """The sizes that arguments tell. Raises `ValueError` where one has another shape than these make."""
    shapes = [np.shape(v) for v in args]
    sizes = solved([(leaf.name, leaf.shape, shape) for leaf, shape in zip(inputs, shapes, strict=True)])
    for leaf, shape in zip(inputs, shapes, strict=True):
        if len(shape) != len(leaf.shape) or shape != numbers(leaf.shape, sizes):
            told = f", where {', '.join(f'{name} = {n}' for name, n in sizes.items())}" if sizes else ""
            raise ValueError(f"{leaf.name} has shape {shape}, ({', '.join(map(str, leaf.shape))}) is expected{told}")
    return sizes

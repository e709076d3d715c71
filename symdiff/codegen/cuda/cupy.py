"""Plan to a Python file for CuPy: the CUDA source of one kernel, and a function that launches it once.

Assumes a Plan for a point or a batch. Guarantees results in new arrays or in `out`, computed on the current device and stream
without waiting for it, for any strides and overlaps. Refuses what CUDA cannot compute, with `BackendError`; the file refuses
other than CuPy arrays.
"""

from collections.abc import Sequence
from dataclasses import replace

from symdiff.codegen.cuda.grids import BLOCK, BLOCKS
from symdiff.codegen.cuda.points import cuda_leaf_axes, point_kernel
from symdiff.codegen.cuda.reciprocals import with_reciprocals
from symdiff.codegen.cuda.wide import PIECE, Wide, wide_kernel
from symdiff.codegen.names import Names
from symdiff.codegen.names import emitted_argument_names as named
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import (
    Result,
    dtype_text,
    emits_flat_result,
    emitted_result,
    packed_lines,
    tuple_text,
    unpacked,
    wrapped_text,
)
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output
from symdiff.vocabulary.literals import docstring_literal
from symdiff.vocabulary.ops import dtype_of_code

INDENT = "    "


def emit(
    plan: Plan, *, name: str, style: str = "export", header: Sequence[str] = (), doc: str = "",
    result: Result | None = None, by_value: frozenset[int] | None = None, exact: bool = False,
) -> Source:  # fmt: skip
    """The Plan as a Python file; inputs `by_value` are numbers of the host (all numbers that points share, by default)."""
    if by_value is None:
        shared = [
            axis is None and leaf.shape == () for leaf, axis in zip(plan.program.inputs, cuda_leaf_axes(plan), strict=False)
        ]
        by_value = frozenset(k for k, alone in enumerate(shared) if alone)
    if not exact:
        plan = replace(plan, program=with_reciprocals(plan.program))
    result = emitted_result(len(plan.program.outputs)) if result is None else result
    names = Names(("cp", "_code", "_kernel", "_wide_kernel", "_checked", "_together"))
    entry = names.fresh(name)
    code, kernel = point_kernel(plan, name, by_value)
    wide = wide_kernel(plan, name, by_value)
    head = [f'_kernel = cp.RawKernel(_code, "{kernel}"{cuda_compiler_options(exact)})']
    support = [CHECKED]
    if wide is not None:
        code += wide.text
        head.append(f'_wide_kernel = cp.RawKernel(_code, "{wide.kernel}"{cuda_compiler_options(exact)})')
        support.append(FIRST if wide.rows else LAST)
    lines = _Function(plan, entry, names, result, by_value, wide).lines(doc)
    block = "\n".join([code_text(code), *head])
    made = PythonFile(
        tuple(header), ("from typing import Any",), ("import cupy as cp",), (block,), ("\n".join(lines),), tuple(support)
    )
    return made.source(entry, "cupy")


def code_text(code: str) -> str:
    """The CUDA source of a file, which holds names of ours in ASCII, and no text of the user's."""
    return f'_code = r"""\n{code}"""'


def cuda_compiler_options(exact: bool) -> str:
    """The compiler's options as further arguments: exact programs keep multiplications and additions apart."""
    return ', ("--fmad=false",)' if exact else ""


CHECKED = '''def _checked(name: str, a: Any, shape: tuple[int, ...], dtype: Any, casting: Any = "same_kind") -> Any:
    """The CuPy array `a` in this dtype; -1 in a shape is any number of points."""
    if not isinstance(a, cp.ndarray):
        raise TypeError(f"{name} is {type(a).__name__}; a CuPy array is needed, as cp.asarray gives it")
    fits = a.ndim == len(shape) and all(m in (n, -1) for n, m in zip(a.shape, shape, strict=True))
    if not fits or not cp.can_cast(a.dtype, dtype, casting):
        raise ValueError(f"{name} is {a.dtype} {a.shape}; {cp.dtype(dtype)} {shape} expected")
    if a.data.device_id != cp.cuda.Device().id:
        raise ValueError(f"{name} is on device {a.data.device_id}; the current device is {cp.cuda.Device().id}")
    return a.astype(dtype, copy=False)'''


FIRST = f'''def _together(*arrays: Any) -> bool:
    """Whether arrays lie without gaps and begin at multiples of {PIECE} bytes."""
    return all(a.flags.c_contiguous and a.data.ptr % {PIECE} == 0 for a in arrays)'''
LAST = f'''def _together(*arrays: Any) -> bool:
    """Whether points lie last and without gaps, and every row of them begins at a multiple of {PIECE} bytes."""
    return all(
        a.strides[-1] == a.itemsize and not any(b % {PIECE} for b in (a.data.ptr, *a.strides[:-1])) for a in arrays
    )'''


class _Function:
    def __init__(
        self, plan: Plan, entry: str, names: Names, result: Result, by_value: frozenset[int], wide: Wide | None
    ) -> None:
        self.plan = plan
        self.inputs, self.outputs = plan.program.inputs, plan.program.outputs
        self.entry, self.result, self.by_value, self.wide = entry, result, by_value, wide
        self.leaves = plan.program.leaves
        self.axes = cuda_leaf_axes(plan)
        self.out_axes = self.axes[len(self.inputs) :]
        self.arguments = named(self.inputs, names)
        self.n, self.target = names.fresh("n"), names.fresh("target")
        self.several = not isinstance(result, int)
        self.targets = [names.fresh(o.name) for o in self.outputs] if self.several else ["out"]
        self.arrays = [*self.arguments, *self.targets]

    def lines(self, doc: str) -> list[str]:
        body = []
        for place, (leaf, argument) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            body += self.checked(leaf, argument, place)
        body += [*self.count(), *self.allocation(), *self.launch(), "return out"]
        parameters = [*(f"{a}: Any" for a in self.arguments), "out: Any = None"]
        signature = wrapped_text(f"def {self.entry}(", parameters, ") -> Any:", "")
        return [*signature, *docstring_literal(doc), *(INDENT + line for line in body)]

    def checked(self, leaf: Input, argument: str, place: int) -> list[str]:
        """The check of an argument, and its conversion to the right dtype."""
        kind = dtype_text(leaf.dtype)
        if place in self.by_value:
            return [f"{argument} = cp.{kind}({argument})"]
        shape = self.shape(leaf, self.axes[place], "-1")
        return [f'{argument} = _checked("{argument}", {argument}, {shape}, cp.{kind})']

    def count(self) -> list[str]:
        """The number of points, in which all arguments agree."""
        batched = [(a, axis) for a, axis in zip(self.arguments, self.axes, strict=False) if axis is not None]
        if not batched:
            return []
        first, axis = batched[0]
        n = self.n
        lines = [f"{n} = {first}.shape[{axis}]"]
        for other, its_axis in batched[1:]:
            lines.append(f"if {other}.shape[{its_axis}] != {n}:")
            lines.append(f'{INDENT}raise ValueError(f"{{{other}.shape[{its_axis}]}} points in {other}, {{{n}}} in {first}")')
        return lines

    def shape(self, leaf: Input | Output, axis: int | None, points: str = "") -> str:
        """The shape of an array of points as text."""
        sizes, points = [str(k) for k in leaf.shape], points or self.n
        return tuple_text([*([points] if axis == 0 else []), *sizes, *([points] if axis == -1 else [])])

    def allocation(self) -> list[str]:
        """The results' arrays: made here, or given, checked, and apart from the arguments."""
        kinds = [(self.shape(o, a), dtype_text(o.dtype)) for o, a in zip(self.outputs, self.out_axes, strict=True)]
        made = [f"cp.empty({shape}, dtype=cp.{kind})" for shape, kind in kinds]
        opening = unpacked(self.result, self.targets, "out = ") if self.several else "out = "
        lines = ["if out is None:", *packed_lines(opening, self.result, made, INDENT)]
        lines += ["else:", *([INDENT + unpacked(self.result, self.targets, "out")] if self.several else [])]
        for target, (shape, kind) in zip(self.targets, kinds, strict=True):
            lines.append(f'{INDENT}_checked("{target}", {target}, {shape}, cp.{kind}, "no")')
        given = "out" if emits_flat_result(self.result) else f"({', '.join(self.targets)})"
        for argument in (a for place, a in enumerate(self.arguments) if place not in self.by_value):
            test = (
                f"any(cp.may_share_memory({{}}, {self.target}) for {self.target} in {given})"
                if self.several
                else "cp.may_share_memory({}, out)"
            )
            lines += [f"{INDENT}if {test.format(argument)}:", f"{INDENT * 2}{argument} = {argument}.copy()"]
        return lines

    def launch(self) -> list[str]:
        """The launch of the kernel; none for no points."""
        if self.plan.kind == "point":
            return self.call("_kernel", "1", 1, [])
        n, wide = self.n, self.wide
        strided = self.call("_kernel", self.grid(BLOCK), BLOCK, [])
        if wide is None:
            return [f"if {n}:", *(INDENT + line for line in strided)]
        lines = self.call("_wide_kernel", self.grid(wide.block * wide.points), wide.block, wide.passed)
        tests = [n, *([f"{n} % {wide.points} == 0"] if wide.points > 1 else [])]
        together = ", ".join(name for place, name in enumerate(self.arrays) if place in wide.together)
        return [
            f"if {' and '.join(tests)} and _together({together}):",
            *(INDENT + line for line in lines),
            f"elif {n}:",
            *(INDENT + line for line in strided),
        ]

    def grid(self, points: int) -> str:
        """The blocks of a launch, each of so many points."""
        return f"min(-(-{self.n} // {points}), {BLOCKS})"

    def call(self, kernel: str, grid: str, block: int, strides: list[int]) -> list[str]:
        """A launch as text; `strides` are the numbers of strides that go with each array, all where none are given."""
        parts = [self.passed(place, strides[place] if strides else None) for place in range(len(self.leaves))]
        parts += [self.n] if self.plan.kind == "batch" else []
        listed = [f"{INDENT}(", *(f"{INDENT * 2}{part}," for part in parts), f"{INDENT}),"]
        return [f"{kernel}(", f"{INDENT}({grid},),", f"{INDENT}({block},),", *listed, ")"]

    def passed(self, place: int, strides: int | None) -> str:
        """An array and its last so many strides in elements: that of the points (0 where all share it), those of a point."""
        leaf, name, axis = self.leaves[place], self.arrays[place], self.axes[place]
        if place in self.by_value:
            return name
        item = dtype_of_code(leaf.dtype).itemsize
        first = 1 if axis == 0 else 0
        parts = []
        if self.plan.kind == "batch":
            parts.append("0" if axis is None else f"{name}.strides[{axis}] // {item}")
        parts += [f"{name}.strides[{first + k}] // {item}" for k in range(len(leaf.shape))]
        return ", ".join([name, *(parts if strides is None else parts[len(parts) - strides :])])

"""Plan to a Python file for CuPy: the CUDA source of one kernel, and a function that launches it once.

Assumes a Plan for a point or a batch. Guarantees results in new arrays or in `out`, computed on the current device and stream
without waiting for it, for any strides and overlaps. Refuses what CUDA cannot compute, with `BackendError`; the file refuses
other than CuPy arrays.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from symdiff.codegen.cuda.grids import BLOCK, BLOCKS
from symdiff.codegen.cuda.points import cuda_leaf_axes, point_kernel
from symdiff.codegen.cuda.reciprocals import with_reciprocals
from symdiff.codegen.cuda.wide import PIECE, Wide, wide_kernel
from symdiff.codegen.shells import COPIED, INDENT, PointsShell, Shell
from symdiff.codegen.source import Source, Wanted
from symdiff.codegen.text import dtype_text, indented
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output, is_nest
from symdiff.vocabulary.heads import CUPY
from symdiff.vocabulary.ops import bytes_of_code


def emit(plan: Plan, *, by_value: frozenset[int] | None = None, exact: bool = False, style: str = "", **asked: Any) -> Source:
    """The Plan as the Python file that is `asked` for, `Wanted`, in any style; inputs `by_value` are numbers of the host (all
    numbers that points share, by default)."""
    want = Wanted(raised=(), **asked)
    if by_value is None:
        shared = [
            axis is None and leaf.shape == () for leaf, axis in zip(plan.program.inputs, cuda_leaf_axes(plan), strict=False)
        ]
        by_value = frozenset(k for k, alone in enumerate(shared) if alone)
    looped = is_nest(plan.program)
    if not exact and not looped:
        plan = replace(plan, program=with_reciprocals(plan.program))
    code, kernel = point_kernel(plan, want.name, by_value)
    wide = None if looped else wide_kernel(plan, want.name, by_value)
    head = [f'_kernel = cp.RawKernel(_code, "{kernel}"{cuda_compiler_options(exact)})']
    if wide is not None:
        code += wide.text
        head.append(f'_wide_kernel = cp.RawKernel(_code, "{wide.kernel}"{cuda_compiler_options(exact)})')
    return _Launching(plan, want, by_value, wide).text(["\n".join([code_text(code), *head])])


def code_text(code: str) -> str:
    """The CUDA source of a file, which holds names of ours in ASCII, and no text of the user's."""
    return f'_code = r"""\n{code}"""'


def cuda_compiler_options(exact: bool) -> str:
    """The compiler's options as further arguments: exact programs keep multiplications and additions apart."""
    return ', ("--fmad=false",)' if exact else ""


_ARRAY = '''def _array(name: str, x: Any, kind: Any, shape: tuple[Any, ...], casting: Any = "same_kind") -> Any:
    """The CuPy array x in this dtype, "n" in a shape for points; what would lose something is refused."""
    if not isinstance(x, cp.ndarray):
        raise TypeError(f"{name} is {type(x).__name__}; a CuPy array is needed, as cp.asarray gives it")
    fits = x.ndim == len(shape) and all(m in (n, "n") for n, m in zip(x.shape, shape, strict=True))
    if not fits or not cp.can_cast(x.dtype, kind, casting):
        raise ValueError(f"{name} is {x.dtype} {x.shape}; {cp.dtype(kind)} ({', '.join(map(str, shape))}) expected")
    if x.data.device_id != cp.cuda.Device().id:
        raise ValueError(f"{name} is on device {x.data.device_id}; the current device is {cp.cuda.Device().id}")
    return x.astype(kind, copy=False)'''
_NUMBER = '''def _number(name: str, x: Any, kind: Any) -> Any:
    """The number x of the host in this dtype; what would lose something is refused."""
    if isinstance(x, cp.ndarray):
        raise TypeError(f"{name} is a CuPy array; a number of the host is expected, as float(x) gives it")
    code = getattr(getattr(x, "dtype", None), "kind", "c" if isinstance(x, complex) else "f" if hasattr(x, "__float__") else "")
    if getattr(x, "shape", ()) or code not in tuple("biufc" if cp.dtype(kind).kind == "c" else "biuf"):
        raise TypeError(f"{name} is {type(x).__name__}; a number of {cp.dtype(kind)} is expected")
    return kind(x)'''
_CHECK_OUT = '''def _check_out(arrays: Any, *expected: Any) -> None:
    """Raise where arrays for results are not CuPy's, of their shape, dtype and device, and apart."""
    for k, (a, (shape, kind)) in enumerate(zip(arrays, expected, strict=True)):
        _array(f"out {k}", a, kind, shape, "no")
        repeated = any(s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True))
        if repeated or (a.size and any(a.data.ptr == b.data.ptr for b in arrays[:k])):
            raise ValueError(f"out {k} has the same memory for several numbers")'''
FIRST = f'''def _together(*arrays: Any) -> bool:
    """Whether arrays lie without gaps and begin at multiples of {PIECE} bytes."""
    return all(a.flags.c_contiguous and a.data.ptr % {PIECE} == 0 for a in arrays)'''
LAST = f'''def _together(*arrays: Any) -> bool:
    """Whether points lie last and without gaps, and every row of them begins at a multiple of {PIECE} bytes."""
    return all(
        a.strides[-1] == a.itemsize and not any(b % {PIECE} for b in (a.data.ptr, *a.strides[:-1])) for a in arrays
    )'''


class CupyShell(Shell):
    """CuPy's words: arrays of the device, for numbers too; `host` are the names of arguments that are numbers of the host."""

    words, language = CUPY, "cupy"
    support: ClassVar[dict[str, str]] = {"_array": _ARRAY, "_number": _NUMBER, "_check_out": _CHECK_OUT}
    host: frozenset[str] = frozenset()

    def uses(self, *names: str) -> None:
        super().uses(*names, *(["_array"] if "_check_out" in names else []))  # which calls it

    def accepted_type(self, leaf: Input) -> str:
        return "Any"

    def annotation(self, output: Output, points: bool = False) -> str:
        return "Any"

    def taken(self, leaf: Input, argument: str, axis: int | None) -> str:
        if argument in self.host:
            self.uses("_number")
            return f'_number("{argument}", {argument}, cp.{dtype_text(leaf.dtype)})'
        return super().taken(leaf, argument, axis)

    def one(self, leaf: Input, call: str) -> str:
        return call

    def lies(self, leaf: Input, argument: str) -> bool:
        return argument not in self.host

    def held(self, output: Output) -> bool:
        return True

    def packages(self, special: bool) -> list[str]:
        return ["import cupy as cp"]


class _Launching(CupyShell, PointsShell):
    """The function that launches a kernel over points, or over one."""

    support: ClassVar[dict[str, str]] = {
        **PointsShell.support, **CupyShell.support, "_apart": COPIED.substitute(np="cp", array="Any"), "_together": "",
    }  # fmt: skip

    def __init__(self, plan: Plan, want: Wanted, by_value: frozenset[int], wide: Wide | None) -> None:
        self.plan, self.by_value, self.wide = plan, by_value, wide
        self.leaves, self.axes = plan.program.leaves, cuda_leaf_axes(plan)
        inputs = len(plan.program.inputs)
        own = ("_code", "_kernel", "_wide_kernel")
        super().__init__(plan.program, want, own, self.axes[:inputs], self.axes[inputs:])
        self.host = frozenset(self.arguments[place] for place in by_value)
        self.arrays = [*self.arguments, *self.targets]

    def text(self, head: Sequence[str]) -> Source:
        """The file."""
        lines = [*self.accepted(), *self.count(), *self.arrays_for_results(self.given()), *self.launch()]
        functions = [self.function([*lines, *self.returned(self.targets, [])])]
        together = [] if self.wide is None else [FIRST if self.wide.rows else LAST]
        return self.source(functions, head=head, support=together)

    def launch(self) -> list[str]:
        """The launch of the kernel; none for no points."""
        if self.plan.kind == "point":
            return self.call("_kernel", "1", 1, [])
        n, wide = self.points, self.wide
        strided = self.call("_kernel", self.grid(BLOCK), BLOCK, [])
        if wide is None:
            return [f"if {n}:", *indented(strided)]
        lines = self.call("_wide_kernel", self.grid(wide.block * wide.points), wide.block, wide.passed)
        tests = [n, *([f"{n} % {wide.points} == 0"] if wide.points > 1 else [])]
        together = ", ".join(name for place, name in enumerate(self.arrays) if place in wide.together)
        return [
            f"if {' and '.join(tests)} and _together({together}):",
            *indented(lines),
            f"elif {n}:",
            *indented(strided),
        ]

    def grid(self, points: int) -> str:
        """The blocks of a launch, each of so many points."""
        return f"min(-(-{self.points} // {points}), {BLOCKS})"

    def call(self, kernel: str, grid: str, block: int, strides: list[int]) -> list[str]:
        """A launch as text; `strides` are the numbers of strides that go with each array, all where none are given."""
        parts = [self.passed(place, strides[place] if strides else None) for place in range(len(self.leaves))]
        parts += [self.points] if self.plan.kind == "batch" else []
        listed = [f"{INDENT}(", *(f"{INDENT * 2}{part}," for part in parts), f"{INDENT}),"]
        return [f"{kernel}(", f"{INDENT}({grid},),", f"{INDENT}({block},),", *listed, ")"]

    def passed(self, place: int, strides: int | None) -> str:
        """An array and its last so many strides in elements: that of the points (0 where all share it), those of a point."""
        leaf, name, axis = self.leaves[place], self.arrays[place], self.axes[place]
        if place in self.by_value:
            return name
        item = bytes_of_code(leaf.dtype)
        first = 1 if axis == 0 else 0
        parts = []
        if self.plan.kind == "batch":
            parts.append("0" if axis is None else f"{name}.strides[{axis}] // {item}")
        parts += [f"{name}.strides[{first + k}] // {item}" for k in range(len(leaf.shape))]
        return ", ".join([name, *(parts if strides is None else parts[len(parts) - strides :])])

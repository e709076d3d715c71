"""Plan to a Python file for CuPy: the CUDA source of one kernel, and a function that launches it once.

Assumes a Plan for a point or a batch. Guarantees results in new arrays or in `out`, computed on the current device and stream
without waiting for it, for any strides and overlaps. Refuses what CUDA cannot compute, with `BackendError`; the file refuses
other than CuPy arrays.
"""

from collections.abc import Sequence

from symdiff.codegen.emission.cuda_points import BLOCK, BLOCKS, point_kernel, rows_kernel
from symdiff.codegen.emission.names import Names
from symdiff.codegen.emission.names import argument_names as named
from symdiff.codegen.emission.text import docstring, dtype_text, wrapped
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Input, Output
from symdiff.codegen.source import Source
from symdiff.ops import dtype_of

INDENT = "    "


def emit(
    plan: Plan, *, name: str, style: str = "export", header: str = "", doc: str = "", result: str = "tuple",
    by_value: frozenset[int] | None = None, exact: bool = False,
) -> Source:  # fmt: skip
    """The Plan as a Python file; inputs `by_value` are numbers of the host (all numbers that points share, by default)."""
    axes = plan.in_axes if plan.kind == "batch" else (None,) * len(plan.program.inputs)
    if by_value is None:
        by_value = frozenset(k for k, leaf in enumerate(plan.program.inputs) if leaf.shape == () and axes[k] is None)
    names = Names(("cp", "_code", "_kernel", "_rows_kernel", "_checked"))
    entry = names.fresh(name)
    code, kernel = point_kernel(plan, name, by_value)
    rows = rows_kernel(plan, name, by_value)
    function = _Function(plan, entry, names, result, by_value, axes)
    head = [f'_kernel = cp.RawKernel(_code, "{kernel}"{options(exact)})']
    if rows is not None:
        code += rows[0]
        function.block, function.rows = rows[2:]
        head.append(f'_rows_kernel = cp.RawKernel(_code, "{rows[1]}"{options(exact)})')
    lines = function.lines(doc)
    head = [*module_head(code), *head]
    return Source(header + "\n".join([*head, "", "", CHECKED, "", *lines]) + "\n", entry, "cupy")


def module_head(code: str) -> list[str]:
    """The import and the CUDA source of a file."""
    return ["import cupy as cp", "", f'_code = r"""\n{code}"""']


def options(exact: bool) -> str:
    """The compiler's options as further arguments: exact programs keep multiplications and additions apart."""
    return ', ("--fmad=false",)' if exact else ""


CHECKED = '''def _checked(name, a, shape, dtype, casting="same_kind"):
    """The CuPy array `a` in this dtype; -1 in a shape is any number of points."""
    if not isinstance(a, cp.ndarray):
        raise TypeError(f"{name} is {type(a).__name__}; a CuPy array is needed, as cp.asarray gives it")
    fits = a.ndim == len(shape) and all(m in (n, -1) for n, m in zip(a.shape, shape))
    if not fits or not cp.can_cast(a.dtype, dtype, casting):
        raise ValueError(f"{name} is {a.dtype} {a.shape}; {cp.dtype(dtype)} {shape} expected")
    return a.astype(dtype, copy=False)
'''


def tuple_text(parts: Sequence[str]) -> str:
    """A tuple as text."""
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


class _Function:
    def __init__(
        self, plan: Plan, entry: str, names: Names, result: str, by_value: frozenset[int], axes: tuple[int | None, ...]
    ) -> None:
        self.plan = plan
        self.inputs, self.outputs = plan.program.inputs, plan.program.outputs
        self.entry, self.result, self.by_value, self.axes = entry, result, by_value, axes
        self.block, self.rows = 0, frozenset[int]()
        self.arguments = named(self.inputs, names)
        self.n, self.target = names.fresh("n"), names.fresh("target")
        self.several = len(self.outputs) > 1
        self.targets = [names.fresh(o.name) for o in self.outputs] if self.several else ["out"]
        self.out_axes = plan.out_axes if plan.kind == "batch" else (None,) * len(self.outputs)

    def lines(self, doc: str) -> list[str]:
        body = []
        for place, (leaf, argument) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            body += self.checked(leaf, argument, place)
        body += [*self.count(), *self.allocation(), *self.launch(), "return out"]
        signature = wrapped(f"def {self.entry}(", [*self.arguments, "out=None"], "):", "")
        return [*signature, *docstring(doc), *(INDENT + line for line in body)]

    def checked(self, leaf: Input, argument: str, place: int) -> list[str]:
        """The check of an argument, and its conversion to the right dtype."""
        kind = dtype_text(leaf.dtype)
        if place in self.by_value:
            return [f"{argument} = cp.{kind}({argument})"]
        shape = self.shape(leaf, self.axes[place], "-1")
        return [f'{argument} = _checked("{argument}", {argument}, {shape}, cp.{kind})']

    def arrays(self) -> list[str]:
        """The arguments that are arrays."""
        return [a for place, a in enumerate(self.arguments) if place not in self.by_value]

    def count(self) -> list[str]:
        """The number of points, in which all arguments agree."""
        batched = [(a, axis) for a, axis in zip(self.arguments, self.axes, strict=True) if axis is not None]
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
        names = f"{', '.join(self.targets)} = " if self.several else ""
        lines = ["if out is None:"]
        if self.several:
            opening, closing = "[]" if self.result == "list" else "()"
            lines += [f"{INDENT}{names}out = {opening}", *(f"{INDENT * 2}{m}," for m in made), f"{INDENT}{closing}"]
        else:
            lines.append(f"{INDENT}out = {made[0]}")
        lines += ["else:", *([f"{INDENT}{names}out"] if self.several else [])]
        for target, (shape, kind) in zip(self.targets, kinds, strict=True):
            lines.append(f'{INDENT}_checked("{target}", {target}, {shape}, cp.{kind}, "no")')
        for argument in self.arrays():
            test = (
                f"any(cp.may_share_memory({{}}, {self.target}) for {self.target} in out)"
                if self.several
                else "cp.may_share_memory({}, out)"
            )
            lines += [f"{INDENT}if {test.format(argument)}:", f"{INDENT * 2}{argument} = {argument}.copy()"]
        return lines

    def launch(self) -> list[str]:
        """The launch of the kernel; none for no points."""
        if self.plan.kind == "point":
            return self.call("_kernel", "1", "1", self.passed(frozenset()))
        strided = self.call("_kernel", self.grid(BLOCK), str(BLOCK), [*self.passed(frozenset()), self.n])
        if not self.rows:
            return [f"if {self.n}:", *(INDENT + line for line in strided)]
        rows = self.call("_rows_kernel", self.grid(self.block), str(self.block), [*self.passed(self.rows), self.n])
        together = [name for place, (_, name) in enumerate(self.named_leaves()) if place in self.rows]
        test = " and ".join(f"{name}.flags.c_contiguous" for name in together)
        return [f"if {self.n} and {test}:", *(INDENT + line for line in rows), f"elif {self.n}:",
                *(INDENT + line for line in strided)]  # fmt: skip

    def named_leaves(self) -> list[tuple[Input | Output, str]]:
        """Inputs and outputs with their names here."""
        return [*zip(self.inputs, self.arguments, strict=True), *zip(self.outputs, self.targets, strict=True)]

    def grid(self, block: int) -> str:
        """The blocks of a launch."""
        return f"min(-(-{self.n} // {block}), {BLOCKS})"

    def call(self, kernel: str, grid: str, block: str, parts: list[str]) -> list[str]:
        """A launch as text."""
        listed = [f"{INDENT}(", *(f"{INDENT * 2}{part}," for part in parts), f"{INDENT}),"]
        return [f"{kernel}(", f"{INDENT}({grid},),", f"{INDENT}({block},),", *listed, ")"]

    def passed(self, rows: frozenset[int]) -> list[str]:
        """The kernel's arguments; arrays in `rows` go without strides."""
        found = []
        for place, (leaf, name) in enumerate(self.named_leaves()):
            axis = [*self.axes, *self.out_axes][place]
            bare = place in self.by_value or place in rows
            found.append(name if bare else self.strided(leaf, name, axis))
        return found

    def strided(self, leaf: Input | Output, name: str, axis: int | None) -> str:
        """An array and its strides in elements; 0 for the points where all share it."""
        item = dtype_of(leaf.dtype).itemsize
        parts = [name]
        if self.plan.kind == "batch":
            parts.append("0" if axis is None else f"{name}.strides[{axis}] // {item}")
        first = 1 if axis == 0 else 0
        parts += [f"{name}.strides[{first + k}] // {item}" for k in range(len(leaf.shape))]
        return ", ".join(parts)

"""The CUDA kernel of a Program over points: each thread loads a point, calls the device function and stores its results.

Assumes a Plan for a point or a batch. Guarantees any strides, any number of points (64-bit indices, a grid-stride loop), and
one launch. Refuses what `cuda` refuses.
"""

import math
from collections.abc import Sequence

from symdiff.codegen.emission.c_like import INDENT, parameters
from symdiff.codegen.emission.cuda import CUDA_RESERVED, LANGUAGE, argument_names, name_of, preamble
from symdiff.codegen.emission.cuda_functions import DEVICE
from symdiff.codegen.emission.names import Names
from symdiff.codegen.plan import Plan
from symdiff.codegen.program import Input, Output
from symdiff.ops import dtype_of

BLOCK, BLOCKS = 256, 65_535  # threads of a block, and the most blocks of a launch
SHARED = 48 * 1024  # bytes of shared memory that every device gives a block


def point_kernel(plan: Plan, name: str, by_value: frozenset[int]) -> tuple[str, str]:
    """The text of the device function and its kernel, and the kernel's name; inputs `by_value` are numbers of the host.

    The kernel takes, for every input and then for every output, a pointer, the stride of the points (for a batch) and the
    strides of the axes of a point, all in elements; a number by value; and for a batch the number of points.
    """
    function = name_of(name)
    kernel = f"{function}_{'points' if plan.kind == 'batch' else 'point'}"
    own, arguments, targets = argument_names(plan.program, name)
    lines = LANGUAGE.function_text(plan.program, f"{DEVICE} void {function}", own, arguments, targets)
    text = [*preamble([plan.program], lines), *lines, "", *_Kernel(plan, function, kernel, by_value).lines()]
    return "\n".join(text) + "\n", kernel


def rows_kernel(plan: Plan, name: str, by_value: frozenset[int]) -> tuple[str, str, int, frozenset[int]] | None:
    """A second kernel, for arrays whose points lie first and without gaps; None where there are none, or points too large.

    Its text, its name, the threads of a block, and which arrays (inputs, then outputs) must lie so. A block moves these
    through shared memory, so that neighbouring threads read and write neighbouring numbers. The text needs
    `point_kernel`'s before it.
    """
    if plan.kind != "batch":
        return None
    program = plan.program
    leaves: list[Input | Output] = [*program.inputs, *program.outputs]
    axes = [*plan.in_axes, *plan.out_axes]
    rows = [k for k, leaf in enumerate(leaves) if axes[k] == 0 and math.prod(leaf.shape) > 1]
    room = sum((math.prod(leaves[k].shape) | 1) * dtype_of(leaves[k].dtype).itemsize for k in rows)
    block = next((b for b in (BLOCK, BLOCK // 2, BLOCK // 4) if b * room <= SHARED), None)
    if not rows or block is None:
        return None
    function = name_of(name)
    kernel = _Kernel(plan, function, f"{function}_rows", by_value, block)
    comment = "// For points that lie first and without gaps: a block moves its points through shared memory."
    return "\n".join(["", comment, *kernel.lines()]) + "\n", kernel.kernel, block, frozenset(rows)


class _Kernel:
    """The writer of a kernel; with a `block`, arrays whose points lie first go through shared memory."""

    def __init__(self, plan: Plan, function: str, kernel: str, by_value: frozenset[int], block: int = 0) -> None:
        self.block = block
        self.plan = plan
        self.inputs, self.outputs = plan.program.inputs, plan.program.outputs
        self.function, self.kernel = function, kernel
        self.by_value = by_value
        self.names = Names((*CUDA_RESERVED, function, kernel, "i", "k", "n", "step", "first", "count"))
        self.arguments = [self.names.fresh(leaf.name) for leaf in self.inputs]
        self.targets = [self.names.fresh(o.name) for o in self.outputs]
        self.steps = {name: self.names.fresh(f"{name}_step") for name in (*self.arguments, *self.targets)}

    def in_rows(self, leaf: Input | Output, axis: int | None) -> bool:
        """Whether an array goes through shared memory."""
        return bool(self.block) and axis == 0 and math.prod(leaf.shape) > 1

    def lines(self) -> list[str]:
        """The kernel's text."""
        loads: list[str] = []
        stores: list[str] = []
        passed = []
        for place, (leaf, name) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            if place in self.by_value:
                passed.append(name)
            elif self.in_rows(leaf, self.plan.in_axes[place] if self.plan.kind == "batch" else None):
                passed.append(self.row(leaf, name))
            elif leaf.shape == ():
                passed.append(f"{name}[{self.offset(name)}]" if self.plan.kind == "batch" else f"*{name}")
            else:
                local = self.names.fresh(f"{name}_cells")
                loads += self.cells(leaf, name, local, "{local}[{k}] = {array}[{at}];", f"{LANGUAGE.types[leaf.dtype]} ")
                passed.append(local)
        for place, (output, name) in enumerate(zip(self.outputs, self.targets, strict=True)):
            if self.in_rows(output, self.plan.out_axes[place] if self.plan.kind == "batch" else None):
                passed.append(self.row(output, name))
            elif output.shape == ():
                passed.append(f"&{name}[{self.offset(name)}]" if self.plan.kind == "batch" else name)
            else:
                local = self.names.fresh(f"{name}_cells")
                declared, *copied = self.cells(
                    output, name, local, "{array}[{at}] = {local}[{k}];", f"{LANGUAGE.types[output.dtype]} "
                )
                loads.append(declared)
                stores += copied
                passed.append(local)
        body = [*loads, f"{self.function}({', '.join(passed)});", *stores]
        signature = parameters(f'extern "C" __global__ void {self.kernel}', self.parameters())
        if self.plan.kind == "point":
            return [*signature, "{", *(INDENT + line for line in body), "}"]
        if self.block:
            return [*signature, "{", *(INDENT + line for line in self.through_rows(body)), "}"]
        return [
            *signature,
            "{",
            f"{INDENT}const long long step = (long long)gridDim.x * blockDim.x;",
            f"{INDENT}for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {{",
            *(INDENT * 2 + line for line in body),
            f"{INDENT}}}",
            "}",
        ]

    def row(self, leaf: Input | Output, name: str) -> str:
        """The row of a thread's point in shared memory; rows are odd in length, so that they begin in different banks."""
        return f"&{name}_rows[threadIdx.x * {math.prod(leaf.shape) | 1}]"

    def through_rows(self, body: list[str]) -> list[str]:
        """The loop over blocks of points."""
        declared: list[str] = []
        moved: list[list[str]] = []
        sides: list[tuple[Sequence[Input | Output], list[str], Sequence[int | None]]] = [
            (self.inputs, self.arguments, self.plan.in_axes),
            (self.outputs, self.targets, self.plan.out_axes),
        ]
        for leaves, names, axes in sides:
            lines = []
            for leaf, name, axis in zip(leaves, names, axes, strict=True):
                if not self.in_rows(leaf, axis):
                    continue
                cells = math.prod(leaf.shape)
                place = f"{name}_rows[k / {cells} * {cells | 1} + k % {cells}]"
                declared.append(f"__shared__ {LANGUAGE.types[leaf.dtype]} {name}_rows[{self.block} * {cells | 1}];")
                lines.append(f"for (int k = threadIdx.x; k < {cells} * count; k += {self.block})")
                far = f"{name}[{cells} * first + k]"
                lines.append(f"{INDENT}{f'{place} = {far}' if leaves is self.inputs else f'{far} = {place}'};")
            moved.append(lines)
        return [
            *declared,
            f"for (long long first = blockIdx.x * {self.block}LL; first < n; first += gridDim.x * {self.block}LL) {{",
            f"{INDENT}const int count = n - first < {self.block} ? n - first : {self.block};",
            *(INDENT + line for line in moved[0]),
            f"{INDENT}__syncthreads();",
            f"{INDENT}const long long i = first + threadIdx.x;",
            f"{INDENT}if (i < n) {{",
            *(INDENT * 2 + line for line in body),
            f"{INDENT}}}",
            f"{INDENT}__syncthreads();",
            *(INDENT + line for line in moved[1]),
            "}",
        ]

    def offset(self, name: str) -> str:
        """Where a point begins."""
        return f"i * {self.steps[name]}" if self.plan.kind == "batch" else ""

    def parameters(self) -> list[str]:
        """The kernel's parameters, those of one array together."""
        found = []
        for place, (leaf, name) in enumerate(zip(self.inputs, self.arguments, strict=True)):
            kind = LANGUAGE.types[leaf.dtype]
            found.append(f"{kind} {name}" if place in self.by_value else self.array(f"const {kind}", leaf, name))
        found += [self.array(LANGUAGE.types[o.dtype], o, t) for o, t in zip(self.outputs, self.targets, strict=True)]
        return [*found, "long long n"] if self.plan.kind == "batch" else found

    def array(self, kind: str, leaf: Input | Output, name: str) -> str:
        """A pointer and its strides."""
        axes = dict(zip([*self.arguments, *self.targets], [*self.plan.in_axes, *self.plan.out_axes], strict=False))
        if self.in_rows(leaf, axes.get(name)):
            return f"{kind} *__restrict__ {name}"
        strides = [self.steps[name]] if self.plan.kind == "batch" else []
        strides += [f"{self.steps[name]}{axis}" for axis in range(len(leaf.shape))]
        return ", ".join([f"{kind} *__restrict__ {name}", *(f"long long {s}" for s in strides)])

    def cells(self, leaf: Input | Output, name: str, local: str, copy: str, kind: str) -> list[str]:
        """A local array for the cells of a point, and the loops that copy them; loops are unrolled, so cells are registers."""
        count = math.prod(leaf.shape)
        lines = [f"{kind}{local}[{max(count, 1)}];"]
        if not count:
            return lines
        letters = ["k"] if len(leaf.shape) == 1 else [f"k{axis}" for axis in range(len(leaf.shape))]
        cell, parts = "", [part for part in (self.offset(name),) if part]
        for axis, (letter, n) in enumerate(zip(letters, leaf.shape, strict=True)):
            lines.append(INDENT * axis + "#pragma unroll")
            lines.append(f"{INDENT * axis}for (int {letter} = 0; {letter} < {n}; ++{letter})")
            cell = letter if not cell else f"{n} * {f'({cell})' if axis > 1 else cell} + {letter}"
            parts.append(f"{letter} * {self.steps[name]}{axis}")
        copied = copy.format(local=local, k=cell, array=name, at=" + ".join(parts))
        return [*lines, INDENT * len(leaf.shape) + copied]

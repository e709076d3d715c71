"""The CUDA kernel of a Program over points: each thread loads a point, calls the device function and stores its results.

Assumes a Plan for a point or a batch. Guarantees any strides, any number of points (64-bit indices, a grid-stride loop), and
one launch. Refuses what `cuda` refuses.
"""

import math

from symdiff.codegen.c_like import INDENT, c_signature
from symdiff.codegen.cuda.grids import cuda_grid_loop
from symdiff.codegen.cuda.header import CUDA_RESERVED, LANGUAGE, device_function, name_of, preamble
from symdiff.codegen.names import Names
from symdiff.codegen.text import indented
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Input, Output
from symdiff.lowering.walks import programs_in

KERNEL = 'extern "C" __global__ void'
UNROLL = "#pragma unroll"
Leaf = Input | Output
Moves = tuple[str, list[str], list[str], list[str]]  # what a function is given, what declares, loads and stores it


def point_kernel(plan: Plan, name: str, by_value: frozenset[int]) -> tuple[str, str]:
    """The text of the device function and its kernel, and the kernel's name; inputs `by_value` are numbers of the host.

    The kernel takes, for every input and then for every output, a pointer, the stride of the points (for a batch) and the
    strides of the axes of a point, all in elements; a number by value; and for a batch the number of points.
    """
    function = name_of(name)
    lines, words = device_function(plan.program, name)
    kernel = PointKernel(plan, function, "points" if plan.kind == "batch" else "point", by_value)
    before = preamble([*programs_in(plan.program)], printed=words.printed)
    text = [*before, *words.helpers(), *lines, "", *kernel.lines(), *words.defined_tables()]
    return "\n".join(text) + "\n", kernel.kernel


class PointKernel:
    """The writer of a kernel over arrays of any strides; others may override how an array is passed, loaded and stored."""

    def __init__(self, plan: Plan, function: str, kernel: str, by_value: frozenset[int]) -> None:
        self.plan = plan
        self.batch = plan.kind == "batch"
        self.inputs, self.outputs = plan.program.inputs, plan.program.outputs
        self.leaves = plan.program.leaves
        self.axes = cuda_leaf_axes(plan)
        self.function, self.kernel = function, f"{function}_{kernel}"
        self.by_value = by_value
        letters = [f"k{axis}" for leaf in self.leaves for axis in range(len(leaf.shape))]
        own = (function, self.kernel, *letters, *"i k p n step first count lane warp".split())
        self.names = Names((*CUDA_RESERVED, *own), plain=True)
        self.arrays = [self.names.fresh(leaf.name) for leaf in self.leaves]
        self.steps = [self.step_name(name, leaf) for name, leaf in zip(self.arrays, self.leaves, strict=True)]

    def step_name(self, array: str, leaf: Leaf) -> str:
        """A name for the strides of an array, which is free with the number of each axis behind it, too."""
        name = f"{array}_step"
        while not all(self.names.is_free(f"{name}{axis}") for axis in ("", *range(len(leaf.shape)))):
            name += "_"
        self.names.taken.update(f"{name}{axis}" for axis in ("", *range(len(leaf.shape))))
        return name

    def lines(self) -> list[str]:
        """The kernel's text."""
        before: list[str] = []
        after: list[str] = []
        passed = []
        for place in range(len(self.leaves)):
            text, declared, loads, stores = self.cells(place)
            passed.append(text)
            before += [*declared, *loads]
            after += stores
        body = [*before, *self.called(passed), *after]
        signature = c_signature(f"{KERNEL} {self.kernel}", self.parameters())
        return [*signature, "{", *indented(self.loop(body)), "}"]

    def called(self, passed: list[str]) -> list[str]:
        """The call of the device function."""
        *lines, last = c_signature(self.function, passed)
        return [*lines, f"{last};"]

    def loop(self, body: list[str]) -> list[str]:
        """The loop over points."""
        return cuda_grid_loop("i", "n", body) if self.batch else body

    def parameters(self) -> list[str]:
        """The kernel's parameters, those of one array together."""
        found = []
        for place, (leaf, name) in enumerate(zip(self.leaves, self.arrays, strict=True)):
            kind = LANGUAGE.types[leaf.dtype]
            const = "const " if place < len(self.inputs) else ""
            strides = "".join(f", long long {s}" for s in self.strides(place))
            found.append(f"{kind} {name}" if place in self.by_value else f"{const}{kind} *__restrict__ {name}{strides}")
        return [*found, "long long n"] if self.batch else found

    def strides(self, place: int) -> list[str]:
        """The names of the strides that are passed with an array: that of the points, those of a point's axes."""
        step = self.steps[place]
        return [*([step] if self.batch else []), *(f"{step}{axis}" for axis in range(len(self.leaves[place].shape)))]

    def cells(self, place: int) -> Moves:
        """What the device function is given for an array, and the lines that declare, load and store its cells.

        Loops are unrolled, so cells are registers.
        """
        leaf, name = self.leaves[place], self.arrays[place]
        given = place < len(self.inputs)
        offset = f"i * {self.steps[place]}" if self.batch else ""
        if place in self.by_value:
            return name, [], [], []
        if leaf.shape == ():
            cell = f"{name}[{offset}]" if self.batch else f"*{name}"
            return (cell if given else f"&{name}[{offset}]" if self.batch else name), [], [], []
        local = self.names.fresh(f"{name}_cells")
        declared = [f"{LANGUAGE.types[leaf.dtype]} {local}[{max(math.prod(leaf.shape), 1)}];"]
        cell, at = self.cell(place)
        far = f"{name}[{' + '.join(part for part in (offset, at) if part)}]"
        copied = self.over_cells(place, f"{local}[{cell}] = {far};" if given else f"{far} = {local}[{cell}];")
        return local, declared, copied if given else [], [] if given else copied

    def letters(self, place: int) -> list[str]:
        """The indices of the axes of a point."""
        axes = len(self.leaves[place].shape)
        return ["k"] if axes == 1 else [f"k{axis}" for axis in range(axes)]

    def cell(self, place: int) -> tuple[str, str]:
        """The place of the cell of these indices in C order, and in the array."""
        flat, parts = "", []
        for axis, (letter, n) in enumerate(zip(self.letters(place), self.leaves[place].shape, strict=True)):
            flat = letter if not flat else f"{n} * {f'({flat})' if axis > 1 else flat} + {letter}"
            parts.append(f"{letter} * {self.steps[place]}{axis}")
        return flat, " + ".join(parts)

    def over_cells(self, place: int, line: str) -> list[str]:
        """A line for all cells of a point."""
        shape = self.leaves[place].shape
        if 0 in shape:
            return []
        lines = []
        for axis, (letter, n) in enumerate(zip(self.letters(place), shape, strict=True)):
            lines += [INDENT * axis + UNROLL, f"{INDENT * axis}for (int {letter} = 0; {letter} < {n}; ++{letter})"]
        return [*lines, INDENT * len(shape) + line]


def cuda_leaf_axes(plan: Plan) -> list[int | None]:
    """The points axis of every input, then of every output."""
    if plan.kind != "batch":
        return [None] * len(plan.program.leaves)
    return [*plan.in_axes, *plan.out_axes]

"""A second CUDA kernel over points, which reads and writes memory in pieces of 16 bytes where the points lie together.

Assumes a Plan for a batch, and arrays that lie as its `Wide` says. Guarantees that neighbouring threads read and write
neighbouring pieces, and the same results as the kernel for any strides. Refuses, with None, points for which it gains nothing.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from symdiff.codegen.cuda.functions import DEVICE
from symdiff.codegen.cuda.grids import BLOCK, cuda_grid_loop
from symdiff.codegen.cuda.header import LANGUAGE, name_of
from symdiff.codegen.cuda.points import UNROLL, Leaf, Moves, PointKernel, cuda_leaf_axes
from symdiff.codegen.text import indented
from symdiff.lowering.plan import Plan
from symdiff.vocabulary.ops import bytes_of_code

PIECE = 16  # bytes of the widest access
WARP = 32  # threads that run together
SHARED = 48 * 1024  # bytes of shared memory that every device gives a block
HELD = 256  # bytes of registers for the inputs, or the outputs, of a thread's points
OPERATIONS = 500  # of a point, from which memory is not what takes the time
PIECES = f"""
// A piece of memory that is read or written at once: numbers of neighbouring points, whose cells lie `step` apart.
template <typename T> union Piece {{
    int4 all;
    T at[{PIECE} / sizeof(T)];
}};

template <typename T> {DEVICE} void load_piece(const T *from, T *cells, int step)
{{
    Piece<T> piece;
    piece.all = *(const int4 *)from;
    {UNROLL}
    for (unsigned p = 0; p < {PIECE} / sizeof(T); ++p)
        cells[p * step] = piece.at[p];
}}

template <typename T> {DEVICE} void store_piece(const T *cells, int step, T *to)
{{
    Piece<T> piece;
    {UNROLL}
    for (unsigned p = 0; p < {PIECE} / sizeof(T); ++p)
        piece.at[p] = cells[p * step];
    __stcs((int4 *)to, piece.all);
}}
"""
ROWS = f"""
// The points of a warp, `size` numbers each, between memory without gaps and shared memory, where they begin `row` numbers
// apart, in different banks; where there are fewer than {WARP}, number by number.
template <int size, int row, typename T> {DEVICE} void load_rows(const T *from, T *rows, int lane, int count)
{{
    const int piece = {PIECE} / sizeof(T);
    if (count == {WARP}) {{
        {UNROLL}
        for (int first = 0; first < {WARP} * size; first += {WARP} * piece) {{
            const int k = first + piece * lane;
            if (size % piece == 0 || k < {WARP} * size)
                *(int4 *)&rows[k / size * row + k % size] = *(const int4 *)&from[k];
        }}
        return;
    }}
    #pragma unroll 1
    for (int k = lane; k < count * size; k += {WARP})
        rows[k / size * row + k % size] = from[k];
}}

template <int size, int row, typename T> {DEVICE} void store_rows(const T *rows, T *to, int lane, int count)
{{
    const int piece = {PIECE} / sizeof(T);
    if (count == {WARP}) {{
        {UNROLL}
        for (int first = 0; first < {WARP} * size; first += {WARP} * piece) {{
            const int k = first + piece * lane;
            if (size % piece == 0 || k < {WARP} * size)
                __stcs((int4 *)&to[k], *(const int4 *)&rows[k / size * row + k % size]);
        }}
        return;
    }}
    #pragma unroll 1
    for (int k = lane; k < count * size; k += {WARP})
        to[k] = rows[k / size * row + k % size];
}}
"""


class Wide(NamedTuple):
    """A kernel: its text, name and threads of a block, and how many points a thread takes.

    `together`: the arrays (inputs, then outputs) that must lie without gaps and begin at multiples of 16 bytes; points first
    where `rows`, else points last, and then every row of points must begin so. `passed`: how many strides go with each array.
    """

    text: str
    kernel: str
    block: int
    points: int
    together: frozenset[int]
    rows: bool
    passed: list[int]


def wide_kernel(plan: Plan, name: str, by_value: frozenset[int]) -> Wide | None:
    """The second kernel of a batch; None where there is none. Its text needs `point_kernel`'s before it."""
    if plan.kind != "batch":
        return None
    leaves = plan.program.leaves
    axes = cuda_leaf_axes(plan)
    rows = [k for k, leaf in enumerate(leaves) if axes[k] == 0 and math.prod(leaf.shape) > 1]
    return _rows(plan, name, by_value, rows) if rows else _pieces(plan, name, by_value)


def _pieces(plan: Plan, name: str, by_value: frozenset[int]) -> Wide | None:
    """The kernel of which a thread takes several points that lie side by side."""
    program, axes = plan.program, cuda_leaf_axes(plan)
    sides: list[Sequence[Leaf]] = [program.inputs, program.outputs]
    together = frozenset(k for k, axis in enumerate(axes) if axis is not None)
    leaves = plan.program.leaves
    points = PIECE // max((bytes_of_code(leaves[k].dtype) for k in together), default=PIECE)
    held = max(sum(math.prod(a.shape) * bytes_of_code(a.dtype) for a in side) for side in sides)
    empty = any(0 in leaf.shape for leaf in leaves)
    if not together or empty or points * held > HELD or program.operations() > OPERATIONS:
        return None
    kernel = _Pieces(plan, name_of(name), "pieces", by_value)
    kernel.points = points
    comment = f"// For points that lie last and without gaps: a thread takes {points}."
    if points == 1:
        comment = "// For points that lie last and without gaps."
    text = "\n".join([PIECES, comment, *kernel.lines()]) + "\n"
    return Wide(text, kernel.kernel, BLOCK, points, together, False, [len(kernel.strides(k)) for k in range(len(leaves))])


def _rows(plan: Plan, name: str, by_value: frozenset[int], rows: list[int]) -> Wide | None:
    """The kernel of which a warp moves its points through shared memory."""
    leaves = plan.program.leaves
    room = sum(_row(leaves[k]) * bytes_of_code(leaves[k].dtype) for k in rows)
    block = next((b for b in (BLOCK, BLOCK // 2, BLOCK // 4, WARP) if b * room <= SHARED), None)
    if block is None:
        return None
    kernel = _Rows(plan, name_of(name), "rows", by_value)
    kernel.share(rows, block)
    comment = "// For points that lie first and without gaps: a warp moves its points through shared memory."
    text = "\n".join([ROWS, comment, *kernel.lines()]) + "\n"
    return Wide(text, kernel.kernel, block, 1, frozenset(rows), True, [len(kernel.strides(k)) for k in range(len(leaves))])


class _Pieces(PointKernel):
    """The writer of a kernel of which a thread takes several points."""

    points = 1

    def strides(self, place: int) -> list[str]:
        found = super().strides(place)
        return found if self.axes[place] is None else found[1:]

    def cells(self, place: int) -> Moves:
        if place in self.by_value or self.axes[place] is None:
            return super().cells(place)
        leaf, given = self.leaves[place], place < len(self.inputs)
        local = self.names.fresh(f"{self.arrays[place]}_cells")
        count = math.prod(leaf.shape)
        size = f"{self.points} * {count}" if leaf.shape else str(self.points)
        declared = [f"{LANGUAGE.types[leaf.dtype]} {local}[{size}];"]
        copied = self.over_cells(place, self.copied(place, local, count))
        passed = f"&{local}[{count} * p]" if leaf.shape else f"{local}[p]" if given else f"&{local}[p]"
        return passed, declared, copied if given else [], [] if given else copied

    def copied(self, place: int, local: str, count: int) -> str:
        """The line that loads or stores a cell of all points; those of a point lie together in `local`."""
        array, given = self.arrays[place], place < len(self.inputs)
        cell, at = self.cell(place)
        beside = f" + {at}" if at else ""
        if self.points * bytes_of_code(self.leaves[place].dtype) == PIECE:
            near, far = f"&{local}[{cell}]" if cell else local, f"&{array}[i{beside}]"
            return f"load_piece({far}, {near}, {count});" if given else f"store_piece({near}, {count}, {far});"
        # Numbers of a narrower type than another array's fill no piece.
        near, far = f"{local}[{cell} + {count} * p]" if cell else f"{local}[p]", f"{array}[i + p{beside}]"
        return f"for (int p = 0; p < {self.points}; ++p) {f'{near} = {far}' if given else f'{far} = {near}'};"

    def called(self, passed: list[str]) -> list[str]:
        lines = super().called(passed)
        return [UNROLL, f"for (int p = 0; p < {self.points}; ++p)", *indented(lines)]

    def loop(self, body: list[str]) -> list[str]:
        return cuda_grid_loop("i", "n", body, points=self.points)


class _Rows(PointKernel):
    """The writer of a kernel of which a warp moves the points of some arrays through shared memory."""

    def share(self, rows: list[int], block: int) -> None:
        """Which arrays go through shared memory, and the threads of a block."""
        self.rows, self.block = rows, block
        self.shared = {place: self.names.fresh(f"{self.arrays[place]}_rows") for place in rows}
        self.warps = {place: self.names.fresh(f"{self.shared[place]}_of_warps") for place in rows}

    def strides(self, place: int) -> list[str]:
        return [] if place in self.rows else super().strides(place)

    def cells(self, place: int) -> Moves:
        if place not in self.rows:
            return super().cells(place)
        return f"&{self.shared[place]}[lane * {_row(self.leaves[place])}]", [], [], []

    def loop(self, body: list[str]) -> list[str]:
        declared, loads, stores = [], [], []
        for place in self.rows:
            leaf, name, rows = self.leaves[place], self.arrays[place], self.shared[place]
            size, row = math.prod(leaf.shape), _row(leaf)
            kind = LANGUAGE.types[leaf.dtype]
            declared += [
                f"alignas({PIECE}) __shared__ {kind} {self.warps[place]}[{self.block // WARP}][{WARP} * {row}];",
                f"{kind} *const {rows} = {self.warps[place]}[warp];",
            ]
            if place < len(self.inputs):
                loads.append(f"load_rows<{size}, {row}>(&{name}[{size} * first], {rows}, lane, count);")
            else:
                stores.append(f"store_rows<{size}, {row}>({rows}, &{name}[{size} * first], lane, count);")
        moved = [
            f"const int count = n - first < {WARP} ? n - first : {WARP};",
            *loads,
            "__syncwarp();",
            "const long long i = first + lane;",
            *["if (i < n) {", *indented(body), "}"],
            "__syncwarp();",
            *stores,
        ]
        return [
            f"const int lane = threadIdx.x % {WARP}, warp = threadIdx.x / {WARP};",
            *declared,
            *cuda_grid_loop("first", "n", moved, first=f"(long long)blockIdx.x * blockDim.x + {WARP} * warp"),
        ]


def _row(leaf: Leaf) -> int:
    """The numbers from a row of shared memory to the next: rows of whole pieces are an odd number of pieces apart, so that
    neighbouring rows lie in different banks; other rows lie as in memory."""
    size = math.prod(leaf.shape)
    piece = PIECE // bytes_of_code(leaf.dtype)
    return (size // piece | 1) * piece if size % piece == 0 else size

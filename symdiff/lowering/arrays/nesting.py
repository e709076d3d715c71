"""Kernel to Nest: loops over as few axes as can be, and for every operand and result the cells that it covers.

Assumes a kernel over a domain with cells. Guarantees that results in one array are in an order in which each cell is filled
before anything is added to it, going up along the axes. An operand that is no plain view is copied first.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Call, Kernel, Sink
from symdiff.lowering.arrays.layouts import (
    Layout,
    Strides,
    broadcast_strides,
    contiguous_strides,
    layout,
    merge_domain_axes,
    region,
)
from symdiff.lowering.program import ASSEMBLE, Input, Output, Program, cell_program, domain_size, key_of
from symdiff.lowering.table import Table
from symdiff.vocabulary.heads import HEADS, Shape, head_slices
from symdiff.vocabulary.traits import operations

MOVED = 256  # cells up to which moves are written one by one; cells of their own are so in the program, too
_MOVING = operations("written_out")


class Rows(NamedTuple):
    """Places that a table tells: `table` is one of `Nest.tables`, read with these strides over the domain; each of its numbers
    is one of `many` rows, `step` cells apart.
    """

    table: int
    strides: Strides
    step: int
    many: int


class Cells(NamedTuple):
    """Where an operand or a result lies: the place in `Nest.arrays`, dtype code, first cell, strides over the domain."""

    array: int
    code: str
    offset: int
    strides: Strides
    rows: Rows | None = None

    def is_line(self) -> bool:
        """Whether neighbours along the last axis lie side by side."""
        return self.strides[-1] == 1 and (self.rows is None or not self.rows.strides[-1])

    def is_fixed(self) -> bool:
        """Whether the last axis stays at one cell."""
        return not self.strides[-1] and (self.rows is None or not self.rows.strides[-1])


class Result(NamedTuple):
    """What becomes of an output of the kernel's program: "store", "add" to what is there, "scatter", which adds to zeros, or
    the "sum", "max" or "min" over axes of stride 0.

    `behind`: for an "add", how many cells it lies behind the result just before it, which fills the same array or adds to
    it, where the cells that it reaches first are zero; 0 where the cells are read from memory.
    """

    kind: str
    output: int
    cells: Cells
    behind: int = 0


class Held(NamedTuple):
    """An array that a kernel works on: the node whose value it holds, and whether it is a copy of a view."""

    value: int
    copied: bool = False


@dataclass(slots=True)
class Nest:
    """A scalar program over the cells of a domain."""

    program: Program
    domain: Shape
    operands: list[Cells]
    results: list[Result]
    arrays: list[Held]
    tables: tuple[tuple[int, ...], ...] = ()


def nest_content(nest: Nest) -> tuple[object, ...]:
    """A key under which two nests are equal exactly when they do the same with the arrays that they are given."""
    outputs = tuple((o.dtype, o.cells) for o in nest.program.outputs)
    others = [getattr(nest, name) for name in nest.__slots__ if name not in ("program", "arrays")]
    return (
        tuple(map(key_of, nest.program.nodes)),
        outputs,
        len(nest.arrays),
        *(tuple(o) if isinstance(o, list) else o for o in others),
    )


def nest(nodes: list[Node], kernel: Kernel, nearest: int) -> Nest:
    """The loops of a kernel. Results up to `nearest` cells apart in one array are handed on without reading memory."""
    held: dict[Held, int] = {}

    def place(value: int, copied: bool = False) -> int:
        return held.setdefault(Held(value, copied), len(held))

    domain = kernel.domain or (1,)
    lines: list[tuple[int, str, Layout]] = []
    for value in kernel.operands:
        node = nodes[value]
        found = layout(nodes, value)
        own = Layout(value, 0, contiguous_strides(node.shape)) if found is None else found
        strides = broadcast_strides(own.strides, node.shape, domain)
        lines.append((place(own.base, found is None), node.dtype, own._replace(strides=strides)))
    for sink in kernel.sinks:
        lines.append((place(sink.value), nodes[sink.value].dtype, _target(nodes[sink.value], sink, domain)))
    sizes, strides_of = merge_domain_axes(domain, [found.strides for _, _, found in lines])
    cells = [Cells(at, code, found.offset, s) for (at, code, found), s in zip(lines, strides_of, strict=True)]
    count = len(kernel.operands)
    _check(nodes, kernel, sizes, cells, list(held))
    results = _ordered(kernel, cells[count:], nearest if len(sizes) == 1 and sizes[0] > 1 else 0)
    return Nest(kernel.program, sizes, cells[:count], results, list(held))


def _check(nodes: list[Node], kernel: Kernel, sizes: Shape, cells: list[Cells], arrays: list[Held]) -> None:
    """Raise `InvariantError` where loops would leave an array, or leave cells of their own result unwritten."""
    for place, _, offset, strides, _ in cells:
        reach = [s * (n - 1) for s, n in zip(strides, sizes, strict=True)]
        first, last = offset + sum(r for r in reach if r < 0), offset + sum(r for r in reach if r > 0)
        if domain_size(sizes) and not (first >= 0 and last < max(1, domain_size(nodes[arrays[place].value].shape))):
            raise InvariantError(f"{kernel.domain}: cells {first} to {last} of an array {nodes[arrays[place].value].shape}")
    for sink in kernel.sinks:
        if sink.kind == "store" and domain_size(nodes[sink.value].shape) != domain_size(kernel.domain):
            raise InvariantError(f"a loop over {kernel.domain} fills an array {nodes[sink.value].shape}")


def product_nest(nodes: list[Node], value: int) -> Nest | None:
    """The loops of products of two matrices, cells in one line innermost; None where an operand needs a copy."""
    node, operands = nodes[value], nodes[value].operands
    (*_, rows, inner), (*_, columns) = (nodes[o].shape for o in operands)
    left, right = (layout(nodes, o) for o in operands)
    if left is None or right is None:
        return None
    whole, outer = Layout(value, 0, contiguous_strides(node.shape)), node.shape[:-2]
    held = list(dict.fromkeys(Held(found.base) for found in (left, right, whole)))
    order = (0, 1, 2) if right.strides[-1] == 1 and columns > 1 else (0, 2, 1)  # of rows, cells that are summed, columns

    def cells(code: str, found: Layout, shape: Shape, strides: Strides) -> Cells:
        before = broadcast_strides(found.strides[:-2], shape[:-2], outer)
        return Cells(held.index(Held(found.base)), code, found.offset, (*before, *(strides[axis] for axis in order)))

    shapes, codes = [nodes[o].shape for o in operands], tuple(nodes[o].dtype for o in operands)
    factors = [
        cells(codes[0], left, shapes[0], (*left.strides[-2:], 0)),
        cells(codes[1], right, shapes[1], (0, *right.strides[-2:])),
    ]
    total = Result("sum", 0, cells(node.dtype, whole, node.shape, (whole.strides[-2], 0, whole.strides[-1])))
    program, sizes = cell_program("mul", codes, node.dtype), (rows, inner, columns)
    return Nest(program, (*outer, *(sizes[axis] for axis in order)), factors, [total], held)


def picking_nest(nodes: list[Node], value: int) -> Nest | None:
    """The loops of rows that are taken from an array, or added to one, at places known ahead; None where an operand needs a
    copy, or rows do not lie in one line.
    """
    node = nodes[value]
    if node.op not in ("take", "scatter") or node.dtype == "?":
        return None
    source, found = nodes[node.operands[0]], layout(nodes, node.operands[0])
    if found is None or source.dtype != node.dtype:
        return None
    indices = node.params["indices"]
    inner = (source if node.op == "take" else node).shape[1:]
    row, count = domain_size(inner), indices.size
    own = found.strides[-len(inner) :] if inner else ()
    if not row * count or own != contiguous_strides(inner):
        return None
    if node.op == "take":
        whole, picked, step, size = Layout(value, 0, (row, 1)), found, found.strides[0], source.shape[0]
    else:
        outer = found.strides[: indices.ndim]
        if any(s != n * outer[-1] for s, n in zip(outer, contiguous_strides(indices.shape), strict=True)):
            return None
        whole, picked, step, size = found._replace(strides=(outer[-1], 1)), Layout(value, 0, ()), row, node.shape[0]
    domain, strides = ((count, row), (0, 1)) if row > 1 else ((count,), (0,))
    held = list(dict.fromkeys([Held(found.base), Held(value)]))
    rows = Rows(0, (1, 0)[: len(domain)], step, size)
    plain = Cells(held.index(Held(whole.base)), node.dtype, whole.offset, whole.strides[: len(domain)])
    moving = Cells(held.index(Held(picked.base)), node.dtype, picked.offset, strides, rows)
    result = Result("store", 0, plain) if node.op == "take" else Result("scatter", 0, moving)
    operand = moving if node.op == "take" else plain
    program = cell_program("", (node.dtype,), node.dtype)
    return Nest(program, domain, [operand], [result], held, (tuple(indices.ravel().tolist()),))


def moving_nest(nodes: list[Node], call: Call) -> Nest | None:
    """The moves of few cells into a new array, or parts added to an assembled one, each cell by itself; None where there are
    more, or an operand needs a copy.
    """
    node = nodes[call.value]
    parts = _added_cells(node, call) if node.op == ASSEMBLE else _moved_cells(nodes, node)
    if parts is None or node.dtype == "?":
        return None
    held: dict[Held, int] = {}
    operands: list[Cells] = []
    table = Table()
    inputs: list[Input] = []
    outputs: list[Output] = []
    results: list[Cells] = []

    def read(value: int, cell: int) -> int | None:
        source = nodes[value]
        if source.op == "const" and source.shape == ():
            return table.put("const", (), source.dtype, source.params, "", True)
        found = layout(nodes, value)
        if found is None or source.dtype != node.dtype:
            return None
        places = np.unravel_index(cell, source.shape)
        offset = found.offset + sum(int(i) * s for i, s in zip(places, found.strides, strict=True))
        own = Cells(held.setdefault(Held(found.base), len(held)), node.dtype, offset, (0,))
        if own not in operands:
            operands.append(own)
            inputs.append(Input(f"x{len(inputs)}", (), node.dtype))
        return table.put("input", (), node.dtype, (operands.index(own), 0), "", True)

    for cell, sources in enumerate(parts):
        total: int | None = None
        for value, place in sources:
            found = read(value, place)
            if found is None:
                return None
            total = found if total is None else table.put("add", (total, found), node.dtype)
        if total is None:
            if node.op == ASSEMBLE:
                continue
            total = table.constant(0.0, node.dtype)
        outputs.append(Output(f"y{cell}", (), node.dtype, (total,)))
        results.append(Cells(held.setdefault(Held(call.value), len(held)), node.dtype, cell, (0,)))
    kind = "add" if node.op == ASSEMBLE else "store"
    program = Program("cells", tuple(inputs), tuple(outputs), table.nodes)
    return Nest(program, (1,), operands, [Result(kind, k, c) for k, c in enumerate(results)], list(held))


def _added_cells(node: Node, call: Call) -> list[list[tuple[int, int]]] | None:
    """For each cell of an assembled array the cells (of which node, the how manieth) that are added to it."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(domain_size(node.shape))]
    if len(found) > MOVED:
        return None
    places = np.arange(len(found)).reshape(node.shape)
    for value, key in call.pending:
        for cell, place in enumerate(places[head_slices(key)].ravel().tolist()):
            found[place].append((value, cell))
    return found


def _moved_cells(nodes: list[Node], node: Node) -> list[list[tuple[int, int]]] | None:
    """The same for an operation that moves cells: what it makes of arrays of their numbers, 0 where it makes a zero."""
    sizes = [domain_size(nodes[o].shape) for o in node.operands]
    if node.op not in _MOVING or (node.op != "cells" and max(domain_size(node.shape), *sizes) > MOVED):
        return None
    own = [(o, k) for o, size in zip(node.operands, sizes, strict=True) for k in range(size)]
    ends = np.cumsum([0, *sizes])
    numbered = [np.arange(a + 1, b + 1).reshape(nodes[o].shape) for o, a, b in zip(node.operands, ends, ends[1:], strict=False)]
    moved = HEADS[node.op].function(*numbered, **node.params)
    return [[own[number - 1]] if number else [] for number in np.asarray(moved).ravel().tolist()]


def _target(node: Node, sink: Sink, domain: Shape) -> Layout:
    """The cells that a sink fills or adds to."""
    if sink.kind in ("sum", "max", "min"):
        kept = [axis for axis in range(len(domain)) if axis not in sink.axes]
        strides = dict(zip(kept, contiguous_strides(tuple(domain[axis] for axis in kept)), strict=True))
        return Layout(sink.value, 0, tuple(strides.get(axis, 0) for axis in range(len(domain))))
    whole = Layout(sink.value, 0, contiguous_strides(node.shape or domain))
    return whole if sink.kind == "store" else region(whole, sink.key)


def _ordered(kernel: Kernel, cells: list[Cells], nearest: int) -> list[Result]:
    """The results, those of one array from its end on: the region that is put lies farthest."""
    kinds = {"put": "store", "add": "add"}
    found = [Result(sink.kind, k, cells[k]) for k, sink in enumerate(kernel.sinks) if sink.kind not in ("put", "add")]
    shared = sorted(
        (k for k, sink in enumerate(kernel.sinks) if sink.kind in ("put", "add")),
        key=lambda k: (cells[k].array, kernel.sinks[k].kind == "add", -cells[k].offset),
    )
    fresh = -1  # the array whose cells are known from the results before
    for k in shared:
        own, kind = cells[k], kinds[kernel.sinks[k].kind]
        behind = found[-1].cells.offset - own.offset if kind == "add" and own.array == fresh else 0
        if kind == "store":
            fresh = own.array if own.strides == (1,) else -1
        elif not 0 < behind <= nearest:
            behind, fresh = 0, -1
        found.append(Result(kind, k, own, behind))
    return found

"""Operations on whole arrays in nests: formulas for a cell, and parts that are written one after the other.

Guarantees the evaluator's order of operations. Refuses, with `BackendError`, operations that have neither.
"""

import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from symdiff.codegen.nest_spans import Spans, whole_spans
from symdiff.codegen.nest_values import Values, Write, Writer
from symdiff.codegen.nest_words import Buffer, Cells, Formula, Index, Matrix, Number
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, cell_program
from symdiff.vocabulary.extents import Count, Extent, Shape, has_extents
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations

Term = Callable[[Index, Index], Number]  # of a sum, by the cell's index and that of the term
Head = Callable[[Values, Node], Formula]
Part = Callable[..., None]  # of a nest, a node, what writes, and whether it adds

# -- formulas for a cell


def _reduced(nest: Values, node: Node) -> tuple[Shape, Term]:
    """The shape that an operation takes together, and a cell by its index outside and within that."""
    source, axes = nest.operand(node), node.params["axes"]
    kept = [a for a in range(len(source.shape)) if a not in axes]

    def cell(index: Index, inner: Index) -> Number:
        where = dict(zip([*kept, *axes], [*index, *inner], strict=True))
        return source.at(tuple(where[a] for a in range(len(source.shape))))

    return tuple(source.shape[a] for a in axes), cell


def _summed(nest: Values, node: Node, shape: Shape, spans: Spans, term: Term) -> Formula:
    """The formula of cells that are sums of terms over a shape, zero outside of `spans`."""

    def at(index: Index) -> Number:
        total = nest.words.buffer("", (), node.dtype)
        nest.words.clear(total)
        each_within(nest, shape, spans, lambda inner: nest.words.store(total, (), term(index, inner), True))
        return nest.words.load(total, ())

    return at


def each_within(nest: Values, shape: Shape, spans: Spans, action: Callable[[Index], None]) -> None:
    """Do something for the cells of a shape that are between places along each axis; for all, where these are few."""
    words = nest.words
    if spans == whole_spans(shape) or (not has_extents(shape) and math.prod(shape) <= words.few):
        words.each(shape, action)
        return

    def along(axis: int, before: Index) -> None:
        start, stop = spans[axis]
        with words.rounds("i", stop, start=start) as i:
            (action if axis == len(shape) - 1 else functools.partial(along, axis + 1))((*before, i))

    along(0, ())


def _formula_sum(nest: Values, node: Node) -> Formula:
    axes, spans = node.params["axes"], nest.spans.of(node.operands[0])
    shape, term = _reduced(nest, node)
    return _summed(nest, node, shape, tuple(spans[axis] for axis in axes), term)


def _joining(op: str, start: Any = None) -> Head:
    """The formula of cells that an operation on two numbers joins, one after the other, from `start` or the first one on."""

    def formula(nest: Values, node: Node) -> Formula:
        (shape, cell), join = _reduced(nest, node), _joined(nest, node, op)

        def at(index: Index) -> Number:
            total = nest.words.buffer("", (), node.dtype)
            nest.words.store(total, (), cell(index, (0,) * len(shape)) if start is None else _number(nest, node, start))
            nest.words.each(
                shape, lambda inner: nest.words.store(total, (), join(nest.words.load(total, ()), cell(index, inner)))
            )
            return nest.words.load(total, ())

        return at

    return formula


def _joined(nest: Values, node: Node, op: str) -> Callable[[Number, Number], Number]:
    """An operation on what is there and a cell of the node's operand."""
    codes = node.dtype, nest.program.nodes[node.operands[0]].dtype
    return lambda a, b: _applied(nest, op, codes, node.dtype, a, b)


def _applied(nest: Values, op: str, codes: tuple[str, ...], code: str, *numbers: Number) -> Number:
    """An operation on numbers of some dtypes."""
    return nest.words.cell(cell_program(op, codes, code), len(codes), dict(enumerate(numbers)))


def _product_terms(nest: Values, node: Node) -> Term:
    """The products that a cell of a product of two arrays is the sum of."""
    first, second = node.operands
    lined = (
        node.shape[-1:] not in ((), (1,)) and nest.program.nodes[first].shape[-1] != 1
    )  # so that the second is read in lines
    a, b = _seen(nest, first), nest.in_memory(nest.values[second]) if lined else _seen(nest, second)

    def term(index: Index, inner: Index) -> Number:
        column, index = (index[-1:], index[:-1]) if len(b.shape) > 1 else ((), index)
        line, index = (index[-1:], index[:-1]) if len(a.shape) > 1 else ((), index)
        cells = []
        for array, own in ((a, (*line, *inner)), (b, (*inner, *column))):
            before = index[len(index) - len(array.shape) + len(own) :]
            cells.append(array.at((*(0 if n == 1 else i for n, i in zip(array.shape, before, strict=False)), *own)))
        return _applied(nest, "mul", (a.dtype, b.dtype), node.dtype, *cells)

    return term


def _seen(nest: Values, position: int) -> Cells:
    """An array in memory, or cells of one in another order."""
    whole = position
    while nest.program.nodes[whole].op in _REORDERED and nest.values[whole].buffer is None:
        whole = nest.program.nodes[whole].operands[0]
    value = nest.values[whole]
    shown = isinstance(value, Cells) and value.buffer is not None
    return nest.values[position] if shown else nest.in_memory(nest.values[position])


def _formula_matmul(nest: Values, node: Node) -> Formula:
    """A product with a vector."""
    inner = nest.program.nodes[node.operands[0]].shape[-1:]
    return _summed(nest, node, inner, nest.spans.of_terms(node), _product_terms(nest, node))


def _formula_gather(nest: Values, node: Node) -> Formula:
    source = nest.operand(node)
    row, axes = _row_numbers(nest, node, source.shape[0])
    return lambda index: source.at((row(index[: len(axes)]), *index[len(axes) :]))


def _row_numbers(nest: Values, node: Node, size: Count) -> tuple[Callable[[Index], Count], Shape]:
    """The rows, of `size`, that an operand or a parameter tells, and over which shape it does."""
    if len(node.operands) > 1:
        return nest.row_number(node.operands[1], size), nest.program.nodes[node.operands[1]].shape
    return _rows(nest, node.params["indices"], size), node.params["indices"].shape


def _rows(nest: Values, indices: np.ndarray, size: Count) -> Callable[[Index], Count]:
    """The rows that whole numbers known before tell."""
    if isinstance(size, Extent) and np.any(np.asarray(indices) < 0):
        raise BackendError(f"{nest.program.name}: rows {indices.ravel()[:3]}... of an array whose size a call tells")
    found = np.asarray(indices) if isinstance(size, Extent) else np.asarray(indices) % max(size, 1)
    tables: list[Buffer] = []

    def row(index: Index) -> Count:
        if not has_extents(index):
            return int(found[index])
        if not tables:
            tables.append(nest.words.table(found.astype(float)))
        return nest.words.whole(nest.words.load(tables[0], index), size)

    return row


def _formula_take_along(nest: Values, node: Node) -> Formula:
    source, axis = nest.operand(node), node.params["axis"]
    place = nest.row_number(node.operands[1], source.shape[axis])
    return lambda index: source.at((*index[:axis], place(index), *index[axis + 1 :]))


def _formula_searchsorted(nest: Values, node: Node) -> Formula:
    """The place among sorted numbers by halves, each step kept where all before it are less; NaN is the largest."""
    rows, (code, other) = nest.in_memory(nest.operand(node)), (nest.program.nodes[o].dtype for o in node.operands)
    (many,) = rows.shape
    less, below = ("lt", "and") if node.params["side"] == "left" else ("le", "or")

    def at(index: Index) -> Number:
        words = nest.words
        wanted = words.named("", nest.value_at(node.operands[1], index), other)
        place, step = (words.buffer(name, (), node.dtype) for name in ("place", "step"))
        words.store(place, (), _number(nest, node, 0.0))
        words.store(step, (), _number(nest, node, float(1 << many.bit_length())))
        missing = _applied(nest, "ne", (other, other), "?", wanted, wanted)
        with words.rounds("k", many.bit_length()):
            words.store(step, (), _applied(nest, "mul", ("d", "d"), "d", _number(nest, node, 0.5), words.load(step, ())))
            after = _applied(nest, "add", ("d", "d"), "d", words.load(place, ()), words.load(step, ()))
            after = words.named("after", after, "d")
            last = _applied(nest, "sub", ("d", "d"), "d", after, _number(nest, node, 1.0))
            cell = rows.at((words.whole(last, many),))
            there = _applied(nest, "eq", (code, code), "?", cell, cell)
            before = missing if below == "or" else _applied(nest, "and", ("?", "?"), "?", missing, there)
            before = _applied(nest, "or", ("?", "?"), "?", before, _applied(nest, less, (code, other), "?", cell, wanted))
            within = _applied(nest, "le", ("d", "d"), "?", after, _number(nest, node, float(many)))
            before = _applied(nest, "and", ("?", "?"), "?", before, within)
            kept = _applied(nest, "select", ("?", "d", "d"), "d", before, after, words.load(place, ()))
            words.store(place, (), kept)
        return words.load(place, ())

    return at


def _placing(op: str) -> Head:
    """The formula of the first place along an axis where a comparison with those before holds; NaN wins."""

    def formula(nest: Values, node: Node) -> Formula:
        source, axis = nest.operand(node), node.params["axis"]
        code = "d" if source.dtype == "?" else source.dtype

        def cell(index: Index, k: Count) -> Number:
            found = source.at((*index[:axis], k, *index[axis:]))
            return found if code == source.dtype else _applied(nest, "cast", ("?",), code, found)

        def at(index: Index) -> Number:
            words = nest.words
            best, place = words.buffer("best", (), code), words.buffer("place", (), node.dtype)
            words.store(best, (), cell(index, 0))
            words.store(place, (), _number(nest, node, 0.0))

            def look(inner: Index) -> None:
                value, before = words.named("", cell(index, inner[0]), code), words.load(best, ())
                missing = _applied(nest, "ne", (code, code), "?", value, value)
                known = _applied(nest, "eq", (code, code), "?", before, before)
                missing = _applied(nest, "and", ("?", "?"), "?", missing, known)
                better = _applied(nest, "or", ("?", "?"), "?", missing, _applied(nest, op, (code, code), "?", value, before))
                found = _applied(nest, "select", ("?", "d", "d"), "d", better, words.real(inner[0]), words.load(place, ()))
                words.store(place, (), found)
                words.store(best, (), _applied(nest, "select", ("?", code, code), code, better, value, before))

            nest.words.each(source.shape[axis : axis + 1], look)
            return nest.words.load(place, ())

        return at

    return formula


def _formula_diagonal(nest: Values, node: Node) -> Formula:
    source = nest.operand(node)
    return lambda index: source.at((*index, index[-1]))


def _formula_reshape(nest: Values, node: Node) -> Formula:
    source = nest.operand(node)
    if not isinstance(source, Cells):
        return lambda index: source
    if not node.shape:
        return lambda index: source.at((0,) * len(source.shape))
    buffer = nest.in_memory(source).buffer
    assert buffer is not None
    return nest.words.cells(buffer._replace(shape=node.shape)).at


def _formula_getitem(nest: Values, node: Node) -> Formula:
    source = nest.operand(node)
    moved = _region(node.params["key"], source.shape)
    return lambda index: source.at(moved(index))


def _formula_transpose(nest: Values, node: Node) -> Formula:
    source, axes = nest.operand(node), node.params["axes"]
    return lambda index: source.at(tuple(index[axes.index(a)] for a in range(len(axes))))


def _formula_broadcast(nest: Values, node: Node) -> Formula:
    return lambda index: nest.value_at(node.operands[0], index)


def _region(key: Any, shape: Shape) -> Callable[[Index], Index]:
    """The cells of an array by those of a region."""
    steps = []
    for n, (start, stop, step) in zip(shape, (*key, *((0, None, 1),) * (len(shape) - len(key))), strict=True):
        if not has_extents((n, start, stop)):
            start = range(n)[start:stop:step].start
        steps.append((start, step))
    return lambda index: tuple(start + step * i for i, (start, step) in zip(index, steps, strict=True))


# -- parts that are written one after the other


def _onto_zeros(part: Part) -> Part:
    """A part of an array whose other cells are zero; where it is added, nothing else changes."""

    def whole(nest: Values, node: Node, write: Write, add: bool = False) -> None:
        if not add and isinstance(write, Writer) and not write.before:
            nest.words.clear(write.buffer)
        elif not add:
            shape = () if nest.arrays else node.shape
            nest.words.each(shape, lambda index: write(index, _number(nest, node, 0.0), False))
        part(nest, node, write, add)

    return whole


def _onto_first(part: Part) -> Part:
    """A part of an array whose other cells are those of the first operand; what is added is made in memory of its own."""

    def whole(nest: Values, node: Node, write: Write, add: bool = False) -> None:
        if add:
            other = nest.words.buffer("", node.shape, node.dtype)
            nest.words.reserve(other, node.shape[0])
            whole(nest, node, Writer(nest.words, other))
            nest.fill(nest.words.cells(other), write, True)
        else:
            nest.fill(nest.operand(node), write)
            part(nest, node, write)

    return whole


@_onto_zeros
def _put(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    region, moved = HEADS["getitem"].shape(node.shape, key=node.params["key"]), _region(node.params["key"], node.shape)
    nest.words.each(region, lambda index: write(moved(index), nest.value_at(node.operands[0], index), add))


@_onto_zeros
def _scatter(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    rows = node.operands[0]
    row, axes = _row_numbers(nest, node, node.params["size"])
    n, own = len(axes), nest.program.nodes[rows].shape
    shape = (*axes, *own[n:])
    spans = nest.spans.of(rows) if own == shape else whole_spans(shape)
    each_within(nest, shape, spans, lambda i: write((row(i[:n]), *i[n:]), nest.value_at(rows, i), True))


def _matrix(nest: Values, position: int) -> Matrix:
    """An array with two axes in memory, or the transpose of one."""
    node = nest.program.nodes[position]
    turned = node.op == "transpose" and nest.values[position].buffer is None
    found = nest.in_memory(nest.values[node.operands[0] if turned else position])
    assert found.buffer is not None
    many = found.shape[1]
    return Matrix(found.buffer, node.shape, (1, many) if turned else (many, 1))


def _matmul(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    """A product of matrices."""
    inner = nest.program.nodes[node.operands[0]].shape[-1:]
    if 1 not in (node.shape[-1], *inner):
        _rows_added(nest, node, write, add)
        return
    term = _product_terms(nest, node)
    cell = _summed(nest, node, inner, nest.spans.of_terms(node), term) if inner != (1,) else lambda index: term(index, (0,))
    spans = nest.spans.of_product(node) if add else whole_spans(node.shape)
    each_within(nest, node.shape, spans, lambda index: write(index, cell(index), add))


@_onto_zeros
def _rows_added(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    """The same, cells in one line added to innermost, unless the target has a function for it."""
    terms, spans = nest.spans.of_terms(node), nest.spans.of_product(node)
    inner = nest.program.nodes[node.operands[0]].shape[-1:]
    if len(node.shape) == 2 and isinstance(write, Writer) and not has_extents(node.shape):
        start = nest.words.flat(write.buffer, (*write.before, 0, 0)) if write.before else write.buffer.start
        target = Buffer(write.buffer.name, node.shape, write.buffer.dtype, start)
        first, second = (_matrix(nest, o) for o in node.operands)
        if nest.words.multiply(target, first, second, (*spans, *terms)):
            return
    term = _product_terms(nest, node)

    def line(before: Index) -> None:
        def one(k: Index) -> None:
            each_within(nest, node.shape[-1:], spans[-1:], lambda j: write((*before, *j), term((*before, *j), k), True))

        each_within(nest, inner, terms, one)

    each_within(nest, node.shape[:-1], spans[:-1], line)


def _concatenate(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    axis, start = node.params["axis"], 0
    for operand in node.operands:
        before, code = start, nest.program.nodes[operand].dtype

        def moved(index: Index, value: Number, add: bool, before: Count = before, code: str = code) -> None:
            write((*index[:axis], index[axis] + before, *index[axis + 1 :]), _as(nest, node, value, code), add)

        nest.fill(nest.values[operand], moved, add)
        start = start + nest.program.nodes[operand].shape[axis]


def _cells(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    for place, index in enumerate(itertools.product(*map(range, node.shape))):
        write(index, _typed(nest, node, place, ()), add)


@_onto_zeros
def _embed(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    nest.words.each(node.shape[:-1], lambda index: write((*index, index[-1]), nest.value_at(node.operands[0], index), add))


def _put_along(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    axis = node.params["axis"]
    place = nest.row_number(node.operands[1], node.shape[axis])

    def one(index: Index) -> None:
        write((*index[:axis], place(index), *index[axis + 1 :]), nest.value_at(node.operands[0], index), add)

    nest.words.each(node.shape, one)


def _set(nest: Values, node: Node, write: Write) -> None:
    region = HEADS["getitem"].shape(node.shape, key=node.params["key"])
    moved = _region(node.params["key"], node.shape)
    nest.words.each(region, lambda index: write(moved(index), _typed(nest, node, 1, index), False))


def _assign_at(nest: Values, node: Node, write: Write) -> None:
    row, axes = nest.row_number(node.operands[1], node.shape[0]), nest.program.nodes[node.operands[1]].shape
    n = len(axes)
    nest.words.each((*axes, *node.shape[1:]), lambda i: write((row(i[:n]), *i[n:]), _typed(nest, node, 2, i), False))


def _set_at(nest: Values, node: Node, write: Write) -> None:
    indices = node.params["indices"].ravel()
    if len(node.shape) > 1 and has_extents(node.shape):
        raise BackendError(f"{nest.program.name}: single cells of an array whose sizes a call tells")
    places = [indices] if len(node.shape) == 1 else np.unravel_index(indices, node.shape)
    rows = [_rows(nest, cells, n) for cells, n in zip(places, node.shape, strict=True)]
    nest.words.each(indices.shape, lambda i: write(tuple(row(i) for row in rows), _typed(nest, node, 1, i), False))


def _running(op: str, start: float) -> Part:
    """What writes the running totals along an axis."""

    def part(nest: Values, node: Node, write: Write, add: bool = False) -> None:
        axis, join, source = node.params["axis"], _joined(nest, node, op), nest.operand(node)

        def line(outside: Index) -> None:
            total = nest.words.buffer("", (), node.dtype)
            nest.words.store(total, (), _number(nest, node, start))

            def one(k: Index) -> None:
                index = (*outside[:axis], *k, *outside[axis:])
                nest.words.store(total, (), join(nest.words.load(total, ()), source.at(index)))
                write(index, nest.words.load(total, ()), add)

            nest.words.each(node.shape[axis : axis + 1], one)

        nest.words.each((*node.shape[:axis], *node.shape[axis + 1 :]), line)

    return part


def _typed(nest: Values, node: Node, place: int, index: Index) -> Number:
    """A cell of an operand as one of the node's dtype."""
    return _as(nest, node, nest.value_at(node.operands[place], index), nest.program.nodes[node.operands[place]].dtype)


def _as(nest: Values, node: Node, value: Number, code: str) -> Number:
    """A number of some dtype as one of the node's."""
    return value if code == node.dtype else _applied(nest, "cast", (code,), node.dtype, value)


def _number(nest: Values, node: Node, value: Any) -> Number:
    """A number of a node's dtype."""
    kind = {"?": bool, "D": complex, "F": complex}.get(node.dtype, float)
    return nest.words.cell(Program("", (), (), [Node("const", (), (), node.dtype, kind(value))]), 0, {})


FORMULAS: dict[str, Head] = {
    "sum": _formula_sum, "matmul": _formula_matmul, "gather": _formula_gather, "reshape": _formula_reshape,
    "getitem": _formula_getitem, "transpose": _formula_transpose, "broadcast_to": _formula_broadcast, "take": _formula_gather,
    "diagonal": _formula_diagonal, "amax": _joining("max"), "amin": _joining("min"), "prod": _joining("mul", 1.0),
    "any": _joining("or", False), "all": _joining("and", True), "searchsorted": _formula_searchsorted,
    "argmax": _placing("gt"), "argmin": _placing("lt"), "take_along": _formula_take_along,
}  # fmt: skip
ADDING: dict[str, Part] = {"put": _put, "scatter_at": _scatter, "scatter": _scatter, "embed": _embed}
REPLACING: dict[str, Callable[[Values, Node, Write], None]] = {"set": _set, "set_at": _set_at, "assign_at": _assign_at}


def placed(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    """Cells of a whole array, in the words of the target."""
    nest.arrays.place(nest, node, write, add)


PLACED = {op: _onto_zeros(placed) for op in ADDING} | {op: _onto_first(placed) for op in REPLACING}
PICKING = operations("picks", "gathers")
VIEWS = PICKING | operations("rearranges") | {"broadcast_to", "diagonal"}
_PARTS: dict[str, Part] = {
    "matmul": _matmul, "concatenate": _concatenate, "cells": _cells, "put_along": _put_along, **ADDING,
    **{op: _onto_first(part) for op, part in REPLACING.items()},
    "cumsum": _running("add", 0.0), "cumprod": _running("mul", 1.0),
}  # fmt: skip


def _called(nest: Values, node: Node, write: Write, add: bool = False) -> None:
    """What NumPy writes, into memory of its own where it is not a whole array that is written."""
    operands: list[Buffer] = []
    for o in node.operands:
        value = nest.values[o]
        if isinstance(value, Cells):
            memory = nest.in_memory(value).buffer
            assert memory is not None
        else:
            memory = nest.words.buffer("", (), nest.program.nodes[o].dtype)
            nest.words.store(memory, (), value)
        operands.append(memory)
    is_whole = isinstance(write, Writer) and not write.before and not add and write.buffer.shape == node.shape
    target = write.buffer if is_whole else nest.words.buffer("", node.shape, node.dtype)  # type: ignore[attr-defined]
    nest.words.call(nest.program, node, target, operands)
    if not is_whole:
        nest.fill(nest.words.cells(target) if node.shape else nest.words.load(target, ()), write, add)


def part_of_array(program: Program, node: Node) -> Part | None:
    """What writes an array part by part, None where it has a formula for a cell."""
    if node.op == "matmul" and len(program.nodes[node.operands[1]].shape) < 2:
        return None
    return _called if is_called(node.op) else _PARTS.get(node.op)


_REORDERED = operations("picks", "rearranges") | {"broadcast_to"}
_MOVING = operations("picks", "rearranges", "gathers") | {"broadcast_to"}
COSTLY = (operations("libm", "slow") - operations("cheap")) | (FORMULAS.keys() - _MOVING)  # elementary functions, and sums


def is_called(op: str) -> bool:
    """Whether an operation is one on whole arrays that has neither a formula for a cell nor parts."""
    return op in HEADS and op not in FORMULAS and op not in _PARTS


def refuse_heads(program: Program, shown: str, called: bool = False) -> str:
    """Which operation on whole arrays has no formula for a cell in `shown`, which may call NumPy's where these are `called`; ""
    where all have one.
    """
    for node in program.nodes:
        if node.op == "loop":
            if found := refuse_heads(node.params.body, shown, called):
                return found
        elif is_called(node.op) and not called:
            instead = (
                "scalarize=True (--scalarize) writes them out"
                if HEADS[node.op].cells
                else "NumPy takes it (target or backend 'numpy')"
            )
            return f"{program.name}: {node.op} of whole arrays is not part of {shown}; {instead}"
        elif node.op == "searchsorted" and has_extents(program.nodes[node.operands[0]].shape):
            return f"{program.name}: searchsorted among numbers whose count a call tells is not part of {shown}"
        elif node.op in ("amax", "amin") and is_complex(node.dtype):
            return f"{program.name}: {node.op} of complex numbers runs with NumPy only, which has an order of them"
    return ""

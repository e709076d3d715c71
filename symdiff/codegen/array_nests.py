"""Programs with loops to NumPy: `for` and `while` as in plain Python, and an expression or a statement for each whole array.

Assumes a Program whose heads have text in NumPy. Guarantees the rounds' order, and that nothing is written to but arrays that
the function made.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symdiff.codegen.array_text import (
    OVERWRITING,
    Part,
    Whole,
    call_text,
    constant_text,
    part_text,
    placing_lines,
    static_text,
    viewed,
)
from symdiff.codegen.expressions import ATOM, SIGN, TERM, WIDTH, Expression
from symdiff.codegen.nest_values import Writer
from symdiff.codegen.nest_words import Buffer, Cells, Index, Nexts
from symdiff.codegen.nests import Nest
from symdiff.codegen.python_nests import PythonNests
from symdiff.codegen.text import dtype_text, tuple_text, wrapped_text
from symdiff.codegen.text_nests import INDENT
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, is_view_step
from symdiff.vocabulary.extents import Count, Extent, Shape, broadcast_extents, has_extents
from symdiff.vocabulary.heads import HEADS, NUMPY
from symdiff.vocabulary.ops import OPS

_RESHAPED = ("embed", "set_at")  # what is written through another shape of the array


@dataclass(frozen=True, slots=True)
class Array(Cells):
    """An array as an expression; it is in memory where that is a name, or shows cells of a name."""

    whole: Whole = field(kw_only=True)


class ArrayNests(PythonNests):
    """Numbers and arrays of NumPy, whose arithmetic is IEEE's: what is kept is never Python's own."""

    says_arrays = True
    tables = ("constant", "constant")

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.written: set[str] = set()
        self.shapes: dict[str, Shape] = {}  # of the arrays that have names
        self.kinds: dict[str, str] = {}
        self.temporary: set[str] = set()  # arrays that have no names of the user's
        self.loose: set[str] = set()  # arrays whose cells may lie in another order than C's

    def body(self, program: Program, arguments: Sequence[str], targets: Sequence[str]) -> list[str]:
        self.shapes |= {target: output.shape for target, output in zip(targets, program.outputs, strict=True)}
        return super().body(program, arguments, targets)

    # -- numbers

    def literal(self, value: Any, code: str) -> str:
        text = super().literal(value, code)
        self.written.add(text)
        return text

    def kept(self, text: str, code: str) -> str:
        return f"np.{dtype_text(code)}({text})" if text in self.written else text

    def real(self, whole: Count) -> Expression:
        return Expression(f"np.float64({self._text(whole)})", ATOM, 0)

    # -- arrays as expressions

    def array(self, nest: Nest, position: int) -> Any:
        """An operation that reads or makes an array."""
        node = nest.program.nodes[position]
        values = self._operands(nest, node)
        own = self._elementwise if node.op in OPS else getattr(self, f"_{node.op}", None)
        if own is not None and (found := own(nest, position, values)) is not None:
            return found
        if is_view_step(node):
            return self._viewed(node, values[0])
        texts = [self.shown(v) for v in values]
        params = {key: self._static(value) for key, value in (node.params or {}).items()}
        form = HEADS[node.op].text
        operands = [t.at(ATOM if f"{{{k}}}." in form or f"{{{k}}}[" in form else 0) for k, t in enumerate(texts)]
        return self._made(node, call_text(nest.program.nodes, position, operands, params), ATOM, texts)

    def _operands(self, nest: Nest, node: Node) -> list[Any]:
        """The operands; long ones have names, the longest first, until what is made of them is short."""
        values = {o: nest.values[o] for o in node.operands}
        texts = {o: v.whole.core.text for o, v in values.items() if isinstance(v, Array) and v.whole.core.depth}
        while sum(map(len, texts.values())) > WIDTH and len(texts) > 1:
            longest = max(texts, key=lambda o: len(texts[o]))
            nest.values[longest] = values[longest] = nest.in_memory(values[longest])
            del texts[longest]
        return [values[o] for o in node.operands]

    def _made(self, node: Node, text: str, level: int, parts: list[Expression], cored: Shape | None = None) -> Any:
        """A new array, or a number."""
        made = Expression(text, level, 1 + max((p.depth for p in parts), default=0))
        return self._array(Whole(made, node.shape if cored is None else cored, node.shape, is_new=True), node.dtype)

    def _array(self, whole: Whole, code: str) -> Any:
        if whole.shape == ():  # a cell is read where it stands
            text = whole.text()
            return Expression(text.text, text.level, max(text.depth, isinstance(text, Part)))
        memory = None if whole.core.depth or whole.is_new else Buffer(str(whole.text()), whole.shape, code)
        return Array(whole.shape, code, lambda index: self._at(whole, index), memory, whole=whole)

    def shown(self, value: Any) -> Expression:
        """A number, or a whole array, as an expression."""
        if not isinstance(value, Array):
            return value  # type: ignore[no-any-return]
        whole = value.whole
        if whole.cored or not whole.spread:
            return whole.text("np", self._static)
        number, size = self.kept(str(whole.core), value.dtype), self._static(whole.shape)
        is_zero = number == self._zero(value.dtype)
        return Expression(self._zeros(whole.shape, value.dtype, "zeros") if is_zero else f"np.full({size}, {number})", ATOM, 1)

    def _static(self, value: Any) -> str:
        """A parameter of a call, or a number of cells."""
        if isinstance(value, np.ndarray):
            return self.table(value).name
        if isinstance(value, tuple) and has_extents(value):
            return tuple_text([self._text(part) for part in value]) if len(value) > 1 else self._text(value[0])
        return self._text(value) if isinstance(value, Extent) else static_text(value)

    def _indexed(self, whole: Whole, index: Index) -> tuple[Expression, Shape, Index]:
        """What a cell, or a row, is looked up in, of which shape, and the index there."""
        if len(index) < len(whole.shape) or whole.cored == whole.shape:
            return whole.text("np", self._static), whole.shape, index
        place = self.flat(Buffer("", whole.shape, ""), index)
        found = self._unravelled(place, whole.cored)
        if found is not None:
            return whole.core, whole.cored, found
        return Expression(f"{whole.core.at(ATOM)}.reshape(-1)", ATOM, whole.core.depth), (None,), (place,)

    def _at(self, whole: Whole, index: Index) -> Expression:
        array, _, found = self._indexed(whole, index)
        return part_text(array, [self._text(i) for i in found], 1)

    def _unravelled(self, place: Count, shape: Shape) -> Index | None:
        """The index of a cell in C order, None where it is not known for all rounds."""
        if has_extents(shape):
            return None
        found: list[Count] = []
        for n in reversed(shape[1:]):
            terms = place.terms if isinstance(place, Extent) else ()
            rest: Count = (place.constant if isinstance(place, Extent) else place) % n
            for size, times in terms:
                rest = rest + times % n * Extent(0, ((size, 1),))
            if not self.within(rest, n):
                return None
            found.insert(0, rest)
            place = (place - rest) // n
        return (place, *found)

    def _elementwise(self, nest: Nest, position: int, values: list[Any]) -> Any:
        """Cells that are all reshaped alike are taken as they are."""
        program, node = nest.program, nest.program.nodes[position]
        arrays = [v.whole for v in values if isinstance(v, Array)]
        alike = {(w.shape, w.cored) for w in arrays}
        if len(alike) == 1 and arrays[0].shape == node.shape and not any(w.spread for w in arrays):
            texts, cored = [v.whole.core if isinstance(v, Array) else v for v in values], arrays[0].cored
        else:
            repeated = [w.spread or w.cored == () for w in arrays]
            shapes = [w.cored if bare else w.shape for w, bare in zip(arrays, repeated, strict=True)]
            bare = [w for w, bare in zip(arrays, repeated, strict=True) if bare and broadcast_extents(*shapes) == node.shape]
            texts = [v.whole.core if isinstance(v, Array) and v.whole in bare else self.shown(v) for v in values]
            cored = node.shape
        made = self.cell(program, position, dict(zip(node.operands, texts, strict=True)))
        return self._made(node, made.text, made.level, texts, cored)

    def _viewed(self, node: Node, value: Any) -> Any:
        in_place = isinstance(value, Array) and value.buffer is not None and not value.whole.spread
        if node.op == "reshape" and node.shape and in_place:
            whole = replace(value.whole, shape=node.shape, own=None)
            return replace(self._array(whole, node.dtype), buffer=value.buffer._replace(shape=node.shape))
        whole = value.whole if isinstance(value, Array) else Whole(value, (), ())
        if whole.spread:
            whole = Whole(self.shown(value), whole.shape, whole.shape, is_new=not whole.cored)
        return self._array(viewed(node, whole, NUMPY, self._static), node.dtype)

    def _gather(self, nest: Nest, position: int, values: list[Any]) -> Any:
        """Rows at whole numbers: a part of the array where they are known as such."""
        node, texts = nest.program.nodes[position], [self.shown(v) for v in values]
        found = self._rows(nest, node.operands[1], values[0].whole)
        if found is not None:
            return self._array(found, node.dtype)
        return self._made(node, call_text(nest.program.nodes, position, [t.text for t in texts], {}), ATOM, texts)

    def _rows(self, nest: Nest, place: int, array: Whole) -> Whole | None:
        """A row of an array, or rows at equal distances, as a part of it; None for others."""
        count, size = nest.program.nodes[place].shape, array.shape[0]
        line = nest.line_of(place) if count else (nest.row_number(place, size)(()), ())
        if line is None or len(count) > 1:
            return None
        first, step = line[0], sum(line[1])
        last = first + step * (count[0] - 1) if count else first
        if count and not (self.within(first, size) and self.within(last, size)):
            return None
        (core, shape, starts), (_, _, ends) = (self._indexed(array, (end,)) for end in (first, last))
        keys = [self._text(i) for i in starts]
        for axis, (i, j, n) in enumerate(zip(starts, ends, shape, strict=False)):
            if i != j:
                along = step if len(starts) == 1 else 0 if isinstance(j - i, Extent) else (j - i) // (count[0] - 1)
                if along < 1 or (len(starts) > 1 and along * (count[0] - 1) != j - i):
                    return None
                stop = "" if j + 1 == n else self._text(j + 1)
                keys[axis] = f"{'' if i == 0 else keys[axis]}:{stop}" + (f":{along}" if along > 1 else "")
        shape = (*count, *array.shape[1:])
        return Whole(part_text(core, keys, core.depth), shape, shape) if sum(":" in key for key in keys) == len(count) else None

    def _cells(self, nest: Nest, position: int, values: list[Any]) -> Any:
        """An array of numbers."""
        node, cells = nest.program.nodes[position], [nest.program.nodes[o] for o in nest.program.nodes[position].operands]
        if all(cell.op == "const" for cell in cells) and len({v.text for v in values}) > 1:
            return self.cells(self.table(np.array([cell.params for cell in cells], node.dtype).reshape(node.shape)))
        return self.array_of(values, node.shape, node.dtype)

    def array_of(self, cells: list[Expression], shape: Shape, code: str) -> Array:
        """An array of numbers."""
        texts = [c.text for c in cells]
        if len(set(texts)) == 1:
            return self._array(Whole(cells[0], (), shape, None, True, True), code)  # type: ignore[no-any-return]
        opening, closing = "np.array([", f"], np.{dtype_text(code)})"
        core = Expression(f"{opening}{', '.join(texts)}{closing}", ATOM, 1 + max((c.depth for c in cells), default=0))
        if len(core.text) > WIDTH:
            name = self._name("", "w")
            self.lines += wrapped_text(f"{name} = {opening}", texts, closing, INDENT * len(self.blocks[1:]))
            core = Expression(name, ATOM, 0)
        return self._array(Whole(core, (len(texts),), shape, is_new=True), code)  # type: ignore[no-any-return]

    def _sum(self, nest: Nest, position: int, values: list[Any]) -> Any:
        """A sum of products as one call; other sums have no words of their own."""
        node, nodes = nest.program.nodes[position], nest.program.nodes
        term = nodes[node.operands[0]]
        is_square = term.op == "pow" and nodes[term.operands[1]].op == "const" and nodes[term.operands[1]].params == 2
        pair = [nest.values[o] for o in ((term.operands[0],) * 2 if is_square else term.operands if term.op == "mul" else ())]
        if len(term.shape) != 1 or not pair or any(not isinstance(v, Array) or v.shape != term.shape for v in pair):
            return None
        texts = [self.shown(v) for v in pair]
        if nest.uses[node.operands[0]] > 1 or any(t.depth for t in texts):
            return None
        return self._made(node, f"np.dot({texts[0]}, {texts[1]})", ATOM, texts)

    def _matmul(self, nest: Nest, position: int, values: list[Any]) -> Any:
        """A product of matrices; columns and rows as the vectors that they are."""
        node, (a, b) = nest.program.nodes[position], (v.whole for v in values)
        vectors = [len(w.shape) == 2 and len(w.cored) == 1 and not w.spread for w in (a, b)]
        if all(vectors) and a.shape[1] == 1 != a.shape[0]:
            return self._made(node, f"np.outer({a.core}, {b.core})", ATOM, [a.core, b.core])
        row, column = vectors[0] and a.shape[0] == 1, vectors[1] and b.shape[1] == 1
        x, y = a.core if row else self.shown(values[0]), b.core if column else self.shown(values[1])
        lines, columns = () if row else node.shape[-2:-1], () if column else node.shape[-1:]
        return self._made(node, f"{x.at(TERM)} @ {y.at(SIGN)}", TERM, [x, y], (*node.shape[:-2], *lines, *columns))

    def holds(self, array: Cells, depth: int) -> bool:
        return not array.whole.core.is_short  # type: ignore[attr-defined]

    # -- memory

    def cells(self, buffer: Buffer) -> Array:
        shape = self.shapes.get(buffer.name, buffer.shape)
        whole = Whole(Expression(buffer.name, ATOM, 0), shape, buffer.shape)
        return Array(buffer.shape, buffer.dtype, lambda index: self._at(whole, index), buffer, whole=whole)

    def note(self, text: Any) -> None:
        """Nothing: an array is said whole."""

    def row(self, array: Cells, k: Count) -> Any:
        if len(array.shape) == 1:
            return array.at((k,))
        core, shape = part_text(self.shown(array), [self._text(k)]), array.shape[1:]
        return self._array(Whole(core, shape, shape), array.dtype)

    def stands_outside(self, value: np.ndarray) -> bool:
        return True

    def constant_text(self, name: str, value: np.ndarray, outside: bool = True) -> list[str]:
        return [f"{name} = {constant_text(value)}"]

    def _zeros(self, shape: Shape, code: str, made: str = "empty") -> str:
        return f"np.{made}({self._static(shape)}{'' if code == 'd' else f', np.{dtype_text(code)}'})"

    def listed(self, code: str) -> str:
        return "Any"

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        found = super().buffer(name, shape, code)
        self.temporary.update([] if name else [found.name])
        self.shapes[found.name], self.kinds[found.name] = shape, code
        return found

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        if buffer.name in self.growing:
            self.appended[buffer.name] = rows - 1
        else:
            super().reserve(buffer, rows)

    def clear(self, buffer: Buffer) -> None:
        zero = Expression(self._zero(buffer.dtype), ATOM, 0)
        if not buffer.shape:
            self.store(buffer, (), zero)
            return
        made = Expression(self._zeros(buffer.shape, buffer.dtype, "zeros"), ATOM, 1)
        self.fill(self._array(Whole(made, buffer.shape, buffer.shape, is_new=True), buffer.dtype), buffer)
        self.loose.discard(buffer.name)

    def apart(self, value: Array, buffer: Buffer, owned: bool = False) -> Expression:
        """An array that nothing else has, in the shape in which a buffer is kept."""
        kept = self.shapes.get(buffer.name, buffer.shape)
        text = self.shown(value if kept == value.shape else replace(value, whole=replace(value.whole, shape=kept, own=None)))
        if value.whole.is_new or owned:
            return text
        return Expression(f"{text.at(ATOM)}.copy()", ATOM, 1)

    def fill(self, value: Any, buffer: Buffer, before: Index = (), add: bool = False) -> None:
        """Write, or add, an array; all of one by a name for what is written, which others may be columns of."""
        text = self.shown(value)
        if before or add:
            target = self._memory(buffer, before)
            grows = self.appended.pop(buffer.name, None) if buffer.name in self.growing else None
            if grows is not None:
                self._say(f"{buffer.name}.append({self.apart(value, buffer._replace(name='', shape=value.shape))})")
            else:
                self._say(f"{target} {'|=' if add and buffer.dtype == '?' else '+=' if add else '='} {text}")
            return
        if buffer.name in self.temporary & self.fresh.keys() and not value.whole.spread:
            self.shapes[buffer.name] = value.whole.cored
        self.fresh.pop(buffer.name, None)
        self.known.add(buffer.name)
        self.loose.add(buffer.name)
        self._say(f"{buffer.name} = {self.apart(value, buffer)}")

    def _memory(self, buffer: Buffer, before: Index = ()) -> Expression:
        """The cells of memory behind some indices."""
        self.made(buffer.name)
        return part_text(self.shown(self.cells(buffer)), [self._text(i) for i in before])

    def _cell(self, buffer: Buffer, index: Index) -> str:
        return str(self.cells(buffer).at(index)) if buffer.shape else buffer.name

    def place(self, nest: Nest, node: Node, write: Writer, add: bool = False) -> None:
        """What an operation puts into, or adds to, memory; a part of both without the axes of one cell where they are alike."""
        buffer, values = write.buffer, [nest.values[o] for o in node.operands]
        value = values[-1 if node.op in OVERWRITING else 0]
        self.made(buffer.name)
        array = self.cells(buffer).whole
        if write.before:
            array = Whole(self._memory(buffer, write.before), node.shape, node.shape)
        region = self._rows(nest, node.operands[1], array) if node.op in ("scatter_at", "assign_at") else None
        if "key" in node.params:
            shape = HEADS["getitem"].shape(node.shape, key=node.params["key"])
            region = viewed(Node("getitem", (), shape, node.dtype, {"key": node.params["key"]}), array, NUMPY, self._static)
        if region is not None:
            number = not isinstance(value, Array) or value.whole.cored == ()
            bare = number or (value.whole.cored == region.cored and not value.whole.spread)
            shown = region.core if bare else region.text("np", self._static)
            given = value.whole.core if bare and isinstance(value, Array) else self.shown(value)
            if not isinstance(shown, Part) or shown.array != buffer.name:
                self._tighten(node, buffer)
            said, sign = f"{shown}{'' if isinstance(shown, Part) else '[...]'}", "+" if add or node.op == "scatter_at" else ""
            self._say(f"{said} {sign}= {given}")
            return
        self._tighten(node, buffer)
        texts = [str(self.shown(v)) for v in values]
        params = {key: self._static(value) for key, value in node.params.items()}
        for line in placing_lines(node, texts, str(array.text("np", self._static)), params, "np", add):
            self._say(line)

    def _tighten(self, node: Node, buffer: Buffer) -> None:
        """C's order in memory that is written to in another shape."""
        if buffer.name in self.loose and (node.op in _RESHAPED or self.shapes[buffer.name] != buffer.shape):
            self._say(f"{buffer.name} = np.ascontiguousarray({buffer.name})")
            self.loose.discard(buffer.name)

    def assign(self, pairs: Nexts) -> None:
        if sum(len(value.text) for _, value, _ in pairs) > WIDTH and not any(needed for _, _, needed in pairs):
            for pair in pairs:
                super().assign([pair])
        else:
            super().assign(pairs)

    # -- loops

    @contextmanager
    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> Iterator[Extent]:
        known = set(self.growing)
        with super().rounds(name, count, backward, size, start) as k:
            grown = self.growing - known
            yield k
        for buffer in sorted(grown):
            self.growing.discard(buffer)
            kind, shape = dtype_text(self.kinds[buffer]), self._static(self.shapes[buffer])
            self._say(f"{buffer} = np.array({buffer}, np.{kind}).reshape({shape})")

"""The values of a program in a nest: numbers, and arrays by formulas for their cells; where they lie; which are whole numbers.

Assumes operands among the values. Guarantees that what is known of a number as a whole one, by rounds and sizes, holds in every
round.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from symdiff.codegen.nest_spans import Spanning, Spans
from symdiff.codegen.nest_words import Buffer, Cells, Index, Number, Words
from symdiff.ir.node import Node
from symdiff.lowering.program import Output, Program, cell_program
from symdiff.vocabulary.extents import Count, Extent, has_extents
from symdiff.vocabulary.steps import Steps, steps_of_table, steps_through

_EITHER = cell_program("or", ("?", "?"), "?")
Write = Callable[..., None]  # of an index, a number, and whether it is added


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the cells of memory, or adds to them, behind the indices `before`."""

    words: Words
    buffer: Buffer
    before: Index = ()

    def __call__(self, index: Index, value: Number, add: bool = False) -> None:
        place = (*self.before, *index)
        if add and self.buffer.dtype == "?":
            value, add = self.words.cell(_EITHER, 2, {0: self.words.load(self.buffer, place), 1: value}), False
        self.words.store(self.buffer, place, value, add)

    def of_places(self) -> "Writer":
        """The same with the place of a cell for its index."""
        own = self.buffer.shape[len(self.before) :]
        start = self.words.flat(self.buffer, (*self.before, *(0 for _ in own)))
        return Writer(self.words, self.buffer._replace(shape=(math.prod(own),), start=start))


class Values:
    """The values of a program, as the words of a target have them, by positions."""

    def __init__(
        self, words: Words, program: Program, leaves: Sequence[Any], given: Sequence[Steps | None],
        spans: Sequence[Spans | None] = (),
    ) -> None:  # fmt: skip
        """`leaves` are the inputs, of which `given` tells those known to be whole numbers, `spans` where they are not zero."""
        self.words = words
        self.arrays: Any = words if words.says_arrays else None  # the same, where arrays are said whole
        self.program = program
        self.leaves = leaves
        self.given = given
        self.values: dict[int, Any] = {}
        self.own: set[str] = set()  # names of memory that nothing outside the program reads
        self.told: list[Count | None] = []  # what is known as a whole number, by positions
        self.numbered: dict[tuple[int, Count], Count] = {}
        self.lines: dict[int, Steps | None] = {}
        self.spans = Spanning(self, spans)

    def operand(self, node: Node) -> Any:
        """The first operand of a node."""
        return self.values[node.operands[0]]

    def value_at(self, position: int, index: Index) -> Number:
        """A cell of a value that is spread over the shape which the index belongs to."""
        value = self.values[position]
        if not isinstance(value, Cells):
            return value
        own = index[len(index) - len(value.shape) :]
        return value.at(tuple(0 if n == 1 else i for n, i in zip(value.shape, own, strict=True)))

    def place_at(self, position: int, index: Index) -> Count | None:
        """Such a cell as a whole number, where the rounds tell it."""
        shape, line = self.program.nodes[position].shape, self.line_of(position)
        if line is None:
            return None
        own = index[len(index) - len(shape) :]
        return place_of(line, tuple(0 if n == 1 else i for n, i in zip(shape, own, strict=True)))

    def in_memory(self, array: Cells, buffer: Buffer | None = None) -> Cells:
        """An array in memory."""
        if array.buffer is not None and buffer is None:
            return array
        if array.lasting is not None and buffer is None:
            return self.words.cells(array.lasting())
        buffer = buffer or self.new(array)
        self.words.reserve(buffer, array.shape[0] if array.shape else 1)
        self.fill(array, Writer(self.words, buffer))
        return self.words.cells(buffer)

    def new(self, like: Node | Cells, name: str = "") -> Buffer:
        """Memory of the program's own."""
        found = self.words.buffer(name, like.shape, like.dtype)
        self.own.add(found.name)
        return found

    def fill(self, value: Any, write: Write, add: bool = False) -> None:
        """Write, or add, all cells of a value."""
        if self.arrays and isinstance(value, Cells) and isinstance(write, Writer):
            self.arrays.fill(value, write.buffer, write.before, add)
            return
        whole = isinstance(write, Writer) and not write.before and not add and isinstance(value, Cells) and value.buffer
        if whole and (whole.shape, whole.dtype) == (write.buffer.shape, write.buffer.dtype):  # type: ignore[attr-defined]
            self.words.copy(whole, write.buffer)  # type: ignore[attr-defined]
        elif isinstance(value, Cells):
            shape, at = value.shape, value.at
            if self.words.takes_places and len(shape) > 1 and isinstance(write, Writer) and (flat := value.flat()) is not None:
                shape, at, write = (math.prod(shape),), flat, write.of_places()
            self.words.each(shape, lambda index: write(index, at(index), add))
        else:
            write((), value, add)

    # -- whole numbers

    def whole_of(self, position: int) -> Count | None:
        """A value as a whole number that is known by the numbers of rounds and sizes, None where it is not."""
        for node in self.program.nodes[len(self.told) : position + 1]:
            self.told.append(self._told(node))
        return self.told[position]

    def _told(self, node: Node) -> Count | None:
        if node.op == "input":
            line = self.given[node.params[0]] if not node.shape else None
            return None if line is None else line[0]
        if node.op == "size":
            return node.params  # type: ignore[no-any-return]
        if node.op == "const" and not node.shape:
            return int(node.params) if node.dtype == "d" and float(node.params).is_integer() else None
        if node.op not in ("add", "sub", "mul", "neg") or node.shape:
            return None
        found: list[Any] = [self.told[o] for o in node.operands]
        if any(f is None for f in found):
            return None
        if node.op == "mul":
            return None if all(isinstance(f, Extent) for f in found) else found[0] * found[1]
        whole: Count = -found[0] if node.op == "neg" else found[0] + found[1] if node.op == "add" else found[0] - found[1]
        return whole

    def line_of(self, position: int) -> Steps | None:
        """An array of whole numbers at equal distances; None where it is no such array."""
        if position not in self.lines:
            self.lines[position] = self._line(position, self.program.nodes[position])
        return self.lines[position]

    def _line(self, position: int, node: Node) -> Steps | None:
        if not node.shape:
            known = self.whole_of(position)
            return None if known is None else (known, ())
        if node.op == "const":
            return steps_of_table(node.params)
        if node.op == "input":
            return self.given[node.params[0]] if node.params[1] is None else None
        if node.op == "reshape" or has_extents(node.shape):
            return None
        return steps_through(node.op, node.shape, ((self.line_of(o), self.program.nodes[o].shape) for o in node.operands))

    def row_number(self, position: int, size: Count) -> Callable[[Index], Count]:
        """The rows that a whole number, or the cells of an array of them, tell."""
        if self.program.nodes[position].shape:
            line = self.line_of(position)
            if line is None:
                return lambda index: self.words.whole(self.value_at(position, index), size)

            def number(index: Index) -> Count:
                found = place_of(line, index)
                return found if self.words.within(found, size) else self.words.nearest(found, size)

            return number
        known = self.whole_of(position)
        if known is None or not self.words.within(known, size):
            known = self.numbered.get((position, size))
        if known is None:
            known = self.numbered[position, size] = self.words.whole(self.values[position], size)
        return lambda index: known


def place_of(line: Steps, index: Index) -> Count:
    """The whole number at an index of an array of such at equal distances."""
    found, steps = line
    for i, step in zip(index, steps, strict=True):
        found = found + i * step
    return found


def whole_value(program: Program, output: Output) -> int:
    """The value that is the whole result, -1 where it has one for each cell."""
    return output.value if len(output.cells) == 1 and program.nodes[output.value].shape == output.shape else -1

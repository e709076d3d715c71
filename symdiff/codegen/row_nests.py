"""Programs at many points to NumPy: the nest of one point, said for a block of points, a row of memory for each number.

Assumes what `nests` assumes. Rows are work arrays, of which each holds one number after the other; statements write into them
in place. Points that count rounds of their own run together until the last one is done: those that are done before keep what
they have.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import numpy as np

from symdiff.codegen.expressions import ATOM, SIGN, Ends, Expression, Spelled, formula, printed_operands
from symdiff.codegen.names import Names
from symdiff.codegen.nest_words import Buffer, Index, Nexts
from symdiff.codegen.nests import Nest, nest_of
from symdiff.codegen.numpy import emit_in_place, spelling
from symdiff.codegen.python_nests import PythonNests
from symdiff.codegen.text import dtype_text, wrapped_text
from symdiff.codegen.text_nests import INDENT, TextNests
from symdiff.lowering.program import Program, is_leaf
from symdiff.lowering.scheduling import NOT_IN_PLACE
from symdiff.vocabulary.extents import Count, Extent, has_extents
from symdiff.vocabulary.literals import number_literal
from symdiff.vocabulary.ops import OPS


class Row(Expression):
    """The row of a number, and what the number is called in formulas."""

    __slots__ = ("label",)

    def __init__(self, text: str, label: str = "") -> None:
        super().__init__(text, ATOM, 0)
        self.label = label or text

    def __str__(self) -> str:
        return self.label


def _labelled(value: Expression) -> str:
    return value.label if isinstance(value, Row) else value.at(SIGN)


class RowNests(TextNests):
    """Statements of NumPy over the points of a block; `places` are those of the program's results, with names of their rows,
    `points` tells how many points there are."""

    syntax = PythonNests.syntax

    def __init__(
        self, names: Names, calls: Mapping[int, str], program: Program, places: list[tuple[Buffer, list[str]]],
        check: Ends, points: str,
    ) -> None:  # fmt: skip
        super().__init__(names, {})
        self.points = points
        self.shared: set[str] = set()  # arrays that all points share
        self.given: set[str] = set()  # arguments, which nothing changes
        self.outside: list[set[str]] = [set()]  # rows that were in use as the open loops began, and are still
        self.called, self.program, self.check = calls, program, check
        self.results = [buffer for buffer, _ in places]
        self.named_rows = {buffer.name: own for buffer, own in places if own}
        self.finals: dict[int, str] = {}
        for output, (_, own) in zip(program.outputs, places, strict=True):
            for value, name in zip(output.cells, own, strict=False):
                if program.nodes[value].dtype == output.dtype and not is_leaf(program.nodes[value]):
                    self.finals.setdefault(value, name)
        self.work: dict[str, list[tuple[str, int]]] = {}  # the rows of work arrays by dtype: names, and how many
        self.free: dict[str, list[str]] = {}
        self.codes: dict[str, str] = {}  # the dtypes of rows that hold one number after the other
        self.left: dict[tuple[Nest, int], tuple[str, int]] = {}  # rows of values, and how often they are read still
        self.passing: set[str] = set()  # rows of cells that are read once
        self.readers: dict[Nest, Counter[int]] = {}  # how many operations on numbers read each value
        self.growing: set[str] = set()  # memory that is made larger
        self.active = ""  # the row of the points that take part, "" where all do
        self.notes: dict[int, str] = {}  # beside lines, by their numbers
        self.counted: list[str] = []  # the names of the rounds of points in open loops

    def body_of_block(self, given: Sequence[Any]) -> list[str]:
        """The statements at a block of points."""
        nest_of(self, self.program, given, self.results)
        return [*self.top, *self._noted()]

    def _noted(self) -> list[str]:
        """The statements with comments beside them, one below the other where neighbours are short."""
        found = []
        for _, group in groupby(range(len(self.lines)), lambda k: (k in self.notes, self._indent(k))):
            own = list(group)
            width = max((len(self.lines[k]) for k in own if len(self.lines[k]) <= 60), default=0)
            found += [f"{self.lines[k]:{width}}  # {self.notes[k]}" if k in self.notes else self.lines[k] for k in own]
        return found

    def _indent(self, k: int) -> int:
        return len(self.lines[k]) - len(self.lines[k].lstrip())

    def _note(self, line: str, note: str) -> None:
        """A statement, and what it computes."""
        self.notes[len(self.lines)] = note
        self._say(line)

    def rooms(self, store: str) -> tuple[list[str], list[tuple[str, int, str]]]:
        """The statements that give rows their names, and the work arrays: names, rows and dtypes."""
        lines, rooms = [], []
        for code, parts in sorted(self.work.items()):
            room, single = self.names.fresh(f"{store}_{'b' if code == '?' else code}"), [n for n, many in parts if not many]
            if single:
                part = room if len(single) == len(parts) else f"{room}[:{len(single)}]"
                lines += wrapped_text("", single, f" = {part}") if len(single) > 1 else [f"{single[0]}, = {part}"]
            count = len(single)
            for name, many in parts:
                if many:
                    lines.append(f"{name} = {room}[{count}:{count + many}]")
                    count += many
            rooms.append((room, count, code))
        return lines, rooms

    # -- rows

    def _row(self, code: str, name: str = "") -> str:
        """A row for a number, one of its own where it has a name."""
        if name or not self.free.get(code):
            stem = "w" if code == "d" else "b" if code == "?" else f"w{code}"
            found = self.names.fresh(name) if name else self.names.numbered(stem)
            self.work.setdefault(code, []).append((found, 0))
            if not name:
                self.codes[found] = code
            return found
        return self.free[code].pop()

    def _freed(self, *rows: str) -> None:
        for row in rows:
            self.passing.discard(row)
            if row in self.outside[-1]:
                self.outside[-1].discard(row)  # it is free behind the loop: rounds to come read it again
            elif row in self.codes and row not in self.free.setdefault(self.codes[row], []):
                self.free[self.codes[row]].append(row)

    def _passed(self, *values: Expression) -> None:
        """Cells that are read once have been read."""
        self._freed(*(v.text for v in values if v.text in self.passing))

    def _computed(self, program: Program, position: int, values: dict[int, Any], target: str, label: str) -> Row:
        node = program.nodes[position]
        texts = [values[o].text for o in node.operands]
        labels = [_labelled(values[o]) for o in printed_operands(program, position)]
        shown = formula(node, labels, self.called)
        self._note(emit_in_place(program, position, texts, target, self.called), f"{label} = {shown}")
        return Row(target, label)

    def spelled(self, program: Program, position: int) -> Spelled:
        return spelling(program, position, self.called)

    def literal(self, value: Any, code: str) -> str:
        return number_literal(value)

    def operation(self, nest: Nest, position: int) -> dict[int, Expression]:
        """A number that all points share is an expression; others are made in a row, that of an operand which dies, if any."""
        program, node = nest.program, nest.program.nodes[position]
        whole = nest.whole_of(position)
        if whole is not None and node.op != "const":
            return {position: self.real(whole)}
        if not any(isinstance(nest.values[o], Row) for o in node.operands):
            return super().operation(nest, position)
        readers = self.readers.get(nest)
        if readers is None:
            plain = [n for n in program.nodes if n.op in OPS and not n.shape and not is_leaf(n)]
            readers = self.readers[nest] = Counter(o for n in plain for o in n.operands)
        dying = []
        for o, times in Counter(node.operands).items():
            row, left = self.left.get((nest, o), ("", 0))
            self.left[nest, o] = row, left - times
            dying += [row] if row and left == times else []
        dying.sort(key=self._order)
        if node.op not in NOT_IN_PLACE:
            self._freed(*dying)
        target = self.finals.get(position, "") if program is self.program else ""
        found = self._computed(
            program, position, nest.values, target or self._row(node.dtype), target or self.names.numbered("v")
        )
        if node.op in NOT_IN_PLACE:
            self._freed(*dying)
        if not target:
            kept = position in program.checks or readers[position] < nest.uses[position]
            self.left[nest, position] = found.text, 0 if kept else readers[position]
        return {position: found}

    def _order(self, row: str) -> tuple[str, int]:
        code = self.codes[row]
        return code, [name for name, _ in self.work[code]].index(row)

    def cell(self, program: Program, position: int, values: dict[int, Expression]) -> Expression:
        node = program.nodes[position]
        operands = [values[o] for o in node.operands]
        if not any(isinstance(value, Row) for value in operands):
            return super().cell(program, position, values)
        if node.op not in NOT_IN_PLACE:
            self._passed(*operands)
        found = self._computed(program, position, values, self._row(node.dtype), self.names.numbered("v"))
        self._passed(*operands)
        self.passing.add(found.text)
        return found

    def held(self, value: Expression) -> Expression:
        self.passing.discard(value.text)
        return value

    def named(self, name: str, value: Expression, code: str) -> Expression:
        if not isinstance(value, Row):
            return super().named(name, value, code)
        memory, cell, _ = value.text.partition("[")
        if not cell or memory in self.given:
            return self.held(value)
        row = self._row(code)
        self._say(f"np.copyto({row}, {value.text})")
        return Row(row, str(value))

    # -- whole numbers

    def _most(self, whole: Count) -> Count:
        """The largest of the whole numbers of points."""
        if not self.is_varied(whole):
            return whole
        text = f"int(np.max({self._text(whole)}))"
        return self._size(text, text)

    def real(self, whole: Count) -> Expression:
        text = self._text(whole)
        return Row(text) if self.is_varied(whole) else Expression(f"float({text})", ATOM, 0)

    def whole(self, value: Expression, size: Count) -> Extent:
        name = self._name("", "i")
        varied, last = isinstance(value, Row) or self.is_varied(size), self._text(size - 1)
        rounded = f"np.fmin(np.fmax({value.text}, 0), {last}).astype(int)"
        self._say(f"{name} = {rounded if varied else f'int(min({last}, max(0, {value.text})))'}")
        self._passed(value)
        return self._size(name, name, varied)

    # -- memory

    def around(self, name: str, code: str, outside: bool) -> tuple[str, str]:
        return f"{name} = np.array([", f"], np.{dtype_text(code)})"

    def table(self, value: np.ndarray) -> Buffer:
        found = super().table(value)
        self.shared.add(found.name)
        return found

    def buffer(self, name: str, shape: Any, code: str) -> Buffer:
        if not shape:
            return Buffer(self._row(code, name), (), code)
        found = self.names.fresh(name) if name else self.names.numbered("w")
        if has_extents(shape):
            self.growing.add(found)
            self._say(f"{found} = np.empty((0, {self._points()}), np.{dtype_text(code)})")
        else:
            self.work.setdefault(code, []).append((found, int(np.prod(shape))))
        return Buffer(found, shape, code)

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        if buffer.name in self.growing:
            cells, kind = self._text(self._most(self.count((rows, *buffer.shape[1:])))), dtype_text(buffer.dtype)
            self._line(f"if len({buffer.name}) < {cells}:")
            more = f"np.zeros(({cells}, {self._points()}), np.{kind})"
            self._say(f"{INDENT}{buffer.name} = np.concatenate([{buffer.name}, {more}])")

    def clear(self, buffer: Buffer) -> None:
        self._say(f"{buffer.name}.fill(0)")

    def read(self, buffer: Buffer, index: Index, names: Mapping[int, str]) -> Expression:
        """A cell of an argument, by the name of its row where it has one."""
        place = self.flat(buffer, index)
        if isinstance(place, Extent) or place not in names:
            return self.load(buffer, index)
        return Expression(names[place], ATOM, 0) if buffer.name in self.shared else Row(names[place])

    def _cell(self, buffer: Buffer, index: Index) -> str:
        place = self.flat(buffer, index)
        named = self.named_rows.get(buffer.name)
        if named and not isinstance(place, Extent):
            return named[place]
        if not self.is_varied(place):
            return super()._cell(buffer, index)
        points = "" if buffer.name in self.shared else f", np.arange({self._points()})"
        return f"{buffer.name}[{self._text(place)}{points}]"

    def _points(self) -> str:
        """The name of the number of points."""
        if not self.top or not self.top[0].startswith("points"):
            self.top.insert(0, f"points = {self.points}")
        return "points"

    def load(self, buffer: Buffer, index: Index) -> Expression:
        cell, shared = self._cell(buffer, index), buffer.name in self.shared and not self.is_varied(self.flat(buffer, index))
        return Expression(cell, ATOM, 1 if buffer.shape else 0) if shared else Row(cell)

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        """Points that take no part keep what they have."""
        cell = self._cell(buffer, index)
        shown = f"{cell} {'+=' if add else '='} {value}"
        if self.is_varied(self.flat(buffer, index)):
            own = f"np.where({self.active}, {value.text}, {0.0 if add else cell})" if self.active else value.text
            self._say(f"{cell} {'+=' if add else '='} {own}")
        elif add or cell != value.text:
            where = f", where={self.active}" if self.active else ""
            said = f"np.add({cell}, {value.text}, out={cell}{where})" if add else f"np.copyto({cell}, {value.text}{where})"
            self._note(said, shown)
        self._passed(value)

    def copy(self, source: Buffer, target: Buffer) -> None:
        if {source.name, target.name} & (self.shared | self.named_rows.keys()) or self.active:
            super().copy(source, target)
            return
        count = self.count(source.shape)
        own, other = (f"{b.name}[{self._text(b.start)}:{self._text(b.start + count)}]" for b in (target, source))
        self._note(f"np.copyto({own}, {other})", f"{target.name} = {source.name}")

    def assign(self, pairs: Nexts) -> None:
        """What others are computed from is kept until they are; a row of the round's own gets the variable's name."""
        own = {buffer.name for buffer, _, _ in pairs}
        saved = [(b, self.named("", Row(f"{v.text}[:]", str(v)), b.dtype) if v.text in own else v) for b, v, _ in pairs]
        inside = {} if self.active else {row: code for row, code in self.codes.items() if row not in self.outside[-1]}
        swapped = {v.text: (b.name, v) for b, v in reversed(saved) if inside.get(v.text) == b.dtype}
        for buffer, value in saved:
            if swapped.get(value.text, ("",))[0] != buffer.name:
                self.store(buffer, (), value)
        for row, (name, value) in reversed(swapped.items()):
            self._note(f"{name}, {row} = {row}, {name}", f"{name} = {value}, rows swapped")

    # -- loops

    def before_rounds(self, counting: bool) -> None:
        """Nothing: all memory is there."""

    @contextmanager
    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> Iterator[Extent]:
        self.outside.append({row for row in self.codes if row not in self.free.get(self.codes[row], [])})
        varied, outer = count is not None and self.is_varied(count), self.active
        if size or varied:
            own = self._row("?", "active")
            if size:
                counted = self._name(size, "")
                self.counted.append(counted)
                self._say(f"{own}.fill(True)" if not outer else f"np.copyto({own}, {outer})")
                self._say(f"{counted} = np.zeros({self._points()}, int)")
            with super().rounds(name, None if count is None else self._most(count), backward, size, start) as k:
                if varied:
                    assert count is not None
                    self.bound(k.terms[0][0].name, count - 1)
                    inside = f"np.less({self._text(k)}, {self._text(count)}, out={own})"
                    self._say(f"np.logical_and({own}, {inside}, out={own})" if size else inside)
                if outer and not size:
                    self._say(f"np.logical_and({own}, {outer}, out={own})")
                self.active = own
                yield k
            self.active = outer
            if size:
                self._size(size, self.counted.pop(), True)
        else:
            with super().rounds(name, count, backward, start=start) as k:
                yield k
        before = self.outside.pop()
        self._freed(*(row for row in self.codes if row not in before))

    def leave_unless(self, condition: Expression) -> None:
        own = self.active
        self._say(f"np.logical_and({own}, {condition.text}, out={own})")
        self._line(f"if not {own}.any():")
        self._say(f"{INDENT}break")
        self._say(f"{self.counted[-1]} += {own}")

    def end_where(self, place: int, condition: Expression) -> None:
        for line in self.check(place, condition.at(ATOM)):
            self._say(line)

"""Programs with loops as nests: what machine code and C do in the same order, each in its own words.

A straight program is a nest without axes; a loop is a serial axis, whose carried values and sums are variables, and whose
stacks and larger values lie in memory. Operations on arrays are formulas for a cell until something needs the array itself, so
that those with one use run inside the loop of their user.

Assumes a Program whose inputs are numbers or contiguous arrays. Guarantees the rounds' order and the evaluator's order of
operations. Refuses, with `BackendError`, operations on whole arrays that have no formula for a cell.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from symdiff.codegen.names import cell_name
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.program import Output, Program
from symdiff.lowering.walks import counting_loops, program_cone, sizes_of_node, uses_of
from symdiff.vocabulary.extents import Count, Extent, Shape
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

SMALL = 64  # cells of an array that is a variable of the function
_DEEP = 50  # arrays inside one another, at which one is put into memory
Index = tuple[Count, ...]
_END = -1  # reads the results
Number = Any  # a target's text of a number: names of registers, or an expression


class Buffer(NamedTuple):
    """Cells in memory, in C order from `start` on."""

    name: str
    shape: Shape
    dtype: str
    start: Count = 0


@dataclass(frozen=True, slots=True)
class Cells:
    """An array, by the formula for a cell; `buffer` where it is in memory."""

    shape: Shape
    dtype: str
    at: Callable[[Index], Number]
    buffer: Buffer | None = None


class InOrder:
    """One value after the other."""

    def before(self, position: int, known: Collection[int]) -> Iterable[int]:
        """What is to be computed for a value, itself the last, none of the `known`."""
        return () if position in known else (position,)


class Words:
    """What a target says for the parts of a nest."""

    few = 16  # cells that are written one by one, without a loop

    def __init__(self) -> None:
        self.bounds: dict[str, Count] = {}  # the largest values of rounds' numbers

    def calls(self, program: Program) -> Any:
        """The order of a program's values."""
        return InOrder()

    def operation(self, nest: "Nest", position: int) -> dict[int, Number]:
        """An operation on numbers among the nest's values, with those that are made together with it."""
        raise NotImplementedError

    def cell(self, program: Program, position: int, values: dict[int, Number]) -> Number:
        """An operation on numbers, in a formula for a cell."""
        raise NotImplementedError

    def named(self, name: str, value: Number, code: str) -> Number:
        """A number that is read several times, or in another place."""
        return value

    def held(self, value: Number) -> Number:
        """A number that its only user may read more than once."""
        return value

    def note(self, text: Callable[[], str]) -> None:
        """What the next lines compute, where they are for people to read."""

    def table(self, value: np.ndarray) -> Buffer:
        """The cells of a constant."""
        raise NotImplementedError

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        """A variable, or an array, which has no value yet."""
        raise NotImplementedError

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        """Room for so many rows, which the target may have given already."""

    def clear(self, buffer: Buffer) -> None:
        """Zeros in all cells."""
        raise NotImplementedError

    def load(self, buffer: Buffer, index: Index) -> Number:
        """The value of a cell."""
        raise NotImplementedError

    def store(self, buffer: Buffer, index: Index, value: Number, add: bool = False) -> None:
        """Write a cell, or `add` to it."""
        raise NotImplementedError

    def assign(self, pairs: list[tuple[Buffer, Number, bool]]) -> None:
        """Variables' next values; `True` with those that others' are computed from."""
        for buffer, value, _ in pairs:
            self.store(buffer, (), value)

    def rounds(self, name: str, count: Count | None, backward: bool = False, size: str = "") -> AbstractContextManager[Extent]:
        """A loop around what is said inside; the round's number, which is the size `size` afterwards."""
        raise NotImplementedError

    def end_where(self, place: int, condition: Number) -> None:
        """The end of the function where the check of this place holds."""
        raise NotImplementedError

    def leave_unless(self, condition: Number) -> None:
        """The end of the loop where a condition does not hold."""
        raise NotImplementedError

    def real(self, whole: Count) -> Number:
        """A whole number as float64."""
        raise NotImplementedError

    def whole(self, value: Number, size: Count) -> Extent:
        """The whole part of a number, the nearest of 0 to size - 1."""
        raise NotImplementedError

    def nearest(self, whole: Count, size: Count) -> Count:
        """The nearest of 0 to size - 1 to a whole number."""
        return self.whole(self.real(whole), size)

    def product(self, a: Count, b: Count) -> Count:
        """A product of two whole numbers, of which none is known before."""
        raise NotImplementedError

    def times(self, a: Count, b: Count) -> Count:
        """A product of two whole numbers."""
        return self.product(a, b) if isinstance(a, Extent) and isinstance(b, Extent) else a * b

    def count(self, shape: Shape) -> Count:
        """The cells of an array."""
        count: Count = 1
        for n in shape:
            count = self.times(count, n)
        return count

    def flat(self, buffer: Buffer, index: Index) -> Count:
        """The place of a cell in memory."""
        place: Count = 0
        for n, i in zip(buffer.shape, index, strict=True):
            place = self.times(place, n) + i
        return buffer.start + place

    def cells(self, buffer: Buffer) -> Cells:
        """An array in memory."""
        return Cells(buffer.shape, buffer.dtype, lambda index: self.load(buffer, index), buffer)

    def row(self, array: Cells, k: Count) -> Any:
        """A row of an array, a number where it has one axis."""
        if len(array.shape) == 1:
            return array.at((k,))
        shape, buffer = array.shape[1:], array.buffer
        if buffer is not None and not any(isinstance(n, Extent) for n in shape):
            return self.cells(Buffer(buffer.name, shape, buffer.dtype, buffer.start + k * math.prod(shape)))
        return Cells(shape, array.dtype, lambda index: array.at((k, *index)))

    def copy(self, source: Buffer, target: Buffer) -> None:
        """Write all cells of an array into those of another."""
        self.each(source.shape, lambda index: self.store(target, index, self.load(source, index)))

    def each(self, shape: Shape, action: Callable[[Index], None], before: Index = ()) -> None:
        """Do something for all cells of a shape."""
        if not any(isinstance(n, Extent) for n in shape) and math.prod(shape) <= self.few:
            for index in itertools.product(*map(range, shape)):
                action((*before, *index))
        else:
            with self.rounds("i", shape[0]) as i:
                self.each(shape[1:], action, (*before, i))

    def within(self, whole: Count, size: Count) -> bool:
        """Whether a whole number is known to be among 0 to size - 1."""
        return all(self._is_not_negative(difference) for difference in (whole, size - 1 - whole))

    def _is_not_negative(self, whole: Count) -> bool:
        while isinstance(whole, Extent):
            size, times = next((term for term in whole.terms if term[0].name in self.bounds), whole.terms[0])
            if times < 0 and size.name not in self.bounds:
                return False
            least = 0 if size.name in self.bounds else size.least
            whole = whole + times * ((least if times > 0 else self.bounds[size.name]) - Extent(0, ((size, 1),)))
        return whole >= 0


def refuse_heads(program: Program, shown: str) -> str:
    """Which operation on whole arrays has no formula for a cell in `shown`; "" where all have one."""
    for node in program.nodes:
        if node.op == "loop":
            if found := refuse_heads(node.params.body, shown):
                return found
        elif node.op in HEADS and node.op not in _HEADS:
            words = f"{node.op} of whole arrays is not part of {shown}; scalarize=True (--scalarize) writes them out"
            return f"{program.name}: {words}"
    return ""


class Nest:
    """The values of a program, said one after the other in the words of a target."""

    def __init__(
        self, words: Words, program: Program, leaves: Sequence[Any], wholes: Sequence[Count | None],
        targets: dict[int, Buffer] | None = None, ends: Iterable[int] | None = None,
    ) -> None:  # fmt: skip
        """`leaves` are the inputs, of which `wholes` tells those known to be whole numbers; `targets` are places for values.

        `ends` are the values that are read at the end, where these are not all results.
        """
        self.words = words
        self.program = program
        self.leaves = leaves
        self.wholes = wholes
        self.targets = targets or {}
        self.told: list[Count | None] = []  # what is known as a whole number, by positions
        self.values: dict[int, Any] = {}
        self.depths: dict[int, int] = {}  # of arrays that are written where they are used, those inside one another
        self.costly: set[int] = set()  # such arrays, of which each cell takes long
        self.uses = uses_of(program)
        self.checks = list(enumerate(program.checks))
        self.calls = words.calls(program)
        self.inside = {o for node in program.nodes if node.op == "loop" for o in node.operands[node.params.carried :]}
        self.numbered: dict[tuple[int, Count], Count] = {}
        self.lines: dict[int, tuple[Count, tuple[int, ...]] | None] = {}
        self.counting = counting_loops(program)
        self.parts = {(n.operands[0], n.params): p for p, n in enumerate(program.nodes) if n.op == "part"}
        self.writing: set[int] = set()  # the nodes that wait for others to read what they write
        self.own: set[str] = set()  # names of memory that nothing outside the program reads
        self.added = _added_parts(program, self.uses)
        self.roots, self.readers = self._memory(program.results if ends is None else ends)
        self.written = self._written()

    def run(self, positions: Iterable[int] | None = None) -> None:
        """Say what is computed."""
        for position in range(len(self.program.nodes)) if positions is None else positions:
            for due in self.calls.before(position, self.values):
                self._add(due)

    def end(self) -> None:
        """The ends of the function where those checks hold that are known by now, in their order."""
        while self.checks and self.checks[0][1] in self.values:
            place, value = self.checks.pop(0)
            self.words.end_where(place, self.values[value])

    def _add(self, position: int) -> None:
        self.end()
        node = self.program.nodes[position]
        if position in self.added:
            self.values[position] = None
            return
        if self.counting:
            self.run(self.counting[name] for name in self.counting.keys() & sizes_of_node(node))
        if node.op == "loop":
            self.values[position] = self._loop(position, node)
        elif node.op == "part":
            self.values[position] = self.values[node.operands[0]][node.params]
        elif node.op in OPS and not node.shape and node.op != "input":
            self.values.update(self.words.operation(self, position))
        else:
            value = self._array(position, node)
            if not isinstance(value, Cells):
                several = self.uses[position] > 1 or position in self.inside or self._reads_written(position, node)
                name = self._input_name(node) if node.op == "input" else ""
                value = self.words.named(name, value, node.dtype) if several else self.words.held(value)
            elif value.buffer is None:
                depth = self.depths[position] = 1 + max((self.depths.get(o, 0) for o in node.operands), default=0)
                costly = node.op in _COSTLY or not self.costly.isdisjoint(node.operands)
                again = self.uses[position] > 1 or (costly and self._is_spread(position))
                if again or position in self.inside or position in self.targets or depth > _DEEP:
                    value = self.in_memory(value, self.targets.get(position))
                    self.depths[position] = 0
                elif costly:
                    self.costly.add(position)
            self.values[position] = value

    def _input_name(self, node: Node) -> str:
        leaf = self.program.inputs[node.params[0]]
        return cell_name(leaf.name, leaf.shape, node.params[1]) if leaf.shape and node.params[1] is not None else leaf.name

    def _array(self, position: int, node: Node) -> Any:
        """What is no operation on numbers."""
        if node.op == "input":
            place, cell = node.params
            leaf = self.leaves[place]
            if cell is None or not isinstance(leaf, Cells):
                return leaf
            return leaf.at(tuple(map(int, np.unravel_index(cell, leaf.shape))))
        if node.op == "const":
            return self.words.cells(self.words.table(node.params))
        if node.op == "size":
            return self.words.real(node.params)
        if node.op in OPS:
            return self._added_to(position, node) or Cells(
                node.shape, node.dtype, lambda index: self._elementwise(position, node, index)
            )
        if node.op == "reshape" and node.shape and isinstance(source := self.values[node.operands[0]], Cells):
            whole = self.in_memory(source).buffer
            assert whole is not None
            return self.words.cells(whole._replace(shape=node.shape))
        if (part := _part(self.program, node)) is not None:
            memory = self.taken(position, 0, node.dtype) if node.op in _REPLACING else None
            if memory is not None:
                _REPLACING[node.op](self, node, Writer(self.words, memory))
                return self.words.cells(memory)
            buffer = self.targets.get(position) or self._new(node)
            self.words.note(lambda: f"{buffer.name} = {self._shown(position)}")
            self.words.reserve(buffer, node.shape[0])
            part(self, node, Writer(self.words, buffer))
            return self.words.cells(buffer)
        formula = _FORMULAS[node.op](self, node)
        return Cells(node.shape, node.dtype, formula) if node.shape else formula(())

    def _shown(self, position: int) -> str:
        """What a value is in comments: a name, or an operation on others."""
        value, node = self.values.get(position), self.program.nodes[position]
        if isinstance(value, Cells) and value.buffer is not None:
            return value.buffer.name
        if value is not None and not isinstance(value, Cells):
            return str(value)
        return f"{node.op}({', '.join(map(self._shown, node.operands))})"

    def _elementwise(self, position: int, node: Node, index: Index) -> Number:
        return self.words.cell(self.program, position, {o: self.value_at(o, index) for o in node.operands})

    def value_at(self, position: int, index: Index) -> Number:
        """A cell of a value that is spread over the shape which the index belongs to."""
        value = self.values[position]
        if not isinstance(value, Cells):
            return value
        own = index[len(index) - len(value.shape) :]
        return value.at(tuple(0 if n == 1 else i for n, i in zip(value.shape, own, strict=True)))

    def in_memory(self, array: Cells, buffer: Buffer | None = None) -> Cells:
        """An array in memory."""
        if array.buffer is not None and buffer is None:
            return array
        buffer = buffer or self._new(array)
        self.words.reserve(buffer, array.shape[0] if array.shape else 1)
        self._fill(array, Writer(self.words, buffer))
        return self.words.cells(buffer)

    def _new(self, like: Node | Cells) -> Buffer:
        """Memory of the program's own."""
        found = self.words.buffer("", like.shape, like.dtype)
        self.own.add(found.name)
        return found

    # -- memory that is written anew

    def _memory(self, ends: Iterable[int]) -> tuple[list[int], dict[int, set[int]]]:
        """For each value the one in whose memory it lies, and what reads the memory of a value; the end reads `ends`."""
        nodes = self.program.nodes
        roots = [p if n.op != "reshape" or not n.shape else -1 for p, n in enumerate(nodes)]
        for p, node in enumerate(nodes):
            roots[p] = roots[node.operands[0]] if roots[p] < 0 else p
        readers: dict[int, set[int]] = {}
        reader, user = list(range(len(nodes))), [_END] * len(nodes)
        self.user = user
        for end in ends:
            readers.setdefault(roots[end], set()).add(_END)
        for p in range(len(nodes) - 1, -1, -1):
            node = nodes[p]
            if p in self.added or self._is_late(p, roots[p] == p):
                reader[p] = reader[user[p]] if user[p] != _END else _END
            for o in node.operands:
                user[o] = p
                if roots[p] == p:
                    readers.setdefault(roots[o], set()).add(reader[p])
        return roots, readers

    def _written(self) -> set[int]:
        """The values whose memory other nodes may write to."""
        found = set()
        for node in self.program.nodes:
            if node.op in _REPLACING or any(o in self.added for o in node.operands):
                found |= {self.roots[o] for o in node.operands}
            elif node.op == "loop":
                found |= {self.roots[o] for o in node.operands[: node.params.carried]}
        places = {self.program.nodes[p].params[0] for p in found if self.program.nodes[p].op == "input"}
        return found | {p for p, n in enumerate(self.program.nodes) if n.op == "input" and n.params[0] in places}

    def _reads_written(self, position: int, node: Node) -> bool:
        """Whether a number is read from memory that may be written to later, where its text would be read then."""
        stack = [*node.operands]
        while stack:
            value = self.values.get(o := stack.pop())
            if self.roots[o] in self.written:
                return True
            stack += self.program.nodes[o].operands if isinstance(value, Cells) and value.buffer is None else ()
        return position in self.written

    def _is_spread(self, position: int) -> bool:
        """Whether the value's only reader asks for each cell several times."""
        if self.user[position] == _END:
            return False
        shape, own = (self.program.nodes[p].shape for p in (self.user[position], position))
        return len(shape) > len(own) or (len(shape) == len(own) and any(1 == n != m for n, m in zip(own, shape, strict=True)))

    def _is_late(self, position: int, own: bool) -> bool:
        """Whether an array is computed where it is read, with `own` cells, once."""
        node = self.program.nodes[position]
        adding = node.op == "add" and any(o in self.added for o in node.operands)
        formula = bool(node.shape) and own and not adding and (node.op in OPS or node.op in _FORMULAS)
        return formula and self.uses[position] == 1 and position not in self.inside and position not in self.targets

    def taken(self, position: int, place: int, code: str, more: Iterable[int] = ()) -> Buffer | None:
        """The memory of an operand that nothing reads any more once a node has, which may read `more`; None for others."""
        operands = self.program.nodes[position].operands
        value, root = self.values[operands[place]], self.roots[operands[place]]
        memory = value.buffer if isinstance(value, Cells) else None
        if memory is None or memory.name not in self.own or memory.dtype != code:
            return None
        if not self._are_read(self.readers[root] - {position}, position):
            return None
        others = [*(o for k, o in enumerate(operands) if k != place and o not in self.added), *more]
        if any(self.roots[o] == root for o in others):
            return None
        for o in others:
            if isinstance(other := self.values[o], Cells) and other.buffer is None:
                self.values[o] = self.in_memory(other)  # its cells may be those that are written
        return memory

    def _are_read(self, readers: Iterable[int], position: int) -> bool:
        """Whether these have read the memory that a node is about to write, which they do now where they can."""
        for p in readers:
            if p not in self.values and p != _END and p not in self.writing:
                cone = program_cone(self.program, (p,))
                if position not in cone:
                    self.writing.add(position)
                    self.run(sorted(cone))
                    self.writing.discard(position)
            if p not in self.values:
                return False
        return True

    def _added_to(self, position: int, node: Node) -> Cells | None:
        """A sum in the memory of an operand to whose cells others are added."""
        late = [o for o in node.operands if o in self.added]
        if not late:
            return None
        place = node.operands.index(late[0])
        part = self.added[late[0]]
        memory = self.taken(position, 1 - place, node.dtype, self.program.nodes[part].operands)
        if memory is None:
            memory = self.targets.get(position) or self._new(node)
            self.words.reserve(memory, node.shape[0])
            self._fill(self.values[node.operands[1 - place]], Writer(self.words, memory))
        self._give_part(part, Writer(self.words, memory._replace(shape=self.program.nodes[part].shape)), True)
        return self.words.cells(memory)

    def _give_part(self, position: int, write: "Write", add: bool) -> None:
        node = self.program.nodes[position]
        part = _part(self.program, node)
        assert part is not None
        part(self, node, write, add)

    def _fill(self, value: Any, write: "Write", add: bool = False) -> None:
        """Write, or add, all cells of a value."""
        whole = isinstance(write, Writer) and not write.before and not add and isinstance(value, Cells) and value.buffer
        if whole and (whole.shape, whole.dtype) == (write.buffer.shape, write.buffer.dtype):  # type: ignore[attr-defined]
            self.words.copy(whole, write.buffer)  # type: ignore[attr-defined]
        elif isinstance(value, Cells):
            self.words.each(value.shape, lambda index: write(index, value.at(index), add))
        else:
            write((), value, add)

    def give(self, output: Any, write: "Write", add: bool = False) -> None:
        """Write, or add, a result of the program."""
        value = whole_value(self.program, output)
        if value < 0:
            for cell, index in zip(output.cells, itertools.product(*map(range, output.shape)), strict=True):
                write(index, self.values[cell], add)
        elif value in self.values:
            self._fill(self.values[value], write, add)
        else:
            self._give_part(value, write, add)

    # -- whole numbers

    def whole_of(self, position: int) -> Count | None:
        """A value as a whole number that is known by the numbers of rounds and sizes, None where it is not."""
        for node in self.program.nodes[len(self.told) : position + 1]:
            self.told.append(self._told(node))
        return self.told[position]

    def _told(self, node: Node) -> Count | None:
        if node.op == "input":
            return self.wholes[node.params[0]] if not node.shape else None
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

    def line_of(self, position: int) -> tuple[Count, tuple[int, ...]] | None:
        """An array of whole numbers as the first one and the steps along its axes; None where it is no such array."""
        if position not in self.lines:
            self.lines[position] = self._line(position, self.program.nodes[position])
        return self.lines[position]

    def _line(self, position: int, node: Node) -> tuple[Count, tuple[int, ...]] | None:
        if not node.shape:
            known = self.whole_of(position)
            return None if known is None else (known, ())
        if node.op == "const":
            return _line_of_table(node.params)
        if node.op not in ("add", "sub", "mul", "broadcast_to") or any(isinstance(n, Extent) for n in node.shape):
            return None
        parts = []
        for o in node.operands:
            line, shape = self.line_of(o), self.program.nodes[o].shape
            if line is None:
                return None
            steps = tuple(0 if n == 1 else step for n, step in zip(shape, line[1], strict=True))
            parts.append((line[0], (0,) * (len(node.shape) - len(steps)) + steps))
        (start, steps), (other, more) = parts[0], parts[-1]
        if node.op == "mul":
            if any(more) or isinstance(other, Extent):
                (start, steps), (other, more) = parts[-1], parts[0]
            return None if any(more) or isinstance(other, Extent) else (start * other, tuple(s * other for s in steps))
        if node.op == "add":
            return start + other, tuple(a + b for a, b in zip(steps, more, strict=True))
        return (start - other, tuple(a - b for a, b in zip(steps, more, strict=True))) if node.op == "sub" else parts[0]

    def row_number(self, position: int, size: Count) -> Callable[[Index], Count]:
        """The rows that a whole number, or the cells of an array of them, tell."""
        if self.program.nodes[position].shape:
            line = self.line_of(position)
            if line is None:
                return lambda index: self.words.whole(self.value_at(position, index), size)
            start, steps = line

            def number(index: Index) -> Count:
                found = start
                for i, step in zip(index, steps, strict=True):
                    found = found + i * step
                return found if self.words.within(found, size) else self.words.nearest(found, size)

            return number
        known = self.whole_of(position)
        if known is None or not self.words.within(known, size):
            known = self.numbered.get((position, size))
        if known is None:
            known = self.numbered[position, size] = self.words.whole(self.values[position], size)
        return lambda index: known

    # -- loops

    def _loop(self, position: int, node: Node) -> list[Any]:
        """The rounds; the results."""
        words, loop = self.words, node.params
        body, carried, results = loop.body, loop.carried, loop.results
        sums = carried + len(loop.stacks)
        buffers: list[Any] = []
        kept: set[int] = set()
        for place, result in enumerate(results[: sums + loop.sums]):
            target = self.targets.get(self.parts.get((position, place), -1))
            few = not result.shape or (is_small(result.shape) and not carried <= place < sums)
            memory = self.taken(position, place, result.dtype) if place < carried and result.shape and target is None else None
            if memory is not None:
                kept.add(place)
            elif target is None or few:
                memory = words.buffer(result.name, result.shape, result.dtype)
            buffers.append(memory or target)
        self.own.update(b.name for b in buffers if b.shape)
        given = [self.values[o] for o in node.operands]
        for place, buffer in enumerate(buffers):
            if buffer.shape and not (loop.tested and carried <= place < sums):
                words.reserve(buffer, buffer.shape[0])
            if place < carried:
                if place not in kept:
                    self._fill(given[place], Writer(words, buffer))
            elif place >= sums or not _covered(loop, loop.stacks[place - carried]):
                words.clear(buffer)
        count = loop.limit if loop.tested else loop.rounds
        with words.rounds(body.inputs[0].name, count, loop.backward, loop.counted or "") as k:
            leaves: list[Any] = [words.real(k)]
            wholes: list[Count | None] = [k]
            for place, (value, row) in enumerate(zip(given, loop.places(), strict=True)):
                own = words.load(buffers[place], ()) if place < carried and not buffers[place].shape else None
                value = words.cells(buffers[place]) if own is None and place < carried else value if own is None else own
                leaves.append(value if row is None else words.row(value, row.at(k)))
                wholes.append(self.whole_of(node.operands[place]) if place >= carried and row is None else None)
            self._round(loop, Nest(words, body, leaves, wholes, None, _ends(loop)), k, buffers)
        found = [words.cells(b) if b.shape else words.load(b, ()) for b in buffers]
        return [*found, *([words.real(loop.rounds)] if loop.tested else [])]

    def _round(self, loop: Any, inner: "Nest", k: Extent, buffers: list[Buffer]) -> None:
        words, body, carried = self.words, loop.body, loop.carried
        sums = carried + len(loop.stacks)
        if loop.tested:
            inner.run(sorted(program_cone(body, (body.outputs[-1].value,))))
            words.leave_unless(inner.values[body.outputs[-1].value])
        inner.own.update(buffer.name for buffer in buffers[:carried] if buffer.shape)
        stacks = list(zip(buffers[carried:], loop.stacks, body.outputs[carried:], strict=False))
        self._stack([s for s in stacks if _is_leaf(body, s[2])], inner, k, loop.tested)
        summed = [whole_value(body, output) for output in body.outputs[sums : sums + loop.sums]]
        late = {v for v in summed if v >= 0 and _part(body, body.nodes[v]) and inner.uses[v] == 1}
        inner.run(p for p in range(len(body.nodes)) if p not in late)
        self._stack([s for s in stacks if not _is_leaf(body, s[2])], inner, k, loop.tested)
        for buffer, output in zip(buffers[sums:], body.outputs[sums:], strict=False):
            inner.give(output, Writer(words, buffer), True)
        self._carry(inner, list(zip(buffers, body.outputs[:carried], strict=False)))

    def _stack(self, stacks: list[tuple[Buffer, Any, Output]], inner: "Nest", k: Extent, tested: bool) -> None:
        """The rows that a round gives."""
        inner.run(cell for _, _, output in stacks for cell in output.cells)
        for buffer, stack, output in stacks:
            if tested:
                self.words.reserve(buffer, k + 1)
            inner.give(output, Writer(self.words, buffer, (stack.place.at(k),)))

    def _carry(self, inner: "Nest", nexts: list[tuple[Buffer, Any]]) -> None:
        """The carried values for the next round, all of which are computed before one is written."""
        words, body = self.words, inner.program
        own = {buffer.name for buffer, _ in nexts}
        numbers, waiting = [], []
        for place, (buffer, output) in enumerate(nexts):
            value = inner.values.get(whole_value(body, output))
            if not buffer.shape:
                node = body.nodes[output.value]
                if not (node.op == "input" and node.params[0] == place + 1):
                    numbers.append((buffer, value, output.cells))
            elif isinstance(value, Cells) and value.buffer is not None and value.buffer.name == buffer.name:
                continue
            elif isinstance(value, Cells) and value.buffer is not None and value.buffer.name not in own:
                waiting.append((buffer, value))
            else:
                other = words.buffer("", buffer.shape, buffer.dtype)
                words.reserve(other, buffer.shape[0])
                inner.give(output, Writer(words, other))
                waiting.append((buffer, words.cells(other)))
        reads = {b.name: {p for p, n in enumerate(body.nodes) if n.op == "input" and n.params[0] == place + 1}
                 for place, (b, _) in enumerate(nexts)}  # fmt: skip
        cones = [program_cone(body, cells) for _, _, cells in numbers]
        words.assign([
            (buffer, value, any(reads[buffer.name] & cone for cone in cones[n + 1 :]))
            for n, (buffer, value, _) in enumerate(numbers)
        ])  # fmt: skip
        for buffer, value in waiting:
            self._fill(value, Writer(words, buffer))


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


Write = Callable[..., None]  # of an index, a number, and whether it is added


def _is_leaf(body: Program, output: Output) -> bool:
    """Whether a round gives a whole value as it took it: it is read before the round changes it."""
    value = whole_value(body, output)
    return value >= 0 and body.nodes[value].op == "input"


def _ends(loop: Any) -> list[int]:
    """What is read at the end of a round."""
    body, first = loop.body, loop.carried
    outputs = [o for k, o in enumerate(body.outputs) if not (first <= k < first + len(loop.stacks) and _is_leaf(body, o))]
    return [cell for output in outputs for cell in output.cells]


def _added_parts(program: Program, uses: list[int]) -> dict[int, int]:
    """Parts of arrays that are zero elsewhere, each added to another array and read by nobody else; and by their reshaped
    forms the parts.
    """
    found: dict[int, int] = {}
    for node in program.nodes:
        operands = [(o, program.nodes[o]) for o in node.operands]
        if node.op != "add" or not node.shape or any((x.shape, x.dtype) != (node.shape, node.dtype) for _, x in operands):
            continue
        for o, x in operands:
            part = x.operands[0] if x.op == "reshape" else o
            if uses[o] == uses[part] == 1 and program.nodes[part].op in _ADDING:
                found |= {o: part, part: part}
                break
    return found


def _line_of_table(table: np.ndarray) -> tuple[int, tuple[int, ...]] | None:
    """A constant of whole numbers at equal distances along each axis, as `Nest.line_of`."""
    if table.dtype.kind != "f" or not table.size or not np.array_equal(table, np.trunc(table)):
        return None
    first = table.flat[0]
    steps = [np.take(table, 1, axis).flat[0] - first if n > 1 else 0.0 for axis, n in enumerate(table.shape)]
    grids = np.meshgrid(*map(np.arange, table.shape), indexing="ij", sparse=True)
    same = np.array_equal(table, sum((g * s for g, s in zip(grids, steps, strict=True)), first))
    return (int(first), tuple(map(int, steps))) if same else None


def is_small(shape: Shape) -> bool:
    """Whether an array is a variable of the function."""
    return not any(isinstance(n, Extent) for n in shape) and math.prod(shape) <= SMALL


def whole_value(program: Program, output: Output) -> int:
    """The value that is the whole result, -1 where it has one for each cell."""
    return output.value if len(output.cells) == 1 and program.nodes[output.value].shape == output.shape else -1


def _covered(loop: Any, stack: Any) -> bool:
    """Whether the rounds give all rows of a stack."""
    return abs(stack.place.step) == 1 and stack.size == loop.rounds  # type: ignore[no-any-return]


# -- operations on whole arrays: formulas for a cell


def _reduced(nest: Nest, node: Node) -> tuple[Shape, Callable[[Index, Index], Number]]:
    """The shape that an operation takes together, and a cell by its index outside and within that."""
    source, axes = nest.values[node.operands[0]], node.params["axes"]
    kept = [a for a in range(len(source.shape)) if a not in axes]

    def cell(index: Index, inner: Index) -> Number:
        where = dict(zip([*kept, *axes], [*index, *inner], strict=True))
        return source.at(tuple(where[a] for a in range(len(source.shape))))

    return tuple(source.shape[a] for a in axes), cell


def _summed(nest: Nest, node: Node, shape: Shape, term: Callable[[Index, Index], Number]) -> Callable[[Index], Number]:
    """The formula of cells that are sums of terms over a shape."""

    def at(index: Index) -> Number:
        total = nest.words.buffer("", (), node.dtype)
        nest.words.clear(total)
        nest.words.each(shape, lambda inner: nest.words.store(total, (), term(index, inner), True))
        return nest.words.load(total, ())

    return at


def _formula_sum(nest: Nest, node: Node) -> Callable[[Index], Number]:
    return _summed(nest, node, *_reduced(nest, node))


def _joining(op: str, start: Any = None) -> Callable[[Nest, Node], Callable[[Index], Number]]:
    """The formula of cells that an operation on two numbers joins, one after the other, from `start` or the first one on."""

    def formula(nest: Nest, node: Node) -> Callable[[Index], Number]:
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


def _of_two(op: str, code: str, other: str) -> Program:
    """An operation on two numbers, with the result of the first one's dtype."""
    nodes = [Node("input", (), (), code, (0, 0)), Node("input", (), (), other, (1, 0)), Node(op, (0, 1), (), code)]
    return Program("", (), (), nodes)


_EITHER = _of_two("or", "?", "?")


def _joined(nest: Nest, node: Node, op: str) -> Callable[[Number, Number], Number]:
    """An operation on what is there and a cell of the node's operand."""
    code = nest.program.nodes[node.operands[0]].dtype
    both = _of_two(op, node.dtype, code)
    return lambda a, b: nest.words.cell(both, 2, {0: a, 1: b})


def _product_terms(nest: Nest, node: Node) -> Callable[[Index, Index], Number]:
    """The products that a cell of a product of two arrays is the sum of."""
    a, b = (nest.in_memory(nest.values[o]) for o in node.operands)
    product = Program("", (), (), [Node("input", (), (), x.dtype, (k, 0)) for k, x in enumerate((a, b))])
    product.nodes.append(Node("mul", (0, 1), (), node.dtype))

    def term(index: Index, inner: Index) -> Number:
        column, index = (index[-1:], index[:-1]) if len(b.shape) > 1 else ((), index)
        line, index = (index[-1:], index[:-1]) if len(a.shape) > 1 else ((), index)
        cells = []
        for array, own in ((a, (*line, *inner)), (b, (*inner, *column))):
            before = index[len(index) - len(array.shape) + len(own) :]
            cells.append(array.at((*(0 if n == 1 else i for n, i in zip(array.shape, before, strict=False)), *own)))
        return nest.words.cell(product, 2, dict(enumerate(cells)))

    return term


def _formula_matmul(nest: Nest, node: Node) -> Callable[[Index], Number]:
    """A product with a vector."""
    return _summed(nest, node, nest.program.nodes[node.operands[0]].shape[-1:], _product_terms(nest, node))


def _formula_gather(nest: Nest, node: Node) -> Callable[[Index], Number]:
    source = nest.values[node.operands[0]]
    row, axes = _row_numbers(nest, node, source.shape[0])
    return lambda index: source.at((row(index[: len(axes)]), *index[len(axes) :]))


def _row_numbers(nest: Nest, node: Node, size: Count) -> tuple[Callable[[Index], Count], Shape]:
    """The rows, of `size`, that an operand or a parameter tells, and over which shape it does."""
    if len(node.operands) > 1:
        return nest.row_number(node.operands[1], size), nest.program.nodes[node.operands[1]].shape
    return _rows(nest, node.params["indices"], size), node.params["indices"].shape


def _rows(nest: Nest, indices: np.ndarray, size: Count) -> Callable[[Index], Count]:
    """The rows that whole numbers known before tell."""
    if isinstance(size, Extent) and np.any(np.asarray(indices) < 0):
        raise BackendError(f"{nest.program.name}: rows {indices.ravel()[:3]}... of an array whose size a call tells")
    found = np.asarray(indices) if isinstance(size, Extent) else np.asarray(indices) % max(size, 1)
    tables: list[Buffer] = []

    def row(index: Index) -> Count:
        if not any(isinstance(i, Extent) for i in index):
            return int(found[index])
        if not tables:
            tables.append(nest.words.table(found.astype(float)))
        return nest.words.whole(nest.words.load(tables[0], index), size)

    return row


def _formula_diagonal(nest: Nest, node: Node) -> Callable[[Index], Number]:
    source = nest.values[node.operands[0]]
    return lambda index: source.at((*index, index[-1]))


def _formula_reshape(nest: Nest, node: Node) -> Callable[[Index], Number]:
    source = nest.values[node.operands[0]]
    if not isinstance(source, Cells):
        return lambda index: source
    if not node.shape:
        return lambda index: source.at((0,) * len(source.shape))
    buffer = nest.in_memory(source).buffer
    assert buffer is not None
    return nest.words.cells(buffer._replace(shape=node.shape)).at


def _formula_getitem(nest: Nest, node: Node) -> Callable[[Index], Number]:
    source = nest.values[node.operands[0]]
    moved = _region(node.params["key"], source.shape)
    return lambda index: source.at(moved(index))


def _formula_transpose(nest: Nest, node: Node) -> Callable[[Index], Number]:
    source, axes = nest.values[node.operands[0]], node.params["axes"]
    return lambda index: source.at(tuple(index[axes.index(a)] for a in range(len(axes))))


def _formula_broadcast(nest: Nest, node: Node) -> Callable[[Index], Number]:
    return lambda index: nest.value_at(node.operands[0], index)


def _region(key: Any, shape: Shape) -> Callable[[Index], Index]:
    """The cells of an array by those of a region."""
    steps = []
    for n, (start, stop, step) in zip(shape, (*key, *((0, None, 1),) * (len(shape) - len(key))), strict=True):
        if not any(isinstance(end, Extent) for end in (n, start, stop)):
            start = range(n)[start:stop:step].start
        steps.append((start, step))
    return lambda index: tuple(start + step * i for i, (start, step) in zip(index, steps, strict=True))


# -- operations on whole arrays: parts that are written one after the other


def _onto_zeros(part: Callable[..., None]) -> Callable[..., None]:
    """A part of an array whose other cells are zero; where it is added, nothing else changes."""

    def whole(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
        if not add and isinstance(write, Writer) and not write.before:
            nest.words.clear(write.buffer)
        elif not add:
            nest.words.each(node.shape, lambda index: write(index, _number(nest, node, 0.0), False))
        part(nest, node, write, add)

    return whole


def _onto_first(part: Callable[..., None]) -> Callable[..., None]:
    """A part of an array whose other cells are those of the first operand; what is added is made in memory of its own."""

    def whole(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
        if add:
            other = nest.words.buffer("", node.shape, node.dtype)
            nest.words.reserve(other, node.shape[0])
            whole(nest, node, Writer(nest.words, other))
            nest._fill(nest.words.cells(other), write, True)
        else:
            nest._fill(nest.values[node.operands[0]], write)
            part(nest, node, write)

    return whole


@_onto_zeros
def _put(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    moved = _region(node.params["key"], node.shape)
    nest._fill(nest.values[node.operands[0]], lambda index, value, add: write(moved(index), value, add), add)


@_onto_zeros
def _scatter(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    rows = node.operands[0]
    row, axes = _row_numbers(nest, node, node.params["size"])
    n = len(axes)
    shape = (*axes, *nest.program.nodes[rows].shape[n:])
    nest.words.each(shape, lambda i: write((row(i[:n]), *i[n:]), nest.value_at(rows, i), True))


@_onto_zeros
def _matmul(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    """A product of matrices: cells in one line are added to innermost."""
    term, inner = _product_terms(nest, node), nest.program.nodes[node.operands[0]].shape[-1:]

    def line(before: Index) -> None:
        def one(k: Index) -> None:
            nest.words.each(node.shape[-1:], lambda j: write((*before, *j), term((*before, *j), k), True))

        nest.words.each(inner, one)

    nest.words.each(node.shape[:-1], line)


def _concatenate(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    axis, start = node.params["axis"], 0
    for operand in node.operands:
        before = start

        def moved(index: Index, value: Number, add: bool, before: Count = before) -> None:
            write((*index[:axis], index[axis] + before, *index[axis + 1 :]), value, add)

        nest._fill(nest.values[operand], moved, add)
        start = start + nest.program.nodes[operand].shape[axis]


def _cells(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    for place, index in enumerate(itertools.product(*map(range, node.shape))):
        write(index, _typed(nest, node, place, ()), add)


@_onto_zeros
def _embed(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
    nest._fill(nest.values[node.operands[0]], lambda index, value, add: write((*index, index[-1]), value, add), add)


def _set(nest: Nest, node: Node, write: Write) -> None:
    region = HEADS["getitem"].shape(node.shape, key=node.params["key"])
    moved = _region(node.params["key"], node.shape)
    nest.words.each(region, lambda index: write(moved(index), _typed(nest, node, 1, index), False))


def _assign_at(nest: Nest, node: Node, write: Write) -> None:
    row, axes = nest.row_number(node.operands[1], node.shape[0]), nest.program.nodes[node.operands[1]].shape
    n = len(axes)
    nest.words.each((*axes, *node.shape[1:]), lambda i: write((row(i[:n]), *i[n:]), _typed(nest, node, 2, i), False))


def _set_at(nest: Nest, node: Node, write: Write) -> None:
    indices = node.params["indices"].ravel()
    if len(node.shape) > 1 and any(isinstance(n, Extent) for n in node.shape):
        raise BackendError(f"{nest.program.name}: single cells of an array whose sizes a call tells")
    places = [indices] if len(node.shape) == 1 else np.unravel_index(indices, node.shape)
    rows = [_rows(nest, cells, n) for cells, n in zip(places, node.shape, strict=True)]
    nest.words.each(indices.shape, lambda i: write(tuple(row(i) for row in rows), _typed(nest, node, 1, i), False))


def _running(op: str, start: float) -> Callable[..., None]:
    """What writes the running totals along an axis."""

    def part(nest: Nest, node: Node, write: Write, add: bool = False) -> None:
        axis, join, source = node.params["axis"], _joined(nest, node, op), nest.values[node.operands[0]]

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


def _typed(nest: Nest, node: Node, place: int, index: Index) -> Number:
    """A cell of an operand as one of the node's dtype."""
    value, code = nest.value_at(node.operands[place], index), nest.program.nodes[node.operands[place]].dtype
    if code == node.dtype:
        return value
    cast = Program("", (), (), [Node("input", (), (), code, (0, 0)), Node("cast", (0,), (), node.dtype)])
    return nest.words.cell(cast, 1, {0: value})


def _number(nest: Nest, node: Node, value: Any) -> Number:
    """A number of a node's dtype."""
    kind = {"?": bool, "D": complex, "F": complex}.get(node.dtype, float)
    return nest.words.cell(Program("", (), (), [Node("const", (), (), node.dtype, kind(value))]), 0, {})


_FORMULAS: dict[str, Callable[[Nest, Node], Callable[[Index], Number]]] = {
    "sum": _formula_sum, "matmul": _formula_matmul, "gather": _formula_gather, "reshape": _formula_reshape,
    "getitem": _formula_getitem, "transpose": _formula_transpose, "broadcast_to": _formula_broadcast, "take": _formula_gather,
    "diagonal": _formula_diagonal, "amax": _joining("max"), "amin": _joining("min"), "prod": _joining("mul", 1.0),
    "any": _joining("or", False), "all": _joining("and", True),
}  # fmt: skip
_ADDING: dict[str, Callable[..., None]] = {"put": _put, "scatter_at": _scatter, "scatter": _scatter, "embed": _embed}
_REPLACING: dict[str, Callable[[Nest, Node, Write], None]] = {"set": _set, "set_at": _set_at, "assign_at": _assign_at}
_PARTS: dict[str, Callable[..., None]] = {
    "matmul": _matmul, "concatenate": _concatenate, "cells": _cells, **_ADDING,
    **{op: _onto_first(part) for op, part in _REPLACING.items()},
    "cumsum": _running("add", 0.0), "cumprod": _running("mul", 1.0),
}  # fmt: skip


def _part(program: Program, node: Node) -> Callable[..., None] | None:
    """What writes an array part by part, None where it has a formula for a cell."""
    if node.op == "matmul" and len(program.nodes[node.operands[1]].shape) < 2:
        return None
    return _PARTS.get(node.op)


_HEADS = _FORMULAS.keys() | _PARTS.keys()
_MOVING = operations("picks", "rearranges", "gathers") | {"broadcast_to"}
_COSTLY = (operations("libm", "slow") - operations("cheap")) | (_FORMULAS.keys() - _MOVING)  # elementary functions, and sums


def nest_of(words: Words, program: Program, inputs: Sequence[Any], outputs: Sequence[Buffer]) -> None:
    """Say a whole program, from its inputs, numbers and arrays, to the places of its results."""
    whole: dict[int, Buffer] = {}
    asked = program_cone(program, program.checks)  # before which no result is written
    for output, buffer in zip(program.outputs, outputs, strict=True):
        value = whole_value(program, output)
        node = program.nodes[value]
        early = value in asked or (node.op == "part" and node.operands[0] in asked)
        if value >= 0 and output.shape and not early and node.op not in ("input", "const", "reshape"):
            whole.setdefault(value, buffer)
    nest = Nest(words, program, inputs, [None] * len(inputs), whole)
    nest.run()
    nest.end()
    for output, buffer in zip(program.outputs, outputs, strict=True):
        made = nest.values.get(whole_value(program, output))
        if not (isinstance(made, Cells) and made.buffer is not None and made.buffer.name == buffer.name):
            if output.shape:
                words.reserve(buffer, output.shape[0])
            nest.give(output, Writer(words, buffer))

"""Programs with loops as nests: what machine code and C do in the same order, each in its own words.

A straight program is a nest without axes; a loop is a serial axis, whose carried values and sums are variables, and whose
stacks and larger values lie in memory. Operations on arrays are formulas for a cell until something needs the array itself, so
that those with one use run inside the loop of their user.

Assumes a Program whose inputs are numbers or contiguous arrays. Guarantees the rounds' order and the evaluator's order of
operations. Refuses, with `BackendError`, operations on whole arrays that have no formula for a cell.
"""

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from symdiff.codegen.names import cell_name
from symdiff.codegen.nest_heads import (
    ADDING,
    COSTLY,
    FORMULAS,
    PICKING,
    PLACED,
    REPLACING,
    VIEWS,
    Part,
    each_within,
    part_of_array,
    placed,
)
from symdiff.codegen.nest_spans import Spans, whole_spans
from symdiff.codegen.nest_values import Values, Write, Writer, place_of, whole_value
from symdiff.codegen.nest_words import Buffer, Cells, Formula, Index, Number, Words
from symdiff.ir.node import Node
from symdiff.lowering.program import Output, Program
from symdiff.lowering.walks import counting_loops, program_cone, sizes_of_node, uses_of
from symdiff.vocabulary.extents import Count, Extent, Shape, extent
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.steps import Steps
from symdiff.vocabulary.traits import operations

_COMPARING = operations("compares")
_END = -1  # reads the results


class Stacked(NamedTuple):
    """A row that a round gives, in the place of it; how many rows the array has then, where it grows."""

    output: Output
    write: Writer
    rows: Count | None
    add: bool


class Nest(Values):
    """The values of a program, said one after the other in the words of a target."""

    def __init__(
        self, words: Words, program: Program, leaves: Sequence[Any], given: Sequence[Steps | None],
        targets: dict[int, Buffer] | None = None, ends: Mapping[int, set[int]] | None = None,
        sums: Sequence[tuple[int, Buffer]] = (), spans: Sequence[Spans | None] = (),
    ) -> None:  # fmt: skip
        """`leaves` are the inputs, of which `given` tells those known to be whole numbers; `targets` are places for values.

        `ends` are what reads each result, where that is not the end alone; `sums` the values that are added to memory; `spans`
        tell where inputs are not zero.
        """
        super().__init__(words, program, leaves, given, spans)
        self.targets = targets or {}
        self.renewed = {target.name for target in self.targets.values()} if self.arrays else set()  # it gets other values
        self.depths: dict[int, int] = {}  # of arrays that are written where they are used, those inside one another
        self.costly: set[int] = set()  # such arrays, of which each cell takes long
        self.uses = uses_of(program)
        self.checks = list(enumerate(program.checks))
        self.calls = words.calls(program)
        self.inside = {o for node in program.nodes if node.op == "loop" for o in node.operands[node.params.carried :]}
        self.counting = counting_loops(program)
        self.parts = {(n.operands[0], n.params): p for p, n in enumerate(program.nodes) if n.op == "part"}
        self.first = {o: loop.params.results[k].name  # the first values of variables, but for those that become results
                      for p, loop in enumerate(program.nodes) if loop.op == "loop"
                      for k, o in enumerate(loop.operands[: loop.params.carried])
                      if self.uses[o] == 1 and self.parts.get((p, k)) not in self.targets}  # fmt: skip
        self.writing: set[int] = set()  # the nodes that wait for others to read what they write
        views = ("reshape",) if self.arrays else ("reshape", "transpose")
        self.added = _added_parts(program, self.uses, [value for value, _ in sums], views)
        self.rows = _added_rows(program, self.uses) if words.adds_rows else {}
        self.users: dict[int, list[int]] = {}
        for p, node in enumerate(program.nodes):
            for o in node.operands:
                self.users.setdefault(o, []).append(p)
        self.renumbered: set[int] = set()  # formulas with axes of one cell more or less
        self.shown: set[int] = set()  # arrays in another order, whose cells are read where their operand lies
        for p, node in enumerate(program.nodes if not self.arrays else ()):
            if node.op == "reshape" and self._is_renumbered(p, node):
                self.renumbered.add(p)
            elif node.op in ("transpose", "getitem") and self._is_picked(p, node):
                self.shown.add(p)
        self.stacked: dict[int, Stacked | None] = {  # the rows to be given, as soon as there is this round, by what reads these
            reader: None for readers in (ends or {}).values() for reader in readers if reader != _END
        }
        self.roots, self.readers = self._memory({value: {_END} for value in program.results} if ends is None else ends)
        self.written = self._written()
        self.sums = sums
        self.late = {value for value, _ in sums if self._is_part(value)}  # what is computed as it is added
        self.totals = {value: buffer for value, buffer in sums if self._is_total(value, buffer)}  # what loops add there

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
        if position in self.rows.values():
            self.values[position] = self.values[node.operands[0]]
            return
        if self.counting:
            self.run(self.counting[name] for name in self.counting.keys() & sizes_of_node(node))
        if node.op == "loop":
            self.values[position] = found = self._loop(position, node)
            self.values |= {p: found[k] for (loop, k), p in self.parts.items() if loop == position}
        elif node.op == "part":
            self.values[position] = self.values[node.operands[0]][node.params]
        elif node.op in OPS and not node.shape and node.op != "input":
            self.values.update(self.words.operation(self, position))
        else:
            value = self._array(position, node)
            if not isinstance(value, Cells):
                several = self.uses[position] > 1 or position in self.inside or self._reads_written(position, node)
                name = self._input_name(node) if node.op == "input" else ""
                is_index = self.whole_of(position) is not None  # nothing reads it
                value = self.words.named(name, value, node.dtype) if several and not is_index else self.words.held(value)
            elif value.buffer is None:
                depth = self.depths[position] = 1 + max((self.depths.get(o, 0) for o in node.operands), default=0)
                costly = not self.arrays and (node.op in COSTLY or not self.costly.isdisjoint(node.operands))
                again = self.uses[position] > 1 or (costly and self._is_spread(position))
                if position in self.shown or self._is_range(position, node):
                    pass  # it is in memory, or hardly more than a range
                elif again or position in self.inside or position in self.targets or self.words.holds(value, depth):
                    value = self.in_memory(value, self._target(position) or self.new(value, self.first.get(position, "")))
                    self.depths[position] = 0
                elif costly:
                    self.costly.add(position)
            self.values[position] = value

    def _target(self, position: int, at_once: bool = True) -> Buffer | None:
        """The place of a value, if nothing is to be read there any more, but for what is written `at_once`."""
        if (target := self.targets.get(position)) is None:
            return None
        there: list[int] | None = None
        while there != (there := [p for p in self.values if self._memory_of(p) == target.name]):  # reading may write there
            readers = set().union(*(self.readers.get(self.roots[p], ()) for p in there))
            if not self._are_read(readers - ({position} if at_once else set()), position):
                return None
        self.renewed.discard(target.name)
        return target

    def _memory_of(self, position: int) -> str:
        """The name of the memory in which a value lies, "" for none."""
        value = self.values.get(self.roots[position])
        return value.buffer.name if isinstance(value, Cells) and value.buffer is not None else ""

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
        if self._is_range(position, node) and not self.arrays:
            line = self.line_of(position)
            assert line is not None
            lasting = functools.cache(lambda: self.words.table(node.params)) if node.op == "const" else None
            return Cells(node.shape, node.dtype, lambda index: self.words.real(place_of(line, index)), lasting=lasting)
        if node.op == "const":
            return self.words.cells(self.words.table(node.params))
        if node.op == "size":
            return self.words.real(node.params)
        if node.op in OPS and (added := self._added_to(position, node)) is not None:
            return added
        if self.arrays and node.op not in PLACED:
            return self.arrays.array(self, position)
        if node.op in OPS:
            flat = functools.partial(self._by_places, position, node)
            return Cells(node.shape, node.dtype, lambda index: self._elementwise(position, node, index), flat=flat)
        if node.op == "reshape" and node.shape and isinstance(source := self.values[node.operands[0]], Cells):
            if position in self.renumbered and source.buffer is None:
                return _renumbered(source, node.shape)
            whole = self.in_memory(source).buffer
            assert whole is not None
            return self.words.cells(whole._replace(shape=node.shape))
        if (part := self._part(self.program, node)) is not None:
            memory = self.taken(position, 0, node.dtype) if node.op in REPLACING else None
            if memory is not None:
                (placed if self.arrays else REPLACING[node.op])(self, node, Writer(self.words, memory))
                return self.words.cells(memory)
            buffer = self.targets.get(position) or self.new(node, self.first.get(position, ""))
            self.words.note(lambda: f"{buffer.name} = {self._shown(position)}")
            if node.shape:
                self.words.reserve(buffer, node.shape[0])
            part(self, node, Writer(self.words, buffer))
            return self.words.cells(buffer) if node.shape else self.words.load(buffer, ())
        formula = FORMULAS[node.op](self, node)
        return Cells(node.shape, node.dtype, formula) if node.shape else formula(())

    def _is_range(self, position: int, node: Node) -> bool:
        """Whether an array is one of whole numbers at equal distances, which needs no memory."""
        line = self.line_of(position) if node.shape and node.op != "input" else None
        return line is not None and (bool(self.arrays) or (node.dtype == "d" and any(line[1])))

    def _part(self, program: Program, node: Node) -> Part | None:
        """What writes an array part by part, if it is written so."""
        return PLACED.get(node.op) if self.arrays else part_of_array(program, node)

    def _shown(self, position: int) -> str:
        """What a value is in comments: a name, or an operation on others."""
        value, node = self.values.get(position), self.program.nodes[position]
        if isinstance(value, Cells) and value.buffer is not None:
            return value.buffer.name
        if value is not None and not isinstance(value, Cells):
            return str(value)
        return f"{node.op}({', '.join(map(self._shown, node.operands))})"

    def _elementwise(self, position: int, node: Node, index: Index) -> Number:
        if node.op in _COMPARING:
            first, second = (self.place_at(o, index) for o in node.operands)
            if first is not None and second is not None:
                return self.words.compared(node.op, first, second)
        return self.words.cell(self.program, position, {o: self.value_at(o, index) for o in node.operands})

    def _by_places(self, position: int, node: Node) -> Formula | None:
        """The formula for a cell by its place, which is the same in all operands that are no numbers."""
        arrays = {o: value for o in node.operands if isinstance(value := self.values[o], Cells)}
        flat = {o: array.flat() if array.shape == node.shape else None for o, array in arrays.items()}
        cells = {o: at for o, at in flat.items() if at is not None}
        if len(cells) < len(flat):
            return None
        numbers = {o: self.values[o] for o in node.operands if o not in flat}
        return lambda index: self.words.cell(self.program, position, numbers | {o: at(index) for o, at in cells.items()})

    # -- memory that is written anew

    def _memory(self, ends: Mapping[int, set[int]]) -> tuple[list[int], dict[int, set[int]]]:
        """For each value the one in whose memory it lies, and what reads the memory of a value, results among them."""
        nodes = self.program.nodes
        shows = ("reshape", *(VIEWS if self.arrays else ()))
        roots: list[int] = []
        for p, node in enumerate(nodes):
            is_shown = node.op in shows and node.shape and p not in self.renumbered
            roots.append(roots[node.operands[0]] if is_shown or p in self.shown else p)
        readers: dict[int, set[int]] = {}
        reader = [{p} for p in range(len(nodes))]
        for value, end in ends.items():
            readers.setdefault(roots[value], set()).update(end)
        for p in range(len(nodes) - 1, -1, -1):
            node = nodes[p]
            if p in self.added or self._is_late(p, roots[p] == p):
                reader[p] = set().union(*(reader[u] for u in self.users.get(p, ()))) or ends.get(p, {_END})
            for o in node.operands if roots[p] == p else ():
                readers.setdefault(roots[o], set()).update(reader[p])
        return roots, readers

    def _written(self) -> set[int]:
        """The values whose memory other nodes may write to."""
        found = set()
        for node in self.program.nodes:
            if node.op in REPLACING or any(o in self.added for o in node.operands):
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
            if self.roots[o] in self.written or self._memory_of(o) in self.renewed:
                return True
            stack += self.program.nodes[o].operands if isinstance(value, Cells) and value.buffer is None else ()
        return position in self.written

    def _is_spread(self, position: int) -> bool:
        """Whether the value's only reader asks for each cell several times."""
        if position not in self.users:
            return False
        shape, own = (self.program.nodes[p].shape for p in (self.users[position][0], position))
        return len(shape) > len(own) or (len(shape) == len(own) and any(1 == n != m for n, m in zip(own, shape, strict=True)))

    def _is_renumbered(self, position: int, node: Node) -> bool:
        """Whether a reshaped array is one of formulas, of which each cell is asked for once."""
        if not self._is_late(node.operands[0], True) or self._is_spread(position):
            return False
        return bool(node.shape) and _with_many(node.shape) == _with_many(self.program.nodes[node.operands[0]].shape)

    def _is_picked(self, position: int, node: Node) -> bool:
        """Whether no reader asks for more than some cells of an array whose operand lies in memory."""
        source, users = self.program.nodes[node.operands[0]], self.users.get(position, ())
        lies = node.operands[0] in self.shown or source.op in ("part", "reshape", *REPLACING)
        picked = len(users) == self.uses[position] and all(self.program.nodes[p].op in PICKING for p in users)
        return picked and bool(node.shape) and (lies or (source.op == "input" and source.params[1] is None))

    def _is_late(self, position: int, own: bool) -> bool:
        """Whether an array is computed where it is read, with `own` cells, once."""
        node = self.program.nodes[position]
        adding = node.op == "add" and any(o in self.added for o in node.operands)
        formula = bool(node.shape) and (own or self.arrays) and not adding
        cells = node.op in OPS or node.op in FORMULAS or position in self.renumbered
        formula = formula and (node.op not in PLACED if self.arrays else cells)
        return formula and self.uses[position] == 1 and position not in self.inside and position not in self.targets

    def taken(self, position: int, place: int, code: str, more: Iterable[int] = ()) -> Buffer | None:
        """The memory of an operand that nothing reads any more once a node has, which may read `more`; None for others."""
        operands = self.program.nodes[position].operands
        value, root = self.values[operands[place]], self.roots[operands[place]]
        memory = value.buffer if isinstance(value, Cells) else None
        if memory is None or memory.name not in self.own or memory.dtype != code:
            return None
        if not self._are_read(self.readers[root] - {position}, position) or position in self.values:
            return None
        others = [*(o for k, o in enumerate(operands) if k != place and o not in self.added), *more]
        at_once = self.arrays and self.program.nodes[position].op != "loop"  # what is written is computed before
        if any(self.roots[o] == root for o in others) and not at_once:
            return None
        for o in others:
            is_lazy = isinstance(other := self.values[o], Cells) and other.buffer is None
            if is_lazy and not at_once and not self._is_range(o, self.program.nodes[o]):
                self.values[o] = self.in_memory(other)  # its cells may be those that are written
        return memory

    def _are_read(self, readers: Iterable[int], position: int) -> bool:
        """Whether these have read the memory that a node is about to write, which they do now where they can."""
        for p in readers:
            row = self.stacked.get(p)
            if not self._is_read(p) and (row or p >= 0) and self.writing.isdisjoint((p, position)):
                cone = program_cone(self.program, row.output.cells if row else (p,))
                if position not in cone:
                    self.writing.add(position)
                    self.run(sorted(cone))
                    self.stack((p,))
                    self.writing.discard(position)
            if not self._is_read(p):
                return False
        return True

    def _is_read(self, reader: int) -> bool:
        return reader in self.values if reader >= 0 else reader != _END and reader not in self.stacked

    def stack(self, readers: Iterable[int]) -> None:
        """Write the rows of results that a round gives, but for those that were written."""
        rows = [row for reader in readers if (row := self.stacked.pop(reader, None))]
        self.run(cell for row in rows for cell in row.output.cells)
        for row in rows:
            if row.rows is not None:
                self.words.reserve(row.write.buffer, row.rows)
            self.give(row.output, row.write, row.add)

    def _added_to(self, position: int, node: Node) -> Cells | None:
        """A sum in the memory of an operand to whose cells others are added."""
        late = [o for o in node.operands if o in self.added]
        if not late:
            return None
        place = node.operands.index(late[0])
        part = self.added[late[0]]
        memory = self.taken(position, 1 - place, node.dtype, self.program.nodes[part].operands)
        if memory is None:
            memory = self._target(position, False) or self.new(node)
            self.words.reserve(memory, node.shape[0])
            self.fill(self.values[node.operands[1 - place]], Writer(self.words, memory))
        self._give_part(part, self._onto(late[0], part, memory), True)
        return self.words.cells(memory)

    def _onto(self, value: int, part: int, memory: Buffer) -> Write:
        """What writes the cells of a part, of which a value is the reshaped form, or has the axes in another order."""
        view = self.program.nodes[value]
        if value == part or view.op == "reshape":
            return Writer(self.words, memory._replace(shape=self.program.nodes[part].shape))
        axes, write = view.params["axes"], Writer(self.words, memory)
        return lambda index, number, add=False: write(tuple(index[axis] for axis in axes), number, add)

    def _is_part(self, value: int) -> bool:
        alone = self.uses[value] == 1 and self._part(self.program, self.program.nodes[value]) is not None
        return alone or value in self.added

    def _is_total(self, value: int, buffer: Buffer) -> bool:
        """Whether a value is an array that rounds of a loop add up, which they may do in a buffer."""
        node = self.program.nodes[value]
        if node.op != "part" or not node.shape or self.uses[value] > 1 or self.words.ordered or node.dtype != buffer.dtype:
            return False
        loop = self.program.nodes[node.operands[0]].params
        return bool(node.params >= loop.carried + len(loop.stacks))

    def _give_part(self, position: int, write: Write, add: bool) -> None:
        node = self.program.nodes[position]
        part = self._part(self.program, node)
        assert part is not None
        part(self, node, write, add)

    def give(self, output: Any, write: Write, add: bool = False) -> None:
        """Write, or add, a result of the program."""
        value = whole_value(self.program, output)
        if value < 0 and self.arrays:
            self.fill(self.arrays.array_of([self.values[c] for c in output.cells], output.shape, output.dtype), write, add)
        elif value < 0:
            for cell, index in zip(output.cells, itertools.product(*map(range, output.shape)), strict=True):
                write(index, self.values[cell], add)
        else:
            self._give_value(value, write, add)

    def _give_value(self, value: int, write: Write, add: bool) -> None:
        if (part := self.added.get(value)) is not None:
            assert isinstance(write, Writer)
            self._give_part(part, self._onto(value, part, write.buffer), add)
        elif value not in self.values:
            self._give_part(value, write, add)
        elif (
            add and not self.arrays and (spans := self.spans.of(value)) != whole_spans(shape := self.program.nodes[value].shape)
        ):
            each_within(self, shape, spans, lambda index: write(index, self.value_at(value, index), True))
        else:
            self.fill(self.values[value], write, add)

    # -- loops

    def _loop(self, position: int, node: Node) -> list[Any]:
        """The rounds; the results."""
        words, loop = self.words, node.params
        body, carried, results = loop.body, loop.carried, loop.results
        sums = carried + len(loop.stacks)
        buffers: list[Any] = []
        kept: set[int] = set()
        parts = [self.parts.get((position, place), ~place) for place in range(sums + loop.sums)]
        wholes = [self.rows.get(part, part) for part in parts]  # one for stacks whose rows are added to one array
        known = [self.targets.get(whole) for whole in wholes]
        targets = [None if t and t.name in self.own and whole != part else t  # in which what a round reads may lie
                   for t, whole, part in zip(known, wholes, parts, strict=True)]  # fmt: skip
        taken = [self.taken(position, place, r.dtype) if place < carried and r.shape and target is None else None
                 for place, (r, target) in enumerate(zip(results, targets, strict=False))]  # fmt: skip
        for place, (result, target, memory) in enumerate(zip(results, targets, taken, strict=False)):
            few = not result.shape or (not self.arrays and words.is_small(result.shape) and not carried <= place < sums)
            if memory is not None:
                kept.add(place)
            elif parts[place] in self.totals:
                memory = self.totals[parts[place]]
            elif target is None or few:
                first = wholes.index(wholes[place])
                memory = buffers[first] if first < place else words.buffer(result.name, result.shape, result.dtype)
            buffers.append(memory or target)
        added = {place for place, part in enumerate(parts) if part in self.totals}
        self.own.update(b.name for place, b in enumerate(buffers) if b.shape and place not in added)
        given = [self.values[o] for o in node.operands]
        told = self._told_rounds(node) if loop.tested else None
        if told is not None:
            words.tell(loop.counted, told)
        counting = loop.tested and told is None
        for place, buffer in enumerate(buffers):
            if place in added:
                continue
            if buffer.shape and not (counting and carried <= place < sums):
                words.reserve(buffer, buffer.shape[0])
            if place < carried:
                if place not in kept:
                    self.fill(given[place], Writer(words, buffer))
            elif wholes.index(wholes[place]) == place and not (
                place < sums and wholes[place] == parts[place] and _covered(loop, loop.stacks[place - carried])
            ):
                words.clear(buffer)
        if told is not None and len(results) == 1:  # it only counts
            return [words.real(loop.rounds)]
        count = told if told is not None else loop.limit if loop.tested else loop.rounds
        with words.rounds(body.inputs[0].name, count, loop.backward, loop.counted if counting else "") as k:
            leaves: list[Any] = [words.real(k)]
            told_inside: list[Steps | None] = [(k, ())]
            spans: list[Spans | None] = [None]
            for place, (value, row) in enumerate(zip(given, loop.places(), strict=True)):
                own = words.load(buffers[place], ()) if place < carried and not buffers[place].shape else None
                value = words.cells(buffers[place]) if own is None and place < carried else value if own is None else own
                leaves.append(value if row is None else words.row(value, row.at(k)))
                is_same = place >= carried and row is None
                told_inside.append(self.line_of(node.operands[place]) if is_same else None)
                spans.append(self.spans.of(node.operands[place]) if is_same else None)
            renewed = _renewed(body, buffers[:carried]) if self.arrays else {}
            values = [whole_value(body, output) for output in body.outputs[sums : sums + loop.sums]]
            wanted = [(value, buffer) for value, buffer in zip(values, buffers[sums:], strict=False) if value >= 0]
            inner = Nest(words, body, leaves, told_inside, renewed, _ends(loop), wanted, spans)
            self._round(loop, inner, k, buffers, counting)
        if counting and loop.limit is not None:
            words.bound(loop.counted, loop.limit)
        found = [words.cells(b) if b.shape else words.load(b, ()) for b in buffers]
        return [*found, *([words.real(loop.rounds)] if loop.tested else [])]

    def _told_rounds(self, node: Node) -> Count | None:
        """How many rounds a loop has that goes on while the number of a round is below another, where both are known."""
        loop, k = node.params, extent("#", 0)
        places = enumerate(zip(node.operands, loop.places(), strict=True))
        given = [self.line_of(o) if place >= loop.carried and row is None else None for place, (o, row) in places]
        test = loop.body.nodes[loop.body.outputs[-1].value]
        if test.op not in ("lt", "le", "gt", "ge") or loop.limit is None:
            return None
        inner = Nest(self.words, loop.body, [], [(k, ()), *given])
        less, more = (inner.whole_of(o) for o in (test.operands if test.op in ("lt", "le") else reversed(test.operands)))
        if less is None or more is None:
            return None
        count = more - less + k + (test.op in ("le", "ge"))
        if isinstance(count, Extent) and any(size.name == "#" for size, _ in count.terms):
            return None
        return count if self.words.within(count, loop.limit + 1) else self.words.nearest(count, loop.limit + 1)

    def _round(self, loop: Any, inner: "Nest", k: Extent, buffers: list[Buffer], grows: bool) -> None:
        words, body, carried = self.words, loop.body, loop.carried
        sums = carried + len(loop.stacks)
        if grows:
            inner.run(sorted(program_cone(body, (body.outputs[-1].value,))))
            words.leave_unless(inner.values[body.outputs[-1].value])
        inner.own.update(buffer.name for buffer in buffers[:carried] if buffer.shape)
        for n, (buffer, stack) in enumerate(zip(buffers[carried:], loop.stacks, strict=False)):
            write, rows = Writer(words, buffer, (stack.place.at(k),)), k + 1 if grows else None
            inner.stacked[_END - 1 - n] = Stacked(body.outputs[carried + n], write, rows, buffers.count(buffer) > 1)
        known = {p for p, node in enumerate(body.nodes) if node.op == "input"}
        inner.stack([reader for reader, row in inner.stacked.items() if row and known.issuperset(row.output.cells)])
        inner.run(p for p in range(len(body.nodes)) if p not in inner.late)
        inner.stack(list(inner.stacked))
        for buffer, output in zip(buffers[sums:], body.outputs[sums:], strict=False):
            if whole_value(body, output) < 0:
                inner.give(output, Writer(words, buffer), True)
        for value, buffer in inner.sums:
            if value not in inner.totals:
                inner._give_value(value, Writer(words, buffer), True)
        self._carry(inner, list(zip(buffers, body.outputs[:carried], strict=False)))

    def _carry(self, inner: "Nest", nexts: list[tuple[Buffer, Any]]) -> None:
        """The carried values for the next round, all of which are computed before one is written."""
        words, body = self.words, inner.program
        own = {buffer.name for buffer, _ in nexts}
        numbers, waiting = [], []
        inputs = [(p, *node.params) for p, node in enumerate(body.nodes) if node.op == "input"]

        def number(variable: Buffer, value: Any, cells: tuple[int, ...], place: int, cell: int | None = None) -> None:
            """A variable's next value, with what reads the one before."""
            reads = {p for p, own, k in inputs if own == place + 1 and (k == cell or None in (k, cell))}
            known = {p: inner.values.get(p) for p in reads}
            reads = {p for p, v in known.items() if isinstance(v, Cells) or str(v) == variable.name}
            numbers.append((variable, value, program_cone(body, cells), reads))

        values: list[Any] = [inner.values.get(whole_value(body, output)) for _, output in nexts]
        memories = [value.buffer.name if isinstance(value, Cells) and value.buffer is not None else "" for value in values]
        for place, ((buffer, output), value, memory) in enumerate(zip(nexts, values, memories, strict=True)):
            if not buffer.shape:
                node = body.nodes[output.value]
                if not (node.op == "input" and node.params[0] == place + 1):
                    number(buffer, value, output.cells, place)
            elif memory == buffer.name:
                continue
            elif words.names_cells and value is None and len(output.cells) <= words.few:
                for k, (index, c) in enumerate(zip(itertools.product(*map(range, buffer.shape)), output.cells, strict=True)):
                    number(Buffer(str(words.load(buffer, index)), (), buffer.dtype), inner.values[c], (c,), place, k)
            elif self.arrays:
                if value is None:
                    value = self.arrays.array_of([inner.values[c] for c in output.cells], buffer.shape, buffer.dtype)
                owned = memory in inner.own and memories.count(memory) == 1
                number(buffer, self.arrays.apart(value, buffer, owned), output.cells, place)
            elif memory and memory not in own:
                waiting.append((buffer, value))
            else:
                other = words.buffer("", buffer.shape, buffer.dtype)
                words.reserve(other, buffer.shape[0])
                inner.give(output, Writer(words, other))
                waiting.append((buffer, words.cells(other)))
        words.assign([(variable, value, any(reads & cone for _, _, cone, _ in numbers[n + 1 :]))
                      for n, (variable, value, _, reads) in enumerate(numbers)])  # fmt: skip
        for buffer, value in waiting:
            self.fill(value, Writer(words, buffer))


def _with_many(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _renumbered(array: Cells, shape: Shape) -> Cells:
    """An array with axes of one cell more or less."""

    def at(index: Index) -> Number:
        rest = iter([i for i, n in zip(index, shape, strict=True) if n != 1])
        return array.at(tuple(0 if n == 1 else next(rest) for n in array.shape))

    return Cells(shape, array.dtype, at, flat=array.flat)


def _renewed(body: Program, buffers: list[Buffer]) -> dict[int, Buffer]:
    """The next values of carried arrays, which have their names as soon as those of before have been read."""
    values = [whole_value(body, output) for output in body.outputs[: len(buffers)]]
    return {
        value: buffer
        for value, buffer in zip(values, buffers, strict=True)
        if value >= 0 and body.nodes[value].shape and body.nodes[value].op not in {*PLACED, "part"} and values.count(value) == 1
    }


def _ends(loop: Any) -> dict[int, set[int]]:
    """What reads the results of a round, by their values: its end, or what stacks a row, one of these each."""
    found: dict[int, set[int]] = {}
    for place, output in enumerate(loop.body.outputs):
        is_stacked = loop.carried <= place < loop.carried + len(loop.stacks)
        for cell in output.cells:
            found.setdefault(cell, set()).add(_END - 1 - (place - loop.carried) if is_stacked else _END)
    return found


def _added_parts(program: Program, uses: list[int], sums: Sequence[int], views: Sequence[str]) -> dict[int, int]:
    """Parts of arrays that are zero elsewhere, which are only added to other arrays and to `sums`; and by their `views` the
    parts.
    """
    adds: dict[int, list[int]] = {}
    for position, node in enumerate(program.nodes):
        operands = [(o, program.nodes[o]) for o in node.operands]
        if node.op != "add" or not node.shape or any((x.shape, x.dtype) != (node.shape, node.dtype) for _, x in operands):
            continue
        if operands[0][0] != operands[1][0]:
            for o, _ in operands:
                adds.setdefault(o, []).append(position)
    found: dict[int, int] = {}
    for o, positions in adds.items():
        x = program.nodes[o]
        part = x.operands[0] if x.op in views else o
        only = uses[o] == len(positions) + sums.count(o) and (part == o or uses[part] == 1)
        beside = any(other in found for p in positions for other in program.nodes[p].operands)
        if only and not beside and program.nodes[part].op in ADDING:
            found |= {o: part, part: part}
    return found


def _added_rows(program: Program, uses: list[int]) -> dict[int, int]:
    """Stacks of one loop, of a known number of rounds, that are read by their sum alone; and the sums by these parts."""
    found: dict[int, int] = {}
    for position, node in enumerate(program.nodes):
        parts = [program.nodes[o] for o in node.operands]
        if node.op != "add" or not all(p.op == "part" and p.shape == node.shape and p.dtype == node.dtype for p in parts):
            continue
        loop, first = program.nodes[parts[0].operands[0]].params, parts[0].operands[0]
        stacks = range(loop.carried, loop.carried + len(loop.stacks))
        alone = all(p.operands[0] == first and p.params in stacks for p in parts) and all(uses[o] == 1 for o in node.operands)
        if alone and not loop.tested and node.operands[0] != node.operands[1]:
            found |= dict.fromkeys(node.operands, position)
    return found


def _covered(loop: Any, stack: Any) -> bool:
    """Whether the rounds give all rows of a stack."""
    return abs(stack.place.step) == 1 and stack.size == loop.rounds  # type: ignore[no-any-return]


def nest_of(words: Words, program: Program, inputs: Sequence[Any], outputs: Sequence[Buffer]) -> None:
    """Say a whole program, from its inputs, numbers and arrays, to the places of its results."""
    whole: dict[int, Buffer] = {}
    asked = program_cone(program, program.checks)  # before which no result is written
    for output, buffer in zip(program.outputs, outputs, strict=True):
        value = whole_value(program, output)
        if value < 0 or not output.shape:
            continue
        node = program.nodes[value]
        early = value in asked or (node.op == "part" and node.operands[0] in asked)
        if not early and node.op not in ("input", "const", "reshape"):
            whole.setdefault(value, buffer)
    nest = Nest(words, program, inputs, [None] * len(inputs), whole)
    nest.run()
    nest.end()
    for output, buffer in zip(program.outputs, outputs, strict=True):
        made = nest.values.get(whole_value(program, output))
        if 0 in output.shape:
            words.reserve(buffer, output.shape[0])
            words.clear(buffer)
        elif not (isinstance(made, Cells) and made.buffer is not None and made.buffer.name == buffer.name):
            if output.shape:
                words.reserve(buffer, output.shape[0])
            nest.give(output, Writer(words, buffer))

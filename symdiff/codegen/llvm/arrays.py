"""A kernel over whole arrays as LLVM IR: loops around explicit vectors, with sums kept in registers.

Assumes operands and results in contiguous arrays, or views of them, of sizes that are known. Guarantees the arithmetic of
`scalar` in every cell; sums whose error grows no faster than that of NumPy's pairwise ones (partial sums of `SPAN` vectors,
added up with compensation: Knuth's two-sum); a masked last vector, so that no cell beyond an array is touched.
"""

import math
import struct
from typing import NamedTuple

from symdiff.codegen.llvm.cells import CellLines
from symdiff.codegen.llvm.scalar import emit_instructions
from symdiff.codegen.math.lines import TYPES, Value
from symdiff.ir.node import Node
from symdiff.lowering.arrays.nesting import Cells, Nest, Result
from symdiff.vocabulary.ops import part_of_code, parts_of_code

REDUCED = {"sum": -0.0, "max": -math.inf, "min": math.inf}  # with what changes nothing; -0 keeps the sign of a zero
SPAN = 64  # vectors that are added up without compensation


def llvm_array_function(nest: Nest, name: str, lanes: int, width: int) -> tuple[str, set[str], dict[str, str]]:
    """A function `name(pointers to the arrays...)`, the vector functions that it uses, and what it declares.

    `width`: the numbers that the functions of `llvm_functions` take at once, 0 where the machine has none for them.
    """
    writer = _Writer(nest, name, lanes, width)
    body = writer.lines()
    parameters = ", ".join(f"ptr %p{k}" for k in range(len(nest.arrays)))
    tables = [_table(f"{name}.table{k}", table) for k, table in enumerate(nest.tables)]
    return (
        "\n".join([*tables, f"define void @{name}({parameters}) {{", "entry:", *writer.slots, *body, "  ret void", "}"]),
        set(writer.used),
        writer.declared,
    )


def _table(name: str, numbers: tuple[int, ...]) -> str:
    """Whole numbers that a function reads."""
    return f"@{name} = private constant [{len(numbers)} x i64] [{', '.join(f'i64 {n}' for n in numbers)}]"


class _Sum(NamedTuple):
    """A sum under way: `parts` are its slots for real and imaginary part; with compensation, `whole` hold the parts before
    and `lost` what was rounded off. It begins at axis `start`, and the parts move on behind the loops from axis `flush` on.
    An extreme's `lost` is the NaN that it has met, apart from it, so that each vector waits for one comparison only.
    """

    result: Result
    start: int
    flush: int
    parts: tuple[str, ...]
    whole: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The dtype of the numbers that it is made of."""
        return part_of_code(self.result.cells.code)


class _Writer(CellLines):
    def __init__(self, nest: Nest, name: str, lanes: int, width: int) -> None:
        super().__init__(name, lanes, width)
        self.nested = nest
        self.domain = nest.domain
        self.inner = len(nest.domain) - 1
        self.rest = self.domain[-1] % lanes
        self.sums = {k: self.opened(r) for k, r in enumerate(nest.results) if r.kind in REDUCED and not r.cells.strides[-1]}

    # -- the nest

    def lines(self) -> list[str]:
        """The body of the function."""
        for result in self.nested.results:
            if self.partial(result) or result.kind == "scatter":
                self.clear(result)
        self.nest(0)
        return self.text

    def nest(self, axis: int) -> None:
        """The loops from an axis on; a sum that begins there starts from nothing before, and is written behind."""
        own = [s for s in self.sums.values() if s.start == axis]
        for s in own:
            self.set(s, (*s.parts, *s.whole, *s.lost))
        if axis == self.inner:
            self.innermost()
        else:
            with self.loop(str(self.domain[axis])) as index:
                self.index.append(index)
                self.nest(axis + 1)
                self.move(axis + 1)
                self.index.pop()
        for s in own:
            self.close(s)

    def innermost(self) -> None:
        """The loop over vectors of the last axis, and the vector that is not full."""
        self.once = {place: self.number(cells, "0") for place, cells in enumerate(self.nested.operands) if cells.is_fixed()}
        self.behind = {k: self.carried(r) for k, r in enumerate(self.nested.results) if r.behind}
        full = self.domain[-1] - self.rest
        if full:
            span = SPAN * self.lanes
            if full > span and any(s.flush > self.inner for s in self.sums.values()):
                with self.loop(str(full), span) as start:
                    end = self.put(f"add i64 {start}, {span}")
                    self.vectors(start, self.put(f"call i64 @llvm.smin.i64(i64 {end}, i64 {full})"))
                    self.declared["llvm.smin.i64"] = "declare i64 @llvm.smin.i64(i64, i64)"
                    self.move(self.inner + 1)
            else:
                self.vectors("0", str(full))
            self.write_ends(full)
        if self.rest:
            self.vector(str(full), self.rest)

    def vectors(self, start: str, stop: str) -> None:
        """A loop over full vectors of cells."""
        with self.loop(stop, self.lanes, start) as place:
            self.vector(place, self.lanes)

    def vector(self, place: str, count: int) -> None:
        """The work on one vector of cells, of which `count` are there."""
        program = self.nested.program

        def load(node: Node) -> Value:
            operand = node.params[0]
            return self.once[operand] if operand in self.once else self.load(self.nested.operands[operand], place, count)

        values = emit_instructions(program, self, load)
        before: Value = ()
        for k, result in enumerate(self.nested.results):
            cells, output = result.cells, program.outputs[result.output]
            found = self.converted(values[output.cells[0]], program.nodes[output.cells[0]].dtype, cells.code)
            if k in self.sums:
                self.accumulate(self.sums[k], found, count)
                continue
            if result.behind:
                pairs = zip(self.behind[k], before, strict=True)
                moved = tuple(self.shifted(slot, v, result.behind, cells) for slot, v in pairs)
                found = self.plus(cells, moved, found)
            elif result.kind in ("add", "scatter"):
                found = self.plus(cells, self.load(cells, place, count), found)
            elif self.partial(result):
                pairs = zip(self.load(cells, place, count), found, strict=True)
                found = tuple(self.joined(result.kind, self.lanes, part_of_code(cells.code), a, b) for a, b in pairs)
            if count < self.lanes or not self.is_handed_on(k):
                self.store(cells, place, count, found)
            before = found

    def is_handed_on(self, place: int) -> bool:
        """Whether the next result writes the cells of a result once more, but for the last ones."""
        return place + 1 < len(self.nested.results) and self.nested.results[place + 1].behind > 0

    def write_ends(self, full: int) -> None:
        """The last cells of the full vectors, where results that are handed on have not been written."""
        for k, slots in self.behind.items():
            cells = self.nested.results[k - 1].cells
            kind, plain = self.kind(part_of_code(cells.code)), TYPES[part_of_code(cells.code)]
            for part, slot in enumerate(slots):
                vector = self.put(f"load {kind}, ptr {slot}")
                for lane in range(self.lanes - self.nested.results[k].behind, self.lanes):
                    one = vector if self.lanes == 1 else self.lane(vector, part_of_code(cells.code), lane)
                    place = self.address(cells, str(full - self.lanes), lane)
                    self.run(f"store {plain} {one}, ptr {self.put(f'getelementptr {plain}, ptr {place}, i64 {part}')}")

    # -- neighbours

    def plus(self, cells: Cells, first: Value, second: Value) -> Value:
        code = part_of_code(cells.code)
        return tuple(self.op("fadd", code, a, b) for a, b in zip(first, second, strict=True))

    def carried(self, result: Result) -> tuple[str, ...]:
        """Slots for the vector before, zero at first."""
        kind = self.kind(part_of_code(result.cells.code))
        slots = tuple(self.slot(kind) for _ in range(parts_of_code(result.cells.code)))
        self.text += [f"  store {kind} zeroinitializer, ptr {slot}" for slot in slots]
        return slots

    def shifted(self, slot: str, value: str, behind: int, cells: Cells) -> str:
        """The cells that lie `behind` before those of a vector, from it and the vector before it."""
        kind = self.kind(code := part_of_code(cells.code))
        before = self.put(f"load {kind}, ptr {slot}")
        self.run(f"store {kind} {value}, ptr {slot}")
        return self.shuffled(code, before, value, [self.lanes - behind + lane for lane in range(self.lanes)])

    # -- sums

    def partial(self, result: Result) -> bool:
        """Whether a sum is added to its cells piece by piece: an axis is summed that lies before one that is not."""
        strides = result.cells.strides
        summed = [not s and n > 1 for s, n in zip(strides, self.domain, strict=True)]
        return result.kind in REDUCED and any(summed[: max((i + 1 for i, s in enumerate(strides) if s), default=0)])

    def opened(self, result: Result) -> _Sum:
        """The slots of a sum in registers."""
        start = max((i + 1 for i, s in enumerate(result.cells.strides) if s), default=0)
        vectors = -(-self.domain[-1] // self.lanes)
        rows = [math.prod(self.domain[axis:-1]) * vectors for axis in range(start, self.inner + 1)]
        flush = next((start + k for k, n in enumerate(rows) if n <= SPAN), self.inner + 1) if result.kind == "sum" else start
        parts = parts_of_code(result.cells.code)
        made = [tuple(self.slot(self.kind(part_of_code(result.cells.code))) for _ in range(parts)) for _ in range(3)]
        if result.kind != "sum":
            return _Sum(result, start, flush, made[0], (), made[1])
        return _Sum(result, start, flush, *made) if flush > start else _Sum(result, start, flush, made[0])

    def joined(self, how: str, count: int, code: str, a: str, b: str) -> str:
        """The sum, maximum or minimum of numbers, or of vectors of `count` numbers; a NaN wins."""
        kind, truth = (TYPES[code], "i1") if count == 1 else (f"<{count} x {TYPES[code]}>", f"<{count} x i1>")
        if how == "sum":
            return self.put(f"fadd {kind} {a}, {b}")
        better = self.put(f"fcmp {'ogt' if how == 'max' else 'olt'} {kind} {b}, {a}")
        better = self.put(f"or {truth} {better}, {self.put(f'fcmp uno {kind} {b}, {b}')}")
        return self.put(f"select {truth} {better}, {kind} {b}, {kind} {a}")

    def set(self, s: _Sum, slots: tuple[str, ...]) -> None:
        """Nothing in slots."""
        code = s.code
        nothing = self.literal(REDUCED[s.result.kind], code)
        self.text += [f"  store {self.kind(code)} {nothing}, ptr {slot}" for slot in slots]

    def accumulate(self, s: _Sum, value: Value, count: int) -> None:
        """Add a vector's lanes that are there."""
        code = s.code
        kind = self.kind(code)
        nothing = self.literal(REDUCED[s.result.kind], code)
        for k, (slot, v) in enumerate(zip(s.parts, value, strict=True)):
            if count < self.lanes:
                v = self.shuffled(code, v, nothing, [lane if lane < count else self.lanes for lane in range(self.lanes)])
            old = self.put(f"load {kind}, ptr {slot}")
            if s.result.kind == "sum":
                new = self.op("fadd", code, old, v)
            else:
                new = self.select(self.compare("ogt" if s.result.kind == "max" else "olt", code, v, old), code, v, old)
                missing = self.put(f"load {kind}, ptr {s.lost[k]}")
                missing = self.select(self.compare("uno", code, v, v), code, v, missing)
                self.run(f"store {kind} {missing}, ptr {s.lost[k]}")
            self.run(f"store {kind} {new}, ptr {slot}")

    def move(self, axis: int) -> None:
        """The parts of the sums whose loops from `axis` on are through go to the whole ones."""
        for s in self.sums.values():
            if s.whole and s.flush == axis:
                self.compensate(s)

    def compensate(self, s: _Sum) -> None:
        code = s.code
        kind = self.kind(code)
        for part, whole, lost in zip(s.parts, s.whole, s.lost, strict=True):
            a, b, error = (self.put(f"load {kind}, ptr {slot}") for slot in (whole, part, lost))
            total = self.op("fadd", code, a, b)
            second = self.op("fsub", code, total, a)
            first = self.op("fsub", code, total, second)
            off = self.op("fadd", code, self.op("fsub", code, a, first), self.op("fsub", code, b, second))
            self.run(f"store {kind} {total}, ptr {whole}")
            self.run(f"store {kind} {self.op('fadd', code, error, off)}, ptr {lost}")
        self.set(s, s.parts)

    def close(self, s: _Sum) -> None:
        """Write a sum, or add it to its cell."""
        cells, code = s.result.cells, s.code
        if s.whole:
            self.compensate(s)
        outer = [*self.index, *["0"] * (len(self.domain) - len(self.index))]
        kept, self.index = self.index, outer[:-1]
        pointer, totals = self.address(cells, "0"), []
        before = self.read(pointer, cells.code) if self.partial(s.result) else ()
        for k in range(len(s.parts)):
            if s.result.kind != "sum":
                kind = self.kind(code)
                best, missing = (self.put(f"load {kind}, ptr {slot}") for slot in (s.parts[k], s.lost[k]))
                self.text.append(
                    f"  store {kind} {self.joined(s.result.kind, self.lanes, code, best, missing)}, ptr {s.parts[k]}"
                )
            total = self.across(s.result.kind, code, (s.whole or s.parts)[k])
            if s.whole:
                error = self.across("sum", code, s.lost[k])
                better = self.put(f"fadd {TYPES[code]} {total}, {error}")
                some = self.put(f"fcmp one {TYPES[code]} {error}, 0.0")  # not so for NaN, which infinities leave
                total = self.put(f"select i1 {some}, {TYPES[code]} {better}, {TYPES[code]} {total}")
            totals.append(self.joined(s.result.kind, 1, code, before[k], total) if before else total)
        self.write(pointer, tuple(totals), cells.code)
        self.index = kept

    def across(self, how: str, code: str, slot: str) -> str:
        """The sum, maximum or minimum of a vector's lanes, in pairs."""
        lanes = self.lanes
        value = self.put(f"load {self.kind(code)}, ptr {slot}")
        while lanes > 2:
            half = lanes // 2
            low, high = (self.shuffled(code, value, "undef", range(first, first + half), lanes) for first in (0, half))
            value = self.joined(how, half, code, low, high)
            lanes = half
        if lanes == 1:
            return value
        ends = [self.put(f"extractelement <2 x {TYPES[code]}> {value}, i32 {k}") for k in (0, 1)]
        return self.joined(how, 1, code, ends[0], ends[1])

    def clear(self, result: Result) -> None:
        """Nothing in all cells of a result that is added up in memory."""
        cells, rows = result.cells, result.cells.rows
        count = math.prod(n for n, s in zip(self.domain, cells.strides, strict=True) if s)
        count = count if rows is None else rows.many * rows.step
        kind = TYPES[part_of_code(cells.code)]
        nothing = struct.unpack("<Q", struct.pack("<d", REDUCED.get(result.kind, 0.0)))[0]
        with self.loop(str(count * parts_of_code(cells.code))) as index:
            place = self.put(f"getelementptr {kind}, ptr %p{cells.array}, i64 {index}")
            self.run(f"store {kind} 0x{nothing:016X}, ptr {place}")

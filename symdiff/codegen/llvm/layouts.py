"""Arrays of points in memory and vectors of points in registers: loads, stores and the transposing between them.

Assumes `%name`, `%name.point` and `%name.step<k>` to hold an array's address and its steps in bytes, from point to point and
along each axis of a point, and arrays of numbers. Guarantees that nothing is read or written but the cells of the points asked
for.

The layouts: "last", neighbouring points are neighbours in memory, so that a cell of many points is one vector; "first", the
cells of a point are contiguous, so that points are rows, which are transposed in registers; "packed", an output of such rows
without gaps, whose cache lines are written past the caches wherever rows begin and end; "any", number by number; "one", a
value that all points share.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from symdiff.codegen.llvm.scalar import LINE
from symdiff.codegen.math.lines import TYPES, Lines, Value
from symdiff.vocabulary.ops import bytes_of_code, part_of_code, parts_of_code


@dataclass(frozen=True, slots=True)
class Array:
    """An input or output as the emitted code knows it: the name of its address, a point's shape, dtype code, layout.

    `stream`: an output is written past the caches, its memory aligned to so many bytes; 0: it is not.
    A store that misses the caches reads its line first; one past them does not, which saves a third of a copy's traffic.
    Of a packed output, the bytes by which the first point begins past a cache line.
    """

    name: str
    shape: tuple[int, ...]
    code: str
    layout: str
    stream: int = 0

    @property
    def part(self) -> str:
        """The dtype code of the real numbers that it is made of."""
        return part_of_code(self.code)

    @property
    def parts(self) -> int:
        """Real numbers in a cell."""
        return parts_of_code(self.code)

    @property
    def item(self) -> int:
        """Bytes of a cell."""
        return bytes_of_code(self.code)

    def piece(self, lanes: int) -> int:
        """Numbers of a packed output that are stored at once: a power of two that divides a point."""
        numbers = self.cells * self.parts
        return min(numbers & -numbers, LINE // bytes_of_code(self.part), lanes)

    def kept(self, lanes: int) -> int:
        """The pieces of a packed output that wait for the rest of their cache line."""
        return -(-self.stream // (self.piece(lanes) * bytes_of_code(self.part)))

    def plain(self) -> "Array":
        """The same array written through the caches."""
        return replace(self, layout="first", stream=0) if self.layout == "packed" else self

    @property
    def cells(self) -> int:
        """Cells of a point."""
        return math.prod(self.shape)


class Points:
    """The points of one vector: `lanes` of them from `point` on, none beyond `last` where that is given.

    `kept` holds, for each packed output, the pieces before these points that wait for the rest of their cache line; behind
    `store`, those of these points. Where it has none, these points are the first, and written through the caches.
    """

    def __init__(self, lines: Lines, point: str, last: str = "", kept: Mapping[str, list[str]] = MappingProxyType({})) -> None:
        self.lines = lines
        self.point = point
        self.last = last
        self.kept = dict(kept)
        self._rows: dict[str, list[str]] = {}

    def rows(self, array: Array) -> list[str]:
        """The address of each point; points beyond the last one stand for it."""
        found = self._rows.get(array.name)
        if found is None:
            found = self._rows[array.name] = [self._row(array, k) for k in range(self.lines.lanes)]
        return found

    def _row(self, array: Array, lane: int) -> str:
        lines = self.lines
        index = lines.put(f"add i64 {self.point}, {lane}")
        if self.last:
            inside = lines.put(f"icmp slt i64 {index}, {self.last}")
            index = lines.put(f"select i1 {inside}, i64 {index}, i64 {self.last}")
        offset = lines.put(f"mul i64 {index}, %{array.name}.point")
        return lines.put(f"getelementptr i8, ptr %{array.name}, i64 {offset}")

    def load(self, array: Array, cells: list[int]) -> dict[int, Value]:
        """Some cells of the points."""
        if array.layout == "first":
            return self._by_rows(array, cells)
        if array.layout == "last" and not self.last:
            rows = self.rows(array)
            places = {cell: _moved(self.lines, rows[0], array, cell) for cell in cells}
            return {cell: self.lines.line(place, array.code, self.lines.lanes) for cell, place in places.items()}
        return {cell: self.lines.gathered(self._places(array, cell), array.code) for cell in cells}

    def store(self, array: Array, values: list[Value]) -> None:
        """All cells of the points."""
        if array.layout == "first":
            self._into_rows(array, [part for value in values for part in value])
        elif array.layout == "packed":
            self._into_lines(array, [part for value in values for part in value])
        elif array.layout == "last" and not self.last:
            for cell, value in enumerate(values):
                place = _moved(self.lines, self.rows(array)[0], array, cell)
                how = _aligned(array, self.lines.lanes * array.parts)
                self.lines.write_line(place, array.code, self.lines.lanes, value, how)
        else:
            for cell, value in enumerate(values):
                self.lines.scattered(self._places(array, cell), value, array.code)

    def _places(self, array: Array, cell: int) -> list[str]:
        return [_moved(self.lines, row, array, cell) for row in self.rows(array)]

    def _by_rows(self, array: Array, cells: list[int]) -> dict[int, Value]:
        numbers: dict[int, str] = {}
        wide = width(array, self.lines.lanes)
        wanted = [cell * array.parts + k for cell in cells for k in range(array.parts)]
        for number in wanted:
            if number not in numbers:
                first = min(number, array.cells * array.parts - wide)
                rows = [self._piece(array, row, first, wide) for row in self.rows(array)]
                numbers.update(
                    zip(range(first, first + wide), emit_transposed(self.lines, array.part, rows, wide), strict=True)
                )
        return {cell: tuple(numbers[cell * array.parts + k] for k in range(array.parts)) for cell in cells}

    def _piece(self, array: Array, row: str, first: int, wide: int) -> str:
        place = self.lines.put(f"getelementptr i8, ptr {row}, i64 {first * bytes_of_code(array.part)}")
        kind = f"<{wide} x {TYPES[array.part]}>"
        return self.lines.put(f"load {kind}, ptr {place}, align {bytes_of_code(array.part)}")

    def _into_rows(self, array: Array, numbers: list[str]) -> None:
        """Row after row, a cache line of each at a time: lines that are filled slowly are written in pieces."""
        wide = width(array, self.lines.lanes)
        line = max(LINE // bytes_of_code(array.part), wide)
        for begin in range(0, len(numbers), line):
            starts = range(begin, min(begin + line, len(numbers)), wide)
            pieces = {}
            for start in starts:
                first = min(start, len(numbers) - wide)
                pieces[first] = emit_untransposed(self.lines, array.part, numbers[first : first + wide])
            for lane, row in enumerate(self.rows(array)):
                for first, rows in pieces.items():
                    place = self.lines.put(f"getelementptr i8, ptr {row}, i64 {first * bytes_of_code(array.part)}")
                    _put(self.lines, array, wide, rows[lane], place)

    def _into_lines(self, array: Array, numbers: list[str]) -> None:
        """Whole cache lines one after another, the first of which began with the points before, past the caches."""
        lines, size = self.lines, bytes_of_code(array.part)
        wide, kept = array.piece(lines.lanes), array.kept(lines.lanes)
        rows = [emit_untransposed(lines, array.part, numbers[k : k + wide]) for k in range(0, len(numbers), wide)]
        pieces = [row[lane] for lane in range(lines.lanes) for row in rows]
        base = self.rows(array)[0]
        before = self.kept.get(array.name)
        if before is None:
            for k, piece in enumerate(pieces):
                place = lines.put(f"getelementptr i8, ptr {base}, i64 {k * wide * size}")
                lines.run(f"store <{wide} x {TYPES[array.part]}> {piece}, ptr {place}, align {size}")
        else:
            whole = [*before, *pieces]
            skipped = kept * wide - array.stream // size
            for k in range(len(pieces)):
                vector = whole[k]
                if skipped:
                    vector = lines.shuffled(array.part, vector, whole[k + 1], range(skipped, skipped + wide), wide)
                place = lines.put(f"getelementptr i8, ptr {base}, i64 {k * wide * size - array.stream}")
                how = f"align {wide * size}, !nontemporal !0"
                lines.run(f"store <{wide} x {TYPES[array.part]}> {vector}, ptr {place}, {how}")
        self.kept[array.name] = pieces[len(pieces) - kept :]

    def drain(self, array: Array) -> None:
        """Write the pieces before these points that wait, through the caches."""
        wide, size = array.piece(self.lines.lanes), bytes_of_code(array.part)
        waiting = self.kept[array.name]
        base = self.rows(array)[0]
        for k, piece in enumerate(waiting):
            place = self.lines.put(f"getelementptr i8, ptr {base}, i64 {(k - len(waiting)) * wide * size}")
            self.lines.run(f"store <{wide} x {TYPES[array.part]}> {piece}, ptr {place}, align {size}")


def emit_shared_cells(lines: Lines, array: Array, cells: list[int]) -> dict[int, Value]:
    """Cells that all points share, repeated in every lane."""
    found: dict[int, Value] = {}
    for cell in cells:
        numbers = lines.read(_moved(lines, f"%{array.name}", array, cell), array.code)
        found[cell] = tuple(lines.repeated(TYPES[array.part], number, lines.lanes) for number in numbers)
    return found


def width(array: Array, lanes: int) -> int:
    """How many neighbouring numbers of a point are taken at once: a power of two."""
    most = array.stream // bytes_of_code(array.part) or lanes
    return min(lanes, most, 1 << (int(array.cells * array.parts).bit_length() - 1))


def emit_transposed(lines: Lines, code: str, rows: list[str], wide: int) -> list[str]:
    """`wide` vectors, the k-th of which has the k-th number of each row; `rows` are vectors of `wide` numbers."""
    joined = []
    for k in range(wide):
        column, size = rows[k::wide], wide
        while len(column) > 1:
            pairs = zip(column[::2], column[1::2], strict=True)
            column = [lines.shuffled(code, a, b, range(2 * size), size) for a, b in pairs]
            size *= 2
        joined.append(column[0])
    return _swapped(lines, code, joined)


def emit_untransposed(lines: Lines, code: str, columns: list[str]) -> list[str]:
    """The rows, one for each lane, of which `columns` has the numbers."""
    wide, n = len(columns), lines.lanes
    joined = _swapped(lines, code, columns)
    if wide == n:
        return joined
    pieces = [range(start, start + wide) for start in range(0, n, wide)]
    return [lines.shuffled(code, joined[k % wide], joined[k % wide], pieces[k // wide]) for k in range(n)]


def _swapped(lines: Lines, code: str, vectors: list[str]) -> list[str]:
    """Each square block of w numbers of w vectors transposed, in log2(w) rounds that swap ever larger parts of it."""
    found = list(vectors)
    n, size = lines.lanes, 1
    while size < len(found):
        for i in range(len(found)):
            if not i & size:
                a, b = found[i], found[i + size]
                low = [p if not p & size else n + p - size for p in range(n)]
                high = [p + size if not p & size else n + p for p in range(n)]
                found[i], found[i + size] = (lines.shuffled(code, a, b, mask) for mask in (low, high))
        size *= 2
    return found


def _aligned(array: Array, wide: int) -> str:
    """How a vector of an output's numbers is aligned, and whether it is written past the caches."""
    size = bytes_of_code(array.part)
    return f"{min(array.stream, wide * size)}, !nontemporal !0" if array.stream else f"{size}"


def _put(lines: Lines, array: Array, wide: int, numbers: str, place: str) -> None:
    """The store of a vector of an output's numbers."""
    lines.run(f"store <{wide} x {TYPES[array.part]}> {numbers}, ptr {place}, align {_aligned(array, wide)}")


def _moved(lines: Lines, base: str, array: Array, cell: int) -> str:
    """The address of a cell of the point at `base`, by the steps along the point's axes."""
    place = base
    for axis, size in reversed(list(enumerate(array.shape))):
        cell, index = divmod(cell, size)
        if index:
            offset = lines.put(f"mul i64 %{array.name}.step{axis}, {index}")
            place = lines.put(f"getelementptr i8, ptr {place}, i64 {offset}")
    return place

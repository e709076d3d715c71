"""Loops over arrays in LLVM IR under construction, and the vectors of cells that they read and write.

Assumes arrays at `%p<k>`, their strides known. Guarantees that no cell beyond those asked for is touched: a last vector that
is not full is read and written in as many cells as there are.
"""

from symdiff.codegen.math.lines import TYPES, Lines, Value
from symdiff.lowering.arrays.nesting import Cells, Rows
from symdiff.vocabulary.ops import bytes_of_code, part_of_code


class CellLines(Lines):
    """Lines within loops; `index` are those of the open ones, `slots` the variables, which LLVM keeps in registers."""

    def __init__(self, name: str, lanes: int, width: int) -> None:
        super().__init__(lanes, "v", width)
        self.name = name  # of the function, before those of its tables
        self.slots: list[str] = []
        self.index: list[str] = []

    def slot(self, kind: str) -> str:
        """A variable, which LLVM keeps in a register."""
        name = f"%s{len(self.slots)}"
        self.slots.append(f"  {name} = alloca {kind}")
        return name

    def address(self, cells: Cells, place: str, lane: int = 0) -> str:
        """Where a cell of the current row lies: the one `lane` behind the cell `place` of the last axis."""
        item = bytes_of_code(cells.code)
        moving = [(i, s * item) for i, s in zip([*self.index, place], cells.strides, strict=True) if s]
        fixed = (cells.offset + lane * cells.strides[-1]) * item
        total = str(fixed + sum(int(index) * step for index, step in moving if index.isdigit()))
        if cells.rows is not None:
            moving.append((self.row(cells.rows, place, lane), cells.rows.step * item))
        for index, step in moving:
            if not index.isdigit():
                total = self.put(f"add i64 {total}, {self.put(f'mul i64 {index}, {step}')}")
        return self.put(f"getelementptr i8, ptr %p{cells.array}, i64 {total}")

    def row(self, rows: Rows, place: str, lane: int) -> str:
        """A number of a table."""
        at = str(lane * rows.strides[-1])
        for index, step in zip([*self.index, place], rows.strides, strict=True):
            if step:
                at = self.put(f"add i64 {at}, {self.put(f'mul i64 {index}, {step}')}")
        return self.put(f"load i64, ptr {self.put(f'getelementptr i64, ptr @{self.name}.table{rows.table}, i64 {at}')}")

    def load(self, cells: Cells, place: str, count: int) -> Value:
        """A vector of cells, 0 in the lanes that are not there."""
        if self.lanes == 1:
            return self.number(cells, place)
        if count > 1 and cells.is_line():
            return self.line(self.address(cells, place), cells.code, count)
        places = [self.address(cells, place, lane) for lane in range(count)]
        return self.gathered(places, cells.code, "zeroinitializer")

    def number(self, cells: Cells, place: str) -> Value:
        """One cell in all lanes."""
        found = self.read(self.address(cells, place), cells.code)
        part = TYPES[part_of_code(cells.code)]
        return found if self.lanes == 1 else tuple(self.repeated(part, one, self.lanes) for one in found)

    def store(self, cells: Cells, place: str, count: int, value: Value) -> None:
        """Write the cells that are there."""
        if self.lanes == 1:
            self.write(self.address(cells, place), value, cells.code)
        elif count > 1 and cells.is_line():
            self.write_line(self.address(cells, place), cells.code, count, value)
        else:
            self.scattered([self.address(cells, place, lane) for lane in range(count)], value, cells.code)

"""Loops over arrays in LLVM IR under construction, and the vectors of cells that they read and write.

Assumes arrays at `%p<k>`, their strides known. Guarantees that no cell beyond those asked for is touched: a last vector that
is not full is read and written in as many cells as there are.
"""

from symdiff.codegen.math.lines import TYPES, Lines, Value
from symdiff.lowering.arrays.nesting import Cells, Rows
from symdiff.vocabulary.ops import bytes_of_code, part_of_code, parts_of_code


class CellLines(Lines):
    """Lines within loops; `index` are those of the open ones, `slots` the variables, which LLVM keeps in registers."""

    def __init__(self, name: str, lanes: int, width: int) -> None:
        super().__init__(lanes, "v", width)
        self.name = name  # of the function, before those of its tables
        self.slots: list[str] = []
        self.index: list[str] = []
        self._loops: list[tuple[str, str, str, int]] = []
        self._labels = 0

    def loop(self, start: str, stop: str, step: int) -> str:
        """Open a loop; its index."""
        self._labels += 1
        label = f"loop{self._labels}"
        slot = self.slot("i64")
        self.text += [f"  store i64 {start}, ptr {slot}", f"  br label %{label}", f"{label}:"]
        index = self.put(f"load i64, ptr {slot}")
        more = self.put(f"icmp slt i64 {index}, {stop}")
        self.text += [f"  br i1 {more}, label %{label}.body, label %{label}.end", f"{label}.body:"]
        self._loops.append((label, slot, index, step))
        return index

    def end(self) -> None:
        """Close the innermost open loop."""
        label, slot, index, step = self._loops.pop()
        following = self.put(f"add i64 {index}, {step}")
        self.text += [f"  store i64 {following}, ptr {slot}", f"  br label %{label}", f"{label}.end:"]

    def slot(self, kind: str) -> str:
        """A variable, which LLVM keeps in a register."""
        name = f"%s{len(self.slots)}"
        self.slots.append(f"  {name} = alloca {kind}")
        return name

    def address(self, cells: Cells, place: str, part: int = 0, lane: int = 0) -> str:
        """Where a cell of the current row lies: the one `lane` behind the cell `place` of the last axis."""
        code = part_of_code(cells.code)
        item = bytes_of_code(cells.code)
        fixed = (cells.offset + lane * cells.strides[-1]) * item + part * bytes_of_code(code)
        moving = [(i, s * item) for i, s in zip([*self.index, place], cells.strides, strict=True) if s]
        total = str(fixed + sum(int(index) * step for index, step in moving if index.isdigit()))
        for index, step in moving:
            if not index.isdigit():
                total = self.put(f"add i64 {total}, {self.put(f'mul i64 {index}, {step}')}")
        if cells.rows is not None:
            row = self.row(cells.rows, place, lane)
            total = self.put(f"add i64 {total}, {self.put(f'mul i64 {row}, {cells.rows.step * item}')}")
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
        parts = parts_of_code(cells.code)
        code = part_of_code(cells.code)
        plain = "i8" if code == "?" else TYPES[code]
        if self.lanes == 1:
            return self.number(cells, place)
        if count == 1 or not cells.is_line():
            found = []
            for part in range(parts):
                vector = "zeroinitializer"
                for lane in range(count):
                    one = self.put(f"load {plain}, ptr {self.address(cells, place, part, lane)}")
                    vector = self.put(f"insertelement <{self.lanes} x {plain}> {vector}, {plain} {one}, i32 {lane}")
                found.append(vector)
        else:
            kind = f"<{count * parts} x {plain}>"
            whole = self.put(f"load {kind}, ptr {self.address(cells, place)}, align {bytes_of_code(code)}")
            found = []
            for part in range(parts):
                lanes = [lane * parts + part if lane < count else count * parts for lane in range(self.lanes)]
                mask = ", ".join(f"i32 {lane}" for lane in lanes)
                if parts == 1 and count == self.lanes:
                    found.append(whole)
                else:
                    found.append(
                        self.put(f"shufflevector {kind} {whole}, {kind} zeroinitializer, <{self.lanes} x i32> <{mask}>")
                    )
        if code == "?":
            found = [self.put(f"icmp ne <{self.lanes} x i8> {f}, zeroinitializer") for f in found]
        return tuple(found)

    def number(self, cells: Cells, place: str) -> Value:
        """One cell in all lanes."""
        parts = parts_of_code(cells.code)
        code = part_of_code(cells.code)
        found = []
        for part in range(parts):
            one = self.put(f"load {'i8' if code == '?' else TYPES[code]}, ptr {self.address(cells, place, part)}")
            one = self.put(f"icmp ne i8 {one}, 0") if code == "?" else one
            found.append(one if self.lanes == 1 else self.repeated(TYPES[code], one, self.lanes))
        return tuple(found)

    def store(self, cells: Cells, place: str, count: int, value: Value) -> None:
        """Write the cells that are there."""
        code = part_of_code(cells.code)
        plain = "i8" if code == "?" else TYPES[code]
        if code == "?":
            byte = "i8" if self.lanes == 1 else f"<{self.lanes} x i8>"
            value = tuple(self.put(f"zext {self.kind('?')} {v} to {byte}") for v in value)
        kind = f"<{self.lanes} x {plain}>"
        if self.lanes == 1:
            for part, v in enumerate(value):
                self.text.append(f"  store {plain} {v}, ptr {self.address(cells, place, part)}")
        elif count == 1 or not cells.is_line():
            for part, v in enumerate(value):
                for lane in range(count):
                    one = self.put(f"extractelement {kind} {v}, i32 {lane}")
                    self.text.append(f"  store {plain} {one}, ptr {self.address(cells, place, part, lane)}")
        else:
            total = count * len(value)
            whole = value[0]
            if total != self.lanes or len(value) == 2:
                lanes = [lane // len(value) + lane % len(value) * self.lanes for lane in range(total)]
                mask = ", ".join(f"i32 {lane}" for lane in lanes)
                other = value[-1] if len(value) == 2 else "zeroinitializer"
                whole = self.put(f"shufflevector {kind} {value[0]}, {kind} {other}, <{total} x i32> <{mask}>")
            pointer = self.address(cells, place)
            self.text.append(f"  store <{total} x {plain}> {whole}, ptr {pointer}, align {bytes_of_code(code)}")

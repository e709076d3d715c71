"""Programs with loops to LLVM IR over points: the nest of one point, said for a vector of points at a time.

Assumes arrays of points at any steps, and what `nests` assumes. A number is a vector of one number a point, a cell in memory
that of all points of a vector. Points that count rounds of their own run together until the last one is done: those that are
done before keep what they have. So a size, or a row that the body computes, may differ from point to point; such an index is
a vector, too. Guarantees the arithmetic of `scalar` for every point, whichever others are computed with it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from symdiff.codegen.llvm.batch import emit_addresses
from symdiff.codegen.llvm.layouts import Array
from symdiff.codegen.llvm.nests import LoopWords
from symdiff.codegen.llvm.scalar import called
from symdiff.codegen.math.lines import TYPES, Lines, Value
from symdiff.codegen.nest_words import Buffer, Cells, Index, Words
from symdiff.codegen.nests import nest_of
from symdiff.lowering.program import Input, Output, Program
from symdiff.vocabulary.extents import Count, Extent
from symdiff.vocabulary.ops import bytes_of_code, part_of_code, parts_of_code


def looped_points_module(program: Program, shared: Sequence[bool], lanes: int, fused: bool) -> str:
    """The IR of `kernel(data, steps, start, stop)` over points, as `batch` has it, which returns true where memory lacks.

    `shared` tells of each input whether all points have the same one.
    """
    words = _PointWords(Lines(lanes, width=lanes if fused else 0), False)
    names = [f"in{k}" for k in range(len(program.inputs))] + [f"out{k}" for k in range(len(program.outputs))]
    leaves = list(zip(names, program.leaves, strict=True))
    words.open(leaves, shared)
    used = {node.params[0] for node in program.nodes if node.op == "input"}
    with words.vectors():
        given = []
        for k, (name, leaf) in enumerate(leaves[: len(program.inputs)]):
            cells = Cells(leaf.shape, leaf.dtype, words.reader(name, leaf))
            if k in used and leaf.shape and not shared[k]:
                buffer = words.buffer("", leaf.shape, leaf.dtype)
                words.reserve(buffer, leaf.shape[0])
                words.each(leaf.shape, lambda index, b=buffer, c=cells: words.store(b, index, c.at(index)))  # type: ignore[misc]
                cells = words.cells(buffer)
            given.append(cells if leaf.shape else cells.at(()) if k in used else ("poison",))
        results = [words.buffer("", o.shape, o.dtype) for o in program.outputs]
        nest_of(words, program, given, results)
        for buffer, (name, leaf) in zip(results, leaves[len(program.inputs) :], strict=True):
            write = words.writer(name, leaf)
            words.each(leaf.shape, lambda index, b=buffer, w=write: w(index, words.load(b, index)))  # type: ignore[misc]
    ending = words.ending() if words.grown else ["  ret i1 false"]
    words.tables += ["declare ptr @PyMem_RawRealloc(ptr, i64)", "declare void @PyMem_RawFree(ptr)"] if words.grown else []
    bodies, needed = called(words.lines)
    text = [
        *{**words.lines.declared, **needed}.values(), *words.tables, *bodies,
        "define i1 @kernel(ptr noalias %data, ptr noalias %steps, i64 %start, i64 %stop) nounwind {", "entry:",
        *words.variables, *words.lines.text, *ending, "}",
    ]  # fmt: skip
    return "\n".join(text) + "\n"


class _PointWords(LoopWords):
    """Vectors of points for numbers; rounds and places are whole numbers that all points share, or vectors of these."""

    align, is_given = 64, False

    def __init__(self, lines: Lines, ordered: bool) -> None:
        super().__init__(lines, ordered)
        self.common: set[str] = set()  # places that all points share
        self.active = ""  # the variable with the points that take part, "" where all do
        self.rows: dict[str, list[str]] = {}

    # -- whole numbers

    def _splat(self, kind: str, text: str) -> str:
        return self.lines.repeated(kind, text, self.lanes)

    def _vector(self, whole: Count) -> str:
        """A whole number of each point."""
        if not isinstance(whole, Extent) or not self.is_varied(whole):
            return self._splat("i64", self._text(whole))
        kind = f"<{self.lanes} x i64>"
        shared = Extent(whole.constant, tuple(t for t in whole.terms if t[0].name not in self.varied))
        total = self._splat("i64", self._text(shared if shared.terms else shared.constant))
        for size, times in whole.terms:
            if size.name in self.varied:
                term = self.sizes[size.name]
                term = term if times == 1 else self.lines.put(f"mul {kind} {term}, {self._splat('i64', str(times))}")
                total = self.lines.put(f"add {kind} {total}, {term}")
        return total

    def _most(self, whole: Count) -> str:
        """The largest of the whole numbers of the points that take part."""
        if not self.is_varied(whole):
            return self._text(whole)
        kind, vector = f"<{self.lanes} x i64>", self._vector(whole)
        if self.active:
            vector = self.lines.put(f"select <{self.lanes} x i1> {self._mask()}, {kind} {vector}, {kind} zeroinitializer")
        return self._called("i64", f"llvm.vector.reduce.smax.v{self.lanes}i64", (kind, vector))

    def real(self, whole: Count) -> Value:
        if self.is_varied(whole):
            return (self.lines.put(f"sitofp <{self.lanes} x i64> {self._vector(whole)} to <{self.lanes} x double>"),)
        return (self._splat("double", super().real(whole)[0]),)

    def whole(self, value: Value, size: Count) -> Extent:
        kind, n = f"<{self.lanes} x i64>", self.lanes
        found = self._called(kind, f"llvm.fptosi.sat.v{n}i64.v{n}f64", (f"<{n} x double>", value[0]))
        found = self._called(kind, f"llvm.smax.v{n}i64", (kind, found), (kind, self._splat("i64", "0")))
        return self._size(self._called(kind, f"llvm.smin.v{n}i64", (kind, found), (kind, self._vector(size - 1))), True)

    def nearest(self, whole: Count, size: Count) -> Count:
        return self.whole(self.real(whole), size) if self.is_varied(whole) else super().nearest(whole, size)

    def product(self, a: Count, b: Count) -> Count:
        if self.is_varied(a) or self.is_varied(b):
            return self._size(self.lines.put(f"mul <{self.lanes} x i64> {self._vector(a)}, {self._vector(b)}"), True)
        return super().product(a, b)

    # -- memory

    def table(self, value: object) -> Buffer:
        buffer = super().table(value)  # type: ignore[arg-type]
        self.common.add(buffer.name)
        return buffer

    def _mask(self) -> str:
        return self.lines.put(f"load <{self.lanes} x i1>, ptr {self.active}")

    def _places(self, whole: Count) -> list[str]:
        """A place that differs from point to point, for each; the first cell for those that take no part."""
        vector, kind = self._vector(whole), f"<{self.lanes} x i64>"
        if self.active:
            vector = self.lines.put(f"select <{self.lanes} x i1> {self._mask()}, {kind} {vector}, {kind} zeroinitializer")
        return [self.lines.put(f"extractelement {kind} {vector}, i32 {k}") for k in range(self.lanes)]

    def _repeated(self, pointer: str, code: str) -> Value:
        """A cell that all points share."""
        return tuple(self._splat(TYPES[part_of_code(code)], n) for n in self.lines.read(pointer, code))

    def _at(self, pointer: str, offset: str) -> str:
        return pointer if offset == "0" else self.lines.put(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def _vectors_at(self, buffer: Buffer, place: Count) -> list[str]:
        """The pointers to the parts of a cell, each a vector of all points."""
        part, count = part_of_code(buffer.dtype), parts_of_code(buffer.dtype)
        size = bytes_of_code(part) * self.lanes
        pointer = self._at(self._base(buffer), self._text(place * (size * count)))
        return [self._at(pointer, str(k * size)) for k in range(count)]

    def _lanes_at(self, buffer: Buffer, place: Count) -> list[list[str]]:
        """The same for cells that differ from point to point: pointers to numbers, by parts."""
        part, count = part_of_code(buffer.dtype), parts_of_code(buffer.dtype)
        size, base = bytes_of_code(part) * self.lanes, self._base(buffer)
        cells = [self._at(base, self.lines.put(f"mul i64 {own}, {size * count}")) for own in self._places(place)]
        lanes = [(cell, lane * bytes_of_code(part)) for lane, cell in enumerate(cells)]
        return [[self._at(cell, str(k * size + offset)) for cell, offset in lanes] for k in range(count)]

    copy = Words.copy

    def load(self, buffer: Buffer, index: Index) -> Value:
        place, code = self.flat(buffer, index), buffer.dtype
        part = part_of_code(code)
        if buffer.name in self.common:
            item, base = bytes_of_code(code), self._base(buffer)
            if self.is_varied(place):
                own = [self._at(base, self.lines.put(f"mul i64 {p}, {item}")) for p in self._places(place)]
                return self.lines.gathered(own, code)
            return self._repeated(self._at(base, self._text(place * item)), code)
        if self.is_varied(place):
            return tuple(self.lines.gathered(pointers, part)[0] for pointers in self._lanes_at(buffer, place))
        return tuple(self.lines.line(pointer, part, self.lanes)[0] for pointer in self._vectors_at(buffer, place))

    def store(self, buffer: Buffer, index: Index, value: Value, add: bool = False) -> None:
        """Points that take no part keep what they have."""
        part = part_of_code(buffer.dtype)
        place, kind = self.flat(buffer, index), self.lines.kind(part)
        if add or self.active:
            old = self.load(buffer, index)
            if add:
                value = tuple(self.lines.put(f"fadd{self.sum} {kind} {a}, {b}") for a, b in zip(old, value, strict=True))
            if self.active:
                mask = self._mask()
                value = tuple(self.lines.select(mask, part, a, b) for a, b in zip(value, old, strict=True))
        if self.is_varied(place):
            for pointers, own in zip(self._lanes_at(buffer, place), value, strict=True):
                self.lines.scattered(pointers, (own,), part)
            return
        for pointer, own in zip(self._vectors_at(buffer, place), value, strict=True):
            self.lines.write_line(pointer, part, self.lanes, (own,))

    # -- loops

    @contextmanager
    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> Iterator[Extent]:
        if not size and not (count is not None and self.is_varied(count)):
            with super().rounds(name, count, backward, start=start) as k:
                yield k
            return
        outer, own = self.active, f"%a{next(self.names)}"
        mask, numbers = f"<{self.lanes} x i1>", f"<{self.lanes} x i64>"
        self.variables += [f"  {own} = alloca {mask}", f"  {own}.count = alloca {numbers}"]
        first = self._mask() if outer else self.lines.literal(True, "?")
        self.lines.run(f"store {mask} {first}, ptr {own}", f"store {numbers} zeroinitializer, ptr {own}.count")
        most = None if count is None else self._size(self._most(count))
        with super().rounds(name, most, backward, start=start) as k:
            if count is not None:
                self.bound(k.terms[0][0].name, count - 1)
                inside = self.lines.put(f"icmp slt {numbers} {self._vector(k)}, {self._vector(count)}")
                before = self.lines.put(f"load {mask}, ptr {own}") if size else first
                self.lines.run(f"store {mask} {self.lines.put(f'and {mask} {before}, {inside}')}, ptr {own}")
            self.active = own
            yield k
        self.active = outer
        if size:
            self.sizes[size] = self.lines.put(f"load {numbers}, ptr {own}.count")
            self.varied.add(size)

    def leave_unless(self, condition: Value) -> None:
        mask, numbers, label = f"<{self.lanes} x i1>", f"<{self.lanes} x i64>", f"g{next(self.names)}"
        active = self.lines.put(f"and {mask} {self._mask()}, {condition[0]}")
        self.lines.run(f"store {mask} {active}, ptr {self.active}")
        some = self._called("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", (mask, active))
        self.lines.run(f"br i1 {some}, label %{label}, label %{self.exits[-1]}", f"{label}:")
        counted = self.lines.put(f"load {numbers}, ptr {self.active}.count")
        more = self.lines.put(f"add {numbers} {counted}, {self.lines.put(f'zext {mask} {active} to {numbers}')}")
        self.lines.run(f"store {numbers} {more}, ptr {self.active}.count")

    # -- points

    def open(self, leaves: list[tuple[str, Input | Output]], shared: Sequence[bool]) -> None:
        """Read addresses and steps; those of shared inputs from point to point are zero."""
        lines = self.lines
        emit_addresses(lines, [Array(name, leaf.shape, leaf.dtype, "any") for name, leaf in leaves])
        count = lines.put("sub i64 %stop, %start")
        self.lines.run(
            "%final = sub i64 %stop, 1", f"%vectors = sdiv i64 {lines.put(f'add i64 {count}, {self.lanes - 1}')}, {self.lanes}"
        )
        self.shared = {name for (name, _), own in zip(leaves, shared, strict=False) if own}
        self.leaves = leaves

    @contextmanager
    def vectors(self) -> Iterator[None]:
        """One vector of points after the other; the last point stands for those beyond it."""
        lines = self.lines
        with super().rounds("", self._size("%vectors")) as k:
            first = lines.put(f"add i64 %start, {self._text(k * self.lanes)}")
            points = []
            for lane in range(self.lanes):
                point = lines.put(f"add i64 {first}, {lane}")
                points.append(self._called("i64", "llvm.smin.i64", ("i64", point), ("i64", "%final")))
            for name, _ in self.leaves:
                own = [f"%{name}"] * self.lanes
                if name not in self.shared:
                    own = [self._at(f"%{name}", lines.put(f"mul i64 {p}, %{name}.point")) for p in points]
                self.rows[name] = own
            yield

    def _cells(self, name: str, index: Index) -> list[str]:
        """The addresses of a cell at all points."""
        pointers = self.rows[name]
        for axis, place in enumerate(index):
            if self.is_varied(place):
                offsets = [self.lines.put(f"mul i64 {p}, %{name}.step{axis}") for p in self._places(place)]
            else:
                offsets = [self.lines.put(f"mul i64 {self._text(place)}, %{name}.step{axis}")] * self.lanes
            pointers = [self._at(pointer, offset) for pointer, offset in zip(pointers, offsets, strict=True)]
        return pointers

    def reader(self, name: str, leaf: Input | Output):  # type: ignore[no-untyped-def]
        """What gives a cell of an input at all points."""

        def at(index: Index) -> Value:
            places = self._cells(name, index)
            if name in self.shared and not any(map(self.is_varied, index)):
                return self._repeated(places[0], leaf.dtype)
            return self.lines.gathered(places, leaf.dtype)

        return at

    def writer(self, name: str, leaf: Input | Output):  # type: ignore[no-untyped-def]
        """What writes a cell of a result at all points."""
        return lambda index, value: self.lines.scattered(self._cells(name, index), value, leaf.dtype)

"""Programs with loops to LLVM IR: blocks around instructions on numbers, variables that LLVM brings into registers.

Assumes a Program whose operations `scalar` and `nests` have. Guarantees the arithmetic of `scalar` in the rounds' order; unless
it is told to keep that, sums of rounds that are independent may be taken in another. What is too large for variables of the
function lies in memory that the caller gives; what grows while a loop counts its rounds, in memory of its own.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from symdiff.codegen.llvm.calls import Calls
from symdiff.codegen.llvm.head_calls import HeadCall, declared_loops, head_call, head_function
from symdiff.codegen.llvm.outlining import PART, Outlining
from symdiff.codegen.llvm.scalar import LINE, called, emit_instruction, emit_joint, emitted_constant
from symdiff.codegen.math.lines import PAIRS, TYPES, VECTORS, Lines, Value
from symdiff.codegen.nest_words import Buffer, Index, Matrix, Words
from symdiff.codegen.nests import Nest, nest_of
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, with_places_as_numbers
from symdiff.vocabulary.extents import Count, Extent, Shape, extent, has_extents, names_in_extents
from symdiff.vocabulary.ops import bytes_of_code, is_complex, part_of_code

PRODUCT = 1 << 12  # multiplications from which on a product of matrices is a function
UNROLLED = 8  # rounds up to which LLVM may write out a loop without loops in long functions: it takes LLVM long
ROOM = 2048  # bytes that something which grows has before it needs memory of its own
# More bytes for what has some: `own` is its first room.
_MORE = """
define private ptr @more(ptr %old, ptr %own, i64 %room, i64 %bytes) noinline cold nounwind {
  %first = icmp eq ptr %old, %own
  %from = select i1 %first, ptr null, ptr %old
  %new = call ptr @PyMem_RawRealloc(ptr %from, i64 %bytes)
  %missing = icmp eq ptr %new, null
  %stays = xor i1 %first, true
  %done = or i1 %missing, %stays
  br i1 %done, label %end, label %copy
copy:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %room, i1 false)
  br label %end
end:
  ret ptr %new
}
"""


class _NumbersCalls(Calls):
    """Calls at numbers; those at arrays are made cell by cell."""

    def _is_real(self, node: Node) -> bool:
        return not node.shape and super()._is_real(node)


class LoopLines(Lines):
    """Lines in which LLVM, where it takes several rounds at once, may take functions of vectors in the place of libm's."""

    def __init__(self, most: int) -> None:
        super().__init__(most=most)
        self.variants: dict[str, str] = {}  # what else defines functions of vectors, by their names

    def by_lanes(self, name: str, code: str, *operands: str, more: Sequence[str] = ()) -> str:
        found = super().by_lanes(name, code, *operands, more=more)
        if self.in_cells and self.most > 1 and code == "d" and name in VECTORS:
            function, place = VECTORS[name]
            symbol, kind = f"vec{self.most}_{function}", f"<{self.most} x double>"
            returned = f"{{ {kind}, {kind} }}" if function in PAIRS else kind
            self.used.setdefault(symbol, "")
            self.variants.setdefault(symbol, "")
            if function in PAIRS:
                part = f"{symbol}.{place}"
                self.variants[part] = (
                    f"define private {kind} @{part}({kind} %x) {{\n  %both = call {returned} @{symbol}({kind} %x)\n"
                    f"  %one = extractvalue {returned} %both, {place}\n  ret {kind} %one\n}}"
                )
                symbol = part
            variant = f"_ZGV_LLVM_N{self.most}{'v' * len(operands)}_{name}({symbol})"
            self.text[-1] += f' memory(none) nounwind willreturn "vector-function-abi-variant"="{variant}"'
        return found

    def kept(self) -> list[str]:
        """What keeps these functions until then."""
        if not self.variants:
            return []
        used = f"[{len(self.variants)} x ptr] [{', '.join(f'ptr @{symbol}' for symbol in self.variants)}]"
        return [
            *filter(None, self.variants.values()),
            f'@llvm.compiler.used = appending global {used}, section "llvm.metadata"',
        ]


class Looped(NamedTuple):
    """The IR of a function, the bytes of memory that it is given, and whether it returns true where it finds no more; that of
    a program with checks does so where one of them holds, and has written no result then; one that calls Python objects, where
    these raise. `work`: about how many instructions a call takes, infinity where data tell.
    """

    text: str
    memory: int
    grows: bool
    called: Sequence[HeadCall]
    work: float


def looped_function(program: Program, name: str, together: int = 0, ordered: bool = False) -> Looped:
    """A function over pointers to contiguous inputs and outputs, and to memory, and over the sizes that a call tells, by their
    names; `ordered`: sums are taken round by round.
    """
    program = with_places_as_numbers(program)
    lines = LoopLines(together)
    words = LoopWords(lines, ordered)
    inputs, outputs = program.inputs, program.outputs
    sizes = sorted(names_in_extents(tuple(leaf.shape for leaf in inputs)))
    words.sizes |= {size: f"%size{k}" for k, size in enumerate(sizes)}
    given = [
        words.cells(Buffer(f"%in{k}", leaf.shape, leaf.dtype))
        if leaf.shape
        else words.load(Buffer(f"%in{k}", (), leaf.dtype), ())
        for k, leaf in enumerate(inputs)
    ]
    nest_of(words, program, given, [Buffer(f"%out{k}", o.shape, o.dtype) for k, o in enumerate(outputs)])
    ending, work = words.ending(), words.work()
    if len(lines.text) > PART:
        lines.declared["!1"] = '!1 = distinct !{!1, !{!"llvm.loop.unroll.disable"}}'
        for place in words.rolled:
            lines.text[place] += ", !llvm.loop !1"
    bodies, needed = called(words.lines)
    parameters = [f"ptr noalias readonly %in{k}" for k in range(len(inputs))]
    parameters += [f"ptr noalias %out{k}" for k in range(len(outputs))]
    parted = Outlining(name, [*parameters, *(f"ptr noalias {place}" for place in words.places)], words.lines.text)
    parameters += ["ptr noalias %memory"] * bool(words.memory) + [f"i64 %size{k}" for k in range(len(sizes))]
    kind = "i1" if words.stops else "void"
    text = [
        *{**words.lines.declared, **needed}.values(), *words.tables, *words.callers(), *bodies, *lines.kept(),
        *parted.functions,
        f"define {kind} @{name}({', '.join(parameters)}) noinline nounwind {{", "entry:", *words.variables,
        *parted.lines, *ending, "}",
    ]  # fmt: skip
    return Looped("\n".join(text) + "\n", words.memory, words.stops, [*words.called.values()], work)


class LoopWords(Words):
    """Blocks and instructions."""

    align = 16  # bytes
    adds_rows = False  # which would keep rounds from being taken several at once
    takes_places = True
    is_given = True  # whether large arrays lie in memory that the caller gives

    def __init__(self, lines: Lines, ordered: bool) -> None:
        super().__init__()
        self.lines = lines
        self.lanes = lines.lanes
        self.ordered = ordered
        self.sum = "" if ordered else " reassoc"
        self.variables: list[str] = []  # what is reserved before all else
        self.places: list[str] = []  # the pointers among them to arrays
        self.tables: list[str] = []
        self.names = itertools.count()
        self.memory = 0
        self.grown: list[str] = []
        self.sizes: dict[str, str] = {}
        self.known: dict[str, str] = {}  # numbers of the block by their instructions, as the text was when it was so long:
        self.seen = 0
        self.exits: list[str] = []
        self.checked = False
        self.called: dict[str, HeadCall] = {}
        self.loops = 0
        self._work = 0.0
        self._worked = 0  # lines that are in it
        self.rolled: list[int] = []  # where loops go on that are not to be written out

    @property
    def stops(self) -> bool:
        """Whether the function may return true."""
        return bool(self.grown or self.called) or self.checked

    def callers(self) -> list[str]:
        """The functions that call Python objects."""
        if not self.called:
            return []
        functions = (line for call in self.called.values() for line in head_function(call))
        return [*declared_loops(self.called.values()), *functions]

    # -- instructions

    def calls(self, program: Program) -> Any:
        return _NumbersCalls(program, self.lines.most)

    def operation(self, nest: Nest, position: int) -> dict[int, Value]:
        return emit_joint(nest.program, position, nest.calls, self.lines, nest.values)

    def cell(self, program: Program, position: int, values: dict[int, Value]) -> Value:
        self.lines.in_cells = bool(self.sum)
        found = emit_instruction(program, program.nodes[position], self.lines, values)
        self.lines.in_cells = False
        return found

    def real(self, whole: Count) -> Value:
        return (self.lines.put(f"sitofp i64 {self._text(whole)} to double"),)

    def compared(self, op: str, first: Count, second: Count) -> Value:
        if self.lanes > 1:
            return super().compared(op, first, second)  # type: ignore[no-any-return]
        order = op if op in ("eq", "ne") else f"s{op}"
        return (self.lines.put(f"icmp {order} i64 {self._text(first)}, {self._text(second)}"),)

    def whole(self, value: Value, size: Count) -> Extent:
        return self._clamped(self._called("i64", "llvm.fptosi.sat.i64.f64", ("double", value[0])), size)

    def nearest(self, whole: Count, size: Count) -> Count:
        return self._clamped(self._text(whole), size)

    def _clamped(self, text: str, size: Count) -> Extent:
        found = self._called("i64", "llvm.smax.i64", ("i64", text), ("i64", "0"))
        return self._size(self._called("i64", "llvm.smin.i64", ("i64", found), ("i64", self._text(size - 1))))

    def product(self, a: Count, b: Count) -> Count:
        return self._size(self.lines.put(f"mul nsw i64 {self._text(a)}, {self._text(b)}"))

    def _called(self, result: str, name: str, *operands: tuple[str, str]) -> str:
        """The result of an intrinsic, by the kinds and texts of its operands."""
        self.lines.declared[name] = f"declare {result} @{name}({', '.join(kind for kind, _ in operands)})"
        return self.lines.put(f"call {result} @{name}({', '.join(map(' '.join, operands))})")

    def _size(self, text: str, varied: bool = False) -> Extent:
        """A whole number by its text, a vector where it is `varied`."""
        name = f"#{next(self.names)}"
        self.sizes[name] = text
        self.varied.update([name] if varied else [])
        return extent(name, 0)

    def _text(self, whole: Count) -> str:
        """A whole number as an operand."""
        if not isinstance(whole, Extent):
            return str(whole)
        total = ""
        for size, times in whole.terms:
            text = self.sizes[size.name]
            term = text if times == 1 else self._once(f"mul nsw i64 {text}, {times}")
            total = self._once(f"add nsw i64 {total}, {term}") if total else term
        return self._once(f"add nsw i64 {total}, {whole.constant}") if whole.constant else total

    def _once(self, instruction: str) -> str:
        """What an instruction gives, which stands once in a block."""
        text = self.lines.text
        if any(line.endswith(":") for line in text[self.seen :]):
            self.known.clear()
        if instruction not in self.known:
            self.known[instruction] = self.lines.put(instruction)
        self.seen = len(text)
        return self.known[instruction]

    # -- memory

    def table(self, value: np.ndarray) -> Buffer:
        name = f"@table{len(self.tables)}"
        self.tables.append(emitted_constant(name, value))
        return Buffer(name, value.shape, value.dtype.char)

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        place = f"%b{next(self.names)}"
        self.places.append(place)
        if self.is_small(shape):
            count = math.prod(shape) * bytes_of_code(code) * self.lanes
            self.variables.append(f"  {place} = alloca [{count} x i8], align {self.align}")
        elif self.is_given and not has_extents(shape):
            self.variables.append(f"  {place} = getelementptr i8, ptr %memory, i64 {self.memory}")
            self.memory += max(-(-math.prod(shape) * bytes_of_code(code) // LINE), 1) * LINE
        else:
            self.variables += self._growing(place)
        return Buffer(place, shape, code)

    def _growing(self, place: str) -> list[str]:
        """The variables of what grows: its memory, its first room, and how many bytes it has."""
        self.grown.append(place)
        return [
            f"  {place}.own = alloca [{ROOM} x i8], align 16", f"  {place} = alloca ptr", f"  {place}.room = alloca i64",
            f"  store ptr {place}.own, ptr {place}", f"  store i64 {ROOM}, ptr {place}.room",
        ]  # fmt: skip

    def _bytes(self, buffer: Buffer, rows: Count) -> str:
        return self._most(self.count((rows, *buffer.shape[1:])) * (bytes_of_code(buffer.dtype) * self.lanes))

    def _most(self, whole: Count) -> str:
        """A whole number that is enough wherever the code runs."""
        return self._text(whole)

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        if buffer.name not in self.grown:
            return
        wanted, label = self._bytes(buffer, rows), f"r{next(self.names)}"
        room = self.lines.put(f"load i64, ptr {buffer.name}.room")
        less = self.lines.put(f"icmp ult i64 {room}, {wanted}")
        self.lines.run(f"br i1 {less}, label %{label}, label %{label}.has", f"{label}:")
        twice = self.lines.put(f"add i64 {room}, {room}")
        more = self._called("i64", "llvm.smax.i64", ("i64", twice), ("i64", wanted))
        old = self.lines.put(f"load ptr, ptr {buffer.name}")
        new = self.lines.put(f"call ptr @more(ptr {old}, ptr {buffer.name}.own, i64 {room}, i64 {more})")
        missing = self.lines.put(f"icmp eq ptr {new}, null")
        self.lines.run(f"br i1 {missing}, label %short, label %{label}.new", f"{label}.new:")
        self.lines.run(f"store ptr {new}, ptr {buffer.name}", f"store i64 {more}, ptr {buffer.name}.room")
        self.lines.run(f"br label %{label}.has", f"{label}.has:")

    def ending(self) -> list[str]:
        """The end of the function."""
        start = len(self.lines.text)
        if not self.stops:
            return ["  ret void"]
        self.lines.run("br label %last", "last:", "br label %end", "short:", "br label %end", "end:")
        state = self.lines.put("phi i1 [false, %last], [true, %short]")
        if self.grown:
            self.lines.declared["memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
            self.tables.append(_MORE)
        for place in self.grown:
            at, label = self.lines.put(f"load ptr, ptr {place}"), f"f{next(self.names)}"
            own = self.lines.put(f"icmp eq ptr {at}, {place}.own")
            self.lines.run(f"br i1 {own}, label %{label}.end, label %{label}", f"{label}:")
            self.lines.run(f"call void @PyMem_RawFree(ptr {at})", f"br label %{label}.end", f"{label}.end:")
        self.lines.run(f"ret i1 {state}")
        ended, self.lines.text[start:] = self.lines.text[start:], []
        return ended

    def clear(self, buffer: Buffer) -> None:
        pointer = self._pointer(buffer, "0")
        self.lines.declared["memset"] = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
        count = self._bytes(buffer, buffer.shape[0] if buffer.shape else 1)
        self.lines.run(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {count}, i1 false)")

    def copy(self, source: Buffer, target: Buffer) -> None:
        if not source.shape or has_extents(source.shape) or math.prod(source.shape) <= self.few:
            super().copy(source, target)
            return
        places = [self._pointer(b, self._text(b.start)) for b in (target, source)]
        self.lines.declared["memmove"] = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)"
        count = self._bytes(source, source.shape[0])
        self.lines.run(f"call void @llvm.memmove.p0.p0.i64(ptr {places[0]}, ptr {places[1]}, i64 {count}, i1 false)")

    def multiply(self, target: Buffer, first: Matrix, second: Matrix, spans: Sequence[tuple[Count, Count]]) -> bool:
        (rows, terms), columns = first.shape, second.shape[1]
        codes = {target.dtype, first.buffer.dtype, second.buffer.dtype}
        many = (
            all(isinstance(n, int) for n in (rows, terms, columns))
            and min(rows, columns) >= 4
            and rows * terms * columns >= PRODUCT
        )
        if not many or len(codes) > 1 or target.dtype not in "df" or self.lanes > 1 or self.lines.most < 2 or not self.sum:
            return False
        from symdiff.codegen.llvm.products import llvm_product

        name = f"product.{target.dtype}"
        text, declared = llvm_product(target.dtype, self.lines.most)
        self.lines.declared |= declared
        self.tables += [text] * (text not in self.tables)
        row, column, term = (start for start, _ in spans)
        matrices = (Matrix(target, (rows, columns), (columns, 1)), first, second)
        starts = [m.buffer.start + i * m.strides[0] + j * m.strides[1]
                  for m, i, j in zip(matrices, (row, row, term), (column, term, column), strict=True)]  # fmt: skip
        places = [self._pointer(m.buffer, self._text(start)) for m, start in zip(matrices, starts, strict=True)]
        sizes = (*(stop - start for start, stop in spans), *first.strides, *second.strides, columns)
        given = ", ".join([*(f"ptr {place}" for place in places), *(f"i64 {self._text(n)}" for n in sizes)])
        self.lines.run(f"call void @{name}({given})")
        self._work += rows * terms * columns
        return True

    def call(self, program: Program, node: Node, target: Buffer, operands: Sequence[Buffer]) -> None:
        called = head_call(program, node)
        called = self.called.setdefault(called.name, called)
        label = f"c{next(self.names)}"
        own = [self.buffer("", shape, code) for shape, code in called.own]
        given = ", ".join(f"ptr {self._pointer(b, self._text(b.start))}" for b in (target, *operands, *own))
        failed = self.lines.put(f"call i1 @{called.symbol}({given})")
        self.lines.run(f"br i1 {failed}, label %short, label %{label}", f"{label}:")

    def _base(self, buffer: Buffer) -> str:
        return self.lines.put(f"load ptr, ptr {buffer.name}") if buffer.name in self.grown else buffer.name

    def _pointer(self, buffer: Buffer, place: str) -> str:
        base = self._base(buffer)
        if place == "0":
            return base
        part = TYPES[part_of_code(buffer.dtype)]
        kind = "[1 x i8]" if buffer.dtype == "?" else f"[2 x {part}]" if is_complex(buffer.dtype) else part
        return self.lines.put(f"getelementptr inbounds {kind}, ptr {base}, i64 {place}")

    def load(self, buffer: Buffer, index: Index) -> Value:
        pointer = self._pointer(buffer, self._text(self.flat(buffer, index)))
        return self.lines.read(pointer, buffer.dtype)

    def store(self, buffer: Buffer, index: Index, value: Value, add: bool = False) -> None:
        pointer = self._pointer(buffer, self._text(self.flat(buffer, index)))
        if add:
            old = self.lines.read(pointer, buffer.dtype)
            part = part_of_code(buffer.dtype)
            value = tuple(self.lines.put(f"fadd{self.sum} {TYPES[part]} {a}, {b}") for a, b in zip(old, value, strict=True))
        self.lines.write(pointer, value, buffer.dtype)

    # -- loops

    @contextmanager
    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> Iterator[Extent]:
        stop = "" if count is None else self._text(count - 1 if backward else count)
        with self.lines.loop("0", -1, stop, "sge") if backward else self.lines.loop(stop, start=self._text(start)) as text:
            k = self._size(text)
            if count is not None:
                self.bound(k.terms[0][0].name, count - 1)
            if size:
                self.sizes[size] = text
            self.exits.append(f"{text[1:-2]}.exit")
            self.loops = before = self.loops + 1
            around, self._work = self.work(), 0.0
            yield k
            self._work = around + self.work() * self._at_most(math.inf if count is None else count)
            self.exits.pop()
        if self.loops > before or not isinstance(count, int) or count > UNROLLED:
            self.rolled.append(len(self.lines.text) - 2)

    def work(self) -> float:
        """About how many instructions the text so far takes, that of the innermost open loop in one round."""
        self._work += len(self.lines.text) - self._worked
        self._worked = len(self.lines.text)
        return self._work

    def _at_most(self, count: Count | float) -> float:
        """The largest number of rounds, infinity where it is not known."""
        if not isinstance(count, Extent):
            return count
        most: dict[str, Count | float] = {**self.bounds}
        return sum(
            (n * self._at_most(most.get(size.name, math.inf)) for size, n in count.terms if n > 0), float(count.constant)
        )

    def tell(self, size: str, count: Count) -> None:
        super().tell(size, count)
        self.sizes[size] = self._vector(count) if self.is_varied(count) else self._text(count)

    def _vector(self, whole: Count) -> str:
        """A whole number of each point, where there are several."""
        raise NotImplementedError

    def end_where(self, place: int, condition: Value) -> None:
        self.checked = True
        self.lines.run(f"br i1 {condition[0]}, label %short, label %check{place}", f"check{place}:")

    def leave_unless(self, condition: Value) -> None:
        label = f"g{next(self.names)}"
        self.lines.run(f"br i1 {condition[0]}, label %{label}, label %{self.exits[-1]}", f"{label}:")

"""Programs with loops to C: `for` and `while` over numbers and arrays, as a person would write them.

Assumes a Program whose operations `c_like` and `nests` have. Guarantees the rounds' order and the Program's of operations.
Sizes that are symbols are the function's first parameters. Arrays of its own beyond `LOCAL` cells, and what grows while a loop
counts its rounds, it takes from `realloc` and gives back; without memory it calls `abort`.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from symdiff.codegen.c_like import INDENT, Dialect
from symdiff.codegen.expressions import ATOM, DEPTH, SIGN, WIDTH, Expression, bare_text, printed_operands
from symdiff.codegen.names import Names
from symdiff.codegen.nests import Buffer, Index, Nest, Words, nest_of
from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.vocabulary.extents import Count, Extent, Shape, Size

LOCAL = 1000  # cells of an array that is a variable
_HELPERS = {
    "np_room": """static void *np_room(void *memory, size_t *room, size_t wanted)
{
    if (wanted <= *room)
        return memory;
    *room = wanted < 2 * *room ? 2 * *room : wanted;
    memory = realloc(memory, *room);
    if (!memory)
        abort();
    return memory;
}
""",
    "np_index": """static long np_index(double x, long n)
{
    return !(x > 0) ? 0 : x >= n ? n - 1 : (long)x;
}
""",
}


class CNests(Words):
    """Statements and expressions of C; `helpers` are the functions that they call."""

    few = 4

    def __init__(self, language: Dialect, names: Names, sizes: dict[str, str]) -> None:
        super().__init__()
        self.language = language
        self.names = names
        self.sizes = sizes
        self.lines: list[str] = []
        self.top: list[str] = []  # before all else
        self.grown: dict[str, str] = {}
        self.fresh: dict[str, str] = {}  # declarations of variables that have no value yet
        self.blocks: list[list[str]] = [[]]
        self.heads: list[tuple[int, str]] = []
        self.used: set[str] = set()
        self.printed: list[Node] = []  # operations on numbers, whose own functions are needed

    def body(self, program: Program, arguments: Sequence[str], targets: Sequence[str]) -> list[str]:
        """The statements of a function."""
        given = []
        for leaf, argument in zip(program.inputs, arguments, strict=True):
            buffer = Buffer(argument, leaf.shape, leaf.dtype)
            given.append(self.cells(buffer) if leaf.shape else self.load(buffer, ()))
        places = [Buffer(t if o.shape else f"*{t}", o.shape, o.dtype) for o, t in zip(program.outputs, targets, strict=True)]
        nest_of(self, program, given, places)
        return [*self.top, *self.lines, *(f"free({name});" for name in self.grown)]

    def helpers(self) -> list[str]:
        """The texts of the functions that are called."""
        return [text for name, text in _HELPERS.items() if name in self.used]

    # -- expressions

    def operation(self, nest: Nest, position: int) -> dict[int, Expression]:
        found = self.cell(nest.program, position, nest.values)
        if nest.whole_of(position) is not None:  # where it is an index, nothing reads it
            return {position: found}
        once = nest.uses[position] == 1 and position not in nest.inside
        if found.depth and not (once and found.depth < DEPTH and len(found.text) <= WIDTH):
            found = self.named("", found, nest.program.nodes[position].dtype)
        return {position: found}

    def cell(self, program: Program, position: int, values: dict[int, Expression]) -> Expression:
        node = program.nodes[position]
        if node.op == "const":
            text = self.language.literal(node.params, node.dtype)
            return Expression(text, SIGN if text.startswith("-") else ATOM, 0)
        self.printed.append(node)
        template, level, needed = self.language.spelling(program, position)
        parts = [values[o] for o in printed_operands(program, position)]
        text = template.format(*(p.at(n) for p, n in zip(parts, needed, strict=True)))
        return Expression(text, level, 1 + max((p.depth for p in parts), default=0))

    def is_read(self, buffer: Buffer, value: Any) -> bool:
        return isinstance(value, Expression) and f"{buffer.name}[" in value.text

    def named(self, name: str, value: Expression, code: str) -> Expression:
        if not value.depth:
            return value
        name = self._name(name, "v")
        self._say(f"const {self.language.types[code]} {name} = {bare_text(value.text)};")
        return Expression(name, ATOM, 0)

    def real(self, whole: Count) -> Expression:
        return Expression(f"(double){self._grouped(whole)}", ATOM, 0)

    def whole(self, value: Expression, size: Count) -> Extent:
        self.used.add("np_index")
        name = self._name("", "i")
        self._say(f"const long {name} = np_index({bare_text(value.text)}, {self._text(size)});")
        return self._size(name, name)

    def product(self, a: Count, b: Count) -> Count:
        text = f"{self._grouped(a)} * {self._grouped(b)}"
        return self._size(text, text)

    def _size(self, name: str, text: str) -> Extent:
        self.sizes[name] = text
        return Extent(0, ((Size(name, 0), 1),))

    def _text(self, whole: Count) -> str:
        """A whole number as an expression."""
        if not isinstance(whole, Extent):
            return str(whole)
        terms = [(times, self.sizes[size.name]) for size, times in whole.terms]
        terms.sort(key=lambda term: term[0] < 0)
        parts = [text if times == 1 else f"-{text}" if times == -1 else f"{times} * {text}" for times, text in terms]
        constant = [str(whole.constant)] if whole.constant else []
        parts = [*constant, *parts] if terms[0][0] < 0 else [*parts, *constant]
        return " + ".join(parts).replace("+ -", "- ")

    def _grouped(self, whole: Count) -> str:
        text = self._text(whole)
        return text if text.isidentifier() or text.isdecimal() else f"({text})"

    def _name(self, name: str, stem: str) -> str:
        found = self.names.fresh(name) if name else self.names.numbered(stem)
        self.blocks[-1].append(found)
        return found

    def _say(self, line: str) -> None:
        self.lines.append(INDENT * len(self.blocks[1:]) + line)

    # -- memory

    def table(self, value: np.ndarray) -> Buffer:
        name, code = self.names.numbered("table"), value.dtype.char
        cells = ", ".join(self.language.literal(cell, code) for cell in value.ravel().tolist())
        self.top.append(f"static const {self.language.types[code]} {name}[] = {{{cells}}};")
        return Buffer(name, value.shape, code)

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        kind = self.language.types[code]
        if not any(isinstance(n, Extent) for n in shape) and math.prod(shape) <= LOCAL:
            name = self._name(name, "s" if not shape else "w")
            self.fresh[name] = f"{kind} {name}" + (f"[{math.prod(shape)}]" if shape else "")
            return Buffer(name, shape, code)
        name = self.names.fresh(name) if name else self.names.numbered("w")
        room = self.grown[name] = self.names.fresh(f"{name}_room")
        self.top += [f"{kind} *{name} = NULL;", f"size_t {room} = 0;"]
        return Buffer(name, shape, code)

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        if buffer.name in self.grown:
            self.used.add("np_room")
            cells = [rows, *buffer.shape[1:]]
            count = " * ".join(self._grouped(n) for n in cells if n != 1)
            kind = self.language.types[buffer.dtype]
            wanted = f"sizeof({kind}) * {count}" if count else f"sizeof({kind})"
            self._say(f"{buffer.name} = np_room({buffer.name}, &{self.grown[buffer.name]}, {wanted});")

    def clear(self, buffer: Buffer) -> None:
        zero = self.language.literal(False if buffer.dtype == "?" else 0.0, "d" if buffer.dtype == "D" else buffer.dtype)
        if not buffer.shape:
            self.store(buffer, (), Expression(zero, ATOM, 0))
        elif buffer.name in self.fresh:
            self._say(f"{self.fresh.pop(buffer.name)} = {{0}};")
        else:
            with self.rounds("i", self.count(buffer.shape)) as i:
                self._say(f"{buffer.name}[{self._text(i)}] = {zero};")

    def _cell(self, buffer: Buffer, index: Index) -> str:
        return f"{buffer.name}[{self._text(self.flat(buffer, index))}]" if buffer.shape or buffer.start else buffer.name

    def load(self, buffer: Buffer, index: Index) -> Expression:
        return Expression(self._cell(buffer, index), ATOM, 1 if buffer.shape else 0)

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        declared = self.fresh.pop(buffer.name, "")
        if declared and buffer.shape:
            self._say(f"{declared};")
        cell = declared if declared and not buffer.shape else self._cell(buffer, index)
        self._say(f"{cell} {'+=' if add else '='} {bare_text(value.text)};")

    def assign(self, pairs: list[tuple[Buffer, Expression, bool]]) -> None:
        late = []
        for buffer, value, read in pairs:
            if read:
                name = self._name(f"{buffer.name}_next", "")
                self._say(f"const {self.language.types[buffer.dtype]} {name} = {bare_text(value.text)};")
                late.append(f"{buffer.name} = {name};")
            else:
                self.store(buffer, (), value)
        for line in late:
            self._say(line)

    # -- loops

    @contextmanager
    def rounds(self, name: str, count: Count | None, backward: bool = False, size: str = "") -> Iterator[Extent]:
        stop = "" if count is None else self._text(count)
        if size:
            k = self.sizes[size] = self._name(size, "")
            self._say(f"long {k} = 0;")
            head = f"while ({f'{k} < {stop}' if stop else '1'})"
        else:
            k = self.names.fresh(name)
            head = f"for (long {k} = 0; {k} < {stop}; {k}++)"
            if backward:
                last = self._text(count - 1)  # type: ignore[operator]
                head = f"for (long {k} = {last}; {k} >= 0; {k}--)"
        for name in [name for name, declared in self.fresh.items() if declared.endswith("]")]:
            self._say(f"{self.fresh.pop(name)};")
        self._say(f"{head} {{")
        self.heads.append((len(self.lines), f"{k} < {stop}" if stop else ""))
        self.blocks.append([])
        found = self._size(f"#{k}", k)
        if count is not None:
            self.bounds[f"#{k}"] = count - 1
        yield found
        if size:
            self._say(f"{k}++;")
        self.names.taken.difference_update(self.blocks.pop())
        self.heads.pop()
        self._say("}")
        if not size:
            self.names.taken.discard(k)

    def leave_unless(self, condition: Expression) -> None:
        start, limit = self.heads[-1]
        if len(self.lines) == start:
            both = f"{limit} && {condition.at(ATOM)}" if limit else bare_text(condition.text)
            self.lines[-1] = f"{INDENT * len(self.blocks[2:])}while ({both}) {{"
        else:
            self._say(f"if (!{condition.at(ATOM)})")
            self._say(f"{INDENT}break;")

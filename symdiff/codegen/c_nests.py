"""Programs with loops to C: `for` and `while` over numbers and arrays, as a person would write them.

Assumes a Program whose operations `c_like` and `nests` have. Guarantees the rounds' order and the Program's of operations.
Sizes that are symbols are the function's first parameters. Arrays of its own beyond `LOCAL` cells, and what grows while a loop
counts its rounds, it takes from `calloc` and `realloc` and gives back; without memory it calls `abort`.
"""

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.codegen.c_like import Dialect
from symdiff.codegen.expressions import ATOM, Expression, Spelled
from symdiff.codegen.names import Names
from symdiff.codegen.nest_words import Buffer, Index, Nexts
from symdiff.codegen.text import indented
from symdiff.codegen.text_nests import INDENT, Syntax, TextNests
from symdiff.lowering.program import Program
from symdiff.vocabulary.extents import Count, Extent, Shape, has_extents

LOCAL = 1000  # cells of an array that is a variable
_HELPERS = {
    "np_zeros": """void *np_zeros(size_t count, size_t size)
{
    void *memory = count > (size_t)-1 / 2 / size ? NULL : calloc(count, size);
    if (!memory)
        abort();
    return memory;
}
""",
    "np_room": """void *np_room(void *memory, size_t *room, size_t wanted)
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
    "np_index": """long np_index(double x, long n)
{
    return !(x > 0) ? 0 : x >= n ? n - 1 : (long)x;
}
""",
}


class CNests(TextNests):
    """Statements and expressions of C; `helpers` are the functions that they call."""

    names_cells = True
    syntax = Syntax(
        forward="for (long {k} = 0; {k} < {count}; {k}++) {{",
        between="for (long {k} = {start}; {k} < {count}; {k}++) {{", backward="for (long {k} = {last}; {k} >= 0; {k}--) {{",
        begin="long {k} = 0", goes="while ({test}) {{", more="{k}++", unless="if (!{test})", end="}", always="1", both="&&",
        times=" * ", stop=";", note="/* {} */",
    )  # fmt: skip

    constant, qualifier = "static const", "static"

    def __init__(self, language: Dialect, names: Names, sizes: dict[str, str], entry: str) -> None:
        super().__init__(names, sizes)
        self.language = language
        self.entry = entry
        self.givers: dict[str, str] = {}  # the functions that give large constants
        self.grown: dict[str, str] = {}  # what has memory of its own, and its room where rounds make it larger
        self.large: dict[str, str] = {}  # arrays that get memory where they are first needed, by their types
        self.zeroed: set[str] = set()
        self.arguments: frozenset[str] = frozenset()
        self.used: set[str] = set()

    def body(self, program: Program, arguments: Sequence[str], targets: Sequence[str]) -> list[str]:
        """The statements of a function, whose results that are numbers lie behind pointers."""
        self.arguments = frozenset(arguments)
        places = [t if o.shape else f"*{t}" for o, t in zip(program.outputs, targets, strict=True)]
        return [*super().body(program, arguments, places), *(f"free({name});" for name in self.grown)]

    def helpers(self) -> list[str]:
        """The texts of the functions that are called."""
        return [f"{self.qualifier} {text}" for name, text in _HELPERS.items() if name in self.used]

    # -- expressions

    def spelled(self, program: Program, position: int) -> Spelled:
        return self.language.spelling(program, position)

    def literal(self, value: Any, code: str) -> str:
        return self.language.literal(value, code)

    def defined(self, name: str, text: str, code: str) -> str:
        return f"const {self.language.types[code]} {name} = {text}"

    def real(self, whole: Count) -> Expression:
        return Expression(f"(double){self._grouped(whole)}", ATOM, 0)

    def whole(self, value: Expression, size: Count) -> Extent:
        self.used.add("np_index")
        name = self._name("", "i")
        self._say(f"const long {name} = np_index({value}, {self._text(size)})")
        return self._size(name, name)

    # -- memory

    def around(self, name: str, code: str, outside: bool) -> tuple[str, str]:
        return f"{'static const' if outside else self.constant} {self.language.types[code]} {name}[] = {{", "};"

    def table(self, value: np.ndarray) -> Buffer:
        found = super().table(value)
        name, kind = found.name, self.language.types[found.dtype]
        if name in self.constants and name not in self.givers:
            giver = self.names.fresh(f"{self.entry}_{name}")
            self.givers[name] = f"{self.qualifier} const {kind} *{giver}(void)"
            self.top.append(f"const {kind} *const {name} = {giver}();")
        return found

    def declared_tables(self) -> list[str]:
        """What declares the functions that give large constants."""
        return [f"{head};\n" for head in self.givers.values()]

    def defined_tables(self) -> list[str]:
        """These functions, which stand below the mathematics."""
        held = [(self.givers[name], self.constant_text("cells", value)) for name, value in self.constants.items()]
        return [line for head, cells in held for line in ("", head, "{", *indented([*cells, "return cells;"]), "}")]

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        kind = self.language.types[code]
        if not has_extents(shape) and math.prod(shape) <= LOCAL:
            name = self._name(name, "s" if not shape else "w")
            self.fresh[name] = f"{kind} {name}" + (f"[{math.prod(shape)}]" if shape else "")
            return Buffer(name, shape, code)
        name = self.names.fresh(name) if name else self.names.numbered("w")
        self.large[name] = kind
        return Buffer(name, shape, code)

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        """Memory for an array that is made once, or for one that rounds make, and make larger."""
        name, kind = buffer.name, self.language.types[buffer.dtype]
        cells = [rows, *buffer.shape[1:]]
        count = " * ".join(f"(size_t){self._grouped(n)}" if isinstance(n, Extent) else str(n) for n in cells if n != 1)
        if name in self.large and len(self.blocks) == 1:
            self.used.add("np_zeros")
            self._say(f"{self.large.pop(name)} *{name} = np_zeros({count or 1}, sizeof *{name})")
            self.grown[name] = ""
            self.zeroed.add(name)
            return
        if name in self.large:
            room = self.grown[name] = self.names.fresh(f"{name}_room")
            self.top += [f"{self.large.pop(name)} *{name} = NULL;", f"size_t {room} = 0;"]
        if self.grown.get(name):
            self.used.add("np_room")
            wanted = f"sizeof({kind}) * {count}" if count else f"sizeof({kind})"
            self._say(f"{name} = np_room({name}, &{self.grown[name]}, {wanted})")

    def clear(self, buffer: Buffer) -> None:
        zero = self.language.literal(False if buffer.dtype == "?" else 0.0, "d" if buffer.dtype == "D" else buffer.dtype)
        if not buffer.shape:
            self.store(buffer, (), Expression(zero, ATOM, 0))
        elif buffer.name in self.fresh:
            self._say(f"{self.fresh.pop(buffer.name)} = {{0}}")
        elif buffer.name in self.zeroed:
            self.zeroed.discard(buffer.name)
        else:
            with self.rounds("i", self.count(buffer.shape)) as i:
                self._say(f"{buffer.name}[{self._text(i)}] = {zero}")

    def end_where(self, place: int, condition: Expression) -> None:
        self._line(f"if ({condition}){' {' * bool(self.grown)}")
        for said in (*(f"free({name})" for name in self.grown), f"return {place + 1}"):
            self._say(INDENT + said)
        if self.grown:
            self._line("}")

    def load(self, buffer: Buffer, index: Index) -> Expression:
        found = super().load(buffer, index)
        known = buffer.name in self.arguments and not has_extents((buffer.start, *index))
        return Expression(found.text, ATOM, 0) if known else found

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        self.zeroed.discard(buffer.name)
        if buffer.shape or buffer.name not in self.fresh:
            super().store(buffer, index, value, add)
        else:
            self._say(f"{self.fresh.pop(buffer.name)} = {value}")

    def assign(self, pairs: Nexts) -> None:
        late = []
        for buffer, value, read in pairs:
            if read:
                name = self._name(f"{re.sub(r'_$|[][]', '', buffer.name)}_next", "")
                self._say(self.defined(name, value.text, buffer.dtype))
                late.append(f"{buffer.name} = {name}")
            else:
                self.store(buffer, (), value)
        for line in late:
            self._say(line)

    def before_rounds(self, counting: bool) -> None:
        """Declare arrays outside of the rounds; a number has its declaration where it gets its value."""
        for name in [name for name, declared in self.fresh.items() if declared.endswith("]")]:
            self.made(name)

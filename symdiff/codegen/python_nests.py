"""Programs with loops to Python: `for` and `while` over numbers and lists of numbers, plain Python's own or NumPy's.

Assumes a Program whose operations on numbers have a spelling, and those on arrays a formula in `nests`. Guarantees the rounds'
order, and lists in C order, so that the text computes with arrays, too, and numba compiles it as it stands.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from symdiff.codegen.expressions import ATOM, Ends, Expression, Spell, Spelled
from symdiff.codegen.names import Names
from symdiff.codegen.nest_words import Buffer, Index, Nexts
from symdiff.codegen.text import number_type
from symdiff.codegen.text_nests import Syntax, TextNests
from symdiff.lowering.program import Program
from symdiff.vocabulary.extents import Count, Extent, Shape, names_in_extents


class PythonNests(TextNests):
    """Statements and expressions of Python; `spell` gives the spellings of a program's operations, `write` a constant, `ends`
    the statements where a check holds."""

    names_cells = True
    syntax = Syntax(
        forward="for {k} in range({count}):", between="for {k} in range({start}, {count}):",
        backward="for {k} in range({last}, -1, -1):", begin="{k} = 0", goes="while {test}:", more="{k} += 1",
        unless="if not {test}:", end="", always="True", both="and", times="*", stop="", note="# {}",
    )  # fmt: skip

    def __init__(
        self, names: Names, sizes: Sequence[str], spell: Spell, write: Callable[[Any], str],
        ends: Ends | None = None,
    ) -> None:  # fmt: skip
        super().__init__(names, {size: size for size in sizes})
        self.spell = spell
        self.write = write
        self.ends = ends
        self.known: set[str] = set()  # arrays that are made, or about to be
        self.growing: set[str] = set()  # those that have the rows of the rounds so far
        self.given: frozenset[str] = frozenset()  # arguments, which may be arrays
        self.appended: dict[str, Count] = {}  # the cells that come next

    def body(self, program: Program, arguments: Sequence[str], targets: Sequence[str]) -> list[str]:
        counted = [t for t, o in zip(targets, program.outputs, strict=True) if names_in_extents(o.shape) - self.sizes.keys()]
        for name in counted:  # a loop tells how many rows it has
            self._say(f"{name} = []")
        self.known.update(counted)
        self.growing.update(counted)
        self.given = frozenset(arguments)
        return super().body(program, arguments, targets)

    # -- numbers

    def spelled(self, program: Program, position: int) -> Spelled | Program:
        return self.spell(program, position)

    def literal(self, value: Any, code: str) -> str:
        return self.write(value)

    def real(self, whole: Count) -> Expression:
        return Expression(f"float({self._text(whole)})", ATOM, 0)

    def whole(self, value: Expression, size: Count) -> Extent:
        name = self._name("", "i")
        self._say(f"{name} = int(min({self._text(size - 1)}, max(0, {value})))")
        return self._size(name, name)

    def end_where(self, place: int, condition: Expression) -> None:
        for line in self.ends(place, condition.text) if self.ends is not None else ():
            self._say(line)

    # -- lists

    def around(self, name: str, code: str, outside: bool) -> tuple[str, str]:
        return (f"{name} = (", ")") if outside else (f"{name} = [", "]")

    def table(self, value: np.ndarray) -> Buffer:
        found = super().table(value)
        self.known.add(found.name)
        return found

    def buffer(self, name: str, shape: Shape, code: str) -> Buffer:
        name = self._name(name, "w" if shape else "s")
        if shape:
            self.known.add(name)
            self.growing.discard(name)
            self.fresh[name] = f"{name}: {self.listed(code)} = []"
        return Buffer(name, shape, code)

    def reserve(self, buffer: Buffer, rows: Count) -> None:
        name, row = buffer.name, buffer.shape[1:]
        if name in self.growing and not row:
            self.appended[name] = rows - 1
        elif name in self.growing:
            self._say(f"{name}.extend({self._zeros(row, buffer.dtype)})")
        elif name in self.fresh or name not in self.known:
            self.known.add(name)
            self.fresh[name] = f"{name} = {self._zeros((rows, *row), buffer.dtype)}"

    def listed(self, code: str) -> str:
        """The type of a list of numbers."""
        return f"list[{number_type(code)}]"

    def _zeros(self, shape: Shape, code: str) -> str:
        return f"[{self._zero(code)}]*{self._grouped(self.count(shape))}"

    def _zero(self, code: str) -> str:
        return self.kept(self.literal({"?": False, "D": 0j}.get(code, 0.0), code), code)

    def before_rounds(self, counting: bool) -> None:
        """Make the arrays that the rounds may write to; those without rows so far get them from rounds that are counted."""
        empty = [name for name, text in self.fresh.items() if text.endswith("= []")]
        self.growing.update(empty if counting else ())
        for name in [name for name in self.fresh if counting or name not in empty]:
            self.made(name)

    def clear(self, buffer: Buffer) -> None:
        if not buffer.shape:
            self.store(buffer, (), Expression(self._zero(buffer.dtype), ATOM, 0))
        elif buffer.name in self.fresh or buffer.name not in self.known:
            self.reserve(buffer, buffer.shape[0])
            self.made(buffer.name)
        else:
            with self.rounds("i", self.count(buffer.shape)) as i:
                self._say(f"{buffer.name}[{self._text(i)}] = {self._zero(buffer.dtype)}")

    def load(self, buffer: Buffer, index: Index) -> Expression:
        self.made(buffer.name)
        return super().load(buffer, index)

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        if buffer.shape and buffer.name not in self.known:
            self.reserve(buffer, buffer.shape[0])
        text = self.kept(value.text, buffer.dtype)
        if buffer.name in self.appended and self.appended.pop(buffer.name) == self.flat(buffer, index):
            self._say(f"{buffer.name}.append({text})")
        else:
            super().store(buffer, index, Expression(text, ATOM, 0), add)

    def copy(self, source: Buffer, target: Buffer) -> None:
        if (
            not source.shape
            or source.name in self.given
            or (source.start, target.start) != (0, 0)
            or target.name in self.growing
        ):
            super().copy(source, target)
            return
        self.reserve(target, target.shape[0])
        self.made(target.name)
        self._say(f"{target.name}[:] = {source.name}")

    def assign(self, pairs: Nexts) -> None:
        said = [(buffer.name, self.kept(value.text, buffer.dtype)) for buffer, value, _ in pairs]
        said = [(name, text) for name, text in said if name != text]
        if said:
            self._say(f"{', '.join(name for name, _ in said)} = {', '.join(text for _, text in said)}")

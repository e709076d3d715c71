"""Programs with loops as text: what C and Python say alike for the parts of a nest, statements of numbers and places in arrays.

A language adds the heads of its loops (`Syntax`), its operations and constants, and how it makes and keeps arrays.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import numpy as np

from symdiff.codegen.expressions import (
    ATOM,
    BOTH,
    SIGN,
    SUM,
    TERM,
    WIDTH,
    Expression,
    Spelled,
    leaf_expression,
    printed_operation,
)
from symdiff.codegen.names import Names
from symdiff.codegen.nest_words import Buffer, Index, Words
from symdiff.codegen.nests import Nest, nest_of
from symdiff.codegen.text import LARGE, wrapped_text
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, cell_program
from symdiff.vocabulary.extents import Count, Extent, extent

INDENT = "    "
_INDICES = "ijkmnp"  # of cells, from the outermost loop in


class Syntax(NamedTuple):
    """The lines around the rounds of a loop, and signs; `{k}` is the round's number, `{test}` what holds while it goes on."""

    forward: str
    between: str
    backward: str
    begin: str
    goes: str
    more: str
    unless: str
    end: str
    always: str
    both: str
    times: str
    stop: str
    note: str


class TextNests(Words):
    """Statements and expressions; `printed` are the operations on numbers, whose own functions are needed."""

    few = own = 4
    syntax: Syntax
    tables: ClassVar[tuple[str, str]] = ("table", "table")  # what constants are called: those of a function, those outside

    def __init__(self, names: Names, sizes: dict[str, str]) -> None:
        super().__init__()
        self.names = names
        self.sizes = sizes
        self.told: dict[str, Count] = {}  # sizes that loops count, where these are known before
        self.lines: list[str] = []
        self.top: list[str] = []  # before all else
        self.constants: dict[str, np.ndarray] = {}  # those outside, which the functions of a file share
        self.inside: dict[str, np.ndarray] = {}  # the tables of this function alone
        self.fresh: dict[str, str] = {}  # the statements that make variables which have no value yet
        self.blocks: list[list[str]] = [[]]
        self.heads: list[tuple[int, str]] = []
        self.printed: list[Node] = []

    def body(self, program: Program, arguments: Sequence[str], targets: Sequence[str]) -> list[str]:
        """The statements of a function."""
        given = []
        for leaf, argument in zip(program.inputs, arguments, strict=True):
            buffer = Buffer(argument, leaf.shape, leaf.dtype)
            given.append(self.cells(buffer) if leaf.shape else self.load(buffer, ()))
        nest_of(self, program, given, [Buffer(t, o.shape, o.dtype) for o, t in zip(program.outputs, targets, strict=True)])
        return [*self.top, *self.lines]

    # -- what a language says

    def spelled(self, program: Program, position: int) -> Spelled | Program:
        """Template, level and operand levels of one operation on numbers."""
        raise NotImplementedError

    def literal(self, value: Any, code: str) -> str:
        """A constant."""
        raise NotImplementedError

    def kept(self, text: str, code: str) -> str:
        """A number that a variable or an array keeps."""
        return text

    def defined(self, name: str, text: str, code: str) -> str:
        """The statement that gives a number its name."""
        return f"{name} = {text}"

    def made(self, name: str) -> None:
        """A variable that has no value yet is about to be needed."""
        if name in self.fresh:
            self._say(self.fresh.pop(name))

    # -- expressions

    def operation(self, nest: Nest, position: int) -> dict[int, Expression]:
        found = self.cell(nest.program, position, nest.values)
        if nest.whole_of(position) is not None:  # where it is an index, nothing reads it
            return {position: found}
        alone = nest.uses[position] == 1 - (position in nest.program.checks)
        once = alone and position not in nest.inside
        if found.depth and not (once and found.is_short):
            found = self.named("", found, nest.program.nodes[position].dtype)
        return {position: found}

    def cell(self, program: Program, position: int, values: dict[int, Expression]) -> Expression:
        node = program.nodes[position]
        factors = _factors(program, position)
        if factors:
            base = self.named("", values[node.operands[0]], node.dtype).at(SIGN)
            return Expression(self.syntax.times.join([base] * factors), TERM, 1)
        self.printed.append(node)
        return printed_operation(
            program, position, values, self.spelled, lambda constant: self.literal(constant.params, constant.dtype),
            lambda value, code: self.named("", value, code),
        )  # fmt: skip

    def compared(self, op: str, first: Count, second: Count) -> Expression:
        if self.is_varied(first) or self.is_varied(second):
            return super().compared(op, first, second)  # type: ignore[no-any-return]
        numbers = {place: Expression(self._text(whole), SUM, 0) for place, whole in enumerate((first, second))}
        return self.cell(cell_program(op, ("d", "d"), "?"), 2, numbers)

    def named(self, name: str, value: Expression, code: str) -> Expression:
        if not value.depth:
            return value
        name = self._name(name, "v")
        self._say(self.defined(name, value.text, code))
        return leaf_expression(name)

    def product(self, a: Count, b: Count) -> Count:
        text = f"{self._grouped(a)}{self.syntax.times}{self._grouped(b)}"
        return self._size(text, text, self.is_varied(a) or self.is_varied(b))

    def _size(self, name: str, text: str, varied: bool = False) -> Extent:
        self.sizes[name] = text
        self.varied.update([name] if varied else [])
        return extent(name, 0)

    def _text(self, whole: Count) -> str:
        """A whole number as an expression."""
        for size, times in whole.terms if isinstance(whole, Extent) else ():
            if size.name in self.told:
                whole = whole + times * (self.told[size.name] - Extent(0, ((size, 1),)))
        if not isinstance(whole, Extent):
            return str(whole)
        sign = self.syntax.times
        terms = [(times, self.sizes[size.name]) for size, times in whole.terms]
        terms.sort(key=lambda term: term[0] < 0)
        parts = [text if times == 1 else f"-{text}" if times == -1 else f"{times}{sign}{text}" for times, text in terms]
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
        self.lines.append(INDENT * len(self.blocks[1:]) + line + self.syntax.stop)

    # -- memory

    def stands_outside(self, value: np.ndarray) -> bool:
        """Whether a constant stands outside of the function that reads it."""
        return value.size > LARGE

    def around(self, name: str, code: str, outside: bool) -> tuple[str, str]:
        """What stands before and after the cells of a constant."""
        raise NotImplementedError

    def constant_text(self, name: str, value: np.ndarray, outside: bool = True) -> list[str]:
        """The lines that give a constant its name."""
        opening, closing = self.around(name, code := value.dtype.char, outside)
        return wrapped_text(opening, [self.kept(self.literal(cell, code), code) for cell in value.ravel().tolist()], closing)

    def constant_texts(self) -> list[tuple[str, int]]:
        """The texts of those outside, and how many cells they have."""
        return [("\n".join(self.constant_text(name, value)), value.size) for name, value in self.constants.items()]

    def table(self, value: np.ndarray) -> Buffer:
        code, outside = value.dtype.char, self.stands_outside(value)
        tables = self.constants if outside else self.inside
        alike = [name for name, known in tables.items() if equal_bits(known, value)]
        name = alike[0] if alike else self.names.numbered(self.tables[outside])
        if not alike:
            tables[name] = value
            self.top += [] if outside else self.constant_text(name, value, False)
        return Buffer(name, value.shape, code)

    def _cell(self, buffer: Buffer, index: Index) -> str:
        return f"{buffer.name}[{self._text(self.flat(buffer, index))}]" if buffer.shape or buffer.start != 0 else buffer.name

    def load(self, buffer: Buffer, index: Index) -> Expression:
        return Expression(self._cell(buffer, index), ATOM, 1 if buffer.shape else 0)

    def store(self, buffer: Buffer, index: Index, value: Expression, add: bool = False) -> None:
        self.made(buffer.name)
        less = add and value.text.startswith("-") and value.level >= TERM
        sign, text = ("-=", value.text[1:]) if less else ("+=" if add else "=", value.text)
        self._say(f"{self._cell(buffer, index)} {sign} {text}")

    # -- loops

    def tell(self, size: str, count: Count) -> None:
        super().tell(size, count)
        self.told[size] = count

    @contextmanager
    def rounds(
        self, name: str, count: Count | None, backward: bool = False, size: str = "", start: Count = 0
    ) -> Iterator[Extent]:
        says, stop, test = self.syntax, "" if count is None else self._text(count), ""
        if size:
            k = self.sizes[size] = self._name(size, "")
            test = f"{k} < {stop}" if stop else ""
            self._say(says.begin.format(k=k))
            head = says.goes.format(test=test or says.always)
        else:
            k = self.names.fresh(next((i for i in _INDICES if self.names.is_free(i)), name) if name == "i" else name)
            last = self._text(count - 1) if backward else ""  # type: ignore[operator]
            form = says.backward if backward else says.between if start != 0 else says.forward
            head = form.format(k=k, start=self._text(start), count=stop, last=last)
        self.before_rounds(bool(size))
        self._line(head)
        self.heads.append((len(self.lines), test))
        self.blocks.append([])
        found = self._size(f"#{k}", k)
        if count is not None:
            self.bound(f"#{k}", count - 1)
        yield found
        if size:
            self._say(says.more.format(k=k))
        elif len(self.lines) == self.heads[-1][0] and not says.end:
            self._say("pass")
        self.names.taken.difference_update(self.blocks.pop())
        self.heads.pop()
        if says.end:
            self._line(says.end)
        if not size:
            self.names.taken.discard(k)

    def before_rounds(self, counting: bool) -> None:
        """Make the arrays that the rounds may write to, which may be `counting`."""
        raise NotImplementedError

    def leave_unless(self, condition: Expression) -> None:
        (start, limit), says = self.heads[-1], self.syntax
        if len(self.lines) == start:
            both = f"{limit} {says.both} {condition.at(BOTH)}" if limit else condition.text
            self.lines[-1] = INDENT * len(self.blocks[2:]) + says.goes.format(test=both)
        else:
            self._line(says.unless.format(test=condition.at(ATOM)))
            self._say(f"{INDENT}break")

    def note(self, text: Callable[[], str]) -> None:
        if len(said := text()) <= WIDTH:
            self._line(self.syntax.note.format(said))

    def _line(self, text: str) -> None:
        """A line that is no statement of its own."""
        self.lines.append(INDENT * len(self.blocks[1:]) + text)


def equal_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays are the same, zeros of both signs and NaN told apart."""
    return (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())


def _factors(program: Program, position: int) -> int:
    """Of how many equal factors a power is the product, 0 where it is none."""
    node = program.nodes[position]
    if node.op != "pow":
        return 0
    base, exponent = (program.nodes[o] for o in node.operands)
    known = exponent.op == "const" and not exponent.shape and base.dtype == node.dtype
    return int(exponent.params) if known and exponent.params in (2, 3) else 0

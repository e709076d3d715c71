"""Programs with loops to plain Python: `for` and `while` over numbers and lists of numbers.

Assumes a point Plan whose values are float64, complex128 or Boolean, in loops and around them numbers, vectors and rows of
vectors. Guarantees the rounds' order, and one function for all sizes where these are symbols. Refuses other operations on whole
arrays with `BackendError`; errors of Python's `math` (1/0, log(0)) are the caller's to handle.
"""

import cmath
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from symdiff.codegen.expressions import ATOM, DEPTH, SIGN, SUM, TERM, WIDTH, Expression, bare_text, printed_operands
from symdiff.codegen.names import Names, emitted_argument_names
from symdiff.codegen.python import INDENT, called_modules, check_python, literal, spelling
from symdiff.codegen.shells import annotated_result
from symdiff.codegen.sizes import told_sizes
from symdiff.codegen.source import PythonFile, Source
from symdiff.codegen.text import emitted_result, nested_type, number_type, output_texts, packed, wrapped_text
from symdiff.errors import BackendError
from symdiff.ir.node import Node
from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program
from symdiff.lowering.walks import program_cone, uses_of
from symdiff.vocabulary.extents import Count, Extent, renamed_sizes, sizes_in
from symdiff.vocabulary.literals import docstring_literal, message_literal
from symdiff.vocabulary.ops import OPS


def emit(
    plan: Plan, *, name: str, style: str = "runtime", header: Sequence[str] = (), doc: str = "", result: Any = None
) -> Source:
    """A function of numbers and lists, which returns numbers and lists, in nested tuples where `result` has their places."""
    check_python(plan.program)
    writer = Writer(plan.program, result, style == "export")
    entry = writer.names.fresh(name)
    if style == "runtime":
        lines = [f"def {entry}({', '.join(writer.arguments)}):", *(INDENT + line for line in writer.lines(doc))]
        return Source("\n".join(lines) + "\n", entry, "python", (("array", np.array), ("math", math), ("cmath", cmath)))
    types = [nested_type("Sequence", leaf.shape, number_type(leaf.dtype)) for leaf in plan.program.inputs]
    taken = [f"{a}: {t}" for a, t in zip(writer.arguments, types, strict=True)]
    lines = wrapped_text(f"def {entry}(", [*taken, "out: Any = None"], ") -> Result:", "")
    text = "\n".join([*lines, *((INDENT + line).rstrip() for line in writer.lines(doc))])
    standard = [f"import {module}" for module in writer.modules] + ["from typing import Any"]
    standard += ["from collections.abc import Sequence"] if any(leaf.shape for leaf in plan.program.inputs) else []
    made = [nested_type("list", o.shape, number_type(o.dtype)) for o in plan.program.outputs]
    head = (f"Result = {annotated_result(writer.result, made)}",)
    return PythonFile(tuple(header), tuple(standard), (), head, (text,), types=tuple(types)).source(entry, "python")


class Writer:
    """Names of arguments, sizes and values, and the lines of the function; what a target has words of its own for."""

    zero = "0.0"

    def __init__(self, program: Program, result: Any, exported: bool) -> None:
        self.program = program
        self.exported = exported
        self.result = emitted_result(len(program.outputs)) if result is None else result
        self.names = Names(["array", "reversed", "out", "Any", "Sequence", "Result", "result"])
        self.arguments = emitted_argument_names(program.inputs, self.names)
        self.sizes: dict[str, str] = {}
        self.modules: set[str] = set()

    def lines(self, doc: str) -> list[str]:
        """The body of the function."""
        given = self.given()
        block = Block(self, self.program, [Expression(a, ATOM, 0) for a in self.arguments])
        for position in range(len(self.program.nodes)):
            block.add(position)
        results = [block.output(o) for o in self.program.outputs]
        if not self.exported:
            results = [f"array({r}, {o.dtype!r})[()]" for r, o in zip(results, self.program.outputs, strict=True)]
        whole = f"return {packed(self.result, results, bare=True)}"
        return [
            *(line.removeprefix(INDENT) for line in docstring_literal(doc)),
            *given,
            *block.lines,
            *self.filling(results),
            whole,
        ]

    def filling(self, results: list[str]) -> list[str]:
        """Where lists for results are given, the statements that fill them."""
        if not self.exported:
            return []
        places = zip(output_texts(self.result, "out"), self.program.outputs, results, strict=True)
        filled = [f"{place}[{':' if o.shape else '0'}] = {text}" for place, o, text in places]
        return ["if out is not None:", *(INDENT + line for line in [*filled, "result: Result = out", "return result"])]

    # -- words: Python's, which NumPy replaces

    def spelling(self, program: Program, position: int) -> tuple[str, int, tuple[int, ...]]:
        """Template, level and operand levels of one operation on numbers."""
        found = spelling(program, position)
        self.modules.update(called_modules(found[0]))
        return found

    def literal(self, value: Any) -> str:
        """A constant."""
        text = literal(value)
        self.modules.update(called_modules(text))
        return text

    def counted(self, text: str) -> str:
        """A whole number as a number of the function's."""
        return f"float({text})"

    def kept(self, node: Node, text: str) -> str:
        """A value that a variable or an array keeps."""
        return text

    # -- arguments and sizes

    def given(self) -> list[str]:
        """The arguments as Python's own numbers, the sizes that they tell, and what is raised for other shapes."""
        lines, axes = [], []
        for leaf, argument in zip(self.program.inputs, self.arguments, strict=True):
            number = {"?": "bool", "D": "complex"}.get(leaf.dtype, "float")
            nested = (f"{number}({argument})", f"[{number}(v) for v in {argument}]",
                      f"[[{number}(v) for v in row] for row in {argument}]")  # fmt: skip
            if len(leaf.shape) > 2:
                raise beyond(f"an argument with {len(leaf.shape)} axes")
            missing = f"{leaf.name} is None, numbers are expected"
            lines += [f"if {argument} is None:", f"{INDENT}raise TypeError({message_literal(missing)})"]
            lines.append(f"{argument} = {nested[len(leaf.shape)]}")
            axes += [(leaf, argument, axis) for axis in range(len(leaf.shape))]
        shapes = [(a, leaf.shape) for a, leaf in zip(self.arguments, self.program.inputs, strict=True)]
        self.sizes = {size.name: self.names.fresh(size.name) for size in sizes_in(tuple(shape for _, shape in shapes))}
        lines += told_sizes([(a, renamed_sizes(shape, self.sizes)) for a, shape in shapes], _cells)
        for leaf, argument, axis in axes:
            extent = self.extent(leaf.shape[axis])
            if not axis and isinstance(leaf.shape[axis], Extent):
                continue
            wrong = f"any(len(row) != {extent} for row in {argument})" if axis else f"len({argument}) != {extent}"
            expected = f"{argument} has another shape than {leaf.shape}, which is expected"
            lines += [f"if {wrong}:", f"{INDENT}raise ValueError({message_literal(expected)})"]
        return lines

    def extent(self, extent: Count) -> str:
        """An extent as an expression of sizes."""
        if not isinstance(extent, Extent):
            return str(extent)
        if any(size.name not in self.sizes for size, _ in extent.terms):
            raise beyond(f"{extent}, which the arguments do not tell,")
        parts = [self.sizes[size.name] if times == 1 else f"{times}*{self.sizes[size.name]}" for size, times in extent.terms]
        return " + ".join([*parts, *([str(extent.constant)] if extent.constant else [])]).replace("+ -", "- ")

    def place(self, place: Any, k: str) -> str:
        """A row's place in round k."""
        k = k if place.step == 1 else f"{place.step}*{k}"
        start = self.extent(place.start)
        found = f"{start} + {k}" if place.step < 0 else f"{k} + {start}"
        return found.replace("+ -", "- ").replace("- 1*", "- ").removesuffix(" + 0").removeprefix("0 + ")


class Block:
    """The statements of a program, one after the other."""

    def __init__(self, writer: Writer, program: Program, leaves: list[Expression]) -> None:
        self.writer = writer
        self.names = writer.names
        self.program = program
        self.leaves = leaves
        self.uses = uses_of(program)
        self.named = {o for node in program.nodes if node.op == "loop" for o in node.operands[node.params.carried :]}
        self.made: dict[int, Expression] = {}
        self.parts: dict[int, list[str]] = {}
        self.local: set[str] = set()  # names of rows, which nothing after the round has
        self.owners: dict[str, int] = {}  # the values that names were made for
        self.lines: list[str] = []

    def output(self, output: Any) -> str:
        """A result as an expression."""
        cells = [self.kept(c) for c in output.cells]
        return cells[0] if self.is_whole(output) else nested(output.shape, cells)

    def kept(self, value: int) -> str:
        """A value that a variable or an array keeps."""
        node, text = self.program.nodes[value], bare_text(self.made[value].text)
        return text if node.shape else self.writer.kept(node, text)

    def listed(self, value: Any) -> str:
        return f"[{', '.join(map(self.listed, value))}]" if isinstance(value, list) else self.writer.literal(value)

    def is_whole(self, output: Any) -> bool:
        """Whether a result is one value, not one for each cell."""
        return len(output.cells) == 1 and self.program.nodes[output.value].shape == output.shape

    def add(self, position: int) -> None:
        """One node: a statement, several, or an expression that its user holds."""
        if position in self.made or position in self.parts:
            return
        node = self.program.nodes[position]
        if node.op == "loop":
            self.parts[position] = self.loop(node)
            return
        if node.op == "part":
            name = self.parts[node.operands[0]][node.params]
            self.made[position], self.owners[name] = Expression(name, ATOM, 0), position
            return
        found = self.leaf(node) if node.op in ("input", "const", "size") else self.expression(position, node)
        once = self.uses[position] == 1 and position not in self.named
        if found.depth and not (once and found.depth < DEPTH and len(found.text) <= WIDTH):
            name = self.program.inputs[node.params[0]].name if node.op == "input" else ""
            found = Expression(self.assign(found.text, name), ATOM, 0)
            self.owners[found.text] = position
        self.made[position] = found

    def assign(self, text: str, name: str = "") -> str:
        """A name for an expression."""
        if name:
            name = self.names.fresh(name)
            self.local.add(name)
        else:
            name = self.names.numbered("v")
        self.lines.append(f"{name} = {bare_text(text)}")
        return name

    def leaf(self, node: Node) -> Expression:
        if node.op == "size":
            return Expression(self.writer.counted(self.writer.extent(node.params)), ATOM, 0)
        if node.op == "const":
            text = self.writer.kept(node, self.listed(node.params.tolist())) if node.shape else self.writer.literal(node.params)
            return Expression(text, SIGN if text.startswith("-") else ATOM, len(node.shape))
        place, cell = node.params
        leaf: Expression = self.leaves[place]
        shape = self.program.inputs[place].shape
        if cell is None or not shape:
            return leaf
        if leaf.depth:  # a row, whose cells are read one by one
            leaf = self.leaves[place] = Expression(self.assign(leaf.text, self.program.inputs[place].name), ATOM, 0)
        at = f"[{cell}]" if len(shape) == 1 else f"[{cell // shape[1]}][{cell % shape[1]}]"
        return Expression(leaf.text + at, ATOM, 0)

    def expression(self, position: int, node: Node) -> Expression:
        operands = [self.made[o] for o in node.operands]
        shapes = [self.program.nodes[o].shape for o in node.operands]
        if node.op not in OPS:
            return self.structural(node, [o.at(ATOM) for o in operands], shapes)
        template, level, needed = self.writer.spelling(self.program, position)
        order = printed_operands(self.program, position)
        if node.shape:
            texts, shapes = [self.made[o].at(ATOM) for o in order], [self.program.nodes[o].shape for o in order]
            return Expression(self.cellwise(template, texts, shapes), ATOM, 1)
        parts = [self.made[o] for o in order]
        text = template.format(*(p.at(n) for p, n in zip(parts, needed, strict=True)))
        return Expression(text, level, 1 + max((p.depth for p in parts), default=0))

    def cellwise(self, template: str, texts: list[str], shapes: list[tuple[int, ...]]) -> str:
        """An operation on arrays of one shape, and on numbers, cell by cell."""
        if not any(shapes):
            return bare_text(template.format(*texts))
        if len({s for s in shapes if s}) > 1:
            raise beyond("an operation on arrays of several shapes")
        cells = [self.names.numbered("c") if s else t for s, t in zip(shapes, texts, strict=True)]
        inside = self.cellwise(template, cells, [s[1:] for s in shapes])
        names, lists = zip(*((c, t) for c, s, t in zip(cells, shapes, texts, strict=True) if s), strict=True)
        over = lists[0] if len(lists) == 1 else f"zip({', '.join(lists)})"
        return f"[{inside} for {', '.join(names)} in {over}]"

    def structural(self, node: Node, x: list[str], shapes: list[tuple[int, ...]]) -> Expression:
        """An operation that moves or adds up the cells of vectors."""
        op, params, ranks = node.op, node.params, [len(s) for s in shapes]
        extent = self.writer.extent
        found = ""
        if op == "gather" and ranks[1] == 0:
            found = f"{x[0]}[{_within(x[1], f'len({x[0]})')}]"
        elif op in ("cells", "array") and len(node.shape) == 1:
            found = f"[{', '.join(x)}]"
        elif op == "scatter_at" and ranks[1] == 0:
            found = self.assign(self.filled(node.shape))
            self.lines.append(f"{found}[{_within(x[1], extent(params['size']))}] = {x[0]}")
        elif op == "broadcast_to" and not ranks[0]:
            return Expression(self.filled(node.shape, x[0]), TERM, 1)
        elif op == "sum" and ranks[0] == 2:
            over = {(0,): f"zip(*{x[0]})", (1,): x[0]}.get(params["axes"])
            found = f"sum(map(sum, {x[0]}))" if over is None else f"list(map(sum, {over}))"
        elif max(ranks) > 1 or len(node.shape) > 1:
            pass
        elif op == "sum":
            found = f"sum({x[0]})"
        elif op == "concatenate":
            return Expression(" + ".join(x), SUM, 1)
        elif op == "broadcast_to":
            return Expression(f"{x[0]}*{_grouped(extent(node.shape[0]))}", TERM, 1)
        elif op == "reshape" and (not node.shape or not ranks[0]):
            found = f"{x[0]}[0]" if ranks[0] else f"[{x[0]}]"
        elif op == "getitem":
            found = f"{x[0]}[{self.sliced(params['key'][0])}]"
        elif op == "put":
            found = self.assign(self.filled(node.shape))
            self.lines.append(f"{found}[{self.sliced(params['key'][0])}] = {x[0]}")
        if not found:
            raise beyond(f"{op} of arrays of shape {', '.join(map(str, shapes))}")
        return Expression(found, ATOM, 1)

    def sliced(self, part: tuple[Any, Any, int]) -> str:
        start, stop, step = part
        ends = [self.writer.extent(start), "" if stop is None else self.writer.extent(stop)]
        return ":".join(ends if step == 1 else [*ends, str(step)])

    # -- loops

    def loop(self, node: Node) -> list[str]:
        """The statements of a loop; the names of its results."""
        writer, loop, fresh = self.writer, node.params, self.names.fresh
        given = [self.made[o].text for o in node.operands]
        body, carried = loop.body, loop.carried
        k = fresh(loop.counted or body.inputs[0].name)
        ends = [self.carrier(o, leaf.name) for o, leaf in zip(node.operands[:carried], body.inputs[1:], strict=False)]
        results = loop.results
        stacks = [fresh(r.name) for r in results[carried : carried + len(loop.stacks)]]
        sums = [fresh(r.name) for r in results[carried + len(stacks) :][: loop.sums]]
        begun = [self.kept(o) for o in node.operands[:carried]]
        self.lines += [f"{end} = {begin}" for end, begin in zip(ends, begun, strict=False) if end != begin]
        grown = [s.place == (1, 0) and s.size == loop.rounds and not loop.backward for s in loop.stacks]
        for name, grows, result in zip(stacks, grown, results[carried:], strict=False):
            self.lines.append(f"{name} = []" if grows else f"{name} = {self.filled(result.shape)}")
        for name, result in zip(sums, results[carried + len(stacks) :], strict=False):
            self.lines.append(f"{name} = {self.filled(result.shape)}")
        leaves = [Expression(writer.counted(k), ATOM, 1)]
        for text, place in zip(given, loop.places(), strict=True):
            at = "" if place is None else f"[{writer.place(place, k)}]"
            leaves.append(Expression(text + at, ATOM, 0 if place is None else 1))
        leaves[1 : carried + 1] = [Expression(end, ATOM, 0) for end in ends]
        inner = Block(writer, body, leaves)
        test = body.outputs[-1].value if loop.tested else -1
        for position in sorted(program_cone(body, (test,))) if loop.tested else ():
            inner.add(position)
        head, first = self.head(loop, k, inner, test)
        inside = self.rounds(loop, k, inner, ends, list(zip(stacks, grown, strict=True)), sums)
        self.lines += [*head, *(INDENT + line for line in [*first, *inside])]
        self.names.taken -= inner.local
        if loop.counted:
            writer.sizes[loop.counted] = k
        else:
            self.names.taken.discard(k)
        return [*ends, *stacks, *sums, *([writer.counted(k)] if loop.tested else [])]

    def carrier(self, begin: int, name: str) -> str:
        """The variable of a carried value: that of the value it begins with, where nothing else needs this."""
        text = self.made[begin].text
        given = self.program is self.writer.program and self.program.nodes[begin].op == "input"
        own = (given or self.owners.get(text) == begin) and text.isidentifier() and self.uses[begin] == 1
        return text if own else self.names.fresh(name)

    def head(self, loop: Any, k: str, inner: "Block", test: int) -> tuple[list[str], list[str]]:
        """The lines before a round's own, and those of its own that tell whether there is one."""
        if not loop.tested:
            count = f"range({self.writer.extent(loop.rounds)})"
            return [f"for {k} in {f'reversed({count})' if loop.backward else count}:"], []
        holds = inner.made[test]
        limit = "" if loop.limit is None else f"{k} < {self.writer.extent(loop.limit)}"
        if not inner.lines:
            both = f"{limit} and {holds.at(ATOM)}" if limit else bare_text(holds.text)
            return [f"{k} = 0", f"while {both}:"], []
        first, inner.lines = inner.lines, []
        return [f"{k} = 0", f"while {limit or 'True'}:"], [*first, f"if not {holds.at(ATOM)}:", f"{INDENT}break"]

    def rounds(
        self, loop: Any, k: str, inner: "Block", ends: list[str], stacks: list[tuple[str, bool]], sums: list[str]
    ) -> list[str]:
        """The rest of a round."""
        body = loop.body
        start = loop.carried + len(stacks)
        scattered: dict[int, str] = {}
        for name, output in zip(sums, body.outputs[start:], strict=False):
            node = body.nodes[output.value]
            if node.op == "scatter_at" and inner.uses[output.value] == 1 and not body.nodes[node.operands[1]].shape:
                scattered[output.value] = name
        for position in range(len(body.nodes)):
            if position not in scattered:
                inner.add(position)
        lines = inner.lines
        for value, name in scattered.items():
            cell, at = (inner.made[o] for o in body.nodes[value].operands)
            size = self.writer.extent(body.nodes[value].params["size"])
            row, inside = f"{name}[{_within(at.text, size)}]", body.nodes[value].shape[1:]
            added = self.cellwise("{0} + {1}", [row, cell.text], [inside] * 2) if inside else ""
            lines.append(f"{row} = {added}" if inside else f"{row} += {bare_text(cell.text)}")
        for (name, grows), stack, output in zip(stacks, loop.stacks, body.outputs[loop.carried :], strict=False):
            text = inner.output(output)
            lines.append(f"{name}.append({text})" if grows else f"{name}[{self.writer.place(stack.place, k)}] = {text}")
        for name, output in zip(sums, body.outputs[start:], strict=False):
            if output.value in scattered:
                continue
            text = inner.output(output)
            if not output.shape:
                lines.append(f"{name} += {text}")
            elif inner.is_whole(output):
                lines.append(f"{name} = {self.cellwise('{0} + {1}', [name, text], [output.shape] * 2)}")
            else:
                for value, places in zip(output.cells, itertools.product(*map(range, output.shape)), strict=True):
                    lines.append(f"{name}[{']['.join(map(str, places))}] += {bare_text(inner.made[value].text)}")
        pairs = [(end, inner.output(o)) for end, o in zip(ends, body.outputs, strict=False)]
        pairs = [(end, text) for end, text in pairs if end != text]
        if pairs:
            lines.append(f"{', '.join(e for e, _ in pairs)} = {', '.join(t for _, t in pairs)}")
        if loop.counted:
            lines.append(f"{k} += 1")
        return lines or ["pass"]

    def filled(self, shape: tuple[int, ...], value: str = "") -> str:
        """An array of one number, zero where none is given."""
        value = value or self.writer.zero
        if len(shape) > 1:
            return f"[{self.filled(shape[1:], value)} for _ in range({self.writer.extent(shape[0])})]"
        return f"[{value}]*{_grouped(self.writer.extent(shape[0]))}" if shape else value


def _cells(name: str, axis: int) -> str:
    return f"(len({name}[0]) if {name} else 0)" if axis else f"len({name})"


def _within(index: str, size: str) -> str:
    """A whole number as an index; the first or last for one out of bounds."""
    last = str(int(size) - 1) if size.isdecimal() else f"{size} - 1"
    return f"min(max(int({bare_text(index)}), 0), {last})"


def _grouped(text: str) -> str:
    return text if text.isidentifier() or text.isdecimal() else f"({text})"


def nested(shape: tuple[int, ...], cells: list[str]) -> str:
    """Cells in C order as lists of lists."""
    if not shape:
        return cells[0]
    width = len(cells) // shape[0] if shape[0] else 0
    return f"[{', '.join(nested(shape[1:], cells[k * width : (k + 1) * width]) for k in range(shape[0]))}]"


def beyond(what: str) -> BackendError:
    return BackendError(f"{what} in a program with loops: Python takes numbers and vectors there")

"""A large Program to LLVM IR in parts: functions of some hundred statements each, over values in a common workspace.

Assumes what `scalar` assumes. Guarantees the same operations in the same order as one function would have, that all inputs
are read before an output is written, and that compiling takes time linear in the Program's length, on a stack that does
not grow with it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from symdiff.codegen.llvm.calls import Calls
from symdiff.codegen.llvm.scalar import emit_instruction, emit_joint, kernel_frame, returning_checked
from symdiff.codegen.math.lines import Lines, Value
from symdiff.ir.node import Node
from symdiff.lowering.program import Program, is_leaf, zero_value_number
from symdiff.vocabulary.ops import bytes_of_code, is_complex
from symdiff.vocabulary.traits import operations

PART = 250  # statements of a part: with 500 compiling takes 1.5 times as long, with 1000 three times, for no faster code
_SLOW = operations("slow")


class Step(NamedTuple):
    """The computation of the value at a position, or, where `place` is not -1, its store into a cell of that output."""

    position: int
    place: int = -1
    cell: int = 0


def llvm_statement_count(program: Program) -> int:
    """About how many statements the machine code of a Program has."""
    stores = sum(len(o.cells) - o.cells.count(zero_value_number(program, o)) for o in program.outputs)
    return sum(map(_weight, program.nodes)) + stores


def _weight(node: Node) -> int:
    return 8 if is_complex(node.dtype) or node.op in _SLOW else 1


def in_parts(program: Program, name: str, together: int = 0) -> tuple[str, int]:
    """A function over pointers to inputs, outputs and a workspace, with its parts; and the bytes of the workspace.

    The workspace holds the pointers to the inputs, then all outputs, which are copied to their places at the end, then the
    values that one part leaves to others.
    """
    parts = list(_parts(program))
    layout = _Layout(program, parts)
    head = Lines(prefix="o", most=together)
    for place, output in enumerate(program.outputs):
        if zero_value_number(program, output) >= 0:
            head.clear_cells(head.put(f"getelementptr i8, ptr %work, i64 {layout.outputs[place]}"), output)
    texts = [_part(program, steps, layout, f"{name}.{k}", head) for k, steps in enumerate(parts)]
    opening, end = kernel_frame(program, name, ["ptr %work"])
    lines = [opening]
    for i in range(len(program.inputs)):
        lines += [f"  %p{i} = getelementptr ptr, ptr %work, i64 {i}", f"  store ptr %in{i}, ptr %p{i}"]
    lines += head.text
    known = max((k for k, steps in enumerate(parts) for step in steps if step.position in layout.checks), default=-1)
    for k in range(len(parts)):
        lines.append(f"  call void @{name}.{k}(ptr %work)")
        lines += _checked(layout) if k == known else []
    for k, output in enumerate(program.outputs):
        count = len(output.cells) * bytes_of_code(output.dtype)
        lines.append(f"  %made{k} = getelementptr i8, ptr %work, i64 {layout.outputs[k]}")
        lines.append(f"  call void @llvm.memcpy.p0.p0.i64(ptr %out{k}, ptr %made{k}, i64 {count}, i1 false)")
    head.declared["memcpy"] = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    declared = head.declared | head.used
    return "\n".join([*declared.values(), *texts, *lines, end, ""]), layout.size


def _checked(layout: "_Layout") -> list[str]:
    """The end of the function where a check holds."""
    lines = Lines(prefix="c")
    end = returning_checked(lines, [lines.put(f"getelementptr i8, ptr %work, i64 {o}") for o in layout.checks.values()])
    return [*lines.text, *end]


def _parts(program: Program) -> Iterator[list[Step]]:
    stores: dict[int, list[Step]] = {}
    for place, output in enumerate(program.outputs):
        zero = zero_value_number(program, output)
        for cell, value in enumerate(output.cells):
            if value != zero:
                stores.setdefault(value, []).append(Step(value, place, cell))
    part: list[Step] = []
    full = 0
    for position, node in enumerate(program.nodes):
        steps = stores.get(position, [])
        if not is_leaf(node):
            steps = [Step(position), *steps]
        for step in steps:
            part.append(step)
            full += _weight(node) if step.place < 0 else 1
            if full >= PART:
                yield part
                part, full = [], 0
    if part:
        yield part


class _Layout:
    """Where everything stands in the workspace: offsets in bytes of the outputs, and of the values that parts share.

    A value's memory is free again in the parts after the last one that reads it.
    """

    def __init__(self, program: Program, parts: list[list[Step]]) -> None:
        self.size = _rounded(8 * len(program.inputs))
        self.outputs: list[int] = []
        for output in program.outputs:
            self.outputs.append(self.size)
            self.size += _rounded(len(output.cells) * bytes_of_code(output.dtype))
        self.checks: dict[int, int] = {}
        for check in program.checks:
            self.checks[check] = self.size
            self.size += 8
        self.offsets: dict[int, int] = {}
        last: dict[int, int] = {}
        for k, steps in enumerate(parts):
            for position, place, _ in steps:
                for value in program.nodes[position].operands if place < 0 else (position,):
                    last[value] = k
        free: dict[int, list[int]] = {8: [], 16: []}
        ending: dict[int, list[tuple[int, int]]] = {}
        for k, steps in enumerate(parts):
            for position, place, _ in steps:
                if place < 0 and last.get(position, k) > k:
                    size = 16 if program.nodes[position].dtype == "D" else 8
                    self.offsets[position] = free[size].pop() if free[size] else self._more(size)
                    ending.setdefault(last[position], []).append((size, self.offsets[position]))
            for size, offset in ending.pop(k, ()):
                free[size].append(offset)

    def _more(self, size: int) -> int:
        self.size += size
        return self.size - size


def _rounded(size: int) -> int:
    return -(-size // 64) * 64  # lines of the cache


def _part(program: Program, steps: list[Step], layout: _Layout, name: str, whole: Lines) -> str:
    """The IR of one part; `whole` gathers what all of them declare and use."""
    lines = Lines(most=whole.most)
    calls = Calls(program, lines.most, [position for position, place, _ in steps if place < 0])
    nodes = program.nodes
    pointers: dict[int, str] = {}
    values: dict[int, Value] = {}

    def place_of(offset: int) -> str:
        return lines.put(f"getelementptr i8, ptr %work, i64 {offset}")

    def fetch(position: int) -> None:
        node = nodes[position]
        if node.op == "const":
            values[position] = emit_instruction(program, node, lines, values)
        elif node.op == "input":
            place, cell = node.params
            if place not in pointers:
                pointers[place] = lines.put(f"load ptr, ptr {place_of(8 * place)}")
            values[position] = lines.read(pointers[place], node.dtype, cell)
        else:
            values[position] = lines.read(place_of(layout.offsets[position]), node.dtype)

    def compute(position: int) -> None:
        for operand in calls.needed(position):
            if operand not in values:
                fetch(operand)
        for member, value in emit_joint(program, position, calls, lines, values).items():
            values[member] = value
            if member in layout.offsets:
                lines.write(place_of(layout.offsets[member]), value, nodes[member].dtype)
            if member in layout.checks:
                lines.write(place_of(layout.checks[member]), value, nodes[member].dtype)

    for position, place, cell in steps:
        node = nodes[position]
        if place < 0:
            for due in calls.before(position, values):
                compute(due)
            continue
        if position not in values:
            fetch(position)
        own = lines.converted(values[position], node.dtype, program.outputs[place].dtype)
        lines.write(place_of(layout.outputs[place]), own, program.outputs[place].dtype, cell)
    whole.declared.update(lines.declared)
    whole.used |= lines.used
    return "\n".join([f"define internal void @{name}(ptr %work) noinline nounwind {{", *lines.text, "  ret void", "}"])

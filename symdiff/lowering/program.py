"""The Program: a flat list of scalar instructions in static single assignment, without any SymPy object.

Assumes operations of `ops.OPS`. Guarantees (checked by `check_program`): operands come before their users, no two
instructions have the same operation and operands, every instruction is used or an output, inputs and constants are
instructions without operands. Refuses, with `InvariantError`, a list that breaks this.
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from symdiff.errors import InvariantError
from symdiff.vocabulary.ops import OPS, check_cast

Number = bool | int | float | complex
CLEARED = 16  # cells of zeros from which on an output is cleared before the others are written


class Instr(NamedTuple):
    """`op` applied to earlier instructions, by their positions.

    `dtype` is one of "?", "f", "d", "F", "D". `payload` is the number of a "const" and the pair (input position, flat
    cell in C order) of an "input". `primal` tells that the user wrote this operation, so that its sums keep their order.
    """

    op: str
    operands: tuple[int, ...]
    dtype: str
    payload: Any = None
    primal: bool = False


@dataclass(frozen=True, slots=True)
class Input:
    """An argument leaf: its Python name, shape and dtype code."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Output:
    """A result: its Python name, shape and dtype code, and the value number of each cell in C order."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    cells: tuple[int, ...]


@dataclass(slots=True)
class Program:
    """Inputs, instructions, outputs. `origins[i]` is the user's "file.py:line" of instruction i, "" where there is none.

    `checks` are truth values, in order: where one holds, the function has no result for the arguments.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    instrs: list[Instr]
    origins: list[str] = field(default_factory=list)
    operations_before: int | None = None
    checks: tuple[int, ...] = ()

    @property
    def leaves(self) -> list[Input | Output]:
        """The inputs, then the outputs."""
        return [*self.inputs, *self.outputs]

    def operations(self) -> int:
        """The number of operations: + - * / negation, comparison, select or function call, one each."""
        return sum(OPS[instr.op].cost for instr in self.instrs)

    def by_kind(self) -> dict[str, int]:
        """How often each operation occurs, most frequent first."""
        counts: dict[str, int] = {}
        for instr in self.instrs:
            if OPS[instr.op].cost:
                counts[instr.op] = counts.get(instr.op, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def __str__(self) -> str:
        return print_program(self)


def constant_key(value: Number) -> tuple[object, ...]:
    """A key under which two constants are equal exactly when their type and bits are (so 0.0 and -0.0 differ)."""
    if isinstance(value, complex):
        return (complex, value.real, math.copysign(1.0, value.real), value.imag, math.copysign(1.0, value.imag))
    if isinstance(value, float):
        return (float, "nan" if value != value else value, math.copysign(1.0, value))
    return (type(value), value)


def content_of(program: Program) -> tuple[object, ...]:
    """A key under which two programs are equal exactly when they differ in the names of their inputs at most."""
    instrs = [(i._replace(payload=None), constant_key(i.payload)) if i.op == "const" else i for i in program.instrs]
    kinds = tuple((i.shape, i.dtype) for i in program.inputs)
    return program.name, kinds, program.outputs, tuple(instrs), tuple(program.origins)


def uses_of(program: Program) -> list[int]:
    """How often each value is read, by instructions and outputs."""
    uses = [0] * len(program.instrs)
    for instr in program.instrs:
        for operand in instr.operands:
            uses[operand] += 1
    for output in program.outputs:
        for cell in output.cells:
            uses[cell] += 1
    return uses


def cone_of(program: Program, values: tuple[int, ...]) -> set[int]:
    """The positions of what some values are computed from, their own included."""
    found = set(values)
    for position in range(max(values, default=-1), -1, -1):
        if position in found:
            found.update(program.instrs[position].operands)
    return found


def with_checks(program: Program, count: int) -> Program:
    """The program whose first outputs are its checks."""
    checks = tuple(o.cells[0] for o in program.outputs[:count])
    return replace(program, outputs=program.outputs[count:], checks=checks)


def in_two(program: Program) -> tuple[Program, Program]:
    """What the checks are computed from, and the rest. What the rest needs of it are outputs of the first program, and inputs
    of the second after its own.
    """
    cone = cone_of(program, program.checks)
    needed = {o for p, i in enumerate(program.instrs) if p not in cone for o in i.operands} | {
        c for o in program.outputs for c in o.cells
    }
    carried = [p for p in sorted(cone & needed) if program.instrs[p].op not in ("input", "const")]
    kinds = [program.instrs[p].dtype for p in carried]
    outputs = tuple(Output(f"v{k}", (), code, (p,)) for k, (p, code) in enumerate(zip(carried, kinds, strict=True)))
    first = live_only(replace(program, outputs=outputs))
    inputs = (*program.inputs, *(Input(o.name, (), o.dtype) for o in outputs))
    instrs = list(program.instrs)
    for k, position in enumerate(carried):
        instrs[position] = Instr("input", (), program.instrs[position].dtype, (len(program.inputs) + k, 0))
    return first, live_only(replace(program, inputs=inputs, instrs=instrs, checks=()))


def zero_of(program: Program, output: Output) -> int:
    """The value number of the zero that fills many cells of an output, -1 where there is none: they are cleared at once."""
    for value, count in Counter(output.cells).items():
        instr = program.instrs[value]
        if count >= CLEARED and instr.op == "const" and constant_key(complex(instr.payload)) == constant_key(0j):
            return value
    return -1


def live_only(program: Program) -> Program:
    """The program without the instructions that no output needs; positions are renumbered, order is kept."""
    instrs = program.instrs
    live = bytearray(len(instrs))
    for cell in (*program.checks, *(c for o in program.outputs for c in o.cells)):
        live[cell] = 1
    for position in range(len(instrs) - 1, -1, -1):
        if live[position]:
            for operand in instrs[position].operands:
                live[operand] = 1
    if all(live):
        return program
    renumbered = [-1] * len(instrs)
    kept: list[Instr] = []
    origins: list[str] = []
    for position, instr in enumerate(instrs):
        if live[position]:
            renumbered[position] = len(kept)
            kept.append(Instr(instr.op, tuple([renumbered[o] for o in instr.operands]), *instr[2:]))
            if program.origins:
                origins.append(program.origins[position])
    outputs = tuple(Output(o.name, o.shape, o.dtype, tuple(renumbered[c] for c in o.cells)) for o in program.outputs)
    checks = tuple(renumbered[c] for c in program.checks)
    return Program(program.name, program.inputs, outputs, kept, origins, program.operations_before, checks)


def check_program(program: Program) -> None:
    """Raise `InvariantError` where the program breaks its invariant."""
    seen: dict[tuple[object, ...], int] = {}
    used = bytearray(len(program.instrs))
    for position, instr in enumerate(program.instrs):
        op = OPS.get(instr.op)
        if op is None or op.arity not in (-1, len(instr.operands)):
            raise InvariantError(f"instruction {position}: {instr.op} with {len(instr.operands)} operands")
        if instr.dtype not in ("?", "f", "d", "F", "D"):
            raise InvariantError(f"instruction {position}: dtype {instr.dtype!r}")
        for operand in instr.operands:
            if not 0 <= operand < position:
                raise InvariantError(f"instruction {position} uses {operand}, which does not come before it")
            used[operand] = 1
        if op.result == "same" and instr.op != "call":
            for operand in instr.operands[1:] if instr.op == "select" else instr.operands:
                check_cast(program.instrs[operand].dtype, instr.dtype)
        payload = constant_key(instr.payload) if instr.op == "const" else instr.payload
        key = (instr.op, instr.operands, instr.dtype, payload)
        if key in seen:
            raise InvariantError(f"instructions {seen[key]} and {position} are the same: {instr}")
        seen[key] = position
    for output in program.outputs:
        if len(output.cells) != math.prod(output.shape):
            raise InvariantError(f"output {output.name}: {len(output.cells)} cells for shape {output.shape}")
        for cell in output.cells:
            check_cast(program.instrs[cell].dtype, output.dtype)
            used[cell] = 1
    for check in program.checks:
        used[check] = 1
    unused = [p for p, u in enumerate(used) if not u]
    if unused:
        raise InvariantError(f"unused instructions: {unused[:5]}")
    if program.origins and len(program.origins) != len(program.instrs):
        raise InvariantError("origins and instructions differ in length")


def print_program(program: Program) -> str:
    """The program as text: a headline, then one instruction a line with the place in the user's file."""
    names = _names(program)
    before = "" if program.operations_before is None else f", {program.operations_before} before sharing"
    signature = ", ".join(f"{i.name}: {_typed(i)}" for i in program.inputs)
    results = ", ".join(o.name for o in program.outputs)
    lines = [f"{program.name}({signature}) -> {results}{' ' * 10}{program.operations()} ops{before}"]
    ends: dict[int, list[str]] = {}
    for output in program.outputs:
        for index, cell in enumerate(output.cells):
            ends.setdefault(cell, []).append(output.name if output.shape == () else f"{output.name}[{index}]")
    for position, instr in enumerate(program.instrs):
        if instr.op in ("input", "const"):
            continue
        text = f"  {names[position]} = {instr.op} {' '.join(names[o] for o in instr.operands)}"
        place = program.origins[position] if program.origins else ""
        result = f"= {', '.join(ends[position])}" if position in ends else ""
        lines.append(f"{text:<36}{place:<20}{result}".rstrip())
    return "\n".join(lines)


def _typed(leaf: Input) -> str:
    kind = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128"}[leaf.dtype]
    return kind + (f"[{', '.join(map(str, leaf.shape))}]" if leaf.shape else "")


def _names(program: Program) -> list[str]:
    names = []
    count = 0
    for instr in program.instrs:
        if instr.op == "input":
            position, cell = instr.payload
            leaf = program.inputs[position]
            names.append(leaf.name if leaf.shape == () else f"{leaf.name}[{cell}]")
        elif instr.op == "const":
            names.append(repr(instr.payload))
        else:
            names.append(f"v{count}")
            count += 1
    return names

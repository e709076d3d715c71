"""The ArrayProgram: a flat list of operations on whole arrays in static single assignment, without any SymPy object.

Assumes operations of `ops.OPS` (cell by cell) and of `heads.HEADS`. Guarantees (checked by `check_array_program`): operands
come before their users, no two steps are the same operation on the same operands, every step has a static shape. Refuses,
with `InvariantError`, a list that breaks this.
"""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from symdiff.errors import InvariantError
from symdiff.lowering.program import Input
from symdiff.vocabulary.heads import HEADS, slices_text
from symdiff.vocabulary.ops import OPS

Shape = tuple[int, ...]
ASSEMBLE = "assemble"  # zeros to which parts are added, each in its own region


class Step(NamedTuple):
    """`op` applied to earlier steps, by their positions.

    `params` are the static parameters of a head, the number or array of a "const", the position of an "input", the
    function of a "call", and the regions of an "assemble". `primal` tells that the user wrote the operation.
    """

    op: str
    operands: tuple[int, ...]
    shape: Shape
    dtype: str
    params: Any = None
    primal: bool = False


@dataclass(frozen=True, slots=True)
class ArrayOutput:
    """A result: its Python name, shape and dtype code, and the step that holds it."""

    name: str
    shape: Shape
    dtype: str
    value: int


@dataclass(slots=True)
class ArrayProgram:
    """Inputs, steps, outputs. `origins[i]` is the user's "file.py:line" of step i, "" where there is none.

    `checks` are truth values, in order: where one holds (in any of its cells), the function has no result for the arguments.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[ArrayOutput, ...]
    steps: list[Step]
    origins: list[str] = field(default_factory=list)
    checks: tuple[int, ...] = ()

    def __str__(self) -> str:
        return print_array_program(self)


def is_elementwise(step: Step) -> bool:
    """Whether a step works cell by cell."""
    return step.op in OPS and step.op not in ("input", "const")


def is_view(step: Step) -> bool:
    """Whether a step only looks at the cells of its operand in another way."""
    return step.op in HEADS and HEADS[step.op].view


def size(shape: Shape) -> int:
    """The number of cells."""
    return math.prod(shape)


def steps_of(program: ArrayProgram, values: tuple[int, ...]) -> set[int]:
    """The steps that some values are computed from, their own included."""
    found = set(values)
    for position in range(max(values, default=-1), -1, -1):
        if position in found:
            found.update(program.steps[position].operands)
    return found


def live_steps(program: ArrayProgram) -> ArrayProgram:
    """The program without the steps that no output needs."""
    live = bytearray(len(program.steps))
    for output in program.outputs:
        live[output.value] = 1
    for position in range(len(program.steps) - 1, -1, -1):
        if live[position]:
            for operand in program.steps[position].operands:
                live[operand] = 1
    renumbered = [-1] * len(program.steps)
    steps: list[Step] = []
    origins: list[str] = []
    for position, step in enumerate(program.steps):
        if live[position]:
            renumbered[position] = len(steps)
            steps.append(step._replace(operands=tuple(renumbered[o] for o in step.operands)))
            origins.append(program.origins[position])
    outputs = tuple(ArrayOutput(o.name, o.shape, o.dtype, renumbered[o.value]) for o in program.outputs)
    return ArrayProgram(program.name, program.inputs, outputs, steps, origins)


def check_array_program(program: ArrayProgram) -> None:
    """Raise `InvariantError` where the program breaks its invariant."""
    for position, step in enumerate(program.steps):
        if step.op not in OPS and step.op not in HEADS and step.op != ASSEMBLE:
            raise InvariantError(f"step {position}: unknown operation {step.op}")
        for operand in step.operands:
            if not 0 <= operand < position:
                raise InvariantError(f"step {position} uses {operand}, which does not come before it")
        if any(n < 0 for n in step.shape):
            raise InvariantError(f"step {position}: shape {step.shape}")
    for output in program.outputs:
        step = program.steps[output.value]
        if step.shape != output.shape or step.dtype != output.dtype:
            raise InvariantError(f"output {output.name}: {step.dtype}{step.shape} for {output.dtype}{output.shape}")


def print_array_program(program: ArrayProgram) -> str:
    """The program as text: a headline, then one step a line with the place in the user's file."""
    results: dict[int, list[str]] = {}
    for output in program.outputs:
        results.setdefault(output.value, []).append(output.name)
    names = [_name(program, i) for i in range(len(program.steps))]
    signature = ", ".join(f"{i.name}: {_typed(i.dtype, i.shape)}" for i in program.inputs)
    lines = [f"{program.name}({signature}) -> {', '.join(o.name for o in program.outputs)}"]
    for position, step in enumerate(program.steps):
        if step.op in ("input", "const"):
            continue
        text = f"  {names[position]} = {step.op} {' '.join(names[o] for o in step.operands)}"
        if step.op in HEADS:
            text += "".join(f" {k}={_shown(k, v)}" for k, v in step.params.items())
        end = f"= {', '.join(results[position])}" if position in results else ""
        lines.append(f"{text:<48} {_typed(step.dtype, step.shape):<14} {program.origins[position]:<20}{end}".rstrip())
    return "\n".join(lines)


def _name(program: ArrayProgram, position: int) -> str:
    step = program.steps[position]
    if step.op == "input":
        return str(program.inputs[step.params].name)
    if step.op == "const":
        return repr(step.params) if step.shape == () else f"array{list(step.shape)}"
    return f"v{position}"


def _shown(key: str, value: Any) -> str:
    if key == "key":
        return f"[{slices_text(value)}]"
    return f"int{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value).replace(" ", "")


def _typed(code: str, shape: Shape) -> str:
    kind = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128", "l": "int"}[code]
    return kind + (f"[{', '.join(map(str, shape))}]" if shape else "")

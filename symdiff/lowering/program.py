"""The Program: a flat list of nodes in static single assignment, on numbers or on whole arrays, without any SymPy object.

Assumes operations of `ops.OPS`, on whole arrays also heads of `heads.HEADS` and `ASSEMBLE`. Operands are positions of earlier
nodes. The `params` of an "input" are its position and the flat cell in C order, None for a whole array; those of a "const" its
number or array, of a "call" the function, of a head its static parameters. Nodes of a program are never changed.
"""

import functools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symdiff.ir.node import Node, Number
from symdiff.vocabulary.extents import Amount, Extent, counted, extents_in
from symdiff.vocabulary.heads import HEADS, Shape, head_parameter
from symdiff.vocabulary.literals import stem_of_steps
from symdiff.vocabulary.ops import OPS, is_complex

ASSEMBLE = "assemble"  # zeros to which parts are added, each in its own region
_PLACES = np.dtype(np.intp).char
CLEARED = 16  # cells of zeros from which on an output is cleared before the others are written


@dataclass(frozen=True, slots=True)
class Input:
    """An argument leaf: its Python name, shape and dtype code."""

    name: str
    shape: Shape
    dtype: str


@dataclass(frozen=True, slots=True)
class Output:
    """A result: its Python name, shape and dtype code, and the value number of each cell in C order, or of the whole array."""

    name: str
    shape: Shape
    dtype: str
    cells: tuple[int, ...]

    @property
    def value(self) -> int:
        """The value that is the whole result."""
        return self.cells[0]


@dataclass(slots=True)
class Program:
    """Inputs, nodes, outputs. `checks` are truth values, in order: where one holds (in any of its cells), the function has no
    result for the arguments.
    """

    name: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    nodes: list[Node]
    operations_before: int | None = None
    checks: tuple[int, ...] = ()

    @property
    def leaves(self) -> list[Input | Output]:
        """The inputs, then the outputs."""
        return [*self.inputs, *self.outputs]

    @property
    def results(self) -> list[int]:
        """The values of checks and outputs."""
        return [*self.checks, *(cell for output in self.outputs for cell in output.cells)]

    def over(self, nodes: list[Node], place: Sequence[int] | Mapping[int, int]) -> "Program":
        """The program of other nodes, in which value i is value `place[i]`."""
        outputs = tuple(Output(o.name, o.shape, o.dtype, tuple([place[c] for c in o.cells])) for o in self.outputs)
        checks = tuple(place[c] for c in self.checks)
        return Program(self.name, self.inputs, outputs, nodes, self.operations_before, checks)

    def operations(self) -> int:
        """The number of operations on numbers: + - * / negation, comparison, select or function call, one each."""
        loops = sum([node.params.operations() for node in self.nodes if node.op == "loop"])
        return sum([array_operations(self, node) for node in self.nodes], loops)  # type: ignore[no-any-return]

    def by_kind(self) -> dict[str, Any]:
        """How often each operation occurs, most frequent first."""
        counts: dict[str, Any] = dict(Counter(node.op for node in self.nodes if node.op in OPS and OPS[node.op].cost))
        for loop in (node.params for node in self.nodes if node.op == "loop"):
            for kind, count in loop.body.by_kind().items():
                counts[kind] = counts.get(kind, 0) + counted(count, loop.rounds)
        return dict(sorted(sorted(counts.items()), key=lambda item: item[1], reverse=True))

    def __str__(self) -> str:
        return program_listing(self)


def with_places_as_numbers(program: Program) -> Program:
    """The program in which places among rows are whole numbers of float64; in loops, too."""

    def code(dtype: str) -> str:
        return "d" if dtype == _PLACES else dtype

    def made(node: Node) -> Node:
        params = replace(node.params, body=with_places_as_numbers(node.params.body)) if node.op == "loop" else node.params
        return Node(node.op, node.operands, node.shape, code(node.dtype), params, node.origin, node.primal, node.name)

    if not _has_places(program):
        return program
    inputs = tuple(Input(leaf.name, leaf.shape, code(leaf.dtype)) for leaf in program.inputs)
    outputs = tuple(Output(o.name, o.shape, code(o.dtype), o.cells) for o in program.outputs)
    return replace(program, inputs=inputs, outputs=outputs, nodes=[*map(made, program.nodes)])


def _has_places(program: Program) -> bool:
    return any(n.dtype == _PLACES or (n.op == "loop" and _has_places(n.params.body)) for n in program.nodes)


@functools.cache
def cell_program(op: str, codes: tuple[str, ...], dtype: str) -> Program:
    """The program of one operation on numbers of some dtypes, its value the last node; of the number itself for ""."""
    nodes = [Node("input", (), (), code, (k, 0)) for k, code in enumerate(codes)]
    nodes += [Node(op, tuple(range(len(codes))), (), dtype)] if op else []
    inputs = tuple(Input(f"x{k}", (), code) for k, code in enumerate(codes))
    return Program(op, inputs, (Output("y", (), dtype, (len(nodes) - 1,)),), nodes)


def array_operations(program: Program, node: Node) -> Any:
    """The operations on numbers that one on whole arrays is."""
    if node.op in HEADS:
        shapes = [tuple(Amount.of(n) if isinstance(n, Extent) else n for n in program.nodes[o].shape) for o in node.operands]
        return HEADS[node.op].cost(*shapes, **node.params)
    cost: Any = OPS[node.op].cost if node.op in OPS else 0
    for n in node.shape if node.op in OPS else ():
        cost = counted(cost, n)
    return cost


def is_leaf(node: Node) -> bool:
    """Whether a node computes nothing."""
    return node.op == "input" or node.op == "const"


def is_elementwise_step(node: Node) -> bool:
    """Whether a node works cell by cell."""
    return node.op in OPS and not is_leaf(node)


def is_view_step(node: Node) -> bool:
    """Whether a node only looks at the cells of its operand in another way."""
    return node.op in HEADS and HEADS[node.op].view


def is_nest(program: Program) -> bool:
    """Whether a program has whole arrays, loops or sizes that a call tells, which are loops in text."""
    return any(n.shape or n.op == "loop" for n in program.nodes) or any(
        True for i in program.inputs for _ in extents_in(i.shape)
    )


def takes_complex(program: Program, node: Node) -> bool:
    """Whether an operand is complex."""
    return any(is_complex(program.nodes[o].dtype) for o in node.operands)


def domain_size(shape: Shape) -> int:
    """The number of cells."""
    return math.prod(shape)


def numbering_key(value: Number) -> tuple[object, ...]:
    """A key under which two constants are equal exactly when their type and bits are (so 0.0 and -0.0 differ)."""
    if isinstance(value, complex):
        return (complex, value.real, math.copysign(1.0, value.real), value.imag, math.copysign(1.0, value.imag))
    if isinstance(value, float):
        return (float, "nan" if value != value else value, math.copysign(1.0, value))
    return (type(value), value)


def static_key(op: str, params: Any) -> Any:
    """A key under which the parameters of two nodes are equal exactly when they are the same."""
    if isinstance(params, np.ndarray):
        return (params.shape, params.tobytes())
    if isinstance(params, dict):
        return tuple([(k, v.tobytes() if isinstance(v, np.ndarray) else v) for k, v in params.items()])
    return numbering_key(params) if op == "const" else params


def key_of(node: Node) -> tuple[Any, ...]:
    """A key under which two nodes are equal exactly when they are the same operation on the same operands."""
    return (node.op, node.operands, node.shape, node.dtype, static_key(node.op, node.params))


def program_content(program: Program) -> tuple[object, ...]:
    """A key under which two programs are equal exactly when they differ in the names of their inputs at most."""
    nodes = tuple([(key_of(node), node.primal, node.origin) for node in program.nodes])
    return program.name, tuple((i.shape, i.dtype) for i in program.inputs), program.outputs, nodes


def with_checks(program: Program, count: int) -> Program:
    """The program whose first outputs are its checks."""
    checks = tuple(o.cells[0] for o in program.outputs[:count])
    return replace(program, outputs=program.outputs[count:], checks=checks)


def zero_value_number(program: Program, output: Output) -> int:
    """The value number of the zero that fills many cells of an output, -1 where there is none: they are cleared at once."""
    for value, count in Counter(output.cells).items():
        node = program.nodes[value]
        if count >= CLEARED and node.op == "const" and numbering_key(complex(node.params)) == numbering_key(0j):
            return value
    return -1


def program_listing(program: Program) -> str:
    """The program as text: a headline, then one node a line with the place in the user's file.

    Programs of whole arrays tell the shapes of their values, those of numbers how many operations they take.
    """
    whole = any(node.op not in OPS or node.shape for node in program.nodes)
    names = _names(program, whole)
    ends: dict[int, list[str]] = {}
    for output in program.outputs:
        for index, cell in enumerate(output.cells):
            ends.setdefault(cell, []).append(output.name if whole or not output.shape else f"{output.name}[{index}]")
    signature = ", ".join(f"{i.name}: {_typed(i)}" for i in program.inputs)
    lines = [f"{program.name}({signature}) -> {', '.join(o.name for o in program.outputs)}"]
    if not whole:
        before = "" if program.operations_before is None else f", {program.operations_before} before sharing"
        lines[0] += f"{' ' * 10}{program.operations()} ops{before}"
    for position, node in enumerate(program.nodes):
        if is_leaf(node):
            continue
        inside = [names[o] for o in node.operands]
        text = f"  {names[position]} = {node.op} {' '.join(inside)}"
        if node.op == "loop":
            text = f"  {names[position]} = loop {node.params.told(inside)}"
        elif node.op == "part":
            text = f"  {names[position]} = {inside[0]}.{program.nodes[node.operands[0]].params.results[node.params].name}"
        elif node.op == "size":
            text = f"  {names[position]} = {node.params}"
        if node.op in HEADS:
            text += "".join(f" {key}={_shown(key, value)}" for key, value in node.params.items())
        columns = f"{text:<48} {_typed(node):<14} " if whole else f"{text:<36}"
        result = f"= {', '.join(ends[position])}" if position in ends else ""
        lines.append(f"{columns}{node.origin:<20}{result}".rstrip())
        if node.op == "loop":
            lines += [f"    {line}" for line in program_listing(node.params.body).splitlines()[1:]]
            lines.append(f"      {node.params.end(_results(node.params.body))}")
    return "\n".join(lines)


def _typed(leaf: Input | Node) -> str:
    kind = {"?": "bool", "f": "f32", "d": "f64", "F": "c64", "D": "c128", "l": "int", "*": ""}[leaf.dtype]
    return kind + (f"[{', '.join(map(str, leaf.shape))}]" if leaf.shape else "")


def _shown(key: str, value: Any) -> str:
    return str(head_parameter(key, value)) if key == "key" or isinstance(value, np.ndarray) else repr(value).replace(" ", "")


def _results(body: Program) -> list[str]:
    """The names of a loop's outputs, cell by cell where they have some."""
    names = _names(body, any(node.op not in OPS or node.shape for node in body.nodes))
    cells = [[names[c] for c in output.cells] for output in body.outputs]
    return [own[0] if len(own) == 1 else f"[{', '.join(own)}]" for own in cells]


def _names(program: Program, whole: bool) -> list[str]:
    """The names of values; those of arrays tell their positions, by which plans speak of them."""
    names: list[str] = []
    count = 0
    stem = stem_of_steps([leaf.name for leaf in program.inputs])
    for position, node in enumerate(program.nodes):
        if node.op == "input":
            place, cell = node.params
            leaf = program.inputs[place]
            names.append(f"{leaf.name}[{cell}]" if leaf.shape and cell is not None else leaf.name)
        elif node.op == "const":
            names.append(f"array{list(node.shape)}" if node.shape else repr(node.params))
        else:
            names.append(f"{stem}{position if whole else count}")
            count += 1
    return names

"""The ArrayPlan: tasks with an array for every value that is stored.

Assumes tasks in an order that respects their operands. Guarantees (checked by `check_array_plan`) that no array is
overwritten while its value is still needed, and that everything but the outputs lives in arrays that are made once.
Refuses, with `InvariantError`, plans that break this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from symdiff.errors import InvariantError
from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Call, Clear, Fused, Kernel, Task
from symdiff.lowering.arrays.nesting import Nest
from symdiff.lowering.plan import check_places
from symdiff.lowering.program import ASSEMBLE, Program, domain_size, is_leaf, is_view_step
from symdiff.lowering.scheduling import Schedule
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.ops import bytes_of_code
from symdiff.vocabulary.traits import operations

BLOCK = 8192  # cells of a block: a few arrays of them stay in the second cache
FILLED = operations("fills") | {ASSEMBLE}  # heads that fill an array given to them


@dataclass(slots=True)
class Loop:
    """How a kernel goes over its domain: `axis` None for all at once, -1 for a flat view, else the axis that is cut.

    `rows` are the cells of that axis in a block, `cells` all cells of a block, `blocks` their number.
    """

    axis: int | None
    rows: int
    cells: int
    blocks: int


@dataclass(slots=True)
class ArrayPlan:
    """A fused program with a place for every stored value.

    `places[v]` is ("output", k), ("work", slot), "fresh" for what NumPy itself allocates, or "number" for 0-d values.
    `slots` are the work arrays as (dtype code, cells); `scratch` the blocks of kernels as dtype code to (rows, cells),
    `partial` likewise the sums of blocks.
    `kernels[i]` holds loop and Schedule of the task i, or `nests[i]` its loops as machine code.
    """

    fused: Fused
    kind: str = "arrays"
    places: dict[int, tuple[str, int]] = field(default_factory=dict)
    slots: list[tuple[str, int]] = field(default_factory=list)
    scratch: dict[str, tuple[int, int]] = field(default_factory=dict)
    partial: dict[str, tuple[int, int]] = field(default_factory=dict)
    kernels: dict[int, tuple[Loop, Schedule]] = field(default_factory=dict)
    nests: Mapping[int, Nest] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The program that is planned."""
        return self.fused.program

    def work_bytes(self) -> int:
        """Bytes of all arrays that a thread keeps for intermediate values."""
        stored = sum(bytes_of_code(code) * cells for code, cells in self.slots)
        blocks = [*self.scratch.items(), *self.partial.items()]
        return stored + sum(bytes_of_code(code) * rows * cells for code, (rows, cells) in blocks)

    def output_bytes(self) -> int:
        """Bytes of the results."""
        return sum(bytes_of_code(o.dtype) * domain_size(o.shape) for o in self.program.outputs)

    def __str__(self) -> str:
        lines = [f"{self.program.name}: {len(self.fused.tasks)} tasks, {self.work_bytes()} bytes of work arrays"]
        for task in self.fused.tasks:
            if isinstance(task, Kernel):
                kinds = ", ".join(f"{s.kind} v{s.value}" for s in task.sinks)
                lines.append(f"  kernel over {list(task.domain)}: {task.program.operations()} ops, {kinds}")
            else:
                node = self.program.nodes[task.value]
                what = "clear" if isinstance(task, Clear) else node.op
                lines.append(f"  {what} v{task.value} in {self.places.get(task.value)}")
        return "\n".join(lines)


def base_step(nodes: list[Node], value: int) -> int:
    """The node whose array a view looks at."""
    while is_view_step(nodes[value]):
        value = nodes[value].operands[0]
    return value


def reads(nodes: list[Node], task: Task) -> list[int]:
    """The stored values that a task reads."""
    if isinstance(task, Kernel):
        found = [*task.operands, *(s.value for s in task.sinks if s.kind in ("add", "put"))]
    elif isinstance(task, Call) and nodes[task.value].op == ASSEMBLE:
        found = [task.value, *(v for v, _ in task.pending)]
    else:
        found = list(nodes[task.value].operands) if isinstance(task, Call) else []
    return [base_step(nodes, v) for v in found]


def writes(nodes: list[Node], task: Task) -> list[int]:
    """The values that a task makes."""
    if isinstance(task, Kernel):
        return [s.value for s in task.sinks if s.kind not in ("add", "put")]
    if isinstance(task, Clear):
        return [task.value]
    return [] if nodes[task.value].op == ASSEMBLE else [task.value]


def is_planned(node: Node) -> bool:
    """Whether the result of a structural node is written into an array that is given."""
    return node.op in FILLED or (node.op in HEADS and HEADS[node.op].out)


def written_directly(kernel: Kernel) -> list[bool]:
    """Which sinks are filled by the node itself: a region that others are added to holds no value to read later."""
    cells = [o.cells[0] for o in kernel.program.outputs]
    return [s.kind == "store" or (s.kind == "put" and cells.count(c) == 1) for s, c in zip(kernel.sinks, cells, strict=True)]


def full_kernel_values(nodes: list[Node], kernel: Kernel, loop: Loop) -> list[bool]:
    """Which values of a kernel can be factors of a dot product: blocks with one axis and the cells of the domain."""
    flat = loop.axis == -1 or len(kernel.domain) == 1
    return [
        flat and node.op != "const" and (node.op != "input" or nodes[kernel.operands[node.params[0]]].shape == kernel.domain)
        for node in kernel.program.nodes
    ]


def last_reads(plan: ArrayPlan) -> dict[int, int]:
    """The last task that reads each stored value; the number of tasks for what outputs hold."""
    nodes = plan.program.nodes
    last: dict[int, int] = {}
    for index, task in enumerate(plan.fused.tasks):
        for value in [*reads(nodes, task), *writes(nodes, task)]:
            last[value] = index
    for check in plan.program.checks:
        base = base_step(nodes, check)
        last[base] = max(last.get(base, 0), plan.fused.checked)
    for output in plan.program.outputs:
        last[base_step(nodes, output.value)] = len(plan.fused.tasks)
    return last


def check_array_plan(plan: ArrayPlan) -> None:
    """Raise `InvariantError` where a value's array is read before it is written, or overwritten while it is needed."""
    nodes = plan.program.nodes
    for _, inner in plan.kernels.values():
        inner.check()
    written = {k for k, node in enumerate(nodes) if is_leaf(node)}
    for task in plan.fused.tasks:
        unwritten = [v for v in reads(nodes, task) if v not in written]
        if unwritten:
            raise InvariantError(f"v{unwritten[0]} is read before it is written")
        written.update(writes(nodes, task))
    made = [(k, v, plan.places.get(v, ("", 0))) for k, task in enumerate(plan.fused.tasks) for v in writes(nodes, task)]
    check_places((write for write in made if write[2][0] in ("work", "output")), last_reads(plan))
    early = {v for task in plan.fused.tasks[: plan.fused.checked] for v in writes(nodes, task)}
    if any(plan.places.get(v, ("", 0))[0] == "output" for v in early):
        raise InvariantError("a result is written before the checks are known")
    for output in plan.program.outputs:
        if (
            np.prod(output.shape, dtype=int)
            and base_step(nodes, output.value) not in {v for t in plan.fused.tasks for v in writes(nodes, t)}
            and not is_leaf(nodes[base_step(nodes, output.value)])
        ):
            raise InvariantError(f"output {output.name} is never written")

"""Fused tasks to ArrayPlan: which stored value lives in which array, by liveness, and how kernels cut their domains.

Assumes tasks in order. Guarantees that an array is used again once its value is dead, in place where a kernel reads and
writes cell by cell, and that results are computed in the outputs themselves.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from symdiff.ir.node import Node
from symdiff.lowering.arrays.fusing import Fused, Kernel, Task
from symdiff.lowering.arrays.nesting import Nest
from symdiff.lowering.arrays.plan import (
    BLOCK,
    ArrayPlan,
    Loop,
    base_step,
    full_kernel_values,
    is_planned,
    last_reads,
    reads,
    writes,
    written_directly,
)
from symdiff.lowering.arrays.summing import terms_of
from symdiff.lowering.program import domain_size, is_leaf
from symdiff.lowering.scheduling import NOT_IN_PLACE, Schedule, schedule
from symdiff.lowering.walks import last_uses
from symdiff.vocabulary.extents import Example, equal_counts, larger
from symdiff.vocabulary.heads import HEADS
from symdiff.vocabulary.traits import operations

OVERWRITING = operations("overwrites")


def plan_arrays(fused: Fused, nests: Mapping[int, Nest] | None = None) -> ArrayPlan:
    """The plan of fused tasks; kernels that have `nests` run as machine code."""
    plan = ArrayPlan(fused, nests=nests or {})
    _outputs(plan)
    nodes = plan.program.nodes
    lives = _Lives(plan)
    last = lives.last
    free = _Free(plan)
    for index, task in enumerate(fused.tasks):
        if isinstance(task, Kernel) and task.domain != () and index not in plan.nests:
            loop = _loop(plan, task)
            inner = schedule(task.program, written_directly(task))
            plan.kernels[index] = (loop, inner)
            for code, rows in inner.work.items():
                old = plan.scratch.get(code, (0, 0))
                plan.scratch[code] = (max(old[0], rows), larger(old[1], loop.cells))
            if loop.axis is not None:
                _sums(plan, task, loop, inner)
        for value in writes(nodes, task):
            if value not in plan.places:
                _give_place(plan, index, value, free, lives)
        held = {plan.places[v] for v in writes(nodes, task) if last[v] > index}
        for value in sorted({*reads(nodes, task), *writes(nodes, task)}):
            place = plan.places.get(value)
            if place is not None and place[0] == "work" and last[value] == index and place not in held:
                free.give(place[1])
    return plan


class _Free:
    """The work arrays that hold nothing: by dtype and size, the one that was given back last first."""

    def __init__(self, plan: ArrayPlan) -> None:
        self.slots = plan.slots
        self.pools: dict[str, dict[int, dict[int, None]]] = {}

    def give(self, slot: int) -> None:
        """An array holds nothing any more."""
        code, cells = self.slots[slot]
        self.pools.setdefault(code, {}).setdefault(cells, {})[slot] = None

    def take(self, code: str, cells: int) -> int | None:
        """The array that fits best, made larger where none is large enough; None where there is none."""
        pool = self.pools.get(code)
        if not pool:
            return None
        best = min(pool, key=lambda s: _misfit(s, cells))
        taken, _ = pool[best].popitem()
        if not pool[best]:
            del pool[best]
        self.slots[taken] = (code, larger(cells, best))
        return taken


class _Inside(NamedTuple):
    """Positions in a kernel's program: of the values that it stores and computes cell by cell, and of the last nodes that read
    arrays which one of its operands alone shows, with that operand.
    """

    stored: dict[int, int]
    read: dict[int, tuple[int, int]]


class _Lives:
    """Where stored values are read for the last time: `last` has the tasks."""

    def __init__(self, plan: ArrayPlan) -> None:
        self.plan = plan
        self.last = last_reads(plan)
        self.lent: set[tuple[str, int]] = set()  # the outputs in which other values wait
        self._inside: dict[int, _Inside] = {}

    def inside(self, index: int) -> _Inside:
        """The places in a task, a kernel."""
        if index not in self._inside:
            self._inside[index] = self._found(self.plan.fused.tasks[index])
        return self._inside[index]

    def _found(self, kernel: Task) -> _Inside:
        assert isinstance(kernel, Kernel)
        nodes, program = self.plan.program.nodes, kernel.program
        sinks = zip(kernel.sinks, program.outputs, strict=True)
        stores = {sink.value: output.cells[0] for sink, output in sinks if sink.kind == "store"}
        made = {v: at for v, at in stores.items() if not is_leaf(n := program.nodes[at]) and n.op not in NOT_IN_PLACE}
        bases = Counter(base_step(nodes, operand) for operand in kernel.operands)
        reading, read = last_uses(program), {}
        for at, node in enumerate(program.nodes):
            if node.op == "input":
                shown = operand = kernel.operands[node.params[0]]
                while nodes[operand].op == "reshape":
                    operand = nodes[operand].operands[0]
                if bases[operand] == 1:
                    read[operand] = reading[at], shown
        return _Inside(made, read)

    def overwrites(self, index: int, value: int, operand: int) -> bool:
        """Whether a kernel has read an operand, cell by cell, when it stores a value of the same shape and dtype."""
        stored, read = self.inside(index)
        if value not in stored or operand not in read:
            return False
        end, shown = read[operand]
        one, other = self.plan.program.nodes[shown], self.plan.program.nodes[value]
        return end <= stored[value] and one.shape == other.shape and one.dtype == other.dtype


def _misfit(slot: int, cells: int) -> tuple[Any, ...]:
    """How badly an array's size fits, in an order that is the same for all examples of sizes."""
    if isinstance(slot, Example) or isinstance(cells, Example):
        return not equal_counts(slot, cells), str(slot)
    return slot < cells, abs(slot - cells)


def _sums(plan: ArrayPlan, kernel: Kernel, loop: Loop, inner: Schedule) -> None:
    """Room for the sums of blocks: a number for each block, or an array that is added to the result."""
    whole = 0
    for place, sink in enumerate(kernel.sinks):
        if sink.kind != "sum":
            continue
        node = plan.program.nodes[sink.value]
        if len(sink.axes) == len(kernel.domain):
            whole += len(terms_of(kernel.program, place, full_kernel_values(plan.program.nodes, kernel, loop), kernel.exact)[0])
            old = plan.partial.get(node.dtype, (0, 0))
            plan.partial[node.dtype] = (max(old[0], whole), max(old[1], loop.blocks))
        elif loop.axis in sink.axes:
            old = plan.scratch.get(node.dtype, (0, 0))
            rows = inner.work.get(node.dtype, 0) + 1
            plan.scratch[node.dtype] = (max(old[0], rows), max(old[1], domain_size(node.shape)))


def _outputs(plan: ArrayPlan) -> None:
    """Results computed in place: each output's array holds the value itself, or the one that it reshapes."""
    nodes = plan.program.nodes
    early = {v for task in plan.fused.tasks[: plan.fused.checked] for v in writes(nodes, task)}
    for k, output in enumerate(plan.program.outputs):
        value = output.value
        while nodes[value].op == "reshape":
            value = nodes[value].operands[0]
        node = nodes[value]
        if output.shape == () or node.shape == () or value in plan.places or is_leaf(node):
            continue
        if value in early or (node.op in HEADS and not is_planned(node)):
            continue
        plan.places[value] = ("output", k)


def _give_place(plan: ArrayPlan, index: int, value: int, free: _Free, lives: _Lives) -> None:
    node = plan.program.nodes[value]
    if node.shape == ():
        plan.places[value] = ("number", 0)
        return
    if node.op in HEADS and node.op != "sum" and not is_planned(node):
        plan.places[value] = ("fresh", 0)
        return
    ahead = _ahead(plan, index, value, lives)
    if ahead is not None:
        plan.places[value] = ahead
        return
    taken = _in_place(plan, index, value, lives)
    cells = domain_size(node.shape)
    if taken is None:
        taken = free.take(node.dtype, cells)
        if taken is None:
            taken = len(plan.slots)
            plan.slots.append((node.dtype, cells))
    plan.places[value] = ("work", taken)


def _in_place(plan: ArrayPlan, index: int, value: int, lives: _Lives) -> int | None:
    """The slot of an operand that dies in this kernel and that the kernel has read when it writes the value."""
    task = plan.fused.tasks[index]
    nodes, last = plan.program.nodes, lives.last
    if not isinstance(task, Kernel):
        source = nodes[value].operands[0] if nodes[value].op in OVERWRITING else -1
        place = plan.places.get(source)
        if place is None or place[0] != "work" or last[source] > index or nodes[source].dtype != nodes[value].dtype:
            return None
        others = [base_step(nodes, o) for o in nodes[value].operands[1:]]
        return None if source in others else place[1]
    used = {plan.places[v] for v in writes(nodes, task) if v in plan.places}
    for operand in lives.inside(index).read:
        place = plan.places.get(operand)
        if place is None or place[0] != "work" or place in used or last[operand] != index:
            continue
        if lives.overwrites(index, value, operand):
            return place[1]
    return None


def _ahead(plan: ArrayPlan, index: int, value: int, lives: _Lives) -> tuple[str, int] | None:
    """The output in which a value waits for the kernel that reads it for the last time and puts a result in its place."""
    nodes, tasks = plan.program.nodes, plan.fused.tasks
    last = lives.last[value]
    end = tasks[last] if index < last < len(tasks) else None
    if not isinstance(end, Kernel) or index < plan.fused.checked:  # no result is written before the checks are known
        return None
    for result in writes(nodes, end):
        place = plan.places.get(result)
        if place and place[0] == "output" and place not in lives.lent and lives.overwrites(last, result, value):
            lives.lent.add(place)
            return place
    return None


def _loop(plan: ArrayPlan, kernel: Kernel) -> Loop:
    """One block for small domains and those of any size; a flat view where all operands are alike and contiguous; else one
    axis is cut.
    """
    nodes = plan.program.nodes
    domain = kernel.domain
    cells = domain_size(domain)
    if cells <= 2 * BLOCK or isinstance(cells, Example):
        return Loop(None, 0, cells, 1)
    arrays = [nodes[o].shape for o in kernel.operands if nodes[o].shape != ()]
    alike = all(shape == domain for shape in arrays) and all(
        s.kind not in ("add", "put") and len(s.axes) in (0, len(domain)) for s in kernel.sinks
    )
    if len(domain) > 1 and alike and all(_contiguous(nodes, o) for o in kernel.operands if nodes[o].shape != ()):
        return Loop(-1, BLOCK, BLOCK, -(-cells // BLOCK))
    axis = 0 if cells // domain[0] <= BLOCK else domain.index(max(domain))
    inner = cells // domain[axis]
    rows = min(max(1, BLOCK // inner), domain[axis])
    return Loop(axis, rows, rows * inner, -(-domain[axis] // rows))


def _contiguous(nodes: list[Node], value: int) -> bool:
    """Whether a value's array is contiguous: inputs are made so, and work arrays are."""
    node = nodes[value]
    if node.op == "reshape":
        return _contiguous(nodes, node.operands[0])
    return node.op not in HEADS or is_planned(node)

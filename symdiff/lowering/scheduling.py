"""Which value of a Program lives where, by liveness.

Assumes a Program in an order that respects its operands. Guarantees the fewest work arrays that a linear scan over this
order gives, reusing an operand's array in place where the operand dies.
"""

from dataclasses import dataclass, field

from symdiff.lowering.plan import check_places
from symdiff.lowering.program import Program, is_leaf, program_listing
from symdiff.lowering.walks import last_uses
from symdiff.vocabulary.traits import operations

# NumPy's selection and complex parts read all operands after writing begins, so they do not work in place.
NOT_IN_PLACE = operations("not_in_place")


@dataclass(slots=True)
class Schedule:
    """`slots[i]` is the work array of value i as (dtype code, index), None for inputs, constants and what is written straight
    into an output; `finals[i]` lists the output cells (output position, flat cell) that hold value i at the end.
    """

    program: Program
    slots: list[tuple[str, int] | None]
    finals: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)

    def check(self) -> None:
        """Raise `InvariantError` where a value is overwritten while it is needed."""
        check_places(((at, at, slot) for at, slot in enumerate(self.slots) if slot is not None), last_uses(self.program))

    def __str__(self) -> str:
        arrays = ", ".join(f"{n} of {code}" for code, n in sorted(self.work.items())) or "none"
        lines = program_listing(self.program).splitlines()
        values = [i for i, node in enumerate(self.program.nodes) if not is_leaf(node)]
        placed = [
            f"{line:<64} slot {'output' if slot is None else f'{slot[0]}{slot[1]}'}"
            for line, slot in zip(lines[1:], (self.slots[v] for v in values), strict=False)
        ]
        return "\n".join([f"{lines[0]}, work arrays: {arrays}", *placed])


def schedule(program: Program, stored: list[bool] | None = None) -> Schedule:
    """The places of a Program's values. Outputs that are not `stored` stay in work arrays."""
    plan = Schedule(program, [None] * len(program.nodes))
    for place, output in enumerate(program.outputs):
        if stored is None or stored[place]:
            for cell, value in enumerate(output.cells):
                plan.finals.setdefault(value, []).append((place, cell))
    _allocate(plan)
    return plan


def _allocate(plan: Schedule) -> None:
    program = plan.program
    last = last_uses(program)
    free: dict[str, list[int]] = {}
    for position, node in enumerate(program.nodes):
        if is_leaf(node):
            continue
        dying = []
        for operand in set(node.operands):
            slot = plan.slots[operand]
            if slot is not None and last[operand] == position:
                dying.append(slot)
        in_place = node.op not in NOT_IN_PLACE
        for code, index in sorted(dying) if in_place else ():
            free.setdefault(code, []).append(index)
        if position in plan.finals and program.nodes[position].dtype == program.outputs[plan.finals[position][0][0]].dtype:
            plan.slots[position] = None  # written straight into its output
        else:
            pool = free.setdefault(node.dtype, [])
            if pool:
                plan.slots[position] = (node.dtype, pool.pop())
            else:
                index = plan.work.get(node.dtype, 0)
                plan.work[node.dtype] = index + 1
                plan.slots[position] = (node.dtype, index)
        for code, index in () if in_place else sorted(dying):
            free.setdefault(code, []).append(index)

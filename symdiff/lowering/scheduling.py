"""Program to Plan: which value lives where, by liveness.

Assumes a Program in an order that respects its operands. Guarantees the fewest work arrays that a linear scan over this
order gives, reusing an operand's array in place where the operand dies.
"""

from symdiff.lowering.plan import Plan
from symdiff.lowering.program import Program, is_leaf
from symdiff.lowering.walks import last_uses
from symdiff.vocabulary.traits import operations

# NumPy's selection and complex parts read all operands after writing begins, so they do not work in place.
NOT_IN_PLACE = operations("not_in_place")


def schedule(
    program: Program,
    kind: str = "point",
    in_axes: tuple[int | None, ...] | None = None,
    out_axes: tuple[int, ...] | None = None,
    stored: list[bool] | None = None,
) -> Plan:
    """The Plan of a Program for one point, or for a batch of points. Outputs that are not `stored` stay in work arrays."""
    if kind == "point":
        return Plan(program, kind)
    inputs = in_axes if in_axes is not None else (0,) * len(program.inputs)
    outputs = out_axes if out_axes is not None else (0,) * len(program.outputs)
    plan = Plan(program, kind, inputs, outputs, [None] * len(program.nodes))
    for place, output in enumerate(program.outputs):
        if stored is None or stored[place]:
            for cell, value in enumerate(output.cells):
                plan.finals.setdefault(value, []).append((place, cell))
    _allocate(plan)
    return plan


def _allocate(plan: Plan) -> None:
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

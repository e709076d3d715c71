"""Program to Plan: which value lives where, by liveness.

Assumes a Program in an order that respects its operands. Guarantees the fewest work arrays that a linear scan over this
order gives, reusing an operand's array in place where the operand dies.
"""

from symdiff.lowering.plan import Plan, last_uses
from symdiff.lowering.program import Program


def schedule(
    program: Program,
    kind: str = "point",
    in_axes: tuple[int | None, ...] | None = None,
    out_axes: tuple[int, ...] | None = None,
) -> Plan:
    """The Plan of a Program for one point, or for a batch of points."""
    if kind == "point":
        return Plan(program, kind)
    inputs = in_axes if in_axes is not None else (0,) * len(program.inputs)
    outputs = out_axes if out_axes is not None else (0,) * len(program.outputs)
    plan = Plan(program, kind, tuple(inputs), tuple(outputs), [None] * len(program.instrs))
    for place, output in enumerate(program.outputs):
        for cell, value in enumerate(output.cells):
            plan.finals.setdefault(value, []).append((place, cell))
    _allocate(plan)
    return plan


def schedule_checks(program: Program, in_axes: tuple[int | None, ...]) -> Plan:
    """The Plan of a Program's checks for a batch of points; it has no outputs."""
    plan = Plan(program, "batch", in_axes, (), [None] * len(program.instrs))
    _allocate(plan)
    return plan


def schedule_kernel(program: Program, stored: list[bool]) -> Plan:
    """The Plan of a kernel over blocks: outputs that are `stored` are written in place, the others stay in work arrays."""
    plan = Plan(program, "batch", (0,) * len(program.inputs), (0,) * len(program.outputs), [None] * len(program.instrs))
    for place, output in enumerate(program.outputs):
        if stored[place]:
            plan.finals.setdefault(output.cells[0], []).append((place, 0))
    _allocate(plan)
    return plan


def _allocate(plan: Plan) -> None:
    program = plan.program
    last = last_uses(program)
    free: dict[str, list[int]] = {}
    for position, instr in enumerate(program.instrs):
        if instr.op in ("input", "const"):
            continue
        dying = []
        for operand in set(instr.operands):
            slot = plan.slots[operand]
            if slot is not None and last[operand] == position:
                dying.append(slot)
        # NumPy's selection and complex parts read all operands after writing begins, so they do not work in place.
        for code, index in sorted(dying) if instr.op not in ("select", "cast", "real", "imag", "call") else ():
            free.setdefault(code, []).append(index)
        if position in plan.finals and program.instrs[position].dtype == program.outputs[plan.finals[position][0][0]].dtype:
            plan.slots[position] = None  # written straight into its output
        else:
            pool = free.setdefault(instr.dtype, [])
            if pool:
                plan.slots[position] = (instr.dtype, pool.pop())
            else:
                index = plan.work.get(instr.dtype, 0)
                plan.work[instr.dtype] = index + 1
                plan.slots[position] = (instr.dtype, index)
        if instr.op in ("select", "cast", "real", "imag", "call"):
            for code, index in sorted(dying):
                free.setdefault(code, []).append(index)

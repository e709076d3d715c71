"""The Plan: a Program with a place for every value.

Assumes a Program that passes `check_program`. Guarantees (checked by `check_plan`) that no value's place is overwritten
while the value is still needed, and that every output cell is written. Refuses, with `InvariantError`, plans that break this.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from symdiff.errors import InvariantError
from symdiff.lowering.program import Program, is_leaf, program_listing
from symdiff.lowering.walks import last_uses


@dataclass(slots=True)
class Plan:
    """`kind` is "point" (values are Python variables) or "batch" (values are arrays over points).

    For a batch, `slots[i]` is the work array of value i as (dtype code, index), None for inputs and constants, and
    `finals[i]` lists the output cells (output position, flat cell) that hold value i at the end. `in_axes` and `out_axes`
    give the points axis of each input (0, -1 or None) and output (0 or -1).
    """

    program: Program
    kind: str
    in_axes: tuple[int | None, ...] = ()
    out_axes: tuple[int, ...] = ()
    slots: list[tuple[str, int] | None] = field(default_factory=list)
    finals: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    work: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        text = program_listing(self.program)
        if self.kind == "point":
            return text
        arrays = ", ".join(f"{n} of {code}" for code, n in sorted(self.work.items())) or "none"
        lines = text.splitlines()
        values = [i for i, node in enumerate(self.program.nodes) if not is_leaf(node)]
        placed = [
            f"{line:<64} slot {'output' if slot is None else f'{slot[0]}{slot[1]}'}"
            for line, slot in zip(lines[1:], (self.slots[v] for v in values), strict=False)
        ]
        return "\n".join([f"{lines[0]}, work arrays: {arrays}", *placed])


def check_plan(plan: Plan) -> None:
    """Raise `InvariantError` where a value is overwritten while it is needed."""
    if plan.kind == "point":
        return
    check_places(((at, at, slot) for at, slot in enumerate(plan.slots) if slot is not None), last_uses(plan.program))


def check_places(writes: Iterable[tuple[int, int, tuple[str, int]]], last: Sequence[int] | Mapping[int, int]) -> None:
    """Raise `InvariantError` where a value is overwritten while it is needed: `writes` tell when a value is put in its place,
    `last` when each is read last.
    """
    holder: dict[tuple[str, int], int] = {}
    for moment, value, place in writes:
        before = holder.get(place, value)
        if before != value and last[before] > moment:
            raise InvariantError(f"v{value} overwrites v{before}, which is read at {last[before]}")
        holder[place] = value

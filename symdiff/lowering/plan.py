"""The Plan: a Program at one point, or at many with the axes of points; what is checked of places that values have.

Assumes a Program that passes `check_program`. Guarantees that no value's place is overwritten while the value is still needed.
Refuses, with `InvariantError`, places that break this.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from symdiff.errors import InvariantError
from symdiff.lowering.program import Program, program_listing


@dataclass(slots=True)
class Plan:
    """`kind` is "point" (values are variables) or "batch" (values are arrays over points).

    For a batch, `in_axes` and `out_axes` give the points axis of each input (0, -1 or None) and output (0 or -1).
    """

    program: Program
    kind: str
    in_axes: tuple[int | None, ...] = ()
    out_axes: tuple[int, ...] = ()

    def __str__(self) -> str:
        return program_listing(self.program)


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

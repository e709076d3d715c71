"""Cotangents that count only where a mask holds: their sums, and the arms of selects that they come through.

Assumes masks that are conditions of the primal. Guarantees that a cotangent stays masked until it is unmasked, and that
those of both arms of a select become one.
"""

from typing import NamedTuple

from symdiff.differentiation.partials import ZERO
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder, is_same_atom
from symdiff.ir.node import Atom


class Masked(NamedTuple):
    """A cotangent that counts only where `mask` holds (everywhere when it is None)."""

    value: Atom
    mask: Atom | None


class Arm(NamedTuple):
    """One arm of a select: where a condition is true, or false, within an outer mask."""

    outer: Atom | None
    condition: Atom
    true: bool

    @property
    def other(self) -> "Arm":
        """The other arm."""
        return self._replace(true=not self.true)


class Cotangents:
    """The masks of one sweep, by the arms that they stand for."""

    def __init__(self, builder: Builder, arrays: Arrays) -> None:
        self.builder = builder
        self.arrays = arrays
        self.arms: dict[Atom, Arm] = {}
        self.masks: dict[Arm, Atom] = {}

    def total(self, parts: list[Masked] | None) -> Masked | None:
        """The sum of cotangents, where one of them counts; None where there is none."""
        if not parts:
            return None
        groups = self._grouped(parts)
        if len(groups) == 1:
            mask, values = next(iter(groups.items()))
            return Masked(self._sum(values), mask)
        return Masked(self._everywhere(groups), self._union(list(groups)))

    def settled(self, parts: list[Masked]) -> Atom:
        """The sum of cotangents, zero where none counts."""
        return self._everywhere(self._grouped(parts))

    def unmasked(self, part: Masked) -> Atom:
        """A cotangent, zero where it does not count."""
        return part.value if part.mask is None else self.builder.select(part.mask, part.value, ZERO)

    def masked(self, cotangent: Masked, mask: Atom) -> Masked:
        """A cotangent within a mask more."""
        both = mask if cotangent.mask is None else self.builder.emit("and", (cotangent.mask, mask))
        return Masked(cotangent.value, both)

    def armed(self, cotangent: Masked, condition: Atom, true: bool) -> Masked:
        """A cotangent of a select as that of one of its arms."""
        arm = Arm(cotangent.mask, condition, true)
        if arm not in self.masks:
            mask = condition if true else self.builder.emit("not", (condition,))
            self.masks[arm] = mask = self.masked(cotangent, mask).mask  # type: ignore[assignment]
            self.arms.setdefault(mask, arm)
        return Masked(cotangent.value, self.masks[arm])

    def _grouped(self, parts: list[Masked]) -> dict[Atom | None, list[Atom]]:
        """Cotangents by their masks, those of both arms of a select as one."""
        groups: dict[Atom | None, list[Atom]] = {}
        for part in parts:
            groups.setdefault(part.mask, []).append(part.value)
        while (mask := next((m for m in groups if m in self.arms and self._beside(m) in groups), None)) is not None:
            self._join(mask, groups)
        return groups

    def _everywhere(self, groups: dict[Atom | None, list[Atom]]) -> Atom:
        """Cotangents by their masks in one sum, zero where none counts."""
        return self._sum([self.unmasked(Masked(self._sum(values), mask)) for mask, values in groups.items()])

    def _beside(self, mask: Atom | None) -> Atom | None:
        """The mask of the other arm; the mask itself where it is no arm, or has no other."""
        arm = self.arms.get(mask)  # type: ignore[arg-type]
        return mask if arm is None else self.masks.get(arm.other, ZERO)

    def _join(self, mask: Atom | None, groups: dict[Atom | None, list[Atom]]) -> None:
        """Cotangents of both arms become one within the outer mask."""
        arm = self.arms[mask]  # type: ignore[index]
        own, other = groups.pop(mask), groups.pop(self._beside(mask))
        true, false = (own, other) if arm.true else (other, own)
        joined = groups.setdefault(arm.outer, [])
        for value in list(true):
            twin = next((v for v in false if is_same_atom(v, value)), None)
            if twin is not None:
                true.remove(value)
                false.remove(twin)
                joined.append(value)
        if true or false:
            joined.append(self.builder.select(arm.condition, *(self._sum(v) if v else ZERO for v in (true, false))))

    def _union(self, masks: list[Atom | None]) -> Atom | None:
        """Where one of some masks holds, None for everywhere."""
        if None in masks:
            return None
        union: Atom | None = None
        for mask in masks:
            if not any(outer in masks for outer in self._around(mask)):
                union = mask if union is None else self.builder.emit("or", (union, mask))  # type: ignore[arg-type]
        return union

    def _around(self, mask: Atom | None) -> list[Atom | None]:
        """The masks within which a mask was made."""
        found: list[Atom | None] = []
        while (arm := self.arms.get(mask)) is not None and arm.outer is not None:  # type: ignore[arg-type]
            mask = arm.outer
            found.append(mask)
        return found

    def _sum(self, values: list[Atom]) -> Atom:
        values = self.arrays.by_region(values) if self.builder.structural and len(values) > 1 else values
        total = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        return total

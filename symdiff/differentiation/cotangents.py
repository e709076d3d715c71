"""Derivatives that count only where a mask holds: their sums, and the arms of selects that they come through.

Assumes masks that are conditions of the primal. Guarantees that a cotangent or tangent stays masked until it is unmasked, that
those of both arms of a select become one, and that none is masked twice. A `soft` derivative is zero where a factor is, even if
another one is infinite there, and then has no derivative of its own.
"""

from functools import reduce
from typing import NamedTuple

from symdiff.differentiation.partials import ZERO
from symdiff.ir.arrays.algebra import Arrays, kept_shape
from symdiff.ir.building import Builder, is_constant, is_same_atom
from symdiff.ir.node import ArrayConstant, Atom
from symdiff.vocabulary.ops import is_complex


class Soft(NamedTuple):
    """A factor of a derivative that makes it zero, and what makes that true nowhere else than at this point."""

    factor: Atom
    near: Atom

    @property
    def lasts(self) -> bool:
        """Whether what follows from the derivative is zero where that is, too: it is for something that is not seen."""
        return self.factor is self.near


class Masked(NamedTuple):
    """A derivative that counts only where `mask` holds (everywhere when it is None); zero elsewhere if it is `clean`."""

    value: Atom
    mask: Atom | None = None
    clean: bool = False
    soft: tuple[Soft, ...] = ()


class Taken(NamedTuple):
    """Where an operand has a part in a result: where a condition is true, or false."""

    condition: Atom
    true: bool


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
        self.parts: dict[Atom, list[Atom]] = {}  # what a union is of

    def total(self, parts: list[Masked] | None) -> Masked | None:
        """The sum of derivatives, where one of them counts; None where there is none."""
        if not parts:
            return None
        soft = parts[0].soft
        if any(part.soft != soft for part in parts):
            found = self.total([self.hard(part) for part in parts])
            return self.softened(found, parts)  # type: ignore[arg-type]
        clean = [part for part in parts if part.clean]
        groups = self._grouped([part for part in parts if not part.clean])
        if not clean and len(groups) == 1:
            mask, values = next(iter(groups.items()))
            return Masked(self._sum(values), mask, False, soft)
        mask = self.union([*dict.fromkeys([*groups, *(part.mask for part in clean)])])
        return Masked(self._everywhere(groups, [part.value for part in clean]), mask, mask is not None, soft)

    def settled(self, parts: list[Masked]) -> Atom:
        """The sum of derivatives, zero where none counts."""
        return self.unmasked(self.total(parts))  # type: ignore[arg-type]

    def unmasked(self, part: Masked) -> Atom:
        """A derivative, zero where it does not count."""
        part = self.hard(part)
        if part.mask is None or part.clean:
            return part.value
        value, mask = (self.arrays.made_by(x, "put") for x in (part.value, part.mask))
        if value is None or mask is None or value.params.params != mask.params.params:
            return self.builder.select(part.mask, part.value, ZERO)
        within = self.builder.select(mask.operands[0], value.operands[0], ZERO)  # a region of zeros, which others may share
        return self.arrays.put(within, value.params.params["key"], value.shape)

    def hard(self, part: Masked) -> Masked:
        """A derivative with zeros where a factor is zero and another one infinite."""
        b, value = self.builder, part.value
        if value.op == "bundle" and part.soft:
            return Masked(b.bundle(tuple(self._hard_cell(part, k) for k in range(len(value.operands)))), part.mask, part.clean)
        for factor, near in part.soft:
            if factor is value:
                continue  # zero where it is zero
            counts = b.emit("or", (b.emit("ne", (factor, ZERO)), b.emit("eq", (value, value))))  # 0 times infinity is NaN
            if is_complex(near.dtype or "d") and not is_complex(value.dtype or "d"):
                near = b.emit("abs", (near,))
            value = b.select(counts, value, b.emit("edge", (near,)))
        return Masked(value, part.mask, part.clean)

    def _hard_cell(self, part: Masked, place: int) -> Atom:
        """One of several results' derivatives, by its own factors."""
        cell = part.value.operands[place]
        soft = (tuple(a.operands[place] if a.op == "bundle" else a for a in pair) for pair in part.soft)
        return cell if is_constant(cell, 0) else self.hard(Masked(cell, soft=tuple(Soft(*pair) for pair in soft))).value

    def softened(self, part: Masked, like: list[Masked]) -> Masked:
        """A derivative that is zero for what is not seen where it is zero, if the ones that it comes from are such."""
        lasting = any(soft.lasts for other in like for soft in other.soft)
        return part._replace(soft=(Soft(part.value, part.value),)) if lasting else part

    def armed(self, part: Masked, taken: Taken | None, soft: tuple[Soft, ...] = ()) -> Masked:
        """A derivative of a result as that of an operand that has a part in it here and there."""
        if soft:
            part = part._replace(soft=part.soft + soft)
        if taken is None:
            return part
        arm = Arm(part.mask, *taken)
        if arm not in self.masks:
            mask = taken.condition if taken.true else self.builder.emit("not", (taken.condition,))
            mask = mask if part.mask is None else self.builder.emit("and", (part.mask, mask))
            self.masks[arm] = mask
            self.arms.setdefault(mask, arm)
        return Masked(part.value, self.masks[arm], False, part.soft)

    def fitted(self, part: Masked, shape: tuple[int, ...], behind: bool) -> Masked:
        """A cotangent with the shape of an operand: summed where it was broadcast; `behind`: partials can be infinite there."""
        found = self.arrays.unbroadcast(self.unmasked(part), shape)
        mask, away = part.mask if behind else None, len(part.value.shape) - len(shape)
        if mask is not None and mask.shape and away >= 0:
            mask = self.arrays.broadcast_to(mask, part.value.shape)
            axes = tuple(k for k, n in enumerate(mask.shape) if k < away or shape[k - away] != n)
            mask = self.arrays.reshape(self.arrays.bind("any", mask, axes=axes), kept_shape(mask.shape, axes)[away:])
        return self.softened(Masked(found, mask, mask is not None), [part])

    def anywhere(self, mask: Atom | None) -> Atom | None:
        """One truth value: whether any cell counts; None where one is known to."""
        if mask is None or not mask.shape:
            return mask
        put = self.arrays.made_by(mask, "put")
        held = mask if put is None else put.operands[0]
        if isinstance(held, ArrayConstant):
            known = bool(held.value.any())
        else:
            known = is_constant(self.arrays.repeated(held)[0], 1) and 0 not in held.shape
        if known:
            return None
        return self.arrays.bind("any", mask, axes=tuple(range(len(mask.shape))))

    def _grouped(self, parts: list[Masked]) -> dict[Atom | None, list[Atom]]:
        """Derivatives by their masks, those of both arms of a select as one."""
        groups: dict[Atom | None, list[Atom]] = {}
        for part in parts:
            groups.setdefault(part.mask, []).append(part.value)
        while (mask := next((m for m in groups if m in self.arms and self._beside(m) in groups), None)) is not None:
            self._join(mask, groups)
        return groups

    def _everywhere(self, groups: dict[Atom | None, list[Atom]], clean: list[Atom]) -> Atom:
        """Derivatives by their masks in one sum, zero where none counts."""
        return self._sum([*(self.unmasked(Masked(self._sum(values), mask)) for mask, values in groups.items()), *clean])

    def _beside(self, mask: Atom | None) -> Atom | None:
        """The mask of the other arm; the mask itself where it is no arm, or has no other."""
        arm = self.arms.get(mask)  # type: ignore[arg-type]
        return mask if arm is None else self.masks.get(arm.other, ZERO)

    def _join(self, mask: Atom | None, groups: dict[Atom | None, list[Atom]]) -> None:
        """Derivatives of both arms become one within the outer mask."""
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

    def union(self, masks: list[Atom | None]) -> Atom | None:
        """Where one of some masks holds, None for everywhere."""
        outermost = [m for m in masks if m is not None and not any(outer in masks for outer in self._around(m))]
        if None in masks or not outermost:
            return None
        single = dict.fromkeys(part for mask in outermost for part in self.parts.get(mask, [mask]))
        parts = self.arrays.covering([*single])
        if any(is_constant(self.arrays.repeated(part)[0], 1) for part in parts):
            return None
        union = reduce(self._or, outermost if parts == [*single] else parts)
        self.parts[union] = parts
        return None if isinstance(union, ArrayConstant) and union.value.all() else union

    def _or(self, one: Atom, other: Atom) -> Atom:
        if isinstance(one, ArrayConstant) and isinstance(other, ArrayConstant):
            return ArrayConstant(one.value | other.value)
        return self.builder.emit("or", (one, other))

    def _around(self, mask: Atom | None) -> list[Atom | None]:
        """The masks within which a mask was made."""
        found: list[Atom | None] = []
        while (arm := self.arms.get(mask)) is not None and arm.outer is not None:  # type: ignore[arg-type]
            mask = arm.outer
            found.append(mask)
        return found

    def _sum(self, values: list[Atom]) -> Atom:
        values = self.arrays.by_region(values) if self.builder.structural and len(values) > 1 else values
        return reduce(self.builder.add, sorted(values, key=lambda v: bool(sparse_terms(v))))


def sparse_terms(value: Atom) -> list[Atom]:
    """The terms of a sum of arrays that are zero but for some cells, which are to be added to others; none of other arrays."""
    found, waiting = list[Atom](), [value]
    while waiting:
        term = held = waiting.pop()
        if term.op == "add" and term.shape:
            waiting += term.operands[::-1]
            continue
        while held.op in ("reshape", "transpose"):
            held = held.operands[0]
        if held.op != "scatter_at":
            return []
        found.append(term)
    return found

"""What the chain rule multiplies with: for each operand of an elementwise binding its partials, and where they count.

Assumes bindings in order and a rulebook with a rule for every operation on the way. The bindings are seen as the rewrites by
what is known of values have them (`simplification`); both sweeps ask here and nowhere else. Guarantees that an operand counts
nowhere where it has no part in the result: where another one is the extreme, or where it has overflowed and the head is flat;
and that a factor which is smooth and zero makes a product's slope by the other one zero, as in x*cbrt(x). Refuses missing
rules with `RuleError`.
"""

from collections.abc import Container, Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

from symdiff.differentiation.cotangents import Soft, Taken
from symdiff.differentiation.partials import Partials
from symdiff.differentiation.steepness import Steepness
from symdiff.ir.arrays.algebra import Arrays, kept_shape
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.simplification.polynomials import Polynomials
from symdiff.simplification.saturation import Saturation
from symdiff.simplification.seen import known_bindings
from symdiff.simplification.sign_factors import watch_signs
from symdiff.vocabulary.ops import OPS, is_complex

ONE = Constant(1.0)


class Slope(NamedTuple):
    """The partials of a result by an operand and by its conjugate, where they count, and the factor that softens them."""

    operand: Atom
    partial: Atom | None
    conjugate: Atom | None = None
    taken: Taken | None = None
    soft: tuple[Soft, ...] = ()

    def along(self, b: Builder, dot: Atom, binding: Node) -> Atom | None:
        """The part of the operand's tangent in that of the result."""
        p, q = self.partial, self.conjugate
        if q is not None and not is_complex(binding.dtype):  # q is the conjugate of p, and the sum twice the real part
            return None if p is None else b.real(b.mul(b.mul(Constant(2), p), dot))
        parts = [] if p is None else [b.mul(p, dot)]
        parts += [] if q is None else [b.mul(q, b.conj(dot))]
        return reduce(b.add, parts) if parts else None


class Slopes:
    """The bindings as the sweeps see them, and their slopes."""

    def __init__(
        self, builder: Builder, bindings: list[Node], wrt: Iterable[Atom], rules: Any, order: int = 2, whole: bool = False
    ) -> None:
        """For derivatives up to an order; of all orders at once if `whole`."""
        self.builder = builder
        self.written = bindings
        self.facts = facts = known_bindings(bindings, builder, wrt, order, whole)
        self.bindings = facts.bindings
        if not whole:
            watch_signs(builder, facts, wrt)
        self.partials = Partials(builder, facts, rules)
        self.saturation = Saturation(builder, facts)
        self.polynomials = Polynomials(builder, facts.bindings)
        self.steepness = Steepness(facts.bindings, self.partials)

    def of(self, binding: Node, moving: Container[Atom]) -> Iterator[Slope]:
        """The slopes by the operands that are `moving`, and by values below them that stand for some of them."""
        if binding.op == "select":
            for place, operand in enumerate(binding.operands[1:]):
                if operand in moving:
                    yield Slope(operand, ONE, None, Taken(binding.operands[0], not place))
            return
        for place, slope in self.by_rows(binding, moving):
            if place is None:
                yield slope
            else:
                yield slope._replace(taken=self.taken(binding, place), soft=self._softening(binding, place))

    def by_rows(self, binding: Node, moving: Container[Atom]) -> Iterator[tuple[int | None, Slope]]:
        """The partials by such values, with the places of those that are operands."""
        polynomial = self.polynomials.slopes(binding)
        known, remaining = (polynomial, ()) if polynomial else self.saturation.slopes(binding)
        for operand, slope in known or ():
            if operand in moving:
                yield None, Slope(operand, slope)
        for place in remaining:
            operand = binding.operands[place]
            if operand in moving:
                p = self.partials.partial(binding, place)
                q = self.partials.partial(binding, place, conjugate=True) if is_complex(operand.dtype or "d") else None
                yield place, Slope(operand, p, q)

    def taken(self, binding: Node, place: int) -> Taken | None:
        """Where an operand has a part in the result; None where it always has, or zero times its partial says as much."""
        overflowed = self.saturation.overflowed(binding, place)
        if overflowed is not None:
            return Taken(overflowed, False)
        found = self.partials.counts(binding, place)
        if found is not None:
            return Taken(*found)
        return self._of_extreme(binding, place)

    def _softening(self, binding: Node, place: int) -> tuple[Soft, ...]:
        """The other factor of a product, if it is smooth and may be zero where the slope of this one is infinite."""
        if binding.op != "mul":
            return ()
        other, own = binding.operands[1 - place], binding.operands[place]
        return (Soft(other, binding.result),) if self.steepness.vanish_together(other, own) else ()

    def _of_extreme(self, binding: Node, place: int) -> Taken | None:
        """Where an operand of one of NumPy's extremes is the extreme, or NaN is."""
        op, operands, b = binding.op, binding.operands, self.builder
        x, extreme = operands[place], extreme_by_rule(binding)
        if not (extreme or op in ("fmax", "fmin", "kth")):
            return None
        bounded = op in OPS and len(operands) == 2 and isinstance(operands[1 - place], Constant)
        steep = self.steepness.is_behind(x, op in OPS or op == "call")
        if not steep and not (bounded and self.steepness.is_before(binding.result)):
            return None
        if op in ("fmax", "fmin"):
            other = operands[1 - place]
            return Taken(b.emit("and", (b.emit("eq", (binding.result, other)), b.emit("ne", (x, other)))), False)
        out: Atom = operands[1 - place] if op in ("max", "min") else binding.result
        if op in ("amax", "amin", "kth"):
            out = Arrays(b).reshape(out, kept_shape(x.shape, binding.params.params["axes"]))
        beyond = [b.emit("lt", pair) for pair in ((x, out), (out, x))]
        return Taken(b.emit("or", (beyond[0], beyond[1])) if op == "kth" else beyond[extreme == "min"], False)

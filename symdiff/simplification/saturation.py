"""Values that overflow before the result does: exponentials under a logarithm, in a divisor, under tanh.

Assumes bindings in order. Guarantees that the derivative of such a result is not zero times infinity: log(c + a*exp(w)) is
differentiated by w, c and a at once, with the exponential's share of the sum, which is 1 where both have overflowed; and a
saturating function has slope zero where its argument is infinite. Real values only.
"""

import math

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.bounds import Bounds
from symdiff.simplification.growth import Growth, exponent, exponential

ONE = Constant(1.0)
_FLAT = frozenset({"tanh", "atan", "erf", "erfc", "expit"})  # where their argument is infinite
_LOGARITHMS = {"log": 1.0, "log2": 1 / math.log(2), "log10": 1 / math.log(10), "log1p": 1.0}
_HYPERBOLIC = frozenset({"cosh", "sinh", "expm1"})
Slopes = list[tuple[Atom, Atom]]


class Saturation:
    """Tells which bindings saturate over what overflows, and builds their derivatives."""

    def __init__(self, builder: Builder, bindings: list[Node], bounds: Bounds) -> None:
        self.builder = builder
        self.growth = growth = Growth(bindings, bounds)
        self.made, self._explosive, self._alone = growth.made, growth.explosive, growth.alone
        self._slopes: dict[Atom, Slopes | None] = {}

    # -- what the sweeps ask

    def slopes(self, binding: Node) -> Slopes | None:
        """The partials of a logarithm, quotient or negative power by operands far below it; None for other bindings.

        A quotient's numerator is among them only where it is an exponential.
        """
        if binding.result not in self._slopes:
            self._slopes[binding.result] = self._built(binding)
        return self._slopes[binding.result]

    def _built(self, binding: Node) -> Slopes | None:
        op, operands = binding.op, binding.operands
        power = exponent(binding)
        if op in _LOGARITHMS:
            unit = Constant(_LOGARITHMS[op])
            quotient = self.made.get(operands[0])
            if op != "log1p" and quotient is not None and quotient.op in _HYPERBOLIC and operands[0] in self._explosive:
                return self._of_hyperbolic(quotient, unit)
            if op != "log1p" and quotient is not None and quotient.op == "div" and quotient.operands[1] in self._alone:
                above, below = quotient.operands
                first = [] if isinstance(above, Constant) else [(above, self.builder.emit("div", (unit, above)))]
                return first + self._below(below, below, Constant(-unit.value))
            if operands[0] in self._alone:
                whole = self.builder.emit("add", (ONE, operands[0])) if op == "log1p" else operands[0]
                return self._below(operands[0], whole, unit)
        elif op == "div" and operands[1] in self._alone:
            above = self._below(operands[0], operands[0], binding.result) if self._is_exponential(operands[0]) else []
            return above + self._below(operands[1], operands[1], self.builder.neg(binding.result))
        elif power < 0 and operands[0] in self._alone:
            return self._below(operands[0], operands[0], self.builder.mul(Constant(power), binding.result))
        return None

    def _of_hyperbolic(self, binding: Node, unit: Atom) -> Slopes:
        """The slope of the logarithm of a hyperbolic function or of expm1."""
        b, w = self.builder, binding.operands[0]
        if binding.op == "expm1":
            return [(w, b.emit("div", (b.neg(unit), b.emit("expm1", (b.neg(w),)))))]
        slope = b.emit("tanh", (w,))
        return [(w, b.mul(unit, slope) if binding.op == "cosh" else b.emit("div", (unit, slope)))]

    def _below(self, top: Atom, whole: Atom, weight: Atom) -> Slopes:
        """weight times the partials of log(whole) down to the exponential in `top`, which is a term of `whole`."""
        b = self.builder
        found: Slopes = []
        scale: Atom = ONE  # the derivative of `whole` by `at`
        at = top
        while True:
            binding = self.made[at]
            op, operands = binding.op, binding.operands
            argument = exponential(binding)
            if argument is not None:
                rate = Constant(argument[1])
                term = b.mul(scale, at)
                slope = rate if at is whole else b.mul(rate, self._share(term, term, whole, ONE))
                return [*found, (argument[0], b.mul(weight, slope))]
            if op == "pow":
                weight = b.mul(weight, operands[1])
                scale = b.mul(scale, b.emit("pow", (operands[0], Constant(operands[1].value - 1))))  # type: ignore[union-attr]
                at = operands[0]
                continue
            place = 0 if operands[0] in self._alone else 1
            other = operands[1 - place] if len(operands) > 1 else ONE
            if op in ("add", "sub"):
                sign = Constant(-1.0 if op == "sub" and place == 0 else 1.0)
                if not isinstance(other, Constant):
                    found.append((other, b.mul(weight, b.emit("div", (b.mul(sign, scale), whole)))))
                scale = b.neg(scale) if op == "sub" and place == 1 else scale
            elif op == "mul":
                if not isinstance(other, Constant):
                    limit = b.emit("div", (ONE, other))
                    share = self._share(b.mul(scale, operands[place]), b.mul(scale, at), whole, limit)
                    found.append((other, b.mul(weight, share)))
                scale = b.mul(scale, other)
            elif op == "neg":
                scale = b.neg(scale)
            at = operands[place]

    def _share(self, part: Atom, term: Atom, whole: Atom, limit: Atom) -> Atom:
        """part/whole, and its limit where the term of the sum that it belongs to has overflowed."""
        b = self.builder
        return b.select(b.emit("isinf", (term,)), limit, b.emit("div", (part, whole)))

    def remaining(self, binding: Node) -> tuple[int, ...]:
        """The places of the operands that `slopes` leaves to the binding's own partials."""
        if self.slopes(binding) is None:
            return tuple(range(len(binding.operands)))
        return (0,) if binding.op == "div" and not self._is_exponential(binding.operands[0]) else ()

    def _is_exponential(self, atom: Atom) -> bool:
        return atom in self._alone and exponential(self.made[atom]) is not None

    def overflowed(self, binding: Node, place: int) -> Atom | None:
        """The condition under which operand `place` has overflowed where the head is flat; None where it cannot be."""
        operand = binding.operands[place]
        if operand not in self._explosive:
            return None
        op, b = binding.op, self.builder
        if op in _FLAT or (op == "div" and place == 1) or (place == 0 and exponent(binding) < 0):
            return b.emit("isinf", (operand,))
        if op in ("exp", "exp2", "expm1"):
            return b.emit("eq", (operand, Constant(-math.inf)))
        return None

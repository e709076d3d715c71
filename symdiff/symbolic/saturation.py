"""Values that overflow before the result does: exponentials under a logarithm, in a divisor, under tanh.

Assumes bindings in order. Guarantees that the derivative of such a result is not zero times infinity: log(c + a*exp(w)) is
differentiated by w, c and a at once, with the exponential's share of the sum, which is 1 where both have overflowed; and a
saturating function has slope zero where its argument is infinite. Real values only. Refuses nothing.
"""

import math

from symdiff.heads import HEADS
from symdiff.symbolic.bounds import Bounds
from symdiff.symbolic.building import Builder
from symdiff.symbolic.calls import extreme_of
from symdiff.symbolic.graph import Atom, Binding, Constant

ONE = Constant(1.0)
_EXPONENTIALS = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "exp10"})
_GROWING = frozenset({"add", "sub", "mul", "neg", "cast", "abs", "sqrt", "hypot", "select", *HEADS})
_FLAT = frozenset({"tanh", "atan", "erf", "erfc", "expit"})  # where their argument is infinite
_LOGARITHMS = {"log": 1.0, "log2": 1 / math.log(2), "log10": 1 / math.log(10), "log1p": 1.0}
Slopes = list[tuple[Atom, Atom]]


class Saturation:
    """Tells which bindings saturate over what overflows, and builds their derivatives."""

    def __init__(self, builder: Builder, bindings: list[Binding], bounds: Bounds) -> None:
        self.builder = builder
        self.bounds = bounds
        self.made: dict[Atom, Binding] = {b.symbol: b for b in bindings}
        self._slopes: dict[Atom, Slopes | None] = {}
        self._explosive: set[Atom] = set()
        self._alone: set[Atom] = set()  # explosive by one exponential, at the end of a path of sums, factors and powers
        for binding in bindings:
            if binding.dtype in "fd":
                self._classify(binding)

    def _classify(self, binding: Binding) -> None:
        op, operands = binding.op, binding.operands
        explosive = [o for o in operands if o in self._explosive]
        if op in _EXPONENTIALS:
            grows = not self._is_bounded_above(operands[0])
            alone = grows and op in ("exp", "exp2")
        elif not explosive:
            return
        else:
            power = _exponent(binding)
            grows = op in _GROWING or power > 0 or (op == "div" and operands[0] in self._explosive) or bool(extreme_of(binding))
            alone = len(explosive) == 1 and explosive[0] in self._alone
            alone = alone and (op in ("add", "sub", "mul", "neg", "cast") or power > 0)
        if grows:
            self._explosive.add(binding.symbol)
        if alone:
            self._alone.add(binding.symbol)

    def _is_bounded_above(self, atom: Atom) -> bool:
        """Whether an exponential's argument is known to be small: a constant, or minus something positive."""
        binding = self.made.get(atom)
        if isinstance(atom, Constant) or binding is None:
            return isinstance(atom, Constant)
        if binding.op == "neg":
            return self.bounds.of(binding.operands[0]).low >= 0.0
        if binding.op == "sub":
            return self._is_extreme(binding.operands[1], binding.operands[0])
        if binding.op not in ("mul", "div"):
            return False
        first, second = binding.operands
        pairs = ((first, second), (second, first)) if binding.op == "mul" else ((first, second),)
        return any(self._is_negative(a) and self.bounds.of(b).low >= 0.0 for a, b in pairs)

    def _is_extreme(self, atom: Atom, among: Atom) -> bool:
        """Whether `atom` is the largest of numbers of which `among` is one."""
        binding = self.made.get(atom)
        while binding is not None and binding.op in ("reshape", "broadcast_to"):
            binding = self.made.get(binding.operands[0])
        if binding is None or among not in binding.operands:
            return False
        return extreme_of(binding) == "max"

    def _is_negative(self, atom: Atom) -> bool:
        if isinstance(atom, Constant):
            return not isinstance(atom.value, complex) and atom.value < 0
        return atom in self.made and self._is_bounded_above(atom)

    # -- what the sweeps ask

    def slopes(self, binding: Binding) -> Slopes | None:
        """The partials of a logarithm, quotient or negative power by operands far below it; None for other bindings.

        A quotient's numerator is among them only where it is an exponential.
        """
        if binding.symbol not in self._slopes:
            self._slopes[binding.symbol] = self._built(binding)
        return self._slopes[binding.symbol]

    def _built(self, binding: Binding) -> Slopes | None:
        op, operands = binding.op, binding.operands
        power = _exponent(binding)
        if op in _LOGARITHMS:
            unit = Constant(_LOGARITHMS[op])
            quotient = self.made.get(operands[0])
            if op != "log1p" and quotient is not None and quotient.op == "div" and quotient.operands[1] in self._alone:
                above, below = quotient.operands
                first = [] if isinstance(above, Constant) else [(above, self.builder.emit("div", (unit, above)))]
                return first + self._below(below, below, Constant(-unit.value))
            if operands[0] in self._alone:
                whole = self.builder.emit("add", (ONE, operands[0])) if op == "log1p" else operands[0]
                return self._below(operands[0], whole, unit)
        elif op == "div" and operands[1] in self._alone:
            above = self._below(operands[0], operands[0], binding.symbol) if self._is_exponential(operands[0]) else []
            return above + self._below(operands[1], operands[1], self.builder.neg(binding.symbol))
        elif power < 0 and operands[0] in self._alone:
            return self._below(operands[0], operands[0], self.builder.mul(Constant(power), binding.symbol))
        return None

    def _below(self, top: Atom, whole: Atom, weight: Atom) -> Slopes:
        """weight times the partials of log(whole) down to the exponential in `top`, which is a term of `whole`."""
        b = self.builder
        found: Slopes = []
        scale: Atom = ONE  # the derivative of `whole` by `at`
        at = top
        while True:
            binding = self.made[at]
            op, operands = binding.op, binding.operands
            if op in ("exp", "exp2"):
                rate = ONE if op == "exp" else Constant(math.log(2))
                term = b.mul(scale, at)
                slope = rate if at is whole else b.mul(rate, self._share(term, term, whole, ONE))
                return [*found, (operands[0], b.mul(weight, slope))]
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

    def remaining(self, binding: Binding) -> tuple[int, ...]:
        """The places of the operands that `slopes` leaves to the binding's own partials."""
        if self.slopes(binding) is None:
            return tuple(range(len(binding.operands)))
        return (0,) if binding.op == "div" and not self._is_exponential(binding.operands[0]) else ()

    def _is_exponential(self, atom: Atom) -> bool:
        return atom in self._alone and self.made[atom].op in ("exp", "exp2")

    def overflowed(self, binding: Binding, place: int) -> Atom | None:
        """The condition under which operand `place` has overflowed where the head is flat; None where it cannot be."""
        operand = binding.operands[place]
        if operand not in self._explosive:
            return None
        op, b = binding.op, self.builder
        if op in _FLAT or (op == "div" and place == 1) or (place == 0 and _exponent(binding) < 0):
            return b.emit("isinf", (operand,))
        if op in ("exp", "exp2", "expm1"):
            return b.emit("eq", (operand, Constant(-math.inf)))
        return None


def _exponent(binding: Binding) -> float:
    """The constant exponent of a power, 0 for everything else."""
    exponent = binding.operands[1] if binding.op == "pow" else None
    return 0.0 if not isinstance(exponent, Constant) or isinstance(exponent.value, complex) else float(exponent.value)

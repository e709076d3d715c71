"""Values that overflow before the result does: one exponential under a logarithm, in a divisor, under tanh.

Assumes bindings in order. Guarantees that the derivative of such a result is not zero times infinity: where whole is
s*exp(w) + r, log(whole) is differentiated by w, s and r at once, by w with the share 1/(1 + r/s*exp(-w)) that the
exponential has in the sum, which neither overflows nor cancels; and a saturating function has slope zero where its argument
is infinite. Real values only.
"""

import math

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.simplification.facts import LOGARITHMS, Facts, known_column
from symdiff.simplification.rewriting import Forms, row_partials

ONE = Constant(1.0)
Slopes = list[tuple[Atom, Atom]]


class Saturation:
    """Tells which bindings saturate over what overflows, and builds their derivatives."""

    def __init__(self, builder: Builder, facts: Facts) -> None:
        self.builder = builder
        self.facts = facts
        self.made = facts.made
        self.forms = Forms(facts.made, facts)
        self._slopes: dict[Atom, tuple[Slopes | None, tuple[int, ...]]] = {}

    # -- what the sweeps ask

    def slopes(self, binding: Node) -> tuple[Slopes | None, tuple[int, ...]]:
        """The partials of a logarithm, quotient or negative power by operands far below it, None for other bindings; and the
        places of the operands that these leave to the binding's own partials.

        A quotient's numerator is among the former only where it is an exponential.
        """
        if binding.result not in self._slopes:
            self._slopes[binding.result] = self._built(binding)
        return self._slopes[binding.result]

    def _built(self, binding: Node) -> tuple[Slopes | None, tuple[int, ...]]:
        op, operands, b = binding.op, binding.operands, self.builder
        own = tuple(range(len(operands)))
        if binding.result not in self.made:
            return None, own
        row = self.forms.first(binding, partials=True)
        if row is not None:
            return row_partials(*row, binding, b), own[: row[0].partials.count(None)]
        power = self.facts.root(binding)
        if op in LOGARITHMS:
            unit = Constant(LOGARITHMS[op])
            quotient = self.made.get(operands[0])
            if op != "log1p" and quotient is not None and quotient.op == "div" and self.facts.is_alone(quotient.operands[1]):
                above, below = quotient.operands
                first = [] if isinstance(above, Constant) else [(above, b.emit("div", (unit, above)))]
                return first + self._below(below, Constant(-unit.value)), ()
            if self.facts.is_alone(operands[0]):
                return self._below(operands[0], unit, ONE if op == "log1p" else None), ()
        elif op == "div" and self.facts.is_alone(operands[1]):
            is_exponential = self.facts.is_alone(operands[0]) and self.facts.exponential(self.made[operands[0]]) is not None
            above = self._below(operands[0], binding.result) if is_exponential else []
            return above + self._below(operands[1], b.neg(binding.result)), () if is_exponential else own[:1]
        elif power and binding.dtype in "fd":
            under = self.made.get(operands[0])
            argument = None if under is None else self.facts.exponential(under)
            if argument is not None or (power < 0 and self.facts.is_alone(operands[0])):
                weight = b.mul(Constant(power), binding.result)
                if argument is None:
                    return self._below(operands[0], weight), ()
                return [(argument[0], b.mul(Constant(argument[1]), weight))], ()
        return None, own

    def _below(self, whole: Atom, weight: Atom, rest: Atom | None = None) -> Slopes:
        """`weight` times the partials of log(whole + rest) by the exponential's argument and by what stands beside it."""
        b = self.builder
        total = whole if rest is None else b.emit("add", (rest, whole))  # scale*at + rest all the way down
        scale: Atom = ONE
        found: Slopes = []
        at = whole
        while (argument := self.facts.exponential(self.made[at])) is None:
            op, operands = self.made[at].op, self.made[at].operands
            if op == "pow":
                share = self._shared(weight, b.emit("div", (rest, b.mul(scale, at)))) if rest is not None else weight
                weight, scale, rest = b.mul(share, operands[1]), ONE, None
                total = at = operands[0]
                continue
            place = 0 if self.facts.is_alone(operands[0]) else 1
            other, at = (operands[1 - place] if len(operands) > 1 else ONE), operands[place]
            if op in ("add", "sub"):
                own = b.neg(scale) if op == "sub" and place == 0 else scale
                beside = b.mul(own, other)
                if not isinstance(other, Constant):
                    found.append((other, b.emit("div", (b.mul(weight, own), total))))
                rest = beside if rest is None else b.add(rest, beside)
                scale = b.neg(scale) if op == "sub" and place == 1 else scale
            elif op == "mul":
                if not isinstance(other, Constant):
                    less = None if rest is None else b.emit("div", (rest, b.mul(scale, at)))
                    found.append((other, b.emit("div", (weight, other if less is None else b.add(other, less)))))
                scale = b.mul(scale, other)
            elif op == "neg":
                scale = b.neg(scale)
        slope = weight if rest is None else self._shared(weight, self._against(rest, scale, self.made[at]))
        return [*found, (argument[0], b.mul(Constant(argument[1]), slope))]

    def _shared(self, weight: Atom, ratio: Atom) -> Atom:
        """The weight of a term whose sum is (1 + ratio) times it."""
        return self.builder.emit("div", (weight, self.builder.add(ONE, ratio)))

    def _against(self, rest: Atom, scale: Atom, top: Node) -> Atom:
        """rest/(scale*exp(w)) as a multiple of exp(-w)."""
        b = self.builder
        place = 1 if top.op == "pow" else 0
        w = top.operands[place]
        negated = self.made.get(w)
        opposite = negated.operands[0] if negated is not None and negated.op == "neg" else b.neg(w)
        small = b.emit(top.op, (top.operands[0], opposite) if place else (opposite,))
        ratio = rest if scale is ONE else b.emit("div", (rest, scale))
        return b.mul(ratio, small)

    def overflowed(self, binding: Node, place: int) -> Atom | None:
        """The condition under which operand `place` has overflowed where the head levels off; None where it cannot be."""
        operand, b, column = binding.operands[place], self.builder, known_column(binding)
        if "levels" not in column.words or not self.facts.is_alone(operand):
            return None
        known = self.facts.of(operand)
        level = (column.low, column.high) if "rising" in column.words else (column.high, column.low)
        ends = [e for e, at in zip((known.low, known.high), level, strict=True) if math.isinf(e) and math.isfinite(at)]
        met = [b.emit("eq", (operand, Constant(end))) for end in ends]
        return b.emit("or", tuple(met)) if len(met) > 1 else met[0] if met else None

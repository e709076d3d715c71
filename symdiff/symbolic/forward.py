"""Forward sweeps over the bindings of a Graph, of numbers or whole arrays: tangents of every symbol.

Assumes a rulebook with a rule for every operation on the way. Guarantees that constants are never differentiated, that a
branch not taken never leaks, and that a zero tangent times an infinite partial is zero. Refuses missing rules with
`RuleError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 3.
"""

from typing import Any

from symdiff.ops import is_complex
from symdiff.symbolic.arrays.algebra import Arrays
from symdiff.symbolic.arrays.rules import pushed_forward
from symdiff.symbolic.building import Builder
from symdiff.symbolic.graph import Atom, Binding, Constant
from symdiff.symbolic.partials import ZERO, Partials, is_structural
from symdiff.symbolic.saturation import Saturation
from symdiff.symbolic.shifting import shifted
from symdiff.symbolic.sign_factors import watch_signs
from symdiff.symbolic.smoothing import smoothed
from symdiff.symbolic.vanishing import Vanishing, zero_times_infinity


class Forward:
    """Forward sweeps: from tangents of inputs to tangents of every symbol."""

    def __init__(self, builder: Builder, bindings: list[Binding], rules: Any) -> None:
        self.builder = builder
        self.bindings = bindings = shifted(smoothed(bindings, builder), builder)
        watch_signs(builder, bindings)
        self.partials = Partials(builder, bindings, rules)
        self.saturation = Saturation(builder, bindings, self.partials.bounds)
        self.vanishing = Vanishing(builder, bindings, self.partials)

    def sweep(self, seeds: dict[Atom, Atom]) -> dict[Atom, Atom]:
        """Tangents of all symbols that depend on the seeds."""
        b = self.builder
        outer = b.primal
        b.primal = False
        dots: dict[Atom, Atom] = dict(seeds)
        self.infinite: dict[Atom, Binding] = {}  # tangents that may be infinite, and the singular head that makes them so
        for binding in self.bindings:
            if binding.dtype in "?l":
                continue
            moving = [place for place, o in enumerate(binding.operands) if o in dots]
            if not moving:
                continue
            b.origin = binding.origin
            arrays = Arrays(b, binding.origin)
            if is_structural(binding):
                found = pushed_forward(arrays, binding, {place: dots[binding.operands[place]] for place in moving})
                if found is not None:
                    dots[binding.symbol] = found
                continue
            if binding.op == "select":
                arms = [dots.get(o, ZERO) for o in binding.operands[1:]]
                if arms[0] is not ZERO or arms[1] is not ZERO:
                    dots[binding.symbol] = arrays.broadcast_to(b.select(binding.operands[0], *arms), binding.shape)
                continue
            singular = self.partials.is_singular(binding)
            head = binding if singular else next((self.infinite[o] for o in binding.operands if o in self.infinite), None)
            if head is not None:
                self.infinite[binding.symbol] = head
            terms: list[Atom | None] = [b.mul(s, dots[o]) for o, s in self.saturation.slopes(binding) or () if o in dots]
            for place in self.saturation.remaining(binding):
                if place in moving:
                    terms.append(self._term(binding, place, dots[binding.operands[place]], singular))
            total: Atom | None = None
            for term in terms:
                if term is not None:
                    total = term if total is None else b.add(total, term)
            if total is not None:
                dots[binding.symbol] = arrays.broadcast_to(total, binding.shape)
        b.primal = outer
        return dots

    def _term(self, binding: Binding, place: int, dot: Atom, singular: bool) -> Atom | None:
        b = self.builder
        operand = binding.operands[place]
        p = self.partials.partial(binding, place)
        q = self.partials.partial(binding, place, conjugate=True) if is_complex(operand.dtype or "d") else None
        if q is not None and not is_complex(binding.dtype):
            # q is the conjugate of p here, and p*dot + conj(p*dot) twice the real part.
            return None if p is None else b.real(b.mul(b.mul(Constant(2), p), dot))
        term = None if p is None else b.mul(p, dot)
        if term is not None and singular and not isinstance(dot, Constant):
            if self.partials.is_root_of_squares(binding):
                term = b.select(b.emit("eq", (binding.operands[0], Constant(0.0))), ZERO, term)
            else:
                term = zero_times_infinity(b, dot, p, term)
        elif term is not None and self._meets_infinity(p, operand):
            term = zero_times_infinity(b, p, dot, term)  # type: ignore[arg-type]
        overflowed = None if term is None else self.saturation.overflowed(binding, place)
        if term is not None and overflowed is not None:
            term = b.select(overflowed, ZERO, term)
        counts = None if term is None else self.partials.counts(binding, place)
        if term is not None and counts is not None:
            condition, value = counts
            term = b.select(condition, term, ZERO) if value else b.select(condition, ZERO, term)
        if q is not None:
            crossed = b.mul(q, b.conj(dot))
            term = crossed if term is None else b.add(term, crossed)
        return term

    def _meets_infinity(self, partial: Atom | None, operand: Atom) -> bool:
        """Whether a partial may vanish where the operand's tangent is infinite."""
        head = self.infinite.get(operand)
        return partial is not None and head is not None and self.vanishing.together(partial, head)

"""Forward sweeps over the bindings of a Graph, of numbers or whole arrays: tangents of every symbol.

Assumes a rulebook with a rule for every operation on the way. Guarantees that constants are never differentiated, that a
tangent masked by a select stays masked where an infinite partial can follow, and that a zero tangent times an infinite
partial is zero. Refuses missing rules with `RuleError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 3.
"""

from collections.abc import Iterable
from typing import Any

from symdiff.differentiation.cotangents import Cotangents, Masked
from symdiff.differentiation.partials import ZERO, Partials, has_structural_partials
from symdiff.differentiation.steepness import Steepness
from symdiff.differentiation.vanishing import Vanishing, derivative_at_zero
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.loops import pushed_through
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.structural import rule_pushforward
from symdiff.simplification.saturation import Saturation
from symdiff.simplification.seen import known_bindings
from symdiff.simplification.sign_factors import watch_signs
from symdiff.vocabulary.ops import is_complex


class Forward:
    """Forward sweeps: from tangents of inputs to tangents of results.

    Where a mask was resolved to zeros a symbol is `opened`: its tangent may be zero where a partial is infinite.
    """

    def __init__(self, builder: Builder, bindings: list[Node], wrt: Iterable[Atom], rules: Any) -> None:
        self.builder = builder
        facts = known_bindings(bindings, builder, wrt)
        self.bindings = bindings = facts.bindings
        watch_signs(builder, facts)
        self.partials = Partials(builder, facts, rules)
        self.saturation = Saturation(builder, facts)
        self.vanishing = Vanishing(builder, bindings, self.partials)
        self.steepness = Steepness(bindings, self.partials)
        self.masks = Cotangents(builder, Arrays(builder))

    def sweep(self, seeds: dict[Atom, Atom], wanted: Iterable[Atom]) -> dict[Atom, Atom]:
        """Tangents of the `wanted` values that depend on the seeds."""
        b = self.builder
        outer = b.primal
        b.primal = False
        self.dots = {symbol: Masked(seed, None) for symbol, seed in seeds.items()}
        self.infinite: dict[Atom, Node] = {}  # tangents that may be infinite, and the singular head that makes them so
        self.opened: set[Atom] = set()
        for binding in self.bindings:
            if binding.dtype in "?l" or not any(o in self.dots for o in binding.operands):
                continue
            b.origin = binding.origin
            found = self._pushed(binding)
            if found is not None:
                self.dots[binding.result] = found
        settled = {atom: self._settled(atom).value for atom in wanted if atom in self.dots}
        b.primal = outer
        return settled

    def _settled(self, atom: Atom) -> Masked:
        """The tangent of a value, zero where it does not count."""
        dot = self.dots[atom]
        if dot.mask is None:
            return dot
        return Masked(self.masks.arrays.broadcast_to(self.masks.unmasked(dot), atom.shape), None)

    def _pushed(self, binding: Node) -> Masked | None:
        if has_structural_partials(binding):
            return self._through_structural(binding)
        if binding.op == "select":
            return self._through_select(binding)
        return self._through_elementwise(binding)

    def _open(self, binding: Node) -> None:
        """Note where masks are resolved to zeros."""
        if any(o in self.opened or (o in self.dots and self.dots[o].mask is not None) for o in binding.operands):
            self.opened.add(binding.result)

    def _through_structural(self, binding: Node) -> Masked | None:
        self._open(binding)
        tangents = {}
        for place, operand in enumerate(binding.operands):
            if operand in self.dots:
                counts = self.steepness.counts(self.builder, binding, place)
                dot = self._settled(operand)
                tangents[place] = self.masks.unmasked(dot if counts is None else self.masks.armed(dot, *counts))
        if binding.op == "loop":
            return Masked(pushed_through(self.builder, binding, tangents, self.partials.rules), None)
        found = rule_pushforward(Arrays(self.builder, binding.origin), binding, tangents)
        return None if found is None else Masked(found, None)

    def _through_select(self, binding: Node) -> Masked | None:
        condition, *operands = binding.operands
        arms = [o for o in operands if o in self.dots]
        if len(arms) == 1 and self.steepness.is_before(binding.result):
            return self.masks.armed(self.dots[arms[0]], condition, arms[0] is operands[0])
        self._open(binding)
        true, false = (self._settled(o).value if o in self.dots else ZERO for o in operands)
        return self._spread(self.builder.select(condition, true, false), binding)

    def _through_elementwise(self, binding: Node) -> Masked | None:
        singular = self.partials.is_singular(binding)
        head = binding if singular else next((self.infinite[o] for o in binding.operands if o in self.infinite), None)
        if head is not None:
            self.infinite[binding.result] = head
        steep = self.steepness.is_steep(binding)
        slopes = self.saturation.slopes(binding) or []
        moving = {o: self.dots[o] for o in (*binding.operands, *(o for o, _ in slopes)) if o in self.dots}
        if not steep and len({dot.mask for dot in moving.values()}) > 1:
            self._open(binding)
            moving = {o: self._settled(o) for o in moving}
        terms = [Masked(self.builder.mul(s, moving[o].value), moving[o].mask) for o, s in slopes if o in moving]
        for place in self.saturation.remaining(binding):
            dot = moving.get(binding.operands[place])
            term = None if dot is None else self._term(binding, place, dot, singular, steep)
            terms += [] if term is None else [term]
        return self._sum(terms, binding) if terms else None

    def _sum(self, terms: list[Masked], binding: Node) -> Masked:
        """The sum of the terms of a tangent, within their mask where they have one and an infinite partial can follow."""
        masks = {term.mask for term in terms}
        whole = len(masks) == 1 and self.steepness.is_before(binding.result)
        if len(masks - {None}) > 1:
            self.opened.add(binding.result)
        values = [term.value if whole else self.masks.unmasked(term) for term in terms]
        total = values[0]
        for value in values[1:]:
            total = self.builder.add(total, value)
        return self._spread(total, binding)._replace(mask=terms[0].mask if whole else None)

    def _spread(self, dot: Atom, binding: Node) -> Masked:
        return Masked(Arrays(self.builder, binding.origin).broadcast_to(dot, binding.shape), None)

    def _term(self, binding: Node, place: int, dot: Masked, singular: bool, steep: bool) -> Masked | None:
        b = self.builder
        operand = binding.operands[place]
        p = self.partials.partial(binding, place)
        q = self.partials.partial(binding, place, conjugate=True) if is_complex(operand.dtype or "d") else None
        if q is not None and not is_complex(binding.dtype):
            # q is the conjugate of p here, and p*dot + conj(p*dot) twice the real part.
            return None if p is None else Masked(b.real(b.mul(b.mul(Constant(2), p), dot.value)), dot.mask)
        term = None if p is None else self._product(binding, operand, dot.value, p, singular, steep)
        overflowed = None if term is None else self.saturation.overflowed(binding, place)
        if term is not None and overflowed is not None:
            term = b.select(overflowed, ZERO, term)
        if q is not None:
            crossed = b.mul(q, b.conj(dot.value))
            term = crossed if term is None else b.add(term, crossed)
        if term is None:
            return None
        counts = self.partials.counts(binding, place) or self.steepness.counts(b, binding, place)
        return Masked(term, dot.mask) if counts is None else self.masks.armed(Masked(term, dot.mask), *counts)

    def _product(self, binding: Node, operand: Atom, dot: Atom, p: Atom, singular: bool, steep: bool) -> Atom:
        """A partial times a tangent, zero where one is zero and the other infinite, as far as that can happen."""
        b = self.builder
        if singular and self.partials.is_root_of_squares(binding):
            return b.mul(derivative_at_zero(b, binding.operands[0], p), dot)
        term = b.mul(p, dot)
        if binding.op == "mul" and self._meets_infinity(p, operand):
            return self.vanishing.zero_times_infinity(p, dot, term)
        return self.vanishing.zero_times_infinity(dot, p, term) if steep and operand in self.opened else term

    def _meets_infinity(self, partial: Atom, operand: Atom) -> bool:
        """Whether a partial may vanish where the operand's tangent is infinite."""
        head = self.infinite.get(operand)
        return head is not None and self.vanishing.together(partial, head)

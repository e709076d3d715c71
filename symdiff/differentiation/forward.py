"""Forward sweeps over the bindings of a Graph, of numbers or whole arrays: tangents of every symbol.

They are the chain rule and the masks of `cotangents`, nothing else. Guarantees that constants are never differentiated, and
that a tangent masked by a select stays masked where an infinite partial can follow. Refuses missing rules with `RuleError`.

Source of the method: Griewank and Walther, Evaluating Derivatives, 2nd ed., chapter 3.
"""

from collections.abc import Iterable
from typing import Any

from symdiff.differentiation.cotangents import Cotangents, Masked, Soft
from symdiff.differentiation.moving import pushed
from symdiff.differentiation.partials import has_structural_partials
from symdiff.differentiation.slopes import Slope, Slopes
from symdiff.ir.arrays.algebra import Arrays
from symdiff.ir.building import Builder
from symdiff.ir.loops import pushed_through
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.sites import pushed_through_site


class Forward:
    """Forward sweeps: from tangents of inputs to tangents of results."""

    def __init__(self, builder: Builder, bindings: list[Node], wrt: Iterable[Atom], rules: Any) -> None:
        self.builder = builder
        self.rules = rules
        self.slopes = Slopes(builder, bindings, wrt, rules)
        self.masks = Cotangents(builder, Arrays(builder))

    def sweep(self, seeds: dict[Atom, Atom], wanted: Iterable[Atom]) -> dict[Atom, Atom]:
        """Tangents of the `wanted` values that depend on the seeds."""
        self.dots = {symbol: Masked(seed) for symbol, seed in seeds.items()}
        for binding in self.slopes.bindings:
            if binding.dtype not in "?l" and any(o in self.dots for o in binding.operands):
                self.builder.at(binding)
                found = self._pushed(binding)
                if found is not None:
                    self.dots[binding.result] = found
        return {atom: self._spread(self.masks.unmasked(self.dots[atom]), atom) for atom in wanted if atom in self.dots}

    def _pushed(self, binding: Node) -> Masked | None:
        """The tangent of a binding's result, with a mask where an infinite partial can follow."""
        before = self.slopes.steepness.is_before(binding.result)
        if has_structural_partials(binding):
            return self._through_structural(binding, before)
        terms = [t for slope in self.slopes.of(binding, self.dots) if (t := self._term(binding, slope)) is not None]
        total = self.masks.total(terms)
        if total is None:
            return None
        if not before:
            return Masked(self._spread(self.masks.unmasked(total), binding))
        total = total._replace(value=self._spread(total.value, binding))
        masked = any(self.dots[o].mask is not None for o in binding.operands if o in self.dots)
        mixed = masked and total.mask is None  # zero where none but masked terms count
        return total._replace(soft=(*total.soft, Soft(total.value, total.value))) if mixed else total

    def _through_structural(self, binding: Node, before: bool) -> Masked | None:
        parts = {
            place: self.masks.armed(self.dots[operand], self.slopes.taken(binding, place))
            for place, operand in enumerate(binding.operands)
            if operand in self.dots
        }
        if binding.op in ("loop", "site"):
            tangents = {p: self._spread(self.masks.unmasked(t), binding.operands[p]) for p, t in parts.items()}
            through = pushed_through if binding.op == "loop" else pushed_through_site
            return Masked(through(self.builder, binding, tangents, self.rules))
        return pushed(self, binding, parts, before)

    def _spread(self, dot: Atom, like: Atom) -> Atom:
        return Arrays(self.builder, like.origin).broadcast_to(dot, like.shape)

    def _term(self, binding: Node, slope: Slope) -> Masked | None:
        """One operand's part in a tangent."""
        dot = self.dots[slope.operand]
        value = slope.along(self.builder, dot.value, binding)
        if value is None:
            return None
        clean = dot.clean and isinstance(slope.partial, Constant) and slope.conjugate is None
        return self.masks.armed(Masked(value, dot.mask, clean, dot.soft), slope.taken, slope.soft)

"""Which partials can be infinite, and the values behind and before them: what passes them over must not multiply them by zero.

Assumes bindings in order, their partials and what is known of the growth of exponentials. Guarantees that a value outside
`behind` comes from no quotient, logarithm, root or exponential whose partial can be infinite, and from no product with NaN or
infinity. Of a function without a formula it assumes the worst.
"""

import cmath
import functools
import math

from symdiff.differentiation.partials import TINY, Partials, has_structural_partials
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.simplification.facts import Facts, known_column
from symdiff.vocabulary.traits import operations

_JUMPING = operations("jumps")
_FACTORS = operations("scales")  # zero where one of the first operands is


class Steepness:
    """Heads whose partials can be infinite, and the values behind and before them; worked out when first asked for."""

    def __init__(self, bindings: list[Node], partials: Partials) -> None:
        self.bindings = bindings
        self.partials = partials
        self._behind: dict[bool, set[Atom]] = {}
        self._loops: dict[Node, bool] = {}
        self._inputs: dict[Atom, int] = {}
        self._broken: set[Atom] = set()

    def is_steep(self, binding: Node, growing: bool = True) -> bool:
        """Whether a partial of an elementwise binding can be no number, where it overflows too unless `growing` is False."""
        op, operands = binding.op, binding.operands
        if op == "edge" or (op == "mul" and any(isinstance(o, Constant) and not cmath.isfinite(o.value) for o in operands)):
            return True
        if op == "loop":
            return self._is_loop_steep(binding)
        if op == "select" or binding.dtype in "?l" or has_structural_partials(binding):
            return False
        if op == "pow" and isinstance(operands[1], Constant) and not isinstance(operands[1].value, complex):
            exponent, low = operands[1].value, self.partials.facts.of(operands[0]).low
            return low < TINY if exponent < 1 else low < 0 and exponent != int(exponent)
        if op == "call" and not extreme_by_rule(binding):
            formula = binding.params.graph
            return formula is None or any(_has(b, "pole") or "grows" in known_column(b).words for b in formula.bindings)
        poles = [locus for locus in known_column(binding).loci if locus.kind == "pole" and op != "pow"]
        if poles:
            low = self.partials.facts.of(operands[-1]).low
            above = {f"{poles[0].parameters[-1]} == 0": TINY, "x == -1": 0.0}.get(poles[0].condition.strip(), math.inf)
            return not isinstance(operands[-1], Constant) and low < above
        return (growing and self.partials.facts.is_explosive(binding.result)) or self.partials.is_singular(binding)

    def _is_loop_steep(self, binding: Node) -> bool:
        """Whether a round has a steep head, or an exponential, of what rounds before may have made large."""
        if binding not in self._loops:
            facts = Facts(binding.params.body.bindings)
            round_ = Steepness(facts.bindings, Partials(self.partials.builder, facts, self.partials.rules))
            self._loops[binding] = any(facts.is_exponential(b) or round_.is_steep(b) for b in facts.bindings)
        return self._loops[binding]

    def is_behind(self, atom: Atom, growing: bool = True) -> bool:
        """Whether a value comes from a steep head."""
        behind = self._behind.get(growing)
        if behind is None:
            behind = self._behind[growing] = set()
            for binding in self.bindings:
                if binding.dtype not in "?l" and (not behind.isdisjoint(binding.operands) or self.is_steep(binding, growing)):
                    behind.add(binding.result)
        return atom in behind

    def is_before(self, atom: Atom) -> bool:
        """Whether a steep head comes from a value."""
        return atom in self._before

    @functools.cached_property
    def _before(self) -> set[Atom]:
        found = set[Atom]()
        for binding in reversed(self.bindings):
            if self.is_steep(binding) or binding.result in found:
                found.update(binding.operands)
        return found

    def vanish_together(self, smooth: Atom, rough: Atom) -> bool:
        """Whether two factors may be zero at one point, one of them behind a root or another head with an infinite slope
        where its value is finite, and the other one behind none; both are continuous there.
        """
        if rough not in self._rough or smooth in self._rough or rough in self._broken:
            return False
        return bool(self._zeros(smooth) & self._rough[rough])

    def _zeros(self, atom: Atom) -> int:
        """The inputs, as bits, on which those factors of a value depend that may be zero; none where one of them jumps."""
        found, pending = 0, [atom]
        while pending:
            top = pending.pop()
            made = self.partials.facts.made.get(top)
            if top in self._broken and (made is None or made.op not in _FACTORS):
                return 0
            if made is not None and made.op in _FACTORS:
                pending += made.operands[: 1 if made.op == "div" else None]
            elif not isinstance(top, Constant) and (made is None or not _is_positive(made)):
                found |= self._inputs.get(top, 0)
        return found

    @functools.cached_property
    def _rough(self) -> dict[Atom, int]:
        """On which inputs values depend by a singular head; noted are those of all, and which may jump or be infinite."""
        found: dict[Atom, int] = {}
        for binding in self.bindings if any(map(self._is_rough, self.bindings)) else ():
            mask = rough = 0
            for operand in binding.operands:
                if operand not in self._inputs:
                    self._inputs[operand] = 0 if isinstance(operand, Constant) else 1 << len(self._inputs)
                mask |= self._inputs[operand]
                rough |= found.get(operand, 0)
            self._inputs[binding.result] = mask
            singular = self._is_rough(binding)
            if rough or singular:
                found[binding.result] = rough or mask
            infinite = self.is_steep(binding, False) and not singular
            if binding.op in _JUMPING or _has(binding, "jump") or infinite or not self._broken.isdisjoint(binding.operands):
                self._broken.add(binding.result)
        return found

    def _is_rough(self, binding: Node) -> bool:
        """Whether an elementwise head can have an infinite slope where its value is finite."""
        is_number = binding.dtype not in "?l"
        return is_number and self.partials.is_singular(binding) and not self.partials.is_root_of_squares(binding)


def _has(binding: Node, kind: str) -> bool:
    """Whether the row of an operation has places of a kind, a power's jump at 0**0 aside."""
    return any(locus.kind == kind for locus in known_column(binding).loci) and (binding.op, kind) != ("pow", "jump")


def _is_positive(binding: Node) -> bool:
    """Whether an operation is an exponential that is never zero."""
    column = known_column(binding)
    return "grows" in column.words and column.low >= 0

"""Which values have a partial behind them that can be infinite: what passes them over must not multiply it by zero.

Assumes bindings in order, their partials and what is known of the growth of exponentials. Guarantees that a value outside
`behind` comes from no quotient, logarithm, root or exponential whose partial can be infinite. Of a function
without a formula it assumes the worst.
"""

from symdiff.differentiation.partials import TINY, Partials, has_structural_partials
from symdiff.ir.arrays.algebra import Arrays, kept_shape
from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.vocabulary.ops import OPS

_LOGARITHMS = frozenset({"log", "log2", "log10"})
_STEEP = _LOGARITHMS | {"div", "log1p", "pow", "exp", "exp2", "expm1", "sinh", "cosh"}
Counted = tuple[Atom, bool]


class Steepness:
    """Heads whose partials can be infinite, and the values behind and before them; worked out when first asked for."""

    def __init__(self, bindings: list[Node], partials: Partials) -> None:
        self.bindings = bindings
        self.partials = partials
        self._behind: dict[bool, set[Atom]] = {}
        self._before: set[Atom] | None = None

    def is_steep(self, binding: Node, growing: bool = True) -> bool:
        """Whether a partial of an elementwise binding can be infinite, where it overflows too unless `growing` is False."""
        op, operands = binding.op, binding.operands
        if op == "loop":
            return True  # its body may have such heads
        if op == "select" or binding.dtype in "?l" or has_structural_partials(binding):
            return False
        if op in ("div", *_LOGARITHMS):
            below = operands[-1]
            return not isinstance(below, Constant) and self.partials.facts.of(below).low < TINY
        if op == "log1p":
            return self.partials.facts.of(operands[0]).low < 0
        if op == "pow" and isinstance(operands[1], Constant) and not isinstance(operands[1].value, complex):
            return operands[1].value < 1 and self.partials.facts.of(operands[0]).low < TINY
        if op == "call" and not extreme_by_rule(binding):
            formula = binding.params.graph
            return formula is None or any(b.op in _STEEP for b in formula.bindings)
        return (growing and self.partials.facts.is_explosive(binding.result)) or self.partials.is_singular(binding)

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
        if self._before is None:
            self._before = set()
            for binding in reversed(self.bindings):
                if self.is_steep(binding) or binding.result in self._before:
                    self._before.update(binding.operands)
        return atom in self._before

    def counts(self, builder: Builder, binding: Node, place: int) -> Counted | None:
        """A condition and its value where an operand of one of NumPy's extremes has a part in the result, NaN or not.

        None where a cotangent of it may as well be multiplied by zero.
        """
        op, operands = binding.op, binding.operands
        x = operands[place]
        extreme = extreme_by_rule(binding)
        if not (extreme or op in ("fmax", "fmin", "kth")):
            return None
        bounded = op in OPS and len(operands) == 2 and isinstance(operands[1 - place], Constant)
        if not self.is_behind(x, op in OPS or op == "call") and not (bounded and self.is_before(binding.result)):
            return None
        if op in ("fmax", "fmin"):
            other = operands[1 - place]
            passed = (builder.emit("eq", (binding.result, other)), builder.emit("ne", (x, other)))
            return builder.emit("and", passed), False
        out: Atom = operands[1 - place] if op in ("max", "min") else binding.result
        if op in ("amax", "amin", "kth"):
            out = Arrays(builder).reshape(out, kept_shape(x.shape, binding.params.params["axes"]))
        beyond = [builder.emit("lt", pair) for pair in ((x, out), (out, x))]
        if op == "kth":
            return builder.emit("or", (beyond[0], beyond[1])), False
        return beyond[extreme == "min"], False

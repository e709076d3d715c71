"""What is known of real values from below: sums of squares, and values that stay away from zero.

Assumes bindings in order. Guarantees bounds that hold for all inputs but NaN, so that a root of a value bounded away from
zero needs no guard. What it cannot tell is unbounded.
"""

import math
from typing import NamedTuple

from symdiff.ir.building import is_constant
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.vocabulary.ops import is_complex


class Bound(NamedTuple):
    """A real value is at least `low`; one that is a sum of squares or of higher powers, zero only where all its partials are,
    has the least of the `powers`, another one 0.
    """

    powers: float
    low: float


UNKNOWN = Bound(0, -math.inf)
_CELLS = frozenset({"sum", "sum_of", "reshape", "transpose", "getitem", "broadcast_to", "cast"})
_FOLLOWED = frozenset({"add", "mul", "div", "pow", "sqrt", "rint", "select"}) | _CELLS


class Bounds:
    """Bounds of the values of bindings, each worked out once, with an explicit stack."""

    def __init__(self, bindings: list[Node]) -> None:
        self.bindings: dict[Atom, Node] = {b.result: b for b in bindings}
        self._known: dict[Atom, Bound] = {}

    def of(self, atom: Atom) -> Bound:
        """The bound of an atom."""
        stack = [atom]
        while stack:
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            binding = self.bindings.get(top)
            operands = binding.operands if binding is not None and _is_followed(binding) else ()
            missing = [o for o in operands if o not in self._known]
            if missing:
                stack.extend(missing)
            else:
                self._known[top] = self._bound(top, binding)
        return self._known[atom]

    def _bound(self, atom: Atom, binding: Node | None) -> Bound:
        if isinstance(atom, Constant) and not isinstance(atom.value, complex):
            return Bound(0, float(atom.value))
        if binding is None or is_complex(atom.dtype or "d"):
            return UNKNOWN
        op, operands = binding.op, binding.operands
        if op == "mul" and operands[0] is operands[1]:
            return Bound(2, 0.0)
        if op == "pow" and isinstance(operands[1], Constant):
            n = operands[1].value
            if isinstance(n, complex) or n <= 1:
                return UNKNOWN
            return Bound(n, 0.0) if n % 2 == 0 or self._known[operands[0]].low >= 0.0 else UNKNOWN
        if op in ("abs", "exp", "exp2"):
            return Bound(0, 0.0)
        if op == "cosh":
            return Bound(0, 1.0)
        if not _is_followed(binding) or op == "pow":
            return UNKNOWN
        if op == "select":
            arms = [(self._known[o], is_constant(o, 0)) for o in operands[1:]]
            return Bound(min((b.powers for b, zero in arms if not zero), default=0), min(b.low for b, _ in arms))
        if op == "sum_of":
            return Bound(self._known[operands[0]].powers, 0.0 if self._known[operands[0]].low >= 0.0 else -math.inf)
        if extreme_by_rule(binding):
            return Bound(0, max(self._known[o].low for o in operands))
        factors = [self._known[o].low for o in operands[1 if op == "div" else 0 :] if isinstance(o, Constant)]
        return self._followed(op, [self._known[o] for o in operands], any(f > 0.0 for f in factors))

    @staticmethod
    def _followed(op: str, below: list[Bound], scaled: bool) -> Bound:
        lows = [b.low for b in below]
        if min(lows) < 0.0:
            return UNKNOWN
        if op in _CELLS:
            return Bound(below[0].powers, 0.0 if op == "sum" else lows[0])
        if op in ("mul", "div") and scaled:
            return Bound(max(b.powers for b in below), 0.0)
        if op in ("div", "rint"):
            return Bound(0, 0.0)
        low = math.sqrt(lows[0]) if op == "sqrt" else sum(lows) if op == "add" else lows[0] * lows[1]
        return Bound(min(b.powers for b in below) if op == "add" else 0, low)


def _is_followed(binding: Node) -> bool:
    """Whether a binding's bound follows from those of its operands."""
    return binding.op in _FOLLOWED or extreme_by_rule(binding) == "max"

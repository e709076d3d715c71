"""Whether a factor may be zero where a singular head's partial is infinite, as in x*sqrt(x) at 0, (1 - x)*sqrt(1 - x*x) at 1.

Assumes the bindings that a sweep works on, and those that it makes. Guarantees that a factor found so vanishes smoothly, so
that its product with the infinite partial has the limit zero: it depends on no singular head itself, as sin(sqrt(x)) does.
Of what it cannot tell the product stays what it is.
"""

import functools

from symdiff.differentiation.partials import Partials, has_structural_partials
from symdiff.ir.building import Builder, is_constant
from symdiff.ir.node import Atom, Constant, Node

_FAR = 64  # operations of a derivative that are looked at
_POSITIVE = frozenset({"exp", "exp2", "cosh"})
_FACTORS = frozenset({"mul", "div", "neg", "cast"})  # zero where one of the first operands is
_PASSING = frozenset({"select", "add", "sub", "mul", "neg", "cast"})


class Vanishing:
    """On which inputs values depend, and which lie behind a singular head; worked out when first asked for."""

    def __init__(self, builder: Builder, bindings: list[Node], partials: Partials) -> None:
        self.builder = builder
        self.bindings = bindings
        self.primals = {b.result: b for b in bindings}
        self.partials = partials
        self._inputs: dict[Atom, int] = {}
        self._behind: set[Atom] = set()

    def together(self, factor: Atom, binding: Node) -> bool:
        """Whether a factor of the partials of `binding`, a singular head, may vanish with what is under it."""
        if isinstance(factor, Constant):
            return False
        if not self._inputs:
            self._follow()
        head = self._inputs.get(binding.result, 0)
        pending, shared = [factor], False
        for _ in range(_FAR):
            if not pending:
                return shared
            atom = pending.pop()
            made = self.primals.get(atom)
            if made is not None and made.op in _POSITIVE:
                continue
            if made is not None and made.op in _FACTORS:
                pending += made.operands[: 1 if made.op == "div" else None]
            elif atom in self._inputs:
                if atom in self._behind:
                    return False
                shared = shared or bool(self._inputs[atom] & head)
            else:
                pending += atom.operands
        return False

    def zero_times_infinity(self, zero: Atom, infinite: Atom | None, product: Atom) -> Atom:
        """A product, zero where one factor is zero and the other infinite: with no derivative of its own where the zero is a
        value that another point would change, as one in x**2/x, and with derivative zero where it is that of no branch.
        """
        b = self.builder
        if infinite is None or isinstance(infinite, Constant):
            return product
        met = b.emit("and", (b.emit("eq", (zero, Constant(0.0))), b.emit("isinf", (infinite,))))
        idle = self._idle(zero, _FAR)
        edge = b.emit("edge", (zero,))
        return b.select(met, edge if idle is None else b.select(idle, Constant(0.0), edge), product)

    def _idle(self, atom: Atom, depth: int) -> Atom | None:
        """Where a value is zero because no branch that has a part in it is taken; None where that is nowhere."""
        b = self.builder
        if not depth or atom.op not in _PASSING:
            return None
        if atom.op == "select":
            condition, true, false = atom.operands
            if is_constant(false, 0):
                return b.emit("not", (condition,))
            return condition if is_constant(true, 0) else None
        parts = [self._idle(operand, depth // len(atom.operands)) for operand in atom.operands]
        found = [part for part in parts if part is not None]
        if not found or (atom.op in ("add", "sub") and len(found) < len(parts)):
            return None
        return functools.reduce(lambda p, q: b.emit("and" if atom.op in ("add", "sub") else "or", (p, q)), found)

    def _follow(self) -> None:
        for binding in self.bindings:
            for operand in binding.operands:
                if operand not in self._inputs:
                    self._inputs[operand] = 0 if isinstance(operand, Constant) else 1 << len(self._inputs)
            mask = 0
            for operand in binding.operands:
                mask |= self._inputs[operand]
            self._inputs[binding.result] = mask
            if self._is_singular(binding) or not self._behind.isdisjoint(binding.operands):
                self._behind.add(binding.result)

    def _is_singular(self, binding: Node) -> bool:
        if has_structural_partials(binding) or binding.op == "select" or binding.dtype in "?l":
            return False
        return self.partials.is_singular(binding)


def derivative_at_zero(b: Builder, under: Atom, value: Atom) -> Atom:
    """A partial that is zero, with no derivative of its own, where what is under a root is zero."""
    return b.select(b.emit("eq", (under, Constant(0.0))), b.emit("edge", (under,)), value)

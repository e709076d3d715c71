"""Which real values can overflow because an exponential does, and whether one exponential alone decides it.

Assumes bindings in order and bounds of their values. Guarantees that a value outside `explosive` overflows for no
exponential's sake, as far as sums, products, powers and moved cells go.
"""

import math

from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.simplification.bounds import Bounds
from symdiff.vocabulary.heads import HEADS

_EXPONENTIALS = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "exp10", "pow"})
_RATES = {"exp": 1.0, "exp2": math.log(2), "exp10": math.log(10)}
_GROWING = frozenset({"add", "sub", "mul", "neg", "cast", "abs", "sqrt", "hypot", "select", "item", *HEADS})
_HANDED = frozenset({"reshape", "broadcast_to", "rint", "getitem"})


class Growth:
    """`explosive` values, and those `alone` at the end of a path of sums, factors and powers from one exponential."""

    def __init__(self, bindings: list[Node], bounds: Bounds) -> None:
        self.bounds = bounds
        self.made: dict[Atom, Node] = {b.result: b for b in bindings}
        self.explosive: set[Atom] = set()
        self.alone: set[Atom] = set()
        for binding in bindings:
            if binding.dtype in "fd" and (self.explosive or binding.op in _EXPONENTIALS):
                self._classify(binding)

    def _classify(self, binding: Node) -> None:
        op, operands = binding.op, binding.operands
        explosive = [o for o in operands if o in self.explosive]
        argument = known_exponential(binding)
        if argument is not None or op in ("expm1", "sinh", "cosh"):
            grows = not self.is_bounded_above(operands[0] if argument is None else argument[0])
            alone = grows and argument is not None
        elif not explosive:
            return
        else:
            power = known_exponent(binding)
            grows = (
                op in _GROWING or power > 0 or (op == "div" and operands[0] in self.explosive) or bool(extreme_by_rule(binding))
            )
            alone = len(explosive) == 1 and explosive[0] in self.alone
            alone = alone and (op in ("add", "sub", "mul", "neg", "cast") or power > 0)
        if grows:
            self.explosive.add(binding.result)
        if alone:
            self.alone.add(binding.result)

    def is_bounded_above(self, atom: Atom) -> bool:
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
        """Whether `atom` is the largest of numbers of which `among` is one, or that rounded."""
        pending = [atom]
        while pending:
            binding = self.made.get(pending.pop())
            if binding is None:
                continue
            if binding.op in _HANDED:
                pending.append(binding.operands[0])
            elif extreme_by_rule(binding) == "max":
                if among in binding.operands:
                    return True
                pending += binding.operands
        return False

    def _is_negative(self, atom: Atom) -> bool:
        if isinstance(atom, Constant):
            return not isinstance(atom.value, complex) and atom.value < 0
        return atom in self.made and self.is_bounded_above(atom)


def known_exponential(binding: Node) -> tuple[Atom, float] | None:
    """(w, k) of an exponential exp(k*w), a power of a positive constant for example; None for anything else."""
    op, operands = binding.op, binding.operands
    if op in _RATES:
        return operands[0], _RATES[op]
    base = operands[0] if op == "pow" else None
    if not isinstance(base, Constant) or isinstance(base.value, (bool, complex)) or isinstance(operands[1], Constant):
        return None
    return (operands[1], math.log(base.value)) if 0 < base.value != 1 else None


def known_exponent(binding: Node) -> float:
    """The constant exponent of a power, 0 for everything else."""
    found = binding.operands[1] if binding.op == "pow" else None
    return 0.0 if not isinstance(found, Constant) or isinstance(found.value, complex) else float(found.value)

"""Polynomials that stand for values near a point, and their derivatives in Horner's form.

Assumes that such a polynomial is chosen where the size of its variable is below a constant; others are differentiated as they
stand.
"""

from collections.abc import Iterable
from itertools import pairwise

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.vocabulary.walking import worked_out

Coefficients = dict[int, float]


def is_disc(binding: Node | None, made: dict[Atom, Node]) -> bool:
    """Whether a condition of ours tells that a value is near zero."""
    if binding is None or binding.op != "lt" or binding.primal or not isinstance(binding.operands[1], Constant):
        return False
    size = made.get(binding.operands[0])
    return size is not None and size.op == "abs" and not size.primal


def in_horners_form(builder: Builder, variable: Atom, coefficients: Coefficients) -> Atom:
    """A polynomial, without the terms that vanish."""
    places = sorted((k for k, a in coefficients.items() if a), reverse=True) or [0]
    found: Atom = Constant(coefficients.get(places[0], 0.0))
    for place, lower in pairwise(dict.fromkeys([*places, 0])):
        if place > lower:
            step = place - lower
            found = builder.mul(found, variable if step == 1 else builder.emit("pow", (variable, Constant(step))))
        if lower in places:
            found = builder.add(found, Constant(coefficients[lower]))
    return found


class Polynomials:
    """Tells which values are such polynomials, and builds their derivatives."""

    def __init__(self, builder: Builder, bindings: Iterable[Node]) -> None:
        self.builder = builder
        self.made = {b.result: b for b in bindings}
        self.variables = {self.made[b.operands[0]].operands[0] for b in bindings if is_disc(b, self.made)}
        self._known: dict[Atom, tuple[Atom, Coefficients] | None] = {}

    def of(self, atom: Atom) -> tuple[Atom, Coefficients] | None:
        """The variable of a polynomial and its coefficients; None for other values."""
        return worked_out(atom, self._known, self._terms, self._found) if self.variables else None  # type: ignore[no-any-return]

    def slopes(self, binding: Node) -> list[tuple[Atom, Atom]] | None:
        """The derivative of a polynomial by its variable; None for other values."""
        known = self.of(binding.result)
        if known is None:
            return None
        return [(known[0], in_horners_form(self.builder, known[0], {k - 1: k * a for k, a in known[1].items() if k}))]

    def _terms(self, atom: Atom) -> list[Atom]:
        """The terms and factors of a value that may be polynomials themselves."""
        binding = self.made.get(atom, atom)
        parts = binding.operands if binding.op in ("add", "mul") else ()
        return [o for o in parts if not isinstance(o, Constant) and o not in self.variables]

    def _found(self, atom: Atom) -> tuple[Atom, Coefficients] | None:
        binding = self.made.get(atom, atom)
        op, operands = binding.op, binding.operands
        if op == "pow":
            base, exponent = operands[0], operands[1].params
            return (base, {exponent: 1.0}) if base in self.variables and type(exponent) is int and exponent > 0 else None
        parts = [self._part(o) for o in operands] if op in ("add", "mul") else [None]
        of = dict.fromkeys(p[0] for p in parts if p is not None and p[0] is not None)
        if None in parts or len(of) != 1:
            return None
        (first, second), found = (p[1] for p in parts if p is not None), Coefficients()
        pairs = [(k, a) for p in (first, second) for k, a in p.items()]
        if op == "mul":
            pairs = [(j + k, p * q) for j, p in first.items() for k, q in second.items()]
        if op == "mul" and min(len(first), len(second)) > 1:
            return None  # what is factored stays factored
        for k, a in pairs:
            found[k] = found.get(k, 0.0) + a
        return next(iter(of)), found

    def _part(self, atom: Atom) -> tuple[Atom | None, Coefficients] | None:
        if isinstance(atom, Constant):
            return None if isinstance(atom.value, complex) else (None, {0: float(atom.value)})
        return (atom, {1: 1.0}) if atom in self.variables else self._known[atom]

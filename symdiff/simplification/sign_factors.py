"""Products of signs in derivatives: sign(x)*sign(x) is 1, at zero too, which is the mean of the limits from both sides, where x
moves, and one of them is the slope of a size. Two that the user wrote are not: x may be zero all around, as maximum(x, 0) is.

Assumes bindings in order, then those that a builder makes for a derivative. Guarantees that a factor sign(x) that two values
share, or a sum's terms with another value, is left out of their product. Of the signs of more than a few
directions in one value none is followed.
"""

import math
from collections.abc import Iterable

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.ir.zeros import is_zero_atom
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import Facts
from symdiff.vocabulary.ops import is_complex

_MANY = 4  # signs that are kept track of in one value
_LINEAR = {  # operations that hand on factors, and the operands from which
    "mul": slice(0, 2), "add": slice(0, 2), "sub": slice(0, 2), "select": slice(1, 3),
    "neg": slice(0, 1), "cast": slice(0, 1), "div": slice(0, 1),
}  # fmt: skip
NONE: frozenset[int] = frozenset()


def watch_signs(builder: Builder, facts: Facts, wrt: Iterable[Atom]) -> None:
    """Have a builder leave out squares of signs, where the bindings that it differentiates can give some."""
    if builder.signs is None and any(b.op in ("abs", "sign") and not is_complex(b.dtype) for b in facts.bindings):
        builder.signs = SignFactors(builder, facts, active_symbols(facts.bindings, wrt))


class SignFactors:
    """The factors sign(x) of the values on a builder, each by the number of x's direction, and those of terms of sums;
    by the complement of the number where the user wrote the sign."""

    def __init__(self, builder: Builder, facts: Facts, moving: set[Atom]) -> None:
        self.builder = builder
        self.facts = facts
        self.moving = moving
        self.made: dict[Atom, Node] = {}
        self._factors: dict[Atom, frozenset[int]] = {}
        self._terms: dict[Atom, frozenset[int]] = {}  # those of some terms
        self._signs: dict[int, Atom] = {}
        self._turned: dict[tuple[Atom, int], Atom] = {}
        for binding in facts.bindings:
            self.note(binding)

    def note(self, binding: Node) -> None:
        """Work out the factors of a new binding."""
        op, operands = binding.op, binding.operands
        if op == "sign" and operands[0] in self.moving and not is_complex(binding.dtype):
            direction = self.facts.direction(operands[0])[0]
            self._signs.setdefault(direction, binding.result)
            factors = terms = frozenset({~direction if binding.primal else direction})
        else:
            places = _LINEAR.get(op)
            if places is None or not any(o in self._terms for o in operands):
                return
            among = [o for o in operands[places] if not is_zero_atom(o)]
            terms = NONE.union(*(self._terms.get(o, NONE) for o in among))
            each = [self._factors.get(o, NONE) for o in among]
            factors = NONE.union(*each) if op == "mul" else frozenset.intersection(*each) if each else NONE
        if terms and len(terms) <= _MANY:
            self._factors[binding.result], self._terms[binding.result] = factors, terms
            self.made[binding.result] = binding

    def product(self, a: Atom, b: Atom) -> Atom | None:
        """a*b without the signs that both have; None where they have none in common."""
        for x, y in ((a, b), (b, a)):
            pairs = [(s, t) for s in self._terms.get(x, NONE) for t in self._factors.get(y, NONE) if s == t >= 0 or s == ~t]
            if pairs:
                sign, other = min(pairs)
                return self.builder.mul(self._times(x, sign), self._times(y, other))
        return None

    def _times(self, atom: Atom, direction: int) -> Atom:
        """A value times the sign of a direction, which is gone from the terms that have it."""
        if is_zero_atom(atom):
            return atom
        key = (atom, direction)
        if key not in self._turned:
            self._turned[key] = self._built(atom, direction)
        return self._turned[key]

    def _built(self, atom: Atom, direction: int) -> Atom:
        b = self.builder
        if direction not in self._terms.get(atom, NONE):
            return self._plain(atom, direction)
        binding = self.made[atom]
        op, operands = binding.op, binding.operands
        if op == "sign":
            code = None if binding.shape == () else binding.dtype
            turned = self.facts.direction(operands[0])[1] * self._orientation(direction)
            return Constant(math.copysign(1.0, turned), code)
        if op == "mul":
            place = 0 if direction in self._terms.get(operands[0], NONE) else 1
            return b.mul(self._times(operands[place], direction), operands[1 - place])
        if op == "neg":
            return b.neg(self._times(operands[0], direction))
        if op == "cast":
            return b.cast(self._times(operands[0], direction), binding.dtype)
        if op == "div":
            return b.emit("div", (self._times(operands[0], direction), operands[1]))
        if op == "select":
            return b.select(operands[0], *(self._times(o, direction) for o in operands[1:]))
        return b.emit(op, tuple(self._times(o, direction) for o in operands))

    def _plain(self, atom: Atom, direction: int) -> Atom:
        return self.builder.emit("mul", (atom, self._signs[max(direction, ~direction)]))

    def _orientation(self, direction: int) -> float:
        """What has the sign that the sign of a direction stands for: that of its first value, or of the opposite."""
        return self.facts.direction(self.made[self._signs[max(direction, ~direction)]].operands[0])[1]

"""Products of slopes of kinks in derivatives, at the kinks: the mean of what both sides have, not the product of the means.

Assumes bindings in order, then those that a builder makes for a derivative. Guarantees that a factor sign(x) that two values
share is left out of their product, that a share in a maximum counts once, that shares which exclude each other leave nothing;
and that other products have the product of those parts as well that turn with the same kink, where it ties. Two signs that
the user wrote are no square: x may be zero all around, as maximum(x, 0) is. Of more than a few kinks in one value none is
followed; kinks in several directions are taken as independent of one another.
"""

import math
from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.ir.zeros import is_zero_atom
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import Facts
from symdiff.simplification.interning import worked_out
from symdiff.simplification.piecewise import Direction, Piecewise, directed, kink_of
from symdiff.vocabulary.ops import is_complex

_MANY = 4  # kinks that are kept track of in one value
_LINEAR = {  # operations that hand on factors, and the operands from which
    "mul": slice(0, 2), "add": slice(0, 2), "sub": slice(0, 2), "select": slice(1, 3),
    "neg": slice(0, 1), "cast": slice(0, 1), "div": slice(0, 1),
}  # fmt: skip
ZERO = Constant(0.0)
Factors = frozenset[tuple[int, int]]  # directions, and whether signs (0), or shares on one side (1, -1), of their kinks
NO_TERMS, NO_FACTORS = frozenset[int](), Factors()


def watch_signs(builder: Builder, facts: Facts, wrt: Iterable[Atom]) -> None:
    """Have a builder take such products, where the bindings that it differentiates can give some."""
    if builder.signs is None and any(
        (kink_of(b) or b.op in ("sign", "call")) and not is_complex(b.dtype) for b in facts.bindings
    ):
        builder.signs = SignFactors(builder, facts, active_symbols(facts.bindings, wrt))


class Kink(NamedTuple):
    """A slope that has one value where x > y and another one where x < y, in terms of a direction in which x - y is positive
    (`turned` 1.0) or negative: on its side, and on the opposite one."""

    x: Atom
    y: Atom
    along: float
    back: float
    direction: int
    turned: float


class SignFactors:
    """The kinks in the values on a builder: of factors, and of terms of sums, each by the number of its direction, by the
    complement of the number where the user wrote the sign."""

    def __init__(self, builder: Builder, facts: Facts, moving: set[Atom]) -> None:
        self.builder = builder
        self.facts = facts
        self.moving = moving
        self.made: dict[Atom, Node] = {}
        self.pieces = Piecewise(facts, self.made)
        self._is_raw = False  # whether products are what they are
        self._is_aside = False  # whether bindings have no kinks
        self._kinks: dict[Atom, Kink] = {}
        self._factors: dict[Atom, Factors] = {}
        self._terms: dict[Atom, frozenset[int]] = {}  # those of some terms
        self._stripped: dict[tuple[Atom, tuple[int, int]], Atom] = {}
        self._turning: dict[Atom, Atom] = {}
        self._ties: dict[int, Atom] = {}
        self._directions: dict[Direction, int] = {}
        for binding in facts.bindings:
            self.note(binding)

    def note(self, binding: Node) -> None:
        """Work out the kinks of a new binding."""
        if self._is_aside:
            return
        self.made[binding.result] = binding
        kink = self._kink(binding) if binding.op in ("sign", "select") and not is_complex(binding.dtype) else None
        if kink is not None:
            self._kinks[binding.result] = kink
            direction = ~kink.direction if binding.primal else kink.direction
            kind = 0 if kink.along == -kink.back else 1 if kink.back == 0 else -1
            is_pure = kind == 0 or kink.along * kink.back == 0
            factors, terms = Factors([(direction, kind)] if is_pure else ()), frozenset([direction])
        else:
            places = _LINEAR.get(binding.op)
            if places is None or not any(o in self._terms for o in binding.operands):
                return
            among = [o for o in binding.operands[places] if not is_zero_atom(o)]
            terms = NO_TERMS.union(*(self._terms.get(o, NO_TERMS) for o in among))
            each = [self._factors.get(o, NO_FACTORS) for o in among]
            factors = NO_FACTORS.union(*each) if binding.op == "mul" else frozenset.intersection(*each) if each else NO_FACTORS
        if terms and len(terms) <= _MANY:
            self._factors[binding.result], self._terms[binding.result] = factors, terms

    def product(self, a: Atom, b: Atom) -> Atom | None:
        """a*b where both turn with one kink; None where they do not."""
        if self._is_raw or a not in self._terms or b not in self._terms:
            return None
        for x, y in ((a, b), (b, a)):
            for s, t in sorted((s, t) for s in self._factors[x] for t in self._factors[y]):
                if s[0] == t[0] >= 0 or s[0] == ~t[0]:
                    return self._shared(x, y, s, t)
        meeting = [s for s in self._terms[a] if ~s in self._terms[b] or (s >= 0 and s in self._terms[b])]
        return self._corrected(a, b, sorted(meeting)) if meeting else None

    def _shared(self, x: Atom, y: Atom, s: tuple[int, int], t: tuple[int, int]) -> Atom | None:
        """The product of two values with a kink among the factors of each."""
        b = self.builder
        if s[1] == 0 == t[1]:
            return b.mul(self._without(x, s), self._without(y, t))
        if s[1] * t[1]:
            return b.mul(x, self._without(y, t)) if s == t else ZERO
        sign, share = (s, t) if t[1] else (t, s)
        x, y = (x, y) if t[1] else (y, x)
        found = b.mul(self._without(x, sign), y)
        return found if share[1] == 1 else b.neg(found)

    def _corrected(self, x: Atom, y: Atom, meeting: list[int]) -> Atom:
        """A product, with what both sides of kinks have in common where these tie."""
        b = self.builder
        product = b.emit("mul", (x, y))
        outer, self._is_raw, self._is_aside = self._is_raw, True, True
        tied = reduce(lambda c, d: b.emit("or", (c, d)), dict.fromkeys(self._tie(s) for s in meeting))
        part = b.select(tied, b.mul(self._turned(x), self._turned(y)), ZERO)
        self._is_raw, self._is_aside = outer, False
        return b.add(product, part)

    # -- what a kink is

    def _kink(self, binding: Node) -> Kink | None:
        """The kink of a sign, or of a share in an extreme as its row writes it."""
        if binding.op == "sign":
            x, y, above, below = binding.operands[0], ZERO, 1.0, -1.0
            if x not in self.moving:
                return None
        else:
            found = None if binding.primal else self._share(binding)
            if found is None:
                return None
            x, y, above, below = found
        direction, turned = self._direction(x, y)
        along, back = (above, below) if turned > 0 else (below, above)
        return Kink(x, y, along, back, direction, turned) if turned else None

    def _share(self, binding: Node) -> tuple[Atom, Atom, float, float] | None:
        """x, y and what a share in their extreme is where x > y and where x < y."""
        asked, chosen = self.made.get(binding.operands[0]), binding.operands[1]
        level = self.made.get(binding.operands[2])
        if asked is None or level is None or level.op != "select" or not isinstance(chosen, Constant):
            return None
        if asked.op not in ("lt", "gt", "eq") or asked.operands[0] is asked.operands[1]:
            return None
        tie, other = self.made.get(level.operands[0]), self.made.get(level.operands[2])
        if asked.op == "eq" and chosen.value == 0.5 and tie is not None and tie.op == "eq":
            extreme = self.made.get(tie.operands[0])
            if extreme is None or extreme.op not in ("fmax", "fmin") or {*extreme.operands} != {*asked.operands}:
                return None
            x, y = tie.operands[1], next(o for o in asked.operands if o is not tie.operands[1])
            return (x, y, 1.0, 0.0) if extreme.op == "fmax" else (x, y, 0.0, 1.0)
        rest = level.operands[2] if other is None else other.operands[1] if other.op == "select" else None
        if asked.op == "eq" or tie is None or tie.op != "eq" or not isinstance(rest, Constant):
            return None
        if {*tie.operands} != {*asked.operands} or (other is not None and not math.isnan(other.operands[2].params)):
            return None
        sides = (float(chosen.value), float(rest.value))
        x, y = asked.operands
        return (x, y, *sides) if asked.op == "gt" else (x, y, *sides[::-1])

    def _direction(self, x: Atom, y: Atom) -> tuple[int, float]:
        """The number of the direction of x - y, and whether it points there (1.0) or back; (0, 0.0) where that is constant."""
        key, scale = directed(self.pieces.gap(x, y))
        if not key:
            return 0, 0.0
        if key not in self._directions:
            self._directions[key] = len(self._directions)
        return self._directions[key], scale

    # -- values without a kink, and what turns with it

    def _tie(self, direction: int) -> Atom:
        """Where a kink ties."""
        if direction not in self._ties:
            kink = next(k for k in self._kinks.values() if k.direction == max(direction, ~direction))
            self._ties[direction] = self.builder.emit("eq", (kink.x, kink.y))
        return self._ties[direction]

    def _turned(self, atom: Atom) -> Atom:
        """Half the difference of what a value is on both sides of its kinks; zero where none ties."""
        return worked_out(atom, self._turning, self._turning_parts, self._turned_of)  # type: ignore[no-any-return]

    def _turning_parts(self, atom: Atom) -> tuple[Atom, ...]:
        binding = self.made.get(atom)
        return binding.operands[_LINEAR[binding.op]] if binding is not None and self._follows(atom) else ()

    def _follows(self, atom: Atom) -> bool:
        return atom in self._terms and atom not in self._kinks

    def _turned_of(self, atom: Atom) -> Atom:
        b = self.builder
        if not self._follows(atom):
            kink = self._kinks.get(atom)
            if kink is None or atom not in self._terms:
                return ZERO
            code = None if atom.shape == () else atom.dtype
            return b.select(self._tie(kink.direction), Constant((kink.along - kink.back) / 2, code), Constant(0.0, code))
        binding = self.made[atom]
        op, operands = binding.op, binding.operands
        parts = [self._turning[o] for o in self._turning_parts(atom)]
        if op == "mul":
            return b.add(b.mul(parts[0], operands[1]), b.mul(operands[0], parts[1]))
        if op in ("add", "sub"):
            return b.add(parts[0], parts[1] if op == "add" else b.neg(parts[1]))
        if op == "neg":
            return b.neg(parts[0])
        if op == "cast":
            return b.cast(parts[0], binding.dtype)
        if op == "div":
            return b.emit("div", (parts[0], operands[1]))
        return b.select(operands[0], *parts)

    def _without(self, atom: Atom, factor: tuple[int, int]) -> Atom:
        """A value without a factor that it has."""
        if is_zero_atom(atom):
            return atom
        key = (atom, factor)
        if key not in self._stripped:
            self._stripped[key] = self._built(atom, factor)
        return self._stripped[key]

    def _built(self, atom: Atom, factor: tuple[int, int]) -> Atom:
        b, binding = self.builder, self.made[atom]
        op, operands = binding.op, binding.operands
        if atom in self._kinks:
            kink = self._kinks[atom]
            return Constant(kink.along or kink.back, None if atom.shape == () else atom.dtype)
        if op == "mul":
            place = 0 if factor in self._factors.get(operands[0], NO_FACTORS) else 1
            left = self._without(operands[place], factor)
            outer, self._is_raw = self._is_raw, True  # what else both turn with has been told
            found = b.mul(left, operands[1 - place])
            self._is_raw = outer
            return found
        if op == "neg":
            return b.neg(self._without(operands[0], factor))
        if op == "cast":
            return b.cast(self._without(operands[0], factor), binding.dtype)
        if op == "div":
            return b.emit("div", (self._without(operands[0], factor), operands[1]))
        if op == "select":
            return b.select(operands[0], *(self._without(o, factor) for o in operands[1:]))
        return b.emit(op, tuple(self._without(o, factor) for o in operands))

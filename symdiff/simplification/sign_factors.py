"""Products of slopes of kinks in derivatives, at the kinks: the mean of what both sides have, not the product of the means.

Assumes bindings in order, then those that a builder makes for a derivative. A value with kinks is a polynomial of signs, which
are -1 or 1 with equal shares where a kink ties; what is computed is its mean. Guarantees that the mean of a product has the
products of the parts, too, that turn with the same kinks. Two signs that the user wrote are no square: x may be zero all
around, as maximum(x, 0) is. Of more than a few kinks in one value none is followed; kinks in several directions are taken as
independent of one another.
"""

import math
from collections.abc import Iterable
from functools import reduce
from itertools import combinations
from typing import NamedTuple

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.ir.zeros import is_zero_atom
from symdiff.rulebooks.calls import kink_by_rule
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import Facts
from symdiff.simplification.piecewise import Direction, Piecewise, directed
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_MANY = 4  # kinks that are kept track of in one value
_LINEAR = {  # operations that hand on factors, and the operands from which
    "mul": slice(0, 2), "add": slice(0, 2), "sub": slice(0, 2), "select": slice(1, 3),
    "neg": slice(0, 1), "cast": slice(0, 1), "div": slice(0, 1),
}  # fmt: skip
_COMPARING = operations("compares")
ZERO = Constant(0.0)
Signs = frozenset[int]
Factors = frozenset[tuple[int, int]]  # directions, and whether signs (0), or shares on one side (1, -1), of their kinks
NO_TERMS = Signs()


def watch_signs(builder: Builder, facts: Facts, wrt: Iterable[Atom]) -> None:
    """Have a builder take such products, where the bindings that it differentiates can give some."""
    if builder.signs is None and any(
        (kink_by_rule(b) or b.op in ("sign", "call")) and not is_complex(b.dtype) for b in facts.bindings
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
        self._is_aside = False  # whether bindings have no kinks, and products are what they are
        self._kinks: dict[Atom, Kink] = {}
        self._factors: dict[Atom, Factors] = {}
        self._terms: dict[Atom, frozenset[int]] = {}  # those of some terms
        self._stripped: dict[tuple[Atom, tuple[int, int]], Atom] = {}
        self._turning: dict[tuple[Atom, Signs], Atom] = {}
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
            terms = frozenset([~kink.direction if binding.primal else kink.direction])
            kind = 0 if kink.along == -kink.back else 1 if kink.back == 0 else -1
            factors = Factors((s, kind) for s in terms if kind == 0 or kink.along * kink.back == 0)
        else:
            parts = [o for o in binding.operands[_LINEAR.get(binding.op, slice(0))] if not is_zero_atom(o)]
            terms = NO_TERMS.union(*(self._terms.get(o, NO_TERMS) for o in parts))
            each = [self._factors.get(o, Factors()) for o in parts] or [Factors()]
            factors = Factors.union(*each) if binding.op == "mul" else Factors.intersection(*each)
        if terms and len(terms) <= _MANY:
            self._factors[binding.result], self._terms[binding.result] = factors, terms

    def product(self, a: Atom, b: Atom) -> Atom | None:
        """a*b where both turn with one kink; None where they do not."""
        if self._is_aside or self._is_raw or a not in self._terms or b not in self._terms:
            return None
        for x, y in ((a, b), (b, a)):
            for s, t in sorted((s, t) for s in self._factors[x] for t in self._factors[y]):
                if s[0] == t[0] >= 0 or s[0] == ~t[0]:
                    return self._shared(x, y, s, t)
        meeting = sorted(max(s, ~s) for s in self._terms[a] if ~s in self._terms[b] or (s >= 0 and s in self._terms[b]))
        return self._corrected(a, b, meeting) if meeting else None

    def _shared(self, x: Atom, y: Atom, s: tuple[int, int], t: tuple[int, int]) -> Atom:
        """The product of two values with a kink among the factors of each: signs leave nothing, shares one of them."""
        b = self.builder
        if s[1] * t[1]:
            return b.mul(x, self._without(y, t)) if s == t else ZERO
        if s[1] == t[1]:
            return b.mul(self._without(x, s), self._without(y, t))
        found = b.mul(x, self._without(y, t)) if s[1] else b.mul(self._without(x, s), y)
        return found if s[1] + t[1] == 1 else b.neg(found)

    def _without(self, atom: Atom, factor: tuple[int, int]) -> Atom:
        """A value without a factor that it has."""
        if is_zero_atom(atom):
            return atom
        if (atom, factor) not in self._stripped:
            binding = self.made[atom]
            if atom in self._kinks:
                kink = self._kinks[atom]
                found: Atom = Constant(kink.along or kink.back, None if atom.shape == () else atom.dtype)
            elif binding.op == "mul":
                x, y = binding.operands[:: 1 if factor in self._factors.get(binding.operands[0], ()) else -1]
                rest, outer, self._is_raw = self._without(x, factor), self._is_raw, True  # what else they share has been told
                found, self._is_raw = self.builder.mul(rest, y), outer
            else:
                found = self._again(binding, [self._without(o, factor) for o in binding.operands[_LINEAR[binding.op]]])
            self._stripped[atom, factor] = found
        return self._stripped[atom, factor]

    def _again(self, binding: Node, parts: list[Atom]) -> Atom:
        """A linear operation of other values."""
        b, op = self.builder, binding.op
        if op in ("add", "sub"):
            return b.add(parts[0], parts[1] if op == "add" else b.neg(parts[1]))
        if op in ("neg", "cast"):
            return b.neg(parts[0]) if op == "neg" else b.cast(parts[0], binding.dtype)
        return b.emit("div", (parts[0], binding.operands[1])) if op == "div" else b.select(binding.operands[0], *parts)

    def _corrected(self, x: Atom, y: Atom, meeting: list[int]) -> Atom:
        """A product, with what turns in both factors where kinks tie."""
        b = self.builder
        product, self._is_aside = b.emit("mul", (x, y)), True
        tied = reduce(lambda c, d: b.emit("or", (c, d)), map(self._tie, meeting))
        parts = [b.mul(self._turned(x, signs), self._turned(y, signs)) for signs in _subsets(meeting) if signs]
        part = b.select(tied, reduce(b.add, parts), ZERO)
        self._is_aside = False
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
        """x, y and what a choice between constants by their order is where x > y and where x < y."""
        asked = self.made.get(binding.operands[0])
        if asked is None or asked.op not in ("lt", "gt", "eq"):
            return None
        x, y = asked.operands
        above, below = (self._side(binding.result, {x: 1.0 - k, y: k}) for k in (0.0, 1.0))
        return (x, y, above, below) if abs(above - below) > 0 and x is not y else None  # NaN is greater than nothing

    def _side(self, atom: Atom, at: dict[Atom, float]) -> float:
        """What such a choice is where some values are these, which are added to; NaN for anything else."""
        made = self.made.get(atom)
        if made is None or atom in at or not (made.op in _COMPARING or made.op in ("select", "fmax", "fmin")):
            return at.get(atom, atom.value if isinstance(atom, Constant) else math.nan)
        first = self._side(made.operands[0], at)
        if made.op != "select":
            at[atom] = float(OPS[made.op].function()(first, self._side(made.operands[1], at)))
        else:
            at[atom] = first if math.isnan(first) else self._side(made.operands[1 if first else 2], at)
        return at[atom]

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

    def _turned(self, atom: Atom, signs: Signs) -> Atom:
        """What turns in a value with each of some kinks, half of the difference of its sides; zero where one does not tie."""
        return worked_out((atom, signs), self._turning, self._below, self._found)  # type: ignore[no-any-return]

    def _below(self, key: tuple[Atom, Signs]) -> list[tuple[Atom, Signs]]:
        """The operands' parts that such a part is made of, those of factors in pairs."""
        (atom, signs), binding = key, self.made.get(key[0])
        if not signs or atom in self._kinks or atom not in self._terms or binding is None:
            return []
        if binding.op != "mul":
            return [(o, signs) for o in binding.operands[_LINEAR[binding.op]]]
        known = [frozenset(max(s, ~s) for s in self._terms.get(o, NO_TERMS)) for o in binding.operands]
        return [part for own in _subsets(sorted(known[0])) if signs ^ own <= known[1]
                for part in ((binding.operands[0], own), (binding.operands[1], signs ^ own))]  # fmt: skip

    def _found(self, key: tuple[Atom, Signs]) -> Atom:
        (atom, signs), b = key, self.builder
        parts = [self._turning[part] for part in self._below(key)]
        if not signs:
            return atom
        if not parts:
            kink = self._kinks.get(atom)
            if kink is None or signs != {kink.direction}:
                return ZERO
            code = None if atom.shape == () else atom.dtype
            return b.select(self._tie(kink.direction), Constant((kink.along - kink.back) / 2, code), Constant(0.0, code))
        is_product = self.made[atom].op == "mul"
        return reduce(b.add, map(b.mul, parts[::2], parts[1::2])) if is_product else self._again(self.made[atom], parts)


def _subsets(signs: list[int]) -> list[Signs]:
    return [frozenset(some) for n in range(len(signs) + 1) for some in combinations(signs, n)]

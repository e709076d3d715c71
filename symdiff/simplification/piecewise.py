"""Values as the largest of the least of sums of others: max(x, min(x, y)) is x, max(x, -x) the size of x.

Assumes bindings in order. Guarantees the same values where those that are compared are numbers: an extreme is the operand that
is never beyond the others by the order of sums, by what is known of values and by squares, and kinks of kinks which tie
together are one kink. What has more than a few sums counts as a value of its own.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product

import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import kink_by_rule
from symdiff.simplification.facts import Facts
from symdiff.simplification.intervals import real_number
from symdiff.simplification.rewriting import replaced
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_MANY = 8  # values in a sum
_SUMS, _MOST = 6, 24  # in a form, and before it is reduced
_FOLLOWED = operations("linear", "scales") & OPS.keys()
_ROUNDING = 1e-12
Terms = dict[int | None, float]  # factors by the numbers of values, that of 1 by None
Form = tuple[tuple[Terms, ...], ...]  # the largest of what is each the least of some sums
Direction = tuple[tuple[int | None, float], ...]  # a sum whose first factor is 1


class Piecewise:
    """The forms of the values of a list of bindings, and of others that are noted in `made`."""

    def __init__(self, facts: Facts, made: dict[Atom, Node]) -> None:
        self.facts = facts
        self.made = made
        self.atoms: dict[int, tuple[Atom, float]] = {}  # multiples of values, and the factors
        self._forms: dict[Atom, Form] = {}
        self._products: dict[int, tuple[int, ...]] = {}

    def of(self, atom: Atom) -> Form:
        """What a value is."""
        return worked_out(atom, self._forms, self._parts, self._form)  # type: ignore[no-any-return]

    def gap(self, x: Atom, y: Atom) -> Terms:
        """The difference of two values as a sum."""
        forms = [self.of(x), self.of(y)]
        parts = [f[0][0] if all(map(is_sum, forms)) else Terms({self.facts.number(o): 1.0})
                 for f, o in zip(forms, (x, y), strict=True)]  # fmt: skip
        return added(*parts, -1.0)

    def _parts(self, atom: Atom) -> tuple[Atom, ...]:
        made = self.made.get(atom)
        is_followed = made is not None and made.dtype in "fd" and (made.op in _FOLLOWED or kink_by_rule(made))
        return made.operands if is_followed else ()  # type: ignore[union-attr]

    def _form(self, atom: Atom) -> Form:
        known = real_number(atom)
        if known is not None and abs(known) < 1e300:
            return (({None: known} if known else {},),)
        parts = [self._forms[o] for o in self._parts(atom)]
        found = self._computed(self.made[atom], parts) if parts else None
        if found is not None and _size(found) <= _SUMS and all(len(t) <= _MANY for clause in found for t in clause):
            return found
        number, factor = self.facts.direction(atom)
        self.atoms.setdefault(number, (atom, factor))
        return (({number: factor},),)

    def _computed(self, made: Node, parts: list[Form]) -> Form | None:
        op, kind = made.op, kink_by_rule(made)
        if kind:
            place, parts = self.extreme(kind, parts)
            clauses = math.prod(map(len, parts)) if kind == "min" else len(parts)
            if place is not None or clauses > _MOST:
                return None if place is None else parts[place]
            return self._reduced(_joined(kind, parts))
        if op in ("add", "sub"):
            second = parts[1] if op == "add" else scaled(parts[1], -1.0)
            return self._reduced(tuple(tuple(added(s, t) for s in c for t in d) for c in parts[0] for d in second))
        if op in ("neg", "cast"):
            return parts[0] if op == "cast" else self._reduced(scaled(parts[0], -1.0))
        factors = [p[0][0].get(None, 0.0) if is_sum(p) and not p[0][0].keys() - {None} else None for p in parts]
        place = next((k for k, c in enumerate(factors) if c is not None and (op == "mul" or (op == "div" and k and c))), None)
        if place is None:
            return None
        factor = factors[place] if op == "mul" else 1 / factors[place]  # type: ignore[operator]
        return self._reduced(scaled(parts[1 - place], factor)) if factor else (({},),)  # type: ignore[arg-type]

    # -- what is never less

    def extreme(self, kind: str, parts: Sequence[Form]) -> tuple[int | None, Sequence[Form]]:
        """The place of the value that an extreme of some is everywhere, not looked for among many, and these."""
        if len(parts) > _MOST:
            return None, parts
        parts = (parts[0], scaled(parts[0], -1.0)) if kind == "abs" else parts
        pairs = [(p, q)[:: -1 if kind == "min" else 1] for p in parts for q in parts]
        fits = [p is q or self._is_above(p, q) for p, q in pairs]
        rows = [all(fits[k : k + len(parts)]) for k in range(0, len(fits), len(parts))]
        return rows.index(True) if True in rows else None, parts

    def _is_above(self, form: Form, other: Form) -> bool:
        """Whether one value is never less than another one: whichever sums of its clauses are the least ones, one of them is
        not below one of those of any clause."""
        return all(any(self._beyond([d], c) for d in form) or (_size(form) <= _SUMS and self._beyond(form, c)) for c in other)

    def _beyond(self, form: Iterable[tuple[Terms, ...]], clause: tuple[Terms, ...]) -> bool:
        return all(self._reaches([added(s, t, -1.0) for s in least for t in clause]) for least in product(*form))

    def _reaches(self, gaps: list[Terms]) -> bool:
        """Whether the largest of some sums, or of two that are opposite but for a number, is never negative."""
        if any(self._least(gap) >= 0 for gap in gaps):
            return True
        for p, q in combinations(gaps, 2):
            n = next((n for n in p if n is not None), None)
            if p.keys() - {None} == q.keys() - {None} and p[n] * q[n] < 0 and self._least(added(p, q, -p[n] / q[n])) >= 0:
                return True
        return False

    def _least(self, terms: Terms) -> float:
        """A number that a sum is never below."""
        low = last = terms.get(None, 0.0)
        for n, c in terms.items():
            if n is not None and low > -math.inf:
                atom, factor = self.atoms[n]
                fact, c = self.facts.of(atom), c / factor
                low += c * (fact.low if c > 0 else fact.high)
        return last if not low >= last and len(terms) > 1 and self._is_square(terms) else low

    def _is_square(self, terms: Terms) -> bool:
        """Whether a sum of products is a sum of squares, but for a constant."""
        pairs = [(self._factors(n), c) for n, c in terms.items() if n is not None]
        names = list(dict.fromkeys(pair[0] for pair, _ in pairs if pair and pair[0] == pair[1]))
        if not all(pair and pair[0] in names and pair[1] in names for pair, _ in pairs):
            return False
        whole = np.zeros((len(names), len(names)))
        for (first, second), c in pairs:
            whole[names.index(first), names.index(second)] += c / 2
            whole[names.index(second), names.index(first)] += c / 2
        return bool(np.linalg.eigvalsh(whole)[0] >= -_ROUNDING * np.max(np.abs(whole)))

    def _factors(self, number: int) -> tuple[int, ...]:
        """The numbers of the factors of a product, or a square."""
        if number not in self._products:
            made = self.facts.node(self.atoms[number][0])
            factors = made.operands[:1] * 2 if self.facts.exponent(made) == 2 else ()
            factors = [self.facts.multiple(o)[0] for o in made.operands] if made.op == "mul" else factors
            self._products[number] = tuple(map(self.facts.number, factors))
        return self._products[number]

    def _reduced(self, form: Form) -> Form:
        """A form without what makes no difference to it."""
        form = tuple(tuple(t for k, t in enumerate(clause) if t not in clause[:k]) for clause in form)
        clauses = list(form) if 1 < _size(form) <= _MOST else []
        for k, clause in enumerate(clauses):
            for term in clause:
                less = tuple(t for t in clauses[k] if t is not term)
                if less and self._is_above(tuple(clauses), (less,)):
                    clauses[k] = less
        for clause in [*clauses]:
            others = tuple(c for c in clauses if c is not clause)
            if others and self._is_above(others, (clause,)):
                clauses.remove(clause)
        return tuple(clauses) or form

    # -- as operations

    def seen(self, builder: Builder, binding: Node, kind: str) -> Atom | None:
        """What an extreme is in terms of less kinks; None where it is what it is."""
        parts = [self.of(o) for o in binding.operands]
        place, among = self.extreme(kind, parts)
        if place is not None:
            return binding.operands[place] if place < len(parts) else builder.neg(binding.operands[0])
        form = self.of(binding.result)
        is_less = _count(form) < sum(map(_count, among)) and form[0][0] != {self.facts.number(binding.result): 1.0}
        return self.emitted(builder, form) if is_less and _size(form) <= 2 else None  # of more, ties are shared as written

    def emitted(self, builder: Builder, form: Form) -> Atom:
        """A sum, or the larger or smaller one of two, as operations."""
        if is_sum(form):
            return self._sum(builder, form[0][0])
        a, b = form[0] if len(form) == 1 else (form[0][0], form[1][0])
        direction, size = directed(added(a, b, -1.0))
        mean, size = added(scaled_terms(a, 0.5), b, 0.5), abs(size) / (2.0 if len(form) > 1 else -2.0)
        distance = builder.emit("abs", (self._sum(builder, dict(direction)),))
        return builder.add(self._sum(builder, mean), builder.mul(Constant(size), distance))

    def _sum(self, b: Builder, terms: Terms) -> Atom:
        found: Atom | None = None
        for n, c in terms.items():
            term = Constant(c) if n is None else b.mul(Constant(c / self.atoms[n][1]), self.atoms[n][0])
            found = term if found is None else b.add(found, term)
        return Constant(0.0) if found is None else found


def is_sum(form: Form) -> bool:
    """Whether a value has no kinks."""
    return len(form) == len(form[0]) == 1


def _size(form: Form) -> int:
    return sum(map(len, form))


def _count(form: Form) -> int:
    """How many sums a form is made of."""
    among = [t for clause in form for t in clause]
    return sum(t not in among[:k] for k, t in enumerate(among))


def scaled_terms(terms: Terms, factor: float) -> Terms:
    """A multiple of a sum."""
    return {n: c * factor for n, c in terms.items()}


def added(a: Terms, b: Terms, factor: float = 1.0) -> Terms:
    """A sum and a multiple of another one."""
    return {n: c for n in (*a, *(n for n in b if n not in a)) if (c := a.get(n, 0.0) + factor * b.get(n, 0.0))}


def scaled(form: Form, factor: float) -> Form:
    """A multiple of a value; the largest of the least becomes the least of the largest, and that the largest of the least."""
    form = form if factor > 0 else tuple(product(*form))
    return tuple(tuple(scaled_terms(t, factor) for t in clause) for clause in form)


def _joined(kind: str, parts: Sequence[Form]) -> Form:
    """The extreme of some values."""
    if kind != "min":
        return tuple(clause for part in parts for clause in part)
    return tuple(tuple(t for clause in clauses for t in clause) for clauses in product(*parts))


def directed(terms: Terms) -> tuple[Direction, float]:
    """The direction of a sum, and the multiple of it that the sum is; none where it is constant."""
    numbers = sorted(n for n in terms if n is not None)
    if not numbers:
        return (), 0.0
    scale = terms[numbers[0]]
    last = terms.get(None, 0.0) / scale
    return (*((n, terms[n] / scale) for n in numbers), *([(None, last)] if last else [])), scale


def flattened(facts: Facts, builder: Builder) -> list[Node]:
    """The bindings with extremes that are one of their operands as this, and with kinks of kinks that tie together as one kink,
    or none; new symbols are bound on the builder."""
    pieces = Piecewise(facts, facts.made)

    def seen(binding: Node) -> Atom | None:
        kind = kink_by_rule(binding) if binding.primal and binding.dtype in "fd" else ""
        return pieces.seen(builder, binding, kind) if kind else None

    return replaced(facts.bindings, builder, seen)

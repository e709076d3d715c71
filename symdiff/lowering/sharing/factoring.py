"""Common factors and constants are taken out of sums, the largest saving first.

Assumes sums as lists of (coefficient, monomial). Guarantees that a rewrite only regroups: every term keeps its value, the
order of the others stays, and nothing is expanded. Refuses sums of more than `MAX_TERMS` terms, which stay as they are.

Source: greedy kernel extraction in the manner of Hosangadi, Fallah and Kastner, Optimizing polynomial expressions by
algebraic factorization and common subexpression elimination, IEEE TCAD 25 (2006).
"""

import heapq
from collections.abc import Iterable

from symdiff.ir.node import Number
from symdiff.lowering.sharing.monomials import Form, Monomial, degree, times

MAX_TERMS = 400  # longer sums are not factored: each change enumerates a sum anew
MAX_DIVISORS = 8  # the most frequent coefficients of a sum are tried as its common constant
Terms = list[Form]
Key = tuple[tuple[Number, Monomial], ...]


def canonical_factor(terms: Terms) -> tuple[Key, int]:
    """The terms sorted, with a sign that makes the first coefficient positive, and that sign."""
    ordered = sorted(terms, key=lambda t: t[1])
    first = ordered[0][0]
    negative = (first.real, first.imag) < (0, 0) if isinstance(first, complex) else first < 0
    sign = -1 if negative else 1
    return tuple((c * sign, m) for c, m in ordered), sign


class Factoring:
    """Sums by atom, rewritten in place; `fresh(terms, like)` makes the atom of a new sum like the given one."""

    def __init__(self, sums: dict[int, Terms], fresh: "Fresh") -> None:
        self.sums = sums
        self.fresh = fresh
        self.known: dict[Key, tuple[int, int]] = {}
        self.buckets: dict[Key, dict[tuple[int, Monomial], tuple[int, frozenset[Monomial]]]] = {}
        self.degrees: dict[Key, int] = {}  # of what is taken out, over the bucket
        self.entered: dict[int, list[tuple[Key, Monomial]]] = {}
        self.heap: list[tuple[float, int, Key]] = []
        self.count = 0

    def run(self) -> None:
        """Apply factorings until none saves an operation."""
        for atom in sorted(self.sums):
            self._learn(atom)
        for atom in sorted(self.sums):
            self._enter(atom)
        while self.heap:
            negated, _, key = heapq.heappop(self.heap)
            score = self._score(key)
            if score <= 0:
                continue
            if score < -negated:
                self._push(key, score)
                continue
            self._apply(key)

    def _learn(self, atom: int) -> None:
        terms = self.sums[atom]
        if len(terms) > 1:
            key, sign = canonical_factor(terms)
            self.known.setdefault(key, (atom, sign))

    def _enter(self, atom: int) -> None:
        terms = self.sums[atom]
        for key, monomial in self.entered.pop(atom, ()):
            if self.buckets.get(key, {}).pop((atom, monomial), None):
                self.degrees[key] -= degree(monomial)
        if not 2 <= len(terms) <= MAX_TERMS:
            return
        places: dict[tuple[int, bool], list[Form]] = {}
        for form in terms:
            for factor, e in form[1]:
                places.setdefault((factor, e > 0), []).append(form)
        seen: set[Monomial] = set()
        entered = []
        for group in places.values():
            if len(group) < 2:
                continue
            common = _common([m for _, m in group])
            if common in seen:
                continue
            seen.add(common)
            inverse = tuple((a, -e) for a, e in common)
            key, sign = canonical_factor([(c, times(m, inverse)) for c, m in group])
            self.buckets.setdefault(key, {})[atom, common] = (sign, frozenset(m for _, m in group))
            self.degrees[key] = self.degrees.get(key, 0) + degree(common)
            entered.append((key, common))
        self.entered[atom] = entered
        for key, _ in entered:
            self._push(key, self._score(key))

    def _push(self, key: Key, score: float) -> None:
        if score > 0:
            self.count += 1
            heapq.heappush(self.heap, (-score, self.count, key))

    def _score(self, key: Key) -> float:
        occurrences = self.buckets.get(key)
        if not occurrences:
            return 0
        saved = (len(key) - 1) * self.degrees[key]
        times_made = len(occurrences) + (key in self.known) - 1
        inner = len(key) - 1 + sum(max(degree(m) - 1, 0) + (c not in (1, -1)) for c, m in key)
        return saved + times_made * inner

    def _apply(self, key: Key) -> None:
        occurrences = self.buckets.pop(key)
        del self.degrees[key]
        first_atom = min(atom for atom, _ in occurrences)
        known = self.known.get(key)
        if known is None or known[0] in {atom for atom, _ in occurrences}:
            order = {m: i for i, (_, m) in enumerate(self.sums[first_atom])}
            sign, _ = next(v for (a, _), v in occurrences.items() if a == first_atom)
            common = next(m for a, m in occurrences if a == first_atom)
            ordered = sorted(key, key=lambda t: order.get(times(t[1], common), 0))
            quotient = self.fresh([(c, m) for c, m in ordered], [a for a, _ in occurrences])
            known = (quotient, 1)
            self.sums[quotient] = [(c, m) for c, m in ordered]
            self.known[key] = known
            self._enter(quotient)
        quotient, known_sign = known
        changed = []
        for (atom, common), (sign, removed) in sorted(occurrences.items()):
            if atom == quotient:
                continue
            terms = self.sums[atom]
            if not removed <= {m for _, m in terms}:
                continue
            at = next(i for i, (_, m) in enumerate(terms) if m in removed)
            kept = [t for t in terms if t[1] not in removed]
            place = sum(1 for _, m in terms[:at] if m not in removed)
            kept.insert(place, (sign * known_sign, times(common, ((quotient, 1),))))
            self.sums[atom] = kept
            changed.append(atom)
        for atom in changed:
            self._learn(atom)
            self._enter(atom)


class Fresh:
    """Makes the atom of a new sum."""

    def __call__(self, terms: Terms, like: list[int]) -> int:
        raise NotImplementedError


def _common(monomials: Iterable[Monomial]) -> Monomial:
    """The largest monomial that divides all: per atom the exponent nearest to zero, where all have one sign."""
    first, *rest = monomials
    found = dict(first)
    for monomial in rest:
        exponents = dict(monomial)
        for atom in list(found):
            e = exponents.get(atom, 0)
            if e * found[atom] <= 0:
                del found[atom]
            elif abs(e) < abs(found[atom]):
                found[atom] = e
    return tuple(sorted(found.items()))


def take_out_constants(sums: dict[int, Terms], others: Terms, fresh: Fresh) -> None:
    """In each sum, take a constant out of the terms it divides where that saves multiplications.

    `others` are the products outside the sums; a constant times an atom that stands there is free in a sum.
    """
    available: dict[tuple[Number, int], int] = {}

    def enter(terms: Terms, step: int) -> None:
        for c, monomial in terms:
            for atom, _ in monomial:
                pair = (abs(c), atom)
                available[pair] = available.get(pair, 0) + step

    for terms in [*sums.values(), others]:
        enter(terms, 1)

    def cost(c: Number, monomial: Monomial, shared_from: int) -> int:
        size = abs(c)
        if size != 1:
            for atom, _ in monomial:
                if available.get((size, atom), 0) >= shared_from:
                    return 0
        return int(size != 1)

    for atom in sorted(sums):
        terms = sums[atom]
        if len(terms) < 2 or any(isinstance(c, complex) for c, _ in terms):
            continue
        best: tuple[int, float, list[Form]] | None = None
        frequency: dict[float, int] = {}
        for c, m in terms:
            if m and abs(c) != 1:
                frequency[abs(c)] = frequency.get(abs(c), 0) + 1
        for divisor in sorted(sorted(frequency, key=lambda d: (-frequency[d], d))[:MAX_DIVISORS]):
            group = [(c, m) for c, m in terms if m and (c / divisor).is_integer()]  # type: ignore[union-attr]
            while len(group) > 1:
                gains = [cost(c, m, 2) - cost(c / divisor, m, 1) for c, m in group]
                saved = sum(gains) - 1
                if saved > 0 and (best is None or saved >= best[0]):
                    best = saved, divisor, list(group)
                dropped = {m for (_, m), gain in zip(group, gains, strict=True) if gain <= 0}
                if not dropped:
                    break
                group = [t for t in group if t[1] not in dropped]
        if best is None:
            continue
        _, divisor, group = best
        chosen = {m for _, m in group}
        quotient_terms = [(c / divisor, m) for c, m in terms if m in chosen]
        sign = -1 if all(c < 0 for c, _ in quotient_terms) else 1  # type: ignore[operator]
        quotient_terms = [(c * sign, m) for c, m in quotient_terms]
        quotient = fresh(quotient_terms, [atom])
        place = next(i for i, (_, m) in enumerate(terms) if m in chosen)
        kept = [t for t in terms if t[1] not in chosen]
        kept.insert(sum(1 for _, m in terms[:place] if m not in chosen), (divisor * sign, ((quotient, 1),)))
        enter(terms, -1)
        sums[atom] = kept
        sums[quotient] = quotient_terms
        enter(kept, 1)
        enter(quotient_terms, 1)

"""Among the true arrangements of a term the shortest in print: factors taken out, common denominators, squares of sums and
differences, what cancels.

Assumes terms of one writer. Guarantees a small number of candidates for each sum, and that what the user wrote stays as it is.
"""

from collections.abc import Collection, Iterator
from fractions import Fraction
from math import gcd, prod

from symdiff.inspection.reading.terms import ONCE, ONE, Term
from symdiff.inspection.reading.written import Writer

_MANY = 16  # terms of a sum beyond which it is left as it is
_SHORTER = 0.7  # of its width, below which a sum is multiplied out
_TERMS = 24  # terms up to which sums are multiplied out
_FACTOR = 12  # width up to which what stands before a brace is written in each of its rows
_BESIDE = 40  # the same in the last row of another
_LONG = 2_000  # printed width beyond which terms are not arranged
Powers = dict[Term, Fraction]


class Arranger:
    """The shortest arrangements of the terms of a writer that are found; terms in `kept` stay."""

    def __init__(self, writer: Writer, kept: Collection[Term] = ()) -> None:
        self.writer = writer
        self.kept = kept
        self._passes: tuple[dict[Term, Term], ...] = ({}, {}, {})
        self._best: dict[Term, Term | None] = {}

    def arranged(self, term: Term) -> Term:
        """The shortest arrangement of a term."""
        if term.width > _LONG:
            return term
        for done in self._passes:
            earlier, term = term, self.writer.rewritten(term, self._best_of, done)
            if term is earlier:
                break
        return _one_brace(term, self.writer)

    def _best_of(self, found: Term) -> Term | None:
        if found not in self._best:
            self._best[found] = None if found in self.kept else self._arranged(found)
        return self._best[found]

    def _arranged(self, found: Term) -> Term | None:
        if found.kind == "product" or (found.kind == "sum" and len(found.parts) == 1):
            candidates = (self._contents_out(found), _paired(found, self.writer) or found, _cleared(found, self.writer))
            return min(candidates, key=lambda term: term.width)
        return _shortest(found, self.writer) if found.kind == "sum" and len(found.parts) <= _MANY else None

    def _contents_out(self, term: Term) -> Term:
        """A product with what all terms of a sum have in common beside the sum: x (4 x + 2 x y) as 2 x**2 (2 + y)."""
        t = self.writer
        factors: list[tuple[Term, Fraction]] = []
        inner, times = (term, ONCE) if term.kind == "product" else term.parts[0]
        for base, exponent in inner.parts if inner.kind == "product" else ((inner, ONCE),):
            found = [base]
            if base.kind == "sum" and len(base.parts) > 1 and exponent.denominator == 1 and not self._is_kept(base):
                found = [*_taken_out(base, [(powers_of(part), c) for part, c in base.parts], t), base]
            factors.append((min(found, key=lambda part: _width_in_product(part) + 2 * (part is base)), exponent))
        return t.scaled(t.powers(factors), times)

    def _is_kept(self, term: Term) -> bool:
        return term in self.kept or self.writer.neg(term) in self.kept


def _width_in_product(term: Term) -> int:
    """The width of a factor, whose number meets the others'."""
    return term.parts[0][0].width if term.kind == "sum" and len(term.parts) == 1 else term.width


def _one_brace(term: Term, writer: Writer, is_row: bool = False) -> Term:
    """A product with one brace among its factors as a brace, and one whose last row has another as one of more rows."""
    if term.kind == "brace":
        *rows, (_, last) = term.parts
        return writer.brace(rows, _one_brace(last, writer, True))
    brace = _only_brace(term)
    is_sum = term.kind == "sum" and len(term.parts) > 1
    if brace is None or term.width - brace.width > (_BESIDE if is_row else _FACTOR) or (is_sum and not is_row):
        return term

    def case(value: Term) -> Term:
        return writer.rewritten(term, lambda part: value if part is brace else None)

    *rows, (_, last) = brace.parts
    return _one_brace(writer.brace([(condition, case(v)) for condition, v in rows], case(last)), writer)


def _only_brace(term: Term) -> Term | None:
    """The brace among the terms and factors of a term, and of these, where there is one."""
    found: set[Term] = set()
    stack = [term]
    while stack and len(found) < 2:
        part = stack.pop()
        if part.kind == "brace":
            found.add(part)
        elif part.kind in ("sum", "product"):
            stack += part.below()
    return found.pop() if len(found) == 1 else None


def _shortest(term: Term, writer: Writer) -> Term:
    seen = {term}
    best = term
    while True:
        candidates = [c for c in _candidates(best, writer) if c not in seen]
        seen.update(candidates)
        found = min(candidates, key=lambda c: c.width, default=best)
        if found.width >= best.width:
            return best
        best = found
        if best.kind != "sum" or len(best.parts) < 2:
            return best


def _candidates(term: Term, writer: Writer) -> Iterator[Term]:
    items = [(powers_of(t), c) for t, c in term.parts]
    if len(items) == 1:
        return
    expanded = _expanded(term, writer)
    if expanded is not None and _count(expanded) < len(items):
        yield expanded
    yield from _taken_out(term, items, writer)
    multiplied = _multiplied_out(term, writer)
    if multiplied is not None:
        yield from (c for c in (multiplied, _by_functions(multiplied, writer)) if c.width < _SHORTER * term.width)
    yield from _constants_met(term, writer)
    for base in {b: None for powers, _ in items for b in powers}:
        having = [k for k, (powers, _) in enumerate(items) if base in powers]
        if 2 <= len(having) < len(items):
            part = writer.add([term.parts[k] for k in having])
            rest = [term.parts[k] for k in range(len(items)) if k not in having]
            if part.kind == "sum":
                for found in _taken_out(part, [items[k] for k in having], writer):
                    yield writer.add([(found, Fraction(1)), *rest])


def _count(term: Term) -> int:
    return len(term.parts) if term.kind == "sum" else 1


def _constants_met(term: Term, writer: Writer) -> Iterator[Term]:
    """A sum of a number and a multiple of a sum with a number: 4 (x + 3) + 2 as 4 x + 14."""
    parts = dict(term.parts)
    if ONE in parts:
        for inner, c in term.parts:
            numbers = dict(inner.parts) if inner.kind == "sum" else {}
            if ONE in numbers:
                rest = [(t, k) for t, k in term.parts if t is not inner and t is not ONE]
                inside = [(t, k * c) for t, k in inner.parts if t is not ONE]
                yield writer.add([*rest, *inside, (ONE, parts[ONE] + c * numbers[ONE])])


def powers_of(term: Term) -> Powers:
    """The factors of a term with their exponents."""
    return dict(term.parts) if term.kind == "product" else {} if term is ONE else {term: Fraction(1)}


def _taken_out(term: Term, items: list[tuple[Powers, Fraction]], writer: Writer) -> Iterator[Term]:
    """The sum with common factors in front, and over common denominators."""
    bases = list({b: None for powers, _ in items for b in powers})
    lowest = {b: min(powers.get(b, Fraction(0)) for powers, _ in items) for b in bases}
    common = _common_number([c for _, c in items])
    for wanted in (lambda e: e > 0, lambda e: e != 0):
        factors = {b: e for b, e in lowest.items() if wanted(e)}
        if factors or common != 1:
            rest = []
            for powers, c in items:
                left = {b: powers.get(b, Fraction(0)) - factors.get(b, Fraction(0)) for b in {**powers, **factors}}
                rest.append((writer.powers(left.items()), c / common))
            inside = writer.add(rest)
            yield writer.powers([(writer.number(common), Fraction(1)), (inside, Fraction(1)), *factors.items()])
            expanded = _expanded(inside, writer) if inside.kind == "sum" else None
            if expanded is not None and _count(expanded) < len(items):
                yield writer.powers([(writer.number(common), Fraction(1)), (expanded, Fraction(1)), *factors.items()])


def _common_number(coefficients: list[Fraction]) -> Fraction:
    """The greatest number that all coefficients are integer multiples of, negative where all are."""
    if any(c.denominator > 1000 or abs(c.numerator) > 10**6 for c in coefficients):
        return Fraction(1)
    found = Fraction(gcd(*(c.numerator for c in coefficients)), 1)
    below = coefficients[0].denominator
    if all(c.denominator == below for c in coefficients):
        found /= below
    return -found if all(c < 0 for c in coefficients) else found


def _expanded(term: Term, writer: Writer) -> Term | None:
    """A sum with the sums among its factors multiplied out, where they are short; None where there are none."""
    found: list[tuple[Term, Fraction]] = []
    changed = False
    for t, c in term.parts:
        rows: list[tuple[Powers, Fraction]] = [({}, c)]
        for base, exponent in powers_of(t).items():
            times = int(exponent) if exponent in (1, 2) and base.kind == "sum" and len(base.parts) <= 3 else 0
            changed = changed or times > 0
            if not times:
                rows = [(_times(powers, base, exponent), k) for powers, k in rows]
            for _ in range(times):
                rows = [(_product(powers, powers_of(inner)), k * factor) for powers, k in rows for inner, factor in base.parts]
            if len(rows) > 12:
                return None
        found += [(writer.powers(powers.items()), k) for powers, k in rows]
    return writer.add(found) if changed else None


def _multiplied_out(term: Term, writer: Writer) -> Term | None:
    """A sum with all sums multiplied out that are factors, and factors of these; None where they are none or become long."""
    pending: list[tuple[Powers, Fraction]] = [(powers_of(t), c) for t, c in term.parts]
    if sum(prod(len(b.parts) for b, e in powers.items() if b.kind == "sum" and e in (1, 2)) for powers, _ in pending) > _TERMS:
        return None
    done: list[tuple[Powers, Fraction]] = []
    while pending:
        powers, c = pending.pop()
        inner = next((b for b, e in powers.items() if b.kind == "sum" and e in (1, 2)), None)
        if inner is None:
            done.append((powers, c))
        else:
            rest = _times(powers, inner, Fraction(-1))
            pending += [(_product({b: e for b, e in rest.items() if e}, powers_of(t)), c * k) for t, k in inner.parts]
        if len(pending) + len(done) > _TERMS:
            return None
    if len(done) == len(term.parts):
        return None
    found = writer.add([(writer.powers(powers.items()), c) for powers, c in reversed(done)])
    return found if found.kind == "sum" and len(found.parts) <= _MANY else None


def _by_functions(term: Term, writer: Writer) -> Term:
    """A sum with what stands before the same functions put together: (1 - x) sin(x) + 2 x cos(x)."""
    groups: dict[Term, list[tuple[Term, Fraction]]] = {}
    for t, c in term.parts:
        powers = powers_of(t)
        functions = {b: e for b, e in powers.items() if b.kind == "call" and len(b.parts) > 1}
        rest = writer.powers((b, e) for b, e in powers.items() if b not in functions)
        groups.setdefault(writer.powers(functions.items()), []).append((rest, c))
    factors = {functions: _factored(writer.add(parts), writer) for functions, parts in groups.items()}
    return writer.plus(*(writer.mul([functions, factor]) for functions, factor in factors.items()))


def _factored(term: Term, writer: Writer) -> Term:
    """A sum with the shortest choice of factors in front."""
    if term.kind != "sum" or len(term.parts) < 2:
        return term
    items = [(powers_of(t), c) for t, c in term.parts]
    return min((term, *_taken_out(term, items, writer)), key=lambda found: found.width)


def _cleared(term: Term, writer: Writer) -> Term:
    """A product whose sums have no denominators: x/(a (1 + y/a)) as x/(a + y)."""
    if term.kind != "product":
        return term
    factors: list[tuple[Term, Fraction]] = []
    for base, exponent in term.parts:
        below: Powers = {}
        if base.kind == "sum" and len(base.parts) > 1 and exponent.denominator == 1:
            for t, _ in base.parts:
                for b, e in powers_of(t).items():
                    if e < 0 and e.denominator == 1 and b.kind != "call":
                        below[b] = min(below.get(b, Fraction(0)), e)
        if below:
            clear = writer.powers((b, -e) for b, e in below.items())
            base = writer.add([(writer.mul([t, clear]), c) for t, c in base.parts])
            factors += [(b, e * exponent) for b, e in below.items()]
        factors.append((base, exponent))
    return writer.powers(factors)


def _times(powers: Powers, base: Term, exponent: Fraction) -> Powers:
    return {**powers, base: powers.get(base, Fraction(0)) + exponent}


def _product(first: Powers, second: Powers) -> Powers:
    for base, exponent in second.items():
        first = _times(first, base, exponent)
    return first


def _paired(term: Term, writer: Writer, rooted: bool = False) -> Term | None:
    """(a + b)(a - b) as the difference of squares, below fraction bars and under roots."""
    if term.kind != "product":
        return None
    for base, _ in term.parts:
        squares = _paired(base, writer, True) if base.kind == "product" else None
        if squares is not None:
            return writer.powers([(squares if t is base else t, e) for t, e in term.parts])
    sums = [(b, e) for b, e in term.parts if b.kind == "sum" and len(b.parts) == 2 and (rooted or e < 0 or e.denominator > 1)]
    for k, (first, exponent) in enumerate(sums):
        for second, other in sums[k + 1 :]:
            if exponent != other:
                continue
            (a, p), (b, q) = first.parts
            if dict(second.parts) in ({a: p, b: -q}, {a: -p, b: q}):
                squares = writer.add([(writer.mul([a, a]), p * p), (writer.mul([b, b]), -q * q)])
                if dict(second.parts) == {a: -p, b: q}:
                    squares = writer.neg(squares)
                rest = [(t, e) for t, e in term.parts if t is not first and t is not second]
                return writer.powers([(squares, exponent), *rest])
    return None

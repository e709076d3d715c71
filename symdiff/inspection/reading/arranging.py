"""Among the true arrangements of a term the shortest in print: factors taken out, common denominators, squares of sums and
differences, what cancels.

Assumes terms of one writer. Guarantees a small number of candidates for each sum, and that what the user wrote stays as it is.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from math import gcd, prod

from symdiff.inspection.exact import ONCE
from symdiff.inspection.reading.terms import ONE, Term
from symdiff.inspection.reading.written import Writer

_MANY = 16  # terms of a sum beyond which it is left as it is
_SHORTER = 0.7  # of its width, below which a sum is multiplied out
_REGROUPED = 0.85  # the same for products of matrices
_FEW = 4  # terms of a sum up to which matrices are multiplied with each
_TERMS = 24  # terms up to which sums are multiplied out
_SHORT, _MOST = 3, 12  # terms of a sum that is multiplied out by itself, and of its product with others
_FACTOR = 12  # width up to which what stands before a brace is written in each of its rows
_BESIDE = 40  # the same in the last row of another
_LONG = 2_000  # printed width beyond which terms are not arranged
_NONE = Fraction(0)
Powers = dict[Term, Fraction]
Parts = Sequence[tuple[Term, Fraction]]


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
        return _one_brace(term, self.writer) if self.writer.ONE_BRACE else term

    def _best_of(self, found: Term) -> Term | None:
        if found not in self._best:
            self._best[found] = None if found in self.kept else self._arranged(found)
        return self._best[found]

    def _arranged(self, found: Term) -> Term | None:
        if found.kind == "product" or found.multiple[0] is not found:
            candidates = (self._contents_out(found), _paired(found, self.writer) or found, _cleared(found, self.writer))
            return min(candidates, key=lambda term: term.width)
        if found.op == "matmul":
            args = [a if self._is_kept(a) else _factored(a, self.writer) for a in found.operands]
            return self.writer.emit("matmul", tuple(args))
        return _shortest(found, self.writer) if found.kind == "sum" and len(found.parts) <= _MANY else None

    def _contents_out(self, term: Term) -> Term:
        """A product with what all terms of a sum have in common beside the sum: x (4 x + 2 x y) as 2 x**2 (2 + y)."""
        t = self.writer
        factors: list[tuple[Term, Fraction]] = []
        inner, times = term.multiple
        for base, exponent in inner.factors:
            found = [base]
            if base.kind == "sum" and len(base.parts) > 1 and exponent.denominator == 1 and not self._is_kept(base):
                found = [*_taken_out(base.parts, t), base]
            factors.append((min(found, key=lambda part: part.multiple[0].width + 2 * (part is base)), exponent))
        return t.scaled(t.powers(factors), times)

    def _is_kept(self, term: Term) -> bool:
        return term in self.kept or self.writer.neg(term) in self.kept


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
    if len(term.parts) == 1:
        return
    expanded = _expanded(term, writer)
    if expanded is not None and _count(expanded) < len(term.parts):
        yield expanded
    yield from _products_out(term, writer)
    if any(map(_matrix_product, (t for t, _ in term.parts))):
        regrouped = _regrouped(term, writer)
        yield from [regrouped] if regrouped.width < _REGROUPED * term.width else []
    yield from _taken_out(term.parts, writer)
    multiplied = _multiplied_out(term, writer)
    if multiplied is not None:
        yield from (c for c in (multiplied, _by_functions(multiplied, writer)) if c.width < _SHORTER * term.width)
    yield from _constants_met(term, writer)
    for base in dict.fromkeys(b for t, _ in term.parts for b, _ in t.factors):
        having = [(t, c) for t, c in term.parts if base in dict(t.factors)]
        if 2 <= len(having) < len(term.parts):
            rest = [part for part in term.parts if part not in having]
            yield from (writer.add([(found, ONCE), *rest]) for found in _taken_out(having, writer))


def _matrix_product(term: Term) -> Term | None:
    """The product of matrices among the factors of a term."""
    return next((b for b, _ in term.factors if b.op == "matmul"), None)


def _summands(term: Term, writer: Writer) -> list[tuple[Term, Fraction]]:
    """The terms of a sum, or of the transpose of one."""
    if term.op == "T":
        return [(t if t is ONE else writer.emit("T", (t,)), c) for t, c in _summands(*term.operands, writer)]
    return list(term.parts) if term.kind == "sum" else []


def _turned(term: Term) -> Term:
    """A matrix, or what it is the transpose of."""
    return term.operands[0] if term.op == "T" else term


def _regrouped(term: Term, writer: Writer) -> Term:
    """A term whose products of matrices are multiplied out and put together again; a sum that stands twice stays."""
    products = [_matrix_product(t) for t in (term.below() if term.kind == "sum" else (term,))]
    uses = Counter(_turned(f) for p in products if p is not None for f in p.operands)
    pending, done = list(term.parts) if term.kind == "sum" else [(term, ONCE)], []
    while pending:
        t, c = pending.pop()
        product = _matrix_product(t)
        factors = product.operands if product else ()
        inner = next((f for f in factors if uses[_turned(f)] < 2 and 1 < len(_summands(f, writer)) <= _FEW), None)
        if product is None or inner is None or len(done) + len(pending) > _TERMS:
            done.append((t, c))
            continue
        rest = writer.mul([t, writer.power(product, -ONCE)])
        for part, k in _summands(inner, writer):
            if part is ONE:  # the number in each cell
                return term
            place = factors.index(inner)
            whole = writer.emit("matmul", (*factors[:place], part, *factors[place + 1 :]))
            pending.append((writer.mul([rest, whole]), c * k))
    best = writer.add(done[::-1])
    while best.kind == "sum":
        found = min(_products_out(best, writer), key=lambda candidate: candidate.width, default=best)
        if found.width >= best.width:
            break
        best = found
    return best


def _products_out(term: Term, writer: Writer) -> Iterator[Term]:
    """A sum of products of matrices with the first or last factor of some of them before or after what is left."""
    products = [(t, c, _matrix_product(t)) for t, c in term.parts]
    for end in (1, -1):
        for factor in dict.fromkeys(p.parts[end] for _, _, p in products if p is not None):
            own = [(t, c, p) for t, c, p in products if p is not None and p.parts[end] is factor]
            if len(own) > 1:
                columns = zip(*(p.parts[1:][::end] for _, _, p in own), strict=False)
                common = [column[0] for column in itertools.takewhile(lambda column: len(set(column)) == 1, columns)][::end]
                rests = [p.parts[1 + len(common) :] if end == 1 else p.parts[1 : -len(common)] for _, _, p in own]
                inside = _factored(writer.add([
                    (writer.mul([t, writer.power(p, -ONCE), writer.emit("matmul", rest)]), c)
                    for (t, c, p), rest in zip(own, rests, strict=True)
                ]), writer)  # fmt: skip
                whole = writer.emit("matmul", (*common, inside) if end == 1 else (inside, *common))
                gone = [t for t, _, _ in own]
                yield writer.add([(whole, ONCE), *((t, c) for t, c in term.parts if t not in gone)])


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
    return dict(term.factors)


def _taken_out(parts: Parts, writer: Writer) -> Iterator[Term]:
    """A sum with common factors in front, and over common denominators."""
    items = [(powers_of(t), c) for t, c in parts]
    bases = list({b: None for powers, _ in items for b in powers})
    lowest = {b: min(powers.get(b, _NONE) for powers, _ in items) for b in bases}
    common = _common_number([c for _, c in items])
    highest = {b: max(powers.get(b, _NONE) for powers, _ in items) for b in bases}
    positive = {b: e for b, e in lowest.items() if e > 0}
    below = {b: e for b, e in highest.items() if e < 0}
    plain = all(e >= below.get(b, 0) or b.op == "exp" for powers, _ in items for b, e in powers.items())
    shared = positive | {b: e for b, e in below.items() if plain or b.parts[0] in writer.counts}  # no fraction inside another
    for factors in (positive, shared, {b: e for b, e in lowest.items() if e}):
        if factors or common != 1:
            rest = []
            for powers, c in items:
                left = {b: powers.get(b, _NONE) - factors.get(b, _NONE) for b in {**powers, **factors}}
                rest.append((writer.powers(left.items()), c / common))
            inside = writer.add(rest)
            expanded = _expanded(inside, writer)
            for found in (inside, expanded):
                if found is inside or (found is not None and _count(found) < len(items)):
                    yield writer.powers([(writer.number(common), ONCE), (found, ONCE), *factors.items()])


def _common_number(coefficients: list[Fraction]) -> Fraction:
    """The greatest number that all coefficients are integer multiples of, negative where all are."""
    if any(c.denominator > 1000 or abs(c.numerator) > 10**6 for c in coefficients):
        return ONCE
    below = {c.denominator for c in coefficients}
    found = Fraction(gcd(*(c.numerator for c in coefficients)), below.pop() if len(below) == 1 else 1)
    return -found if all(c < 0 for c in coefficients) else found


def _expanded(term: Term, writer: Writer) -> Term | None:
    """A sum with the short sums among its factors multiplied out; None where there are none, or it becomes long."""
    found = _spread(term.parts, writer, _SHORT) if term.kind == "sum" else None
    return writer.add(found) if found else None


def _multiplied_out(term: Term, writer: Writer) -> Term | None:
    """A sum with all sums multiplied out that are factors, and factors of these; None where they are none or become long."""
    parts, more = [], _spread(term.parts, writer, _TERMS, 1)
    while more and len(more) <= _TERMS:
        parts, more = more, _spread(more, writer, _TERMS, 1)
    found = writer.add(parts)
    return found if not more and found.kind == "sum" and len(found.parts) <= _MANY else None


def _spread(parts: Parts, writer: Writer, longest: int, most: int | None = None) -> list[tuple[Term, Fraction]] | None:
    """Terms with `most` sums among their factors multiplied out, up to a length; none where there are none."""
    found: list[tuple[Term, Fraction]] = []
    for t, c in parts:
        own = [b for b, e in t.factors if b.kind == "sum" and e in (1, 2) and len(b.parts) <= longest for _ in range(int(e))]
        own = own[:most]
        if prod(len(b.parts) for b in own) > max(_MOST, longest):
            return None
        if not own:
            found.append((t, c))
            continue
        rest = [(b, e - own.count(b)) for b, e in t.factors]
        for choice in itertools.product(*(b.parts for b in own)):
            powers = writer.powers([*rest, *((inner, ONCE) for inner, _ in choice)])
            found.append((powers, prod((k for _, k in choice), start=c)))
    return found if len(found) > len(parts) else None


def _by_functions(term: Term, writer: Writer) -> Term:
    """A sum with what stands before the same functions put together: (1 - x) sin(x) + 2 x cos(x)."""
    groups: dict[Term, list[tuple[Term, Fraction]]] = {}
    for t, c in term.parts:
        functions = [(b, e) for b, e in t.factors if b.op and b.operands]
        rest = writer.powers(f for f in t.factors if f not in functions)
        groups.setdefault(writer.powers(functions), []).append((rest, c))
    factors = {functions: _factored(writer.add(parts), writer) for functions, parts in groups.items()}
    return writer.plus(*(writer.mul([functions, factor]) for functions, factor in factors.items()))


def _factored(term: Term, writer: Writer) -> Term:
    """A sum with the shortest choice of factors in front."""
    if _count(term) < 2:
        return term
    return min((*_taken_out(term.parts, writer), term), key=lambda found: found.width + 2 * (found is term))  # its parentheses


def _cleared(term: Term, writer: Writer) -> Term:
    """A product whose sums have no denominators: x/(a (1 + y/a)) as x/(a + y)."""
    if term.kind != "product":
        return term
    factors: list[tuple[Term, Fraction]] = []
    for base, exponent in term.parts:
        below: Powers = {}
        if _count(base) > 1 and exponent.denominator == 1:
            for t, _ in base.parts:
                for b, e in t.factors:
                    if e < 0 and e.denominator == 1 and not b.op:
                        below[b] = min(below.get(b, e), e)
        if below:
            clear = writer.powers((b, -e) for b, e in below.items())
            base = writer.add([(writer.mul([t, clear]), c) for t, c in base.parts])
            factors += [(b, e * exponent) for b, e in below.items()]
        factors.append((base, exponent))
    return writer.powers(factors)


def _paired(term: Term, writer: Writer, rooted: bool = False) -> Term | None:
    """(a + b)(a - b) as the difference of squares, below fraction bars and under roots."""
    if term.kind != "product":
        return None
    for base, _ in term.parts:
        squares = _paired(base, writer, True) if base.kind == "product" else None
        if squares is not None:
            return writer.powers([(squares if t is base else t, e) for t, e in term.parts])
    sums = [(b, e) for b, e in term.parts if _count(b) == 2 and (rooted or e < 0 or e.denominator > 1)]
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

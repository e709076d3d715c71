"""Arrays in one normal form: sums of products of factors whose axes have labels, a label that is summed over among them.

A value of r axes is a sum of terms over the labels 0 .. r-1; a term has a coefficient, factors, each of them something at
places (a label, or a cell), and labels of its own, over which it is summed. So x.T @ A @ x, einsum("i,ij,j", x, A, x) and
sum((A @ x)*x) are one term. Broadcasting is a label that does not occur, a transpose is two labels swapped; a region shifts a
label, an embedded one has a bracket, which is 1 inside. Like terms are collected, powers of one base become one, and
what is multiplied stays multiplied: a sum among factors is one of them.

After S. Laue, M. Mitterreiter, J. Giesen, "Computing Higher Order Derivatives of Matrix and Tensor Expressions", NeurIPS 2018.
Assumes real powers to be taken where they are defined. Raises `Wordless` for sums of more than `MANY` terms.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy as sp

BOUND = 1000  # labels from here on are summed over
PERMUTED = 5  # labels of a term up to which all orders of them are tried, where its factors do not tell their order
MANY = 100  # terms of a sum, beyond which nobody reads it
FEW = 12  # terms of a sum up to which those are looked for that a transpose joins

Shape = tuple[int, ...]


class Wordless(Exception):
    """What the normal form, or the notation of matrices, has no words for."""


class Place(NamedTuple):
    """The place along an axis: `step` times a label, and `start`; without a label, the cell `start`."""

    label: int | None
    step: int = 1
    start: int = 0


class Factor(NamedTuple):
    """Something at places, raised to a power."""

    what: "What"
    at: tuple[Place, ...]
    power: Any = sp.S.One

    @property
    def labels(self) -> list[int]:
        """Its labels, each once, in order."""
        return list(dict.fromkeys(p.label for p in self.at if p.label is not None))


@dataclass(frozen=True, slots=True, eq=False)
class What:
    """What has cells, one object for equal ones; `size` parts when all is written out, in `depth` layers.

    `kind` is symbol, call, sum, head, delta, inside or cells.

    `parts` of a symbol is (name, shape), of a call (operation, values over its labels ...), of a sum (value,), of a head (name,
    values ..., shape), of inside (start, stop, step), of cells (values ..., shape).
    """

    kind: str
    parts: tuple[Any, ...]
    serial: int
    size: int
    depth: int

    def calls(self, *ops: str) -> bool:
        """Whether it is one of these operations."""
        return self.kind == "call" and self.parts[0] in ops


class Term(NamedTuple):
    """A product with a coefficient, summed over labels `BOUND`, `BOUND + 1`, ... of these extents."""

    coefficient: Any
    factors: tuple[Factor, ...]
    bound: Shape

    @property
    def body(self) -> tuple[tuple[Factor, ...], Shape]:
        """All but the coefficient."""
        return self.factors, self.bound


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A sum of terms over labels 0, 1, ..., one an axis; equal ones are one object."""

    shape: Shape
    terms: tuple[Term, ...]
    serial: int
    size: int
    depth: int

    @property
    def number(self) -> Any:
        """The number that all cells are, None where there is no such."""
        if not self.terms:
            return sp.S.Zero
        term = self.terms[0]
        return term.coefficient if len(self.terms) == 1 and not term.factors else None

    @property
    def labels(self) -> list[int]:
        """The labels on which its cells depend, in order."""
        return sorted({k for t in self.terms for f in t.factors for k in f.labels if k < BOUND})


class Open(NamedTuple):
    """A term as it is made: factors in any order, summed labels of any number."""

    coefficient: Any
    factors: list[Factor]
    bound: dict[int, int]


def moved_factors(factors: Iterable[Factor], places: Mapping[int, Place]) -> list[Factor]:
    """Factors with places instead of labels."""

    def moved(place: Place) -> Place:
        new = None if place.label is None else places.get(place.label)
        return place if new is None else Place(new.label, place.step * new.step, place.step * new.start + place.start)

    return [f._replace(at=tuple(moved(p) for p in f.at)) for f in factors]


class Algebra:
    """Values in their normal form, each made once."""

    def __init__(self) -> None:
        self.counts: dict[int, Any] = {}  # symbols for numbers of cells
        self.soft = False  # whether exponentials over their sum are a function of their own
        self._known: dict[Any, Any] = {}
        self._fresh = itertools.count(10**6)

    # -- making

    def what(self, kind: str, *parts: Any) -> What:
        """The one object of this kind with these parts."""
        key = (kind, parts)
        if key not in self._known:
            values = [p for p in parts if isinstance(p, Value)]
            size, depth = 1 + sum(v.size for v in values), 1 + max((v.depth for v in values), default=0)
            self._known[key] = What(kind, parts, len(self._known), size, depth)
        return self._known[key]  # type: ignore[no-any-return]

    def value(self, shape: Shape, terms: Iterable[Open]) -> Value:
        """The sum of terms over the labels of a shape, like ones collected."""
        found: dict[Any, Any] = {}
        for term in terms:
            closed = self._closed(term, shape)
            if closed.coefficient != 0:
                found[closed.body] = found.get(closed.body, sp.S.Zero) + closed.coefficient
        kept = [Term(c, *body) for body, c in found.items() if not self._is_zero(c)]
        if len(kept) > MANY:
            raise Wordless("a sum of many terms")
        return self._interned(shape, self._symmetric(kept, shape))

    def _is_zero(self, number: Any) -> bool:
        """Whether a coefficient vanishes, be it with the numbers for which symbols stand."""
        return bool(number == 0 or (number.free_symbols and number.subs({s: n for n, s in self.counts.items()}) == 0))

    def _interned(self, shape: Shape, terms: list[Term]) -> Value:
        key = (shape, frozenset(terms))
        if key not in self._known:
            size = sum(1 + sum(f.what.size for f in t.factors) for t in terms)
            depth = max((f.what.depth for t in terms for f in t.factors), default=0)
            self._known[key] = Value(shape, tuple(terms), len(self._known), size, depth)
        return self._known[key]  # type: ignore[no-any-return]

    def number(self, number: Any, shape: Shape = ()) -> Value:
        """A number, at each cell."""
        return self.value(shape, [Open(sp.sympify(number), [], {})])

    def symbol(self, name: str, shape: Shape) -> Value:
        """An array, or a number, with a name."""
        return self.single(Factor(self.what("symbol", name, shape), own_places(shape)), shape)

    def single(self, factor: Factor, shape: Shape) -> Value:
        """One factor."""
        return self.value(shape, [Open(sp.S.One, [factor], {})])

    # -- the normal form of a term

    def _closed(self, term: Open, shape: Shape) -> Term:
        coefficient, factors, bound = term.coefficient, list(term.factors), dict(term.bound)
        while True:
            coefficient, factors, bound = self._celled(Open(coefficient, factors, bound), shape)
            factors = _merged(factors)
            before = frozenset(factors), len(bound)
            coefficient, factors = self._unbracketed(coefficient, factors, bound)
            factors = [f for f in factors if f.what.kind != "inside" or not _holds(f, shape, bound)]
            if any(f.what.kind == "inside" and _holds(f, shape, bound) is False for f in factors):
                return _NOTHING
            for label in list(bound):
                own = [f for f in factors if label in f.labels]
                if len(own) == 1 and own[0].what.calls("softmax") and own[0].power == 1 and own[0].at[-1] == Place(label):
                    factors.remove(own[0])
                    bound.pop(label)
                elif not own:
                    extent = bound.pop(label)
                    coefficient *= self.counts.get(extent, extent)
            if any(f.what.kind == "sum" and f.power.is_negative for f in factors):
                factors, bound = self._cancelled(factors, bound)
                factors = self._softened(factors) if self.soft else factors
            if any(f.what.kind == "head" and f.what.parts[0] == "inv" for f in factors):
                factors, bound = self._uninverted(factors, bound)
            if coefficient == 0:
                return _NOTHING
            if (frozenset(factors), len(bound)) == before:
                return Term(coefficient, *_ordered(factors, bound))

    def _celled(self, term: Open, shape: Shape) -> tuple[Any, list[Factor], dict[int, int]]:
        """A term whose factors stand at labels, but for symbols, heads and deltas: a cell of a call is a call of cells."""
        single = [k for k, n in (*enumerate(shape), *term.bound.items()) if n == 1]
        coefficient, factors, bound = term.coefficient, [], {k: n for k, n in term.bound.items() if n != 1}
        for f in moved_factors(term.factors, {k: Place(None) for k in single}) if single else term.factors:
            kind, parts = f.what.kind, f.what.parts
            extents = dict(enumerate(shape)) | bound
            if (
                kind in ("symbol", "head", "delta", "inside")
                or f.what.calls("softmax")
                or all(
                    p.label is not None and p[1:] == (1, 0) and extents.get(p.label) in (0, None, n)
                    for p, n in zip(f.at, extents_of(f.what), strict=True)
                )
            ):
                factors.append(f)
                continue
            axes = [n for n, p in enumerate(f.at) if p.label is not None]
            own = tuple(extents.get(f.at[n].label or 0, 0) for n in axes)
            places = dict(enumerate(f.at)) | {n: f.at[n]._replace(label=k) for k, n in enumerate(axes)}
            if kind == "cells" and axes:
                factors.append(f)
                continue
            if kind == "cells":
                rest = extents_of(f.what)[1:]
                cell = math.prod(rest) * f.at[0].start + (f.at[1].start if rest else 0)
                if not 0 <= cell < len(parts) - 1:
                    raise Wordless("a cell beyond the cells of an array")
                value: Value = parts[cell]
            elif kind == "sum":
                value = self.moved(parts[0], places, own)
            else:
                value = self.call(parts[0], [self.moved(a, places, own) for a in parts[1:]])
            value = self.power(value, f.power)
            inner = self.one_term(value)
            fresh = moved_factors(inner.factors, {k: Place(f.at[n].label) for k, n in enumerate(axes)})
            coefficient, factors, bound = coefficient * inner.coefficient, factors + fresh, bound | inner.bound
        return coefficient, factors, bound

    def _unbracketed(self, coefficient: Any, factors: list[Factor], bound: dict[int, int]) -> tuple[Any, list[Factor]]:
        """Deltas with a summed label, and those of equal places, are taken away."""
        for n, f in enumerate(factors):
            if f.what.kind != "delta":
                continue
            rest = factors[:n] + factors[n + 1 :]
            one, two = f.at
            if one == two:
                return coefficient, rest
            if one.label is None and two.label is None:
                return sp.S.Zero, rest
            for old, new in ((one, two), (two, one)):
                if old.label in bound and old.step == 1 and (old.label != new.label):
                    if new.label is not None and (new.step, new.start, old.start) != (1, 0, 0):
                        continue
                    bound.pop(old.label)
                    return coefficient, moved_factors(rest, {old.label: new._replace(start=new.start - old.start)})
                if old.label is not None and old.step == 1 and new.label is None and any(old.label in g.labels for g in rest):
                    cell = Place(None, 1, new.start - old.start)
                    return coefficient, [*moved_factors(rest, {old.label: cell}), Factor(f.what, (Place(old.label), cell))]
        return coefficient, factors

    def _cancelled(self, factors: list[Factor], bound: dict[int, int]) -> tuple[list[Factor], dict[int, int]]:
        """Sums that stand as one factor elsewhere, as in sum(e)/sum(e), become powers of that."""
        sums = {f.what for f in factors if f.what.kind == "sum"}
        for label in bound:
            inside = [f for f in factors if label in f.labels]
            outside = sorted({k for f in inside for k in f.labels} - {label})
            if any(f.what in sums for f in inside) or any(
                p.label is not None and p[1:] != (1, 0) for f in inside for p in f.at
            ):
                continue
            places = {k: Place(n) for n, k in enumerate(outside)}
            shape = tuple(bound.get(k, 0) for k in outside)
            inner = self.value(shape, [Open(sp.S.One, moved_factors(inside, places), {label: bound[label]})])
            what = next((w for w in sums if frozenset(w.parts[0].terms) == frozenset(inner.terms)), None)
            if what is not None:  # be it of other extents, which are not known
                rest = {k: n for k, n in bound.items() if k != label}
                return [f for f in factors if f not in inside] + [Factor(what, tuple(map(Place, outside)))], rest
        return factors, bound

    def _softened(self, factors: list[Factor]) -> list[Factor]:
        """exp(z)/sum(exp(z)) as softmax(z), of a vector or of the rows of a matrix."""
        for total in factors:
            if total.what.kind != "sum" or not (total.power.is_Integer and total.power.is_negative):
                continue
            terms = total.what.parts[0].terms
            if len(terms) != 1 or terms[0].coefficient != 1 or len(terms[0].factors) != 1 or len(terms[0].bound) != 1:
                continue
            (inner,) = terms[0].factors
            rows = tuple(Place(k) for k in range(len(total.at)))
            if inner.power != 1 or not inner.what.calls("exp") or inner.at != (*rows, Place(BOUND)):
                continue
            for f in factors:
                if f.what is inner.what and f.at[:-1] == total.at and f.power == 1:
                    rest = [g for g in factors if g is not f and g is not total]
                    soft = Factor(self.what("call", "softmax", *f.what.parts[1:]), f.at)
                    return self._softened([*rest, soft, total._replace(power=total.power + 1)])
        return [f for f in factors if f.power != 0]

    def _uninverted(self, factors: list[Factor], bound: dict[int, int]) -> tuple[list[Factor], dict[int, int]]:
        """A matrix times its inverse as an identity."""
        for label in bound:
            pair = [f for f in factors if label in f.labels]
            if len(pair) != 2 or any(f.power != 1 or len(f.at) != 2 or len(f.labels) != 2 for f in pair):
                continue
            for inverse, other in (pair, pair[::-1]):
                if inverse.what.kind != "head" or inverse.what.parts[0] != "inv":
                    continue
                side = 0 if inverse.at[0].label == label else 1
                end = next(p for p in other.at if p.label != label)
                matrix = self.moved(inverse.what.parts[1], {1 - side: Place(label), side: end}, inverse.what.parts[2])
                if [(t.coefficient, t.factors) for t in matrix.terms] == [(1, (other,))]:
                    rest = [f for f in factors if f not in pair]
                    delta = Factor(self.what("delta"), (inverse.at[1 - side], end))
                    return [*rest, delta], {k: n for k, n in bound.items() if k != label}
        return factors, bound

    def _symmetric(self, terms: list[Term], shape: Shape) -> list[Term]:
        """A x + A.T x as (A + A.T) x: terms that differ in the places of one factor, swapped."""
        for n, a in enumerate(terms if len(terms) <= FEW else ()):
            for m in range(n + 1, len(terms)):
                b = terms[m]
                joined = self._joined(a, b, shape) if a.coefficient == b.coefficient and len(a.factors) > 1 else None
                if joined is not None:
                    return self._symmetric([*terms[:n], joined, *terms[n + 1 : m], *terms[m + 1 :]], shape)
        return terms

    def _joined(self, a: Term, b: Term, shape: Shape) -> Term | None:
        if len(a.factors) != len(b.factors) or a.bound != b.bound:
            return None
        for f in a.factors:
            if len(f.at) != 2 or f.power != 1 or len(f.labels) != 2 or f.what.kind in ("delta", "sum"):
                continue
            swapped = [f._replace(at=f.at[::-1]) if g is f else g for g in a.factors]
            if self._closed(Open(a.coefficient, swapped, _bound_of(a.bound)), shape) == b:
                extents = extents_of(f.what)
                both = self.value(extents, [Open(sp.S.One, [f._replace(at=at)], {}) for at in _BOTH])
                group = Factor(self.what("sum", both), f.at)
                factors = [group if g is f else g for g in a.factors]
                return self._closed(Open(a.coefficient, factors, _bound_of(a.bound)), shape)
        return None

    # -- arithmetic

    def _opened(self, value: Value, rank: int | None = None, times: Any = 1) -> list[Open]:
        """The terms times a number, with the labels of a shape of `rank` axes, to whose last ones the value's belong."""
        own = len(value.shape)
        places = {k: Place(k + (own if rank is None else rank) - own) for k in range(own)}
        found = [self.fresh(term, places) for term in value.terms]
        return found if times == 1 else [t._replace(coefficient=t.coefficient * times) for t in found]

    def broadcast(self, value: Value, shape: Shape) -> Value:
        """A value in a larger shape."""
        return self.value(shape, self._opened(value, len(shape)))

    def fresh(self, term: Term, places: Mapping[int, Place]) -> Open:
        """A term with places instead of its free labels, its summed ones new."""
        new = {BOUND + k: next(self._fresh) for k in range(len(term.bound))}
        bound = {new[BOUND + k]: extent for k, extent in enumerate(term.bound)}
        return Open(term.coefficient, moved_factors(term.factors, {**places, **{k: Place(n) for k, n in new.items()}}), bound)

    def add(self, *values: Value) -> Value:
        """The sum of values, broadcast."""
        shape = broadcast([v.shape for v in values])
        return self.value(shape, [t for v in values for term in self._opened(v, len(shape)) for t in self._lone(term)])

    def _lone(self, term: Open) -> list[Open]:
        """The terms of a sum that is all a term has."""
        if len(term.factors) != 1 or term.bound or term.factors[0].what.kind != "sum" or term.factors[0].power != 1:
            return [term]
        found = self.inlined(term.factors[0])
        return [t._replace(coefficient=t.coefficient * term.coefficient) for inner in found for t in self._lone(inner)]

    def inlined(self, factor: Factor) -> list[Open]:
        """The terms of a sum at its places."""
        inner: Value = factor.what.parts[0]
        return [self.fresh(t, dict(enumerate(factor.at))) for t in inner.terms]

    def scaled(self, value: Value, number: Any) -> Value:
        """A value times a number."""
        if number in (1, -1) or len(value.terms) < 2:
            return self.value(value.shape, self._opened(value, times=number))
        return self.mul(self.number(number), value)

    def mul(self, *values: Value) -> Value:
        """The product of values, broadcast; a sum of terms stays one factor."""
        shape = broadcast([v.shape for v in values])
        numbers = [v for v in values if v.number is not None]
        rest = [v for v in values if v.number is None]
        total = math.prod((v.number for v in numbers), start=sp.S.One)
        if len(rest) == 1 and total in (1, -1):
            return self.value(shape, self._opened(rest[0], len(shape), total))
        parts = [self.one_term(v, len(shape)) for v in rest]
        coefficient = math.prod((p.coefficient for p in parts), start=total)
        bound = {k: n for p in parts for k, n in p.bound.items()}
        return self.value(shape, [Open(coefficient, [f for p in parts for f in p.factors], bound)])

    def one_term(self, value: Value, rank: int | None = None) -> Open:
        """A value as one term: several are one factor."""
        if not value.terms:
            return Open(sp.S.Zero, [], {})
        times = sp.S.One
        if len(value.terms) > 1:
            times, factor = self.grouped(value)
            value = self.single(factor, value.shape)
        return self._opened(value, rank, times)[0]

    def grouped(self, value: Value) -> tuple[Any, Factor]:
        """A value as a number times one factor, over the labels on which it depends."""
        numbers = [t.coefficient for t in value.terms]
        content = sp.S.One
        if all(n.is_Rational for n in numbers):
            below = int(numbers[0].q) if len({n.q for n in numbers}) == 1 else 1
            content = sp.Rational(math.gcd(*(int(n.p) for n in numbers)), below)
            content = -content if numbers[0].is_negative else content
        return content, self._as_sum(self.value(value.shape, self._opened(value, times=1 / content)))

    def power(self, value: Value, exponent: Any) -> Value:
        """A value to the power of a number; the powers of a product are taken one by one where that is the same."""
        exponent, number = sp.sympify(exponent), value.number
        if number is not None:
            return self.number(sp.Pow(number, exponent) if number != 0 or exponent.is_positive else sp.zoo, value.shape)
        term = self.one_term(value)
        if term.bound:
            touched = [f for f in term.factors if any(k in term.bound for k in f.labels)]
            free = [f for f in term.factors if f not in touched]
            inner = self.value(value.shape, [Open(sp.S.One, touched, term.bound)])
            term = Open(term.coefficient, [*free, self._as_sum(inner)], {})
        if exponent.is_Integer or (len(term.factors) == 1 and term.coefficient.is_positive and term.factors[0].power == 1):
            factors = [f._replace(power=f.power * exponent) for f in term.factors]
            return self.value(value.shape, [Open(sp.Pow(term.coefficient, exponent), factors, {})])
        whole = self._as_sum(value)
        return self.value(value.shape, [Open(sp.S.One, [whole._replace(power=exponent)], {})])

    def _as_sum(self, value: Value) -> Factor:
        """A value, be it one term, as one factor over the labels on which it depends."""
        labels = value.labels
        places = {k: Place(n) for n, k in enumerate(labels)}
        inner = self.value(tuple(value.shape[k] for k in labels), [self.fresh(t, places) for t in value.terms])
        return Factor(self.what("sum", inner), tuple(map(Place, labels)))

    # -- axes

    def moved(self, value: Value, places: Mapping[int, Place], shape: Shape) -> Value:
        """The value with places instead of its labels."""
        return self.value(shape, [self.fresh(t, places) for t in value.terms])

    def summed(self, value: Value, axes: Sequence[int]) -> Value:
        """The sum over axes; several terms stay one factor, unless fewer are left of them when each is summed."""
        kept = [k for k in range(len(value.shape)) if k not in axes]
        shape = tuple(value.shape[k] for k in kept)

        def over(terms: Iterable[Open]) -> Value:
            moved = []
            for term in terms:
                new = {k: next(self._fresh) for k in axes}
                places = {k: Place(n) for n, k in enumerate(kept)} | {k: Place(n) for k, n in new.items()}
                bound = term.bound | {n: value.shape[k] for k, n in new.items()}
                moved.append(Open(term.coefficient, moved_factors(term.factors, places), bound))
            return self.value(shape, moved)

        terms = self._opened(value)
        apart = over(self.expanded(value))
        if len(terms) < 2:
            return over(terms) if apart.terms else apart
        return apart if len(apart.terms) < min(2, len(terms)) else over([self.one_term(value)])

    def expanded(self, value: Value) -> list[Open]:
        """The terms, with sums among their factors multiplied out."""
        done: list[Open] = []
        waiting = self._opened(value)
        while waiting:
            term = waiting.pop()
            inner = next((f for f in term.factors if f.what.kind == "sum" and f.power == 1), None)
            if inner is None or len(done) + len(waiting) > 50:
                done.append(term)
                continue
            rest = [f for f in term.factors if f is not inner]
            for t in self.inlined(inner):
                waiting.append(Open(term.coefficient * t.coefficient, rest + t.factors, term.bound | t.bound))
        return done

    # -- functions

    def call(self, op: str, values: Sequence[Value]) -> Value:
        """An operation at each cell."""
        shape = broadcast([v.shape for v in values])
        aligned = [self.broadcast(v, shape) for v in values]
        labels = sorted({k for v in aligned for k in v.labels})
        places = {k: Place(n) for n, k in enumerate(labels)}
        inside = tuple(shape[k] for k in labels)
        args = tuple(self.moved(v, places, inside) for v in aligned)
        return self.single(Factor(self.what("call", op, *args), tuple(map(Place, labels))), shape)

    def split(self, value: Value, which: Callable[[Open], bool]) -> tuple[Value, ...]:
        """The terms of which something holds, and the others."""
        terms = [t for term in self._opened(value) for t in self._lone(term)]
        return tuple(self.value(value.shape, [t for t in terms if which(t) is wanted]) for wanted in (True, False))


_NOTHING = Term(sp.S.Zero, (), ())
_BOTH = ((Place(0), Place(1)), (Place(1), Place(0)))


def _holds(factor: Factor, shape: Shape, bound: Mapping[int, int]) -> bool | None:
    """Whether a bracket holds for all places of its label; None where it does for some, or where these are not known."""
    start, stop, _ = factor.what.parts
    (place,) = factor.at
    extents = dict(enumerate(shape)) | dict(bound)
    if place.label is not None and not extents.get(place.label):
        return None
    ends = [place.start + place.step * k for k in ((0, extents[place.label] - 1) if place.label is not None else (0,))]
    if all(start <= end < stop for end in ends):
        return True
    return False if max(ends) < start or min(ends) >= stop else None


def extents_of(what: What) -> Shape:
    """The extents of the axes that something has."""
    found: Shape = what.parts[0].shape if what.kind == "sum" else what.parts[1].shape if what.kind == "call" else what.parts[-1]
    return found


def _bound_of(extents: Shape) -> dict[int, int]:
    return {BOUND + k: extent for k, extent in enumerate(extents)}


def own_places(shape: Shape) -> tuple[Place, ...]:
    """A label for each axis; one of a single cell has none."""
    return tuple(Place(None) if extent == 1 else Place(k) for k, extent in enumerate(shape))


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """The common shape."""
    rows = list(shapes)
    rank = max(map(len, rows))
    filled = [(1,) * (rank - len(s)) + s for s in rows]
    return tuple(next((n for n in column if n != 1), 1) for column in zip(*filled, strict=True))


def _merged(factors: Iterable[Factor]) -> list[Factor]:
    """Powers of one base as one, in the order in which the bases first stand."""
    powers: dict[tuple[What, tuple[Place, ...]], Any] = {}
    for f in factors:
        at = tuple(sorted(f.at, key=str)) if f.what.kind == "delta" else f.at
        powers[f.what, at] = powers.get((f.what, at), sp.S.Zero) + f.power
    found = []
    for (what, at), power in powers.items():
        if what.kind in ("delta", "inside"):
            found.append(Factor(what, at))
        elif power != 0:
            found.append(Factor(what, at, power))
    return found


def _ordered(factors: list[Factor], bound: dict[int, int]) -> tuple[tuple[Factor, ...], Shape]:
    """The factors and extents with the summed labels renamed in the order that is first of all."""
    labels = list(bound)
    blind = dict.fromkeys(labels, Place(BOUND))
    keys = {f: _rank_of(moved_factors([f], blind)[0]) for f in factors}
    first = dict.fromkeys(k for f in sorted(factors, key=keys.__getitem__) for k in f.labels if k in bound)
    orders: Iterable[Sequence[int]] = [list(first)]
    if len(set(keys.values())) < len(factors) and len(labels) <= PERMUTED:  # equal ones, which their labels tell apart
        orders = itertools.permutations(labels)
    best: tuple[Any, ...] | None = None
    for order in orders:
        places = {label: Place(BOUND + n) for n, label in enumerate(order)}
        moved = sorted(moved_factors(factors, places), key=_rank_of)
        key = ([_rank_of(f) for f in moved], tuple(bound[k] for k in order))
        if best is None or key < best[0]:
            best = key, tuple(moved), key[1]
    assert best is not None
    return best[1], best[2]


def _rank_of(factor: Factor) -> tuple[Any, ...]:
    at = tuple((-1 if p.label is None else p.label, p.step, p.start) for p in factor.at)
    return factor.what.serial, at, str(factor.power)

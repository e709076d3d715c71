"""Values at points where what they are made of has none, or an infinite slope, or a kink, as the sweeps see them: a polynomial
near the point, what was written elsewhere.

Assumes bindings in order. A value is asked for where a head that it is made of is singular by its row (a divisor that vanishes,
a root, a logarithm, a kink) at u = c, if it depends on that moving value u alone. Choices such as that of a size are continued
as they are on one side of c. Where the continuation is analytic, its Taylor coefficients are computed in 50 digits on a circle
about c, and the sweeps see a polynomial where u is nearer to c than a radius within which it is the value to all digits: one,
or one for each side whose mean counts at c. The derivatives of any order follow, and so do those of differences of poles, and
of powers of such values. A kink that is one stays. What the user wrote is computed as it stands.
"""

import functools
import itertools
import math
import operator
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import mpmath
import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.calls import extreme_by_rule
from symdiff.rulebooks.columns import Locus, formula_locus
from symdiff.rulebooks.precision import OPERATIONS, SLOW
from symdiff.rulebooks.rule import evaluate_formula
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import Facts, known_column
from symdiff.simplification.intervals import Fact
from symdiff.simplification.polynomials import in_horners_form, is_disc
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations

_MANY = 40  # operations from a value to the one that it depends on
_DEEP = 3  # singular heads one behind the other
_CHAIN = 8  # operations that are inverted to tell where a head is singular
_TRIED = (0, 1, -1, 2)  # where other functions are tried for a value
_SINGULAR = frozenset({"pole", "edge", "kink"})
_NEAR = mpmath.mpf(10) ** -16
_MANIFOLD = {n for n, row in OPS.items() if row.is_special and row.arity > 2}  # some take minutes in many digits
_KNOWN = {*OPERATIONS, "cast"} - {"select", "edge"} - SLOW - _MANIFOLD
_POLYNOMIAL = operations("polynomial")
_PRODUCTS = {  # of a function of all operands, or of the first, and of what is made of the last
    "i0e": ("i0", "abs neg exp"), "i1e": ("i1", "abs neg exp"), "ive": ("iv", "abs neg exp"),
    "xlogy": ("", "log"), "xlog1py": ("", "log1p"),
}  # fmt: skip
Steps = tuple[tuple[str, tuple[Any, ...]], ...]  # operations on the results of those before, 0 the value that they depend on
_DEGREE, _DIGITS, _MORE = 16, 60, 160
_FEWER = (5, 8, 12)  # degrees that are enough where the value beyond has its digits
_LOST = 1e-12  # relative error of a second derivative by rounding
_LEAST = mpmath.mpf(10) ** -30  # a Laurent coefficient beside the largest that counts as none
_ERROR = mpmath.mpf(10) ** -18
_SHARES = ("0.9", "0.6", "0.4", "0.2", "0.1", "0.03", "1e-2", "1e-3", "1e-5", "1e-7", "1e-9", "1e-12")  # of a radius
_LEAST_RADIUS = 1e-20
_LARGEST = 1024  # the exponent from which doubles overflow
_SMALLEST = 2**16  # the one below zero at which parts of a number are too far apart
_COSTLY = {n for n, row in OPS.items() if row.is_special} | {"logaddexp", "logaddexp2"}
_FAMILIES = {n for n, row in OPS.items() if row.is_special and row.arity > 1} - {"iv"}  # of some mpmath's never end
_WIDE = 8  # the exponent from which these take too long
_REFUSED = (ArithmeticError, ValueError, TypeError, AttributeError, KeyError, NotImplementedError, RecursionError)


class Point(NamedTuple):
    """Where a moving value has a number."""

    of: Atom
    at: Any


class Disc(NamedTuple):
    """A value's Taylor coefficients by the distance from a point, and how near they are the value."""

    centre: Constant
    radius: Constant
    coefficients: list[float]
    side: int  # 1 or -1 where they are on that side alone


Regular = tuple[Point, tuple[Disc, ...]]


def regular(facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int = 2) -> list[Node]:
    """The bindings with values that are regular beside a point where a head is singular as polynomials near it, which are
    differentiated up to an order."""
    if any(_extreme(b) or _singular_points(facts, b) for b in facts.bindings):
        return _Removing(facts, builder, wrt, order).run()
    return facts.bindings


class _Removing:
    """The singular points of values, until a value made of them has none."""

    def __init__(self, facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int) -> None:
        self.order = order
        self.facts = facts
        self.builder = builder
        self.moving = active_symbols(facts.bindings, wrt)
        self.wanted = outside_discs(facts.bindings)
        self._points: dict[Atom, list[Point]] = {}
        self._depths: dict[Atom, int] = {}  # how many singular heads lie one behind the other

    def run(self) -> list[Node]:
        found: list[Node] = []
        stands: dict[Atom, Atom] = {}
        start = len(self.builder.bindings)
        for binding in self.facts.bindings:
            self.builder.at(binding)
            is_asked = binding.result in self.moving and binding.result in self.wanted
            seen = self._seen(binding) if is_asked else []
            chosen = self._by_product(binding) if is_asked and not seen and binding.op == "div" else None
            if not stands.keys().isdisjoint(binding.operands):
                operands = tuple(stands.get(o, o) for o in binding.operands)
                binding = binding_with(binding, binding.op, operands, binding.params)
            chosen = self._chosen(binding, seen) if seen else chosen
            if chosen is None:
                found.append(binding)
                continue
            chosen = self.builder.cast(chosen, binding.dtype)
            found += self.builder.bindings[start:]
            start = len(self.builder.bindings)
            found.append(binding_with(binding, "cast", (chosen,)))
            stands[binding.result] = chosen
        return found

    def _seen(self, binding: Node) -> list[Regular]:
        """Where a value is regular although what it is made of is not: points of the same value."""
        found: list[Regular] = []
        extreme = _extreme(binding) or binding.op == "abs"
        if not (binding.op in _KNOWN or extreme):
            return found
        followed = binding.operands[: 1 if binding.op in ("div", "pow") else None]
        points = [p for o in dict.fromkeys(followed) for p in self._points.get(o, ())]
        own = [p for point in _singular_points(self.facts, binding) for p in self._zeros(point)]
        own += self._ties(binding) if _extreme(binding) else []
        depth = max((self._depths.get(o, 0) for o in binding.operands), default=0) + bool(own)
        self._depths[binding.result] = depth
        is_pole = binding.op == "div" and self.moving.isdisjoint(binding.operands[:1])
        for point in dict.fromkeys(points + own) if depth <= _DEEP else ():
            if found and point.of is not found[0][0].of:
                continue
            steps = self._steps(binding, point.of)
            code = point.of.dtype or "d"
            if steps is None or sum(op in _KINKS for op, _ in steps) > (0 if is_complex(code) else _DEEP):
                continue
            if binding.op not in _POLYNOMIAL and any(op in _FAMILIES for op, _ in steps):
                continue
            if point.of.shape != binding.shape or is_complex(code) != is_complex(binding.dtype):
                continue
            discs = () if is_pole else _discs(steps, point.at, self.order, not is_complex(code))
            is_kink = not _extreme(binding) and any(locus.kind == "kink" for locus in known_column(binding).loci)
            if len(discs) == 1 or (discs and (point in points or not (is_kink or _is_tie(steps, point.at)))):
                found.append((point, discs))
            elif point in points or steps[-1][0] not in _KINKS:
                self._points.setdefault(binding.result, []).append(point)
        return found

    def _by_product(self, binding: Node) -> Atom | None:
        """u/x, of which u depends on w = a*x alone, as a*(u/w) where that is regular, and the same for powers of x."""
        b, (above, below) = self.builder, binding.operands
        below, scale = self.facts.multiple(below)
        made = self.facts.node(below)
        power = 2 if made.op == "mul" and self.facts.same(*made.operands) else self.facts.exponent(made)
        x, n = (made.operands[0], int(power)) if power % 1 == 0 and power > 1 else (below, 1)
        pending = [above]
        for w in pending if not isinstance(below, Constant) else ():
            made = self.facts.node(w)
            place = next((k for k in (0, 1) if made.op == "mul" and self.facts.same(made.operands[k], x)), None)
            if place is None:
                pending += [o for o in made.operands if o in self.moving and o not in pending][: _MANY - len(pending)]
                continue
            start, factors, outer = len(b.bindings), (made.operands[1 - place], w), b.primal
            b.primal = False
            a, w = factors if n == 1 else (b.emit("pow", (c, Constant(n))) for c in factors)
            b.emit("div", (above, w))
            for new in b.bindings[start:]:
                self.facts.include(new)
            self.moving |= {w, b.bindings[-1].result}
            quotient = b.bindings.pop()
            seen = self._seen(quotient)
            found = b.mul(Constant(1 / scale), b.mul(a, self._chosen(quotient, seen))) if seen else None
            b.primal = outer
            if found is None:
                del b.bindings[start:]
            return found
        return None

    def _steps(self, binding: Node, of: Atom) -> Steps | None:
        """The operations from a value to another one; None where that depends on others, too."""
        kind = self.facts.node(of).op
        places, steps = {of: 0}, list[tuple[str, tuple[Any, ...]]]()
        pending: list[Atom] = [binding.result]
        while pending:
            top = pending[-1]
            made = self.facts.made.get(top)
            if top in places:
                pending.pop()
            elif made is not None and made.op == kind and top is not binding.result and (c := self.facts.ratio(top, of)):
                steps += [("const", (c,)), ("mul", (0, len(steps) + 1))] if c != 1 else []
                places[top] = len(steps) if c != 1 else 0
            elif isinstance(top, Constant):
                steps.append(("const", (top.value,)))
                places[top] = len(steps)
            elif made is None or len(steps) > _MANY or made.dtype == "?" or not (made.op in _KNOWN or _extreme(made)):
                return None
            elif missing := [o for o in made.operands if o not in places]:
                pending += missing
            else:
                refs = tuple(places[o] for o in made.operands)
                first, chain = _PRODUCTS.get(made.op, (_extreme(made) or made.op, ""))
                if first:
                    steps.append((first, refs))
                factor, last = len(steps) if first else refs[0], refs[-1]
                for op in chain.split():
                    steps.append((op, (last,)))
                    last = len(steps)
                if chain:
                    steps.append(("mul", (factor, last)))
                places[top] = len(steps)
        return tuple(steps)

    # -- where heads are singular

    def _zeros(self, point: Point) -> list[Point]:
        """Where values that one depends on make it a number, the deepest first."""
        found, pending = [], [(point, 0)]
        with mpmath.workdps(_MORE):
            while pending:
                point, depth = pending.pop()
                made = self.facts.node(point.of)
                if made.op == "select" or point.of not in self.moving:
                    continue
                found.append(point)
                if depth < _CHAIN:
                    pending += [(p, depth + 1) for p in self._inverted(made, point.at)]
        return found[::-1]

    def _ties(self, binding: Node) -> list[Point]:
        """Where the operands of an extreme are equal."""
        numbers = [_number(o) for o in binding.operands]
        with mpmath.workdps(_MORE):
            if numbers == [None, None]:
                return list(self._tried(binding))
        places = [k for k, n in enumerate(numbers) if n is None] if len(numbers) == 2 else []
        return [p for k in places for p in self._zeros(Point(binding.operands[k], numbers[1 - k]))]

    def _inverted(self, made: Node, value: Any) -> Iterator[Point]:
        """Where an operand makes an operation's value that number."""
        op, operands = made.op, made.operands
        numbers = [_number(o) for o in operands]
        if op in ("neg", "cast"):
            yield Point(operands[0], -value if op == "neg" else value)
        elif len(operands) == 1:
            if op in ("exp", "log") and (value > 0 or op == "log"):
                yield Point(operands[0], mpmath.log(value) if op == "exp" else mpmath.exp(value))
            else:
                yield from (Point(operands[0], mpmath.mpf(t)) for t in _TRIED if _is_at(op, t, value))
        elif op in ("mul", "div") and value == 0:
            yield from (Point(o, value) for o in operands[: 1 if op == "div" else 2])
        elif op in ("add", "sub") and numbers != [None, None]:
            place = 0 if numbers[0] is None else 1
            rest = numbers[1 - place]
            yield Point(operands[place], value - rest if op == "add" else value + rest if place == 0 else rest - value)
        elif op in ("mul", "div") and numbers[1] and numbers[0] is None:
            yield Point(operands[0], value / numbers[1] if op == "mul" else value * numbers[1])
        elif op in ("mul", "div") and numbers[0]:
            yield Point(operands[1], value / numbers[0] if op == "mul" else numbers[0] / value)
        elif op == "pow" and numbers[1] and value >= 0 and (value or numbers[1] > 0):
            root = value ** (1 / numbers[1])
            yield Point(operands[0], root)
            if root and numbers[1] % 2 == 0:
                yield Point(operands[0], -root)
        else:
            yield from self._tried(made, value)

    def _tried(self, made: Node, value: Any = None) -> Iterator[Point]:
        """Where the only value that moves in a sum makes it that number, or, without one, operands equal."""
        below = [o for o in made.operands if o in self.moving]
        for atom in below:
            below += [o for o in self.facts.node(atom).operands if o in self.moving and o not in below]
            if len(below) > _MANY:
                return
        leaves = {atom for atom in below if atom not in self.facts.made}
        if len(leaves) > 1:
            return
        for leaf in leaves:
            parts = [self._steps(self.facts.node(o), leaf) for o in ([made.result] if value is not None else made.operands)]
            for at in map(mpmath.mpf, _TRIED) if None not in parts else ():
                known = [_value(part, at) for part in parts]  # type: ignore[arg-type]
                if known[0] is not None and known[0] == (known[-1] if value is None else value):
                    yield Point(leaf, at)

    # -- what the sweeps see

    def _chosen(self, binding: Node, seen: list[Regular]) -> Atom:
        """A value as its polynomials near points."""
        b = self.builder
        outer, b.primal = b.primal, False
        found = b.bind(binding.op, binding.operands, binding.shape, binding.dtype, binding.params)
        for point, discs in seen:
            found = b.select(*self._near(point, discs), found)
        b.primal = outer
        return found

    def _near(self, point: Point, discs: tuple[Disc, ...]) -> tuple[Atom, Atom]:
        """Whether a value is near a point, and the polynomial there."""
        b, first = self.builder, discs[0]
        distance = point.of if first.centre.params == 0 else b.emit("sub", (point.of, first.centre))
        radius = min((disc.radius for disc in discs), key=lambda r: r.value)
        near = b.emit("lt", (b.emit("abs", (distance,)), radius))
        if len(discs) == 1 and first.side and self.facts.of(distance).low < 0.0:
            near = b.emit("and", (b.emit("le", (Constant(0.0), distance)[:: first.side]), near))
        right, left = _padded((first, discs[-1]))
        pairs = list(zip(right, left, strict=True))
        found = in_horners_form(b, distance, {k: (p + q) / 2 for k, (p, q) in enumerate(pairs)})
        if len(discs) == 2:
            odd = in_horners_form(b, distance, {k: (p - q) / 2 for k, (p, q) in enumerate(pairs)})
            found = b.add(found, b.mul(b.emit("sign", (distance,)), odd))
            if right[0] != left[0]:  # at a jump there is no value
                near = b.emit("and", (b.emit("ne", (distance, Constant(0.0))), near))
        return near, found


# -- values in many digits

_KINKS, _STEPS = operations("chooses"), operations("steps")
_BRANCHES = {"sqrt": -1, "acos": -1, "acosh": -1}  # by what the other one that is met is multiplied


def _value(steps: Steps, at: Any, taken: dict[int, Any] | None = None, walk: dict[int, Any] | None = None) -> Any:
    """What steps make of a number, None where that is not known. `taken` are the choices of sizes and extremes, which are
    noted where they are not known; on a `walk` roots and logarithms go on from those of the number before."""
    values = [at]
    try:
        for k, (op, refs) in enumerate(steps):
            if op == "const":
                values.append(mpmath.mpmathify(refs[0]))
                continue
            operands = [values[r] for r in refs]
            if op in _COSTLY and any(mpmath.mag(o) > _WIDE for o in operands):
                return None
            if op in _KINKS and taken is not None:
                if k not in taken and any(map(mpmath.im, operands)):
                    return None
                ways = [operands[0], -operands[0]] if op == "abs" else operands
                sizes = [mpmath.re(w) if op != "min" else -mpmath.re(w) for w in ways]
                found = ways[taken.setdefault(k, sizes.index(max(sizes)))]
            elif op in _STEPS and taken is not None:
                found = taken.setdefault(k, OPERATIONS[op](*operands))
            elif op == "atan2" and taken is not None:
                found = _angle(*operands, taken, k)
            elif walk is not None and (op in ("log", "cbrt") or (op == "pow" and operands[1] % 1)):
                found = _continued(op, operands[0], operands[1] if op == "pow" else mpmath.mpf(1) / 3, walk, k)
            else:
                found = operands[0] if op == "cast" else _computed(op, mpmath.mp.prec, *operands)
            if walk is not None and op in _BRANCHES:
                before = walk.get(k, found)
                found = walk[k] = min(found, _BRANCHES[op] * found, key=lambda f: abs(f - before))
            parts = [p for p in (mpmath.re(found), mpmath.im(found)) if p]
            if mpmath.mag(found) > _LARGEST or any(mpmath.mag(p) < -_SMALLEST for p in parts):
                return None  # as in doubles; sinh of exp(1e6) or of exp(-1e6) + 1j would be computed with a million digits
            values.append(found)
    except _REFUSED:
        return None
    return values[-1] if mpmath.isfinite(values[-1]) else None


@functools.lru_cache(maxsize=8192, typed=True)
def _computed(op: str, bits: int, *operands: Any) -> Any:
    """An operation in a precision; values that are made of one another ask for the same."""
    return OPERATIONS[op](*operands)


def _angle(y: Any, x: Any, taken: dict[int, Any], k: int) -> Any:
    """An angle as the arc tangent of a quotient, the one that is small beside a point, and a number of right angles."""
    if k not in taken:
        turns = mpmath.nint(mpmath.atan2(y, x) / (mpmath.pi / 2))
        taken[k] = abs(y) > abs(x), int(turns)
    is_steep, turns = taken[k]
    return (-mpmath.atan(x / y) if is_steep else mpmath.atan(y / x)) + turns * mpmath.pi / 2


def _continued(op: str, base: Any, power: Any, walk: dict[int, Any], k: int) -> Any:
    """A logarithm or a power on a walk, which turns round as its base does."""
    sign = walk.setdefault(-1 - k, -1 if op == "cbrt" and mpmath.re(base) < 0 else 1)
    found = mpmath.log(sign * base)
    turns = mpmath.nint((walk.get(k, mpmath.im(found)) - mpmath.im(found)) / (2 * mpmath.pi))
    found += mpmath.mpc(0, 2 * mpmath.pi * turns)
    walk[k] = mpmath.im(found)
    return found if op == "log" else sign * mpmath.exp(found * power)


def _is_tie(steps: Steps, at: Any) -> bool:
    """Whether an extreme's operands have no kink where they are equal: half of the slope of each is between those of both
    sides."""
    if steps[-1][0] not in _KINKS:
        return False
    sides: list[dict[int, Any]] = [{}, {}]
    with mpmath.workdps(_MORE):
        for taken, side in zip(sides, (1, -1), strict=True):
            _value(steps[:-1], at + side * _NEAR, taken)
    return sides[0] == sides[1]


@functools.lru_cache(maxsize=1024)
def _discs(steps: Steps, at: Any, order: int, is_real: bool) -> tuple[Disc, ...]:
    """A value near a point as a polynomial, or as two, the right one first; none where it has no such form."""
    found, known = list[Disc](), list[dict[int, Any]]()
    for side in (1, -1)[: 1 + is_real]:
        taken: dict[int, Any] = {}
        with mpmath.workdps(_MORE):
            if _value(steps, at + side * _NEAR, taken) is None:
                continue
        known.append(taken)
        disc = _disc(steps, taken if is_real else None, at, side, order)
        if disc is not None and disc.side == 0:
            return (disc,)
        if disc is not None:
            found.append(_narrowed(disc, order) if steps[-1][0] in _KINKS else disc)
    if len(found) == 2 and np.allclose(*_padded(found), rtol=1e-12, atol=0.0):
        return (found[0]._replace(side=0),)
    return tuple(found) if len(found) == len(known) and is_real else ()


def _padded(discs: Iterable[Disc]) -> list[tuple[float, ...]]:
    """The coefficients of discs, as many of each."""
    return list(zip(*itertools.zip_longest(*(disc.coefficients for disc in discs), fillvalue=0.0), strict=True))


def _narrowed(disc: Disc, order: int) -> Disc:
    """A disc that is its centre, as the value beside that has its slopes."""
    lowest = next((k for k, a in enumerate(disc.coefficients) if a), 0)
    return disc._replace(radius=Constant(_LEAST_RADIUS), coefficients=disc.coefficients[: lowest + order + 1])


def _disc(steps: Steps, taken: dict[int, Any] | None, at: Any, side: int, order: int) -> Disc | None:
    """A disc about a point whose polynomial is a value on a side, or on both; None where the value is not regular. One with
    choices is no wider than these may last."""
    centre, degree = mpmath.mpf(float(at)), _DEGREE + 2 * max(order - 2, 0)
    circle = partial(_on_circle, steps, taken, centre, side)
    with mpmath.workdps(_MORE):
        near = circle(_NEAR, 6)
        if near is None or any(abs(a) * _NEAR ** (k + 1) > 1 for k, a in enumerate(near[0])):
            return None
    with mpmath.workdps(_DIGITS):
        radius, found = mpmath.mpf(1) / 4, None
        for _ in range(8):
            tried = circle(radius, degree)
            if tried is None and found is not None:
                break
            if tried is None:
                radius /= 16
                continue
            found = tried[0], min(tried[1], radius if taken else 4 * radius)
            if taken or tried[1] <= 4 * radius:
                break
            radius = tried[1] / 4
        for _ in range(8 if found is not None else 0):
            terms, within = found[0], float(mpmath.nstr(found[1], 1))
            if not _holds(steps, centre, within * side, terms):
                found = found[0], found[1] / 4
                continue
            is_whole = _holds(steps, centre, -within * side, terms)
            best = Disc(Constant(float(centre)), Constant(within), [float(a) for a in terms], 0 if is_whole else side)
            fewer = (_shortened(steps, best, count) for count in _FEWER) if order <= 2 else iter(())
            return next((disc for disc in fewer if disc is not None), best)
    return None


def _shortened(steps: Steps, disc: Disc, degree: int) -> Disc | None:
    """A disc with fewer coefficients; None where the value outside it would not have enough digits for two derivatives."""
    terms, rest = disc.coefficients[: degree + 1], disc.coefficients[degree + 1 :]
    lowest = next((k for k, a in enumerate(terms) if a), None)
    if lowest is None:
        return None
    shares = [(k, k * k * abs(a / terms[lowest])) for k, a in enumerate(rest, degree + 1) if a]
    within = min([disc.radius.params, *(0.95 * (float(_ERROR) / s) ** (1 / (k - lowest)) for k, s in shares)])
    within = float(mpmath.nstr(within, 1))
    slopes = [(math.perm(k, n), k - n, abs(a)) for n in range(3) for k, a in enumerate(terms) if k >= n]
    size = max(count * a * within**power for count, power, a in slopes)
    for side, share in itertools.product((1, -1), (1.0, 1.1, 1.3)):
        at = mpmath.mpf(disc.centre.params + side * share * within)
        exact = _value(steps, at)
        if exact is None or disc.side == -side:
            continue
        with mpmath.workprec(53):
            rounded = _value(steps, at)
        if rounded is None or abs(rounded - exact) > _LOST * size * within**2:
            return None
    return disc._replace(radius=Constant(within), coefficients=terms)


def _on_circle(
    steps: Steps, taken: dict[int, Any] | None, centre: Any, side: int, radius: Any, degree: int
) -> tuple[list[Any], Any] | None:
    """The Taylor coefficients of a value that is real on the real axis, walking round from a side, and how near they are the
    value; None where there are others."""
    half, nodes = [], 2 * (3 * degree // 2 | 1)  # none on the line where both sides meet
    walk: dict[int, Any] | None = None if taken is None else {}
    for j in range(nodes // 2 + 1):
        at = centre + side * radius * mpmath.expjpi(mpmath.mpf(2 * j) / nodes)
        half.append(_value(steps, at, taken, walk))
        if half[-1] is None:
            return None
    half[0], half[-1] = half[0] / 2, half[-1] / 2
    parts = [mpmath.re(v) for v in half] + [mpmath.im(v) for v in half]
    bits = mpmath.mp.prec - max(map(mpmath.mag, filter(None, parts)), default=0)
    whole = [int(mpmath.ldexp(p, bits)) for p in parts]
    rows = _turns(nodes, degree, mpmath.mp.prec)
    scale = -bits - mpmath.mp.prec
    sums = [mpmath.ldexp(mpmath.mpf(sum(map(operator.mul, whole, row))), scale) * 2 / nodes for row in rows]
    largest = max(map(abs, sums))
    before, after = sums[:degree], sums[degree:]
    if not largest < mpmath.inf or max(map(abs, before)) > _LEAST * largest:
        return None
    shares = [(k, k * k * abs(a) / (largest or 1)) for k, a in enumerate(after) if k > degree]
    widest = radius * min((_ERROR / s) ** (mpmath.mpf(1) / k) if s else 16 for k, s in shares)
    terms = [a / (side * radius) ** k if abs(a) > _LEAST * largest else a * 0 for k, a in enumerate(after[: degree + 1])]
    return terms, widest * mpmath.mpf("0.95")


@functools.cache
def _turns(nodes: int, degree: int, bits: int) -> list[list[int]]:
    """Cosines, then sines, of multiples of the angles of half of a circle, times a power of two: one row for each power."""
    angles, turns = [mpmath.mpf(2 * k) / nodes for k in range(nodes)], (mpmath.cospi, mpmath.sinpi)
    made = [[int(mpmath.ldexp(turn(t), bits)) for t in angles] for turn in turns]
    return [[turn[j * k % nodes] for turn in made for j in range(nodes // 2 + 1)] for k in range(-degree, nodes // 2)]


def _holds(steps: Steps, centre: Any, within: float, terms: list[Any]) -> bool:
    """Whether a polynomial is the value on one side."""
    for share in _SHARES:
        d = within * mpmath.mpf(share)
        with mpmath.workdps(_MORE):  # where digits cancel
            there = _value(steps, centre + d)
        size = max(abs(a) * abs(d) ** k for k, a in enumerate(terms))
        if there is None or not abs(mpmath.polyval(terms[::-1], d) - there) <= mpmath.mpf(10) ** -16 * size:
            return False
    return True


def _extreme(binding: Node) -> str:
    return extreme_by_rule(binding) if binding.op == "call" or binding.op in _KINKS else ""


def _singular_points(facts: Facts, binding: Node) -> list[Point]:
    """Operands of an operation and numbers that they may have, where it is singular."""
    power = facts.exponent(binding)
    if binding.op == "call" or (power > 0 and power % 1 == 0):
        return []
    numbers = tuple(o.value if isinstance(o, Constant) else None for o in binding.operands)
    return [p for place, t in _singular(known_column(binding).loci, numbers)
            if _may_be(facts.of((p := Point(binding.operands[place], mpmath.mpf(t))).of), t)]  # fmt: skip


@functools.lru_cache(maxsize=1024)
def _singular(loci: tuple[Locus, ...], numbers: tuple[Any, ...]) -> list[tuple[int, int]]:
    """The places of operands, and what makes an operation singular there whatever those are that are not known."""
    conditions = [formula_locus(locus) for locus in loci if locus.kind in _SINGULAR]
    found = []
    for place, t in itertools.product([k for k, n in enumerate(numbers) if n is None] if conditions else (), _TRIED):
        given = tuple(t if k == place else math.nan if n is None else n for k, n in enumerate(numbers))
        if any(evaluate_formula(c, given, None) for c in conditions):
            found.append((place, t))
    return found


def _may_be(fact: Fact, t: float) -> bool:
    above = fact.low < t or (fact.low == t and not fact.low_open)
    return above and (t < fact.high or (fact.high == t and not fact.high_open))


def _number(atom: Atom) -> Any:
    """A real constant in many digits; None for other values."""
    value = atom.value if isinstance(atom, Constant) else None
    return mpmath.mpf(value) if isinstance(value, (int, float)) else None


def _is_at(op: str, at: int, value: Any) -> bool:
    try:
        if op not in OPERATIONS or (op in _COSTLY and not np.isclose(float(OPS[op].function()(float(at))), float(value))):
            return False
        return bool(OPERATIONS[op](mpmath.mpf(at)) == value)
    except _REFUSED:
        return False


def outside_discs(bindings: list[Node]) -> set[Atom]:
    """What is needed elsewhere than where an earlier sweep has told that a value is far from such a point."""
    made = {b.result: b for b in bindings}
    used = {o for b in bindings for o in b.operands}
    wanted, pending = set[Atom](), [b.result for b in bindings if b.result not in used]
    while pending:
        top = pending.pop()
        if top not in wanted:
            wanted.add(top)
            binding = made.get(top)
            pending += () if binding is None else _followed(binding, made)
    return wanted


def _followed(binding: Node, made: dict[Atom, Node]) -> tuple[Atom, ...]:
    """The operands of an operation but conditions; of a choice by the distance from a point the near one."""
    if binding.dtype == "?":
        return ()
    if binding.op != "select":
        return binding.operands
    condition, far = made.get(binding.operands[0]), 2
    while condition is not None and condition.op in ("not", "and"):
        far = 3 - far if condition.op == "not" else far
        condition = made.get(condition.operands[-1])
    near = is_disc(condition, made)
    return tuple(o for k, o in enumerate(binding.operands) if not (near and k == far))

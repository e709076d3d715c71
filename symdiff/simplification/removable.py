"""Quotients at common zeros of both parts, as the sweeps see them: a polynomial near the point, what was written elsewhere.

Assumes bindings in order. Of a value that depends on one moving value u alone and has a divisor that vanishes at u = c, the
Laurent coefficients at c are computed in 50 digits on a circle about it; where there are none of negative order, the value is
regular, and the sweeps see the first of the others where u is nearer to c than a radius within which they are the value to all
digits. So do they where it is regular on each side, and that on the left is minus the other's continuation. The derivatives
of any order follow, and so do those of differences of poles, and of powers of such values. What the user wrote is computed as
it stands. A value that depends on several ones stays.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import mpmath

from symdiff.ir.building import Builder
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.precision import OPERATIONS
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import LOGARITHMS, Facts
from symdiff.simplification.interning import worked_out
from symdiff.simplification.polynomials import in_horners_form, is_disc
from symdiff.vocabulary.ops import is_complex
from symdiff.vocabulary.traits import operations

_MANY = 40  # operations from a value to the one that it depends on
_DEEP = 3  # quotients one behind the other
_CHAIN = 8  # operations that are inverted to tell where a divisor vanishes
_TRIED = (0, 1, -1, 2)  # where other functions are tried for a value
_NEAR, _SIXTEENTH = mpmath.mpf(10) ** -16, mpmath.mpf(1) / 16
_KNOWN = {*OPERATIONS, "cast"}
_FOLLOWED = operations("polynomial") - operations("pole") | {"div"}
Function = Callable[[Any], Any]
_DEGREE, _DIGITS, _MORE = 16, 60, 160
_STEEP = LOGARITHMS.keys() - {"log1p"} | {"sqrt"}
_FEWER = (8, 12)  # degrees that are enough where the value beyond has its digits
_LOST = 1e-12  # relative error of a second derivative by rounding
_LEAST = mpmath.mpf(10) ** -30  # a Laurent coefficient beside the largest that counts as none
_ERROR, _NOISE = mpmath.mpf(10) ** -18, mpmath.mpf(10) ** -80
_LARGEST = 1024  # the exponent from which doubles overflow
_AROUND = (mpmath.mpc(1), mpmath.mpc(-1), *(mpmath.mpc(r) * 1j**k * mpmath.expj(0.5) for r in (1, 0.5) for k in range(4)))
_REFUSED = (ArithmeticError, ValueError, TypeError, AttributeError, KeyError, NotImplementedError)


class Point(NamedTuple):
    """Where a moving value has a number."""

    of: Atom
    at: Any


class Disc(NamedTuple):
    """A value's Taylor coefficients by the distance from a point, and how near they are the value."""

    centre: Constant
    radius: Constant
    coefficients: list[float]
    side: int  # 1 or -1 where a real value is defined on that side alone
    turned: bool = False  # whether it is minus the value on the left


def regular(facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int = 2) -> list[Node]:
    """The bindings with values whose divisors vanish at a point where they do not have a pole as polynomials near it, which
    are differentiated up to an order."""
    if any(_divisor(b) is not None and _may_vanish(facts, _divisor(b)) for b in facts.bindings):
        return _Removing(facts, builder, wrt, order).run()
    return facts.bindings


class _Removing:
    """The poles of values, point by point, until a value made of them has none."""

    def __init__(self, facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int) -> None:
        self.order = order
        self.facts = facts
        self.builder = builder
        self.moving = active_symbols(facts.bindings, wrt)
        self.wanted = outside_discs(facts.bindings)
        self._poles: dict[Atom, list[Point]] = {}
        self._depths: dict[Atom, int] = {}  # how many divisors that may vanish lie one behind the other

    def run(self) -> list[Node]:
        found: list[Node] = []
        stands: dict[Atom, Atom] = {}
        start = len(self.builder.bindings)
        for binding in self.facts.bindings:
            self.builder.origin = binding.origin
            seen = self._seen(binding) if binding.result in self.moving and binding.result in self.wanted else None
            if not stands.keys().isdisjoint(binding.operands):
                operands = tuple(stands.get(o, o) for o in binding.operands)
                binding = binding_with(binding, binding.op, operands, binding.params)
            if seen is None:
                found.append(binding)
                continue
            chosen = self._chosen(binding, *seen)
            found += self.builder.bindings[start:]
            start = len(self.builder.bindings)
            found.append(binding_with(binding, "cast", (chosen,)))
            stands[binding.result] = chosen
        return found

    def _seen(self, binding: Node) -> tuple[Point, Disc] | None:
        """Where a value is regular although what it is made of is not; None elsewhere."""
        places = binding.operands[: 1 if binding.op in ("div", "pow") else None] if binding.op in _FOLLOWED else ()
        points = [p for o in dict.fromkeys(places) for p in self._poles.get(o, ())]
        divisor = _divisor(binding)
        if binding.op == "sqrt" and self.facts.node(divisor).op not in ("add", "sub"):
            divisor = None  # what has a simple zero, or a form of the table
        vanishes = divisor is not None and divisor in self.moving and _may_vanish(self.facts, divisor)
        depth = max((self._depths.get(o, 0) for o in binding.operands), default=0) + (vanishes and binding.op != "sqrt")
        self._depths[binding.result] = depth
        if depth > _DEEP:
            return None
        if divisor is not None and vanishes:
            points += self._zeros(divisor)
        for point in dict.fromkeys(points):
            copies = self._copies(binding, point.of)
            code = point.of.dtype or "d"
            if copies is None or point.of.shape != binding.shape or is_complex(code) != is_complex(binding.dtype):
                continue
            value = partial(self._value, binding, copies)
            is_pole = divisor is not None and self.moving.isdisjoint(o for o in binding.operands if o is not divisor)
            if (is_pole and binding.op != "sqrt") or self._is_bounded(value, point.at) is False:
                self._poles.setdefault(binding.result, []).append(point)
                continue
            for turned in (False, True)[: 1 if is_complex(code) else 2]:
                analytic = partial(_turned, value, point.at) if turned else value
                disc = _best_disc(analytic, float(point.at), self.order) if self._is_smooth(analytic, point.at) else None
                if disc is not None:
                    return point, disc._replace(turned=turned)
        return None

    def _copies(self, binding: Node, of: Atom) -> list[Atom] | None:
        """What is the same as a value among what a binding is made of; None where that depends on others, too."""
        found, seen, pending = [of], set[Atom](), [binding]
        kind = self.facts.node(of).op
        while pending:
            for operand in pending.pop().operands:
                made = self.facts.made.get(operand)
                if operand is of or operand in seen or isinstance(operand, Constant):
                    continue
                seen.add(operand)
                if made is not None and made.op == kind and self.facts.same(operand, of):
                    found.append(operand)
                elif made is None or len(seen) > _MANY or made.op not in _KNOWN or made.dtype == "?":
                    return None
                else:
                    pending.append(made)
        return found

    def _is_bounded(self, value: Function, at: Any) -> bool | None:
        """Whether a value does not grow towards a point; None where it is not known."""
        with mpmath.workdps(_MORE):
            far, near = (value(at + _NEAR * share) for share in (1, _SIXTEENTH))
            return None if far is None or near is None else bool(abs(near) <= (1 + _NEAR ** mpmath.mpf("0.5")) * abs(far))

    def _is_smooth(self, value: Function, at: Any) -> bool:
        """Whether a value's differences shrink towards a point as those of an analytic one, around it as well."""
        with mpmath.workdps(_MORE):
            odd, even = [], []
            for h in (_NEAR, _NEAR * _SIXTEENTH):
                ends = [value(at + h * turn) for turn in _AROUND]
                if None in ends:
                    return False
                odd.append(abs(ends[0] - ends[1]))
                even.append(abs(mpmath.fsum(ends[2:6]) - mpmath.fsum(ends[6:])))
            return bool(odd[1] <= odd[0] / 8 + _NOISE and even[1] <= even[0] / 1000 + _NOISE)

    # -- where divisors vanish

    def _zeros(self, divisor: Atom) -> list[Point]:
        """Where values that a divisor depends on make it zero, the deepest first."""
        found, pending = [], [(Point(divisor, mpmath.mpf(0)), 0)]
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
        elif op in ("add", "sub") and numbers == [None, None]:
            yield from self._tried(made, value)
        elif op in ("add", "sub"):
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

    def _tried(self, made: Node, value: Any) -> Iterator[Point]:
        """Where the only value that moves in a sum makes it that number."""
        below, leaves = [made], set[Atom]()
        for node in below:
            inner = [self.facts.made.get(o, o) for o in node.operands if o in self.moving]
            leaves.update(n for n in inner if n not in self.facts.made)
            below += [n for n in inner if n in self.facts.made and n not in below]
            if len(leaves) > 1 or len(below) > _MANY:
                return
        for leaf in leaves:
            yield from (Point(leaf, at) for at in map(mpmath.mpf, _TRIED) if self._value(made, [leaf], at) == value)

    # -- values in many digits

    def _value(self, binding: Node, copies: list[Atom], at: Any) -> Any:
        """What a binding is where another value is a number, with `copies` of it; None where that is not known."""
        known = dict.fromkeys(copies, at)
        try:
            found = self._evaluated(binding, known)
        except _REFUSED:
            return None
        return found if mpmath.isfinite(found) else None

    def _evaluated(self, binding: Node, known: dict[Atom, Any]) -> Any:
        def applied(atom: Atom) -> Any:
            made = self.facts.node(atom)
            values = [known[o] if (n := _number(o)) is None else n for o in made.operands]
            op = "mul" if made.op == "abs" and isinstance(values[0], mpmath.mpc) else made.op
            values += [1 if mpmath.re(values[0]) >= 0 else -1] if op != made.op else []
            found = values[0] if op == "cast" else OPERATIONS[op](*values)
            if mpmath.mag(found) > _LARGEST:
                raise OverflowError  # as in doubles; sinh of exp(1e6) would be computed with a million digits
            return found

        def below(atom: Atom) -> list[Atom]:
            return [o for o in self.facts.node(atom).operands if _number(o) is None]

        return worked_out(binding.result, known, below, applied)

    # -- what the sweeps see

    def _chosen(self, binding: Node, point: Point, disc: Disc) -> Atom:
        """A value as its polynomial near a point."""
        b = self.builder
        outer, b.primal = b.primal, False
        distance = point.of if disc.centre.params == 0 else b.emit("sub", (point.of, disc.centre))
        near = b.emit("lt", (b.emit("abs", (distance,)), disc.radius))
        if disc.side and self.facts.of(distance).low < 0.0:
            near = b.emit("and", (b.emit("le", (Constant(0.0), distance)[:: disc.side]), near))
        plain = b.bind(binding.op, binding.operands, binding.shape, binding.dtype, binding.params)
        found = in_horners_form(b, distance, dict(enumerate(disc.coefficients)))
        if disc.turned:  # at the point itself there is no value, or a kink
            near = b.emit("and", (b.emit("ne", (distance, Constant(0.0))), near))
            found = b.select(b.emit("lt", (distance, Constant(0.0))), b.neg(found), found)
        found = b.select(near, found, plain)
        b.primal = outer
        return found


def _turned(value: Function, centre: Any, at: Any) -> Any:
    """A value, turned left of a point."""
    found = value(at)
    return found if found is None or mpmath.re(at) >= centre else -found


def _best_disc(value: Function, centre: float, order: int) -> Disc | None:
    """The best of discs about a point, each four times as large as another; None where a value is not regular."""
    degree = _DEGREE + 2 * max(order - 2, 0)
    with mpmath.workdps(_DIGITS):
        radius = mpmath.mpf(1) / 4
        best = _on_circle(value, centre, radius, degree)
        step = mpmath.mpf(1) / 4 if best is None else 4
        for _ in range(10):
            radius *= step
            other = _on_circle(value, centre, radius, degree)
            if best is not None and (other is None or other.radius.params <= best.radius.params):
                break
            best = other
        found = (_shortened(value, best, count) for count in _FEWER) if best is not None and order <= 2 else iter(())
        return next((disc for disc in found if disc is not None), best)


def _shortened(value: Function, disc: Disc, degree: int) -> Disc | None:
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
        exact = value(at)
        if exact is None or disc.side == -side:
            continue
        with mpmath.workprec(53):
            rounded = value(at)
        if rounded is None or abs(rounded - exact) > _LOST * size * within**2:
            return None
    return disc._replace(radius=Constant(within), coefficients=terms)


def _on_circle(value: Function, centre: float, radius: Any, degree: int) -> Disc | None:
    """The Taylor coefficients of a value that is real on the real axis; None where there are others, or too many."""
    half, nodes = [], 2 * (3 * degree // 2 | 1)  # none on the line where both sides meet
    for j in range(nodes // 2 + 1):
        half.append(value(centre + radius * mpmath.expjpi(mpmath.mpf(2 * j) / nodes)))
        if half[-1] is None:
            return None
    if not any(half):
        return None
    cosines, sines = _turns(nodes)
    half[0], half[-1] = half[0] / 2, half[-1] / 2
    parts = [mpmath.re(v) for v in half] + [mpmath.im(v) for v in half]
    places = [[j * k % nodes for j in range(len(half))] for k in range(-nodes // 2, nodes // 2)]
    sums = [mpmath.fdot(parts, [turn[k] for turn in (cosines, sines) for k in row]) * 2 / nodes for row in places]
    largest = max(map(abs, sums))
    before, after = sums[: nodes // 2], sums[nodes // 2 :]
    if not 0 < largest < mpmath.inf or max(map(abs, before[-degree:])) > _LEAST * largest:
        return None
    shares = [(k, k * k * abs(a) / largest) for k, a in enumerate(after) if k > degree]
    widest = radius * min((_ERROR / s) ** (mpmath.mpf(1) / k) if s else 16 for k, s in shares)
    within = float(mpmath.nstr(min(widest * mpmath.mpf("0.95"), 4 * radius), 1))
    terms = [a / radius**k if abs(a) > _LEAST * largest else mpmath.mpf(0) for k, a in enumerate(after[: degree + 1])]
    sides = [side for side in (1, -1) if _holds(value, centre, within * side, terms)]
    if not sides or not all(_holds(value, mpmath.mpc(centre), within * side, terms) for side in (1, -1)):
        return None
    return Disc(Constant(centre), Constant(within), [float(a) for a in terms], 0 if len(sides) == 2 else sides[0])


@cache
def _turns(nodes: int) -> tuple[list[Any], list[Any]]:
    """Cosines and sines of as many angles."""
    angles = [mpmath.mpf(2 * k) / nodes for k in range(nodes)]
    return [mpmath.cospi(t) for t in angles], [mpmath.sinpi(t) for t in angles]


def _holds(value: Function, centre: Any, within: float, terms: list[Any]) -> bool:
    """Whether a polynomial is the value on one side."""
    size = max(abs(a) * abs(mpmath.mpf(within)) ** k for k, a in enumerate(terms))
    for share in ("0.4", "0.9"):
        d = within * mpmath.mpf(share)
        there = value(centre + d)
        if there is None or not abs(mpmath.polyval(terms[::-1], d) - there) <= mpmath.mpf(10) ** -16 * size:
            return False
    return True


def _divisor(binding: Node) -> Atom | None:
    """What makes an operation or its slope infinite where it vanishes; None where nothing does."""
    op, operands = binding.op, binding.operands
    if op == "div":
        return operands[1]  # type: ignore[no-any-return]
    exponent = _number(operands[1]) if op == "pow" else None
    is_steep = op in _STEEP or (exponent is not None and exponent < 0)
    return operands[0] if is_steep else None


def _may_vanish(facts: Facts, atom: Any) -> bool:
    fact = facts.of(atom)
    is_above = fact.low > 0.0 or (fact.low == 0.0 and fact.low_open)
    return not (isinstance(atom, Constant) or is_above or fact.high < 0.0 or (fact.high == 0.0 and fact.high_open))


def _number(atom: Atom) -> Any:
    """A real constant in many digits; None for other values."""
    value = atom.value if isinstance(atom, Constant) else None
    return mpmath.mpf(value) if isinstance(value, (int, float)) else None


def _is_at(op: str, at: int, value: Any) -> bool:
    try:
        return op in OPERATIONS and bool(OPERATIONS[op](mpmath.mpf(at)) == value)
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
    """The operands of an operation; of a choice by the distance from a point the near one."""
    if binding.op != "select":
        return binding.operands
    condition, far = made.get(binding.operands[0]), 2
    while condition is not None and condition.op in ("not", "and"):
        far = 3 - far if condition.op == "not" else far
        condition = made.get(condition.operands[-1])
    near = is_disc(condition, made)
    return tuple(o for k, o in enumerate(binding.operands) if not (near and k == far))

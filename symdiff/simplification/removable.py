"""Quotients at common zeros of both parts, as the sweeps see them: a polynomial near the point, what was written elsewhere.

Assumes bindings in order. Of a value that depends on one moving value u alone and has a divisor that vanishes at u = c, the
Laurent coefficients at c are computed in 50 digits on a circle about it; where there are none of negative order, the value is
regular, and the sweeps see the first of the others where u is nearer to c than a radius within which they are the value to all
digits. The derivatives of any order follow, and so do those of differences of poles, and of powers of such values. What the
user wrote is computed as it stands. A value that depends on several ones stays.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import mpmath

from symdiff.ir.building import Builder
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node
from symdiff.rulebooks.precision import OPERATIONS
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.facts import LOGARITHMS, Facts
from symdiff.simplification.polynomials import in_horners_form, is_disc

_MANY = 40  # operations from a value to the one that it depends on
_CHAIN = 8  # operations that are inverted to tell where a divisor vanishes
_TRIED = (0, 1, -1, 2)  # where other functions are tried for a value
_NEAR = mpmath.mpf(10) ** -16
_DEGREE, _NODES, _DIGITS = 16, 48, 60
_LEAST = mpmath.mpf(10) ** -30  # a Laurent coefficient beside the largest that counts as none
_ERROR = mpmath.mpf(10) ** -18
_REFUSED = (ArithmeticError, ValueError, TypeError, AttributeError, NotImplementedError)


class Point(NamedTuple):
    """Where a moving value has a number."""

    of: Atom
    at: Any


class Disc(NamedTuple):
    """A value's Taylor coefficients by the distance from a point, and how near they are the value."""

    centre: Constant
    radius: Constant
    coefficients: list[float]


def regular(facts: Facts, builder: Builder, wrt: Iterable[Atom]) -> list[Node]:
    """The bindings with values whose divisors vanish at a point where they do not have a pole as polynomials near it."""
    if any(_divisor(b) is not None and _may_vanish(facts, _divisor(b)) for b in facts.bindings):
        return _Removing(facts, builder, wrt).run()
    return facts.bindings


class _Removing:
    """The poles of values, point by point, until a value made of them has none."""

    def __init__(self, facts: Facts, builder: Builder, wrt: Iterable[Atom]) -> None:
        self.facts = facts
        self.builder = builder
        self.moving = active_symbols(facts.bindings, wrt)
        self.wanted = _outside_discs(facts.bindings)
        self._poles: dict[Atom, list[Point]] = {}
        self._near: dict[tuple[Point, Any], dict[Atom, Any]] = {}

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
        points = [p for o in dict.fromkeys(binding.operands) for p in self._poles.get(o, ())]
        divisor = _divisor(binding)
        if divisor is not None and divisor in self.moving and _may_vanish(self.facts, divisor):
            points += self._zeros(divisor)
        for point in dict.fromkeys(points):
            ends = [self._value(binding, point, point.at + d) for d in (_NEAR, _NEAR**2)]
            if None in ends or point.of.shape != binding.shape:
                continue
            if abs(ends[1]) > 2 * abs(ends[0]):
                self._poles.setdefault(binding.result, []).append(point)
            elif (disc := self._disc(binding, point)) is not None:
                return point, disc
        return None

    # -- where divisors vanish

    def _zeros(self, divisor: Atom) -> list[Point]:
        """Where values that a divisor depends on make it zero, the deepest first."""
        found, pending = [], [(Point(divisor, mpmath.mpf(0)), 0)]
        with mpmath.workdps(3 * _DIGITS):
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

    # -- values in many digits

    def _value(self, binding: Node, point: Point, at: Any) -> Any:
        """What a binding is where the point's value is a number; None where it depends on others, or is not known."""
        known = self._near.setdefault((point, at), {point.of: at})
        with mpmath.workdps(3 * _DIGITS):
            return self._evaluated(binding, known, [_MANY])

    def _evaluated(self, binding: Node, known: dict[Atom, Any], left: list[int]) -> Any:
        result = binding.result
        if result in known:
            return known[result]
        left[0] -= 1
        if left[0] < 0 or binding.op not in (*OPERATIONS, "cast") or binding.dtype == "?":
            return None
        values = []
        for operand in binding.operands:
            value = _number(operand)
            if value is None:
                made = self.facts.made.get(operand)
                value = known.get(operand) if made is None else self._evaluated(made, known, left)
            if value is None:
                return None
            values.append(value)
        try:
            found = values[0] if binding.op == "cast" else OPERATIONS[binding.op](*values)
        except _REFUSED:
            return None
        known[result] = found if mpmath.isfinite(found) else None
        return known[result]

    # -- Laurent coefficients

    def _disc(self, binding: Node, point: Point) -> Disc | None:
        """The best of discs about a point, each sixteen times as large as another; None where a value is not regular."""
        centre = float(point.at)
        with mpmath.workdps(_DIGITS):
            best, radius = self._on_circle(binding, point, centre, mpmath.mpf(1) / 4), mpmath.mpf(1) / 4
            step = 16 if best is not None else mpmath.mpf(1) / 16
            for _ in range(10):
                radius *= step
                other = self._on_circle(binding, point, centre, radius)
                if best is not None and (other is None or other.radius.params <= best.radius.params):
                    break
                best = other
        return best

    def _on_circle(self, binding: Node, point: Point, centre: float, radius: Any) -> Disc | None:
        half = []
        for j in range(_NODES // 2 + 1):
            known = {point.of: centre + radius * mpmath.expjpi(mpmath.mpf(2 * j) / _NODES)}
            value = self._evaluated(binding, known, [_MANY])
            if value is None:
                return None
            half.append(value)
        weights = [1] + [2] * (_NODES // 2 - 1) + [1]
        turn = [mpmath.expjpi(mpmath.mpf(-2 * k) / _NODES) for k in range(_NODES)]
        sums = [
            mpmath.fsum(w * mpmath.re(v * turn[j * k % _NODES]) for j, (w, v) in enumerate(zip(weights, half, strict=True)))
            / _NODES for k in range(-_NODES // 2, _NODES // 2)
        ]  # fmt: skip
        largest = max(map(abs, sums))
        before, after = sums[: _NODES // 2], sums[_NODES // 2 :]
        if not 0 < largest < mpmath.inf or max(map(abs, before)) > _LEAST * largest:
            return None
        shares = [(k, k * k * abs(a) / largest) for k, a in enumerate(after) if k > _DEGREE]
        widest = radius * min((_ERROR / s) ** (mpmath.mpf(1) / k) if s else 16 for k, s in shares)
        within = float(mpmath.nstr(min(widest * mpmath.mpf("0.95"), 4 * radius), 1))
        terms = [a / radius**k if abs(a) > _LEAST * largest else mpmath.mpf(0) for k, a in enumerate(after[: _DEGREE + 1])]
        if not self._holds(binding, point, centre, within, terms):
            return None
        return Disc(Constant(centre), Constant(within), [float(a) for a in terms])

    def _holds(self, binding: Node, point: Point, centre: float, within: float, terms: list[Any]) -> bool:
        """Whether a polynomial is the value on both sides."""
        size = max(abs(a) * mpmath.mpf(within) ** k for k, a in enumerate(terms))
        for share in ("-0.9", "-0.4", "0.4", "0.9"):
            d = within * mpmath.mpf(share)
            value = self._evaluated(binding, {point.of: centre + d}, [_MANY])
            if value is None or not abs(mpmath.polyval(terms[::-1], d) - value) <= mpmath.mpf(10) ** -16 * size:
                return False
        return True

    # -- what the sweeps see

    def _chosen(self, binding: Node, point: Point, disc: Disc) -> Atom:
        """A value as its polynomial near a point."""
        b = self.builder
        outer, b.primal = b.primal, False
        distance = point.of if disc.centre.params == 0 else b.emit("sub", (point.of, disc.centre))
        near = b.emit("lt", (b.emit("abs", (distance,)), disc.radius))
        plain = b.bind(binding.op, binding.operands, binding.shape, binding.dtype, binding.params)
        found = b.select(near, in_horners_form(b, distance, dict(enumerate(disc.coefficients))), plain)
        b.primal = outer
        return found


def _divisor(binding: Node) -> Atom | None:
    """What makes an operation infinite where it vanishes; None where nothing does."""
    op, operands = binding.op, binding.operands
    if op == "div":
        return operands[1]  # type: ignore[no-any-return]
    exponent = _number(operands[1]) if op == "pow" else None
    return operands[0] if op in LOGARITHMS or (exponent is not None and exponent < 0) else None


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


def _outside_discs(bindings: list[Node]) -> set[Atom]:
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

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
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np

from symdiff.ir.building import Builder
from symdiff.ir.invariants import binding_with
from symdiff.ir.node import Atom, Constant, Node, Seen
from symdiff.rulebooks.calls import kink_by_rule
from symdiff.rulebooks.columns import Locus, formula_locus
from symdiff.rulebooks.elsewhere import OPERATIONS
from symdiff.rulebooks.rule import evaluate_formula
from symdiff.simplification.activity import active_symbols
from symdiff.simplification.equalities import Thinness
from symdiff.simplification.expansions import (
    COSTLY,
    JUMP,
    KINK,
    KINKS,
    MORE,
    POLE,
    REFUSED,
    THIN,
    Disc,
    Steps,
    append_steps,
    discs,
    is_apart,
    is_continuous,
    kind_of,
    padded,
    value_at,
)
from symdiff.simplification.facts import Facts, known_column
from symdiff.simplification.intervals import real_number
from symdiff.simplification.polynomials import in_horners_form, is_disc
from symdiff.simplification.rewriting import replaced
from symdiff.vocabulary.ops import OPS, is_complex
from symdiff.vocabulary.traits import operations
from symdiff.vocabulary.walking import worked_out

_MANY = 64  # operations from a value to the one that it depends on
_DEEP = 6  # singular heads one behind the other
_CHAIN = 8  # operations that are inverted to tell where a head is singular
_PLACES = 64  # points that are found so, of which a period has several at each operation
_NOWHERE: frozenset[Any] = frozenset()
_TRIED = (0, 1, -1, 2)  # where other functions are tried for a value
_SINGULAR = {"pole": POLE, "edge": POLE, "jump": JUMP, "kink": KINK}
_SUMS = ("add", "sub")  # whose slopes are means where those of their operands are
_LINEAR = (*_SUMS, "neg", "cast")
_BOTH = ("hypot", "atan2")  # are singular where both operands vanish
_POLYNOMIAL = operations("polynomial")
_FAMILIES = {n for n, row in OPS.items() if row.is_special and row.arity > 1} - {"iv"}  # of some mpmath's never end


class Point(NamedTuple):
    """Where a moving value has a number."""

    of: Atom
    at: Any

    @property
    def is_real(self) -> bool:
        """Whether the value is."""
        return not is_complex(self.of.dtype or "d")


Regular = tuple[Point, tuple[Disc, ...]]


def regular(facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int, again: bool, whole: bool) -> list[Node]:
    """The bindings with values that are regular beside a point where a head is singular as polynomials near it, which are
    differentiated up to an order; where a select has a value of its own at a point, with quotients by poles, too."""
    guarded = any(_guard(facts, b) for b in facts.bindings)
    if guarded or any(_extreme(b) or b.op in _BOTH or is_divided(b) or _singular_points(facts, b) for b in facts.bindings):
        return _Removing(facts, builder, wrt, order, again, whole, guarded).run()
    return facts.bindings


class _Removing:
    """The singular points of values, until a value made of them has none."""

    def __init__(
        self, facts: Facts, builder: Builder, wrt: Iterable[Atom], order: int, again: bool, whole: bool, guarded: bool
    ) -> None:
        self.order = order
        self.again = again  # whether a sweep has made some of the values
        self.whole = whole
        self.passed = ("pow",) if guarded else ("div", "pow")  # in which a pole below the line is none
        self.facts = facts
        self.builder = builder
        wrt = set(wrt)
        self.thinness = Thinness(wrt)
        self.moving = active_symbols(facts.bindings, wrt)
        if guarded:  # constants, too, that are stored at points of what moves
            points = ((b.result, _guard(facts, b)) for b in facts.bindings)
            wrt |= {select for select, point in points if point is not None and point.of in self.moving}
            self.moving = active_symbols(facts.bindings, wrt)
        self.thinness.include(facts.bindings if guarded else ())
        self.told = told(facts.bindings)
        self._stands: dict[Atom, Atom] = {}
        self._again: dict[Atom, Atom] = {}
        self._points: dict[Atom, dict[Point, int]] = {}
        self._depths: dict[Atom, int] = {}  # how many singular heads lie one behind the other

    def run(self) -> list[Node]:
        return replaced(self.facts.bindings, self.builder, self._replaced)

    def _replaced(self, binding: Node) -> Atom | Seen | None:
        near, other = self.told.get(binding.result), None
        is_asked = binding.result in self.moving and near is not None
        if binding.op == "select":  # which has its value as it is written
            return self._guarded(binding) if is_asked else None
        seen = self._seen(binding) if is_asked else []
        chosen = self._by_product(binding) if binding.op == "div" and not seen and near == _NOWHERE else None
        if not self._stands.keys().isdisjoint(binding.operands):
            operands = tuple(self._stands.get(o, o) for o in binding.operands)
            binding = other = binding_with(binding, binding.op, operands, binding.params)
        chosen = self._chosen(binding, seen) if seen else chosen
        if chosen is None:
            return other
        self._stands[binding.result] = chosen = self.builder.cast(chosen, binding.dtype)
        return chosen

    def _seen(self, binding: Node) -> list[Regular]:
        """Where a value is regular although what it is made of is not: points of the same value."""
        found, kinds = list[Regular](), dict[Point, int]()
        for place, operand in enumerate(binding.operands):
            for p, kind in self._points.get(operand, {}).items():
                if kind < POLE or not (place and binding.op in self.passed):
                    kinds[p] = max(kind, kinds.get(p, kind))
        own = {p: kind for point, kind in _singular_points(self.facts, binding) for p in self._zeros(point)}
        if self.whole and is_divided(binding):
            own |= dict.fromkeys(self._zeros(Point(binding.operands[0], mpmath.mpf(0))), POLE)
        own |= dict.fromkeys(self._ties(binding), JUMP if binding.op == "atan2" else KINK)
        depth = max((self._depths.get(o, 0) for o in binding.operands), default=0) + bool(own)
        self._depths[binding.result] = depth
        several = len({o for o in binding.operands if not isinstance(o, Constant)}) > 1
        is_bent = self.whole and binding.op not in _LINEAR and (several or binding.op not in ("mul", "div"))
        may_be_none = binding.primal or not self.again  # what a sweep before has left undecided stays so
        for point in dict.fromkeys((*kinds, *own)) if depth <= _DEEP else ():
            steps = self._followed(binding, point, found)
            if steps is None:
                continue
            having = sum(point in self._points.get(o, {}) for o in binding.operands)
            if binding.op in _SUMS and having == 1 and point not in own:
                self._points.setdefault(binding.result, {})[point] = kinds[point]  # what is regular does not take it away
                continue
            kind, is_tie = max(kinds.get(point, KINK), own.get(point, KINK)), own.get(point) == KINK
            is_mean = point in own or (kind == KINK and binding.op in _SUMS)
            if kind < POLE and (_extreme(binding) or (several and not is_mean)):
                kind = kind_of(steps, point.at)
            is_asked = kind == POLE or (kind == JUMP and is_tie)
            known = discs(steps, point.at, self.order, point.is_real) if is_asked or is_tie or self.whole else ()
            if (
                known
                and (is_asked or len(known) == 1 or (is_bent and point not in own))
                and is_continuous(steps, point.at, known, may_be_none)
            ):
                found.append((point, known))
            elif kind > KINK or self.again or self.whole:
                self._points.setdefault(binding.result, {})[point] = kind
        return found

    def _followed(self, binding: Node, point: Point, seen: list[Regular]) -> Steps | None:
        """The operations from a value to another one, if that is not seen near points of other values; None for too many."""
        if (seen and point.of is not seen[0][0].of) or self._is_far(binding, point):
            return None
        if point.of.shape != binding.shape or point.is_real is is_complex(binding.dtype):
            return None
        steps = self._steps(binding, point.of)
        if steps is None or sum(op in KINKS for op, _ in steps) > (_DEEP if point.is_real else 0):
            return None
        return None if binding.op not in _POLYNOMIAL and any(op in _FAMILIES for op, _ in steps) else steps

    def _guarded(self, select: Node) -> Atom | Seen | None:
        """What a select is that has a value of its own at some points: the arm beside them, or polynomials near them; the arm
        at them where the other one jumps or is flat, without slopes where nothing is known of these; of several variables, a
        choice between values that are made of polynomials."""
        (condition, *arms), guard = select.operands, _guard(self.facts, select)
        if guard is None or self.thinness.of(condition) is None:
            return None
        near, seen, apart = int(self.facts.node(condition).op == "ne"), list[Regular](), list[bool | None]()
        far, rough = arms[1 - near], False
        for point in dict.fromkeys(self._zeros(guard)):
            steps = self._followed(select, point, seen)
            if steps is None:
                continue
            known = discs(steps, point.at, self.order, point.is_real)
            if known and is_continuous(steps, point.at, known):
                seen.append((point, known))
                rough = rough or point in self._points.get(far, {}) or any(op in KINKS for op, _ in steps)
            else:
                self._points.setdefault(select.result, {})[point] = POLE
                apart.append(is_apart(steps, point.at, point.is_real))
        if seen:
            return self._chosen(select, seen) if rough else self._near_points(far)
        if not apart or None in apart:
            return None if apart else binding_with(select, "select", (condition, *map(self._near_points, arms)))
        if False in apart:
            arms[near] = self.builder.add(arms[near], self.builder.emit("edge", (guard.of,)))
        return self.builder.select(condition, *arms)

    def _near_points(self, atom: Atom) -> Atom:
        """A value with what stands for its parts."""
        return worked_out(atom, self._again, lambda a: self.facts.node(a).operands, self._made_again)  # type: ignore[no-any-return]

    def _made_again(self, atom: Atom) -> Atom:
        made = self.facts.node(atom)
        operands = tuple(self._again[o] for o in made.operands)
        if atom in self._stands or operands == made.operands:
            return self._stands.get(atom, atom)
        return self.builder.bind(made.op, operands, made.shape, made.dtype, made.params)

    def _is_far(self, binding: Node, point: Point) -> bool:
        """Whether an earlier sweep has told what a value is near a point."""
        near = self.told.get(binding.result)
        return bool(near) and any((p.of, float(p.at)) in near for p in self._zeros(point))

    def _by_product(self, binding: Node) -> Atom | None:
        """u/x, of which u depends on w = a*x alone, as a*(u/w) where that is regular, and the same for powers of x; u/w of
        which w alone has a pole as u*(1/w)."""
        b, (above, below) = self.builder, binding.operands
        if "div" not in self.passed and POLE in self._points.get(below, {}).values():
            return self._regular_quotient(len(b.bindings), above, Constant(1.0), below)
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
            start = len(b.bindings)
            a, w = (c if n == 1 else b.emit("pow", (c, Constant(n))) for c in (made.operands[1 - place], w))
            self.moving.add(w)
            found = self._regular_quotient(start, a, above, w)
            return None if found is None else b.mul(Constant(1 / scale), found)
        return None

    def _regular_quotient(self, start: int, factor: Atom, above: Atom, below: Atom) -> Atom | None:
        """A product with a quotient that is regular; None, and nothing bound from `start` on, where that is not."""
        b = self.builder
        b.emit("div", (above, below))
        for new in b.bindings[start:]:
            self.facts.include(new)
        quotient = b.bindings.pop()
        self.moving.add(quotient)
        seen = self._seen(quotient)
        found = b.mul(factor, self._chosen(quotient, seen)) if seen else None
        if found is None:
            del b.bindings[start:]
        return found

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
            elif made is None or max(len(places), len(pending) // 2) > _MANY:  # a deep one is not walked to its end
                return None
            elif missing := [o for o in made.operands if o not in places]:
                pending += missing
            elif (place := append_steps(steps, made, tuple(places[o] for o in made.operands))) is not None:
                places[top] = place
            else:
                return None
        return tuple(steps)

    # -- where heads are singular

    def _zeros(self, point: Point) -> list[Point]:
        """Where values that one depends on make it a number, the deepest first."""
        found, pending = list[Point](), [(point, 0)]
        with mpmath.workdps(MORE):
            while pending and len(found) < _PLACES:
                point, depth = pending.pop()
                made = self.facts.node(point.of)
                if made.op == "select" or point.of not in self.moving:
                    continue
                found.append(point)
                if depth < _CHAIN and made.operands:
                    pending += [(p, depth + 1) for p in self._inverted(made, point.at)]
        return found[::-1]

    def _ties(self, binding: Node) -> list[Point]:
        """Where the operands of an extreme are equal, or those of an angle or a hypotenuse zero."""
        if not (_extreme(binding) or binding.op in _BOTH):
            return []
        numbers = [_number(o) for o in binding.operands]
        with mpmath.workdps(MORE):
            if numbers == [None, None]:
                return list(self._tried(binding.operands, None if _extreme(binding) else 0))
        places = [k for k, n in enumerate(numbers) if n is None] if len(numbers) == 2 and _extreme(binding) else []
        return [p for k in places for p in self._zeros(Point(binding.operands[k], numbers[1 - k]))]

    def _inverted(self, made: Node, value: Any) -> Iterator[Point]:
        """Where an operand makes an operation's value that number."""
        numbers = [_number(o) for o in made.operands]
        free = [o for o, n in zip(made.operands, numbers, strict=True) if n is None]
        if value == 0 and made.op in ("mul", "div"):
            yield from (Point(o, value) for o in (free if made.op == "mul" else made.operands[:1]))
        elif len(free) != 1 or made.op == "call":
            yield from self._tried((made.result,), value)
        else:
            of_one = (t for t in _candidates(value, [n for n in numbers if n]) if _is_at(made.op, t, numbers, value))
            yield from (Point(free[0], t) for t in of_one)

    def _tried(self, atoms: tuple[Atom, ...], value: Any = None) -> Iterator[Point]:
        """Where the only value that moves in some makes all of them that number, or, without one, the same."""
        leaf = next(o for o in atoms if not isinstance(o, Constant))
        for _ in range(_MANY):
            leaf = next((o for o in self.facts.node(leaf).operands if o in self.moving), leaf)
        parts = [None if leaf in self.facts.made else self._steps(self.facts.node(o), leaf) for o in atoms]
        for at in map(mpmath.mpf, _TRIED) if None not in parts else ():
            known = [value_at(part, at) for part in parts]  # type: ignore[arg-type]
            if known[0] is not None and all(k == (known[0] if value is None else value) for k in known):
                yield Point(leaf, at)

    # -- what the sweeps see

    def _chosen(self, binding: Node, seen: list[Regular]) -> Atom:
        """A value as its polynomials near points."""
        b = self.builder
        found = b.bind(binding.op, binding.operands, binding.shape, binding.dtype, binding.params)
        for point, known in seen:
            found = b.select(*self._near(point, known), found)
        return found

    def _near(self, point: Point, known: tuple[Disc, ...]) -> tuple[Atom, Atom]:
        """Whether a value is near a point, and the polynomial there."""
        b, first = self.builder, known[0]
        distance = b.emit("sub", (point.of, first.centre))
        least = np.finfo(point.of.dtype or "d").tiny
        near = b.emit("lt", (b.emit("abs", (distance,)), Constant(float(max(least, min(disc.radius for disc in known))))))
        if len(known) == 1 and first.side and self.facts.of(distance).low < 0.0:
            near = b.emit("and", (b.emit("le", (Constant(0.0), distance)[:: first.side]), near))
        right, left = padded((first, known[-1]))
        pairs = list(zip(right, left, strict=True))
        found = in_horners_form(b, distance, {k: (p + q) / 2 for k, (p, q) in enumerate(pairs)})
        if len(known) == 2:
            odd = in_horners_form(b, distance, {k: (p - q) / 2 for k, (p, q) in enumerate(pairs)})
            found = b.add(found, b.mul(b.emit("sign", (distance,)), odd))
            if right[0] != left[0]:  # at a jump there is no value
                near = b.emit("and", (b.emit("ne", (distance, Constant(0.0))), near))
        return near, found


def is_divided(binding: Node) -> bool:
    """Whether a function's row has a series near zero that ends, in place of a quotient."""
    rule = binding.params.rule if binding.op == "call" else None
    return binding.op == "exprel" or (rule is not None and rule.name == "sinc" and not rule.is_user_function)


def _extreme(binding: Node) -> bool:
    return kink_by_rule(binding) in ("max", "min")


def _singular_points(facts: Facts, binding: Node) -> list[tuple[Point, int]]:
    """Operands of an operation and numbers that they may have where it is singular, and how."""
    power = facts.exponent(binding)
    if binding.op == "call" or (power > 0 and power % 1 == 0):
        return []
    numbers = tuple(o.value if isinstance(o, Constant) else None for o in binding.operands)
    return [(p, kind) for place, t, kind in _singular(known_column(binding).loci, numbers)
            if facts.of((p := Point(binding.operands[place], mpmath.mpf(t))).of).may_be(t)]  # fmt: skip


def _guard(facts: Facts, binding: Node) -> Point | None:
    """A value and the number at which alone a select that the user wrote has a value of its own; None for others."""
    condition = facts.node(binding.operands[0]) if binding.op == "select" and binding.primal else None
    number = _number(condition.operands[1]) if condition is not None and condition.op in THIN else None
    return None if number is None else Point(condition.operands[0], number)  # type: ignore[union-attr]


@functools.lru_cache(maxsize=1024)
def _singular(loci: tuple[Locus, ...], numbers: tuple[Any, ...]) -> list[tuple[int, int, int]]:
    """The places of operands, and what makes an operation singular there whatever those are that are not known, and how."""
    conditions = [(formula_locus(locus), _SINGULAR[locus.kind]) for locus in loci if locus.kind in _SINGULAR]
    found = []
    for place, t in itertools.product([k for k, n in enumerate(numbers) if n is None] if conditions else (), _TRIED):
        given = tuple(t if k == place else math.nan if n is None else n for k, n in enumerate(numbers))
        found += [(place, t, kind) for c, kind in conditions if evaluate_formula(c, given, None)][:1]
    return found


def _number(atom: Atom) -> Any:
    """A real constant in many digits; None for other values."""
    value = real_number(atom)
    return None if value is None else mpmath.mpf(value)


def _candidates(value: Any, constants: list[Any]) -> Iterator[Any]:
    """Numbers that an operation, with constants, may make another one."""
    yield from (*map(mpmath.mpf, _TRIED), value, -value)
    if not constants:
        yield from (mpmath.exp(value), mpmath.log(value)) if value > 0 else (mpmath.exp(value),)
    for constant in constants:
        yield from (value + constant, value - constant, constant - value, value * constant, value / constant)
        root = abs(value) ** (1 / constant) if value else value
        yield from (root, -root, constant / value if value else value)


def _is_at(op: str, at: Any, numbers: list[Any], value: Any) -> bool:
    given = [at if n is None else n for n in numbers]
    try:
        if op in COSTLY and not np.isclose(float(OPS[op].function()(*map(float, given))), float(value)):
            return False
        found = OPERATIONS[op](*given) if op != "cast" else at
        return bool(abs(found - value) <= abs(value) * mpmath.eps * 64)
    except REFUSED:
        return False


def told(bindings: list[Node]) -> dict[Atom, frozenset[Any]]:
    """The values and the points near which polynomials stand for them wherever a value counts."""
    made, used = {b.result: b for b in bindings}, {o for b in bindings for o in b.operands}
    found = {b.result: _NOWHERE for b in bindings if b.result not in used}
    for binding in reversed(bindings):
        if binding.result not in found or binding.dtype == "?":
            continue  # it is asked for in conditions alone
        far, disc = _far(binding, made) if binding.op == "select" else (0, None)
        for place, operand in enumerate(binding.operands):
            there = found[binding.result] | ({disc} if far and place == far else _NOWHERE)
            found[operand] = found[operand] & there if operand in found else there
    return found


def _far(binding: Node, made: dict[Atom, Node]) -> tuple[int, Any]:
    """The arm of a choice by the distance from a point that is not the near one, and the distance; 0 for other choices."""
    condition, far = made.get(binding.operands[0]), 2
    while condition is not None and condition.op in ("not", "and"):
        far = 3 - far if condition.op == "not" else far
        condition = made.get(condition.operands[-1])
    if condition is None or not is_disc(condition, made):
        return 0, None
    distance = made[condition.operands[0]].operands[0]
    own = made.get(distance)
    shifted = own is not None and own.op == "sub" and isinstance(own.operands[1], Constant)
    return far, (own.operands[0], own.operands[1].value) if shifted else (distance, 0.0)  # type: ignore[union-attr]

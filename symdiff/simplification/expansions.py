"""Values of one variable in many digits, and as polynomials near a point.

Assumes steps, operations on the results of those before, of which 0 is the variable. Choices such as that of a size are
continued as they are on one side of the point, the conditions of a user's selects as they are at it, but for equations, which
hold at it alone. Guarantees that a polynomial is the value to all digits within its radius: one, or one for each side. Its
coefficients are computed in 50 digits on a circle about the point.
"""

import functools
import itertools
import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import mpmath
import numpy as np

from symdiff.ir.node import Constant, Node
from symdiff.rulebooks.calls import kink_by_rule
from symdiff.rulebooks.elsewhere import OPERATIONS
from symdiff.rulebooks.precision import SLOW
from symdiff.rulebooks.rule import apply
from symdiff.rulebooks.tables import Template, parse_formula
from symdiff.vocabulary.ops import OPS
from symdiff.vocabulary.traits import operations

KINK, JUMP, POLE = range(3)  # where a slope is the mean of several, a value or a slope is one of several, or none is known
NEAR, MORE = mpmath.mpf(10) ** -16, 160
KINKS, STEPS = operations("chooses"), operations("steps")
THIN = ("eq", "ne")  # conditions that choose a value at a point alone
_MANIFOLD = {n for n, row in OPS.items() if row.is_special and row.arity > 2}  # some take minutes in many digits
KNOWN = {*OPERATIONS, "cast"} - {"edge"} - SLOW - _MANIFOLD
COSTLY = {n for n, row in OPS.items() if row.is_special} | {"logaddexp", "logaddexp2"}
_DEGREE, _DIGITS = 16, 60
_FEWER = (5, 8, 12)  # degrees that are enough where the value beyond has its digits
_LOST = 1e-12  # relative error of a second derivative by rounding
_LEAST = 64  # the digits of a term beside the largest that is none, or half of those there are
_ERROR = mpmath.mpf(10) ** -18
_SHARES = ("0.9", "0.6", "0.4", "0.2", "0.1", "0.03", "1e-2", "1e-3", "1e-5", "1e-7", "1e-9", "1e-12")  # of a radius
_JUMP = 1e-3  # between values that are not continuous
_HEIGHTS = [mpmath.mpf(10) ** -k for k in (2, 3, 4, 6, 20)]  # distances at which a jump, or what is flat, is told
_LARGEST = 1024  # the exponent from which doubles overflow
_SMALLEST = 2**16  # the one below zero at which parts of a number are too far apart
_WIDE = 8  # the exponent from which special functions take too long
REFUSED = (ArithmeticError, ValueError, TypeError, AttributeError, KeyError, NotImplementedError, RecursionError)
_TRUTHS = {n for n, row in OPS.items() if row.result == "bool"} | {"here"}
_BOUNDING = KINKS | STEPS | {"atan2"} | operations("compares") - {"eq", "ne"}  # choices that may last up to some point alone
_BRANCHES = {"sqrt": -1, "acos": -1, "acosh": -1}  # by what the other one that is met is multiplied
_MADE = {  # of what can be continued
    "hypot": "sqrt(x*x + y*y)", "mod": "x - y*floor(x/y)", "fmod": "x - y*trunc(x/y)",
    "i0e": "i0(x)*exp(-abs(x))", "i1e": "i1(x)*exp(-abs(x))", "ive": "iv(x, y)*exp(-abs(y))",
    "xlogy": "where(x == 0, 0, x*log(y))", "xlog1py": "where(x == 0, 0, x*log1p(y))",
}  # fmt: skip
Steps = tuple[tuple[str, tuple[Any, ...]], ...]
Taken = dict[int, Any]  # the choices of steps


class Disc(NamedTuple):
    """A value's Taylor coefficients by the distance from a point, and how near they are the value: 0 at the point alone."""

    centre: Constant
    radius: float
    coefficients: list[float]
    side: int  # 1 or -1 where they are on that side alone


# -- steps


def append_steps(steps: list[Any], binding: Node, refs: tuple[int, ...], written: bool = True) -> int | None:
    """Append what a binding does to the results `refs`, a formula's own operations where it has one; None where that is not
    known."""

    def put(op: str, refs: tuple[int, ...], payload: Any = None) -> int:
        steps.append((op, (payload,) if op == "const" else refs))
        return len(steps)

    op = kink_by_rule(binding) or binding.op
    if op in _MADE:
        return apply(_formula(op), refs, None, put)  # type: ignore[no-any-return]
    if op == "call" and binding.params.graph is not None:
        graph = binding.params.graph
        places = dict(zip((leaf.node for leaf in graph.inputs), refs, strict=True))
        for inner in graph.bindings:
            places |= {o: put("const", (), o.value) for o in inner.operands if isinstance(o, Constant)}
            found = append_steps(steps, inner, tuple(places[o] for o in inner.operands), False)
            if found is None:
                return None
            places[inner.result] = found
        return places[graph.outputs[0].atom]
    if op == "select" and binding.primal and written and steps[refs[0] - 1][0] not in THIN:
        refs = (put("here", refs[:1]), *refs[1:])
    return put(op, refs) if op in KNOWN else None


@functools.cache
def _formula(op: str) -> Template:
    return parse_formula(_MADE[op], ("x", "y")[: OPS[op].arity], op)


# -- values


def value_at(steps: Steps, at: Any, taken: Taken | None = None, walk: Taken | None = None, tied: int = 0) -> Any:
    """What steps make of a number, None where that is not known. `taken` are the choices of conditions, sizes and extremes,
    which are noted where they are not known, `tied` for that among equals; on a `walk` roots and logarithms go on from those
    of the number before."""
    values = [at]
    for k, (op, refs) in enumerate(steps):
        if op == "const":
            values.append(refs[0] if isinstance(refs[0], bool) else mpmath.mpmathify(refs[0]))
            continue
        operands = [values[r] for r in refs]
        if op == "select":
            values.append(operands[1 if operands[0] else 2])
            continue
        try:
            known = op in _TRUTHS or all(o == o for o in operands)
            found = _result(k, op, operands, taken, walk, tied) if known else mpmath.nan
        except REFUSED:
            found = mpmath.nan
        if not isinstance(found, bool):
            parts = [p for p in (mpmath.re(found), mpmath.im(found)) if p]
            if mpmath.mag(found) > _LARGEST or any(mpmath.mag(p) < -_SMALLEST for p in parts):
                found = mpmath.nan  # as in doubles; sinh of exp(1e6) or of exp(-1e6) + 1j would take a million digits
        values.append(found)
    return values[-1] if mpmath.isfinite(values[-1]) else None


def _result(k: int, op: str, operands: list[Any], taken: Taken | None, walk: Taken | None, tied: int) -> Any:
    """What one step gives."""
    if op in COSTLY and any(mpmath.mag(o) > _WIDE for o in operands):
        return mpmath.nan
    if op in KINKS and taken is not None:
        ways = [operands[0], -operands[0]] if op == "abs" else operands
        if k not in taken:
            if any(map(mpmath.im, operands)):
                return mpmath.nan
            sizes = [mpmath.re(w) if op != "min" else -mpmath.re(w) for w in ways]
            taken[k] = sizes.index(max(sizes)) if sizes.count(max(sizes)) == 1 else tied
        return ways[taken[k]]
    if taken is not None and (op in STEPS or op in _TRUTHS):
        if k not in taken:
            taken[k] = operands[0] if op == "here" else OPERATIONS[op](*operands)
        return taken[k]
    if op == "atan2" and taken is not None:
        return _angle(*operands, taken, k)
    if walk is not None and (op in ("log", "cbrt") or (op == "pow" and operands[1] % 1)):
        return _continued(op, operands[0], operands[1] if op == "pow" else mpmath.mpf(1) / 3, walk, k)
    found = operands[0] if op in ("cast", "here") else _computed(op, mpmath.mp.prec, *operands)
    if walk is not None and op in _BRANCHES:
        before = walk.get(k, found)
        found = walk[k] = min(found, _BRANCHES[op] * found, key=lambda f: abs(f - before))
    return found


@functools.lru_cache(maxsize=8192, typed=True)
def _computed(op: str, bits: int, *operands: Any) -> Any:
    """An operation in a precision; values that are made of one another ask for the same."""
    return OPERATIONS[op](*operands)


def _angle(y: Any, x: Any, taken: Taken, k: int) -> Any:
    """An angle as the arc tangent of a quotient, the one that is small beside a point, and a number of right angles."""
    if k not in taken:
        turns = mpmath.nint(mpmath.atan2(y, x) / (mpmath.pi / 2))
        taken[k] = (abs(y) > abs(x), int(turns)) if x or y else None
    if taken[k] is None:  # where it jumps
        return 0 * x
    is_steep, turns = taken[k]
    return (-mpmath.atan(x / y) if is_steep else mpmath.atan(y / x)) + turns * mpmath.pi / 2


def _continued(op: str, base: Any, power: Any, walk: Taken, k: int) -> Any:
    """A logarithm or a power on a walk, which turns round as its base does."""
    sign = walk.setdefault(-1 - k, -1 if op == "cbrt" and mpmath.re(base) < 0 else 1)
    found = mpmath.log(sign * base)
    turns = mpmath.nint((walk.get(k, mpmath.im(found)) - mpmath.im(found)) / (2 * mpmath.pi))
    found += mpmath.mpc(0, 2 * mpmath.pi * turns)
    walk[k] = mpmath.im(found)
    return found if op == "log" else sign * mpmath.exp(found * power)


# -- near a point


@functools.lru_cache(maxsize=1024)
def choices(steps: Steps, at: Any, is_real: bool) -> tuple[Any, Taken, dict[int, tuple[Any, Taken]]]:
    """The value at a point and on each side where there is one, with what is chosen there, -1 among equals at the point."""
    there, beside = Taken(), {}
    with mpmath.workdps(MORE):
        known = value_at(steps, at, there, tied=-1)
        here = {k: there[k] for k, (op, _) in enumerate(steps) if op == "here"}
        for side in (1, -1)[: 1 + is_real]:
            taken = Taken(here)
            near = value_at(steps, at + side * NEAR, taken)
            if near is not None:
                beside[side] = near, taken
    return known, there, beside


def kind_of(steps: Steps, at: Any) -> int:
    """Whether the chain rule has the mean of the slopes of both sides for a value at a point, or the value jumps or the slope
    is another one between them, or none of these."""
    known, there, beside = choices(steps, at, True)
    if known is None or not beside:
        return POLE
    if any(taken == there or abs(near - known) > _JUMP * (1 + abs(known)) for near, taken in beside.values()):
        return JUMP
    equal = [k for k, (op, _) in enumerate(steps) if op in KINKS and there.get(k) == -1]
    ways = itertools.product((0, 1), repeat=len(equal))
    with mpmath.workdps(MORE):
        slopes = [_slope(steps, at, known, taken, (side,)) for side, (_, taken) in beside.items()]
        shares = [_slope(steps, at, known, there | dict(zip(equal, way, strict=True)), (1, -1)) for way in ways]
        if None in slopes + shares:
            return POLE
        slope, mean, near = mpmath.fsum(shares) / len(shares), mpmath.fsum(slopes) / len(slopes), mpmath.mpf(10) ** -9
    return KINK if abs(slope - mean) <= near else JUMP if min(slopes) - near <= slope <= max(slopes) + near else POLE


def _slope(steps: Steps, at: Any, known: Any, taken: Taken, sides: tuple[int, ...]) -> Any:
    """The slope with such choices; None where there is none, or another one on the other side."""
    h = NEAR**4
    found = [value_at(steps, at + side * h, taken) for side in sides]
    if known is None or None in found:
        return None
    slopes = [(v - known) / (side * h) for v, side in zip(found, sides, strict=True)]
    return slopes[0] if abs(slopes[0] - slopes[-1]) <= NEAR * (1 + abs(slopes[0])) else None


@functools.lru_cache(maxsize=1024)
def discs(steps: Steps, at: Any, order: int, is_real: bool) -> tuple[Disc, ...]:
    """A value near a point as a polynomial, or as two, the right one first; none where it has no such form."""
    found, beside = list[Disc](), choices(steps, at, is_real)[2]
    for side, (near, taken) in beside.items():
        with mpmath.workdps(MORE):
            nearer = value_at(steps, at + side * NEAR / 4, taken)
        if nearer is None or abs(near - nearer) > mpmath.sqrt(NEAR) * (1 + abs(near)):
            return ()  # a pole, or a logarithm
        disc = _disc(steps, taken if is_real else None, at, side, order)
        if disc is not None and disc.side == 0:
            return (disc,)
        found += [disc] if disc is not None else []
    if len(found) == 2 and np.allclose(*padded(found), rtol=1e-12, atol=0.0):
        return (found[0]._replace(side=0),)
    return tuple(found) if len(found) == len(beside) and is_real else ()


def is_continuous(steps: Steps, at: Any, known: tuple[Disc, ...], may_be_none: bool = False) -> bool:
    """Whether discs begin where the value is, which may be none."""
    there = choices(steps, at, True)[0]
    if there is None:
        return may_be_none
    return np.allclose(complex(there), [disc.coefficients[0] for disc in known], rtol=1e-9, atol=1e-9)


def is_apart(steps: Steps, at: Any, is_real: bool) -> bool | None:
    """Whether what an equation, the last step, chooses beside a point jumps there, or meets the value at it to all orders; None
    where it is a number there."""
    place, *arms = steps[-1][1]
    near, far = (steps[:arm] for arm in arms[:: 1 if steps[place - 1][0] == "eq" else -1])
    found = []
    with mpmath.workdps(MORE):
        for side in (1, -1)[: 1 + is_real]:
            pairs = [(h, value_at(near, at + side * h), value_at(far, at + side * h)) for h in _HEIGHTS]
            gaps = [(h, abs(x - y)) for h, x, y in pairs if x is not None and y is not None]
            found += [gaps[-1][1] ** 5 > gaps[-1][0] or any(gap < h**30 for h, gap in gaps)] if gaps else []
    return None if value_at(far, at) is not None else bool(found) and all(found)


def padded(found: Iterable[Disc]) -> list[tuple[float, ...]]:
    """The coefficients of discs, as many of each."""
    return list(zip(*itertools.zip_longest(*(disc.coefficients for disc in found), fillvalue=0.0), strict=True))


def _disc(steps: Steps, taken: Taken | None, at: Any, side: int, order: int) -> Disc | None:
    """A disc about a point whose polynomial is a value on a side, or on both; None where the value is not regular. One with
    choices is no wider than these may last."""
    centre, degree = mpmath.mpf(float(at)), _DEGREE + 2 * max(order - 2, 0)
    circle = partial(_on_circle, steps, taken, centre, side)
    with mpmath.workdps(MORE):
        near = circle(NEAR, order + 4)
        if near is None or any(abs(a) * NEAR ** (k + 1) > 1 for k, a in enumerate(near[0])):
            return None
    if steps[-1][0] in KINKS or any(op == "here" for op, _ in steps):  # beside it the value has its own slopes
        lowest = next((k for k, a in enumerate(near[0]) if a), 0)
        return Disc(Constant(float(centre)), 0.0, [float(a) for a in near[0][: lowest + order + 1]], side)
    is_bounded = any(op in _BOUNDING for op, _ in steps)
    with mpmath.workdps(_DIGITS + 3 * max(order - 2, 0)):
        radius, found = mpmath.mpf(1) / 4, None
        for _ in range(8):
            tried = circle(radius, degree)
            if tried is None and found is not None:
                break
            if tried is None:
                radius /= 16
                continue
            found = tried[0], min(tried[1], radius if is_bounded else 4 * radius)
            if is_bounded or tried[1] <= 4 * radius:
                break
            radius = tried[1] / 4
        for _ in range(8 if found is not None else 0):
            terms, within = found[0], float(mpmath.nstr(found[1], 1))
            if not _holds(steps, centre, within * side, terms):
                found = found[0], found[1] / 4
                continue
            is_whole = _holds(steps, centre, -within * side, terms)
            best = Disc(Constant(float(centre)), within, [float(a) for a in terms], 0 if is_whole else side)
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
    within = min([disc.radius, *(0.95 * (float(_ERROR) / s) ** (1 / (k - lowest)) for k, s in shares)])
    within = float(mpmath.nstr(within, 1))
    slopes = [(math.perm(k, n), k - n, abs(a)) for n in range(3) for k, a in enumerate(terms) if k >= n]
    size = max(count * a * within**power for count, power, a in slopes)
    for side, share in itertools.product((1, -1), (1.0, 1.1, 1.3)):
        at = mpmath.mpf(disc.centre.params + side * share * within)
        exact = value_at(steps, at)
        if exact is None or disc.side == -side:
            continue
        with mpmath.workprec(53):
            rounded = value_at(steps, at)
        if rounded is None or abs(rounded - exact) > _LOST * size * within**2:
            return None
    return disc._replace(radius=within, coefficients=terms)


def _on_circle(
    steps: Steps, taken: Taken | None, centre: Any, side: int, radius: Any, degree: int
) -> tuple[list[Any], Any] | None:
    """The Taylor coefficients of a value that is real on the real axis, walking round from a side, and how near they are the
    value; None where there are others."""
    half, nodes = [], 2 * (3 * degree // 2 | 1)  # none on the line where both sides meet
    walk: Taken | None = None if taken is None else {}
    for j in range(nodes // 2 + 1):
        at = centre + side * radius * mpmath.expjpi(mpmath.mpf(2 * j) / nodes)
        half.append(value_at(steps, at, taken, walk))
        if half[-1] is None:
            return None
    half[0], half[-1] = half[0] / 2, half[-1] / 2
    parts = [mpmath.re(v) for v in half] + [mpmath.im(v) for v in half]
    sums = [mpmath.fdot(parts, row) * 2 / nodes for row in _turns(nodes, degree, mpmath.mp.prec)]
    largest = max(map(abs, sums))
    least = largest * mpmath.mpf(10) ** -min(mpmath.mp.dps // 2, _LEAST)
    before, after = sums[:degree], sums[degree:]
    if not largest < mpmath.inf or max(map(abs, before)) > least:
        return None
    shares = [(k, k * k * abs(a) / (largest or 1)) for k, a in enumerate(after) if k > degree]
    widest = radius * min((_ERROR / s) ** (mpmath.mpf(1) / k) if s else 16 for k, s in shares)
    terms = [a / (side * radius) ** k if abs(a) > least else a * 0 for k, a in enumerate(after[: degree + 1])]
    return terms, widest * mpmath.mpf("0.95")


@functools.cache
def _turns(nodes: int, degree: int, bits: int) -> list[list[Any]]:
    """Cosines, then sines, of multiples of the angles of half of a circle, to some bits: one row for each power."""
    made = [[turn(mpmath.mpf(2 * k) / nodes) for k in range(nodes)] for turn in (mpmath.cospi, mpmath.sinpi)]
    return [[turn[j * k % nodes] for turn in made for j in range(nodes // 2 + 1)] for k in range(-degree, nodes // 2)]


def _holds(steps: Steps, centre: Any, within: float, terms: list[Any]) -> bool:
    """Whether a polynomial is the value on one side."""
    for share in _SHARES:
        d = within * mpmath.mpf(share)
        with mpmath.workdps(MORE):  # where digits cancel
            there = value_at(steps, centre + d)
        size = max(abs(a) * abs(d) ** k for k, a in enumerate(terms))
        if there is None or not abs(mpmath.polyval(terms[::-1], d) - there) <= mpmath.mpf(10) ** -16 * size:
            return False
    return True

"""Random compositions of singular heads at their singular points, with a parameter, against one-sided limits in 60 digits.

A first derivative is right, NaN, or between the slopes of both sides; a second one right or NaN. Where an extreme ties at a
kink of an operand, its row's choice is no slope of the whole, and is not asked. A branch is the one at the point. What has no
value at zero and a limit there gets that in a branch. Each function is differentiated once, and judged at all points of both
variables; one of ten is compiled, of others the graph is evaluated.
`singular_search.py SEED COUNT` runs more.
"""

import math
import random
import sys

import mpmath
import numpy as np
from scipy import special

import symdiff as sd

ROOT, CUBIC = mpmath.sqrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))
HEADS = {
    "np.sqrt({})": ROOT, "np.abs({})": abs, "np.log({})": mpmath.log, "np.cbrt({})": CUBIC, "np.exp({})": mpmath.exp,
    "np.sin({})": mpmath.sin, "np.cos({})": mpmath.cos, "np.tanh({})": mpmath.tanh, "np.arcsin({})": mpmath.asin,
    "np.arccos({})": mpmath.acos, "np.arctan({})": mpmath.atan, "({})**2": lambda x: x * x, "({})**3": lambda x: x**3,
    "({})**0.5": ROOT, "({})**1.5": lambda x: x * ROOT(x), "({})**2.5": lambda x: x * x * ROOT(x), "(1/({}))": lambda x: 1 / x,
    "np.expm1({})": mpmath.expm1, "np.log1p({})": lambda x: mpmath.log(1 + x), "np.arccosh({})": mpmath.acosh,
    "(1 - np.cos({}))": lambda x: 1 - mpmath.cos(x), "(1 - {})": lambda x: 1 - x, "(1 + {})": lambda x: 1 + x,
    "(-{})": lambda x: -x, "({})**4": lambda x: x**4, "np.sinh({})": mpmath.sinh, "(p*{})": None, "({} - p)": None,
    "({})**-2": lambda x: 1 / x**2,
    "np.sinc(0.3*{})": lambda x: mpmath.sinc(mpmath.pi * mpmath.mpf(0.3) * x), "np.floor({})": mpmath.floor,
    "np.sign({})": mpmath.sign, "np.square({})": lambda x: x * x,
}  # fmt: skip
PAIRS = {
    "({} + {})": lambda a, b: a + b, "({} - {})": lambda a, b: a - b, "({}*{})": lambda a, b: a * b,
    "({}/{})": lambda a, b: a / b, "np.hypot({}, {})": lambda a, b: ROOT(a * a + b * b),
    "np.maximum({}, {})": max, "np.minimum({}, {})": min, "np.arctan2({}, {})": mpmath.atan2,
}  # fmt: skip
SPECIAL = {
    "special.erf({})": mpmath.erf, "special.gamma({})": mpmath.gamma,
    "special.gammaln({})": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "special.j0({})": lambda x: mpmath.besselj(0, x), "special.j1({})": lambda x: mpmath.besselj(1, x),
    "special.i0e({})": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "special.i1e({})": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "special.exprel({})": lambda x: mpmath.expm1(x) / x if x else mpmath.mpf(1),
    "special.expit({})": lambda x: 1 / (1 + mpmath.exp(-x)),
    "special.digamma({})": mpmath.digamma, "special.spence({})": lambda x: mpmath.polylog(2, 1 - x),
    "special.entr({})": lambda x: -x * mpmath.log(x) if x else x, "special.ndtr({})": mpmath.ncdf,
    "special.rgamma({})": mpmath.rgamma, "special.cosm1({})": lambda x: mpmath.cos(x) - 1, "special.erfc({})": mpmath.erfc,
    "special.dawsn({})": lambda x: ROOT(mpmath.pi) / 2 * mpmath.exp(-x * x) * mpmath.erfi(x),
    "special.logit({})": lambda x: mpmath.log(x / (1 - x)),
}  # fmt: skip
SPECIAL_PAIRS = {
    "special.xlogy({}, {})": lambda a, b: a * mpmath.log(b) if a else a,
    "special.xlog1py({}, {})": lambda a, b: a * mpmath.log(1 + b) if a else a,
    "special.rel_entr({}, {})": lambda a, b: a * mpmath.log(a / b) if a and b > 0 else a if a == 0 <= b else ROOT(-1),
    "np.logaddexp({}, {})": lambda a, b: mpmath.log(mpmath.exp(a) + mpmath.exp(b)),
}  # fmt: skip
CHOICES = {
    "np.where({} > 0, {}, {})": lambda c: c > 0, "np.where({} == 0, {}, {})": lambda c: c == 0,
    "np.where({} <= 0, {}, {})": lambda c: c <= 0,
}  # fmt: skip
GUARD = "np.where(x == 0, {}, {})"
EVALUATED = HEADS | PAIRS | SPECIAL | SPECIAL_PAIRS
NARROW = {"special": 0.12, "choice": 0.06}  # how often
KINKS, EXTREMES, JUMPS = ("abs", "max", "min", "hypot", "i0e", "i1e"), ("maximum", "minimum"), ("floor", "sign", "arctan2")


class Undefined(ArithmeticError):
    """No real value there."""


def tree(source, depth):
    if depth == 0 or source.random() < 0.12:
        return (source.choice(["x"] * 16 + ["p", "p", "0.5", "2.0", "1.0"]),)
    if source.random() < NARROW["choice"]:
        return (source.choice([*CHOICES]), *(tree(source, depth - 1) for _ in range(3)))
    is_special = source.random() < NARROW["special"]
    if source.random() < 0.6:
        return (source.choice([*(SPECIAL if is_special else HEADS)]), tree(source, depth - 1))
    return (source.choice([*(SPECIAL_PAIRS if is_special else PAIRS)]), tree(source, depth - 1), tree(source, depth - 1))


def text(t):
    return t[0].format(*map(text, t[1:])) if len(t) > 1 else t[0]


def value(t, at):
    """A composition in the working precision, where x and p are numbers."""
    if len(t) == 1:
        return at[t[0]] if t[0] in at else mpmath.mpf(t[0])
    if t[0] == GUARD:
        return value(t[2 if at["x"] else 1], at)
    try:
        operands = [value(s, at) for s in t[1:]]
        match t[0]:
            case "(p*{})":
                found = at["p"] * operands[0]
            case "({} - p)":
                found = operands[0] - at["p"]
            case _:
                found = mpmath.mpmathify(EVALUATED[t[0]](*operands))
    except (ZeroDivisionError, ValueError, OverflowError):
        raise Undefined from None
    if mpmath.im(found) or not mpmath.isfinite(found) or abs(found) > mpmath.mpf(10) ** 200:
        raise Undefined
    return mpmath.re(found)


def branched(t, at, name):
    """A composition with the branches at a point; the one around it where an equation that holds there alone chooses equals."""
    if t[0] not in CHOICES:
        return (t[0], *(branched(s, at, name) for s in t[1:]))
    asked = branched(t[1], at, name)
    if not CHOICES[t[0]](value(asked, at)):
        return branched(t[3], at, name)
    arm = branched(t[2], at, name)
    if "==" not in t[0] or 0 in (value(asked, at | {name: at[name] + d}) for d in (-1e-9, 1e-9)):
        return arm
    if any(word in text(t[1]) for word in (*KINKS, *JUMPS, "where", "p")):
        raise Undefined
    other = branched(t[3], at, name)
    return other if value(arm, at) == value(other, at) else arm


def guarded(t, p):
    """A composition with its limit at zero there, where it has no value and the limit few digits."""
    at = [{"x": mpmath.mpf(x), "p": mpmath.mpf(p)} for x in (0, -1e-9, 1e-9)]
    try:
        value(t, at[0])
    except Undefined:
        near = [value(t, there) for there in at[1:]]
        number = mpmath.nint(4 * near[0]) / 4
        if max(abs(v - number) for v in near) < 1e-6:
            return (GUARD, (str(float(number)),), t)
    return t


def limit(differences):
    """What three differences, each nearer than the one before, go to: a number, an infinity, None for nothing known."""
    a, b, c = differences
    if abs(c) > 1e3 and abs(c) > 1.3 * abs(b) > 1.6 * abs(a):
        return mpmath.sign(c) * mpmath.inf
    return c if abs(c - b) <= 1e-4 * (abs(c) + 1e-2) else None


def one_sided(t, at, name, order, side):
    """A derivative from one side; None where none is known."""
    found, gaps = [], []
    for k in (12, 16, 20) if order == 1 else (8, 10, 12):
        h = side * mpmath.mpf(10) ** -k
        steps = [value(t, at | {name: at[name] + j * h}) for j in range(order + 1)]
        gaps.append(abs(steps[1] - steps[0]))
        found.append((steps[1] - steps[0]) / h if order == 1 else (steps[2] - 2 * steps[1] + steps[0]) / h**2)
    if gaps[2] > 0.5 * gaps[0] or (gaps[2] >= 1 and "np.floor" in text(t)):
        return None  # a jump, where a step has slope 0, or steps that have not come to rest
    return limit(found)


def sides(t, at, name, order):
    """The derivatives from the sides where there is a function; None where one of them is not known."""
    found = []
    for side in (-1, 1):
        try:
            found.append(one_sided(t, at, name, order, side))
        except Undefined:
            continue
    return None if not found or None in found else found


def bounds(t, at, name, order):
    """Between which numbers a derivative is; None where that cannot be told."""
    named = text(t)
    if {"x", "p"} <= leaves(t) and sum(named.count(k) for k in KINKS) >= (
        1 if order == 2 or any(k in named for k in JUMPS) else 2
    ):
        return None  # a kink that both decide is its row's
    if any(sub[0][3:7] in ("sign", "floo") and {"x", "p"} <= leaves(sub) for sub in parts(t)):
        return None  # and a step
    slopes = sides(t, at, name, 1)
    if slopes is None or (order == 1 and len(slopes) == 1 and any(k in named for k in (*KINKS, "sqrt", "**0.5"))):
        return None
    if order == 2 and (len(slopes) < 2 or abs(slopes[0] - slopes[1]) > 1e-3 * (1 + abs(slopes[0]))):
        return None
    limits = slopes if order == 1 else sides(t, at, name, 2)
    if limits is None or (order == 2 and (len(limits) < 2 or abs(limits[0] - limits[1]) > 1e-3 * (1 + abs(limits[0])))):
        return None
    finite = [s for s in limits if mpmath.isfinite(s)]
    tolerance = 1e-3 * (1 + max(map(abs, finite))) if finite else 0
    is_tied = any(k in named for k in EXTREMES) and sum(named.count(k) for k in KINKS) > 1
    return (
        None
        if is_tied and order == 1 and len({*map(float, limits)}) > 1
        else (min(limits) - tolerance, max(limits) + tolerance)
    )


def judged(t, points, compiled=True, orders=(1, 2)):
    """How many cases of a function could be told, and what is finite and wrong about them, as text."""
    named, told, found = text(t), 0, []
    names = [n for n in ("x", "p") if n in leaves(t)]
    f = eval(f"lambda x, p: {named}", {"np": np, "special": special})
    for order in orders:
        made = {}
        for numbers in points:
            at = {n: mpmath.mpf(v) for n, v in zip("xp", numbers, strict=True)}
            try:
                written = float(f(*map(np.float64, numbers)))
            except (ZeroDivisionError, TypeError):  # of two constants, or with a complex one
                return told, found
            if not math.isfinite(written):
                continue
            for name in names:
                try:
                    here = branched(t, at, name)
                    if here != t and any(k in named for k in (EXTREMES if order == 1 else KINKS)):
                        continue  # a branch may be an operand that is equal to another one, or a kink of several values
                    if abs(value(here, at) - written) > 1e-9 * (1 + abs(written)):
                        continue  # beside the point by rounding
                    within = bounds(here, at, name, order)
                except (Undefined, mpmath.libmp.NoConvergence):
                    continue
                if within is None:
                    continue
                place = "xp".index(name)
                if name not in made:
                    slope = derived(f, place, order)
                    made[name] = slope if compiled else slope.graph(*numbers)
                got, told = float(made[name](*numbers)), told + 1
                far = max(map(abs, within)) > 1e12 and abs(got) > 1e6  # beside the point by rounding
                if math.isfinite(got) and not far and not within[0] <= got <= within[1]:
                    shown = [mpmath.nstr(w, 8) for w in within]
                    found.append(f"{named} by {name} at x, p = {numbers}, order {order}: {got}, not within {shown}")
    return told, found


def derived(f, place, order):
    return sd.grad(f, place) if order == 1 else sd.grad(sd.grad(f, place), place)


def leaves(t):
    own = {"p"} & {t[0].split("*")[0].strip("("), t[0].split(" - ")[-1].strip(")")}
    return {t[0]} if len(t) == 1 else own.union(*map(leaves, t[1:]))


def parts(t):
    yield t
    for sub in t[1:]:
        yield from parts(sub)


def search(seed, count):
    """What is wrong among `count` cases that can be told."""
    source, found, told = random.Random(seed), [], 0
    with np.errstate(all="ignore"), mpmath.workdps(60):
        while told < count:
            t = tree(source, source.choice([2, 3, 3, 4, 4, 5]))
            p = source.choice([0.7, -1.3, 2.0, 1.0, 0.0])
            if "x" not in leaves(t):
                continue
            try:
                t = t if "where" in text(t) else guarded(t, p)
            except Undefined:
                continue
            cases, wrong = judged(t, [(x, p) for x in (0.0, 1.0, -1.0)], source.random() < 0.1)
            told, found = told + cases, found + wrong
    return found


if __name__ == "__main__":
    print(*search(int(sys.argv[1]), int(sys.argv[2])), sep="\n")

"""Random compositions of singular heads at their singular points, against one-sided limits in 60 digits.

A first derivative is right, NaN, or between the slopes of both sides; a second one right or NaN. Where an extreme ties at a
kink of an operand, its row's choice is no slope of the whole, and is not asked. `singular_search.py SEED COUNT` runs more.
"""

import math
import random
import sys

import mpmath
import numpy as np

import symdiff as sd

ROOT, CUBIC = mpmath.sqrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))
HEADS = {
    "np.sqrt({})": ROOT, "np.abs({})": abs, "np.log({})": mpmath.log, "np.cbrt({})": CUBIC, "np.exp({})": mpmath.exp,
    "np.sin({})": mpmath.sin, "np.cos({})": mpmath.cos, "np.tanh({})": mpmath.tanh, "np.arcsin({})": mpmath.asin,
    "np.arccos({})": mpmath.acos, "np.arctan({})": mpmath.atan, "({})**2": lambda x: x * x, "({})**3": lambda x: x**3,
    "({})**0.5": ROOT, "({})**1.5": lambda x: x * ROOT(x), "({})**2.5": lambda x: x * x * ROOT(x), "(1/({}))": lambda x: 1 / x,
    "np.expm1({})": mpmath.expm1, "np.log1p({})": lambda x: mpmath.log(1 + x), "np.arccosh({})": mpmath.acosh,
    "(1 - np.cos({}))": lambda x: 1 - mpmath.cos(x), "(1 - {})": lambda x: 1 - x, "(1 + {})": lambda x: 1 + x,
    "(-{})": lambda x: -x, "({})**4": lambda x: x**4, "np.sinh({})": mpmath.sinh,
}  # fmt: skip
PAIRS = {
    "({} + {})": lambda a, b: a + b, "({} - {})": lambda a, b: a - b, "({}*{})": lambda a, b: a * b,
    "({}/{})": lambda a, b: a / b, "np.hypot({}, {})": lambda a, b: ROOT(a * a + b * b),
    "np.maximum({}, {})": max, "np.minimum({}, {})": min,
}  # fmt: skip
KINKS = ("abs", "max", "min", "hypot")


class Undefined(ArithmeticError):
    """No real value there."""


def tree(source, depth):
    if depth == 0 or source.random() < 0.12:
        return ("x",) if source.random() < 0.9 else (source.choice(["0.5", "2.0", "1.0"]),)
    if source.random() < 0.6:
        return (source.choice([*HEADS]), tree(source, depth - 1))
    return (source.choice([*PAIRS]), tree(source, depth - 1), tree(source, depth - 1))


def text(t):
    return t[0].format(*map(text, t[1:])) if len(t) > 1 else t[0]


def value(t, x):
    """A composition in the working precision."""
    if len(t) == 1:
        return x if t[0] == "x" else mpmath.mpf(t[0])
    try:
        found = mpmath.mpmathify({**HEADS, **PAIRS}[t[0]](*(value(s, x) for s in t[1:])))
    except (ZeroDivisionError, ValueError, OverflowError):
        raise Undefined from None
    if mpmath.im(found) or not mpmath.isfinite(found) or abs(found) > mpmath.mpf(10) ** 200:
        raise Undefined
    return mpmath.re(found)


def limit(differences):
    """What three differences, each nearer than the one before, go to: a number, an infinity, None for nothing known."""
    a, b, c = differences
    if abs(c) > 1e3 and abs(c) > 1.3 * abs(b) > 1.6 * abs(a):
        return mpmath.sign(c) * mpmath.inf
    return c if abs(c - b) <= 1e-4 * (abs(c) + 1e-2) else None


def one_sided(t, x, order, side):
    """A derivative from one side; None where none is known."""
    found = []
    for k in (12, 16, 20) if order == 1 else (8, 10, 12):
        h = side * mpmath.mpf(10) ** -k
        steps = [value(t, x + j * h) for j in range(order + 1)]
        found.append((steps[1] - steps[0]) / h if order == 1 else (steps[2] - 2 * steps[1] + steps[0]) / h**2)
    return limit(found)


def sides(t, x, order):
    """The derivatives from the sides where there is a function; None where one of them is not known."""
    found = []
    for side in (-1, 1):
        try:
            found.append(one_sided(t, x, order, side))
        except Undefined:
            continue
    return None if not found or None in found else found


def wrong(t, x, order):
    """What is finite and wrong about a derivative, as text; empty where nothing is, None where it cannot be told."""
    named = text(t)
    f = eval(f"lambda x: {named}", {"np": np})
    if not np.isfinite(f(np.float64(x))):
        return None
    slopes = sides(t, mpmath.mpf(x), 1)
    limits = slopes if order == 1 else sides(t, mpmath.mpf(x), 2)
    if slopes is None or limits is None or (len(limits) == 1 and any(k in named for k in (*KINKS, "sqrt", "**0.5"))):
        return None
    if order == 2 and (
        len(slopes) + len(limits) < 4 or any(abs(a[0] - a[1]) > 1e-3 * (1 + abs(a[0])) for a in (slopes, limits))
    ):
        return None
    found = float(np.real(sd.derivative(f, order=order)(x)))
    if not math.isfinite(found):
        return ""
    tolerance = 1e-3 * (1 + max(abs(s) for s in limits if mpmath.isfinite(s))) if any(map(mpmath.isfinite, limits)) else 0
    within = min(limits) - tolerance <= found <= max(limits) + tolerance
    is_tied = any(k in named for k in ("maximum", "minimum")) and sum(named.count(k) for k in KINKS) > 1
    return "" if within or is_tied else f"{named} at {x}, order {order}: {found}, not {[mpmath.nstr(s, 8) for s in limits]}"


def search(seed, count):
    """What is wrong among `count` cases that can be told, and how many there were."""
    source, found, told = random.Random(seed), [], 0
    with np.errstate(all="ignore"), mpmath.workdps(60):
        while told < count:
            t, x = tree(source, source.choice([2, 3, 3, 4, 4])), source.choice([0.0, 0.0, 0.0, 1.0, -1.0])
            if "x" not in text(t).replace("exp", "").replace("max", ""):
                continue
            try:
                value(t, mpmath.mpf(x))
                text_of = wrong(t, x, source.choice([1, 1, 2]))
            except Undefined:
                continue
            told += text_of is not None
            found += [text_of] if text_of else []
    return found


if __name__ == "__main__":
    print(*search(int(sys.argv[1]), int(sys.argv[2])), sep="\n")

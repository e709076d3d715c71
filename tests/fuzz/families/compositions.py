"""Trees of elementwise functions at 0, 1 and -1, where many of their partials are infinite or 0/0, against limits in 60 digits.

A first derivative is right, NaN or infinite, or lies between the slopes of both sides; a second one is right where both sides
agree. Nothing else that is finite: but for extremes and sizes within each other, of which each row chooses for itself.
"""

import math
import random

import mpmath
import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong


def cube_root(x):
    return mpmath.cbrt(x) if x >= 0 else -mpmath.cbrt(-x)


# text: function of mpmath's
ONE = {
    "np.sqrt({})": mpmath.sqrt, "np.cbrt({})": cube_root, "np.abs({})": abs, "np.log({})": mpmath.log, "np.exp({})": mpmath.exp,
    "np.sin({})": mpmath.sin, "np.cos({})": mpmath.cos, "np.tanh({})": mpmath.tanh, "np.arcsin({})": mpmath.asin,
    "np.arccos({})": mpmath.acos, "np.arctan({})": mpmath.atan, "np.expm1({})": mpmath.expm1, "np.arccosh({})": mpmath.acosh,
    "np.log1p({})": lambda x: mpmath.log(1 + x), "{}**2": lambda x: x**2, "{}**3": lambda x: x**3, "{}**4": lambda x: x**4,
    "{}**0.5": mpmath.sqrt, "{}**1.5": lambda x: x * mpmath.sqrt(x), "{}**2.5": lambda x: x * x * mpmath.sqrt(x),
    "{}**(1/3)": lambda x: x ** mpmath.mpf(1 / 3), "(1/{})": lambda x: 1 / x, "(1 - np.cos({}))": lambda x: 1 - mpmath.cos(x),
    "(1 - {})": lambda x: 1 - x, "(1 + {})": lambda x: 1 + x, "(-{})": lambda x: -x,
}  # fmt: skip
TWO = {
    "({} + {})": lambda x, y: x + y, "({} - {})": lambda x, y: x - y, "({}*{})": lambda x, y: x * y,
    "({}/{})": lambda x, y: x / y, "np.hypot({}, {})": lambda x, y: mpmath.sqrt(x * x + y * y),
    "np.maximum({}, {})": max, "np.minimum({}, {})": min,
}  # fmt: skip
KINKED = ("abs", "hypot", "maximum", "minimum")
ROOTS = ("sqrt", "**0.5")  # kinks at the end of a domain, where these are roots of squares
LARGE = 1e7


class Undefined(Exception):
    """A function has no finite real value there."""


def tree(source, depth):
    if depth == 0 or source.random() < 0.12:
        return source.choice((0.5, 1.0, 2.0)) if source.random() < 0.1 else "x"
    heads = ONE if source.random() < 0.6 else TWO
    return (source.choice(list(heads)), *(tree(source, depth - 1) for _ in range(1 if heads is ONE else 2)))


def written(node):
    return node[0].format(*(f"({written(n)})" for n in node[1:])) if isinstance(node, tuple) else str(node)


def value(node, x, least=0):
    """The value, which is undefined where a part of it that is not zero is below `least`, as where zero was rounded."""
    if not isinstance(node, tuple):
        return x if node == "x" else mpmath.mpf(node)
    try:
        found = mpmath.mpmathify((ONE | TWO)[node[0]](*(value(n, x, least) for n in node[1:])))
    except (ZeroDivisionError, ValueError, OverflowError):
        raise Undefined from None
    if isinstance(found, mpmath.mpc):
        if found.imag:
            raise Undefined
        found = found.real
    if not mpmath.isfinite(found) or abs(found) > mpmath.mpf(10) ** 200 or 0 < abs(found) < least:
        raise Undefined
    return found


def slopes(node, x, side, order):
    """The one-sided derivative, infinite where differences grow; None where there is none to be told."""
    found = []
    for k in (12, 16, 20) if order == 1 else (8, 10, 12):
        h = side * mpmath.mpf(10) ** -k
        try:
            steps = [value(node, x + i * h) for i in range(order + 1)]
        except Undefined:
            return None
        found.append((steps[1] - steps[0]) / h if order == 1 else (steps[2] - 2 * steps[1] + steps[0]) / h**2)
    if abs(found[2] - found[1]) <= 1e-4 * (abs(found[2]) + 1e-2):
        return found[2]
    return mpmath.sign(found[2]) * mpmath.inf if abs(found[2]) > 1.3 * abs(found[1]) > 1e3 else None


def trial(source: random.Random) -> Verdict:
    while True:
        node, at = tree(source, source.choice((2, 3, 3, 4))), source.choice((0.0, 0.0, 0.0, 1.0, -1.0))
        text = written(node)
        with mpmath.workdps(60):
            sides = [known(node, at, side, 1) for side in (-1, 1)]
        with np.errstate(all="ignore"):
            if any(side is not None for side in sides) and np.isfinite(plain(text)(np.float64(at))):
                break
    first = float(sd.grad(plain(text)).graph(at)(at))
    told = [float(side) for side in sides if side is not None]
    kinks = sum(text.count(word) for word in KINKED + (ROOTS if len(told) == 1 else ()))
    if abs(first) > LARGE and math.inf in map(abs, told):
        return RIGHT  # infinite but for the rounding of an operand
    margin = 1e-6 * (1 + max([abs(side) for side in told if math.isfinite(side)], default=0.0))
    if math.isfinite(first) and not min(told) - margin <= first <= max(told) + margin and kinks < 1 + (len(told) > 1):
        raise Wrong(f"lambda x: {text}\nat {at}: {first}, where the sides have {told}")
    if len(told) == 2 and math.isfinite(told[0]) and abs(told[1] - told[0]) <= margin and not kinks:
        with mpmath.workdps(60):
            bends = [known(node, at, side, 2) for side in (-1, 1)]
        if None not in bends and abs(bends[0] - bends[1]) <= 1e-3 * (abs(bends[0]) + 1e-2):
            second = float(sd.derivative(plain(text), order=2).graph(at)(at))
            if math.isfinite(second) and abs(second - bends[0]) > 1e-3 * (1 + abs(bends[0])):
                raise Wrong(f"lambda x: {text}\nat {at}, order 2: {second}, where the limit is {float(bends[0])}")
    return RIGHT


def known(node, at, side, order):
    try:
        value(node, mpmath.mpf(at), mpmath.mpf(10) ** -40)
        return slopes(node, mpmath.mpf(at), side, order)
    except Undefined:
        return None


def plain(text):
    """The text as a function."""
    return eval(f"lambda x: {text}", {"np": np})

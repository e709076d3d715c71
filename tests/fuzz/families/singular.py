"""Compositions of singular functions exactly at their singular points, in one variable and in two.

A derivative is right, NaN, infinite, or the choice of a kink: where the one-sided limits of mpmath agree, nothing else that is
finite. In two variables the limits are taken along several lines; where they differ, second derivatives are NaN.
"""

import random

import mpmath
import numpy as np

import symdiff as sd

from ..harness import RIGHT, Verdict, Wrong

INNER = ("x", "x*x", "sqrt(x)", "x**4", "abs(x)", "sqrt(x*x)", "x**1.5", "sqrt(x**4)", "2*x", "x*sqrt(x)")
OUTER = (
    "sin({0})",
    "cos({0})",
    "exp({0})",
    "1 + {0}",
    "{0}*{0}",
    "{0}**3",
    "log(1 + {0})",
    "{0}/(1 + {0})",
    "tanh({0})",
    "{0}**1.5",
)
PLANE = ("sqrt(x*x + y*y)", "hypot(x, y)", "x*x + y*y", "sqrt(x*x + 2*y*y)*x", "sqrt(x*x + y*y)*hypot(x, y)")
ANGLES = (0.3, 1.1, 2.0, 2.9)
H = mpmath.mpf(10) ** -18


def trial(source: random.Random) -> Verdict:
    flat = source.random() < 0.5
    text = source.choice(PLANE if flat else INNER)
    for _ in range(source.randrange(0, 3)):
        text = source.choice(OUTER).format(f"({text})")
    if source.random() < 0.4:
        other = source.choice(OUTER).format(f"({source.choice(PLANE if flat else INNER)})")
        text = f"({text}){source.choice(('*', ' + ', ' - '))}{other}"
    return in_plane(text) if flat else on_line(text)


def compiled(text: str, names: str, module: object) -> object:
    """The text as a function of these names over NumPy or mpmath."""
    scope = {n: getattr(module, n) for n in ("sin", "cos", "exp", "log", "tanh", "sqrt", "hypot")} | {"abs": abs}
    return eval(f"lambda {names}: {text}", scope)


def sloped(f: object, order: int, side: int) -> object:
    """A one-sided derivative at zero, None where there is none: differences at two distances agree where there is one."""
    found = []
    for h in (H, H / 64):
        steps = [f(side * k * h) for k in range(order + 2)]  # type: ignore[operator]
        if any(isinstance(s, mpmath.mpc) for s in steps):
            return None
        first = (-3 * steps[0] + 4 * steps[1] - steps[2]) / (2 * h * side)
        second = (2 * steps[0] - 5 * steps[1] + 4 * steps[2] - steps[3]) / h**2 if order == 2 else first
        found.append(first if order == 1 else second)
    return found[1] if abs(found[1] - found[0]) <= mpmath.mpf("1e-6") * (1 + abs(found[1])) else None


def on_line(text: str) -> Verdict:
    """First and second derivatives at zero."""
    f, exact = compiled(text, "x", np), compiled(text, "x", mpmath)
    with mpmath.workdps(90):
        for order in (1, 2):
            found = float(sd.derivative(f, order=order)(0.0))
            half = "sqrt(x)" in text or "1.5" in text
            sides = [sloped(exact, order, side) for side in ((1,) if half else (1, -1))]
            if not np.isfinite(found):
                continue
            kinked = "abs" in text or "sqrt(x*x)" in text
            if kinked and half:
                continue  # a kink at the end of a domain has its row's slope, which is none of the inner side's
            if kinked and (order == 2 or (sides[0] is not None and abs(found) <= abs(sides[0]) + 1e-5)):
                continue  # an element between the slopes of both sides; a step's derivative is 0
            if sides[0] is None or abs(sides[0] - sides[-1]) > 1e-5 * (1 + abs(sides[0])):
                if order == 1 and sides[0] is not None and min(sides) - 1e-5 <= found <= max(sides) + 1e-5:
                    continue  # a kink's choice
                raise Wrong(f"lambda x: {text}\nat 0, order {order}: {found}, where the sides have {sides}")
            if abs(found - sides[0]) > 1e-5 * (1 + abs(found)):
                raise Wrong(f"lambda x: {text}\nat 0, order {order}: {found}, not {mpmath.nstr(sides[0], 10)}")
    return RIGHT


def in_plane(text: str) -> Verdict:
    """The Hessian at zero: along every line v H v is the second derivative, or a cell is NaN."""
    f, exact = compiled(text, "x, y", np), compiled(text, "x, y", mpmath)
    found = np.asarray(sd.hessian(lambda p: f(p[0], p[1]))(np.zeros(2)))  # type: ignore[operator]
    if not np.all(np.isfinite(found)):
        return RIGHT
    with mpmath.workdps(90):
        for angle in ANGLES:
            v = np.array([np.cos(angle), np.sin(angle)])
            sides = [sloped(lambda t: exact(t * v[0], t * v[1]), 2, side) for side in (1, -1)]  # type: ignore[operator] # noqa: B023
            slopes = [sloped(lambda t: exact(t * v[0], t * v[1]), 1, side) for side in (1, -1)]  # type: ignore[operator] # noqa: B023
            smooth = None not in (*sides, *slopes) and abs(slopes[0] - slopes[1]) < 1e-6
            if not smooth or abs(v @ found @ v - sides[0]) > 1e-5 * (1 + abs(sides[0])):
                raise Wrong(f"lambda x, y: {text}\nHessian at 0: {found.tolist()}; along {angle}: {slopes}, {sides}")
    return RIGHT

"""Floats as the numbers that they round: short fractions, roots, small multiples of pi and of logarithms."""

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symdiff.inspection.expressions import number

HALF = Fraction(1, 2)
ONCE = Fraction(1)


@lru_cache(4096)
def exact_multiple(value: float) -> tuple[Fraction, tuple[tuple[str, Fraction], ...]] | None:
    """A float as the quotient, the root of one, or the small multiple of pi or a logarithm that it is the rounding of; None
    where it is not.

    >>> exact_multiple(math.pi/180)
    (Fraction(1, 180), (('pi', Fraction(1, 1)),))
    """
    if not math.isfinite(value) or len(repr(value)) < 14:
        return None
    for known, powers, most in _CONSTANTS:
        quotient = _rounded(value / known, most)
        if quotient is not None and abs(quotient.numerator / quotient.denominator * known - value) <= 1.2e-16 * abs(value):
            return quotient, powers
    square = _rounded(value * value, 1000) if abs(value) < 1e6 else None
    if square is None or abs(math.sqrt(square) - abs(value)) > 1.2e-16 * abs(value):
        return None
    times = math.prod(square.as_integer_ratio())
    whole = max(k for k in range(1, math.isqrt(times) + 1) if times % (k * k) == 0)
    return Fraction(whole if value > 0 else -whole, square.denominator), ((str(times // whole**2), HALF),)


def _rounded(value: float, most: int) -> Fraction | None:
    """A quotient of numbers up to `most`, or of a digit and a larger one, near a number; None for one that is not finite."""
    if not math.isfinite(value):
        return None
    for digit in range(1, 10):
        below = round(digit / abs(value)) if 1e-9 < abs(value) < 1e9 else 0
        if below and digit / below == abs(value) and most > 1000:
            return Fraction(digit if value > 0 else -digit, below)
    found = Fraction(value).limit_denominator(most)
    return found if 0 < abs(found.numerator) <= most else None


_CONSTANTS: list[tuple[float, tuple[tuple[str, Fraction], ...], int]] = [
    (1.0, (), 10_000),
    *((known, powers, 720) for known, powers in (
        (math.pi, (("pi", ONCE),)), (1 / math.pi, (("pi", -ONCE),)), (math.e, (("e", ONCE),)),
        (math.sqrt(math.pi), (("pi", HALF),)), (1 / math.sqrt(math.pi), (("pi", -HALF),)),
        (math.sqrt(2 * math.pi), (("2", HALF), ("pi", HALF))), (1 / math.sqrt(2 * math.pi), (("2", -HALF), ("pi", -HALF))),
        (math.sqrt(2 / math.pi), (("2", HALF), ("pi", -HALF))), (math.sqrt(math.pi / 2), (("pi", HALF), ("2", -HALF))),
        (math.log(2), (("log2", ONCE),)), (1 / math.log(2), (("log2", -ONCE),)),
        (math.log(10), (("log10", ONCE),)), (1 / math.log(10), (("log10", -ONCE),)),
        (math.pi**2, (("pi", 2 * ONCE),)), (math.pi**-2, (("pi", -2 * ONCE),)), (0.5772156649015329, (("gamma_E", ONCE),)),
    )),
]  # fmt: skip


def exact_number(value: Any) -> Any:
    """A number as SymPy's: what a float rounds, or the float."""
    value = np.asarray(value).item()
    if isinstance(value, complex):
        return exact_number(value.real) + sp.I * exact_number(value.imag)
    if not isinstance(value, float) or not math.isfinite(value):
        return number(+value)
    near = Fraction(value).limit_denominator(10**6)
    if float(near) == value:
        return sp.Rational(near.numerator, near.denominator)
    quotient, powers = exact_multiple(value) or (None, ())
    if quotient is None:
        return sp.Float(value)
    factors = (sp.Pow(_NAMED.get(name) or sp.Integer(name), sp.Rational(*e.as_integer_ratio())) for name, e in powers)
    return sp.Mul(sp.Rational(*quotient.as_integer_ratio()), *factors)


_NAMED = {"pi": sp.pi, "e": sp.E, "log2": sp.log(2), "log10": sp.log(10), "gamma_E": sp.EulerGamma}

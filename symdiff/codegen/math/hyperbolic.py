"""Hyperbolic functions of vectors and their inverses.

Assumes the formulas of `numbers`. Guarantees at most 3 ulp (1.5 for tanh), and C99's results at infinities, NaN, signed zeros
and outside the domains.

Method: sinh and cosh from exp(x)/2, sinh near zero by a polynomial in x**2 that interpolates at the Chebyshev nodes (error
2**-61); tanh as Cephes; the inverses through log(1 + y) with the cancelling part y given as such.
"""

import math

from symdiff.codegen.math.exponentials import exp, parts, times_power_of_two
from symdiff.codegen.math.lines import Real, copysign, where
from symdiff.codegen.math.logarithms import log_of_sum
from symdiff.codegen.math.numbers import fma, horner, lane_min, nan_of, sqrt, two_sum

_SINH = (  # (sinh(x) - x)/x**3 in powers of x**2
    0.16666666666666666, 0.008333333333333299, 0.00019841269841324198, 2.7557319191381816e-06, 2.5052117695907823e-08,
    1.6057679623801638e-10, 7.746178593018827e-13,
)  # fmt: skip
_TANH = (
    (-1.61468768441708447952e3, -9.92877231001918586564e1, -9.64399179425052238628e-1),
    (4.84406305325125486048e3, 2.23548839060100448583e3, 1.12811678491632931402e2, 1.0),
)
_LARGE = 2.0**28  # beyond, asinh and acosh are log(2 x)


def sinh(x: Real) -> Real:
    """sinh(x)."""
    size = abs(x)
    far = copysign(_half_exp(size, -0.25), x)
    return where(size < 1.0, near_sinh(x), nan_of(x, far))


def cosh(x: Real) -> Real:
    """cosh(x)."""
    size = abs(x)
    return where(x.missing(), size, _half_exp(size, 0.25))


def tanh(x: Real) -> Real:
    """tanh(x): a rational function near zero, 1 - 2/(exp(2x) + 1) beyond."""
    size = abs(x)
    z = x * x
    near = fma(x * z, horner(z, *_TANH[0]) / horner(z, *_TANH[1]), x)
    far = 1.0 - 2.0 / (exp(size + size) + 1.0)
    return copysign(where(size < 0.625, near, far), x)


def asinh(x: Real) -> Real:
    """asinh(x)."""
    size = abs(x)
    z = size * size
    return copysign(_log_of_grown(size, size + z / (1.0 + sqrt(z + 1.0))), x)


def acosh(x: Real) -> Real:
    """acosh(x)."""
    above = x - 1.0
    found = _log_of_grown(x, above + sqrt(fma(above, above, above + above)))
    return where(x >= 1.0, found, math.nan)


def atanh(x: Real) -> Real:
    """atanh(x)."""
    size = abs(x)
    y = (size + size) / (1.0 - size)
    u, rest = two_sum(y, 1.0)
    found = where(size < 2.0**-54, size, log_of_sum(u, y, rest) * 0.5)
    found = where(size.equals(1.0), math.inf, found)
    return copysign(where(size <= 1.0, found, math.nan), x)


def near_sinh(x: Real) -> Real:
    """sinh(x) for |x| <= 1."""
    z = x * x
    return fma(x * z, horner(z, *_SINH), x)


def _half_exp(size: Real, other: float) -> Real:
    """exp(x)/2 + other/(exp(x)/2) for x >= 0."""
    one, n, bits = parts(lane_min(size, 711.0))
    half = times_power_of_two(one, n - 1.0, bits - 1)
    return half + other / half


def _log_of_grown(x: Real, y: Real) -> Real:
    """log(1 + y), and log(2 x) where x is large."""
    large = x > _LARGE
    u, rest = two_sum(y, 1.0)
    one = where(large, 1.0, 0.0)
    found = log_of_sum(where(large, x, u), y, where(large, 0.0, rest), one)
    return where(x < math.inf, where(y < 2.0**-54, y, found), x)

"""Logarithms of vectors: log, log2, log10, log1p, and log with more digits than float64 for powers.

Assumes the formulas of `numbers`. Guarantees at most 1.5 ulp, exact results at exact powers, and C99's results at infinities,
NaN, zeros, negative numbers and subnormals.

Method: x = 2**k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); s = f/(2 + f), log(1 + f) = 2 atanh(s), arranged as fdlibm
does, so that f stands alone in the last sum: f - (f**2/2 - s (f**2/2 + R(s**2))). R interpolates at the Chebyshev nodes in
60 digits (error 2**-57 of the result).
"""

import math

from symdiff.codegen.math.exponentials import LN2
from symdiff.codegen.math.lines import Real, where
from symdiff.codegen.math.numbers import exact, fast_two_sum, fma, horner, two_product, two_sum

_MIDDLE = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
_ONE = 0x3FF0000000000000
_TO_NUMBER = 0x4330000000000000  # 2**52, whose last bits take an integer
_LOG = (  # (2 atanh(s)/s - 2)/s**2 in powers of s**2
    0.666666666666667, 0.39999999999899505, 0.28571428625975487, 0.2222221113479508, 0.18182889125261723,
    0.15331721600556042, 0.14616449685043406,
)  # fmt: skip
_LOG_REST = (  # the same without its first term, which stands in two parts: TWO_THIRDS
    0.4, 0.28571428571429364, 0.22222222221656232, 0.18181818335314404, 0.15384594970895457, 0.13334804238225345,
    0.11706248540922386, 0.11723051028097753,
)  # fmt: skip
_TWO_THIRDS = exact("0x1.5555555555555p-1", "0x1.5555555555555p-55")
_LOG2_E = exact("0x1.71547652b82fep+0", "0x1.777d0ffda0d24p-56")
_LOG10_E = exact("0x1.bcb7b1526e50ep-2", "0x1.95355baaafad3p-57")
_LOG10_2 = exact("0x1.34413509f6000p-2", "0x1.9fef311f12b36p-42")


def log(x: Real) -> Real:
    """The natural logarithm."""
    k, m = split(x)
    return in_log_domain(x, 0.0, log_of_parts(k, m - 1.0, None))


def log1p(x: Real) -> Real:
    """log(1 + x)."""
    u, rest = two_sum(x, 1.0)
    found = log_of_sum(u, x, rest)
    return where(abs(x) < 2.0**-54, x, in_log_domain(x, -1.0, found))


def log2(x: Real) -> Real:
    """The logarithm to base 2."""
    k, m = split(x)
    high, low = _scaled(m - 1.0, _LOG2_E)
    total, rest = fast_two_sum(k, high)
    return in_log_domain(x, 0.0, total + (rest + low))


def log10(x: Real) -> Real:
    """The logarithm to base 10."""
    k, m = split(x)
    high, low = _scaled(m - 1.0, _LOG10_E)
    total, rest = fast_two_sum(k * _LOG10_2[0], high)
    return in_log_domain(x, 0.0, total + (rest + fma(k, _LOG10_2[1], low)))


def split(x: Real) -> tuple[Real, Real]:
    """(k, m) with x = 2**k m, sqrt(1/2) <= m < sqrt(2), for any positive x."""
    small = x < 2.0**-1022
    k, m = split_normal(where(small, x * 2.0**54, x))
    return where(small, k - 54.0, k), m


def split_normal(x: Real) -> tuple[Real, Real]:
    """The same for numbers that are not subnormal."""
    moved = x.bits() + (_ONE - _MIDDLE)
    k = ((moved >> 52) | _TO_NUMBER).real() - (2.0**52 + 1023)
    return k, ((moved & (2**52 - 1)) + _MIDDLE).real()


def log_of_parts(k: Real, f: Real, rest: Real | None) -> Real:
    """k ln(2) + log(1 + f) + rest."""
    s = f / (f + 2.0)
    half = f * f * 0.5
    low = k * LN2[1] if rest is None else fma(k, LN2[1], rest)
    tail = fma(s, half + _series(s), low)
    return k * LN2[0] - ((half - tail) - f)


def log_of_sum(u: Real, excess: Real, rest: Real, more: Real | None = None) -> Real:
    """log(u + rest) + more ln(2), |rest| far below u >= 2**-1022; `excess` is u + rest - 1 where u is near 1."""
    k, m = split_normal(u)
    near = k.equals(0.0)
    f = where(near, excess, m - 1.0)
    return log_of_parts(k if more is None else k + more, f, where(near, 0.0, rest / u))


def log_in_two(x: Real) -> tuple[Real, Real]:
    """log(x) as a sum of two, to 2**-64 of it: s, s**2 and the first terms of the series each in two parts."""
    k, m = split(x)
    below, below_rest = fast_two_sum(1.0, m)
    inverse = 1.0 / below
    f = m - 1.0
    s = f * inverse
    s_rest = fma(-s, below_rest, fma(-s, below, f)) * inverse
    z, z_rest = two_product(s, s)
    z_rest = fma(s + s, s_rest, z_rest)
    t, t_rest = fast_two_sum(_TWO_THIRDS[0], z * horner(z, *_LOG_REST))
    p, p_rest = two_product(z, t)
    p_rest = fma(z_rest, t, fma(z, t_rest + _TWO_THIRDS[1], p_rest))
    u, u_rest = two_product(s, p)
    u_rest = fma(s_rest, p, fma(s, p_rest, u_rest))
    total, rest = fast_two_sum(s + s, u)
    rest = rest + fma(s_rest, 2.0, u_rest)
    high, low = fast_two_sum(k * LN2[0], total)
    return high, low + fma(k, LN2[1], rest)


def _series(s: Real) -> Real:
    """R(s**2)."""
    z = s * s
    return z * horner(z, *_LOG)


def _scaled(f: Real, factor: tuple[float, ...]) -> tuple[Real, Real]:
    """log(1 + f) times a factor, as a sum of two."""
    half, half_rest = two_product(f * 0.5, f)
    s = f / (f + 2.0)
    high, rest = fast_two_sum(f, -half)
    low = fma(s, half + _series(s), rest - half_rest)
    product, lost = two_product(high, factor[0])
    return product, lost + fma(low, factor[0], high * factor[1])


def in_log_domain(x: Real, edge: float, found: Real) -> Real:
    """found where x is above the edge and finite; -inf at the edge, NaN below it; x where it is infinite or NaN."""
    found = where(x > edge, found, where(x.equals(edge), -math.inf, math.nan))
    return where(x < math.inf, found, x)

"""Powers and roots of vectors: pow, cbrt, hypot.

Assumes the formulas of `numbers`. Guarantees at most 2 ulp (1 for cbrt), exact integer powers where the result has few digits,
and C99's results at infinities, NaN, signed zeros and negative bases.

Method: pow as exp(y log(x)) with the logarithm in two parts; cbrt by a polynomial (interpolated at the Chebyshev nodes, 22
bits) and two steps of Newton's method, the last with an exact remainder; hypot after scaling by a power of two.
"""

import math

from symdiff.codegen.math.exponentials import parts, power_of_two, times_power_of_two
from symdiff.codegen.math.lines import Real, copysign, where
from symdiff.codegen.math.logarithms import log_in_two, split
from symdiff.codegen.math.numbers import fma, horner, lane_max, lane_min, rint, round_to_bits, sqrt, two_product

_CBRT = (
    0.39969553392018364, 1.1890254244465508, -1.167182300878286, 0.9452829785678083, -0.49619886441816097, 0.1486420623577358,
    -0.01926499119960693,
)  # fmt: skip


def pow(x: Real, y: Real) -> Real:
    """x**y."""
    size = abs(x)
    high, low = log_in_two(size)
    product, lost = two_product(y, high)
    inside = abs(product) < 800.0
    rest = where(inside, fma(y, low, lost), 0.0)
    return power(x, y, times_power_of_two(*parts(lane_min(lane_max(product, -800.0), 800.0), rest)))


def power(x: Real, y: Real, found: Real) -> Real:
    """x**y from abs(x)**y where that is finite: the sign, and what C99 says of infinities, zeros and NaN."""
    size = abs(x)
    endless = where(y.negative() ^ (size > 1.0), math.inf, 0.0)
    found = where(size.equals(0.0) | size.equals(math.inf), endless, found)
    found = where(size.equals(1.0), 1.0, found)
    whole, half = rint(y).equals(y), y * 0.5
    odd = whole & ~rint(half).equals(half)
    outside = (x < 0.0) & ~whole & (size < math.inf)
    found = where(odd, copysign(found, x), where(outside, math.nan, found))
    found = where(x.missing() | y.missing(), x + y, found)
    return where(x.equals(1.0) | y.equals(0.0), 1.0, found)


def cbrt(x: Real) -> Real:
    """The cube root."""
    size = abs(x)
    k, m = split(size)
    third, bits = round_to_bits(k, 1 / 3)
    rest = k - third * 3.0
    high, low = rest > 0.0, rest < 0.0
    a = m * where(high, 2.0, where(low, 0.5, 1.0))
    y = horner(m, *_CBRT) * where(high, 2 ** (1 / 3), where(low, 0.5 ** (1 / 3), 1.0))
    inverse = 1.0 / (y * y * 3.0)
    y = fma(fma(y * y, -y, a), inverse, y)
    square, lost = two_product(y, y)
    y = fma(fma(lost, -y, fma(square, -y, a)), inverse, y)
    usual = (size > 0.0) & (size < math.inf)
    return where(usual, copysign(y * power_of_two(bits), x), x)


def hypot(x: Real, y: Real) -> Real:
    """The length of the hypotenuse."""
    large, small, factor = scaled_legs(x, y)
    found = sqrt(fma(small, small, large * large)) / factor
    return where(abs(x).equals(math.inf) | abs(y).equals(math.inf), math.inf, found)


def scaled_legs(x: Real, y: Real) -> tuple[Real, Real, Real]:
    """The larger and the smaller size times a power of two, so that neither's square leaves the range, and that power."""
    sizes = abs(x), abs(y)
    swapped = sizes[0] < sizes[1]
    large, small = where(swapped, sizes[1], sizes[0]), where(swapped, sizes[0], sizes[1])
    factor = where(large > 2.0**500, 2.0**-600, where(large < 2.0**-400, 2.0**600, 1.0))
    return large * factor, small * factor, factor

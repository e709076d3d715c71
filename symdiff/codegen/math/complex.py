"""Functions of complex numbers on vectors of their real and imaginary parts.

Assumes the formulas of `numbers`. Guarantees results within 5 ulp of their size, but for powers, C99's branch cuts, which the
signs of zeros choose, and infinities, NaN and huge parts in class with libm. The inverse functions, which are
not here, are libm's.

Method: the formulas by parts; powers of e as s 2**n, so that the product with a sine is scaled once; the logarithm near |z| = 1
from x**2 + y**2 - 1 with the roundings of all four terms; the quotient of tanh without cancellation, as in glibc.
"""

import math

from symdiff.codegen.math.exponentials import parts, power_of_two
from symdiff.codegen.math.hyperbolic import near_sinh
from symdiff.codegen.math.inverse import atan2
from symdiff.codegen.math.lines import Bits, Mask, Real, copysign, where
from symdiff.codegen.math.logarithms import log_of_sum
from symdiff.codegen.math.numbers import (
    fast_two_sum,
    fma,
    lane_max,
    lane_min,
    nan_of,
    pair,
    powers_at_zero,
    round_to_bits,
    sqrt,
    two_product,
    two_sum,
)
from symdiff.codegen.math.powers import scaled_legs

Pair = tuple[Real, Real]
Factors = tuple[Real, Real, Real]
_BOUND = 2080.0  # exp beyond it, times any nonzero float64, is infinite or zero


def cexp(x: Real, y: Real) -> Pair:
    """exp(x + iy)."""
    sine, cosine = pair("sincos", y)
    size, n, bits = parts(lane_max(lane_min(x, _BOUND), -_BOUND))
    factors = _factors(n, bits)
    real, imag = _times(size, cosine, factors), _times(size, sine, factors)
    still = x.equals(-math.inf) & _endless(y)
    real = nan_of(x, where(still, 0.0, where(x.equals(math.inf) & _endless(y), math.inf, real)))
    imag = nan_of(x, where(still, 0.0, imag))
    return real, where(y.equals(0.0), y, imag)


def clog(x: Real, y: Real) -> Pair:
    """log(x + iy), the argument between -pi and pi."""
    large, small, factor = scaled_legs(x, y)
    more = where(factor < 1.0, 1200.0, where(factor > 1.0, -1200.0, 0.0))
    first, first_rest = two_product(large, large)
    second, second_rest = two_product(small, small)
    total, lost = fast_two_sum(first, second)
    near, near_lost = two_sum(total - 1.0, lost)
    near, other_lost = two_sum(near, first_rest)
    excess = near + (second_rest + (near_lost + other_lost))
    real = log_of_sum(total, excess, lost + (first_rest + second_rest), more) * 0.5
    real = where(total.equals(0.0), -math.inf, real)
    real = where(x.missing() | y.missing(), x + y, real)
    return where(_infinite(x) | _infinite(y), math.inf, real), atan2(y, x)


def csqrt(x: Real, y: Real) -> Pair:
    """The root of x + iy in the right half plane."""
    _, _, factor = scaled_legs(x, y)
    back = where(factor < 1.0, 2.0**300, where(factor > 1.0, 2.0**-300, 1.0))
    a, b = abs(x) * factor, abs(y) * factor
    root = sqrt((a + sqrt(fma(a, a, b * b))) * 0.5)
    root = root * back
    other = abs(y) / (root + root)
    behind = x.negative()
    real, imag = where(behind, other, root), where(behind, root, other)
    nothing = x.equals(0.0) & y.equals(0.0)
    real, imag = where(nothing, 0.0, real), where(nothing, 0.0, imag)
    real = where(x.equals(math.inf), x, where(x.equals(-math.inf), y - y, real))
    imag = where(x.equals(math.inf), y - y, where(x.equals(-math.inf), math.inf, imag))
    return where(_infinite(y), math.inf, abs(real)), copysign(where(_infinite(y), math.inf, imag), y)


def csinh(x: Real, y: Real) -> Pair:
    """sinh(x + iy) = sinh(x) cos(y) + i cosh(x) sin(y)."""
    sine, cosine = pair("sincos", y)
    odd, even, factors = _sinh_cosh(x)
    settled = (x.equals(0.0) | _infinite(x)) & _endless(y)
    real = where(settled, where(_infinite(x), math.inf, x), _times(odd, cosine, factors))
    return real, where(y.equals(0.0), y, _times(even, sine, factors))


def ccosh(x: Real, y: Real) -> Pair:
    """cosh(x + iy) = cosh(x) cos(y) + i sinh(x) sin(y)."""
    sine, cosine = pair("sincos", y)
    odd, even, factors = _sinh_cosh(x)
    real = where(_infinite(x) & _endless(y), math.inf, _times(even, cosine, factors))
    imag = where(x.equals(0.0) & _endless(y), 0.0, _times(odd, sine, factors))
    return real, where(y.equals(0.0), copysign(1.0, x) * y, imag)


def csin(x: Real, y: Real) -> Pair:
    """sin(z) = -i sinh(iz)."""
    imag, real = csinh(y, x)
    return real, imag


def ccos(x: Real, y: Real) -> Pair:
    """cos(z) = cosh(iz)."""
    return ccosh(-y, x)


def ctanh(x: Real, y: Real) -> Pair:
    """tanh(x + iy) = (sinh(x) cosh(x) + i sin(y) cos(y))/(sinh(x)**2 + cos(y)**2)."""
    sine, cosine = pair("sincos", y)
    size = lane_min(abs(x), 400.0)
    other, odd, even = _halves(size)
    large = size > 22.0
    below = where(large, 1.0, fma(odd, odd, cosine * cosine))
    product = sine * cosine
    real = where(large, 1.0, odd * even / below)
    imag = where(large, product * (other * 4.0) * (other * 4.0), product / below)
    imag = where(_infinite(x) & _endless(y), 0.0, imag)
    lost = x.missing() | (_endless(y) & ~_infinite(x))
    real = copysign(where(lost & ~x.equals(0.0), math.nan, where(x.equals(0.0), x, real)), x)
    imag = where(lost, math.nan, imag)
    return real, where(y.equals(0.0), y, imag)


def ctan(x: Real, y: Real) -> Pair:
    """tan(z) = -i tanh(iz)."""
    imag, real = ctanh(y, x)
    return real, imag


def cpow(x: Real, y: Real, u: Real, v: Real) -> Pair:
    """(x + iy)**(u + iv) = exp((u + iv) log(x + iy))."""
    size, angle = pair("clog", x, y)
    real, imag = pair("cexp", u * size - v * angle, u * angle + v * size)
    return powers_at_zero([x, y], [u, v], [real, imag])  # type: ignore[return-value]


def _sinh_cosh(x: Real) -> tuple[Real, Real, Factors]:
    """sinh(x) and cosh(x), still to be multiplied by all factors."""
    size = abs(x)
    one, n, bits = parts(lane_min(size, _BOUND))
    _, odd, even = _halves(lane_min(size, 50.0))
    large = size > 40.0
    odd, even = where(large, one, odd), where(large, one, even)
    odd, even = copysign(nan_of(x, odd), x), nan_of(x, even)
    first, second, third = (where(large, f, 1.0) for f in _factors(n - 1.0, bits - 1))
    return odd, even, (first, second, third)


def _halves(size: Real) -> tuple[Real, Real, Real]:
    """exp(-x)/2, sinh(x) and cosh(x) for 0 <= x <= 700."""
    one, _, bits = parts(size)
    half = one * power_of_two(bits - 1)
    other = 0.25 / half
    return other, where(size < 1.0, near_sinh(size), half - other), half + other


def _factors(n: Real, bits: Bits) -> Factors:
    """Three factors of 2**n, |n| < 3000; the first takes what it can."""
    first, first_bits = round_to_bits(lane_max(lane_min(n, 1000.0), -1000.0))
    _, half_bits = round_to_bits(n - first, 0.5)
    return power_of_two(first_bits), power_of_two(half_bits), power_of_two(bits - first_bits - half_bits)


def _times(value: Real, other: Real, factors: Factors) -> Real:
    """value times 2**n times `other`, which may be subnormal."""
    first, second, third = factors
    return value * first * other * second * third


def _infinite(x: Real) -> Mask:
    return abs(x).equals(math.inf)


def _endless(x: Real) -> Mask:
    """Where a number is infinite or NaN."""
    return ~(abs(x) < math.inf)

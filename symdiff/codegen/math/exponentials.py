"""Exponentials of vectors: exp, exp2, exp10, expm1, and the parts of exp that other functions put together.

Assumes the formulas of `numbers`. Guarantees at most 1.5 ulp, subnormal results rounded once, and C99's results at infinities,
NaN and signed zeros.

Method: x = n ln 2 + r with ln 2 in two parts (Cody and Waite), the first short enough that n times it is exact; a polynomial in
r, |r| <= ln(2)/2, which interpolates at the Chebyshev nodes in 60 digits (error 2**-59); times 2**n in factors, since 2**n may
lie outside the range of normal numbers.
"""

import math

from symdiff.codegen.math.lines import Bits, Real, where
from symdiff.codegen.math.numbers import exact, fma, horner, lane_max, lane_min, nan_of, round_to_bits, two_product

LN2 = exact("0x1.62e42fefa2000p-1", "0x1.9ef35793c7673p-41")
_NORMAL = 708.0  # the size of arguments up to which exp is neither subnormal nor infinite
_LN10 = exact("0x1.26bb1bbb55516p+1", "-0x1.f48ad494ea3e9p-53")
_EXP = (  # (exp(r) - 1 - r)/r**2
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748, 0.00019841269874820627,
    2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07, 2.5105217004720745e-08, 2.0914686968086876e-09,
)  # fmt: skip
_EXP2 = (  # (2**r - 1 - r ln(2))/r**2
    0.24022650695910072, 0.0555041086648216, 0.009618129107628479, 0.0013333558146416936, 0.00015403530393375914,
    1.525273382983612e-05, 1.3215486802903931e-06, 1.0178062445845774e-07, 7.054899956372649e-09, 4.4549605981865186e-10,
    2.572508057683636e-11,
)  # fmt: skip


def exp(x: Real) -> Real:
    """e**x; where all results are normal numbers, on a way to the same bits with a single factor."""
    size, _, bits = parts(x)
    usual = size * power_of_two(bits)
    x.body.unless(abs(x) <= _NORMAL)
    size, n, bits = parts(_kept(x, -746.0, 710.0))
    return x.body.joined([usual], [nan_of(x, times_power_of_two(size, n, bits))])[0]  # type: ignore[no-any-return]


def exp2(x: Real) -> Real:
    """2**x."""
    kept = _kept(x, -1076.0, 1025.0)
    n, bits = round_to_bits(kept)
    r = kept - n
    size = fma(r, math.log(2), r * r * horner(r, *_EXP2)) + 1.0
    return nan_of(x, times_power_of_two(size, n, bits))


def exp10(x: Real) -> Real:
    """10**x: exp of x ln 10 with all its digits."""
    kept = _kept(x, -325.0, 309.0)
    high, low = two_product(kept, _LN10[0])
    return nan_of(x, times_power_of_two(*parts(high, fma(kept, _LN10[1], low))))


def expm1(x: Real) -> Real:
    """e**x - 1: 2**n times the polynomial's small part, and 2**n - 1, both halved so that 2**1024 does not overflow."""
    kept = _kept(x, -50.0, 710.0)
    n, bits = round_to_bits(kept, 1 / math.log(2))
    r, rest = _reduced(kept, n, None)
    part = r + fma(r * r, horner(r, *_EXP), rest)
    half = power_of_two(bits - 1)
    found = fma(part, half, half - 0.5)
    found = found + found
    return where(x.missing() | (abs(x) < 2.0**-54), x, found)


def parts(high: Real, low: Real | None = None) -> tuple[Real, Real, Bits]:
    """(s, n, the integer n) with exp(high + low) = s 2**n and s near 1."""
    n, bits = round_to_bits(high, 1 / math.log(2))
    r, rest = _reduced(high, n, low)
    return 1.0 + (r + fma(r * r, horner(r, *_EXP), rest)), n, bits


def times_power_of_two(size: Real, n: Real, bits: Bits) -> Real:
    """size 2**n for |n| < 2046."""
    _, half_bits = round_to_bits(n, 0.5)
    return size * power_of_two(half_bits) * power_of_two(bits - half_bits)


def power_of_two(bits: Bits) -> Real:
    """2**n for the integer n in the last bits, -1022 <= n <= 1023."""
    return ((bits + 1023) << 52).real()


def _kept(x: Real, low: float, high: float) -> Real:
    """x within bounds, beyond which the result is 0 or infinite."""
    return lane_min(lane_max(x, low), high)


def _reduced(x: Real, n: Real, low: Real | None) -> tuple[Real, Real]:
    """x + low - n ln 2 in two parts."""
    first = fma(n, -LN2[0], x)
    second = n * LN2[1] if low is None else fma(n, LN2[1], -low)
    r = first - second
    return r, (first - r) - second

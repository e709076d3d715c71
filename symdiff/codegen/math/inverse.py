"""asin, acos, atan and atan2 of vectors.

Assumes the formulas of `numbers`. Guarantees at most 3 ulp, and C99's results at infinities, NaN, signed zeros and outside the
domains.

Method: an angle is a multiple of pi/4 plus atan of a quotient of at most tan(pi/8), taken from the two legs without dividing
them first; asin beyond 1/2 through the half angle. Polynomials interpolate at the Chebyshev nodes in 60 digits (error 2**-57 of
the result).
"""

import math

from symdiff.codegen.math.lines import Mask, Real, copysign, where
from symdiff.codegen.math.numbers import exact, fma, horner, lane_min, nan_of, sqrt

_PI_4 = exact("0x1.921fb54442d18p-1", "0x1.1a62633145c07p-55")
_ATAN = (  # (atan(t) - t)/t**3 in powers of t**2
    -0.3333333333333333, 0.19999999999999804, -0.14285714285659779, 0.11111111105150588, -0.09090908753259112,
    0.07692296368042296, -0.0666642476020052, 0.05878927554473807, -0.05230443640686948, 0.045515447340221615,
    -0.03456931506332609, 0.016284375050043393,
)  # fmt: skip
_ASIN = (  # (asin(t) - t)/t**3 in powers of t**2
    0.16666666666666669, 0.07499999999998433, 0.04464285714635543, 0.030381944138531247, 0.02237217294214989,
    0.017352392720869973, 0.013971212973552933, 0.011479177415184906, 0.01032281435018578, 0.005457506718640358,
    0.01740087944269402, -0.014851887071247204, 0.028757851367421566,
)  # fmt: skip


def atan(x: Real) -> Real:
    """atan(x)."""
    size = abs(x)
    steep = size > 1.0
    finite = lane_min(size, 1e300)
    found = _angle(where(steep, 1.0, finite), where(steep, finite, 1.0), steep, None)
    return nan_of(x, copysign(found, x))


def atan2(y: Real, x: Real) -> Real:
    """The angle of the point (x, y)."""
    legs = abs(y), abs(x)
    endless = legs[0].equals(math.inf) | legs[1].equals(math.inf)
    up, side = (where(endless, where(leg.equals(math.inf), 1.0, 0.0), leg) for leg in legs)
    steep = up > side
    small, large = where(steep, side, up), where(steep, up, side)
    factor = where(large > 2.0**1000, 0.25, where(large < 2.0**-900, 2.0**100, 1.0))
    large = where(large.equals(0.0), 1.0, large * factor)
    found = copysign(_angle(small * factor, large, steep, x.negative()), y)
    return where(x.missing() | y.missing(), x + y, found)


def asin(x: Real) -> Real:
    """asin(x)."""
    size = abs(x)
    far = size > 0.5
    one = _asin(size, far)
    found = where(far, _PI_4[0] * 2 - fma(one, 2.0, -2 * _PI_4[1]), one)
    return copysign(nan_of(x, found), x)


def acos(x: Real) -> Real:
    """acos(x)."""
    far = abs(x) > 0.5
    one = _asin(abs(x), far)
    turned = where(x < 0.0, one, -one)
    near = 2 * _PI_4[0] + (turned + 2 * _PI_4[1])
    beyond = where(x < 0.0, 4 * _PI_4[0] - fma(one, 2.0, -4 * _PI_4[1]), one + one)
    return nan_of(x, where(far, beyond, near))


def _angle(small: Real, large: Real, steep: Mask, behind: Mask | None) -> Real:
    """The angle of legs 0 <= small <= large > 0; steep where the upright one is larger, behind where the other points back."""
    middle = small > large * math.tan(math.pi / 8)
    t = where(middle, small - large, small) / where(middle, small + large, large)
    z = t * t
    part = fma(t * z, horner(z, *_ATAN), t)
    octants = where(middle, 1.0, 0.0)
    octants = where(steep, 2.0 - octants, octants)
    turned = steep
    if behind is not None:
        octants = where(behind, 4.0 - octants, octants)
        turned = steep ^ behind
    return octants * _PI_4[0] + fma(octants, _PI_4[1], where(turned, -part, part))


def _asin(size: Real, far: Mask) -> Real:
    """asin(x), or asin(sqrt((1 - x)/2)) where far, for x >= 0."""
    z = where(far, 0.5 - size * 0.5, size * size)
    t = where(far, sqrt(z), size)
    return fma(t * z, horner(z, *_ASIN), t)

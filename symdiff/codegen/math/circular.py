"""sin, cos and tan of vectors.

Assumes the formulas of `numbers`. Guarantees at most 1 ulp for sin and cos and 2 for tan, and C99's results at infinities, NaN
and signed zeros. Numbers beyond `REDUCED` are handed to libm, one by one.

Method: multiples of pi/2 subtracted in three parts (Cody and Waite), the reduced argument kept in two parts; the polynomials of
fdlibm's kernels.
"""

import math

from symdiff.codegen.math.lines import Bits, Real, where
from symdiff.codegen.math.numbers import by_lanes, exact, fma, horner, round_to_bits

REDUCED = 1e5  # beyond, three parts of pi/2 no longer give all digits of the reduced argument
_SMALL = 0.78  # below pi/4: the nearest multiple of pi/2 is 0
_PI_2 = exact("0x1.921fb54400000p+0", "0x1.0b4611a600000p-34", "0x1.3198a2e037073p-69")
_SIN = (
    -1.66666666666666324348e-01, 8.33333333332248946124e-03, -1.98412698298579493134e-04,
    2.75573137070700676789e-06, -2.50507602534068634195e-08, 1.58969099521155010221e-10,
)  # fmt: skip
_COS = (
    4.16666666666666019037e-02, -1.38888888888741095749e-03, 2.48015872894767294178e-05,
    -2.75573143513906633035e-07, 2.08757232129817482790e-09, -1.13596475577881948265e-11,
)  # fmt: skip


def sincos(x: Real) -> tuple[Real, ...]:
    """sin(x) and cos(x); a single small number takes the way to the same bits that reduces nothing."""
    if x.body.lanes > 1:
        return patched_by_libm(x, turned(x, *_quadrant(x)), ("sin", "cos"), REDUCED)
    sine, cosine = _series(x)
    small = [where(x.equals(0.0), x, sine), cosine]
    x.body.unless(abs(x) < _SMALL)
    return tuple(x.body.joined(small, list(patched_by_libm(x, turned(x, *_quadrant(x)), ("sin", "cos"), REDUCED))))


def tan(x: Real) -> tuple[Real, ...]:
    """tan(x)."""
    sine, cosine, n = _quadrant(x)
    odd = n.last()
    found = where(odd, -cosine, sine) / where(odd, sine, cosine)
    return patched_by_libm(x, [where(x.equals(0.0), x, found)], ("tan",), REDUCED)


def turned(x: Real, sine: Real, cosine: Real, n: Bits) -> list[Real]:
    """sin(x) and cos(x) from those of x - n pi/2."""
    odd = n.last()
    signs = (n >> 1) << 63, ((n + 1) >> 1) << 63
    found = where(odd, cosine, sine), where(odd, sine, cosine)
    signed = [(one.bits() ^ sign).real() for one, sign in zip(found, signs, strict=True)]
    return [where(x.equals(0.0), x, signed[0]), signed[1]]


def patched_by_libm(x: Real, found: list[Real], names: tuple[str, ...], bound: float) -> tuple[Real, ...]:
    """Results, and those of libm's functions where |x| exceeds a bound."""
    mask = abs(x) <= bound
    x.body.unless(mask)
    slow = [where(mask, one, by_lanes(name, x)) for one, name in zip(found, names, strict=True)]
    return tuple(x.body.joined(found, slow))


def _quadrant(x: Real) -> tuple[Real, Real, Bits]:
    """sin and cos of x - n pi/2, and n."""
    n, bits = round_to_bits(x, 2 / math.pi)
    minus = -n
    first = fma(minus, _PI_2[0], x)
    second = fma(minus, _PI_2[1], first)
    lost = fma(minus, _PI_2[1], first - second)
    third = fma(minus, _PI_2[2], lost)
    r = second + third
    return *_series(r, (second - r) + third), bits


def _series(r: Real, rest: Real | float = 0.0) -> tuple[Real, Real]:
    """sin and cos of r + rest, which is no larger than pi/4."""
    z = r * r
    sine = r + fma(r * z, horner(z, *_SIN), rest)
    half = z * 0.5
    one = 1.0 - half
    lost = ((1.0 - one) - half) - r * rest
    return sine, one + fma(z * z, horner(z, *_COS), lost)

"""Functions whose arguments and results are float32: the formulas of float64 with fewer terms, rounded by whoever calls.

Assumes float64 vectors that hold float32 numbers. Guarantees at most 0.6 ulp of float32 after rounding, and C99's results at
infinities, NaN, signed zeros and subnormals. Sines of numbers beyond `REDUCED` are left to libm.

Method: as in the other files; no sum needs a second part, and no power of two leaves the range. The functions that are not here
are those of float64. Polynomials interpolate at the Chebyshev nodes (error 2**-30).
"""

import math

from symdiff.codegen.math.circular import patched_by_libm, turned
from symdiff.codegen.math.exponentials import power_of_two
from symdiff.codegen.math.lines import Real, copysign, where
from symdiff.codegen.math.logarithms import in_log_domain, log_of_parts, split_normal
from symdiff.codegen.math.numbers import exact, fma, horner, lane_max, lane_min, nan_of, round_to_bits
from symdiff.codegen.math.powers import power

REDUCED = 1e9  # beyond, float64's pi/2 in two parts no longer gives all digits of float32
_PI_2 = exact("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54")
_EXP = (  # (exp(r) - 1)/r
    0.9999999999997533, 0.5000000047445681, 0.16666666724278567, 0.041666351442223505, 0.00833329696087724,
    0.0013941229400188005, 0.00019900312904003645,
)  # fmt: skip
_LOG = (0.6666666655449709, 0.40000121839806124, 0.28550820815960665, 0.23330467216303835)
_SIN = (-0.16666666663853044, 0.008333331873837089, -0.00019840086263755443, 2.7249864655139585e-06)
_COS = (0.04166666465830042, -0.0013888302802309161, 2.454789161981386e-05)
_TANH = (
    -0.3333333317214036, 0.1333330355691574, -0.053959259577204544, 0.02176891865102821, -0.008343945515839153,
    0.002292744816178142,
)  # fmt: skip


def exp_single(x: Real) -> Real:
    """e**x."""
    return nan_of(x, _exp(x))


def log_single(x: Real) -> Real:
    """The natural logarithm."""
    k, m = split_normal(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    found = fma(k, math.log(2), fma(s * z, horner(z, *_LOG), s + s))
    return in_log_domain(x, 0.0, found)


def sincos_single(x: Real) -> tuple[Real, ...]:
    """sin(x) and cos(x)."""
    n, bits = round_to_bits(x, 2 / math.pi)
    r = fma(n, -_PI_2[1], fma(n, -_PI_2[0], x))
    z = r * r
    sine = fma(r * z, horner(z, *_SIN), r)
    cosine = fma(z * z, horner(z, *_COS), fma(z, -0.5, 1.0))
    return patched_by_libm(x, turned(x, sine, cosine, bits), ("sin", "cos"), REDUCED)


def tanh_single(x: Real) -> Real:
    """tanh(x)."""
    size = abs(x)
    z = x * x
    near = fma(x * z, horner(z, *_TANH), x)
    far = 1.0 - 2.0 / (_exp(size + size) + 1.0)
    return nan_of(x, copysign(where(size < 0.625, near, far), x))


def pow_single(x: Real, y: Real) -> Real:
    """x**y."""
    k, m = split_normal(abs(x))
    return power(x, y, _exp(y * log_of_parts(k, m - 1.0, None)))


def _exp(x: Real) -> Real:
    """e**x but for NaN."""
    kept = lane_min(lane_max(x, -110.0), 90.0)
    n, bits = round_to_bits(kept, 1 / math.log(2))
    r = fma(n, -math.log(2), kept)
    whole = power_of_two(bits)
    return fma(whole * r, horner(r, *_EXP), whole)

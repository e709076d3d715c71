"""Special functions of vectors: the error functions, the normal and logistic distributions, and forms that do not cancel.

Assumes the formulas of `numbers`. Guarantees at most 4 ulp (`log_ndtr`: 8), and SciPy's results at infinities, NaN and signed
zeros.

Method: erf near zero by a polynomial in x**2; beyond, erfc(x) = exp(-x**2) erfcx(x) with x**2 in two parts, and
(1 + 2x) erfcx(x) as a polynomial in (x - 5/2)/(x + 5/2) (Shepherd and Laframboise, Math. Comp. 36, 1981), one up to 7/2 and one
beyond. All interpolate at the Chebyshev nodes in 60 digits (error 2**-57).
"""

import functools
import math
from collections.abc import Callable
from typing import Any, cast

from symdiff.codegen.formulas import formula_program
from symdiff.codegen.math.exponentials import exp, expm1, parts, times_power_of_two
from symdiff.codegen.math.hyperbolic import atanh
from symdiff.codegen.math.lines import OPERATORS, Real, call_intrinsic, copysign, where
from symdiff.codegen.math.logarithms import log, log1p
from symdiff.codegen.math.numbers import fma, horner, lane_min, nan_of, two_product

_ERF = (  # (erf(x)/x - 2/sqrt(pi))/x**2 in powers of x**2
    -0.3761263890318375, 0.11283791670954388, -0.026866170644835378, 0.005223977620813342, -0.0008548326651491142,
    0.00012055315509827725, -1.4925137231361603e-05, 1.6452392414414235e-06, -1.624658795725963e-07, 1.3884625209147687e-08,
    -8.101869549660952e-10,
)  # fmt: skip
_NEAR = (
    1.2648381843668615, -0.12235676308240431, -0.0990245395735989, 0.15762991902322798, -0.10296705603922177, 0.032760893265454,
    0.0009318928615727696, -0.0043820780023383155, 0.0004918652229332369, 0.0006321120138158331, -8.851277499341442e-05,
    -0.00011344358882236807, 7.001853999398554e-06, 2.485539257755597e-05, 6.023513694266412e-06, -1.2534051163353258e-06,
    -6.183961809769281e-07,
)  # fmt: skip
_FAR = (
    1.2648381843608076, -0.1223567628256437, -0.09902454457238129, 0.1576299783713423, -0.10296753749972454,
    0.03276372691942426, 0.0009193579507167916, -0.004339494854248737, 0.0003793835409767288, 0.0008643399902920966,
    -0.0004625493887468328, 0.0003522397265267026, -0.000432942696363369, 0.00032437467652814936, -0.00013690820949436368,
    3.142871431763494e-05, -3.1071088169931365e-06,
)  # fmt: skip
_EDGE = 0.5  # up to here 1 - erf(x) keeps its digits; from 0.49 on the polynomials of erfcx hold


def erf(x: Real) -> Real:
    """The error function."""
    size = abs(x)
    kept = lane_min(size, 6.0)
    far = 1.0 - exp(-(kept * kept)) * _erfcx(kept)
    return nan_of(x, where(size < 1.0, _near_erf(x), copysign(far, x)))


def erfc(x: Real) -> Real:
    """1 - erf(x)."""
    size = lane_min(abs(x), 28.0)
    square, rest = two_product(size, size)
    return nan_of(x, _tail(x, 1.0 - _near_erf(x), _gauss(square, rest), _erfcx(size), 2.0))


def erfcx(x: Real) -> Real:
    """exp(x**2) erfc(x)."""
    size = abs(x)
    kept = lane_min(size, 28.0)
    square, rest = two_product(kept, kept)
    grown = times_power_of_two(*parts(square, rest))
    near = grown * (1.0 - _near_erf(where(size < _EDGE, x, 0.0)))
    far = where(x < 0.0, fma(grown, 2.0, -_erfcx(size)), _erfcx(size))
    return nan_of(x, where(size < _EDGE, near, far))


def ndtr(x: Real) -> Real:
    """The normal distribution: erfc(-x/sqrt(2))/2."""
    size = lane_min(abs(x), 39.0)
    scaled_size = size * math.sqrt(0.5)
    square, rest = two_product(size, size)
    near = fma(_near_erf(x * math.sqrt(0.5)), 0.5, 0.5)
    found = _tail(-x * math.sqrt(0.5), near, _gauss(square * 0.5, rest * 0.5), _erfcx(scaled_size) * 0.5, 1.0)
    return nan_of(x, found)


def log_ndtr(x: Real) -> Real:
    """log(ndtr(x))."""
    size = abs(x)
    t = size * math.sqrt(0.5)
    below = log(_erfcx(t) * 0.5) - size * (size * 0.5)
    tail = ndtr(-size)
    above = log1p(where(x < 0.0, tail - 1.0, -tail))
    return nan_of(x, where(x < -1.0, where(size < math.inf, below, -math.inf), above))


TABULATED = tuple("expit log_expit logit xlogy xlog1py cosm1 exprel".split())
_ON_VECTORS: dict[str, Callable[..., Any]] = OPERATORS | {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "atanh": atanh, "sin": functools.partial(call_intrinsic, "sin"),
}  # fmt: skip


def tabulated(name: str, *arguments: Real) -> Real:
    """A function of the table in `formulas`."""
    program, _ = formula_program(name, "d")
    values: list[Any] = []
    for node in program.nodes:
        if node.op == "input":
            values.append(arguments[node.params[0]])
        elif node.op == "const":
            values.append(node.params)
        else:
            values.append(_ON_VECTORS[node.op](*(values[o] for o in node.operands)))
    return cast(Real, values[program.outputs[0].value])


def _near_erf(x: Real) -> Real:
    """erf(x) for |x| <= 1."""
    z = x * x
    return x * fma(z, horner(z, *_ERF), 2 / math.sqrt(math.pi))


def _erfcx(x: Real) -> Real:
    """exp(x**2) erfc(x) for x >= 0.49."""
    t = where(x < 1e300, (x - 2.5) / (x + 2.5), 1.0)
    far = x > 3.5
    total = where(far, _FAR[-1], _NEAR[-1])
    for a, b in zip(reversed(_FAR[:-1]), reversed(_NEAR[:-1]), strict=True):
        total = fma(total, t, where(far, a, b))
    return total * 0.5 / (x + 0.5)


def _gauss(square: Real, rest: Real) -> Real:
    """exp(-square - rest)."""
    return times_power_of_two(*parts(-square, -rest))


def _tail(x: Real, near: Real, gauss: Real, factor: Real, whole: float) -> Real:
    """near where x is small; whole - gauss factor where it is negative, gauss factor where it is positive."""
    far = gauss * factor
    return where(abs(x) < _EDGE, near, where(x < 0.0, whole - far, far))

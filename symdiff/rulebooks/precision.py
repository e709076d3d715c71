"""Operations that mpmath has under no name of its own on numbers of any precision, and exact folding of constants.

Assumes mpmath numbers at the caller's working precision. Guarantees NumPy's and SciPy's meaning (the parameter m of elliptic
integrals, regularised incomplete functions).
"""

import math
from collections.abc import Callable
from typing import Any

import mpmath
from mpmath import mp

from symdiff.vocabulary.traits import operations

NAMED: dict[str, Callable[[], Any]] = {
    "pi": lambda: +mp.pi,
    "e": lambda: +mp.e,
    "inf": lambda: math.inf,
    "nan": lambda: math.nan,
    "euler": lambda: +mp.euler,
}
FOLDED = operations("folded")
DIGITS = 40
LARGEST = 16384  # binary exponents of constants: those of the widest float; beyond it a tower of powers takes for ever


class Unfoldable(ArithmeticError):
    """A constant that is no number, or too large or too small to be computed."""


def fold_formula_step(op: str, operands: list[Any]) -> Any:
    """The constant `op(*operands)` in 40 digits, None where it is no finite number or not folded.

    Raises `Unfoldable` where it has no value, or one that is not between 2**-16384 and 2**16384.
    """
    if op not in FOLDED:
        return None
    with mp.workdps(DIGITS):
        values = [NAMED[o]() if isinstance(o, str) else mpmath.mpmathify(o) for o in operands]
        if not all(mpmath.isfinite(v) for v in values) or (op == "div" and values[1] == 0):
            return None
        if any(map(_is_beyond, values)) or _exponent(op, values) > LARGEST:
            raise Unfoldable("a constant beyond 2**16384")
        if not any(v.imag for v in values) and _leaves_reals(op, values):
            raise Unfoldable(f"{op} of real numbers that is complex; 1j makes a complex one")
        try:
            found = (NATIVE.get(op) or getattr(mpmath, op))(*values)
        except (ArithmeticError, ValueError, TypeError) as error:
            raise Unfoldable(f"{op} has no value there: {error}") from None
        if _is_beyond(found):
            raise Unfoldable("a constant beyond 2**16384")
        exact = all(isinstance(o, int) for o in operands) and op in ("add", "sub", "mul", "neg")
        return int(found) if exact else found


def _leaves_reals(op: str, values: list[Any]) -> bool:
    """Whether a head of real numbers is complex there."""
    return values[0].real < 0 and (op in ("sqrt", "log") or (op == "pow" and not mpmath.isint(values[1])))


def _is_beyond(value: Any) -> bool:
    """Whether a number's binary exponent is not between -`LARGEST` and `LARGEST`."""
    return bool(value) and bool(mpmath.isfinite(value)) and abs(mpmath.mag(value)) > LARGEST


def _exponent(op: str, values: list[Any]) -> float:
    """About the binary exponent of a result, known before it is computed: of x**y that of exp(y log(x))."""
    if op not in ("exp", "gamma", "pow") or not values[0]:
        return 0.0
    factors = [values[0]] if op != "pow" else [mpmath.log(values[0]), values[1]]
    return 2.0 ** min(sum(float(mpmath.mag(v)) for v in factors), 1000.0) if all(factors) else 0.0


def _sign(x: Any) -> Any:
    return mpmath.sign(x) if not isinstance(x, mpmath.mpc) else x / abs(x) if x else x


def real_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose real arguments give real results, without the rounding dust of an imaginary part."""

    def on(*args: Any) -> Any:
        value = function(*args)
        if not isinstance(value, mpmath.mpc) or any(isinstance(a, mpmath.mpc) for a in args):
            return value
        if abs(value.imag) > abs(value) * mpmath.eps**0.5:
            raise ValueError("a complex result of real arguments")
        return value.real

    return on


def _gammainc(a: Any, x: Any) -> Any:
    """By DLMF 8.5.1 where mpmath does not end: beside 0, left of the imaginary axis."""
    if isinstance(x, mpmath.mpc) or x < 0:
        return mpmath.power(x, a) * mpmath.hyp1f1(a, a + 1, -x) * mpmath.rgamma(a + 1)
    return mpmath.gammainc(a, 0, x, regularized=True)


def scipy_value(name: str, *args: Any) -> float:
    from symdiff.vocabulary.operation import scipy_special

    return float(getattr(scipy_special(), name)(*map(float, args)))


def _kelvin(first: Callable[..., Any], second: Callable[..., Any], sign: int) -> Callable[[Any], Any]:
    """The derivative of a Kelvin function of order 0: DLMF 10.63.1."""
    return lambda x: (first(1, x) + sign * second(1, x)) / mpmath.sqrt(2)


def _integral(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: mpmath.quad(function, [0, x])


def _log_series(x: Any, sign: int) -> Any:
    """The integral of K0(t)/t (sign 1) or of pi/2 Y0(t)/t (-1) but for a constant; series DLMF 10.31.2, 10.8.2."""
    log = mpmath.log(x / 2) + mp.euler
    total, coefficient, harmonic, k = -log * log / 2, mpmath.mpf(1), mpmath.mpf(0), 0
    while abs(coefficient) > mpmath.mpf(10) ** (-mp.dps - 5):
        k += 1
        coefficient *= sign * x * x / (4 * k * k)
        harmonic += mpmath.mpf(1) / k
        total += coefficient * ((harmonic - log) / (2 * k) + mpmath.mpf(1) / (4 * k * k))
    return total if sign > 0 else -total


def _by_struve(bessel: Callable[..., Any], struve: Callable[..., Any], sign: int) -> Callable[[Any], Any]:
    """The integral from 0 to x of a Bessel function of order 0."""
    return lambda x: mp.pi / 2 * x * (bessel(0, x) * struve(-1, x) + sign * bessel(1, x) * struve(0, x))


def _owens_t(h: Any, a: Any) -> Any:
    return mpmath.quad(lambda t: mpmath.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, a]) / (2 * mp.pi)


def _chndtr(x: Any, df: Any, nc: Any) -> Any:
    term = lambda j: mpmath.gammainc(df / 2 + j, 0, x / 2, regularized=True) * (nc / 2) ** j / mpmath.factorial(j)  # noqa: E731
    return mpmath.exp(-nc / 2) * mpmath.nsum(term, [0, mpmath.inf], method="direct")


def _wright_bessel(a: Any, b: Any, x: Any) -> Any:
    total, term, k = mpmath.mpf(0), mpmath.rgamma(b), 0
    while abs(term) > mpmath.mpf(10) ** (-mp.dps - 5) or k < 5:
        total += term
        k += 1
        term = x**k / mpmath.factorial(k) * mpmath.rgamma(a * k + b)
    return total


NATIVE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y if y else x * mpmath.inf if x else mpmath.nan,
    "neg": lambda x: -x,
    "pow": lambda x, y: x**y if x or y > 0 else mpmath.mpf(1) if not y else mpmath.inf,
    "abs": abs,
    "sign": _sign,
    "log": lambda x: mpmath.log(x) if x else -mpmath.inf,
    "max": max,
    "min": min,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "and": lambda x, y: bool(x) and bool(y),
    "or": lambda x, y: bool(x) or bool(y),
    "xor": lambda x, y: bool(x) != bool(y),
    "not": lambda x: not x,
    "select": lambda c, x, y: x if c else y,
    "polygamma": lambda n, x: mpmath.psi(int(n), x),
    "spence": lambda x: mpmath.polylog(2, 1 - x),
    "wrightomega": lambda z: mpmath.lambertw(mpmath.exp(z), mpmath.ceil((mpmath.im(z) - mp.pi) / (2 * mp.pi))),
    "ber": lambda x: mpmath.ber(0, x),
    "bei": lambda x: mpmath.bei(0, x),
    "ker": lambda x: mpmath.ker(0, x),
    "kei": lambda x: mpmath.kei(0, x),
    "berp": _kelvin(mpmath.ber, mpmath.bei, 1),
    "beip": _kelvin(mpmath.bei, mpmath.ber, -1),
    "kerp": _kelvin(mpmath.ker, mpmath.kei, 1),
    "keip": _kelvin(mpmath.kei, mpmath.ker, -1),
    "itstruve0": _integral(lambda t: mpmath.struveh(0, t)),
    "itmodstruve0": _integral(lambda t: mpmath.struvel(0, t)),
    "it2struve0": _integral(lambda t: -mpmath.struveh(0, t) / t),
    "gammainc": _gammainc,
    "gammaincc": lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
    "betainc": lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
    "betaincc": lambda a, b, x: mpmath.betainc(a, b, x, 1, regularized=True),
    "owens_t": _owens_t,
    "airyaip": lambda x: mpmath.airyai(x, derivative=1),
    "airybip": lambda x: mpmath.airybi(x, derivative=1),
    "ellipsn": lambda u, m: mpmath.ellipfun("sn", u, m=m),
    "ellipcn": lambda u, m: mpmath.ellipfun("cn", u, m=m),
    "ellipdn": lambda u, m: mpmath.ellipfun("dn", u, m=m),
    "itairyai": _integral(mpmath.airyai),
    "itairybi": _integral(mpmath.airybi),
    "itairyain": _integral(lambda t: mpmath.airyai(-t)),
    "itairybin": _integral(lambda t: mpmath.airybi(-t)),
    # DLMF 10.22.2 and 10.43.2, at order 0
    "itj0": _by_struve(mpmath.besselj, mpmath.struveh, 1),
    "ity0": _by_struve(mpmath.bessely, mpmath.struveh, 1),
    "iti0": _by_struve(mpmath.besseli, mpmath.struvel, -1),
    "itk0": _by_struve(mpmath.besselk, mpmath.struvel, 1),
    "it2j0": _integral(lambda t: (1 - mpmath.besselj(0, t)) / t),
    "it2y0": lambda x: -2 / mp.pi * _log_series(x, -1),
    "it2i0": _integral(lambda t: (mpmath.besseli(0, t) - 1) / t),
    "it2k0": lambda x: -_log_series(x, 1),
    "parabolicv": lambda v, x: mpmath.pcfv(-v - mpmath.mpf(1) / 2, x),
    "parabolicvp": lambda v, x: mpmath.diff(lambda t: mpmath.pcfv(-v - mpmath.mpf(1) / 2, t), x),
    "parabolicwp": lambda a, x: mpmath.diff(lambda t: mpmath.pcfw(a, t), x),
    "lpmv": lambda m, v, x: mpmath.legenp(v, int(m), x),
    "chndtr": _chndtr,
    "wright_bessel": _wright_bessel,
    "tklmbda": lambda x, k: mpmath.findroot(lambda p: (p**k - (1 - p) ** k) / k - x, scipy_value("tklmbda", x, k)),
}  # fmt: skip
_MILLISECONDS = (
    "kv kve k0 k0e k1 k1e yv yve y0 y1 hankel1 hankel1e hankel2 hankel2e ker kei kerp keip owens_t lpmv chndtr parabolicw "
    "gammaincinv gammainccinv betaincinv betainccinv stdtrit"
)
SLOW = frozenset(n for n, f in NATIVE.items() if f.__qualname__.startswith("_integral")) | {*_MILLISECONDS.split()}

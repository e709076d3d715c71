"""Kinks and traps: first and second derivatives, every mode, spelling and backend, against the answers that are right."""

import math

import numpy as np
import pytest

import symdiff as sd

INF, PI = math.inf, math.pi


def naive_logistic(x):
    return 1 / (1 + np.exp(-x))


def naive_softplus(x):
    return np.log(1 + np.exp(x))


def stable_softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# name: function, point, first derivative, second derivative; a tuple lists answers that are equally right, None is not asked.
SCALARS = {
    "abs": (np.abs, 0.0, 0.0, 0.0),
    "fabs": (np.fabs, 0.0, 0.0, 0.0),
    "abs of a square": (lambda x: abs(x * x), 0.0, 0.0, (0.0, 2.0)),
    "square of abs": (lambda x: np.abs(x) ** 2, 0.0, 0.0, 2.0),
    "product of abs": (lambda x: np.abs(x) * np.abs(x), 0.0, 0.0, 2.0),
    "root of a square": (lambda x: np.sqrt(x**2), 0.0, 0.0, 0.0),
    "root of a product": (lambda x: np.sqrt(x * x), 0.0, 0.0, 0.0),
    "root of np.square": (lambda x: np.sqrt(np.square(x)), 0.0, 0.0, 0.0),
    "half power of a square": (lambda x: (x**2) ** 0.5, 0.0, 0.0, 0.0),
    "half power of np.power": (lambda x: np.power(np.power(x, 2), 0.5), 0.0, 0.0, 0.0),
    "root of a sum of squares": (lambda x: np.sqrt(x * x + (2 * x) ** 2), 0.0, 0.0, 0.0),
    "square of a root of a square": (lambda x: np.sqrt(x * x) ** 2, 0.0, 0.0, 2.0),
    "fourth power of a root of a square": (lambda x: np.sqrt(x * x) ** 4, 0.0, 0.0, 0.0),
    "square of a root": (lambda x: np.sqrt(x) ** 2, 0.0, 1.0, 0.0),
    "hypot with zero": (lambda x: np.hypot(x, 0.0), 0.0, 0.0, 0.0),
    "square of hypot": (lambda x: np.hypot(x, 2 * x) ** 2, 0.0, 0.0, 10.0),
    "root": (np.sqrt, 0.0, INF, None),
    "cube root": (np.cbrt, 0.0, INF, None),
    "root in a branch not taken": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0, 0.0),
    "root of a negative in a branch not taken": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), -1.0, 0.0, 0.0),
    "log in a branch not taken": (lambda x: np.where(x > 0, np.log(x), x), -1.0, 1.0, 0.0),
    "log of 0 in a branch not taken": (lambda x: np.where(x > 0, np.log(x), x), 0.0, 1.0, 0.0),
    "division in a branch not taken": (lambda x: np.where(x != 0, 1 / x, 0.0), 0.0, 0.0, 0.0),
    "arctan2 in a branch not taken": (lambda x: np.where(x > 0, np.arctan2(x, x), x), 0.0, 1.0, 0.0),
    "exp overflowing in a branch not taken": (lambda x: np.where(x < 1, np.exp(x), 1.0), 1000.0, 0.0, 0.0),
    "exp of exp in a branch not taken": (lambda x: np.where(x < 1, np.exp(np.exp(x)), x * x), 1000.0, 2000.0, 2.0),
    "infinity in a branch not taken": (lambda x: np.where(x > 0, x * np.inf, x), -1.0, 1.0, 0.0),
    "power in a branch not taken": (lambda x: np.where(x > 0, x**0.5, 0.0), -1.0, 0.0, 0.0),
    "a branch within a branch": (lambda x: np.where(x > 0, np.where(x > 1, np.sqrt(x - 1), 1 / x), x), 0.0, 1.0, 0.0),
    "a masked root under a sine": (lambda x: np.sin(np.where(x > 0, np.sqrt(x), x)), 0.0, 1.0, 0.0),
    "power 0": (lambda x: x**0, 0.0, 0.0, 0.0),
    "power 1": (lambda x: x**1, 0.0, 1.0, 0.0),
    "power 1.0": (lambda x: x**1.0, 0.0, 1.0, 0.0),
    "power 2": (lambda x: x**2, 0.0, 0.0, 2.0),
    "power 2.0 of a negative": (lambda x: x**2.0, -3.0, -6.0, 2.0),
    "power 3 of a negative": (lambda x: x**3, -2.0, 12.0, -12.0),
    "power -1 of a negative": (lambda x: x**-1, -2.0, -0.25, -0.25),
    "power 0.5": (lambda x: x**0.5, 0.0, INF, None),
    "power 1.5": (lambda x: x**1.5, 0.0, 0.0, INF),
    "power 2.5": (lambda x: x**2.5, 0.0, 0.0, 0.0),
    "power of 0": (lambda x: 0.0**x, 2.0, 0.0, 0.0),
    "power of a constant": (lambda x: 2.0**x, 0.0, math.log(2), math.log(2) ** 2),
    "x**x": (lambda x: x**x, 1.0, 1.0, 2.0),
    "x log x in a branch": (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0, 0.0, 0.0),
    "sinc": (np.sinc, 0.0, 0.0, -(PI**2) / 3),
    "sinc near 0": (np.sinc, 1e-9, -(PI**2) / 3 * 1e-9, -(PI**2) / 3),
    "sinc a little off 0": (np.sinc, 1e-3, -0.00328986488672789632, -3.28985839279307203),
    "sinc at 0.1": (np.sinc, 0.1, -0.32575126788312397, -3.19302983596485383),
    "sinc at 1": (np.sinc, 1.0, -1.0, 2.0),
    "sin(x)/x in a branch": (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 0.0, 0.0, (0.0, -1 / 3)),
    "sin(x)/x with a safe divisor": (
        lambda x: np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1.0, x)), 0.0, 0.0, (0.0, -1 / 3),
    ),
    "expm1(x)/x in a branch": (lambda x: np.where(x != 0, np.expm1(x) / x, 1.0), 0.0, 0.0, 0.0),
    "naive logistic at -800": (naive_logistic, -800.0, 0.0, 0.0),
    "naive logistic at 800": (naive_logistic, 800.0, 0.0, 0.0),
    "naive logistic at -400": (naive_logistic, -400.0, math.exp(-400), math.exp(-400)),
    "naive logistic at 30": (naive_logistic, 30.0, 9.3576229688384233e-14, -9.3576229688366720e-14),
    "naive logistic the other way": (lambda x: 1 - 1 / (1 + np.exp(x)), 800.0, 0.0, 0.0),
    "logistic growth": (lambda x: 3 / (1 + 2 * np.exp(-x)), -800.0, 0.0, 0.0),
    "logistic power": (lambda x: (1 + np.exp(-x)) ** -1, -800.0, 0.0, 0.0),
    "tanh by exponentials": (lambda x: 1 - 2 / (np.exp(2 * x) + 1), 800.0, 0.0, 0.0),
    "1/cosh": (lambda x: 1 / np.cosh(x), 800.0, 0.0, 0.0),
    "Gompertz": (lambda x: np.exp(-np.exp(x)), 800.0, 0.0, 0.0),
    "arctan of exp": (lambda x: np.arctan(np.exp(x)), 800.0, 0.0, 0.0),
    "tanh of exp": (lambda x: np.tanh(np.exp(x)), 800.0, 0.0, 0.0),
    "naive softplus at 800": (naive_softplus, 800.0, 1.0, 0.0),
    "naive softplus at -800": (naive_softplus, -800.0, 0.0, 0.0),
    "naive softplus at -40": (naive_softplus, -40.0, 4.2483542552915889773e-18, 4.2483542552915889592e-18),
    "naive softplus by log1p": (lambda x: np.log1p(np.exp(x)), 800.0, 1.0, 0.0),
    "naive log-sigmoid": (lambda x: -np.log(1 + np.exp(-x)), -800.0, 1.0, 0.0),
    "stable softplus": (stable_softplus, 0.0, 0.5, (0.0, 0.25)),
    "stable softplus at 800": (stable_softplus, 800.0, 1.0, 0.0),
    "stable softplus at -800": (stable_softplus, -800.0, 0.0, 0.0),
    "logaddexp with 0": (lambda x: np.logaddexp(x, 0), 0.0, 0.5, 0.25),
    "logaddexp at inf": (lambda x: np.logaddexp(x, 0.0), INF, 1.0, 0.0),
    "logaddexp at -inf": (lambda x: np.logaddexp(x, 0.0), -INF, 0.0, 0.0),
    "logaddexp of infinities": (lambda x: np.logaddexp(x, x), -INF, 1.0, 0.0),
    "arctan2 at the origin": (lambda x: np.arctan2(x, 0.0 * x), 0.0, 0.0, 0.0),
    "arctan2 of tiny numbers": (lambda x: np.arctan2(x, 1e-200), 1e-200, 0.5e200, None),
    "arctan2 of huge numbers": (lambda x: np.arctan2(x, 1e200), 1e200, 0.5e-200, None),
    "hypot of huge numbers": (lambda x: np.hypot(x, 1e200), 1e200, math.sqrt(0.5), None),
    "arcsin near 1": (np.arcsin, 1 - 2.0**-40, 741455.20018963384434, None),
    "arccos near 1": (np.arccos, 1 - 2.0**-40, -741455.20018963384434, None),
    "arctanh near 1": (np.arctanh, 1 - 2.0**-40, 549755813888.25, None),
    "arcsin at 1": (np.arcsin, 1.0, INF, None),
    "maximum": (lambda x: np.maximum(x, 0), 0.0, 0.5, 0.0),
    "maximum at NaN": (lambda x: np.maximum(x, 0), math.nan, math.nan, None),
    "minimum at NaN": (lambda x: np.minimum(x, 0), math.nan, math.nan, None),
    "maximum at inf": (lambda x: np.maximum(x, 0), INF, 1.0, 0.0),
    "maximum of infinities": (lambda x: np.maximum(x, np.inf), INF, 0.5, 0.0),
    "fmax at NaN": (lambda x: np.fmax(x, 1.0), math.nan, 0.0, 0.0),
    "fmin with NaN": (lambda x: np.fmin(x, np.nan), 2.0, 1.0, 0.0),
    "relu by where": (lambda x: np.where(x > 0, x, 0), 0.0, 0.0, 0.0),
    "relu by maximum, the other way": (lambda x: np.maximum(0, x), 0.0, 0.5, 0.0),
    "relu by product": (lambda x: x * (x > 0), 0.0, 0.0, 0.0),
    "clip at its lower bound": (lambda x: np.clip(x, 0, 1), 0.0, 0.5, 0.0),
    "clip at its upper bound": (lambda x: np.clip(x, 0, 1), 1.0, 0.5, 0.0),
    "clip outside": (lambda x: np.clip(x, 0, 1), 2.0, 0.0, 0.0),
    "clip at NaN": (lambda x: np.clip(x, 0, 1), math.nan, math.nan, None),
    "floor at a jump": (np.floor, 2.0, 0.0, 0.0),
    "ceil at a jump": (np.ceil, 2.0, 0.0, 0.0),
    "rint at a jump": (np.rint, 2.5, 0.0, 0.0),
    "sign at its jump": (np.sign, 0.0, 0.0, 0.0),
    "mod at a jump": (lambda x: np.mod(x, 2.0), 4.0, 1.0, 0.0),
    "mod by x": (lambda x: np.mod(7.0, x), 2.0, -3.0, 0.0),
    "fmod at a jump": (lambda x: np.fmod(x, 2.0), 4.0, 1.0, 0.0),
    "heaviside at 0": (lambda x: np.heaviside(x, 0.5), 0.0, 0.0, 0.0),
    "copysign at 0": (lambda x: np.copysign(x, 1.0), 0.0, 0.0, 0.0),
}  # fmt: skip

BACKENDS = ["numpy", "python", "native", "exact numpy", "exact python"]


def options_of(backend):
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite")
    return {"backend": backend.split()[-1], "exact": backend.startswith("exact")}


def check(found, expected, rtol=1e-12):
    for answer in expected if isinstance(expected, tuple) else (expected,):
        if np.allclose(found, answer, rtol=rtol, atol=0.0, equal_nan=True):
            return
    raise AssertionError(f"{found}, not {expected}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SCALARS)
def test_a_number(name, backend):
    f, x, first, second = SCALARS[name]
    options = options_of(backend)
    check(sd.grad(f, **options)(x), first)
    check(sd.jvp(f, **options)(x, 1.0)[1], first)
    if second is None:
        return
    check(sd.grad(sd.grad(f), **options)(x), second)
    check(sd.jvp(sd.grad(f), **options)(x, 1.0)[1], second)
    check(sd.grad(lambda x: sd.jvp(f)(x, 1.0)[1], **options)(x), second)
    check(sd.jvp(lambda x: sd.jvp(f)(x, 1.0)[1], **options)(x, 1.0)[1], second)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", SCALARS)
def test_an_array(name, exact):
    f, x, first, second = SCALARS[name]
    options = {"scalarize": False, "exact": exact}
    points = np.full((2, 3), x)

    def total(x):
        return np.sum(f(x))

    check(sd.grad(total, **options)(points), first)
    check(sd.jvp(f, **options)(points, np.ones_like(points))[1], first)
    check(sd.vmap(sd.grad(f), exact=exact)(points[0]), first)
    if second is None:
        return
    check(sd.hvp(total, **options)(points, np.ones_like(points)), second)
    check(sd.grad(lambda x: np.sum(sd.grad(total)(x)), **options)(points), second)
    check(sd.vmap(sd.grad(sd.grad(f)), exact=exact)(points[0]), second)

"""Kinks and traps: first and second derivatives, every mode, spelling and backend, against the answers that are right."""

import math

import numpy as np
import pytest
from trap_checks import BACKENDS, MODES, check_array, check_elementwise, check_number

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
    "a root whose argument has slope 0": (lambda x: np.sqrt(1 - x**2), 0.0, 0.0, -1.0),
    "an inverse sine of slope 0": (lambda x: np.arcsin(x * x), 0.0, 0.0, 2.0),
    "a power whose base has slope 0": (lambda x: (1 - x**2) ** x, 0.0, 0.0, 0.0),
    "x log x in a branch": (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0, 0.0, 0.0),
    "sinc": (np.sinc, 0.0, 0.0, -(PI**2) / 3),
    "sinc near 0": (np.sinc, 1e-9, -(PI**2) / 3 * 1e-9, -(PI**2) / 3),
    "sinc a little off 0": (np.sinc, 1e-3, -0.00328986488672789632, -3.28985839279307203),
    "sinc at 0.1": (np.sinc, 0.1, -0.32575126788312397, -3.19302983596485383),
    "sinc at 1": (np.sinc, 1.0, -1.0, 2.0),
    "sin(x)/x in a branch": (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 0.0, 0.0, -1 / 3),
    "sin(x)/x with a safe divisor": (
        lambda x: np.where(x == 0, 1.0, np.sin(x) / np.where(x == 0, 1.0, x)), 0.0, 0.0, -1 / 3,
    ),
    "expm1(x)/x in a branch": (lambda x: np.where(x != 0, np.expm1(x) / x, 1.0), 0.0, 0.5, 1 / 3),
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
    "stable softplus": (stable_softplus, 0.0, 0.5, 0.25),
    "stable softplus at 800": (stable_softplus, 800.0, 1.0, 0.0),
    "stable softplus at -800": (stable_softplus, -800.0, 0.0, 0.0),
    "logaddexp with 0": (lambda x: np.logaddexp(x, 0), 0.0, 0.5, 0.25),
    "logaddexp at inf": (lambda x: np.logaddexp(x, 0.0), INF, 1.0, 0.0),
    "logaddexp at -inf": (lambda x: np.logaddexp(x, 0.0), -INF, 0.0, 0.0),
    "logaddexp of infinities": (lambda x: np.logaddexp(x, x), -INF, 1.0, 0.0),
    "arctan2 at the origin": (lambda x: np.arctan2(x, 0.0 * x), 0.0, math.nan, math.nan),
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
    "log passed over by maximum": (lambda x: np.maximum(1, np.log(x)), 0.0, 0.0, 0.0),
    "log passed over by fmax": (lambda x: np.fmax(np.log(x), 1), 0.0, 0.0, 0.0),
    "log of a negative passed over by fmax": (lambda x: np.fmax(np.log(x), x), -1.0, 1.0, 0.0),
    "quotient passed over by minimum": (lambda x: np.minimum(1 / x, x), 0.0, 1.0, 0.0),
    "quotient passed over by fmin": (lambda x: np.fmin(x, 1 / x), 0.0, 1.0, 0.0),
    "exp passed over by minimum": (lambda x: np.minimum(x * x, np.exp(x * x)), 800.0, 1600.0, 2.0),
    "root passed over by clip": (lambda x: np.clip(np.sqrt(x), 1, 2), 0.0, 0.0, 0.0),
    "a tie behind a log": (lambda x: np.maximum(np.log(x), 0), 1.0, 0.5, -0.5),
    "NaN behind a log": (lambda x: np.maximum(np.log(x), 0), math.nan, math.nan, None),
    "log of what a branch holds at 0": (lambda x: np.log(np.where(x > 0, x, 0.0)), -1.0, 0.0, 0.0),
    "log of what maximum holds at 0": (lambda x: np.log(np.maximum(x, 0)), -1.0, 0.0, 0.0),
    "quotient by what fmax holds at 0": (lambda x: 1 / np.fmax(0.0, x), -1.0, 0.0, 0.0),
    "log of what clip holds at 1": (lambda x: np.log(1 - np.clip(x, 0, 1)), 2.0, 0.0, 0.0),
    "root of what maximum holds at 0": (lambda x: np.sqrt(np.maximum(x, 0)), -1.0, 0.0, 0.0),
    "root of what a branch holds at 0": (lambda x: np.sqrt(np.where(x > 0, x, 0.0)), -1.0, 0.0, 0.0),
    "root of what clip holds at 0": (lambda x: np.sqrt(3 * np.clip(x, 0, 1)), -1.0, 0.0, 0.0),
    "cube root of what fmax holds at 0": (lambda x: np.cbrt(np.fmax(x, 0.0)), -1.0, 0.0, 0.0),
    "arccos of what clip holds at 1": (lambda x: np.arccos(np.clip(x, -1, 1)), 2.0, 0.0, 0.0),
    "root of exp that underflows": (lambda x: np.sqrt(np.exp(-x * x)), 40.0, 0.0, 0.0),
    "cusp": (lambda x: np.cbrt(x * x), 0.0, math.nan, None),
    "log of a sum of branches": (
        lambda x: np.log(np.where(x > 0, x, 0.0) + np.where(x > 1, x * x, 0.0)), -1.0, 0.0, 0.0,
    ),
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SCALARS)
def test_a_number(name, backend):
    check_number(*SCALARS[name], backend)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", SCALARS)
def test_an_array(name, exact):
    check_elementwise(*SCALARS[name], exact)


ONES, ZEROS = np.ones(3), np.zeros(3)
EYE, NONE, UNKNOWN = np.eye(3), np.zeros((3, 3)), np.full((3, 3), math.nan)
PLANE = np.pad(np.full((2, 2), math.nan), (0, 1))
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
TIED = np.array([2.0, 1.0, 2.0])


def product_hessian(x):
    """The second partials of a product."""
    n = len(x)
    return np.array([[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)])


def det_hessian(x):
    """The second partials of a determinant of order 2."""
    signs = np.zeros((2, 2, 2, 2))
    signs[0, 0, 1, 1] = signs[1, 1, 0, 0] = 1
    signs[0, 1, 1, 0] = signs[1, 0, 0, 1] = -1
    return signs


# name: function, point, gradient, Hessian (None is not asked).
ARRAYS = {
    "norm": (np.linalg.norm, ZEROS, ZEROS, UNKNOWN),
    "norm of tiny numbers": (np.linalg.norm, ONES * 1e-200, ZEROS, None),
    "norm by a product": (lambda x: np.sqrt(x @ x), ZEROS, ZEROS, UNKNOWN),
    "norm by a sum": (lambda x: np.sqrt(np.sum(x**2)), ZEROS, ZEROS, UNKNOWN),
    "norm by a half power": (lambda x: np.sum(x * x) ** 0.5, ZEROS, ZEROS, UNKNOWN),
    "norm by a loop": (lambda x: np.sqrt(x[0] * x[0] + x[1] * x[1] + x[2] ** 2), ZEROS, ZEROS, UNKNOWN),
    "norm by dot": (lambda x: np.sqrt(x.dot(x)), ZEROS, ZEROS, UNKNOWN),
    "norm by einsum": (lambda x: np.sqrt(np.einsum("i,i", x, x)), ZEROS, ZEROS, UNKNOWN),
    "norm by inner": (lambda x: np.sqrt(np.inner(x, x)), ZEROS, ZEROS, UNKNOWN),
    "norm by vdot": (lambda x: np.sqrt(np.vdot(x, x)), ZEROS, ZEROS, UNKNOWN),
    "norm of a linear map": (lambda x: np.linalg.norm(np.arange(9.0).reshape(3, 3) @ x), ZEROS, ZEROS, UNKNOWN),
    "square of a norm": (lambda x: np.linalg.norm(x) ** 2, ZEROS, ZEROS, 2 * EYE),
    "square of a root of a product": (lambda x: np.sqrt(x @ x) ** 2, ZEROS, ZEROS, 2 * EYE),
    "fourth power of a norm": (lambda x: np.linalg.norm(x) ** 4, ZEROS, ZEROS, NONE),
    "norm of order 1": (lambda x: np.linalg.norm(x, 1), ZEROS, ZEROS, NONE),
    "norm of order 3": (lambda x: np.linalg.norm(x, 3), ZEROS, ZEROS, None),
    "norm of order inf": (lambda x: np.linalg.norm(x, np.inf), TIED, np.array([0.5, 0.0, 0.5]), NONE),
    "norms of rows": (lambda x: np.sum(np.linalg.norm(np.outer(np.arange(2.0), x), axis=1)), ZEROS, ZEROS, UNKNOWN),
    "hypot at the origin": (lambda x: np.hypot(x[0], x[1]), ZEROS, ZEROS, PLANE),
    "arctan2 at the origin": (lambda x: np.arctan2(x[0], x[1]), ZEROS, PLANE[0], PLANE),
    "max": (np.max, TIED, np.array([0.5, 0.0, 0.5]), NONE),
    "max of equal numbers": (np.max, ONES, ONES / 3, NONE),
    "min": (lambda x: np.min(-x), TIED, np.array([-0.5, 0.0, -0.5]), NONE),
    "max at NaN": (np.max, np.array([1.0, math.nan, 2.0]), np.full(3, math.nan), None),
    "max of logs": (
        lambda x: np.max(np.log(x)),
        np.array([0.0, 2.0, 2.0]),
        np.array([0.0, 0.25, 0.25]),
        np.diag([0, -1, -1]) / 8,
    ),
    "min of quotients": (
        lambda x: np.min(1 / x),
        np.array([0.0, 2.0, 1.0]),
        np.array([0.0, -0.25, 0.0]),
        np.diag([0, 0.25, 0]),
    ),
    "max of logs at NaN": (lambda x: np.max(np.log(x)), np.array([1.0, math.nan, 2.0]), np.full(3, math.nan), None),
    "maximum of cells": (lambda x: np.maximum(x[0], x[2]), TIED, np.array([0.5, 0.0, 0.5]), NONE),
    "sorted": (
        lambda x: np.sort(x) @ np.array([1.0, 10.0, 100.0]),
        TIED,
        (np.array([10.0, 1.0, 100.0]), np.array([100.0, 1.0, 10.0])),
        NONE,
    ),
    "median": (
        np.median,
        np.array([1.0, 3.0, 1.0]),
        (np.array([1.0, 0, 0]), np.array([0, 0, 1.0]), np.array([0.5, 0, 0.5])),
        NONE,
    ),
    "prod with a zero": (
        np.prod,
        np.array([2.0, 0.0, 3.0]),
        np.array([0.0, 6.0, 0.0]),
        product_hessian(np.array([2.0, 0.0, 3.0])),
    ),
    "prod with two zeros": (np.prod, np.array([0.0, 0.0, 3.0]), ZEROS, product_hessian(np.array([0.0, 0.0, 3.0]))),
    "last cumprod": (
        lambda x: np.cumprod(x)[-1],
        np.array([2.0, 0.0, 3.0]),
        np.array([0.0, 6.0, 0.0]),
        product_hessian(np.array([2.0, 0.0, 3.0])),
    ),
    "cumprod with two zeros": (
        lambda x: np.sum(np.cumprod(x)),
        np.array([0.0, 0.0, 3.0]),
        np.array([1.0, 0.0, 0.0]),
        np.array([[0.0, 4.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    ),
    "std of equal numbers": (np.std, ONES, ZEROS, UNKNOWN),
    "var of equal numbers": (np.var, ONES, ZEROS, 2 / 3 * (EYE - 1 / 3)),
    "square of a std": (lambda x: np.std(x) ** 2, ONES, ZEROS, 2 / 3 * (EYE - 1 / 3)),
    "logsumexp at -inf": (sd.special.logsumexp, np.full(3, -INF), ONES / 3, None),
    "logsumexp at inf": (sd.special.logsumexp, np.array([INF, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), None),
    "logsumexp of infinities": (sd.special.logsumexp, np.array([INF, 0.0, INF]), np.array([0.5, 0.0, 0.5]), None),
    "logsumexp with -inf": (sd.special.logsumexp, np.array([-INF, 0.0, 0.0]), np.array([0.0, 0.5, 0.5]), None),
    "logsumexp by hand": (lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x), ONES * 800, ONES / 3, None),
    "logaddexp.reduce by a loop": (
        lambda x: np.logaddexp(np.logaddexp(x[0], x[1]), x[2]),
        np.full(3, -INF),
        np.array([0.25, 0.25, 0.5]),
        None,
    ),
    "softmax by hand": (
        lambda x: np.exp(x[0] - np.max(x)) / np.sum(np.exp(x - np.max(x))),
        ONES * 800,
        np.array([2.0, -1.0, -1.0]) / 9,
        None,
    ),
    "roots under a mask": (
        lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)),
        np.array([0.0, 1.0, -1.0]),
        np.array([0.0, 0.5, 0.0]),
        np.diag([0, -0.25, 0]),
    ),
    "roots summed, then masked": (
        lambda x: np.where(x[2] > 0, np.sum(np.sqrt(x)), 0.0),
        np.array([0.0, 1.0, -1.0]),
        ZEROS,
        NONE,
    ),
    "roots added up, then masked": (
        lambda x: np.sum(np.where(x > 1, np.cumsum(np.sqrt(x)), 0.0)),
        np.array([4.0, 1.0, 0.0]),
        np.array([0.25, 0.0, 0.0]),
        np.diag([-1 / 32, 0, 0]),
    ),
    "logs added up, then masked": (
        lambda x: np.sum(np.where(x > 1, np.cumsum(np.log(x)), 0.0)),
        np.array([4.0, 1.0, 0.0]),
        np.array([0.25, 0.0, 0.0]),
        np.diag([-1 / 16, 0, 0]),
    ),
    "a number under a mask": (lambda x: np.sum(np.where(np.arange(3) > 5, np.sqrt(x[0]), x)), ZEROS, ONES, NONE),
    "det of a singular matrix": (np.linalg.det, SINGULAR, np.array([[4.0, -2.0], [-2.0, 1.0]]), det_hessian(SINGULAR)),
    "det of zero": (np.linalg.det, np.zeros((2, 2)), np.zeros((2, 2)), det_hessian(SINGULAR)),
    "slogdet nearly singular": (lambda x: np.linalg.slogdet(x)[1], np.diag([1.0, 1e-200]), np.diag([1.0, 1e200]), None),
    "naive softplus summed": (
        lambda x: np.sum(np.log(1 + np.exp(x))),
        np.array([800.0, -800.0, 0.0]),
        np.array([1.0, 0.0, 0.5]),
        np.diag([0, 0, 0.25]),
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_function_of_an_array(name, mode):
    if mode == "native" and name in ("sorted", "median"):
        pytest.skip("sorting takes whole arrays")
    if "det" in name and not mode.startswith("whole"):
        if mode != "unrolled":
            pytest.skip("determinants are of whole arrays")
        mode = "auto"
    check_array(*ARRAYS[name], mode)


def test_the_derivative_of_an_infinite_slogdet_is_not_finite():
    gradient = sd.grad(lambda x: np.linalg.slogdet(x)[1])
    stack = np.array([np.diag([1.0, 0.0]), np.eye(2)])
    assert gradient(stack[0])[1, 1] == INF
    both = sd.vmap(gradient)(stack)
    assert both[0, 1, 1] == INF
    np.testing.assert_array_equal(both[1], np.eye(2))


def test_third_derivatives_of_determinants():
    matrix = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, -0.4], [0.6, 0.1, 1.1]])
    for of in (np.linalg.det, lambda x: np.linalg.slogdet(x)[1]):
        sd.check_grads(lambda x, of=of: np.sum(np.sin(sd.grad(of)(x))), (matrix,))


def test_a_number_under_a_power():
    slopes = sd.grad(lambda x, y: x**y, argnums=(0, 1))
    for x, y, by_x, by_y in (
        (0.0, 0.0, 0.0, -INF), (0.0, 1.0, 1.0, 0.0), (0.0, 2.0, 0.0, 0.0), (0.0, 0.5, INF, 0.0),
        (2.0, 0.0, 0.0, math.log(2)), (-2.0, 3.0, 12.0, math.nan), (-2.0, 0.0, 0.0, math.nan),
    ):  # fmt: skip
        np.testing.assert_allclose(slopes(x, y), (by_x, by_y))
    for n, slope in ((0, 0.0), (1, 1.0), (2, 0.0), (3, 0.0)):
        assert sd.grad(lambda x, n: x**n)(0.0, n) == slope
        assert sd.grad(lambda x, n=n: x ** np.array([n, 1.0])[0])(0.0) == slope
    assert sd.grad(lambda x, y: x**y, argnums=0)(-2.0, 3.0) == 12.0
    hessian = sd.hessian(lambda x: x[0] ** x[1])
    np.testing.assert_allclose(hessian(np.array([3.0, 0.0])), [[0.0, 1 / 3], [1 / 3, math.log(3) ** 2]], atol=1e-15)


def test_xlogy_at_zero():
    pytest.importorskip("scipy", reason="xlogy is SciPy's")
    from scipy.special import xlogy

    for f in (xlogy, sd.special.xlogy):
        assert sd.grad(lambda y, f=f: f(0.0, y))(0.0) == 0.0
        assert sd.grad(lambda y, f=f: f(0.0, y))(2.0) == 0.0
        assert sd.grad(lambda x, f=f: f(x, 2.0))(0.0) == math.log(2)
        assert sd.grad(lambda x, f=f: f(x, x))(0.0) == -INF
    assert sd.grad(sd.special.xlogx)(0.0) == -INF


@pytest.mark.parametrize("f", [lambda x: np.sin(x) / x, lambda x: np.expm1(x) / x])
def test_quotients_near_their_gap(f):
    """The user's formula cancels there; the derivative loses no more than the step of the formula itself."""
    for x in (1e-3, 1e-5, 1e-7):
        exact = -x / 3 if f(1.0) < 1 else 0.5 + x / 3
        assert sd.grad(f)(x) == pytest.approx(exact, abs=4 * 2.0**-52 / x + x**2)


def test_single_precision_keeps_the_answers():
    for name, (f, x, first, _) in SCALARS.items():
        if isinstance(first, tuple) or not -1e30 < x < 1e30 or 0 < abs(x) < 1e-30 or "near 1" in name or "at -400" in name:
            continue
        found = sd.grad(f)(np.float32(x))
        assert found.dtype == np.float32, name
        np.testing.assert_allclose(found, np.float32(first), rtol=1e-5, atol=1e-37, err_msg=name)

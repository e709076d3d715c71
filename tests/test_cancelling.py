"""Kinks that cancel, roots that vanish and exponentials that overflow on the way to a finite slope, in every spelling."""

import math

import mpmath
import numpy as np
import pytest
import scipy.special
from trap_checks import MODES, check_array, check_elementwise, check_number

import symdiff as sd

INF = math.inf
exp, log, norm = np.exp, np.log, np.linalg.norm


def logistic(x):
    return 1 / (1 + exp(-x))


def other_logistic(x):
    return exp(x) / (1 + exp(x))


def tanh(x):
    return (exp(x) - exp(-x)) / (exp(x) + exp(-x))


def cross_entropy(x):
    return -(0.25 * log(logistic(x)) + 0.75 * log(1 - logistic(x)))


# name: function, point, first derivative, second derivative; a tuple lists answers that are equally right, None is not asked.
SCALARS = {
    "stable softplus by fabs": (lambda x: log(1 + exp(-np.fabs(x))) + np.maximum(0, x), 0.0, 0.5, 0.25),
    "stable softplus by max(x, -x)": (lambda x: np.maximum(x, 0) + np.log1p(exp(-np.maximum(x, -x))), 0.0, 0.5, 0.25),
    "stable softplus by min(x, -x)": (lambda x: np.maximum(x, 0) + np.log1p(exp(np.minimum(x, -x))), 0.0, 0.5, 0.25),
    "stable softplus by a root": (lambda x: np.maximum(x, 0) + np.log1p(exp(-np.sqrt(x * x))), 0.0, 0.5, 0.25),
    "stable softplus by a mean": (lambda x: (x + abs(x)) / 2 + np.log1p(exp(-abs(x))), 0.0, 0.5, 0.25),
    "stable softplus by where": (lambda x: np.where(x > 0, x + np.log1p(exp(-x)), np.log1p(exp(x))), 0.0, 0.5, 0.25),
    "stable softplus by two where": (lambda x: np.where(x > 0, x, 0) + log(1 + exp(-np.where(x > 0, x, -x))), 0.0, 0.5, 0.25),
    "two kinds of abs": (lambda x: np.cos(abs(1 - x)) * np.cos(np.fabs(2 * x - 2)), 1.0, 0.0, -5.0),
    "logaddexp of x and -x": (lambda x: np.logaddexp(x, -x), 0.0, 0.0, 1.0),
    "cosine of abs": (lambda x: np.cos(abs(x)), 0.0, 0.0, -1.0),
    "sign times abs": (lambda x: np.sign(x) * abs(x), 0.0, 1.0, 0.0),
    "softsign": (lambda x: x / (1 + abs(x)), 0.0, 1.0, 0.0),
    "abs of multiples": (lambda x: abs(2 * x) * abs(-x), 0.0, 0.0, 4.0),
    "abs of opposite differences": (lambda x: abs(1 - x) * abs(x - 1), 1.0, 0.0, 2.0),
    "square of a scaled abs": (lambda x: (-abs(x) / 2 * 3) ** 2, 0.0, 0.0, 4.5),
    "two roots of a square": (lambda x: np.sqrt(x**2) * np.sqrt(x * x), 0.0, 0.0, 2.0),
    "a root and an abs": (lambda x: np.sqrt(x**2) * 3 * abs(x), 0.0, 0.0, 6.0),
    "half powers": (lambda x: x**0.5 * x**0.5, 0.0, 1.0, 0.0),
    "cube of a cube root": (lambda x: np.cbrt(x) ** 3, 0.0, 1.0, 0.0),
    "power of a power": (lambda x: (x**0.25) ** 8, 0.0, 0.0, 2.0),
    "cube of a root": (lambda x: np.sqrt(x) ** 3, 0.0, 0.0, None),
    "x sqrt(x)": (lambda x: x * np.sqrt(x), 0.0, 0.0, None),
    "x x sqrt(x)": (lambda x: x * (x * np.sqrt(x)), 0.0, 0.0, 0.0),
    "x cbrt(x)": (lambda x: x * np.cbrt(x), 0.0, 0.0, None),
    "sine times root": (lambda x: np.sin(x) * np.sqrt(x), 0.0, 0.0, None),
    "root of a product": (lambda x: (1 - x) * np.sqrt(1 - x * x), 1.0, 0.0, None),
    "arccos times what vanishes": (lambda x: (1 - x) * np.arccos(x), 1.0, 0.0, None),
    "root beside zero": (lambda x: x * np.sqrt(x + 1), 0.0, 1.0, 1.0),
    "root and a factor that stays": (lambda x: (1 + x) * np.sqrt(x), 0.0, INF, None),
    "tanh by exponentials at 800": (tanh, 800.0, 0.0, 0.0),
    "tanh by exponentials at -800": (tanh, -800.0, 0.0, 0.0),
    "tanh by exponentials at 0": (tanh, 0.0, 1.0, 0.0),
    "tanh by squares at 800": (lambda x: (exp(2 * x) - 1) / (exp(2 * x) + 1), 800.0, 0.0, 0.0),
    "sinh over cosh": (lambda x: np.sinh(x) / np.cosh(x), 800.0, 0.0, 0.0),
    "cosh over sinh": (lambda x: np.cosh(x) / np.sinh(x), -800.0, 0.0, 0.0),
    "logistic by a quotient at 800": (other_logistic, 800.0, 0.0, 0.0),
    "logistic by a quotient at -800": (other_logistic, -800.0, 0.0, 0.0),
    "logistic density": (lambda x: exp(-x) / (1 + exp(-x)) ** 2, -800.0, 0.0, 0.0),
    "log of 1 - logistic at 800": (lambda x: log(1 - logistic(x)), 800.0, -1.0, 0.0),
    "log of 1 - logistic at -800": (lambda x: log(1 - logistic(x)), -800.0, 0.0, 0.0),
    "log of 1 - logistic at 40": (lambda x: log(1 - logistic(x)), 40.0, -1.0, -4.24835425529158895e-18),
    "log of 1 - logistic by a quotient": (lambda x: log(1 - other_logistic(x)), 800.0, -1.0, 0.0),
    "log of a logistic by a quotient": (lambda x: log(other_logistic(x)), -800.0, 1.0, 0.0),
    "cross entropy at 800": (cross_entropy, 800.0, 0.75, 0.0),
    "cross entropy at -800": (cross_entropy, -800.0, -0.25, 0.0),
    "log cosh": (lambda x: log(np.cosh(x)), -800.0, -1.0, 0.0),
    "log sinh": (lambda x: np.log2(np.sinh(x)), 800.0, 1 / math.log(2), 0.0),
    "log expm1": (lambda x: log(np.expm1(x)), 800.0, 1.0, 0.0),
    "log cosh by exponentials": (lambda x: log((exp(x) + exp(-x)) / 2), -800.0, -1.0, 0.0),
    "log10 of a sum": (lambda x: np.log10(exp(x) + exp(2 * x)), 800.0, 2 / math.log(10), 0.0),
    "log1p of a sum": (lambda x: np.log1p(exp(x) + exp(-x)), 800.0, 1.0, 0.0),
    "softplus to the base 2": (lambda x: log(1 + 2.0**x), 2000.0, math.log(2), 0.0),
    "logistic to the base e": (lambda x: 1 / (1 + math.e ** (-x)), -2000.0, 0.0, 0.0),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("name", SCALARS)
def test_a_number(name, backend):
    check_number(*SCALARS[name], backend)


@pytest.mark.parametrize("name", SCALARS)
def test_an_array(name):
    check_elementwise(*SCALARS[name], False)


def test_single_precision():
    for name, (f, x, first, second) in SCALARS.items():
        found = sd.grad(f)(np.float32(x))
        assert found.dtype == np.float32, name
        np.testing.assert_allclose(found, np.float32(first), rtol=1e-5, atol=1e-30, err_msg=name)
        if second is not None and x == 0.0:
            np.testing.assert_allclose(sd.grad(sd.grad(f))(np.float32(x)), second, rtol=1e-4, atol=1e-6, err_msg=name)


def softmax(x):
    return exp(x) / np.sum(exp(x))


def shares(x):
    """The softmax and its Jacobian."""
    p = exp(x - np.max(x)) / np.sum(exp(x - np.max(x)))
    return p, np.diag(p) - np.outer(p, p)


ZEROS, EYE = np.zeros(2), np.eye(2)
HIGH, LOW = np.array([800.0, 801.0, 0.0]), np.array([-800.0, -801.0, -900.0])
TOP, SLOPES = shares(HIGH)
BOTTOM, BENDS = shares(LOW)
FIRST = np.eye(3)[0]
# name: function, point, gradient, Hessian (None is not asked).
ARRAYS = {
    "norm times norm": (lambda x: norm(x) * norm(x), ZEROS, ZEROS, 2 * EYE),
    "norm and root": (lambda x: norm(x) * np.sqrt(x @ x), ZEROS, ZEROS, 2 * EYE),
    "norms apart": (lambda x: 3 * norm(x) * x[0] * norm(x) / 2, ZEROS, ZEROS, np.zeros((2, 2))),
    "square of a scaled norm": (lambda x: (-norm(x) / 2) ** 2, ZEROS, ZEROS, EYE / 2),
    "exp of norms": (lambda x: exp(-norm(x) * norm(x)), ZEROS, ZEROS, -2 * EYE),
    "hypot times hypot": (lambda x: np.hypot(x[0], x[1]) * np.hypot(x[1], x[0]), ZEROS, ZEROS, 2 * EYE),
    "hypot of three": (lambda x: math.hypot(x[0], x[1], x[0]) ** 2, ZEROS, ZEROS, np.diag([4.0, 2.0])),
    "std times std": (lambda x: np.std(x) * np.std(x), np.ones(2), ZEROS, np.array([[0.5, -0.5], [-0.5, 0.5]])),
    "abs in a sum": (lambda x: np.sum(np.cos(abs(x))), ZEROS, ZEROS, -EYE),
    "log of a sum of exponentials": (lambda x: log(np.sum(exp(x))), HIGH, TOP, SLOPES),
    "log of a small sum": (lambda x: log(np.sum(exp(x))), LOW, BOTTOM, BENDS),
    "log of three terms": (lambda x: log(exp(x[0]) + exp(x[1]) + exp(x[2])), HIGH, TOP, SLOPES),
    "log of a mean": (lambda x: log(np.mean(2 * exp(x))), HIGH, TOP, SLOPES),
    "log of sums along an axis": (
        lambda x: np.sum(log(np.sum(exp(np.outer([1.0, 2.0], x)), axis=1, keepdims=True))),
        HIGH, TOP + 2 * shares(2 * HIGH)[0], SLOPES + 4 * shares(2 * HIGH)[1],
    ),
    "cross entropy by sums": (lambda x: log(np.sum(exp(x))) - x[0], HIGH, TOP - FIRST, SLOPES),
    "log of a softmax": (lambda x: -log(softmax(x)[0]), HIGH, TOP - FIRST, SLOPES),
    "logs of a softmax": (lambda x: -np.sum(FIRST * log(softmax(x))), LOW, BOTTOM - FIRST, BENDS),
    "softmax": (lambda x: softmax(x)[0], HIGH, SLOPES[0], None),
    "softmax of few": (lambda x: exp(x[0]) / (exp(x[0]) + exp(x[1]) + exp(x[2])), HIGH, SLOPES[0], None),
}  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ARRAYS)
def test_a_function_of_an_array(name, mode):
    check_array(*ARRAYS[name], mode)


def cross_entropy(x, y):
    p = logistic(x)
    return -(y * log(p) + (1 - y) * log(1 - p))


def test_operations_are_those_of_the_chain_rule():
    """As many as by hand: nothing asks what has overflowed or vanished."""
    wanted = {
        (logistic, (0.3,)): 6,
        (lambda x: log(1 + exp(x)), (0.3,)): 6,
        (lambda x, m, s: exp(-((x - m) ** 2) / (2 * s**2)), (0.3, 0.1, 0.7)): 13,
        (lambda mu, r, a: math.sqrt(mu * (2 / r - 1 / a)), (1.0, 1.2, 1.1)): 15,
        (cross_entropy, (0.3, 0.7)): 17,
        (lambda x, y: math.acos(math.sin(x) * math.sin(y) + math.cos(x) * math.cos(y)), (0.3, 0.4)): 17,
    }
    for (f, args), count in wanted.items():
        program = sd.value_and_grad(f, argnums=tuple(range(len(args)))).program(*args)
        assert program.operations() <= count and not program.by_kind().keys() & {"isinf", "isfinite", "select"}


def test_logistic_functions_are_right_to_the_last_digits():
    derivative, bends = sd.value_and_grad(logistic), sd.derivative(logistic, order=2)
    with mpmath.workdps(40):
        for x in np.linspace(-40, 40, 321):
            value = 1 / (1 + mpmath.exp(-mpmath.mpf(x)))
            for found, exact in zip(derivative(x), (value, value * (1 - value)), strict=True):
                assert abs(float(mpmath.mpf(float(found)) - exact)) <= 4 * np.spacing(float(exact))
    for x in (-INF, -1e5, -746.0, -710.0, -708.5, 708.5, 710.0, 746.0, 1e5, INF):
        assert np.all(np.isfinite([*derivative(x), bends(x)]))
    assert all(map(math.isnan, derivative(math.nan)))


def test_a_square_of_norms_costs_what_the_sum_of_squares_costs():
    x = np.ones(3)
    for f in (lambda x: norm(x) * norm(x), lambda x: np.sqrt(x @ x) ** 2, lambda x: np.hypot(x[0], x[1]) ** 2):
        assert sd.grad(f).program(x).operations() <= 3
    assert sd.grad(lambda x: x * np.sqrt(x)).program(1.0).operations() == 2
    assert sd.grad(lambda x: log(np.cosh(x))).program(1.0).operations() == 1


@pytest.mark.parametrize(
    ("f", "slopes"),
    [
        (lambda x: np.log(x)[1], [0.0, 0.5, 0.0]),
        (lambda x: np.log(x)[1:].sum(), [0.0, 0.5, 1 / 3]),
        (lambda x: (1 / x)[[1, 2]].sum(), [0.0, -0.25, -1 / 9]),
        (lambda x: np.sum(np.diag(np.log(x[:, None] + np.zeros(3)))[1:]), [0.0, 0.5, 1 / 3]),
    ],
)
@pytest.mark.parametrize("scalarize", [True, False])
def test_cells_that_are_left_out_do_not_leak(f, slopes, scalarize):
    found = sd.grad(f, scalarize=scalarize)(np.array([0.0, 2.0, 3.0]))
    np.testing.assert_allclose(found, slopes, rtol=1e-14)


WEIGHTED = {
    "logaddexp": lambda v: np.sum(np.logaddexp(v[:2], v[1:])),
    "logaddexp2": lambda v: np.sum(np.logaddexp2(v[:2], v[1:])),
    "reduce": lambda v: np.logaddexp.reduce(v),
    "reduce of powers of 2": lambda v: np.logaddexp2.reduce(v),
    "accumulate": lambda v: np.sum(np.logaddexp.accumulate(v)),
    "logsumexp": scipy.special.logsumexp,
    "softmax": lambda v: np.sum(scipy.special.softmax(v) * W),
    "log_softmax": lambda v: np.sum(scipy.special.log_softmax(v) * W),
    "own softmax": lambda v: np.sum(sd.special.softmax(v) * W),
}
W = np.array([0.5, -1.0, 3.0])


@pytest.mark.parametrize("options", [{}, {"scalarize": False, "backend": "numpy"}], ids=["cells", "arrays"])
@pytest.mark.parametrize("name", WEIGHTED)
def test_sums_of_exponentials_depend_on_differences_alone(name, options):
    f, x, far = WEIGHTED[name], np.array([-2.0, 0.0, 4.0]), 2.0**53
    for transform in (sd.grad, sd.hessian):
        np.testing.assert_allclose(transform(f, **options)(x + far), transform(f, **options)(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sd.jvp(f, **options)(x + far, W)[0], f(x + far), rtol=1e-15)


@pytest.mark.parametrize("below", [np.expm1, np.sinh, np.cosh, exp, lambda y: 1 + exp(y)])
def test_a_numerator_that_is_an_exponential_counts(below):
    def f(x, y):
        return exp(x) / below(y)

    value, (by_x, by_y) = sd.value_and_grad(f, argnums=(0, 1))(0.3, 0.4)
    h = 1e-6
    assert by_x == pytest.approx(value, rel=1e-14) == sd.jvp(f, argnums=(0, 1))(0.3, 0.4, (1.0, 0.0))[1]
    assert by_y == pytest.approx((f(0.3, 0.4 + h) - f(0.3, 0.4 - h)) / (2 * h), rel=1e-8)

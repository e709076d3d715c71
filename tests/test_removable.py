"""Derivatives at and beside points where quotients are 0/0 and poles cancel, in every mode; what others cost."""

import math
import time

import mpmath
import numpy as np
import pytest
from singular_search import search

import symdiff as sd

# name: the function over NumPy or mpmath, its point
REGULAR = {
    "sinc": (lambda x, m: m.sin(x) / x, 0.0),
    "sinc of a multiple": (lambda x, m: m.sin(3 * x) / x, 0.0),
    "a steep sinc": (lambda x, m: m.sin(1e6 * x) / x, 0.0),
    "a flat sinc": (lambda x, m: m.sin(1e-6 * x) / x, 0.0),
    "x over a sine": (lambda x, m: x / m.sin(x), 0.0),
    "log over its line": (lambda x, m: m.log(x) / (x - 1), 1.0),
    "a logarithmic mean": (lambda x, m: (x - 1) / m.log(x), 1.0),
    "a mean of exponentials": (lambda x, m: (m.exp(x) - 1) / x, 0.0),
    "Planck": (lambda x, m: x**3 / (m.exp(x) - 1), 0.0),
    "Bernoulli": (lambda x, m: 2.5 * x / (m.exp(2.5 * x) - 1), 0.0),
    "explosive parts": (lambda x, m: x * m.exp(x) / (m.exp(x) - 1), 0.0),
    "Einstein's energy": (lambda x, m: x**2 * m.exp(x) / (m.exp(x) - 1) ** 2, 0.0),
    "a product at two points": (lambda x, m: x * m.exp(x) / (m.exp(x) - 1) * m.sin(x - 1) / (x - 1), 1.0),
    "Langevin": (lambda x, m: 1 / m.tanh(x) - 1 / x, 0.0),
    "double poles": (lambda x, m: 1 / x**2 - 1 / m.sin(x) ** 2, 0.0),
    "poles at one": (lambda x, m: 1 / m.log(x) - 1 / (x - 1), 1.0),
    "a pole times a zero": (lambda x, m: x * (1 / m.tan(x)), 0.0),
    "form factor": (lambda x, m: (3 * (m.sin(x) - x * m.cos(x)) / x**3) ** 2, 0.0),
    "spherical Bessel": (lambda x, m: (3 / x**3 - 1 / x) * m.sin(x) - 3 * m.cos(x) / x**2, 0.0),
    "Debye": (lambda x, m: 2 * (m.exp(-x) - 1 + x) / x**2, 0.0),
    "sums that vanish": (lambda x, m: (x - m.sin(x)) / (x - m.tan(x)), 0.0),
    "a conjugate root": (lambda x, m: (m.sqrt(1 + x) - 1) / x, 0.0),
    "log of a sinc": (lambda x, m: m.log(m.sin(x) / x), 0.0),
    "a cancelled factor": (lambda x, m: (9 * x * x - 1) / (3 * x - 1), 1 / 3),
    "Einstein": (lambda x, m: (x / 2) ** 2 / m.sinh(x / 2) ** 2, 0.0),
}


@pytest.mark.parametrize("name", REGULAR)
def test_first_and_second_derivatives_near_common_zeros(name):
    f, at = REGULAR[name]
    for order in (1, 2):
        derived = sd.derivative(lambda x: f(x, np), order=order)
        for d in (1e-17, 1e-12, 1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.7, 1.5, -1e-8, -1e-4, -0.2):
            x = at + d
            with mpmath.workdps(150):
                wanted = mpmath.diff(
                    lambda t: f(t, mpmath), mpmath.mpf(x) + mpmath.mpf(10) ** -25, order, h=mpmath.mpf(10) ** -30
                )
                assert abs(derived(x) - wanted) <= 1e-6 * abs(wanted) + 1e-12, (order, d)


@pytest.mark.parametrize("name", ["explosive parts", "Einstein's energy", "a product at two points", "form factor"])
def test_higher_orders_and_every_door(name):
    f, at = REGULAR[name]
    over_array = sd.hessian(lambda x: np.sum(f(x, np)), scalarize=False)
    doors = [sd.grad(sd.grad(lambda x: f(x, np))), sd.hessian(lambda x: f(x, np)), lambda x: over_array(np.array([x, x]))[0, 0]]
    for order in (2, 3, 4, 6):
        derived = sd.derivative(lambda x: f(x, np), order=order)
        for d in (1e-12, 1e-7, 1e-5, 1e-3, 0.01, 0.1, -1e-9, -0.2):
            x = at + d
            with mpmath.workdps(150):
                wanted = mpmath.diff(
                    lambda t: f(t, mpmath), mpmath.mpf(x) + mpmath.mpf(10) ** -25, order, h=mpmath.mpf(10) ** -15
                )
            for door in [derived, *doors][: 4 if order == 2 else 1]:
                assert abs(door(x) - wanted) <= 1e-6 * abs(wanted) + 1e-12, (order, d)


@pytest.mark.parametrize("f, there", [  # the mean of both sides where these meet
    (lambda x, m: m.sin(x) / abs(x), math.nan), (lambda x, m: abs(m.sin(x)) / x, math.nan),
    (lambda x, m: m.sqrt(1 - m.cos(x)), 0.0), (lambda x, m: m.sqrt(m.exp(x) - 1 - x), 0.0),
    (lambda x, m: x / m.sqrt(1 - m.exp(-x * x)), math.nan),
])  # fmt: skip
def test_values_that_are_analytic_on_each_side_alone(f, there):
    for order in (1, 2, 3):
        derived = sd.derivative(lambda x: f(x, np), order=order)
        for x in (1e-9, 1e-7, 1e-5, 1e-3, 0.01, 0.1, 0.5, -1e-7, -1e-3, -0.2):
            with mpmath.workdps(150):
                wanted = mpmath.diff(lambda t: f(t, mpmath), mpmath.mpf(x), order, h=mpmath.mpf(10) ** -30)
                assert not abs(derived(x) - wanted) > 1e-6 * abs(wanted) + 1e-12, (order, x)
                assert order == 3 or not np.isnan(derived(x))
        assert derived(0.0) == pytest.approx(there, abs=0, nan_ok=True)


@pytest.mark.parametrize("scalarize", [True, False])
def test_in_several_variables_and_in_every_mode(scalarize):
    def of_distance(p):
        return np.sin(p[0] - p[1]) / (p[0] - p[1])

    def of_norm(p):
        return np.sin(np.sqrt(p @ p)) / np.sqrt(p @ p)

    for d in (0.0, 1e-9):
        p, bend = np.array([1.0 + d, 1.0]), np.array([[-1, 1], [1, -1]]) / 3
        np.testing.assert_allclose(sd.hessian(of_distance, scalarize=scalarize)(p), bend, rtol=1e-12)
        np.testing.assert_allclose(sd.hvp(of_distance, scalarize=scalarize)(p, np.array([1.0, 2.0])), bend @ [1, 2], rtol=1e-12)
        near = np.array([d, 0.0])
        np.testing.assert_allclose(sd.hessian(of_norm, scalarize=scalarize)(near), -np.eye(2) / 3, rtol=1e-12, atol=1e-12)
    x = np.array([1e-9, 0.3, 2.0])
    slope = sd.derivative(lambda x: np.sin(x) / x)
    found = sd.grad(lambda x: np.sum(np.sin(x) / x), scalarize=scalarize)(x)
    np.testing.assert_array_equal(found, [slope(c) for c in x])
    np.testing.assert_array_equal(sd.vmap(slope)(x), found)


def test_of_complex_and_single_numbers_and_of_domains_with_an_edge():
    sinc = lambda x: np.sin(x) / x  # noqa: E731
    assert sd.grad(sinc)(np.complex128(3e-9j)) == pytest.approx(-1e-9j)
    single = sd.derivative(sinc, order=2)(np.float32(1e-5))
    assert single.dtype == np.float32 and single == pytest.approx(-1 / 3, rel=1e-6)
    rooted = lambda x: np.sin(np.sqrt(x)) / np.sqrt(x)  # noqa: E731
    assert sd.derivative(rooted, order=2)(0.0) == pytest.approx(1 / 60)
    assert np.isnan(sd.derivative(rooted)(-0.01))


def test_derivatives_one_after_the_other_stay_polynomials():
    bend = sd.grad(sd.grad(sd.grad(lambda x: np.sin(x) / x)))
    assert bend(1e-9) == pytest.approx(2e-10) and bend.graph(0.1).operations() < 95
    assert sd.cost(lambda x: np.sin(x) / x, 0.3).derivative.operations <= 16


def test_poles_and_kinks_stay():
    for f in (lambda x: np.sin(x) / x**2, lambda x: np.sin(x) / abs(x), lambda x: x**1.5 / x, lambda x: np.exp(-1 / x) / x):
        assert not np.isfinite(sd.derivative(f)(0.0))
    assert sd.derivative(lambda x: np.sin(x) / x**2)(1e-3) == pytest.approx(-1e6)


@pytest.mark.parametrize("f, most", [
    (lambda x: x / (1 + x), 4), (lambda x: 1 / (1 + 1 / x), 5), (lambda x: x * np.log(x), 2),
    (lambda x: np.log(x / (1 - x)), 4), (lambda x: np.exp(-x * x) / x, 6),
    (lambda x: 4 * (x**-12 - x**-6), 7), (lambda x: x / np.sqrt(x * x + 1e-3), 8),
])  # fmt: skip
def test_others_cost_what_they_did(f, most):
    assert sd.cost(f, 0.3).derivative.operations <= most


def test_a_sample_of_random_compositions():
    assert search(20, 150) == []


def test_negative_powers_are_no_polynomials():
    for f in (
        lambda t: np.log(1 + np.exp2(t) ** -1),
        lambda t: 1 / (1 + np.exp(t) ** -1),
        lambda t: t**-1 / (1 + t**-1) + t**-2,
    ):
        t, h = 0.88, 1e-4
        wanted = (f(t + h) - 2 * f(t) + f(t - h)) / h**2
        assert sd.derivative(f, order=2)(t) == pytest.approx(wanted, rel=1e-5)
        assert sd.hessian(lambda x, f=f: np.sum(f(x)))(np.array([t, t]))[0, 0] == pytest.approx(wanted, rel=1e-5)


def test_long_sums_of_removable_quotients():
    def f(x):
        s = 0.0
        for i in range(1500):
            s = s + np.sin(x) / x * (i + 1) + x * x
        return s

    x = 0.7
    wanted = sum(range(1, 1501)) * (np.cos(x) / x - np.sin(x) / x**2) + 3000 * x
    assert sd.grad(f, loops="unroll")(x) == pytest.approx(wanted, rel=1e-10)


def test_values_that_overflow_cost_no_digits():
    begin = time.perf_counter()
    assert sd.grad(lambda x: np.sinh(np.sin(x)) / np.sinh(np.sin(x)))(0.7) == 0.0
    assert time.perf_counter() - begin < 5.0  # 34 s with sinh of numbers beyond 1e100000


@pytest.mark.parametrize("f", [lambda x: np.rint(np.log1p(x * x) * 10) * np.log1p(x * x), lambda x: np.log1p(x) * x])
def test_logarithms_of_one_and_more_have_no_point_to_remove(f):
    x = np.array([0.3, -0.2, 0.0])
    assert not any(b.op == "lt" for b in sd.grad(lambda x: np.sum(f(x))).graph(x).bindings)


STORED = {  # at 0: a value that is stored there, its first and second derivative
    "a mean of exponentials": (lambda x: np.where(x == 0, 1.0, np.expm1(x) / x), 0.5, 1 / 3),
    "a branch": (lambda x: np.expm1(x) / x if x else 1.0, 0.5, 1 / 3),
    "and a sum": (lambda x: np.where(x != 0, np.sin(x) / x + x, 1.0), 1.0, -1 / 3),
    "a safe divisor": (lambda x: np.where(x == 0, 1.0, np.expm1(x) / np.where(x == 0, 1.0, x)), 0.5, 1 / 3),
    "a function of a quotient": (lambda x: np.where(x == 0, np.e, np.exp(np.sin(x) / x) + x), 1.0, -np.e / 3),
    "a function of what is stored": (
        lambda x: np.cos(np.where(x == 0, 1.0, np.expm1(x) / x)), -0.5 * np.sin(1), -0.25 * np.cos(1) - np.sin(1) / 3,
    ),
    "a difference of poles": (lambda x: np.where(x == 0, 0.0, 1 / np.tanh(x) - 1 / x), 1 / 3, 0.0),
    "poles below lines": (lambda x: np.where(x == 0, 0.0, 1 / (2 / x + 1)), 0.5, -0.5),
    "a kink": (lambda x: np.where(x == 0, 0.0, np.arctan(np.abs(x)) * np.sign(1 / x)), 1.0, 0.0),
    "another value": (lambda x: np.where(x == 0, 2.0, np.expm1(x) / x), 0.0, 0.0),
    "a pole": (lambda x: np.where(x != 0, 1 / x, 0.0), 0.0, 0.0),
    "what is flat": (lambda x: np.where(x != 0, 1 + np.exp(-1 / x**2), 1.0), 0.0, 0.0),
    "what is flat, and a line": (lambda x: np.where(x != 0, x + np.exp(-1 / x**2), 0.0), math.nan, math.nan),
    "an infinite slope": (lambda x: np.where(x != 0, x * np.log(x * x), 0.0), math.nan, math.nan),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_values_stored_at_a_point_have_the_slopes_of_what_goes_on_to_them(name):
    f, first, second = STORED[name]
    doors = [sd.grad(f), sd.grad(f, exact=True), sd.grad(f, backend="numpy"), lambda x: sd.jvp(f)(x, 1.0)[1]]
    if name != "a branch":
        over_array = sd.grad(lambda x: np.sum(f(x)), scalarize=False)
        doors += [lambda x: over_array(np.array([x, 0.3]))[0], lambda x: sd.vmap(sd.grad(f))(np.array([x, 0.3]))[0]]
    for door in doors:
        assert door(0.0) == pytest.approx(first, rel=1e-12, nan_ok=True)
    for bend in (sd.derivative(f, order=2), sd.grad(sd.grad(f))):
        assert bend(0.0) == pytest.approx(second, rel=1e-12, abs=1e-12, nan_ok=True)


def test_values_stored_at_a_point_of_several_variables():
    for f, slopes in (
        (lambda x, a: np.where(x == 0, a, np.sin(a * x) / x + x), (1.0, 1.0)),
        (lambda x, a: np.where(x == 0, a, a * (np.expm1(x) / x)), (1.0, 1.0)),
        (lambda x, a: np.where(x == 0, np.exp(a), np.exp(np.sin(a * x) / x)), (0.0, np.exp(2.0))),
        (lambda x, a: np.where(x == 0, 0.0, a * np.exp(-1 / x**2)) + a, (0.0, 1.0)),
        (lambda x, a: 0.0 if x == 0 else np.exp(-a / x), (0.0, 0.0)),
    ):
        assert sd.grad(f, (0, 1))(0.0, 2.0) == pytest.approx(slopes)

    def of_norm(p):
        r = np.linalg.norm(p)
        return np.sin(r) / r if r else 1.0

    np.testing.assert_allclose(sd.hessian(of_norm)(np.zeros(2)), -np.eye(2) / 3)


@pytest.mark.parametrize("f, most", [
    (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 18), (lambda x: np.where(x == 0, 1.0, np.expm1(x) / x), 24),
    (lambda x: np.where(x != 0, np.exp(-1 / x**2), 0.0), 11), (lambda x: np.where(x != 0, 1 / x, 0.0), 6),
    (lambda x: x if x in (0.0, 1.0) else x**3, 7),
])  # fmt: skip
def test_values_stored_at_a_point_are_not_looked_at_in_calls(f, most):
    assert sd.value_and_grad(f).program(0.3).operations() <= most

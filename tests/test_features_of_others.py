"""What JAX, ChainRules.jl and TaylorSeries.jl let people do with rules and series: each line of the table in notebook 07."""

import math

import numpy as np
import pytest

import symdiff as sd

X = np.array([0.5, 1.5, 2.5])


def test_forward_rules_serve_both_directions_and_one_argument_at_a_time():
    def scaled(x, y):
        return x * np.exp(y)

    @sd.diffrule(scaled, pushforward=True)
    def _(dots, out, x: sd.Array, y: sd.Array):
        return dots[0] * np.exp(y) + dots[1] * out

    np.testing.assert_allclose(sd.jvp(scaled, (0, 1))(X, X, (X, X))[1], (X + X * X) * np.exp(X))
    np.testing.assert_allclose(sd.grad(lambda x, y: np.sum(scaled(x, y)), 1)(X, X), X * np.exp(X))

    def product(x, y):
        return x * y

    sd.diffrule(product, wrt="x")(lambda out, x, y: 7 * y)
    sd.diffrule(product, wrt="y")(lambda out, x, y: 5 * x)
    assert sd.grad(product, (0, 1))(2.0, 3.0) == (21.0, 10.0)


def test_functions_and_texts_are_settings():
    def applied(g, x, how):
        return g(x) if how == "as it is" else -g(x)

    @sd.diffrule(applied, pullback=True)
    def _(ds, out, g, x: sd.Array, how):
        return None, 10 * ds * g(x), None

    for how, sign in (("as it is", 10), ("turned", 10)):
        np.testing.assert_allclose(sd.grad(lambda x, h=how: np.sum(applied(np.sin, x, h)))(X), sign * np.sin(X))


def test_what_is_not_asked_for_costs_nothing():
    def pair(x, y):
        return x * y

    @sd.diffrule(pair, pullback=True)
    def _(ds, out, x: sd.Array, y: sd.Array):
        return ds * y, ds * np.exp(np.sin(x)) ** 3.5

    one, two = (sd.cost(sd.grad(lambda x, y: np.sum(pair(x, y)), wrt), X, X).derivative.by_kind for wrt in (0, (0, 1)))
    assert not any("exp" in kind or "sin" in kind for kind in one)
    assert len(two) > len(one)


def test_a_callback_needs_no_rule_where_nothing_moves():
    @sd.primitive(shapes=lambda x: x.shape)
    def sorted_by_python(x):
        return np.array(sorted(x.tolist()))

    found = sd.grad(lambda x, y: np.sum(x * sorted_by_python(y)))(X, X[::-1])
    assert found.tolist() == X.tolist()


def test_rules_of_text_and_functions_without_derivative():
    def logit(p, scale):
        return scale * math.log(p / (1 - p))

    sd.diffrule("logit(p, scale)", p="scale/(p*(1 - p))", scale="out/scale")
    by_p, by_scale = sd.grad(logit, (0, 1))(0.25, 2.0)
    assert by_p == pytest.approx(2 / 0.1875) and by_scale == pytest.approx(-math.log(3))

    def rounded(x):
        return np.round(x)

    @sd.diffrule(rounded, pullback=True)
    def _(ds, out, x: sd.Array):
        return None

    assert sd.grad(lambda x: np.sum(rounded(x) * x))(X).tolist() == np.round(X).tolist()


def test_cotangents_are_projected_on_their_arguments():
    def turned(x):
        return x * 1j

    @sd.diffrule(turned, pullback=True)
    def _(ds, out, x: sd.Array):
        return ds * 1j

    found = sd.grad(lambda x: np.sum(np.imag(turned(x)) * x))(X)
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, 2 * X)

    def doubled(x):
        return 2 * x

    @sd.diffrule(doubled, pullback=True)
    def _(ds, out, x: sd.Array):
        return np.float64(2) * ds

    assert sd.grad(lambda x: np.sum(doubled(x)))(X.astype(np.float32)).dtype == np.float32


def test_a_rule_may_differentiate_and_read_what_is_around_it():
    weight = np.array([1.0, 2.0, 3.0])

    def root(y):
        return np.sqrt(y)

    @sd.diffrule(root, pullback=True)
    def _(ds, out, y: sd.Array):
        return ds * weight / sd.vmap(sd.derivative(lambda x: x * x))(out)

    np.testing.assert_allclose(sd.grad(lambda y: np.sum(root(y)))(X), weight / (2 * np.sqrt(X)))
    weight[:] = 1.0
    np.testing.assert_allclose(sd.grad(lambda y: np.sum(root(y)))(X), 1 / (2 * np.sqrt(X)))


def test_coefficients_are_numbers_that_numpy_evaluates_differentiates_and_inverts():
    series = [float(c) for c in sd.taylor(np.sin, 9)(0.0, 1.0)]
    polynomial = np.polynomial.Polynomial(series)
    assert polynomial(0.1) == pytest.approx(math.sin(0.1), rel=1e-15)
    assert polynomial.deriv()(0.1) == pytest.approx(math.cos(0.1), rel=1e-10)
    assert polynomial.integ()(0.1) == pytest.approx(1 - math.cos(0.1), rel=1e-12)
    inverse = [float(c) for c in sd.taylor(np.arcsin, 9)(0.0, 1.0)]
    assert polynomial(np.polynomial.Polynomial(inverse)(0.1)) == pytest.approx(0.1, rel=1e-10)


def test_polynomials_in_several_variables():
    def f(x, y):
        return np.exp(x) * np.cos(x * y)

    def coefficient(m, k):
        return sd.taylor(lambda s: sd.taylor(lambda t: f(s, t), k)(0.5, 1.0)[k] if k else f(s, 0.5), m)(0.2, 1.0)[m]

    total = sum(float(coefficient(m, k)) * 0.01**m * 0.02**k for m in range(1, 5) for k in range(5))
    assert total + f(0.2, 0.52) == pytest.approx(f(0.21, 0.52), rel=1e-9)

"""Slopes at equalities and at exceptions that hold on a thin set: those of the function around it, where values agree."""

import math

import numpy as np
import pytest

import symdiff as sd
from symdiff.errors import PathsError


def inverted(x):
    try:
        np.linalg.inv(np.array([[x, 0.0], [0.0, 1.0]]))
    except np.linalg.LinAlgError:
        return 0.0
    return 3 * x


def solved(x):
    try:
        np.linalg.solve(np.array([[x, 1.0], [1.0, 1.0]]), np.ones(2))
    except np.linalg.LinAlgError:
        return 3.0
    return 3 * x


def never_inverted(x):
    """The matrix is singular for all x: the handler is the function."""
    try:
        np.linalg.inv(np.array([[x, 2 * x], [3 * x, 6 * x]]))
    except np.linalg.LinAlgError:
        return x * x - 2
    return -1.0 * x


def inverted_on_a_half_line(x):
    try:
        np.linalg.inv(np.array([[max(x, 0.0), 0.0], [0.0, 1.0]]))
    except np.linalg.LinAlgError:
        return 2 * x
    return 2 * abs(x)


def determined(x):
    return 0.0 if np.linalg.det(np.array([[x, 1.0], [4.0, x]])) == 0 else 5 * (x * x - 4)


def fixed(x):
    return x if x * x == x else x * x


@pytest.mark.parametrize("options", [{}, {"paths": "guard"}, {"paths": "merge"}], ids=str)
@pytest.mark.parametrize(
    "f, x, expected",
    [
        (inverted, 0.0, 3), (inverted, 2.0, 3), (solved, 1.0, 3), (never_inverted, 1.0, 2), (never_inverted, 2.0, 4),
        (inverted_on_a_half_line, -1.0, 2), (determined, 2.0, 20), (fixed, 1.0, 2), (fixed, 0.0, 0),
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)  # fmt: skip
def test_slopes_are_those_around_an_equality(f, x, expected, options):
    value, slope = sd.value_and_grad(f, **options)(x)
    assert value == f(x) and slope == expected
    if options != {"paths": "guard"}:
        assert sd.jvp(f, **options)(x, 1.0)[1] == expected


def cached(x, key, value):
    return value if x == key else x * x


def cached_apart(x, key, value):
    return value if x - key == 0 else x * x


def cached_ratio(x, key, value):
    return value if x / key == 1 else x * x


def cached_square(x, key, value):
    return value if (x - key) ** 2 == 0 else x * x


def cached_pair(x, key, value):
    return value if (x, value) == (key, key * key) else x * x


def cached_product(x, key, value):
    return value if x * x == key * key else x * x


def cached_where(x, key, value):
    return np.where(x == key, value, x * x)


def cached_not(x, key, value):
    return x * x if x != key else value


def cached_sine(x, key, value):
    return value if math.sin(x) == math.sin(key) else x * x


def cached_exponential(x, key, value):
    return value if math.exp(x - key) == 1 else x * x


def cached_norm(x, key, value):
    return value if np.linalg.norm(np.array([x - key, 0.0])) == 0 else x * x


def cached_truth(x, key, value):
    same = 1.0 if x == key else 0.0
    return value if same else x * x


@pytest.mark.parametrize("options", [{}, {"paths": "guard"}], ids=str)
@pytest.mark.parametrize("argnums", [(0,), (0, 1, 2)], ids=str)
@pytest.mark.parametrize(
    "f",
    [
        cached, cached_apart, cached_ratio, cached_square, cached_pair, cached_product, cached_where, cached_not, cached_sine,
        cached_exponential, cached_norm, cached_truth,
    ],
)  # fmt: skip
def test_stored_values_have_the_slope_of_the_function(f, argnums, options):
    found = sd.grad(f, argnums, **options)(2.0, 2.0, 4.0)
    np.testing.assert_allclose(found, [4.0 if n == 0 else 0.0 for n in argnums])


def through_a_pole(x):
    return 0.0 if x == 0 else 1 / (2 / x + 1)


def scaled_through_a_pole(x, y):
    return 0.0 if x == 0 else (y + 1) / (3 / x + 0.5)


def harmonic(x, y):
    return 0.0 if x == 0 else 1 / (1 / x + 1 / y)


@pytest.mark.parametrize("options", [{}, {"paths": "guard"}, {"paths": "merge"}], ids=str)
def test_beside_an_equality_a_pole_below_a_line_is_looked_at(options):
    assert sd.derivative(through_a_pole, order=2, **options)(0.0) == -0.5 == -sd.grad(through_a_pole, **options)(0.0)
    np.testing.assert_allclose(sd.hessian(scaled_through_a_pole, (0, 1), **options)(0.0, 2.0), [[-1 / 3, 1 / 3], [1 / 3, 0]])
    assert np.isnan(sd.grad(harmonic, **options)(0.0, 2.0))  # 1, which needs both of them


def test_exceptions_at_the_arguments_are_conditions_of_the_path():
    def total(x):
        try:
            return math.fsum([x, 1e308])
        except OverflowError:
            return x * 2

    found = sd.value_and_grad(total, paths="guard")
    assert found(1.7e308) == (math.inf, 2) and found(1.0) == (1e308, 1)


def test_a_function_that_is_not_traced_decides_nothing_by_raising():
    @sd.primitive
    def root(x):
        return math.sqrt(x)

    @sd.diffrule(root)
    def _(out, x):
        return 0.5 / out

    def f(x):
        try:
            return 1.0 * x if root(x) > 1 else 2.0 * x
        except ValueError:
            return -x

    assert sd.grad(f, paths="guard")(4.0) == 1
    with pytest.raises(PathsError, match=r"test_equalities.py:\d+: ValueError of a function that is not traced"):
        sd.grad(f, paths="guard")(-1.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: math.exp(-1 / (x * x)) if x != 0 else 0.0 * x,
        lambda x: math.exp(-1 / abs(x)) * x if x != 0 else 0.0 * x,
        lambda x: np.where(x != 0, np.exp(-1 / x**2), 0.0),
        lambda x: math.sin(x) * math.exp(-1 / ((3 * x) ** 2) ** 0.42) if ((3 * x) ** 2) ** 0.42 != 0 else 0.0 * x,
    ],
)
def test_what_is_flat_beside_an_essential_singularity(f):
    assert sd.grad(f)(0.0) == sd.jvp(f)(0.0, 0.7)[1] == sd.derivative(f, order=2)(0.0) == 0.0


@pytest.mark.parametrize("options", [{}, {"paths": "guard"}, {"paths": "merge"}, {"scalarize": False}], ids=str)
@pytest.mark.parametrize(
    "f, first, second",
    [
        (lambda x: np.where(x == 0, 5, 1.0) * x, 1, 0),
        (lambda x: np.where(x != 0, 1.0, 0.0) * np.sin(x), 1, 0),
        (lambda x: x * x * np.where(x == 0, 7.0, 1.0), 0, 2),
        (lambda x: np.exp(np.where(x == 0, 7.0, 2.0) * x), 2, 4),
        (lambda x: np.where(x == 0, 5, 1.0) + x, 1, 0),
    ],
)
def test_constants_stored_at_a_point_are_no_factors_of_slopes(f, first, second, options):
    assert sd.grad(f, **options)(0.0) == first
    assert sd.derivative(f, order=2, **options)(0.0) == second
    assert sd.grad(sd.grad(f, **options))(0.0) == second

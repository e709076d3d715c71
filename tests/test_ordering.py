"""Python's own max, min and sorted: the numbers that Python gives, and who gets the slope."""

import functools
import importlib.util
import itertools

import numpy as np
import pytest
from inside import Plain

import symdiff as sd

BACKENDS = ("python", "numpy", *(["native"] if importlib.util.find_spec("llvmlite") else []))
POINTS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf]
EXTREMES = {
    "max": lambda x, y: max(x, y),
    "min": lambda x, y: min(x, y),
    "max of three": lambda x, y: max(x, y, -0.0),
    "min of three": lambda x, y: min([0.0, y, x]),
    "max of a generator": lambda x, y: max(v for v in (y, x, y * 2)),
    "min of a table": lambda x, y: min({"x": x, "y": y}.values()),
    "constant first": lambda x, y: max(0, x) - min(0.0, y),
    "constant second": lambda x, y: max(x, 0.0) - min(y, 0),
    "NaN first": lambda x, y: max(np.nan, x, y),
    "NaN second": lambda x, y: min(x, np.nan, y),
    "reduce": lambda x, y: functools.reduce(max, [x, y, 0.0]),
    "default": lambda x, y: max((v for v in (x, y)), default=3.0) + min([], default=0.5),
    "key": lambda x, y: max(x, y, key=lambda v: -v),
    "array": lambda x, y: max(np.stack([y, x, y])) * min(np.array([x, y])),
    "smaller of two": lambda x, y: sorted([x, y])[0],
    "larger of two": lambda x, y: sorted((x, y))[1],
    "first of two": lambda x, y: sorted([x, y], reverse=True)[0],
    "last of two": lambda x, y: sorted([x, y], reverse=True)[1],
}


def bits(number):
    return "nan" if np.isnan(number) else np.float64(number).tobytes()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", EXTREMES)
def test_python_s_own_numbers_bit_for_bit(name, backend):
    f = EXTREMES[name]
    exact = Plain(f, exact=backend != "native", backend=backend)
    for x, y in itertools.product(map(np.float64, POINTS), repeat=2):
        with np.errstate(all="ignore"):
            assert bits(exact(x, y)) == bits(f(x, y)), (x, y)


def test_a_nan_counts_only_in_the_first_cell_of_a_large_array():
    n = 70

    def both(x):
        return max(x) - 2 * min(x)

    x = np.arange(float(n))
    for place in (None, 0, 1, n - 1):
        if place is not None:
            x = np.arange(float(n))
            x[place] = np.nan
        np.testing.assert_equal(Plain(both)(x), both(x))
    gradient = sd.grad(lambda x: max(x))(x)
    assert gradient[n - 2] == 1 and np.count_nonzero(gradient) == 1


@pytest.mark.parametrize("n", [3, 5, 8, 9, 12])
def test_a_nan_among_many_numbers_in_order_is_never_passed_over(n):
    f = Plain(lambda x: np.array(sorted(x, reverse=True)))
    x = np.random.default_rng(n).permutation(n) - 2.0
    x[1] = -np.inf
    np.testing.assert_array_equal(f(x), sorted(x, reverse=True))
    for place in range(n):
        assert np.isnan(f(np.where(np.arange(n) == place, np.nan, x))).all()


SHARES = {
    "max at a tie": (lambda x, y: max(x, y), (1.0, 1.0), (0.5, 0.5)),
    "min at a tie of zeros": (lambda x, y: min(x, y), (0.0, -0.0), (0.5, 0.5)),
    "relu": (lambda x, y: max(x, 0) + max(0.0, y), (0.0, 0.0), (0.5, 0.5)),
    "max of four, three tied": (lambda x, y: max(x, y, 2 * x, x - 1), (0.0, 0.0), (1.0, 1 / 3)),
    "min of three": (lambda x, y: min(x, y, 1.0), (1.0, 1.0), (1 / 3, 1 / 3)),
    "infinities": (lambda x, y: max(x, y), (np.inf, np.inf), (0.5, 0.5)),
    "larger": (lambda x, y: max(x, y), (-np.inf, 1.0), (0.0, 1.0)),
    "a NaN that stays": (lambda x, y: max(x, y) + min(x, y, 3.0), (np.nan, 1.0), (2.0, 0.0)),
    "a NaN that is passed over": (lambda x, y: max(x, y) + min(x, 3.0, y), (1.0, np.nan), (2.0, 0.0)),
    "the same number twice": (lambda x, y: max(x, x) + min(y, y, y), (2.0, 3.0), (1.0, 1.0)),
    "two in order": (lambda x, y: 3 * sorted([x, y])[0] + sorted([x, y])[1], (1.0, 1.0), (2.0, 2.0)),
}


@pytest.mark.parametrize("name", SHARES)
def test_tied_numbers_share_the_slope(name):
    f, point, expected = SHARES[name]
    for exact in (False, True):
        np.testing.assert_allclose(sd.grad(f, (0, 1), exact=exact)(*point), expected, rtol=1e-15)
    forward = [sd.jvp(f, (0, 1))(*point, direction)[1] for direction in ((1.0, 0.0), (0.0, 1.0))]
    np.testing.assert_allclose(forward, expected, rtol=1e-15)
    assert not np.any(sd.hessian(f, (0, 1))(*point))


@pytest.mark.parametrize("n", [2, 3, 5, 9])
def test_numbers_in_order_add_up_to_slope_one_for_each(n):
    for x in (np.ones(n), np.arange(n) // 2.0, np.arange(n) * 1.5):
        slopes = sd.jacobian(lambda x: np.array(sorted(x)))(x)
        np.testing.assert_allclose([slopes.sum(0), slopes.sum(1)], np.ones((2, n)), rtol=1e-15)
        assert np.all(slopes >= 0) and not np.any(slopes[x[:, None] != x])
        np.testing.assert_array_equal(sd.grad(lambda x: sum(sorted(x)))(x), np.ones(n))


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: max(1.0, np.log(x)), 0.0),
        (lambda x: max(np.log(x), 1.0, x), 0.0),
        (lambda x: min(1.0, 1 / x), 0.0),
        (lambda x: max(1.0, np.sqrt(x)), 0.0),
        (lambda x: max(1.0, np.log(x)), -1.0),
        (lambda x: max(1.0, -np.exp(x * x)), 800.0),
        (lambda x: sorted([2.0, 1 / x])[0], 0.0),
    ],
)
def test_what_is_passed_over_does_not_leak(f, x):
    with np.errstate(all="ignore"):
        assert f(np.float64(x)) in (1.0, 2.0)
    for derivative in (sd.grad(f), sd.hessian(f), sd.grad(f, exact=True), lambda x: sd.jvp(f)(x, 1.0)[1]):
        assert derivative(x) == 0


def test_a_logarithm_behind_what_an_extreme_passes_over():
    def f(x):
        return np.log(max(x, 0.0))

    with np.errstate(all="ignore"):
        for derivative in (sd.grad(f), lambda x: sd.jvp(f)(x, 1.0)[1], sd.jacobian(f, mode="forward"), sd.hessian(f)):
            assert derivative(-1.0) == 0


def test_what_is_passed_over_costs_nothing_where_no_partial_is_infinite():
    for f in (lambda x: np.maximum(np.sin(x), 0.5), lambda x: np.minimum(x / (1 + x * x), 0.1)):
        assert sd.grad(f).cost(1.0).both.by_kind["select"] == 3
    assert sd.grad(lambda x: np.maximum(np.log(x), 0.5)).cost(1.0).both.by_kind["select"] == 4


def test_batches_take_the_same_numbers_and_shares():
    def f(x):
        return max(x, 0.0, 1 - x) * min(x, 2.0)

    x = np.array([*POINTS, 0.5, 0.25, 3.0])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(sd.vmap(f)(x), [f(v) for v in x])
    np.testing.assert_array_equal(sd.vmap(sd.grad(f))(x), [sd.grad(f)(v) for v in x])


def test_an_extreme_is_a_comparison_and_a_selection():
    cost = sd.cost(lambda x: max(x, 0), 1.0)
    assert (cost.value.operations, cost.both.operations) == (2, 5)
    cost = sd.cost(lambda x, y: 3 * sorted([x, y])[0] + sorted([x, y])[1], 1.0, 2.0)
    assert (cost.value.operations, cost.both.operations) == (5, 12)
    assert "not" not in sd.cost(lambda x: 0.0 if x < 0 else x * x, 1.0).both.by_kind
    assert str(sd.trace(lambda x: max(x, 0) * 2, 1.0).expr) == "Piecewise((0, x < 0), (x, True))*2"


def test_what_an_extreme_is_bounded_by_is_known():
    safe = sd.grad(lambda x: 1.0 / np.sqrt(max(x, 1e-9))).cost(1.0).both.by_kind
    assert not safe.keys() & {"isfinite", "and"}

    def total(x, y):
        top = max(x, y, 0.0)
        return np.log(np.exp(x - top) + np.exp(y - top)) + top

    np.testing.assert_allclose(sd.grad(total, (0, 1))(800.0, 800.0), (0.5, 0.5))
    assert "isinf" not in sd.grad(total, (0, 1)).cost(1.0, 2.0).both.by_kind


def test_a_tie_is_explained():
    found = str(sd.explain(lambda x: max(x, 2 * x, -x), 0.0))
    assert "max(0, 0, -0): kink; 3 equal numbers share the slope" in found
    assert "there is no kink" in str(sd.explain(lambda x: max(x, 2 * x, -x), 1.0))


@pytest.mark.parametrize("f", [lambda x: max(x[0], np.complex128(0.3 + 1j)), lambda x: sorted([x[0], np.complex128(0.3j)])[1]])
@pytest.mark.parametrize("backend", ["python", "numpy", "native"])
def test_complex_constants_beside_real_numbers(f, backend):
    for x in (np.array([0.5, 0.2]), np.array([-0.1, 0.2])):
        value, slope = sd.value_and_grad(lambda x: np.real(f(x) * x[1]), backend=backend)(x)
        assert value == np.real(f(x) * x[1])
        np.testing.assert_allclose(slope, [x[1] * (np.real(f(x)) == x[0]), np.real(f(x))])

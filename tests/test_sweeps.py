"""Sweeps: what does not count meets nothing infinite, zeros of smooth factors, both modes and both regimes alike."""

import numpy as np
import pytest
from inside import building
from scipy import special

import symdiff as sd

MATRIX = np.array([[1.0, 0.0, 2.0], [0.5, 1.0, 0.0], [1.0, 1.0, 1.0]])
ROOT = np.array([4.0, 1.0, 0.0])
HALVES = [0.25, 0.5, np.inf]

# name: function of an array, point, gradient, diagonal of the Hessian
LEFT_OUT = {
    "cells before": (lambda x: np.sum(np.sqrt(x)[:2]), ROOT, [0.25, 0.5, 0.0], [-1 / 32, -0.25, 0.0]),
    "one cell": (lambda x: np.log(x)[1], ROOT, [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]),
    "places": (lambda x: np.sum(np.sqrt(x)[np.array([0, 0, 1])]), ROOT, [0.5, 0.5, 0.0], [-1 / 16, -0.25, 0.0]),
    "places that the call tells": (
        lambda x: np.sum(np.sqrt(x)[np.argsort(-x)[:2]]), ROOT, [0.25, 0.5, 0.0], [-1 / 32, -0.25, 0.0]),
    "a quotient after them": (lambda x: np.sum((1 / x * 2)[:2]), ROOT, [-0.125, -2.0, 0.0], [1 / 16, 4.0, 0.0]),
    "a product of matrices masked": (
        lambda x: np.sum(np.where(x > 9, MATRIX @ np.log(x), x)), ROOT, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
    "a largest one masked": (lambda x: np.where(x[0] > 9, np.max(1 / x), x[0]), ROOT, [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]),
    "a number repeated": (
        lambda x: np.sum(np.where(x > 9, x * np.log(x[2]), x)), ROOT, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
    "no number in the branch not taken": (
        lambda x: np.sum(np.where(x > 9, np.cumsum((x - 2) ** 1.5), x)), ROOT, [1.0, 1.0, 1.0], [0.0, 0.0, 0.0]),
}  # fmt: skip


@pytest.mark.parametrize("scalarize", [None, False])
@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_does_not_count(name, scalarize):
    f, x, slopes, second = LEFT_OUT[name]
    for options in ({}, {"backend": "numpy"}, {"exact": True}):
        np.testing.assert_allclose(sd.grad(f, scalarize=scalarize, **options)(x), slopes, rtol=1e-13)
        np.testing.assert_allclose(np.diag(sd.hessian(f, scalarize=scalarize, **options)(x)), second, rtol=1e-13)


@pytest.mark.parametrize("f, pole", [
    (np.arctanh, 1.0), (special.gammaln, 0.0), (special.psi, -1.0), (special.logit, 1.0), (special.erfinv, 1.0),
    (special.ndtri, 0.0), (special.k0, 0.0), (special.y1, 0.0), (special.expi, 0.0), (special.ellipk, 1.0),
    (lambda x: np.arctanh(np.clip(x, 0.5, 1)), 1.0),
])  # fmt: skip
def test_poles_that_are_left_out_do_not_count(f, pole):
    x, one = np.array([pole, 0.75]), np.array([1.0, 0.0])
    for g in (lambda x: f(x)[1], lambda x: np.sum(np.where(np.arange(2) > 0, f(x), 0.0))):
        for scalarize in (None, False):
            assert sd.grad(g, scalarize=scalarize)(x)[0] == 0.0 and sd.jvp(g, scalarize=scalarize)(x, one)[1] == 0.0


# parts of what comes after a root, which has an infinite slope at 0, and which together are all of it
ALL_OF_IT = {
    "columns": lambda u: np.sum(np.cross(u, np.arange(3.0)) ** 2),
    "a cell and the rest": lambda u: np.sum(u[0, 0] * u[0, 1:]) + np.sum(u[1:] ** 3),
    "rows": lambda u: sum(np.prod(row) * k for k, row in enumerate(u, 1)),
    "blocks": lambda u: sum(np.sum(u[i : i + 2, j:m] ** (i + j + 2)) for i in (0, 2) for j, m in ((0, 1), (1, 3))),
    "parts of parts": lambda u: np.sum(u[1:][1:] ** 2) * np.sum(u[1:][:1] ** 3) + np.sum(u[0] ** 5),
    "parts that overlap": lambda u: np.sum((u[1:] - u[:-1]) ** 4),
}


@pytest.mark.parametrize("name", ALL_OF_IT)
def test_parts_that_make_up_a_whole_need_no_mask(name):
    def f(x):
        return ALL_OF_IT[name](x / np.sqrt(np.sum(x * x)))

    x = np.sqrt(np.arange(1.0, 13.0)).reshape(4, 3)
    df = sd.grad(f, scalarize=False)
    graph = df.graph(x)
    assert not [b for b in graph.bindings if b.op in ("any", "or") or (b.op == "put" and b.dtype == "?")]
    assert name == "parts that overlap" or not [b for b in graph.bindings if b.op == "put"]
    steps = np.stack([[f(x + 1e-30j * (np.arange(12) == k).reshape(4, 3)).imag / 1e-30] for k in range(12)])
    np.testing.assert_allclose(df(x), steps.reshape(4, 3), rtol=1e-12, atol=1e-15)


def test_masks_are_no_long_constants_in_files():
    x = np.arange(3000.0)
    for f in (
        lambda x: np.log(x)[777],
        lambda x: np.sum(np.log(x)[1::2]),
        lambda x: np.sum(np.log(x).reshape(60, 50)[3:, 2:9]),
    ):
        assert len(sd.grad(f).source(x, target="numpy")) < 4500
        found = sd.grad(f)(x)
        assert found[0] == 0.0 and np.isfinite(found).all()


@pytest.mark.parametrize(
    ("f", "x", "first", "second"),
    [
        (lambda x: x * np.cbrt(x), 0.0, 0.0, np.inf),
        (lambda x: (x - 1) * (np.sqrt(x) - 1), 1.0, 0.0, 1.0),  # both factors are zero where nothing is infinite
        (lambda x: np.cbrt(abs(x)), 0.0, np.nan, np.nan),
        (lambda x: np.sign(x) * np.cbrt(x), 0.0, np.nan, np.nan),
        (lambda x: (x - x) * np.cbrt(x) + np.floor(x) * np.sqrt(x), 0.0, None, None),
        (lambda x: np.hypot(x, x) ** 1.5, 0.0, 0.0, np.inf),
    ],
)
def test_products_of_what_is_zero_with_what_is_infinite(f, x, first, second):
    for scalarize in (None, False):
        slope = sd.grad(lambda x: np.sum(f(x)), scalarize=scalarize)(np.array([x, 2.0]))[0]
        curve = sd.hessian(lambda x: np.sum(f(x)), scalarize=scalarize)(np.array([x, 2.0]))[0, 0]
        for found, wanted in ((slope, first), (curve, second)):
            assert wanted is None or np.isclose(found, wanted, equal_nan=True) or np.isnan(found)
        assert first is None or np.isclose(slope, first, equal_nan=True)
    assert first is None or np.isclose(sd.jvp(f)(x, 1.0)[1], first, equal_nan=True)


def test_a_real_arm_of_a_complex_select_under_a_conjugate():
    def f(x):
        return np.conj(np.where(x > 0, x, 1j * x)) * 1j

    for options in ({}, {"mode": "forward"}, {"mode": "reverse"}):
        assert sd.jacobian(f, **options)(2.0) == 1j
        np.testing.assert_array_equal(sd.jacobian(f, scalarize=False, **options)(np.array([2.0, -1.0])), np.diag([1j, 1.0]))


def test_no_mode_gives_a_complex_derivative_that_does_not_exist():
    for scalarize in (True, False):
        for mode in ("forward", "reverse", "auto"):
            with pytest.raises(sd.NonHolomorphicError, match="conj"):
                sd.jacobian(lambda z: z * np.conj(z), mode=mode, scalarize=scalarize)(np.array([1 + 1j, 2.0]))


def newton(rounds):
    def f(a):
        x = 1.0
        for _ in range(rounds):
            x = x - (x * np.exp(x) - a) / ((1 + x) * np.exp(x))
        return x

    return f


def secant(rounds):
    def f(a):
        before, x = 0.5, 1.0
        for _ in range(rounds):
            first, second = np.exp(before) - a, np.exp(x) - a
            before, x = x, x - second * (x - before) / (second - first)
        return x

    return f


def fixed_point(rounds):
    def f(a):
        x = a
        for _ in range(rounds):
            x = np.log(1 + np.exp(x) * a)
        return x

    return f


@pytest.mark.parametrize("loop", [newton, secant, fixed_point])
@pytest.mark.parametrize("transform", [sd.grad, sd.hessian])
def test_loops_with_exponentials_grow_linearly(loop, transform):
    sizes = [len(transform(loop(rounds)).graph(2.0).bindings) for rounds in (5, 10, 20)]
    assert sizes[2] - sizes[1] <= 2.3 * (sizes[1] - sizes[0])


@pytest.mark.parametrize("rounds", [34, 60])
def test_masks_of_stacked_states_are_known_regions(rounds):
    """States made an array, where slopes can be infinite: what a row of it reads is a region, not a union of unions."""

    def few(count, _):
        assert count < 40_000

    def total(x, m):
        states = [x]
        for _ in range(rounds):
            k = 0.01 * np.array([x[1], np.sqrt(m * x[0])])
            x = x + 0.01 * np.array([k[1] + x[1], np.sqrt(k[0] + x[0])])
            states.append(x)
        return np.sum((np.array(states)[:, 0] - 3) ** 2)

    x, e = np.array([0.1, 0.3]), np.array([1e-6, 0.0])
    derivative = sd.grad(total)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "check_binding_memory", few)
        found = derivative(x, 2.0)
    np.testing.assert_allclose(found[0], (total(x + e, 2.0) - total(x - e, 2.0)) / 2e-6, rtol=1e-6)
    assert not any(b.op == "any" for b in derivative.graph(x, 2.0).bindings)


def test_a_region_of_zeros_with_a_region_is_one_again():
    """What is read of what was put is read of what it holds: no array of zeros between."""

    def f(x):
        return np.sum(np.concatenate([x, 2 * x])[2:5] ** 2 * np.arange(3.0))

    x = np.arange(1.0, 5.0)
    cells = np.zeros(8)
    cells[3:5] = 1, 2
    wanted = cells[:4] + 4 * cells[4:]
    np.testing.assert_array_equal(sd.hessian(f, scalarize=False)(x), np.diag(2 * wanted))

"""Decompositions that raise for some matrices, in ways of a function that are not taken."""

import numpy as np
import pytest

import symdiff as sd

RNG = np.random.default_rng(4)


def invertible(a, b):
    if abs(np.linalg.det(a)) < 1e-9:
        return np.sum(a)
    return b @ np.linalg.solve(a, b)


def by_an_early_return(a, b):
    if np.linalg.det(a) == 0.0:
        return np.sum(a * b)
    return np.sum(np.linalg.inv(a)) + np.sum(np.linalg.svd(a, compute_uv=False))


def definite(a, b):
    s = a + a.T
    return np.sum(np.linalg.cholesky(s) * s) if np.trace(a) > 0 else b @ np.linalg.pinv(s) @ b


def finite(a, b):
    return np.sum(np.linalg.eigvalsh(a + a.T) ** 3) if np.all(np.isfinite(a)) else np.sum(b)


def a_loop_in_a_way(a, b):
    x = a.copy()
    if np.linalg.det(a) != 0.0:
        for _ in range(40):
            x = 0.5 * (x + np.linalg.inv(x))
    return np.sum(x * a)


def a_way_in_a_loop(a, b):
    s = np.sum(b)
    for k in range(40):
        if (k - 10 * a[0, 0]) ** 2 > 1e-9:
            s = s + np.linalg.inv(np.eye(len(a)) * (k - 10 * a[0, 0]) + 0.0 * a)[0, 0]
        else:
            s = s + a[0, 0] ** 2
    return s


def a_loop_in_a_way_in_a_loop(a, b):
    s = 0.0
    for k in range(20):
        if k * a[1, 1] != 0.0:
            for j in range(20):
                s = s + np.linalg.solve(k * a + j * np.eye(len(a)), b)[0]
        else:
            s = s + a[0, 0] ** 2
    return s


def at_one_place(n, number):
    found = np.zeros((n, n))
    found[0, 0] = number
    return found


CASES = {  # the function, where the other way is taken, and the derivative there
    "a small determinant": (invertible, lambda n: np.ones((n, n)), lambda n, b: np.ones((n, n))),
    "an early return": (by_an_early_return, lambda n: np.zeros((n, n)), lambda n, b: np.tile(b, (n, 1))),
    "a sign": (definite, lambda n: -np.diag(np.arange(1.0, n + 1)), None),
    "finite": (finite, lambda n: np.full((n, n), np.nan), lambda n, b: np.zeros((n, n))),
    "a loop in a way": (a_loop_in_a_way, lambda n: np.zeros((n, n)), lambda n, b: np.zeros((n, n))),
    "a way in a loop": (
        a_way_in_a_loop, lambda n: np.eye(n) * 0.3,
        lambda n, b: at_one_place(n, 0.6 + sum(10 / (k - 3) ** 2 for k in range(40) if k != 3)),
    ),
    "a loop in a way in a loop": (a_loop_in_a_way_in_a_loop, lambda n: np.diag(np.arange(2.0, n + 2)), None),
}  # fmt: skip


@pytest.mark.parametrize("n", [2, 3, 7])
@pytest.mark.parametrize("case", CASES)
def test_they_do_not_raise(case, n):
    f, taken, wanted = CASES[case]
    b = 1.0 + 0.1 * np.arange(n)
    points = [np.eye(n) * 1.5 + 0.05 * RNG.normal(size=(n, n)), taken(n)]
    numbers = sd.vmap(sd.value_and_grad(f), in_axes=(0, None))(np.array(points), b)
    plain, exact = sd.value_and_grad(f), sd.value_and_grad(f, exact=True)
    plain(points[1], b)
    for k, a in enumerate(points):
        ways = [plain(a, b), (numbers[0][k], numbers[1][k]), exact(a, b)]
        for value, slope in ways:
            assert value == pytest.approx(f(a, b), rel=1e-9)
            if k and wanted is not None:
                np.testing.assert_allclose(slope, wanted(n, b), rtol=1e-9)
                continue
            e = RNG.normal(size=(n, n))
            assert np.sum(slope * e) == pytest.approx((f(a + 1e-6 * e, b) - f(a - 1e-6 * e, b)) / 2e-6, rel=1e-5, abs=1e-6)


def test_both_ways_raise_where_they_are_taken():
    def f(a, b):
        return np.sum(np.linalg.inv(a)) if b > 0 else np.sum(np.linalg.cholesky(a))

    for b in (1.0, -1.0):
        for n in (2, 7):
            with pytest.raises(np.linalg.LinAlgError):
                f(np.zeros((n, n)), b)
            with pytest.raises(np.linalg.LinAlgError):
                sd.grad(f)(np.zeros((n, n)), b)


@pytest.mark.parametrize("n", [2, 7])
def test_a_stored_value_does_not_stop_the_derivative_of_a_solution(n):
    a, b = np.eye(n) * 2.0 + 0.1, 1.0 + 0.1 * np.arange(n)

    def f(x):
        return 0.0 if x == 0.0 else np.sum(np.linalg.solve(a + x * np.eye(n), b * x))

    assert sd.grad(f)(0.0) == pytest.approx(np.sum(np.linalg.solve(a, b)))


def test_their_formulas_are_those_of_the_function():
    def f(A, b):
        return np.sum(b) if np.linalg.det(A) == 0.0 else b @ np.linalg.inv(A) @ b

    text = sd.trace(f, np.eye(5) + 0.1, np.ones(5)).formula.unicode
    assert "bᵀ⋅A⁻¹⋅b    otherwise" in text


# -- loops that overflow there


def rounds_of_numbers(x):
    s, t = x[0], x[1]
    if x[1] > 0:
        for _ in range(150):
            s, t = s + s * t, t * t - s
    return s + t * t


def rounds_of_arrays(x):
    u = x * 1.0
    if x[1] > 0:
        for _ in range(200):
            u = u + 0.1 * u * u * u
    return u.sum()


def rounds_of_a_longer_way(x):
    s = x[0]
    if x[1] < 0:
        s = s * 2
    else:
        for _ in range(150):
            s = s - s * s
    return s + x[1]


def rounds_within_rounds(x):
    s = x[0]
    for k in range(20):
        if x[1] > k - 1:
            for _ in range(60):
                s = s + s * s
    return s + x[1]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("f", "wanted"), [
    (rounds_of_numbers, [1, -2]), (rounds_of_arrays, [1, 1]), (rounds_of_a_longer_way, [2, 1]), (rounds_within_rounds, [1, 1]),
])  # fmt: skip
def test_loops_that_overflow_in_a_way_that_is_not_taken_leave_slopes_finite(f, wanted, exact):
    x = np.array([-3.0, -1.0])
    for found in (
        sd.grad(f, loops="keep", exact=exact)(x),
        sd.vmap(sd.grad(f, loops="keep", exact=exact))(np.stack([x, [0.1, -1.0]]))[0],
    ):
        assert np.array_equal(found, wanted)

"""Large matrices: inverses and solutions of triangular ones by halves, and sums of products that have a factor in common."""

import numpy as np
import pytest
from inside import constant_text, triangular_inverse, triangular_solution

import symdiff as sd

RNG = np.random.default_rng(5)


def likelihood(k, y):
    lower = np.linalg.cholesky(k)
    whitened = np.linalg.solve(lower, y)
    return 0.5 * (whitened @ np.linalg.solve(lower.T, whitened)) + np.log(np.diag(lower)).sum()


def fitted(a, b):
    q, r = np.linalg.qr(a)
    return np.linalg.solve(r, q.T @ b).sum()


def definite(n):
    a = RNG.normal(size=(n, n))
    return a @ a.T / n + np.eye(n)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("shape", [(130, 130), (2, 97, 97), (1, 1), (0, 0)])
@pytest.mark.parametrize("dtype", [float, complex])
def test_halves_are_numpys_inverses_and_solutions(shape, dtype, lower):
    x = RNG.normal(size=shape) + 0 * 1j if dtype is complex else RNG.normal(size=shape)
    x = (np.tril if lower else np.triu)(x / 50) + np.eye(shape[-1])
    b = RNG.normal(size=(*shape[:-1], 3)).astype(dtype)
    assert np.allclose(triangular_inverse(x, lower), np.linalg.inv(x), rtol=1e-12, atol=1e-12)
    assert np.allclose(triangular_solution(x, b, lower), np.linalg.solve(x, b), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("f", "a"), [(likelihood, definite(110)), (fitted, definite(110) + RNG.normal(size=(110, 110)))])
def test_slopes_of_large_systems(f, a, exact):
    b, way = RNG.normal(size=110), definite(110)
    value, slope = sd.value_and_grad(f, exact=exact)(a, b)
    h = 1e-6
    assert np.isclose(value, f(a, b), rtol=1e-11)
    assert np.isclose((slope * way).sum(), (f(a + h * way, b) - f(a - h * way, b)) / (2 * h), rtol=1e-5)


def test_files_have_halves_only_where_they_pay():
    cases = (110, False), (20, False), (110, True)
    large, small, exact = (sd.grad(likelihood, exact=e).source(definite(n), np.ones(n)) for n, e in cases)
    assert "_triangular_inverse(" in large and "_triangular_solution(" in large
    assert not any(f"_triangular_{what}(" in text for what in ("inverse", "solution") for text in (small, exact))


def test_files_have_matrices_of_few_diagonals_as_their_sum():
    def smoothed(x):
        return (np.linalg.cholesky(x) @ (2 * np.eye(110) - np.eye(110, k=1) - np.eye(110, k=-1))).sum()

    text = sd.grad(smoothed).source(definite(110))
    assert "2.0 * np.eye(110) - np.eye(110, k=1) - np.eye(110, k=-1)" in text
    assert "np.tri(110) - 0.5 * np.eye(110)" in text


@pytest.mark.parametrize("value", [
    np.eye(4), np.eye(3, 5), -0.1 * np.eye(4), np.tri(5) - 0.5 * np.eye(5), -3 * np.tri(4, 6), np.eye(2, 7, 3) - np.eye(2, 7),
    np.eye(4) * np.nan, np.array([[-0.0, 1.0], [1.0, 0.0]]), np.triu(np.ones((3, 3))), np.array([[0.1, 0.0], [0.3, 0.2]]),
])  # fmt: skip
def test_constants_in_files_are_the_same_to_the_bit(value):
    assert eval(constant_text(value), {"np": np}).tobytes() == value.tobytes()


def test_a_singular_one_is_numpys_error():
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        sd.grad(fitted)(np.ones((110, 110)), np.ones(110))


def squared_products(x):
    return np.sum((x.T @ x) ** 2)


def products_of_both(x, y):
    return np.sum(np.tanh(x @ y.T + y @ x.T))


def covariances(x):
    away = x - x.mean(0)
    return np.linalg.norm(away.T @ away / (len(x) - 1) - np.eye(x.shape[1]))


def three_products(x, y):
    return np.sum(np.sin(x.T @ x) + np.cos(x.T @ x) ** 2 + (x.T @ y) ** 2)


def products_of_six(x, y):
    return np.sum(np.sin(x.T @ x @ y.T[:12, :12] @ x.T @ x))


def nothing_in_common(x, y):
    return np.sum(np.sin(x @ y.T))


@pytest.mark.parametrize(("f", "joined", "apart"), [
    (squared_products, 2, 3), (covariances, 2, 3), (products_of_both, 4, 6), (three_products, 5, 8),
    (products_of_six, 11, 12), (nothing_in_common, 3, 3),
])  # fmt: skip
def test_sums_of_products_with_a_common_factor_are_one_product(f, joined, apart):
    x, y = RNG.normal(size=(20, 12)), RNG.normal(size=(20, 12))
    args = (x, y)[: f.__code__.co_argcount]
    wrt = tuple(range(len(args)))
    for exact, count in ((False, joined), (True, apart)):
        df = sd.grad(f, argnums=wrt, exact=exact)
        assert df.source(*args).count("np.matmul(") == count
        slopes, ways = df(*args), [RNG.normal(size=a.shape) for a in args]
        rise = [f(*(a + h * w for a, w in zip(args, ways, strict=True))) for h in (1e-6, -1e-6)]
        assert np.isclose(sum((s * w).sum() for s, w in zip(slopes, ways, strict=True)), (rise[0] - rise[1]) / 2e-6, rtol=1e-5)


def test_products_that_others_read_stay():
    def read_twice(x):
        first, second = x.T @ x, x.T @ (2 * x)
        return np.sum(np.sin(first + second) + first)

    x = RNG.normal(size=(20, 12))
    assert sd.trace(read_twice, x)(x) == pytest.approx(read_twice(x), rel=1e-12)

"""Programs of whole arrays as people write them, against central differences; and GMM against complex steps."""

import numpy as np
import pytest

import symdiff as sd

RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape)


def attention(Q, K, V):
    scores = Q @ K.swapaxes(-1, -2) / np.sqrt(Q.shape[-1])
    return np.sum((sd.special.softmax(scores, axis=-1) @ V) ** 2)


def normalised(X, scale, shift):
    return np.sum(np.tanh((X - X.mean(0)) / (X.std(0) + 1e-3) * scale + shift) ** 2)


def convolution(x, k):
    n = x.shape[0] - k.shape[0] + 1
    slid = sum(x[i : i + n] * k[i] for i in range(k.shape[0]))
    return np.sum(slid) ** 2 + np.sum(np.maximum(np.convolve(x, k, "same"), 0))


def recurrent(W, U, b, X):
    h = np.zeros(20)
    for t in range(X.shape[0]):
        h = np.tanh(W @ h + U @ X[t] + b)
    return h @ h


def gaussian_process(theta, X, y):
    distances = np.sum((X[:, None, :] - X[None, :, :]) ** 2, axis=-1)
    K = np.exp(theta[0]) * np.exp(-0.5 * distances * np.exp(theta[1])) + np.exp(theta[2]) * np.eye(len(y))
    return 0.5 * y @ np.linalg.solve(K, y) + np.sum(np.log(np.diag(np.linalg.cholesky(K))))


def heat(u):
    for _ in range(10):
        u = u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u)
    return np.sum(u**4)


def heat_in_place(u):
    u = u.copy()
    for _ in range(5):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return np.sum(u**4)


def pairwise(X):
    apart = X[:, None] - X[None, :] + np.eye(len(X))[:, :, None]
    return np.sum(np.linalg.norm(apart, axis=-1))


def embedding(E, W):
    tokens = np.array([3, 1, 4, 1, 5, 9, 2, 6] * 10)
    return np.sum(np.tanh(E[tokens] @ W)[np.arange(80), np.arange(80) % 7] ** 2)


def numbers_and_arrays(x, A):
    y = np.array([x[0] * 2, x[1], x[2] * x[0]])
    return np.sum(np.outer(y, np.sin(A @ np.ones(50))) ** 2) + A[3, 4] * x[1]


def nested_branches(x):
    return np.sum(np.where(x > 0, np.where(x > 1, x**3, np.log1p(np.abs(x))), np.exp(x)))


def covariance(X):
    centred = X - X.mean(0)
    return np.sum(np.abs(centred.T @ centred / (len(X) - 1)))


PROGRAMS = {
    attention: (normal(2, 3, 20, 8), normal(2, 3, 20, 8), normal(2, 3, 20, 8)),
    normalised: (normal(200, 30), normal(30), normal(30)),
    convolution: (normal(500), normal(5)),
    recurrent: (normal(20, 20) / 5, normal(20, 10) / 3, normal(20), normal(15, 10)),
    gaussian_process: (np.array([0.1, 0.2, -1.0]), normal(40, 3), normal(40)),
    heat: (normal(40, 30),),
    heat_in_place: (normal(30, 20),),
    pairwise: (normal(30, 4),),
    embedding: (normal(10, 12), normal(12, 7)),
    numbers_and_arrays: (normal(3), normal(40, 50)),
    nested_branches: (normal(1000),),
    covariance: (normal(50, 20),),
}


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_gradients(f):
    args = PROGRAMS[f]
    every = tuple(range(len(args)))
    value, gradients = sd.value_and_grad(f, every)(*args)
    assert value == pytest.approx(f(*args), rel=1e-12)
    for i, gradient in enumerate(gradients):
        d = np.cos(np.arange(args[i].size)).reshape(args[i].shape)
        step = 1e-6
        ends = [f(*(a + s * d if j == i else a for j, a in enumerate(args))) for s in (step, -step)]
        assert np.sum(gradient * d) == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("f", [attention, recurrent, heat_in_place, gaussian_process], ids=lambda f: f.__name__)
def test_products_with_hessians(f):
    args = PROGRAMS[f]
    d = np.cos(np.arange(args[0].size)).reshape(args[0].shape)
    step = 1e-6
    slopes = sd.grad(f)
    wanted = (slopes(args[0] + step * d, *args[1:]) - slopes(args[0] - step * d, *args[1:])) / (2 * step)
    np.testing.assert_allclose(sd.hvp(f)(*args, d), wanted, rtol=1e-5, atol=1e-5)


def test_mixture_of_gaussians_against_complex_steps():
    dimensions, count = 10, 1000

    def likelihood(xp_lse, alpha, mu, scale, lower, X):
        Q = np.tril(lower, -1) + np.exp(scale)[:, :, None] * np.eye(dimensions)
        y = np.einsum("kij,nkj->nki", Q, X[:, None, :] - mu)
        inner = alpha + scale.sum(1) - 0.5 * np.sum(y * y, axis=2)
        return np.sum(xp_lse(inner, 1)) - count * xp_lse(alpha, 0)

    def complex_lse(x, axis):
        m = np.max(x.real, axis=axis, keepdims=True)
        return np.squeeze(np.log(np.sum(np.exp(x - m), axis=axis, keepdims=True)) + m, axis=axis)

    args = (normal(25), normal(25, 10), normal(25, 10) / 10, normal(25, 10, 10) / 10, normal(count, dimensions))
    f = sd.value_and_grad(lambda *a: likelihood(sd.special.logsumexp, *a), (0, 1, 2, 3))
    value, gradients = f(*args)
    assert value == pytest.approx(likelihood(complex_lse, *args), rel=1e-13)
    for i, gradient in enumerate(gradients):
        for k in RNG.integers(0, args[i].size, 5):
            moved = args[i].astype(complex)
            moved.flat[k] += 1e-30j
            slope = likelihood(complex_lse, *args[:i], moved, *args[i + 1 :]).imag / 1e-30
            assert gradient.flat[k] == pytest.approx(slope, rel=1e-10, abs=1e-10)
    assert f.cost(*args).ratio < 3


def test_long_chains_compile_in_linear_time():
    def chain(x):
        for _ in range(1000):
            x = np.sin(x) + 0.1
        return np.sum(x)

    x = normal(1000)
    assert len(sd.grad(chain).graph(x).bindings) < 6000
    assert sd.grad(chain)(x).shape == (1000,)

"""The rules that Yota.jl's README and rule files give as examples, each in ten lines, as Python has them."""

from dataclasses import dataclass

import numpy as np
import pytest

import symdiff as sd

X = np.random.default_rng(0).normal(size=(3, 4))
Y = np.random.default_rng(1).normal(size=(4, 2))


def agree(ours, plain, *args):
    found, expected = (sd.grad(f, tuple(range(len(args))))(*args) for f in (ours, plain))
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-12, atol=1e-14)
    sd.check_grads(ours, args, order=1)


def test_relu():
    def relu(x):
        return np.maximum(x, 0)

    def relu_grad(x):
        return (x > 0) * 1.0

    @sd.diffrule(relu, pullback=True)
    def _(dy, y, x: sd.Array):
        return dy * relu_grad(x)

    agree(lambda x: np.sum(relu(x)), lambda x: np.sum(np.maximum(x, 0)), X)


def test_a_product_of_matrices():
    def product(u, v):
        return u @ v

    @sd.diffrule(product, pullback=True)
    def _(dy, y, u: sd.Array, v: sd.Array):
        return dy @ v.T, u.T @ dy

    agree(lambda u, v: np.sum(product(u, v) ** 2), lambda u, v: np.sum((u @ v) ** 2), X, Y)


def test_numbers_and_tensors_of_one_function():
    def times(u, v):
        return u * v

    @sd.diffrule(times, pullback=True)
    def _(dy, y, u: sd.Real, v: sd.Real):
        return v * dy, u * dy

    @sd.diffrule(times, pullback=True)
    def _(dy, y, u: sd.Array, v: sd.Real):
        return v * dy, np.sum(u * dy)

    agree(lambda u, v: times(times(v, v), v), lambda u, v: v**3, 0.0, 2.0)
    agree(lambda u, v: np.sum(times(u, v) ** 2), lambda u, v: np.sum((u * v) ** 2), X, 2.0)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_sums_and_means_along_an_axis(axis):
    def mean(x, axis):
        return np.mean(x, axis)

    @sd.diffrule(mean, pullback=True)
    def _(dy, y, x: sd.Array, axis):
        count = x.size if axis is None else x.shape[axis]
        spread = dy if axis is None else np.expand_dims(dy, axis)
        return spread * np.ones(x.shape) / count, None

    agree(lambda x: np.sum(mean(x, axis) ** 2), lambda x: np.sum(np.mean(x, axis) ** 2), X)


def test_extremes_reshaping_and_indices():
    def least(u):
        return np.min(u)

    @sd.diffrule(least, pullback=True)
    def _(dy, y, u: sd.Array):
        return (u == y) * dy

    def reshaped(u, shape):
        return np.reshape(u, shape)

    @sd.diffrule(reshaped, pullback=True)
    def _(dy, y, u: sd.Array, shape):
        return np.reshape(dy, u.shape), None

    def picked(u, k):
        return u[k]

    @sd.diffrule(picked, pullback=True)
    def _(dy, y, u: sd.Array, k):
        bar = np.zeros(u.shape)
        bar[k] = dy
        return bar, None

    agree(
        lambda u: least(u) ** 2 + np.sum(picked(reshaped(u, (2, 6)), 1) ** 2),
        lambda u: np.min(u) ** 2 + np.sum(np.reshape(u, (2, 6))[1] ** 2),
        X,
    )


def test_broadcasting():
    def shifted(x, b):
        return x + b

    @sd.diffrule(shifted, pullback=True)
    def _(dy, y, x: sd.Array, b: sd.Array):
        return dy, np.sum(dy, 0)

    def each(f, x):
        return f(x)

    @sd.diffrule(each, pullback=True)
    def _(dy, y, f, x: sd.Array):
        return None, dy * sd.derivative(f)(x)

    agree(
        lambda x, b: np.sum(each(np.tanh, shifted(x, b))),
        lambda x, b: np.sum(np.tanh(x + b)),
        X,
        X[0],
    )


@dataclass
class Linear:
    W: np.ndarray
    b: np.ndarray


def test_a_field_of_a_structure():
    def weights(m):
        return m.W

    @sd.diffrule(weights, pullback=True)
    def _(dy, y, m: Linear):
        return Linear(dy, np.zeros(m.b.shape))

    def loss(m, x):
        return np.sum(weights(m) @ x) + np.sum(m.b)

    by_model, by_x = sd.grad(loss, (0, 1))(Linear(X, X[:, 0]), Y)
    np.testing.assert_allclose(by_model.W, np.ones((3, 2)) @ Y.T)
    np.testing.assert_allclose(by_model.b, np.ones(3))
    np.testing.assert_allclose(by_x, X.T @ np.ones((3, 2)))


def test_softmax_with_cross_entropy_as_one_rule():
    def loss(logits, target):
        return np.sum(np.log(np.sum(np.exp(logits), 1)) - np.sum(target * logits, 1))

    @sd.diffrule(loss, pullback=True)
    def _(dy, y, logits: sd.Array, target):
        e = np.exp(logits - np.max(logits, 1)[:, None])
        return dy * (e / np.sum(e, 1)[:, None] - target), None

    target = np.eye(4)[[0, 2, 3]]
    found = sd.grad(lambda x: loss(x, target))(X + 1000)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, np.exp(X) / np.exp(X).sum(1)[:, None] - target, rtol=1e-10)

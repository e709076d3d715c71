"""Derivatives written by hand on whole arrays, as people write them in NumPy: without buffers.

Assumes float64 arrays. Guarantees a tuple of answers: the derivative by each argument asked for, then the value where it
is asked for. Refuses nothing.
"""

import numpy as np


def rosenbrock(x):
    """Gradient and value by slices."""
    rest = x[1:] - x[:-1] ** 2
    gradient = np.zeros_like(x)
    gradient[:-1] = -2 * (1 - x[:-1]) - 400 * x[:-1] * rest
    gradient[1:] += 200 * rest
    return gradient, np.sum((1 - x[:-1]) ** 2 + 100 * rest**2)


def product(x):
    """Gradient and value, for factors other than 0."""
    value = np.prod(x)
    return value / x, value


def matrix_function(A, B):
    """The Jacobians of (A + B)(A B)^T by A and by B."""
    eye, M, S = np.eye(len(A)), A @ B, A + B
    shared = np.einsum("ip,jq->ijpq", eye, M)
    return shared + np.einsum("jp,iq->ijpq", eye, S @ B.T), shared + np.einsum("jp,iq->ijpq", A, S)


def linear(W, X):
    """Both gradients; they need no product of matrices."""
    return np.tile(X.sum(1), (len(W), 1)), np.tile(W.sum(0)[:, None], (1, X.shape[1]))


def trace(A, B):
    """Both gradients: the transposed factors."""
    return B.T.copy(), A.T.copy()


def solve(A, b):
    """Gradients by A and b, and the value: two systems."""
    x = np.linalg.solve(A, b)
    back = np.linalg.solve(A.T, 2 * x)
    return -np.outer(back, x), back, x @ x


def layer(W, b, X):
    """Gradients by W and b, and the value."""
    activations = np.tanh(W @ X + b)
    slopes = 1 - activations * activations
    return slopes @ X.T, slopes.sum(1, keepdims=True), activations.sum()


def lse(x):
    """The softmax, and the value."""
    top = x.max()
    parts = np.exp(x - top)
    total = parts.sum()
    return parts / total, top + np.log(total)


def mixture(alpha, mu, scale, X):
    """Gradients by weights, means and scales, and the value."""
    factors = np.exp(scale)
    y = (X[:, None, :] - mu) * factors
    inner = alpha + scale.sum(1) - 0.5 * (y * y).sum(2)
    top = inner.max(1, keepdims=True)
    parts = np.exp(inner - top)
    totals = parts.sum(1, keepdims=True)
    p = parts / totals
    ends = alpha.max()
    weights = np.exp(alpha - ends)
    value = np.sum(np.log(totals) + top) - len(X) * (np.log(weights.sum()) + ends)
    weighted = p[:, :, None] * y
    by_scale = p.sum(0)[:, None] - (weighted * y).sum(0)
    return p.sum(0) - len(X) * weights / weights.sum(), weighted.sum(0) * factors, by_scale, value

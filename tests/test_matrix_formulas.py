"""Derivatives over arrays as formulas of matrices: read back by another reader, they have the derivative's value."""

import re

import numpy as np
import pytest
from sympy_values import value_of

import symdiff as sd

RNG = np.random.default_rng(7)
SIZES = {"n": 3, "m": 4, "k": 2}
LARGE = {"n": 31, "m": 33, "k": 35}
SHAPES = {
    "A": "nn", "B": "nn", "C": "nn", "M": "nn", "X": "mn", "W": "km", "Z": "nm", "s": "", "t": "",
    "x": "n", "c": "n", "y": "m", "w": "n", "b": "n", "z": "n", "p": "n",
}  # fmt: skip


def of_shapes(names, sizes):
    """Random arguments, square matrices well away from singular ones."""
    found = []
    for name in names:
        shape = tuple(sizes[k] for k in SHAPES[name])
        cells = RNG.uniform(0.2, 1.0, shape)
        found.append(cells + len(cells) * np.eye(len(cells)) if SHAPES[name] == "nn" else cells)
    return found


def logistic_loss(w, X, y):
    return np.sum(np.log(1 + np.exp(-y * (X @ w))))


def softmax_loss(z, p):
    shifted = z - np.max(z)
    return -np.sum(p * (shifted - np.log(np.sum(np.exp(shifted)))))


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


# code, and the words of its gradients by all arguments
TABLE = {
    "quadratic form": (lambda x, A, c: 0.5 * x @ A @ x - c @ x, ["(1/2)*(A + A.T)*x - c", "(1/2)*x*x.T", "-x"]),
    "linear in exp": (lambda x, A: np.sum(A @ np.exp(x)), [None, None]),
    "solve": (lambda A, b: b @ np.linalg.solve(A, b), ["-((A)**(-1)).T*b*b.T*((A)**(-1)).T", "((A)**(-1) + ((A)**(-1)).T)*b"]),
    "log det": (lambda A: np.linalg.slogdet(A)[1], ["((A)**(-1)).T"]),
    "log det inv": (lambda A: np.log(np.linalg.det(np.linalg.inv(A))), ["-((A)**(-1)).T"]),
    "det": (lambda A: np.linalg.det(A), ["Determinant(A)*((A)**(-1)).T"]),
    "trace": (lambda A, M, B, C: np.trace(A @ M.T @ B @ M @ C), [None, "B*M*C*A + B.T*M*A.T*C.T", None, None]),
    "trace of inv": (lambda A: np.trace(np.linalg.inv(A)), ["-((A)**(-1)).T*((A)**(-1)).T"]),
    "norm": (lambda x: np.linalg.norm(x), ["1/sqrt(Trace(x.T*x))*x"]),
    "norm of a matrix": (lambda A: np.linalg.norm(A), ["1/sqrt(Trace(A.T*A))*A"]),
    "distance": (lambda x, A, b: np.linalg.norm(A @ x - b), ["1/sqrt(Trace((A*x - b).T*(A*x - b)))*A.T*(A*x - b)", None, None]),
    "tanh layer": (lambda W, Z: np.sum(np.tanh(W @ np.tanh(Z).T)), [None, None]),
    "logistic": (logistic_loss, [None, None, None]),
    "softmax": (softmax_loss, [None, None]),
    "log softmax": (lambda z: -sd.special.log_softmax(z)[1], [None]),
    "log sum exp": (lambda x: np.log(np.sum(np.exp(x))), ["1/Trace(1*Lambda(d, exp(d)).(x))*Lambda(d, exp(d)).(x)"]),
    "rosenbrock": (rosenbrock, [None]),
    "variance": (lambda x: np.var(x), [None]),
    "row norms": (lambda X: np.sum(np.sqrt(np.sum(X**2, axis=1))), [None]),
    "column means": (lambda X, x: np.sum((X.mean(axis=0) - x) ** 2), [None, None]),
    "outer": (lambda x, A: np.sum(np.outer(x, x) * A), ["(A + A.T)*x", "x*x.T"]),
    "pairs": (lambda x, A: np.sum((x[:, None] - x[None, :]) ** 2 * A), [None, None]),
    "einsum": (lambda A, B, x: np.einsum("ij,jk,k->", A, B, x), [None, None, "B.T*A.T*1"]),
    "hadamard": (lambda A, B: np.sum(A * B) ** 2, ["2*Trace(A.T*B)*B", "2*Trace(A.T*B)*A"]),
    "diagonal": (lambda A, x: np.sum(np.diag(A) * x), [None, None]),
    "diag": (lambda x, A: np.sum(np.diag(x) @ A @ x), [None, None]),
    "brace": (lambda x: np.sum(np.where(x > 0.5, x * x, 0.2 * x)), [None]),
    "relu": (lambda X, x: np.sum(np.maximum(X @ x - 0.9, 0)), [None, None]),
    "largest": (lambda x: np.max(x) ** 2, [None]),
    "ravel": (lambda A: np.sum(np.ravel(np.sin(A)) ** 3), [None]),
    "reversed": (lambda x, c: np.sum(x[::-1] * c * x), [None, None]),
    "one cell": (lambda x: np.exp(-x @ x) * x[0] * np.sum(x), [None]),
    "concatenated": (lambda x, y: np.sum(np.concatenate([x, y]) ** 3), [None, None]),
    "numbers": (lambda s, x, t: s * np.sum(np.exp(-t * x * x)), [None, None, None]),
    "set": (lambda x: np.sum(np.sin(_with_first(x))), [None]),
}  # fmt: skip
FEW = {"largest", "set"}  # names each cell


def _with_first(x):
    y = np.array(x) * 2
    y[0] = x[1] ** 2
    return y


def arguments(f):
    return f.__code__.co_varnames[: f.__code__.co_argcount]


@pytest.mark.parametrize("name", TABLE)
def test_a_gradient_in_words_of_matrices(name):
    f, wanted = TABLE[name]
    names = arguments(f)
    small, large = of_shapes(names, SIZES), of_shapes(names, LARGE)
    slope = sd.grad(f, argnums=tuple(range(len(names))))
    found = slope.graph(*small).expr
    found = found if isinstance(found, list) else [found]
    assert len(found) == len(names)
    given = dict(zip(names, small, strict=True))
    for expr, number, words, exact in zip(found, names, wanted, slope(*small), strict=True):
        assert words is None or str(expr) == words, number
        np.testing.assert_allclose(np.ravel(np.asarray(value_of(expr, given), float)), np.ravel(exact), rtol=1e-9, atol=1e-12)
    if name not in FEW:
        other = slope.graph(*large).expr
        other = other if isinstance(other, list) else [other]
        assert [worded(e) for e in other] == [worded(e) for e in found]


def worded(expr):
    """An expression without its numbers, which are extents of arrays."""
    return re.sub(r"\d+", "#", str(expr))


def test_values_are_shown_in_words_too():
    x, A = of_shapes("xA", SIZES)
    found = sd.trace(lambda x, A: A @ x - 2, x, A).expr
    assert str(found) == "A*x - 2*1" and str(sd.trace(lambda A: A.T @ A, A).expr) == "A.T*A"
    np.testing.assert_allclose(value_of(found, {"x": x, "A": A})[:, 0], A @ x - 2)
    both = sd.value_and_grad(lambda x: np.sum(x * x)).graph(x).expr
    assert [str(e) for e in both] == ["Trace(x.T*x)", "2*x"]


def test_second_derivatives_and_jacobians():
    x, A = of_shapes("xA", SIZES)
    given = {"x": x, "A": A}
    for f in (lambda x, A: 0.5 * x @ A @ x, lambda x, A: np.sum(np.exp(A @ x))):
        found = sd.hessian(f).graph(x, A).expr
        np.testing.assert_allclose(value_of(found, given), sd.hessian(f)(x, A), rtol=1e-9)
    jacobian = sd.jacobian(lambda x, A: A @ np.sin(x))
    np.testing.assert_allclose(value_of(jacobian.graph(x, A).expr, given), jacobian(x, A), rtol=1e-9)

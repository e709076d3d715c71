"""Derivatives over arrays as formulas of matrices: read back by another reader, they have the derivative's value."""

import re

import numpy as np
import pytest
from inside import latex_of
from shown_values import formula_values
from sympy_values import value_of

import symdiff as sd

RNG = np.random.default_rng(7)
SIZES = {"n": 3, "m": 4, "k": 2}
LARGE = {"n": 31, "m": 33, "k": 35}
SHAPES = {
    "A": "nn", "B": "nn", "C": "nn", "M": "nn", "X": "mn", "W": "kn", "Z": "mn", "s": "", "t": "",
    "x": "n", "c": "n", "y": "m", "w": "n", "b": "n", "z": "n", "p": "n", "h": "k",
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


def mean_squares(w, X, y):
    r = X @ w - y
    return np.mean(r**2)


def layer(W, Z, h):
    T = np.tanh(W @ Z.T + h[:, None])
    return np.sum(T)


def attention(x, A, b):
    p = sd.special.softmax(A @ x)
    return p @ b


def huber(w, X, y):
    r = X @ w - y
    return np.sum(np.where(np.abs(r) < 1, 0.5 * r**2, np.abs(r) - 0.5))


def named(X, x):
    Y = X - x
    return np.linalg.slogdet(Y.T @ Y / 5 + 0.1 * np.eye(3 if len(x) == 3 else 31))[1]


def with_first(x):
    y = np.array(x) * 2
    y[0] = x[1] ** 2
    return np.sum(np.sin(y))


T = r"^{\top}"
SOFTMAX = r"\operatorname{softmax}\left(z\right)"

# code, and the LaTeX of its gradients by all arguments
TABLE = {
    "quadratic form": (
        lambda x, A, c: 0.5 * x @ A @ x - c @ x,
        [rf"\frac{{1}}{{2}} \left(A + A{T}\right) x - c", rf"\frac{{1}}{{2}} x x{T}", "- x"],
    ),
    "linear in exp": (lambda x, A: np.sum(A @ np.exp(x)), [rf"\left(A{T} \mathbf{{1}}\right) \circ e^{{x}}", None]),
    "solve": (
        lambda A, b: b @ np.linalg.solve(A, b),
        [r"- A^{-\top} b b^{\top} A^{-\top}", r"\left(A^{-1} + A^{-\top}\right) b"],
    ),
    "log det": (lambda A: np.linalg.slogdet(A)[1], [r"A^{-\top}"]),
    "log det inv": (lambda A: np.log(np.linalg.det(np.linalg.inv(A))), [r"- A^{-\top}"]),
    "det": (lambda A: np.linalg.det(A), [r"\operatorname{det}{\left(A \right)} A^{-\top}"]),
    "trace": (lambda A, M, B, C: np.trace(A @ M.T @ B @ M @ C), [None, rf"B{T} M A{T} C{T} + B M C A", None, None]),
    "trace of inv": (lambda A: np.trace(np.linalg.inv(A)), [r"- A^{-\top} A^{-\top}"]),
    "norm": (lambda x: np.linalg.norm(x), [r"\frac{x}{\left\lVert x \right\rVert}"]),
    "norm of a matrix": (lambda A: np.linalg.norm(A), [r"\frac{A}{\left\lVert A \right\rVert_F}"]),
    "distance": (lambda x, A, b: np.linalg.norm(A @ x - b), [rf"\frac{{A{T} u}}{{\left\lVert u \right\rVert}}", None, None]),
    "mean squares": (mean_squares, [rf"\frac{{2}}{{n}} X{T} r", rf"\frac{{2}}{{n}} r w{T}", r"- \frac{2}{n} r"]),
    "layer": (layer, ["u Z", rf"u{T} W", r"u \mathbf{1}"]),
    "two layers": (lambda W, Z: np.sum(np.tanh(W @ np.tanh(Z).T)), [None, None]),
    "logistic": (logistic_loss, [None, None, None]),
    "softmax": (softmax_loss, [rf"\left(\mathbf{{1}}{T} p\right) {SOFTMAX} - p", None]),
    "cross entropy": (lambda z, p: np.log(np.sum(np.exp(z))) - z @ p, [rf"{SOFTMAX} - p", "- z"]),
    "log softmax": (lambda z: -sd.special.log_softmax(z)[1], [rf"{SOFTMAX} - \mathbf{{e}}_{{1}}"]),
    "log sum exp": (lambda z: np.log(np.sum(np.exp(z))), [SOFTMAX]),
    "softmax of rows": (lambda X: -np.mean(sd.special.log_softmax(X, axis=1)[:, 0]), [None]),
    "attention": (attention, [None, None, None]),
    "rosenbrock": (rosenbrock, [None]),
    "variance": (lambda x: np.var(x), [None]),
    "row norms": (lambda X: np.sum(np.sqrt(np.sum(X**2, axis=1))), [None]),
    "column means": (lambda X, x: np.sum((X.mean(axis=0) - x) ** 2), [None, None]),
    "outer": (lambda x, A: np.sum(np.outer(x, x) * A), [rf"\left(A + A{T}\right) x", rf"x x{T}"]),
    "pairs": (lambda x, A: np.sum((x[:, None] - x[None, :]) ** 2 * A), [None, r"u \circ u"]),
    "einsum": (lambda A, B, x: np.einsum("ij,jk,k->", A, B, x), [None, None, rf"B{T} A{T} \mathbf{{1}}"]),
    "kernel": (lambda A, x: x @ np.linalg.solve(np.exp(A) + 0.1 * np.eye(len(A)), x), [None, None]),
    "hadamard": (lambda A, B: np.sum(A * B) ** 2, ["2 u B", "2 u A"]),
    "diagonal": (lambda A, x: np.sum(np.diag(A) * x), [None, r"\operatorname{diag}{\left(A \right)}"]),
    "diag": (lambda x, A: np.sum(np.diag(x) @ A @ x), [rf"\left(A + A{T}\right) x", rf"x x{T}"]),
    "brace": (lambda x: np.sum(np.where(x > 0.5, x * x, 0.2 * x)), [None]),
    "relu": (lambda X, x: np.sum(np.maximum(X @ x - 0.9, 0)), [None, rf"X{T} \left[X x - 0.9 > 0\right]"]),
    "largest": (lambda x: np.max(x) ** 2, [None]),
    "largest of columns": (
        lambda X: np.sum(np.max(X**2, axis=0)),
        [r"2 X_{i,j} \left[X_{i,j}^{2} = \max_{k} X_{k,j}^{2}\right]"],
    ),
    "smallest": (lambda X: np.log(np.min(X)), [None]),
    "ravel": (lambda A: np.sum(np.ravel(np.sin(A)) ** 3), [None]),
    "reversed": (lambda x, c: np.sum(x[::-1] * c * x), [None, None]),
    "one cell": (lambda x: np.exp(-x @ x) * x[0] * np.sum(x), [None]),
    "concatenated": (lambda x, y: np.sum(np.concatenate([x, y]) ** 3), [r"3 x \circ x", r"3 y \circ y"]),
    "masked": (lambda x, c: np.sum((x > 0.5) * c * x**2), [r"2 c \circ x \circ \left[x > \frac{1}{2}\right]", None]),
    "condition": (lambda x, s: np.logical_and(s < 0.9, x[0] > 0.1) * np.sum(x**3), [None, None]),
    "huber": (huber, [rf"X{T} u", rf"u w{T}", "- u"]),
    "named": (named, [r"0.4 Y u^{-1}", None]),
    "numbers": (lambda s, x, t: s * np.sum(np.exp(-t * x * x)), [rf"\mathbf{{1}}{T} e^{{- t x \circ x}}", None, None]),
    "set": (with_first, [None]),
}  # fmt: skip
FEW = {"largest", "set", "largest of columns", "smallest"}  # names each cell


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
    graph, exact = slope.graph(*small), slope(*small)
    given = dict(zip(names, small, strict=True))
    for expr, number in zip(in_list(graph.expr), exact, strict=True):
        np.testing.assert_allclose(np.ravel(np.asarray(value_of(expr, given), float)), np.ravel(number), rtol=1e-9, atol=1e-12)
    again = sd.Graph.from_sympy(graph.expr)
    columns = [np.reshape(given[leaf.name], leaf.shape) for leaf in again.inputs]
    for found, number in zip(in_list(again(*columns)), exact, strict=True):
        np.testing.assert_allclose(np.ravel(found), np.ravel(number), rtol=1e-9, atol=1e-12)
    formula = graph.formula
    assert formula.unicode and formula.mathml and "array" not in formula.latex
    for equation, text in zip(formula.equations, wanted, strict=True):
        assert text is None or latex_of(equation.right) == text
    for shown, number in zip(formula_values(formula, given, [np.shape(n) for n in exact]), exact, strict=True):
        np.testing.assert_allclose(shown, number, rtol=1e-9, atol=1e-12)
    if name not in FEW:
        other = slope.graph(*large)
        assert worded(other.formula.latex) == worded(formula.latex)
        assert [worded(e) for e in in_list(other.expr)] == [worded(e) for e in in_list(graph.expr)]


def test_the_nearest_of_many_points():
    X, W = RNG.uniform(0.2, 1.0, (6, 3)), RNG.uniform(0.2, 1.0, (5, 3))

    def spread(W, X):
        D = np.sum((X[:, None, :] - W[None, :, :]) ** 2, axis=2)
        return np.mean(np.min(D, axis=1))

    slope = sd.grad(spread)
    exact = slope(W, X)
    formula = slope.formula
    assert r"\min_{l} \sum_{p=0}^{m - 1}" in formula.latex and "away from kinks" in formula.latex
    (shown,) = formula_values(formula, {"W": W, "X": X, "n": 6, "m": 3}, [exact.shape])
    np.testing.assert_allclose(shown, exact, rtol=1e-9)


def in_list(found):
    return list(found) if isinstance(found, (list, tuple)) else [found]


def worded(expr):
    """An expression without its numbers, which are extents of arrays."""
    return re.sub(r"\(A\)\*\*", "A**", re.sub(r"\d+", "#", str(expr)))


def test_letters_of_pieces_are_numbered_where_several_have_one():
    W, b, M, x = of_shapes("MbMx", LARGE)
    one = sd.grad(lambda W, b, M, x: np.sum(np.tanh(W @ x + b) ** 3)).graph(W, b, M, x).formula.latex
    two = sd.grad(lambda W, b, M, x: np.sum(np.tanh(M @ np.tanh(W @ x + b)) ** 2)).graph(W, b, M, x).formula.latex
    assert r"T &= \tanh{\left(W x + b \right)}" in one and "T_" not in one
    assert r"T_{1} &= \tanh{\left(W x + b \right)}" in two and r"T_{2} &= \tanh{\left(M T_{1} \right)}" in two


def test_values_are_shown_in_words_too():
    x, A = of_shapes("xA", SIZES)
    found = sd.trace(lambda x, A: A @ x - 2, x, A).expr
    assert str(sd.trace(lambda A: A.T @ A, A).expr) == "A.T*A"
    np.testing.assert_allclose(value_of(found, {"x": x, "A": A})[:, 0], A @ x - 2)
    both = sd.value_and_grad(lambda x: np.sum(x * x)).graph(x).expr
    assert [str(e) for e in both] == ["Trace(x.T*x)", "2*x"]


def test_a_diagonal_of_cells_has_words():
    A, x = of_shapes("Ax", SIZES)

    def f(A, x, s):
        return np.linalg.det(A) * np.sum(np.diag(np.array([[s, s * 2, 1.0], [s, s, s], [A[0, 0], s, s]])) * x)

    graph = sd.trace(f, A, x, 2.0)
    np.testing.assert_allclose(float(np.squeeze(value_of(graph.expr, {"A": A, "x": x, "s": 2.0}))), f(A, x, 2.0), rtol=1e-12)


def test_second_derivatives_and_jacobians():
    x, A = of_shapes("xA", SIZES)
    given = {"x": x, "A": A}
    for f in (lambda x, A: 0.5 * x @ A @ x, lambda x, A: np.sum(np.exp(A @ x))):
        found = sd.hessian(f).graph(x, A).expr
        np.testing.assert_allclose(value_of(found, given), sd.hessian(f)(x, A), rtol=1e-9)
    jacobian = sd.jacobian(lambda x, A: A @ np.sin(x))
    np.testing.assert_allclose(value_of(jacobian.graph(x, A).expr, given), jacobian(x, A), rtol=1e-9)

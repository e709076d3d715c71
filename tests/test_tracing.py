"""Tracing: what is followed, what is refused, and that refusals name the user's line."""

import collections
import ctypes
import functools
import pickle
import re

import numpy as np
import optree
import pytest
import sympy as sp
from inside import Plain

import symdiff as sd

A = np.arange(6.0).reshape(2, 3)


def helper(x):
    return x * x + 1


def power(x, n):
    return 1.0 if n == 0 else x * power(x, n - 1)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * np.sum(x)


FUNCTIONS = [
    lambda x: x[0] + x[-1],
    lambda x: sum(x[1:]),
    lambda x: sum(a * b for a, b in zip(x, x[::-1], strict=True)),
    lambda x: x[[0, 2]] @ x[[1, 2]],
    lambda x: np.sum(x[np.array([True, False, True])]),
    lambda x: len(x) * x[1],
    lambda x: [helper(v) for v in x],
    lambda x: power(x[0], 5),
    lambda x: (x + 1) @ (2 - x),
    lambda x: 1 / (3 + x),
    lambda x: 2**x + x**2 + abs(x) + (-x) + pow(x, 3),
    lambda x: np.float64(2) * x - x * np.array([1.0, 2.0, 3.0]),
    lambda x: np.array([1.0, 2.0, 3.0]) / (x + 4),
    lambda x: np.array([x[0], 2.0, x[1] * x[2]]) * 2,
    lambda x: np.sin(np.array([x[0], x[1]])),
    lambda x: np.stack([x, x**2]).sum(axis=0),
    lambda x: np.concatenate([x, x])[1:4],
    lambda x: np.outer(x, x).T.ravel(),
    lambda x: np.cross(x, np.array([1.0, 2.0, 3.0])),
    lambda x: np.dot(A, x) + np.inner(A, x) + A @ x + np.matmul(A, x),
    lambda x: np.where(x > 0.5, x, -x),
    lambda x: np.clip(x, 0.2, 0.8) + np.minimum(x, 0.5) * np.maximum(x, 0.1),
    lambda x: np.prod(x) + np.mean(x) + np.linalg.norm(x),
    lambda x: x.sum() + x.mean() + x.prod() + x.dot(x),
    lambda x: x.reshape(3, 1) * x,
    lambda x: np.add.reduce(x * x),
    lambda x: np.cumsum(x),
    lambda x: np.einsum("i,i->", x, x),
    lambda x: np.var(x) + np.std(x),
    lambda x: np.polyval([1.0, 2.0, 3.0], x),
    lambda x: functools.reduce(lambda a, b: a * b, x),
    lambda x: functools.partial(np.add, 1.0)(x),
    Scaled(3.0),
    lambda x: (x[0], [x[1], x[2]]),
    lambda x: {"a": x[0], "b": x[1:]},
    lambda x: np.logaddexp(x, 0.3) + np.hypot(x, 2.0) + np.arctan2(x, 1.0),
    lambda x: np.square(x) + np.reciprocal(x + 1) + np.deg2rad(x) + np.sinc(x) + np.heaviside(x, 0.5),
    lambda x: np.tensordot(x, x, axes=1) + np.kron(x, x)[0] + np.trace(np.outer(x, x)),
    lambda x: (x > 0.5) * x,
    lambda x: x % 0.3 + x // 0.3 + np.fmod(x, 0.3) + np.floor(x * 5) + np.copysign(x, -1.0),
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_traced_equals_called(f):
    x = np.array([0.3, 0.7, 0.45])
    expected = f(x)
    graph = sd.trace(f, x)
    flat = lambda result: np.concatenate([np.ravel(v) for v in optree.tree_leaves(result)])  # noqa: E731
    np.testing.assert_allclose(flat(graph(x)), flat(expected), rtol=1e-14)
    for backend in ("python", "numpy"):
        compiled = Plain(f, backend=backend)
        np.testing.assert_allclose(flat(compiled(x)), flat(expected), rtol=1e-13)
    sd.check_grads(f, (x,)) if "floor" not in str(graph) else None


def refused(f, *args):
    with pytest.raises(sd.TraceError) as caught:
        sd.trace(f, *args)
    message = str(caught.value)
    assert re.search(r"test_tracing\.py:\d+", message), message
    return message


CONSTANT = np.ones(3)


def in_place(x):
    y = CONSTANT
    y += x
    return y


def assigned(x):
    x[0] = 1.0
    return x


@pytest.mark.parametrize(
    ("f", "way_out"),
    [
        (lambda x: int(x[0] * 1j), "real number"),
        (lambda x: x[0] if x > 0 else x[1], "np.where"),
        (np.linalg.det, "square matrices"),
        (lambda x: np.unique(x), "not supported"),
        (in_place, "y = y + x"),
        (assigned, "x = x.copy()"),
        (lambda x: range(x[0]), "static"),
        (lambda x: A[x[0]], "int(x)"),
        (lambda x: np.add(x, 1.0, where=x > 0), "np.where"),
        (lambda x: x + np.ones(4), "broadcast"),
        (lambda x: None, "return"),
        (lambda x: x @ np.ones((2, 2)), "matmul"),
        (lambda x: np.array(["a"]) * x, "dtype"),
        (lambda x: pickle.loads(pickle.dumps([x, 1.0]))[0], "deepcopy"),
    ],
)
def test_refusals_name_the_line_and_the_way_out(f, way_out):
    assert way_out in refused(f, np.array([0.3, 0.7, 0.45]))


def test_traced_values_do_not_leak():
    kept = []
    sd.trace(lambda x: kept.append(x) or x, 1.0)
    assert kept == []
    out_of_reach = collections.deque()
    sd.trace(lambda x: out_of_reach.append(x) or x, 1.0)
    assert not out_of_reach
    place = id(out_of_reach)
    sd.trace(lambda x: ctypes.cast(place, ctypes.py_object).value.append(x) or x, 1.0)
    assert "earlier" in refused(lambda x: x + out_of_reach[0], 1.0)


def test_graph_prints_and_inlines():
    graph = sd.trace(lambda x, y: x * np.exp(-y), 1.0, 2.0)
    text = str(graph)
    assert "exp" in text and re.search(r"test_tracing\.py:\d+", text) and "f64" in text
    x, y = sp.symbols("x y")
    assert sp.simplify(graph.expr - x * sp.exp(-y)) == 0
    replacements, reduced = graph.cse()
    assert len(reduced) == 1 and isinstance(replacements, list)
    assert all(isinstance(b.expr, sp.Basic) for b in graph.bindings)


def test_graph_from_sympy():
    x, y = sp.symbols("x y")
    expr = sp.sqrt(x) / y + sp.Max(x, y) + sp.Piecewise((x, x > 1), (y, True)) + sp.Rational(1, 3) * sp.pi
    graph = sd.Graph.from_sympy([x, y], expr)
    assert graph(2.0, 3.0) == pytest.approx(float(expr.subs({x: 2, y: 3})))
    with pytest.raises(sd.TraceError, match="polylog"):
        sd.Graph.from_sympy([x], sp.polylog(2, x))


def test_inlining_stops_before_it_explodes():
    def f(x):
        for _ in range(40):
            x = x * x + x
        return x

    with pytest.raises(sd.TraceError, match="nodes"):
        _ = sd.trace(f, 0.1).expr
    assert len(sd.grad(f).graph(0.1)._repr_latex_()) < 100_000


def test_deep_chains():
    def f(x):
        for _ in range(3000):
            x = np.sin(x)
        return x

    value, slope = sd.value_and_grad(f)(0.5)
    expected, x = 1.0, 0.5
    for _ in range(3000):
        expected, x = expected * np.cos(x), np.sin(x)
    assert value == pytest.approx(x) and slope == pytest.approx(expected)
    assert str(sd.trace(f, 0.5)).count("sin") == 3000


def test_an_opaque_function_is_called_once():
    calls = []

    def big(x):
        calls.append(x)
        return x**3

    sd.primitive(big)
    sd.diffrule(big)(lambda out, x: 3 * out / x)
    both = sd.value_and_grad(lambda x: 2 * big(x))
    assert both(2.0) == (16.0, 24.0)
    calls.clear()
    assert both(3.0) == (54.0, 54.0)
    assert len(calls) == 1
    with pytest.raises(sd.ExportError, match="opaque"):
        both.source(2.0)

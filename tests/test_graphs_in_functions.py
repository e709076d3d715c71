"""A finished graph that a traced function calls is part of that function, as the function is that it was made of."""

import numpy as np
import pytest
import sympy as sp

import symdiff as sd

X = np.array([0.3, -1.2, 0.8])


def wave(x):
    return np.sin(x) * x


def bent(x):
    return np.sqrt(x) if x > 0.5 else x * x


def both(x, p):
    return np.sum(x * p["a"]), x * 2.0


def long(x):
    s = x
    for _ in range(6000):
        s = np.sin(s) + 0.1 * x
    return s


def checked(x):
    if x < 0:
        raise ValueError("negative")
    return x * x


CASES = {
    "number": (sd.trace(wave, 1.0), wave),
    "derivative": (sd.grad(wave).graph(1.0), sd.grad(wave)),
    "second": (sd.derivative(wave, order=2).graph(1.0), sd.derivative(wave, order=2)),
    "branch": (sd.trace(bent, 1.0), bent),
    "raising": (sd.trace(checked, 1.0), checked),
    "loop": (sd.trace(long, 1.0), long),
    "expression": (sd.Graph.from_sympy([sp.Symbol("x")], [sp.sin(sp.Symbol("x")) ** 2]), lambda x: np.sin(x) ** 2),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("x", [1.3, 0.2])
def test_a_graph_is_its_function(name, x):
    graph, f = CASES[name]
    kinds = [sd.value_and_grad, lambda f: sd.vmap(sd.grad(f)), sd.derivative, lambda f: sd.trace(f, 1.0), sd.hessian]
    for kind in kinds[:1] if name == "loop" else kinds:
        at = np.array([x, x]) if kind is kinds[1] else x
        found, wanted = kind(lambda x: graph(x * x) * x)(at), kind(lambda x: f(x * x) * x)(at)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_what_a_graph_raises_is_raised():
    with pytest.raises(ValueError, match="negative"):
        sd.grad(lambda x: CASES["raising"][0](x) * 2)(-1.0)


def test_graphs_of_arrays_and_structures():
    graph = sd.trace(both, X, {"a": 2.0})
    value, slope = sd.value_and_grad(lambda x: graph(x, x[0])[0] + np.sum(graph(x, 1.0)[1]))(X)
    np.testing.assert_allclose(value, np.sum(X * X[0]) + 2 * X.sum())
    np.testing.assert_allclose(slope, X[0] + 2 + np.array([X.sum(), 0, 0]))
    real, square = sd.trace(wave, 1.0), sd.trace(lambda z: z * z, 1j)
    assert sd.grad(lambda x: square(x + 1j).imag)(2.0) == 2.0
    with pytest.raises(sd.ShapeError, match=r"test_graphs_in_functions\.py:\d+: x of wave is d\(\); D\(\) is given"):
        sd.grad(lambda x: real(x + 1j).real)(2.0)
    with pytest.raises(sd.ShapeError, match=r"\.py:\d+: x of both is d\(3,\); d\(2,\) is given"):
        sd.grad(lambda x: graph(x, 1.0)[0])(X[:2])
    with pytest.raises(sd.ShapeError, match="the inputs are"):
        sd.grad(lambda x: real(x, x))(2.0)
    with pytest.raises(sd.ShapeError, match="a number or an array for each"):
        graph(X, {"a": 2.0})


def test_arrays_that_a_graph_captures_are_read_at_each_call():
    box = {"w": np.arange(100.0)}
    graph = sd.trace(lambda x: np.sum(box["w"] * x), 1.0)
    ways = [sd.grad(graph), sd.grad(lambda x: graph(x) * 1.0), sd.vmap(sd.grad(lambda x: graph(x)))]
    for change in (lambda: None, lambda: box["w"].__imul__(2), lambda: box.update(w=np.ones(100))):
        change()
        for k, g in enumerate(ways):
            np.testing.assert_allclose(g(np.ones(2) if k == 2 else 1.0), box["w"].sum())


def test_a_replaced_graph_is_seen():
    box = {"g": sd.trace(wave, 1.0)}
    g = sd.grad(lambda x: box["g"](x))
    assert g(0.7) == sd.grad(wave)(0.7)
    box["g"] = sd.trace(lambda x: x * x, 1.0)
    assert g(0.7) == 1.4

"""Structures of arrays as arguments and results; gradients in their own structure; updates that are whole or not at all."""

import collections
import dataclasses
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from inside import structures

import symdiff as sd


@dataclass(frozen=True)
class Linear:
    W: np.ndarray
    b: np.ndarray
    name: str = "linear"


@dataclass
class Network:
    layers: list
    scale: float
    note: object = field(default=None)


class Pair(NamedTuple):
    a: float
    b: np.ndarray


def linear(seed=0, n=3, m=4):
    rng = np.random.default_rng(seed)
    return Linear(rng.standard_normal((n, m)), np.zeros(n))


def loss(m, x):
    return np.sum(m.W @ x)


def output(net, x):
    for layer in net.layers:
        x = np.tanh(layer.W @ x + layer.b)
    return np.sum(x) * net.scale


def test_a_linear_layer():
    m, x = linear(), np.arange(20.0).reshape(4, 5)
    value, gradient = sd.value_and_grad(loss)(m, x)
    assert isinstance(gradient, Linear) and gradient.name == "linear"
    np.testing.assert_allclose(value, np.sum(m.W @ x), rtol=1e-14)
    np.testing.assert_allclose(gradient.W, np.ones((3, 5)) @ x.T)
    np.testing.assert_array_equal(gradient.b, np.zeros(3))
    np.testing.assert_allclose(sd.grad(loss, 1)(m, x), m.W.T @ np.ones((3, 5)))
    by_model, by_input = sd.grad(loss, (0, 1))(m, x)
    assert isinstance(by_model, Linear) and by_input.shape == (4, 5)
    assert "m_W" in str(sd.trace(loss, m, x)) and [leaf.path for leaf in sd.trace(loss, m, x).inputs] == ["m.W", "m.b", "x"]


def test_out_has_the_structure_of_the_result():
    m, x = linear(), np.ones((4, 2))
    out = (np.empty(()), Linear(np.empty((3, 4)), np.empty(3), "out"))
    assert sd.value_and_grad(loss)(m, x, out=out) is out
    value, gradient = sd.value_and_grad(loss)(m, x)
    assert out[0] == value and out[1].name == "out"
    np.testing.assert_array_equal(out[1].W, gradient.W)
    with pytest.raises(sd.ShapeError, match="structure"):
        sd.value_and_grad(loss)(m, x, out=(np.empty(()), np.empty((3, 4))))


def test_nested_structures_and_paths():
    net = Network([linear(1, 2, 3), linear(2, 1, 2)], 2.0)
    gradient = sd.grad(output)
    found = gradient(net, np.ones(3))
    paths = sd.by_path(found)
    assert {p for p, v in paths.items() if isinstance(v, (np.ndarray, np.floating))} == {
        "layers[0].W", "layers[0].b", "layers[1].W", "layers[1].b", "scale",
    }  # fmt: skip
    step = 1e-6
    for layer in (0, 1):
        for i in np.ndindex(net.layers[layer].b.shape):
            old = net.layers[layer].b[i]
            values = []
            for sign in (1, -1):
                net.layers[layer].b[i] = old + sign * step
                values.append(output(net, np.ones(3)))
            net.layers[layer].b[i] = old
            assert paths[f"layers[{layer}].b"][i] == pytest.approx((values[0] - values[1]) / (2 * step), abs=1e-7)
    again = gradient(net, np.ones(3))
    assert again.layers[0].W is not found.layers[0].W


@pytest.mark.parametrize("make", [dict, lambda **k: Pair(**k)], ids=["dict", "namedtuple"])
def test_containers_come_back_as_they_were(make):
    p = make(a=2.0, b=np.ones(2))
    get = (lambda p, k: p[k]) if make is dict else getattr
    gradient = sd.grad(lambda p: get(p, "a") * np.sum(get(p, "b") ** 2))(p)
    assert type(gradient) is type(p) and get(gradient, "a") == 2.0
    np.testing.assert_array_equal(get(gradient, "b"), [4.0, 4.0])
    result = sd.jacobian(lambda p: Pair(get(p, "a"), get(p, "b") * get(p, "a")))(p)
    assert isinstance(result, Pair) and type(result.b) is type(p)
    assert get(result.b, "b").shape == (2, 2)


def test_every_transform_takes_structures():
    m, x = linear(), np.ones((4, 2))
    f = lambda m, x: np.sum(np.sin(m.W @ x) ** 2)  # noqa: E731
    gradient = sd.grad(f)(m, x)
    product = sd.hvp(f)(m, x, gradient)
    ahead, behind = (sd.grad(f)(Linear(m.W + s * 1e-6 * gradient.W, m.b), x) for s in (1, -1))
    np.testing.assert_allclose(product.W, (ahead.W - behind.W) / 2e-6, rtol=1e-6, atol=1e-7)
    tangent = sd.jvp(f)(m, x, gradient)[1]
    assert tangent == pytest.approx(np.sum(gradient.W**2))
    np.testing.assert_allclose(sd.vjp(f)(m, x, 1.0)[1].W, gradient.W)


class Custom:
    def __init__(self, w, label):
        self.w, self.label = w, label


sd.register(Custom, lambda c: ((c.w,), c.label), lambda label, children: Custom(*children, label))


def test_registered_objects():
    gradient = sd.grad(lambda c: np.sum(c.w**3))(Custom(np.array([1.0, 2.0]), "mine"))
    assert isinstance(gradient, Custom) and gradient.label == "mine"
    np.testing.assert_array_equal(gradient.w, [3.0, 12.0])


def test_update_in_place_and_anew():
    frozen, net = linear(), Network([linear(1, 2, 3)], 2.0, note="kept")
    W, old = frozen.W, frozen.W.copy()
    after = sd.update(frozen, Linear(np.ones((3, 4)), np.ones(3)), lambda p, dp: p - 0.5 * dp)
    assert after is not frozen and after.W is W and after.name == "linear"
    np.testing.assert_array_equal(W, old - 0.5)
    gradient = sd.grad(output)(net, np.ones(3))
    layers = net.layers
    assert sd.update(net, gradient, lambda p, dp: p - dp) is net
    assert net.layers is layers and net.note == "kept" and net.scale == 2.0 - gradient.scale


def test_nothing_is_half_updated():
    p = {"a": np.zeros(2), "b": np.zeros(3), "c": 1.0}
    g = {"a": np.ones(2), "b": np.ones(3), "c": 1.0}

    def fails(value, slope):
        if np.size(value) == 3:
            raise RuntimeError("no")
        return value + slope

    for step, error in (
        (fails, RuntimeError),
        (lambda v, d: np.ones(5) if np.size(v) == 3 else v + d, sd.ShapeError),
        (lambda v, d: v + 1j * d if np.size(v) == 3 else v + d, sd.ShapeError),
    ):
        with pytest.raises(error):
            sd.update(p, g, step)
        assert not p["a"].any() and not p["b"].any() and p["c"] == 1.0
    with pytest.raises(sd.ShapeError, match="structure"):
        sd.update(p, {"a": np.ones(2)}, lambda v, d: v)


def test_integers_beside_floating_leaves_are_settings():
    @dataclasses.dataclass
    class Model:
        W: np.ndarray
        depth: int = 2

    def loss(m):
        total = 0.0
        for _ in range(m.depth):
            total = total + np.sum(m.W**m.depth)
        return total

    m = Model(np.array([1.0, 2.0]), 3)
    gradient = sd.grad(loss)(m)
    assert gradient.depth == 3 and isinstance(gradient.depth, int)
    np.testing.assert_allclose(gradient.W, 9 * m.W**2)
    assert sd.grad(lambda x: x[0] * x[1])([2, 3]) == [3.0, 2.0]


def test_graphs_take_the_arguments_of_a_call():
    f = sd.hvp(lambda x: np.sum(x**3))
    x = np.array([1.0, 2.0])
    assert str(f.graph(x, x)) == str(f.graph(x))
    np.testing.assert_allclose(f.compile(x, x)(x, x), 6 * x * x)


def test_specialisations_are_bounded():
    f = sd.grad(lambda x, k: x**2 * k)
    for k in range(300):
        assert f(1.0, k) == 2.0 * k
    assert len(f._compiled) <= 256


@dataclass(frozen=True)
class Settled:
    value: float
    mode: int


@pytest.mark.parametrize("kind", ["jvp", "hvp"])
@pytest.mark.parametrize(
    "make", [Settled, collections.namedtuple("Settled", "value mode"), lambda v, m: {"v": v, "m": m}],
    ids=["dataclass", "named tuple", "dict"])  # fmt: skip
def test_settings_have_no_tangent(kind, make):
    def f(record):
        value, mode = (record["v"], record["m"]) if isinstance(record, dict) else (record.value, record.mode)
        return value**3 * mode

    g = getattr(sd, kind)(f)
    for mode in (4, 0, None, 0.0, "any"):
        found = structures.leaves(g(make(0.75, 4), make(1.0, mode)))
        assert found == ([0.75**3 * 4, 6.75] if kind == "jvp" else [18.0, 4]) or found == [4, 18.0]
    with pytest.raises(sd.ShapeError, match="is a setting"):
        g(make(0.75, 4), make(1.0, 0.5))
    with pytest.raises(sd.ShapeError, match="one number or array each for"):
        g(make(0.75, 4), make(None, 4))


def test_tangents_and_cotangents_of_another_count():
    for tangent in (1.0, (1.0,), (1.0, None), (1.0, 2.0, 3.0), np.ones(2)):
        with pytest.raises(sd.ShapeError, match="one number or array each for a, b"):
            sd.jvp(lambda a, b: a * b, (0, 1))(2.0, 3.0, tangent)
    for cotangent in ((), (1.0, 2.0), None):
        with pytest.raises(sd.ShapeError, match="expected for"):
            sd.vjp(lambda a: a * a)(2.0, cotangent)


def test_integers_before_floats_come_back():
    def product(d):
        return d[0] * d[1]

    assert sd.grad(product)((3, 4.0)) == (3, 3.0)
    assert sd.value_and_grad(product)((3, 4.0)) == (12.0, (3, 3.0))
    assert sd.grad(lambda d: d[0] * d[1][0] * d[1][1])((0, (1, 4.0))) == (0, (1, 0.0))


def test_ragged_points_are_refused():
    with pytest.raises(sd.ShapeError, match=r"test_structures.py:\d+: derivative takes a number or an array"):
        sd.derivative(lambda p: p[0] ** 2 * p[1][0])([1.3, (2.0,)])

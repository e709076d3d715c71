"""Structures of arrays as arguments and results; gradients in their own structure; updates that are whole or not at all."""

import collections
import dataclasses
import functools
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


def weighted(entries):
    return sum((k + 1) * value for k, value in enumerate(entries.values()))


def by_kind_of_key(entries):
    return entries["a"] * {bool: 2.0, int: 3.0, float: 5.0}[type(next(iter(entries["k"])))]


class Weighted(str):
    def __new__(cls, name, weight):
        made = super().__new__(cls, name)
        made.weight = weight
        return made


BA, AB = {"b": 2.0, "a": 1.0}, {"a": 1.0, "b": 2.0}
POINTS = {key: np.full(3, value) for key, value in AB.items()}
KEYED = {
    "in another order": (weighted, BA, AB),
    "the first": (lambda p: p[next(iter(p))] ** 2, BA, AB),
    "within a list": (lambda p: weighted(p[0]["in"]), [{"in": BA}], [{"in": AB}]),
    "in a default dict": (weighted, collections.defaultdict(float, BA), collections.defaultdict(float, AB)),
    "in a dataclass": (lambda p: weighted(p.layers[0]) * p.scale, Network([BA], 2.0), Network([AB], 2.0)),
    "in a registered class": (lambda p: weighted(p.w), Custom(BA, "mine"), Custom(AB, "mine")),
    "True for 1": (by_kind_of_key, {"a": 1.0, "k": {1: 2.0}}, {"a": 1.0, "k": {True: 2.0}}),
    "1.0 for 1": (by_kind_of_key, {"a": 1.0, "k": {1: 2.0}}, {"a": 1.0, "k": {1.0: 2.0}}),
    "with a weight": (
        lambda p: sum(key.weight * value for key, value in p.items()), {Weighted("a", 2.0): 1.0}, {Weighted("a", 3.0): 1.0},
    ),
    "True for 1 in a rest": (lambda c: c.w * (2.0 if c.label is True else 3.0), Custom(1.0, 1), Custom(1.0, True)),
    "in tuples": (
        lambda p: p["a"] * (2.0 if type(next(iter(p["k"]))[0]) is bool else 3.0),
        {"a": 1.0, "k": {(1,): 2.0}}, {"a": 1.0, "k": {(True,): 2.0}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYED)
def test_keys_are_seen_as_they_stand(name):
    f, *given = KEYED[name]
    gradient = sd.value_and_grad(f)
    for p in (*given, *given):
        value, found = gradient(p)
        assert value == f(p) and list(sd.by_path(found)) == list(sd.by_path(p))
        assert structures.leaves(found) == structures.leaves(sd.grad(f)(p))


def test_keys_of_named_arguments_and_of_points_are_seen():
    f = lambda x, **k: x * weighted(k)  # noqa: E731
    gradient = sd.value_and_grad(f)
    assert [float(gradient(3.0, **k)[0]) for k in (BA, AB, BA)] == [12.0, 15.0, 12.0]
    mapped = sd.vmap(weighted)
    assert [mapped(dict(order))[0] for order in (POINTS.items(), [*POINTS.items()][::-1])] == [5.0, 4.0]
    tangent = sd.jvp(weighted)(BA, {"a": 1.0, "b": 0.0})[1]
    assert tangent == 2.0  # by their keys, whatever their order


@pytest.mark.parametrize("f", [weighted, lambda p: p["a"] * p["b"] ** 2], ids=["seen", "not seen"])
def test_files_check_keys_where_the_function_sees_them(f):
    gradient = sd.value_and_grad(f)
    made = {}
    exec(gradient.source(BA, target="python"), made)
    in_file = made[gradient.__name__]
    assert in_file(BA) == gradient(BA)
    if f is weighted:
        with pytest.raises(ValueError, match=r"list\(p|entries"):
            in_file(AB)
    else:
        assert in_file(AB) == gradient(AB)


def test_files_refuse_the_order_of_named_arguments():
    with pytest.raises(sd.ExportError, match=r"test_structures.py:\d+: .* order of arguments that are given by name"):
        sd.grad(lambda x, **k: x * weighted(k)).source(3.0, **BA, target="python")
    assert "def" in sd.grad(lambda x, **k: x * k["a"] * k["b"]).source(3.0, **BA, target="python")


@dataclass
class Doubling:
    a: float

    def __post_init__(self):
        self.a = self.a * 2


@dataclass
class Counted:
    a: float
    n: int = field(default=0, init=False)


@dataclass
class Derived:
    a: float
    b: float = field(init=False)

    def __post_init__(self):
        self.b = self.a * 2


@dataclass(frozen=True, slots=True)
class Slotted:
    a: float
    b: float = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "b", self.a * 2)


@dataclass
class Initialised:
    a: float
    k: dataclasses.InitVar[float] = 1.0

    def __post_init__(self, k):
        self.b = k


@dataclass
class Checked:
    a: np.ndarray

    def __post_init__(self):
        if self.a.ndim != 1:
            raise ValueError("one axis")


@dataclass
class Behind:
    a: float

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2)


@dataclass(init=False)
class Own:
    a: float

    def __init__(self, whole):
        self.a = whole / 2


class Twice(Pair):
    def __new__(cls, a):
        return super().__new__(cls, a, 2 * a)


@dataclass
class Remembering:
    a: float

    @functools.cached_property
    def square(self):
        return self.a**2


def with_attributes(value, **attributes):
    vars(value).update(attributes)
    return value


STATE = {
    "__post_init__": (lambda p: p.a**2, Doubling(1.5), 6.0),
    "init=False": (lambda p: p.a * (p.n + 1) + p.n, with_attributes(Counted(3.0), n=3), 4.0),
    "derived field": (lambda p: p.a * p.b, Derived(1.5), 3.0),
    "slots": (lambda p: p.a * p.b, Slotted(1.5), 3.0),
    "InitVar": (lambda p: p.a * p.b, Initialised(2.0, 5.0), 5.0),
    "attribute": (lambda p: p.a * getattr(p, "extra", 1.0), with_attributes(Counted(2.0), extra=3.0), 3.0),
    "__setattr__": (lambda p: p.a**2, Behind(2.0), 8.0),
    "__init__": (lambda p: p.a**2, Own(2.0), 2.0),
    "__new__": (lambda p: p.a * p.b, Twice(2.0), 4.0),
    "tuple's attribute": (lambda p: p.a * p.z, with_attributes(Twice(2.0), z=3.0), 3.0),
    "cached property": (lambda p: p.square * p.a, with_attributes(Remembering(2.0), square=4.0), 12.0),
}


@pytest.mark.parametrize("name", STATE)
def test_no_constructor_runs_and_all_state_is_kept(name):
    f, p, slope = STATE[name]
    value, gradient = sd.value_and_grad(f)(p)
    assert value == f(p) and type(gradient) is type(p) and gradient.a == slope
    value, cotangent = sd.vjp(f)(p, 2.0)
    assert value == f(p) and cotangent.a == 2 * slope
    assert sd.jvp(f)(p, gradient)[0] == f(p)


@pytest.mark.parametrize("name", [n for n in STATE if n not in ("__new__", "tuple's attribute", "cached property")])
def test_files_run_no_constructor(name):
    f, p, slope = STATE[name]
    gradient = sd.value_and_grad(f)
    made = {}
    exec(gradient.source(p, target="python"), made)
    value, found = made[gradient.__name__](p)
    assert value == f(p) and found.a == slope and type(found) is type(p)


def test_constructors_that_check_their_arguments():
    p = Checked(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(sd.grad(lambda p: np.sum(p.a**2))(p).a, [2.0, 4.0])
    assert sd.hessian(lambda p: np.sum(p.a**2))(p).a.a.shape == (2, 2)


@pytest.mark.parametrize(
    "value", [4.0, "other", [1.0], np.arange(3), Linear(np.ones(1), np.ones(1))], ids=lambda v: type(v).__name__
)
def test_other_state_is_seen_when_it_changes(value):
    p = with_attributes(Counted(2.0), extra=3.0)
    f = lambda p: p.a * len(repr(p.extra))  # noqa: E731
    gradient = sd.grad(f)
    for extra in (3.0, value, 3.0):
        p.extra = extra
        assert gradient(p).a == len(repr(extra))


def test_state_that_the_function_changes_is_put_back():
    @dataclass
    class Logged:
        a: float
        log: list = field(default_factory=list, init=False)

    def f(p):
        p.log.append(p.a)
        p.last = p.a * len(p.log)
        return p.last * p.a

    p = Logged(2.0)
    gradient = sd.grad(f)
    assert [gradient(p).a for _ in range(3)] == [4.0] * 3 and vars(p) == {"a": 2.0, "log": []}


def test_results_are_made_without_constructors():
    assert sd.jacobian(lambda x: Doubling(x))(3.0).a == 2.0
    assert sd.vmap(lambda x: Doubling(x))(np.ones(2)).a.tolist() == [2.0, 2.0]
    assert sd.vjp(lambda x: Doubling(x * x), 0)(3.0, Doubling(0.5))[1] == 12.0
    with pytest.raises(sd.TraceError, match=r"test_structures.py:\d+: .* beside the fields that its constructor takes"):
        sd.jacobian(lambda x: Derived(x))(3.0)


def test_updates_run_no_constructor_and_leave_settings():
    step = lambda p, dp: p - dp  # noqa: E731
    after = sd.update(Slotted(2.0), sd.grad(lambda p: p.a * p.b)(Slotted(2.0)), step)
    assert (after.a, after.b) == (-2.0, 4.0)
    after = sd.update(Settled(2.0, 3), sd.grad(lambda p: p.value * p.mode)(Settled(2.0, 3)), step)
    assert after == Settled(-1.0, 3)
    after = sd.update(with_attributes(Twice(2.0), z=3.0), Twice(1.0), step)
    assert (tuple(after), after.z) == ((1.0, 2.0), 3.0)


class Base:
    shared = (2.0,)

    @staticmethod
    def double(x):
        return 2.0 * x


@dataclass
class Classed(Base):
    a: float
    k = 2.0

    def scaled(self):
        return self.a * 3.0

    @property
    def shown(self):
        return self.a * 4.0


class ClassedTuple(NamedTuple):
    a: float

    def scaled(self):
        return self.a * 3.0


class Called:
    factor = 2.0

    def __call__(self, x):
        return self.factor * x * x


CLASSES = {
    "attribute": (lambda p: p.a * p.k, Classed, "k", 9.0),
    "attribute by type": (lambda p: p.a * type(p).k, Classed, "k", 9.0),
    "method": (lambda p: p.scaled(), Classed, "scaled", lambda self: self.a * 9.0),
    "property": (lambda p: p.shown, Classed, "shown", property(lambda self: self.a * 9.0)),
    "base's static method": (lambda p: p.double(p.a), Base, "double", staticmethod(lambda x: 9.0 * x)),
    "base's tuple": (lambda p: p.a * p.shared[0], Base, "shared", (9.0,)),
    "method of a named tuple": (lambda p: p.scaled(), ClassedTuple, "scaled", lambda self: self.a * 9.0),
    "registered": (lambda p: p.w * p.k, Custom, "k", 9.0),
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_arguments_are_watched(name, monkeypatch):
    f, cls, attribute, value = CLASSES[name]
    if not hasattr(cls, attribute):
        monkeypatch.setattr(cls, attribute, 2.0, raising=False)
    make = {Base: Classed}.get(cls, cls)
    p = make(1.5, "mine") if make is Custom else make(1.5)
    gradient, inner, mapped = sd.value_and_grad(f), sd.grad(lambda p: sd.value_and_grad(f)(p)[0]), sd.vmap(lambda x: f(p) * x)
    for _ in range(2):
        assert gradient(p)[0] == f(p) and mapped(np.ones(2))[0] == f(p)
        assert structures.leaves(inner(p))[0] == f(p) / 1.5
        monkeypatch.setattr(cls, attribute, value)


def test_callable_arguments_are_watched(monkeypatch):
    g = Called()
    gradient = sd.grad(lambda x, h: h(x))
    assert gradient(1.0, g) == 4.0
    g.factor = 5.0
    assert gradient(1.0, g) == 10.0
    del g.factor
    monkeypatch.setattr(Called, "__call__", lambda self, x: 7.0 * x)
    assert gradient(1.0, g) == 7.0

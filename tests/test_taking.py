"""Structures that generated functions take apart and put together, against optree with marks: each kind against each other one,
and calls with settings, objects and keys that change between them.
"""

import collections
import dataclasses
import enum
import functools
import inspect
import math
import re
import reprlib
from typing import Any, NamedTuple

import numpy as np
import pytest
from inside import load, making_source, structures, taking_source

import symdiff as sd


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


@dataclasses.dataclass
class Twin:
    a: Any
    b: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    b: Any
    a: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    a: Any
    b: Any = dataclasses.field(default=1.0)


@dataclasses.dataclass
class Counted:
    a: Any
    b: Any
    calls: int = dataclasses.field(default=0, init=False)

    @functools.cached_property
    def product(self):
        return self.a * self.b


@dataclasses.dataclass
class Scaled:
    a: Any

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 2 if type(value) is float else value)


class Point(NamedTuple):
    a: Any
    b: Any


class Named(Point):
    pass


class Key(enum.StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


class Registered:
    def __init__(self, a, b):
        self.a, self.b = a, b


sd.register(Registered, lambda v: ([v.a], v.b), lambda b, children: Registered(children[0], b))


def with_more(value):
    value.more = 3
    return value


def with_slot_empty():
    made = object.__new__(Slotted)
    made.a = 1.0
    return made


LEAVES = [1.0, 2, True, None, "a", 1j, np.float64(1.0), np.float32(1.0), np.ones(2), np.int64(2), np.bool_(True)]
STRUCTURES = [
    *LEAVES, (), [], {}, (1.0,), [1.0], (1.0, 2.0), [1.0, 2.0], [1.0, [2.0]], [[1.0], 2.0], [[], 1.0], ((1.0, 2.0),
    [3.0]), {"a": 1.0}, {"b": 1.0}, {"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, {"a": [1.0], "b": 2.0}, {"b": 2.0, "a":
    [1.0]}, {Key.A: 1.0}, {Text("a"): 1.0}, {1: 1.0}, {True: 1.0}, {1.0: 1.0}, {(1, 2): 1.0}, {b"a": 1.0},
    collections.OrderedDict(a=1.0, b=2.0), collections.OrderedDict(b=2.0, a=1.0), collections.defaultdict(list, a=1.0),
    collections.deque([1.0, 2.0]), collections.deque([1.0, 2.0], maxlen=2), Pair(1.0, 2.0), Pair([1.0], 2.0), Twin(1.0,
    2.0), Frozen(1.0, 2.0), Slotted(1.0, 2.0), Slotted([1.0], {"a": 2.0}), with_slot_empty(), with_more(Pair(1.0, 2.0)),
    object.__new__(Frozen), Counted(1.0, 2.0), Scaled(1.0), Point(1.0, 2.0), Point([1.0], Pair(1.0, 2.0)), Named(1.0,
    2.0), Registered(1.0, 2), Registered(1.0, 3), Registered([1.0], 2), [Registered(1.0, 2), 3.0], [Pair(1.0, 2.0)] * 2,
    [Pair(1.0, 2.0), Pair(1.0, 2.0)], {"a": Pair(1.0, 2.0), "b": Registered(1.0, 2)}, [(1.0, {"a": Point(1.0, [2.0])})],
]  # fmt: skip


def shown(value):
    return re.sub(r" at 0x\w+|\.\.\.\w+>", "", f"{type(value).__name__} {reprlib.repr(value)}")


@pytest.mark.parametrize("sample", STRUCTURES, ids=shown)
def test_leaves_are_taken_where_the_structure_is_the_same_alone(sample):
    take = load(taking_source(sample))
    expected, marks = structures.structure(sample, none_is_leaf=True), structures.marks(sample)
    for other in STRUCTURES:
        leaves, tree = structures.flatten(other, none_is_leaf=True)
        found = take(other)
        alike = tree == expected and structures.marks(other) == marks
        empty = isinstance(other, Slotted) and not hasattr(other, "b")
        twice = isinstance(sample, list) and len({*map(id, sample)}) < len(sample)
        left = empty or twice or (isinstance(sample, Registered) and isinstance(sample.a, list))  # to optree
        assert (found is not None) == alike or (found is None and left), shown(other)
        assert found is None or all(a is b for a, b in zip(found, leaves, strict=True))


@pytest.mark.parametrize("sample", STRUCTURES, ids=shown)
def test_structures_are_made_as_they_were(sample):
    tree = structures.structure(sample)
    kept = structures.map_leaves(lambda v: structures.Kept(v) if isinstance(v, (str, bool)) else v, sample)
    for value, of in ((sample, tree), (kept, structures.structure(kept))):
        given = structures.leaves(value)
        found, expected = load(making_source(of))(given), structures.unflatten(of, given)
        assert structures.structure(found, none_is_leaf=True) == structures.structure(expected, none_is_leaf=True)
        assert structures.marks(found) == structures.marks(expected) and shown(found) == shown(expected)
        assert all(a is b for a, b in zip(structures.all_leaves(found), structures.all_leaves(expected), strict=True))
        if isinstance(found, (list, dict)):
            assert found is not load(making_source(of))(given)


@dataclasses.dataclass
class Model:
    weight: Any
    power: int = 2
    mode: str = "plain"
    on: bool = True


def modelled(m, x, shift=0.0):
    if not m.on:
        return shift
    found = m.weight * x**m.power + shift
    return found * np.sin(x) if m.mode == "wave" else found


MODELS = [
    Model(1.5), Model(2.5), Model(1.5, 3), Model(1.5, 2, "wave"), Model(1.5, 2, "plain", False), Model(1.5, True),
    Model(1.5, 2.0), Model(1.5, 2, "plain", 1), Model(1.5, np.int64(2)), Model(2, 2), Model(2.0, 3, "wave"),
    Model(np.float32(1.5)), Model(1.5 + 1j),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["auto", "native", "python", "numpy"])
def test_settings_in_structures_take_the_short_way(monkeypatch, backend):
    """A second call with the settings of an earlier one flattens nothing; others have their own derivatives."""
    if backend == "native":
        pytest.importorskip("llvmlite")
    df = sd.grad(modelled, backend=backend)
    rng, short = np.random.default_rng(0), 0
    long = type(df)._call
    calls = []
    monkeypatch.setattr(type(df), "_call", lambda *args: calls.append(1) or long(*args))
    for k in [*range(len(MODELS)), *rng.integers(0, len(MODELS), 60)]:
        model, x, named = MODELS[k], float(rng.uniform(0.5, 2.0)), bool(k % 2)
        fresh = sd.grad(modelled, backend=backend)
        try:
            expected = fresh(model, x)
        except sd.SymdiffError as error:
            with pytest.raises(type(error)):
                df(model, x)
            continue
        before = len(calls)
        found = df(model, x=x) if named else df(model, x)
        assert repr(found) == repr(expected), (model, x)
        short += len(calls) == before
    assert short > 30


class Part(NamedTuple):
    w: Any
    b: Any


@dataclasses.dataclass
class Net:
    w: Any
    b: Any
    n: int = 2
    layers: Any = dataclasses.field(default_factory=list)


X = np.array([0.3, 0.5, 0.7])
KINDS = {
    "numbers in a list": (lambda p: sum(np.sin(v) * p[0] for v in p), ([0.1, 0.2, 0.3],)),
    "list": (lambda p: np.sum(np.sin(p[0]) * p[1]), ([X, 1.5],)),
    "texts as keys": (lambda p: np.sum(np.sin(p["w"]) * p["b"]), ({"w": X, "b": 1.5},)),
    "integers as keys": (lambda p: np.sum(np.sin(p[7]) * p[1]), ({7: X, 1: 1.5},)),
    "named tuple": (lambda p: np.sum(np.sin(p.w) * p.b), (Part(X, 1.5),)),
    "dataclass": (lambda p: np.sum(np.sin(p.w) * p.b) ** p.n, (Net(X, 1.5),)),
    "nested": (lambda p: np.sum(np.sin(p.w) * p.layers[0]["b"][1]), (Net(X, 1.5, 2, [{"b": (1.0, 2.0)}, Part(X, 3)]),)),
    "registered": (lambda p: np.sum(np.sin(p.a) * p.b), (Registered(X, 3),)),
    "text": (lambda w, b, n: np.sum(np.sin(w) * b) if n == "s" else b, (X, 1.5, "s")),
    "truth": (lambda w, b, n: np.sum(np.sin(w) * b) if n else b, (X, 1.5, True)),
    "nothing": (lambda w, b, n: np.sum(np.sin(w) * b) if n is None else b, (X, 1.5, None)),
    "function": (lambda w, b, g: np.sum(g(w) * b), (X, 1.5, np.sin)),
    "integers": (lambda w, b, i: np.sum(np.sin(w[i]) * b), (X, 1.5, np.array([0, 2]))),
    "number without axes": (lambda w, b: np.sum(np.sin(w) * b), (X, np.array(1.5))),
    "cells that lie apart": (lambda w, b: np.sum(np.sin(w) * b), (np.arange(1.0, 7.0)[::2], 1.5)),
    "columns": (lambda w, b: np.sum(np.sin(w) * b), (np.asfortranarray(np.arange(6.0).reshape(2, 3)), 1.5)),
    "kinds": (lambda w, b: np.sum(np.sin(w) * b) if isinstance(b, float) else b, (X, 1.5)),
    "kinds in a list": (lambda p: np.sum(np.sin(p[0]) * p[1]) if isinstance(p[1], float) else p[1], ([X, 1.5],)),
}  # fmt: skip
TRANSFORMS = {
    "grad": (sd.grad, False),
    "value_and_grad": (sd.value_and_grad, False),
    "jacobian": (sd.jacobian, False),
    "hessian": (sd.hessian, False),
    "hvp": (sd.hvp, True),
    "jvp": (sd.jvp, True),
    "vmap": (lambda f: sd.vmap(sd.grad(f)), None),
}


def with_leaves(change, value):
    leaves, tree = structures.flatten(value, none_is_leaf=True)
    return structures.unflatten(tree, [change(v) if isinstance(v, (float, np.ndarray)) else v for v in leaves])


def again(value):
    """Other containers with the same leaves."""
    return with_leaves(lambda leaf: leaf, value)


def moved(leaf):
    """Other numbers that lie as these do."""
    if isinstance(leaf, float) or not leaf.shape or leaf.dtype.kind != "f":
        return leaf * 1.25 if not isinstance(leaf, np.ndarray) or leaf.dtype.kind == "f" else leaf
    found = np.asfortranarray(leaf * 1.25) if leaf.ndim > 1 else np.repeat(leaf * 1.25, 2)[::2]
    return found if leaf.ndim > 1 or not leaf.flags.c_contiguous else leaf * 1.25


def over_points(leaf):
    own = np.asarray(leaf)
    return np.stack([own, own * 1.5, own * 0.5]) if own.dtype.kind == "f" else leaf


NAMED = [(kind, transform) for kind in KINDS for transform in ("grad", "hessian") if len(KINDS[kind][1]) > 1]
OVER_POINTS = [kind for kind in KINDS if kind not in ("number without axes", "integers")]
POSITIONED = [(k, t) for t in TRANSFORMS for k in (OVER_POINTS if t == "vmap" else KINDS)]


@pytest.mark.parametrize(
    "kind, transform, named", [*((*case, False) for case in POSITIONED), *((*case, True) for case in NAMED)]
)
def test_second_calls_take_the_short_way(monkeypatch, kind, transform, named):
    f, args = KINDS[kind]
    make, extra = TRANSFORMS[transform]
    if extra is None:
        args = tuple(with_leaves(over_points, a) for a in args)
    names = [*inspect.signature(f).parameters]
    direction = (with_leaves(lambda v: v * 0.5, args[0]),) if extra else ()
    named = {names[-1]: args[-1]} if named else {}
    df = make(f)
    df(*args[: len(args) - len(named)], *direction, **named)
    args = tuple(with_leaves(moved, a) for a in args)
    named = dict.fromkeys(named, args[-1])
    expected = make(f)(*args, *direction)
    monkeypatch.setattr(type(df), "_call", lambda *given: pytest.fail("the long way"))
    found = df(*args[: len(args) - len(named)], *direction, **named)
    assert structures.structure(found) == structures.structure(expected)
    for a, b in zip(structures.leaves(found), structures.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


CONTAINER = [3.0]
SAME = {
    "list": (lambda p, q: p[0] ** 2 * (10 if q is p else 1), lambda: [3.0]),
    "tuple": (lambda p, q: p[0] ** 2 * (10 if q is p else 1), lambda: (float("3"),)),
    "dict": (lambda p, q: p["a"] ** 2 * (1 if q is not p else 10), lambda: {"a": 3.0}),
    "object": (lambda p, q: p.a**2 * (10 if q is p else 1), lambda: Pair(3.0, 1.0)),
    "inside": (lambda p, q: p[0].a ** 2 * (10 if p[0] is q[0] else 1), lambda: [Slotted(3.0, 1.0)]),
    "registered": (lambda p, q: p.a[0] ** 2 * (10 if q.a is p.a else 1), lambda: Registered([3.0], 1)),
    "captured": (lambda p, q: p[0] ** 2 * (10 if q is CONTAINER else 1), lambda: CONTAINER),
    "nested": (lambda p, q: sd.grad(lambda a, b: a[0] ** 2 * (5 if a is b else 1))(p, q)[0], lambda: [3.0]),
}


@pytest.mark.parametrize("first", [1, -1])
@pytest.mark.parametrize("case", SAME)
def test_containers_that_are_given_twice_are_the_same_one(case, first):
    f, make = SAME[case]
    df, over = sd.value_and_grad(f), sd.vmap(sd.grad(f))
    for _ in range(3):
        one = make()
        for p, q in ((one, one), (one, again(one)))[::first]:
            value, slope = df(p, q)
            expected = float(structures.leaves(f(p, q))[0])
            assert value == expected and structures.leaves(slope)[0] == pytest.approx(
                2 * expected / 3.0 if case != "nested" else expected / 3.0
            )
        if case != "captured":
            points = with_leaves(over_points, one)
            at = structures.leaves(points)[0]
            for p, q in ((points, points), (points, again(points)))[::first]:
                factor = f(one, one if q is p else again(one)) / (9.0 if case != "nested" else 3.0)
                expected = 2 * factor * at if case != "nested" else factor * np.ones(3)
                np.testing.assert_allclose(structures.leaves(over(p, q))[0], expected)


def test_a_container_that_is_given_twice_is_not_changed():
    def f(p, q):
        q[0] = q[0] * 2
        return p[0] ** 2

    df, one = sd.value_and_grad(f), [3.0]
    assert df([3.0], [3.0])[0] == 9.0
    with pytest.raises(sd.TraceError, match=r"test_taking.py:\d+: changes a list that is given twice; give a copy"):
        df(one, one)
    assert df([3.0], [3.0])[0] == 9.0


class Number(float):
    pass


class Whole(int):
    pass


class Member(enum.IntEnum):
    A = 2


class Table(np.ndarray):
    pass


@pytest.mark.parametrize("value", [Number(2.0), Whole(2), np.ones(2).view(Table)], ids=lambda v: type(v).__name__)
def test_arguments_are_of_their_own_classes(value):
    plain = np.asarray(value, float)[()] if isinstance(value, np.ndarray) else 2.0
    for f in (
        lambda x: np.sum(x) * (5.0 if isinstance(x, Number | Whole | Table) else 1.0),
        lambda x: np.sum(x) * (5.0 if type(x) in (Number, Whole, Table) else 1.0),
    ):
        df = sd.value_and_grad(f)
        for _ in range(2):
            for given in (value, plain):
                assert df(given)[0] == f(given)
                np.testing.assert_array_equal(df(given)[1], np.full(np.shape(given), f(given) / np.sum(given)))


def test_members_of_enumerations_are_settings():
    def f(p):
        return p[0] * sum(3.0 if isinstance(v, enum.Enum) else v for v in p[1:])

    assert sd.value_and_grad(f)([2.0, Member.A, 4.0]) == (14.0, [7.0, Member.A, 2.0])
    with pytest.raises(sd.TraceError, match="holds no float"):
        sd.grad(f)([Member.A])


def test_arrays_of_settings_are_told_apart_and_given_back_as_copies():
    def f(p):
        i = p["i"]
        return p["x"] * (2.0 if i.base is None else 3.0) * (1 if i.flags.writeable else 10)

    df, fixed = sd.value_and_grad(f), np.arange(3)
    fixed.flags.writeable = False
    for i in (np.arange(3), np.arange(4)[:3], fixed):
        for _ in range(2):
            value, slope = df({"i": i, "x": 2.0})
            assert value == f({"i": i, "x": 2.0}) and not np.shares_memory(slope["i"], i)
            slope["i"][:] = 7  # of its caller
    with pytest.raises(sd.TraceError, match=r"test_taking.py:\d+: keys of a dict that have no order"):
        sd.grad(lambda p: p[1, 2] ** 2)({(1, 2): 3.0, np.int64(3): 1.0})


@pytest.mark.parametrize(
    "make", [sd.grad, sd.value_and_grad, sd.jacobian, sd.hessian, sd.hvp, sd.vjp], ids=lambda t: t.__name__
)
@pytest.mark.parametrize("backend", ["auto", "python", "numpy"])
def test_settings_in_results_are_those_of_each_call(make, backend):
    """Also those that have become inputs, since many numbers were seen in their places."""

    def f(p, scale=1.0):
        return p["x"] ** 2 * p["n"] * p["i"].sum() * scale

    df, kept = make(f, backend=backend), []
    for k in [*range(12), 3, 10, 3]:
        p = {"x": 2.0, "n": k, "i": np.array([k, 1])}
        direction = {sd.hvp: (p,), sd.vjp: (1.0,)}.get(make, ())
        for found in (df(p, *direction), df(p, *direction) if direction else df(p, scale=1.0)):
            settings = [v for v in structures.leaves(found) if not isinstance(v, np.floating)]
            assert {type(v) for v in settings} == {int, np.ndarray}
            for v in settings:
                assert v == k if isinstance(v, int) else (v.dtype == int and v.tolist() == [k, 1] and v is not p["i"])
            kept += [v for v in settings if isinstance(v, np.ndarray)]
            for v in kept:
                v[:] = 99  # of the caller


def test_points_with_arguments_by_name_in_structures():
    over, x = sd.vmap(sd.grad(lambda p, q: p[0] * q["a"] ** 2 * q["n"])), np.arange(3.0)
    for n in (2, 2, 3):
        np.testing.assert_allclose(over([x], q={"a": 3.0, "n": n}), [np.full(3, 9.0 * n)])


ASKED = {
    "isinstance": lambda v: isinstance(v, np.ndarray),
    "type": lambda v: type(v) is np.ndarray,
    "integer": lambda v: isinstance(v, (int, np.integer)),
    "isscalar": np.isscalar,
    "hasattr": lambda v: hasattr(v, "__len__"),
    "flags": lambda v: getattr(v, "flags", None) is not None and v.flags.writeable,
    "dtype": lambda v: getattr(v, "dtype", None) == np.dtype(int),
    "truth": lambda v: isinstance(v, (bool, np.bool_)),
}
MADE = {
    "array": np.array,
    "int64": np.int64,
    "int": int,
    "uint8": lambda k: np.array(k, np.uint8),
    "truth": lambda k: np.array(k % 2 == 0),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("made", MADE)
def test_integers_are_of_their_kinds_when_they_have_become_inputs(asked, made):
    def f(x, v):
        return x * (2.0 if ASKED[asked](v) else 3.0) * (v + 1)

    df = sd.value_and_grad(f)
    for k in range(12):
        assert df(1.5, MADE[made](k))[0] == f(1.5, MADE[made](k))


STATE = [2.0]


def by_state(v):
    return v * STATE[0]


@dataclasses.dataclass
class Halved:
    a: Any

    def value(self):
        return self.a * 1.5


@dataclasses.dataclass
class Stated:
    a: Any
    factor = 2.0

    def value(self):
        return self.a * self.factor


CALLS = {
    "inside": (lambda p: p["f"](p["x"]) * p["x"], lambda f: (({"f": f, "x": 2.0},), {})),
    "flat": (lambda x, f: f(x) * x, lambda f: ((2.0, f), {})),
    "by name": (lambda x, f: f(x) * x, lambda f: ((2.0,), {"f": f})),
    "class": (lambda d: d.value(), lambda f: ((Stated(2.0) if f is by_state else Halved(2.0),), {})),
}


@pytest.mark.parametrize("transform", ["value_and_grad", "vmap"])
@pytest.mark.parametrize("case", CALLS)
def test_what_a_later_specialisation_reads_is_looked_at(monkeypatch, case, transform):
    """By the ways of all forms, whichever was there first."""
    f, arguments = CALLS[case]
    over = transform == "vmap"
    df = sd.vmap(sd.value_and_grad(f), in_axes=(0, *[None] * (case == "flat"))) if over else sd.value_and_grad(f)

    def called(g):
        args, named = arguments(g)
        args = tuple(with_leaves(lambda v: np.full(3, v), a) for a in args) if over else args
        return np.ravel(df(*args, **named)[0])[0]

    for _ in range(2):
        assert called(math.sin) == pytest.approx(f(*arguments(math.sin)[0], **arguments(math.sin)[1]), rel=1e-14)
    for value in (2.0, 3.0, 4.0):
        STATE[0] = value
        monkeypatch.setattr(Stated, "factor", value)
        for g in (by_state, math.sin, by_state):
            args, named = arguments(g)
            assert called(g) == pytest.approx(f(*args, **named), rel=1e-14)


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return self.factor * x

    def __eq__(self, other):
        return isinstance(other, Scale)

    __hash__ = None


def test_functions_among_settings_are_themselves():
    """Whatever their classes say of equality, or of hashes; methods are made anew each time."""
    df = sd.value_and_grad(lambda p: p["f"](p["x"]) * p["x"])
    one, other = Scale(1.0), Scale(2.0)
    for f in (one, other, one, np.poly1d([3.0, 0.0]), one.__call__, other.__call__, one.__call__):
        assert df({"f": f, "x": 2.0})[0] == f(2.0) * 2.0

"""Structures that generated functions take apart and put together, against optree with marks: each kind against each other one,
and calls with settings, objects and keys that change between them.
"""

import collections
import dataclasses
import enum
import functools
import inspect
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
    *LEAVES, (), [], {}, (1.0,), [1.0], (1.0, 2.0), [1.0, 2.0], [1.0, [2.0]], [[1.0], 2.0], [[], 1.0], ((1.0, 2.0), [3.0]),
    {"a": 1.0}, {"b": 1.0}, {"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}, {"a": [1.0], "b": 2.0}, {"b": 2.0, "a": [1.0]},
    {Key.A: 1.0}, {Text("a"): 1.0}, {1: 1.0}, {True: 1.0}, {1.0: 1.0}, {(1, 2): 1.0}, {b"a": 1.0},
    collections.OrderedDict(a=1.0, b=2.0), collections.OrderedDict(b=2.0, a=1.0), collections.defaultdict(list, a=1.0),
    collections.deque([1.0, 2.0]), collections.deque([1.0, 2.0], maxlen=2), Pair(1.0, 2.0), Pair([1.0], 2.0), Twin(1.0,
    2.0), Frozen(1.0, 2.0), Slotted(1.0, 2.0), Slotted([1.0], {"a": 2.0}), with_slot_empty(), with_more(Pair(1.0, 2.0)),
    object.__new__(Frozen), Counted(1.0, 2.0), Scaled(1.0), Point(1.0, 2.0), Point([1.0], Pair(1.0, 2.0)), Named(1.0, 2.0),
    Registered(1.0, 2), Registered(1.0, 3), Registered([1.0], 2), [Registered(1.0, 2), 3.0], [Pair(1.0, 2.0)] * 2, {"a":
    Pair(1.0, 2.0), "b": Registered(1.0, 2)}, [(1.0, {"a": Point(1.0, [2.0])})],
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
        assert (found is not None) == alike or (found is None and not hasattr(other, "b")), shown(other)
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

"""Structures that generated functions take apart and put together, against optree with marks: each kind against each other one,
and calls with settings, objects and keys that change between them.
"""

import collections
import dataclasses
import enum
import functools
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

"""Loops whose rounds hand on objects, dicts, lists and named tuples, against the plain functions and the loops written out."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pytest

import symdiff as sd


@dataclasses.dataclass
class Pair:
    q: float
    p: float

    def __add__(self, other):
        return Pair(self.q + other.q, self.p + other.p)

    def __rmul__(self, factor):
        return Pair(factor * self.q, factor * self.p)

    @property
    def energy(self):
        return 0.5 * self.p**2 - math.cos(self.q)


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    q: float
    p: float = 0.1


class Plain:
    def __init__(self, q, p):
        self.q = q
        self.p = p
        self.trail = [q, p]

    def moved(self, h):
        found = Plain(self.q, self.p)
        found.p -= h * math.sin(found.q)
        found.q = found.q + h * found.p
        found.trail.append(found.q)
        return found


class Slotted:
    __slots__ = ("__inner", "q")

    def __init__(self, q, inner):
        self.q = q
        self.__inner = inner

    def moved(self):
        return Slotted(self.q * 1.01 + self.__inner, 0.9 * self.__inner)


class Named(NamedTuple):
    q: float
    p: float

    def moved(self, h):
        return self._replace(q=self.q + h * self.p) if h < 0 else Named(self.q + h * self.p, self.p - h * self.q)


def vectors(x):
    s = Pair(x, 0.2)
    for _ in range(12):
        s = s + 0.1 * Pair(s.p, -math.sin(s.q))
    return s.q + s.energy


def frozen(x):
    s = Frozen(x)
    for _ in range(12):
        s = Frozen(s.q + 0.1 * s.p, s.p - 0.1 * s.q)
    return s.q * s.p


def replaced(x):
    s = Frozen(x)
    for k in range(12):
        s = dataclasses.replace(s, q=s.q * 1.02 + s.p * k)
    return s.q * s.p


def plain(x):
    s = Plain(x, 0.0)
    for _ in range(12):
        s = s.moved(0.1)
    return s.q + s.trail[-1] * len(s.trail)


def slotted(x):
    s = Slotted(x, 0.1)
    for _ in range(12):
        s = s.moved()
    return s.q


def named(x):
    s = Named(x, 0.3)
    for _ in range(12):
        s = s.moved(0.1)
    return s.q * s.p


def of_keys(x):
    s = {"q": x, "p": 0.3, "name": "pendulum"}
    for _ in range(12):
        s = {"q": s["q"] + 0.1 * s["p"], "p": s["p"] - 0.1 * math.sin(s["q"]), "name": s["name"]}
    return sum(v for k, v in s.items() if k != "name")


def items_set(x):
    s = {"q": x, "p": 0.3}
    for k in range(12):
        new = {}
        for name, other in (("q", "p"), ("p", "q")):
            new[name] = s[name] * 0.9 + 0.1 * s[other] * k
        s = new
    return s["q"] - s["p"]


def collected(x):
    q, total = [x, 2 * x], 0.0
    for k in range(12):
        forces = []
        for i in range(2):
            forces.append(-q[i] + 0.1 * q[1 - i])
        forces[0] += 0.01 * k
        q = [a + 0.1 * f for a, f in zip(q, forces, strict=True)]
        total = total + max(forces)
    return q[0] * q[1] + total


def filled(x):
    q = [x, 0.5, 0.2]
    for _ in range(12):
        new = [0.0] * 3
        for i in range(3):
            new[i] = q[i] + 0.1 * q[i - 1]
        q = new
    return sum(q)


def nested(x):
    s = {"a": Pair(x, 0.2), "b": [Named(x, 1.0), (0.5, np.array([x, 1.0]))]}
    for _ in range(12):
        a, (b, (c, d)) = s["a"], s["b"]
        s = {"a": Pair(a.q * 0.9, a.p + b.q), "b": [Named(b.p, c), (a.q, d * 0.9 + c)]}
    return s["a"].p + s["b"][1][1] @ np.array([1.0, 2.0])


def one_of_two(x):
    s = Pair(x, 0.2)
    for k in range(12):
        if s.q > 0.5 + 0.01 * k:
            s = Pair(0.9 * s.q, s.p + s.q)
    return s.q * s.p


def until(x):
    s = Pair(x, 0.0)
    while s.q < 3.0:
        s = Pair(s.q * 1.3, s.p + s.q)
    return s.p


def generated(x):
    q = [x, 0.5]
    for _ in range(12):
        terms = tuple(0.5 * v * v for v in q)
        q = [a + 0.01 * sum(b * c for c in terms) for a, b in zip(q, terms, strict=True)]
    return q[0]


def two_of_one(x):
    s = t = Pair(x, 0.2)
    for _ in range(12):
        s = t = Pair(s.q * 0.9 + 0.1 * t.p, s.p)
    return s.q + t.p


@dataclasses.dataclass
class Sums:
    total: float = 0.0
    items: list = dataclasses.field(default_factory=list)

    def add(self, value):
        self.total += value
        self.items.append(value)


def of_defaults(x):
    t = 0.0
    for k in range(12):
        sums = Sums()
        for j in range(3):
            sums.add(x * j + k)
        t = t + sums.total * len(sums.items) + sums.items[-1]
    return t


KEPT = (
    vectors, frozen, replaced, plain, slotted, named, of_keys, items_set, collected, filled, nested, one_of_two, until,
    generated, two_of_one, of_defaults,
)  # fmt: skip


def changed_later(x):
    s = t = [x, 0.2]
    for _ in range(12):
        s = t = [s[0] * 0.9, t[1] + 0.1]
    t[0] = 7.0 * x
    return s[0] * s[1]


def object_changed_later(x):
    s = t = Pair(x, 0.2)
    for _ in range(12):
        s = t = Pair(s.q * 0.9, t.p + 0.1)
    t.q = 7.0 * x
    return s.q * s.p


def first_changed_later(x):
    first = s = Pair(x, 0.2)
    for k in range(12):
        s = s if s.q < 3.0 else Pair(s.p * k, s.q)
    s.q = 7.0 * x
    return first.q


def appended_later(x):
    s = t = [x, 0.2]
    for k in range(12):
        t = s
        s = [0.9 * x, s[0] * k]
        s, t = t, s
    s.append(5.0 * x)
    return sum(t) * len(t) + sum(s)


def asks_which(x):
    first = s = Pair(x, 0.2)
    total = 0.0
    for k in range(12):
        total = total + (2.0 * s.q if s is first else s.q)
        s = Pair(s.q * 0.9, s.p + k)
    return total


def asks_later(x):
    s = t = Pair(x, 0.2)
    for _ in range(12):
        s = t = Pair(s.q * 0.9, t.p + 0.1)
    return s.q * (2.0 if s is t else 3.0)


def shift(s, v):
    s.q += v


def outer_object(x):
    s = Pair(x, 0.2)
    for k in range(12):
        shift(s, 0.1 * x * k)
    return s.q * s.p


def own_attribute(x):
    s = Pair(x, 0.2)
    for k in range(12):
        s.q = s.q * 0.9 + 0.1 * k
    return s.q * s.p


def outer_dict(x):
    d = {"n": 0.0}

    def step(v):
        d["n"] = d["n"] + v
        return v * 0.9

    for _ in range(12):
        x = step(x)
    return d["n"]


def other_keys(x):
    s = {"a0": x}
    for k in range(12):
        s = {**s, f"a{k}": s["a0"] * 0.9}
    return s["a0"] * len(s)


def cyclic(x):
    s = [x, None]
    s[1] = s
    for _ in range(12):
        s = [s[0] * 0.9, s]
    return s[0]


class Counting:
    made = 0

    def __init__(self, q):
        self.q = q
        Counting.made += 1


def counting(x):
    s = Counting(x)
    for _ in range(12):
        s = Counting(s.q * 0.9)
    return s.q


class Guarded:
    def __init__(self, q):
        self.q = q

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value * 0.99)


def guarded(x):
    s = Guarded(x)
    for _ in range(12):
        s = Guarded(s.q * 0.9)
    return s.q


def lasting_generator(x):
    found = (x * k for k in range(3))
    for k in range(12):
        y = x * 0.9 + k
        found = (y * v for v in range(3))
        x = y
    return sum(found)


def exchanged(x):
    p, q = Pair(x, 0.2), Pair(0.1, x)
    for _ in range(12):
        p.q = p.q * 0.9 + q.p
        p, q = q, p
    return p.q + 2 * q.p + q.q


def appended_in(x):
    s = Pair(x, [])
    for _ in range(12):
        s.q = s.q * 0.9 + 0.1
        s.p.append(s.q)
    return s.q + s.p[2] * s.p[-1]


def given_twice(x):
    a = [x, 0.2]
    b = a
    for k in range(12):
        a = [a[0] * 0.9, a[1] + k]
        b = a
    for _ in range(2):
        a[0] = a[0] * x + 0.1
    return a[0] + b[0]


def methods(x):
    class Filter:
        def __init__(self):
            self.one, self.two, self.count = 0.0, 0.1, 0

        def step(self, u):
            y = 0.3 * u + self.one
            self.one, self.two = 0.2 * y - 0.1 * u + self.two, 0.1 * u - 0.3 * y
            self.count += 1
            return y

    found, s = Filter(), 0.0
    for k in range(12):
        s += found.step(x * k) ** 2
    return s * found.count


def known_by_others(x):
    s = Pair(x, 0.2)
    same, listed = s, [s, s]
    for k in range(12):
        s.q = s.q * 0.9 + same.p
        listed[1].p = same.q * 0.1 * k
    return same.q + listed[0].p


def in_loops(x):
    s = Pair(Pair(x, 0.1), [0.0, {"a": x}])
    for k in range(12):
        for _ in range(7):
            s.q.p = np.sin(s.q.p + x * k)
            s.p[1]["a"] += 0.1 * s.q.p
        s.p[0] = s.p[1]["a"] * s.q.q
    return s.p[0] + s.q.p


def until_small(x):
    s, counted = Pair(x, 2.0), Pair(0, 0)
    while s.p > 1e-3:
        s.p *= 0.6 * math.tanh(x)
        s.q += s.p
        counted.q += 1
        if counted.q > 20:
            break
    return s.q * counted.q


def first_made_in_a_round(x):
    s = Pair(x, 0.2)
    for k in range(12):
        s.r = s.q * x
        s.q = s.r + s.p * k
    return s.q + s.r


CHANGED = (
    outer_object, own_attribute, outer_dict, methods, known_by_others, in_loops, until_small, first_made_in_a_round,
    appended_in,
)  # fmt: skip
WRITTEN = (
    changed_later, object_changed_later, first_changed_later, appended_later, asks_which, asks_later, exchanged,
    given_twice, other_keys, cyclic, counting, guarded, lasting_generator,
)  # fmt: skip


@pytest.mark.parametrize("f", KEPT + CHANGED + WRITTEN, ids=lambda f: f.__name__)
def test_structures_that_rounds_hand_on(f):
    graph = sd.trace(f, 0.7, loops="keep", paths="guard")
    outcomes = {v.partition(":")[0] for v in graph.notes["loops"].values()}
    assert ("kept" in outcomes) == (f not in WRITTEN)
    kept, written = (sd.value_and_grad(f, loops=loops, paths="guard") for loops in ("keep", "unroll"))
    for x in (0.7, 0.4, 1.9):
        value, slope = kept(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, written(x)[1], rtol=1e-12)

"""Lists to which rounds append numbers, arrays, tuples and objects, whoever holds them; against the plain functions."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import symdiff as sd

N = 40
LOG = []
NOISE = np.linspace(0.5, 1.0, N)


class Pendulum:
    def __init__(self, x, v):
        self.x, self.v, self.xs = x, v, []

    def step(self, h):
        self.v = self.v - h * math.sin(self.x)
        self.x = self.x + h * self.v
        self.xs.append(self.x)


@dataclass
class State:
    q: float
    p: np.ndarray


def attribute(x):
    s = Pendulum(x, 0.1)
    for _ in range(N):
        s.step(0.01)
    return s.xs[-1] + s.xs[10] * s.v + sum(s.xs)


def arrays(x):
    y = np.array([x, 0.4, 0.5])
    ys = [y]
    for _ in range(N):
        y = y + 0.01 * np.array([y[1], -np.sin(y[0]), y[0] * y[2]])
        ys.append(y)
    return np.sum(np.array(ys) ** 2) + ys[7][1] * ys[-1][0]


def arrays_of_before(x):
    ys = [np.array([x, 0.4]), np.array([0.4, x])]
    for _ in range(N):
        ys.append(ys[-1] + 0.01 * np.array([ys[-1][1], -np.sin(ys[-2][0])]))
    return np.sum(np.stack(ys[3:]) * 2) + np.sum(ys[1])


def tuples(x):
    y, found = x, []
    for k in range(N):
        y = y + 0.01 * math.sin(y)
        found.append((0.1 * k, y, k, None))
    return sum(t * v + k for t, v, k, _ in found) + np.sum(np.array([(t, v) for t, v, _, _ in found])[:, 1] ** 2)


def objects(x):
    s, found = State(x, np.array([x, 0.2])), []
    for _ in range(N):
        s = State(s.q * 0.9 + s.p[1], 0.9 * s.p)
        found.append(State(s.q, 2 * s.p))
    return sum(v.q for v in found) + np.sum(found[5].p)


def several_items(x):
    found = [x]
    for _ in range(N):
        x = found[-1] + 0.01 * math.sin(found[len(found) - 1])
        found += [x, x * x]
        found.extend((x,))
        found.append(found[-2] * 0.5)
    return sum(found) + found[9]


def by_a_helper(x):
    def fill(found, y):
        for k in range(N):
            y = y * 0.9 + 0.01 * k
            found.append(y)

    found = []
    fill(found, x)
    return sum(found) * len(found)


def two_lists(x):
    xs, ts = [x], [0.0]
    for k in range(N):
        xs.append(0.9 * xs[-1] * NOISE[k])
        ts.append(ts[-1] + x)
    return np.sum(np.array(xs) * np.array(ts)) + sum(t * v for t, v in zip(ts, xs, strict=True))


def in_a_dict(x):
    h = {"x": [], "t": [0.0]}
    for _ in range(N):
        x = math.sin(x) + 0.1
        h["x"].append(x)
        h["t"].append(h["t"][-1] + 0.1)
    return sum(h["x"]) * h["t"][5]


def in_loops(x):
    found = []
    for k in range(N):
        for j in range(6):
            x = 0.99 * x + 0.01 * j
            found.append(x)
        found.append(k)
    return sum(found)


def by_two_names(x):
    found = [x]
    same = found
    for _ in range(N):
        found.append(same[-1] * 0.9)
    return same[3] + found[-1]


def of_a_module(x):
    LOG.clear()
    for _ in range(N):
        x = 0.9 * x
        LOG.append(x)
    return LOG[3] + sum(LOG)


def behind_a_generator(x):
    def walk(y):
        for k in range(N):
            y = 0.9 * y + 0.01 * k
            yield k, y

    found = []
    for k, y in walk(x):
        found.append(y * k)
    return sum(found)


def counted_places(x):
    places = []
    for k in range(N):
        places.append(3 * k % 7)
        x = x * 0.9
    return x * places[3] * places[-1]


def while_it_is_short(x):
    xs = [x]
    while len(xs) < N:
        xs.append(math.sin(xs[-1]) + 0.1 * x)
    return np.sum(np.array(xs) ** 2)


def steps_of_its_own(x):
    t, y, h, ts, ys = 0.0, x, 0.01, [], [x]
    while t < 1.0:
        k = -y * y
        error = abs(h * (k + (y + h * k) ** 2))
        y, t = y + h * k, t + h
        ts.append(t)
        ys.append(y)
        h = min(0.05, h * min(1.2, 0.02 / (error + 1e-9)))
    return ys[-1] + sum(ys) / len(ys) + np.sum(np.diff(ts) * np.array(ys[2:]))


def under_a_condition(x):
    found = []
    for k in range(N):
        x = 0.9 * x
        if k % 3:
            found.append(x)
    return sum(found)


def by_continue(x):
    found, sizes = [], []
    for v in NOISE:
        w = math.sin(20 * v) * x
        if w < 0.1:
            continue
        found.append(w)
        if w < 0.3:
            sizes.append((w, len(found)))
    return sum(found) / len(found) + np.max(np.array(found)) + sum(w * n for w, n in sizes)


def rejected_steps(x):
    t, h, ts, ys = 0.0, 0.3, [0.0], [x]
    while True:
        k = math.cos(3 * t) - x * ys[-1]
        error = 0.5 * h * abs(math.cos(3 * (t + h)) - x * (ys[-1] + h * k) - k)
        if error < 0.01:
            t = t + h
            ts.append(t)
            ys.append(ys[-1] + h * k)
        if t > 2:
            break
        h *= min(2.0, max(0.3, 0.9 * math.sqrt(0.01 / (error + 1e-16))))
    return ys[-1] + np.sum(np.diff(ts) * np.array(ys[1:])) / len(ys)


def other_ways(x):
    found, last = [], [x]
    for k in range(N):
        v = math.sin(x + k)
        if v > 0.5:
            found += [(v, k, None), (v * v, 0, None)]
            last.append(last[-1] + v)
        elif v > 0:
            found.append((x * v, k, None))
    return sum(v * k + v for v, k, _ in found) + last[-1] + last[2]


def events_far_apart(x):
    found = []
    for k in range(N):
        t = 0.3 * k * x
        if not found or t - found[-1] > 1:
            found.append(t)
    return sum(v * v for v in found) + len(found)


def asked_for_more(x):
    found = [x]
    for _ in range(N):
        found.append(0.1 * sum(found))
    return found[-1]


KEPT = (
    asked_for_more, by_continue, rejected_steps, other_ways, events_far_apart,
    while_it_is_short, steps_of_its_own,
    attribute, arrays, arrays_of_before, tuples, objects, several_items, by_a_helper, two_lists, in_a_dict, in_loops,
    by_two_names, of_a_module, behind_a_generator, counted_places, under_a_condition,
)  # fmt: skip


def the_same_array(x):
    y, ys = np.array([x, 0.4]), []
    for _ in range(N):
        y *= 0.9
        ys.append(y)
    return np.sum(np.array(ys))


def changed_behind(x):
    y, ys = np.array([x, 0.4]), []
    for _ in range(N):
        y = 0.9 * y
        ys.append(y)
    y[0] = 2 * x
    return np.sum(np.array(ys))


def held_in_a_tuple(x):
    class Holder:
        pass

    found, holder = [x], Holder()
    holder.pair = (found, 1)
    for _ in range(N):
        found.append(holder.pair[0][-1] * 0.9)
    return sum(found)


def length_by_a_tuple(x):
    class Holder:
        pass

    found, holder = [x], Holder()
    holder.pair = (found, 1)
    for _ in range(N):
        found.append(x * len(holder.pair[0]))
    return sum(found)


def also_popped(x):
    found = [x, 0.2]
    for _ in range(N):
        found.append(0.9 * found[0])
        found.pop(0)
    return found[0]


WRITTEN = (
    the_same_array, changed_behind, held_in_a_tuple, length_by_a_tuple,
)  # fmt: skip


@pytest.mark.parametrize("f", (*KEPT, *WRITTEN, also_popped), ids=lambda f: f.__name__)
def test_lists_that_rounds_append_to(f):
    graph = sd.trace(f, 0.7, loops="keep", paths="guard")
    outcomes = {v.partition(":")[0] for v in graph.notes["loops"].values()}
    assert ("written out" in outcomes) == (f in WRITTEN), graph.notes["loops"]
    df = sd.value_and_grad(f, loops="keep", paths="guard")
    for x in (0.7, 0.4, 1.3):
        value, slope = df(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-7)


def test_a_list_of_a_module_is_put_back():
    LOG[:] = [1, 2]

    def f(x):
        for _ in range(N):
            x = 0.9 * x
            LOG.append(x)
        return sum(LOG)

    assert "kept" in sd.trace(f, 0.7, loops="keep").notes["loops"].values()
    assert LOG == [1, 2]


def test_as_many_bindings_for_any_number_of_rounds():
    def f(x, n):
        ys = [x]
        for _ in range(n):
            ys.append(np.sin(ys[-1]))
        return np.sum(np.array(ys) ** 2)

    x = np.array([0.3, 0.4])
    counts = {len(sd.trace(f, x, n, loops="keep").bindings) for n in (100, 400)}
    assert len(counts) == 1

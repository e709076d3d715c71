"""Lists to which rounds append numbers, arrays, tuples and objects, whoever holds them; against the plain functions."""

import collections
import copy
import math
from dataclasses import dataclass

import numpy as np
import pytest

import symdiff as sd

N = 40
LOG = []
NOISE = np.linspace(0.5, 1.0, N)
ONES = [1.0]


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


def gram_schmidt(x):
    vs = [np.sin(np.arange(1, 9) * (k + 1) * x) + np.eye(8)[k] for k in range(8)]
    qs = []
    for v in vs:
        for q in qs:
            v = v - (q @ v) * q
        qs.append(v / np.linalg.norm(v))
    return np.sum(np.array(qs)[:, 0] ** 3) + qs[-1][2]


def forward_substitution(x):
    a, ys = np.cos(np.arange(144.0).reshape(12, 12)) + 3 * np.eye(12), []
    for i in range(12):
        s = sum(a[i][j] * x * ys[j] for j in range(i))
        ys.append((NOISE[i] - s) / a[i][i])
    return sum(y * y for y in ys)


def best_of_those_before(x):
    best = []
    for i in range(12):
        most = 0.0
        for j in range(i):
            if NOISE[j] * math.sin(j) < NOISE[i] * math.sin(i):
                most = max(most, best[j])
        best.append(most + x * math.cos(i) ** 2)
    return max(best)


def convolved(x):
    c = [x]
    for k in range(12):
        total = 0.0
        for j in range(k + 1):
            total += c[j] * c[k - j]
        c.append((c[k] - total) / (k + 1))
    return sum(v * 0.5**i for i, v in enumerate(c))


def from_the_end(x):
    ys = [x]
    for _ in range(12):
        s = 0.0
        for i in range(len(ys) - 1, -1, -1):
            s = 0.3 * s + ys[i]
        for i in range(1, len(ys)):
            s += 0.1 * ys[i - 1] * ys[-i]
        ys.append(math.sin(s))
    return sum(ys)


def other_ways_that_read(x):
    ys = [x, x * x]
    for k in range(12):
        s = 0.0
        for j, y in enumerate(ys):
            s += y * j
        if s > 1.0:
            ys.append(0.2 * ys[-1] + ys[0] * k)
        else:
            ys.append(s)
            ys.append(0.3)
    return sum(ys) + len(ys)


def tables_of_lists(x):
    d = [[0.0] * 9 for _ in range(9)]
    for i in range(1, 9):
        for j in range(1, 9):
            c = x * (NOISE[i] - math.cos(j)) ** 2
            d[i][j] = min(d[i - 1][j] + 0.3, d[i][j - 1] + 0.3, d[i - 1][j - 1] + c)
    return d[8][8] + sum(d[3])


def run_lengths(x):
    runs, total, length = [], 0.0, 0
    for k in range(N):
        v = math.sin(k) * x
        if v > 0:
            total, length = total + v, length + 1
        else:
            if length > 0:
                runs.append(total / length)
            total, length = 0.0, 0
    return sum(runs) + len(runs)


KEPT = (
    gram_schmidt, forward_substitution, best_of_those_before, convolved, from_the_end, other_ways_that_read, tables_of_lists,
    run_lengths,
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


def items_with_two_owners(x):
    ys, zs = [np.array([x, 0.4])], []
    for k in range(N):
        s = 0.0
        for q in ys:
            s = s + q[0]
        zs.append(ys[k // 2])
        ys.append(0.5 * ys[-1] + 0.01 * s)
    zs[3][0] = 7 * x
    return np.sum(np.array(ys))


def changed_items(x):
    ys = [np.array([x, 0.4])]
    for k in range(N):
        s = 0.0
        for q in ys:
            s = s + q[0]
        q = ys[k // 2]
        q[0] = q[0] * 0.5
        ys.append(0.5 * ys[-1] + 0.01 * s)
    return np.sum(np.array(ys))


def a_row_by_name(x):
    d = [[x] * 4 for _ in range(5)]
    for i in range(N):
        row = d[i % 5]
        row[i % 4] += 0.1 * x * i
        d[0][0] *= 0.9
    return sum(row) + d[0][0]


WRITTEN = (
    items_with_two_owners, changed_items, a_row_by_name,
    the_same_array, changed_behind, held_in_a_tuple, length_by_a_tuple,
)  # fmt: skip


@pytest.mark.parametrize("f", (*KEPT, *WRITTEN, also_popped), ids=lambda f: f.__name__)
def test_lists_that_rounds_append_to(f):
    graph = sd.trace(f, 0.7, loops="keep", paths="guard")
    outcomes = {v.partition(":")[0] for v in graph.notes["loops"].values() if v != "written out: it is short"}
    assert ("written out" in outcomes) == (f in WRITTEN), graph.notes["loops"]
    df = sd.value_and_grad(f, loops="keep", paths="guard")
    for x in (0.7, 0.4, 1.3):
        value, slope = df(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-7)


def chosen(x):
    found = []
    for v in np.sin(np.arange(30.0)):
        w = v * x + 0.1 * x * x
        if w > 0.15:
            found.append(math.sin(w))
    return found


def chosen_behind_others(x):
    found = [x, 0.5]
    for v in np.sin(np.arange(30.0)):
        if v * x > 0.15:
            found.append(v * v * x)
        elif v * x < -0.9:
            found += [v, 0.5 * v]
    return found


def steps(x):
    found, t, h = [x], 0.0, 0.2
    while t < 2.0:
        error = abs(math.sin(5 * t) * x) * h
        if error < 0.12:
            t += h
            found.append(found[-1] * (1 - 0.3 * h) + 0.1 * error)
            h *= 1.2
        else:
            h *= 0.6
    return found


def again(found, x):
    other = [x]
    for v in found:
        if v < 0.6:
            other.append(v * v)
    return other[-1] + sum(found)


def longest(found, x):
    best = None
    for v in found:
        if best is None or v > best:
            best = v
    return best


def second(found, x):
    for k in range(20):
        found.append(math.sin(found[-1]))
        if x * k > 3:
            found.append(x)
    return found[-1] + found[7] + len(found)


def last_target(found, x):
    v, s = x, 0.0
    for v in found:
        s += v
    return v * len(found) + s


def within_rounds(found, x):
    s = 0.0
    for k in range(20):
        for v in found:
            s = 0.9 * s + 0.1 * v * k
        s += found[-1] + len(found)
    return s


TRACED = {
    "length": lambda y, x: x * len(y), "sum": lambda y, x: sum(y) / len(y), "from": lambda y, x: sum(y, 1.0) * x,
    "ends": lambda y, x: y[-1] * y[-2] + y[0] * y[1] + y[2], "truth": lambda y, x: x if y else 3 * x,
    "extremes": lambda y, x: max(y) - min(y), "NumPy": lambda y, x: np.mean(y) + np.sum(np.array(y) ** 2),
    "terms": lambda y, x: sum(v * v for v in y), "again": again,
    "pairs": lambda y, x: sum(a * b for a, b in zip(y, y, strict=True)),
}  # fmt: skip
KNOWN = {
    "slices": lambda y, x: sum(y[1:]) + y[:2][1], "zip": lambda y, x: sum(a * b for a, b in zip(y, y[1:], strict=False)),  # noqa: RUF007
    "sorted": lambda y, x: sorted(y)[0] + np.median(y), "places": lambda y, x: sum(v * k for k, v in enumerate(y)),
    "list": lambda y, x: sum(list(y)) + sum([*y, x]) + sum(2 * y + [x]), "type": lambda y, x: x * (type(y) is list),
    "changed": lambda y, x: (y.append(x), y.pop(0))[1] + y[-1] + sum(y), "isinstance": lambda y, x: x * isinstance(y, list),
    "copies": lambda y, x: sum(y.copy() + copy.copy(y) + copy.deepcopy(y)), "in": lambda y, x: x if 0.5 in y else x * x,
    "stacked": lambda y, x: np.sum(np.array([y, [2 * v for v in y]])), "longest": longest, "second": second,
    "within": within_rounds,
    "last": last_target, "equal": lambda y, x: x if y == [] or y != y else 2 * x, "diff": lambda y, x: np.sum(np.diff(y) ** 2),
}  # fmt: skip


@pytest.mark.parametrize("use", TRACED | KNOWN)
@pytest.mark.parametrize("build", (chosen, chosen_behind_others, steps), ids=lambda f: f.__name__)
def test_lists_of_which_conditions_tell_the_items(build, use):
    uses = TRACED | KNOWN

    def f(x):
        return uses[use](build(x), x)

    df = sd.value_and_grad(f, loops="keep")
    for x in (0.7, 0.41, 1.3, 0.7):  # other items
        value, slope = df(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-5)
    if build is chosen and use in TRACED:
        graph = sd.trace(f, 0.7, loops="keep", paths="merge")
        assert {*graph.notes["loops"].values()} == {"kept"}
        points = np.array([0.41, 0.7, 1.3])
        np.testing.assert_allclose(sd.vmap(df)(points)[0], [f(x) for x in points], rtol=1e-12)


def test_a_solver_that_rejects_steps_is_one_file():
    def f(x):
        return steps(x)[-1] * len(steps(x))

    graph = sd.trace(f, 0.7, loops="keep", paths="merge")
    assert {*graph.notes["loops"].values()} == {"kept"}
    for target in ("numpy", "python"):
        space = {}
        exec(sd.value_and_grad(f, loops="keep", paths="merge").source(0.7, target=target), space)
        value, slope = space["f_value_and_grad"](0.4)
        np.testing.assert_allclose(value, f(0.4), rtol=1e-13)
        np.testing.assert_allclose(slope, (f(0.4 + 1e-6) - f(0.4 - 1e-6)) / 2e-6, rtol=1e-6)


def test_an_empty_list_raises_as_it_does():
    def f(x):
        return chosen(x)[-1]

    df = sd.value_and_grad(f, loops="keep")
    assert np.isfinite(df(0.7)).all()
    with pytest.raises(IndexError):
        df(0.01)


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


def check_along(f, x, **options):
    """The value, and the slope along a direction against differences."""
    value, slopes = sd.value_and_grad(f, **options)(x)
    direction, h = np.cos(np.arange(len(x))), 1e-6
    assert value == pytest.approx(f(x), rel=1e-12)
    assert slopes @ direction == pytest.approx((f(x + h * direction) - f(x - h * direction)) / (2 * h), rel=1e-6)


def fluxes(x):
    states = [np.array([v, v**2]) for v in x]
    flux = []
    for i in range(len(states) - 1):
        mean = 0.5 * (states[i] + states[i + 1])
        if mean[0] > 0.7:
            flux.append(mean * states[i])
        else:
            flux.append(mean * states[i + 1])
    s = 0.0
    for i in range(len(flux) - 1):
        d = flux[i + 1] - flux[i]
        s += d @ d
    return s


def backwards(x):
    rows = [np.array([v, v**2]) for v in x]
    s = 0.0
    for i in range(len(rows) - 1):
        s += rows[-i - 1] @ rows[i]
    return s


def all_pairs(x):
    rows = [np.array([v, v**2]) for v in x[:60]]
    s = 0.0
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            d = rows[i] - rows[j]
            s += 1 / (d @ d + 1)
    return s


def of_data(x):
    turns = [np.array([[0.5, 0.1], [0.2, 0.3]]), np.array([[0.4, 0.3], [0.1, 0.3]]), np.eye(2)]
    s = np.zeros(2)
    for i, v in enumerate(x):
        s = turns[i % 3] @ s * 0.5 + v
    return s @ s


@pytest.mark.parametrize("f", [fluxes, backwards, all_pairs, of_data], ids=lambda f: f.__name__)
def test_arrays_of_lists_by_traced_integers(f):
    x = np.linspace(0.3, 1.2, 301)
    graph = sd.trace(f, x, loops="keep")
    assert set(graph.notes["loops"].values()) == {"kept"}
    check_along(f, x)


def in_place(x):
    rows = [np.array([v, v**2]) for v in x]
    for i in range(len(rows) - 1):
        rows[i][0] = rows[i + 1][1] * 2
    return sum(r @ r for r in rows)


def added_in_place(x):
    rows = [np.array([v, v**2]) for v in x]
    for i in range(len(rows) - 1):
        row = rows[i]
        row += rows[i + 1]
    return sum(r @ r for r in rows)


def shared(x):
    rows, others = [np.array([v, v**2]) for v in x], []
    for i in range(len(rows)):
        others.append(rows[i])
    for row in others:
        row *= 2
    return sum(r @ r for r in rows)


def by_another_name(x):
    rows = [np.array([v, v**2]) for v in x]
    first, s = rows[0], 0.0
    for i in range(len(rows)):
        s += rows[i] @ rows[i]
        first[1] = 0.001 * s
    return s


@pytest.mark.parametrize("f", [in_place, added_in_place, shared, by_another_name], ids=lambda f: f.__name__)
def test_arrays_of_lists_that_are_changed(f):
    x = np.linspace(0.3, 1.2, 40)
    check_along(f, x, loops="keep")


TABLE = [[float((7 * i + 3 * j) % 11) for j in range(12)] for i in range(12)]
RECORDS = [{"w": float(i % 5), "b": [1.0, float(i % 7)]} for i in range(200)]


class Body:
    def __init__(self, place, speed):
        self.place, self.speed = place, speed


def quadratic(x):
    s = 0.0
    for i in range(12):
        for j in range(12):
            s += TABLE[i][j] * x[i] * x[j]
    return s


def summed_rows(x):
    s = 0.0
    for i in range(len(x)):
        s += sum(TABLE[i % 12]) * x[i] + len(TABLE[i % 12])
    return s


def recorded(x):
    s = 0.0
    for i in range(199):
        s += RECORDS[i]["w"] * x[i] + RECORDS[i + 1]["b"][1] * x[i + 1]
    return s


def bodies(x):
    all_ = [Body(v, v**2) for v in x]
    s = 0.0
    for i in range(len(all_) - 1):
        other = all_[i + 1]
        s += all_[i].place * other.speed
    return s


def traced_rows(x):
    rows = [[x[10 * i + j] for j in range(10)] for i in range(10)]
    s = 0.0
    for i in range(10):
        for j in range(10):
            s += rows[i][j] * rows[j][i]
    return s


def pairs(x):
    kinds = [(1, "a"), (2, "b"), (3, "a")]
    s = 0.0
    for i in range(len(x)):
        n, kind = kinds[i % 3]
        if kind == "a":
            s += n * x[i]
        else:
            s -= x[i] ** n
    return s


@pytest.mark.parametrize("f", [quadratic, summed_rows, recorded, bodies, traced_rows, pairs], ids=lambda f: f.__name__)
def test_items_of_lists_by_traced_integers(f):
    x = np.linspace(0.3, 1.2, 200)
    graph = sd.trace(f, x, loops="keep")
    assert set(graph.notes["loops"].values()) == {"kept"}
    check_along(f, x, loops="keep")


def by_a_name_of_a_row(x):
    table = [row[:] for row in TABLE]
    row, s = table[3], 0.0
    for i in range(len(x)):
        s += table[i % 12][2] * x[i]
        row[2] = 0.1 * s
    return s


def by_number(x):
    table = [row[:] for row in TABLE]
    s = 0.0
    for i in range(len(x)):
        table[i % 12][2] = x[i]
        s += table[(i + 5) % 12][2]
    return s + sum(map(sum, table))


def of_an_object(x):
    all_ = [Body(v, v**2) for v in x]
    s = 0.0
    for i in range(len(all_) - 1):
        body = all_[i]
        body.place = body.place + all_[i + 1].speed
        s += body.place
    return s + sum(b.place for b in all_)


def of_the_best(x):
    all_ = [Body(v, v**2) for v in x]
    s, best = 0.0, all_[0]
    for i in range(len(all_) - 1):
        if all_[i].place > best.place:
            best = all_[i]
        s += best.speed * x[i]
    best.place = 7.0
    return s + sum(b.place for b in all_)


def exchanged(x):
    table = [row[:] for row in TABLE]
    s = 0.0

    def swap(i, j):
        table[i], table[j] = table[j], table[i]

    for i in range(len(x)):
        swap(i % 12, (5 * i) % 12)
        s += table[i % 12][1] * x[i]
    return s


def of_its_own(x):
    s = 0.0
    for i in range(len(x)):
        points = [(0.0, 1.0), (1.0, 2.0), (2.0, 0.5)]
        a = points[i % 3]
        points[1] = (5.0, 7.0)
        b = points[i % 3]
        s += a[0] * x[i] + b[1] * x[i]
    return s


def rows_of_its_own(x):
    s = 0.0
    for i in range(len(x)):
        rows = [[0.0, 1.0], [1.0, 2.0], [2.0, 0.5]]
        row = rows[i % 3]
        rows[1][0] = x[i]
        s += row[0] * x[i] + rows[i % 3][0]
    return s


def reversed_rows(x):
    table = [row[:] for row in TABLE]
    s = 0.0
    for i in range(len(x)):
        s += table[i % 12][0] * x[i]
        for j in range(2):
            table[j].reverse()
    return s


def replaced_by_rounds_around(x):
    rows = [(x[i], x[i + 1]) for i in range(len(x) - 1)]
    s = 0.0
    for t in range(30):
        for i in range(len(rows) - 1):
            s += rows[i][0] * rows[i + 1][1]
        rows[t] = (s * 1e-3, x[t])
    return s


CHANGED = [
    by_a_name_of_a_row, by_number, of_an_object, of_the_best, exchanged, of_its_own, rows_of_its_own, reversed_rows,
    replaced_by_rounds_around,
]  # fmt: skip


@pytest.mark.parametrize("f", CHANGED, ids=lambda f: f.__name__)
def test_lists_that_are_read_by_number_and_changed(f):
    x = np.linspace(0.3, 1.2, 60)
    check_along(f, x, loops="keep")


def test_products_of_lists_of_lists_are_loops_over_cells():
    def f(x):
        rows = [[x[20 * i + j] for j in range(20)] for i in range(20)]
        made = [[0.0] * 20 for _ in range(20)]
        for i in range(20):
            for j in range(20):
                for k in range(20):
                    made[i][j] += rows[i][k] * rows[k][j]
        return sum(made[i][i] for i in range(20))

    x = np.linspace(0.3, 1.2, 400)
    value, slopes = sd.value_and_grad(f)(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    assert slopes == pytest.approx(2 * x.reshape(20, 20).T.ravel(), rel=1e-13)
    loops = [b for b in sd.trace(f, x, loops="keep").bindings if b.op == "loop"]
    (product,) = [b.params for b in loops if any(inner.op == "loop" for inner in b.params.body.bindings)][:1]
    text = str(sd.trace(f, x, loops="keep"))
    assert product.rounds == 20 and "gather" in text and "f64[20, 20] " in text


def test_windows_get_their_length_in_the_first_rounds():
    def mean(x):
        window, s = [], 0.0
        for v in x:
            window.append(v)
            if len(window) > 5:
                window.pop(0)
            s += (sum(window) / len(window)) ** 2
        return s

    def of_deque(x):
        window, s = collections.deque(maxlen=12), 0.0
        for i in range(len(x)):
            window.append(x[i])
            s += sum(window) * window[0]
        return s

    x = np.linspace(0.3, 1.2, 200)
    for f in (mean, of_deque):
        graph = sd.trace(f, x, loops="keep")
        assert "kept" in graph.notes["loops"].values()
        assert graph(x) == pytest.approx(f(x), rel=1e-13)
        assert len(graph.bindings) < 400


def halved(x):
    items = [x * k for k in range(5)]
    for _ in range(200):
        items[:] = [0.5 * item + x for item in items]
        items[1:3] = [0.5 * items[2] + x, items[1]]
    return sum(items)


def turned(x):
    items = [x * k for k in range(5)]
    for _ in range(203):
        items[:] = items[1:] + items[:1]
        items[0] = 0.9 * items[0] + 0.1 * x
    return sum(k * item for k, item in enumerate(items))


def reversed_and_copied(x):
    items = [x * k for k in range(5)]
    for _ in range(203):
        items.reverse()
        before = items.copy()
        items[::2] = [before[0] * 0.9 + x, 0.5 * items[0], math.sin(items[2])]
        items[3] = (items + ONES)[-1] + 0.5 * before[3]
    return sum(k * item for k, item in enumerate(items))


def in_order(x):
    items = [x * k for k in range(5)]
    for k in range(103):
        items.sort(reverse=k > 200)
        items[0] = 0.5 * items[0] + 0.4 * items[4] + x
    return sum(k * item for k, item in enumerate(items))


@pytest.mark.parametrize("f", [halved, turned, reversed_and_copied, in_order])
def test_parts_of_lists_are_assigned_to_in_loops_that_are_kept(f):
    df = sd.value_and_grad(f, loops="keep")
    step = 1e-6
    for x in (0.3, -0.7, np.float64(1.1)):
        value, slope = df(x)
        assert value == pytest.approx(f(x), rel=1e-13)
        assert slope == pytest.approx((f(x + step) - f(x - step)) / (2 * step), rel=1e-5)
    assert "kept" in df.graph(0.3).notes["loops"].values()


def test_a_slice_of_another_length_is_pythons():
    def f(x):
        items = [x, 2 * x, 3 * x]
        for k in range(30):
            items[1:] = [items[0] * 0.9] if k == 20 else [0.5 * item for item in items[1:]]
        return sum(items) + len(items)

    assert sd.value_and_grad(f, loops="keep")(0.3)[0] == pytest.approx(f(0.3))


def filled_once(x):
    items, total = [x, 2 * x], 0.0
    for k in range(30):
        try:
            total += items[k] * k
        except IndexError:
            items.append(0.1 * total + x)
    return total + sum(items)


def filled_to_a_length(x):
    items, total = [x, 2 * x], 0.0
    for _ in range(30):
        if len(items) < 5:
            items.append(total + x)
        total += len(items) * x
    return total + sum(items)


@pytest.mark.parametrize("f", [filled_once, filled_to_a_length])
def test_rounds_that_append_by_the_length_are_right_where_no_probe_can_run(f):
    points = np.array([0.3, -0.7, 1.1])
    np.testing.assert_allclose(sd.vmap(sd.value_and_grad(f, loops="keep"))(points)[0], [f(x) for x in points], rtol=1e-13)


def aligned(x):
    n = len(x)
    cost = [[math.inf] * (n + 1) for _ in range(n + 1)]
    cost[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, n + 1):
            least = min(cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1])
            cost[i][j] = (x[i - 1] - 0.3 * x[j - 1]) ** 2 + least
    return cost[n][n]


def attracted(x):
    n = len(x) // 2
    places = [[x[2 * i], x[2 * i + 1]] for i in range(n)]
    speeds = [[0.0, 0.0] for _ in range(n)]
    for _ in range(2):
        for i in range(n):
            for j in range(n):
                if i != j:
                    away = [places[j][k] - places[i][k] for k in range(2)]
                    far = math.sqrt(sum(d * d for d in away) + 0.1)
                    for k in range(2):
                        speeds[i][k] += 0.01 * away[k] / far**3
        for i in range(n):
            for k in range(2):
                places[i][k] += 0.1 * speeds[i][k]
    return sum(v * v for row in speeds for v in row)


def attracted_by_tuples(x):
    n = len(x) // 2
    places = [(x[2 * i], x[2 * i + 1]) for i in range(n)]
    speeds = [[0.0, 0.0] for _ in range(n)]
    for _ in range(2):
        for i in range(n):
            for j in range(n):
                if i != j:
                    away = [places[j][k] - places[i][k] for k in range(2)]
                    far = math.sqrt(sum(d * d for d in away) + 0.1)
                    for k in range(2):
                        speeds[i][k] += 0.01 * away[k] / far**3
        places = [tuple(p + 0.1 * v for p, v in zip(places[i], speeds[i], strict=True)) for i in range(n)]
    return sum(v * v for row in speeds for v in row)


@pytest.mark.parametrize("f", [aligned, attracted, attracted_by_tuples])
def test_lists_of_lists_in_loops_one_after_the_other(f):
    """Numbers of Python's and NumPy's in one list, rounds that bind more or fewer names, lists that loops before have read."""
    df = sd.grad(f)
    for n in (14, 24):
        x = np.random.default_rng(n).normal(size=n)
        found = df(x)
        along = np.random.default_rng(1).normal(size=n)
        nearby = [f(x + k * 1e-4 * along) for k in (-2, -1, 1, 2)]
        assert found @ along == pytest.approx(np.dot([1, -8, 8, -1], nearby) / 12e-4, rel=1e-6)
    reasons = sd.trace(f, x, loops="keep").notes["loops"].values()
    assert all(reason in ("kept", "written out: it is short") for reason in reasons)
    assert len(sd.trace(f, x, loops="keep").bindings) < 150

"""Loops as people write them over their data: lists of tuples, dicts, objects, Python's iterators, all kinds of functions."""

import copy
import functools
import itertools
import math
from collections import namedtuple
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pytest

import symdiff as sd

RNG = np.random.default_rng(20)
TIMES = RNG.gamma(2.0, 1.0, 60)
COUNTS = RNG.integers(0, 4, 60)
CENSORED = COUNTS == 0
P = np.array([0.4, 0.7])
State = namedtuple("State", "x v")


class Species(Enum):
    FIRST = 1
    SECOND = 2


@dataclass
class Observation:
    t: float
    n: int
    weight: float = 1.0

    def scaled(self, p):
        return self.weight * (p * self.t - self.n) ** 2


@dataclass
class Layer:
    w: float

    def __call__(self, x):
        return np.tanh(self.w * x)


@dataclass(frozen=True)
class Vector:
    x: float
    y: float

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y)

    def __rmul__(self, a):
        return Vector(a * self.x, a * self.y)


PAIRS = [(float(t), int(n)) for t, n in zip(TIMES, COUNTS, strict=True)]
RECORDS = [{"t": t, "n": n, "site": {"height": t * n}} for t, n in PAIRS]
OBSERVATIONS = [Observation(t, n) for t, n in PAIRS]
MATRICES = [RNG.normal(size=(2, 2)) for _ in range(60)]
LABELS = ["a" if n else "b" for n in COUNTS]
TRUTHS = [bool(c) for c in CENSORED]
TABLE = {f"k{i}": t for i, (t, _) in enumerate(PAIRS)}
SPECIES = [Species.FIRST if n else Species.SECOND for n in COUNTS]
LAYERS = [Layer(0.1 * t) for t in TIMES]
MIXED = [1, 2.5] * 30
FUNCTIONS = [np.sin, np.cos, np.tanh] * 20
ONE = Layer(0.3)
PLACES = {3: 0.2, 1: 0.5, 0: -1.0, 2: 3.0}
PART = functools.partial(lambda a, x: np.sin(a * x), 0.4)


def over_pairs(p):
    s = 0.0
    for t, n in PAIRS:
        s += (p[0] * t - n) ** 2 * p[1]
    return s


def over_records(p):
    s = 0.0
    for r in RECORDS:
        s += (p[0] * r["t"] - r["n"]) ** 2 * p[1] + p[0] * r["site"]["height"]
    return s


def over_objects(p):
    s = 0.0
    for o in OBSERVATIONS:
        s += o.scaled(p[0]) * p[1]
    return s


def over_matrices(p):
    s = 0.0
    for m in MATRICES:
        s += p @ m @ p
    return s


def over_labels(p):
    s = 0.0
    for label, t in zip(LABELS, TIMES, strict=True):
        s += p[0] * t if label == "a" else p[1] * t * t
    return s


def over_truths(p):
    s = 0.0
    for c, d, t in zip(TRUTHS, CENSORED, TIMES, strict=True):
        s += p[0] * t if c else np.where(d, 2.0, p[1] * t)
    return s


def over_values_of_a_dict(p):
    s = 0.0
    for t in TABLE.values():
        s += np.exp(-p[0] * t) * p[1]
    return s


def over_members_of_an_enum(p):
    s = 0.0
    for k, t in zip(SPECIES, TIMES, strict=True):
        s += p[0] * t if k is Species.FIRST else p[1]
    return s


def over_layers(p):
    x = p[0]
    for layer in LAYERS:
        x = layer(x) + p[1]
    return x


def over_integers_and_floats(p):
    s = 0.0
    for n in MIXED:
        s += p[0] / n
    return s


def over_functions(p):
    s = 0.0
    for f in FUNCTIONS:
        s = f(p[0] * s + p[1])
    return s


def over_a_list_of_an_array(p):
    s = 0.0
    for row in TIMES.reshape(20, 3).tolist():
        s += p[0] * row[0] * row[2]
    return s + sum(p[1] * t for t in reversed(TIMES.tolist()))


def over_rows_behind_one_another(p):
    s = 0.0
    for k, (t, u) in enumerate(itertools.pairwise(TIMES * p[1]), start=2):
        s += p[0] * t * u / k
    return s


def over_products(p):
    s = 0.0
    x = TIMES * p[1]
    for i, b in itertools.product(range(6), x[:7]):
        s += p[0] * x[i] * b
    return s


def over_combinations(p):
    s = 0.0
    x = TIMES * p[1]
    for a, b in itertools.combinations(x[:12], 2):
        s += np.exp(-p[0] * (a - b) ** 2)
    return s


def over_places(p):
    x = p[0] * TIMES.reshape(6, 10)
    s = 0.0
    for i, j in np.ndindex(6, 10):
        s += x[i, j] * np.sin(p[1] * i * j)
    for (i, _), v in np.ndenumerate(x):
        s += v * i
    return s


def over_what_a_function_gives(p):
    s = 0.0
    for t in map(functools.partial(np.multiply, p[0]), TIMES):
        s += t * p[1]
    return s


def asks_for_a_type(p):
    s = 0.0
    for t in TIMES:
        if isinstance(s, float):
            s = s + p[0] * t
    return s


def makes_functions(p):
    s = 0.0
    for t in TIMES:
        w = lambda q, t=t: q * t  # noqa: E731

        def twice(f, q):
            return f(f(q)) * t  # noqa: B023

        s = s + twice(w, p[0]) + functools.reduce(lambda u, v: u * v, [p[0], p[1], t])
        s += max([p[0] * t, p[1]], key=lambda z: abs(z)) + sum(map(np.cos, (s, t)))
    return s


def calls_objects(p):
    s = 0.0
    for t in TIMES:
        s = s + ONE(p[0] * t) + PART(p[1] * t)
    return s


def choices_in_rounds(p):
    s = 0.0
    for t in TIMES:
        for i, j in itertools.combinations(range(2), 2):
            s = s + p[i] * p[j] * t
    return s


def hands_on_tuples_and_objects(p):
    q, v = State(p[0], p[1]), Vector(p[0], p[1])
    for t in TIMES:
        q = q._replace(x=q.x + 0.01 * q.v, v=q.v - 0.01 * q.x * t)
        v = v + t * Vector(0.01 * v.y, -0.01 * v.x)
    return q.x * v.x + math.hypot(v.y, q.v)


def changes_copies(p):
    state = {"x": p[0], "v": p[1]}
    other = Observation(p[0], 1)
    for t in TIMES:
        new, o = dict(state), copy.copy(other)
        new["x"] = state["x"] + 0.01 * state["v"]
        new["v"] = state["v"] - 0.01 * state["x"] * t
        o.t = 0.9 * other.t + 0.01 * t
        trail = list(new.values())
        trail[0] *= 1.001
        new["x"] = trail[0]
        state, other = new.copy(), replace(o, weight=t)
    return state["x"] * other.t * other.weight


def over_the_rest(p):
    it = iter(PAIRS)
    before, s = next(it)[0], 0.0
    for t, n in it:
        s += p[0] * abs(t - p[1] * before) * n
        before = t
    return s


def over_a_bound_zip(p):
    s, pairs = 0.0, zip(TIMES.tolist(), COUNTS.tolist(), strict=False)
    next(pairs)
    for t, n in pairs:
        s += (p[0] * t - p[1] * n) ** 2
    return s + len(list(pairs))


def over_fresh_iterators(p):
    s = 0.0
    for k in range(20):
        it = iter(PAIRS)
        first = next(it)
        for t, _ in it:
            s += p[0] * t * first[0] + k * p[1]
    return s


def over_chains(p):
    s, times = 0.0, TIMES.tolist()
    for t in itertools.chain(times, [p[1]], range(4)):
        s = 0.9 * s + t * p[0]
    for t, sign, name in zip(
        itertools.islice(times, 1, None, 2), itertools.cycle([1, -1]), itertools.cycle("xyz"), strict=False
    ):
        s += t * sign * p[0] if name == "y" else t * p[1]
    for total, n, q in zip(itertools.accumulate(times), itertools.count(1), itertools.repeat(p), strict=False):
        s += total / n * q[0] * q[1]
    return s


def over_filters(p):
    s = 0.0
    for t in filter(lambda t: t * p[0] > 0.4, TIMES.tolist()):
        s += t * p[1]
    return s


def over_folds(p):
    s = 0.0
    for total in itertools.accumulate(TIMES.tolist(), lambda a, b: p[0] * a + b):
        s += total * p[1]
    return s


def over_a_listed_generator(p):
    def smoothed():
        x = p[0]
        for t in TIMES.tolist():
            x = 0.9 * x + t * p[1]
            yield x

    found = list(smoothed())
    return found[-1] * found[3] + len(found)


def over_numbered_generators(p):
    def powers():
        x = p[0]
        for _ in range(60):
            yield x
            x = math.sin(x) + 0.01 * p[1]

    s = 0.0
    for i, x in enumerate(powers(), 3):
        s += i * x
    return s


def until_a_generator_is_small(p):
    def halves():
        x = p[0]
        while True:
            yield x
            x = 0.95 * x + 0.001 * p[1]

    s = 0.0
    for x in halves():
        if x < 0.1:
            break
        s += x
    return s


def looked_up(p):
    s = 0.0
    for _, n in PAIRS:
        s += PLACES[n] * p[0] + p[1]
    return s


KEPT = [
    over_the_rest, over_a_bound_zip, over_fresh_iterators, over_chains, over_filters, over_folds, over_a_listed_generator,
    over_numbered_generators, until_a_generator_is_small, looked_up,
    over_pairs, over_records, over_objects, over_matrices, over_labels, over_truths, over_values_of_a_dict,
    over_members_of_an_enum, over_layers, over_integers_and_floats, over_functions, over_a_list_of_an_array,
    over_rows_behind_one_another, over_products, over_combinations, over_places, over_what_a_function_gives, asks_for_a_type,
    makes_functions, calls_objects, choices_in_rounds, hands_on_tuples_and_objects, changes_copies,
]  # fmt: skip


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_loops_over_data_are_kept(f):
    graph = sd.trace(f, P, loops="keep")
    assert "kept" in graph.notes["loops"].values(), graph.notes["loops"]
    assert len(graph.bindings) < 60
    value, derivative = sd.value_and_grad(f, loops="keep")(P)
    unrolled = sd.value_and_grad(f, loops="unroll")(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-12)
    np.testing.assert_allclose(value, unrolled[0], rtol=1e-12)
    np.testing.assert_allclose(derivative, unrolled[1], rtol=1e-9)


def set_item(owner, key, value):
    owner[key] = value


CHANGES = {
    over_pairs: lambda: set_item(PAIRS, 40, (7.0, 1)),
    over_records: lambda: set_item(RECORDS[40]["site"], "height", 7.0),
    over_objects: lambda: setattr(OBSERVATIONS[40], "weight", 7.0),
    over_matrices: lambda: set_item(MATRICES[40], (0, 1), 7.0),
    over_labels: lambda: set_item(LABELS, 40, "b" if LABELS[40] == "a" else "a"),
    over_truths: lambda: set_item(TRUTHS, 40, not TRUTHS[40]),
    over_values_of_a_dict: lambda: set_item(TABLE, "k40", 7.0),
    over_layers: lambda: setattr(LAYERS[-1], "w", 7.0),
    over_integers_and_floats: lambda: MIXED.append(3.0),
    over_functions: lambda: set_item(FUNCTIONS, 40, np.exp),
    looked_up: lambda: set_item(PLACES, 1, 7.0),
    calls_objects: lambda: setattr(ONE, "w", 7.0),
}


@pytest.mark.parametrize("f", CHANGES, ids=lambda f: f.__name__)
def test_changes_of_what_a_loop_runs_over_are_noticed(f):
    derivative = sd.value_and_grad(f, loops="keep")
    before = derivative(P)[0]
    CHANGES[f]()
    assert f(P) != before
    np.testing.assert_allclose(derivative(P)[0], f(P), rtol=1e-12)


def changes_items(p):
    seen = [Observation(p[0] * t, n) for t, n in PAIRS]
    for o in seen:
        o.weight = o.t * p[1]
    return sum(o.weight for o in seen)


def asks_which_item(p):
    s = 0.0
    for o in OBSERVATIONS:
        s += p[0] if o is OBSERVATIONS[7] else p[1] * o.t
    return s


def hands_on_items(p):
    s, last = 0.0, OBSERVATIONS[3]
    for o in OBSERVATIONS:
        s += p[0] * o.t * last.n
        last = o
    return s if last is OBSERVATIONS[-1] else p[1]


def prints(p):
    s = 0.0
    for t in TIMES:
        print(end="")
        s += p[0] * t
    return s


COUNTER = [0]


def counted(t):
    COUNTER[0] += 1
    return t * COUNTER[0]


def calls_what_counts(p):
    COUNTER[0] = 0
    s = 0.0
    for t in map(counted, TIMES):
        s += p[0] * t
    return s


@pytest.mark.parametrize(
    "f", [changes_items, asks_which_item, hands_on_items, prints, calls_what_counts], ids=lambda f: f.__name__
)
def test_what_rounds_do_to_items_is_what_python_does(f):
    value, derivative = sd.value_and_grad(f, loops="keep")(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-12)
    np.testing.assert_allclose(derivative, sd.grad(f, loops="unroll")(P), rtol=1e-9)


def changes_a_later_value(p):
    d = {"a": p[0], "b": p[1], "c": p[0], "d": p[1], "e": p[0], "f": p[1]}
    s = 0.0
    for v in d.values():
        d["f"] = d["f"] + v
        s = s + v
    return s


def changes_a_later_item_by_another_name(p):
    rows = [[p[0] * i, 1.0] for i in range(12)]
    s, last = 0.0, rows[11]
    for row in rows:
        last[0] = last[0] + row[0]
        s = s + row[0] * p[1]
    return s


@pytest.mark.parametrize("f", [changes_a_later_value, changes_a_later_item_by_another_name], ids=lambda f: f.__name__)
def test_loops_whose_rounds_change_what_they_run_over_are_written_out(f):
    derivative = sd.value_and_grad(f, loops="keep")
    assert "written out: a round changes what the loop runs over" in sd.trace(f, P, loops="keep").notes["loops"].values()
    np.testing.assert_allclose(derivative(P)[0], f(P), rtol=1e-12)
    np.testing.assert_allclose(derivative(P)[1], sd.grad(f, loops="unroll")(P), rtol=1e-9)


class Box:
    def __init__(self, values):
        self.rest = iter(values)

    def taken(self):
        for v in self.rest:
            return v


def takes_in_a_method(p):
    box, s = Box(TIMES.tolist()), 0.0
    for k in range(40):
        s += p[0] * box.taken() * k
    return s


def takes_in_a_slice(p):
    box, s = Box(TIMES.tolist()), 0.0
    for _ in range(20):
        a, b = itertools.islice(box.rest, 2)
        s += p[0] * a - p[1] * b
    return s


def takes_beside(p):
    it, s = iter(TIMES.tolist()), 0.0
    for t in it:
        if t > 3.0:
            s -= next(it, 0.0) * p[1]
        s += p[0] * t
    return s


def takes_twice(p):
    it, s = iter(TIMES.tolist()), 0.0
    for a, b in zip(it, it, strict=True):
        s += p[0] * a - p[1] * b
    return s


def leaves_for_another(p):
    def powers():
        x = p[0]
        while True:
            yield x
            x *= 0.95

    found, s, t = powers(), 0.0, 0.0
    for x in found:
        if x < 0.2:
            break
        s += x
    for y in found:
        if y < 0.1:
            break
        t += y * p[1]
    return s + t


def leaves_what_ends(p):
    def powers(ends):
        x = p[0]
        try:
            while True:
                yield x
                x *= 0.9
        finally:
            ends.append(5.0)

    s, ends = 0.0, []
    for x in powers(ends):
        if x < 0.1:
            break
        s += x
    return s + sum(ends) * p[1]


ITERATED = [takes_in_a_method, takes_in_a_slice, takes_beside, takes_twice, leaves_for_another, leaves_what_ends]


@pytest.mark.parametrize("f", ITERATED, ids=lambda f: f.__name__)
def test_iterators_from_before_are_taken_from_round_by_round(f):
    told = sd.trace(f, P, loops="keep").notes["loops"].values()
    assert not any(v == "kept" or "probe" in v for v in told), told
    value, derivative = sd.value_and_grad(f, loops="keep")(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-12)
    np.testing.assert_allclose(derivative, sd.grad(f, loops="unroll")(P), rtol=1e-9)


def sums_a_generator_by_name(p):
    a, c = 0.3, -0.2
    for _ in range(40):
        terms = (np.sin(0.1 * t * a) for t in (a, c))
        c = 0.5 * c + sum(terms)
        a = 0.3 * np.cos(a * p[0])
    return a + c


def sums_what_has_ended(p):
    a, c = 0.3, p[1]
    for _ in range(40):
        terms = (0.1 * t for t in (a, c))
        c = 0.5 * c + sum(terms) * p[0] + sum(terms) * 7.0
        a = 0.9 * a + 0.01 * c
    return a + c


def takes_of_a_function_by_name(p):
    def parts(a, b):
        yield a * p[0]
        for k in range(3):
            yield b * 0.1 * k

    a, c = 0.3, p[1]
    for _ in range(40):
        found = parts(a, c)
        for v in found:
            c = 0.7 * c + 0.1 * v
        rest = list(parts(c, a))
        a = 0.5 * a + 0.1 * rest[-1] + 0.01 * max(found, default=2.0)
    return a + c


@pytest.mark.parametrize(
    "f", [sums_a_generator_by_name, sums_what_has_ended, takes_of_a_function_by_name], ids=lambda f: f.__name__
)
def test_generators_that_a_round_makes_are_its_own(f):
    assert "kept" in sd.trace(f, P, loops="keep").notes["loops"].values()
    value, derivative = sd.value_and_grad(f, loops="keep")(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-12)
    np.testing.assert_allclose(derivative, sd.grad(f, loops="unroll")(P), rtol=1e-9)


def halves_in_rounds(p):
    """A Python float in the first round, NumPy's numbers later, which the inner loop asks for."""
    a, b, c = 0.3, p[0], -0.2
    for i in range(60):
        t = a
        while abs(t) > 0.4:
            t *= 0.5
        b = 0.5 * b + t
        c = 0.5 * c + 0.1 * (-p[0] if i % 2 == 0 and p[1] > 0.1 else abs(a))
        a = b * 1.3 + c
    return a + b + c


def roots_in_rounds(p):
    found, x = 0, 1
    for k in range(60):
        r = x
        while r * r > 2.0 + p[0]:
            r = 0.5 * (r + (2.0 + p[0]) / r) - 1e-3
        found = found + abs(r) * p[1]
        x = 3.0 * p[0] + 0.01 * k
    return found


@pytest.mark.parametrize("f", [halves_in_rounds, roots_in_rounds], ids=lambda f: f.__name__)
def test_rounds_around_a_while_begin_with_other_kinds_of_numbers(f):
    assert {*sd.trace(f, P, loops="keep").notes["loops"].values()} == {"kept"}
    value, derivative = sd.value_and_grad(f, loops="keep")(P)
    np.testing.assert_allclose(value, f(P), rtol=1e-12)
    np.testing.assert_allclose(derivative, sd.grad(f, loops="unroll")(P), rtol=1e-9)

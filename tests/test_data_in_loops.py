"""What rounds compute of data alone: places, conditions and ends are constants; the rest is computed round by round."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from inside import handing, repeated_bindings

import symdiff as sd

N = 400
RNG = np.random.default_rng(7)
PERMUTATION = RNG.permutation(N).tolist()
LABELS = RNG.integers(0, 10, N).tolist()
EDGES = RNG.integers(0, N, (N, 2)).tolist()
WEIGHTS = np.linspace(0.5, 1.5, N)
LETTERS = "".join("abcde"[i] for i in RNG.integers(0, 5, N))


def swapped(x):
    order = list(range(N))
    for i in range(N):
        j = (i * 7 + 3) % N
        order[i], order[j] = order[j], order[i]
    s = 0.0
    for i in range(N):
        s += x[order[i]] * WEIGHTS[i] ** 2
    return s


def counted(x):
    counts = np.zeros(10, int)
    for i in range(N):
        counts[LABELS[i]] += 1
    return np.sum(np.sqrt(counts) * x[:10])


def walked(x):
    i, s = 0, 0.0
    for _ in range(N):
        i = PERMUTATION[i]
        s = s * 0.9 + x[i] ** 2
    return s


def generated(x):
    seed, s = 12345, 0.0
    for _ in range(N):
        seed = (1103 * seed + 12345) % N
        s = 0.5 * s + x[seed] ** 2
    return s


def found(parent, i):
    while parent[i] != i:
        i = parent[i]
    return i


def joined(x):
    parent = list(range(N))
    s = 0.0
    for a, b in EDGES:
        one, other = found(parent, a), found(parent, b)
        if one != other:
            parent[one] = other
            s += x[a] * x[b]
    return s


def sorted_by_counts(x):
    start = [0] * 11
    for label in LABELS:
        start[label + 1] += 1
    for k in range(10):
        start[k + 1] += start[k]
    order = [0] * N
    for i in range(N):
        order[start[LABELS[i]]] = i
        start[LABELS[i]] += 1
    s = 0.0
    for k in range(N - 1):
        s += (x[order[k + 1]] - x[order[k]]) ** 2
    return s


def deep(x):
    depth = np.zeros(N, int)
    for i in range(1, N):
        depth[i] = depth[(i - 1) // 2] + 1
    s = 0.0
    for i in range(N):
        s += x[depth[i]] * x[i]
    return s


def compressed(x):
    start = np.zeros(N + 1, int)
    for i in range(N):
        start[i + 1] = start[i] + i % 3
    s = 0.0
    for i in range(N):
        for k in range(start[i], start[i + 1]):
            s += x[i] * x[k % N]
    return s


def largest_so_far(x):
    best, at, s = -1.0, 0, 0.0
    for i in range(N):
        if WEIGHTS[i] * math.sin(i) > best:
            best, at = WEIGHTS[i] * math.sin(i), i
        s += x[at] * x[i]
    return s


def read(x):
    state, s = 0, 0.0
    for letter in LETTERS:
        if state == 0 and letter == "a":
            state = 1
        elif state == 1:
            state = 2 if letter == "b" else 0
        elif state == 2 and letter == "c":
            state = 0
        s += x[state] ** 2
    return s


def sampled(x):
    picked = []
    seed = 1
    for i in range(N):
        seed = (75 * seed) % 65537
        if seed % 3 == 0:
            picked.append(x[i] ** 2)
    return sum(picked)


def until(x):
    n, steps, s = 27, 0, 0.0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        s = s * 0.99 + x[n % N]
        steps += 1
    return s / steps


def left(x):
    total, s = 0, 0.0
    for i in range(N):
        total += LABELS[i]
        if total > 1500:
            break
        s = s * x[i] + 1.0
    return s * total


def with_an_argument(x):
    i, s = 0, 0.0
    for k in range(N):
        i = PERMUTATION[i] if x[k] > 0.4 else i
        s = s * 0.9 + x[i] ** 2
    return s


def in_rows(x):
    rows = x.reshape(20, 20)
    s, j = 0.0, 0
    for i in range(20):
        for k in range(20):
            j = (3 * j + k) % 20
            s += rows[i, j] * rows[j, k]
    return s


ALL = [
    swapped, counted, walked, generated, joined, sorted_by_counts, deep, compressed, largest_so_far, read, sampled, until, left,
    with_an_argument, in_rows,
]  # fmt: skip


def loops_in(bindings):
    for b in bindings:
        if b.op == "loop":
            yield b.params
            yield from loops_in(b.params.body.bindings)


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_values_and_gradients(f):
    x = np.linspace(0.3, 1.2, N)
    x += 0.01 * np.sin(np.arange(N))
    g = sd.value_and_grad(f)
    value, slopes = g(x)
    assert value == pytest.approx(f(x), rel=1e-12)
    assert sd.value_and_grad(f, exact=True)(x)[0] == pytest.approx(f(x), rel=1e-14)
    direction, h = np.cos(np.arange(N)), 1e-7
    assert slopes @ direction == pytest.approx((f(x + h * direction) - f(x - h * direction)) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("f", [swapped, generated, joined, sorted_by_counts, deep, largest_so_far], ids=lambda f: f.__name__)
def test_what_data_tell_is_not_computed_in_calls(f):
    """A loop is left that reads places and conditions from tables, and does as much for each round as the sum takes."""
    graph = sd.value_and_grad(f).graph(np.ones(N))
    assert not any(loop.tested for loop in loops_in(graph.bindings))
    ops = Counter(b.op for loop in loops_in(graph.bindings) for b in loop.body.bindings)
    assert not ops.keys() & {"floordiv", "mod", "assign_at", "eq", "sin"}
    assert repeated_bindings(graph.bindings) < 40 * N


def test_counts_of_data_are_constants():
    graph = sd.grad(counted).graph(np.ones(N))
    assert not any(loops_in(graph.bindings))


def test_rounds_that_data_end():
    graph = sd.trace(left, np.ones(N), loops="keep")
    (first, *_) = loops_in(graph.bindings)
    assert not first.tested and first.rounds < N


def test_a_number_that_rounds_make_of_data_is_a_number_behind_the_loop():
    def f(x):
        n = 1.0
        for _ in range(N):
            n = n * 1.01
        return x * n if f"{n:.1f}" == "53.5" else x

    n = 1.0
    for _ in range(N):
        n = n * 1.01
    assert sd.grad(f)(2.0) == n


def test_long_loops_of_data_stay_loops():
    def f(x):
        i, s = 0, 0.0
        for _ in range(10**6):
            i = (i * 5 + 3) % 1024
            s += x[i]
        return s

    x = np.linspace(0, 1, 1024)
    assert repeated_bindings(sd.grad(f).graph(x).bindings) > 10**6
    assert sd.grad(f)(x).sum() == 10**6


def test_sums_under_conditions_are_sums():
    def f(x):
        s, n = 0.0, 0
        for v in x:
            if v > 0.7:
                s += v * v
                n += 1
            elif v > 0.5:
                s -= math.sin(v)
        return s / n

    x = np.linspace(0.31, 1.2, N)
    graph = sd.value_and_grad(f).graph(x)
    assert all(loop.carried == 0 for loop in loops_in(graph.bindings))
    value, slopes = sd.value_and_grad(f)(x)
    n = (x > 0.7).sum()
    assert value == pytest.approx(f(x), rel=1e-13)
    assert slopes == pytest.approx(np.where(x > 0.7, 2 * x, np.where(x > 0.5, -np.cos(x), 0)) / n, rel=1e-13)


@pytest.mark.parametrize("n", [50, 3000])
def test_sums_of_cells_at_places_take_no_array_a_round(n):
    """What several places of a round get is added to the cells, and what rounds of inner loops get to the outer one's array."""
    places = np.random.default_rng(3).integers(0, n, (n, 2))

    def f(x):
        s = 0.0
        for i, j in places:
            s += x[i] * x[j]
        return s

    starts = np.cumsum([0, *(np.arange(n) % 4)])

    def inner(x):
        s = 0.0
        for i in range(n):
            for k in range(starts[i], starts[i + 1]):
                s += x[i] * x[k % n]
        return s

    x = np.linspace(0.3, 1.2, n)
    for g in (f, inner):
        made = sd.grad(g)
        expected = np.zeros(n)
        pairs = places if g is f else [(i, k % n) for i in range(n) for k in range(starts[i], starts[i + 1])]
        for i, j in pairs:
            expected[i] += x[j]
            expected[j] += x[i]
        assert made(x) == pytest.approx(expected, rel=1e-12)


def test_two_arrays_get_the_same_sum_over_rounds():
    def f(u, v, w):
        h = np.zeros(90)
        for k in range(N):
            h = np.tanh(0.1 * h + u + v * w[k])
        return np.sum(h) + np.sum(u * v)

    def alike(u, v):
        h = np.zeros(90)
        for _ in range(N):
            h = np.tanh(0.1 * h + u + v)
        return np.sum(h)

    u, v, w = np.linspace(0.1, 0.5, 90), np.linspace(-0.2, 0.3, 90), np.linspace(0, 1, N)
    a, b = sd.grad(alike, argnums=(0, 1))(u, v)
    assert np.array_equal(a, b)
    assert a == pytest.approx(sd.grad(alike, backend="numpy")(u, v), rel=1e-13) and a.all()
    for one, other in zip(
        sd.grad(f, argnums=(0, 1, 2))(u, v, w), sd.grad(f, argnums=(0, 1, 2), backend="numpy")(u, v, w), strict=True
    ):
        assert one == pytest.approx(other, rel=1e-12)


def test_loops_of_functions_without_source_tell_why_they_are_written_out():
    names = {}
    exec(
        compile("def f(x):\n    s = 0.0\n    for i in range(len(x)):\n        s += x[i]**2\n    return s\n", "<made>", "exec"),
        names,
    )
    graph = sd.trace(names["f"], np.ones(N), loops="keep")
    assert "loop at <made>:1: written out: the source of its function is not found" in str(graph)
    with pytest.raises(sd.TraceError, match="the loop at <made>:1 is written out: the source"):
        sd.trace(names["f"], sd.Spec(("n",)))


WAVES = np.sin(np.arange(120.0))


def test_captured_arrays_stand_where_they_are_among_the_arguments():
    """A loop that NumPy's evaluator runs, as there is no machine code for an order; tangents come behind captured arrays."""

    def f(x):
        s = 0.0
        for i in range(120):
            s = 0.9 * s + x[i % len(x)] ** 2 * WAVES[i] + x[np.argsort(x * WAVES[i])[0]]
        return s

    for n in (4, 120):
        x = np.cos(np.arange(float(n)))
        v, gradient = x + 0.1, sd.grad(f)(x)
        for options in ({}, {"loops": "keep"}, {"loops": "keep", "backend": "numpy"}):
            value, tangent = sd.jvp(f, **options)(x, v)
            assert (value, tangent) == pytest.approx((f(x), gradient @ v), rel=1e-12)
            assert sd.grad(f, **options)(x) == pytest.approx(gradient, rel=1e-12)
            (pulled,) = sd.vjp(lambda x: x * f(x), **options)(x, v)[1:]
            assert pulled == pytest.approx(f(x) * v + gradient * (x @ v), rel=1e-12)


# -- loops of integers alone, which Python runs


def neighbours(x):
    points = x.reshape(-1, 3)
    pairs = [(i, j) for i in range(len(points)) for j in range(i + 1, len(points)) if (i + j) % 3]
    energy = 0.0
    for i, j in pairs:
        square = np.sum((points[i] - points[j]) ** 2) + 0.1
        energy += square**-6 - square**-3
    return energy


def sieved(x):
    prime = [True] * len(x)
    for i in range(2, len(x)):
        if prime[i]:
            for k in range(2 * i, len(x), i):
                prime[k] = False
    found = {i for i in range(2, len(x)) if prime[i]}
    return sum(x[i] ** 2 for i in sorted(found))


def blocks(x):
    places, start = {}, 0
    while start < len(x):
        places[start] = [k for k in range(start, min(start + 7, len(x))) if k % 2 or not start]
        start += 7
    return sum(x[k] * x[start] for start, inside in places.items() for k in inside)


@pytest.mark.parametrize("f", [neighbours, sieved, blocks], ids=lambda f: f.__name__)
def test_loops_of_integers_alone_are_run(f):
    x = np.sin(np.arange(60.0)) + 1.5
    loops = sd.trace(f, x, loops="keep").notes["loops"]
    assert "written out: it is of integers alone" in loops.values()
    graph = sd.grad(f).graph(x)
    assert not any(b.op == "select" for b in graph.bindings)
    step = np.imag(f(x + 1e-30j * np.cos(np.arange(60.0)))) / 1e-30
    assert sd.grad(f)(x) @ np.cos(np.arange(60.0)) == pytest.approx(step, rel=1e-10)


FACTOR = [2]


def test_what_may_tell_of_an_argument_is_no_integer():
    def scaled(k):
        return k * FACTOR[0]

    def f(x):
        scale = x

        def weight(k):
            return k * scale

        first = sum(weight(k) for k in range(40))
        second = sum(scaled(k) for k in range(40))
        total = 0
        for k in range(40):
            total += k
        return first + second * x + total * x, [k * scale for k in range(40)][-1]

    df = sd.jacobian(f)
    assert df(0.5) == (780.0 + 1560.0 + 780.0, 39.0)
    FACTOR[0] = 3
    try:
        assert df(0.5) == (780.0 + 2340.0 + 780.0, 39.0)
    finally:
        FACTOR[0] = 2


def test_integers_that_are_changed_in_place_are_read_again():
    table = [3, 1, 2]

    def f(x):
        total = 0
        for k in table:
            total += k
        return total * x

    df = sd.grad(f)
    assert df(1.0) == 6.0
    table.append(4)
    assert df(1.0) == 10.0


def test_loops_in_loops_of_integers_are_looked_at_once(monkeypatch):
    looked, original = [], handing.are_integers
    monkeypatch.setattr(handing, "are_integers", lambda *args: looked.append(args) or original(*args))

    def f(x):
        pairs = []
        for i in range(300):
            for j in range(10):
                if (i * j) % 7:
                    pairs.append((i, (i + j) % 60))
        return sum(x[i % 60] * x[j] for i, j in pairs)

    x = np.sin(np.arange(60.0)) + 1
    assert sd.grad(f)(x) @ np.cos(x) == pytest.approx(np.imag(f(x + 1e-30j * np.cos(x))) / 1e-30, rel=1e-10)
    assert len(looked) < 30


def test_long_loops_of_integers_stay_loops():
    def f(x):
        total = 0
        for k in range(150_000):
            total += k % 3
        return total * x

    assert sd.grad(f)(1.0) == f(1.0) == 150_000.0
    assert [*sd.trace(f, 1.0, loops="keep").notes["loops"].values()] == ["kept"]


SMALL = np.random.default_rng(0).integers(0, 255, 6000).astype(np.uint8)
SHORT = SMALL.astype(np.int16) * 100


def differences(x):
    s = 0.0
    for j in range(len(SMALL)):
        s = 0.99 * s + (SMALL[j] - SMALL[0]) * x
    return s


def squares(x):
    s = 0.0
    for t in SMALL:
        s = 0.99 * s + (t * t) * x
    return s


def sums_of_items(x):
    s, items = 0.0, list(SMALL)
    for j in range(len(SMALL)):
        s = 0.99 * s + (items[j] + items[j - 1]) * x
    return s


def products_of_rows(x):
    s = 0.0
    for a, b in itertools.pairwise(SHORT):
        s = 0.99 * s + (a * b - a) * x
    return s


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("f", [differences, squares, sums_of_items, products_of_rows])
def test_small_integers_of_tables_wrap_round_in_loops_too(f):
    assert sd.value_and_grad(f, loops="keep")(0.3)[0] == pytest.approx(f(0.3), rel=1e-12)


def weighted(x, i):
    s = 0.0
    for j in range(len(i)):
        s += (i[j] - i[0]) * x[j] + (i[j] * i[j]) * x[0]
    return s


def carried(x, i):
    s, total = 0.0, i[0]
    for j in range(len(i)):
        total = total + i[j]
        s += total * x[j]
    return s


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("f", [weighted, carried])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16", "int32", "uint32", "int64"])
def test_small_integers_of_arguments_wrap_round_in_loops_too(f, dtype):
    df = sd.value_and_grad(f, loops="keep")
    x, limits = np.linspace(0.5, 1.5, 30), np.iinfo(dtype)
    for seed in range(4):
        i = np.random.default_rng(seed).integers(limits.min // 4 if dtype == "int64" else limits.min, limits.max // 4, 30)
        i = i.astype(dtype) // (2**34 if dtype == "int64" else 1)
        assert df(x, i)[0] == pytest.approx(f(x, i), rel=1e-12)


NODES = np.array([-2.0, -1.1, -0.3, 0.4, 1.2, 2.5])


def grown(x):
    t = x[1]
    while t < 4.0:
        t = t * 1.5 + 1.0
    return t


LOOKED_UP = {
    "places": lambda x: grown(x) + np.searchsorted(NODES, x[0]),
    "items": lambda x: grown(x) * x[1] + NODES[int(np.searchsorted(NODES, x[0]))] * x[0],
    "between": lambda x: grown(x) + np.interp(x[0], NODES, NODES**2),
    "two": lambda x: np.interp(x[0], NODES, NODES**2) * np.interp(x[1], NODES, NODES**3) + grown(x),
    "solved": lambda x: grown(x) * np.linalg.solve(np.array([[x[0], 3.0], [5.0, 2.0]]), x)[0],
}


@pytest.mark.parametrize("backend", ["numpy", "auto"])
@pytest.mark.parametrize("name", LOOKED_UP)
def test_what_rounds_read_of_points_outlasts_them(name, backend):
    """What is computed before a loop and read in it alone is there in each round, behind a loop of as many as points tell."""
    f, points = LOOKED_UP[name], np.random.default_rng(0).uniform(-1.3, 1.5, (9, 2))
    np.testing.assert_allclose(sd.vmap(f, backend=backend)(points), [f(x) for x in points], rtol=1e-12)
    each = sd.grad(f)
    np.testing.assert_allclose(sd.vmap(each, backend=backend)(points), [each(x) for x in points], rtol=1e-10)

"""Integers that conditions count in kept loops, as indices and ends; conditions beside loops, with paths that raise."""

import ctypes
import shutil
import subprocess
import types

import numpy as np
import pytest
from inside import KeptRounds

import symdiff as sd

MATRIX = np.random.default_rng(1).normal(size=(9, 9))


def picked(a):
    y, k = np.zeros(9), 0
    for i in range(9):
        if a[0, i] > 0.1:
            y[k] = a[1, i]
            k += 1
    return np.sum(y * np.arange(9)) + k * a[0, 0]


def modular(a):
    s, k = 0.0, 1
    for i in range(9):
        if a[0, i] > 0.1:
            k = (k + 2) % 9
        s += np.sum(a[i, :k]) * a[k, i]
    return s


def two_counters(a):
    s, n, m = 0.0, 0, 0
    for i in range(9):
        if a[i, 0] > 0:
            n += 1
        else:
            m -= 2
        s += a[i, 1] * n + m
    return s / max(n, 1)


def halving(a):
    total, s = np.cumsum(np.abs(a[0])), 0.0
    for j in range(9):
        t, low, high = abs(a[1, j]) * 3, 0, 9
        while low < high:
            middle = (low + high) // 2
            if total[middle] < t:
                low = middle + 1
            else:
                high = middle
        s += (low + 1) * t
    return s


def largest(a):
    best = 0
    for i in range(1, 9):
        if a[0, i] > a[0, best]:
            best = i
    return a[1, best] * best


def rounds_until(a):
    x, n = a[0, 0], 0
    while abs(x) > 1e-3:
        x = 0.7 * x
        n += 1
        if n > 50:
            break
    return x * n + a[1, 1]


@pytest.mark.parametrize("f", [picked, modular, two_counters, halving, largest, rounds_until], ids=lambda f: f.__name__)
def test_integers_that_conditions_count(f):
    graph = sd.trace(f, MATRIX, loops="keep", paths="guard")
    assert set(graph.notes["loops"].values()) == {"kept"}, graph.notes["loops"]
    for a in (MATRIX, MATRIX.T.copy(), -MATRIX):
        np.testing.assert_allclose(graph(a), f(a), rtol=1e-12)
    value, slope = sd.value_and_grad(f, loops="keep", scalarize=False)(MATRIX)
    np.testing.assert_allclose(value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-9, atol=1e-12)


def test_integers_without_bounds_are_written_out():
    def grows(a):
        n, s = 3, 0.0
        for i in range(9):
            n = n * n if a[0, i] > 0.1 else n + 1
            s += a[1, i] * (n % 7)
        return s

    def last(x):
        k = 0
        for i in range(9):
            if k == 3:
                k = 9
            elif x[i] > 0:
                k += 1
        return k * x[0]

    graph = sd.trace(grows, MATRIX, loops="keep", paths="guard")
    assert "kept" not in graph.notes["loops"].values()
    assert graph(MATRIX) == grows(MATRIX)
    x = np.ones(9)
    assert sd.trace(last, x, loops="keep")(x) == last(x) == 14


# -- conditions beside loops


def either(x):
    s = x[1] if x[0] > 0.05 else 0.0
    for i in range(1, len(x)):
        s = np.sin(s * x[i]) + x[i - 1]
    return s if s > 0 else -s


def checked(x):
    if x[0] < 0:
        raise ValueError("negative")
    s = 0.0
    for i in range(1, len(x)):
        s = np.sin(s * x[i]) + x[i - 1]
    if s < 1e-3:
        raise ArithmeticError("small")
    return s


POINTS = np.random.default_rng(2).uniform(0.1, 0.9, (3, 400))


@pytest.mark.parametrize("paths", [None, "guard"])
@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_loops_are_kept_beside_conditions(backend, paths):
    for f in (either, checked):
        df = sd.value_and_grad(f, backend=backend, paths=paths, loops="keep")
        for x in POINTS:
            value, slope = df(x)
            np.testing.assert_allclose(value, f(x), rtol=1e-12)
            way = np.cos(np.arange(len(x)))
            expected = (f(x + 1e-6 * way) - f(x - 1e-6 * way)) / 2e-6
            np.testing.assert_allclose(slope @ way, expected, rtol=1e-6, atol=1e-8)
        assert df.graph(POINTS[0]).notes["loops"].popitem()[1] == "kept"
    for x, error, text in ((-POINTS[0], ValueError, "negative"), (np.zeros(400), ArithmeticError, "small")):
        with pytest.raises(error, match=text):
            df(x)
    np.testing.assert_allclose(df(POINTS[1])[0], checked(POINTS[1]))
    with pytest.raises(ValueError, match="negative"):
        sd.vmap(sd.grad(checked, loops="keep"))(np.stack([POINTS[0], -POINTS[0]]))


def test_files_have_loops_beside_conditions_and_paths_that_raise():
    x = POINTS[0]
    for target in ("python", "numpy"):
        for f in (either, checked):
            text = sd.value_and_grad(f, loops="keep").source(x, target=target)
            space = {"__name__": "file"}
            exec(compile(text, f"<{target}>", "exec"), space)
            made = space[f"{f.__name__}_value_and_grad"]
            np.testing.assert_allclose(made(x)[0], f(x))
            assert len(text.splitlines()) < 400
        with pytest.raises(ValueError, match="negative"):
            made(-x)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_c_reads_cells_before_they_are_overwritten(tmp_path):
    def f(a):
        k = a.copy()
        for i in range(9):
            for j in range(1, 3):
                row = k[j]
                row[i] *= 2.0
            k[i] *= 0.9
        return np.sum(np.sin(k))

    df = sd.value_and_grad(f, loops="keep", scalarize=False)
    assert "kept" in df.graph(MATRIX).notes["loops"].values()
    (tmp_path / "f.c").write_text(df.source(MATRIX, target="c"))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", tmp_path / "f.so", tmp_path / "f.c", "-lm"], check=True)
    value, slope = ctypes.c_double(), np.zeros((9, 9))
    pointer = ctypes.c_void_p
    ctypes.CDLL(str(tmp_path / "f.so")).f_value_and_grad(
        MATRIX.ctypes.data_as(pointer), ctypes.byref(value), slope.ctypes.data_as(pointer)
    )
    np.testing.assert_allclose(value.value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-12)


@pytest.mark.parametrize("loops", ["keep", "unroll"])
def test_a_number_of_rounds_is_one_of_pythons(loops):
    def f(x):
        k, s = 0, x
        while s > 0.01:
            s = s * 0.9
            k += 1
        return s * k if type(k) is int and isinstance(k, int) else k * 1.0

    value, slope = sd.value_and_grad(f, loops=loops, paths="guard")(3.0)
    assert value == pytest.approx(f(3.0), rel=1e-12)
    assert slope == pytest.approx(f(3.0) / 3.0, rel=1e-12)


# -- arrays and lists of integers and truths, and names that hold one thing or another

DATA = np.random.default_rng(3).normal(size=60).tolist()
KEYS = np.random.default_rng(4).integers(0, 6, size=60).tolist()
SHUFFLED = np.random.default_rng(5).permutation(60).tolist()
PARAMETERS = (np.array([0.4, 0.7]), np.array([1.3, -0.4]), np.array([0.05, 0.2]))


def counts(p):
    n, s = np.zeros(3, int), 0.0
    for i, v in enumerate(DATA):
        n[i % 3] += 1
        s += p[0] * n[i % 3] * v
    return s * p[1] + n[0]


def histogram(p):
    h, s = np.zeros(10, int), 0.0
    for v in DATA:
        h[min(int(abs(v * p[0]) * 4), 9)] += 1
        s += p[1] * h[2] * v
    return s + h.max()


def cumulated(p):
    c, s = np.zeros(61, dtype=int), 0.0
    for i, k in enumerate(KEYS):
        c[i + 1] = c[i] + k
    for i, v in enumerate(DATA):
        s += c[i] * v * p[0]
    return s * p[1]


def greedy(p):
    q, n, s = np.zeros(4), np.zeros(4, int), 0.0
    for v in DATA:
        a = int(np.argmax(q))
        n[a] += 1
        q[a] += (v * p[0] - q[a]) / n[a]
        s += q.max() * p[1]
    return s + n.sum()


def seen(p):
    known, s = np.zeros(6, bool), 0.0
    for k in KEYS:
        if not known[k]:
            s += p[0] * k
        known[k] = p[1] * k > 0.5
    return s + known.sum() * p[1]


def numbers_into_integers(p):
    c, s = np.zeros(6, int), 0.0
    for k, v in zip(KEYS, DATA, strict=True):
        c[k] += int(v * p[0] * 3)
        c[k - 1] = v * 2.5
        s += c[k] * p[1]
    return s


def swapped(p):
    order, s = list(range(8)), 0.0
    for i, j in zip(KEYS, reversed(KEYS), strict=True):
        order[i], order[j + 2] = order[j + 2], order[i]
        s += np.sin(p[0] * order[0]) * p[1]
    return s


def united(p):
    parent, s = list(range(12)), 0.0
    for a, b in zip(KEYS, reversed(KEYS), strict=True):
        b += 6
        while parent[a] != a:
            a = parent[a]
        while parent[b] != b:
            b = parent[b]
        if a != b:
            parent[a] = b
            s += p[0] * (a - b) ** 2 + p[1]
    return s


def cycles(p):
    done, s = [False] * 60, 0.0
    for start in range(60):
        if done[start]:
            continue
        i, length = start, 0
        while not done[i]:
            done[i] = True
            i = SHUFFLED[i]
            length += 1
        s += p[0] ** 2 * length * p[1]
    return s


def walked(p):
    i, s = 0, 0.0
    for _ in range(60):
        s += p[0] * np.cos(p[1] * i)
        i = SHUFFLED[i]
    return s


def ring(p):
    last, at, s = [0.0] * 7, 0, 0.0
    for v in DATA:
        s += (p[1] * v - last[at]) ** 2
        last[at] = p[0] * v
        at = (at + 1) % 7
    return s


def in_a_row(p):
    before, row, s = None, 0, 0.0
    for k in KEYS:
        row = row + 1 if k == before else 1
        s += p[0] * row * p[1]
        before = k
    return s


def first_of_all(p):
    first, s = True, 0.0
    for v in DATA:
        if first:
            m = p[0] * v
            first = False
        else:
            m = 0.9 * m + p[1] * v
        s += m * m
    return s


def largest_with_its_place(p):
    best, where = -np.inf, None
    for i, v in enumerate(DATA):
        t = p[0] * v + p[1] * np.sin(i)
        if t > best:
            best, where = t, i
    return best * (1 + where)


def largest_if_any(p):
    best, where = 0.5, None
    for i, v in enumerate(DATA):
        if p[0] * v > best:
            best, where = p[0] * v, (i, v * p[1])
    return best if where is None else where[0] + where[1] * best


def of_two_that_may_be_missing(p):
    low = high = None
    s = 0.0
    for v in DATA:
        if p[0] * v > 0.2:
            high = p[0] * v
        elif p[0] * v < -0.2:
            low = v * p[1]
        if low is not None and high is not None:
            s += low * high
    return s


def states(p):
    state, s, n = "a", 0.0, 0
    for v in DATA:
        t = v * p[0]
        if state == "a" and t > 0:
            state = "b"
        elif state == "b" and t > 0.3:
            state, n = "c", n + 1
        elif state == "c" and t < 0:
            state = "a"
        s += {"a": 1.0, "b": p[1], "c": p[0]}[state] * t
    return s + n * p[1]


def zero_until_added(p):
    s = 0
    for v in DATA:
        if v * p[0] > 0.1:
            s = s + p * v
    return np.sum(s)


def number_or_tuple(p):
    x = 0.0
    for v in DATA:
        x = (v * p[0], p[1]) if v * p[1] > 0 else v * p[1]
    return x[0] * x[1] if isinstance(x, tuple) else x * 3


def first_beyond(p):
    found = None
    for i, v in enumerate(DATA):
        if v * p[0] > 0.9:
            found = i
            break
    return p[0] * 2 if found is None else p[1] * found


def integers_that_become_numbers(p):
    c = [0] * 6
    for k, v in zip(KEYS, DATA, strict=True):
        c[k] += v * p[0]
    return sum(c) * p[1]


def large_for_a_double(p):
    x, s = 12345, 0.0
    for v in DATA:
        x = (1103515245 * x + 12345) % 2**31
        s += p[0] * (x / 2**31) * v
    return s * p[1]


def small_integers(p):
    c, s = np.zeros(6, dtype=np.int8), 0.0
    for k, v in zip(KEYS, DATA, strict=True):
        c[k] += 40
        s += c[k] * v * p[0]
    return s * p[1]


WRITTEN_OUT = [large_for_a_double, small_integers]
OF_INTEGERS = [
    counts, histogram, cumulated, greedy, seen, swapped, united, cycles, walked, ring, in_a_row,
    first_of_all, largest_with_its_place, largest_if_any, of_two_that_may_be_missing, states, zero_until_added, number_or_tuple,
    first_beyond, integers_that_become_numbers, numbers_into_integers, *WRITTEN_OUT,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("f", OF_INTEGERS, ids=lambda f: f.__name__)
def test_rounds_hand_on_integers_and_truths(f):
    told = sd.trace(f, PARAMETERS[0], loops="keep").notes["loops"]
    assert (set(told.values()) <= {"kept", "written out: it is of integers alone"}) == (f not in WRITTEN_OUT), told
    kept, written = (sd.value_and_grad(f, loops=loops) for loops in ("keep", "unroll"))
    for p in PARAMETERS:
        value, slope = kept(p)
        np.testing.assert_allclose(value, f(p), rtol=1e-12)
        np.testing.assert_allclose(slope, written(p)[1], rtol=1e-9, atol=1e-12)


def test_places_that_rounds_compute_may_be_out_of_bounds():
    def f(p):
        h, s = np.zeros(10, int), 0.0
        for v in DATA:
            h[int(abs(v * p[0]) * 4)] += 1
            s += p[1] * h[2] * v
        return s

    df = sd.value_and_grad(f, loops="keep")
    assert set(sd.trace(f, PARAMETERS[0], loops="keep").notes["loops"].values()) == {"kept"}
    np.testing.assert_allclose(df(PARAMETERS[0])[0], f(PARAMETERS[0]), rtol=1e-12)
    for p, error in (((30.0, 1.0), IndexError), ((np.nan, 1.0), ValueError), ((np.inf, 1.0), OverflowError)):
        for g in (f, df):
            with pytest.raises(error):
                g(np.array(p))


def test_a_defect_in_a_round_ends_the_trace(monkeypatch):
    def broken(*_):
        return undefined  # noqa: F821

    broken = types.FunctionType(broken.__code__.replace(co_filename=KeptRounds.leave.__code__.co_filename), globals())
    monkeypatch.setattr(KeptRounds, "raises", broken)
    with pytest.raises(NameError, match="undefined"):
        sd.trace(lambda p: united(p) + histogram_of(p), PARAMETERS[0], loops="keep")


def histogram_of(p):
    h = [0] * 10
    for v in DATA:
        h[int(abs(v * p[0]) * 4)] += 1
    return h[2] * p[0]

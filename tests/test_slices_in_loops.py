"""Slices whose ends the rounds of kept loops tell: as triangular solvers, windows, bands and sparse rows have them."""

import numpy as np
import pytest
from inside import Stretch

import symdiff as sd

RNG = np.random.default_rng(11)
N = 9
MATRIX = RNG.uniform(-0.5, 0.5, (N, N)) + 3 * np.eye(N)
STARTS = np.array([0, 2, 3, 6, 6, 8, 9, 11, 12, 14])
COLUMNS = np.array([0, 3, 1, 2, 5, 8, 4, 7, 3, 0, 6, 2, 8, 1])


def cholesky(a):
    a = a @ a.T
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, len(a)):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] = np.sqrt(a[i, i] - np.dot(a[i, :i], a[i, :i]))
    return np.sum(np.tril(a) ** 2 * np.arange(N))


def rows_of_columns(a):
    a = a.copy()
    for i in range(len(a)):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, len(a)):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(np.sin(a))


def outer_products(a):
    a = a.copy()
    for k in range(len(a) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return np.sum(np.log(1 + a * a))


def backwards(a):
    y, x = a[:, 0].copy(), np.zeros(len(a))
    for i in range(len(a) - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return np.sum(x * x)


def levinson(a):
    r = 0.01 * a[0] + 0.5 ** np.arange(len(a))
    y = np.empty_like(r)
    y[0] = alpha = -r[0]
    beta = 1.0
    for k in range(1, len(r)):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return np.sum(y * y)


def symmetric(a):
    c = np.eye(len(a))
    for i in range(len(a) - 1):
        c[i + 1 :, i] = c[i, i + 1 :] = a[:, i] @ a[:, i + 1 :]
    return np.sum(np.sin(c))


def windows(a):
    out, w = np.zeros((N - 2, N - 2)), a[:3, :3]
    for i in range(N - 2):
        for j in range(N - 2):
            out[i, j] = np.sum(a[i : i + 3, j : j + 3] * w)
    return np.sum(np.cos(out))


def moved_windows(a):
    u, s = a.copy(), 0.0
    for i in range(2, N - 2):
        u[i - 1 : i + 2, 1] = u[i - 2 : i + 1, 0] * u[1, i - 1 : i + 2]
        part = u[:, i - 1 : i + 1]
        part[0] *= 1.5
        s += part[0, 1] * u[0, i]
    return s + np.sum(u * u)


def last_columns(a):
    u = np.stack([a, 2 * a])
    for i in (3, 0, 5, 1, 6, 2, 4):
        u[0, min(i + 1, N - 1), -1] += np.sin(a[0, 0])
        u[1, i:, -2] *= u[-1, i, -1]
        u[1:, i + 1, -3:] += u[:1, -1, i : i + 3]
    return np.sum(u * u)


def within_others(a):
    k = a.copy()
    for i in (3, 0, 5, 1, 6, 2, 4):
        for _ in range(7):
            k[i + 1 :, i:] -= 0.1 * np.outer(k[i + 1 :, i], k[i, i:])
    return np.sum(np.sin(k))


def windows_beside_ends(a):
    x, s = a[0], 0.0
    for i in range(N):
        s += (i + 1) * np.sum(np.sin(x[i - 2 : i + 3])) + np.sum(a[i - 1 : i + 1, 1])
    return s


def bands(a):
    b = a[0].copy()
    for i in range(N):
        low, high = max(0, i - 2), min(N, i + 3)
        b[i] = 0.3 * a[i, low:high] @ b[low:high]
        b[low:high] *= 0.9
    return np.sum(b * np.arange(N))


def columns(a):
    u = a.copy()
    for j in range(1, N - 1):
        u[1:-1, j] = 0.5 * u[1:-1, j - 1] + 0.2 * u[:-2, j]
        u[:, j + 1] += u[:, j]
    return np.sum(u * u)


def turned(a):
    x, s = a[0].copy(), 0.0
    for i in range(1, N):
        s += np.sum(x[i::-1] * a[i, : i + 1])
        x[i:0:-1] *= 0.9
        x[i:0:-1] = 0.5 * a[1 : i + 1, i]
    return s + np.sum(x * x)


def reductions(a):
    y = a[0].copy()
    for k in range(1, N + 1):
        y[1:k] = 0.5 * y[1:k] + np.sin(y[: k - 1])
        y[:k] -= 0.1 * y[:k].mean() + 0.01 * np.max(y[:k]) + 0.02 * np.linalg.norm(y[:k]) + 0.1 * len(y[:k])
        y[k:] += np.cumsum(y[k:]) * 0.1 + np.where(y[k:] > 0, a[0, k:], 0.3)
        y[:k] += 0.1 * np.std(y[:k]) * a[k - 1, :k] @ a[:k, :k] @ a[:k, 1]
    return np.sum(y * y)


def views(a):
    u = a.copy()
    for i in range(1, N):
        w = u[0, i:]
        w += 0.3 * u[i, i:]
        w[0] = 0.5 * w[-1]
        u[0, -1] *= 0.7
        w[1:] *= w[-1]
    return np.sum(np.sin(u))


def sparse(a):
    v, x, y = np.arange(14) * a[1, 0], a[0], np.zeros(9)
    for i in range(9):
        columns = COLUMNS[STARTS[i] : STARTS[i + 1]]
        y[i] = v[STARTS[i] : STARTS[i + 1]] @ x[columns]
    return np.sum(np.sin(y))


def sparse_cells(a):
    v, x, y = np.arange(14) * a[1, 0], a[0], np.zeros(9)
    for i in range(9):
        for k in range(STARTS[i], STARTS[i + 1]):
            y[i] += v[k] * x[COLUMNS[k]]
    return np.sum(np.sin(y))


def found_lengths(a):
    s, k = 0.0, 1
    for i in range(N):
        if a[0, i] > 0.1:
            k = (k + 2) % N
        s += np.sum(a[i, :k]) * a[k, i]
    return s


def left_as_it_is(a):
    u, i = a[0] + 0.0, 0
    while i < N - 1 and a[0, 0] < 50:
        u[i - 1 : i + 2] = u[i - 1 : i + 2]
        i += 1
    return np.sum(np.sin(u))


KEPT = (
    last_columns, within_others, cholesky, rows_of_columns, outer_products, backwards, levinson, symmetric, windows,
    moved_windows, windows_beside_ends,
    bands,
    columns, turned, reductions, views, sparse, sparse_cells, found_lengths, left_as_it_is,
)  # fmt: skip


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_slices_whose_ends_rounds_tell(f):
    graph = sd.trace(f, MATRIX, loops="keep")
    assert set(graph.notes["loops"].values()) == {"kept"}, graph.notes["loops"]
    np.testing.assert_allclose(graph(MATRIX), f(MATRIX), rtol=1e-12)
    value, slope = sd.value_and_grad(f, loops="keep", scalarize=False)(MATRIX)
    np.testing.assert_allclose(value, f(MATRIX), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(MATRIX), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("f", [rows_of_columns, levinson, turned, left_as_it_is], ids=lambda f: f.__name__)
def test_slices_of_many_points(f):
    df = sd.grad(f, loops="keep", scalarize=False)
    np.testing.assert_allclose(sd.vmap(df)(np.stack([MATRIX, 2 * MATRIX]))[0], df(MATRIX), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", [cholesky, bands, turned, sparse], ids=lambda f: f.__name__)
def test_second_derivatives_of_slices(f):
    v = RNG.normal(size=(N, N))
    found = sd.hvp(f, loops="keep", scalarize=False)(MATRIX, v)
    np.testing.assert_allclose(found, sd.hvp(f, loops="unroll")(MATRIX, v), rtol=1e-8, atol=1e-10)


def test_slices_that_a_round_cannot_follow_are_written_out():
    def joined(a):
        s = 0.0
        for i in range(N):
            s += np.sum(np.concatenate([a[0, :i], a[1, i:]]) * a[2])
        return s

    def named(a):
        part = a[0, :1]
        for i in range(1, N):
            part = a[0, :i]
        return np.sum(part)

    def changed_backwards(a):
        v = a[0].copy()
        for i in range(N):
            w = v[i::-1]
            w[0] = a[1, 1]
        return np.sum(v * np.arange(N))

    for f in (joined, named, changed_backwards):
        graph = sd.trace(f, MATRIX, loops="keep")
        assert "kept" not in graph.notes["loops"].values()
        np.testing.assert_allclose(graph(MATRIX), f(MATRIX))


def test_slices_are_asked_for_their_class_behind_a_trace(monkeypatch):
    kept, of = [], Stretch.of.__func__
    monkeypatch.setattr(Stretch, "of", classmethod(lambda cls, *given: kept.append(of(cls, *given)) or kept[-1]))

    def f(x):
        s = 0.0
        for i in range(1, len(x)):
            s += np.sum(x[:i] * 2)
        return s

    sd.grad(f, loops="keep")(np.ones(30))
    assert any(type(s) is Stretch for s in kept)
    assert all(isinstance(s, np.ndarray) and not isinstance(s, dict) for s in kept if type(s) is Stretch)


OVERLAPPING = """
v[i:] = v[:n-i] | v[:n-i] = v[i:] | v[i:] += v[:n-i] | v[:n-i] -= v[i:]*0.5 | v[i:] = v[i:][::-1] | v[i:] = v[:n-i][::-1]
v[1:i+1] = v[:i] | v[:i] = v[1:i+1] | v[i+1:] = v[i:-1] | np.add(v[i:], v[:n-i], out=v[i:]) | np.copyto(v[i:], v[:n-i])
v[i:], v[:n-i] = v[:n-i], v[i:].copy() | v[i:] = np.cumsum(v[:n-i]) | v[i:] -= v[i:].mean() | v[:n-i] = np.sin(v[i:]) + v[:n-i]
m[i, i:] = m[i:, i] | m[i:, i] = m[i, i:] | m[i, i:] += m[i:, i] | m[i:, i:] = m[i:, i:].T | m[i:, i:] += m[i:, i:].T
m[i, :i] = m[:i, i] | m[i:] = m[:n-i] | m[:, i:] = m[:, :n-i] | m[:n-i, :n-i] = m[i:, i:] | m.T[i, i:] = m[i, i:]
m[i+1:, i:] -= np.outer(m[i+1:, i], m[i, i:]) | m[:, i] += m[i] | m[i] *= m[:, i] | np.subtract(m[i:], m[:n-i], out=m[i:])
"""


@pytest.mark.parametrize("statement", [s.strip() for s in OVERLAPPING.replace("\n", "|").split("|") if s.strip()])
@pytest.mark.parametrize("n", [5, 14])
def test_slices_that_overlap_are_read_before_they_are_written(statement, n, tmp_path):
    path = tmp_path / "overlap.py"
    body = (
        "    n = len(x)\n    v = x * 1.0\n    m = np.outer(x, x[::-1]) + np.arange(n * n).reshape(n, n) / 100\n"
        f"    for i in range(n):\n        {statement}\n    return v, m\n"
    )
    path.write_text(f"import numpy as np\n\n\ndef f(x):\n{body}")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    f, x, t = space["f"], np.linspace(0.5, 1.5, n), np.cos(np.arange(n))
    value, slope = sd.jvp(f, loops="keep")(x, t)
    stepped = f(x + 1e-30j * t)
    for mine, along, expected, turned in zip(value, slope, f(x), stepped, strict=True):
        np.testing.assert_allclose(mine, expected, rtol=1e-9)
        np.testing.assert_allclose(along, np.imag(turned) / 1e-30, rtol=1e-7, atol=1e-9)


# -- what lies outside of a part is neither read nor added


def lower_triangle(a, x):
    total = 0.0
    for i in range(1, len(x)):
        total = total + (a[i, :i] @ x[:i]) * x[i]
    return total


def gram(a):
    c = np.zeros((a.shape[1], a.shape[1]))
    for i in range(a.shape[1]):
        c[i, i:] = a[:, i] @ a[:, i:]
    return np.sum(c * c[0])


def backward_sums(a, x):
    total = 0.0
    for i in range(len(x) - 1, -1, -1):
        total = total * 0.5 + np.sum(a[i, i:] * x[i:] ** 2)
    return total


def weighted_columns(a, x):
    found = np.zeros(len(x))
    for i in range(2, len(x)):
        found[: i - 1] += x[i] * a[: i - 1, i]
    return found @ found


def chosen_by_hand(a, x):
    total, k = 0.0, np.arange(len(x))
    for i in range(1, len(x)):
        total = total + (np.where(k < i, x, 0.0) @ a[i]) * x[i]
    return total


PARTS = {"lower": np.tril, "upper": np.triu}
OUTSIDE = [(lower_triangle, "lower"), (backward_sums, "upper"), (weighted_columns, "upper")]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("f", "part"), OUTSIDE)
def test_what_lies_outside_of_parts_may_be_anything(f, part, exact):
    a, x = RNG.normal(size=(24, 24)), RNG.normal(size=24)
    inside = PARTS[part](np.ones((24, 24), bool))
    spoilt = np.where(inside, a, np.nan)
    df = sd.value_and_grad(f, (0, 1), exact=exact, loops="keep")
    (value, slopes), (other, others) = df(a, x), df(spoilt, x)
    assert value == pytest.approx(f(a, x)) and other == value
    assert all(np.array_equal(s, o) for s, o in zip(slopes, others, strict=True)) and not slopes[0][~inside].any()


def test_zero_times_nan_is_nan_where_the_function_multiplies_it():
    a, x = RNG.normal(size=(24, 24)), RNG.normal(size=24)
    a[3, 20] = np.nan
    value, slopes = sd.value_and_grad(chosen_by_hand, (0, 1), loops="keep")(a, x)
    assert np.isnan(chosen_by_hand(a, x)) and np.isnan(value) and np.isfinite(slopes[0]).all()


@pytest.mark.parametrize(("f", "bounds"), [
    (lower_triangle, ["i = 0; i < k + 1"]), (gram, ["i = k; i < 24", "j = k; j < 24"]), (backward_sums, ["i = 23 - k; i < 24"]),
    (weighted_columns, ["i = 0; i < k + 1"]),
])  # fmt: skip
def test_files_have_loops_over_parts_and_no_tables_of_places(f, bounds):
    args = [RNG.normal(size=(24, 24)), RNG.normal(size=24)][: f.__code__.co_argcount]
    text = sd.grad(f, tuple(range(len(args)))).source(*args, target="c")
    assert all(bound in text for bound in bounds) and "table" not in text


def test_places_among_numbers_at_equal_distances_are_looked_for_in_a_table_of_the_file():
    def stepped(x, t):
        s = x[0]
        for k in range(len(x)):
            s = 0.5 * s + t[np.searchsorted(np.arange(400.0), 30 * s + x[k])]
        return s

    x, t = RNG.uniform(size=100), np.sin(np.arange(401.0))
    text = sd.value_and_grad(stepped).source(x, t, target="c")
    assert "table0[i0] <" in text and "i < 400" not in text
    assert sd.value_and_grad(stepped)(x, t)[0] == pytest.approx(stepped(x, t), rel=1e-12)

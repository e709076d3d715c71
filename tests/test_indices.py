"""Code as people write it with places and masks that depend on traced values: tables, pivots, sorting, robust sums."""

import linecache
import math
import subprocess
import sys

import numpy as np
import pytest
from inside import Plain

import symdiff as sd

KNOTS = np.linspace(0.0, 5.0, 11)
SINES = np.sin(KNOTS)
GRID = np.outer(np.arange(5.0), np.arange(4.0) ** 2)
SCATTERED = np.array([0.3, -0.7, 1.4, 0.55, 2.1, -1.3])
OTHER = np.array([-0.45, 1.7, -0.2, 2.4, 0.35, 0.9])


def interpolated(t):
    i = int(t / 0.5)
    return SINES[i] + (SINES[i + 1] - SINES[i]) * (t - KNOTS[i]) / (KNOTS[i + 1] - KNOTS[i])


def interpolated_inside(t):
    i = min(max(math.floor(t / 0.5), 0), len(KNOTS) - 2)
    w = (t - KNOTS[i]) / 0.5
    return (1 - w) * SINES[i] + w * SINES[i + 1]


def interpolated_where_it_can_be(t):
    i = int(t / 0.5)
    if 0 <= i < len(KNOTS) - 1:
        return SINES[i] + (SINES[i + 1] - SINES[i]) * (t / 0.5 - i)
    return SINES[0] if t < 0 else SINES[-1] * t


def interpolated_at_all(t):
    i = np.clip(np.floor(t / 0.5).astype(int), 0, len(KNOTS) - 2)
    w = t / 0.5 - i
    return np.sum((1 - w) * SINES[i] + w * SINES[i + 1])


def interpolated_by_search(t):
    i = np.clip(np.searchsorted(KNOTS, t) - 1, 0, len(KNOTS) - 2)
    return np.sum(SINES[i] + (SINES[i + 1] - SINES[i]) / (KNOTS[i + 1] - KNOTS[i]) * (t - KNOTS[i]))


def bilinear(p):
    i, j = int(p[0]), int(p[1])
    u, v = p[0] - i, p[1] - j
    low = (1 - v) * GRID[i, j] + v * GRID[i, j + 1]
    return (1 - u) * low + u * ((1 - v) * GRID[i + 1, j] + v * GRID[i + 1, j + 1])


def from_a_list(x):
    rates = [1.0, 2.0, 4.0, 8.0]
    return rates[int(x)] * x + rates[-1]


def by_kind(x):
    return [np.sin, np.cos, np.exp][int(abs(x)) % 3](x)


def in_a_long_table(t):
    table = np.sin(np.arange(1000.0) / 50)
    i = int(t)
    return table[i] + (table[i + 1] - table[i]) * (t - i)


def tax(x):
    """Brackets: the base below, and the rate of the bracket."""
    limits, rates = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.1, 0.2, 0.3, 0.5])
    bases = np.concatenate([[0.0], np.cumsum(np.diff(limits) * rates[:-1])])
    k = np.searchsorted(limits, x, side="right") - 1
    return bases[k] + rates[k] * (x - limits[k])


def histogram(x):
    h = np.zeros(5)
    for v in x:
        h[int(abs(v))] += v * v
    return np.sum(h * h * np.arange(5))


def histogram_at_once(x):
    h = np.zeros(4)
    np.add.at(h, np.clip(np.abs(x).astype(int), 0, 3), x**2)
    return np.sum(h**2)


def huber(r):
    small = np.abs(r) <= 1.0
    return 0.5 * np.sum(r[small] ** 2) + np.sum(np.abs(r[~small]) - 0.5)


def trimmed_mean(x):
    keep = np.abs(x - x.mean()) < 1.5 * x.std()
    return x[keep].mean() * len(x[keep])


def root_of_mean_square(x):
    return np.sqrt(np.mean(x[x > 0] ** 2)) + np.count_nonzero(x > 0) * x[0]


def log_likelihood(x):
    return np.log(x[x > 0]).sum() - np.log(x[x > 0]).mean()


def spread(x):
    high = x[x > 0]
    return high.max() - x[x < 2].min() + high.var() + np.std(high) + np.ptp(high)


def weighted(x):
    w, m = np.exp(x), x > 0
    return np.average(x[m], weights=w[m]) + x[m] @ w[m] + np.dot(x[m], x[m]) + np.linalg.norm(x[m]) + np.sqrt(x[m]).prod()


def rows_of_a_cloud(x):
    points = x.reshape(3, 2)
    m = points[:, 0] > 0
    return np.sum(points[m].mean(axis=0) ** 2) + np.sum(points[m, 1]) + np.linalg.norm(points[m] - 1.0)


def gauss(p):
    a = np.array([[p[0], 2.0, 1.0], [3.0, p[1], 4.0], [1.0, 5.0, p[2]]])
    b = np.array([1.0, p[0], 2.0])
    n = len(b)
    for k in range(n):
        q = k + np.argmax(np.abs(a[k:, k]))
        if q != k:
            a[[k, q]] = a[[q, k]]
            b[k], b[q] = b[q], b[k]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - a[i, i + 1 :] @ x[i + 1 :]) / a[i, i]
    return np.sum(x * x)


def in_order(x):
    order = np.argsort(x)
    return np.sum(x[order] * np.arange(len(x)) ** 2) + np.sum(np.arange(1.0, 7.0)[order] * x**2)


def nearest(x):
    distance = np.abs(x - 0.33)
    return np.sum(x[np.argsort(distance)[:3]] ** 2) + np.sum(np.argpartition(distance, 2) * x)


def beside_the_least(x):
    k = int(np.argmin(x))
    return x[k] ** 2 + x[k - 1]


def of_each_row(x):
    a = x.reshape(2, 3)
    best = np.argmax(a, axis=1, keepdims=True)
    order = np.argsort(a, axis=1)
    return np.sum(np.take_along_axis(a, order, axis=1) * np.arange(3.0)) + np.sum(np.take_along_axis(a, best, axis=1) ** 2)


def largest_pair(x):
    a = np.outer(x, x[::-1])
    i, j = np.unravel_index(np.argmax(a), a.shape)
    return a[i, j] + x[i] * x[j]


def first_above(x):
    return x[np.argmax(x > 0.1)] ** 2 + x[np.sum(x > 1.0)]


def scaled_where(x):
    y = x.copy()
    y[y > 0.5] *= 2
    y[x < 0] += x[1]
    y[x > 1] = x[x > 1] ** 3
    return np.sum(y * y)


def assembled(x):
    y, z, m = np.zeros_like(x), x**2, x > 0.2
    y[m] = z[m]
    y[~m] = np.exp(x[~m])
    return np.sum(np.sin(y))


def by_functions_of_masks(x):
    y = x.copy()
    np.putmask(y, x > 0.5, x * x)
    np.copyto(y, -x, where=x < 0)
    np.place(y, x > 1.2, 3.0)
    picked = np.compress(x > 0.2, x) ** 2
    return np.sum(y**2) + picked.sum() + np.extract(x < 0.5, x).prod()


def by_cases(x):
    one = np.select([x < 0, x < 1], [x**2, x**3], np.sin(x))
    two = np.piecewise(x, [x < 0, x >= 0], [lambda t: -(t**3), lambda t: t**2])
    return np.sum(one + two + np.choose((x > 0.5).astype(int), [x**2, x**3]))


def rows_at_places(x):
    a = np.outer(x, x) + np.diag(x)
    k = np.argmax(x)
    a[k] *= 2
    a[k, 1:] += x[0]
    row = a[k]
    row[0] = 5.0
    a[1:, np.argmin(x)] = x[1:] ** 2
    return np.sum(a**3) + row[0] * x[0]


def larger_arrays(x):
    a = np.zeros((12, 6))
    a[int(abs(x[0]) * 4)] = x
    a[:, np.argmax(x)] += x[0]
    a[a > 0.5] **= 2
    return np.sum(a * x) + np.sum(a[a > 0.2])


def through_new_axes(x):
    v = np.concatenate([x, x * 2, x])
    v[2:8, None] *= np.array([[3.0]])
    v[3:5][[0, 1]] += x[:2]
    return v[2] * v[3] + v[7] ** 2 - v[8]


def whole_power(x):
    return abs(x[0]) ** int(abs(x[1]) + 1.5) + x[2] * int(x[3] > 0.4)


def up_to_the_largest(x):
    k = int(np.argmax(x))
    return np.sum(x[:k] ** 2) + x[k:].sum()


def chosen_of_two(x):
    return (1.0, 2.0)[x > 0.5] * x


# -- these need to know how many cells there are, or how often a loop runs


def repeated(x):
    total = 0.0
    for k in range(int(abs(x[0]) * 8) + 1):
        total = total + x[1] * k
    return total


def places_where(x):
    i = np.nonzero(x > 0.4)[0]
    return np.sum(x[i] ** 2) + x[np.where(x > 0)[0][0]] + np.sum(x[np.flatnonzero(x < 0)])


def median_of_some(x):
    return np.median(x[x > 0]) * x[0] + sum(v * v for v in x[x > 0.4])


def window(x):
    k = int(abs(x[4]))
    return np.sum((np.arange(10.0) ** 2)[k : k + 3]) * x[0]


def filled_from_an_array(x):
    y = x.copy()
    y[y > 0] = np.arange(np.count_nonzero(x > 0)) * x[0]
    return np.sum(y * y)


NUMBERS = (1.3, 2.2, 0.4)
CLOUDS = (SCATTERED, OTHER, -SCATTERED)
CASES = {
    interpolated: NUMBERS, interpolated_inside: (7.0, -1.2, 2.2), interpolated_where_it_can_be: (7.0, -1.2, 2.2),
    interpolated_at_all: (np.abs(SCATTERED), 4 * SCATTERED), interpolated_by_search: (2 * SCATTERED, OTHER),
    bilinear: (np.array([2.3, 1.6]), np.array([0.2, 0.7])), from_a_list: NUMBERS, by_kind: (1.3, 2.2, -0.4),
    in_a_long_table: (123.4, 7.7), tax: (0.5, 3.3, 9.0, 1.5), histogram: CLOUDS, histogram_at_once: CLOUDS, huber: CLOUDS,
    trimmed_mean: CLOUDS, root_of_mean_square: CLOUDS, log_likelihood: CLOUDS, spread: CLOUDS, weighted: CLOUDS,
    rows_of_a_cloud: CLOUDS[:2], gauss: (np.array([1.0, 2.5, 0.7]), np.array([10.0, 2.5, 0.7]), np.array([0.1, 9.0, 0.7])),
    in_order: CLOUDS, nearest: CLOUDS, beside_the_least: CLOUDS, of_each_row: CLOUDS, largest_pair: CLOUDS,
    first_above: CLOUDS, scaled_where: CLOUDS, assembled: CLOUDS, by_functions_of_masks: CLOUDS, by_cases: CLOUDS,
    rows_at_places: CLOUDS, larger_arrays: CLOUDS, through_new_axes: CLOUDS, whole_power: CLOUDS, up_to_the_largest: CLOUDS,
    chosen_of_two: NUMBERS,
}  # fmt: skip
KEPT = dict.fromkeys((repeated, places_where, median_of_some, window, filled_from_an_array), CLOUDS)
ALL = list(CASES | KEPT)


def slopes(f, x):
    """Central differences; no place or mask changes so near to the points."""
    x = np.asarray(x)
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-6
        above, below = (y if y.ndim else y.item() for y in (np.asarray(x + step), np.asarray(x - step)))
        found[at] = (f(above) - f(below)) / 2e-6
    return found


def named(f):
    return f.__name__


@pytest.mark.parametrize("f", ALL, ids=named)
def test_values_are_those_of_the_plain_function(f):
    exact = Plain(f, exact=True, backend="numpy")
    for x in (CASES | KEPT)[f]:
        np.testing.assert_array_equal(exact(x), f(x))


@pytest.mark.parametrize("mode", [None, "guard"])
@pytest.mark.parametrize("f", ALL, ids=named)
def test_derivatives_are_those_of_the_path_taken(f, mode):
    df = sd.grad(f, paths=mode, backend="numpy")
    points = (CASES | KEPT)[f]
    for x in (*points, points[0]):  # back again: nothing is stale
        np.testing.assert_allclose(df(x), slopes(f, x), rtol=1e-6, atol=1e-7)


SMOOTH = [
    interpolated, bilinear, tax, histogram_at_once, huber, log_likelihood, rows_of_a_cloud, in_order, of_each_row, scaled_where,
    by_cases, rows_at_places, through_new_axes, up_to_the_largest, places_where, filled_from_an_array,
]  # fmt: skip


@pytest.mark.parametrize("f", SMOOTH, ids=named)
def test_second_derivatives(f):
    df = sd.grad(f, backend="numpy")
    x = (CASES | KEPT)[f][0]
    found = np.reshape(sd.hessian(f, backend="numpy")(x), (np.size(x), -1))
    for row, at in zip(found, np.ndindex(np.shape(x)), strict=True):
        np.testing.assert_allclose(row, slopes(lambda y, at=at: np.asarray(df(y))[at], x).ravel(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("f", [f for f in CASES if f not in (gauss, chosen_of_two)], ids=named)  # NumPy's truths are no index
def test_many_points_merge(f):
    df = sd.grad(f, backend="numpy")
    points = np.stack(CASES[f])
    np.testing.assert_allclose(sd.vmap(df)(points), [df(x) for x in CASES[f]], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [interpolated_at_all, tax, weighted, of_each_row, larger_arrays], ids=named)
def test_whole_arrays_over_points(f):
    points = np.stack(CASES[f])
    df = sd.grad(f, scalarize=False, backend="numpy")
    whole = sd.vmap(df)(points)
    np.testing.assert_allclose(whole, [df(x) for x in CASES[f]], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(whole, [sd.grad(f, backend="numpy")(x) for x in CASES[f]], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("f", [interpolated, bilinear, beside_the_least, scaled_where], ids=named)
def test_backends(f, backend):
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code is made by llvmlite")
    both = sd.value_and_grad(f, backend=backend)
    for x in CASES[f]:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-13)
        np.testing.assert_allclose(slope, sd.grad(f, backend="numpy")(x), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", KEPT, ids=named)
def test_what_must_be_known_is_kept_as_a_condition(f):
    assert "1 path, kept with its" in str(sd.trace(f, SCATTERED))
    with pytest.raises(sd.TraceError, match=r"test_indices.py:\d+: .* must be known here"):
        sd.grad(f).source(SCATTERED)


@pytest.mark.parametrize("f", KEPT, ids=named)
def test_points_on_the_same_path_are_computed_together(f):
    df = sd.grad(f)
    np.testing.assert_allclose(sd.vmap(df)(np.stack(CLOUDS)), [df(x) for x in CLOUDS], rtol=1e-12, atol=1e-13)


# -- what a graph shows, and what it costs


def test_graphs_show_places():
    shown = str(sd.trace(lambda x: x[np.argmax(x)] ** 2, np.ones(3)))
    assert "argmax x axis=0" in shown and "gather x v0" in shown and "test_indices.py" in shown
    assert "branches" not in sd.trace(huber, SCATTERED).notes
    ends = str(sd.trace(interpolated, 1.0))
    assert "5 paths merged, 4 of them raising" in ends and "IndexError at test_indices.py" in ends


def test_a_small_table_is_halved():
    cost = sd.cost(lambda x: SINES[:8][np.searchsorted(KNOTS[1:8], x)] * x, 1.0).value
    assert cost.by_kind["select"] <= 14 and cost.operations <= 40


def test_known_bounds_need_no_check():
    for f in (interpolated_at_all, interpolated_by_search, in_order, beside_the_least, of_each_row, largest_pair):
        assert "branches" not in sd.trace(f, SCATTERED).notes
    branches = sd.trace(interpolated_where_it_can_be, 1.0).notes["branches"]
    assert {type(e) for e in branches.raised} == {ValueError, OverflowError}  # int(x) only; the `if` has the bounds


def test_explained_places():
    tied = sd.explain(lambda x: x[np.argmax(x)] ** 2, np.array([1.0, 1.0, 0.0]))
    assert "the first of 2 equal cells is taken" in str(tied)
    assert "jump" in str(sd.explain(lambda x: SINES[np.searchsorted(KNOTS, x)] * x, 1.0))
    assert "differentiable" in str(sd.explain(lambda x: SINES[np.searchsorted(KNOTS, x)] * x, 1.1))


# -- errors are the function's own


def test_out_of_bounds():
    df = sd.grad(interpolated)
    with pytest.raises(IndexError, match="index 11 is out of bounds for axis 0 with size 11"):
        df(5.1)
    with pytest.raises(ValueError, match="cannot convert float NaN to integer"):
        df(np.nan)
    with pytest.raises(OverflowError):
        df(np.inf)
    assert df(1.3) == pytest.approx(slopes(interpolated, 1.3))
    with pytest.raises(IndexError) as caught:
        sd.vmap(df)(np.array([1.0, 99.0]))
    assert "at point 1" in caught.value.__notes__
    with pytest.raises(IndexError, match="out of bounds for axis 0 with size 11"):
        sd.trace(interpolated, 1.0)(99.0)


def test_no_number_is_an_index_nor_an_empty_extreme():
    with np.errstate(invalid="ignore"):
        assert np.isnan(interpolated_at_all(SCATTERED * np.nan)) and np.isnan(Plain(interpolated_at_all)(SCATTERED * np.nan))
    for place in (np.argmax, np.argmin):
        cells = np.array([1.0, np.nan, 5.0, -2.0, np.nan])
        for scalarize in (None, False):
            assert Plain(lambda x, p=place: 1.0 * p(x) + 0 * x[0], scalarize=scalarize)(cells) == place(cells)
        with pytest.raises(ValueError, match="empty sequence"):
            Plain(lambda x, p=place: 1.0 * p(x[:0]))(cells)
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum"):
        sd.grad(lambda x: x[x > 9].max())(SCATTERED)
    assert Plain(lambda x: x[x > 9].sum())(SCATTERED) == 0.0
    assert np.isnan(Plain(lambda x: x[x > 9].mean())(SCATTERED))


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: SINES[x[0]], r"int\(x\)"),
        (lambda x: x[np.floor(x)], r"x.astype\(int\)"),
        (lambda x: x[x[0]] * 2, r"int\(x\)"),
        (lambda x: range(x[0]), r"int\(x\)"),
        (lambda x: np.argmax(x * 1j), "no order"),
        (lambda x: np.searchsorted(x, 0.3, sorter=np.arange(6)), "sorter"),
        (lambda x: np.digitize(0.3, x), "traced edges"),
        (lambda x: np.unravel_index(np.argmax(x), (2, 3), order="F"), "order='F'"),
        (lambda x: np.putmask(np.zeros(6, int), x > 0, x), "made elsewhere"),
        (lambda x: (x * 1).flat.__setitem__(np.argsort(x), x), r"int\(x\)"),
    ],
)
def test_refusals_say_what_to_write(f, message):
    with pytest.raises(sd.TraceError, match=rf"test_indices.py:\d+: .*{message}"):
        sd.grad(lambda x: np.sum(f(x)))(SCATTERED)


def test_arrays_of_integers_that_were_changed():
    def counts(x):
        n = np.sum(x.reshape(2, 3) > 0, axis=1)
        n[n == 0] = 1
        n += 2
        return np.sum(x.reshape(2, 3).sum(axis=1) / n)

    for x in CLOUDS:
        assert Plain(counts, exact=True)(x) == counts(x)

    def moved(x, by):
        i = np.argsort(x)
        i += by
        return np.sum(x[i % 6])

    def through_a_view(x):
        i = np.argsort(x)
        i[1:][0] = 2
        return np.sum(i * x)

    for f, *rest in ((through_a_view,), (moved, 1)):
        assert Plain(f, exact=True)(SCATTERED, *rest) == f(SCATTERED, *rest)
    with pytest.raises(sd.TraceError, match=r"test_indices.py:\d+: .*of another kind"):
        sd.grad(moved)(SCATTERED, 0.5)


# -- integers


@pytest.mark.parametrize(
    "f",
    [
        lambda x: {0: x, 1: x * x, 2: x**3}[int(x)],
        lambda x: x**2 if isinstance(int(x), int) and type(round(x)) is int else x**3,
        lambda x: x**2 / math.factorial(int(x)),
        lambda x: np.sum(np.arange(int(x) + 2) * x) + np.sum(np.zeros(int(x) + 1) + x),
        lambda x: SINES[-int(x) - 1] * x + SINES[int(x * 10.07) % len(SINES)],
        lambda x: np.sum(GRID[int(x), :] * GRID[:, int(x)][:4]) * x + np.sum(GRID[int(x), 1:3]) * x,
        lambda x: (2 * int(x) + 1) ** 2 // 3 * x - float(int(x)) + abs(-int(x)) * x,
        lambda x: np.take(SINES, int(x)) * x + SINES.take([int(x) + 99, 3], mode="clip").sum(),
        lambda x: SINES[[int(x), int(x) + 1]].sum() * x + SINES[np.array([int(x), 3])].prod() * x,
        lambda x: math.ceil(x) * x + math.trunc(-x),
    ],
)
def test_integers_are_pythons(f):
    for x in (1.3, 2.6, 0.2):
        assert Plain(f, exact=True, backend="numpy")(x) == f(x)
        assert sd.grad(f, backend="numpy")(x) == pytest.approx(slopes(f, x), rel=1e-7)


def test_a_few_values_are_all_followed():
    def f(x):
        total = 0.0
        for k in range(int(np.clip(x, 0, 3))):
            total = total + x**k
        return total

    assert "5 paths merged, 1 of them raising ValueError" in str(sd.trace(f, 1.0))
    points = np.array([-1.0, 1.5, 2.5, 7.0])
    np.testing.assert_allclose(sd.vmap(sd.grad(f))(points), [slopes(f, x) for x in points], rtol=1e-7, atol=1e-8)


def test_places_of_an_outer_trace():
    def outer(x):
        k = int(x[0])
        return sd.grad(lambda y: y[k] ** 2 * x[1])(x)[k]

    x = np.array([1.2, 3.0])
    np.testing.assert_allclose(sd.grad(outer)(x), slopes(lambda x: 2 * x[int(x[0])] * x[1], x))


# -- masks


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sqrt(np.log(x[x > 1]))),
        lambda x: np.log(x[x > 0]).mean() + np.sqrt(x[x > 0]).std() + np.sqrt(x[x > 0]).prod(),
        lambda x: np.sum(1 / x[x != 0]) + (1 / x[x != 0]).max(),
    ],
)
def test_cells_not_selected_do_not_leak(f):
    x = np.array([0.0, -1.0, 2.0, 3.0])
    with np.errstate(all="ignore"):
        found, second = sd.grad(f, backend="numpy")(x), sd.hessian(f, backend="numpy")(x)
    assert np.isfinite(found).all() and np.isfinite(second).all() and found[0] == 0.0
    chosen = slopes(lambda y: f(np.concatenate([x[:2], y])), x[2:])
    np.testing.assert_allclose(found[2:], chosen, rtol=1e-6)


def test_masks_as_results_have_the_shape_of_the_mask():
    df = sd.jacobian(lambda x: x[x > 0] ** 2)
    for x in (SCATTERED, -SCATTERED, SCATTERED):
        np.testing.assert_array_equal(df(x), np.diag(2 * x)[x > 0])


def test_complex_cells():
    z = np.array([1 + 1j, 2 - 1j, 0.5j])
    np.testing.assert_allclose(sd.grad(lambda z: z[np.argmax(np.abs(z))] ** 2)(z), [0, 4 - 2j, 0])
    np.testing.assert_allclose(sd.grad(lambda z: (z[np.abs(z) > 1] ** 2).sum())(z), [2 + 2j, 4 - 2j, 0])


def test_single_precision():
    x = np.abs(SCATTERED).astype(np.float32)
    assert sd.grad(huber)(x).dtype == np.float32
    np.testing.assert_allclose(sd.grad(huber)(x), slopes(huber, x.astype(float)), rtol=1e-5)


# -- views


def test_rows_are_views():
    def f(x):
        a = np.outer(x, x)
        k = int(np.argmax(x))
        row, column, wide = a[k], a[:, k], a[:, None]
        a[k, 0] = x[1] * 7
        column[1:] *= x[1:]
        wide[0] -= x
        rows = a[[k, 0]]
        rows *= 100  # a copy
        return np.sum(a**2) + np.sum(row**3) + np.sum(column) + np.sum(wide[:, 0, 1])

    value, df = Plain(f, exact=True), sd.grad(f, backend="numpy")
    for x in CLOUDS:
        np.testing.assert_allclose(value(x), f(x), rtol=1e-14)
        np.testing.assert_allclose(df(x), slopes(f, x), rtol=1e-6, atol=1e-6)


def test_places_that_occur_twice():
    def f(x):
        y = np.zeros(4)
        i = np.abs(x).astype(int)
        y[i] = x**2
        y[i[0]] -= x[1]
        return np.sum(y * np.arange(1.0, 5.0))

    value, df = Plain(f, exact=True), sd.grad(f, backend="numpy")
    for x in CLOUDS:
        assert value(x) == f(x)
        np.testing.assert_allclose(df(x), slopes(f, x), rtol=1e-7, atol=1e-8)


def a_permutation_of_itself(x, w, v, i):
    w[i] = w
    return w


def a_view_at_places(x, w, v, i):
    w[i, i[::-1]] = v[2:6]
    v[i] = w[0]
    w[i] = v[4:8]
    w[i, 0] = w[:, 0]
    w[1, i] = w[:, 2]
    w[i, i] = w.diagonal()
    return w


def along_an_axis(x, w, v, i):
    np.put_along_axis(w, np.argsort(w, axis=0), w[::-1], 0)
    np.put_along_axis(w, np.argsort(w, axis=1), w.T, 1)
    return w


def places_that_are_assigned_to(x, w, v, i):
    q = i[::-1]
    i[q] = i
    i[i] = q
    return w * i


def parts_of_complex_numbers(x, w, v, i):
    z = w * (1 + 1j)
    z.real[i] = z.imag
    z.imag[i] = z.real[::-1]
    return z.real * 3 - z.imag


@pytest.mark.parametrize(
    "change",
    [a_permutation_of_itself, a_view_at_places, along_an_axis, places_that_are_assigned_to, parts_of_complex_numbers],
    ids=lambda f: f.__name__,
)
def test_what_is_assigned_is_read_before(change):
    def f(x):
        w = np.outer(x, x[::-1])
        return np.sum(change(x, w, w.ravel(), np.argsort(x)) * np.arange(1.0, 17.0).reshape(4, 4))

    value = Plain(f)
    for x in np.array([[1.3, 0.4, 2.2, 0.9], [0.3, 1.4, 1.2, 0.99]]):
        np.testing.assert_allclose(value(x), f(x), rtol=1e-13)


# -- files


@pytest.mark.parametrize("target", ["numpy", "python"])
def test_files_look_up_and_raise_alone(target, tmp_path):
    text = sd.value_and_grad(interpolated).source(1.3, target=target)
    path = tmp_path / "made.py"
    path.write_text(
        text + "\n\nprint([float(v) for v in interpolated_value_and_grad(1.3)])\ninterpolated_value_and_grad(9.0)\n"
    )
    code = f"import sys; sys.modules['symdiff'] = None; exec(open({str(path)!r}).read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([float(v) for v in sd.value_and_grad(interpolated)(1.3)]), done.stderr
    assert done.stderr.splitlines()[-1] == "IndexError: index is out of bounds for axis 0 with size 11"


def test_files_of_whole_arrays(tmp_path):
    text = sd.grad(interpolated_at_all).source(np.ones(500))
    assert "np.take(" in text and "mode='clip'" in text
    namespace = {}
    exec(text, namespace)
    x = np.linspace(-0.7, 6.1, 500)
    np.testing.assert_allclose(namespace["interpolated_at_all_grad"](x), slopes(interpolated_at_all, x), rtol=1e-6, atol=1e-6)


# -- random programs


def program(seed):
    """A program of statements with places and masks, and its text."""
    random = np.random.default_rng(seed)
    arrays = ("x", "y", "x*y", "np.sin(y)", "A[0]", "x - y", "abs(x)", "A[:, 1]")
    numbers = ("x[0]", "y[i]", "0.3", "x[i]*2", "t*0.1", "y[-i]", "KNOTS[i]", "A[i, i]", "x[o[0]]")

    def array():
        return random.choice(arrays)

    def number():
        return random.choice(numbers)

    def statement():
        return random.choice([
            "i = int(abs(x[1])*2) % 6", f"i = int(np.argmax({array()}))", "i = np.searchsorted(KNOTS, x[2]) % 6",
            "i = (i + 2) % 6", "i = -i - 1 if x[0] > 0.2 else i", f"m = {array()} > {number()}", "m = ~m",
            f"y[i] = {number()}", f"y[i] += {number()}", f"y[m] = {number()}", f"y[m] *= {number()}", "y[m] = x[m]*2",
            "y[m] += np.sin(y[m])", f"o = np.argsort({array()})", "y = y[o]", "y[o] = x", f"y[o[:2]] += {number()}",
            "A[i] = y", f"A[:, i] *= {number()}", "A[i, 1:] -= y[1:]", f"r = A[i]; r[0] = {number()}", f"A[m] += {number()}",
            "A[A > 1.5] = t", "t = t + np.sum(y[m]**2)", "t = t + y[m].mean() if m.any() else t", "t = t + len(y[m])*x[1]",
            "y[i], y[0] = y[0], y[i]", "A[[0, i]] = A[[i, 0]]", "y = np.where(m, y, x)", f"t = t + A[i, o[1]]*{number()}",
        ])  # fmt: skip

    lines = [str(statement()) for _ in range(random.integers(3, 8))]
    start = ["y = x.copy(); A = np.outer(x, np.cos(x)); i = 1; m = x > 0.1; o = np.arange(6); t = 0.0"]
    end = ["return t + np.sum(y*np.arange(1.0, 7.0)) + np.sum(np.tanh(A))"]
    text = "".join(f"    {line}\n" for line in start + lines + end)
    name = f"<places {seed}>"
    text = f"def program(x):\n{text}"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"np": np, "KNOTS": KNOTS}
    exec(compile(text, name, "exec"), namespace)
    return namespace["program"], text


def compare(seed):
    """Compare a program, traced, with itself at a few points."""
    f, text = program(seed)
    both = sd.value_and_grad(f, backend="numpy", paths=(None, "guard")[seed % 2], scalarize=(None, False)[seed // 2 % 2])
    for x in CLOUDS[: 2 + seed % 2]:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12, err_msg=text)
        np.testing.assert_allclose(slope, slopes(f, x), rtol=1e-5, atol=1e-5, err_msg=text)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed):
    compare(seed)


def test_equal_cells_of_a_table_need_no_selection():
    table = np.repeat([0.0, 1.0, -0.0], [20, 20, 24])

    def f(t):
        return table[int(t)] * t

    graph = sd.grad(f).graph(3.2)
    assert sum(b.op == "select" for b in graph.bindings) < 12
    assert [sd.grad(f)(t) for t in (3.2, 19.0, 20.0, 39.5, -24.0)] == [0.0, 0.0, 1.0, 1.0, 0.0]
    assert np.signbit(sd.trace(f, 1.0)(45.0)) and not np.signbit(sd.trace(f, 1.0)(3.0))


# -- integers are Python's own

SIGNLESS = ["int(-x)", "round(-x)", "math.ceil(-x)", "math.trunc(-x)", "math.floor(0 * -x)", "-int(x)", "int(x) * -1",
            "int(x) // -3", "6 * int(1 + x) % -3", "np.array([-x]).astype(int)[0] * 1.0", "np.multiply(int(x), -1) * 1.0",
            "-int(x) * 2.0", "np.prod(np.array([x, -2]).astype(int)) * 1.0"]  # fmt: skip


@pytest.mark.parametrize("text", SIGNLESS)
def test_integers_have_no_minus_zero(text):
    f = eval(f"lambda x: math.copysign(1, {text}) + 0 * x", {"math": math, "np": np})
    assert sd.value_and_grad(f)(0.3)[0] == f(0.3) == 1


@pytest.mark.parametrize(
    ("f", "near", "far"),
    [
        (lambda x: int(x) ** 2 % 10 + 0 * x, 12.5, 123456789.3),
        (lambda x: int(x) * int(x) * int(x) % 1000 + 0 * x, 99.5, 1234567.8),
        (lambda x: 3 ** abs(int(x)) % 5 + 0 * x, 20.3, 40.3),
        (lambda x: int(x) + 2**53 - 2**53 + 0 * x, -2.5, 1.5),
    ],
)
def test_integers_that_doubles_cannot_hold_raise(f, near, far):
    df = sd.value_and_grad(f)
    assert df(near)[0] == f(near)
    with pytest.raises(OverflowError, match=r"test_indices.py:\d+: an integer of 2\*\*53 or more; .* below 2\*\*53"):
        df(far)


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: pow(int(x), 3, 7) * x, "modulus"),
        (lambda x: pow(2, int(x), 7) * x, "modulus"),
        (lambda x: int(x) * 6364136223846793005 % 7 * x, "below 2"),
        (lambda x: np.array([x]).astype(np.uint8)[0] * x, "wraps round"),
        (lambda x: np.array([x]).astype(int).astype(np.int32)[0] * x, "wraps round"),
        (lambda x: round(x, 30), "22 digits"),
    ],
)
def test_other_integers_are_refused(f, what):
    with pytest.raises(sd.TraceError, match=rf"test_indices.py:\d+: .*{what}"):
        sd.grad(f)(5.5)


@pytest.mark.parametrize("x", [0.35, 2.675, 0.15, -0.35, 1234.5675, 1e15 + 0.3])
@pytest.mark.parametrize("digits", [1, 2, 3, -1])
def test_numbers_are_rounded_as_python_or_numpy_does(x, digits):
    for number in (x, np.float64(x)):
        assert sd.value_and_grad(lambda x: round(x, digits) + 0 * x)(number)[0] == round(number, digits)


def test_powers_of_integers_are_integers_where_the_exponent_is_not_negative():
    def f(x):
        return x if isinstance((-1) ** int(x), int) else 2 * x

    assert [sd.grad(f)(x) for x in (3.7, -3.7)] == [1.0, 2.0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.insert(np.arange(4), 1, x) * np.arange(5.0),
        lambda x: np.insert(np.arange(4) > 1, 1, x) * np.arange(5.0),
        lambda x: np.insert(np.arange(3.0), [0, 2], [x, 2 * x]) * np.arange(5.0),
        lambda x: np.piecewise(np.arange(3), [np.arange(3) > 0], [x, 2]) * np.arange(3.0),
        lambda x: np.piecewise(x > 5, [x > 0], [1.0, 2.0]) * 1,
        lambda x: np.piecewise(np.array([x]), [np.array([True])], [1.0, lambda t: t * 2]) * x,
        lambda x: np.piecewise(x, [x > 0], [lambda t: t * 2.5, 2]),
    ],
)
@pytest.mark.parametrize("backend", ["numpy", "python", "native"])
def test_values_take_the_dtype_of_the_array_that_they_are_put_into(f, backend):
    def g(x):
        return np.sum(f(x)) + 0 * x

    assert sd.value_and_grad(g, backend=backend)(2.7)[0] == pytest.approx(g(2.7))


@pytest.mark.parametrize("cells", [3, 34, 400])
def test_derivatives_by_single_cells_are_assembled_at_once(cells):
    def f(x):
        s = np.sum(x * x)
        for i in range(cells):
            s = s + x[2 * i] * x[2 * i + 1]
        return s

    x = np.random.default_rng(0).uniform(size=1000)
    wanted, pairs = 2 * x, np.arange(2 * cells)
    wanted[: 2 * cells] += x[pairs ^ 1]
    np.testing.assert_allclose(sd.grad(f)(x), wanted, 1e-14)
    np.testing.assert_allclose(sd.jvp(f)(x, x)[1], np.sum(wanted * x), 1e-14)
    np.testing.assert_allclose(sd.hvp(f)(x, x), wanted, 1e-14)
    assert sd.grad(f).program(x).operations() <= 2000 + 2 * cells
    matrix = x.reshape(20, 50)
    np.testing.assert_allclose(sd.grad(lambda a: f(a.ravel()))(matrix), wanted.reshape(20, 50), 1e-14)


COUNTS = np.array([5, 3, 7])


@pytest.mark.parametrize(
    "f",
    [
        lambda n: np.reciprocal(n), lambda n: np.reciprocal(n[0] * 2), lambda n: np.full_like(n, 1.9),
        lambda n: put(n.copy(), 1.5), lambda n: put(np.zeros_like(n), n / 2), lambda n: put(n * 2, 1.5),
        lambda n: put(np.sort(n)[::-1], 1.5), lambda n: put(np.empty_like(n, shape=2), np.sqrt(n[:2])),
        lambda n: put(np.stack([n, n]), 0.5),
    ],
)  # fmt: skip
def test_what_numpy_rounds_to_integers_is_refused(f):
    for df in (sd.grad(lambda n: np.sum(f(n)) * 1.0), sd.jacobian(f)):
        with pytest.raises(sd.TraceError, match=r"test_indices\.py:\d+: .*integers.*n\.astype\(float\)"):
            df(COUNTS)


@pytest.mark.parametrize(
    "f",
    [
        lambda n: np.reciprocal(n * 1.0), lambda n: put(n.astype(float), 1.5), lambda n: put(np.array(n, float), n / 2),
        lambda n: put(put(np.zeros(3), n), 2.5), lambda n: put(n * 1.0, 1.5), lambda n: put(n.copy(), n[2]) + np.ones_like(n),
        lambda n: put(np.zeros_like(n.astype(float) * 2), 1.5), lambda n: put(np.concatenate([n, [0.5]]), 1.5),
        lambda n: put(np.zeros_like(n, dtype=float), n / 2), lambda n: put(n.copy(), 4) * n.mean(), lambda n: -n // 2 + n % 3,
    ],
)  # fmt: skip
def test_arguments_of_integers_are_those_of_the_plain_function(f):
    np.testing.assert_allclose(sd.value_and_grad(lambda n: np.sum(f(n)) * 1.0)(COUNTS)[0], np.sum(f(COUNTS)))


def put(cells, value):
    cells[...] = value
    return cells


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8", "uint16", "uint32", "uint64"])
def test_arithmetic_that_wraps_round_is_refused(dtype):
    n = COUNTS.astype(dtype)
    doors = [
        lambda: sd.grad(lambda n: np.sum(-n * n))(n), lambda: sd.grad(lambda n: 3 - n)(n[0]),
        lambda: sd.hessian(np.negative)(n), lambda: sd.jacobian(np.diff)(n), lambda: sd.derivative(lambda n: n - 4)(n),
        lambda: sd.jacobian(lambda n: np.cross(n, -n[::-1]))(n),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(sd.TraceError, match="wraps round"):
            door()
    assert sd.grad(lambda x, n: np.sum(n * x), 0)(2.0, n) == np.sum(n)
    np.testing.assert_allclose(sd.grad(lambda n: np.sum(n[::-1] / n))(n), sd.grad(lambda n: np.sum(n[::-1] / n))(COUNTS))


def added_at_places(x):
    y = np.multiply.outer(x, x)
    np.add.at(y, (np.argsort(x), 0), x)
    np.multiply.at(y, (0, np.argsort(x[:2])), 2.0)
    return y


def rows_added_at_places(x):
    y = np.multiply.outer(x, x)
    np.add.at(y, np.argsort(np.stack([x, -x])), y[::-1] + x)
    return y


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.take(x[:1], np.argmax(x[:1])),
        lambda x: np.take_along_axis(x[None], np.argsort(x[None], axis=0), axis=0),
        lambda x: np.take_along_axis(x[:, None], np.argsort(x[:, None], axis=1), axis=1),
        lambda x: np.take(x[:1], np.argsort(x[:1])),
        added_at_places,
        rows_added_at_places,
    ],
)
def test_places_on_axes_of_one_cell(f):
    x = np.array([0.3, -0.2, 0.9])
    value, slope = sd.jvp(f)(x, x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(slope, (f(x * (1 + 1e-6)) - f(x * (1 - 1e-6))) / 2e-6, atol=1e-8)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["max", "min", "sum", "prod"])
def test_an_initial_value_is_all_there_is_of_no_cells(name, keepdims):
    joined = getattr(np, name)

    def picked(x):
        return joined(x[x > 0], initial=0.5, keepdims=keepdims)

    df = sd.jacobian(picked)
    for x in (np.array([0.3, 2.0]), np.array([-0.3, -2.0])):
        np.testing.assert_array_equal(sd.vjp(picked)(x, np.ones_like(picked(x)))[0], picked(x))
        slope = df(x)
        assert slope.shape == (*np.shape(picked(x)), 2) and (x[0] > 0 or not slope.any())
    for shape, axis in (((0,), None), ((0, 3), 0), ((0, 3), None), ((2, 0, 3), 1)):

        def empty(x, first, axis=axis):
            return np.sum(joined(x, axis=axis, keepdims=keepdims, initial=first) ** 2)

        x = np.ones(shape)
        value, slope = sd.value_and_grad(empty, argnums=1)(x, 1.5)
        assert (value, slope) == (empty(x, 1.5), 2 * empty(x, 1.5) / 1.5)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("scalarize", [None, False])
@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 41])
def test_places_among_sorted_numbers(count, scalarize, side):
    table = np.sort(np.random.default_rng(count).integers(0, 10, count) / 4.0)
    for rows in (table, np.r_[table, np.nan, np.nan]):

        def f(x, rows=rows):
            return np.sum(np.searchsorted(rows, x, side=side) * x), np.searchsorted(rows, x[0], side=side) * x[1]

        df = sd.jvp(f, scalarize=scalarize)
        for x in ([0.5, 1.0], [-1.0, 2.0], [5.0, 0.25], [np.nan, 1.0], [np.inf, -np.inf], [0.0, 2.5]):
            x = np.array(x)
            with np.errstate(invalid="ignore"):
                for found, value in zip(df(x, np.ones(2))[0], f(x), strict=True):
                    np.testing.assert_array_equal(found, value)


@pytest.mark.parametrize("scalarize", [None, False])
def test_a_table_of_one_value_in_a_file(scalarize):
    def f(x):
        chosen = {0: x[0], 1: x[0]}[int(3 * x[1])]
        return chosen * chosen + x[2]

    x, space = np.array([0.3, 0.2, 0.9]), {}
    df = sd.grad(f, scalarize=scalarize, loops="keep")
    exec(df.source(x, target="numpy"), space)
    np.testing.assert_allclose(space["f_grad"](x), df(x))
    np.testing.assert_allclose(df(x), [0.6, 0.0, 1.0])


@pytest.mark.parametrize("loops", ["keep", "unroll"])
def test_arrays_of_places_beside_traced_places_are_assigned_to(loops):
    places = np.array([0, 2, -1])

    def f(a):
        u = a.copy()
        for k in range(len(a)):
            u[places, k] = u[places, k] * 0.5 + a[k, 0]
            u[k, places] += np.array([1.0, 2.0, 3.0]) * a[0, k]
        i, j = np.argmax(a[0]), np.argsort(a[1])[:3]
        u[i, a[0] > 0] = 2.0 * u[0, a[0] > 0]
        u[places, i] *= 3.0
        u[j, i] = 0.25 * a[2, :3]
        u[j, places] += a[3, 0]
        return np.sum(u * u)

    a = np.random.default_rng(5).normal(size=(6, 6))
    a[0] = np.abs(a[0]) * [1, -1, 1, 1, -1, 1]
    value, slope = sd.value_and_grad(f, loops=loops)(a)
    assert value == pytest.approx(f(a), rel=1e-12)
    d = np.random.default_rng(6).normal(size=a.shape)
    assert np.sum(slope * d) == pytest.approx((f(a + 1e-6 * d) - f(a - 1e-6 * d)) / 2e-6, rel=1e-6)


def test_arrays_of_places_beside_slices_are_refused_with_the_line():
    def f(a):
        a = a.copy()
        a[np.array([0, 1]), :, np.argmax(a[0, 0])] = 1.0
        return np.sum(a * a)

    with pytest.raises(sd.TraceError, match=r"test_indices.py:\d+: arrays of places beside slices .* row by row"):
        sd.grad(f)(np.arange(12.0).reshape(2, 2, 3))

"""Loops whose rounds change the arrays of a list by numbers that they tell: the arrays are rows of one in them; against the
plain functions, whoever else knows the arrays.
"""

import numpy as np
import pytest

import symdiff as sd

N = 12
X = np.sin(np.arange(3.0 * N) * 1.7).reshape(N, 3) * 0.5 + 0.6


def forces(x):
    found = [np.zeros(3) for _ in range(len(x))]
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            apart = x[i] - x[j]
            force = apart / (apart @ apart + 0.1) ** 1.5
            found[i] += force
            found[j] -= force
    return sum(np.dot(a, a) for a in found)


def other_arrays(x):
    found = [np.zeros(3) for _ in range(len(x))]
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                apart = x[i] - x[j]
                found[i] = found[i] + apart * (apart @ apart)
    return sum(a @ a for a in found)


def relaxed(x):
    rows = [x[i] * 1.0 for i in range(len(x))]
    for _ in range(20):
        for i in range(1, len(rows) - 1):
            rows[i] = 0.5 * (rows[i - 1] + rows[i + 1])
    return sum((a**2).sum() for a in rows)


def backward_layers(x):
    h = [x[0] * 1.0]
    for i in range(1, len(x)):
        h.append(np.tanh(h[i - 1] + x[i]))
    for i in range(len(h) - 1, 0, -1):
        h[i - 1] = h[i - 1] + 0.1 * h[i]
    return h[0].sum()


def from_the_end(x):
    rows = list(x * 2.0)
    for k in range(1, len(rows)):
        rows[-k] *= rows[-k - 1] + 1.0
    return sum(a.sum() for a in rows)


class Grid:
    def __init__(self, x):
        self.rows = [r * 1.0 for r in x]

    def smooth(self):
        for k in range(1, len(self.rows) - 1):
            self.rows[k] += 0.1 * (self.rows[k + 1] - self.rows[k])


def held_by_an_object(x):
    grid = Grid(x)
    for _ in range(10):
        grid.smooth()
    return sum(np.sin(r).sum() for r in grid.rows)


def matrices(x):
    found = [np.outer(r, r) for r in x]
    for k in range(1, len(found)):
        found[k] = found[k] @ found[k - 1] * 0.3 + found[k]
    return sum(np.trace(m) for m in found)


def cells_of_rows(x):
    rows = [r * 1.0 for r in x]
    for k in range(1, len(rows)):
        rows[k][0] += rows[k - 1][1]
        rows[k][1:] *= 0.5
    return sum((a * a).sum() for a in rows)


def neighbours_of_rows(x):
    rows = [r * 1.0 for r in x]
    for _ in range(10):
        for k in range(1, len(rows) - 1):
            rows[k][1:-1] = 0.25 * (rows[k][:-2] + rows[k][2:] + rows[k - 1][1:-1] + rows[k + 1][1:-1])
    return sum((r * r).sum() for r in rows)


def rows_of_an_array(x):
    rows = list(x * 1.0)
    for k in range(1, len(rows)):
        rows[k][0] = rows[k - 1].sum() * 0.3
        rows[k] *= 1.1
    return sum((r * r).sum() for r in rows)


KEPT = [
    forces, other_arrays, relaxed, backward_layers, from_the_end, held_by_an_object, matrices, cells_of_rows,
    neighbours_of_rows, rows_of_an_array,
]  # fmt: skip


def an_array_with_another_name(x):
    rows = [r * 1.0 for r in x]
    first = rows[0]
    for k in range(len(rows)):
        rows[k] += x[k] * 0.5
    return first.sum() + sum((a * a).sum() for a in rows)


def an_array_that_is_named_in_a_round(x):
    rows = [r * 1.0 for r in x]
    last = rows[0]
    for k in range(1, len(rows)):
        last += rows[k] * 0.1
        rows[k] = rows[k] + last
        last = rows[k]
    return sum((a * a).sum() for a in rows)


def one_array_at_two_places(x):
    rows = [r * 1.0 for r in x]
    for k in range(1, len(rows)):
        rows[k] = rows[k - 1]
        rows[k] += x[k]
    return sum((a * a).sum() for a in rows)


def places_swapped(x):
    rows = [r * 1.0 for r in x]
    for k in range(len(rows) // 2):
        rows[k], rows[-1 - k] = rows[-1 - k], rows[k]
    return sum(k * (a * a).sum() for k, a in enumerate(rows))


def two_lists_of_the_same(x):
    rows = [r * 1.0 for r in x]
    others = rows[:]
    for k in range(len(rows)):
        rows[k] += x[k] * others[k - 1]
    return sum((a * b).sum() for a, b in zip(rows, others, strict=True))


def a_list_that_grows(x):
    rows = [x[0] * 1.0]
    for k in range(1, len(x)):
        rows.append(x[k] * 1.0)
        rows[k - 1] += rows[k]
    return sum((a * a).sum() for a in rows)


def other_shapes(x):
    rows = [x[0] * 1.0, x[1, :2] * 1.0, x[2] * 1.0]
    for k in range(3):
        rows[k] = rows[k] * 2.0
    return sum((a * a).sum() for a in rows)


def rows_by_data(x):
    rows = [r * 1.0 for r in x]
    for k in range(len(rows)):
        rows[int(7.3 * x[k, 0] + 0.213) % len(rows)] += x[k]
    return sum((a * a).sum() for a in rows)


ALIKE = [
    an_array_with_another_name, an_array_that_is_named_in_a_round, one_array_at_two_places, places_swapped,
    two_lists_of_the_same, a_list_that_grows, other_shapes, rows_by_data,
]  # fmt: skip


def check(f, **options):
    graph = sd.value_and_grad(f, **options)
    for x in (X, np.cos(X)):
        way = np.cos(3 * X)
        value, slope = graph(x)
        rise = (f(x + 1e-6 * way) - f(x - 1e-6 * way)) / 2e-6
        np.testing.assert_allclose(value, f(x), rtol=1e-11)
        np.testing.assert_allclose(np.sum(slope * way), rise, rtol=1e-5, atol=1e-6)
    return graph.graph(X)


@pytest.mark.parametrize("f", KEPT)
def test_rows_of_a_list_are_changed_in_kept_loops(f):
    graph = check(f, loops="keep")
    assert "written out" not in str([told for told in graph.notes["loops"].values() if "is short" not in told])
    assert len(graph.bindings) < 8 * N


@pytest.mark.parametrize("f", ALIKE)
def test_who_else_has_the_arrays_sees_what_python_shows(f):
    check(f, loops="keep")


def test_a_place_beyond_a_list_is_pythons_error():
    def beyond(x):
        rows = [r * 1.0 for r in x]
        for k in range(len(rows)):
            rows[k + 1] += x[k]
        return rows[0].sum()

    with pytest.raises(IndexError):
        sd.grad(beyond, loops="keep")(X)

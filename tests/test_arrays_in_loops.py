"""Arrays that the rounds of kept loops change: by slices, rows, cells of nested loops, in place; against plain Python."""

import random
import re

import numpy as np
import pytest

import symdiff as sd

RNG = np.random.default_rng(7)
VECTOR, MATRIX = RNG.uniform(0.5, 1.0, 8), RNG.normal(size=(7, 7))


def stencil(u):
    u = u.copy()
    for _ in range(12):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def relaxed(a, x):
    x = x.copy()
    for i in range(len(a)):
        x[i] -= 0.1 * (a[i] @ x[:7]) * x[i - 1]
    return np.sum(x**3)


def cells_of_sums(a, b):
    c = np.zeros((len(a), b.shape[1]))
    for i in range(len(a)):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(len(b)):
                s += a[i, k] * b[k, j]
            c[i, j] = s
    return np.sum(c * c)


def summed_cells(a, b):
    c = np.zeros((len(a), b.shape[1]))
    for i in range(len(a)):
        for j in range(b.shape[1]):
            for k in range(len(b)):
                c[i, j] += a[i, k] * b[k, j]
    return np.sum(c * c)


def rows(a):
    made = np.ones_like(a)
    for i in range(1, len(a)):
        made[i, :] = made[i - 1] * a[i]
    return np.sum(made * made)


def in_place(x):
    s = np.zeros(len(x))
    for k in range(9):
        s += np.sin(x * k)
        x = x * 1.1
    return np.sum(s * s)


def known_before(x):
    u = x.copy()
    same, part = u, u[1:3]
    for _ in range(9):
        u[1:] += 0.1 * u[:-1] ** 2
    part[0] = 3 * same[0]
    return np.sum(u * np.arange(len(u))) + np.sum(same * part[0])


def parts_within(x):
    u = x.copy()
    for _ in range(9):
        last = u[1:]
        u[:-1] += 0.1 * last**2
        last[0] = u[2]
    return np.sum(u * u)


def pairs(p):
    e = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            d = p[i] - p[j]
            e += 1 / np.sum(d * d)
    return e


def triangles(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            s += x[i] * np.sin(x[j])
        for j in range(len(x) - 1, i, -1):
            s += x[i] ** 2 * x[j]
    return s


def eliminated(a):
    a = a + 5 * np.eye(len(a))
    for k in range(len(a)):
        for i in range(k + 1, len(a)):
            a[i, k] /= a[k, k]
            for j in range(k + 1, len(a)):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(np.log(1 + a * a))


def until(x):
    u = x.copy()
    while np.sum(u) > 1.0:
        u[1:] *= 0.8
        u[0] *= 0.7
    return np.sum(u * np.sin(u))


ORDER = [3, 0, 5, 1, 2, 4, 7, 6]
PLACES = np.array(ORDER)


def smoothed(u):
    v = np.zeros_like(u)
    v[1:-1] = 0.5 * (u[:-2] + u[2:])
    v[0], v[-1] = u[0], u[-1]
    return v


def relax(u, i):
    u[i] = 0.5 * u[i] + 0.1 * u[i - 1]


def written_by_functions(x):
    u, v = x.copy(), x.copy()
    for i in range(8):
        u = smoothed(u) * v[i]
        relax(v, i)
    return np.sum(u * v)


def in_an_order(x):
    s, u = 0.0, x.copy()
    for i in ORDER:
        s = np.sin(s + x[i])
    for i in PLACES:
        u[i] = np.sin(s + u[i] * u[i - 1])
    return np.sum(u * np.arange(8))


def under_a_condition(a):
    found = np.zeros(7)
    for i in range(7):
        if np.sum(a[i]) > 0.3:
            found[i] = a[i].mean()
    return np.sum(found * np.arange(7))


def shares_of_masks(a):
    r, found = np.abs(a), np.zeros(7)
    for i in range(7):
        mask = np.logical_and(i / 15 <= r, r < (i + 1) / 15)
        chosen = a[mask]
        if np.any(mask):
            found[i] = chosen.mean() * len(chosen)
    return np.sum(found * np.arange(7))


def items_of_lists(x):
    y, z = [0.0] * 8, [1.5] * 8
    for i in range(8):
        for j in range(i):
            y[i] += x[i] * x[j] * z[j]
        if y[i] > 0.3:
            z[7 - i] = y[i] * y[0] + len(y)
    return y[7] * z[2] + sum(z)


def relaxed_lists(x):
    y = [x[k] for k in range(8)]
    for _ in range(12):
        for i in range(1, 7):
            y[i] = 0.25 * (y[i - 1] + 2 * y[i] + y[i + 1])
    return y[4] * y[3]


def source_term(u):
    b = np.zeros_like(u)
    b[1:-1] = u[2:] * 0.3 + u[:-2]
    return b


def smooth(p, b):
    for _ in range(5):
        before = p.copy()
        p[1:-1] = 0.3 * (before[2:] + before[:-2]) + b[1:-1]
        p[0] = p[1]


def changed_by_functions(u):
    u, p = u.copy(), u.copy()
    away = 1.0
    while away > 0.01:
        before = u.copy()
        smooth(p, source_term(u))
        u[1:-1] = 0.5 * u[1:-1] + 0.1 * p[1:-1]
        away = np.sum(before) - np.sum(u)
    return np.sum(u * u)


def changed_by_closures(u):
    u, p = u.copy(), np.zeros(8)

    def relax(k):
        p[1:] += 0.1 * u[:-1]
        u[k] = p[k] * u[k]

    for k in range(8):
        relax(k)
    return np.sum(u * p)


def changed_by_loops_of_closures(x):
    m, u = x * 2, np.zeros(8)

    def add(k):
        for i in range(8):
            u[i] += m[i] * k
        return u[3]

    s = 0.0
    for k in range(9):
        s += add(k) * 0.1
    return s + np.sum(u * x)


def written(w, i, s):
    w[i] = np.sin(s) + i
    return s * 0.5 + w[i - 1] * w[i]


def made_in_rounds(x):
    s = 0.0
    for i in range(1, 8):
        s = written(2 * x, i, s)
        s = written(x.copy(), i, s)
        s = written(np.zeros_like(x), i, s)
        s = written(x.reshape(2, 4).T.ravel(), i, s)
        s = written(np.array([*x]), i, s)
        s = written(x.astype(float), i, s)
        s = written(np.full(8, x[0]), i, s)
    return s


KEPT = {
    changed_by_functions: (VECTOR,), changed_by_closures: (VECTOR,), changed_by_loops_of_closures: (VECTOR,),
    made_in_rounds: (VECTOR,),
    items_of_lists: (VECTOR,), relaxed_lists: (VECTOR,), written_by_functions: (VECTOR,), in_an_order: (VECTOR,),
    under_a_condition: (MATRIX,), shares_of_masks: (MATRIX,),
    stencil: (VECTOR,), relaxed: (MATRIX, VECTOR), cells_of_sums: (MATRIX[:5], MATRIX[:, :6]), rows: (MATRIX,),
    summed_cells: (MATRIX[:5], MATRIX[:, :6]), in_place: (VECTOR,), known_before: (VECTOR,), parts_within: (VECTOR,),
    until: (VECTOR,), pairs: (MATRIX[:, :3],), triangles: (VECTOR,), eliminated: (MATRIX,),
}  # fmt: skip


def told(graph):
    return {v.partition(":")[0] for v in graph.notes["loops"].values()}


def check(f, args):
    graph = sd.trace(f, *args, loops="keep", paths="guard")
    np.testing.assert_allclose(graph(*args), f(*args), rtol=1e-12)
    wrt = tuple(range(len(args)))
    kept, written = (
        sd.grad(f, wrt, loops=loops, paths="guard", scalarize=False, backend="numpy")(*args) for loops in ("keep", "unroll")
    )
    for one, other in zip(kept, written, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    return graph


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_rounds_that_change_arrays_are_kept(f):
    assert told(check(f, KEPT[f])) == {"kept"}


def test_lists_with_other_uses():
    def named_twice(x):
        y = [0.0] * 8
        same = y
        for i in range(8):
            y[i] = x[i] * same[0]
        return sum(same)

    def integers(x):
        y = [0.0] * 8
        for i in range(8):
            y[i] = i
        return sum(v * x[0] for v in y) + (type(y[2]) is int)

    def largest(x):
        y, s = [0.0] * 8, 0.0
        for i in range(8):
            y[i] = x[i]
            s += max(y)
        return s

    for f in (named_twice, integers, largest):
        graph = check(f, (VECTOR,))
        assert ("kept" in next(iter(graph.notes["loops"].values()))) == (f is largest)


# -- cells written in place


def cells_of_cells(x):
    u = x.copy()
    for i in range(7):
        for j in range(i + 1):
            before = u[j]
            u[j] = u[i] * 0.9 + before * x[j]
    return np.sum(u * u)


def rows_of_rows(x):
    a = x[:, None] * np.sin(x)
    for i in range(8):
        for j in range(8):
            a[i] = a[j] * 0.5 + a[i, j] * x
            a[j, i] += a[i, 0]
    return np.sum(np.sin(a))


def read_before_and_behind(x):
    a, s = x[:, None] * np.sin(x), 0.0
    for i in range(7):
        old = a * 1.0
        for j in range(7):
            a[i, j] = a[i, j] * x[j] + old[j, i]
        s += np.sum(old * a)
    return s


def while_cells(x):
    a, k = x[:, None] * np.sin(x), 0
    while a[0, 0] < 3.0 and k < 20:
        for j in range(8):
            a[j, j] = a[j, j] * 1.1 + 0.1 * a[0, j]
        k += 1
    return np.sum(a * a)


def complex_cells(x):
    z = (x + 1j * x).copy()
    for i in range(8):
        for j in range(4):
            z[i] = z[i] * 1j + x[j] * z[j]
    return np.sum(np.abs(z) ** 2)


def three_axes(x):
    a = np.zeros((8, 8, 3))
    for i in range(8):
        for j in range(8):
            a[i, j] = x[i] * np.array([x[j], 1.0, x[i]])
            a[i, j, 1] += a[j, i, 0]
    return np.sum(a * a)


def swept(x):
    a = x[:, None] * np.sin(x)
    for i in range(1, 7):
        for j in range(1, 7):
            a[i, j] = 0.25 * (a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1])
    return np.sum(a * a)


def shortest(x):
    a = x[:, None] * np.sin(x) + 0.1
    for k in range(8):
        for i in range(8):
            for j in range(8):
                if a[i, k] * a[k, j] < a[i, j]:
                    a[i, j] = a[i, k] * a[k, j]
    return np.sum(a * a)


def sorted_cells(x):
    u = x.copy()
    for _ in range(8):
        for j in range(7):
            t = u[j]
            if t > u[j + 1]:
                u[j] = u[j + 1]
                u[j + 1] = t
    return np.sum(u * np.arange(8))


def written_either_way(x):
    a = x[:, None] * np.sin(x)
    for i in range(8):
        for j in range(8):
            if a[i, j] > 0.4:
                a[j, i] = a[i, j] * x[i]
                a[i] = a[i] * 0.9
            else:
                a[i, i] += x[j]
                a[j, i] = 0.3 * x[i]
    return np.sum(np.sin(a))


def all_rows_but_one(x):
    b, s = x[:, None] * np.cos(x), 0.0
    for i in range(8):
        for k in range(8):
            if i != k:
                f, t = b[i, k], 0.0
                for j in range(8):
                    b[i, j] -= 0.1 * f * b[k, j]
                    t += b[i, j]
                s += t * f
    return np.sum(b * b) + s


def loops_either_way(x):
    b = x[:, None] * np.cos(x)
    for i in range(8):
        for k in range(8):
            if b[i, k] > 0.3:
                for j in range(k, 8):
                    b[i, j] = b[i, j] * 0.9 + 0.1 * b[k, j]
            elif i < k:
                for j in range(8):
                    if j != i:
                        b[k - i - 1, j] += 0.1 * b[i, j]
                    else:
                        b[k, j] *= 0.5
    return np.sum(b**3)


def while_under_a_condition(x):
    b, c = x[:, None] * np.cos(x), np.zeros(8)
    for i in range(8):
        for k in range(8):
            if i != k:
                j = 0
                while j < 8 and b[i, j] < 1.0:
                    b[i, j] += 0.3 * x[k]
                    c[j] += b[i, j]
                    j += 1
    return np.sum(b * b) + np.sum(c)


def pivoted(x):
    u, d = np.sin(np.outer(x, np.arange(1.0, 9.0)) * 3), 1.0
    for k in range(8):
        p = k
        for i in range(k + 1, 8):
            if abs(u[i, k]) > abs(u[p, k]):
                p = i
        if p != k:
            for j in range(8):
                t = u[k, j]
                u[k, j] = u[p, j]
                u[p, j] = t
            d = -d
        for i in range(k + 1, 8):
            f = u[i, k] / u[k, k]
            for j in range(k, 8):
                u[i, j] -= f * u[k, j]
        d = d * u[k, k] * 2
    return d


def pivoted_rows(x):
    b = np.sin(np.outer(x, np.arange(1.0, 9.0)) * 3)
    for k in range(7):
        p = k + np.argmax(np.abs(b[k:, k]))
        q = k + np.argmin(b[k, k:])
        if p != k:
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, 8):
            b[i, k:] -= b[i, k] / b[k, k] * b[k, k:] * (1 + 0.1 * q)
    return np.sum(np.log(np.abs(np.diag(b))))


def behind_branches(x):
    u, s = np.outer(x, np.cos(x)), 0.0
    for k in range(8):
        if u[k, 0] > 0.4:
            s += u[k, k]
        if u[k, 1] > 0.5:
            u[k, k] *= 0.5
        for i in range(k + 1, 8):
            for j in range(k, 8):
                u[i, j] -= 0.1 * u[i, k] * u[k, j]
    return np.sum(u * u) + s


def under_one_of_two_conditions(x):
    u = np.outer(x, np.cos(x))
    for k in range(8):
        if x[k] > 0.7:
            if u[k, 0] > 0.4:
                for i in range(k):
                    u[i, k] *= 0.9
        elif u[k, 1] > 0.3:
            for i in range(k):
                u[i, k] *= 0.9
    return np.sum(u * u)


def upwind(x):
    c = np.outer(x - 0.7, x)
    for _ in range(5):
        d = c.copy()
        for i in range(8):
            for j in range(8):
                if x[j] > 0.7:
                    d[i, j] = c[i, j] - 0.1 * x[j] * (c[i, j] - c[i - 1, j])
                else:
                    d[i, j] = c[i, j] - 0.1 * x[j] * (c[(i + 1) % 8, j] - c[i, j])
        c = d
    return np.sum(c * c)


IN_PLACE = [
    under_one_of_two_conditions, pivoted, pivoted_rows, behind_branches, upwind,
    all_rows_but_one, loops_either_way, while_under_a_condition,
    cells_of_cells, rows_of_rows, read_before_and_behind, while_cells, complex_cells, three_axes, swept, shortest, sorted_cells,
    written_either_way,
]  # fmt: skip


@pytest.mark.parametrize("f", IN_PLACE, ids=lambda f: f.__name__)
def test_cells_written_in_place(f):
    assert "kept" in told(check(f, (VECTOR,)))
    expected = sd.grad(f, loops="unroll", scalarize=False, backend="numpy")(VECTOR)
    df = sd.grad(f, loops="keep")
    np.testing.assert_allclose(df(VECTOR), expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(sd.vmap(df)(np.stack([VECTOR, VECTOR]))[1], expected, rtol=1e-9, atol=1e-11)


def test_a_round_writes_its_cells_only():
    def product(a, b):
        c = np.zeros((len(a), len(a)))
        for i in range(len(a)):
            for j in range(len(a)):
                for k in range(len(a)):
                    c[i, j] += a[i, k] * b[k, j]
        return np.sum(c * c)

    graph = sd.value_and_grad(product, (0, 1), loops="keep").graph(np.ones((30, 30)), np.ones((30, 30)))
    forward, backward = (b.params for b in graph.bindings if b.op == "loop")
    assert (forward.carried, forward.stacks, backward.carried) == (1, (), 1)  # no array is kept for each round


def test_a_condition_on_a_write_selects_what_is_written():
    loop = sd.trace(sorted_cells, VECTOR, loops="keep")
    inner = [b for b in loop.bindings if b.op == "loop"][-1].params.body
    inner = [b for b in inner.bindings if b.op == "loop"][-1].params.body
    assert [b.shape for b in inner.bindings if b.op == "select"] == [(), ()]


@pytest.mark.parametrize("f", [all_rows_but_one, loops_either_way, while_under_a_condition], ids=lambda f: f.__name__)
def test_a_condition_on_a_loop_that_writes_selects_what_is_written(f):
    def shapes(graph):
        inside = [s for b in graph.bindings if b.op == "loop" for s in shapes(b.params.body)]
        return inside + [b.shape for b in graph.bindings if b.op == "select"]

    assert set(shapes(sd.trace(f, VECTOR, loops="keep"))) == {()}


def inner_loops(graph):
    return [b for b in graph.bindings if b.op == "loop"]


def test_loops_behind_branches_are_said_once():
    (outer,) = inner_loops(sd.trace(behind_branches, VECTOR, loops="keep"))
    assert len(inner_loops(outer.params.body)) == 1
    (outer,) = inner_loops(sd.trace(pivoted, VECTOR, loops="keep"))
    assert len(inner_loops(outer.params.body)) == 3


@pytest.mark.parametrize("f", [pivoted, upwind], ids=lambda f: f.__name__)
def test_inner_rounds_write_cells_only(f):
    """No array of all cells is made in the inner rounds of a gradient."""
    text = sd.grad(f, loops="keep").source(VECTOR, target="c")
    depth = 0
    for line in text.splitlines():
        depth += line.count("{") - line.count("}")
        assert depth < 3 or not re.search(r"double \w+\[64\]", line) or depth == 3, line


def columns_by_columns(a):
    q = a.copy()
    for k in range(len(q)):
        for j in range(k + 1, len(q)):
            t = 0.0
            for i in range(len(q)):
                t += q[i, k] * q[i, j]
            for i in range(len(q)):
                q[i, j] -= t * q[i, k]
    return np.sum(q**3)


def test_columns_are_read_where_they_lie():
    a = MATRIX / 10
    check(columns_by_columns, (a,))
    text = sd.grad(columns_by_columns, loops="keep").source(a, target="c")
    assert "double q[49]" in text and not re.search(r"double w\d+\[49\]", text)


def test_rows_are_assigned_at_places():
    def f(x, k):
        y = x.copy()
        y[int(k)] = np.sin(x[0]) * x[1]
        return np.sum(y * y)

    x = np.linspace(0.2, 0.9, 5)
    assert "assign_at" in {b.op for b in sd.grad(f, scalarize=False).graph(x, 2.0).bindings}
    for scalarize in (True, False):
        for k in (0.0, 2.0, 4.0):
            df = sd.grad(f, scalarize=scalarize)
            differences = [(f(x + 1e-6 * e, k) - f(x - 1e-6 * e, k)) / 2e-6 for e in np.eye(5)]
            np.testing.assert_allclose(df(x, k), differences, rtol=1e-6)
            np.testing.assert_allclose(sd.vmap(df)(np.stack([x, x]), np.array([k, k]))[1], differences, rtol=1e-6)
            tangent = sd.jvp(f, scalarize=scalarize)(x, k, np.ones(5))[1]
            np.testing.assert_allclose(tangent, np.sum(differences), rtol=1e-6)


# -- what is written out


def other_name(x):
    u = x.copy()
    v = u[1:]
    for _ in range(9):
        u[:-1] += 0.1 * v
    return np.sum(u * u)


def part_behind(x):
    u = x.copy()
    for _ in range(9):
        part = u[1:]
        u[:-1] += 0.1 * part**2
    u[2] = 4.0
    return np.sum(part * part)


def last_of_inner(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i):
            t = x[i] * x[j]
        s += t * j if i else x[0]
    return s


def named_anew(x):
    u = x.copy()
    for k in range(9):
        u[1:] += 0.1 * k
        v = u
        u = x * 2
        v[0] = 3 * x[0]
    return np.sum(u * v)


def in_a_closure(x):
    u = x.copy()

    def ends():
        return u[0] * u[-1]

    for _ in range(9):
        u[1:] += 0.1 * ends()
    return np.sum(u)


def same_in_rounds(x):
    z, s = x.copy(), 0.0
    for i in range(7):
        a = z
        s += a[i] * x[1]
    a[0] = 5.0 * x[2]
    return s + np.sum(z * x)


def same_on_one_path(x):
    z, a, s = x.copy(), x * 2, 0.0
    for i in range(7):
        if x[i] > 0.7:
            a = z
        s += a[i] * x[1]
    z[0] = 5.0 * x[1]
    return s + np.sum(a * x)


def same_before(x):
    z = x.copy()
    a, s = z, 0.0
    for i in range(7):
        s += a[0]
        z[0] = z[0] + x[i]
    return s + np.sum(a * x)


def same_one_round_later(x):
    a, b, s = x * 2, x * 3, 0.0
    for i in range(7):
        b = a
        a = a * 1.1
        s += b[i]
    b[0] = 7.0 * x[3]
    return s + np.sum(a * b)


def one_object(x):
    for _ in range(7):
        a = b = x * 0.5
    b[0] = 7.0 * x[2]
    return np.sum(a * b)


def same_list(x):
    y = [x[0]]
    for i in range(7):
        y.append(x[i] * y[-1])
        same = y
    same.append(3.0)
    return sum(y) * len(y)


def no_round(x):
    z, k = x.copy(), 0
    a = z
    while x[0] * k > 3.0:
        a, k = a * 2, k + 1
    a[0] = 7.0
    return np.sum(z * x)


def in_a_tuple(x):
    z = x.copy()
    parts = (z, 0.0)
    for i in range(7):
        parts = (parts[0], parts[1] + x[i])
    parts[0][0] = 9 * x[1]
    return np.sum(z * x) + parts[1]


def part_of_rows(x):
    m = x[:, None] * x
    part = m[1]
    for i in range(7):
        for j in range(i + 1, 7):
            m[i, j] = m[i, j] * x[0] + part[j]
    return np.sum(m * np.sin(m))


def by_two_names(x):
    m = x[:, None] * x
    n = m
    for i in range(7):
        for j in range(7):
            m[i, j] = n[j, i] * x[0]
    return np.sum(m * np.sin(m))


NAMES = [
    other_name, part_behind, last_of_inner, named_anew, in_a_closure, same_in_rounds, same_on_one_path, same_before, no_round,
    same_one_round_later, one_object, same_list, in_a_tuple, part_of_rows, by_two_names,
]  # fmt: skip


@pytest.mark.parametrize("f", NAMES, ids=lambda f: f.__name__)
def test_arrays_with_other_names_are_right_all_the_same(f):
    check(f, (VECTOR,))


def name_of_a_comprehension(x):
    v, s = x.copy(), 0.0
    for i in range(7):
        s += sum(0.1 * v for v in (x[i], x[0])) + sum([0.2 * v for v in (x[i], x[1])])
        v[i] = s
    return np.sum(v * x)


def captured_on_two_levels(x):
    s = 0.0
    for i in range(7):
        u, v = x[i] * x[1], np.cos(x[i])
        for j in range(6):
            t = u * x[j]
            for k in range(5):
                s = s + (t * v if s < u else v * u) * x[k]
    return s


@pytest.mark.parametrize("f", [name_of_a_comprehension, captured_on_two_levels], ids=lambda f: f.__name__)
def test_names_and_values_of_other_scopes(f):
    assert told(check(f, (VECTOR,))) == {"kept"}


def test_loops_end_on_paths_that_are_not_taken():
    def doubled(x):
        if x > 0.05:
            a = x
            while a < 10:
                a = a * 2
            return a
        return -x

    def left(x):
        a = x
        if x > 0.05:
            while True:
                a = a * 2
                if a > 10:
                    break
        return a

    def told_in_the_round(x):
        s = 0.0 * x
        while s < 5:
            s += x if x > 0 else 0.5
        return s

    graph = sd.trace(told_in_the_round, 0.75, loops="keep", paths="guard")
    assert told(graph) == {"kept"} and graph(0.8) == told_in_the_round(0.8)
    with pytest.raises(sd.TraceError, match="other arguments"):
        graph(-0.3)
    for f in (doubled, left):
        df, graph = sd.grad(f, loops="keep"), sd.trace(f, sd.Spec(()), loops="keep")
        for x in (0.3, 0.0, -0.7, 20.0):
            assert graph(x) == f(x)
            assert df(x) == (f(x) / x if x > 0.05 else -1.0 if f is doubled else 1.0)


def test_the_caller_s_own_array_is_not_changed():
    def f(x):
        for _ in range(9):
            x[1:] *= 0.5
        return np.sum(x)

    with pytest.raises(sd.TraceError, match="the caller's own array is assigned to"):
        sd.grad(f, loops="keep")(VECTOR.copy())


# -- random programs


def random_program(seed):
    """The text of a function of a vector and a matrix whose loops change arrays."""
    pick = random.Random(seed)
    lines = ["def f(x, a):", "    u, m, s = x.copy(), a.copy(), 0.3", "    w = np.zeros(len(x))"]
    if pick.random() < 0.2:
        lines.append(pick.choice(["    v = u", "    v = u[1:]", "    v = m[1, :]"]))
    if pick.random() < 0.3:
        lines.append(pick.choice(["    m = m[:, ::-1]", "    m = np.ones_like(a)", "    u = np.zeros(len(x))", "    m = m.T"]))
    values = ["s", "x[{i}]", "u[{i}]", "u[{i}-1]", "w[{i}]", "m[{i}, {j}]", "a[{j}, {i}]", "m[{j}, {j}]", "u[-1]", "m[{i}, 1]",
              "np.sum(u)", "u[0]", "a[{i}] @ u"]  # fmt: skip
    arrays = ["u[1:-1]", "x[:-2]", "m[{i}, 2:]", "u[2:]", "w[1:-1]", "np.tanh(u[2:])", "m[1:-1, {j}]", "s"]

    def value(names, of=values):
        return pick.choice(of).format(i=pick.choice(names), j=pick.choice(names))

    def body(indent, names, depth):
        for _ in range(pick.randint(1, 3)):
            i, j = pick.choice(names), pick.choice(names)
            op, k = pick.choice(["=", "+=", "+=", "-=", "*="]), pick.choice([0.1, 0.3, -0.2])
            kind = pick.randrange(12)
            number = f"{k} * {value(names)} * np.sin({value(names)})"
            cells = f"{k} * {value(names, arrays)} * {value(names, arrays)} + {k} * {value(names)}"
            if kind < 3:
                lines.append(f"{indent}{pick.choice(['u', 'w'])}[{i}] {op} {number}")
            elif kind < 5:
                lines.append(f"{indent}m[{i}, {j}] {op} {number}")
            elif kind < 7:
                part = pick.choice(["u[1:-1]", "w[2:]", f"m[{i}, 1:-1]", "m[2:, 0]", f"m[2:, {j}]"])
                lines.append(f"{indent}{part} {op} {cells}")
            elif kind == 7:
                lines.append(f"{indent}{pick.choice(['u', 'w', 'm'])} {op.replace('=', '+=') if op == '=' else op} {number}")
            elif kind == 8:
                lines.append(f"{indent}s = {number} + 0.5 * s")
            elif kind == 9:
                lines.append(f"{indent}if {value(names)} > 0.2:\n{indent}    {pick.choice(['u', 'w'])}[{i}] {op} {number}")
            elif kind == 10:
                lines.append(f"{indent}p = {pick.choice([f'm[{i}]', 'u[:]', 'w'])}\n{indent}p[{j}] {op} {number}")
            elif depth < 2:
                loop(indent, names, depth)

    def loop(indent, names, depth):
        name = "ijk"[depth]
        last = pick.choice(names) if names and pick.random() < 0.4 else ""
        over = pick.choice([f"range({last})", f"range({last} + 1, 6)", f"range(6 - {last})"]) if last else pick.choice(
            ["range(6)", "range(1, 6)", "range(5, -1, -1)", "range(5)"]
        )  # fmt: skip
        lines.append(f"{indent}for {name} in {over}:")
        lines.append(f"{indent}    s = s * 0.99")
        body(indent + "    ", [*names, name], depth + 1)

    for _ in range(pick.randint(1, 2)):
        loop("    ", [], 0)
    end = " + p[0]" if pick.random() < 0.1 and any("p =" in line for line in lines) else ""
    more = " + np.sum(v)" if any("v =" in line for line in lines) else ""
    lines.append(f"    return np.sum(u * np.arange(len(u))) + np.sum(m * m) + s + np.sum(np.sin(w)){end}{more}")
    return "\n".join(lines)


def check_program(seed, folder):
    path = folder / f"program{seed}.py"
    path.write_text(random_program(seed))
    space = {"np": np}
    exec(compile(path.read_text(), str(path), "exec"), space)
    x, a = np.random.default_rng(seed).uniform(0.1, 0.9, 6), np.random.default_rng(seed + 1).uniform(-0.9, 0.9, (6, 6))
    try:
        with np.errstate(all="ignore"):
            expected = space["f"](x, a)
    except UnboundLocalError:
        return None
    if not np.isfinite(expected) or abs(expected) > 1e6:
        return None
    return told(check(space["f"], (x, a)))


def test_random_programs(tmp_path):
    found = [check_program(seed, tmp_path) for seed in range(6)]
    assert {"kept"} in found


def largest_of_complex_numbers(x):
    s = 0.0
    for k in range(9):
        s = s + x[0] * x[k % 8]
        largest = np.max((x * 0).astype(complex))
    return s + 0 * np.real(largest)


@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_what_only_numpy_orders_beside_a_loop(backend):
    df = sd.value_and_grad(largest_of_complex_numbers, loops="keep", scalarize=False, backend=backend)
    if backend == "python":
        with pytest.raises(sd.BackendError, match="amax of complex numbers"):
            df(VECTOR)
    else:
        value, slope = df(VECTOR)
        assert value == pytest.approx(largest_of_complex_numbers(VECTOR), rel=1e-12)
        np.testing.assert_allclose(slope, sd.grad(largest_of_complex_numbers, loops="unroll")(VECTOR), rtol=1e-12)


@pytest.mark.parametrize("codes", ["fd", "df", "?d", "Dd"])
def test_loops_over_parts_of_other_dtypes(codes):
    part, other = (np.array([1.0, 0.25, 0.5]).astype(c) for c in codes)

    def f(y):
        v = np.concatenate([part, y * other])
        for _ in range(1200):
            v[1:-1] += 0.1 * (v[2:] - 2 * v[1:-1] + v[:-2])
        return v

    y = np.arange(3.0)
    value, slope = sd.jvp(f, loops="keep")(y, np.ones(3))
    assert value.dtype == f(y).dtype
    np.testing.assert_allclose(value, f(y), rtol=1e-10)
    np.testing.assert_allclose(slope, f(y + 1) - f(y), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loops", ["keep", "unroll"])
def test_hessians_of_loops_over_sorted_cells(loops):
    def f(x):
        y, s = np.sort(x), 0.0
        for i in range(len(x)):
            s = s * 0.5 + np.sin(y[i - 1])
        return s

    x = np.array([0.3, -0.7, 0.9, 0.1, -0.2, 0.5])
    places = (np.argsort(np.argsort(x)) + 1) % 6
    np.testing.assert_allclose(sd.hessian(f, loops=loops)(x), -np.diag(np.sin(x) * 0.5 ** (5.0 - places)), atol=1e-15)

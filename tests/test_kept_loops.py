"""Plain Python loops that are traced once and kept, against the plain functions and the loops written out."""

import math
import warnings
from collections import deque

import numpy as np
import pytest
from inside import Builder, Tired, building, looped_function, paced, program_of

import symdiff as sd

RNG = np.random.default_rng(11)


def rosenbrock(x):
    s = 0.0
    for i in range(len(x) - 1):
        s += 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return s


def product(x):
    p = 1.0
    for a in x:
        p = p * a
    return p


def chebyshev(x, n=40):
    a, b = 1.0, x
    for _ in range(n):
        a, b = b, 2 * x * b - a
    return b


def sine_chain(a, b):
    s = a
    for i in range(60):
        s = np.sin(s * a) + b * i
    return s


def logistic(r, x):
    for _ in range(25):
        x = r * x * (1 - x)
    return x


def slopes(q, p):
    return p, -np.sin(q)


def pendulum(q, p, h):
    for _ in range(15):
        a, b = slopes(q, p)
        c, d = slopes(q + h / 2 * a, p + h / 2 * b)
        e, g = slopes(q + h / 2 * c, p + h / 2 * d)
        i, j = slopes(q + h * e, p + h * g)
        q = q + h / 6 * (a + 2 * c + 2 * e + i)
        p = p + h / 6 * (b + 2 * d + 2 * g + j)
    return q * q + p


def pairs(x):
    e = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j:
                e += np.exp(-((x[i] - x[j]) ** 2))
    return e


def filtered(x, a, b):
    y = [x[0]]
    for i in range(1, len(x)):
        y.append(a * y[-1] + b * x[i])
    return sum(v * v for v in y)


def two_back(x, a):
    y = [x[0], x[1]]
    for i in range(2, len(x)):
        y.append(a * y[-1] + x[i] - 0.1 * y[i - 2])
    return np.sum(np.array(y) ** 2)


def recurrence(x, a):
    y = np.zeros(len(x))
    y[0] = x[0]
    for i in range(1, len(x)):
        y[i] = a * y[i - 1] + x[i]
    return np.sum(y * y)


def relaxed(u):
    v = u.copy()
    for i in range(1, len(u) - 1):
        v[i] = 0.5 * (v[i - 1] + v[i + 1])
    return np.sum(v * v)


def changed_twice(u):
    v = np.ones(len(u))
    for i in range(len(u)):
        v[i] += u[i]
        v[i] *= 2
        if v[i] > 2.5:
            v[i] = v[i] ** 2
    return np.sum(v * v)


def rows(p):
    q = np.zeros_like(p)
    for i in range(1, len(p)):
        q[i] = p[i] - p[i - 1]
    return np.sum(q * q)


def whole_arrays(a, x):
    total = 0.0
    for _ in range(12):
        x = np.tanh(a @ x)
        total = total + np.sum(x)
    return total


def branches(x):
    s = 0.0
    for i, a in enumerate(x):
        if i == 0:
            s = s + a
        elif a > 0.5:
            s = s + a * a
        elif i == len(x) - 1:
            s = s - 3 * a
        else:
            s = s - a
    return s


def counters(x):
    j, t, last = 3, 0, None
    for i in range(10):
        j += 2
        t = t + x * j
        last = i
    return t + j + last + i


def names_behind(x):
    for i in range(2, 30, 3):
        for j in reversed(range(9)):
            t = x * i + j
        u = t
    return u + i * j * x


def zipped(x, y):
    s = 0
    for k, (a, b) in enumerate(zip(x, y[::-1], strict=True), 1):
        s = s + k * a * b
    return s


def swapped(x, y):
    pair = (x, y)
    for k in range(9):
        pair = (pair[1], 0.5 * pair[0] + math.sin(0.1 * k))
    return pair[0] * pair[1]


def of_generator(x):
    return sum(np.exp(np.sin(v)) for v in x) + sum(a * b for a, b in zip(x, x[2:], strict=False))


def sums_in_sums(x):
    t = 0.0
    for i in range(len(x)):
        t += sum(x[i] * x[j] for j in range(len(x))) * x[i]
    return t


def flagged(x):
    seen, s = False, 0.0
    for a in x:
        if a > 0.6:
            seen = True
        if seen:
            s = s + a
    return s


def newton(a, x):
    n = 0
    while abs(x * x - a) > 1e-14 * a and n < 50:
        x = 0.5 * (x + a / x)
        n += 1
    return x * x * x + n * a


def adaptive(y):
    t, h = 0.0, 0.1
    while t < 2.0:
        if t + h > 2.0:
            h = 2.0 - t
        y = y + h * y * (1 - y)
        t = t + h
        h = 0.1 * (1 + y)
    return y


def until(x):
    t = x
    while True:
        t = t * 0.7
        if t < 0.1:
            break
    return t


def broken_off(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i]
        if s > 2 and i > 3:
            break
        s = s * 1.1
    return s + i * x[0]


VECTOR = RNG.uniform(0.1, 0.9, 24)


def eliminated_cell_by_cell(a):
    a = a.copy()
    n = len(a)
    for k in range(n - 1):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]
    return np.sum(np.log(np.diag(a)))


KEPT = {
    rosenbrock: (VECTOR,), product: (VECTOR + 0.3,), chebyshev: (0.3,), sine_chain: (0.3, 0.01), logistic: (3.7, 0.2),
    pendulum: (1.0, 0.5, 0.1), pairs: (VECTOR[:9],), filtered: (VECTOR, 0.5, 0.2), two_back: (VECTOR, 0.4),
    recurrence: (VECTOR, 0.7), relaxed: (VECTOR,), changed_twice: (VECTOR,), rows: (RNG.normal(size=(9, 3)),),
    whole_arrays: (RNG.normal(size=(3, 3)), RNG.normal(size=3)), branches: (VECTOR,), counters: (2.0,), names_behind: (1.5,),
    newton: (2.0, 1.0), adaptive: (0.1,), until: (0.9,), broken_off: (VECTOR,),
    zipped: (VECTOR, VECTOR[::-1] * 2), swapped: (0.3, 0.8), flagged: (VECTOR,),
    of_generator: (VECTOR,), sums_in_sums: (VECTOR[:8],),
    eliminated_cell_by_cell: (np.sin(np.arange(144.0)).reshape(12, 12) + 12 * np.eye(12),),
}  # fmt: skip


def told(graph):
    return {v.partition(":")[0] for v in graph.notes["loops"].values()}


def leaves(found):
    return [np.asarray(v) for v in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("f", KEPT, ids=lambda f: f.__name__)
def test_kept_loops_have_the_values_and_derivatives_of_those_written_out(f):
    args = KEPT[f]
    graph = sd.trace(f, *args, loops="keep")
    assert told(graph) == {"kept"}
    assert any(b.op == "loop" for b in graph.bindings)
    np.testing.assert_allclose(graph(*args), f(*args), rtol=1e-12)
    wrt = tuple(range(len(args)))
    paths = {"keep": None, "unroll": "guard"}
    kept, written = (sd.value_and_grad(f, wrt, loops=loops, paths=p, scalarize=False) for loops, p in paths.items())
    for one, other in zip(leaves(kept(*args)[1]), leaves(written(*args)[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(kept(*args)[0], f(*args), rtol=1e-12)


STEPPED = (pairs, flagged, branches, changed_twice, newton, adaptive, until, broken_off)  # which ask for an order


@pytest.mark.parametrize("f", [f for f in KEPT if f not in STEPPED], ids=lambda f: f.__name__)
def test_gradients_of_kept_loops_by_complex_steps(f):
    args, step = KEPT[f], 1e-200
    wrt = tuple(range(len(args)))
    found = leaves(sd.grad(f, wrt, loops="keep", scalarize=False)(*args))
    for place, bar in enumerate(found):
        for k in list(np.ndindex(bar.shape))[:5]:
            moved = [np.array(a, dtype=complex) if np.ndim(a) else complex(a) for a in args]
            if np.ndim(args[place]):
                moved[place][k] += 1j * step
            else:
                moved[place] += 1j * step
            if f in (recurrence, relaxed, rows, whole_arrays):
                continue  # whose arrays are real
            try:
                value = f(*moved)
            except TypeError:
                continue
            np.testing.assert_allclose(bar[k], np.imag(value) / step, rtol=1e-9, atol=1e-12)


def test_a_long_loop_is_traced_as_quickly_as_a_short_one():
    counts = [len(sd.trace(rosenbrock, np.ones(n), loops="keep").bindings) for n in (10, 10**6)]
    assert counts[0] == counts[1] == 2
    x = RNG.uniform(0.5, 1.0, 100_000)
    expected = np.zeros_like(x)
    expected[1:] += 200 * (x[1:] - x[:-1] ** 2)
    expected[:-1] += -400 * x[:-1] * (x[1:] - x[:-1] ** 2) - 2 * (1 - x[:-1])
    np.testing.assert_allclose(sd.grad(rosenbrock, loops="keep")(x), expected, rtol=1e-9, atol=1e-9)


def test_files_have_loops():
    x = np.linspace(0.1, 0.9, 300)
    text = sd.grad(rosenbrock, loops="keep").source(x, target="python")
    steps = text[text.index("_steps(") :].partition("\ndef ")[0]
    assert "for k in range(299):" in steps and len(steps.splitlines()) < 20
    space = {}
    exec(text, space)
    np.testing.assert_allclose(space["rosenbrock_grad"](x), sd.grad(rosenbrock, loops="keep")(x), rtol=1e-12)
    assert len(sd.grad(rosenbrock, loops="keep").source(x, target="numpy").splitlines()) < 120  # the checks of its arguments


def split(x):
    t = 3 * x if x > 1 else x - 4
    while t * t > 2:
        t = t * 0.8
    return t


def test_loops_on_several_paths_of_a_function():
    for x in (0.3, 1.7):
        for paths in (None, "guard"):
            graph = sd.trace(split, x, loops="keep", paths=paths)
            assert graph(x) == split(x)
            assert sd.grad(split, loops="keep", paths=paths)(x) == pytest.approx(sd.grad(split, paths="guard")(x))


# -- what is written out


SEEN = []


def left(x):
    for i in range(9):
        with np.errstate(all="ignore"):
            if x > 3:
                return x * i
            x = x * 1.5
    return x


def consumed(x):
    values = iter((x, 2 * x, x + 1, 3 * x, x * x, 5 * x, x - 2, 7 * x, 8 * x, x, x))
    t = 0.0
    for _ in range(9):
        t += next(values) + sum(v for v in [x])
    return t


def fibonacci(x):
    a, b = 1, 1
    for _ in range(12):
        a, b = b, a + b
    return a * x


def grown(x):
    y = x
    for _ in range(6):
        y = np.concatenate([y, y[:1]])
    return np.sum(y * np.arange(len(y)))


def raising(x):
    t = 0.0
    for i in range(9):
        t += x[i + 1] if i < 8 else x[i]
    return t


WRITTEN = {
    left: (0.5,), consumed: (0.3,), fibonacci: (0.5,), grown: (np.array([1.0, 2.0]),),
}  # fmt: skip


@pytest.mark.parametrize("f", WRITTEN, ids=lambda f: f.__name__)
def test_other_loops_are_written_out_with_the_reason(f):
    args = WRITTEN[f]
    graph = sd.trace(f, *args, loops="keep", paths="guard")
    assert "kept" not in told(graph) and told(graph) == {"written out"}
    assert "written out: " in str(graph)
    SEEN.clear()
    expected = f(*args)
    np.testing.assert_allclose(graph(*args), expected, rtol=1e-12)
    one, other = (sd.grad(f, loops=loops)(*args) for loops in ("keep", "unroll"))
    np.testing.assert_array_equal(one, other)


def named_part(x):
    u, i = np.zeros(7), 0
    while i < 3 and x[0] < 5:
        SEEN.insert(0, i)  # the loop is written out
        for j in range(1, 7):
            w = u[j:]
            w += x[i]
            u[7 - j] = u[j] * x[j]
        i += 1
    return np.sum(u)


def overwritten(x):
    u = np.zeros(3)
    u[0] = x[0] / u[:0].mean()
    if x[1] > 0.3:
        u[:] = 0.0
    for k in range(5):
        u[:] = x[k : k + 3]
    if x[1] > 0.5:
        u = u * 2.0
    return u[0] * x[3]


@pytest.mark.parametrize("f", [named_part, overwritten])
@pytest.mark.parametrize("paths", [None, "guard"])
def test_what_a_loop_leaves_behind(f, paths):
    x = np.linspace(0.4, 0.9, 7)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of means of nothing
        value, slope = sd.value_and_grad(f, loops="keep", paths=paths, scalarize=False)(x)
        expected = f(x)
        ends = [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(7)]
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    np.testing.assert_allclose(slope, ends, rtol=1e-6, atol=1e-8)


def test_the_user_s_own_exceptions_are_raised():
    def beyond(x):
        s = 0.0
        for i in range(12):
            s += x[i]
        return s

    with pytest.raises(IndexError):
        sd.grad(beyond, loops="keep")(np.ones(11))
    assert raising(np.arange(9.0)) == sd.trace(raising, np.arange(9.0), loops="keep")(np.arange(9.0))


def test_what_an_option_may_be():
    with pytest.raises(sd.OptionError, match="'keep', 'unroll' and None"):
        sd.grad(rosenbrock, loops="roll")


def test_backends_and_points():
    x = VECTOR
    expected = sd.grad(product)(x)
    for backend in ("auto", "python", "numpy", "native"):
        if backend == "native" and not sd.grad(lambda t: t * t, backend="auto").compile(1.0).machine:
            continue
        np.testing.assert_allclose(sd.grad(product, loops="keep", backend=backend, scalarize=False)(x), expected, rtol=1e-12)
    points = RNG.uniform(0.5, 1.5, (4, 24))
    found = sd.vmap(sd.grad(product, loops="keep"))(points)
    np.testing.assert_allclose(found, [sd.grad(product)(p) for p in points], rtol=1e-12)
    zero = np.array([0.0, *VECTOR])
    np.testing.assert_allclose(sd.grad(product, loops="keep")(zero), sd.grad(product)(zero), rtol=1e-12, atol=1e-300)
    assert sd.hessian(sine_chain, loops="keep")(0.3, 0.01) == pytest.approx(sd.hessian(sine_chain)(0.3, 0.01), rel=1e-9)


def test_arrays_around_loops_that_take_longer_are_written_out():
    def f(x):
        h, s = [], x
        for _ in range(400):
            s = np.cos(s) * 0.9 + x * 0.01
            h.append(s)
        return np.sum(np.tanh(np.outer(h, h)))

    df = sd.grad(f)
    assert df(0.7) == pytest.approx(sd.grad(f, loops="unroll")(0.7), rel=1e-12)
    assert not any(b.op == "loop" for b in df.graph(0.7).bindings)


def test_long_functions_keep_their_loops():
    def f(x):
        s = x
        for i in range(3000):
            s = np.sin(s) * 0.9 + x * 1e-3 * i
        return s

    df = sd.value_and_grad(f)
    assert sum(b.op == "loop" for b in df.graph(0.7).bindings) == 2
    np.testing.assert_allclose(df(0.7), sd.value_and_grad(f, loops="unroll")(0.7), 1e-12)
    assert any(b.op == "loop" for b in sd.hessian(f).graph(0.7).bindings)
    np.testing.assert_allclose(sd.hessian(f)(0.7), sd.hessian(f, loops="unroll")(0.7), 1e-9)


def product_of_matrices(a, b):
    total = 0.0
    for i in range(len(a)):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(len(b)):
                s += a[i, k] * b[k, j]
            total += s * s
    return total


def test_places_of_several_loops_in_one_index():
    a, b = RNG.normal(size=(7, 6)), RNG.normal(size=(6, 5))
    assert sum(binding.op == "loop" for binding in sd.trace(product_of_matrices, a, b, loops="keep").bindings) == 1
    kept, plain = (sd.grad(product_of_matrices, (0, 1), loops=loops)(a, b) for loops in ("keep", "unroll"))
    for own, other in zip(kept, plain, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12)


def damped(x, rounds):
    for _ in range(rounds):
        x = 0.5 * np.sin(x) + 0.1 * x
    return np.sum(x)


def loops_of(f, *args):
    return sum(binding.op == "loop" for binding in sd.grad(f).graph(*args).bindings)


def test_long_functions_keep_their_loops_and_short_ones_do_not():
    x = np.array([0.3, 0.7])
    assert loops_of(damped, x, 100) == 0 and loops_of(damped, x, 2000) > 0
    np.testing.assert_allclose(sd.grad(damped)(x, 2000), sd.grad(damped, loops="unroll")(x, 2000), rtol=1e-12, atol=1e-300)


def short_within(x):
    for n in deque([2, 3.0] * 40):  # which has no items by number
        for _ in range(20):
            x = 0.9 * x + 0.01 * n * np.sin(x)
    return x


def test_short_loops_in_long_functions_are_written_out():
    assert loops_of(short_within, 0.4) == 0


def test_sums_of_long_lists_after_their_loop():
    def filtered_sum(x):
        y = [x[0]]
        for i in range(1, len(x)):
            y.append(0.5 * y[-1] + x[i])
        s = 0.0
        for v in y:
            s += v * v
        return s

    x = RNG.normal(size=400)
    np.testing.assert_allclose(sd.grad(filtered_sum)(x), sd.grad(filtered_sum, loops="unroll")(x), rtol=1e-11, atol=1e-11)


def test_functions_of_arrays_beside_those_of_numbers():
    def f(x):
        a, b, z = 0.3, x[0], x
        for _ in range(8):
            a, b, z = np.sin(a) + 0.1 * b, np.sin(b * a) + np.sin(b), np.sin(z) + np.cos(z)
        return a + b + np.sum(np.sin(z))

    x = RNG.normal(size=5)
    kept, plain = (sd.grad(f, loops=loops, scalarize=False)(x) for loops in ("keep", "unroll"))
    np.testing.assert_allclose(kept, plain, rtol=1e-10)


PLACES = [(7 * k * k + 3 * k) % 5 for k in range(500)]
TABLE = np.array(PLACES)


def by_a_list(x):
    s = 0.0
    for i in range(400):
        s = s + x[PLACES[i]] * np.sin(s)
    return s


def by_a_table(x):
    s = 0.0
    for i in range(350):
        s = s + x[TABLE[i]] * i
    return s


def by_neighbours(x):
    s = 0.0
    for i in range(1, 350):
        s = max(s * 0.99, x[PLACES[i]] * x[TABLE[i - 1]])
    return s


@pytest.mark.parametrize("f", [by_a_list, by_a_table, by_neighbours])
@pytest.mark.parametrize("loops", [None, "keep", "unroll"])
def test_places_that_captured_integers_tell(f, loops):
    df, x = sd.value_and_grad(f, loops=loops), np.linspace(0.5, 0.9, 5)
    value, slope = df(x)
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(slope, [(f(x + h) - f(x - h)) / 2e-6 for h in 1e-6 * np.eye(5)], rtol=1e-5, atol=1e-5)
    assert "for" in df.source(x, target="c") or loops == "unroll"


def grown(x, n):
    for i in range(n):
        x = x + 0.01 * np.sin(x) * i
    return x


def grown_briefly_and_long(x):
    return grown(x, 12) * grown(x, 400)


def beside_many_cells(a):
    total = 0.0
    for i in range(600):
        total += np.tanh(a[i, i])
    return np.sum((a + total) ** 2)


@pytest.mark.parametrize(
    "f, x", [(grown_briefly_and_long, 0.5), (beside_many_cells, np.linspace(0, 1, 360_000).reshape(600, 600))]
)
def test_loops_that_are_kept_although_they_look_short(f, x):
    df = sd.grad(f)
    assert set(df.graph(x).notes["loops"].values()) == {"kept"}
    np.testing.assert_allclose(df(x), sd.grad(f, loops="unroll")(x), rtol=1e-10)


def pairs_of_atoms(p):
    energy = 0.0
    for i in range(len(p)):
        for j in range(i):
            d = p[i] - p[j]
            s = 1 / (d @ d) ** 3
            energy = energy + s * s - s
    return energy


def later_pairs(p):
    total = 0.0
    for i in range(len(p)):
        for j in range(i + 1, len(p)):
            for k in range(j, i, -1):
                total -= p[i, 0] * np.sin(p[j] - p[k])[1]
    return total


def chosen_pairs(p):
    total = 0.0
    for i in range(len(p)):
        for j in range(i - 3, min(i + 2, len(p))):
            total += p[i, 0] * p[j, 1] ** 3
    return total


@pytest.mark.parametrize("f, told", [(pairs_of_atoms, True), (later_pairs, True), (chosen_pairs, False)])
def test_rounds_that_an_outer_loop_tells(f, told):
    x = np.random.default_rng(3).uniform(0, 5, (20, 3))
    df = sd.value_and_grad(f, loops="keep")
    value, slope = df(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-12)
    np.testing.assert_allclose(slope, sd.grad(f, loops="unroll")(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sd.vmap(df)(np.stack([x, 2 * x]))[1][0], slope, rtol=1e-12, atol=1e-14)
    text = df.source(x, target="c")
    assert ("while" not in text) == told and "energy =" not in text.replace("double energy =", "")
    scope = {}
    exec(df.source(x, target="python"), scope)
    np.testing.assert_allclose(scope[f"{f.__name__}_value_and_grad"](x.tolist())[1], slope, rtol=1e-9, atol=1e-12)


def test_machine_code_of_loops_multiplies_for_powers():
    program = program_of(sd.value_and_grad(pairs_of_atoms, loops="keep").graph(np.ones((20, 3))), loops=True)
    assert "pow" not in looped_function(program, "pairs").text


def summed_products(x):
    products, p = [], 1.0
    for v in x:
        p *= v
        products.append(p)
    return sum(q * q for q in products) + sum(products)


def smoothed(x):
    means = [x[0], 2 * x[1]]
    for i in range(len(x) - 5):
        means.append(sum(x[i : i + 5]) / 5 + sum(v * v for v in x[i : i + 5]))
    total = 0.0
    for a, b in zip(means, reversed(means), strict=True):
        total += a * b
    return total


@pytest.mark.parametrize("f", [summed_products, smoothed])
def test_lists_that_rounds_have_appended_to_are_arrays(f):
    x = RNG.uniform(0.9, 1.1, 3000)
    graph = sd.trace(f, x, loops="keep")
    assert told(graph) == {"kept"} and all(len(b.operands) < 9 for b in graph.bindings)
    np.testing.assert_allclose(graph(x), f(x), rtol=1e-12)
    short = x[:20]
    kept, written = (sd.grad(f, loops=loops)(short) for loops in ("keep", "unroll"))
    np.testing.assert_allclose(kept, written, rtol=1e-10)


@pytest.mark.parametrize("conditions, outcome", [(5, "kept"), (6, "written out")])
def test_a_round_has_so_many_paths(conditions, outcome):
    places = dict.fromkeys(range(conditions))  # which are no items by number: the loop over them is written out

    def f(x):
        s = 0.0
        for _ in range(9):
            for k in places:
                if np.sin(s + k) > x:
                    s = s * 0.5 + x
            s = s + 0.1
        return s

    graph = sd.trace(f, 0.3, loops="keep", paths="guard")
    assert graph.notes["loops"][next(iter(graph.notes["loops"]))].startswith(outcome) and (
        "more than 32 paths" in str(graph)
    ) == (outcome != "kept")
    assert graph(0.3) == pytest.approx(f(0.3), rel=1e-12)
    assert sd.grad(f, loops="keep", paths="guard")(0.3) == pytest.approx(
        sd.grad(f, loops="unroll", paths="guard")(0.3), rel=1e-10
    )


@pytest.mark.parametrize(
    ("count", "work", "seen"), [(1000, 2, 2), (300, 4, 2), (300, 2, 300), (4, 400, 4)], ids="long heavy short few".split()
)
def test_a_loop_that_becomes_long_is_written_out_no_further(count, work, seen):
    builder, rounds = Builder(), 0
    x = builder.input("x", (), "d")
    building.active_builders().append(builder)
    try:
        for k in paced(range(count), 900):
            rounds = k + 1
            for _ in range(work):
                x = builder.bind("sin", (x,), (), "d")
    except Tired:
        pass
    finally:
        building.active_builders().pop()
    assert rounds == seen


def clipped(v):
    return 0.5 + 0.1 * v if v > 0.5 else v


def written_by_two(x):
    """One store into z waits for another one, whose condition is called together with a sine of the first one's sum."""
    a, c, z = 1.0, 0.3, x.copy()
    m = np.outer(x, x)
    for i in range(len(x) - 2, -1, -1):
        try:
            c = math.sin(clipped(math.sin(a)))
            z[i] += max(z[i - 1], m[i] @ m[i])
            c = math.sqrt(0.5 * m[i, i] * c)
        except ValueError:
            a += math.sin(x[i] + np.sum(z))
        c = 0.1 * math.sin(abs(a) * (0.3 + abs(a)))
    return a + 0.25 * c + np.sum(np.sin(z))


def root_that_the_next_round_forgets(x):
    c = x[0]
    for i in range(len(x) - 1):
        b = math.sin(c + x[i]) if i == 0 else math.sin(x[i])
        c = math.sqrt(0.5 * b * max(x[i] - 2, 0.0))
        if i == 5:
            c = b
            break
    return c


@pytest.mark.parametrize("f", (written_by_two, root_that_the_next_round_forgets), ids=lambda f: f.__name__)
def test_what_is_overwritten_has_no_derivative(f):
    x = np.linspace(0, 0.9, 7)
    found = sd.grad(f, loops="keep", scalarize=False, paths="guard")
    assert told(found.graph(x)) == {"kept"}
    steps = 1e-6 * np.eye(7)[1:]
    expected = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found(x)[1:], expected, rtol=1e-6, atol=1e-7)
    assert np.isfinite(found(x)[0])


def test_short_loops_in_short_loops_are_few_rounds_together():
    def deep(x):
        s = 0.0
        for a in range(3):
            for b in range(3):
                for c in range(3):
                    for d in range(3):
                        for e in range(3):
                            for f in range(3):
                                s = s + np.sin(x[a] * x[b] + x[c]) * x[d] - x[e] * x[f] * (a + d * f)
        return s

    x = np.array([0.3, 0.5, 0.7])
    df = sd.value_and_grad(deep)
    graph = sd.trace(deep, x, loops="keep")
    assert list(graph.notes["loops"].values()) == ["kept"] * 3 and len(graph.bindings) < 300
    assert any(b.op == "loop" for b in df.graph(x).bindings)
    value, slope = sd.value_and_grad(deep, loops="unroll")(x)
    np.testing.assert_allclose(df(x)[0], deep(x), rtol=1e-12)
    np.testing.assert_allclose(df(x)[1], slope, rtol=1e-11)
    assert value == pytest.approx(deep(x), rel=1e-12)


def test_truths_of_numbers_in_rounds():
    def f(x):
        v = x
        for _ in range(150):
            y = np.array([v, 2 * v, x])
            if np.any(y) and np.all(y):
                v = np.tanh(v * x)
            v = v + np.any(y[:1]) * 0.1 + 0.1 * np.all(np.array([[v, 1.0], [2 * x, v]]), axis=1)[1]
        return v

    for loops in ("keep", "unroll"):
        assert sd.value_and_grad(f, loops=loops)(0.3) == pytest.approx(sd.value_and_grad(f)(0.3), rel=1e-12)
        assert sd.hvp(f, loops=loops)(0.3, 1.0) == pytest.approx((sd.grad(f)(0.3001) - sd.grad(f)(0.2999)) / 2e-4, rel=1e-5)

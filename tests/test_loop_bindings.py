"""Loops, extents that are symbols, and bindings of several results, built by hand: nothing traces loops yet."""

import pickle
import random
import re

import numpy as np
import pytest
import sympy as sp
from inside import (
    ArrayConstant,
    Arrays,
    Builder,
    Constant,
    GraphOutput,
    Loop,
    Node,
    Place,
    Stack,
    broadcast_extents,
    cells_of_extents,
    check_binding,
    check_bindings,
    check_graph,
    check_program,
    counted_rounds,
    default_rules,
    extent,
    kernel_of,
    lift_invariants,
    loops_as_arrays,
    pipeline,
    plan_of,
    program_of,
    scalarize,
    sliced_extent,
    source_of,
    transforming,
    vectorize_graph,
)

import symdiff as sd
from symdiff.errors import InvariantError

K = Place()


class Writer:
    """A graph with loops, whose bodies are traced from plain functions of k, carried values, rows and others."""

    def __init__(self, **inputs):
        self.builder = Builder()
        for name, shape in inputs.items():
            setattr(self, name, self.builder.input(name, shape, "d"))

    def emit(self, op, *operands):
        return self.builder.emit(op, operands)

    def loop(self, body, rounds, begin=(), rows=(), others=(), stacks=(), sums=0, **options):
        """The results of a loop; `body` is a function or a graph, `rows` are pairs of an array and a place."""
        operands = (*begin, *(x for x, _ in rows), *others)
        shapes = [*(x.shape for x in begin), *(x.shape[1:] for x, _ in rows), *(x.shape for x in others)]
        if not isinstance(body, sd.Graph):
            specs = [sd.Spec(s, np.dtype(x.dtype or "d")) for s, x in zip(shapes, operands, strict=True)]
            body = sd.trace(body, 0.0, *specs)
        loop = Loop(body, rounds, len(begin), tuple(p for _, p in rows), tuple(stacks), sums, **options)
        bound = self.builder.loop(loop, operands)
        return [self.builder.part(bound, k) for k in range(len(loop.results))]

    def head(self, name, *operands, **params):
        return Arrays(self.builder).bind(name, *operands, **params)

    def graph(self, *outputs, name="f"):
        several = len(outputs) > 1
        found = tuple(GraphOutput(f"{name}{k}" if several else name, o) for k, o in enumerate(outputs))
        return checked(self.builder.graph(name, found))


def checked(graph):
    check_graph(graph)
    check_bindings(graph)
    return graph


def gradient(graph, wrt=None):
    wrt = list(range(len(graph.inputs))) if wrt is None else wrt
    return checked(transforming.gradient(graph, wrt, default_rules(), False))


def differences(function, args, place, step=1e-6):
    """Central differences by one argument, cell by cell."""
    found = np.zeros(np.shape(args[place]))
    for k in np.ndindex(found.shape):
        ends = []
        for sign in (1, -1):
            moved = [np.array(a, dtype=float) for a in args]
            moved[place][k] += sign * step
            ends.append(function(*moved))
        found[k] = (ends[0] - ends[1]) / (2 * step)
    return found


# -- examples: the graph, the plain function, arguments


def rosenbrock(n=None):
    n = extent("n") if n is None else n
    w = Writer(x=(n + 1,))
    rows = [(w.x, K), (w.x, Place(1, 1))]
    (total,) = w.loop(lambda k, a, b: 100.0 * (b - a**2) ** 2 + (1 - a) ** 2, n, rows=rows, sums=1)
    return w.graph(total)


def rosenbrock_plain(x):
    return sum(100.0 * (x[k + 1] - x[k] ** 2) ** 2 + (1 - x[k]) ** 2 for k in range(len(x) - 1))


def step(q, p, h):
    """A step of the classical method of Runge and Kutta for a pendulum."""
    a, b = p, -np.sin(q)
    c, d = p + h / 2 * b, -np.sin(q + h / 2 * a)
    e, f = p + h / 2 * d, -np.sin(q + h / 2 * c)
    g, i = p + h * f, -np.sin(q + h * e)
    return q + h / 6 * (a + 2 * c + 2 * e + g), p + h / 6 * (b + 2 * d + 2 * f + i)


def pendulum(rounds=8):
    w = Writer(q=(), p=(), h=())
    q, p = w.loop(lambda k, q, p, h: step(q, p, h), rounds, begin=(w.q, w.p), others=(w.h,))
    return w.graph(w.emit("add", w.emit("mul", q, q), p))


def pendulum_plain(q, p, h, rounds=8):
    for _ in range(rounds):
        q, p = step(q, p, h)
    return q * q + p


def product(n=None):
    n = extent("n") if n is None else n
    w = Writer(x=(n,))
    (end,) = w.loop(lambda k, s, a: s * (a + 0.01 * k), n, begin=(Constant(1.0),), rows=[(w.x, K)])
    return w.graph(end)


def product_plain(x):
    s = 1.0
    for k, a in enumerate(x):
        s = s * (a + 0.01 * k)
    return s


def newton():
    w = Writer(a=(), x=())
    end, rounds = w.loop(
        lambda k, x, a: (0.5 * (x + a / x), abs(x * x - a) > 1e-15 * a),
        counted_rounds("r"),
        begin=(w.x,),
        others=(w.a,),
        tested=True,
    )
    return w.graph(w.emit("mul", end, end)), w.graph(end, rounds)


def newton_plain(a, x):
    while abs(x * x - a) > 1e-15 * a:
        x = 0.5 * (x + a / x)
    return x * x


def stencil(n=None):
    """One step of a diffusion, squared and added: a stack of n rows, of which the loop gives all but the ends."""
    n = extent("n", 3) if n is None else n
    w = Writer(u=(n,), d=())
    rows = [(w.u, K), (w.u, Place(1, 1)), (w.u, Place(1, 2))]
    (v,) = w.loop(lambda k, a, b, c, d: b + d * np.sin(a - 2 * b + c), n - 2, (), rows, (w.d,), [Stack(Place(1, 1), n)])
    (total,) = w.loop(lambda k, a: a * a, n, rows=[(v, K)], sums=1)
    return w.graph(total)


def stencil_plain(u, d):
    v = np.zeros_like(u)
    for k in range(1, len(u) - 1):
        v[k] = u[k] + d * np.sin(u[k - 1] - 2 * u[k] + u[k + 1])
    return sum(v * v)


def matrix(rounds=5):
    """A vector that a matrix moves, with whole arrays in the body."""
    w = Writer(a=(3, 3), x=(3,))
    x, total = w.loop(lambda k, x, a: (np.tanh(a @ x), np.sum(x * x)), rounds, begin=(w.x,), others=(w.a,), sums=1)
    (last,) = w.loop(lambda k, a: a, 3, rows=[(x, K)], sums=1)
    return w.graph(w.emit("add", last, total))


def matrix_plain(a, x, rounds=5):
    total = 0.0
    for _ in range(rounds):
        total += np.sum(x * x)
        x = np.tanh(a @ x)
    return np.sum(x) + total


def nested(n=None):
    """A sum over pairs, by a loop in a loop that takes rows at a place the body computes."""
    n = extent("n", 2) if n is None else n
    w = Writer(x=(n,), c=())
    inner = Writer(k=(), a=(), x=(n,), c=())
    (line,) = inner.loop(
        lambda j, b, a, c: np.exp(-c * (a - b) ** 2), n, rows=[(inner.x, K)], others=(inner.a, inner.c), sums=1
    )
    turned = inner.head("gather", inner.x, inner.emit("sub", inner.builder.size(n - 1), inner.k))
    body = inner.graph(inner.emit("mul", line, turned), name="total")
    return w.graph(*w.loop(body, n, rows=[(w.x, K)], others=(w.x, w.c), sums=1))


def nested_plain(x, c):
    return sum(x[len(x) - 1 - k] * sum(np.exp(-c * (a - b) ** 2) for b in x) for k, a in enumerate(x))


def adaptive():
    """Steps that grow, up to a time or 50 of them; the steps' values are a result of as many rows."""
    w = Writer(y=(), e=())
    y, _, ys, total, rounds = w.loop(
        lambda k, y, t, e: (y + 0.1 * (k + 1) * e * y * (1 - y), t + 0.1 * (k + 1), y, y * y, t < 2.0),
        counted_rounds("m"), (w.y, Constant(0.0)), (), (w.e,), [Stack(K, counted_rounds("m"))], 1, tested=True, limit=50,
    )  # fmt: skip
    (cubes,) = w.loop(lambda k, a: a**3, counted_rounds("m"), rows=[(ys, K)], sums=1)
    whole = w.graph(y, ys, rounds)
    return w.graph(w.emit("add", w.emit("add", y, total), cubes)), whole


def adaptive_plain(y, e):
    t, total, k = 0.0, 0.0, 0
    while t < 2.0:
        total += y * y + y**3
        y, t, k = y + 0.1 * (k + 1) * e * y * (1 - y), t + 0.1 * (k + 1), k + 1
    return y + total


def conditional(rounds=7):
    w = Writer(x=(), c=())
    (x,) = w.loop(lambda k, x, c: np.where(x > c, np.sqrt(np.abs(x) + k), x * c + 1), rounds, begin=(w.x,), others=(w.c,))
    return w.graph(x)


def conditional_plain(x, c, rounds=7):
    for k in range(rounds):
        x = np.sqrt(np.abs(x) + k) if x > c else x * c + 1
    return x


def backwards(n=None):
    """Horner's rule: the coefficients last to first."""
    n = extent("n") if n is None else n
    w = Writer(a=(n,), x=())
    (s,) = w.loop(lambda k, s, a, x: s * x + a, n, begin=(Constant(0.0),), rows=[(w.a, K)], others=(w.x,), backward=True)
    return w.graph(s)


def backwards_plain(a, x):
    s = 0.0
    for c in reversed(a):
        s = s * x + c
    return s


def gathering(n=6):
    """Rows at the places that an array tells, one of them twice, and every second row from the end."""
    w = Writer(x=(n, 2))
    inner = Writer(k=(), i=(), b=(2,), x=(n, 2))
    squares = inner.emit("mul", inner.emit("mul", inner.b, inner.b), inner.head("gather", inner.x, inner.i))
    body = inner.graph(inner.head("sum", squares, axes=(0,)), name="total")
    return w.graph(
        *w.loop(body, 3, rows=[(ArrayConstant(np.array([4.0, 0.0, 4.0])), K), (w.x, Place(-2, n - 1))], others=(w.x,), sums=1)
    )


def gathering_plain(x):
    return sum(np.sum(x[i] * x[len(x) - 1 - 2 * k] ** 2) for k, i in enumerate([4, 0, 4]))


def roots():
    """A sum of square roots, each by a loop of its own rounds."""
    n = extent("n")
    w, inner = Writer(x=(n,)), Writer(k=(), a=())
    found = inner.loop(lambda k, s, a: (0.5 * (s + a / s), abs(s * s - a) > 1e-14 * a), counted_rounds("r"), (Constant(1.0),),
                       others=(inner.a,), tested=True)  # fmt: skip
    body = inner.builder.graph("root", (GraphOutput("root", found[0]),))
    return w.graph(*w.loop(body, n, rows=[(w.x, K)], sums=1))


def roots_plain(x):
    return np.sum(np.sqrt(x))


RNG = np.random.default_rng(5)
EXAMPLES = {
    "rosenbrock": (rosenbrock(), rosenbrock_plain, [(RNG.normal(size=6),), (RNG.normal(size=11),)]),
    "pendulum": (pendulum(), pendulum_plain, [(1.0, 0.5, 0.1)]),
    "product": (product(), product_plain, [(RNG.normal(size=5),), (np.array([1.0, 0.0, 2.0, 3.0]),)]),
    "newton": (newton()[0], newton_plain, [(2.0, 1.0), (3.0, 5.0)]),
    "stencil": (stencil(), stencil_plain, [(RNG.normal(size=7), 0.3), (RNG.normal(size=3), 0.2)]),
    "matrix": (matrix(), matrix_plain, [(RNG.normal(size=(3, 3)), RNG.normal(size=3))]),
    "nested": (nested(), nested_plain, [(RNG.normal(size=4), 0.7), (RNG.normal(size=6), 0.2)]),
    "adaptive": (adaptive()[0], adaptive_plain, [(0.1, 1.0)]),
    "conditional": (conditional(), conditional_plain, [(0.3, 1.7), (3.0, -0.6)]),
    "backwards": (backwards(), backwards_plain, [(RNG.normal(size=5), 0.9)]),
    "gathering": (gathering(), gathering_plain, [(RNG.normal(size=(6, 2)),)]),
    "roots": (roots(), roots_plain, [(np.array([2.0, 3.0, 4.5]),)]),
}
FIXED = {
    "rosenbrock": lambda args: rosenbrock(len(args[0]) - 1),
    "pendulum": lambda args: pendulum(),
    "product": lambda args: product(len(args[0])),
    "stencil": lambda args: stencil(len(args[0])),
    "matrix": lambda args: matrix(),
    "conditional": lambda args: conditional(),
    "backwards": lambda args: backwards(len(args[0])),
}
POINTS = [(name, k) for name, (_, _, points) in EXAMPLES.items() for k in range(len(points))]


def example(name, k):
    graph, plain, points = EXAMPLES[name]
    return graph, plain, points[k]


def close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def in_tuple(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize(("name", "k"), POINTS)
def test_values_are_those_of_the_plain_function(name, k):
    graph, plain, args = example(name, k)
    close(graph(*args), plain(*args), 1e-13)


@pytest.mark.parametrize(("name", "k"), POINTS)
def test_gradients_against_central_differences(name, k):
    graph, plain, args = example(name, k)
    found = in_tuple(gradient(graph)(*args))
    for place, one in enumerate(found):
        close(one, differences(plain, args, place), 1e-6)


@pytest.mark.parametrize(("name", "k"), POINTS)
def test_tangents_and_second_derivatives(name, k):
    graph, _, args = example(name, k)
    wrt = list(range(len(args)))
    source = np.random.default_rng(7)
    dots = [source.normal(size=np.shape(a)) for a in args]
    bars = in_tuple(gradient(graph)(*args))
    pushed = checked(transforming.push_tangents(graph, wrt, default_rules()))
    close(pushed(*args, *dots)[1], sum(np.sum(a * b) for a, b in zip(bars, dots, strict=True)))
    # H v: forward over reverse, the pullback of the gradient, and differences of the gradient along v
    hvp = in_tuple(checked(transforming.hessian_product(graph, wrt, default_rules()))(*args, *dots))
    back = checked(
        transforming.pull_cotangents(checked(transforming.gradient(graph, wrt, default_rules(), False)), wrt, default_rules())
    )
    for one, other in zip(hvp, back(*args, *dots)[len(wrt) :], strict=True):
        close(one, other)
    if name not in ("newton", "roots"):  # whose rounds change with the arguments
        ends = [in_tuple(gradient(graph)(*(a + s * 1e-5 * d for a, d in zip(args, dots, strict=True)))) for s in (1, -1)]
        for one, high, low in zip(hvp, *ends, strict=True):
            close(one, (high - low) / 2e-5, 1e-5)


@pytest.mark.parametrize("name", FIXED)
def test_gradients_are_those_of_the_loop_written_out(name):
    _, plain, args = example(name, 0)
    graph = FIXED[name](args)
    flat = checked(scalarize(graph))
    assert not any(b.op in ("loop", "part") for b in flat.bindings)
    close(flat(*args), plain(*args), 1e-13)
    for one, other in zip(in_tuple(gradient(graph)(*args)), in_tuple(gradient(flat)(*args)), strict=True):
        close(one, other, 1e-12)


def test_complex_loops():
    args = (0.3 + 0.2j, 0.4)

    def graph(function, finish, sums=0):
        w = Writer()
        z, c = w.builder.input("z", (), "D"), w.builder.input("c", (), "d")
        results = w.loop(function, 4, begin=(z,), others=(c,), sums=sums)
        return w.graph(finish(w, results[-1]))

    def holomorphic(k, z, c):
        return z * z * 0.5 + c * 1j + np.exp(z) * 0.1

    def mixed(k, z, c):
        return z * np.conj(z) * 0.5 + c * 1j + np.exp(z) * 0.1, np.abs(z) ** 2 + z.imag * c

    real = graph(holomorphic, lambda w, e: w.emit("abs", e))
    complex_ = graph(holomorphic, lambda w, e: e)
    crossed = graph(mixed, lambda w, e: e, 1)
    for f, wrt in ((real, [1]), (complex_, [0]), (complex_, [1]), (complex_, [0, 1]), (crossed, [1])):
        for transform, more in (
            (transforming.pull_cotangents, [0.7]),
            (transforming.push_tangents, [(0.2 + 1j, 0.3)[k] for k in wrt]),
        ):
            found, other = (transform(g, wrt, default_rules())(*args, *more) for g in (f, scalarize(f)))
            close(found, other)
    for found, other in zip(
        *(transforming.wirtinger(g, [0], default_rules())(*args) for g in (crossed, scalarize(crossed))), strict=True
    ):
        close(found, other)
    with pytest.raises(sd.NonHolomorphicError, match="conjugate of z"):
        gradient(crossed, [0])
    with pytest.raises(sd.NonHolomorphicError, match=r"conj: a loop's complex result .*\n?.*sd.jvp"):
        transforming.pull_cotangents(graph(lambda *args: mixed(*args)[0], lambda w, e: e), [0], default_rules())


OPERATIONS = {
    "add": lambda u, v: u + v,
    "sub": lambda u, v: u - 0.5 * v,
    "mul": lambda u, v: u * v,
    "sin": lambda u, v: np.sin(u),
    "tanh": lambda u, v: np.tanh(v),
    "div": lambda u, v: u / (2.0 + v * v),
    "chain": lambda u, v: np.where(u > v, u * u, np.cos(v)),
}


def random_loop(source, size):
    """A loop with operands and results of all kinds, and a body of random operations."""
    w = Writer(p=(), q=(), x=(size + 2,), y=(size, 2), c=())
    rounds, backward = source.randint(1, size), source.random() < 0.3

    def place(n):
        step = source.choice([1, 1, -1, 2, -2])
        while abs(step) * (rounds - 1) >= n:
            step //= abs(step)
        low = source.randint(0, n - 1 - abs(step) * (rounds - 1))
        return Place(step, low if step > 0 else low - step * (rounds - 1))

    steps = [source.choice(list(OPERATIONS)) for _ in range(source.randint(3, 9))]
    picks = [(source.random(), source.random()) for _ in range(40)]

    def body(k, p, q, a, b, row, c):
        values = [p, q, a, b, row[0], row[1], c, 0.1 * k + 1.0]
        for n, op in enumerate(steps):
            values.append(OPERATIONS[op](*(values[int(r * len(values))] for r in picks[n])))
        ends = [values[int(r * len(values))] for r, _ in picks[20:26]]
        return np.tanh(ends[0]), np.sin(ends[1]), ends[2], np.stack([ends[3], ends[4]]), ends[5]

    stacks = [Stack(place(size + 3), size + 3), Stack(place(size), size)]
    results = w.loop(body, rounds, (w.p, w.q), [(w.x, place(size + 2)), (w.x, place(size + 2)), (w.y, place(size))],
                     (w.c,), stacks, 1, backward=backward)  # fmt: skip
    if source.random() < 0.5:  # another loop over what the first one gives
        results += w.loop(lambda k, s, a, c: s * np.sin(a) + c, size + 3, (results[0],), [(results[2], K)], (w.c,))
    total = results[1]
    for r in source.sample(results, source.randint(1, len(results))):
        for _ in r.shape:
            r = w.head("sum", r, axes=(len(r.shape) - 1,))
        total = w.emit("add", w.emit("mul", r, Constant(source.uniform(0.5, 2))), total)
    return w.graph(total)


@pytest.mark.parametrize("seed", range(40))
def test_random_loops_against_those_written_out(seed):
    source, numbers = random.Random(seed), np.random.default_rng(seed)
    graph = random_loop(source, source.randint(1, 5))
    flat = scalarize(graph)
    args = [numbers.normal(size=leaf.node.shape) for leaf in graph.inputs]
    dots = [numbers.normal(size=leaf.node.shape) for leaf in graph.inputs]
    wrt = sorted(source.sample(range(len(args)), source.randint(1, len(args))))
    moved = [dots[k] for k in wrt]
    close(graph(*args), flat(*args), 1e-12)
    for one, other in zip(in_tuple(gradient(graph, wrt)(*args)), in_tuple(gradient(flat, wrt)(*args)), strict=True):
        close(one, other)
    for transform in (transforming.push_tangents, transforming.hessian_product):
        pair = [in_tuple(checked(transform(g, wrt, default_rules()))(*args, *moved)) for g in (graph, flat)]
        for one, other in zip(*pair, strict=True):
            close(one, other)


def test_results_that_nobody_reads_are_dropped_and_loops_that_do_more_take_their_place():
    d = gradient(newton()[0], [0])
    forward, backward = (b.params for b in d.bindings if b.op == "loop")
    assert [r.name for r in forward.results] == ["x", "x_was", "rounds"]  # the loop itself, with what the other needs
    assert [r.name for r in backward.results] == ["x_bar", "a_bar"]
    assert not any(b.op == "abs" for b in backward.body.bindings)
    sums = [b.params for b in gradient(rosenbrock()).bindings if b.op == "loop"]
    assert [r.name for loop in sums for r in loop.results] == ["a_bar", "b_bar"]  # no stack, and no value
    w = Writer(x=(5,), c=())
    ends = w.loop(
        lambda k, s, t, u, a, c: (s + a, t * c, u + t, a * c, s), 5, (w.c, w.c, w.c), [(w.x, K)], (w.c,), [Stack(K, 5)], 1
    )
    loop = w.graph(ends[0]).bindings[0].params
    assert (loop.carried, len(loop.rows), len(loop.body.inputs), loop.stacks, loop.sums) == (1, 1, 3, (), 0)
    loop = w.graph(ends[2]).bindings[0].params  # u needs t, and t needs c
    assert (loop.carried, loop.rows, [leaf.name for leaf in loop.body.inputs]) == (2, (), ["k", "t", "u", "c"])


def test_the_text_of_a_loop():
    text = str(stencil()).replace("test_loop_bindings.py", "here").splitlines()
    assert [line.split("    ")[0 if line[:3] != "   " else 1].strip() for line in text if not line.startswith("      ")] == [
        "f(u: f64[n], d: f64) -> f",
        "v0 = loop k < n-2: a = u[k], b = u[k+1], c = u[k+2], d",
        "v1 = v0.f",
        "v2 = loop k < n: a = v1[k]",
        "v3 = v2.f",
        "for any n >= 3",
    ]
    assert [line[6:].split("  ")[0] for line in text if line.startswith("      ")] == [
        *("v0 = mul 2 b", "v1 = sub a v0", "v2 = add v1 c", "v3 = sin v2", "v4 = mul d v3", "v5 = add b v4", "f[k+1] = v5"),
        *("v0 = mul a a", "f += v0"),
    ]
    assert "    v1 = v0.f                          f64[n]" in str(stencil()).replace("  v1", "    v1")
    assert re.search(r"v\d+ = loop k < r, backward: x_bar = v\d+, x = v\d+\[k\], a\n", str(gradient(newton()[0])))
    assert "k < m <= 50" in str(adaptive()[1])


def test_results_of_several_kinds():
    y, ys, rounds = adaptive()[1](0.1, 1.0)
    assert rounds == 6 and ys.shape == (6,) and ys[0] == 0.1 and y > ys[-1]
    assert newton()[1](4.0, 2.0) == (2.0, 0.0)  # no round at all
    w = Writer(y=())
    end, rounds = w.loop(lambda k, y: (y + 1, y < 100.0), counted_rounds("m"), (w.y,), tested=True, limit=3)
    assert w.graph(end, rounds)(0.0) == (3.0, 3.0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_graphs_with_loops_are_pickled_and_told_apart(name):
    for graph in (EXAMPLES[name][0], gradient(EXAMPLES[name][0])):
        args = EXAMPLES[name][2][0]
        again = checked(pickle.loads(pickle.dumps(graph)))
        assert str(again) == str(graph) and again.fingerprint() == graph.fingerprint()
        for one, other in zip(in_tuple(again(*args)), in_tuple(graph(*args)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert pendulum(8).fingerprint() != pendulum(9).fingerprint()


def test_operations_and_formulas():
    assert str(rosenbrock().operations()) == "7*n" and rosenbrock(10).operations() == 70
    assert str(newton()[0].operations()) == "8*r+1"
    assert str(nested().operations()) == "5*n**2+2*n" and nested(3).operations() == 51
    cost = sd.cost(newton()[0], 1.0, 1.0)
    assert (str(cost.value.operations), str(cost.value.by_kind["abs"])) == ("7*r+2", "r")
    assert cost.ratio == pytest.approx(20 / 7)
    x = sp.IndexedBase("x", shape=(2,))
    assert float(product(2).expr.subs({x[0]: 2, x[1]: 3}).doit()) == pytest.approx(product_plain([2, 3]))
    with pytest.raises(sd.TraceError, match="a loop of n rounds is not written out"):
        _ = rosenbrock().expr
    with pytest.raises(sd.TraceError, match="no expression"):
        _ = rosenbrock().bindings[0].expr
    assert str(rosenbrock().bindings[1].expr) == "v0.f"
    w = Writer(x=(extent("n"),))
    cells = [w.builder.bind("item", (w.x,), (), "d", place) for place in (0, extent("n") - 1)]
    assert [str(c.expr) for c in (*cells, w.builder.size(2 * extent("n") - 1))] == ["x[0]", "x[n - 1]", "2*n - 1"]
    assert str(w.head("getitem", w.x, key=((0, extent("n") - 1, 1),)).expr) == "getitem(x, ((0, n - 1, 1),))"
    graph = w.graph(w.emit("mul", *cells))
    assert graph([2.0, 5.0, 3.0]) == 6.0
    close(gradient(graph)([2.0, 5.0, 3.0]), [3.0, 0.0, 2.0])


def broken():
    """What loops must not be: (body, operands, options) and a part of the message."""
    w = Writer(x=(5,), y=(4, 2), s=())
    two = lambda k, a: a  # noqa: E731
    yield w, (two, 6, (), [(w.x, K)], (), (), 1), "rows k, k < 6, of 5"
    yield w, (two, 3, (), [(w.x, Place(2, 0))], (), [Stack(Place(3, 0), 6)]), "rows 3.k, k < 3, of 6"
    yield w, (two, 5, (), [(w.x, Place(0, 1))], (), (), 1), "rows 0.k"
    yield w, (two, 5, (), [(w.x, Place(-1, 3))], (), (), 1), "rows -k.3"
    yield w, (two, extent("n"), (), [(w.x, K)], (), (), 1), "depends on the sizes"
    yield w, (two, 4, (w.s,), (), (), (), 1), "outputs"
    yield w, (lambda k, s: s > 0, 4, (w.s,)), "is f64, and .* in the next round"
    yield w, (lambda k, s, x: s + x, 4, (w.s,), (), (w.x,)), "next round"
    yield w, (lambda k, s: (s, s), 4, (w.s,), (), (), (), 0, {"tested": True}), "truth value"


@pytest.mark.parametrize("case", list(broken()), ids=lambda case: case[2])
def test_loops_that_do_not_fit_are_refused(case):
    w, (body, rounds, *others), message = case
    options = others.pop() if isinstance(others[-1], dict) else {}
    results = w.loop(body, counted_rounds("r") if options else rounds, *others, **options)
    graph = w.builder.graph("f", (GraphOutput("f", results[0]),))
    check_graph(graph)
    with pytest.raises(InvariantError, match=message):
        check_bindings(graph)


def test_parts_and_operands_are_checked():
    graph = product(3)
    loop = graph.bindings[0]
    with pytest.raises(InvariantError, match=r"is d\(3,\), but its operands make d\(\)"):
        check_binding(Node("part", (loop,), (3,), "d", 0))
    with pytest.raises(InvariantError, match=r"rows k, k < 3, of 0"):
        check_binding(loop.on((loop.operands[0], Writer(x=()).x)))
    w = Writer()
    with pytest.raises(InvariantError, match="no argument and no loop before it tells m"):
        w.graph(w.builder.size(extent("m")))
    w = Writer(x=(extent("r"),), s=())
    options = {"begin": (w.s,), "tested": True}
    ends = w.loop(lambda k, s: (s + 1, s < 3.0), counted_rounds("r"), **options)
    with pytest.raises(InvariantError, match="two loops count r"):
        w.loop(lambda k, s: (s + 2, s < 5.0), counted_rounds("r"), **options)
    with pytest.raises(InvariantError, match="r is told by something else"):
        w.graph(ends[0])
    loop.params.body.bindings.reverse()
    with pytest.raises(InvariantError, match="before it is bound"):
        check_graph(graph)


def test_sizes_are_told_by_arguments_and_checked():
    graph = stencil()
    with pytest.raises(sd.ShapeError, match=r"u has 2 cells along an axis of n, for any n >= 3"):
        graph(np.ones(2), 0.1)
    w = Writer(x=(2 * extent("n"),), y=(extent("n") + 1,))
    graph = w.graph(w.head("concatenate", w.x, w.y, axis=0))
    assert graph.outputs[0].shape == (3 * extent("n") + 1,)
    assert graph(np.ones(4), np.zeros(3)).shape == (7,)
    with pytest.raises(sd.ShapeError, match="x has 5 cells"):
        graph(np.ones(5), np.zeros(3))
    with pytest.raises(sd.ShapeError, match=r"y has shape \(4,\), \(n\+1,\) expected"):
        graph(np.ones(4), np.zeros(4))


N, M = extent("n", 2), extent("m")


@pytest.mark.parametrize(
    ("head", "shapes", "params", "shape"),
    [
        ("sum", [(N, 3)], {"axes": (0,)}, (3,)),
        ("getitem", [(N + 1,)], {"key": ((1, N + 1, 1),)}, (N,)),
        ("getitem", [(N, 3)], {"key": ((N - 1, None, -1), (0, 3, 2))}, (N, 2)),
        ("getitem", [(2 * N,)], {"key": ((1, 2 * N, 2),)}, (N,)),
        ("reshape", [(N, 2)], {"shape": (2 * N,)}, (2 * N,)),
        ("reshape", [(N, M)], {"shape": (M, N)}, (M, N)),
        ("broadcast_to", [(N,), (M,)], {"shape": (M, N)}, (M, N)),
        ("transpose", [(N, M)], {"axes": (1, 0)}, (M, N)),
        ("concatenate", [(N,), (1,)], {"axis": 0}, (N + 1,)),
        ("put", [(N - 1,)], {"key": ((1, N, 1),), "shape": (N,)}, (N,)),
        ("matmul", [(3, N), (N, M)], {}, (3, M)),
    ],
)
def test_shapes_of_structural_operations(head, shapes, params, shape):
    w = Writer(**{f"x{k}": s for k, s in enumerate(shapes)})
    operands = [leaf.node for leaf in w.builder.inputs]
    graph = w.graph(w.head(head, *operands[: 1 if head == "broadcast_to" else None], **params))
    assert graph.outputs[0].shape == shape
    sizes = {"n": 5, "m": 3}
    given = [np.arange(np.prod([n if isinstance(n, int) else n.at(sizes) for n in s]), dtype=float).reshape(
        [n if isinstance(n, int) else n.at(sizes) for n in s]) for s in shapes]  # fmt: skip
    assert graph(*given).shape == tuple(n if isinstance(n, int) else n.at(sizes) for n in shape)


@pytest.mark.parametrize(
    ("head", "shapes", "params", "message"),
    [
        ("getitem", [(N,)], {"key": ((1, N + 1, 1),)}, "1 to n are not among n"),
        ("getitem", [(N,)], {"key": ((3, N, 1),)}, "depends on the sizes"),
        ("getitem", [(N,)], {"key": ((0, N, 2),)}, "whole number"),
        ("reshape", [(N, 2)], {"shape": (2 * N + 1,)}, "for all sizes"),
        ("matmul", [(3, N), (M, 2)], {}, "do not fit"),
        ("broadcast_to", [(N,)], {"shape": (M,)}, "do not broadcast"),
        ("inv", [(N, N)], {}, None),
        ("triangular", [(N, 3)], {}, "depends on the sizes"),
    ],
)
def test_what_cannot_be_told_for_all_sizes_is_refused(head, shapes, params, message):
    w = Writer(**{f"x{k}": s for k, s in enumerate(shapes)})
    if message is None:
        assert w.head(head, *(leaf.node for leaf in w.builder.inputs)).shape == (N, N)
        return
    with pytest.raises(sd.TraceError, match=message):
        w.head(head, *(leaf.node for leaf in w.builder.inputs), **params)


def test_elementwise_operations_on_symbols():
    w = Writer(x=(N, 3), y=(3,), z=(N + 1, 1), s=())
    assert w.emit("mul", w.x, w.y).shape == (N, 3)
    assert w.emit("add", w.x, w.s).shape == (N, 3)
    with pytest.raises(sd.TraceError, match=r"shapes \(n, 3\) and \(n\+1, 1\) do not broadcast"):
        w.emit("mul", w.x, w.z)


def test_extents():
    texts = [N, N + 1, 2 * N - 1, 3 - N, N + 2 * M - 1, -(N - 12)]
    assert [str(t) for t in texts] == ["n", "n+1", "2*n-1", "-n+3", "2*m+n-1", "-n+12"]
    assert N + 1 == 1 + N and hash(N + 1) == hash(1 + N) and N - N == 0 and N != M and N != 5 and (N + M) - M == N
    assert N > 1 and N >= 2 and not N < 1 and N + M >= N + 1 and (4 * N + 2) // 2 == 2 * N + 1
    assert pickle.loads(pickle.dumps(2 * N - 1)) == 2 * N - 1
    assert (
        broadcast_extents((N, 1), (3,)) == (N, 3)
        and cells_of_extents((N, 2)) == cells_of_extents((2 * N,))
        and sliced_extent(N, (1, N, 1)) == N - 1
    )
    for undecided in (
        lambda: N < M,
        lambda: N > 2,
        lambda: range(N),
        lambda: N * M,
        lambda: N // 2,
        lambda: float(N),
        lambda: bool(M - 1),
    ):
        with pytest.raises(sd.TraceError):
            undecided()


def test_derivatives_of_whole_arrays_of_symbols():
    w = Writer(x=(N,), a=())
    y = w.emit("mul", w.emit("sin", w.x), w.a)
    head, tail = (w.head("getitem", y, key=((k, N - 1 + k, 1),)) for k in (0, 1))
    graph = w.graph(w.head("sum", w.emit("mul", head, tail), axes=(0,)))
    plain = lambda x, a: np.sum((np.sin(x) * a)[:-1] * (np.sin(x) * a)[1:])  # noqa: E731
    d = gradient(graph)
    for n in (2, 7):
        args = np.random.default_rng(n).normal(size=n), 0.7
        close(graph(*args), plain(*args))
        for place, one in enumerate(d(*args)):
            close(one, differences(plain, args, place), 1e-6)


MAPPED = {
    "rosenbrock": rosenbrock(5),
    "stencil": stencil(7),
    "nested": nested(4),
    "gathering": gathering(),
}


@pytest.mark.parametrize("name", MAPPED)
def test_loops_without_carried_values_are_operations_on_whole_arrays(name):
    args = EXAMPLES[name][2][0]
    for graph in (MAPPED[name], gradient(MAPPED[name])):
        whole = checked(loops_as_arrays(graph))
        assert not any(b.op in ("loop", "part") for b in whole.bindings)
        fused = program_of(graph, name="f")
        kernel = kernel_of(plan_of(fused), "numpy", "f")
        for found in (whole(*args), kernel(*args)):
            for one, other in zip(in_tuple(found), in_tuple(graph(*args)), strict=True):
                close(one, other, 1e-12)
    assert any(b.op == "loop" for b in loops_as_arrays(pendulum()).bindings)  # whose rounds need each other


def in_python(graph, name="f", target="python"):
    source = source_of(plan_of(program_of(graph, name=name, loops=True)), target, name=name)
    space = {}
    exec(compile(source.text, name, "exec"), space)
    return source.text, space[source.entry]


def in_process(graph):
    return pipeline.looped_function_of(program_of(graph, name="f", loops=True))


@pytest.mark.parametrize(("name", "k"), POINTS)
def test_plain_python_of_loops_and_their_derivatives(name, k):
    graph, _, args = example(name, k)
    wrt = list(range(len(args)))
    more = [np.ones(np.shape(a)) for a in args]
    product = transforming.hessian_product(graph, wrt, default_rules())
    for one, given in ((graph, args), (gradient(graph), args), (checked(product), (*args, *more))):
        for target in ("python", "numpy"):
            text, function = in_python(one, target=target)
            assert ("for " in text or "while " in text) and ("np." in text) == (target == "numpy")
            found = in_tuple(function(*(np.asarray(a).tolist() for a in given)))
            for value, other in zip(found, in_tuple(one(*given)), strict=True):
                close(np.array(value), other)
        for value, other in zip(in_tuple(in_process(one)(*given)), in_tuple(one(*given)), strict=True):
            assert type(value) is type(other)
            close(value, other)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("target", ["python", "numpy"])
def test_random_loops_in_files_of_python(target, seed):
    source, values = random.Random(seed), np.random.default_rng(seed)
    graph = random_loop(source, source.randint(1, 5))
    args = [values.normal(size=leaf.node.shape) for leaf in graph.inputs]
    for one in (graph, gradient(graph)):
        found = in_tuple(in_python(one, target=target)[1](*args))
        for value, other in zip(found, in_tuple(one(*args)), strict=True):
            close(np.array(value), other)


NEWTON = """
def newton_grad_steps(a: float, x: float) -> float:
    \"\"\"df_da: arithmetic on numbers and lists, which hold the cells of arrays in C order.\"\"\"
    v0 = 1e-15*a
    x_ = x
    r = 0
    x_was: list[float] = []
    while abs(x_*x_ - a) > v0:
        x_was.append(x_)
        x_ = 0.5*(x_ + a/x_)
        r += 1
    x_bar = x_ + x_
    a_bar = 0.0
    for k in range(r - 1, -1, -1):
        x__ = x_was[k]
        v1 = 0.5*x_bar
        a_bar += v1/x__
        x_bar = v1 - a*v1/x__/x__
    df_da = a_bar
    return df_da
"""
ROSENBROCK = """
def rosenbrock_grad_steps(x: list[float], n: int) -> list[float]:
    \"\"\"df_dx: arithmetic on numbers and lists, which hold the cells of arrays in C order.\"\"\"
    df_dx = [0.0]*(n + 1)
    for k in range(n):
        a = x[k]
        v0 = 200.0*(x[k + 1] - a*a)
        df_dx[k] -= 2.0*(1.0 - a + a*v0)
        df_dx[k + 1] += v0
    return df_dx
"""


def test_the_text_of_loops_in_plain_python():
    for made, text in ((gradient(newton()[0], [0]), NEWTON), (gradient(rosenbrock()), ROSENBROCK)):
        name = text.partition("def ")[2].partition("_steps(")[0]
        assert in_python(made, name)[0].partition("\ndef ")[2].partition("\ndef ")[0].strip() == text.strip()[4:]


def test_programs_with_loops_are_printed_and_checked():
    program = program_of(newton()[0], loops=True)
    assert "v4 = loop k < r: x, a, same0 = v3" in str(program) and "next x = v2; while v6" in str(program)
    assert str(program.operations()) == "7*r+2"
    position = next(i for i, node in enumerate(program.nodes) if node.op == "part")
    program.nodes[position] = program.nodes[position].on(program.nodes[position].operands)
    program.nodes[position].shape = (3,)
    with pytest.raises(InvariantError, match="but the result is d"):
        check_program(program)


def test_targets_without_loops_refuse_them():
    with pytest.raises(sd.BackendError, match=r"loops whose rounds need each other.*target.*scalarize=True"):
        source_of(plan_of(program_of(pendulum(), name="pendulum")), "cupy", name="pendulum")
    with pytest.raises(sd.BackendError, match="loops whose rounds"):
        source_of(plan_of(program_of(rosenbrock(), name="rosenbrock")), "cupy", name="rosenbrock")
    with pytest.raises(sd.BackendError, match="a size that a call tells is not part of CUDA"):
        source_of(plan_of(program_of(rosenbrock(), name="rosenbrock")), "cuda", name="rosenbrock")


def test_a_ufunc_has_no_loops():
    with pytest.raises(sd.BackendError, match="loops whose rounds need each other"):
        pipeline.gufunc_of(program_of(pendulum()))


def test_plain_python_of_sizes_and_names():
    w = Writer(x=(2 * extent("n"),), y=(extent("n"), extent("m")))
    (total,) = w.loop(lambda k, a: a * k, extent("n"), rows=[(w.x, Place(2, 1))], sums=1)
    text, function = in_python(w.graph(total))
    assert "n = (len(x))//2" in text and "float(k)*x[2*k + 1]" in text
    assert function([1.0, 2.0, 3.0, 4.0], [[1.0], [2.0]]) == 4.0
    with pytest.raises(ValueError, match=r"x has 3 cells along axis 0, 2\*n expected, where n = 1 in x"):
        function([1.0, 2.0, 3.0], [[1.0], [2.0]])
    for y in ([[1.0], [2.0, 3.0]], [], [[], []]):
        with pytest.raises(ValueError, match=r"y has another shape|y has 0 cells|m = 0 in y"):
            function([1.0, 2.0, 3.0, 4.0], y)
    w = Writer(x=(extent("n") + extent("m"),), y=(extent("m"),), s=())
    (a,) = w.loop(lambda k, t, a: t + a, extent("n"), (w.s,), rows=[(w.x, Place(1, extent("m")))])
    (b,) = w.loop(lambda k, t: t * 2, 3, (w.builder.cast(w.s, "D"),))  # beginning with what is read elsewhere, too
    text, function = in_python(w.graph(w.emit("add", w.emit("mul", a, b), w.s)))
    assert function([1.0, 2.0, 3.0], [0.0], 0.5) == (0.5 + 5.0) * 4.0 + 0.5


@pytest.mark.parametrize("name", FIXED)
def test_hessians_and_many_points_at_once(name):
    args = EXAMPLES[name][2][0]
    graph = FIXED[name](args)
    wrt = list(range(len(args)))
    whole, flat = (checked(transforming.hessian(g, wrt, default_rules())) for g in (graph, scalarize(graph)))
    for one, other in zip(in_tuple(whole(*args)), in_tuple(flat(*args)), strict=True):
        close(one, other)
    many = [np.random.default_rng(3).normal(size=(3, *np.shape(a))) for a in args]
    for g in (graph, gradient(graph)):
        found = in_tuple(checked(vectorize_graph(g, [0] * len(args), 3, 0))(*many))
        each = [in_tuple(g(*(m[k] for m in many))) for k in range(3)]
        for place, one in enumerate(found):
            close(one, np.array([e[place] for e in each]))


def test_rounds_that_points_tell_each_for_itself_are_refused():
    close(checked(transforming.hessian(newton()[0], [0, 1], default_rules()))(2.0, 1.0), [0.0] * 4)  # one point's own rounds
    with pytest.raises(sd.TraceError, match="each point has rounds of its own"):
        vectorize_graph(newton()[0], [0, 0], 3, 0)


@pytest.mark.parametrize(
    ("body", "rounds", "begin", "x"),
    [
        (lambda k, s: np.where(k > 0.5, 5.0, np.sqrt(s)), 2, lambda w: w.x, 0.0),  # a later round does not take the root
        (lambda k, s: np.where(s > 0, np.log(s), 0.0), 1, lambda w: w.x, 0.0),
        (lambda k, s: np.sqrt(s) * s, 2, lambda w: w.x, 0.0),
        (lambda k, s: np.abs(s) + k, 2, lambda w: w.x, 0.0),
    ],
)
def test_branches_and_kinks_are_minded_across_rounds(body, rounds, begin, x):
    w = Writer(x=())
    graph = w.graph(*w.loop(body, rounds, (begin(w),)))
    flat = scalarize(graph)
    close(gradient(graph)(x), gradient(flat)(x))
    pushed = (transforming.push_tangents(g, [0], default_rules())(x, 1.0)[1] for g in (graph, flat))
    close(*pushed)


def test_what_does_not_count_after_a_loop_does_not_meet_what_is_infinite_in_it():
    w = Writer(x=())
    (logarithm,) = w.loop(lambda k, s: np.log(s), 1, (w.x,))
    graph = w.graph(w.emit("max", logarithm, Constant(-5.0)))
    with np.errstate(all="ignore"):
        assert gradient(graph)(0.0) == 0.0 == gradient(scalarize(graph))(0.0)
        assert transforming.push_tangents(graph, [0], default_rules())(0.0, 1.0)[1] == 0.0


def test_what_is_the_same_in_all_rounds_is_computed_before_them():
    inner = Writer(k=(), x=(9,), a=(9, 9), b=(20,))
    product = inner.head("sum", inner.emit("mul", inner.x, inner.head("transpose", inner.a, axes=(1, 0))), axes=(1,))
    picked = inner.head("gather", inner.emit("mul", inner.b, Constant(2.0)), inner.k)  # a cell in each round
    total = inner.emit("add", inner.head("sum", inner.b, axes=(0,)), picked)
    body = inner.graph(inner.emit("add", product, total), inner.emit("lt", inner.k, Constant(5.0)), name="body")
    w = Writer(x=(9,), a=(9, 9), b=(20,))
    graph = w.graph(w.loop(body, counted_rounds("r"), (w.x,), others=(w.a, w.b), tested=True)[0])
    lifted = checked(lift_invariants(graph))
    assert [b.op for b in lifted.bindings] == ["transpose", "sum", "loop", "part"]
    assert "mul" in {b.op for b in lifted.bindings[2].params.body.bindings}
    args = [np.random.default_rng(7).normal(size=shape) / 9 for shape in ((9,), (9, 9), (20,))]
    np.testing.assert_array_equal(lifted(*args), graph(*args))

"""Loops, extents that are symbols, and bindings of several results, built by hand: nothing traces loops yet."""

import copy
import pickle
import random

import numpy as np
import pytest
from inside import (
    ArrayConstant,
    Arrays,
    Builder,
    Constant,
    GraphOutput,
    Loop,
    Place,
    Stack,
    Static,
    check_bindings,
    check_graph,
    counted,
    default_rules,
    extent,
    scalarize,
    transforming,
)

import symdiff as sd

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
    return checked(transforming.gradient(graph, wrt, default_rules(), False)[0])


def first(graph, place=0):
    """The graph of one output, summed."""
    builder = Builder()
    builder.inputs, builder.bindings, builder._count = list(graph.inputs), list(graph.bindings), 10_000
    atom = graph.outputs[place].atom
    for _ in atom.shape:
        atom = builder.bind("sum", (atom,), atom.shape[1:], atom.dtype, Static("sum", {"axes": (0,)}))
    return builder.graph(graph.name, (GraphOutput("f", atom),))


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
        lambda k, x, a: (0.5 * (x + a / x), abs(x * x - a) > 1e-15 * a), counted("r"), begin=(w.x,), others=(w.a,), tested=True
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
    (line,) = inner.loop(lambda j, b, a, c: np.exp(-c * (a - b) ** 2), n, rows=[(inner.x, K)], others=(inner.a, inner.c), sums=1)
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
        counted("m"), (w.y, Constant(0.0)), (), (w.e,), [Stack(K, counted("m"))], 1, tested=True, limit=50,
    )  # fmt: skip
    (cubes,) = w.loop(lambda k, a: a**3, counted("m"), rows=[(ys, K)], sums=1)
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
    return w.graph(*w.loop(body, 3, rows=[(ArrayConstant(np.array([4.0, 0.0, 4.0])), K), (w.x, Place(-2, n - 1))], others=(w.x,), sums=1))


def gathering_plain(x):
    return sum(np.sum(x[i] * x[len(x) - 1 - 2 * k] ** 2) for k, i in enumerate([4, 0, 4]))


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
    pushed = checked(transforming.pushforward(graph, wrt, default_rules()))
    close(pushed(*args, *dots)[1], sum(np.sum(a * b) for a, b in zip(bars, dots, strict=True)))
    # H v: forward over reverse, the pullback of the gradient, and differences of the gradient along v
    hvp = in_tuple(checked(transforming.hessian_product(graph, wrt, default_rules()))(*args, *dots))
    back = checked(transforming.pullback(checked(transforming.gradient(graph, wrt, default_rules(), False)[0]), wrt, default_rules()))
    for one, other in zip(hvp, back(*args, *dots)[len(wrt) :], strict=True):
        close(one, other)
    if name != "newton":  # whose rounds change with the arguments
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

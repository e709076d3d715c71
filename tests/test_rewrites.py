"""What the sweeps rewrite first keeps shapes, values and size: sums of exponentials in every shape, loops of many rounds."""

import numpy as np
import pytest
from inside import Node, binding_with, building, check_binding, monomials, pipeline

import symdiff as sd
from symdiff.errors import InvariantError

exp, log = np.exp, np.log
ROW = np.linspace(1, 2, 3)

SHAPES = {
    "a share by a new axis": lambda p: exp(p)[:, None] / (exp(p)[:, None] + ROW),
    "a share by reshape": lambda p: exp(p).reshape(-1, 1) / (ROW + exp(p).reshape(-1, 1)),
    "a logarithm by a new axis": lambda p: log(exp(p)[:, None] + ROW),
    "two axes": lambda p: log(exp(p)[:, None] + exp(p)[None]),
    "a sum along an axis": lambda p: log(np.sum(exp(p)[:, None] * ROW, axis=1) + exp(p)),
    "a sum of sums": lambda p: log(np.sum(exp(p)[:, None] + exp(2 * p), axis=0, keepdims=True) + exp(p)[:, None]),
    "a transposed share": lambda p: (exp(p)[:, None] * ROW).T / (exp(p) + (exp(p)[:, None] + ROW).T),
    "a moved sum": lambda p: log((exp(p) + 1)[:, None] + exp(p)),
    "a repeated sum": lambda p: log(np.broadcast_to(exp(p) + exp(-p), (2, p.size)) + exp(p)),
    "a slice": lambda p: log((exp(p) + exp(2 * p))[1:] + exp(p)[:-1]),
    "a power": lambda p: log((exp(p)[:, None] + ROW) ** 2 + exp(p)[:, None]),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("n", [4, 300])
def test_sums_of_exponentials_keep_their_shapes(name, n):
    p = np.linspace(0.1, 0.5, n)

    def f(p):
        return np.sum(SHAPES[name](p) ** 2)

    places = (0, n // 2, n - 1)
    found = sd.grad(f, scalarize=False)(p)
    stepped = [np.imag(f(p + 1e-30j * (np.arange(n) == k))) / 1e-30 for k in places]
    assert found[list(places)] == pytest.approx(stepped, rel=1e-10)


@pytest.mark.parametrize("name", SHAPES)
def test_moved_exponentials_may_overflow(name):
    p = np.array([800.0, 800.5, 801.0, 801.5])
    if "two axes" not in name and "sum of sums" not in name and "repeated" not in name:
        assert np.all(np.isfinite(sd.jacobian(SHAPES[name], scalarize=False)(p)))


def newton(f, slope):
    def rounds(n):
        def run(x):
            for _ in range(n):
                x = x - f(x) / slope(x)
            return x

        return run

    return rounds


def fixed(f):
    def rounds(n):
        def run(x):
            y = x
            for _ in range(n):
                y = f(y, x)
            return y

        return run

    return rounds


def secant(f):
    def rounds(n):
        def run(x):
            a, b = x, x + 0.5
            for _ in range(n):
                a, b = b, b - f(b) * (b - a) / (f(b) - f(a))
            return b

        return run

    return rounds


def cumulative(n):
    def run(x):
        total, value = 0.0, 0.0
        for k in range(n):
            total = total + exp(x * k)
            value = value + log(total) + exp(x) / total
        return value

    return run


LOOPS = {
    "newton exp": newton(lambda x: exp(x) - 2 - x * x, lambda x: exp(x) - 2 * x),
    "newton cosh": newton(lambda x: np.cosh(x) - 3 * x, lambda x: np.sinh(x) - 3),
    "newton x log": newton(lambda x: x * log(x) - 2, lambda x: 1 + log(x)),
    "newton x sqrt": newton(lambda x: x * np.sqrt(x) - 2, lambda x: 1.5 * np.sqrt(x)),
    "newton tanh": newton(lambda x: np.tanh(x) + x - 2, lambda x: 2 - np.tanh(x) ** 2),
    "newton pow": newton(lambda x: x**0.3 + x - 2, lambda x: 0.3 * x**-0.7 + 1),
    "newton abs": newton(lambda x: abs(x) * x - 2, lambda x: 2 * abs(x)),
    "newton softplus": newton(lambda x: log(1 + exp(x)) - 1, lambda x: exp(x) / (1 + exp(x))),
    "secant exp": secant(lambda x: exp(x) - 2 - x * x),
    "secant sqrt": secant(lambda x: x * np.sqrt(x) - 2),
    "logarithms of sums": fixed(lambda y, x: log(exp(y) + exp(x))),
    "products of exponentials": fixed(lambda y, x: exp(y) * exp(x) / (exp(y) * y + exp(x))),
    "products of absolute values": fixed(lambda y, x: abs(y) * abs(x) - abs(y * y - x)),
    "roots and branches": fixed(lambda y, x: np.where(y > x, np.sqrt(y), y * y + log(x * y))),
    "cumulative sums": cumulative,
}


@pytest.mark.parametrize("name", LOOPS)
def test_rounds_of_a_loop_cost_the_same(name):
    def bindings(n, order):
        return len(sd.derivative(LOOPS[name](n), order=order).graph(1.3).bindings)

    for order, rounds in ((1, (10, 20, 40)), (2, (5, 10, 20))):
        first, second, third = (bindings(n, order) for n in rounds)
        assert third - second <= 2.2 * (second - first), (first, second, third)


def test_second_derivatives_by_many_absolute_values_stay_small():
    def f(x):
        for k in range(7):
            x = x * abs(x - k) + abs(x) * x
        return x

    counts = [len(sd.derivative(f, order=order).graph(1.3).bindings) for order in (2, 3)]
    assert counts[0] < 1000 and counts[1] < 4000


def test_bindings_of_another_shape_or_dtype_are_refused():
    x, row = Node("input", (), (3, 1), "d", name="x"), Node("input", (), (4,), "d", name="row")

    def product(shape, code="d"):
        return Node("mul", (x, row), shape, code, None, "f.py:1", True, "y")

    good = product((3, 4))
    check_binding(good)
    for wrong in (product((3, 1)), product((3, 4), "f"), product(())):
        with pytest.raises(InvariantError, match=r"f.py:1: y = mul x row: is .*, but its operands make d\(3, 4\)"):
            check_binding(wrong)
    with pytest.raises(InvariantError, match="cast row"):
        binding_with(good, "cast", (row,))


def euler(n):
    def run(x):
        y = x
        for _ in range(n):
            y = y + 0.001 * (y * (1 - y) * x)
        return y

    return run


def test_sums_of_a_loop_are_linear_in_its_length():
    def terms(n):
        program = pipeline.program_of(sd.derivative(euler(n), loops="unroll").graph(0.3))
        return sum(len(a.sum.terms) for a in monomials.program_polynomial(program, False).atoms if a.sum is not None)

    assert terms(200) < 2.1 * terms(100)


def test_graphs_beyond_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr(building, "memory_for_bindings", lambda: 1e8)
    with pytest.raises(
        sd.SymdiffError, match=r"test_rewrites.py:\d+: more than 65536 operations, which need about 0.2 GB of 0.1 GB"
    ):
        sd.trace(euler(20_000), 0.3)

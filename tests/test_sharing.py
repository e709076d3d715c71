"""Sharing: fewer operations, the same values, time and size in proportion."""

import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import (
    Builder,
    Constant,
    Input,
    Node,
    Options,
    Output,
    Program,
    check_program,
    number,
    point_function,
    program_of,
    scalarize,
    share,
)  # fmt: skip

import symdiff as sd
from symdiff.errors import InvariantError


def operations(f, *args):
    return sd.grad(f).program(*args).operations()


def test_a_root_away_from_zero_needs_no_guard():
    for f in (lambda x: np.sqrt(x * x + 1), lambda x: np.sqrt(np.abs(x) + 0.1), lambda x: (np.cosh(x)) ** 0.5):
        assert "select" not in sd.grad(f).program(0.3).by_kind()
    assert sd.grad(lambda x: np.sqrt(np.exp(x))).program(0.3).operations() == 3
    assert sd.grad(lambda x: np.sqrt(np.exp(x)))(-800.0) == 0.0, "exp(x) can underflow to zero"
    assert operations(lambda x: np.sqrt(x * x + 1.0), 0.3) == 2, "x/hypot(x, 1)"


@pytest.mark.parametrize(
    ("f", "point"),
    [
        (lambda x: (1.5 * x) ** 3, 0.7),
        (lambda x: (-x) ** 5, 0.7),
        (lambda x: 3.0 / x**2, 0.7),
        (lambda x: (2 * x[0] * x[1]) ** 4, np.ones(2)),
    ],
)
def test_powers_of_products_are_multiplied_out(f, point):
    assert "pow" not in sd.value_and_grad(f).program(point).by_kind()


def test_a_divisor_of_several_products_is_inverted_once():
    program = sd.jacobian(lambda x: np.array([x[0] * x[1] / x[2], x[1] * x[3] / x[2]])).program(np.ones(4))
    assert program.by_kind()["div"] <= 3


def test_quotients_of_which_nothing_is_left():
    f = sd.value_and_grad(lambda x: statistics.harmonic_mean([np.linalg.cholesky(np.array([[2.0, x], [x, 9.0]]))[1, 1], 1.0]))
    value, slope = f(1.5)
    root = (9.0 - 1.5**2 / 2) ** 0.5
    assert value == pytest.approx(2 / (1 / root + 1)) and slope == pytest.approx(2 / (1 + root) ** 2 * -1.5 / (2 * root))


@pytest.mark.parametrize("n", [200, 400, 800])
def test_size_grows_in_proportion(n):
    def nested(x):
        s = x[0]
        for v in x[1:]:
            s = (s + v) * (s - v)
        return s

    assert sd.value_and_grad(nested, loops="unroll").program(np.ones(n)).operations() <= 7 * n


STEPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b * 0.5,
    "/": lambda a, b: a / (b * b + 1.0),
    "^": lambda a, b: (0.5 * a) ** 3,
    "n": lambda a, b: -a,
}


@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=25),
    st.integers(0, 2**31), st.booleans(),
)  # fmt: skip
@settings(max_examples=150)
def test_sharing_keeps_values(steps, seed, fast):
    def f(x):
        values = [x[0], x[1], x[2], 3.0, -0.5]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(STEPS[kind](a, b))
        return values[-1] * values[-2] + values[-3]

    x = np.random.default_rng(seed).uniform(-1, 1, 3)
    graph = sd.value_and_grad(f).graph(x)
    plain = number(scalarize(graph))
    program = program_of(graph, Options(fastmath=fast))
    assert program.operations() <= share(plain).operations() + (0 if not fast else 100)
    value, gradient = sd.value_and_grad(f, fastmath=fast)(x)
    expected, slopes = graph(x)
    scale = 1 + abs(expected) + np.max(np.abs(slopes))
    np.testing.assert_allclose(value, expected, atol=1e-12 * scale, rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes, atol=1e-11 * scale, rtol=1e-11)


def test_a_sum_behind_a_shared_sign_is_shared_itself():
    def f(x):
        double = x[0] + x[0]
        negative = -double
        return negative * (x[0] - x[1]) + 0.5 * x[0] * x[1]

    x = np.array([0.3, 0.7])
    value, gradient = sd.value_and_grad(f, fastmath=True)(x)
    np.testing.assert_allclose(value, f(x), rtol=1e-14)
    np.testing.assert_allclose(gradient, [-4 * x[0] + 2.5 * x[1], 2.5 * x[0]], rtol=1e-14)


@pytest.mark.parametrize(
    "f, shape",
    [
        (lambda x: np.sin(np.sum(np.fft.irfft(x, n=4))), (3,)),
        (lambda x: np.sum(np.ldexp(np.fft.hfft(x, n=4, axis=0)[..., None], np.array([1, 2, 3]))), (3, 4)),
        (lambda x: np.sum(np.fft.ifft(x).real) * np.exp(np.sum(np.fft.fft(x).imag)), (4,)),
        (lambda x: np.cos(np.sum(np.fft.irfft2(x))), (3, 2)),
        (lambda x: np.sum(np.sin(np.fft.irfft(np.fft.fft(x * x).real, n=6)) * np.fft.irfft(np.fft.fft(x * x).real, n=6)), (4,)),
    ],
)
def test_complex_terms_that_cancel_leave_a_real_cell(f, shape):
    x = np.random.default_rng(0).normal(size=shape)
    memory = np.full(x.size + 24, 7.0)
    found = sd.grad(f, scalarize=True)(x, out=memory[: x.size].reshape(shape))
    assert (memory[x.size :] == 7.0).all()
    steps = [np.eye(x.size)[k].reshape(shape) * 1e-6 for k in range(x.size)]
    np.testing.assert_allclose(found.ravel(), [(f(x + s) - f(x - s)) / 2e-6 for s in steps], atol=1e-8)


def test_a_complex_value_is_stored_nowhere_as_a_real_one():
    b = Builder()
    z = b.input("z", (), "D")
    for made in (lambda: b.array([z], (1,), "d"), lambda: b.cast(z, "d"), lambda: b.cast(Constant(1j), "d")):
        with pytest.raises(InvariantError, match="complex value"):
            made()
    z, square = Node("input", (), (), "D", (0, 0)), Node("mul", (0, 0), (), "d")
    for cell in (0, 1):
        program = Program("f", (Input("z", (), "D"),), (Output("f", (), "d", (cell,)),), [z, square])
        for stage in (check_program, lambda p: point_function(p, "f")):
            with pytest.raises(InvariantError, match=r"complex value|2 parts|operands make D"):
                stage(program)


@pytest.mark.parametrize("c", [0.5, -3.0, 0.1])
@pytest.mark.parametrize("power", [2, 3, 4])
@pytest.mark.parametrize("backend", ["auto", "numpy", "python"])
def test_a_negated_power_of_a_constant_keeps_its_sign(c, power, backend):
    def f(x):
        return np.exp(-(np.array([c, x[0]]) ** power) / 9)

    def g(x):
        return -(np.array([c, x[1]]) ** power) + x

    x = np.array([0.5, 0.1])
    for h in (f, g):
        np.testing.assert_allclose(sd.jvp(h, backend=backend)(x, x)[0], h(x), rtol=1e-14)

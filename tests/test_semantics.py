"""What a derivative means: kinks, branches, complex numbers, constants, nesting, compensated sums, random programs."""

import os
import subprocess
import sys
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import symdiff as sd

KINKS = [
    (np.abs, 0.0, 0.0),
    (lambda x: np.maximum(x, 0), 0.0, 0.5),
    (lambda x: np.where(x > 0, x, 0), 0.0, 0.0),
    (lambda x: np.clip(x, 0, 1), 0.0, 0.5),
    (lambda x: np.sqrt(x * x), 0.0, 0.0),
    (lambda x: (x**2) ** 0.5, 0.0, 0.0),
    (lambda x: np.sqrt(x * x * 3), 0.0, 0.0),
    (np.sqrt, 0.0, np.inf),
    (np.sign, 0.3, 0.0),
    (np.floor, 0.3, 0.0),
    (lambda x: np.where(x > 0, np.sqrt(x), 0.0), -1.0, 0.0),
    (lambda x: np.where(x > 0, np.log(x), x), -1.0, 1.0),
    (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), 0.0, 0.0),
    (lambda x: np.where(x > 0, x * np.log(x), 0.0), 0.0, 0.0),
    (lambda x: np.where(x < 1, np.exp(x), 1.0), 1000.0, 0.0),
    (lambda x: x**0, 0.0, 0.0),
    (lambda x: x**2.0, 0.0, 0.0),
    (np.sinc, 0.0, 0.0),
]


@pytest.mark.parametrize(("f", "x", "slope"), KINKS)
@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_kinks(f, x, slope, backend):
    assert sd.grad(f, backend=backend)(x) == slope


def test_kinks_of_norms():
    zero = np.zeros(3)
    for f in (lambda x: np.sqrt(x @ x), np.linalg.norm, lambda x: np.sqrt(np.sum(x**2)), lambda x: np.hypot(x[0], x[1])):
        np.testing.assert_array_equal(sd.grad(f)(zero), zero)
    x = np.array([3.0, 4.0, 0.0])
    np.testing.assert_allclose(sd.grad(np.linalg.norm)(x), x / 5)


def test_reductions_to_an_extreme_share_ties():
    x = np.array([1.0, 3.0, 3.0, 2.0, 3.0])
    third = np.array([0, 1, 1, 0, 1]) / 3
    for f in (np.max, lambda x: x.max(), np.maximum.reduce, lambda x: np.linalg.norm(x, np.inf), lambda x: -np.min(-x)):
        np.testing.assert_allclose(sd.grad(lambda x, f=f: f(x))(x), third)
    assert sd.jvp(lambda x: np.max(x))(x, np.arange(5.0)) == (3.0, pytest.approx(7 / 3))
    a = np.array([[1.0, 5.0], [5.0, 2.0], [5.0, 0.0]])
    jacobian = sd.jacobian(lambda a: np.max(a, axis=0, keepdims=True))(a)
    assert jacobian.shape == (1, 2, 3, 2)
    np.testing.assert_allclose(jacobian[0, 0], [[0, 0], [0.5, 0], [0.5, 0]])
    np.testing.assert_allclose(jacobian[0, 1], [[0, 1], [0, 0], [0, 0]])
    value, gradient = sd.value_and_grad(lambda x: np.max(x))(np.array([1.0, np.nan]))
    assert np.isnan(value) and np.isnan(gradient).all()
    with pytest.raises(sd.TraceError, match="zero-size"):
        sd.grad(lambda x: np.max(x))(np.empty(0))


def test_forward_mode_agrees_at_kinks():
    for f, x, slope in KINKS:
        if np.isfinite(slope):
            assert sd.jvp(f)(x, 1.0)[1] == slope


def test_nested_derivatives_do_not_confuse_their_variables():
    assert sd.grad(lambda x: x * sd.grad(lambda y: x + y)(1.0))(3.0) == 1.0
    assert sd.grad(lambda x: sd.grad(lambda y: x * y * y)(x))(3.0) == 12.0
    assert sd.grad(sd.grad(sd.grad(lambda x: x**4)))(2.0) == 48.0
    assert sd.derivative(lambda x: x**4, order=3)(2.0) == 48.0


def test_transforms_nest_in_any_order():
    def f(x):
        return np.sin(x[0]) * x[1] ** 3

    x, v = np.array([0.3, 0.7]), np.array([0.2, -0.5])
    expected = np.array([[-np.sin(0.3) * 0.7**3, np.cos(0.3) * 3 * 0.49], [np.cos(0.3) * 3 * 0.49, np.sin(0.3) * 6 * 0.7]])
    hessian = sd.hessian(f)(x)
    np.testing.assert_allclose(hessian, expected)
    for other in (sd.jacobian(sd.grad(f)), sd.jacobian(sd.grad(f), mode="forward"), sd.jacobian(sd.jacobian(f))):
        np.testing.assert_allclose(other(x), expected)
    np.testing.assert_allclose(sd.hvp(f)(x, v), expected @ v)
    np.testing.assert_allclose(sd.jvp(sd.grad(f))(x, v)[1], expected @ v)
    np.testing.assert_allclose(sd.vjp(sd.grad(f))(x, v)[1], expected @ v)
    np.testing.assert_allclose(sd.grad(lambda x: sd.grad(f)(x) @ v)(x), expected @ v)
    points = np.stack([x, x + 1])
    np.testing.assert_allclose(sd.vmap(sd.hessian(f))(points)[0], expected)
    np.testing.assert_allclose(sd.jacobian(lambda p: sd.vmap(f)(p))(points)[0, 0], sd.grad(f)(x))


def test_complex_heads():
    z = 0.6 - 0.8j
    for f, slope in (
        (lambda z: z**3, 3 * z**2),
        (np.exp, np.exp(z)),
        (np.sin, np.cos(z)),
        (lambda z: 1 / z, -1 / z**2),
        (np.log, 1 / z),
        (np.sqrt, 0.5 / np.sqrt(z)),
    ):
        assert sd.grad(f)(z) == pytest.approx(slope)
    for f in (np.abs, np.conj, np.real, np.imag, np.angle, lambda z: z * np.conj(z)):
        with pytest.raises(sd.NonHolomorphicError, match=r"test_semantics.py:\d+"):
            sd.grad(f)(z)
    dz, dzbar = sd.wirtinger(lambda z: z * np.conj(z) + np.imag(z))(z)
    assert (dz, dzbar) == (pytest.approx(np.conj(z) - 0.5j), pytest.approx(z + 0.5j))
    assert sd.grad(lambda z: np.where(np.abs(z) > 0.5, z**2, z))(z) == pytest.approx(2 * z)


@given(st.floats(-2, 2), st.floats(-2, 2))
@settings(max_examples=30)
def test_wirtinger_agrees_with_real_pairs(x, y):
    def f(z):
        return np.abs(z**2 + 1j) ** 2 * np.real(z) + np.imag(z * z)

    dz, dzbar = WIRTINGER(f)(complex(x, y))
    dx, dy = PAIR(lambda a, b: f(a + 1j * b))(x, y)
    assert dx == pytest.approx((dz + dzbar).real, abs=1e-9)
    assert dy == pytest.approx((1j * (dz - dzbar)).real, abs=1e-9)


WIRTINGER = sd.wirtinger


def PAIR(f):
    return sd.grad(f, argnums=(0, 1))


def kahan(values):
    total = carry = 0.0
    for v in values:
        y = v - carry
        t = total + y
        carry = (t - total) - y
        total = t
    return total


def test_compensated_sum_survives():
    rng = np.random.default_rng(0)
    compiled = sd.value_and_grad(kahan)
    for _ in range(200):
        values = rng.standard_normal(20) * 10.0 ** rng.integers(-8, 8, 20)
        assert compiled(values)[0] == kahan(values)


SUMS = [
    lambda x, y: sum([x, y, 0.1, 0.2, x * 0.3]),
    lambda x, y: sum([1e16, x, x, y, -1e16]),
    lambda x, y: sum([x, 1, y, True, 0.1, 10**17, y], 0.7),
    lambda x, y: sum([0.1, 0.2, 0.3, x], y),
    lambda x, y: sum([np.float64(0.1), x, y, 0.2]),
    lambda x, y: sum([Fraction(1, 10), x, 0.2, 0.3, y]),
    lambda x, y: sum([x, y, x * y], True),
    lambda x, y: sum([x, 1e308, 1e308, -1e308, y]),
    lambda x, y: sum([-0.0, x * 0.0, y * -0.0], -0.0),
    lambda x, y: sum([x * 1e16, 0.1 + 0.2j, y, 0.3, 2, x * (0.1 + 0.3j), 0.7]),
    lambda x, y: sum([x * 1e16j, np.float64(0.3), 3, y * (0.1 - 1e15j), 0.1, np.complex128(0.3j), 0.2, x]),
]


@pytest.mark.parametrize("kind", [float, np.float64])
@pytest.mark.parametrize("place", range(len(SUMS)))
def test_sum_is_the_running_pythons_to_the_bit(place, kind):
    f = SUMS[place]
    rng = np.random.default_rng(place)
    traced = sd.trace(f, kind(0.3), kind(0.7))
    for x, y in rng.uniform(-1, 1, (40, 2)) * 10.0 ** rng.integers(-3, 3, (40, 2)):
        with np.errstate(over="ignore"):
            plain = f(kind(x), kind(y))
        assert np.array(traced(x, y), complex).tobytes() == np.array(plain, complex).tobytes()


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_sums_have_the_slopes_of_their_terms(backend):
    for f, slopes in zip(SUMS, [(1.3, 1.0), (2.0, 1.0), (1.0, 2.0), (1.0, 1.0)], strict=False):
        value, found = sd.value_and_grad(f, argnums=(0, 1), exact=True, backend=backend)(0.3, 0.7)
        assert value == f(0.3, 0.7)
        np.testing.assert_allclose(found, slopes, rtol=1e-15)
    df = sd.grad(lambda x: sum([x * (0.1 + 0.2j), 1e3j, x * x * 1j, 0.25, x]).imag, backend=backend)
    np.testing.assert_allclose(df(0.3), 0.8, rtol=1e-14)


def test_constants_are_never_differentiated():
    program = sd.grad(lambda x: x**2.0 + np.exp(3.0)).program(1.0)
    assert program.by_kind() == {"mul": 1}


def test_constants_keep_their_bits():
    assert np.signbit(sd.trace(lambda x: np.copysign(x, -0.0), 1.0)(1.0))
    assert np.signbit(sd.grad(lambda x: np.copysign(x, -0.0), backend="numpy")(1.0))
    assert sd.vmap(lambda x: x * 0.1 + 0.2)(np.ones(1))[0] == 0.1 + 0.2


def test_exact_keeps_operations():
    def f(x):
        return (x + 0.1) + 0.2 + x**3

    assert sd.vmap(f, exact=True).inner.program(0.3).by_kind() == {"add": 3, "pow": 1}


# Random programs: traced equals called, generated equals the tree walk, derivative agrees with central differences.

SMOOTH = [np.sin, np.cos, np.tanh, np.exp, lambda x: x * x, lambda x: 1 / (2 + x * x), lambda x: np.log(1 + x * x)]
BINARY = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a * 0.5 - b * b]


@st.composite
def programs(draw):
    steps = draw(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=12))

    def f(x):
        values = [x[0], x[1], x[2], 1.5]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            if kind < len(SMOOTH):
                values.append(SMOOTH[kind](np.tanh(a)))
            else:
                values.append(BINARY[kind % len(BINARY)](np.tanh(a), b))
        return values[-1] + values[-2] * values[0]

    return f


@given(programs(), st.integers(0, 2**31))
@settings(max_examples=60)
def test_random_programs(f, seed):
    x = np.random.default_rng(seed).uniform(-1, 1, 3)
    graph = sd.trace(f, x)
    assert graph(x) == pytest.approx(f(x), rel=1e-13, abs=1e-13)
    both = sd.value_and_grad(f)
    derived = both.graph(x)
    walked = derived(x)
    for backend in ("python", "numpy"):
        value, gradient = sd.value_and_grad(f, backend=backend)(x)
        assert value == pytest.approx(f(x), rel=1e-12, abs=1e-12)
        np.testing.assert_allclose(gradient, walked[1], rtol=1e-10, atol=1e-11)
    many = sd.vmap(both)(np.stack([x, x]))
    np.testing.assert_allclose(many[1][1], walked[1], rtol=1e-10, atol=1e-11)
    step = 1e-6
    numeric = [(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(walked[1], numeric, rtol=1e-5, atol=1e-6)
    assert both.program(x).operations() <= derived.operations() + 1000


def test_same_bytes_under_three_hash_seeds():
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); import numpy as np, symdiff as sd, problems as p;"
        "x = np.ones(8);"
        "print(sd.value_and_grad(p.cubic).source(x), sd.jacobian(p.heart_real).source(x, target='python'),"
        "sd.vmap(sd.grad(p.rosenbrock)).source(np.ones((3, 6))), sd.grad(p.cubic).graph(x))"
    )
    texts = set()
    for seed in ("0", "1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            cwd=os.path.dirname(os.path.dirname(os.path.abspath(__file__))), check=True,
        )  # fmt: skip
        texts.add(run.stdout)
    assert len(texts) == 1 and len(texts.pop()) > 1000


@pytest.mark.parametrize("number", [float, np.float64])
def test_sums_are_those_of_the_running_python(number):
    for f in (
        lambda x: sum([1e16, x, -1e16]) * x, lambda x: sum((x, 1e16, -1e16), 1), lambda x: sum([1, 2, x]), lambda x: sum([x]),
        lambda x: sum(x * k for k in range(3)), lambda x: sum([], x), lambda x: sum([1e16, np.float64(1.0) * x, -1e16]),
    ):  # fmt: skip
        x = number(3.0)
        assert sd.value_and_grad(f)(x)[0] == f(x)

"""Problems with known answers: values, derivatives, and counted operations."""

import sys
from pathlib import Path

import numpy as np
import pytest

import symdiff as sd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import problems as p
from benchmarks.cases import JACOBIAN, cases

ONE_TO = {n: np.arange(1.0, n + 1) for n in (8, 10)}


def test_cubic_real():
    value, gradient = sd.value_and_grad(p.cubic)(ONE_TO[8])
    assert value == pytest.approx(-2197.2342523, rel=1e-14)
    np.testing.assert_allclose(gradient, [936, 182, -352, -610, 132, -780, -984, 540])
    assert sd.value_and_grad(p.cubic)(ONE_TO[8] / 10)[0] == pytest.approx(-1.4538523)


def test_cubic_complex():
    z = np.array([1 + 1j, 2 - 1j, 0.5j, -1 + 0.25j, 0.3, 0.7 - 0.2j, -0.4j, 1.1])
    value, gradient = sd.value_and_grad(p.cubic)(z)
    assert value == pytest.approx(0.6827477 + 1.46375j)
    assert gradient.dtype == np.complex128
    h = 1e-6
    for i in range(8):
        e = np.zeros(8)
        e[i] = h
        assert gradient[i] == pytest.approx((p.cubic(z + e) - p.cubic(z - e)) / (2 * h), abs=1e-7)


def test_heart_real_and_complex_agree_by_cauchy_riemann():
    a, b, c, d, t, u, v, w = point = np.linspace(-0.7, 0.9, 8)
    real = sd.jacobian(p.heart_real)(point)
    holomorphic = sd.jacobian(p.heart_complex)(np.array([a + 1j * c, b + 1j * d, t + 1j * v, u + 1j * w]))
    assert real.shape == (8, 8) and holomorphic.shape == (4, 4)
    columns = [(0, 2), (1, 3), (4, 6), (5, 7)]
    for k in range(4):
        for j, (re, im) in enumerate(columns):
            value = holomorphic[k, j]
            block = real[np.ix_([2 * k, 2 * k + 1], [re, im])]
            np.testing.assert_allclose(block, [[value.real, -value.imag], [value.imag, value.real]], atol=1e-12)


def test_factored():
    value, gradient = sd.value_and_grad(p.factored)(np.array([0.1, 0.2, 0.3, 0.4]))
    assert value == pytest.approx(107.7021)
    np.testing.assert_allclose(gradient, [137.148, 411.444, 274.296, 685.74])


def test_f10():
    value, gradient = sd.value_and_grad(p.f10)(ONE_TO[10])
    assert value == 1694064
    np.testing.assert_allclose(gradient, [34920, 42912, 49608, 59112, 65808, 73800, 97344, 104040, 112032, 128232])


def test_rosenbrock():
    x = np.arange(1, 6) / 5
    value, gradient = sd.value_and_grad(p.rosenbrock)(x)
    assert value == pytest.approx(65.84)
    np.testing.assert_allclose(gradient, [-30.4, 0.4, -18.4, -27.6, 72])
    x = np.arange(1, 1001) / 1000
    value, gradient = sd.value_and_grad(p.rosenbrock)(x)
    assert value == pytest.approx(3699.60003333)
    assert gradient.sum() == pytest.approx(-999)
    assert gradient @ gradient == pytest.approx(178475.576805)


def test_rosenbrock_hessian():
    x = np.arange(1, 201) / 200
    hessian = sd.hessian(p.rosenbrock)
    matrix = hessian(x)
    assert np.trace(matrix) == pytest.approx(79401)
    assert matrix.sum() == pytest.approx(-199)
    output = hessian.program(x).outputs[0]
    nodes = hessian.program(x).nodes
    assert sum(nodes[c].op != "const" or nodes[c].params != 0 for c in output.cells) == 598


def test_chebyshev():
    assert sd.trace(p.chebyshev, 0.3)(0.3) == pytest.approx(0.9955225088)
    assert sd.trace(p.chebyshev, 0.3, 20)(0.3) == pytest.approx(0.9821301311)
    assert sd.derivative(p.chebyshev)(0.3, 20) == pytest.approx(3.9458090536)


def test_complex_coefficients():
    value, derivative = sd.value_and_grad(p.complex_polynomial)(0.7)
    assert value == pytest.approx(0.693 + 1.986j)
    assert derivative == pytest.approx(1.97 + 1.94j)
    assert derivative.dtype == np.complex128


def test_real_through_complex():
    value, derivative = sd.value_and_grad(p.real_through_complex)(0.7)
    assert value == pytest.approx(2.5607790620, abs=1e-9)
    assert derivative == pytest.approx(2.0277796124, abs=1e-9)
    assert derivative.dtype == np.float64


def counts(f, *args, argnums=0):
    gradient = sd.grad(f, argnums).program(*args).operations()
    both = sd.value_and_grad(f, argnums).program(*args).operations()
    return gradient, both


def test_operation_counts():
    gradient, both = counts(p.cubic, ONE_TO[8])
    assert gradient <= 34 and both <= 42
    gradient, both = counts(p.factored, np.ones(4))
    assert gradient <= 13 and both <= 15
    assert counts(p.rosenbrock, ONE_TO[10])[1] <= 107
    for n in (3, 8, 20):
        assert counts(p.product, np.ones(n))[1] == 3 * n - 5


def test_no_derivative_of_a_problem_asks_what_is_finite():
    for case in cases(True):
        if case.kind in ("point", "unrolled") and case.n <= 20:
            transform = sd.jacobian if case.asks == JACOBIAN else sd.value_and_grad
            assert not transform(case.f(), case.wrt).program(*case.args).by_kind().keys() & {"isfinite", "isinf"}


def test_transcendental_functions_are_computed_once():
    program = sd.value_and_grad(p.logistic).program(0.5)
    assert program.operations() <= 6 and program.by_kind()["exp"] == 1
    assert sd.value_and_grad(np.exp).program(0.5).operations() == 1


def test_sums_are_shared_between_branches():
    program = sd.value_and_grad(p.branches, (0, 1, 2, 3)).program(1.0, 2.0, 3.0, 4.0)
    kinds = program.by_kind()
    assert kinds["exp"] == 1 and kinds["add"] <= 4


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (p.cubic, (ONE_TO[8],)),
        (p.factored, (np.ones(4),)),
        (p.f10, (ONE_TO[10],)),
        (p.rosenbrock, (ONE_TO[10],)),
        (p.chebyshev, (0.3,)),
        (p.product, (np.ones(8),)),
        (p.logistic, (0.5,)),
        (p.real_through_complex, (0.7,)),
    ],
)
def test_value_and_gradient_cost_at_most_three_values(f, args):
    assert sd.value_and_grad(f).cost(*args).ratio <= 3

"""Gradients of sums, means and largest cells within array programs: how many passes they take, and their numbers."""

import numpy as np
import pytest
from inside import Kernel, Plain, plan_of, program_of

import symdiff as sd

RNG = np.random.default_rng(3)


def log_sum_exp(x):
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def rows(x):
    m = np.max(x, 1, keepdims=True)
    return np.sum(np.log(np.sum(np.exp(x - m), 1)) + m[:, 0])


def cross_entropy(x):
    shifted = x - np.max(x, 1, keepdims=True)
    return -np.sum(shifted[:, 0] - np.log(np.sum(np.exp(shifted), 1)))


def variance(x):
    gap = x - np.mean(x)
    return np.sum(gap * gap) / (x.size - 1)


def cosine(x):
    unit = x / np.sqrt(np.sum(x * x))
    return np.sum(unit * np.arange(x.size).reshape(x.shape))


def layer_norm(x):
    gap = x - np.mean(x, 1, keepdims=True)
    return np.sum(np.tanh(gap / np.sqrt(np.mean(gap * gap, 1, keepdims=True) + 1e-5)) ** 3)


def shares(x):
    return np.sum((x / np.sum(x, 0)) ** 2)


def scaled_back(x):
    return np.sum(-(x * np.sum(x)) / np.max(x))


FUNCTIONS = [log_sum_exp, rows, cross_entropy, variance, cosine, layer_norm, shares, scaled_back]


@pytest.mark.parametrize("backend", ["numpy", "native"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_gradients_are_the_differences_of_the_function(f, backend):
    """Against central differences of the function itself, and for results in arrays given and in new ones."""
    if backend == "native":
        pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
    x = RNG.uniform(0.5, 2.0, (5, 7))
    if f is log_sum_exp or f is variance or f is scaled_back:
        x = x.ravel()
    both = sd.value_and_grad(f, backend=backend, scalarize=False)
    value, gradient = both(x)
    assert value == pytest.approx(f(x), rel=1e-13)
    for at in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[at] = 1e-5
        assert gradient[at] == pytest.approx((f(x + step) - f(x - step)) / 2e-5, rel=1e-6, abs=1e-8)
    out = np.full((), np.nan), np.full(x.shape, np.nan)
    both(x, out=out)
    np.testing.assert_array_equal(out[1], gradient)
    np.testing.assert_array_equal(both(x, out=(np.empty(()), x))[1], gradient)  # over its own argument


def plan(f, x):
    return plan_of(program_of(sd.value_and_grad(f, scalarize=False).graph(x)))


def test_the_largest_cell_that_is_taken_out_has_no_derivative():
    """What is added to the sum's logarithm is what the sum loses, so that ties are not looked for."""
    ops = [b.op for b in sd.grad(log_sum_exp).graph(np.ones(500)).bindings]
    assert ops.count("sum") == 1 and "eq" not in ops and "select" not in ops
    ops = [b.op for b in sd.grad(rows).graph(np.ones((40, 50))).bindings]
    assert "eq" not in ops and "select" not in ops


def test_values_wait_in_the_result_that_takes_their_place():
    """Exponentials, and then what they are divided by: three passes, and no array but the result."""
    made = plan(log_sum_exp, np.ones(100_000))
    assert [t.program.operations() for t in made.fused.tasks if isinstance(t, Kernel) and t.domain] == [2, 1]
    assert made.slots == []
    assert made.slots == plan(variance, np.ones(100_000)).slots


def test_a_factor_leaves_the_sum():
    graph = sd.grad(lambda x: np.sum(np.exp(x) * np.sum(x)), scalarize=False).graph(np.ones(300))
    sums = [b for b in graph.bindings if b.op == "sum"]
    assert len(sums) == 2  # of x and of exp(x)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 1e308, -1e308, 710.0])
def test_extremes_in_class(special):
    x = RNG.standard_normal(100)
    x[17] = special
    with np.errstate(all="ignore"):
        found = sd.grad(log_sum_exp, scalarize=False)(x)
        weights = np.exp(x - np.max(x))
        expected = weights / np.sum(weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_ties_of_a_largest_cell_share_its_derivative():
    x = np.array([1.0, 3.0, 3.0, 2.0])
    np.testing.assert_array_equal(sd.grad(lambda v: np.max(v), scalarize=False)(x), [0.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(sd.grad(log_sum_exp, scalarize=False)(x), np.exp(x - 3) / np.sum(np.exp(x - 3)))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 8, 31, 1000])
@pytest.mark.parametrize("extreme", [np.max, np.min])
def test_a_nan_anywhere_is_the_extreme(extreme, n):
    pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
    f = Plain(extreme, backend="native", scalarize=False)
    x = RNG.standard_normal(n)
    assert f(x) == extreme(x)
    for at in {0, n // 2, n - 1}:
        y = x.copy()
        y[at] = np.nan
        assert np.isnan(f(y))
    assert f(np.full(n, np.inf)) == np.inf and f(np.full(n, -np.inf)) == -np.inf

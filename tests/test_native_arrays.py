"""Kernels over whole arrays as machine code, against the same programs by NumPy."""

import itertools
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Plain, structures
from threads import together

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite")

from inside import Kernels, machine_lanes, program_of

RNG = np.random.default_rng(5)
TOLERANCE = {"d": 1e-12, "D": 1e-12, "f": 2e-5, "F": 2e-5}


def both(f, *args, wrt=0, transform=sd.value_and_grad):
    """The same derivative as machine code and by NumPy, compared; the former."""
    native, plain = (transform(f, wrt, backend=b, scalarize=False) for b in ("native", "numpy"))
    found, expected = native(*args), plain(*args)
    for a, b in zip(structures.leaves(found), structures.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b) and a.dtype == b.dtype
        limit = TOLERANCE[a.dtype.char]
        np.testing.assert_allclose(a, b, rtol=limit, atol=limit * np.max(np.abs(np.nan_to_num(b)), initial=1e-300))
    return native


def machine(f):
    """A function itself as machine code."""
    return Plain(f, backend="native", scalarize=False)


def array(shape, code="d"):
    real = RNG.uniform(0.5, 1.5, shape)
    return (real + 1j * RNG.uniform(-1, 1, shape) if code in "FD" else real).astype(code)


SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 100, 513, 1000]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("code", "dfD")
def test_chains_and_sums_of_every_length(n, code):
    x = array(n, code)

    def f(v):
        return np.sum(v * v / (1 + v) + 3 * v)

    both(f, x)


@pytest.mark.parametrize("n", [2, 3, 8, 9, 10, 17, 64, 1001])
def test_neighbours(n):
    """Regions of one array that kernels fill and add to."""
    x = array(n)
    both(lambda v: np.sum((v[1:] - v[:-1] ** 2) ** 2), x)
    if n > 2:
        both(lambda v: np.sum((v[2:] - 2 * v[1:-1] + v[:-2]) ** 2), x)
        both(lambda v: np.sum(v[2:] * v[1:-1] * v[:-2]) + np.sum(v[1:] * v[:-1]), x)
        both(lambda v: np.sum(v[::2] ** 3) + np.sum(v[1::2] ** 2), x)
        both(lambda v: np.sum(v[::-1] * v * np.arange(1.0, n + 1)), x)
    if n > 16:
        both(lambda v: np.sum(v[12:] * v[:-12]), x)


@pytest.mark.parametrize("axes", [a for k in range(4) for a in itertools.combinations(range(3), k)])
@pytest.mark.parametrize("shape", [(3, 4, 5), (5, 1, 17), (2, 9, 1), (1, 1, 40), (70, 3, 2), (3, 70, 10)])
def test_sums_over_axes(shape, axes):
    x, y = array(shape), array(shape[1:])

    def f(v, w):
        return np.sum(np.sum(v * w - v * v, axis=axes) ** 2) if axes else np.sum((v * w) ** 2)

    both(f, x, y, wrt=(0, 1))


@pytest.mark.parametrize("axes", [None, *(a for k in (1, 2) for a in itertools.combinations(range(3), k))])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 9, 17), (70, 3, 2), (3, 2, 70)])
@pytest.mark.parametrize("extreme", [np.max, np.min])
def test_extremes_over_axes(shape, axes, extreme):
    x = RNG.permutation(np.arange(math.prod(shape), dtype=float)).reshape(shape) - 50
    found = machine(lambda v: extreme(v, axis=axes))
    np.testing.assert_array_equal(found(x), extreme(x, axis=axes))
    np.testing.assert_array_equal(found(x.astype("f")), extreme(x.astype("f"), axis=axes))
    holes = x.copy()
    holes[0, -1, 1], holes[-1, 0, 0] = np.nan, np.inf
    np.testing.assert_array_equal(found(holes), extreme(holes, axis=axes))
    np.testing.assert_array_equal(found(np.full(shape, -np.inf)), extreme(np.full(shape, -np.inf), axis=axes))
    both(lambda v: np.sum(extreme(v, axis=axes) ** 2), x)


@pytest.mark.parametrize("code", "dfD")
def test_views(code):
    x = array((6, 7, 8), code)
    both(lambda v: np.sum(v.transpose(2, 0, 1) * v.reshape(8, 6, 7)), x)
    both(lambda v: np.sum(v[1:4, ::2, 5] * v[2:5, ::-2, 0] ** 2), x)
    both(lambda v: np.sum(v.T.reshape(-1)[3:20] ** 3), x)
    both(lambda v: np.sum(np.diagonal(v[:, :6, 0]) * v[0, 0, :6]), x)
    both(lambda v: np.sum(v[:, None, :, 0] * v[None, :, :, 1]), x)
    both(lambda v: np.sum(np.broadcast_to(v[0], v.shape) * v), x)


def test_numbers_between_kernels():
    x = array(50)
    both(lambda v: np.sum(v * v) ** 2 + np.sum(v / np.sum(v)) * np.mean(v), x)
    both(lambda v: np.sum(np.exp(v - np.max(v))) + np.linalg.norm(v), x)
    both(lambda v: np.var(v) + np.std(v), x)
    both(lambda v, s: np.sum(v * s) * s, x, 3.0, wrt=(0, 1))
    both(lambda v, s: np.sum(v * s) * s, x.astype("f"), np.float32(3), wrt=(0, 1))


def test_choices_and_truth_values():
    x = array((20, 11)) - 1
    both(lambda v: np.sum(np.where(v > 0, v * v, -v)), x)
    both(lambda v: np.sum(np.maximum(v, 0) + np.minimum(v[0], v)), x)
    both(lambda v: np.sum((v > 0) * v) + np.sum(v > 0.5), x)
    np.testing.assert_array_equal(machine(lambda v: v > 0.5)(x), x > 0.5)


def test_between_calls_of_numpy():
    W, b, X = array((5, 6)) / 10, array((5, 1)), array((6, 9))
    both(lambda w, c, v: np.sum(np.tanh(w @ v + c)), W, b, X, wrt=(0, 1, 2))
    A = array((4, 4)) + 4 * np.eye(4)
    both(lambda a, v: np.sum(np.linalg.solve(a, np.sin(v)) ** 2) + np.linalg.det(a), A, array(4), wrt=(0, 1))
    both(lambda v: np.sum(np.sort(v) * np.arange(10)) + np.prod(v), array(10))


def test_special_functions_stay_with_scipy():
    special = pytest.importorskip("scipy.special")
    both(lambda v: np.sum(special.gammaln(v) * v) + np.sum(v * v), array(30))


def test_one_call_where_numpy_has_no_part():
    x = array(1000)
    kernel = sd.value_and_grad(lambda v: np.sum((v[1:] - v[:-1] ** 2) ** 2), scalarize=False).compile(x).kernel
    value, gradient = kernel(x)
    out = np.empty(()), np.empty(1000)
    kernel(x, *out)
    assert value == out[0] and np.array_equal(gradient, out[1])
    with pytest.raises(TypeError, match="other arguments"):
        kernel(x[:-1])
    layered = sd.grad(lambda w: np.sum(np.tanh(w @ w))).compile(array((40, 40)))
    with pytest.raises(sd.BackendError, match="NumPy has a part"):
        layered.kernel  # noqa: B018


def test_results_that_overlap_arguments():
    gradient = sd.grad(lambda v: np.sum((v[1:] - v[:-1] ** 2) ** 2), scalarize=False)
    memory = np.zeros(150)
    x = memory[:100]
    x[:] = array(100)
    own = x.copy()
    expected = gradient(own)
    for start in (0, 1, 7, 50):
        x[:] = own
        np.testing.assert_array_equal(gradient(x, out=memory[start : start + 100]), expected)
    scattered = np.empty(200)[::2]
    np.testing.assert_array_equal(gradient(own, out=scattered), expected)
    x[:] = own
    np.testing.assert_array_equal(gradient(memory[:100][::-1][::-1]), expected)


def test_sums_are_as_accurate_as_numpys():
    """The order of a sum follows the width of vectors, and its rounding with it: bounds that NumPy's own sums come near."""
    rng = np.random.default_rng(0)
    for code, eps in (("d", 2.3e-16), ("f", 1.2e-7)):
        x = rng.uniform(0, 1, 10**6).astype(code)
        exact = math.fsum((x * x).tolist())
        found = machine(lambda v: np.sum(v * v))(x)
        assert abs(found - exact) <= 2 * eps * exact
        hard = np.concatenate([x, -x[::-1], [np.float64(1e-3)]]).astype(code)
        found = machine(lambda v, w: np.sum(v * w))(hard, np.ones_like(hard))
        assert abs(float(found) - math.fsum(hard.tolist())) <= eps * np.sum(np.abs(hard), dtype=float) / 10


@pytest.mark.parametrize("n", [5, 40, 5000])
def test_infinities_and_nan_in_sums(n):
    f = machine(lambda v: np.sum(v * v * v))
    x = np.ones(n)
    assert f(x) == n
    x[n // 2] = np.inf
    assert f(x) == np.inf
    x[1] = -np.inf
    assert np.isnan(f(x))
    assert np.isnan(f(np.where(x > 0, 1.0, np.nan)))
    np.testing.assert_allclose(f(np.full(n, 1e102)), 1e306 * n if n < 100 else np.inf)
    zeros = f(np.full(n, -0.0))
    assert zeros == 0


def test_empty_arrays():
    for shape in [(0,), (0, 3), (3, 0)]:
        x = np.empty(shape)
        value, gradient = sd.value_and_grad(lambda v: np.sum(v * v + 1), scalarize=False)(x)
        assert value == 0 and gradient.shape == shape


@settings(max_examples=30)
@given(st.data())
def test_random_programs(data):
    """Sums of products of views with broadcasting."""
    shape = data.draw(st.sampled_from([(12,), (4, 9), (3, 5, 8), (40, 3), (2, 33)]))
    x, y = array(shape), array(shape[-1:])
    count = data.draw(st.integers(1, 4))
    plans = [
        (
            data.draw(st.sampled_from([np.sin, np.exp, np.tanh, np.sqrt, np.square, np.negative])),
            data.draw(st.integers(0, 3)),
            data.draw(st.sampled_from([None, 0, -1])),
        )
        for _ in range(count)
    ]

    def f(v, w):
        total = 0.0
        for function, shift, axis in plans:
            part = function(v[..., shift:] * w[shift:] + 1) - v[..., : v.shape[-1] - shift]
            total = total + np.sum(np.sum(part * part, axis=axis) ** 2)
        return total

    both(f, x, y, wrt=(0, 1))


def test_many_threads():
    f = sd.value_and_grad(lambda w, v: np.sum(np.tanh(w @ v) ** 2) + np.sum(np.exp(v) * v), (0, 1))
    arguments = [(array((30, 40)), array((40, 50))) for _ in range(8)]
    expected = [f(*a) for a in arguments]
    wrong = []

    def run(k):
        for _ in range(20):
            value, gradients = f(*arguments[k])
            if value != expected[k][0] or not all(map(np.array_equal, gradients, expected[k][1])):
                wrong.append(k)

    together(run, range(8))
    assert not wrong


@pytest.mark.parametrize("code", "dfDF")
@pytest.mark.parametrize(
    ("n", "m", "p"), [(1, 1, 1), (10, 10, 10), (1, 9, 3), (7, 1, 5), (3, 8, 1), (5, 3, 9), (4, 70, 2), (16, 16, 16)]
)
def test_small_products_of_matrices(n, m, p, code):
    """One call of machine code, for operands in either order of memory, and parts of larger ones."""
    a, b = array((n, m), code), array((m, p), code)
    for f, args in [
        (lambda x, y: x @ y, (a, b)),
        (lambda x, y: x.T @ y, (a.T.copy(), b)),
        (lambda x, y: x @ y.T, (a, b.T.copy())),
        (lambda x, y: x.T @ y.T, (a.T.copy(), b.T.copy())),
        (lambda x, y: x[1:, ::2] @ y[:, 1:], (array((n + 1, 2 * m), code), array((m, p + 1), code))),
    ]:
        product = machine(f)
        found = product.compile(*args).kernel(*args)  # an error, where NumPy has a part in it
        limit = TOLERANCE[code]
        np.testing.assert_allclose(found, f(*args), rtol=limit, atol=limit)
        assert found.dtype == code


def test_products_of_matrices_in_class():
    x = array((6, 6))
    x[2, 3], x[4, 4] = np.inf, np.nan
    y = array((6, 6))
    y[3, 1], y[1, 1] = 0.0, -np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(machine(lambda v, w: v @ w)(x, y), x @ y)
        np.testing.assert_allclose(machine(lambda v: v @ v)(y), y @ y)
    both(lambda v: np.sum((v @ v) @ np.ones((6, 1))), array((6, 6)))
    large = array((40, 40))
    with pytest.raises(sd.BackendError, match="NumPy has a part"):
        machine(lambda v: v @ v).compile(large).kernel  # noqa: B018
    np.testing.assert_allclose(machine(lambda v: v @ v)(large), large @ large)


def test_constant_arrays_are_part_of_the_code():
    chosen, x = array((30, 20)) > 1.0, array((30, 20))
    gradient = sd.grad(lambda v: np.sum(np.sin(v) * chosen), scalarize=False).compile(x).kernel(x)
    np.testing.assert_allclose(gradient, np.cos(x) * chosen)


def test_captured_arrays_stand_after_the_arguments():
    weights = array((30, 20))
    f = sd.value_and_grad(lambda v: np.sum(np.sin(v * weights) * (weights > 1.0)), scalarize=False)
    x = array((30, 20))
    kernel = f.compile(x).kernel
    with pytest.raises(TypeError, match=r"compiled for: v float64\[30, 20\], weights float64\[30, 20\]"):
        kernel(x)
    value, gradient = kernel(x, weights)
    np.testing.assert_allclose(value, np.sum(np.sin(x * weights) * (weights > 1.0)))
    np.testing.assert_allclose(gradient, np.cos(x * weights) * weights * (weights > 1.0))


@pytest.mark.parametrize("behind", [1, 2])
def test_each_cell_of_neighbours_is_written_once(behind):
    """A vector's own part waits in registers for what its neighbours add."""
    n = 8 * machine_lanes()
    f = sd.grad(lambda v: np.sum((v[behind:] - v[:-behind] ** 2) ** 2), scalarize=False)
    x = array(n + behind)
    text = Kernels(program_of(f.graph(x))).text
    assert len(re.findall(rf"store <{machine_lanes()} x double> %v\d+, ptr %v", text)) == 1
    both(lambda v: np.sum((v[behind:] - v[:-behind] ** 2) ** 2), x)


@pytest.mark.parametrize("n", [4, 5, 8, 9, 10, 11, 12, 16, 17, 19, 40, 41, 43])
def test_neighbours_at_many_distances(n):
    x = array(n)
    both(lambda v: np.sum(v[3:] * v[1:-2] ** 2 * v[:-3] ** 3), x)
    both(lambda v: np.sum(v[2:] * v[:-2] ** 2) + np.sum(v[1:] / v[:-1]), x)
    both(lambda v: np.sum(v[3:] * v[:-3] ** 2), array(n, "D"))

"""On a GPU itself: what the stand-in cannot show. Skipped where there is none."""

import golden_functions as g
import numpy as np
import pytest
import random_programs
import test_array_programs

import symdiff as sd
from symdiff import structures
from symdiff.pipeline import kernel_of, plan_of


def _missing():
    try:
        import cupy

        return "" if cupy.cuda.runtime.getDeviceCount() else "CuPy finds no GPU"
    except ImportError:
        return "CuPy is not installed"
    except Exception as error:  # CuPy's own, without a driver
        return f"CuPy finds no GPU: {error}"


MISSING = _missing()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(MISSING), reason=MISSING)]
RNG = np.random.default_rng(11)


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")


def cubic(x):
    return x[0] ** 3 - 3 * x[0] * x[1] ** 2 + x[2] / x[1]


@pytest.mark.parametrize("code", ["d", "f", "D", "F"])
@pytest.mark.parametrize("seed", range(10))
def test_random_programs_agree_with_numpy_within_a_running_error_bound(cp, code, seed):
    program = random_programs.random_program(seed, code)
    x, y = random_programs.points(RNG, code)
    values = random_programs.values_and_bounds(program, x, y)
    plan = plan_of(program, "batch", (0, 0), (0,) * len(program.outputs))
    expected = kernel_of(plan, "numpy", "made")(x, y)
    found = kernel_of(plan, "cupy", "made")(cp.asarray(x), cp.asarray(y))
    for output, result, wanted in zip(program.outputs, found, expected, strict=True):
        for k, cell in enumerate(output.cells):
            own, other = (a if output.shape == () else a[:, k] for a in (cp.asnumpy(result), wanted))
            bound = 2 * values[cell][1] + np.finfo(own.dtype).tiny
            with np.errstate(invalid="ignore", over="ignore"):
                sure = np.isfinite(other) & (bound < 1e-2 * np.abs(other))
                assert np.all(np.abs(own - other)[sure] <= bound[sure]), (code, seed, output.name)


@pytest.mark.parametrize("f", test_array_programs.PROGRAMS, ids=lambda f: f.__name__)
def test_programs_of_whole_arrays(cp, f):
    args = test_array_programs.PROGRAMS[f]
    h = sd.value_and_grad(f, tuple(range(len(args))))
    for a, b in zip(structures.leaves(h(*map(cp.asarray, args))), structures.leaves(h(*args)), strict=True):
        np.testing.assert_allclose(cp.asnumpy(a), b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b)))


def test_a_second_call_takes_nothing_from_the_pool(cp):
    pool = cp.get_default_memory_pool()
    args = [cp.asarray(RNG.standard_normal(s)) for s in ((300, 200), (300, 1), (200, 400))]
    points = cp.asarray(RNG.standard_normal((1000, 3)) + 2)
    for f, given, out in (
        (sd.value_and_grad(g.layer, (0, 1)), args, (cp.empty(()), (cp.empty((300, 200)), cp.empty((300, 1))))),
        (sd.vmap(sd.grad(cubic)), [points], cp.empty((1000, 3))),
    ):
        f(*given, out=out)
        f(*given, out=out)
        used, total = pool.used_bytes(), pool.total_bytes()
        f(*given, out=out)
        assert (pool.used_bytes(), pool.total_bytes()) == (used, total)


def test_the_current_stream_is_used_and_nobody_waits(cp):
    f = sd.vmap(sd.grad(cubic))
    x = cp.asarray(RNG.standard_normal((100_000, 3)) + 2)
    wanted = f(x)
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        found = f(x)
    stream.synchronize()
    cp.testing.assert_array_equal(found, wanted)


def test_layouts_strides_and_overlaps(cp):
    f = sd.vmap(sd.grad(cubic))
    x = RNG.standard_normal((1000, 3)) + 2
    last = sd.vmap(sd.grad(cubic), in_axes=-1)
    np.testing.assert_allclose(cp.asnumpy(last(cp.asarray(x.T.copy()))), f(x).T, rtol=1e-13)
    device = cp.asarray(np.repeat(x, 2, axis=1))
    np.testing.assert_allclose(cp.asnumpy(f(device[::2, ::2])), f(x[::2]), rtol=1e-13)
    room = cp.asarray(np.concatenate([x, x[:1]]))
    f(room[:-1], out=room[1:])
    np.testing.assert_allclose(cp.asnumpy(room[1:]), f(x), rtol=1e-13)


def test_functions_of_cupy_are_traced(cp):
    special = pytest.importorskip("cupyx.scipy.special")
    x = RNG.standard_normal(50)
    found = sd.grad(lambda x: cp.sum(cp.sin(x) * special.erf(x)))(cp.asarray(x))
    scipy = pytest.importorskip("scipy.special")
    np.testing.assert_allclose(cp.asnumpy(found), sd.grad(lambda x: np.sum(np.sin(x) * scipy.erf(x)))(x), rtol=1e-12)

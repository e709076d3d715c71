"""On a GPU itself: what the stand-in cannot show. Skipped where there is none; `test_cupy` runs them with the stand-in."""

import sys
from pathlib import Path

import golden_functions as g
import numpy as np
import pytest
import random_programs
import test_array_programs
from inside import kernel_of, plan_of, structures

import symdiff as sd


def _missing():
    try:
        import cupy

        return "" if cupy.cuda.runtime.getDeviceCount() else "CuPy finds no GPU"
    except ImportError:
        return "CuPy is not installed"
    except Exception as error:  # CuPy's own, without a driver
        return f"CuPy finds no GPU: {error}"


sys.path.insert(0, str(Path(__file__).parents[1]))
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


def counting(cp):
    """A context that counts what is taken from the memory pool."""

    class Counting(cp.cuda.MemoryHook):
        name = "counting"
        count = 0

        def malloc_preprocess(self, **kwargs):
            self.count += 1

    return Counting()


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
        with counting(cp) as taken:
            f(*given, out=out)
        assert taken.count == 0 and (pool.used_bytes(), pool.total_bytes()) == (used, total)


def test_the_current_stream_is_used_and_nobody_waits(cp):
    """Launches are recorded as a graph, which fails where something waits, takes memory or runs on another stream."""
    whole = sd.grad(lambda x: np.sum(np.sin(x) * x) ** 2, scalarize=False)
    x = cp.asarray(RNG.standard_normal((100_000, 3)) + 2)
    for f in (sd.vmap(sd.grad(cubic)), whole):
        wanted, out = f(x), cp.empty_like(x)
        stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()
        with stream:
            f(x, out=out)  # the stream's work arrays
            stream.synchronize()
            out.fill(0)
            stream.begin_capture()
            f(x, out=out)
            graph = stream.end_capture()
            assert not cp.asnumpy(out).any()
            graph.launch()
            stream.synchronize()
        cp.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128", "complex64"])
def test_layouts_strides_and_overlaps(cp, dtype):
    f, last = sd.vmap(sd.grad(cubic)), sd.vmap(sd.grad(cubic), in_axes=-1)
    x = (RNG.standard_normal((1000, 3)) + 2).astype(dtype)
    tolerance = 1e-12 if dtype in ("float64", "complex128") else 1e-4

    def same(found, wanted):
        np.testing.assert_allclose(cp.asnumpy(found), wanted, rtol=tolerance)

    for n in (1000, 999, 33, 31, 1):  # whole pieces and warps, and others
        same(f(cp.asarray(x[:n])), f(x[:n]))
        same(last(cp.asarray(x[:n].T.copy())), f(x[:n]).T)
    device = cp.asarray(np.repeat(x, 2, axis=1))
    same(f(device[::2, ::2]), f(x[::2]))
    flat = cp.asarray(np.concatenate([x.ravel()[:1], x.ravel()]))
    same(f(flat[1:].reshape(1000, 3)), f(x))  # no multiple of 16 bytes
    room = cp.asarray(np.concatenate([x, x[:1]]))
    f(room[:-1], out=room[1:])
    same(room[1:], f(x))
    out = cp.empty((3, 1003), dtype)[:, 3:]
    same(last(cp.asarray(x.T.copy()), out=out), f(x).T)


def test_many_cells(cp):
    """More than 2**31 cells: indices take 64 bits."""
    n = 2**28 + 8
    if cp.cuda.Device().mem_info[0] < 6 * 8 * n * 4:
        pytest.skip("too little memory on this GPU")
    for axis in (0, -1):
        x = cp.ones((n, 8) if axis == 0 else (8, n), dtype=cp.float32)
        x[(-1, 1) if axis == 0 else (1, -1)] = 5
        found = sd.vmap(sd.grad(lambda x: x[0] * x[1] + x[7]), in_axes=axis)(x)
        end = found[-1] if axis == 0 else found[:, -1]
        np.testing.assert_array_equal(cp.asnumpy(end), [5, 1, 0, 0, 0, 0, 0, 1])


def test_arrays_of_another_device_are_refused(cp):
    f = sd.vmap(sd.grad(cubic))
    if cp.cuda.runtime.getDeviceCount() < 2:
        pytest.skip("one GPU only")
    with cp.cuda.Device(1):
        x = cp.asarray(RNG.standard_normal((10, 3)))
        assert f(x).data.device_id == 1
    with cp.cuda.Device(0), pytest.raises(ValueError, match="x is on device 1; the current device is 0"):
        f(x)


def test_the_benchmark_runs(cp, monkeypatch, tmp_path):
    from benchmarks import gpu

    target = tmp_path / "table.md"
    monkeypatch.setattr(sys, "argv", ["gpu", "--points", "20000", "--size", "64", "--rounds", "2", "-o", str(target)])
    assert gpu.main() == 0
    text = target.read_text()
    assert text.count("\n| --- |") == 4 and text.count("| symdiff, out= given |") == 4 and "Left out" not in text


def test_functions_of_cupy_are_traced(cp):
    scipy = pytest.importorskip("scipy.special")
    special = pytest.importorskip("cupyx.scipy.special")
    x = RNG.standard_normal(50)
    found = sd.grad(lambda x: cp.sum(cp.sin(x) * special.erf(x)))(cp.asarray(x))
    np.testing.assert_allclose(cp.asnumpy(found), sd.grad(lambda x: np.sum(np.sin(x) * scipy.erf(x)))(x), rtol=1e-12)

"""Operations on whole arrays without a formula for a cell, in loops of machine code: NumPy's numbers and errors."""

import ctypes
import subprocess
import sys

import numpy as np
import pytest
from inside import GUFUNCS, HEADS, gufunc_addresses, numpy_gufunc

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
SQUARE = np.random.default_rng(3).normal(size=(6, 6)) + 3 * np.eye(6)
DEFINITE = SQUARE @ SQUARE.T
RIGHT = np.random.default_rng(4).normal(size=(6, 2))
CASES = {  # what a round does with a matrix, and the heads that its value takes
    "inv": (lambda a: np.linalg.inv(a), {"inv"}),
    "solve": (lambda a: np.linalg.solve(a, RIGHT), {"solve"}),
    "solve_vector": (lambda a: np.linalg.solve(a, RIGHT[:, 0]), {"solve"}),
    "det": (lambda a: np.linalg.det(a), {"det"}),
    "slogdet": (lambda a: np.linalg.slogdet(a)[0] * np.linalg.slogdet(a)[1], {"det_sign", "log_abs_det"}),
    "cholesky": (lambda a: np.linalg.cholesky(a @ a.T), {"cholesky"}),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(a @ a.T), {"eigenvalues"}),
    "eigh": (lambda a: np.abs(np.linalg.eigh(a @ a.T)[1]), {"eigh"}),
    "svd": (lambda a: np.linalg.svd(a, compute_uv=False), {"singular_values"}),
    "qr": (lambda a: np.abs(np.linalg.qr(a)[1]), set()),
    "fft": (lambda a: np.abs(np.fft.fft(a[0] + 1j * a[1])), {"fft"}),
    "fft_of_odd": (lambda a: np.abs(np.fft.ifft(a[0, :5] + 1j * a[1, :5])), {"bfft"}),
    "rfft": (lambda a: np.abs(np.fft.rfft(a[0])), {"rfft"}),
    "rfft_of_odd": (lambda a: np.abs(np.fft.rfft(a[0, :5])), {"rfft"}),
    "irfft": (lambda a: np.fft.irfft(a[0] + 1j * a[1]), set()),
    "fft_along": (lambda a: np.abs(np.fft.fft(a + 0j, axis=0)), {"fft"}),
    "stacked": (lambda a: np.linalg.inv(np.stack([a, 2 * a, a.T])), {"inv"}),
    "stacked_apart": (lambda a: np.linalg.solve(np.stack([a, 2 * a]), RIGHT), {"solve"}),
    "complex": (lambda a: np.abs(np.linalg.solve(a + 1j * a.T, RIGHT + 0j)), {"solve"}),
    "sort": (lambda a: np.sort(a[0]), {"argsort"}),
    "median": (lambda a: np.median(a, axis=1), set()),
    "expm": (lambda a: np.linalg.matrix_power(a, 3) @ np.linalg.pinv(a), {"pinv"}),
}


def in_rounds(step, start=SQUARE):
    def f(x):
        total, a = 0.0, start
        for k in range(30):
            a = 0.1 * a + start + x * np.cos(k + a)
            total = 0.5 * total + np.sum(step(a))
        return total

    return f


def called(df):
    return next(iter(df._compiled.values())).machine.called


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_in_loops_of_machine_code(name):
    step, heads = CASES[name]
    f = in_rounds(step)
    df = sd.value_and_grad(f, loops="keep")
    value, slope = df(0.05)
    assert value == pytest.approx(f(0.05), rel=1e-12)
    nearby = [f(0.05 + k * 1e-4) for k in (-2, -1, 1, 2)]
    assert slope == pytest.approx(np.dot([1, -8, 8, -1], nearby) / 12e-4, rel=1e-6, abs=1e-6)
    assert next(iter(df._compiled.values())).machine is not None
    assert heads <= {call.head for call in called(df)}


def test_what_numpy_has_loops_for_takes_no_call_of_python():
    def f(x):
        total, p = 0.0, DEFINITE
        for k in range(30):
            p = np.linalg.inv(np.eye(6) + x * p) + 0.1 * p
            total += np.linalg.slogdet(p)[1] + np.linalg.solve(p, RIGHT[:, 0])[k % 6]
        return total

    df = sd.value_and_grad(f, loops="keep")
    df(0.3)
    assert called(df) and all(call.gufunc is not None for call in called(df))
    assert df(0.3)[0] == pytest.approx(f(0.3), rel=1e-12)


@pytest.mark.parametrize("op, code", [(op, code) for op in sorted(GUFUNCS) for code in "dD" if (op, code) != ("rfft", "D")])
def test_loops_are_those_of_numpys_functions(op, code):
    """The arrays that a loop is given lie as its signature says: one round over memory, by ctypes."""
    shapes = {"solve": [(5, 5), (5, 2)], "svd": [(4, 6)]}.get(op, [(5, 5)])
    params = {"axes": {}, "brfft": {"n": 9, "axis": 1}}.get(op) or ({"axis": 1} if "fft" in op else {})
    params |= {"lead": (-1,)} if op in ("svd", "eigh") else {}
    rng = np.random.default_rng(1)
    arrays = [np.asarray(rng.normal(size=s) + (1j * rng.normal(size=s) if code in "DF" else 0), code) for s in shapes]
    arrays = [a @ np.conj(a.T) + np.eye(5, dtype=code) if op in ("cholesky",) or op.startswith("eig") else a for a in arrays]
    wanted = np.asarray(HEADS[op].function(*arrays, **params))
    found = numpy_gufunc(op, (wanted.shape, wanted.dtype.char), [(a.shape, a.dtype.char) for a in arrays], params.get("axis"))
    if found is None:
        assert (op, code) in {("fft", "d"), ("bfft", "d"), ("brfft", "d"), ("eigh", "D"), ("svd", "D")}
        return
    result = np.empty_like(wanted, order="C")
    own = [np.empty(o.shape, o.code) if o.number is None else np.array(o.number, o.code) for o in found.operands]
    pointers = [a.ctypes.data if o.start is None else result.ctypes.data + o.start
                for o, a in zip(found.operands, [*arrays, *own[len(arrays) :]], strict=True)]  # fmt: skip
    function, data = gufunc_addresses(found.name)
    words = [(ctypes.c_void_p * len(pointers))(*pointers)]
    words += [(ctypes.c_ssize_t * len(n))(*n) for n in (found.sizes, found.steps)]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(function)(*map(ctypes.addressof, words), data or None)
    np.testing.assert_array_equal(result, wanted)


def test_errors_are_those_of_the_function():
    def f(x):
        total = 0.0
        for k in range(30):
            total = 0.5 * total + np.sum(np.linalg.solve((k - x) * np.eye(6) + 0.0 * total, RIGHT))
        return total

    df = sd.grad(f, loops="keep")
    assert np.isfinite(df(0.5))
    assert next(iter(df._compiled.values())).machine is not None
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            df(7.0)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        df(7.0, out=np.empty(()))
    assert np.isnan(df(np.nan))
    assert df(0.5) == sd.grad(f, loops="unroll")(0.5)


def test_arrays_are_not_kept_from_call_to_call():
    f = in_rounds(lambda a: np.linalg.qr(a)[1] ** 2)
    df = sd.grad(f, loops="keep")
    before = df(0.1)
    counts = [sys.getrefcount(np.dtype(float)) for _ in range(2) if [df(0.1) for _ in range(50)]]
    assert abs(counts[1] - counts[0]) < 50
    assert df(0.1) == before


def test_code_from_the_cache_finds_them_in_another_process(tmp_path):
    (tmp_path / "filtered.py").write_text(
        "import numpy as np, symdiff as sd\n"
        "def f(x):\n"
        "    p = np.eye(6)\n"
        "    for k in range(40):\n"
        "        p = np.linalg.inv(np.eye(6) + x*p) + np.linalg.qr(p)[1]\n"
        "    return np.sum(p)\n"
        "print(repr(sd.grad(f)(0.25)))\n"
    )
    run = [sys.executable, "filtered.py"]
    first, second = (subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout for _ in range(2))
    assert first == second != ""


def test_loops_beside_decompositions_stay_loops():
    places = np.random.default_rng(5).normal(size=(40, 2))
    seen = np.sin(places[:, 0])

    def likelihood(p):
        k = np.empty((40, 40))
        for i in range(40):
            for j in range(40):
                d = (places[i] - places[j]) * p[:2]
                k[i, j] = np.exp(-d @ d)
            k[i, i] += p[2]
        return seen @ np.linalg.solve(k, seen) + np.linalg.slogdet(k)[1]

    df = sd.grad(likelihood)
    at = np.array([1.1, 0.7, 0.3])
    found = df(at)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        assert found[k] == pytest.approx((likelihood(at + step) - likelihood(at - step)) / 2e-5, rel=1e-6)
    compiled = next(iter(df._compiled.values()))
    assert compiled.machine is not None and len(compiled.program.nodes) < 500


def rows_of_solutions(x):
    rows, v = np.zeros((30, 6)), np.ones(6)
    for k in range(30):
        v = np.linalg.solve(SQUARE + x * np.outer(v, v), v + k)
        rows[k] = v
    return np.sum(rows * rows)


def matrices_of_inverses(x):
    rows, p = np.zeros((30, 6, 6)), SQUARE
    for k in range(30):
        p = 0.1 * p + SQUARE * x
        rows[k] = np.linalg.inv(p)
    return np.sum(rows * rows)


def determinants(x):
    found, p = np.zeros(30), SQUARE
    for k in range(30):
        p = 0.1 * p + SQUARE * x
        found[k] = np.linalg.det(p)
    return np.sum(found * found)


def sorted_and_added(x):
    s = np.zeros(6)
    for k in range(30):
        s += np.sort(SQUARE[k % 6] * x + 0.1 * s)
    return np.sum(s * s)


@pytest.mark.parametrize("f", [rows_of_solutions, matrices_of_inverses, determinants, sorted_and_added])
def test_rows_sums_and_second_derivatives(f):
    df = sd.value_and_grad(f, loops="keep")
    value, slope = df(1.1)
    assert value == pytest.approx(f(1.1), rel=1e-12)
    nearby = [f(1.1 + k * 1e-4) for k in (-2, -1, 1, 2)]
    assert slope == pytest.approx(np.dot([1, -8, 8, -1], nearby) / 12e-4, rel=1e-7)
    assert called(df)
    slopes = [sd.grad(f, loops="unroll")(1.1 + k * 1e-5) for k in (-1, 1)]
    assert sd.hessian(f, loops="keep")(1.1) == pytest.approx((slopes[1] - slopes[0]) / 2e-5, rel=1e-6)

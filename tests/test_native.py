"""Machine code: the same numbers as NumPy, arguments checked, code that lives and dies with its function."""

import gc
import math
import multiprocessing
import pickle
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inside import Plain, branching
from threads import together

import symdiff as sd
from benchmarks.memory import drop_cycle

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-310, -1e300, 700.0, math.inf, -math.inf, math.nan]
UNARY = {
    "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "tanh": np.tanh,
    "arcsin": np.arcsin, "arctan": np.arctan, "arcsinh": np.arcsinh, "log1p": np.log1p, "expm1": np.expm1, "cbrt": np.cbrt,
    "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "exp2": np.exp2,
    "log2": np.log2, "log10": np.log10, "sinh": np.sinh, "cosh": np.cosh, "negative": np.negative,
    "square": lambda x: x**2, "reciprocal": lambda x: 1 / x, "finite": lambda x: np.where(np.isfinite(x), x, 0.0),
}  # fmt: skip
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "power": np.power,
    "arctan2": np.arctan2, "hypot": np.hypot, "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "remainder": np.remainder, "floor_divide": np.floor_divide, "fmod": np.fmod, "copysign": np.copysign,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2,
    "where": lambda x, y: np.where((x < y) & ~(x == 1.0) | (y != y), x, y),
}  # fmt: skip


def same_class(found, wanted, ulps):
    found, wanted = np.asarray(found), np.asarray(wanted)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    kept = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isinf(found[kept]), np.isinf(wanted[kept]))
    finite = np.isfinite(wanted)
    np.testing.assert_array_less(
        np.abs(found[finite] - wanted[finite]), (ulps + 1) * np.spacing(np.abs(wanted[finite])) + 1e-323
    )
    np.testing.assert_array_equal(np.sign(found[~finite & kept]), np.sign(wanted[~finite & kept]))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number(name):
    f = Plain(lambda x: UNARY[name](x), backend="native")
    with np.errstate(all="ignore"):
        wanted = np.array([UNARY[name](np.float64(x)) for x in SPECIAL])
    same_class([f(x) for x in SPECIAL], wanted, 4)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers(name):
    f = Plain(lambda x, y: BINARY[name](x, y), backend="native")
    # NumPy takes the root for the exponent 0.5, which is NaN at -inf; C's pow is inf there.
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL if (name, x, y) != ("power", -math.inf, 0.5)]
    with np.errstate(all="ignore"):
        wanted = np.array([BINARY[name](np.float64(x), np.float64(y)) for x, y in pairs])
    same_class([f(x, y) for x, y in pairs], wanted, 4)


@pytest.mark.parametrize("name", sorted({*UNARY, *BINARY}))
@pytest.mark.parametrize("axis", [0, -1])
def test_functions_over_points(name, axis):
    if name in UNARY:
        points = np.array([[x, x] for x in SPECIAL])
        h = lambda p: UNARY[name](p[0]) + 0.0 * np.where(p[1] == p[1], 0.0, 0.0)  # noqa: E731
    else:
        points = np.array([[x, y] for x in SPECIAL for y in SPECIAL if (name, x, y) != ("power", -math.inf, 0.5)])
        h = lambda p: BINARY[name](p[0], p[1])  # noqa: E731
    layout = points if axis == 0 else np.ascontiguousarray(points.T)
    found = sd.vmap(h, in_axes=axis, backend="native")(layout)
    with np.errstate(all="ignore"):
        wanted = np.array([h(p) for p in points])
    same_class(found, wanted, 4)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 60, reason="needs a long double with more digits than float64")
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("exp", -745, 709.7), ("log", 1e-300, 1e3), ("log", 0.5, 2), ("sin", -1e5, 1e5), ("sin", 1e5, 1e9), ("cos", -1e5, 1e5),
     ("tanh", -20, 20), ("tanh", -0.7, 0.7)],
)  # fmt: skip
def test_vector_functions_to_the_last_digits(name, low, high):
    x = np.random.default_rng(0).uniform(low, high, 10**6)
    function = getattr(np, name)
    exact = function(x.astype(np.longdouble))
    rounded = exact.astype(float)
    kept = np.abs(rounded) > 2.3e-308
    error = np.abs(sd.vmap(function, backend="native")(x) - exact) / np.spacing(np.abs(rounded))
    assert error[kept].max() < 1.5
    few = x[:13]  # the points that fill no vector take the same way
    np.testing.assert_array_equal(sd.vmap(function, backend="native")(few), sd.vmap(function, backend="native")(x)[:13])


def test_complex_numbers():
    def f(z):
        a, b = z[0], z[1]
        return np.array([a * b, a / b, np.exp(a) + np.sin(b), np.sqrt(a - b), np.conj(a) * b.real, np.log(b), a**2.5])

    z = np.array([1.5 - 0.5j, -0.25 + 2j])
    np.testing.assert_allclose(Plain(f, backend="native")(z), f(z), rtol=1e-14)

    def rational(z):
        return (z[0] ** 3 + 2j * z[1]) / (z[1] * z[0] - 1)

    points = np.exp(1j * np.arange(40.0)).reshape(20, 2) * np.linspace(0.3, 3, 20)[:, None]
    for axis, layout in ((0, points), (-1, np.ascontiguousarray(points.T))):
        native = sd.vmap(sd.grad(rational), in_axes=axis, backend="native")(layout)
        np.testing.assert_allclose(native, sd.vmap(sd.grad(rational), in_axes=axis, backend="numpy")(layout), rtol=1e-13)
    assert Plain(lambda x: np.abs(x) ** 2, backend="native")(3 + 4j) == 25.0


def test_single_precision():
    x = np.linspace(0.1, 1, 5).astype(np.float32)
    f = sd.value_and_grad(lambda x: np.sum(np.sin(x) * x), backend="native")
    value, gradient = f(x)
    assert value.dtype == gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, np.cos(x) * x + np.sin(x), rtol=1e-6)


def test_single_precision_complex():
    f = sd.value_and_grad(lambda x: x**3 / 5 * (1 + 0.5j), backend="native")
    x = np.float32(0.7)
    for found, wanted in zip(f(x), (x**3 / 5 * (1 + 0.5j), 3 * x**2 / 5 * (1 + 0.5j)), strict=True):
        assert found.dtype == np.complex64
        assert found == pytest.approx(wanted, rel=1e-6)


STEPS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b * 0.5,
    "/": lambda a, b: a / (b * b + 1.0),
    "s": lambda a, b: np.sin(a),
    "m": lambda a, b: np.maximum(a, b),
    "w": lambda a, b: np.where(a < b, a, b * 0.5),
    "q": lambda a, b: np.sqrt(a * a + b * b + 0.1),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=25),
       st.integers(0, 2**31))  # fmt: skip
@settings(max_examples=60)
def test_random_programs(steps, seed):
    def f(x):
        values = [x[0], x[1], x[2], 3.0, -0.5]
        for kind, i, j in steps:
            values.append(STEPS[kind](values[i % len(values)], values[j % len(values)]))
        return values[-1] * values[-2] + values[-3]

    points = np.random.default_rng(seed).uniform(-1, 1, (11, 3))
    native, plain = (sd.value_and_grad(f, backend=b) for b in ("native", "numpy"))
    for found, wanted in zip(native(points[0]), plain(points[0]), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    for axis, layout in ((0, points), (-1, np.ascontiguousarray(points.T))):
        found = sd.vmap(native, in_axes=axis, backend="native")(layout)
        wanted = sd.vmap(plain, in_axes=axis, backend="numpy")(layout)
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


# -- arguments


def cubic(x):
    return np.sum(x**3) + x[0] * x[1]


def slope(x):
    result = 3 * np.asarray(x, dtype=float) ** 2
    result[0] += x[1]
    result[1] += x[0]
    return result


@pytest.mark.parametrize(
    "x",
    [
        np.array([1, 2, 3]),
        np.array([0.3, 0.4, 2.0], dtype=np.float32).astype(">f8"),
        np.arange(9.0)[::3],
        np.arange(3.0)[::-1],
        np.frombuffer(bytes(1) + np.arange(3.0).tobytes(), dtype=np.float64, offset=1),
        np.asfortranarray(np.arange(3.0)),
    ],
    ids=["integers", "big endian", "strided", "reversed", "misaligned", "read as Fortran"],
)
def test_other_arguments_take_the_long_way(x):
    f = sd.grad(cubic, backend="native")
    f(np.ones(3))
    np.testing.assert_allclose(f(x), slope(x))
    out = np.empty(3)
    assert f(x, out=out) is out
    np.testing.assert_allclose(out, slope(x))


def test_out():
    x = np.array([0.3, 0.4, 2.0])
    f = sd.value_and_grad(cubic, backend="native")
    out = (np.empty(()), np.empty(3))
    assert f(x, out=out) is out and out[0] == f(x)[0]
    np.testing.assert_array_equal(out[1], f(x)[1])
    wide = np.zeros((3, 2))
    f(x, out=(np.empty(()), wide[:, 1]))
    np.testing.assert_array_equal(wide, np.stack([np.zeros(3), slope(x)], axis=1))
    own = x.copy()
    sd.grad(cubic, backend="native")(own, out=own)
    np.testing.assert_allclose(own, slope(x))
    locked = np.empty(3)
    locked.flags.writeable = False
    for bad, message in ((np.empty(4), "shape"), (np.empty(3, np.float32), "float64"), (locked, "writeable"), (5, "int")):
        with pytest.raises(sd.ShapeError, match=message):
            sd.grad(cubic, backend="native")(x, out=bad)
    with pytest.raises(sd.ShapeError):
        f(np.ones(4)[:3], out=out[:1])
    assert isinstance(f(x)[0], np.float64) and f(x)[1].flags.owndata


def test_the_bare_kernel():
    x, out = np.array([0.3, 0.4, 2.0]), np.empty(3)
    kernel = sd.grad(cubic).compile(x).kernel
    kernel(x, out)
    np.testing.assert_allclose(out, slope(x))
    np.testing.assert_allclose(kernel(x), slope(x))
    for bad in ((x.tolist(), out), (x, np.empty(4)), (x,) * 3, (), (x, out.astype(np.float32)), (x[::-1], out)):
        with pytest.raises(TypeError, match="other arguments than it was compiled for"):
            kernel(*bad)
    scalar = sd.grad(lambda a, b: a * np.sin(b), (0, 1)).compile(1.0, 2.0).kernel
    assert scalar(2.0, 0.5) == (math.sin(0.5), 2 * math.cos(0.5))
    assert scalar(np.float64(2.0), 0.5)[0] == math.sin(0.5)
    with pytest.raises(TypeError):
        scalar(2, 0.5)


def test_what_has_no_machine_code():
    special = pytest.importorskip("scipy.special")
    with pytest.raises(sd.BackendError, match="NumPy and SciPy only"):
        sd.grad(lambda x: special.psi(x), backend="native")(0.3)
    assert sd.grad(lambda x: special.psi(x))(0.3) == pytest.approx(special.polygamma(1, 0.3))


def test_without_llvmlite():
    code = """
import sys
sys.modules["llvmlite"] = None
import numpy as np, symdiff as sd
assert sd.grad(lambda x: x[0]**2)(np.ones(2)).tolist() == [2.0, 0.0]
assert sd.vmap(lambda x: x**2)(np.ones(2)).tolist() == [1.0, 1.0]
try:
    sd.grad(lambda x: x**2, backend="native")(1.0)
except sd.BackendError as error:
    assert "pip install 'symdiff[native]'" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


# -- lifetimes


def test_code_dies_with_its_function(monkeypatch):
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    for k in range(100):
        drop_cycle(float(k))
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for k in range(1000):
        drop_cycle(float(k))
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4000  # kilobytes: less than one page of memory a cycle


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no /proc here")
def test_code_of_many_lengths_takes_little_memory(monkeypatch):
    monkeypatch.setenv("SYMDIFF_CACHE", "off")
    df = sd.grad(lambda x: np.sum(np.exp(-x * x)), backend="native")
    for n in range(1000, 1010):
        df(np.ones(n))
    before = resident()
    for n in range(2000, 2040):
        df(np.ones(n))
    assert resident() - before < 40 * 400_000  # bytes: 870,000 a length where each engine kept what had compiled it


def test_the_oldest_code_is_dropped_beyond_a_bound_in_bytes(monkeypatch):
    monkeypatch.setattr(branching, "KEPT_BYTES", 500_000)
    df = sd.value_and_grad(lambda x: np.sum(np.sin(x) * x), backend="native")
    for n in (*range(1000, 1012), 1000):
        value, slope = df(np.full(n, 0.5))
        np.testing.assert_allclose([value, slope[-1]], [n * 0.5 * np.sin(0.5), np.sin(0.5) + 0.5 * np.cos(0.5)])
    assert 1 <= len(df._compiled) < 8


def test_references_are_counted():
    x, out = np.array([0.3, 0.4, 2.0]), np.empty(3)
    f = sd.value_and_grad(cubic, backend="native").compile(x).door
    g = sd.grad(cubic, backend="native").compile(x).door
    objects = (x, out, np.dtype("d"))
    counts = [sys.getrefcount(o) for o in objects]
    for _ in range(500):
        f(x)
        f([1])
        g(x, out=out)
        g(x, out=None)
        g(x, out=3)
    assert [sys.getrefcount(o) for o in objects] == pytest.approx(counts, abs=5)


def test_many_threads():
    f = sd.grad(cubic, backend="native")
    many = sd.vmap(f)
    failures = []

    def hammer(seed):
        x = np.random.default_rng(seed).standard_normal((50, 3))
        for row in x:
            if not np.allclose(f(row), slope(row)):
                failures.append(seed)
        if not np.allclose(many(x)[-1], slope(x[-1])):
            failures.append(seed)

    together(hammer, range(16))
    assert not failures


def _in_child(compiled, x, queue):
    queue.put(compiled(x).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(method):
    context = multiprocessing.get_context(method)
    x = np.array([0.3, 0.4, 2.0])
    compiled = sd.grad(cubic, backend="native").compile(x)
    queue = context.Queue()
    process = context.Process(target=_in_child, args=(compiled, x, queue))
    process.start()
    assert queue.get(timeout=60) == compiled(x).tolist()
    process.join()
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(again(x), compiled(x))

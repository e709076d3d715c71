"""Numbers or arrays, value by value: one program in several ways of writing takes the same operations, of any length."""

import math
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from inside import Clear, Kernels, Program, Tracer, program_of

import symdiff as sd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks import styles

RNG = np.random.default_rng(5)
UNLIKE = {"complex", "broadcasting"}  # an operation on complex numbers is several; each pair of atoms occurs twice
W = RNG.standard_normal((40, 40)) / 40


def pendulum(y):
    return np.array([y[1], -np.sin(y[0])])


@pytest.mark.parametrize("name", styles.PROGRAMS)
def test_all_ways_of_writing_a_program_take_as_many_operations(name):
    program = styles.PROGRAMS[name]()
    counts = {way: styles.operations(program, way) for way in program.ways if way not in UNLIKE}
    assert max(counts.values()) <= 2 * min(counts.values()), counts
    args = [arg[:3] if program.points else arg for arg in program.args]
    found = [styles.leaves_of(styles.derived(program, way)(*args)) for way in program.ways]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], 1e-8, 1e-9)


def between_products(W, y):
    """A small state between large arrays."""
    y = styles.runge_kutta(y + np.sum(np.tanh(W @ W)) * np.array([1.0, 0.5]), 20, pendulum)
    return np.sum(np.sin(W @ W * y[0])) + y[1]


def test_a_small_state_between_large_arrays():
    y = np.array([0.3, 0.1])
    df = sd.value_and_grad(between_products, argnums=(0, 1))
    graph = df.graph(W, y)
    assert not [b for b in graph.bindings if b.shape == (2,) and b.op not in ("array", "put", "add", "reshape")]
    value, (dW, dy) = df(W, y)
    whole = sd.value_and_grad(between_products, argnums=(0, 1), scalarize=False)(W, y)
    assert value == pytest.approx(between_products(W, y), rel=1e-13)
    assert np.allclose(dW, whole[1][0], rtol=1e-10) and np.allclose(dy, whole[1][1], rtol=1e-10)


def network(W1, W2, x):
    z = W2 @ np.tanh(W1 @ x)
    p = np.exp(z - np.max(z))
    return -np.log(p[3] / np.sum(p))


def test_a_few_operations_on_a_short_array_stay_whole():
    args = W, RNG.standard_normal((10, 40)), RNG.standard_normal(40)
    assert len(sd.grad(network, (0, 1)).graph(*args).bindings) < 60


def pairs(p, i, j):
    d = p[i] - p[j]
    s = 1 / np.sum(d * d, axis=1) ** 3
    return np.sum(s * s - s)


@pytest.mark.parametrize("dtype", [float, complex, np.float32])
@pytest.mark.parametrize("shape", [(20, 3), (20,), (20, 17), (20, 2, 3)])
def test_rows_that_are_picked_and_added(shape, dtype):
    places = RNG.integers(0, 20, (19, 3))
    x = RNG.standard_normal(shape).astype(dtype)
    if dtype is complex:
        x = x + 1j * RNG.standard_normal(shape)

    def f(x):
        t = x[places]
        return np.sum(np.sin(t) * t[::-1])

    found, wanted = (sd.grad(f, scalarize=False, backend=backend)(x) for backend in ("auto", "numpy"))
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=3e-6 if dtype is np.float32 else 1e-13)


def nested_tasks(df, *args):
    """How many tasks of a program NumPy computes, and how many there are."""
    fused = program_of(df.graph(*args))
    tasks = [task for task in fused.tasks if not isinstance(task, Clear)]
    return len(tasks) - len(Kernels(fused).nests), len(tasks)


def test_few_cells_and_rows_move_in_machine_code():
    pytest.importorskip("llvmlite")
    i, j = np.tril_indices(20, -1)
    left, tasks = nested_tasks(sd.value_and_grad(lambda p: pairs(p, i, j)), RNG.standard_normal((20, 3)))
    assert left == 0 and tasks > 3

    def joined(x, y):
        z = np.concatenate([x[1:], y, x[:2] * y[0]])
        z[3:5] = y[:2]
        return np.sum(np.sin(np.diag(z)[2:] @ z))

    left, tasks = nested_tasks(sd.value_and_grad(joined, scalarize=False), RNG.standard_normal(5), RNG.standard_normal(3))
    assert left == 0 and tasks > 5


L = [0.3, 0.4, 0.5]
A = np.array(L)
SINGLE_BESIDE_DOUBLE = {
    "equal": lambda x: x == np.float64(0.3),
    "greater": lambda x: x > np.array(0.3),
    "of lists": lambda x: x > L,
    "logaddexp": lambda x: np.logaddexp(x, np.float64(1)) + np.logaddexp2(x, A),
    "mod": lambda x: np.mod(x, np.float64(0.1)) + x // np.float64(0.01) + np.fmod(x, A),
    "copysign": lambda x: np.copysign(np.float64(-0.1), x) + np.heaviside(x - x, A),
    "nextafter": lambda x: np.nextafter(x, np.float64(1)),
    "power": lambda x: x ** np.float64(0.3) + x**A,
    "condition": lambda x: x * 2 if x[0] > A[0] else x * 3,
    "convolve": lambda x: np.convolve(x, [0.1, 0.2]),
    "correlate": lambda x: np.correlate(x, [1, 3], "full"),
    "tensordot": lambda x: np.tensordot(x, A, 1),
    "product": lambda x: np.outer(x, x) @ A,
    "searchsorted": lambda x: np.searchsorted(L, x) + np.searchsorted(x, A) + np.digitize(x, L),
    "isin": lambda x: np.isin(x, L),
    "isclose": lambda x: np.isclose(x, L, rtol=0, atol=0),
    "polynomial": lambda x: np.polynomial.Polynomial(L)(x) + np.polyval(A, x),
    "series": lambda x: np.polynomial.Chebyshev(L)(x),
    "quotients of Python's number": lambda x: np.divmod(float(x[0]) * 10 + 0.05, x)[0],
    "path of Python's": lambda x: 0.1 if x[0] > 0 else x[1],
    "path of a third": lambda x: (1 if x[0] > 0 else x[1]) / 3,
}


@pytest.mark.parametrize("name", SINGLE_BESIDE_DOUBLE)
def test_double_numbers_stay_double_beside_single_ones(name):
    f, x = SINGLE_BESIDE_DOUBLE[name], np.array(L, "f4")
    wanted = np.asarray(f(x))
    ways = ({}, {"exact": True}, {"scalarize": False}, {"scalarize": True}, {"backend": "numpy"},
            {"backend": "numpy", "scalarize": False}, {"exact": True, "scalarize": False})  # fmt: skip
    found = [sd.jvp(f, **options)(x, x)[0] for options in ways]
    for options in ({"scalarize": False}, {"scalarize": True}):
        scope = {}
        exec(sd.jvp(f, **options).source(x, x), scope)
        found.append(scope[scope["__all__"][0]](x, x)[0])
    for value in found:
        assert wanted.dtype.kind == "i" or np.asarray(value).dtype == wanted.dtype
        np.testing.assert_allclose(np.asarray(value, float), wanted, rtol=1e-13)


MANY_PARTS = {
    "split": lambda x: sum(np.prod(part) for part in np.split(x, 60)),
    "concatenated": lambda x: np.sum(np.concatenate([x[:5] * k for k in range(160)]) ** 2),
    "stacked": lambda x: np.sum(np.stack([np.sin(x[:5] * k) for k in range(160)]) @ x[:5]),
    "captured": lambda x: sum(np.sum(a * x[:5]) for a in list(np.arange(800.0).reshape(160, 5))),
    "in blocks": lambda x: np.sum(np.block([[x[k] * np.outer(x[:4], x[k : k + 4]) for k in range(40)]]) ** 2),
}


@pytest.mark.parametrize("name", MANY_PARTS)
def test_many_small_parts_are_one_function_of_machine_code(name):
    pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")
    f, x = MANY_PARTS[name], RNG.uniform(0.9, 1.1, 180)
    df = sd.grad(f)
    step = np.random.default_rng(2).standard_normal(180) * 1e-6
    assert df(x) @ step == pytest.approx((f(x + step) - f(x - step)) / 2, rel=1e-6)
    assert next(iter(df._compiled.values())).machine is not None


@pytest.mark.parametrize("cells", [100, 700])
def test_a_number_a_statement_stays_a_number_in_functions_of_any_length(tmp_path, monkeypatch, cells):
    lines = [f"    y[{k}] = x[{k}] * x[{k - 1}] * x[{k - 2}]\n" for k in range(cells)]
    (tmp_path / f"cells{cells}.py").write_text(
        "import numpy as np\ndef f(x):\n    y = np.zeros(len(x))\n" + "".join(lines) + "    return y.sum()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    f = import_module(f"cells{cells}").f
    x = RNG.uniform(0.9, 1.1, cells)
    program = sd.grad(f).program(x)
    assert isinstance(program, Program) and program.operations() <= 9 * cells
    found = sd.grad(f)(x)
    np.testing.assert_allclose(
        found, np.roll(x, -1) * np.roll(x, 1) + np.roll(x, 1) * np.roll(x, 2) + np.roll(x, -1) * np.roll(x, -2)
    )


def test_sums_of_many_terms_in_one_expression(tmp_path, monkeypatch):
    names = [f"a{k}" for k in range(1200)]
    text = f"import math\ndef f({', '.join(names)}):\n    return {' + '.join(f'{n}*math.sin({n})' for n in names)}\n"
    (tmp_path / "terms.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    args = RNG.uniform(0.5, 1.0, len(names)).tolist()
    before = sys.getrecursionlimit()
    found = sd.grad(import_module("terms").f, argnums=tuple(range(len(names))))(*args)
    np.testing.assert_allclose(found, [math.sin(a) + a * math.cos(a) for a in args])
    assert sys.getrecursionlimit() == before


def test_parts_of_arrays_that_are_numbers_are_moved_in_linear_time(monkeypatch):
    made = []
    keep = Tracer.__init__

    def counted(self, *args):
        made.append(self)
        keep(self, *args)

    monkeypatch.setattr(Tracer, "__init__", counted)
    counts = []
    for n in (40, 80):
        made.clear()
        sd.grad(lambda x, n=n: sum(np.prod(part) for part in np.split(x, n)), scalarize=True)(np.ones(3 * n))
        counts.append(len(made))
    assert counts[1] < 2.5 * counts[0]

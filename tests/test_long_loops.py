"""Long loops over arrays whose conditions are kept: what is made once, what is found again, and what it costs."""

import gc
import importlib.util
import math
import sys
import threading
import tracemalloc
import weakref

import numpy as np
import pytest
from inside import Function, Plain, branching, fused_of, paths

import symdiff as sd

NATIVE = importlib.util.find_spec("llvmlite") is not None
needs_llvmlite = pytest.mark.skipif(not NATIVE, reason="llvmlite is not installed")
N = 24
SPREAD = np.random.default_rng(0).standard_normal((N, N))
MATRIX = SPREAD @ SPREAD.T / N + np.eye(N)


def conjugate_gradients(b):
    x = 0 * b
    r = b - MATRIX @ x
    p = r
    square = r @ r
    while square > 1e-12:
        q = MATRIX @ p
        step = square / (p @ q)
        x, r = x + step * p, r - step * q
        p, square = r + (r @ r) / square * p, r @ r
    return x @ x


def newton(x):
    y = x
    for _ in range(25):
        residual = MATRIX @ y + y**3 - x
        if np.linalg.norm(residual) < 1e-10:
            break
        y = y - np.linalg.solve(MATRIX + np.diag(3 * y**2), residual)
    return np.sum(y * y)


def runge_kutta(u):
    """Heun's method with steps chosen by its error, on a rod that cools."""

    def slope(u):
        return 50.0 * (np.concatenate([u[:1], u[:-1]]) - 2.0 * u + np.concatenate([u[1:], u[-1:]])) + u * (1.0 - u)

    time, step = 0.0, 0.004
    while time < 0.01:
        first = slope(u)
        second = slope(u + step * first)
        error = 0.5 * step * np.max(np.abs(second - first))
        if error < 1e-2:
            u, time = u + 0.5 * step * (first + second), time + step
        step = step * min(1.5, max(0.3, 0.9 * (1e-2 / (error + 1e-30)) ** 0.5))
    return np.sum(u * u)


def simulated(p):
    y = np.ones(30) * p[0]
    for _ in range(100):
        y = y + 0.01 * (np.roll(y, 1) - y * p[1] + np.sin(y))
    return np.sum(y)


CASES = {
    conjugate_gradients: np.linspace(-1, 2, N),
    newton: np.linspace(-1, 2, N),
    runge_kutta: np.sin(np.linspace(0, 3, N)) ** 2,
    simulated: np.array([0.5, 0.7]),
}


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_derivatives_along_a_direction(f, backend):
    df = sd.value_and_grad(f, backend=backend)
    for scale in (1.0, 0.6, 1.0):
        x = scale * CASES[f]
        d = np.random.default_rng(1).standard_normal(x.shape)
        value, slope = df(x)
        assert value == pytest.approx(f(x), rel=1e-12)
        expected = (f(x + 1e-6 * d) - f(x - 1e-6 * d)) / 2e-6
        assert slope @ d == pytest.approx(expected, rel=1e-6)


def test_second_derivatives():
    x = CASES[conjugate_gradients]
    inverse = np.linalg.inv(MATRIX)
    np.testing.assert_allclose(sd.hessian(conjugate_gradients)(x), 2 * inverse @ inverse, rtol=1e-4, atol=1e-4)
    x = CASES[runge_kutta]
    d = np.random.default_rng(1).standard_normal(N)
    hessian = sd.hessian(runge_kutta)(x)
    df = sd.grad(runge_kutta)
    np.testing.assert_allclose(hessian @ d, (df(x + 1e-6 * d) - df(x - 1e-6 * d)) / 2e-6, rtol=1e-6, atol=1e-6)


@needs_llvmlite
def test_equal_kernels_are_one_function():
    from inside import Kernels

    def kernels(rounds):
        def f(x):
            for _ in range(rounds):
                x = x + 0.1 * np.sin(x) * np.sum(x)
            return np.sum(x)

        return Kernels(fused_of(sd.grad(f, scalarize=False, loops="unroll").graph(np.ones(50))))

    few, many = kernels(10), kernels(100)
    assert len(many.nests) > 8 * len(few.nests) and len(many.texts) == len(few.texts) <= 12
    assert len(set(many.builtins().values())) == len(set(few.builtins().values())) <= 12


@needs_llvmlite
def test_kernels_of_one_path_serve_the_next(monkeypatch):
    from inside import kernels

    compiled = []
    original = kernels.Kernels._compiled
    monkeypatch.setattr(
        kernels.Kernels, "_compiled", lambda self, places: compiled.append(len(places)) or original(self, places)
    )
    made = weakref.WeakValueDictionary()
    monkeypatch.setattr(kernels.Kernels, "_made", made)
    df = sd.grad(newton, paths="guard", loops="unroll")
    for scale in (1.0, 2.0, 0.3):
        df(scale * CASES[newton])
    assert len(compiled) == 3 and sum(compiled[1:]) <= compiled[0] // 2
    assert made
    del df
    gc.collect()
    assert not made


def test_free_arrays_are_used_again():
    plan = Plain(simulated, loops="unroll").compile(CASES[simulated])
    from inside import plan_of

    assert len(plan_of(plan.program).slots) < 8


def test_long_paths_are_kept_where_the_arguments_choose_one(monkeypatch):
    monkeypatch.setattr(paths, "MERGED", 1000)
    graph = sd.trace(newton, CASES[newton])
    assert "1 path, kept with its" in str(graph) and len(graph.bindings) < 500
    assert "26 paths merged" in str(sd.trace(newton, sd.Spec((N,))))


# -- points on different paths


def root(a):
    x = 1.0 + a
    while abs(x * x - a) > 1e-12 * a:
        x = x - (x * x - a) / (2.0 * x)
    return x


def nearer(a, x):
    return x if abs(x * x - a) <= 1e-12 * a else nearer(a, x - (x * x - a) / (2.0 * x))


def test_points_are_grouped_by_their_paths(monkeypatch):
    traced = []
    original = Function._traced_at
    monkeypatch.setattr(Function, "_traced_at", lambda self, *a, **k: traced.append(1) or original(self, *a, **k))
    df = sd.vmap(sd.value_and_grad(lambda a: nearer(a, 1.0 + a)))  # no loop that could count its rounds
    a = np.random.default_rng(0).uniform(0.01, 1e4, 500)
    for _ in range(2):
        value, slope = df(a)
        np.testing.assert_allclose(value, np.sqrt(a), rtol=1e-12)
        np.testing.assert_allclose(slope, 0.5 / np.sqrt(a), rtol=1e-6)
    assert 5 <= len(traced) <= 20  # one trace for each number of rounds
    out = np.empty(500), np.empty(500)
    assert df(a, out=out) is out
    np.testing.assert_array_equal(out[0], value)
    with pytest.raises(sd.ShapeError, match=r"result 0 has shape \(3,\), \(500,\) expected"):
        df(a, out=(np.empty(3), np.empty(500)))
    with pytest.raises(sd.ShapeError, match=r"\[0\] points"):
        df(np.array([]))


@pytest.mark.parametrize("axis", [0, -1])
def test_groups_of_arrays_shared_arguments_and_other_transforms(axis):
    def shrunk(x, limit, k=0.5):
        while np.sum(x * x) > limit:
            x = x * k
        return x * x

    points = np.random.default_rng(1).uniform(-4.0, 4.0, (7, 3))
    x = points if axis == 0 else np.ascontiguousarray(points.T)
    found = sd.vmap(sd.jacobian(shrunk), in_axes=(axis, None), out_axes=0)(x, 1.0)
    last = sd.vmap(sd.jacobian(shrunk), in_axes=(axis, None), out_axes=-1)(x, 1.0)
    single = sd.jacobian(shrunk)
    expected = np.stack([single(p, 1.0) for p in points])
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(np.moveaxis(last, -1, 0), expected, rtol=1e-14)
    tangent = np.ones_like(x)
    pushed = sd.vmap(sd.jvp(lambda x: shrunk(x, 1.0)), in_axes=axis, out_axes=0)(x, tangent)
    np.testing.assert_allclose(pushed[1], expected.sum(-1), rtol=1e-14)


def test_points_of_whole_arrays_integers_and_nested_transforms():
    x = np.stack([CASES[conjugate_gradients], 2 * CASES[conjugate_gradients]])
    found = sd.vmap(sd.grad(conjugate_gradients))(x)
    np.testing.assert_allclose(found, [sd.grad(conjugate_gradients)(row) for row in x], rtol=1e-12)
    np.testing.assert_allclose(sd.vmap(sd.grad(root))(np.array([2, 3])), 0.5 / np.sqrt([2, 3]), rtol=1e-6)
    np.testing.assert_allclose(
        sd.derivative(root)(np.array([[2.0, 3.0], [4.0, 5.0]])), [[0.353553, 0.288675], [0.25, 0.223607]], 1e-5
    )
    nested = sd.grad(lambda s: np.sum(sd.vmap(sd.grad(root))(s * np.array([2.0, 3.0]))))(1.5)
    assert nested == pytest.approx(-0.25 * 1.5**-1.5 * np.sum(np.array([2.0, 3.0]) ** -0.5), rel=1e-4)


def test_an_exception_at_a_point_of_a_group():
    def f(a):
        if a > 50.0:
            raise ValueError(f"large: {a}")
        return root(a)

    df = sd.vmap(sd.grad(f))
    np.testing.assert_allclose(df(np.array([2.0, 3.0, 40.0])), 0.5 / np.sqrt([2.0, 3.0, 40.0]), rtol=1e-6)
    with pytest.raises(ValueError, match=r"large: 60.0") as caught:
        df(np.array([2.0, 60.0]))
    assert caught.value.__notes__ == ["at point 1"]


def test_groups_with_results_of_different_shapes():
    with pytest.raises(sd.ShapeError, match="different structures or shapes"):
        sd.vmap(sd.jacobian(lambda x: (x, x) if x > 0 else x))(np.array([1.0, -1.0]))


@pytest.mark.parametrize("transform", [sd.grad, sd.value_and_grad, sd.derivative])
def test_points_have_rounds_of_their_own(transform):
    points = np.array([0.0, 1e-3, 1.0, 2.0, 1e4, np.nan])
    df = transform(root) if transform is sd.derivative else sd.vmap(transform(root))
    one = transform(root)
    expected = np.array([one(a) for a in points]).T
    np.testing.assert_allclose(np.array(df(points)), expected, rtol=1e-12)
    (kernel,) = df._compiled.values()
    if transform is sd.derivative:  # a vmap of itself
        (kernel,) = kernel._compiled.values()
    assert not NATIVE or "loop" in {node.op for node in kernel.program.nodes}


def pendulum(p):
    angle, speed = p[0], p[1]
    for _ in range(300):
        angle, speed = angle + 0.01 * speed, speed - 0.01 * math.sin(angle) * p[2]
    return angle


@pytest.mark.parametrize("transform", [sd.grad, sd.jacobian, sd.hessian, sd.value_and_grad])
def test_long_loops_are_kept_over_points_and_in_matrices_of_few_columns(transform):
    points = np.random.default_rng(3).uniform(0.5, 1.5, (5, 3))
    df = sd.vmap(transform(pendulum))
    found, one = df(points), transform(pendulum)
    plain = transform(pendulum, loops="unroll")
    for k, p in enumerate(points):
        parts = [v if isinstance(v, tuple) else (v,) for v in (found, one(p), plain(p))]
        for at_points, kept, written_out in zip(*parts, strict=True):
            np.testing.assert_allclose(at_points[k], kept, rtol=1e-9)
            np.testing.assert_allclose(kept, written_out, rtol=1e-9)
    assert sum(1 for b in one.graph(points[0]).bindings if b.op == "loop") > 0


# -- the table of paths


def rounds(x):
    k = 0
    while k < x[0]:
        k += 1
    return k * x[1] * x[1]


def test_the_path_taken_last_is_looked_at_first(monkeypatch):
    monkeypatch.setattr(branching, "KEPT_PATHS", 3)
    traced = []
    original = Function._traced_at
    monkeypatch.setattr(Function, "_traced_at", lambda self, *a, **k: traced.append(1) or original(self, *a, **k))
    df = sd.grad(rounds, paths="guard")

    def ask(n):
        np.testing.assert_array_equal(df(np.array([n - 0.5, 3.0])), [0.0, 6.0 * n])

    for n in (1, 2, 3, 1, 4, 1):
        ask(n)
    assert len(traced) == 4  # 1 was taken after 2, so that 4 takes the place of 2
    ask(2)
    assert len(traced) == 5
    kept = next(iter(df._compiled.values())).kept
    assert [k.branches.paths for k in kept] == [3, 2, 5]


def test_a_limit_that_rounding_moves_is_not_compiled_again(monkeypatch):
    """Where the compiled condition sees the arguments on the other side, the path is traced, found again and taken."""
    compiled = []
    original = branching.compiled_of
    monkeypatch.setattr(sys.modules[Function.__module__], "compiled_of", lambda *a: compiled.append(1) or original(*a))
    df = sd.value_and_grad(rounds, paths="guard")
    x = np.array([0.5, 3.0])
    assert df(x)[0] == 9.0
    monkeypatch.setattr(branching.Guarded, "attempt", lambda self, leaves, out=None: branching.MISS)
    df._door = None
    for _ in range(3):
        value, slope = Function._call(df, (x,), {}, None)
        assert value == 9.0 and slope[1] == 6.0
    assert len(compiled) == 1


def test_a_guarded_path_writes_nothing_where_it_is_not_taken():
    compiled = sd.value_and_grad(runge_kutta, loops="unroll").compile(CASES[runge_kutta])
    value, slope = np.full((), 7.0), np.full(N, 7.0)
    with pytest.raises(sd.TraceError, match="other arguments"):
        compiled(100.0 * CASES[runge_kutta], out=(value, slope))
    assert value == 7.0 and np.all(slope == 7.0)
    compiled(CASES[runge_kutta], out=(value, slope))
    assert value == pytest.approx(runge_kutta(CASES[runge_kutta]), rel=1e-12)


def test_threads_over_paths_of_arrays():
    df = sd.value_and_grad(newton, paths="guard")
    scales = [0.2 * k + 0.05 for k in range(6)]
    wanted = [newton(s * CASES[newton]) for s in scales]
    found = {}

    def work(start):
        found[start] = [df(scales[(start + k) % 6] * CASES[newton])[0] for k in range(6)]

    workers = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for start, values in found.items():
        np.testing.assert_allclose(values, [wanted[(start + k) % 6] for k in range(6)], rtol=1e-9)


def test_the_limit_of_merging_is_for_given_arguments_only(monkeypatch):
    monkeypatch.setattr(paths, "MERGED", 0)
    f = sd.grad(lambda x: x * x if x > 0 else -x)
    assert f(2.0) == 4.0 and f(-2.0) == -1.0
    assert "1 path" in str(sd.trace(f.f, 2.0)) and "2 paths merged" in str(sd.trace(f.f, sd.Spec()))
    assert "2 paths merged" in str(sd.trace(f.f, 2.0, paths="merge"))


def recursive(x, a):
    y = np.zeros(len(x))
    y[0], y[1] = x[0], x[1]
    for n in range(2, len(x)):
        y[n] = 0.3 * x[n] + a * y[n - 1] - 0.2 * y[n - 2]
    return np.sum(y**2)


@needs_llvmlite
def test_large_work_arrays_are_kept_between_calls():
    f, x = sd.grad(recursive), np.linspace(-1, 1, 300_000)
    out = np.empty_like(x)
    f(x, 0.5, out=out)
    tracemalloc.start()
    try:
        f(x, 0.5, out=out)
        f(x, 0.5, out=out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000  # the values of all rounds take 2.4 MB


@needs_llvmlite
def test_threads_have_large_work_arrays_of_their_own():
    calls = []
    for n in (150_000, 200_000, 250_000):
        f, x = sd.grad(recursive), np.cos(np.arange(float(n)))
        calls.append((f, x, f(x, 0.5)))
    wrong = []

    def run():
        for _ in range(5):
            wrong.extend(1 for f, x, expected in calls if not np.array_equal(f(x, 0.5), expected))

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong

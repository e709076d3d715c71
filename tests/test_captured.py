"""Captured arrays: larger ones are inputs read at each call, unless the trace needs their contents."""

import contextvars
import dataclasses
import decimal
import functools
import gc
import os
import pickle
import subprocess
import sys
import threading
import types
import weakref
from collections import namedtuple

import numpy as np
import optree
import pytest
from inside import SMALL, Batched, Watch, hidden_of
from inside import trace as tracing
from threads import together

import symdiff as sd
from symdiff.errors import TraceError

N, K = 40, 3
Pair = namedtuple("Pair", "matrix target")
SHARED = np.arange(100.0)
MATRICES = [np.eye(10), np.ones((10, 10))]
CONFIG = {"table": np.linspace(0.0, 1.0, 100), "rate": 2.0}


def matrix(seed=0, shape=(N, K)):
    return np.random.default_rng(seed).standard_normal(shape)


def residual(X, w):
    return ((X @ w) ** 2).sum()


@pytest.fixture
def traces(monkeypatch):
    """How often a function was traced, as a list of one number."""
    count = [0]
    plain = tracing._traced

    def counted(*args):
        count[0] += 1
        return plain(*args)

    monkeypatch.setattr(tracing, "_traced", counted)
    return count


def slope(f, w):
    """The gradient by differences; the functions here are smooth and of moderate size."""
    h = 1e-5
    return np.array([(f(w + h * e) - f(w - h * e)) / (2 * h) for e in np.eye(len(w))])


# -- functions that read arrays, and what they read


def by_closure():
    X = matrix()
    return (lambda w: residual(X, w)), [X]


def by_global():
    return (lambda w: (SHARED[:K] * w).sum() ** 2 + SHARED.mean() * w[0]), [SHARED]


def by_default():
    X = matrix()

    def f(w, X=X):
        return residual(X, w)

    return f, [X]


def by_keyword_default():
    X = matrix()

    def f(w, *, X=X):
        return residual(X, w)

    return f, [X]


def by_partial():
    X = matrix()
    return functools.partial(residual, X), [X]


def by_partial_keyword():
    X = matrix()

    def f(w, scale, X):
        return scale * residual(X, w)

    return functools.partial(f, scale=2.0, X=X), [X]


def by_attribute():
    class Model:
        def __init__(self, X, y):
            self.X, self.parts = X, {"y": y}

        def loss(self, w):
            r = self.X @ w - self.parts["y"]
            return r @ r

    model = Model(matrix(), matrix(1, (100,))[:N].copy())
    wide = np.zeros(100)
    model.parts["y"] = wide[:N]
    return model.loss, [model.X]


def by_callable_object():
    class Loss:
        def __init__(self, X):
            self.X = X

        def __call__(self, w):
            return residual(self.X, w)

    loss = Loss(matrix())
    return loss, [loss.X]


def by_dataclass():
    @dataclasses.dataclass
    class Setting:
        X: np.ndarray
        scale: float

    setting = Setting(matrix(), 2.0)
    return (lambda w: setting.scale * residual(setting.X, w)), [setting.X]


def by_named_tuple():
    pair = Pair(matrix(), matrix(1, (N, 2)))
    return (lambda w: residual(pair.matrix, w) + pair[1].sum() * w[0]), [*pair]


def by_item():
    return (lambda w: (CONFIG["table"][:K] @ w) ** 2 + CONFIG["table"].sum() * w[1] * CONFIG["rate"]), [CONFIG["table"]]


def by_unpacking():
    pair = (matrix(), matrix(1))

    def f(w):
        X, Y = pair
        return residual(X, w) + residual(Y, w)

    return f, [*pair]


def by_loop():
    parts = [matrix(), matrix(1)]

    def f(w):
        total = 0.0
        for k, X in enumerate(parts):
            total = total + residual(X, w) * (k + 1)
        return total

    return f, parts


def by_comprehension():
    parts = {"a": matrix(), "b": matrix(1)}
    return (lambda w: sum([residual(X, w) for X in parts.values()])), [*parts.values()]


def by_starred_call():
    parts = (matrix(),)
    return (lambda w: residual(*parts, w)), [*parts]


def by_helper():
    X = matrix()

    def helper(w):
        return X @ w

    def f(w):
        return (helper(w) ** 2).sum()

    return f, [X]


def by_inner_derivative():
    X = matrix()
    inner = sd.grad(lambda w: residual(X, w))
    return (lambda w: inner(w) @ w), [X]


def by_module():
    X = matrix()
    module = types.ModuleType("settings")
    module.X = X
    return (lambda w: residual(module.X, w)), [X]


def by_conditional():
    X = matrix()
    return (lambda w: residual(X if w.shape == (K,) else None, w)), [X]


def of_known_shape():
    X = matrix()

    def f(w):
        n = X.shape[0]
        known = isinstance(X, np.ndarray) and X.ndim == 2 and len(X) == n and X.dtype == float
        return residual(np.asarray(X), w) / n * known

    return f, [X]


def of_cells():
    X = matrix()
    return (lambda w: sum(X[i, 0] * w[0] ** 2 + X[i, 1] * w[1] for i in range(X.shape[0]))), [X]


def of_numbers():
    X = matrix()
    return (lambda w: float(X[0, 0]) * w[0] + abs(X[1, 1]) * w[1] ** 2), [X]


def of_copy():
    X = matrix()

    def f(w):
        Y = X.copy()
        Y[0] = w
        Y[1:3] += 1.0
        return (Y**2).sum()

    return f, [X]


def of_columns():
    X = matrix()
    return (lambda w: ((X - X.mean(axis=0)) @ w).std() + X.T[0] @ X[:, 1] * w[2] ** 2), [X]


def of_paths():
    X = matrix()

    def f(w):
        r = X @ w
        return r @ r if w[0] > 0 else r.sum()

    return f, [X]


def of_single_precision():
    X = matrix().astype(np.float32)
    return (lambda w: residual(X, w)), [X]


def of_transposed():
    X = np.asfortranarray(matrix())
    return (lambda w: residual(X, w)), [X]


def of_strided():
    X = matrix(shape=(2 * N, 2 * K))[::2, ::-2]
    return (lambda w: residual(X, w)), [X]


def of_overlapping():
    X = matrix()
    Y = X[1:]
    return (lambda w: residual(X, w) + residual(Y, w)), [X]


READ = [
    by_closure, by_global, by_default, by_keyword_default, by_partial, by_partial_keyword, by_attribute, by_callable_object,
    by_dataclass, by_named_tuple, by_item, by_unpacking, by_loop, by_comprehension, by_starred_call, by_helper,
    by_inner_derivative, by_module, by_conditional, of_known_shape, of_cells, of_numbers, of_copy, of_columns, of_paths,
    of_single_precision, of_transposed, of_strided, of_overlapping,
]  # fmt: skip
W = np.array([0.5, -1.0, 2.0])


def change(arrays, k):
    for array in arrays:
        array.flat[k::3] += 0.25
        array.flat[k] *= -1.0


@pytest.mark.parametrize("backend", ["auto", "numpy"])
@pytest.mark.parametrize("make", READ, ids=lambda make: make.__name__)
def test_a_change_is_seen_and_traces_nothing_anew(make, backend, traces):
    f, arrays = make()
    g = sd.grad(f, argnums=-1 if isinstance(f, functools.partial) and f.args else 0, backend=backend)
    if isinstance(f, functools.partial):
        g = sd.grad(lambda w: f(w), backend=backend)
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5, atol=1e-5)
    before = traces[0]
    for k in range(2):
        change(arrays, k)
        np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5, atol=1e-5)
    assert traces[0] == before
    assert not {id(a) for a in arrays} & g._watch.compared


# -- functions that need the contents


def of_condition():
    X = matrix()
    return (lambda w: w @ w if X[0, 0] > 0 else w.sum()), [X]


def of_loop_bound():
    X = matrix()
    return (lambda w: sum(w[0] ** k for k in range(int(abs(X[0, 0]) * 4) + 1))), [X]


def of_index():
    X = matrix() * 3
    return (lambda w: (w[(X[:, 0] > 0).astype(int)]).sum() if False else w[X.astype(int)[:5, 0] % K].sum() ** 2), [X]


def of_mask():
    X = matrix()
    return (lambda w: (X[X[:, 0] > 0] @ w).sum()), [X]


def of_linear_algebra():
    X = matrix(shape=(9, 9))[:, :9] + 9 * np.eye(9)
    return (lambda w: (np.linalg.inv(X)[:K, :K] @ w).sum() ** 2), [X]


def of_handled_error():
    X = matrix(shape=(9, 9))

    def f(w):
        try:
            np.linalg.cholesky(X @ X.T)
        except np.linalg.LinAlgError:
            return w.sum()
        return w @ w

    return f, [X]


def of_sorting():
    X = matrix()
    return (lambda w: np.take(w, np.argsort(X[:, 0])[:5] % K).sum() ** 2), [X]


def of_text():
    X = matrix()
    return (lambda w: float(f"{X[0, 0]:.3f}") * w[0] + float(str(X[1, 0])) * w[1]), [X]


def of_containers():
    return (lambda w: (np.stack(MATRICES).sum(axis=0)[0, :K] * w).sum() + sum(MATRICES)[1, 1] * w[0]), MATRICES


def of_library_callback():
    X = matrix()

    def column(c):
        return X[:, 0] @ X[:, 1] + c.sum()

    return (lambda w: np.apply_along_axis(column, 0, np.ones((2, 2))).sum() * w[0]), [X]


def of_property():
    class Model:
        def __init__(self, X):
            self.X = X

        @property
        def mean(self):
            return self.X.mean()

    model = Model(matrix())
    return (lambda w: model.mean * w[0] ** 2), [model.X]


def of_operator():
    class Table:
        def __init__(self, X):
            self.X = X

        def __mul__(self, other):
            return self.X.sum() * other

        def __getitem__(self, k):
            return self.X.max() + k

    table = Table(matrix())
    return (lambda w: (table * 2.0) * w[0] + table[1] * w[1]), [table.X]


def of_getattr_method():
    class Model:
        def __init__(self, X):
            self.X = X

        def __getattr__(self, name):
            return self.X.sum()

    model = Model(matrix())
    return (lambda w: model.total * w[0]), [model.X]


def of_long_loops():
    X = matrix(shape=(30, 30))
    return (lambda w: sum(sum(v * v + v * k for k in range(8)) for v in X.ravel().tolist()) * w[0]), [X]


def of_swallowed_errors():
    X = matrix()

    def f(w):
        try:
            n = int(X[0, 0] > 0)
        except Exception:
            n = 7
        return w[0] * n + w[1] * hasattr(X, "nbytes") * X.nbytes

    return f, [X]


def of_eval():
    X = matrix()
    return (lambda w: eval("X.sum()", {"X": X}) * w[0]), [X]


def of_iterators():
    return (lambda w: sum(iter(MATRICES))[0, 0] * w[0] + max(m.sum() for m in MATRICES) * w[1]), MATRICES


def of_vmap_inside():
    X = matrix()
    g = sd.vmap(lambda t: X.sum() * t)
    return (lambda w: g(np.arange(3.0)) @ w), [X]


def of_compiled_inside():
    X = matrix()
    c = sd.grad(lambda w: residual(X, w)).compile(W)
    return (lambda w: c(np.ones(3)) @ w), [X]


def of_functions_without_source():
    namespace = {"X": matrix()}
    exec("def f(w): return (X @ w).sum() * X.max()", namespace)
    return namespace["f"], [namespace["X"]]


NEEDED = [
    of_condition, of_loop_bound, of_index, of_mask, of_linear_algebra, of_handled_error, of_sorting, of_text, of_containers,
    of_library_callback, of_property, of_operator, of_getattr_method, of_long_loops, of_swallowed_errors, of_eval, of_iterators,
    of_vmap_inside, of_compiled_inside, of_functions_without_source,
]  # fmt: skip


@pytest.mark.parametrize("make", NEEDED, ids=lambda make: make.__name__)
def test_a_trace_that_needs_the_contents_is_made_anew(make):
    f, arrays = make()
    g = sd.grad(f)
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5, atol=1e-5)
    for k in range(4):
        change(arrays, k)
        np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5, atol=1e-5, err_msg=f"after change {k}")


def test_code_that_needs_all_contents_is_watched():
    f, (X,) = of_condition()
    g = sd.grad(f)
    g(W)
    assert id(X) in g._watch.compared and not g._watch.large


# -- the arrays themselves


def by_name(X):
    """A function of a global `X` of its own, which can be replaced."""
    f = types.FunctionType(GLOBAL.__code__, {"X": X, "__builtins__": __builtins__}, "f")
    return f, f.__globals__


def GLOBAL(w):
    return ((X @ w) ** 2).sum()  # noqa: F821


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_another_array_of_the_same_type_is_taken_and_others_are_traced_anew(backend, traces):
    f, names = by_name(matrix())
    g = sd.grad(f, backend=backend)
    g(W)
    before = traces[0]
    names["X"] = matrix(5)
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5)
    names["X"] = np.asfortranarray(matrix(6))
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5)
    names["X"].flags.writeable = False
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5)
    assert traces[0] == before
    others = [
        matrix()[:30], matrix().astype(np.float32), matrix().tolist(), matrix()[:5], matrix().astype(int), matrix().view(Noted),
        np.ma.masked_array(matrix()), matrix().astype(">f8"),
    ]  # fmt: skip
    for other in others[:6] + others[7:]:
        names["X"] = other
        np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-3, err_msg=str(type(other)))
    assert traces[0] > before


class Noted(np.ndarray):
    """A subclass."""


def test_an_array_that_changes_its_shape_or_dtype_in_place_is_traced_anew():
    X = matrix(shape=(100,))
    Y = matrix(1, (50, 2))

    def f(w):
        return sum((X[..., k] * w[k]).sum() for k in range(X.ndim)) + (Y.sum(axis=0) ** 2).sum() * w[0]

    g = sd.grad(f)
    assert g(W)[0] == pytest.approx(slope(f, W)[0])
    with pytest.warns(DeprecationWarning) if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else NOTHING:
        Y.shape = (2, 50)
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-6, atol=1e-6)


class _Nothing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False


NOTHING = _Nothing()


def test_small_arrays_are_constants_and_compared():
    c = np.array([0.0, 1.0, 2.0, 0.0])

    def f(x):
        return (c * x).sum()

    g = sd.grad(f)
    assert sd.cost(f, np.ones(4)).derivative.operations == 0  # the numbers themselves
    np.testing.assert_array_equal(g(np.ones(4)), c)
    for value in (5.0, -0.0, np.nan):
        c[1] = value
        np.testing.assert_array_equal(g(np.ones(4)), c)
    assert [i.name for i in sd.trace(f, np.ones(4)).inputs] == ["x"]
    wide = np.ones(SMALL + 1)
    assert [i.name for i in sd.trace(lambda x: (wide * x).sum(), 2.0).inputs] == ["x", "wide"]


@pytest.mark.parametrize("dtype", ["f4", "c8", "c16"])
def test_dtypes_of_captured_arrays(dtype):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((30, 3)) + (1j * rng.standard_normal((30, 3)) if dtype[0] == "c" else 0)).astype(dtype)

    def f(w):
        return np.sum(np.abs(X @ w) ** 2)

    g = sd.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(g(W), 2 * (X.conj().T @ X).real @ W, rtol=1e-4)
        X *= 1.5


@pytest.mark.parametrize("dtype", ["i8", "i1", "u2", "?"])
def test_arrays_of_other_dtypes_are_compared_by_content(dtype):
    X = (matrix(shape=(100,)) * 3).astype(dtype)
    g = sd.grad(lambda w: (X * w[0] ** 2).sum())
    assert g(W)[0] == pytest.approx(2 * W[0] * X.sum(dtype=float))
    X[:50] = 1
    assert g(W)[0] == pytest.approx(2 * W[0] * X.sum(dtype=float))


def test_nothing_of_the_size_of_the_arrays_is_compared():
    X = np.ones((1000, 1000))
    g = sd.grad(lambda w: X[3] @ w**2 + X.sum() * w[0])
    g(np.ones(1000))
    assert g._watch.large and not g._watch.compared


def test_captured_arrays_are_not_differentiated_nor_batched():
    X = matrix()

    def f(w, X=X):
        return residual(X, w)

    points = np.random.default_rng(3).standard_normal((6, K))
    many, one = sd.vmap(sd.grad(f)), sd.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(many(points), [one(p) for p in points])
        np.testing.assert_allclose(sd.hessian(f)(W), 2 * X.T @ X)
        value, tangent = sd.jvp(f)(W, points[0])
        assert (value, tangent) == (pytest.approx(f(W)), pytest.approx(one(W) @ points[0]))
        np.testing.assert_allclose(sd.vjp(f)(W, 2.0)[1], 2 * one(W))
        np.testing.assert_allclose(sd.hvp(f)(W, points[0]), 2 * X.T @ X @ points[0])
        np.testing.assert_allclose(sd.jacobian(sd.grad(f))(W), 2 * X.T @ X)
        X[:, 1] += 1.0
    grid = np.linspace(0.0, 1.0, 7)
    slopes = sd.derivative(lambda t: (X * t**2).sum())
    for _ in range(2):
        np.testing.assert_allclose(slopes(grid), 2 * grid * X.sum())
        X *= 0.5


def test_many_points_of_an_unrolled_function():
    table = np.linspace(1.0, 2.0, 100)
    g = sd.vmap(sd.value_and_grad(lambda x, k=None: table[7] * x[0] + table[8] * x[1] ** 2))
    points = np.random.default_rng(0).standard_normal((50, 2))
    for _ in range(3):
        for _ in range(3):
            value, slopes = g(points)
            np.testing.assert_allclose(value, table[7] * points[:, 0] + table[8] * points[:, 1] ** 2)
            np.testing.assert_allclose(slopes[:, 1], 2 * table[8] * points[:, 1])
        table[8] += 1.0


def test_an_array_that_is_an_argument_too():
    X = matrix()

    def f(w, Y):
        return residual(X, w) + (X * Y).sum()

    slope_w, slope_y = sd.grad(f, argnums=(0, 1))(W, X)
    np.testing.assert_allclose(slope_y, X)
    np.testing.assert_allclose(slope_w, 2 * X.T @ (X @ W))


@pytest.mark.parametrize("backend", ["auto", "numpy"])
def test_results_written_into_a_captured_array(backend):
    t = np.linspace(0.0, 1.0, 100)

    def f(x):
        return t[::-1] * x**2

    push = sd.jvp(f, backend=backend)
    x = np.arange(100.0)
    for place in (0, 1, 0):
        wanted = push(x, np.ones(100))
        np.testing.assert_allclose(wanted[0], f(x))
        out = [np.empty(100), np.empty(100)]
        out[place] = t
        push(x, np.ones(100), out=tuple(out))
        np.testing.assert_array_equal(out, wanted)


def test_graphs_show_and_read_what_is_captured():
    f, (X,) = by_closure()
    graph = sd.trace(f, W)
    assert str(graph).startswith("<lambda>" if graph.name == "<lambda>" else "f(w: f64[3], X: f64[40, 3])")
    assert hidden_of(graph).arrays[0].array is X
    X[2] = 7.0
    assert graph(W) == pytest.approx(f(W))
    assert graph(W, np.ones((N, K))) == pytest.approx(residual(np.ones((N, K)), W))
    assert sd.explain(f, W).differentiable
    assert sd.cost(f, W).value.operations > 2 * N


def test_compiled_objects_read_at_each_call_and_take_them_along():
    f, names = by_name(matrix())
    compiled = sd.grad(f).compile(W)
    names["X"][1] = 3.0
    np.testing.assert_allclose(compiled(W), slope(f, W), rtol=1e-6)
    twin = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_allclose(twin(W), compiled(W))
    names["X"] = matrix(4)
    np.testing.assert_allclose(compiled(W), slope(f, W), rtol=1e-6)
    assert not np.allclose(twin(W), compiled(W))
    names["X"] = names["X"][:4]
    with pytest.raises(TraceError, match=r"X, which the function captures, is no float64 array of shape \(40, 3\)"):
        compiled(W)


def test_functions_with_arrays_are_pickled(tmp_path):
    (tmp_path / "model.py").write_text("import numpy as np\nX = np.ones((50, 3))\ndef f(w): return ((X @ w)**2).sum()\n")
    code = (
        "import pickle, sys, numpy as np, symdiff as sd, model\n"
        "g = sd.grad(model.f); a = g(np.ones(3)); h = pickle.loads(pickle.dumps(g)); model.X *= 2\n"
        "assert np.array_equal(h(np.ones(3)), 4*a) and np.array_equal(g(np.ones(3)), 4*a)\n"
        "assert model.X is sd.trace(model.f, np.ones(3)).notes['hidden'].arrays[0].array\n"
    )
    path = [str(tmp_path), *sys.path]
    command = [sys.executable, "-W", "error", "-c", f"import sys; sys.path[:] = {path!r}\n{code}"]
    subprocess.run(command, check=True, capture_output=True)


@pytest.mark.parametrize("make", [sd.grad, sd.value_and_grad, sd.jvp], ids=lambda make: make.__name__)
def test_files_take_captured_arrays_as_arguments(make, tmp_path):
    f, (X,) = by_closure()
    more = (np.ones(K),) if make is sd.jvp else ()
    text = make(f).source(W, *more)
    assert "captures X." in text and f"{X[0, 0]}" not in text
    namespace = {}
    exec(text, namespace)
    entry = namespace[namespace["__all__"][0]]
    wanted = make(f)(W, *more)
    found = entry(W, *more, X)
    for a, b in zip(
        np.atleast_1d(found) if make is sd.grad else found, np.atleast_1d(wanted) if make is sd.grad else wanted, strict=True
    ):
        np.testing.assert_allclose(a, b)
    with pytest.raises(ValueError, match="X has shape"):
        entry(W, *more, X[:3])


def test_files_of_small_arrays_hold_their_numbers():
    c = np.array([1.5, 2.5])
    text = sd.grad(lambda x: (c * x**2).sum()).source(np.ones(2), target="c")
    assert "3.0" in text and "5.0" in text


def test_threads_call_while_the_array_changes():
    X = np.ones((200, K))
    g = sd.grad(lambda w: residual(X, w))
    g(W)
    allowed = {tuple(2 * k * k * X.T @ (X @ W)) for k in (1.0, 2.0)}
    wrong = []

    def call():
        for _ in range(300):
            found = g(W)
            if not np.all(np.isfinite(found)):
                wrong.append(found)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for k in range(100):
        X[...] = 1.0 + k % 2
    for thread in threads:
        thread.join()
    assert not wrong and len(allowed) == 2
    np.testing.assert_allclose(g(W), 2 * X.T @ (X @ W))


# -- calls that look first: numbers and small arrays


def looked_at_first(g):
    """Whether calls go to machine code after a look at what is captured."""
    return g._guard is not None


def test_captured_numbers_are_looked_at_in_machine_code():
    pytest.importorskip("llvmlite")
    rate, limits, names, table = 2.0, [1.0, 2.0], {"a": 3.0}, np.array([1.0, 2.0])

    def f(x, power=2.0, *, shift=1.0):
        return rate * x * limits[0] + names["a"] * x**power + table[1] * x + shift

    g = sd.grad(f)

    def right():
        for _ in range(3):
            assert g(2.0) == pytest.approx((f(2.0 + 1e-6) - f(2.0 - 1e-6)) / 2e-6)
        return looked_at_first(g)

    assert right()
    rate = 5.0
    assert right()
    limits[0] = 7.0
    assert right()
    limits.append(1.0)
    assert right()
    names["a"] = -1.0
    assert right()
    names["b"] = 1.0
    assert right()
    del names["b"]
    assert right()
    names = {"a": 8.0}
    assert right()
    table[1] = 4.0
    assert right()
    table = np.array([1.0, -2.0])
    assert right()
    f.__defaults__ = (3.0,)
    assert right()
    f.__kwdefaults__ = {"shift": 2.0}
    assert right()
    f.__kwdefaults__["shift"] = 9.0
    assert right()


def test_machine_code_asks_python_about_other_containers():
    rates = {2.0}
    g = sd.grad(lambda x: max(rates) * x * x)
    for value in (2.0, 3.0):
        rates.add(value)
        assert g(1.0) == g(1.0) == 2 * value
        assert looked_at_first(g)


def test_signatures_share_what_is_looked_at():
    rate = 2.0
    g = sd.grad(lambda x: (rate * x**2).sum())
    for _ in range(4):
        assert g(1.0) == 2 * rate
        np.testing.assert_array_equal(g(np.ones(3)), np.full(3, 2 * rate))
        rate += 1.0
    assert len(g._guards) <= 8


def test_many_numbers_and_arrays_at_once():
    numbers = {f"n{k}": float(k) for k in range(300)}
    tables = [np.full(100, float(k)) for k in range(20)]

    def f(x):
        total = 0.0
        for k in range(300):
            total = total + numbers[f"n{k}"] * x
        for table in tables:
            total = total + table[5] * x
        return total

    g = sd.grad(f)
    for _ in range(2):
        assert g(1.0) == g(1.0) == pytest.approx(f(1.0))
        numbers["n7"] += 1.0
        tables[3][5] = -1.0
        tables[4] = np.ones(100)


def test_unloaded_names_raise_as_python_does():
    f, names = by_name(matrix())
    g = sd.grad(f)
    g(W)
    del names["X"]
    with pytest.raises(NameError):
        g(W)
    names["X"] = matrix(2)
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5)
    names["X"] = matrix(3)  # a name that was missing is watched again
    np.testing.assert_allclose(g(W), slope(f, W), rtol=1e-5)


def test_attributes_that_were_missing_are_watched_again():
    setting = types.SimpleNamespace(rate=2.0)
    g = sd.grad(lambda x: setting.rate * x * x)
    del setting.rate
    with pytest.raises(AttributeError, match="rate"):
        g(1.0)
    for rate in (3.0, 4.0):
        setting.rate = rate
        assert g(1.0) == 2 * rate


@pytest.mark.parametrize("points", [False, True])
def test_what_another_thread_finds_stale_while_a_call_traces_is_not_kept(monkeypatch, points):
    rate = 2.0
    g = sd.grad(lambda x: rate * x * x)
    f, x = (sd.vmap(g), np.ones(2)) if points else (g, 1.0)
    settings = iter([3.0])
    built, name = (g, "_built") if points else (g, "specialised")
    inside = getattr(built, name)

    def overtaken(*args, **kwargs):
        nonlocal rate
        found = inside(*args, **kwargs)
        rate = next(settings, rate)
        f.refresh()  # as by a call in another thread
        return found

    monkeypatch.setattr(built, name, overtaken)
    np.testing.assert_array_equal(f(x), 4.0 * x)
    np.testing.assert_array_equal(f(x), 6.0 * x)


def test_lists_that_are_emptied_and_filled_again():
    values = [np.ones(100), 2.0]
    g = sd.grad(lambda x: np.sum(values[0] * x * x) * values[1])
    assert g(np.ones(100))[0] == g(np.ones(100))[0] == 4.0
    values.clear()
    with pytest.raises(IndexError):
        g(np.ones(100))
    values += [np.full(100, 3.0), 1.0]
    assert g(np.ones(100))[0] == 6.0
    values.append(0.0)
    h = sd.grad(lambda x: values[len(values) - 1] * x * x)
    assert h(1.0) == h(1.0) == 0.0
    values.pop()
    assert h(1.0) == 2.0


def test_arrays_in_whose_place_others_stand_are_released():
    table, rate = np.ones(100), 1.0
    g = sd.grad(lambda x: np.sum(table * x * x) * rate)
    earlier = []
    for k in range(5):
        table, rate = np.full(100, float(k)), rate + 1.0
        assert g(np.ones(100))[0] == g(np.ones(100))[0] == 2 * k * rate
        earlier.append(weakref.ref(table))
    gc.collect()
    assert sum(found() is not None for found in earlier) == 1


def test_an_array_of_another_shape_in_the_middle_of_a_call(monkeypatch):
    table = np.ones((100, 4))
    g = sd.grad(lambda x: np.sum((table @ x) ** 2))
    shapes = iter([(50, 4)])
    inside = g._call

    def overtaken(*args):
        nonlocal table
        table = np.ones(next(shapes, table.shape))  # as by another thread, after what is captured has been looked at
        return inside(*args)

    np.testing.assert_array_equal(g(np.ones(4)), 800.0)
    monkeypatch.setattr(g, "_call", overtaken)
    np.testing.assert_array_equal(g._long_way(np.ones(4)), 400.0)


def test_an_array_that_a_slower_thread_has_found_takes_no_place():
    held = {"table": np.ones(100)}
    g = sd.grad(lambda x: np.sum(held["table"]) * x * x)
    assert g(1.0) == g(1.0) == 200.0
    (captured,) = g._watch.large
    earlier, held["table"] = held["table"], np.full(100, 2.0)
    assert g(1.0) == g(1.0) == 400.0
    captured.array = earlier
    g._guard.refresh(g._guard.versions())
    assert g(1.0) == g(1.0) == 400.0


def test_keys_whose_comparison_raises_go_the_long_way():
    class Key(str):
        __hash__ = str.__hash__

        def __eq__(self, other):
            raise RuntimeError("no key is like this one")

    rates = {"rate": 2.0}
    g = sd.grad(lambda x: rates["rate"] * x * x)
    assert g(1.0) == g(1.0) == 4.0
    del rates["rate"]
    rates[Key("rate")] = 3.0
    with pytest.raises(RuntimeError, match="no key"):
        g(1.0)


# -- what else is noticed


def test_rebinding_of_containers_objects_and_partial_arguments_is_noticed():
    setting = types.SimpleNamespace(rate=2.0)
    rates = [1.0, 2.0]
    g = sd.grad(lambda x: setting.rate * x * x + rates[1] * x)
    assert g(1.0) == 6.0
    rates = [1.0, 5.0]
    assert g(1.0) == 9.0
    setting = types.SimpleNamespace(rate=3.0)
    assert g(1.0) == 11.0
    table = np.array([1.0, 2.0])
    h = sd.grad(functools.partial(lambda table, x: table[1] * x * x, table), argnums=-1)
    assert h(1.0) == 4.0
    table[1] = 3.0
    assert h(1.0) == 6.0


def own_local():
    held = threading.local()
    return (lambda x: held.k * x * x), lambda k: setattr(held, "k", float(k)), float


def own_context():
    held = contextvars.ContextVar("held", default=0.0)
    return (lambda x: held.get() * x * x), lambda k: held.set(float(k)), float


def own_precision():
    number = decimal.Decimal("1.23456789")
    return (lambda x: float(+number) * x * x), lambda k: setattr(decimal.getcontext(), "prec", 3 + k), lambda k: float(+number)


def own_error_state():
    modes = ["ignore", "warn", "print"]
    return (lambda x: len(np.geterr()["over"]) * x * x), lambda k: np.seterr(over=modes[k % 3]), lambda k: len(modes[k % 3])


WAYS = [sd.grad, lambda f: sd.vmap(sd.grad(f)), functools.partial(sd.grad, backend="numpy"), sd.derivative, sd.grad]


@pytest.mark.parametrize("wrap", WAYS, ids=["grad", "vmap", "numpy", "derivative", "keywords"])
@pytest.mark.parametrize("kind", [own_local, own_context, own_precision, own_error_state])
def test_each_thread_has_its_own_state(kind, wrap, request):
    f, put, factor = kind()
    g, name = wrap(f), request.node.callspec.id
    point = np.array([0.5, 0.5]) if "vmap" in name or "derivative" in name else 0.5
    at = {"x": point} if "keywords" in name else {}

    def work(first):
        seen = []
        for k in range(first, first + 12):
            put(k)
            seen.append((float(np.ravel(g(**at) if at else g(point))[0]), factor(k)))
        return seen

    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        found = together(work, range(4))
    finally:
        sys.setswitchinterval(switching)
    assert all(given == expected for thread in found for given, expected in thread)


def in_a_thread(work):
    (found,) = together(lambda _: work(), range(1))
    return found


def test_what_another_thread_has_forgotten_is_no_short_way(monkeypatch):
    f, put, factor = own_error_state()
    g, point = sd.vmap(sd.grad(f)), np.ones(2)
    machine = Batched.machine

    def overtaken(kernel):
        monkeypatch.setattr(Batched, "machine", machine)
        in_a_thread(lambda: (put(1), g.refresh()))
        return machine.fget(kernel)

    put(0)
    assert g(point)[0] == 2 * factor(0)
    monkeypatch.setattr(Batched, "machine", property(overtaken))
    for k in (0, 1, 2, 1):
        put(k)
        assert g(point)[0] == 2 * factor(k)


def test_nothing_is_kept_of_what_several_threads_have_their_own_of(monkeypatch):
    f, put, factor = own_local()
    g = sd.grad(lambda x: f(x) * len(np.geterr()["over"]))
    begin, modes = Watch.begin, {6: "ignore", 4: "warn"}

    def work(k, n):
        put(k)
        with np.errstate(over=modes[n]):
            assert g(1.0) == 2 * factor(k) * n

    def overtaken(watch):
        monkeypatch.setattr(Watch, "begin", begin)
        in_a_thread(lambda: (put(1), begin(watch)))  # as another thread that traces at the same time
        begin(watch)

    monkeypatch.setattr(Watch, "begin", overtaken)
    for k, n in ((2, 6), (1, 6), (1, 4), (2, 6)):
        work(k, n)
        in_a_thread(lambda k=k, n=n: work(3 - k, n))


INSIDE = {
    "grad": (sd.grad, 2.0, {}),
    "keywords": (sd.grad, None, {"x": 2.0}),
    "numpy": (functools.partial(sd.grad, backend="numpy"), 2.0, {}),
    "value": (sd.value_and_grad, 2.0, {}),
    "derivative": (sd.derivative, np.array([2.0, 3.0]), {}),
    "vmap": (lambda f: sd.vmap(sd.grad(f)), np.array([2.0, 3.0]), {}),
    "vmap of a function": (sd.vmap, np.array([2.0, 3.0]), {}),
    "structure": (lambda f: sd.grad(lambda p: f(p["x"])), {"x": 2.0}, {}),
}


def reads_settings():
    return (lambda x: len(np.geterr()["over"]) * x * x), lambda k: np.seterr(over=("ignore", "warn")[k])


def reads_environment():
    return (lambda x: float(os.environ["SYMDIFF_RATE"]) * x * x), lambda k: os.environ.update(SYMDIFF_RATE=str(k))


def reads_array():
    table = np.ones(100)
    return (lambda x: table.sum() * x * x), lambda k: table.fill(float(k))


@pytest.mark.parametrize("calls", [0, 3])
@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("read", [reads_settings, reads_environment, reads_array])
def test_what_a_derivative_reads_is_read_where_another_trace_calls_it(read, name, calls, monkeypatch):
    monkeypatch.setenv("SYMDIFF_RATE", "1")
    make, point, named = INSIDE[name]
    points = () if named else (point,)
    with np.errstate():
        f, put = read()
        inner = make(f)
        outer = sd.grad(lambda x: total(inner(*points, **named)) * x)
        put(1)
        for _ in range(calls):
            inner(*points, **named)
        for k in (1, 0, 1):
            put(k)
            expected = total(make(f)(*points, **named))
            assert outer(1.0) == outer(1.0) == expected == total(inner(*points, **named))


def total(found):
    return sum(np.sum(part) for part in optree.tree_leaves(found))


def test_points_of_a_vmap_inside_that_reads_traced_values():
    f = sd.grad(lambda x: np.sum(sd.vmap(sd.grad(lambda t: t * t * x))(np.arange(3.0))) * x)
    assert f(2.0) == 24.0

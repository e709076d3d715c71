"""Calls: shapes, dtypes, `out=`, aliasing, threads, pickling, and clear errors."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from threads import together

import symdiff as sd


def f(x):
    return np.sum(x**3) + x[0] * x[1]


def df(x):
    result = 3 * x**2
    result[0] += x[1]
    result[1] += x[0]
    return result


X = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_dtypes_and_shapes_are_kept(dtype):
    x = X.astype(dtype)
    value, gradient = sd.value_and_grad(f)(x)
    assert type(value) is dtype and gradient.dtype == dtype and gradient.shape == (3,)
    np.testing.assert_allclose(gradient, df(x))


def test_integers_that_are_differentiated_count_as_float64():
    assert sd.grad(lambda x: x**2)(3) == 6.0
    gradient = sd.grad(f)(np.array([1, 2, 3]))
    assert gradient.dtype == np.float64
    np.testing.assert_array_equal(gradient, df(X))


def test_integers_that_are_not_differentiated_are_static():
    g = sd.grad(lambda x, n: x**n)
    assert g(2.0, 3) == 12.0 and g(2.0, 2) == 4.0


@pytest.mark.parametrize("backend", ["auto", "python", "numpy"])
def test_layouts(backend):
    g = sd.grad(f, backend=backend)
    spaced = np.zeros(6)
    spaced[::2] = X
    for x in (X, spaced[::2], X[::-1][::-1], X.astype(">f8")):
        np.testing.assert_array_equal(g(x), df(X))
    matrix = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(sd.grad(lambda a: np.sum(a**2))(matrix), 2 * matrix)


@pytest.mark.parametrize("backend", ["auto", "python", "numpy"])
def test_out(backend):
    g = sd.grad(f, backend=backend)
    out = np.full(3, np.nan)
    assert g(X, out=out) is out
    np.testing.assert_array_equal(out, df(X))
    strided = np.zeros(6)
    assert g(X, out=strided[::2]).base is strided
    np.testing.assert_array_equal(strided, [*np.column_stack([df(X), np.zeros(3)]).ravel()])
    overlapping = X.copy()
    g(overlapping, out=overlapping)
    np.testing.assert_array_equal(overlapping, df(X))
    value, gradient = np.empty(()), np.empty(3)
    both = sd.value_and_grad(f, backend=backend)
    assert both(X, out=(value, gradient))[1] is gradient
    assert value == f(X)


def test_results_never_share_memory():
    for g in (sd.grad(f), sd.grad(f, backend="numpy"), sd.vmap(sd.grad(f))):
        x = X if g.suffix != "vmap" else np.stack([X, X])
        first, second = g(x), g(x)
        assert not np.may_share_memory(first, second) and first.flags.owndata and first.flags.writeable


@pytest.mark.parametrize(
    ("out", "word"),
    [
        (np.empty(2), "shape"),
        (np.empty(3, np.float32), "dtype"),
        ([0.0, 0.0, 0.0], "structure"),
        ("text", "array"),
    ],
)
def test_wrong_out_is_refused(out, word):
    with pytest.raises(sd.ShapeError, match=word):
        sd.grad(f)(X, out=out)


def test_read_only_out_is_refused():
    out = np.empty(3)
    out.flags.writeable = False
    with pytest.raises(sd.ShapeError, match="writeable"):
        sd.grad(f)(X, out=out)


def test_out_keeps_its_content_when_a_call_is_refused():
    out = np.zeros(3)
    with pytest.raises(sd.SymdiffError):
        sd.grad(f)(np.array(["a", "b", "c"]), out=out)
    np.testing.assert_array_equal(out, 0)


def test_other_shapes_are_specialised():
    g = sd.grad(lambda x: np.sum(x**2))
    for shape in ((3,), (2, 2), (), (1,), (0,)):
        x = np.ones(shape)
        assert np.shape(g(x)) == shape
        np.testing.assert_array_equal(g(x), 2 * x)


def test_nan_and_infinities_pass_through():
    g = sd.value_and_grad(lambda x: np.exp(x))
    assert g(1000.0) == (np.inf, np.inf)
    value, slope = g(np.nan)
    assert np.isnan(value) and np.isnan(slope)
    assert sd.grad(np.log)(0.0) == np.inf and sd.value_and_grad(np.log)(0.0)[0] == -np.inf
    assert sd.value_and_grad(lambda x: 1 / x)(0.0) == (np.inf, -np.inf)


def test_wrong_arguments():
    g = sd.grad(lambda x, y: x * y)
    with pytest.raises(TypeError):
        g(1.0)
    with pytest.raises(TypeError):
        g(1.0, 2.0, 3.0)
    with pytest.raises(sd.ShapeError, match="argnums"):
        sd.grad(lambda x: x, argnums=1)(1.0)
    with pytest.raises(sd.ShapeError, match="scalar"):
        sd.grad(lambda x: x)(X)
    with pytest.raises(sd.TraceError):
        sd.grad(lambda s: 1.0)("text")
    with pytest.raises(sd.BackendError):
        sd.grad(f, backend="fortran")


def test_keywords_defaults_and_structures():
    def g(x, *, scale=2.0):
        return scale * x["a"] * x["b"][1]

    gradient = sd.grad(g)({"a": 2.0, "b": [1.0, 3.0]}, scale=10.0)
    assert gradient == {"a": 30.0, "b": [0.0, 20.0]}
    assert sd.grad(g)({"a": 2.0, "b": [1.0, 3.0]})["a"] == 6.0
    first, second = sd.grad(lambda x, y: x * y**2, argnums=(0, 1))(2.0, 3.0)
    assert (first, second) == (9.0, 12.0)


def power(x, n, scale=1.0, sign=True, label="plus"):
    return (x**n if sign else -(x**n)) * (scale if label == "plus" else -scale)


SHORT = [
    (sd.grad(power), lambda n: ((2.0, n), {}), lambda n: n * 2.0 ** (n - 1)),
    (sd.grad(power), lambda n: ((2.0, 3), {"scale": float(n)}), lambda n: 12.0 * n),
    (sd.grad(power), lambda n: ((), {"n": n, "x": 2.0, "label": "minus"}), lambda n: -n * 2.0 ** (n - 1)),
    (sd.grad(power), lambda n: ((2.0, 3), {"sign": n == 2}), lambda n: 12.0 if n == 2 else -12.0),
    (sd.grad(lambda x: x**2), lambda n: ((n,), {}), lambda n: 2.0 * n),
    (sd.grad(lambda x: x**2), lambda n: ((np.int32(n),), {}), lambda n: 2.0 * n),
    (sd.grad(lambda x: x[0] * x[1] ** 2), lambda n: (([3.0, float(n)],), {}), lambda n: [n * n, 6.0 * n]),
    (sd.hvp(power), lambda n: ((2.0, n, 1.0), {}), lambda n: n * (n - 1) * 2.0 ** (n - 2)),
    (sd.jacobian(lambda x, n: x**n), lambda n: ((X, n), {}), lambda n: np.diag(n * X ** (n - 1))),
]


@pytest.mark.parametrize(("function", "given", "expected"), SHORT)
def test_static_named_and_integer_arguments_have_a_short_way(monkeypatch, function, given, expected):
    for n in (2, 3, 4):
        for _ in range(2):
            args, kwargs = given(n)
            np.testing.assert_allclose(function(*args, **kwargs), expected(n), rtol=1e-14)
    monkeypatch.setattr(function, "_call", lambda *args: pytest.fail("the long way"))
    for n in (4, 2, 3):
        args, kwargs = given(n)
        np.testing.assert_allclose(function(*args, **kwargs), expected(n), rtol=1e-14)


BY_NAME = [
    ((1.5, 3), {}), ((1.5,), {"n": 3}), ((), {"n": 3, "x": 1.5}), ((1.5,), {"label": "minus", "n": 3}),
    ((1.5,), {"n": 3, "scale": 2.0}), ((1.5,), {"scale": 2.0, "n": 3}), ((1.5, 3), {"sign": False}), ((1.5, 2), {"sign": True}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "kwargs"), BY_NAME)
def test_static_arguments_by_name_go_to_machine_code_as_those_by_position_do(monkeypatch, args, kwargs):
    def expected(args, kwargs):
        n, named = (args[1:] or (kwargs.get("n"),))[0], {k: v for k, v in kwargs.items() if k not in ("x", "n")}
        return n * power(1.5, n - 1, **named)

    df = sd.grad(power)
    for others, named in (*BY_NAME, (args, kwargs)):  # the one that is new last is the quickest
        for _ in range(3):
            np.testing.assert_allclose(df(*others, **named), expected(others, named), rtol=1e-14)
    df = sd.grad(power)
    df(*args, **kwargs)
    monkeypatch.setattr(df, "_long_way", lambda *args, **kwargs: pytest.fail("the long way"))
    np.testing.assert_allclose(df(*args, **kwargs), expected(args, kwargs), rtol=1e-14)


def test_short_ways_tell_static_values_from_equal_ones():
    g = sd.grad(lambda x, n: x**2 if n is True else 3 * x)
    assert [g(2.0, n) for n in (True, 1, True, 1)] == [4.0, 3.0, 4.0, 3.0]
    scale = 1.0
    h = sd.grad(lambda x, n: scale * x**n)
    assert h(2.0, 3) == h(2.0, 3) == 12.0
    scale = 2.0
    assert h(2.0, 3) == 24.0
    with pytest.raises(sd.SymdiffError, match=r"unexpected|argument"):
        h(2.0, m=3)
    whole = sd.grad(lambda x: np.sum(x * x))
    assert whole(np.arange(1, 3)).tolist() == whole(np.arange(1, 3)).tolist() == [2.0, 4.0]
    assert whole(np.array([3])).tolist() == whole(np.array([3])).tolist() == [6.0]


def test_threads():
    g = sd.vmap(sd.grad(f))
    points = np.random.default_rng(1).standard_normal((8, 20_000, 3))
    expected = [np.stack([df(p) for p in block[:50]]) for block in points]
    failures = []

    def work(k):
        for _ in range(20):
            if not np.allclose(g(points[k])[:50], expected[k]):
                failures.append(k)

    together(work, range(8))
    assert not failures


def test_pickle():
    g = pickle.loads(pickle.dumps(sd.grad(f)))
    np.testing.assert_array_equal(g(X), df(X))
    compiled = pickle.loads(pickle.dumps(sd.grad(f).compile(X)))
    np.testing.assert_array_equal(compiled(X), df(X))


def test_pickles_of_functions_that_have_been_called():
    points = np.ones((2, 3))
    many = sd.vmap(sd.grad(f))
    expected = many(points)
    for twin in (pickle.loads(pickle.dumps(many)), copy.copy(many), copy.deepcopy(many)):
        np.testing.assert_array_equal(twin(points), expected)


def test_compiled_code_inside_a_traced_function_is_refused():
    compiled = sd.grad(f).compile(X)
    with pytest.raises(sd.TraceError, match="call the derivative itself"):
        sd.grad(lambda x: np.sum(compiled(x)))(X)


def test_derivatives_that_take_more_arguments_nest():
    def cubes(x):
        return np.sum(x**3)

    x, v = np.arange(3.0), np.ones(3)
    product = sd.hvp(cubes)
    np.testing.assert_array_equal(sd.jacobian(product)(x, v), np.diag(6 * v))
    np.testing.assert_array_equal(sd.jacobian(product, argnums=1)(x, v), np.diag(6 * x))
    np.testing.assert_array_equal(sd.trace(product, x, v)(x, v), 6 * x)
    np.testing.assert_array_equal(sd.vmap(sd.vmap(product))(np.ones((2, 4, 3)), np.ones((2, 4, 3))), np.full((2, 4, 3), 6.0))
    many, points = sd.vmap(product), np.ones((2, 3))
    np.testing.assert_array_equal(many.compile(points, points)(points, points), 6 * points)
    assert many.cost(points, points).derivative.operations == product.cost(x, v).derivative.operations == 6


def test_second_call_with_out_allocates_no_array_memory():
    many = sd.vmap(sd.grad(f))
    points = np.random.default_rng(0).standard_normal((10**5, 3))
    out = np.empty_like(points)
    many(points, out=out)
    tracemalloc.start()
    try:
        many(points, out=out)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000  # the results take 2.4 MB


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("count", [0, 1, 7, 5000])
def test_vmap_layouts(axis, count):
    points = np.random.default_rng(0).standard_normal((count, 3))
    expected = np.array([df(p) for p in points]).reshape(count, 3)
    layout = points if axis == 0 else np.ascontiguousarray(points.T)
    result = sd.vmap(sd.grad(f), in_axes=axis)(layout)
    np.testing.assert_allclose(result if axis == 0 else result.T, expected)
    crossed = sd.vmap(sd.grad(f), in_axes=axis, out_axes=-1 - axis)(layout)
    np.testing.assert_allclose(crossed.T if axis == 0 else crossed, expected)
    layout_copy = layout.copy()
    sd.vmap(sd.grad(f), in_axes=axis)(layout_copy, out=layout_copy)
    np.testing.assert_allclose(layout_copy if axis == 0 else layout_copy.T, expected)


def test_vmap_with_shared_arguments_and_errors():
    g = sd.vmap(sd.value_and_grad(lambda x, a: a * x**2), in_axes=(0, None))
    value, slope = g(np.array([1.0, 2.0]), 3.0)
    np.testing.assert_array_equal(value, [3, 12])
    np.testing.assert_array_equal(slope, [6, 12])
    with pytest.raises(sd.ShapeError, match="points"):
        sd.vmap(lambda x, y: x * y)(np.ones(3), np.ones(4))
    with pytest.raises(sd.ShapeError):
        sd.vmap(np.sin, in_axes=1)
    with pytest.raises(sd.ShapeError, match="out"):
        sd.vmap(np.sin)(np.ones(3), out=np.empty(4))


def test_derivative_over_arrays():
    x = np.linspace(-1, 1, 12).reshape(3, 4)
    d2 = sd.derivative(np.sin, order=2)
    np.testing.assert_allclose(d2(x), -np.sin(x))
    out = np.empty((3, 4))
    assert d2(x, out=out) is out
    np.testing.assert_allclose(d2(x.T), -np.sin(x.T))


def test_fits_scipy_minimize():
    optimize = pytest.importorskip("scipy.optimize")

    def rosen(x):
        return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2

    result = optimize.minimize(sd.value_and_grad(rosen), np.array([-1.2, 1.0]), jac=True, method="BFGS")
    np.testing.assert_allclose(result.x, [1, 1], atol=1e-5)


FACTOR = 2.0


def test_captured_values_that_change_are_noticed(monkeypatch):
    weights = np.array([1.0, 2.0, 3.0])
    count = 1.0

    def g(x):
        return FACTOR * count * np.sum(weights * x)

    gradient = sd.grad(g)
    np.testing.assert_array_equal(gradient(X), 2 * weights)
    weights[0] = 10.0
    np.testing.assert_array_equal(gradient(X), 2 * weights)
    count = 3.0
    np.testing.assert_array_equal(gradient(X), 6 * weights)
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    np.testing.assert_array_equal(gradient(X), 3 * weights)
    np.testing.assert_array_equal(sd.vmap(gradient)(np.stack([X, X]))[1], 3 * weights)

    class Model:
        scale = 1.0

        def __init__(self):
            self.scale = 4.0

        def __call__(self, x):
            return self.scale * x

    model = Model()
    slope = sd.grad(model)
    assert slope(1.0) == 4.0
    model.scale = 5.0
    assert slope(1.0) == 5.0


def test_argnums_give_the_order():
    f = lambda x, y: np.sum(x) ** 2 * y  # noqa: E731
    x = np.array([1.0, 2.0])
    by_y, by_x = sd.grad(f, (1, 0))(x, 3.0)
    assert by_y == 9.0 and by_x.tolist() == [18.0, 18.0]
    assert sd.value_and_grad(f, (-1, 0))(x, 3.0)[1][0] == 9.0
    assert sd.jvp(f, (1, 0))(x, 3.0, (1.0, np.zeros(2)))[1] == 9.0
    assert sd.vjp(f, (1, 0))(x, 3.0, 2.0)[1][0] == 18.0
    assert sd.jacobian(f, (1, 0))(x, 3.0)[1].tolist() == [18.0, 18.0]
    assert sd.hessian(f, (1, 0))(x, 3.0)[0][1].tolist() == [6.0, 6.0]
    assert sd.hvp(f, (1, 0))(x, 3.0, (1.0, np.zeros(2)))[1].tolist() == [6.0, 6.0]
    with pytest.raises(sd.ShapeError, match="twice"):
        sd.grad(f, (0, -2))(x, 3.0)


def test_functions_whose_rounds_may_raise_take_the_short_way(monkeypatch):
    data = np.linspace(-1.0, 1.0, 300)

    def bounded(p):
        s = p[0]
        for y in data:
            s = 0.5 * s + p[1] * y
            if abs(s) > 100:
                raise ValueError(f"{s} is too large")
        return s

    df, x, large = sd.value_and_grad(bounded, loops="keep"), np.array([0.4, 0.7]), np.array([1e6, 0.7])
    expected = df(x)
    df(x)
    with pytest.raises(ValueError, match="is too large"):
        df(large)
    assert [v.shape for v in df(x, out=(np.empty(()), np.empty(2)))] == [(), (2,)]
    monkeypatch.setattr(df, "_call", lambda *args: pytest.fail("the long way"))
    found = df(x)
    np.testing.assert_array_equal(found[0], bounded(x))
    np.testing.assert_array_equal(found[1], expected[1])

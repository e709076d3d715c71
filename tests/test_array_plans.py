"""What is computed for whole arrays: structure that stays symbolic, memory, edge shapes, dtypes, kinks, threads."""

import itertools
import pickle
import tracemalloc

import numpy as np
import pytest
from inside import Input, Node, Output, Plain, Program, pipeline, plan_of, program_content, structures
from threads import together

import symdiff as sd

RNG = np.random.default_rng(1)


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def layer(W, b, X):
    return np.sum(np.tanh(W @ X + b))


def deep(W1, W2, W3, X):
    h = np.tanh(W1 @ X)
    h = np.tanh(W2 @ h)
    return np.sum((W3 @ h) ** 2)


def heads(graph):
    return [b.op for b in graph.bindings]


# -- the regimes


def test_small_graphs_unroll_by_themselves_and_either_regime_can_be_forced():
    x = np.linspace(0.1, 1, 10)
    assert "item" in heads(sd.grad(rosenbrock).graph(x))
    assert "item" not in heads(sd.grad(rosenbrock, scalarize=False).graph(x))
    long = np.linspace(0.1, 1, 1000)
    assert "item" not in heads(sd.grad(rosenbrock).graph(long))
    assert "item" in heads(sd.grad(rosenbrock, scalarize=True).graph(long))
    expected = sd.grad(rosenbrock, scalarize=True)(long)
    np.testing.assert_allclose(sd.grad(rosenbrock)(long), expected, rtol=1e-12)
    with pytest.raises(sd.TraceError, match="whole arrays only"):
        sd.grad(lambda x: np.linalg.det(x), scalarize=True)(np.eye(2))


def test_a_graph_has_as_many_bindings_for_long_arrays_as_for_short_ones():
    counts = {len(sd.value_and_grad(rosenbrock, scalarize=False).graph(sd.Spec((n,))).bindings) for n in (10, 10**3, 10**7)}
    assert len(counts) == 1


@pytest.mark.parametrize("n", [1000, 10**5])
def test_rosenbrock(n):
    x = np.arange(1, n + 1) / n
    value, gradient = sd.value_and_grad(rosenbrock)(x)
    assert value == pytest.approx(rosenbrock(x), rel=1e-12)
    if n == 1000:
        assert value == pytest.approx(3699.60003333)
        assert gradient.sum() == pytest.approx(-999)
        assert gradient @ gradient == pytest.approx(178475.576805)
    step = 1e-6
    for i in (0, 1, n // 2, n - 1):
        e = np.zeros(n)
        e[i] = step
        near = slice(max(i - 2, 0), i + 3)
        difference = (rosenbrock((x + e)[near]) - rosenbrock((x - e)[near])) / (2 * step)
        assert gradient[i] == pytest.approx(difference, abs=1e-6)


def test_hessian_of_rosenbrock():
    n = 200
    x = np.arange(1, n + 1) / n
    hessian = sd.hessian(rosenbrock)(x)
    assert np.trace(hessian) == pytest.approx(79401)
    assert hessian.sum() == pytest.approx(-199)
    assert np.count_nonzero(hessian) == 598


def test_jacobian_of_a_matrix_function():
    def f(A, B):
        return (A + B) @ (A @ B).T

    A = (np.arange(100).reshape(10, 10) + 1) / 100
    B = (np.arange(100).reshape(10, 10)[::-1] + 1) / 50
    assert f(A, B)[0, 0] == pytest.approx(7.70055)
    assert Plain(f)(A, B).sum() == pytest.approx(7502.28)
    by_a, by_b = sd.jacobian(f, (0, 1))(A, B)
    assert by_a.shape == by_b.shape == (10, 10, 10, 10)
    for wanted, found in [((1, 2), by_a[..., 1, 2]), ((7, 0), by_a[..., 7, 0])]:
        e = np.zeros((10, 10))
        e[wanted] = 1e-6
        np.testing.assert_allclose(found, (f(A + e, B) - f(A - e, B)) / 2e-6, atol=1e-8)
    np.testing.assert_allclose(by_b, sd.jacobian(f, 1, mode="forward")(A, B), rtol=1e-12)


# -- what stays symbolic


def test_the_gradient_of_a_summed_product_multiplies_no_matrices():
    W, X = RNG.standard_normal((30, 40)), RNG.standard_normal((40, 20))
    f = sd.grad(lambda W, X: np.sum(W @ X), (0, 1))
    assert heads(f.graph(W, X)).count("matmul") == 0
    by_w, by_x = f(W, X)
    np.testing.assert_allclose(by_w, np.broadcast_to(X.sum(1), W.shape))
    np.testing.assert_allclose(by_x, np.broadcast_to(W.sum(0)[:, None], X.shape))
    for gradient in (by_w, by_x):
        gradient += 1.0  # it is writable and owns its memory
        assert gradient.flags.owndata


def test_the_gradient_of_a_trace_multiplies_no_matrices():
    A, B = RNG.standard_normal((30, 40)), RNG.standard_normal((40, 30))
    f = sd.grad(lambda A, B: np.trace(A @ B), (0, 1))
    assert "matmul" not in heads(f.graph(A, B))
    np.testing.assert_array_equal(f(A, B)[0], B.T)
    np.testing.assert_array_equal(f(A, B)[1], A.T)


def test_fastmath_sums_a_product_without_multiplying_matrices():
    W, X = RNG.standard_normal((30, 40)), RNG.standard_normal((40, 20))

    def f(W, X):
        return np.sum(W @ X)

    fast = sd.value_and_grad(f, (0, 1), fastmath=True)
    cost = fast.cost(W, X)
    assert "matmul" not in cost.both.by_kind and "matmul" in sd.value_and_grad(f).cost(W, X).value.by_kind
    assert fast(W, X)[0] == pytest.approx(f(W, X), rel=1e-12)


def test_a_diagonal_hessian_is_computed_as_a_vector():
    x = np.linspace(0, 1, 1000)
    f = sd.hessian(lambda x: np.sum(np.sin(x) ** 3))
    assert f.cost(x).derivative.operations < 20 * 1000
    np.testing.assert_allclose(np.diag(f(x)), 6 * np.sin(x) * np.cos(x) ** 2 - 3 * np.sin(x) ** 3, atol=1e-14)


# -- memory


def second_call(function):
    function()
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_second_call_with_out_allocates_nothing():
    W, b, X = RNG.standard_normal((200, 300)), RNG.standard_normal((200, 1)), RNG.standard_normal((300, 100))
    f = sd.value_and_grad(layer, (0, 1, 2))
    out = (np.empty(()), (np.empty_like(W), np.empty_like(b), np.empty_like(X)))
    iteration = 8 * np.getbufsize()  # NumPy's own buffer, for the operand that it broadcasts
    assert second_call(lambda: f(W, b, X, out=out)) < iteration + 10_000
    assert second_call(lambda: f(W, b, X)) < W.nbytes + b.nbytes + X.nbytes + iteration + 10_000
    x = np.linspace(0.1, 1, 10**5)
    g = sd.value_and_grad(rosenbrock)
    out = (np.empty(()), np.empty_like(x))
    assert second_call(lambda: g(x, out=out)) < 10_000
    np.testing.assert_array_equal(out[1], sd.grad(rosenbrock)(x))


def test_peak_memory_of_a_layer_is_its_results_and_two_activations():
    W, b, X = sd.Spec((256, 512)), sd.Spec((256, 1)), sd.Spec((512, 128))
    f = sd.value_and_grad(layer, (0, 1))
    results, activation = 8 * (1 + 256 * 512 + 256), 8 * 256 * 128
    memory = f.cost(W, b, X).both.memory
    assert results + activation <= memory <= results + 2 * activation
    assert str(memory) in str(f.cost(W, b, X))


def test_what_follows_from_an_activation_that_is_kept_is_not_kept_as_well():
    W, b, X = RNG.standard_normal((30, 40)), RNG.standard_normal((30, 1)), RNG.standard_normal((40, 50))
    whole = sd.grad(lambda W, b, X: np.sum((W.T @ np.tanh(W @ X + b)) ** 2), argnums=(0, 1), scalarize=False)
    text = whole.source(W, b, X)
    after = text[text.index("np.tanh(") :]
    assert after.index("np.matmul(") < after.index("np.subtract(1.0")  # 1 - T*T, where it is used


def test_the_gradient_of_a_mean_of_squares_is_one_multiplication_a_cell():
    x = RNG.standard_normal((50, 40))
    assert sd.grad(lambda x: np.mean(x**2)).cost(x).derivative.by_kind == {"mul": 2000}
    assert "np.multiply(x, 0.001, out=df_dx)" in sd.grad(lambda x: np.mean(x**2)).source(x)
    exact = sd.grad(lambda x: np.mean(x**2), exact=True)
    assert exact.cost(x).derivative.by_kind["mul"] == 4000 and np.allclose(exact(x), x / 1000, rtol=1e-15)


def cross_entropy(W, X, Y):
    Z = X @ W
    m = Z.max(1, keepdims=True)
    return np.mean(m[:, 0] + np.log(np.exp(Z - m).sum(1)) - (Z * Y).sum(1))


def test_terms_of_a_derivative_that_cancel_leave_nothing_behind():
    W, X, Y = RNG.standard_normal((10, 8)), RNG.standard_normal((60, 10)), np.eye(8)[RNG.integers(0, 8, 60)]
    df = sd.grad(cross_entropy)
    kinds = df.cost(W, X, Y).derivative.by_kind
    assert {"eq", "select"}.isdisjoint(kinds)  # the slope of the maximum, times 1 - 1
    assert kinds["mul"] == 2 * 60 * 8 and "broadcast_to" not in df.source(W, X, Y)
    E = np.exp(X @ W - np.max(X @ W, 1, keepdims=True))
    np.testing.assert_allclose(df(W, X, Y), X.T @ (E / E.sum(1, keepdims=True) - Y) / 60, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(sd.grad(cross_entropy, exact=True)(W, X, Y), df(W, X, Y), rtol=1e-12, atol=1e-15)


def test_jacobians_and_hessians_multiply_no_unit_matrices():
    X, w = RNG.standard_normal((500, 20)), RNG.standard_normal(20)
    slope = sd.jacobian(lambda w: np.tanh(X @ w))
    assert slope.cost(w).derivative.by_kind["matmul"] == 2 * 500 * 20  # X @ w, as in f
    np.testing.assert_allclose(slope(w), (1 - np.tanh(X @ w) ** 2)[:, None] * X, rtol=1e-9, atol=1e-12)
    bend = sd.hessian(lambda w: np.sum(np.exp(X @ w)))
    assert bend.cost(w).derivative.by_kind["matmul"] == 2 * 500 * 20 + 2 * 500 * 20 * 20
    np.testing.assert_allclose(bend(w), (X * np.exp(X @ w)[:, None]).T @ X, rtol=1e-12)
    x = RNG.standard_normal((30, 20))
    many = sd.vmap(sd.grad(lambda w: np.sum(np.tanh(X @ w) ** 2)))
    np.testing.assert_allclose(many(x)[3], sd.grad(lambda w: np.sum(np.tanh(X @ w) ** 2))(x[3]), rtol=1e-9)


@pytest.mark.parametrize("transform", [sd.hessian, sd.hvp, lambda f: sd.jacobian(sd.grad(f))])
def test_steps_have_names_of_their_own(transform):
    X, w = RNG.standard_normal((500, 20)), RNG.standard_normal(20)
    graph = transform(lambda w: np.sum(np.exp(X @ w))).graph(*((w, w) if transform is sd.hvp else (w,)))
    names = [b.name for b in graph.bindings]
    assert len(names) == len(set(names))


SINGLE = {
    "mean": lambda x: np.mean(x**2),
    "layer": lambda x: np.mean(np.tanh(x @ x.T)),
    "std": lambda x: np.std(x),
    "max": lambda x: np.sum(np.maximum(x, 0.7)) + np.mean(np.clip(x, 0.6, 1) ** 2),
    "where": lambda x: np.sum(np.where(x > 1, x / 3, x * x)),
    "logsumexp": lambda x: sd.special.logsumexp(x),
    "softmax": lambda x: (np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True))[:, 0].sum(),
    "cumsum": lambda x: np.mean(np.cumsum(x, axis=0)),
    "fft": lambda x: np.mean(np.abs(np.fft.rfft(x)) ** 2),
    "median": lambda x: np.mean(np.median(x, axis=0)),
    "percentile": lambda x: np.percentile(x, 30),
    "weights": lambda x: np.average(x, weights=np.arange(40, dtype="f"), axis=1).sum(),
}


@pytest.mark.parametrize("f", SINGLE.values(), ids=SINGLE)
@pytest.mark.parametrize("transform", [sd.grad, sd.hvp, sd.jvp], ids=["grad", "hvp", "jvp"])
def test_derivatives_in_single_precision_have_no_step_in_double(f, transform):
    x = (RNG.random((50, 40)) + 0.5).astype("f")
    args = (x,) if transform is sd.grad else (x, x)
    df = transform(f)
    assert not [str(b) for b in df.graph(*args).bindings if b.dtype in ("d", "D")]
    found, wanted = df(*args), df(*(a.astype("d") for a in args))
    for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in (found, wanted)), strict=True):
        assert one.dtype == np.float32
        assert np.max(np.abs(one - other)) <= 1e-4 * (np.max(np.abs(other)) + 1e-3)


def test_buffers_are_used_again():
    specs = [sd.Spec((50, 50)) for _ in range(3)] + [sd.Spec((50, 400))]
    program = sd.grad(deep).program(*specs)
    plan = plan_of(program)
    assert sum(cells for _, cells in plan.slots) <= 4 * 50 * 400
    args = [RNG.standard_normal(s.shape) / 10 for s in specs]
    sd.check_grads(deep, args, order=1)


# -- calls


def test_out_may_overlap_inputs_and_lie_scattered():
    x = np.linspace(0.1, 1, 2000)
    expected = sd.grad(rosenbrock)(x)
    f = sd.grad(rosenbrock)
    own = x.copy()
    f(own, out=own)
    np.testing.assert_array_equal(own, expected)
    wide = np.zeros((2000, 3))
    f(x, out=wide[:, 1])
    np.testing.assert_array_equal(wide[:, 1], expected)
    assert not wide[:, [0, 2]].any()
    with pytest.raises(sd.ShapeError, match="shape"):
        f(x, out=np.empty(3))
    with pytest.raises(sd.ShapeError, match="float64"):
        f(x, out=np.empty(2000, dtype=np.float32))


def test_strides_threads_and_pickles():
    x = np.linspace(0.1, 1, 6000)
    f = sd.value_and_grad(rosenbrock)
    expected = f(x[::2].copy())[1]
    np.testing.assert_array_equal(f(x[::2])[1], expected)
    np.testing.assert_array_equal(f(x[::-2][::-1] * 1.0)[1].shape, (3000,))
    compiled = pickle.loads(pickle.dumps(f.compile(x)))
    np.testing.assert_array_equal(compiled(x)[1], f(x)[1])
    failures = []

    def hammer(seed):
        y = np.random.default_rng(seed).uniform(0.1, 1, 3000)
        wanted = [200 * (y[1:] - y[:-1] ** 2)]
        for _ in range(30):
            if not np.allclose(f(y)[1][-1], wanted[0][-1]):
                failures.append(seed)

    together(hammer, range(8))
    assert not failures


@pytest.mark.parametrize(
    ("h", "args"),
    [
        (lambda x: np.sum(x), (np.zeros((0, 3)),)),
        (lambda x: np.sum(np.sin(x), axis=0), (np.zeros((0, 3)),)),
        (lambda x: np.sin(x) * 2, (np.zeros((0, 3)),)),
        (lambda x, y: x @ y, (np.zeros((0, 3)), np.ones((3, 2)))),
        (lambda x, y: x @ y, (np.ones((2, 0)), np.zeros((0, 4)))),
        (lambda x, y: np.concatenate([x, y]), (np.zeros((0, 3)), np.ones((2, 3)))),
        (lambda x: x[5:], (np.ones(3),)),
        (lambda x: np.prod(x, axis=0), (np.zeros((0, 3)),)),
        (lambda x: np.cumprod(x, axis=0), (np.zeros((0, 3)),)),
        (lambda x: x[[]], (np.ones(3),)),
        (lambda x: x * np.sin(x) + np.sum(x), (np.array(0.3),)),
        (lambda x, y: x * y, (np.array(0.3), np.ones((2, 3)))),
        (lambda x, y: x * y + x / y, (RNG.random((1, 4)) + 1, RNG.random((3, 1)) + 1)),
        (lambda x, y: x * y, (np.ones((1, 1)), np.ones(1))),
        (lambda x: x @ x.T + x.sum(), (RNG.random((6, 6))[::2, ::3],)),
        (lambda x: np.cumsum(x), (RNG.random(9)[::-1],)),
        (lambda x: np.tanh(x) @ x.T, (np.asfortranarray(RNG.random((3, 4))),)),
        (lambda x: np.max(x, axis=1, keepdims=True) * x, (RNG.random((3, 1)),)),
    ],
)
def test_edge_shapes(h, args):
    found, wanted = Plain(h, scalarize=False)(*args), h(*args)
    assert np.shape(found) == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    sd.check_grads(lambda *a: np.sum(np.sin(h(*a))), args, scalarize=False)


def test_dtypes():
    single = RNG.random((3, 4)).astype(np.float32)
    f = Plain(lambda x: np.tanh(x) @ x.T * 2.0, scalarize=False)
    assert f(single).dtype == np.float32
    assert sd.grad(lambda x: np.sum(np.tanh(x)), scalarize=False)(single).dtype == np.float32
    assert Plain(lambda x, y: x * y, scalarize=False)(single, np.ones(4)).dtype == np.float64
    gradient = sd.grad(lambda x: np.sum((1 + 2j) * x**3), scalarize=False)(np.ones(3))
    assert gradient.dtype == np.complex128
    np.testing.assert_allclose(gradient, 3 + 6j)
    assert sd.grad(np.sum, scalarize=False)(np.arange(3)).dtype == np.float64


def test_complex_arrays():
    z = RNG.random((3, 4)) + 1j * RNG.random((3, 4))
    by_z, by_conjugate = sd.wirtinger(lambda z: np.sum(np.abs(z) ** 2), scalarize=False)(z)
    np.testing.assert_allclose(by_z, z.conj())
    np.testing.assert_allclose(by_conjugate, z)
    np.testing.assert_allclose(sd.jacobian(lambda z: z**2, scalarize=False)(z[0]), np.diag(2 * z[0]))
    with pytest.raises(sd.NonHolomorphicError, match=r"test_array_plans.py:\d+: conj"):
        sd.grad(lambda z: np.sum(np.conj(z) * z), scalarize=False)(z)
    real = np.linspace(0.1, 2, 5)
    found = sd.grad(lambda x: np.sum(np.abs(np.exp(1j * x) + x) ** 2), scalarize=False)(real)
    np.testing.assert_allclose(found, 2 * real + 2 * np.cos(real) - 2 * real * np.sin(real))
    A = z[:, :3]
    inverse = sd.jacobian(np.linalg.inv, scalarize=False)(A)
    e = np.zeros((3, 3))
    e[1, 2] = 1e-6
    np.testing.assert_allclose(inverse[..., 1, 2], (np.linalg.inv(A + e) - np.linalg.inv(A - e)) / 2e-6, rtol=1e-7)
    with pytest.raises(sd.NonHolomorphicError, match=r"test_array_plans.py:\d+: .*wirtinger"):
        sd.grad(lambda z: np.abs(np.linalg.cholesky(z)[0, 0]), scalarize=False)(A @ A.conj().T + np.eye(3))
    with pytest.raises(sd.RuleError, match=r"test_array_plans.py:\d+: .*real arrays only"):
        sd.wirtinger(lambda z: np.sum(np.abs(np.linalg.lstsq(z, np.ones(3))[0])), scalarize=False)(A)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (np.max, [1, 2, 2], [0, 0.5, 0.5]),
        (lambda x: np.linalg.norm(x), [0, 0, 0], [0, 0, 0]),
        (lambda x: np.sqrt(np.sum(x * x)), [0, 0, 0], [0, 0, 0]),
        (lambda x: np.sqrt(x @ x), [0, 0, 0], [0, 0, 0]),
        (np.std, [1, 1, 1], [0, 0, 0]),
        (lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0)), [0, -1, 4], [0, 0, 0.25]),
        (lambda x: np.sum(np.where(x > 0, np.log(x), 0).reshape(3, 1)[::-1]), [0, -1, 4], [0, 0, 0.25]),
        (lambda x: np.sum(np.stack([np.where(x > 0, 1 / x, 0), x])[0]), [0, -1, 4], [0, 0, -1 / 16]),
        (lambda x: np.sum(np.abs(x) + np.maximum(x, 0)), [0, -1, 4], [0.5, -1, 2]),
        (np.prod, [0, 3, 4], [12, 0, 0]),
        (lambda x: np.cumprod(x)[-1], [0, 0, 4], [0, 0, 0]),
        (lambda x: np.sort(x)[1], [3, 1, 2], [0, 0, 1]),
        (lambda x: np.clip(x, 0, 1).sum(), [0, 0.5, 3], [0.5, 1, 0]),
        (lambda x: sd.special.logsumexp(x), [-np.inf, 0, 0], [0, 0.5, 0.5]),
    ],
)
def test_kinks(f, x, expected):
    x = np.array(x, dtype=float)
    with np.errstate(all="raise"):
        np.testing.assert_allclose(sd.grad(f, scalarize=False)(x), expected, atol=1e-15)


def test_logsumexp_and_softmax():
    x = np.array([1000.0, 1001.0, 1004.0])
    p = np.exp(x - 1004) / np.sum(np.exp(x - 1004))

    def by_hand(x):
        m = np.max(x)
        return m + np.log(np.sum(np.exp(x - m)))

    for f in (sd.special.logsumexp, by_hand):
        gradient = sd.grad(f, scalarize=False)(x)
        np.testing.assert_allclose(gradient, p, rtol=1e-11)
        assert gradient.sum() == pytest.approx(1)
    hessian = sd.hessian(sd.special.logsumexp, scalarize=False)(x)
    np.testing.assert_allclose(hessian, np.diag(p) - np.outer(p, p), atol=1e-13)


def test_determinants_of_singular_matrices_have_gradients():
    ones = np.ones((3, 3))
    np.testing.assert_allclose(sd.grad(np.linalg.det)(ones), 0, atol=1e-15)
    A = np.diag([0.0, 2.0, 3.0])
    np.testing.assert_allclose(sd.grad(np.linalg.det)(A), np.diag([6.0, 0, 0]), atol=1e-14)


def test_transforms_nest():
    x = np.linspace(0.2, 1.4, 300)
    inner = sd.grad(lambda y: np.sum(np.sin(y) ** 3))
    found = sd.grad(lambda x: np.sum(inner(x) ** 2))(x)
    slope = 3 * np.sin(x) ** 2 * np.cos(x)
    curvature = 6 * np.sin(x) * np.cos(x) ** 2 - 3 * np.sin(x) ** 3
    np.testing.assert_allclose(found, 2 * slope * curvature, rtol=1e-12)
    np.testing.assert_allclose(sd.jacobian(inner)(x), np.diag(curvature), atol=1e-14)
    total = sd.grad(lambda X: np.sum(sd.vmap(inner)(X) ** 2))(np.stack([x, x]))
    np.testing.assert_allclose(total, np.stack([found, found]), rtol=1e-12)


def test_unknown_functions_and_shapes_name_the_line():
    x = np.ones((100, 100))
    with pytest.raises(sd.TraceError, match=r"test_array_plans.py:\d+: .*not supported"):
        sd.grad(lambda x: np.sum(np.unique(x)))(x)
    with pytest.raises(sd.TraceError, match=r"test_array_plans.py:\d+: matmul: shapes .* do not fit"):
        sd.grad(lambda x: np.sum(x @ np.ones((3, 100))))(x)
    with pytest.raises(sd.TraceError, match=r"test_array_plans.py:\d+: np.linalg.norm|test_array_plans.py:\d+: .*norm"):
        sd.grad(lambda x: np.linalg.norm(x, "max"))(x)
    with pytest.raises(IndexError, match="index 100 is out of bounds"):  # the function's own, as it stands
        sd.grad(lambda x: np.sum(x[:, [0, 100]]))(x)
    with pytest.raises(IndexError, match=r"test_array_plans.py:\d+: index 100 is out of bounds"):
        sd.trace(lambda x: np.sum(x[:, [0, 100]]), x)
    with pytest.raises(sd.BackendError, match="solve of whole arrays is not part of plain Python; NumPy takes it"):
        sd.grad(lambda x: np.sum(np.linalg.solve(x, x))).compile(x, backend="python")


def test_exported_files_over_blocks():
    x = np.linspace(0.1, 1, 50_000)
    W, b, X = RNG.standard_normal((300, 20)), RNG.standard_normal((300, 1)), RNG.standard_normal((20, 200))
    for f, args in [(sd.value_and_grad(rosenbrock), (x,)), (sd.value_and_grad(layer, (0, 1, 2)), (W, b, X))]:
        names = {}
        exec(compile(f.source(*args), "made", "exec"), names)
        made = next(v for k, v in names.items() if k.endswith("_value_and_grad"))
        wanted, tree = structures.flatten(f(*args))
        own = [a.copy() for a in args]
        for out in (None, structures.unflatten(tree, [np.empty(()), *own])):
            leaves, found = structures.flatten(made(*(args if out is None else own), out=out))
            assert found == tree
            for leaf, expected in zip(leaves, wanted, strict=True):
                np.testing.assert_allclose(leaf, expected, rtol=1e-14, atol=1e-14)
        with pytest.raises(ValueError, match="out 1 is no writeable NumPy array of float64"):
            made(*args, out=structures.unflatten(tree, [np.empty(()), *(a.astype(np.float32) for a in args)]))
        with pytest.raises(ValueError, match="has shape"):
            made(*(a[:-1] for a in args))


STEP = 1e-6
MIX = RNG.standard_normal((3, 3))


@pytest.mark.parametrize("n", [100, 9000])
@pytest.mark.parametrize(
    "h",
    [
        lambda x: np.tanh((2 * x[1:-1] - x[2:] - x[:-2]) @ MIX),
        lambda x: (2 * x[1:-1] - x[2:] - x[:-2]) ** 2,
        lambda x: np.sin(x[1:] * 2 - x[:-1] - x[1:]),
        lambda x: (x[3:] - x[:-3]) * (x[1:-2] + x[2:-1]),
    ],
)
def test_one_value_added_to_several_regions(h, n):
    x, d = RNG.standard_normal((n, 3)), RNG.standard_normal((n, 3))

    def f(x):
        return np.sum(h(x))

    slope = (f(x + STEP * d) - f(x - STEP * d)) / (2 * STEP)
    assert np.sum(sd.grad(f)(x) * d) == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_arguments_with_the_names_of_our_variables(tmp_path):
    def f(start, a, r):
        return np.sum(np.sin(a) * start) + np.sum(r)

    x = np.ones((300, 100))
    f_and_slope = sd.value_and_grad(f, 1)
    assert f_and_slope(2.0, x, x[0])[0] == pytest.approx(f(2.0, x, x[0]))
    f_and_slope(2.0, x, x[0], out=(np.empty(()), np.empty_like(x)))
    path = tmp_path / "made.py"
    f_and_slope.export(path, 2.0, x, x[0])
    names = {}
    exec(path.read_text(), names)
    assert names["f_value_and_grad"](start=2.0, a=x, r=x[0])[0] == pytest.approx(f(2.0, x, x[0]))

    def g(slot0, blocks_d, partial, rows):
        return np.sum(np.tanh(slot0 @ blocks_d) * partial) + np.sum(rows)

    args = (RNG.standard_normal((200, 30)), RNG.standard_normal((30, 100)), 2.0, np.ones(4))
    assert sd.value_and_grad(g)(*args)[0] == pytest.approx(g(*args))


def test_masks_through_repeated_cells():
    rows, bounds = np.repeat(np.arange(1000), 2), np.tile([0.0, 9.0], 1000)

    def f(x):
        y = np.where(x > 0, x, 0.0)[rows]
        return np.sum(np.where(y > bounds, y * y, 0.5)) + np.sum(np.where(x[rows] > bounds, x[rows] ** 2, 0.5))

    np.testing.assert_allclose(sd.grad(f)(np.ones(1000)), 4.0)


def test_truth_values_in_arithmetic():
    def f(x):
        return np.sum((x > 0) * x + 0.1 * (x < 0) * x + np.where(x > 1, x > 0, x))

    for n in (4, 2000):
        x = np.linspace(-2, 2, n)
        value, gradient = sd.value_and_grad(f)(x)
        assert value == pytest.approx(f(x))
        np.testing.assert_allclose(gradient, np.where(x > 0, 1.0, 0.1 * (x < 0)) + (x <= 1))
    np.testing.assert_allclose(sd.jvp(lambda x: 0.5 * ((x > 0) * x))(np.ones(3), np.ones(3))[1], 0.5)


def test_results_share_no_memory_and_keep_their_structure():
    B = np.eye(30)
    f = sd.value_and_grad(lambda x: (x.T @ B @ x).mean())
    first = f(np.ones((30, 1)))[0]
    f(2 * np.ones((30, 1)))
    assert type(first) is np.float64 and first == 30.0
    g = sd.grad(lambda x: np.sum(x * x), (0,))
    for _ in range(2):
        assert isinstance(g(np.ones(1000)), tuple) and isinstance(g(np.ones(3)), tuple)


def test_sums_of_differences_stay_whole():
    x = (1e6 + RNG.standard_normal(20000)).astype(np.float32)
    y = x + np.float32(1)
    f = Plain(lambda x, y: np.sum(x - y))
    assert f(x, y) == np.sum(x - y)
    huge = np.full(1000, 1e308)
    assert f(huge, huge) == 0.0


def test_numpys_own_conventions():
    m = np.arange(6.0).reshape(2, 3)
    assert Plain(lambda x: np.add.reduce(x, axis=None))(m) == 15.0
    for axes in ((0, 1), (1, 0)):
        assert Plain(lambda x, axes=axes: np.linalg.norm(x, 1, axis=axes))(m) == np.linalg.norm(m, 1, axis=axes)
    assert np.isinf(Plain(lambda x: np.var(x, ddof=8))(m))
    cube = RNG.random((3, 4, 5))
    found = Plain(lambda y: np.trapezoid(y, np.arange(3.0), axis=0))(cube)
    np.testing.assert_allclose(found, np.trapezoid(cube, np.arange(3.0), axis=0))
    assert Plain(lambda x: np.tensordot(x, np.ones((0, 4)), 1), scalarize=False)(np.ones((3, 0))).shape == (3, 4)
    single = np.ones(3, np.float32)
    for h in (lambda x: np.pad(x, 1, constant_values=1.0), lambda x: np.insert(x, 1, 0.5)):
        assert Plain(h)(single).dtype == np.float32
    with pytest.raises(sd.TraceError, match="order='K'"):
        Plain(lambda x: x.ravel("K"))(m)


def test_indices_around_an_ellipsis():
    rows = np.array([0, 1])
    x = np.arange(18.0).reshape(2, 3, 3)
    for h in (lambda x: x[:, rows, ..., rows], lambda x: x[:, rows, ..., 0], lambda x: x[..., rows, 1]):
        np.testing.assert_array_equal(Plain(h)(x), h(x))


def test_a_cell_of_a_small_array_behind_an_ellipsis():
    def f(x):
        y = np.zeros(2)
        y[0] = x[0]
        y[..., 1] = y[..., 0] * 0.5
        return y[..., 0] * 0.5 + y[1]

    assert Plain(f)(np.ones(2)) == 1.0


@pytest.mark.parametrize(
    ("h", "slope", "codes"),
    [
        (lambda x, keys: np.sort(x), 2, "fd"),
        (lambda x, keys: np.take_along_axis(x, np.argsort(keys), 0), 2, "fdFD"),
        (lambda x, keys: np.linalg.solve(np.eye(12, dtype=x.dtype) / 2, x), 4, "fdFD"),
        (lambda x, keys: np.sort(np.stack([x, 2 * x]), axis=0), 6, "fd"),
    ],
    ids=["sort", "take_along_axis", "solve", "sort of a stack"],
)
def test_what_numpy_makes_of_equal_numbers_has_their_dtype(h, slope, codes):
    """Machine code reads the memory of what NumPy made."""
    keys = RNG.random(12)
    for code, k in itertools.product(codes, (1.0, 2.0, 0.3)):
        gradient = sd.grad(lambda x, keys, k=k: np.sum(h(x + x[::-1], keys) * k), scalarize=False)
        found = gradient(RNG.random(12).astype(code), keys)
        assert found.dtype == code
        np.testing.assert_allclose(found, np.full(12, slope * k), rtol=1e-6)


def test_constants_of_single_precision_in_files():
    w = np.array(-1.0346975, np.float32)
    f = sd.value_and_grad(lambda x: np.sum((x + x) * w))
    names = {}
    exec(f.source(np.float32(1)), names)
    made = next(v for k, v in names.items() if k.endswith("_value_and_grad"))
    for found in made(np.float32(1)):
        assert found.dtype == np.float32


def test_constant_results_are_numpys_numbers():
    value, slope = sd.value_and_grad(lambda x: np.cumprod(x / 2, axis=None)[0] * 1.5, scalarize=False)(np.array(0.4))
    assert type(value) is np.float64 and type(slope) is np.float64 and slope == 0.75


def test_a_loops_rounds_have_one_kernel_between_them(monkeypatch):
    seen = []
    share = pipeline.share
    monkeypatch.setattr(pipeline, "share", lambda program, **kwargs: seen.append(program) or share(program, **kwargs))

    def heat(u, rounds):
        for _ in range(rounds):
            new = u.copy()
            new[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2]) * np.exp(-u[1:-1])
            u = new
        return u

    def kernels(rounds):
        seen.clear()
        u = np.linspace(0.0, 1.0, 600)
        compiled = sd.jvp(lambda u: heat(u, rounds), loops="unroll").compile(u, u, backend="numpy")
        found, _ = compiled(u, u)
        np.testing.assert_allclose(found, heat(u, rounds), rtol=1e-14)
        return len(seen)

    assert kernels(12) == kernels(6) > 0


def test_contents_tell_programs_apart():
    def content(number, code="d", name="x"):
        nodes = [Node("input", (), (), code, (0, 0)), Node("const", (), (), code, number), Node("mul", (0, 1), (), code)]
        return program_content(Program("kernel", (Input(name, (), code),), (Output("y", (), code, (2,)),), nodes))

    assert content(0.0) == content(0.0, name="z")
    assert len({content(0.0), content(-0.0), content(0), content(0j), content(0.0, "f")}) == 5

"""Rules of whole arrays and structures, and primitives that share their work: what is called how often."""

import numpy as np
import pytest
import scipy.linalg

import symdiff as sd

CALLS = []


@sd.primitive(shapes=lambda a: [a.shape, a.shape[:1]])
def factor(a):
    CALLS.append("factor")
    lu, piv = scipy.linalg.lu_factor(a)
    return lu.T, piv  # LAPACK's order of memory, in which nothing is copied


@sd.diffrule(factor, pullback=True)
def _(ds, out, a):
    return None  # a residual of `solved`, which has the whole derivative by a


@sd.primitive(shapes=lambda a, lu, piv, b, trans: b.shape)
def solved(a, lu, piv, b, trans):
    CALLS.append("solved")
    return scipy.linalg.lu_solve((lu.T, piv.astype(int)), b, trans=trans)


@sd.diffrule(solved, pullback=True)
def _(ds, out, a: sd.Array, lu, piv, b, trans):
    back = solved(a, lu, piv, ds, 1 - trans)
    return -np.outer(out, back) if trans else -np.outer(back, out), None, None, back, None


def solve(a, b):
    return solved(a, *factor(a), b, 0)


def energy(a, b):
    return np.sum(solve(a, b) ** 2)


def energy_by_numpy(a, b):
    return np.sum(np.linalg.solve(a, b) ** 2)


def system(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, n)) + n * np.eye(n), rng.normal(size=n)


def counted(function, *args):
    CALLS.clear()
    return function(*args), CALLS.count("factor")


def same(found, expected, rtol=1e-10):
    for f, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(f, e, rtol=rtol, atol=1e-13)


@pytest.mark.parametrize("n", [1, 5, 40])
def test_one_factorisation_in_value_gradient_and_second_order(n):
    a, b = system(n)
    da, db = system(n, 1)
    ours, theirs = (sd.value_and_grad(f, (0, 1)) for f in (energy, energy_by_numpy))
    (value, grad), count = counted(ours, a, b)
    assert count == 1
    expected, by_numpy = theirs(a, b)
    same([value, *grad], [expected, *by_numpy])
    found, count = counted(sd.hvp(energy, (0, 1)), a, b, (da, db))
    assert count == 1
    same(found, sd.hvp(energy_by_numpy, (0, 1))(a, b, (da, db)), 1e-9)


def test_forward_by_transposition():
    a, b = system(6)
    da, db = system(6, 1)
    (_, dot), count = counted(sd.jvp(solve, (0, 1)), a, b, (da, db))
    assert count == 1
    np.testing.assert_allclose(dot, np.linalg.solve(a, db - da @ np.linalg.solve(a, b)), rtol=1e-11)
    x = np.linalg.solve(a, b)
    np.testing.assert_allclose(sd.jacobian(solve, 1)(a, b), np.linalg.inv(a), rtol=1e-10, atol=1e-14)
    inverse = np.linalg.inv(a)
    np.testing.assert_allclose(sd.jacobian(solve, 0)(a, b), -np.einsum("ij,k->ijk", inverse, x), rtol=1e-9, atol=1e-14)


def test_points_share_a_factorisation_that_does_not_depend_on_them():
    a, _ = system(5)
    rhs = np.random.default_rng(3).normal(size=(7, 5))
    found, count = counted(sd.vmap(sd.grad(energy, 1), in_axes=(None, 0)), a, rhs)
    assert count == 1
    same(found, [sd.grad(energy_by_numpy, 1)(a, b) for b in rhs])
    many = np.stack([system(5, k)[0] for k in range(7)])
    found, count = counted(sd.vmap(sd.grad(energy, 0)), many, rhs)
    assert count == 7
    same(found, [sd.grad(energy_by_numpy, 0)(m, b) for m, b in zip(many, rhs, strict=True)], 1e-9)


def test_a_batch_within_a_derivative_keeps_the_rule():
    a, _ = system(4)
    rhs = np.random.default_rng(3).normal(size=(3, 4))

    def total(a, rhs, one):
        return np.sum(sd.vmap(one, in_axes=(None, 0))(a, rhs))

    found, count = counted(sd.grad(lambda a, r: total(a, r, energy), (0, 1)), a, rhs)
    assert count == 1
    same(found, sd.grad(lambda a, r: total(a, r, energy_by_numpy), (0, 1))(a, rhs), 1e-9)


# Examples of rules from the README and tests of Yota.jl and ChainRules.jl, each as it is written here.


def test_a_layer():
    def linear(w, x, b):
        return w @ x + b[:, None]

    @sd.diffrule(linear, pullback=True)
    def _(dy, y, w: sd.Array, x: sd.Array, b: sd.Array):
        return dy @ x.T, w.T @ dy, np.sum(dy, axis=1)

    rng = np.random.default_rng(0)
    args = rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), rng.normal(size=3)
    found = sd.grad(lambda w, x, b: np.sum(np.tanh(linear(w, x, b))), (0, 1, 2))(*args)
    same(found, sd.grad(lambda w, x, b: np.sum(np.tanh(w @ x + b[:, None])), (0, 1, 2))(*args))
    sd.check_grads(lambda w, x, b: np.sum(np.tanh(linear(w, x, b))), args)


def test_a_rule_that_differs_from_the_function_is_the_one_that_counts():
    def clipped(x):
        return x * 1.0

    @sd.diffrule(clipped, pullback=True)
    def _(ds, out, x: sd.Array):
        return np.clip(ds, -1.0, 1.0)

    x = np.array([0.5, 3.0, -4.0])
    assert sd.grad(lambda x: np.sum(clipped(x) ** 2))(x).tolist() == [1.0, 1.0, -1.0]
    with pytest.raises(sd.RuleError, match=r"test_array_rules.py:\d+: the rule of clipped is not linear"):
        sd.jvp(clipped)(x, x)
    assert sd.grad(lambda x: np.sum(sd.vmap(clipped)(x) ** 2))(np.stack([x, x])).tolist() == [[1.0, 1.0, -1.0]] * 2


def test_structures_and_several_results():
    def moments(data, scale):
        return {"mean": np.mean(data["x"]) * scale, "rest": data["x"] - np.mean(data["x"])}

    @sd.diffrule(moments, pullback=True)
    def _(ds, out, data: dict, scale):
        n = data["x"].size
        along = ds["mean"] * scale / n + ds["rest"] - np.sum(ds["rest"]) / n
        return {"x": along}, ds["mean"] * np.mean(data["x"])

    def f(data, scale, of):
        found = of(data, scale)
        return found["mean"] * np.sum(found["rest"] ** 3)

    def plain(data, scale):
        return {"mean": np.mean(data["x"]) * scale, "rest": data["x"] - np.mean(data["x"])}

    data = {"x": np.array([1.0, 2.0, 5.0])}
    found, expected = (sd.grad(lambda d, s, of=of: f(d, s, of), (0, 1))(data, 2.0) for of in (moments, plain))
    same([found[0]["x"], found[1]], [expected[0]["x"], expected[1]])


def test_a_filter_by_fourier_transforms_has_its_own_rule():
    weights = 1 / (1 + np.arange(9.0))

    @sd.primitive(shapes="run")
    def smooth(x):
        CALLS.append("smooth")
        return np.fft.irfft(np.fft.rfft(x) * weights, 16)

    @sd.diffrule(smooth, pushforward=True)
    def _(dots, out, x):
        return smooth(dots[0])

    @sd.diffrule(smooth, pullback=True)
    def _(ds, out, x):
        return smooth(ds)  # a symmetric matrix

    x = np.random.default_rng(0).normal(size=16)
    matrix = np.array([smooth(row) for row in np.eye(16)]).T
    same([sd.grad(lambda x: np.sum(smooth(x) ** 2))(x)], [2 * matrix.T @ (matrix @ x)])
    same([sd.jacobian(smooth)(x)], [matrix])
    same([sd.hessian(lambda x: np.sum(smooth(x) ** 2))(x)], [2 * matrix.T @ matrix])


def test_a_pushforward_alone_is_transposed():
    def product(a, b):
        return a @ b

    @sd.diffrule(product, pushforward=True)
    def _(dots, out, a: sd.Array, b: sd.Array):
        return dots[0] @ b + a @ dots[1]

    a, b = np.random.default_rng(0).normal(size=(2, 3, 3))
    found = sd.grad(lambda a, b: np.sum(product(a, b) ** 2), (0, 1))(a, b)
    same(found, sd.grad(lambda a, b: np.sum((a @ b) ** 2), (0, 1))(a, b))


def test_numbers_and_arrays_have_rules_of_their_own():
    def double(x):
        return 2 * x

    @sd.diffrule(double, pullback=True)
    def _(ds, out, x: sd.Real):
        return 3 * ds

    @sd.diffrule(double, pullback=True)
    def _(ds, out, x: sd.Array):
        return 5 * ds

    assert sd.grad(lambda x: double(x))(1.0) == 3.0
    assert sd.grad(lambda x: np.sum(double(x)))(np.ones(2)).tolist() == [5.0, 5.0]


def test_errors_name_the_rule():
    def twice(x, y):
        return x + y

    def declare(body):
        sd.diffrule(twice, pullback=True)(body)
        return sd.grad(lambda x: np.sum(twice(x, x)))(np.ones(3))

    for body, words in [
        (lambda ds, out, x, y: (ds,), "must return 2 cotangents"),
        (lambda ds, out, x, y: (ds[:2], ds), r"the cotangent of x has shape \(2,\); \(3,\) is expected"),
    ]:
        body.__annotations__ = {"x": sd.Array}
        with pytest.raises(sd.RuleError, match=rf"test_array_rules.py:\d+: .*{words}"):
            declare(body)

    @sd.primitive(shapes=lambda x: x.shape)
    def mutating(x):
        x[0] = 1.0
        return x

    with pytest.raises(sd.TraceError, match=r"test_array_rules.py:\d+: mutating writes to an argument"):
        sd.vmap(mutating)(np.ones((2, 3)))

    @sd.primitive(shapes=lambda x: (2,))
    def other(x):
        return x * 1.0

    with pytest.raises(sd.SymdiffError, match=r"other returns shapes \(3,\); \(2,\) were told"):
        sd.vmap(other)(np.ones((2, 3)))
    with pytest.raises(sd.RuleError, match=r"(?s)no derivative of other.*pullback=True"):
        sd.grad(lambda x: np.sum(other(x)))(np.ones(3))


def test_whole_numbers_and_settings_come_as_they_are():
    @sd.primitive(shapes=lambda x, places, scale: places.shape)
    def picked(x, places, scale):
        return x[places] * {"one": 1.0, "two": 2.0}[scale]

    def f(x):
        return np.sum(picked(x, np.array([2, 0]), "two") * picked(x, np.array([2, 0]), "one"))

    assert sd.trace(f, np.array([1.0, 2.0, 3.0]))(np.array([1.0, 2.0, 3.0])) == 20.0
    assert sd.vmap(f)(np.array([[1.0, 2.0, 3.0]])).tolist() == [20.0]


def test_a_file_imports_the_primitive_by_its_name(tmp_path, monkeypatch):
    a, b = system(4)
    made = sd.value_and_grad(energy, (0, 1))
    made.export(tmp_path / "exported_energy.py", a, b)
    text = (tmp_path / "exported_energy.py").read_text()
    assert f"# Imports {__name__}.factor, {__name__}.solved" in text and text.count(f"from {__name__} import") == 2
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("exported_energy")
    (value, grads), count = counted(module.energy_value_and_grad, a, b)
    assert count == 1
    expected, gradients = made(a, b)
    same([value, *grads], [expected, *gradients])
    for target in ("c", "cuda", "cupy", "python"):
        with pytest.raises(sd.ExportError, match=r"factor \(test_array_rules.py:\d+\) is a primitive.*target 'numpy'"):
            made.export(tmp_path / "refused", a, b, target=target)

    @sd.primitive(shapes=lambda x: x.shape)
    def local(x):
        return np.sort(x)

    with pytest.raises(sd.ExportError, match="top of a module"):
        sd.vmap(local).export(tmp_path / "refused.py", np.ones((2, 2)))


def test_a_batched_call_in_a_file(tmp_path, monkeypatch):
    many, rhs = np.stack([system(4, k)[0] for k in range(3)]), np.ones((3, 4))
    made = sd.vmap(sd.grad(energy, (0, 1)))
    made.export(tmp_path / "exported_batch.py", many, rhs)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = __import__("exported_batch")
    found, count = counted(next(getattr(module, n) for n in module.__all__), many, rhs)
    assert count == 3
    same(found, made(many, rhs))


def test_results_apart_from_arguments_and_work_arrays():
    @sd.primitive(shapes=lambda x: x.shape)
    def itself(x):
        return x

    @sd.diffrule(itself, pullback=True)
    def _(ds, out, x):
        return itself(ds)

    f = sd.vjp(lambda x: itself(itself(x) * 2.0))
    x, v = np.arange(3.0), np.ones(3)
    first = f(x, v)
    second = f(x + 1, v + 1)
    assert first[0].tolist() == [0.0, 2.0, 4.0] and first[1].tolist() == [2.0] * 3
    assert second[0].tolist() == [2.0, 4.0, 6.0] and second[1].tolist() == [4.0] * 3
    assert not np.shares_memory(first[0], second[0]) and x.tolist() == [0.0, 1.0, 2.0]


def test_formulas_name_the_functions_that_are_called():
    a, b = system(3)
    shown = str(sd.grad(energy).graph(a, b).formula)
    assert "factor(a)" in shown and "solved" in shown and "site" not in shown
    with pytest.raises(sd.TraceError, match="factor of a whole array is no expression of SymPy's"):
        sd.trace(energy, a, b).expr  # noqa: B018


@sd.primitive(shapes=lambda x, places: x.shape)
def taken(x, places):
    return np.where(places, x, 0.0) if places.dtype == bool else x[places]


@sd.primitive(shapes=lambda x, places: x.shape)
def added(x, places):
    found = np.zeros(x.shape)
    np.add.at(found, np.nonzero(places)[0] if places.dtype == bool else places, x[places] if places.dtype == bool else x)
    return found


@sd.diffrule(taken, pullback=True)
def _(ds, out, x, places):
    return added(ds, places), None


@sd.diffrule(added, pullback=True)
def _(ds, out, x, places):
    return taken(ds, places), None


def test_whole_numbers_and_truths_stay_what_they_are_within_rules():
    x = np.array([1.0, 2.0, 3.0])
    squares = lambda places: lambda x: np.sum(taken(x, places) ** 2)  # noqa: E731
    for places in (np.array([0, 0, 2]), np.array([True, False, True])):
        weights = added(np.ones(3), places)
        np.testing.assert_allclose(sd.grad(squares(places))(x), 2 * weights * x)
        np.testing.assert_allclose(sd.hessian(squares(places))(x), 2 * np.diag(weights))
    assert sd.grad(lambda x: np.sum(taken(x, x > 1.5) ** 2))(x).tolist() == [0.0, 4.0, 6.0]


def test_derivatives_have_the_structure_of_what_they_belong_to():
    @sd.primitive(shapes=lambda p: p["a"].shape)
    def scaled(p):
        return p["a"] * p["b"]

    @sd.diffrule(scaled, pullback=True)
    def _(ds, out, p):
        return [ds * p["a"], ds * p["b"]]

    with pytest.raises(sd.RuleError, match=r"has its arrays at \[0\], \[1\]; p has them at \['a'\], \['b'\]"):
        sd.grad(lambda p: np.sum(scaled(p)))({"a": np.ones(2), "b": np.ones(2)})

    def both(x):
        return {"u": 2 * x, "v": 3 * x}

    @sd.diffrule(both, pushforward=True)
    def _(dots, out, x: sd.Array):
        return 3 * dots[0], 2 * dots[0]

    with pytest.raises(sd.RuleError, match="both has them at"):
        sd.jvp(both)(np.ones(2), np.ones(2))


def test_a_batch_of_a_batch_keeps_its_axes():
    x, y = np.arange(8.0).reshape(4, 2), np.arange(6.0).reshape(3, 2)
    table = sd.vmap(sd.vmap(np.dot, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(table(x, y), x @ y.T)
    assert sd.vmap(sd.vmap(np.sum))(np.ones((2, 3, 4))).tolist() == [[4.0] * 3] * 2

    @sd.primitive(shapes=lambda x: x.shape)
    def doubled(x):
        return 2 * x

    assert sd.vmap(doubled)(np.ones(3)).tolist() == [2.0] * 3  # of numbers, whose shape is told, too


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
def test_slopes_of_convolutions_take_no_more_than_they_do(function, mode):
    x, y = np.arange(1.0, 201.0), np.linspace(0.5, 1.0, 9)

    def f(x, y):
        return np.sum(function(x, y, mode) ** 2)

    cost = sd.value_and_grad(f, argnums=(0, 1)).cost(x, y)
    assert cost.ratio < 3.2

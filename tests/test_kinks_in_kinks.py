"""Kinks of kinks at their ties: the rows give one slope, whichever way a derivative is computed."""

import numpy as np
import pytest

import symdiff as sd

TIES = {
    "maximum(x, abs(minimum(x, 0)))": lambda x: np.maximum(x, np.abs(np.minimum(x, 0))),
    "maximum(x, abs(maximum(x, 0)))": lambda x: np.maximum(x, np.abs(np.maximum(x, 0))),
    "maximum(0, minimum(x, 0))": lambda x: np.maximum(0, np.minimum(x, 0)),
    "abs(abs(x) - x)": lambda x: np.abs(np.abs(x) - x),
    "maximum(abs(x), x)": lambda x: np.maximum(np.abs(x), x),
    "minimum(abs(x), x)": lambda x: np.minimum(np.abs(x), x),
    "maximum(x, -x)": lambda x: np.maximum(x, -x),
    "abs(maximum(x, 0) - minimum(x, 0))": lambda x: np.abs(np.maximum(x, 0) - np.minimum(x, 0)),
    "maximum(x, hypot(x, x))": lambda x: np.maximum(x, np.hypot(x, x)),
    "minimum(x, hypot(x, x))": lambda x: np.minimum(x, np.hypot(x, x)),
    "clip(maximum(x, 0))": lambda x: np.clip(np.maximum(x, 0), 0, 1),
    "maximum(clip(x))": lambda x: np.maximum(np.clip(x, 0, 1), x),
    "where(x > 0, x, abs(x))": lambda x: np.where(x > 0, x, np.abs(x)),
    "maximum(sqrt(x*x), x)": lambda x: np.maximum(np.sqrt(x * x), x),
    "maximum(x, where)": lambda x: np.maximum(x, np.where(x > 0, x, -x)),
    "fmax(clip(-x), -x)": lambda x: np.fmax(np.clip(-x, -1.0, 0.0), -x),
    "sqrt(minimum**2) + minimum": lambda x: np.sqrt(np.minimum(x, 0.0) ** 2) + np.minimum(2.0 * x, x),
    "maximum(minimum(x/2, 2*x), 0)": lambda x: np.maximum(np.minimum(0.5 * x, 2.0 * x), 0),
    "clip(sqrt(max(stack)**2))": lambda x: np.clip(np.sqrt(np.max(np.stack([-x + 0 * x, 0 * x]), axis=0) ** 2), 0.0, 1.0),
    "sqrt(min(stack)**2)": lambda x: np.sqrt(np.min(np.stack([x + 0 * x, 0 * x]), axis=0) ** 2),
    "abs(max(list))": lambda x: np.abs(np.max(np.array([x, 0 * x]), axis=0)),
}


def summed(f):
    return lambda x: np.sum(f(x))


def filed(f, target, folder):
    path = folder / "made.py"
    sd.grad(f).export(path, 0.0, target=target)
    space = {"__name__": "made"}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space[space["__all__"][0]](0.0)


@pytest.mark.parametrize("name", TIES)
def test_one_slope_by_all_ways(name, tmp_path):
    f = TIES[name]
    slope = sd.grad(f)(0.0)
    assert np.isfinite(slope)
    ways = {
        "derivative at points": sd.derivative(f)(np.zeros(3)),
        "vmap": sd.vmap(sd.grad(f))(np.zeros(3)),
        "vjp": sd.vjp(f)(0.0, 1.0)[1],
        "forward": np.diagonal(sd.jacobian(f, mode="forward")(np.zeros(2))),
        **{
            f"exact={e} {n}": sd.grad(summed(f), exact=e)(np.zeros(n))
            for e, n in ((True, 1), (False, 9), (False, 99), (True, 99))
        },
        "numpy": sd.grad(f, backend="numpy")(0.0),
        **{f"{target} file": filed(f, target, tmp_path) for target in ("numpy", "python")},
    }
    for way, found in ways.items():
        assert np.all(found == slope), (way, found, slope)


SMOOTH = {  # values that are smooth where kinks of several variables tie, and what they are there
    "maximum*minimum": (lambda x, y: np.maximum(x, y) * np.minimum(x, y), lambda x, y: x * y),
    "Python's own": (lambda x, y: np.sin(max(x, y)) * np.sin(min(x, y)), lambda x, y: np.sin(x) * np.sin(y)),
    "(maximum - minimum)**2": (lambda x, y: (np.maximum(x, y) - np.minimum(x, y)) ** 2, lambda x, y: (x - y) ** 2),
    "(fmax + fmin)**3": (lambda x, y: (np.fmax(x, 2 * y - 1) + np.fmin(x, 2 * y - 1)) ** 3, lambda x, y: (x + 2 * y - 1) ** 3),
    "maximum*maximum*minimum*minimum": (
        lambda x, y: np.maximum(x, y) ** 2 * np.minimum(x, y) ** 2,
        lambda x, y: (x * y) ** 2,
    ),
    "maximum(x, minimum)": (lambda x, y: np.maximum(x, np.minimum(x, y)) * y, lambda x, y: x * y),
    "clip(x, y, x)": (lambda x, y: np.clip(x, y, x) * x * y, lambda x, y: x * x * y),
    "a common operand": (
        lambda x, y: np.minimum(np.maximum(x, y), np.maximum(y, 0.25)) ** 2,
        lambda x, y: np.maximum(y, np.minimum(x, 0.25)) ** 2,
    ),
    "exponentials": (lambda x, y: np.exp(np.maximum(x, y)) * np.exp(np.minimum(x, y)), lambda x, y: np.exp(x + y)),
    "sines": (lambda x, y: np.sin(np.maximum(x, y)) * np.sin(np.minimum(x, y)), lambda x, y: np.sin(x) * np.sin(y)),
    "a product and its negative": (
        lambda x, y: np.maximum((x - 1) * y, -(x - 1) * y) * np.abs((x - 1) * y),
        lambda x, y: ((x - 1) * y) ** 2,
    ),
    "three": (
        lambda x, y: (np.maximum(x, y) + np.minimum(x, y)) * np.maximum(np.abs(x - y), 0) ** 2,
        lambda x, y: (x + y) * (x - y) ** 2,
    ),
    "three lines": (
        lambda x, y: np.maximum(np.abs(x - 1), np.abs(y - 1)) ** 2 + np.minimum(np.abs(x - 1), np.abs(y - 1)) ** 2,
        lambda x, y: (x - 1) ** 2 + (y - 1) ** 2,
    ),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_values_that_are_smooth_where_kinks_of_several_variables_tie(name):
    f, plain = SMOOTH[name]
    for point in ((1.0, 1.0), (0.25, 0.25), (-2.0, -2.0), (1.0, 0.5)):
        for transform in (sd.grad, sd.hessian):
            wanted = np.array(transform(plain, (0, 1))(*point))
            assert np.allclose(np.array(transform(f, (0, 1))(*point)), wanted, rtol=1e-13, atol=1e-13), (point, wanted)
    if name == "Python's own":
        return
    arrays = [np.sum(sd.hvp(lambda p, h=h: np.sum(h(p[0], p[1])))(np.ones((2, 5)), np.eye(2, 5)), axis=1) for h in SMOOTH[name]]
    assert np.allclose(*arrays, rtol=1e-13, atol=1e-13)


def test_squares_of_shares_at_a_tie_are_the_mean_of_both_sides():
    for f in (
        lambda x, y: np.maximum(x - y, 0) ** 2,
        lambda x, y: 0.5 * (np.maximum(x, y) - np.minimum(x, y) + x - y) ** 2 / 2,
    ):
        assert np.array_equal(sd.hessian(f, (0, 1))(1.0, 1.0), [[1.0, -1.0], [-1.0, 1.0]])


def test_a_maximum_of_one_value_is_this_value():
    for f in (lambda x: np.cos(np.abs(np.maximum(x, x))), lambda x: np.cos(np.abs(np.minimum(x, x + 1.0)))):
        assert sd.derivative(f, order=2)(0.0) == -1.0


CHOSEN = {  # what some functions choose of many cells, and its place among them in order
    "max": (np.max, -1),
    "min": (lambda t: t.min(), 0),
    "max of columns": (lambda t: np.max(np.max(t.reshape(-1, 2), axis=0)), -1),
    "maximum.reduce": (np.maximum.reduce, -1),
    "sort": (lambda t: np.sort(t)[1], 1),
    "partition": (lambda t: np.partition(t, 2)[2], 2),
    "quantile": (lambda t: np.quantile(t, 1.0), -1),
    "argmax": (lambda t: t[np.argmax(t)], -1),
}


def added_to_itself(t, value):
    t[0] += value
    return np.sum(t * t)


USED = {
    "squared": lambda t, value: value * value,
    "cubed beside others": lambda t, value: value**3 * t[1] + value * np.sum(t),
    "written into the array": added_to_itself,
}


@pytest.mark.parametrize("cells", [4, 12])
@pytest.mark.parametrize("use", USED)
@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_chosen_of_many_cells_is_chosen_in_its_square_too(name, use, cells):
    (choose, place), combine = CHOSEN[name], USED[use]
    x = np.random.default_rng(1).uniform(-1.5, 1.5, cells)
    k = np.argsort(x)[place]

    def chosen(x):
        t = np.sin(x)
        return combine(t, choose(t))

    def plain(x):
        t = np.sin(x)
        return combine(t, t[k])

    np.testing.assert_allclose(sd.hessian(chosen)(x), sd.hessian(plain)(x), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(sd.hvp(chosen)(x, x + 1.0), sd.hvp(plain)(x, x + 1.0), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("count", [2, 5, 7])
def test_extremes_of_many_limited_cells(count):
    weights = np.array([0.7, -0.4, 0.25, 0.9])
    x = np.linspace(-0.8, 0.7, count)

    def f(x):
        return np.ptp(np.outer(np.clip(x, -0.5, 0.6), weights))

    step = (f(x + 1e-7 * np.sin(x)) - f(x)) / 1e-7
    assert sd.grad(f)(x) @ np.sin(x) == pytest.approx(step, abs=1e-6)


def test_conditions_on_conditions_are_asked_once():
    def f(x):
        a = np.sin(x)
        for _ in range(40):
            a[a > a[1]] *= 0.5
        return a.sum() + 0.5 * abs(complex(x[1], 0.2))

    x = np.array([0.47, 1.21, -0.23, -0.98])
    slope = np.array([np.cos(x[0]), np.cos(x[1]) + 0.5 * x[1] / np.hypot(x[1], 0.2), np.cos(x[2]), np.cos(x[3])])
    np.testing.assert_allclose(sd.grad(f)(x), slope, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_least_of_numbers_and_constants_in_either_precision(dtype):
    def f(x):
        a = min(1.5, 1.0, 0.5 + abs(x[0]))
        b = min(2.0, a + 1, 1.0 + abs(x[1]))
        c = min(1.5, b + 1, a + 0.0)
        return min(c, b, 1.5) * x[1] - np.percentile(x, 10)

    x = np.array([0.25, -1.125, -1.25, 0.375], dtype)
    value, slope = sd.value_and_grad(f)(x)
    assert slope.dtype == dtype
    np.testing.assert_allclose(value, f(x), rtol=1e-6)
    np.testing.assert_allclose(slope, [-1.125, 0.45, -0.7, 0.0], atol=1e-6)

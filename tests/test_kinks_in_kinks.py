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


DOMINATED = {  # extremes that are one of their operands, in other words or beside the point, and the same without the others
    "min(fmax, min)": (lambda x, y: min(np.fmax(x, y), min(x, 1)) * x, lambda x, y: np.minimum(x, 1) * x),
    "max(max, min)": (lambda x, y: max(max(x, y), min(0.5 * x, 0.5 * x + y)) * y, None),
    "max(max(x, y), min(z, x))": (
        lambda x, y: np.maximum(np.maximum(x, y), np.minimum(x * y, x)),
        lambda x, y: np.maximum(x, y),
    ),
    "clip of equal bounds": (lambda x, y: np.clip(np.maximum(1.0, x), x, x) * y, lambda x, y: x * y),
    "of three": (lambda x, y: np.max(np.array([x, min(x, y), min(x, 2 * y)])) * x, None),
    "beside the point": (lambda x, y: np.minimum(np.maximum(x, y), np.abs(y + 3)), lambda x, y: np.maximum(x, y)),
    "a difference of kinks": (lambda x, y: np.abs(np.abs(x - y) - (x - y)), lambda x, y: 2 * np.maximum(y - x, 0.0)),
    "what is not negative": (lambda x, y: np.maximum(x * x + np.exp(y), 0.0), lambda x, y: x * x + np.exp(y)),
    "a sum of squares": (lambda x, y: np.maximum(x * x + y * y, x * y), lambda x, y: x * x + y * y),
    "zero": (lambda x, y: np.maximum(x * x, np.minimum(x, y) * (x - x)), lambda x, y: x * x),
}
DOMINATED["max(max, min)"] = (DOMINATED["max(max, min)"][0], lambda x, y: np.maximum(x, y) * y)
DOMINATED["of three"] = (DOMINATED["of three"][0], lambda x, y: x * x)


@pytest.mark.parametrize("name", DOMINATED)
def test_extremes_that_are_one_of_their_operands(name):
    f, plain = DOMINATED[name]
    for point in ((0.0, 0.0), (1.0, 1.0), (-1.0, -1.0), (0.5, 0.25)):
        for transform in (sd.grad, sd.hessian):
            found, wanted = (np.array(transform(g, (0, 1))(*point)) for g in (f, plain))
            assert np.allclose(found, wanted, rtol=1e-14, atol=1e-14), (point, found, wanted)


def every_way(f, point):
    """The Hessian by several ways."""
    yield np.array(sd.hessian(f, (0, 1))(*point))
    yield np.array(sd.hessian(f, (0, 1), exact=True)(*point))
    yield np.array(sd.jacobian(sd.grad(f, (0, 1)), (0, 1), mode="forward")(*point))
    yield sd.vmap(sd.hessian(lambda x: f(x[0], x[1])))(np.array([point, point]))[1]
    whole = sd.hessian(lambda x: np.sum(f(x[:, 0], x[:, 1])))(np.array([point, point]))
    yield whole[1, :, 1, :]


TOUCHING = {  # second derivatives where operands touch: not a number, of neither; and where they cross
    "of both signs": (lambda x, y: np.maximum(x * x - y * y, 0.0), (0.0, 0.0), np.nan),
    "of a product": (lambda x, y: np.abs(x * y), (0.0, 0.0), np.nan),
    "beside a parameter": (lambda x, y: np.abs(np.arcsin(x * x) - np.sin(y * y)), (0.0, 0.0), np.nan),
    "crossing": (lambda x, y: np.abs(x * y), (0.0, 1.0), [[0, 0], [0, 0]]),
    "of higher order": (lambda x, y: np.maximum(x * x * x - y * y * y, 0.0), (0.0, 0.0), [[0, 0], [0, 0]]),
    "not tied": (lambda x, y: np.maximum(x * x - y * y, 1.0), (0.0, 0.0), [[0, 0], [0, 0]]),
    "alike all around": (lambda x, y: np.maximum(np.maximum(x, 0.0) * y, 0.0), (-1.0, 2.0), [[0, 0], [0, 0]]),
    "tangent kinks": (lambda x, y: np.maximum(y - x * x, 0.0) * np.minimum(y, 0.0), (0.0, 0.0), [[0, 0], [0, 0]]),
    "tangent kinks on one side": (
        lambda x, y: np.maximum(np.sin(y), 0.0) * np.maximum(y, 0.0) + np.minimum(np.sin(y), 0.0) * np.minimum(y, 0.0) + x,
        (0.0, 0.0),
        [[0, 0], [0, 2]],
    ),
}


@pytest.mark.parametrize("name", TOUCHING)
def test_second_derivatives_where_operands_touch(name):
    f, point, wanted = TOUCHING[name]
    for found in every_way(f, point):
        if np.isscalar(wanted):
            assert np.isnan(found).any() and not np.any(found[np.isfinite(found)]), found
        else:
            assert np.array_equal(found, wanted), found


def test_kinks_in_kinks_that_tie_in_one_direction_turn_together():
    f = lambda x, y: np.fmax(np.tanh(np.minimum(x, y)), x)  # noqa: E731
    assert np.array_equal(sd.grad(f, (0, 1))(0.0, 0.0), [1.0, 0.0])


def test_where_operands_touch_is_explained():
    found = sd.explain(lambda x: np.abs(x[0] * x[1]), np.zeros(2))
    assert [entry.operation for entry in found.entries] == ["abs"]


@pytest.mark.parametrize("f", [np.cos, np.cosh, np.square])
def test_values_that_bend_where_they_were_written_otherwise(f):
    second = sd.derivative(lambda x: f((1 - np.cos(x)) ** 0.5), order=2)(0.0)
    assert np.isclose(second, {np.cos: -0.5, np.cosh: 0.5, np.square: 1.0}[f], rtol=1e-12)

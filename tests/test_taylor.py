"""Taylor mode: coefficients against mpmath and against derivatives one after the other, and what they cost."""

import math

import mpmath as mp
import numpy as np
import pytest
from inside import rules_in_force, series_derivative, transforming
from scipy import special

import symdiff as sd


def bell(x):
    return np.sin(x) * np.exp(-(x**2)) / (1 + x**2)


KNOWN = {
    "bell": (bell, lambda x: mp.sin(x) * mp.exp(-(x**2)) / (1 + x**2), 0.5),
    "tan": (np.tan, mp.tan, 0.4),
    "root and log": (lambda x: np.log1p(x) * np.sqrt(x), lambda x: mp.log(1 + x) * mp.sqrt(x), 1.25),
    "x**x": (lambda x: x**x, lambda x: x**x, 1.5),
    "asin": (np.arcsin, mp.asin, 0.25),
    "atan": (np.arctan, mp.atan, 0.75),
    "erf": (special.erf, mp.erf, 0.625),
    "asinh": (np.arcsinh, mp.asinh, 0.75),
    "tanh": (np.tanh, mp.tanh, 0.5),
    "power": (lambda x: x**2.5 * np.exp(x), lambda x: x ** mp.mpf("2.5") * mp.exp(x), 1.75),
    "polynomial": (lambda x: x**7 * np.cosh(x), lambda x: x**7 * mp.cosh(x), 0.25),
}


@pytest.mark.parametrize("name", KNOWN)
def test_thirty_coefficients_are_those_of_mpmath(name):
    f, exact, x = KNOWN[name]
    with mp.workdps(80):
        expected = mp.taylor(exact, mp.mpf(x), 30)
        derivative = float(expected[30] * mp.factorial(30))
    graph = sd.taylor(f, 30).graph(x, 1.0)
    np.testing.assert_allclose([float(c) for c in graph(x, 1.0)], [float(c) for c in expected], rtol=1e-12)
    found = sd.derivative(f, 30).graph(x)
    np.testing.assert_allclose(float(np.squeeze(found(x))), derivative, rtol=1e-12)


def test_order_20_takes_few_operations():
    d = sd.derivative(bell, 20)
    assert sd.cost(d, 0.5).derivative.operations < 700
    assert abs(d(0.5) / -228992682334370951.94 - 1) < 1e-13
    series = [sd.taylor(bell, n).graph(0.5, 1.0).operations() for n in (10, 20, 40)]
    assert series[1] < 4.2 * series[0]
    assert series[2] < 4.2 * series[1]


def test_neighbours_of_a_bessel_function_are_shared():
    for f in (special.j0, lambda x: special.jv(0.3, x), lambda x: special.kv(2, x)):
        assert sd.taylor(f, 16).graph(2.0, 1.0).operations() < 3000


RULED = {
    "elementary": lambda x: np.arctan2(np.sinh(x), np.hypot(x, 2.0)) + np.logaddexp(x, 2 * x) + np.cbrt(1 + x) + np.exp2(x),
    "inverse": lambda x: np.arccosh(2 + x) * np.arcsinh(x) + np.arccos(x) - np.arctanh(x) + np.log10(2 + x),
    "extremes": lambda x: np.maximum(x, x * x) ** 2 + np.minimum(x, 1.0) * np.abs(x - 2) + np.clip(x, 0.0, 0.25) * x,
    "powers": lambda x: (1 + x) ** -2.0 + 3.0**x + (1 + x) ** (x * x) + (1 + x) ** 0.5,
    "special": lambda x: special.erfc(x) + special.digamma(2 + x) + special.ndtr(x) + special.jv(2, x) + special.expit(x),
    "integrals": lambda x: special.expi(1 + x) + special.dawsn(x) + special.spence(1 + x) + special.gammainc(2.5, 1 + x),
    "elliptic": lambda x: special.ellipk(x) + special.hyp2f1(0.5, 1.5, 2.5, x) + special.zeta(2.5, 2 + x),
    "arms": lambda x: np.where(x > 0, np.log(x), np.sqrt(-x)) * np.where(np.floor(3 * x) > 0, x, np.sin(x)),
}


@pytest.mark.parametrize("name", RULED)
@pytest.mark.parametrize("order", [1, 4])
def test_series_by_the_rules_are_derivatives_one_after_the_other(name, order):
    graph = sd.trace(RULED[name], 0.4)
    rules = rules_in_force(None)
    nested = graph
    for _ in range(order):
        nested = transforming.jacobian(nested, [0], rules, "reverse", lambda g: 0)
    np.testing.assert_allclose(series_derivative(graph, 0, order, rules)[0](0.4), nested(0.4), rtol=1e-10)


X = np.arange(9.0).reshape(3, 3) / 8 + np.eye(3)
V = np.cos(np.arange(9.0)).reshape(3, 3)
WHOLE = {
    "product": lambda x: x @ x.T @ np.sin(x),
    "solve": lambda x: np.linalg.solve(x @ x.T + np.eye(3), x[0]),
    "determinant": lambda x: np.linalg.slogdet(x)[1] * np.linalg.det(x),
    "eigenvalues": lambda x: np.linalg.eigvalsh(x + x.T),
    "inverse": np.linalg.inv,
    "softmax": lambda x: special.softmax(x, axis=0),
    "moved": lambda x: np.concatenate([np.cumsum(x * x, axis=1)[::2, 1:], np.sort(x, axis=0)[:1, 1:] ** 2]),
    "reduced": lambda x: np.max(x, axis=1) * np.prod(x, axis=0) + np.linalg.norm(x),
    "complex": lambda x: np.fft.fft(x[0] * x[1]) * np.abs(x[0] + 1j * x[1]),
    "broadcast": lambda x: (x[0] + np.ones((4, 3))).sum(0) * x[0],
    "empty": lambda x: np.exp(x[:0]),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("scalarize", [None, False])
def test_arrays(name, scalarize):
    found = sd.taylor(WHOLE[name], 3, scalarize=scalarize)(X, V)

    def along(t):
        return WHOLE[name](X + t * V)

    once = lambda g: lambda t: sd.jvp(g)(t, 1.0)[1]  # noqa: E731
    for k in range(4):
        np.testing.assert_allclose(found[k], np.asarray(along(0.0)) / math.factorial(k), rtol=1e-9, atol=1e-11)
        along = once(along)


def test_structures_and_several_arguments():
    found = sd.taylor(lambda p: {"a": p["x"] * p["y"], "b": p["x"] ** 2}, 2)({"x": 2.0, "y": X}, {"x": 1.0, "y": V})
    np.testing.assert_allclose(found[1]["a"], X + 2 * V)
    np.testing.assert_allclose(found[2]["a"], V)
    assert [float(c["b"]) for c in found] == [4.0, 4.0, 1.0]
    assert list(map(float, sd.taylor(lambda x, y: x * y**2, 3, argnums=(0, 1))(2.0, 3.0, (1.0, 1.0)))) == [18, 21, 8, 1]


def test_dtypes_are_those_of_jvp():
    z = np.complex64(1 + 2j)
    assert [c.dtype.char for c in sd.taylor(np.exp, 3)(z, z)] == ["F"] * 4
    assert [c.dtype.char for c in sd.taylor(np.tan, 3)(np.float32(1), np.float32(1))] == ["f"] * 4
    t = sd.taylor(lambda z: np.exp(z) * np.conj(z), 1)
    np.testing.assert_allclose(t(1 + 2j, 3j), sd.jvp(lambda z: np.exp(z) * np.conj(z))(1 + 2j, 3j))


def test_complex_derivatives():
    z = 1 + 2j
    np.testing.assert_allclose(sd.derivative(lambda z: np.exp(z) * z, 9)(z), (z + 9) * np.exp(z), rtol=1e-14)
    with pytest.raises(sd.NonHolomorphicError):
        sd.derivative(lambda z: np.abs(z) ** 2, 4)(z)


def test_kinks_and_overflow():
    assert [float(c) for c in sd.taylor(np.abs, 2)(0.0, 1.0)] == [0, 0, 0]
    assert [float(c) for c in sd.taylor(lambda x: np.maximum(x, 0.0), 2)(0.0, 1.0)] == [0, 0.5, 0]
    undecided = [float(c) for c in sd.taylor(lambda x: np.hypot(x, np.sin(x)), 2)(0.0, 1.0)]
    assert undecided[0] == undecided[1] == 0
    assert np.isnan(undecided[2])
    for f, wanted in (  # whose sides are differentiated apart
        (lambda x: np.arctan(np.sign(x)) * np.maximum(-x, x), [0, np.pi / 4, 0]), (np.cosh, [1, 0, 0.5]),
        (lambda x: np.minimum(np.expm1(x), -x) ** 2, [0, 0, 1]), (lambda x: np.cosh(abs(x)), [1, 0, 0.5]),
        (lambda x: np.maximum(np.maximum(1 - np.cos(x), np.sinc(0.3 * x)), 1.0), [1, 0, 0]),
    ):  # fmt: skip
        np.testing.assert_allclose([float(c) for c in sd.taylor(f, 2)(0.0, 1.0)], wanted, rtol=1e-12)
    far = {
        "log(1 + exp)": lambda x: np.log(1 + np.exp(x)),
        "expit": special.expit,
        "1/(1 + exp)": lambda x: 1 / (1 + np.exp(x)),
    }
    for f in far.values():
        for x in (-800.0, 800.0, -np.inf):
            assert [float(c) for c in sd.taylor(f, 5)(x, 1.0)][2:] == [0, 0, 0, 0]
    assert np.isnan(sd.taylor(np.exp, 3)(np.nan, 1.0)).all()
    assert sd.derivative(lambda x: x**10, 7)(0.0) == 0
    assert not np.isfinite(sd.derivative(lambda x: 1 / (1 / x), 3)(0.0))


def test_series_of_an_extreme_of_several_numbers_are_those_of_the_one_that_is_it():
    def largest(x):
        return max(0.5, x, math.tanh(3 * x))

    def least(x):
        return min(x**3, math.tanh(x), math.sin(x), 0.25)

    sides = {
        largest: [lambda x: 0.5 + 0 * x, lambda x: x, lambda x: np.tanh(3 * x)],
        least: [lambda x: x**3, np.tanh, np.sin, lambda x: 0.25 + 0 * x],
    }
    for f, ways in sides.items():
        for x in (-1.4, -0.3, 0.1, 0.2, 0.4, 0.8, 1.3):
            own = min(ways, key=lambda way: abs(way(x) - f(x)))
            np.testing.assert_allclose(sd.taylor(f, 4)(x, 1.0), sd.taylor(own, 4)(x, 1.0), rtol=1e-12, atol=1e-15)
            assert sd.derivative(f, order=3)(x) == pytest.approx(sd.derivative(own, order=3)(x), abs=1e-14)


def test_points_nesting_and_files(tmp_path):
    points = np.linspace(-1, 1, 7)
    many = sd.vmap(sd.taylor(np.sin, 4))(points, np.ones(7))
    for k, c in enumerate(many):
        np.testing.assert_allclose(c, np.sin(points + k * np.pi / 2) / math.factorial(k), atol=1e-15)
    exact = sd.derivative(bell, 9, exact=True)(points)
    np.testing.assert_allclose(exact, [sd.derivative(bell, 9)(p) for p in points], rtol=1e-9)
    np.testing.assert_allclose(sd.derivative(bell, 9)(points.reshape(1, 7)), [exact], rtol=1e-9)
    assert sd.grad(lambda x: sd.taylor(np.sin, 3)(x, 1.0)[3])(0.3) == pytest.approx(np.sin(0.3) / 6)
    assert sd.taylor(sd.grad(np.sin), 3)(0.3, 1.0)[3] == pytest.approx(np.sin(0.3) / 6)
    t = sd.taylor(lambda x: np.sin(x) * x, 2)
    names: dict = {}
    exec(t.source(0.5, 1.0), names)
    np.testing.assert_allclose(next(v for k, v in names.items() if k.endswith("_taylor"))(0.5, 2.0), t(0.5, 2.0))
    assert "Coefficients of the Taylor series to order 2" in str(t.source(0.5, 1.0))


def test_what_it_takes_and_refuses():
    value, slope, *_ = sd.taylor(_chain, 3).graph(0.5, 1.0)(0.5, 1.0)
    assert float(value) == pytest.approx(_chain(0.5))
    assert float(slope) == pytest.approx(sd.jvp(_chain).graph(0.5, 1.0)(0.5, 1.0)[1])
    for order in (0, -1, 1.5, "2"):
        with pytest.raises(sd.OptionError, match="a positive integer"):
            sd.taylor(np.sin, order)
    with pytest.raises(sd.ShapeError):
        sd.taylor(np.sin, 2)(X, np.ones(4))


def _chain(x):
    y = x
    for _ in range(1200):
        y = np.sin(y) + x
    return y


NEAR = {  # quotients that are regular where their divisor vanishes, or not
    "sin(x)/x": (lambda x: np.sin(x) / x, lambda t: mp.sin(t) / t),
    "x/expm1(x)": (lambda x: x / np.expm1(x), lambda t: t / mp.expm1(t)),
    "log1p(x)/x": (lambda x: np.log1p(x) / x, lambda t: mp.log(1 + t) / t),
    "sin(x)**2/x**2": (lambda x: np.sin(x) ** 2 / x**2, lambda t: (mp.sin(t) / t) ** 2),
    "tanh/sinh": (lambda x: np.tanh(x) / np.sinh(x), lambda t: 1 / mp.cosh(t)),
    "cos(x)/x": (lambda x: np.cos(x) / x, lambda t: mp.cos(t) / t),
    "x**2.5/x": (lambda x: x**2.5 / x, lambda t: t ** mp.mpf("1.5")),
}


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("order", [3, 6])
def test_quotients_near_common_zeros(name, order):
    f, exact = NEAR[name]
    points = np.array([1e-9, 1e-5, 1e-3, 0.1, 0.5, 1.5])
    with mp.workdps(150):
        expected = [float(mp.taylor(exact, mp.mpf(x), order)[order] * mp.factorial(order)) for x in points]
    np.testing.assert_allclose(sd.derivative(f, order)(points), expected, rtol=1e-5)


def test_a_coefficient_without_a_digit_is_nan_and_zeros_stay():
    assert np.isnan(sd.derivative(lambda x: np.tan(x) - 1 / (np.pi / 2 - x), 6)(np.pi / 2 - 0.01))
    assert sd.derivative(lambda x: x / np.sin(x), 20)(0.1) == pytest.approx(690871197.563980688, rel=1e-5)
    assert sd.derivative(lambda x: (x**3 + 2 * x) / x, 3)(1e-9) == 0
    assert sd.derivative(lambda x: (x**3 + 2 * x) / x, 3)(0.3) == 0
    assert sd.derivative(lambda x: np.sin(x) / x, 3)(0.0) == 0


LENGTHS = {
    "hypot, arctan": (lambda x: np.hypot(np.log1p(np.arctan(x)), x), lambda t: mp.hypot(mp.log1p(mp.atan(t)), t)),
    "hypot, sin": (lambda x: np.hypot(np.sin(x), x), lambda t: mp.hypot(mp.sin(t), t)),
    "squares": (lambda x: np.sqrt(np.log1p(x) ** 2 + x**2), lambda t: mp.sqrt(mp.log1p(t) ** 2 + t**2)),
    "over squares": (lambda x: np.sin(x) / np.sqrt(x * x + np.sin(x) ** 2), lambda t: mp.sin(t) / mp.hypot(t, mp.sin(t))),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_near_zero_have_digits_or_are_nan(name):
    f, exact = LENGTHS[name]
    for order in (3, 4):
        found = np.array([sd.derivative(f, order=order)(x) for x in (1e-8, 0.1)])
        with mp.workdps(150):
            expected = [float(mp.taylor(exact, mp.mpf(x), order)[order] * mp.factorial(order)) for x in (1e-8, 0.1)]
        known = np.isfinite(found)
        assert known[1]
        np.testing.assert_allclose(found[known], np.array(expected)[known], rtol=1e-3)


ROUNDED = {  # what is divided has lost digits itself
    "exp(x) - 1": (lambda x: (np.exp(x) - 1) / x, lambda t: mp.expm1(t) / t),
    "log(1 + x)": (lambda x: np.log(1 + x) / x, lambda t: mp.log(1 + t) / t),
    "1 - cos(x)": (lambda x: (1 - np.cos(x)) / x**2, lambda t: (1 - mp.cos(t)) / t**2),
    "sqrt": (lambda x: (np.sqrt(1 + x) - 1) / x, lambda t: (mp.sqrt(1 + t) - 1) / t),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("order", [3, 5])
def test_quotients_of_rounded_differences(name, order):
    f, exact = ROUNDED[name]
    points = np.array([1e-9, 1e-5, 1e-3, 0.1, 0.5])
    with mp.workdps(150):
        expected = [float(mp.taylor(exact, mp.mpf(x), order)[order] * mp.factorial(order)) for x in points]
    found = sd.derivative(f, order)(points)
    lost = np.isnan(found)
    assert np.count_nonzero(lost) <= 2
    np.testing.assert_allclose(found[~lost], np.array(expected)[~lost], rtol=2e-3)


STATIONARY = {  # sums in what is divided stand still at the points, or altogether
    "x + (cos(x) + 2)": (lambda x: (x + (np.cos(x) + 2)) / (x + 1), lambda t: (t + mp.cos(t) + 2) / (t + 1)),
    "x*(cos(x) + 2)": (lambda x: x * (np.cos(x) + 2) / (x + 1), lambda t: t * (mp.cos(t) + 2) / (t + 1)),
    "exp(x*(x*x + 2))": (lambda x: np.exp(x * (x * x + 2)) / (x + 1), lambda t: mp.exp(t * (t * t + 2)) / (t + 1)),
    "abs(x*x + 2)": (lambda x: np.abs(x * x + 2) / (x + 1), lambda t: (t * t + 2) / (t + 1)),
    "x - x": (lambda x: (x - x + 1) / np.hypot(x + 1, x + 1) ** 3, lambda t: (mp.sqrt(2) * abs(t + 1)) ** -3),
    "cos(x - x)": (lambda x: 1 / (1 + np.cos(x - x)) / (x + 1) ** 2, lambda t: 1 / (2 * (t + 1) ** 2)),
    "where": (lambda x: np.where(x < 9, x * x + 2, x) / (x + 1), lambda t: (t * t + 2) / (t + 1)),
}


@pytest.mark.parametrize("name", STATIONARY)
def test_quotients_of_sums_that_stand_still(name):
    f, exact = STATIONARY[name]
    for x in (0.0, math.pi, 1e-12, 0.7):
        with mp.workdps(60):
            expected = [float(c) for c in mp.taylor(exact, mp.mpf(x), 4)]
        for v in (1.0, 2.0):
            found = sd.taylor(f, 4)(x, v)
            np.testing.assert_allclose(found, [c * v**k for k, c in enumerate(expected)], rtol=1e-9, atol=1e-13)


def test_quotients_of_numbers_by_sums_of_arrays_are_numbers():
    x, v = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.5, 0.2])
    for scalarize in (True, False):
        found = sd.taylor(lambda x: (np.sum(x + 1) - 8.9) / x[0], 2, scalarize=scalarize)(x, v)
        assert [np.shape(c) for c in found] == [(), (), ()]
        np.testing.assert_allclose(found, [0.1, 1.6, -1.6], rtol=1e-12)


POLES = {  # regular by themselves, but not what they are made of
    "1/x - 1/sin(x)": (lambda x: 1 / x - 1 / np.sin(x), lambda t: 1 / t - 1 / mp.sin(t)),
    "coth(x) - 1/x": (lambda x: 1 / np.tanh(x) - 1 / x, lambda t: mp.coth(t) - 1 / t),
    "log(sin(x)) - log(x)": (lambda x: np.log(np.sin(x)) - np.log(x), lambda t: mp.log(mp.sin(t) / t)),
    "a spherical Bessel function": (
        lambda x: np.sin(x) / x**2 - np.cos(x) / x,
        lambda t: mp.sin(t) / t**2 - mp.cos(t) / t,
    ),
    "a form factor": (
        lambda x: (3 * (np.sin(x) - x * np.cos(x)) / x**3) ** 2,
        lambda t: (3 * (mp.sin(t) - t * mp.cos(t)) / t**3) ** 2,
    ),
}
PRODUCTS = {
    "(sin(x) - x)/x**3": (lambda x: (np.sin(x) - x) / x**3, lambda t: (mp.sin(t) - t) / t**3),
    "sin(x)*(1/x)": (lambda x: np.sin(x) * (1 / x), lambda t: mp.sin(t) / t),
    "x**-2*(1 - cos(x))": (lambda x: x**-2 * (1 - np.cos(x)), lambda t: (1 - mp.cos(t)) / t**2),
}


@pytest.mark.parametrize("name", [*POLES, *PRODUCTS])
@pytest.mark.parametrize("order", [3, 6])
def test_what_cancels_is_right_or_nan(name, order):
    f, exact = {**POLES, **PRODUCTS}[name]
    points = np.array([1e-9, 1e-5, 1e-3, 0.1, 0.5])
    with mp.workdps(200):
        coefficients = [mp.taylor(exact, mp.mpf(x), order) for x in points]
        expected = np.array([float(c[order] * mp.factorial(order)) for c in coefficients])
    found = sd.derivative(f, order)(points)
    lost = np.isnan(found)
    assert np.count_nonzero(lost) <= (4 if name in POLES else 0)
    np.testing.assert_allclose(found[~lost], expected[~lost], rtol=2e-2)


def test_poles_without_a_common_zero_are_not_guarded():
    """Yukawa's potential and a rational function take fewer operations than derivatives one after the other: 23 and 26."""
    for f, most in ((lambda r: 2.5 * np.exp(-r) / r, 15), (lambda x: (x * x + 1) / (x - 3), 11)):
        assert sd.cost(sd.derivative(f, 3), 0.5).derivative.operations <= most


def test_small_residues_are_poles():
    x = 30.0
    assert sd.derivative(lambda x: (x * x + 0.01) / x, 3)(x) == pytest.approx(-0.06 / x**4, rel=1e-6)
    assert sd.derivative(lambda x: (np.cos(x) + 1e-6) / x, 3)(1e-9) == pytest.approx(-6.000006e36, rel=1e-9)


ENTIRE = {  # by their integrals, the 30th derivatives
    "sinc": (np.sinc, lambda x: mp.quad(lambda t: -((mp.pi * t) ** 30) * mp.cos(mp.pi * x * t), [0, 1])),
    "written": (lambda x: np.sin(x) / x, lambda x: mp.quad(lambda t: -(t**30) * mp.cos(x * t), [0, 1])),
    "exprel": (special.exprel, lambda x: mp.quad(lambda t: t**30 * mp.exp(x * t), [0, 1])),
}


@pytest.mark.parametrize("name", ENTIRE)
def test_entire_functions_that_are_quotients(name):
    f, exact = ENTIRE[name]
    for x in (0.0, 1e-9, 0.3, 2.0):
        assert sd.derivative(f, 30)(x) == pytest.approx(float(exact(x)), rel=1e-10)


def test_long_chains_take_linear_time():
    def chain(count):
        def f(x):
            y = x
            for _ in range(count):
                y = np.exp(-y) * x / (1 + np.exp(y) + np.sin(y))
            return y

        return f

    counts = [sd.taylor(chain(n), 3).graph(0.5, 1.0).operations() for n in (50, 100, 200)]
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_mixed_partials_by_series_within_series():
    def f(x, y):
        return np.sin(x * y) * np.exp(x) / (1 + y * y)

    inner = lambda x, y: sd.taylor(lambda t: f(x, y + t), 2)(0.0, 1.0)[2]  # noqa: E731
    found = sd.taylor(lambda s: inner(0.3 + s, 0.7), 3)(0.0, 1.0)[3]
    assert found == pytest.approx(-0.617199219304151, rel=1e-13)  # by SymPy: d5f/(dx3 dy2)/12
    once = sd.vmap(sd.taylor(np.sin, 2), in_axes=(0, None))(np.linspace(0, 1, 3), 2.0)
    np.testing.assert_allclose(once[2], -2 * np.sin(np.linspace(0, 1, 3)))


def test_complex_and_single_quotients():
    z = 1e-6 + 1e-6j
    assert sd.derivative(lambda z: np.sin(z) / z, 4)(z) == pytest.approx(0.2 - z**2 / 14, rel=1e-9)
    found = sd.derivative(lambda x: np.sin(x) / x, 4)(np.float32(1e-4))
    assert found.dtype == np.float32 and found == pytest.approx(0.2, rel=1e-4)


def test_formulas_of_series_are_derived_by_the_chain_rule():
    shown = str(sd.taylor(lambda x: np.sin(x) / x, 2).graph(0.3, 1.0).formula.latex)
    assert shown.count(r"\\") == 2 and "select" not in shown and r"\dot{x}^{2}" in shown
    assert "infinity" not in str(sd.taylor(lambda x: np.sin(x) / x, 6).graph(0.3, 1.0).formula)  # these are read as they are


@pytest.mark.parametrize("backend", ["python", "numpy", "native"])
def test_derivatives_of_what_is_given_up_are_given_up(backend):
    def f(x):
        return np.log(np.sin(x) / x)

    third = sd.derivative(f, order=3)
    doors = [sd.grad, sd.jacobian, sd.derivative, sd.hessian, lambda g, **kw: lambda x: sd.jvp(g, **kw)(x, 1.0)[1]]
    for door in doors:
        df = door(third, backend=backend)
        assert np.isnan(third(0.0)) and np.isnan(df(0.0)) and np.isfinite(df(1.3))
    np.testing.assert_allclose(sd.grad(third, backend=backend)(1.3), sd.derivative(f, order=4)(1.3), rtol=1e-9)


def test_loops_that_are_kept_are_written_out():
    def f(x):
        s = 0.0
        for i in range(120):
            s = 0.9 * s + x[i % 4] * np.sin(x[0])
        return s

    x, v = np.array([0.3, 0.1, 0.2, 0.5]), np.array([1.0, 0.5, -0.2, 0.1])
    assert sd.taylor(f, 3, loops="keep")(x, v) == pytest.approx(sd.taylor(f, 3)(x, v), rel=1e-13)

    def newton(x):
        y = x
        while abs(y * y - x) > 1e-9:
            y = 0.5 * (y + x / y)
        return y

    with pytest.raises(sd.TraceError, match="its number must be known"):
        sd.taylor(newton, 2, loops="keep")(2.0, 1.0)


@pytest.mark.parametrize(
    "f, wanted",
    [
        (lambda x: (x - x) / (1 + np.abs(x - x)), [0.0, 0.0, 0.0, 0.0]),
        (lambda x: (x - x) / (1 + (x - x)), [0.0, 0.0, 0.0, 0.0]),
        (lambda x: (x - 0.75) / (1 + (x - x)), [0.0, 1.0, 0.0, 0.0]),
        (lambda x: (x - 0.75) / (x - 0.5), [0.0, 4.0, -16.0, 64.0]),
    ],
)
def test_numbers_that_are_given_have_no_error(f, wanted):
    np.testing.assert_allclose(sd.taylor(f, 3)(0.75, 1.0), wanted, rtol=1e-14)
    assert sd.derivative(f, order=3)(0.75) == pytest.approx(6 * wanted[3], rel=1e-14)

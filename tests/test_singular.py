"""Points where a derivative does not exist, or is not known: the row's choice or NaN, never another number."""

import math

import mpmath
import numpy as np
import pytest
from scipy import special
from singular_cases import DIRECTIONAL, OVERFLOW, SINGULAR, UNSETTLED

import symdiff as sd

norm, PLANE, EYE = np.linalg.norm, np.zeros(2), np.eye(2)

# name: function, point; its Hessian is NaN where it is not zero for want of an operand
UNKNOWN = {
    "a cell times a norm": (lambda x: x[0] * norm(x), PLANE),
    "hypot": (lambda x: np.hypot(x[0], x[1]), PLANE),
    "cosine of hypot": (lambda x: np.cos(np.hypot(x[0], x[1])), PLANE),
    "abs of a complex number": (lambda x: abs(x[0] + 1j * x[1]), PLANE),
    "arctan2": (lambda x: np.arctan2(x[0], x[1]), PLANE),
    "std": (np.std, np.ones(2)),
    "length of singular values": (lambda x: norm(np.linalg.svdvals(x)), np.zeros((2, 2))),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_hessians_at_kinks_of_several_variables(name):
    f, x = UNKNOWN[name]
    assert np.all(np.isnan(sd.hessian(f)(x)))
    assert np.all(np.isnan(sd.hessian(f, scalarize=False)(x)))
    assert np.any(np.isnan(sd.hvp(f)(x, np.ones_like(x))))


@pytest.mark.parametrize("f, bend", [
    (lambda x: np.cos(norm(x)), -1.0), (lambda x: np.cos(np.sqrt(x[0] * x[0] + x[1] * x[1])), -1.0),
    (lambda x: norm(x) * np.sin(norm(x)), 2.0), (lambda x: np.cosh(norm(x)), 1.0),
])  # fmt: skip
def test_hessians_of_analytic_functions_of_squares(f, bend):
    for scalarize in (True, False):
        np.testing.assert_allclose(sd.hessian(f, scalarize=scalarize)(PLANE), bend * EYE, rtol=1e-14)
        np.testing.assert_array_equal(sd.grad(f, scalarize=scalarize)(PLANE), PLANE)


# at the point: function, point, first and second derivative, None where it is not asked for
BESIDE = {
    "a size of a double zero": (lambda x: abs(x * np.sin(x)), 0.0, 0.0, 2.0),
    "a size of a tie": (lambda x: np.abs(x * np.expm1(x)), 0.0, 0.0, 2.0),
    "a least value at its top": (lambda x: np.minimum(np.cos(x), 1.0), 0.0, 0.0, -1.0),
    "Python's least value": (lambda x: min(np.cos(x), 1.0), 0.0, 0.0, -1.0),
    "Python's largest square": (lambda x: max(x * x, 0.0), 0.0, 0.0, 2.0),
    "Python's tie at a kink": (lambda x: min(x, abs(x)), 0.0, 1.0, 0.0),
    "clipped away": (lambda x: np.clip(np.cos(x) - 1, 0, 1), 0.0, 0.0, 0.0),
    "a tie with a kink": (lambda x: np.maximum(x * x - abs(x), x), 0.0, 1.0, None),
    "a tie of kinks": (lambda x: np.arctanh(min(np.abs(x), np.maximum(x, x))), 0.0, 1.0, None),
    "kinks of both sides": (lambda x: np.maximum(np.abs(x), 3 * x), 0.0, 1.0, None),
    "a kink of a kink": (lambda x: np.maximum(np.maximum(x, 0), x), 0.0, 0.5, None),
    "copied sign": (lambda x: np.copysign(x, 3 * x), 0.0, 1.0, 0.0),
    "opposite sign": (lambda x: np.copysign(x, -x), 0.0, -1.0, 0.0),
    "a sign that turns as well": (lambda x: np.copysign(x, np.sin(x)), 0.0, math.nan, None),
    "a size by its sign": (lambda x: np.copysign(x, 0.0), 0.0, 0.0, 0.0),
    "equal, or the other": (lambda x: np.where(np.maximum(x, 0) == x**2, np.maximum(x, 0), x**2), 1.0, 2.0, 2.0),
    "others than equal": (lambda x: np.where(np.abs(x) != x**2, x**2, np.abs(x)), 1.0, 2.0, 2.0),
    "a root of a distance": (lambda x: np.cosh(np.sqrt(x - 1)), 1.0, 0.5, 1 / 12),
    "a square of an angle": (lambda x: np.arccos(x) ** 2, 1.0, -2.0, 2 / 3),
    "a kinked root": (lambda x: np.sqrt(x**2 + x**3), 0.0, 0.0, 0.0),
    "a tie with a step": (lambda x: np.maximum(2 * x, np.floor(x)), 0.0, 2.0, 0.0),
    "a tie with a step at one": (lambda x: np.minimum(x**3, np.ceil(x)), 1.0, 3.0, 6.0),
    "a tie of tangents": (lambda x: np.maximum(x, np.sinh(np.log1p(x))), 0.0, 1.0, 0.0),
    "a tie of special functions": (lambda x: np.minimum(special.rgamma(x), x), 0.0, 1.0, 0.0),
    "a scaled function at its kink": (lambda x: special.i0e(1 - np.cos(x)), 0.0, 0.0, -1.0),
    "a scaled function of an order": (lambda x: special.ive(0, 1 - np.cos(x)), 0.0, 0.0, -1.0),
    "a special function at its least": (lambda x: abs(special.xlog1py(x, x)), 0.0, 0.0, 2.0),
    "a special function's kinks": (lambda x: np.minimum(np.abs(x), special.j1(x)), 0.0, 0.5, 0.0),
    "a function with a patched slope": (lambda x: special.spence(np.cbrt(x)), 1.0, -1 / 3, math.nan),
    "a function of a parameter over its power": (lambda x: special.gammainc(2.0, x) / x**2, 0.0, -1 / 3, 0.25),
    "a tie with an angle": (
        lambda x: np.minimum(np.maximum(x**3, np.expm1(x)), np.arctan2(x**3, np.square(x))),
        0.0,
        1.0,
        0.0,
    ),
    "one of two points": (
        lambda x: np.sin(x) * np.expm1(x - 1) / (x * (x - 1)),
        0.0,
        0.26424111765711535,
        -0.050104058800064167,
    ),
    "the other point": (lambda x: np.sin(x) * np.expm1(x - 1) / (x * (x - 1)), 1.0, 0.11956681346419146, -0.25981197759884088),
    "a tie with a step of a formula": (
        lambda x: np.maximum(np.tanh(x), np.floor(np.cbrt(x) * np.sinc(0.3 * x))),
        0.0,
        1.0,
        0.0,
    ),
    "a tie of smooth values and a step": (lambda x: np.maximum(np.floor(x + x), np.sin(x) ** 2), 0.0, 0.0, 2.0),
    "a square of a tie of formulas": (
        lambda x: np.square(np.maximum(np.sqrt(special.erf(x) ** 2), special.entr(np.sinc(0.3 * np.square(x))))),
        0.0,
        0.0,
        8 / np.pi,
    ),
    "a tie of formulas": (lambda x: np.maximum(np.maximum(1 - np.cos(x), np.sinc(0.3 * x)), 1.0), 0.0, 0.0, 0.0),
    "a square of a tie": (lambda x: np.minimum(np.expm1(x), -x) ** 2, 0.0, 0.0, 2.0),
    "a tie with a hypotenuse": (lambda x: np.minimum(x, np.hypot(x**4, np.arctan(x))), 0.0, 1.0, None),
    "ties of hypotenuses": (lambda x: np.minimum(x, np.minimum(np.hypot(np.hypot(x, x), x + x), 1.4)), 0.0, 1.0, None),
    "a tie under a quotient": (
        lambda x: np.maximum((x + np.maximum(np.floor(x), x**3)) / x, np.sin(x**4)),
        1.0,
        2.0,
        2.0,
    ),
    "a size times an angle that jumps": (lambda x: np.abs(x) * np.arctan2(x, x), 0.0, np.pi / 2, None),
    "an angle that rises without end": (lambda x: np.arctan2((x + x) ** 1.5, np.arcsin(x + x)), 0.0, math.nan, None),
    "a size times a step": (lambda x: np.arctan(np.sign(x)) * np.maximum(-x, x), 0.0, np.pi / 4, 0.0),
    "a power of a step": (lambda x: x * np.sign(x) ** 4, 0.0, 1.0, 0.0),
    "a step that is none beside": (lambda x: x * np.floor(np.cos(x)), 0.0, 0.0, 0.0),
    "an angle with a step that is none beside": (lambda x: np.arctan2(x, 0.2 + np.sign(np.abs(x))), 0.0, 5 / 6, 0.0),
    "a condition that is zero by its rule": (
        lambda x: np.where(special.xlogy(x, x) <= 0, x, np.exp(x)) * (1 + np.sign(x) ** 2),
        0.0,
        2.0,
        0.0,
    ),
    "a size that touches, of a formula": (lambda x: np.abs(1 - np.sinc(0.3 * x)), 0.0, 0.0, (0.3 * np.pi) ** 2 / 3),
    "a size by a step, in a formula": (lambda x: np.sinc(0.3 * (x * np.sign(np.sin(x)))), 0.0, 0.0, -((0.3 * np.pi) ** 2) / 3),
    "a step of a selected value": (
        lambda x: special.xlog1py(np.exp(x) * np.arcsin(np.where(x <= 0, x, x)), np.sign(np.abs(np.hypot(x, x)))),
        0.0,
        np.log(2),
        2 * np.log(2),
    ),
    "a formula of a root": (lambda x: x / np.sinc(0.3 * np.arccosh(x)), 1.0, 1 + 0.03 * np.pi**2, None),
    "equal at a point alone": (lambda x: np.where(np.maximum(x, 2 * x) == 0, x, x - x), 0.0, 0.0, 0.0),
    "equal by a choice": (lambda x: np.where(np.where(x > 1, x, 3 * x) == 0, x, x - x), 0.0, 0.0, 0.0),
    "a cube's root": (lambda x: np.cbrt(np.sin(x) ** 3), 0.0, 1.0, 0.0),
    "a root of a fourth power": (lambda x: np.sqrt(x**4 + x**6), 0.0, 0.0, 2.0),
    "beyond the domain": (lambda x: np.cos(np.sqrt(x)), -1e-3, math.nan, math.nan),
    "beside an angle's zero": (np.arccos, 1e-16, -1.0, -1e-16),
    "a root of small digits": (lambda x: (x * np.cbrt(x)) ** 1.5, -1e-200, -2e-200, None),
    "far from its ties": (lambda x: np.minimum(2 - x, x * x) * (x * x), 1e-20, 4e-60, 12e-40),
    "a size beside one": (lambda x: x * min(np.copysign(x, 0.0), 1.0), 0.501, 1.002, 2.0),
    "large before a tail": (lambda x: np.log1p(np.exp(1 / x)) ** 2, -1.0, -2 * 0.31326168751822286 * 0.2689414213699951, None),
}


@pytest.mark.parametrize("name", BESIDE)
def test_first_and_second_derivatives_at_kinks_edges_and_ends(name):
    f, x, first, second = BESIDE[name]
    assert sd.derivative(f)(x) == pytest.approx(first, rel=1e-12, abs=0, nan_ok=True)
    if second is not None:
        assert sd.derivative(f, order=2)(x) == pytest.approx(second, rel=1e-8, abs=0, nan_ok=True)


@pytest.mark.parametrize("f, first, second, by_a", [
    (lambda x, a: np.sin(a * x) / x, 0.0, -8 / 3, 1.0), (lambda x, a: np.sin(x * a) / (3 * x), 0.0, -8 / 9, 1 / 3),
    (lambda x, a: (1 - np.cos(a * x)) / x**2, 0.0, -16 / 12, 2.0), (lambda x, a: np.expm1(a * x) / x, 2.0, 8 / 3, 1.0),
    (lambda x, a: np.log1p(a * x) / x, -2.0, 16 / 3, 1.0), (lambda x, a: (1 - np.exp(-a * x)) / (a * x), -1.0, 4 / 3, 0.0),
])  # fmt: skip
def test_common_zeros_with_a_parameter(f, first, second, by_a):
    for x in (0.0, 1e-18):
        assert sd.derivative(f)(x, 2.0) == pytest.approx(first, rel=1e-12, abs=1e-12)
        assert sd.derivative(f, order=2)(x, 2.0) == pytest.approx(second, rel=1e-12)
        assert sd.grad(f, 1)(x, 2.0) == pytest.approx(by_a, rel=1e-12, abs=1e-12)
        assert np.isfinite(sd.derivative(f)(x, 0.0))


@pytest.mark.parametrize("cell", [math.nan, math.inf])
def test_slopes_of_determinants_that_are_no_numbers(cell, tmp_path):
    x = np.array([[1.0, cell], [2.0, 3.0]])
    for f in (np.linalg.det, lambda x: np.linalg.det(x @ x.T)):
        for made in (sd.grad(f), sd.hessian(f)):
            assert np.all(np.isnan(made(x)))
    sd.grad(np.linalg.det).export(tmp_path / "det_grad.py", x)
    scope: dict[str, object] = {}
    exec((tmp_path / "det_grad.py").read_text(), scope)
    assert np.all(np.isnan(scope["det_grad"](x)))
    many = sd.vmap(sd.grad(np.linalg.det))(np.stack([x, EYE]))
    np.testing.assert_array_equal(many[1], EYE)
    assert np.all(np.isnan(many[0]))


def test_squares_of_signs_that_stand_still():
    assert sd.grad(sd.grad(lambda p, x: np.log1p(1 + p * np.sign(x))))(-1.3, 0.0) == 0.0
    assert sd.grad(sd.grad(lambda p, x: np.hypot(np.sign(x), p)))(1.5, 0.0) == 0.0
    for f in (lambda x: np.sign(x) * np.abs(x), lambda x: np.sign(x) * np.log1p(np.abs(x)), lambda x: abs(x) * np.sign(2 * x)):
        assert sd.derivative(f)(0.0) == 1.0
    assert sd.derivative(lambda x: np.sign(-x) * np.abs(x))(0.0) == -1.0


def test_squares_of_signs_of_what_is_zero_all_around():
    def positive(x):
        return np.sign(np.maximum(x, 0))

    assert sd.derivative(lambda x: x * positive(x) * positive(x))(-1.0) == 0.0
    assert sd.derivative(lambda x: np.hypot(x, positive(x)), order=2)(-1.0) == 0.0
    assert sd.derivative(lambda x: np.log(2 + x * positive(x)), order=2)(-1.0) == 0.0
    assert sd.derivative(lambda x: np.log(2 + x * positive(x)), order=2)(1.0) == pytest.approx(-1 / 9)


def test_powers_and_logarithms_where_both_operands_decide():
    assert np.isnan(sd.hessian(lambda p: p[0] ** p[1])(np.array([0.0, 1.0]))[0, 1])
    np.testing.assert_array_equal(sd.hessian(lambda p: p[0] ** p[1])(np.array([0.0, 2.0])), [[2, 0], [0, 0]])
    assert np.isnan(sd.hessian(lambda p: special.xlogy(p[0], p[1]))(PLANE)[0, 1])


def test_powers_of_roots_of_even_powers():
    assert sd.derivative(lambda x: np.sqrt(x**4), order=2)(0.0) == 2.0
    assert math.isnan(sd.derivative(lambda x: (x**6) ** (1 / 3), order=2)(0.0))  # the power of a number beside a third
    assert sd.derivative(lambda x: np.cbrt(x**6), order=2)(0.0) == 2.0
    assert sd.derivative(lambda x: np.cbrt(np.sin(x) ** 3))(0.0) == 1.0


def test_vectors_of_equal_values_have_no_derivative():
    weights = np.array([[1.0, 2.0], [3.0, 4.0]])
    for f in (
        lambda x: np.linalg.eigh(x)[1][0, 0],
        lambda x: np.sum((np.linalg.eigh(x)[1] * np.exp(np.linalg.eigh(x)[0])) @ weights),
        lambda x: np.linalg.svd(x)[0][0, 0],
        lambda x: np.sum(np.linalg.svd(x)[0] @ weights @ np.linalg.svd(x)[2]),
    ):
        assert np.any(np.isnan(sd.grad(f)(2 * EYE)))
    np.testing.assert_allclose(sd.grad(lambda x: np.sum(np.linalg.eigvalsh(x) ** 2))(EYE), 2 * EYE)


@pytest.mark.parametrize("shape", [(3, 2), (2, 3), (2, 2), (4, 4)])
def test_least_squares_follow_the_rank(shape):
    source = np.random.default_rng(1)
    a, b = source.normal(size=shape), source.normal(size=shape[0])
    direction, e = source.normal(size=shape), source.normal(size=shape[0])

    def solved(a, b):
        return np.linalg.lstsq(a, b, rcond=None)[0]

    _, found = sd.jvp(solved, (0, 1))(a, b, (direction, e))
    near = (solved(a + 1e-6 * direction, b + 1e-6 * e) - solved(a - 1e-6 * direction, b - 1e-6 * e)) / 2e-6
    np.testing.assert_allclose(found, near, rtol=1e-5, atol=1e-7)
    weights = source.normal(size=shape[1])
    da, db = sd.grad(lambda a, b: weights @ solved(a, b), (0, 1))(a, b)
    assert np.sum(da * direction) + db @ e == pytest.approx(weights @ near, rel=1e-5)


DEFICIENT = np.array([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]])


@pytest.mark.parametrize(
    "f",
    [
        np.linalg.pinv,
        lambda x: np.linalg.pinv(x[:2], hermitian=True),
        lambda x: np.linalg.lstsq(x, np.arange(3.0), rcond=None)[0],
        lambda x: np.linalg.lstsq(x.T, np.ones(2), rcond=None)[0],
    ],
    ids=["pinv", "hermitian", "lstsq", "wide lstsq"],
)
def test_inverses_without_full_rank_follow_matrices_of_one_rank_alone(f):
    assert np.all(np.isnan(sd.grad(lambda x: np.sum(f(x)))(DEFICIENT)[:2, 0]))
    assert np.all(np.isnan(sd.jvp(f)(DEFICIENT, np.eye(3, 2))[1]))
    assert np.all(np.isnan(sd.grad(lambda x: np.sum(f(x)))(np.zeros((3, 2)))[:2, 0]))
    np.testing.assert_allclose(sd.jvp(f)(2 * DEFICIENT, DEFICIENT)[1], -f(DEFICIENT) / 4)
    points = sd.vmap(sd.grad(lambda x: np.sum(f(x))))(np.stack([DEFICIENT, np.eye(3, 2)]))
    assert np.all(np.isnan(points[0, :2, 0])) and np.all(np.isfinite(points[1]))


def test_least_squares_move_with_the_right_hand_side_at_any_rank():
    found = sd.grad(lambda b: np.sum(np.linalg.lstsq(DEFICIENT, b, rcond=None)[0]))(np.ones(3))
    np.testing.assert_allclose(found, np.sum(np.linalg.pinv(DEFICIENT), axis=0))


@pytest.mark.parametrize(
    "dx", [0.5, np.array([1.0, 2.0]), np.array([[1.0, 2], [3, 4], [5, 6]])], ids=["number", "row", "matrix"]
)
def test_trapezoid_takes_widths(dx):
    y = np.arange(9.0).reshape(3, 3)
    found = sd.grad(lambda y: np.sum(np.trapezoid(y, dx=dx)))(y)
    wanted = [
        [np.sum(np.trapezoid(1.0 * (np.arange(9).reshape(3, 3) == 3 * i + j), dx=dx)) for j in range(3)] for i in range(3)
    ]
    np.testing.assert_allclose(found, wanted)


GRID, NODES = np.arange(6.0).reshape(2, 3) ** 2, np.array([0.0, 1.0, 3.0])


@pytest.mark.parametrize("f, x", [
    (lambda y: np.trapezoid([0, 1], y), GRID[:, :2]),
    (lambda x: np.trapezoid(NODES, x), GRID),
    (lambda y: np.trapezoid(y, GRID), NODES),
    (lambda y: np.trapezoid(y, GRID, axis=0), GRID + 1),
    (lambda x: np.trapezoid(GRID, x, axis=0), NODES[1:]),
    (lambda d: np.trapezoid(GRID, dx=d), 0.5),
    (lambda d: np.trapezoid(GRID, dx=d), NODES[:2]),
    (lambda x: np.trapezoid(GRID > 3, x), NODES),
    (lambda y: np.trapezoid(y, y > 1), NODES),
    (lambda y: np.diff(y > 1) * y[1:], NODES),
])  # fmt: skip
def test_trapezoid_broadcasts_as_numpys_does(f, x):
    found, _ = sd.jvp(f)(x, np.ones_like(x))
    np.testing.assert_allclose(found, f(x), rtol=1e-14)


@pytest.mark.parametrize("f", [
    lambda x: np.sin(x > 0) * x, lambda x: np.hypot(x > 0, x > 1) * x, lambda x: np.exp([x > 0, x > 1])[0] * x,
])  # fmt: skip
def test_truths_in_half_precision_are_refused(f):
    with pytest.raises(sd.TraceError, match=r"test_singular.py:\d+: .*half precision; write x.astype\(float\)"):
        sd.derivative(f)(2.0)
    assert sd.derivative(lambda x: np.sin((x > 0).astype(float)) * x)(np.float64(2.0)) == np.sin(1.0)


@pytest.mark.parametrize("f, x, first", [
    (special.spence, 1.0, -1.0),
    (lambda x: special.sici(x)[0], 0.0, 1.0), (lambda x: special.shichi(x)[0], 0.0, 1.0),
])  # fmt: skip
def test_slopes_that_stand_at_a_point_alone_have_no_further_derivatives(f, x, first):
    assert sd.grad(f)(x) == first
    assert all(math.isnan(sd.derivative(f, order=order)(x)) for order in (2, 3))


@pytest.mark.parametrize("count", [3, 77])
@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_factors_that_are_no_numbers_count_nowhere_else(count, factor):
    data = np.linspace(0.1, 1.0, count)

    def f(x, data):
        return np.sum(np.where(data > 0, data * x, factor * x))

    assert sd.grad(f)(2.0, data) == pytest.approx(np.sum(data))
    assert np.isnan(sd.grad(f)(2.0, -data)) == np.isnan(factor) and not np.isfinite(sd.grad(f)(2.0, -data))


def test_what_is_known_not_to_be_a_number_is_not_computed(tmp_path):
    path = tmp_path / "slope.py"
    sd.hessian(lambda x: special.xlogy(x, x)).export(path, 1.5, target="numpy")
    assert "np.nan" in path.read_text() and "np.add" not in path.read_text()


@pytest.mark.parametrize("f, first, second", [(special.j1, 0.5, 0.0), (special.i1, 0.5, 0.0), (special.exprel, 0.5, 1 / 3)])
def test_special_functions_have_all_slopes_at_zero(f, first, second):
    assert sd.grad(f)(0.0) == first and sd.derivative(f, order=2)(0.0) == pytest.approx(second, abs=1e-15)


@pytest.mark.parametrize("f, at, first, second", [
    (lambda k: special.boxcox(2.0, k), 1e-9, np.log(2) ** 2 / 2, np.log(2) ** 3 / 3),
    (lambda k: special.boxcox1p(0.7, k), 1e-17, np.log(1.7) ** 2 / 2, np.log(1.7) ** 3 / 3),
    (lambda k: special.inv_boxcox(2.0, k), 1e-17, -2 * np.exp(2), np.exp(2) * (4 + 16 / 3)),
    (lambda k: special.inv_boxcox1p(2.0, k), 1e-17, -2 * np.exp(2), np.exp(2) * (4 + 16 / 3)),
    (lambda m: special.ellipeinc(0.7, m), 1e-17, -0.0518187837529, None),
    (lambda m: special.ellipkinc(0.7, m), 1e-9, 0.0518187837714, 0.01995446),
    (lambda m: special.ellipkinc(4.0, m), 0.0, 0.8763302191720773, None),
    (lambda x: special.poch(x, 2.0), 1e-17, 1.0, 2.0),
    (lambda x: special.rgamma(x), 1e-17, 1.0, 2 * np.euler_gamma),
    (lambda d: special.pseudo_huber(d, 2.0), 1e-17, 2.0, -2.0),
    (lambda x: special.struve(0, x), 1e-17, 2 / np.pi, -4.244131816e-18),
    (lambda x: special.struve(1, x), 1e-200, 4.244131816e-201, 0.4244131816),
    (lambda x: special.modstruve(0, x), 1e-9, 2 / np.pi, 4.244131816e-10),
    (lambda x: special.agm(x, x), 1e-200, 1.0, None),
    (lambda x: special.eval_chebyu(1, x), -30.0, 2.0, 0.0),
])  # fmt: skip
def test_special_functions_keep_their_digits_beside_removable_singularities(f, at, first, second):
    assert sd.derivative(f)(at) == pytest.approx(first, rel=1e-9, abs=0)
    if second is not None:
        assert sd.derivative(f, order=2)(at) == pytest.approx(second, rel=1e-4, abs=0)


def test_slopes_without_digits_are_nan():
    assert np.isnan(sd.derivative(lambda k: special.binom(2.0, k))(1e17))
    assert np.isnan(sd.derivative(lambda m: special.ellipeinc(0.7, m), order=3)(1e-9))


@pytest.mark.parametrize(
    "name, f, point, order, wanted", [*SINGULAR, *DIRECTIONAL, *OVERFLOW], ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_derivative_is_right_or_nan(name, f, point, order, wanted):
    if order == 1:
        found = sd.grad(f, tuple(range(len(point))) if len(point) > 1 else 0)(*point)
    else:
        found = sd.hessian(f)(*point) if np.ndim(point[0]) else sd.derivative(f, order=order)(*point)
    right = np.isclose(found, wanted, rtol=1e-12, atol=0, equal_nan=True)
    assert np.all(right | np.isnan(found)) and np.all(right) == (name not in UNSETTLED)


@pytest.mark.parametrize("f, x, second", [
    (lambda x: np.hypot(x, 1.0), 1e8, 1e-24), (lambda x: np.sqrt(1 + x * x), 1e8, 1e-24),
    (lambda x: special.pseudo_huber(1.0, x), 1e8, 1e-24), (special.k0e, 1e8, 9.399855971117153e-21),
    (special.k1e, 1e10, 9.399856031628724e-26), (special.i0e, 1e8, 2.9920671217111644e-21),
    (special.i1e, 1e10, 2.992067102449732e-26), (special.log_ndtr, 30.0, -4.4209384046361616e-195),
    (lambda x: np.hypot(np.maximum(-2, np.exp(x)) ** 0.5, 1.0), 646.0, 4.732140857607956e139),
    (lambda x: special.poch(x, x), 1e-17, math.nan), (lambda x: 1 / np.sinh(x) ** 2, 300.0, 4.2406344848068973e-260),
    (lambda x: np.log(np.exp(x) + np.exp(2 * x)), 37.0, 8.533047625744064e-17),
    (lambda x: np.log(np.exp(x) + 3 * np.exp(-x)), -20.0, 5.6644723403887853e-18),
    (lambda x: 1 / np.cosh(x) ** 2, 300.0, 4.2406344848068973e-260),
])  # fmt: skip
def test_second_derivatives_that_cancel_far_out(f, x, second):
    assert sd.derivative(f, order=2)(x) == pytest.approx(second, rel=1e-9, abs=0, nan_ok=True)


def test_what_overflows_before_its_slope_is_right_or_nan():
    for f in (np.linalg.norm, lambda x: np.sqrt(x @ x), lambda x: np.sqrt(x[0] ** 2 + x[1] ** 2)):
        assert np.all(np.isnan(sd.grad(f)(np.array([1e200, 1.0]))))
    for f, slope in (
        (lambda x: np.sqrt(4 + 9 * x**2), 3.0),
        (lambda x: (x * x + 1) ** 0.5, 1.0),
        (lambda x: np.log2(1 + x * x), 2e-200 / np.log(2)),
    ):
        assert sd.grad(f)(1e200) == pytest.approx(slope, rel=1e-14, abs=0)


PAIRED = ["{u}*{u}*x*x", "({u}*x)*({u}*x)", "{u}/x*{u}/x", "({u}*{u})*({u}*{u})/({u}*{u})", "np.arcsin({u})*np.arcsin({u})"]


@pytest.mark.parametrize("form", PAIRED)
@pytest.mark.parametrize("under", ["abs({0})", "np.sqrt(({0})*({0}))", "np.maximum({0}, 0)", "np.maximum({0}, -({0}))"])
def test_products_whose_factors_pair_off_have_no_kink(form, under):
    text = form.format(u="(1 + x)")
    plain, bent = (eval(f"lambda x: {t}", {"np": np}) for t in (text, under.format(text)))
    for x in (-1.0, -0.7):
        wanted = sd.derivative(plain, order=2)(x)
        np.testing.assert_allclose(sd.derivative(bent, order=2)(x), wanted, rtol=1e-12)


def test_squares_of_multiples_of_one_value_are_one():
    for f in (lambda x: np.sqrt(x * x + (2 * x) ** 2), lambda x: (x**2 + 4 * x**2) ** 0.5):
        assert sd.grad(f).program(0.3).operations() == 2 and sd.grad(f)(-2.0) == pytest.approx(-np.sqrt(5))
    assert sd.grad(lambda x, y: np.sqrt(x * x + y * y), (0, 1))(3.0, -4.0) == pytest.approx((0.6, -0.8))


def test_a_cross_entropy_costs_what_it_costs_by_hand():
    program = sd.value_and_grad(lambda z, y: np.logaddexp(0, z) - y * z).program(0.3, 1.0)
    assert program.operations() <= 8 and not program.by_kind().keys() & {"isinf", "isfinite", "select"}


@pytest.mark.parametrize("m", [1e-15, 1e-12, -1e-9, 1e-7, 1e-5, 2e-5, 1e-3, 0.3])
@pytest.mark.parametrize("name", ["ellipk", "ellipe"])
def test_elliptic_integrals_bend_near_zero(name, m):
    with mpmath.workdps(60):
        wanted = float(mpmath.diff(getattr(mpmath, name), mpmath.mpf(m), 2))
    assert sd.derivative(getattr(special, name), order=2)(m) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize("x", [150.0, 3e3, 1e6, 1e9])
@pytest.mark.parametrize("name", ["k0e", "k1e", "i0e", "i1e"])
def test_scaled_bessel_functions_bend_far_out(name, x):
    with mpmath.workdps(60):
        n, s = int(name[1]), 1 if name[0] == "k" else -1

        def scaled(t):  # DLMF 10.40.1 and 10.40.2
            terms = [mpmath.rf(0.5 - n, k) * mpmath.rf(0.5 + n, k) / mpmath.factorial(k) / (-2 * s * t) ** k for k in range(12)]
            return mpmath.fsum(terms) / mpmath.sqrt(t)

        wanted = float(mpmath.diff(scaled, x, 2) * (mpmath.sqrt(mpmath.pi / 2) if s == 1 else 1 / mpmath.sqrt(2 * mpmath.pi)))
    assert sd.derivative(getattr(special, name), order=2)(x) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("x", [np.array([0.7, 0.7, 0.3]), np.array([0.3, 0.9, 0.9]), np.array([0.5, 0.5, 0.5])])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.interp(x, np.sort(x), x),
        lambda x: np.interp(x, np.sort(x), np.array([3.0, 1.0, 2.0])),
        lambda x: np.interp(np.array([0.1, 0.7, 0.9]), np.sort(x), x),
        lambda x: np.interp(x, np.array([0.0, 0.3, 0.7, 0.7]), np.append(x, 2.0)),
        lambda x: np.interp(x, np.array([0.0, 0.7, 0.7, 0.9]), np.append(x, 2.0)),
    ],
)
def test_interpolation_with_equal_nodes(f, x):
    value, slope = sd.jvp(f)(x, np.ones(3))
    np.testing.assert_allclose(value, f(x))
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("spread", [np.std, np.nanstd])
@pytest.mark.parametrize("where", [lambda x: x > -9, lambda x: np.array([True, True, False])])
def test_spread_of_equal_cells_under_a_mask(spread, where):
    def f(x):
        return spread(x, where=where(x))

    x = np.array([0.5, 0.5, 0.5])
    assert sd.value_and_grad(f)(x)[0] == f(x)
    np.testing.assert_array_equal(sd.grad(f)(x), 0.0)
    np.testing.assert_array_equal(sd.grad(f)(x[:1] if where(x).all() else x), 0.0)

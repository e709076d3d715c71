"""SciPy's functions of traced arrays: values, derivatives, vmap, and what is said of those that cannot be followed."""

import itertools

import numpy as np
import pytest
from test_numpy_functions import (
    A,
    P,
    S,
    b,
    check_derivatives,
    check_many_points,
    check_second_derivatives,
    check_single_precision,
    check_values,
    u,
    v,
    w,
)

import symdiff as sd

scipy = pytest.importorskip("scipy", reason="SciPy's functions need SciPy")
for package in "fft integrate interpolate linalg ndimage optimize signal stats".split():
    pytest.importorskip(f"scipy.{package}")
special = pytest.importorskip("scipy.special")

CASES = {
    "expm": (lambda S: (scipy.linalg.expm(S), scipy.linalg.expm(3 * S) * 1e-3), (S,)),
    "triangular": (
        lambda S, b: (scipy.linalg.solve_triangular(S + 3 * np.eye(4), b, trans=1), scipy.linalg.cholesky(S @ S.T + P)),
        (S, b),
    ),
    "factored": (
        lambda P, b: (scipy.linalg.cho_solve(scipy.linalg.cho_factor(P), b), scipy.linalg.solve(P, b, assume_a="pos")),
        (P, b),
    ),
    "eigh": (
        lambda P, S: (scipy.linalg.eigh(P, S @ S.T + P, eigvals_only=True), scipy.linalg.eigvalsh(P), scipy.linalg.pinv(P)),
        (P, S),
    ),
    "equations": (
        lambda P, S: (scipy.linalg.solve_sylvester(P, P, S), scipy.linalg.solve_discrete_lyapunov(0.05 * P, S)),
        (P, S),
    ),
    "polar": (lambda S: (*scipy.linalg.polar(S), scipy.linalg.circulant(S[0]), scipy.linalg.qr(S, mode="economic")[1]), (S,)),
    "simpson": (
        lambda v: (
            scipy.integrate.simpson(v, dx=0.1),
            scipy.integrate.simpson(v, x=u),
            scipy.integrate.cumulative_trapezoid(v),
        ),
        (v,),
    ),
    "scipy.fft": (lambda v: (scipy.fft.dct(v), scipy.fft.idst(v, type=3, norm="ortho"), scipy.fft.rfft(v, workers=1)), (v,)),
    "convolutions": (
        lambda v, b: [g(v, b, mode=m) for g in (scipy.signal.convolve, scipy.signal.correlate) for m in ("same", "valid")],
        (v, b),
    ),
    "convolve2d": (lambda A, S: (scipy.signal.convolve2d(A, S, mode="same"), scipy.signal.fftconvolve(A, S)), (A, S)),
    "filters": (
        lambda v: (
            scipy.signal.lfilter([0.5, 0.2], [1.0, -0.3], v),
            scipy.signal.detrend(v),
            scipy.signal.savgol_filter(v, 5, 2),
        ),
        (v,),
    ),
    "hilbert": (lambda v: (np.abs(scipy.signal.hilbert(v)), scipy.ndimage.gaussian_filter(v, 1.0)), (v,)),
    "normal distribution": (
        lambda v, w: (scipy.stats.norm.logpdf(v, w, 2.0), scipy.stats.norm.cdf(v), scipy.stats.norm.ppf(0.4 + 0.1 * v)),
        (v, w),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_are_scipys(name):
    check_values(*CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    check_derivatives(*CASES[name], backend="auto" if name in ("expm", "polar", "hilbert") else "numpy")


@pytest.mark.parametrize("name", ["expm", "polar"])
def test_second_derivatives(name):
    check_second_derivatives(*CASES[name])


@pytest.mark.parametrize("name", list(CASES)[::2])
def test_many_points(name):
    check_many_points(*CASES[name])


@pytest.mark.parametrize("name", ["expm", "filters", "scipy.fft"])
def test_single_precision(name):
    check_single_precision(*CASES[name])


def test_refusals_name_the_line_and_what_works():
    for f, message in {
        scipy.linalg.lu: r"np.linalg.solve\(a, b\)",
        scipy.linalg.sqrtm: "eigh",
        lambda x: scipy.signal.lfilter(x[0, :2], [1.0], x[0]): "as a loop",
        lambda x: scipy.stats.landau.pdf(x): "write its formula",
    }.items():
        with pytest.raises(sd.TraceError, match=rf"test_scipy_functions.py:\d+: .*{message}"):
            sd.trace(f, S)


@pytest.mark.parametrize("f", [
    lambda x: scipy.integrate.quad(lambda t: t * x[0], 0, 1)[0],
    lambda x: scipy.integrate.quad(np.sin, 0, x[0])[0],
    lambda x: scipy.integrate.solve_ivp(lambda t, y: -x[0] * y, (0, 1), [1.0]).y[0, -1],
    lambda x: scipy.optimize.brentq(lambda t: t**3 - x[0] ** 2 - 1, 0, 10),
    lambda x: scipy.optimize.minimize(lambda t: (t - x[0]) ** 2, 0.0).x,
    lambda x: scipy.interpolate.CubicSpline(np.arange(6.0), x)(2.5),
    lambda x: scipy.interpolate.CubicSpline(np.arange(6.0), u)(x),
])  # fmt: skip
def test_solvers_of_scipy_name_their_derivative(f):
    with pytest.raises(sd.TraceError, match=r"test_scipy_functions.py:\d+: scipy.*sd.primitive.*sd.diffrule") as error:
        sd.grad(f)(v)
    assert "implicit function theorem" in str(error.value) or "Leibniz" in str(error.value)


def test_solvers_of_scipy_run_as_they_stand_on_plain_numbers():
    def f(x):
        return x * scipy.optimize.brentq(lambda t: t**3 - 8, 0, 10)

    assert sd.derivative(f)(3.0) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="different signs"):
        sd.derivative(lambda x: x * scipy.optimize.brentq(lambda t: t**2 + 1, 0, 1))(3.0)


@pytest.mark.parametrize("lower", [False, True])
def test_cho_factor_treats_the_other_triangle_as_scipy_does(lower):
    a = 2 * np.eye(4) + 0.2
    a[0, 3] = a[3, 0] = 0.1
    one, other = sd.value_and_grad(lambda x: np.sum(scipy.linalg.cho_factor(x, lower)[0] ** 2))(a)
    assert one == pytest.approx(np.sum(scipy.linalg.cho_factor(a, lower)[0] ** 2), rel=1e-14)
    kept = scipy.linalg.cho_factor(a)[0][3, :3]
    np.testing.assert_allclose((other.T if lower else other)[3, :3], 2 * kept)


@pytest.mark.parametrize("name", ["bdtr", "bdtrc", "bdtri", "nbdtr", "nbdtrc", "nbdtri"])
@pytest.mark.filterwarnings("ignore:floating point number truncated:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:non-integer arg n is deprecated:DeprecationWarning")
def test_counts_of_binomial_distributions_are_truncated(name):
    function = getattr(scipy.special, name)
    for k in (-1.0, -0.5, 0, 0.4, 2, 2.7, 5):
        for n in (-1.5, 0, 0.4, 2.0, 3.5, 5, 7.9):
            value, slope = sd.value_and_grad(lambda x, k=k, n=n: function(k, n, x))(0.37)
            np.testing.assert_allclose(value, function(k, n, 0.37), rtol=1e-10, err_msg=f"{k}, {n}")
            if np.isfinite(value):
                wanted = (function(k, n, 0.37 + 1e-6) - function(k, n, 0.37 - 1e-6)) / 2e-6
                np.testing.assert_allclose(slope, wanted, rtol=1e-6, atol=1e-8, err_msg=f"{k}, {n}")


def test_polar_decompositions_of_stacks():
    for shape in ((2, 2, 2), (3, 2, 2), (2, 3, 2)):
        x = np.random.default_rng(0).normal(size=shape)
        for side in ("right", "left"):
            parts = scipy.linalg.polar(x, side)
            found = sd.trace(lambda a, side=side: scipy.linalg.polar(a, side), x)(x)
            for one, other in zip(found, parts, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def at(f, x, order):
    return float(sd.derivative(f, order=order)(x))


@pytest.mark.parametrize(
    ("f", "x", "order", "wanted"),
    [
        (sd.special.log1pexp, 0.0, 2, 0.25),
        (sd.special.log1pexp, 0.0, 4, -0.125),
        (sd.special.loglogistic, 0.0, 2, -0.25),
        (sd.special.logistic, 0.0, 3, -0.125),
        (special.exprel, 1e-17, 1, 0.5),
        (special.exprel, 0.0, 2, 1 / 3),
        (special.exprel, 1e-9, 2, 0.33333333358333333),
        (special.exprel, -1e-20, 3, 0.25),
        (special.j1, 1e-9, 2, -3.75e-10),
        (special.j1, 0.0, 2, 0.0),
        (special.i1, 1e-20, 2, 3.75e-21),
        (special.i1e, 1e-9, 2, -0.9999999981249999),
        (special.dawsn, 1e7, 1, -5.00000000000007e-15),
        (special.dawsn, 1e8, 1, -5e-17),
        (special.dawsn, 10.0001, 1, -0.005076840635483309),
        (special.dawsn, 11.0, 2, 0.0007705431039216976),
        (lambda x: special.it2j0y0(x)[0], 1e-9, 1, 2.5e-10),
        (lambda x: special.it2i0k0(x)[0], 1e-9, 2, 0.25),
        (lambda x: special.binom(special.erf(x), x), 25.0, 1, 0.0016666666666666668),
        (lambda n: special.binom(n, 1e-12), 3.0, 1, 2.838229557376757e-13),
        (lambda k: special.binom(1.0, k), 4.0, 2, 0.09722222222222222),
        (lambda x: special.betaln(x, 1e-12), 2.0, 1, -6.449340668480244e-13),
        (lambda x: special.poch(x, 1e-12), 2.0, 1, 6.44934066848297e-13),
    ],
)
def test_derivatives_beside_special_points_do_not_cancel(f, x, order, wanted):
    assert at(f, x, order) == pytest.approx(wanted, rel=3e-12, abs=1e-300)


@pytest.mark.parametrize("f", [special.kl_div, special.rel_entr, lambda x, y: special.gammasgn(x) + y])
def test_nan_stays_nan_in_the_formulas_of_scipys_functions(f):
    with np.errstate(all="ignore"):
        for x, y in itertools.product([np.nan, 0.0, 1.5, -0.5], repeat=2):
            points = np.array([x]), np.array([y])
            np.testing.assert_allclose(sd.vmap(f)(*points), f(*points), rtol=1e-14)


@pytest.mark.parametrize("line", [
    "sps.softmax(a, axis=0)", "sps.log_softmax(a)", "sla.cholesky(a @ a.T + np.eye(3), lower=True)", "sla.eigh(a @ a.T)[1]",
    "sla.svd(a)[0]", "sla.pinv(a)", "sla.expm(a)", "ndi.gaussian_filter1d(a, 0.5)", "sfft.dct(a)", "sla.inv(a + np.eye(3))",
])  # fmt: skip
@pytest.mark.parametrize("order", ["np.outer(x, x**2) + np.diag(x)", "(np.outer(x, x**2) + np.diag(x)).T"])
@pytest.mark.parametrize("shown", ["made.ravel()", "made.T.ravel()", "made.reshape(-1)"])
def test_results_lie_in_memory_as_scipys(line, order, shown, tmp_path):
    sla, sps, ndi, sfft = map(pytest.importorskip, ("scipy.linalg", "scipy.special", "scipy.ndimage", "scipy.fft"))
    space = {"np": np, "sla": sla, "sps": sps, "ndi": ndi, "sfft": sfft}
    text = (
        f"def f(x):\n    a = {order}\n    made = {line}\n    w = {shown}\n    w[1] = 5.0\n    return np.sum(made * made * x)\n"
    )
    path = tmp_path / "lying.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), space)
    x = np.array([0.3, 0.6, 0.8])
    try:
        value = sd.value_and_grad(space["f"])(x)[0]
    except sd.TraceError as error:
        assert "is not known; assign to a copy" in str(error) or "of a traced value is not supported" in str(error)
    else:
        assert value == pytest.approx(space["f"](x), rel=1e-10)

"""SciPy's functions of traced arrays: values, derivatives, vmap, and what is said of those that cannot be followed."""

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
        lambda x: scipy.stats.gamma.pdf(x, 2.0): "write its formula",
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

"""SciPy's distributions at traced values: values and derivatives of SciPy's own formulas, inside the support and outside."""

import warnings

import mpmath
import numpy as np
import pytest
from inside import OPERATIONS, distributions_followed

import symdiff as sd

stats = pytest.importorskip("scipy.stats")
from scipy.stats._distr_params import distcont, distdiscrete  # noqa: E402

SHAPES = {
    name: tuple(map(float, shapes))
    for name, shapes in reversed([*distcont, *distdiscrete])
    if isinstance(name, str) and name in distributions_followed()
}
CONTINUOUS = np.array([-3.0, -1.0, -0.3, 0.0, 0.2, 0.6, 1.0, 1.7, 4.0, 30.0, np.nan])
DISCRETE = np.array([-2.0, 0.0, 1.0, 2.0, 2.5, 5.0, 40.0, np.nan])
SHARES = np.array([-0.1, 0.0, 0.01, 0.3, 0.7, 0.99, 1.0, 1.2, np.nan])
COMMON = "norm gamma beta t expon lognorm weibull_min poisson binom laplace pareto chi2 logistic gumbel_r invgamma".split()


def points(name, method):
    if method in ("ppf", "isf"):
        return SHARES
    return DISCRETE if isinstance(getattr(stats, name), stats.rv_discrete) else CONTINUOUS


@pytest.mark.parametrize("name", [n for k, n in enumerate(sorted(distributions_followed())) if n in COMMON or k % 4 == 0])
def test_values_are_scipys_also_outside_the_support_and_where_parameters_have_none(name):
    shapes, methods = SHAPES[name], distributions_followed()[name]
    for method in sorted(methods if name in COMMON else methods & {"pdf", "pmf", "logcdf"}):
        f = getattr(getattr(stats, name), method)
        x = points(name, method)
        graph = sd.trace(lambda x, *shapes: f(x, *shapes), x, *shapes)  # noqa: B023
        with warnings.catch_warnings(action="ignore"):
            np.testing.assert_allclose(graph(x, *shapes), f(x, *shapes), 1e-9, 1e-13, err_msg=method)
            wrong = [-7.5 for _ in shapes]
            np.testing.assert_allclose(graph(x, *wrong), f(x, *wrong), 1e-9, 1e-13, err_msg=method)


@pytest.mark.parametrize("name", COMMON)
def test_derivatives(name):
    shapes = SHAPES[name]
    discrete = isinstance(getattr(stats, name), stats.rv_discrete)
    data = np.array([1.0, 2.0, 3.0]) if discrete else getattr(stats, name).ppf([0.2, 0.55, 0.9], *shapes) * 1.3 + 0.1
    given = shapes if discrete else (*shapes, 0.1, 1.3)

    def likelihood(*parameters):
        return np.sum(getattr(stats, name)(*parameters).logpmf(data) if discrete else
                      getattr(stats, name).logpdf(data, *parameters))  # fmt: skip

    chosen = [k for k in range(len(given)) if not (name == "binom" and k == 0)]
    slopes = sd.grad(likelihood, tuple(chosen))(*given)
    for k, slope in zip(chosen, slopes, strict=True):
        ends = [likelihood(*(v + h * (i == k) for i, v in enumerate(given))) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, 1e-5, 1e-6)


@pytest.mark.parametrize("name", ["gamma", "beta", "chi2", "nakagami", "f"])
def test_second_derivatives_of_many_data(name):
    """All ways to them give the same: `xlogy` has a kink at no datum, and what is said there is not added up."""
    x = np.array([*SHAPES[name], 0.05, 1.3])
    data = getattr(stats, name).rvs(*SHAPES[name], size=77, random_state=1) * 1.3 + 0.06

    def likelihood(x):
        return -np.sum(getattr(stats, name).logpdf(data, *x))

    wanted, slopes = sd.hessian(likelihood)(x), sd.grad(likelihood)
    assert np.all(np.isfinite(wanted))
    pull = sd.vjp(slopes)
    rows = [pull(x, v)[1] for v in np.eye(len(x))]
    for found in (sd.jacobian(slopes)(x), rows, [sd.hvp(likelihood)(x, v) for v in np.eye(len(x))]):
        np.testing.assert_allclose(found, wanted, 1e-9, 1e-9)


def test_several_normal_variables():
    x = np.array([[0.4, 1.2, 2.2], [0.1, -0.3, 0.9]])
    cov = np.array([[1.7, 0.2, 0.1], [0.2, 0.8, 0.0], [0.1, 0.0, 1.0]])
    mean = np.array([0.1, 0.2, 0.3])
    normal = stats.multivariate_normal

    def likelihood(mean, cov):
        return np.sum(normal.logpdf(x, mean, cov)) + normal(cov=cov).pdf(x[0])

    value, (by_mean, by_cov) = sd.value_and_grad(likelihood, (0, 1))(mean, cov)
    np.testing.assert_allclose(value, likelihood(mean, cov))
    step = 1e-6 * np.eye(3)
    ends = [(likelihood(mean + h, cov) - likelihood(mean - h, cov)) / 2e-6 for h in step]
    np.testing.assert_allclose(by_mean, ends, 1e-6)
    turned = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0]]) * 1e-6  # SciPy reads the lower triangle
    slope = (likelihood(mean, cov + turned) - likelihood(mean, cov - turned)) / 2e-6
    np.testing.assert_allclose(by_cov[1, 0], slope, 1e-5)
    np.testing.assert_allclose(by_cov[0, 1], 0.0)
    for args in ((1.5,), (x[0],), (x[0], mean), (x, None, 2.0), (x, mean, np.array([1.0, 2.0, 3.0]))):
        found = sd.trace(lambda x, *args: normal.logpdf(x, *args), *args[:1])(*args[:1]) if len(args) == 1 else None
        if found is not None:
            np.testing.assert_allclose(found, normal.logpdf(*args))


def test_the_formula_is_the_one_that_a_person_would_write():
    df = sd.grad(lambda m, s: np.sum(stats.norm.logpdf(np.array([0.1, 0.2, 0.9]), m, s)), (0, 1))
    df(0.3, 1.2)
    assert "s > 0" not in df.formula.unicode


@pytest.mark.parametrize("f", [
    lambda x: stats.gamma(x[0]).mean(),
    lambda x: stats.norm(x[0]).rvs(2).sum(),
    lambda x: stats.levy_stable.pdf(x, 1.5, 0.5).sum(),
    lambda x: stats.truncnorm.cdf(x, 0.0, 1.0).sum(),
    lambda x: stats.multivariate_normal.cdf(x, np.zeros(3)),
])  # fmt: skip
def test_others_are_refused_at_the_line(f):
    with pytest.raises(sd.TraceError, match=r"test_distributions.py:\d+: .* write its formula"):
        sd.grad(f)(np.array([0.1, 0.2, 0.3]))


def test_plain_numbers_are_scipys():
    frozen = stats.gamma(2.0, scale=1.5)
    assert sd.grad(lambda x: x * frozen.mean())(2.0) == frozen.mean()
    np.testing.assert_allclose(sd.grad(lambda x: frozen.cdf(x))(2.0), frozen.pdf(2.0))


def test_files_name_the_version_of_scipy():
    import scipy

    assert f"SciPy {scipy.__version__}" in sd.grad(lambda x: stats.expon.logpdf(x, 0.1, 2.0)).source(1.0)


def test_incomplete_gamma_functions_of_tiny_complex_numbers_end():
    x = mpmath.mpc(-2.7e-33, -4.2e-33)
    with mpmath.workdps(160):
        found = OPERATIONS["gammainc"](mpmath.mpf(1.5), x)
        assert abs(found / (x**1.5 / mpmath.gamma(2.5)) - 1) < 1e-30


@pytest.mark.parametrize("shape", [-1.0, 0.0, 2.0])
def test_slopes_are_nan_where_parameters_are_out_of_range(shape):
    for slope in (
        sd.grad(lambda x: stats.gamma.logpdf(x, shape))(2.0),
        sd.grad(lambda a: stats.gamma.logpdf(2.0, a))(shape),
        sd.grad(lambda s: stats.norm.pdf(0.3, 0.0, s))(shape),
    ):
        assert np.isnan(slope) == (shape <= 0.0)


@pytest.mark.parametrize("text", [
    "from scipy import stats\ndef f(x, data): return np.sum(stats.gamma.logpdf(data, x[0], scale=x[1]))",
    "from scipy.stats import gamma\ndef f(x, data): return np.sum(gamma.logpdf(data, x[0], scale=x[1]))",
    "import scipy.stats\ndef f(x, data): return np.sum(scipy.stats.gamma.logpdf(data, x[0], scale=x[1]))",
    "from scipy import stats\nrv = stats.gamma(2.0)\ndef f(x, data): return np.sum(rv.logpdf(data * x[0]))",
    "from scipy import stats\ndef f(x, data):\n d = stats.gamma\n return np.sum(d.logpdf(data, x[0], scale=x[1]))",
    "from scipy import stats\ndef make(d):\n def f(x, data): return np.sum(d.logpdf(data, x[0], scale=x[1]))\n return f\n"
    "f = make(stats.gamma)",
    "from scipy import stats\ndef f(x, data): return np.sum(stats.multivariate_normal.logpdf(data[:2], x, np.eye(2)))",
])  # fmt: skip
def test_code_without_source_calls_methods_of_distributions(text):
    space = {"np": np}
    exec(text, space)
    f, x, data = space["f"], np.array([2.0, 1.5]), np.array([0.4, 1.2, 2.2])
    ends = [(f(x + h, data) - f(x - h, data)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(sd.grad(f)(x, data), ends, 1e-6, 1e-6)


def test_code_without_source_is_refused_at_its_line():
    space = {"stats": stats}
    exec("def f(x):\n\n    return stats.gamma.fit(x)", space)
    with pytest.raises(sd.TraceError, match=r"^<string>:3: gamma\.fit"):
        sd.grad(space["f"])(np.ones(3))

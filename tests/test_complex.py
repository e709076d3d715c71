"""Complex numbers in full: branch cuts, conjugates, holomorphy, Wirtinger derivatives, real parameters, single precision."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import symdiff as sd

CUTS = {
    "sqrt": np.sqrt, "log": np.log, "log10": np.log10, "log2": np.log2, "log1p": np.log1p, "power": lambda z: z**0.3,
    "complex power": lambda z: z ** (0.3 + 0.2j), "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan,
    "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "base": lambda z: 2.0**z, "sinc": np.sinc,
    "expm1": np.expm1, "exp2": np.exp2, "tan": np.tan, "tanh": np.tanh, "reciprocal": np.reciprocal,
}  # fmt: skip
ON_THE_REAL_AXIS = [complex(a, b) for a in (2.0, -2.0, 0.5, -0.5) for b in (0.0, -0.0, 1e-9, -1e-9)]
ON_THE_IMAGINARY_AXIS = [complex(a, b) for a in (0.0, -0.0, 1e-9, -1e-9) for b in (2.0, -2.0, 0.5)]


def beside(z, step):
    """A point further along the axis that z is on or near, on the same side of it: the signed zero stays."""
    near_real = abs(z.imag) < abs(z.real)
    return np.complex128(complex(z.real + step, z.imag) if near_real else complex(z.real, z.imag + step))


@pytest.mark.parametrize("options", [{"backend": "numpy"}, {"backend": "numpy", "exact": True}, {"backend": "python"}, {}])
@pytest.mark.parametrize("name", CUTS)
def test_beside_and_on_branch_cuts(name, options):
    f = CUTS[name]
    if options.get("backend") == "python" and name in ("log2", "log1p", "expm1", "exp2"):
        pytest.skip("cmath has no such function")
    slope = sd.grad(f, **options)
    step = 1e-6
    for z in ON_THE_REAL_AXIS + ON_THE_IMAGINARY_AXIS:
        along = 1.0 if abs(z.imag) < abs(z.real) else 1j
        expected = (f(beside(z, step)) - f(beside(z, -step))) / (2 * step * along)
        np.testing.assert_allclose(slope(np.complex128(z)), expected, rtol=1e-5, atol=1e-7, err_msg=str(z))


def test_far_from_the_origin():
    assert sd.grad(np.arcsinh)(1e200) == 1e-200
    for z in (1e200 + 1e200j, -1e200 + 1e190j):
        assert sd.grad(np.arcsinh)(z) == pytest.approx((1.0 if z.real > 0 else -1.0) / z, rel=1e-10)


SQUARES = {
    "abs(z)**2": lambda z: np.abs(z) ** 2,
    "z*conj(z)": lambda z: (z * np.conj(z)).real,
    "z.real and z.imag": lambda z: z.real**2 + z.imag**2,
    "z.conj()": lambda z: np.real(z.conj() * z),
    "special.abs2": lambda z: sd.special.abs2(z),
    "np.vdot": lambda z: np.vdot(z, z).real,
}


@pytest.mark.parametrize("name", SQUARES)
def test_absolute_squares(name):
    f = SQUARES[name]
    for z in (0.6 - 0.8j, 0j, 3.0 + 0j):
        assert sd.wirtinger(f)(z) == (np.conj(z), z)
    np.testing.assert_array_equal(sd.hessian(lambda p: f(p[0] + 1j * p[1]))(np.zeros(2)), 2 * np.eye(2))
    z = np.array([0.6 - 0.8j, 0j, 1.0 + 2.0j], np.complex64)
    for scalarize in (None, False):
        dz, dzbar = sd.wirtinger(lambda z: np.sum(f(z)), scalarize=scalarize)(z)
        assert dz.dtype == dzbar.dtype == np.complex64
        np.testing.assert_allclose(dz, np.conj(z), rtol=1e-6)
        np.testing.assert_allclose(dzbar, z, rtol=1e-6)


def test_heads_at_zero():
    for f, dz, dzbar in (
        (np.abs, 0, 0), (np.real, 0.5, 0.5), (np.imag, -0.5j, 0.5j), (np.conj, 0, 1),
    ):  # fmt: skip
        assert sd.wirtinger(f)(0j) == (dz, dzbar)
    assert np.isnan(sd.wirtinger(np.angle)(0j)).all()  # its value jumps there


Z = np.array([0.6 - 0.8j, 1.0 + 2.0j, -0.3 + 0.1j])
MIXED = {
    "conj": lambda z: np.sum(z * np.conj(z)),
    "abs": lambda z: np.sum(np.abs(z)),
    "norm": np.linalg.norm,
    "vdot": lambda z: np.vdot(z, z),
    "real": lambda z: np.sum(z).real,
    "branch": lambda z: np.sum(np.where(np.abs(z) > 1, np.conj(z), z)),
    "std": np.std,
    "conjugate transpose": lambda z: (z[None, :] @ np.conj(z)[:, None])[0, 0],
}
HOLOMORPHIC = {
    "conj twice": (lambda z: np.sum(np.conj(np.conj(z))), np.ones(3)),
    "abs in a condition": (lambda z: np.sum(np.where(np.abs(z) > 1, z**2, z)), np.where(np.abs(Z) > 1, 2 * Z, 1)),
    "abs of a constant": (lambda z: np.sum(z * np.abs(3 + 4j)), np.full(3, 5.0)),
    "matmul": (lambda z: z @ z, 2 * Z),
    "branches": (lambda z: np.sum(np.where(z.real > 0, np.exp(z), 0)), np.where(Z.real > 0, np.exp(Z), 0)),
}  # fmt: skip


@pytest.mark.parametrize("scalarize", [None, False])
@pytest.mark.parametrize("name", MIXED)
def test_arrays_that_are_not_holomorphic(name, scalarize):
    for derive in (sd.grad, sd.jacobian):
        with pytest.raises(sd.NonHolomorphicError, match=r"\.py:\d+: \w+ makes .* conjugate of \w+(\[0\])?,"):
            derive(MIXED[name], scalarize=scalarize)(Z)


def test_the_refusal_names_what_the_user_wrote():
    for f in (lambda z: np.abs(z) ** 2, lambda z: np.sum(abs(z) * abs(z)), lambda z: z * np.abs(z)):
        for scalarize in (None, False):
            with pytest.raises(sd.NonHolomorphicError, match=r"test_complex.py:\d+: abs makes .* sd.wirtinger gives"):
                sd.grad(f, scalarize=scalarize)(np.complex128(1 + 1j))


def by_differences(f, z):
    """The partials of an array-valued function by z and by its conjugate, the axes of z last."""
    dz, dzbar = (np.empty((*np.shape(f(z)), z.size), complex) for _ in range(2))
    for k in range(z.size):
        step = 1e-6 * np.eye(z.size)[k]
        dx, dy = ((f(z + d) - f(z - d)) / 2e-6 for d in (step, 1j * step))
        dz[..., k], dzbar[..., k] = (dx - 1j * dy) / 2, (dx + 1j * dy) / 2
    return dz, dzbar


SEVERAL = {
    "squares": lambda z: np.abs(z) ** 2,
    "products": lambda z: np.outer(z, np.conj(z)),
    "sum": lambda z: np.sum(z * z) + np.conj(z[1]),
    "real parts": lambda z: z.real[:2],
}


@pytest.mark.parametrize("options", [{}, {"scalarize": False}, {"backend": "python"}])
def test_wirtinger_of_several_results(options):
    def several(z):
        return {name: f(z) for name, f in SEVERAL.items()}

    pair = sd.wirtinger(several, **options)(Z)
    for name, f in SEVERAL.items():
        expected = by_differences(f, Z)
        alone = sd.wirtinger(f, **options)(Z)
        for half in range(2):
            np.testing.assert_allclose(pair[half][name], expected[half], atol=1e-8)
            np.testing.assert_array_equal(alone[half], pair[half][name])


def test_wirtinger_of_results_and_arguments():
    dz, dzbar = sd.wirtinger(lambda z, p: [z * np.conj(p["w"]), abs(p["w"]) ** 2], (0, 1))(1 + 2j, {"w": 3 - 1j})
    assert dz == [(3 + 1j, {"w": 0}), (0, {"w": 3 + 1j})]
    assert dzbar == [(0, {"w": 1 + 2j}), (0, {"w": 3 - 1j})]


def test_the_size_of_an_exponential():
    for c in (1j, 0.5 - 2j):
        f = lambda t, c=c: abs(np.exp(c * t)) * t  # noqa: E731
        slope = sd.value_and_grad(f)
        for t in (0.7, 800.0, -800.0, np.inf, np.nan):
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(slope(t)[0], f(np.float64(t)), rtol=1e-13)
        assert slope(0.7)[1] == pytest.approx((1 + 0.7 * c.real) * np.exp(0.7 * c.real), rel=1e-13)
        assert "exp" in slope.program(0.7).by_kind() and "abs" not in slope.program(0.7).by_kind()
        assert "abs" in sd.value_and_grad(f, exact=True).program(0.7).by_kind()
    dz, dzbar = sd.wirtinger(lambda z: abs(np.exp(z)))(0.3 + 0.2j)
    assert dz == dzbar == pytest.approx(np.exp(0.3) / 2)


@pytest.mark.parametrize("scalarize", [None, False])
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_arrays_that_are_holomorphic(name, scalarize):
    f, slope = HOLOMORPHIC[name]
    np.testing.assert_allclose(sd.grad(f, scalarize=scalarize)(Z), slope, rtol=1e-14)


def modulus(z):
    return np.sqrt(z.real**2 + z.imag**2)


def unit(z):
    return z / np.abs(z)


def by_parts(z):
    return (z.real**2 - z.imag**2) + 2j * z.real * z.imag


def cube(z):
    return z * z * z


def opaque(z):
    return np.exp(z)


def test_rules_of_the_users_own_and_conjugates():
    z = 0.6 - 0.8j
    assert sd.wirtinger(modulus)(z) == pytest.approx((np.conj(z) / 2, z / 2))
    sd.diffrule(modulus)(lambda out, z: z / out)
    assert sd.grad(modulus)(0.3) == 1.0
    for derive in (sd.grad, sd.wirtinger):
        with pytest.raises(sd.NonHolomorphicError, match=r"test_complex.py:\d+: modulus gives a real number"):
            derive(modulus)(z)
    sd.diffrule(unit)(lambda out, z: 0.0 * z)
    assert sd.grad(unit)(0.3) == 0.0
    with pytest.raises(sd.NonHolomorphicError, match=r"test_complex.py:\d+: unit depends on the conjugate of z"):
        sd.grad(unit)(z)

    @sd.diffrule(by_parts)
    def _(out, z: sd.Complex):
        return 2 * z

    assert sd.grad(by_parts)(z) == 2 * z


def test_pullbacks_and_opaque_functions_of_complex_numbers():
    @sd.diffrule(cube, pullback=True)
    def _(ds, out, z):
        return ds * 3 * z * z

    sd.primitive(opaque)
    sd.diffrule(opaque)(lambda out, z: out)
    z = 0.6 - 0.8j
    for f, plain in ((cube, lambda z: z**3), (opaque, np.exp)):
        assert sd.grad(f)(z) == pytest.approx(sd.grad(plain)(z))
        np.testing.assert_allclose(sd.grad(lambda z, f=f: np.sum(f(z)))(Z), sd.grad(lambda z, p=plain: np.sum(p(z)))(Z))
        for around in (np.abs, np.conj, lambda w: w.imag * w):
            found = sd.wirtinger(lambda z, f=f, around=around: around(f(z)))(z)
            assert found == pytest.approx(sd.wirtinger(lambda z, p=plain, around=around: around(p(z)))(z))
        with pytest.raises(sd.NonHolomorphicError):
            sd.grad(lambda z, f=f: f(np.conj(z)))(z)


def test_descent_by_the_conjugate():
    """2*df/dzbar is df/dx + 1j*df/dy: PyTorch's gradient; its conjugate is JAX's."""

    def misfit(z):
        return np.sum(np.abs(z**2 - np.array([1j, 2.0, -1.0 + 1j])) ** 2)

    z = Z.copy()
    dz, dzbar = sd.wirtinger(misfit)(z)
    dx, dy = sd.grad(lambda x, y: misfit(x + 1j * y), (0, 1))(z.real, z.imag)
    np.testing.assert_allclose(2 * dzbar, dx + 1j * dy)
    np.testing.assert_allclose(2 * dz, dx - 1j * dy)
    for _ in range(400):
        z = z - 0.02 * 2 * sd.wirtinger(misfit)(z)[1]
    assert misfit(z) < 1e-8


def test_real_parameters_and_complex_variables():
    def f(a, z):
        return np.abs(np.exp(1j * a * z) + z**2) ** 2

    a, z = 0.3, 0.6 - 0.8j
    assert sd.grad(f)(a, z).dtype == np.float64
    step = 1e-6
    assert sd.grad(f)(a, z) == pytest.approx((f(a + step, z) - f(a - step, z)) / (2 * step), rel=1e-8)
    (da, dz), (dabar, dzbar) = sd.wirtinger(f, (0, 1))(a, z)
    assert (da, dabar) == (pytest.approx(sd.grad(f)(a, z)), 0.0) and dzbar == pytest.approx(np.conj(dz))
    with pytest.raises(sd.NonHolomorphicError, match="conjugate of z"):
        sd.grad(f, (0, 1))(a, z)
    g = sd.grad(lambda a, z: a * z**2, (0, 1))(2.0, z)
    assert g == (pytest.approx(z**2), pytest.approx(4 * z))


ENTIRE = [
    np.sin,
    np.cosh,
    np.exp,
    lambda z: z * z,
    lambda z: (1 + 0.5j) * z,
    lambda z: z**3,
    lambda z: 1 / (z + (4 - 3j)),
    np.sinc,
]
CROSSED = [
    np.conj,
    lambda z: z * np.abs(z),
    lambda z: z.real + 2j * z.imag,
    lambda z: np.abs(z) ** 2 + 0j,
    lambda z: np.conj(z) * z * z,
]
JOINED = [lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - 0.5 * b, lambda a, b: np.where(a.real > b.imag, a, b)]


def program(steps, heads):
    """A function of one complex number from drawn steps; tanh-like scaling keeps values small."""

    def f(z):
        values = [z, 0.3 * z + 0.1j]
        for kind, i, j in steps:
            a, b = values[i % len(values)], values[j % len(values)]
            found = heads[kind % len(heads)](a) if kind % 3 else JOINED[kind % len(JOINED)](a, b)
            values.append(0.3 * found)
        return values[-1] + values[-2]

    return f


STEPS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=8)
POINTS = st.complex_numbers(max_magnitude=1.5, allow_nan=False, allow_infinity=False)
MODES = st.sampled_from([{}, {"backend": "numpy"}, {"backend": "python"}, {"exact": True}, {"scalarize": False}])


def parts(f, z):
    """The partials of a complex-valued function by the real and the imaginary part of z, of its real and imaginary parts."""
    x, y = np.float64(z.real), np.float64(z.imag)
    real = sd.grad(lambda x, y: np.real(f(x + 1j * y)), (0, 1))(x, y)
    imag = sd.grad(lambda x, y: np.imag(f(x + 1j * y)), (0, 1))(x, y)
    return complex(real[0], imag[0]), complex(real[1], imag[1])


@given(STEPS, POINTS, MODES)
@settings(max_examples=25)
def test_cauchy_and_riemann(steps, z, options):
    f = program(steps, ENTIRE)
    slope = sd.grad(f, **options)(np.complex128(z))
    dx, dy = parts(f, z)
    assert slope == pytest.approx(dx, rel=1e-9, abs=1e-9) and 1j * slope == pytest.approx(dy, rel=1e-9, abs=1e-9)
    dz, dzbar = sd.wirtinger(f, **options)(np.complex128(z))
    assert (dz, dzbar) == (pytest.approx(slope, rel=1e-9, abs=1e-12), 0.0)


@given(STEPS, POINTS, MODES)
@settings(max_examples=25)
def test_pairs_of_real_numbers(steps, z, options):
    f = program(steps, ENTIRE + CROSSED * 2)
    dz, dzbar = sd.wirtinger(f, **options)(np.complex128(z))
    dx, dy = parts(f, z)
    assert dz + dzbar == pytest.approx(dx, rel=1e-9, abs=1e-9)
    assert 1j * (dz - dzbar) == pytest.approx(dy, rel=1e-9, abs=1e-9)
    v = 0.6 - 0.4j
    assert sd.jvp(f, **options)(np.complex128(z), v)[1] == pytest.approx(dz * v + dzbar * np.conj(v), rel=1e-9, abs=1e-9)


@given(STEPS, POINTS, st.sampled_from([{"backend": "numpy"}, {"backend": "python"}, {"exact": True}, {"scalarize": False}]))
@settings(max_examples=20)
def test_single_precision(steps, z, options):
    f = program(steps, ENTIRE + CROSSED)
    single = sd.wirtinger(f, **options)(np.complex64(z))
    double = sd.wirtinger(f, **options)(np.complex128(np.complex64(z)))
    for low, high in zip(single, double, strict=True):
        assert low.dtype == np.complex64
        np.testing.assert_allclose(low, high, rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(
    "f", [lambda z: np.float64(2) * z, lambda z: np.cumsum(z * np.int32(3)), lambda z: z + np.complex128(2)]
)
def test_single_precision_beside_doubles(f):
    z = np.array([1 + 2j, -1.25 - 0.5j], np.complex64)
    for options in ({"backend": "numpy", "scalarize": False}, {"backend": "numpy"}, {}):
        found = sd.jvp(f, **options)(z, z)[0]
        assert found.dtype == f(z).dtype == np.complex128
        np.testing.assert_allclose(found, f(z), rtol=1e-15)


def assigned_by_order(x):
    v = np.zeros(3, complex)
    v[v > 0.2] *= x
    v[-2] += x
    return np.sum(np.abs(v) ** 2)


def picked_by_order(x):
    v = np.array([1 + 2j, 0.2 + 1j, 0.2 + 3j]) * x
    return np.sum(np.abs(np.where(v >= 0.4 + 2j, v, 2 * v)) ** 2)


@pytest.mark.parametrize("options", [{}, {"backend": "numpy"}, {"backend": "python"}, {"scalarize": False}], ids=str)
@pytest.mark.parametrize("f", [assigned_by_order, picked_by_order])
def test_complex_arrays_are_ordered_as_numpy_orders_them(f, options):
    value, slope = sd.value_and_grad(f, **options)(2.0)
    assert value == pytest.approx(f(2.0)) and slope == pytest.approx(2 * value / 2.0)


def test_complex_numbers_of_python_have_no_order():
    with pytest.raises(TypeError):
        sd.grad(lambda z: z if z < 1j else 2 * z)(1 + 1j)


def test_hessians_by_real_numbers_of_what_a_complex_slope_softens():
    def f(x):
        last = sorted([0, 0.769, np.argsort(x)[2], x[x.argmin()]], reverse=True)[-1]
        size = np.abs(np.log(complex(x[0], last) + 4))
        return np.hypot(size, 0.494 + (np.ptp(np.linspace(-0.65, x[2], 3)) * (3 * size)) ** 2)

    x, step = np.array([-1.32621137, 1.05730488, 0.0764326]), 1e-6
    df = sd.grad(f)
    wanted = [(df(x + step * e) - df(x - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(sd.hessian(f)(x), wanted, atol=1e-7)


def summed_real_parts(x):
    s = 0.5
    for _ in range(1, len(x)):
        s = 0.6 * s + np.sum(np.real(np.exp(1j * x))) * s
        s = s - 0.1 * np.sum((x * (1 + 2j)).imag) * s
    return s


@pytest.mark.parametrize("target", ["numpy", "python", "c"])
def test_parts_of_what_a_round_makes_of_arrays_from_before(target):
    x = np.linspace(0.1, 0.9, 7)
    value, slope = sd.value_and_grad(summed_real_parts, loops="keep")(x)
    assert value == pytest.approx(summed_real_parts(x), rel=1e-12)
    np.testing.assert_allclose(slope, sd.grad(summed_real_parts, loops="unroll")(x), rtol=1e-12)
    assert sd.value_and_grad(summed_real_parts).source(x, target=target)

"""The elementary functions of machine code against arithmetic with more digits, and their classes of results."""

import cmath
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import symdiff as sd

pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install 'symdiff[native]'")

from inside import FUNCTIONS, LIBM, PAIRS, VECTORS, BatchModule, Plain, llvm_vector_functions, machine_fuses, machine_lanes

pytestmark = [
    pytest.mark.skipif(not machine_fuses(), reason="without fused multiply-add the functions are libm's"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]
more_digits = pytest.mark.skipif(np.finfo(np.longdouble).nmant != 63, reason="needs a long double of 80 bits")

ULPS = {
    "exp": 1, "exp2": 1, "expm1": 2, "log": 1, "log2": 1, "log10": 1, "log1p": 1, "sin": 1, "cos": 1, "tan": 3, "sinh": 2,
    "cosh": 2, "tanh": 1.5, "arcsin": 3, "arccos": 2, "arctan": 3, "arcsinh": 3, "arccosh": 3, "arctanh": 3, "cbrt": 1,
}  # fmt: skip
OF_TWO = {"power": 1, "arctan2": 3, "hypot": 2}
EDGES = [
    0.0, 1.0, 0.5, 2.5, 3.0, 27.0, 5e-324, 1e-310, 2.0**-1022, 1e-300, 1e-17, 0.625, 1 - 2**-53, 1 + 2**-52, 22.0, 709.7,
    709.79, 710.4758600739439, 710.5, 745.2, 1023.5, 1074.5, 1075.5, 1e5, 1e22, 2.0**53, 1e300, math.nextafter(math.inf, 0),
    math.inf, math.nan,
]  # fmt: skip
SPECIAL = np.array([s * x for x in EDGES for s in (1.0, -1.0)])


def sample(count=20_000, seed=0):
    """Numbers of every size, numbers near 1, numbers where functions bend, and special ones."""
    r = np.random.default_rng(seed)
    signs = r.choice([-1.0, 1.0], count)
    return np.concatenate(
        [
            np.ldexp(r.uniform(1, 2, count), r.integers(-1074, 1024, count)) * signs,
            np.ldexp(r.uniform(1, 2, count), r.integers(-20, 12, count)) * signs,
            1 + np.ldexp(r.uniform(1, 2, count), r.integers(-53, 0, count)) * signs,
            np.arange(1, 2000) * math.pi / 4,
            SPECIAL,
        ]
    )


def over_points(function, *arrays):
    """A function at many points, as machine code."""
    if len(arrays) == 1:
        return sd.vmap(function, backend="native")(arrays[0])
    return sd.vmap(lambda p: function(*p), in_axes=-1, backend="native")(np.stack(arrays))


def ulps(found, exact):
    """The largest error in units of the last place, where the result is finite."""
    rounded = exact.astype(found.dtype)
    finite = np.isfinite(rounded) & np.isfinite(found)
    return np.max(np.abs(found[finite] - exact[finite]) / np.spacing(np.abs(rounded[finite])))


def same_class(found, wanted, zeros=True):
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    endless = np.isinf(wanted) | np.isinf(found)
    np.testing.assert_array_equal(found[endless], wanted[endless])
    if zeros:
        nothing = (wanted == 0) & (found == 0)
        np.testing.assert_array_equal(np.signbit(found[nothing]), np.signbit(wanted[nothing]))


@more_digits
@pytest.mark.parametrize("name", ULPS)
def test_functions_of_one_number(name):
    x, function = sample(), getattr(np, name)
    found = over_points(function, x)
    exact = function(x.astype(np.longdouble))
    same_class(found, exact.astype(float))
    assert ulps(found, exact) <= ULPS[name]


@more_digits
@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_numbers(name):
    r, function = np.random.default_rng(1), getattr(np, name)
    x = sample()
    grid = [part.ravel() for part in np.meshgrid(SPECIAL, SPECIAL)]
    if name == "power":
        fitting = r.uniform(-745, 710, x.size) / np.log(np.abs(x))  # results of every size
        others = [(x, fitting), (x, np.rint(fitting)), (np.abs(x), r.uniform(-20, 20, x.size))]
    else:
        others = [(x, r.permutation(x)), (x, x * r.uniform(0.3, 3, x.size))]
    a, b = (np.concatenate(parts) for parts in zip(grid, *others, strict=True))
    found = over_points(function, a, b)
    exact = function(a.astype(np.longdouble), b.astype(np.longdouble))
    rooted = (name == "power") & (a == -math.inf) & (b == 0.5)  # NumPy takes the root, which is NaN; C's pow is inf
    same_class(found[~rooted], exact.astype(float)[~rooted])
    assert ulps(found, exact) <= OF_TWO[name]


@pytest.mark.parametrize("name", [*ULPS, *OF_TWO])
def test_single_precision(name):
    r, function = np.random.default_rng(2), getattr(np, name)
    count = 20_000
    x = np.concatenate(
        [
            np.frombuffer(r.integers(0, 2**32, count, dtype=np.uint32).tobytes(), np.float32),
            r.uniform(-1.5, 1.5, count).astype(np.float32),
            r.uniform(-110, 90, count).astype(np.float32),
            SPECIAL.astype(np.float32),
        ]
    )
    arrays = [x] if name in ULPS else [x, r.permutation(x)]
    found = over_points(function, *arrays)
    assert found.dtype == np.float32
    exact = function(*(a.astype(float) for a in arrays))
    same_class(found, exact.astype(np.float32))
    assert ulps(found, exact) <= 0.6


SPECIAL_FUNCTIONS = {
    "erf": (1.5, lambda mp, x: mp.erf(x)),
    "erfc": (4, lambda mp, x: mp.erfc(x)),
    "erfcx": (4, lambda mp, x: mp.exp(x * x) * mp.erfc(x)),
    "ndtr": (4, lambda mp, x: mp.erfc(-x / mp.sqrt(2)) / 2),
    "log_ndtr": (4, lambda mp, x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)),
    "expit": (2, lambda mp, x: 1 / (1 + mp.exp(-x))),
    "log_expit": (2, lambda mp, x: -mp.log1p(mp.exp(-x))),
    "logit": (2, lambda mp, x: mp.log(x / (1 - x)) if 0 < x < 1 else None),
    "exp10": (1.5, lambda mp, x: mp.power(10, x)),
    "cosm1": (3, lambda mp, x: -2 * mp.sin(x / 2) ** 2),
    "exprel": (2, lambda mp, x: mp.expm1(x) / x),
}


@pytest.mark.parametrize("name", SPECIAL_FUNCTIONS)
def test_special_functions(name):
    special, mpmath = pytest.importorskip("scipy.special"), pytest.importorskip("mpmath")
    bound, exact = SPECIAL_FUNCTIONS[name]
    r = np.random.default_rng(3)
    x = np.concatenate([r.uniform(-1, 1, 300), r.uniform(-6, 6, 300), r.uniform(-26, 26, 300), [0.49, 0.5, 1.0, 3.5, -0.5]])
    x = np.concatenate([x, np.ldexp(r.uniform(-1, 1, 100), r.integers(-60, 0, 100))])
    function = getattr(special, name)
    found = over_points(function, x)
    with mpmath.workprec(200):
        for one, value in zip(x, found, strict=True):
            wanted = exact(mpmath, mpmath.mpf(float(one)))
            if wanted is not None:
                assert abs(mpmath.mpf(float(value)) - wanted) <= bound * np.spacing(abs(float(wanted))), (one, value)
    edges = np.array([0.0, -0.0, 1.0, -1.0, 800.0, -800.0, 1e308, -1e308, math.inf, -math.inf, math.nan])
    same_class(over_points(function, edges), function(edges))
    alone = Plain(function, backend="native")
    np.testing.assert_allclose([alone(v) for v in x[:20]], found[:20], rtol=1e-15)
    narrow = over_points(function, x.astype(np.float32))
    wide = function(x.astype(np.float32).astype(float))
    same_class(narrow, wide.astype(np.float32))
    assert narrow.dtype == np.float32 and ulps(narrow, wide) <= 0.6


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_with_logarithms(name):
    function = getattr(pytest.importorskip("scipy.special"), name)
    grid = np.meshgrid([0.0, -0.0, 1.5, -2.0, math.inf, math.nan], [0.0, 0.3, -0.5, -2.0, math.inf, math.nan])
    x, y = (part.ravel() for part in grid)
    np.testing.assert_allclose(over_points(function, x, y), function(x, y), rtol=1e-15)


COMPLEX = ["exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"]
INVERSE = ["arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh"]


def complex_sample(count=4000):
    r = np.random.default_rng(4)

    def sized(low, high):
        return np.ldexp(r.uniform(1, 2, count), r.integers(low, high, count)) * r.choice([-1, 1], count)

    angle = r.uniform(-math.pi, math.pi, count)
    radius = 1 + np.ldexp(r.uniform(-1, 1, count), r.integers(-60, -1, count))
    near_pole = math.pi / 2 * r.integers(-5, 6, count) * radius
    parts = [
        (r.uniform(-30, 30, count), r.uniform(-30, 30, count)),
        (r.uniform(-800, 800, count), r.uniform(-800, 800, count)),
        (sized(-1074, 1024), sized(-1074, 1024)),
        (sized(-40, 11), sized(-1074, 11)),
        (sized(-1074, 11), sized(-40, 11)),
        (radius * np.cos(angle), radius * np.sin(angle)),
        (near_pole, np.ldexp(1.0, r.integers(-80, -2, count))),
        (np.ldexp(1.0, r.integers(-80, -2, count)), near_pole),
    ]
    real, imag = (np.concatenate(column) for column in zip(*parts, strict=True))
    return real + 1j * imag


@more_digits
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_functions(name):
    z, function = complex_sample(), getattr(np, name)
    found = over_points(function, z)
    exact = function(z.astype(np.clongdouble))
    size = np.abs(exact).astype(float)
    finite = np.isfinite(size) & np.isfinite(found)
    assert finite.mean() > 0.6
    error = np.maximum(np.abs(found.real - exact.real), np.abs(found.imag - exact.imag)) / np.spacing(size)
    within = np.abs(exact) < np.finfo(float).max
    for part, whole in ((found.real, exact.real), (found.imag, exact.imag)):
        kept = within & (np.abs(whole) > 1e-300)
        assert np.max((np.abs(part - whole) / np.abs(whole))[kept]) < 7 * 2.0**-52  # each part by itself
    assert error[finite].max() <= 4
    narrow = over_points(function, z.astype(np.complex64))
    assert narrow.dtype == np.complex64


@pytest.mark.parametrize("name", COMPLEX + INVERSE)
def test_complex_branch_cuts_and_special_parts(name):
    """cmath keeps to C99's annex G on every platform; where it raises, C99 says nothing certain.

    Later standards changed what they say of zero and NaN as parts of one number.
    """
    function = getattr(np, name)
    known = getattr(cmath, name.replace("arc", "a"))
    parts = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 1e-310, 1e300, -1e300, 800.0, math.inf, -math.inf, math.nan]
    z, wanted = [], []
    for x in parts:
        for y in parts:
            if 0.0 in (x, y) and (math.isnan(x) or math.isnan(y)):
                continue
            try:
                value = known(complex(x, y))
            except (ValueError, OverflowError):
                continue
            z.append(complex(x, y))
            wanted.append(value)
    z, wanted = np.array(z), np.array(wanted)
    finite = np.isfinite(z)
    alone = Plain(function, backend="native")
    for found in (over_points(function, z), np.array([alone(v) for v in z])):
        for one, other in ((found.real, wanted.real), (found.imag, wanted.imag)):
            same_class(one[finite], other[finite])
            np.testing.assert_allclose(one[finite], other[finite], rtol=1e-14, atol=1e-307)
            np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
            np.testing.assert_array_equal(np.isinf(one), np.isinf(other))


def test_complex_powers():
    mpmath = pytest.importorskip("mpmath")
    r = np.random.default_rng(5)
    z, w = (r.uniform(-3, 3, 300) + 1j * r.uniform(-3, 3, 300) for _ in range(2))
    found = over_points(lambda a, b: a**b, z, w)
    for a, b, value in zip(z, w, found, strict=True):
        exact = mpmath.power(mpmath.mpc(a), mpmath.mpc(b))
        assert abs(mpmath.mpc(value) - exact) <= 40 * np.spacing(float(abs(exact)))  # b log(a) is as large as 10
    zero = np.zeros(4, complex)
    exponents = np.array([2.0, 0.5 + 1j, 0.0, -1.0])
    found = over_points(lambda a, b: a**b, zero, exponents)
    np.testing.assert_array_equal(found[[0, 2]], [0.0, 1.0])
    assert np.isnan(found[3])


@pytest.mark.parametrize("name", ["exp", "sin", "tan", "log1p", "arctan", "cbrt"])
def test_a_point_does_not_depend_on_its_neighbours(name):
    """Points that fill no vector, and those beside one that is left to libm, have the same bits."""
    function = getattr(np, name)
    x = np.concatenate([np.random.default_rng(6).uniform(0.1, 50, 53), [1e7, 0.3, 1e300]])
    f = sd.vmap(function, backend="native")
    together = f(x)
    np.testing.assert_array_equal(together, np.concatenate([f(x[k : k + 1]) for k in range(x.size)]))
    np.testing.assert_array_equal(together[:13], f(x[:13]))


def test_a_module_holds_only_what_its_program_uses():
    program = sd.vmap(lambda x: np.sin(x) * np.cos(x) + np.exp(x), backend="native").compile(np.ones(3)).program
    module = BatchModule(program, machine_lanes(), True)
    module.add("kernel", module.arrays([("last", 0), ("last", 0)]))
    text = module.text()
    assert (
        text.count("define private") == 2 and f"@vec{machine_lanes()}_sincos(" in text and f"@vec{machine_lanes()}_exp(" in text
    )


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_each_function_has_a_form_for_one_number_and_for_vectors(name):
    for count in (1, 4):
        texts, declared = llvm_vector_functions([f"vec{count}_{name}"])
        assert f"@vec{count}_{name}(" in texts[0] and all(line.startswith("declare") for line in declared.values())
        assert texts[0].startswith("define private {") == (name in PAIRS)


def test_each_operation_has_its_function():
    assert {function for function, _ in VECTORS.values()} <= set(FUNCTIONS)
    assert set(FUNCTIONS) >= PAIRS
    assert LIBM - set(VECTORS) == {"nextafter"}


def test_the_table_of_errors_and_times():
    command = [sys.executable, "-m", "benchmarks.elementary", "--points", "500", "--rounds", "1"]
    found = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.count("float32") == 23 and "| power, float64, 0 to 5 |" in found.stdout

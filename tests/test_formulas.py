"""Every operation as SymPy and as LaTeX: conditions in arithmetic, numbers as conditions, powers of selections."""

import inspect
import math
import time

import numpy as np
import pytest
import sympy as sp
from inside import OPS, build_sympy, latex
from scipy import special

import symdiff as sd

X, Y, Z, W = sp.symbols("x y z w")


@pytest.mark.parametrize("op", [name for name, row in OPS.items() if row.arity > 0])
def test_an_operation_of_numbers_and_of_conditions(op):
    arity = OPS[op].arity
    for args in ([X, Y, Z, W][:arity], [X > 0, *[Y, Z, W][: arity - 1]]):
        found = build_sympy(op, list(args))
        for inside in (
            found,
            build_sympy("mul", [found, X]),
            build_sympy("select", [found, found, X]),
            build_sympy("not", [found]),
        ):
            assert latex(inside) and str(inside)
        assert latex(build_sympy("pow", [build_sympy("select", [X > 0, found, X]), sp.Integer(2)]))


NUMBERS = {
    "logistic": special.expit,
    "own logistic": sd.special.logistic,
    "softplus": lambda x: np.log1p(np.exp(-abs(x))) + np.maximum(x, 0),
    "own softplus": sd.special.log1pexp,
    "sech": lambda x: 1 / np.cosh(x),
    "planck": lambda x: x**3 / np.expm1(x),
    "finite or zero": lambda x: np.where(np.isfinite(x), x * x, 0.0),
    "no number or zero": lambda x: np.where(np.isnan(x) | np.isinf(x), 0.0, x),
    "conditions as numbers": lambda x: (x > 0) * x + np.where((x > 1) & (x < 3) | ~(x == 2), x, 2 * x),
    "a cast": lambda x: (x > 0).astype(float) * x,
    "hypot": lambda x: np.hypot(x, 2 * x),
}
ARRAYS = {"logsumexp": special.logsumexp, "nansum": np.nansum, "nanmean": np.nanmean, "norm": np.linalg.norm, "std": np.std}


@pytest.mark.parametrize("name", [*NUMBERS, *ARRAYS])
def test_functions_are_shown(name):
    f, x = (NUMBERS[name], 0.3) if name in NUMBERS else (ARRAYS[name], np.array([0.1, 0.2, 0.3]))
    for graph in (sd.trace(f, x), sd.grad(f).graph(x)):
        assert graph._repr_latex_().startswith("$$")
        assert str(graph.expr)


def test_an_expression_has_its_value():
    found = sd.trace(NUMBERS["conditions as numbers"], 0.3).expr
    for x in (-1.0, 0.5, 2.0, 4.0):
        assert float(found.subs(sp.Symbol("x"), x)) == pytest.approx(float(NUMBERS["conditions as numbers"](np.float64(x))))


# -- published formulas with several branches, of which SymPy's constructors would simplify the conditions for minutes


def linear(c):
    return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4


def srgb(r, g, b):
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)


def srgb_encoded(r, g, b):
    return sum(12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in (r, g, b))


def cie_lab(x, y, z):
    f = [t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29 for t in (x, y, z)]
    return 116 * f[1] - 16 + 500 * (f[0] - f[1]) + 200 * (f[1] - f[2])


def lab_of_srgb(r, g, b):
    r, g, b = linear(r), linear(g), linear(b)
    x, y = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505, 0.2126 * r + 0.7152 * g + 0.0722 * b
    return cie_lab(x, y, (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089)


def lab_of_srgb_by_where(c):
    linears = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    v = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linears
    f = np.where(v > 0.008856, np.cbrt(v), 7.787 * v + 16 / 116)
    return 116 * f[1] - 16 + 500 * (f[0] - f[1]) + 200 * (f[1] - f[2])


def ciecam(r, g, b):
    def adapted(c):
        t = (0.2 * abs(c) / 100) ** 0.42
        return (-1 if c < 0 else 1) * 400 * t / (t + 27.13) + 0.1

    return 2 * adapted(r) + adapted(g) + adapted(b) / 20


def huber(x, d):
    return 0.5 * x * x if abs(x) <= d else d * (abs(x) - 0.5 * d)


def planck(wavelength, temperature):
    z = 0.014388 / (wavelength * temperature)
    return 0.0 if z > 700 else 3.74e-16 / wavelength**5 / (np.exp(z) - 1)


def cubic_spline(t):
    t = abs(t)
    return 2 / 3 - t * t + t**3 / 2 if t < 1 else (2 - t) ** 3 / 6 if t < 2 else 0.0 * t


def tax(*incomes):
    def on(x):
        for top, base, rate, below in ((11e3, 0, 0.1, 0), (44e3, 1100, 0.12, 11e3), (95e3, 5100, 0.22, 44e3)):
            if x <= top:
                return base + rate * (x - below)
        return 16300 + 0.24 * (x - 95e3)

    return sum(map(on, incomes))


def hue(r, g, b):
    m, d = max(r, g, b), max(r, g, b) - min(r, g, b)
    return 60 * ((g - b) / d if m == r else 2 + (b - r) / d if m == g else 4 + (r - g) / d)


def hybrid_log_gamma(r, g, b):
    def e(v):
        return (3 * v) ** 0.5 if v <= 1 / 12 else 0.17883277 * np.log(12 * v - 0.28466892) + 0.55991073

    return e(0.2 * r + 0.7 * g + 0.1 * b) * e(r) / e(b)


COLOURS = (0.3, 0.4, 0.5)
PIECEWISE = [
    (srgb, COLOURS), (srgb_encoded, COLOURS), (cie_lab, COLOURS), (lab_of_srgb, COLOURS), (ciecam, (3.0, 4.0, 5.0)),
    (lab_of_srgb_by_where, (np.array(COLOURS),)), (huber, (3.0, 1.0)), (planck, (5e-7, 5e3)), (cubic_spline, (0.5,)),
    (tax, (5e4, 1e5, 3e5)), (hue, COLOURS), (hybrid_log_gamma, COLOURS),
]  # fmt: skip


@pytest.mark.parametrize(("f", "point"), PIECEWISE, ids=lambda v: getattr(v, "__name__", ""))
def test_formulas_with_branches_are_shown_as_they_stand(f, point):
    graph, slope = sd.trace(f, *point), sd.grad(f, argnums=tuple(range(len(point)))).graph(*point)
    begun = time.process_time()
    shown = graph.expr
    assert slope.expr and graph._repr_latex_() and slope._repr_latex_()
    assert time.process_time() - begun < 1.0
    if np.ndim(point[0]) == 0:
        at = {str(k): v for k, v in zip(inspect.signature(f).parameters, point, strict=False)}
        symbols = sorted(shown.free_symbols, key=str)
        if {str(s) for s in symbols} <= at.keys():
            assert float(sp.lambdify(symbols, shown, "math")(*(at[str(s)] for s in symbols))) == pytest.approx(f(*point))


def test_compensated_sums_are_shown_as_sums():
    x, y, z = sp.symbols("x y z")
    f = sd.trace(lambda x, y, z: math.fsum([x * y, y, z]), 1.0, 2.0, 3.0)
    assert sp.expand(f.expr - (x * y + y + z)) == 0
    assert "fsum" not in f._repr_latex_()

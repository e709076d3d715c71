"""Every operation as SymPy and as LaTeX: conditions in arithmetic, numbers as conditions, powers of selections."""

import numpy as np
import pytest
import sympy as sp
from inside import OPS, build, latex
from scipy import special

import symdiff as sd

X, Y, Z, W = sp.symbols("x y z w")


@pytest.mark.parametrize("op", [name for name, row in OPS.items() if row.arity > 0])
def test_an_operation_of_numbers_and_of_conditions(op):
    arity = OPS[op].arity
    for args in ([X, Y, Z, W][:arity], [X > 0, *[Y, Z, W][: arity - 1]]):
        found = build(op, list(args))
        for inside in (found, build("mul", [found, X]), build("select", [found, found, X]), build("not", [found])):
            assert latex(inside) and str(inside)
        assert latex(build("pow", [build("select", [X > 0, found, X]), sp.Integer(2)]))


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

"""SymPy expressions and graphs as functions: `lambdify`, every head of the table, transforms of them, hostile names, size."""

import random
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from inside import ROWS, main, sympy_of_text
from sympy.codegen import cfunctions, numpy_nodes, scipy_nodes
from sympy.matrices.expressions import (
    DiagMatrix,
    DiagonalMatrix,
    DiagonalOf,
    FunctionMatrix,
    HadamardPower,
    OneMatrix,
)
from sympy.matrices.expressions.blockmatrix import BlockDiagMatrix
from sympy.matrices.expressions.dotproduct import DotProduct
from sympy.tensor.array import ArrayComprehension, tensorcontraction
from sympy.tensor.array.expressions import (
    ArrayAdd,
    ArrayContraction,
    ArrayDiagonal,
    ArrayElementwiseApplyFunc,
    ArraySymbol,
    ArrayTensorProduct,
    OneArray,
    PermuteDims,
    Reshape,
    ZeroArray,
)
from sympy.utilities.lambdify import implemented_function

import symdiff as sd

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.mechanics import pendulum, rows

x, y, z, w, t = sp.symbols("x y z w t")
i, j, k, n, m = sp.symbols("i j k n m", integer=True)
p, q = sp.symbols("p q", positive=True)


def same(found, wanted, rtol=1e-12):
    if isinstance(wanted, (list, tuple)):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, rtol)
        return
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        return same(list(found.values()), list(wanted.values()), rtol)
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(complex), wanted.astype(complex), rtol=rtol, atol=1e-13)


# -- the examples of sympy.lambdify's documentation, called as they are there

mysin = {"sin": lambda v: 2 * np.sin(v)}
DOCUMENTED = [
    ((x, sp.sin(x) + sp.cos(x), "numpy"), (np.array([1, 2]),), [1.38177329, 0.49315059]),
    ((x, x + 1), (1,), 2),
    (([x], x + 1), (1,), 2),
    (([x, y], x + y), (1, 1), 2),
    (([(x, y, z)], sp.Eq(z**2, x**2 + y**2)), ((3, 4, 5),), True),
    (([x, (y, z)], x + y + z), (1, (2, 3)), 6),
    ((x, [x, [x + 1, x + 2]]), (1,), [1, [2, 3]]),
    ((x, sp.Matrix([x, x + 1])), (1,), np.array([[1], [2]])),
    ((x, x**2), (2,), 4),
    (((x, y, z), [z, y, x]), (1, 2, 3), [3, 2, 1]),
    ((x, sp.sqrt(x)), (4,), 2.0),
    (((x, y), sp.sin(x * y) ** 2), (0, 5), 0.0),
    (((x, y), sp.Matrix((x, x + y)).T, "sympy"), (1, 2), np.array([[1, 3]])),
    ((x, sp.sin(x), "mpmath"), (1,), 0.8414709848078965),
    (((x, (y, z)), x + y), (1, (2, 4)), 3),
    ((sp.flatten((w, (x, (y, z)))), w + x + y + z), (1, 2, 3, 4), 10),
    ((x, implemented_function(sp.Function("f"), lambda v: v + 1)(x)), (4,), 5),
    ((x, sp.Max(x, sp.sin(x)), "tensorflow"), (np.array([[1.0, 2.0], [3.0, 4.0]]),), np.array([[1.0, 2.0], [3.0, 4.0]])),
    ((x, sp.Piecewise((x, x <= 1), (1 / x, x > 1)), "numpy"), (np.array([-1, 0, 1, 2]),), np.array([-1, 0, 1, 0.5])),
    ((x, sp.Piecewise((x, x <= 1), (1 / x, x > 1)), "math"), (0,), 0),
    ((x, sp.sin(x), [mysin, "numpy"]), (1,), 2 * 0.8414709848078965),
    ((x, x + sp.sin(x), "numpy"), (np.array([1, 2]),), [1.84147098, 2.90929743]),
]


@pytest.mark.parametrize("call, args, wanted", DOCUMENTED, ids=lambda v: str(v)[:40])
def test_documented_examples_have_their_values(call, args, wanted):
    found = sd.lambdify(*call)(*args)
    if isinstance(wanted, list) and not isinstance(found, list):
        wanted = np.array(wanted)
    same(found, wanted, 1e-7)


# -- every head of the table

A, B = sp.MatrixSymbol("A", 3, 3), sp.MatrixSymbol("B", 3, 3)
v = sp.MatrixSymbol("v", 3, 1)
X, Y = sp.IndexedBase("X", shape=(4,)), sp.IndexedBase("Y", shape=(4, 4))
T = ArraySymbol("T", (2, 2, 3))
d = sp.Dummy("d")
CELLS = np.array([[4.0, 1.0, 0.5], [0.3, 3.0, 1.2], [0.1, 0.7, 2.0]])
ELEMENTARY = {
    sp.exp(x): None, sp.log(x): None, sp.sin(x): None, sp.cos(x): None, sp.tan(x): None, sp.asin(x): None, sp.acos(x): None,
    sp.atan(x): None, sp.sinh(x): None, sp.cosh(x): None, sp.tanh(x): None, sp.asinh(x): None, sp.acosh(1 + x): None,
    sp.atanh(x): None, sp.atan2(x, y): None, cfunctions.Sqrt(x): sp.sqrt(x), cfunctions.Cbrt(x): sp.cbrt(x),
    cfunctions.exp2(x): 2**x, cfunctions.expm1(x): sp.exp(x) - 1, cfunctions.log1p(x): sp.log(1 + x),
    cfunctions.log2(x): sp.log(x, 2), cfunctions.log10(x): sp.log(x, 10), cfunctions.hypot(x, y): sp.sqrt(x**2 + y**2),
    cfunctions.fma(x, y, 2): x * y + 2, numpy_nodes.logaddexp(x, y): sp.log(sp.exp(x) + sp.exp(y)),
    numpy_nodes.logaddexp2(x, y): sp.log(2**x + 2**y, 2), numpy_nodes.maximum(x, y): sp.Max(x, y),
    numpy_nodes.minimum(x, y): sp.Min(x, y), scipy_nodes.cosm1(x): sp.cos(x) - 1, scipy_nodes.powm1(x, y): x**y - 1,
    sp.Abs(x - y): None, sp.sign(x - y): None, sp.floor(3 * x): None, sp.ceiling(3 * x): None, sp.frac(5 * x): None,
    sp.Mod(5 * x, y): None, sp.conjugate(x + sp.I * y): x - sp.I * y, sp.re((x + sp.I * y) ** 2): x**2 - y**2,
    sp.im((x + sp.I * y) ** 2): 2 * x * y, sp.arg(x + sp.I * y): sp.atan2(y, x), sp.Max(x, y, 0.5): None,
    sp.Min(x, y, 0.5): None, sp.sec(x): None, sp.csc(x): None, sp.cot(x): None, sp.sech(x): None, sp.csch(x): None,
    sp.coth(x): None, sp.asec(x + 1): None, sp.acsc(x + 1): None, sp.acot(x): None, sp.asech(x): None, sp.acsch(x): None,
    sp.acoth(x + 1): None, sp.sinc(x): None, sp.Heaviside(x - y): None, sp.Heaviside(x, 1): None,
    sp.SingularityFunction(x, 0.2, 2): (x - 0.2) ** 2, x**-3 / y: None, x ** sp.Rational(-1, 2): None, x**y: None,
    x ** sp.Rational(5, 3): None, sp.Rational(2, 3) * x - y / 7: None, -x - y: None, sp.pi * x + sp.E + sp.EulerGamma: None,
    sp.UnevaluatedExpr(x) ** 2: x**2,
    sp.GoldenRatio - sp.Catalan * x: None, sp.Float("1.5") * x: None, sp.exp(sp.I * x): None, sp.zeta(3) * x: None,
    sp.KroneckerDelta(i, 2): sp.Integer(0),
}  # fmt: skip
SPECIAL = {
    sp.erf(x): None, sp.erfc(x): None, sp.erfi(x): None, sp.erf2(x, y): sp.erf(y) - sp.erf(x), sp.erfinv(x): None,
    sp.erfcinv(x): sp.erfinv(1 - x),
    sp.gamma(x): None, sp.loggamma(x): None, sp.digamma(x): None, sp.polygamma(2, x): None, sp.beta(x, y): None,
    sp.zeta(x + 2): None, sp.zeta(x + 2, y): None, sp.factorial(x): sp.gamma(x + 1), sp.binomial(x + 3, y): None,
    sp.RisingFactorial(x, y): None, sp.FallingFactorial(x + 2, y): None, sp.harmonic(x): sp.digamma(x + 1) + sp.EulerGamma,
    sp.lowergamma(x, y): None, sp.uppergamma(x, y): None, sp.betainc(x, y, 0.1, 0.4): None,
    sp.betainc_regularized(x, y, 0.1, 0.4): None, sp.Ei(x): None, sp.expint(2, x): None, sp.li(x + 1): None,
    sp.Li(x + 3): None, sp.Si(x): None, sp.Ci(x): None, sp.Shi(x): None, sp.Chi(x): None, sp.fresnels(x): None,
    sp.fresnelc(x): None, sp.besselj(1, x): None, sp.bessely(y, x): None, sp.besseli(y, x): None, sp.besselk(2, x): None,
    sp.hankel1(1, x): None, sp.hankel2(1, x): None, sp.jn(1, x): None, sp.yn(1, x): None, sp.airyai(x): None,
    sp.airyaiprime(x): None, sp.airybi(x): None, sp.airybiprime(x): None, sp.elliptic_k(x): None, sp.elliptic_e(x): None,
    sp.elliptic_e(x, y): None, sp.elliptic_f(x, y): None, sp.elliptic_pi(x, y): None, sp.chebyshevt(y, x): None,
    sp.chebyshevu(y, x): None, sp.legendre(y, x): None, sp.laguerre(i, x): None, sp.gegenbauer(i, 0.4, x): None,
    sp.jacobi(i, 0.4, 0.6, x): None, sp.assoc_laguerre(i, 0.4, x): None, sp.hermite(i, x): 8 * x**3 - 12 * x,
    sp.assoc_legendre(i, 1, x): sp.assoc_legendre(3, 1, x), sp.LambertW(x): None,
    sp.LambertW(-x): None, sp.LambertW(x + sp.I * y): None,
    sp.catalan(x): None, sp.factorial2(i): sp.Integer(3), sp.fibonacci(i): sp.Integer(2), sp.lucas(i): sp.Integer(4),
    sp.dirichlet_eta(x + 2): None, sp.riemann_xi(x + 2): None,
 sp.hyper((x,), (y,), 0.3): None,
    sp.hyper((x, y), (1.5,), 0.3): None, sp.hyper((), (y,), 0.3): None,
}  # fmt: skip
AT = {x: 0.3, y: 0.7, i: 3}


@pytest.mark.parametrize("expr", ELEMENTARY | SPECIAL, ids=str)
def test_a_head_has_the_value_of_sympys(expr):
    if expr in SPECIAL:
        pytest.importorskip("scipy", reason="SciPy's functions")
    wanted = (ELEMENTARY | SPECIAL)[expr]
    wanted = complex(sp.N((expr if wanted is None else wanted).subs(AT)))
    found = sd.lambdify([x, y, i], expr)(0.3, 0.7, 3)
    same(complex(found), wanted, 1e-10)


TRUTHS = {
    sp.Lt(x, y): True, sp.Le(y, x): False, sp.Gt(x, y): False, sp.Ge(x, x - 1e-9 * y): True, sp.Eq(x, y): False,
    sp.Ne(x, y): True, sp.And(x < y, y < 1): True, sp.Or(x > y, y > 1): False, sp.Not(sp.And(x < y, y < 1)): False,
    sp.Xor(x < y, y < 1, x > 0): True, sp.Implies(x < y, y > 1): False, sp.Equivalent(x < y, y < 1, x > 0): True,
    sp.ITE(x < y, y < 1, y > 1): True, sp.Contains(x, sp.Interval(0, sp.Rational(1, 2))): True, sp.true: True,
    cfunctions.isnan(x): False, cfunctions.isinf(x): False,
}  # fmt: skip


@pytest.mark.parametrize("expr", TRUTHS, ids=str)
def test_a_condition_holds_where_it_does(expr):
    found = sd.lambdify([x, y], expr)(0.3, 0.7)
    assert bool(found) is TRUTHS[expr]
    assert sd.lambdify([x, y], sp.Piecewise((2 * x, expr), (y, True)))(0.3, 0.7) == (0.6 if TRUTHS[expr] else 0.7)


def explicit(expr):
    known = {A: sp.Matrix(CELLS), B: sp.Matrix(CELLS.T + 1), v: sp.Matrix([1.0, 2.0, 4.0])}
    return np.array(expr.subs(known).as_explicit().tolist(), dtype=float)


WHOLE = [
    A + B, A * B, 2 * A * B * v, A.T, A**2, A.I, A ** (-1), sp.Inverse(A) * v, A - 3 * B.T, sp.HadamardProduct(A, B),
    HadamardPower(A, 2), A[1:, :2], sp.BlockMatrix([[A, B], [B, A]]), BlockDiagMatrix(A, B), DiagMatrix(v),
    sp.Identity(3) + A, A + OneMatrix(3, 3), A + sp.ZeroMatrix(3, 3), sp.KroneckerProduct(A, B), A.adjoint() * A,
    sp.Matrix([[1, 2, 3]]) * A, A * sp.Matrix([[x, 1], [2, 3], [1, x]]).subs(x, 2), A.applyfunc(sp.Lambda(d, sp.sin(d) * d)),
    FunctionMatrix(3, 3, sp.Lambda((i, j), i + 2 * j)) * A, DiagonalMatrix(A), DiagonalOf(A),
]  # fmt: skip


@pytest.mark.parametrize("expr", WHOLE, ids=str)
def test_matrix_expressions(expr):
    args = CELLS, CELLS.T + 1, np.array([[1.0], [2.0], [4.0]])
    found = sd.lambdify([A, B, v], expr)(*args)
    known = {DiagMatrix(v): np.diag([1.0, 2.0, 4.0]), DiagonalMatrix(A): np.diag(np.diag(CELLS))}
    known[DiagonalOf(A)] = np.diag(CELLS)[:, None]
    wanted = known[expr] if expr in known else explicit(expr)
    same(found, wanted, 1e-10)


def test_numbers_of_matrices():
    args = CELLS, CELLS.T + 1, np.array([[1.0], [2.0], [4.0]])
    for expr in (sp.Trace(A * B), sp.Determinant(A), A[1, 2] * B[0, 0], sp.Sum(A[i, i], (i, 0, 2)), sp.Trace(A) * x):
        found = sd.lambdify([A, B, v, x], expr)(*args, 2.0)
        known = {A: sp.Matrix(args[0]), B: sp.Matrix(args[1]), x: 2}
        assert found == pytest.approx(float(expr.subs(known).doit()))
    assert sd.lambdify([v], DotProduct(v, v))(args[2]) == 21
    assert sd.lambdify([v], v.T * v)(np.array([1.0, 2.0, 4.0])) == 21  # a vector for a column
    size = sp.Symbol("size")
    C = sp.MatrixSymbol("C", size, size)
    same(sd.lambdify([C], C * sp.Identity(size) + size * C)(CELLS), 4 * CELLS)


def test_arrays_of_any_rank():
    cells = np.arange(12.0).reshape(2, 2, 3)
    cases = {
        T[0, 1, 2] * 2: 10.0, PermuteDims(T, [2, 0, 1]): cells.transpose(2, 0, 1), ArrayAdd(T, T): 2 * cells,
        ArrayContraction(T, (0, 1)): np.einsum("iik->k", cells), ArrayDiagonal(T, (0, 1)): np.einsum("iik->ki", cells),
        ArrayContraction(ArrayTensorProduct(T, T), (0, 3), (1, 4), (2, 5)): np.sum(cells**2), Reshape(T, (4, 3)):
        cells.reshape(4, 3), ArrayElementwiseApplyFunc(sp.Lambda(d, d**2), T): cells**2,
        ArrayAdd(T, OneArray(2, 2, 3)): cells + 1, ArrayAdd(T, ZeroArray(2, 2, 3)): cells,
    }  # fmt: skip
    for expr, wanted in cases.items():
        same(sd.lambdify([T], expr)(cells), wanted)
    same(sd.lambdify([x], sp.Array([[x, 2], [3, x * x]]))(5.0), [[5.0, 2.0], [3.0, 25.0]] @ np.eye(2))
    same(sd.lambdify([x], sp.SparseMatrix(2, 2, {(0, 1): x}))(5.0), np.array([[0.0, 5.0], [0.0, 0.0]]))
    same(sd.lambdify([x], ArrayComprehension(i * x + j, (i, 1, 2), (j, 0, 2)))(5.0), np.array([[5, 6, 7], [10, 11, 12]]))
    assert sd.lambdify([x], tensorcontraction(sp.Array([[x, 2], [3, x]]), (0, 1)))(5.0) == 10


def test_the_table_has_no_head_without_a_test():
    shown = [*ELEMENTARY, *SPECIAL, *TRUTHS, *WHOLE]
    seen = {kind for e in shown for a in sp.preorder_traversal(e) for kind in type(a).__mro__}
    elsewhere = {
        "Sum", "Product", "Derivative", "Subs", "Integral", "DiracDelta", "Indexed", "IndexedBase", "Idx", "NDimArray", "Trace",
        "Determinant", "DotProduct", "ArraySymbol", "ArrayElement", "ArrayAdd", "ArrayTensorProduct", "ArrayContraction",
        "ArrayDiagonal", "PermuteDims", "Reshape", "ZeroArray", "OneArray", "ArrayElementwiseApplyFunc", "MatrixBase",
        "ComplexInfinity", "BooleanFalse", "MatrixElement", "GreaterThan",
        "ZeroMatrix", "Piecewise", "ArrayComprehension", "digamma",
    }  # fmt: skip
    assert {head.__name__ for head in ROWS if head not in seen} <= elsewhere


def test_infinities_and_the_lack_of_a_value():
    found = sd.lambdify(x, [sp.oo, -sp.oo, sp.nan, sp.zoo, x * sp.oo])(2.0)
    np.testing.assert_array_equal(found, [np.inf, -np.inf, np.nan, np.nan, np.inf])


# -- sums, products, derivatives, substitutions


@pytest.mark.parametrize("top", [0, 5, 63, 64, 200])
def test_sums_and_products_of_any_length(top):
    expr = sp.Sum(x**k / (k + 1), (k, 0, n)) + sp.Product(1 + x / (k + 1) ** 2, (k, 0, n))
    terms = range(top + 1)
    wanted = sum(0.5**k / (k + 1) for k in terms) + np.prod([1 + 0.5 / (k + 1) ** 2 for k in terms])
    f = sd.lambdify([x, n], expr)
    assert f(0.5, top) == pytest.approx(wanted)
    same(f(np.array([0.5, 0.0]), top)[0], wanted)
    slope = sum(k * 0.5 ** (k - 1) / (k + 1) for k in terms)
    product = np.prod([1 + 0.5 / (k + 1) ** 2 for k in terms])
    slope += product * sum(1 / (k + 1) ** 2 / (1 + 0.5 / (k + 1) ** 2) for k in terms)
    assert sd.grad(f)(0.5, top) == pytest.approx(slope)


def test_the_slope_of_a_long_power_series_at_zero():
    f = sd.lambdify(x, sp.Sum(x**k, (k, 0, 300)))
    assert (f(0.0), sd.grad(f)(0.0), sd.derivative(f, order=2)(0.0)) == (1, 1, 2)


def test_sums_inside_each_other_and_over_cells():
    triangle = sp.Sum(Y[i, j] * X[j], (j, 0, i), (i, 0, 3))
    cells, matrix = np.arange(4.0) + 1, np.arange(16.0).reshape(4, 4)
    assert sd.lambdify([X, Y], triangle)(cells, matrix) == np.sum(np.tril(matrix) * cells)
    long = sp.IndexedBase("long")
    f = sd.lambdify([long, n], sp.Sum(long[k + 1] * long[k] + k, (k, 0, n - 2)))
    values = np.linspace(0, 1, 300)
    assert f(values, 300) == pytest.approx(np.sum(values[1:] * values[:-1] + np.arange(299)))
    same(sd.grad(f)(values, 300)[1:-1], values[2:] + values[:-2])
    inside = sp.Piecewise((long[k - 1], k > 0), (0, True)) * long[k]
    assert sd.lambdify([long, n], sp.Sum(inside, (k, 0, n - 1)))(values, 300) == pytest.approx(np.sum(values[1:] * values[:-1]))
    double = sp.Sum(sp.sin(i * x) * j, (i, 1, 100), (j, 1, 70))
    assert sd.lambdify(x, double)(0.1) == pytest.approx(np.sum(np.sin(np.arange(1, 101) * 0.1)) * 2485)
    with pytest.raises(sd.TraceError, match="bound of Sum must be an integer"):
        sd.lambdify([x, y], sp.Sum(x**k, (k, 0, y)))(0.5, np.float64(2.5))
    with pytest.raises(sd.ShapeError, match="index 4 is out of bounds"):
        sd.lambdify([X], sp.Sum(X[k], (k, 0, 4)))(cells)


def test_derivatives_that_are_not_evaluated():
    f = sp.Function("f")
    cases = {
        sp.Derivative(sp.sin(x * y), x): sp.sin(x * y).diff(x),
        sp.Derivative(sp.sin(x * y) * x, x, 2, y): (sp.sin(x * y) * x).diff(x, 2, y),
        sp.Derivative(x**2, y): 0 * x,
        sp.Subs(sp.Derivative(sp.exp(z) * x, z), z, x * y): sp.exp(x * y) * x,
        x * sp.Derivative(sp.Sum(x**k, (k, 0, 4)), x): x * sum(k * x ** (k - 1) for k in range(5)),
    }
    for expr, wanted in cases.items():
        found = sd.lambdify([x, y], expr)
        assert found(0.3, 0.7) == pytest.approx(float(wanted.subs(AT)))
        assert sd.grad(found)(0.3, 0.7) == pytest.approx(float(wanted.diff(x).subs(AT)))
    points = np.linspace(0.1, 1, 5)
    same(sd.lambdify([x, y], sp.Derivative(sp.sin(x * y), x))(points, 2.0), 2 * np.cos(2 * points))
    own = implemented_function(sp.Function("own"), lambda u: np.sin(u) * u)
    assert sd.lambdify(x, sp.Derivative(own(x**2), x))(0.5) == pytest.approx(np.sin(0.25) + 0.25 * np.cos(0.25))
    given = sd.lambdify([f(t), f(t).diff(t), t], f(t) * f(t).diff(t) + t)
    assert given(2, 3, 4) == 10
    assert sd.grad(given, f(t).diff(t))(2, 3, 4) == 2
    with pytest.raises(sd.TraceError, match="make it an argument"):
        sd.lambdify([f(t), t], f(t).diff(t))


# -- random expressions

UNARY = [sp.sin, sp.cos, sp.exp, sp.tanh, sp.Abs, lambda a: sp.sqrt(a**2 + 1), lambda a: a**3, lambda a: 1 / (a**2 + 2),
         sp.atan, lambda a: sp.log(a**2 + 1), sp.erf, lambda a: -a / 3, lambda a: sp.Rational(2, 7) * a,
         sp.Heaviside]  # fmt: skip
BINARY = [sp.Add, sp.Mul, lambda a, b: a - b, lambda a, b: a / (1 + b**2), sp.Max, sp.Min, lambda a, b: (1 + a**2) ** b,
          lambda a, b: sp.Piecewise((a, a < b), (b * a, True)), sp.atan2]  # fmt: skip


def random_expression(rng, size):
    pool = [x, y, z, sp.Integer(2), sp.Rational(1, 3), sp.Float(0.7), sp.pi]
    for _ in range(size):
        made = rng.choice(UNARY)(rng.choice(pool)) if rng.random() < 0.5 else rng.choice(BINARY)(*rng.sample(pool, 2))
        if made not in (sp.nan, sp.zoo):
            pool.append(made)
    return sum(pool[-3:])


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_have_the_values_of_lambdifys(seed):
    """Each of 25 in one function of all, some in one of their own, at numbers and at points."""
    rng = random.Random(seed)
    values = 0.3, -0.7, 1.4
    exprs = [random_expression(rng, rng.randint(3, 9)) for _ in range(25)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [complex(sp.lambdify([x, y, z], expr)(*map(np.float64, values))) for expr in exprs]
        pairs = [(expr, w) for expr, w in zip(exprs, wanted, strict=True) if abs(w) <= 1e12]
        found = sd.lambdify([x, y, z], [expr for expr, _ in pairs])(*values)
        for (expr, w), f in zip(pairs, found, strict=True):
            assert complex(f) == pytest.approx(w, rel=1e-9, abs=1e-12), expr
        for expr, w in pairs[::8]:
            function = sd.lambdify([x, y, z], expr)
            rows = function(*(np.full(3, v) for v in values))
            for f in (function(*values), np.broadcast_to(rows, 3)[1]):
                assert complex(f) == pytest.approx(w, rel=1e-9, abs=1e-12), expr


# -- transforms


def test_every_transform_takes_expressions():
    expr = x * sp.sin(x * y)
    value, (by_x, by_y) = 0.3 * np.sin(0.21), (np.sin(0.21) + 0.21 * np.cos(0.21), 0.09 * np.cos(0.21))
    assert sd.grad(expr)(0.3, 0.7) == pytest.approx(by_x)
    assert sd.grad(expr, y)(0.3, 0.7) == sd.grad(expr, "y")(0.3, 0.7) == sd.grad(expr, 1)(0.3, 0.7) == pytest.approx(by_y)
    same(sd.grad(expr, (x, y))(x=0.3, y=0.7), (by_x, by_y))
    same(sd.value_and_grad(expr, (y, x))(0.3, 0.7), (value, (by_y, by_x)))
    same(sd.jacobian(sp.Matrix([expr, y]), (x, y))(0.3, 0.7), (np.array([[by_x], [0]]), np.array([[by_y], [1]])))
    assert sd.hessian(expr, y)(0.3, 0.7) == pytest.approx(float(expr.diff(y, 2).subs(AT)))
    same(sd.jvp(expr)(0.3, 0.7, 2.0), (value, 2 * by_x))
    same(sd.vjp(expr)(0.3, 0.7, 2.0), (value, 2 * by_x))
    assert sd.hvp(expr)(0.3, 0.7, 2.0) == pytest.approx(2 * float(expr.diff(x, 2).subs(AT)))
    assert sd.derivative(expr, order=2)(0.3, 0.7) == pytest.approx(float(expr.diff(x, 2).subs(AT)))
    same(sd.wirtinger(x * sp.conjugate(x))(3 + 4j), (3 - 4j, 3 + 4j))
    points = np.linspace(0, 1, 4)
    same(sd.vmap(sd.grad(expr), in_axes=(0, None))(points, 0.7), sd.derivative(expr)(points, 0.7))
    same(sd.vmap(expr)(points, points), points * np.sin(points**2))
    assert str(sd.trace(expr, 0.3, 0.7).expr) == "sin(x*y)*x" or sd.trace(expr, 0.3, 0.7)(0.3, 0.7) == value
    assert sd.cost(expr, 0.3, 0.7).value.operations == 3
    assert sd.explain(sp.Abs(x), 0.0).differentiable is False
    sd.check_grads(expr, (0.3, 0.7))
    assert "import" in sd.grad(expr).source(0.3, 0.7)
    found = sd.grad({"a": [x * y], "b": x}["a"][0])(2.0, 3.0)
    assert found == 3
    same(sd.jacobian({"a": [x * y, (x, y)]})(2.0, 3.0), {"a": [3.0, (1.0, 0.0)]})


def test_graphs_are_arguments_of_transforms():
    def f(a, b):
        return np.sin(a) @ b

    a, b = np.arange(3.0), np.ones(3)
    graph = sd.trace(f, a, b)
    same(sd.grad(graph)(a, b), np.cos(a))
    same(sd.grad(graph, "b")(a, b), np.sin(a))
    same(sd.hessian(graph)(a, b), np.diag(-np.sin(a)))
    same(sd.vmap(sd.grad(graph))(np.stack([a, b]), np.stack([b, a])), np.stack([np.cos(a), np.cos(b) * a]))
    first = sd.grad(f).graph(a, b)  # a derivative's graph
    same(sd.jacobian(first)(a, b), np.diag(-np.sin(a)))
    with pytest.raises(sd.ShapeError, match="a of f is"):
        sd.grad(graph)(np.ones(4), b)
    captured = np.arange(100.0)
    holding = sd.trace(lambda u: u * np.sum(captured), 1.0)
    assert sd.grad(holding)(2.0) == 4950
    branching = sd.trace(lambda u: u * u if u > 1 else 3 * u, 2.0)
    assert (sd.grad(branching)(2.0), sd.grad(branching)(0.5)) == (4, 3)
    with pytest.raises(sd.TraceError, match="int is not a function"):
        sd.grad(3)


def test_functions_of_sympys_own():
    assert sd.grad(sp.Lambda((x, y), x**2 * y))(3.0, 2.0) == 12
    assert sd.grad(sp.sin)(0.0) == 1
    assert sd.grad(sp.Poly(x**3 + x * y, x, y))(2.0, 1.0) == 13
    outer = sd.lambdify([x], x**2)
    assert sd.grad(lambda u: outer(u) * outer(2.0))(3.0) == 24
    own = implemented_function(sp.Function("own"), lambda u: np.where(u > 0, u, 2 * u))
    assert (sd.grad(own(x))(-1.0), sd.grad(own(x))(1.0)) == (2, 1)
    assert sd.grad(own)(-1.0) == 2
    same(sd.grad(sp.atan2, (0, 1))(1.0, 2.0), (0.4, -0.2))
    with pytest.raises(sd.TraceError, match="implemented_function"):
        sd.grad(sp.Function("h"))


def test_what_an_implementation_captures_is_watched():
    scale = [2.0]
    own = implemented_function(sp.Function("own"), lambda u: u * scale[0])
    f = sd.lambdify(x, own(x))
    assert f(3.0) == 6
    scale[0] = 5.0
    assert f(3.0) == 15
    assert sd.lambdify(x, own(x), {"own": lambda u: -u}, use_imps=False)(3.0) == -3


# -- arguments


def test_arguments_of_all_kinds():
    f = sp.Function("f")
    assert sd.lambdify("x, y", "x*sin(y) + 2")(2, 0) == 2
    assert sd.lambdify(["x", y], [x, "y**2"])(2, 3) == [2, 9]
    vector = sp.DeferredVector("V")
    assert sd.lambdify(vector, vector[0] * vector[2])(np.array([2.0, 3.0, 4.0])) == 8
    assert sd.lambdify(sp.Matrix([x, y]), x - y)(3, 1) == 2
    assert sd.lambdify([sp.Matrix([x, y]), z], x - y + z)(np.array([[3.0], [1.0]]), 1) == 3
    assert sd.lambdify([(x, (y, z))], x + 10 * y + 100 * z)((1, (2, 3))) == 321
    assert sd.lambdify([[x, y]], x - y)(np.array([3, 1])) == sd.lambdify([[x, y]], x - y)([3, 1]) == 2
    assert sd.lambdify([], sp.pi)() == pytest.approx(np.pi)
    assert sd.lambdify(x, 1)(np.arange(3.0)) == 1
    names = ["lambda", "x y", "", "π", "1a", "__import__('os')", "a.b", "out", "self", "None", "\x1b[2J", "x" * 300]
    symbols = [sp.Symbol(name) for name in names]
    g = sd.lambdify(symbols, sum((k + 1) * s for k, s in enumerate(symbols)), dummify=True, cse=True, docstring_limit=0)
    assert g(*range(len(names))) == sum((k + 1) * k for k in range(len(names)))
    assert sd.grad(g, 2)(*map(float, range(len(names)))) == 3
    compile(sd.grad(g).source(*map(float, range(len(names)))), "made", "exec")
    assert sd.lambdify([f(x), x], f(x) + x)(2, 3) == 5
    real = sp.Symbol("x", real=True)
    assert sd.lambdify([x, real], x - real)(3, 1) == 2
    assert sd.lambdify([x, y], {x: y, "b": (x,)})(1, 2) == {x: 2, "b": (1,)}


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: sd.lambdify(x, x + y), "y is not among the arguments x"),
        (lambda: sd.lambdify([x, x], x), "given twice"),
        (lambda: sd.lambdify({x, y}, x), "no order"),
        (lambda: sd.lambdify(x, x, printer=sp.printing.str.StrPrinter), "nothing is printed"),
        (lambda: sd.lambdify(x, x, "nympy"), "modules='nympy'"),
        (lambda: sd.lambdify(x, sp.Function("h")(x)), "implemented_function"),
        (lambda: sd.lambdify(x, sp.polylog(2, x)), "polylog"),
        (lambda: sd.lambdify(x, sp.Integral(sp.exp(x * t), (t, 0, 1))), "Integral is not computed here"),
        (lambda: sd.lambdify(x, sp.DiracDelta(x)), "DiracDelta"),
        (lambda: sd.lambdify([x, y, z], sp.elliptic_pi(x, y, z))(0.3, 0.7, 0.4), "elliptic_pi of 3 arguments"),
        (lambda: sd.lambdify([(x, y)], x)((1, 2, 3)), "a sequence of 2; 3 are given"),
        (lambda: sd.lambdify([(x, y)], x)(1.0), "a number is given"),
        (lambda: sd.lambdify([A], A)(np.ones((2, 2))), "has shape"),
        (lambda: sd.lambdify(x, x)(1, 2), "too many positional"),
        (lambda: sd.lambdify(x, object()), "object is no expression"),
        (lambda: sd.grad(x * y, z), "argnums=z"),
        (lambda: sd.lambdify(x, x)(sp.Symbol("a")), "cannot be traced"),
    ],
)
def test_refusals_name_the_users_line(call, told):
    with pytest.raises(sd.SymdiffError, match=told) as caught:
        call()
    assert "test_sympy_in.py:" in str(caught.value)


# -- text


@pytest.mark.parametrize(
    "text",
    ["x.__class__", "__import__('os')", "(lambda: 1)()", "x[0]", "f'{x}'", "'a'", "open('/etc/passwd')", "eval(x)", "9**9**9",
     "sin(x=1)", "sin(*x)", "x if x else y", "[x for x in y]", "x := 1", "x; y", "", "sin", "x @ y", "factorial(10**9)",
     "a" * 200_000,     "(" * 5000 + "x" + ")" * 5000, "-" * 5000 + "x", "x is y", "b'a'", "\x00", "2**(10**10)", "sin(x,y,z)"],
    ids=lambda s: s[:20],
)  # fmt: skip
def test_texts_that_are_no_formulas_are_refused(text):
    with pytest.raises(sd.SymdiffError):
        sd.lambdify("x", text)


def test_refusals_inside_a_trace_have_their_line():
    with pytest.raises(sd.TraceError, match=r"^test_sympy_in.py:\d+: SymPy's polylog"):
        sd.grad(lambda u: sd.lambdify(x, sp.polylog(2, x))(u))(0.5)
    with pytest.raises(sd.TraceError, match=r"^test_sympy_in.py:\d+: Attribute"):
        sd.grad(lambda u: sd.lambdify("x", "x.real")(u))(0.5)
    assert sd.grad(lambda u: sd.lambdify([x, y], x * y, cse=True)(u, 2.0) * sd.grad(x**2)(u))(3.0) == 24


def test_texts_as_formulas():
    read = sympy_of_text("sin(x)*exp(-x*y) + Max(x, 2) + 1e-3*pi + abs(y)**0.5 + 3j", {})
    assert read.free_symbols == {x, y}
    assert sympy_of_text("2*x", {"x": y}) == 2 * y
    assert sympy_of_text("Piecewise((x, x < 1), (2*x, True))", {}) == sp.Piecewise((x, x < 1), (2 * x, True))


def test_the_command_line_shows_formulas(tmp_path, capsys):
    assert main(["show", "--expr", "sin(x)*exp(-x*y)", "--wrt", "x,y"]) == 0
    shown = capsys.readouterr().out
    assert "∂x" in shown and "∂y" in shown and "cos(x)" in shown
    path = tmp_path / "made.py"
    assert main(["export", "--expr", "x**2*y", "-o", str(path)]) == 0
    assert main(["check", str(path)]) == 0
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    assert space["f_grad"](3.0, 2.0) == 12
    capsys.readouterr()
    for wrong in (["show", "--expr", "x.__class__"], ["show"], ["show", "--expr", "x", "math:sin"], ["show", "--expr", "3"]):
        assert main(wrong) == 2
        assert capsys.readouterr().err.startswith("symdiff: ")


# -- size


def test_a_hundred_thousand_operations_wide_and_deep_in_linear_time():
    def head(kind, *parts):
        return kind(*parts, evaluate=False)

    deep, levels, wide = x, 40_000, 5_000
    for _ in range(levels):
        deep = head(sp.Add, head(sp.sin, deep), y)
    shifted = [(head(sp.Add, x, sp.Integer(k)), head(sp.Add, y, sp.Integer(k))) for k in range(wide)]
    expr = head(sp.Add, *(head(sp.Mul, head(sp.sin, a), b) for a, b in shifted), deep)
    start = time.process_time()
    function = sd.lambdify([x, y], expr)
    graph = sd.trace(function, 0.3, 0.7)
    assert time.process_time() - start < 12
    assert len(graph.bindings) >= 100_000 - 5
    wanted = 0.3
    for _ in range(levels):
        wanted = np.sin(wanted) + 0.7
    assert graph(0.3, 0.7) == pytest.approx(sum(np.sin(0.3 + k) * (0.7 + k) for k in range(wide)) + wanted)


def test_equal_parts_are_one_binding():
    part = sp.sin(x * y)
    copies = [sp.sin(sp.Mul(x, y, evaluate=False), evaluate=False) + k for k in range(50)]
    assert len(sd.Graph.from_sympy([x, y], [part, *copies]).bindings) == 2 + 49


# -- equations of motion


def test_equations_of_motion_of_a_pendulum():
    args, mass, forcing = pendulum(3)
    rng = np.random.default_rng(1)
    values = [rng.random(8), 0.3, rng.random(8) + 0.5]
    function, slopes = sd.lambdify(args, (mass, forcing)), sd.jacobian(sd.lambdify(args, forcing))
    same(function(*values), tuple(sp.lambdify(args, (mass, forcing), cse=True)(*values)), 1e-11)
    wanted = sp.lambdify(args, forcing.jacobian(args[0]), cse=True)(*values)
    np.testing.assert_allclose(slopes(*values)[:, 0], wanted, rtol=1e-10, atol=1e-12)


def test_the_benchmark_of_equations_of_motion_runs():
    lines = list(rows(1, 1))
    assert [line[2] for line in lines].count("symdiff") == 2


def test_transforms_of_transforms_are_called_as_quickly_as_others():
    """Machine code is called without a look at the kinds of arguments, which nobody asked for."""
    f = sd.jacobian(sd.lambdify([[x, y]], sp.Matrix([x * y, x + y])))
    g = sd.jacobian(sd.grad(lambda a, b: a[0] ** 2 * a[1] * b))
    for function, args in ((f, ([0.3, 0.4],)), (g, ([0.3, 0.4], 2.0))):
        args = np.array(args[0]), *args[1:]
        function(*args)
        assert function._kinds == 0


@pytest.mark.parametrize("expr", [sp.gamma(p), sp.loggamma(p), sp.digamma(p + 1), sp.sin(p) + sp.erf(p)], ids=str)
def test_a_function_that_was_called_is_traced_like_one_that_was_not(expr):
    f = sd.lambdify([p], expr)
    f(1.5)
    assert sd.grad(f)(1.5) == pytest.approx(float(expr.diff(p).subs(p, 1.5)), rel=1e-12)


def test_a_function_of_matrices_that_was_called_is_traced_like_one_that_was_not():
    f = sd.lambdify([x, A], sp.Trace(sp.Inverse(A + x * sp.Identity(3))))
    f(1.5, CELLS)
    inverse = np.linalg.inv(CELLS + 1.5 * np.eye(3))
    np.testing.assert_allclose(sd.grad(f)(1.5, CELLS), -np.trace(inverse @ inverse), rtol=1e-12)

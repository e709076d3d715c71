"""Every operation as an expression of SymPy's: a small one over symbols, with its value; SymPy's functions work on it."""

import warnings

import numpy as np
import pytest
import sympy as sp
from inside import OPS, Builder, applied

import symdiff as sd

NUMBERS = (0.3, 0.6, 0.4, 0.7)
ORDERS = {"expn": 1, "polygamma": 1, "eval_hermite": 1, "eval_genlaguerre": 1, "eval_gegenbauer": 1, "eval_jacobi": 1}
ABOVE = {"acosh": 1.3, "eval_legendre": 2, "zeta": 2.5}
TRUTHS = {"and", "or", "xor", "not"}
ELEMENTWISE = sorted(set(OPS) - {"input", "const", "call", "edge"})


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operation_has_the_value_of_its_expression(name):
    row, builder = OPS[name], Builder()
    if row.numpy.startswith("special."):
        pytest.importorskip("scipy", reason=f"{name} is SciPy's")
    values = [True, *NUMBERS] if name == "select" else [True, False] if name in TRUTHS else list(NUMBERS)
    values[0] = ORDERS.get(name, ABOVE.get(name, values[0]))
    values = values[: row.arity]
    operands = tuple(builder.input("xyzu"[k], (), "?" if v is True or v is False else "d") for k, v in enumerate(values))
    builder.emit(name, operands, "d" if name == "cast" else None)
    binding = builder.bindings[-1]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted = complex(applied(binding, [np.asarray(v)[()] for v in values]))
    expression = binding.expr
    assert isinstance(expression, sp.Basic) and expression.free_symbols <= {o.symbol for o in operands}
    known = [sp.true if v is True else sp.false if v is False else sp.sympify(v) for v in values]
    found = expression.subs(dict(zip((o.symbol for o in operands), known, strict=True)))
    found = bool(found) if found in (sp.true, sp.false) else found.evalf()
    assert complex(found) == pytest.approx(wanted, rel=1e-9, abs=1e-12, nan_ok=True)


def test_symbols_of_one_node_are_equal_and_others_are_not():
    graph = sd.trace(lambda x, y: x * y + y, 1.0, 2.0)
    product, total = graph.bindings
    x, y = (leaf.node.symbol for leaf in graph.inputs)
    assert product.expr == x * y and total.expr == product.symbol + y
    assert x == graph.inputs[0].node.symbol and hash(x) == hash(graph.inputs[0].node.symbol)
    assert x != y and x != sp.Symbol("x") and str(x) == "x"
    other = sd.trace(lambda x: x + 1, 1.0)
    assert other.inputs[0].node.symbol != x


def test_sympys_functions_work_on_inlined_expressions():
    special = pytest.importorskip("scipy.special", reason="SciPy's functions")
    x = sp.Symbol("x")
    graph = sd.trace(lambda x: special.erf(x) * special.jv(2, x) + special.gamma(x), 1.3)
    assert sp.simplify(graph.expr - (sp.erf(x) * sp.besselj(2, x) + sp.gamma(x))) == 0
    slope = sd.grad(lambda x: special.j0(x) + special.erf(x)).graph(1.3)
    exact = sp.diff(sp.besselj(0, x) + sp.erf(x), x)
    assert float(slope.expr.subs(x, 0.7)) == pytest.approx(float(exact.subs(x, 0.7)))
    assert "J_{1}" in sp.latex(slope.expr)
    shared, reduced = sd.trace(lambda x: np.sin(x) * np.exp(np.sin(x)), 1.0).cse()
    assert shared and reduced


def test_operations_on_arrays_are_told_apart():
    def f(x):
        return np.sum(x[1:] * np.array([1.0, 2.0]), axis=0) + np.sum(np.linalg.det(x[:2, :2]) * x.T[0]) + x.reshape(-1)[3]

    bindings = sd.trace(f, np.arange(6.0).reshape(3, 2)).bindings
    assert all(isinstance(b.expr, sp.Basic) for b in bindings)
    regions = [b.expr.subs({o.symbol: 0 for o in b.operands}) for b in bindings if b.op == "getitem"]
    assert len(regions) == len(set(regions)) == 3


def test_importing_symdiff_and_differentiating_need_no_sympy():
    import subprocess
    import sys

    text = "import sys, symdiff as sd; sd.grad(lambda x: x**3)(2.0); sys.exit('sympy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", text], check=False).returncode == 0


def by_cases(x):
    y = np.where(x > 0.5, x * x, np.where(x > 0.2, x, -x))
    return np.where(y > 0.3, y, 2 * y)


BRANCHES = {
    "if, elif, else": lambda x: x**2 if x > 1 else x if x > 0 else -x * np.sin(x),
    "braces in a condition": by_cases,
    "truths as numbers": lambda x: (x > 0.3) * x + (x <= 0.3) * x**2,
    "no number": lambda x: np.where(np.isnan(x) | np.isinf(x), 0.0, x * x),
    "finite": lambda x: np.where(np.isfinite(x), x * x, 0.0),
    "logic": lambda x: np.where(np.logical_and(x > 0, x < 1) | (x > 3), np.sqrt(x), 1.0),
    "steps": lambda x: np.floor(x) * x + np.clip(x, 0.1, 0.9),
    "not": lambda x: 1.0 if not x > 0 else x,
    "a function with a rule": np.sinc,
}


@pytest.mark.parametrize("name", BRANCHES)
def test_sympys_functions_take_branches(name):
    x, f = sp.Symbol("x"), BRANCHES[name]
    for graph in (sd.trace(f, 0.4), sd.grad(f).graph(0.4)):
        found = graph.expr
        conditions = [c for piece in found.atoms(sp.Piecewise) for _, c in piece.args]
        assert all(isinstance(c, sp.logic.boolalg.Boolean) and not c.has(sp.Piecewise) for c in conditions)
        for at in (0.4, -0.7, 1.7):
            wanted = pytest.approx(float(graph(at)), rel=1e-9)
            assert float(found.subs(x, at)) == wanted and float(found.doit().subs(x, at)) == wanted
            with np.errstate(all="ignore"):
                assert float(sp.lambdify(x, found, "numpy")(at)) == wanted
    f = sd.trace(f, 0.4).expr
    if not f.has(sp.floor):
        assert float(f.diff(x).subs(x, 0.4)) == pytest.approx(float(sd.grad(BRANCHES[name])(0.4)))


def test_sympy_simplifies_branches():
    x = sp.Symbol("x")
    for name in ("if, elif, else", "truths as numbers", "no number", "finite", "not"):
        f = sd.trace(BRANCHES[name], 0.4)
        assert float(sp.simplify(f.expr).subs(x, 0.4)) == pytest.approx(float(f(0.4)))
    huber = sd.trace(lambda x: 0.5 * x * x if abs(x) <= 1 else abs(x) - 0.5, 0.4).expr
    assert len(huber.args) == 2 and huber.subs(x, 2) == 1.5


def test_cells_are_indexed():
    x = sp.IndexedBase("x", shape=(3,))
    found = sd.grad(lambda x: x[0] * x[1] ** 2).graph(np.ones(3)).expr
    assert [sp.expand(e) for e in found] == [x[1] ** 2, 2 * x[0] * x[1], 0]
    y = sp.IndexedBase("y", shape=(2, 2))
    assert sd.trace(lambda y: y[0, 1] - y[1, 0], np.ones((2, 2))).expr.doit() == y[0, 1] - y[1, 0]

"""The reading form: formulas as textbooks print them, read back to the values of the derivatives."""

import importlib
import math
import re
from collections import Counter
from dataclasses import replace
from xml.dom.minidom import parseString

import numpy as np
import optree
import pytest
import scipy.special
import sympy as sp
from inside import (
    Derivation,
    cell_name,
    default_rules,
    exact_multiple,
    formula_of,
    input_names,
    latex_name,
    latex_of,
    note_derivation,
)
from latex_values import page_values
from test_scientific import EXAMPLES

import symdiff as sd
from benchmarks import problems


def right(df, *args):
    """The right sides of a derivative's rows, in LaTeX."""
    body = df.graph(*args).formula.latex.split("\n", 1)[1].rsplit("\n", 1)[0]
    return [row.partition(" &= ")[2] for row in body.split(" \\\\\n")]


def speed(r, a, mu):
    v = math.sqrt(mu * (2 / r - 1 / a))
    return v


def huber(r):
    if abs(r) <= 1:
        return 0.5 * r * r
    elif r > 0:
        return r - 0.5
    else:
        return -r - 0.5


def horner(x, a, b, c, d):
    total = 0.0
    for coefficient in (d, c, b, a):
        total = total * x + coefficient
    return total


def bounded(r, d):
    if abs(r) <= d:
        return 0.5 * r**2
    elif r > 0:
        return d * (r - 0.5 * d)
    else:
        return d * (-r - 0.5 * d)


TABLE = {
    "logistic": (problems.logistic, 0, (0.3,), [r"\frac{e^{- x}}{\left(1 + e^{- x}\right)^{2}}"]),
    "softplus": (lambda x: np.log(1 + np.exp(x)), 0, (0.3,), [r"\frac{e^{x}}{1 + e^{x}}"]),
    "gauss": (
        lambda x, m, s: np.exp(-((x - m) ** 2) / (2 * s**2)),
        (0, 2),
        (0.3, 0.1, 0.5),
        [
            r"- \frac{x - m}{s^{2}} e^{- \frac{\left(x - m\right)^{2}}{2 s^{2}}}",
            r"\frac{\left(x - m\right)^{2}}{s^{3}} e^{- \frac{\left(x - m\right)^{2}}{2 s^{2}}}",
        ],
    ),
    "vis viva": (
        speed,
        (0, 1),
        (1.0, 2.0, 3.0),
        [r"- \frac{\mu}{r^{2} v}", r"\frac{\mu}{2 a^{2} v}", r"\sqrt{\mu \left(\frac{2}{r} - \frac{1}{a}\right)}"],
    ),
    "cubic": (
        problems.cubic,
        0,
        (np.ones(8),),
        [
            "3 x_{5} x_{7}^{2} - x_{5}^{3}",
            "3 x_{4}^{2} x_{6} - x_{6}^{3}",
            "x_{7}^{3} - 3 x_{5}^{2} x_{7}",
            "x_{4}^{3} - 3 x_{4} x_{6}^{2}",
            r"3 x_{3} \left(x_{4}^{2} - x_{6}^{2}\right) + 6 x_{1} x_{4} x_{6}",
            r"3 x_{0} \left(x_{7}^{2} - x_{5}^{2}\right) - 6 x_{2} x_{5} x_{7}",
            r"3 x_{1} \left(x_{4}^{2} - x_{6}^{2}\right) - 6 x_{3} x_{4} x_{6}",
            r"3 x_{2} \left(x_{7}^{2} - x_{5}^{2}\right) + 6 x_{0} x_{5} x_{7}",
        ],
    ),
    "complex polynomial": (
        lambda z: (2 + 3j) * z**5 - 1.5j * z**2 + (0.5 - 0.25j) * z,
        0,
        (1j,),
        [r"5 \left(2 + 3 i\right) z^{4} - 3 i z + \frac{1}{2} - \frac{i}{4}"],
    ),
    "bessel": (lambda x: scipy.special.jv(2, x), 0, (1.0,), [r"\frac{J_{1}\left(x\right) - J_{3}\left(x\right)}{2}"]),
    "bessel 0": (lambda x: scipy.special.j0(x), 0, (1.0,), [r"- J_{1}\left(x\right)"]),
    "erf": (lambda x: scipy.special.erf(x), 0, (1.0,), [r"\frac{2 e^{- x^{2}}}{\sqrt{\pi}}"]),
    "huber": (
        huber,
        0,
        (0.3,),
        [
            r"\begin{cases} r & \text{if}\: \left|{r}\right| \leq 1 \\ 1 & \text{if}\: r > 0 \\ "
            r"-1 & \text{otherwise} \end{cases}"
        ],
    ),
    "where": (
        lambda x: np.where(x < 0, 0.0, np.where(x < 1, x**2, 2 * x - 1)),
        0,
        (0.3,),
        [r"\begin{cases} 0 & \text{if}\: x < 0 \\ 2 x & \text{if}\: x < 1 \\ 2 & \text{otherwise} \end{cases}"],
    ),
    "cases with a bound": (
        bounded,
        (0, 1),
        (0.3, 1.0),
        [
            r"\begin{cases} r & \text{if}\: \left|{r}\right| \leq d \\ d & \text{if}\: r > 0 \\ "
            r"- d & \text{otherwise} \end{cases}",
            r"\begin{cases} 0 & \text{if}\: \left|{r}\right| \leq d \\ r - d & \text{if}\: r > 0 \\ "
            r"- r - d & \text{otherwise} \end{cases}",
        ],
    ),
    "bracket": (lambda x, y: np.maximum(x, y) * x, 0, (0.3, 0.2), [r"x \left[x > y\right] + \max\left(x, y\right)", ""]),
    "normal": (
        lambda x: x * scipy.special.ndtr(x),
        0,
        (0.3,),
        [r"\Phi\left(x\right) + \frac{x e^{- \frac{x^{2}}{2}}}{\sqrt{2 \pi}}"],
    ),
    "digamma": (
        lambda x: scipy.special.gammaln(x) ** 2,
        0,
        (2.3,),
        [r"2 \log \Gamma\left(x\right) \psi\left(x\right)"],
    ),
    "entropy": (lambda x: scipy.special.entr(x), 0, (0.3,), [r"-1 - \log{\left(x \right)}"]),
    "coefficients": (lambda x, a, b, c: a + x * (b + x * c), 0, (0.3, 1.0, 2.0, 3.0), ["b + 2 c x"]),
    "decimal powers": (lambda x: x**0.1 + x ** (1 / 3), 0, (2.0,), [r"\frac{0.1}{x^{0.9}} + \frac{1}{3 x^{2/3}}"]),
    "constants of many digits": (
        lambda T: 1 / (np.exp(0.0143877687750393 / T) - 1),
        0,
        (0.3,),
        [r"\frac{c e^{\frac{c}{T}}}{T^{2} \left(e^{\frac{c}{T}} - 1\right)^{2}}", "0.0143877687750393"],
    ),
    "tanh": (np.tanh, 0, (0.3,), [r"1 - \tanh^{2}{\left(x \right)}"]),
    "cancels": (lambda x: x / (1 + x), 0, (0.3,), [r"\frac{1}{\left(1 + x\right)^{2}}"]),
    "arcsin": (lambda x: np.arcsin(x), 0, (0.3,), [r"\frac{1}{\sqrt{1 - x^{2}}}"]),
    "logaddexp": (
        np.logaddexp,
        (0, 1),
        (0.3, 0.4),
        [r"\frac{e^{x_{1}}}{e^{x_{1}} + e^{x_{2}}}", r"\frac{e^{x_{2}}}{e^{x_{1}} + e^{x_{2}}}"],
    ),
    "degrees": (lambda x: np.sin(np.radians(x)), 0, (0.3,), [r"\frac{\pi \cos{\left(\frac{\pi x}{180} \right)}}{180}"]),
    "horner": (horner, 0, (0.3, 1.0, 2.0, 3.0, 4.0), None),
    "power": (lambda x, y: x**y, (0, 1), (0.3, 0.4), ["y x^{y - 1}", r"x^{y} \log{\left(x \right)}"]),
}


@pytest.mark.parametrize("name", TABLE)
def test_as_in_books(name):
    f, argnums, args, wanted = TABLE[name]
    found = right(sd.grad(f, argnums), *args)
    if wanted is None:
        assert len(found) == 1 and "0 x" not in found[0] and len(found[0]) < 60
    else:
        assert found == wanted


def test_numbers_of_a_sum_meet():
    latex = sd.hessian(lambda x, y: (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2, argnums=(0, 1)).graph(0.1, 0.2).formula.latex
    assert "12 x^{2} + 4 y - 42" in latex and "4 x + 12 y^{2} - 26" in latex


def test_wirtinger():
    latex = sd.wirtinger(lambda z: abs(z) ** 2).graph(1.0 + 2.0j).formula.latex
    assert r"\frac{\partial f}{\partial z} &= \bar{z}" in latex and r"\frac{\partial f}{\partial \bar{z}} &= z" in latex


def newton(a):
    x = a
    while abs(x * x - a) > 1e-9:
        x = 0.5 * (x + a / x)
    return x


def test_paths_are_a_footnote():
    formula = sd.grad(newton).graph(2.0).formula
    assert formula.notes == ("on the path taken at a = 2 (4 rounds)",)
    assert "isfinite" not in formula.latex and r"\frac{d x}{d a}" in formula.latex


def kepler(M, e=0.3):
    E = M
    while abs(E - e * math.sin(E) - M) > 1e-12:
        f = E - e * math.sin(E) - M
        df = 1 - e * math.cos(E)
        E = E - f / df
    return 2 * E


@pytest.mark.parametrize("f", [newton, kepler])
def test_rounds_of_one_kind_are_a_recurrence(f):
    derivative = sd.value_and_grad(f)
    formula = derivative.graph(2.0).formula
    assert len({e.at for e in formula.where}) == 2  # the first round, and all others
    found = page_values(formula.latex, {latex_name(i.name): 2.0 if i.name in "aM" else 0.3 for i in sd.trace(f, 2.0).inputs})
    np.testing.assert_allclose(list(found.values()), derivative(2.0), rtol=1e-12)
    assert len(formula.latex) < 1_200


def test_newtons_recurrence():
    latex = sd.grad(newton).graph(2.0).formula.latex
    assert r"x_{k+1} &= \frac{1}{2} \left(x_{k} + \frac{a}{x_{k}}\right), \quad k = 0, \ldots, 3" in latex
    assert (
        r"x'_{k+1} &= \frac{1}{2} \left(\frac{1}{x_{k}} + x'_{k} \left(1 - \frac{a}{x_{k}^{2}}\right)\right), "
        r"\quad k = 0, \ldots, 3" in latex
    )


def pendulum(x, steps):
    th, om = x[0], x[1]
    for _ in range(steps):
        th, om = th + 0.01 * om, om - 0.01 * np.sin(th)
    return th


def test_states_have_the_users_names_and_long_derivations_fold():
    formula = sd.trace(lambda x: pendulum(x, 12), np.ones(2)).formula
    rows = {e.left.name: str(e.right) for e in formula.where}
    assert rows["om_2"] == "om_1 - 0.01*sin(x[0] + 0.01*x[1])"
    assert "3 more" in formula.latex and "3 more" in formula.unicode and "3 more" in formula.mathml
    assert "more" not in formula.full.latex and len(formula.full.where) == 15


def test_files_of_one_name_keep_the_names_of_their_formulas(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for folder, step in (("pendulum_a", 0.01), ("pendulum_b", 0.02)):
        path = tmp_path / folder / "model.py"
        path.parent.mkdir()
        body = f"for _ in range(12):\n        th, om = th + {step}*om, om - {step}*np.sin(th)\n    return th"
        path.write_text(f"import numpy as np\n\n\ndef pendulum(th, om):\n    {body}\n")
        pendulum = importlib.import_module(f"{folder}.model").pendulum
        names = {e.left.name for e in sd.trace(pendulum, 0.5, 0.1).formula.full.where}
        assert {"om_1", "om_5"} <= names
        assert str(tmp_path) not in sd.grad(pendulum).source(0.5, 0.1, target="python")


def test_loops_over_cells_have_an_index_again():
    latex = sd.value_and_grad(problems.rosenbrock).graph(np.ones(40)).formula.latex
    assert r"\sum_{i=0}^{38} \left(\left(1 - x_{i}\right)^{2} + 100 \left(x_{i+1} - x_{i}^{2}\right)^{2}\right)" in latex
    assert r"- 400 x_{i} \left(x_{i+1} - x_{i}^{2}\right), \quad i = 1, \ldots, 38" in latex and latex.count("&=") == 4


def test_nested_derivatives_have_no_guards():
    latex = sd.grad(sd.grad(lambda x: np.sqrt(x) * np.log(1 + np.exp(x)))).graph(0.3).formula.latex
    assert r"\frac{d f'}{d x}" in latex and "cases" not in latex and "isinf" not in latex


def test_points_are_those_of_the_function_inside():
    cubes = sd.vmap(sd.grad(lambda x: x**3))
    assert "has not been called" in str(cubes.formula) and cubes._repr_latex_() is None
    cubes(np.ones(4))
    assert "3 x^{2}" in cubes._repr_latex_() and "at each of the points" in str(cubes.formula)


def test_names():
    """A subscript, an accent, words upright; what LaTeX reads as its own is escaped."""
    found = {name: latex_name(name) for name in ("x_dot", "alpha2", "semi_major", "r_max", "W[1,0]", "x_0", "a}b")}
    assert found == {
        "x_dot": r"\dot{x}", "alpha2": r"\alpha_{2}", "semi_major": r"\mathrm{semi\_major}", "r_max": r"r_{\mathrm{max}}",
        "W[1,0]": "W_{1,0}", "x_0": "x_{0}", "a}b": r"\mathrm{a\}b}",
    }  # fmt: skip


def test_names_from_outside_are_text_on_pages():
    for name in ("<script>x</script>", "a&b", "&lt;", "$$"):
        page = sd.grad(lambda p, name=name: np.where(p[name] < 1.0, p[name] ** 2, 0.0)).graph({name: 1.0})
        sympy = sd.Graph.from_sympy([sp.Symbol(name)], sp.Symbol(name) ** 2)
        for graph in (page, sympy):
            assert "<script" not in graph._repr_html_() and parseString(graph.formula.mathml)


@pytest.mark.parametrize("value", [math.pi, 2 / math.sqrt(math.pi), math.pi / 180, math.log(10), math.sqrt(2 * math.pi) / 3])
def test_constants_are_told(value):
    assert exact_multiple(value) is not None and exact_multiple(value * (1 + 1e-12)) is None and exact_multiple(0.1) is None


def test_rules_as_text_have_their_braces():
    @sd.primitive
    def bent(x):
        return abs(x) * x * x

    sd.diffrule("bent(x)", x="where(x > 0, 3*x*x, -3*x*x)")
    latex = sd.grad(bent).graph(2.0).formula.latex
    assert r"3 x^{2} & \text{if}\: x > 0" in latex and r"- 3 x^{2} & \text{otherwise}" in latex


def test_a_rule_of_the_users_stands_under_its_function():
    def drag(v):
        return 0.3 * v * v

    sd.diffrule(drag)(lambda out, v: 2 * out / v)
    assert right(sd.grad(lambda v: drag(v) + v), 0.3) == [r"\frac{2 \operatorname{drag}\left(v\right)}{v} + 1"]


def named_alike(factor):
    def drag(v):
        return factor * v * v

    sd.diffrule(drag)(lambda out, v: 2 * factor * v)
    return drag


def test_functions_of_one_name_have_their_own_rules():
    first, second = named_alike(0.5), named_alike(2.0)
    assert right(sd.grad(lambda v: first(v) + second(v) ** 2), 0.3) == [r"v + 8 v \operatorname{drag}\left(v\right)"]


def test_large_derivations_are_shown_in_time():
    graph = sd.grad(lambda x: pendulum(x, 1000), loops="unroll").graph(np.ones(2))
    assert len(graph.bindings) > 10_000 and len(graph.formula.latex) < 20_000


# -- every example: nothing that nobody prints, and the derivative's values


def differentiable(args):
    return tuple(i for i, arg in enumerate(args) if not isinstance(arg, (int, str)))


def read(f, args, kind="jacobian", argnums=None):
    """The formula of a derivative, without the machine's derivative."""
    graph = sd.trace(f, *args)
    wrt = [k for k, leaf in enumerate(graph.inputs) if argnums is None or leaf.path in argnums]
    derived = replace(graph, notes=dict(graph.notes))
    note_derivation(derived, Derivation(kind, graph, tuple(wrt)))
    return formula_of(derived)


def rule_example(rule):
    """A function of one row of the tables, and a point of its interval; None where it is not for the calling."""
    name, _, item = rule.name.partition("[")
    function = None if name.startswith("_") else getattr(importlib.import_module(rule.module), name, None)
    if function is None or any(p is None for p in rule.partials) or rule.module.startswith("symdiff"):
        return None
    parameters = ", ".join(rule.parameters)
    f = eval(f"lambda {parameters}: function({parameters}){'[' + item if item else ''}", {"function": function})
    return f, tuple(float(low + 0.37 * (high - low)) for low, high in rule.interval)


def problem_examples():
    yield from (
        ("cubic", problems.cubic, (np.linspace(0.5, 1.2, 8),)),
        ("factored", problems.factored, (np.linspace(0.5, 1.2, 4),)),
        ("f10", problems.f10, (np.linspace(0.5, 1.2, 10),)),
        ("rosenbrock", problems.rosenbrock, (np.linspace(0.5, 1.2, 20),)),
        ("chebyshev", problems.chebyshev, (0.3,)),
        ("product", problems.product, (np.linspace(0.5, 1.2, 7),)),
        ("logistic", problems.logistic, (0.3,)),
        ("branches", problems.branches, (0.1, 0.2, 0.3, 0.4)),
        ("sine chain", problems.sine_chain, (0.3,)),
        ("real through complex", problems.real_through_complex, (0.3,)),
        ("heart", problems.heart_real, (np.linspace(0.5, 1.2, 8),)),
    )


CASES = {f"scientific {name}": (f, args) for name, (f, args) in EXAMPLES.items()}
CASES |= {f"problem {name}": (f, args) for name, f, args in problem_examples()}
RULES = {"{}.{}/{}".format(*r.key): case for r in default_rules().values() if (case := rule_example(r)) is not None}
UNREADABLE = (
    r"name{kelvin",
    "{x}^{",
    r"\binom",
    r"\middle",
    "H^{(",
    "P_",
    "T_{",
    "U_{",
    "L_{",
    "C_{",
    r"\zeta",
    r"\operatorname{B}",
    r"\operatorname{E}_",
)


NEVER = ("isfinite", "isinf", "isnan", "matmul(", "transpose(", "conj(conj", "array{", r"\overline{\overline", r"name{edge}")
SHORT = 18  # characters of a piece in LaTeX; with its signs and spaces that is half of what a reader sees
LONGEST = 900  # characters of a line beyond which its pieces are named though they stand once


def check_patterns(formula, name):
    for text in (formula.latex, formula.unicode, formula.mathml):
        assert not any(pattern in text for pattern in NEVER), (name, text)
    for e in (*formula.equations, *formula.where):
        for factors in (m.args for m in e.right.atoms(type(e.right * 2)) if m.is_Mul) if hasattr(e.right, "atoms") else ():
            symbols = [a for a in factors if a.is_Symbol]
            assert len(set(symbols)) == len(symbols), (name, "a variable twice", factors)
            assert not any(a.is_Number for a in factors[1:]), (name, "a number after symbols", factors)
    bare = re.sub(
        r"\\begin\{cases\}|\\cdot 10\^|\\(leq|geq|neq|bmod|wedge|vee|quad \\text\{\d+)|\\text\{.*?\}", "", formula.latex
    )
    assert not re.search(r"[a-z}] (\\cdot )?\d", bare), (name, formula.latex)
    tree = parseString(formula.mathml)
    assert not tree.getElementsByTagName("mfenced") and not tree.getElementsByTagName("menclose"), name


def check_pieces(formula, name):
    """Each helper stands twice, or its line would be too long; none is as short as what it stands for."""
    uses = Counter(s for e in (*formula.equations, *formula.where) for s in sp.preorder_traversal(e.right) if s.is_Symbol)
    uses.update(s for e in formula.equations for s in e.left.atoms(sp.Symbol))
    recurrent = {e.left.name.partition("[")[0] for e in formula.where if e.at}
    for e in (e for e in formula.where if e.left.name.partition("[")[0] not in recurrent):
        text = latex_of(e.right)
        lines = [latex_of(other.right) for other in (*formula.equations, *formula.where) if other.right.has(e.left)]
        is_long = len(text) + sum(map(len, lines)) > LONGEST
        assert len(text) >= SHORT and (uses[e.left] > 1 or is_long), (name, e.left, uses[e.left], text)


def names_of(graph, args):
    found = {}
    leaves = [leaf for leaf in optree.tree_leaves(args) if not isinstance(leaf, (int, str))]
    for leaf, name, value in zip(graph.inputs, input_names(graph.inputs), leaves, strict=True):
        cells = np.asarray(value)
        if leaf.shape == ():
            found[latex_name(name)] = complex(value) if cells.dtype.kind == "c" else float(value)
        else:
            found |= {latex_name(cell_name(name, leaf.shape, k)): c for k, c in enumerate(cells.ravel())}
    return found


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
@pytest.mark.parametrize("name", CASES)
def test_examples_are_readable(name, kind):
    f, args = CASES[name]
    formula = read(f, args, kind)
    check_patterns(formula, name)
    if not formula.more and not formula.others:
        check_pieces(formula, name)
    assert len(formula.latex) < 25_000


VALUED = [name for k, name in enumerate(CASES) if k % 4 == 0 or name.startswith("problem")]


def second_derivatives(f, args):
    """Rows of upper triangles of the derivatives of derivatives, by forward-over-reverse of a function of one vector."""
    places = differentiable(args)
    leaves, spec = optree.tree_flatten([args[k] for k in places])
    ends = np.cumsum([np.size(leaf) for leaf in leaves])

    def flat(v):
        pieces = [v[end - 1] if np.ndim(leaf) == 0 else v[end - np.size(leaf) : end].reshape(np.shape(leaf))
                  for leaf, end in zip(leaves, ends, strict=True)]  # fmt: skip
        own = dict(zip(places, optree.tree_unflatten(spec, pieces), strict=True))
        return optree.tree_leaves(f(*(own.get(k, arg) for k, arg in enumerate(args))))

    point = np.concatenate([np.ravel(np.asarray(leaf, float)) for leaf in leaves])
    found = optree.tree_leaves(sd.jacobian(sd.jacobian(flat))(point))
    return [cell[np.triu_indices(len(point))] for leaf in found for cell in np.reshape(leaf, (-1, len(point), len(point)))]


@pytest.mark.parametrize("kind", ["jacobian", "hessian"])
@pytest.mark.parametrize("name", VALUED)
def test_examples_have_the_derivatives_values(name, kind):
    f, args = CASES[name]
    formula = read(f, args, kind)
    if np.iscomplexobj(np.concatenate([np.ravel(x) for x in optree.tree_leaves(args) if not isinstance(x, str)])):
        pytest.skip("of complex numbers, which have two derivatives")
    if any(text in formula.latex for text in (r"\nabla", r"\mathbf", "matrix", r"\top")) or formula.others > 40:
        pytest.skip("in words of matrices, which test_matrix_formulas.py computes, or too long to be read back in time")
    wanted = sd.jacobian(f, argnums=differentiable(args))(*args) if kind == "jacobian" else second_derivatives(f, args)
    assert_values(formula, names_of(sd.trace(f, *args), args), wanted)


def assert_values(formula, names, wanted):
    found = sorted(v for v in page_values(formula.full.latex, names).values() if v)
    flat = sorted(v for leaf in optree.tree_leaves(wanted) for v in np.ravel(leaf) if v)
    scale = max(map(abs, flat), default=1)
    found, flat = ([v for v in values if abs(v) > 1e-10 * scale] for values in (found, flat))
    np.testing.assert_allclose(found, flat, rtol=1e-6, atol=1e-9 * scale)


@pytest.mark.parametrize("name", RULES)
def test_rules_are_readable_and_have_their_values(name):
    f, args = RULES[name]
    derivative = sd.jacobian(f, argnums=tuple(range(len(args))))
    formula = derivative.graph(*args).formula
    for found in (formula, read(f, args, "hessian")):
        check_patterns(found, name)
        check_pieces(found.full, name)
    if not any(text in formula.latex for text in UNREADABLE):
        assert_values(formula, names_of(sd.trace(f, *args), args), derivative(*args))


@pytest.mark.parametrize("name", RULES)
def test_expressions_of_rules_functions_come_back(name):
    f, args = RULES[name]
    graph = sd.trace(f, *args)
    again = sd.Graph.from_sympy(graph.expr)
    given = {leaf.name: arg for leaf, arg in zip(graph.inputs, args, strict=True)}
    np.testing.assert_allclose(again(*(given[leaf.name] for leaf in again.inputs)), graph(*args), rtol=1e-8)

"""What people see: formulas, printed graphs, programs and plans, sources and tracebacks of generated code."""

import inspect
import traceback

import numpy as np
import pytest
import sympy as sp
from inside import kernel_of, latex_name, mathml_of, plan_of, schedule, source_of, unicode_name

import symdiff as sd


def bump(x, y):
    return y * np.exp(-(x * x))


def test_print_graph():
    first = inspect.getsourcelines(bump)[1] + 1
    place = f"test_display.py:{first}"
    assert str(sd.trace(bump, 1.0, 2.0)) == "\n".join(
        [
            "bump(x: f64, y: f64) -> f          4 bindings",
            f"  v0 = mul x x                       f64      {place}",
            f"  v1 = neg v0                        f64      {place}",
            f"  v2 = exp v1                        f64      {place}",
            f"  v3 = mul y v2                      f64      {place}   = f",
        ]
    )


def test_print_program_and_plan():
    place = f"test_display.py:{inspect.getsourcelines(bump)[1] + 1}"
    program = sd.value_and_grad(bump, (0, 1)).program(1.0, 2.0)
    title = "bump_value_and_grad(x: f64, y: f64) -> f, df_dx, df_dy          6 ops, 7 before sharing"
    assert str(program) == "\n".join(
        [
            title,
            "  v0 = mul x x",
            "  v1 = neg v0",
            f"  v2 = exp v1                       {place}  = df_dy",
            "  v3 = mul y v2                                         = f",
            "  v4 = mul x v3",
            "  v5 = mul v4 -2.0                                      = df_dx",
        ]
    )
    assert str(schedule(program)) == "\n".join(
        [
            f"{title}, work arrays: 1 of d",
            "  v0 = mul x x                                                   slot d0",
            "  v1 = neg v0                                                    slot d0",
            f"  v2 = exp v1                       {place}  = df_dy  slot output",
            "  v3 = mul y v2                                         = f      slot output",
            "  v4 = mul x v3                                                  slot d0",
            "  v5 = mul v4 -2.0                                      = df_dx  slot output",
        ]
    )


def test_latex():
    gradient = sd.grad(bump)
    assert gradient._repr_latex_() is None and "has not been called" in str(gradient.formula)
    gradient(1.0, 2.0)
    formula = "\\frac{\\partial \\mathrm{bump}}{\\partial x} &= - 2 x y e^{- x^{2}}"
    assert gradient._repr_latex_() == f"$$\\begin{{aligned}}\n{formula}\n\\end{{aligned}}$$"
    value = "$$\\begin{aligned}\n\\mathrm{bump} &= y e^{- x^{2}}\n\\end{aligned}$$"
    assert sd.trace(bump, 1.0, 2.0)._repr_latex_() == value


def test_latex_braces_balance():
    for function, args in ((sd.hessian(lambda x: np.exp(x[0]) / x[1]), (np.ones(2),)), (sd.wirtinger(np.abs), (1j,))):
        function(*args)
        latex = function._repr_latex_()
        assert latex.count("{") == latex.count("}") and latex.count("\\left") == latex.count("\\right")
        assert "\\\\" in latex


def test_pages_need_no_network():
    gradient = sd.grad(bump)
    assert "has not been called" in gradient._repr_html_()
    gradient(1.0, 2.0)
    page = gradient._repr_html_()
    assert r"$$\begin{aligned}" in page and page.count("<details>") == 3 and "def bump_grad(" in page and "6 operations" in page
    assert "src=" not in page and "<script" not in page and "href=" not in page
    assert "$$" in sd.trace(bump, 1.0, 2.0)._repr_html_()


def deep(x):
    for _ in range(60):
        x = x * x + x
    return x


def test_large_formulas_stay_linear():
    graph = sd.grad(deep).graph(0.1)
    assert len(graph.formula.full.latex) < 30_000
    with pytest.raises(sd.TraceError, match="nodes"):
        _ = graph.expr

    def long(x):
        for _ in range(5000):
            x = np.sin(x)
        return x

    def varied(x):
        for k in range(5000):
            x = np.cos(x) if k % 3 else np.sin(x)
        return x

    text = str(sd.grad(varied, loops="unroll").graph(0.1).formula)
    assert "more" in text and len(text) < 30_000
    assert "xₖ₊₁ = sin(xₖ)   (k = 0, ..., 4999)" in str(sd.grad(long, loops="unroll").graph(0.1).formula)


@pytest.mark.parametrize("backend", ["python", "numpy"])
def test_generated_functions_have_source(backend):
    program = sd.grad(bump).program(1.0, 2.0)
    kernel = kernel_of(plan_of(program), backend, program.name)
    text = inspect.getsource(kernel)
    whole = source_of(plan_of(program), backend, name=program.name, style="runtime").text
    assert text.startswith("def bump_grad(x") and text in whole and "exp(" in whole


def test_tracebacks_show_the_line():
    @sd.primitive
    def fragile(x):
        raise RuntimeError("broken inside")

    sd.diffrule(fragile)(lambda out, x: x)
    with pytest.raises(RuntimeError, match="broken inside") as info:
        sd.value_and_grad(lambda x: fragile(x) * 2.0)(1.0)
    lines = [f.line for f in traceback.extract_tb(info.value.__traceback__) if f.filename.startswith("<symdiff ")]
    assert any("call_fragile(x)" in line for line in lines)


def test_costs_print_as_a_table():
    text = str(sd.cost(bump, 1.0, 2.0))
    assert "value" in text and "ratio" in text and "exp" in text


def test_latex_names():
    """Indices and slopes as in books, names of words as they are spelled, 1/x without a factor 1."""
    rate = sd.grad(lambda learning_rate, A: learning_rate**2 / A[1, 0], argnums=(0, 1))
    rate(2.0, np.ones((2, 2)))
    latex = rate._repr_latex_()
    assert r"\frac{\partial f}{\partial \mathrm{learning\_rate}} &= \frac{2\, \mathrm{learning\_rate}}{A_{1,0}}" in latex
    assert r"\frac{\partial f}{\partial A_{1,0}} &= - \frac{\mathrm{learning\_rate}^{2}}{A_{1,0}^{2}}" in latex
    second = sd.hessian(lambda x: x[0] ** 2 / x[1])
    second(np.ones(2))
    assert r"\frac{\partial^{2} f}{\partial x_{1}^{2}} &= \frac{2 x_{0}^{2}}{x_{1}^{3}}" in second._repr_latex_()
    both = sd.hessian(lambda x, w_dot: x**2 * w_dot**3, argnums=(0, 1))
    both(2.0, 3.0)
    assert r"\frac{\partial^{2} f}{\partial x \partial \dot{w}} &= 6 \dot{w}^{2} x" in both._repr_latex_()


def summed(v):
    w = v * v
    return np.sum(w)


def test_what_an_unrolled_sum_becomes_bears_the_line_of_the_sum():
    def f(x):
        return summed(x * 2)

    bindings = sd.value_and_grad(f, scalarize=True).graph(np.ones(3)).bindings
    line = summed.__code__.co_firstlineno + 2
    assert {b.origin for b in bindings if b.op == "add" and b.primal} == {f"test_display.py:{line}"}


# -- names of steps beside the user's own


def sorted_products(a, b):
    s = np.sort(a * np.cumsum(b))
    t = np.cumsum(np.sort(b) * s)
    return np.sum(np.sort(t * s) * np.cumsum(s * a)) + np.sum(s) ** 2


def picked_cells(a, b):
    return np.sum(np.linalg.solve(np.array([[a[0], 1.0], [b[1], 9.0]]), np.cumsum(a * b)[:2]) * np.sort(b)[:2])


def mixed_number(a, b):
    return np.sum(np.sort(a * np.ones(3)) * np.cumsum(b)) * a + np.sum(np.cumsum(np.sort(b) * a))


NAMED = [("v", "v0"), ("v", "q"), ("v0", "v1"), ("u", "w"), ("t", "s"), ("x1", "x"), ("c", "C"), ("u_1", "v_2"), ("α", "alpha")]
PROGRAMS = {
    "vectors": (sorted_products, (np.arange(1.0, 4.0), np.arange(3.0, 6.0))),
    "cells": (picked_cells, (np.arange(1.0, 4.0), np.arange(3.0, 6.0))),
    "number": (mixed_number, (2.0, np.arange(3.0, 6.0))),
}


@pytest.mark.parametrize("names", NAMED, ids=",".join)
@pytest.mark.parametrize("program", PROGRAMS)
def test_steps_are_shown_as_nothing_of_the_users(names, program):
    function, args = PROGRAMS[program]
    space = {"f": function}
    exec(f"def f_of({', '.join(names)}): return f({', '.join(names)})", space)  # arguments of these names
    graph = sd.grad(space["f_of"], (0, 1)).graph(*args)
    formula = graph.formula.full
    inputs = [(leaf.name, leaf.shape) for leaf in graph.inputs]
    own = [*names, *(f"{name}[{k}]" for name, shape in inputs for k in range(5 if shape else 0))]
    assert formula.where
    for door in (latex_name, unicode_name, lambda name: mathml_of(latex_name(name))):
        steps = [door(e.left.name) for e in (*formula.where, *formula.equations) if isinstance(e.left, sp.Symbol)]
        assert len(set(steps)) == len(steps) and not {door(name) for name in own} & set(steps)
    for text, name in ((formula.latex, latex_name), (formula.unicode, unicode_name)):
        assert all(name(e.left.name) in text for e in formula.where)
    bound = [line.split()[0] for line in str(graph).splitlines()[1:]]
    assert len(set(bound)) == len(bound) and not set(bound) & set(names)


def test_steps_of_programs_are_told_from_arguments():
    square, cube = (sd.trace(eval(f"lambda v0: {text}"), 2.0) for text in ("(v0*v0)*v0", "(v0*v0)*(v0*v0)"))
    square.name = cube.name
    assert square.digest() != cube.digest()
    program = str(sd.grad(lambda v0: np.sin(v0) * v0).program(2.0))
    assert "v_0 = " in program and "v0 = " not in program


WRITTEN = {
    "equal steps once": (lambda x: np.sum(np.sort(x[::-1] - 1) * np.sort(x[::-1] - 1)), "sort(x[::-1] - 1", 1),
    "constants": (lambda x: np.sum(np.cumsum(0.5 * np.cos(x) * 2) * np.sort(x)), "cumsum(cos(x), axis=0)", 1),
    "an axis": (lambda x: (lambda s: np.sum(np.cumsum(s, 0) - np.cumsum(s, 1)))(np.sort(np.outer(x, x))), "v, axis=1)", 1),
    "a shape": (lambda x: np.sum(np.broadcast_to(np.cumsum(x)[0], (7,)) * 1.0) + np.sum(np.sort(x)), "shape=(7,)", 1),
    "arrays of constants": (
        lambda x: np.sum(np.sort(x) * np.array([1.0, 2.0, 4.0]) - np.sort(x) * np.array([1.0, 2.0, 5.0])),
        "array of constants",
        2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_programs_of_arrays_tell_what_differs(case):
    function, text, times = WRITTEN[case]
    assert str(sd.trace(function, np.arange(1.0, 4.0)).formula).count(text) == times


LONG = np.linspace(-1.0, 1.0, 80)


def median(x):
    return np.median(x)


def medians(x):
    return np.sum(np.median(np.reshape(x, (2, 2)), axis=1) ** 2)


def fitted(x):
    return np.linalg.lstsq(np.reshape(np.linspace(1.12, x[0], 24), (6, 4)) + 4, np.ones(6), rcond=None)[0].mean()


def fitted2(x):
    return np.sum(np.linalg.lstsq(np.stack([np.ones(4), x], axis=1), np.arange(4.0), rcond=None)[0])


def masked(x):
    y = x[0] * np.linspace(0, 1, 4) + 1.0
    np.putmask(y, y < 1.414, x[1] / (0.8 + y[2] ** 2))
    return np.sum(np.sin(LONG * x[2]) * y[2]) + np.sum(y)


def padded(x):
    y = np.pad([5, 1, 3, 0.7, x[2]], 1)
    y[0] = 5
    return np.sum(y)


def padded2(x):
    y = np.pad(x * 2, (1, 2))
    y[1:3] += x[0]
    return np.sum(y**2)


def cell(x):
    few = np.pad(np.full(2, x[0]), 1)
    if x[0] > 5:
        return x[0]
    return x[0] + (complex(few[3], 1.31) ** 2).real * x[1]


def norm(x):
    y = np.median(np.reshape(np.linspace(1.19, x[0], 12), (4, 3)), axis=1)
    return [np.linalg.norm(y), 0.5][int(x[0] > 5)]


def prefix(x):
    q, v = 1.0, 0.0
    for _ in range(6):
        q *= x[2]
        v += q
    return v + x.mean()


def corner(x):
    m = np.reshape(x, (2, 2))
    return m[0, -2] + 0.5 + np.sum(m)


def where_sum(x):
    m = x > 0.35
    return np.sum(np.where(m, np.sum(np.where(m, x, 0.0)) * x, x**2) * LONG[:4])


@pytest.mark.parametrize("loops", [None, "keep"])
@pytest.mark.parametrize(
    "f",
    [median, medians, fitted, fitted2, masked, padded, padded2, cell, norm, prefix, corner, where_sum],
)
def test_what_is_differentiated_is_shown(f, loops):
    df = sd.value_and_grad(f, loops=loops) if loops else sd.value_and_grad(f)
    df(np.array([0.3, 0.4, 0.6, 0.2]))
    assert "False" not in str(df.formula)
    assert df.formula._repr_latex_().startswith("$")

"""What people see: formulas, printed graphs, programs and plans, sources and tracebacks of generated code."""

import inspect
import traceback

import numpy as np
import pytest

import symdiff as sd
from symdiff.display import graph_latex, graph_text
from symdiff.pipeline import plan_of


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
    program = sd.value_and_grad(bump, (0, 1)).program(1.0, 2.0)
    text = str(program)
    assert text.splitlines()[0] == "bump_value_and_grad(x: f64, y: f64) -> f, df_dx, df_dy          6 ops, 7 before sharing"
    assert [line.split("=")[1].split("test_display")[0].strip() for line in text.splitlines()[1:]] == [
        "mul x x", "neg v0", "exp v1", "mul y v2", "mul x v3", "mul v4 -2.0",
    ]  # fmt: skip
    assert text.count("= f\n") == 1 and text.endswith("= df_dx") and "= df_dy" in text
    plan = str(plan_of(program, "batch", (0, 0), (0, 0, 0)))
    assert "slot" in plan and len(plan.splitlines()) == len(text.splitlines())


def test_latex():
    gradient = sd.grad(bump)
    assert gradient._repr_latex_() is None
    gradient(1.0, 2.0)
    latex = gradient._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}") and "e^{" in latex and "operations" in latex
    assert "\\frac{\\partial f}{\\partial x}" in latex
    assert "$$" in sd.trace(bump, 1.0, 2.0)._repr_latex_()


def deep(x):
    for _ in range(60):
        x = x * x + x
    return x


def test_large_formulas_stay_linear():
    graph = sd.grad(deep).graph(0.1)
    assert len(graph_text(graph)) < 20_000 and len(graph_latex(graph)) < 30_000
    with pytest.raises(sd.TraceError, match="nodes"):
        _ = graph.expr

    def long(x):
        for _ in range(5000):
            x = np.sin(x)
        return x

    text = graph_text(sd.grad(long).graph(0.1))
    assert "more steps" in text and len(text) < 30_000


@pytest.mark.parametrize("backend", ["python", "numpy"])
def test_generated_functions_have_source(backend):
    compiled = sd.grad(bump).compile(1.0, 2.0, backend=backend)
    compiled(1.0, 2.0) if callable(compiled) else compiled.call([1.0, 2.0], None)
    kernel = next(v for v in vars(compiled).values() if inspect.isfunction(v))
    assert "def bump" in inspect.getsource(kernel)


def test_tracebacks_show_the_line():
    @sd.primitive
    def fragile(x):
        raise RuntimeError("broken inside")

    sd.diffrule(fragile)(lambda out, x: x)
    with pytest.raises(RuntimeError, match="broken inside") as info:
        sd.value_and_grad(lambda x: fragile(x) * 2.0)(1.0)
    shown = "".join(traceback.format_exception(info.value))
    assert "call_fragile(" in shown and "<symdiff" in shown


def test_costs_print_as_a_table():
    text = str(sd.cost(bump, 1.0, 2.0))
    assert "value" in text and "ratio" in text and "exp" in text

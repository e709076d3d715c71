"""What notebooks and terminals show of graphs and derivatives: the reading form, behind it program, source and cost.

Assumes nothing of the network: a page is HTML with MathML and folded parts. Guarantees that nothing is worked out before it is
shown, and that large programs are left out of pages with a line that says so.
"""

import html
from dataclasses import replace
from typing import Any

from symdiff.api import functions
from symdiff.errors import SymdiffError
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.reading import formula_of
from symdiff.ir import graph as graphs
from symdiff.ir.graph import Graph
from symdiff.lowering.arrays.fusing import Fused
from symdiff.pipeline import DEFAULT, Options, plan_of, program_of, source_of
from symdiff.vocabulary.literals import printable_lines

SHOWN = 2_000  # bindings of a graph beyond which its page has no program
LINES = 60  # lines of a program or a source that a page has


@graphs.read.written
def graph_formula(graph: Graph) -> Formula:
    """The reading form of a graph."""
    return formula_of(graph)


@functions.read.written
def function_formula(function: Any) -> Formula:
    """The reading form of what a derivative traced last; before that, how to see one."""
    graph = _last_graph(function)
    if graph is None:
        return Formula((), (), (_advice(function),))
    found = formula_of(graph)
    return found if not hasattr(function, "inner") else replace(found, notes=(*found.notes, "at each of the points"))


def _last_graph(function: Any) -> Graph | None:
    return getattr(function, "inner", function).traced_last  # type: ignore[no-any-return]


def _advice(function: Any) -> str:
    return f"{function.__name__} has not been called; call it, or .graph(...) with example arguments, to see its formula"


@graphs.read_page.written
def graph_page(graph: Graph) -> str:
    """A graph as HTML: the reading form, and folded its bindings."""
    return _page(formula_of(graph), [(f"bindings: {len(graph.bindings)}", str(graph))] if len(graph.bindings) <= SHOWN else [])


@functions.read_page.written
def function_page(function: Any) -> str:
    """A derivative as HTML: the reading form, and folded its program, source and cost."""
    graph = _last_graph(function)
    if graph is None:
        return f"<p>{_escaped(_advice(function))}</p>"
    options = getattr(function, "inner", function).options
    return _page(function_formula(function), _program_parts(graph, options))


def _program_parts(graph: Graph, options: Options = DEFAULT) -> list[tuple[str, str]]:
    """Titles and texts of the program and its source."""
    if len(graph.bindings) > SHOWN:
        return [(f"program of {len(graph.bindings)} bindings", "It is long; .program(...) and .source(...) give it.")]
    program = program_of(graph, options)
    parts = [(f"program, {program.operations()} operations", str(program.program if isinstance(program, Fused) else program))]
    kinds = ", ".join(f"{count} {kind}" for kind, count in program.by_kind().items())
    try:
        parts.append(("source", source_of(plan_of(program), "numpy", name=_file_name(graph), style="export").text))
    except SymdiffError as error:
        parts.append(("source", str(error)))
    return [*parts, ("cost", kinds or "no operations")]


def _page(formula: Formula, parts: list[tuple[str, str]]) -> str:
    folded = "".join(
        f"<details><summary>{_escaped(title)}</summary><pre>{_escaped(_first_lines(text))}</pre></details>"
        for title, text in parts
    )
    return f'<div class="symdiff">{html.escape(formula.latex, quote=False)}{folded}</div>'


def _file_name(graph: Graph) -> str:
    """The name of the function in the source of a graph."""
    return graph.name if graph.name.isidentifier() else "f"


def _first_lines(text: str) -> str:
    lines = text.splitlines()
    return "\n".join([*lines[:LINES], f"... {len(lines) - LINES} more lines"] if len(lines) > LINES else lines)


def _escaped(text: str) -> str:
    return html.escape("\n".join(printable_lines(text)))

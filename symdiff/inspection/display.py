"""Formulas and costs for people: LaTeX in notebooks, text in terminals.

Assumes scalar Graphs. Guarantees output linear in the size of the Program: small formulas inlined, larger ones as named
shared steps, very large ones cut with a line that says so.
"""

import re
from typing import Any

import numpy as np
import sympy as sp
from sympy.printing.latex import greek_letters_set

from symdiff.api import functions
from symdiff.codegen.expressions import printed_operands
from symdiff.inspection.expressions import build_sympy, latex, number, sympy_cell_name
from symdiff.ir import graph as graphs
from symdiff.ir.graph import Graph
from symdiff.lowering.arrays.fusing import Fused
from symdiff.lowering.program import Program, is_leaf
from symdiff.pipeline import DEFAULT, Options, program_of, refuse_loops
from symdiff.vocabulary.heads import key_literal
from symdiff.vocabulary.literals import printable
from symdiff.vocabulary.ops import OPS

SHOWN = 200  # steps shown of a larger one
_WORD = re.compile(r"\w+")
_GREEK = re.compile(r"\\([A-Za-z]+)(?:_\w+)?")
# What LaTeX, or the page around it, reads as its own.
_SPELLED = {c: rf"\{c}" for c in "{}$&#_%"} | {
    "\\": r"\backslash ", "^": r"\hat{}", "~": r"\tilde{}", "<": r"\lt ", ">": r"\gt ", "`": "'",
}  # fmt: skip
_CELL = re.compile(r"([A-Za-z]+)(\d+(?:_\d+)+)")


def shown_cell_steps(program: Program, inline: bool) -> tuple[list[tuple[sp.Symbol, Any]], list[tuple[str, Any]]]:
    """Named shared steps and the outputs' cells as SymPy expressions; `inline` substitutes values used once."""
    uses = [0] * len(program.nodes)
    for node in program.nodes:
        for operand in node.operands:
            uses[operand] += 1
    exprs: list[Any] = []
    depth: list[int] = []
    named: list[tuple[sp.Symbol, Any]] = []
    for position, node in enumerate(program.nodes):
        deep = 0
        if node.op == "input":
            place, cell = node.params
            leaf = program.inputs[place]
            expr: Any = sp.Symbol(leaf.name if leaf.shape == () else sympy_cell_name(leaf.name, leaf.shape, cell))
        elif node.op == "const":
            expr = number(node.params)
        else:
            expr = _built(node.op, [exprs[o] for o in printed_operands(program, position)])
            deep = 1 + max(depth[o] for o in node.operands)
            if OPS[node.op].cost and (not inline or uses[position] > 1 or deep > 12):
                symbol = sp.Symbol(f"v{len(named)}")
                named.append((symbol, expr))
                expr, deep = symbol, 0
        exprs.append(expr)
        depth.append(deep)
    outputs = []
    for output in program.outputs:
        for k, cell in enumerate(output.cells):
            place = ", ".join(str(int(i)) for i in np.unravel_index(k, output.shape))
            outputs.append((output.name if output.shape == () else f"{output.name}[{place}]", exprs[cell]))
    return named, outputs


def _built(op: str, args: list[Any]) -> Any:
    """One operation; 1/x is a power, since a product would be written 1*1/x."""
    return sp.Pow(args[1], -1, evaluate=False) if op == "div" and args[0] == 1 else build_sympy(op, args)


def shown_array_steps(program: Program) -> tuple[list[tuple[sp.Symbol, Any]], list[tuple[str, Any]]]:
    """Like `shown_cell_steps`, for whole arrays: products of matrices are functions, regions are written x[1:]."""
    uses = [0] * len(program.nodes)
    for node in program.nodes:
        for operand in node.operands:
            uses[operand] += 1
    exprs: list[Any] = []
    depth: list[int] = []
    named: list[tuple[sp.Symbol, Any]] = []
    ends = {o.value for o in program.outputs}
    for position, node in enumerate(program.nodes):
        args = [exprs[o] for o in node.operands]
        deep = 1 + max((depth[o] for o in node.operands), default=-1)
        if node.op == "input":
            expr: Any = sp.Symbol(program.inputs[node.params[0]].name)
        elif node.op == "const":
            expr = number(node.params) if node.shape == () else sp.Symbol(f"array{list(node.shape)}")
        elif node.op in ("reshape", "broadcast_to"):
            expr = args[0]  # the same cells
        elif node.op == "getitem" and args[0].is_Symbol:
            expr = sp.Symbol(f"{args[0]}[{key_literal(node.params['key'], program.nodes[node.operands[0]].shape)}]")
        elif node.op in OPS:
            expr = _built(node.op, args)
        else:
            expr = sp.Function(node.op)(*args)
        if not is_leaf(node) and position not in ends and (uses[position] > 1 or deep > 6) and not expr.is_Symbol:
            symbol = sp.Symbol(f"v{len(named)}")
            named.append((symbol, expr))
            expr, deep = symbol, 0
        exprs.append(expr)
        depth.append(deep)
    return named, [(o.name, exprs[o.value]) for o in program.outputs]


def shown_steps(graph: Graph, options: Options) -> tuple[list[tuple[sp.Symbol, Any]], list[tuple[str, Any]]]:
    """Named steps and outputs of a graph in either regime."""
    program = program_of(graph, options)
    if isinstance(program, Program):
        refuse_loops(program, "a formula")
    return shown_array_steps(program.program) if isinstance(program, Fused) else shown_cell_steps(program, inline=True)


@graphs.shown.written
def graph_latex(graph: Graph, options: Options = DEFAULT) -> str:
    """The formula of a Graph as display LaTeX: one aligned equation a line."""
    named, outputs = shown_steps(graph, options)
    lines = [rf"{_latex(symbol)} &= {_latex(expr)}" for symbol, expr in named[:SHOWN]]
    if len(named) > SHOWN:
        lines.append(rf"&\;\;\vdots \quad \text{{{len(named) - SHOWN} more steps}}")
    for name, expr in outputs[:SHOWN]:
        lines.append(rf"{_latex_name(name)} &= {_latex(expr)}")
    if len(outputs) > SHOWN:
        lines.append(rf"&\;\;\vdots \quad \text{{{len(outputs) - SHOWN} more cells}}")
    return "$$\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}$$"


def graph_text(graph: Graph, options: Options = DEFAULT) -> str:
    """The formula of a Graph as plain text: shared steps, then the outputs."""
    named, outputs = shown_steps(graph, options)
    lines = [f"{symbol} = {sp.sstr(expr, order='none')}" for symbol, expr in named[:SHOWN]]
    if len(named) > SHOWN:
        lines.append(f"... {len(named) - SHOWN} more steps")
    lines += [f"{name} = {sp.sstr(expr, order='none')}" for name, expr in outputs[:SHOWN]]
    if len(outputs) > SHOWN:
        lines.append(f"... {len(outputs) - SHOWN} more cells")
    return "\n".join(map(printable, lines))


def _latex(expr: Any) -> str:
    return latex(expr, symbol_names={symbol: _latex_symbol(symbol.name) for symbol in expr.free_symbols})  # type: ignore[no-any-return]


def _latex_symbol(name: str) -> str:
    """x_1 and \beta as they are, A1_2 with its indices below, longer names as they are spelled."""
    if not (_WORD.fullmatch(name) or ((greek := _GREEK.fullmatch(name)) and greek[1].lower() in greek_letters_set)):
        return r"\mathrm{" + "".join(_SPELLED.get(c, c) for c in printable(name)) + "}"
    cell = _CELL.fullmatch(name)
    if cell is not None:
        return rf"{latex(sp.Symbol(cell[1]))}_{{{cell[2].replace('_', ',')}}}"
    head, _, rest = name.partition("_")
    if not name.isidentifier() or not rest or (len(head) == 1 and "_" not in rest):
        return latex(sp.Symbol(name))  # type: ignore[no-any-return]
    return r"\mathrm{" + name.replace("_", r"\_") + "}"


def _latex_name(name: str) -> str:
    head, bracket, index = name.partition("[")
    top, slope, bottom = head.partition("_d")
    text = _latex_symbol(head)
    plain = bottom.count("_d") == 0 if bottom.endswith("2") else bottom.count("_d") == 1  # x_dot would be read as two names
    if slope and top.startswith("d2") and plain:
        first, _, second = bottom.partition("_d")
        below = rf"{_latex_symbol(first)} \partial {_latex_symbol(second)}" if second else f"{_latex_symbol(first[:-1])}^{{2}}"
        text = rf"\frac{{\partial^{{2}} {_latex_symbol(top[2:])}}}{{\partial {below}}}"
    elif slope and top.startswith("d") and not top.startswith("d2"):
        text = rf"\frac{{\partial {_latex_symbol(top[1:] or 'f')}}}{{\partial {_latex_symbol(bottom)}}}"
    return rf"\left({text}\right)_{{{index.rstrip(']').replace(' ', '')}}}" if bracket else text


@functions.shown.written
def function_latex(function: Any) -> str | None:
    """The formula of the specialisation that was called last, None before the first call."""
    compiled = list(function._compiled.values())
    if not compiled or not hasattr(compiled[-1], "graph"):
        return None
    last = compiled[-1]
    program = last.program
    return graph_latex(last.graph, function.options) + f"\n\n{program.operations()} operations"

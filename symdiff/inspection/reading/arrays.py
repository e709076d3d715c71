"""Programs of whole arrays for readers: elementwise operations as they are written, the others as functions of arrays.

Assumes a graph that does not become few enough cells. Guarantees one equation for each value that stands more than once.
"""

from typing import Any

import sympy as sp

from symdiff.inspection.exact import exact_multiple
from symdiff.inspection.expressions import build_sympy, number
from symdiff.inspection.reading.composing import number_expression
from symdiff.inspection.reading.equations import Equation
from symdiff.inspection.reading.formula import Formula
from symdiff.inspection.reading.written import cell_name
from symdiff.ir.graph import Graph
from symdiff.ir.node import Atom
from symdiff.rulebooks.calls import called_name
from symdiff.vocabulary.heads import key_literal
from symdiff.vocabulary.ops import OPS

DEEP = 6


def array_formula(graph: Graph) -> Formula:
    """The bindings of a graph as equations, values that stand once in their places."""
    uses: dict[Atom, int] = {}
    for binding in graph.bindings:
        for operand in binding.operands:
            uses[operand] = uses.get(operand, 0) + 1
    results = {output.atom for output in graph.outputs}
    indexed = {b.operands[0] for b in graph.bindings if b.op in ("item", "getitem", "part")}
    exprs: dict[Atom, Any] = {leaf.node: sp.Symbol(leaf.name) for leaf in graph.inputs}
    depth: dict[Atom, int] = {}
    where: list[Equation] = []

    def of(atom: Atom) -> Any:
        if atom.op == "const":
            return sp.Symbol(f"array{list(atom.shape)}") if atom.shape else _number(atom.params)
        return exprs[atom]

    for binding in graph.bindings:
        args = [of(o) for o in binding.operands]
        deep = 1 + max((depth.get(o, 0) for o in binding.operands), default=0)
        if binding.op in ("reshape", "broadcast_to"):
            expr = args[0]  # the same cells
        elif binding.op == "getitem" and args[0].is_Symbol:
            expr = sp.Symbol(f"{args[0]}[{key_literal(binding.params.params['key'], binding.operands[0].shape)}]")
        elif binding.op == "item" and args[0].is_Symbol:
            expr = sp.Symbol(cell_name(args[0].name, binding.operands[0].shape, binding.params))
        elif binding.op in ("item", "part", "size", "loop"):
            expr = sp.Symbol(str(binding).partition(" = ")[2])
        elif binding.op in OPS and binding.op != "call":
            inverse = binding.op == "div" and args[0] == 1
            expr = sp.Pow(args[1], -1, evaluate=False) if inverse else build_sympy(binding.op, args)
        else:
            expr = sp.Function(called_name(binding))(*args)
        if binding not in results and (uses.get(binding, 0) > 1 or deep > DEEP or binding in indexed) and not expr.is_Symbol:
            symbol = sp.Symbol(f"v_{len(where)}")
            where.append(Equation(symbol, expr))
            expr, deep = symbol, 0
        exprs[binding], depth[binding] = expr, deep
    loops = tuple(str(binding) for binding in graph.bindings if binding.op == "loop")
    return Formula(tuple(Equation(sp.Symbol(o.name), of(o.atom)) for o in graph.outputs), tuple(where), loops)


def _number(value: Any) -> Any:
    """A number, a float as the quotient that it is the rounding of."""
    found = exact_multiple(value) if isinstance(value, float) else None
    return number(value) if found is None or found[1] else number_expression(found[0])

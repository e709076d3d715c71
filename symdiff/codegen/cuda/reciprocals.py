"""Divisions by a number whose reciprocal is there already, as products with it, for CUDA.

A division of doubles takes a GPU about twenty instructions, a product one. Assumes a Program of point values. Guarantees the
same values within rounding: only divisions by numbers that are known to be at least `LEAST` change, so that no reciprocal
overflows.
"""

import math

from symdiff.ir.node import Node
from symdiff.lowering.program import Program
from symdiff.lowering.walks import live_only

LEAST = 1e-300  # single precision stays: CuPy's kernels take its subnormal numbers, and so small reciprocals, as zero


def with_reciprocals(program: Program) -> Program:
    """The Program with fewer divisions; a reciprocal comes before the first product with it."""
    nodes, bounds = program.nodes, _lower_bounds(program.nodes)
    reciprocals: dict[int, int] = {}
    for position, node in enumerate(nodes):
        if _is_reciprocal(nodes, node) and bounds[node.operands[1]] >= LEAST:
            reciprocals[node.operands[1]] = position
    if not reciprocals:
        return program
    order: dict[int, int] = {}  # from old positions to new ones
    made: list[Node] = []
    for position, node in enumerate(nodes):
        reciprocal = reciprocals.get(node.operands[1], position) if node.op == "div" and node.dtype == "d" else position
        needed = [position] if reciprocal == position else [nodes[reciprocal].operands[0], reciprocal, position]
        for place in needed:
            if place in order:
                continue
            operands = tuple([order[o] for o in nodes[place].operands])
            made.append(nodes[place].on(operands))
            if place == position != reciprocal:
                made[-1] = Node("mul", (operands[0], order[reciprocal]), (), node.dtype, None, node.origin, node.primal)
            order[place] = len(made) - 1
    return live_only(program.over(made, order))


def _is_reciprocal(nodes: list[Node], node: Node) -> bool:
    if node.op != "div" or node.dtype != "d":
        return False
    one = nodes[node.operands[0]]
    return bool(one.op == "const" and one.dtype == "d" and one.params == 1)


def _lower_bounds(nodes: list[Node]) -> list[float]:
    """Numbers that the real values are never below, NaN aside; -inf where nothing is known."""
    bounds: list[float] = []
    for node in nodes:
        own = [bounds[o] for o in node.operands]
        bound = -math.inf
        if node.op == "const" and isinstance(node.params, float | int):
            bound = float(node.params)
        elif node.op in ("exp", "exp2", "abs", "sqrt", "hypot") or (node.op == "mul" and len(set(node.operands)) == 1):
            bound = 0.0
        elif node.op == "cosh":
            bound = 1.0
        elif node.op == "add":
            bound = own[0] + own[1]
        elif node.op == "mul" and min(own) >= 0:
            bound = own[0] * own[1]
        elif node.op == "max":
            bound = max(own)
        elif node.op == "min":
            bound = min(own)
        elif node.op == "select":
            bound = min(own[1:])
        bounds.append(bound if node.dtype in "fd" and not math.isnan(bound) else -math.inf)
    return bounds

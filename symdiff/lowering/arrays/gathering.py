"""Program to Program: sums of regions gathered into one array.

Assumes a Program of whole arrays. Guarantees that zeros around a region are not made only to be added.
"""

from dataclasses import replace
from typing import Any

from symdiff.ir.node import Node
from symdiff.lowering.program import ASSEMBLE, Program
from symdiff.lowering.walks import live_only, uses_of


def assemble_steps(program: Program) -> Program:
    """Sums of `put` nodes that nothing else uses, as one `assemble` node: parts are added in their regions of one array."""
    nodes = program.nodes
    uses = uses_of(program)
    parts: dict[int, list[tuple[int, Any]]] = {}
    made: list[Node] = []
    for position, node in enumerate(nodes):
        if node.op == "put" and node.dtype != "?":
            parts[position] = [(node.operands[0], node.params["key"])]
        elif node.op == "add" and all(nodes[o].shape == node.shape and nodes[o].dtype == node.dtype for o in node.operands):
            found: list[tuple[int, Any]] = []
            for operand in node.operands:
                if operand in parts and uses[operand] == 1:
                    found += parts[operand]
                else:
                    found.append((operand, tuple((0, n, 1) for n in node.shape)))
            if any(o in parts and uses[o] == 1 for o in node.operands):
                parts[position] = found
        if position in parts:
            operands, keys = zip(*parts[position], strict=True)
            node = Node(ASSEMBLE, operands, node.shape, node.dtype, {"keys": keys}, node.origin, node.primal)
        made.append(node)
    return live_only(replace(program, nodes=made))
